"""One rounding step of a matrix instruction over hashes: products, zeros, nulls, accumulators.

In: operand tiles and accumulators as hashes with facts. Out: the same. The products of a step are
an unordered multiset: element hashes are multiplied and summed modulo 2**64 in both words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith.steps import StepModel
from checker.arrays import every, some
from checker.core import Conv
from checker.replay import identities as ids
from checker.replay.facts import CONC, HF, MNZ, NULL, POISON, Facts, memo, seen
from checker.replay.hashing import U64, combine, key
from checker.replay.nulls import open_null, with_null
from checker.replay.operands import choose
from checker.replay.suppose import supposed

__all__ = ["ZERO_SQUARE", "Opened", "Tile", "all_null", "elements", "flat", "minus_zero",
           "opened_step", "prepared", "products", "signless_zeros", "unflat", "unmoved_by_zeros",
           "where_null"]

Tile = tuple[U64, Facts]  # hashes (2, B, G, rows, cols) and facts (B, G, rows, cols) or int


def flat(x: tuple[U64, Facts], shape: tuple[int, ...]) -> tuple[U64, Facts]:
    """Any layout as one row of lanes (2, 1, n), which is what the identities work on."""
    h, f = x
    return np.broadcast_to(h, (2, *shape)).reshape(2, 1, -1), (
        f if isinstance(f, int) else np.broadcast_to(f, shape).reshape(1, -1))


def unflat(x: tuple[U64, Facts], shape: tuple[int, ...]) -> tuple[U64, Facts]:
    h, f = x
    return h.reshape(2, *shape), f if isinstance(f, int) else np.broadcast_to(
        f, h.shape[1:]).reshape(shape)


_ZERO_WORD = key("mma zero element").reshape(2, 1, 1, 1, 1)
ZERO_SQUARE = _ZERO_WORD * _ZERO_WORD


def prepared(model: StepModel, tile: Tile, type_name: str, signless: bool
             ) -> tuple[U64, Any, Any]:
    """Mixed element hashes, known zeros and nulls of an operand, which several steps may share."""
    found: tuple[U64, Any, Any] = memo(
        f"mma operand {type_name} {model.compute} {signless}", tile,
        lambda t: elements(model, t, type_name, signless))
    return found


def elements(model: StepModel, tile: Tile, type_name: str, signless: bool
             ) -> tuple[U64, Any, Any]:
    """Mixed element hashes, known zeros and nulls of an operand (None: there are none)."""
    out, zero = _elements(model, tile, type_name, signless)
    null = _null_elements(tile, type_name)
    if null is None or not supposed("finite"):
        return out, zero, null
    return np.where(null, _ZERO_WORD, out), null if zero is None else null | zero, None


def signless_zeros(model: StepModel, acc: tuple[U64, Facts]) -> bool:
    """Whether no sign of a zero product shows: one exact sum onto what is nowhere -0."""
    return model.kind == "fused" and not np.any(minus_zero(model, acc))


def _elements(model: StepModel, tile: Tile, type_name: str, signless: bool) -> tuple[U64, Any]:
    """Mixed element hashes and the lanes of known zeros, or known +0 (None: there are none)."""
    h, f = tile
    if model.compute != type_name and type_name not in ("tf32",):
        shape = h.shape[1:]
        h, f = unflat(ids.convert(Conv(type_name, model.compute), flat((h, f), shape)), shape)
        type_name = model.compute
    out = combine(key(f"mma element {type_name}"), h)
    if not seen(f) & CONC:
        return out, None
    bits = h[1] & _magnitude(type_name) if signless else h[1]
    zero = (np.asarray(f & CONC) != 0) & (bits == 0)
    if not some(zero):
        return out, None
    np.copyto(out, _ZERO_WORD, where=zero)
    return out, zero


def _magnitude(type_name: str) -> np.uint64:
    return np.uint64((1 << (ids.FLOAT_BITS.get(type_name, 8) - 1)) - 1)


def products(a: U64, b: U64, part: list[int], symmetric: bool) -> U64:
    """Sum of the products of one step; contiguous operands are twice as fast."""
    if part == list(range(part[0], part[0] + len(part))):
        x, y = a[..., part[0] : part[-1] + 1], b[..., part[0] : part[-1] + 1, :]
    else:
        x, y = a[..., part], b[..., part, :]
    if not symmetric:
        place = np.arange(1, 2 * len(part), 2, dtype=np.uint64) * key("place").reshape(2)[0]
        x = x * (place | np.uint64(1))
    return np.asarray(np.matmul(np.ascontiguousarray(x), np.ascontiguousarray(y)))


def _null_elements(tile: Tile, type_name: str) -> Any:
    """The elements that are a zero or a NaN, None if there are none."""
    h, f = tile
    if not seen(f) & (CONC | NULL):
        return None
    null = (np.asarray(f & NULL) != 0) | (
        (np.asarray(f & CONC) != 0) & (h[1] & _magnitude(type_name) == 0))
    return np.broadcast_to(null, h.shape[1:]) if some(null) else None


def all_null(a: Any, b: Any, part: list[int]) -> NDArray[np.bool_]:
    """Where each product of a step has a factor that is a zero or a NaN."""
    if b is None:
        return np.asarray(a[..., part].all(axis=-1, keepdims=True))
    if a is None:
        return np.asarray(b[..., part, :].all(axis=-2, keepdims=True))
    return np.asarray(np.matmul((~a[..., part]).astype(np.float32),
                                (~b[..., part, :]).astype(np.float32)) == 0)


# lanes of x + z, x there, the hash of the null z; and of the last step, if it was one of nulls: its
# lanes that are no such sum, and its products
Opened = tuple[NDArray[np.bool_], HF, U64, "tuple[NDArray[np.bool_], U64] | None"]
_NOWHERE = np.zeros((1, 1, 1), dtype=bool)


def where_null(acc: HF) -> Opened | None:
    """Where an accumulator holds a null, as far as its hash tells."""
    found = open_null(acc)
    return None if found is None else (*found, None)


def opened_step(model: StepModel, acc: tuple[U64, Facts], known: Opened | None, total: U64,
                none: Any, null: Any) -> tuple[tuple[U64, Facts], Opened | None]:
    """One rounding step onto an accumulator of which is known where it holds a null.

    none, null: lanes whose products are all +0 * +0, all zero or NaN. A null step leaves its
    accumulator alone but for a NaN: once is enough, and it may come last. (Of a second null only
    the repetition is left out.) Returns the result and where that holds a null.
    """
    may = minus_zero(model, acc)
    out, skipped = _plain_step(model, acc, may, total, none)
    if known is None and (null is None or not some(null)):
        return out, None
    here = _NOWHERE if null is None else null
    lanes, inner, z, last = known or (_NOWHERE, acc, acc[0], None)
    after: Opened | None = None
    if known is not None:
        if skipped is not None:
            after = _also(after, lanes & skipped, inner, z)
        move = lanes & ~here
        if some(move):
            start = choose(lanes, inner, acc)
            bare = _plain_step(model, start, minus_zero(model, start), total, none)[0]
            move = move & (np.asarray(bare[1] & MNZ) == 0)
            late = with_null(bare, (z, (acc[1] & POISON) | MNZ), move)
            out = choose(move, late, out)
            after = _also(after, move, bare, z)
    if null is not None:
        still = here & _kept(model, acc, may)
        if none is not None:
            still = still & ~none
        twice = _NOWHERE if last is None else still & last[0] & (last[1] == total).all(axis=0)
        if some(twice):
            out, still = choose(twice, acc, out), still & ~twice
        fresh = still & ~lanes
        if some(fresh):
            out, what = _first_null(acc, total, np.broadcast_to(fresh, total.shape[1:]), out)
            after = _also(after, fresh, acc, what)
        same = still & lanes
        if some(same):
            again = _same_null(np.broadcast_to(same, total.shape[1:]), z, total)
            out = choose(again, acc, out)
            after = _also(after, again, inner, z)
            twice = twice | (same & ~again)
        if some(twice):
            after = (*(after or (_NOWHERE, acc, acc[0]))[:3], (twice, total))
    return out, after


def _first_null(acc: HF, total: U64, lanes: NDArray[np.bool_], out: HF) -> tuple[HF, U64]:
    """In these lanes the accumulator with the null of this step; and that null's hash there.

    Nobody else has seen the hashes of `out`: they are written to.
    """
    (h, f), shape = acc, total.shape[1:]
    at = np.flatnonzero(lanes)
    few = np.broadcast_to(h, (2, *shape)).reshape(2, -1).take(at, axis=1)[:, None]
    facts = f if isinstance(f, int) else np.broadcast_to(f, shape).reshape(-1).take(at)[None]
    null = combine(key("null step"), total.reshape(2, -1).take(at, axis=1)[:, None])
    with_h, with_f = with_null((few, facts), (null, MNZ), True)
    out_h, what = out[0], np.zeros_like(total)
    assert out_h.shape == (2, *shape)
    out_f = np.array(np.broadcast_to(np.asarray(out[1], dtype=np.uint32), shape))
    for word in range(2):
        out_h[word].reshape(-1)[at], what[word].reshape(-1)[at] = with_h[word, 0], null[word, 0]
    out_f.reshape(-1)[at] = with_f if isinstance(with_f, int) else np.broadcast_to(
        with_f, few.shape[1:])[0]
    return (out_h, out_f), what


def _same_null(lanes: NDArray[np.bool_], z: U64, total: U64) -> NDArray[np.bool_]:
    """Those of these lanes in which the null of this step is z."""
    at = np.flatnonzero(lanes)
    mine = combine(key("null step"), total.reshape(2, -1).take(at, axis=1)[:, None])
    theirs = np.broadcast_to(z, total.shape).reshape(2, -1).take(at, axis=1)
    out = np.zeros(lanes.shape, dtype=bool)
    out.reshape(-1)[at] = (theirs == mine[:, 0]).all(axis=0)
    return out


def _also(known: Opened | None, lanes: NDArray[np.bool_], inner: HF, z: U64) -> Opened | None:
    """More lanes that hold a null."""
    if not some(lanes):
        return known
    if known is None:
        return lanes, inner, z, None
    return known[0] | lanes, choose(lanes, inner, known[1]), np.where(lanes, z, known[2]), None


def minus_zero(model: StepModel, acc: tuple[U64, Facts]) -> Facts:
    """MNZ where the accumulator may be -0, known bits looked at."""
    if supposed("unsigned-zero"):
        return 0
    h, f = acc
    may = f & MNZ
    if isinstance(f, int) and not f & CONC:
        return may
    minus = (np.asarray(f & CONC) != 0) & (h[1] == np.uint64(
        1 << (ids.FLOAT_BITS.get(model.acc_type, 32) - 1)))
    return may | np.where(minus, np.uint32(MNZ), np.uint32(0)) if np.any(minus) else may


def _kept(model: StepModel, acc: tuple[U64, Facts], may: Facts) -> NDArray[np.bool_]:
    """Lanes whose accumulator a step of zeros leaves as it is."""
    h, f = acc
    kept = np.asarray(may) == 0
    if not model.keeps_accumulator:  # the step itself cuts or flushes all but a zero
        kept = kept & (np.asarray(f & CONC) != 0) & (h[1] == np.uint64(0))
    return np.asarray(kept)


def unmoved_by_zeros(model: StepModel, acc: HF) -> bool:
    """Whether a step whose products are all +0 * +0 leaves every accumulator as it is."""
    return every(_kept(model, acc, minus_zero(model, acc)))


def _plain_step(model: StepModel, acc: tuple[U64, Facts], may: Facts, total: U64, none: Any
                ) -> tuple[tuple[U64, Facts], NDArray[np.bool_] | None]:
    """The step's hash; lanes of `none` keep their accumulator where it is not -0: which ones."""
    h, f = acc
    out = combine(key(f"mma step {model.id}"), h, total)
    facts: Facts = may
    if none is not None:
        skip = none & _kept(model, acc, may)
        if some(skip):
            out = np.where(skip, h, out)
            facts = np.where(skip, np.uint32(f) if isinstance(f, int) else f,
                             np.uint32(may) if isinstance(may, int) else may)
            return (out, facts), skip
    return (out, facts), None
