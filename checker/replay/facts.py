"""Facts of values and the invertible constructors (forms) that hashes are wrapped in.

In: (hash array, facts). Out: which lanes are undefined, known bits, never -0, of which form. Facts
are an int where uniform, else an array over lanes; a form's number holds the whole stack of
constructors, of which a hash shows only the outermost. Properties that are asked for often are
remembered for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.replay.hashing import U64, key

__all__ = [
    "CLEAR", "CONC", "EXCH", "FORM_SHIFT", "Facts", "HF", "KEPT", "LOW", "MNZ", "Mask", "NEGINF",
    "NONNEG", "NOSUB", "NULL", "OPQ", "PENDING", "POISON", "UNDEF", "WIDE_BF16",
    "conc_mask", "consts_of", "facts_where", "forget", "form_id", "form_inner", "form_key",
    "form_name", "forms_in", "has_forms", "known_lanes", "kinds", "memo", "pop_forms",
    "push_form", "seen", "settled", "top_clear",
]

Mask = NDArray[np.bool_]
Facts = Any  # an int where uniform, else NDArray[np.uint32] of lane shape

UNDEF, OPQ, CONC, MNZ, NOSUB, PENDING, EXCH = 1, 2, 4, 8, 16, 32, 64
NONNEG = 256  # the sign bit is clear, a NaN aside
NULL = 512  # a zero of either sign, or a NaN
NEGINF = 1024  # minus infinity or a NaN
CLEAR = 2048  # the top bit is clear, whatever the bits mean
POISON = UNDEF | OPQ | PENDING | EXCH  # what every result inherits
KEPT = NULL | NEGINF  # what an exact widening, its inverse and an added zero keep
LOW = 0xFFF
FORM_SHIFT = 12



def conc_mask(f: Facts) -> Any:
    """Lanes whose bits are known: bool or mask."""
    return bool(f & CONC) if isinstance(f, int) else (f & CONC) != 0


HF = tuple[U64, Facts]


def top_clear(x: HF, width: int) -> Facts:
    """The CLEAR fact with known lanes looked at."""
    h, f = x
    known = conc_mask(f)
    if not np.any(known) or width > 64:
        return f & CLEAR
    clear = (h[1] >> np.uint64(width - 1)) == 0
    if known is True and (every(clear) or not some(clear)):
        return CLEAR if clear.flat[0] else 0
    fact = np.uint32(CLEAR)
    return np.where(known, np.where(clear, fact, np.uint32(0)), np.asarray(f & CLEAR, np.uint32))


_FORMS: list[tuple[str, int]] = [("", 0)]
_FORM_IDS: dict[tuple[str, int], int] = {("", 0): 0}


def form_id(outer: str, inner: int = 0) -> int:
    """The number of a constructor over a value of another form (numbers stay in the process)."""
    found = _FORM_IDS.get((outer, inner))
    if found is None:
        found = _FORM_IDS[outer, inner] = len(_FORMS)
        _FORMS.append((outer, inner))
    return found


def form_name(form: int) -> str:
    """The outermost constructor's name."""
    return _FORMS[form][0]


def form_inner(form: int) -> int:
    """The form of what the outermost constructor wraps."""
    return _FORMS[form][1]


def form_key(outer: str) -> U64:
    """What the constructor adds to its child's hash, shape (2, 1, 1)."""
    return key("form " + outer)


def push_form(x: HF, outer: str, low: Facts) -> HF:
    """Wrap in an invertible constructor; `low` are the result's other facts."""
    h, f = x
    if isinstance(f, int):
        return h + form_key(outer), low | form_id(outer, f >> FORM_SHIFT) << FORM_SHIFT
    inner = f >> FORM_SHIFT
    bits = np.zeros(f.shape, dtype=np.uint32)
    for one in forms_in(f):
        bits[inner == one] = form_id(outer, one) << FORM_SHIFT
    return h + form_key(outer), low | bits


def pop_forms(x: HF, prefix: str) -> list[tuple[str, Mask, HF]]:
    """For each constructor whose name starts so: its name, its lanes, what it wraps there."""
    h, f = x
    out: list[tuple[str, Mask, HF]] = []
    found = _with_prefix(forms_in(f), prefix) if has_forms(f) else {}
    for outer, forms in found.items():
        low = f & (POISON | MNZ | KEPT | (NONNEG if outer.startswith("wide ") else 0))
        if isinstance(f, int):
            inner: Facts = low | _FORMS[forms[0]][1] << FORM_SHIFT
            out.append((outer, np.ones((1, 1), dtype=bool), (h - form_key(outer), inner)))
            continue
        which = f >> FORM_SHIFT
        lanes = np.zeros(f.shape, dtype=bool)
        inner = low.copy()
        for form in forms:
            here = which == form
            lanes |= here
            inner[here] |= np.uint32(_FORMS[form][1] << FORM_SHIFT)
        out.append((outer, lanes, (h - form_key(outer), inner)))
    return out


