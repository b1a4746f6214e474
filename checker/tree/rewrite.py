"""Hash trees again under a change of coordinates: block indices become output coordinates.

In: a forest, pivots (block index = (y - offset) / scale), conjuncts that hold. Out: the hash of any
node in each lane. Nothing is blanked: a rational coefficient stays one, and a select whose
condition is implied becomes the chosen side. One pass serves all stores with the same pivots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checker.tree.hashing import Hash, collapse, finish, hash_ints, key, mix
from checker.tree.logic import Logic
from checker.tree.nodes import (
    GATHER_BIT,
    LOW_BITS,
    SELECT_BIT,
    Node,
    hash_members,
    hash_node,
    hash_select,
)
from checker.tree.poly import Poly, coef_add, coef_mul, is_zero, join, settle
from checker.tree.values import Values

__all__ = ["Conflict", "Pivot", "Rewriter"]

Fraction = tuple[Any, int]  # numerator (int or table), denominator


MAX_FRAMES = 256


class Conflict(Exception):
    """Lanes with different offsets look at one lane's value: these pivots do not fit the tree."""


@dataclass(frozen=True, slots=True)
class Pivot:
    """atom = (y - offset - others) / scale for the coordinate y, an integer that does not wrap.

    others: the coordinate's further terms, monomials of block indices with literal coefficients.
    """

    atom: Node
    y: Node
    scale: int
    offset: Any
    lifted: Node | None = None  # the widened scale * atom, where the address holds that
    others: tuple[tuple[tuple[Node, ...], int], ...] = ()


