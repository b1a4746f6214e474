"""Folds: what a proved loop leaves in a register, as one closed node.

In: the symbols of one iteration (accumulators, counter), their initial values, the step of each,
the condition to go on, the value asked for. Out: `Fold`, hashed by the behaviour it has from its
initial state on: accumulators are told apart by refinement, never by register names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash

from checker.arrays import every, places, some
from checker.tree import evaluate
from checker.tree.chains import one_steps
from checker.tree.contexts import each_once
from checker.tree.groups import Groups, groups_of
from checker.tree.hashing import Hash, collapse, finish, hash_ints, key, mix, ordered
from checker.tree.nodes import LOW_BITS, Forest, Fuel, Node
from checker.tree.rewrite import Rewriter, Scope

if TYPE_CHECKING:
    from checker.tree.confirm import View

__all__ = ["Body", "Fold", "closed_folds", "fold_of", "make_folds", "moved_fold"]

Numbers = npt.NDArray[np.int64]
MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Fold:
    """form: `while` (test, then step; `cond` at counter k allows step k) or `do` (step, then test:
    `cond` at counter k allows step k + 1).

    phis[i] starts as inits[i] and becomes steps[i]; `out` is the value asked for: an expression
    over the last iteration's phis (in `while` form: the phis after the loop). ratio: the counter
    inside runs over c, and stands for c / ratio in the nodes (`checker.tree.chains`).
    """

    form: str
    counter: Node
    phis: tuple[Node, ...]
    inits: tuple[Node, ...]
    steps: tuple[Node, ...]
    cond: Node
    out: Node
    level: int
    start: Node | None = None  # in `while` form: the condition at counter 0
    ratio: int = 1

    def parts(self) -> list[Node]:
        """Every node inside."""
        return [*self.inits, *self.steps, self.cond, self.out]

    def throughout(self) -> Node | None:
        """Return what holds whenever a step is taken (its value looks at nothing afterwards)."""
        running = 0
        for p in self.phis:
            running |= p.deps & ~LOW_BITS
        return self.cond if self.form == "while" and self.out in self.phis \
            and not self.cond.deps & running else None

    def needs(self, scope: Scope) -> None:
        """Ask for everything outside the loop that its value is made of."""
        Body(self, scope).needs()

    def value(self, scope: Scope) -> Hash:
        """Return the hash of the loop's value for each pair of a scope."""
        body = Body(self, scope)
        tag = hash_ints(key(f"fold|{self.form}|{self.level}"), body.run())
        inside = body.inside
        # the set of classes, not the number of registers: two that always agree count as one
        h = collapse(ordered(tag, [body.classes, inside.of(self.cond), inside.of(self.out)]))
        return h[:, body.places(scope.lane, scope.number)] if h.shape[1] > 1 else h

    def views(self, view: View) -> list[View]:
        """Return everything inside as pairs for the structural confirmation, in canonical order."""
        from checker.tree.confirm import View as Made
        body = Body(self, view.scope)
        body.run()
        inner = body.scope(view.scope.lane, view.scope.number)
        starts, steps = [], []
        for i, pair in body.kinds():  # one running value of each class
            lane, number = body.inside.lane[pair:pair + 1], body.inside.number[pair:pair + 1]
            starts.append(Made(self.inits[i], body.before.shift(lane, np.array([pair]))))
            steps.append(Made(self.steps[i], body.scope(lane, number)))
        return [*starts, *steps, Made(self.cond, inner), Made(self.out, inner)]


@dataclass(slots=True)
class _Plan:
    """What depends on the running values inside a loop, children first; how lanes exchange it."""

    order: list[Node]
    tables: list[npt.NDArray[np.int64]]  # [lanes] or [k, lanes]


