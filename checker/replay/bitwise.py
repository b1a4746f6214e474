"""Bitwise operations, shifts and fields: what only moves bits becomes slices and packs.

In: values. Out: values, or None where nothing is known (then the operation stays opaque). Sign-bit
operations are float negation and magnitude; zeros in one operand leave the other alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from checker.arrays import every, some
from checker.replay import identities as ids
from checker.replay.facts import CONC, MNZ, POISON, Mask, conc_mask, facts_where
from checker.replay.hashing import combine, flip, key, symmetric
from checker.replay.intbits import BITS, prmt_index
from checker.replay.ledger import Ledger
from checker.replay.symbolic import (
    HANDLERS,
    bounds,
    const_first,
    each,
    int_op,
    opaque,
    select,
    tainted,
    uniform,
    with_known,
)
from checker.replay.values import (
    Conc,
    Hash,
    Pack,
    V,
    bits_of,
    const,
    hash_of,
    make_pack,
    merge,
    ones,
    split,
)

__all__ = ["XORS", "partwise", "shift_left"]


def _runs(bits: int, width: int) -> list[tuple[int, int, int]]:
    """Runs (lo, length, bit) of equal bits."""
    out: list[tuple[int, int, int]] = []
    for i in range(width):
        bit = bits >> i & 1
        if out and out[-1][2] == bit:
            out[-1] = (out[-1][0], out[-1][1] + 1, bit)
        else:
            out.append((i, 1, bit))
    return out


def _and(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b = const_first(values, mask)
    if w == 1:
        return _pred_logic("pand", a, b)

    def make(bits: int) -> V | None:
        if not isinstance(a, Pack) and bits == ones(w - 1) and w in (16, 32, 64):
            h, f = ids.magnitude(hash_of(a), w)
            return Hash(h, f, w)
        if isinstance(a, Pack):
            return partwise("iand", a, const(bits, w), mask)
        runs = _runs(bits, w)
        if len(runs) > 6:
            return None
        return make_pack([split(a, lo, n) if bit else const(0, n) for lo, n, bit in runs])

    return each(b, mask, make) if bits_of(b, mask) is not None else _both_parts(
        "iand", a, b, mask)


def _or(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b = const_first(values, mask)
    if w == 1:
        return _pred_logic("por", a, b)

    def make(bits: int) -> V | None:
        if isinstance(a, Pack):
            return partwise("ior", a, const(bits, w), mask)
        runs = _runs(bits, w)
        if len(runs) > 6:
            return None
        return make_pack([const(ones(n), n) if bit else split(a, lo, n) for lo, n, bit in runs])

    return each(b, mask, make) if bits_of(b, mask) is not None else _both_parts("ior", a, b, mask)


def _xor(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b = const_first(values, mask)
    if w == 1:
        return _pred_logic("pxor", a, b)

    def make(bits: int) -> V | None:
        if bits == 0:
            return a
        if isinstance(a, Pack):
            return partwise("ixor", a, const(bits, w), mask)
        if bits == 1 << (w - 1):
            h, f = ids.negate(hash_of(a), w)
            return Hash(h, f, w)
        return None

    if bits_of(b, mask) is not None:
        return each(b, mask, make)
    found = _xor_select(a, b, mask) or _xor_select(b, a, mask)
    if found is not None:
        return found
    if isinstance(a, Pack) or isinstance(b, Pack):
        return partwise("ixor", a, b, mask)
    return _xor_pair(a, b, w)


XORS = Ledger(6)  # of x ^ y: the hashes and facts of both


def _xor_pair(a: V, b: V, w: int) -> V:
    """x ^ (x ^ y) = y, however x ^ y came here."""
    (ha, fa), (hb, fb) = hash_of(a), hash_of(b)
    out = opaque("ixor", w, [a, b], w)
    assert isinstance(out, Hash)
    XORS.record(out.h, [ha[0], ha[1], fa, hb[0], hb[1], fb], True)
    answer: V = out
    poison = (fa | fb) & POISON
    for hx, hy in ((ha, hb), (hb, ha)):
        found = XORS.find(hx)
        if found is None:
            continue
        lanes, rows = found
        for mine, other in ((rows[:3], rows[3:]), (rows[3:], rows[:3])):
            same = lanes & (mine[:2] == hy).all(axis=0)
            if some(same):
                f = other[2].astype(np.uint32) & ~np.uint32(POISON) | poison
                answer = merge(same, Hash(other[:2], f, w), answer)
    return _zero_lanes("ixor", a, b, answer) or answer


def _same(a: V, b: V) -> bool:
    if a is b:
        return True
    (ha, _), (hb, _) = hash_of(a), hash_of(b)
    return every(ha == hb)


def _xor_select(x: V, s: V, mask: Mask | None) -> V | None:
    """x ^ select(c, x ^ y, 0) = select(c, y, x); likewise y ^ (m & (x ^ y)) with a mask m; and
    x ^ (x ^ y) = y."""
    if not isinstance(s, Hash) or s.made is None:
        return None
    made = s.made
    if made[0] == "ixor":
        for one, other in ((made[2], made[3]), (made[3], made[2])):
            if _same(one, x):
                return tainted(other, hash_of(x)[1] | hash_of(s)[1])
    if made[0] == "select":
        _, c, t, e = made
        if uniform(e, mask) == 0 or uniform(t, mask) == 0:
            return select(c, int_op("ixor", x.w, [x, t], mask, x.w),
                          int_op("ixor", x.w, [x, e], mask, x.w), mask)
    if made[0] == "iand":
        for m, inner in ((made[2], made[3]), (made[3], made[2])):
            if isinstance(m, Hash) and m.made is not None and m.made[0] == "select":
                _, c, t, e = m.made
                flat = select(c, int_op("iand", x.w, [inner, t], mask, x.w),
                              int_op("iand", x.w, [inner, e], mask, x.w), mask)
                return _xor_select(x, flat, mask)
    return None


def partwise(name: str, a: V, b: V, mask: Mask | None) -> V | None:
    """A bitwise operation part by part."""
    cuts = sorted({*bounds(a), *bounds(b)})
    parts = []
    for lo, hi in pairwise(cuts):
        x, y = split(a, lo, hi - lo), split(b, lo, hi - lo)
        if hi - lo == 1:
            x, y = _bit_as_pred(x), _bit_as_pred(y)
        parts.append(int_op(name, hi - lo, [x, y], mask, hi - lo))
    return make_pack(parts)


def _bit_as_pred(v: V) -> V:
    return Conc(v.bits != 0, 1, v.defined) if isinstance(v, Conc) else v


def _both_parts(name: str, a: V, b: V, mask: Mask | None) -> V | None:
    """Two unknown operands: zeros in one leave the other's bits alone."""
    if not (isinstance(a, Pack) or isinstance(b, Pack)):
        return _zero_lanes(name, a, b)
    return partwise(name, a, b, mask)


