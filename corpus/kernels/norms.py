"""Softmax, layer norm and RMS norm: whole rows in one block, and loops over a long row."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def softmax_block(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = e / tl.sum(e, axis=1)[:, None]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def softmax_online(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=float("-inf"))
        x = x.to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=1))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new[:, None]), axis=1)
        top = new
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        at = r[:, None] * n + c[None, :]
        x = tl.load(x_ptr + at, mask=ok, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - top[:, None]) / total[:, None]
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def layernorm_block(x_ptr, w_ptr, b_ptr, y_ptr, m, n, eps,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1) / n
    d = tl.where(ok, x - mean[:, None], 0.0)
    inv = 1.0 / tl.sqrt(tl.sum(d * d, axis=1) / n + eps)
    w = tl.load(w_ptr + c, mask=c < n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + c, mask=c < n, other=0.0).to(tl.float32)
    y = d * inv[:, None] * w[None, :] + b[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def layernorm_loop(x_ptr, w_ptr, b_ptr, y_ptr, m, n, eps,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    s = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        s += tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    mean = tl.sum(s, axis=1) / n
    q = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
        d = tl.where(ok, x - mean[:, None], 0.0)
        q += d * d
    inv = 1.0 / tl.sqrt(tl.sum(q, axis=1) / n + eps)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        at = r[:, None] * n + c[None, :]
        x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c, mask=c < n, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + c, mask=c < n, other=0.0).to(tl.float32)
        y = (x - mean[:, None]) * inv[:, None] * w[None, :] + b[None, :]
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def rmsnorm_block(x_ptr, w_ptr, y_ptr, m, n, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
    inv = tl.rsqrt(tl.sum(x * x, axis=1) / n + eps)
    w = tl.load(w_ptr + c, mask=c < n, other=0.0).to(tl.float32)
    y = x * inv[:, None] * w[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def rmsnorm_loop(x_ptr, w_ptr, y_ptr, m, n, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
        q += x * x
    inv = tl.rsqrt(tl.sum(q, axis=1) / n + eps)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        at = r[:, None] * n + c[None, :]
        x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + c, mask=c < n, other=0.0).to(tl.float32)
        y = x * inv[:, None] * w[None, :]
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


SHAPES = ((13, 203), (7, 129), (21, 251))


def _launch(fn: Any, m: int, n: int, bm: int, dtype: str) -> Launch:
    names = fn.arg_names
    args: dict[str, Buf | int | float] = {"x_ptr": Buf(dtype, m * n, axis=(m, n, 1))}
    if "w_ptr" in names:
        args["w_ptr"] = Buf(dtype, n)
    if "b_ptr" in names:
        args["b_ptr"] = Buf(dtype, n)
    args |= {"y_ptr": Buf(dtype, m * n, "out"), "m": m, "n": n}
    if "eps" in names:
        args["eps"] = 1e-5
    return Launch((cdiv(m, bm), 1, 1), args)


def _cases(family: str, block_fn: Any, loop_fn: Any, full: bool, dtype: str) -> Iterator[Case]:
    warps = (1, 2, 4, 8) if full else (1, 4)
    tiles = [(block_fn, bm, bn, 1) for bm, bn in product((1, 2, 4, 8) if full else (1, 4),
                                                         (256, 512) if full else (256,))]
    tiles += [(loop_fn, bm, bn, s) for bm, bn, s in product(
        (1, 4) if full else (1,), (32, 64, 128) if full else (64,), (1, 2, 3) if full else (2,))]
    for (fn, bm, bn, stages), w in product(tiles, warps):
        yield Case(
            family=family,
            variant=fn.fn.__name__,
            fn=fn,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn},
            options={"num_warps": w, "num_stages": stages},
            launches=tuple(_launch(fn, m, n, bm, dtype) for m, n in SHAPES),
        )


def _softmax(full: bool) -> Iterator[Case]:
    return _cases("softmax", softmax_block, softmax_online, full, "f16")


def _layernorm(full: bool) -> Iterator[Case]:
    return _cases("layernorm", layernorm_block, layernorm_loop, full, "f16")


def _rmsnorm(full: bool) -> Iterator[Case]:
    return _cases("rmsnorm", rmsnorm_block, rmsnorm_loop, full, "f16")


FAMILIES = (
    Family("softmax", _softmax, "row softmax: one block, and the online recurrence"),
    Family("layernorm", _layernorm, "layer norm forward, one block or three loops"),
    Family("rmsnorm", _rmsnorm, "RMS norm forward, one block or two loops"),
)