class Body:
    """The inside of one loop for pairs of a lane and a context, closed under exchange of lanes."""

    def __init__(self, fold: Fold, scope: Scope) -> None:
        self.fold = fold
        self.outer = scope
        self.rewriter = scope.rewriter
        self.around: Body | None = getattr(scope, "body", None)
        self.bits = self.around.bits if self.around is not None else 0
        for p in fold.phis:
            self.bits |= p.deps & ~LOW_BITS
        self.region = scope.region.inside(fold.counter, f"kappa level {fold.level}", fold.ratio,
                                          cond=fold.throughout())
        self.plan = self._plan()
        self.memo: dict[Node, tuple[Hash, Hash | None]] = {}
        self.classes: Hash = key("no classes")
        self.kept: dict[Node, Hash] = {}
        self.outside: dict[Node, Hash] = {}
        self.keys = self._closed(scope)
        number, lane = np.divmod(self.keys, self.rewriter.lanes)
        self.inside = self.scope(lane, number, whole=True)
        self.before = self._before()
        self.groups: Groups | None = None
        self.named = xxhash.xxh3_128_digest(self.keys.tobytes())

    def _plan(self) -> _Plan:
        plans = self.rewriter.plans
        name = (id(self.fold), self.bits)
        if name not in plans:
            plans[name] = (self.fold, _plan_of(self.fold, self.bits))
        plan: _Plan = plans[name][1]
        return plan

    def _closed(self, scope: Scope) -> npt.NDArray[np.int64]:
        """Return the pairs, and those whose running values they look at."""
        lanes = self.rewriter.lanes
        keys = each_once(scope.number * lanes + scope.lane)
        while self.plan.tables:
            number, lane = np.divmod(keys, lanes)
            found = [keys]
            for table in self.plan.tables:
                found.append((number * lanes + table[..., lane]).ravel())
            grown = each_once(*found)
            if len(grown) == len(keys):
                break
            keys = grown
        return keys

    def places(self, lane: Any, number: Any) -> npt.NDArray[np.int64]:
        """Return where pairs stand among this body's."""
        wanted = number * self.rewriter.lanes + lane
        found: npt.NDArray[np.int64] = self.keys.searchsorted(wanted)
        return found

    def scope(self, lane: Any, number: Any, whole: bool = False) -> BodyScope:
        """Return some of the body's pairs as a scope inside the loop."""
        outer = self.outer
        return BodyScope(self, Scope(self.rewriter, self.region, outer.mask, lane, number,
                                     outer.sure), whole)

    def _before(self) -> Scope:
        """Return all pairs outside the loop."""
        outer, inside = self.outer, self.inside
        if self.around is not None:
            return self.around.scope(inside.lane, inside.number)
        return Scope(self.rewriter, outer.region, outer.mask, inside.lane, inside.number,
                     outer.sure)

    def needs(self) -> None:
        """Ask for all values that do not depend on the running values."""
        for init in self.fold.inits:
            self.before.need(init)
        for node in self.plan.order:
            evaluate.needs(node, self.inside)
        for node in (*self.fold.steps, self.fold.cond, self.fold.out):
            self.inside.need(node)

    def run(self) -> Numbers:
        """Refine the accumulators' hashes until they tell apart what they ever will.

        A state is an accumulator for a pair; those that look at each other form a group. Rounds go
        on until the number of classes of a group stays as it is. Two groups whose classes then
        have the same hashes after the same number of rounds behave alike: a hash determines the
        one of the round before, and where the classes are stable it is determined by it, so that
        equal hashes form a bisimulation. Returns the rounds for each pair.
        """
        fold = self.fold
        groups = self.groups = groups_of(self)
        start = [self.before.of(i) for i in fold.inits]
        current = [mix(key("phi"), h) for h in start]
        counts = self._classes(groups, current)[0]
        rounds = np.zeros(groups.count + 1, dtype=np.int64)  # the last: states of no group
        running = np.ones(groups.count + 1, dtype=bool)
        running[-1] = False
        done = 0
        while some(running):
            if done >= MAX_ROUNDS:
                raise Fuel("the accumulators of a loop")
            self._evaluate(current)
            cond = self.inside.of(fold.cond)
            grown = [collapse(ordered(key("phi"), [mix(key("init"), h), self.inside.of(s), cond]))
                     for h, s in zip(start, fold.steps, strict=True)]
            if every(running[:-1]):
                current = grown
            else:
                current = [np.where(running[g], new, old) for g, new, old in zip(
                    groups.states, grown, current, strict=True)]
            done += 1
            more, totals = self._classes(groups, current)
            rounds[running] = done
            running[:-1] &= more != counts
            counts = more
        self._evaluate(current)
        self.classes = collapse(np.where(
            groups.out < 0, key("no classes"), mix(key("classes"), totals[:, groups.out])
        )) if groups.count and fold.phis else key("no classes")
        return rounds[groups.out]

    def kinds(self) -> list[tuple[int, int]]:
        """Return a running value and a pair of each class, in the order of their hashes."""
        assert self.groups is not None
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for i, p in enumerate(self.fold.phis):
            h = np.broadcast_to(self.memo[p][0], (2, len(self.keys)))
            for pair in places(self.groups.states[i] >= 0).tolist():
                found.setdefault((int(h[0, pair]), int(h[1, pair])), (i, pair))
        return [found[h] for h in sorted(found)]

    def _evaluate(self, current: list[Hash]) -> None:
        """Work out everything inside from the running values, or take it from another fold.

        The folds of one loop share most of their steps: a value is worked out once for all of
        them where the running values below it agree for the same pairs.
        """
        self.memo = {p: (h, None) for p, h in zip(self.fold.phis, current, strict=True)}
        kept = self.rewriter.running
        alone = {p.deps & ~LOW_BITS: xxhash.xxh3_128_digest(np.ascontiguousarray(h).tobytes())
                 for p, h in zip(self.fold.phis, current, strict=True)}
        names: dict[int, Any] = {}
        for node in self.plan.order:
            bits = node.deps & self.bits
            name = names.get(bits)
            if name is None:
                below = tuple((bit, h) for bit, h in alone.items() if bit & bits)
                name = names[bits] = (self.region, self.outer.mask, self.named, below)
            made = None if self.around is not None else kept.get((node, name))
            if made is None:
                h, aux = evaluate.compute(node, self.inside)
                made = (h if node.op == "krow" else collapse(h), aux)
                size = h.nbytes + (0 if aux is None else aux.nbytes)
                if self.around is None and self.rewriter.room >= size:
                    self.rewriter.room -= size
                    kept[node, name] = made
            self.memo[node] = made

    def _classes(self, groups: Groups, current: list[Hash]) -> tuple[Any, Hash]:
        """Return how many classes each group has, and a hash of their set."""
        count = len(self.keys)
        if not current:
            return np.zeros(groups.count, dtype=np.int64), np.zeros((2, 1), dtype=np.uint64)
        if len(current) == 1 and groups.count == count:
            members = finish(mix(key("class"), np.broadcast_to(current[0], (2, count))))
            total = np.zeros((2, count), dtype=np.uint64)
            total[:, groups.states[0]] = members
            return np.ones(count, dtype=np.int64), total
        wide = np.stack([np.broadcast_to(h, (2, count)) for h in current], axis=1).reshape(2, -1)
        of = groups.states.ravel()
        wide, of = wide[:, of >= 0], of[of >= 0]
        order = np.lexsort((wide[1], wide[0], of))
        of, wide = of[order], wide.take(order, axis=1)
        first = np.ones(len(of), dtype=bool)
        first[1:] = (of[1:] != of[:-1]) | (wide[:, 1:] != wide[:, :-1]).any(axis=0)
        members = finish(mix(key("class"), wide[:, first]))
        total = np.zeros((2, groups.count), dtype=np.uint64)
        for word in (0, 1):
            np.add.at(total[word], of[first], members[word])
        return np.bincount(of[first], minlength=groups.count), total


