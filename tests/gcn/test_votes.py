"""Votes on data in the replay: a word of the lanes' predicates, one where all hold the same."""

from __future__ import annotations

import pytest

from checker.replay import replay
from tests.gcn.bench import program_of, run

WIDE = ["v_mov_b32_e32 v4, s20", "v_cmp_gt_f32_e64 s[26:27], v4, v5", "s_nop 1"]
ONE_BRANCH = [*WIDE, "s_cmp_lg_u64 s[26:27], 0", "s_cselect_b32 s28, 5, 7",
              "v_mov_b32_e32 v10, s28"]
ONE_CHOICE = [*WIDE, "v_cndmask_b32_e64 v10, 7, 5, s[26:27]"]
OTHER_CHOICE = [*WIDE, "v_cndmask_b32_e64 v10, 5, 7, s[26:27]"]


def _map(lines: list[str], left: str = "v_mov_b32_e32 v5, 1.0") -> str:
    buffers = [{"buffer": n, "dtype": "f32", "elements": 64, "role": "in"} for n in "abc"]
    facts = {"grid": [1, 1, 1], "block": [64, 1, 1], "shared": 4096, "args": [
        *buffers, {"buffer": "out", "dtype": "u32", "elements": 128, "role": "out"}]}
    result = replay(program_of([left, *lines]), facts)
    assert result.usable, result.reasons()
    return result.digest


def test_a_vote_of_lanes_that_hold_one_value_is_that_value() -> None:
    assert _map(ONE_BRANCH) == _map(ONE_CHOICE)
    assert _map(ONE_BRANCH) != _map(OTHER_CHOICE)
    none = [x.replace("s_cmp_lg_u64", "s_cmp_eq_u64") for x in ONE_BRANCH]
    assert _map(none) == _map(OTHER_CHOICE)


@pytest.mark.parametrize("own", ["v_mov_b32_e32 v5, v1", "v_mov_b32_e32 v5, v0"])
def test_a_vote_of_lanes_that_differ_is_not_their_own_value(own: str) -> None:
    """Some lane's condition is not each lane's: on data, and against numbers of the lanes."""
    assert _map(ONE_BRANCH, own) != _map(ONE_CHOICE, own)
    words, _ = run([own, *ONE_BRANCH], a=[0x3F800000] * 63 + [0])
    assert len(set(words.tolist())) == 1


def test_a_lane_that_is_off_votes_no() -> None:
    """All of 64 bits are set where all lanes are on; with one of them off, never."""
    test = ["s_cmp_eq_u64 s[26:27], -1", "s_cselect_b32 s28, 5, 7", "v_mov_b32_e32 v10, s28"]
    off = ["s_mov_b64 exec, -2", *WIDE, "s_mov_b64 exec, -1", *test]
    assert _map([*WIDE, *test]) == _map(ONE_CHOICE)
    assert _map(off) == _map([*WIDE, "v_mov_b32_e32 v10, 7"])
    assert set(run(["v_mov_b32_e32 v5, 0", *off], a=0x3F800000)[0].tolist()) == {7}
