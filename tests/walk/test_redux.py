"""Reductions of a warp in one instruction: the same as the steps of a butterfly, where they are."""

from __future__ import annotations

from typing import Any

import pytest

from checker import KernelInput, api
from corpus.load import load_set
from tests.kernels import ptx
from tests.walk.kernels import text

STEPS = "\n".join(f"shfl.sync.bfly.b32 %f2, %f1, {d}, 31, -1;\nmax.f32 %f1, %f1, %f2;"
                  for d in (16, 8, 4, 2, 1))


def kernel(reduce: str) -> str:
    return ptx(f"""
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        add.s64 %rd6, %rd2, %rd4;
        ld.global.f32 %f1, [%rd5];
        {reduce}
        st.global.f32 [%rd6], %f1;""", target="sm_100a")


LAUNCH: dict[str, Any] = {"grid": [1, 1, 1], "args": [
    {"buffer": "x", "dtype": "f32", "elements": 32, "role": "in"},
    {"buffer": "y", "dtype": "f32", "elements": 32, "role": "out"}]}
MAX = "redux.sync.max.f32 %f1, %f1, -1;"


def test_a_maximum_of_the_warp_is_the_butterfly() -> None:
    assert api.compare(kernel(MAX), kernel(STEPS)).equal
    nan = kernel(MAX.replace("max", "max.NaN"))
    assert api.compare(nan, kernel(STEPS.replace("max", "max.NaN"))).equal


@pytest.mark.parametrize("other", ["min", "max.NaN", "max.abs", "max.abs.NaN"])
def test_near_misses(other: str) -> None:
    changed = kernel(MAX.replace("max", other))
    assert not api.compare(changed, kernel(STEPS)).equal
    run = api.replay_kernel(changed, LAUNCH)
    assert not run.usable or run.digest != api.replay_kernel(kernel(MAX), LAUNCH).digest


def test_a_part_of_the_warp_is_not_modelled() -> None:
    assert not api.sign(kernel(MAX.replace("-1", "65535"))).modelled


def test_softmax_on_sm_100_has_its_classes_without_launch_facts() -> None:
    kernels = [k for k in load_set("sm_100") if k.family == "softmax"]
    assert any("redux.sync" in k.text for k in kernels)
    static = api.partition([KernelInput(k.name, k.text) for k in kernels])
    exact = api.partition([KernelInput(k.name, k.text, launches=k.launches) for k in kernels])
    assert not static.unproved
    assert {c.members for c in static.classes} == {c.members for c in exact.classes}


def test_which_lane_an_election_picks_is_a_premise() -> None:
    body = """
    elect.sync %r10|%p1, -1;
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd3, %rd10;
    @%p1 st.global.u32 [%rd11], %r10;"""
    verdict = api.compare(text(body, 32), text(body, 32))
    assert verdict.equal
    assert "elect-lowest" in verdict.premises
    first = text(body.replace("elect.sync %r10|%p1, -1;",
                              "mov.u32 %r10, 0;\nsetp.eq.s32 %p1, %r2, 0;"), 32)
    assert "elect-lowest" in api.compare(text(body, 32), first).premises
    assert "elect-lowest" not in api.compare(first, first).premises
