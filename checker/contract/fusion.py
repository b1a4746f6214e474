"""Fusion of products and sums, decided for each product and then rewritten.

In: Program. Out: Program with an `ffma` (or a fused quotient) in the place of every sum whose
fusion is certain; see the package's docstring for the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from checker.contract.literals import computed_literals, known_literals
from checker.contract.words import (
    DEBUG,
    EFFECT_FREE,
    FUSED,
    MEASURED,
    TARGETS,
    UNCERTAIN,
    is_call,
    is_product,
    is_sum,
    mode_of,
)
from checker.core import OPS, Approx, Const, Conv, FloatMode, Mem, Op, Program, Source

__all__ = ["Alias", "Pass", "fuse", "moved"]

_JUMPS = ("branch", "switch", "exit", "trap")
_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def fuse(program: Program) -> Program:
    """Return the program with certain pairs fused and its premises extended."""
    return Pass(program).run()


@dataclass(slots=True)
class _Use:
    """A sum that reads a product: operation, operand, sign of what it reads.

    far: behind a branch.
    """

    op: int
    side: int
    negated: bool
    far: bool


@dataclass(frozen=True, slots=True)
class Alias:
    """A register that holds the product from bit `low` on, written by operation `at`.

    shaky: perhaps only on some paths.
    """

    reg: int
    low: int
    negated: bool
    shaky: bool
    at: int


@dataclass(slots=True)
class _Product:
    """A product and its uses; `verdict` is "" while it may be fused, else the premise."""

    op: int
    uses: list[_Use] = field(default_factory=list)
    sums: bool = False
    moved: bool = False
    packed: bool = False
    verdict: str = ""

    def refuse(self, premise: str) -> None:
        if self.verdict != UNCERTAIN:
            self.verdict = premise


class Pass:
    """What the uses of a program's values are: who reads and writes them, where, in which order."""

    def __init__(self, program: Program) -> None:
        self.program, self.ops = program, program.ops
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        self.reads = [tuple(dict.fromkeys(op.reads)) for op in self.ops]
        for index, op in enumerate(self.ops):
            for reg in self.reads[index]:
                self.readers[reg].append(index)
            for reg in op.dst:
                self.writers[reg].append(index)
        self.known = known_literals(program)
        self.debug = DEBUG in program.premises
        self.calls = self._calls_before()
        self.alive = self._live_operations()
        self._blocks()
        self.sites: dict[int, int] = defaultdict(int)
        for op in self.ops:
            if is_product(op) or is_sum(op):
                self.sites[op.site] += 1

    def run(self) -> Program:
        """Decide every product, then rewrite."""
        products = [self._examine(i) for i, op in enumerate(self.ops)
                    if is_product(op) and i in self.alive and not self.folded(op)]
        products = [p for p in products if p.sums]
        self._both_sides(products)
        self._packed_halves(products)
        premises = set(self.program.premises)
        for p in products:
            premises.add(p.verdict or MEASURED)
        if products and self.program.target not in TARGETS:
            premises.add(UNCERTAIN)
        fused = {p.op: p for p in products if not p.verdict and p.uses}
        if not fused:
            return replace(self.program, premises=frozenset(premises))
        return self._rewrite(fused, frozenset(premises))

    def folded(self, op: Op) -> bool:
        """A product of two literals is no product any more."""
        return op.name == "fmul" and all(isinstance(s, Const) or s in self.known for s in op.src)

    # --- analysis ---

    @cached_property
    def computed(self) -> set[int]:
        """Registers whose value follows from literals alone."""
        return computed_literals(self.program)

    @cached_property
    def costless(self) -> set[int]:
        """Registers that hold a literal or an argument for certain; few kernels need to know."""
        return self._costless(certain=True)

    @cached_property
    def perhaps_costless(self) -> set[int]:
        """Registers that may hold one."""
        return self._costless(certain=False)

    def _costless(self, certain: bool) -> set[int]:
        """Registers that hold a literal or a scalar argument, perhaps moved or negated.

        certain: from their only definition; else from one of several, or in a roundabout way.
        """
        found = set(self.known) if certain else set(self.known) | self.computed
        moves = ("mov", "fneg") if certain else ("mov", "fneg", "fabs", "pack", "extract")
        spaces = ("param",) if certain else ("param", "const")
        grown = True
        while grown:
            before = len(found)
            for op in self.ops:
                if certain and (len(op.dst) != 1 or op.guard is not None
                                or len(self.writers[op.dst[0]]) != 1):
                    continue
                literal = op.src and isinstance(op.src[0], Const)
                argument = (op.name == "load" and isinstance(op.attr, Mem)
                            and op.attr.space in spaces and (literal or not certain))
                if argument or (op.name in moves and (op.src[0] in found
                                                      or (literal and not certain))):
                    found.update(op.dst)
            grown = len(found) > before
        return found

    def _follows(self, op: Op) -> str:
        """Whether the assembler computes a product anew where its sums are, in whatever block.

        It does where a factor costs no register: a literal, or an argument of the kernel. "yes",
        "no" or "perhaps".
        """
        if any(isinstance(s, Const) or s in self.costless for s in op.src):
            return "yes"
        return "perhaps" if any(s in self.perhaps_costless for s in op.src) else "no"

    def _live_operations(self) -> set[int]:
        """Operations whose result can reach an effect (without regard to order)."""
        pending = [i for i, op in enumerate(self.ops)
                   if not op.dst or OPS[op.name].kind not in EFFECT_FREE]
        alive = set(pending)
        while pending:
            for reg in self.reads[pending.pop()]:
                for writer in self.writers[reg]:
                    if writer not in alive:
                        alive.add(writer)
                        pending.append(writer)
        return alive

    def _calls_before(self) -> list[int]:
        """For each operation, how many operations of (inlined) calls stand before it."""
        out, count = [], 0
        for op in self.ops:
            count += is_call(self.program, op)
            out.append(count)
        return out

    def _blocks(self) -> None:
        """Number the blocks; blocks joined by a plain jump share a chain number."""
        leaders = {0}
        for index, op in enumerate(self.ops):
            if op.name in _JUMPS:
                leaders.add(index + 1)
                leaders.update(_targets(op))
        starts = sorted(s for s in leaders if s < len(self.ops))
        number = {s: n for n, s in enumerate(starts)}
        block: list[int] = []
        successors: list[set[int]] = []
        for n, start in enumerate(starts):
            end = starts[n + 1] if n + 1 < len(starts) else len(self.ops)
            block += [n] * (end - start)
            last = self.ops[end - 1]
            after = {number[t] for t in _targets(last) if t in number}
            if end in number and (last.guard is not None or last.name not in _JUMPS):
                after.add(number[end])
            successors.append(after)
        predecessors: dict[int, list[int]] = defaultdict(list)
        for n, after in enumerate(successors):
            for s in after:
                predecessors[s].append(n)
        chain = list(range(len(starts)))
        for n, after in enumerate(successors):
            (s,) = after if len(after) == 1 else (0,)
            if s > n and len(predecessors[s]) == 1:
                chain[s] = chain[n]
        self.chain = [chain[b] for b in block]
        self.loops = [(t, index) for index, op in enumerate(self.ops) if op.name in _JUMPS
                      for t in _targets(op) if t <= index]

    def _examine(self, index: int) -> _Product:
        """Follow a product's value to everything that reads it."""
        op = self.ops[index]
        p = _Product(index, packed=self.sites[op.site] > 1)
        width = _WIDTH[mode_of(op).type]
        self.follow(index, lambda reader, alias: self._read(p, reader, alias, width))
        if p.sums and all(isinstance(s, Const) or s in self.computed for s in op.src):
            p.refuse(UNCERTAIN)  # the product may be a literal by then
        if p.sums and (op.guard is not None or mode_of(op).saturate):
            p.refuse(MEASURED)
        return p

    def follow(self, index: int, read: Callable[[int, Alias], Iterable[Alias]]) -> None:
        """Follow an operation's result: `read` is told each reader, and says what holds it there.

        What it is told is shaky where the reader may see another value on some path.
        """
        pending = [Alias(self.ops[index].dst[0], 0, False, False, index)]
        seen = set()
        while pending:
            alias = pending.pop()
            if alias in seen:
                continue
            seen.add(alias)
            readers, shaky = self.read_by(alias)
            alias = replace(alias, shaky=alias.shaky or shaky)
            for reader in readers:
                if reader in self.alive:
                    pending += read(reader, alias)

    def read_by(self, alias: Alias) -> tuple[list[int], bool]:
        """Operations that read an alias; with several definitions, by position where possible."""
        reg, at = alias.reg, alias.at
        writers, readers = self.writers[reg], self.readers[reg]
        if len(writers) == 1:
            return readers, False
        chain = self.chain[at]
        whole = [w for w in writers if self.chain[w] == chain and self.ops[w].guard is None]
        end = next((w for w in whole if w > at), -1)
        partly = [w for w in writers if w > at and self.ops[w].guard is not None]
        if end >= 0:  # the definition lives up to the next one of its block
            mine = [r for r in readers if at < r <= end and self.chain[r] == chain]
            return mine, any(w < r for w in partly for r in mine)
        # It lives on behind the block: certain only if nobody reads it there, nor in the block's
        # next round before a definition.
        first = whole[0] if whole else -1
        shaky = bool(partly) or any(
            self.chain[r] != chain or (r <= at and not 0 <= first < r) for r in readers)
        return (readers, True) if shaky else ([r for r in readers if r > at], False)

    def _read(self, p: _Product, reader: int, alias: Alias, width: int) -> list[Alias]:
        """One operation that reads the product: where its value goes on to, or what it means."""
        op, low = self.ops[reader], alias.low
        if op.name == "mov" or self._sign_change(op, p, alias):
            p.moved = True
            return [Alias(op.dst[0], low, alias.negated ^ (op.name == "fneg"),
                           alias.shaky or op.guard is not None, reader)]
        if op.name == "pack" and op.guard is None:
            p.moved = True
            return self._packs(op, alias, reader)
        if op.name == "extract" and op.guard is None:
            start, size = op.attr
            if low + width <= start or start + size <= low:
                return []
            if start <= low and low + width <= start + size:
                p.moved = True
                return [replace(alias, reg=op.dst[0], low=low - start, at=reader)]
        if is_sum(op) and low == 0 and mode_of(op).type == mode_of(self.ops[p.op]).type:
            self._sum(p, reader, alias)
            return []
        p.refuse(MEASURED)  # another use
        return []

    def _sign_change(self, op: Op, p: _Product, alias: Alias) -> bool:
        """Whether the assembler looks through this operation as a change of sign.

        The absolute value of a square is the square.
        """
        factors = self.ops[p.op].src
        square = op.name == "fabs" and not alias.negated and self.ops[p.op].name == "fmul" \
            and factors[0] == factors[1]
        if (op.name != "fneg" and not square) or alias.low:
            return False
        mine, own = mode_of(op), mode_of(self.ops[p.op])
        return (mine.type == own.type and mine.denorm in ("keep", own.denorm)
                and not (p.packed and own.type == "bf16"))

    def _packs(self, op: Op, alias: Alias, reader: int) -> list[Alias]:
        out, at = [], 0
        for source in op.src:
            if source == alias.reg:
                out.append(replace(alias, reg=op.dst[0], low=at + alias.low, at=reader))
            at += (source.width_bits if isinstance(source, Const)
                   else self.program.reg_widths[source])
        return out

    def _sum(self, p: _Product, reader: int, alias: Alias) -> None:
        op, product = self.ops[reader], self.ops[p.op]
        p.sums = True
        sides = [k for k, s in enumerate(op.src) if s == alias.reg]
        packed = self.sites[op.site] > 1
        far = self.chain[reader] != self.chain[p.op]
        if alias.shaky or self.debug or self.calls[reader] != self.calls[p.op]:
            p.refuse(UNCERTAIN)  # perhaps another value, not optimised, or a real call between
        elif reader < p.op:
            p.refuse(UNCERTAIN)  # the loop may be unrolled: fused inside, not across
        elif (mode_of(op).denorm != mode_of(product).denorm or len(sides) > 1
              or (far and self._follows(product) == "no") or packed != p.packed):
            p.refuse(MEASURED)
        elif far and (self._follows(product) == "perhaps" or any(
                first <= p.op <= last < reader for first, last in self.loops)):
            p.refuse(UNCERTAIN)  # (or a loop's last product, read behind the loop)
        elif mode_of(op).rnd != "rn" or self._mixed(op):
            p.refuse(UNCERTAIN)
        elif any(u.op == reader for u in p.uses):
            p.refuse(MEASURED)  # x + x, x - (-x)
        else:
            p.uses.append(_Use(reader, sides[0], alias.negated, far))

    def _mixed(self, op: Op) -> bool:
        """`add.f32.bf16`: a sum with a widened operand inside the instruction."""
        return any(isinstance(s, int) and any(
            self.ops[w].site == op.site and isinstance(self.ops[w].attr, Conv)
            for w in self.writers[s]) for s in op.src)

    # --- rules about several products ---

    def _both_sides(self, products: list[_Product]) -> None:
        """Of two products that meet in a sum, each with that use only, the first is fused."""
        meeting: dict[int, list[_Product]] = defaultdict(list)
        for p in products:
            if not p.verdict:
                for use in p.uses:
                    meeting[use.op].append(p)
        values = _Values(self) if any(len(pair) > 1 for pair in meeting.values()) else None
        for pair in meeting.values():
            if len(pair) < 2 or values is None:
                continue
            one, two = (self.ops[p.op] for p in pair)
            if one.src == two.src and one.attr == two.attr and one.name == two.name:
                for p in pair:
                    p.refuse(MEASURED)  # written twice
            elif any(len(p.uses) > 1 or p.uses[0].far for p in pair) or (
                    {values.of(s) for s in one.src} == {values.of(s) for s in two.src}):
                for p in pair:
                    p.refuse(UNCERTAIN)
            else:
                second = max(pair, key=lambda p: p.uses[0].side)
                second.refuse(MEASURED)

    def _packed_halves(self, products: list[_Product]) -> None:
        """The halves of a packed operation share one fate."""
        by_site: dict[int, list[_Product]] = defaultdict(list)
        for p in products:
            if p.packed:
                by_site[self.ops[p.op].site].append(p)
        for site, halves in by_site.items():
            fates = {(bool(p.verdict), tuple(self.ops[u.op].site for u in p.uses)) for p in halves}
            whole = len(halves) == self.sites[site]
            order = all(self._half(p.op) == self._half(u.op) for p in halves for u in p.uses)
            if any(not p.verdict for p in halves) and (len(fates) > 1 or not whole or not order):
                for p in halves:
                    p.refuse(UNCERTAIN)

    def _half(self, index: int) -> int:
        """Which half of its packed instruction an operation computes."""
        site = self.ops[index].site
        return sum(1 for k in range(max(0, index - 16), index)
                   if self.ops[k].site == site and (is_product(self.ops[k])
                                                    or is_sum(self.ops[k])))

    # --- rewriting ---

    def _rewrite(self, fused: dict[int, _Product], premises: frozenset[str]) -> Program:
        by_sum = {u.op: (p, u) for p in fused.values() for u in p.uses}
        self.widths = list(self.program.reg_widths)
        self.names = list(self.program.reg_names)
        self.out: list[Op] = []
        place: list[int] = []
        factors: dict[int, tuple[Source, ...]] = {}
        for index, op in enumerate(self.ops):
            place.append(len(self.out))
            if index in fused:
                factors[index] = self._save_factors(op, fused[index])
                if fused[index].moved:
                    self.out.append(op)  # still read by moves that nobody needs
            elif index in by_sum:
                p, use = by_sum[index]
                self._fuse(op, use, self.ops[p.op], factors[p.op])
            else:
                self.out.append(op)
        place.append(len(self.out))
        return replace(self.program, ops=tuple(moved(op, place) for op in self.out),
                       reg_widths=tuple(self.widths), reg_names=tuple(self.names),
                       premises=premises)

    def fresh(self, width: int) -> int:
        """Return a register of its own."""
        self.widths.append(width)
        self.names.append(f"c{len(self.names)}")
        return len(self.names) - 1

    def _save_factors(self, op: Op, p: _Product) -> tuple[Source, ...]:
        """Factors that may be overwritten before the last sum are copied."""
        # Behind a branch there may be a loop, whose end comes before its begin.
        last = len(self.ops) if any(u.far for u in p.uses) else max(u.op for u in p.uses)
        kept: list[Source] = []
        for source in op.src:
            if isinstance(source, int) and any(p.op <= w < last for w in self.writers[source]):
                width = self.widths[source]
                copy = self.fresh(width)
                self.out.append(Op("mov", (copy,), (source,), width, None, op.site))
                source = copy
            kept.append(source)
        return tuple(kept)

    def _fuse(self, op: Op, use: _Use, product: Op, factors: tuple[Source, ...]) -> None:
        other = op.src[1 - use.side]
        minus = use.negated
        if op.name == "fsub":
            if use.side == 0:
                other = self._negated(other, op)
            else:
                minus = not minus
        first = self._negated(factors[0], op) if minus else factors[0]
        mode = replace(mode_of(op), contract=False)
        if product.name == "fmul":
            self.out.append(Op("ffma", op.dst, (first, factors[1], other), mode, op.guard, op.site))
            return
        assert isinstance(product.attr, Approx)
        attr = Approx(FUSED[product.attr.fn], product.attr.unit, mode)
        self.out.append(Op("fapprox", op.dst, (first, *factors[1:], other), attr, op.guard,
                           op.site))

    def _negated(self, source: Source, op: Op) -> Source:
        width = _WIDTH[mode_of(op).type]
        if isinstance(source, Const):
            return Const(source.bits ^ (1 << (width - 1)), width)
        reg = self.fresh(width)
        self.out.append(Op("fneg", (reg,), (source,), FloatMode(mode_of(op).type), None, op.site))
        return reg


