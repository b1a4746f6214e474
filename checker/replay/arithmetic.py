"""Sign, add, multiply, fma and divide over tree hashes, with the exact identities of the table.

In: a float mode and (hash, facts) operands. Out: (hash, facts). Every rule is named in
`checker.replay.identities.IDENTITIES`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.arrays import some
from checker.core import Approx, Conv, FloatMode
from checker.replay.conversions import EXACT_PRODUCT, WHOLE, convert, widen
from checker.replay.facts import (
    CONC,
    HF,
    KEPT,
    LOW,
    MNZ,
    NEGINF,
    NONNEG,
    NOSUB,
    NULL,
    POISON,
    Facts,
    consts_of,
    facts_where,
    form_key,
    has_forms,
    known_lanes,
    memo,
    pop_forms,
    push_form,
    seen,
)
from checker.replay.folding import fold_lanes
from checker.replay.hashing import (
    U64,
    combine,
    const_hash,
    flip,
    key,
    representative,
    symmetric,
)
from checker.replay.nulls import is_null, open_null, with_null
from checker.replay.operands import (
    EXPONENTS,
    FLOAT_BITS,
    NARROW_BITS,
    ONE,
    choose,
    generic,
    is_const,
    may_be_minus_zero,
    mode_key,
    never_subnormal,
    nonnegative,
    plain,
    poison,
)
from checker.replay.suppose import supposed

__all__ = ["NOT_MNZ", "add", "approximate", "copysign", "divide", "fma", "magnitude", "multiply",
           "negate", "plus_zero", "strip_plus_zero"]

NOT_MNZ = 0xFFFFFFFF ^ MNZ
_NFORM = "plus zero"
_MINUS_N = "minus (plus zero)"  # -N(x): its hash is that of N(x), flipped
_ABS = "abs"
_MINUS_ABS = "minus (abs)"
_OPPOSITE = tuple(pair for form, minus in ((_NFORM, _MINUS_N), (_ABS, _MINUS_ABS))
                  for pair in ((form, minus), (minus, form)))


def negate(x: HF, width: int) -> HF:
    """Sign bit flipped: known bits by xor, widened values inside, else `flip`."""
    h, f = x
    if isinstance(f, int) and f & CONC:
        return const_hash(h[1] ^ np.uint64(1 << (width - 1))), f
    out: HF = (flip(h), (f & (POISON | NOSUB | NULL)) | MNZ)
    for outer, lanes, inner in pop_forms(x, "wide "):
        src, dst = outer.split()[1:]
        out = choose(lanes, widen(src, dst, negate(inner, NARROW_BITS.get(src, 8))), out)
    for here, there in _OPPOSITE:
        for _, lanes, (_, inner_f) in pop_forms(x, here):
            _, again = push_form((h, inner_f), there, out[1] & LOW)
            out = out[0], facts_where(lanes, again, out[1])
    known = known_lanes(x)
    if known is not False and np.any(known):
        out = choose(known, (const_hash(h[1] ^ np.uint64(1 << (width - 1))), CONC), out)
    return out


def magnitude(x: HF, width: int) -> HF:
    """Sign bit cleared."""
    h, f = x
    rep, _ = representative(h)
    out = push_form((combine(key("fabs"), rep), 0), _ABS,
                    (f & (POISON | NOSUB | NULL)) | NONNEG)
    for _, lanes, _inner in pop_forms(x, _ABS):
        out = choose(lanes, x, out)
    for _, lanes, _inner in pop_forms(x, _MINUS_ABS):
        out = choose(lanes, negate(x, width), out)
    for outer, lanes, inner in pop_forms(x, "wide "):
        src, dst = outer.split()[1:]
        out = choose(lanes, widen(src, dst, magnitude(inner, NARROW_BITS.get(src, 8))), out)
    known = known_lanes(x)
    if known is not False:
        mask = np.uint64((1 << (width - 1)) - 1)
        out = choose(known, (const_hash(h[1] & mask), CONC), out)
    return out


def copysign(sign: HF, value: HF, width: int) -> HF:
    """Magnitude of `value`, sign of `sign`."""
    return generic(f"fcopysign {width}", [sign, magnitude(value, width)], MNZ)


def add(mode: FloatMode, a: HF, b: HF) -> HF:
    """a + b; zeros, N(x) and halves through single as IDENTITIES say."""
    width = FLOAT_BITS[mode.type]
    if mode.type in ("f16", "bf16") and mode.rnd == "rn" and plain(mode):
        return _through_single(add, mode, a, b)
    keeps = plain(mode) or (mode.denorm == "flush" and never_subnormal(a, width)
                             and never_subnormal(b, width)
                             and not (mode.saturate or mode.relu))
    if mode.rnd != "rn" or not keeps:
        return _raw_add(mode, a, b)
    a, strip_a = strip_plus_zero(a)
    b, strip_b = strip_plus_zero(b)
    a, b = _strip_minus(a, b, strip_b, width), _strip_minus(b, a, strip_a, width)
    out = _raw_add(mode, a, b)
    if mode.denorm == "keep":
        zeros = may_be_minus_zero(a, width) & may_be_minus_zero(b, width)
        out = out[0], (out[1] & NOT_MNZ) | zeros
    plus = strip_a if strip_b is False else strip_b if strip_a is False else strip_a | strip_b
    out = _add_nulls(mode, a, b, out)
    minus0 = 1 << (width - 1)
    for one, other in ((a, b), (b, a)):
        hit = is_const(one, minus0)
        if hit is not False:
            out = choose(hit, other, out)
        hit = is_const(one, 0)
        if hit is not False:
            out = choose(hit, other, out)
            plus = hit if plus is False else plus | hit
    return out if plus is False else plus_zero(out, plus, width)


def _raw_add(mode: FloatMode, a: HF, b: HF) -> HF:
    k = key("fadd " + mode_key(mode))
    width = FLOAT_BITS[mode.type]
    facts: Facts = (NOSUB if mode.denorm == "flush" else 0) | _sign_facts(
        nonnegative(a, width) & nonnegative(b, width))
    infinite = is_const(a, _minus_infinity(mode)) | is_const(b, _minus_infinity(mode))
    if infinite is not False and not (mode.saturate or mode.relu):
        facts = facts | np.where(infinite, np.uint32(NEGINF), np.uint32(0))
    return symmetric(k, a[0], b[0]), poison(a[1], b[1]) | facts | (a[1] & b[1] & NULL)


def _sign_facts(nonneg: Facts) -> Facts:
    """NONNEG where it holds, else MNZ."""
    return nonneg | (MNZ ^ (nonneg >> 5))


def _minus_infinity(mode: FloatMode) -> int:
    man, exp = EXPONENTS[mode.type]
    return (1 << exp | (1 << exp) - 1) << man


def _add_nulls(mode: FloatMode, a: HF, b: HF, out: HF) -> HF:
    """Sums with a zero or NaN, and of such sums: that addend floats to the top, once."""
    null_a, null_b = is_null(a), is_null(b)
    open_a, open_b = open_null(a), open_null(b)
    if null_a is False and null_b is False and open_a is None and open_b is None:
        return out
    none = np.zeros((1, 1), dtype=bool)
    lanes_a, in_a, z_a = open_a or (none, a, a[0])
    lanes_b, in_b, z_b = open_b or (none, b, b[0])
    agree = ~(lanes_a & lanes_b) | (z_a == z_b).all(axis=0)
    one = (lanes_a | lanes_b) & agree & ~np.asarray(null_a | null_b)
    if some(one):
        inner = add(mode, choose(lanes_a, in_a, a), choose(lanes_b, in_b, b))
        z = np.where(lanes_a, z_a, z_b), poison(a[1], b[1]) | MNZ
        out = choose(one, with_null(inner, z, one), out)
    both = (a[0] == b[0]).all(axis=0) & null_a & null_b
    if np.any(both):
        out = choose(both, (a[0], a[1] | poison(b[1])), out)
    for x, y, null_x, null_y, lanes, z_x in ((a, b, null_a, null_b, lanes_a, z_a),
                                             (b, a, null_b, null_a, lanes_b, z_b)):
        if null_y is False:
            continue
        fresh = null_y & ~np.asarray(null_x | lanes)
        if some(fresh):
            out = choose(fresh, with_null(x, y, fresh), out)
        same = null_y & lanes & (z_x == y[0]).all(axis=0)
        if some(same):
            out = choose(same, (x[0], x[1] | poison(y[1])), out)
    return out


def strip_plus_zero(x: HF) -> tuple[HF, Any]:
    """x without an outer N(...), and the lanes where there was one."""
    opened = pop_forms(x, _NFORM)
    if not opened:
        return x, False
    _, lanes, (h, f) = opened[0]
    return choose(lanes, (h, f | MNZ), x), lanes


def _strip_minus(x: HF, other: HF, plus: Any, width: int) -> HF:
    """-N(x) as -x where the sum is N(...) or the other addend a known number: no zero shows."""
    for _, marked, (h, f) in pop_forms(x, _MINUS_N):
        number = known_lanes(other)
        if number is not False:
            number = number & ((other[0][1] & np.uint64((1 << (width - 1)) - 1)) != 0)
        hit = np.asarray(marked & (plus | number))
        if some(hit):
            h = flip(h + form_key(_MINUS_N)) - form_key(_NFORM)
            x = choose(hit, negate((h, f | MNZ), width), x)
    return x


def plus_zero(x: HF, lanes: Any, width: int) -> HF:
    """N(x) in these lanes: x itself where it cannot be -0."""
    h, f = x
    known = known_lanes(x)
    may = np.asarray(may_be_minus_zero(x, width) != 0) & lanes
    if known is not False:
        minus = known & (h[1] == np.uint64(1 << (width - 1))) & lanes
        h = np.where(minus, const_hash(np.zeros_like(h[1])), h)
        may = may & ~np.asarray(known)
    for _, lanes_n, _inner in pop_forms(x, _NFORM):
        may = may & ~lanes_n
    if not some(may):
        return h, f
    wrapped = push_form((h, f), _NFORM, f & (POISON | NOSUB | KEPT))
    return choose(may, wrapped, (h, f))


def _through_single(op: Any, mode: FloatMode, a: HF, b: HF) -> HF:
    f32 = FloatMode("f32")
    wide = Conv(mode.type, "f32")
    out = op(f32, convert(wide, a), convert(wide, b))
    return convert(Conv("f32", mode.type, "rn"), out)


def multiply(mode: FloatMode, a: HF, b: HF) -> HF:
    """a * b; signs outside, units and powers of two as IDENTITIES say."""
    width = FLOAT_BITS[mode.type]
    if mode.type in ("f16", "bf16") and mode.rnd == "rn" and plain(mode):
        return _through_single(multiply, mode, a, b)
    k = key("fmul " + mode_key(mode))
    facts: Facts = NOSUB if mode.denorm == "flush" else 0
    if mode.rnd not in ("rn", "rz") or mode.saturate or mode.relu or mode.xorsign_abs:
        return symmetric(k, a[0], b[0]), poison(a[1], b[1]) | facts | MNZ
    (ra, na), (rb, nb) = _unsign(a, width), _unsign(b, width)
    h = symmetric(k, ra, rb)
    neg = na ^ nb
    h = np.where(neg, flip(h), h)
    nonneg = nonnegative(a, width) & nonnegative(b, width) | _square(ra, rb, neg)
    facts = facts | _sign_facts(nonneg)
    facts = facts | _null_product(a, b, width) | _endless_product(mode, a, b)
    out: HF = (h, poison(a[1], b[1]) | facts)
    if mode.denorm != "keep" or mode.type not in ONE:
        return out
    out = _scaled_zero(mode, a, b, out)
    one = ONE[mode.type]
    for x, other in ((a, b), (b, a)):
        for bits, make in ((one, lambda v: v), (one | 1 << (width - 1), lambda v: negate(v, width)),
                           (one + (1 << EXPONENTS[mode.type][0]), lambda v: add(mode, v, v))):
            hit = is_const(x, bits)
            if hit is not False:
                out = choose(hit, make(other), out)
    return out


def _square(ra: U64, rb: U64, neg: Any) -> Facts:
    """NONNEG where a value is multiplied by itself, in any lane: other operations share the run."""
    if ra is not rb and not some(ra[1] == rb[1]):
        return 0
    same = np.asarray((ra == rb).all(axis=0) & ~np.asarray(neg))
    return np.where(same, np.uint32(NONNEG), np.uint32(0)) if some(same) else 0


def _zero_or_null(x: HF, width: int) -> Any:
    """Lanes that hold a zero or a NaN: False or a mask."""
    return is_null(x) | is_const(x, 0) | is_const(x, 1 << (width - 1))


def _null_product(a: HF, b: HF, width: int) -> Facts:
    """NULL where a factor is a zero: the product is a zero, or NaN."""
    lanes = _zero_or_null(a, width) | _zero_or_null(b, width)
    return 0 if lanes is False else np.where(lanes, np.uint32(NULL), np.uint32(0))


def _endless_product(mode: FloatMode, a: HF, b: HF) -> Facts:
    """NEGINF where -inf (or NaN) is multiplied by a known positive number."""
    out: Facts = 0
    top = _minus_infinity(mode)
    if not (seen(a[1]) | seen(b[1])) & NEGINF and not np.any(is_const(a, top) | is_const(b, top)):
        return out
    for x, y in ((a, b), (b, a)):
        endless = np.asarray((x[1] & NEGINF) != 0) | is_const(x, top)
        if some(endless):
            out = out | np.where(endless & _known_between(mode, y, 1, 1 << 64), np.uint32(NEGINF),
                                 np.uint32(0))
    return out


def _known_between(mode: FloatMode, x: HF, low: int, high: int) -> Any:
    """Lanes with known positive finite bits in [low, high)."""
    known = known_lanes(x)
    top = _minus_infinity(mode) & ((1 << (FLOAT_BITS[mode.type] - 1)) - 1)
    return False if known is False else known & (x[0][1] >= np.uint64(low)) & (
        x[0][1] < np.uint64(min(high, top)))


def _scaled_zero(mode: FloatMode, a: HF, b: HF, out: HF) -> HF:
    """N(x) * c = N(x * c) for a known c >= 1: only a zero becomes a zero."""
    for x, c in ((a, b), (b, a)):
        for _, lanes, inner in pop_forms(x, _NFORM):
            hit = lanes & _known_between(mode, c, ONE[mode.type], 1 << 64)
            if np.any(hit):
                scaled = multiply(mode, inner, c)
                out = choose(hit, plus_zero(scaled, hit, FLOAT_BITS[mode.type]), out)
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
    nonneg = nonnegative(c, width) & (
        nonnegative(a, width) & nonnegative(b, width) | _square(ra, rb, na ^ nb))
    facts = (NOSUB if mode.denorm == "flush" else 0) | _sign_facts(nonneg)
    if not (mode.saturate or mode.relu):
        facts = facts | _endless_product(mode, a, b)
    out: HF = (combine(k, product, c[0]), poison(a[1], b[1], c[1]) | facts)
    if mode.rnd != "rn" or not plain(mode):
        return out
    opened = open_null(c)
    if opened is not None:
        lanes, inner, z = opened
        bare = fma(mode, a, b, choose(lanes, inner, c))
        lanes = lanes & (np.asarray(bare[1] & MNZ) == 0)
        out = choose(lanes, with_null(bare, (z, poison(c[1]) | MNZ), lanes), out)
    exact = _exact_factor(mode, a) & _exact_factor(mode, b)
    exact = exact | _scaled_whole(mode, a, b) | _scaled_whole(mode, b, a)
    exact = exact | _zero_or_null(a, width) | _zero_or_null(b, width)
    if exact is not False and np.any(exact):
        whole = multiply(mode, a, b)
        known = np.asarray(known_lanes(a)) & known_lanes(b) & exact
        if some(known):
            folded = fold_lanes("fmul", mode, [a, b], known)
            whole = whole if folded is None else choose(known, folded, whole)
        out = choose(exact, add(mode, whole, c), out)
    hit = is_const(c, 1 << (width - 1))
    if hit is not False:
        out = choose(hit, multiply(mode, a, b), out)
    one = ONE[mode.type]
    for x, other in ((a, b), (b, a)):
        hit = is_const(x, one)
        if hit is not False:
            out = choose(hit, add(mode, other, c), out)
        hit = is_const(x, one | 1 << (width - 1))
        if hit is not False:
            out = choose(hit, add(mode, negate(other, width), c), out)
    return out


def _exact_factor(mode: FloatMode, x: HF) -> Any:
    """Lanes where x is a widened narrow float (or a known value that is one): False or mask."""
    if mode.type == "f64":
        return memo("exact factor f64", x, _single_factor) if has_forms(x[1]) else False
    if mode.type != "f32" or not (has_forms(x[1]) or consts_of(x) not in ((), (0,))):
        return False
    return memo("exact factor", x, _short_factor)


def _single_factor(x: HF) -> Any:
    """Two significands of 24 bits make 48, and no exponent of single precision leaves f64's."""
    out: Any = False
    for outer, lanes, _inner in pop_forms(x, "wide "):
        if outer.split()[2] == "f64":
            out = out | lanes
    return out


