"""Backward passes of the norms and of softmax, and an optimiser step."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def softmax_backward(y_ptr, dy_ptr, dx_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    y = tl.load(y_ptr + at, mask=ok, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at, mask=ok, other=0.0).to(tl.float32)
    dot = tl.sum(y * dy, axis=1)
    tl.store(dx_ptr + at, (y * (dy - dot[:, None])).to(dx_ptr.dtype.element_ty), mask=ok)


@triton.jit
def norm_backward_dx(x_ptr, w_ptr, dy_ptr, mean_ptr, inv_ptr, dx_ptr, m, n,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, RMS: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at, mask=ok, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + c, mask=c < n, other=0.0).to(tl.float32)
    inv = tl.load(inv_ptr + r, mask=r < m, other=0.0)[:, None]
    g = dy * w[None, :]
    if RMS:
        xhat = x * inv
        c1 = tl.sum(xhat * g, axis=1) / n
        dx = (g - xhat * c1[:, None]) * inv
    else:
        mean = tl.load(mean_ptr + r, mask=r < m, other=0.0)[:, None]
        xhat = tl.where(ok, (x - mean) * inv, 0.0)
        c1 = tl.sum(xhat * g, axis=1) / n
        c2 = tl.sum(g, axis=1) / n
        dx = (g - (xhat * c1[:, None] + c2[:, None])) * inv
    tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=ok)


@triton.jit
def norm_backward_dw(x_ptr, dy_ptr, mean_ptr, inv_ptr, dw_ptr, db_ptr, m, n,
                     BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Weight and bias gradients: column sums over all rows."""
    c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, m, BLOCK_M):
        r = start + tl.arange(0, BLOCK_M)
        ok = (r[:, None] < m) & (c[None, :] < n)
        at = r[:, None] * n + c[None, :]
        x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=ok, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + r, mask=r < m, other=0.0)[:, None]
        inv = tl.load(inv_ptr + r, mask=r < m, other=0.0)[:, None]
        dw += dy * ((x - mean) * inv)
        db += dy
    tl.store(dw_ptr + c, tl.sum(dw, axis=0), mask=c < n)
    tl.store(db_ptr + c, tl.sum(db, axis=0), mask=c < n)


@triton.jit
def adamw(p_ptr, g_ptr, m_ptr, v_ptr, n, lr, beta1, beta2, eps, decay, BLOCK: tl.constexpr):
    """One step in place on p, m and v."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    p = tl.load(p_ptr + i, mask=ok, other=0.0)
    g = tl.load(g_ptr + i, mask=ok, other=0.0).to(tl.float32)
    m1 = tl.load(m_ptr + i, mask=ok, other=0.0)
    v1 = tl.load(v_ptr + i, mask=ok, other=0.0)
    m1 = beta1 * m1 + (1.0 - beta1) * g
    v1 = beta2 * v1 + (1.0 - beta2) * g * g
    p = p - lr * (m1 / (tl.sqrt(v1) + eps) + decay * p)
    tl.store(p_ptr + i, p, mask=ok)
    tl.store(m_ptr + i, m1, mask=ok)
    tl.store(v_ptr + i, v1, mask=ok)


SHAPES = ((13, 203), (7, 129), (21, 251))


def _softmax(full: bool) -> Iterator[Case]:
    for bm, bn, w, fusion in product((1, 2, 4) if full else (1, 4), (256, 512) if full else (256,),
                                     (1, 2, 4) if full else (1, 4), (True, False)):
        yield Case(
            family="softmax_backward", fn=softmax_backward,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(m, bm), 1, 1), {
                    "y_ptr": Buf("f16", m * n, axis=(m, n, 1), mirror=1),
                    "dy_ptr": Buf("f16", m * n, axis=(m, n, 1)),
                    "dx_ptr": Buf("f16", m * n, "out"), "m": m, "n": n,
                }) for m, n in SHAPES),
        )


def _dx(rms: bool, full: bool) -> Iterator[Case]:
    for bm, bn, w, fusion in product((1, 2, 4) if full else (1,), (256, 512) if full else (256,),
                                     (1, 2, 4) if full else (1, 4), (True, False)):
        yield Case(
            family="rmsnorm_backward" if rms else "layernorm_backward", variant="dx",
            fn=norm_backward_dx, constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "RMS": rms},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(m, bm), 1, 1), {
                    "x_ptr": Buf("f16", m * n, axis=(m, n, 1), mirror=1), "w_ptr": Buf("f16", n),
                    "dy_ptr": Buf("f16", m * n, axis=(m, n, 1)), "mean_ptr": Buf("f32", m),
                    "inv_ptr": Buf("f32", m, positive=True),
                    "dx_ptr": Buf("f16", m * n, "out"), "m": m, "n": n,
                }) for m, n in SHAPES),
        )


def _layernorm(full: bool) -> Iterator[Case]:
    yield from _dx(False, full)
    for bm, bn, w, s in product((8, 16, 32) if full else (16,), (16, 32, 64) if full else (32,),
                                (1, 2, 4) if full else (4,), (1, 3) if full else (1,)):
        yield Case(
            family="layernorm_backward", variant="dw", fn=norm_backward_dw,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn}, options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(n, bn), 1, 1), {
                    "x_ptr": Buf("f16", m * n, axis=(1, m, n), mirror=1),
                    "dy_ptr": Buf("f16", m * n, axis=(1, m, n)), "mean_ptr": Buf("f32", m),
                    "inv_ptr": Buf("f32", m, positive=True), "dw_ptr": Buf("f32", n, "out"),
                    "db_ptr": Buf("f32", n, "out"), "m": m, "n": n,
                }) for m, n in ((75, 67), (37, 33), (101, 77))),
        )


def _rmsnorm(full: bool) -> Iterator[Case]:
    return _dx(True, full)


def _adamw(full: bool) -> Iterator[Case]:
    for block, w, fusion in product((128, 512, 1024), (1, 4), (True, False)):
        yield Case(
            family="adamw", fn=adamw, constexprs={"BLOCK": block},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(n, block), 1, 1), {
                    "p_ptr": Buf("f32", n, "inout"), "g_ptr": Buf("bf16", n),
                    "m_ptr": Buf("f32", n, "inout"),
                    "v_ptr": Buf("f32", n, "inout", positive=True), "n": n,
                    "lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.01,
                }) for n in (2353, 1001, 4099)),
        )


FAMILIES = (
    Family("softmax_backward", _softmax, "softmax backward"),
    Family("layernorm_backward", _layernorm, "layer norm backward: inputs and weights"),
    Family("rmsnorm_backward", _rmsnorm, "RMS norm backward: inputs"),
    Family("adamw", _adamw, "AdamW step in place"),
)
