"""Block indices that are divided: `block >> m` is told by groups of 2**m blocks.

In: the stores of a kernel, told by a block index b. Out: the same stores told by b = 2**m * g + p
for each place p in a group g, where what a store depends on holds (b + r) >> m, which then is a
sum. Together the places are all blocks, as the groups are all of theirs. So the part of a row that
a block takes shows as the number that it is, as in a kernel whose block takes whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from checker.tree.logic import literal_of
from checker.tree.nodes import LOW_BITS, Node
from checker.tree.poly import Poly, constant
from checker.tree.values import is_index
from checker.walk.below import all_below
from checker.walk.general import Replacer
from checker.walk.state import StoreEvent

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["by_place"]

MOST_BLOCKS = 8  # of a group


def by_place(engine: Engine, stores: list[StoreEvent]) -> list[StoreEvent]:
    """Return the stores, each once for each place of its block in a group of blocks."""
    reached = _below(stores)
    divided = _divided(engine, reached)
    if divided is None:
        return stores
    block, atoms = divided
    count = 1 << max(m for m, _start in atoms.values())
    if count * len(reached) > engine.forest.max_nodes // 4:
        return stores
    out = []
    for place in range(count):
        group = Poly(32, {(block,): 1})
        put = Replacer(engine, {block: group.scale(count).add(constant(32, place))})
        for atom, (m, start) in atoms.items():
            put.table[atom] = group.scale(count >> m).add(constant(32, (place + start) >> m))
            put.memo[atom] = engine.values.node(put.table[atom])
            put.mask |= atom.deps
        put.mask &= ~LOW_BITS
        for event in stores:
            out.append(replace(
                event, address=put.poly(event.address), value=put.node(event.value),
                guard=put.node(event.guard), own=None,
                loops=tuple(put.node(n) for n in event.loops)))
    return out


def _below(stores: list[StoreEvent]) -> set[Node]:
    """Return all that stores depend on."""
    return set(all_below((n for e in stores for n in (
        e.value, e.guard, *e.loops, *(a for m in e.address.terms for a in m))), folds=True))


def _divided(engine: Engine, nodes: Iterable[Node]
             ) -> tuple[Node, dict[Node, tuple[int, int]]] | None:
    """Return a block index b and the atoms (b + r) >> m with m and r; None where there is more."""
    hidden = engine.forest.hidden
    found: dict[Node, tuple[int, int]] = {}
    blocks: set[Node] = set()
    for node in nodes:
        below = hidden.get(node.deps & ~LOW_BITS, 0)
        if not any(k.deps & below for k in node.kids):
            continue  # no symbol of its own
        poly = node.args[0].poly if node.op == "iop" and node.attr == "shr_s.32" else None
        m = literal_of(node.args[1]) if poly is not None else None
        if poly is None or m is None or 1 << m > MOST_BLOCKS:
            return None
        start = poly.const
        block = poly.sub(constant(32, start)).atom()
        if block is None or not is_index(block) or not isinstance(start, int) \
                or not 0 <= start < 1 << m:
            return None
        blocks.add(block)
        found[node] = m, start
    return (blocks.pop(), found) if len(blocks) == 1 and found else None
