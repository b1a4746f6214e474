"""Hashes of trees tell apart whatever one word, or one bit of it, tells apart."""

from __future__ import annotations

import numpy as np
import pytest

from checker.replay.hashing import combine, const_hash, key, leaf_table, symmetric

LEAVES = leaf_table("x", 64, 8).reshape(2, 1, 64)


@pytest.mark.parametrize("bit", [0, 22, 31, 52, 62, 63])
def test_a_symmetric_operation_sees_every_bit_of_a_literal(bit: int) -> None:
    """x + 3 is not x + -3: half of all leaves are even numbers, which lose the top bit."""
    one = const_hash(np.full((1, 1), 0x4008 << 48, dtype=np.uint64))
    other = const_hash(one[1] ^ np.uint64(1 << bit))
    made = [symmetric(key("fadd"), LEAVES, literal) for literal in (one, other)]
    assert (made[0] != made[1]).any(axis=0).all()
    assert (made[0] == symmetric(key("fadd"), one, LEAVES)).all()


def test_a_symmetric_operation_is_none_of_its_neighbours() -> None:
    a, b = LEAVES, combine(key("fneg"), LEAVES)
    made = symmetric(key("fadd"), a, b)
    assert (made == symmetric(key("fadd"), b, a)).all()
    for other in (symmetric(key("fmul"), a, b), symmetric(key("fadd"), a, a),
                  symmetric(key("fadd"), b, b), symmetric(key("fadd"), a[..., ::-1], b)):
        assert (made != other).any(axis=0).all()
