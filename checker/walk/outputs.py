"""From stores to the canonical form: output coordinates, one hash an element, coverage.

In: the engine after its run. Out: `OutputGroup`s: for each buffer the set of (element as function
of the output coordinates, tree) and which coordinates are written. A tile that covers a complete
residue system of its coordinates is said to be complete, so tile shapes drop out; any other set is
kept as it stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import places, some
from checker.tree.contexts import Contexts
from checker.tree.evaluate import Conflict, bounds_of, shows_sharing, split
from checker.tree.hashing import Hash, hex_of, key, kinds, mix, ordered
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node
from checker.tree.poly import Poly, constant
from checker.tree.result import Element, OutputGroup, Slot
from checker.tree.rewrite import Facts, Pivot, Rewriter, Scope
from checker.tree.values import Value
from checker.walk.fractions import by_place
from checker.walk.order import tests_the_last_tile, visits_every_tile
from checker.walk.state import StoreEvent
from checker.walk.writers import Movers, Spans, conflict, meet_again, row_codes, unordered

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["group_outputs", "slots_of"]

_TOKENS = ("iop", "imin_s", "imin_u", "imax_s", "imax_u")
_WRITERS = "threads write different values to one element, in no order"
_TURNS = "turns of a loop write different values to one element"
MULTIPLY_ADDS = 4  # in turn on one running value: a matrix product without matrix instructions
COORDINATE_LIMIT = (1 << 31) - 1  # premise no-index-wrap: an output's index stays below


def _split(engine: Engine, event: StoreEvent) -> list[tuple[Poly, Node, int]]:
    """Split a stored value into its parts; a mere copy into bytes."""
    values = engine.values
    node = event.value
    parts: list[tuple[int, Node]] = []

    def cut(v: Value, at: int) -> None:
        n = values.node(v)
        edges = sorted(_cuts(n))
        if len(edges) > 2:
            for low, high in pairwise(edges):
                cut(values.extract(n, low, high - low), at + low)
        elif n.width > 8 and n.width % 8 == 0 and _is_copy(n):
            for i in range(0, n.width, 8):
                parts.append((at + i, values.node(values.extract(n, i, 8))))
        else:
            parts.append((at, n))

    if event.kind == "store":
        cut(node, 0)
    else:
        parts.append((0, node))
    if any(at % 8 for at, _n in parts):
        parts = [(0, node)]
    return [(event.address.add(constant(64, at // 8)), n, at // 8) for at, n in parts]


def _cuts(node: Node, depth: int = 16) -> set[int]:
    """Return where the parts of a value meet, looking through moves between lanes."""
    if node.op == "pack":
        cuts, at = {0}, 0
        for part in node.args:
            cuts |= {at + c for c in _cuts(part, depth - 1)} if depth else set()
            at += part.width
            cuts.add(at)
        return cuts
    cuts = {0, node.width}
    if depth and node.op in ("gather", "mux", "select"):
        for arg in node.args[node.op == "select":]:
            cuts |= _cuts(arg, depth - 1)
    return cuts


def _is_copy(node: Node, depth: int = 12) -> bool:
    """Tell whether a value only moves bytes that are loaded, literal, or there by chance."""
    if node.op in ("load", "undef") or (
            node.op == "int" and node.poly is not None and node.poly.is_const):
        return True
    if depth == 0 or node.op not in ("gather", "mux", "select", "pack"):
        return False
    if node.op == "select" and _reads(node.args[0]):
        return False
    args = node.args[1:] if node.op == "select" else node.args
    return all(_is_copy(a, depth - 1) for a in args)


def _reads(p: Node, depth: int = 12) -> bool:
    """Tell whether a condition depends on loaded data."""
    return p.op == "load" or depth == 0 or any(_reads(k, depth - 1) for k in p.kids)


def slots_of(engine: Engine, stores: list[StoreEvent]) -> list[Slot]:
    """Return every part that stores write, in their order."""
    out: list[Slot] = []
    for event in stores:
        mask = np.ones(engine.lanes, dtype=bool)
        rest: list[Node] = []
        for p in conjuncts(event.guard):
            if p.op == "lanes" and p.table is not None:
                mask &= p.table
            else:
                rest.append(p)
        if not some(mask):
            continue
        guard = engine.logic.conjunction(rest)
        for address, node, at in _split(engine, event):
            out.append(Slot(event, address, node, guard, mask, event.first + at))
    return out


# --- coordinates ------------------------------------------------------------------------------


def is_launch(node: Node, engine: Engine) -> bool:
    """Tell whether an atom is a block coordinate (or a token computed from one)."""
    if node.op == "sreg":
        return node.attr.startswith("ctaid") or node.attr.startswith("tid")
    if node.op == "kappa":
        return True
    return node.op in _TOKENS and bool(node.deps & engine.forest.grid_bits)


def find_pivots(engine: Engine, poly: Poly, path: str, unit: int,
                pivots: dict[Node, Pivot], cast: bool = False) -> None:
    """Collect the coordinates of an address: for each parameter part, its block index.

    unit: bytes of an element, or 1 where the address counts elements; cast: inside a widened sum.
    """
    groups: dict[tuple[Node, ...], dict[Any, Any]] = {}
    for mono, c in poly.terms.items():
        launch = tuple(a for a in mono if is_launch(a, engine) or _block_part(a, engine))
        if launch:  # a number of tiles belongs to the block index it multiplies
            launch = tuple(a for a in mono if a in launch or (a.uniform and a.op in _TOKENS))
        rest = tuple(a for a in mono if a not in launch)
        groups.setdefault(rest, {})[launch] = c
    ranked = sorted(groups.items(), key=lambda kv: _rest_key(kv[0]))
    for rest, parts in ranked:
        singles = [(m[0], c) for m, c in parts.items() if len(m) == 1 and m[0] not in pivots
                   and not isinstance(c, np.ndarray) and c > 0]
        # a plain block index first: it is in no other index's definition
        singles.sort(key=lambda item: (item[0].op != "sreg", item[1], item[0].attr))
        if not singles:
            continue
        others = {m: c for m, c in parts.items() if m and m != (singles[0][0],)}
        pivot = _pivot(engine, singles[0], parts.get((), 0), poly.width,
                       f"{path}|{_rest_key(rest)}", 1 if rest and not cast else unit, others)
        if pivot is not None and pivot.atom not in pivots and pivot.scale > 0:
            pivots[pivot.atom] = pivot
    casts = [(a, c) for mono, c in poly.terms.items() for a in mono
             if a.op in ("sext", "zext") and a.poly]
    casts.sort(key=lambda item: _shape_key(item[0]))
    for atom, c in casts:  # an offset may count bytes before it is widened
        assert atom.poly is not None
        plain = not isinstance(c, np.ndarray)
        inner = unit // math.gcd(unit, c) if plain else 1
        index = atom.poly
        # Where an element lies in its tile may stand behind the widening.
        if plain and c > 0 and bool(np.all(np.asarray(poly.const) % c == 0)) \
                and len(casts) == 1:
            index = index.add(constant(index.width, poly.const // c))
        find_pivots(engine, index, f"{path}/{atom.op}", inner, pivots, True)


def _pivot(engine: Engine, single: tuple[Node, int], offset: Any, width: int, path: str,
           unit: int, others: dict[Any, Any]) -> Pivot | None:
    """Return the coordinate y = scale * atom + others + offset that a group of an address defines.

    Where the index is widened as a whole, unit * (ext(index) + offset), y lives inside the cast,
    and counts elements if what is widened counts bytes.
    """
    atom, scale = single
    lifted = None
    if atom.poly is not None:
        if others:
            return None
        lifted, outer, unit = atom, scale, unit // math.gcd(unit, scale)
        inside = dict(lifted.poly.terms)  # type: ignore[union-attr]
        if unit > 1 and all(not isinstance(c, np.ndarray) and c % unit == 0
                            for c in inside.values()):  # bytes are counted inside
            inside = {m: c // unit for m, c in inside.items()}
            unit *= outer
        else:
            unit = outer
        atom, scale, others = _leader(inside)
        width = lifted.poly.width  # type: ignore[union-attr]
    elif scale % unit == 0 and all(not isinstance(c, np.ndarray) and c % unit == 0
                                   for c in others.values()):
        scale //= unit
        others = {m: c // unit for m, c in others.items()}
    else:
        unit = 1
    if any(isinstance(c, np.ndarray) for c in others.values()):
        return None
    offset = offset // unit
    bounds = Poly(0, {(atom,): scale}).add(constant(0, offset)).range()
    top = COORDINATE_LIMIT if unit > 1 or width < 64 else 1 << 62
    if bounds is None or others or bounds[0] < 0 or bounds[1] >= min(
            top, 1 << ((width or 63) - 1)):
        engine.found.premises.add("no-index-wrap")
    y = engine.forest.make("y", f"{path}|{top.bit_length()}", width=64, low=0, high=top - 1)
    return Pivot(atom, y, scale, offset, lifted, tuple(others.items()))


def _leader(terms: dict[Any, Any]) -> tuple[Node, int, dict[Any, Any]]:
    """Return the block index that a sum of them is solved for, its scale, and the other terms."""
    singles = [(m[0], c) for m, c in terms.items() if len(m) == 1 and c > 0]
    singles.sort(key=lambda item: (item[0].op != "sreg", item[1], item[0].attr))
    atom, scale = singles[0]
    return atom, scale, {m: c for m, c in terms.items() if m != (atom,)}


def _block_part(atom: Node, engine: Engine) -> bool:
    """Tell whether an atom is a sum of block indices times literals, widened."""
    if atom.op not in ("sext", "zext") or atom.poly is None:
        return False
    for m, c in atom.poly.terms.items():
        if isinstance(c, np.ndarray) or not any(is_launch(a, engine) for a in m) \
                or not all(is_launch(a, engine) or (a.uniform and a.op in _TOKENS) for a in m):
            return False
    return any(len(m) == 1 and c > 0 for m, c in atom.poly.terms.items())


def _rest_key(rest: tuple[Node, ...]) -> str:
    return ",".join(sorted(_shape_key(a) for a in rest))


def _shape_key(atom: Node) -> str:
    """Name a parameter part without lanes: its operator, attribute, and its symbols' names."""
    if atom.poly is None:
        return f"{atom.op}:{atom.attr}"
    inner = sorted(
        "*".join(sorted(f"{a.op}:{a.attr}" for a in mono)) for mono in atom.poly.terms if mono)
    return f"{atom.op}:{atom.attr}({'+'.join(inner)})"


