"""Structural confirmation: two elements with one hash are shown to be one tree, node by node.

In: two elements (slot, lane, rewriter). Out: "" or what differs. Children of commutative operations
are paired by their hashes; everything else is compared as it stands. A limit on the number of pairs
looked at ends in a refusal, never in a confirmation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from checker.tree.hashing import hex_of
from checker.tree.nodes import GROUPED, IDEMPOTENT, SYMMETRIC, Node
from checker.tree.poly import Poly, settle
from checker.tree.result import Element
from checker.tree.rewrite import Rewriter

__all__ = ["View", "confirm"]

MAX_PAIRS = 200_000


def _side(node: Node, lane: int, rewriter: Rewriter) -> int:
    """Return 1 or 2 where a select's hash is that of its first or second side in this lane."""
    own = hex_of(rewriter.h(node), lane)
    for side in (1, 2):
        if hex_of(rewriter.h(node.args[side]), lane) == own:
            return side
    return 0


class View:
    """A node as one lane sees it, under a rewriter: gathers and muxes are looked through."""

    __slots__ = ("lane", "node", "rewriter")

    def __init__(self, node: Node, lane: int, rewriter: Rewriter) -> None:
        while True:
            if node.op == "gather" and node.table is not None:
                rewriter = rewriter.enter(node)
                lane, node = int(node.table[lane]), node.args[0]
            elif node.op == "mux" and node.table is not None:
                index = int(node.table[lane])
                rewriter, node = rewriter.option(node, index), node.args[index]
            elif node.op == "select" and _side(node, lane, rewriter):
                node = node.args[_side(node, lane, rewriter)]
            else:
                break
        self.node, self.lane, self.rewriter = node, lane, rewriter

    @property
    def digest(self) -> str:
        """The hash of this lane's tree."""
        h = self.rewriter.h(self.node)
        if self.node.op == "krow" and self.node.table is not None:
            lanes = self.node.table.shape[1]
            return "".join(hex_of(h, k * lanes + self.lane)
                           for k in range(self.node.table.shape[0]))
        return hex_of(h, self.lane)

    def kids(self) -> list[View]:
        """The children, in this lane."""
        table = self.node.table
        if self.node.op == "krow" and table is not None:
            return [View(self.node.args[i], s, self.rewriter.part(self.node, i))
                    for i, s in table[:, self.lane].tolist()]
        if self.node.op == "mma":
            return [View(a, self.lane, self.rewriter.alone(a) if a.op == "krow"
                         else self.rewriter) for a in self.node.args]
        return [View(a, self.lane, self.rewriter) for a in self.node.args]

    def members(self) -> list[View]:
        """The members of an order-free group, each once where it is a set."""
        out: list[View] = []
        work = [View(a, self.lane, self.rewriter) for a in self.node.args]
        seen: set[str] = set()
        while work:
            v = work.pop()
            if v.node.op == self.node.op and v.node.attr == self.node.attr:
                if self.node.op in IDEMPOTENT:
                    if v.digest in seen:
                        continue
                    seen.add(v.digest)
                work.extend(View(a, v.lane, v.rewriter) for a in v.node.args)
                continue
            if self.node.op in IDEMPOTENT:
                if v.digest in seen:
                    continue
                seen.add(v.digest)
            out.append(v)
        return out

    def terms(self, poly: Poly) -> dict[tuple[str, ...], tuple[Any, list[View]]]:
        """The polynomial in this lane: hashes of a product's atoms -> coefficient and atoms."""
        return lane_terms(poly, self.lane, self.rewriter)


def lane_terms(poly: Poly, lane: int, rewriter: Rewriter
               ) -> dict[tuple[str, ...], tuple[Any, list[View]]]:
    """Return a polynomial as one lane sees it: hashes of atoms -> coefficient and atoms."""
    rewriter.poly(poly)
    out: dict[tuple[str, ...], tuple[Any, list[View]]] = {}
    for mono, (c, den) in rewriter.terms(poly).items():
        value = int(c[lane]) if isinstance(c, np.ndarray) else c
        value = settle(value, poly.width) if den == 1 else value
        if value == 0:
            continue
        atoms = sorted((View(a, lane, rewriter) for a in mono), key=lambda v: v.digest)
        name = tuple(v.digest for v in atoms)
        g = math.gcd(abs(value), den)
        number = (value // g, den // g)
        if number[1] == 1:
            number = (settle(number[0], poly.width), 1)
        if name in out:
            name = (*name, f"again{len(out)}")
        out[name] = (number, atoms)
    return out


def confirm(a: Element, b: Element) -> str:
    """Return "" where two elements are shown to hold one tree at one address."""
    left = lane_terms(a.slot.address, a.lane, a.rewriter)
    right = lane_terms(b.slot.address, b.lane, b.rewriter)
    if {k: v[0] for k, v in left.items()} != {k: v[0] for k, v in right.items()}:
        return "the addresses of an output differ"
    pairs = [(View(a.slot.value, a.lane, a.rewriter), View(b.slot.value, b.lane, b.rewriter))]
    for name, (_c, atoms) in left.items():
        pairs.extend(zip(atoms, right[name][1], strict=True))
    return confirm_pairs(pairs)


def confirm_pairs(pairs: list[tuple[View, View]]) -> str:
    """Compare pairs of views, and all that lies below them."""
    seen: set[tuple[str, int, int]] = set()
    count = 0
    while pairs:
        x, y = pairs.pop()
        digest = x.digest
        if digest != y.digest:
            return "two trees differ that were expected to be one"
        mark = (digest, id(x.rewriter), id(y.rewriter))
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
        v.node.op in IDEMPOTENT and len(v.members()) == 1)


def _compare(x: View, y: View, pairs: list[tuple[View, View]]) -> str:
    a, b = x.node, y.node
    if (a.op == "select" and b.op != "select") or (a.op != "select" and b.op == "select"):
        return ""  # both sides of the select are one tree in this lane; its hash says so
    if a.op == b.op == "phi":
        return ""  # told apart by the refinement that gave it this hash
    if (a.op, a.attr, a.width) != (b.op, b.attr, b.width):
        return f"{a.op} {a.attr} against {b.op} {b.attr} under one hash"
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
