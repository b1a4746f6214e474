"""Matrix fragments: which element each lane's register holds (PTX ISA 9.7.14.5, 9.7.15.5).

In: shape and element type. Out: core.Fragment with arrays `row`, `col` [lane][element], made once.
Lane l has group g = l // 4 and place t = l % 4 (the manual's groupID, threadID_in_group).
Shapes that the manual lays out otherwise (m8n8k4 f16, sparse, block-scaled) are refused.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from checker.core import Fragment

__all__ = ["a_fragment", "b_fragment", "c_fragment", "element_bits", "wgmma_a", "wgmma_d"]

_BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8,
         "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4}


def element_bits(type_: str) -> int:
    """Bits of one matrix element; KeyError for a type without a table."""
    return _BITS[type_]


def _lanes(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Warp number, group and place of each lane, as columns."""
    lane = np.arange(count)
    return (lane // 32)[:, None], (lane % 32 // 4)[:, None], (lane % 4)[:, None]


def _make(name: str, row: np.ndarray, col: np.ndarray, bits: int) -> Fragment:
    row, col = np.broadcast_arrays(row, col)
    return Fragment(name, np.ascontiguousarray(row), np.ascontiguousarray(col), bits,
                    64 if bits == 64 else 32)


@cache
def a_fragment(m: int, k: int, bits: int) -> Fragment:
    """A [m, k], row-major: registers walk 8 rows down first, then along k.

    A register holds p = max(1, 32 // bits) neighbours along k; register r covers rows
    g + 8 * (r % (m // 8)) and columns t * p + 4 * p * (r // (m // 8)).
    """
    part = max(1, 32 // bits)
    _, g, t = _lanes(32)
    element = np.arange(m * k // 32)[None, :]
    register, inside = element // part, element % part
    row = g + 8 * (register % (m // 8))
    col = t * part + inside + 4 * part * (register // (m // 8))
    return _make(f"A.m{m}k{k}.b{bits}", row, col, bits)


@cache
def b_fragment(n: int, k: int, bits: int) -> Fragment:
    """B [k, n], column-major: row = t * p + inside + 4 p r, column g."""
    part = max(1, 32 // bits)
    _, g, t = _lanes(32)
    element = np.arange(n * k // 32)[None, :]
    row = t * part + element % part + 4 * part * (element // part)
    return _make(f"B.k{k}n{n}.b{bits}", row, g, bits)


@cache
def c_fragment(m: int, n: int, bits: int) -> Fragment:
    """C, D [m, n]: pairs along n, then 8 rows down (then 8 columns on): columns 2 t + (0, 1)."""
    _, g, t = _lanes(32)
    element = np.arange(m * n // 32)[None, :]
    pair = element // 2
    row = g + 8 * (pair % (m // 8))
    col = 2 * t + element % 2 + 8 * (pair // (m // 8))
    return _make(f"C.m{m}n{n}.b{bits}", row, col, bits)


@cache
def wgmma_a(k: int, bits: int) -> Fragment:
    """A [64, k] in the registers of four warps: warp w holds rows 16 w to 16 w + 15."""
    one = a_fragment(16, k, bits)
    return _four_warps(f"wgmma.A.k{k}.b{bits}", one)


@cache
def wgmma_d(n: int, bits: int) -> Fragment:
    """D [64, n] in the registers of four warps."""
    return _four_warps(f"wgmma.D.n{n}.b{bits}", c_fragment(16, n, bits))


def _four_warps(name: str, one: Fragment) -> Fragment:
    warp = np.arange(128)[:, None] // 32
    return _make(name, np.tile(one.row, (4, 1)) + 16 * warp, np.tile(one.col, (4, 1)),
                 one.elem_bits)