class BodyScope(Scope):
    """Pairs inside a loop: running values and what depends on them come from the body."""

    __slots__ = ("at", "body", "whole")

    def __init__(self, body: Body, plain: Scope, whole: bool = False) -> None:
        super().__init__(plain.rewriter, plain.region, plain.mask, plain.lane, plain.number,
                         plain.sure)
        self.body, self.whole = body, whole
        self.at: Any = None

    def shift(self, lane: Any, picked: Any) -> BodyScope:
        """Return the pairs (lane[j], context of pair picked[j])."""
        return BodyScope(self.body, super().shift(lane, picked))

    def kept_for(self, node: Node) -> dict[Any, Any] | None:
        """Return where to keep what does not run: all folds of a loop share it."""
        body = self.body
        if not self.whole or node.deps & body.bits:
            return None
        return self.rewriter.sides.setdefault((self.region, self.mask, body.named), {})

    def _inner(self, node: Node) -> tuple[Hash, Hash | None] | None:
        if node.serial < 0 or not node.deps & self.body.bits:
            return None
        body: Body | None = self.body
        while body is not None:
            found = body.memo.get(node)
            if found is not None:
                return found
            body = body.around
        raise AssertionError("a running value of another loop")

    def of(self, node: Node) -> Hash:
        """Return a node's hash for each pair."""
        found = self._inner(node)
        if found is not None:
            return self._picked(found[0])
        if not self.whole:
            return super().of(node)
        h = self.body.outside.get(node)
        if h is None:
            h = super().of(node)
            if node.serial > 0:
                self.body.outside[node] = h
        return h

    def aux_of(self, node: Node) -> Hash | None:
        """Return the member sum of an order-free group."""
        found = self._inner(node)
        if found is None:
            return super().aux_of(node)
        return None if found[1] is None else self._picked(found[1])

    def _picked(self, h: Hash) -> Hash:
        if self.whole or h.shape[-1] == 1:
            return h
        if self.at is None:
            self.at = self.body.places(self.lane, self.number)
        picked: Hash = h.take(self.at, axis=-1)
        return picked

    def need(self, node: Node) -> None:
        """Ask for a node, unless the body holds it."""
        if not node.deps & self.body.bits:
            super().need(node)

    def lasts(self, atom: Node) -> bool:
        """Tell whether an atom has one hash for all pairs, and does not run."""
        return not atom.deps & self.body.bits and super().lasts(atom)

    def kept(self, node: Node) -> Hash | None:
        """Return the products of a matrix step whose operands do not run."""
        return self.body.kept.get(node) if self.whole else None

    def keep(self, node: Node, h: Hash) -> None:
        """Keep the products of a matrix step."""
        if self.whole and not any(a.deps & self.body.bits for a in node.args[1:]):
            self.body.kept[node] = h


