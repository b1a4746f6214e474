"""OpenCL kernels through clang, for both vendors: ``python -m corpus.opencl --target gfx942``.

The sources are ``corpus/opencl/*.cl``; the same file becomes AMDGCN or PTX, so that one function
can be compared across vendors. Output as of ``corpus.build``: ``<store>/opencl_<target>.jsonl`` and
objects. Needs clang (16 or later) with both back ends, no device library and no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from corpus.build import STORE
from corpus.compile import TARGETS, parameter_count
from corpus.sources import SourceCase, compile_case, launch_facts, producer, write_set
from corpus.spec import Buf, cdiv

SOURCES = Path(__file__).parent / "opencl"


def cases() -> Iterator[SourceCase]:
    """All configurations."""
    for variant, threads in product(range(4), (64, 128, 256)):
        yield SourceCase("rows", {"VARIANT": variant, "THREADS": threads}, (), tuple(
            launch_facts((m, 1), threads, x=Buf("f32", m * n, axis=(m, n, 1)),
                         y=Buf("f32", m, "out"), m=m, n=n)
            for m, n in ((13, 1003), (7, 517), (5, 2051))))
    for variant, level in product(range(5), ("-O1", "-O3")):
        yield SourceCase("chain", {"VARIANT": variant, "THREADS": 64}, (level,), tuple(
            launch_facts((cdiv(n, 64), 1), 64, a=Buf("f32", n * k, axis=(n, k, 1)),
                         b=Buf("f32", k, axis=(1, k, 1), mirror=1), c=Buf("f32", n, "out"),
                         n=n, k=k)
            for n, k in ((203, 67), (129, 203), (75, 331))))
    for variant, contract in product(range(5), ("-ffp-contract=on", "-ffp-contract=off")):
        yield SourceCase("points", {"VARIANT": variant, "THREADS": 128}, (contract,), tuple(
            launch_facts((cdiv(n, 128), 1), 128, a=Buf("f32", 4 * n), b=Buf("f32", 4 * n),
                         c=Buf("f32", 4 * n, "out"), n=n) for n in (589, 251, 1025)))


def _name(case: SourceCase) -> str:
    """A case's knobs in short, unique inside a source file."""
    knobs = [f"{k}{v}" for k, v in case.macros.items()]
    return "_".join(knobs + [f.split("=")[-1] for f in case.flags])


def compile_opencl(case: SourceCase, target: str, clang: str) -> str:
    """Assembly text of a case; raises ValueError where it has parameters that no launch gives."""
    isa = TARGETS[target][3]
    where = (["amdgcn-amd-amdhsa", f"-mcpu={target}"] if isa == "gcn"
             else ["nvptx64", f"-march={target}"])
    command = [clang, "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header",
               "-nogpulib", "-S", "-O3", "-target", *where]
    text = compile_case(case, SOURCES / f"{case.source}.cl", command)
    if any(parameter_count(text, isa) != len(launch["args"]) for launch in case.launches):
        raise ValueError(f"{case.source}, {_name(case)}: hidden parameters")
    return text


def main(
    target: Annotated[str, typer.Option(help="gfx942, gfx1100, sm_90, ...")] = "gfx942",
    store: Annotated[Path, typer.Option(help="where the store lies")] = STORE,
    clang: Annotated[str, typer.Option(help="the compiler")] = "clang",
) -> None:
    """Compile the OpenCL kernels of the corpus."""
    write_set("opencl", target, producer(clang, "clang", r"version (\d+)"), store, cases(), _name,
              lambda case: compile_opencl(case, target, clang))


if __name__ == "__main__":
    typer.run(main)
