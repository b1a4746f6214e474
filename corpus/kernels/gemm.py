"""Matrix products: plain, fused epilogues, k groups, reduced and soft-maxed outputs, TMA store.

All are ``C[m, n] = sum_k A[m, k] B[k, n]`` over row-major operands unless said otherwise. K tiles
are masked, so BLOCK_K need not divide K.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, TensorMap, cdiv


@triton.jit
def _swizzle(pid, m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Grouped program order: GROUP_M rows of tiles are walked column by column."""
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    span = GROUP_M * tiles_n
    first = (pid // span) * GROUP_M
    rows = tl.minimum(tiles_m - first, GROUP_M)
    return first + (pid % span) % rows, (pid % span) // rows


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, m, n, k,
         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
         GROUP_M: tl.constexpr, PRECISION: tl.constexpr, TRANS: tl.constexpr):
    pm, pn = _swizzle(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP_M)
    rm = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        if TRANS:
            bt = tl.load(b_ptr + rn[:, None] * k + kk[None, :],
                         mask=(rn[:, None] < n) & (kk[None, :] < k), other=0.0)
            b = tl.trans(bt)
        else:
            b = tl.load(b_ptr + kk[:, None] * n + rn[None, :],
                        mask=(kk[:, None] < k) & (rn[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def gemm_bias_relu(a_ptr, b_ptr, bias_ptr, c_ptr, m, n, k,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                   GROUP_M: tl.constexpr):
    pm, pn = _swizzle(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP_M)
    rm = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        b = tl.load(b_ptr + kk[:, None] * n + rn[None, :],
                    mask=(kk[:, None] < k) & (rn[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc)
    bias = tl.load(bias_ptr + rn, mask=rn < n, other=0.0).to(tl.float32)
    acc = tl.maximum(acc + bias[None, :], 0.0)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def gemm_kgroup(a_ptr, b_ptr, c_ptr, m, n, k,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                GROUP_K: tl.constexpr, GROUP_M: tl.constexpr):
    """K is cut into groups of GROUP_K tiles; each group has its own accumulator, then they add."""
    pm, pn = _swizzle(tl.program_id(0), m, n, BLOCK_M, BLOCK_N, GROUP_M)
    rm = pm * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pn * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for outer in range(0, k, BLOCK_K * GROUP_K):
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for inner in range(GROUP_K):
            kk = outer + inner * BLOCK_K + rk
            a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                        mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
            b = tl.load(b_ptr + kk[:, None] * n + rn[None, :],
                        mask=(kk[:, None] < k) & (rn[None, :] < n), other=0.0)
            acc = tl.dot(a, b, acc)
        total += acc
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], total.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def gemm_rows(a_ptr, b_ptr, c_ptr, m, n, k,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
              PRECISION: tl.constexpr, SOFTMAX: tl.constexpr):
    """One block of rows with all n columns: the row sum of the product, or its softmax."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        b = tl.load(b_ptr + kk[:, None] * n + rn[None, :],
                    mask=(kk[:, None] < k) & (rn[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    if SOFTMAX:
        acc = tl.where(rn[None, :] < n, acc, float("-inf"))
        e = tl.exp(acc - tl.max(acc, axis=1)[:, None])
        y = e / tl.sum(e, axis=1)[:, None]
        tl.store(c_ptr + rm[:, None] * n + rn[None, :], y,
                 mask=(rm[:, None] < m) & (rn[None, :] < n))
    else:
        tl.store(c_ptr + rm, tl.sum(acc, axis=1), mask=rm < m)


@triton.jit
def gemm_tma(a_desc, b_desc, c_desc, k,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Loads and stores through host tensor maps; out of range reads zero, writes nothing."""
    om = tl.program_id(0) * BLOCK_M
    on = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        acc = tl.dot(a_desc.load([om, start]), b_desc.load([start, on]), acc)
    c_desc.store([om, on], acc.to(c_desc.dtype))


def launch(m: int, n: int, k: int, bm: int, bn: int, dtype: str, out: str,
           bias: str | None = None, trans: bool = False) -> Launch:
    """The launch of a plain product; the operands cancel along K."""
    args: dict[str, Buf | int | float] = {
        "a_ptr": Buf(dtype, m * k, axis=(m, k, 1)),
        "b_ptr": Buf(dtype, k * n, axis=(n, k, 1) if trans else (1, k, n), mirror=1),
    }
    if bias:
        args["bias_ptr"] = Buf(bias, n)
    args |= {"c_ptr": Buf(out, m * n, "out"), "m": m, "n": n, "k": k}
    return Launch((cdiv(m, bm) * cdiv(n, bn), 1, 1), args)


SHAPES = ((80, 176, 304), (144, 80, 144), (48, 112, 208))


def _gemm_cases(family: str, variant: str, full: bool, dtype: str, out: str,
                precisions: tuple[str, ...], grid: dict[str, tuple[Any, ...]]) -> Iterator[Case]:
    for bm, bn, bk, w, s, g, p, t in product(grid["bm"], grid["bn"], grid["bk"], grid["w"],
                                             grid["s"], grid["g"], precisions, grid["t"]):
        if bm * bn > 64 * 32 * w * 4 or bm * bn < 16 * 16 * w:
            continue
        yield Case(
            family=family, variant=variant, fn=gemm,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": g,
                        "PRECISION": p, "TRANS": t},
            options={"num_warps": w, "num_stages": s},
            isa="ptx" if p == "tf32x3" else "",
            launches=tuple(launch(m, n, k, bm, bn, dtype, out, trans=t) for m, n, k in SHAPES),
        )


def _fp16(full: bool) -> Iterator[Case]:
    grid: dict[str, tuple[Any, ...]] = {
        "bm": (16, 32, 64, 128), "bn": (16, 32, 64, 128), "bk": (16, 32, 64, 128),
        "w": (1, 2, 4, 8), "s": (1, 2, 3, 4), "g": (1, 4), "t": (False, True),
    } if full else {
        "bm": (16, 64), "bn": (32, 64), "bk": (16, 64), "w": (1, 4), "s": (1, 3), "g": (4,),
        "t": (False,),
    }
    return _gemm_cases("gemm", "", full, "f16", "f16", ("tf32",), grid)


def _f32(full: bool) -> Iterator[Case]:
    grid: dict[str, tuple[Any, ...]] = {
        "bm": (32, 64), "bn": (32, 64), "bk": (16, 32, 64), "w": (2, 4), "s": (1, 3), "g": (4,),
        "t": (False, True),
    } if full else {
        "bm": (32,), "bn": (64,), "bk": (16, 32), "w": (4,), "s": (3,), "g": (4,), "t": (False,),
    }
    return _gemm_cases("gemm_f32", "", full, "f32", "f32", ("tf32", "tf32x3", "ieee"), grid)


def _bf16(full: bool) -> Iterator[Case]:
    grid: dict[str, tuple[Any, ...]] = {
        "bm": (16, 64, 128), "bn": (32, 64), "bk": (16, 32, 64), "w": (2, 4), "s": (1, 3),
        "g": (4,), "t": (False, True),
    } if full else {
        "bm": (64,), "bn": (64,), "bk": (16, 32), "w": (4,), "s": (3,), "g": (4,), "t": (True,),
    }
    return _gemm_cases("gemm_bf16", "", full, "bf16", "f32", ("tf32",), grid)


def _bias_relu(full: bool) -> Iterator[Case]:
    for bm, bn, bk, w, s, fusion in product(
        (16, 32, 64, 128) if full else (64,), (32, 64, 128) if full else (64,),
        (16, 32, 64) if full else (32, 64), (2, 4) if full else (4,), (1, 3) if full else (3,),
        (True, False),
    ):
        if bm * bn > 8192 * w // 4 or bm * bn < 256 * w:
            continue
        yield Case(
            family="gemm_bias_relu", fn=gemm_bias_relu,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 4},
            options={"num_warps": w, "num_stages": s, "enable_fp_fusion": fusion},
            launches=tuple(launch(m, n, k, bm, bn, "bf16", "bf16", bias="bf16")
                           for m, n, k in SHAPES),
        )


def _kgroup(full: bool) -> Iterator[Case]:
    for bm, bn, bk, gk, w, s, g in product(
        (16, 32, 64) if full else (64,), (32, 64, 128) if full else (64,),
        (16, 32, 64) if full else (32,), (1, 2, 4, 8) if full else (1, 2, 4),
        (2, 4) if full else (4,), (1, 2, 3) if full else (3,), (1, 4) if full else (4,),
    ):
        if bm * bn > 8192 * w // 4 or bm * bn < 256 * w:
            continue
        yield Case(
            family="gemm_kgroup", fn=gemm_kgroup,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_K": gk, "GROUP_M": g},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(launch(m, n, k, bm, bn, "bf16", "bf16") for m, n, k in SHAPES),
        )


def _rows(family: str, softmax: bool, full: bool) -> Iterator[Case]:
    shapes = ((80, 112, 304), (144, 80, 144), (48, 96, 208))
    for bm, bk, w, s, p in product(
        (16, 32, 64) if full else (32,), (16, 32, 64) if full else (32,),
        (1, 2, 4, 8) if full else (4,), (1, 2, 3) if full else (2,), ("tf32", "tf32x3", "ieee"),
    ):
        if bm * 128 < 16 * 8 * 4 * w or bm * 128 > 4096 * w:
            continue
        yield Case(
            family=family, fn=gemm_rows,
            constexprs={"BLOCK_M": bm, "BLOCK_N": 128, "BLOCK_K": bk, "PRECISION": p,
                        "SOFTMAX": softmax},
            options={"num_warps": w, "num_stages": s},
            isa="ptx" if p == "tf32x3" else "",
            launches=tuple(
                Launch((cdiv(m, bm), 1, 1), {
                    "a_ptr": Buf("f32", m * k, axis=(m, k, 1)),
                    "b_ptr": Buf("f32", k * n, axis=(1, k, n), mirror=1),
                    "c_ptr": Buf("f32", m * n if softmax else m, "out"),
                    "m": m, "n": n, "k": k,
                }) for m, n, k in shapes),
        )


def _reduce_sum(full: bool) -> Iterator[Case]:
    return _rows("gemm_reduce_sum", False, full)


def _gemm_softmax(full: bool) -> Iterator[Case]:
    return _rows("gemm_softmax", True, full)


def _tma(full: bool) -> Iterator[Case]:
    for bm, bn, bk, w, s in product((64, 128), (64, 128), (32, 64) if full else (64,),
                                    (4, 8) if full else (4,), (2, 3) if full else (3,)):
        yield Case(
            family="gemm_tma_store", fn=gemm_tma,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), 1), {
                    "a_desc": Buf("f16", m * k, axis=(m, k, 1),
                                  desc=TensorMap((m, k), (bm, bk))),
                    "b_desc": Buf("f16", k * n, axis=(1, k, n), mirror=1,
                                  desc=TensorMap((k, n), (bk, bn))),
                    "c_desc": Buf("f16", m * n, "out", desc=TensorMap((m, n), (bm, bn))),
                    "k": k,
                }) for m, n, k in SHAPES),
        )


FAMILIES = (
    Family("gemm", _fp16, "fp16 product, fp32 accumulator"),
    Family("gemm_f32", _f32, "fp32 product by tf32, three tf32 products, or fma chains"),
    Family("gemm_bf16", _bf16, "bf16 product, fp32 out"),
    Family("gemm_bias_relu", _bias_relu, "bf16 product with bias and relu, fused or not"),
    Family("gemm_kgroup", _kgroup, "bf16 product whose K groups have accumulators of their own"),
    Family("gemm_reduce_sum", _reduce_sum, "row sums of an fp32 product"),
    Family("gemm_softmax", _gemm_softmax, "softmax of the rows of an fp32 product"),
    Family("gemm_tma_store", _tma, "fp16 product through tensor maps",
           targets=lambda target: target in ("sm_90", "sm_100", "sm_120")),
)
