"""Witnesses: unequal element-wise kernels come with an input that shows it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from checker import compare
from tests.figure4 import listing
from tests.kernels import elementwise
from tests.test_first_light import ELEMENTWISE, EQUAL_GROUPS

N = 1024
LAUNCH: dict[str, Any] = {
    "grid": [N // 32, 1, 1], "block": [32, 1, 1],
    "args": [{"buffer": "a", "dtype": "f32", "elements": N, "role": "in"},
             {"buffer": "b", "dtype": "f32", "elements": N + 1, "role": "in"},
             {"buffer": "c", "dtype": "f32", "elements": N, "role": "out"}]}


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(ELEMENTWISE, 2))[::5])
def test_every_unequal_pair_has_a_witness(one: str, two: str) -> None:
    verdict = compare(elementwise(ELEMENTWISE[one]), elementwise(ELEMENTWISE[two]),
                      launch_a=LAUNCH)
    if any({one, two} <= group for group in EQUAL_GROUPS):
        assert verdict.equal
        assert verdict.basis == "static"
    else:
        assert verdict.kind == "unequal", verdict.reasons
        assert verdict.witness is not None
        assert verdict.witness.bits_a != verdict.witness.bits_b


def test_no_witness_where_the_bits_are_not_known() -> None:
    body = "lg2.approx.f32 %f8, %f1;\nadd.rn.f32 %f9, %f8, {};"
    one, two = (elementwise(body.format(r), target="sm_80") for r in ("%f1", "%f2"))
    assert compare(one, two, launch_a=LAUNCH).kind == "unproved"


def _figure4(threads: int) -> dict[str, Any]:
    return {"grid": [1, 1, 1], "block": [threads, 1, 1],
            "args": [{"buffer": "x", "dtype": "f32", "elements": 1300, "role": "in"},
                     {"buffer": "out", "dtype": "f32", "elements": 1, "role": "out"}]}


@pytest.mark.parametrize("twin", [
    {"offsets": (16, 8, 4, 2, 1)}, {"leaf_order": (0, 2, 1, 3, 4, 5, 6, 7)},
    {"second_offset": 1000}, {"offsets": (1, 16, 2, 8, 4)}, {"leaf_stride": 32},
], ids=str)
def test_figure_4_twins_have_witnesses(twin: dict[str, Any]) -> None:
    verdict = compare(listing(32), listing(32, **twin), launch_a=_figure4(32))
    assert verdict.kind == "unequal"
    assert verdict.witness is not None
    assert verdict.witness.buffer == "out"


def test_figure_4_layouts_are_equal_at_a_launch_too() -> None:
    from checker.api import replay_kernel

    one = replay_kernel(listing(64), _figure4(64))
    two = replay_kernel(listing(32), _figure4(32))
    assert one.usable
    assert one.digest == two.digest
