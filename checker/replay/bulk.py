"""Bulk and tensor copies: whole boxes between global and shared memory, by tensor map or by bytes.

In: addresses, coordinates, tensor maps of the launch facts or built in memory by the kernel. Out:
bodies of steps. A copy is carried out at issue; until somebody waits for its mbarrier phase its
bytes are pending; those that a store writes are until its thread waits, its source is being read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.core import GENERIC_PARAM, BulkCopy, Op
from checker.launch import TensorMapArg
from checker.replay.access import load_from, store_to
from checker.replay.buffers import REGION_SHIFT, REGION_START
from checker.replay.descriptors import swizzled
from checker.replay.facts import Mask
from checker.replay.integers import int_op, isum
from checker.replay.machine import Machine
from checker.replay.memory import Cells, Rows
from checker.replay.order import Codes
from checker.replay.sync import mbar_at, publish, settle
from checker.replay.values import Conc, V, bits_of, const, merge

__all__ = ["BODIES", "TensorMap"]

# Our own layout of a tensor map that a kernel builds in memory: byte offset and bits of each field.
_FIELD = {"global_address": (0, 64), "rank": (8, 32), "box_dim": (12, 32), "global_dim": (32, 32),
          "global_stride": (56, 64), "element_stride": (88, 32), "elemtype": (108, 32),
          "interleave_layout": (112, 32), "swizzle_mode": (116, 32), "fill_mode": (120, 32),
          "swizzle_atomicity": (124, 32)}
_REPEATS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
_ELEM_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # by elemtype number
_SWIZZLE = (0, 32, 64, 128)
_COPIED = -1  # in place of a matrix step's number: these cells are a copy's


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Innermost dimension first: sizes, strides in bytes, box; `base` is a global address."""

    base: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    elem_bytes: int
    swizzle: int


@dataclass(slots=True)
class _Store:
    """A copy out of shared memory that has not been waited for: whose, of which group, from where.

    group: -1 while it is not committed. number: of the reading, 0 when that is over.
    """

    block: int
    thread: int
    source: Rows
    number: int
    cells: Cells
    target: Rows
    group: int = -1


def _from_launch(m: Machine, arg: TensorMapArg) -> TensorMap:
    if arg.interleave or arg.fill_nan:
        raise m.unsupported("tensor-map", "interleaved or NaN-filling tensor maps are not modelled")
    size = arg.buffer.elem_bytes
    return TensorMap(m.memory.bases[arg.buffer.name], tuple(reversed(arg.shape)),
                     tuple(s * size for s in reversed(arg.strides)), tuple(reversed(arg.box)),
                     size, arg.swizzle)


