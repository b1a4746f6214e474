"""Number formats, their exact values as float64, and rounding back to them.

In: arrays of bit patterns (unsigned integers of the format's width). Out: float64 arrays that hold
every value of a format up to f32 exactly, and bit patterns rounded in any mode from a float64 that
was rounded to odd (so that one more rounding is exact). Refuses names it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FORMATS", "Bits", "Doubles", "Format", "UnsupportedArithmetic", "bits_dtype", "decode",
    "flush_subnormal", "is_nan", "is_subnormal", "round_to",
]

Bits = NDArray[Any]  # unsigned integers: bit patterns
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Format:
    """A float format: widths in bits; `nan` the canonical NaN (PTX ISA, "NaN" of each type).

    inf: bits of +infinity, or None where the format has none. max_finite: bits. A format without
    NaN (e2m1, e2m3, e3m2) turns NaN into +max_finite (PTX ISA, cvt).
    """

    name: str
    width: int
    exp_bits: int
    man_bits: int
    bias: int
    nan: int
    inf: int | None
    max_finite: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.width - 1)


FORMATS: dict[str, Format] = {f.name: f for f in (
    Format("f16", 16, 5, 10, 15, 0x7FFF, 0x7C00, 0x7BFF),
    Format("bf16", 16, 8, 7, 127, 0x7FFF, 0x7F80, 0x7F7F),
    Format("f32", 32, 8, 23, 127, 0x7FFFFFFF, 0x7F800000, 0x7F7FFFFF),
    Format("f64", 64, 11, 52, 1023, 0x7FF8 << 48, 0x7FF0 << 48, (0x7FF0 << 48) - 1),
    Format("tf32", 19, 8, 10, 127, 0x3FFFF, 0x3FC00, 0x3FBFF),
    Format("e4m3", 8, 4, 3, 7, 0x7F, None, 0x7E),
    Format("e5m2", 8, 5, 2, 15, 0x7F, 0x7C, 0x7B),
    Format("e3m2", 6, 3, 2, 3, 0x1F, None, 0x1F),
    Format("e2m3", 6, 2, 3, 1, 0x1F, None, 0x1F),
    Format("e2m1", 4, 2, 1, 1, 0x07, None, 0x07),
    Format("e4m3fnuz", 8, 4, 3, 8, 0x80, None, 0x7F),
    Format("e5m2fnuz", 8, 5, 2, 16, 0x80, None, 0x7F),
)}

class UnsupportedArithmetic(Exception):
    """The bits of this operation are not modelled; the caller must not go on with it."""


_U64 = np.uint64
_MAN = _U64((1 << 52) - 1)
_MAG = _U64((1 << 63) - 1)


def bits_dtype(width: int) -> type[np.unsignedinteger[Any]]:
    """Return the numpy type that holds `width` bits."""
    for limit, kind in ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64)):
        if width <= limit:
            return kind
    raise ValueError(f"no integer type of {width} bits")


def decode(fmt: Format, bits: Bits) -> Doubles:
    """Return the exact values; infinities and NaN stay such (payloads are not kept)."""
    if fmt.name == "f32":
        return bits.view(np.float32).astype(np.float64)
    if fmt.name == "f64":
        return bits.view(np.float64)
    if fmt.name == "f16":
        return bits.view(np.float16).astype(np.float64)
    if fmt.name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if fmt.name == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if fmt.name not in _SMALL:
        _SMALL[fmt.name] = _values(fmt)
    return _SMALL[fmt.name][bits]


_SMALL: dict[str, Doubles] = {}


def _values(fmt: Format) -> Doubles:
    """All values of an 8-bit (or smaller) format, by bit pattern; unused high bits are ignored."""
    code = np.arange(256) & (2 * fmt.sign - 1)
    mag = code & (fmt.sign - 1)
    exp, man = mag >> fmt.man_bits, mag & ((1 << fmt.man_bits) - 1)
    value = np.where(exp > 0, man + (1 << fmt.man_bits), man) * np.exp2(
        np.maximum(exp, 1) - fmt.bias - float(fmt.man_bits))
    if fmt.inf is not None:
        value[mag == fmt.inf] = np.inf
        value[mag > fmt.inf] = np.nan
    elif fmt.name.endswith("fnuz"):
        value[code == fmt.nan] = np.nan
    elif fmt.nan != fmt.max_finite:
        value[mag == fmt.nan] = np.nan
    out: Doubles = np.where(code & fmt.sign, -value, value)
    return out


def is_nan(fmt: Format, bits: Bits) -> NDArray[np.bool_]:
    """True where the pattern is a NaN (f16, bf16, f32, f64 only)."""
    kind = bits.dtype.type
    assert fmt.inf is not None
    out: NDArray[np.bool_] = (bits & kind(fmt.sign - 1)) > kind(fmt.inf)
    return out


def is_subnormal(fmt: Format, bits: Bits) -> NDArray[np.bool_]:
    """True where the pattern is a nonzero subnormal (f16, bf16, f32, f64 only)."""
    kind = bits.dtype.type
    mag = bits & kind(fmt.sign - 1)
    out: NDArray[np.bool_] = (mag != kind(0)) & (mag < kind(1 << fmt.man_bits))
    return out


def flush_subnormal(fmt: Format, bits: Bits) -> Bits:
    """Replace subnormals by zero of the same sign."""
    tiny = is_subnormal(fmt, bits)
    if not tiny.any():
        return bits
    return np.where(tiny, bits & bits.dtype.type(fmt.sign), bits)


def round_to(fmt: Format, value: Doubles, rnd: str, satfinite: bool = False) -> Bits:
    """Round a float64 that is exact or rounded to odd; the result has the format's own bits.

    rnd: rn rna rz rm rp. A NaN gives the canonical NaN. Overflow goes where IEEE 754 says for the
    mode; to the largest finite value with `satfinite`; to NaN where there is no infinity.
    """
    if rnd == "rn" and not satfinite:
        if fmt.name == "f32":
            return _canonical(fmt, value, value.astype(np.float32).view(np.uint32))
        if fmt.name == "f64":
            return _canonical(fmt, value, value.view(np.uint64))
    out = _round_magnitude(fmt, value, rnd)
    negative = np.signbit(value)
    finite = np.isfinite(value)
    over = (out > fmt.max_finite) | ~finite
    if over.any():
        special = fmt.inf if fmt.inf is not None else fmt.nan & (fmt.sign - 1)
        if satfinite or special == fmt.max_finite:
            beyond: Any = fmt.max_finite
        elif rnd in {"rn", "rna"}:
            beyond = special
        else:
            away = {"rz": False, "rm": negative, "rp": ~negative}[rnd] | ~finite
            beyond = np.where(away, special, fmt.max_finite)
        out = np.where(over, beyond, out)
    out = out | (negative.astype(np.int64) << np.int64(fmt.width - 1)) if fmt.width < 64 else (
        out | np.where(negative, np.int64(-(1 << 63)), np.int64(0)))
    if fmt.name.endswith("fnuz"):  # no negative zero; NaN is the pattern of -0; no infinity
        out = np.where((out & (fmt.sign - 1)) == 0, 0, out)
        out = np.where(over & ~satfinite, fmt.nan, out)
    return _canonical(fmt, value, out.astype(bits_dtype(fmt.width)))


def _round_magnitude(fmt: Format, value: Doubles, rnd: str) -> NDArray[np.int64]:
    """Round |value|; overflow gives some pattern above max_finite."""
    raw = value.view(np.uint64)
    mag = raw & _MAG
    biased = (mag >> _U64(52)).astype(np.int64)
    sig = (mag & _MAN) | ((biased > 0).astype(np.uint64) << _U64(52))
    exp = np.maximum(biased, 1) - 1023  # the value is sig * 2**(exp - 52)
    low = np.maximum(exp, 1 - fmt.bias)  # exponent of the result's significand
    drop = np.minimum(low - exp + (52 - fmt.man_bits), 55).astype(np.uint64)
    kept = sig >> drop
    if rnd != "rz":
        rest = sig & ((_U64(1) << drop) - _U64(1))
        if rnd == "rn":
            up = (rest + rest) + (kept & _U64(1)) > (_U64(1) << drop)
        elif rnd == "rna":
            up = (rest + rest >= (_U64(1) << drop)) & (rest > 0)
        elif rnd in {"rm", "rp"}:
            up = (rest > 0) & (np.signbit(value) == (rnd == "rm"))
        else:
            raise ValueError(f"unknown rounding mode {rnd!r}")
        kept = kept + up.astype(np.uint64)
    out: NDArray[np.int64] = (low + (fmt.bias - 1)) << np.int64(fmt.man_bits)
    out = out + kept.astype(np.int64)
    return out


def _canonical(fmt: Format, value: Doubles, out: Bits) -> Bits:
    nan = np.isnan(value)
    if nan.any():
        return np.where(nan, out.dtype.type(fmt.nan), out)
    return out
