"""Compile the kernels of the compiler-bump test with the Triton that is installed.

    python tests/gate/compile_bump.py        # writes tests/gate/bump/triton-X.Y/*.ptx

No GPU is needed. The texts are committed; this file says how they came about.
"""

from __future__ import annotations

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(o + i, a * b + a, mask=i < n)


@triton.jit
def rowsum(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=0.0).to(tl.float32)
    tl.store(o + r, tl.sum(v, 0))


@triton.jit
def softmax(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + r * n + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def rowsum_loop(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        acc += tl.load(x + r * n + k + c, mask=k + c < n, other=0.0).to(tl.float32)
    tl.store(o + r, tl.sum(acc, 0))


@triton.jit
def gemm(a, b, c, n, k, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * 32 + tl.arange(0, 32)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, 32), tl.float32)
    for j in range(0, k, BLOCK_K):
        p = tl.load(a + rm[:, None] * k + (j + rk)[None, :])
        q = tl.load(b + (j + rk)[:, None] * n + rn[None, :])
        acc = tl.dot(p, q, acc)
    tl.store(c + rm[:, None] * n + rn[None, :], acc)


SWEEP = [
    (add, "fp32 fp32 fp32 i32", {"BLOCK": 256}, 1),
    (add, "fp32 fp32 fp32 i32", {"BLOCK": 256}, 4),
    (rowsum, "fp16 fp32 i32", {"BLOCK": 64}, 1),
    (rowsum, "fp16 fp32 i32", {"BLOCK": 1024}, 4),
    (rowsum_loop, "fp16 fp32 i32", {"BLOCK": 256}, 4),
    (rowsum_loop, "fp16 fp32 i32", {"BLOCK": 512}, 4),
    (softmax, "fp32 fp32 i32", {"BLOCK": 512}, 4),
    (gemm, "fp16 fp16 fp32 i32 i32", {"BLOCK_M": 32, "BLOCK_K": 16}, 1),
]


def main() -> None:
    """Compile everything for sm_80 without line information, so that the texts stay small."""
    version = ".".join(triton.__version__.split(".")[:2])
    folder = Path(__file__).parent / "bump" / f"triton-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    for fn, types, knobs, warps in SWEEP:
        names = [name for name in fn.arg_names if name not in knobs]
        kinds = [f"*{t}" if t[0] in "fb" else t for t in types.split()]
        signature = dict(zip(names, kinds, strict=True)) | dict.fromkeys(knobs, "constexpr")
        attrs = {(i,): [["tt.divisibility", 16]] for i in range(len(names))}
        source = ASTSource(fn, signature, knobs, attrs)
        kernel = triton.compile(
            source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps}
        )
        shown = "__".join(f"{key}={value}" for key, value in {**knobs, "num_warps": warps}.items())
        text = kernel.asm["ptx"].split("\n\t.section\t.debug_")[0]
        (folder / f"{fn.__name__}__{shown}.ptx").write_text(text)


if __name__ == "__main__":
    main()
