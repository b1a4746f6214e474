"""Register values of the replay: known bits, hashes of trees, and packs of sub-word parts.

In: arrays over lanes (blocks | 1, threads | 1). Out: `Conc`, `Hash`, `Pack` and the operations that
only move bits: split, join, merge under a mask, lane maps. Unrelated halves are never joined before
something needs the whole, and what was cut from one value comes together again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.replay.facts import (
    CONC,
    HF,
    MNZ,
    POISON,
    UNDEF,
    WIDE_BF16,
    Facts,
    Mask,
    conc_mask,
    facts_where,
    has_forms,
    pop_forms,
    push_form,
    seen,
    top_clear,
)
from checker.replay.hashing import (
    TAG,
    U64,
    UNDEF_TAG,
    combine_all,
    const_hash,
    extract_offset,
    key,
)
from checker.replay.ledger import Ledger

__all__ = [
    "WHOLES", "Conc", "Hash", "Pack", "V", "bits_of", "const", "forget", "hash_of", "lane_hash",
    "make_pack", "map_lanes", "mark", "merge", "ones", "pred_bits", "resize",
    "split", "undefined",
]

@dataclass(slots=True)
class Conc:
    """Known bits in every lane (in the lanes of `defined`, where that is given)."""

    bits: NDArray[Any]  # uint64, or bool where w == 1
    w: int
    defined: Mask | None = None
    hashed: Any = None  # its hash and facts, made when first asked for


@dataclass(slots=True)
class Hash:
    """128-bit tree hashes (2, b, t) and facts.

    `src` is (value, lo) if this is a slice of it; `made` is the integer operation that made it, for
    idioms (hints: the hash alone decides what a value is).
    """

    h: U64
    f: Facts
    w: int
    src: tuple[V, int] | None = None
    made: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.made is not None:
            forget(self.made)
        if type(self.f) is not int and np.ndim(self.f) == 0:
            self.f = int(self.f)


def forget(made: tuple[Any, ...]) -> None:
    """Cut the history of a value behind its third operation: a loop must not keep all of it."""
    for first in made:
        for second in (first.made or ()) if isinstance(first, Hash) else ():
            for third in (second.made or ()) if isinstance(second, Hash) else ():
                if isinstance(third, Hash):
                    third.made = None


@dataclass(slots=True)
class Pack:
    """Parts joined, lowest first; never fewer than two, never nested."""

    parts: tuple[V, ...]
    w: int
    joined: Hash | Conc | None = None


V = Conc | Hash | Pack

WHOLES = Ledger(1)  # facts of values that were cut, by their hash: for when the parts meet again


def _remember_whole(v: Hash) -> None:
    telling = np.asarray((v.f ^ MNZ) & ~np.uint32(POISON | CONC)) != 0
    if some(telling):
        WHOLES.record(v.h, [v.f & ~np.uint32(POISON)], telling & (np.asarray(v.f & CONC) == 0))


# --- constants ---------------------------------------------------------------------------------


def ones(width: int) -> int:
    """A mask of `width` set bits."""
    return (1 << width) - 1


def const(bits: int, width: int) -> Conc:
    """A literal in every lane."""
    if width == 1:
        return Conc(np.array([[bool(bits & 1)]]), 1)
    return Conc(np.array([[bits & ones(min(width, 64))]], dtype=np.uint64), width)


def undefined(width: int) -> Hash:
    """A value that nobody wrote."""
    h = np.empty((2, 1, 1), dtype=np.uint64)
    h[0], h[1] = UNDEF_TAG, 0
    return Hash(h, UNDEF, width)


# --- views -------------------------------------------------------------------------------------


def bits_of(v: V, mask: Mask | None) -> NDArray[Any] | None:
    """The bits if they are known in every active lane, else None."""
    if isinstance(v, Conc):
        if v.defined is None or (mask is not None and not some(mask & ~v.defined)):
            return v.bits
        if mask is None and every(v.defined):
            v.defined = None
            return v.bits
        return None
    if isinstance(v, Hash):
        if not seen(v.f) & CONC:
            return None
        if isinstance(v.f, int):
            return _as_bits(v.h[1], v.w)
        known = (v.f & CONC) != 0
        if every(known) if mask is None else not some(mask & ~known):
            return _as_bits(v.h[1], v.w)
        return None
    out: NDArray[Any] | None = None
    lo = 0
    for part in v.parts:
        bits = bits_of(part, mask)
        if bits is None:
            return None
        piece = bits.astype(np.uint64) << np.uint64(lo) if lo else bits.astype(np.uint64)
        out = piece if out is None else out | piece
        lo += part.w
    return out


def _as_bits(word: U64, width: int) -> NDArray[Any]:
    return word != 0 if width == 1 else word


def pred_bits(v: V, mask: Mask | None) -> Mask | None:
    """A predicate's truth per lane if known in every active lane."""
    bits = bits_of(v, mask)
    if bits is None:
        return None
    return bits if bits.dtype == np.bool_ else bits != 0


