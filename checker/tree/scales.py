"""Products with arguments that are declared to hold powers of two (`checker.assume`).

In: leaf nodes that were read from such an argument. Out: which nodes are made of them alone. Under
the premise `pow2` a product with such a factor is exact, whatever the other factor is: a number
keeps its digits, a zero its sign, infinity and NaN stay. So products of products form a multiset of
factors (`fexact`), whose order and grouping cannot matter. A masked factor may be zero where its
mask is off; zero is exact, too. Nothing else is assumed: literals, sums, other types and factors
that were rounded or shifted after they were read are no scales.
"""

from __future__ import annotations

from collections.abc import Callable

from checker.core import FloatMode
from checker.tree.nodes import Forest, Node

__all__ = ["Scales"]

#: the type that declared arguments hold
TYPE = "f32"


class Scales:
    """What is known of scales in one forest; `leaves` are elements of declared arguments."""

    def __init__(self, forest: Forest, text: Callable[[FloatMode], str]) -> None:
        self.forest = forest
        self.text = text
        self.leaves: set[Node] = set()
        self.memo: dict[Node, bool] = {}

    def read(self, node: Node) -> None:
        """Note that a node is an element of a declared argument, as it was at the launch."""
        if node.width == 32:
            self.leaves.add(node)

    def pure(self, node: Node) -> bool:
        """Whether a node is a power of two by declaration, or zero where a mask is off."""
        if not self.leaves:
            return False
        if node not in self.memo:
            self.memo[node] = self._pure(node)
        return self.memo[node]

    def _pure(self, node: Node) -> bool:
        if node in self.leaves:
            return True
        if node.op in ("gather", "fexact"):
            return all(self.pure(a) for a in node.args)
        if node.op in ("select", "mux"):
            sides = node.args[1:] if node.op == "select" else node.args
            pure = [self.pure(a) for a in sides]
            return any(pure) and all(p or _is_zero(a) for p, a in zip(pure, sides, strict=True))
        return False

    def product(self, mode: FloatMode, a: Node, b: Node) -> Node | None:
        """Return the exact product of two magnitudes, None where neither is a scale."""
        if mode.type != TYPE or not (self.pure(a) or self.pure(b)):
            return None
        return self.forest.make("fexact", self.text(mode), width=32, args=(a, b), extra=mode)

    def fused(self, mode: FloatMode, a: Node, b: Node, c: Node, tag: str) -> Node | None:
        """Return a * b + c, rounded once, of which the product is exact before that."""
        product = self.product(mode, a, b)
        if product is None:
            return None
        return self.forest.make("fexactadd", self.text(mode) + tag, width=32, args=(product, c),
                                extra=mode)


def _is_zero(node: Node) -> bool:
    """Whether a node is the bits of +0 in every lane."""
    return node.op == "int" and node.poly is not None and not node.poly.terms