def _plan_of(fold: Fold, bits: int) -> _Plan:
    order: list[Node] = []
    tables: dict[bytes, npt.NDArray[np.int64]] = {}
    seen: set[Node] = set(fold.phis)
    work: list[tuple[Node, bool]] = [(n, True) for n in (*fold.steps, fold.cond, fold.out)]
    while work:
        node, own = work.pop()
        if node in seen or not node.deps & bits or node.op == "phi":
            continue
        seen.add(node)
        if own:
            order.append(node)
        if node.table is not None and node.op == "gather":
            tables[node.table.tobytes()] = node.table
        elif node.table is not None and node.op == "krow":
            tables[node.table.tobytes()] = np.ascontiguousarray(node.table[..., 1])
        work += [(k, own) for k in node.kids]
        if node.op == "fold":  # a loop inside exchanges lanes too; its inside is its own
            inner: Fold = node.extra
            work += [(k, False) for k in (*inner.steps, inner.cond, inner.out)]
    order.sort(key=lambda n: n.serial)
    return _Plan(order, list(tables.values()))


def _level(nodes: list[Node], known: dict[Node, int]) -> int:
    """One more than the deepest fold inside; known: the depths of nodes, kept between calls."""
    level, stack = 0, [n for n in nodes if n not in known]
    while stack:
        node = stack[-1]
        waiting = [k for k in node.kids if k not in known] \
            if node.op not in ("fold", "trips") and node not in known else []
        if waiting:
            stack += waiting
            continue
        stack.pop()
        known[node] = node.extra.level if node.op in ("fold", "trips") else max(
            (known[k] for k in node.kids), default=0)
    for node in nodes:
        level = max(level, known[node])
    return level + 1


