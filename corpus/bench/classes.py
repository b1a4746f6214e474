"""Which classes exist: compile every configuration of a row, replay each text at three launches.

This is the slow half of ``corpus.bench.partition`` (its ``--build``) and needs Triton, numpy, lark,
xxhash and networkx, nothing else of the project's dependencies. On a machine with many cores::

    python3 -c "from corpus.bench.classes import build; \\
        build(['sm_90', 'gfx942'], jobs=16, seconds=480, out='corpus/out/partition')"

It stops starting work after ``seconds`` and then writes what it has; whatever ``out`` or
``corpus/data/partition`` holds already is not done again, so further calls go on where the last one
stopped. ``python -m corpus.bench.partition --pack FOLDER...`` joins the results into
``corpus/data/partition``. Files in ``out``:

* ``rows-<n>.jsonl.xz``: one configuration a line: ``target``, ``row``, ``name``, ``group`` (as in
  ``corpus.compile.group_of``), ``text`` (digest), ``grid`` and ``block`` of the launches, and
  ``classes``: one digest of the output map a launch, or ``why`` there is none; ``checker``: the
  version whose replay gave them. A configuration that cannot be built has ``error`` instead.
* ``texts-<n>.jsonl.xz``: ``target``, ``row``, ``text`` (digest), ``name`` (the first configuration
  with this text), ``isa``, ``asm``.

The classes come from the replay's domain ``trees``, never from the walk.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from corpus.bench.rows import ROWS, SHARED, Row, order, rows_of
from corpus.load import DATA, read_lines
from corpus.pool import Lost, run_all
from corpus.spec import Case

PARTITION = DATA / "partition"

#: raw bytes of text that a part holds; the window that finds likeness across kernels is as wide
PART_BYTES = 100_000_000

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One configuration, named so that any process can find its case again."""

    target: str
    row: str
    index: int
    name: str


@cache
def cases_of(row: str, target: str) -> tuple[Case, ...]:
    """The configurations of a row, enumerated once a process."""
    return tuple(next(r for r in ROWS if r.family == row).cases(target))


def tasks_of(rows: Iterable[Row], target: str) -> list[Task]:
    """The tasks of some rows, the rows taking turns, so that an early end is an even sample."""
    ranked = []
    for row in rows:
        cases = cases_of(row.family, target)
        ranked += [((i + 0.5) / len(cases), Task(target, row.family, i, case.name))
                   for i, case in enumerate(cases)]
    return [task for _, task in sorted(ranked, key=lambda pair: (pair[0], pair[1].row))]


# --- one configuration, in a worker -----------------------------------------------------------


def text_only() -> None:
    """Make Triton stop at the assembly text: the assembler below it takes most of the time."""
    import triton

    def hook(*args: Any) -> tuple[str, str] | None:
        if not args:
            return "text-only", "text-only"
        stages = args[1]
        last = list(stages)[-1]
        assert last in ("cubin", "hsaco"), last
        stages[last] = lambda source, metadata: b""
        return None

    triton.knobs.runtime.add_stages_inspection_hook = hook


def compile_text(task: Task) -> tuple[Case, Any]:
    """Compile one configuration to text; raises whatever Triton raises."""
    from corpus.compile import compile_case

    warnings.simplefilter("ignore")
    text_only()
    case = cases_of(task.row, task.target)[task.index]
    with tempfile.TemporaryDirectory(prefix="partition-") as fresh:
        os.environ["TRITON_CACHE_DIR"] = fresh
        return case, compile_case(case, task.target)