def hash_of(v: V) -> tuple[U64, Facts]:
    """The hash and facts of the whole value (joins a pack)."""
    if isinstance(v, Hash):
        return v.h, v.f
    if isinstance(v, Conc):
        if v.defined is None:
            if v.hashed is None:
                v.hashed = const_hash(v.bits), CONC
            return v.hashed  # type: ignore[no-any-return]
        h = const_hash(v.bits)
        shape = np.broadcast_shapes(h.shape, v.defined.shape)
        h = np.array(np.broadcast_to(h, shape))
        h[0] = np.where(v.defined, TAG, UNDEF_TAG)
        h[1] = np.where(v.defined, h[1], 0)
        return h, np.where(v.defined, np.uint32(CONC), np.uint32(UNDEF))
    if v.joined is None:
        v.joined = _join(v)
    return hash_of(v.joined)


def lane_hash(v: V) -> Hash:
    """The whole value as a `Hash`."""
    if isinstance(v, Hash):
        return v
    h, f = hash_of(v)
    return Hash(h, f, v.w)


# --- packs -------------------------------------------------------------------------------------


def make_pack(parts: list[V]) -> V:
    """Join parts lazily: flatten, merge neighbours that are slices of one value or known bits."""
    flat: list[V] = []
    for part in parts:
        for piece in part.parts if isinstance(part, Pack) else (part,):
            last = flat[-1] if flat else None
            fused = None if last is None else _fuse(last, piece)
            if fused is None:
                flat.append(piece)
            else:
                flat[-1] = fused
    if len(flat) == 1:
        return flat[0]
    return Pack(tuple(flat), sum(p.w for p in flat))


def _fuse(low: V, high: V) -> V | None:
    """Two neighbours as one value, when that is known without looking at lanes."""
    if isinstance(low, Conc) and isinstance(high, Conc):
        if low.w + high.w > 64 or low.defined is not None or high.defined is not None:
            return None
        return Conc(low.bits.astype(np.uint64) | high.bits.astype(np.uint64) << np.uint64(low.w),
                    low.w + high.w)
    if isinstance(low, Hash) and isinstance(high, Hash) and low.src and high.src:
        (a, lo_a), (b, lo_b) = low.src, high.src
        if a is b and lo_a + low.w == lo_b:
            return split(a, lo_a, low.w + high.w)
    return None


