"""What single instructions return, written down from the ISA guides in exact arithmetic.

Nothing here comes from the checker: numbers are Python fractions, a value is rounded once at the
end. In: bits of the operands and the float modes. Out: bits, any NaN as `NAN`, or None where the
guides leave the result open (which results count as below the normal ones before they are rounded).
Source: RDNA3 ISA guide, section 16 (VOP2, VOP3, VOP3P), and 6.2 (modes); CDNA3 ISA guide, 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

NAN = "nan"
Bits = int | str | None

#: format -> (bits of the exponent, bits of the fraction)
FORMATS = {"f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}


@dataclass(frozen=True, slots=True)
class Modes:
    """Float modes of a wave: `rounding` and `denormals` by format ("f32", or f16 and f64)."""

    bits: int = 0xF0
    ieee: int = 1

    def rounding(self, fmt: str) -> int:
        """0 nearest even, 1 up, 2 down, 3 toward zero."""
        return self.bits & 3 if fmt == "f32" else self.bits >> 2 & 3

    def keeps_in(self, fmt: str) -> bool:
        """Are denormals among the operands kept?"""
        return bool(self.bits >> (4 if fmt == "f32" else 6) & 1)

    def keeps_out(self, fmt: str) -> bool:
        """Are denormal results kept?"""
        return bool(self.bits >> (4 if fmt == "f32" else 6) & 2)


@dataclass(frozen=True, slots=True)
class Number:
    """A float: its sign and its magnitude; an infinity has none, a NaN is told from them."""

    sign: int
    size: Fraction | None = None
    nan: bool = False
    signalling: bool = False

    @property
    def value(self) -> Fraction | float:
        """The number with its sign."""
        size: Fraction | float = math.inf if self.size is None else self.size
        return -size if self.sign else size

    def negated(self) -> Number:
        """The number with the other sign."""
        return Number(1 - self.sign, self.size, self.nan, self.signalling)

    def absolute(self) -> Number:
        """The number without its sign."""
        return Number(0, self.size, self.nan, self.signalling)


def number(bits: int, fmt: str, keep: bool = True) -> Number:
    """Read a float; without `keep` a denormal is a zero of its sign."""
    exponent_bits, fraction_bits = FORMATS[fmt]
    sign = bits >> (exponent_bits + fraction_bits) & 1
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    if exponent == (1 << exponent_bits) - 1:
        if fraction:
            return Number(sign, None, True, not fraction >> (fraction_bits - 1))
        return Number(sign)
    if exponent == 0 and fraction and not keep:
        return Number(sign, Fraction(0))
    bias = (1 << (exponent_bits - 1)) - 1
    whole = fraction | (1 << fraction_bits if exponent else 0)
    return Number(sign, Fraction(whole) * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits))


def rounded(sign: int, size: Fraction, fmt: str, rounding: int, keep: bool) -> Bits:
    """Round a magnitude once, to a float's bits; without `keep` a denormal result is a zero."""
    exponent_bits, fraction_bits = FORMATS[fmt]
    bias, top = (1 << (exponent_bits - 1)) - 1, exponent_bits + fraction_bits
    if size == 0:
        return sign << top
    exponent = max(math.frexp(float(size))[1] - 1 if Fraction(1, 1 << 1000) < size < 1 << 1000
                   else size.numerator.bit_length() - size.denominator.bit_length(), 1 - bias)
    while exponent > 1 - bias and size < Fraction(2) ** exponent:
        exponent -= 1
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    scaled = size / Fraction(2) ** (exponent - fraction_bits)
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    half = 2 * rest - scaled.denominator
    up = {0: half > 0 or (half == 0 and whole & 1), 1: rest and not sign, 2: rest and sign,
          3: False}[rounding]
    tiny = size < Fraction(2) ** (1 - bias)
    whole += bool(up)
    if tiny and not keep:
        return sign << top if whole < 1 << fraction_bits else None
    bits = whole + ((exponent + bias - 1) << fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if bits >= infinity:
        away = rounding == 0 or rounding == (2 if sign else 1)
        bits = infinity if away else infinity - 1
    return sign << top | bits


def put(value: Number, fmt: str, modes: Modes) -> Bits:
    """The bits of a result that was never rounded."""
    exponent_bits, fraction_bits = FORMATS[fmt]
    if value.nan:
        return NAN
    if value.size is None:
        return value.sign << (exponent_bits + fraction_bits) | \
            ((1 << exponent_bits) - 1) << fraction_bits
    return rounded(value.sign, value.size, fmt, modes.rounding(fmt), modes.keeps_out(fmt))


def added(a: Number, b: Number, rounding: int) -> Number:
    """a + b, exactly; the sign of an exact zero is by the rounding mode."""
    if a.nan or b.nan or (a.size is None and b.size is None and a.sign != b.sign):
        return Number(0, None, True)
    if a.size is None or b.size is None:
        return a if a.size is None else b
    total = Fraction(a.value) + Fraction(b.value)
    if total == 0:
        return Number(a.sign if a.sign == b.sign else int(rounding == 2), Fraction(0))
    return Number(int(total < 0), abs(total))


def multiplied(a: Number, b: Number) -> Number:
    """a * b, exactly."""
    sign = a.sign ^ b.sign
    if a.nan or b.nan or (a.size is None and b.size == 0) or (b.size is None and a.size == 0):
        return Number(0, None, True)
    if a.size is None or b.size is None:
        return Number(sign)
    return Number(sign, a.size * b.size)


def lesser(a: Number, b: Number, modes: Modes) -> Number:
    """V_MIN: in IEEE mode a signalling NaN is made quiet and returned, else a NaN is ignored."""
    if modes.ieee and (a.signalling or b.signalling):
        return Number(0, None, True)
    if a.nan or b.nan:
        return b if a.nan else a
    if a.size == 0 and b.size == 0:
        return a if a.sign else b
    return a if a.value < b.value else b


def greater(a: Number, b: Number, modes: Modes) -> Number:
    """V_MAX, as V_MIN."""
    return lesser(a.negated(), b.negated(), modes).negated()


def median(a: Number, b: Number, c: Number, modes: Modes) -> Number:
    """V_MED3: the greater of the two that are left without the first that equals the maximum."""
    if a.nan or b.nan or c.nan:
        return lesser(lesser(a, b, modes), c, modes)
    top = greater(greater(a, b, modes), c, modes).value
    if top == a.value:
        return greater(b, c, modes)
    if top == b.value:
        return greater(a, c, modes)
    return greater(a, b, modes)


def clamped(value: Number) -> Number:
    """The output modifier `clamp` (DX10_CLAMP set): into [0, 1], a NaN is 0."""
    if value.nan or value.value <= 0:
        return Number(0, Fraction(0))
    return Number(0, min(Fraction(1), value.size)) if value.size is not None else \
        Number(0, Fraction(1))


def clamp_bits(bits: Bits, fmt: str) -> Bits:
    """`clamped` after the rounding."""
    if bits is None:
        return None
    if bits == NAN:
        return 0
    assert isinstance(bits, int)
    one = ((1 << (FORMATS[fmt][0] - 1)) - 1) << FORMATS[fmt][1]
    return 0 if bits >> sum(FORMATS[fmt]) & 1 else min(bits, one)


def whole(value: Number, rounding: int) -> Number:
    """Rounded to an integral value, the sign kept."""
    if value.size is None:
        return value
    below, rest = divmod(value.size.numerator, value.size.denominator)
    half = 2 * rest - value.size.denominator
    up = {0: half > 0 or (half == 0 and below & 1), 1: rest and not value.sign,
          2: rest and value.sign, 3: False}[rounding]
    return Number(value.sign, Fraction(below + bool(up)))


def to_integer(value: Number, low: int, high: int) -> int:
    """Toward zero, into a range; a NaN is 0."""
    if value.nan:
        return 0
    if value.size is None:
        return low if value.sign else high
    return max(low, min(high, int(value.value)))


def of(fmt: str, function: Callable[..., Number], modes: Modes, *bits: int) -> Bits:
    """A float operation: operands read, the exact result rounded once."""
    return put(function(*(number(x, fmt, modes.keeps_in(fmt)) for x in bits)), fmt, modes)
