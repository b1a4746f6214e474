"""Hashes of conditions and selects: many lanes at once give what each lane gives alone."""

from __future__ import annotations

import numpy as np

from checker.tree.hashing import Hash, key
from checker.tree.nodes import hash_members, hash_select

TRUE, FALSE = key("true"), key("false")
SOME = [TRUE, FALSE, key("p"), key("q"), key("r")]


def _lanes(draw: np.random.Generator, lanes: int) -> Hash:
    return np.concatenate([SOME[i] for i in draw.integers(0, len(SOME), lanes)], axis=1)


def test_members_in_many_lanes_are_those_of_each_lane() -> None:
    draw = np.random.default_rng(0)
    for count in (1, 2, 3, 5):
        hs = [_lanes(draw, 40) for _ in range(count)] + [key("p")]
        for op in ("and", "or"):
            whole = hash_members(op, hs)
            for lane in range(40):
                alone = [h[:, lane:lane + 1] if h.shape[1] > 1 else h for h in hs]
                assert bool((whole[:, lane:lane + 1] == hash_members(op, alone)).all())


def test_neutral_and_repeated_members_vanish_and_absorbing_ones_decide() -> None:
    p, q = key("p"), key("q")
    both = hash_members("and", [p, q])
    assert bool((hash_members("and", [q, TRUE, p, q]) == both).all())
    assert bool((hash_members("and", [p, TRUE, p]) == p).all())
    assert bool((hash_members("and", [TRUE, TRUE]) == TRUE).all())
    assert bool((hash_members("and", [p, FALSE, q]) == FALSE).all())
    assert bool((hash_members("or", [p, TRUE, q]) == TRUE).all())
    assert bool((hash_members("or", [FALSE, p]) == p).all())
    assert not bool((hash_members("or", [p, q]) == both).all())
    assert not bool((hash_members("and", [p, key("r")]) == both).all())


def test_a_decided_select_is_its_side_in_each_lane() -> None:
    a, b = key("a"), key("b")
    p = np.concatenate([TRUE, FALSE, key("p")], axis=1)
    h = hash_select(32, p, a, b)
    assert bool((h[:, :1] == a).all())
    assert bool((h[:, 1:2] == b).all())
    assert not any(bool((h[:, 2:] == side).all()) for side in (a, b))
    assert bool((hash_select(32, p, a, a) == a).all())
