"""Fragment tables of AMD's matrix instructions: which element each lane's registers hold.

In: shape and element width. Out: `core.Fragment`s, made once per shape. Only single-block shapes.
Source: AMD matrix instruction calculator, CDNA3 ISA 7.1.4, RDNA3 ISA 7.9, RDNA4 ISA 7.9.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from checker.core import Fragment

__all__ = ["mfma_a", "mfma_b", "mfma_c", "wmma_a", "wmma_b", "wmma_c"]


def _make(name: str, row: np.ndarray, col: np.ndarray, bits: int) -> Fragment:
    return Fragment(name, np.ascontiguousarray(row), np.ascontiguousarray(col), bits,
                    max(32, bits))


def _grid(lanes: int, elements: int) -> tuple[np.ndarray, np.ndarray]:
    lane, element = np.meshgrid(np.arange(lanes), np.arange(elements), indexing="ij")
    return lane, element


@cache
def mfma_a(m: int, k: int, bits: int) -> Fragment:
    """A[m][k], 64 lanes: row lane % m, each group of m lanes holds consecutive k."""
    each = m * k // 64
    lane, element = _grid(64, each)
    return _make(f"mfma_a{m}x{k}.{bits}", lane % m, lane // m * each + element, bits)


@cache
def mfma_b(n: int, k: int, bits: int) -> Fragment:
    """B[k][n], 64 lanes: the transpose of A's layout."""
    a = mfma_a(n, k, bits)
    return _make(f"mfma_b{k}x{n}.{bits}", a.col, a.row, bits)


@cache
def mfma_c(m: int, n: int, bits: int = 32) -> Fragment:
    """C[m][n], 64 lanes: column lane % n; four rows in a row, then the other lane groups' fours.

    64-bit elements: the lane groups' rows interleave (row 4 element + lane / 16).
    """
    lane, element = _grid(64, m * n // 64)
    groups = 64 // n
    if bits == 64:
        return _make(f"mfma_c{m}x{n}.64", groups * element + lane // n, lane % n + 0 * element, 64)
    row = element // 4 * 4 * groups + lane // n * 4 + element % 4
    return _make(f"mfma_c{m}x{n}", row, lane % n + 0 * element, bits)


@cache
def wmma_a(k: int, bits: int, generation: int) -> Fragment:
    """A[16][k], 32 lanes. gfx11: both half-waves hold the whole row; gfx12: half of k each."""
    each = k if generation == 11 else k // 2
    lane, element = _grid(32, each)
    col = element if generation == 11 else lane // 16 * each + element
    return _make(f"wmma{generation}_a16x{k}.{bits}", lane % 16, col + 0 * lane, bits)


@cache
def wmma_b(k: int, bits: int, generation: int) -> Fragment:
    """B[k][16]: the transpose of A's layout."""
    a = wmma_a(k, bits, generation)
    return _make(f"wmma{generation}_b{k}x16.{bits}", a.col, a.row, bits)


@cache
def wmma_c(generation: int) -> Fragment:
    """C[16][16], 32 lanes, 32-bit elements: gfx11 interleaves the half-waves' rows."""
    lane, element = _grid(32, 8)
    row = 2 * element + lane // 16 if generation == 11 else lane // 16 * 8 + element
    return _make(f"wmma{generation}_c16x16", row, lane % 16 + 0 * element, 32)
