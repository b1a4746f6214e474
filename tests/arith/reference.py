"""A slow, independent reference: values as fractions, one rounding, no shared code."""

from __future__ import annotations

import math
from fractions import Fraction

SHAPES = {  # exponent bits, fraction bits
    "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 10),
    "e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1),
}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8 << 48, "e4m3": 0x7F,
       "e5m2": 0x7F}
NO_INF = {"e4m3", "e3m2", "e2m3", "e2m1"}


def value(kind: str, bits: int) -> Fraction | float:
    """A Fraction, or a float for infinities, NaN and -0."""
    exp_bits, man_bits = SHAPES[kind]
    sign = -1 if bits >> (exp_bits + man_bits) & 1 else 1
    exp, man = bits >> man_bits & ((1 << exp_bits) - 1), bits & ((1 << man_bits) - 1)
    top = (1 << exp_bits) - 1
    if kind == "e4m3":
        if exp == top and man == 7:
            return math.nan
    elif kind not in NO_INF and exp == top:
        return math.nan if man else sign * math.inf
    bias = (1 << exp_bits - 1) - 1
    if exp == 0:
        if man == 0:
            return -0.0 if sign < 0 else Fraction(0)
        return sign * Fraction(man, 1 << man_bits) * Fraction(2) ** (1 - bias)
    return sign * (1 + Fraction(man, 1 << man_bits)) * Fraction(2) ** (exp - bias)


def width(kind: str) -> int:
    return 1 + sum(SHAPES[kind])


def special(kind: str, x: float) -> int:
    """Bits of an infinity, NaN or -0."""
    exp_bits, man_bits = SHAPES[kind]
    sign = 1 << (exp_bits + man_bits)
    if math.isnan(x):
        return NAN[kind]
    if x == 0:
        return sign if math.copysign(1, x) < 0 else 0
    return ((1 << exp_bits) - 1) << man_bits | (sign if x < 0 else 0)


def round_bits(kind: str, x: Fraction | float, rnd: str, satfinite: bool = False) -> int:
    """Round an exact value once; floats are the special values."""
    exp_bits, man_bits = SHAPES[kind]
    sign_bit = 1 << (exp_bits + man_bits)
    no_inf = kind in NO_INF
    largest = {"e4m3": 0x7E, "e3m2": 0x1F, "e2m3": 0x1F, "e2m1": 7}.get(
        kind, (((1 << exp_bits) - 1) << man_bits) - 1)
    if isinstance(x, float):
        if math.isnan(x):
            return NAN.get(kind, largest)
        if math.isinf(x) and (satfinite or no_inf):
            beyond = largest if satfinite or kind != "e4m3" else 0x7F
            return beyond | (sign_bit if x < 0 else 0)
        return special(kind, x)
    if x == 0:
        return 0
    sign = sign_bit if x < 0 else 0
    mag = abs(x)
    bias = (1 << exp_bits - 1) - 1
    exp = mag.numerator.bit_length() - mag.denominator.bit_length()
    if mag < Fraction(2) ** exp:
        exp -= 1
    exp = max(exp, 1 - bias)
    scaled = mag / Fraction(2) ** (exp - man_bits)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    half = Fraction(1, 2)
    up = {"rn": rest > half or (rest == half and whole & 1), "rna": rest >= half,
          "rz": False, "rm": rest > 0 and sign, "rp": rest > 0 and not sign}[rnd]
    whole += bool(up)
    bits = ((exp + bias - 1) << man_bits) + whole
    if bits > largest:
        to_inf = rnd in {"rn", "rna"} or (rnd == "rm" and sign) or (rnd == "rp" and not sign)
        infinity = 0x7F if kind == "e4m3" else largest if no_inf else largest + 1
        bits = infinity if to_inf and not satfinite else largest
    return bits | sign


def negative(x: Fraction | float) -> bool:
    return math.copysign(1, x) < 0 if isinstance(x, float) else x < 0


def _zero(signs: list[bool], rnd: str) -> float | Fraction:
    if all(signs) or (rnd == "rm" and any(signs)):
        return -0.0
    return Fraction(0)


def add(x, y, rnd):
    if any(isinstance(v, float) and v != 0 for v in (x, y)):
        both = float(x) if isinstance(x, float) else 0.0
        return both + (float(y) if isinstance(y, float) else 0.0)
    total = Fraction(x) + Fraction(y)
    return total if total else _zero([negative(x), negative(y)], rnd)


def mul(x, y):
    sign = negative(x) != negative(y)
    wild = [v for v in (x, y) if isinstance(v, float) and v != 0]
    if wild:
        if any(math.isnan(v) for v in wild) or x == 0 or y == 0:
            return math.nan
        return -math.inf if sign else math.inf
    product = Fraction(x) * Fraction(y)
    return product if product else (-0.0 if sign else Fraction(0))


def div(x, y):
    sign = negative(x) != negative(y)
    if any(isinstance(v, float) and math.isnan(v) for v in (x, y)):
        return math.nan
    inf_x, inf_y = (isinstance(v, float) and math.isinf(v) for v in (x, y))
    if (inf_x and inf_y) or (x == 0 and y == 0):
        return math.nan
    if inf_x or y == 0:
        return -math.inf if sign else math.inf
    if inf_y or x == 0:
        return -0.0 if sign else Fraction(0)
    return Fraction(x) / Fraction(y)


def sqrt(x):
    """Exact where rational; else a fraction so close that no rounding to 53 bits can tell."""
    if isinstance(x, float):
        return math.nan if x < 0 else x
    if x < 0:
        return math.nan
    if x == 0:
        return Fraction(0)
    scale = 2 * (400 + max(0, -(x.numerator.bit_length() - x.denominator.bit_length())))
    shifted = (x.numerator << scale) // x.denominator
    exact = (x.numerator << scale) % x.denominator == 0
    root = math.isqrt(shifted)
    if exact and root * root == shifted:
        return Fraction(root, 1 << scale // 2)
    return Fraction(2 * root + 1, 2 << scale // 2)


def operation(name: str, rnd: str, *args):
    """The exact result of a float operation, special values as floats."""
    if name == "fadd":
        return add(*args, rnd)
    if name == "fsub":
        y = args[1]
        return add(args[0], -0.0 if y == 0 and not negative(y) else -y if y != 0 else Fraction(0),
                   rnd)
    if name == "fmul":
        return mul(*args)
    if name == "ffma":
        return add(mul(args[0], args[1]), args[2], rnd)
    if name == "fdiv":
        return div(*args)
    if name == "frcp":
        return div(Fraction(1), *args)
    return sqrt(*args)