@lru_cache(maxsize=1024)
def _with_prefix(forms: tuple[int, ...], prefix: str) -> dict[str, list[int]]:
    """Those of some forms whose outermost constructor's name starts so, by that name."""
    found: dict[str, list[int]] = {}
    for form in forms:
        if form and _FORMS[form][0].startswith(prefix):
            found.setdefault(_FORMS[form][0], []).append(form)
    return found


WIDE_BF16 = "wide bf16 f32"


def forms_in(f: Facts) -> tuple[int, ...]:
    """The forms that occur among the lanes, 0 (none) included."""
    return (f >> FORM_SHIFT,) if isinstance(f, int) else _kinds(f).forms


def kinds(f: NDArray[np.uint32]) -> list[int]:
    """The different facts among the lanes; few, as a rule."""
    return _kinds(f).found


class _Kinds(NamedTuple):
    """What occurs among the lanes of some facts: each of them, their forms, all bits in one."""

    of: NDArray[np.uint32]
    found: list[int]
    forms: tuple[int, ...]
    seen: int


def _kinds(f: NDArray[np.uint32]) -> _Kinds:
    hit = _KINDS.get(id(f))
    if hit is not None and hit.of is f:
        return hit
    left, found, seen = f.reshape(-1), list[int](), 0
    while left.size:
        if len(found) == 8:
            found += np.unique(left).tolist()
            break
        found.append(int(left[0]))
        left = left[left != left[0]]
    for one in found:
        seen |= one
    if len(_KINDS) > 600:
        _KINDS.clear()
    forms = tuple(sorted({x >> FORM_SHIFT for x in found}))
    out = _KINDS[id(f)] = _Kinds(f, found, forms, seen)
    return out


_KINDS: dict[int, _Kinds] = {}


def has_forms(f: Facts) -> bool:
    """Whether some lane has a form."""
    return seen(f) > LOW


def seen(f: Facts) -> int:
    """The facts that some lane has, all in one; above LOW where some lane has a form."""
    return f if isinstance(f, int) else _kinds(f).seen


def settled(f: Facts) -> Facts:
    """Facts as an int where all lanes have the same."""
    if isinstance(f, int):
        return f
    found = kinds(f)
    return found[0] if len(found) == 1 else f


_MEMO: dict[tuple[str, int, int], tuple[Any, Any, Any]] = {}


def memo(kind: str, x: Any, make: Callable[[Any], Any]) -> Any:
    """A property of (hash array, facts) that is asked for again and again: kept for a while."""
    h, f = x
    name = (kind, id(h), f if isinstance(f, int) else id(f))
    hit = _MEMO.get(name)
    if hit is not None and hit[0] is h and (hit[1] is f or isinstance(f, int)):
        return hit[2]
    value = make(x)
    if len(_MEMO) > 600:
        _MEMO.clear()
    _MEMO[name] = (h, f, value)
    return value


def forget() -> None:
    """Drop what is remembered of values: it holds under the suppositions it was made under."""
    _MEMO.clear()


def known_lanes(x: HF) -> Any:
    """Lanes whose bits are known: False, True, or a mask with both."""
    f = x[1]
    if isinstance(f, int):
        return bool(f & CONC)
    return memo("known", (f, f), lambda y: (y[1] & CONC) != 0) if seen(f) & CONC else False


def consts_of(x: HF) -> tuple[int, ...] | None:
    """The bits that known lanes hold, if they are at most eight different ones."""
    return memo("consts", x, _consts)  # type: ignore[no-any-return]


def _consts(x: HF) -> tuple[int, ...] | None:
    known = known_lanes(x)
    if known is False:
        return ()
    words = x[0][1]
    if known is not True:
        if words.shape != known.shape:
            words, known = np.broadcast_arrays(words, known)
        words = words[known]
    flat = words.reshape(-1)
    out: set[int] = set()
    while flat.size and len(out) <= 8:
        first = flat[0]
        out.add(int(first))
        other = flat != first
        flat = flat[other] if some(other) else flat[:0]
    return None if flat.size or len(out) > 8 else tuple(sorted(out))


def facts_where(mask: Mask, a: Facts, b: Facts) -> Facts:
    """Facts of a lane-wise choice."""
    if isinstance(a, int) and isinstance(b, int) and a == b:
        return a
    if mask.ndim == 0:
        return a if mask else b
    return np.where(mask, np.uint32(a) if isinstance(a, int) else a,
                    np.uint32(b) if isinstance(b, int) else b)
