"""Static classes over the classes that exist: ``python -m corpus.bench.partition [--isa gcn]``.

Reads ``corpus/data/partition`` (``corpus.bench.classes`` says what it holds and how it is made),
signs every distinct text in worker processes and prints one line a row of the table:

* ``configs``: configurations built, over the number asked for; ``texts``: distinct ones;
* ``exist``: classes that exist, joint over the launches replayed; ``static``: the classes that
  ``samebits partition`` forms without launch facts, by static signature (and grid or block, where
  one rests on that premise) and by a second look at sizes that another kernel shows to be
  multiples; their ``ratio`` and the ratio ``asked``; ``signed``: classes by signature alone;
* ``false``: pairs of configurations with one static class and different existing ones;
* ``proved``: share of the pairs of one existing class that share their static class;
* ``opaque``: configurations that are not modelled; ``unsigned``: no signature in time, or an error;
  ``no text``: the text is not stored and could not be made again here; ``no class``: the replay
  refused; ``failed``: not compiled, or more shared memory than the target has; ``left``: not
  reached within ``--seconds``, after which second looks at what was signed still follow. ``ms``:
  median to sign a text.

Whatever is opaque or unsigned counts as a static class of its own (one a text). Configurations
without a class or a text, or left, are counted, named by reason with ``--why``, and stay out of
the ratio. ``--count`` takes an even sample of each row. ``--save FILE`` keeps what was signed, so
that a further call with the same engine goes on there. The exit status is 1 on a false merge.
``--build`` and ``--pack`` make the data. ``measure`` and ``show`` are plain functions that need no
more packages than ``build``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus.bench.classes import (
    PARTITION,
    Line,
    Task,
    build,
    cases_of,
    compile_text,
    digest_of,
    pack,
    read_parts,
)
from corpus.bench.rows import ROWS, Row, order, rows_of
from corpus.pool import Lost, run_all

if TYPE_CHECKING:
    from checker.api import Examined
    from checker.results import KernelInput

Key = tuple[str, str, tuple[str, ...]]

TARGETS = {"ptx": ("sm_90", "sm_80", "sm_100"), "gcn": ("gfx942",)}


@dataclass(frozen=True, slots=True)
class Job:
    """One distinct text; without ``asm`` it is made again from the configuration's name.

    ``divisible``: sizes to take for multiples in a second look.
    """

    target: str
    row: str
    text: str
    name: str
    producer: str
    isa: str = ""
    asm: str | None = None
    divisible: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What the answer is filed under."""
        return self.target, self.text, self.divisible


@dataclass(frozen=True, slots=True)
class Signed:
    """What the static engine says of a text: ``found`` is ``checker.api.Examined`` as JSON."""

    found: Mapping[str, Any] | None = None
    ms: float = 0.0
    why: str = ""
    missing: bool = False

    @property
    def modelled(self) -> bool:
        """Tell whether the kernel has a signature of its own."""
        return self.found is not None and bool(self.found["signature"]["modelled"])


@dataclass(frozen=True, slots=True)
class Kernel:
    """A configuration as the checker's partition takes it."""

    line: Line
    input: KernelInput
    found: Examined


@dataclass(slots=True)
class Figures:
    """One line of the table, and what stands behind it."""

    row: Row
    target: str
    configurations: int = 0
    texts: int = 0
    exist: int = 0
    static: int = 0
    signed: int = 0
    false: int = 0
    pairs: int = 0
    proved: int = 0
    opaque: int = 0
    unsigned: int = 0
    no_text: int = 0
    no_class: int = 0
    failed: int = 0
    left: int = 0
    ms: float = 0.0
    merged: list[tuple[str, str]] = field(default_factory=list)
    split: list[tuple[str, str]] = field(default_factory=list)
    why: Counter[str] = field(default_factory=Counter)

    @property
    def ratio(self) -> float | None:
        """Static classes over classes that exist."""
        return self.static / self.exist if self.exist else None


# --- signing ----------------------------------------------------------------------------------


def sign(job: Job) -> Signed:
    """Sign one text, in a worker."""
    from checker import api
    from checker.errors import SamebitsError
    from checker.results import KernelInput

    asm, isa = job.asm, job.isa
    if asm is None:
        made = _again(job)
        if isinstance(made, str):
            return Signed(why=made, missing=True)
        asm, isa = made
    start = time.perf_counter()
    try:
        found = api.examine(KernelInput(job.name, asm, isa), divisible=job.divisible)
    except SamebitsError as error:
        return Signed(why=f"error: {error}"[:200])
    ms = (time.perf_counter() - start) * 1e3
    signature = found.signature
    if found.reasons:
        return Signed(None, ms, f"refused: {found.reasons[0].message}"[:200])
    why = ""
    if not signature.modelled:
        reasons = [f"{f.code}: {f.message}" for f in signature.findings]
        reasons += [f"opaque: {o.opcode}" for o in signature.opaque if o.reaches_output]
        why = (reasons or ["not modelled"])[0][:200]
    return Signed(found.to_json(), ms, why)


