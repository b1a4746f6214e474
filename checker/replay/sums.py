"""Integer sums modulo 2**w as elements of a free commutative group, hashed additively.

In: values. Out: values; sums do not depend on order, and what cancels is gone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from checker.arrays import some
from checker.replay.bitwise import partwise, shift_left
from checker.replay.facts import (
    CONC,
    FORM_SHIFT,
    MNZ,
    POISON,
    Facts,
    Mask,
    conc_mask,
    form_id,
    form_inner,
    form_key,
    form_name,
    forms_in,
    known_lanes,
    pop_forms,
)
from checker.replay.hashing import U64, combine, key
from checker.replay.intbits import signed
from checker.replay.symbolic import (
    HANDLERS,
    bounds,
    const_first,
    int_op,
    uniform,
    with_known,
)
from checker.replay.values import Hash, Pack, V, const, forget, hash_of, merge, ones, split

__all__ = [
    "bounded_form", "form", "isum", "magnitude_bound", "sum_terms",
]

_WITHIN = "within "


def form(w: int) -> str:
    return f"isum {w}"


def bounded_form(w: int, bound: int | None) -> int:
    """The form of a sum whose true value stays within +-bound (None: it may wrap)."""
    fits = bound is not None and bound < 1 << (w - 1)
    return form_id(form(w), form_id(f"{_WITHIN}{bound}") if fits else 0)


def magnitude_bound(w: int, h: U64, f: Facts) -> int | None:
    """How far from zero a signed value may be in any lane, None where that is not known."""
    found = 0
    known = known_lanes((h, f))
    if known is not False:
        words = np.abs(signed(h[1], w))
        found = int((words if known is True else np.where(known, words, 0)).max())
    for number in forms_in(f):
        inner = form_inner(number)
        if form_name(number) == form(w) and form_name(inner).startswith(_WITHIN):
            found = max(found, int(form_name(inner)[len(_WITHIN):]))
        elif isinstance(f, int):
            return found if f & CONC else None
        elif some(((f & CONC) == 0) & (f >> FORM_SHIFT == number)):
            return None
    return found


def sum_terms(w: int, v: V) -> U64:
    """The value as an element of a free commutative group, hashed additively."""
    h, f = hash_of(v)
    total = combine(key(f"iterm {w}"), h)
    known = conc_mask(f)
    if known is not False:
        total = np.where(known, signed(h[1], w).view(np.uint64) * key("integer one"), total)
    for _, lanes, (inner, _f) in pop_forms((h, f), form(w)):
        total = np.where(lanes, inner, total)
    return total


def isum(w: int, terms: list[tuple[int, V]], extra: U64 | None = None) -> V:
    """Sum of +-values modulo 2**w as one hash; `extra` holds further terms, already hashed."""
    total: Any = np.zeros((2, 1, 1), dtype=np.uint64) if extra is None else extra
    f: Facts = MNZ | form_id(form(w)) << FORM_SHIFT
    known: Any = extra is None
    for sign, v in terms:
        one = sum_terms(w, v)
        total = total + one if sign > 0 else total - one
        vf = hash_of(v)[1]
        f = f | (vf & POISON)
        known = known & np.asarray(conc_mask(vf))
    out = Hash(total + form_key(form(w)), f, w)
    if np.any(known):
        bits = np.zeros((1, 1), dtype=np.uint64)
        for sign, v in terms:
            word = hash_of(v)[0][1]
            bits = bits + word if sign > 0 else bits - word
        out = with_known(out, known, bits & np.uint64(ones(w)))
    return out


def _iadd(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b = values
    for one, other in ((a, b), (b, a)):
        if uniform(one, mask) == 0:
            return other
    if _disjoint(a, b, mask):
        return partwise("ior", a, b, mask)
    zero = _zero_lanes_add(a, b)
    total: V = isum(w, [(1, a), (1, b)])
    for lanes, other in zero:
        total = merge(lanes, other, total)
    if isinstance(total, Hash):
        total.made = ("iadd", w, a, b)
        forget(total.made)
    return total


def _zero_lanes_add(a: V, b: V) -> list[tuple[Any, V]]:
    out = []
    for one, other in ((a, b), (b, a)):
        h, f = hash_of(one)
        known = conc_mask(f)
        if known is not False:
            zero = np.asarray(known & (h[1] == 0))
            if some(zero):
                out.append((zero, other))
    return out


def _disjoint(a: V, b: V, mask: Mask | None) -> bool:
    """Whether no bit can be set in both (then a sum is an or)."""
    if not (isinstance(a, Pack) or isinstance(b, Pack)):
        return False
    cuts = sorted({*bounds(a), *bounds(b)})
    for lo, hi in pairwise(cuts):
        if uniform(split(a, lo, hi - lo), mask) != 0 and uniform(split(b, lo, hi - lo),
                                                                  mask) != 0:
            return False
    return True


def _isub(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b = values
    return a if uniform(b, mask) == 0 else isum(w, [(1, a), (-1, b)])


def _ineg(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    return isum(w, [(-1, values[0])])


def _imul(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    a, b = const_first(values, mask)
    k = uniform(b, mask)
    if k is None:
        return None
    if k == 0:
        return const(0, w)
    if k & (k - 1) == 0:
        return shift_left(w, [a, const(k.bit_length() - 1, 32)], mask, w)
    return None


def _popc(attr: Any, values: list[V], mask: Mask | None, w: int) -> V | None:
    """Ones are counted part by part, those of a bit by the bit itself: a vote's are a sum."""
    v = values[0]
    if not isinstance(v, Pack):
        return None
    counts = [int_op("zext", (1, 32), [part], mask, 32) if part.w == 1
              else int_op("popc", part.w, [part], mask, 32) for part in v.parts]
    others = [~np.asarray(_known_to_be(0, c)) for c in counts]
    alone = np.asarray(sum(s.astype(np.int64) for s in others) == 1)
    total: V = isum(32, [(1, c) for c in counts])
    if some(alone):  # a sum of one is no sum
        for count, here in zip(counts, others, strict=True):
            total = merge(alone & here, count, total)
    return total


def _known_to_be(bits: int, v: V) -> Any:
    """Lanes in which a value is known to be this word."""
    h, f = hash_of(v)
    return conc_mask(f) & (h[1] == np.uint64(bits))


HANDLERS.update({
    "popc": _popc,
    "iadd": _iadd,
    "isub": _isub,
    "ineg": _ineg,
    "imul": _imul,
})
