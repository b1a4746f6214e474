"""Integers as polynomials: sums of products of atoms with a coefficient for each lane.

In: atoms (interned nodes that stand for an integer) and coefficients, a python int where all lanes
agree or an int64 array [lanes]. Out: `Poly`, a value modulo 2**width; width 0 means an exact
integer (used for comparisons). An exact coefficient that may leave int64 raises `TooLarge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from checker.arrays import every, greatest, least

if TYPE_CHECKING:
    from checker.tree.nodes import Node

__all__ = ["Coef", "Mono", "Poly", "TooLarge", "constant"]

Table = npt.NDArray[np.int64]
Coef = Any  # int, or Table
Mono = tuple["Node", ...]  # sorted by serial number; () is the constant

_LIMIT = 1 << 62
_CUT = {8: np.int8, 16: np.int16, 32: np.int32}
MAX_TERMS = 96
MAX_DEGREE = 6
MAX_CHOICES = 5  # 0/1 atoms of which all cases are looked at


class TooLarge(Exception):
    """A polynomial that is not worth having; the caller falls back to an opaque atom."""


def settle(c: Coef, width: int) -> Coef:
    """Bring a coefficient to its signed range; an array whose lanes agree becomes an int."""
    if isinstance(c, np.ndarray):
        if width in _CUT:  # faster than arithmetic
            c = c.astype(_CUT[width]).astype(np.int64)
        elif 0 < width < 64:
            shift = np.int64(1 << (width - 1))
            c = ((c + shift) & np.int64((1 << width) - 1)) - shift
        if c.item(0) == c.item(-1) and every(c == c[0]):
            return int(c[0])
        return c
    if width:
        half = 1 << (width - 1)
        if not -half <= c < half:
            c = ((c + half) & ((1 << width) - 1)) - half
    return c


def _int64(c: int) -> np.int64:
    return np.int64(((c + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63))


def _bound(c: Coef) -> int:
    if isinstance(c, np.ndarray):
        return max(abs(least(c)), abs(greatest(c)))
    return abs(int(c))


def coef_add(a: Coef, b: Coef, width: int) -> Coef:
    """Add two coefficients."""
    if type(a) is int and type(b) is int:  # nearly all of them
        return settle(a + b, width) if width else a + b
    if not width and (isinstance(a, np.ndarray) or isinstance(b, np.ndarray)) \
            and _bound(a) + _bound(b) >= _LIMIT:
        raise TooLarge
    if isinstance(a, np.ndarray):
        return settle(a + (b if isinstance(b, np.ndarray) else _int64(b)), width)
    if isinstance(b, np.ndarray):
        return settle(b + _int64(a), width)
    return settle(a + b, width)


def coef_mul(a: Coef, b: Coef, width: int) -> Coef:
    """Multiply two coefficients."""
    if type(a) is int and type(b) is int:
        return settle(a * b, width) if width else a * b
    if not width and (isinstance(a, np.ndarray) or isinstance(b, np.ndarray)) \
            and _bound(a) * _bound(b) >= _LIMIT:
        raise TooLarge
    if isinstance(a, np.ndarray):
        return settle(a * (b if isinstance(b, np.ndarray) else _int64(b)), width)  # arrays wrap
    if isinstance(b, np.ndarray):
        return coef_mul(b, a, width)
    return settle(a * b, width)


def is_zero(c: Coef) -> bool:
    """Tell whether a settled coefficient is zero in every lane."""
    return not isinstance(c, np.ndarray) and c == 0


class Poly:
    """An integer modulo 2**width (width 0: exact) as {monomial: coefficient}; immutable."""

    __slots__ = ("named", "terms", "width")

    def __init__(self, width: int, terms: dict[Mono, Coef]) -> None:
        self.width = width
        self.terms = terms
        self.named: Any = None  # its name, once somebody asked for it

    # -- questions
    @property
    def is_const(self) -> bool:
        """True where the value is a literal in each lane."""
        return not self.terms or (len(self.terms) == 1 and () in self.terms)

    @property
    def const(self) -> Coef:
        """The constant term (signed)."""
        return self.terms.get((), 0)

    @property
    def uniform(self) -> bool:
        """True where no coefficient and no atom depends on the lane."""
        return all(
            not isinstance(c, np.ndarray) and all(a.uniform for a in mono)
            for mono, c in self.terms.items()
        )

    def unsigned_const(self, lanes: int) -> npt.NDArray[np.uint64]:
        """Return the constant of each lane as unsigned bits [lanes]."""
        c = self.const
        arr = c if isinstance(c, np.ndarray) else np.full(lanes, _int64(c), dtype=np.int64)
        mask = np.uint64((1 << self.width) - 1)
        return arr.view(np.uint64) & mask

    def atom(self) -> Node | None:
        """Return the atom where the value is one atom with coefficient 1."""
        if len(self.terms) == 1:
            (mono, c), = self.terms.items()
            if len(mono) == 1 and not isinstance(c, np.ndarray) and c == 1:
                return mono[0]
        return None

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity within one forest."""
        items = [
            (tuple(a.serial for a in mono), c.tobytes() if isinstance(c, np.ndarray) else c)
            for mono, c in self.terms.items()
        ]
        items.sort(key=lambda item: item[0])
        return (self.width, *items)

    def name(self) -> Any:
        """Return a hashable identity by the atoms themselves, whatever the order of terms."""
        if self.named is None:
            self.named = self.width, frozenset([
                (mono, c.tobytes() if isinstance(c, np.ndarray) else c)
                for mono, c in self.terms.items()])
        return self.named

    def same(self, other: Poly) -> bool:
        """Tell whether two polynomials are one."""
        return self.width == other.width and self.terms.keys() == other.terms.keys() and all(
            np.array_equal(c, other.terms[mono]) for mono, c in self.terms.items())

    def range(self) -> tuple[int, int] | None:
        """Return integer bounds of the sum before any wrap, or None where an atom has none."""
        low = high = 0
        for mono, c in self.terms.items():
            a, b = 1, 1
            for atom in mono:
                if atom.low is None or atom.high is None:
                    return None
                ends = (a * atom.low, a * atom.high, b * atom.low, b * atom.high)
                a, b = min(ends), max(ends)
            lo, hi = (least(c), greatest(c)) if isinstance(c, np.ndarray) else (c, c)
            ends = (a * lo, a * hi, b * lo, b * hi)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def reach(self) -> tuple[int, int] | None:
        """Return bounds as `range` does, closer where a few 0/1 atoms choose among terms."""
        bits = list(dict.fromkeys(a for mono in self.terms for a in mono if a.op == "bit"))
        if not 0 < len(bits) <= MAX_CHOICES:
            return self.range()
        found = []
        for chosen in range(1 << len(bits)):
            off = {a for i, a in enumerate(bits) if not chosen >> i & 1}
            total = Poly(0, {})
            try:
                for mono, c in self.terms.items():
                    if off.isdisjoint(mono):
                        total = total.add(Poly(0, {tuple(a for a in mono if a.op != "bit"): c}))
            except TooLarge:
                return self.range()
            ends = total.range()
            if ends is None:
                return None
            found.append(ends)
        return min(low for low, _ in found), max(high for _, high in found)

    def tz(self) -> int:
        """Return how many low bits are zero for certain (width where the value is 0)."""
        zeros = self.width or 64
        for c in self.terms.values():
            bits = int(np.bitwise_or.reduce(c)) if isinstance(c, np.ndarray) else c
            zeros = min(zeros, (bits & -bits).bit_length() - 1 if bits else zeros)
        return zeros

    def tz_each(self) -> Coef:
        """Return how many low bits are zero for certain in each lane."""
        zeros: Coef = self.width or 64
        for c in self.terms.values():
            if isinstance(c, np.ndarray):
                lowest = np.log2((c & -c).view(np.uint64).astype(np.float64), where=c != 0,
                                 out=np.full(len(c), 64.0))
                zeros = np.minimum(zeros, lowest.astype(np.int64))
            else:
                zeros = np.minimum(zeros, (c & -c).bit_length() - 1) if c else zeros
        return settle(zeros, 0) if isinstance(zeros, np.ndarray) else int(zeros)

    # -- arithmetic
    def _made(self, terms: dict[Mono, Coef]) -> Poly:
        if len(terms) > MAX_TERMS:
            raise TooLarge
        return Poly(self.width, terms)

    def add(self, other: Poly) -> Poly:
        """Return self + other; both have one width."""
        if not other.terms:
            return self
        width, terms = self.width, dict(self.terms)
        for mono, c in other.terms.items():
            old = terms.get(mono)
            total = c if old is None else coef_add(old, c, width)
            if not isinstance(total, np.ndarray) and total == 0:
                terms.pop(mono, None)
            else:
                terms[mono] = total
        return self._made(terms)

    def scale(self, factor: Coef) -> Poly:
        """Return self times a literal (one for all lanes or one for each)."""
        terms = {}
        for mono, c in self.terms.items():
            product = coef_mul(c, factor, self.width)
            if not is_zero(product):
                terms[mono] = product
        return Poly(self.width, terms)

    def neg(self) -> Poly:
        """Return -self."""
        return self.scale(-1)

    def sub(self, other: Poly) -> Poly:
        """Return self - other."""
        return self.add(other.neg()) if other.terms else self

    def mul(self, other: Poly) -> Poly:
        """Return self * other; 0/1 atoms are idempotent."""
        if other.is_const:
            return self.scale(other.const)
        if self.is_const:
            return other.scale(self.const)
        if len(self.terms) * len(other.terms) > MAX_TERMS:
            raise TooLarge
        total = Poly(self.width, {})
        for mono, c in self.terms.items():
            part: dict[Mono, Coef] = {}
            for mono2, c2 in other.terms.items():
                product = coef_mul(c, c2, self.width)
                if is_zero(product):
                    continue
                joined = join(mono, mono2)
                if joined in part:
                    product = coef_add(part[joined], product, self.width)
                part[joined] = product
            total = total.add(Poly(self.width, {m: v for m, v in part.items() if not is_zero(v)}))
        return total

    def to_width(self, width: int) -> Poly:
        """Return the same sum modulo 2**width; exact only where the caller knows it is."""
        if width == self.width:
            return self
        terms = {}
        for mono, c in self.terms.items():
            settled = settle(c, width)
            if not is_zero(settled):
                terms[mono] = settled
        return Poly(width, terms)


def join(a: Mono, b: Mono) -> Mono:
    """Return the product of two monomials; an atom that is 0 or 1 appears once."""
    merged = sorted((*a, *b), key=lambda atom: atom.serial)
    out: list[Node] = []
    for atom in merged:
        if out and out[-1] is atom and atom.op == "bit":
            continue
        out.append(atom)
    if len(out) > MAX_DEGREE:
        raise TooLarge
    return tuple(out)


def constant(width: int, value: Coef) -> Poly:
    """Return a literal."""
    settled = settle(value, width)
    return Poly(width, {} if is_zero(settled) else {(): settled})
