"""f64 operations in all rounding modes.

In and out: float64 arrays. Round to nearest is the machine's own; fma and the directed modes use
error-free transforms where exponents are moderate and integers of any size elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from checker.arith.carrier import odd, two_sum
from checker.arith.formats import Doubles

__all__ = ["add", "div", "fma", "ldexp", "mul", "sqrt"]

_SPLIT = np.float64(134217729.0)
_LARGE, _SMALL = 2.0**450, 2.0**-450


def add(x: Doubles, y: Doubles, rnd: str) -> Doubles:
    """x + y."""
    if rnd == "rn":
        return x + y
    total, error = two_sum(x, y)
    total = _directed(total, error, rnd, np.isfinite(x) & np.isfinite(y))
    if rnd == "rm":
        total = np.where((total == 0) & (np.signbit(x) | np.signbit(y)), -0.0, total)
    return total


def mul(x: Doubles, y: Doubles, rnd: str) -> Doubles:
    """x * y."""
    if rnd == "rn":
        return x * y
    product, error = _two_product(x, y)
    out = _directed(product, error, rnd, np.isfinite(x) & np.isfinite(y))
    hard = ~(_moderate(x) & _moderate(y)) & np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    return _patch(out, hard, _exact_mul, rnd, x, y)


def fma(a: Doubles, b: Doubles, c: Doubles, rnd: str) -> Doubles:
    """a * b + c with one rounding (Boldo, Melquiond: emulation of FMA by rounding to odd)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    product, low = _two_product(a, b)
    mid, mid_error = two_sum(c, low)
    high, high_error = two_sum(product, mid)
    tail = odd(*two_sum(mid_error, high_error))
    total, error = two_sum(high, tail)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    out = total if rnd == "rn" else _directed(total, error, rnd, finite)
    easy = _moderate(a) & _moderate(b) & ((c == 0) | _within(c, 2.0**-800, 2.0**900))
    plain = ~finite | (a == 0) | (b == 0)
    out = np.where(plain, a * b + c, out)
    out = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, out)  # a * b may overflow
    if rnd == "rm":
        sign = (np.signbit(a) ^ np.signbit(b)) | np.signbit(c)
        out = np.where((out == 0) & sign, -0.0, out)
    elif (easy & (out == 0)).any():  # a product that cancels c exactly gives +0
        out = np.where(~plain & (out == 0), 0.0, out)
    hard = ~plain & ~easy
    return _patch(out, hard, _exact_fma, rnd, a, b, c)


def div(x: Doubles, y: Doubles, rnd: str) -> Doubles:
    """x / y."""
    quotient = x / y
    if rnd == "rn":
        return quotient
    product, low = _two_product(quotient, y)
    rest = ((x - product) - low) * np.sign(y)
    plain = ~np.isfinite(x) | ~np.isfinite(y) | (x == 0) | (y == 0)
    out = np.where(plain, quotient, _directed(quotient, rest, rnd, ~plain))
    hard = ~plain & ~(_moderate(x) & _moderate(y))
    return _patch(out, hard, _exact_div, rnd, x, y)


def sqrt(x: Doubles, rnd: str) -> Doubles:
    """Square root."""
    root = np.sqrt(x)
    if rnd == "rn":
        return root
    product, low = _two_product(root, root)
    plain = ~np.isfinite(root) | (x == 0)
    out = np.where(plain, root, _directed(root, (x - product) - low, rnd, ~plain))
    hard = ~plain & ~_moderate(x)
    return _patch(out, hard, _exact_sqrt, rnd, x)


def ldexp(x: Doubles, power: NDArray[np.int64], rnd: str) -> Doubles:
    """x * 2**power."""
    x, power = np.broadcast_arrays(x, power)
    power = np.clip(power, -5000, 5000)
    out = np.ldexp(x, power)
    hard = np.isfinite(x) & (x != 0) & ~_within(out, 2.0**-1021, 2.0**1023)
    patched = out.copy()
    for index in zip(*np.nonzero(hard), strict=True):
        value, exp = _parts(float(x[index]))
        patched[index] = _round(value, exp + int(power[index]), False, rnd)
    return patched


def _moderate(x: Doubles) -> NDArray[np.bool_]:
    return _within(x, _SMALL, _LARGE)


