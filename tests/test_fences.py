"""Fences of warp-group matrix steps: none at all is a finding, one too early a premise."""

from __future__ import annotations

import pytest

from checker import api
from checker.core import Program
from tests.walk.products import COMMIT, FENCE, STEP, WAIT, looped, product

ZERO = "mov.f32 %f12, 0f00000000;"
REGS = STEP.replace("%rd20", "{%r20, %r21, %r22, %r23}").replace("1, 1, 0, 0", "1, 1, 0")
SKIPPED = "@%p7 bra $over;\n" + FENCE + "\n$over:\n"


def _again(between: str) -> str:
    return product(f"{COMMIT}\n{WAIT}\n{between}\n{STEP}\n{COMMIT}\n{WAIT}")



def _lowered(text: str) -> Program:
    return api.program_of(text)


def _without(text: str) -> str:
    return text.replace(FENCE + "\n", "")


FOUND = {
    "no fence": _without(product()),
    "no fence in a loop": _without(looped()),
    "a fence behind the step": _without(product(f"{FENCE}\n{COMMIT}\n{WAIT}")),
    "a fence on one path": _without(product(step=SKIPPED + STEP)),
    "a fence under a guard": _without(product(step=f"@%p7 {FENCE}\n{STEP}")),
}
ASSUMED = {
    "a zero behind the fence": product(step=ZERO + STEP),
    "an operand behind the fence": product(step="mov.b32 %r21, 0;\n" + REGS),
    "a sum before the next step": _again("add.f32 %f10, %f10, %f11;"),
    "a store before the next step": _again("st.global.f32 [%rd3], %f10;"),
    "on one path": product(step="@%p7 bra $on;\n" + ZERO + "\n$on:\n" + STEP),
}
CLEAN = {
    "a fence": product(),
    "in a loop": looped(),
    "two steps in turn": product(f"{STEP}\n{COMMIT}\n{WAIT}"),
    "a step behind a wait": _again(""),
    "fenced again": _again(f"add.f32 %f10, %f10, %f11;\n{FENCE}"),
    "another register": product(step="mov.b32 %r40, 0;\n" + STEP),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_step_that_no_fence_precedes_is_a_finding(name: str) -> None:
    assert any("fence" in message for _site, message in _lowered(FOUND[name]).findings)
    assert not api.compare(FOUND[name], product()).equal
    assert not api.compare(FOUND[name], FOUND[name]).equal


@pytest.mark.parametrize("name", ASSUMED)
def test_registers_behind_the_fence_are_a_premise(name: str) -> None:
    program = _lowered(ASSUMED[name])
    assert not program.findings
    assert "wgmma-fences" in program.premises
    assert "wgmma-fences" in api.sign(ASSUMED[name]).premises


@pytest.mark.parametrize("name", CLEAN)
def test_a_fence_in_its_place_leaves_no_trace(name: str) -> None:
    program = _lowered(CLEAN[name])
    assert not program.findings
    assert "wgmma-fences" not in program.premises
