"""Sweeps and pairs through the public calls: what launch facts may and may not take away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checker import KernelInput, compare, partition
from checker.api import Examined, by_replay, examine
from checker.assume import contradicted
from checker.launch import Launch
from tests.kernels import elementwise, ptx

EXAMPLES = Path(__file__).resolve().parents[1] / "corpus" / "examples"
SUM = "add.rn.f32 %f9, %f1, %f2;"
MUS = "add.rn.f32 %f9, %f2, %f1;"
STRIDED = """
    mov.u32 %r4, %nctaid.x;
    mad.lo.s32 %r3, %r4, 32, %r1;
    mul.wide.u32 %rd4, %r3, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.f32 %f1, [%rd5];
    mad.lo.s32 %r5, %r2, 32, %r1;
    mul.wide.u32 %rd6, %r5, 4;
    add.s64 %rd7, %rd2, %rd6;
    st.global.f32 [%rd7], %f1;
"""


def _launch(grid: int, elements: int = 64) -> dict[str, Any]:
    return {"grid": [grid, 1, 1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": 256, "role": "in"},
        {"buffer": "y", "dtype": "f32", "elements": elements, "role": "out"}]}


def test_partition_without_launches_is_static() -> None:
    found = partition([KernelInput("a", elementwise(SUM), config={"order": 0, "pad": 1}),
                       KernelInput("b", elementwise(MUS), config={"order": 1, "pad": 1}),
                       KernelInput("c", elementwise("mul.rn.f32 %f9, %f1, %f2;"),
                                   config={"order": 2, "pad": 1}),
                       KernelInput("bad", "no assembly at all")])
    assert [c.members for c in found.classes] == [("a", "b"), ("c",)]
    assert all(c.basis == "static" for c in found.classes)
    assert [name for name, _ in found.errors] == ["bad"]
    assert found.separating_knobs == ("order",)


def test_a_kernel_that_reads_its_grid_is_equal_at_one_grid_only() -> None:
    text = ptx(STRIDED)
    other = ptx(STRIDED, name="renamed")
    assert compare(text, other, launch_a=_launch(2), launch_b=_launch(2)).equal
    assert "same-grid" in compare(text, other).premises
    shorter = text.replace("st.global.f32 [%rd7], %f1;", "st.global.f32 [%rd7], %f1;\n"
                           "    mov.u32 %r9, %r1;")
    verdict = compare(text, shorter, launch_a=_launch(2), launch_b=_launch(1))
    assert not verdict.equal
    found = partition([KernelInput("two", text, launches=(_launch(2),)),
                       KernelInput("one", shorter, launches=(_launch(1),))])
    assert len(found.classes) == 2


def test_examined_survives_json() -> None:
    found = examine(KernelInput("k", ptx(STRIDED), launches=(_launch(2),)))
    assert Examined.from_json(found.to_json()) == found
    assert found.digests[0] is not None
    assert found.shapes


def test_finding_of_the_second_kernel_points_at_the_second_text() -> None:
    one = ptx("""
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        add.s64 %rd6, %rd2, %rd4;
        ld.global.f32 %f1, [%rd5];
        st.global.f32 [%rd6], %f1;
        """)
    two = one.replace("[%rd5];", "[%rd5+8192];")
    verdict = compare(one, two, launch_a=_launch(1))
    assert verdict.kind == "unproved"
    assert any(r.line_a is None and r.line_b for r in verdict.reasons)


def _at(text: str, name: str, **config: Any) -> KernelInput:
    launch = {"grid": [1, 1, 1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": 256, "role": "in"},
        {"buffer": "y", "dtype": "f32", "elements": 256, "role": "in"},
        {"buffer": "z", "dtype": "f32", "elements": 256, "role": "out"}]}
    return KernelInput(name, text, config=config, launches=(launch,))


def test_small_launches_are_replayed_and_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = [_at(elementwise(SUM), "a", order=0), _at(elementwise(MUS), "b", order=1),
             _at(elementwise(SUM), "c", order=2),
             _at(elementwise("sub.rn.f32 %f9, %f1, %f2;"), "other", order=3)]
    signed = partition(sweep, static=True)
    assert [(c.members, c.basis) for c in signed.classes] == [
        (("a", "b", "c"), "static"), (("other",), "static")]
    monkeypatch.setattr("checker.kernel.walk", None)
    found = partition(sweep)
    assert [c.members for c in found.classes] == [("a", "b", "c"), ("other",)]
    assert [c.basis for c in found.classes] == ["launch", "launch"]
    assert all("launch" in c.premises for c in found.classes)
    assert all(c.signature.startswith("sb1l-") for c in found.classes)
    assert found.separating_knobs == signed.separating_knobs


def test_knobs_of_a_class_are_values_not_their_spelling() -> None:
    knobs = [{"warps": 8, "dot": "16x16", "fast": True}, {"warps": 16, "dot": "8x8"}, {"warps": 2}]
    (one,) = partition([KernelInput(f"k{n}", elementwise(SUM), config=config)
                        for n, config in enumerate(knobs)]).classes
    assert one.knobs == {"dot": ["16x16", "8x8"], "fast": [True], "warps": [2, 8, 16]}


def test_one_program_at_two_grids_is_no_class_of_these_launches() -> None:
    """At half the grid half of the elements are written: a replay is not shared between the two."""
    text = (EXAMPLES / "scale_after.ptx").read_text()
    facts = json.loads((EXAMPLES / "scale.launch.json").read_text())
    whole = KernelInput("whole", text, launches=(facts,))
    half = KernelInput("half", text, launches=({**facts, "grid": [16, 1, 1]},))
    for sweep in ([whole, half], [half, whole]):
        found = partition(sweep)
        assert len(found.classes) == 2
        assert {c.basis for c in found.classes} == {"launch"}
        signed = partition(sweep, static=True)
        assert len(signed.classes) == 1
        assert "grid-covers" in signed.classes[0].premises


def test_where_the_replay_cannot_answer_signatures_do() -> None:
    indirect = """
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.u32 %r3, [%rd5];
    and.b32 %r3, %r3, 15;
    mul.wide.u32 %rd6, %r3, 4;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.f32 %f1, [%rd7];
    add.s64 %rd8, %rd2, %rd4;
    st.global.f32 [%rd8], %f1;
    """
    text = ptx(indirect)
    other = text.replace("and.b32 %r3, %r3, 15;", "and.b32 %r3, 15, %r3;")
    nearly = text.replace("and.b32 %r3, %r3, 15;", "and.b32 %r3, %r3, 14;")
    sweep = [KernelInput(n, t, launches=(_launch(1),))
             for n, t in (("a", text), ("b", other), ("c", nearly))]
    found = partition(sweep)
    assert [(c.members, c.basis) for c in found.classes] == [(("a", "b"), "static"),
                                                           (("c",), "static")]


def test_a_kernel_with_a_defect_at_the_launch_is_in_no_class() -> None:
    body = """
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    ld.global.f32 %f1, [%rd5+{0}];
    st.global.f32 [%rd6], %f1;
    """
    good, bad = ptx(body.format(0)), ptx(body.format(1024))
    for static in (False, True):
        found = partition([KernelInput("good", good, launches=(_launch(1),)),
                           KernelInput("bad", bad, launches=(_launch(1),)),
                           KernelInput("again", bad, launches=(_launch(1),))], static=static)
        assert [c.members for c in found.classes] == [("good",)]
        assert [name for name, _ in found.unproved] == ["bad", "again"]
        assert all(any(r.code == "out-of-bounds" for r in why) for _, why in found.unproved)


def test_a_map_through_something_opaque_merges_nothing() -> None:
    body = """
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    ld.global.u32 %r3, [%rd5];
    mov.u32 %r4, 0;
    strange.b32 %r4, %r3;
    {0}
    st.global.u32 [%rd6], %r4;
    """
    one, two = ptx(body.format("")), ptx(body.format("add.u32 %r4, %r4, 0;"))
    found = [examine(KernelInput("k", text, launches=(_launch(1),))) for text in (one, two)]
    assert all(e.launch_signature is None for e in found)
    assert all(by_replay(KernelInput("k", text, launches=(_launch(1),))).launch_signature is None
               for text in (one, two))
    sweep = [KernelInput(n, t, launches=(_launch(1),))
             for n, t in (("a", one), ("b", two), ("again", one))]
    for static in (False, True):
        found = partition(sweep, static=static)
        assert [c.members for c in found.classes] == [("a", "again"), ("b",)]
        assert "same-program" in found.classes[0].premises


READ_AGAIN = """
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    ld.global.f32 %f1, [%rd5];
    add.rn.f32 %f2, %f1, %f1;
    st.global.f32 [%rd6], %f2;
    ld.global.f32 %f3, [%rd5];
    add.rn.f32 %f9, %f3, %f2;
    st.global.f32 [%rd6+128], %f9;