class Rewriter:
    """Hashes of nodes under pivots and known conjuncts.

    A pivot's offset belongs to the lane that writes the output. Behind a gather another lane is
    looked at, with the offset of the looker: `enter` gives the rewriter with the offsets moved.
    """

    def __init__(self, logic: Logic, pivots: Iterable[Pivot] = (), known: Iterable[Node] = (),
                 need: npt.NDArray[np.bool_] | None = None) -> None:
        self.logic = logic
        self.pivots = {p.atom: p for p in pivots}
        self.known = tuple(known)
        self.memo: dict[Node, Hash] = {}
        self.aux: dict[Node, Hash | None] = {}
        self.mask = SELECT_BIT if self.known else 0
        for p in self.pivots:
            self.mask |= p.deps
        self.reach = self.mask & ~LOW_BITS
        # indices computed from block indices are symbols themselves where coordinates hold them
        self.symbols = {a for p in self.pivots.values() for m, _c in p.others for a in m
                        if a.op != "sreg"} | {
            a for a in self.pivots if a.op != "sreg"}
        self.fixed: dict[Node, Hash] = {}
        self.outer: Rewriter | None = None
        self.facts: list[Hash] = []  # hashes of conditions that hold for the looker, by lane
        self.children: dict[tuple[Node, str], Rewriter] = {}
        self.moved: dict[Node, Poly | None] = {}
        self.values = Values(logic.forest)
        name = tuple(k.serial for k in self.known)
        self.implied = logic.forest.implied.setdefault(name, {})
        self.need = np.ones(logic.forest.lanes, dtype=bool) if need is None else need
        self.frames: set[Any] = set()
        self.entered: dict[Node, Rewriter] = {}
        self.projected: dict[Node, Rewriter] = {}
        self.parts: dict[tuple[Node, int], Rewriter] = {}
        self.options: dict[tuple[Node, int], Rewriter] = {}
        self.tables = [p for p in self.pivots.values() if isinstance(p.offset, np.ndarray)]

    def child(self, fixed: dict[Node, Hash]) -> Rewriter:
        """Return a rewriter that gives some symbols (of a loop) other hashes.

        What does not depend on those symbols is left to this rewriter.
        """
        own = 0
        for node in fixed:
            own |= node.deps
        free = [p for p in self.pivots.values() if p.atom not in fixed]
        # inside a loop its counter is another one than the counter a guard speaks of
        known = [k for k in self.known if not k.deps & own]
        other = Rewriter(self.logic, free, known, self.need)
        other.fixed = {**self.fixed, **fixed}
        other.outer, other.mask = self, own
        other.facts = self.facts
        other.frames = self.frames
        return other

    def counted(self, counter: Node, name: str) -> Rewriter:
        """Return the child for the inside of a loop with this counter, made once."""
        made = self.children.get((counter, name))
        if made is None:
            made = self.children[(counter, name)] = self.child({counter: key(name)})
        return made

    def depends(self, node: Node) -> bool:
        """Tell whether a node's hash may be another one here than when it was made."""
        at: Rewriter | None = self
        while at is not None:
            if node.deps & at.mask:
                return True
            at = at.outer
        return False

    def enter(self, node: Node) -> Rewriter:
        """Return the rewriter for what lies behind a gather."""
        if not (self.tables or self.known or self.facts) or not self.depends(node):
            return self
        known = self.entered.get(node)
        if known is None:
            known = self.entered[node] = self._frame(node)
        return known

    def option(self, node: Node, index: int) -> Rewriter:
        """Return the rewriter for one option of a mux: only its own lanes look at it."""
        kid = node.args[index]
        if not self.tables or not kid.deps & GATHER_BIT or not self.depends(kid):
            return self
        choice = self.options.get((node, index))
        if choice is None:
            choice = self
            torn = any(self.options.get((node, i), self) is not self for i in range(index))
            try:
                if torn:  # another option did not fit: neither will this one
                    raise Conflict
                self.h(kid)
            except Conflict:
                assert node.table is not None
                need = self.need & (node.table == index)
                lanes = np.flatnonzero(need)
                choice = self._made(list(self.pivots.values()), need, -1, list(self.known),
                                    self._facts(lanes, lanes))
            self.options[(node, index)] = choice
        return choice

    def _frame(self, node: Node) -> Rewriter:
        assert node.table is not None
        return self._looking(node.args[0], node.table, np.arange(len(node.table)))

    def part(self, node: Node, index: int) -> Rewriter:
        """Return the rewriter for one part of a row over k."""
        if not (self.tables or self.known or self.facts) \
                or not self.depends(node.args[index]):
            return self
        known = self.parts.get((node, index))
        if known is None:
            assert node.table is not None
            k, looker = np.nonzero(node.table[..., 0] == index)
            known = self._looking(node.args[index], node.table[k, looker, 1], looker)
            self.parts[(node, index)] = known
        return known

    def alone(self, node: Node) -> Rewriter:
        """Return the rewriter with the pivots a node depends on: many outputs share its rows."""
        if not self.depends(node):
            return self
        made = self.projected.get(node)
        if made is None:
            kept = [p for p in self.pivots.values() if p.atom.deps & node.deps]
            made = self if len(kept) == len(self.pivots) else self._made(
                kept, self.need, node.deps)
            self.projected[node] = made
        return made

    def _looking(self, kid: Node, table: Any, looker: Any) -> Rewriter:
        """Return the rewriter for a value of which lane looker[i] looks at lane table[i]."""
        inside = kid.deps
        relevant = [p for p in self.tables if inside & p.atom.deps]
        on = self.need[looker]
        if all(bool((p.offset[table] == p.offset[looker]).all()) for p in relevant):
            kept = self._still_known(self, table[on], looker[on])
            facts = self._facts(table[on], looker[on])
            if len(kept) == len(self.known) and not self.facts:
                return self
            return self._made(list(self.pivots.values()), self._seen(table[on]), inside, kept,
                              facts)
        if any(n.deps & inside and h.shape[1] > 1 for n, h in self.fixed.items()):
            raise Conflict
        table, looker = table[on], looker[on]
        need = self._seen(table)
        pivots = []
        for p in self.pivots.values():
            if not inside & p.atom.deps:
                continue
            offset = p.offset
            if p in relevant:
                offset = np.zeros(len(self.need), dtype=np.int64)
                offset[table] = p.offset[looker]
                if bool((offset[table] != p.offset[looker]).any()):
                    raise Conflict
            pivots.append(Pivot(p.atom, p.y, p.scale, offset, p.lifted, p.others))
        bare = self._made(pivots, need, inside, [], [])
        kept = self._still_known(bare, table, looker)
        return self._made(pivots, need, inside, kept, self._facts(table, looker))

    def _facts(self, table: Any, looker: Any) -> list[Hash]:
        """Return what is known of all the lookers alike."""
        out: list[Hash] = []
        for h in [*(self.h(k) for k in self.known), *self.facts]:
            if len(table) and h.shape[1] > 1:
                seen = h[:, looker]
                if not bool((seen == seen[:, :1]).all()):
                    continue  # other lanes, other truths: not worth a rewriter of their own
                h = seen[:, :1].copy()
            if h.shape[1] == 1 and bool(h.any()) and not any(bool((f == h).all()) for f in out):
                out.append(h)
        return out

    def _seen(self, table: Any) -> npt.NDArray[np.bool_]:
        need = np.zeros(len(self.need), dtype=bool)
        need[table] = True
        return need

    def _still_known(self, other: Rewriter, table: Any, looker: Any) -> list[Node]:
        """Return the conjuncts that say of the lane looked at what they say of the looker."""
        kept = []
        for k in self.known:
            here, there = self.h(k), other.h(k)
            here = here[:, looker] if here.shape[1] > 1 else here
            there = there[:, table] if there.shape[1] > 1 else there
            if bool((here == there).all()):
                kept.append(k)
        return kept

    def _made(self, pivots: list[Pivot], need: npt.NDArray[np.bool_], inside: int = -1,
              known: list[Node] | None = None, facts: list[Hash] | None = None) -> Rewriter:
        """Return the one rewriter with these offsets for these lanes.

        An offset that all those lanes share holds for every lane they may look at. What is known
        of symbols that the value does not hold is left out, so that many outputs share it.
        """
        lanes = np.flatnonzero(need)
        settled = []
        for p in pivots:
            if isinstance(p.offset, np.ndarray) and len(lanes) \
                    and bool((p.offset[lanes] == p.offset[lanes[0]]).all()):
                p = Pivot(p.atom, p.y, p.scale, int(p.offset[lanes[0]]), p.lifted,
                          p.others)
            settled.append(p)
        if not any(isinstance(p.offset, np.ndarray) for p in settled):
            need = np.ones(len(need), dtype=bool)
        known = list(self.known) if known is None else known
        known = [k for k in known if not k.deps & ~LOW_BITS & ~inside]
        fixed = {n: h for n, h in self.fixed.items() if n.deps & inside}
        if any(h.shape[1] > 1 for h in fixed.values()):
            raise Conflict  # running values that differ by lane do not move with the frame
        facts = list(self.facts) if facts is None else facts
        name = (need.tobytes(), tuple(k.serial for k in known), tuple(f.tobytes() for f in facts),
                tuple((n.serial, h.tobytes()) for n, h in fixed.items()),
                tuple((p.atom.serial, p.y.serial, p.scale, p.offset.tobytes()
                       if isinstance(p.offset, np.ndarray) else p.offset,
                       tuple((tuple(a.serial for a in m), c) for m, c in p.others))
                      for p in settled))
        made = self.logic.forest.frames.get(name)
        if made is None:
            made = Rewriter(self.logic, settled, known, need)
            made.fixed, made.facts = fixed, facts
            if facts:
                made.mask |= SELECT_BIT
            for n in fixed:
                made.mask |= n.deps
            made.frames = self.frames
            self.logic.forest.frames[name] = made
        if name not in self.frames:
            self.frames.add(name)
            if len(self.frames) > MAX_FRAMES:
                raise Conflict
        return made

    # -- hashes
    def h(self, root: Node) -> Hash:
        """Return the hash of a node, [2, 1 | lanes]."""
        if not root.deps & self.mask:
            return root.h if self.outer is None else self.outer.h(root)
        memo = self.memo
        stack = [root]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            if node.poly is not None:
                self._lift(node.poly)
            waiting = [k for k in self._kids(node) if k.deps & self.mask and k not in memo]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            memo[node] = self._hash(node)
        return memo[root]

    def _kids(self, node: Node) -> tuple[Node, ...]:
        if node in self.fixed or node.op == "fold" or node in self.symbols:
            return ()
        if node.op == "gather" and self.enter(node) is not self:
            return ()
        if node.op == "krow":
            return ()
        if node.op == "mma":
            return node.args[:1]
        if node.op == "mux" and self.tables:
            return tuple(k for k in node.args if not k.deps & GATHER_BIT)
        return node.kids

    def of(self, node: Node) -> Hash:
        """Return the hash of a child (mostly computed already)."""
        if not node.deps & self.mask:
            return node.h if self.outer is None else self.outer.of(node)
        h = self.memo.get(node)
        return self.h(node) if h is None else h

    def aux_of(self, node: Node) -> Hash | None:
        """Return the member sum of an order-free group."""
        if not node.deps & self.mask:
            return node.aux if self.outer is None else self.outer.aux_of(node)
        self.h(node)
        return self.aux[node]

    def _hash(self, node: Node) -> Hash:
        self.logic.forest.spend()
        fixed = self.fixed.get(node)
        self.aux[node] = None
        if fixed is not None:
            return fixed
        if node in self.symbols:
            return node.h
        if node.op == "fold":
            return collapse(node.extra.hash(self))
        if node.op == "select" and (self.known or self.facts):
            p, a, b = node.args
            return collapse(hash_select(node.width, self._left(p), self.of(a), self.of(b)))
        h, aux = hash_node(node, self)
        self.aux[node] = aux
        return h if node.op == "krow" else collapse(h)

    def _left(self, p: Node) -> Hash:
        """Return the hash of a condition without what is known to hold."""
        left: list[Hash] = []
        for q in p.args if p.op == "and" else (p,):
            side = self.decided(q) if self.known else 0
            if side:
                left.append(key("true") if side == 1 else key("false"))
                continue
            h = self.of(q)
            for fact in self.facts:
                h = np.where((h == fact).all(axis=0), key("true"), h)
            left.append(h)
        return hash_members("and", left)

    def decided(self, p: Node) -> int:
        """Return 1 where the known conjuncts imply p, 2 where they refute it, else 0."""
        side = self.implied.get(p)
        if side is None:
            side = 0
            if self.logic.implies(self.known, p):
                side = 1
            elif self.logic.implies(self.known, self.logic.negate(p)):
                side = 2
            self.implied[p] = side
        return side

    def poly(self, poly: Poly) -> Hash:
        """Return the hash of a polynomial (its atoms are hashed first)."""
        self._lift(poly)
        for mono in poly.terms:
            for atom in mono:
                self.h(atom)
        return self.poly_hash(poly)

    def _lift(self, poly: Poly) -> None:
        """Rewrite the widened sums among a polynomial's atoms: ext(p) = ext(p') + literal."""
        if not self.pivots:
            return
        for mono in poly.terms:
            for atom in mono:
                if atom.op in ("sext", "zext") and atom.poly is not None \
                        and atom not in self.symbols \
                        and atom.deps & self.reach and atom not in self.moved:
                    self._lift(atom.poly)
                    self.moved[atom] = self._lifted(atom)

    def _lifted(self, atom: Node) -> Poly | None:
        """Return a widened sum after substitution, an integer again where its range allows it."""
        assert atom.poly is not None
        terms = self.terms(atom.poly)
        width = atom.poly.width
        if any(den != 1 for _c, den in terms.values()):
            return None
        settled = {m: settle(c, width) for m, (c, _d) in terms.items()}
        poly = Poly(width, {m: c for m, c in settled.items() if not is_zero(c)})
        widen = self.values.sext if atom.op == "sext" else self.values.zext
        made = widen(poly, width, 0)
        return None if made.atom() is atom else made

    def poly_hash(self, poly: Poly) -> Hash:
        """Hash a polynomial whose atoms are hashed already."""
        return self._terms_hash(self.terms(poly), poly.width)

    def _terms_hash(self, terms: dict[tuple[Node, ...], Fraction], width: int) -> Hash:
        total: Hash = np.zeros((2, 1), dtype=np.uint64)
        for mono, (c, den) in terms.items():
            tag = key("one")
            if mono:
                tag = key("mono")
                for atom in mono:
                    tag = tag + finish(self.h(atom))
            total = total + _hash_fraction(tag, c, den, width)
        return mix(key(f"poly{width}"), finish(total))

    # -- substitution
    def terms(self, poly: Poly) -> dict[tuple[Node, ...], Fraction]:
        """Return the polynomial's terms with pivots replaced."""
        if not any(a in self.pivots or self.moved.get(a) is not None
                   for mono in poly.terms for a in mono):
            return {m: (c, 1) for m, c in poly.terms.items()}
        out: dict[tuple[Node, ...], Fraction] = {}
        work: list[tuple[tuple[Node, ...], tuple[Node, ...], Any, int]] = [
            (m, (), c, 1) for m, c in poly.terms.items()]
        steps = 0
        while work:
            mono, made, c, den = work.pop()  # `made` holds coordinates, which stay
            at = next((i for i, a in enumerate(mono)
                       if a in self.pivots or self.moved.get(a) is not None), None)
            if at is None:
                self._collect(out, join(mono, made), c, den, poly.width)
                continue
            rest = (*mono[:at], *mono[at + 1:])
            put = self.moved.get(mono[at])
            if put is not None:
                for m, c2 in put.terms.items():
                    product = coef_mul(c, c2, poly.width if den == 1 else 0)
                    work.append((rest, join(made, m), product, den))
                continue
            pivot = self.pivots[mono[at]]
            divided = _divide(c, pivot.scale)
            if divided is not None:
                c, step = divided, 1
            else:
                step = pivot.scale
            width = poly.width if den * step == 1 else 0
            steps += 1
            if steps > 256:
                raise Conflict
            work.append((rest, join(made, (pivot.y,)), c, den * step))
            moved = coef_mul(c, coef_mul(pivot.offset, -1, 0), width)
            if not is_zero(moved):
                work.append((rest, made, moved, den * step))
            for other, c2 in pivot.others:
                work.append((join(rest, other), made, coef_mul(c, -c2, width), den * step))
        return {m: f for m, f in out.items() if not is_zero(f[0])}

    @staticmethod
    def _collect(out: dict[tuple[Node, ...], Fraction], mono: tuple[Node, ...], c: Any, den: int,
                 width: int) -> None:
        old = out.get(mono)
        if old is None:
            out[mono] = (c, den)
            return
        c0, den0 = old
        common = math.lcm(den, den0)
        w = width if common == 1 else 0
        total = coef_add(coef_mul(c, common // den, w), coef_mul(c0, common // den0, w), w)
        out[mono] = (total, common)


def _divide(c: Any, scale: int) -> Any:
    """Return c / scale where that is whole in every lane."""
    if isinstance(c, np.ndarray):
        if bool((c % np.int64(scale)).any()):
            return None
        return c // np.int64(scale)
    return c // scale if c % scale == 0 else None


def _hash_fraction(tag: Hash, c: Any, den: int, width: int) -> Hash:
    if den == 1:
        c = settle(c, width)
        h = hash_ints(tag, c)
        return np.where(c == 0, np.uint64(0), h) if isinstance(c, np.ndarray) else (
            h if c else h * np.uint64(0))
    if isinstance(c, np.ndarray):
        common = np.gcd(np.abs(c), np.int64(den))
        num = c // common
        low: Any = np.int64(den) // common
        whole = low == 1
        num = np.where(whole, settle(num, width), num)
        h = hash_ints(tag, num)
        h = np.where(whole, h, hash_ints(mix(h, key("/")), low))
        return np.where(num == 0, np.uint64(0), h)
    g = math.gcd(abs(c), den)
    num, low_int = c // g, den // g
    if low_int == 1:
        return _hash_fraction(tag, num, 1, width)
    return hash_ints(mix(hash_ints(tag, num), key("/")), low_int)

