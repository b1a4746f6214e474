"""What lanes pick: of writes to one shared address the one that stays, of long indices one."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked


def _kernel(op: str = "sub.rn.f32 %f4, %f1, %f3;", lanes: str = "setp.lt.u32 %p1, %r2, 2;",
            distance: int = 1, threads: int = 64) -> str:
    """out[block, tid] = what two lanes, each with its own order of a difference, leave behind."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    mul.wide.u32 %rd13, %r3, {4 * threads};
    add.s64 %rd13, %rd13, %rd10;
    add.s64 %rd11, %rd1, %rd13;
    ld.global.f32 %f1, [%rd11];
    shfl.sync.bfly.b32 %f3, %f1, {distance}, 31, -1;
    {op}
    {lanes}
    mov.u32 %r20, tile;
    @%p1 st.shared.f32 [%r20], %f4;
    bar.sync 0;
    ld.shared.f32 %f5, [%r20];
    add.s64 %rd12, %rd3, %rd13;
    st.global.f32 [%rd12], %f5;""", threads)


def test_a_pick_is_one_function() -> None:
    assert "lane-pick" in walked(_kernel()).premises
    assert equal(_kernel(), _kernel("neg.f32 %f6, %f3;\n    add.rn.f32 %f4, %f6, %f1;"))


@pytest.mark.parametrize("twin", [
    _kernel("sub.rn.f32 %f4, %f3, %f1;"),  # each lane the other's value
    _kernel(lanes="and.b32 %r21, %r2, 62;\n    setp.eq.u32 %p1, %r21, 2;"),  # other lanes
    _kernel(lanes="setp.lt.u32 %p1, %r2, 1;"),  # one lane alone
    _kernel(distance=2),
])
def test_another_pick_is_another_function(twin: str) -> None:
    assert walked(twin).modelled
    assert not same(walked(_kernel()), walked(twin))[0]


def _wide(store: str) -> str:
    """What lanes leave behind of two differences, each lane's in an order of its own."""
    return _kernel().replace("@%p1 st.shared.f32 [%r20], %f4;", f"""
    shfl.sync.bfly.b32 %f7, %f1, 2, 31, -1;
    sub.rn.f32 %f8, %f1, %f7;
    {store}""")


def test_what_stays_of_a_part_of_a_wide_store_is_a_function_of_its_own() -> None:
    """Found on an H200: Welford's merges, stored by four words at once and one by one."""
    kernels = [walked(_wide(store)) for store in (
        "@%p1 st.shared.f32 [%r20], %f4;\n    @%p1 st.shared.f32 [%r20+4], %f8;",
        "@%p1 st.shared.v2.f32 [%r20], {%f4, %f8};",
        "@%p1 st.shared.v4.f32 [%r20], {%f4, %f8, %f4, %f8};")]
    assert all(k.modelled for k in kernels)
    assert len({k.digest for k in kernels}) == 3


def test_lanes_of_two_warps_race() -> None:
    across = _kernel(lanes="and.b32 %r21, %r2, 31;\n    setp.eq.u32 %p1, %r21, 0;")
    assert not walked(across).modelled


def test_the_same_value_from_many_lanes_is_no_pick() -> None:
    twin = _kernel("add.rn.f32 %f4, %f1, %f3;")
    assert walked(twin).modelled
    assert "lane-pick" not in walked(twin).premises


def test_a_second_store_needs_a_barrier() -> None:
    """Lanes that agree among themselves still race with what others wrote before."""
    both = _kernel("add.rn.f32 %f4, %f1, %f3;").replace(
        "    bar.sync 0;", "    setp.ge.u32 %p2, %r2, 62;\n    @%p2 st.shared.f32 [%r20], %f4;\n"
        "    bar.sync 0;")
    assert not walked(both).modelled
    ordered = both.replace("    setp.ge", "    bar.sync 0;\n    setp.ge")
    assert walked(ordered).modelled


def _largest(lanes: str = "setp.lt.u32 %p2, %r2, 32;", swap: bool = False, test: str = "ge",
             first: int = 0) -> str:
    """out[block, tid] = where the largest of 16 stands, in one of three places by lane.

    The index is a sum of products of choices; of three such sums, the lanes take one or another.
    """
    body = "mad.lo.s32 %r4, %r3, 4096, %r2;\n    mul.wide.s32 %rd10, %r4, 4;\n" \
           "    add.s64 %rd11, %rd1, %rd10;\n"
    for side in range(3):
        for j in range(16):
            at = 64 * (16 * side + j)
            body += f"    ld.global.f32 %f{j}, [%rd11+{4 * at}];\n    add.s32 %r{10 + j}, %r2, " \
                    f"{at + first};\n"
        for step in (8, 4, 2, 1):
            for j in range(step):
                body += f"    setp.{test}.f32 %p1, %f{j}, %f{j + step};\n" \
                        f"    selp.f32 %f{j}, %f{j}, %f{j + step}, %p1;\n" \
                        f"    selp.b32 %r{10 + j}, %r{10 + j}, %r{10 + j + step}, %p1;\n"
        body += f"    mov.u32 %r{30 + side}, %r10;\n"
    one, other = ("%r31", "%r30") if swap else ("%r30", "%r31")
    return text(body + f"""    {lanes}
    mov.u32 %r20, {one};
    @%p2 mov.u32 %r20, {other};
    setp.lt.u32 %p3, %r2, 16;
    @%p3 mov.u32 %r20, %r32;
    mad.lo.s32 %r21, %r3, 64, %r2;
    mul.wide.s32 %rd12, %r21, 4;
    add.s64 %rd13, %rd3, %rd12;
    st.global.u32 [%rd13], %r20;""")


def test_lanes_that_take_one_of_three_long_indices() -> None:
    assert equal(_largest(), _largest("setp.ge.u32 %p2, %r2, 32;", swap=True))


@pytest.mark.parametrize("twin", [
    _largest("setp.lt.u32 %p2, %r2, 31;"),
    _largest("setp.ge.u32 %p2, %r2, 32;"),
    _largest(swap=True),
    _largest(test="gt"),
    _largest(first=1),
])
def test_lanes_that_take_another_of_three_long_indices(twin: str) -> None:
    assert walked(_largest()).modelled
    assert not same(walked(_largest()), walked(twin))[0]