"""


def _shared(offset: int, role: str = "inout", elements: int = 64) -> dict[str, Any]:
    return {"grid": [1, 1, 1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": elements, "role": role},
        {"buffer": "y", "dtype": "f32", "elements": 64, "role": role, "alias": "x",
         "alias_offset": offset}]}


def test_arguments_that_overlap_contradict_what_no_alias_says() -> None:
    """One kernel reads an element again that it has written through the other pointer."""
    once = ptx(READ_AGAIN.replace("ld.global.f32 %f3, [%rd5]", "mov.f32 %f3, %f1"))
    again = ptx(READ_AGAIN)
    assert compare(again, once).equal
    apart = {"grid": [1, 1, 1], "args": _launch(1)["args"]}
    assert compare(again, once, launch_a=apart).basis == "static"
    for offset in (0, 128):
        verdict = compare(again, once, launch_a=_shared(offset, elements=128))
        assert verdict.equal == (offset == 128)  # nothing that is written is read
        assert verdict.basis != "static"
    kernels = [KernelInput(name, text, launches=(_shared(0),))
               for name, text in (("again", again), ("once", once))]
    for static in (False, True):
        assert len(partition(kernels, static=static).classes) == 2
    same = compare(again, again, launch_a=_shared(0))
    assert same.equal
    assert "no-alias" not in same.premises


@pytest.mark.parametrize(("launch", "overlaps"), [
    (_shared(0), True), (_shared(252), True), (_shared(256, elements=128), True),
    (_shared(256), False), (_shared(0, "in"), False), (_launch(1), False)])
def test_which_arguments_overlap(launch: dict[str, Any], overlaps: bool) -> None:
    assert bool(contradicted("no-alias", Launch.from_json(launch))) == overlaps
