"""Copies by tensor map and the mbarriers they arrive at.

In: mbarrier and tensor copy operations. Out: shared bytes, outputs. A map's parameter is opaque
here: its element type, box and swizzle are read off how the kernel addresses the tile (premise
`tensor-map`), its sizes and strides are symbols. An element is a load with bounds, zero outside.
A tile is kept whole until a matrix step's descriptor says how its bytes are swizzled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, places, some
from checker.core import GENERIC_PARAM, OPS, BulkCopy, Op
from checker.tree.logic import conjuncts
from checker.tree.nodes import Node
from checker.tree.poly import Poly, constant
from checker.tree.values import Value
from checker.walk.carried import body
from checker.walk.flight import Issued, alike
from checker.walk.flow import Loop
from checker.walk.state import GiveUp, State

if TYPE_CHECKING:
    from checker.walk.engine import Engine
    from checker.walk.shared import Shared

__all__ = ["TileOps", "Unsized", "only_waits", "wait"]

SPANS = (32, 64, 128)  # bytes of a row of a box that swizzling permutes
MBARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Copy:
    """A tile on its way: where it goes, how many bytes at most, what it is.

    cond: where it was fetched, in a loop: where in the loop. loop: what holds throughout that.
    """

    start: int
    index: Any  # shared bytes
    lane: int
    tile: Node
    cond: Node | None
    loop: Node

    def path(self) -> list[Node]:
        """Return the conditions under which it was fetched."""
        return [*conjuncts(self.loop), *(() if self.cond is None else conjuncts(self.cond))]


@dataclass(frozen=True, slots=True)
class Bar:
    """An mbarrier of one arrival: the parity it waits for; `tx`: bytes expected in this phase.

    steps: the matrix steps whose end is the arrival. cond: where there is such an mbarrier.
    """

    parity: int = 0
    tx: int | None = None
    copies: tuple[Copy, ...] = ()
    steps: tuple[Issued, ...] | None = None
    cond: Node | None = None


@dataclass(slots=True)
class TileState:
    """What a loop carries: mbarriers by address, stores that still read shared memory.

    issued: matrix steps on tensor memory that no mbarrier stands for yet. stores: those that are in
    no group yet. closed: those that are in one.
    """

    bars: dict[int, Bar] = field(default_factory=dict)
    issued: list[Issued] = field(default_factory=list)
    stores: list[Issued] = field(default_factory=list)
    closed: list[Issued] = field(default_factory=list)

    def loose(self) -> tuple[list[Issued], ...]:
        """Return the steps that no mbarrier stands for."""
        return self.issued, self.stores, self.closed

    def copy(self) -> TileState:
        """Return an independent copy."""
        return TileState(dict(self.bars), *(list(part) for part in self.loose()))

    def met(self, other: TileState) -> TileState | None:
        """Return what both of two states are; None where something is under way in one of them."""
        for state in (self, other):
            if any(state.loose()) or any(b.copies or b.steps for b in state.bars.values()):
                return None
        return TileState({at: b for at, b in self.bars.items() if other.bars.get(at) == b})

    def ended(self, shared: Shared, put: Callable[[Node], Node]) -> TileState:
        """Return this state where a loop ended: no copies are under way there.

        put: what says of a condition in the loop what it is at the end.
        """
        def at_end(steps: Iterable[Issued]) -> list[Issued]:
            return [replace(s, path=put(s.path), over=put(s.over)) for s in steps]

        bars = {}
        for at, bar in self.bars.items():
            for copy in bar.copies:
                shared.copying(copy.index, -1)
            bars[at] = replace(bar, copies=(), cond=None if bar.cond is None else put(bar.cond),
                               steps=None if bar.steps is None else tuple(at_end(bar.steps)))
        return TileState(bars, *map(at_end, self.loose()))

    def committed(self) -> list[Issued]:
        """Return the matrix steps whose end is an mbarrier's arrival."""
        return [s for bar in self.bars.values() for s in bar.steps or ()]


class Unsized(GiveUp):
    """A tile is stored whose elements only other paths show."""


