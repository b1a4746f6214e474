"""Operations over hashes: what a lane gets does not depend on its neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from checker.core import FloatMode
from checker.replay.arithmetic import plus_zero
from checker.replay.choices import forget_choices
from checker.replay.conversions import widen
from checker.replay.facts import HF, MNZ, NULL
from checker.replay.hashing import leaf_table
from checker.replay.nulls import forget_nulls, with_null
from checker.replay.trees import Trees
from checker.replay.values import Hash, V, const, hash_of


@pytest.mark.parametrize("name", ["fadd", "fsub", "fmul", "ffma", "fmin", "fmax", "fdiv"])
def test_a_lane_does_not_depend_on_the_others(name: str) -> None:
    """Neither where some lanes are folded and the others are not (known bits, forms, nulls)."""
    forget_nulls()
    forget_choices()
    leaves = leaf_table("x", 6, 4)
    kinds: list[HF] = [(leaves[:, i : i + 1, None], MNZ) for i in range(3)]
    kinds += [hash_of(const(bits, 32)) for bits in (0, 1 << 31, 0x3F800000, 0xFF800000)]
    kinds += [plus_zero(kinds[0], True, 32), widen("f16", "f32", (leaves[:, 3:4, None], MNZ)),
              (leaves[:, 4:5, None], MNZ | NULL), with_null(kinds[1], (kinds[2][0], MNZ), True)]
    count = 3 if name == "ffma" else 2
    picked = np.random.default_rng(0).integers(0, len(kinds), (count, 1, 300))
    # whether a product is a square is asked of the first lane
    picked[1] = (picked[1] + (picked[1] == picked[0])) % len(kinds)
    picked[:, 0, ::5] = np.random.default_rng(1).integers(3, 7, (count, 60))  # known in all
    mode, trees = FloatMode("f32"), Trees()

    def values(lanes: slice) -> list[V]:
        return [Hash(np.stack([kinds[k][0][:, 0, 0] for k in row[0, lanes]], axis=1)[:, None],
                     np.array([[kinds[k][1] for k in row[0, lanes]]], dtype=np.uint32), 32)
                for row in picked]

    h, f = hash_of(trees.float_op(name, mode, values(slice(None)), None, 32))
    for lane in range(300):
        alone = values(slice(lane, lane + 1))
        one_h, one_f = hash_of(trees.float_op(name, mode, alone, None, 32))
        assert (h[:, 0, lane] == one_h[:, 0, 0]).all()
        assert np.asarray(f)[0, lane] == np.asarray(one_f).flat[0]
