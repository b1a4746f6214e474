"""One product, many schedules: batched, grouped, persistent, split-K, stream-K; convolutions."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def _tile(a_ptr, b_ptr, m, n, k, pm, pn, first, last,
          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """The product of one output tile over K tiles first..last."""
    rm = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for t in range(first, last):
        kk = t * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        b = tl.load(b_ptr + kk[:, None] * n + rn[None, :],
                    mask=(kk[:, None] < k) & (rn[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc)
    return acc


@triton.jit
def _put(c_ptr, acc, m, n, pm, pn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rm = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def gemm_batched(a_ptr, b_ptr, c_ptr, m, n, k,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    z = tl.program_id(2)
    pm, pn = tl.program_id(0), tl.program_id(1)
    acc = _tile(a_ptr + z * m * k, b_ptr + z * k * n, m, n, k, pm, pn, 0, tl.cdiv(k, BLOCK_K),
                BLOCK_M, BLOCK_N, BLOCK_K)
    _put(c_ptr + z * m * n, acc, m, n, pm, pn, BLOCK_M, BLOCK_N)


@triton.jit
def gemm_grouped(a_ptr, b_ptr, c_ptr, start_ptr, n, k,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Experts: rows start[e]..start[e+1] of A times B[e]."""
    e = tl.program_id(2)
    lo = tl.load(start_ptr + e)
    m = tl.load(start_ptr + e + 1) - lo
    pm, pn = tl.program_id(0), tl.program_id(1)
    if pm * BLOCK_M < m:
        acc = _tile(a_ptr + lo * k, b_ptr + e * k * n, m, n, k, pm, pn, 0, tl.cdiv(k, BLOCK_K),
                    BLOCK_M, BLOCK_N, BLOCK_K)
        _put(c_ptr + lo * n, acc, m, n, pm, pn, BLOCK_M, BLOCK_N)


@triton.jit
def gemm_persistent(a_ptr, b_ptr, c_ptr, m, n, k,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                    PROGRAMS: tl.constexpr):
    tiles_n = tl.cdiv(n, BLOCK_N)
    tiles = tl.cdiv(m, BLOCK_M) * tiles_n
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        pm, pn = tile // tiles_n, tile % tiles_n
        acc = _tile(a_ptr, b_ptr, m, n, k, pm, pn, 0, tl.cdiv(k, BLOCK_K), BLOCK_M, BLOCK_N,
                    BLOCK_K)
        _put(c_ptr, acc, m, n, pm, pn, BLOCK_M, BLOCK_N)


@triton.jit
def gemm_splitk(a_ptr, b_ptr, c_ptr, m, n, k,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                SPLIT: tl.constexpr, ATOMIC: tl.constexpr):
    """Each z takes a span of K tiles; partials go to [SPLIT, m, n] or meet in atomics."""
    z = tl.program_id(2)
    pm, pn = tl.program_id(0), tl.program_id(1)
    tiles = tl.cdiv(k, BLOCK_K)
    span = tl.cdiv(tiles, SPLIT)
    first = z * span
    acc = _tile(a_ptr, b_ptr, m, n, k, pm, pn, first, tl.minimum(first + span, tiles),
                BLOCK_M, BLOCK_N, BLOCK_K)
    if ATOMIC:
        rm = pm * BLOCK_M + tl.arange(0, BLOCK_M)
        rn = pn * BLOCK_N + tl.arange(0, BLOCK_N)
        tl.atomic_add(c_ptr + rm[:, None] * n + rn[None, :], acc,
                      mask=(rm[:, None] < m) & (rn[None, :] < n))
    else:
        _put(c_ptr + z * m * n, acc, m, n, pm, pn, BLOCK_M, BLOCK_N)


