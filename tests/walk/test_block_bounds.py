"""Bounds that hang on the block alone, told of its elements: rows up to a block's last one."""

from __future__ import annotations

import pytest

from tests.walk.kernels import equal, text


def _summed(tile: int, step: int = 64, more: int = 0, bound: str = "min.s32 %r5, %r1, %r5;",
            compare: str = "lt", each: int = 1) -> str:
    """out[y] = the sum of a[k] for k = 0, 1, ... as long as step * k < min(n, tile * (block + 1)).

    With each = 2 a lane has two neighbours.
    """
    last = f"add.s32 %r5, %r5, {tile // each * each + more};"
    return text(f"""
    mul.lo.s32 %r4, %r3, {tile};
    mov.b32 %r5, %r4;
    {last}
    {bound}
    mov.f32 %f1, 0f00000000;
    mov.b64 %rd10, %rd1;
    mov.b32 %r6, 0;
    setp.lt.s32 %p1, %r5, 1;
    @%p1 bra $done;
$loop:
    ld.global.f32 %f2, [%rd10];
    add.rn.f32 %f1, %f1, %f2;
    add.s64 %rd10, %rd10, 4;
    add.s32 %r6, %r6, {step};
    setp.{compare}.s32 %p2, %r6, %r5;
    @%p2 bra $loop;
$done:
    mul.lo.s32 %r8, %r2, {each};
    add.s32 %r8, %r8, %r4;
    mul.wide.s32 %rd11, %r8, 4;
    add.s64 %rd12, %rd3, %rd11;
    """ + "".join(f"    st.global.f32 [%rd12+{4 * i}], %f1;\n" for i in range(each)),
        threads=tile // each)


@pytest.mark.parametrize("other", [
    _summed(64), _summed(16), _summed(32, more=-31), _summed(64, more=-63), _summed(64, each=2),
    _summed(32, bound="min.s32 %r5, %r5, %r1;"),
])
def test_tiles_that_divide_the_step_end_alike(other: str) -> None:
    assert equal(_summed(32), other)


@pytest.mark.parametrize("other", [
    _summed(32, more=1), _summed(64, more=1), _summed(32, more=32),  # a row further
    _summed(32, more=-32), _summed(64, more=-64),  # up to the block's first row
    _summed(32, bound=""), _summed(32, bound="max.s32 %r5, %r1, %r5;"),
    _summed(32, bound="mov.b32 %r5, %r1;"),
    _summed(32, step=32), _summed(128), _summed(32, compare="le"),
])
def test_what_a_block_decides_otherwise_shows(other: str) -> None:
    assert not equal(_summed(32), other)


def test_tiles_that_are_longer_than_the_step_differ() -> None:
    assert not equal(_summed(64, step=32), _summed(32, step=32))
    assert not equal(_summed(128), _summed(64))
    assert not equal(_summed(48, step=32), _summed(32, step=32))


def test_the_larger_of_two_bounds_is_either() -> None:
    larger = "max.s32 %r5, %r1, %r5;"
    assert equal(_summed(32, bound=larger), _summed(64, bound=larger))
    assert not equal(_summed(32, bound=larger), _summed(64, more=1, bound=larger))
