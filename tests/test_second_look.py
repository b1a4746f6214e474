"""The second static look: under what either kernel shows of sizes, and never without saying so."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from checker import KernelInput, api, compare, partition
from checker.cache import Cache, Examiner
from checker.cache import partition as partition_cached
from corpus.load import CorpusKernel, load_set
from tests.walk.kernels import elementwise
from tests.walk.test_walk import _vector

SUM = "add.rn.f32 %f3, %f1, %f2;"


@cache
def _rope() -> dict[str, CorpusKernel]:
    return {k.name: k for k in load_set("sm_90") if k.family == "rope"}


def _text(rows: int, warps: int, fuse: int = 0) -> str:
    return _rope()[f"rope-BH64_BR{rows}_INTERLEAVED0_fuse{fuse}_w{warps}-sm_90"].text


VECTOR, SCALAR = _text(1, 1), _text(1, 4)


def _launch(half: int) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(json.dumps(dict(_rope()[
        "rope-BH64_BR1_INTERLEAVED0_fuse0_w1-sm_90"].launch)))
    facts["args"][5] = {"i32": half}
    return facts


def test_a_vector_kernel_and_a_scalar_one_are_equal_under_a_premise() -> None:
    """One kernel tests one of two elements, the other each: the same where n is a multiple."""
    for a, b in ((VECTOR, SCALAR), (SCALAR, VECTOR)):
        verdict = compare(a, b)
        assert (verdict.kind, verdict.basis) == ("equal", "static")
        assert "divisible:arg5%16" in verdict.premises
        assert verdict.signature_a.text != verdict.signature_b.text
    assert "divisible:arg5%16" not in api.sign(SCALAR).premises


def test_launch_facts_that_contradict_the_premise_leave_the_launch() -> None:
    assert compare(VECTOR, SCALAR, launch_a=_launch(48)).basis == "static"
    verdict = compare(VECTOR, SCALAR, launch_a=_launch(40))
    assert verdict.basis != "static"
    assert not compare(VECTOR, SCALAR, launch_a=_launch(41)).equal  # misaligned pairs


@pytest.mark.parametrize(("old", "new"), [
    ("[ %rd6 + 0 ], { %rs5 }", "[ %rd6 + 2 ], { %rs5 }"),
    ("setp.lt.s32 	%p4, %r7, %r8;", "setp.le.s32 	%p4, %r7, %r8;"),
    ("and.b32 	%r7, %r6, 63;", "and.b32 	%r7, %r6, 31;"),
])
def test_what_differs_under_the_premise_too(old: str, new: str) -> None:
    assert old in SCALAR
    verdict = compare(VECTOR, SCALAR.replace(old, new))
    assert verdict.kind == "unproved"
    assert verdict.reasons


def _shared_guard() -> str:
    """Two scalar stores that share one test: a mistake, as long as nobody shows n % 2 == 0."""
    near = elementwise(SUM, 64, 2, order="near")
    parts = near.split("setp.lt.s32 %p1, %r12, %r1;")
    return parts[0] + "setp.lt.s32 %p1, %r12, %r1;" + parts[1] + \
        "sub.s32 %r13, %r12, 1;\n    setp.lt.s32 %p1, %r13, %r1;" + parts[2]


def test_nothing_is_assumed_that_neither_kernel_shows() -> None:
    assert not compare(elementwise(SUM, 64, 2, order="near"), _shared_guard()).equal


def test_a_vector_shows_what_scalar_accesses_rely_on() -> None:
    copied = "add.rn.f32 %f3, %f1, 0f80000000;"
    scalar = elementwise(copied, 64, 2, order="near")
    verdict = compare(_vector(32), scalar)
    assert (verdict.kind, verdict.basis) == ("equal", "static")
    assert any(p.startswith("divisible:arg3%") for p in verdict.premises)
    assert not compare(_vector(32), elementwise(copied, 64, 2, order="near", shift=1)).equal
    assert not compare(_vector(32), elementwise(copied, 64, 2, order="near", skip=1)).equal
    assert not compare(_vector(32), elementwise(copied, 64, 2, order="near", guard="le")).equal


def _sweep() -> list[KernelInput]:
    return [KernelInput(f"{r}.{w}.{f}", _text(r, w, f), config={"rows": r, "warps": w, "fuse": f})
            for r in (1, 4) for w in (1, 4) for f in (0, 1)]


@pytest.mark.parametrize("cached", [False, True])
def test_a_partition_agrees_with_comparing(cached: bool) -> None:
    sweep = _sweep()
    found = partition_cached(sweep, Examiner(Cache(None), jobs=0)) if cached else partition(sweep)
    assert [c.basis for c in found.classes] == ["static", "static"]
    assert {frozenset(c.members) for c in found.classes} == {
        frozenset(k.name for k in sweep if k.config["fuse"] == f) for f in (0, 1)}
    assert all("divisible:arg5%16" in c.premises for c in found.classes)
    assert found.separating_knobs == ("fuse",)
    signatures = {api.sign(k.text).text for k in sweep}
    assert all(c.signature in signatures for c in found.classes)


def test_what_was_examined_says_what_the_kernel_shows() -> None:
    found = api.examine(KernelInput("k", VECTOR))
    assert found.shows == ("arg5",)
    assert api.Examined.from_json(found.to_json()) == found
    assert api.examine(KernelInput("k", SCALAR)).shows == ()
    assert api.look_again([found]) == {}


def test_a_class_at_launches_that_contradict_the_premise_is_no_static_one() -> None:
    sweep = [KernelInput("v", VECTOR, launches=(_launch(40),)),
             KernelInput("s", SCALAR, launches=(_launch(40),))]
    found = partition(sweep, static=True)
    assert all(c.basis == "launch" for c in found.classes if len(c.members) > 1)
