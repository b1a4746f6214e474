"""Generalisation over a loop counter: from two states to one that gives both, and back.

In: values before and after some iterations. Out: a value in which what grew linearly contains the
counter; `Replacer` puts something else for the counter. Nothing here is trusted: the loop's proof
runs the general state and compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every
from checker.tree.folds import moved_fold
from checker.tree.logic import conjuncts
from checker.tree.nodes import SELECT_BIT, UNFOUNDED, UNFOUNDED_BIT, Node
from checker.tree.poly import Poly, TooLarge, constant
from checker.tree.rewrite import Rewriter
from checker.tree.values import Value

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Divider", "Generaliser", "Given", "Refiner", "Renamed", "Replacer", "Uneven",
           "conditions", "dependent", "settled", "without_loops"]

MAX_CONDITIONS = 4  # that an offset is made of


def dependent(v: Value | None, mask: int) -> bool:
    """Tell whether a value depends on any of the symbols in a bit mask."""
    if v is None:
        return False
    if isinstance(v, Node):
        return bool(v.deps & mask)
    return any(a.deps & mask for mono in v.terms for a in mono)


def conditions(poly: Poly) -> list[Node]:
    """Return the 0/1 atoms of a polynomial, those inside widened sums included."""
    found: set[Node] = set()
    work = [poly]
    while work:
        for mono in work.pop().terms:
            for a in mono:
                if a.op == "bit":
                    found.add(a)
                elif a.op in ("sext", "zext") and a.poly is not None:
                    work.append(a.poly)
    return sorted(found, key=lambda a: a.serial)


def settled(engine: Engine, poly: Poly) -> Iterator[tuple[dict[Node, bool], Poly]]:
    """Yield what a polynomial is for each truth of the few conditions that it holds as 0 or 1.

    Conditions that do not matter any more are left out.
    """
    work: list[tuple[dict[Node, bool], Poly]] = [({}, poly)]
    while work:
        known, at = work.pop()
        bits = conditions(at)
        if not bits or len(known) >= MAX_CONDITIONS:
            yield known, at
            continue
        for holds in (True, False):
            put = Poly(poly.width, {(): 1} if holds else {})
            work.append(({**known, bits[0].args[0]: holds},
                         Replacer(engine, {bits[0]: put}).poly(at)))


class Generaliser:
    """Anti-unification of values over one counter (0 gives the first, 1 the second)."""

    def __init__(self, engine: Engine, kappa: Node) -> None:
        self.engine = engine
        self.kappa = kappa
        self.memo: dict[tuple[int, int], Node | None] = {}

    def value(self, a: Value | None, b: Value | None) -> Value | None:
        """Return a value that is a at counter 0 and b at counter 1, or None."""
        if a is None and b is None:
            return self.engine.values.undefined(1)
        if a is None or b is None:
            return None
        if isinstance(a, Poly) and isinstance(b, Poly):
            return self.poly(a, b)
        if isinstance(a, Poly) or isinstance(b, Poly):
            return self.node(self.engine.values.node(a), self.engine.values.node(b))
        return self.node(a, b)

    def poly(self, a: Poly, b: Poly) -> Poly | None:
        """The same for polynomials: equal terms stay, literals grow by the counter."""
        if a.width != b.width:
            return None
        gap = b.sub(a)
        if not gap.terms:
            return a
        left = {m: c for m, c in a.terms.items() if m not in b.terms}
        right = {m: c for m, c in b.terms.items() if m not in a.terms}
        if not self._varying(gap) or not (left or right):
            grown = Poly(a.width, {(self.kappa,): 1}).mul(gap)
            return a.add(grown)
        common = Poly(a.width, {m: c for m, c in a.terms.items() if m not in left})
        rest = b.sub(Poly(a.width, right)).sub(common)
        if self._varying(rest):
            return None
        total = common
        if rest.terms:
            total = total.add(Poly(a.width, {(self.kappa,): 1}).mul(rest))
        for mono, c in left.items():
            found = self._match(mono, c, right)
            if found is None:
                return None
            total = total.add(Poly(a.width, {found: 1}).scale(c))
        if any(a.op == "load" or a.deps & self.kappa.deps for mono in right for a in mono):
            return None
        return total.add(Poly(a.width, {(self.kappa,): 1}).mul(Poly(a.width, right)))

    def _varying(self, gap: Poly) -> bool:
        """Whether the difference holds atoms that are better generalised themselves."""
        return any(a.op not in ("param", "sreg", "kappa") and not (
            a.op in ("sext", "zext") and a.poly is not None and a.poly.atom() is not None)
            for mono in gap.terms for a in mono)

    def _match(self, mono: tuple[Node, ...], c: Any, right: dict[Any, Any]
               ) -> tuple[Node, ...] | None:
        for other, c2 in list(right.items()):
            if len(other) != len(mono) or not _equal_coef(c, c2):
                continue
            rest_a = [x for x in mono if x not in other]
            rest_b = [x for x in other if x not in mono]
            if len(rest_a) != 1 or len(rest_b) != 1:
                continue
            made = self.node(rest_a[0], rest_b[0])
            if made is None:
                continue
            del right[other]
            kept = [x for x in mono if x in other]
            return tuple(sorted((*kept, made), key=lambda n: n.serial))
        return None

    def node(self, a: Node, b: Node) -> Node | None:
        """The same for nodes of one shape."""
        if a is b:
            return a
        memo = (a.serial, b.serial)
        if memo not in self.memo:
            self.memo[memo] = self._node(a, b)
        return self.memo[memo]

    def _node(self, a: Node, b: Node) -> Node | None:
        if (a.op, a.attr, a.width, len(a.args)) != (b.op, b.attr, b.width, len(b.args)) \
                or a.op in ("phi", "kappa", "fold", "undef", "opaque", "param", "sreg", "lanes"):
            return None
        if (a.table is None) != (b.table is None) or (
                a.table is not None and b.table is not None
                and not np.array_equal(a.table, b.table)):
            return None
        others = b.args if a.op not in ("and", "or") else self._aligned(a.args, b.args)
        args = [self.node(x, y) for x, y in zip(a.args, others, strict=True)]
        if any(x is None for x in args) and a.op in ("fadd", "fmul", "ffma", "and", "or", "fmax",
                                                     "fmin") and len(a.args) >= 2:
            swapped = self._swapped(a, b)
            if swapped is None:
                return None
            args = list(swapped)
        if any(x is None for x in args):
            return None
        poly = None
        if a.poly is not None and b.poly is not None:
            poly = self.poly(a.poly, b.poly)
            if poly is None:
                return None
        return remake(self.engine, a, [x for x in args if x is not None], poly)

    def _aligned(self, left: tuple[Node, ...], right: tuple[Node, ...]) -> list[Node]:
        """Return the members of a condition in the order of another's that resemble them."""
        rest = [y for y in right if y not in left]
        out: list[Node] = []
        for x in left:
            if x in right:
                out.append(x)
                continue
            alike = [y for y in rest if _symbols(x, self.kappa) == _symbols(y, self.kappa)] or rest
            out.append(alike[0])
            rest.remove(alike[0])
        return out

    def _swapped(self, a: Node, b: Node) -> list[Node | None] | None:
        x = self.node(a.args[0], b.args[1])
        y = self.node(a.args[1], b.args[0])
        rest = [self.node(p, q) for p, q in zip(a.args[2:], b.args[2:], strict=True)]
        out = [x, y, *rest]
        return None if any(n is None for n in out) else out

    def private(self, a: dict[int, Any], b: dict[int, Any]) -> dict[int, Any] | None:
        """Generalise local memory."""
        out: dict[int, Any] = {}
        for k in {*a, *b}:
            x, y = a.get(k), b.get(k)
            if x is None or y is None or x[1] != y[1]:
                out[k] = None
                continue
            made = self.value(x[0], y[0])
            out[k] = None if made is None else (made, x[1])
        return out

    def comparer(self, shift: Rewriter, stay: Rewriter, onward: Replacer
                 ) -> Callable[[Value | None, Value | None], bool]:
        """Return a test whether a general value, with the counter one higher, is another value.

        What `onward` makes of it is the other value itself where both were built alike; elsewhere
        their hashes under the pivots of `shift` and `stay` decide.
        """
        values = self.engine.values

        def same(general: Value | None, other: Value | None) -> bool:
            if general is None or other is None:
                return general is None and other is None
            x = general if isinstance(general, Node) else values.forest.number(general)
            y = other if isinstance(other, Node) else values.forest.number(other)
            if not (x.deps | y.deps) & onward.mask:
                if x is y:
                    return True
            else:
                try:
                    if onward.node(x) is y:
                        return True
                except TooLarge:
                    pass
            hx, hy = shift.h(x), stay.h(y)
            return every(hx == hy)

        return same