def digest_of(text: str) -> str:
    """The name of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make(task: Task, folder: Path) -> Line:
    """Compile and replay one configuration; a text already replayed is not replayed again."""
    from checker.results import CHECKER_VERSION
    from corpus.compile import group_of

    line: Line = {"target": task.target, "row": task.row, "name": task.name,
                  "checker": CHECKER_VERSION}
    try:
        case, compiled = compile_text(task)
    except Exception as error:  # a compiler may raise anything; the reason is the result
        return line | {"error": f"{type(error).__name__}: {error}".strip()[-300:]}
    shared = int(compiled.launches[0]["shared"])
    if shared > SHARED[task.target]:
        return line | {"error": f"{shared} bytes of shared memory, {task.target} has "
                                f"{SHARED[task.target]}"}
    line |= {"group": group_of(case.family, compiled.launches),
             "producer": compiled.producer, "text": digest_of(compiled.text),
             "grid": [launch["grid"] for launch in compiled.launches],
             "block": compiled.launches[0]["block"], "asm": compiled.text, "isa": compiled.isa}
    facts = json.dumps([compiled.text, compiled.launches], sort_keys=True)
    known = folder / f"{digest_of(facts)}.json"
    if known.exists():
        answer: Line = json.loads(known.read_text())
        return line | answer
    answer = replayed(compiled.text, compiled.isa, compiled.launches)
    temporary = known.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(answer))
    temporary.replace(known)
    return line | answer


def replayed(text: str, isa: str, launches: Sequence[Mapping[str, Any]]) -> Line:
    """The class of a text at each launch, or why it has none."""
    from checker import api
    from checker.errors import SamebitsError
    from checker.launch import Launch
    from checker.replay import replay

    start, classes = time.perf_counter(), []
    try:
        program = api.program_of(text, isa=isa)
        for facts in launches:
            result = replay(program, Launch.from_json(facts))
            if not result.usable:
                reasons = [f"{r.code}: {r.message}" for r in result.reasons()]
                return {"why": "; ".join(reasons or ["nondeterministic"])[:300]}
            classes.append(result.digest.removeprefix("sb1l-")[:16])
    except SamebitsError as error:
        return {"why": f"error: {error}"[:300]}
    return {"classes": classes, "ms": round((time.perf_counter() - start) * 1e3)}


# --- all of them ------------------------------------------------------------------------------


class Sink:
    """Gathers lines and texts; texts are compressed in the background, a part at a time."""

    def __init__(self, out: Path, known: set[tuple[str, str]]) -> None:
        self.out, self.known = out, known
        self.lines: list[Line] = []
        self.texts: list[Line] = []
        self.size = 0
        self.threads: list[threading.Thread] = []

    def add(self, line: Line) -> None:
        """Take one line; its text is kept once."""
        asm, isa = line.pop("asm", None), line.pop("isa", None)
        self.lines.append(line)
        if asm is not None and (line["target"], line["text"]) not in self.known:
            self.known.add((line["target"], line["text"]))
            self.texts.append({"target": line["target"], "row": line["row"], "text": line["text"],
                               "name": line["name"], "isa": isa, "asm": asm})
            self.size += len(asm)
            if self.size >= PART_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write the texts that have gathered."""
        if self.texts:
            texts, self.texts, self.size = sorted_texts(self.texts), [], 0
            thread = threading.Thread(target=write_lines, args=(fresh(self.out, "texts"), texts))
            thread.start()
            self.threads.append(thread)

    def close(self) -> None:
        """Write everything and wait for it."""
        self.flush()
        if self.lines:
            write_lines(fresh(self.out, "rows"), sorted_lines(self.lines))
        for thread in self.threads:
            thread.join()


def fresh(out: Path, kind: str) -> Path:
    """The first free part name; the empty file reserves it."""
    number = 0
    while (path := out / f"{kind}-{number}.jsonl.xz").exists():
        number += 1
    path.touch()
    return path


def sorted_lines(lines: Iterable[Line]) -> list[Line]:
    """Lines in the order of a file."""
    return sorted(lines, key=lambda line: (line["target"], line["row"], line["name"]))


def sorted_texts(texts: Iterable[Line]) -> list[Line]:
    """Texts so that neighbours resemble each other."""
    return sorted(texts, key=lambda t: (t["target"], t["row"], t["name"]))


