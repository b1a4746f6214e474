"""Fragment tables against the manual's formulas, written out index by index."""

from __future__ import annotations

import numpy as np
import pytest

from checker.core import Fragment
from checker.ptx.fragments import a_fragment, b_fragment, c_fragment, wgmma_a, wgmma_d
from checker.ptx.rows.matrix import ACCUMULATORS, SHAPES

LANE = np.arange(32)
G, T = LANE >> 2, LANE % 4


def check(fragment: Fragment, i: int, row: np.ndarray, col: np.ndarray) -> None:
    assert (fragment.row[:, i] == row).all()
    assert (fragment.col[:, i] == col).all()


def test_m16n8k16_half() -> None:
    a, b = a_fragment(16, 16, 16), b_fragment(8, 16, 16)
    for i in range(8):
        row = G if 0 <= i < 2 or 4 <= i < 6 else G + 8
        check(a, i, row, T * 2 + (i & 1) + (8 if i >= 4 else 0))
    for i in range(4):
        check(b, i, T * 2 + (i & 1) + (8 if i >= 2 else 0), G)


def test_m16n8k8_half_and_tf32() -> None:
    a = a_fragment(16, 8, 16)
    for i in range(4):
        check(a, i, G if i < 2 else G + 8, T * 2 + (i & 1))
    a, b = a_fragment(16, 8, 32), b_fragment(8, 8, 32)
    for i in range(4):
        check(a, i, G if i in (0, 2) else G + 8, T if i < 2 else T + 4)
    check(b, 0, T, G)
    check(b, 1, T + 4, G)


def test_m16n8k32_bytes_and_k64_nibbles() -> None:
    a, b = a_fragment(16, 32, 8), b_fragment(8, 32, 8)
    for i in range(16):
        row = G if 0 <= i < 4 or 8 <= i < 12 else G + 8
        check(a, i, row, T * 4 + (i & 3) + (16 if i >= 8 else 0))
    for i in range(8):
        check(b, i, T * 4 + (i & 3) + (16 if i >= 4 else 0), G)
    a = a_fragment(16, 64, 4)
    for i in range(32):
        row = G if 0 <= i < 8 or 16 <= i < 24 else G + 8
        check(a, i, row, T * 8 + (i & 7) + (32 if i >= 16 else 0))


def test_double() -> None:
    check(a_fragment(8, 4, 64), 0, G, T)
    check(b_fragment(8, 4, 64), 0, T, G)
    a = a_fragment(16, 16, 64)
    for i in range(8):
        check(a, i, G + 8 * (i % 2), (i * 2 if i % 2 == 0 else i * 2 - 2) + T)


def test_accumulators() -> None:
    c = c_fragment(16, 8, 32)
    for i in range(4):
        check(c, i, G if i < 2 else G + 8, T * 2 + (i & 1))


def test_wgmma_rows_of_four_warps() -> None:
    d = wgmma_d(16, 32)
    lane = np.arange(128)
    for i in range(8):
        row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (i % 4 >= 2)
        assert (d.row[:, i] == row).all()
        assert (d.col[:, i] == 8 * (i // 4) + 2 * (lane % 4) + (i & 1)).all()
    assert (wgmma_a(16, 16).row[32:64] == a_fragment(16, 16, 16).row + 16).all()


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4,
        "u4": 4, "f64": 64}


@pytest.mark.parametrize("type_", SHAPES)
def test_every_element_has_one_place(type_: str) -> None:
    assert type_ in ACCUMULATORS
    for m, n, k in SHAPES[type_]:
        for fragment, rows, cols in ((a_fragment(m, k, BITS[type_]), m, k),
                                     (b_fragment(n, k, BITS[type_]), k, n),
                                     (c_fragment(m, n, 32), m, n)):
            places = fragment.row * cols + fragment.col
            assert sorted(places.ravel().tolist()) == list(range(rows * cols))
