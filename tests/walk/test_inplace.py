"""Buffers that are read and written: elements are what they were before, or nothing is said."""

from __future__ import annotations

import pytest

from checker.api import replay_kernel
from checker.tree import same
from tests.walk.kernels import equal, text, walked

STEP = "add.rn.f32 %f2, %f1, 0f3F800000;"
BARRIER = "bar.sync 0;"


def _element(read: str = "", write: str = "", between: str = "", step: str = STEP,
             load: str = "ld.global.f32 %f1, [%rd11];") -> str:
    """out[w] = out[r] + 1; r and w are the element 64 * block + t unless read or write say else."""
    return f"""
    mad.lo.s32 %r11, %r3, 64, %r10;
    mad.lo.s32 %r12, %r3, 64, %r10;
    {read}
    {write}
    mul.wide.s32 %rd10, %r11, 4;
    add.s64 %rd11, %rd3, %rd10;
    mul.wide.s32 %rd12, %r12, 4;
    add.s64 %rd13, %rd3, %rd12;
    {load}
    {step}
    {between}
    st.global.f32 [%rd13], %f2;"""


def _kernel(place: str = "mov.u32 %r10, %r2;", **more: str) -> str:
    return text(place + _element(**more), 64)


def test_an_element_of_ones_own() -> None:
    one = _kernel()
    assert walked(one).modelled
    many = text("shl.b32 %r10, %r2, 2;" + _element(
        load="ld.global.v4.f32 {%f1, %f3, %f5, %f7}, [%rd11];",
        step="".join(f"add.rn.f32 %f{j + 1}, %f{j}, 0f3F800000;\n    " for j in (1, 3, 5, 7)),
    ).replace("st.global.f32 [%rd13], %f2", "st.global.v4.f32 [%rd13], {%f2, %f4, %f6, %f8}"), 16)
    assert equal(one, many)
    assert not same(walked(one), walked(_kernel(step=STEP.replace("3F8", "3F9"))))[0]


def test_lanes_of_one_warp_load_before_any_of_them_stores() -> None:
    assert walked(_kernel("shr.u32 %r10, %r2, 1;")).modelled
    assert walked(_kernel(read="xor.b32 %r11, %r11, 1;")).modelled
    assert not equal(_kernel(read="xor.b32 %r11, %r11, 1;"), _kernel())


OTHERS = [
    {"place": "and.b32 %r10, %r2, 31;"},  # two warps store to each element
    {"read": "xor.b32 %r11, %r11, 32;"},  # the other warp's
    {"read": "mul.lo.s32 %r11, %r2, -1;\n    mad.lo.s32 %r11, %r3, 64, %r11;\n"
             "    add.s32 %r11, %r11, 63;"},
]


@pytest.mark.parametrize("knobs", OTHERS)
def test_another_warps_element_needs_a_barrier_behind_the_load(knobs: dict[str, str]) -> None:
    assert not walked(_kernel(**knobs)).modelled
    assert walked(_kernel(**knobs, between=BARRIER)).modelled
    early = f"{BARRIER}\n    ld.global.f32 %f1, [%rd11];"
    assert not walked(_kernel(**knobs, load=early)).modelled
    half = "setp.lt.s32 %p1, %r1, 9;\n    @%p1 bra $on;\n    bar.sync 0;\n$on:"
    assert not walked(_kernel(**knobs, between=half)).modelled
    warps = "bar.warp.sync -1;"
    assert not walked(_kernel(**knobs, between=warps)).modelled


@pytest.mark.parametrize(("knobs", "between", "rests"), [
    ({}, "", False), ({"place": "shr.u32 %r10, %r2, 1;"}, "", True),
    ({"read": "xor.b32 %r11, %r11, 1;"}, "", True),
    ({"read": "xor.b32 %r11, %r11, 1;"}, "bar.warp.sync -1;", False),
    ({"read": "xor.b32 %r11, %r11, 1;"}, BARRIER, False),
    ({"read": "xor.b32 %r11, %r11, 1;\n    bar.warp.sync -1;"}, "", True)])
