"""Excess: kernels whose bytes agreed on every draw and whose maps differ, each explained.

In: what a truth campaign left. The launch classes of one class of bytes run in the ``bytes`` domain
on the witness search's draws, which reveal more than the truth's. Out: the classes of bytes that a
witness shows to be several (the truth's draws were too weak); of what nothing separates, under
which supposition the trees agree (``checker.replay.suppose``: the identity that is missing, by
name); and the share of equal pairs with the truth so refined. `--out` writes what was found with
the part of its class that each kernel is in, for ``corpus.status --found``.
`python -m corpus.campaigns.excess [--found FILE] [--out FILE]`.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xxhash
from rich.console import Console
from rich.progress import Progress

from checker import Launch, api
from checker.core import Program
from checker.draws import RAW, Bits, canonical_nans
from checker.replay import ReplayResult, first_difference, replay
from checker.replay.hashing import TAG
from checker.witness import DRAWS, draw_inputs, near_boundaries
from corpus.campaigns.truth import OUT, Found, Job, recall
from corpus.pack import write_lines
from corpus.pool import Lost, run_all

#: what is tried, in order: the witness search's draws, then more of those that reveal order
TRIED = (*DRAWS, *((kind, seed) for seed in range(9, 13)
                   for kind in ("spikes", "wide", "cancel", "normal")),
         *(("probe", seed) for seed in range(17, 25)),
         *(("level", seed) for seed in range(4, 64)))

#: what is supposed to explain a pair, in order
SUPPOSED = (("finite",), ("unsigned-zero",), ("finite", "unsigned-zero"), ("reciprocal",))

#: how many of them are tried before inputs next to boundaries of narrow outputs
BEFORE = len(DRAWS)

#: seconds after which no more inputs are tried on a class
CLASS_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Bytes:
    """One class of bytes: a kernel of each launch class in it, and how many kernels that has."""

    family: str
    kernels: tuple[Job, ...]
    maps: tuple[tuple[str, ...], ...]
    counts: tuple[int, ...]
    refused: int = 0
    draws: int = len(TRIED)
    seconds: float = CLASS_SECONDS


@dataclass(frozen=True, slots=True)
class Parts:
    """What is left of a class of bytes: launch classes that no draw tells apart, as indices.

    left: (kernel, kernel, why) for the pairs of a part: the suppositions under which the maps agree
    (joined by +), `lane-pick` (a cell holds the hardware's pick, whose bytes are not known),
    `same now` (the maps are older than the identities), or `unexplained`.
    """

    parts: tuple[tuple[int, ...], ...]
    notes: tuple[str, ...]
    left: tuple[tuple[int, int, str], ...] = ()


@dataclass(slots=True)
class Row:
    """One family: classes and pairs, as the truth's draws have them and refined by witnesses."""

    family: str
    bytes_classes: int = 0
    refined: int = 0
    launch_classes: int = 0
    equal_pairs: int = 0
    proved: int = 0
    told_apart: int = 0
    left: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def classes_of(jobs: Sequence[Job], found: Sequence[Found], draws: int,
               seconds: float = CLASS_SECONDS) -> list[Bytes]:
    """Every class of bytes with its launch classes."""
    groups: dict[tuple[str, Any], list[tuple[Job, Found]]] = defaultdict(list)
    for job, answer in zip(jobs, found, strict=True):
        if _counts(job, answer):
            groups[job.group, job.digests].append((job, answer))
    out = []
    for members in groups.values():
        first: dict[tuple[str, ...], Job] = {}
        counts: dict[tuple[str, ...], int] = defaultdict(int)
        for job, answer in members:
            if all(answer.maps):
                first.setdefault(answer.maps, job)
                counts[answer.maps] += 1
        out.append(Bytes(members[0][0].family, tuple(first.values()), tuple(first),
                         tuple(counts[m] for m in first), len(members) - sum(counts.values()),
                         draws, seconds))
    return out


def with_parts(jobs: Sequence[Job], found: Sequence[Found], classes: Sequence[Bytes],
               answers: Sequence[Parts]) -> list[Found]:
    """What was found, each kernel with the part of its class of bytes that it is in.

    A kernel without maps is counted with the largest part.
    """
    number = {key: n for n, key in enumerate(dict.fromkeys(
        (job.group, job.digests) for job, f in zip(jobs, found, strict=True) if _counts(job, f)))}
    out = []
    for job, answer in zip(jobs, found, strict=True):
        part = 0
        if _counts(job, answer):
            at_class = number[job.group, job.digests]
            cls, parts = classes[at_class], answers[at_class]
            at = cls.maps.index(answer.maps) if answer.maps in cls.maps else -1
            sizes = [sum(cls.counts[i] for i in p) for p in parts.parts] or [0]
            part = next((n for n, p in enumerate(parts.parts) if at in p),
                        sizes.index(max(sizes)))
        out.append(replace(answer, part=part))
    return out


def _counts(job: Job, found: Found) -> bool:
    return job.deterministic and not found.defect


def separate(cls: Bytes) -> Parts:
    """Partition the launch classes by what the replayed bytes show, until the time is up."""
    search = _Search(cls)
    for at in range(len(cls.maps[0])):
        search.by_draws(at, TRIED[: min(cls.draws, BEFORE)])
        if cls.draws > BEFORE:
            search.by_boundaries(at)
        search.by_draws(at, TRIED[BEFORE : cls.draws])
    left = [(one, other, why) for part in search.parts if len(part) > 1
            for one, other, why in _reasons(cls, search.programs, part)]
    search.notes += [_left(cls, search.programs, *found) for found in left]
    return Parts(tuple(search.parts), tuple(search.notes), tuple(left))


class _Search:
    """A class of bytes that is being taken apart: its parts so far, and what was seen."""

    def __init__(self, cls: Bytes) -> None:
        self.cls = cls
        self.programs = [api.program_of(job.text, isa=job.isa) for job in cls.kernels]
        self.parts: list[tuple[int, ...]] = [tuple(range(len(cls.kernels)))]
        self.notes: list[str] = []
        self.until = time.monotonic() + cls.seconds

    def by_draws(self, at: int, tried: Sequence[tuple[str, int]]) -> None:
        """Try the witness search's draws at one launch."""
        for kind, seed in tried:
            for part in self._open(at, self.parts):
                inputs = draw_inputs(self._launch(part[0], at), kind, seed)
                self._refine(part, at, inputs, f"{kind}/{seed}")

    def by_boundaries(self, at: int) -> None:
        """Try inputs next to boundaries of the narrow outputs of each part's first kernel."""
        for part in self._open(at, self.parts):
            left = [part]
            other = next(i for i in part if self.cls.maps[i][at] != self.cls.maps[part[0]][at])
            differs = first_difference(*(replay(self.programs[i], self._launch(i, at))
                                         for i in (part[0], other)))
            for seed, inputs, _ in near_boundaries(
                    self.programs[part[0]], self._launch(part[0], at),
                    None if differs is None else (differs.buffer, differs.element)):
                for one in self._open(at, left):
                    split = self._refine(one, at, inputs, f"boundaries of normal/{seed}")
                    left = [p for p in left if p is not one] + split
                if not self._open(at, left):
                    break

    def _launch(self, kernel: int, at: int) -> Launch:
        return Launch.from_json(self.cls.kernels[kernel].launches[at])

    def _open(self, at: int, parts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The parts whose maps differ at a launch; none when the time is up."""
        if time.monotonic() > self.until:
            if (note := f"out of time  {self.cls.kernels[0].name} and others") not in self.notes:
                self.notes.append(note)
            return []
        return [p for p in parts if len({self.cls.maps[i][at] for i in p}) > 1]

    def _refine(self, part: tuple[int, ...], at: int, inputs: dict[str, Bits], said: str
                ) -> list[tuple[int, ...]]:
        """Take a part apart by the bytes that it gives; what is left of it."""
        split = self._split(part, at, inputs)
        if len(split) == 1:
            return [part]
        names = " | ".join(self.cls.kernels[s[0]].name for s in split)
        self.notes.append(f"witness      {names}: launch {at}, {said}")
        self.parts = [p for p in self.parts if p is not part] + split
        return split

    def _split(self, part: Sequence[int], at: int, inputs: dict[str, Bits]
               ) -> list[tuple[int, ...]]:
        """The part's members by the bytes they give; those of unknown bytes stay with the first."""
        found: dict[str, list[int]] = defaultdict(list)
        unknown: list[int] = []
        shared: dict[str, str] = {}
        for i in part:
            same = self.cls.maps[i][at]
            if same not in shared:
                result = replay(self.programs[i], self._launch(i, at), domain="bytes",
                                inputs=inputs)
                shared[same], why = _bytes(result)
                note = f"no bytes     {self.cls.kernels[i].name}: {why}"
                if why and note not in self.notes:
                    self.notes.append(note)
            (found[shared[same]] if shared[same] else unknown).append(i)
        split = list(found.values()) or [[]]
        split[0] += unknown
        return [tuple(s) for s in split]


def _bytes(result: ReplayResult) -> tuple[str, str]:
    """A digest of what a replay wrote, or why there is none that counts."""
    if not result.usable or result.inaccurate:
        return "", ", ".join([*(r.code for r in result.reasons()), *result.inaccurate])
    state = xxhash.xxh3_128()
    for name, out in sorted(result.outputs.items()):
        if not (out.words[0][out.written] == TAG).all():
            return "", "an output is not concrete"
        bits = out.words[1][out.written]
        if out.dtype in RAW:
            bits = canonical_nans(out.dtype, bits.astype(RAW[out.dtype]))
        state.update(name.encode() + np.flatnonzero(out.written).tobytes() + bits.tobytes())
    return state.hexdigest(), ""


def _reasons(cls: Bytes, programs: Sequence[Program], part: Sequence[int]
             ) -> Iterator[tuple[int, int, str]]:
    """Each pair of a part with the first supposition under which its maps agree at each launch."""
    launches = range(len(cls.maps[0]))

    def maps(i: int, names: Sequence[str]) -> list[ReplayResult]:
        return [replay(programs[i], Launch.from_json(cls.kernels[i].launches[at]), suppose=names)
                for at in launches]

    plain = {i: maps(i, ()) for i in part}
    picks = {i for i in part if any("lane-pick" in r.premises for r in plain[i])}
    why = dict.fromkeys(combinations(part, 2), "")
    for names in ((), *SUPPOSED):
        if all(why.values()):
            break
        found = {i: [r.digest for r in (maps(i, names) if names else plain[i])] for i in part}
        for one, other in why:
            if not why[one, other] and found[one] == found[other]:
                why[one, other] = "+".join(names) or "same now"
    for (one, other), reason in why.items():
        yield one, other, reason or (
            "lane-pick" if picks & {one, other} else "unexplained")


def _left(cls: Bytes, programs: Sequence[Program], one: int, two: int, why: str) -> str:
    """Where two kernels differ that no draw separates, and why that is left."""
    names = f"{cls.kernels[one].name} | {cls.kernels[two].name}"
    differing = [at for at, (x, y) in enumerate(zip(cls.maps[one], cls.maps[two], strict=True))
                 if x != y]
    for at in differing:
        d = first_difference(*(replay(programs[i], Launch.from_json(cls.kernels[i].launches[at]))
                               for i in (one, two)))
        if d is not None:
            return (f"{why:12} {names}: launch {at}, {d.kind} in {d.buffer}[{d.element}], "
                    f"{d.count} elements, lines {d.line_a} and {d.line_b}")
    return f"{why:12} {names}"


def explain(classes: Sequence[Bytes], workers: int, seconds: float = 1e9) -> list[Parts]:
    """Take apart the classes of bytes of more than one launch class, in processes.

    seconds: no class is begun later; what was not tried is left whole, and said.
    """
    whole = {id(c): Parts((tuple(range(len(c.kernels))),) if c.kernels else (), ())
             for c in classes}
    several = [c for c in classes if len(c.kernels) > 1]
    # A fixed shuffle, so that a run that ends early has something of each family.
    several.sort(key=lambda c: xxhash.xxh3_64_hexdigest(c.kernels[0].name.encode()))
    for cls in several:
        whole[id(cls)] = replace(whole[id(cls)], notes=(
            f"not tried    {cls.kernels[0].name} and {len(cls.kernels) - 1} more",))
    start = time.monotonic()
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("excess", total=len(several))
        for cls, answer in run_all(
                separate, several, workers, 2 * max((c.seconds for c in several), default=1.0)):
            if isinstance(answer, Lost):
                whole[id(cls)] = replace(whole[id(cls)], notes=(
                    f"lost         {cls.kernels[0].name} and others: {answer.reason}",))
            else:
                whole[id(cls)] = answer
            bar.advance(shown)
            if time.monotonic() - start > seconds:
                break
    return [whole[id(c)] for c in classes]


def tabulate(classes: Sequence[Bytes], answers: Iterable[Parts]) -> list[Row]:
    """Classes and pairs by family; a refused kernel counts as equal to the largest part."""
    rows: dict[str, Row] = {}
    for cls, answer in zip(classes, answers, strict=True):
        row = rows.setdefault(cls.family, Row(cls.family))
        sizes = [sum(cls.counts[i] for i in part) for part in answer.parts] or [0]
        sizes[sizes.index(max(sizes))] += cls.refused
        row.bytes_classes += 1
        row.refined += len(sizes)
        row.launch_classes += len(cls.counts) + cls.refused
        row.equal_pairs += sum(n * (n - 1) // 2 for n in sizes)
        whole = sum(sizes)
        row.told_apart += whole * (whole - 1) // 2 - sum(n * (n - 1) // 2 for n in sizes)
        for one, other, why in answer.left:
            row.left[why] += cls.counts[one] * cls.counts[other]
        row.proved += sum(n * (n - 1) // 2 for n in cls.counts)
        row.notes += answer.notes
    return sorted(rows.values(), key=lambda r: r.family)


def show(rows: Sequence[Row]) -> None:
    """Print every explanation, then the table and its total."""
    for row in rows:
        for note in row.notes:
            print(note)
    total = Row("all")
    print(f"{'family':22}{'bytes':>8}{'refined':>8}{'launch':>8}{'ratio':>7}{'pairs':>8}"
          f"{'proved':>8}{'%':>7}{'told apart':>11}  left, by what is missing")
    for row in [*rows, total]:
        if row is not total:
            for name in ("bytes_classes", "refined", "launch_classes", "equal_pairs", "proved",
                         "told_apart"):
                setattr(total, name, getattr(total, name) + getattr(row, name))
            total.left += row.left
        share = f"{100 * row.proved / row.equal_pairs:.1f}" if row.equal_pairs else "-"
        print(f"{row.family:22}{row.bytes_classes:8}{row.refined:8}{row.launch_classes:8}"
              f"{row.launch_classes / max(1, row.refined):7.2f}{row.equal_pairs:8}{row.proved:8}"
              f"{share:>7}{row.told_apart:11}  "
              + (", ".join(f"{why} {n}" for why, n in sorted(row.left.items())) or "-"))


def main(
    found: Annotated[Path, typer.Option(help="what a truth campaign left")] = OUT,
    only: Annotated[str, typer.Option(help="part of the family's name")] = "",
    draws: Annotated[int, typer.Option(help="draws tried at each launch")] = len(TRIED),
    workers: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
    seconds: Annotated[float, typer.Option(help="stop after this long")] = 1e9,
    class_seconds: Annotated[float, typer.Option(help="most time for one class")] = CLASS_SECONDS,
    out: Annotated[Path | None, typer.Option(help="what was found, with parts")] = None,
) -> None:
    """Explain every class of the launch partition that the bytes do not show."""
    pairs = [(j, f) for j, f in zip(*recall(found), strict=True) if only in j.family]
    jobs, answers = [j for j, _ in pairs], [f for _, f in pairs]
    classes = classes_of(jobs, answers, draws, class_seconds)
    parts = explain(classes, workers or os.cpu_count() or 1, seconds)
    show(tabulate(classes, parts))
    if out is not None:
        write_lines(out, [asdict(f) for f in with_parts(jobs, answers, classes, parts)], 6)


if __name__ == "__main__":
    typer.run(main)
