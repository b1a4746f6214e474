"""Excess: kernels whose bytes agreed on every draw and whose maps differ, each explained.

In: what a truth campaign left. For each pair of launch classes with one set of bytes, the witness
search tries inputs that the truth's draws did not have. Out: pairs that a witness separates (the
draws were too weak), and pairs that nothing separates (an identity may be missing), with the first
difference. `python -m corpus.campaigns.excess [--found FILE]`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from checker import Launch, api
from checker.replay import first_difference, replay
from checker.witness import find_witness
from corpus.campaigns.common import console, run
from corpus.campaigns.truth import OUT, Found, Job, recall


@dataclass(frozen=True, slots=True)
class Pair:
    """Two kernels of one set of bytes and different maps at `launch`."""

    family: str
    names: tuple[str, str]
    texts: tuple[str, str]
    launches: tuple[dict[str, Any], dict[str, Any]]


def pairs_of(jobs: Sequence[Job], found: Sequence[Found]) -> list[Pair]:
    """Return one pair for each launch class beyond the first with the same bytes."""
    groups: dict[tuple[str, Any], dict[tuple[str, ...], tuple[Job, Found]]] = defaultdict(dict)
    for job, answer in zip(jobs, found, strict=True):
        if job.deterministic and answer.maps and all(answer.maps):
            groups[job.group, job.digests].setdefault(answer.maps, (job, answer))
    out = []
    for classes in groups.values():
        (first, one), *rest = classes.values()
        for job, two in rest:
            at = next(i for i, (x, y) in enumerate(zip(one.maps, two.maps, strict=True)) if x != y)
            out.append(Pair(job.family, (first.name, job.name), (first.text, job.text),
                            (first.launches[at], job.launches[at])))
    return out


def explain(pair: Pair) -> tuple[str, str]:
    """Return ("witness" | "same now" | "unexplained", what was found)."""
    one, two = (api.program_of(text) for text in pair.texts)
    left, right = (Launch.from_json(facts) for facts in pair.launches)
    difference = first_difference(replay(one, left), replay(two, right))
    if difference is None:
        return "same now", ""
    witness = find_witness(one, two, left, right)
    if witness is not None:
        return "witness", (f"{witness.buffer}[{witness.element}] {witness.bits_a:#x} against "
                           f"{witness.bits_b:#x}, {witness.kind}/{witness.seed}")
    return "unexplained", (f"{difference.kind} in {difference.buffer}[{difference.element}], "
                           f"{difference.count} elements, lines {difference.line_a} and "
                           f"{difference.line_b}")


def main(
    found: Annotated[Path, typer.Option(help="what a truth campaign left")] = OUT,
    count: Annotated[int, typer.Option(help="pairs at most")] = 1_000_000,
    workers: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
) -> None:
    """Explain every class of the launch partition that the bytes do not show."""
    pairs = pairs_of(*recall(found))[:count]
    totals: Counter[tuple[str, str]] = Counter()
    for pair, (fate, detail) in zip(pairs, run("excess", explain, pairs, workers), strict=True):
        totals[pair.family, fate] += 1
        console.print(f"{fate:12s} {pair.names[0]} | {pair.names[1]}: {detail}", markup=False)
    for (family, fate), number in sorted(totals.items()):
        print(f"{family:24s} {fate:12s} {number}")
    print(f"{len(pairs)} pairs: " + ", ".join(
        f"{sum(n for (_, f), n in totals.items() if f == fate)} {fate}"
        for fate in ("witness", "same now", "unexplained")))


if __name__ == "__main__":
    typer.run(main)
