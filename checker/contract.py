"""Contraction: what the assembler below PTX makes of a plain multiply that feeds a plain add.

In: Program. Out: Program in which every pair whose fusion is certain is one `ffma`. Refuses
nothing; a program without contractable operations is returned as it is.

The rule, measured on an H200 (driver 580, f32): a product is fused into the add or sub that is
its only use, in the same block; it is not fused when it has a second use, or when a branch lies
between. Premises: `contraction:measured` when this rule decided a pair, `contraction` when a pair
is left as it stands because the rule was not measured for it:
- types other than f32; different `.ftz` or any `.sat`; a guard on either operation;
- both operands of the add are products; the product reaches the add through moves, packing or a
  sign change; the two blocks are joined by a plain jump; the add comes before the multiply (loop).
`c - a*b` becomes fma(-a, b, c), `a*b - c` becomes fma(a, b, -c): sign changes are exact.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from checker.core import Const, FloatMode, Op, Program, Source

__all__ = ["contract"]

_PASS_THROUGH = {"mov", "pack", "extract", "zext", "sext", "trunc", "fneg", "fabs"}
MEASURED, UNCERTAIN = "contraction:measured", "contraction"


def contract(program: Program) -> Program:
    """Return the program with certain pairs fused and its premises extended."""
    if not any(_is_product(op) for op in program.ops):
        return program
    return _Pass(program).run()


def _flagged(op: Op, *names: str) -> bool:
    return op.name in names and isinstance(op.attr, FloatMode) and op.attr.contract


def _is_product(op: Op) -> bool:
    return _flagged(op, "fmul")


def _is_sum(op: Op) -> bool:
    return _flagged(op, "fadd", "fsub")


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Product and sum, by operation index, and which operand of the sum the product is."""

    product: int
    total: int
    side: int


