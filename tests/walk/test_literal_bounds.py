"""Bounds that are numbers of the text: tiles drop out, the bound does not."""

from __future__ import annotations

import pytest

from tests.walk.kernels import equal, text


def _copied(tile: int, bound: int = 100, each: int = 1, compare: str = "lt") -> str:
    """out[y] = a[y] for y < bound, in tiles; a lane has `each` neighbours."""
    body = f"""
    mul.lo.s32 %r4, %r3, {tile};
    mul.lo.s32 %r5, %r2, {each};
    add.s32 %r8, %r5, %r4;
    mul.wide.s32 %rd11, %r8, 4;
    add.s64 %rd10, %rd1, %rd11;
    add.s64 %rd12, %rd3, %rd11;"""
    for i in range(each):
        body += f"""
    add.s32 %r9, %r8, {i};
    setp.{compare}.s32 %p1, %r9, {bound};
    mov.f32 %f1, 0f00000000;
    @%p1 ld.global.f32 %f1, [%rd10+{4 * i}];
    @%p1 st.global.f32 [%rd12+{4 * i}], %f1;"""
    return text(body, threads=tile // each)


@pytest.mark.parametrize("other", [
    _copied(64), _copied(128), _copied(16), _copied(64, each=2), _copied(32, each=4),
    _copied(32, 99, compare="le"), _copied(64, 99, each=2, compare="le"),
])
def test_tiles_drop_out(other: str) -> None:
    assert equal(_copied(32), other)


@pytest.mark.parametrize("other", [
    _copied(32, 101), _copied(64, 101), _copied(64, 99), _copied(32, 128), _copied(32, 96),
    _copied(64, compare="le"), _copied(32, each=4, compare="ne"), _copied(64, compare="ge"),
])
def test_bounds_do_not(other: str) -> None:
    assert not equal(_copied(32), other)
