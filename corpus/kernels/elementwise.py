"""Fifteen element-wise variants of one parameter list: near misses that only exact algebra parts.

Each is ``out[i] = f(a[i], b[i])`` (variant 12 also loads ``a[i + 1]``).
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv

VARIANTS = (
    "mul_add", "add_mul", "mul_inc", "fma", "mul_sub_neg", "sum_then_a", "a_plus_sum", "double",
    "twice_plus", "div", "mul_rcp", "div_rn", "neighbour", "where", "max",
)


@triton.jit
def elementwise(a_ptr, b_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    a = tl.load(a_ptr + i, mask=ok, other=0.0)
    b = tl.load(b_ptr + i, mask=ok, other=0.0)
    if OP == 0:
        r = a * b + a
    elif OP == 1:
        r = a + b * a
    elif OP == 2:
        r = a * (b + 1.0)
    elif OP == 3:
        r = tl.fma(a, b, a)
    elif OP == 4:
        r = a * b - (-a)
    elif OP == 5:
        r = (a + b) + a
    elif OP == 6:
        r = a + (b + a)
    elif OP == 7:
        r = a * 2.0 + b
    elif OP == 8:
        r = (a + a) + b
    elif OP == 9:
        r = a / b
    elif OP == 10:
        r = a * (1.0 / b)
    elif OP == 11:
        r = tl.math.div_rn(a, b)
    elif OP == 12:
        r = tl.load(a_ptr + i + 1, mask=i + 1 < n, other=0.0) * b
    elif OP == 13:
        r = tl.where(a > b, a, b)
    else:
        r = tl.maximum(b, a)
    tl.store(out_ptr + i, r, mask=ok)


def cases(full: bool) -> Iterator[Case]:
    """Every variant in f32, over tile width, warps and fusion; half of the knobs when modest."""
    blocks = (128, 256, 512, 1024) if full else (128, 1024)
    for op, name in enumerate(VARIANTS):
        for block in blocks:
            for warps in (1, 4, 8) if full else (1, 4):
                for fusion in (True, False) if full else (True,):
                    yield Case(
                        family="elementwise",
                        variant=name,
                        fn=elementwise,
                        constexprs={"OP": op, "BLOCK": block},
                        options={"num_warps": warps, "enable_fp_fusion": fusion},
                        launches=tuple(
                            Launch(
                                (cdiv(n, block), 1, 1),
                                {
                                    "a_ptr": Buf("f32", n),
                                    "b_ptr": Buf("f32", n),
                                    "out_ptr": Buf("f32", n, "out"),
                                    "n": n,
                                },
                            )
                            for n in (2353, 1001, 4099)
                        ),
                    )


FAMILIES = (Family("elementwise", cases, "fifteen variants of one element-wise parameter list"),)
