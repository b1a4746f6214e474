"""Clamps to [0, 1]: the assembler makes one saturating operation of a minimum and a maximum.

In: Program. Out: Program in which the later operation of such a pair saturates what the earlier
one was given. The manual has min(NaN, 1) = 1, so that max(min(x, 1), 0) is 1 for a NaN; the machine
code (`FADD.SAT`, or `.SAT` on what made x; `HADD2.SAT`) gives 0. max(x, -0) before a minimum with 1
loses its sign of zero likewise. min(max(x, 0), 1) means the same as the saturating operation and
stays as it is.

Read off the machine code of ptxas 12.8, 12.9 and 13.0 for sm_80, 90 and 100, and measured on an
H200: f32 and scalar f16; whether or not the first result has other uses; through moves, words and
two sign changes; a guard on the second operation does not matter; a choice by comparison counts as
the minimum or maximum that it is. Not: packed halves, bf16, f64, `.NaN`, one sign change, a first
operation under a guard, or paths or a choice between the two. Not certain: the pair in two blocks
of a program with loops, a bound that follows from literals by more than moves.
"""

from __future__ import annotations

from dataclasses import replace

from checker.contract.fusion import Pass
from checker.contract.literals import known_literals
from checker.contract.words import MEASURED, TARGETS, UNCERTAIN
from checker.core import Compare, Const, FloatMode, Op, Program, Source

__all__ = ["saturate"]

#: type -> 1.0 and the sign bit; +0 is 0
_BITS = {"f32": (0x3F800000, 0x80000000), "f16": (0x3C00, 0x8000)}
_ONES = {one for one, _sign in _BITS.values()}

#: a comparison of x with a literal under which `p ? x : literal` is the minimum, or the maximum,
#: that takes a NaN for no number; and the same of `p ? literal : x`
_FIRST = {"fmin": ("lt", "le"), "fmax": ("gt",)}
_SECOND = {"fmin": ("geu", "gtu"), "fmax": ("leu",)}
_MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ltu": "gtu", "leu": "geu",
           "gtu": "ltu", "geu": "leu"}


def saturate(program: Program) -> Program:
    """Return the program with such pairs as the assembler reads them, its premises extended."""
    names = {op.name for op in program.ops}
    if "fmin" not in names and not ("select" in names and _ONES & {
            c.bits for c in (*known_literals(program).values(),
                             *(s for op in program.ops for s in op.src if isinstance(s, Const)))}):
        return program
    return _Clamps(program).run()


