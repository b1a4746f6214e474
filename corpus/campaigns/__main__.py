"""`python -m corpus.campaigns NAME`: run one campaign; see the module of that name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from corpus.campaigns import algebra, cross, drift, fuzz, morph, mutate, terms, truth
from corpus.campaigns.common import BUDGET, Options

CAMPAIGNS: dict[str, Callable[[Options], int]] = {
    "mutate": mutate.campaign, "morph": morph.campaign, "cross": cross.campaign,
    "truth": truth.campaign, "fuzz": fuzz.campaign, "drift": drift.campaign,
    "algebra": algebra.campaign, "terms": terms.campaign,
}


def main(
    campaign: Annotated[str, typer.Argument(help=" | ".join(sorted(CAMPAIGNS)))],
    isa: Annotated[str, typer.Option(help="ptx or gcn; of algebra also ptx-more")] = "ptx",
    count: Annotated[int, typer.Option(help="mutants, rewrites or kernels")] = 1000,
    seed: Annotated[int, typer.Option(help="the same seed gives the same campaign")] = 1,
    only: Annotated[str, typer.Option(help="pattern on kernel names")] = "",
    jobs: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
    per_kernel: Annotated[int, typer.Option(help="changes a kernel, about")] = 40,
    seconds: Annotated[float, typer.Option(help="stop after this long")] = 1e9,
    out: Annotated[Path | None, typer.Option(help="results; what it holds is not run again")]
    = None,
    sets: Annotated[list[str] | None, typer.Option(
        "--set", help="a committed set, again for more; default: those of the ISA")] = None,
    kinds: Annotated[str, typer.Option(help="pattern on the kinds of mutants")] = "",
    budget: Annotated[float, typer.Option(help="CPU seconds for the mutants of a kernel")]
    = BUDGET,
) -> None:
    """Try to break samebits; the exit status is 1 on any finding."""
    if campaign not in CAMPAIGNS:
        raise typer.BadParameter(f"no campaign {campaign!r}; there are {', '.join(CAMPAIGNS)}")
    sys.exit(CAMPAIGNS[campaign](Options(isa, count, seed, only, jobs, per_kernel, seconds, out,
                                         tuple(sets or ()), kinds, budget)))


if __name__ == "__main__":
    typer.run(main)