def test_lanes_of_one_warp_rest_on_a_premise(knobs: dict[str, str], between: str, rests: bool
                                             ) -> None:
    source = _kernel(**knobs, between=between)
    assert ("warp-order" in walked(source).premises) == rests
    assert ("warp-order" in replay_kernel(source, IN_PLACE).premises) == rests
    assert replay_kernel(source, IN_PLACE).usable


IN_PLACE = {"grid": [2, 1, 1], "block": [64, 1, 1], "args": [
    {"buffer": n, "dtype": "f32", "elements": 256, "role": r}
    for n, r in (("a", "in"), ("b", "in"), ("o", "inout"))] + [{"i32": 20}]}


@pytest.mark.parametrize("knobs", OTHERS)
def test_the_replay_says_the_same(knobs: dict[str, str]) -> None:
    assert replay_kernel(_kernel(**knobs), IN_PLACE).findings
    assert replay_kernel(_kernel(**knobs, between=BARRIER), IN_PLACE).usable


@pytest.mark.parametrize("knobs", [
    {"read": "add.s32 %r11, %r11, 1;"},  # the next block's at the end
    {"read": "add.s32 %r11, %r11, 64;"},
    {"read": "add.s32 %r11, %r11, %r1;"},
    {"read": "mad.lo.s32 %r11, %r2, %r1, %r3;", "write": "mad.lo.s32 %r12, %r2, %r1, %r3;"},
    {"step": STEP + "\n    atom.global.add.u32 %r20, [%rd11], 1;"},
    {"load": "mov.u32 %r21, tile;\n    cp.async.ca.shared.global [%r21], [%rd11], 4;\n"
             "    cp.async.wait_all;\n    ld.shared.f32 %f1, [%r21];"},
])
def test_what_is_not_known_to_be_read_before_is_not_modelled(knobs: dict[str, str]) -> None:
    assert not walked(_kernel(**knobs, between=BARRIER)).modelled


def _two(order: str) -> str:
    """out[i] = out[i] + b[i]; b[i] = out[i], the old one or (`order`) the new one."""
    reload = {"old": "", "new": "ld.global.f32 %f1, [%rd13];",
              "late": "ld.global.f32 %f4, [%rd14];"}
    return text("mov.u32 %r10, %r2;" + _element(step="""
    add.s64 %rd14, %rd2, %rd10;
    ld.global.f32 %f3, [%rd14];
    add.rn.f32 %f2, %f1, %f3;""") + f"""
    {reload[order]}
    st.global.f32 [%rd14], %f1;""", 64)


def test_two_buffers_that_are_read_and_written() -> None:
    old = walked(_two("old"))
    assert old.modelled
    assert not walked(_two("new")).modelled  # a value that the kernel stored itself
    assert same(old, walked(_two("late"))) == (True, ())


UPDATE = ("mul.wide.u32 %rd10, %r2, 4;\nadd.s64 %rd11, %rd1, %rd10;\nadd.s64 %rd12, %rd3, %rd10;\n"
          "ld.global.b32 %r5, [%rd11];\n")


@pytest.mark.parametrize(("one", "two"), [
    ("red.global.add.u32 [%rd3], %r5;", "red.global.max.u32 [%rd3], %r5;"),
    ("red.global.max.u32 [%rd3], %r5;", "red.global.max.s32 [%rd3], %r5;"),
    ("red.global.add.u32 [%rd3], %r5;", "red.global.add.u64 [%rd3], %rd12;"),
    ("red.global.or.b32 [%rd3], %r5;", "st.global.b32 [%rd12], %r5;"),
])
def test_updates_of_two_kinds_have_no_order(one: str, two: str) -> None:
    """A sum and a maximum of one element are another thing in the other order."""
    for a, b in ((one, two), (two, one)):
        assert not walked(text(UPDATE + a + "\n" + b)).modelled
        assert walked(text(UPDATE + a + "\n" + b.replace("%rd3", "%rd2").replace(
            "%rd12]", "%rd11]"))).modelled


def test_updates_of_one_kind_have() -> None:
    twice = ["red.global.add.u32 [%rd3], %r5;", "red.global.add.s32 [%rd12], %r5;"]
    assert equal(text(UPDATE + "\n".join(twice)), text(UPDATE + "\n".join(reversed(twice))))