def fold_of(form: str, counter: Node, phis: list[Node], inits: list[Node], steps: list[Node],
            cond: Node, out: Node, start: Node | None = None,
            levels: dict[Node, int] | None = None) -> Fold:
    """Return one loop value; only accumulators it depends on are kept.

    levels: what was found of the depth of nodes, for the values of one loop.
    """
    index = {p.deps & ~LOW_BITS: i for i, p in enumerate(phis)}
    bits = cond.deps | (steps[phis.index(out)] if out in phis else out).deps
    needed = {phis.index(out)} if out in phis else set()
    grown = True
    while grown:
        more = {i for bit, i in index.items() if bit & bits} - needed
        needed |= more
        grown = bool(more)
        for i in more:
            bits |= steps[i].deps
    order = sorted(needed)
    return Fold(form, counter, tuple(phis[i] for i in order), tuple(inits[i] for i in order),
                tuple(steps[i] for i in order), cond, out,
                _level([cond, out, *(steps[i] for i in order)], {} if levels is None else levels),
                start)


class _Hashes:
    """Hashes of like values of one loop: what they share is hashed in one pass, if one is asked.

    plain: hashes without pivots.
    """

    def __init__(self, plain: Callable[[], Rewriter]) -> None:
        self.plain = plain
        self.nodes: list[Node] = []

    def work_out(self) -> None:
        """Put the hashes in their places."""
        hashes = self.plain().fold_hashes([node.extra for node in self.nodes])
        for node, h in zip(self.nodes, hashes, strict=True):
            node.h = h


def make_folds(forest: Forest, plain: Callable[[], Rewriter], folds: list[Fold]) -> list[Node]:
    """Return the values of one loop as nodes."""
    return closed_folds(forest, plain, one_steps(plain(), folds))


def moved_fold(forest: Forest, plain: Callable[[], Rewriter], fold: Fold,
               move: Callable[[Node], Node]) -> Node:
    """Return a loop's value with something else put for symbols from outside of it."""
    moved = replace(
        fold, inits=tuple(map(move, fold.inits)), steps=tuple(map(move, fold.steps)),
        cond=move(fold.cond), out=move(fold.out),
        start=None if fold.start is None else move(fold.start))
    return closed_folds(forest, plain, [moved])[0]


def closed_folds(forest: Forest, plain: Callable[[], Rewriter], folds: list[Fold]) -> list[Node]:
    """Return loop values as nodes."""
    kinds: dict[Any, _Hashes] = {}
    out = []
    for fold in folds:
        last = fold.steps[fold.phis.index(fold.out)] if fold.out in fold.phis else fold.out
        hashes = kinds.setdefault((last.op, last.attr), _Hashes(plain))
        node = _closed_fold(forest, fold, hashes.work_out)
        hashes.nodes.append(node)
        out.append(node)
    return out


def _closed_fold(forest: Forest, kept: Fold, by: Callable[[], None]) -> Node:
    out = kept.out
    bound = kept.counter.deps
    for p in kept.phis:
        bound |= p.deps
    node = forest.make("fold", kept.form, width=out.width, args=kept.inits, extra=kept,
                       by=by, low=None, high=None,
                       may_neg_zero=out.may_neg_zero or any(i.may_neg_zero for i in kept.inits))
    deps, tainted = node.deps, node.tainted
    for inside in (kept.cond, out, *kept.steps):
        deps |= inside.deps & ~bound
        tainted |= inside.tainted
    node.deps, node.tainted = deps, tainted
    return node
