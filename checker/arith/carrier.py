"""Arithmetic of f16, bf16 and f32 values carried as float64 and rounded to odd.

In: float64 arrays that hold operands of at most 24 significant bits exactly. Out: float64 arrays
whose last bit is 1 wherever the exact result was not representable: one further rounding to at most
51 bits, in any mode, then equals rounding the exact result once (Boldo, Melquiond 2008). Exact
zeros get the sign that IEEE 754 prescribes for `rnd`.
"""

from __future__ import annotations

import numpy as np

from checker.arith.formats import Doubles

__all__ = ["odd", "odd_add", "odd_div", "odd_fma", "odd_sqrt", "two_sum"]

_SPLIT = np.float64(134217729.0)  # 2**27 + 1 (Veltkamp)


def two_sum(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """Return the rounded sum and its exact error (Knuth); the error is NaN where the sum is not
    finite."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def odd(value: Doubles, error: Doubles) -> Doubles:
    """Round `value + error` to odd, `value` being the nearest float64; a NaN error is none."""
    up, down = error > 0, error < 0
    inexact = up | down
    if not inexact.any():
        return value
    bits = value.view(np.int64)
    move = inexact & ((bits & 1) == 0)
    step = np.where(up == (value > 0), np.int64(1), np.int64(-1))
    return np.where(move, bits + step, bits).view(np.float64)


def odd_add(x: Doubles, y: Doubles, rnd: str = "rn") -> Doubles:
    """x + y."""
    total, error = two_sum(x, y)
    return _zero_sign(odd(total, error), x, y, rnd)


def odd_fma(a: Doubles, b: Doubles, c: Doubles, rnd: str = "rn") -> Doubles:
    """a * b + c; the product of two 24-bit significands is exact."""
    return odd_add(a * b, c, rnd)


def _zero_sign(total: Doubles, x: Doubles, y: Doubles, rnd: str) -> Doubles:
    """IEEE 754-2019, 6.3: a zero sum of operands of opposite sign is -0 when rounding down."""
    if rnd != "rm":
        return total
    negative = (total == 0) & (np.signbit(x) | np.signbit(y))
    return np.where(negative, -0.0, total)


def odd_div(x: Doubles, y: Doubles) -> Doubles:
    """x / y."""
    quotient = x / y
    high = _high(quotient)
    rest = (x - high * y) - (quotient - high) * y  # exact: 26 and 27 bits times 24
    return odd(quotient, np.where(np.isfinite(quotient) & np.isfinite(y), rest * np.sign(y), 0.0))


def odd_sqrt(x: Doubles) -> Doubles:
    """Square root."""
    root = np.sqrt(x)
    high = _high(root)
    low = root - high
    rest = ((x - high * high) - 2 * high * low) - low * low  # the sign is exact
    return odd(root, np.where(np.isfinite(root), rest, 0.0))


def _high(value: Doubles) -> Doubles:
    """Return the upper 26 significant bits."""
    scaled = value * _SPLIT
    return scaled - (scaled - value)
