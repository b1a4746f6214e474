"""Hash trees again under a change of coordinates: block indices become output coordinates.

In: a forest, pivots (block index = (y - offset) / scale), a context for each output element (its
offsets in the tile, the conditions that hold for it). Out: the hash of any node in some lanes under
some contexts. A value is looked at as a pair (lane, context): behind an exchange the lane is
another one and the context stays the looker's. Nothing is blanked: a rational coefficient stays
one, a select whose condition is known becomes the chosen side. All elements of all stores with the
same pivots share one pass: a node collects the pairs it is asked for, then each is hashed once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from checker.arrays import every
from checker.tree import evaluate
from checker.tree.contexts import Contexts, each_once
from checker.tree.hashing import Hash, agree, collapse, key
from checker.tree.logic import Logic
from checker.tree.nodes import (
    CAST_BIT,
    COMPARE_BIT,
    GROUPED,
    LOW_BITS,
    SELECT_BIT,
    UNKNOWN_BIT,
    Node,
)
from checker.tree.poly import Poly, settle

__all__ = ["Facts", "Pivot", "Region", "Rewriter", "Scope"]

LARGE = 1 << 15  # pairs whose hashes are dropped as soon as all that need them are hashed
KEPT_BYTES = 64 << 20  # of hashes inside loops that folds share
Numbers = npt.NDArray[np.int64]


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


@dataclass(slots=True)
class Facts:
    """Conditions that hold for the one who looks; a column of the contexts holds their numbers.

    h: hashes [2, n]. at_least: which are `symbols + c >= 0`; symbols: the hash sums of their
    symbols. columns: column -> the symbols that its conditions speak of.
    """

    h: Hash
    at_least: npt.NDArray[np.bool_]
    symbols: Hash
    c: Numbers
    columns: dict[int, int]


class Region:
    """The outside of all loops, or the inside of one: there its counter has a name by level.

    pivot: where the nodes' counter stands for (c - offset) / scale, c being the loop's own.
    plain: the same region with the counter at offset 0 and nothing known; cond: what holds there
    in every iteration (None: not known), told of the nodes' counter.
    """

    def __init__(self, outer: Region | None = None, counter: Node | None = None,
                 name: Hash | None = None, pivot: Pivot | None = None,
                 plain: Region | None = None, cond: Node | None = None) -> None:
        self.outer = outer
        self.counter = counter
        self.name = name
        self.pivot = pivot
        self.plain, self.cond = plain, cond
        self.known: list[tuple[Facts, Any]] | None = None
        self.bits = counter.deps & ~LOW_BITS if counter is not None else 0
        self.tables: dict[Node, _Table] = {}
        self.pending: dict[Node, list[Numbers]] = {}
        self.counted: dict[Any, Region] = {}

    def inside(self, counter: Node, name: str, ratio: int = 1, offset: int = 0,
               cond: Node | None = None) -> Region:
        """Return the region inside a loop with this counter, made once."""
        what = counter, name, ratio, offset, cond
        made = self.counted.get(what)
        if made is None:
            pivot = Pivot(counter, counter, ratio, offset) if ratio > 1 or offset else None
            plain = self.inside(counter, name, ratio) if cond is not None else None
            made = self.counted[what] = Region(self, counter, key(name), pivot, plain, cond)
        return made

    def pivot_of(self, atom: Node) -> Pivot | None:
        """Return what a counter stands for here."""
        at: Region | None = self
        while at is not None:
            if at.counter is atom:
                return at.pivot
            at = at.outer
        return None

    def recasts(self, atom: Node) -> bool:
        """Tell whether counters that stand for fractions change a widened sum."""
        at: Region | None = self
        while at is not None:
            if at.pivot is not None and atom.deps & at.bits:
                return True
            at = at.outer
        return False


class _Table:
    """One node's hashes for the pairs it was asked for, sorted; one column where all agree."""

    __slots__ = ("aux", "h", "keys")

    def __init__(self, keys: Numbers, h: Hash, aux: Hash | None) -> None:
        self.keys, self.h, self.aux = keys, h, aux

    def missing(self, keys: Numbers) -> Numbers:
        """Return those of some pairs that are not here."""
        if keys is self.keys:
            return keys[:0]
        at = self.keys.searchsorted(keys)
        at[at == len(self.keys)] = 0
        missing: Numbers = keys[self.keys[at] != keys]
        return missing

    def join(self, other: _Table) -> _Table:
        """Return the table of both sets of pairs, which have none in common."""
        keys = np.concatenate((self.keys, other.keys))
        order = keys.argsort()
        return _Table(keys[order], _joined(self, other, "h", order),
                      None if self.aux is None else _joined(self, other, "aux", order))


