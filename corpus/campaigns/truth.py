"""Truth: the partition that samebits makes, against the bytes that the hardware wrote.

In: committed truth (``corpus.load.load_truth``). Out: a table by family: classes of bytes, static
and launch classes, false merges, share of truly equal pairs proved, what stayed opaque,
milliseconds; and, for a sample, whether the ``bytes`` domain reproduces the hardware's digests.
Exit status 1 on any false merge or wrong byte; each is kept as a finding.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from checker import api
from checker.errors import SamebitsError
from checker.launch import Launch
from checker.replay import ReplayResult, replay
from checker.replay.hashing import TAG
from checker.results import KernelInput
from corpus.campaigns.common import Options, keep
from corpus.campaigns.tally import HEADER, Tally, cells, tally, total
from corpus.device import POISON
from corpus.inputs import DRAWS, FORMATS, RAW
from corpus.load import TruthRecord, load_truth, read_lines
from corpus.pack import write_lines
from corpus.pool import Lost, run_all
from corpus.truth import digest, draw_inputs, written

console = Console(stderr=True)

#: where a run leaves what it found
OUT = Path(__file__).parents[1] / "out" / "truth.jsonl.xz"

#: draws that the bytes domain is checked on: one of each kind
BYTES_DRAWS = (0, 3, 7, 10, 12, 14, 16)


@dataclass(frozen=True, slots=True)
class Job:
    """One text with its launches and what the hardware wrote, by way of assembling it."""

    name: str
    family: str
    group: str
    producer: str
    text: str
    isa: str
    launches: tuple[dict[str, Any], ...]
    digests: tuple[tuple[str, ...], ...]
    below: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    deterministic: bool
    draws: int
    static: bool = True
    values: bool = False  # replay with the integers of each draw as launch facts


@dataclass(frozen=True, slots=True)
class Found:
    """What samebits says of one job. ``maps``: a digest for each launch, empty where it refused.

    static_class: the class that a partition without launches puts it in, second look included;
    empty: none but its own. defect: a replay found a race or another defect: such a kernel is equal
    to nothing. part: which part of its class of bytes witnesses put it in
    (``corpus.campaigns.excess``). by_values: a map holds for the integers of the draws only.
    """

    name: str
    producer: str
    family: str
    group: str
    signature: str
    modelled: bool
    maps: tuple[str, ...]
    premises: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    lines: int = 0
    static_ms: float = 0.0
    launch_ms: float = 0.0
    bytes_right: int = 0
    bytes_wrong: tuple[str, ...] = ()
    bytes_refused: str = ""
    moved_below: tuple[str, ...] = ()
    defect: bool = False
    part: int = 0
    static_class: str = ""
    by_values: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What one job gave, and what a partition without launches is made of."""

    found: Found
    examined: api.Examined | None = None


def jobs_of(records: Iterable[TruthRecord], draws: int, launches: int = 99) -> list[Job]:
    """Join the records of one text, up to ``launches`` of them; its own assembling comes first."""
    texts: dict[tuple[str, str], list[TruthRecord]] = defaultdict(list)
    for record in records:
        texts[record.kernel.name, str(record.kernel.config["producer"])].append(record)
    jobs = []
    for (name, producer), found in texts.items():
        found.sort(key=lambda r: sorted(r.below.items()))
        first, kernel = found[0], found[0].kernel
        below = tuple((json.dumps(dict(r.below)), r.digests[:launches]) for r in found[1:])
        facts = tuple(dict(launch) for launch in kernel.launches[:launches])
        jobs.append(Job(name, kernel.family, first.group, producer, kernel.text, kernel.isa, facts,
                        first.digests[:launches], below, all(r.deterministic for r in found),
                        draws))
    return jobs


