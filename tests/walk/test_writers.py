"""Threads that write one element: which value stays is known where one of them comes last."""

from __future__ import annotations

import pytest

from checker import api
from tests.walk.kernels import equal, text, walked


def _kernel(stores: str, place: str = "mov.u32 %r20, 0;", threads: int = 32,
            source: str = "mov.u32 %r10, %r2;") -> str:
    """out[place] = a[source], by every thread unless `stores` says otherwise (%p1: t < 16)."""
    return text(f"""
    {source}
    {place}
    mul.wide.u32 %rd10, %r10, 4;
    add.s64 %rd11, %rd1, %rd10;
    mul.wide.u32 %rd12, %r20, 4;
    add.s64 %rd13, %rd3, %rd12;
    setp.lt.u32 %p1, %r2, 16;
    ld.global.f32 %f1, [%rd11];
    {stores}""", threads)


STORE = "st.global.f32 [%rd13], %f1;"
PAIR = "shr.u32 %r20, %r2, 1;"


@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize(("place", "source"), [
    ("mov.u32 %r20, 0;", "sub.s32 %r10, LAST, %r2;"),  # the first one's where the last one's was
    ("mov.u32 %r20, 0;", "xor.b32 %r10, %r2, 1;"),
    (PAIR, "xor.b32 %r10, %r2, 1;"),
])
def test_lanes_that_write_one_element_each_a_value_of_its_own(
        place: str, source: str, threads: int) -> None:
    """The same values from the same places, by other lanes: another one stays."""
    plain = _kernel(STORE, place, threads)
    other = _kernel(STORE, place, threads, source.replace("LAST", str(threads - 1)))
    assert not walked(plain).modelled
    assert not api.compare(plain, other).equal


def test_parts_of_wide_stores_that_meet_a_neighbours() -> None:
    wide = _kernel("st.global.v2.f32 [%rd13], {%f1, %f1};", "mov.u32 %r20, %r2;")
    assert not walked(wide).modelled


FAR = "and.b32 %r20, %r2, 31;"


def test_warps_that_write_one_element_after_another() -> None:
    """With a barrier in between the later store stays, without one either may."""
    first, later = "@%p2 st.global.f32 [%rd13], %f1;", "@!%p2 st.global.f32 [%rd13], %f1;"
    test = "setp.lt.u32 %p2, %r2, 32;"
    ordered = _kernel(f"{test}\n{first}\nbar.sync 0;\n{later}", FAR, 64)
    turned = _kernel(f"{test}\n{later}\nbar.sync 0;\n{first}", FAR, 64)
    assert walked(ordered).modelled
    assert not api.compare(ordered, turned).equal
    assert not walked(_kernel(f"{test}\n{first}\n{later}", FAR, 64)).modelled


def test_one_value_may_be_written_by_many() -> None:
    one = _kernel(STORE, PAIR, 64, "shr.u32 %r10, %r2, 1;")
    assert equal(one, _kernel(STORE, "mov.u32 %r20, %r2;", 32))


def test_a_thread_may_write_one_element_twice() -> None:
    twice = "st.global.f32 [%rd13], 0f00000000;\n" + STORE
    assert walked(_kernel(twice, "mov.u32 %r20, %r2;")).modelled


# --- turns of a loop, and blocks of any size ----------------------------------------------------


def _turns(number: int, value: str, beside: int = 0, step: int = 128) -> str:
    """for k < %r20: out[32 k + t] = value of a[32 k + t], `beside` bytes further on."""
    return f"""
    mov.u32 %r30, 0;
    $loop{number}:
    setp.ge.s32 %p3, %r30, %r20;
    @%p3 bra $done{number};
    mul.wide.s32 %rd20, %r30, {step};
    add.s64 %rd21, %rd11, %rd20;
    ld.global.f32 %f2, [%rd21];
    {value}
    add.s64 %rd22, %rd13, %rd20;
    st.global.f32 [%rd22+{beside}], %f2;
    add.s32 %r30, %r30, 1;
    bra $loop{number};
    $done{number}:
    """


def _loops(*loops: str) -> str:
    return _kernel("ld.global.u32 %r20, [%rd1];\n" + "".join(loops), "mov.u32 %r20, %r2;")


SQUARE, DOUBLE = "mul.rn.f32 %f2, %f2, %f2;", "add.rn.f32 %f2, %f2, %f2;"