def _short_factor(x: HF) -> Any:
    h = x[0]
    out: Any = False
    for outer, lanes, _inner in pop_forms(x, "wide "):
        if outer.split()[1] in EXACT_PRODUCT and outer.split()[2] == "f32":
            out = out | lanes
    known = known_lanes(x)
    if known is not False:
        bits = h[1]
        exponent = (bits >> np.uint64(23)) & np.uint64(0xFF)
        short = (bits & np.uint64(0x1FFF)) == 0
        fits = (exponent >= 113) & (exponent <= 142) | ((bits & np.uint64(0x7FFFFFFF)) == 0)
        out = out | (known & short & fits)
    return out


def _scaled_whole(mode: FloatMode, x: HF, c: HF) -> Any:
    """Lanes where an integer is multiplied by a power of two that is normal and at most one."""
    if mode.type not in EXPONENTS or known_lanes(c) is False or not has_forms(x[1]):
        return False
    whole: Any = False
    for _, lanes, _inner in pop_forms(x, WHOLE):
        whole = whole | lanes
    if whole is False:
        return False
    man, exp = EXPONENTS[mode.type]
    bits = c[0][1]
    exponent = (bits >> np.uint64(man)) & np.uint64((1 << exp) - 1)
    power = (bits & np.uint64((1 << man) - 1) == 0) & (exponent > 0) & (
        exponent <= np.uint64((1 << (exp - 1)) - 1))
    return whole & known_lanes(c) & power


