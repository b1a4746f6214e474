"""Several lanes at one shared byte: each of them counts where it is written next."""

from __future__ import annotations

import pytest

from tests.walk.kernels import text, walked

_START = """
    mul.wide.u32 %rd4, %r2, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    mov.u32 %r5, tile;"""

#: lane 0 writes, all read, then one of them writes again; {sync} in between
READ = _START + """
    setp.eq.s32 %p1, %r2, 0;
    @%p1 st.shared.f32 [%r5], %f1;
    bar.sync 0;
    ld.shared.f32 %f2, [%r5];
    {sync}
    setp.eq.s32 %p2, %r2, {lane};
    @%p2 st.shared.f32 [%r5], %f1;
    st.global.f32 [%rd6], %f2;"""

#: all write one value, then one of them another; all read it
WRITTEN = _START + """
    ld.global.f32 %f3, [%rd1];
    st.shared.f32 [%r5], %f3;
    {sync}
    setp.eq.s32 %p2, %r2, {lane};
    @%p2 st.shared.f32 [%r5], %f1;
    bar.sync 0;
    ld.shared.f32 %f2, [%r5];
    st.global.f32 [%rd6], %f2;"""


@pytest.mark.parametrize("body", [READ, WRITTEN])
@pytest.mark.parametrize("lane", [0, 31, 32, 63])
def test_who_writes_next_waits_for_every_lane(body: str, lane: int) -> None:
    def codes(sync: str, threads: int = 64) -> set[str]:
        return {f.code for f in walked(text(body.format(sync=sync, lane=lane), threads)).findings}
    assert codes("") == {"race"}
    assert codes("bar.warp.sync 0xffffffff;") == {"race"}  # those of the other warp are not there
    assert not codes("bar.sync 0;")
    if lane < 32:
        assert codes("", 32) == {"race"}
        assert not codes("bar.warp.sync 0xffffffff;", 32)


def test_reads_of_a_warp_and_of_another_lane_add_up() -> None:
    """Lanes 0 to 31 read, behind their barrier lane 63 does: lane 5 waits for both."""
    body = _START + """
    setp.lt.s32 %p1, %r2, 32;
    setp.eq.s32 %p2, %r2, 63;
    setp.eq.s32 %p3, %r2, 5;
    @%p2 st.shared.f32 [%r5], %f1;
    bar.sync 0;
    mov.f32 %f2, 0f00000000;
    @%p1 ld.shared.f32 %f2, [%r5];
    bar.warp.sync 0xffffffff;
    {late}
    @%p3 st.shared.f32 [%r5], %f1;
    st.global.f32 [%rd6], %f2;"""
    assert not walked(text(body.format(late=""))).findings
    late = walked(text(body.format(late="@%p2 ld.shared.f32 %f2, [%r5];")))
    assert {f.code for f in late.findings} == {"race"}
