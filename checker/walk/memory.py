"""Memory: parameters, loads as leaves, stores as outputs, shared cells, asynchronous copies.

In: operations of kind `memory` and `sync`. Out: register values and `StoreEvent`s. A leaf is a
function of its address; a buffer that the kernel also writes gives another leaf after each write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, greatest, is_number, places, some
from checker.core import GENERIC_LOCAL, GENERIC_PARAM, GENERIC_SHARED, MODULE_BASE, Op
from checker.tree.evaluate import moves_with
from checker.tree.logic import conjuncts
from checker.tree.nodes import Node
from checker.tree.poly import Poly, constant
from checker.tree.values import Value
from checker.walk.elements import Rows, own_tests
from checker.walk.general import Replacer, conditions
from checker.walk.shared import Shared
from checker.walk.state import GiveUp, StoreEvent

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["NEVER", "MemoryOps"]

_WINDOW = 0x7F << 56  # bits of a generic address that name its space

#: how many barriers of the whole block there were, and of all warps
Turns = tuple[float, float]
NEVER: Turns = math.inf, math.inf

#: an asynchronous copy: where to in each lane, what, the lanes that make it, on which path
Copy = tuple[Any, ...]


class MemoryOps:
    """Handlers of memory operations for one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        warp = engine.program.warp_size
        self.shared = Shared(engine.values, warp, engine.problem,
                             engine.known_block and engine.lanes <= warp)
        self.shared.seen_as = self._seen_as
        self.shared.holds, self.shared.here = self.holds, self._here
        self.shared.over = lambda: engine.matrix.flights.over()
        self.shared.unfold = lambda *tile: engine.tiles.unfold(*tile)
        self.versions: dict[Node | None, int] = {}
        # barriers of the whole block that every thread came to so far, and of that or of all warps;
        # after how many of them each buffer was read last, and written first
        self.turns: Turns = 0, 0
        self.last_read: dict[Node | None, Turns] = {}
        self.first_write: dict[Node | None, Turns] = {}
        self.groups: list[list[Copy]] = []  # committed asynchronous copies
        self.commits: list[tuple[Any, Node]] = []  # of each group: its lanes, and on what condition
        self.open: list[Copy] = []
        self.behind: dict[tuple[Node, Node], Value] = {}  # what was written on a path, elsewhere
        self.parted: dict[Node, tuple[Any, Node]] = {}  # a condition: its lanes, the rest
        self.counts: dict[Any, tuple[Node, bool]] = {}  # bytes to copy: if all, else none
        self.targets: dict[bytes, tuple[Any, int, Any]] = {}  # where copies went: bytes, lanes
        self.rows = Rows()

    def handlers(self) -> dict[str, Callable[[Op], None]]:
        """Return the table rows this module serves."""
        return {"load": self._load, "store": self._store, "atomic": self._atomic,
                "barrier": self._barrier, "acopy": self._acopy,
                "acopy_commit": self._acopy_commit, "acopy_wait": self._acopy_wait,
                "ldmatrix": self._ldmatrix, "stmatrix": self._stmatrix}

    # -- addresses
    def _space(self, space: str, address: Poly) -> tuple[str, Poly]:
        """Resolve a generic address to the space it points into."""
        if space != "generic":
            return space, address
        window = self._window(address)
        for name, start in (("shared", GENERIC_SHARED), ("param", GENERIC_PARAM),
                            ("local", GENERIC_LOCAL)):
            if window == start:
                return name, address.sub(constant(64, start))
        return "global", address

    def _window(self, address: Poly) -> int:
        """Return the window of a generic address: the same in all lanes, whatever the symbols."""
        tops = [np.atleast_1d(np.asarray(c, dtype=np.int64)) for c in address.terms.values()]
        if any(some(np.abs(c) >= 1 << 55) for m, c in zip(address.terms, tops, strict=True)
               if m):
            raise GiveUp("generic", "a generic address in one of several spaces", self.engine.site)
        window = np.asarray(address.const, dtype=np.int64) & np.int64(_WINDOW)
        active, _rest = self.active()
        found = np.unique(np.broadcast_to(window, active.shape)[active])
        if len(found) > 1:
            raise GiveUp("generic", "a generic address in one of several spaces", self.engine.site)
        return int(found[0]) if len(found) else 0

    def _address(self, operand: Any, offset: int) -> Poly:
        value = self.engine.source(operand)
        width = value.width
        poly = self.engine.values.poly(value, width).add(constant(width, offset))
        if width < 64:
            poly = self.engine.values.zext(poly, width, 64)
        return poly

    def _literal(self, poly: Poly) -> Any:
        if not poly.is_const:
            return None
        return poly.unsigned_const(self.engine.lanes).astype(np.int64)

    def base(self, address: Poly) -> Node | None:
        """Return the pointer parameter an address is based on, if it is just one."""
        found = [mono[0] for mono, c in address.terms.items()
                 if len(mono) == 1 and mono[0].op == "param" and mono[0].width == 64
                 and not isinstance(c, np.ndarray) and c == 1]
        others = [a for mono in address.terms for a in mono
                  if a.op in ("load", "param") and a.width == 64 and a not in found]
        return found[0] if len(found) == 1 and not others else None

    # -- loads
    def _load(self, op: Op) -> None:
        engine = self.engine
        mem = op.attr
        address = self._address(op.src[0], mem.offset_bytes)
        space, address = self._space(mem.space, address)
        step = mem.width_bits // 8
        if space == "global":
            address = self._under(address)
            self._learn(engine.logic.conjunction([engine.state.path, engine.guard]), address,
                        step * len(op.dst))
        guard = engine.guard
        for i, dst in enumerate(op.dst):
            at = address.add(constant(64, i * step))
            if space == "global":
                engine.guard = own_tests(engine, guard, at)
            engine.put(dst, self.load(space, at, mem.width_bits, volatile=mem.volatile, op=op))

    def look(self, op: Op) -> None:
        """Run a load of shared memory but for what it gives."""
        mem = op.attr
        _space, address = self._space(mem.space, self._address(op.src[0], mem.offset_bytes))
        step = mem.width_bits // 8
        for i in range(len(op.dst)):
            literal = self._shared_address(address.add(constant(64, i * step)), op)
            self.shared.look_at(literal, mem.width_bits, self.active()[0])

    def _under(self, address: Poly) -> Poly:
        """Return an address where the present guard holds: conditions in it are decided."""
        engine = self.engine
        if "48-bit-pointers" in engine.program.premises:
            address = _joined(address)
        bits = conditions(address)
        if not bits:
            return address
        logic = engine.logic
        known = conjuncts(logic.conjunction([engine.state.path, engine.guard]))
        table = {}
        for bit in bits:
            p = bit.args[0]
            if logic.implies(known, p):
                table[bit] = Poly(64, {(): 1})
            elif logic.implies(known, logic.negate(p)):
                table[bit] = Poly(64, {})
        return Replacer(engine, table).poly(address) if table else address

    def _learn(self, guard: Node, address: Poly, size_bytes: int) -> None:
        """Note which sizes are tested for one element of a wider access (`Forest.shared`)."""
        for p in conjuncts(guard):
            if p.op == "ge0" and p.poly is not None:
                name = moves_with(p.poly, address, size_bytes)
                if name is not None:
                    self.engine.forest.shared.add(name)
        self.rows.note(self.engine, guard, address)

    def load(self, space: str, at: Poly, width: int, volatile: bool, op: Op) -> Value:
        """Return what one element's load gives in every lane."""
        engine = self.engine
        if space == "param":
            return self._parameter(at, width)
        if space == "shared":
            return self._load_shared(at, width, op)
        if space in ("local", "scratch"):
            return engine.private.load(at, width)
        if space == "const" and self._constant_data(at, width) is not None:
            return self._constant_data(at, width) or constant(width, 0)
        if space == "const" and not _in_module(at):
            engine.unmodelled("constant memory outside the module's variables")
        if volatile:
            engine.unmodelled("a load that other blocks may race with (volatile or acquire)")
        return self.leaf(at, width)

    def leaf(self, at: Poly, width: int, late: bool = False) -> Node:
        """Return a global element as a leaf; late: a copy under way reads it, some time."""
        engine = self.engine
        if _in_module(at):  # what a variable of the module holds is no argument of the kernel
            engine.unmodelled("a variable of the module")
        base = self.base(at)
        self.last_read[base] = max(self.last_read.get(base, (0, 0)), NEVER if late else self.turns)
        version = self.versions.get(base, 0) + self.versions.get(None, 0)
        if base is None:
            version = sum(self.versions.values())
        if base is not None or version:
            engine.found.loaded.setdefault(base or engine.forest.true, []).append(engine.site)
        node = engine.forest.make("load", f"global.{version}", width=width, poly=at, low=0,
                                  high=(1 << width) - 1)
        if base is not None and not version and int(base.attr.split("+")[0]) in \
                engine.program.powers_of_two:
            engine.floats.scales.read(node)
        return node

    def _parameter(self, at: Poly, width: int) -> Value:
        engine = self.engine
        literal = at.const if at.is_const and not isinstance(at.const, np.ndarray) else None
        if literal is None:
            raise GiveUp("parameter", "a parameter read at a computed offset", engine.site)
        for p in engine.program.params:
            if p.offset_bytes <= literal and literal + width // 8 <= p.offset_bytes + p.size_bytes:
                delta = literal - p.offset_bytes
                node = engine.forest.make("param", f"{p.index}+{delta}", width=width, low=0,
                                          high=(1 << width) - 1)
                if p.index in engine.program.powers_of_two and p.size_bytes == 4:
                    engine.floats.scales.read(node)
                return Poly(width, {(node,): 1})
        raise GiveUp("parameter", "a read outside the parameters", engine.site)

    def _constant_data(self, at: Poly, width: int) -> Value | None:
        literal = self._literal(at)
        if literal is None:
            return None
        out = np.zeros(self.engine.lanes, dtype=np.uint64)
        for lane, address in enumerate(literal.tolist()):
            for block in self.engine.program.data:
                start = address - block.address
                if block.init is not None and start >= 0 and \
                        start + width // 8 <= len(block.init) and address >= MODULE_BASE:
                    raw = block.init[start:start + width // 8]
                    out[lane] = int.from_bytes(raw, "little")
                    break
            else:
                return None
        return constant(width, out.view(np.int64))

    # -- shared memory
    def active(self) -> tuple[Any, Node]:
        """Return the lanes that act for certain or perhaps, and the symbolic condition left."""
        engine = self.engine
        return self.split(engine.logic.conjunction([engine.state.path, engine.guard]))

    def split(self, whole: Node) -> tuple[Any, Node]:
        """Return the lanes for which a condition may hold, and what is left of it there."""
        parts = self.parted.get(whole)
        if parts is None:
            parts = self.parted[whole] = self._parts(whole)
        return parts

    def _parts(self, whole: Node) -> tuple[Any, Node]:
        engine = self.engine
        mask = np.ones(engine.lanes, dtype=bool)
        rest = []
        for p in conjuncts(whole):
            if p.op == "lanes" and p.table is not None:
                mask &= p.table
            else:
                rest.append(p)
        mask.flags.writeable = False  # shared by all who ask
        return mask, engine.logic.conjunction(rest)

    def _here(self) -> Node:
        """Return the condition, the same in all lanes, under which the present operation acts."""
        return self.active()[1]

    def holds(self, cond: Node, path: Node | None = None) -> bool:
        """Tell whether a condition holds for certain on a path (the present operation's)."""
        here = self._here() if path is None else path
        return self.engine.logic.implies(conjuncts(here), cond)

    def _seen_as(self, cond: Node, value: Value, here: bool) -> Value:
        """Return what is read here of a value that was written on the path `cond`.

        here: the path of the lanes that read is that of the lanes that wrote.
        """
        engine = self.engine
        if here and engine.logic.implies(conjuncts(engine.state.path), cond):
            return value
        if isinstance(value, Node):
            made = self.behind.get((cond, value))
            if made is not None:
                return made
        nothing = engine.values.undefined(value.width)
        made = engine.choose(cond, value, nothing, value.width)
        if isinstance(value, Node):
            self.behind[(cond, value)] = made
        return made

    def _put_shared(self, literal: Any, value: Value, part: str) -> None:
        """Write shared bytes under the guard, on the present path; `part` of which instruction."""
        engine = self.engine
        mask, _rest = self.active()
        _m, path = self.split(engine.state.path)
        _m, guard = self.split(engine.guard)
        guard = engine.logic.given(guard, conjuncts(path))
        if guard is not engine.forest.true:
            old = self.shared.load(literal, value.width, mask, peek=True)
            value = engine.choose(guard, value, old, value.width)
        path = engine.logic.given(path, conjuncts(engine.case_path))
        self.shared.store(literal, value, mask, None if path is engine.forest.true else path, part)

    def _shared_address(self, at: Poly, op: Op) -> Any:
        if not self.engine.known_block:
            raise GiveUp("shared-address", f"a shared address: {self.engine.unknown}", op.site)
        literal = self._literal(at)
        if literal is None:
            raise GiveUp("shared-address", "a shared address that is not literal in each lane",
                         op.site)
        if some(literal < 0) or some(literal > 1 << 20):
            mask, _rest = self.active()
            literal = np.where(mask, literal, 0)
            if some(literal < 0) or some(literal > 1 << 20):
                raise GiveUp("shared-address", "a shared address out of range", op.site)
        return literal

    def _load_shared(self, at: Poly, width: int, op: Op) -> Value:
        literal = self._shared_address(at, op)
        mask, _rest = self.active()
        return self.shared.load(literal, width, mask)

    # -- stores
    def _store(self, op: Op) -> None:
        engine = self.engine
        mem = op.attr
        address = self._address(op.src[0], mem.offset_bytes)
        space, address = self._space(mem.space, address)
        step = mem.width_bits // 8
        if mem.volatile and space == "global":
            engine.unmodelled("a store that other blocks may wait for (volatile or release)")
        for i, operand in enumerate(op.src[1:]):
            value = engine.source(operand)
            if value.width > mem.width_bits:
                value = engine.values.extract(value, 0, mem.width_bits)
            at = address.add(constant(64, i * step))
            if space == "shared":
                self._put_shared(self._shared_address(at, op), value,
                                 f"{i} of {len(op.src) - 1}x{mem.width_bits}")
            elif space in ("local", "scratch"):
                engine.private.store(at, value)
            else:
                at = self._under(address).add(constant(64, i * step))
                self.emit("store", "", at, value, op, i * step)

    def emit(self, kind: str, attr: str, at: Poly, value: Value, op: Op, first: int = 0) -> None:
        """Record one output element."""
        engine = self.engine
        node = engine.values.node(value)
        if _in_module(at):
            engine.unmodelled("a variable of the module")
        guard = engine.logic.conjunction([engine.state.path, engine.guard])
        base = self.base(at)
        engine.found.stores.append(StoreEvent(kind, attr, at, node, value.width, guard, op.site,
                                              len(engine.found.stores), base,
                                              tuple(engine.loop_stack), first, engine.guard,
                                              self.turns))
        self.versions[base] = self.versions.get(base, 0) + 1
        self.first_write[base] = min(self.first_write.get(base, self.turns), self.turns)

    def _atomic(self, op: Op) -> None:
        engine = self.engine
        a = op.attr
        at = self._address(op.src[0], a.offset_bytes)
        space, at = self._space(a.space, at)
        inexact = a.type[0] in "f" or a.type.startswith("bf")
        if space != "shared" and a.op in ("add", "min", "max", "and", "or", "xor"):
            if inexact and a.op == "add":
                engine.found.nondeterministic = True
            engine.found.premises.add("same-grid")  # a block too many updates once too often
            for i, operand in enumerate(op.src[1:]):
                value = engine.source(operand)
                self.emit("atomic", f"{a.op}.{a.type}.{a.denorm}",
                          at.add(constant(64, i * value.width // 8)), value, op)
            if op.dst:
                engine.opaque(op, "the old value of an atomic operation")
                engine.unmodelled("the old value of an atomic operation")
            return
        if inexact and a.op == "add":
            engine.found.nondeterministic = True
        engine.opaque(op, f"atomic {a.op} on {space} memory")
        engine.unmodelled(f"atomic {a.op} on {space} memory")
        self.versions[None] = self.versions.get(None, 0) + 1

    # -- order
    def _barrier(self, op: Op) -> None:
        engine = self.engine
        kind, action = op.attr.scope, op.attr.action
        mask, rest = self.active()
        cond = None if rest is engine.forest.true else rest
        if kind == "warp":
            if every(mask) and self._whole_warps(op):
                self.shared.barrier(warp_only=True, cond=cond)
                self._turn(0)
            return
        numbers = [engine.values.node(engine.source(s)) for s in op.src[:1]]
        everyone = every(mask) and (rest.uniform or not engine.known_block) and all(
            n.uniform and not n.tainted for n in numbers)
        if kind == "cta" and action == "sync" and everyone:
            count = self.engine.source(op.src[1]) if op.attr.has_count else None
            if count is None or (isinstance(count, Poly) and count.is_const and not isinstance(
                    count.const, np.ndarray) and count.const == engine.lanes):
                self.shared.barrier(warp_only=False, cond=cond)
                if not op.attr.shared_only:
                    self._turn(1)
                return
        engine.opaque(op, "a barrier of a part of the block")
        engine.unmodelled("a barrier of a part of the block")

    def _whole_warps(self, op: Op) -> bool:
        """Tell whether a warp's barrier is one of all its lanes."""
        if not op.src:
            return True
        warp = (1 << self.engine.program.warp_size) - 1
        named = self._literal(self.engine.values.poly(self.engine.source(op.src[0]), 32))
        return named is not None and every(named & warp == warp)

    def _turn(self, block: int) -> None:
        """Count a barrier, of the whole block or of all warps, if every thread comes to it."""
        engine = self.engine
        if engine.state.path is engine.guard is engine.forest.true and not engine.loop_stack:
            self.turns = self.turns[0] + block, self.turns[1] + 1

    # -- asynchronous copies
    def _acopy(self, op: Op) -> None:
        engine = self.engine
        size = op.attr.size_bytes
        shared_at = self._address(op.src[0], 0)
        literal = self._shared_address(shared_at, op)
        at = self._address(op.src[1], 0)
        count = engine.values.poly(engine.source(op.src[2]), 32)
        # whoever reads a part of a leaf has a leaf of its own; a declared scale is one word
        step = 4 if engine.program.powers_of_two else size
        value = engine.values.pack([self.leaf(at.add(constant(64, i)), 8 * step, late=True)
                                    for i in range(0, size, step)])
        if not count.same(constant(32, size)):
            p, all_or_none = self._copies(count, size)
            if not all_or_none:
                engine.opaque(op, "an asynchronous copy of a part of its bytes")
                engine.unmodelled("an asynchronous copy of a part of its bytes")
            self._learn(p, at, size)
            p = own_tests(engine, p, at)
            value = engine.values.select(p, value, Poly(8 * size, {}), 8 * size)
        mask, _rest = self.active()
        _m, path = self.split(engine.state.path)
        _m, guard = self.split(engine.guard)
        if guard is not engine.forest.true:
            old = self.shared.load(literal, value.width, mask, peek=True)
            value = engine.choose(guard, value, old, value.width)
        self.shared._grow(greatest(literal) + size)
        lanes = places(mask)
        index = literal[lanes, None] + np.arange(size)
        if some(self.shared.unordered_reads(index, lanes[:, None])):
            engine.problem("race", "an asynchronous copy overwrites bytes another lane may read")
        if some(self.shared.unordered_writes(index, lanes[:, None])):
            engine.problem("race", "an asynchronous copy overwrites bytes another lane may write")
        if self.shared.still_read(index):
            engine.problem("race", "an asynchronous copy overwrites bytes a matrix step reads")
        self.shared.copying(index, 1)
        self.targets[index.tobytes()] = (literal, value.width, mask)
        self.open.append((literal, value, mask, None if path is engine.forest.true else path))

    def _copies(self, count: Poly, size: int) -> tuple[Node, bool]:
        """Return when a count of bytes is `size`, and whether it is nothing elsewhere."""
        if len(count.terms) == 1:
            (bits, c), = count.terms.items()
            if bits and all(a.op == "bit" for a in bits) and is_number(c, size):
                return self.engine.logic.conjunction([a.args[0] for a in bits]), True
        name = count.name(), size
        if name not in self.counts:
            logic = self.engine.logic
            p, nothing = (logic.equal(count, constant(32, n), 32) for n in (size, 0))
            self.counts[name] = p, logic.disjunction([p, nothing]) is self.engine.forest.true
        return self.counts[name]

    def _acopy_commit(self, op: Op) -> None:
        """Close a group in each lane that gets here; what others may hold open stays open."""
        logic = self.engine.logic
        lanes, cond = self.active()
        cond = logic.given(cond, conjuncts(self.engine.case_path))

        def sure(copy: Copy) -> bool:
            _at, _value, mask, path = copy
            known = () if path is None else conjuncts(path)  # where it was made, not where we are
            return not some(mask & ~lanes) and logic.implies(known, cond)

        group, left = _parted(self.open, sure)
        self.groups.append(group)
        self.commits.append((lanes, cond))
        self.open = left

    def _acopy_wait(self, op: Op) -> None:
        """All but the last `keep` groups of each lane that gets here have landed."""
        keep = op.attr
        lanes, cond = self.active()
        ready: list[Copy] = []
        for number, group in enumerate(self.groups):
            landed, self.groups[number] = _parted(group, partial(self._lands, lanes, keep, number))
            ready += landed
        if keep is None:
            landed, self.open = _parted(self.open, partial(self._lands, lanes, None, 0))
            ready += landed
        while len(self.groups) > (keep or 0) and not self.groups[0]:
            del self.groups[0], self.commits[0]
        if not keep and not self.groups and not self.open and every(lanes):
            self.shared.waited(cond, self.engine.logic)
        for literal, value, mask, path in ready:
            known = () if path is None else conjuncts(path)
            at = places(mask)
            index = literal[at, None] + np.arange(value.width // 8)
            self.shared.copying(index, -1)
            if not self.engine.logic.implies(known, cond):
                self.shared.linger(cond, index)
            if isinstance(value, Node) and value.op == "undef":
                self.shared.land(index, at)
            else:
                self.shared.store(literal, value, mask, path)

    def _lands(self, lanes: Any, keep: int | None, number: int, copy: Copy) -> bool:
        """Tell whether all who made a copy wait for it: `lanes` do, for all but `keep` groups.

        At least so many must have been closed for certain after the copy's own, `number`.
        """
        if some(copy[2] & ~lanes):
            return False
        if not keep:
            return True
        known = conjuncts(self.engine.state.path)
        if copy[3] is not None:
            known = (*known, *conjuncts(copy[3]))
        later = np.zeros(self.engine.lanes, dtype=np.int64)
        for closed, cond in self.commits[number + 1:]:
            if self.engine.logic.implies(known, cond):
                later += closed
        return every(later[copy[2]] >= keep)

    # -- states of a loop
    def snapshot(self) -> Any:
        """Return the memory as it is now."""
        return (self.shared.copy(), [list(g) for g in self.groups], list(self.open),
                self.engine.matrix.flights.state.copy(), self.engine.tiles.state.copy(),
                list(self.commits))

    def restore(self, world: Any) -> None:
        """Go back to a snapshot."""
        shared, groups, opened, steps, tiles, commits = world
        self.commits = list(commits)
        self.engine.tiles.state = tiles.copy()
        self.engine.matrix.flights.restore(steps)
        self.shared = shared.copy()
        self.groups, self.open = [list(g) for g in groups], list(opened)

    def generalise(self, a: Any, b: Any, g: Any) -> Any:
        """Return a world that is a at counter 0 and b at counter 1; unlike bytes are unknown."""
        never = self.engine.forest.false
        if any(x[1] is not y[1] is not never for x, y in zip(a[5], b[5], strict=False)):
            return None  # groups are closed otherwise from then on: not settled yet
        shared = a[0].generalise(b[0], g.value)
        groups: list[list[tuple[Any, ...]]] = []
        if len(a[1]) != len(b[1]) or a[2] or b[2]:
            return None
        for x, y in zip(a[1], b[1], strict=True):
            if len(x) != len(y):
                return None
            group = []
            for (at, v, m, _p), (at2, v2, m2, p2) in zip(x, y, strict=True):
                made = g.value(v, v2)
                if made is None or not np.array_equal(at, at2) or not np.array_equal(m, m2):
                    return None
                group.append((at, made, m, p2))
            groups.append(group)
        if not a[3].like(b[3]):
            return None
        commits = [(x[0] & y[0], x[1] if x[1] is y[1] else never)
                   for x, y in zip(a[5], b[5], strict=True)]
        tiles = self.engine.tiles.generalise(a[4], b[4], g)
        return None if tiles is None else (shared, groups, [], b[3], tiles, commits)

    def alike_paths(self, a: Any, b: Any) -> bool:
        """Tell whether copies under way in two states were made on the same paths."""
        return all(x[3] is y[3] for one, two in zip(a[1], b[1], strict=True)
                   for x, y in zip(one, two, strict=True))

    def matches(self, general: Any, after: Any, same: Any) -> bool:
        """Tell whether a world is the general one at the next counter."""
        if len(general[1]) != len(after[1]) or after[2] \
                or not general[3].like(after[3]) \
                or not self.engine.tiles.matches(general[4], after[4], same):
            return False
        for x, y in zip(general[1], after[1], strict=True):
            if len(x) != len(y):
                return False
            for (at, v, m, p), (at2, v2, m2, p2) in zip(x, y, strict=True):
                if not np.array_equal(at, at2) or not np.array_equal(m, m2) or p is not p2 \
                        or not same(v, v2):
                    return False
        if any(not np.array_equal(lanes, lanes2) or cond is not cond2 for (lanes, cond), (
                lanes2, cond2) in zip(general[5], after[5], strict=True)):
            return False
        return bool(general[0].matches(after[0], same))

    def met(self, a: Any, b: Any, same: Callable[[Any, Any], bool]) -> Any:
        """Return what both of two worlds are; None where something is under way in one of them."""
        tiles = a[4].met(b[4])
        if tiles is None or not a[3].like(b[3]) or any(
                (*w[1], *w[2], *w[5], *w[3].steps()) for w in (a, b)):
            return None
        shared = a[0].met(b[0], same)
        return None if shared is None else (shared, [], [], b[3], tiles, [])

    def hangs_on(self, mask: int) -> bool:
        """Tell whether copies or matrix steps are under way where some symbols decide."""
        paths = [copy[3] for group in (*self.groups, self.open) for copy in group]
        paths += [p for bar in self.engine.tiles.state.bars.values() for copy in bar.copies
                  for p in copy.path()]
        nodes = [p for p in (*paths, *(cond for _lanes, cond in self.commits)) if p is not None]
        return any(n.deps & mask for n in nodes) or self.engine.matrix.flights.depends(mask)

    def after_loop(self, before: Any, drained: bool) -> None:
        """Forget what a loop wrote; copies under way land as unknown bytes.

        drained: no tile is on its way where the loop ends (otherwise its bytes stay pending).
        """
        shared = self.shared
        shared.forget(before[0])
        unknown = self.engine.values.undefined
        for group in [*self.groups, self.open]:
            group[:] = [(at, unknown(v.width), m, None) for at, v, m, _path in group]
        if self.groups or self.open:  # whichever stage of a ring was the last: all of them
            last = self.groups[-1] if self.groups else self.open
            for at, width, mask in self.targets.values():
                index = at[places(mask), None] + np.arange(width // 8)
                shared.copying(index, 1)
                last.append((at, unknown(width), mask, None))
        tiles = self.engine.tiles.state
        for bar in tiles.bars.values():
            for copy in bar.copies:
                if drained:
                    shared.copying(copy.index, -1)
        tiles.bars = {}

    # -- matrices of 8 x 8 halves
    def _rows(self, op: Op) -> Any:
        attr = op.attr
        if attr.rows != 8 or attr.cols != 8 or attr.elem_bits != 16 or not self.engine.known_block:
            return None
        return self._shared_address(self._space_shared(op), op)

    def _space_shared(self, op: Op) -> Poly:
        at = self._address(op.src[0], 0)
        shared = self._window(at) == GENERIC_SHARED
        return at.sub(constant(64, GENERIC_SHARED)) if shared else at

    def _ldmatrix(self, op: Op) -> None:
        engine = self.engine
        places = self._matrices(op)
        if places is None:
            engine.opaque(op, "a matrix load of a shape that is not modelled")
            return
        mask, _rest = self.active()
        for dst, parts in zip(op.dst, places, strict=True):
            loaded = [self.shared.load(at, 32 // len(parts), mask) for at in parts]
            engine.put(dst, loaded[0] if len(loaded) == 1 else engine.values.pack(loaded))

    def look_at_matrices(self, op: Op) -> None:
        """Run a matrix load but for what it gives."""
        places = self._matrices(op)
        if places is None:
            self._ldmatrix(op)
            return
        mask, _rest = self.active()
        for parts in places:
            for at in parts:
                self.shared.look_at(at, 32 // len(parts), mask)

    def _matrices(self, op: Op) -> list[list[Any]] | None:
        """Return where each lane reads the parts of each register; None: not modelled."""
        rows = self._rows(op)
        mask, _rest = self.active()
        if rows is None or not every(mask):
            return None
        lane = np.arange(self.engine.lanes, dtype=np.int64)
        warp, t = lane // 32 * 32, lane % 32
        if op.attr.trans:
            return [[rows[warp + 8 * i + 2 * (t % 4) + h] + 2 * (t // 4) for h in (0, 1)]
                    for i in range(len(op.dst))]
        return [[rows[warp + 8 * i + t // 4] + 4 * (t % 4)] for i in range(len(op.dst))]

    def _stmatrix(self, op: Op) -> None:
        engine = self.engine
        rows = self._rows(op)
        mask, rest = self.active()
        if rows is None or not every(mask) or not rest.uniform:
            engine.opaque(op, "a matrix store of a shape that is not modelled")
            return
        lane = np.arange(engine.lanes, dtype=np.int64)
        warp, t = lane // 32 * 32, lane % 32
        for i, operand in enumerate(op.src[1:]):
            value = engine.source(operand)
            pieces = [(value, rows[warp + 8 * i + t // 4] + 4 * (t % 4))]
            if op.attr.trans:
                pieces = [(engine.values.extract(value, 16 * h, 16),
                           rows[warp + 8 * i + 2 * (t % 4) + h] + 2 * (t // 4)) for h in (0, 1)]
            for half, (piece, at) in enumerate(pieces):
                self._put_shared(at, piece, f"matrix {i}.{half} of {len(op.src) - 1}")


def _joined(address: Poly) -> Poly:
    """Put a pointer for its lower 48 bits in two parts, where its other bits are zero."""
    for mono, c in address.terms.items():
        part = mono[0] if len(mono) == 1 else None
        if part is None or part.op != "extract" or part.attr != "32" or part.width != 16 \
                or isinstance(c, np.ndarray) or c != 1 << 32:
            continue
        whole = part.args[0]
        for low, c2 in address.terms.items():
            if len(low) == 1 and low[0].op == "extract" and low[0].args[0] is whole \
                    and low[0].attr == "0" and low[0].width == 32 and whole.op == "param" \
                    and whole.width == 64 and not isinstance(c2, np.ndarray) and c2 == 1:
                rest = {m: v for m, v in address.terms.items() if m not in (mono, low)}
                return Poly(64, rest).add(Poly(64, {(whole,): 1}))
    return address


def _in_module(at: Poly) -> bool:
    """Tell whether an address lies in the window of the module's own variables."""
    c = np.atleast_1d(np.asarray(at.const, dtype=np.int64)).view(np.uint64)
    window = np.uint64(0xFF00_0000_0000_0000)
    return some((c & window) == np.uint64(MODULE_BASE))


def _parted(copies: list[Copy], test: Callable[[Copy], bool]) -> tuple[list[Copy], list[Copy]]:
    """Return the copies that pass a test, and the others."""
    yes: list[Copy] = []
    no: list[Copy] = []
    for copy in copies:
        (yes if test(copy) else no).append(copy)
    return yes, no
