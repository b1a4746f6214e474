"""Tensor memory and its matrix unit (tcgen05): 128 lanes x 512 columns of 32 bits for each block.

In: addresses (lane in the upper half, column in the lower), descriptors. Out: steps. A matrix step
is carried out at issue; its results are pending until somebody waits for the mbarrier that its
commit arrives on, what a store wrote until its thread waits for it; what a load reads may not
change before. A register that a load writes rests on the premise `tmem-waits`. Modelled: 32x32b and
16x32bx2 moves, M = 64 and 128 of one block, f32 and s32 accumulators. Source: the ISA manual,
9.7.16 (data path layouts D and F, instruction descriptor).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith.steps import step_model
from checker.arith.tensor import resolve
from checker.arrays import every, some
from checker.core import Fragment, MatrixOperand, Mma, Op, Program, TensorMemory
from checker.replay import descriptors
from checker.replay.access import store_to
from checker.replay.facts import CONC, Facts, Mask
from checker.replay.hashing import U64, const_hash
from checker.replay.machine import EMPTY, Machine, Step
from checker.replay.memory import Cells, Rows
from checker.replay.sync import lanes_of, mbar_at, publish, settle
from checker.replay.values import Conc, Hash, V, hash_of

__all__ = ["commit", "mma", "step"]

_COLUMNS, _LANES = 512, 128


@dataclass(slots=True)
class _Shape:
    """What the matrix code asks of a machine, for the issuing blocks alone."""

    B: int
    T: int
    domain: Any


def _cells(m: Machine) -> Cells:
    if "tmem" not in m.extra:
        cells = Cells("tensor memory", _LANES * _COLUMNS * 4, 4, m.report, m.B)
        cells.track(m.order, True)
        m.extra["tmem"] = cells
        m.extra["columns"] = np.zeros((m.B, _COLUMNS), dtype=bool)
    return m.extra["tmem"]  # type: ignore[no-any-return]


def step(program: Program, op: Op, read: Callable[[Machine], list[V]]) -> Step:
    """The step of a tensor memory operation."""
    attr: TensorMemory = op.attr
    body = {"alloc": _alloc, "dealloc": _dealloc, "relinquish": _nothing, "ld": _ld,
            "st": _st, "wait_ld": _wait, "wait_st": _wait}.get(attr.action)

    def run(m: Machine) -> None:
        if body is None or attr.ctas > 1:
            raise m.unsupported("tensor-memory", f"tcgen05 {attr.action} {attr.shape} of "
                                                 f"{attr.ctas} block(s) is not modelled")
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            raise m.unsupported("data-dependent", "whether tensor memory moves depends on data")
        body(m, op, read(m), on)

    return run


def _nothing(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    return


def _alloc(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    """First columns that are free; the address goes to shared memory."""
    _cells(m)
    used: NDArray[np.bool_] = m.extra["columns"]
    count = np.broadcast_to(m.known(values[1], on, "a column count"), (m.B, m.T))
    address = np.broadcast_to(m.known(values[0], on, "an address"), (m.B, m.T))
    full = m.full(on) & m.live
    first = np.zeros((m.B, m.T), dtype=np.uint64)
    one = np.zeros_like(full)
    for block in np.nonzero(full.any(axis=1))[0]:
        thread = int(full[block].argmax())
        n = int(count[block, thread])
        at = next((c for c in range(0, _COLUMNS, n) if not some(used[block, c : c + n])), None)
        if at is None or n > _COLUMNS:
            raise m.unsupported("tensor-memory", "tensor memory is exhausted")
        used[block, at : at + n] = True
        first[block] = at
        one[block, thread] = True
    store_to(m, "shared", address, Conc(first, 32), one, 4)


def _dealloc(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    _cells(m)
    full = m.full(on) & m.live
    start = np.broadcast_to(m.known(values[0], on, "an address"), full.shape)
    count = np.broadcast_to(m.known(values[1], on, "a column count"), full.shape)
    for block in np.nonzero(full.any(axis=1))[0]:
        thread = int(full[block].argmax())
        at = int(start[block, thread]) & 0xFFFF
        m.extra["columns"][block, at : at + int(count[block, thread])] = False


# --- moves --------------------------------------------------------------------------------------


def _offsets(m: Machine, attr: TensorMemory, values: list[V], on: Mask | None
             ) -> tuple[NDArray[np.int64], int]:
    """Byte offset of each thread's first column, and how many operands the address took."""
    address = np.broadcast_to(m.known(values[0], on, "a tensor memory address"), (m.B, m.T))
    at = address.astype(np.int64)
    row, col, taken = at >> 16, at & 0xFFFF, 1
    lane = m.lane_index % m.width
    if attr.shape == "32x32b":
        row = row + lane
    elif attr.shape == "16x32bx2":
        split = int(m.known(values[1], on, "a half split").flat[0])
        row, col, taken = row + lane % 16, col + lane // 16 * split, 2
    else:
        raise m.unsupported("tensor-memory",
                            f"tcgen05 moves of shape {attr.shape} are not modelled")
    full = m.full(on)
    if some((row // 32 != m.lane_index // m.width % 4) & full):
        m.report("tensor-memory", "a warp reaches tensor memory lanes of another warp")
    if some((row >= _LANES) & full) or some((col + attr.num > _COLUMNS) & full):
        raise m.unsupported("out-of-bounds", "an access outside tensor memory")
    return (np.where(full, row * _COLUMNS + col, 0)) * 4, taken


def _ld(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    attr: TensorMemory = op.attr
    if attr.pack:
        raise m.unsupported("tensor-memory", "tcgen05.ld.pack is not modelled")
    offset, _ = _offsets(m, attr, values, on)
    got = _cells(m).load_many(m.block_index, offset, 32, attr.num, on, m.who, 4)
    for d, v in zip(op.dst, got, strict=True):
        m.put(d, v, on, op.guard is not None)
    m.memory.premises.add("tmem-waits")
    _begin(m, offset, attr, m.full(on) & m.live)


def _st(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    attr: TensorMemory = op.attr
    if attr.pack:
        raise m.unsupported("tensor-memory", "tcgen05.st.unpack is not modelled")
    offset, taken = _offsets(m, attr, values, on)
    parts = values[taken:]
    full = m.full(on) & m.live
    cells = _cells(m)
    for i, v in enumerate(parts):
        cells.store(m.block_index, offset + 4 * i, v, full, m.who, 4)
    _begin(m, offset, attr, full)


@dataclass(slots=True)
class _Move:
    """A load or store under way, by its number: rows (pieces, threads), and whose they are."""

    action: str
    rows: Rows
    block: NDArray[np.int64]
    thread: NDArray[np.int64]
    number: int


def _begin(m: Machine, offset: NDArray[np.int64], attr: TensorMemory, full: Mask) -> None:
    cells = _cells(m)
    assert cells.watch is not None
    b, t = np.nonzero(full)
    number = m.extra["step"] = m.extra.get("step", 0) + 1
    move = _Move(attr.action, cells.rows(b, offset[b, t], 4 * attr.num), b, t, number)
    cells.watch.begin_reading(move.rows, number)  # a matrix step may not write there
    if attr.action == "st":
        cells.watch.mark(move.rows, True)
    m.extra.setdefault("moves", []).append(move)


def _wait(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    """The moves of one kind that these threads made so far are over."""
    full, kept = m.full(on) & m.live, []
    watch = _cells(m).watch
    assert watch is not None
    for move in m.extra.get("moves", []):
        done = full[move.block, move.thread]
        if "wait_" + move.action != op.attr.action or not some(done):
            kept.append(move)
            continue
        rows, who = move.rows.some(np.s_[:, done]), m.who[move.block, move.thread][done]
        watch.end_reading(rows, move.number)
        if move.action == "st":
            watch.mark(rows, False)
            watch.wrote(rows.flat(), np.tile(who, len(rows.at)))
        else:
            watch.read(rows.flat(), np.tile(who, len(rows.at)))
        if not every(done):
            kept.append(_Move(move.action, move.rows.some(np.s_[:, ~done]), move.block[~done],
                              move.thread[~done], move.number))
    m.extra["moves"] = kept


# --- the matrix unit ----------------------------------------------------------------------------


def _resolve(m: Machine, attr: Mma, idesc: int) -> Mma:
    """The instruction with what its descriptor says."""
    found = resolve(attr, idesc)
    if found is None:
        raise m.unsupported("tensor-memory", f"instruction descriptor {idesc:#x} is not modelled")
    return found


def mma(m: Machine, op: Op, values: list[V], on: Mask | None, _model: Any) -> None:
    """One step for each issuing block: D in tensor memory."""
    from checker.replay import matrix
    lanes = m.full(on) & m.live
    b, t = np.nonzero(lanes)
    if len(np.unique(b)) != len(b):
        raise m.unsupported("tensor-memory", "several threads of a block issue one matrix step")
    words = [np.broadcast_to(m.known(v, on, "a matrix step's operand"), lanes.shape)[b, t]
             for v in values]
    if len(np.unique(words[4])) != 1:
        raise m.unsupported("tensor-memory", "blocks use different instruction descriptors")
    attr = _resolve(m, op.attr, int(words[4][0]))
    model = step_model(attr)
    who = m.who[b, t].reshape(-1, 1)
    a_tile = _operand(m, attr.a, words[0], attr.m, attr.k, False, b, who)
    b_tile = _operand(m, attr.b, words[1], attr.k, attr.n, True, b, who)
    offset = _matrix_offset(m, attr, words[2])
    count = attr.m * attr.n
    shape = _Shape(len(b), 1, m.domain)
    cells = _cells(m)
    where = b.reshape(-1, 1)
    _set_pending(cells, b, offset, False)
    keep = (words[3] != 0).reshape(-1, 1)
    zero = const_hash(np.zeros((1, 1), dtype=np.uint64))
    old = hash_of(cells.load(where, offset, 32, keep, who, 4)) if some(keep) else (zero, CONC)
    h = np.where(keep, old[0], zero)
    f = _plain(np.where(keep, np.asarray(old[1], dtype=np.uint32), np.uint32(CONC)))
    full = np.broadcast_to(h, (2, len(b), count)).transpose(0, 2, 1).reshape(2, count, len(b), 1)
    facts = f if isinstance(f, int) else np.broadcast_to(f, (len(b), count)).transpose(
        1, 0).reshape(count, len(b), 1)
    (out_h, out_f), _ = matrix.multiply(shape, attr, model, a_tile, b_tile, (full, facts),  # type: ignore[arg-type]
                                        _fragment(attr.m, attr.n))
    result = Hash(out_h.reshape(2, count, len(b)).transpose(0, 2, 1),
                  out_f if isinstance(out_f, int) else np.broadcast_to(
                      out_f, (count, len(b), 1)).reshape(count, len(b)).transpose(1, 0), 32)
    cells.store(where, offset, result, None, who, 4)
    waiting = m.extra.setdefault("uncommitted", {})
    for block, thread, rows in zip(b, t, _set_pending(cells, b, offset, True), strict=True):
        waiting.setdefault((int(block), int(thread)), []).append([cells.watch, rows, 0, False])
    for watch, rows, number in m.extra.pop("reads", []):
        watch.begin_reading(rows, number)
        owner = watch.blocks(rows)
        for block, thread in zip(b, t, strict=True):
            waiting[int(block), int(thread)].append(
                [watch, rows.some(owner == block), number, False])


def _set_pending(cells: Cells, b: Any, offset: NDArray[np.int64], value: bool) -> list[Rows]:
    """Mark D's cells of each block; returns them."""
    assert cells.watch is not None
    rows = cells.rows(b.reshape(-1, 1), offset, 4)
    cells.watch.mark(rows, value)
    return [rows.some(np.s_[:, i]).flat() for i in range(len(b))]


def _plain(f: NDArray[np.uint32]) -> Facts:
    first = int(f.flat[0])
    return first if every(f == first) else f


_FRAGMENTS: dict[tuple[int, int], Fragment] = {}


def _fragment(rows: int, cols: int) -> Fragment:
    """A whole matrix in one lane."""
    found = _FRAGMENTS.get((rows, cols))
    if found is None:
        at = np.arange(rows * cols).reshape(1, -1)
        found = _FRAGMENTS[rows, cols] = Fragment(f"whole {rows}x{cols}", at // cols, at % cols, 32)
    return found


def _matrix_offset(m: Machine, attr: Mma, address: NDArray[Any]) -> NDArray[np.int64]:
    """Byte offsets of D's elements for each issuing block: (blocks, m * n)."""
    row = np.arange(attr.m).reshape(-1, 1)
    if attr.m == 64:
        row = row + row // 16 * 16
    col = np.arange(attr.n).reshape(1, -1)
    at = address.astype(np.int64).reshape(-1, 1, 1)
    lane, column = (at >> 16) + row, (at & 0xFFFF) + col
    if some(lane >= _LANES) or some(column >= _COLUMNS):
        raise m.unsupported("out-of-bounds", "a matrix step reaches outside tensor memory")
    return np.asarray((lane * _COLUMNS + column).reshape(len(address), -1) * 4)


def _operand(m: Machine, operand: MatrixOperand, desc: NDArray[Any], rows: int, cols: int,
             is_b: bool, b: Any, who: Any) -> tuple[U64, Facts]:
    """A tile (2, blocks, 1, rows, cols) from shared or tensor memory."""
    from checker.replay import identities as ids
    from checker.replay.rounding import flat, unflat
    shape = (len(b), 1, rows, cols)
    if operand.source == "tmem":
        tile = unflat(flat(_packed(m, operand, desc, rows, cols, b, who),
                           (len(b), rows * cols)), shape)
    else:
        tile = descriptors.read_tile(m, operand, desc.reshape(-1, 1), rows, cols, is_b, "tcgen05",
                                     b.reshape(-1, 1), who, None)
    if operand.neg:
        return unflat(ids.negate(flat(tile, shape), ids.FLOAT_BITS.get(operand.type, 16)), shape)
    return tile


def _packed(m: Machine, operand: MatrixOperand, address: NDArray[Any], rows: int, cols: int,
            b: Any, who: Any) -> tuple[U64, Facts]:
    """Operand A in tensor memory: row = lane, elements packed along the columns."""
    size = descriptors.ELEMENT_BYTES[operand.type]
    row = np.arange(rows).reshape(-1, 1)
    if rows == 64:
        row = row + row // 16 * 16
    at = address.astype(np.int64).reshape(-1, 1, 1)
    offset = (((at >> 16) + row) * _COLUMNS + (at & 0xFFFF)) * 4 + np.arange(cols) * size
    v = _cells(m).load(b.reshape(-1, 1), offset.reshape(len(b), -1), 8 * size, None, who, size)
    return hash_of(v)


def commit(program: Program, op: Op, read: Callable[[Machine], list[V]]) -> Step:
    """tcgen05.commit: the mbarrier is arrived on when all earlier steps of the thread are done."""

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            raise m.unsupported("data-dependent", "whether a commit happens depends on data")
        address = m.known(read(m)[0], on, "an mbarrier address")
        for block, thread, at in lanes_of(m, on, address):
            bar = mbar_at(m, block, at, thread)
            publish(m, bar, block, [thread])
            waiting = m.extra.get("uncommitted", {})
            mine = [e for e in waiting.get((block, thread), []) if not e[-1]]
            waiting[block, thread] = mine
            bar.incoming += mine
            bar.pending -= 1
            settle(bar)

    return run