# --- groups -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    """Elements of one buffer before they are classed."""

    coords: list[Any] = field(default_factory=list)  # [lanes][coordinates]
    digests: list[Any] = field(default_factory=list)  # [lanes][2]
    places: list[Any] = field(default_factory=list)  # [lanes][2], hash of the address alone
    values: list[Any] = field(default_factory=list)  # [lanes][2], hash of the value alone
    writers: list[Any] = field(default_factory=list)  # [lanes][lane, instruction, two turns]
    spans: Spans | None = None  # where the elements lie that each row may write
    steps: list[int] = field(default_factory=list)  # what coordinates move by within a block
    strays: list[Slot] = field(default_factory=list)  # of which they do not tell the turn
    loose: list[Slot] = field(default_factory=list)  # see `Movers.loose`, whoever writes
    slots: list[Slot] = field(default_factory=list)
    index: list[Any] = field(default_factory=list)  # [lanes][slot, pair]


@dataclass(slots=True)
class _Member:
    """A slot with its coordinates: offsets [lanes, coordinates], and its rows of the contexts."""

    slot: Slot
    pivots: dict[Node, Pivot]
    place: int  # which element of its instruction
    lanes: Any = None
    offsets: Any = None
    rows: Any = None

    def known(self) -> list[Node]:
        """Return the conditions that hold where the slot is written."""
        p = self.slot.guard
        return [k for k in conjuncts(p) if k.op != "lanes"]


