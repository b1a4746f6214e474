"""Hardware truth: run configurations on an NVIDIA GPU, keep what they wrote.

``python -m corpus.truth --out FOLDER``: families (compiled on the spot) and committed sets in; out
come ``part-<n>.jsonl.xz`` files with one record a configuration: the manifest fields, ``text``,
``below`` (how the text became machine code), ``digests[launch][draw]`` (per written buffer a 64-bit
BLAKE2b of all its bytes, NaNs canonical) and ``repeats`` (False when a second run of one draw wrote
other bytes), and ``bytes.jsonl.xz`` with the first bytes of outputs by digest. Output buffers hold
``device.POISON`` before the launch. ``corpus.merge`` joins the parts into ``corpus/data/truth``.
``--dry-run`` does everything but launch.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from corpus.build import cases_of, manifest_line, plan
from corpus.compile import compile_case, triton_version
from corpus.device import Device, DeviceError
from corpus.families import families
from corpus.inputs import DRAWS, Bits, canonical_nans, draw
from corpus.load import CorpusKernel, load_set
from corpus.pack import write_lines
from corpus.pool import Lost, run_all

#: ways from text to machine code: ptxas options, or the driver's own assembler
BELOW: tuple[Mapping[str, str], ...] = (
    {"ptxas": "-O0"}, {"ptxas": "-O1"}, {"ptxas": "--maxrregcount=48"},
    {"ptxas": "--fmad=false"}, {"jit": "driver"},
)

#: draws whose outputs are kept as bytes, by index into DRAWS
KEPT_DRAWS = (0, 3, 7, 12, 14, 16)
KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Task:
    """One record to make: a case of a family or a kernel of a set, and how it is assembled."""

    source: str
    index: int
    full: bool
    below: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Worker:
    """What a worker process keeps between tasks."""

    device: Device | None = None
    inputs: dict[str, dict[tuple[int, int], dict[str, Bits]]] = field(default_factory=dict)


_WORKER = Worker()


def digest(dtype: str, bits: Bits) -> str:
    """64 bits of BLAKE2b over a buffer's little-endian bytes, NaNs made canonical."""
    data = canonical_nans(dtype, bits).tobytes()
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def written(launch: Mapping[str, Any]) -> dict[str, str]:
    """The dtype of every buffer a launch writes, by name, in parameter order."""
    bodies = [a.get("tensormap", a) for a in launch["args"] if a is not None]
    return {b["buffer"]: b["dtype"] for b in bodies if b.get("role") in ("out", "inout")}


def draw_inputs(launch: Mapping[str, Any], index: int, kind: str, seed: int) -> dict[str, Bits]:
    """All input bits of one launch and draw."""
    bodies = [a.get("tensormap", a) for a in launch["args"] if a is not None]
    return {b["buffer"]: draw(kind, seed, b, index) for b in bodies
            if b.get("role") in ("in", "inout")}


def _inputs(record: Mapping[str, Any]) -> dict[tuple[int, int], dict[str, Bits]]:
    """The inputs of all launches and draws of a record, kept for its whole group."""
    group = str(record["config"]["group"])
    if group not in _WORKER.inputs:
        _WORKER.inputs[group] = {(i, j): draw_inputs(launch, i, kind, seed)
                                 for i, launch in enumerate(record["launches"])
                                 for j, (kind, seed) in enumerate(DRAWS)}
    return _WORKER.inputs[group]


@cache
def _set(name: str) -> tuple[CorpusKernel, ...]:
    return tuple(load_set(name))


