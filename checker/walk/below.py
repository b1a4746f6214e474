"""What a value is made of: in any lane, or in some lanes of a block, as exchanges lead to others.

In: nodes; a node and a mask of lanes. Out: all that is below them; what it is made of, each with
the lanes that count there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from checker.arrays import some
from checker.tree.logic import conjuncts
from checker.tree.nodes import Node

__all__ = ["all_below", "below"]


def all_below(nodes: Iterable[Node], folds: bool = False) -> Iterator[Node]:
    """Yield nodes and all that is below them, each once; folds: what is inside of folds, too."""
    seen: set[Node] = set()
    work = list(nodes)
    while work:
        node = work.pop()
        if node not in seen:
            seen.add(node)
            yield node
            work += node.kids
            if folds and node.op == "fold":
                work += node.extra.parts()


def below(node: Node, lanes: Any) -> list[tuple[Node, Any]]:
    """Return what a value is made of in some lanes, each with the lanes that count there."""
    table = node.table
    if node.op == "gather" and table is not None:
        there = np.zeros(len(lanes), dtype=bool)
        there[table[lanes]] = True
        return [(node.args[0], there)]
    if node.op == "mux" and table is not None:
        options = [(a, lanes & (table == i)) for i, a in enumerate(node.args)]
        return [(a, where) for a, where in options if some(where)]
    if node.op == "select":
        p, a, b = node.args
        where = lanes
        for q in conjuncts(p):
            where = where & q.table if q.op == "lanes" and q.table is not None else where
        return [(p, lanes), (b, lanes), *([(a, where)] if some(where) else [])]
    if node.op in ("krow", "fold"):  # of any lane
        lanes = np.ones(len(lanes), dtype=bool)
    inside = node.extra.parts() if node.op == "fold" else ()
    return [(k, lanes) for k in (*node.kids, *inside)]
