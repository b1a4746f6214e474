"""What the launch replay costs: against compiling, and over a whole sweep.

`python -m corpus.bench.replay` prints, over the time Triton takes to compile the same in the same
run: the replay of one launch (median over a fixed sample), and the exact partition of a GEMM sweep,
spread evenly over tiles, stages and warps. Times are processor time, the compiler's subprocesses
included, so that a busy machine does not change the ratio. Needs Triton.
"""

from __future__ import annotations

import os
import resource
import tempfile
import warnings
from typing import Annotated

import numpy as np
import typer
from rich.progress import Progress, track

from checker import KernelInput, api, partition
from corpus.bench.cost import console, sample
from corpus.build import cases_of
from corpus.compile import compile_case
from corpus.spec import Case


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
            start = processor_s()
            try:
                made = compile_case(case, target)
            except Exception as error:
                console.print(f"not compiled: {case.name}: {type(error).__name__}", markup=False)
                continue
            compile_s = processor_s() - start
        start = processor_s()
        result = api.replay_kernel(made.text, made.launches[0], isa=made.isa)
        if result.unsupported is None:
            found.append((processor_s() - start) / compile_s)
        else:
            refused += 1
    return found, refused


def processor_s() -> float:
    """Processor time of this process and of the subprocesses that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def spread(family: str, count: int) -> list[Case]:
    """Configurations of a family, evenly spaced in the order of their knobs."""
    cases = cases_of(family, True)
    return [cases[i * len(cases) // count] for i in range(min(count, len(cases)))]


def sweep(family: str, count: int, target: str) -> tuple[list[KernelInput], float]:
    """Compile a sweep; return its kernels at one launch each, and the seconds it took."""
    kernels: list[KernelInput] = []
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as fresh:
        os.environ["TRITON_CACHE_DIR"] = fresh
        start = processor_s()
        for case in track(spread(family, count), "compile", console=console,
                          disable=not console.is_terminal):
            try:
                made = compile_case(case, target)
            except Exception as error:
                console.print(f"not compiled: {case.name}: {type(error).__name__}", markup=False)
                continue
            kernels.append(KernelInput(case.name, made.text, made.isa, None, dict(case.knobs),
                                       (made.launches[0],)))
    return kernels, processor_s() - start


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
    start = processor_s()
    with Progress(console=console, disable=not console.is_terminal) as bar:
        shown = bar.add_task("partition", total=len(kernels))
        found = partition(kernels, progress=lambda done, of: bar.update(shown, completed=done))
    seconds = processor_s() - start
    print(f"exact partition of {len(kernels)} configurations of {family}: {seconds:.1f} s of "
          f"processor time, compiling took {compile_s:.1f} s, ratio {seconds / compile_s:.2f}; "
          f"{len(found.classes)} classes, {len(found.unproved)} unproved, {len(found.errors)} "
          "errors")


if __name__ == "__main__":
    typer.run(main)