def write_lines(path: Path, lines: Iterable[Line], preset: int = 6) -> int:
    """Write compressed JSON lines, the window as wide as a part; returns the bytes on disk.

    The file takes its name when it is whole: a call that is ended leaves the old one.
    """
    filters = ({"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 1 << 27},)
    partial_file = path.with_name(f"{path.name}.{os.getpid()}")
    with lzma.open(partial_file, "wt", encoding="utf-8", newline="\n", filters=filters) as out:
        for line in lines:
            out.write(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n")
    partial_file.replace(path)
    return path.stat().st_size


def read_parts(kind: str, *folders: Path) -> Iterator[Line]:
    """The lines of all parts of a kind (``rows``, ``texts``) in some folders."""
    for folder in folders:
        for path in sorted(folder.glob(f"{kind}*.jsonl.xz")):
            if path.stat().st_size:
                yield from read_lines(path)


def build(targets: Sequence[str] = ("sm_90", "sm_80", "sm_100", "gfx942"), *, jobs: int = 1,
          seconds: float = 480, out: str | Path = "corpus/out/partition",
          rows: Sequence[str] = (), count: int = 10**6, limit: float = 120) -> dict[str, int]:
    """Compile and replay what is not there yet, until the time is up; returns counts.

    What another version of the checker replayed is made again: only maps of one version are
    compared. count: at most so many configurations of each row and target. limit: seconds a
    configuration.
    """
    from checker.results import CHECKER_VERSION

    begin = time.monotonic()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    done = {(r["target"], r["name"]) for r in read_parts("rows", PARTITION, folder)
            if r.get("checker") == CHECKER_VERSION}
    known = {(t["target"], t["text"]) for t in read_parts("texts", PARTITION, folder)}
    tasks: list[Task] = []
    for target in targets:
        tasks += [t for t in tasks_of(rows_of(target, rows), target) if t.index < count]
    todo = [t for t in tasks if (t.target, t.name) not in done]
    sink = Sink(folder, known)
    seen = Path(tempfile.mkdtemp(prefix="partition-seen-"))
    counts = {"planned": len(tasks), "there": len(tasks) - len(todo), "made": 0, "no class": 0,
              "failed": 0}
    shown = begin
    try:
        for task, outcome in run_all(partial(make, folder=seen), todo, jobs, limit):
            if isinstance(outcome, Lost):
                outcome = {"target": task.target, "row": task.row, "name": task.name,
                           "error": f"lost: {outcome.reason}"[:300]}
            kind = ("failed" if "error" in outcome else
                    "no class" if "classes" not in outcome else "made")
            counts[kind] += 1
            sink.add(outcome)
            now = time.monotonic()
            if now - shown > 20:
                shown = now
                print(f"{now - begin:.0f} s {counts}", flush=True)
            if now - begin > seconds:
                break
    finally:
        for child in multiprocessing.active_children():  # the workers that this call started
            child.kill()
        sink.close()
        shutil.rmtree(seen, ignore_errors=True)
    counts["left"] = len(todo) - counts["made"] - counts["no class"] - counts["failed"]
    print(f"{time.monotonic() - begin:.0f} s {counts}", flush=True)
    return counts


def pack(folders: Sequence[Path], most: int, out: Path = PARTITION) -> dict[str, int]:
    """Join the parts of some builds and what is committed; returns the bytes of each file.

    Of each row and target the first ``most`` texts are kept, in the order in which the row's
    configurations are sampled: an even sample. Any text can be made again from its name, by the
    compiler that ``producer`` names (``compile_text``). Raises ValueError where one row's maps are
    of several versions of the checker.
    """
    lines = {(r["target"], r["name"]): r for r in read_parts("rows", out, *folders)}
    by: dict[tuple[str, str], set[str]] = {}
    for line in lines.values():
        if "classes" in line:
            by.setdefault((line["target"], line["row"]), set()).add(line.get("checker", "before"))
    mixed = {key: sorted(versions) for key, versions in by.items() if len(versions) > 1}
    if mixed:
        raise ValueError(f"maps of several versions of the checker, build them again: {mixed}")
    asm = {(t["target"], t["text"]): t for t in read_parts("texts", out, *folders)}
    wanted: dict[tuple[str, str], dict[str, Line]] = {}
    for line in sorted(lines.values(), key=lambda line: order(line["name"])):
        text = asm.get((line["target"], line.get("text", "")))
        kept = wanted.setdefault((line["target"], line["row"]), {})
        if text is not None and (len(kept) < most or text["text"] in kept):
            kept[text["text"]] = text
    out.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for target in sorted({target for target, _ in lines}):
        texts = [t for key, kept in wanted.items() if key[0] == target for t in kept.values()]
        parts = {f"rows-{target}": sorted_lines(r for r in lines.values() if r["target"] == target),
                 f"texts-{target}": sorted_texts(texts)}
        for name, content in parts.items():
            sizes[name] = write_lines(out / f"{name}.jsonl.xz", content, 9 | lzma.PRESET_EXTREME)
    return sizes
