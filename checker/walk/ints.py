"""Integer operations on polynomials: literal lanes by numpy, symbols by exact rules, else opaque.

In: an operator of the core table and values. Out: a value. A rule is used only where it holds for
every value of the symbols; an operation without one becomes an atom that keeps its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from checker.arrays import every, greatest, is_number, some
from checker.tree.logic import Logic, size_of
from checker.tree.nodes import LOW_BITS, Node
from checker.tree.poly import Poly, TooLarge, constant, settle
from checker.tree.values import Value, Values, is_index, unsigned

__all__ = ["Ints"]

U64 = npt.NDArray[np.uint64]
MOST_STEPS = 1 << 16  # from one element of a tile to another


def _mask(width: int) -> np.uint64:
    return np.uint64((1 << width) - 1)


def _to_signed(x: U64, width: int) -> npt.NDArray[np.int64]:
    shift = np.uint64(64 - width)
    return (x << shift).view(np.int64) >> np.int64(64 - width)


class Ints:
    """Makers of integer values over one forest."""

    def __init__(self, values: Values, logic: Logic) -> None:
        self.values = values
        self.logic = logic
        self.forest = values.forest

    def op(self, name: str, width: int, args: Sequence[Value]) -> Value:
        """Return the value of one integer operation of `width` bits."""
        try:
            literal = self._literal(name, width, args)
            if literal is not None:
                return literal
            rule: Callable[..., Value | None] | None = getattr(self, f"_{name}", None)
            made = rule(width, *args) if rule is not None else None
            if made is not None:
                return made
            if width == 64 and name in ("iand", "ior", "ixor") and all(
                    may_bits(self.values.poly(a, width)) < 1 << 32 for a in args):
                words = [self.values.trunc(self.values.poly(a, width), width, 32) for a in args]
                return self.values.zext(self.values.poly(self.op(name, 32, words), 32), 32, width)
        except TooLarge:
            pass
        return self.opaque(name, width, args)

    def opaque(self, name: str, width: int, args: Sequence[Value]) -> Node:
        """Return an operation that no rule resolves, as an atom."""
        nodes = [self.values.node(a) for a in args]
        out = 32 if name in ("popc", "clz", "bfind_u", "bfind_s") else width
        out = 2 * width if name.startswith("imulwide") else out
        top = 1 << out
        own = name in ("iand", "ior", "ixor", "imin_u", "imin_s", "imax_u", "imax_s", "imul",
                       "imulhi_u", "imulhi_s")
        below = 0
        for n in nodes:
            below |= n.deps & ~LOW_BITS
        # an index computed from block indices alone is a symbol of its own
        symbol = below and not below & ~self.forest.grid_bits and all(n.uniform for n in nodes)
        known = len(self.forest.nodes)
        low, high = 0, top - 1
        k = self._number_of(args[1]) if name in ("shr_u", "shr_s") else None
        if k is not None and 0 < k < width:
            low, high = (0, (top - 1) >> k) if name == "shr_u" else (-(top >> k + 1),
                                                                     (top >> k + 1) - 1)
        node = self.forest.make(name if own else "iop", f"{name}.{width}", width=out, args=nodes,
                                low=low, high=high, fresh_bit=bool(symbol))
        if symbol and len(self.forest.nodes) > known:
            node.deps &= ~below
            self.forest.hidden[node.deps & ~LOW_BITS] = below
            self.forest.grid_bits |= node.deps & ~LOW_BITS
        return node

    # -- literals in every lane
    def _literal(self, name: str, width: int, args: Sequence[Value]) -> Value | None:
        table = _CONCRETE.get(name)
        if table is None:
            return None
        arrays: list[U64] = []
        for arg in args:
            poly = arg if isinstance(arg, Poly) else (arg.poly if arg.op == "int" else None)
            if poly is None or not poly.is_const:
                return None
            bits = unsigned(poly.const, poly.width)
            arrays.append(bits if isinstance(bits, np.ndarray)
                          else np.array([bits], dtype=np.uint64))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            out = table(width, *arrays)
        if out is None:
            return None
        out_width = 32 if name in ("popc", "clz", "bfind_u", "bfind_s") else width
        out_width = 2 * width if name.startswith("imulwide") else out_width
        signed = np.asarray(out, dtype=np.uint64).view(np.int64)
        if len(signed) == 1:
            return constant(out_width, int(signed[0]))
        return constant(out_width, signed)

    # -- sums and products
    def _iadd(self, width: int, a: Value, b: Value) -> Value | None:
        return self._stepped(self.values.poly(a, width).add(self.values.poly(b, width)))

    def _isub(self, width: int, a: Value, b: Value) -> Value | None:
        return self._stepped(self.values.poly(a, width).sub(self.values.poly(b, width)))

    def _stepped(self, total: Poly) -> Value:
        """Return q * c + m * c as (q + m) * c, where q * c is a product that stays one (`_imul`).

        So it does not show whether a compiler steps from one element's product to the next one's.
        Every literal is some m times an odd c modulo 2**width: m is to be a step inside a tile.
        """
        atom = next((m[0] for m, c in total.terms.items() if len(m) == 1 and is_number(c, 1)), None)
        if atom is None or atom.op != "imul" or len(total.terms) != 2 or () not in total.terms:
            return total
        literals = [self._number_of(a) for a in atom.args]
        factor = next((c for c in literals if c is not None), 0)
        if factor % 2 == 0:
            return total
        width = total.width
        bits = np.atleast_1d(np.asarray(unsigned(total.const, width), dtype=np.uint64))
        with np.errstate(over="ignore"):
            steps = _to_signed(bits * np.uint64(pow(factor, -1, 1 << width)), width)
        if not every(abs(steps) < MOST_STEPS):
            return total
        other = self.values.poly(atom.args[literals.index(None)], width)
        moved = other.add(constant(width, settle(steps, width)))
        return self.op("imul", width, (moved, constant(width, factor)))

    def _ineg(self, width: int, a: Value) -> Value | None:
        return self.values.poly(a, width).neg()

    def _iabs(self, width: int, a: Value) -> Value | None:
        return a if self._nonnegative(width, a) else None

    def _inot(self, width: int, a: Value) -> Value | None:
        return self.values.poly(a, width).neg().sub(constant(width, 1))

    def _imul(self, width: int, a: Value, b: Value) -> Value | None:
        for x, y in ((a, b), (b, a)):
            c = self._number_of(y)
            if c is not None and 1 << (width - 4) <= min(c, (1 << width) - c) and c & (c - 1) \
                    and len(self.values.poly(x, width).terms) > 1:
                return None  # a product that wraps (a hash, no index) is one of what is multiplied
        return self.values.poly(a, width).mul(self.values.poly(b, width))

    def _imulwide_u(self, width: int, a: Value, b: Value) -> Value | None:
        return self.values.product(self.values.poly(a, width), self.values.poly(b, width))

    def _imulwide_s(self, width: int, a: Value, b: Value) -> Value | None:
        x = self.values.sext(self.values.poly(a, width), width, 2 * width)
        return x.mul(self.values.sext(self.values.poly(b, width), width, 2 * width))

    # -- fields
    def low_bits(self, poly: Poly, k: int) -> Poly:
        """Return poly mod 2**k, in poly's width."""
        width = poly.width
        if k <= 0:
            return constant(width, 0)
        if k >= width:
            return poly
        small = self.values.trunc(poly, width, k)
        return self.values.zext(self.values.poly(small, k), k, width)

    def _number_of(self, value: Value) -> int | None:
        poly = value if isinstance(value, Poly) else (value.poly if value.op == "int" else None)
        if poly is None or not poly.is_const or isinstance(poly.const, np.ndarray):
            return None
        return int(unsigned(poly.const, poly.width))

    def _iand(self, width: int, a: Value, b: Value) -> Value | None:
        for x, y in ((a, b), (b, a)):
            mask = self._number_of(y)
            if mask is not None:
                return self._masked(width, x, mask)
        x, y = self.values.node(a), self.values.node(b)
        return a if x is y else None

    def _masked(self, width: int, x: Value, mask: int) -> Value:
        runs = _runs(mask, width)
        if isinstance(x, Node) and x.op not in ("int", "mux", "gather"):
            if mask == (1 << (width - 1)) - 1 and width in (16, 32, 64) and len(runs) == 1:
                return self.forest.make("fabs", {16: "f16", 32: "f32", 64: "f64"}[width],
                                        width=width, args=(x,), may_neg_zero=False)
            parts: list[Value] = []
            at = 0
            for start, end in runs:
                if start > at:
                    parts.append(constant(start - at, 0))
                parts.append(self.values.extract(x, start, end - start))
                at = end
            if at < width:
                parts.append(constant(width - at, 0))
            return self.values.pack(parts)
        poly = self.values.poly(x, width)
        if width == 32 and len(runs) == 1 and 0 < runs[0][0] < runs[0][1] == width \
                and size_of(poly) is not None:  # a size rounded down
            steps = self.op("shr_s", width, (poly, constant(32, runs[0][0])))
            return self.values.poly(steps, width).scale(1 << runs[0][0])
        total = Poly(width, {})
        for start, end in runs:
            total = total.add(self.low_bits(poly, end)).sub(self.low_bits(poly, start))
        return total

    def _joined(self, width: int, a: Value, b: Value, exclusive: bool) -> Value | None:
        if isinstance(a, Node) and isinstance(b, Node) and a is b:
            return constant(width, 0) if exclusive else a
        x, y = self.values.poly(a, width), self.values.poly(b, width)
        if may_bits(x) & may_bits(y) == 0:
            return x.add(y)
        for p, q in ((x, y), (y, x)):
            if not q.is_const:
                continue
            symbols = Poly(width, {m: c for m, c in p.terms.items() if m})
            if may_bits(symbols) & (may_bits(q) | may_bits(constant(width, p.const))):
                continue
            name = "ixor" if exclusive else "ior"
            literal = self._literal(name, width, (constant(width, p.const), q))
            assert isinstance(literal, Poly)
            return symbols.add(literal)
        return None

    def _ior(self, width: int, a: Value, b: Value) -> Value | None:
        for x, y in ((a, b), (b, a)):
            mask = self._number_of(y)
            if mask is not None:  # x | m = (x & ~m) + m
                rest = self._masked(width, x, ~mask & ((1 << width) - 1))
                return self.values.poly(rest, width).add(constant(width, mask))
        return self._joined(width, a, b, exclusive=False)

    def _ixor(self, width: int, a: Value, b: Value) -> Value | None:
        for x, y in ((a, b), (b, a)):
            mask = self._number_of(y)
            if mask == 1 << (width - 1):
                kind = {16: "f16", 32: "f32", 64: "f64"}.get(width)
                if isinstance(x, Node) and x.op != "int" and kind:
                    if x.op == "fneg" and x.attr == kind:
                        return x.args[0]
                    return self.forest.make("fneg", kind, width=width, args=(x,))
                return self.values.poly(x, width).add(constant(width, mask))
            if mask == (1 << width) - 1:
                return self._inot(width, x)
        for x, y in ((a, b), (b, a)):
            made = self._with_sign(width, x, y)
            if made is not None:
                return made
        return self._joined(width, a, b, exclusive=True)

    # -- division of magnitudes, with the sign put back
    def _with_sign(self, width: int, q: Value, s: Value) -> Value | None:
        """Return q ^ s as x / y + s where q = |x| / |y| and s = -1 if the signs differ, else 0.

        (q ^ s) - s is q or -q: what a signed division gives, rounding toward zero. For x % y the
        sign is the dividend's. |x| modulo 2**width is right for the smallest x, too.
        """
        q = self.values.node(q)
        kind = {f"idiv_u.{width}": "idiv_s", f"irem_u.{width}": "irem_s"}.get(q.attr)
        if q.op != "iop" or kind is None:
            return None
        x, y = (self._magnitude(width, n) for n in q.args)
        sign = self._sign_of(width, s)
        if sign is None or x is None or y is None:
            return None
        wanted = self._like_signed(width, x)
        if kind == "idiv_s":
            both = [(v, w) for v in wanted for w in self._like_signed(width, y)]
            wanted = [self.op("ixor", width, pair) for pair in both]
            wanted += [v for v, w in both if self._nonnegative(width, w)]
            wanted += [w for v, w in both if self._nonnegative(width, v)]
        if all(self.values.node(v) is not sign for v in wanted):
            return None
        return self.op("iadd", width, (self.op(kind, width, (x, y)), s))

    def _magnitude(self, width: int, node: Node) -> Value | None:
        """Return v where a node is |v|: itself where it has no sign."""
        if node.op == "iop" and node.attr == f"iabs.{width}":
            return node.args[0].poly if node.args[0].op == "int" else node.args[0]
        return node if self._nonnegative(width, node) else None

    def _like_signed(self, width: int, v: Value) -> list[Value]:
        """Return values with the sign of v: itself, and w where v = w << m loses no bit of w."""
        node = self.values.node(v)
        if node.op != "pack" or len(node.args) != 2:
            return [v]
        low, high = node.args
        if low.poly is None or low.poly.terms or high.op != "extract" or high.attr != "0":
            return [v]
        w = high.args[0]
        if w.op == "iop" and w.attr == f"shr_s.{width}":
            count = self._number_of(w.args[1])
            if count is not None and low.width <= count < width:
                return [v, w]
        return [v]

    def _sign_of(self, width: int, s: Value) -> Node | None:
        """Return v where s is -1 if v is negative, else 0."""
        atom = s.atom() if isinstance(s, Poly) else s
        if atom is None:
            return None
        if atom.op == "iop" and atom.attr == f"shr_s.{width}":
            return atom.args[0] if self._number_of(atom.args[1]) == width - 1 else None
        if atom.op != "sext" or atom.poly is None or atom.poly.width != 1 \
                or atom.poly.const or len(atom.poly.terms) != 1:
            return None
        (mono, c), = atom.poly.terms.items()
        if len(mono) != 1 or isinstance(c, np.ndarray) or mono[0].op != "extract" \
                or mono[0].attr != str(width - 1) or mono[0].args[0].width != width:
            return None
        return mono[0].args[0]

    def _shl(self, width: int, a: Value, n: Value) -> Value | None:
        count = self.values.poly(n, 32)
        if not count.is_const:
            return None
        c = unsigned(count.const, 32)
        if isinstance(c, np.ndarray):
            if some(c >= width):
                return None
            return self.values.poly(a, width).scale(np.int64(1) << c.astype(np.int64))
        if c >= width:
            return constant(width, 0)
        return self.values.whole(self.values.poly(a, width).scale(1 << c))

    def _shift_right(self, width: int, a: Value, n: Value, signed: bool) -> Value | None:
        k = self._number_of(n)
        if k is None:
            return None
        k = min(k, width - 1) if signed else k
        if k >= width:
            return constant(width, 0)
        if k == 0:
            return a
        node = a if isinstance(a, Node) and a.op != "int" else None
        if node is None and isinstance(a, Poly):
            packed = self.values._as_pack(a)
            node = packed if packed is not None and packed.op != "int" else None
        if node is not None and node.op not in ("imin_s", "imax_s", "imin_u", "imax_u", "iop"):
            part = self.values.extract(node, k, width - k)
            poly = self.values.poly(part, width - k)
            return self.values.sext(poly, width - k, width) if signed \
                else self.values.zext(poly, width - k, width)
        poly = self.values.poly(a, width)
        word = self.high_word(poly) if k >= 32 and not signed else None
        if word is not None:
            word = self.op("shr_u", 32, (word, constant(32, k - 32)))
            return self.values.zext(self.values.poly(word, 32), 32, width)
        exact = self._in_range(poly, width, signed)
        if exact is None:
            if not self.values.counts(poly):
                return None
            exact = poly.to_width(0)
            if k == width - 1:
                return constant(width, 0)
        whole = floor_shift(exact, k, width)
        return whole if whole is not None or not signed else self._groups(exact, k, width)

    def _groups(self, poly: Poly, k: int, width: int) -> Value | None:
        """Return floor(indices / 2**k): indices in lowest terms, whole groups outside.

        floor((2**a * n + r) / 2**k) = floor((n + floor(r / 2**a)) / 2**(k - a)), and
        floor((floor(n / 2**a) + r) / 2**k) = floor((n + r * 2**a) / 2**(k + a)).
        """
        symbols = {m: c for m, c in poly.terms.items() if m}
        inner = next(iter(symbols), (None,))[0]
        if inner is None:
            return None
        if len(symbols) == 1 and inner.op == "iop" and inner.attr == f"shr_s.{width}" \
                and is_number(symbols.get((inner,), 0), 1):
            n, by = self.values.poly(inner.args[0], width), self._number_of(inner.args[1])
            if by is None or not self.values.counts(n):
                return None
            poly, k = n.to_width(0).add(constant(0, poly.const).scale(1 << by)), k + by
            symbols = {m: c for m, c in poly.terms.items() if m}
        if k >= width - 1 or not all(is_index(a) for m in symbols for a in m):
            return None
        a = min(Poly(0, symbols).tz(), k)
        lowest = Poly(width, {m: c >> a for m, c in symbols.items()})
        literal = poly.const >> a
        groups = literal >> (k - a)
        rest = lowest.add(constant(width, literal - (groups << (k - a))))
        if not self.values.counts(rest):
            return None
        part: Value = rest if k == a else self.opaque("shr_s", width, (rest, constant(32, k - a)))
        return self.values.poly(part, width).add(constant(width, groups))

    def high_word(self, value: Value) -> Value | None:
        """Return bits [32, 64) of a product of two numbers of 32 bits, as the operation for it."""
        if not isinstance(value, Poly) or value.width != 64 or len(value.terms) != 1:
            return None
        (mono, c), = value.terms.items()
        if isinstance(c, np.ndarray) or not 0 < c < 1 << 32 or len(mono) + (c > 1) != 2 or any(
                a.low is None or a.high is None or a.low < 0 or a.high >= 1 << 32 for a in mono):
            return None
        factors: list[Value] = [a.poly if a.op == "zext" and a.poly is not None
                                else Poly(32, {(a,): 1}) for a in mono]
        if any(f.width != 32 for f in factors):
            return None
        if c > 1:
            factors.append(constant(32, c))
        return self.op("imulhi_u", 32, factors)

    def _in_range(self, poly: Poly, width: int, signed: bool) -> Poly | None:
        """Return the exact integer a polynomial stands for where its sum has not wrapped."""
        bounds = poly.range()
        if bounds is None:
            return None
        half = 1 << (width - 1)
        low, high = (-half, half) if signed else (0, 2 * half)
        return poly.to_width(0) if low <= bounds[0] and bounds[1] < high else None

    def _shr_u(self, width: int, a: Value, n: Value) -> Value | None:
        return self._shift_right(width, a, n, signed=False)

    def _shr_s(self, width: int, a: Value, n: Value) -> Value | None:
        return self._shift_right(width, a, n, signed=True)

    def _bfe_u(self, width: int, a: Value, pos: Value, length: Value) -> Value | None:
        p, n = self._number_of(pos), self._number_of(length)
        if p is None or n is None:
            return None
        p, n = p & 255, n & 255
        n = min(n, max(width - p, 0))
        if n == 0:
            return constant(width, 0)
        top = self.op("shl", width, (a, constant(32, width - p - n)))
        return self.op("shr_u", width, (top, constant(32, width - n))) if p + n < width \
            else self.op("shr_u", width, (a, constant(32, p)))

    def _bfe_s(self, width: int, a: Value, pos: Value, length: Value) -> Value | None:
        p, n = self._number_of(pos), self._number_of(length)
        if p is None or n is None or n & 255 == 0 or (p & 255) + (n & 255) > width:
            return None
        if n & 255 == 1 and p & 255 < 32 <= width:
            word = self.values.poly(self.values.trunc(a, width, 32), 32)
            if self.values.counts(word.scale(1 << (31 - (p & 255)))):
                return constant(width, 0)  # the sign of a block index times a power of two
        part = self.values.extract(a, p & 255, n & 255)
        poly = self.values.poly(part, n & 255)
        return self.values.sext(poly, n & 255, width)

    def _bfi(self, width: int, f: Value, base: Value, pos: Value, length: Value) -> Value | None:
        p, n = self._number_of(pos), self._number_of(length)
        if p is None or n is None:
            return None
        p, n = p & 255, n & 255
        n = min(n, max(width - p, 0))
        if n == 0:
            return base
        parts: list[Value] = []
        if p:
            parts.append(self.values.extract(base, 0, p))
        parts.append(self.values.extract(f, 0, n))
        if p + n < width:
            parts.append(self.values.extract(base, p + n, width - p - n))
        return self.values.pack(parts)

    # -- division and extrema
    def _idiv_u(self, width: int, a: Value, b: Value) -> Value | None:
        d = self._number_of(b)
        if d and d & (d - 1) == 0:
            return self.op("shr_u", width, (a, constant(32, d.bit_length() - 1)))
        return None

    def _irem_u(self, width: int, a: Value, b: Value) -> Value | None:
        d = self._number_of(b)
        if d and d & (d - 1) == 0:
            return self.op("iand", width, (a, constant(width, d - 1)))
        return None

    def _nonnegative(self, width: int, a: Value) -> bool:
        poly = self.values.poly(a, width)
        bounds = poly.range()
        return (bounds is not None and bounds[0] >= 0 and bounds[1] < 1 << (width - 1)) \
            or self.values.counts(poly)

    def _idiv_s(self, width: int, a: Value, b: Value) -> Value | None:
        return self._idiv_u(width, a, b) if self._nonnegative(width, a) else None

    def _irem_s(self, width: int, a: Value, b: Value) -> Value | None:
        return self._irem_u(width, a, b) if self._nonnegative(width, a) else None

    def _extremum(self, width: int, a: Value, b: Value, signed: bool, least: bool) -> Value | None:
        x, y = self.values.exact(a, width, signed), self.values.exact(b, width, signed)
        bounds = y.sub(x).range()
        if bounds is None:
            return None
        if bounds[0] >= 0:
            return a if least else b
        if bounds[1] <= 0:
            return b if least else a
        return None

    def _imin_s(self, width: int, a: Value, b: Value) -> Value | None:
        return self._extremum(width, a, b, signed=True, least=True)

    def _imax_s(self, width: int, a: Value, b: Value) -> Value | None:
        return self._extremum(width, a, b, signed=True, least=False)

    def _imin_u(self, width: int, a: Value, b: Value) -> Value | None:
        return self._extremum(width, a, b, signed=False, least=True)

    def _imax_u(self, width: int, a: Value, b: Value) -> Value | None:
        return self._extremum(width, a, b, signed=False, least=False)

    # -- bitwise functions of three
    def lop3(self, a: Value, b: Value, c: Value, lut: int) -> Value:
        """Return a bitwise function of three as operations of two, where it is one."""
        args = (a, b, c)
        if all(self._number_of(x) is not None for x in args) or all(
                isinstance(x, Poly) and x.is_const for x in args):
            total: Value = constant(32, 0)
            for i in range(8):
                if lut >> i & 1:
                    term: Value = constant(32, -1)
                    for j, x in enumerate(args):
                        bit = i >> (2 - j) & 1
                        term = self.op("iand", 32, (term, x if bit else self.op("inot", 32, (x,))))
                    total = self.op("ior", 32, (total, term))
            return total
        plan = _LUTS.get(lut)
        if plan is None:
            nodes = [self.values.node(x) for x in args]
            return self.forest.make("iop", f"lop3.{lut}", width=32, args=nodes, low=0,
                                    high=(1 << 32) - 1)
        (i, f, j), g, k = plan
        inner = self.op(f, 32, (args[i], args[j]))
        return inner if g == "" else self.op(g, 32, (inner, args[k]))


