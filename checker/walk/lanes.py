"""Lanes: thread indices as literal tables, exchange between lanes as gathers.

In: operations of kind `lane` and barriers of a warp. Out: register values. Where the block size is
not known there are no lanes to look at, and an exchange is opaque.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, places, some
from checker.core import FloatMode, Op
from checker.tree.logic import conjuncts
from checker.tree.nodes import Node
from checker.tree.poly import Poly, constant
from checker.tree.values import Value

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["LaneOps"]

MAX_CONDITIONS = 4  # that a lane mask is made of
_GRID_LIMIT = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}


class LaneOps:
    """Handlers of lane operations for one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.index = np.arange(engine.lanes, dtype=np.int64)

    def handlers(self) -> dict[str, Callable[[Op], None]]:
        """Return the table rows this module serves."""
        return {"special": self._special, "gather": self._gather, "first": self._first,
                "ballot": self._ballot, "lanebit": self._lanebit, "elect": self._elect,
                "activemask": self._activemask, "redux": self._redux, "members": self._members}

    # -- thread and block coordinates
    def _special(self, op: Op) -> None:
        value = self._coordinate(op.attr, self.engine.program.reg_widths[op.dst[0]])
        if value is None:
            self.engine.opaque(op, f"special register {op.attr}")
            return
        self.engine.put(op.dst[0], value)

    def _coordinate(self, name: str, width: int) -> Value | None:
        engine = self.engine
        base, _, axis = name.partition(".")
        block = engine.program.block
        if base in ("ctaid", "nctaid") and axis:
            high = _GRID_LIMIT[axis] + (base == "nctaid")
            return self._symbol(name, width, base == "nctaid", high - (base == "ctaid"))
        if base == "ntid" and axis:
            if block is not None:
                return constant(width, block["xyz".index(axis)])
            return self._symbol(name, width, 1, 1024)
        if base == "tid" and axis:
            if engine.known_block and block is not None:
                x, y, _z = block
                table = {"x": self.index % x, "y": self.index // x % y,
                         "z": self.index // (x * y)}[axis]
                return constant(width, table)
            top = 1023
            if engine.program.max_threads:
                top = min(top, engine.program.max_threads - 1)
            return self._symbol(name, width, 0, top)
        warp = engine.program.warp_size
        if name == "laneid" and engine.known_block:
            return constant(width, self.index % warp)
        if name == "warpid" and engine.known_block:
            return constant(width, self.index // warp)
        if name == "nwarpid" and engine.known_block:
            return constant(width, -(-engine.lanes // warp))
        return None

    def _symbol(self, name: str, width: int, low: int, high: int) -> Poly:
        node = self.engine.forest.make("sreg", name, width=32, low=low, high=high,
                                       fresh_bit=True)
        if name.startswith("ctaid"):
            self.engine.forest.grid_bits |= node.deps
        return Poly(width, {(node,): 1})

    # -- exchange
    def _literal(self, value: Value) -> Any:
        poly = value if isinstance(value, Poly) else value.poly if value.op == "int" else None
        if poly is None or not poly.is_const:
            return None
        return poly.unsigned_const(self.engine.lanes).astype(np.int64)

    def _lanes_known(self, op: Op) -> bool:
        if not self.engine.known_block:
            self.engine.opaque(op, f"an exchange between lanes: {self.engine.unknown}")
            return False
        return True

    def active(self) -> Any:
        """Return which lanes are here for certain, or None where that is symbolic per lane."""
        engine = self.engine
        mask = np.ones(engine.lanes, dtype=bool)
        for p in (*conjuncts(engine.state.path), *conjuncts(engine.guard)):
            if p.op == "lanes" and p.table is not None:
                mask &= p.table
            elif not p.uniform:
                return None
        return mask

    def _members(self, op: Op) -> None:
        """Look that the lanes which run this are those that its member mask names."""
        engine = self.engine
        if not engine.known_block:
            return
        active, mask = self.active(), self._literal(engine.source(op.src[0]))
        if mask is None:
            engine.unmodelled("a member mask that is not known")
        elif active is not None and not self._meet(active, mask):
            engine.problem("member-mask", "the lanes that run this are not those that its member "
                                          "mask names")

    def _meet(self, active: Any, mask: Any) -> bool:
        """Tell whether active lanes name each other, and nobody else who has not exited.

        Several groups of lanes may run one instruction, each with its own mask.
        """
        engine = self.engine
        warp = engine.program.warp_size
        alive = np.ones(engine.lanes, dtype=bool)
        for cond, lanes in engine.exits.items():
            if engine.memory.holds(cond):
                alive &= ~lanes
        if every(mask == (1 << warp) - 1) and every(active | ~alive):
            return True
        for i in range(warp):
            other = np.minimum(self.index - self.index % warp + i, engine.lanes - 1)
            there = (self.index - self.index % warp + i < engine.lanes) & alive[other]
            named = active & there & (mask >> i & 1 == 1)
            if some(named & ~(active[other] & (mask[other] == mask))):
                return False
        return every((mask >> self.index % warp & 1 == 1)[active])

    def _gather(self, op: Op) -> None:
        engine = self.engine
        if not self._lanes_known(op):
            return
        value, lane, *members = engine.sources(op)
        table = self._literal(lane)
        active = self.active()
        mask = self._literal(members[0]) if members else None
        if table is None or active is None or (members and mask is None):
            engine.opaque(op, "an exchange whose source lane is not known")
            return
        warp = engine.program.warp_size
        source = self.index // warp * warp + table % warp
        here = source < engine.lanes  # the last warp may be a part of one
        source = np.minimum(source, engine.lanes - 1)
        if isinstance(value, Node) and value.width == 1:
            moved: Value = engine.forest.gather(value, source)
        else:
            moved = engine.values.gather(value, source)
        here &= active[source]
        if mask is not None:
            here &= mask >> source % warp & 1 == 1
        if not every(here[active]):
            pick = np.where(here, 0, 1).astype(np.int64)
            moved = engine.values.mux(pick, [moved, engine.values.undefined(value.width)])
        engine.put(op.dst[0], moved)

    def _first(self, op: Op) -> None:
        engine = self.engine
        value = engine.source(op.src[0])
        if engine.values.node(value).uniform:
            engine.put(op.dst[0], value)
            return
        if not self._lanes_known(op):
            return
        active = self.active()
        if active is None:
            engine.opaque(op, "the first active lane is not known")
            return
        engine.put(op.dst[0], engine.values.gather(value, self._leaders(active)))

    def _leaders(self, active: Any) -> Any:
        """The lowest active lane of each lane's warp (its own lane where none is active)."""
        warp = self.engine.program.warp_size
        leader = self.index.copy()
        for start in range(0, self.engine.lanes, warp):
            on = places(active[start:start + warp])
            if len(on):
                leader[start:start + warp] = start + on[0]
        return leader

    def _warp_predicate(self, p: Node) -> Any:
        return p.table if p.op == "lanes" else None

    def _ballot(self, op: Op) -> None:
        engine = self.engine
        if not self._lanes_known(op):
            return
        p, active = engine.predicate(op.src[0]), self.active()
        table = self._warp_predicate(p)
        if active is None:
            engine.opaque(op, "a vote of lanes that are not known to be here")
            return
        if table is None:
            self._symbolic_ballot(op, p, active)
            return
        warp = engine.program.warp_size
        bits = np.zeros(engine.lanes, dtype=np.uint64)
        on = table & active
        for start in range(0, engine.lanes, warp):
            word = sum(1 << i for i, b in enumerate(on[start:start + warp]) if b)
            bits[start:start + warp] = np.uint64(word)
        engine.put(op.dst[0], constant(op.attr, bits.view(np.int64)))

    def _symbolic_ballot(self, op: Op, p: Node, active: Any) -> None:
        """All bits alike where the predicate is one for the block; 0 for lanes that are off."""
        engine = self.engine
        if not every(active):
            p = engine.logic.conjunction([p, engine.forest.lanes_node(active)])
        if p.uniform and every(active) and engine.lanes % engine.program.warp_size == 0:
            full = constant(op.attr, (1 << min(op.attr, engine.program.warp_size)) - 1)
            engine.put(op.dst[0], engine.values.select(p, full, constant(op.attr, 0), op.attr))
            return
        bits = [engine.values.bit(engine.forest.gather(p, self.index // engine.program.warp_size
                                                       * engine.program.warp_size + i))
                for i in range(engine.program.warp_size)]
        total = Poly(op.attr, {})
        for i, terms in enumerate(bits):
            total = total.add(Poly(op.attr, terms).scale(1 << i))
        engine.put(op.dst[0], total)

    def _lanebit(self, op: Op) -> None:
        engine = self.engine
        if not self._lanes_known(op):
            return
        value = engine.source(op.src[0])
        bit = self._bit_of(engine.values.poly(value, value.width))
        if bit is None:
            engine.opaque(op, "a bit of a lane mask that is not known")
            return
        engine.put(op.dst[0], bit)

    def _bit_of(self, mask: Poly) -> Node | None:
        """Return each lane's bit of a mask: a literal one, or one of several by conditions."""
        atoms = sorted({a for m in mask.terms for a in m}, key=lambda a: a.serial)
        if not atoms:
            lane = (self.index % self.engine.program.warp_size).astype(np.uint64)
            bits = mask.unsigned_const(self.engine.lanes) >> lane
            return self.engine.forest.lanes_node((bits & np.uint64(1)).astype(bool))
        if len(atoms) > MAX_CONDITIONS or any(a.op != "bit" for a in atoms):
            return None
        sides = [self._bit_of(_settled(mask, atoms[0], holds)) for holds in (1, 0)]
        if sides[0] is None or sides[1] is None:
            return None
        return self.engine.choose_predicate(atoms[0].args[0], sides[0], sides[1])

    def _elect(self, op: Op) -> None:
        engine = self.engine
        if not self._lanes_known(op):
            return
        table = self._literal(engine.source(op.src[0]))
        active = self.active()
        if table is None or active is None:
            engine.opaque(op, "an election among lanes that are not known")
            return
        lane = self.index % engine.program.warp_size
        low = table & -table
        leader = np.log2(np.maximum(low, 1).astype(np.float64)).astype(np.int64)
        engine.put(op.dst[0], constant(32, leader))
        if len(op.dst) > 1:
            engine.put(op.dst[1], engine.forest.lanes_node(lane == leader))

    def _activemask(self, op: Op) -> None:
        engine = self.engine
        active = self.active()
        if active is None or not every(active) or engine.lanes % engine.program.warp_size:
            engine.opaque(op, "the set of active lanes is not fixed")
            return
        engine.put(op.dst[0], constant(op.attr, (1 << engine.program.warp_size) - 1))

    def _redux(self, op: Op) -> None:
        """A reduction of a whole warp: the same operation over gathers."""
        engine = self.engine
        if not self._lanes_known(op):
            return
        kind, dtype = op.attr
        value = engine.source(op.src[0])
        mask, active = self._literal(engine.source(op.src[1])), self.active()
        warp = engine.program.warp_size
        full = (1 << warp) - 1
        combine = self._combination(kind, dtype)
        if mask is None or not every(mask == full) or engine.lanes % warp \
                or combine is None or active is None or not _whole(active, warp):
            engine.opaque(op, "a reduction over a part of a warp, or of another kind")
            return
        distance = warp // 2
        while distance:
            value = combine(value, engine.values.gather(value, self.index ^ distance))
            distance //= 2
        engine.put(op.dst[0], value)

    def _combination(self, kind: str, dtype: str) -> Callable[[Value, Value], Value] | None:
        """Return what a reduction does with two values; floats as their own maximum does."""
        engine = self.engine
        name, *mods = kind.split(".")
        if dtype == "f32" and name in ("min", "max") and mods in ([], ["NaN"]):
            mode = FloatMode("f32", nan="nan" if mods else "num")
            return lambda a, b: engine.floats.op(
                f"f{name}", mode, [engine.values.node(a), engine.values.node(b)])
        names = {"add": "iadd", "and": "iand", "or": "ior", "xor": "ixor"}
        if dtype[0] in "us":
            names |= {"min": f"imin_{dtype[0]}", "max": f"imax_{dtype[0]}"}
        if mods or dtype[0] == "f" or name not in names:
            return None
        return lambda a, b: engine.ints.op(names[name], 32, (a, b))


def _whole(active: Any, warp: int) -> bool:
    """Tell whether each warp is active as a whole or not at all."""
    rows = active.reshape(-1, warp)
    return every(rows.all(axis=1) | ~rows.any(axis=1))


def _settled(poly: Poly, atom: Node, number: int) -> Poly:
    """Put 0 or 1 for a 0/1 atom."""
    out = Poly(poly.width, {})
    for mono, c in poly.terms.items():
        rest = tuple(a for a in mono if a is not atom)
        if number or len(rest) == len(mono):
            out = out.add(Poly(poly.width, {rest: 1}).scale(c))
    return out
