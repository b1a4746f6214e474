"""Running values of a loop: how many registers hold them, and which of them a result needs."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked


def _online(largest: str = "0fFF800000", copy: str = "0fFF800000", twin: bool = False,
            update: str = "max.f32 %f7, %f7, %f1;") -> str:
    """A running maximum and a running sum that is scaled by it; `twin`: two registers hold it."""
    used = "%f7" if twin else "%f3"
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f3, {largest};
    mov.f32 %f7, {copy};
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    ld.global.f32 %f1, [%rd11];
    sub.rn.f32 %f4, {used}, %f1;
    mul.rn.f32 %f5, %f4, %f4;
    max.f32 %f3, %f3, %f1;
    {update if twin else ""}
    fma.rn.f32 %f2, %f2, %f5, %f3;
    add.s64 %rd11, %rd11, 128;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    st.global.f32 [%rd12], %f2;""")


def test_two_registers_that_always_agree_are_one() -> None:
    assert equal(_online(), _online(twin=True))


@pytest.mark.parametrize("twin", [
    _online(twin=True, copy="0f00000000"),  # starts elsewhere
    _online(twin=True, update="min.f32 %f7, %f7, %f1;"),
    _online(twin=True, update="max.f32 %f7, %f3, %f2;"),
    _online(largest="0f00000000"),
])
def test_two_registers_that_may_differ_are_two(twin: str) -> None:
    assert walked(twin).modelled
    assert not same(walked(_online()), walked(twin))[0]


def _rows(rows: int, first: str = "0", swap: bool = False) -> str:
    """Maxima of rows by 32 threads; thread t sums |row t % rows| - its maximum, one row or two."""
    pick = "@%p5 mov.f32 %f8, %f4;" if not swap else "@!%p5 mov.f32 %f8, %f4;"
    second = "ld.global.f32 %f2, [%rd11+4096];\n    max.f32 %f4, %f4, %f2;" if rows == 2 else ""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd12, %rd3, %rd10;
    and.b32 %r12, %r2, 1;
    setp.eq.u32 %p5, %r12, 1;
    mov.u64 %rd11, %rd1;
    mov.f32 %f3, 0fFF800000;
    mov.f32 %f4, {"0fFF800000" if first == "0" else first};
    mov.f32 %f5, 0f00000000;
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    ld.global.f32 %f1, [%rd11];
    max.f32 %f3, %f3, %f1;
    {second}
    mov.f32 %f8, %f3;
    {pick if rows == 2 else ""}
    add.rn.f32 %f5, %f5, %f8;
    add.s64 %rd11, %rd11, 4;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    @!%p5 st.global.f32 [%rd12], %f5;""")


def test_a_lane_depends_on_the_row_that_it_picks() -> None:
    assert equal(_rows(1), _rows(2))
    assert equal(_rows(2), _rows(2, first="0f3F800000"))  # no lane that stores looks at it


def test_a_lane_that_picks_another_row_differs() -> None:
    assert walked(_rows(2, swap=True)).modelled
    assert not same(walked(_rows(2)), walked(_rows(2, swap=True)))[0]
    assert not same(walked(_rows(1)), walked(_rows(2, swap=True)))[0]
    assert not same(walked(_rows(2, swap=True)),
                    walked(_rows(2, swap=True, first="0f3F800000")))[0]


def _shuffled(step: str = "bfly.b32 %f6, %f2, 1", add: str = "%f1") -> str:
    """Each round adds what the neighbouring lane held: lanes look at each other."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    ld.global.f32 %f1, [%rd11];
    shfl.sync.{step}, 31, -1;
    add.rn.f32 %f2, %f6, {add};
    add.s64 %rd11, %rd11, 128;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    st.global.f32 [%rd12], %f2;""")


@pytest.mark.parametrize("twin", [
    _shuffled("bfly.b32 %f6, %f2, 2"),
    _shuffled("bfly.b32 %f6, %f2, 0"),
    _shuffled("down.b32 %f6, %f2, 1"),
    _shuffled(add="%f2"),
])
def test_exchange_in_a_loop_is_kept(twin: str) -> None:
    assert walked(_shuffled()).modelled
    assert walked(twin).modelled
    assert not same(walked(_shuffled()), walked(twin))[0]
