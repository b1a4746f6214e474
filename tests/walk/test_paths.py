"""What paths leave behind: loops entered under two tests, waits on a path, tests of a multiple."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked


def _sum(skip: str = "", nothing: str = "0f00000000", start: str = "0f00000000") -> str:
    """out[x] = the sum of n elements for x < m; `skip`: another test around the loop."""
    return text(f"""
    ld.param.u32 %r1, [k_param_3];
    shl.b32 %r4, %r3, 6;
    add.s32 %r5, %r4, %r2;
    ld.param.u64 %rd4, [k_param_1];
    cvt.u32.u64 %r6, %rd4;
    setp.lt.s32 %p4, %r5, %r6;
    mul.wide.s32 %rd10, %r5, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f2, {nothing};
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
    {skip}
    mov.f32 %f2, {start};
$loop:
    ld.global.f32 %f1, [%rd11];
    add.rn.f32 %f2, %f2, %f1;
    add.s64 %rd11, %rd11, 256;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    @%p4 st.global.f32 [%rd12], %f2;""")


def test_a_loop_that_lanes_skip_which_store_nothing() -> None:
    assert equal(_sum(), _sum("@!%p4 bra $done;"))


@pytest.mark.parametrize("twin", [
    _sum("@%p4 bra $done;"),  # skipped by those that store
    _sum("@!%p4 bra $done;", nothing="0f3F800000"),  # n < 1 gives something else
    _sum("@!%p4 bra $done;", start="0f3F800000"),
    _sum("setp.lt.s32 %p5, %r1, 9;\n    @%p5 bra $done;"),
])
def test_a_loop_that_lanes_skip_which_store(twin: str) -> None:
    assert walked(_sum()).modelled
    assert not same(walked(_sum()), walked(twin))[0]


STEP = "fma.rn.f32 %f2, %f2, %f2, %f2;\n    "


def _after(inside: int, outside: int, nothing: str = "0f00000000", last: str = "") -> str:
    """As `_sum`, then steps on the path of the loop and behind the place where paths meet."""
    return _sum(nothing=nothing).replace("    @%p3 bra $loop;", "    @%p3 bra $loop;\n    "
                                         + STEP * inside + last).replace(
        "$done:", "$done:\n    " + STEP * outside)


def test_what_is_made_of_a_loop_before_the_paths_meet() -> None:
    """Of zeros it is zero: that is what those have that skip the loop."""
    assert equal(_after(0, 24), _after(24, 0))
    assert equal(_after(9, 15), _after(20, 4))


@pytest.mark.parametrize("twin", [
    _after(24, 0, nothing="0f3F800000"),
    _after(24, 0, nothing="0f80000000"),
    _after(24, 0, last="add.rn.f32 %f2, %f2, 0f3F800000;"),  # one more than nothing
    _after(23, 0),
])
def test_what_else_those_have_that_skip_a_loop_shows(twin: str) -> None:
    assert walked(twin).modelled
    assert not same(walked(_after(0, 24)), walked(twin))[0]


def _neighbour(pick: str) -> str:
    """out[x] = the neighbour's sum of n - t elements (or t - n), or nothing where `pick` says."""
    return _sum().replace("setp.lt.s32 %p2, %r1, 1;", """sub.s32 %r1, %r1, %r2;
    setp.lt.s32 %p2, %r1, 1;""").replace("$done:", f"""$done:
    shfl.sync.bfly.b32 %f3, %f2, 1, 31, -1;
    mov.f32 %f2, %f3;
    {pick}""")


def test_another_lanes_loop_may_run_where_ones_own_does_not() -> None:
    own = walked(_neighbour("selp.f32 %f2, 0f00000000, %f3, %p2;"))
    assert own.modelled
    assert not same(walked(_neighbour("")), own)[0]


def _copied(first: str, second: str, enter: int = 4) -> str:
    """out[t] = a[t] by an asynchronous copy, where n > enter; waits on paths n > 8 and n > enter.
    """
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    shl.b32 %r10, %r2, 2;
    mov.u32 %r11, tile;
    add.s32 %r11, %r11, %r10;
    cp.async.ca.shared.global [%r11], [%rd11], 4;
    cp.async.commit_group;
    setp.le.s32 %p1, %r1, 8;
    @%p1 bra $skip;
    {first}
$skip:
    setp.le.s32 %p2, %r1, {enter};
    @%p2 bra $done;
    {second}
    bar.sync 0;
    ld.shared.f32 %f1, [%r11];
    st.global.f32 [%rd12], %f1;
