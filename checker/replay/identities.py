"""Domain `trees`, float half: every exact identity that the replay's hashes know, one place.

In: values, mode. Out: `Hash` values. Each identity holds for every input (a NaN's payload and sign
aside) and has a row in IDENTITIES; checker/tree/rules.py keeps the same list under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from checker.core import Compare, Conv, FloatMode
from checker.replay.folding import fold_lanes, fold_scalar
from checker.replay.hashing import (
    U64,
    combine,
    combine_all,
    const_hash,
    flip,
    key,
    representative,
    symmetric,
)
from checker.replay.values import (
    CONC,
    HF,
    MNZ,
    NOSUB,
    POISON,
    QUIET,
    Conc,
    Facts,
    const,
    consts_of,
    facts_where,
    form_name,
    forms_in,
    has_forms,
    known_lanes,
    memo,
    pop_forms,
    push_form,
)

__all__ = ["FLOAT_BITS", "IDENTITIES", "HF", "add", "compare", "convert", "copysign", "divide",
           "fma", "generic", "magnitude", "minmax", "mode_key", "multiply",
           "negate", "never_subnormal", "one", "select_hash"]

IDENTITIES: Mapping[str, str] = {
    "commute": "fadd, fmul, fma's factors, min, max: IEEE operations are symmetric",
    "sub-is-add-neg": "a - b = a + (-b) in every rounding mode",
    "neg-involution": "the sign bit is flipped twice",
    "neg-through-mul": "round to nearest and to zero are symmetric: (-a)*b = -(a*b)",
    "add-minus-zero": "x + (-0) = x for every x, -0 and +0 included",
    "add-plus-zero": "x + (+0) = x unless x = -0; N(x) + y = N(x + y)",
    "mul-one": "x * 1 = x, x * -1 = -x",
    "mul-two": "x * 2 = x + x, also at overflow and for -0",
    "div-power-of-two": "x / 2^k = x * 2^-k where 2^-k is normal: both scale exactly, one rounding",
    "rcp-is-div": "rcp.rn(x) = 1 / x correctly rounded",
    "fma-unit-factor": "fma(a, 1, c) = a + c; fma(a, -1, c) = c - a",
    "fma-minus-zero": "fma(a, b, -0) = a * b: adding -0 changes nothing, one rounding",
    "fma-exact-product": "a product of two widened f16 (or fp8) is exact in f32: fma = mul, then add",
    "half-through-single": "f16/bf16 add and f16 mul rounded through f32: 24 >= 2*11 + 2 bits",
    "widen-narrow": "narrowing an exactly widened value returns it",
    "widen-widen": "two exact widenings are one",
    "neg-through-widen": "widening keeps the sign bit apart",
    "bf16-shift": "a bf16 above sixteen zero bits is its exact widening to f32",
    "min-max-set": "min and max pick one of a set: order free, idempotent (IEEE mode: no sNaN)",
    "max-nan-bottom": "a NaN-propagating max(x, -inf) = x",
    "abs-abs": "|-x| = |x|, ||x|| = |x|",
    "compare-swap": "a > b is b < a; not(a < b) is a >= b or unordered",
    "select-not": "select(!c, x, y) = select(c, y, x); select(c, x, x) = x",
    "narrow-order": "min, max, select, comparison and sign of widened values act on the narrow ones",
    "mma-zero-products": "+0 * +0 adds nothing to an accumulator that is not -0",
    "mma-step": "the products of one rounding step are an unordered multiset",
    "fold": "operations on known bits, by bit-exact arithmetic",
}

FLOAT_BITS: Mapping[str, int] = {"f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64}
_NARROW_BITS = {"f16": 16, "bf16": 16, "f32": 32}
_ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}
_EXP = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
NOT_MNZ = 0xFFFFFFFF ^ MNZ
_NFORM = "plus zero"
_ABS = "abs"

# source type -> types that hold each of its values exactly
_CONTAINS: Mapping[str, tuple[str, ...]] = {
    "f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",),
    "e4m3": ("f16", "bf16", "f32", "f64"), "e5m2": ("f16", "bf16", "f32", "f64"),
    "e2m1": ("f16", "bf16", "f32", "e4m3", "e5m2"),
}
_EXACT_PRODUCT = {"f16", "e4m3", "e5m2"}  # products of two are exact and normal or zero in f32


def mode_key(mode: FloatMode) -> str:
    """Everything in a mode that changes the result."""
    return (f"{mode.type} {mode.rnd} {mode.denorm} {int(mode.saturate)}{int(mode.relu)} {mode.nan}"
            f" {int(mode.xorsign_abs)}")


def _plain(mode: FloatMode) -> bool:
    return not (mode.saturate or mode.relu or mode.xorsign_abs) and mode.denorm == "keep"


def _poison(*facts: Facts) -> Facts:
    out: Facts = 0
    for f in facts:
        out = out | f
    return out & POISON


def _select(mask: Any, a: HF, b: HF) -> HF:
    return np.where(mask, a[0], b[0]), facts_where(np.asarray(mask), a[1], b[1])


def is_const(x: HF, bits: int) -> Any:
    """Lanes where x is known and has these bits: False, or a mask."""
    consts = consts_of(x)
    if consts is not None and bits not in consts:
        return False
    known = known_lanes(x)
    if known is False:
        return False
    found = known & (x[0][1] == np.uint64(bits))
    return found if found.any() else False


def _may_be_minus_zero(x: HF, width: int) -> Facts:
    """MNZ fact with known lanes looked at."""
    f: Facts = x[1] & MNZ
    zero = is_const(x, 1 << (width - 1))
    return f if zero is False else np.where(zero, np.uint32(MNZ), f)


def generic(name: str, operands: list[HF], facts: int = MNZ | QUIET) -> HF:
    """An operation without identities."""
    return combine_all(key(name), [h for h, _ in operands]), (
        _poison(*(f for _, f in operands)) | facts)


# --- sign ---------------------------------------------------------------------------------------


def negate(x: HF, width: int) -> HF:
    """Sign bit flipped: known bits by xor, widened values inside, else `flip`."""
    h, f = x
    if isinstance(f, int) and f & CONC:
        return const_hash(h[1] ^ np.uint64(1 << (width - 1))), f
    out: HF = (flip(h), (f & (POISON | NOSUB | QUIET)) | MNZ)
    for outer, lanes, inner in pop_forms(x, "wide "):
        src, dst = outer.split()[1:]
        out = _select(lanes, _widen(src, dst, negate(inner, _NARROW_BITS.get(src, 8))), out)
    known = known_lanes(x)
    if known is not False and np.any(known):
        out = _select(known, (const_hash(h[1] ^ np.uint64(1 << (width - 1))), CONC), out)
    return out


def magnitude(x: HF, width: int) -> HF:
    """Sign bit cleared."""
    h, f = x
    rep, _ = representative(h)
    out = push_form((combine(key("fabs"), rep), 0), _ABS, f & (POISON | NOSUB | QUIET))
    for _, lanes, _inner in pop_forms(x, _ABS):
        out = _select(lanes, x, out)
    for outer, lanes, inner in pop_forms(x, "wide "):
        src, dst = outer.split()[1:]
        out = _select(lanes, _widen(src, dst, magnitude(inner, _NARROW_BITS.get(src, 8))), out)
    known = known_lanes(x)
    if known is not False:
        mask = np.uint64((1 << (width - 1)) - 1)
        out = _select(known, (const_hash(h[1] & mask), CONC), out)
    return out


def copysign(sign: HF, value: HF, width: int) -> HF:
    """Magnitude of `value`, sign of `sign`."""
    return generic(f"fcopysign {width}", [sign, magnitude(value, width)], MNZ)


# --- add, mul, fma ------------------------------------------------------------------------------


def add(mode: FloatMode, a: HF, b: HF) -> HF:
    """a + b; zeros, N(x) and halves through single as IDENTITIES say."""
    width = FLOAT_BITS[mode.type]
    if mode.type in ("f16", "bf16") and mode.rnd == "rn" and _plain(mode):
        return _through_single(add, mode, a, b)
    keeps = _plain(mode) or (mode.denorm == "flush" and never_subnormal(a, width)
                             and never_subnormal(b, width)
                             and not (mode.saturate or mode.relu))
    if mode.rnd != "rn" or not keeps:
        return _raw_add(mode, a, b)
    a, strip_a = _strip_n(a)
    b, strip_b = _strip_n(b)
    out = _raw_add(mode, a, b)
    if mode.denorm == "keep":
        out = out[0], (out[1] & NOT_MNZ) | (_may_be_minus_zero(a, width) & _may_be_minus_zero(b, width))
    plus = strip_a if strip_b is False else strip_b if strip_a is False else strip_a | strip_b
    minus0 = 1 << (width - 1)
    for one, other in ((a, b), (b, a)):
        hit = is_const(one, minus0)
        if hit is not False:
            out = _select(hit, other, out)
        hit = is_const(one, 0)
        if hit is not False:
            out = _select(hit, other, out)
            plus = hit if plus is False else plus | hit
    return out if plus is False else _plus_zero(out, plus, width)


def never_subnormal(x: HF, width: int) -> bool:
    """Whether no lane can hold a subnormal (known lanes: only zeros count)."""
    f = x[1]
    if isinstance(f, int) and not f & CONC:
        return bool(f & NOSUB)
    zero = (x[0][1] & np.uint64((1 << (width - 1)) - 1)) == 0
    return bool((((f & NOSUB) != 0) | (((f & CONC) != 0) & zero)).all())


def one(type_name: str) -> Conc:
    """The constant 1.0."""
    return const(_ONE[type_name], FLOAT_BITS[type_name])


def _raw_add(mode: FloatMode, a: HF, b: HF) -> HF:
    k = key("fadd " + mode_key(mode))
    facts = MNZ | QUIET | (NOSUB if mode.denorm == "flush" else 0)
    out: HF = (symmetric(k, a[0], b[0]), _poison(a[1], b[1]) | facts)
    if mode.rnd == "rn" and mode.denorm == "keep" and isinstance(a[1], int) and isinstance(
            b[1], int):
        return out
    return out


def _strip_n(x: HF) -> tuple[HF, Any]:
    """x without an outer N(...), and the lanes where there was one."""
    opened = pop_forms(x, _NFORM)
    if not opened:
        return x, False
    _, lanes, (h, f) = opened[0]
    return _select(lanes, (h, f | MNZ), x), lanes


def _plus_zero(x: HF, lanes: Any, width: int) -> HF:
    """N(x) in these lanes: x itself where it cannot be -0."""
    h, f = x
    known = known_lanes(x)
    may = np.asarray(_may_be_minus_zero(x, width) != 0) & lanes
    if known is not False:
        minus = known & (h[1] == np.uint64(1 << (width - 1))) & lanes
        h = np.where(minus, const_hash(np.zeros_like(h[1])), h)
        may = may & ~np.asarray(known)
    for _, lanes_n, _inner in pop_forms(x, _NFORM):
        may = may & ~lanes_n
    if not may.any():
        return h, f
    wrapped = push_form((h, f), _NFORM, (f & (POISON | NOSUB)) | QUIET)
    return _select(may, wrapped, (h, f))


def _through_single(op: Any, mode: FloatMode, a: HF, b: HF) -> HF:
    f32 = FloatMode("f32")
    wide = Conv(mode.type, "f32")
    out = op(f32, convert(wide, a), convert(wide, b))
    return convert(Conv("f32", mode.type, "rn"), out)


def multiply(mode: FloatMode, a: HF, b: HF) -> HF:
    """a * b; signs outside, units and powers of two as IDENTITIES say."""
    width = FLOAT_BITS[mode.type]
    if mode.type == "f16" and mode.rnd == "rn" and _plain(mode):
        return _through_single(multiply, mode, a, b)
    k = key("fmul " + mode_key(mode))
    facts = MNZ | QUIET | (NOSUB if mode.denorm == "flush" else 0)
    if mode.rnd not in ("rn", "rz") or mode.saturate or mode.relu or mode.xorsign_abs:
        return symmetric(k, a[0], b[0]), _poison(a[1], b[1]) | facts
    (ra, na), (rb, nb) = _unsign(a, width), _unsign(b, width)
    h = symmetric(k, ra, rb)
    neg = na ^ nb
    h = np.where(neg, flip(h), h)
    out: HF = (h, _poison(a[1], b[1]) | facts)
    if mode.denorm != "keep" or mode.type not in _ONE:
        return out
    one = _ONE[mode.type]
    for x, other in ((a, b), (b, a)):
        for bits, make in ((one, lambda v: v), (one | 1 << (width - 1), lambda v: negate(v, width)),
                           (one + (1 << _EXP[mode.type][0]), lambda v: add(mode, v, v))):
            hit = is_const(x, bits)
            if hit is not False:
                out = _select(hit, make(other), out)
    return out


def _unsign(x: HF, width: int) -> tuple[U64, Any]:
    """x or -x, whichever represents both, and which it was (known bits: the magnitude)."""
    return memo(f"unsign {width}", x, lambda y: _unsigned(y, width))  # type: ignore[no-any-return]


def _unsigned(x: HF, width: int) -> tuple[U64, Any]:
    h, f = x
    if isinstance(f, int) and f & CONC:
        top = np.uint64(1 << (width - 1))
        return const_hash(h[1] & ~top), (h[1] & top) != 0
    if has_forms(f):
        h = _unform_sign(x)
    rep, neg = representative(h)
    known = known_lanes(x)
    if known is not False:
        top = np.uint64(1 << (width - 1))
        rep = np.where(known, const_hash(h[1] & ~top), rep)
        neg = np.where(known, (h[1] & top) != 0, neg)
    return rep, neg


def _unform_sign(x: HF) -> U64:
    """Move a widening's constant inside the mix, so that negation flips the outermost word."""
    out = x[0]
    for outer, lanes, (h, _) in pop_forms(x, "wide "):
        rep, neg = representative(h)
        inner = combine(key("unsigned " + outer), rep)
        inner = np.where(inner[1] >= np.uint64(1 << 63), flip(inner), inner)
        out = np.where(lanes, np.where(neg, flip(inner), inner), out)
    return out


