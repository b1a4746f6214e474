"""Kernels from source files that a command-line compiler reads: cases, compiling, the manifest.

In: cases and a compiler's command. Out: ``<store>/<tool>_<target>.jsonl`` and objects, as of
``corpus.build``. Macros and flags are the knobs.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

from corpus.build import write_manifest, write_text
from corpus.compile import TARGETS, buffer_facts, group_of
from corpus.spec import Buf

__all__ = ["SourceCase", "compile_case", "launch_facts", "producer", "write_set"]


@dataclass(frozen=True, slots=True)
class SourceCase:
    """One compilation: source file (without its ending), macros, flags, launches."""

    source: str
    macros: Mapping[str, int]
    flags: tuple[str, ...]
    launches: tuple[dict[str, Any], ...]


def launch_facts(grid: tuple[int, int], block: int, **args: Buf | int) -> dict[str, Any]:
    """Facts of a launch in two dimensions of one-dimensional blocks."""
    facts = [buffer_facts(k, v) if isinstance(v, Buf) else {"i32": v} for k, v in args.items()]
    return {"grid": [*grid, 1], "block": [block, 1, 1], "shared": 0, "args": facts}


def compile_case(case: SourceCase, path: Path, command: Sequence[str]) -> str:
    """Assembly text of a case; the source's place on this machine stays out of it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "k.s"
        macros = [f"-D{k}={v}" for k, v in case.macros.items()]
        done = subprocess.run(
            [*command, *case.flags, *macros, path.name, "-o", str(out)],
            cwd=path.parent, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return out.read_text()


def producer(compiler: str, label: str, pattern: str) -> str:
    """The compiler's label and version, e.g. ``nvcc 13.0``."""
    run = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    found = re.search(pattern, run.stdout)
    return f"{label} {found[1] if found else '?'}"


def write_set(
    tool: str, target: str, made_by: str, store: Path, cases: Iterable[SourceCase],
    name_of: Callable[[SourceCase], str], text_of: Callable[[SourceCase], str],
) -> None:
    """Compile the cases and write their texts and manifest into the store."""
    isa, suffix = TARGETS[target][3:]
    lines = []
    for case in track(list(cases), description=tool):
        text = text_of(case)
        path = f"objects/{hashlib.sha256(text.encode()).hexdigest()[:32]}.{suffix}"
        write_text(store / path, text)
        family = f"{tool}_{case.source}"
        knobs = {**case.macros, **{f.split("=")[0]: f for f in case.flags}}
        config = {"family": family, "variant": "", "knobs": knobs, "target": target,
                  "producer": made_by, "group": group_of(family, case.launches)}
        lines.append({"name": f"{family}-{name_of(case)}-{target}", "isa": isa, "path": path,
                      "config": config, "launch": case.launches[0],
                      "launches": list(case.launches)})
    write_manifest(store / f"{tool}_{target}.jsonl", lines)
    print(f"{len(lines)} kernels in {store}")
