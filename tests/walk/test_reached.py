"""How often a loop comes to a store: before its test once more than behind it."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked

STORE = """
    mad.wide.s32 %rd13, %r10, 256, %rd12;
    st.global.f32 [%rd13], %f1;"""
STEP = "\n    add.s32 %r10, %r10, 1;"


def _loop(body: str, enter: str = "", after: str = "") -> str:
    """out[k * 64 + t] = a[t] for those k that a body comes to the store with; %p2 tells to stay."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    mov.u32 %r10, 0;
    {enter}
$loop:
    {body}
$done:
    {after}
$end:""")


def _last(bound: str) -> str:
    """A body that tests after its step."""
    return f"{STORE}{STEP}\n    {bound}\n    @%p2 bra $loop;"


N = "setp.lt.s32 %p2, %r10, %r1;"
ONE_LESS = "add.s32 %r11, %r10, 1;\n    setp.lt.s32 %p2, %r11, %r1;"
TWO = "setp.lt.s32 %p3, %r1, 2;\n    @%p3 bra $end;"
LIVE = "add.s32 %r12, %r10, 1;"  # the counter is read behind the loop
FIRST = f"{N}\n    @!%p2 bra $done;{STORE}{STEP}\n    bra $loop;"
MIDDLE = f"{STORE}\n    {N}\n    @!%p2 bra $done;{STEP}\n    bra $loop;"


def test_what_is_read_behind_a_loop_does_not_move_its_test() -> None:
    assert equal(_loop(_last(N), TWO), _loop(_last(N), TWO, LIVE))
    assert equal(_loop(_last(N)), _loop(_last(N), after=LIVE))
    assert equal(_loop(FIRST), _loop(FIRST, after=LIVE))


@pytest.mark.parametrize(("one", "other"), [
    (_loop(_last(N), TWO, LIVE), _loop(_last(ONE_LESS), TWO)),  # n rows, n - 1 rows
    (_loop(_last(N), TWO, LIVE), _loop(_last(ONE_LESS), TWO, LIVE)),
    (_loop(MIDDLE), _loop(FIRST)),  # n + 1 rows, n rows
    (_loop(MIDDLE, after=LIVE), _loop(FIRST, after=LIVE)),
    (_loop(_last(N)), _loop(FIRST)),  # at least one row
])
def test_a_row_more_shows(one: str, other: str) -> None:
    assert walked(one).modelled
    assert walked(other).modelled
    assert not same(walked(one), walked(other))[0]


def _ending(body: str) -> str:
    """out[t] = a sum that is stored behind the loop."""
    return text(f"""
    mul.wide.s32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    setp.lt.u32 %p4, %r2, 4;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r5, 0;
    $loop:
    setp.lt.s32 %p1, %r5, %r1;
    setp.ge.s32 %p2, %r5, 5;
    and.pred %p3, %p2, %p4;
    {body}
    add.rn.f32 %f2, %f2, %f1;
    add.s32 %r5, %r5, 1;
    bra $loop;
    $done:
    st.global.f32 [%rd12], %f2;""")


def test_threads_that_end_in_a_loop_do_not_store_behind_it() -> None:
    left = _ending("not.pred %p5, %p3;\nand.pred %p6, %p1, %p5;\n@!%p6 bra $done;")
    ended = _ending("@!%p1 bra $done;\n@%p3 ret;")
    assert walked(left).modelled
    assert not same(walked(ended), walked(left))[0]


_MEETINGS = {
    "exchange": "shfl.sync.bfly.b32 %f3, %f1, 1, 31, -1;",
    "vote": "setp.lt.f32 %p3, %f1, 0f00000000;\nvote.sync.any.pred %p4, %p3, -1;\n"
            "selp.f32 %f3, %f1, 0f3F800000, %p4;",
    "barrier": "bar.sync 0;\nld.shared.f32 %f3, [%r14];",
}


@pytest.mark.parametrize("name", _MEETINGS)
def test_lanes_that_leave_a_loop_at_different_times_do_not_meet_in_it(name: str) -> None:
    """Lane t takes n + t turns: those that have left do not come to the last ones' exchange."""
    def summed(bound: str, before: str, inside: str) -> str:
        return text(f"""
    mul.wide.s32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    mov.u32 %r12, tile;
    shl.b32 %r13, %r2, 2;
    add.s32 %r13, %r12, %r13;
    xor.b32 %r14, %r13, 4;
    st.shared.f32 [%r13], %f1;
    add.s32 %r6, %r1, %r2;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r5, 0;
    {before}
    $loop:
    {inside}
    add.rn.f32 %f2, %f2, %f3;
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p1, %r5, {bound};
    @%p1 bra $loop;
    st.global.f32 [%rd12], %f2;""", 32)

    meeting = _MEETINGS[name]
    assert equal(summed("%r1", "", meeting), summed("%r1", meeting, ""))
    assert walked(summed("%r6", meeting, "")).modelled
    assert not walked(summed("%r6", "", meeting)).modelled
