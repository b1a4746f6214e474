"""Conversions between number types (`fcvt`), at least one side a float type.

In: `Conv` and bit patterns of the source type (any unsigned dtype that holds them). Out: bit
patterns of the destination type; tf32 is an f32 pattern whose low 13 bits are zero. Integers are
two's complement patterns of their own width.
"""

from __future__ import annotations

import re

import numpy as np

from checker.arith import double
from checker.arith.carrier import odd_add
from checker.arith.floats import relu, rounds_below_normal, saturated
from checker.arith.formats import (
    FORMATS,
    Bits,
    Doubles,
    bits_dtype,
    decode,
    flush_subnormal,
    is_nan,
    round_to,
)
from checker.core import Conv

__all__ = ["convert"]

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_WITH_TAIL = {"f16", "bf16", "f32", "f64", "tf32"}  # types that take .sat, .relu and flushing


def convert(attr: Conv, bits: Bits) -> Bits:
    """Return the converted patterns."""
    source, target = _integer(attr.src), _integer(attr.dst)
    if target:
        return _to_integer(attr, bits, *target)
    if source:
        return _from_integer(attr, bits, *source)
    return _float_to_float(attr, bits)


def _integer(name: str) -> tuple[bool, int] | None:
    found = re.fullmatch(r"([us])(8|16|32|64)", name)
    return (found[1] == "s", int(found[2])) if found else None


def _value(attr: Conv, bits: Bits) -> Doubles:
    """Exact source values, after flushing.

    denorm "flush" is PTX `.ftz`: it concerns f32 operands alone (PTX ISA, cvt), and has no effect
    on the source of a conversion to f16 (seen on sm_90, against the manual); flush_in and flush_out
    name one side of any type.
    """
    if attr.src == "ue8m0":
        return _from_ue8m0(bits)
    fmt = FORMATS[attr.src]
    bits = bits.astype(np.uint32 if attr.src == "tf32" else bits_dtype(fmt.width), copy=False)
    if attr.denorm == "flush_in" or (attr.denorm == "flush" and attr.src == "f32"
                                     and attr.dst != "f16"):
        bits = flush_subnormal(fmt, bits)
    return decode(fmt, bits)


def _float_to_float(attr: Conv, bits: Bits) -> Bits:
    if attr.dst == "ue8m0":
        return _to_ue8m0(attr, _value(attr, bits))
    if (attr.src, attr.dst, attr.rnd, attr.denorm, attr.satfinite) == (
            "f32", "bf16", "rn", "keep", False):
        return _tail(attr, _bf16_nearest(bits.astype(np.uint32, copy=False)))
    if attr.src == "bf16" and attr.dst == "f32" and not attr.rnd:  # a shift; NaNs keep their bits
        return _tail(attr, bits.astype(np.uint32) << np.uint32(16))
    value = _value(attr, bits)
    rnd = attr.rnd or "rn"
    if rnd in _INTEGRAL:
        value, rnd = _INTEGRAL[rnd](value), "rn"
    fmt = FORMATS[attr.dst]
    out = round_to(fmt, value, rnd, attr.satfinite)
    if _flushes_result(attr) and FORMATS[attr.src].width > fmt.width > 8:
        small = rounds_below_normal(fmt, value, rnd)
        out = np.where(small, out & out.dtype.type(fmt.sign), out)
    out = _tail(attr, out)
    if attr.dst in ("f32", "f16", "bf16"):  # seen on sm_90: one NaN, whatever came in
        out = np.where(np.isnan(value) & is_nan(fmt, out), out.dtype.type(fmt.nan), out)
    if attr.dst == "tf32" and rnd == "rna" and attr.src == "f32":
        # Seen on sm_90: a NaN is cut, not made canonical: payloads in the low 13 bits leave inf.
        out = np.where(np.isnan(value), bits.astype(np.uint32) & np.uint32(0xFFFFE000), out)
    return out


def _flushes_result(attr: Conv) -> bool:
    return attr.denorm == "flush_out" or (attr.denorm == "flush" and attr.dst == "f32")


def _bf16_nearest(bits: Bits) -> Bits:
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    with np.errstate(over="ignore"):
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        out = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    return np.where(nan, np.uint32(0x7FFF), out).astype(np.uint16)


