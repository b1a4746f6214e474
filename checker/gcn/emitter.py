"""Core operations of one basic block in single-assignment form, with exact local folding.

In: calls from the rows. Out: `Emitter.ops`, whose temporaries are written once. Folding is limited
to what keeps idioms whole: constants, pack/extract, 64-bit sums and products out of 32-bit halves,
predicate algebra. Every rule is exact for all inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checker.core import OPS, Compare, Const, FloatMode, Guard, Op, Source
from checker.gcn.idioms import bf16_high_half

__all__ = ["FALSE", "TRUE", "Emitter", "Registers", "fits"]

TRUE = Const(1, 1)
FALSE = Const(0, 1)


def fits(value: int, width: int) -> Const:
    """A constant of `width` bits from any integer (two's complement)."""
    return Const(value & ((1 << width) - 1), width)


@dataclass(slots=True)
class Registers:
    """All core registers of a program: architectural ones by name, temporaries by number."""

    widths: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    by_name: dict[str, int] = field(default_factory=dict)

    def arch(self, name: str, width: int) -> int:
        """Return the register of a name, made at first use."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = len(self.widths)
            self.widths.append(width)
            self.names.append(name)
        return found

    def temp(self, width: int) -> int:
        """Return a fresh temporary."""
        self.widths.append(width)
        self.names.append("")
        return len(self.widths) - 1

    def is_arch(self, reg: int) -> bool:
        """True for architectural registers, which live across blocks."""
        return bool(self.names[reg])


Definition = tuple[str, tuple[Source, ...], Any]


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


_FOLD: dict[str, Callable[[int, int, int], int]] = {
    "iadd": lambda a, b, w: a + b, "isub": lambda a, b, w: a - b, "imul": lambda a, b, w: a * b,
    "iand": lambda a, b, w: a & b, "ior": lambda a, b, w: a | b, "ixor": lambda a, b, w: a ^ b,
    "shl": lambda a, b, w: a << b if b < w else 0, "shr_u": lambda a, b, w: a >> b if b < w else 0,
    "shr_s": lambda a, b, w: _signed(a, w) >> min(b, w),
    "imulhi_u": lambda a, b, w: (a * b) >> w,
    "imulhi_s": lambda a, b, w: (_signed(a, w) * _signed(b, w)) >> w,
}
#: operations whose result differs between lanes although their sources do not
#: results of arithmetic: a NaN among them is quiet
_ARITHMETIC = frozenset(("fadd", "fsub", "fmul", "ffma", "fdiv", "fldexp"))
_FLOATS = ("f16", "bf16", "f32", "f64")
_MOVES = frozenset(("select", "gather", "first", "extract", "pack", "zext", "sext", "shl", "shr_u",
                    "iand", "ior", "ixor"))
_LANEWISE = frozenset(("special", "load", "lanebit", "opaque", "atomic", "mma"))
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}


class Emitter:
    """Appends core operations; `defs` maps each temporary to its definition."""

    def __init__(self, registers: Registers, site: int = 0) -> None:
        self.registers = registers
        self.ops: list[Op] = []
        self.prologue: list[Op] = []  # copies made before everything else in the block
        self.entry_pair: Callable[[Source, Source], Source | None] = lambda lo, hi: None
        self.defs: dict[int, Definition] = {}
        self.site = site
        self.memo: dict[Any, Source] = {}
        self.pairs: dict[tuple[Source, Source], Source] = {}
        self.implied: dict[Source, frozenset[Source]] = {}
        self.uniform: set[Source] = {TRUE, FALSE}
        self.quiet: set[Source] = set()
        self.raw: set[Source] = set()  # bits of memory, of other blocks' registers
        self.short: set[Source] = set()  # 32-bit values below 2**16
        self.pointers: set[Source] = set()  # 64-bit addresses and their high halves
        self.premises: set[str] = set()
        self.swapped: dict[frozenset[Source], tuple[Source, Source]] = {}
        self.reciprocals: dict[Source, Source] = {}
        self.covering: set[frozenset[Source]] = set()
        self.carries: dict[Source, tuple[str, Source, Source, Source]] = {}

    # -- raw emission

    def op(self, name: str, dst: tuple[int, ...], src: tuple[Source, ...], attr: Any = None,
           guard: Guard | None = None) -> None:
        """Append one operation as it stands."""
        self.ops.append(Op(name, dst, src, attr, guard, self.site))

    def value(self, name: str, width: int, src: tuple[Source, ...], attr: Any = None) -> int:
        """Append an operation with one fresh result; equal pure operations are shared."""
        dst = self.registers.temp(width)
        self.defs[dst] = (name, src, attr)
        self.op(name, (dst,), src, attr)
        return dst

    def pure(self, name: str, width: int, src: tuple[Source, ...], attr: Any = None) -> Source:
        """As `value`, but an equal earlier operation of the block is re-used."""
        key = (name, width, src, attr)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self.value(name, width, src, attr)
        return found

    def definition(self, value: Source) -> Definition | None:
        """The defining operation of a temporary of this block."""
        return self.defs.get(value) if isinstance(value, int) else None

    def is_quiet(self, value: Source) -> bool:
        """True if the value cannot be a signalling NaN."""
        if isinstance(value, Const):
            exponent, quiet_bit = {16: (0x7C00, 0x200), 64: (0x7FF << 52, 1 << 51)}.get(
                value.width_bits, (0x7F800000, 0x400000))
            payload = value.bits & ((quiet_bit << 1) - 1)
            return value.bits & exponent != exponent or payload == 0 or bool(payload & quiet_bit)
        if value in self.quiet:
            return True
        found = self.definition(value)
        if found is None:
            return False
        if found[0] in _ARITHMETIC or (found[0] == "fcvt" and found[2].dst in _FLOATS):
            return True
        if found[0] == "select":
            return self.is_quiet(found[1][1]) and self.is_quiet(found[1][2])
        return found[0] in ("fneg", "fabs", "gather", "first") and self.is_quiet(found[1][0])

    def is_raw(self, value: Source, depth: int = 20) -> bool:
        """True if the bits are known to be those of memory, moved: a signalling NaN stays one."""
        if isinstance(value, Const) or value in self.raw:
            return True
        found = self.defs.get(value)
        if found is None or depth == 0 or found[0] not in _MOVES:
            return False
        moved = found[1][:1] if found[0] in ("gather", "first") else \
            found[1][1:] if found[0] == "select" else found[1]
        return all(self.is_raw(s, depth - 1) for s in moved)

    def is_uniform(self, value: Source, depth: int = 40) -> bool:
        """True if the value is known to be the same in all lanes of a wave."""
        if isinstance(value, Const) or value in self.uniform:
            return True
        found = self.defs.get(value)
        if found is None or depth == 0 or found[0] in _LANEWISE:
            return False
        if any(isinstance(s, int) and self.registers.names[s] for s in found[1]):
            return False
        if all(self.is_uniform(s, depth - 1) for s in found[1]):
            self.uniform.add(value)
            return True
        return False

    def is_pointer(self, value: Source, depth: int = 12) -> bool:
        """True for a 64-bit value made from a pointer argument by adding."""
        if value in self.pointers:
            return True
        found = self.definition(value)
        if found is None or depth == 0:
            return False
        if found[0] == "iadd" and found[2] == 64:
            return any(self.is_pointer(s, depth - 1) for s in found[1])
        return False

    def is_pointer_high(self, value: Source) -> bool:
        """True for the high half of such a value."""
        if value in self.pointers:
            return True
        found = self.definition(value)
        return found is not None and found[0] == "extract" and found[2] == (32, 32) and \
            self.is_pointer(found[1][0])

    def is_short(self, value: Source) -> bool:
        """True if a 32-bit value is known to be below 2**16."""
        if isinstance(value, Const):
            return value.bits < 0x10000
        if value in self.short:
            return True
        found = self.defs.get(value)
        if found is None:
            return False
        if found[0] == "iand":
            return any(isinstance(s, Const) and s.bits < 0x10000 for s in found[1])
        return found[0] == "zext" and found[2][0] <= 16

    def width(self, value: Source) -> int:
        """Width in bits."""
        return value.width_bits if isinstance(value, Const) else self.registers.widths[value]

    # -- integers

    def int2(self, name: str, a: Source, b: Source, w: int) -> Source:
        """A two-operand integer operation with constant folding and neutral elements."""
        if isinstance(a, Const) and isinstance(b, Const) and name in _FOLD:
            return fits(int(_FOLD[name](a.bits, b.bits, w)), w)
        if isinstance(a, Const) and OPS[name].commutative:
            a, b = b, a  # a literal is read as the second source, wherever it stands
        if isinstance(b, Const) and b.bits == 0 and name in (
                "iadd", "isub", "ior", "ixor", "shl", "shr_u", "shr_s"):
            return a
        if name == "iand" and isinstance(b, Const) and b.bits in (0, (1 << w) - 1):
            return b if b.bits == 0 else a
        halves = self._on_pack(name, a, b, w)
        return halves if halves is not None else self.pure(name, w, (a, b), w)

    def _on_pack(self, name: str, a: Source, b: Source, w: int) -> Source | None:
        """Shifts and masks that only move the parts of a pack."""
        found = self.definition(a)
        if found is None or found[0] != "pack" or w != 32 or not isinstance(b, Const):
            return None
        if name == "iand" and b.bits in (0xFFFF, 0xFF):
            return self.zext(self.extract(a, 0, b.bits.bit_length()), w)
        if name == "iand" and b.bits == 0xFFFF0000:
            return self.pack(Const(0, 16), self.extract(a, 16, 16))
        if name == "shr_u" and b.bits in (8, 16, 24):
            return self.zext(self.extract(a, b.bits, w - b.bits), w)
        if name == "shl" and b.bits == 16:
            return self.pack(Const(0, 16), self.extract(a, 0, 16))
        return None

    def _float_bit(self, a: Source) -> Source | None:
        """Bit 0 of (x >> 16) for a float x, as one field: rounding written in integers."""
        found = self.definition(a)
        if found is None or found[0] not in ("zext", "shr_u"):
            return None
        bit = self.extract(a, 0, 1)
        field = self.definition(bit)
        if field is None or field[0] != "extract":
            return None
        maker = self.definition(field[1][0])
        return bit if maker is not None and OPS[maker[0]].kind == "float" else None

    def add(self, a: Source, b: Source, w: int = 32) -> Source:
        """a + b modulo 2**w."""
        return self.int2("iadd", a, b, w)

    def sub(self, a: Source, b: Source, w: int = 32) -> Source:
        """a - b modulo 2**w."""
        return self.int2("isub", a, b, w)

    def and_(self, a: Source, b: Source, w: int = 32) -> Source:
        """Bitwise and."""
        for x, y in ((a, b), (b, a)):
            if w == 32 and y == Const(1, 32):
                bit = self._float_bit(x)
                if bit is not None:
                    return self.zext(bit, 32)
        return self.int2("iand", a, b, w)

    def or_(self, a: Source, b: Source, w: int = 32) -> Source:
        """Bitwise or."""
        return self.int2("ior", a, b, w)

    def xor(self, a: Source, b: Source, w: int = 32) -> Source:
        """Bitwise exclusive or; (x ^ y) ^ v of two exchanged copies of v is the other lane's v."""
        for pair, value in ((a, b), (b, a)):
            found = self.definition(pair)
            if found is not None and found[0] == "ixor":
                swap = self.swapped.get(frozenset(found[1]))
                if swap is not None and swap[0] == value:
                    return swap[1]
        return self.int2("ixor", a, b, w)

    def not_(self, a: Source, w: int = 32) -> Source:
        """Bitwise complement."""
        if isinstance(a, Const):
            return fits(~a.bits, w)
        return self.pure("inot", w, (a,), w)

    def shift(self, name: str, a: Source, n: Source, w: int) -> Source:
        """A shift whose amount is masked to the width, as AMD's are."""
        if isinstance(n, Const):
            found = self.definition(a)
            if name == "shr_u" and w == 32 and n.bits == 16 and found is not None and \
                    found[0] == "iadd":
                rounded = bf16_high_half(self, a)
                if rounded is not None:
                    return self.zext(rounded, 32)
            return self.int2(name, a, Const(n.bits & (w - 1), 32), w)
        return self.int2(name, a, self.and_(n, Const(w - 1, 32)), w)

    # -- widths

    def zext(self, a: Source, to: int) -> Source:
        """Zero extension (or nothing at equal width)."""
        w = self.width(a)
        if w == to:
            return a
        if isinstance(a, Const):
            return Const(a.bits, to)
        return self.pure("zext", to, (a,), (w, to))

    def sext(self, a: Source, to: int) -> Source:
        """Sign extension."""
        w = self.width(a)
        if w == to:
            return a
        if isinstance(a, Const):
            return fits(_signed(a.bits, w), to)
        return self.pure("sext", to, (a,), (w, to))

    def extract(self, a: Source, lo: int, w: int) -> Source:
        """Bits [lo, lo + w)."""
        width = self.width(a)
        if lo == 0 and w == width:
            return a
        if isinstance(a, Const):
            return fits(a.bits >> lo, w)
        found = self.definition(a)
        if found is not None:
            name, src, attr = found
            if name == "pack":
                at = 0
                for part in src:
                    size = self.width(part)
                    if at <= lo and lo + w <= at + size:
                        return self.extract(part, lo - at, w)
                    at += size
            elif name == "extract":
                return self.extract(src[0], attr[0] + lo, w)
            elif name in ("zext", "sext") and lo + w <= attr[0]:
                return self.extract(src[0], lo, w)
            elif name == "zext" and lo >= attr[0]:
                return Const(0, w)
            elif name == "iadd" and (lo, w) == (16, 16):
                rounded = bf16_high_half(self, a)
                if rounded is not None:
                    return rounded
            elif name == "shr_u" and isinstance(src[1], Const) and \
                    lo + src[1].bits + w <= width:
                return self.extract(src[0], lo + src[1].bits, w)
            elif name == "shl" and isinstance(src[1], Const) and lo >= src[1].bits:
                return self.extract(src[0], lo - src[1].bits, w)
        return self.pure("extract", w, (a,), (lo, w))

    def pack(self, *parts: Source) -> Source:
        """Join parts, first lowest."""
        total = sum(self.width(p) for p in parts)
        if len(parts) == 1:
            return parts[0]
        if all(isinstance(p, Const) for p in parts):
            bits = at = 0
            for part in parts:
                assert isinstance(part, Const)
                bits |= part.bits << at
                at += part.width_bits
            return Const(bits, total)
        whole = self._whole(parts)
        if whole is not None:
            return whole
        if len(parts) == 2:
            found = self._pair(parts[0], parts[1], total)
            if found is not None:
                return found
        return self.pure("pack", total, parts, total)

    def _whole(self, parts: tuple[Source, ...]) -> Source | None:
        """pack(extract(x, 0, a), extract(x, a, b), ...) = x."""
        first = self.definition(parts[0])
        if first is None or first[0] != "extract":
            return None
        source, at = first[1][0], 0
        for part in parts:
            found = self.definition(part)
            if found is None or found[0] != "extract" or found[1][0] != source or \
                    found[2][0] != at:
                return None
            at += found[2][1]
        return source if at == self.width(source) else None

    def addends(self, lows: tuple[Source, Source], highs: tuple[Source, Source]
                ) -> tuple[Source, Source]:
        """Two 64-bit addends out of their halves, which a sum may take in either order."""
        def known(lo: Source, hi: Source) -> bool:
            return ((lo, hi) in self.pairs or self._whole((lo, hi)) is not None
                    or self.entry_pair(lo, hi) is not None)

        (x, y), (a, b) = lows, highs
        if (known(x, b) or known(y, a)) and not (known(x, a) or known(y, b)):
            a, b = b, a
        return self.pack(x, a), self.pack(y, b)

    def _pair(self, lo: Source, hi: Source, total: int) -> Source | None:
        known = self.pairs.get((lo, hi))
        if known is not None:
            return known
        w = self.width(lo)
        if self.width(hi) != w:
            return None
        if w == 32:
            entered = self.entry_pair(lo, hi)
            if entered is not None:
                return entered
        if isinstance(hi, Const) and hi.bits == 0:
            return self.zext(lo, total)
        found = self.definition(hi)
        if found is None:
            return None
        name, src, _ = found
        if name == "shr_s" and src == (lo, Const(w - 1, 32)):
            return self.sext(lo, total)
        low = self.definition(lo)
        if name in ("imulhi_u", "imulhi_s") and low is not None and low[0] == "imul" and \
                set(low[1]) == set(src):
            return self.pure("imulwide_" + name[-1], total, src, w)
        return None

    # -- predicates

    def icmp(self, cond: str, a: Source, b: Source, type: str) -> Source:
        """Integer compare; type u32, s64, ..."""
        if isinstance(a, Const) and isinstance(b, Const):
            w = int(type[1:])
            x, y = (_signed(c.bits, w) if type[0] == "s" else c.bits for c in (a, b))
            return TRUE if _COMPARE[cond](x, y) else FALSE
        return self.pure("icmp", 1, (a, b), Compare(cond, type))

    def implies(self, p: Source, q: Source) -> bool:
        """True if p is known to lie inside q."""
        return p in (q, FALSE) or q == TRUE or q in self.implied.get(p, ())

    def pand(self, p: Source, q: Source) -> Source:
        """p and q."""
        if self.implies(p, q):
            return p
        if self.implies(q, p):
            return q
        if p == FALSE or q == FALSE:
            return FALSE
        if self.complementary(p, q):
            return FALSE
        key = (p, q) if repr(p) <= repr(q) else (q, p)
        result = self.pure("pand", 1, key)
        self.implied[result] = frozenset((p, q)) | self.implied.get(p, frozenset()) | \
            self.implied.get(q, frozenset())
        if p in self.uniform and q in self.uniform:
            self.uniform.add(result)
        return result

    def complementary(self, p: Source, q: Source) -> bool:
        """True if one is the written negation of the other."""
        for x, y in ((p, q), (q, p)):
            found = self.definition(x)
            if found is not None and found[0] == "pnot" and found[1][0] == y:
                return True
        return False

    def covers(self, p: Source, q: Source, depth: int = 6) -> bool:
        """True if every lane is known to be in p or in q."""
        if TRUE in (p, q) or self.complementary(p, q) or frozenset((p, q)) in self.covering:
            return True
        if depth == 0:
            return False
        for x, y in ((p, q), (q, p)):
            found = self.definition(x)
            if found is None:
                continue
            if found[0] == "por" and any(self.covers(part, y, depth - 1) for part in found[1]):
                return True
            if found[0] == "pand":  # (a and not y) or y = a or y
                for a, b in (found[1], found[1][::-1]):
                    if self.complementary(b, y) and self.covers(a, y, depth - 1):
                        return True
        return False

    def por(self, p: Source, q: Source) -> Source:
        """p or q."""
        if self.implies(p, q):
            return q
        if self.implies(q, p):
            return p
        if self.covers(p, q):
            return TRUE
        split = self._rejoined(p, q)
        if split is not None:
            return split
        key = (p, q) if repr(p) <= repr(q) else (q, p)
        result = self.pure("por", 1, key)
        common = (self.implied.get(p, frozenset()) | {p}) & (self.implied.get(q, frozenset()) | {q})
        self.implied[result] = frozenset(common)
        if p in self.uniform and q in self.uniform:
            self.uniform.add(result)
        return result

    def _rejoined(self, p: Source, q: Source) -> Source | None:
        """(x and c) or (x and not c) = x."""
        dp, dq = self.definition(p), self.definition(q)
        if dp is None or dq is None or dp[0] != "pand" or dq[0] != "pand":
            return None
        for x in dp[1]:
            if x in dq[1]:
                c = dp[1][1] if dp[1][0] == x else dp[1][0]
                d = dq[1][1] if dq[1][0] == x else dq[1][0]
                if self.complementary(c, d):
                    return x
        return None

    def pnot(self, p: Source) -> Source:
        """not p."""
        if isinstance(p, Const):
            return Const(1 - p.bits, 1)
        found = self.definition(p)
        if found is not None and found[0] == "pnot":
            return found[1][0]
        result = self.pure("pnot", 1, (p,))
        if p in self.uniform:
            self.uniform.add(result)
        return result

    def pandnot(self, p: Source, q: Source) -> Source:
        """p and not q; inside p only the rest of q matters."""
        return self.pand(p, self.pnot(self.within(q, p)))

    def within(self, q: Source, p: Source) -> Source:
        """q simplified for lanes where p holds: drop conjuncts that p implies."""
        found = self.definition(q)
        if found is not None and found[0] == "pand":
            a, b = found[1]
            if self.implies(p, a):
                return self.within(b, p)
            if self.implies(p, b):
                return self.within(a, p)
        return TRUE if self.implies(p, q) else q

    def pxor(self, p: Source, q: Source) -> Source:
        """p exclusive-or q."""
        if p == q:
            return FALSE
        for x, y in ((p, q), (q, p)):
            if x == FALSE:
                return y
            if self.implies(x, y):
                return self.pandnot(y, x)
        result = self.pure("pxor", 1, (p, q))
        if p in self.uniform and q in self.uniform:
            self.uniform.add(result)
        return result

    def select(self, c: Source, a: Source, b: Source, w: int) -> Source:
        """c ? a : b."""
        if a == b:
            return a
        if isinstance(c, Const):
            return a if c.bits else b
        if w == 1:
            if (a, b) == (TRUE, FALSE):
                return c
            if (a, b) == (FALSE, TRUE):
                return self.pnot(c)
        swap = self.swapped.get(frozenset((a, b)))
        test = self.definition(c)
        if swap is not None and test is not None and test[0] == "icmp" and \
                test[2] == Compare("eq", "u32") and set(test[1]) == {b, swap[0]}:
            return swap[1]  # x == v ? y : x of two exchanged copies of v is the other lane's v
        negated = self.definition(c)
        if negated is not None and negated[0] == "pnot":
            c, a, b = negated[1][0], b, a
        inner = self.definition(a)
        if inner is not None and inner[0] == "select" and inner[1][0] == c:
            a = inner[1][1]
        inner = self.definition(b)
        if inner is not None and inner[0] == "select" and inner[1][0] == c:
            b = inner[1][2]
        return a if a == b else self.pure("select", w, (c, a, b), w)

    def ballot(self, p: Source, w: int) -> Source:
        """The mask of a predicate; existing lanes only."""
        return Const(0, w) if p == FALSE else self.pure("ballot", w, (p,), w)

    def lanebit(self, mask: Source) -> Source:
        """This lane's bit of a mask."""
        if isinstance(mask, Const):
            if mask.bits == 0:
                return FALSE
            if mask.bits == (1 << mask.width_bits) - 1:
                return TRUE
        found = self.definition(mask)
        if found is not None and found[0] == "ballot":
            return found[1][0]
        return self.pure("lanebit", 1, (mask,))

    def any(self, p: Source, w: int) -> Source:
        """True in all lanes if p holds in one; uniform predicates are their own `any`."""
        if self.is_uniform(p):
            return p
        found = self.definition(p)
        if found is not None and found[0] == "pand":
            for u, q in (found[1], found[1][::-1]):
                if self.is_uniform(u):
                    return self.pand(u, self.any(q, w))
        result = self.icmp("ne", self.ballot(p, w), Const(0, w), f"u{w}")
        self.uniform.add(result)
        return result

    # -- lanes

    def laneid(self) -> Source:
        """The lane's number in its wave."""
        return self.pure("special", 32, (), "laneid")

    def gather(self, value: Source, lane: Source) -> Source:
        """The value of another lane."""
        if isinstance(value, Const):
            return value
        w = self.width(value)
        return self.pure("gather", w, (value, lane), w)

    # -- floats

    def fneg(self, a: Source, type: str, w: int) -> Source:
        """Flip the sign."""
        if isinstance(a, Const):
            return Const(a.bits ^ (1 << (w - 1)), w)
        return self.pure("fneg", w, (a,), FloatMode(type))

    def fabs(self, a: Source, type: str, w: int) -> Source:
        """Clear the sign."""
        if isinstance(a, Const):
            return Const(a.bits & ~(1 << (w - 1)), w)
        return self.pure("fabs", w, (a,), FloatMode(type))
