"""The models against results that an H200 returned (tests/arith/data, made by device/measure.py).

The same comparison on 40,000 operands a variant and 131,072 outputs a matrix kernel found no
difference; what is stored here is a sample of it.
"""

from __future__ import annotations

import numpy as np
import pytest

from checker.arith.ops import accurate, apply

from .device.keep import RESULTS, matrix_results, scalar_results
from .device.matrix_cases import CATEGORIES, KERNELS, Kernel, expected, operands
from .device.measure import TILES, columns, one_nan
from .device.variants import WIDTH, Variant, all_variants

SCALAR = list(zip(all_variants(), scalar_results(), strict=True))
MATRIX = matrix_results()


@pytest.mark.parametrize(("variant", "card"), SCALAR,
                         ids=[v.text.split(" {d}")[0][-24:] for v, _ in SCALAR])
def test_scalar(variant: Variant, card: np.ndarray) -> None:
    args = [column[:RESULTS] for column in columns(variant, 40_000)]
    got = apply(variant.name, variant.attr, *args).astype(card.dtype)
    width = {"e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8}.get(variant.target, WIDTH[variant.target])
    card = card & card.dtype.type((1 << width) - 1)
    assert np.all(accurate(variant.name, variant.attr, *args))
    np.testing.assert_array_equal(one_nan(variant.target, got), one_nan(variant.target, card))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_matrix(kernel: Kernel) -> None:
    card = MATRIX[kernel.name]
    a, b, c = (x[: len(card)] for x in operands(kernel, TILES[kernel.rows]))
    got = expected(kernel, a, b, c)
    same = one_nan(kernel.acc, got) == one_nan(kernel.acc, card)
    assert same.all(), [CATEGORIES[t % len(CATEGORIES)] for t in np.flatnonzero(
        ~same.all(axis=(1, 2)))]
