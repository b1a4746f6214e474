"""Which running values of a loop a value depends on: per lane, through exchanges and choices.

In: the inside of a loop (`checker.tree.folds.Body`). A state is a running value for a pair of a
lane and a context. Out: `Groups`: the states that the loop's value needs, put together where one
depends on another. A group is closed: no state of it depends on one outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from checker.arrays import every, some
from checker.tree.evaluate import options, parts
from checker.tree.nodes import LOW_BITS, Node

if TYPE_CHECKING:
    from checker.tree.folds import Body

__all__ = ["Groups", "groups_of"]

Numbers = npt.NDArray[np.int64]
_NONE = np.int64(1) << np.int64(62)
_Look = tuple[Node, Any, Any]  # a child, the pairs that look at it (None: all), the pairs looked at


@dataclass(slots=True)
class Groups:
    """states [running values, pairs] and out [pairs]: the number of their group (-1: of none)."""

    states: Numbers
    out: Numbers
    count: int


def groups_of(body: Body) -> Groups:
    """Return the groups of a loop's states."""
    fold, count = body.fold, len(body.keys)
    own = 0
    for p in fold.phis:
        own |= p.deps & ~LOW_BITS
    inner = any(n.op == "fold" and n.deps & own for n in body.plan.order)
    if inner or not any(n.table is not None and n.deps & own for n in body.plan.order):
        # contexts never look at each other; without exchange and choice, nor do lanes
        plain = body.inside.number if inner else np.arange(count, dtype=np.int64)
        return _numbered(np.tile(plain, (len(fold.phis), 1)), plain)
    return _Graph(body, own).groups()


def _numbered(states: Numbers, out: Numbers) -> Groups:
    kinds, number = np.unique(np.concatenate((states.ravel(), out)), return_inverse=True)
    number = number.ravel().astype(np.int64)
    if len(kinds) and kinds[-1] == _NONE:
        number[number == len(kinds) - 1] = -1
        kinds = kinds[:-1]
    return Groups(number[:states.size].reshape(states.shape), number[states.size:], len(kinds))


class _Graph:
    """Who looks at whom: for each node its children that run, pair by pair."""

    def __init__(self, body: Body, own: int) -> None:
        self.body, self.own = body, own
        self.fold = body.fold
        self.count = len(body.keys)
        self.order = [n for n in body.plan.order if n.deps & own]
        self.looks = {n: self._looks(n) for n in self.order}
        self.roots = [n for n in (self.fold.cond,) if n.deps & own]

    def _looks(self, node: Node) -> list[_Look]:
        body, inside = self.body, self.body.inside
        if node.op == "gather" and node.table is not None:
            return [(node.args[0], None, body.places(node.table[inside.lane], inside.number))]
        if node.op == "mux":
            return [(node.args[i], at, at) for i, at, _inner in options(node, inside)
                    if node.args[i].deps & self.own]
        if node.op == "krow":
            return [(node.args[i], j, body.places(inner.lane, inner.number))
                    for i, _k, j, inner in parts(node, inside) if node.args[i].deps & self.own]
        return [(k, None, None) for k in node.kids if k.deps & self.own]

    def groups(self) -> Groups:
        """Label what the asked value needs with the least state that it hangs together with."""
        needed = self._needed()
        phis = self.fold.phis
        label: dict[Node, Numbers] = {
            p: np.where(needed[p], np.arange(self.count) + i * self.count, _NONE)
            for i, p in enumerate(phis)}
        for n in self.order:
            label[n] = np.full(self.count, _NONE)
        while True:
            before = [label[p].copy() for p in phis]
            self._up(label, needed)
            self._join(label, needed)
            self._down(label, needed)
            if all(every(a == label[p]) for a, p in zip(before, phis, strict=True)):
                break
        out = label[self.fold.out]
        asked = needed[self.fold.out]
        for c in self.roots:
            out = np.minimum(out, label[c])
        return _numbered(np.stack([label[p] for p in phis]), np.where(asked, out, _NONE))

    def _needed(self) -> dict[Node, Any]:
        """Return for each node the pairs for which the loop's value depends on it."""
        needed = {n: np.zeros(self.count, dtype=bool) for n in (*self.order, *self.fold.phis)}
        outer = self.body.outer
        if self.fold.out in needed:
            needed[self.fold.out][self.body.places(outer.lane, outer.number)] = True
        for c in self.roots:
            needed[c][:] = True
        while True:
            for n in reversed(self.order):
                for kid, at, places in self.looks[n]:
                    own = needed[n] if at is None else needed[n][at]
                    if places is None:
                        needed[kid] |= own
                    else:
                        needed[kid][places[own]] = True
            grown = False
            for p, s in zip(self.fold.phis, self.fold.steps, strict=True):
                if s in needed and some(needed[p] & ~needed[s]):
                    needed[s] |= needed[p]
                    grown = True
            if not grown:
                return needed

    def _up(self, label: dict[Node, Numbers], needed: dict[Node, Any]) -> None:
        for n in self.order:
            for kid, at, places in self.looks[n]:
                seen = label[kid] if places is None else label[kid][places]
                if at is None:
                    label[n] = np.minimum(label[n], seen)
                else:
                    np.minimum.at(label[n], at, seen)
            label[n][~needed[n]] = _NONE

    def _join(self, label: dict[Node, Numbers], needed: dict[Node, Any]) -> None:
        """A running value hangs together with its step and with what decides on the step."""
        for p, s in zip(self.fold.phis, self.fold.steps, strict=True):
            for other in (s, *self.roots):
                if other in needed:
                    both = np.minimum(label[p], label[other])
                    label[p] = np.where(needed[p], both, label[p])
                    label[other] = np.where(needed[p], both, label[other])
        out = self.fold.out
        for c in self.roots if out in needed else ():
            both = np.minimum(label[out], label[c])
            label[out] = np.where(needed[out], both, label[out])
            label[c] = np.where(needed[out], both, label[c])

    def _down(self, label: dict[Node, Numbers], needed: dict[Node, Any]) -> None:
        for n in reversed(self.order):
            for kid, at, places in self.looks[n]:
                seen = np.where(needed[n], label[n], _NONE)
                seen = seen if at is None else seen[at]
                if places is None:
                    label[kid] = np.minimum(label[kid], seen)
                else:
                    np.minimum.at(label[kid], places, seen)
