"""Narrow operands: W8A8 with its epilogues, fp8 and int4 products, and the quantisers themselves.

``w8a8`` writes ``bf16(acc * sa[m] * sw[n])`` in the variants that real kernels disagree on: scale
grouping, scale precision, a second rounding, truncation, bias fused or added after rounding.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv

EPILOGUES = (
    "row_then_column", "product_of_scales", "column_then_row", "bf16_scales", "through_f16",
    "truncated", "bias_fused", "bias_after",
)


@triton.jit
def w8a8(a_ptr, b_ptr, sa_ptr, sw_ptr, bias_ptr, c_ptr, m, n, k,
         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
         EPILOGUE: tl.constexpr):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0)
        b = tl.load(b_ptr + rn[None, :] * k + kk[:, None],
                    mask=(kk[:, None] < k) & (rn[None, :] < n), other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
    x = acc.to(tl.float32)
    sa = tl.load(sa_ptr + rm, mask=rm < m, other=0.0)[:, None]
    sw = tl.load(sw_ptr + rn, mask=rn < n, other=0.0)[None, :]
    bias = tl.load(bias_ptr + rn, mask=rn < n, other=0.0).to(tl.float32)[None, :]
    if EPILOGUE == 0:
        y = ((x * sa) * sw).to(tl.bfloat16)
    elif EPILOGUE == 1:
        y = (x * (sa * sw)).to(tl.bfloat16)
    elif EPILOGUE == 2:
        y = ((x * sw) * sa).to(tl.bfloat16)
    elif EPILOGUE == 3:
        y = ((x * sa.to(tl.bfloat16).to(tl.float32)) * sw.to(tl.bfloat16).to(tl.float32)).to(
            tl.bfloat16)
    elif EPILOGUE == 4:
        y = ((x * sa) * sw).to(tl.float16).to(tl.float32).to(tl.bfloat16)
    elif EPILOGUE == 5:
        bits = ((x * sa) * sw).to(tl.uint32, bitcast=True) & 0xFFFF0000
        y = bits.to(tl.float32, bitcast=True).to(tl.bfloat16)
    elif EPILOGUE == 6:
        y = ((x * sa) * sw + bias).to(tl.bfloat16)
    else:
        rounded = ((x * sa) * sw).to(tl.bfloat16)
        y = (rounded.to(tl.float32) + bias).to(tl.bfloat16)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], y,
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def gemm_fp8(a_ptr, b_ptr, c_ptr, m, n, k,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
             IMPRECISE: tl.constexpr):
    """B is [n, k]. IMPRECISE is how many products the matrix unit may accumulate by itself."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        b = tl.load(b_ptr + rn[:, None] * k + kk[None, :],
                    mask=(rn[:, None] < n) & (kk[None, :] < k), other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, max_num_imprecise_acc=IMPRECISE)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def gemm_int4(a_ptr, b_ptr, scale_ptr, c_ptr, m, n, k,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
              GROUP: tl.constexpr, SCALE_FIRST: tl.constexpr):
    """B packs two unsigned nibbles a byte along k, minus 8, with one scale a GROUP of k."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        a = tl.load(a_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        ok = (kk[:, None] < k) & (rn[None, :] < n)
        byte = tl.load(b_ptr + (kk[:, None] // 2) * n + rn[None, :], mask=ok, other=0)
        nibble = (byte.to(tl.int32) >> ((kk[:, None] % 2) * 4)) & 15
        scale = tl.load(scale_ptr + (kk[:, None] // GROUP) * n + rn[None, :], mask=ok, other=0.0)
        value = (nibble - 8).to(tl.float16)
        if SCALE_FIRST:
            b = value * scale
        else:
            b = (value.to(tl.float32) * scale.to(tl.float32)).to(tl.float16)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], acc.to(c_ptr.dtype.element_ty),
             mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def quantize_rows(x_ptr, q_ptr, scale_ptr, n, BLOCK: tl.constexpr, DIVIDE: tl.constexpr):
    """Symmetric int8 by row: scale = max|x| / 127, rounding half up by floor(x + 0.5)."""
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + c, mask=c < n, other=0.0).to(tl.float32)
    top = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6)
    if DIVIDE:
        y = x / (top / 127.0)
    else:
        y = x * (127.0 / top)
    q = tl.floor(tl.minimum(tl.maximum(y, -127.0), 127.0) + 0.5)
    tl.store(q_ptr + row * n + c, q.to(tl.int8), mask=c < n)
    tl.store(scale_ptr + row, top / 127.0)


@triton.jit
def cast(x_ptr, y_ptr, n, BLOCK: tl.constexpr, MODE: tl.constexpr):
    """Narrowing conversions: straight, through a middle type, toward zero."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    out: tl.constexpr = y_ptr.dtype.element_ty
    if MODE == 0:
        y = x.to(out)
    elif MODE == 1:
        y = x.to(tl.float16).to(tl.float32).to(out)
    elif MODE == 2:
        y = x.to(tl.bfloat16).to(tl.float32).to(out)
    else:
        y = x.to(out, fp_downcast_rounding="rtz")
    tl.store(y_ptr + i, y, mask=i < n)