def group_outputs(engine: Engine) -> list[OutputGroup]:
    """Return the canonical outputs of a finished walk."""
    engine.forest.shared |= engine.memory.rows.shown
    slots = slots_of(engine, by_place(engine, engine.found.stores))
    unit: dict[Node | None, int] = {}
    for slot in slots:
        width = slot.value.width // 8 or 1
        old = unit.get(slot.event.base, width)
        unit[slot.event.base] = min(old, width)
    families: dict[Any, list[_Member]] = {}
    for slot in slots:
        pivots: dict[Node, Pivot] = {}
        find_pivots(engine, slot.address, "", unit[slot.event.base], pivots)
        shape = tuple((a.serial, p.y.serial, p.scale, tuple(
            (tuple(x.serial for x in m), c) for m, c in p.others)) for a, p in pivots.items())
        place = slot.at // unit[slot.event.base]
        families.setdefault(shape, []).append(_Member(slot, pivots, place))
    prepared = []
    for members in families.values():
        try:
            prepared.append(_Family(engine, members))
        except Conflict:  # everything stays as it is, block indices and all
            prepared.append(_Family(engine, [_Member(m.slot, {}, m.place) for m in members]))
    buffers: dict[tuple[Any, str], dict[Any, _Rows]] = {}
    for family in prepared:  # what stores show of sizes is known for all of them now
        try:
            family.add_to(buffers)
        except Conflict:
            _Family(engine, [_Member(m.slot, {}, m.place) for m in family.members]).add_to(buffers)
    return [_finish(engine, base, kind, by_shape) for (base, kind), by_shape in buffers.items()]


