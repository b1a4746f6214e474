"""What the assembler below PTX makes of plain float operations: fused pairs, constant divisors.

In: Program. Out: Program whose float operations round as the machine code does, where that is
certain. Refuses nothing; a program without such operations is returned as it is.

Read off the machine code of the assemblers of CUDA 12.9, 13.0 and 13.4 for sm_80, 90 and 100
(tests/ptx/device/contraction.py), fusion itself also measured on an H200:
- A product is a plain `mul` (f32 f64 f16 bf16, packed or not), `div.full` or `div.approx` (they
  end in a multiply), or `rcp.approx` without `.ftz`. A sum is a plain `add` or `sub`.
- A product is fused into its uses if ALL of them are sums of its type and `.ftz`, in its block
  (blocks joined by plain jumps are one), behind moves and sign changes at most; otherwise into
  none: a second use, an `add.rn`, a branch between, `.sat` or a guard on the product, another
  `.ftz`, x + x, a packed product read in part, a packed bf16 sign change. A guard or `.sat` on
  the sum does not matter.
- If both operands of a sum are such products, each with that one use, the first one is fused;
  none if they are one product written twice.
- Dead uses do not count. A product of two literals is a literal.
- `div.{full,approx}` by a literal c is a multiply by 1/c rounded to nearest (for |c| in
  [2**-126, 2**126]), `rcp.approx` of it that literal; another approximation of literals is
  computed by the assembler, not by the unit (`...@literal` here). A reciprocal of a reciprocal
  disappears where both stand together (`...@reciprocal` here).
Premises: `contraction:measured` where a rule above decided; `contraction` where a pair is left as
it stands because no rule covers it (a sum before its product in a loop, equal products in one
sum, shared products on both sides, moves under a guard, other targets).
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction

from checker.core import Approx, Const, Conv, FloatMode, Op, Program, Source

__all__ = ["MEASURED", "UNCERTAIN", "contract"]

MEASURED, UNCERTAIN = "contraction:measured", "contraction"
_TARGETS = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"}
_FUSED = {"div.full": "divfma.full", "div.approx": "divfma.approx", "rcp.approx": "rcpfma.approx"}
_JUMPS = ("branch", "switch", "exit", "trap")
_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_EFFECT_FREE = {"int", "pred", "float", "cvt", "move"}


def contract(program: Program) -> Program:
    """Return the program as the assembler rounds it, its premises extended."""
    if not any(_is_product(op) or op.name == "fapprox" for op in program.ops):
        return program
    if program.isa != "ptx":
        return program
    program = _literals(program)
    if not any(_is_product(op) for op in program.ops) or not any(map(_is_sum, program.ops)):
        return program
    return _Pass(program).run()


def _is_product(op: Op) -> bool:
    if op.name == "fmul":
        return isinstance(op.attr, FloatMode) and op.attr.contract
    return (op.name == "fapprox" and isinstance(op.attr, Approx) and op.attr.fn in _FUSED
            and op.attr.mode.type == "f32"
            and not (op.attr.fn == "rcp.approx" and op.attr.mode.denorm != "keep"))


def _is_sum(op: Op) -> bool:
    return (op.name in ("fadd", "fsub") and isinstance(op.attr, FloatMode) and op.attr.contract)


def _mode(op: Op) -> FloatMode:
    mode = op.attr.mode if isinstance(op.attr, Approx) else op.attr
    assert isinstance(mode, FloatMode)
    return mode


# --- literals ---------------------------------------------------------------------------------


def _literals(program: Program) -> Program:
    """Divisions by literals become products; other approximations of literals get their own name.

    A literal is one in the text or a register whose only definition is a move of one.
    """
    known = _known(program)
    reciprocals = {r for op in program.ops if _is_reciprocal(op) for r in op.dst}
    out, premises = [], set()
    for op in program.ops:
        if op.name == "fapprox" and isinstance(op.attr, Approx):
            args = [known.get(s, s) if isinstance(s, int) else s for s in op.src]
            new = _approx_of_literals(op, args)
            if new is not op:
                premises.add(MEASURED)
            elif _is_reciprocal(op) and op.src[0] in reciprocals:
                # The assembler may drop both, so this is not the unit's function for certain.
                attr = replace(op.attr, fn=op.attr.fn + "@reciprocal")
                new = replace(op, attr=attr)
                premises.add(UNCERTAIN)
            op = new
        out.append(op)
    if not premises:
        return program
    return replace(program, ops=tuple(out), premises=program.premises | premises)


def _is_reciprocal(op: Op) -> bool:
    return isinstance(op.attr, Approx) and op.attr.fn == "rcp.approx"


def _known(program: Program) -> dict[int, Const]:
    """Registers that hold one literal: a single, unguarded `mov` writes them."""
    found: dict[int, Const] = {}
    writes: dict[int, int] = defaultdict(int)
    for op in program.ops:
        for reg in op.dst:
            writes[reg] += 1
    for _ in range(4):  # moves of moves
        for op in program.ops:
            if op.name == "mov" and op.guard is None and writes[op.dst[0]] == 1:
                source = op.src[0]
                value = source if isinstance(source, Const) else found.get(source)
                if value is not None:
                    found[op.dst[0]] = value
    return found


def _approx_of_literals(op: Op, args: list[Source]) -> Op:
    attr = op.attr
    assert isinstance(attr, Approx)
    last = args[-1]
    if attr.mode.type == "f32" and attr.fn in _FUSED and isinstance(last, Const):
        inverse = _inverse(last.bits)
        if inverse is not None and len(args) == 1:
            return Op("mov", op.dst, (Const(inverse, 32),), 32, op.guard, op.site)
        if inverse is not None:
            mode = replace(attr.mode, contract=True)
            return Op("fmul", op.dst, (op.src[0], Const(inverse, 32)), mode, op.guard, op.site)
    elif not all(isinstance(a, Const) for a in args):
        return op
    return replace(op, attr=replace(attr, fn=attr.fn + "@literal"))


def _inverse(bits: int) -> int | None:
    """1/c rounded to nearest, as f32 bits, for |c| from 2**-126 to 2**126; else None."""
    if not 0x00800000 <= bits & 0x7FFFFFFF <= 0x7E800000:
        return None
    value = 1 / Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])
    exponent = -149
    while abs(value) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    scaled = abs(value) / Fraction(2) ** exponent
    whole = round(scaled)  # ties to even
    near = float(Fraction(whole) * Fraction(2) ** exponent)
    packed: int = struct.unpack("<I", struct.pack("<f", near))[0]
    return packed | (bits & 0x80000000)


# --- fusion -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Use:
    """A sum that reads a product: operation, operand, sign of what it reads."""

    op: int
    side: int
    negated: bool


@dataclass(frozen=True, slots=True)
class _Alias:
    """A register that holds the product from bit `low` on; shaky: perhaps only on some paths."""

    reg: int
    low: int
    negated: bool
    shaky: bool


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


class _Pass:
    def __init__(self, program: Program) -> None:
        self.program, self.ops = program, program.ops
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        for index, op in enumerate(self.ops):
            sources = {s for s in op.src if isinstance(s, int)}
            if op.guard is not None:
                sources.add(op.guard.reg)
            for reg in sorted(sources):
                self.readers[reg].append(index)
            for reg in op.dst:
                self.writers[reg].append(index)
        self.known = _known(program)
        self.alive = self._live_operations()
        self._blocks()
        self.sites: dict[int, int] = defaultdict(int)
        for op in self.ops:
            if _is_product(op) or _is_sum(op):
                self.sites[op.site] += 1

    def run(self) -> Program:
        """Decide every product, then rewrite."""
        products = [self._examine(i) for i, op in enumerate(self.ops)
                    if _is_product(op) and i in self.alive and not self._folded(op)]
        products = [p for p in products if p.sums]
        self._both_sides(products)
        self._packed_halves(products)
        premises = set(self.program.premises)
        for p in products:
            premises.add(p.verdict or MEASURED)
        if products and self.program.target not in _TARGETS:
            premises.add(UNCERTAIN)
        fused = {p.op: p for p in products if not p.verdict and p.uses}
        if not fused:
            return replace(self.program, premises=frozenset(premises))
        return self._rewrite(fused, frozenset(premises))

    def _folded(self, op: Op) -> bool:
        """A product of two literals is no product any more."""
        return op.name == "fmul" and all(isinstance(s, Const) or s in self.known for s in op.src)

    # --- analysis ---

    def _live_operations(self) -> set[int]:
        """Operations whose result can reach an effect (without regard to order)."""
        from checker.core import OPS
        pending = [i for i, op in enumerate(self.ops)
                   if not op.dst or OPS[op.name].kind not in _EFFECT_FREE]
        alive = set(pending)
        while pending:
            op = self.ops[pending.pop()]
            sources = [s for s in op.src if isinstance(s, int)]
            if op.guard is not None:
                sources.append(op.guard.reg)
            for reg in sources:
                for writer in self.writers[reg]:
                    if writer not in alive:
                        alive.add(writer)
                        pending.append(writer)
        return alive

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

    def _examine(self, index: int) -> _Product:
        """Follow a product's value to everything that reads it."""
        op = self.ops[index]
        p = _Product(index, packed=self.sites[op.site] > 1)
        width = _WIDTH[_mode(op).type]
        pending = [_Alias(op.dst[0], 0, False, False)]
        seen = set()
        while pending:
            alias = pending.pop()
            if alias in seen:
                continue
            seen.add(alias)
            readers, shaky = self._readers(p, alias)
            alias = replace(alias, shaky=alias.shaky or shaky)
            for reader in readers:
                if reader in self.alive:
                    pending += self._read(p, reader, alias, width)
        if p.sums and (op.guard is not None or _mode(op).saturate):
            p.refuse(MEASURED)
        return p

    def _readers(self, p: _Product, alias: _Alias) -> tuple[list[int], bool]:
        """Operations that read an alias; with several definitions, by position where possible."""
        reg = alias.reg
        writers = self.writers[reg]
        if len(writers) == 1:
            return self.readers[reg], False
        if reg == self.ops[p.op].dst[0]:
            chain = self.chain[p.op]
            ends = [w for w in writers
                    if w > p.op and self.chain[w] == chain and self.ops[w].guard is None]
            if ends:  # the definition lives up to the next one of its block
                return [r for r in self.readers[reg] if p.op < r <= ends[0]], False
        return self.readers[reg], True

    def _read(self, p: _Product, reader: int, alias: _Alias, width: int) -> list[_Alias]:
        """One operation that reads the product: where its value goes on to, or what it means."""
        op, low = self.ops[reader], alias.low
        if op.name == "mov" or self._sign_change(op, p, low):
            p.moved = True
            return [_Alias(op.dst[0], low, alias.negated ^ (op.name == "fneg"),
                           alias.shaky or op.guard is not None)]
        if op.name == "pack" and op.guard is None:
            p.moved = True
            return self._packs(op, alias)
        if op.name == "extract" and op.guard is None:
            start, size = op.attr
            if low + width <= start or start + size <= low:
                return []
            if start <= low and low + width <= start + size:
                p.moved = True
                return [replace(alias, reg=op.dst[0], low=low - start)]
        if _is_sum(op) and low == 0 and _mode(op).type == _mode(self.ops[p.op]).type:
            self._sum(p, reader, alias)
            return []
        p.refuse(MEASURED)  # another use
        return []

    def _sign_change(self, op: Op, p: _Product, low: int) -> bool:
        """Whether the assembler looks through this operation as a change of sign."""
        if op.name != "fneg" or low:
            return False
        mine, own = _mode(op), _mode(self.ops[p.op])
        return (mine.type == own.type and mine.denorm in ("keep", own.denorm)
                and not (p.packed and own.type == "bf16"))

    def _packs(self, op: Op, alias: _Alias) -> list[_Alias]:
        out, at = [], 0
        for source in op.src:
            if source == alias.reg:
                out.append(replace(alias, reg=op.dst[0], low=at + alias.low))
            at += (source.width_bits if isinstance(source, Const)
                   else self.program.reg_widths[source])
        return out

    def _sum(self, p: _Product, reader: int, alias: _Alias) -> None:
        op, product = self.ops[reader], self.ops[p.op]
        p.sums = True
        sides = [k for k, s in enumerate(op.src) if s == alias.reg]
        packed = self.sites[op.site] > 1
        if alias.shaky or (self.chain[reader] == self.chain[p.op] and reader < p.op):
            p.refuse(UNCERTAIN)  # the loop may be unrolled: fused inside, not across
        elif (_mode(op).denorm != _mode(product).denorm or len(sides) > 1
              or self.chain[reader] != self.chain[p.op] or packed != p.packed):
            p.refuse(MEASURED)
        elif _mode(op).rnd != "rn" or self._mixed(op):
            p.refuse(UNCERTAIN)
        elif any(u.op == reader for u in p.uses):
            p.refuse(MEASURED)  # x + x, x - (-x)
        else:
            p.uses.append(_Use(reader, sides[0], alias.negated))

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
            elif any(len(p.uses) > 1 for p in pair) or (
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
                   if self.ops[k].site == site and (_is_product(self.ops[k])
                                                    or _is_sum(self.ops[k])))

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
        return replace(self.program, ops=tuple(_moved(op, place) for op in self.out),
                       reg_widths=tuple(self.widths), reg_names=tuple(self.names),
                       premises=premises)

    def _fresh(self, width: int) -> int:
        self.widths.append(width)
        self.names.append(f"c{len(self.names)}")
        return len(self.names) - 1

    def _save_factors(self, op: Op, p: _Product) -> tuple[Source, ...]:
        """Factors that may be overwritten before the last sum are copied."""
        last = max(u.op for u in p.uses)
        kept: list[Source] = []
        for source in op.src:
            if isinstance(source, int) and any(p.op <= w < last for w in self.writers[source]):
                width = self.widths[source]
                copy = self._fresh(width)
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
        mode = replace(_mode(op), contract=False)
        if product.name == "fmul":
            self.out.append(Op("ffma", op.dst, (first, factors[1], other), mode, op.guard, op.site))
            return
        assert isinstance(product.attr, Approx)
        attr = Approx(_FUSED[product.attr.fn], product.attr.unit, mode)
        self.out.append(Op("fapprox", op.dst, (first, *factors[1:], other), attr, op.guard,
                           op.site))

    def _negated(self, source: Source, op: Op) -> Source:
        width = _WIDTH[_mode(op).type]
        if isinstance(source, Const):
            return Const(source.bits ^ (1 << (width - 1)), width)
        reg = self._fresh(width)
        self.out.append(Op("fneg", (reg,), (source,), FloatMode(_mode(op).type), None, op.site))
        return reg


class _Values:
    """A number for each value: equal numbers mean equal values (pure operations only)."""

    def __init__(self, owner: _Pass) -> None:
        from checker.core import OPS
        self.numbers: dict[int, int] = {}
        table: dict[tuple[object, ...], int] = {}
        for index, op in enumerate(owner.ops):
            for reg in op.dst:
                key: tuple[object, ...] = ("register", reg)
                pure = OPS[op.name].kind in _EFFECT_FREE and len(op.dst) == 1
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


def _moved(op: Op, place: list[int]) -> Op:
    if op.name == "branch":
        return replace(op, attr=place[op.attr])
    if op.name == "switch":
        return replace(op, attr=tuple(place[t] for t in op.attr))
    return op
