"""What the identities share: lane-wise choice, known operands, float formats, keys of modes.

In: (hash, facts) pairs. Out: the same. Nothing here is an identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from checker.arrays import every, some
from checker.core import FloatMode
from checker.replay.facts import (
    CONC,
    HF,
    MNZ,
    NONNEG,
    NOSUB,
    POISON,
    Facts,
    consts_of,
    facts_where,
    known_lanes,
    seen,
)
from checker.replay.hashing import combine_all, key
from checker.replay.suppose import supposed
from checker.replay.values import Conc, const

__all__ = [
     "EXPONENTS", "FLOAT_BITS", "NARROW_BITS", "ONE", "choose", "generic", "is_const",
     "may_be_minus_zero", "mode_key", "never_subnormal", "nonnegative", "one", "plain", "poison",
]

FLOAT_BITS: Mapping[str, int] = {"f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64}
NARROW_BITS = {"f16": 16, "bf16": 16, "f32": 32}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}
EXPONENTS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}


def mode_key(mode: FloatMode) -> str:
    """Everything in a mode that changes the result."""
    return (f"{mode.type} {mode.rnd} {mode.denorm} {int(mode.saturate)}{int(mode.relu)} {mode.nan}"
            f" {int(mode.xorsign_abs)}")


def plain(mode: FloatMode) -> bool:
    return not (mode.saturate or mode.relu or mode.xorsign_abs) and mode.denorm == "keep"


def poison(*facts: Facts) -> Facts:
    out: Facts = 0
    for f in facts:
        out = out | f
    return out & POISON


def choose(mask: Any, a: HF, b: HF) -> HF:
    """`a` in the lanes of the mask, else `b`."""
    mask = np.asarray(mask)
    if mask.size == 1:
        return a if mask.flat[0] else b
    return np.where(mask, a[0], b[0]), facts_where(np.asarray(mask), a[1], b[1])


def is_const(x: HF, bits: int) -> Any:
    """Lanes where x is known and has these bits: False, or a mask."""
    if isinstance(x[1], int) and not x[1] & CONC:
        return False
    consts = consts_of(x)
    if consts is not None and bits not in consts:
        return False
    known = known_lanes(x)
    if known is False:
        return False
    found = known & (x[0][1] == np.uint64(bits))
    return found if some(found) else False


def may_be_minus_zero(x: HF, width: int) -> Facts:
    """MNZ fact with known lanes looked at."""
    if supposed("unsigned-zero"):
        return 0
    f: Facts = x[1] & MNZ
    zero = is_const(x, 1 << (width - 1))
    return f if zero is False else np.where(zero, np.uint32(MNZ), f)


def nonnegative(x: HF, width: int) -> Facts:
    """The NONNEG fact with known lanes looked at."""
    f = x[1]
    found = seen(f)
    if not found & CONC:
        return f & NONNEG if found & NONNEG else 0
    known = np.asarray((f & CONC) != 0)
    clear = (x[0][1] >> np.uint64(width - 1)) == 0
    return np.where(known & clear, np.uint32(NONNEG), np.uint32(0)) | (f & np.uint32(NONNEG))


def never_subnormal(x: HF, width: int) -> bool:
    """Whether no lane can hold a subnormal (known lanes: only zeros count)."""
    f = x[1]
    if isinstance(f, int) and not f & CONC:
        return bool(f & NOSUB)
    zero = (x[0][1] & np.uint64((1 << (width - 1)) - 1)) == 0
    return every(((f & NOSUB) != 0) | (((f & CONC) != 0) & zero))


def one(type_name: str) -> Conc:
    """The constant 1.0."""
    return const(ONE[type_name], FLOAT_BITS[type_name])


def generic(name: str, operands: list[HF], facts: int = MNZ) -> HF:
    """An operation without identities."""
    return combine_all(key(name), [h for h, _ in operands]), (
        poison(*(f for _, f in operands)) | facts)