def _symbols(p: Node, kappa: Node) -> tuple[str, set[Any]]:
    """Return what a condition speaks of, whatever the counter."""
    monos = p.poly.terms if p.poly is not None else {}
    return p.op, {m for m in monos if m and kappa not in m} | set(p.args)


def _equal_coef(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)


def remake(engine: Engine, like: Node, args: list[Node], poly: Poly | None) -> Node:
    """Build a node like another one with other children, through the usual makers."""
    forest, values, logic = engine.forest, engine.values, engine.logic
    op = like.op
    if op == "ge0" and poly is not None:
        return logic.at_least_zero(poly)
    if op == "eq0" and poly is not None and poly.is_const:
        return forest.lanes_node(poly.to_width(poly.width or 63).unsigned_const(forest.lanes) == 0)
    if op == "and":
        return logic.conjunction(args)
    if op == "or":
        return logic.disjunction(args)
    if op == "not":
        return logic.negate(args[0])
    if op == "int" and poly is not None:
        return values.node(poly)
    if op == "gather" and like.table is not None:
        return forest.gather(args[0], like.table)
    if op == "mux" and like.table is not None:
        return forest.mux(like.table, args)
    if op == "fcvt" and like.extra is not None:
        return values.node(engine.floats.convert(like.extra, args[0]))
    if op in ("fadd", "fmul", "ffma", "fdiv") and like.extra is not None:
        return engine.floats.op(op, like.extra, args)
    if op == "select":
        return values.node(values.select(args[0], args[1], args[2], like.width))
    if op == "pack":
        return values.node(values.pack(args))
    if op == "iop" and (like.attr == "shr_s.32" or all(
            a.op == "int" and a.poly is not None and a.poly.is_const for a in args)):
        name, _, width = like.attr.rpartition(".")
        return values.node(engine.ints.op(name, int(width), args))
    return forest.make(op, like.attr, width=like.width, args=args, poly=poly, table=like.table,
                       extra=like.extra, low=like.low, high=like.high,
                       may_neg_zero=like.may_neg_zero)


