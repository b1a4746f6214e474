"""The instruction descriptor of tcgen05: shape and types of a matrix step, as the bits say.

Source: the ISA manual, 9.7.16 (instruction descriptor).
"""

from __future__ import annotations

from dataclasses import replace

from checker.core import Mma

__all__ = ["resolve"]

_A_TYPES = {"kind::f16": {0: "f16", 1: "bf16"}, "kind::tf32": {2: "tf32"},
            "kind::f8f6f4": {0: "e4m3", 1: "e5m2"}, "kind::i8": {0: "u8", 1: "s8"}}
_D_TYPES = {0: "f16", 1: "f32", 2: "s32"}


def resolve(attr: Mma, idesc: int) -> Mma | None:
    """Return the instruction with what its descriptor says; None where that is not modelled.

    Not modelled: sparse and saturating steps, steps of two blocks, f16 accumulators, other shapes.
    """
    kind = attr.a.type
    if idesc & 0b1100 or attr.extra != ("idesc",):
        return None
    d = _D_TYPES.get(idesc >> 4 & 3, "?")
    a, b = _A_TYPES[kind].get(idesc >> 7 & 7), _A_TYPES[kind].get(idesc >> 10 & 7)
    rows, cols = (idesc >> 24 & 0x1F) << 4, (idesc >> 17 & 0x3F) << 3
    if a is None or b is None or d not in ("f32", "s32") or rows not in (64, 128) or not cols:
        return None
    return replace(
        attr, m=rows, n=cols, d_type=d,
        a=replace(attr.a, type=a, transposed=bool(idesc >> 15 & 1), neg=bool(idesc >> 13 & 1)),
        b=replace(attr.b, type=b, transposed=bool(idesc >> 16 & 1), neg=bool(idesc >> 14 & 1)),
        c=replace(attr.c, type=d))