def _joined(a: _Table, b: _Table, name: str, order: Numbers) -> Any:
    one, two = getattr(a, name), getattr(b, name)
    if one.shape[-1] == two.shape[-1] == 1 and every(one == two):
        return one
    wide = [np.broadcast_to(h, (*h.shape[:-1], len(t.keys))) for h, t in ((one, a), (two, b))]
    return np.concatenate(wide, axis=-1).take(order, axis=-1)


class Scope:
    """Pairs (lane[i], context number[i]) under a set of columns, in one region.

    sure: the pairs were collected before; otherwise hashes are worked out when asked for.
    """

    __slots__ = ("known", "lane", "looks", "mask", "memo", "number", "region", "rewriter", "sure")

    def __init__(self, rewriter: Rewriter, region: Region, mask: int, lane: Numbers,
                 number: Numbers, sure: bool = True, keys: Numbers | None = None) -> None:
        self.rewriter, self.region, self.mask = rewriter, region, mask
        self.lane, self.number, self.sure = lane, number, sure
        #: the pairs' keys under some columns, by which lanes count as one (None: each its own)
        self.known: dict[tuple[int, int | None], Numbers] = {}
        self.looks: dict[int, Scope] = {}  # the pairs behind tables of lanes
        self.memo: dict[Any, Any] | None = None  # what was worked out for all pairs
        if keys is not None:
            self.known[mask, None] = keys
            self.memo = {}

    def behind(self, table: Numbers) -> Scope:
        """Return the pairs (table[lane[i]], context number[i])."""
        scope = self.looks.get(id(table))  # the forest keeps its tables, one of each
        if scope is None:
            scope = self.looks[id(table)] = self.shift(table[self.lane], slice(None))
        return scope

    def kept_for(self, node: Node) -> dict[Any, Any] | None:
        """Return where to keep what is worked out about a condition for all pairs."""
        return self.memo

    def shift(self, lane: Numbers, picked: Any) -> Scope:
        """Return the pairs (lane[j], context of pair picked[j])."""
        return Scope(self.rewriter, self.region, self.mask, lane, self.number[picked], self.sure)

    def over(self, lane: Numbers, number: Numbers) -> Scope:
        """Return the pairs (lane[j], number[j]) under the same columns."""
        return Scope(self.rewriter, self.region, self.mask, lane, number, self.sure)

    def of(self, node: Node) -> Hash:
        """Return a node's hash for each pair, [2, 1 | pairs] ([2, k, 1 | pairs] for a row)."""
        return self.rewriter.fetch(self, node)[0]

    def aux_of(self, node: Node) -> Hash | None:
        """Return the member sum of an order-free group."""
        return self.rewriter.fetch(self, node)[1]

    def need(self, node: Node) -> None:
        """Ask for a node for all pairs."""
        self.rewriter.need(self, node)

    def need_poly(self, poly: Poly) -> None:
        """Ask for a polynomial's atoms."""
        for mono in poly.terms:
            for atom in mono:
                if self.recast(atom):
                    assert atom.poly is not None
                    self.need_poly(atom.poly)
                else:
                    self.need(atom)

    def lasts(self, atom: Node) -> bool:
        """Tell whether an atom of a polynomial has one hash for all pairs in this region."""
        if atom.serial < 0 or atom in self.rewriter.symbols:
            return True
        home = self.rewriter.home(self.region, atom)
        return atom.uniform if home is None else atom is home.counter

    def pivot(self, atom: Node) -> Pivot | None:
        """Return what an atom of a polynomial stands for here."""
        return self.rewriter.pivots.get(atom) or self.region.pivot_of(atom)

    def recast(self, atom: Node) -> bool:
        """Tell whether an atom is a widened sum that pivots change."""
        return atom.op in ("sext", "zext") and atom.poly is not None \
            and atom not in self.rewriter.symbols \
            and (self.rewriter.reaches(atom) or bool(atom.deps & CAST_BIT)
                 or self.region.recasts(atom))

    def poly_hash(self, poly: Poly, address: bool = False) -> Hash:
        """Return the hash of a polynomial for each pair; address: of a global access."""
        return evaluate.terms_hash(self, evaluate.terms(self, poly, address), poly.width)

    def kept(self, node: Node) -> Hash | None:
        """Return a part of a node's hash that was kept (inside loops)."""
        return None

    def keep(self, node: Node, h: Hash) -> None:
        """Keep a part of a node's hash that does not change with running values."""

    def facts(self) -> list[tuple[Facts, Any]]:
        """Return the known conditions: the facts and, for each pair, a number (-1: none)."""
        facts, loops = self.rewriter.facts, self.rewriter.loop_facts(self.region)
        if facts is None:
            return loops
        contexts = self.rewriter.contexts
        return [*loops, *((facts, contexts.column(self.mask, column, self.number))
                          for column in facts.columns if self.mask >> column & 1)]

    @property
    def informed(self) -> bool:
        """Whether conditions may be known here."""
        return self.rewriter.facts is not None or bool(self.rewriter.loop_facts(self.region))