def rebuild(root: Node, memo: dict[Node, Node], inside: Callable[[Node], Iterable[Node]],
            made: Callable[[Node], Node]) -> Node:
    """Return what a node becomes: each node is made once those inside of it are in `memo`."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        waiting = [k for k in inside(node) if k not in memo]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        memo[node] = made(node)
    return memo[root]


def without_loops(engine: Engine, p: Node, x: Node, memo: dict[Node, Node]) -> Node:
    """Return what x is where p fails: loops in it that p is the condition to enter do not run.

    Behind an exchange of lanes another lane's loops count: only where p is one for all.
    """
    ends = {"load", "mma", "krow", "fold", *(() if p.uniform else ("gather",))}

    def inside(node: Node) -> tuple[Node, ...]:
        return () if node.op in ends else node.args

    def made(node: Node) -> Node:
        if node.op == "fold" and node.extra.start is p and node.extra.out in node.extra.phis:
            init: Node = node.extra.inits[node.extra.phis.index(node.extra.out)]
            return init
        args = [memo[k] for k in inside(node)]
        if all(a is k for a, k in zip(args, node.args, strict=False)):
            return node
        return remake(engine, node, args, node.poly)

    return rebuild(x, memo, inside, made)


class Given:
    """Rebuilds values under conditions that hold: a select they decide is the chosen side.

    Behind an exchange between lanes only conditions that all lanes share are known.
    """

    def __init__(self, engine: Engine, known: Iterable[Node]) -> None:
        self.engine = engine
        self.known = engine.logic.strongest(
            k for p in known for k in conjuncts(p) if k.op != "lanes")
        shared = [k for k in self.known if k.uniform]
        self.behind = self if len(shared) == len(self.known) else Given(engine, shared)
        self.memo: dict[Node, Node] = {}

    def value(self, v: Value | None) -> Value | None:
        """Return a value under the conditions."""
        return self.node(v) if isinstance(v, Node) else v

    def node(self, root: Node) -> Node:
        """Return a node under the conditions."""
        if not self.known or not root.deps & SELECT_BIT:
            return root
        return rebuild(root, self.memo, self._inside, self._made)

    def _inside(self, node: Node) -> list[Node]:
        if node.op in ("gather", "krow", "fold"):
            return []
        return [k for k in node.args if k.deps & SELECT_BIT]

    def _made(self, node: Node) -> Node:
        if node.op == "fold":
            return node
        if node.op in ("gather", "krow"):
            args = [self.behind.node(a) for a in node.args]
        else:
            args = [self.memo.get(a, a) for a in node.args]
        if node.op == "select":
            p = self.engine.logic.given(args[0], self.known)
            if p is not args[0]:
                return self.engine.values.node(
                    self.engine.values.select(p, args[1], args[2], node.width))
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        return remake(self.engine, node, args, node.poly)


class Replacer:
    """Puts polynomials for symbols, rebuilding what depends on them."""

    def __init__(self, engine: Engine, table: dict[Node, Poly]) -> None:
        self.engine = engine
        self.table = table
        self.mask = 0
        for n in table:
            self.mask |= n.deps
        self.memo: dict[Node, Node] = {}

    def equal(self, v: Value, other: Value) -> bool:
        """Tell whether a value is another one after replacement."""
        number = self.engine.forest.number
        one = self.node(v) if isinstance(v, Node) else number(self.poly(v))
        two = other if isinstance(other, Node) else number(other)
        return one is two or (one.h.shape == two.h.shape and every(one.h == two.h))

    def node(self, root: Node) -> Node:
        """Return a node with its symbols replaced."""
        if not root.deps & self.mask:
            return root
        return rebuild(root, self.memo, self._inside, self._made)

    def _inside(self, node: Node) -> list[Node]:
        kids = list(node.kids)
        if node.op == "fold":
            kids = node.extra.parts()
            if node.extra.start is not None:
                kids = [*kids, node.extra.start]
        return [k for k in kids if k.deps & self.mask and k not in self.table]

    def _made(self, node: Node) -> Node:
        if node.op == "fold":
            return moved_fold(self.engine.forest, self.engine.plain, node.extra,
                              lambda k: self.memo.get(k, k))
        args = [self.memo.get(a, a) if a.deps & self.mask else a for a in node.args]
        poly = self.poly(node.poly) if node.poly is not None else None
        return remake(self.engine, node, args, poly)

    def poly(self, poly: Poly) -> Poly:
        """Return a polynomial with its symbols replaced."""
        total = Poly(poly.width, {})
        values = self.engine.values
        for mono, c in poly.terms.items():
            part = Poly(poly.width, {(): 1}).scale(c)
            for atom in mono:
                if atom in self.table:
                    put = self.table[atom]
                    part = part.mul(Poly(poly.width, dict(put.terms)))
                    continue
                if atom.deps & self.mask:
                    if atom.op == "bit":
                        bit = values.bit(self.node(atom.args[0]))
                        part = part.mul(Poly(poly.width, bit))
                        continue
                    atom = self.node(atom) if atom.op not in ("sext", "zext") else atom
                    if atom.op in ("sext", "zext") and atom.poly is not None:
                        inner = self.poly(atom.poly)
                        widen = values.sext if atom.op == "sext" else values.zext
                        part = part.mul(widen(inner, inner.width, poly.width))
                        continue
                    part = part.mul(values.poly(atom, poly.width)
                                    if atom.op == "int" else Poly(poly.width, {(atom,): 1}))
                    continue
                part = part.mul(Poly(poly.width, {(atom,): 1}))
            total = total.add(part)
        return total


class Renamed(Replacer):
    """Rebuilds values with bits that nobody wrote, or that are not modelled, under other names.

    There is one `undef` node for all such bits of a width, and one opaque node for all that an
    instruction gives; what two registers hold of them is not for that reason the same.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        super().__init__(engine, {})
        self.name, self.mask = name, UNFOUNDED_BIT

    def value(self, v: Value) -> Value:
        """Return a value under other names."""
        return self.node(v) if isinstance(v, Node) else self.poly(v)

    def _made(self, node: Node) -> Node:
        if node.op in UNFOUNDED:
            return self.engine.forest.make(node.op, node.attr + self.name, width=node.width,
                                           args=node.args)
        return super()._made(node)


