"""Register values: an integer (`Poly`) or a node, and exact moves between the two.

In: values of a known width. Out: values. Packing and taking apart never lose which part came from
where: parts stay parts (never one joined value), a load of 32 bits is two loads of 16 when halves
are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from checker.arrays import every, places, some
from checker.tree.nodes import Forest, Node, parameter_name
from checker.tree.poly import Coef, Mono, Poly, TooLarge, constant, is_zero, settle

__all__ = ["Value", "Values", "by_symbols", "divisible", "is_index", "low_bits", "unsigned"]

_FLOATS = frozenset({"fcvt", "fadd", "fmul", "ffma", "fextremum", "fneg", "fabs", "fold", "mma"})

Value = Poly | Node
DIVISIBLE_BITS = 4  # compilers reason about multiples of 16 at most
MOST_KINDS = 8  # of lanes, by the symbols that their sums hold


def unsigned(c: Any, width: int) -> Any:
    """Return signed literal(s) as unsigned python ints or uint64 array."""
    if isinstance(c, np.ndarray):
        return c.view(np.uint64) & np.uint64((1 << width) - 1)
    return c & ((1 << width) - 1)


class Values:
    """Constructors of values over one forest."""

    each = False  # whether a sum is looked at lane by lane, not as all lanes share it

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.parts: dict[tuple[int, int, int], Value] = {}  # parts of nodes, made once

    # -- between the two kinds
    def poly(self, value: Value, width: int) -> Poly:
        """Return a value as a polynomial modulo 2**width (of the same width)."""
        if isinstance(value, Poly):
            return value if value.width == width else value.to_width(width)
        if value.op == "int" and value.poly is not None:
            return value.poly
        if value.op == "pack":
            return self._pack_sum(value.args, width)
        if value.op == "select":
            return self._select_poly(value, width)
        return Poly(width, {(value,): 1})

    def _select_poly(self, node: Node, width: int) -> Poly:
        p, a, b = node.args
        if a.op == "int" and b.op == "int":
            try:
                return self.select_poly(p, self.poly(a, width), self.poly(b, width))
            except TooLarge:
                pass
        return Poly(width, {(node,): 1})

    def node(self, value: Value) -> Node:
        """Return a value as a node; fields that lie side by side become a pack."""
        if isinstance(value, Node):
            return value
        if value.is_const:
            return self.forest.number(value)
        packed = self._as_pack(value)
        return packed if packed is not None else self.forest.number(value)

    def _as_pack(self, poly: Poly) -> Node | None:
        """Recognise a sum of fields that do not overlap: a << 16 | b."""
        if poly.atom() is not None:
            atom = poly.atom()
            assert atom is not None
            if atom.width == poly.width:
                return None
        fields: list[tuple[int, Node]] = []
        for mono, c in poly.terms.items():
            if isinstance(c, np.ndarray):
                return None
            if not mono:
                return None
            bits = c & ((1 << poly.width) - 1)
            if len(mono) != 1 or bits & (bits - 1) or mono[0].op in ("sext", "zext", "sreg", "bit",
                                                                     "y", "kappa"):
                return None
            start, atom = bits.bit_length() - 1, mono[0]
            if start + atom.width < poly.width and (atom.low is None or atom.low < 0):
                return None  # above it lie copies of its sign
            fields.append((start, atom))
        fields.sort(key=lambda f: f[0])
        parts: list[Node] = []
        at = 0
        for start, atom in fields:
            if start < at:
                return None
            if start > at:
                parts.append(self.forest.literal(start - at, 0))
            width = min(atom.width, poly.width - start)
            parts.append(self.node(self.extract(atom, 0, width)))
            at = start + width
        if at < poly.width:
            parts.append(self.forest.literal(poly.width - at, 0))
        return self.node(self.pack(parts))

    def as_float(self, value: Value) -> Value:
        """Return floats that lie side by side in a word as a pack: what it is, not a number.

        However it was put together: widened with zeros, shifted, added up.
        """
        if not isinstance(value, Poly):
            return value
        atom = value.atom()
        if atom is not None and atom.op == "zext" and atom.poly is not None:
            width, atom = atom.poly.width, atom.poly.atom()
            atom = atom if atom is not None and atom.width == width else None
        if atom is not None:
            if atom.op not in _FLOATS or atom.width >= value.width:
                return value
            return self.pack([atom, constant(value.width - atom.width, 0)])
        if any(len(m) == 1 and m[0].op in _FLOATS for m in value.terms):
            return self._as_pack(value) or value
        return value

    # -- widths
    def zext(self, poly: Poly, source: int, width: int) -> Poly:
        """Zero-extend; the sum itself where it cannot have wrapped, an atom elsewhere."""
        return self._widened("zext", poly, source, width)

    def sext(self, poly: Poly, source: int, width: int) -> Poly:
        """Sign-extend; the sum itself where it cannot have wrapped, an atom elsewhere."""
        return self._widened("sext", poly, source, width)

    def _widened(self, op: str, poly: Poly, source: int, width: int) -> Poly:
        if source == width:
            return poly
        plain = self._plain(op, poly, source, width)
        if plain is not None:
            return plain
        parts = []
        rest = np.zeros(1, dtype=bool)
        for lanes, own in by_symbols(poly) if self.each else ():
            plain = self._plain(op, own, source, width)
            if plain is not None:
                parts.append((lanes, plain))
                rest = rest | lanes
        if not parts:
            return self._cast_sum(op, poly, source, width)
        if not every(rest):
            parts.append((~rest, self._cast_sum(op, _of_lanes(poly, ~rest), source, width)))
        out = Poly(width, {})
        for lanes, own in parts:
            out = out.add(own.scale(lanes.astype(np.int64)))
        return out

    def _plain(self, op: str, poly: Poly, source: int, width: int) -> Poly | None:
        """Return the sum itself where it cannot have wrapped."""
        if poly.is_const:
            literal = _signed(unsigned(poly.const, source)) if op == "zext" else poly.const
            return constant(width, literal)
        half = 1 << (source - 1)
        low, high = (0, 2 * half) if op == "zext" else (-half, half)
        for bounds in (poly.range(), poly.reach()):
            if bounds is not None and bounds[0] >= low and bounds[1] < high:
                return poly.to_width(width)
        if op == "zext":
            shifted = _unsigned_form(poly, source)
            if shifted is not None:
                return shifted.to_width(width)
        return self._counted(poly, source, width)

    def whole(self, poly: Poly) -> Poly:
        """Return a sum without the marks of having been computed in words.

        Upper parts that are back in their place are the number less its lower part:
        2**k * (q >> k) = q - q mod 2**k. With the lower words next to them, a sum of 64 bits that
        was computed in words of 32, carries and all, is what it is in one piece.
        """
        out = self._uncut(poly)
        try:
            while True:
                found = next(((mono, c, i, *upper) for mono, c in out.terms.items()
                              for i, atom in enumerate(mono)
                              if (upper := self._upper(atom, c, out.width)) is not None), None)
                if found is None:
                    return out
                mono, c, i, k, number = found
                low = self.poly(self.trunc(number, number.width, k), k)
                number = number.to_width(out.width).sub(self.zext(low, k, out.width))
                rest = Poly(out.width, {(*mono[:i], *mono[i + 1:]): 1})
                c = c >> (np.int64(k) if isinstance(c, np.ndarray) else k)
                out = Poly(out.width, {m: v for m, v in out.terms.items() if m != mono})
                out = self._uncut(out.add(rest.mul(number).scale(c)))
        except TooLarge:
            return out

    def _upper(self, atom: Node, c: Any, width: int) -> tuple[int, Poly] | None:
        """Return k and q where c * atom = c * (q >> k) modulo 2**width and 2**k divides c."""
        if atom.op == "extract":
            k = int(atom.attr)
        elif atom.op == "imulhi_u":
            k = atom.width
        else:
            return None
        step = (1 << k) - 1
        if k + atom.width < width or (
                some(c & np.int64(step)) if isinstance(c, np.ndarray) else c & step):
            return None
        if atom.op == "extract":
            return k, self.poly(atom.args[0], atom.args[0].width)
        return k, self.product(*(self._word(a, k) for a in atom.args))

    def _word(self, node: Node, width: int) -> Poly:
        """Return a word as a polynomial; the low one of a number is that number modulo 2**width."""
        if node.op == "extract" and node.attr == "0":
            whole = self.poly(node.args[0], node.args[0].width)
            return self.poly(self.trunc(whole, whole.width, width), width)
        return self.poly(node, width)

    def product(self, x: Poly, y: Poly) -> Poly:
        """Return the whole product of two words of one width; an index is itself (`counts`)."""
        width = x.width
        if not x.is_const and not y.is_const:  # no bytes are counted: a stride by an index
            x, y = (p.to_width(2 * width) if self.counts(p) else p for p in (x, y))
        x, y = (self.zext(p, p.width, 2 * width) for p in (x, y))
        return x.mul(y)

    def _uncut(self, poly: Poly) -> Poly:
        """Return c * ext(p) as c * p where what the cut to k bits drops is shifted out: c * 2**k.

        Exact modulo 2**width: ext(p) and p differ by a multiple of 2**k, as a value and its k low
        bits do.
        """
        out = poly
        for mono, c in poly.terms.items():
            if len(mono) == 1 and not isinstance(c, np.ndarray) and c << mono[0].width & (
                    (1 << poly.width) - 1) == 0:
                if mono[0].op in ("zext", "sext") and mono[0].poly is not None:
                    inner = mono[0].poly.to_width(poly.width)
                elif mono[0].op == "extract" and mono[0].attr == "0" \
                        and mono[0].args[0].width == poly.width:
                    inner = self.poly(mono[0].args[0], poly.width)
                else:
                    continue
                out = out.sub(Poly(poly.width, {mono: c})).add(inner.scale(c))
        return out

    def counts(self, poly: Poly) -> bool:
        """Tell whether a word is counters and block indices times literals, and nothing negative.

        It lies in [0, 2**31), under the premise no-index-wrap.
        """
        if poly.width != 32:
            return False
        rest, counted = {}, False
        for mono, c in poly.terms.items():
            if len(mono) == 1 and is_index(mono[0]):
                if isinstance(c, np.ndarray) or not 0 < c < 1 << 16:
                    return False
                counted = True
            else:
                rest[mono] = c
        bounds = Poly(32, rest).range()
        if not counted or bounds is None or bounds[0] < 0 or bounds[1] > 1 << 24:
            return False
        self.forest.premises.add("no-index-wrap")
        return True

    def _counted(self, poly: Poly, source: int, width: int) -> Poly | None:
        """Widen a loop counter times a literal as it is, under the premise no-index-wrap."""
        if source != 32:
            return None
        counted = False
        rest: dict[Any, Any] = {}
        for mono, c in poly.terms.items():
            if len(mono) == 1 and mono[0].op == "kappa":
                if isinstance(c, np.ndarray) or not 0 < c < 1 << 16:
                    return None
                counted = True
            else:
                rest[mono] = c
        bounds = Poly(source, rest).range()
        if not counted or bounds is None or bounds[0] < -(1 << 16) or bounds[1] > 1 << 24:
            return None
        self.forest.premises.add("no-index-wrap")
        return poly.to_width(width)

    def _cast_sum(self, op: str, poly: Poly, source: int, width: int) -> Poly:
        """Take a literal below the other terms' common power of two out of a cast.

        ext(p + c) = ext(p) + c where p is a multiple of 2**k and 0 <= c < 2**k: adding c to a
        multiple of 2**k crosses neither 2**source nor its half. A parameter that is taken for a
        multiple of 16 makes its products one (premise `divisible`).
        """
        c = poly.const
        symbols = Poly(source, {m: v for m, v in poly.terms.items() if m})
        zeros, names = self.zeros(symbols)
        rest = low_bits(c, np.minimum(zeros, source - 1))
        if names and np.any(rest != low_bits(c, np.minimum(self._tz(symbols), source - 1))):
            self.forest.premises |= divisible(names)
        atom = self.cast(op, symbols.add(constant(source, c - rest)), source)
        return Poly(width, {(atom,): 1}).add(constant(width, rest))

    def zeros(self, symbols: Poly) -> tuple[Coef, set[str]]:
        """Return how many low bits of a sum are zero (in each lane), and who says so."""
        zeros: Coef = self._tz(symbols)
        used: set[str] = set()
        if self.forest.divisible and np.any(zeros < DIVISIBLE_BITS):
            more: Coef = symbols.width
            for mono, c in symbols.terms.items():
                own = self._tz(Poly(symbols.width, {mono: c}))
                names = {parameter_name(a) for a in mono} & self.forest.divisible
                used |= {n for n in names if n is not None}
                more = np.minimum(more, own + DIVISIBLE_BITS * bool(names))
            zeros = more
        return zeros, used

    def _tz(self, poly: Poly) -> Coef:
        return poly.tz_each() if self.each else poly.tz()

    def cast(self, op: str, poly: Poly, source: int) -> Node:
        """Return the integer that a polynomial modulo 2**source stands for, as an atom."""
        atom = poly.atom()
        if op == "zext" and atom is not None and atom.low is not None and atom.low >= 0 \
                and atom.high is not None and atom.high < 1 << source:
            return atom
        half = 1 << (source - 1)
        low, high = (-half, half - 1) if op == "sext" else (0, (1 << source) - 1)
        return self.forest.make(op, str(source), width=source, poly=poly, low=low, high=high)

    def exact(self, value: Value, width: int, signed: bool) -> Poly:
        """Return the integer a value stands for, exactly (width 0)."""
        poly = self.poly(value, width)
        wide = self.sext(poly, width, 0) if signed else self.zext(poly, width, 0)
        return wide

    def trunc(self, value: Value, source: int, width: int) -> Value:
        """Keep the low bits."""
        if isinstance(value, Node) and value.op != "int":
            return self.extract(value, 0, width)
        poly = self.poly(value, source)
        terms: Poly = Poly(width, {})
        for mono, c in poly.terms.items():
            part = constant(width, c)
            for atom in mono:
                part = part.mul(self._trunc_atom(atom, width))
            terms = terms.add(part)
        return terms

    def _trunc_atom(self, atom: Node, width: int) -> Poly:
        if atom.op in ("sext", "zext") and atom.poly is not None and atom.poly.width >= width:
            inner = self.trunc(atom.poly, atom.poly.width, width)
            return self.poly(inner, width)
        if atom.width > width and atom.op in ("load", "pack", "select", "gather", "mux"):
            return self.poly(self.extract(atom, 0, width), width)
        return Poly(width, {(atom,): 1})

    # -- parts
    def extract(self, value: Value, low: int, width: int) -> Value:
        """Return bits [low, low + width) of a value."""
        forest = self.forest
        if isinstance(value, Poly):
            if low == 0 and width == value.width:
                return value
            if value.is_const:
                return self._extract_const(value, low, width)
            node = self._as_pack(value)
            if node is not None and node.op != "int":
                return self.extract(node, low, width)
            if low == 0:
                return self.trunc(value, value.width, width)
            upper = self._above(value, low)
            if upper is not None:
                return self.extract(upper, 0, width)
            return self._part(forest.number(value), low, width)
        if low == 0 and width == value.width:
            return value
        name = (value.serial, low, width)
        known = self.parts.get(name)
        if known is None:
            known = self.parts[name] = self._extract(value, low, width)
        return known

    def _above(self, poly: Poly, k: int) -> Poly | None:
        """Return bits [k, width) of a sum whose terms are multiples of 2**k or a number below."""
        high, low = Poly(poly.width - k, {}), Poly(poly.width, {})
        for mono, c in poly.terms.items():
            if bool(np.any(c & ((1 << k) - 1))):
                low = low.add(Poly(poly.width, {mono: c}))
            else:
                high = high.add(Poly(poly.width, {mono: c >> k}).to_width(poly.width - k))
        bounds = low.reach()
        return high if bounds and bounds[0] >= 0 and bounds[1] < 1 << k else None

    def _extract(self, value: Node, low: int, width: int) -> Value:
        forest = self.forest
        if value.op == "int" and value.poly is not None:
            return self.extract(value.poly, low, width)
        if value.op == "pack":
            return self._extract_pack(value, low, width)
        if value.op == "load" and value.poly is not None and low % 8 == 0 and width % 8 == 0 \
                and width >= 8:
            return forest.make("load", value.attr, width=width, low=0, high=(1 << width) - 1,
                               poly=value.poly.add(constant(64, low // 8)))
        if value.op == "gather" and value.table is not None:
            inner = self.extract(value.args[0], low, width)
            return self.gather(inner, value.table)
        if value.op == "mux" and value.table is not None:
            return self.mux(value.table, [self.extract(a, low, width) for a in value.args])
        if value.op == "select":
            p, a, b = value.args
            return self.select(p, self.extract(a, low, width), self.extract(b, low, width), width)
        return self._part(value, low, width)

    def _part(self, node: Node, low: int, width: int) -> Value:
        if node.op == "extract":
            node, low = node.args[0], low + int(node.attr)
        return self.forest.make("extract", str(low), width=width, args=(node,), low=0,
                                high=(1 << width) - 1)

    def _extract_const(self, poly: Poly, low: int, width: int) -> Poly:
        bits = unsigned(poly.const, poly.width)
        if isinstance(bits, np.ndarray):
            return constant(width, (bits >> np.uint64(low)).view(np.int64))
        return constant(width, bits >> low)

    def _extract_pack(self, node: Node, low: int, width: int) -> Value:
        parts: list[Value] = []
        at = 0
        for part in node.args:
            start, end = max(low, at), min(low + width, at + part.width)
            if start < end:
                parts.append(self.extract(part, start - at, end - start))
            at += part.width
        return parts[0] if len(parts) == 1 else self.pack(parts)

    def pack(self, parts: Sequence[Value]) -> Value:
        """Join parts, the first lowest; neighbours out of one value are that value again."""
        flat: list[Value] = []
        for part in parts:
            inner = part.args if isinstance(part, Node) and part.op == "pack" else (part,)
            for piece in inner:
                joined = self._join(flat[-1], piece) if flat else None
                if joined is not None:
                    flat[-1] = joined
                else:
                    flat.append(piece)
        if len(flat) == 1:
            return flat[0]
        width = sum(p.width for p in flat)
        if all(isinstance(p, Poly) and not p.is_const and p.atom() is None for p in flat):
            return self._pack_sum(flat, width)
        nodes = [self.node(p) for p in flat]
        return self.forest.make("pack", width=width, args=nodes, low=0, high=(1 << width) - 1)

    def _pack_sum(self, parts: Sequence[Value], width: int) -> Poly:
        """Parts side by side as a sum; an index among them is itself (`counts`)."""
        total, at = Poly(width, {}), 0
        for part in parts:
            piece = self.poly(part, part.width)
            wide = piece.to_width(width) if self.counts(piece) else self.zext(
                piece, part.width, width)
            total = total.add(wide.scale(1 << at))
            at += part.width
        return self.whole(total)

    def _join(self, low: Value, high: Value) -> Value | None:
        """Return the one value whose neighbouring parts these are, if any."""
        low = low.poly if isinstance(low, Node) and low.op == "int" and low.poly else low
        high = high.poly if isinstance(high, Node) and high.op == "int" and high.poly else high
        width = low.width + high.width
        if isinstance(low, Poly) and isinstance(high, Poly):
            if low.is_const and high.is_const and width <= 64:
                wide = constant(width, _signed(unsigned(low.const, low.width)))
                return wide.add(constant(width, high.const).scale(1 << low.width))
            return None
        if not isinstance(low, Node) or not isinstance(high, Node) or low.op != high.op:
            if isinstance(low, Poly) and isinstance(high, Node) and high.op == "extract" \
                    and high.attr == str(low.width) and high.args[0].op == "int" \
                    and high.args[0].poly is not None and high.args[0].width >= width:
                whole = high.args[0].poly
                trunced = self.trunc(whole, whole.width, low.width)
                if isinstance(trunced, Poly) and trunced.same(low):
                    return self.trunc(whole, whole.width, width)
            return None
        if low.op == "extract" and low.args[0] is high.args[0] \
                and int(low.attr) + low.width == int(high.attr):
            if low.attr == "0" and low.args[0].width == width:
                return low.args[0]
            return self.forest.make("extract", low.attr, width=width, args=low.args, low=0,
                                    high=(1 << width) - 1)
        return None

    # -- choices
    def gather(self, value: Value, table: npt.NDArray[np.int64]) -> Value:
        """Return a value as other lanes hold it."""
        if isinstance(value, Poly):
            return self.forest.gather_poly(value, table)
        return self.forest.gather(value, table)

    def mux(self, table: npt.NDArray[np.int64], values: Sequence[Value]) -> Value:
        """Return, in lane i, values[table[i]]."""
        if all(isinstance(v, Poly) for v in values) \
                and not any(_is_data_atom(v) for v in values):
            try:
                return self.forest.mux_poly(table, [v for v in values if isinstance(v, Poly)])
            except TooLarge:
                pass
        return self.forest.mux(table, [self.node(v) for v in values])

    def select(self, p: Node, a: Value, b: Value, width: int) -> Value:
        """Return p ? a : b."""
        forest = self.forest
        if p is forest.true:
            return a
        if p is forest.false:
            return b
        if p.op == "lanes" and p.table is not None:
            return self.mux(np.where(p.table, 0, 1).astype(np.int64), [a, b])
        if isinstance(a, Poly) and isinstance(b, Poly):
            if a.same(b):
                return a
            try:
                return self.select_poly(p, a, b)
            except TooLarge:
                pass
        na, nb = self.node(a), self.node(b)
        if na is nb:
            return a
        if p.op == "not":
            p, na, nb = p.args[0], nb, na
        elif p.op == "ge0" and _backward(p):
            assert p.poly is not None
            p, na, nb = forest.complement(p), nb, na
        if na.op == "pack" or nb.op == "pack":
            cuts = _cuts(na) | _cuts(nb)
            if len(cuts) > 2:
                edges = sorted(cuts)
                return self.pack([
                    self.select(p, self.extract(na, lo, hi - lo), self.extract(nb, lo, hi - lo),
                                hi - lo)
                    for lo, hi in pairwise(edges)])
        if na.op == "select" and na.args[0] is p:
            na = na.args[1]
        if nb.op == "select" and nb.args[0] is p:
            nb = nb.args[2]
        if na is nb:
            return na
        lows, highs = (na.low, nb.low), (na.high, nb.high)
        low = None if None in lows else min(x for x in lows if x is not None)
        high = None if None in highs else max(x for x in highs if x is not None)
        return forest.make("select", width=width, args=(p, na, nb), low=low, high=high,
                           may_neg_zero=na.may_neg_zero or nb.may_neg_zero)

    def select_poly(self, p: Node, a: Poly, b: Poly) -> Poly:
        """Return b + [p] * (a - b), exact modulo 2**width."""
        if p.op == "lanes" and p.table is not None:
            return self.forest.mux_poly(np.where(p.table, 0, 1).astype(np.int64), [a, b])
        return b.add(a.sub(b).mul(Poly(a.width, self.bit(p))))

    def bit(self, p: Node) -> dict[tuple[Node, ...], Any]:
        """Return a predicate as the terms of the integer 0 or 1."""
        if p.op == "lanes" and p.table is not None:
            return dict(constant(0, p.table.astype(np.int64)).terms)
        if p.op == "not":
            inner = self.bit(p.args[0])
            return Poly(0, {(): 1}).sub(Poly(0, inner)).terms
        if p.op == "and":
            total = Poly(0, {(): 1})
            for arg in p.args:
                total = total.mul(Poly(0, self.bit(arg)))
            return total.terms
        atom = self.forest.make("bit", width=1, args=(p,), low=0, high=1)
        return {(atom,): 1}

    def undefined(self, width: int) -> Node:
        """Return a value that was never written."""
        return self.forest.make("undef", width=width)


def is_index(atom: Node) -> bool:
    """Tell whether an atom is a loop counter or a block index."""
    return atom.op == "kappa" or (atom.op == "sreg" and atom.attr.startswith("ctaid"))


def divisible(names: Iterable[str]) -> set[str]:
    """Return the premises that parameters are multiples of 16."""
    return {f"divisible:{n}%{1 << DIVISIBLE_BITS}" for n in names}


def by_symbols(poly: Poly) -> list[tuple[Any, Poly]]:
    """Part the lanes by the symbols that their sums hold: which lanes, their sum.

    A symbol that other lanes have is none of a lane's own. Nothing where all lanes have the same
    symbols, or where there are more than a few kinds.
    """
    apart = [c for m, c in poly.terms.items() if m and isinstance(c, np.ndarray)
             and not every(c)]
    if not apart:
        return []
    codes = np.zeros(len(apart[0]), dtype=np.int64)
    for i, c in enumerate(apart):
        if i % 32 == 0:  # as few numbers as there are kinds
            codes = codes if not i else np.unique(codes, return_inverse=True)[1].ravel()
        codes = 2 * codes + (c != 0)
    kinds = sorted(set(codes.tolist()))
    if not 1 < len(kinds) <= MOST_KINDS:
        return []
    return [(codes == kind, _of_lanes(poly, codes == kind)) for kind in kinds]


def _of_lanes(poly: Poly, lanes: Any) -> Poly:
    """Return a sum as it is in some lanes; in the others it says anything."""
    first = int(places(lanes)[0])
    terms = {m: settle(np.where(lanes, c, c[first]), 0) if isinstance(c, np.ndarray) else c
             for m, c in poly.terms.items()}
    return Poly(poly.width, {m: c for m, c in terms.items() if not is_zero(c)})


def low_bits(c: Any, bits: Any) -> Any:
    """Return the low bits of a literal (or of one for each lane), at most 63."""
    mask = (np.int64(1) << bits) - np.int64(1)
    return c & mask if isinstance(c, np.ndarray) or isinstance(mask, np.ndarray) else c & int(mask)


def _backward(p: Node) -> bool:
    """Tell whether a comparison's complement is the one that a select is written with.

    The first symbol, parameters before others, stands with a positive sign; whatever the tiles.
    """
    assert p.poly is not None
    symbols = [m for m in p.poly.terms if m]
    if not symbols:
        return False
    c = p.poly.terms[symbols[0] if len(symbols) == 1 else min(symbols, key=_rank)]
    return bool(c[0] < 0) if isinstance(c, np.ndarray) else c < 0


def _rank(mono: Mono) -> tuple[Any, ...]:
    plain = all(parameter_name(a) is not None for a in mono)
    return not plain, sorted(map(_symbols, mono)), sorted(a.h.tobytes() for a in mono)


def _symbols(atom: Node) -> list[bytes]:
    """Return what a widened sum adds up, whatever it is multiplied by."""
    if atom.op in ("sext", "zext") and atom.poly is not None:
        return sorted(h for mono in atom.poly.terms for a in mono for h in _symbols(a))
    return [atom.h.tobytes()]


def _is_data_atom(value: Value) -> bool:
    if isinstance(value, Node):
        return True
    atom = value.atom()
    return atom is not None and atom.op not in ("sext", "zext", "sreg", "bit", "y", "kappa")


def _signed(c: Any) -> Any:
    return c.view(np.int64) if isinstance(c, np.ndarray) else c


def _unsigned_form(poly: Poly, source: int) -> Poly | None:
    """Return the sum with coefficients taken unsigned where it then lies in [0, 2**source)."""
    terms = {}
    for mono, c in poly.terms.items():
        bits = unsigned(c, source)
        terms[mono] = bits.view(np.int64) if isinstance(bits, np.ndarray) else bits
    whole = Poly(0, terms)
    bounds = whole.range()
    return whole if bounds is not None and bounds[0] >= 0 and bounds[1] < 1 << source else None


def _cuts(node: Node) -> set[int]:
    if node.op != "pack":
        return {0, node.width}
    cuts, at = {0}, 0
    for part in node.args:
        at += part.width
        cuts.add(at)
    return cuts

