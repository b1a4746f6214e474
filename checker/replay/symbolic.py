"""Integer operations over values: known bits are computed, the rest goes to a table of handlers.

In: operation, attribute, values, active mask. Out: a value. `HANDLERS` holds what `bitwise` and
`sums` know; what nobody knows is a hashed function of its operands. Choices and comparisons are
here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from checker.arrays import every, some
from checker.replay import identities as ids
from checker.replay.facts import CONC, MNZ, POISON, Facts, Mask, conc_mask, facts_where, seen
from checker.replay.hashing import combine_all, const_hash, key, symmetric
from checker.replay.intbits import BITS
from checker.replay.values import (
    Conc,
    Hash,
    Pack,
    V,
    bits_of,
    const,
    hash_of,
    make_pack,
    mark,
    merge,
    ones,
    split,
)

__all__ = [
    "DIVISIONS", "HANDLERS", "Handler", "bounds", "const_first", "each", "icmp", "int_op", "opaque",
     "result_width", "select", "tainted", "uniform", "with_known",
]

Handler = Callable[..., "V | None"]
HANDLERS: dict[str, Handler] = {}  # filled by this module, `bitwise` and `sums`
DIVISIONS = frozenset({"idiv_u", "idiv_s", "irem_u", "irem_s"})
_GIVES_32 = frozenset({"popc", "clz", "bfind_u", "bfind_s", "fshl", "fshr", "lop3", "dp4a", "dp2a",
                       "prmt"})
_COMMUTE = frozenset({
    "iadd", "imul", "imulhi_u", "imulhi_s", "imulwide_u", "imulwide_s", "imin_u", "imin_s",
    "imax_u", "imax_s", "iand", "ior", "ixor", "iadd_sat"})


def result_width(name: str, attr: Any, fallback: int) -> int:
    """Width of an integer operation's result."""
    if name in _GIVES_32:
        return 32
    if name in ("icmp", "pand", "por", "pxor", "pnot", "carry", "borrow"):
        return 1
    if name in ("imulwide_u", "imulwide_s"):
        return int(attr) * 2
    if name in ("zext", "sext", "trunc"):
        return int(attr[1])
    return int(attr) if isinstance(attr, int) else fallback


def int_op(name: str, attr: Any, values: list[V], mask: Mask | None, width: int) -> V:
    """The result of an integer or predicate operation; undefined where something is over zero."""
    if name in DIVISIONS:
        zero = _known_zero(values[1])
        if zero is not False:
            safe = merge(zero, const(1, values[1].w), values[1])
            return merge(~zero, int_op(name, attr, [values[0], safe], mask, width), None)
    bits = [bits_of(v, mask) for v in values]
    if all(b is not None for b in bits):
        out = BITS[name](*bits, attr)
        return Conc(out, width)
    handler = HANDLERS.get(name)
    if handler is not None:
        found = handler(attr, values, mask, width)
        if found is not None:
            return found
    return opaque(name, attr, values, width)


def _known_zero(v: V) -> Any:
    """Lanes that are known to be zero: False or a mask."""
    h, f = hash_of(v)
    zero = np.asarray(conc_mask(f)) & (h[1] == 0)
    return zero if some(zero) else False


def opaque(name: str, attr: Any, values: list[V], width: int) -> V:
    """A hashed function of the operands, computed where they are all known."""
    operands = [hash_of(v) for v in values]
    k = key(f"{name} {attr}")
    if name in _COMMUTE:
        h = symmetric(k, operands[0][0], operands[1][0])
    else:
        h = combine_all(k, [o for o, _ in operands])
    f: Facts = MNZ if width > 1 else 0
    known: Any = True
    for _, of in operands:
        f = f | (of & POISON)
        known = known & np.asarray(conc_mask(of))
    out = Hash(h, f, width, None, (name, attr, *values))
    if np.any(known):
        words = [o[1] for o, _ in operands]
        words = [w != 0 if v.w == 1 else w for w, v in zip(words, values, strict=True)]
        out = with_known(out, known, BITS[name](*words, attr))
    return out


def with_known(out: Hash, known: Any, bits: Any) -> Hash:
    return Hash(np.where(known, const_hash(bits), out.h), facts_where(known, CONC, out.f), out.w,
                None, out.made)


def uniform(v: V, mask: Mask | None) -> int | None:
    bits = bits_of(v, mask)
    if bits is None:
        return None
    first = int(bits.flat[0])
    if bits.size == 1 or every(bits == first):
        return first
    if mask is not None:
        active = np.broadcast_to(bits, np.broadcast_shapes(bits.shape, mask.shape))[
            np.broadcast_to(mask, np.broadcast_shapes(bits.shape, mask.shape))]
        if active.size and every(active == active[0]):
            return int(active[0])
    return None


def each(v: V, mask: Mask | None, make: Callable[[int], V | None], limit: int = 16) -> V | None:
    """Specialise over the values of an operand that is known in every lane."""
    one = uniform(v, mask)
    if one is not None:
        return make(one)
    bits = bits_of(v, mask)
    if bits is None:
        return None
    out: V | None = None
    values = np.unique(bits)
    if len(values) > limit:
        return None
    for value in values:
        made = make(int(value))
        if made is None:
            return None
        out = made if out is None else merge(bits == value, made, out)
    return out


