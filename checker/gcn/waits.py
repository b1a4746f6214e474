"""Missing waits and wait states: registers used before the memory counter says they are there.

In: blocks of instructions and what each reads and writes. Out: findings (site, message). Counters:
vmcnt/lgkmcnt/vscnt up to gfx11, loadcnt/dscnt/kmcnt/storecnt on gfx12. Scalar loads return out of
order, so only a wait for 0 covers them. Hazards (gfx9 family only, later units interlock):
DPP 2 states after a vector write, lane select 4 and `v_div_fmas` 4 after a scalar or vcc write by a
vector operation, on gfx94x `v_readlane` 1 and scalars read by vector operations 2, and from CDNA2
on a matrix result until it is there: by tile, the fewest states that a compiler leaves (a lower
bound: more blocks take longer; results that the next matrix step reads are not checked). Source:
CDNA3 ISA 4.4 and 4.5, LLVM SIInsertWaitcnts and GCNHazardRecognizer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from checker.gcn.target import Target
from checker.syntax import Immediate, Instruction, Modifier, Name, Vector

__all__ = ["Effect", "check_waits"]

Register = tuple[str, int]
#: register -> (later events on the counter, only a wait for zero covers it)
Pending = dict[Register, tuple[int, bool]]

_CAP = 64
#: accesses that a counter can count at most: one more is not issued before the oldest has returned
_MOST = {"vmcnt": 63, "loadcnt": 63}
_MAX_AGE = 6

#: wait states from a matrix step to a read of its result outside matrix steps, by rows of its tile:
#: CDNA2, then CDNA3 and later for products of fewer than 32 bits, then for those of f32
_MATRIX_STATES = {"4x4": (5, 5, 4), "16x16": (11, 7, 10), "32x32": (19, 11, 18)}


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
    """Pending registers by counter, and the age in wait states of recent vector writes."""

    pending: dict[str, Pending]
    recent: dict[tuple[str, Register], int]
    matrix: dict[Register, int]  # wait states until a matrix result may be read

    def copy(self) -> _State:
        return _State({k: dict(v) for k, v in self.pending.items()}, dict(self.recent),
                      dict(self.matrix))

    def merge(self, other: _State) -> bool:
        """Take the worse of both; True if something changed."""
        changed = False
        for counter, theirs in other.pending.items():
            ours = self.pending.setdefault(counter, {})
            for reg, (later, zero) in theirs.items():
                old = ours.get(reg)
                new = (later, zero) if old is None else (min(old[0], later), old[1] or zero)
                if new != old:
                    ours[reg] = new
                    changed = True
        for key, age in other.recent.items():
            if age < self.recent.get(key, _MAX_AGE):
                self.recent[key] = age
                changed = True
        for reg, left in other.matrix.items():
            if left > self.matrix.get(reg, 0):
                self.matrix[reg] = left
                changed = True
        return changed


def check_waits(graph: list[tuple[list[tuple[int, Instruction]], list[int]]],
                effects: dict[int, Effect], target: Target) -> list[tuple[int, str]]:
    """Return (site, message) for each use of a register before its wait, each site once."""
    if not graph:
        return []
    entry: list[_State | None] = [None] * len(graph)
    entry[0] = _State({}, {}, {})
    work = [0]
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
                _step(state, site, inst, effect, target, found)
        for s in succs:
            known = entry[s]
            if known is None:
                entry[s] = state.copy()
                work.append(s)
            elif known.merge(state) and s not in work:
                work.append(s)
    return sorted(found.items())


def _step(state: _State, site: int, inst: Instruction, effect: Effect, target: Target,
          found: dict[int, str]) -> None:
    opcode = inst.opcode
    if opcode.startswith(("s_wait", "s_waitcnt")):
        _wait(state, inst, target)
        _age(state, 1)
        return
    if opcode == "s_nop":
        op = inst.operands[0] if inst.operands else None
        _age(state, op.value + 1 if isinstance(op, Immediate) else 1)
        return
    message = _too_early(state, effect) or _hazard(state, inst, effect, target)
    if message:
        found.setdefault(site, message)
    _age(state, 1)
    if opcode.startswith(("s_branch", "s_cbranch")):
        _end_matrix(state, 1)  # blocks are placed after a compiler counted: one more or one less
    _record(state, inst, effect, target)


def _too_early(state: _State, effect: Effect) -> str:
    for counter, pending in state.pending.items():
        for reg in pending:
            if reg in effect.reads:
                return f"{_name(reg)} is read before the wait on {counter}"
            if reg in effect.writes:
                return f"{_name(reg)} is overwritten before the wait on {counter}"
    return ""


def _name(reg: Register) -> str:
    return {("s", 106): "vcc_lo", ("s", 107): "vcc_hi", ("s", 126): "exec_lo",
            ("s", 127): "exec_hi"}.get(reg, f"{reg[0]}{reg[1]}")


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
    return [(name, kind in ("smem", "flat")) for name in table.get(kind, ())]


def _record(state: _State, inst: Instruction, effect: Effect, target: Target) -> None:
    for counter, zero in _counters(effect.counter, target):
        pending = state.pending.setdefault(counter, {})
        if effect.counter != "smem":
            for reg, (later, only_zero) in list(pending.items()):
                pending[reg] = (min(later + 1, _CAP), only_zero)
                if not only_zero and later + 1 >= _MOST.get(counter, _CAP + 1):
                    del pending[reg]
        if effect.counter in ("vmem", "lds", "smem", "flat"):
            for reg in effect.writes:
                pending[reg] = (0, zero)
    for reg in effect.writes:
        state.matrix.pop(reg, None)
    states = _matrix_states(inst.opcode, target)
    if states:
        state.matrix |= dict.fromkeys(effect.writes, states)
    elif not effect.counter and inst.opcode.startswith("v_"):
        kind = "trans" if re.match(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_", inst.opcode) else "vector"
        for reg in effect.writes:
            state.recent[kind, reg] = 0
    elif inst.opcode.startswith("s_"):
        for reg in effect.writes:
            for kind in ("vector", "trans"):
                state.recent.pop((kind, reg), None)


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


# --- wait states


def _age(state: _State, states: int) -> None:
    for key in list(state.recent):
        state.recent[key] += states
        if state.recent[key] >= _MAX_AGE:
            del state.recent[key]
    _end_matrix(state, states)


def _end_matrix(state: _State, states: int) -> None:
    if state.matrix:
        state.matrix = {reg: left - states for reg, left in state.matrix.items() if left > states}


def _matrix_states(opcode: str, target: Target) -> int:
    """Wait states that a matrix step's result takes at least; 0: not a step, or not known."""
    match = re.match(r"v_mfma_[fi]32_(4x4|16x16|32x32)x\d+\D", opcode)
    if match is None or target.cdna < 2:
        return 0
    columns = _MATRIX_STATES[match[1]]
    return columns[0 if target.cdna == 2 else 2 if opcode.endswith("f32") and "xf32" not in opcode
                   else 1]


