"""Asynchronous copies of a thread: cp.async with its groups, waits and mbarrier arrivals.

In: addresses. Out: steps. The data is read at issue and reaches shared memory at the wait; a read
before that, or a write in between, is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.core import AsyncCopy, Op, Program
from checker.replay import bulk
from checker.replay.access import load_many, place, side_by_side, widened
from checker.replay.facts import Mask
from checker.replay.machine import Apart, Machine, Step
from checker.replay.sync import guarded, lanes_of, mbar_at, publish, settle
from checker.replay.values import V, const, hash_of, merge, split

__all__ = ["step", "together"]

Read = Callable[[Machine], list[V]]


@dataclass(slots=True)
class Copy:
    """Cells on their way: flat index, contents, warps, lanes (flat) and group numbers."""

    index: NDArray[np.int64]
    granule: int
    h: NDArray[np.uint64]
    f: NDArray[np.uint32]
    warp: NDArray[np.int32]
    lane: NDArray[np.int64]
    group: NDArray[np.int64]  # -1: not committed
    line: int
    open: bool = True  # some lane has not committed


def step(program: Program, op: Op, read: Read) -> Step | None:
    """The step of an asynchronous operation."""
    body = _BODIES.get(op.name) or bulk.BODIES.get(op.name)
    return None if body is None else guarded(op, read, body)


def _copies(m: Machine) -> list[Copy]:
    return m.extra.setdefault("copies", [])  # type: ignore[no-any-return]


def _acopy(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    _copies_at(m, op.attr, [values], on)


def together(m: Machine, ops: list[Op], values: list[list[V]]) -> bool:
    """Copies of one kind that follow each other, done at once."""
    if not (m.mask is None or m.solo):
        return False
    _copies_at(m, ops[0].attr, values, m.mask)
    return True


def _copies_at(m: Machine, attr: AsyncCopy, values: list[list[V]], on: Mask | None) -> None:
    """Issue the copies of one operation, or of several side by side."""
    size = attr.size_bytes
    columns = [[m.known(v, on, what) for v in column] for column, what in zip(
        zip(*values, strict=True), ("an address", "an address", "a copy size"), strict=False)]
    to, source, *counts = (side_by_side(m, column) for column in columns)
    count = counts[0] if counts else None
    if len(values) > 1:
        on = None if on is None else side_by_side(m, [on] * len(values))
        m = widened(m, len(values))
    granule = _granule(m, size)
    if count is None:
        _copy(m, to, source, None, on, granule, size // granule, size)
        return
    whole = np.asarray(count >= size)
    cut = (count > 0) & ~whole
    if np.any(cut if on is None else cut & on):
        for at in range(0, size, granule):
            inside = np.asarray(count >= at + granule)
            partial = (count > at) & ~inside
            if (partial if on is None else partial & on).any():
                raise m.unsupported("acopy", "a copy's size cuts an element")
            _copy(m, to + np.uint64(at), source + np.uint64(at), inside, on, granule, 1,
                  size if at == 0 else granule)
        return
    _copy(m, to, source, whole, on, granule, size // granule, size)


def _copy(m: Machine, to: NDArray[Any], source: NDArray[Any], inside: Mask | None, on: Mask | None,
          granule: int, count: int, align: int) -> None:
    """`count` neighbouring pieces; lanes that are not `inside` get zeros."""
    zero = const(0, 8 * granule)
    if inside is None or inside.all():
        pieces = load_many(m, "global", source, on, 8 * granule, count, align)
    else:
        some = inside if on is None else inside & on
        pieces = [zero] * count
        if some.any():
            loaded = load_many(m, "global", source, m.full(some), 8 * granule, count, align)
            pieces = [merge(inside, v, zero) for v in loaded]
    _issue(m, to, pieces, on, align)


def _granule(m: Machine, size: int) -> int:
    """Bytes moved at a time: an element of the finest buffer, at most eight."""
    return min(8, size, m.shared.g, *(cells.g for cells in m.memory.regions))


def _issue(m: Machine, to: NDArray[Any], pieces: list[V], on: Mask | None, align: int) -> None:
    line = m.program.sites[m.program.ops[m.pc].site].span.line
    size = pieces[0].w // 8
    for cells, block, offset, sub in place(m, "shared", to, on, size * len(pieces), align):
        if size % cells.g:
            _refine(m, int(np.gcd(size, cells.g)))
        each = size // cells.g
        lanes = m.full(sub) & m.live
        flat = lanes.reshape(-1).nonzero()[0] % m.lanes
        n = each * len(pieces)
        words = np.empty((2, n, len(flat)), dtype=np.uint64)
        facts = np.empty((n, len(flat)), dtype=np.uint32)
        for i, v in enumerate(pieces):
            for j in range(each):
                h, f = hash_of(split(v, 8 * cells.g * j, 8 * cells.g))
                words[:, i * each + j] = np.broadcast_to(h, (2, *lanes.shape))[:, lanes]
                facts[i * each + j] = f if isinstance(f, int) else np.broadcast_to(
                    f, lanes.shape)[lanes]
        first = np.broadcast_to(block * cells.stride + offset // cells.g, lanes.shape)[lanes]
        at = (first + np.arange(n).reshape(-1, 1)).reshape(-1)
        warp = np.tile(np.broadcast_to(m.warp_id, lanes.shape)[lanes], n)
        assert cells.pending is not None
        if m.lanes < m.B * m.T and _twice(at, cells.h.shape[1]):
            raise Apart  # which of the operations comes second is to be told
        cells.check_write(at, words.reshape(2, -1), warp)
        cells.pending[at] = True
        _copies(m).append(Copy(at, cells.g, words.reshape(2, -1), facts.reshape(-1), warp,
                               np.tile(flat, n), np.full(at.size, -1, dtype=np.int64), line))


def _twice(index: NDArray[np.int64], size: int) -> bool:
    """Whether a cell is there more than once."""
    seen = np.zeros(size, dtype=np.int32)
    order = np.arange(len(index), dtype=np.int32)
    seen[index] = order
    return bool((seen[index] != order).any())


def _refine(m: Machine, granule: int) -> None:
    m.shared.refine(granule)


def _groups(m: Machine) -> NDArray[np.int64]:
    if "groups" not in m.extra:
        m.extra["groups"] = np.zeros(m.B * m.T, dtype=np.int64)
    return m.extra["groups"]  # type: ignore[no-any-return]


def _commit(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    groups = _groups(m)
    active = (m.full(on) & m.live).reshape(-1)
    for copy in _copies(m):
        if copy.open:
            fresh = (copy.group < 0) & active[copy.lane]
            copy.group = np.where(fresh, groups[copy.lane], copy.group)
            copy.open = bool((copy.group < 0).any())
    groups[active] += 1


def _wait(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    groups = _groups(m)
    active = (m.full(on) & m.live).reshape(-1)
    kept: list[Copy] = []
    for copy in _copies(m):
        if op.attr is None:
            done = active[copy.lane]
        else:
            done = (copy.group >= 0) & (copy.group < groups[copy.lane] - int(op.attr))
            done &= active[copy.lane]
        if not done.any():
            kept.append(copy)
            continue
        _land(m, copy, done)
        if not done.all():
            kept.append(_rest(copy, ~done))
    m.extra["copies"] = kept


def _rest(copy: Copy, keep: NDArray[np.bool_]) -> Copy:
    return Copy(copy.index[keep], copy.granule, copy.h[:, keep], copy.f[keep], copy.warp[keep],
                copy.lane[keep], copy.group[keep], copy.line, copy.open)


def _land(m: Machine, copy: Copy, done: NDArray[np.bool_]) -> None:
    """The copied bytes become visible to the thread that waited."""
    cells = m.shared
    part = copy if done.all() else _rest(copy, done)
    index, h, f, warp = part.index, part.h, part.f, part.warp
    assert cells.pending is not None
    if copy.granule != cells.g:
        from checker.replay.values import Hash
        times = copy.granule // cells.g
        whole = Hash(h.reshape(2, 1, -1), f.reshape(1, -1), 8 * copy.granule)
        for i in range(times):
            ph, pf = hash_of(split(whole, 8 * cells.g * i, 8 * cells.g))
            at = index * times + i
            cells.pending[at] = False
            agree = cells.put(
                at, np.broadcast_to(ph, (2, 1, len(at))).reshape(2, -1),
                np.broadcast_to(np.asarray(pf, dtype=np.uint32), (1, len(at))).reshape(-1), warp)
            _agree(m, agree)
        return
    cells.pending[index] = False
    _agree(m, cells.put(index, h, f, warp))


def _agree(m: Machine, agree: bool) -> None:
    if not agree:
        m.report("write-conflict", "asynchronous copies of several threads write different values "
                                   "to one byte of shared memory")


def _arrive(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    """cp.async.mbarrier.arrive: all earlier copies of the thread land, then the thread arrives."""
    active = (m.full(on) & m.live).reshape(-1)
    kept: list[Copy] = []
    for copy in _copies(m):
        done = active[copy.lane]
        if not done.any():
            kept.append(copy)
            continue
        _land(m, copy, done)
        if not done.all():
            kept.append(_rest(copy, ~done))
    m.extra["copies"] = kept
    for block, thread, at in lanes_of(m, on, m.known(values[0], on, "an mbarrier address")):
        bar = mbar_at(m, block, at, thread)
        publish(m, bar, block, thread // m.width)
        if op.attr in ("noinc", True):
            bar.pending -= 1
        settle(bar)


_BODIES: dict[str, Callable[..., None]] = {
    "acopy": _acopy, "acopy_commit": _commit, "acopy_wait": _wait, "acopy_arrive": _arrive,
}