def divide(mode: FloatMode, a: HF, b: HF) -> HF:
    """Correctly rounded division."""
    width = FLOAT_BITS[mode.type]
    if mode.rnd in ("rn", "rz") and plain(mode):
        (ra, na), (rb, nb) = _unsign(a, width), _unsign(b, width)
        h = combine(key("fdiv " + mode_key(mode)), ra, rb)
        out: HF = (np.where(na ^ nb, flip(h), h), poison(a[1], b[1]) | MNZ)
    else:
        out = generic("fdiv " + mode_key(mode), [a, b])
    known = known_lanes(b)
    if known is False or not plain(mode) or mode.type not in EXPONENTS:
        return out
    man, exp = EXPONENTS[mode.type]
    bits = b[0][1]
    exponent = (bits >> np.uint64(man)) & np.uint64((1 << exp) - 1)
    bias2 = (1 << exp) - 2  # exponent field of 1/x is bias2 - field
    power = known & ((bits & np.uint64((1 << man) - 1)) == 0) & (exponent > 0) & (
        exponent < bias2)
    if np.any(power):
        inverse = (bits & np.uint64(1 << (width - 1))) | (
            (np.uint64(bias2) - exponent) & np.uint64((1 << exp) - 1)) << np.uint64(man)
        out = choose(power, multiply(mode, a, (const_hash(inverse), CONC)), out)
    return out


