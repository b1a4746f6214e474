"""What signing and replaying cost, against compiling the same configuration in the same run.

`python -m corpus.bench.cost` compiles a fixed sample with Triton, signs each text and replays its
first launch in the same process, and prints ratios, milliseconds per thousand lines, the cost a
line by size of the text, and the memory that the largest committed text takes. Needs Triton.
Seconds are processor time of this process and its children (Triton runs an assembler), so that
other work on the machine takes nothing from either side; each side starts with garbage collected.
`python -m corpus.bench.replay` prints the replay's share of it and that of a whole GEMM sweep.
"""

from __future__ import annotations

import gc
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from checker import Launch, api
from checker.replay import replay
from checker.tree.signature import signature as signing
from checker.walk import walk
from corpus.build import cases_of, plan
from corpus.compile import compile_case
from corpus.families import families
from corpus.load import load_set, sets

BUCKETS = (0, 300, 600, 1200, 2500, 5000, 15_000, 1_000_000)
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration: lines of text, processor seconds to compile, sign and replay.

    replay_s is None where the replay refused.
    """

    name: str
    family: str
    lines: int
    compile_s: float
    sign_s: float
    replay_s: float | None
    modelled: bool


def sample(every: int, target: str, only: Sequence[str] = ()) -> list[tuple[str, int]]:
    """Return a fixed sample of (family, case index), every n-th case of each family."""
    tasks = plan(only or sorted(families()), [target], False, every)
    return [(t.family, t.index) for t in tasks]


class Clock:
    """Processor seconds of this process and its finished children."""

    def __init__(self) -> None:
        gc.collect()
        self.start = self._now()

    def _now(self) -> float:
        # microseconds: `os.times` counts hundredths of a second, and many kernels take two of them
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in used)

    def seconds(self) -> float:
        """Return what was used since the start."""
        return self._now() - self.start


def measure(chosen: Sequence[tuple[str, int]], target: str) -> Iterator[Row]:
    """Compile, sign and replay one configuration after the other, each from scratch.

    The first is done once more before, unseen: both sides load their modules and grammars then.
    """
    warnings.simplefilter("ignore")
    for _row in _measured(chosen[:1], target):
        pass
    yield from _measured(chosen, target)


def _measured(chosen: Sequence[tuple[str, int]], target: str) -> Iterator[Row]:
    for family, index in track(chosen, "cost", console=console, disable=not console.is_terminal):
        case = cases_of(family, False)[index]
        with tempfile.TemporaryDirectory() as fresh:
            os.environ["TRITON_CACHE_DIR"] = fresh
            clock = Clock()
            try:
                compiled = compile_case(case, target)
            except Exception as error:
                console.print(f"not compiled: {case.name}: {type(error).__name__}", markup=False)
                continue
            compile_s = clock.seconds()
        clock = Clock()
        # not `api.sign`, which remembers what it signed
        signature = signing(walk(api.program_of(compiled.text, isa=compiled.isa)))
        sign_s = clock.seconds()
        program = api.program_of(compiled.text, isa=compiled.isa)
        clock = Clock()
        run = replay(program, Launch.from_json(compiled.launches[0]))
        replay_s = clock.seconds()
        yield Row(case.name, family, compiled.text.count("\n"), compile_s, sign_s,
                  None if run.unsupported else replay_s, signature.modelled)


def memory_of_largest() -> tuple[str, int, float]:
    """Sign the largest committed text in a process of its own: name, lines, peak megabytes."""
    kernels = [k for name in sets() for k in load_set(name) if k.isa == "ptx"]
    largest = max(kernels, key=lambda k: len(k.text))
    code = "from corpus.bench.cost import peak; peak()"
    done = subprocess.run([sys.executable, "-c", code], input=largest.text, text=True, check=True,
                          capture_output=True)
    return largest.name, largest.text.count("\n"), float(done.stdout)


def peak() -> None:
    """Sign the text on the standard input; print the megabytes that this process ever held."""
    api.sign(sys.stdin.read())
    print(_held())


def _held() -> float:
    try:  # what the process held before it became this program does not count
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(rows: Sequence[Row]) -> None:
    """Print the figures."""
    ratio = np.array([r.sign_s / r.compile_s for r in rows])
    per_k = np.array([1e6 * r.sign_s / r.lines for r in rows])
    print(f"{len(rows)} configurations of {len({r.family for r in rows})} families; "
          f"{sum(r.modelled for r in rows)} modelled")
    print(f"processor time, sign / compile: median {np.median(ratio):.2f}, 95th percentile "
          f"{np.quantile(ratio, 0.95):.2f}")
    print(f"ms to sign a thousand lines: median {np.median(per_k):.0f}, 95th percentile "
          f"{np.quantile(per_k, 0.95):.0f}, ratio "
          f"{np.quantile(per_k, 0.95) / np.median(per_k):.1f}")
    for low, high in itertools.pairwise(BUCKETS):
        inside = [1e6 * r.sign_s / r.lines for r in rows if low <= r.lines < high]
        if inside:
            print(f"  {low:>6} to {high:>7} lines: {np.median(inside):7.0f} ms a thousand lines "
                  f"({len(inside)} texts)")
    show_replay(rows)
    name, lines, peak = memory_of_largest()
    print(f"largest committed text: {lines} lines ({name}), peak {peak:.0f} MB")


def show_replay(rows: Sequence[Row]) -> None:
    """Print the replay's cost against compiling."""
    ratio = np.array([r.replay_s / r.compile_s for r in rows if r.replay_s is not None])
    refused = sum(r.replay_s is None for r in rows)
    print(f"replay of one launch / compile: median {np.median(ratio):.2f}, 95th percentile "
          f"{np.quantile(ratio, 0.95):.2f}; not replayed: {refused}")


def main(
    every: Annotated[int, typer.Option(help="each n-th configuration of a family")] = 6,
    target: Annotated[str, typer.Option(help="what to compile for")] = "sm_90",
    only: Annotated[list[str] | None, typer.Option(help="a family; may be repeated")] = None,
) -> None:
    """Measure what signing costs against compiling."""
    rows = list(measure(sample(every, target, only or ()), target))
    if not rows:
        raise typer.BadParameter("nothing was compiled")
    show(rows)


if __name__ == "__main__":
    typer.run(main)
