"""What holds in every iteration of a loop decides selects inside it, lane by lane."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked


def _column(body: str, test: str = "setp.lt.s32 %p5, %r13, %r1;", entry: bool = True) -> str:
    """out[t / 4] = the sum of column t / 4 of a, four rows an iteration."""
    skip = "setp.lt.s32 %p2, %r1, 1;\n    @%p2 bra $done;" if entry else ""
    return text(f"""
    shr.u32 %r10, %r2, 2;
    and.b32 %r11, %r2, 3;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r13, 0;
    {skip}
$loop:
{body}
    add.s32 %r13, %r13, 4;
    {test}
    @%p5 bra $loop;
$done:
    setp.eq.s32 %p6, %r11, 0;
    mul.wide.u32 %rd10, %r10, 4;
    add.s64 %rd11, %rd3, %rd10;
    @%p6 st.global.f32 [%rd11], %f2;""", threads=32)


def _load(row: str, to: str, late: int = 0) -> str:
    return f"""
    add.s32 %r20, %r13, {row};
    mad.lo.s32 %r21, %r20, %r1, %r10;
    mul.wide.s32 %rd13, %r21, 4;
    add.s64 %rd14, %rd1, %rd13;
    add.s32 %r22, %r20, {late};
    setp.lt.s32 %p3, %r22, %r1;
    mov.f32 {to}, 0f00000000;
    @%p3 ld.global.f32 {to}, [%rd14];"""


def _own(late: int = 0, **knobs: object) -> str:
    """Each thread loads the four rows."""
    lines = [_load(str(j), "%f1", late) + "\n    add.rn.f32 %f2, %f2, %f1;" for j in range(4)]
    return _column("".join(lines), **knobs)  # type: ignore[arg-type]


def _passed(late: int = 0, **knobs: object) -> str:
    """Each thread loads one row, and four exchange theirs."""
    lines = [f"""
    and.b32 %r30, %r2, 28;
    add.s32 %r31, %r30, {j};
    shfl.sync.idx.b32 %f3, %f1, %r31, 31, -1;
    add.rn.f32 %f2, %f2, %f3;""" for j in range(4)]
    return _column(_load("%r11", "%f1", late) + "".join(lines), **knobs)  # type: ignore[arg-type]


def test_a_test_that_the_loop_makes_is_none() -> None:
    assert equal(_own(), _passed())


@pytest.mark.parametrize("late", [1, 2, 5])
def test_a_test_of_another_row_stays(late: int) -> None:
    """Row 0 under `k + 1 < n` is a test."""
    assert equal(_own(late), _passed(late))
    assert not equal(_own(), _passed(late))
    assert not equal(_own(late), _passed())


def test_a_first_iteration_that_nothing_lets_run_is_tested() -> None:
    """Without a test before the loop, its first iteration runs for n < 1, too."""
    first = _own(entry=False)
    untested = first.replace("@%p3 ld", "ld", 1)
    assert walked(first).modelled
    assert walked(untested).modelled
    assert not same(walked(first), walked(untested))[0]


def test_a_loop_that_goes_on_longer_decides_less() -> None:
    longer = "add.s32 %r23, %r13, -4;\n    setp.lt.s32 %p5, %r23, %r1;"
    one, two = walked(_own(test=longer)), walked(_passed(test=longer))
    assert one.modelled
    assert two.modelled
    assert same(one, two)[0]
    untested = _own(test=longer).replace("@%p3 ld", "ld", 1)
    assert not same(one, walked(untested))[0]
