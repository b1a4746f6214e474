"""What gfx10 to gfx12 do not wait for by themselves: results that are handed on too late.

In: instructions in turn, with what each reads and writes. Out: a message for each that comes too
early: a matrix step that multiplies the one before it, a slow result, a vector result made around a
change of exec, a scalar that vector operations read and that was written again. Which generation
and which wave size is asked of `Target`. Source: LLVM GCNHazardRecognizer, AMDGPUWaitSGPRHazards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checker.gcn.hazards import Accesses, Register, name_of, places, registers_of, wait_states
from checker.gcn.machine import EXEC, M0, VCC
from checker.gcn.target import Target
from checker.syntax import Immediate, Instruction, Modifier, Vector

__all__ = ["Interlocks"]

_SLOW = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_MATRIX = ("v_wmma", "v_swmmac")
_FLOAT = re.compile(r"_f(16|32|64|min|max|cmpswap)|bf16")
_MASKED = re.compile(r"v_(cndmask|div_fmas|add_co_ci|sub_co_ci|subrev_co_ci)")
_VCC = {("s", VCC), ("s", VCC + 1)}
_MEMORY = ("vmem", "flat", "lds")  # how the counters of vector memory begin

#: vector operations after a slow one, and slow ones after it, that are too few to wait for it
_FEW, _FEW_SLOW = 5, 1
#: vector operations around a change of exec (before and after it together), and up to the use
_AROUND, _UP_TO_USE = 2, 4

#: fields of `s_wait_alu`: name -> (shift, mask); 0 waits for all
_FIELDS = {"sa_sdst": (0, 1), "va_vcc": (1, 1), "va_sdst": (9, 7), "va_vdst": (12, 15)}


@dataclass(slots=True)
class Interlocks:
    """What was written lately, by what, and how many vector operations ago.

    product: the last matrix result while no vector operation has followed it.
    slow: (register of a slow result, slow operations since) -> vector operations since.
    written: register -> (vector operations since, those from the last change of exec to it).
    changed: how many vector operations ago a scalar operation may have changed exec.
    watched: scalar registers that vector operations have read.
    uncommitted: (such a register that was written again, the field that waits for it).
    """

    target: Target
    wave: int
    product: set[Register] = field(default_factory=set)
    slow: dict[tuple[Register, int], int] = field(default_factory=dict)
    written: dict[Register, frozenset[tuple[int, int]]] = field(default_factory=dict)
    changed: frozenset[int] = frozenset()
    watched: set[Register] = field(default_factory=set)
    uncommitted: set[tuple[Register, str]] = field(default_factory=set)
    compared: bool = False  # exec was written by a compare and no vector operation followed
    atomic: int = 9  # states since a float atomic

    def copy(self) -> Interlocks:
        """Return a state of its own."""
        return Interlocks(self.target, self.wave, set(self.product), dict(self.slow),
                          dict(self.written), self.changed, set(self.watched),
                          set(self.uncommitted), self.compared, self.atomic)

    def merge(self, other: Interlocks) -> bool:
        """Take the worse of both; True if something changed."""
        before = self.copy()
        self.product |= other.product
        for key, since in other.slow.items():
            self.slow[key] = min(since, self.slow.get(key, since))
        for reg, pairs in other.written.items():
            self.written[reg] = self.written.get(reg, frozenset()) | pairs
        self.changed |= other.changed
        self.watched |= other.watched
        self.uncommitted |= other.uncommitted
        self.compared |= other.compared
        self.atomic = min(self.atomic, other.atomic)
        return before != self

    def step(self, inst: Instruction, accesses: Accesses) -> str:
        """Say what an instruction uses too early, empty if nothing, and note what it writes."""
        opcode = inst.opcode
        message = self._early(inst, accesses)
        if opcode.startswith(("s_waitcnt_depctr", "s_wait_alu")):
            self._wait(inst)
        elif accesses.counter.startswith(_MEMORY):
            self._memory(opcode)
        elif opcode.startswith("v_"):
            self._vector(inst, accesses)
        elif accesses.counter == "smem":
            if not opcode.startswith("s_sendmsg") and self.target.major == 12:
                self.uncommitted.clear()
        else:
            self._scalar(inst, accesses)
        self.atomic = 0 if "atomic" in opcode and _FLOAT.search(opcode) else \
            9 if opcode.startswith(("v_", "s_wait")) else min(self.atomic + wait_states(inst), 9)
        return message

    # -- uses

    def _early(self, inst: Instruction, accesses: Accesses) -> str:
        opcode, target = inst.opcode, self.target
        vector = opcode.startswith("v_")
        if opcode.startswith(_MATRIX):
            index = opcode.startswith("v_swmmac")
            factors = {r for p in places(inst)[1:3 + index] for r in registers_of(p)}
            for reg in sorted(factors & self.product):
                return f"{name_of(reg)} is a factor of the matrix step after the one that makes it"
        if self.compared and opcode.startswith("v_permlane"):
            return "exec is used by a permute straight after a vector compare has written it"
        if opcode.startswith("s_denorm_mode") and self.atomic < 3 and target.major == 10:
            return "the denormal mode changes within 3 wait states of a float atomic"
        if vector:
            for reg, _ in sorted(self.slow):
                if reg in accesses.reads:
                    return f"{name_of(reg)} is read before the slow operation that makes it ends"
            message = self._forwarded(accesses)
            if message:
                return message
        if vector or (opcode.startswith("s_") and not accesses.counter):
            for reg, by in sorted(self.uncommitted):
                if reg in accesses.reads and (vector or by == "sa_sdst"):
                    return f"{name_of(reg)} is read before a wait on {by} for what was written"
        return ""

    def _forwarded(self, accesses: Accesses) -> str:
        """Of two results that one operation reads, one was made before exec changed, one after."""
        read = [(reg, pair) for reg in sorted(accesses.reads & self.written.keys())
                for pair in self.written[reg]]
        for reg, (after, gap) in read:
            for other, (age, _) in read:
                before = age - (after + 1 + gap)
                if other != reg and after <= _UP_TO_USE and before >= 0 and \
                        before + gap <= _AROUND:
                    return (f"{name_of(other)} and {name_of(reg)} are read while they are written "
                            "on two sides of a change of exec")
        return ""

    # -- writes

    def _wait(self, inst: Instruction) -> None:
        waited = _waited(inst)
        self.uncommitted = {(reg, by) for reg, by in self.uncommitted if by not in waited}
        if "va_vdst" in waited:
            self._landed()

    def _landed(self) -> None:
        """All vector results are in their registers."""
        self.slow.clear()
        self.written.clear()

    def _memory(self, opcode: str) -> None:
        self._landed()
        if self.target.major == 12 and opcode.startswith(("buffer_", "tbuffer_", "image_")):
            self.uncommitted.clear()

    def _vector(self, inst: Instruction, accesses: Accesses) -> None:
        opcode, target = inst.opcode, self.target
        vectors = {r for r in accesses.writes if r[0] == "v"}
        self.product = vectors if opcode.startswith(_MATRIX) else set()
        if not opcode.startswith("v_nop"):
            self.compared = opcode.startswith("v_cmpx") and target.major == 11
        slow = _SLOW.match(opcode) is not None
        if target.slow_results:
            self.slow = {(reg, passed + slow): since + 1 for (reg, passed), since in
                         self.slow.items() if since < _FEW and passed + slow <= _FEW_SLOW}
            if slow:
                self.slow |= {(reg, 0): 0 for reg in vectors}
        if target.major == 11 and self.wave == 64:
            self._note_parts(vectors)
        self._note_scalars(inst, accesses)

    def _note_parts(self, vectors: set[Register]) -> None:
        last = _AROUND + 1 + _UP_TO_USE
        self.written = {reg: frozenset((age + 1, gap) for age, gap in pairs if age < last)
                        for reg, pairs in self.written.items()}
        for reg in vectors:  # without a change of exec before it, far from any
            self.written[reg] = frozenset((0, gap) for gap in self.changed or {last})
        self.changed = frozenset(n + 1 for n in self.changed if n < _AROUND)

    def _note_scalars(self, inst: Instruction, accesses: Accesses) -> None:
        opcode, target = inst.opcode, self.target
        for reg in {r for r in accesses.writes if _counted(r)} & self.watched:
            by = "va_vcc" if reg in _VCC else "va_sdst"
            self._written_again(reg, by)
        reads = {r for r in accesses.reads if _counted(r)}
        if target.major == 12:
            self.watched |= {(f, n ^ k) for f, n in reads for k in (0, 1)}
        elif target.major == 11 and self.wave == 64 and _MASKED.match(opcode):
            at = 4 if "_co_ci_" in opcode else 3
            mask = _VCC if "fmas" in opcode else registers_of(places(inst)[at])
            self.watched |= mask & reads

    def _scalar(self, inst: Instruction, accesses: Accesses) -> None:
        if _changes_exec(inst):
            self.changed = frozenset({0})
        for reg in {r for r in accesses.reads if _counted(r)} & self.watched \
                if self.target.major == 12 else ():
            vcc = reg in _VCC  # a scalar that is read has waited for vector results
            self.uncommitted = {(r, by) for r, by in self.uncommitted
                                if by != ("va_vcc" if vcc else "va_sdst")}
        for reg in {r for r in accesses.writes if _counted(r)} & self.watched:
            self._written_again(reg, "sa_sdst")

    def _written_again(self, reg: Register, by: str) -> None:
        if reg in _VCC:
            self.uncommitted = {(r, kind) for r, kind in self.uncommitted if r != reg}
        self.uncommitted.add((reg, by))
        if self.target.major == 11:
            self.watched.discard(reg)


def _counted(reg: Register) -> bool:
    """Scalar registers that are kept in the register file."""
    return reg[0] == "t" or (reg[0] == "s" and reg[1] < M0)


def _changes_exec(inst: Instruction) -> bool:
    first = places(inst)[:1]
    return "saveexec" in inst.opcode or "wrexec" in inst.opcode or bool(
        first and first[0] is not None and first[0][:2] in (("s", EXEC), ("s", EXEC + 1)))


def _waited(inst: Instruction) -> set[str]:
    """The fields that wait for all."""
    out: set[str] = set()
    operands = list(inst.operands)
    while operands:
        op = operands.pop()
        if isinstance(op, Vector):
            operands += op.items
        elif isinstance(op, Immediate):
            out |= {name for name, (shift, mask) in _FIELDS.items() if not op.value >> shift & mask}
        elif isinstance(op, Modifier) and op.value.strip() in ("0", "0x0"):
            out.add(op.name.removeprefix("depctr_"))
    return out