class Rewriter:
    """Hashes of nodes for pairs of a lane and a context."""

    def __init__(self, logic: Logic, pivots: Iterable[Pivot] = (),
                 contexts: Contexts | None = None, columns: dict[Node, int] | None = None,
                 facts: Facts | None = None) -> None:
        self.logic = logic
        self.forest = logic.forest
        self.lanes = logic.forest.lanes
        self.pivots = {p.atom: p for p in pivots}
        self.coordinates = {p.y: p for p in self.pivots.values()}
        self.contexts = contexts or Contexts(np.zeros((1, 0), dtype=np.int64))
        self.columns = columns or {}  # pivot -> the column of its offsets
        self.facts = facts
        self.reach = 0
        for atom in self.pivots:
            self.reach |= atom.deps & ~LOW_BITS
        # indices computed from block indices are symbols themselves where coordinates hold them
        self.symbols = {a for p in self.pivots.values() for m, _c in p.others for a in m
                        if a.op != "sreg"} | {a for a in self.pivots if a.op != "sreg"}
        own = 0
        for atom in self.symbols:
            own |= atom.deps & ~LOW_BITS
        #: symbols that coordinates do not hold are looked through: newest first
        self.hidden = [(bit, below) for bit, below in reversed(self.forest.hidden.items())
                       if not bit & own]
        #: whether a block index, or what is computed from it, was told as it stands
        self.bare = False
        self.raw = 0  # the symbols that were told as they stand
        self.root = Region()
        self.heap: list[tuple[int, int, Node, Region]] = []
        self.busy = False
        self.asking = -1  # whose operands are asked for: its place in the present run, -1: nobody's
        self.last: dict[tuple[Node, Region], int] = {}  # who is the last to be hashed that needs it
        self.relevant: dict[int, tuple[bool, int]] = {}
        self.plans: dict[Any, Any] = {}
        self.scopes: dict[tuple[Region, int, bytes], Scope] = {}
        self.asked: dict[tuple[int, int, bool], tuple[Numbers, Numbers, Scope]] = {}
        self.sides: dict[Any, dict[Any, Any]] = {}  # inside loops: what is known of conditions
        self.running: dict[Any, tuple[Hash, Hash | None]] = {}  # inside loops: see `Body`
        self.room = KEPT_BYTES
        self.casts: dict[bytes, Node] = {}  # widened sums for few pairs, by their hashes
        self.widened: dict[Any, Any] = {}  # what sums become when they are widened
        # sets of pairs by what they hold: keys, numbers, lanes; the names of arrays kept there
        self.unpacked: dict[bytes, tuple[Numbers, Numbers, Numbers]] = {}
        self.named: dict[int, bytes] = {}
        self.apart: dict[Node, tuple[str, list[Node]]] = {}  # comparisons with several bounds

    def offset(self, pivot: Pivot, scope: Scope) -> Any:
        """Return a coordinate's offset in the tile, one for all pairs or one for each."""
        column = self.columns.get(pivot.atom)
        if column is None:
            return pivot.offset
        return settle(self.contexts.column(scope.mask, column, scope.number), 0)

    # -- what a node depends on
    def seen_through(self, deps: int) -> int:
        """Return the symbols that a value depends on, with those that its symbols stand for."""
        for bit, below in self.hidden:
            if deps & bit:
                deps |= below
        return deps

    def reaches(self, node: Node) -> bool:
        """Tell whether pivots change a value."""
        return bool(self.seen_through(node.deps) & self.reach)

    def bounds_apart(self, node: Node) -> tuple[str, list[Node]]:
        """Return `v < min(a, b)` as `and` and [v < a, v < b] (`or`: max); nothing to take apart.

        Only where pivots change the bounds, which elsewhere are what they are.
        """
        found = self.apart.get(node)
        if found is None:
            found = self.logic.bounds_apart(node) if self.reaches(node) else ("", [])
            self.apart[node] = found
        return found

    def columns_of(self, node: Node) -> tuple[bool, int]:
        """Return whether pivots or facts touch a value, and the columns that do.

        A fact that speaks of no symbol (a column of a row that one block holds whole) is of use
        where a value was left undefined; elsewhere it would tell alike elements apart.
        """
        deps = node.deps
        known = self.relevant.get(deps)
        if known is None:
            mask, whole = 0, self.seen_through(deps)
            for atom, column in self.columns.items():
                if atom.deps & ~LOW_BITS & whole:
                    mask |= 1 << column
            if self.facts is not None and deps & SELECT_BIT:
                for column, speaks in self.facts.columns.items():
                    if not speaks & ~deps and (speaks or deps & UNKNOWN_BIT):
                        mask |= 1 << column
            touched = mask or whole & self.reach or deps & CAST_BIT \
                or (deps & COMPARE_BIT and self.forest.shared)
            known = self.relevant[deps] = (bool(touched), mask)
        return known

    def home(self, region: Region, node: Node) -> Region | None:
        """Return the region a node's hash belongs to; None: it is the hash it was made with."""
        while region.outer is not None and not node.deps & region.bits:
            region = region.outer
        if region.outer is None and not self.columns_of(node)[0]:
            return None
        return region

    def _keys(self, node: Node, scope: Scope) -> Numbers:
        mask = self.columns_of(node)[1]
        uniform = node.uniform and node.op != "krow"
        first = None if uniform else self.forest.first_alike(node)
        name = (mask, 0 if uniform else None if first is None else id(first))
        keys = scope.known.get(name)
        if keys is None:
            keys = self.contexts.narrow(scope.mask, mask, scope.number) * self.lanes
            if not uniform:
                keys = keys + (scope.lane if first is None else first[scope.lane])
            scope.known[name] = keys
        return keys

    # -- asking
    def need(self, scope: Scope, node: Node) -> None:
        """Ask for a node's hash for the pairs of a scope."""
        home = self.home(scope.region, node)
        if home is None or node in self.symbols or node is home.counter or not len(scope.lane):
            return
        keys = self._keys(node, scope)
        self.last.setdefault((node, home), self.asking)
        waiting = home.pending.get(node)
        if waiting is None:
            home.pending[node] = [keys]
            heapq.heappush(self.heap, (-node.serial, id(home), node, home))
        elif waiting[-1] is not keys:
            waiting.append(keys)

    def run(self) -> None:
        """Work out everything that was asked for.

        Hashes of many pairs are dropped once all that asked for them are hashed: whoever asks
        later has them worked out again.
        """
        todo: list[tuple[Node, Region, Scope]] = []
        done: dict[int, list[tuple[Node, Region]]] = {}  # what nobody needs after a node
        outside, self.busy = self.asking, True
        try:
            while self.heap:  # parents first: a node knows all its pairs before its children
                self._next(todo, done)
        finally:
            self.asking, self.last = outside, {}
        for i, (node, home, scope) in reversed([*enumerate(todo)]):
            h, aux = evaluate.compute(node, scope)
            made = _Table(scope.known[scope.mask, None], _narrow(h),
                          None if aux is None else _narrow(aux))
            table = home.tables.get(node)
            home.tables[node] = made if table is None else table.join(made)
            for below, there in done.get(i, ()):
                del there.tables[below]
        for _node, _home, scope in todo:
            scope.memo = None
        self.busy = False

    def _next(self, todo: list[tuple[Node, Region, Scope]],
              done: dict[int, list[tuple[Node, Region]]]) -> None:
        """Ask for the operands of the next node for those pairs that it has no hashes for."""
        _serial, _id, node, home = heapq.heappop(self.heap)
        waiting = home.pending.pop(node)
        keys = self._sorted(waiting)
        table = home.tables.get(node)
        if table is not None:
            keys = table.missing(keys)
        if not len(keys):
            return
        scope = self._scope(home, self.columns_of(node)[1], keys)
        scope.memo = {}  # alike elements ask for the same conditions
        # A group is also asked for its members by a group above, through an exchange of lanes.
        if table is None and len(keys) >= LARGE and node.op not in GROUPED:
            done.setdefault(self.last[node, home], []).append((node, home))
        self.asking = len(todo)
        todo.append((node, home, scope))
        self.forest.spend(1 + len(keys) // 4096)
        self.forest.keep(len(keys))
        evaluate.needs(node, scope)

    def _sorted(self, waiting: list[Numbers]) -> Numbers:
        """Return keys that were asked for, each once, in order."""
        keys = waiting[0]
        if all(w is keys for w in waiting):
            if len(keys) == 1 or id(keys) in self.named or every(keys[1:] > keys[:-1]):
                return keys
            return each_once(keys)
        return each_once(*{id(w): w for w in waiting}.values())

    def _scope(self, region: Region, mask: int, keys: Numbers) -> Scope:
        """Return the pairs with these keys, one scope for all who ask."""
        name = self.named.get(id(keys))
        if name is None:
            name = xxhash.xxh3_128_digest(keys.tobytes())
            keys = self.unpacked.setdefault(name, (keys, *np.divmod(keys, self.lanes)))[0]
            self.named[id(keys)] = name
        scope = self.scopes.get((region, mask, name))
        if scope is None:
            keys, number, lane = self.unpacked[name]
            scope = self.scopes[region, mask, name] = Scope(self, region, mask, lane, number,
                                                            True, keys)
        return scope

    def fetch(self, scope: Scope, node: Node) -> tuple[Hash, Hash | None]:
        """Return a node's hash for the pairs of a scope, and the member sum of a group."""
        if node.serial < 0:  # a widened sum made for one polynomial
            return node.h, None
        home = self.home(scope.region, node)
        if home is None:
            self.bare |= bool(node.deps & self.forest.grid_bits)
            self.raw |= node.deps
            return self._as_made(scope, node)
        if node is home.counter:
            assert home.name is not None
            return home.name, None
        if node in self.symbols:
            self.bare = True
            return node.h, None
        table = home.tables.get(node)
        if table is None or (not scope.sure and len(table.missing(self._keys(node, scope)))):
            assert not scope.sure
            self.need(scope, node)
            self.run()
            table = home.tables[node]
        h, aux = table.h, table.aux
        if h.shape[-1] > 1 or (aux is not None and aux.shape[-1] > 1):
            keys = self._keys(node, scope)
            if keys is table.keys:
                return h, aux
            at = table.keys.searchsorted(keys)
            h = h.take(at, axis=-1) if h.shape[-1] > 1 else h
            aux = aux.take(at, axis=-1) if aux is not None and aux.shape[-1] > 1 else aux
        return h, aux

    def _as_made(self, scope: Scope, node: Node) -> tuple[Hash, Hash | None]:
        h, aux = node.h, node.aux
        if node.op == "krow":
            assert node.table is not None
            return _narrow(h.reshape(2, len(node.table), -1).take(scope.lane, axis=2)), None
        h = h.take(scope.lane, axis=1) if h.shape[1] > 1 else h
        if aux is not None and aux.shape[1] > 1:
            aux = aux.take(scope.lane, axis=1)
        return h, aux

    # -- from outside
    def everywhere(self) -> Scope:
        """Return all lanes under the first context."""
        return Scope(self, self.root, 0, np.arange(self.lanes, dtype=np.int64),
                     np.zeros(self.lanes, dtype=np.int64), sure=False)

    def at(self, lane: Numbers, context: Numbers, sure: bool = True) -> Scope:
        """Return pairs of lanes and contexts (row numbers of the table)."""
        made = self.asked.get((id(lane), id(context), sure))
        if made is None:
            mask = (1 << self.contexts.table.shape[1]) - 1
            number = self.contexts.projection(mask)[0][context]
            scope = Scope(self, self.root, mask, lane, number, sure)
            scope.memo = {}
            made = self.asked[id(lane), id(context), sure] = (lane, context, scope)
        return made[2]

    def inside(self, counter: Node, level: int, ratio: int, offset: int, cond: Node | None
               ) -> Scope:
        """Return all lanes inside a loop whose counter stands for (c - offset) / ratio.

        level: what is worked out at offset 0 serves the loop of that level, too.
        """
        scope = self.everywhere()
        scope.region = self.root.inside(counter, f"kappa level {level}", ratio, offset, cond)
        return scope

    def loop_facts(self, region: Region) -> list[tuple[Facts, Any]]:
        """Return what holds in every iteration of the loops around, the same for all pairs."""
        if region.known is None:
            region.known = [] if region.outer is None else list(self.loop_facts(region.outer))
            fact = self._loop_fact(region)
            if fact is not None:
                region.known.append((fact, np.zeros(1, dtype=np.int64)))
        return region.known

    def _loop_fact(self, region: Region) -> Facts | None:
        cond, plain = region.cond, region.plain
        if cond is None or plain is None or cond.poly is None or cond.op != "ge0" \
                or not cond.uniform:
            return None
        for atom in {a for m in cond.poly.terms for a in m}:
            home = self.home(plain, atom)
            if home is not None and atom is not home.counter and atom not in self.symbols:
                return None  # depends on the element
        first = np.zeros(1, dtype=np.int64)
        parts = evaluate.split(Scope(self, plain, 0, first, first), cond.poly)
        if parts is None or parts[0].shape[1] > 1 or len(parts[2]) > 1:
            return None
        return Facts(parts[0], np.ones(1, dtype=bool), parts[0], parts[2], {})

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Work out the hashes of nodes in every lane in one pass."""
        scope = self.everywhere()
        for node in nodes:
            scope.need(node)
        self.run()

    def h(self, node: Node) -> Hash:
        """Return the hash of a node in every lane under the first context, [2, 1 | lanes]."""
        return collapse(self.everywhere().of(node))

    def fold_hashes(self, folds: list[Any]) -> list[Hash]:
        """Return the hashes of loops that are no nodes yet, in every lane."""
        scope = self.everywhere()
        for fold in folds:
            fold.needs(scope)
        self.run()
        return [collapse(fold.value(scope)) for fold in folds]


def _narrow(h: Hash) -> Hash:
    """Return one column where all agree."""
    return np.ascontiguousarray(h[..., :1]) if agree(h) else h
