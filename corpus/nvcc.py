"""Kernels that Triton cannot say, compiled by nvcc: ``python -m corpus.nvcc``.

The sources are ``corpus/cuda/*.cu``; knobs are macros and compiler flags. The output has the same
form as ``corpus.build``: ``<store>/nvcc_<target>.jsonl`` and objects. Needs nvcc, no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from corpus.build import STORE
from corpus.sources import SourceCase, compile_case, launch_facts, producer, write_set
from corpus.spec import Buf, cdiv

SOURCES = Path(__file__).parent / "cuda"


def _rows(m: int, n: int, threads: int, scan: bool = False) -> dict[str, Any]:
    return launch_facts((m, 1), threads, x=Buf("f32", m * n, axis=(m, n, 1)),
                        y=Buf("f32", m * n if scan else m, "out"), m=m, n=n)


def cases() -> Iterator[SourceCase]:
    """All configurations."""
    shapes = ((13, 1003), (7, 517), (5, 2051))
    small = ((13, 203), (7, 129), (5, 251))
    for order, threads in product(range(7), (64, 128, 256)):
        yield SourceCase("reduce", {"ORDER": order, "THREADS": threads}, (),
                         tuple(_rows(m, n, threads) for m, n in shapes))
    for order, threads in product(range(4), (64, 128)):
        yield SourceCase("tree", {"ORDER": order, "THREADS": threads}, (),
                         tuple(_rows(m, n, threads) for m, n in shapes))
    for variant in range(2):
        yield SourceCase("scan", {"VARIANT": variant, "THREADS": 256}, (),
                         tuple(_rows(m, n, 256, scan=True) for m, n in small))
    for variant, unroll, flag in product(range(7), (1, 4), ("-fmad=true", "-fmad=false")):
        yield SourceCase("dot", {"VARIANT": variant, "UNROLL": unroll}, (flag,), tuple(
            launch_facts((cdiv(n, 64), m), 64, a=Buf("f32", m * k, axis=(m, k, 1)),
                         b=Buf("f32", k * n, axis=(1, k, n), mirror=1), c=Buf("f32", m * n, "out"),
                         m=m, n=n, k=k) for m, n, k in ((9, 75, 203), (5, 129, 67), (3, 33, 331))))
    for variant in range(6):
        yield SourceCase("half2", {"VARIANT": variant}, (), tuple(
            launch_facts((cdiv(n, 128), 1), 128, a=Buf("f16", 2 * n), b=Buf("f16", 2 * n),
                         c=Buf("f16", 2 * n, "out"), n=n) for n in (1177, 501, 2049)))
    for variant in range(4):
        yield SourceCase("mma", {"VARIANT": variant}, (), tuple(
            launch_facts((n // 8, m // 16), 32, a=Buf("f16", m * k, axis=(m, k, 1)),
                         b=Buf("f16", n * k, axis=(n, k, 1), mirror=1), c=Buf("f32", m * n, "out"),
                         m=m, n=n, k=k)
            for m, n, k in ((48, 40, 304), (32, 24, 144), (16, 56, 208))))
    for variant, flag in product(range(10), ("-fmad=true", "-fmad=false", "-use_fast_math")):
        yield SourceCase("pointwise", {"VARIANT": variant}, (flag,), tuple(
            launch_facts((cdiv(n, 128), 1), 128, a=Buf("f32", n), b=Buf("f32", n),
                         c=Buf("f32", n, "out"), n=n) for n in (2353, 1001, 4099)))
    for variant in range(3):
        yield SourceCase("transpose", {"VARIANT": variant}, (), tuple(
            launch_facts((cdiv(n, 16), cdiv(m, 16)), 256, x=Buf("f32", m * n),
                         y=Buf("f32", m * n, "out"), m=m, n=n)
            for m, n in ((37, 75), (19, 33), (65, 47))))
    for variant, lanes, threads in product(range(4), range(3), (64, 256)):
        whole = variant > 0
        yield SourceCase("norms", {"VARIANT": variant, "LANES": lanes, "BLOCK": threads}, (),
                         tuple(_rows(m, n, threads, scan=whole) for m, n in small))
    products = ((37, 45, 203), (65, 19, 67), (16, 33, 331))
    for variant in range(5):
        rows = 64 if variant == 3 else 16
        yield SourceCase("matmul", {"VARIANT": variant}, (), tuple(
            launch_facts((cdiv(n, 16), cdiv(m, rows)), 256, a=Buf("f32", m * k, axis=(m, k, 1)),
                         b=Buf("f32", k * n, axis=(1, k, n), mirror=1), c=Buf("f32", m * n, "out"),
                         m=m, n=n, k=k) for m, n, k in products))


def _name(case: SourceCase) -> str:
    """A case's knobs in short, unique inside a source file."""
    return "_".join([f"{k}{v}" for k, v in case.macros.items()]
                    + [f.strip("-").replace("=", "") for f in case.flags])


def main(
    target: Annotated[str, typer.Option(help="sm_80, sm_90, ...")] = "sm_90",
    store: Annotated[Path, typer.Option(help="where the store lies")] = STORE,
    nvcc: Annotated[str, typer.Option(help="the compiler")] = "nvcc",
) -> None:
    """Compile the CUDA kernels of the corpus."""
    command = [nvcc, "-ptx", f"-arch={target}"]
    write_set("nvcc", target, producer(nvcc, "nvcc", r"release ([\d.]+)"), store, cases(), _name,
              lambda case: compile_case(case, SOURCES / f"{case.source}.cu", command))


if __name__ == "__main__":
    typer.run(main)
