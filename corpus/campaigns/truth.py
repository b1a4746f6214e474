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
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from checker import api
from checker.errors import SamebitsError
from checker.launch import Launch
from checker.replay import ReplayResult, replay
from corpus.campaigns.common import console, keep
from corpus.device import POISON
from corpus.inputs import DRAWS, RAW
from corpus.load import TruthRecord, load_truth
from corpus.pack import write_lines
from corpus.pool import Lost, run_all
from corpus.truth import digest, draw_inputs, written

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


@dataclass(frozen=True, slots=True)
class Found:
    """What samebits says of one job. ``maps``: a digest for each launch, empty where it refused."""

    name: str
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


def jobs_of(records: Iterable[TruthRecord], draws: int) -> list[Job]:
    """Join the records of one text; the compiler's own assembling comes first."""
    texts: dict[tuple[str, str], list[TruthRecord]] = defaultdict(list)
    for record in records:
        texts[record.kernel.name, str(record.kernel.config["producer"])].append(record)
    jobs = []
    for (name, producer), found in texts.items():
        found.sort(key=lambda r: sorted(r.below.items()))
        first, kernel = found[0], found[0].kernel
        below = tuple((json.dumps(dict(r.below)), r.digests) for r in found[1:])
        jobs.append(Job(name, kernel.family, first.group, producer, kernel.text, kernel.isa,
                        tuple(dict(launch) for launch in kernel.launches), first.digests, below,
                        all(r.deterministic for r in found), draws))
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


def judge(job: Job) -> Found:
    """Sign, replay and, for some draws, reproduce one job."""
    moved = tuple(how for how, digests in job.below if digests != job.digests)
    start = time.perf_counter()
    try:
        signed = api.sign(job.text, isa=job.isa)
        static_ms = (time.perf_counter() - start) * 1e3
        program = api.program_of(job.text, isa=job.isa)
        start, maps, reasons = time.perf_counter(), [], []
        for facts in job.launches:
            result = replay(program, Launch.from_json(facts))
            reasons += [f"{r.code}: {r.message}" for r in result.reasons()]
            if result.nondeterministic:
                reasons.append("nondeterministic")
            maps.append(result.digest if result.usable else "")
        launch_ms = (time.perf_counter() - start) * 1e3 / max(1, len(job.launches))
        right, wrong, refused = _bytes(program, job) if job.draws and all(maps) else (0, (), "")
    except SamebitsError as error:
        return Found(job.name, job.family, job.group, "", False, ("",) * len(job.launches),
                     reasons=(f"error: {error}"[:300],), moved_below=moved)
    why = [f"opaque: {o.text}" for o in signed.opaque if o.reaches_output]
    why += [f"{f.code}: {f.message}" for f in signed.findings]
    return Found(job.name, job.family, job.group, signed.text, signed.modelled, tuple(maps),
                 tuple(sorted({*signed.premises, *result.premises})),
                 tuple(dict.fromkeys([*reasons, *why]))[:4], job.text.count("\n"), static_ms,
                 launch_ms, right, wrong, refused, moved)


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


@dataclass(slots=True)
class Tally:
    """One family's row. Pairs are counted inside groups, over all launches and draws together."""

    family: str
    configs: int = 0
    bytes_classes: int = 0
    static_classes: int = 0
    launch_classes: int = 0
    equal_pairs: int = 0
    static_proved: int = 0
    launch_proved: int = 0
    false_static: int = 0
    false_launch: int = 0
    nondeterministic: int = 0
    not_modelled: int = 0
    no_map: int = 0
    bytes_right: int = 0
    bytes_wrong: int = 0
    bytes_refused: int = 0
    static_ms: float = 0.0
    launch_ms: float = 0.0
    moved_below: int = 0
    findings: list[str] = field(default_factory=list)