def approximate(attr: Approx, x: list[HF]) -> HF:
    """An approximate function; 2**x and log2 give one result for both zeros."""
    if len(x) == 2 and supposed("reciprocal") and not np.all(is_const(x[0], ONE[attr.mode.type])):
        return multiply(attr.mode, x[0], _reciprocal(attr, x[1]))
    name = f"fapprox {attr.fn} {attr.unit} {mode_key(attr.mode)}"
    if attr.fn in _EXP2 | _LOG2:
        x = [strip_plus_zero(x[0])[0]]
    if attr.fn not in _EXP2:
        return generic(name, x)
    return generic(name, x, NONNEG | ((x[0][1] & NEGINF) >> 1))


def _reciprocal(attr: Approx, x: HF) -> HF:
    """The same division of one."""
    one = const_hash(np.full((1, 1), ONE[attr.mode.type], np.uint64)), CONC
    out, known = approximate(attr, [one, x]), known_lanes(x)
    folded = None if known is False else fold_lanes("fapprox", attr, [one, x], known)
    return out if folded is None else choose(known, folded, out)


_EXP2 = frozenset({"ex2.approx", "v_exp_f32", "v_exp_f16"})
_LOG2 = frozenset({"lg2.approx", "v_log_f32", "v_log_f16"})
