"""The contraction pass against the machine code of a real assembler, case by case."""

from __future__ import annotations

import json

import pytest

from checker.contract import MEASURED, UNCERTAIN, contract
from checker.core import Approx, Program
from checker.lower import lower
from checker.parse import parse
from tests.ptx.device.contraction import (
    CASES,
    CLAMPS,
    LEAST,
    LOOP,
    MOST,
    ONE,
    ROUND,
    SCALES,
    STORED,
    ZERO,
    source,
)

MACHINE: dict[str, dict[str, int]] = json.loads(STORED.read_text())
# Differences that are none: the machine multiplies the literals beforehand, shares the product
# that is written twice, and scales around `rcp`.
MULTIPLIES = {"literals": -1, "product-written-twice": -1, "rcp-add": 1}


def model(program: Program) -> dict[str, int]:
    """Instructions that the model has, packed halves counted once, dead ones left out."""
    used: set[int] = set()
    while True:
        before = len(used)
        for op in program.ops:
            if not op.dst or op.name == "load" or not used.isdisjoint(op.dst):
                used |= {s for s in op.src if isinstance(s, int)}
                used |= {op.guard.reg} if op.guard else set()
        if len(used) == before:
            break
    found: dict[str, set[int]] = {"fma": set(), "mul": set(), "add": set()}
    for op in program.ops:
        kind = {"ffma": "fma", "fmul": "mul", "fadd": "add", "fsub": "add"}.get(op.name)
        if op.name == "fapprox" and isinstance(op.attr, Approx):
            kind = "fma" if "fma." in op.attr.fn else "mul" if op.attr.fn[:3] == "div" else None
        if kind and not used.isdisjoint(op.dst):
            found[kind].add(op.site)
    return {kind: len(sites) for kind, sites in found.items()}


@pytest.mark.parametrize("name", CASES)
def test_pass_agrees_with_the_machine_code(name: str) -> None:
    p = contract(lower(parse(source(CASES[name]), isa="ptx")))
    assert UNCERTAIN not in p.premises
    got = model(p)
    got["mul"] += MULTIPLIES.get(name, 0)
    assert got == MACHINE[name]


def clamped(body: str) -> Program:
    return contract(lower(parse(source(body), isa="ptx")))


@pytest.mark.parametrize("name", CLAMPS)
def test_clamps_saturate_where_the_machine_code_does(name: str) -> None:
    p = clamped(CLAMPS[name])
    got = sum(op.name == "fadd" and op.attr.saturate for op in p.ops)
    assert got == MACHINE[name]["sat"]
    assert UNCERTAIN not in p.premises
    assert (MEASURED in p.premises) == bool(got)


@pytest.mark.parametrize("name", SCALES)
def test_products_are_scaled_where_the_machine_code_does(name: str) -> None:
    p = clamped(SCALES[name])
    got = sum(op.name == "fcvt" and op.attr.src == "f64" for op in p.ops) + sum(
        op.name == "fapprox" and "@scaled" in op.attr.fn for op in p.ops)
    assert got == MACHINE[name]["scaled"]
    assert UNCERTAIN not in p.premises


def test_a_maximum_before_the_minimum_means_the_same() -> None:
    """Both give 0 for a NaN: nothing is to be changed."""
    assert not clamped(f"max.f32 %f10, %f2, {ZERO}; min.f32 %f0, %f10, {ONE};").premises & {
        MEASURED, UNCERTAIN}


@pytest.mark.parametrize("body", [
    "rcp.rn.f32 %f8, 0f3F800000; min.f32 %f10, %f2, %f8; " + MOST,
    "mov.f32 %f10, %f3; @%p1 " + LEAST + MOST,
    ROUND + "min.f32 %f10, %f10, 0f3F800000; st.global.f32 [a+404], %f10; " + LOOP + MOST,
    # what the minimum was given is another value by then, or the minimum is the last round's
    ROUND + "min.f32 %f10, %f12, 0f3F800000; ld.global.f32 %f12, [a+404]; " + MOST + LOOP,
    ROUND + "ld.global.f32 %f12, [a+404]; " + MOST + "min.f32 %f10, %f12, 0f3F800000; " + LOOP,
])
def test_a_clamp_that_may_saturate_is_named(body: str) -> None:
    p = clamped(body)
    assert UNCERTAIN in p.premises
    assert not any(op.name == "fadd" and op.attr.saturate for op in p.ops)
