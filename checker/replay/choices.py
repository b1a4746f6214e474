"""Choices over tree hashes: min and max as sets, comparisons in base form, selects.

In: modes and (hash, facts) operands. Out: (hash, facts). Choices among widened values are made on
the narrow ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import some
from checker.core import Compare, Conv, FloatMode
from checker.replay.arithmetic import NOT_MNZ, magnitude, plus_zero, strip_plus_zero
from checker.replay.conversions import convert
from checker.replay.facts import (
    CONC,
    HF,
    MNZ,
    Facts,
    form_name,
    forms_in,
    has_forms,
    known_lanes,
    pop_forms,
    push_form,
    top_clear,
)
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
from checker.replay.ledger import Ledger
from checker.replay.operands import (
    EXPONENTS,
    FLOAT_BITS,
    choose,
    is_const,
    may_be_minus_zero,
    mode_key,
    never_subnormal,
    poison,
)

__all__ = ["compare", "forget_choices", "minmax", "select_hash"]

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


def _narrowed(x: HF, src: str, dst: str) -> tuple[Any, HF] | None:
    """Lanes of dst-typed x that are a widened src (or a known value that one could be), and it."""
    h = x[0]
    lanes: Any = False
    inner: HF = x
    opened = pop_forms(x, f"wide {src} {dst}")
    if opened:
        _, lanes, inner = opened[0]
    known = known_lanes(x)
    if known is not False and np.any(known):
        small = fold_lanes("fcvt", Conv(dst, src, "rn"), [x], known)
        back = None if small is None else fold_lanes("fcvt", Conv(src, dst), [small], True)
        if small is not None and back is not None:
            exact = known & (back[0][1] == h[1])
            inner = choose(exact, small, inner)
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
    """min or max as the set of what it picks from; of widened values: on the narrow ones.

    Nothing is rounded, whatever the mode says.
    """
    mode = replace(mode, rnd="rn")
    out = _minmax(name, mode, a, b)
    if mode.xorsign_abs or mode.relu or mode.saturate:
        return out
    if mode.denorm == "keep":
        out = _zeros_outside(name, mode, a, b, out)
    for lanes, src, x, y in _narrow_pairs(a, b, mode.type):
        if mode.denorm == "keep" or src == "f16":
            narrow = minmax(name, FloatMode(src, nan=mode.nan), x, y)
            out = choose(lanes, convert(Conv(src, "f32"), narrow), out)
    return out


def _zeros_outside(name: str, mode: FloatMode, a: HF, b: HF, out: HF) -> HF:
    """max(N(x), N(y)) = N(max(x, y)), also where one side is never -0."""
    (x, in_a), (y, in_b) = strip_plus_zero(a), strip_plus_zero(b)
    if in_a is False and in_b is False:
        return out
    width = FLOAT_BITS[mode.type]
    lanes = np.asarray(in_a | in_b)
    for one, strip in ((a, in_a), (b, in_b)):
        lanes = lanes & (strip | (np.asarray(may_be_minus_zero(one, width)) == 0))
    if not some(lanes):
        return out
    inner = minmax(name, mode, choose(lanes, x, a), choose(lanes, y, b))
    return choose(lanes, plus_zero(inner, lanes, width), out)


def _minmax(name: str, mode: FloatMode, a: HF, b: HF) -> HF:
    """The set of what it picks from; known bits in the set are kept apart."""
    opkey = f"{name} {mode_key(mode)}"
    if mode.xorsign_abs or mode.relu or mode.saturate:
        return symmetric(key(opkey), a[0], b[0]), poison(a[1], b[1]) | MNZ
    sum_a, const_a = _elements(opkey, a)
    sum_b, const_b = _elements(opkey, b)
    same_sum = sum_a == sum_b
    same_sum = same_sum[0] & same_sum[1]
    total = np.where(same_sum, sum_a, sum_a + sum_b)
    facts: Facts = poison(a[1], b[1]) | ((a[1] | b[1]) & MNZ)
    if mode.type in FLOAT_BITS:
        width = FLOAT_BITS[mode.type]
        facts = (facts & NOT_MNZ) | may_be_minus_zero(a, width) | may_be_minus_zero(b, width)
    out = _make_set(name, mode, opkey, total, [*const_a, *const_b], facts)
    if mode.denorm != "keep" and not (mode.type in FLOAT_BITS and never_subnormal(
            a, FLOAT_BITS[mode.type]) and never_subnormal(b, FLOAT_BITS[mode.type])):
        return out  # max.ftz(x, x) is x flushed
    same = a[0] == b[0]
    same = same[0] & same[1]
    if some(same):
        out = choose(same, (a[0], a[1] | poison(b[1])), out)
    if mode.nan == "nan" and mode.type in EXPONENTS:
        man, exp = EXPONENTS[mode.type]
        worst = ((1 << exp) - 1) << man
        if name.startswith("fmax"):
            worst |= 1 << (man + exp)
        for one, other in ((a, b), (b, a)):
            hit = is_const(one, worst)
            if hit is not False:
                out = choose(hit, other, out)
    return out


def _elements(opkey: str, x: HF) -> tuple[U64, list[tuple[Any, int]]]:
    """Sum of the set's element hashes, and (lanes, bits) of each known member."""
    h = x[0]
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
    kinds: list[tuple[NDArray[np.bool_], list[int]]] = [(np.ones((1, 1), dtype=bool), [])]
    for value in sorted({v for _, v in consts}):
        has = np.any(np.stack(np.broadcast_arrays(*(w for w, v in consts if v == value))), axis=0)
        parts = [(which & there, [*members, *more]) for which, members in kinds
                 for there, more in ((has, [value]), (~has, []))]
        kinds = [part for part in parts if some(part[0])]
    out: HF | None = None
    for which, members in kinds:
        while len(members) > 1:
            folded = fold_scalar(name, mode, (members[0], members[1]))
            if folded is None:
                break
            members[:2] = [folded]
        outer = f"set {opkey} |" + " ".join(f"{v:x}" for v in members)
        one = push_form((total, 0), outer, facts)
        out = one if out is None else choose(which, one, out)
    assert out is not None
    return out