def assemble(text: str, options: str, target: str) -> bytes:
    """Machine code of PTX text by ptxas with extra options."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(text)
        arch = re.search(r"^\.target\s+(\w+)", text, re.M)
        command = [_ptxas(target), f"--gpu-name={arch.group(1) if arch else target}",
                   *options.split(), str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"ptxas: {(done.stderr or done.stdout)[-400:]}")
        return out.read_bytes()


def _ptxas(target: str) -> str:
    """The ptxas that Triton itself uses for a target."""
    from triton.backends.nvidia.compiler import get_ptxas

    return str(get_ptxas(int(target.removeprefix("sm_"))).path)


def for_driver(text: str) -> bytes:
    """PTX text for the driver's assembler; a newer ISA version is lowered to the driver's 9.0.

    The version line selects syntax only: text that needs newer syntax is refused by the driver.
    """
    version = re.search(r"^\.version\s+(\d+)\.(\d+)", text, re.M)
    if version and (int(version[1]), int(version[2])) > (9, 0):
        text = text[: version.start()] + ".version 9.0" + text[version.end() :]
    return text.encode()


def prepare(task: Task, target: str) -> tuple[dict[str, Any], bytes, str]:
    """The record without results, the loadable image and the entry's name."""
    below = dict(task.below)
    if task.source.startswith("set:"):
        kernel = _set(task.source[4:])[task.index]
        entry = re.search(r"\.entry\s+([\w$]+)", kernel.text)
        if entry is None:
            raise ValueError(f"{kernel.name}: no entry")
        record = {"name": kernel.name, "isa": kernel.isa, "config": dict(kernel.config),
                  "launches": [dict(launch) for launch in kernel.launches]}
        record |= {"text": kernel.text, "below": {"jit": "driver"}}
        return record, for_driver(kernel.text), entry.group(1)
    case = cases_of(task.source, task.full)[task.index]
    compiled = compile_case(case, target)
    record = manifest_line(case, compiled, target, "")
    del record["path"], record["launch"]
    record |= {"text": compiled.text, "below": below}
    image = compiled.image
    if "ptxas" in below:
        image = assemble(compiled.text, below["ptxas"], target)
    elif "jit" in below:
        image = for_driver(compiled.text)
    return record, image, compiled.entry


def run_one(task: Task, target: str, dry: bool) -> dict[str, Any]:
    """Make one record; a failure is a record with ``error``."""
    warnings.simplefilter("ignore")
    try:
        record, image, entry = prepare(task, target)
    except Exception as error:  # whatever a compiler raises is the result
        return {"task": str(task), "error": f"{type(error).__name__}: {error}"[-800:]}
    if dry:
        for launch, inputs in zip(record["launches"], _inputs(record).values(), strict=False):
            assert written(launch), "a launch must write something"
            assert inputs, "a launch must read something"
        return record
    try:
        if _WORKER.device is None:
            _WORKER.device = Device().open()
        return measure(_WORKER.device, record, image, entry)
    except DeviceError as error:
        # A fault poisons the context for good: the pool starts another process.
        if error.code in (700, 702, 715, 716, 717, 718, 719):
            os._exit(error.code % 256)
        return {"task": str(task), "name": record["name"], "error": str(error)[-800:]}


def measure(device: Device, record: dict[str, Any], image: bytes, entry: str) -> dict[str, Any]:
    """Run all launches and draws of a record and fill in its results."""
    inputs = _inputs(record)
    shared = max(int(launch.get("shared", 0)) for launch in record["launches"])
    module, function = device.load(image, entry, shared)
    digests, repeats = [], True
    kept: dict[str, bytes] = {}
    for i, launch in enumerate(record["launches"]):
        dtypes, row = written(launch), []
        for j in range(len(DRAWS)):
            out = device.launch(function, launch, inputs[i, j])
            found = {name: digest(dtypes[name], bits) for name, bits in out.items()}
            row.append("+".join(found[name] for name in dtypes))
            if i == 0 and j in KEPT_DRAWS:
                kept |= {found[name]: out[name].tobytes()[:KEPT_BYTES] for name in dtypes}
            if j == 0:
                again = device.launch(function, launch, inputs[i, j])
                repeats &= all(digest(dtypes[n], again[n]) == found[n] for n in dtypes)
        digests.append(row)
    device.unload(module)
    record |= {"digests": digests, "repeats": repeats}
    record["kept"] = {key: base64.b64encode(data).decode() for key, data in kept.items()}
    return record


