"""Replayed bits against a high-precision reference: ``python -m corpus.bench.reference``.

For kernels of a target for which no card is at hand: sums and matrix products of the committed sets
are replayed in the domain ``bytes`` and compared with the exact sums in double precision, within
the error that their trees allow. Buffers say how they are laid out (``draw.axis``: outside, length
of the axis that is summed, inside), so that nothing here knows a kernel. With u = 2^-24:

* a sum of n terms in single precision, in whatever order, rounds each term at most n times:
  ``((1 + u)^n - 1) sum |x|``;
* a matrix step of s exact products aligns and cuts s + 1 numbers and rounds once: (s + 2) roundings
  of 2u of what it has so far, n / s steps (CDNA3: s = 8, of tf32 products 4), and a product of
  tf32 operands cuts each of them to ten digits behind the point;
* the result is rounded to the type of the output.

Prints one line a family: kernels, elements, the largest error as a share of what is allowed. The
exit status is 1 where one is above it, or a replay has a defect. ``measure`` is a plain function.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith.formats import FORMATS, decode
from corpus.campaigns.common import spread
from corpus.inputs import draw
from corpus.load import CorpusKernel, load_set

Doubles = NDArray[np.float64]
U = 2.0**-24
SUMS = re.compile(r"(row|col|mid)_sum(_scalar_loop|_tile_loop|_loop|_pairs|_tree|_two_level)?_f32$")
PRODUCTS = ("gemm", "gemm_bf16", "gemm_f32")
STEP, TF32_STEP = 8, 4
TF32_CUT = 2.0**-10


@dataclass(slots=True)
class Line:
    """One family: how many kernels and elements, the worst share, what went wrong."""

    kernels: int = 0
    elements: int = 0
    worst: float = 0.0
    problems: list[str] = field(default_factory=list)


def reference(kernel: CorpusKernel, values: Mapping[str, Doubles], launch: Mapping[str, Any]
              ) -> tuple[Doubles, Doubles] | None:
    """Return exact results and how far the tree may be from them; None: no reference for it."""
    ins = [a for a in launch["args"] if a and a.get("role") == "in"]
    if any("axis" not in a.get("draw", {}) for a in ins):
        return None
    shaped = [values[a["buffer"]].reshape(a["draw"]["axis"]) for a in ins]
    if SUMS.match(str(kernel.config["variant"])) and len(ins) == 1:
        x, = shaped
        n = x.shape[1]
        return x.sum(axis=1).ravel(), (((1 + U)**n - 1) * np.abs(x).sum(axis=1)).ravel()
    if kernel.family in PRODUCTS and len(ins) == 2:
        a, b = (x[:, :, 0] if x.shape[2] == 1 else x[0].T for x in shaped)  # [rows, k] each
        n = a.shape[1]
        size = np.abs(a) @ np.abs(b).T
        step, cut = (TF32_STEP, TF32_CUT) if "_xf32" in kernel.text else (STEP, 0.0)
        rounds = (step + 2) * 2 * -(-n // step)
        return (a @ b.T).ravel(), (((1 + U)**rounds * (1 + cut)**2 - 1) * size).ravel()
    return None


def check(kernel: CorpusKernel, line: Line, kind: str, seed: int) -> None:
    """Replay a kernel at its first launch and compare."""
    from checker import api
    from checker.replay import replay

    launch = kernel.launch
    bits = {a["buffer"]: draw(kind, seed, a) for a in launch["args"] if a and "buffer" in a
            and a["role"] != "out"}
    kinds = {a["buffer"]: a["dtype"] for a in launch["args"] if a and "buffer" in a}
    values = {name: decode(FORMATS[kinds[name]], b) for name, b in bits.items()
              if kinds[name] in FORMATS}
    made = reference(kernel, values, launch)
    outs = [a for a in launch["args"] if a and a.get("role") == "out"]
    if made is None or len(outs) != 1:
        return
    result = replay(api.program_of(kernel.text, isa=kernel.isa), launch, domain="bytes",
                    inputs={n: b.astype(np.uint64) for n, b in bits.items()})
    line.kernels += 1
    if result.reasons():
        line.problems.append(f"{kernel.name}: {result.reasons()[0].message}")
        return
    out = outs[0]
    fmt = FORMATS[out["dtype"]]
    raw = result.outputs[out["buffer"]].words[1].astype(f"u{fmt.width // 8}")
    got, (exact, allowed) = decode(fmt, raw), made
    rounding = np.maximum(np.abs(exact) + allowed, 2.0**(1 - fmt.bias)) * 2.0**-(fmt.man_bits + 1)
    share = np.abs(got - exact) / (allowed + rounding)
    line.elements += len(share)
    line.worst = max(line.worst, float(share.max()))
    if not bool((share <= 1).all()):
        line.problems.append(f"{kernel.name}: {float(share.max()):.2f} of what is allowed")


def measure(target: str = "gfx942", count: int = 60, kind: str = "normal", seed: int = 1
            ) -> dict[str, Line]:
    """Check an even sample of the kernels that have a reference; results by family."""
    wanted = [k for k in load_set(target) if k.family in PRODUCTS
              or SUMS.match(str(k.config["variant"]))]
    out: dict[str, Line] = {}
    for kernel in spread(wanted, count):
        name = f"{kernel.family}.{kernel.config['variant']}".rstrip(".")
        check(kernel, out.setdefault(name, Line()), kind, seed)
    return out


def show(found: Mapping[str, Line]) -> int:
    """Print the lines; the exit status."""
    for name, line in sorted(found.items()):
        print(f"{name:40} {line.kernels:4} kernels {line.elements:8} elements, "
              f"at most {line.worst:.3f} of the error allowed")
        for problem in line.problems:
            print(f"  {problem}")
    return 1 if any(line.problems for line in found.values()) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="corpus.bench.reference", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--target", default="gfx942")
    add("--count", type=int, default=60, help="kernels, an even sample")
    add("--kind", default="normal", help="kind of input (checker.draws)")
    add("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    return show(measure(given.target, given.count, given.kind, given.seed))


if __name__ == "__main__":
    sys.exit(main())