def _again(job: Job) -> tuple[str, str] | str:
    """Compile a text that is not stored; or why that cannot be done."""
    try:
        from corpus.compile import triton_version

        if triton_version() != job.producer:
            return f"no text: made by {job.producer}, here is {triton_version()}"
        names = [c.name for c in cases_of(job.row, job.target)]
        if job.name not in names:
            return "no text: the row has no such configuration any more"
        task = Task(job.target, job.row, names.index(job.name), job.name)
        compiled = compile_text(task)[1]
    except Exception as error:  # a compiler may raise anything
        return f"no text: {type(error).__name__}: {error}"[:200]
    if digest_of(compiled.text) != job.text:
        return "no text: compiling it again gives another one"
    return compiled.text, compiled.isa


def sign_all(jobs: Sequence[Job], workers: int, limit: float, seconds: float = 1e9,
             save: Path | None = None) -> dict[Key, Signed]:
    """Sign every text, each within ``limit`` seconds, until the time is up; by the job's key."""
    engine = engine_digest()
    found = recall(save, engine) if save is not None else {}
    todo = [job for job in jobs if job.key not in found]
    start = shown = time.monotonic()
    fresh: list[str] = []
    for count, (job, outcome) in enumerate(run_all(sign, todo, workers, limit), 1):
        if isinstance(outcome, Lost):
            outcome = Signed(why=f"lost: {outcome.reason}"[:200])
        found[job.key] = outcome
        fresh.append(json.dumps({"engine": engine, "key": job.key, **asdict(outcome)}))
        now = time.monotonic()
        if now - shown > 20:
            shown = now
            print(f"{now - start:.0f} s, {count} of {len(todo)} texts", file=sys.stderr, flush=True)
        if now - start > seconds:
            break
    for child in multiprocessing.active_children():  # the workers that this call started
        child.kill()
    if save is not None and fresh:
        with save.open("a") as out:
            out.write("\n".join(fresh) + "\n")
    return found


def engine_digest() -> str:
    """What signatures depend on besides the text: the sources of the checker and the grammars."""
    root = Path(__file__).parents[2]
    state = hashlib.sha256()
    for path in sorted([*root.glob("checker/**/*.py"), *root.glob("grammars/*.lark")]):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def recall(save: Path, engine: str) -> dict[Key, Signed]:
    """What an earlier call with the same engine saved."""
    found: dict[Key, Signed] = {}
    for line in save.read_text().splitlines() if save.exists() else ():
        row = json.loads(line)
        if row.pop("engine") == engine:
            target, text, divisible = row.pop("key")
            found[target, text, tuple(divisible)] = Signed(**row)
    return found


# --- counting ---------------------------------------------------------------------------------


def jobs_of(lines: Iterable[Line], texts: Iterable[Line]) -> list[Job]:
    """One job for each distinct text of some configurations."""
    jobs = {(line["target"], line["text"]): line for line in lines if "classes" in line}
    stored = {(t["target"], t["text"]): t for t in texts if (t["target"], t["text"]) in jobs}
    out = []
    for key, line in jobs.items():
        text = stored.get(key)
        out.append(Job(line["target"], line["row"], line["text"], line["name"], line["producer"],
                       text["isa"] if text else "", text["asm"] if text else None))
    return out


def kernels_of(lines: Sequence[Line], signed: Mapping[Key, Signed]) -> dict[str, list[Kernel]]:
    """The configurations that may share a static class, by what their arguments are."""
    from checker import api
    from checker.results import KernelInput

    out: dict[str, list[Kernel]] = defaultdict(list)
    for line in lines:
        answer = signed.get((line["target"], line.get("text", ""), ()))
        if answer is None or answer.found is None or "classes" not in line:
            continue
        found = replace(api.Examined.from_json(answer.found), name=line["name"])
        grid = (f"grid {line['grid']}",) if "same-grid" in found.premises else ()
        block = (f"block {line['block']}",) if "same-block" in found.premises else ()
        found = replace(found, shapes=(*grid, *block))
        out[line["group"]].append(Kernel(line, KernelInput(line["name"], ""), found))
    return out


def second_looks(lines: Sequence[Line], jobs: Sequence[Job], signed: Mapping[Key, Signed]
                 ) -> list[Job]:
    """The texts that are worth a second look, as ``checker.api.partition`` chooses them."""
    from checker import api

    by_text = {(job.target, job.text): job for job in jobs}
    out: dict[Key, Job] = {}
    for kernels in kernels_of(lines, signed).values():
        for n, sizes in api.look_again([k.found for k in kernels], static=True).items():
            line = kernels[n].line
            job = replace(by_text[line["target"], line["text"]], divisible=sizes)
            out[job.key] = job
    return list(out.values())


