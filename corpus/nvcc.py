"""Kernels that Triton cannot say, compiled by nvcc: ``python -m corpus.nvcc``.

The sources are ``corpus/cuda/*.cu``; knobs are macros and compiler flags. The output has the same
form as ``corpus.build``: ``<store>/nvcc_<target>.jsonl`` and objects. Needs nvcc, no GPU.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from corpus.build import STORE, write_manifest, write_text
from corpus.compile import buffer_facts, group_of
from corpus.spec import Buf, cdiv

SOURCES = Path(__file__).parent / "cuda"


@dataclass(frozen=True, slots=True)
class CudaCase:
    """One compilation: source, entry, macros, flags, and launches as (grid, block, arguments)."""

    source: str
    entry: str
    macros: Mapping[str, int]
    flags: tuple[str, ...]
    launches: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """A readable name, unique inside a target."""
        knobs = "_".join([f"{k}{v}" for k, v in self.macros.items()]
                         + [f.strip("-").replace("=", "") for f in self.flags])
        return f"nvcc_{self.source}-{knobs}"


def _launch(grid: tuple[int, int], block: int, **args: Buf | int) -> dict[str, Any]:
    facts = [buffer_facts(k, v) if isinstance(v, Buf) else {"i32": v} for k, v in args.items()]
    return {"grid": [*grid, 1], "block": [block, 1, 1], "shared": 0, "args": facts}


def _rows(m: int, n: int, threads: int, scan: bool = False) -> dict[str, Any]:
    return _launch((m, 1), threads, x=Buf("f32", m * n, axis=(m, n, 1)),
                   y=Buf("f32", m * n if scan else m, "out"), m=m, n=n)


def cases() -> Iterator[CudaCase]:
    """All configurations."""
    shapes = ((13, 1003), (7, 517), (5, 2051))
    small = ((13, 203), (7, 129), (5, 251))
    for order, threads in product(range(7), (64, 128, 256)):
        yield CudaCase("reduce", "row_sum", {"ORDER": order, "THREADS": threads}, (),
                       tuple(_rows(m, n, threads) for m, n in shapes))
    for order, threads in product(range(4), (64, 128)):
        yield CudaCase("tree", "tree_sum", {"ORDER": order, "THREADS": threads}, (),
                       tuple(_rows(m, n, threads) for m, n in shapes))
    for variant in range(2):
        yield CudaCase("scan", "scan", {"VARIANT": variant, "THREADS": 256}, (),
                       tuple(_rows(m, n, 256, scan=True) for m, n in small))
    for variant, unroll, flag in product(range(7), (1, 4), ("-fmad=true", "-fmad=false")):
        yield CudaCase("dot", "dot", {"VARIANT": variant, "UNROLL": unroll}, (flag,), tuple(
            _launch((cdiv(n, 64), m), 64, a=Buf("f32", m * k, axis=(m, k, 1)),
                    b=Buf("f32", k * n, axis=(1, k, n), mirror=1), c=Buf("f32", m * n, "out"),
                    m=m, n=n, k=k) for m, n, k in ((9, 75, 203), (5, 129, 67), (3, 33, 331))))
    for variant in range(6):
        yield CudaCase("half2", "axpy", {"VARIANT": variant}, (), tuple(
            _launch((cdiv(n, 128), 1), 128, a=Buf("f16", 2 * n), b=Buf("f16", 2 * n),
                    c=Buf("f16", 2 * n, "out"), n=n) for n in (1177, 501, 2049)))
    for variant in range(4):
        yield CudaCase("mma", "mma_tile", {"VARIANT": variant}, (), tuple(
            _launch((n // 8, m // 16), 32, a=Buf("f16", m * k, axis=(m, k, 1)),
                    b=Buf("f16", n * k, axis=(n, k, 1), mirror=1), c=Buf("f32", m * n, "out"),
                    m=m, n=n, k=k) for m, n, k in ((48, 40, 304), (32, 24, 144), (16, 56, 208))))
    for variant, flag in product(range(10), ("-fmad=true", "-fmad=false", "-use_fast_math")):
        yield CudaCase("pointwise", "pointwise", {"VARIANT": variant}, (flag,), tuple(
            _launch((cdiv(n, 128), 1), 128, a=Buf("f32", n), b=Buf("f32", n),
                    c=Buf("f32", n, "out"), n=n) for n in (2353, 1001, 4099)))
    for variant in range(3):
        yield CudaCase("transpose", "transpose", {"VARIANT": variant}, (), tuple(
            _launch((cdiv(n, 16), cdiv(m, 16)), 256, x=Buf("f32", m * n),
                    y=Buf("f32", m * n, "out"), m=m, n=n)
            for m, n in ((37, 75), (19, 33), (65, 47))))


def compile_cuda(case: CudaCase, target: str, nvcc: str) -> str:
    """PTX text of a case, without the source's place on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "k.ptx"
        command = [nvcc, "-ptx", f"-arch={target}", *case.flags,
                   *(f"-D{k}={v}" for k, v in case.macros.items()), f"{case.source}.cu",
                   "-o", str(out)]
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return out.read_text()


def version(nvcc: str) -> str:
    """The producer string, e.g. ``nvcc 13.0``."""
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release ([\d.]+)", said)
    return f"nvcc {found.group(1) if found else '?'}"


def main(
    target: Annotated[str, typer.Option(help="sm_80, sm_90, ...")] = "sm_90",
    store: Annotated[Path, typer.Option(help="where the store lies")] = STORE,
    nvcc: Annotated[str, typer.Option(help="the compiler")] = "nvcc",
) -> None:
    """Compile the CUDA kernels of the corpus."""
    producer, lines = version(nvcc), []
    for case in track(list(cases()), description="nvcc"):
        text = compile_cuda(case, target, nvcc)
        path = f"objects/{hashlib.sha256(text.encode()).hexdigest()[:32]}.ptx"
        write_text(store / path, text)
        family = f"nvcc_{case.source}"
        knobs = {**case.macros, **{f.split("=")[0]: f for f in case.flags}}
        config = {"family": family, "variant": "", "knobs": knobs, "target": target,
                  "producer": producer, "group": group_of(family, case.launches)}
        lines.append({"name": f"{case.name}-{target}", "isa": "ptx", "path": path,
                      "config": config, "launch": case.launches[0],
                      "launches": list(case.launches)})
    write_manifest(store / f"nvcc_{target}.jsonl", lines)
    print(f"{len(lines)} kernels in {store}")


if __name__ == "__main__":
    typer.run(main)
