"""Hashes of conditions and selects: many lanes at once give what each lane gives alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checker.tree import hashing, nodes
from checker.tree.hashing import MANY, Hash, finish, key, mix
from checker.tree.nodes import Forest, hash_members, hash_select, hash_step
from checker.tree.poly import Poly, constant

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


def test_many_hashes_at_once_are_those_of_each() -> None:
    """More than fit in a cache are taken block by block."""
    draw = np.random.default_rng(1)
    count = 2 * MANY + 17
    wide, other = (draw.integers(0, 1 << 63, (2, count), dtype=np.uint64) for _ in range(2))
    parts = [slice(0, 5), slice(MANY - 3, MANY + 3), slice(count - 4, count)]
    for part in parts:
        assert bool((mix(wide, other)[:, part] == mix(wide[:, part], other[:, part])).all())
        assert bool((mix(TRUE, other)[:, part] == mix(TRUE, other[:, part])).all())
        assert bool((finish(wide)[:, part] == finish(wide[:, part])).all())
    forest = Forest(2)
    one = forest.literal(16, 0)
    for places in ("sum", "list"):
        node = forest.make("mma", f"m|f16|f16|{places}|keep", args=(one, one, one))
        a, b = (draw.integers(0, 1 << 63, (2, 16, 3000), dtype=np.uint64) for _ in range(2))
        whole = hash_step(node, a, b)
        assert whole.shape == (2, 3000)
        for part in (slice(0, 3), slice(1020, 1030), slice(2995, 3000)):
            assert bool((whole[:, part] == hash_step(node, a[..., part], b[..., part])).all())
        same = hash_step(node, a, b[..., :1])
        assert bool((same[:, :9] == hash_step(node, a[..., :9], b[..., :1])).all())


def test_products_are_parted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are as large as mixing takes them without parting them again."""
    sizes: list[int] = []
    for module in (nodes, hashing):
        def around(step: Any, count: int, size: int, *hashes: Hash,
                   made: Any = module.in_blocks) -> Hash:
            sizes.append(size)
            parted: Hash = made(step, count, size, *hashes)
            return parted
        monkeypatch.setattr(module, "in_blocks", around)
    forest = Forest(2)
    one = forest.literal(16, 0)
    node = forest.make("mma", "m|f16|f16|sum|keep", args=(one, one, one))
    a = np.ones((2, 16, 3000), dtype=np.uint64)
    hash_step(node, a, a)
    assert sizes == [MANY // 16]


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


def test_what_waits_for_its_hash_is_one_node_however_it_is_written() -> None:
    """Nobody knows its hash then: tables of lanes are as they are, not as parts are numbered."""
    forest = Forest(4)
    where = forest.make("sreg", "tid", width=64, low=0, high=3, fresh_bit=True)
    far = constant(64, np.arange(4, dtype=np.int64) * 8)
    a, b = (forest.make("load", "global.0", width=16, poly=far.add(Poly(64, {(where,): k})))
            for k in (1, 3))
    table = np.array([1, 0, 1, 0], dtype=np.int64)
    made = forest.mux(table, [a, b])
    assert made is forest.mux(1 - table, [b, a])
    assert made is forest.mux(2 * table, [a, where, b])
    assert made is not forest.mux(table, [b, a])
    assert made.args == (b, a)
    swapped = np.array([1, 0, 3, 2], dtype=np.int64)
    moved = forest.gather(a, swapped)
    assert moved is not a
    assert forest.gather(moved, swapped) is a
    assert all(n._h is None for n in (a, b, made, moved))