class _Clamps(Pass):
    def run(self) -> Program:
        """Read every operation, each pair once."""
        self.premises: set[str] = set()
        ops = tuple(self.read(i) for i in range(len(self.ops)))
        if not self.premises:
            return self.program
        return replace(self.program, ops=ops, premises=self.program.premises | self.premises)

    def read(self, index: int) -> Op:
        """Return an operation, saturating if it is the second one of such a pair."""
        op = self.ops[index]
        last = self._bound(op, index)
        if last is None:
            return op
        kind, mode, x, bits = last
        one, sign = _BITS[mode.type]
        if kind == "fmax" and bits in (0, sign):
            return self._pair(index, "fmin", (one,), x, mode)
        if kind == "fmin" and bits == one:
            return self._pair(index, "fmax", (sign,), x, mode)
        return op

    def _pair(self, index: int, kind: str, bits: tuple[int, ...], source: Source,
              mode: FloatMode) -> Op:
        """Read the second operation of a pair: the first one is `kind` with one of these bounds."""
        op = self.ops[index]
        at, certain = self._first(source, index)
        if at is None:
            return op
        first = self._bound(self.ops[at], at)
        if first is None and self.ops[at].name == kind and self.computed.intersection(
                s for s in self.ops[at].src if isinstance(s, int)):
            self.premises.add(UNCERTAIN)
        if first is None or first[0] != kind or first[1].type != mode.type or first[3] not in bits:
            return op
        x = first[2]
        near = self.chain[at] == self.chain[index]
        stays = isinstance(x, Const) or (not any(at <= i < index for i in self.writers[x])
                                         and (near or len(self.writers[x]) == 1))
        if not (certain and stays and (near or not self.loops)) or self.debug \
                or self.calls[at] != self.calls[index]:
            self.premises.add(UNCERTAIN)
            return op
        self.premises.add(MEASURED if self.program.target in TARGETS else UNCERTAIN)
        zero = Const(_BITS[mode.type][1], 32 if mode.type == "f32" else 16)
        return Op("fadd", op.dst, (x, zero), replace(mode, saturate=True), op.guard, op.site)

    def _maker(self, reg: int, index: int) -> int | None:
        """Return the one operation whose result a register holds before operation `index`."""
        writers = [i for i in self.writers[reg] if i < index]
        if len(self.writers[reg]) != 1:
            writers = [i for i in writers if self.chain[i] == self.chain[index]][-1:]
        return writers[0] if writers and self.ops[writers[0]].guard is None else None

    def _first(self, source: Source, index: int) -> tuple[int | None, bool]:
        """Return what made a value, behind moves; whether it did so whenever it is read."""
        negative = False
        while isinstance(source, int):
            at = self._maker(source, index)
            if at is None:  # one of several: what is done to the first is not done to all
                return next((i for i in self.writers[source]
                             if self._bound(self.ops[i], i)), None), False
            op = self.ops[at]
            if op.name not in ("mov", "fneg", "extract"):
                return (None if negative else at), True
            negative ^= op.name == "fneg"
            behind = self._half_of(op, at) if op.name == "extract" else op.src[0]
            if behind is None:
                break
            source, index = behind, at
        return None, False

    def _half_of(self, op: Op, index: int) -> Source | None:
        """Return the half of a word that is read, if the word is made of two halves."""
        word, low = op.src[0], int(op.attr[0])
        while isinstance(word, int):
            at = self._maker(word, index)
            if at is None:
                break
            made = self.ops[at]
            if made.name == "pack" and low % 16 == 0 and len(made.src) == 2 and made.attr == 32:
                return made.src[low // 16]
            if made.name != "mov":
                break
            word, index = made.src[0], at
        return None

    def _bound(self, op: Op, index: int) -> tuple[str, FloatMode, Source, int] | None:
        """Read an operation as the minimum or maximum (fmin, fmax) of x and a literal."""
        if op.name in ("fmin", "fmax") and isinstance(op.attr, FloatMode):
            mode = op.attr
            if mode.type not in _BITS or mode.nan != "num" or mode.xorsign_abs or mode.relu \
                    or mode.saturate or self._is_packed(op):
                return None
            for x, bound in (op.src, op.src[::-1]):
                bits = self._literal(bound)
                if bits is not None:
                    return op.name, mode, x, bits
            return None
        if op.name == "select" and isinstance(op.src[0], int):
            return self._choice(op, op.src[0], index)
        return None

    def _choice(self, op: Op, predicate: int, index: int
                ) -> tuple[str, FloatMode, Source, int] | None:
        at = self._maker(predicate, index)
        if at is None:
            return None
        test = self.ops[at]
        if test.name != "fcmp" or not isinstance(test.attr, Compare) \
                or test.attr.type not in _BITS or len(test.src) != 2 or self._is_packed(test):
            return None
        a, b = test.src
        cond = test.attr.cond
        if self._literal(b) is None:
            a, b, cond = b, a, _MIRROR.get(cond, "")
        bits = self._literal(b)
        if bits is None or not isinstance(a, int):
            return None
        _p, one, other = op.src
        for table, x, bound in ((_FIRST, one, other), (_SECOND, other, one)):
            if x == a and self._literal(bound) == bits:
                for kind, conditions in table.items():
                    if cond in conditions and self._as_tested(a, at, index):
                        mode = FloatMode(test.attr.type, denorm=test.attr.denorm)
                        return kind, mode, a, bits
        return None

    def _as_tested(self, reg: int, at: int, index: int) -> bool:
        """Whether a register holds at `index` what was tested at `at`."""
        between = any(at < i < index for i in self.writers[reg])
        if self.chain[at] == self.chain[index]:
            return not between
        if self.loops or between or len(self.writers[reg]) > 1:
            self.premises.add(UNCERTAIN)
            return False
        return True

    def _literal(self, source: Source) -> int | None:
        if isinstance(source, Const):
            return source.bits
        return self.known[source].bits if source in self.known else None

    def _is_packed(self, op: Op) -> bool:
        return "16x2" in self.program.sites[op.site].text.split("//")[0]