def const_first(values: list[V], mask: Mask | None) -> tuple[V, V]:
    """Operands with the one that is known in every lane last."""
    a, b = values
    return (b, a) if bits_of(a, mask) is not None else (a, b)


def bounds(v: V) -> list[int]:
    at, out = 0, [0]
    for part in v.parts if isinstance(v, Pack) else ():
        at += part.w
        out.append(at)
    return out if len(out) > 1 else [0, v.w]


def icmp(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    for one, other in (values, values[::-1]):
        bit = _bit_test(attr.cond, one, other, mask)
        if bit is not None:
            return bit
    x, y = hash_of(values[0]), hash_of(values[1])
    h, f = ids.compare(attr, x, y, integer=True)
    out = Hash(h, f, 1)
    known = np.asarray(conc_mask(x[1])) & np.asarray(conc_mask(y[1]))
    if some(known):
        out = with_known(out, known, BITS["icmp"](x[0][1], y[0][1], attr))
    return out


def _bit_test(cond: str, v: V, other: V, mask: Mask | None) -> V | None:
    """Two words that can differ in one bit only, compared: whether these bits are the same.

    Or in several bits that are one: a vote of lanes that all hold one predicate.
    """
    if cond not in ("eq", "ne") or not isinstance(v, Pack):
        return None

    def make(literal: int) -> V | None:
        return _bit_test(cond, v, const(literal, v.w), mask)

    if not isinstance(other, Pack) and uniform(other, mask) is None:
        return each(other, mask, make)
    pairs: list[tuple[V, V]] = []
    for lo, hi in pairwise(sorted({*bounds(v), *bounds(other)})):
        x, y = split(v, lo, hi - lo), split(other, lo, hi - lo)
        one, two = uniform(x, mask), uniform(y, mask)
        if one is not None and two is not None:
            if one != two:
                return const(cond == "ne", 1)
        elif hi - lo != 1 or (pairs and not all(map(_one_value, pairs[0], (x, y)))):
            return None
        else:
            pairs.append((x, y))
    if not pairs:
        return None
    differ = int_op("pxor", 1, list(pairs[0]), mask, 1)
    return differ if cond == "ne" else int_op("pnot", 1, [differ], mask, 1)


def _one_value(a: V, b: V) -> bool:
    """Tell whether two values are one in every lane, with all that is known of them."""
    (h, f), (g, e) = hash_of(a), hash_of(b)
    return h.shape == g.shape and every(h == g) and np.array_equal(f, e)


def _bit_choice(c: V, x: V, y: V, mask: Mask | None) -> V | None:
    """A choice between two literals that differ in one bit is that bit, between literals."""
    if x.w == 1 or x.w > 64:
        return None
    one, zero = uniform(x, mask), uniform(y, mask)
    if one is None or zero is None or (one ^ zero).bit_count() != 1:
        return None
    at = (one ^ zero).bit_length() - 1
    bit = c if one > zero else int_op("pnot", 1, [c], mask, 1)
    parts: list[V] = [const(one & ones(at), at)] if at else []
    parts.append(bit)
    if at + 1 < x.w:
        parts.append(const(one >> (at + 1), x.w - at - 1))
    return make_pack(parts)


def _minmax_int(name: str) -> Callable[..., V | None]:
    def run(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
        out = opaque(name, attr, values, w)
        (a, _), (b, f) = map(hash_of, values)
        same = (a == b).all(axis=0)
        return merge(same, tainted(values[0], f), out) if some(same) else out

    return run


def tainted(v: V, f: Facts) -> V:
    """A value that stands for two: what is poison in the other one (its facts f) is in it, too."""
    return mark(v, f & POISON) if seen(f) & POISON else v


def select(c: V, x: V, y: V, mask: Mask | None) -> V:
    """c ? x : y; a known condition is a lane-wise choice, an unknown one a node."""
    bits = bits_of(c, mask)
    if bits is not None:
        cond = bits if bits.dtype == np.bool_ else bits != 0
        return merge(cond, x, y)
    bit = _bit_choice(c, x, y, mask)
    if bit is not None:
        return bit
    if isinstance(x, Pack) or isinstance(y, Pack):
        cuts = sorted({*bounds(x), *bounds(y)})
        return make_pack([select(c, split(x, lo, hi - lo), split(y, lo, hi - lo), mask)
                          for lo, hi in pairwise(cuts)])
    h, f = ids.select_hash(hash_of(c), hash_of(x), hash_of(y), x.w)
    return Hash(h, f, x.w, None, ("select", c, x, y))


HANDLERS.update({
    "icmp": icmp,
    "imin_u": _minmax_int("imin_u"),
    "imin_s": _minmax_int("imin_s"),
    "imax_u": _minmax_int("imax_u"),
    "imax_s": _minmax_int("imax_s"),
})