def fma(mode: FloatMode, a: HF, b: HF, c: HF) -> HF:
    """a * b + c with one rounding."""
    width = FLOAT_BITS[mode.type]
    k = key("ffma " + mode_key(mode))
    (ra, na), (rb, nb) = _unsign(a, width), _unsign(b, width)
    product = symmetric(key("product"), ra, rb)
    product = np.where(na ^ nb, flip(product), product)
    facts = MNZ | QUIET | (NOSUB if mode.denorm == "flush" else 0)
    out: HF = (combine(k, product, c[0]), _poison(a[1], b[1], c[1]) | facts)
    if mode.rnd != "rn" or not _plain(mode):
        return out
    if consts_of(a) == (0,) and consts_of(b) == (0,):
        zeros = np.asarray(known_lanes(a)) & known_lanes(b)
        if zeros.any():
            out = _select(zeros, _plus_zero(c, zeros, width), out)
    exact = _exact_factor(mode, a) & _exact_factor(mode, b)
    if exact is not False and np.any(exact):
        out = _select(exact, add(mode, multiply(mode, a, b), c), out)
    hit = is_const(c, 1 << (width - 1))
    if hit is not False:
        out = _select(hit, multiply(mode, a, b), out)
    one = _ONE[mode.type]
    for x, other in ((a, b), (b, a)):
        hit = is_const(x, one)
        if hit is not False:
            out = _select(hit, add(mode, other, c), out)
        hit = is_const(x, one | 1 << (width - 1))
        if hit is not False:
            out = _select(hit, add(mode, negate(other, width), c), out)
    return out