def _join(v: Pack) -> Hash | Conc:
    """Known bits; else the value the parts were cut from; else bf16 above zeros; else a join.

    More than two parts are joined half by half where a half ends between two of them.
    """
    at = 0
    for i, part in enumerate(v.parts[:-1]):
        at += part.w
        if 2 * at == v.w and len(v.parts) > 2:
            v = Pack(tuple(p[0] if len(p) == 1 else Pack(p, at)
                           for p in (v.parts[: i + 1], v.parts[i + 1 :])), v.w)
            break
    pairs = [hash_of(p) for p in v.parts]
    widths = [p.w for p in v.parts]
    whole = v.w
    f: Facts = MNZ
    for _, pf in pairs:
        f = f | (pf & POISON)
    f = f | top_clear(pairs[-1], widths[-1])
    generic = combine_all(key(f"join {widths}"), [h for h, _ in pairs])
    known = [conc_mask(pf) for _, pf in pairs]
    h, f = _rejoin(pairs, widths, whole, known, generic, f)
    if widths == [16, 16] and known[0] is not False:
        (h0, _), (h1, f1) = pairs
        wide = known[0] & (h0[1] == 0) & ~np.asarray(known[1])
        if some(wide):
            hw, fw = push_form((h1, f1), WIDE_BF16, f1 & (POISON | MNZ))
            h, f = np.where(wide, hw, h), facts_where(wide, fw, f)
    all_known = known[0]
    for k in known[1:]:
        all_known = all_known & k
    if whole <= 64 and np.any(all_known):
        bits: Any = np.uint64(0)
        lo = 0
        for (ph, _), w in zip(pairs, widths, strict=True):
            bits = bits | (ph[1] & np.uint64(ones(w))) << np.uint64(lo)
            lo += w
        if all_known is True or (isinstance(all_known, np.ndarray) and every(all_known)):
            return Conc(bits, whole)
        h = np.where(all_known, const_hash(bits), h)
        f = facts_where(all_known, CONC, f)
    return Hash(h, f, whole)


def _rejoin(pairs: list[tuple[U64, Facts]], widths: list[int], whole: int, known: list[Any],
            generic: U64, f: Facts) -> tuple[U64, Facts]:
    """Undo an extraction: all parts are slices of one value in these lanes."""
    if all(k is True for k in known):
        return generic, f
    candidate = pairs[0][0] - extract_offset(0, widths[0], whole)
    same: Any = ~np.asarray(known[0])
    lo = widths[0]
    for (h, _), w, k in zip(pairs[1:], widths[1:], known[1:], strict=True):
        if k is True:
            return generic, f
        equal = (h - extract_offset(lo, w, whole)) == candidate
        same = same & equal[0] & equal[1] & ~np.asarray(k)
        lo += w
    if not some(same):
        return generic, f
    found = WHOLES.find(candidate)
    if found is not None:
        lanes, (facts,) = found
        f = facts_where(same & lanes, facts.astype(np.uint32) | (f & POISON), f)
    return np.where(same, candidate, generic), f


def split(v: V, lo: int, w: int) -> V:
    """Bits [lo, lo + w) of a value; what was joined comes apart again."""
    if lo == 0 and w == v.w:
        return v
    if isinstance(v, Conc):
        bits = v.bits.astype(np.uint64) if lo == 0 else v.bits >> np.uint64(lo)
        bits = bits & np.uint64(ones(w))
        return Conc(bits != 0 if w == 1 else bits, w, v.defined)
    if isinstance(v, Pack):
        return _split_pack(v, lo, w)
    if v.src is not None:
        return split(v.src[0], v.src[1] + lo, w)
    if v.w == 32 and has_forms(v.f):
        opened = pop_forms((v.h, v.f), WIDE_BF16)
        if opened:
            return split(_open_wide(v, opened[0][1], opened[0][2]), lo, w)
    if lo == 0:
        _remember_whole(v)
    off = extract_offset(lo, w, v.w)
    if isinstance(v.f, int):
        return Hash(v.h + off, (v.f & POISON) | MNZ, w, (v, lo))
    known = (v.f & CONC) != 0
    h = v.h + off
    if some(known):
        bits = (v.h[1] >> np.uint64(lo)) & np.uint64(ones(w))
        h = np.where(known, const_hash(bits), h)
    f = np.where(known, np.uint32(CONC), (v.f & POISON) | MNZ)
    return Hash(h, f, w, (v, lo))


def _split_pack(v: Pack, lo: int, w: int) -> V:
    parts: list[V] = []
    at = 0
    for part in v.parts:  # most ask for one of the parts
        if at == lo and part.w == w:
            return part
        at += part.w
    at = 0
    for part in v.parts:
        start, end = max(lo, at), min(lo + w, at + part.w)
        if start < end:
            parts.append(split(part, start - at, end - start))
        at += part.w
    return make_pack(parts)


