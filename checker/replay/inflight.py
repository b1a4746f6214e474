"""Matrix steps in flight (wgmma): results that may not be read, operands that may not change yet.

In: issues, commits, waits. Out: registers whose value is marked pending until the wait, and cells
of shared memory marked as being read. A pending value that reaches an output, an address or a
branch is a finding, and so is a write to a cell that is being read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.core import Op
from checker.replay.machine import Machine
from checker.replay.values import PENDING, Hash, Mask, Pack, V, lane_hash, merge

__all__ = ["Issue", "commit", "issue", "landed_value", "wait"]


@dataclass(slots=True)
class Issue:
    """One step in flight: its lanes, group number per lane (0: not committed), registers, reads."""

    lanes: Mask
    group: NDArray[np.int32]
    real: dict[int, V] = field(default_factory=dict)
    marked: dict[int, V] = field(default_factory=dict)
    reads: list[tuple[Any, NDArray[np.int64], int, int]] = field(default_factory=list)


def _issues(m: Machine) -> list[Issue]:
    return m.extra.setdefault("issues", [])  # type: ignore[no-any-return]


def _count(m: Machine) -> NDArray[np.int32]:
    if "committed" not in m.extra:
        m.extra["committed"] = np.zeros((m.B, m.T), dtype=np.int32)
    return m.extra["committed"]  # type: ignore[no-any-return]


def landed_value(m: Machine, reg: int) -> V:
    """What a register will hold: another step may continue from an accumulator in flight."""
    now = m.read(reg)
    for one in reversed(_issues(m)):
        if one.marked.get(reg) is now:
            return one.real[reg]
    return now


def issue(m: Machine, op: Op, on: Mask | None,
          reads: list[tuple[Any, NDArray[np.int64], int, int]]) -> None:
    """Mark the results that were just written and the cells that are read."""
    lanes = m.full(on).copy()
    one = Issue(lanes, np.zeros((m.B, m.T), dtype=np.int32), reads=reads)
    for d in op.dst:
        value = m.read(d)
        one.real[d] = value
        one.marked[d] = m.regs[d] = _mark(value, None if lanes.all() else lanes)
    _issues(m).append(one)


def _mark(v: V, lanes: Mask | None) -> V:
    if isinstance(v, Pack):
        return Pack(tuple(_mark(p, lanes) for p in v.parts), v.w)
    h = lane_hash(v)
    if lanes is None:
        return Hash(h.h, h.f | PENDING, v.w)
    return Hash(h.h, np.where(lanes, h.f | np.uint32(PENDING), np.uint32(h.f) if isinstance(
        h.f, int) else h.f), v.w)


def commit(m: Machine, on: Mask | None) -> None:
    """Close a group."""
    count, lanes = _count(m), m.full(on)
    count[lanes] += 1
    for one in _issues(m):
        fresh = one.lanes & lanes & (one.group == 0)
        one.group = np.where(fresh, count, one.group)


def wait(m: Machine, on: Mask | None, pending: int) -> None:
    """At most `pending` groups stay in flight: the others' results can be read."""
    count, lanes = _count(m), m.full(on)
    kept: list[Issue] = []
    for one in _issues(m):
        done = one.lanes & lanes & (one.group > 0) & (one.group <= count - pending)
        if not done.any():
            kept.append(one)
            continue
        rest = one.lanes & ~done
        for reg, marked in list(one.marked.items()):
            if m.regs[reg] is not marked:
                continue
            value = one.real[reg] if not rest.any() else merge(done, one.real[reg], marked)
            m.regs[reg] = one.marked[reg] = value
        if rest.any():
            one.lanes = rest
            kept.append(one)
        else:
            last = m.T - 1 - one.lanes[:, ::-1].argmax(axis=1)  # one of the warps that read
            warps = m.warp_id[np.arange(m.B), last]
            for cells, index, granule, number in one.reads:
                cells.end_reading(index, granule, number)
                cells.reads_until_now(index, granule, warps)
    m.extra["issues"] = kept


