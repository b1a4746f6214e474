"""Where along an operand the values of a reduction lie: constant parts of their addresses.

In: nodes, in one lane. Out: offsets and strides in elements, None where an address is not constant.
Addresses are read as they stand, not as the canonical form has them: only their differences count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from checker.tree.confirm import View
from checker.tree.nodes import Node
from checker.tree.poly import Poly, settle

__all__ = ["along", "argument", "base", "columns", "distance", "places", "stride"]

LOADS = 3  # loads behind a value that are looked at


def argument(attr: str) -> str:
    """The name of an argument: its number, so that a kernel's own names do not matter."""
    index, _, offset = attr.partition("+")
    return f"arg{index}" + (f"+{offset}" if offset not in ("", "0") else "")


def columns(row: Node, lane: int) -> list[tuple[int, int]]:
    """The elements of an operand over k: part and lane."""
    assert row.table is not None
    return [(int(p), int(s)) for p, s in row.table[:, lane]]


def _below(node: Node, lane: int) -> list[tuple[Node, int]]:
    """What lies under a value, as its lane sees it; conditions and addresses are left out."""
    table = node.table
    if node.op in ("ge0", "eq0", "and", "or", "lanes", "phi", "load"):
        return []
    if node.op == "gather" and table is not None:
        return [(node.args[0], int(table[lane]))]
    if node.op == "mux" and table is not None:
        return [(node.args[int(table[lane])], lane)]
    if node.op == "krow":
        return [(node.args[p], s) for p, s in columns(node, lane)[:1]]
    kids = node.extra.steps if node.op == "fold" else node.args
    return [(kid, lane) for kid in kids]


def _loads(node: Node, lane: int, limit: int) -> Iterator[tuple[Node, int]]:
    """The loads under a value, in the order of the tree, among the first nodes."""
    work = [(node, lane)]
    while work and limit:
        limit -= 1
        node, lane = work.pop()
        if node.op == "load" and node.poly is not None:
            yield node, lane
        work += reversed(_below(node, lane))


def _terms(poly: Poly, lane: int) -> Iterator[tuple[tuple[Node, ...], int]]:
    """A polynomial as it stands, in one lane."""
    for mono, c in poly.terms.items():
        value = int(c[lane]) if isinstance(c, np.ndarray) else int(c)
        out: Any = settle(value, poly.width)
        yield mono, int(out)


def _index(load: Node, lane: int) -> dict[tuple[Node, ...], int]:
    """The address of a load in elements: what is widened after it was computed is taken apart."""
    assert load.poly is not None
    size = max(1, load.width // 8)
    out: dict[tuple[Node, ...], int] = {}
    for mono, c in _terms(load.poly, lane):
        inner = mono[0] if len(mono) == 1 and mono[0].op in ("sext", "zext") else None
        parts = [(mono, c // size)]
        if inner is not None and inner.poly is not None:
            parts = [(m, c // size * n) for m, n in _terms(inner.poly, lane)]
        for m, n in parts:
            out[m] = out.get(m, 0) + n
    return out


def places(node: Node, lane: int, count: int = LOADS) -> tuple[int, ...]:
    """The constant parts of the addresses of the first loads behind a value."""
    out = []
    for found in _loads(node, lane, 64):
        out.append(_index(*found).get((), 0))
        if len(out) == count:
            break
    return tuple(out)


def distance(pairs: Sequence[Sequence[tuple[int, ...]]]) -> int | None:
    """How far apart the two halves of each pair lie, if all pairs agree."""
    found = set()
    for a, b in pairs:
        if not a or len(a) != len(b):
            return None
        apart = {abs(x - y) for x, y in zip(a, b, strict=True)} - {0}
        found.add(apart.pop() if len(apart) == 1 else None)
    return found.pop() if len(found) == 1 else None


def base(v: View) -> str:
    """The pointer argument that a load reads."""
    assert v.node.poly is not None
    for mono, _c in _terms(v.node.poly, v.lane):
        if len(mono) == 1 and mono[0].op == "param" and mono[0].width == 64:
            return argument(mono[0].attr)
    return "memory"


def stride(step: View, counter: Node) -> set[int]:
    """By how many elements the loads of a step move from turn to turn, where that is constant."""
    found = set()
    for load, lane in _loads(step.node, step.lane, 2000):
        each = _index(load, lane).get((counter,))
        found |= {each} if each else set()
    return found


def along(rows: Sequence[Sequence[Sequence[tuple[int, ...]]]]) -> Any:
    """Where each step's products lie along k, as first and last: rows[step][operand][product].

    The operand whose addresses are constant along k says so (those of the other step by an
    argument); where neither is, the order is that of the tree.
    """
    found = []
    for operand in range(2):
        steps = []
        for row in rows:
            at = [k[0] for k in row[operand] if k]
            if len(at) < len(row[operand]) or max(at) - min(at) + 1 != len(set(at)) or \
                    len(set(at)) < len(at):
                break
            steps.append([min(at), max(at)])
        if len(steps) == len(rows) == len({first for first, _ in steps}):
            low = min(first for first, _ in steps)
            found.append([[first - low, last - low] for first, last in steps])
    return min(found) if found else "in the order of the tree"
