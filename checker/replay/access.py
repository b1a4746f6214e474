"""Loads, stores and atomics of every space, and ldmatrix/stmatrix.

In: addresses (which must be known), values. Out: steps. Misaligned accesses are refused; an access
outside its buffer is a finding, the lane reads undefined and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every
from checker.core import GENERIC_LOCAL, GENERIC_SHARED, MODULE_BASE, Atomic, Mem, Op, Program
from checker.replay import speculate
from checker.replay.buffers import REGION_SHIFT, REGION_START
from checker.replay.facts import CONC, UNDEF, Mask
from checker.replay.hashing import U64
from checker.replay.integers import int_op, isum
from checker.replay.machine import EMPTY, Machine, Step
from checker.replay.memory import Cells, Rows
from checker.replay.order import Codes
from checker.replay.values import (
    Conc,
    Hash,
    Pack,
    V,
    hash_of,
    make_pack,
    merge,
    resize,
    split,
    undefined,
)

__all__ = ["Lanes", "cells_from", "ldmatrix_together", "load_from", "load_many",
           "loads_together", "place", "side_by_side", "step", "store_to", "widened"]

Read = Callable[[Machine], list[V]]
Place = tuple[Cells, Any, NDArray[np.int64], "Mask | None"]


def step(program: Program, op: Op, read: Read) -> Step | None:
    """The step of a memory operation, None if it is not one of these."""
    make = {"load": _load, "store": _store,
            "atomic": lambda o: _atomic(o, program), "ldmatrix": _ldmatrix,
            "stmatrix": _stmatrix}.get(op.name)
    if make is None:
        return None
    body = make(op)

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            if op.name != "load" or op.guard is None:
                raise m.unsupported("data-dependent", f"whether a {op.name} happens depends on "
                                                      "data the launch facts do not give")
            speculate.maybe(m, op, m.read(op.guard.reg), lambda: body(m, read(m), m.mask))
            return
        body(m, read(m), on)

    return run


# --- addresses ----------------------------------------------------------------------------------


def _local(m: Machine) -> Cells:
    if m.local is None:
        m.local = Cells("local memory", max(4, m.program.local_bytes), 4, m.memory.report,
                        m.B * m.T)
    return m.local


def _split_space(m: Any, address: NDArray[Any], mask: Mask | None) -> Iterator[
        tuple[str, NDArray[Any], Mask | None]]:
    """Generic addresses by window."""
    window = address >> np.uint64(56)
    shape = window.shape if mask is None else np.broadcast_shapes(window.shape, mask.shape)
    on = np.ones(shape, dtype=bool) if mask is None else np.broadcast_to(mask, shape)
    wide = np.broadcast_to(window, shape)
    for value in np.unique(wide[on]):
        part = on & (wide == value)
        sub = mask if part.sum() == on.sum() else part
        if int(value) == GENERIC_SHARED >> 56:
            yield "shared", address - np.uint64(GENERIC_SHARED), sub
        elif int(value) == GENERIC_LOCAL >> 56:
            yield "local", address - np.uint64(GENERIC_LOCAL), sub
        else:
            yield "global", address, sub


def place(m: Any, space: str, address: NDArray[Any], mask: Mask | None, size: int,
          align: int) -> Iterator[Place]:
    """Where each lane's bytes are: cells, block index, byte offset, lanes; m: or `Lanes`."""
    ones = int(np.bitwise_or.reduce(address, axis=None))
    if ones & (max(1, align) - 1):
        off = address & np.uint64(align - 1) != 0
        if mask is None or (off & mask).any():
            raise m.unsupported("misaligned", f"an address is not aligned to {align} bytes")
    if space == "generic":
        for sub_space, sub_address, sub in _split_space(m, address, mask):
            yield from place(m, sub_space, sub_address, sub, size, 1)
        return
    if space in ("shared", "local"):
        cells = m.shared if space == "shared" else _local(m)
        block: Any = m.block_index if space == "shared" else m.block_index * m.T + m.lane_index
        address = address & np.uint64(0xFFFFFFFF)
        yield from _bounded(m, cells, block, address.view(np.int64), mask, size)
        return
    values, on, wide = [ones >> REGION_SHIFT], None, address
    if values[0] != int(np.bitwise_and.reduce(address, axis=None)) >> REGION_SHIFT:
        region = (address >> np.uint64(REGION_SHIFT)).astype(np.int64)
        shape = region.shape if mask is None else np.broadcast_shapes(region.shape, mask.shape)
        on = None if mask is None else np.broadcast_to(mask, shape)
        wide = np.broadcast_to(region, shape)
        values = np.unique(wide if on is None else wide[on]).tolist()  # that active lanes reach
    for value in values:
        sub = mask
        if len(values) > 1:
            sub = (wide == value) if on is None else on & (wide == value)
        offset = (address & np.uint64((1 << REGION_SHIFT) - 1)).view(np.int64)
        if value == MODULE_BASE >> REGION_SHIFT and m.memory.data is not None:
            yield from _bounded(m, m.memory.data, 0, offset, sub, size)
        elif 1 <= value <= len(m.memory.regions):
            yield from _bounded(m, m.memory.regions[value - 1], 0, offset - REGION_START, sub, size)
        else:
            m.report("out-of-bounds", "an access outside every buffer")