def _holds_matrix(value: Node) -> bool:
    """Tell whether a value comes out of matrix steps, or of multiply-adds in their place."""
    seen: set[Node] = set()
    work = [value]
    while work:
        node = work.pop()
        if node.op == "mma" or _multiplies_on(node):
            return True
        if node not in seen and len(seen) < 4096:
            seen.add(node)
            work += node.kids
            if node.op == "fold":
                work += node.extra.steps
    return False


def _multiplies_on(node: Node) -> bool:
    """Tell whether a running value is added products of exchanged elements to, in turn."""
    for _ in range(MULTIPLY_ADDS):
        if node.op != "ffma" or any(a.op not in ("gather", "mux") for a in node.args[:2]):
            return False
        node = node.args[2]
    return True


class _Family:
    """Stores that have the same coordinates: all their elements are hashed in one pass."""

    def __init__(self, engine: Engine, members: list[_Member]) -> None:
        self.engine, self.members = engine, members
        at = 0
        for m in members:
            m.lanes = places(m.slot.lanes)
            m.offsets = np.zeros((len(m.lanes), len(m.pivots)), dtype=np.int64)
            for i, p in enumerate(m.pivots.values()):
                m.offsets[:, i] = p.offset[m.lanes] if isinstance(p.offset, np.ndarray) \
                    else p.offset
            m.rows = np.arange(at, at + len(m.lanes))
            at += len(m.lanes)
        self.table = np.concatenate([m.offsets for m in members])
        self.columns: dict[Node, int] = {}
        self.pivots = []
        for i, (atom, p) in enumerate(members[0].pivots.items()):
            offset = int(self.table[0, i])
            if some(self.table[:, i] != offset):
                self.columns[atom] = i
            self.pivots.append(Pivot(atom, p.y, p.scale, offset, p.lifted, p.others))
        self.contexts = Contexts(self.table)
        self.shared = set(engine.forest.shared)
        guards = Rewriter(engine.logic, self.pivots, self.contexts, self.columns)
        for m in members:
            for k in m.known():
                if k.poly is not None:
                    guards.at(m.lanes, m.rows).need_poly(k.poly)
        guards.run()
        self.guards = guards
        steps = any(n.op == "mma" or _multiplies_on(n) for n in engine.forest.nodes)
        self.ordered = True  # the block index visits every tile, whichever store we ask
        for m in members:
            scope = guards.at(m.lanes, m.rows)
            rows_of_a_matrix = steps and _holds_matrix(m.slot.value)
            shows_sharing(scope, m.slot.guard, None if rows_of_a_matrix else m.place)
            bounds = bounds_of(scope, m.slot.guard)
            self.ordered &= visits_every_tile(engine, self.pivots, bounds)
            m.slot.guard = engine.logic.conjunction(
                p for p in conjuncts(m.slot.guard)
                if not tests_the_last_tile(engine, self.pivots, bounds, p))

    def add_to(self, buffers: Any) -> None:
        """Hash the elements and add them to their buffers."""
        logic, members = self.engine.logic, self.members
        plain = self.guards
        if self.engine.forest.shared != self.shared:  # comparisons read otherwise now
            plain = Rewriter(logic, self.pivots, self.contexts, self.columns)
        for m in members:
            scope = plain.at(m.lanes, m.rows)
            scope.need_poly(m.slot.address)
            for node in (m.slot.guard, *m.slot.event.loops, *m.known()):
                scope.need(node)
            for k in m.known():
                if k.poly is not None:
                    scope.need_poly(k.poly)
        plain.run()
        table, facts = _facts(plain, members, self.table)
        knowing = plain
        if facts is not None:
            knowing = Rewriter(logic, self.pivots, Contexts(table), self.columns, facts)
        for m in members:
            knowing.at(m.lanes, m.rows).need(m.slot.value)
        knowing.run()
        told = [_told(m, plain, knowing) for m in members]
        tiles = self._tiles() if plain.bare or knowing.bare else None
        movers = Movers(self.engine)
        for m, (place, value, digest) in zip(members, told, strict=True):
            if tiles is not None:
                digest = mix(tiles, digest)
            rows = _add_rows(buffers, m, (place, value, digest), knowing, self.ordered, movers)
            if movers.loose(m.slot, plain.raw | knowing.raw, guards=True):
                rows.loose.append(m.slot)
            if m.slot.event.kind == "store" and movers.loose(
                    m.slot, knowing.raw | (plain.raw if m.slot.event.loops else 0), guards=False):
                self.engine.found.unmodelled.append((m.slot.event.site, _WRITERS))

    def _tiles(self) -> Hash | None:
        """Return how coordinates follow from block indices, where those count themselves.

        An element has to be in the tile of the block that its coordinate names.
        """
        if not self.pivots:
            return None
        out = key("tiles")
        for p, i in sorted(((p, i) for i, p in enumerate(self.pivots)), key=lambda q: q[0].y.attr):
            if some((self.table[:, i] < 0) | (self.table[:, i] >= p.scale)):
                raise Conflict
            out = mix(out, key(f"{p.y.attr}|{p.scale}|{_definition(p)}"))
        return out