def compare(cmp: Compare, a: HF, b: HF, integer: bool) -> HF:
    """A comparison in its base form: less-than or equal, swapped and negated."""
    base, swap, neg = (_INT_BASE if integer else _BASE)[cmp.cond]
    if swap:
        a, b = b, a
    if base == "nan":  # of x, -x and |x| all or none are NaN
        width = FLOAT_BITS[cmp.type]
        a, b = magnitude(a, width), magnitude(b, width)
        a, b = _unless_number(cmp.type, b, a), _unless_number(cmp.type, a, b)
    if base in ("lt", "ltu") and not integer:
        beyond = _beyond_infinity(cmp.type, a, b)
        if beyond is not False:
            left = const_hash(np.full((1, 1), neg, dtype=np.uint64)), CONC
            if base == "ltu":
                unordered = replace(cmp, cond="num" if neg else "nan")
                left = compare(unordered, a, b, integer)
            return choose(beyond, left, _compared(cmp, base, neg, a, b, integer))
    return _compared(cmp, base, neg, a, b, integer)


def _beyond_infinity(type_name: str, a: HF, b: HF) -> Any:
    """Lanes that ask whether a value is less than -inf, or +inf less than it: False or a mask."""
    if type_name not in EXPONENTS:
        return False
    man, exp = EXPONENTS[type_name]
    infinity = ((1 << exp) - 1) << man
    return is_const(a, infinity) | is_const(b, infinity | 1 << (man + exp))


def _compared(cmp: Compare, base: str, neg: bool, a: HF, b: HF, integer: bool) -> HF:
    """A comparison in its base form of operands in their order."""
    if integer and base == "lt" and cmp.type[0] == "s":
        whole = _base_compare(cmp, base, neg, a, b, integer)
        width = int(cmp.type[1:])
        clear = np.asarray(top_clear(a, width) & top_clear(b, width)) != 0
        if not some(clear):
            return whole
        part = _base_compare(replace(cmp, type=f"u{width}"), base, neg, a, b, integer)
        return choose(clear, part, whole)
    if not integer and cmp.denorm == "keep":
        for lanes, src, x, y in _narrow_pairs(a, b, cmp.type):
            a = choose(lanes, x, a)
            b = choose(lanes, y, b)
            if not np.all(lanes):
                whole = _base_compare(cmp, base, neg, a, b, integer)
                part = _base_compare(Compare(cmp.cond, src), base, neg, a, b, integer)
                return choose(lanes, part, whole)
            cmp = Compare(cmp.cond, src)
            break
    return _base_compare(cmp, base, neg, a, b, integer)


def _unless_number(type_name: str, x: HF, other: HF) -> HF:
    """`other`, or x where `other` is a known number: whether one of them is NaN is up to x."""
    known = known_lanes(other)
    if known is False or type_name not in EXPONENTS:
        return other
    man, exp = EXPONENTS[type_name]
    size = other[0][1] & np.uint64((1 << (man + exp)) - 1)
    return choose(known & (size <= np.uint64(((1 << exp) - 1) << man)), x, other)