def _exact_factor(mode: FloatMode, x: HF) -> Any:
    """Lanes where x is a widened narrow float (or a known value that is one): False or mask."""
    if mode.type != "f32" or not (has_forms(x[1]) or consts_of(x) not in ((), (0,))):
        return False
    return memo("exact factor", x, _short_factor)


def _short_factor(x: HF) -> Any:
    h = x[0]
    out: Any = False
    for outer, lanes, _inner in pop_forms(x, "wide "):
        if outer.split()[1] in _EXACT_PRODUCT and outer.split()[2] == "f32":
            out = out | lanes
    known = known_lanes(x)
    if known is not False:
        bits = h[1]
        exponent = (bits >> np.uint64(23)) & np.uint64(0xFF)
        short = (bits & np.uint64(0x1FFF)) == 0
        fits = (exponent >= 113) & (exponent <= 142) | ((bits & np.uint64(0x7FFFFFFF)) == 0)
        out = out | (known & short & fits)
    return out


def divide(mode: FloatMode, a: HF, b: HF) -> HF:
    """Correctly rounded division."""
    width = FLOAT_BITS[mode.type]
    if mode.rnd in ("rn", "rz") and _plain(mode):
        (ra, na), (rb, nb) = _unsign(a, width), _unsign(b, width)
        h = combine(key("fdiv " + mode_key(mode)), ra, rb)
        out: HF = (np.where(na ^ nb, flip(h), h), _poison(a[1], b[1]) | MNZ | QUIET)
    else:
        out = generic("fdiv " + mode_key(mode), [a, b])
    known = known_lanes(b)
    if known is False or not _plain(mode) or mode.type not in _EXP:
        return out
    man, exp = _EXP[mode.type]
    bits = b[0][1]
    exponent = (bits >> np.uint64(man)) & np.uint64((1 << exp) - 1)
    bias2 = (1 << exp) - 2  # exponent field of 1/x is bias2 - field
    power = known & ((bits & np.uint64((1 << man) - 1)) == 0) & (exponent > 0) & (
        exponent < bias2)
    if np.any(power):
        inverse = (bits & np.uint64(1 << (width - 1))) | (
            (np.uint64(bias2) - exponent) & np.uint64((1 << exp) - 1)) << np.uint64(man)
        out = _select(power, multiply(mode, a, (const_hash(inverse), CONC)), out)
    return out