def test_loops_that_write_each_others_elements_in_other_turns() -> None:
    """Which of two loops comes last decides what stays in the elements that both write."""
    one, two = _turns(1, SQUARE), _turns(2, DOUBLE, beside=128)
    assert not api.compare(_loops(one, two), _loops(two, one)).equal
    both = _turns(1, SQUARE).replace("add.s32", "st.global.f32 [%rd22+128], %f1;\nadd.s32")
    assert not walked(_loops(both)).modelled
    assert walked(_loops(one)).modelled


def test_lanes_that_meet_in_other_turns() -> None:
    """out[t + k]: lane t + 1 was there in the turn before, with a product of its own."""
    value = "mul.rn.f32 %f2, %f2, %f1;"
    assert not walked(_loops(_turns(1, value, step=4))).modelled
    assert walked(_loops(_turns(1, value))).modelled
    assert walked(_loops(_turns(1, SQUARE, step=4))).modelled  # one value for each element


def test_lanes_that_write_one_element_for_other_numbers_of_turns() -> None:
    """Lane t writes out[0] t times: what it leaves is a value of its own."""
    text = _kernel(_turns(1, SQUARE).replace("%r30, %r20", "%r30, %r2").replace(
        "add.s64 %rd22, %rd13, %rd20;", "mov.b64 %rd22, %rd3;"), source="mov.u32 %r10, 0;")
    assert not walked(text).modelled
    assert walked(text.replace("%r30, %r2;", "%r30, %r1;")).modelled


def _unsized(place: str, source: str = "mov.u32 %r10, %r2;", stores: str = STORE) -> str:
    text = _kernel(stores, place, source=source)
    return "\n".join(line for line in text.splitlines() if ".reqntid" not in line)


@pytest.mark.parametrize(("place", "source", "modelled"), [
    ("mov.u32 %r20, 0;", "mov.u32 %r10, %r2;", False),
    ("mov.u32 %r20, 0;", "mov.u32 %r10, 0;", True),  # one value
    ("shr.u32 %r20, %r2, 5;", "mov.u32 %r10, %r2;", False),
    ("mov.u32 %r20, %r2;", "mov.u32 %r10, %r2;", True),
    ("sub.s32 %r20, 99, %r2;", "mov.u32 %r10, %r2;", True),
    ("mov.u32 %r20, %r2;", "mov.u32 %r11, %tid.y;\nmad.lo.s32 %r10, %r11, 64, %r2;", False),
    ("mov.u32 %r11, %tid.y;\nmad.lo.s32 %r20, %r11, 32, %r2;", "mov.u32 %r10, %r2;", False),
])
def test_threads_of_a_block_of_any_size_that_write_one_element(
        place: str, source: str, modelled: bool) -> None:
    assert walked(_unsized(place, source)).modelled is modelled


def test_one_thread_of_a_block_of_any_size_may_write_alone() -> None:
    alone = "setp.eq.s32 %p2, %r2, 3;\n@%p2 " + STORE
    assert walked(_unsized("mov.u32 %r20, 0;", stores=alone)).modelled


def test_neighbours_of_a_block_of_any_size_that_write_one_element() -> None:
    one, two = "st.global.f32 [%rd13], %f1;", "st.global.f32 [%rd13+4], 0f00000000;"
    place = "mov.u32 %r20, %r2;"
    assert not walked(_unsized(place, stores=f"{one}\n{two}")).modelled
    assert not api.compare(_unsized(place, stores=f"{one}\n{two}"),
                           _unsized(place, stores=f"{two}\n{one}")).equal


def test_who_writes_an_element_last_in_a_block_of_any_size() -> None:
    """Threads below %p1's bound write one value, all the others another one."""
    two = "@%p1 st.global.f32 [%rd13], 0f00000000;\n@!%p1 st.global.f32 [%rd13], 0f3F800000;"
    assert not walked(_unsized("mov.u32 %r20, 0;", stores=two)).modelled
    assert walked(_unsized("mov.u32 %r20, %r2;", stores=two)).modelled