def _base_compare(cmp: Compare, base: str, neg: bool, a: HF, b: HF, integer: bool) -> HF:
    kind = cmp.type if not (integer and base == "eq") else "b" + cmp.type[1:]
    k = key(f"cmp {base} {kind} {cmp.denorm}")
    h = symmetric(k, a[0], b[0]) if base in ("eq", "equ", "nan") else combine(k, a[0], b[0])
    return (flip(h) if neg else h), poison(a[1], b[1])


def select_hash(c: HF, x: HF, y: HF, width: int) -> HF:
    """c ? x : y where c is not known in some lane."""
    out = _select_hash(c, x, y, width)
    if width == 32:
        for lanes, src, nx, ny in _narrow_pairs(x, y, "f32"):
            narrow = _select_hash(c, nx, ny, 16)
            out = choose(lanes, convert(Conv(src, "f32"), narrow), out)
    for type_name in _FLOATS.get(width, ()):
        out = _extremum(type_name, c, x, y, out)
    return out


_FLOATS = {32: ("f32",), 16: ("bf16", "f16")}
_EXTREMA = {"gt": "fmax", "lt": "fmin"}
# by type and test: choices t(x) ? x : y, as x, y, facts of y
_TESTED = {(t, test): Ledger(5) for t in ("f32", "bf16", "f16") for test in ("nan", *_EXTREMA)}


def forget_choices() -> None:
    """Start a replay with nothing remembered."""
    for ledger in _TESTED.values():
        ledger.clear()


def _extremum(type_name: str, c: HF, x: HF, y: HF, out: HF) -> HF:
    """c ? x : y where it completes max.NaN or min.NaN of this type, else `out`.

    The two tests are `x > b` (or `x < b`) and `x is NaN`, one of them in the choice y. Of a +0 and
    a -0 such a choice keeps the second: it must not be a -0 that a maximum would not keep.
    """
    is_nan = _equal(c, _tested("nan", type_name, x, x))
    width, result = FLOAT_BITS[type_name], out
    for cond, name in _EXTREMA.items():
        for inner in ("nan", cond):
            if inner == cond and not some(is_nan):
                continue
            found = _TESTED[type_name, inner].find(y[0])
            if found is None:
                continue
            known, rows = found
            b: HF = (rows[2:4], rows[4].astype(np.uint32))
            lanes = known & (rows[0:2] == x[0]).all(axis=0) & (
                is_nan if inner == cond else _equal(c, _tested(cond, type_name, x, b)))
            lanes = lanes & (np.asarray(may_be_minus_zero(
                b if name == "fmax" else x, width)) == 0)
            if some(lanes):
                h, f = minmax(name, FloatMode(type_name, nan="nan"), x, b)
                result = choose(lanes, (h, f | poison(c[1], x[1], y[1])), result)
        hit = _equal(c, _tested(cond, type_name, x, y))
        if some(hit):
            _TESTED[type_name, cond].record(out[0], [*x[0], *y[0], y[1]], hit)
    if some(is_nan):
        _TESTED[type_name, "nan"].record(out[0], [*x[0], *y[0], y[1]], is_nan)
    return result


def _tested(cond: str, type_name: str, a: HF, b: HF) -> HF:
    return compare(Compare(cond, type_name), a, b, integer=False)


def _equal(a: HF, b: HF) -> NDArray[np.bool_]:
    """Lanes with one hash."""
    return np.asarray((a[0] == b[0]).all(axis=0))


def _select_hash(c: HF, x: HF, y: HF, width: int) -> HF:
    rep, neg = representative(c[0])
    first, second = np.where(neg, y[0], x[0]), np.where(neg, x[0], y[0])
    h = combine_all(key(f"select {width}"), [rep, first, second])
    facts: Facts = poison(c[1], x[1], y[1]) | ((x[1] | y[1]) & MNZ)
    facts = facts | (top_clear(x, width) & top_clear(y, width))
    if known_lanes(x) is not False or known_lanes(y) is not False:
        facts = facts | MNZ
    out: HF = (h, facts)
    same = x[0] == y[0]
    same = same[0] & same[1]
    if some(same):
        out = choose(same, (x[0], x[1] | poison(y[1])), out)
    known = known_lanes(c)
    if known is not False:
        truth = known & (c[0][1] != 0)
        out = choose(truth, x, out)
        out = choose(known & ~truth, y, out)
    return out