@triton.jit
def splitk_reduce(p_ptr, c_ptr, size, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
                  TREE: tl.constexpr):
    """Sums the partials, one after the other or as a tree."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if TREE:
        s = tl.arange(0, SPLIT)
        x = tl.load(p_ptr + s[:, None] * size + i[None, :], mask=i[None, :] < size, other=0.0)
        acc = tl.sum(x, axis=0)
    else:
        acc = tl.zeros((BLOCK,), tl.float32)
        for z in tl.static_range(SPLIT):
            acc += tl.load(p_ptr + z * size + i, mask=i < size, other=0.0)
    tl.store(c_ptr + i, acc.to(c_ptr.dtype.element_ty), mask=i < size)


@triton.jit
def gemm_streamk(a_ptr, b_ptr, p_ptr, m, n, k,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                 PROGRAMS: tl.constexpr):
    """Work is the flat list of (tile, K tile); each program takes an even share of it and writes
    the partial of each tile it touches into slot (program - first program of the tile)."""
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(n, BLOCK_N)
    depth = tl.cdiv(k, BLOCK_K)
    total = tl.cdiv(m, BLOCK_M) * tiles_n * depth
    share = tl.cdiv(total, PROGRAMS)
    at = pid * share
    end = tl.minimum(at + share, total)
    while at < end:
        tile = at // depth
        first = at % depth
        last = tl.minimum(depth, first + end - at)
        pm, pn = tile // tiles_n, tile % tiles_n
        acc = _tile(a_ptr, b_ptr, m, n, k, pm, pn, first, last, BLOCK_M, BLOCK_N, BLOCK_K)
        slot = pid - (tile * depth) // share
        _put(p_ptr + slot * m * n, acc, m, n, pm, pn, BLOCK_M, BLOCK_N)
        at += last - first


@triton.jit
def conv1d(x_ptr, w_ptr, y_ptr, channels, length, BLOCK: tl.constexpr, K: tl.constexpr):
    """Depthwise, causal: y[c, t] = sum_j w[c, j] x[c, t - K + 1 + j]."""
    c = tl.program_id(1)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for j in tl.static_range(K):
        at = t - (K - 1) + j
        x = tl.load(x_ptr + c * length + at, mask=(at >= 0) & (at < length), other=0.0)
        acc += x.to(tl.float32) * tl.load(w_ptr + c * K + j).to(tl.float32)
    tl.store(y_ptr + c * length + t, acc.to(y_ptr.dtype.element_ty), mask=t < length)


@triton.jit
def conv2d(x_ptr, w_ptr, y_ptr, cin, cout, h, wd,
           BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr, K: tl.constexpr):
    """Implicit product: pixels by channels over (ky, kx, cin), channels last, same padding."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    co = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    y = p // wd
    x = p % wd
    acc = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for tap in range(K * K):
        yy = y + tap // K - K // 2
        xx = x + tap % K - K // 2
        inside = (p < h * wd) & (yy >= 0) & (yy < h) & (xx >= 0) & (xx < wd)
        for start in range(0, cin, BLOCK_K):
            ci = start + tl.arange(0, BLOCK_K)
            a = tl.load(x_ptr + (yy * wd + xx)[:, None] * cin + ci[None, :],
                        mask=inside[:, None] & (ci[None, :] < cin), other=0.0)
            b = tl.load(w_ptr + (tap * cin + ci)[:, None] * cout + co[None, :],
                        mask=(ci[:, None] < cin) & (co[None, :] < cout), other=0.0)
            acc = tl.dot(a, b, acc)
    tl.store(y_ptr + p[:, None] * cout + co[None, :], acc.to(y_ptr.dtype.element_ty),
             mask=(p[:, None] < h * wd) & (co[None, :] < cout))


SHAPES = ((80, 176, 304), (144, 80, 144), (48, 112, 208))


def _tiles(full: bool) -> Iterator[tuple[int, int, int, int, int]]:
    """BLOCK_M, BLOCK_N, BLOCK_K, warps, stages."""
    return product((32, 64) if full else (64,), (32, 64) if full else (64,),
                   (16, 32, 64) if full else (32,), (4,), (1, 3) if full else (2,))


def _operands(m: int, n: int, k: int, batch: int = 1) -> dict[str, Buf | int | float]:
    return {
        "a_ptr": Buf("f16", batch * m * k, axis=(batch * m, k, 1)),
        "b_ptr": Buf("f16", batch * k * n, axis=(batch, k, n), mirror=1),
    }


def _batched(full: bool) -> Iterator[Case]:
    for bm, bn, bk, w, s in _tiles(full):
        yield Case(
            family="gemm_batched", fn=gemm_batched,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), 3), _operands(m, n, k, 3) | {
                    "c_ptr": Buf("f16", 3 * m * n, "out"), "m": m, "n": n, "k": k,
                }) for m, n, k in SHAPES),
        )


def _grouped(full: bool) -> Iterator[Case]:
    for bm, bn, bk, w, s in _tiles(full):
        launches = []
        for starts, n, k in (((0, 37, 37, 80, 144), 112, 208), ((0, 5, 64, 96), 80, 144),
                             ((0, 16, 80), 176, 80)):
            experts, m = len(starts) - 1, starts[-1]
            widest = max(b - a for a, b in pairwise(starts))
            launches.append(Launch((cdiv(widest, bm), cdiv(n, bn), experts), {
                "a_ptr": Buf("f16", m * k, axis=(m, k, 1)),
                "b_ptr": Buf("f16", experts * k * n, axis=(experts, k, n), mirror=1),
                "c_ptr": Buf("f16", m * n, "out"),
                "start_ptr": Buf("i32", experts + 1, values=starts), "n": n, "k": k,
            }))
        yield Case(
            family="gemm_grouped", fn=gemm_grouped,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk},
            options={"num_warps": w, "num_stages": s}, launches=tuple(launches),
        )


def _persistent(full: bool) -> Iterator[Case]:
    for (bm, bn, bk, w, s), programs in product(_tiles(full), (1, 3) if full else (3,)):
        yield Case(
            family="gemm_persistent", fn=gemm_persistent,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "PROGRAMS": programs},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((programs, 1, 1), _operands(m, n, k) | {
                    "c_ptr": Buf("f16", m * n, "out"), "m": m, "n": n, "k": k,
                }) for m, n, k in SHAPES),
        )