def _two_step_luts() -> dict[int, tuple[tuple[int, str, int], str, int]]:
    """Every function of three that is g(f(x, y), z) for f, g in and, or, xor."""
    tables = (0xF0, 0xCC, 0xAA)
    apply: dict[str, Callable[[int, int], int]] = {
        "iand": lambda p, q: p & q, "ior": lambda p, q: p | q, "ixor": lambda p, q: p ^ q}
    out: dict[int, tuple[tuple[int, str, int], str, int]] = {}
    for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        for f, run in apply.items():
            inner = run(tables[i], tables[j])
            out.setdefault(inner, ((i, f, j), "", k))
            for g, outer in apply.items():
                out.setdefault(outer(inner, tables[k]), ((i, f, j), g, k))
    return out


_LUTS = _two_step_luts()


def _runs(mask: int, width: int) -> list[tuple[int, int]]:
    runs, start = [], -1
    for i in range(width + 1):
        bit = mask >> i & 1 if i < width else 0
        if bit and start < 0:
            start = i
        elif not bit and start >= 0:
            runs.append((start, i))
            start = -1
    return runs


def floor_shift(poly: Poly, k: int, width: int) -> Poly | None:
    """Return floor(poly / 2**k) of an exact integer where the low part is known to be small.

    Low are the terms that are no multiples of 2**k; where they are not small together, the low
    bits of each coefficient: those of flags that were packed into one word.
    """
    whole = Poly(0, {m: c for m, c in poly.terms.items() if not m or _divides(1 << k, c)})
    for cut in (whole, poly):
        high = Poly(0, {m: c >> (np.int64(k) if isinstance(c, np.ndarray) else k)
                        for m, c in cut.terms.items()})
        bounds = poly.sub(high.scale(1 << k)).range()
        if bounds is not None and bounds[0] >= 0 and bounds[1] < 1 << k:
            return high.to_width(width)
    return None