class Sink:
    """Writes records in compressed parts as they come, so that a time-out loses little."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        self.rows: list[dict[str, Any]] = []
        self.kept: dict[str, str] = {}
        self.per_group: dict[str, int] = {}
        self.parts = 0
        self.threads: list[threading.Thread] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, record: dict[str, Any], most: int) -> None:
        """Take a record; its output bytes are kept while its group has fewer than ``most``."""
        group = record.get("config", {}).get("group", "")
        for key, data in record.pop("kept", {}).items():
            if key not in self.kept and self.per_group.get(group, 0) < most:
                self.kept[key] = data
                self.per_group[group] = self.per_group.get(group, 0) + 1
        self.rows.append(record)
        if len(self.rows) >= self.size:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered, in the background."""
        if not self.rows:
            return
        rows, self.rows = self.rows, []
        path = self.folder / f"part-{self.parts}.jsonl.xz"
        self.parts += 1
        thread = threading.Thread(target=write_lines, args=(path, rows, 6))
        thread.start()
        self.threads.append(thread)

    def close(self) -> None:
        """Write the rest and wait for all parts."""
        self.flush()
        rows = [{"digest": key, "bytes": data} for key, data in sorted(self.kept.items())]
        write_lines(self.folder / "bytes.jsonl.xz", rows, 6)
        for thread in self.threads:
            thread.join()


def tasks_for(names: list[str], sets: list[str], target: str, full: bool, cap: int,
              below_every: int) -> Iterator[Task]:
    """At most ``cap`` evenly spaced cases a family, some also assembled in other ways, and sets.

    Families take turns, so that a run that ends early has something of each.
    """
    queues: list[list[Task]] = []
    for name in names:
        planned = plan([name], [target], full)
        step = max(1, -(-len(planned) // cap))
        # Shifting inside the stride visits all values of the innermost knobs.
        chosen = [planned[min(i * step + i % step, len(planned) - 1)]
                  for i in range(-(-len(planned) // step))]
        queue = []
        for i, task in enumerate(chosen):
            queue.append(Task(name, task.index, full))
            if below_every and i % below_every == below_every // 2:
                queue += [Task(name, task.index, full, tuple(b.items())) for b in BELOW]
        queues.append(queue)
    queues += [[Task(f"set:{n}", i, full) for i in range(len(_set(n)))] for n in sets]
    for turn in zip_longest(*queues):
        yield from (task for task in turn if task is not None)


def main(
    out: Annotated[Path, typer.Option(help="folder for the parts")],
    family: Annotated[list[str] | None, typer.Option(help="only these families")] = None,
    kernel_set: Annotated[list[str] | None, typer.Option(help="committed sets to run")] = None,
    target: Annotated[str, typer.Option(help="what to compile for")] = "sm_90",
    full: Annotated[bool, typer.Option(help="the whole knob space")] = False,
    cap: Annotated[int, typer.Option(min=1, help="most cases a family")] = 10_000,
    below_every: Annotated[int, typer.Option(min=0, help="other assemblers for each n-th")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="worker processes")] = os.cpu_count() or 1,
    seconds: Annotated[float, typer.Option(help="stop starting work after this long")] = 1e9,
    part: Annotated[int, typer.Option(min=1, help="records a part")] = 1000,
    keep: Annotated[int, typer.Option(min=0, help="outputs kept a group")] = 24,
    dry_run: Annotated[bool, typer.Option(help="compile and draw, but launch nothing")] = False,
) -> None:
    """Run the corpus on a GPU and keep what it wrote."""
    console = Console(stderr=True)
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp(prefix="corpus-triton-"))
    names = [n for n in (family if family is not None else list(families())) if n]
    tasks = list(tasks_for(names, kernel_set or [], target, full, cap, below_every))
    sink, start, failed = Sink(out, part), time.monotonic(), 0
    about = {"device": {} if dry_run else Device().open().describe(), "triton": triton_version(),
             "draws": [list(d) for d in DRAWS], "poison": 0xA5, "kept_bytes": KEPT_BYTES}
    (out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    columns = (TextColumn("truth"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    work = partial(run_one, target=target, dry=dry_run)
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task("", total=len(tasks))
        for task, outcome in run_all(work, tasks, jobs, seconds=90):
            if isinstance(outcome, Lost):
                outcome = {"task": str(task), "error": outcome.reason}
            if "error" in outcome:
                failed += 1
                console.print(f"failed: {outcome['task']}: {outcome['error'][-300:]}", markup=False)
            sink.add(outcome, keep)
            bar.update(shown, advance=1)
            if time.monotonic() - start > seconds:
                console.print(f"out of time after {len(tasks) - int(bar.tasks[0].remaining or 0)}")
                break
    sink.close()
    console.print(f"{len(tasks)} planned, {failed} failed, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    typer.run(main)