def _open_wide(v: Hash, wide: Mask, inner: HF) -> V:
    """An exactly widened bf16 as zeros below the bf16 (other lanes: plain slices)."""
    top = Hash(inner[0], inner[1], 16)
    if isinstance(v.f, int):
        return Pack((const(0, 16), top), 32)
    plain = Hash(v.h, np.where(wide, np.uint32(MNZ), v.f), 32)
    low, high = split(plain, 0, 16), split(plain, 16, 16)
    return Pack((merge(wide, const(0, 16), low), merge(wide, top, high)), 32)


# --- lane-wise choice and movement ---------------------------------------------------------------


def merge(mask: Mask, new: V, old: V | None) -> V:
    """`new` in the lanes of `mask`, else `old` (None: nobody wrote it)."""
    if old is None:
        return _only(mask, new)
    if isinstance(new, Conc) and isinstance(old, Conc):
        if new.defined is None and old.defined is None:
            return Conc(np.where(mask, new.bits, old.bits), new.w)
        defined = np.where(mask, True if new.defined is None else new.defined,
                           True if old.defined is None else old.defined)
        return Conc(np.where(mask, new.bits, old.bits), new.w,
                    None if every(defined) else defined)
    if isinstance(new, Pack) or isinstance(old, Pack):
        return _merge_parts(mask, new, old)
    (hn, fn), (ho, fo) = hash_of(new), hash_of(old)
    return Hash(np.where(mask, hn, ho), facts_where(mask, fn, fo), new.w)


def _only(mask: Mask, v: V) -> V:
    if isinstance(v, Conc):
        defined = mask if v.defined is None else mask & v.defined
        return Conc(v.bits, v.w, defined)
    if isinstance(v, Hash):  # what nobody wrote has a hash that is no value's
        return Hash(np.where(mask, v.h, undefined(v.w).h), facts_where(mask, v.f, UNDEF), v.w)
    return Pack(tuple(_only(mask, p) for p in v.parts), v.w)


def _cuts(v: V) -> set[int]:
    if not isinstance(v, Pack):
        return {0}
    at, out = 0, set()
    for part in v.parts:
        out.add(at)
        at += part.w
    return out


def _merge_parts(mask: Mask, new: V, old: V) -> V:
    cuts = [*sorted(_cuts(new) | _cuts(old)), new.w]
    parts = [merge(mask, split(new, lo, hi - lo), split(old, lo, hi - lo))
             for lo, hi in pairwise(cuts)]
    return make_pack(parts)


def resize(v: V, width: int) -> V:
    """Fit a result to its register: registers may be wider than the operation."""
    if v.w > width:
        return split(v, 0, width)
    if v.w == 1 and isinstance(v, Conc):
        return Conc(v.bits.astype(np.uint64), width, v.defined)
    return make_pack([v, const(0, width - v.w)])


def mark(v: V, fact: Facts) -> V:
    """Add facts to every lane that is not known bits."""
    if isinstance(v, Conc):
        return v
    if isinstance(v, Pack):
        return Pack(tuple(mark(p, fact) for p in v.parts), v.w)
    f = v.f | fact if isinstance(v.f, int) else np.where((v.f & CONC) != 0, v.f,
                                                         v.f | np.uint32(fact))
    return Hash(v.h, f, v.w)


def map_lanes(v: V, fn: Callable[[NDArray[Any]], NDArray[Any]]) -> V:
    """Apply a lane movement (it acts on the last two axes) to every array of a value."""
    if isinstance(v, Conc):
        return Conc(fn(v.bits), v.w, None if v.defined is None else fn(v.defined))
    if isinstance(v, Hash):
        return Hash(fn(v.h), v.f if isinstance(v.f, int) else fn(v.f), v.w)
    return Pack(tuple(map_lanes(p, fn) for p in v.parts), v.w)