def _facts(plain: Rewriter, members: list[_Member], table: Any) -> tuple[Any, Facts | None]:
    """Return what holds for each element as further columns of the contexts."""
    hashes: list[Any] = []
    at_least: list[bool] = []
    symbols: list[Any] = []
    literals: list[int] = []
    numbers: dict[bytes, int] = {}
    columns: dict[tuple[int, int], Any] = {}
    for m in members:
        scope = plain.at(m.lanes, m.rows)
        count: dict[int, int] = {}
        for k in m.known():
            speaks = k.deps & ~LOW_BITS
            place = count[speaks] = count.get(speaks, -1) + 1
            column = columns.setdefault((speaks, place), np.full(len(table), -1, dtype=np.int64))
            h = scope.of(k)
            parts = split(scope, k.poly) if k.op == "ge0" and k.poly is not None else None
            first, where = kinds(h)
            own = np.empty(len(first), dtype=np.int64)
            for i, j in enumerate(first.tolist()):
                name = h[:, j].tobytes()
                if name not in numbers:
                    numbers[name] = len(hashes)
                    hashes.append(h[:, j])
                    at_least.append(parts is not None)
                    plus = parts[0] if parts is not None else h
                    symbols.append(plus[:, j if plus.shape[1] > 1 else 0])
                    c = parts[2] if parts is not None else np.zeros(1, dtype=np.int64)
                    literals.append(int(c[j if len(c) > 1 else 0]))
                own[i] = numbers[name]
            column[m.rows] = own[where]
    if not columns:
        return table, None
    start = table.shape[1]
    facts = Facts(np.stack(hashes, axis=1), np.array(at_least), np.stack(symbols, axis=1),
                  np.array(literals, dtype=np.int64),
                  {start + i: speaks for i, (speaks, _place) in enumerate(columns)})
    return np.concatenate((table, np.stack(list(columns.values()), axis=1)), axis=1), facts


def _told(m: _Member, plain: Rewriter, knowing: Rewriter) -> tuple[Hash, Hash, Hash]:
    """Return the hashes of a member's addresses, of its values, and of all that is said of them."""
    slot = m.slot
    scope = plain.at(m.lanes, m.rows)
    place = scope.poly_hash(slot.address, address=True)
    tag = key(f"{slot.event.kind}|{slot.event.attr}|{slot.value.width}")
    value = knowing.at(m.lanes, m.rows).of(slot.value)
    return place, value, ordered(mix(tag, place), [scope.of(slot.guard), value,
                                                   _loop_hash(slot, scope)])