class _Pass:
    def __init__(self, program: Program) -> None:
        self.program, self.ops = program, program.ops
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(self.ops):
            for source in op.src:
                if isinstance(source, int):
                    self.readers[source].append(index)
            if op.guard is not None:
                self.readers[op.guard.reg].append(index)
            for reg in op.dst:
                self.writers[reg].append(index)
        self._blocks()
        self.through = self._reaches_sum()
        self.live: dict[int, set[int]] | None = None
        self.premises: set[str] = set()

    def run(self) -> Program:
        """Decide every product, then rewrite."""
        fusions = [f for index, op in enumerate(self.ops) if _is_product(op)
                   for f in self._decide(index)]
        premises = self.program.premises | self.premises
        if not fusions:
            return replace(self.program, premises=premises)
        return self._rewrite({f.product: f for f in fusions}, premises)

    # --- analysis ---

    def _blocks(self) -> None:
        """Number the blocks; two blocks joined by a plain jump share a chain number."""
        leaders = {0}
        for index, op in enumerate(self.ops):
            if op.name in ("branch", "switch", "exit", "trap"):
                leaders.add(index + 1)
                leaders.update(_targets(op))
        starts = sorted(s for s in leaders if s < len(self.ops))
        number = {s: n for n, s in enumerate(starts)}
        self.block: list[int] = []
        self.bounds: list[tuple[int, int]] = []
        self.successors: list[tuple[int, ...]] = []
        for n, start in enumerate(starts):
            end = starts[n + 1] if n + 1 < len(starts) else len(self.ops)
            self.block += [n] * (end - start)
            self.bounds.append((start, end))
            last = self.ops[end - 1]
            after = {number[t] for t in _targets(last) if t in number}
            if end in number and (last.guard is not None or last.name not in (
                    "branch", "switch", "exit", "trap")):
                after.add(number[end])
            self.successors.append(tuple(sorted(after)))
        predecessors: dict[int, list[int]] = defaultdict(list)
        for n, after_n in enumerate(self.successors):
            for s in after_n:
                predecessors[s].append(n)
        self.chain = list(range(len(self.bounds)))
        for n, after_n in enumerate(self.successors):
            if len(after_n) == 1 and len(predecessors[after_n[0]]) == 1 and after_n[0] > n:
                self.chain[after_n[0]] = self.chain[n]

    def _reaches_sum(self) -> set[int]:
        """Registers that flow through moves into a contractable sum (without regard to order)."""
        pending = [s for op in self.ops if _is_sum(op) for s in op.src if isinstance(s, int)]
        found = set(pending)
        while pending:
            for index in self.writers[pending.pop()]:
                if self.ops[index].name not in _PASS_THROUGH:
                    continue
                for source in self.ops[index].src:
                    if isinstance(source, int) and source not in found:
                        found.add(source)
                        pending.append(source)
        return found

    def _uses(self, index: int) -> list[int]:
        """Operations that read the value of operation `index` (reads of later values left out)."""
        reg = self.ops[index].dst[0]
        if len(self.writers[reg]) == 1:
            return self.readers[reg]
        start_end = self.bounds[self.block[index]]
        uses = []
        for k in range(index + 1, start_end[1]):
            op = self.ops[k]
            if reg in op.src or (op.guard is not None and op.guard.reg == reg):
                uses.append(k)
            if reg in op.dst and op.guard is None:
                return uses
        if reg in self._live_out(self.block[index]):
            outside = [k for k in self.readers[reg]
                       if not start_end[0] <= k < start_end[1] or k <= index]
            return uses + (outside or uses)
        return uses

    def _live_out(self, block: int) -> set[int]:
        """Registers that are read after `block` before they are written."""
        if self.live is None:
            self.live = self._liveness()
        return set().union(*(self.live[s] for s in self.successors[block]))

    def _liveness(self) -> dict[int, set[int]]:
        """Live-in registers by block, to a fixed point."""
        gen: list[set[int]] = []
        kill: list[set[int]] = []
        for start, end in self.bounds:
            read: set[int] = set()
            written: set[int] = set()
            for op in self.ops[start:end]:
                sources = {s for s in op.src if isinstance(s, int)}
                if op.guard is not None:
                    sources |= {op.guard.reg, *op.dst}
                read |= sources - written
                written |= set(op.dst)
            gen.append(read)
            kill.append(written)
        live = {n: set(g) for n, g in enumerate(gen)}
        changed = True
        while changed:
            changed = False
            for n in reversed(range(len(gen))):
                out = set().union(*(live[s] for s in self.successors[n]))
                new = gen[n] | (out - kill[n])
                if new != live[n]:
                    live[n], changed = new, True
        return live

    # --- the rule ---

    def _decide(self, index: int) -> list[_Fusion]:
        """Apply the rule to one product; record the premise."""
        op = self.ops[index]
        uses = self._uses(index)
        sums = [u for u in uses if _is_sum(self.ops[u]) and self._same_type(op, self.ops[u])]
        if not sums:
            moved = any(self.ops[u].name in _PASS_THROUGH and self.ops[u].dst
                        and not self.through.isdisjoint(self.ops[u].dst) for u in uses)
            if moved:
                self.premises.add(UNCERTAIN)
            return []
        total = self.ops[sums[0]]
        if not self._plain(op) or any(not self._plain(self.ops[s]) for s in sums):
            self.premises.add(UNCERTAIN)
            return []
        if any(self.ops[s].attr.denorm != op.attr.denorm for s in sums):
            self.premises.add(UNCERTAIN)
            return []
        reads = sum(1 for u in uses for s in self.ops[u].src if s == op.dst[0])
        if reads > 1:
            self.premises.add(MEASURED)  # a second use
            return []
        here, there = self.block[index], self.block[sums[0]]
        if here != there:
            joined = self.chain[here] == self.chain[there]
            self.premises.add(UNCERTAIN if joined else MEASURED)
            return []
        side = total.src.index(op.dst[0])
        if sums[0] < index or self._may_be_product(total.src[1 - side]):
            self.premises.add(UNCERTAIN)
            return []
        self.premises.add(MEASURED)
        return [_Fusion(index, sums[0], side)]

    @staticmethod
    def _same_type(product: Op, total: Op) -> bool:
        return bool(product.attr.type == total.attr.type)

    @staticmethod
    def _plain(op: Op) -> bool:
        """Whether the measured rule speaks of this operation at all."""
        return bool(op.attr.type == "f32" and not op.attr.saturate and op.guard is None)

    def _may_be_product(self, source: Source) -> bool:
        return isinstance(source, int) and any(_is_product(self.ops[w])
                                               for w in self.writers[source])

    # --- rewriting ---

    def _rewrite(self, fusions: dict[int, _Fusion], premises: frozenset[str]) -> Program:
        by_sum = {f.total: f for f in fusions.values()}
        widths, names = list(self.program.reg_widths), list(self.program.reg_names)
        out: list[Op] = []
        place: list[int] = []
        saved: dict[int, tuple[Source, Source]] = {}

        def fresh() -> int:
            widths.append(32)
            names.append(f"c{len(names)}")
            return len(names) - 1

        for index, op in enumerate(self.ops):
            place.append(len(out))
            if index in fusions:
                factors = []
                for source in op.src:
                    if isinstance(source, int) and self._rewritten(source, fusions[index]):
                        copy = fresh()
                        out.append(Op("mov", (copy,), (source,), 32, None, op.site))
                        source = copy
                    factors.append(source)
                saved[index] = (factors[0], factors[1])
            elif index in by_sum:
                self._fuse(op, by_sum[index], saved[by_sum[index].product], out, fresh)
            else:
                out.append(op)
        place.append(len(out))
        ops = tuple(_moved(op, place) for op in out)
        return replace(self.program, ops=ops, reg_widths=tuple(widths), reg_names=tuple(names),
                       premises=premises)

    def _rewritten(self, reg: int, fusion: _Fusion) -> bool:
        """Whether a factor is written between the product and the sum."""
        return any(fusion.product <= w < fusion.total for w in self.writers[reg])

    @staticmethod
    def _fuse(op: Op, fusion: _Fusion, factors: tuple[Source, Source], out: list[Op],
              fresh: object) -> None:
        a, b = factors
        other = op.src[1 - fusion.side]
        mode = replace(op.attr, contract=False)
        negate = FloatMode("f32")

        def negated(source: Source) -> Source:
            if isinstance(source, Const):
                return Const(source.bits ^ 0x80000000, 32)
            reg: int = fresh()  # type: ignore[operator]
            out.append(Op("fneg", (reg,), (source,), negate, None, op.site))
            return reg
        if op.name == "fsub":
            if fusion.side == 0:
                other = negated(other)
            else:
                a = negated(a)
        out.append(Op("ffma", op.dst, (a, b, other), mode, op.guard, op.site))


def _targets(op: Op) -> tuple[int, ...]:
    if op.name == "branch":
        return (int(op.attr),)
    if op.name == "switch":
        return tuple(int(t) for t in op.attr)
    return ()


def _moved(op: Op, place: list[int]) -> Op:
    if op.name == "branch":
        return replace(op, attr=place[op.attr])
    if op.name == "switch":
        return replace(op, attr=tuple(place[t] for t in op.attr))
    return op