def _zero_lanes(name: str, a: V, b: V, base: V | None = None) -> V | None:
    """or/xor/add where one side is zero in some lanes; elsewhere `base`, else opaque."""
    if name not in ("ior", "ixor", "iadd"):
        return None
    out: V | None = None
    for one, other in ((a, b), (b, a)):
        h, f = hash_of(one)
        known = conc_mask(f)
        if known is False:
            continue
        zero = np.asarray(known & (h[1] == 0))
        if some(zero):
            out = merge(zero, other, out or base or opaque(name, a.w, [a, b], a.w))
    return out


def _pred_logic(name: str, a: V, b: V) -> V:
    """Predicate logic with unknown operands."""
    (ha, fa), (hb, fb) = hash_of(a), hash_of(b)
    if name == "pxor":
        (ra, na), (rb, nb) = ids.representative(ha), ids.representative(hb)
        h = symmetric(key("pxor"), ra, rb)
        h = np.where(na ^ nb, flip(h), h)
    else:
        h = symmetric(key(name), ha, hb)
    out: ids.HF = (h, (fa | fb) & POISON)
    same = (ha == hb).all(axis=0)
    if name != "pxor" and some(same):
        out = np.where(same, ha, out[0]), facts_where(same, fa | (fb & POISON), out[1])
    for (hx, fx), (ho, fo) in (((ha, fa), (hb, fb)), ((hb, fb), (ha, fa))):
        known = conc_mask(fx)
        if known is False:
            continue
        true, false = known & (hx[1] != 0), known & (hx[1] == 0)
        neutral, other = (true, false) if name == "pand" else (false, true)
        out = np.where(neutral, ho, out[0]), facts_where(np.asarray(neutral), fo, out[1])
        if name == "pxor":
            nh, nf = ids.negate((ho, fo), 1)
            out = np.where(other, nh, out[0]), facts_where(np.asarray(other), nf, out[1])
        else:
            out = np.where(other, hx, out[0]), facts_where(np.asarray(other), CONC, out[1])
    return Hash(out[0], out[1], 1)


