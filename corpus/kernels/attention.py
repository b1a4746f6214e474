"""Attention: flash forward (causal or not), paged decode, backward for queries, keys and values."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.inputs import words
from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def flash_forward(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, n_q, n_kv, scale,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
                  CAUSAL: tl.constexpr):
    """One head of [n, D]; the exponent is base two; a causal block stops at its diagonal."""
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    rm = start_m + tl.arange(0, BLOCK_M)
    rn = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q_at = q_ptr + head * n_q * D + rm[:, None] * D + d[None, :]
    q = tl.load(q_at, mask=rm[:, None] < n_q, other=0.0)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    factor = scale * 1.44269504
    end = tl.minimum(n_kv, start_m + BLOCK_M) if CAUSAL else n_kv
    for start in range(0, end, BLOCK_N):
        n = start + rn
        kv_at = head * n_kv * D + n[:, None] * D + d[None, :]
        k = tl.load(k_ptr + kv_at, mask=n[:, None] < n_kv, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=n[:, None] < n_kv, other=0.0)
        s = tl.dot(q, tl.trans(k)) * factor
        if CAUSAL:
            s = tl.where((n[None, :] < n_kv) & (rm[:, None] >= n[None, :]), s, float("-inf"))
        else:
            s = tl.where(n[None, :] < n_kv, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        top = new
    o = acc / total[:, None]
    o_at = o_ptr + head * n_q * D + rm[:, None] * D + d[None, :]
    tl.store(o_at, o.to(o_ptr.dtype.element_ty), mask=rm[:, None] < n_q)
    tl.store(lse_ptr + head * n_q + rm, top + tl.log2(total), mask=rm < n_q)


@triton.jit
def paged_decode(q_ptr, k_ptr, v_ptr, table_ptr, len_ptr, o_ptr, pages, scale,
                 PAGE: tl.constexpr, D: tl.constexpr):
    """One query a sequence, keys and values in pages of PAGE rows that a table names."""
    seq = tl.program_id(0)
    d = tl.arange(0, D)
    t = tl.arange(0, PAGE)
    length = tl.load(len_ptr + seq)
    q = tl.load(q_ptr + seq * D + d).to(tl.float32)
    top = -float("inf")
    total = 0.0
    acc = tl.zeros((D,), tl.float32)
    for page in range(tl.cdiv(length, PAGE)):
        base = tl.load(table_ptr + seq * pages + page) * PAGE
        at = (base + t)[:, None] * D + d[None, :]
        ok = page * PAGE + t < length
        k = tl.load(k_ptr + at, mask=ok[:, None], other=0.0).to(tl.float32)
        s = tl.where(ok, tl.sum(q[None, :] * k, axis=1) * scale, float("-inf"))
        new = tl.maximum(top, tl.max(s, axis=0))
        p = tl.exp(s - new)
        alpha = tl.exp(top - new)
        v = tl.load(v_ptr + at, mask=ok[:, None], other=0.0).to(tl.float32)
        total = total * alpha + tl.sum(p, axis=0)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        top = new
    tl.store(o_ptr + seq * D + d, (acc / total).to(o_ptr.dtype.element_ty))


@triton.jit
def attention_delta(o_ptr, do_ptr, delta_ptr, n, BLOCK_M: tl.constexpr, D: tl.constexpr):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    at = rm[:, None] * D + d[None, :]
    o = tl.load(o_ptr + at, mask=rm[:, None] < n, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at, mask=rm[:, None] < n, other=0.0).to(tl.float32)
    tl.store(delta_ptr + rm, tl.sum(o * do, axis=1), mask=rm < n)


@triton.jit
def attention_dkv(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, n, scale,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
                  CAUSAL: tl.constexpr):
    """Key and value gradients of a block of keys, looping over query blocks."""
    start_n = tl.program_id(0) * BLOCK_N
    rn = start_n + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    kv_at = rn[:, None] * D + d[None, :]
    k = tl.load(k_ptr + kv_at, mask=rn[:, None] < n, other=0.0)
    v = tl.load(v_ptr + kv_at, mask=rn[:, None] < n, other=0.0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    first = (start_n // BLOCK_M) * BLOCK_M if CAUSAL else 0
    for start in range(first, n, BLOCK_M):
        rm = start + tl.arange(0, BLOCK_M)
        at = rm[:, None] * D + d[None, :]
        q = tl.load(q_ptr + at, mask=rm[:, None] < n, other=0.0)
        do = tl.load(do_ptr + at, mask=rm[:, None] < n, other=0.0)
        lse = tl.load(lse_ptr + rm, mask=rm < n, other=0.0)
        delta = tl.load(delta_ptr + rm, mask=rm < n, other=0.0)
        s = tl.dot(q, tl.trans(k)) * (scale * 1.44269504)
        p = tl.exp2(s - lse[:, None])
        ok = (rm[:, None] < n) & (rn[None, :] < n)
        if CAUSAL:
            ok = ok & (rm[:, None] >= rn[None, :])
        p = tl.where(ok, p, 0.0)
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        dp = tl.dot(do, tl.trans(v))
        ds = p * (dp - delta[:, None])
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    tl.store(dk_ptr + kv_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=rn[:, None] < n)
    tl.store(dv_ptr + kv_at, dv.to(dv_ptr.dtype.element_ty), mask=rn[:, None] < n)


@triton.jit
def attention_dq(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, n, scale,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
                 CAUSAL: tl.constexpr):
    start_m = tl.program_id(0) * BLOCK_M
    rm = start_m + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    at = rm[:, None] * D + d[None, :]
    q = tl.load(q_ptr + at, mask=rm[:, None] < n, other=0.0)
    do = tl.load(do_ptr + at, mask=rm[:, None] < n, other=0.0)
    lse = tl.load(lse_ptr + rm, mask=rm < n, other=0.0)
    delta = tl.load(delta_ptr + rm, mask=rm < n, other=0.0)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    end = tl.minimum(n, start_m + BLOCK_M) if CAUSAL else n
    for start in range(0, end, BLOCK_N):
        rn = start + tl.arange(0, BLOCK_N)
        kv_at = rn[:, None] * D + d[None, :]
        k = tl.load(k_ptr + kv_at, mask=rn[:, None] < n, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=rn[:, None] < n, other=0.0)
        s = tl.dot(q, tl.trans(k)) * (scale * 1.44269504)
        ok = (rm[:, None] < n) & (rn[None, :] < n)
        if CAUSAL:
            ok = ok & (rm[:, None] >= rn[None, :])
        p = tl.where(ok, tl.exp2(s - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v))
        dq = tl.dot((p * (dp - delta[:, None])).to(k.dtype), k, dq)
    tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=rm[:, None] < n)


def _flash(full: bool) -> Iterator[Case]:
    for bm, bn, d, causal, w, s in product(
        (16, 32, 64, 128) if full else (64,), (16, 32, 64, 128) if full else (32, 64),
        (32, 64) if full else (64,), (False, True), (2, 4, 8) if full else (4,),
        (1, 2, 3) if full else (2,),
    ):
        if bm * bn > 2048 * w or bm * bn < 128 * w:
            continue
        yield Case(
            family="flash_attention", variant="causal" if causal else "full", fn=flash_forward,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "D": d, "CAUSAL": causal},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(nq, bm), heads, 1), {
                    "q_ptr": Buf("f16", heads * nq * d),
                    "k_ptr": Buf("f16", heads * nkv * d, axis=(heads, nkv, d)),
                    "v_ptr": Buf("f16", heads * nkv * d, axis=(heads, nkv, d)),
                    "o_ptr": Buf("f16", heads * nq * d, "out"),
                    "lse_ptr": Buf("f32", heads * nq, "out"),
                    "n_q": nq, "n_kv": nkv, "scale": 0.125,
                }) for heads, nq, nkv in ((2, 144, 144), (1, 80, 80), (1, 208, 208))),
        )


def _paged(full: bool) -> Iterator[Case]:
    for page, d, w in product((16, 32), (64, 128) if full else (64,),
                              (1, 2, 4, 8) if full else (1, 4)):
        launches = []
        for seqs, longest in ((5, 203), (3, 129), (7, 99)):
            pages = cdiv(longest, page)
            # One physical page a logical page, in hashed order.
            order = words(f"pages{seqs}/{page}", seqs * pages).argsort(kind="stable")
            lengths = tuple(longest - 13 * i for i in range(seqs))
            rows = seqs * pages * page
            launches.append(Launch((seqs, 1, 1), {
                "q_ptr": Buf("f16", seqs * d),
                "k_ptr": Buf("f16", rows * d), "v_ptr": Buf("f16", rows * d),
                "table_ptr": Buf("i32", seqs * pages, values=tuple(int(v) for v in order)),
                "len_ptr": Buf("i32", seqs, values=lengths),
                "o_ptr": Buf("f16", seqs * d, "out"), "pages": pages, "scale": 0.125,
            }))
        yield Case(
            family="paged_attention", fn=paged_decode, constexprs={"PAGE": page, "D": d},
            options={"num_warps": w}, launches=tuple(launches),
        )


def _backward(full: bool) -> Iterator[Case]:
    d = 64
    shapes = (144, 80, 208)

    def common(n: int) -> dict[str, Buf | int | float]:
        return {
            "q_ptr": Buf("f16", n * d), "k_ptr": Buf("f16", n * d),
            "v_ptr": Buf("f16", n * d), "do_ptr": Buf("f16", n * d, axis=(1, n, d)),
            "lse_ptr": Buf("f32", n, positive=True), "delta_ptr": Buf("f32", n),
        }

    for bm, w in product((16, 32, 64), (1, 4) if full else (4,)):
        yield Case(
            family="attention_backward", variant="delta", fn=attention_delta,
            constexprs={"BLOCK_M": bm, "D": d}, options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(n, bm), 1, 1), {
                    "o_ptr": Buf("f16", n * d, axis=(n, d, 1), mirror=1),
                    "do_ptr": Buf("f16", n * d, axis=(n, d, 1)),
                    "delta_ptr": Buf("f32", n, "out"), "n": n,
                }) for n in shapes),
        )
    for bm, bn, causal, w, s in product(
        (16, 32, 64) if full else (32,), (32, 64) if full else (64,), (False, True),
        (4, 8) if full else (4,), (1, 2) if full else (1,),
    ):
        if bm * bn < 128 * w:
            continue
        knobs = {"BLOCK_M": bm, "BLOCK_N": bn, "D": d, "CAUSAL": causal}
        suffix = "_causal" if causal else ""
        yield Case(
            family="attention_backward", variant="dkv" + suffix, fn=attention_dkv,
            constexprs=knobs, options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(n, bn), 1, 1), common(n) | {
                    "dk_ptr": Buf("f16", n * d, "out"), "dv_ptr": Buf("f16", n * d, "out"),
                    "n": n, "scale": 0.125,
                }) for n in shapes),
        )
        yield Case(
            family="attention_backward", variant="dq" + suffix, fn=attention_dq,
            constexprs=knobs, options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(n, bm), 1, 1), common(n) | {
                    "dq_ptr": Buf("f16", n * d, "out"), "n": n, "scale": 0.125,
                }) for n in shapes),
        )


FAMILIES = (
    Family("flash_attention", _flash, "flash attention forward, causal and not"),
    Family("paged_attention", _paged, "decode over paged keys and values"),
    Family("attention_backward", _backward, "attention backward: delta, keys and values, queries"),
)
