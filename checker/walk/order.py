"""Program orders: maps from a one-dimensional grid to tiles that visit every tile once.

In: the coordinates of an output and which parameter bounds each. Out: whether the block index
runs over all tiles, given that the grid has as many blocks as there are tiles (premise
`grid-covers`). An order is proved by its form, and only where it counts tiles by the bounds that
the stores' guards test: one that counts otherwise does not cover, and keeps its own name.

With D = ceil(bound of the second coordinate / its tile) the forms are
  row-major: first = pid / D, second = pid - D * first;
  grouped:   g = pid / (G * D), size = min(ceil(bound of the first / its tile) - G * g, G),
             second = (pid - G * D * g) / size, first = G * g + rest,
             rest = (pid - G * D * g) - size * second, or pid % size.
A remainder a % b may stand for a - b * (a / b) anywhere. In the last form a group's blocks are
`size` times D in number and consecutive, so that `rest` and `second` run over all pairs, whichever
residue the first block starts with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checker.tree.nodes import Node, parameter_name
from checker.tree.poly import Poly, constant
from checker.tree.rewrite import Pivot
from checker.walk.below import all_below

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["rounded_up", "tests_the_last_tile", "visits_every_tile"]


def visits_every_tile(engine: Engine, pivots: list[Pivot], bounds: dict[Node, str]) -> bool:
    """Tell whether block indices run over all tiles; bounds: coordinate -> argN of its guard."""
    return any(order.row_major() or order.grouped() for order in _orders(engine, pivots, bounds))


def tests_the_last_tile(engine: Engine, pivots: list[Pivot], bounds: dict[Node, str], p: Node
                        ) -> bool:
    """Tell whether a test is that pid is below the number of tiles, which `bounds` imply.

    In row-major order: beyond, the first coordinate is pid / D >= ceil(bound / tile).
    """
    return any(order.row_major() and order.below_the_last(p)
               for order in _orders(engine, pivots, bounds))


def _orders(engine: Engine, pivots: list[Pivot], bounds: dict[Node, str]) -> list[_Order]:
    """Return the ways to read two coordinates as a quotient and an index of one block index."""
    plain = {p.atom for p in pivots if p.atom.op == "sreg" and not p.others}
    rest = [p for p in pivots if p.atom not in plain or p.others]
    if len(rest) != 2 or any(p.y not in bounds or any(c % p.scale for _m, c in p.others)
                             for p in rest):
        return []
    blocks = _blocks_below([p.atom for p in rest])
    if len(blocks) != 1 or blocks & plain:
        return []
    return [_Order(engine, blocks.copy().pop(), index, quotient, bounds)
            for index, quotient in (rest, rest[::-1]) if not quotient.others]


def _blocks_below(atoms: list[Node]) -> set[Node]:
    """Return the block indices that some indices are computed from."""
    return {node for node in all_below(atoms) if node.op == "sreg"}


class _Order:
    """index: the coordinate of the form pid + ...; quotient: the one that a division gives."""

    def __init__(self, engine: Engine, pid: Node, index: Pivot, quotient: Pivot,
                 bounds: dict[Node, str]) -> None:
        self.values, self.ints = engine.values, engine.ints
        self.index, self.quotient, self.bounds = index, quotient, bounds
        self.pid = self._atom(pid)
        form = self._atom(index.atom)
        for mono, c in index.others:
            form = form.add(Poly(32, {mono: 1}).scale(c // index.scale))
        self.form = self._without_rests(form)

    def _atom(self, atom: Node) -> Poly:
        return Poly(32, {(atom,): 1})

    def _without_rests(self, poly: Poly, depth: int = 2) -> Poly:
        """Return a sum with a - b * (a / b) in place of each a % b, where a may hold another."""
        out = Poly(32, {})
        for mono, c in poly.terms.items():
            term = constant(32, c)
            for atom in mono:
                put = self._atom(atom)
                if atom.op == "iop" and atom.attr in ("irem_s.32", "irem_u.32"):
                    a, b = atom.args
                    whole = self.ints.op(atom.attr.replace("irem", "idiv")[:-3], 32, (a, b))
                    divisor = self.values.whole(self.values.poly(b, 32))
                    product = divisor.mul(self.values.poly(whole, 32))
                    first = self.values.poly(a, 32)
                    put = (self._without_rests(first, depth - 1) if depth else first).sub(product)
                term = term.mul(put)
            out = out.add(term)
        return out

    def _division(self, node: Node) -> tuple[Poly, Node] | None:
        if node.op != "iop" or node.attr not in ("idiv_s.32", "idiv_u.32"):
            return None
        return self._without_rests(self.values.poly(node.args[0], 32)), node.args[1]

    def _counts(self, node: Node, pivot: Pivot) -> bool:
        """Tell whether a node is ceil(bound / tile) for a coordinate."""
        return rounded_up(node, pivot.scale, self.bounds[pivot.y])

    def below_the_last(self, p: Node) -> bool:
        """p says pid < ceil(bound / tile) * ceil(bound / tile)."""
        if p.op != "ge0" or p.poly is None:
            return False
        rest = p.poly.add(self.pid.to_width(0)).add(constant(0, 1))
        total = rest.atom()
        if total is None or total.op != "sext" or total.poly is None \
                or len(total.poly.terms) != 1:
            return False
        (mono, c), = total.poly.terms.items()
        return len(mono) == 2 and not isinstance(c, np.ndarray) and c == 1 and any(
            self._counts(a, self.index) and self._counts(b, self.quotient)
            for a, b in (mono, mono[::-1]))

    def row_major(self) -> bool:
        """quotient = pid / D, index = pid - D * quotient."""
        parts = self._division(self.quotient.atom)
        if parts is None or not parts[0].same(self.pid) or not self._counts(parts[1], self.index):
            return False
        count = self.values.poly(parts[1], 32)
        return self.form.same(self.pid.sub(count.mul(self._atom(self.quotient.atom))))

    def grouped(self) -> bool:
        """quotient = (pid - G * D * g) / size, index = G * g + rest."""
        parts = self._division(self.quotient.atom)
        if parts is None:
            return False
        inside, size = parts
        found = [(m, c) for m, c in inside.terms.items() if len(m) == 2]
        if len(found) != 1 or isinstance(found[0][1], np.ndarray):
            return False
        (mono, c), = found
        for group, count in ((mono[0], mono[1]), (mono[1], mono[0])):
            if self._is_grouped(inside, size, group, count, -c):
                return True
        return False

    def _is_grouped(self, inside: Poly, size: Node, group: Node, count: Node, many: Any) -> bool:
        division = self._division(group)
        if division is None or many < 1 or not division[0].same(self.pid) \
                or not self._counts(count, self.quotient):
            return False
        width = self._atom(count).scale(many)
        g = self._atom(group)
        if self.values.node(width) is not division[1] \
                or not inside.same(self.pid.sub(width.mul(g))) \
                or not self._is_size(size, g, many):
            return False
        of_size = self.values.poly(size, 32)
        start = g.scale(many)
        within = inside.sub(of_size.mul(self._atom(self.quotient.atom)))
        if self.form.same(start.add(within)):
            return True
        for mono in self.form.terms:  # pid % size
            for atom in mono:
                parts = self._division(atom)
                if parts is not None and parts[0].same(self.pid) and parts[1] is size:
                    rest = self.pid.sub(of_size.mul(self._atom(atom)))
                    return self.form.same(start.add(rest))
        return False

    def _is_size(self, size: Node, g: Poly, many: Any) -> bool:
        """size = min(number of tiles - G * g, G)."""
        if size.op not in ("imin_s", "imin_u") or len(size.args) != 2:
            return False
        polys = [self.values.poly(a, 32) for a in size.args]
        for left, right in (polys, polys[::-1]):
            if right.same(constant(32, many)):
                tiles = left.add(g.scale(many)).atom()
                return tiles is not None and self._counts(tiles, self.index)
        return False


def rounded_up(node: Node, tile: int, bound: str) -> bool:
    """Tell whether a node is ceil(argN / tile), as compilers write a signed or unsigned division.

    A negative size or one within a tile of 2**31 is excluded by the premise `no-index-wrap`.
    """
    if node.op != "iop":
        return False
    top, kind = node.args[0], node.attr
    divisor = node.args[1].poly
    if divisor is None or not divisor.is_const or isinstance(divisor.const, np.ndarray):
        return False
    number = int(divisor.const)
    if kind.startswith("idiv"):
        return number == tile and _is_top(top, tile, bound, None)
    if not kind.startswith("shr") or 1 << number != tile:
        return False
    return _is_top(top, tile, bound, number)


def _is_top(top: Node, tile: int, bound: str, shift: int | None) -> bool:
    """Tell whether a node is argN + tile - 1 (plus the correction of a signed shift)."""
    if top.poly is None:
        return False
    rest = dict(top.poly.terms)
    sizes = [m for m in rest if len(m) == 1 and parameter_name(m[0]) == bound]
    if len(sizes) != 1 or rest.pop(sizes[0]) != 1:
        return False
    literal = rest.pop((), 0)
    if isinstance(literal, np.ndarray) or literal != tile - 1:
        return False
    if not rest:
        return True
    if len(rest) != 1 or shift is None:
        return False
    (mono, c), = rest.items()
    if len(mono) != 1 or isinstance(c, np.ndarray) or c != 1:
        return False
    fix = mono[0]  # (v >> 31) >>> (32 - shift), v = argN + tile - 1
    if fix.op != "iop" or not fix.attr.startswith("shr_u") or _number(fix.args[1]) != 32 - shift:
        return False
    sign = fix.args[0]
    if sign.op != "iop" or not sign.attr.startswith("shr_s") or _number(sign.args[1]) != 31:
        return False
    inner = sign.args[0].poly
    return inner is not None and inner.same(Poly(32, {sizes[0]: 1}).add(constant(32, tile - 1)))


def _number(node: Node) -> int | None:
    if node.poly is None or not node.poly.is_const or isinstance(node.poly.const, np.ndarray):
        return None
    return int(node.poly.const)