def _tail(attr: Conv, out: Bits) -> Bits:
    """Flush, saturate, relu; widen tf32 to its f32 pattern."""
    fmt = FORMATS[attr.dst]
    if _flushes_result(attr):
        out = flush_subnormal(fmt, out)
    if attr.saturate:
        out = saturated(fmt, out)
    if attr.relu:
        out = relu(fmt, out) if attr.dst in _WITH_TAIL else _relu_small(attr.dst, out)
    if attr.dst == "tf32":
        out = out.astype(np.uint32) << np.uint32(13)  # NaN: 0x7fffe000
    return out


def _relu_small(name: str, out: Bits) -> Bits:
    fmt = FORMATS[name]
    negative = (out & np.uint8(fmt.sign)) != 0
    return np.where(negative & (out != np.uint8(fmt.nan)), np.uint8(0), out)


# --- integers ---------------------------------------------------------------------------------


def _to_integer(attr: Conv, bits: Bits, signed: bool, width: int) -> Bits:
    """Round to an integer and clamp; NaN by PTX ISA, cvt.

    NaN gives 0, but 2**(width - 1) where the source is f64 or the destination has 64 bits, and
    `nan_zero` is not set.
    """
    value = _value(attr, bits)
    whole = _INTEGRAL[attr.rnd](value)
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    nan = np.isnan(value)
    over, under = whole >= float(high + 1), whole < float(low)
    safe = np.where(nan | over | under, 0.0, whole)
    kind = bits_dtype(width)
    if signed:
        out = safe.astype(np.int64).astype(np.uint64)
    else:
        out = safe.astype(np.uint64)
    mask = (1 << width) - 1
    out = np.where(over, np.uint64(high), np.where(under, np.uint64(low & mask), out))
    wide = attr.src == "f64" or width == 64
    lost = 1 << width - 1 if wide and not attr.nan_zero else 0
    out = np.where(nan, np.uint64(lost), out)
    return (out & np.uint64(mask)).astype(kind)


def _from_integer(attr: Conv, bits: Bits, signed: bool, width: int) -> Bits:
    out = round_to(FORMATS[attr.dst], *_integer_value(attr, bits, signed, width))
    return _tail(attr, out)


def _integer_value(attr: Conv, bits: Bits, signed: bool, width: int) -> tuple[Doubles, str]:
    """Return the value rounded to odd (f64 targets: rounded as asked) and the mode still due."""
    rnd = attr.rnd or "rn"
    kind = bits_dtype(width)
    bits = bits.astype(kind, copy=False)
    if width < 64:
        ints = bits.view(f"i{width // 8}") if signed else bits
        return ints.astype(np.float64), rnd
    negative = (bits >> np.uint64(63)).astype(bool) if signed else np.zeros(bits.shape, bool)
    mag = np.where(negative, ~bits + np.uint64(1), bits)
    high, low = (mag >> np.uint64(32)).astype(np.float64), (mag & np.uint64(0xFFFFFFFF))
    sign = np.where(negative, -1.0, 1.0)
    left, right = sign * high * 2.0**32, sign * low.astype(np.float64)
    if attr.dst == "f64":
        return double.add(left, right, rnd) + 0.0, "rn"
    return odd_add(left, right) + 0.0, rnd


# --- ue8m0: powers of two ---------------------------------------------------------------------


def _from_ue8m0(bits: Bits) -> Doubles:
    code = bits.astype(np.int64) & 0xFF
    return np.where(code == 0xFF, np.nan, np.ldexp(1.0, code - 127))


def _to_ue8m0(attr: Conv, value: Doubles) -> Bits:
    """Round |value| to a power of two, toward zero or up; the format has no sign, zero or inf."""
    if attr.rnd not in {"rz", "rp"} or not attr.satfinite:
        raise ValueError(f"no conversion to ue8m0 with rounding {attr.rnd!r} unless satfinite")
    fraction, exp = np.frexp(np.abs(value))
    code = exp.astype(np.int64) - 1 + 127
    if attr.rnd == "rp":
        code = code + (fraction > 0.5)
    code = np.where(value == 0, 0, np.clip(code, 0, 254))
    code = np.where(np.isinf(value), 254, code)
    return np.where(np.isnan(value), 0xFF, code).astype(np.uint8)
