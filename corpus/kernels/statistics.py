"""Statistics of rows, groups and channels: Welford, group and batch norm, cross-entropy."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.inputs import indices
from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def _welford(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    delta = mean_b - mean_a
    weight = weight_a + weight_b
    ratio = tl.where(weight == 0.0, 0.0, weight_b / weight)
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * weight_a * ratio, weight


@triton.jit
def welford(x_ptr, mean_ptr, var_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Mean and variance of a row by a tree of Welford merges."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
    mean, m2, _ = tl.reduce((x, tl.zeros_like(x), ok.to(tl.float32)), 1, _welford)
    tl.store(mean_ptr + r, mean, mask=r < m)
    tl.store(var_ptr + r, m2 / n, mask=r < m)


@triton.jit
def welford_loop(x_ptr, mean_ptr, var_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """A running Welford state for each lane of a tile, merged by a tree at the end."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    mean = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    m2 = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    count = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0).to(tl.float32)
        delta = x - mean
        new = count + 1.0
        shift = mean + delta / new
        m2 = tl.where(ok, m2 + delta * (x - shift), m2)
        mean = tl.where(ok, shift, mean)
        count = tl.where(ok, new, count)
    mean_r, m2_r, _ = tl.reduce((mean, m2, count), 1, _welford)
    tl.store(mean_ptr + r, mean_r, mask=r < m)
    tl.store(var_ptr + r, m2_r / n, mask=r < m)


@triton.jit
def group_norm(x_ptr, w_ptr, b_ptr, y_ptr, groups, per_group, size, eps,
               BLOCK: tl.constexpr):
    """x is [batch, groups, per_group, size]; statistics over (per_group, size)."""
    pid = tl.program_id(0)
    span = per_group * size
    s1 = tl.zeros((BLOCK,), tl.float32)
    s2 = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, span, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + pid * span + i, mask=i < span, other=0.0).to(tl.float32)
        s1 += x
        s2 += x * x
    mean = tl.sum(s1, axis=0) / span
    var = tl.sum(s2, axis=0) / span - mean * mean
    inv = 1.0 / tl.sqrt(var + eps)
    for start in range(0, span, BLOCK):
        i = start + tl.arange(0, BLOCK)
        channel = (pid % groups) * per_group + i // size
        x = tl.load(x_ptr + pid * span + i, mask=i < span, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + channel, mask=i < span, other=0.0)
        b = tl.load(b_ptr + channel, mask=i < span, other=0.0)
        y = (x - mean) * inv * w + b
        tl.store(y_ptr + pid * span + i, y.to(y_ptr.dtype.element_ty), mask=i < span)


@triton.jit
def batch_norm_stats(x_ptr, mean_ptr, var_ptr, batch, channels, size,
                     BLOCK_B: tl.constexpr, BLOCK_S: tl.constexpr):
    """Per channel of [batch, channels, size]: mean and biased variance in one pass."""
    c = tl.program_id(0)
    s1 = tl.zeros((BLOCK_B, BLOCK_S), tl.float32)
    s2 = tl.zeros((BLOCK_B, BLOCK_S), tl.float32)
    for start in range(0, batch, BLOCK_B):
        b = start + tl.arange(0, BLOCK_B)
        s = tl.arange(0, BLOCK_S)
        ok = (b[:, None] < batch) & (s[None, :] < size)
        at = x_ptr + b[:, None] * channels * size + c * size + s[None, :]
        x = tl.load(at, mask=ok, other=0.0).to(tl.float32)
        s1 += x
        s2 += x * x
    count = batch * size
    mean = tl.sum(tl.sum(s1, axis=1), axis=0) / count
    tl.store(mean_ptr + c, mean)
    tl.store(var_ptr + c, tl.sum(tl.sum(s2, axis=1), axis=0) / count - mean * mean)


@triton.jit
def cross_entropy(x_ptr, label_ptr, loss_ptr, n, BLOCK_N: tl.constexpr, ONLINE: tl.constexpr):
    """loss = log(sum(exp(x))) - x[label], one row a block."""
    row = tl.program_id(0)
    if ONLINE:
        top = -float("inf")
        total = 0.0
        for start in range(0, n, BLOCK_N):
            c = start + tl.arange(0, BLOCK_N)
            x = tl.load(x_ptr + row * n + c, mask=c < n, other=float("-inf")).to(tl.float32)
            new = tl.maximum(top, tl.max(x, axis=0))
            total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
            top = new
    else:
        c = tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * n + c, mask=c < n, other=float("-inf")).to(tl.float32)
        top = tl.max(x, axis=0)
        total = tl.sum(tl.exp(x - top), axis=0)
    label = tl.load(label_ptr + row)
    picked = tl.load(x_ptr + row * n + label).to(tl.float32)
    tl.store(loss_ptr + row, top + tl.log(total) - picked)


@triton.jit
def log_softmax(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=float("-inf")).to(tl.float32)
    d = x - tl.max(x, axis=1)[:, None]
    y = d - tl.log(tl.sum(tl.exp(d), axis=1))[:, None]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def l2_normalize(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.arange(0, BLOCK_N)
    ok = (r[:, None] < m) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
    norm = tl.sqrt(tl.sum(x * x, axis=1))
    y = x / tl.maximum(norm, 1e-6)[:, None]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=ok)


