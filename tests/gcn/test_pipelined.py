"""Pipelined matrix products with a peeled end are the plain loop; a changed end is not.

Texts are Triton 3.9's for gfx942, in `data/pipelined.json.gz`: one product with one stage and with
four (a ring of three buffers, 16 columns of k a step), another with one stage (32 columns of k) and
two, and one with three stages whose end counts its tiles anew.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.walk import walk

TEXTS: dict[str, str] = json.loads(gzip.decompress(
    (Path(__file__).parent / "data" / "pipelined.json.gz").read_bytes()))


@cache
def _walked(text: str) -> WalkResult:
    return walk(lower(parse(text)), seconds=600)


def _changed(text: str, old: str, new: str, at: int = 0) -> str:
    """Put `new` for the occurrence number `at` of `old`, which must be there."""
    parts = text.split(old)
    assert len(parts) > at + 1, old
    return old.join(parts[:at + 1]) + new + old.join(parts[at + 1:])


@pytest.mark.parametrize(("one", "two"), [
    ("one_stage", "four_stages"), ("one_stage_k32", "two_stages_k16")])
def test_stages_vanish(one: str, two: str) -> None:
    a, b = _walked(TEXTS[one]), _walked(TEXTS[two])
    assert a.modelled, a.findings
    assert b.modelled, b.findings
    assert same(a, b)[0]
    assert a.digest == b.digest


def test_an_end_that_counts_its_tiles_is_modelled() -> None:
    assert _walked(TEXTS["three_stages"]).modelled
    assert _walked(TEXTS["three_stages"]).digest != _walked(TEXTS["one_stage"]).digest


CHANGES = [
    # a step less or one more at the end, by its test or by its own
    ("s_cmp_lt_i32 s10, 48\n\ts_cbranch_scc0", "s_cmp_lt_i32 s10, 49\n\ts_cbranch_scc0"),
    ("s_cmp_lt_i32 s10, 16", "s_cmp_lt_i32 s10, 32"),
    ("s_cmp_lt_i32 s29, s23", "s_cmp_le_i32 s29, s23"),
    ("s_sub_i32 s23, s10, 48", "s_sub_i32 s23, s10, 32"),
    # another buffer of the ring: at the end, in its turn, on the way that skips the loop
    ("v_add_u32_e32 v12, s17, v10", "v_add_u32_e32 v12, s16, v10"),
    ("v_add_u32_e32 v16, s14, v11", "v_add_u32_e32 v16, s15, v11"),
    ("s_cmp_lt_i32 s12, 3", "s_cmp_lt_i32 s12, 2"),
    ("s_add_i32 s17, 0, 0x400", "s_add_i32 s17, 0, 0x800"),
    # a mask or an address of a tile that is fetched before the loop
    ("s_cmp_gt_i32 s10, 32", "s_cmp_gt_i32 s10, 33"),
    ("v_add_u32_e32 v22, 64, v18", "v_add_u32_e32 v22, 66, v18"),
    # where the accumulators start on that way
    ("v_mov_b32_e32 v7, 0\n", "v_mov_b32_e32 v7, 1.0\n"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[c[1].split("\n")[0] for c in CHANGES])
def test_a_changed_end_is_another_kernel(old: str, new: str) -> None:
    changed = _walked(_changed(TEXTS["four_stages"], old, new))
    assert not changed.modelled or changed.digest != _walked(TEXTS["one_stage"]).digest


def test_the_order_of_the_last_two_steps_shows() -> None:
    text = TEXTS["four_stages"]
    swapped = _changed(text, "v_add_u32_e32 v12, s17, v10", "v_add_u32_e32 v12, s16, v10")
    swapped = _changed(swapped, "v_add_u32_e32 v16, s14, v11", "v_add_u32_e32 v16, s15, v11")
    swapped = _changed(swapped, "v_add_u32_e32 v10, s16, v10", "v_add_u32_e32 v10, s17, v10")
    swapped = _changed(swapped, "v_add_u32_e32 v10, s15, v11", "v_add_u32_e32 v10, s14, v11")
    changed = _walked(swapped)
    assert not changed.modelled or changed.digest != _walked(TEXTS["one_stage"]).digest