def _within(x: Doubles, low: float, high: float) -> NDArray[np.bool_]:
    mag = np.abs(x)
    return (mag > low) & (mag < high)


def _two_product(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """Return the rounded product and its error (Dekker), exact for moderate exponents."""
    product = x * y
    sx, sy = x * _SPLIT, y * _SPLIT
    xh, yh = sx - (sx - x), sy - (sy - y)
    xl, yl = x - xh, y - yh
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _directed(value: Doubles, error: Doubles, rnd: str, finite: NDArray[np.bool_]) -> Doubles:
    """Turn a nearest result with known error into the result of a directed mode."""
    if rnd == "rz":
        move = np.where(value > 0, error < 0, error > 0)
        out = np.where(move, np.nextafter(value, 0.0), value)
        return np.where(finite & np.isinf(value), np.copysign(np.finfo(np.float64).max, value), out)
    goal = {"rm": -np.inf, "rp": np.inf}[rnd]
    move = error < 0 if rnd == "rm" else error > 0
    move = move | (finite & np.isinf(value) & (value != goal))
    return np.where(move, np.nextafter(value, goal), value)


# --- any exponent, one element at a time ------------------------------------------------------


def _patch(out: Doubles, hard: NDArray[np.bool_], make: Callable[..., float], rnd: str,
           *arrays: Doubles) -> Doubles:
    """Replace the elements where `hard` by make(elements of the arrays..., rnd)."""
    if not hard.any():
        return out
    out = np.array(np.broadcast_to(out, hard.shape))
    rows = [np.broadcast_to(a, hard.shape)[hard].tolist() for a in arrays]
    out[hard] = [make(*row, rnd) for row in zip(*rows, strict=True)]
    return out


def _parts(x: float) -> tuple[int, int]:
    """Return integers (m, e) with x = m * 2**e."""
    top, bottom = x.as_integer_ratio()
    return top, 1 - bottom.bit_length()


def _exact_fma(a: float, b: float, c: float, rnd: str) -> float:
    (ma, ea), (mb, eb), (mc, ec) = _parts(a), _parts(b), _parts(c)
    exp = min(ea + eb, ec)
    total = (ma * mb << ea + eb - exp) + (mc << ec - exp)
    if total == 0:
        signs = {np.signbit(a) ^ np.signbit(b), np.signbit(c)}
        return -0.0 if signs == {True} or (rnd == "rm" and True in signs) else 0.0
    return _round(total, exp, False, rnd)


def _exact_mul(x: float, y: float, rnd: str) -> float:
    (mx, ex), (my, ey) = _parts(x), _parts(y)
    return _round(mx * my, ex + ey, False, rnd)


def _exact_div(x: float, y: float, rnd: str) -> float:
    (mx, ex), (my, ey) = _parts(x), _parts(y)
    shift = max(0, 130 - abs(mx).bit_length() + abs(my).bit_length())
    whole, rest = divmod(abs(mx) << shift, abs(my))
    sign = -1 if (mx < 0) != (my < 0) else 1
    return _round(sign * whole, ex - ey - shift, rest != 0, rnd)


def _exact_sqrt(x: float, rnd: str) -> float:
    m, e = _parts(x)
    shift = 140 + ((e - 140) & 1)
    m, e = m << shift, e - shift
    root = isqrt(m)
    return _round(root, e // 2, root * root != m, rnd)


def _round(m: int, e: int, sticky: bool, rnd: str) -> float:
    """Round (m plus a little more in magnitude, if `sticky`) * 2**e to float64."""
    sign, m = (-1.0, -m) if m < 0 else (1.0, m)
    drop = max(m.bit_length() - 53, -1074 - e)
    if drop <= 0:
        m, e, drop = m << 1 - drop, e + drop - 1, 1
    kept, rest = m >> drop, m & (1 << drop) - 1
    half = 1 << drop - 1
    if rnd == "rn":
        up = rest > half or (rest == half and (sticky or kept & 1 == 1))
    else:
        up = (rest > 0 or sticky) and rnd == ("rm" if sign < 0 else "rp")
    kept += up
    e += drop
    if kept.bit_length() + e > 1024:
        away = rnd == "rn" or rnd == ("rm" if sign < 0 else "rp")
        return sign * (np.inf if away else float(np.finfo(np.float64).max))
    return sign * float(np.ldexp(float(kept), e))
