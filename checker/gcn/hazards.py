"""Missing wait states of the gfx9 family; for later ones see `interlocks`.

In: instructions in turn, with what each reads and writes. Out: a message for each that comes too
early: before what a vector operation wrote is where the next one looks for it, before a matrix
result is there, or over what a step or store still reads. A matrix step is known by its tile, with
the fewest passes that a tile takes (a lower bound: steps with more products may take longer).
Source: CDNA3 ISA 4.5, LLVM GCNHazardRecognizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from checker.gcn.machine import EXEC, M0, VCC
from checker.gcn.target import Target
from checker.syntax import Immediate, Instruction, Modifier, Name, Operand, Range

__all__ = ["Accesses", "Hazards", "Register", "Watch", "last_registers", "name_of",
           "overlaps_factors", "own_operands", "places", "registers_of", "wait_states"]

Register = tuple[str, int]
Place = tuple[str, int, int]  # file, first and last register

_MAX_AGE = 6
_PACKED = ("v_pk_", "v_mad_mix", "v_fma_mix", "v_dot")
_EXEC = {("s", EXEC), ("s", EXEC + 1)}
_VCC = {("s", VCC), ("s", VCC + 1)}

#: states from a matrix step to a use of its result, by its tile: CDNA2, then CDNA3 for products of
#: fewer than 32 bits (one more on CDNA4), then for those of f32; to a write over what it adds to
_RESULT = {"16x16": (11, 7, 10), "32x32": (19, 11, 18)}
_ADDEND = {"16x16": (7, 3, 0), "32x32": (13, 7, 0)}
#: the same of f64, and where memory reads it: before CDNA4, on CDNA4
_RESULT_F64 = ((11, 18), (19, 18))


class Accesses(Protocol):
    """What an instruction reads and writes."""

    reads: set[Register]
    writes: set[Register]
    dpp_reads: set[Register]
    lane_reads: set[Register]
    counter: str


class Watch(Protocol):
    """What was written lately on the ways to a place, as a use has to know it."""

    def copy(self) -> Self:
        """Return a state of its own."""
        ...

    def merge(self, other: Self) -> bool:
        """Take the worse of both; True if something changed."""
        ...

    def step(self, inst: Instruction, accesses: Accesses) -> str:
        """Say what an instruction uses too early, empty if nothing, and note what it writes."""
        ...


@dataclass(frozen=True, slots=True)
class _Result:
    """A register of a matrix result: states until it is there, all of the result's registers.

    memory: states until a memory access may read it.
    apart: made by another unit than products of fewer than 32 bits; those may add to any part.
    """

    left: int
    memory: int
    place: Place | None
    apart: bool


@dataclass(slots=True)
class Hazards:
    """States since what was written lately; states left of matrix results and addends."""

    target: Target
    recent: dict[tuple[str, Register], int] = field(default_factory=dict)
    matrix: dict[Register, _Result] = field(default_factory=dict)
    added: dict[Register, int] = field(default_factory=dict)

    def copy(self) -> Hazards:
        """Return a state of its own."""
        return Hazards(self.target, dict(self.recent), dict(self.matrix), dict(self.added))

    def merge(self, other: Hazards) -> bool:
        """Take the worse of both; True if something changed."""
        before = (dict(self.recent), dict(self.matrix), dict(self.added))
        for key, age in other.recent.items():
            self.recent[key] = min(age, self.recent.get(key, _MAX_AGE))
        for reg, left in other.added.items():
            self.added[reg] = max(left, self.added.get(reg, 0))
        for reg, theirs in other.matrix.items():
            ours = self.matrix.get(reg, theirs)
            self.matrix[reg] = _Result(max(ours.left, theirs.left),
                                       max(ours.memory, theirs.memory),
                                       ours.place if ours.place == theirs.place else None,
                                       ours.apart and theirs.apart)
        return before != (self.recent, self.matrix, self.added)

    def step(self, inst: Instruction, accesses: Accesses) -> str:
        """Say what an instruction uses too early, empty if nothing, and note what it writes."""
        message = self._check(inst, accesses)
        states = wait_states(inst)
        self.recent = {key: age + states for key, age in self.recent.items()
                       if age + states < _MAX_AGE}
        self._end_matrix(states)
        if inst.opcode.startswith(("s_branch", "s_cbranch")):
            self._end_matrix(1)  # blocks are placed after a compiler counted: one more or less
        self._record(inst, accesses)
        return message

    def _end_matrix(self, states: int) -> None:
        self.matrix = {reg: replace(old, left=old.left - states, memory=old.memory - states)
                       for reg, old in self.matrix.items() if max(old.left, old.memory) > states}
        self.added = {reg: left - states for reg, left in self.added.items() if left > states}

    # -- uses

    def _check(self, inst: Instruction, accesses: Accesses) -> str:
        target = self.target
        vector = inst.opcode.startswith("v_")
        message = ""
        if inst.opcode.startswith("v_mfma"):
            message = self._next_step(inst, target)
        elif (vector or accesses.counter not in ("", "smem")) and (self.matrix or self.added):
            message = self._other_use(accesses)
        for registers, kind, states, what in _rules(inst, accesses, target) if self.recent else ():
            for reg in sorted(registers):
                if not message and self._since(kind, reg) < states:
                    message = f"{name_of(reg)} {what} within {states} wait states of its " + (
                        "store" if kind == "store" else "write" if kind == "scalar" else
                        "vector write")
        return message

    def _since(self, kind: str, reg: Register) -> int:
        return self.recent.get((kind, reg), _MAX_AGE)

    def _other_use(self, accesses: Accesses) -> str:
        for uses, verb in ((accesses.reads, "read"), (accesses.writes, "overwritten")):
            for reg in sorted(uses & self.matrix.keys()):
                result = self.matrix[reg]
                left = result.memory if accesses.counter and verb == "read" else result.left
                if left <= 0:
                    continue
                return f"{name_of(reg)} is {verb} {left} wait states before its matrix step ends"
        for reg in sorted(accesses.writes & self.added.keys()):
            return (f"{name_of(reg)} is overwritten {self.added[reg]} wait states before a matrix "
                    "step has added to it")
        return ""

    def _next_step(self, inst: Instruction, target: Target) -> str:
        """A result as factor, or in part as addend; the whole of it is handed on."""
        products = not inst.opcode.endswith(("f32", "f64")) or "xf32" in inst.opcode
        for i, op in enumerate(inst.operands[1:4]):
            place = _place(op)
            for reg in sorted(registers_of(place) & self.matrix.keys()):
                result = self.matrix[reg]
                spared = 0
                if i == 2:  # the addend is read later than the factors
                    if place == result.place or (result.apart and products):
                        continue
                    spared = 3 if target.cdna == 2 and not result.apart else 2
                if result.left > spared:
                    return (f"{name_of(reg)} is read by a matrix step {result.left - spared} wait "
                            "states before another one ends")
        return ""

    # -- writes

    def _record(self, inst: Instruction, accesses: Accesses) -> None:
        """Note what an instruction writes, adds to or stores."""
        target, opcode = self.target, inst.opcode
        for reg in accesses.writes:
            self.matrix.pop(reg, None)
            for kind in ("vector", "trans", "dot", "part", "scalar"):
                self.recent.pop((kind, reg), None)
        kinds: list[str] = []
        if opcode.startswith("v_mfma"):
            self._record_step(inst, accesses, target)
        elif opcode.startswith("v_"):
            kinds = ["vector", *_special_kinds(inst)]
        elif opcode.startswith("s_") and not accesses.counter:
            kinds = ["scalar"]
        elif accesses.counter in ("vmem_store", "flat_store"):
            for reg in _long_data(inst):
                self.recent["store", reg] = 0
        for kind in kinds:
            for reg in accesses.writes:
                self.recent[kind, reg] = 0

    def _record_step(self, inst: Instruction, accesses: Accesses, target: Target) -> None:
        match = re.match(r"v_mfma_[fi](32|64)_(16x16|32x32)x\d+\D", inst.opcode)
        if match is None or target.cdna < 2:
            return
        f64 = match[1] == "64"
        single = inst.opcode.endswith("f32") and "xf32" not in inst.opcode
        column = 0 if target.cdna == 2 else 2 if single else 1
        left = memory = _RESULT[match[2]][column] + (target.cdna == 4 and column == 1)
        if f64:
            left, memory = _RESULT_F64[target.cdna == 4]
        result = _Result(left, memory, _place(inst.operands[0]), f64 or column == 2)
        self.matrix |= dict.fromkeys(accesses.writes, result)
        if not f64 and _ADDEND[match[2]][column]:
            addend = registers_of(_place(inst.operands[3])) - accesses.writes
            self.added |= dict.fromkeys(addend, _ADDEND[match[2]][column])


def _rules(inst: Instruction, accesses: Accesses, target: Target
           ) -> Iterator[tuple[Set[Register], str, int, str]]:
    """(registers, kind of write, states that must lie between, what happens to them)."""
    opcode, reads = inst.opcode, accesses.reads
    lane = opcode.startswith(("v_readlane", "v_readfirstlane", "v_writelane"))
    if accesses.counter in ("vmem", "vmem_store", "vmem_lds", "flat", "flat_store"):
        yield {r for r in reads if r[0] == "s"}, "vector", 5, "is read by a memory access"
    if accesses.counter == "vmem_lds":
        yield reads & {("s", M0)}, "scalar", 1, "is read by a copy to LDS"
    if not opcode.startswith("v_"):
        return
    if accesses.dpp_reads:
        yield accesses.dpp_reads, "vector", 2, "is read by DPP"
        yield _EXEC, "vector", 5, "is read by DPP"
    if opcode.startswith(("v_readlane", "v_writelane")):
        yield _selector(inst), "vector", 4, "selects a lane"
    if opcode.startswith("v_div_fmas"):
        yield _VCC, "vector", 4, "is read by v_div_fmas"
    yield accesses.writes, "store", 2 if target.cdna >= 3 else 1, "is overwritten"
    if target.cdna >= 2:
        if opcode.startswith("v_mfma"):
            yield _EXEC, "vector", 4, "is read by a matrix step"
            yield {r for r in reads if r[0] != "s"}, "vector", 2, "is read by a matrix step"
        else:
            same = reads & accesses.writes if "dot" in opcode else set()
            yield reads - same, "dot", 3, "is read"
    if target.cdna >= 3:
        yield {r for r in reads if r[0] == "s" and r[1] < EXEC}, "vector", 2, "is read"
        if lane:
            yield accesses.lane_reads, "vector", 1, "is read by a lane read"
            yield _EXEC, "vector", 4, "is read by a lane access"
        if "trans" not in _special_kinds(inst):
            yield reads, "trans", 1, "is read"
        yield reads | accesses.writes, "part", 1, "is used"
    if target.cdna == 4 and "_swap_" in opcode:
        yield {r for r in reads if r[0] != "s"}, "vector", 2, "is swapped"


def _special_kinds(inst: Instruction) -> list[str]:
    """What a vector operation is besides: of the slow unit, a dot product, a write of a half."""
    out = []
    if re.match(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_", inst.opcode):
        out.append("trans")
    if inst.opcode.startswith("v_dot"):
        out.append("dot")
    modifiers = {op.name: op.value for op in inst.operands if isinstance(op, Modifier)}
    chosen = modifiers.get("op_sel", "").strip("[]").split(",")  # sources, then parts of the result
    sources = sum(not isinstance(op, Modifier) for op in inst.operands) - 1
    if modifiers.get("dst_sel", "DWORD") != "DWORD" or (
            not inst.opcode.startswith(_PACKED) and "1" in chosen[sources:]):
        out.append("part")
    return out


def _selector(inst: Instruction) -> set[Register]:
    """The scalar register that says which lane is read or written."""
    place = _place(inst.operands[2]) if len(inst.operands) > 2 else None
    return {r for r in registers_of(place) if r[0] == "s"}


def _long_data(inst: Instruction) -> set[Register]:
    """What a store of more than 64 bits stores, where the next instruction may overwrite it."""
    buffer = inst.opcode.startswith("buffer_")
    operands = inst.operands
    if len(operands) < 2 or (buffer and not (
            len(operands) > 3 and isinstance(operands[3], Immediate))):
        return set()
    place = _place(operands[0 if buffer else 1])
    return registers_of(place) if place is not None and place[2] - place[1] > 1 else set()


def _place(op: Operand) -> Place | None:
    """The registers of an operand."""
    if isinstance(op, Range):
        return op.file, op.first, op.last
    if isinstance(op, Name):
        name, _, half = op.name.partition("_")
        if name in ("vcc", "exec") and half in ("", "lo", "hi"):
            first = VCC if name == "vcc" else EXEC
            return "s", first + (half == "hi"), first + (half != "lo")
        if name == "m0":
            return "s", M0, M0
        if re.fullmatch(r"[vas]\d+", op.name):
            return op.name[0], int(op.name[1:]), int(op.name[1:])
    return None


def wait_states(inst: Instruction) -> int:
    """How many wait states pass with an instruction."""
    op = inst.operands[0] if inst.opcode == "s_nop" and inst.operands else None
    return op.value + 1 if isinstance(op, Immediate) else 1


def places(inst: Instruction) -> list[Place | None]:
    """The registers of each operand; None for one that is none."""
    return [_place(op) for op in inst.operands]


def registers_of(place: Place | None) -> set[Register]:
    """All registers of a place."""
    return {(place[0], n) for n in range(place[1], place[2] + 1)} if place is not None else set()


def name_of(reg: Register) -> str:
    """A register as the text names it."""
    return {("s", VCC): "vcc_lo", ("s", VCC + 1): "vcc_hi", ("s", EXEC): "exec_lo",
            ("s", EXEC + 1): "exec_hi", ("s", M0): "m0"}.get(reg, f"{reg[0]}{reg[1]}")


def last_registers(used: Set[Register]) -> set[Register]:
    """Vector registers that may be the last of those a wave gets, which it gets by eights."""
    return {(f, n) for f, n in used if f == "v" and n % 8 == 7 and (f, n + 1) not in used}


def overlaps_factors(inst: Instruction) -> bool:
    """Whether a matrix step that adds a constant writes more than four registers over its factors.

    LLVM forbids it, and let it happen up to version 21: a register that it had put aside for the
    addend was forgotten where a constant took the addend's place. Such kernels are in use.
    """
    if not inst.opcode.startswith(("v_mfma_f32", "v_mfma_i32")) or not isinstance(
            inst.operands[3], Immediate):
        return False
    result, *factors = (registers_of(place) for place in places(inst)[:3])
    return len(result) > 4 and any(result & factor for factor in factors)


def own_operands(inst: Instruction, target: Target, last: Set[Register]) -> str:
    """Say which operand an operation overwrites before it has read it, or cannot read at all.

    last: the registers of `last_registers`.
    """
    opcode = inst.opcode
    if target.cdna == 2 and re.match(r"v_(lshlrev|lshrrev|ashrrev)_[bi]64", opcode):
        for reg in sorted(registers_of(places(inst)[1]) & last):
            return f"{name_of(reg)} is the last register, and 64 bits are shifted by it"
        return ""
    wide = opcode.startswith(("v_mad_u64_u32", "v_mad_i64_i32")) and target.major == 11
    if not wide and not opcode.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")):
        return ""
    at = places(inst)
    result, sources = at[0], at[2 if wide else 1:]
    if result is None or overlaps_factors(inst) or (
            opcode.startswith("v_mfma") and result[2] - result[1] < 4):
        return ""  # read whole before the first is written
    for i, source in enumerate(sources):
        if wide and i == 2 and source is not None and source[2] == result[1]:
            continue  # nobody knows what becomes of the high half: the row says so
        for reg in sorted(registers_of(source) & registers_of(result)):
            if wide or i < 2 or source != result:
                return f"{name_of(reg)} is overwritten by the operation that reads it"
    return ""
