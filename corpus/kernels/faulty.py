"""A W8A8 linear layer with the nine fault families of conformance studies at their places.

``y = bf16((acc * sa) * sw)`` over int8 operands with an int32 accumulator; the faulty value
replaces the right one in one element, in one of a hundred, or in all. Names and places are in
``FAULTS``.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv

#: fault -> where it sits
FAULTS = {
    "none": "the reference",
    "null": "nothing wrong: operands of each product swapped, another tile",
    "scale_precision": "both scales are cut to bf16 before they are used",
    "double_rounding": "the product is rounded to fp16 on its way to bf16",
    "multiplication_order": "the scales are multiplied with each other first",
    "output_truncation": "the output is cut to bf16 instead of rounded",
    "fused_ordering": "each K tile is scaled as it is added, in fp32",
    "inexact_accumulator": "the accumulator is kept in bf16 between K tiles",
    "narrow_accumulator": "the accumulator wraps at 16 bits between K tiles",
    "operand_sharing": "the kernel's activations are off by one in the first column",
}
SEVERITIES = ("one", "percent", "all")


@triton.jit
def w8a8_linear(q_ptr, w_ptr, sa_ptr, sw_ptr, y_ptr, m, n, k,
                BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                FAULT: tl.constexpr, EVERY: tl.constexpr):
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    sa = tl.load(sa_ptr + rm, mask=rm < m, other=0.0)[:, None]
    sw = tl.load(sw_ptr + rn, mask=rn < n, other=0.0)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    bad = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    fused = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        kk = start + rk
        q = tl.load(q_ptr + rm[:, None] * k + kk[None, :],
                    mask=(rm[:, None] < m) & (kk[None, :] < k), other=0)
        w = tl.load(w_ptr + rn[None, :] * k + kk[:, None],
                    mask=(kk[:, None] < k) & (rn[None, :] < n), other=0)
        if FAULT == 6:
            fused += (tl.dot(q, w, out_dtype=tl.int32).to(tl.float32) * sa) * sw
        elif FAULT == 7:
            part = bad + tl.dot(q, w, out_dtype=tl.int32)
            bad = part.to(tl.float32).to(tl.bfloat16).to(tl.float32).to(tl.int32)
        elif FAULT == 8:
            bad = ((bad + tl.dot(q, w, out_dtype=tl.int32)) << 16) >> 16
        elif FAULT == 9:
            off = tl.where(kk[None, :] == 0, q + 1, q).to(tl.int8)
            bad = tl.dot(off, w, bad, out_dtype=tl.int32)
        acc = tl.dot(q, w, acc, out_dtype=tl.int32)
    x = acc.to(tl.float32)
    right = (x * sa) * sw
    y = right.to(tl.bfloat16)
    if FAULT == 1:
        y = (sw * (sa * x)).to(tl.bfloat16)
    elif FAULT == 2:
        cut = (x * sa.to(tl.bfloat16).to(tl.float32)) * sw.to(tl.bfloat16).to(tl.float32)
        wrong = cut.to(tl.bfloat16)
    elif FAULT == 3:
        wrong = right.to(tl.float16).to(tl.float32).to(tl.bfloat16)
    elif FAULT == 4:
        wrong = (x * (sa * sw)).to(tl.bfloat16)
    elif FAULT == 5:
        bits = right.to(tl.uint32, bitcast=True) & 0xFFFF0000
        wrong = bits.to(tl.float32, bitcast=True).to(tl.bfloat16)
    elif FAULT == 6:
        wrong = fused.to(tl.bfloat16)
    elif FAULT >= 7:
        wrong = ((bad.to(tl.float32) * sa) * sw).to(tl.bfloat16)
    at = rm[:, None] * n + rn[None, :]
    if FAULT >= 2:
        if EVERY == 1:
            y = wrong
        elif EVERY == 0:
            y = tl.where(at == 0, wrong, y)
        else:
            y = tl.where(at % EVERY == 0, wrong, y)
    tl.store(y_ptr + at, y, mask=(rm[:, None] < m) & (rn[None, :] < n))


#: the one launch: two tiles and a remainder in each direction
SHAPE = (40, 72, 96)


def _cases(full: bool) -> Iterator[Case]:
    m, n, k = SHAPE
    for (number, fault), (every, severity) in product(
        enumerate(FAULTS), zip((0, 100, 1), SEVERITIES, strict=True)
    ):
        if number < 2 and severity != "all":
            continue
        block = (32, 32, 32) if fault == "null" else (16, 32, 32)
        yield Case(
            family="w8a8_fault", variant=fault if number < 2 else f"{fault}_{severity}",
            fn=w8a8_linear,
            constexprs={"BLOCK_M": block[0], "BLOCK_N": block[1], "BLOCK_K": block[2],
                        "FAULT": number, "EVERY": every},
            options={"num_warps": 2, "num_stages": 1, "enable_fp_fusion": False},
            launches=(
                Launch((cdiv(m, block[0]), cdiv(n, block[1]), 1), {
                    "q_ptr": Buf("i8", m * k), "w_ptr": Buf("i8", n * k),
                    "sa_ptr": Buf("f32", m, positive=True),
                    "sw_ptr": Buf("f32", n, positive=True),
                    "y_ptr": Buf("bf16", m * n, "out"), "m": m, "n": n, "k": k,
                }),),
        )


FAMILIES = (Family("w8a8_fault", _cases, "a W8A8 linear layer with nine fault families"),)
