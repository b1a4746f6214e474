"""Folds: what a proved loop leaves in a register, as one closed node.

In: the symbols of one iteration (accumulators, counter), their initial values, the step of each,
the condition to go on, the value asked for. Out: `Fold`, hashed by the behaviour it has from its
initial state on: accumulators are told apart by refinement, never by register names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from checker.tree.hashing import Hash, finish, key, mix, ordered
from checker.tree.nodes import Forest, Fuel, Node

if TYPE_CHECKING:
    from checker.tree.confirm import View
    from checker.tree.rewrite import Rewriter

__all__ = ["Fold", "make_fold"]

MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Fold:
    """form: `while` (test, then step; `cond` at counter k allows step k) or `do` (step, then test:
    `cond` at counter k allows step k + 1).

    phis[i] starts as inits[i] and becomes steps[i]; `out` is the value asked for: an expression
    over the last iteration's phis (in `while` form: the phis after the loop).
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

    def parts(self) -> list[Node]:
        """Every node inside."""
        return [*self.inits, *self.steps, self.cond, self.out]

    def _rounds(self, rewriter: Rewriter) -> tuple[list[Hash], Rewriter, int]:
        """Refine the accumulators' hashes until any two that differ must have been told apart.

        A state is an accumulator in a lane. Two systems of n states each are told apart within
        2 n rounds, n being the number of classes that a lane can reach.
        """
        base = rewriter.counted(self.counter, f"kappa level {self.level}")
        start = [rewriter.h(i) for i in self.inits]
        current = [mix(key("phi"), h) for h in start]
        groups = _lane_groups(self)
        done, limit = 0, len(self.phis) + 1
        while done < limit:
            current = self._round(base, start, current)
            done += 1
            if done == len(self.phis) + 1 or (groups is not None and done == limit):
                classes = _classes(current, groups)
                limit = max(limit, 2 * classes + 1)
                if limit > MAX_ROUNDS:
                    raise Fuel("the accumulators of a loop")
        return current, base.child(dict(zip(self.phis, current, strict=True))), done

    def _round(self, base: Rewriter, start: list[Hash], current: list[Hash]) -> list[Hash]:
        inner = base.child(dict(zip(self.phis, current, strict=True)))
        cond = inner.h(self.cond)
        return [ordered(key("phi"), [mix(key("init"), h), inner.h(s), cond])
                for h, s in zip(start, self.steps, strict=True)]

    def hash(self, rewriter: Rewriter) -> Hash:
        """Return the hash of the loop's value in each lane."""
        current, inner, rounds = self._rounds(rewriter)
        tag = key(f"fold|{self.form}|{len(self.phis)}|{self.level}|{rounds}")
        total: Hash = np.zeros((2, 1), dtype=np.uint64)
        for h in current:
            total = total + finish(mix(key("accumulator"), h))
        return ordered(tag, [total, inner.h(self.cond), inner.h(self.out)])

    def views(self, view: View) -> list[View]:
        """Return everything inside as pairs for the structural confirmation, in canonical order."""
        from checker.tree.confirm import View as Made
        current, inner, _rounds = self._rounds(view.rewriter)
        lane = view.lane

        def rank(i: int) -> tuple[int, int]:
            h = current[i]
            j = lane if h.shape[1] > 1 else 0
            return int(h[0, j]), int(h[1, j])

        order = sorted(range(len(self.phis)), key=rank)
        out = [Made(self.inits[i], lane, view.rewriter) for i in order]
        out += [Made(self.steps[i], lane, inner) for i in order]
        return [*out, Made(self.cond, lane, inner), Made(self.out, lane, inner)]


def _lane_groups(fold: Fold) -> npt.NDArray[np.int64] | None:
    """Label lanes that exchange running values; None where no lane looks at another."""
    mask = 0
    for p in fold.phis:
        mask |= p.deps
    tables = []
    seen: set[int] = set()
    work = [*fold.steps, fold.cond, fold.out]
    while work:
        node = work.pop()
        if node.serial in seen or not node.deps & mask:
            continue
        seen.add(node.serial)
        if node.op == "gather" and node.table is not None:
            tables.append(node.table)
        work.extend(node.kids)
        if node.op == "fold":
            work.extend(node.extra.parts())
    if not tables:
        return None
    label = np.arange(len(tables[0]), dtype=np.int64)
    while True:
        before = label.copy()
        for table in tables:
            label = np.minimum(label, label[table])
            np.minimum.at(label, table, label)
        if bool((label == before).all()):
            return label


def _classes(current: list[Hash], groups: npt.NDArray[np.int64] | None) -> int:
    """The largest number of different states that one lane can reach."""
    if not current:
        return 0
    lanes = max(h.shape[1] for h in current) if groups is None else len(groups)
    table = np.stack([np.broadcast_to(h[0], (lanes,)) for h in current])
    if groups is None:
        return max(len(set(column)) for column in {tuple(c) for c in table.T.tolist()})
    largest = 0
    for g in np.unique(groups).tolist():
        largest = max(largest, len(np.unique(table[:, groups == g])))
    return largest


def _level(nodes: list[Node]) -> int:
    """One more than the deepest fold inside."""
    level, seen, work = 0, set(), list(nodes)
    while work:
        node = work.pop()
        if node.serial in seen:
            continue
        seen.add(node.serial)
        if node.op in ("fold", "trips"):
            level = max(level, node.extra.level)
            continue
        work.extend(node.kids)
    return level + 1


def make_fold(forest: Forest, rewriter: Rewriter, form: str, counter: Node, phis: list[Node],
              inits: list[Node], steps: list[Node], cond: Node, out: Node,
              start: Node | None = None) -> Node:
    """Return the closed node of one loop value; only accumulators it depends on are kept."""
    index = {p: i for i, p in enumerate(phis)}
    needed: list[int] = []
    work = [out, cond]
    if out in index:
        needed.append(index[out])
        work = [steps[index[out]], cond]
    seen: set[int] = set()
    while work:
        node = work.pop()
        if node.serial in seen:
            continue
        seen.add(node.serial)
        i = index.get(node)
        if i is not None and i not in needed:
            needed.append(i)
            work.append(steps[i])
        work.extend(node.kids)
        if node.op == "fold":
            work.extend(node.extra.parts())
    needed.sort()
    kept = Fold(form, counter, tuple(phis[i] for i in needed), tuple(inits[i] for i in needed),
                tuple(steps[i] for i in needed), cond, out,
                _level([cond, out, *(steps[i] for i in needed)]), start)
    bound = counter.deps
    for p in kept.phis:
        bound |= p.deps
    node = forest.make("fold", form, width=out.width, args=kept.inits, extra=kept,
                       h=kept.hash(rewriter), low=None, high=None,
                       may_neg_zero=out.may_neg_zero or any(i.may_neg_zero for i in kept.inits))
    deps, tainted = node.deps, node.tainted
    for inside in (cond, out, *kept.steps):
        deps |= inside.deps & ~bound
        tainted |= inside.tainted
    node.deps, node.tainted = deps, tainted
    return node