def spread(jobs: Sequence[Job], count: int) -> list[Job]:
    """At most ``count`` jobs, the families taking turns, evenly spaced inside each."""
    families: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        families[job.family].append(job)
    room = dict.fromkeys(families, 0)
    while sum(room.values()) < min(count, len(jobs)):
        for name, members in families.items():
            if room[name] < len(members) and sum(room.values()) < count:
                room[name] += 1
    return [members[i * len(members) // room[name]] for name, members in families.items()
            for i in range(room[name])]


def judge(job: Job) -> Judged:
    """Sign, replay and, for some draws, reproduce one job."""
    moved = tuple(how for how, digests in job.below if digests != job.digests)
    start = time.perf_counter()
    try:
        examined = api.examine(_kernel(job), static=True) if job.static else None
        static_ms = (time.perf_counter() - start) * 1e3
        program = api.program_of(job.text, isa=job.isa)
        start, maps, reasons, defect, by_values = time.perf_counter(), [], [], False, False
        for at, facts in enumerate(job.launches):
            result = replay(program, Launch.from_json(facts))
            digest_at = result.digest if result.usable else ""
            refused = result.unsupported is not None and result.unsupported.code
            if refused == "data-dependent" or (job.values and result.usable):
                plain = digest_at
                result, digest_at = _by_values(program, facts, at, result,
                                              len(job.digests[at]))
                digest_at = digest_at or plain
                by_values |= digest_at != plain
            reasons += [f"{r.code}: {r.message}" for r in result.reasons()]
            if result.nondeterministic:
                reasons.append("nondeterministic")
            defect |= bool(result.findings)
            maps.append(digest_at)
        launch_ms = (time.perf_counter() - start) * 1e3 / max(1, len(job.launches))
        right, wrong, why_not = _bytes(program, job) if job.draws and all(maps) else (0, (), "")
    except SamebitsError as error:
        return Judged(silent(job, f"error: {error}", moved))
    found = Found(job.name, job.producer, job.family, job.group, "", False, tuple(maps),
                  tuple(sorted(result.premises)), _worst_first(reasons),
                  job.text.count("\n"), static_ms, launch_ms, right, wrong, why_not, moved,
                  defect, by_values=by_values)
    if examined is None:
        return Judged(found)
    signed = examined.signature
    why = [f"opaque: {o.text}" for o in signed.opaque if o.reaches_output]
    why += [f"{f.code}: {f.message}" for f in signed.findings]
    return Judged(replace(found, signature=signed.text, modelled=signed.modelled,
                          premises=tuple(sorted({*signed.premises, *result.premises})),
                          reasons=_worst_first([*reasons, *why])), examined)


def _worst_first(reasons: list[str]) -> tuple[str, ...]:
    """Four of the reasons; a defect of ours is among them."""
    return tuple(sorted(dict.fromkeys(reasons), key=lambda r: not r.startswith("internal")))[:4]


def _kernel(job: Job, name: str = "") -> KernelInput:
    return KernelInput(name or job.name, job.text, job.isa, launches=job.launches)


def by_one_basis(jobs: Sequence[Job], judged: Sequence[Judged], workers: int) -> list[Judged]:
    """Judge anew, by values, what is in a group with kernels whose maps hold for values only.

    A histogram by atomics has no map without the values of its integers; one by votes has, and the
    two maps say different things.
    """
    groups = {j.group for j, one in zip(jobs, judged, strict=True) if one.found.by_values}
    again = [replace(job, values=True, static=False, draws=0)
             for job, one in zip(jobs, judged, strict=True)
             if job.group in groups and all(one.found.maps) and not one.found.by_values]
    maps = {(job.name, job.producer): one.found.maps
            for job, one in run_all(judge, again, workers, seconds=300)
            if not isinstance(one, Lost)}
    return [replace(one, found=replace(one.found, maps=found, by_values=True))
            if (found := maps.get((job.name, job.producer))) and all(found) else one
            for job, one in zip(jobs, judged, strict=True)]


@dataclass(frozen=True, slots=True)
class Look:
    """A second look at a job, with these sizes taken for multiples."""

    number: int
    job: Job
    divisible: tuple[str, ...]


def look(task: Look) -> api.Examined | None:
    """What a second look says of a job; None: nothing."""
    try:
        return api.examine(_kernel(task.job), divisible=task.divisible)
    except SamebitsError:
        return None


def static_classes(jobs: Sequence[Job], judged: Sequence[Judged], workers: int) -> list[Found]:
    """Put each job into the class that a partition without launches forms, inside its group."""
    groups: dict[str, list[int]] = defaultdict(list)
    items: dict[str, list[tuple[KernelInput, api.Examined]]] = defaultdict(list)
    for number, (job, one) in enumerate(zip(jobs, judged, strict=True)):
        if one.examined is not None:
            groups[job.group].append(number)
            items[job.group].append((_kernel(job, str(number)), one.examined))
    looks = [Look(groups[name][at], jobs[groups[name][at]], sizes)
             for name, those in items.items()
             for at, sizes in api.look_again([e for _, e in those], static=True).items()]
    again = {task.number: answer for task, answer in run_all(look, looks, workers, seconds=300)
             if isinstance(answer, api.Examined)}
    found = [one.found for one in judged]
    for name, members in groups.items():
        second = {at: again[n] for at, n in enumerate(members) if n in again}
        for number, formed in enumerate(api.classify(items[name], again=second).classes):
            for n in map(int, formed.members):
                found[n] = replace(found[n], static_class=f"{name} {number}")
    return found


def _by_values(program: Any, facts: dict[str, Any], at: int, refused: ReplayResult, draws: int
               ) -> tuple[ReplayResult, str]:
    """Replay with the integers of each of the truth's draws as launch facts; one joint digest."""
    names = [a["buffer"] for a in facts["args"] if a and a.get("role") in ("in", "inout")
             and "values" not in a and "init" not in a and a.get("dtype", "f") not in FORMATS]
    digests: list[str] = []
    for kind, seed in DRAWS[:draws] if names else ():
        inputs = draw_inputs(facts, at, kind, seed)
        args = [a if not a or a.get("buffer") not in names else
                {**a, "values": [int(v) for v in inputs[a["buffer"]]]} for a in facts["args"]]
        result = replay(program, Launch.from_json({**facts, "args": args}))
        if not result.usable:
            return result, ""
        digests.append(result.digest)
    if not digests:
        return refused, ""
    return result, digest("u8", np.frombuffer("|".join(digests).encode(), np.uint8))


def silent(job: Job, why: str, moved: tuple[str, ...]) -> Found:
    """What is found of a job that samebits could not answer at all."""
    return Found(job.name, job.producer, job.family, job.group, "", False,
                 ("",) * len(job.launches), reasons=(why[:300],), lines=job.text.count("\n"),
                 moved_below=moved)


def _bytes(program: Any, job: Job) -> tuple[int, tuple[str, ...], str]:
    """Reproduce the smallest launch's bytes: how many draws agree, which do not, why refused."""
    at = min(range(len(job.launches)), key=lambda i: _work(job.launches[i]))
    right = 0
    wrong: list[str] = []
    for j in BYTES_DRAWS[: job.draws]:
        kind, seed = DRAWS[j]
        inputs = draw_inputs(job.launches[at], at, kind, seed)
        result = replay(program, Launch.from_json(job.launches[at]), domain="bytes", inputs=inputs)
        if not result.usable or result.inaccurate:
            return right, tuple(wrong), ", ".join([*(r.code for r in result.reasons()),
                                                   *result.inaccurate])
        if not all((o.words[0][o.written] == TAG).all() for o in result.outputs.values()):
            return right, tuple(wrong), "not concrete"
        found = reproduced(result, job.launches[at], inputs)
        if found == job.digests[at][j]:
            right += 1
        else:
            wrong.append(f"launch {at} draw {kind}/{seed}")
    return right, tuple(wrong), ""


def reproduced(result: ReplayResult, launch: dict[str, Any], inputs: dict[str, Any]) -> str:
    """The digest of what a replay wrote, over the whole buffers, poison included."""
    parts = []
    for name, dtype in written(launch).items():
        output = result.outputs[name]
        raw = np.dtype(RAW[dtype])
        poison = np.frombuffer(bytes([POISON]) * raw.itemsize, raw)[0]
        bits = inputs[name].copy() if name in inputs else np.full(len(output.written), poison, raw)
        bits[output.written] = output.words[1][output.written].astype(raw)
        parts.append(digest(dtype, bits))
    return "+".join(parts)


def _work(launch: dict[str, Any]) -> int:
    return sum(int(a.get("tensormap", a).get("elements", 0)) for a in launch["args"] if a)


def measure(count: int, only: str, workers: int | None, draws: int, *, bytes_every: int = 1,
            seconds: float = 1e9, out: Path | None = None, launches: int = 99,
            static: str = "all") -> list[Tally]:
    """Judge a spread of the committed truth, until the time is up; ``out`` keeps what was found.

    draws: how many the bytes domain reproduces, for each ``bytes_every``-th configuration.
    launches: how many of each configuration's. static: sign ``all`` texts, the ``plain`` ones
    (without matrix instructions), or ``none``.
    """
    everything = [j for j in jobs_of(load_truth(), draws, launches) if only in j.name]
    chosen = [replace(j, draws=0 if i % bytes_every else j.draws,
                      static=static == "all" or (static == "plain" and "mma" not in j.text))
              for i, j in enumerate(spread(everything, count))]
    # A fixed shuffle, so that a run that ends early has something of each family.
    chosen.sort(key=lambda j: digest("u8", np.frombuffer(j.name.encode(), np.uint8)))
    start = time.monotonic()
    jobs: list[Job] = []
    judged: list[Judged] = []
    workers = workers or os.cpu_count() or 1
    columns = (TextColumn("truth"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("", total=len(chosen))
        for job, one in run_all(judge, chosen, workers, seconds=300):
            if isinstance(one, Lost):
                one = Judged(silent(job, f"lost: {one.reason}", ()))
            jobs.append(job)
            judged.append(one)
            bar.advance(shown)
            if time.monotonic() - start > seconds:
                break
    found = static_classes(jobs, by_one_basis(jobs, judged, workers), workers)
    if out is not None:
        write_lines(out, [asdict(one) for one in found], 6)
    return tally(jobs, found)


def recall(path: Path) -> tuple[list[Job], list[Found]]:
    """What an earlier run left, with the jobs it was about."""
    tuples = ("maps", "premises", "reasons", "bytes_wrong", "moved_below")
    rows: list[dict[str, Any]] = list(read_lines(path))
    found = [Found(**{**row, **{name: tuple(row[name]) for name in tuples}}) for row in rows]
    jobs = {(j.name, j.producer): j for j in jobs_of(load_truth(), 0)}
    whole = [jobs[f.name, f.producer] for f in found]
    cut = [replace(job, launches=job.launches[: len(f.maps)], digests=job.digests[: len(f.maps)])
           for job, f in zip(whole, found, strict=True)]
    return cut, found


def show(rows: Sequence[Tally]) -> int:
    """Print the table and every finding; returns the exit status."""
    for row in (HEADER, *map(cells, rows), cells(total(rows))):
        print(" ".join(f"{c:>10}" if i else f"{c:22}" for i, c in enumerate(row)))
    findings = [f for row in rows for f in row.findings]
    for text in findings:
        console.print(text, markup=False)
        keep("truth", text, {"finding": text})
    console.print(f"{len(findings)} findings")
    return 1 if findings or not rows else 0


def campaign(options: Options) -> int:
    """Run the campaign; ``per_kernel`` is how many draws the bytes domain reproduces."""
    return show(measure(options.count, options.only, options.jobs,
                        min(options.per_kernel, len(BYTES_DRAWS)), seconds=options.seconds,
                        out=options.out or OUT))


def command(
    count: Annotated[int, typer.Option(help="configurations")] = 1000,
    only: Annotated[str, typer.Option(help="part of the name")] = "",
    workers: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
    draws: Annotated[int, typer.Option(help="draws the bytes domain reproduces")] = 2,
    bytes_every: Annotated[int, typer.Option(min=1, help="... for each n-th one")] = 4,
    seconds: Annotated[float, typer.Option(help="stop after this long")] = 1e9,
    launches: Annotated[int, typer.Option(min=1, help="launches of each configuration")] = 3,
    static: Annotated[str, typer.Option(help="sign all, plain (no matrix steps) or none")] = "all",
    out: Annotated[Path, typer.Option(help="what was found, compressed lines")] = OUT,
) -> None:
    """Compare samebits' partition with the bytes of the hardware."""
    raise typer.Exit(show(measure(count, only, workers, draws, bytes_every=bytes_every,
                                  seconds=seconds, out=out, launches=launches, static=static)))


if __name__ == "__main__":
    typer.run(command)
