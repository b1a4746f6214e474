"""Values up to the sign of a zero: all that a power of two looks at, 2**-0 being 2**+0.

In: the argument of 2**x. Out: one in which loops of multiply-adds take one step an iteration, a
masked tail dropped with it, and nothing is added to a zero. Such a tail adds +0 * +0 and turns -0
into +0, nothing else, as x + 0 does; sums, products, extrema and choices of values that differ in
the sign of zeros differ in no more themselves (an infinity times a zero is NaN for both).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.core import FloatMode
from checker.tree.chains import one_step
from checker.tree.folds import closed_folds
from checker.tree.nodes import Node
from checker.tree.rewrite import Rewriter
from checker.tree.rules import SIGN
from checker.walk.general import rebuild, remake

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Signless"]

_THROUGH = frozenset({"fadd", "fmul", "ffma", "fneg", "fmax", "fmin", "gather", "mux", "select"})


class Signless:
    """Rebuilds the arguments of powers of two of one kernel."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.rewriter = Rewriter(engine.logic)
        self.memo: dict[Node, Node] = {}

    def node(self, root: Node) -> Node:
        """Return a value that differs from another in the sign of a zero at most."""
        return rebuild(root, self.memo, self._inside, self._made)

    def _inside(self, node: Node) -> tuple[Node, ...]:
        if node.op not in _THROUGH or (isinstance(node.extra, FloatMode)
                                       and node.extra.xorsign_abs):
            return ()
        return node.args[1:] if node.op == "select" else node.args

    def _made(self, node: Node) -> Node:
        if node.op == "fold":
            fold = one_step(self.rewriter, node.extra, signless=True)
            return node if fold is node.extra else closed_folds(
                self.engine.forest, self.engine.plain, [fold])[0]
        kids = self._inside(node)
        if not kids:
            return node
        made = [self.memo[k] for k in kids]
        if node.op == "select":
            made = [node.args[0], *made]
        if node.op == "fadd" and node.extra.denorm == "keep" \
                and not (node.extra.saturate or node.extra.relu):
            for x, zero in (made, made[::-1]):
                if self.engine.floats.literal(zero) in (0, SIGN[node.extra.type]):
                    return x
        if all(m is k for m, k in zip(made, node.args, strict=True)):
            return node
        return remake(self.engine, node, made, node.poly)
