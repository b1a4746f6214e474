"""The special function unit of sm_90, bit for bit (f32): what lies below the `.approx` functions.

In and out: uint32 patterns. The unit reads subnormals as zeros and returns none. Tables and rules
were measured on an H200 (data/README.md); each function's docstring says where it was checked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checker.arith.tables import ulp_table, value_table

__all__ = ["cos", "ex2", "lg2", "rcp", "rsqrt", "sin", "sqrt", "tanh"]

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
    """1/x: table over the mantissa. Checked on all 2**32 inputs."""
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
    """1/sqrt(x): table over mantissa and parity of the exponent. Checked on all 2**32 inputs."""
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


def lg2(x: U32) -> U32:
    """log2(x). At exponent e: e plus a 23-bit fixed-point fraction (its one's complement below
    zero), cut to 24 bits; at exponents 0 and -1 tables of their own, which keep more bits."""
    _, exp, man = _split(x)
    exp = exp - 127
    above = value_table("lg2_above")[man]
    fraction = np.floor(above.view(np.float32).astype(np.float64) * 2.0**23).astype(np.int64)
    fixed = (exp << 23) + fraction
    mag = np.where(exp < 0, ~fixed, fixed)
    drop = np.maximum(np.frexp(mag.astype(np.float64))[1] - 24, 0)
    cut = (mag >> drop) << drop
    value = np.where(exp < 0, -cut, cut).astype(np.float64) * 2.0**-23
    out = value.astype(np.float32).view(np.uint32)
    out = np.where(exp == 0, above, out)
    out = np.where(exp == -1, value_table("lg2_below")[man], out)
    out = np.where(x & _SIGN, _NAN, out)
    inf = np.where(x & _SIGN, _NAN, _INF)
    return _special(x, out, np.broadcast_to(_INF | _SIGN, x.shape), inf)


def _wave(x: U32, quarters: int) -> U32:
    """sin(2 pi (|x| + quarters / 4)): |x| cut to 25 fraction bits; in odd quarters the one's
    complement of the 23 low bits, except that a whole quarter is exactly 1."""
    value = np.abs(x.view(np.float32)).astype(np.float64)
    turn = np.where(np.isfinite(value), value, 0.0)
    phase = np.floor((turn - np.floor(turn)) * 2.0**25).astype(np.int64) + (quarters << 23)
    low, odd = phase & 0x7FFFFF, (phase >> 23) & 1
    out = value_table("sin")[np.where(odd == 1, 0x7FFFFF - low, low)]
    out = np.where((odd == 1) & (low == 0), _ONE, out)
    return out | ((phase >> 24) & 1).astype(np.uint32) << np.uint32(31)


def sin(x: U32) -> U32:
    """sin(2 pi x)."""
    return _special(x, _wave(x, 0) ^ (x & _SIGN), x & _SIGN, np.broadcast_to(_NAN, x.shape))


def cos(x: U32) -> U32:
    """cos(2 pi x)."""
    return _special(x, _wave(x, 1), np.broadcast_to(_ONE, x.shape),
                    np.broadcast_to(_NAN, x.shape))


_TANH = range(-9, 3)  # exponents with a table


def tanh(x: U32) -> U32:
    """tanh(x): x itself below 2**-9, a table by exponent and leading bits, 1 from 8 on."""
    sign, exp, man = _split(x)
    table = value_table("tanh")
    drops = table[: len(_TANH)].astype(np.int64)
    starts = len(_TANH) + np.concatenate([[0], np.cumsum((1 << 23) >> drops)[:-1]])
    place = np.clip(exp - 127 - _TANH.start, 0, len(_TANH) - 1)
    out = table[starts[place] + (man >> drops[place])]
    out = np.where(exp - 127 < _TANH.start, x & ~_SIGN, out)
    out = np.where(exp - 127 >= _TANH.stop, _ONE, out) | sign
    return _special(x, out, x, _ONE | sign)