def _bounded(m: Any, cells: Cells, block: Any, offset: NDArray[np.int64], mask: Mask | None,
             size: int) -> Iterator[Place]:
    # as unsigned numbers, offsets before the start are the largest
    if offset.size and int(offset.view(np.uint64).max()) + size > cells.size_bytes:
        outside = (offset < 0) | (offset + size > cells.size_bytes)
        bad = outside if mask is None else outside & mask
        if bad.any():
            m.report("out-of-bounds", f"an access outside {cells.name} ({cells.size_bytes} bytes)")
            mask = ~outside if mask is None else mask & ~outside
            if not mask.any():
                return
    yield cells, block, offset, mask


def load_from(m: Machine, space: str, address: NDArray[Any], mask: Mask | None, width: int,
              align: int) -> V:
    """`width` bits at each lane's address."""
    return load_many(m, space, address, mask, width, 1, align)[0]


def load_many(m: Machine, space: str, address: NDArray[Any], mask: Mask | None, width: int,
              count: int, align: int) -> list[V]:
    """`count` neighbouring elements of `width` bits at each lane's address."""
    out: list[V] | None = None
    for cells, block, offset, sub in place(m, space, address, mask, width // 8 * count, align):
        got = cells.load_many(block, offset, width, count, sub, m.who, align)
        if sub is mask or (sub is not None and mask is not None and sub.shape == mask.shape
                           and (sub == mask).all()):
            return got
        lanes = np.broadcast_to(np.asarray(sub), (m.B, m.T))
        out = [merge(lanes, v, None if out is None else out[i]) for i, v in enumerate(got)]
    return [undefined(width)] * count if out is None else out


def cells_from(m: Any, space: str, address: NDArray[Any], mask: Mask | None, size: int,
               step: int, align: int) -> tuple[Cells, NDArray[Any], NDArray[Any]]:
    """`size` bytes at each lane's address as cells, of `step` bytes or less.

    Returns the memory (one of those that were read), (2, *lanes, cells) and (*lanes, cells).
    """
    found: tuple[Cells, NDArray[Any], NDArray[Any]] | None = None
    for cells, block, offset, sub in place(m, space, address, mask, size, align):
        cells.fit(step)
        h, f = cells.load_cells(block, offset, size, sub, m.who)
        if sub is mask:
            return cells, h, f
        there = np.broadcast_to(np.asarray(sub), address.shape)[..., None]
        old = found[1:] if found is not None else (hash_of(undefined(8))[0], np.uint32(UNDEF))
        found = cells, np.where(there, h, old[0]), np.where(there, f, old[1])
    if found is None:
        none = hash_of(undefined(8))[0]
        return m.shared, np.broadcast_to(none, (2, *address.shape, size // step)), np.full(
            (*address.shape, size // step), UNDEF, dtype=np.uint32)
    return found


def store_to(m: Machine, space: str, address: NDArray[Any], v: V, mask: Mask | None,
             align: int) -> None:
    """Write each active lane's value at its address."""
    line = m.program.sites[m.program.ops[m.pc].site].span.line
    for cells, block, offset, sub in place(m, space, address, mask, v.w // 8, align):
        cells.line = line
        if sub is None and m.threads != m.T:
            sub = m.live
        cells.store(block, offset, v, sub, m.who, align)


# --- load, store --------------------------------------------------------------------------------


def _address(m: Machine, v: V, mask: Mask | None, offset: int, space: str) -> NDArray[Any]:
    bits = m.known(v, mask, "an address")
    if bits.dtype == np.bool_:
        bits = bits.astype(np.uint64)
    if offset:
        wrap = 0xFFFFFFFF if v.w == 32 else 0xFFFFFFFFFFFFFFFF
        bits = (bits + np.uint64(offset % (1 << 64))) & np.uint64(wrap)
    return bits


def _load(op: Op) -> Callable[..., None]:
    mem: Mem = op.attr
    size = mem.width_bits // 8

    def run(m: Machine, values: list[V], on: Mask | None) -> None:
        address = _address(m, values[0], on, mem.offset_bytes, mem.space)
        if mem.space == "param":
            flat = np.unique(address)
            if len(flat) != 1:
                raise m.unsupported("parameter", "a parameter is read at a varying offset")
            got = [m.memory.param(int(flat[0]) + i * size, mem.width_bits)
                   for i in range(len(op.dst))]
        else:
            got = load_many(m, mem.space, address, on, mem.width_bits, len(op.dst),
                            max(mem.align_bytes, size))
            if mem.constant:
                _unwritten(m, mem.space, address, on, size * len(op.dst))
        for d, v in zip(op.dst, got, strict=True):
            width = m.program.reg_widths[d]
            m.put(d, v if v.w == width else resize(v, width), on, op.guard is not None)

    return run


def loads_together(m: Machine, ops: list[Op], values: list[list[V]]) -> bool:
    """Loads of one kind that follow each other, at once where they go to one memory.

    False: whether one of them happens depends on data.
    """
    mem: Mem = ops[0].attr
    active: dict[int, Mask | None] = {}
    for i, op in enumerate(ops):
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is None or isinstance(on, np.ndarray):
            active[i] = on
        elif on is not EMPTY:
            return False
    addresses = {i: _address(m, values[i][0], on, ops[i].attr.offset_bytes, mem.space)
                 for i, on in active.items()}
    groups: dict[int, list[int]] = {}
    for i, address in addresses.items():
        groups.setdefault(int(address.flat[0]) >> REGION_SHIFT, []).append(i)
    most = max(1, _LANES // (m.B * m.T))
    found: dict[int, list[V]] = {}
    for group in groups.values():
        for at in range(0, len(group), most):
            part = group[at : at + most]
            found |= zip(part, _side_by_side(m, mem, [addresses[i] for i in part],
                                             [active[i] for i in part]), strict=True)
    for i, on in active.items():
        for d, v in zip(ops[i].dst, found[i], strict=True):
            width = m.program.reg_widths[d]
            m.put(d, v if v.w == width else resize(v, width), on, ops[i].guard is not None)
    return True


_LANES = 1 << 15  # lanes of accesses that are made at once, about


def _side_by_side(m: Machine, mem: Mem, addresses: list[NDArray[Any]],
                  masks: list[Mask | None]) -> list[list[V]]:
    """The elements of each of several loads."""
    times, size = len(addresses), mem.width_bits // 8
    many, address = widened(m, times), side_by_side(m, addresses)
    mask = None if all(on is None for on in masks) else side_by_side(m, [m.full(x) for x in masks])
    got = load_many(many, mem.space, address, mask, mem.width_bits, mem.count,
                    max(mem.align_bytes, size))
    if mem.constant:
        _unwritten(many, mem.space, address, mask, size * mem.count)
    return [list(one) for one in zip(*(_rows(v, times, (m.B, m.T)) for v in got), strict=True)]


def _rows(v: V, times: int, lanes: tuple[int, int]) -> list[V]:
    """A value of `times` accesses as one value each, of these lanes (blocks, threads)."""
    def cut(x: Any, *lead: int) -> Any:
        wide = np.broadcast_to(x, (*lead, times * lanes[0], lanes[1]))
        return wide.reshape(*lead, times, *lanes)

    if isinstance(v, Pack):
        return [make_pack(list(parts)) for parts in zip(
            *(_rows(p, times, lanes) for p in v.parts), strict=True)]
    if isinstance(v, Conc):
        defined = [None] * times if v.defined is None else cut(v.defined)
        return [Conc(bits, v.w, d) for bits, d in zip(cut(v.bits), defined, strict=True)]
    h = cut(v.h, 2)
    if isinstance(v.f, int):
        return [Hash(h[:, i], v.f, v.w) for i in range(times)]
    return [_value(h[:, i], f, v.w) for i, f in enumerate(cut(v.f))]


def _value(h: U64, f: NDArray[np.uint32], width: int) -> V:
    first = int(f.flat[0])
    if not every(f == first):
        return Hash(h, f, width)
    return Conc(h[1], width) if first & CONC and width <= 64 else Hash(h, first, width)


def _unwritten(m: Machine, space: str, address: NDArray[Any], mask: Mask | None,
               size: int) -> None:
    """Report a read, through a cache that does not see them, of bytes that the kernel wrote."""
    for cells, block, offset, sub in place(m, space, address, mask, size, 1):
        if cells.was_written(block, offset, size, sub):
            m.report("race-read", f"what the kernel wrote to {cells.name} is read as if nobody "
                                  "wrote there")


def _store(op: Op) -> Callable[..., None]:
    mem: Mem = op.attr
    size = mem.width_bits // 8

    def run(m: Machine, values: list[V], on: Mask | None) -> None:
        if mem.space in ("param", "const"):
            raise m.unsupported("store", f"a store to {mem.space} space")
        address = _address(m, values[0], on, mem.offset_bytes, mem.space)
        parts = [split(v, 0, mem.width_bits) if v.w > mem.width_bits else v for v in values[1:]]
        whole = parts[0] if len(parts) == 1 else make_pack(parts)
        if isinstance(whole, Hash) and len(parts) > 1:  # neighbours fused to what they came from
            whole = Pack(tuple(parts), sum(v.w for v in parts)) if not any(
                isinstance(v, Pack) for v in parts) else whole
        store_to(m, mem.space, address, whole, on, max(mem.align_bytes, size))

    return run


# --- atomics ------------------------------------------------------------------------------------

_FREE = {"add": "iadd", "min": "imin_", "max": "imax_", "and": "iand", "or": "ior",
         "xor": "ixor"}


def _atomic(op: Op, program: Program) -> Callable[..., None]:
    attr: Atomic = op.attr
    used = {r for o in program.ops for r in o.reads}
    read_later = any(d in used for d in op.dst)

    def run(m: Machine, values: list[V], on: Mask | None) -> None:
        width = int("".join(c for c in attr.type.split("x")[0] if c.isdigit()) or 32)
        if attr.type.startswith(("f", "bf")) and attr.op in ("add", "sub"):
            m.report("float-atomic", "a floating-point atomic adds in arrival order")
            m.memory.nondeterministic = True
            return
        if read_later:
            raise m.unsupported("atomic", "the value an atomic returns depends on the order of "
                                          "arrival")
        if attr.op not in _FREE or attr.type.startswith(("f", "bf")):
            raise m.unsupported("atomic", f"atomic {attr.op} {attr.type} is not modelled")
        address = _address(m, values[0], on, attr.offset_bytes, attr.space)
        for i, v in enumerate(values[1:]):
            _combine(m, attr, address + np.uint64(i * width // 8), split(v, 0, width), on, width)

    return run


def _combine(m: Machine, attr: Atomic, address: NDArray[Any], v: V, on: Mask | None,
             width: int) -> None:
    """Order-free integer atomics, one lane per address at a time."""
    name = _FREE[attr.op]
    if name.endswith("_"):
        name += attr.type[0] if attr.type[0] in "us" else "u"
    kind = 1 + sorted(_FREE).index(attr.op) + 8 * width + (1 << 16) * (name[-2:] == "_s")
    full = m.full(on) & m.live
    wide = np.broadcast_to(address, full.shape)
    left = full.copy()
    while left.any():
        flat, at = wide.reshape(-1), np.nonzero(left.reshape(-1))[0]
        _, first = np.unique(flat[at], return_index=True)
        chosen = np.zeros(full.size, dtype=bool)
        chosen[at[first]] = True
        now = chosen.reshape(full.shape)
        for cells, block, offset, sub in place(m, attr.space, address, now, width // 8,
                                               width // 8):
            rows, who = _touched(m, cells, block, offset, sub, width // 8)
            cells.begin_atomic(rows, who, kind)
            cells.unwatched = True
            old = cells.load(block, offset, width, sub, m.who, width // 8)
            new = isum(width, [(1, old), (1, v)]) if name == "iadd" and not (
                isinstance(old, Conc) and isinstance(v, Conc)) else int_op(
                    name, width, [old, v], sub, width)
            cells.store(block, offset, new, sub, m.who, width // 8)
            cells.unwatched = False
            cells.end_atomic(rows, kind)
        left &= ~now


def _touched(m: Machine, cells: Cells, block: Any, offset: NDArray[np.int64], on: Mask | None,
             size: int) -> tuple[Rows, Codes]:
    """Rows that the active lanes reach, and the code of each lane."""
    full = m.full(on) & m.live
    cells.fit(size)
    lanes = [np.broadcast_to(x, full.shape)[full] for x in (block, offset, m.who)]
    rows = cells.rows(lanes[0], lanes[1], size)
    return rows.flat(), np.tile(lanes[2], len(rows.at))


# --- ldmatrix, stmatrix -------------------------------------------------------------------------


def _ldmatrix(op: Op) -> Callable[..., None]:

    def run(m: Machine, values: list[V], on: Mask | None) -> None:
        _matrices(m, [op], [values], on)

    return run


def ldmatrix_together(m: Machine, ops: list[Op], values: list[list[V]]) -> bool:
    """Matrix loads of one kind that follow each other, done at once."""
    if not (m.mask is None or m.solo):
        return False
    _matrices(m, ops, values, m.mask)
    return True


def _matrices(m: Machine, ops: list[Op], values: list[list[V]], on: Mask | None) -> None:
    """All 8x8 matrices of some ldmatrix: one access to their rows of 16 bytes."""
    attr = ops[0].attr
    if attr.rows != 8 or attr.cols != 8:
        raise m.unsupported("ldmatrix", "only 8x8 matrices of b16 are modelled")
    if on is not None and (m.full(on) != m.live).any():
        _whole_warps(m, on)
    count, many = len(ops[0].dst), len(ops)
    address = side_by_side(m, [m.known(v[0], on, "an address") for v in values])
    # lane 8 i + r of a warp names row r of matrix i: (operations, matrices, B, warps, 8)
    start = address.reshape(many, m.B, m.warps, m.width)[..., : 8 * count].reshape(
        many, m.B, m.warps, count, 8).transpose(0, 3, 1, 2, 4).reshape(-1, m.warps * 8)
    mask = None if on is None else np.tile(m.full(on)[:, :: m.width // 8], (many * count, 1))
    cells, h, f = cells_from(widened(m, many * count, m.width // 8), "shared", _unwindow(start),
                             mask, 16, 2 if attr.trans else 4, 16)
    h, f = _dealt(h, m.warps, attr.trans), _dealt(f, m.warps, attr.trans)
    cut = f.reshape(len(f), many * count, -1)
    first = cut[..., 0]
    alike = (cut == first[..., None]).all(axis=-1)
    for n, op in enumerate(ops):
        for i, d in enumerate(op.dst):
            k = n * count + i
            mine = slice(k * m.B, (k + 1) * m.B)
            parts = [cells.uniform(x[:, mine], int(first[c, k])) if alike[c, k] else
                     cells.value(x[:, mine], f[c, mine]) for c, x in enumerate(h)]
            whole = parts[0] if len(parts) == 1 else Pack(tuple(parts), 32) if all(
                type(part) is Hash for part in parts) else make_pack(parts)
            m.put(d, whole, on, op.guard is not None)


def _dealt(rows: NDArray[Any], warps: int, trans: bool) -> NDArray[Any]:
    """Rows of matrices (..., warps * 8, cells) as what each lane gets (cells, ..., warps * 32)."""
    lead, cells = rows.shape[:-2], rows.shape[-1]
    if trans:  # lane 4 c + q: column c of rows 2 q and 2 q + 1
        parts = rows.reshape(*lead, warps, 4, 2, 8, cells // 8)
        n = parts.ndim
        rows = parts.transpose(*range(n - 4), n - 2, n - 4, n - 3, n - 1)
    lanes = rows.reshape(*lead, warps * 32, cells // 4)
    return np.ascontiguousarray(np.moveaxis(lanes, -1, 0))


# --- several accesses side by side --------------------------------------------------------------


class Lanes:
    """What `place` asks of a machine, for any lanes: the block and the code of each."""

    def __init__(self, m: Machine, block: NDArray[np.int64], who: Codes) -> None:
        self.block_index, self.who = block, who
        self.shared, self.memory = m.shared, m.memory
        self.report, self.unsupported = m.report, m.unsupported


class _Widened:
    """What an access asks of a machine, for `times` copies of its blocks."""

    def __init__(self, m: Machine, times: int, every: int) -> None:
        self.B, self.T, self.lanes = m.B * times, m.T // every, m.lanes
        kept = m.extra.setdefault("widened", {})
        of, arrays = kept.get((times, every), (None, ()))
        if of is not m.live:
            who = m.who if every == 1 else m.whole_warp
            arrays = [np.tile(x, (times, 1)) for x in (
                m.block_index, who[:, ::every], m.live[:, ::every])]
            kept[times, every] = m.live, arrays
        self.block_index, self.who, self.live = arrays
        self.lane_index, self.width, self.pc = m.lane_index[:, ::every], m.width, m.pc
        self.shared, self.memory, self.program, self.extra = m.shared, m.memory, m.program, m.extra
        self.report, self.unsupported = m.report, m.unsupported

    def full(self, mask: Mask | None) -> Mask:
        """The mask as a (B, T) array."""
        return np.broadcast_to(True if mask is None else mask, (self.B, self.T))


def widened(m: Machine, times: int, every: int = 1) -> Any:
    """A machine whose blocks are `times` copies of these: for accesses to shared and global.

    every: only each so many-th lane, which stands for its whole warp.
    """
    return _Widened(m, times, every)


def side_by_side(m: Machine, arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of lanes for all of these (copies * B, T)."""
    out = np.empty((len(arrays), m.B, m.T), dtype=arrays[0].dtype)
    for i, a in enumerate(arrays):
        out[i] = a
    return out.reshape(-1, m.T)


def _pieces(lane: NDArray[np.int64], trans: bool) -> list[tuple[Any, Any, int]]:
    """A lane's part of an 8x8 matrix of b16, (row, column, bits): neighbours in one access."""
    if trans:
        return [(2 * (lane % 4) + k, lane // 4, 16) for k in range(2)]
    return [(lane // 4, 2 * (lane % 4), 32)]


def _whole_warps(m: Machine, on: Mask) -> None:
    cut = m.full(on).reshape(m.B, m.warps, m.width)
    if (cut.any(axis=2) & ~cut.all(axis=2)).any():
        raise m.unsupported("partial-warp", "a whole-warp operation runs in part of a warp")


def _unwindow(address: NDArray[Any]) -> NDArray[Any]:
    return address & np.uint64(0xFFFFFFFF)


def _stmatrix(op: Op) -> Callable[..., None]:
    attr = op.attr

    def run(m: Machine, values: list[V], on: Mask | None) -> None:
        if attr.rows != 8 or attr.cols != 8:
            raise m.unsupported("stmatrix", "only 8x8 matrices of b16 are modelled")
        if on is not None:
            _whole_warps(m, on)
        address = m.known(values[0], on, "an address")
        address = np.broadcast_to(address, (address.shape[0], m.T))
        lane = m.lane_index % m.width
        if ((address & np.uint64(15) != 0) & (lane < 8 * len(values[1:])) & m.full(on)).any():
            raise m.unsupported("misaligned", "a row of a matrix is not aligned to 16 bytes")
        for i, v in enumerate(values[1:]):
            for k, (row, col, bits) in enumerate(_pieces(lane, attr.trans)):
                start = _unwindow(address[:, (8 * i + row + m.warp_base)[0]])
                store_to(m, "shared", start + (2 * col).astype(np.uint64),
                         split(v, bits * k, bits), on, bits // 8)

    return run