# --- min, max -----------------------------------------------------------------------------------


def _narrowed(x: HF, src: str, dst: str) -> tuple[Any, HF] | None:
    """Lanes of dst-typed x that are a widened src (or a known value that one could be), and it."""
    h, f = x
    lanes: Any = False
    inner: HF = x
    for _, lanes, inner in pop_forms(x, f"wide {src} {dst}"):
        pass
    known = known_lanes(x)
    if known is not False and np.any(known):
        small = fold_lanes("fcvt", Conv(dst, src, "rn"), [x], known)
        back = None if small is None else fold_lanes("fcvt", Conv(src, dst), [small], True)
        if small is not None and back is not None:
            exact = known & (back[0][1] == h[1])
            inner = _select(exact, small, inner)
            lanes = lanes | exact
    return None if lanes is False or not np.any(lanes) else (lanes, inner)


def _narrow_pairs(a: HF, b: HF, type_name: str) -> list[tuple[Any, str, HF, HF]]:
    """Lanes in which both operands are widened from one narrower type, and the narrow operands."""
    out: list[tuple[Any, str, HF, HF]] = []
    if type_name != "f32" or not (has_forms(a[1]) or has_forms(b[1])):
        return out
    for src in ("f16", "bf16"):
        outer = f"wide {src} f32"
        if not any(form_name(form) == outer for x in (a, b) for form in forms_in(x[1])):
            continue
        x, y = _narrowed(a, src, "f32"), _narrowed(b, src, "f32")
        if x is not None and y is not None and np.any(x[0] & y[0]):
            out.append((x[0] & y[0], src, x[1], y[1]))
    return out


