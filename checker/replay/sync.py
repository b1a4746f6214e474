"""Barriers and mbarriers: who waits for whom, what becomes ordered, when lanes may go on.

In: control operations. Out: `WAITS` (lanes that need not wait) and `WAKES` (parked lanes that may
go on) for the machine, and steps for operations that never wait. A test of an mbarrier's phase is
taken as a wait: a program that uses a failed test for anything but trying again is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.core import OPS, Barrier, Const, Op, Program
from checker.replay.facts import Mask
from checker.replay.machine import EMPTY, Fragment, Machine, Step
from checker.replay.order import Codes
from checker.replay.values import Conc, V, const, pred_bits

__all__ = ["Mbar", "WAITS", "WAKES", "arrive", "bars_of", "mbar_at", "publish", "settle", "step"]

Read = Callable[[Machine], list[V]]


def _values(m: Machine, op: Op) -> list[V]:
    return [const(s.bits, s.width_bits) if isinstance(s, Const) else m.read(s) for s in op.src]


# --- barriers of a block ------------------------------------------------------------------------


@dataclass(slots=True)
class _Named:
    """One barrier of every block: who has arrived, who may leave, and how many predicates held.

    passed: those who arrived without waiting. published: (block, what they had done by then).
    shared_only: accesses to other memory are under way where somebody arrives. action: of each
    block. held, met: true predicates and arrivals when a lane was released.
    """

    arrived: Mask
    released: Mask
    count: NDArray[np.int64]
    passed: Mask
    votes: Mask
    action: NDArray[np.object_]
    held: NDArray[np.int64]
    met: NDArray[np.int64]
    shared_only: bool = False
    published: list[tuple[int, NDArray[np.int32]]] = field(default_factory=list)


def _barrier(m: Machine, op: Op, on: Mask | None) -> Mask | None:
    attr: Barrier = op.attr
    if attr.kind == "warp":
        _meet_in_warp(m, op, m.full(on) & m.live)
        return None
    full = m.full(on) & m.live
    if attr.kind == "cluster":
        return _in_halves(m, attr, full)
    plain = attr.action == "sync" and not attr.has_count and all(
        isinstance(s, Const) for s in op.src)
    if plain and not m.parked and (full == m.live).all() and not m.extra["barriers"]:
        _join(m, m.strands(full), attr.shared_only)
        return None
    if attr.aligned and _part_of_a_warp(m, full):
        raise m.unsupported("barrier", "part of a warp comes to a barrier that takes whole warps")
    values = _values(m, op)
    ident = m.known(values[0], on, "a barrier's number") if values else np.zeros((1, 1))
    wide = np.broadcast_to(ident, full.shape)
    done = np.zeros_like(full)
    for number in np.unique(wide[full]):
        lanes = full & (wide == number)
        named = _arrive(m, attr, int(number), lanes, values, on)
        if attr.action == "arrive":
            done |= lanes
        _complete(m, named)
        done |= _leave(m, op, named, lanes)
    return None if (done | ~full).all() else done


def _part_of_a_warp(m: Machine, lanes: Mask) -> bool:
    here, live = (x.reshape(m.B, m.warps, m.width) for x in (lanes, m.live))
    return bool((here.any(axis=2) & (here != live).any(axis=2)).any())


@dataclass(slots=True)
class _Halves:
    """A barrier in two halves: who has arrived, who may leave, what blocks had done by then."""

    arrived: Mask
    open: Mask
    published: NDArray[np.int32]


def _in_halves(m: Machine, attr: Barrier, lanes: Mask) -> Mask | None:
    """Arrive, or wait for what all of the block had done when they arrived."""
    if "halves" not in m.extra:
        arrived, free = np.zeros((2, m.B, m.T), dtype=bool)
        m.extra["halves"] = _Halves(arrived, free, np.zeros((m.B, m.order.width), np.int32))
    halves: _Halves = m.extra["halves"]
    if attr.action.startswith("arrive"):
        if ((halves.arrived | halves.open) & lanes).any():
            raise m.unsupported("barrier", "a thread arrives at a barrier again before it waited")
        halves.arrived |= lanes
        for block, strands in enumerate(m.strands(lanes)):
            if attr.action == "arrive" and strands.any():
                row = m.order.release(block, np.flatnonzero(strands))
                halves.published[block] = np.maximum(halves.published[block], row)
        return None
    done = _passing(m, halves, lanes)
    return None if (done | ~lanes).all() else done


def _passing(m: Machine, halves: _Halves, lanes: Mask) -> Mask:
    """Those of these lanes that need not wait any longer."""
    ready = np.asarray((halves.arrived | ~m.live).all(axis=1))
    halves.open |= halves.arrived & ready[:, None]
    halves.arrived &= ~ready[:, None]
    go = lanes & halves.open
    halves.open &= ~go
    for block, strands in enumerate(m.strands(go)):
        if strands.any():
            m.order.acquire(block, np.flatnonzero(strands), halves.published[block])
    return go


def _join(m: Machine, members: Mask, shared_only: bool) -> None:
    """Order what the strands of each block that meet have done."""
    absent = m.strands(np.broadcast_to(m.lane_index >= m.threads, (m.B, m.T)))  # not: has exited
    everyone = np.asarray((members | absent).all(axis=1))
    m.order.barrier(members | everyone[:, None])
    if m.outer_order is not m.order and not shared_only:
        m.outer_order.barrier(members | everyone[:, None])


def _meet_in_warp(m: Machine, op: Op, lanes: Mask) -> None:
    """Lanes of a warp that name each other (a finding otherwise) see what each of them did."""
    if (lanes | (m.lane_index >= m.threads)).all():
        src = op.src[0] if op.src else None
        if not isinstance(src, int) and (src is None or src.bits == (1 << m.width) - 1):
            m.order.meet_in_warps()
            return
    if m.group == 1:
        return
    named = m.known(_values(m, op)[0], lanes, "a member mask")
    _, group = np.unique(named, return_inverse=True)
    label = (group.reshape(named.shape) * m.B + m.block_index) * m.T + m.warp_base
    m.order.meet(np.where(lanes, label, -1))


def _arrive(m: Machine, attr: Barrier, number: int, lanes: Mask, values: list[V],
            on: Mask | None) -> _Named:
    table: dict[tuple[str, int], _Named] = m.extra["barriers"]
    key = (attr.scope, number)
    if key not in table:
        arrived, released, passed, votes = np.zeros((4, m.B, m.T), dtype=bool)
        held, met = np.zeros((2, m.B, m.T), dtype=np.int64)
        table[key] = _Named(arrived, released, np.zeros(m.B, dtype=np.int64), passed, votes,
                            np.full(m.B, "", dtype=object), held, met)
    named = table[key]
    here = lanes.any(axis=1)
    action = "sync" if attr.action == "arrive" else attr.action
    if (named.arrived & lanes).any():
        raise m.unsupported("barrier", "a thread comes to a barrier again before the others have")
    if (named.action[here & named.arrived.any(axis=1)] != action).any():
        raise m.unsupported("barrier", "threads do different things at one barrier")
    named.action[here] = action
    named.arrived |= lanes
    if action != "sync":
        pred = pred_bits(values[-1], on)
        if pred is None:
            raise m.unsupported("data-dependent", "a barrier reduces a predicate that depends on "
                                                  "data")
        named.votes = np.where(lanes, pred, named.votes)
    named.shared_only |= attr.shared_only
    if attr.action == "arrive":
        named.passed |= lanes
        for at, strands in enumerate(m.strands(lanes)):
            if strands.any():
                named.published.append((at, m.order.release(at, np.flatnonzero(strands))))
    if attr.has_count:
        count = np.broadcast_to(m.known(values[1], on, "a barrier's count"), lanes.shape)
        for block in np.nonzero(here)[0]:
            wanted = np.unique(count[block][lanes[block]])
            if len(wanted) > 1 or named.count[block] not in (0, wanted[0]):
                raise m.unsupported("barrier", "threads expect different numbers at one barrier")
            named.count[block] = int(wanted[0])
        if bool((named.arrived.sum(axis=1) > named.count)[named.count > 0].any()):
            raise m.unsupported("barrier", "more threads arrive at a barrier than it expects: "
                                           "which of them meet is not fixed")
    return named


def _complete(m: Machine, named: _Named) -> None:
    """Release the blocks in which everybody has come."""
    arrived = named.arrived.sum(axis=1)
    need = np.where(named.count > 0, named.count, m.live.sum(axis=1))
    ready = (arrived > 0) & (arrived >= need)
    if not ready.any():
        return
    lanes = named.arrived & ready[:, None]
    members = m.strands(lanes & ~named.passed)
    _join(m, members, named.shared_only)  # who does not wait learns nothing
    for block, row in named.published:
        if ready[block] and members[block].any():
            m.order.acquire(block, np.flatnonzero(members[block]), row)
    named.published = [(block, row) for block, row in named.published if not ready[block]]
    held = (named.votes & lanes).sum(axis=1)
    named.held = np.where(lanes, held[:, None], named.held)
    named.met = np.where(lanes, arrived[:, None], named.met)
    named.released |= lanes & ~named.passed
    named.passed &= ~lanes
    named.arrived &= ~lanes
    named.count[ready] = 0


def _leave(m: Machine, op: Op, named: _Named, lanes: Mask) -> Mask:
    """Those of these lanes that may go on, with what their barrier found out."""
    go = lanes & named.released
    named.released &= ~go
    attr: Barrier = op.attr
    if not go.any():
        return go
    if attr.action == "red_popc":
        m.put(op.dst[0], Conc(named.held.astype(np.uint64), 32), go, True)
    elif attr.action.startswith("red_"):
        least = 1 if attr.action == "red_or" else named.met
        m.put(op.dst[0], Conc(named.held >= least, 1), go, True)
    return go


def _wake_barrier(m: Machine, op: Op, fragment: Fragment) -> Mask:
    attr: Barrier = op.attr
    if attr.kind == "cluster":
        return _passing(m, m.extra["halves"], fragment.mask)
    release = np.zeros_like(fragment.mask)
    for (kind, _), named in m.extra["barriers"].items():
        if kind != attr.scope:
            continue
        _complete(m, named)
        release |= _leave(m, op, named, fragment.mask)
    if not any(n.arrived.any() or n.released.any() for n in m.extra["barriers"].values()):
        m.extra["barriers"].clear()
    return release


# --- mbarriers ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Phase:
    """A phase that is over: the clock of arrivals so far, its copies, when it was first waited for.

    Only who waits knows of it, and who learns that from them: it is the engine's event.
    """

    published: NDArray[np.int32]
    landed: list[Any]
    seq: int = 0


@dataclass(slots=True)
class Mbar:
    """One mbarrier: arrivals still missing in this phase, bytes still to come, phases completed."""

    count: int
    pending: int
    who: int = 0  # who initialised it, and when
    seq: int = 0
    tx: int = 0
    phase: int = 0
    published: NDArray[np.int32] | None = None  # clock of this phase's arrivals
    history: list[Phase] = field(default_factory=list)
    incoming: list[Any] = field(default_factory=list)  # cells of this phase's copies


def _bars(m: Machine) -> dict[tuple[int, int], Mbar]:
    return m.extra["mbars"]  # type: ignore[no-any-return]


def mbar_at(m: Machine, block: int, address: int, thread: int) -> Mbar:
    """The mbarrier at a shared address of a block, for a thread that must know of its start."""
    found = _bars(m).get((block, address & 0xFFFFFFFF))
    if found is None:
        raise m.unsupported("mbarrier", "an mbarrier is used that was never initialised")
    if found.seq > m.order.floor:
        me, other, seq = (np.array([x]) for x in (m.who[block, thread], found.who, found.seq))
        if not m.order.knows(me, other, seq)[0]:
            m.report("race-read", "an mbarrier is used while its initialisation by another thread "
                                  "is not ordered before it")
    return found


def _knows_over(m: Machine, phase: Phase, block: int, codes: Codes) -> NDArray[np.bool_]:
    """Which of these know that a phase is over that somebody has waited for."""
    return m.order.knows(codes, np.full_like(codes, m.order.engine(block)),
                         np.full_like(codes, phase.seq))


def publish(m: Machine, bar: Mbar, block: int, threads: Sequence[int]) -> None:
    """Make the events of threads so far part of the current phase, which they must know it is."""
    if bar.history:
        codes = m.who[block, np.asarray(threads, dtype=np.int64)]
        if not bar.history[-1].seq or not _knows_over(m, bar.history[-1], block, codes).all():
            raise m.unsupported("mbarrier", "a thread arrives at an mbarrier and has not learned "
                                            "that its last phase is over: it may count for that")
    row = m.order.release(block, m.strand_of(threads))
    bar.published = row if bar.published is None else np.maximum(bar.published, row)


def arrive(m: Machine, bar: Mbar, block: int, arrivals: Iterable[tuple[int, int, int]],
           drop: bool = False) -> list[int]:
    """Threads arrive, each for some count and with bytes to come; the phase each one finds."""
    phases, here = [], []
    for thread, count, tx in arrivals:
        phases.append(bar.phase)
        here.append(thread)
        bar.tx += tx
        bar.pending -= count
        if drop:
            bar.count -= count
        if bar.pending <= 0:
            publish(m, bar, block, here)
            here = []
            settle(bar)
    if here:
        publish(m, bar, block, here)
    settle(bar)
    return phases


def settle(bar: Mbar) -> None:
    """Complete the phase if nothing is missing."""
    while bar.pending <= 0 and bar.tx == 0 and bar.count > 0:
        bar.phase += 1
        bar.pending += bar.count
        rows = [phase.published for phase in bar.history[-1:]]
        rows += [] if bar.published is None else [bar.published]
        bar.history.append(Phase(np.max(rows, axis=0), bar.incoming))
        bar.published, bar.incoming = None, []


def lanes_of(m: Machine, on: Mask | None, address: NDArray[Any]) -> list[tuple[int, int, int]]:
    """(block, thread, address) of each active lane."""
    full = m.full(on) & m.live
    wide = np.broadcast_to(address, full.shape)
    return [(int(b), int(t), int(wide[b, t]) & 0xFFFFFFFF) for b, t in zip(*np.nonzero(full),
                                                                          strict=True)]


def bars_of(m: Machine, on: Mask | None, address: NDArray[Any]
            ) -> list[tuple[int, Mbar, list[int]]]:
    """The mbarriers that active lanes name: (block, mbarrier, threads)."""
    found: dict[tuple[int, int], tuple[int, Mbar, list[int]]] = {}
    for block, thread, at in lanes_of(m, on, address):
        bar = mbar_at(m, block, at, thread)
        found.setdefault((block, at), (block, bar, []))[2].append(thread)
    return list(found.values())


def _number(m: Machine, v: V | None, on: Mask | None, what: str) -> NDArray[Any]:
    if v is None:
        return np.ones((m.B, m.T), dtype=np.uint64)
    return np.broadcast_to(m.known(v, on, what), (m.B, m.T))


def step(program: Program, op: Op, read: Read) -> Step | None:
    """Steps of the operations that never wait."""
    body = _BODIES.get(op.name)
    return None if body is None else guarded(op, read, body)


def guarded(op: Op, read: Read, body: Callable[..., None]) -> Step:
    """Run `body` in the lanes where the operation acts; whether it acts must be known."""

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            raise m.unsupported("data-dependent", f"whether {op.name} runs depends on data")
        body(m, op, read(m), on)

    return run


def _init(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    address = m.known(values[0], on, "an mbarrier address")
    count = _number(m, values[1], on, "an mbarrier count")
    for block, thread, at in lanes_of(m, on, address):
        n = int(count[block, thread])
        _bars(m)[block, at] = Mbar(n, n, int(m.who[block, thread]), m.order.now)


def _inval(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    for block, _, at in lanes_of(m, on, m.known(values[0], on, "an mbarrier address")):
        _bars(m).pop((block, at), None)


def _mbar_arrive(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    drop, expects = op.attr if isinstance(op.attr, tuple) else (False, bool(op.attr))
    address = m.known(values[0], on, "an mbarrier address")
    count = _number(m, values[1] if len(values) > 1 else None, on, "an mbarrier count")
    tx = np.zeros((m.B, m.T), dtype=np.uint64)
    if expects and len(values) > 2:
        tx = _number(m, values[2], on, "a transaction count")
    state = np.zeros((m.B, m.T), dtype=np.uint64)
    for block, bar, threads in bars_of(m, on, address):
        state[block, threads] = arrive(m, bar, block, zip(
            threads, *(x[block, threads].tolist() for x in (count, tx)), strict=True), drop)
    if op.dst:
        m.put(op.dst[0], Conc(state, 64), on, True)


def _expect(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    tx = _number(m, values[1], on, "a transaction count")
    for block, thread, at in lanes_of(m, on, m.known(values[0], on, "an mbarrier address")):
        bar = mbar_at(m, block, at, thread)
        bar.tx += int(tx[block, thread])
        settle(bar)


def _test(m: Machine, op: Op, lanes: Mask) -> Mask:
    """Lanes whose phase has completed; their predicate becomes true."""
    values = _values(m, op)
    address = m.known(values[0], lanes, "an mbarrier address")
    wanted = _number(m, values[1], lanes, "an mbarrier phase")
    done = np.zeros_like(lanes)
    for block, bar, threads in bars_of(m, lanes, address):
        want = wanted[block, threads].astype(np.int64)
        ok = np.asarray((bar.phase & 1) != (want & 1) if op.attr == "parity" else bar.phase > want)
        done[block, threads] = ok
        if ok.any():
            _learn(m, bar, block, np.array(threads)[ok], want[ok], op.attr == "parity")
    if done.any() and op.dst:
        m.put(op.dst[0], Conc(np.array([[True]]), 1), done, True)
    return done


def _learn(m: Machine, bar: Mbar, block: int, threads: NDArray[np.int64], want: NDArray[np.int64],
           parity: bool) -> None:
    """Threads learn of the phase they waited for: the first one it may be, as far as they know."""
    codes = m.who[block, threads]
    known = np.zeros(len(threads), dtype=np.int64)  # phases that each knows to be over
    left = np.ones(len(threads), dtype=bool)
    for number in reversed(range(len(bar.history))):
        if bar.history[number].seq and left.any():
            knows = left & _knows_over(m, bar.history[number], block, codes)
            known[knows], left = number + 1, left & ~knows
    which = np.where((known - want) & 1, known - 1, known) if parity else want
    for number in np.unique(which[which >= known]):
        first = number + 1
        while first and not bar.history[first - 1].seq:
            first -= 1
        for phase in bar.history[first : number + 1]:
            m.extra["arrived"](m, phase.landed, block)
            phase.seq = m.order.by_engine(phase.published)
        m.order.acquire(block, m.strand_of(threads[which == number]),
                        bar.history[number].published)


def _tried_again(m: Machine) -> bool:
    """Tell whether the test at hand, if it fails, is all that happens until it is done again."""
    ops, place = m.program.ops, m.pc + 1
    while place < len(ops) and ops[place].name == "nop":
        place += 1
    for _ in range(8):
        op = ops[place] if place < len(ops) else None
        if op is None or op.name != "branch":
            break
        if op.guard is None:
            place = int(op.attr)
        elif op.guard.reg == ops[m.pc].dst[0]:
            place = int(op.attr) if op.guard.neg else place + 1
        else:
            break
        while place < m.pc and ops[place].name == "nop":
            place += 1
        if place <= m.pc and m.cfg.block_of[place] == m.cfg.block_of[m.pc]:
            return _repeats(ops[place : m.pc], ops[m.pc])
    return False


def _repeats(ops: Sequence[Op], test: Op) -> bool:
    """Tell whether these, before a test, give registers the same again after it."""
    read: set[int] = set()
    for op in ops:
        read |= set(op.reads)
        if OPS[op.name].kind not in ("int", "pred", "move") or read & set(op.dst):
            return False
    return not read & set(test.dst)


def _wait_mbar(m: Machine, op: Op, on: Mask | None) -> Mask | None:
    if not _tried_again(m):
        raise m.unsupported("mbarrier", "a test of an mbarrier that is not done again until it "
                                        "holds: the answer is a matter of time")
    full = m.full(on) & m.live
    done = _test(m, op, full)
    return None if (done | ~full).all() else done


def _wake_mbar(m: Machine, op: Op, fragment: Fragment) -> Mask:
    return _test(m, op, fragment.mask)


WAITS = {"barrier": _barrier, "mbar_test": _wait_mbar}
WAKES = {"barrier": _wake_barrier, "mbar_test": _wake_mbar}
_BODIES: dict[str, Callable[..., None]] = {
    "mbar_init": _init, "mbar_inval": _inval, "mbar_arrive": _mbar_arrive, "mbar_expect": _expect,
}
