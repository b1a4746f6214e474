"""Elements that several threads write, or several turns of a loop: which value stays.

In: the rows of one buffer, each an element that a lane of a store writes. Out: whether one element
has several values, and where nothing keeps their order. Threads of one block meet here; those of
other blocks are the premise `race-free`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import some
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node
from checker.tree.poly import Poly

if TYPE_CHECKING:
    from checker.tree.result import Slot
    from checker.tree.rewrite import Pivot
    from checker.walk.engine import Engine

__all__ = ["Movers", "Spans", "conflict", "meet_again", "row_codes", "unordered"]

_FAR = 1 << 62  # no bound


def row_codes(coords: Any) -> Any:
    """Return a number for each row, in the order of the rows."""
    low, high = coords.min(axis=0).tolist(), coords.max(axis=0).tolist()
    if math.prod(h - n + 1 for n, h in zip(low, high, strict=True)) >= 1 << 62:
        return np.unique(coords, axis=0, return_inverse=True)[1].ravel()
    out = np.zeros(len(coords), dtype=np.int64)
    for i, (n, h) in enumerate(zip(low, high, strict=True)):
        out = out * (h - n + 1) + (coords[:, i] - n)
    return out


def conflict(coords: Any, places: Any, digests: Any) -> bool:
    """Tell whether one element is written twice with different trees."""
    numbers = row_codes(coords)
    order = np.lexsort((numbers, places[:, 1], places[:, 0]))
    numbers, places, digests = numbers[order], places[order], digests[order]
    again = (numbers[1:] == numbers[:-1]) & (places[1:] == places[:-1]).all(axis=1)
    return some(again & (digests[1:] != digests[:-1]).any(axis=1))


def unordered(engine: Engine, writers: Any, values: Any, coords: Any, places: Any, spans: Spans
              ) -> int | None:
    """Return the site of a store that meets another thread's, with another value and unordered.

    Those of one instruction are, and those with no barrier in between.
    """
    program = engine.program
    lane, site, in_block, in_warps = writers.T
    value, element = _numbers(values), _elements(coords, places)
    ways = [(site, lane), (in_block, lane // program.warp_size)]
    for together, writer in ways if program.lockstep else [*ways, (in_warps, lane)]:
        meeting = row_codes(np.column_stack((element, together)))
        row = _meeting(meeting, _several(meeting, value), (value, writer), spans)
        if row is not None:
            return int(site[row])
    return None


def meet_again(steps: Sequence[int], coords: Any, places: Any, values: Any, spans: Spans
               ) -> int | None:
    """Return a row whose element another turn, or thread, writes with another value.

    steps: what each coordinate moves by from turn to turn; 0: it stays. Which of the two comes
    last, no form of the stores says.
    """
    if not any(steps):
        return None
    within = np.where(np.array(steps) > 0, coords % np.maximum(steps, 1), coords)
    element, value, place = _elements(within, places), _numbers(values), row_codes(coords)
    several = np.intersect1d(_several(element, place), _several(element, value))
    return _meeting(element, several, (place, value), spans)


def _meeting(element: Any, several: Any, unlike: Sequence[Any], spans: Spans) -> int | None:
    """Return a row that writes one of some elements, as another row does that is unlike it."""
    found = np.flatnonzero(np.isin(element, several)) if len(several) else several
    if not len(found):
        return None
    low, high = spans.bounds()
    found = found[(low[found] <= high[found]).all(axis=1)]  # others never write
    found = found[np.argsort(element[found], kind="stable")]
    edges = np.flatnonzero(np.diff(element[found])) + 1
    for start, end in pairwise([0, *edges.tolist(), len(found)]):
        rows = found[start:end]
        for i in rows.tolist():
            meets = ((low[rows] <= high[i]) & (low[i] <= high[rows])).all(axis=1)
            for column in unlike:
                meets &= column[rows] != column[i]
            if some(meets):
                return int(i)
    return None


def _elements(coords: Any, places: Any) -> Any:
    """Return a number for each element: its coordinates, and the hash of the rest of its place."""
    return row_codes(np.column_stack((row_codes(coords), _numbers(places))))


def _numbers(hashes: Any) -> Any:
    """Return a number for each hash."""
    return np.unique(hashes, axis=0, return_inverse=True)[1].ravel()


def _several(element: Any, own: Any) -> Any:
    """Return the elements that have more than one of something."""
    pairs = np.unique(np.column_stack((element, own)), axis=0)
    which, count = np.unique(pairs[:, 0], return_counts=True)
    return which[count > 1]


class Movers:
    """What differs between the turns of a loop, and between threads that have no lane."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.turns = self.threads = self.running = 0
        for bit, atom in engine.forest.bits.items():
            if atom.op == "kappa":
                self.turns |= bit
            elif atom.op == "phi":
                self.running |= bit
            elif atom.op == "sreg" and atom.attr.startswith("tid"):
                self.threads |= bit

    def of(self, nodes: Iterable[Node]) -> int:
        """Return which counters and thread indices some values depend on."""
        return self._symbols(nodes) & (self.turns | self.threads)

    def _symbols(self, nodes: Iterable[Node]) -> int:
        deps = 0
        for n in nodes:
            deps |= n.deps & ~LOW_BITS
        for bit, below in reversed(self.engine.forest.hidden.items()):
            if deps & bit:
                deps |= below
        return deps

    def stays(self, mono: Iterable[Node]) -> bool:
        """Tell whether a product is one number in all threads of a block and turns of its loops."""
        return self.engine.known_block and all(a.uniform and not a.tainted for a in mono) \
            and not self._symbols(mono) & (self.turns | self.threads | self.running)

    def steps(self, pivots: Sequence[Pivot]) -> list[int]:
        """Return what the coordinates move by within a block."""
        return [math.gcd(*(c for m, c in (((p.atom,), p.scale), *p.others) if self.of(m)), 0)
                for p in pivots]

    def told_apart(self, slot: Slot, pivots: Sequence[Pivot]) -> bool:
        """Tell whether the coordinates of an element tell which turn of a loop writes it."""
        event = slot.event
        tags = [n for n in event.loops if n.op == "reached"]
        held = self.of(a for p in pivots for m in ((p.atom,), *(m for m, _c in p.others))
                       for a in m)
        return not tags or not self.of((slot.value, event.guard, *tags)) & self.turns & ~held

    def loose(self, slot: Slot, raw: int, guards: bool) -> bool:
        """Tell whether threads that write one element may write different values there.

        raw: what is told as it stands, not by coordinates; guards: whether it counts, too, which
        of them write. Only where threads have no lanes.
        """
        event = slot.event
        if not self.of((slot.value, *event.loops, *((event.guard,) if guards else ()))) \
                & self.threads:
            return False
        flat = self._flat(slot.address)
        return any(not self._pinned(flat, atom) and (guards or not _fixed(event.guard, atom))
                   for bit, atom in self.engine.forest.bits.items() if raw & self.threads & bit)

    def _pinned(self, flat: dict[Any, Any], atom: Node) -> bool:
        """Tell whether an address tells one thread index from another."""
        for parts in flat.values():
            moving = {m: c for m, c in parts.items() if self.of(m) & self.threads}
            if moving.keys() == {(atom,)} and not isinstance(moving[(atom,)], np.ndarray):
                return True
        return False

    def _flat(self, poly: Poly, times: Any = 1, out: dict[Any, Any] | None = None
              ) -> dict[Any, Any]:
        """Return a sum by what stays within a block: for each product of that, what it multiplies.

        What is widened counts as it stands, as in coordinates (premise no-index-wrap).
        """
        out = {} if out is None else out
        for mono, c in poly.terms.items():
            if len(mono) == 1 and mono[0].op in ("sext", "zext") and mono[0].poly is not None:
                self._flat(mono[0].poly, times * c, out)
                continue
            moving = tuple(a for a in mono if self.of((a,)))
            parts = out.setdefault(tuple(a for a in mono if a not in moving), {})
            parts[moving] = parts.get(moving, 0) + times * c
        return out

    def cross(self, slots: Sequence[Slot]) -> int | None:
        """Return the site of a store in a loop that meets another lane's of another turn.

        For stores that no coordinates tell: one element's bytes are another's as literals say.
        """
        families: dict[Any, list[tuple[Slot, int, Any]]] = {}
        for slot in slots:
            flat = self._flat(slot.address)
            own = flat.pop((), {})
            at = own.pop((), 0)
            moving = {m: c for m, c in own.items() if self.of(m)}
            others = [m for parts in flat.values() for m in parts if len(m) != 1 and self.of(m)]
            if others or any(len(m) != 1 or m[0].op != "kappa" or isinstance(c, np.ndarray)
                             for m, c in moving.items()):
                return int(slot.event.site)
            if moving:
                name = Poly(0, {m: c for m, c in slot.address.terms.items() if m}).key()
                families.setdefault(name, []).append((slot, math.gcd(*moving.values()), at))
        for members in families.values():
            taken: dict[int, tuple[int, Node]] = {}
            for slot, step, at in members:
                places = np.broadcast_to(at, (self.engine.lanes,))
                for lane in np.flatnonzero(slot.lanes).tolist():
                    for byte in range(int(places[lane]), int(places[lane]) + slot.value.width // 8):
                        held = taken.setdefault(byte % step, (byte, slot.value))
                        if held[0] != byte:
                            return int(slot.event.site)
        return None


class Spans:
    """Where the elements lie that rows may write, as far as the guards of their stores say.

    A guard bounds a sum that all of a block agree on, or such a sum and the coordinate of the
    element itself, where what moves in it is what moves the coordinate. Two rows that write one
    element write it where the bounds of both hold.
    """

    def __init__(self, movers: Movers) -> None:
        self.movers, self.count = movers, 0
        self.rows: list[tuple[Slot, Sequence[Pivot], Any, Any]] = []
        self.found: dict[Any, tuple[Any, Any]] = {}

    def add(self, slot: Slot, pivots: Sequence[Pivot], lanes: Any, coords: Any) -> None:
        """Add the rows of a slot: their lanes, and their elements' coordinates [lanes, pivots]."""
        self.rows.append((slot, pivots, lanes, coords))
        self.count += len(lanes)

    def bounds(self) -> tuple[Any, Any]:
        """Return the least and the largest value of each sum, [rows, sums]."""
        at = 0
        for slot, pivots, lanes, coords in self.rows:
            for p in conjuncts(slot.event.guard):
                if p.op == "ge0" and p.poly is not None:
                    self._bound(p.poly, pivots, slice(at, at + len(lanes)), lanes, coords)
            at += len(lanes)
        if not self.found:
            none = np.zeros((self.count, 0), dtype=np.int64)
            return none, none
        low, high = zip(*self.found.values(), strict=True)
        return np.stack(low, axis=1), np.stack(high, axis=1)

    def _bound(self, poly: Poly, pivots: Sequence[Pivot], rows: slice, lanes: Any, coords: Any
               ) -> None:
        """Take `poly >= 0` for a bound, if it is one."""
        rest = {m: c for m, c in poly.terms.items() if m}
        if not rest or any(isinstance(c, np.ndarray) for c in rest.values()):
            return
        literal = poly.const[lanes] if isinstance(poly.const, np.ndarray) else poly.const
        moving = {m: c for m, c in rest.items() if not self.movers.stays(m)}
        staying = {m: c for m, c in rest.items() if m not in moving}
        axis, start, sign = -1, 0, 1
        if moving:
            found = self._axis(moving, pivots)
            if found is None:
                return
            axis, sign, up, down = found
            if any(c * up % down for c in staying.values()):
                return
            staying = {m: c * up // down for m, c in staying.items()}
            literal, start = literal * up // down, coords[:, axis]
            moving = {m: sign * c * up // down for m, c in moving.items()}
        elif min(staying.items(), key=lambda t: [a.serial for a in t[0]])[1] < 0:
            sign = -1
        staying = {m: sign * c for m, c in staying.items()}
        # sign * (moving + staying) + literal >= 0; a coordinate is what moves, its start, the rest
        rest = {m: c for m, c in _terms(pivots[axis]).items() if self.movers.stays(m)} \
            if moving else {}
        name = axis, Poly(0, staying).key(), Poly(0, rest).key()
        if name not in self.found:
            self.found[name] = (np.full(self.count, -_FAR), np.full(self.count, _FAR))
        low, high = self.found[name]
        whole = Poly(0, {**moving, **staying}).range()
        if whole is not None and max(map(abs, whole)) < _FAR // 2:
            low[rows] = np.maximum(low[rows], start + whole[0])
            high[rows] = np.minimum(high[rows], start + whole[1])
        if sign > 0:
            low[rows] = np.maximum(low[rows], start - literal)
        else:
            high[rows] = np.minimum(high[rows], start + literal)

    def _axis(self, moving: dict[Any, Any], pivots: Sequence[Pivot]
              ) -> tuple[int, int, int, int] | None:
        """Return the coordinate that moves as a sum does: sign * up / down times the sum."""
        for i, p in enumerate(pivots):
            own = {m: c for m, c in _terms(p).items() if not self.movers.stays(m)}
            if own.keys() != moving.keys():
                continue
            first = next(iter(own))
            up, down = own[first], moving[first]
            if all(own[m] * down == moving[m] * up for m in own):
                return i, 1 if (up > 0) == (down > 0) else -1, abs(up), abs(down)
        return None


def _terms(pivot: Pivot) -> dict[Any, Any]:
    """Return the sum that a coordinate is, but for where the element lies in its tile."""
    return {(pivot.atom,): pivot.scale, **dict(pivot.others)}


def _fixed(guard: Node, atom: Node) -> bool:
    """Tell whether a guard holds for one value of a symbol only."""
    return any(p.op == "eq0" and p.poly is not None and (p.poly.sub(
        Poly(p.poly.width, {(): p.poly.const})).atom() is atom) for p in conjuncts(guard))
