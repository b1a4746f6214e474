"""Loops that fetch ahead are the loops they were made from; what they fetch stays in the tree."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked

_END = """
    mul.lo.s32 %r20, %r3, 64;
    add.s32 %r21, %r20, 64;
    min.s32 %r22, %r1, %r21;"""


def _kernel(body: str, entry: str = "setp.lt.s32 %p2, %r22, 1;\n    @%p2 bra $done;") -> str:
    """out[block, tid] = sum over k < min(n, 64 (block + 1)), k in steps of 32, of a[k + tid]."""
    return text(f"""{_END}
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    mov.f32 %f2, 0f00000000;
    {entry}
{body}
$done:
    mul.wide.u32 %rd14, %r3, 128;
    add.s64 %rd15, %rd3, %rd14;
    add.s64 %rd16, %rd15, %rd10;
    st.global.f32 [%rd16], %f2;""", 32)


def _plain(test: str = "setp.lt.s32 %p3, %r11, %r22;") -> str:
    return f"""
    mov.u32 %r11, 0;
    mov.u64 %rd20, 0;
    cvt.u64.u32 %rd21, %r22;
$loop:
    ld.global.f32 %f1, [%rd11];
    add.f32 %f2, %f2, %f1;
    add.s32 %r11, %r11, 32;
    add.s64 %rd20, %rd20, 32;
    add.s64 %rd11, %rd11, 128;
    {test}
    @%p3 bra $loop;"""


_WIDE = "setp.lt.u64 %p3, %rd20, %rd21;"


def _ahead(distance: int = 32, other: str = "0f00000000", step: int = 128) -> str:
    """The element of the next iteration is fetched in this one, where there is a next one."""
    return f"""
    setp.gt.s32 %p4, %r22, 0;
    mov.f32 %f1, {other};
    @%p4 ld.global.f32 %f1, [%rd11];
    mov.u32 %r11, 0;
$loop:
    add.f32 %f2, %f2, %f1;
    sub.s32 %r23, %r22, {distance};
    setp.lt.s32 %p5, %r11, %r23;
    add.s64 %rd11, %rd11, {step};
    mov.f32 %f1, 0f00000000;
    @%p5 ld.global.f32 %f1, [%rd11];
    add.s32 %r11, %r11, 32;
    setp.lt.s32 %p3, %r11, %r22;
    @%p3 bra $loop;"""


def test_a_bound_known_to_be_positive_has_no_sign() -> None:
    """hi > 0 on this path: the widened unsigned test is the signed one, elsewhere it is not."""
    assert walked(_kernel(_plain())).modelled
    assert equal(_kernel(_plain()), _kernel(_plain(_WIDE)))
    assert not equal(_kernel(_plain(), ""), _kernel(_plain(_WIDE), ""))
    assert not equal(_kernel(_plain(_WIDE)), _kernel(_plain(_WIDE.replace("lt", "le"))))


def test_fetching_ahead_is_the_same_loop() -> None:
    assert equal(_kernel(_plain()), _kernel(_ahead()))
    # what the prologue would put instead of the first element is never looked at
    assert equal(_kernel(_ahead()), _kernel(_ahead(other="0f3F800000")))


@pytest.mark.parametrize("twin", [_ahead(distance=64), _ahead(step=256)])
def test_fetching_something_else_is_another_loop(twin: str) -> None:
    """A guard that misses the last element; an address two steps on."""
    assert not same(walked(_kernel(_ahead())), walked(_kernel(twin)))[0]


def _stepping(factor: int) -> str:
    """The address grows by an argument times a literal, as in a row-major matrix of n columns."""
    return f"""
    mov.u32 %r11, 0;
    mul.lo.s32 %r24, %r1, {factor};
    mul.wide.s32 %rd22, %r24, 4;
$loop:
    ld.global.f32 %f1, [%rd11];
    add.f32 %f2, %f2, %f1;
    add.s32 %r11, %r11, 32;
    add.s64 %rd11, %rd11, %rd22;
    setp.lt.s32 %p3, %r11, %r22;
    @%p3 bra $loop;"""


def test_strides_that_are_arguments() -> None:
    assert walked(_kernel(_stepping(32))).modelled
    assert equal(_kernel(_stepping(32)), _kernel(_stepping(32).replace("add.f32 %f2, %f2, %f1",
                                                                       "add.f32 %f2, %f1, %f2")))
    assert not equal(_kernel(_stepping(32)), _kernel(_stepping(64)))


def _ring(stages: int, back: int = 0) -> str:
    """Each element goes through a ring of shared cells, `stages` long."""
    return f"""
    mov.u32 %r11, 0;
    mov.u32 %r25, 0;
    mov.u32 %r30, tile;
    shl.b32 %r31, %r2, 2;
    add.s32 %r30, %r30, %r31;
$loop:
    ld.global.f32 %f1, [%rd11];
    shl.b32 %r26, %r25, 7;
    add.s32 %r27, %r30, %r26;
    st.shared.f32 [%r27], %f1;
    add.s32 %r28, %r25, {back};
    rem.u32 %r28, %r28, {stages};
    shl.b32 %r28, %r28, 7;
    add.s32 %r29, %r30, %r28;
    ld.shared.f32 %f3, [%r29];
    add.f32 %f2, %f2, %f3;
    add.s32 %r25, %r25, 1;
    setp.eq.s32 %p6, %r25, {stages};
    selp.b32 %r25, 0, %r25, %p6;
    add.s32 %r11, %r11, 32;
    add.s64 %rd11, %rd11, 128;
    setp.lt.s32 %p3, %r11, %r22;
    @%p3 bra $loop;"""


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_rings_leave_no_trace(stages: int) -> None:
    assert equal(_kernel(_plain()), _kernel(_ring(stages)))


def test_an_older_cell_of_a_ring_is_another_value() -> None:
    assert not same(walked(_kernel(_plain())), walked(_kernel(_ring(3, back=2))))[0]


def _counted(test: str, step: int = 1) -> str:
    return f"""
    mov.u32 %r11, 0;
    cvt.s64.s32 %rd21, %r22;
    mov.u64 %rd20, 0;
$loop:
    ld.global.f32 %f1, [%rd11];
    add.f32 %f2, %f2, %f1;
    add.s32 %r11, %r11, {step};
    add.s64 %rd20, %rd20, {step};
    add.s64 %rd11, %rd11, 128;
    {test}
    @%p3 bra $loop;"""


_NE = "setp.ne.s64 %p3, %rd20, %rd21;"
_LT = "setp.lt.s64 %p3, %rd20, %rd21;"


def test_a_counter_that_must_meet_its_end_is_below_it() -> None:
    """Only where it starts below it and goes in steps of one."""
    assert equal(_kernel(_counted(_NE)), _kernel(_counted(_LT)))
    assert not equal(_kernel(_counted(_NE), ""), _kernel(_counted(_LT), ""))
    narrow = "setp.ne.s32 %p3, %r11, %r22;"
    assert equal(_kernel(_counted(narrow)), _kernel(_counted(_LT)))
    assert not equal(_kernel(_counted(narrow), ""), _kernel(_counted(_LT), ""))
    assert not equal(_kernel(_counted(_NE, 2)), _kernel(_counted(_LT, 2)))
