"""`python -m corpus.campaigns NAME`: run one campaign; see the module of that name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from corpus.campaigns import cross, drift, fuzz, morph, mutate, truth

CAMPAIGNS: dict[str, Callable[[str, int, int, str, int | None, int], int]] = {
    "mutate": mutate.main, "morph": morph.main, "cross": cross.main,
    "truth": truth.main, "fuzz": fuzz.main, "drift": drift.main,
}


def main(
    campaign: Annotated[str, typer.Argument(help=" | ".join(sorted(CAMPAIGNS)))],
    isa: Annotated[str, typer.Option(help="ptx or gcn")] = "ptx",
    count: Annotated[int, typer.Option(help="mutants, rewrites or kernels")] = 1000,
    seed: Annotated[int, typer.Option(help="the same seed gives the same campaign")] = 1,
    only: Annotated[str, typer.Option(help="pattern on kernel names")] = "",
    workers: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
    per_kernel: Annotated[int, typer.Option(help="changes a kernel, about")] = 40,
) -> None:
    """Try to break samebits; the exit status is 1 on any finding."""
    if campaign not in CAMPAIGNS:
        raise typer.BadParameter(f"no campaign {campaign!r}; there are {', '.join(CAMPAIGNS)}")
    sys.exit(CAMPAIGNS[campaign](isa, count, seed, only, workers, per_kernel))


if __name__ == "__main__":
    typer.run(main)
