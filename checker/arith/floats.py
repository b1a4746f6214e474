"""Float operations on bit patterns: add, multiply, fma, divide, root, min, max, sign, compare.

In: unsigned arrays of the type's width and a `FloatMode` or `Compare`. Out: bit patterns, or
booleans. Every result is correctly rounded in the mode asked for; NaNs come out canonical.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith import carrier, double
from checker.arith.formats import (
    FORMATS,
    Bits,
    Doubles,
    Format,
    decode,
    flush_subnormal,
    is_nan,
    is_subnormal,
    round_to,
)
from checker.core import Compare, FloatMode

__all__ = [
    "absolute", "arithmetic", "classify", "compare", "copysign", "extreme", "finish", "ldexp",
    "negate", "relu", "rounds_below_normal", "saturated",
]

Values = dict[str, Callable[..., Doubles]]

# Exact (odd-rounded) results for types of at most 24 significant bits.
_NARROW: Values = {
    "fadd": lambda x, y, rnd: carrier.odd_add(x, y, rnd),
    "fsub": lambda x, y, rnd: carrier.odd_add(x, -y, rnd),
    "fmul": lambda x, y, rnd: x * y,
    "ffma": lambda x, y, z, rnd: carrier.odd_fma(x, y, z, rnd),
    "fdiv": lambda x, y, rnd: carrier.odd_div(x, y),
    "frcp": lambda x, rnd: carrier.odd_div(np.ones_like(x), x),
    "fsqrt": lambda x, rnd: carrier.odd_sqrt(x),
}
_DOUBLE: Values = {
    "fadd": double.add,
    "fsub": lambda x, y, rnd: double.add(x, -y, rnd),
    "fmul": double.mul,
    "ffma": double.fma,
    "fdiv": double.div,
    "frcp": lambda x, rnd: double.div(np.ones_like(x), x, rnd),
    "fsqrt": double.sqrt,
}
# Round to nearest in the machine's own f32.
_SINGLE: dict[str, Callable[..., Any]] = {
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide, "fsqrt": np.sqrt,
    "frcp": lambda x: np.float32(1) / x,
}


def arithmetic(name: str, mode: FloatMode, *bits: Bits) -> Bits:
    """fadd fsub fmul ffma fdiv frcp fsqrt: round the exact result once."""
    fmt = FORMATS[mode.type]
    bits = _flush_in(fmt, mode, bits)
    flush = mode.denorm in {"flush", "flush_out"}
    if fmt.name == "f64":
        out = round_to(fmt, _DOUBLE[name](*(decode(fmt, b) for b in bits), mode.rnd), "rn")
    elif fmt.name == "f32" and mode.rnd == "rn" and name in _SINGLE:
        with np.errstate(all="ignore"):
            single = _SINGLE[name](*(b.view(np.float32) for b in bits))
        out = single.view(np.uint32)
        nan = single != single
        if nan.any():
            out = np.where(nan, np.uint32(fmt.nan), out)
    elif fmt.name == "f32" and mode.rnd == "rn":
        out = _fma_single(fmt, *(decode(fmt, b) for b in bits))
    else:
        out = round_to(fmt, _NARROW[name](*(decode(fmt, b) for b in bits), mode.rnd), mode.rnd)
    if flush and fmt.name != "f64":
        out = _flush_rounded_up(fmt, name, mode, bits, out)
    return finish(fmt, mode, out)


def _flush_rounded_up(fmt: Format, name: str, mode: FloatMode, bits: tuple[Bits, ...], out: Bits
                      ) -> Bits:
    """Flush results that became the least normal number only because subnormals are coarse."""
    kind = out.dtype.type
    least = (out & kind(fmt.sign - 1)) == kind(1 << fmt.man_bits)
    if not least.any():
        return out
    args = (decode(fmt, np.broadcast_to(b, out.shape)[least]) for b in bits)
    small = rounds_below_normal(fmt, _NARROW[name](*args, mode.rnd), mode.rnd)
    out = np.array(out)
    out[least] = np.where(small, out[least] & kind(fmt.sign), out[least])
    return out


def rounds_below_normal(fmt: Format, value: Doubles, rnd: str) -> NDArray[np.bool_]:
    """True where `.ftz` takes a result for subnormal: rounded to the type's precision, with no
    lower bound to the exponent, it is below the least normal number (seen on sm_90: 0x3f000000 *
    0x00ffffff gives zero)."""
    up = round_to(fmt, value * 16.0, rnd)
    kind = up.dtype.type
    out: NDArray[np.bool_] = (up & kind(fmt.sign - 1)) < kind(5 << fmt.man_bits)
    return out


def _fma_single(fmt: Format, a: Doubles, b: Doubles, c: Doubles) -> Bits:
    """f32 fma, round to nearest: only float64 sums that sit on a midpoint need their error."""
    product = a * b
    total = product + c
    raw = total.view(np.uint64)
    middle = (raw & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    tiny = np.abs(total) < 2.0**-125
    if middle.any() or tiny.any():
        total = carrier.odd_add(product, np.broadcast_to(c, product.shape))
    return round_to(fmt, total, "rn")


def finish(fmt: Format, mode: FloatMode, out: Bits) -> Bits:
    """Apply what follows the rounding: flush, saturate, relu."""
    if mode.denorm in {"flush", "flush_out"}:
        out = flush_subnormal(fmt, out)
    if mode.saturate:
        out = saturated(fmt, out)
    if mode.relu:
        out = relu(fmt, out)
    return out


def saturated(fmt: Format, bits: Bits) -> Bits:
    """Clamp to [+0, 1]; NaN gives +0 (PTX ISA, `.sat`)."""
    kind = bits.dtype.type
    one = kind(fmt.bias << fmt.man_bits)
    low = is_nan(fmt, bits) | (bits >= kind(fmt.sign))
    out: Bits = np.where(low, kind(0), np.minimum(bits, one))
    return out


def relu(fmt: Format, bits: Bits) -> Bits:
    """Negative values give +0; a NaN stays the canonical NaN (PTX ISA, `.relu`)."""
    kind = bits.dtype.type
    nan = is_nan(fmt, bits)
    return np.where(nan, kind(fmt.nan), np.where(bits >= kind(fmt.sign), kind(0), bits))


def _flush_in(fmt: Format, mode: FloatMode | Compare, bits: tuple[Bits, ...]) -> tuple[Bits, ...]:
    if mode.denorm in {"flush", "flush_in"}:
        return tuple(flush_subnormal(fmt, b) for b in bits)
    return bits


def extreme(name: str, mode: FloatMode, *bits: Bits) -> Bits:
    """fmin fmax fmin3 fmax3: -0 is below +0; NaN by `mode.nan`, canonical."""
    fmt = FORMATS[mode.type]
    bits = _flush_in(fmt, mode, bits)
    kind = bits[0].dtype.type
    sign = kind(fmt.sign)
    flip: Any = kind(0)
    if mode.xorsign_abs:
        flip = (bits[0] ^ bits[1]) & sign
        bits = tuple(b & ~sign for b in bits)
    out = bits[0]
    for other in bits[1:]:
        out = _pick(name.startswith("fmin"), fmt, mode.nan, out, other)
    out = np.where(is_nan(fmt, out), out, out | flip)
    return finish(fmt, mode, out)


def _pick(smaller: bool, fmt: Format, nan: str, a: Bits, b: Bits) -> Bits:
    kind = a.dtype.type
    first = _order(fmt, a) <= _order(fmt, b)
    out = np.where(first == smaller, a, b)
    nan_a, nan_b = is_nan(fmt, a), is_nan(fmt, b)
    if not (nan_a.any() or nan_b.any()):
        return out
    canonical = kind(fmt.nan)
    if nan == "nan":
        return np.where(nan_a | nan_b, canonical, out)
    out = np.where(nan_a, b, np.where(nan_b, a, out))
    if nan != "num":
        raise ValueError(f"unknown NaN rule {nan!r}")
    return np.where(nan_a & nan_b, canonical, out)


def _order(fmt: Format, bits: Bits) -> Bits:
    """Map patterns to unsigned integers in the order of their values, -0 below +0."""
    kind = bits.dtype.type
    sign = kind(fmt.sign)
    return np.where(bits & sign, ~bits, bits | sign)


def negate(mode: FloatMode, bits: Bits) -> Bits:
    """Flip the sign bit."""
    fmt = FORMATS[mode.type]
    (bits,) = _flush_in(fmt, mode, (bits,))
    return finish(fmt, mode, _one_nan(fmt, bits, bits ^ bits.dtype.type(fmt.sign)))


def absolute(mode: FloatMode, bits: Bits) -> Bits:
    """Clear the sign bit."""
    fmt = FORMATS[mode.type]
    (bits,) = _flush_in(fmt, mode, (bits,))
    return finish(fmt, mode, _one_nan(fmt, bits, bits & bits.dtype.type(fmt.sign - 1)))


def _one_nan(fmt: Format, bits: Bits, out: Bits) -> Bits:
    """neg and abs of a NaN are the canonical NaN (seen on sm_90)."""
    nan = is_nan(fmt, bits)
    return np.where(nan, bits.dtype.type(fmt.nan), out) if nan.any() else out


def copysign(mode: FloatMode, sign_of: Bits, magnitude: Bits) -> Bits:
    """Magnitude of the second operand, sign of the first (PTX ISA, copysign)."""
    sign = sign_of.dtype.type(FORMATS[mode.type].sign)
    out: Bits = (sign_of & sign) | (magnitude & ~sign)
    return out


def ldexp(mode: FloatMode, bits: Bits, power: Bits) -> Bits:
    """a * 2**n, n a signed 32-bit integer, rounded once."""
    fmt = FORMATS[mode.type]
    (bits,) = _flush_in(fmt, mode, (bits,))
    n = power.astype(np.uint32).view(np.int32).astype(np.int64)
    if fmt.name == "f64":
        value = double.ldexp(decode(fmt, bits), n, mode.rnd)
        return finish(fmt, mode, round_to(fmt, value, "rn"))
    value = np.ldexp(decode(fmt, bits), np.clip(n, -500, 500))
    return finish(fmt, mode, round_to(fmt, value, mode.rnd))


_ORDERED: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "eq": np.equal, "ne": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}
_UNORDERED: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "equ": lambda a, b: ~((a < b) | (a > b)), "neu": np.not_equal, "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
}
_CONDITIONS = _ORDERED | _UNORDERED


def compare(attr: Compare, a: Bits, b: Bits) -> NDArray[np.bool_]:
    """Ordered conditions are false, the others true, when an operand is NaN."""
    fmt = FORMATS[attr.type]
    a, b = _flush_in(fmt, attr, (a, b))
    return _CONDITIONS[attr.cond](decode(fmt, a), decode(fmt, b))


def classify(test: str, kind: str, bits: Bits) -> NDArray[np.bool_]:
    """finite infinite number notanumber normal subnormal (PTX ISA, testp)."""
    fmt = FORMATS[kind]
    nan = is_nan(fmt, bits)
    mag = bits & bits.dtype.type(fmt.sign - 1)
    inf = mag == bits.dtype.type(fmt.inf or 0)
    tests: dict[str, NDArray[np.bool_]] = {
        "finite": ~nan & ~inf, "infinite": inf, "number": ~nan, "notanumber": nan,
        "normal": ~nan & ~inf & (mag >= bits.dtype.type(1 << fmt.man_bits)),
        "subnormal": is_subnormal(fmt, bits),
    }
    return tests[test]
