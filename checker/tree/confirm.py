"""Structural confirmation: two elements with one hash are shown to be one tree, node by node.

In: two elements (slot, scope). Out: "" or what differs. Children of commutative operations
are paired by their hashes; everything else is compared as it stands. A limit on the number of pairs
looked at ends in a refusal, never in a confirmation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from checker.tree import evaluate
from checker.tree.hashing import hex_of
from checker.tree.nodes import GROUPED, IDEMPOTENT, SYMMETRIC, Node
from checker.tree.poly import Poly, settle
from checker.tree.result import Element
from checker.tree.rewrite import Scope

__all__ = ["Seen", "View", "confirm"]

MAX_PAIRS = 200_000


def _side(node: Node, scope: Scope) -> int:
    """Return 1 or 2 where a select's hash is that of its first or second side here."""
    own = hex_of(scope.of(node))
    for side in (1, 2):
        if hex_of(scope.of(node.args[side])) == own:
            return side
    return 0


class View:
    """A node as one lane under one context sees it: gathers and muxes are looked through."""

    __slots__ = ("node", "scope")

    def __init__(self, node: Node, scope: Scope) -> None:
        while True:
            if node.op == "gather" and node.table is not None:
                scope, node = scope.shift(node.table[scope.lane], slice(None)), node.args[0]
            elif node.op == "mux" and node.table is not None:
                node = node.args[int(node.table[scope.lane][0])]
            elif node.op == "select" and _side(node, scope):
                node = node.args[_side(node, scope)]
            else:
                break
        self.node, self.scope = node, scope

    @property
    def lane(self) -> int:
        """The lane that is looked at."""
        return int(self.scope.lane[0])

    @property
    def digest(self) -> str:
        """The hash of this tree."""
        h = self.scope.of(self.node)
        if self.node.op == "krow":
            return "".join(hex_of(h[:, k]) for k in range(h.shape[1]))
        return hex_of(h)

    def kids(self) -> list[View]:
        """The children, in this lane."""
        table = self.node.table
        if self.node.op == "krow" and table is not None:
            return [View(self.node.args[i], self.scope.shift(np.array([s]), slice(None)))
                    for i, s in table[:, self.lane].tolist()]
        return [View(a, self.scope) for a in self.node.args]

    def members(self) -> list[View]:
        """The members of an order-free group, each once where it is a set."""
        out: list[View] = []
        work = [View(a, self.scope) for a in self.node.args]
        seen: set[str] = set()
        while work:
            v = work.pop()
            if v.node.op == self.node.op and v.node.attr == self.node.attr:
                if self.node.op in IDEMPOTENT:
                    if v.digest in seen:
                        continue
                    seen.add(v.digest)
                work.extend(View(a, v.scope) for a in v.node.args)
                continue
            if self.node.op in IDEMPOTENT:
                if v.digest in seen:
                    continue
                seen.add(v.digest)
            out.append(v)
        return out

    def terms(self, poly: Poly) -> dict[tuple[str, ...], tuple[Any, list[View]]]:
        """The polynomial in this lane: hashes of a product's atoms -> coefficient and atoms."""
        made = self.node.extra if self.node.serial < 0 else None  # substituted already
        return lane_terms(poly, self.scope, self.node.op, made)


