"""Sums and maxima over different axes of one- to three-dimensional tensors, in many layouts.

Row sums, column sums, two-level trees by reshape and split, loops that carry a tile or a scalar,
reductions of the first, middle or last axis, products, maxima and arg-maxima.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def row_sum(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + r, tl.sum(x, axis=1).to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_sum_tile_loop(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        acc += tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + r, tl.sum(acc, axis=1).to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_sum_scalar_loop(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
        acc += tl.sum(x, axis=1)
    tl.store(y_ptr + r, acc.to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_sum_two_level(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The two halves of a row are added element by element, then the tree closes."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    halves = tl.permute(tl.reshape(x, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
    low, high = tl.split(halves)
    tl.store(y_ptr + r, tl.sum(low + high, axis=1).to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_sum_pairs(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Neighbours x[2t] + x[2t+1] are added first."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    even, odd = tl.split(tl.reshape(x, (BLOCK_M, BLOCK_N // 2, 2)))
    tl.store(y_ptr + r, tl.sum(even + odd, axis=1).to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_sum_tree(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """A whole tree written out by reshape and split: no layout can change it."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    x = tl.reshape(x, (BLOCK_M, BLOCK_N // 4, 2, 2))
    a, b = tl.split(x)
    a, b = tl.split(a + b)
    s = a + b
    s = tl.reshape(s, (BLOCK_M, BLOCK_N // 16, 2, 2))
    a, b = tl.split(s)
    a, b = tl.split(a + b)
    s = a + b
    s = tl.reshape(s, (BLOCK_M, BLOCK_N // 64, 2, 2))
    a, b = tl.split(s)
    a, b = tl.split(a + b)
    tl.store(y_ptr + r, tl.sum(a + b, axis=1).to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def col_sum(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.arange(0, BLOCK_M)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + c, tl.sum(x, axis=0).to(y_ptr.dtype.element_ty), mask=c < n)


@triton.jit
def col_sum_tile_loop(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, m, BLOCK_M):
        r = start + tl.arange(0, BLOCK_M)
        ok = (r[:, None] < m) & (c[None, :] < n)
        acc += tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + c, tl.sum(acc, axis=0).to(y_ptr.dtype.element_ty), mask=c < n)


@triton.jit
def col_sum_scalar_loop(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, m, BLOCK_M):
        r = start + tl.arange(0, BLOCK_M)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
        acc += tl.sum(x, axis=0)
    tl.store(y_ptr + c, acc.to(y_ptr.dtype.element_ty), mask=c < n)


@triton.jit
def mid_sum(x_ptr, y_ptr, b, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The middle axis of a [b, m, n] tensor."""
    pb = tl.program_id(1)
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.arange(0, BLOCK_M)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = x_ptr + pb * m * n + r[:, None] * n + c[None, :]
    x = tl.load(at, mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + pb * n + c, tl.sum(x, axis=0).to(y_ptr.dtype.element_ty), mask=c < n)


@triton.jit
def mid_sum_loop(x_ptr, y_ptr, b, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pb = tl.program_id(1)
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, m, BLOCK_M):
        r = start + tl.arange(0, BLOCK_M)
        ok = (r[:, None] < m) & (c[None, :] < n)
        at = x_ptr + pb * m * n + r[:, None] * n + c[None, :]
        acc += tl.load(at, mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + pb * n + c, tl.sum(acc, axis=0).to(y_ptr.dtype.element_ty), mask=c < n)


@triton.jit
def full_sum(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """All of a matrix by one block: rows first, then the column of row sums."""
    r = tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr, tl.sum(tl.sum(x, axis=1), axis=0).to(y_ptr.dtype.element_ty))


@triton.jit
def full_sum_flat(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """All of a matrix by one block, flattened before the one reduction."""
    r = tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr, tl.sum(tl.reshape(x, (BLOCK_M * BLOCK_N,)), axis=0).to(y_ptr.dtype.element_ty))


@triton.jit
def row_max(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=float("-inf"))
    tl.store(y_ptr + r, tl.max(x, axis=1).to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def _mul(a, b):
    return a * b


@triton.jit
def row_prod(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=1.0).to(tl.float32)
    y = tl.reduce(x, 1, _mul)
    tl.store(y_ptr + r, y.to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_sum_exp(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=float("-inf"))
    y = tl.sum(tl.exp(x.to(tl.float32)), axis=1)
    tl.store(y_ptr + r, y.to(y_ptr.dtype.element_ty), mask=r < m)


@triton.jit
def row_argmax(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=float("-inf"))
    tl.store(y_ptr + r, tl.argmax(x, axis=1).to(tl.int32), mask=r < m)


ROWS = (row_sum, row_sum_two_level, row_sum_pairs, row_sum_tree, row_max, row_prod, row_sum_exp)
ROW_LOOPS = (row_sum_tile_loop, row_sum_scalar_loop)
COLS = (col_sum,)
COL_LOOPS = (col_sum_tile_loop, col_sum_scalar_loop)


def _matrix(fn: Any, m: int, n: int, block: tuple[int, int], out: str, dtype: str) -> Launch:
    """The launch of one of the two-dimensional kernels."""
    rows = fn in ROWS or fn in ROW_LOOPS or fn is row_argmax
    whole = fn in (full_sum, full_sum_flat)
    axis = (m, n, 1) if rows else (1, m * n, 1) if whole else (1, m, n)
    length = m if rows else 1 if whole else n
    grid = cdiv(m, block[0]) if rows else 1 if whole else cdiv(n, block[1])
    return Launch(
        (grid, 1, 1),
        {
            "x_ptr": Buf(dtype, m * n, axis=axis),
            "y_ptr": Buf(out, length, "out"),
            "m": m,
            "n": n,
        },
    )


def _middle(b: int, m: int, n: int, block: tuple[int, int], out: str, dtype: str) -> Launch:
    return Launch(
        (cdiv(n, block[1]), b, 1),
        {
            "x_ptr": Buf(dtype, b * m * n, axis=(b, m, n)),
            "y_ptr": Buf(out, b * n, "out"),
            "b": b,
            "m": m,
            "n": n,
        },
    )


def cases(full: bool) -> Iterator[Case]:
    """Sixteen kernels over tiles, warps, output type and input type."""
    warps = (1, 2, 4, 8) if full else (1, 4)
    outs = ("f32", "f16") if full else ("f32",)
    dtype = "f16"

    def make(fn: Any, block: tuple[int, int], launches: tuple[Launch, ...], w: int,
             **o: Any) -> Case:
        return Case(
            family="reductions",
            variant=fn.fn.__name__ + "_" + launches[0].args["y_ptr"].dtype,  # type: ignore[union-attr]
            fn=fn,
            constexprs={"BLOCK_M": block[0], "BLOCK_N": block[1]},
            options={"num_warps": w, **o},
            launches=launches,
        )

    shapes = ((37, 203), (19, 129), (64 + 3, 251))
    for fn, bm, bn, w, out in product(
        (*ROWS, row_argmax), (1, 2, 8, 16) if full else (1, 8), (256, 512) if full else (256,),
        warps, outs,
    ):
        if fn is row_argmax:
            if out == "f16":
                continue
            out = "i32"
        block = (bm, bn)
        yield make(fn, block, tuple(_matrix(fn, m, n, block, out, dtype) for m, n in shapes), w)
    for fn, bm, bn, w, stages in product(
        ROW_LOOPS, (1, 4, 16) if full else (1, 8), (32, 64, 128) if full else (32, 128), warps,
        (1, 3) if full else (2,),
    ):
        block = (bm, bn)
        yield make(fn, block, tuple(_matrix(fn, m, n, block, "f32", dtype) for m, n in shapes), w,
                   num_stages=stages)
    tall = ((203, 37), (129, 19), (251, 67))
    for fn, bm, bn, w, out in product(
        COLS, (256, 512) if full else (256,), (1, 8, 16, 32) if full else (8, 32), warps, outs
    ):
        block = (bm, bn)
        yield make(fn, block, tuple(_matrix(fn, m, n, block, out, dtype) for m, n in tall), w)
    for fn, bm, bn, w, stages in product(
        COL_LOOPS, (16, 32, 64) if full else (32,), (8, 16, 32) if full else (8, 32), warps,
        (1, 3) if full else (2,),
    ):
        block = (bm, bn)
        yield make(fn, block, tuple(_matrix(fn, m, n, block, "f32", dtype) for m, n in tall), w,
                   num_stages=stages)
    small = ((29, 61), (17, 35), (31, 63))
    for fn, bm, bn, w in product((full_sum, full_sum_flat), (32, 64), (64, 128), warps):
        block = (bm, bn)
        yield make(fn, block, tuple(_matrix(fn, m, n, block, "f32", dtype) for m, n in small), w)
    cubes = ((3, 61, 37), (2, 35, 19), (3, 57, 67))
    for fn, bm, bn, w in product(
        (mid_sum, mid_sum_loop), (64, 128) if full else (64,), (8, 16, 32) if full else (8, 32),
        warps,
    ):
        bm = bm if fn is mid_sum else bm // 4
        block = (bm, bn)
        yield make(fn, block, tuple(_middle(b, m, n, block, "f32", dtype) for b, m, n in cubes), w)


FAMILIES = (Family("reductions", cases, "sixteen reductions over different dims and axes"),)