def _w8a8(full: bool) -> Iterator[Case]:
    for (e, fusion), bm, bn, bk, w, s in product(
        (*((e, False) for e in range(len(EPILOGUES))), (6, True), (7, True)),
        (16, 32, 64) if full else (32,), (32, 64) if full else (64,),
        (32, 64) if full else (64,), (2, 4) if full else (4,), (1, 3) if full else (2,),
    ):
        if bm * bn < 256 * w:
            continue
        yield Case(
            family="w8a8", variant=EPILOGUES[e], fn=w8a8,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "EPILOGUE": e},
            options={"num_warps": w, "num_stages": s, "enable_fp_fusion": fusion},
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), 1), {
                    "a_ptr": Buf("i8", m * k), "b_ptr": Buf("i8", n * k),
                    "sa_ptr": Buf("f32", m, positive=True),
                    "sw_ptr": Buf("f32", n, positive=True), "bias_ptr": Buf("bf16", n),
                    "c_ptr": Buf("bf16", m * n, "out"), "m": m, "n": n, "k": k,
                }) for m, n, k in ((80, 176, 304), (48, 80, 144), (144, 112, 208))),
        )


def _fp8(full: bool) -> Iterator[Case]:
    for dtype, bm, bn, (bk, imprecise), w, s in product(
        ("e4m3", "e5m2"), (16, 64, 128) if full else (64,), (32, 64) if full else (64,),
        ((32, 0), (32, 32), (64, 0), (64, 32), (64, 64)) if full else ((64, 0), (64, 64)), (4,),
        (1, 3) if full else (3,),
    ):
        yield Case(
            family="gemm_fp8", variant=dtype, fn=gemm_fp8,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk,
                        "IMPRECISE": imprecise},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), 1), {
                    "a_ptr": Buf(dtype, m * k, axis=(m, k, 1)),
                    "b_ptr": Buf(dtype, n * k, axis=(n, k, 1), mirror=1),
                    "c_ptr": Buf("f32", m * n, "out"), "m": m, "n": n, "k": k,
                }) for m, n, k in ((80, 176, 304), (48, 80, 144), (144, 112, 208))),
        )


def _int4(full: bool) -> Iterator[Case]:
    for first, bm, bn, bk, w, s in product(
        (True, False), (16, 32) if full else (32,), (32, 64) if full else (64,),
        (16, 32, 64) if full else (32,), (2, 4) if full else (4,), (1, 3) if full else (2,),
    ):
        yield Case(
            family="gemm_int4", variant="f16_scale" if first else "f32_scale", fn=gemm_int4,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP": 64,
                        "SCALE_FIRST": first},
            options={"num_warps": w, "num_stages": s},
            launches=tuple(
                Launch((cdiv(m, bm), cdiv(n, bn), 1), {
                    "a_ptr": Buf("f16", m * k, axis=(m, k, 1)), "b_ptr": Buf("u8", k // 2 * n),
                    "scale_ptr": Buf("f16", cdiv(k, 64) * n, positive=True),
                    "c_ptr": Buf("f16", m * n, "out"), "m": m, "n": n, "k": k,
                }) for m, n, k in ((48, 176, 304), (80, 80, 144), (16, 112, 208))),
        )


def _quantize(full: bool) -> Iterator[Case]:
    for block, divide, w in product((256, 512), (True, False), (1, 2, 4) if full else (1, 4)):
        yield Case(
            family="quantize", fn=quantize_rows, constexprs={"BLOCK": block, "DIVIDE": divide},
            options={"num_warps": w},
            launches=tuple(
                Launch((m, 1, 1), {
                    "x_ptr": Buf("f16", m * n), "q_ptr": Buf("i8", m * n, "out"),
                    "scale_ptr": Buf("f32", m, "out"), "n": n,
                }) for m, n in ((13, 203), (7, 129), (21, 251))),
        )


def _cast(full: bool) -> Iterator[Case]:
    for (out, mode), block, w in product(
        (("bf16", 0), ("bf16", 1), ("bf16", 3), ("f16", 0), ("f16", 2), ("f16", 3), ("e4m3", 0),
         ("e4m3", 1), ("e5m2", 0), ("e5m2", 1)),
        (128, 512), (1, 4) if full else (4,),
    ):
        yield Case(
            family="cast", variant=("to", "via_f16_to", "via_bf16_to", "rtz_to")[mode] + "_" + out,
            fn=cast, constexprs={"BLOCK": block, "MODE": mode}, options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(n, block), 1, 1),
                       {"x_ptr": Buf("f32", n), "y_ptr": Buf(out, n, "out"), "n": n})
                for n in (2353, 1001, 4099)),
        )


def _has_fp8(target: str) -> bool:
    return target not in ("sm_80", "gfx90a", "gfx1100")


FAMILIES = (
    Family("w8a8", _w8a8, "int8 product with eight epilogues"),
    Family("gemm_fp8", _fp8, "fp8 product", targets=_has_fp8),
    Family("gemm_int4", _int4, "fp16 by int4 product, dequantised in the loop"),
    Family("quantize", _quantize, "int8 row quantiser"),
    Family("cast", _cast, "narrowing conversions",
           targets=lambda target: target.startswith("sm_") and target != "sm_80"),
)