def lane_terms(poly: Poly, scope: Scope, op: str = "",
               made: evaluate.Terms | None = None
               ) -> dict[tuple[str, ...], tuple[Any, list[View]]]:
    """Return a polynomial as one lane sees it: hashes of atoms -> coefficient and atoms.

    op: whose it is: `ge0` (`poly >= 0`), `load` (an address), or another. made: its terms, where
    they are known.
    """
    if made is None:
        scope.need_poly(poly)
        scope.rewriter.run()
        made = evaluate.comparison_terms(scope, poly) if op == "ge0" else evaluate.terms(
            scope, poly, address=op == "load")
    out: dict[tuple[str, ...], tuple[Any, list[View]]] = {}
    for mono, (c, den) in made.items():
        value = int(c[0]) if isinstance(c, np.ndarray) else c
        value = settle(value, poly.width) if den == 1 else value
        if value == 0:
            continue
        atoms = sorted((View(a, scope) for a in mono), key=lambda v: v.digest)
        name = tuple(v.digest for v in atoms)
        g = math.gcd(abs(value), den)
        number = (value // g, den // g)
        if number[1] == 1:
            number = (settle(number[0], poly.width), 1)
        if name in out:
            name = (*name, f"again{len(out)}")
        out[name] = (number, atoms)
    return out


#: pairs of nodes that were shown to be one tree: its hash, their numbers in each kernel
Seen = set[tuple[str, int, int]]


def confirm(a: Element, b: Element, seen: Seen | None = None) -> str:
    """Return "" where two elements are shown to hold one tree at one address.

    seen: what was shown for other elements of the same two kernels; what is shown now is added.
    """
    left = lane_terms(a.slot.address, a.scope, "load")
    right = lane_terms(b.slot.address, b.scope, "load")
    if {k: v[0] for k, v in left.items()} != {k: v[0] for k, v in right.items()}:
        return "the addresses of an output differ"
    pairs = [(View(a.slot.value, a.scope), View(b.slot.value, b.scope))]
    for name, (_c, atoms) in left.items():
        pairs.extend(zip(atoms, right[name][1], strict=True))
    return confirm_pairs(pairs, seen)


def confirm_pairs(pairs: list[tuple[View, View]], seen: Seen | None = None) -> str:
    """Compare pairs of views, and all that lies below them."""
    seen = set() if seen is None else seen
    count = 0
    while pairs:
        x, y = pairs.pop()
        digest = x.digest
        if digest != y.digest:
            return "two trees differ that were expected to be one"
        mark = (digest, x.node.serial, y.node.serial)
        if mark in seen:
            continue
        seen.add(mark)
        count += 1
        if count > MAX_PAIRS:
            return "fuel: too many nodes to confirm"
        if _collapsed(x) or _collapsed(y):
            continue
        problem = _compare(x, y, pairs)
        if problem:
            return problem
    return ""


def _collapsed(v: View) -> bool:
    """A group or condition whose hash in this lane is that of its one member."""
    return v.node.op in ("and", "or", "lanes") or (
        v.node.op == "ge0" and bool(v.scope.rewriter.bounds_apart(v.node)[1])) or (
        v.node.op in IDEMPOTENT and len(v.members()) == 1)


def _compare(x: View, y: View, pairs: list[tuple[View, View]]) -> str:
    a, b = x.node, y.node
    if (a.op == "select" and b.op != "select") or (a.op != "select" and b.op == "select"):
        return ""  # both sides of the select are one tree in this lane; its hash says so
    if a.op == b.op == "phi":
        return ""  # told apart by the refinement that gave it this hash
    if (a.op, a.attr, a.width) != (b.op, b.attr, b.width):
        return f"{a.op} {a.attr} against {b.op} {b.attr} under one hash"
    if a.op == "iop":
        one, two = evaluate.groups_of(a, x.scope), evaluate.groups_of(b, y.scope)
        if one is not None and two is not None:
            alike = np.array_equal(np.atleast_1d(one[1]), np.atleast_1d(two[1])) \
                and one[2] == two[2] and View(one[0], x.scope).digest == View(
                    two[0], y.scope).digest
            return "" if alike else "two index expressions differ under one hash"
    if a.op == "fold":
        left, right = a.extra.views(x), b.extra.views(y)
        if len(left) != len(right):
            return "two loops differ under one hash"
        pairs.extend(zip(left, right, strict=True))
        return ""
    if a.poly is not None and b.poly is not None:
        if a.op == "eq0":
            return ""
        left_t, right_t = x.terms(a.poly), y.terms(b.poly)
        if {k: v[0] for k, v in left_t.items()} != {k: v[0] for k, v in right_t.items()}:
            return "two index expressions differ under one hash"
        for name, (_c, atoms) in left_t.items():
            pairs.extend(zip(atoms, right_t[name][1], strict=True))
    pairs.extend(_paired(x, y))
    return ""


def _paired(x: View, y: View) -> Iterator[tuple[View, View]]:
    op = x.node.op
    if op == "select":  # what is left of the condition is part of the hash
        left, right = x.kids()[1:], y.kids()[1:]
    elif op == "mma":
        left, right = _products(x), _products(y)
    elif op in GROUPED:
        left, right = x.members(), y.members()
    else:
        left, right = x.kids(), y.kids()
    if op in GROUPED or op in SYMMETRIC:
        left.sort(key=lambda v: v.digest)
        right.sort(key=lambda v: v.digest)
    elif op == "ffma":
        left[:2] = sorted(left[:2], key=lambda v: v.digest)
        right[:2] = sorted(right[:2], key=lambda v: v.digest)
    if len(left) != len(right):
        return
    yield from zip(left, right, strict=True)


def _products(x: View) -> list[View]:
    """The operands of a matrix step: accumulator, then pairs in an order of their own."""
    acc, a, b = x.kids()
    pairs = [sorted((p, q), key=lambda v: v.digest)
             for p, q in zip(a.kids(), b.kids(), strict=True)]
    if "list" not in x.node.attr.split("|")[3]:
        pairs.sort(key=lambda pq: (pq[0].digest, pq[1].digest))
    return [acc, *(v for pair in pairs for v in pair)]