def minmax(name: str, mode: FloatMode, a: HF, b: HF) -> HF:
    """min or max as the set of what it picks from; of widened values: on the narrow ones."""
    out = _minmax(name, mode, a, b)
    if mode.xorsign_abs or mode.relu or mode.saturate:
        return out
    for lanes, src, x, y in _narrow_pairs(a, b, mode.type):
        if mode.nan == "ieee754_2008":
            quiet = _both(_quiet(src, x), _quiet(src, y))
            if quiet is False:
                continue
            lanes = lanes & quiet
        if mode.denorm == "keep" or src == "f16":
            narrow = minmax(name, FloatMode(src, nan=mode.nan), x, y)
            out = _select(lanes, convert(Conv(src, "f32"), narrow), out)
    return out


def _quiet(type_name: str, x: HF) -> Any:
    """Lanes that cannot hold a signalling NaN: True, False or a mask."""
    f = x[1]
    if isinstance(f, int) and not f & CONC:
        return bool(f & QUIET)
    fine = np.asarray((f & (QUIET | CONC)) != 0)
    if type_name not in _EXP:
        return fine
    man, exp = _EXP[type_name]
    inf = ((1 << exp) - 1) << man
    consts = consts_of(x)
    if consts is None or any(c & inf == inf and c & ((1 << man) - 1) and not c >> (man - 1) & 1
                             for c in consts):
        fine = fine & ~np.asarray(known_lanes(x))
    return True if fine.all() else fine


