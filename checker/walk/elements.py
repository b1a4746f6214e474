"""The test that covers an element: its own, where a compiler lets one test serve a group.

In: the guard of a load, the address of one of its elements. Out: the guard in which `v < n` is
`w < n`, w being the element's own place along k, where v and w lie between the same two multiples
of 2**j and n is one (premise `divisible`). Used only for an n of which the kernel shows that it
relies on it (`Forest.shared`). Which w is taken decides only how well kernels compare. A kernel
shows it, too, where one test serves loads of two rows of a tile (`Rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, is_number, some
from checker.tree.evaluate import MAX_SHARED
from checker.tree.logic import conjuncts
from checker.tree.nodes import Node, parameter_name
from checker.tree.poly import Poly, constant

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Rows", "own_tests"]

_Counted = dict[tuple[Node, ...], Any]  # products of loop counters -> coefficient


def own_tests(engine: Engine, guard: Node, address: Poly) -> Node:
    """Return a guard in which each shared test is that of the element at an address."""
    shared = engine.forest.shared
    if not shared:
        return guard
    old = conjuncts(guard)
    parts = [_own(engine, p, address) for p in old]
    if all(new is None for new in parts):
        return guard
    return engine.logic.conjunction(p if new is None else new
                                    for p, new in zip(old, parts, strict=True))


def _own(engine: Engine, p: Node, address: Poly) -> Node | None:
    """Return `w < n` for `v < n`, v a sum of counters and a literal; None: as it is."""
    if p.op != "ge0" or p.poly is None:
        return None
    size, tested = _tested(p.poly)
    if size not in engine.forest.shared:
        return None
    counted = {m: c for m, c in tested.terms.items() if m}
    gap = _gap(counted, tested.const, address)
    if not gap:
        return None
    step = min(MAX_SHARED, Poly(0, counted).tz()) if counted else MAX_SHARED
    v = np.broadcast_to(np.asarray(tested.const, dtype=np.int64), (engine.lanes,))
    w = v + gap
    together = v >> step == w >> step
    if not some(together):
        return None
    least = next(k for k in range(1, step + 1)
                 if every(v[together] >> k == w[together] >> k))
    engine.forest.premises.add(f"divisible:{size}%{1 << least}")
    moved = np.where(together, gap, 0).astype(np.int64)
    return engine.logic.at_least_zero(p.poly.sub(constant(0, moved)))


def _tested(poly: Poly) -> tuple[str | None, Poly]:
    """Return argN and v where `poly >= 0` says v < argN, v a sum of counters and a literal."""
    size, tested = None, Poly(0, {(): -1})
    for mono, c in poly.terms.items():
        name = parameter_name(mono[0]) if len(mono) == 1 and is_number(c, 1) else None
        if size is None and name is not None:
            size = name
        else:
            tested = tested.sub(Poly(0, {mono: c}))
    if any(a.op != "kappa" for m in tested.terms for a in m):
        return None, tested
    return size, tested


class Rows:
    """Which rows of a tile each test of a loop's loads serves.

    A test `v < n` of row v that a load of another row between the same two multiples of 2**j hangs
    on, too, relies on n being one. Rows lie a literal number of elements apart.
    """

    def __init__(self) -> None:
        self.behind: dict[Node, set[int]] = {}  # by test: how far behind v
        self.shown: set[str] = set()  # argN

    def note(self, engine: Engine, guard: Node, address: Poly) -> None:
        """Note the row that a load reads where its guard holds."""
        for p in conjuncts(guard):
            size, tested = _tested(p.poly) if p.op == "ge0" and p.poly is not None else (None, None)
            if size is None or tested is None or size in self.shown:
                continue
            gap = _rows_behind(tested, address)
            if gap is None:
                continue
            behind = self.behind.setdefault(p, set())
            behind.add(gap)
            if 0 in behind and len(behind) > 1:
                self.shown.add(size)


def _rows_behind(tested: Poly, address: Poly) -> int | None:
    """Return how many rows an element lies behind row v, in one group with it in every lane."""
    counted = {m: c for m, c in tested.terms.items() if m}
    if not counted:
        return None
    step = min(MAX_SHARED, Poly(0, counted).tz())
    v = np.atleast_1d(np.asarray(tested.const, dtype=np.int64))
    for poly in (*_widened(address), address):
        for place in _places(poly):
            (mono, c), *_rest = counted.items()
            unit = place.get(mono)
            if unit is None or isinstance(unit, np.ndarray) or isinstance(c, np.ndarray) \
                    or unit <= 0 or unit % c:
                continue
            unit //= c
            if {m for m in place if m} != set(counted) or any(
                    not np.array_equal(place[m], f * unit) for m, f in counted.items()):
                continue
            w = np.asarray(place.get((), 0), dtype=np.int64) // unit
            if every(w - v == (w - v)[0]) and every(v >> step == w >> step):
                return int((w - v)[0])
    return None


def _widened(address: Poly) -> list[Poly]:
    return [a.poly for m in address.terms for a in m
            if a.op in ("sext", "zext") and a.poly is not None]


def _gap(counted: _Counted, literal: Any, address: Poly) -> int:
    """Return how far an element lies behind the one tested, the same in all lanes; 0: unknown."""
    if not counted and not isinstance(literal, np.ndarray):
        return 0
    for poly in (*_widened(address), address):
        for place in _places(poly):
            for unit in (1, 2, 4, 8):
                gap = _distance(counted, literal, place, unit)
                if gap is not None:
                    return gap
    return 0


def _places(poly: Poly) -> list[_Counted]:
    """Return an index's parts: for each product of other symbols what it is multiplied with."""
    out: dict[tuple[Node, ...], _Counted] = {}
    for mono, c in poly.terms.items():
        rest = tuple(a for a in mono if a.op != "kappa")
        out.setdefault(rest, {})[tuple(a for a in mono if a.op == "kappa")] = c
    return list(out.values())


def _distance(counted: _Counted, literal: Any, place: _Counted, unit: int) -> int | None:
    if {m for m in place if m} != set(counted) or any(
            not np.array_equal(place[m], c * unit) for m, c in counted.items()):
        return None
    own = place.get((), 0)
    gap = np.atleast_1d(own - np.asarray(literal, dtype=np.int64) * unit)
    return int(gap[0]) // unit if gap[0] % unit == 0 and every(gap == gap[0]) else None