def _divides(step: int, c: Any) -> bool:
    if isinstance(c, np.ndarray):
        return step < 1 << 62 and not some(c & np.int64(step - 1))
    return bool(c % step == 0)


def may_bits(poly: Poly) -> int:
    """Return a mask of the bits that can be set (all of them where nothing is known)."""
    full = (1 << poly.width) - 1
    total = 0
    for mono, c in poly.terms.items():
        mask = _term_bits(mono, c, poly.width)
        if mask is None or mask & total:
            break
        total |= mask
    else:
        return total & full
    bounds = poly.range()
    if bounds is None or bounds[0] < 0 or bounds[1] > full:
        return full & ~((1 << min(poly.tz(), poly.width)) - 1)
    return ((1 << bounds[1].bit_length()) - 1) & ~((1 << poly.tz()) - 1)


def _term_bits(mono: tuple[Node, ...], c: Any, width: int) -> int | None:
    full = (1 << width) - 1
    if not mono:
        bits = unsigned(c, width)
        return int(np.bitwise_or.reduce(bits)) if isinstance(bits, np.ndarray) else int(bits)
    if isinstance(c, np.ndarray):
        if some(c < 0):
            return None
        top, joined = greatest(c), int(np.bitwise_or.reduce(c))
        zeros = (joined & -joined).bit_length() - 1
    else:
        c = c & full
        top, zeros = c, (c & -c).bit_length() - 1
    for atom in mono:
        if atom.low is None or atom.high is None or atom.low < 0:
            return None
        top *= atom.high
    if top > full:
        if isinstance(c, np.ndarray) or c & (c - 1) or len(mono) > 1:
            return None
        return full & ~((1 << zeros) - 1)
    return ((1 << top.bit_length()) - 1) & ~((1 << zeros) - 1)


