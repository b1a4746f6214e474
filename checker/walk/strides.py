"""Loops over tiles: a block index plus a counter times a stride is a block index.

In: a proved loop with stores, what holds in the iterations that run. Out: its stores as those of a
grid that has a block for each tile. Block b takes the tiles b, b + P, b + 2 P, ... below a bound:
where a store's address, value and guard contain b and the counter k as b + P * k only, its element
depends on the tile alone, and blocks 0 ... P - 1 visit every tile (premise `grid-covers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checker.arrays import every
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node
from checker.tree.poly import Poly, TooLarge
from checker.tree.rewrite import Pivot, Rewriter
from checker.walk.general import Replacer
from checker.walk.state import StoreEvent

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["one_tile_each"]


def one_tile_each(engine: Engine, kappa: Node, path: Node, reached: Node,
                  stores: list[StoreEvent]) -> list[StoreEvent] | None:
    """Return the stores of iteration k, told by the tile; None where they are not of that kind.

    reached: the test that lets iteration k run, `bound - b - P * k - 1 >= 0`: it holds for all
    smaller k, too. path: what holds before the loop.
    """
    found = _stride(reached, kappa)
    if found is None:
        return None
    block, stride = found
    same = _Same(engine, kappa, block, stride)
    at_start = Replacer(engine, {kappa: Poly(32, {})})
    try:
        first = at_start.node(reached)
        before = conjuncts(path)
        if not same.node(reached) or not engine.logic.implies(
                [first], engine.logic.conjunction(before)):
            return None
        guards = [[p for p in conjuncts(event.guard) if p not in before] for event in stores]
        same.prepare([*(p for guard in guards for p in guard), *(e.value for e in stores)])
        out = []
        for event, guard in zip(stores, guards, strict=True):
            if not all(same.node(n) for n in (*guard, event.value)) \
                    or not same.poly(event.address):
                return None
            told = engine.logic.conjunction([first, *before, *map(at_start.node, guard)])
            out.append(StoreEvent(
                event.kind, event.attr, at_start.poly(event.address), at_start.node(event.value),
                event.width, told, event.site, event.order, event.base, event.loops, event.first,
                turns=event.turns))
    except TooLarge:
        return None
    return out


def _stride(reached: Node, kappa: Node) -> tuple[Node, int] | None:
    """Return the block index and P of a test that falls with block + P * k."""
    if reached.op != "ge0" or reached.poly is None:
        return None
    parts: dict[tuple[Node, ...], int] = {}
    for mono, c in reached.poly.terms.items():
        inner = mono[0].poly if len(mono) == 1 and mono[0].op in ("sext", "zext") else None
        if inner is not None and inner.atom() is None and c == -1:
            if any(isinstance(v, np.ndarray) for v in inner.terms.values()):
                return None
            parts |= {m: -v for m, v in inner.terms.items() if m}
        elif len(mono) == 1 and mono[0].op in ("sreg", "kappa"):
            if isinstance(c, np.ndarray):
                return None
            parts[mono] = c
    block = [m[0] for m in parts if m[0].op == "sreg" and m[0].attr.startswith("ctaid")]
    if len(block) != 1 or set(parts) != {(block[0],), (kappa,)} or parts[(block[0],)] != -1 \
            or not 0 < -parts[(kappa,)] < 1 << 16:
        return None
    return block[0], -parts[(kappa,)]


class _Same:
    """Whether something is the same for block b at k and for block b - P at k + 1.

    What is rebuilt as the same node is; elsewhere hashes decide.
    """

    def __init__(self, engine: Engine, kappa: Node, block: Node, stride: int) -> None:
        forest = engine.forest
        self.engine = engine
        one = forest.make("y", "a block", width=64, low=0, high=(1 << 31) - 2)
        two = forest.make("y", "a counter", width=64, low=0, high=(1 << 31) - 2)
        self.there = Rewriter(engine.logic, [Pivot(block, one, 1, stride),
                                             Pivot(kappa, two, 1, -1)])
        self.here = Rewriter(engine.logic, [Pivot(block, one, 1, 0), Pivot(kappa, two, 1, 0)])
        self.onward = Replacer(engine, {kappa: Poly(32, {(kappa,): 1, (): 1}),
                                        block: Poly(32, {(block,): 1, (): -stride})})
        # symbols that stand for more than they show: indices computed from block indices alone
        self.hidden = 0
        for bit, atom in forest.bits.items():
            if bit & forest.grid_bits & ~LOW_BITS and atom.op != "sreg":
                self.hidden |= bit

    def prepare(self, nodes: list[Node]) -> None:
        """Hash what will be looked at in one pass."""
        if not any(node.deps & self.hidden for node in nodes):
            left = [node for node in nodes if self.onward.node(node) is not node]
            self.there.prepare(left)
            self.here.prepare(left)

    def node(self, node: Node) -> bool:
        """The same for a node, in every lane."""
        if node.deps & self.hidden:
            return False
        return self.onward.node(node) is node or every(self.there.h(node) == self.here.h(node))

    def poly(self, poly: Poly) -> bool:
        """The same for an address."""
        return self.node(self.engine.forest.number(poly))
