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
