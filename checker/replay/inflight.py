"""Matrix steps in flight (wgmma): results that may not be read, operands that may not change yet.

In: issues, commits, waits. Out: registers whose value is marked pending until the wait, and cells
of shared memory marked as being read. A write to a cell that is being read is a finding. A register
of a step that is used or overwritten before the wait (Triton prints that for fp8) rests on the
premise `wgmma-serialized`: the assembler sees that and waits there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.core import Op
from checker.replay.facts import PENDING, Mask
from checker.replay.machine import Machine
from checker.replay.values import Conc, Hash, Pack, V, lane_hash, make_pack, split
from checker.replay.watch import Rows, Watch

__all__ = ["Issue", "Read", "commit", "issue", "landed_value", "wait"]


Read = tuple[Watch, Rows, int]  # what a step reads, and its number


@dataclass(slots=True)
class Issue:
    """One step in flight: its lanes, group number per lane (0: not committed), registers, reads.

    operands: the registers that hold a matrix, as they were at issue.
    """

    lanes: Mask
    group: NDArray[np.int32]
    operands: dict[int, V]
    real: dict[int, V] = field(default_factory=dict)
    marked: dict[int, V] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)


def _issues(m: Machine) -> list[Issue]:
    return m.extra.setdefault("issues", [])  # type: ignore[no-any-return]


def _count(m: Machine) -> NDArray[np.int32]:
    if "committed" not in m.extra:
        m.extra["committed"] = np.zeros((m.B, m.T), dtype=np.int32)
    return m.extra["committed"]  # type: ignore[no-any-return]


def landed_value(m: Machine, reg: int, on: Mask | None) -> V:
    """What a register will hold: another step may continue from an accumulator in flight."""
    now = m.read(reg)
    for one in reversed(_issues(m)):
        if one.marked.get(reg) is now:
            return one.real[reg]
        if reg in one.real:
            now = _clear(now, one.real[reg], m.full(on) & one.lanes)
    return now


def _clear(v: V, real: V, lanes: Mask) -> V:
    """Take the mark off in these lanes, where the value is still the one that was marked."""
    if isinstance(v, Pack) or isinstance(real, Pack):
        cuts = sorted({0, v.w, *_ends(v), *_ends(real)})
        return make_pack([_clear(split(v, lo, hi - lo), split(real, lo, hi - lo), lanes)
                          for lo, hi in pairwise(cuts)])
    if isinstance(v, Conc):
        return v
    same = (v.h == lane_hash(real).h).all(axis=0) & lanes & (
        np.asarray(v.f & PENDING) != 0)
    if not some(same):
        return v
    f = np.uint32(v.f) if isinstance(v.f, int) else v.f
    return Hash(v.h, np.where(same, f & np.uint32(0xFFFFFFFF ^ PENDING), f), v.w)


def _kept(v: V, real: V, lanes: Mask) -> bool:
    """Tell whether a register still holds in these lanes what it held, a mark aside."""
    if v is real:
        return True
    if isinstance(v, Pack) or isinstance(real, Pack):
        cuts = sorted({0, v.w, *_ends(v), *_ends(real)})
        return all(_kept(split(v, lo, hi - lo), split(real, lo, hi - lo), lanes)
                   for lo, hi in pairwise(cuts))
    now, then = lane_hash(v).h, lane_hash(real).h
    return now is then or every((now == then).all(axis=0) | ~lanes)


def _ends(v: V) -> list[int]:
    out, at = [], 0
    for part in v.parts if isinstance(v, Pack) else ():
        at += part.w
        out.append(at)
    return out


def issue(m: Machine, op: Op, on: Mask | None, reads: list[Read]) -> None:
    """Mark the results that were just written and the cells that are read."""
    lanes = m.full(on).copy()
    matrix = op.src[: op.attr.a.regs] if op.attr.a.source == "regs" else ()
    operands = {r: m.read(r) for r in matrix if isinstance(r, int)}
    one = Issue(lanes, np.zeros((m.B, m.T), dtype=np.int32), operands, reads=reads)
    part = None if every(lanes) else lanes
    for d in op.dst:
        value = m.read(d)
        one.real[d] = value
        one.marked[d] = m.regs[d] = _mark(value, part)
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


def _end_reads(m: Machine, one: Issue, blocks: NDArray[np.bool_]) -> None:
    """In these blocks every warp that took part has waited."""
    last = m.T - 1 - one.lanes[:, ::-1].argmax(axis=1)  # one of the threads that read
    who = m.who[np.arange(m.B), last]
    for i, (watch, rows, number) in enumerate(one.reads):
        ended = blocks[watch.blocks(rows)]
        watch.end_reading(rows.some(ended), number)
        watch.read_until_now(rows.some(ended), who)
        one.reads[i] = (watch, rows.some(~ended), number)


def wait(m: Machine, on: Mask | None, pending: int) -> None:
    """At most `pending` groups stay in flight: the others' results can be read."""
    count, lanes = _count(m), m.full(on)
    kept: list[Issue] = []
    owner = {reg: one for one in _issues(m) for reg in one.marked}  # the latest of each register
    for one in _issues(m):
        done = one.lanes & lanes & (one.group > 0) & (one.group <= count - pending)
        if not some(done):
            kept.append(one)
            continue
        rest = one.lanes & ~done
        whole = not some(rest)
        held = one.operands | {r: v for r, v in one.real.items() if owner[r] is one}
        if not all(_kept(m.read(r), v, done) for r, v in held.items()):
            m.memory.premises.add("wgmma-serialized")
        for reg, marked in one.marked.items():
            now = m.regs[reg]
            if owner[reg] is not one and now is owner[reg].marked[reg]:
                continue
            if now is marked and whole:
                m.regs[reg] = one.real[reg]
            elif now is not None:
                m.regs[reg] = _clear(now, one.real[reg], done)
        _end_reads(m, one, np.asarray(one.lanes.any(axis=1) & ~rest.any(axis=1)))
        if not whole:
            one.lanes = rest
            kept.append(one)
    m.extra["issues"] = kept


