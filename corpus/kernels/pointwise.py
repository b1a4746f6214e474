"""RoPE, Philox dropout, embedding gather, activations: angles, random bits, indices."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.inputs import indices
from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, y_ptr, rows, half,
         BLOCK_R: tl.constexpr, BLOCK_H: tl.constexpr, INTERLEAVED: tl.constexpr):
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    h = tl.arange(0, BLOCK_H)
    ok = (r[:, None] < rows) & (h[None, :] < half)
    c = tl.load(cos_ptr + r[:, None] * half + h[None, :], mask=ok, other=0.0)
    s = tl.load(sin_ptr + r[:, None] * half + h[None, :], mask=ok, other=0.0)
    base = r[:, None] * (2 * half)
    if INTERLEAVED:
        p = base + 2 * h[None, :]
        q = p + 1
    else:
        p = base + h[None, :]
        q = p + half
    x = tl.load(x_ptr + p, mask=ok, other=0.0).to(tl.float32)
    y = tl.load(x_ptr + q, mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + p, (x * c - y * s).to(y_ptr.dtype.element_ty), mask=ok)
    tl.store(y_ptr + q, (y * c + x * s).to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def dropout(x_ptr, y_ptr, n, seed, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    keep = tl.rand(seed, i) > p
    y = tl.where(keep, x / (1.0 - p), 0.0)
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def embedding(table_ptr, idx_ptr, y_ptr, n, dim, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    i = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)
    row = tl.load(idx_ptr + i, mask=i < n, other=0)
    ok = (i[:, None] < n) & (d[None, :] < dim)
    x = tl.load(table_ptr + row[:, None] * dim + d[None, :], mask=ok, other=0.0)
    tl.store(y_ptr + i[:, None] * dim + d[None, :], x, mask=ok)


@triton.jit
def embedding_bag(table_ptr, idx_ptr, y_ptr, bags, dim, per_bag,
                  BLOCK_D: tl.constexpr, UNROLL: tl.constexpr):
    """Each bag sums ``per_bag`` rows one after the other."""
    bag = tl.program_id(0)
    d = tl.arange(0, BLOCK_D)
    acc = tl.zeros((BLOCK_D,), tl.float32)
    for j in tl.range(0, per_bag, loop_unroll_factor=UNROLL):
        row = tl.load(idx_ptr + bag * per_bag + j)
        acc += tl.load(table_ptr + row * dim + d, mask=d < dim, other=0.0).to(tl.float32)
    tl.store(y_ptr + bag * dim + d, acc.to(y_ptr.dtype.element_ty), mask=d < dim)


@triton.jit
def activation(x_ptr, g_ptr, y_ptr, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    if KIND == 0:
        y = x * tl.sigmoid(x) * g
    elif KIND == 1:
        y = x * 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) * g
    elif KIND == 2:
        y = x / (1.0 + tl.exp(-x)) * g
    else:
        y = tl.maximum(x, 0.0) * g
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=i < n)


def _rope(full: bool) -> Iterator[Case]:
    for br, inter, w, fusion in product((1, 2, 4, 8) if full else (1, 4), (False, True),
                                        (1, 4, 8) if full else (1, 4), (True, False)):
        yield Case(
            family="rope", fn=rope,
            constexprs={"BLOCK_R": br, "BLOCK_H": 64, "INTERLEAVED": inter},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(rows, br), 1, 1), {
                    "x_ptr": Buf("bf16", rows * 2 * half), "cos_ptr": Buf("f32", rows * half),
                    "sin_ptr": Buf("f32", rows * half),
                    "y_ptr": Buf("bf16", rows * 2 * half, "out"), "rows": rows, "half": half,
                }) for rows, half in ((19, 48), (37, 64), (9, 32))),
        )


def _dropout(full: bool) -> Iterator[Case]:
    for block, w in product((128, 256, 512, 1024), (1, 2, 4, 8) if full else (1, 4)):
        yield Case(
            family="dropout", fn=dropout, constexprs={"BLOCK": block}, options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(n, block), 1, 1), {
                    "x_ptr": Buf("f16", n), "y_ptr": Buf("f16", n, "out"), "n": n, "seed": seed,
                    "p": p,
                }) for n, seed, p in ((2353, 1234567, 0.25), (1001, 77, 0.5), (4099, 5, 0.1))),
        )


def _embedding(full: bool) -> Iterator[Case]:
    for bn, bd, w in product((1, 4, 16) if full else (4,), (128, 256) if full else (128,),
                             (1, 4, 8) if full else (1, 4)):
        yield Case(
            family="embedding", fn=embedding, constexprs={"BLOCK_N": bn, "BLOCK_D": bd},
            options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(n, bn), 1, 1), {
                    "table_ptr": Buf("f16", 50 * dim),
                    "idx_ptr": Buf("i32", n, values=indices(f"embedding{n}", n, 50)),
                    "y_ptr": Buf("f16", n * dim, "out"), "n": n, "dim": dim,
                }) for n, dim in ((37, 100), (19, 90), (51, 127))),
        )


def _embedding_bag(full: bool) -> Iterator[Case]:
    for bd, u, w in product((128, 256), (1, 2, 4) if full else (1, 4), (1, 4) if full else (1,)):
        yield Case(
            family="embedding_bag", fn=embedding_bag, constexprs={"BLOCK_D": bd, "UNROLL": u},
            options={"num_warps": w},
            launches=tuple(
                Launch((bags, 1, 1), {
                    "table_ptr": Buf("f16", 50 * dim),
                    "idx_ptr": Buf("i32", bags * per, values=indices(f"bag{bags}", bags * per, 50)),
                    "y_ptr": Buf("f16", bags * dim, "out"), "bags": bags, "dim": dim,
                    "per_bag": per,
                }) for bags, dim, per in ((13, 100, 11), (7, 90, 5), (19, 127, 22))),
        )


def _activation(full: bool) -> Iterator[Case]:
    for kind, block, w, fusion in product(range(4), (128, 512, 1024) if full else (256,),
                                          (1, 4) if full else (4,), (True, False)):
        yield Case(
            family="activation", variant=("silu", "gelu", "silu_div", "relu")[kind], fn=activation,
            constexprs={"BLOCK": block, "KIND": kind},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(n, block), 1, 1), {
                    "x_ptr": Buf("bf16", n), "g_ptr": Buf("bf16", n),
                    "y_ptr": Buf("bf16", n, "out"), "n": n,
                }) for n in (2353, 1001, 4099)),
        )


FAMILIES = (
    Family("rope", _rope, "rotary embedding, half-split and interleaved"),
    Family("dropout", _dropout, "Philox dropout"),
    Family("embedding", _embedding, "gather of table rows"),
    Family("embedding_bag", _embedding_bag, "sequential sum of gathered rows"),
    Family("activation", _activation, "gated activations"),
)
