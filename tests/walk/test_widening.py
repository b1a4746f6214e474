"""Sums that are widened: what a lane's own sum shows counts, not whom it shares a register with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checker.lower import lower
from checker.parse import parse
from checker.tree import same
from checker.walk import walk
from tests.walk.kernels import equal, text, walked


def _element(row: str, plus: str, place: str) -> str:
    """out[i] = 4096 * block + 2 * row * n + plus < m ? a[i] : b[i] for element %r11 of the tile."""
    return f"""
    {place}
    mad.lo.s32 %r12, %r3, 64, %r11;
    {row}
    shl.b32 %r13, %r13, 1;
    mul.lo.s32 %r14, %r13, %r1;
    {plus}
    mad.lo.s32 %r15, %r3, 4096, %r15;
    setp.lt.s32 %p1, %r15, %r5;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd2, %rd10;
    add.s64 %rd13, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    ld.global.f32 %f2, [%rd12];
    selp.f32 %f3, %f1, %f2, %p1;
    st.global.f32 [%rd13], %f3;"""


def _side_by_side(plus: str = "add.s32 %r15, %r14, 3;") -> str:
    """A thread for each element: rows 0 to 3 are lanes of one register."""
    return _with_m(_element("and.b32 %r13, %r11, 3;", plus, "mov.u32 %r11, %r2;"))


def _with_m(body: str, threads: int = 64) -> str:
    return text("    ld.param.u32 %r5, [k_param_4];" + body, threads).replace(
        ".param .u32 k_param_3\n", ".param .u32 k_param_3,\n    .param .u32 k_param_4\n", 1)


def _in_turn(*plus: int) -> str:
    """A thread for four elements: each row is a register of its own."""
    return _with_m("".join(
        _element(f"mov.u32 %r13, {j};", f"add.s32 %r15, %r14, {c};",
                 f"shl.b32 %r11, %r2, 2;\n    add.s32 %r11, %r11, {j};")
        for j, c in enumerate(plus)), 16)


def _anywhere(kernel: str) -> str:
    """The same test for the tiles of all blocks: 2 * row * n + plus < m."""
    found = kernel.replace("mad.lo.s32 %r15, %r3, 4096, %r15;", "")
    assert found != kernel
    return found


def _as_it_is(kernel: str) -> str:
    return kernel


PLACES = pytest.mark.parametrize("place", [_as_it_is, _anywhere])


@PLACES
def test_rows_in_lanes_and_in_registers_are_alike(place: Callable[[str], str]) -> None:
    """A literal in row 0, ext(2 * n + 2) + 1 in row 1, ext(4 * n) + 3 in row 2."""
    assert equal(place(_side_by_side()), place(_in_turn(3, 3, 3, 3)))


@PLACES
@pytest.mark.parametrize("plus", [(2, 3, 3, 3), (3, 4, 3, 3), (3, 3, 2, 3), (3, 3, 3, 1)])
def test_another_literal_in_one_row_shows(plus: tuple[int, ...], place: Callable[[str], str]
                                          ) -> None:
    found = walked(place(_in_turn(*plus)))
    assert found.modelled
    assert not same(walked(place(_side_by_side())), found)[0]


def test_the_block_in_a_widened_sum_shows() -> None:
    assert not same(walked(_side_by_side()), walked(_anywhere(_side_by_side())))[0]


@PLACES
def test_what_may_wrap_is_not_taken_out(place: Callable[[str], str]) -> None:
    """2 * n + 3 < m is no test of 2 * n < m - 3: 2 * n + 2 may have wrapped already."""
    plus = "add.s32 %r15, %r14, 3;"
    inside = place(_side_by_side())
    outside = inside.replace(plus, "add.s32 %r15, %r14, 0;\n    sub.s32 %r6, %r5, 3;").replace(
        "%r15, %r5;", "%r15, %r6;")
    assert walked(inside).modelled
    assert not same(walked(inside), walked(outside))[0]


def _sign(bit: int, width: int, steps: int = 16) -> str:
    """out[steps * block + t] = a[...] at a place corrected by bit `bit` of the block's number."""
    wide = ("cvt.u64.u32 %rd10, %r3;\n    bfe.s64 %rd11, %rd10, {0}, 1;\n"
            "    cvt.u32.u64 %r10, %rd11;")
    made = wide if width == 64 else "bfe.s32 %r10, %r3, {0}, 1;"
    return text(f"""
    {made.format(bit)}
    mad.lo.s32 %r11, %r3, {steps}, %r2;
    add.s32 %r12, %r11, %r10;
    mul.wide.s32 %rd12, %r11, 4;
    mul.wide.s32 %rd13, %r12, 4;
    add.s64 %rd14, %rd1, %rd13;
    add.s64 %rd15, %rd3, %rd12;
    ld.global.f32 %f1, [%rd14];
    st.global.f32 [%rd15], %f1;""", steps)


