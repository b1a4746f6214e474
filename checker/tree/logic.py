"""Predicates: literals for each lane, comparisons `L >= 0` and `p == 0`, and their combinations.

In: polynomials and predicates. Out: predicate nodes (width 1) in a canonical form: conjunctions are
flat, a negated comparison is a comparison, a conjunct implied by another one drops.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from checker.arrays import every, greatest, some
from checker.tree.nodes import Forest, Node
from checker.tree.poly import Poly, TooLarge, constant
from checker.tree.values import Value, Values, unsigned

__all__ = ["Logic", "conjuncts", "size_of"]

_SIZES = frozenset({"param", "imin_s", "imax_s"})
# where a part of a size begins: a product of such
_STARTS = _SIZES | {"sreg", "iop", "imulhi_s", "imulhi_u"}
#: what numbers of a launch are made of
_COUNTED = _STARTS | {"int", "kappa", "sext", "zext", "extract", "bit", "select", "imin_u",
                      "imax_u", "imul", "iand", "lanes", "ge0", "eq0", "and", "or", "not", "phi"}
MOST_KINDS = 4  # of lanes that a condition tells apart


def conjuncts(p: Node) -> tuple[Node, ...]:
    """Return the members of a conjunction (the predicate itself otherwise)."""
    return p.args if p.op == "and" else (p,)


class Logic:
    """Makers of predicate nodes over one forest."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.forest: Forest = values.forest
        self.combined: dict[tuple[str, tuple[Node, ...]], Node] = {}
        self.implied: dict[tuple[tuple[Node, ...], Node], bool] = {}

    # -- comparisons of integers
    def compare(self, cond: str, signed: bool, width: int, a: Value, b: Value) -> Node:
        """Return an integer comparison."""
        try:
            if cond in ("eq", "ne"):
                p = self.equal(a, b, width)
                return self.negate(p) if cond == "ne" else p
            x, y = (self.unwrapped(self.values.exact(v, width, signed)) for v in (a, b))
            if signed:  # the sign of a start, an index or a counter; one against the other
                u, v = (self.values.poly(v, width) for v in (a, b))
                if (x.is_const or self.values.counts(u)) and (y.is_const or self.values.counts(v)):
                    x, y = (p if p.is_const else q.to_width(0) for p, q in ((x, u), (y, v)))
            if cond in ("gt", "le"):
                x, y, cond = y, x, {"gt": "lt", "le": "ge"}[cond]
            lt = self.at_least_zero(y.sub(x).sub(constant(0, 1)))  # x < y
            return lt if cond == "lt" else self.negate(lt)
        except TooLarge:
            text = f"{cond}.{'s' if signed else 'u'}{width}"
            args = (self.values.node(a), self.values.node(b))
            return self.forest.make("icmp", text, width=1, args=args)

    def unwrapped(self, poly: Poly) -> Poly:
        """Take a size plus literals and counters apart, under the premise no-index-wrap."""
        out = poly
        for mono, c in poly.terms.items():
            if len(mono) != 1 or mono[0].op != "sext" or mono[0].poly is None:
                continue
            inner = mono[0].poly
            sizes = {m: v for m, v in inner.terms.items()
                     if m and not all(a.op == "kappa" for a in m)}
            if not sizes or len(inner.terms) == len(sizes) \
                    or any(isinstance(v, np.ndarray) for v in sizes.values()) \
                    or any(_size(v) > 1 << 20 for v in inner.terms.values()):
                continue
            only = next(iter(sizes.items())) if len(sizes) == 1 else None
            if not all(map(_is_start, sizes)) \
                    and not (only is not None and _is_size(only[0]) and only[1] == 1):
                continue
            size = self.values.cast("sext", Poly(inner.width, sizes), inner.width)
            apart = Poly(0, {(size,): 1, **{m: v for m, v in inner.terms.items()
                                            if m not in sizes}})
            self.forest.premises.add("no-index-wrap")
            out = out.sub(Poly(0, {mono: c})).add(apart.scale(c))
        return out

    def equal(self, a: Value, b: Value, width: int) -> Node:
        """Return a == b."""
        forest = self.forest
        poly = self.values.poly(a, width).sub(self.values.poly(b, width))
        if poly.is_const:
            return forest.lanes_node(poly.unsigned_const(forest.lanes) == 0)
        scaled = _scaled_bits(poly)
        if scaled is not None:  # (c * [p]) == 0 is not p; (c * [p] - c) == 0 is p
            bits, factor = scaled
            p = self.conjunction([b.args[0] for b in bits])
            none = poly.unsigned_const(forest.lanes) == 0
            once = poly.add(constant(poly.width, factor)).unsigned_const(forest.lanes) == 0
            return self.disjunction([
                self.conjunction([forest.lanes_node(none), self.negate(p)]),
                self.conjunction([forest.lanes_node(once), p])])
        bounds = poly.range()
        if bounds is not None and -(1 << width) < bounds[0] and bounds[1] < 1 << width:
            exact = poly.to_width(0)
            if bounds[0] > 0 or bounds[1] < 0:
                return forest.false
            if not isinstance(exact.const, np.ndarray):
                g = _content(exact)
                if exact.const % g:
                    return forest.false
                exact = Poly(0, {m: _div(c, g) for m, c in exact.terms.items()})
            return forest.make("eq0", width=1, poly=exact)
        return forest.make("eq0", width=1, poly=poly)

    def at_least_zero(self, poly: Poly) -> Node:
        """Return poly >= 0 for an exact integer: divided by what its symbols share."""
        forest = self.forest
        if poly.is_const:
            c = poly.const
            if isinstance(c, np.ndarray):
                return forest.lanes_node(c >= 0)
            return forest.true if c >= 0 else forest.false
        bounds = poly.range()
        if bounds is not None:
            if bounds[0] >= 0:
                return forest.true
            if bounds[1] < 0:
                return forest.false
        g = _content(poly)
        if isinstance(poly.const, np.ndarray) and some(poly.const % g) and any(
                a.deps & forest.grid_bits for m in poly.terms for a in m):
            g = 1  # where in its tile a lane's element lies is not lost: tiles of any size drop out
        terms: dict[Any, Any] = {m: _div(c, g) for m, c in poly.terms.items() if m}
        base = constant(0, _div(poly.const, g))
        reduced = Poly(0, terms).add(base)
        whole = self._of_a_size(reduced)
        if whole is not None:
            return self.at_least_zero(whole)
        apart = self._extreme_apart(reduced)
        if apart is not None:
            return apart
        if len(reduced.terms) <= 2:
            bit = [m[0] for m in reduced.terms if len(m) == 1 and m[0].op == "bit"]
            c = reduced.const
            if bit and len(terms) == 1 and not isinstance(c, np.ndarray):
                k = next(iter(terms.values()))
                if isinstance(k, np.ndarray):
                    return forest.make("ge0", width=1, poly=reduced)
                if k == 1 and c == -1:
                    return bit[0].args[0]
                if k == -1 and c == 0:
                    return self.negate(bit[0].args[0])
        return forest.make("ge0", width=1, poly=reduced)

    def bounds_apart(self, node: Node) -> tuple[str, list[Node]]:
        """Return `v < min(a, b)` as `and` and [v < a, v < b]; a maximum as `or`; else nothing."""
        for mono, c in node.poly.terms.items() if node.poly is not None else ():
            inner = mono[0].poly if len(mono) == 1 and mono[0].op == "sext" else None
            bound = inner.atom() if inner is not None else None
            if bound is None or bound.op not in ("imin_s", "imax_s") or isinstance(c, np.ndarray) \
                    or not all(map(_of_the_launch, bound.args)):
                continue
            assert node.poly is not None
            rest = node.poly.sub(Poly(0, {mono: c}))
            each = [self.values.poly(a, bound.width) for a in bound.args]
            made = [self.at_least_zero(rest.add((
                p.to_width(0) if self.values.counts(p) else self.values.sext(p, p.width, 0)
            ).scale(c))) for p in each]
            return "and" if (bound.op == "imin_s") == (c > 0) else "or", made
        return "", []

    def _extreme_apart(self, poly: Poly) -> Node | None:
        """Return `max(a, b) <= v` as `a <= v and b <= v`, where lanes have a and b of their own.

        What all lanes share stays as the launch has it (`bounds_apart`).
        """
        for mono, c in poly.terms.items():
            inner = mono[0].poly if len(mono) == 1 and mono[0].op == "sext" else None
            found = inner.atom() if inner is not None else None
            if found is None or found.op not in ("imin_s", "imax_s") or found.uniform \
                    or isinstance(c, np.ndarray):
                continue
            rest = poly.sub(Poly(0, {mono: c}))
            each = [self.at_least_zero(rest.add(self.unwrapped(self.values.exact(
                a, found.width, True)).scale(c))) for a in found.args]
            every_one = (found.op == "imin_s") == (c > 0)
            return self.conjunction(each) if every_one else self.disjunction(each)
        return None

    def _of_a_size(self, poly: Poly) -> Poly | None:
        """Return `floor(size / 2**k) >= counters` as a comparison of the size itself.

        floor(x / d) >= r says x >= r * d; floor(x / d) <= r says x < (r + 1) * d. A division
        towards zero says the same where r >= 1, or r >= 0; one is >= r for r <= 0 where
        x > (r - 1) * d.
        """
        found = [(m[0], c) for m, c in poly.terms.items() if len(m) == 1 and m[0].op == "iop"
                 and m[0].attr == "shr_s.32" and not isinstance(c, np.ndarray) and c in (1, -1)]
        if len(found) != 1:
            return None
        (atom, sign), = found
        rest = poly.sub(Poly(0, {(atom,): sign}))
        size, by = self.values.poly(atom.args[0], 32), literal_of(atom.args[1])
        if by is None or any(a.op != "kappa" for m in rest.terms for a in m):
            return None
        step, below = 1 << by, 0
        if size_of(size) is None:
            inner = self._towards_zero(size, by)
            bounds = rest.scale(-sign).range()
            if inner is None or bounds is None:
                return None
            if sign > 0 and bounds[1] <= 0:
                below = step - 1
            elif bounds[0] < (sign > 0):
                return None
            size = inner
        exact = self.unwrapped(self.values.sext(size, 32, 0))
        if sign > 0:
            return exact.add(rest.scale(step)).add(constant(0, below))
        return rest.scale(step).add(constant(0, step - 1)).sub(exact)

    def _towards_zero(self, poly: Poly, k: int) -> Poly | None:
        """Return v of v + ((v >> 31) >>> (32 - k)), a size that is divided by 2**k thereafter."""
        for mono, c in poly.terms.items():
            fix = mono[0] if len(mono) == 1 and not isinstance(c, np.ndarray) and c == 1 else None
            if fix is None or fix.op != "iop" or fix.attr != "shr_u.32" \
                    or literal_of(fix.args[1]) != 32 - k:
                continue
            sign = fix.args[0]
            v = poly.sub(Poly(32, {mono: 1}))
            if sign.op == "iop" and sign.attr == "shr_s.32" and literal_of(sign.args[1]) == 31 \
                    and size_of(v) is not None and self.values.poly(sign.args[0], 32).same(v):
                return v
        return None

    # -- combinations
    def negate(self, p: Node) -> Node:
        """Return not p."""
        made = self.forest.negated.get(p)
        if made is None:
            made = self.forest.negated[p] = self._negate(p)
            self.forest.negated[made] = p
        return made

    def _negate(self, p: Node) -> Node:
        forest = self.forest
        if p.op == "lanes" and p.table is not None:
            return forest.lanes_node(~p.table)
        if p.op == "not":
            return p.args[0]
        if p.op == "ge0" and p.poly is not None:
            return forest.complement(p)
        if p.op in ("and", "or"):
            parts = [self.negate(a) for a in p.args]
            return self.disjunction(parts) if p.op == "and" else self.conjunction(parts)
        return forest.make("not", width=1, args=(p,))

    def conjunction(self, parts: Iterable[Node]) -> Node:
        """Return the conjunction: flat, without repeats, without implied comparisons."""
        return self._combine("and", parts)

    def disjunction(self, parts: Iterable[Node]) -> Node:
        """Return the disjunction, likewise."""
        return self._combine("or", parts)

    def by_lanes(self, p: Node) -> list[tuple[Any, Node]]:
        """Part the lanes by what is left of a condition in them: which lanes, what is left.

        Nothing where lanes do not decide a part of an alternative (or of a conjunct), or where
        there are more than a few kinds: `q xor lanes` is q in some and not q in the others.
        """
        inner = [a for a in p.args if a.op in ("and", "or")] if p.op in ("and", "or") else []
        tables = [t for a in inner for t in _lane_tables(a)]
        if not tables:
            return []
        tables += [a.table for a in p.args if a.op == "lanes"]
        kinds, of = np.unique(np.stack(tables), axis=1, return_inverse=True)
        if kinds.shape[1] > MOST_KINDS:
            return []
        return [(where, self._where(p, where)) for where in
                (of.ravel() == kind for kind in range(kinds.shape[1]))]

    def _where(self, p: Node, lanes: Any) -> Node:
        """Return what is left of a condition in some lanes that its tables treat alike."""
        if p.op == "lanes" and p.table is not None:
            return self.forest.true if bool(p.table[lanes][0]) else self.forest.false
        if p.op not in ("and", "or"):
            return p
        return self._combine(p.op, [self._where(a, lanes) for a in p.args])

    def _combine(self, op: str, parts: Iterable[Node]) -> Node:
        name = (op, tuple(parts))
        made = self.combined.get(name)
        if made is None:
            made = self.combined[name] = self._combination(*name)
        return made

    def _combination(self, op: str, parts: tuple[Node, ...]) -> Node:
        forest = self.forest
        neutral, absorbing = forest.true, forest.false
        if op == "or":
            neutral, absorbing = absorbing, neutral
        mask = np.full(forest.lanes, op == "and")
        flat: list[Node] = []
        for part in parts:
            for p in part.args if part.op == op else (part,):
                if p.op == "lanes" and p.table is not None:
                    mask = mask & p.table if op == "and" else mask | p.table
                elif p not in flat:
                    flat.append(p)
        literal = forest.lanes_node(mask)
        if literal is absorbing:
            return absorbing
        flat = self._strongest(op, flat)
        if self._contradict(flat):
            return absorbing
        if literal is not neutral:
            flat.append(literal)
        if not flat:
            return neutral
        if len(flat) == 1:
            return flat[0]
        flat = self._absorbed(op, flat)
        if len(flat) == 1:
            return flat[0]
        flat.sort(key=lambda n: n.serial)
        return forest.make(op, width=1, args=flat)

    def _contradict(self, flat: list[Node]) -> bool:
        """Tell whether one of some conditions is another one's opposite.

        Opposite comparisons have the same symbols: others are not turned round.
        """
        symbols = Counter(_symbols(p) for p in flat if p.op == "ge0")
        return any(self.negate(p) in flat for p in flat if p.op == "not" or (
            p.op == "ge0" and symbols[_symbols(p)] > 1))

    def _absorbed(self, op: str, flat: list[Node]) -> list[Node]:
        """Drop a or (a and b) to a, also where (a and b) implies a otherwise; reduce
        a or (not a and b) to a or b; and the duals.
        """
        inner = "and" if op == "or" else "or"
        out: list[Node] = []
        for i, p in enumerate(flat):
            if p.op != inner:
                out.append(p)
                continue
            others = [*out, *flat[i + 1:]]  # two that imply each other do not both go
            if any(a in others for a in p.args) or self._adds_nothing(op, p, others):
                continue
            kept = [a for a in p.args if self.negate(a) not in others]
            if len(kept) < len(p.args):
                joined = self._combine(inner, kept)
                return self._members(op, self._combine(op, [*others, joined]))
            out.append(p)
        if op == "or":
            shared = self._shared(out)
            if shared is not None:
                return [shared]
        return out

    def _adds_nothing(self, op: str, p: Node, others: Sequence[Node]) -> bool:
        """Tell whether one of the others follows from p (for `or`), or p from it (for `and`)."""
        if op == "or":
            return any(self.implies(p.args, q) for q in others)
        return any(self.implies(conjuncts(q), p) for q in others)

    def _members(self, op: str, p: Node) -> list[Node]:
        return list(p.args) if p.op == op else [p]

    def _shared(self, flat: list[Node]) -> Node | None:
        """Return (a and b) or (a and not b) as a."""
        if len(flat) != 2:
            return None
        one, two = set(conjuncts(flat[0])), set(conjuncts(flat[1]))
        common = [p for p in conjuncts(flat[0]) if p in two]
        if not common:
            return None
        rest_one = self.conjunction([p for p in conjuncts(flat[0]) if p not in common])
        rest_two = self.conjunction([p for p in conjuncts(flat[1]) if p not in common])
        del one
        joined = self.disjunction([rest_one, rest_two])
        if joined.op == "or":
            return None
        return self.conjunction([*common, joined])

    def _strongest(self, op: str, flat: list[Node]) -> list[Node]:
        """Of comparisons that differ in their literal only keep the one that decides."""
        groups: dict[Any, list[Node]] = {}
        out: list[Node] = []
        for p in flat:
            if p.op == "ge0" and p.poly is not None:
                rest = Poly(0, {m: c for m, c in p.poly.terms.items() if m})
                groups.setdefault(rest.key(), []).append(p)
            else:
                out.append(p)
        for members in groups.values():
            if len(members) == 1:
                out.append(members[0])
                continue
            polys = [m.poly for m in members if m.poly is not None]
            pick = np.minimum if op == "and" else np.maximum
            best = reduce(pick, [p.const for p in polys])
            best = best if isinstance(best, np.ndarray) else int(best)
            base = Poly(0, {m: c for m, c in polys[0].terms.items() if m})
            out.append(self.at_least_zero(base.add(constant(0, best))))
        return out

    def implies(self, known: Iterable[Node], p: Node) -> bool:
        """Tell whether the known conjuncts imply p (false: not shown)."""
        name = (tuple(known), p)
        found = self.implied.get(name)
        if found is None:
            found = self.implied[name] = all(self._implies(name[0], q) for q in conjuncts(p))
        return found

    def _implies(self, known: tuple[Node, ...], q: Node) -> bool:
        """Tell whether the known conjuncts imply one more."""
        if q is self.forest.true or q in known:
            return True
        if q.op == "or" and any(self.implies(known, a) for a in q.args):
            return True
        return any(self._weaker(k, q) for k in known)

    def _weaker(self, k: Node, q: Node) -> bool:
        if k.op == "lanes" and q.op == "lanes" and k.table is not None and q.table is not None:
            return every(~k.table | q.table)
        if k.op != "ge0" or q.op != "ge0" or k.poly is None or q.poly is None:
            return False
        gap = q.poly.sub(k.poly)
        if gap.is_const:
            c = gap.const
            return every(c >= 0) if isinstance(c, np.ndarray) else c >= 0
        bounds = gap.range()
        return bounds is not None and bounds[0] >= 0

    def strongest(self, known: Iterable[Node]) -> list[Node]:
        """Return conditions without those that differ from another one in a weaker literal."""
        best: dict[Any, Node] = {}
        for k in known:
            name: Any = k
            if k.op == "ge0" and k.poly is not None and not isinstance(k.poly.const, np.ndarray):
                name = Poly(0, {m: c for m, c in k.poly.terms.items() if m}).name()
            old = best.setdefault(name, k)
            if old is not k and k.poly is not None and old.poly is not None \
                    and k.poly.const < old.poly.const:
                best[name] = k
        return list(best.values())

    def given(self, p: Node, known: Iterable[Node]) -> Node:
        """Return p without what is known to hold."""
        known = tuple(known)
        parts = [q for q in conjuncts(p) if not self.implies(known, q)]
        refuted = any(self.implies(known, self.negate(q)) for q in parts if q.op != "lanes")
        return self.forest.false if refuted else self.conjunction(parts)