def tally(jobs: Sequence[Job], results: Sequence[Found]) -> list[Tally]:
    """Compare partitions with bytes, family by family."""
    rows: dict[str, Tally] = {}
    groups: dict[str, list[tuple[Job, Found]]] = defaultdict(list)
    for job, found in zip(jobs, results, strict=True):
        row = rows.setdefault(job.family, Tally(job.family))
        row.configs += 1
        row.not_modelled += not found.modelled
        row.no_map += not all(found.maps)
        row.bytes_right += found.bytes_right
        row.bytes_wrong += len(found.bytes_wrong)
        row.bytes_refused += bool(found.bytes_refused)
        row.moved_below += len(found.moved_below)
        row.static_ms += found.static_ms
        row.launch_ms += found.launch_ms
        row.findings += [f"wrong bytes: {found.name}: {w}" for w in found.bytes_wrong]
        row.findings += [f"moved below the text without a premise: {found.name}: {how}"
                         for how in found.moved_below if "contraction" not in found.premises]
        if not job.deterministic:
            row.nondeterministic += 1
            if found.modelled or all(found.maps):
                row.findings.append(f"nondeterministic but answered: {found.name}")
        else:
            groups[job.group].append((job, found))
    for members in groups.values():
        _tally_group(rows[members[0][0].family], members)
    for row in rows.values():
        row.static_ms /= row.configs
        row.launch_ms /= row.configs
    return sorted(rows.values(), key=lambda r: r.family)