$done:""")


WAIT = "cp.async.wait_group 0;"


def test_a_wait_on_the_path_of_the_read() -> None:
    assert equal(_copied("", WAIT), _copied(WAIT, WAIT))
    assert walked(_copied(WAIT, "", enter=8)).modelled
    assert walked(_copied(WAIT, "", enter=12)).modelled


@pytest.mark.parametrize("twin", [
    _copied(WAIT, ""),  # 4 < n <= 8 reads what nobody waited for
    _copied("", ""),
    _copied(WAIT, "cp.async.wait_group 1;"),  # one may be under way still
    _copied(WAIT, "cp.async.wait_group 1;", enter=-100),
])
def test_a_wait_on_another_path(twin: str) -> None:
    assert not walked(twin).modelled
    assert any(f.code == "race" for f in walked(twin).findings)


def _rows(shift: str, times: int = 4) -> str:
    """out[x] = a[x] for x < times * n, where `shift` says which element is tested."""
    return text(f"""
    shl.b32 %r4, %r3, 6;
    add.s32 %r5, %r4, %r2;
    mul.lo.s32 %r6, %r1, {times};
    {shift}
    setp.lt.s32 %p1, %r7, %r6;
    mul.wide.s32 %rd10, %r5, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    @%p1 ld.global.f32 %f1, [%rd11];
    @%p1 st.global.f32 [%rd12], %f1;""")


OWN = "mov.u32 %r7, %r5;"


def test_a_test_for_four_elements_of_a_multiple_of_four() -> None:
    shared = "and.b32 %r8, %r2, -4;\n    add.s32 %r7, %r4, %r8;"
    assert equal(_rows(OWN), _rows(shared))
    assert not [p for p in walked(_rows(shared)).premises if p.startswith("divisible")]
    assert not equal(_rows(OWN, 6), _rows(shared, 6))
    assert not equal(_rows(OWN), _rows(shared.replace("-4", "-8")))
    assert equal(_rows(OWN, 24), _rows(shared.replace("-4", "-8"), 24))


def _quarter(sign: str) -> str:
    """out[x] = a[x / 4], rounded towards zero by the sign of x = 64 * block + thread."""
    return text(f"""
    shl.b32 %r4, %r3, 6;
    add.s32 %r5, %r4, %r2;
    {sign}
    shr.u32 %r7, %r6, 30;
    add.s32 %r8, %r5, %r7;
    shr.s32 %r9, %r8, 2;
    mul.wide.s32 %rd10, %r9, 4;
    add.s64 %rd11, %rd1, %rd10;
    mul.wide.s32 %rd10, %r5, 4;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    st.global.f32 [%rd12], %f1;""")


def test_a_block_index_times_its_tile_has_no_sign() -> None:
    plain = _quarter("mov.u32 %r6, 0;")
    assert equal(plain, _quarter("shr.s32 %r6, %r5, 31;"))
    assert equal(plain, _quarter("bfe.s32 %r6, %r3, 25, 1;"))
    assert not equal(plain, _quarter("bfe.s32 %r6, %r3, 1, 1;"))
    assert "no-index-wrap" in walked(_quarter("shr.s32 %r6, %r5, 31;")).premises


def _pair_behind_a_branch(join: str, part: str, skip: str) -> str:
    """out[2 i], out[2 i + 1] = a[i] * b[i], a[i] + b[i] where n > 5, 0 and 0 elsewhere."""
    return text(f"""
    mad.lo.s32 %r10, %r3, 64, %r2;
    mul.wide.s32 %rd10, %r10, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd2, %rd10;
    mul.wide.s32 %rd13, %r10, 8;
    add.s64 %rd14, %rd3, %rd13;
    setp.gt.s32 %p1, %r1, 5;
    @!%p1 bra $L_skip;
    ld.global.f32 %f1, [%rd11];
    ld.global.f32 %f2, [%rd12];
    mul.rn.f32 %f3, %f1, %f2;
    add.rn.f32 %f4, %f1, %f2;
    mov.b32 %r11, %f3;
    mov.b32 %r12, %f4;
    {join}
    bra.uni $L_done;
$L_skip:
    {skip}
$L_done:
    {part}
    st.global.b32 [%rd14], %r13;
    st.global.b32 [%rd14+4], %r14;""")


IN_TWO = ("mov.b32 %r13, %r11;\n    mov.b32 %r14, %r12;", "",
          "mov.b32 %r13, 0;\n    mov.b32 %r14, 0;")
IN_ONE = ("cvt.u64.u32 %rd15, %r11;\n    cvt.u64.u32 %rd16, %r12;\n    shl.b64 %rd16, %rd16, 32;\n"
          "    or.b64 %rd17, %rd15, %rd16;", "mov.b64 {%r13, %r14}, %rd17;", "mov.b64 %rd17, 0;")


def test_a_word_of_two_floats_is_two_floats_behind_a_branch() -> None:
    assert equal(_pair_behind_a_branch(*IN_TWO), _pair_behind_a_branch(*IN_ONE))
    for old, new in (("{%r13, %r14}", "{%r14, %r13}"), ("%rd17, 0;", "%rd17, 4294967296;"),
                     ("%rd16, 32;", "%rd16, 31;"), ("%rd16, %r12", "%rd16, %r11")):
        wrong = tuple(p.replace(old, new) for p in IN_ONE)
        assert wrong != IN_ONE
        assert not same(walked(_pair_behind_a_branch(*IN_TWO)),
                        walked(_pair_behind_a_branch(*wrong)))[0]