def _lane_tables(p: Node) -> list[Any]:
    """Return the tables of lanes that a condition is made of."""
    if p.op == "lanes":
        return [p.table]
    return [t for a in p.args for t in _lane_tables(a)] if p.op in ("and", "or") else []


def literal_of(node: Node) -> int | None:
    """Return a literal that all lanes share."""
    poly = node.poly
    if node.op != "int" or poly is None or not poly.is_const or isinstance(poly.const, np.ndarray):
        return None
    return int(poly.const)


def size_of(poly: Poly) -> Node | None:
    """Return the parameter of a sum of a parameter and a literal."""
    symbols = [(m, c) for m, c in poly.terms.items() if m]
    if len(symbols) != 1 or len(symbols[0][0]) != 1 or isinstance(poly.const, np.ndarray):
        return None
    (atom,), c = symbols[0]
    return atom if atom.op == "param" and not isinstance(c, np.ndarray) and c == 1 else None


def _is_size(mono: tuple[Node, ...]) -> bool:
    return len(mono) == 1 and mono[0].op in _SIZES and _of_the_launch(mono[0])


def _of_the_launch(atom: Node) -> bool:
    """Tell whether a number follows from arguments, block indices and counters: data may wrap."""
    seen, work = {atom}, [atom]
    while work:
        node = work.pop()
        if node.op not in _COUNTED or len(seen) > 64:
            return False
        new = [k for k in node.kids if k not in seen]
        seen.update(new)
        work += new
    return True


