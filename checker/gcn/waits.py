"""Missing waits and wait states: registers used before the memory counter says they are there.

In: blocks of instructions and what each reads and writes. Out: findings (site, message), and which
barriers come too early for what the wave stores or reads, and in which memory. Counters: vmcnt,
lgkmcnt and vscnt up to gfx11, loadcnt, dscnt, kmcnt and storecnt on gfx12. Scalar loads return in
any order, so only a wait for 0 covers them. What else a wave does not wait for by itself: `hazards`
(gfx9), `interlocks` (later). Source: CDNA3 ISA 4.4, LLVM SIInsertWaitcnts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checker.gcn.hazards import Hazards, Register, Watch, last_registers, name_of, own_operands
from checker.gcn.interlocks import Interlocks
from checker.gcn.target import Target
from checker.syntax import Immediate, Instruction, Modifier, Vector

__all__ = ["Effect", "check_waits"]

#: register -> (later events on the counter, only a wait for zero covers it)
Pending = dict[Register, tuple[int, bool]]

LDS, GLOBAL = "lds", "global"
#: stand for the group's memory and for all others: the last access in the order of the text
_MEMORIES: dict[str, Register] = {LDS: (LDS, 0), GLOBAL: (GLOBAL, 0)}
_BARRIERS = ("s_barrier", "s_barrier_signal", "s_barrier_wait")
_EXCHANGES = ("ds_bpermute", "ds_swizzle")
_CAP = 64
#: accesses that a counter can count at most: one more is not issued before the oldest has returned
_MOST = {"vmcnt": 63, "loadcnt": 63}


@dataclass(slots=True)
class Effect:
    """What one instruction reads and writes, and which counter tracks it."""

    reads: set[Register]
    writes: set[Register]
    dpp_reads: set[Register]
    lane_reads: set[Register]
    counter: str


@dataclass(slots=True)
class _State:
    """Pending registers by counter, and what was written a few wait states ago."""

    hazards: Watch
    pending: dict[str, Pending] = field(default_factory=dict)
    #: at the last signal of a barrier; its wait follows in the block
    signalled_early: frozenset[str] = frozenset()

    def copy(self) -> _State:
        return _State(self.hazards.copy(), {k: dict(v) for k, v in self.pending.items()})

    def merge(self, other: _State) -> bool:
        """Take the worse of both; True if something changed."""
        changed = self.hazards.merge(other.hazards)
        for counter, theirs in other.pending.items():
            ours = self.pending.setdefault(counter, {})
            for reg, (later, zero) in theirs.items():
                old = ours.get(reg)
                new = (later, zero) if old is None else (min(old[0], later), old[1] or zero)
                if new != old:
                    ours[reg] = new
                    changed = True
        return changed


def check_waits(graph: list[tuple[list[tuple[int, Instruction]], list[int]]],
                effects: dict[int, Effect], target: Target, wave: int
                ) -> tuple[list[tuple[int, str]], dict[int, frozenset[str]]]:
    """Return (site, message) for each use of a register before its wait, each site once.

    Also the sites of barriers that a wave may come to while its accesses to the group's memory or
    to others are under way, and which: these are not ordered.
    """
    early: dict[int, frozenset[str]] = {}
    if not graph:
        return [], early
    entry: list[_State | None] = [None] * len(graph)
    entry[0] = _State(Hazards(target) if target.major == 9 else Interlocks(target, wave))
    work = [0]
    last = last_registers({r for effect in effects.values() for r in effect.reads | effect.writes})
    found: dict[int, str] = {}
    while work:  # ends: each merge makes an entry worse, and there is a worst
        i = work.pop()
        start = entry[i]
        assert start is not None
        state = start.copy()
        insts, succs = graph[i]
        for site, inst in insts:
            effect = effects.get(site)
            if effect is not None:
                _step(state, site, inst, effect, target, last, found)
                under_way = _under_way(state, inst.opcode) if inst.opcode in _BARRIERS else None
                if under_way:
                    early[site] = early.get(site, frozenset()) | under_way
        for s in succs:
            known = entry[s]
            if known is None:
                entry[s] = state.copy()
                work.append(s)
            elif known.merge(state) and s not in work:
                work.append(s)
    return sorted(found.items()), early


def _under_way(state: _State, opcode: str) -> frozenset[str]:
    """The memories that a wave may still be accessing where it arrives at a barrier."""
    if opcode != "s_barrier_wait":
        state.signalled_early = frozenset(
            name for name, reg in _MEMORIES.items()
            if any(reg in pending for pending in state.pending.values()))
    return state.signalled_early


def _step(state: _State, site: int, inst: Instruction, effect: Effect, target: Target,
          last: set[Register], found: dict[int, str]) -> None:
    early = state.hazards.step(inst, effect)
    message = own_operands(inst, target, last) or _too_early(state, effect, target) or early
    if message:
        found.setdefault(site, message)
    if inst.opcode.startswith("s_wait"):
        _wait(state, inst, target)
    else:
        _record(state, inst, effect, target)


def _too_early(state: _State, effect: Effect, target: Target) -> str:
    in_turn = {name for name, unordered in _counters(effect.counter, target) if not unordered}
    for counter, pending in state.pending.items():
        for reg, (_, only_zero) in pending.items():
            if reg in effect.reads:
                return f"{name_of(reg)} is read before the wait on {counter}"
            if reg in effect.writes and (only_zero or counter not in in_turn):
                return f"{name_of(reg)} is overwritten before the wait on {counter}"
    return ""


# --- counters


def _counters(kind: str, target: Target) -> list[tuple[str, bool]]:
    """(counter, out of order) that an access of a kind increments."""
    if target.major >= 12:
        table = {"vmem": ["loadcnt"], "vmem_store": ["storecnt"], "vmem_lds": ["loadcnt"],
                 "lds": ["dscnt"], "lds_store": ["dscnt"], "smem": ["kmcnt"],
                 "flat": ["loadcnt", "dscnt"], "flat_store": ["storecnt", "dscnt"]}
    else:
        stores = "vscnt" if target.major >= 10 else "vmcnt"
        table = {"vmem": ["vmcnt"], "vmem_store": [stores], "vmem_lds": ["vmcnt"],
                 "lds": ["lgkmcnt"], "lds_store": ["lgkmcnt"], "smem": ["lgkmcnt"],
                 "flat": ["vmcnt", "lgkmcnt"], "flat_store": [stores, "lgkmcnt"]}
    unordered = kind == "smem" or (kind.startswith("flat") and target.major <= 9)
    return [(name, unordered) for name in table.get(kind, ())]


def _record(state: _State, inst: Instruction, effect: Effect, target: Target) -> None:
    memories = [_MEMORIES[name] for name in _memories(inst, effect)]
    for counter, zero in _counters(effect.counter, target):
        pending = state.pending.setdefault(counter, {})
        if not zero:
            for reg, (later, only_zero) in list(pending.items()):
                pending[reg] = (min(later + 1, _CAP), only_zero)
                if not only_zero and later + 1 >= _MOST.get(counter, _CAP + 1):
                    del pending[reg]
        if effect.counter in ("vmem", "lds", "smem", "flat"):
            for reg in effect.writes:
                pending[reg] = (0, zero)
        for memory in memories:
            pending[memory] = (0, zero)


def _memories(inst: Instruction, effect: Effect) -> tuple[str, ...]:
    """The memories that an instruction may access."""
    if effect.counter.startswith("lds"):
        return (LDS,) if not inst.opcode.startswith(_EXCHANGES) else ()
    return (LDS, GLOBAL) if effect.counter.startswith("flat") else (GLOBAL,)


_WAITS = {"vmcnt": "vmcnt", "lgkmcnt": "lgkmcnt", "vscnt": "vscnt"}


def _wait(state: _State, inst: Instruction, target: Target) -> None:
    """Apply a wait instruction to the counters it names."""
    opcode = inst.opcode
    numbers = [o.value for o in inst.operands if isinstance(o, Immediate)]
    if opcode == "s_waitcnt":
        given = _named(inst)
        if numbers and not given:
            given = _packed(numbers[0], target)
        for counter, limit in given.items():
            _drain(state, counter, limit)
        return
    if opcode == "s_wait_idle":
        state.pending.clear()
        return
    match = re.match(r"s_wait(?:cnt)?_(\w+)", opcode)
    if match is None or not numbers:
        return
    names, value = match[1].split("_"), numbers[-1]
    if len(names) == 2:  # s_wait_loadcnt_dscnt: six bits each
        _drain(state, names[0], value >> 8 & 63)
        _drain(state, names[1], value & 63)
    else:
        _drain(state, names[0], value)


def _named(inst: Instruction) -> dict[str, int]:
    out: dict[str, int] = {}
    operands = list(inst.operands)
    while operands:
        op = operands.pop()
        if isinstance(op, Vector):
            operands += op.items
        elif isinstance(op, Modifier) and op.name.removesuffix("_sat") in _WAITS:
            try:
                out[op.name.removesuffix("_sat")] = int(op.value, 0)
            except ValueError:
                continue
    return out


def _packed(value: int, target: Target) -> dict[str, int]:
    """The counters of a numeric `s_waitcnt`."""
    if target.major >= 11:
        return {"vmcnt": value >> 10 & 63, "lgkmcnt": value >> 4 & 63}
    lgkm = value >> 8 & (63 if target.major >= 10 else 15)
    return {"vmcnt": (value & 15) | (value >> 14 & 3) << 4, "lgkmcnt": lgkm}


def _drain(state: _State, counter: str, limit: int) -> None:
    """At most `limit` accesses are outstanding: older in-order ones are done."""
    pending = state.pending.get(counter)
    if pending is None:
        return
    if limit == 0:
        pending.clear()
        return
    for reg in [r for r, (later, zero) in pending.items() if not zero and limit <= later]:
        del pending[reg]
