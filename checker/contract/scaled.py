"""Products times a small power of two: the assembler rounds once (`FMUL.D4` and the like).

In: Program, sums fused. Out: Program in which a plain f32 product, all of whose uses are products
with one literal 2, 4, 8, 1/2, 1/4 or 1/8, is scaled before it is rounded, in f64: where it does not
fit into f32, or is subnormal, that is another number. The last multiply of `div.full`, `div.approx`
and `rcp.approx` is scaled likewise; by which bits is not modelled, it is a function of its own.

Read off the machine code of ptxas 12.8, 12.9 and 13.0 for sm_80, 90 and 100, and seen on an H200.
The rounding of the second multiply may be written out (`.rn`), that of the first one may not; the
second one's `.ftz`, `.sat` and guard hold for both. Not scaled: negative or larger powers, a
product with another use, under a guard, behind a choice or a change of sign, or of two literals;
nor one whose scaled value is fused into sums.
"""

from __future__ import annotations

from dataclasses import replace

from checker.contract.fusion import Alias, Pass, moved
from checker.contract.words import MEASURED, TARGETS, UNCERTAIN, is_product, mode_of
from checker.core import Approx, Const, Conv, FloatMode, Op, Program

__all__ = ["scale"]

#: f32 literal -> the same in f64
_POWERS = {(127 + k) << 23: (1023 + k) << 52 for k in (-3, -2, -1, 1, 2, 3)}

_DOUBLE = FloatMode("f64")


def scale(program: Program) -> Program:
    """Return the program with such pairs as the assembler reads them, its premises extended."""
    literals = {s.bits for op in program.ops for s in op.src if isinstance(s, Const)}
    if literals.isdisjoint(_POWERS) or not any(map(is_product, program.ops)):
        return program
    return _Scaling(program).run()


class _Scaling(Pass):
    def run(self) -> Program:
        """Decide every product, then rewrite."""
        premises: set[str] = set()
        found: dict[int, tuple[list[int], int]] = {}
        scaled: set[int] = set()
        for index, op in enumerate(self.ops):
            if index in scaled or index not in self.alive or not is_product(op) \
                    or mode_of(op).type != "f32" or self.folded(op):
                continue
            uses = self._uses(index)
            powers = {self._power(use) for use, _certain in uses or ()}
            power = powers.pop() if len(powers) == 1 else None
            if not uses or power is None or op.guard is not None or mode_of(op).saturate:
                continue
            if not all(certain for _use, certain in uses):
                premises.add(UNCERTAIN)
                continue
            premises.add(MEASURED if self.program.target in TARGETS else UNCERTAIN)
            found[index] = [use for use, _certain in uses], power
            scaled |= set(found[index][0])
        if not premises:
            return self.program
        return self._written(found, self.program.premises | premises)

    def _uses(self, index: int) -> list[tuple[int, bool]] | None:
        """Return the multiplies that read a product and whether they do so for certain.

        None where anything else reads it.
        """
        out: list[tuple[int, bool]] = []
        others: list[int] = []

        def read(reader: int, alias: Alias) -> list[Alias]:
            op = self.ops[reader]
            if op.name == "mov":
                return [replace(alias, reg=op.dst[0], at=reader,
                                shaky=alias.shaky or op.guard is not None)]
            if self._power(reader) is None:
                others.append(reader)
            near = self.chain[reader] == self.chain[index] and reader > index
            out.append((reader, not (alias.shaky or self.debug) and (near or not self.loops)
                        and self.calls[reader] == self.calls[index]))
            return []

        self.follow(index, read)
        return None if others else out

    def _power(self, index: int) -> int | None:
        """Return by which power of two an operation multiplies what else it reads."""
        op = self.ops[index]
        if op.name != "fmul" or not isinstance(op.attr, FloatMode) or op.attr.type != "f32" \
                or op.attr.rnd != "rn":
            return None
        for source in op.src:
            literal = self.known.get(source) if isinstance(source, int) else source
            if literal is not None and literal.bits in _POWERS:
                return literal.bits
        return None

    def _written(self, found: dict[int, tuple[list[int], int]], premises: frozenset[str]
                 ) -> Program:
        self.widths, self.names = list(self.program.reg_widths), list(self.program.reg_names)
        self.out: list[Op] = []
        place: list[int] = []
        values: dict[int, int] = {}  # by use: what is rounded there
        for index, op in enumerate(self.ops):
            place.append(len(self.out))
            if index in values:
                self.out.append(self._rounded(op, values[index]))
                continue
            self.out.append(op)
            if index in found:
                uses, power = found[index]
                values |= dict.fromkeys(uses, self._scaled(op, mode_of(self.ops[uses[0]]), power))
        place.append(len(self.out))
        return replace(self.program, ops=tuple(moved(op, place) for op in self.out),
                       reg_widths=tuple(self.widths), reg_names=tuple(self.names),
                       premises=premises)

    def _scaled(self, op: Op, last: FloatMode, power: int) -> int:
        """Write a product times a power of two, as rounded as it is before its last rounding."""
        if isinstance(op.attr, Approx):
            reg = self.fresh(32)
            name = f"{op.attr.fn}@scaled{(power >> 23) - 127:+d}"
            self.out.append(Op("fapprox", (reg,), op.src, replace(op.attr, fn=name), None, op.site))
            return reg
        enters = Conv("f32", "f64", denorm="flush_in" if last.denorm != "keep" else "keep")
        wide = [self.fresh(64) for _source in op.src]
        self.out += [Op("fcvt", (to,), (source,), enters, None, op.site)
                     for to, source in zip(wide, op.src, strict=True)]
        product, reg = self.fresh(64), self.fresh(64)
        self.out += [Op("fmul", (product,), tuple(wide), _DOUBLE, None, op.site),
                     Op("fmul", (reg,), (product, Const(_POWERS[power], 64)), _DOUBLE, None,
                        op.site)]
        return reg

    def _rounded(self, op: Op, value: int) -> Op:
        """Return what stands where the second multiply was."""
        mode = mode_of(op)
        if self.widths[value] == 32:
            return Op("fadd", op.dst, (value, Const(0x80000000, 32)), replace(mode, contract=False),
                      op.guard, op.site)
        leaves = Conv("f64", "f32", "rn", "flush_out" if mode.denorm != "keep" else "keep",
                      mode.saturate)
        return Op("fcvt", op.dst, (value,), leaves, op.guard, op.site)
