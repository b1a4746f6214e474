"""Steps of sorting networks: which of two elements stays hangs on a comparison and on the lane."""

from __future__ import annotations

import pytest

from tests.walk.kernels import equal, text

DIRECTION = "and.b32 %r4, %r2, 1;\n shr.u32 %r5, %r2, 1;\n and.b32 %r5, %r5, 1;\n" \
            "xor.b32 %r4, %r4, %r5;\n"

#: %p2: the other element is taken, for %p1: the own one is larger; %r4 is 1 in some lanes
XORED = "setp.ne.u32 %p3, %r4, 0;\n xor.pred %p2, %p1, %p3;\n"
COUNTED = "selp.b32 %r6, 1, 0, %p1;\n setp.ne.u32 %p2, %r6, %r4;\n"
NEGATED = "selp.b32 %r6, 1, 0, %p1;\n setp.eq.u32 %p3, %r6, %r4;\n not.pred %p2, %p3;\n"
DOUBLED = "selp.b32 %r6, 2, 0, %p1;\n shl.b32 %r7, %r4, 1;\n setp.ne.u32 %p2, %r6, %r7;\n"


def _exchanged(decide: str, compare: str = "gt", take: str = "%f2, %f1",
               direction: str = DIRECTION, distance: int = 1) -> str:
    """out[i] = one of a[i] and a[i ^ distance], a lane for each element."""
    return text(direction + f"""
    shl.b32 %r8, %r3, 6;
    add.s32 %r8, %r8, %r2;
    mul.wide.s32 %rd10, %r8, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    shfl.sync.bfly.b32 %f2, %f1, {distance}, 31, -1;
    setp.{compare}.f32 %p1, %f1, %f2;
    {decide}
    selp.f32 %f3, {take}, %p2;
    st.global.f32 [%rd12], %f3;""")


def _in_registers(left: str = "%f2, %f1", right: str = "%f1, %f2", direction: int = 0) -> str:
    """The same with two neighbours in a lane."""
    return text(f"""
    and.b32 %r4, %r2, 1;
    setp.ne.u32 %p3, %r4, {direction};
    not.pred %p4, %p3;
    shl.b32 %r8, %r3, 5;
    add.s32 %r8, %r8, %r2;
    shl.b32 %r8, %r8, 1;
    mul.wide.s32 %rd10, %r8, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.v2.f32 {{%f1, %f2}}, [%rd11];
    setp.gt.f32 %p1, %f1, %f2;
    setp.gt.f32 %p2, %f2, %f1;
    xor.pred %p5, %p1, %p3;
    xor.pred %p6, %p4, %p2;
    selp.f32 %f3, {left}, %p5;
    selp.f32 %f4, {right}, %p6;
    st.global.v2.f32 [%rd12], {{%f3, %f4}};""", threads=32)


@pytest.mark.parametrize("other", [
    _exchanged(COUNTED), _exchanged(NEGATED), _exchanged(DOUBLED), _in_registers(),
    _exchanged(XORED, "leu", "%f1, %f2"), _exchanged(COUNTED, "leu", "%f1, %f2"),
])
def test_a_direction_is_one_however_it_is_written(other: str) -> None:
    assert equal(_exchanged(XORED), other)


@pytest.mark.parametrize("other", [
    _exchanged(COUNTED.replace("ne", "eq")),  # the other way round
    _exchanged(COUNTED, take="%f1, %f2"),
    _exchanged(COUNTED, "ge"),  # zeros of two signs
    _exchanged(COUNTED, "le", "%f1, %f2"),  # NaN
    _exchanged(DOUBLED.replace("shl.b32 %r7, %r4, 1", "mov.b32 %r7, %r4")),  # 1 is neither 2 nor 0
    _exchanged(COUNTED, direction=DIRECTION.replace("shr.u32 %r5, %r2, 1", "shr.u32 %r5, %r2, 2")),
    _exchanged(COUNTED, distance=2),
    _in_registers(direction=1),
    _in_registers(right="%f2, %f1"),
    _in_registers("%f1, %f2", "%f2, %f1"),
])
def test_another_direction_shows(other: str) -> None:
    assert not equal(_exchanged(XORED), other)
    assert not equal(_exchanged(COUNTED), other)


def test_what_equals_neither_number_is_not_chosen() -> None:
    never = DOUBLED.replace("shl.b32 %r7, %r4, 1", "add.s32 %r7, %r4, 3")
    never = never.replace("ne.u32", "eq.u32")
    assert equal(_exchanged(never), _exchanged("setp.ne.u32 %p2, %r2, %r2;"))