def _add_rows(buffers: Any, m: _Member, told: tuple[Hash, Hash, Hash], knowing: Rewriter,
              ordered_tiles: bool, movers: Movers) -> _Rows:
    slot, lanes = m.slot, m.lanes
    slot.scope = knowing.at(lanes, m.rows, sure=False)
    order = sorted(range(len(m.pivots)), key=lambda i: list(m.pivots.values())[i].y.attr)
    ordered_pivots = [list(m.pivots.values())[i] for i in order]
    shape = tuple((p.y.attr, p.scale, "grid" if ordered_tiles else _launch_name(p))
                  for p in ordered_pivots)
    kind = f"{slot.event.kind}|{slot.event.attr}"
    rows: _Rows = buffers.setdefault((slot.event.base, kind), {}).setdefault(shape, _Rows())
    steps = movers.steps(ordered_pivots)
    rows.steps = [math.gcd(a, b) for a, b in zip(rows.steps or steps, steps, strict=True)]
    if not movers.told_apart(slot, ordered_pivots):
        rows.strays.append(slot)
        told = (told[0], told[2], told[2])  # who writes at which turn counts, too
    rows.spans = rows.spans or Spans(movers)
    rows.spans.add(slot, ordered_pivots, lanes, m.offsets[:, order])
    rows.coords.append(m.offsets[:, order])
    for kept, h in zip((rows.places, rows.values, rows.digests), told, strict=True):
        kept.append(np.broadcast_to(h, (2, len(lanes))).T)
    event = slot.event
    rows.writers.append(np.column_stack((lanes, np.broadcast_to(
        (event.site, *event.turns), (len(lanes), 3)))))
    rows.index.append(np.stack((np.full(len(lanes), len(rows.slots)), np.arange(len(lanes))),
                               axis=1))
    rows.slots.append(slot)
    return rows


def _loop_hash(slot: Slot, scope: Scope) -> Hash:
    out = key("loops")
    for condition in slot.event.loops:
        out = mix(out, scope.of(condition))
    return out


def _launch_name(pivot: Pivot) -> str:
    """Name the block index a coordinate stands on; any grid axis does, a token is itself."""
    atom = pivot.atom
    if atom.op == "sreg" and not pivot.others:
        return "grid" if atom.attr.startswith("ctaid") else "thread"
    if atom.op == "kappa" and not pivot.others:
        return "loop"
    return _definition(pivot)


def _definition(pivot: Pivot) -> str:
    """Name the sum of indices that a coordinate is."""
    atom = pivot.atom
    terms = [f"{hex_of(atom.h)}*{pivot.scale}"]
    terms += ["*".join([str(c), *sorted(hex_of(a.h) for a in m)]) for m, c in pivot.others]
    return "+".join(sorted(terms))


def _finish(engine: Engine, base: Node | None, kind: str, by_shape: dict[Any, _Rows]
            ) -> OutputGroup:
    group = OutputGroup(base, kind)
    widths = {slot.value.width for rows in by_shape.values() for slot in rows.slots}
    group.ordered = len(by_shape) > 1 or len(widths) > 1
    if len({_symbolic(slot) for rows in by_shape.values() for slot in rows.slots}) > 1:
        engine.found.premises.add("distinct-outputs")
    for shape, rows in by_shape.items():
        coords = np.concatenate(rows.coords)
        digests = np.concatenate(rows.digests)
        places = np.concatenate(rows.places)
        index = np.concatenate(rows.index)
        if kind.startswith("store"):
            group.ordered |= _several_writers(engine, rows, coords, places, digests)
        _classes(group, shape, rows, coords, digests, index)
    if group.ordered:
        _keep_order(engine, group)
    group.elements.sort(key=lambda e: (e.digest, e.coverage))
    return group


def _several_writers(engine: Engine, rows: _Rows, coords: Any, places: Any, digests: Any) -> bool:
    """Tell whether one element is written twice; note where nothing keeps the order."""
    values = np.concatenate(rows.values)
    assert rows.spans is not None
    again = meet_again(rows.steps, coords, places, values, rows.spans)
    site = rows.slots[int(np.concatenate(rows.index)[again][0])].event.site \
        if again is not None else Movers(engine).cross(rows.strays)
    if site is not None:
        engine.found.unmodelled.append((site, _TURNS))
    if not conflict(coords, places, digests):
        return False
    site = rows.loose[0].event.site if rows.loose else unordered(
        engine, np.concatenate(rows.writers), values, coords, places, rows.spans)
    if site is not None:
        engine.found.unmodelled.append((site, _WRITERS))
    return True


