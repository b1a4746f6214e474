"""Scans, sort, top-k, histogram, pooling: order fixed by a network, or free because it is exact."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def cumsum(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           REVERSE: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0)
    tl.store(y_ptr + at, tl.cumsum(x, axis=1, reverse=REVERSE), mask=ok)


@triton.jit
def cumsum_loop(x_ptr, y_ptr, t_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                REVERSE: tl.constexpr):
    """Chunks of BLOCK_N columns; the carry is the chunk's total."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    carry = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        at = r[:, None] * n + c[None, :]
        x = tl.load(x_ptr + at, mask=ok, other=0.0)
        tl.store(y_ptr + at, tl.cumsum(x, axis=1) + carry[:, None], mask=ok)
        carry += tl.sum(x, axis=1)
    tl.store(t_ptr + r, carry, mask=r < m)


@triton.jit
def _linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def linear_scan(a_ptr, b_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """h[t] = a[t] h[t-1] + b[t] by an associative scan."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    a = tl.load(a_ptr + at, mask=ok, other=1.0)
    b = tl.load(b_ptr + at, mask=ok, other=0.0)
    _, h = tl.associative_scan((a, b), 1, _linear)
    tl.store(y_ptr + at, h, mask=ok)


@triton.jit
def linear_recurrence(a_ptr, b_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr):
    """The same recurrence step by step, one lane a row."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    h = tl.zeros((BLOCK_M,), tl.float32)
    for t in range(n):
        a = tl.load(a_ptr + r * n + t, mask=r < m, other=1.0)
        b = tl.load(b_ptr + r * n + t, mask=r < m, other=0.0)
        h = a * h + b
        tl.store(y_ptr + r * n + t, h, mask=r < m)


@triton.jit
def sort_rows(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              DESCENDING: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    pad = float("-inf") if DESCENDING else float("inf")
    x = tl.load(x_ptr + at, mask=ok, other=pad)
    tl.store(y_ptr + at, tl.sort(x, dim=1, descending=DESCENDING), mask=ok)


@triton.jit
def topk_rows(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=float("-inf"))
    top = tl.topk(x, K, dim=1)
    k = tl.arange(0, K)
    tl.store(y_ptr + r[:, None] * K + k[None, :], top, mask=r[:, None] < m)


@triton.jit
def histogram(x_ptr, y_ptr, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """Integer counts: the order of atomics cannot matter."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    x = tl.load(x_ptr + i, mask=ok, other=0)
    counts = tl.histogram((x & (BINS - 1)).to(tl.int32), BINS, mask=ok)
    tl.atomic_add(y_ptr + tl.arange(0, BINS), counts)


@triton.jit
def avg_pool(x_ptr, y_ptr, h, w, BLOCK: tl.constexpr, K: tl.constexpr, MAX: tl.constexpr):
    """K x K pooling with stride 1, windows summed in row-major order."""
    oh = h - K + 1
    ow = w - K + 1
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < oh * ow
    y = i // ow
    x = i % ow
    acc = tl.zeros((BLOCK,), tl.float32)
    if MAX:
        acc += float("-inf")
    for dy in tl.static_range(K):
        for dx in tl.static_range(K):
            v = tl.load(x_ptr + (y + dy) * w + x + dx, mask=ok, other=0.0).to(tl.float32)
            if MAX:
                acc = tl.maximum(acc, v)
            else:
                acc += v
    if not MAX:
        acc = acc / (K * K)
    tl.store(y_ptr + i, acc.to(y_ptr.dtype.element_ty), mask=ok)


SHAPES = ((13, 203), (7, 129), (21, 251))


def _matrix(fn: Any, family: str, constexprs: dict[str, Any], w: int, bm: int, dtype: str,
            out: str, columns: int | None = None, two: bool = False, **options: Any) -> Case:
    names = ("a_ptr", "b_ptr") if two else ("x_ptr",)
    return Case(
        family=family, variant=fn.fn.__name__, fn=fn, constexprs=constexprs,
        options={"num_warps": w, **options},
        launches=tuple(
            Launch((cdiv(m, bm), 1, 1), {
                **{name: Buf(dtype, m * n, axis=(m, n, 1)) for name in names},
                "y_ptr": Buf(out, m * (columns or n), "out"),
                **({"t_ptr": Buf(out, m, "out")} if "t_ptr" in fn.arg_names else {}),
                "m": m, "n": n,
            }) for m, n in SHAPES),
    )


def _cumsum(full: bool) -> Iterator[Case]:
    for bm, bn, rev, w in product((1, 2, 4) if full else (1, 4), (256,), (False, True),
                                  (1, 2, 4) if full else (1, 4)):
        yield _matrix(cumsum, "cumsum", {"BLOCK_M": bm, "BLOCK_N": bn, "REVERSE": rev}, w, bm,
                      "f32", "f32")
    for bm, bn, w in product((1, 4), (32, 64, 128) if full else (64,), (1, 4) if full else (1,)):
        yield _matrix(cumsum_loop, "cumsum", {"BLOCK_M": bm, "BLOCK_N": bn, "REVERSE": False}, w,
                      bm, "f32", "f32")


def _linear_scan(full: bool) -> Iterator[Case]:
    for bm, bn, w, fusion in product((1, 2, 4) if full else (1, 4), (256,),
                                     (1, 2, 4) if full else (1, 4), (True, False)):
        yield _matrix(linear_scan, "linear_scan", {"BLOCK_M": bm, "BLOCK_N": bn}, w, bm, "f32",
                      "f32", two=True, enable_fp_fusion=fusion)
    for bm, w, fusion in product((32, 64) if full else (32,), (1, 2) if full else (1,),
                                 (True, False)):
        yield _matrix(linear_recurrence, "linear_scan", {"BLOCK_M": bm}, w, bm, "f32", "f32",
                      two=True, enable_fp_fusion=fusion)


def _sort(full: bool) -> Iterator[Case]:
    for bm, down, w in product((1, 2, 4) if full else (1, 4), (False, True),
                               (1, 2, 4) if full else (1, 4)):
        yield _matrix(sort_rows, "sort", {"BLOCK_M": bm, "BLOCK_N": 256, "DESCENDING": down}, w,
                      bm, "f32", "f32")


def _topk(full: bool) -> Iterator[Case]:
    for bm, k, w in product((1, 4), (8, 32) if full else (8,), (1, 2, 4) if full else (1, 4)):
        yield _matrix(topk_rows, "topk", {"BLOCK_M": bm, "BLOCK_N": 256, "K": k}, w, bm, "f32",
                      "f32", columns=k)


def _histogram(full: bool) -> Iterator[Case]:
    for block, w in product((256, 512, 1024) if full else (256, 1024),
                            (1, 2, 4) if full else (1, 4)):
        yield Case(
            family="histogram", fn=histogram, constexprs={"BLOCK": block, "BINS": 64},
            options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(n, block), 1, 1), {
                    "x_ptr": Buf("i32", n),
                    "y_ptr": Buf("i32", 64, "inout", zero=True), "n": n,
                }) for n in (2353, 1001, 4099)),
        )


def _pool(full: bool) -> Iterator[Case]:
    for block, k, top, w in product((128, 256, 512) if full else (128, 512), (2, 3),
                                    (False, True), (1, 2, 4) if full else (1, 4)):
        yield Case(
            family="pool", fn=avg_pool, constexprs={"BLOCK": block, "K": k, "MAX": top},
            options={"num_warps": w},
            launches=tuple(
                Launch((cdiv((h - k + 1) * (x - k + 1), block), 1, 1), {
                    "x_ptr": Buf("f16", h * x),
                    "y_ptr": Buf("f32", (h - k + 1) * (x - k + 1), "out"), "h": h, "w": x,
                }) for h, x in ((29, 37), (17, 19), (41, 43))),
        )


FAMILIES = (
    Family("cumsum", _cumsum, "prefix sums of rows, whole and in chunks"),
    Family("linear_scan", _linear_scan, "first-order linear recurrence, by tree and by steps"),
    Family("sort", _sort, "bitonic sort of rows"),
    Family("topk", _topk, "largest elements of rows"),
    Family("histogram", _histogram, "integer histogram through atomics"),
    Family("pool", _pool, "average and maximum pooling"),
)