def static_classes(lines: Sequence[Line], signed: Mapping[Key, Signed]) -> dict[str, Hashable]:
    """The static class of each configuration that shares one, by name."""
    from checker import api

    out: dict[str, Hashable] = {}
    for group, kernels in kernels_of(lines, signed).items():
        again = {}
        for n, sizes in api.look_again([k.found for k in kernels], static=True).items():
            line = kernels[n].line
            second = signed.get((line["target"], line["text"], sizes))
            if second is not None and second.found is not None:
                again[n] = replace(api.Examined.from_json(second.found), name=line["name"],
                                   shapes=kernels[n].found.shapes)
        formed = api.classify([(k.input, k.found) for k in kernels], again=again)
        for number, one in enumerate(formed.classes):
            out |= dict.fromkeys(one.members, (group, number))
    return out


def figures(row: Row, target: str, lines: Sequence[Line],
            signed: Mapping[Key, Signed]) -> Figures:
    """The line of one row."""
    out = Figures(row, target)
    formed = static_classes(lines, signed)
    signatures: set[Hashable] = set()
    counted: list[tuple[Line, Hashable, Hashable]] = []
    times: dict[str, float] = {}
    for line in lines:
        if "error" in line:
            out.failed += 1
            out.why[f"failed: {line['error'].splitlines()[-1]}"] += 1
            continue
        out.configurations += 1
        if "classes" not in line:
            out.no_class += 1
            out.why[f"no class: {line['why']}"] += 1
            continue
        answer = signed.get((target, line["text"], ()))
        if answer is None:
            out.left += 1
            continue
        if answer.missing:
            out.no_text += 1
            out.why[answer.why] += 1
            continue
        if answer.ms:
            times[line["text"]] = answer.ms
        if not answer.modelled:
            out.opaque += bool(answer.ms)
            out.unsigned += not answer.ms
            out.why[answer.why] += 1
        static = formed.get(line["name"], (line["group"], "text", line["text"]))
        signatures.add(_by_signature(line, answer))
        counted.append((line, static, (line["group"], *line["classes"])))
    out.signed = len(signatures)
    out.texts = len({line["text"] for line in lines if "text" in line})
    out.ms = statistics.median(times.values()) if times else 0.0
    _classes(out, counted)
    return out


def _by_signature(line: Line, signed: Signed) -> Hashable:
    """What a configuration shares with others by its signature alone."""
    if signed.found is None:
        return line["group"], "text", line["text"]
    what = signed.found["signature"]["text"] if signed.modelled else signed.found["program"]
    shapes = [str(line[kind]) for kind in ("grid", "block")
              if f"same-{kind}" in signed.found["premises"]]
    return line["group"], what, *shapes


def _classes(out: Figures, counted: Sequence[tuple[Line, Hashable, Hashable]]) -> None:
    """Count classes and pairs."""
    both: dict[tuple[Hashable, Hashable], list[str]] = defaultdict(list)
    for line, static, real in counted:
        both[static, real].append(line["name"])
    statics, reals = defaultdict(list), defaultdict(list)
    for (static, real), names in both.items():
        statics[static].append(names)
        reals[real].append(names)
    out.static, out.exist = len(statics), len(reals)
    for parts in statics.values():
        out.false += _pairs(parts) - sum(comb(len(p), 2) for p in parts)
        out.merged += [(parts[0][0], other[0]) for other in parts[1:]]
    for parts in reals.values():
        out.pairs += _pairs(parts)
        out.proved += sum(comb(len(p), 2) for p in parts)
        out.split += [(parts[0][0], other[0]) for other in parts[1:]]


def _pairs(parts: Iterable[Sequence[str]]) -> int:
    return comb(sum(len(p) for p in parts), 2)


# --- the table --------------------------------------------------------------------------------

HEADER = ("target", "row", "configs", "texts", "exist", "signed", "static", "ratio", "asked",
          "false", "proved", "opaque", "unsigned", "no text", "no class", "failed", "left", "ms")


def cells(found: Figures) -> tuple[str, ...]:
    """One line of the table; a ratio over what was asked carries a mark."""
    isa = "gcn" if found.target.startswith("gfx") else "ptx"
    asked, ratio = found.row.asked[isa], found.ratio
    share = 100 * found.proved / found.pairs if found.pairs else 100.0
    return (found.target, found.row.family,
            f"{found.configurations}/{found.row.least.get(found.target, 0)}", str(found.texts),
            str(found.exist), str(found.signed), str(found.static),
            "-" if ratio is None else f"{ratio:.2f}{'!' if ratio > asked + 1e-9 else ''}",
            f"{asked:.1f}", str(found.false), f"{share:.1f}%", str(found.opaque),
            str(found.unsigned), str(found.no_text), str(found.no_class), str(found.failed),
            str(found.left), f"{found.ms:.0f}")


