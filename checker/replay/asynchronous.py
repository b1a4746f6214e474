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

from checker.arrays import every, some
from checker.core import AsyncCopy, Op, Program
from checker.replay import bulk
from checker.replay.access import Lanes, cells_from, place, side_by_side, widened
from checker.replay.facts import CONC, Mask
from checker.replay.hashing import TAG
from checker.replay.machine import Apart, Machine, Step
from checker.replay.memory import Rows, finer
from checker.replay.order import Codes
from checker.replay.sync import arrive, bars_of, guarded
from checker.replay.values import V

__all__ = ["step", "together"]

Read = Callable[[Machine], list[V]]


@dataclass(slots=True)
class Copy:
    """Rows on their way: contents, and each row's thread, lane (flat) and group number.

    checked: nobody else is in the way, or gets there before the copy has landed without a finding.
    """

    rows: Rows
    h: NDArray[np.uint64]
    f: NDArray[np.uint32]
    who: Codes
    lane: NDArray[np.int64]
    group: NDArray[np.int64]  # -1: not committed
    checked: bool
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
    to, source, *counts = (
        column[0] if len(column) == 1 else side_by_side(m, column) for column in columns)
    count = counts[0] if counts else None
    if len(values) > 1:
        on = None if on is None else side_by_side(m, [on] * len(values))
        m = widened(m, len(values))
    step = _granule(m, size)
    if count is None:
        _copy(m, to, source, None, on, size, step, size)
        return
    whole = np.asarray(count >= size)
    cut = (count > 0) & ~whole
    if np.any(cut if on is None else cut & on):
        for at in range(0, size, step):
            inside = np.asarray(count >= at + step)
            partial = (count > at) & ~inside
            if some(partial if on is None else partial & on):
                raise m.unsupported("acopy", "a copy's size cuts an element")
            _copy(m, to + np.uint64(at), source + np.uint64(at), inside, on, step, step,
                  size if at == 0 else step)
        return
    _copy(m, to, source, whole, on, size, step, size)


def _granule(m: Machine, size: int) -> int:
    """Bytes moved at a time: an element of the finest buffer, at most eight."""
    return min(8, size, m.shared.g, *(cells.g for cells in m.memory.regions))


def _copy(m: Machine, to: NDArray[Any], source: NDArray[Any], inside: Mask | None, on: Mask | None,
          size: int, step: int, align: int) -> None:
    """Issue copies of `size` bytes as cells of `step`; lanes that are not `inside` get zeros."""
    full = m.full(on) & m.live
    active = np.flatnonzero(full)
    lane, whole = active % m.lanes, len(active) == full.size

    def of(x: Any) -> Any:
        flat = np.broadcast_to(x, full.shape).reshape(-1)
        return flat if whole else flat.take(active)

    to, source, who, block = map(of, (to, source, m.who, m.block_index))
    filled = None if inside is None else of(inside)
    if filled is None or every(filled):
        _, h, f = cells_from(Lanes(m, block, who), "global", source, None, size, step, align)
    else:
        h = np.empty((2, len(to), size // step), dtype=np.uint64)
        f = np.full((len(to), size // step), CONC, dtype=np.uint32)
        h[0], h[1] = TAG, 0
        if some(filled):
            _, h[:, filled], f[filled] = cells_from(Lanes(m, block[filled], who[filled]), "global",
                                                    source[filled], None, size, step, align)
    for cells, where, offset, sub in place(Lanes(m, block, who), "shared", to, None, size, align):
        if sub is not None:
            where, offset, lane, who, h, f = (where[sub], offset[sub], lane[sub], who[sub],
                                              h[:, sub], f[sub])
        cells.fit(step)
        rows = cells.rows(where, offset, size).flat()
        assert cells.watch is not None
        if m.lanes < m.B * m.T and cells.twice(rows):
            raise Apart  # which of the operations comes second is to be told
        apart = cells.check_write(rows, h, who)
        cells.watch.mark(rows, True)
        _copies(m).append(Copy(rows, h, f, who, lane, np.full(len(lane), -1, dtype=np.int64),
                               apart is None))


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
            copy.open = some(copy.group < 0)
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
        if not some(done):
            kept.append(copy)
            continue
        _land(m, copy, done)
        if not every(done):
            kept.append(_rest(copy, ~done))
    m.extra["copies"] = kept


def _rest(copy: Copy, keep: NDArray[np.bool_]) -> Copy:
    return Copy(copy.rows.some(keep), copy.h[:, keep], copy.f[keep], copy.who[keep],
                copy.lane[keep], copy.group[keep], copy.checked, copy.open)


def _land(m: Machine, copy: Copy, done: NDArray[np.bool_]) -> None:
    """The copied bytes become visible to the thread that waited."""
    cells = m.shared
    part = copy if every(done) else _rest(copy, done)
    h, f = part.h, part.f
    count = part.rows.size // cells.g
    if count > h.shape[-1]:  # the memory's cells were split since
        h, f = finer(h, f, part.rows.size // h.shape[-1], count // h.shape[-1])
    assert cells.watch is not None
    cells.watch.mark(part.rows, False)
    _agree(m, cells.put(part.rows, h, f, part.who, part.checked))


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
        if not some(done):
            kept.append(copy)
            continue
        _land(m, copy, done)
        if not every(done):
            kept.append(_rest(copy, ~done))
    m.extra["copies"] = kept
    count = int(op.attr in ("noinc", True))
    for block, bar, threads in bars_of(m, on, m.known(values[0], on, "an mbarrier address")):
        arrive(m, bar, block, [(thread, count, 0) for thread in threads])


_BODIES: dict[str, Callable[..., None]] = {
    "acopy": _acopy, "acopy_commit": _commit, "acopy_wait": _wait, "acopy_arrive": _arrive,
}