def _not(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    if w == 1:
        h, f = ids.negate(hash_of(values[0]), 1)
        return Hash(h, f, 1)
    return int_op("ixor", w, [values[0], const(ones(w), w)], mask, w) if isinstance(
        values[0], Pack) else None


def _lop3(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    """Common tables as and/or/xor of two or three; others stay opaque."""
    a, b, c = values
    two = {0xC0: ("iand", a, b), 0xFC: ("ior", a, b), 0x3C: ("ixor", a, b),
           0x88: ("iand", b, c), 0xEE: ("ior", b, c), 0x66: ("ixor", b, c)}
    if attr in two:
        name, x, y = two[attr]
        return int_op(name, 32, [x, y], mask, 32)
    three = {0x80: ("iand", "iand"), 0xFE: ("ior", "ior"), 0x96: ("ixor", "ixor"),
             0xEA: ("iand", "ior"), 0x6A: ("iand", "ixor"), 0xF8: ("", ""), 0xA8: ("ior", "iand")}
    if attr == 0xF8:
        return int_op("ior", 32, [a, int_op("iand", 32, [b, c], mask, 32)], mask, 32)
    if attr in three:
        first, second = three[attr]
        return int_op(second, 32, [int_op(first, 32, [a, b], mask, 32), c], mask, 32)
    return None


def shift_left(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, n = values

    def make(k: int) -> V | None:
        if k == 0:
            return a
        return const(0, w) if k >= w else make_pack([const(0, k), split(a, 0, w - k)])

    return each(n, mask, make)


def _shr_u(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, n = values

    def make(k: int) -> V | None:
        if k == 0:
            return a
        return const(0, w) if k >= w else make_pack([split(a, k, w - k), const(0, k)])

    return each(n, mask, make)


def _sign_extend(v: V, w: int, mask: Mask | None) -> V:
    """The value of a narrow signed integer in w bits."""
    if v.w == w:
        return v
    bits = bits_of(v, mask)
    if bits is not None:
        return Conc(BITS["sext"](bits, (v.w, w)), w)
    if isinstance(v, Pack):
        top = v.parts[-1]
        if isinstance(top, Conc) and not some(top.bits.astype(np.uint64) >> np.uint64(top.w - 1)):
            return make_pack([v, const(0, w - v.w)])
        if isinstance(top, Hash) and top.made is not None and top.made[0] == "sign fill" and len(
                v.parts) == 2 and v.parts[0] is top.made[1]:
            return _sign_extend(v.parts[0], w, mask)
    return make_pack([v, _sign_fill(v, w - v.w)])


def _sign_fill(v: V, count: int) -> V:
    """`count` copies of a value's top bit, apart from the value itself."""
    h, f = hash_of(v)
    out = Hash(combine(key(f"sign fill {v.w} {count}"), h), (f & POISON) | MNZ, count, None,
               ("sign fill", v))
    known = np.asarray(conc_mask(f))
    if some(known):
        sign = (h[1] >> np.uint64(v.w - 1)) & np.uint64(1)
        out = with_known(out, known, np.where(sign != 0, np.uint64(ones(count)), np.uint64(0)))
    return out


def _shr_s(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, n = values
    return each(n, mask, lambda k: _sign_extend(split(a, min(k, w - 1), w - min(k, w - 1)), w,
                                                 mask))


def _bfe(is_signed: bool) -> Callable[..., V | None]:
    def run(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
        a, pos, length = values
        p, n = uniform(pos, mask), uniform(length, mask)
        if p is None or n is None:
            return None
        p, n = p & 255, n & 255
        if p >= w or n == 0:
            return const(0, w) if not is_signed or n == 0 else None
        field = split(a, p, min(n, w - p))
        if is_signed:
            return _sign_extend(field, w, mask)
        return field if field.w == w else make_pack([field, const(0, w - field.w)])

    return run


def _bfi(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    f, base, pos, length = values
    p, n = uniform(pos, mask), uniform(length, mask)
    if p is None or n is None:
        return None
    p, n = p & 255, n & 255
    if p >= w or n == 0:
        return base
    n = min(n, w - p)
    parts = [split(base, 0, p)] if p else []
    parts.append(split(f, 0, n))
    if p + n < w:
        parts.append(split(base, p + n, w - p - n))
    return make_pack(parts)


def _fshr(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    lo, hi, n = values
    k = uniform(n, mask)
    if k is None:
        return None
    k = k & 31 if attr == "wrap" else min(k, 32)
    return split(make_pack([lo, hi]), k, 32)


def _fshl(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    lo, hi, n = values
    k = uniform(n, mask)
    if k is None:
        return None
    k = k & 31 if attr == "wrap" else min(k, 32)
    return split(make_pack([lo, hi]), 32 - k, 32)


def _prmt(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b, sel = values
    both = make_pack([a, b])

    def make(selector: int) -> V | None:
        parts: list[V] = []
        for i in range(4):
            which = int(prmt_index(np.array([[selector]], dtype=np.uint64), attr, i)[0, 0])
            byte = split(both, 8 * (which & 7), 8)
            if which & 8:
                byte = split(_sign_extend(split(byte, 7, 1), 8, mask), 0, 8)
            parts.append(byte)
        return make_pack(parts)

    return each(sel, mask, make)


def _zext(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a = values[0]
    return a if a.w == w else make_pack([a, const(0, w - a.w)])


def _sext(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    return _sign_extend(values[0], w, mask)


HANDLERS.update({
    "iand": _and,
    "ior": _or,
    "ixor": _xor,
    "inot": _not,
    "pnot": _not,
    "lop3": _lop3,
    "pand": _and,
    "por": _or,
    "pxor": _xor,
    "shl": shift_left,
    "shr_u": _shr_u,
    "shr_s": _shr_s,
    "bfe_u": _bfe(False),
    "bfe_s": _bfe(True),
    "bfi": _bfi,
    "fshl": _fshl,
    "fshr": _fshr,
    "prmt": _prmt,
    "zext": _zext,
    "sext": _sext,
})
