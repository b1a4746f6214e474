"""Buffers that are both read and written: what an element reads is what was there before.

In: a finished walk. Out: why that is not shown. What a lane reads may be stored to by that lane, by
others of its warp (premise `warp-order`, where lanes do not go in lockstep and no barrier of theirs
stands behind the last load), or by others once all have come to a barrier behind the last load.
Threads of other blocks, which the premise `race-free` rules out, would be the only ones to store to
what this block does not: that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import places, some
from checker.tree.nodes import Node
from checker.tree.poly import Poly
from checker.tree.result import Slot
from checker.walk.below import below
from checker.walk.memory import NEVER
from checker.walk.outputs import slots_of

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["mixed_updates", "read_and_written"]

_MIXED = "a buffer is written by atomic operations and in another way: in which order is not fixed"
_OTHER = "a buffer is read and written: an element may read another"
_WARPS = "a buffer is read and written: another warp may write first"


def read_and_written(engine: Engine) -> list[tuple[int, str]]:
    """Return (site, why) for stores of what may have been read after it was written."""
    stores = engine.found.stores
    written = {e.base for e in stores}
    both = {b for b in engine.found.loaded if b in written or b is engine.forest.true
            or None in written}
    if not both or not stores:
        return []
    if None in written:  # a store that may go anywhere
        return [(next(e.site for e in stores if e.base is None), _OTHER)]
    reads = _Reads(engine, both)
    found: dict[Node | None, tuple[int, str]] = {}
    for slot in reads.slots:
        why = reads.late(slot)
        if why is not None:
            found.setdefault(slot.event.base, (slot.event.site, why))
    return list(found.values())


def mixed_updates(engine: Engine) -> list[tuple[int, str]]:
    """Return (site, why) where a buffer is updated by atomics and by anything else.

    Atomics of one kind come in any order; a sum and a maximum, words of two sizes, or an atomic and
    a store do not. Whether they meet in one element is not looked at.
    """
    stores = engine.found.stores
    ways: dict[Node | None, set[str]] = {}
    for e in stores:
        op, kind = ("store", "") if e.kind != "atomic" else e.attr.split(".")[:2]
        if op not in ("min", "max") and kind[:1] in ("s", "u"):
            kind = "b" + kind[1:]  # the sign plays no part
        ways.setdefault(e.base, set()).add(f"{op}.{kind}")
    everywhere = ways.get(None, set())
    found: dict[Node | None, tuple[int, str]] = {}
    for e in stores:
        here = ways[e.base] | everywhere if e.base is not None else set().union(*ways.values())
        if len(here) > 1 and here != {"store."}:
            found.setdefault(e.base, (e.site, _MIXED))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Written:
    """Bytes of a buffer that a block stores to: what all addresses share, by whom each is taken."""

    shared: Any
    taken: dict[int, set[int]]
    span: int


class _Reads:
    """What outputs are made of, looked at for elements of the buffers `bases`."""

    def __init__(self, engine: Engine, bases: set[Node]) -> None:
        self.engine, self.bases = engine, bases
        self.slots = slots_of(engine, engine.found.stores)
        self.size = engine.program.warp_size
        self.written: dict[Node, _Written | None] = {}
        self.known: dict[tuple[Node, bytes], str | None] = {}

    def late(self, slot: Slot) -> str | None:
        """Return why an output may read an element that was written in the meantime."""
        work = [(n, slot.lanes) for n in (slot.value, slot.guard, *slot.event.loops,
                                          *(a for m in slot.address.terms for a in m))]
        seen: dict[Node, Any] = {}
        while work:
            node, lanes = work.pop()
            before = seen.get(node)
            if before is not None and not some(lanes & ~before):
                continue
            seen[node] = lanes if before is None else lanes | before
            work += below(node, lanes)
            if node.op == "load" and node.poly is not None:
                why = self._load(node, lanes)
                if why is not None:
                    return why
        return None

    def _load(self, node: Node, lanes: Any) -> str | None:
        name = node, lanes.tobytes()
        if name not in self.known:
            self.known[name] = self._overtaken(node, lanes)
        return self.known[name]

    def _overtaken(self, node: Node, lanes: Any) -> str | None:
        """Return why what some lanes load may have been stored to by others."""
        engine, memory = self.engine, self.engine.memory
        assert node.poly is not None
        base = memory.base(node.poly)
        if base is None:
            touched = node.attr != "global.0" or engine.forest.true in self.bases
            return _OTHER if touched else None
        if base not in self.bases:
            return None
        if base not in self.written:
            self.written[base] = self._stores(base)
        written, place = self.written[base], _place(engine, node.poly)
        if node.attr != "global.0" or written is None or place is None \
                or place[0] != written.shared or memory.last_read[base] == NEVER \
                or (place[2] is not None and written.span > place[2]):
            return _OTHER
        in_block, in_warps = (a < b for a, b in zip(
            memory.last_read[base], memory.first_write[base], strict=True))
        in_warps = in_warps or engine.program.lockstep
        at = np.broadcast_to(place[1], (engine.lanes,))
        for lane in places(lanes).tolist():
            for byte in range(int(at[lane]), int(at[lane]) + node.width // 8):
                by = written.taken.get(byte)
                if by is None:
                    return _OTHER
                if by == {lane} or in_block:
                    continue
                if {other // self.size for other in by} != {lane // self.size}:
                    return _WARPS
                if not in_warps:
                    engine.found.premises.add("warp-order")
        return None

    def _stores(self, base: Node) -> _Written | None:
        """Return what the block stores to in a buffer; None: not known."""
        shared: Any = None
        taken: dict[int, set[int]] = {}
        for slot in self.slots:
            if slot.event.base is not base:
                continue
            place = _place(self.engine, slot.address)
            if slot.event.kind != "store" or place is None or shared not in (None, place[0]):
                return None
            shared = place[0]
            at = np.broadcast_to(place[1], (self.engine.lanes,))
            for lane in places(slot.lanes).tolist():
                for byte in range(int(at[lane]), int(at[lane]) + slot.value.width // 8):
                    taken.setdefault(byte, set()).add(lane)
        return _Written(shared, taken, max(taken) + 1 - min(taken)) if taken else None


def _place(engine: Engine, address: Poly) -> tuple[Any, Any, int | None] | None:
    """Return what of an address all lanes share, each lane's bytes behind it, a loop's stride.

    None where lanes differ in more than literals: two lanes' elements may be one. A literal inside
    of a widened sum counts as it stands: where the sum wraps, lanes are further apart, not closer.
    """
    loops = 0
    for bit, atom in engine.forest.bits.items():
        loops |= bit if atom.op == "kappa" else 0
    place: Any = address.const
    outside = {m: c for m, c in address.terms.items() if m}
    inside: dict[Any, Any] = {}
    scale, names = 1, []
    widened = [m for m in outside if len(m) == 1 and m[0].op in ("sext", "zext")
               and m[0].poly is not None and _varies(m[0].poly, loops)]
    if len(widened) > 1:
        return None
    for mono in widened:
        poly, scale = mono[0].poly, outside.pop(mono)
        assert poly is not None
        if isinstance(scale, np.ndarray) or scale < 1:
            return None
        engine.found.premises.add("no-index-wrap")
        place = place + scale * poly.const
        inside = {m: c for m, c in poly.terms.items() if m}
        names = [mono[0].op, mono[0].attr, scale]
    if any(isinstance(c, np.ndarray) or not all(a.uniform for a in m)
           for m, c in (*outside.items(), *inside.items())):
        return None
    counters = [(m, int(c) * times) for terms, times in ((outside, 1), (inside, scale))
                for m, c in terms.items() if any(a.deps & loops for a in m)]
    if len(counters) > 1 or any(len(m) > 1 or m[0].op != "kappa" for m, _c in counters):
        return None
    shared = (*names, Poly(64, outside).name(), Poly(0, inside).name())
    return shared, place, abs(counters[0][1]) if counters else None


def _varies(poly: Poly, loops: int) -> bool:
    """Tell whether a sum differs from lane to lane, or from turn to turn of a loop."""
    return any(isinstance(c, np.ndarray) or any(a.deps & loops or not a.uniform for a in m)
               for m, c in poly.terms.items())
