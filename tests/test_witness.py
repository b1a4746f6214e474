"""Witnesses: unequal element-wise kernels come with an input that shows it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from checker import Launch, api, compare
from checker.draws import draw
from checker.witness import DRAWS, draw_inputs, find_witness
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


def _rows_launch() -> Launch:
    hints = {"axis": [5, 12, 1], "mirror": -1}
    return Launch.from_json({"grid": [1, 1, 1], "args": [
        {"buffer": "x", "dtype": "f16", "elements": 60, "role": "in", "draw": hints},
        {"buffer": "s", "dtype": "f32", "elements": 60, "role": "in", "draw": {"positive": True}},
        {"buffer": "y", "dtype": "f32", "elements": 5, "role": "out"}]})


def test_probes_put_an_infinity_at_every_place_of_a_row() -> None:
    launch, seen = _rows_launch(), set()
    for seed in range(1, 12, 3):  # three float buffers but the output are taken in turn
        x = draw_inputs(launch, "probe", seed)["x"].reshape(5, 12)
        infinite = (x & 0x7FFF) == 0x7C00
        if infinite.any():
            assert (infinite.sum(axis=1) == 1).all()
            seen |= set(np.nonzero(infinite)[1].tolist())
    for seed in range(1, 7):
        x = draw_inputs(launch, "probe", seed)["x"].reshape(5, 12)
        seen |= set(np.nonzero((x & 0x7FFF) == 0x7C00)[1].tolist())
    assert seen == set(range(12))


def test_faint_values_have_one_sign_a_buffer_and_products_that_underflow() -> None:
    found = set()
    for seed in range(8):
        inputs = draw_inputs(_rows_launch(), "signs", seed)
        x, s = inputs["x"].astype(np.uint16), inputs["s"].astype(np.uint32)
        assert len(set((x >> 15).tolist())) == 1
        assert not (s >> 31).any()  # ought to be positive
        assert (s > 0).all()
        product = x.view(np.float16).astype(np.float32) * s.view(np.float32)
        assert (np.abs(product) < 2.0**-120).all()
        found.add(int(x[0] >> 15))
    assert found == {0, 1}


def test_mixed_draws_give_each_buffer_its_own_kind() -> None:
    launch = Launch.from_json(LAUNCH)
    kinds = ("wide", "faint", "huge", "span")
    seeds = [seed for kind, seed in DRAWS if kind == "mixed"]
    assert {(n % 4, n // 4 % 4) for n in seeds} | {(0, 0)} == set(
        itertools.product(range(4), repeat=2))
    for n in seeds:
        inputs = draw_inputs(launch, "mixed", n)
        for name, count, digit in (("a", N, n % 4), ("b", N + 1, n // 4 % 4)):
            facts = {"buffer": name, "dtype": "f32", "elements": count}
            assert (inputs[name] == draw(kinds[digit], n, facts)).all()


@pytest.mark.parametrize(("one", "two", "kind"), [
    ("mul.rn.f32 %f9, %f1, %f2;", "mul.rn.ftz.f32 %f9, %f1, %f2;", "span"),
    ("mul.rn.f32 %f8, %f1, 0f3F000000;\nadd.rn.f32 %f9, %f8, %f2;",
     "fma.rn.f32 %f9, %f1, 0f3F000000, %f2;", "mixed"),
    ("fma.rn.f32 %f9, %f1, %f2, 0f00000000;",
     "mul.rn.f32 %f8, %f1, %f2;\nadd.rn.f32 %f9, %f8, 0f00000000;", "signs"),
])
def test_inputs_of_each_kind_find_what_they_are_for(one: str, two: str, kind: str) -> None:
    programs = [api.program_of(elementwise(body)) for body in (one, two)]
    launch = Launch.from_json(LAUNCH)
    draws = tuple((k, seed) for k, seed in DRAWS if k == kind)
    found = find_witness(*programs, launch, launch, draws=draws)
    assert found is not None
    assert found.kind == kind


def test_a_corner_is_an_infinity_at_the_first_element_among_positive_values() -> None:
    launch = Launch.from_json({"grid": [1, 1, 1], "block": [32, 1, 1], "args": [
        {"buffer": "a", "dtype": "f16", "elements": 64},
        {"buffer": "b", "dtype": "f32", "elements": 64},
        {"buffer": "y", "dtype": "f32", "elements": 64, "role": "out"}]})
    for seed, name, other in ((1, "a", "b"), (2, "b", "a"), (3, "a", "b")):
        inputs = draw_inputs(launch, "corner", seed)
        floats = {n: inputs[n].view(np.float16 if n == "a" else np.float32) for n in "ab"}
        assert floats[name][0] == np.inf
        assert (floats[name][1:] >= 0).all()
        assert (floats[other] >= 0).all()
        assert np.isfinite(floats[other]).all()