def _both(x: Any, y: Any) -> Any:
    """Lanes in both of two answers that may be plain booleans."""
    if x is False or y is False:
        return False
    return y if x is True else x if y is True else x & y


def _minmax(name: str, mode: FloatMode, a: HF, b: HF) -> HF:
    """The set of what it picks from; known bits in the set are kept apart."""
    opkey = f"{name} {mode_key(mode)}"
    if mode.xorsign_abs or mode.relu or mode.saturate:
        return symmetric(key(opkey), a[0], b[0]), _poison(a[1], b[1]) | MNZ | QUIET
    if mode.nan == "ieee754_2008":
        quiet = _both(_quiet(mode.type, a), _quiet(mode.type, b))
        if quiet is not True:
            loud: HF = (symmetric(key(opkey), a[0], b[0]), _poison(a[1], b[1]) | MNZ | QUIET)
            same = (a[0] == b[0]).all(axis=0)
            if same.any():  # max(x, x) is x with a signalling NaN made quiet
                loud = _select(same, (a[0], a[1] | QUIET), loud)
            if quiet is False or not np.any(quiet):
                return loud
            return _select(quiet, _minmax(name, replace(mode, nan="num"), a, b), loud)
        opkey = f"{name} {mode_key(replace(mode, nan='num'))}"
    sum_a, const_a = _elements(opkey, a)
    sum_b, const_b = _elements(opkey, b)
    same_sum = sum_a == sum_b
    same_sum = same_sum[0] & same_sum[1]
    total = np.where(same_sum, sum_a, sum_a + sum_b)
    facts: Facts = _poison(a[1], b[1]) | ((a[1] | b[1]) & MNZ) | QUIET
    if mode.type in FLOAT_BITS:
        width = FLOAT_BITS[mode.type]
        facts = (facts & NOT_MNZ) | _may_be_minus_zero(a, width) | _may_be_minus_zero(b, width)
    out = _make_set(name, replace(mode, nan="num") if mode.nan == "ieee754_2008" else mode, opkey,
                    total, [*const_a, *const_b], facts)
    same = a[0] == b[0]
    same = same[0] & same[1]
    if same.any():
        out = _select(same, a, out)
    if mode.nan == "nan" and mode.type in _EXP:
        man, exp = _EXP[mode.type]
        worst = ((1 << exp) - 1) << man
        if name.startswith("fmax"):
            worst |= 1 << (man + exp)
        for one, other in ((a, b), (b, a)):
            hit = is_const(one, worst)
            if hit is not False:
                out = _select(hit, other, out)
    return out