def _symbolic(slot: Slot) -> Any:
    """Return an address without its literal part, as an identity."""
    return Poly(64, {m: c for m, c in slot.address.terms.items() if m}).key()


def _classes(group: OutputGroup, shape: Any, rows: _Rows, coords: Any, digests: Any,
             index: Any) -> None:
    """Class the elements by digest; say of each class which coordinates it covers."""
    codes = row_codes(coords)
    order = np.lexsort((codes, digests[:, 1], digests[:, 0]))
    sorted_digests, codes = digests[order], codes[order]
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = (sorted_digests[1:] != sorted_digests[:-1]).any(axis=1)
    once = starts.copy()
    once[1:] |= codes[1:] != codes[:-1]
    edges = [*places(starts).tolist(), len(order)]
    firsts = np.minimum.reduceat(order, edges[:-1]).tolist()
    points = coords[order]
    for start, end, first in zip(edges, edges[1:], firsts, strict=False):
        count = end - start
        digest = f"{int(digests[first][0]):016x}{int(digests[first][1]):016x}"
        where = points[start:end]
        if count > 1:
            where = where[once[start:end]]
        multiple = count != len(where) and group.kind.startswith("atomic")
        coverage = _coverage(shape, where)
        if multiple:
            coverage += f"|times{count}"
        slot = rows.slots[int(index[first][0])]
        at_pair = index[first][1:]
        group.elements.append(Element(digest, coverage, len(where), slot,
                                      slot.scope.shift(slot.scope.lane[at_pair], at_pair)))


def _coverage(shape: Any, where: Any) -> str:
    """Say which coordinates a class of elements covers: `where` has each once, in order.

    A block index that runs over the grid repeats the tile: along such an axis only the shortest
    period of the offsets counts, whatever the tile's size.
    """
    if not shape:
        return "one"
    names = ",".join(y for y, _s, _n in shape)
    periods = list(shape)
    listed = where
    for i, (y, scale, launch) in enumerate(shape):
        if launch == "grid":
            period = _period(listed, i, scale)
            if period < scale:
                listed = listed.copy()
                listed[:, i] %= period
                listed = np.unique(listed, axis=0)
                periods[i] = (y, period, launch)
    rest = [i for i, (_y, scale, launch) in enumerate(periods)
            if launch != "grid" or scale > 1 or bool(listed[:, i].any())]
    if not rest:
        return f"all:{names}"
    left = tuple(periods[i] for i in rest)
    complete = len(listed) == math.prod(s for _y, s, _n in left) and bool(
        ((listed >= 0) & (listed < [s for _y, s, _n in periods])).all())
    digest = key(f"{left!r}|{listed[:, rest].astype('<i8').tobytes().hex()}")
    tag = "all" if complete else "some"
    return f"{tag}:{names}:{int(digest[0, 0]):016x}{int(digest[1, 0]):016x}"


def _period(where: Any, axis: int, scale: int) -> int:
    """Return the least p that divides the tile such that offsets p apart go together."""
    count, own = len(where), where[:, axis]
    periods = [p for p in _divisors(scale) if count % (scale // p) == 0]
    if not periods or some(own < 0) or some(own >= scale):
        return scale
    others = row_codes(np.delete(where, axis, axis=1)) * scale
    for p in periods:
        if len(np.unique(others + own % p)) * (scale // p) == count:
            return p
    return scale


@lru_cache(maxsize=256)
def _divisors(scale: int) -> tuple[int, ...]:
    """Return the proper divisors, smallest first."""
    small = [p for p in range(1, math.isqrt(scale) + 1) if scale % p == 0]
    return tuple(sorted({*small, *(scale // p for p in small)} - {scale}))


def _keep_order(engine: Engine, group: OutputGroup) -> None:
    """Elements are written more than once: the order of the stores is part of the result."""
    for element in group.elements:
        element.coverage += f"|order{element.slot.event.order}"