# --- literal lanes ----------------------------------------------------------------------------


def _extreme(signed: bool, least: bool) -> Callable[..., U64]:
    def run(w: int, a: U64, b: U64) -> U64:
        x, y = (_to_signed(a, w), _to_signed(b, w)) if signed else (a, b)
        less = x < y
        return np.where(less if least else ~less, a, b)
    return run


def _mulhi(signed: bool) -> Callable[..., U64 | None]:
    def run(w: int, a: U64, b: U64) -> U64 | None:
        if w > 32:
            return None
        if signed:
            product = _to_signed(a, w) * _to_signed(b, w)
            return (product >> np.int64(w)).view(np.uint64)
        return (a * b) >> np.uint64(w)
    return run


def _mulwide(signed: bool) -> Callable[..., U64 | None]:
    def run(w: int, a: U64, b: U64) -> U64 | None:
        if w > 32:
            return None
        if signed:
            return (_to_signed(a, w) * _to_signed(b, w)).view(np.uint64)
        return a * b
    return run


def _divide(signed: bool, rest: bool) -> Callable[..., U64 | None]:
    def run(w: int, a: U64, b: U64) -> U64 | None:
        if not every(b):
            return None
        if not signed:
            return a % b if rest else a // b
        x, y = _to_signed(a, w), _to_signed(b, w)
        size = np.abs(x).view(np.uint64) // np.abs(y).view(np.uint64)  # the least one's fits, too
        q = size.view(np.int64) * np.sign(x) * np.sign(y)
        return (x - q * y if rest else q).view(np.uint64)
    return run