def _from_memory(m: Machine, address: NDArray[Any], lanes: Mask
                 ) -> dict[tuple[int, ...], TensorMap]:
    """The maps that the issuing lanes name, by (block, thread)."""
    words = {}
    for name, (offset, width) in _FIELD.items():
        count = _REPEATS.get(name, 1)
        for i in range(count):
            v = load_from(m, "generic", address + np.uint64(offset + i * width // 8), lanes, width,
                          4)
            bits = bits_of(v, lanes)
            words[name, i] = None if bits is None else np.broadcast_to(bits, lanes.shape)
    out: dict[tuple[int, ...], TensorMap] = {}
    for b, t in zip(*np.nonzero(lanes), strict=True):
        def get(name: str, i: int = 0, b: int = b, t: int = t) -> int:
            word = words[name, i]
            if word is None:
                raise m.unsupported("tensor-map", f"the tensor map's {name} is not set")
            return int(word[b, t])

        rank = get("rank") + 1
        if get("interleave_layout") or get("fill_mode") or any(
                get("element_stride", i) != 1 for i in range(rank)):
            raise m.unsupported("tensor-map", "this kind of tensor map is not modelled")
        size = _ELEM_BYTES[get("elemtype")]
        out[int(b), int(t)] = TensorMap(
            get("global_address"), tuple(get("global_dim", i) for i in range(rank)),
            (size, *(get("global_stride", i) for i in range(rank - 1))),
            tuple(get("box_dim", i) for i in range(rank)), size, _SWIZZLE[get("swizzle_mode")])
    return out


def _maps(m: Machine, address: NDArray[Any], lanes: Mask) -> dict[tuple[int, ...], TensorMap]:
    wide = np.broadcast_to(address, lanes.shape)
    first = int(wide[lanes][0])
    if first >> 56 == GENERIC_PARAM >> 56:
        if some(wide[lanes] != first):
            raise m.unsupported("tensor-map", "lanes name different tensor map parameters")
        arg = m.memory.maps.get(first - GENERIC_PARAM)
        if arg is None:
            raise m.unsupported("tensor-map", "the launch facts give no tensor map for this "
                                              "parameter")
        one = _from_launch(m, arg)
        return {(int(b), int(t)): one for b, t in zip(*np.nonzero(lanes), strict=True)}
    return _from_memory(m, address, lanes)


def _box(tmap: TensorMap, coords: list[NDArray[np.int64]]) -> tuple[Any, Any, Any]:
    """(byte offset in shared, global byte offset from base, inside?) for (lanes, elements)."""
    grid = np.indices(tuple(reversed(tmap.box))).reshape(len(tmap.box), -1)[::-1]
    count = grid.shape[1]
    shared = np.arange(count, dtype=np.int64) * tmap.elem_bytes
    place_in = np.zeros((len(coords[0]), count), dtype=np.int64)
    inside = np.ones((len(coords[0]), count), dtype=bool)
    for i, c in enumerate(coords):
        at = c.reshape(-1, 1) + grid[i].reshape(1, -1)
        inside &= (at >= 0) & (at < tmap.dims[i])
        place_in += at * tmap.strides[i]
    return shared, place_in, inside


def _signed32(a: NDArray[Any]) -> NDArray[np.int64]:
    return ((a.astype(np.int64) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def _region(m: Machine, base: int) -> tuple[Cells, int]:
    number = base >> REGION_SHIFT
    if not 1 <= number <= len(m.memory.regions):
        raise m.unsupported("tensor-map", "a tensor map's address is no buffer of the launch")
    return m.memory.regions[number - 1], (base & ((1 << REGION_SHIFT) - 1)) - REGION_START


def _groups(maps: dict[tuple[int, ...], TensorMap]) -> list[tuple[TensorMap, Any, Any]]:
    """Issuing lanes that share one map: (map, block numbers, thread numbers)."""
    by_map: dict[TensorMap, list[tuple[int, ...]]] = {}
    for lane, tmap in maps.items():
        by_map.setdefault(tmap, []).append(lane)
    return [(tmap, np.array([b for b, _ in lanes]), np.array([t for _, t in lanes]))
            for tmap, lanes in by_map.items()]


def _bulk(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    attr: BulkCopy = op.attr
    if attr.multicast or attr.ctas > 1:
        raise m.unsupported("bulk-copy", "copies between blocks of a cluster are not modelled")
    lanes = m.full(on) & m.live
    bits = [np.broadcast_to(m.known(v, on, "a bulk copy's operand"), lanes.shape) for v in values]
    if attr.dims == 0:
        _plain(m, attr, bits, lanes)
        return
    if attr.kind == "g2s":
        dst, where, coords, bar = bits[0], bits[1], bits[2 : 2 + attr.dims], bits[2 + attr.dims]
    else:
        where, coords, dst, bar = bits[0], bits[1 : 1 + attr.dims], bits[1 + attr.dims], None
    for tmap, b, t in _groups(_maps(m, where, lanes)):
        if len(tmap.dims) != attr.dims:
            raise m.unsupported("tensor-map", f"a map of {len(tmap.dims)} dimensions in a "
                                              f"{attr.dims}-dimensional copy")
        shared, offset, inside = _box(tmap, [_signed32(c[b, t]) for c in coords])
        start = (dst[b, t].astype(np.int64) & 0xFFFFFFFF).reshape(-1, 1)
        at = swizzled(start + shared, tmap.swizzle)
        cells, origin = _region(m, tmap.base)
        if attr.kind == "g2s":
            _tensor_in(m, tmap, cells, origin + offset, inside, at, b, t)
            assert bar is not None
            _complete(m, bar, b, t, at.shape[1] * tmap.elem_bytes, at, tmap.elem_bytes)
        else:
            _tensor_out(m, attr, tmap, cells, origin + offset, inside, at, b, t)


def _threads(m: Machine, b: Any, t: Any) -> Codes:
    return np.asarray(m.who[b, t].reshape(-1, 1))


def _tensor_in(m: Machine, tmap: TensorMap, cells: Cells, offset: Any, inside: Any, at: Any,
               b: Any, t: Any) -> None:
    width = 8 * tmap.elem_bytes
    _inside_buffer(m, cells, offset, inside, tmap.elem_bytes)
    v: V = const(0, width)
    if some(inside):
        loaded = cells.load(0, offset, width, None if every(inside) else inside, _threads(m, b, t),
                            tmap.elem_bytes)
        v = loaded if every(inside) else merge(inside, loaded, v)
    if some(at < 0) or some(at + tmap.elem_bytes > m.shared.size_bytes):
        m.report("out-of-bounds", "a tensor copy writes outside shared memory")
        raise m.unsupported("out-of-bounds", "a tensor copy writes outside shared memory")
    m.shared.store(b.reshape(-1, 1), at, v, None, _threads(m, b, t), tmap.elem_bytes)


def _inside_buffer(m: Machine, cells: Cells, offset: Any, inside: Any, size: int) -> None:
    bad = inside & ((offset < 0) | (offset + size > cells.size_bytes))
    if some(bad):
        m.report("out-of-bounds", f"a tensor map reaches outside {cells.name}")
        raise m.unsupported("out-of-bounds", f"a tensor map reaches outside {cells.name}")


def _complete(m: Machine, bar: NDArray[Any], b: Any, t: Any, size: int, at: Any,
              elem_bytes: int) -> None:
    """The bytes arrive at each issuing lane's mbarrier; they stay pending until a wait."""
    shared = m.shared
    assert shared.watch is not None
    for i, (block, thread) in enumerate(zip(b, t, strict=True)):
        one = mbar_at(m, int(block), int(bar[block, thread]) & 0xFFFFFFFF, int(thread))
        publish(m, one, int(block), [int(thread)])
        rows = shared.rows(int(block), at[i], elem_bytes).flat()
        shared.watch.mark(rows, True)
        one.incoming.append([shared.watch, rows, _COPIED, False])
        one.tx -= size
        settle(one)


def arrived(m: Machine, landed: list[Any], block: int) -> None:
    """Somebody waited for a phase: its bytes are there for all that wait, or learn of it."""
    for entry in landed:
        watch, rows, number, done = entry
        if done:
            continue
        entry[-1] = True
        engine = np.full(m.B, m.order.engine(block), dtype=np.int32)
        if number == _COPIED:
            watch.mark(rows, False)
            watch.wrote(rows, engine[watch.blocks(rows)])
        elif number:
            watch.end_reading(rows, number)
            watch.read_until_now(rows, engine)
        else:
            watch.mark(rows, False)


def _tensor_out(m: Machine, attr: BulkCopy, tmap: TensorMap, cells: Cells, offset: Any, inside: Any,
                at: Any, b: Any, t: Any) -> None:
    if attr.kind == "reduce" and attr.reduce_op == "add" and cells_float(m, cells):
        m.report("float-atomic", "a bulk reduction adds floats in arrival order")
        m.memory.nondeterministic = True
        return
    _inside_buffer(m, cells, offset, inside, tmap.elem_bytes)
    width = 8 * tmap.elem_bytes
    warps = _threads(m, b, t)
    v = m.shared.load(b.reshape(-1, 1), at, width, None, warps, tmap.elem_bytes)
    cells.line = m.program.sites[m.program.ops[m.pc].site].span.line
    keep = None if every(inside) else inside
    if attr.kind == "reduce":
        old = cells.load(0, offset, width, keep, warps, tmap.elem_bytes)
        v = _reduced(m, attr.reduce_op, old, v, width)
    cells.store(0, offset, v, keep, warps, tmap.elem_bytes)
    for i, (block, thread) in enumerate(zip(b, t, strict=True)):
        _begin(m, int(block), int(thread), at[i], cells, offset[i, inside[i]], tmap.elem_bytes)


def cells_float(m: Machine, cells: Cells) -> bool:
    """Whether a region holds floats."""
    owner = m.memory.owner[m.memory.regions.index(cells)]
    return owner is None or owner.dtype[0] in "fbe"


def _reduced(m: Machine, name: str, old: V, v: V, width: int) -> V:
    if name == "add" and not (isinstance(old, Conc) and isinstance(v, Conc)):
        return isum(width, [(1, old), (1, v)])
    core = {"add": "iadd", "and": "iand", "or": "ior", "xor": "ixor"}.get(name)
    if core is None:
        raise m.unsupported("bulk-copy", f"a bulk reduction by {name} is not modelled")
    return int_op(core, width, [old, v], None, width)


def _begin(m: Machine, block: int, thread: int, at: NDArray[np.int64], cells: Cells,
           offset: NDArray[np.int64], size: int) -> None:
    """A thread's store reads (shared) and writes (global) these elements until it has waited."""
    source, target = m.shared.rows(block, at, size).flat(), cells.rows(0, offset, size).flat()
    number = m.extra["step"] = m.extra.get("step", 0) + 1
    assert m.shared.watch is not None
    m.shared.watch.begin_reading(source, number)
    if cells.watch is not None:
        cells.watch.mark(target, True)
    m.extra.setdefault("stores", []).append(_Store(block, thread, source, number, cells, target))


def _plain(m: Machine, attr: BulkCopy, bits: list[NDArray[Any]], lanes: Mask) -> None:
    """A run of bytes."""
    for block, thread in zip(*np.nonzero(lanes), strict=True):
        one = np.zeros_like(lanes)
        one[block, thread] = True
        size = int(bits[2][block, thread])
        step = 4
        count = size // step
        if size % 16:
            raise m.unsupported("bulk-copy", "a bulk copy whose size is no multiple of 16")
        away = np.arange(count, dtype=np.int64).reshape(1, -1) * step
        who = m.who[block, thread].reshape(1, 1)
        if attr.kind == "g2s":
            dst, src = int(bits[0][block, thread]) & 0xFFFFFFFF, int(bits[1][block, thread])
            cells, origin = _region(m, src)
            _inside_buffer(m, cells, origin + away, np.ones_like(away, dtype=bool), step)
            v = cells.load(0, origin + away, 8 * step, None, who, step)
            at = dst + away
            m.shared.store(np.array([[block]]), at, v, None, who, step)
            _complete(m, bits[3], np.array([block]), np.array([thread]), size, at, step)
        else:
            dst, src = int(bits[0][block, thread]), int(bits[1][block, thread]) & 0xFFFFFFFF
            cells, origin = _region(m, dst)
            _inside_buffer(m, cells, origin + away, np.ones_like(away, dtype=bool), step)
            at = src + away
            v = m.shared.load(np.array([[block]]), at, 8 * step, None, who, step)
            cells.line = m.program.sites[m.program.ops[m.pc].site].span.line
            cells.store(0, origin + away, v, None, who, step)
            _begin(m, int(block), int(thread), at[0], cells, origin + away[0], step)


def _closed(m: Machine) -> NDArray[np.int64]:
    """How many groups of stores each thread has closed."""
    if "bulk groups" not in m.extra:
        m.extra["bulk groups"] = np.zeros((m.B, m.T), dtype=np.int64)
    groups: NDArray[np.int64] = m.extra["bulk groups"]
    return groups


def _commit(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    """Close a group of stores of each thread."""
    lanes, groups = m.full(on) & m.live, _closed(m)
    for s in m.extra.get("stores", []):
        if s.group < 0 and lanes[s.block, s.thread]:
            s.group = int(groups[s.block, s.thread])
    groups[lanes] += 1


def _wait(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    """All but the last groups of a thread have read their source; without `.read`: are there."""
    pending, only_read = op.attr
    lanes, groups = m.full(on) & m.live, _closed(m)
    kept = []
    for s in m.extra.get("stores", []):
        over = lanes[s.block, s.thread] and 0 <= s.group < groups[s.block, s.thread] - int(pending)
        if over and s.number:
            _end_reading(m, s)
        if over and not only_read and s.cells.watch is not None:
            s.cells.watch.mark(s.target, False)
            s.cells.watch.wrote(s.target, np.full(
                s.target.at.shape, m.who[s.block, s.thread], dtype=np.int32))
        if not over or only_read:
            kept.append(s)
    m.extra["stores"] = kept


def _end_reading(m: Machine, s: _Store) -> None:
    watch = m.shared.watch
    assert watch is not None
    watch.end_reading(s.source, s.number)
    watch.read_until_now(s.source, np.full(m.B, m.who[s.block, s.thread], dtype=np.int32))
    s.number = 0


def _tensormap_set(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    name, ordinal = op.attr
    offset, width = _FIELD[name]
    address = m.known(values[0], on, "a tensor map's address")
    v = values[1]
    if v.w < width:
        v = int_op("zext", (v.w, width), [v], on, width)
    store_to(m, "generic", address + np.uint64(offset + max(ordinal, 0) * width // 8), v, on, 4)


BODIES: dict[str, Callable[..., None]] = {
    "bulk": _bulk, "bulk_commit": _commit, "bulk_wait": _wait, "tensormap_set": _tensormap_set,
}
