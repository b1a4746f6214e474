"""Elements that several threads write, or several turns of a loop: which value stays.

In: the rows of one buffer, each an element that a lane of a store writes. Out: whether one element
has several values, and where nothing keeps their order. Threads of one block meet here; those of
other blocks are the premise `race-free`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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

__all__ = ["Movers", "conflict", "meet_again", "row_codes", "unordered"]


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


def unordered(engine: Engine, writers: Any, values: Any, coords: Any, places: Any) -> int | None:
    """Return the site of a store that meets another thread's, with another value and unordered.

    Those of one instruction are, and those with no barrier in between.
    """
    program = engine.program
    lane, site, in_block, in_warps = writers.T
    value, element = _numbers(values), _elements(coords, places)
    ways = [(site, lane), (in_block, lane // program.warp_size)]
    for together, writer in ways if program.lockstep else [*ways, (in_warps, lane)]:
        meeting = row_codes(np.column_stack((element, together)))
        order = np.lexsort((value, meeting))
        same = meeting[order][1:] == meeting[order][:-1]
        torn = set(meeting[order][1:][same & (value[order][1:] != value[order][:-1])].tolist())
        for i in np.flatnonzero(np.isin(meeting, list(torn))).tolist() if torn else ():
            others = (meeting == meeting[i]) & (value != value[i]) & (writer != writer[i])
            if bool(others.any()):
                return int(site[i])
    return None


def meet_again(steps: Sequence[int], coords: Any, places: Any, values: Any) -> int | None:
    """Return a row whose element another turn, or thread, writes with another value.

    steps: what each coordinate moves by from turn to turn; 0: it stays. Which of the two comes
    last, no form of the stores says.
    """
    if not any(steps):
        return None
    within = np.where(np.array(steps) > 0, coords % np.maximum(steps, 1), coords)
    element, value = _elements(within, places), _numbers(values)
    several = [_several(element, row_codes(coords)), _several(element, value)]
    found = np.flatnonzero(np.isin(element, np.intersect1d(*several)))
    return int(found[0]) if len(found) else None


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
        self.turns = self.threads = 0
        for bit, atom in engine.forest.bits.items():
            if atom.op == "kappa":
                self.turns |= bit
            elif atom.op == "sreg" and atom.attr.startswith("tid"):
                self.threads |= bit

    def of(self, nodes: Iterable[Node]) -> int:
        """Return which counters and thread indices some values depend on."""
        deps = 0
        for n in nodes:
            deps |= n.deps & ~LOW_BITS
        for bit, below in reversed(self.engine.forest.hidden.items()):
            if deps & bit:
                deps |= below
        return deps & (self.turns | self.threads)

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


def _fixed(guard: Node, atom: Node) -> bool:
    """Tell whether a guard holds for one value of a symbol only."""
    return any(p.op == "eq0" and p.poly is not None and (p.poly.sub(
        Poly(p.poly.width, {(): p.poly.const})).atom() is atom) for p in conjuncts(guard))
