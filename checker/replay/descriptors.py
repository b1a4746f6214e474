"""Shared-memory matrix descriptors of wgmma and tcgen05: where element (row, k) lies.

In: a 64-bit descriptor. Out: tiles read from shared memory. Source: the ISA manual, "Shared memory
matrix layout"; swizzles permute 16-byte chunks by address bits 7 and up, on absolute addresses;
without a swizzle the two byte offsets swap their roles in MN-major operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.core import MatrixOperand
from checker.replay.facts import Facts, Mask
from checker.replay.hashing import U64
from checker.replay.machine import Machine
from checker.replay.memory import Cells
from checker.replay.values import V, hash_of

__all__ = ["ELEMENT_BYTES", "addresses", "note_reads", "read", "swizzled"]

ELEMENT_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_WGMMA = {0: 0, 1: 128, 2: 64, 3: 32}
_TCGEN05 = {0: 0, 2: 128, 4: 64, 6: 32}


def swizzled(address: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Absolute byte address under a swizzle of `width` bytes."""
    if width == 0:
        return address
    bits = {128: 7, 64: 3, 32: 1}[width]
    return address ^ (((address >> 7) & bits) << 4)


def addresses(desc: NDArray[np.uint64], operand: MatrixOperand, rows: int, cols: int,
              is_b: bool, unit: str, m: Machine) -> NDArray[np.int64]:
    """Byte addresses (..., rows, cols) for descriptors (...)."""
    d = desc.astype(np.uint64)
    start = ((d & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    leading = (((d >> np.uint64(16)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    stride = (((d >> np.uint64(32)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    if ((d >> np.uint64(49)) & np.uint64(7)).any():
        raise m.unsupported("descriptor", "a matrix descriptor with a base offset is not modelled")
    if unit == "tcgen05":
        modes, table = (d >> np.uint64(61)) & np.uint64(7), _TCGEN05
    else:
        modes, table = (d >> np.uint64(62)) & np.uint64(3), _WGMMA
    mode = int(modes.flat[0])
    if (modes != mode).any() or mode not in table:
        raise m.unsupported("descriptor", "this swizzle mode is not modelled")
    width = table[mode]
    size = ELEMENT_BYTES.get(operand.type)
    if size is None:
        raise m.unsupported("descriptor", f"shared-memory operands of type {operand.type} are not "
                                          "modelled")
    row = np.arange(rows).reshape(-1, 1)
    col = np.arange(cols).reshape(1, -1)
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
    groups = m.T // lanes
    first = bits[:, ::lanes]
    if on is not None:
        active = m.full(on)[:, ::lanes]
        first = np.where(active, first, first[active][0])
    at = addresses(first, operand, rows, cols, is_b, unit, m)
    size = ELEMENT_BYTES[operand.type]
    h, f = read_cells(m, at.reshape(m.B, -1), size, np.repeat(
        m.warp_id[:, lanes - 1 :: lanes], rows * cols, axis=1),
        None if on is None else np.repeat(m.full(on)[:, ::lanes], rows * cols, axis=1))
    shape = (m.B, groups, rows, cols)
    return h.reshape(2, *shape), f if isinstance(f, int) else np.broadcast_to(
        f, (m.B, groups * rows * cols)).reshape(shape)


def note_reads(m: Machine, cells: Cells, block: Any, at: NDArray[np.int64], size: int,
               mask: Mask | None) -> None:
    """Remember which cells the step being issued reads; `inflight` or `tensor` collect them."""
    first = block * cells.stride + at // cells.g
    flat = first.reshape(-1) if mask is None else first[np.broadcast_to(mask, first.shape)]
    count = max(1, size // cells.g)
    index = flat if count == 1 else (flat[:, None] + np.arange(count)).reshape(-1)
    number = m.extra["step"] = m.extra.get("step", 0) + 1
    m.extra.setdefault("reads", []).append((cells, index, cells.g, number))


def read_cells(m: Machine, at: NDArray[np.int64], size: int, warp: Any,
               mask: Mask | None) -> tuple[U64, Facts]:
    """Elements of shared memory at (B, X) byte addresses."""
    outside = (at < 0) | (at + size > m.shared.size_bytes)
    if outside.any():
        m.report("out-of-bounds", "a matrix operand lies outside shared memory")
        raise m.unsupported("out-of-bounds", "a matrix operand lies outside shared memory")
    v = m.shared.load(m.block_index, at, 8 * size, mask, warp, size)
    h, f = hash_of(v)
    note_reads(m, m.shared, np.broadcast_to(m.block_index, at.shape), at, size, mask)
    return np.ascontiguousarray(np.broadcast_to(h, (2, *at.shape))), f