@triton.jit
def kahan_sum(x_ptr, y_ptr, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Compensated running sums, one a lane, closed by a plain tree."""
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    s = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    lost = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, n, BLOCK_N):
        c = start + tl.arange(0, BLOCK_N)
        ok = (r[:, None] < m) & (c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=ok, other=0.0)
        y = x - lost
        t = s + y
        lost = (t - s) - y
        s = t
    tl.store(y_ptr + r, tl.sum(s, axis=1), mask=r < m)


SHAPES = ((13, 203), (7, 129), (21, 251))


def _rows(family: str, fn, full: bool, dtype: str, outs: dict[str, str], whole: bool,
          loop: bool) -> Iterator[Case]:
    for bm, bn, w, fusion in product(
        (1, 2, 4) if full else (1, 4),
        ((32, 64, 128) if loop else (256, 512)) if full else ((64,) if loop else (256,)),
        (1, 2, 4, 8) if full else (1, 4), (True, False) if full else (True,),
    ):
        yield Case(
            family=family, variant=fn.fn.__name__, fn=fn,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn},
            options={"num_warps": w, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(m, bm), 1, 1), {
                    "x_ptr": Buf(dtype, m * n, axis=(m, n, 1)),
                    **{k: Buf(t, m * n if whole else m, "out") for k, t in outs.items()},
                    "m": m, "n": n,
                }) for m, n in SHAPES),
        )


def _welford_cases(full: bool) -> Iterator[Case]:
    outs = {"mean_ptr": "f32", "var_ptr": "f32"}
    yield from _rows("welford", welford, full, "f16", outs, False, False)
    yield from _rows("welford", welford_loop, full, "f16", outs, False, True)


def _log_softmax(full: bool) -> Iterator[Case]:
    return _rows("log_softmax", log_softmax, full, "bf16", {"y_ptr": "f32"}, True, False)


def _l2(full: bool) -> Iterator[Case]:
    return _rows("l2_normalize", l2_normalize, full, "f16", {"y_ptr": "f32"}, True, False)


def _kahan(full: bool) -> Iterator[Case]:
    return _rows("kahan_sum", kahan_sum, full, "f32", {"y_ptr": "f32"}, False, True)


def _group_norm(full: bool) -> Iterator[Case]:
    for block, w, s in product((64, 128, 256, 512) if full else (128,),
                               (1, 2, 4) if full else (1, 4), (1, 3) if full else (1,)):
        yield Case(
            family="group_norm", fn=group_norm, constexprs={"BLOCK": block},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((batch * g, 1, 1), {
                    "x_ptr": Buf("f16", batch * g * per * size, axis=(batch * g, per * size, 1)),
                    "w_ptr": Buf("f32", g * per), "b_ptr": Buf("f32", g * per),
                    "y_ptr": Buf("f16", batch * g * per * size, "out"),
                    "groups": g, "per_group": per, "size": size, "eps": 1e-5,
                }) for batch, g, per, size in ((2, 3, 5, 67), (3, 2, 7, 33), (2, 5, 3, 129))),
        )


def _batch_norm(full: bool) -> Iterator[Case]:
    for bb, bs, w in product((2, 4, 8) if full else (4,), (64, 128) if full else (64,),
                             (1, 2, 4) if full else (1, 4)):
        yield Case(
            family="batch_norm_stats", fn=batch_norm_stats,
            constexprs={"BLOCK_B": bb, "BLOCK_S": bs}, options={"num_warps": w},
            launches=tuple(
                Launch((ch, 1, 1), {
                    "x_ptr": Buf("f16", b * ch * s, axis=(b, ch, s)),
                    "mean_ptr": Buf("f32", ch, "out"), "var_ptr": Buf("f32", ch, "out"),
                    "batch": b, "channels": ch, "size": s,
                }) for b, ch, s in ((13, 5, 49), (7, 3, 33), (19, 6, 61))),
        )


def _cross_entropy(full: bool) -> Iterator[Case]:
    tiles = [(False, bn) for bn in ((512, 1024) if full else (512,))]
    tiles += [(True, bn) for bn in ((64, 128, 256) if full else (128,))]
    for (online, bn), w in product(tiles, (1, 2, 4, 8) if full else (1, 4)):
        yield Case(
            family="cross_entropy", fn=cross_entropy,
            constexprs={"BLOCK_N": bn, "ONLINE": online}, options={"num_warps": w},
            launches=tuple(
                Launch((m, 1, 1), {
                    "x_ptr": Buf("f16", m * n, axis=(m, n, 1)),
                    "label_ptr": Buf("i32", m, values=indices(f"label{m}", m, n)),
                    "loss_ptr": Buf("f32", m, "out"), "n": n,
                }) for m, n in ((13, 331), (9, 499), (21, 259))),
        )


FAMILIES = (
    Family("welford", _welford_cases, "mean and variance by Welford merges"),
    Family("log_softmax", _log_softmax, "row log-softmax"),
    Family("l2_normalize", _l2, "rows divided by their norm"),
    Family("kahan_sum", _kahan, "compensated sums"),
    Family("group_norm", _group_norm, "group norm forward"),
    Family("batch_norm_stats", _batch_norm, "per-channel mean and variance"),
    Family("cross_entropy", _cross_entropy, "cross-entropy loss, one block or online"),
)