def test_the_sign_of_a_block_index_in_either_width() -> None:
    assert equal(_sign(27, 32), _sign(27, 64))
    for bit in (14, 3):  # no sign of a number of elements
        assert not same(walked(_sign(27, 64)), walked(_sign(bit, 64)))[0]


def _apart(step: int, inside: int) -> str:
    """out[i] = a[step * n + i]: of the thread's index only some bits are in the widened sum."""
    return text(f"""
    mul.lo.s32 %r10, %r1, {step};
    shl.b32 %r11, %r3, 7;
    add.s32 %r10, %r10, %r11;
    and.b32 %r12, %r2, {inside};
    shl.b32 %r12, %r12, 2;
    add.s32 %r10, %r10, %r12;
    cvt.u64.u32 %rd10, %r10;
    and.b32 %r13, %r2, {31 - inside};
    mul.wide.u32 %rd11, %r13, 4;
    add.s64 %rd12, %rd1, %rd10;
    add.s64 %rd12, %rd12, %rd11;
    ld.global.f32 %f1, [%rd12];
    shl.b32 %r14, %r3, 5;
    add.s32 %r14, %r14, %r2;
    mul.wide.s32 %rd13, %r14, 4;
    add.s64 %rd14, %rd3, %rd13;
    st.global.f32 [%rd14], %f1;
""", 32)


@pytest.mark.parametrize(("step", "divisible", "one"), [
    (128, (), True), (8, ("arg3",), True), (8, (), False), (4, ("arg3",), False)])
def test_a_place_in_the_tile_goes_into_a_sum_of_larger_steps(
        step: int, divisible: tuple[str, ...], one: bool) -> None:
    """Below the step of what it is added to it crosses nothing, whichever way it was written."""
    whole, parts = (walk(lower(parse(_apart(step, inside), isa="ptx")), divisible=divisible)
                    for inside in (31, 7))
    assert whole.modelled
    assert same(whole, parts)[0] == one
    assert not divisible or not one or "divisible:arg3%16" in {*whole.premises, *parts.premises}


def _doubleword(body: str) -> str:
    """out[i] = 64 bits made of n + 3 * a[i], of which the sign is shifted down."""
    return text(f"""
    mad.lo.s32 %r11, %r3, 64, %r2;
    mul.wide.s32 %rd10, %r11, 4;
    add.s64 %rd11, %rd1, %rd10;
    shl.b64 %rd10, %rd10, 1;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.u32 %r12, [%rd11];
    mad.lo.s32 %r13, %r12, 3, %r1;
    shr.s32 %r14, %r13, 5;
    {body}
    st.global.u64 [%rd12], %rd13;""", 64)


ZEROS = _doubleword("mov.b32 %r15, 0; mov.b64 %rd13, {%r14, %r15};")
SIGNS = _doubleword("cvt.s64.s32 %rd13, %r14;")


def test_above_a_negative_word_are_no_zeros() -> None:
    """A shifted word is a number below zero; side by side with zeros it is another one."""
    assert walked(SIGNS).modelled
    assert walked(ZEROS).modelled
    assert not equal(SIGNS, ZEROS)


def test_the_upper_bits_of_a_negative_word_are_its_sign() -> None:
    signs = _doubleword("cvt.s64.s32 %rd14, %r14; shr.u64 %rd13, %rd14, 40;")
    assert not equal(signs, _doubleword("mov.b64 %rd13, 0;"))
    assert not equal(signs, _doubleword("cvt.u64.u32 %rd14, %r14; shr.u64 %rd13, %rd14, 40;"))


def test_a_negative_word_borrows_from_the_word_above() -> None:
    sums = _doubleword("cvt.s64.s32 %rd14, %r14; cvt.u64.u32 %rd15, %r12;"
                       " shl.b64 %rd15, %rd15, 32; add.s64 %rd13, %rd14, %rd15;")
    assert not equal(sums, _doubleword("mov.b64 %rd13, {%r14, %r12};"))
