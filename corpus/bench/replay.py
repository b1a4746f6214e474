"""What the launch replay costs: against compiling, and over a whole sweep.

`python -m corpus.bench.replay` prints, over the time Triton takes to compile the same in the same
run: the replay of one launch (median over a fixed sample), the replays of a whole GEMM sweep, and
its exact partition, which signs each text first. Needs Triton.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from checker import KernelInput, Launch, api, partition
from checker.replay import ReplayResult, replay
from corpus.bench.cost import console, sample
from corpus.build import cases_of
from corpus.compile import compile_case


def shares(chosen: list[tuple[str, int]], target: str) -> tuple[list[float], int]:
    """Replay over compiling for each configuration, from scratch, and how many were refused."""
    found: list[float] = []
    refused = 0
    warnings.simplefilter("ignore")
    for family, index in track(chosen, "replay", console=console,
                               disable=not console.is_terminal):
        case = cases_of(family, False)[index]
        with tempfile.TemporaryDirectory() as fresh:
            os.environ["TRITON_CACHE_DIR"] = fresh
            start = time.perf_counter()
            try:
                made = compile_case(case, target)
            except Exception as error:
                console.print(f"not compiled: {case.name}: {type(error).__name__}", markup=False)
                continue
            compile_s = time.perf_counter() - start
        start = time.perf_counter()
        result = _replayed(made.text, made.isa, made.launches[0])
        if result.unsupported is None:
            found.append((time.perf_counter() - start) / compile_s)
        else:
            refused += 1
    return found, refused


def _replayed(text: str, isa: str, launch: Any) -> ReplayResult:
    """Parse, lower and replay a text."""
    return replay(api.program_of(text, isa=isa), Launch.from_json(launch))


def sweep(family: str, count: int, target: str) -> tuple[list[KernelInput], float]:
    """Compile a sweep; return its kernels at one launch each, and the seconds it took."""
    kernels: list[KernelInput] = []
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as fresh:
        os.environ["TRITON_CACHE_DIR"] = fresh
        for case in cases_of(family, True)[:count]:
            try:
                made = compile_case(case, target)
            except Exception as error:
                console.print(f"not compiled: {case.name}: {type(error).__name__}", markup=False)
                continue
            kernels.append(KernelInput(case.name, made.text, made.isa, None, dict(case.knobs),
                                       (made.launches[0],)))
    return kernels, time.perf_counter() - start


def main(
    every: Annotated[int, typer.Option(help="each n-th configuration of a family")] = 12,
    count: Annotated[int, typer.Option(help="configurations of the GEMM sweep")] = 144,
    target: Annotated[str, typer.Option(help="what to compile for")] = "sm_90",
    family: Annotated[str, typer.Option(help="the sweep")] = "gemm",
) -> None:
    """Measure what the replay costs."""
    found_s, refused = shares(sample(every, target), target)
    if found_s:
        print(f"parse, lower and replay one launch / compile: median {np.median(found_s):.2f}, "
              f"95th percentile {np.quantile(found_s, 0.95):.2f} of {len(found_s)} "
              f"configurations; not replayed: {refused}")
    kernels, compile_s = sweep(family, count, target)
    start = time.perf_counter()
    maps = {_replayed(k.text, k.isa or "ptx", k.launches[0]).digest for k in kernels}
    seconds = time.perf_counter() - start
    print(f"replay of {len(kernels)} configurations of {family}: {seconds:.1f} s, compiling took "
          f"{compile_s:.1f} s, ratio {seconds / compile_s:.2f}; {len(maps)} maps")
    start = time.perf_counter()
    found = partition(kernels)
    seconds = time.perf_counter() - start
    print(f"partition of {len(kernels)} configurations of {family}: {seconds:.1f} s, compiling "
          f"took {compile_s:.1f} s, ratio {seconds / compile_s:.2f}; {len(found.classes)} classes, "
          f"{len(found.unproved)} unproved, {len(found.errors)} errors")


if __name__ == "__main__":
    typer.run(main)
