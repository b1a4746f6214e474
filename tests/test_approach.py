"""Inputs next to rounding boundaries: they show what a narrow output hides, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.core import Program
from checker.launch import Launch
from checker.lower import lower
from checker.parse import parse
from checker.replay import replay
from checker.witness import draw_inputs, find_witness, near_boundaries
from tests.replay.listing import text

ROWS, COLUMNS = 64, 8
POWERS = ("mul.wide.u32 %rd10, %r1, 16;\nadd.s64 %rd11, %rd1, %rd10;\n" + "".join(
    f"ld.global.b16 %h{k}, [%rd11+{2 * k}];\ncvt.f32.f16 %f{k}, %h{k};\n"
    f"ex2.approx.f32 %f{k}, %f{k};\n" for k in range(COLUMNS)))
INTO = {"f16": "mul.wide.u32 %rd12, %r1, 2;\nadd.s64 %rd13, %rd2, %rd12;\n"
               "cvt.rn.f16.f32 %h9, %f9;\nst.global.b16 [%rd13], %h9;\n",
        "f32": "st.global.f32 [%rd5], %f9;\n"}
CHAIN = "add.rn.f32 %f9, %f0, %f1;\n" + "".join(
    f"add.rn.f32 %f9, %f9, %f{k};\n" for k in range(2, COLUMNS))
BACKWARD = "add.rn.f32 %f9, %f7, %f6;\n" + "".join(
    f"add.rn.f32 %f9, %f9, %f{k};\n" for k in range(5, -1, -1))
SWAPPED = CHAIN.replace("%f0, %f1", "%f1, %f0")


def _launch(out: str = "f16") -> Launch:
    x: dict[str, Any] = {"buffer": "x", "dtype": "f16", "elements": ROWS * COLUMNS, "role": "in",
                         "draw": {"axis": [ROWS, COLUMNS, 1], "mirror": -1}}
    y = {"buffer": "y", "dtype": out, "elements": ROWS, "role": "out"}
    return Launch.from_json({"grid": [1, 1, 1], "args": [x, y, {"i32": 5}]})


def _program(total: str, out: str = "f16") -> Program:
    return lower(parse(text(POWERS + total + INTO[out])))


def test_two_orders_of_a_sum_differ_next_to_a_boundary_of_a_narrow_output() -> None:
    one, two, launch = _program(CHAIN), _program(BACKWARD), _launch()
    found = find_witness(one, two, launch, launch, draws=())
    assert found is not None
    assert abs(found.bits_a - found.bits_b) == 1  # one place of f16
    # The witness is the draw and what it lists, no more.
    inputs = draw_inputs(launch, found.kind, found.seed)
    for name, moved in found.inputs.items():
        for element, bits in moved.items():
            inputs[name][int(element)] = bits
    shown = [replay(p, launch, domain="bytes", inputs=inputs).outputs["y"].words[1][found.element]
             for p in (one, two)]
    assert shown == [found.bits_a, found.bits_b]


def test_everyday_values_do_not_show_it() -> None:
    launch, programs = _launch(), (_program(CHAIN), _program(BACKWARD))
    for seed in range(1, 5):
        inputs = draw_inputs(launch, "normal", seed)
        one, two = (replay(p, launch, domain="bytes", inputs=inputs).outputs["y"].words
                    for p in programs)
        assert (one == two).all()


def test_equal_kernels_have_no_witness_there() -> None:
    launch = _launch()
    assert find_witness(_program(CHAIN), _program(SWAPPED), launch, launch, draws=()) is None


def test_nothing_is_tried_where_no_output_is_narrow() -> None:
    assert not list(near_boundaries(_program(CHAIN, "f32"), _launch("f32")))


def test_inputs_end_one_step_below_the_boundary() -> None:
    program, launch = _program(CHAIN), _launch()
    steps = list(near_boundaries(program, launch))
    x = steps[len(steps) // 2 - 1][1]["x"].reshape(ROWS, COLUMNS)
    drawn = draw_inputs(launch, "normal", 1)["x"].reshape(ROWS, COLUMNS)
    assert ((x != drawn).sum(axis=1) <= 2).all()
    assert np.unique(np.nonzero(x != drawn)[1]).tolist() == [1, 5]


SCALED = ("ld.global.f32 %f1, [%rd4];\nmul.rn.f32 %f2, %f1, 0f3F9E0652;\n"
          "mul.rn.f32 %f9, %f2, 0f3FB504F3;\n")
#: the other order of scales, in one thread
ELSEWHERE = (SCALED + "mov.f32 %f3, 0f3F9E0652;\nmul.rn.f32 %f4, %f3, 0f3FB504F3;\n"
             "mul.rn.f32 %f5, %f1, %f4;\nsetp.eq.u32 %p1, %r1, 7;\nselp.f32 %f9, %f5, %f9, %p1;\n")


def test_one_output_is_watched_where_it_is_known_to_differ() -> None:
    launch = Launch.from_json({"grid": [1, 1, 1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": ROWS, "role": "in"},
        {"buffer": "y", "dtype": "f16", "elements": ROWS, "role": "out"}, {"i32": 5}]})
    one, two = (lower(parse(text(body + INTO["f16"]))) for body in (SCALED, ELSEWHERE))
    found = find_witness(one, two, launch, launch, draws=())
    assert found is not None
    assert found.element == 7
    assert abs(found.bits_a - found.bits_b) == 1