def _tally_group(row: Tally, members: Sequence[tuple[Job, Found]]) -> None:
    """Classes and pairs of one group of comparable kernels."""
    true = [job.digests for job, _ in members]
    # A kernel without a proof is a class of its own.
    static = [f.signature if f.modelled else f"alone {i}" for i, (_, f) in enumerate(members)]
    launch = [_launch_key(f, i) for i, (_, f) in enumerate(members)]
    row.bytes_classes += len(set(true))
    row.static_classes += len(set(static))
    row.launch_classes += len(_joined(static, launch))
    pairs = Counter(true)
    row.equal_pairs += sum(n * (n - 1) // 2 for n in pairs.values())
    row.static_proved += _pairs(zip(true, static, strict=True))
    joined = {key: number for number, keys in enumerate(_joined(static, launch)) for key in keys}
    row.launch_proved += _pairs(zip(true, (joined[k] for k in static), strict=True))
    row.false_static += _merged(row, "static", members, static, true)
    for at in range(len(true[0])):
        maps = [f.maps[at] or f"alone {i}" for i, (_, f) in enumerate(members)]
        row.false_launch += _merged(row, f"launch {at}", members, maps, [t[at] for t in true])


def _launch_key(found: Found, number: int) -> str:
    return "|".join(found.maps) if all(found.maps) else f"alone {number}"


def _joined(static: Sequence[str], launch: Sequence[str]) -> list[set[str]]:
    """Classes joined over both keys, each as the set of its static keys."""
    parent = {s: s for s in static}

    def find(s: str) -> str:
        while parent[s] != s:
            s = parent[s]
        return s

    first: dict[str, str] = {}
    for s, key in zip(static, launch, strict=True):
        parent[find(s)] = find(first.setdefault(key, s))
    classes: dict[str, set[str]] = defaultdict(set)
    for s in static:
        classes[find(s)].add(s)
    return list(classes.values())


def _pairs(labels: Iterable[Any]) -> int:
    """Pairs equal in both of two labels."""
    return sum(n * (n - 1) // 2 for n in Counter(labels).values())


def _merged(row: Tally, basis: str, members: Sequence[tuple[Job, Found]], keys: Sequence[str],
            true: Sequence[Any]) -> int:
    """Pairs of one key whose bytes differ; the first of each kind is shown."""
    by_key: dict[str, dict[Any, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (job, _), key, bytes_ in zip(members, keys, true, strict=True):
        by_key[key][bytes_].append(job.name)
    count = 0
    for found in by_key.values():
        sizes = [len(v) for v in found.values()]
        count += (sum(sizes) ** 2 - sum(n * n for n in sizes)) // 2
        if len(found) > 1:
            names = [v[0] for v in found.values()]
            row.findings.append(f"false merge ({basis}): {names[0]} and {names[1]}")
    return count


HEADER = ("family", "configs", "bytes", "static", "launch", "false", "static %", "launch %",
          "opaque", "no map", "bytes ok", "ms static", "ms launch")


def cells(row: Tally) -> tuple[str, ...]:
    """One row of the table, as text."""
    pairs = max(row.equal_pairs, 1)
    share = [f"{100 * n / pairs:.1f}" if row.equal_pairs else "-"
             for n in (row.static_proved, row.launch_proved)]
    right = f"{row.bytes_right}/{row.bytes_right + row.bytes_wrong}"
    return (row.family, str(row.configs), str(row.bytes_classes), str(row.static_classes),
            str(row.launch_classes), str(row.false_static + row.false_launch), *share,
            str(row.not_modelled), str(row.no_map), right, f"{row.static_ms:.0f}",
            f"{row.launch_ms:.0f}")


def total(rows: Sequence[Tally]) -> Tally:
    """The sum of the rows; times are means over configurations."""
    out = Tally("all")
    for row in rows:
        for name, value in asdict(row).items():
            if name not in ("family", "findings", "static_ms", "launch_ms"):
                setattr(out, name, getattr(out, name) + value)
        out.static_ms += row.static_ms * row.configs
        out.launch_ms += row.launch_ms * row.configs
        out.findings += row.findings
    out.static_ms /= max(1, out.configs)
    out.launch_ms /= max(1, out.configs)
    return out


def measure(count: int, only: str, workers: int | None, draws: int, *, bytes_every: int = 1,
            seconds: float = 1e9, out: Path | None = None) -> list[Tally]:
    """Judge a spread of the committed truth, until the time is up; ``out`` keeps what was found.

    draws: how many the bytes domain reproduces, for each ``bytes_every``-th configuration.
    """
    everything = [j for j in jobs_of(load_truth(), draws) if only in j.name]
    chosen = [replace(j, draws=0 if i % bytes_every else j.draws)
              for i, j in enumerate(spread(everything, count))]
    # A fixed shuffle, so that a run that ends early has something of each family.
    chosen.sort(key=lambda j: digest("u8", np.frombuffer(j.name.encode(), np.uint8)))
    start, judged = time.monotonic(), []
    columns = (TextColumn("truth"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("", total=len(chosen))
        for job, found in run_all(judge, chosen, workers or os.cpu_count() or 1, seconds=300):
            if isinstance(found, Lost):
                found = Found(job.name, job.family, job.group, "", False,
                              ("",) * len(job.launches), reasons=(f"lost: {found.reason}",))
            judged.append((job, found))
            bar.advance(shown)
            if time.monotonic() - start > seconds:
                break
    if out is not None:
        write_lines(out, [asdict(found) for _, found in judged], 6)
    return tally([job for job, _ in judged], [found for _, found in judged])


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


def main(isa: str, count: int, seed: int, only: str, workers: int | None, per_kernel: int) -> int:
    """Run the campaign; ``per_kernel`` is how many draws the bytes domain reproduces."""
    del isa, seed
    return show(measure(count, only, workers, min(per_kernel, len(BYTES_DRAWS)), out=OUT))


def command(
    count: Annotated[int, typer.Option(help="configurations")] = 1000,
    only: Annotated[str, typer.Option(help="part of the name")] = "",
    workers: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
    draws: Annotated[int, typer.Option(help="draws the bytes domain reproduces")] = 2,
    bytes_every: Annotated[int, typer.Option(min=1, help="... for each n-th one")] = 4,
    seconds: Annotated[float, typer.Option(help="stop after this long")] = 1e9,
    out: Annotated[Path, typer.Option(help="what was found, compressed lines")] = OUT,
) -> None:
    """Compare samebits' partition with the bytes of the hardware."""
    raise typer.Exit(show(measure(count, only, workers, draws, bytes_every=bytes_every,
                                  seconds=seconds, out=out)))


if __name__ == "__main__":
    typer.run(command)