@pytest.mark.parametrize("update", ["add.u32 [%rd13], 1;", "max.u32 [%rd13], %r3;"])
def test_blocks_too_many_update_an_element_too_often(update: str) -> None:
    kernel = _kernel(f"red.global.{update}", "mov.u32 %r20, %r2;")

    def facts(grid: int) -> dict[str, object]:
        buffers = [{"buffer": name, "dtype": "u32", "elements": 64, "role": "inout"}
                   for name in ("a", "b", "out")]
        return {"grid": [grid, 1, 1], "args": [*buffers, {"i32": 7}]}

    assert "same-grid" in api.compare(kernel, kernel).premises
    assert api.compare(kernel, kernel, launch_a=facts(2), launch_b=facts(2)).equal
    assert not api.compare(kernel, kernel, launch_a=facts(1), launch_b=facts(2)).equal


# --- guards that keep writers apart -------------------------------------------------------------


def _rows(test: str, tile: str = "mad.lo.s32 %r13, %r12, 64, %r11;") -> str:
    """out[40 (2 b + t / 64) + c] = a[t], c = 64 b' + t % 64: rows of 40, two in a block."""
    return _kernel(f"@%p2 {STORE}", f"""
    and.b32 %r11, %r2, 63;
    mov.u32 %r12, %ctaid.y;
    {tile}
    {test}
    shr.u32 %r14, %r2, 6;
    mad.lo.s32 %r14, %r3, 2, %r14;
    mad.lo.s32 %r20, %r14, 40, %r13;""", 128)


@pytest.mark.parametrize(("test", "modelled"), [
    ("setp.lt.u32 %p2, %r13, 40;", True),
    ("setp.lt.u32 %p2, %r13, 39;", True),
    ("setp.lt.u32 %p2, %r13, 41;", False),  # column 40 is column 0 of the next row
    ("setp.lt.u32 %p2, %r13, %r1;", False),
    ("setp.gt.u32 %p2, %r13, 23;", False),  # so are columns 64 to 127, all of them
    ("ld.global.u32 %r15, [%rd11];\nsetp.lt.u32 %p2, %r15, 40;", False),  # each its own number
])
def test_rows_that_a_guard_ends(test: str, modelled: bool) -> None:
    assert walked(_rows(test)).modelled is modelled


@pytest.mark.parametrize(("test", "modelled"), [
    ("setp.lt.s32 %p2, %r13, 40;", False),  # columns below 0 lie in the row before
    ("setp.lt.u32 %p2, %r13, 40;", True),
])
def test_rows_that_a_guard_ends_on_one_side(test: str, modelled: bool) -> None:
    tile = "mul.lo.s32 %r13, %r12, -64;\nadd.s32 %r13, %r13, %r11;"
    assert walked(_rows(test, tile)).modelled is modelled


def _strips(test: str, step: int = 64, start: str = "mov.u32 %r30, 0;") -> str:
    """for k < 2: out[100 (2 b + t / 64) + c] = a[c] + a[t], c = 64 k + t % 64."""
    return _kernel(f"""
    and.b32 %r11, %r2, 63;
    shr.u32 %r14, %r2, 6;
    mad.lo.s32 %r14, %r3, 2, %r14;
    mul.lo.s32 %r14, %r14, 100;
    {start}
    $loop:
    mad.lo.s32 %r13, %r30, {step}, %r11;
    {test}
    add.s32 %r20, %r14, %r13;
    mul.wide.s32 %rd14, %r13, 4;
    add.s64 %rd14, %rd1, %rd14;
    mul.wide.s32 %rd12, %r20, 4;
    add.s64 %rd13, %rd3, %rd12;
    mov.f32 %f2, 0f00000000;
    @%p2 ld.global.f32 %f2, [%rd14];
    add.rn.f32 %f2, %f2, %f1;
    @%p2 st.global.f32 [%rd13], %f2;
    add.s32 %r30, %r30, 1;
    setp.lt.s32 %p3, %r30, 2;
    @%p3 bra $loop;""", threads=128)


@pytest.mark.parametrize(("test", "step", "modelled"), [
    ("setp.lt.s32 %p2, %r13, 100;", 64, True),
    ("setp.lt.s32 %p2, %r13, 101;", 64, False),
    ("setp.lt.s32 %p2, %r13, %r1;", 64, False),
    ("setp.lt.s32 %p2, %r13, 100;", 32, False),  # the next turn writes half of it again
    ("setp.lt.s32 %p2, %r11, 100;", 64, False),  # it says nothing of the turn
])
def test_turns_that_a_guard_keeps_in_their_row(test: str, step: int, modelled: bool) -> None:
    assert walked(_strips(test, step)).modelled is modelled
