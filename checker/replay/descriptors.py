"""Shared-memory matrix descriptors of wgmma and tcgen05: where element (row, k) lies.

In: a 64-bit descriptor. Out: tiles read from shared memory. Source: the ISA manual, "Shared memory
matrix layout"; swizzles permute 16-byte chunks by address bits 7 and up, on absolute addresses;
without a swizzle the two byte offsets swap their roles in MN-major operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.core import MatrixOperand
from checker.replay.facts import Facts, Mask
from checker.replay.hashing import U64
from checker.replay.machine import Machine
from checker.replay.memory import Rows
from checker.replay.values import V

__all__ = ["ELEMENT_BYTES", "addresses", "read", "read_tile", "swizzled"]

ELEMENT_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_WGMMA = {0: 0, 1: 128, 2: 64, 3: 32}
_TCGEN05 = {0: 0, 2: 128, 4: 64, 6: 32}


def swizzled(address: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Absolute byte address under a swizzle of `width` bytes."""
    if width == 0:
        return address
    bits = {128: 7, 64: 3, 32: 1}[width]
    return address ^ (((address >> 7) & bits) << 4)


def addresses(desc: NDArray[np.uint64], operand: MatrixOperand, row: NDArray[np.int64],
              col: NDArray[np.int64], is_b: bool, unit: str, m: Machine) -> NDArray[np.int64]:
    """Byte addresses (..., rows, cols) of elements (row, col) for descriptors (...)."""
    d = desc.astype(np.uint64)
    start = ((d & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    leading = (((d >> np.uint64(16)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    stride = (((d >> np.uint64(32)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    if some((d >> np.uint64(49)) & np.uint64(7)):
        raise m.unsupported("descriptor", "a matrix descriptor with a base offset is not modelled")
    if unit == "tcgen05":
        modes, table = (d >> np.uint64(61)) & np.uint64(7), _TCGEN05
    else:
        modes, table = (d >> np.uint64(62)) & np.uint64(3), _WGMMA
    mode = int(modes.flat[0])
    if some(modes != mode) or mode not in table:
        raise m.unsupported("descriptor", "this swizzle mode is not modelled")
    width = table[mode]
    size = ELEMENT_BYTES.get(operand.type)
    if size is None:
        raise m.unsupported("descriptor", f"shared-memory operands of type {operand.type} are not "
                                          "modelled")
    mn, k = (col, row) if is_b else (row, col)
    shape = (*d.shape, 1, 1)
    start, leading, stride = (x.reshape(shape) for x in (start, leading, stride))
    if operand.transposed:
        at = mn * size
        if width:
            out = start + at // width * leading + k // 8 * stride + k % 8 * width + at % width
        else:
            out = start + at // 16 * stride + k // 8 * leading + k % 8 * 16 + at % 16
    else:
        at = k * size
        if width:
            out = start + mn // 8 * stride + mn % 8 * width + at // width * leading + at % width
        else:
            out = start + mn // 8 * stride + at // 16 * leading + mn % 8 * 16 + at % 16
    return swizzled(np.asarray(out), width)


def read(m: Machine, operand: MatrixOperand, desc: V, rows: int, cols: int, is_b: bool,
         on: Mask | None, lanes: int, unit: str) -> tuple[U64, Facts]:
    """The operand of every group of `lanes` threads: (2, B, G, rows, cols)."""
    bits = np.broadcast_to(m.known(desc, on, "a matrix descriptor"), (m.B, m.T))
    first, active = bits[:, ::lanes], None
    if on is not None:
        active = m.full(on)[:, ::lanes]
        first = np.where(active, first, first[active][0])
    return read_tile(m, operand, first, rows, cols, is_b, unit, m.block_index,
                     m.whole_warp[:, lanes - 1 :: lanes], active)


def read_tile(m: Machine, operand: MatrixOperand, desc: NDArray[Any], rows: int, cols: int,
              is_b: bool, unit: str, block: NDArray[np.int64], who: Any, mask: Mask | None
              ) -> tuple[U64, Facts]:
    """The matrices (2, B, G, rows, cols) of descriptors (B, G), in chunks of 16 bytes."""
    size = ELEMENT_BYTES.get(operand.type, 1)
    along_rows = is_b != operand.transposed  # which axis is contiguous
    each = min(16 // size, rows if along_rows else cols)
    row = np.arange(0, rows, each if along_rows else 1).reshape(-1, 1)
    col = np.arange(0, cols, 1 if along_rows else each).reshape(1, -1)
    at = addresses(desc, operand, row, col, is_b, unit, m)
    chunk = each * size
    if some(at < 0) or some(at + chunk > m.shared.size_bytes):
        m.report("out-of-bounds", "a matrix operand lies outside shared memory")
        raise m.unsupported("out-of-bounds", "a matrix operand lies outside shared memory")
    flat, times = at.reshape(len(at), -1), at[0, 0].size
    whose = np.repeat(who, times, axis=1)
    on = None if mask is None else np.repeat(mask, times, axis=1)
    m.shared.fit(size)
    h, f = m.shared.load_cells(block, flat, chunk, on, whose)
    _note_reads(m, _active(m.shared.rows(block, flat, chunk), on))
    if m.shared.g < size:
        h, f = m.shared.joined(h, f, size)
    h, first = _tiles(h, at.shape, along_rows), int(f.flat[0])
    return h, first if every(f == first) else _tiles(f, at.shape, along_rows)


def _tiles(chunks: NDArray[Any], grid: tuple[int, ...], along_rows: bool) -> NDArray[Any]:
    """Chunks (..., lanes, elements) as matrices (..., B, G, rows, cols)."""
    each = chunks.shape[-1]
    wide = chunks.reshape(*chunks.shape[:-3], *grid, each)
    if along_rows:
        wide = np.moveaxis(wide, -1, -2)
        return wide.reshape(*wide.shape[:-3], grid[-2] * each, grid[-1])
    return wide.reshape(*wide.shape[:-2], grid[-1] * each)


def _active(rows: Rows, mask: Mask | None) -> Rows:
    """The rows of the lanes that act, flat."""
    if mask is None:
        return rows.flat()
    return rows.some(np.broadcast_to(mask, rows.at.shape))


def _note_reads(m: Machine, rows: Rows) -> None:
    """Remember what the step being issued reads; `inflight` or `tensor` collect it."""
    number = m.extra["step"] = m.extra.get("step", 0) + 1
    m.extra.setdefault("reads", []).append((m.shared.watch, rows, number))
