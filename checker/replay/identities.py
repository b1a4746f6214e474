"""Domain `trees`: every exact identity that the replay's hashes know, by name, and where it lives.

In: values, mode. Out: (hash, facts). Each identity holds for every input (a NaN's payload and sign
aside); checker/tree/rules.py keeps the same list under the same names, tests the near misses.
"""

from __future__ import annotations

from collections.abc import Mapping

from checker.replay.arithmetic import (
    add,
    approximate,
    copysign,
    divide,
    fma,
    magnitude,
    multiply,
    negate,
)
from checker.replay.choices import compare, minmax, select_hash
from checker.replay.conversions import convert
from checker.replay.facts import HF
from checker.replay.hashing import representative
from checker.replay.operands import FLOAT_BITS, generic, mode_key, never_subnormal, one

__all__ = [
    "FLOAT_BITS", "HF", "IDENTITIES", "add", "approximate", "compare", "convert", "copysign",
    "divide", "fma", "generic", "magnitude", "minmax", "mode_key", "multiply", "negate",
    "never_subnormal", "one", "representative", "select_hash",
]

IDENTITIES: Mapping[str, str] = {
    "commute": "fadd, fmul, fma's factors, min, max: IEEE operations are symmetric",
    "sub-is-add-neg": "a - b = a + (-b) in every rounding mode",
    "neg-involution": "the sign bit is flipped twice",
    "neg-through-mul": "round to nearest and to zero are symmetric: (-a)*b = -(a*b)",
    "saturate": "sat(x) = min(max(x, 0), 1), the extrema that take no NaN for a number",
    "add-minus-zero": "x + (-0) = x for every x, -0 and +0 included",
    "add-plus-zero": "x + (+0) = x unless x = -0; N(x) + y = N(x + y)",
    "mul-one": "x * 1 = x, x * -1 = -x",
    "mul-two": "x * 2 = x + x, also at overflow and for -0",
    "div-power-of-two": "x / 2^k = x * 2^-k where 2^-k is normal: both scale exactly, one rounding",
    "rcp-is-div": "rcp.rn(x) = 1 / x correctly rounded",
    "fma-unit-factor": "fma(a, 1, c) = a + c; fma(a, -1, c) = c - a",
    "fma-minus-zero": "fma(a, b, -0) = a * b: adding -0 changes nothing, one rounding",
    "fma-exact-product": "a product of two widened f16 (or fp8) is exact in f32, and one of two "
    "widened f32 in f64: fma = mul + add",
    "fma-scaled-integer": "an integer times a normal 2^-k (k >= 0) is exact: fma = mul + add",
    "half-through-single": "f16/bf16 add and mul rounded through f32: 24 >= 2*11 + 2 bits, and a "
    "product of two bf16 has 16 bits, exact in f32 above half of the smallest bf16",
    "square-nonnegative": "x * x is never -0 and never negative",
    "power-nonnegative": "2^x is never -0 and never negative",
    "power-of-zero": "2^x and log2(x) give one result for both zeros: N inside is dropped",
    "plus-zero-through-scale": "N(x) * c = N(x * c) for a known c >= 1: no other product is 0",
    "plus-zero-through-max": "max(N(x), N(y)) = N(max(x, y)), min likewise: N keeps order",
    "zero-addend-inside-plus-zero": "N(x + -N(y)) = N(x - y): a sum that is no zero ignores the "
    "sign of a zero addend",
    "number-and-zero-addend": "c - N(x) = c - x for a known c that is no zero",
    "extremum-by-choice": "a > b ? a : (a is NaN ? a : b) = max.NaN(a, b) where b is never -0, "
    "also with the tests the other way round; a < b likewise min.NaN where a is never -0",
    "nan-beside-a-number": "whether x or a known number is NaN is whether x is",
    "nan-of-a-magnitude": "whether |x| or -x is NaN is whether x is",
    "beyond-infinity": "x < -inf and x > +inf never hold; unordered or so is: x is NaN",
    "null-once": "(x + z) + z = x + z where z is a zero or a NaN: 0 * y, 2^(-inf - m)",
    "null-last": "(x + z) + y = (x + y) + z: a rounded sum is -0 only where both addends are",
    "fma-null-product": "fma(0, y, x) = 0 * y + x: the product is exact",
    "widen-narrow": "narrowing an exactly widened value returns it",
    "widen-widen": "two exact widenings are one",
    "neg-through-widen": "widening keeps the sign bit apart",
    "bf16-shift": "a bf16 above sixteen zero bits is its exact widening to f32",
    "min-max-set": "min and max pick one of a set: order free, idempotent (IEEE mode: no sNaN)",
    "max-nan-bottom": "a NaN-propagating max(x, -inf) = x",
    "abs-abs": "|-x| = |x|, ||x|| = |x|",
    "unsigned-order": "signed a < b is unsigned a < b where both top bits are clear",
    "compare-swap": "a > b is b < a; not(a < b) is a >= b or unordered",
    "select-not": "select(!c, x, y) = select(c, y, x); select(c, x, x) = x",
    "narrow-order": "min, max, select, comparison, sign of widened values act on the narrow ones",
    "mma-zero-products": "0 * 0 adds nothing to an accumulator that is not -0 (zeros of both signs "
    "where a step is one exact sum and no accumulator may be -0, else +0 * +0)",
    "mma-null-step": "a step of products that are all zero or NaN leaves an accumulator that is "
    "not -0 alone but for NaN: once is enough, and it may come last; a second null counts once in "
    "a row",
    "mma-in-range": "an integer step that saturates is a sum where bounds show that none leaves "
    "32 bits",
    "one-bit-word": "c ? 1 : 0 is c as a bit; comparing such words compares the bits",
    "count-of-bits": "popc is the sum of its bits: of a word made of parts, part by part",
    "xor-twice": "x ^ (x ^ y) = y",
    "xor-select": "x ^ (c ? x ^ y : 0) = c ? y : x",
    "mma-step": "the products of one rounding step are an unordered multiset",
    "fold": "operations on known bits, by bit-exact arithmetic",
}
