"""The special function unit of sm_90, bit for bit (f32): what lies below the `.approx` functions.

In and out: uint32 patterns. The unit reads subnormals as zeros and returns none. Tables and rules
were measured on an H200 (data/README.md); each function's docstring says where it was checked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checker.arith.tables import ulp_table

__all__ = ["ex2", "rcp", "rsqrt", "sqrt"]

U32 = NDArray[np.uint32]

_SIGN, _INF, _NAN = np.uint32(1 << 31), np.uint32(0x7F800000), np.uint32(0x7FFFFFFF)
_MAN = np.uint32(0x7FFFFF)
_ONE = np.uint32(0x3F800000)


def _split(x: U32) -> tuple[U32, NDArray[np.int64], NDArray[np.int64]]:
    """Return sign bits, biased exponent and mantissa."""
    return x & _SIGN, ((x & ~_SIGN) >> np.uint32(23)).astype(np.int64), (x & _MAN).astype(np.int64)


def _special(x: U32, out: U32, zero: U32, inf: U32) -> U32:
    """Results for zeros (and subnormals), infinities and NaN."""
    mag = x & ~_SIGN
    out = np.where(mag <= _MAN, zero, out)
    out = np.where(mag == _INF, inf, out)
    return np.where(mag > _INF, _NAN, out)


def _assemble(bits: NDArray[np.int64]) -> U32:
    """Positive patterns as integers, those below the normal range flushed to +0."""
    return np.where(bits < 0x800000, 0, bits).astype(np.uint32)


def rcp(x: U32) -> U32:
    """1/x: table over the mantissa; 4 million random inputs of all exponents checked."""
    sign, exp, man = _split(x)
    near = (np.float32(1) / (x & _MAN | _ONE).view(np.float32)).view(np.uint32)
    bits = near.astype(np.int64) + ulp_table("rcp")[man] - ((exp - 127) << 23)
    zero = np.broadcast_to(_INF, x.shape) | sign
    return _special(x, _assemble(bits) | sign, zero, sign)


def _root(x: U32, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nearest root (or reciprocal root) of the mantissa in [1, 4) plus its ulps; half exponent."""
    _, exp, man = _split(x)
    odd = (exp - 127) & 1
    reduced = ((odd + 127) << 23 | man).astype(np.uint32).view(np.float32)
    exact = np.sqrt(reduced.astype(np.float64))
    near = (1.0 / exact if name == "rsqrt" else exact).astype(np.float32)
    bits = near.view(np.uint32).astype(np.int64) + ulp_table(name)[odd << 23 | man]
    return bits, (exp - 127 - odd) >> 1


def rsqrt(x: U32) -> U32:
    """1/sqrt(x): table over mantissa and parity of the exponent; 4 million others checked."""
    bits, half = _root(x, "rsqrt")
    out = np.where(x & _SIGN, _NAN, _assemble(bits - (half << 23)))
    inf = np.where(x & _SIGN, _NAN, np.uint32(0))
    return _special(x, out, (x & _SIGN) | _INF, inf)


def sqrt(x: U32) -> U32:
    """sqrt(x), likewise."""
    bits, half = _root(x, "sqrt")
    out = np.where(x & _SIGN, _NAN, _assemble(bits + (half << 23)))
    inf = np.where(x & _SIGN, _NAN, _INF)
    return _special(x, out, x & _SIGN, inf)


def ex2(x: U32) -> U32:
    """2**x: |x| cut to 23 fraction bits; below zero one's complement, whole numbers exact.

    Checked on all 2**32 inputs.
    """
    value = np.abs(x.view(np.float32)).astype(np.float64)
    fixed = np.floor(np.minimum(np.nan_to_num(value, nan=0.0), 512.0) * 2.0**23).astype(np.int64)
    fixed = np.where(x & _SIGN, np.where(fixed & 0x7FFFFF, ~fixed, -fixed), fixed)
    low = fixed & 0x7FFFFF
    near = np.exp2(low * 2.0**-23).astype(np.float32).view(np.uint32).astype(np.int64)
    bits = near + ulp_table("ex2")[low] + (fixed & ~0x7FFFFF)
    out = np.where(bits >= 0x7F800000, _INF, _assemble(bits))
    negative = (x & _SIGN) != 0
    return _special(x, out, np.broadcast_to(_ONE, x.shape),
                    np.where(negative, np.uint32(0), _INF))
