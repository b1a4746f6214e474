"""OpenCL kernels through clang, for both vendors: ``python -m corpus.opencl --target gfx942``.

The sources are ``corpus/opencl/*.cl``; the same file becomes AMDGCN or PTX, so that one function
can be compared across vendors. Output as of ``corpus.build``: ``<store>/opencl_<target>.jsonl`` and
objects. Needs clang (16 or later) with both back ends, no device library and no GPU.
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
from corpus.compile import TARGETS, buffer_facts, group_of, parameter_count
from corpus.spec import Buf, cdiv

SOURCES = Path(__file__).parent / "opencl"


@dataclass(frozen=True, slots=True)
class OpenclCase:
    """One compilation: source (and entry), macros, flags, launches."""

    source: str
    macros: Mapping[str, int]
    flags: tuple[str, ...]
    launches: tuple[dict[str, Any], ...]

    @property
    def name(self) -> str:
        """A readable name, unique inside a target."""
        knobs = [f"{k}{v}" for k, v in self.macros.items()]
        return f"opencl_{self.source}-" + "_".join(knobs + [f.split("=")[-1] for f in self.flags])


def _launch(groups: int, threads: int, **args: Buf | int) -> dict[str, Any]:
    facts = [buffer_facts(k, v) if isinstance(v, Buf) else {"i32": v} for k, v in args.items()]
    return {"grid": [groups, 1, 1], "block": [threads, 1, 1], "shared": 0, "args": facts}


def cases() -> Iterator[OpenclCase]:
    """All configurations."""
    for variant, threads in product(range(4), (64, 128, 256)):
        yield OpenclCase("rows", {"VARIANT": variant, "THREADS": threads}, (), tuple(
            _launch(m, threads, x=Buf("f32", m * n, axis=(m, n, 1)), y=Buf("f32", m, "out"),
                    m=m, n=n) for m, n in ((13, 1003), (7, 517), (5, 2051))))
    for variant, level in product(range(5), ("-O1", "-O3")):
        yield OpenclCase("chain", {"VARIANT": variant, "THREADS": 64}, (level,), tuple(
            _launch(cdiv(n, 64), 64, a=Buf("f32", n * k, axis=(n, k, 1)),
                    b=Buf("f32", k, axis=(1, k, 1), mirror=1), c=Buf("f32", n, "out"), n=n, k=k)
            for n, k in ((203, 67), (129, 203), (75, 331))))
    for variant, contract in product(range(5), ("-ffp-contract=on", "-ffp-contract=off")):
        yield OpenclCase("points", {"VARIANT": variant, "THREADS": 128}, (contract,), tuple(
            _launch(cdiv(n, 128), 128, a=Buf("f32", 4 * n), b=Buf("f32", 4 * n),
                    c=Buf("f32", 4 * n, "out"), n=n) for n in (589, 251, 1025)))


def compile_opencl(case: OpenclCase, target: str, clang: str) -> str:
    """Assembly text of a case."""
    amd = TARGETS[target][3] == "gcn"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "k.s"
        where = ["-target", "amdgcn-amd-amdhsa" if amd else "nvptx64", f"-mcpu={target}" if amd
                 else f"-march={target}"]
        command = [clang, "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header",
                   "-nogpulib", "-S", "-O3", *where, *case.flags,
                   *(f"-D{k}={v}" for k, v in case.macros.items()), f"{case.source}.cl",
                   "-o", str(out)]
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        return out.read_text()


def version(clang: str) -> str:
    """The producer string, e.g. ``clang 19``."""
    said = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)", said)
    return f"clang {found.group(1) if found else '?'}"


def main(
    target: Annotated[str, typer.Option(help="gfx942, gfx1100, sm_90, ...")] = "gfx942",
    store: Annotated[Path, typer.Option(help="where the store lies")] = STORE,
    clang: Annotated[str, typer.Option(help="the compiler")] = "clang",
) -> None:
    """Compile the OpenCL kernels of the corpus."""
    producer, lines = version(clang), []
    isa, suffix = TARGETS[target][3:]
    for case in track(list(cases()), description="clang"):
        text = compile_opencl(case, target, clang)
        path = f"objects/{hashlib.sha256(text.encode()).hexdigest()[:32]}.{suffix}"
        write_text(store / path, text)
        family = f"opencl_{case.source}"
        for launch in case.launches:
            if parameter_count(text, isa) != len(launch["args"]):
                raise ValueError(f"{case.name}: hidden parameters")
        config = {"family": family, "variant": "", "target": target, "producer": producer,
                  "knobs": {**case.macros, **{f.split("=")[0]: f for f in case.flags}},
                  "group": group_of(family, case.launches)}
        lines.append({"name": f"{case.name}-{target}", "isa": isa, "path": path, "config": config,
                      "launch": case.launches[0], "launches": list(case.launches)})
    write_manifest(store / f"opencl_{target}.jsonl", lines)
    print(f"{len(lines)} kernels in {store}")


if __name__ == "__main__":
    typer.run(main)
