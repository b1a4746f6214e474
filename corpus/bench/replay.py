"""What the launch replay costs: against compiling, and over a whole sweep.

`python -m corpus.bench.replay` prints the replay of one launch over the time Triton takes to
compile the configuration (median over a fixed sample), and the exact partition of a GEMM sweep over
its compilation, all in one run. Needs Triton.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from typing import Annotated

import typer

from checker import KernelInput, partition
from corpus.bench.cost import console, measure, sample, show_replay
from corpus.build import cases_of
from corpus.compile import compile_case


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
    show_replay(list(measure(sample(every, target), target)))
    kernels, compile_s = sweep(family, count, target)
    start = time.perf_counter()
    found = partition(kernels)
    seconds = time.perf_counter() - start
    print(f"partition of {len(kernels)} configurations of {family}: {seconds:.1f} s, compiling "
          f"took {compile_s:.1f} s, ratio {seconds / compile_s:.2f}; {len(found.classes)} classes, "
          f"{len(found.unproved)} unproved, {len(found.errors)} errors")


if __name__ == "__main__":
    typer.run(main)