def _shift(kind: str) -> Callable[..., U64]:
    def run(w: int, a: U64, n: U64) -> U64:
        n = n & np.uint64(0xFFFFFFFF)
        over = n >= np.uint64(w)
        k = np.where(over, np.uint64(0), n)
        if kind == "shl":
            return np.where(over, np.uint64(0), a << k)
        if kind == "shr_u":
            return np.where(over, np.uint64(0), (a & _mask(w)) >> k)
        k = np.where(over, np.uint64(w - 1), n)
        return (_to_signed(a, w) >> k.astype(np.int64)).view(np.uint64)
    return run


def _popc(w: int, a: U64) -> U64:
    return np.bitwise_count(a).astype(np.uint64)


def _bfind(w: int, a: U64) -> U64:
    out = [(int(x).bit_length() - 1) & 0xFFFFFFFF for x in a]
    return np.array(out, dtype=np.uint64)


def _clz(w: int, a: U64) -> U64:
    return np.array([w - int(x).bit_length() for x in a], dtype=np.uint64)


def _brev(w: int, a: U64) -> U64:
    return np.array([int(f"{int(x):0{w}b}"[::-1], 2) for x in a], dtype=np.uint64)


def _sad(w: int, a: U64, b: U64, c: U64) -> U64:
    return c + np.where(a > b, a - b, b - a)


_CONCRETE: dict[str, Callable[..., U64 | None]] = {
    "iadd": lambda w, a, b: a + b, "isub": lambda w, a, b: a - b, "imul": lambda w, a, b: a * b,
    "iand": lambda w, a, b: a & b, "ior": lambda w, a, b: a | b, "ixor": lambda w, a, b: a ^ b,
    "ineg": lambda w, a: ~a + np.uint64(1), "inot": lambda w, a: ~a,
    "iabs": lambda w, a: np.abs(_to_signed(a, w)).view(np.uint64),
    "imin_u": _extreme(False, True), "imin_s": _extreme(True, True),
    "imax_u": _extreme(False, False), "imax_s": _extreme(True, False),
    "imulhi_u": _mulhi(False), "imulhi_s": _mulhi(True),
    "imulwide_u": _mulwide(False), "imulwide_s": _mulwide(True),
    "idiv_u": _divide(False, False), "idiv_s": _divide(True, False),
    "irem_u": _divide(False, True), "irem_s": _divide(True, True),
    "shl": _shift("shl"), "shr_u": _shift("shr_u"), "shr_s": _shift("shr_s"),
    "popc": _popc, "clz": _clz, "brev": _brev, "bfind_u": _bfind, "isad_u": _sad,
}