def _elements(opkey: str, x: HF) -> tuple[U64, list[tuple[Any, int]]]:
    """Sum of the set's element hashes, and (lanes, bits) of each known member."""
    h, f = x
    total = combine(key("element " + opkey), h)
    consts: list[tuple[Any, int]] = []
    known = known_lanes(x)
    if known is not False and np.any(known):
        values = np.unique(h[1][np.broadcast_to(known, h[1].shape)])
        if len(values) <= 4:
            total = np.where(known, np.uint64(0), total)
            consts += [(known & (h[1] == v), int(v)) for v in values]
    for outer, lanes, (inner, _) in pop_forms(x, f"set {opkey} |"):
        total = np.where(lanes, inner, total)
        consts += [(lanes, int(v, 16)) for v in outer.split("|")[1].split()]
    return total, consts


def _make_set(name: str, mode: FloatMode, opkey: str, total: U64, consts: list[tuple[Any, int]],
              facts: Facts) -> HF:
    """The set as a hash; its known members, folded to one, are part of the form."""
    values = sorted({v for _, v in consts})
    lanes = np.zeros((1, 1), dtype=np.int64)
    for bit, value in enumerate(values):
        has: Any = False
        for where, v in consts:
            if v == value:
                has = has | where
        lanes = lanes | np.asarray(has).astype(np.int64) << bit
    out: HF | None = None
    for pattern in np.unique(lanes):
        members = [v for bit, v in enumerate(values) if int(pattern) >> bit & 1]
        while len(members) > 1:
            folded = fold_scalar(name, mode, (members[0], members[1]))
            if folded is None:
                break
            members[:2] = [folded]
        outer = f"set {opkey} |" + " ".join(f"{v:x}" for v in members)
        one = push_form((total, 0), outer, facts)
        out = one if out is None else _select(lanes == pattern, one, out)
    assert out is not None
    return out


# --- conversions --------------------------------------------------------------------------------


def convert(conv: Conv, x: HF) -> HF:
    """Conversion; exact widenings can be undone; known lanes are folded where possible."""
    h, f = x
    if conv.src == conv.dst and conv.rnd in ("", "rn", "rz") and not (
            conv.saturate or conv.relu or conv.denorm != "keep"):
        return x
    h_out, f_out = _convert_hash(conv, x)
    out: HF = (h_out, f_out | QUIET)
    if conv.dst == "tf32" and conv.src == "f32" and not (conv.saturate or conv.relu):
        for outer, lanes, _inner in pop_forms(x, "wide "):
            if outer in ("wide f16 f32", "wide bf16 f32"):
                out = _select(lanes, x, out)
    known = known_lanes(x)
    if known is False or not np.any(known):
        return out
    folded = fold_lanes("fcvt", conv, [x], known)
    if folded is None:
        plain = combine(key("fcvt " + _conv_key(conv)), h)
        return _select(known, (plain, MNZ), out)
    return _select(known, folded, out)


def _conv_key(conv: Conv) -> str:
    return (f"{conv.src} {conv.dst} {conv.rnd} {conv.denorm} {int(conv.saturate)}"
            f"{int(conv.satfinite)}{int(conv.relu)}")


def _convert_hash(conv: Conv, x: HF) -> HF:
    h, f = x
    plain = not (conv.saturate or conv.relu)
    if conv.dst in _CONTAINS.get(conv.src, ()) and plain and _no_flush(conv):
        if conv.satfinite and conv.src != "e4m3":
            return combine(key("fcvt " + _conv_key(conv)), h), _poison(f) | MNZ
        return _widen(conv.src, conv.dst, x)
    base = QUIET if conv.src[0] in "us" and conv.src[1:].isdigit() else MNZ | QUIET
    out: HF = (combine(key("fcvt " + _conv_key(conv)), h), _poison(f) | base)
    if not plain or conv.denorm != "keep" or not has_forms(f):
        return out
    for outer, lanes, inner in pop_forms(x, "wide "):
        src, dst = outer.split()[1:]
        if dst != conv.src or (conv.satfinite and src != "e4m3"):
            continue
        if conv.dst == src:
            out = _select(lanes, inner, out)
        elif conv.dst in _CONTAINS.get(src, ()):
            out = _select(lanes, _widen(src, conv.dst, inner), out)
    return out


def _no_flush(conv: Conv) -> bool:
    """Whether input flushing cannot matter: f16 and fp8 are never subnormal in f32."""
    return conv.denorm == "keep" or (conv.src in _EXACT_PRODUCT and conv.dst == "f32")


