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


@triton.jit
def cube_sum(x_ptr, y_ptr, b, m, n, AXIS: tl.constexpr, BLOCK_B: tl.constexpr,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """One axis of a [b, m, n] tensor, summed from a three-dimensional tile."""
    i = tl.program_id(2) * BLOCK_B + tl.arange(0, BLOCK_B)
    j = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    ok = (i[:, None, None] < b) & (j[None, :, None] < m) & (k[None, None, :] < n)
    at = x_ptr + (i[:, None, None] * m + j[None, :, None]) * n + k[None, None, :]
    y = tl.sum(tl.load(at, mask=ok, other=0.0).to(tl.float32), axis=AXIS)
    y = y.to(y_ptr.dtype.element_ty)
    if AXIS == 0:
        tl.store(y_ptr + j[:, None] * n + k[None, :], y, mask=(j[:, None] < m) & (k[None, :] < n))
    elif AXIS == 1:
        tl.store(y_ptr + i[:, None] * n + k[None, :], y, mask=(i[:, None] < b) & (k[None, :] < n))
    else:
        tl.store(y_ptr + i[:, None] * m + j[None, :], y, mask=(i[:, None] < b) & (j[None, :] < m))


ROWS = (row_sum, row_sum_two_level, row_sum_pairs, row_sum_tree, row_max, row_prod, row_sum_exp)
ROW_LOOPS = (row_sum_tile_loop, row_sum_scalar_loop)
COLS = (col_sum,)
COL_LOOPS = (col_sum_tile_loop, col_sum_scalar_loop)

#: most elements of a tile of whole rows: more only spills
TILE = 8192

#: shapes: rows are longer than the loops' tiles and shorter than the whole-row ones
WIDE = ((37, 203), (19, 129), (64 + 3, 251))
TALL = ((203, 37), (129, 19), (251, 67))
SMALL = ((29, 61), (17, 35), (31, 63))
CUBES = ((3, 61, 37), (2, 35, 19), (3, 57, 67))


def _matrix(fn: Any, m: int, n: int, block: tuple[int, int], out: str) -> Launch:
    """The launch of one of the two-dimensional kernels."""
    rows = fn in ROWS or fn in ROW_LOOPS or fn is row_argmax
    whole = fn in (full_sum, full_sum_flat)
    axis = (m, n, 1) if rows else (1, m * n, 1) if whole else (1, m, n)
    length = m if rows else 1 if whole else n
    grid = cdiv(m, block[0]) if rows else 1 if whole else cdiv(n, block[1])
    return Launch(
        (grid, 1, 1),
        {
            "x_ptr": Buf("f16", m * n, axis=axis),
            "y_ptr": Buf(out, length, "out"),
            "m": m,
            "n": n,
        },
    )


def _cube(grid: tuple[int, int, int], shape: tuple[int, int, int], axis: int, out: str) -> Launch:
    """The launch of one of the kernels on a [b, m, n] tensor that sums `axis`."""
    b, m, n = shape
    view = {0: (1, b, m * n), 1: (b, m, n), 2: (b * m, n, 1)}[axis]
    return Launch(
        grid,
        {
            "x_ptr": Buf("f16", b * m * n, axis=view),
            "y_ptr": Buf(out, b * m * n // shape[axis], "out"),
            "b": b,
            "m": m,
            "n": n,
        },
    )


def _case(fn: Any, block: tuple[int, ...], launches: tuple[Launch, ...], w: int,
          **o: Any) -> Case:
    """One configuration; `block` are the last of BLOCK_B, BLOCK_M, BLOCK_N."""
    names = ("BLOCK_B", "BLOCK_M", "BLOCK_N")[3 - len(block):]
    axis = {"AXIS": o.pop("axis")} if "axis" in o else {}
    out = launches[0].args["y_ptr"]
    assert isinstance(out, Buf)
    which = "".join(map(str, axis.values()))
    return Case(
        family="reductions",
        variant=f"{fn.fn.__name__}{which}_{out.dtype}",
        fn=fn,
        constexprs={**axis, **dict(zip(names, block, strict=True))},
        options={"num_warps": w, **o},
        launches=launches,
    )


def _matrix_cases(full: bool) -> Iterator[tuple[Any, tuple[int, int], str, Any, dict[str, int]]]:
    """Kernel, tile, output type, shapes and further options of the two-dimensional kernels."""
    outs = ("f32", "f16") if full else ("f32",)
    stages = (1, 3) if full else (2,)
    for fn, bm, bn, out in product(
        (*ROWS, row_argmax), (1, 2, 4, 8, 16) if full else (1, 8),
        (256, 512, 1024) if full else (256,), outs,
    ):
        if bm * bn <= TILE and (fn is not row_argmax or out == "f32"):
            yield fn, (bm, bn), "i32" if fn is row_argmax else out, WIDE, {}
    for fn, bm, bn, s, out in product(
        ROW_LOOPS, (1, 2, 4, 8, 16) if full else (1, 8), (32, 64, 128) if full else (32, 128),
        stages, outs,
    ):
        yield fn, (bm, bn), out, WIDE, {"num_stages": s}
    for fn, bm, bn, out in product(
        COLS, (256, 512) if full else (256,), (1, 4, 8, 16, 32) if full else (8, 32), outs
    ):
        yield fn, (bm, bn), out, TALL, {}
    for fn, bm, bn, s, out in product(
        COL_LOOPS, (16, 32, 64) if full else (32,), (8, 16, 32) if full else (8, 32), stages, outs
    ):
        yield fn, (bm, bn), out, TALL, {"num_stages": s}
    for fn, bm, bn, out in product((full_sum, full_sum_flat), (32, 64), (64, 128), outs):
        yield fn, (bm, bn), out, SMALL, {}


def cases(full: bool) -> Iterator[Case]:
    """All kernels over tiles, warps, stages, axes and output type; the input is fp16."""
    warps = (1, 2, 4, 8) if full else (1, 4)
    outs = ("f32", "f16") if full else ("f32",)
    for (fn, block, out, shapes, options), w in product(_matrix_cases(full), warps):
        launches = tuple(_matrix(fn, m, n, block, out) for m, n in shapes)
        yield _case(fn, block, launches, w, **options)
    for fn, bm, bn, w, out in product(
        (mid_sum, mid_sum_loop), (64, 128) if full else (64,), (8, 16, 32) if full else (8, 32),
        warps, outs,
    ):
        launches = tuple(_cube((cdiv(n, bn), b, 1), (b, m, n), 1, out) for b, m, n in CUBES)
        yield _case(fn, (bm if fn is mid_sum else bm // 4, bn), launches, w)
    if not full:
        return
    # The tile spans the summed axis; the others are cut.
    for axis, (bb, bm, bn), w, out in (
        (axis, block, w, out) for axis, blocks in CUBE_BLOCKS.items()
        for block, w, out in product(blocks, warps, outs)
    ):
        launches = tuple(
            _cube((cdiv(n, bn), cdiv(m, bm), cdiv(b, bb)), (b, m, n), axis, out)
            for b, m, n in CUBES)
        yield _case(cube_sum, (bb, bm, bn), launches, w, axis=axis)


CUBE_BLOCKS = {
    0: ((4, 4, 32), (4, 8, 16), (4, 8, 64), (8, 2, 64)),
    1: ((1, 64, 8), (2, 64, 16), (2, 128, 8), (4, 64, 4)),
    2: ((1, 4, 128), (2, 4, 128), (2, 8, 128), (1, 2, 256)),
}

FAMILIES = (Family("reductions", cases, "eighteen reductions over different dims and axes"),)