class TileOps:
    """Handlers of mbarriers and bulk copies for one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state = TileState()
        self.waiting = False  # inside a loop that does nothing but wait
        self.bounds: set[int] = set()  # where tiles and mbarriers start
        self.unfolded: dict[Any, list[Value]] = {}  # the elements of a tile, as they are read
        self.placed: dict[Any, tuple[list[Node], Poly]] = {}  # along one dimension
        self.phases: set[tuple[int, tuple[int, ...]]] = set()  # bytes expected, tiles
        self.sizes: dict[int, int] = {}  # of the elements that were stored by a tensor map

    def handlers(self) -> dict[str, Callable[[Op], None]]:
        """Return the table rows this module serves."""
        return {"mbar_init": self._init, "mbar_inval": self._inval, "mbar_arrive": self._arrive,
                "mbar_test": self._test, "bulk": self._bulk, "bulk_commit": self._close_stores,
                "bulk_wait": self._wait_stores}

    def _number(self, operand: Any, lane: int | None = None) -> int | None:
        """Return a literal that all lanes share (or that one lane holds)."""
        value = self.engine.source(operand)
        poly = self.engine.values.poly(value, value.width)
        if not poly.is_const:
            return None
        bits = poly.unsigned_const(self.engine.lanes)
        if lane is not None:
            return int(bits[lane])
        return int(bits[0]) if every(bits == bits[0]) else None

    def _actors(self, op: Op) -> tuple[list[int], Node]:
        """Return the lanes that issue an operation and the condition under which they do."""
        mask, rest = self.engine.memory.active()
        if not self.engine.known_block:
            raise GiveUp("tensor-copy", f"a bulk copy: {self.engine.unknown}", op.site)
        if not rest.uniform:
            raise GiveUp("tensor-copy", "lanes that issue a bulk copy are not known", op.site)
        return places(mask).tolist(), rest

    # -- mbarriers
    def _init(self, op: Op) -> None:
        lanes, rest = self._actors(op)
        at, count = self._number(op.src[0], lanes[0]), self._number(op.src[1])
        if len(lanes) != 1 or at is None or count != 1:
            raise GiveUp("mbarrier", "an mbarrier that counts several arrivals", op.site)
        self._drop(at, lanes[0])
        self.state.bars[at] = Bar(cond=None if rest is self.engine.forest.true else rest)
        self.bounds.add(at)

    def _inval(self, op: Op) -> None:
        lanes, _rest = self._actors(op)
        at = self._number(op.src[0], lanes[0]) if lanes else None
        if at is None:
            raise GiveUp("mbarrier", "an mbarrier whose address is not known", op.site)
        self._drop(at, lanes[0])

    def _drop(self, at: int, lane: int) -> None:
        """A lane sets an mbarrier up or ends it: nobody can wait any more for what it stood for."""
        bar = self.state.bars.pop(at, None)
        self.engine.matrix.flights.state.lost += bar.steps or () if bar is not None else ()
        shared, index = self.engine.memory.shared, np.arange(at, at + MBARRIER_BYTES)[None, :]
        shared._grow(at + MBARRIER_BYTES)
        if some(shared.unordered_reads(index, np.array([lane]))):
            self.engine.problem("race", "an mbarrier is set up or ended while others may use it")
        shared.land(index, np.array([lane]))

    def _bar(self, at: int | None, op: Op) -> Bar:
        if at is not None:
            shared = self.engine.memory.shared
            lanes = places(self.engine.memory.active()[0])
            if shared.look(np.arange(at, at + MBARRIER_BYTES)[None, :], lanes):
                self.engine.problem("race", "an mbarrier is used that no barrier orders after its "
                                            "setup")
        bar = self.state.bars.get(at) if at is not None else None
        here = conjuncts(self.engine.memory.active()[1])
        if bar is None or (bar.cond is not None and not self.engine.logic.implies(here, bar.cond)):
            raise GiveUp("mbarrier", "an mbarrier whose state is not known", op.site)
        return bar

    def commit(self, op: Op, lane: int) -> None:
        """The end of all matrix steps that a lane issued so far is an mbarrier's arrival."""
        at = self._number(op.src[0], lane)
        bar = self._bar(at, op)
        issued = self.state.issued
        if bar.tx is not None or bar.steps is not None:
            raise GiveUp("mbarrier", "an mbarrier that counts several arrivals", op.site)
        assert at is not None
        self.state.bars[at] = replace(bar, steps=tuple(s for s in issued if s.lane == lane),
                                      cond=self._here(bar))
        self.state.issued = [s for s in issued if s.lane != lane]

    def _here(self, bar: Bar) -> Node | None:
        """Return where an mbarrier that changes its state now is in that state.

        In a loop: where in the loop.
        """
        throughout = conjuncts(self.engine.loop_path)
        here = [p for p in conjuncts(self.engine.memory.active()[1]) if p not in throughout]
        return self._both(bar.cond, here)

    def _both(self, cond: Node | None, more: list[Node]) -> Node | None:
        true = self.engine.forest.true
        both = self.engine.logic.conjunction([true if cond is None else cond, *more])
        return None if both is true else both

    def leave(self, ends: list[TileState], path: Node) -> None:
        """A loop is over: mbarriers are in the state that the ends of its iterations agree on.

        That is so where the loop was entered; where they do not agree nothing is known.
        """
        here = [p for p in conjuncts(path) if p.op != "lanes"]
        for at, bar in list(self.state.bars.items()):
            if all(at in e.bars and _one_phase(bar, e.bars[at]) for e in ends):
                self.state.bars[at] = replace(bar, cond=self._both(bar.cond, here))
            else:
                del self.state.bars[at]

    def steps_under_way(self) -> list[Issued]:
        """Return the matrix steps on tensor memory that nobody waited for."""
        return [*self.state.issued, *self.state.committed()]

    def _arrive(self, op: Op) -> None:
        lanes, _rest = self._actors(op)
        if len(lanes) != 1 or len(op.src) < 3 or op.attr != (False, True) or op.dst:
            raise GiveUp("mbarrier", "an arrival that is not modelled", op.site)
        at = self._number(op.src[0], lanes[0])
        bar = self._bar(at, op)
        tx = self._number(op.src[2], lanes[0])
        if bar.tx is not None or bar.steps is not None or not tx \
                or self._number(op.src[1], lanes[0]) != 1:
            raise GiveUp("mbarrier", "an mbarrier is armed twice in one phase", op.site)
        assert at is not None
        self.state.bars[at] = replace(bar, tx=tx, copies=())

    def _test(self, op: Op) -> None:
        engine = self.engine
        mask, rest = engine.memory.active()
        at, parity = self._number(op.src[0]), self._number(op.src[1])
        if not self.waiting or op.attr != "parity" or not every(mask) or parity is None \
                or not rest.uniform:
            engine.opaque(op, "a test of an mbarrier that is no wait of the whole block")
            engine.unmodelled("a test of an mbarrier that is no wait of the whole block")
            return
        bar = self._bar(at, op)
        if parity & 1 == bar.parity:
            if bar.tx is None and bar.steps is None:
                raise GiveUp("mbarrier", "a wait for an mbarrier that nothing arrives at", op.site)
            flights = engine.matrix.flights
            for copy in bar.copies:
                self._land(copy)
                if not engine.logic.implies(copy.path(), flights.where()):
                    engine.memory.shared.linger(flights.where(), copy.index)
            if bar.tx is not None:
                self.phases.add((bar.tx, tuple(sorted(c.start for c in bar.copies))))
            flights.state.lost += flights.ended(bar.steps or (), flights.where())
            assert at is not None
            cond = bar.cond if bar.steps is None else self._here(bar)
            self.state.bars[at] = Bar(bar.parity ^ 1, cond=cond)
        engine.put(op.dst[0], engine.forest.true)

    def stages(self) -> int:
        """Return how many mbarriers are in use: those of a ring, one for each of its stages."""
        return len(self.state.bars)

    def finish(self) -> None:
        """Check what tiles were taken to be against the bytes that the mbarriers expect.

        Tiles do not overlap, so none is longer than the gap up to what comes next; where the gaps
        add up to the bytes expected, each tile fills its own.
        """
        for tx, starts in self.phases:
            if sum(self._gap(s) for s in starts) != tx:
                self.engine.unmodelled("tiles whose sizes cannot be told")

    def _gap(self, start: int) -> int:
        later = [b for b in self.bounds if b > start]
        return min(later) - start if later else 1 << 20

    def only_on(self, path: Node) -> None:
        """From here on only a path counts: copies of other paths are not under way."""
        logic, known = self.engine.logic, conjuncts(path)
        for at, bar in self.state.bars.items():
            never = [c for c in bar.copies if any(
                logic.implies(known, logic.negate(p)) for p in c.path() if p.op != "lanes")]
            if never:
                self.state.bars[at] = replace(bar, copies=self._without(bar.copies, never))

    def _without(self, copies: Iterable[Copy], never: list[Copy]) -> tuple[Copy, ...]:
        for copy in never:
            self.engine.memory.shared.copying(copy.index, -1)
        return tuple(c for c in copies if all(c is not n for n in never))

    # -- copies
    def _bulk(self, op: Op) -> None:
        attr: BulkCopy = op.attr
        if attr.kind not in ("g2s", "s2g") or attr.dims not in (1, 2) or attr.multicast \
                or attr.ctas > 1 or attr.mode != "tile":
            raise GiveUp("tensor-copy", "a bulk copy of a kind that is not modelled", op.site)
        self.engine.found.premises |= {"tensor-map", "no-index-wrap"}
        lanes, rest = self._actors(op)
        if attr.kind == "g2s":
            for lane in lanes:
                self._fetch(op, lane, rest)
            return
        coords = {lane: [self._coordinate(s, lane) for s in op.src[1:1 + attr.dims]]
                  for lane in lanes}
        shape = [math.gcd(*(_step(c[i]) for c in coords.values())) for i in range(attr.dims)]
        for lane in lanes:
            self._put(op, lane, rest, coords[lane], shape)

    def _map(self, operand: Any, lane: int, op: Op) -> int:
        """Return the number of the parameter that holds a tensor map."""
        at = self._number(operand, lane)
        for p in self.engine.program.params:
            if at is not None and at == GENERIC_PARAM + p.offset_bytes and p.size_bytes == 128:
                return p.index
        raise GiveUp("tensor-copy", "a tensor map that is no parameter", op.site)

    def _coordinate(self, operand: Any, lane: int) -> Poly:
        engine = self.engine
        poly = engine.values.poly(engine.source(operand), 32)
        return engine.forest.gather_poly(poly, np.full(engine.lanes, lane, dtype=np.int64))

    def _fetch(self, op: Op, lane: int, rest: Node) -> None:
        engine, shared = self.engine, self.engine.memory.shared
        dims = op.attr.dims
        start, at = self._number(op.src[0], lane), self._number(op.src[2 + dims], lane)
        bar = self._bar(at, op)
        if start is None or bar.tx is None:
            raise GiveUp("tensor-copy", "a tile whose place or mbarrier is not known", op.site)
        name = self._map(op.src[1], lane, op)
        self.bounds.add(start)
        size = min(bar.tx, self._gap(start))
        values = engine.values
        coords = [values.node(self._coordinate(s, lane)) for s in op.src[2:2 + dims]]
        tile = engine.forest.make("tile", f"{name}.{start}.{size}", width=8 * size, args=coords)
        shared._grow(start + size + 1024)  # swizzling stays within 1024 bytes
        index = np.arange(start, start + size)
        me = np.array([lane])
        if some(shared.unordered_reads(index, me)) or shared.still_read(index):
            engine.problem("race", "a tile is fetched over bytes that may still be read")
        if some(shared.unordered_writes(index, me)) or any(
                copy.start == start for bar in self.state.bars.values() for copy in bar.copies):
            engine.problem("race", "a tile is fetched over bytes that may still be written")
        shared.copying(index, 1)
        # what a loop writes is forgotten after it: what holds throughout it need not be kept
        rest = engine.logic.given(rest, conjuncts(engine.loop_path))
        cond = None if rest is engine.forest.true else rest
        assert at is not None
        copy = Copy(start, index, lane, tile, cond, engine.loop_path)
        self.state.bars[at] = replace(bar, copies=(*bar.copies, copy))

    def _land(self, copy: Copy) -> None:
        """Everybody waited: the tile's bytes are there."""
        shared = self.engine.memory.shared
        shared.copying(copy.index, -1)
        shared.writer[copy.index] = len(shared.entries)
        shared.lane[copy.index] = copy.lane
        shared.off[copy.index] = np.arange(len(copy.index))
        shared.wrote[:, copy.index] = 0
        shared.entries.append(copy.tile)
        shared.conds.append(copy.cond)

    def unfold(self, entry: int, size: int, span: int) -> None:
        """Put a tile's elements where swizzling has them, rows of `span` bytes."""
        engine, shared = self.engine, self.engine.memory.shared
        tile, cond = engine.values.node(shared.entries[entry]), shared.conds[entry]
        start, count = (int(x) for x in tile.attr.split(".")[1:])
        lanes = engine.lanes
        versions = frozenset(engine.memory.versions.items())
        values = self.unfolded.get((tile, size, span, versions))
        if values is None:
            values = [self._tile_elements(tile, first, size, span)
                      for first in range(0, count // size, lanes)]
            self.unfolded[(tile, size, span, versions)] = values
        for first, value in zip(range(0, count // size, lanes), values, strict=True):
            offset = np.minimum(first + np.arange(lanes, dtype=np.int64), count // size - 1) * size
            at = _swizzled(start + offset, span)[:, None] + np.arange(size)
            own = shared.writer[at] == entry  # the rest belongs to other tiles by now
            shared.writer[at[own]] = len(shared.entries)
            shared.lane[at[own]] = np.broadcast_to(np.arange(lanes)[:, None], at.shape)[own]
            shared.off[at[own]] = np.broadcast_to(np.arange(size), at.shape)[own]
            shared.entries.append(value)
            shared.conds.append(cond)

    def _tile_elements(self, tile: Node, first: int, size: int, span: int) -> Value:
        """Return elements of a tile from number `first` on, one for each lane."""
        engine = self.engine
        name, _start, count = (int(x) for x in tile.attr.split("."))
        coords = [engine.values.poly(a, 32) for a in tile.args]
        e = first + np.arange(engine.lanes, dtype=np.int64)
        offset = np.minimum(e, count // size - 1) * size
        address, inside = self._element(name, coords, offset % span // size, offset // span, size)
        return engine.values.select(inside, engine.memory.leaf(address, 8 * size, late=True),
                                    constant(8 * size, 0), 8 * size)

    def _symbol(self, name: int, what: str, width: int, high: int) -> Node:
        return self.engine.forest.make("param", f"{name}.{what}+0", width=width, low=0, high=high)

    def _element(self, name: int, coords: list[Poly], x: Any, y: Any, size: int
                 ) -> tuple[Poly, Node]:
        """Return an element's address and whether it lies inside the tensor."""
        address = Poly(64, {(self._symbol(name, "base", 64, (1 << 64) - 1),): 1})
        tests: list[Node] = []
        for i, (c, step) in enumerate(zip(coords, (x, y), strict=False)):
            key = name, i, c.name(), step.tobytes(), size
            if key not in self.placed:  # elements of one row, and of one column, share it
                self.placed[key] = self._placed(name, i, c, step, size)
            inside, part = self.placed[key]
            tests += inside
            address = address.add(part)
        return address, self.engine.logic.conjunction(tests)

    def _placed(self, name: int, i: int, c: Poly, step: Any, size: int) -> tuple[list[Node], Poly]:
        """Return when a place along one dimension lies inside, and its part of the address."""
        place = self._exact(c).add(constant(0, step))
        bound = Poly(0, {(self._symbol(name, f"size{i}", 32, (1 << 31) - 1),): 1})
        inside = [self.engine.logic.at_least_zero(place),
                  self.engine.logic.at_least_zero(bound.sub(place).sub(constant(0, 1)))]
        stride = Poly(64, {(self._symbol(name, f"stride{i}", 64, 1 << 39),): 1})
        wide = place.to_width(64)
        return inside, wide.mul(stride) if i else wide.scale(size)

    def _exact(self, poly: Poly) -> Poly:
        """Return a coordinate as an integer (premise no-index-wrap)."""
        plain = all(not isinstance(c, np.ndarray) and c >= 0 and all(
            a.low is not None and a.low >= 0 for a in m) for m, c in poly.terms.items())
        return poly.to_width(0) if plain else self.engine.values.sext(poly, 32, 0)

    # -- stores
    def _put(self, op: Op, lane: int, rest: Node, coords: list[Poly], steps: list[int]) -> None:
        """Write a box of shared memory to a tensor: its steps over the grid give its shape."""
        engine, shared = self.engine, self.engine.memory.shared
        dims = op.attr.dims
        name, start = self._map(op.src[0], lane, op), self._number(op.src[1 + dims], lane)
        if start is None or dims != 2 or 0 in steps or start >= shared.size:
            raise GiveUp("tensor-copy", "a tile whose shape is not known", op.site)
        size = self.sizes[name] = self._elem_bytes(start) or self.sizes.get(name, 0)
        if not size:
            raise Unsized("tensor-copy", "a tile of literals, whose elements may be of any size",
                          op.site)
        span, count = steps[0] * size, steps[0] * steps[1]
        index = np.arange(start, start + count * size)
        if span not in SPANS or int(index[-1]) >= shared.size:
            raise GiveUp("tensor-copy", "a tile whose swizzle is not known", op.site)
        ordered = shared.ordered()[0]
        late = (shared.wrote[0, index] >= ordered) & (shared.lane[index] != lane)
        if some(late) or some(shared.early_write[0, index] >= ordered) or shared.under_way(index):
            engine.problem("race", "a tile is stored while its bytes may still be written")
        kept = engine.state.path, engine.guard
        known = [p for p in conjuncts(engine.case_path) if p is not engine.forest.true]
        rest = engine.logic.given(rest, known) if known else rest
        try:
            for first in range(0, count, engine.lanes):
                e = first + np.arange(engine.lanes, dtype=np.int64)
                mask = e < count
                offset = np.minimum(e, count - 1) * size
                address, inside = self._element(name, coords, offset % span // size,
                                                offset // span, size)
                value = shared.load(_swizzled(start + offset, span), 8 * size, mask, peek=True)
                engine.state.path = engine.case_path
                engine.guard = engine.logic.conjunction(
                    [rest, inside, engine.forest.lanes_node(mask)])
                engine.memory.emit("store", "", address, value, op)
        finally:
            engine.state.path, engine.guard = kept
        np.add.at(shared.busy, index, 1)
        engine.matrix.flights.issue(self.state.stores, (), (), (index,), lane)

    def _elem_bytes(self, at: int) -> int:
        """Return the size of the elements of which stored bytes are made; 0 if they are literal."""
        shared = self.engine.memory.shared
        writer = int(shared.writer[at])
        node = self.engine.values.node(shared.entries[writer]) if writer >= 0 else None
        while node is not None and node.op in ("gather", "mux", "select", "pack"):
            node = node.args[node.op == "select"]
        return node.width // 8 if node is not None and node.op != "int" else 0

    def _close_stores(self, op: Op) -> None:
        """Close a group in each lane that gets here."""
        lanes, cond = self.engine.memory.active()[0], self.engine.matrix.flights.where()
        sure = [bool(lanes[s.lane]) and self.engine.logic.implies(conjuncts(s.path), cond)
                for s in self.state.stores]
        self.state.closed += [s for s, yes in zip(self.state.stores, sure, strict=True) if yes]
        self.state.stores = [s for s, yes in zip(self.state.stores, sure, strict=True) if not yes]

    def _wait_stores(self, op: Op) -> None:
        """Stores of lanes that get here have read their tiles; others learn it by a barrier."""
        lanes, cond = self.engine.memory.active()
        if op.attr[0] or not cond.uniform:
            return
        shared, flights = self.engine.memory.shared, self.engine.matrix.flights
        mine = [s for s in self.state.closed if lanes[s.lane]]
        for step in mine:
            for index in step.index:
                shared.read_by(index, np.array([step.lane]))
        others = [s for s in self.state.closed if not lanes[s.lane]]
        self.state.closed = [*others, *flights.ended(mine, flights.where())]

    # -- loops
    def generalise(self, a: TileState, b: TileState, g: Any) -> TileState | None:
        """Return a state that is a at counter 0 and b at counter 1."""
        if a.bars.keys() != b.bars.keys() or not _same_steps(a, b):
            return None
        out = TileState({}, *(list(part) for part in b.loose()))
        for at, x in a.bars.items():
            y = b.bars[at]
            if not _one_phase(x, y):
                return None
            copies = []
            for p, q in zip(x.copies, y.copies, strict=True):
                tile, cond = g.node(p.tile, q.tile), q.cond
                if p.cond is not None and q.cond is not None:
                    cond = g.node(p.cond, q.cond)
                if tile is None or p.start != q.start or p.lane != q.lane \
                        or p.loop is not q.loop or (cond is None) != (q.cond is None) \
                        or (p.cond is None) != (cond is None):
                    return None
                copies.append(replace(q, tile=tile, cond=cond))
            out.bars[at] = replace(y, copies=tuple(copies))
        return out

    def matches(self, general: TileState, after: TileState, same: Any) -> bool:
        """Tell whether a state is the general one at the next counter."""
        if general.bars.keys() != after.bars.keys() or not _same_steps(general, after):
            return False
        for at, x in general.bars.items():
            y = after.bars[at]
            if not _one_phase(x, y):
                return False
            for p, q in zip(x.copies, y.copies, strict=True):
                if p.start != q.start or p.lane != q.lane or p.loop is not q.loop \
                        or not same(p.tile, q.tile) \
                        or (p.cond is None) != (q.cond is None) \
                        or (p.cond is not None and not same(p.cond, q.cond)):
                    return False
        return True

    def in_flight(self, state: TileState, goes_on: Node) -> list[Copy]:
        """Return the copies that may be under way where a loop does not go on."""
        logic = self.engine.logic
        return [c for bar in state.bars.values() for c in bar.copies
                if c.cond is None or not logic.implies(conjuncts(c.cond), goes_on)]


def _step(poly: Poly) -> int:
    """Return what all of a coordinate's literals are multiples of."""
    g = 0
    for c in poly.terms.values():
        if isinstance(c, np.ndarray) or c < 0:
            return 0
        g = math.gcd(g, c)
    return g


def _swizzled(at: Any, span: int) -> Any:
    """Return where swizzling has bytes of a tile with rows of `span` bytes."""
    bits = {128: 7, 64: 3, 32: 1}[span]
    return at ^ (((at >> 7) & bits) << 4)


def _one_phase(x: Bar, y: Bar) -> bool:
    """Tell whether two mbarriers are in one phase, but for the values of what is copied."""
    return (x.parity, x.tx, len(x.copies), x.cond) == (y.parity, y.tx, len(y.copies), y.cond) \
        and (x.steps is None) == (y.steps is None) and alike(x.steps or (), y.steps or ())


def _same_steps(a: TileState, b: TileState) -> bool:
    return all(alike(x, y) for x, y in zip(a.loose(), b.loose(), strict=True))


# --- loops that wait ---------------------------------------------------------------------------


def only_waits(engine: Engine, loop: Loop) -> bool:
    """Tell whether a loop does nothing but test an mbarrier until its phase is complete."""
    ops = list(body(engine, loop))
    tests = [op for op in ops if op.name == "mbar_test"]
    if len(tests) != 1 or any(OPS[op.name].kind not in ("control", "move") for op in ops
                              if op is not tests[0] and op.name != "nop"):
        return False
    back = [op for op in ops if op.name == "branch"]
    return len(back) == 1 and back[0].guard is not None and back[0].guard.neg \
        and back[0].guard.reg == tests[0].dst[0] and tests[0].guard is None


def wait(engine: Engine, loop: Loop, state: State) -> list[tuple[int, State]]:
    """A loop that only waits ends once, when what it waits for has come."""
    engine.tiles.waiting = True
    try:
        leaving = engine.region(loop.blocks, loop, loop.header, state)
    finally:
        engine.tiles.waiting = False
    return [(t, s) for t, states in leaving.items() if t != loop.header for s in states]