def _is_start(mono: tuple[Node, ...]) -> bool:
    """Tell whether a product is where a block's part begins: block indices times sizes."""
    return len(mono) > 1 and any(a.op == "sreg" for a in mono) and all(a.uniform and (
        a.op in _STARTS or (a.op == "extract" and a.args[0].op in _STARTS))
        and _of_the_launch(a) for a in mono)


def _size(c: Any) -> int:
    return greatest(np.abs(c)) if isinstance(c, np.ndarray) else abs(c)


def _content(poly: Poly) -> int:
    g = 0
    for mono, c in poly.terms.items():
        if mono:
            g = math.gcd(g, int(np.gcd.reduce(np.abs(c))) if isinstance(c, np.ndarray) else abs(c))
    return g if 0 < g < 1 << 62 else 1


def _symbols(p: Node) -> frozenset[tuple[Node, ...]]:
    """Return the products of symbols that a comparison adds up."""
    return frozenset(m for m in p.poly.terms if m) if p.poly is not None else frozenset()


def _div(c: Any, g: int) -> Any:
    if isinstance(c, np.ndarray):
        return np.floor_divide(c, np.int64(g))
    return c // g


def _scaled_bits(poly: Poly) -> tuple[tuple[Node, ...], int] | None:
    """Return the 0/1 atoms and c of c * b * ... plus a literal, c no multiple of 2**width."""
    others = [m for m in poly.terms if m]
    if len(others) != 1 or any(a.op != "bit" for a in others[0]):
        return None
    c = poly.terms[others[0]]
    if isinstance(c, np.ndarray) or not poly.width or unsigned(c, poly.width) == 0:
        return None
    return others[0], c