def measure(targets: Sequence[str], rows: Sequence[str] = (), count: int = 10**6, workers: int = 1,
            limit: float = 60, folders: Sequence[Path] = (PARTITION,), seconds: float = 1e9,
            save: Path | None = None) -> list[Figures]:
    """Sign what is stored, or an even sample of ``count`` configurations a row; the figures."""
    chosen: dict[tuple[str, str], list[Line]] = {}
    wanted = {(t, r.family): r for t in targets for r in rows_of(t, rows)}
    lines = [line for line in read_parts("rows", *folders)
             if (line["target"], line["row"]) in wanted]
    for line in sorted(lines, key=lambda line: order(line["name"])):
        mine = chosen.setdefault((line["target"], line["row"]), [])
        if len(mine) < count:
            mine.append(line)
    jobs = jobs_of([line for mine in chosen.values() for line in mine],
                   read_parts("texts", *folders))
    jobs.sort(key=lambda job: order(job.name))  # an early end is an even sample
    signed = sign_all(jobs, workers, limit, seconds, save)
    again = [job for mine in chosen.values() for job in second_looks(mine, jobs, signed)]
    signed |= sign_all(again, workers, limit, save=save)
    return [figures(row, target, chosen.get((target, family), []), signed)
            for (target, family), row in wanted.items()]


def show(found: Sequence[Figures], pairs: int = 0, why: bool = False) -> int:
    """Print the table and whatever it must not hide; the exit status."""
    table = [HEADER, *map(cells, found)]
    widths = [max(len(row[i]) for row in table) for i in range(len(HEADER))]
    for row in table:
        print(" ".join(c.ljust(w) if i < 2 else c.rjust(w)
                       for i, (c, w) in enumerate(zip(row, widths, strict=True))))
    for one in found:
        head = f"{one.target} {one.row.family}"
        for a, b in one.merged:
            print(f"false merge  {head}: {a} and {b}")
        for a, b in one.split[:pairs]:
            print(f"not proved   {head}: {a} and {b}")
        for reason, times in one.why.most_common() if why else ():
            print(f"{times:6} of {head}: {reason}")
    print(f"false merges: {sum(one.false for one in found)}")
    return 1 if any(one.false for one in found) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: plain ``argparse``, so that building needs few packages."""
    parser = argparse.ArgumentParser(prog="corpus.bench.partition", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--isa", choices=sorted(TARGETS), help="only these targets")
    add("--target", action="append", help="sm_90, sm_80, sm_100, gfx942 (repeatable)")
    add("--family", action="append", default=[], help="a row of the table (repeatable)")
    add("--count", type=int, default=10**6, help="configurations of each row")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    add("--limit", type=float, default=60, help="seconds a kernel may take")
    add("--pairs", type=int, default=0, help="show so many pairs a row that are not proved")
    add("--why", action="store_true", help="show what was opaque, unsigned or failed, and why")
    add("--build", action="store_true", help="compile and replay what is not there yet")
    add("--seconds", type=float, default=1e9, help="stop signing after this long")
    add("--save", type=Path, help="file that keeps what was signed")
    add("--out", type=Path, default=Path("corpus/out/partition"), help="where a build writes")
    add("--pack", type=Path, nargs="+", metavar="FOLDER", help="join builds into corpus/data")
    add("--texts", type=int, default=10**6, help="texts that a pack keeps of each row and target")
    chosen: Any = parser.parse_args(arguments)
    unknown = [n for n in chosen.family if n not in {r.family for r in ROWS}]
    targets = tuple(chosen.target or TARGETS.get(chosen.isa, sum(TARGETS.values(), ())))
    unknown += [t for t in targets if t not in sum(TARGETS.values(), ())]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if chosen.pack:
        for name, size in pack(chosen.pack, chosen.texts).items():
            print(f"{name}: {size / 1e6:.2f} MB")
        return 0
    if chosen.build:
        counts = build(targets, jobs=chosen.jobs, seconds=chosen.seconds, out=chosen.out,
                       rows=chosen.family, count=chosen.count, limit=max(120, chosen.limit))
        return 1 if counts["left"] else 0
    return show(measure(targets, chosen.family, chosen.count, chosen.jobs, chosen.limit,
                        seconds=chosen.seconds, save=chosen.save), chosen.pairs, chosen.why)


if __name__ == "__main__":
    sys.exit(main())