def _splitk(full: bool) -> Iterator[Case]:
    for (bm, bn, bk, w, s), split in product(_tiles(full), (2, 3, 4) if full else (2, 4)):
        yield Case(
            family="gemm_splitk", variant=f"split{split}", fn=gemm_splitk,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "SPLIT": split,
                        "ATOMIC": False},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), split), _operands(m, n, k) | {
                    "c_ptr": Buf("f32", split * m * n, "out"), "m": m, "n": n, "k": k,
                }) for m, n, k in SHAPES),
        )
    for split, block, tree, w in product((2, 4, 8), (128, 512), (False, True), (1, 4)):
        yield Case(
            family="splitk_reduce", variant=f"split{split}", fn=splitk_reduce,
            constexprs={"SPLIT": split, "BLOCK": block, "TREE": tree}, options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(size, block), 1, 1), {
                    "p_ptr": Buf("f32", split * size, axis=(1, split, size)),
                    "c_ptr": Buf("f16", size, "out"), "size": size,
                }) for size in (2353, 1001, 4099)),
        )


def _splitk_only(full: bool) -> Iterator[Case]:
    return (c for c in _splitk(full) if c.family == "gemm_splitk")


def _reduce_only(full: bool) -> Iterator[Case]:
    return (c for c in _splitk(full) if c.family == "splitk_reduce")


def _atomic(full: bool) -> Iterator[Case]:
    for (bm, bn, bk, w, s), split in product(_tiles(False), (2, 4, 8)):
        yield Case(
            family="gemm_splitk_atomic", variant=f"split{split}", fn=gemm_splitk,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "SPLIT": split,
                        "ATOMIC": True},
            options={"num_warps": w, "num_stages": s}, nondeterministic=True,
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), split), _operands(m, n, k) | {
                    "c_ptr": Buf("f32", m * n, "inout", zero=True),
                    "m": m, "n": n, "k": k,
                }) for m, n, k in ((80, 176, 304), (48, 80, 144), (16, 112, 208))),
        )


def _streamk(full: bool) -> Iterator[Case]:
    for (bm, bn, bk, w, s), programs in product(_tiles(full), (3, 5) if full else (5,)):
        launches = []
        for m, n, k in SHAPES:
            depth = cdiv(k, bk)
            tiles = cdiv(m, bm) * cdiv(n, bn)
            share = cdiv(tiles * depth, programs)
            slots = max(((t + 1) * depth - 1) // share - t * depth // share + 1
                        for t in range(tiles))
            launches.append(Launch((programs, 1, 1), _operands(m, n, k) | {
                "p_ptr": Buf("f32", slots * m * n, "out"), "m": m, "n": n, "k": k,
            }))
        yield Case(
            family="gemm_streamk", fn=gemm_streamk,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "PROGRAMS": programs},
            options={"num_warps": w, "num_stages": s}, launches=tuple(launches),
        )


def _conv1d(full: bool) -> Iterator[Case]:
    for block, k, w, fusion in product((64, 128, 256), (3, 4), (1, 4) if full else (4,),
                                       (True, False)):
        yield Case(
            family="conv1d", fn=conv1d, constexprs={"BLOCK": block, "K": k},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(length, block), channels, 1), {
                    "x_ptr": Buf("bf16", channels * length), "w_ptr": Buf("bf16", channels * k),
                    "y_ptr": Buf("bf16", channels * length, "out"), "channels": channels,
                    "length": length,
                }) for channels, length in ((5, 331), (3, 129), (7, 203))),
        )


def _conv2d(full: bool) -> Iterator[Case]:
    for bp, bc, bk, w, s in product((32, 64) if full else (64,), (32, 64) if full else (32,),
                                    (16, 32) if full else (32,), (4,), (1, 3) if full else (2,)):
        yield Case(
            family="conv2d", fn=conv2d,
            constexprs={"BLOCK_P": bp, "BLOCK_C": bc, "BLOCK_K": bk, "K": 3},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(h * x, bp), cdiv(co, bc), 1), {
                    "x_ptr": Buf("f16", h * x * ci, axis=(h * x, ci, 1)),
                    "w_ptr": Buf("f16", 9 * ci * co, axis=(9, ci, co), mirror=1),
                    "y_ptr": Buf("f16", h * x * co, "out"), "cin": ci, "cout": co, "h": h,
                    "wd": x,
                }) for ci, co, h, x in ((48, 80, 9, 11), (80, 48, 7, 5), (16, 112, 11, 13))),
        )


FAMILIES = (
    Family("gemm_batched", _batched, "batched product"),
    Family("gemm_grouped", _grouped, "grouped product over experts"),
    Family("gemm_persistent", _persistent, "persistent programs over tiles"),
    Family("gemm_splitk", _splitk_only, "split-K partials"),
    Family("splitk_reduce", _reduce_only, "sum of split-K partials"),
    Family("gemm_splitk_atomic", _atomic, "split-K through float atomics"),
    Family("gemm_streamk", _streamk, "stream-K partials"),
    Family("conv1d", _conv1d, "depthwise causal convolution"),
    Family("conv2d", _conv2d, "convolution as an implicit product"),
)