class _Values:
    """A number for each value: equal numbers mean equal values (pure operations only)."""

    def __init__(self, owner: Pass) -> None:
        self.numbers: dict[int, int] = {}
        table: dict[tuple[object, ...], int] = {}
        for index, op in enumerate(owner.ops):
            for reg in op.dst:
                key: tuple[object, ...] = ("register", reg)
                pure = OPS[op.name].kind in EFFECT_FREE and len(op.dst) == 1
                if pure and len(owner.writers[reg]) == 1 and op.guard is None:
                    sources = tuple(self.of(s) for s in op.src)
                    key = (op.name, repr(op.attr), sources)
                    if op.name == "mov":
                        self.numbers[reg] = sources[0]
                        continue
                self.numbers[reg] = table.setdefault(key, index * 4 + 1)

    def of(self, source: Source) -> int:
        """The number of a source; literals have negative numbers."""
        if isinstance(source, Const):
            return -1 - (source.bits << 8 | source.width_bits)
        return self.numbers.get(source, -2 - (source << 200))


def _targets(op: Op) -> tuple[int, ...]:
    if op.name == "branch":
        return (int(op.attr),)
    if op.name == "switch":
        return tuple(int(t) for t in op.attr)
    return ()


def moved(op: Op, place: list[int]) -> Op:
    """Return a branch to where its targets are by now."""
    if op.name == "branch":
        return replace(op, attr=place[op.attr])
    if op.name == "switch":
        return replace(op, attr=tuple(place[t] for t in op.attr))
    return op