def _hazard(state: _State, inst: Instruction, effect: Effect, target: Target) -> str:
    if target.major != 9:
        return ""
    if state.matrix and not inst.opcode.startswith(("v_mfma", "v_smfmac")):
        for reg in effect.reads & state.matrix.keys():
            left = state.matrix[reg]
            return f"{_name(reg)} is read {left} wait states before its matrix step ends"
    for reg in effect.dpp_reads:
        if _recent(state, reg) < 2:
            return f"{_name(reg)} is read by DPP within 2 wait states of its vector write"
    if inst.opcode.startswith(("v_readlane", "v_writelane")):
        selector = _selector(inst)
        if selector is not None and _recent(state, selector) < 4:
            return f"{_name(selector)} selects a lane within 4 wait states of its vector write"
    if target.cdna >= 3 and inst.opcode.startswith("v_"):
        for reg in effect.reads:
            if reg[0] == "s" and reg[1] < 126 and _recent(state, reg) < 2:
                return f"{_name(reg)} is read within 2 wait states of its vector write"
    if inst.opcode.startswith("v_div_fmas") and _recent(state, ("s", 106)) < 4:
        return "vcc is read by v_div_fmas within 4 wait states of its vector write"
    if target.cdna >= 3 and inst.opcode.startswith(("v_readlane", "v_readfirstlane")):
        for reg in effect.lane_reads:
            if _recent(state, reg) < 1:
                return f"{_name(reg)} is read by a lane read right after its vector write"
    return ""


def _selector(inst: Instruction) -> Register | None:
    """The scalar register that says which lane is read or written."""
    op = inst.operands[2] if len(inst.operands) > 2 else None
    name = op.name if isinstance(op, Name) else ""
    if re.fullmatch(r"s\d+", name):
        return "s", int(name[1:])
    return {"vcc_lo": ("s", 106), "vcc_hi": ("s", 107)}.get(name)


def _recent(state: _State, reg: Register) -> int:
    return min(state.recent.get(("vector", reg), _MAX_AGE),
               state.recent.get(("trans", reg), _MAX_AGE))