def _widen(src: str, dst: str, x: HF) -> HF:
    """An exact widening; of a widening: one widening."""
    nosub = NOSUB if src in _EXACT_PRODUCT and dst == "f32" else 0
    out = push_form(x, f"wide {src} {dst}", (x[1] & (POISON | MNZ | QUIET)) | nosub)
    for outer, lanes, inner in pop_forms(x, "wide "):
        narrow, middle = outer.split()[1:]
        if middle == src:
            out = _select(lanes, _widen(narrow, dst, inner), out)
    return out


# --- predicates ---------------------------------------------------------------------------------

_BASE = {  # cond -> (base, swap operands, negate)
    "lt": ("lt", False, False), "gt": ("lt", True, False),
    "ltu": ("ltu", False, False), "gtu": ("ltu", True, False),
    "ge": ("ltu", False, True), "le": ("ltu", True, True),
    "geu": ("lt", False, True), "leu": ("lt", True, True),
    "eq": ("eq", False, False), "neu": ("eq", False, True),
    "equ": ("equ", False, False), "ne": ("equ", False, True),
    "num": ("nan", False, True), "nan": ("nan", False, False),
}
_INT_BASE = {"lt": ("lt", False, False), "gt": ("lt", True, False), "ge": ("lt", False, True),
             "le": ("lt", True, True), "eq": ("eq", False, False), "ne": ("eq", False, True)}


def compare(cmp: Compare, a: HF, b: HF, integer: bool) -> HF:
    """A comparison in its base form: less-than or equal, swapped and negated."""
    base, swap, neg = (_INT_BASE if integer else _BASE)[cmp.cond]
    if swap:
        a, b = b, a
    if not integer and cmp.denorm == "keep":
        for lanes, src, x, y in _narrow_pairs(a, b, cmp.type):
            a = _select(lanes, x, a)
            b = _select(lanes, y, b)
            if not np.all(lanes):
                whole = _base_compare(cmp, base, neg, a, b, integer)
                part = _base_compare(Compare(cmp.cond, src), base, neg, a, b, integer)
                return _select(lanes, part, whole)
            cmp = Compare(cmp.cond, src)
            break
    return _base_compare(cmp, base, neg, a, b, integer)


def _base_compare(cmp: Compare, base: str, neg: bool, a: HF, b: HF, integer: bool) -> HF:
    kind = cmp.type if not (integer and base == "eq") else "b" + cmp.type[1:]
    k = key(f"cmp {base} {kind} {cmp.denorm}")
    h = symmetric(k, a[0], b[0]) if base in ("eq", "equ", "nan") else combine(k, a[0], b[0])
    return (flip(h) if neg else h), _poison(a[1], b[1])


def select_hash(c: HF, x: HF, y: HF, width: int) -> HF:
    """c ? x : y where c is not known in some lane."""
    out = _select_hash(c, x, y, width)
    if width == 32:
        for lanes, src, nx, ny in _narrow_pairs(x, y, "f32"):
            narrow = _select_hash(c, nx, ny, 16)
            out = _select(lanes, convert(Conv(src, "f32"), narrow), out)
    return out


def _select_hash(c: HF, x: HF, y: HF, width: int) -> HF:
    rep, neg = representative(c[0])
    first, second = np.where(neg, y[0], x[0]), np.where(neg, x[0], y[0])
    h = combine_all(key(f"select {width}"), [rep, first, second])
    facts: Facts = _poison(c[1], x[1], y[1]) | ((x[1] | y[1]) & MNZ) | (x[1] & y[1] & QUIET)
    if known_lanes(x) is not False or known_lanes(y) is not False:
        facts = facts | MNZ
    out: HF = (h, facts)
    same = x[0] == y[0]
    same = same[0] & same[1]
    if same.any():
        out = _select(same, x, out)
    known = known_lanes(c)
    if known is not False:
        truth = known & (c[0][1] != 0)
        out = _select(truth, x, out)
        out = _select(known & ~truth, y, out)
    return out