class Uneven(Exception):
    """A value that is no value of a finer counter."""


class Divider(Replacer):
    """Tells values of a counter that counts `period` iterations at once by the number of each.

    The counter stands for (number - lead) / period, for floor of it where that leaves a fraction.
    Raises Uneven where it is no shift.
    """

    def __init__(self, engine: Engine, kappa: Node, period: int, lead: int) -> None:
        super().__init__(engine, {kappa: Poly(32, {(kappa,): 1, **({(): -lead} if lead else {})})})
        self.kappa, self.period, self.lead = kappa, period, lead

    def poly(self, poly: Poly) -> Poly:
        """Return a polynomial of the number."""
        even: dict[Any, Any] = {}
        total = Poly(poly.width, {})
        for mono, c in poly.terms.items():
            if mono.count(self.kappa) > 1:
                raise Uneven
            if self.kappa not in mono:
                even[mono] = c
            elif not bool(np.any(c % self.period)):
                even[mono] = c // self.period
            else:
                share = math.gcd(self.period, *np.atleast_1d(np.abs(c)).tolist())
                rest = tuple(a for a in mono if a is not self.kappa)
                groups = self._groups(self.period // share)
                total = total.add(super().poly(Poly(poly.width, {rest: c // share})).mul(
                    Poly(poly.width, groups.terms)))
        return total.add(super().poly(Poly(poly.width, even)))

    def _groups(self, size: int) -> Poly:
        """Return floor((number - lead) / size), which the counter times period / size is."""
        if size & (size - 1):
            raise Uneven
        up = -self.lead % size
        number = Poly(32, {(self.kappa,): 1, **({(): up} if up else {})})
        ints, values = self.engine.ints, self.engine.values
        groups = ints.op("shr_s", 32, (number, constant(32, size.bit_length() - 1)))
        return values.poly(groups, 32).sub(constant(32, (self.lead + up) // size))


class Refiner:
    """What a run from a general state shows, where both begin alike; else the general state.

    The first iterations hold literals where a counter is divided: `(16 * k) >> 6` is 0 in four of
    them. A run from a general state shows the counter. Whatever is taken from it, one counter back,
    is at counter 0 what it was: so the state at the start is still an instance.
    """

    def __init__(self, engine: Engine, kappa: Node) -> None:
        self.engine = engine
        self.back = Replacer(engine, {kappa: Poly(32, {(kappa,): 1, (): -1})})
        self.start = Replacer(engine, {kappa: Poly(32, {})})

    def value(self, a: Value | None, b: Value | None) -> Value | None:
        """Return b at the counter before, where it is a at counter 0; else a."""
        if a is None or b is None:
            return a
        forest = self.engine.forest
        one, two = (v if isinstance(v, Node) else forest.number(v) for v in (a, b))
        moved = self.back.node(two)
        return moved if self.start.equal(moved, self.start.node(one)) else a

    def node(self, a: Node, b: Node) -> Node:
        """The same for nodes."""
        made = self.value(a, b)
        assert isinstance(made, Node)
        return made
