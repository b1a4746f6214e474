"""Loops that divide their counter: groups of k that share a scale, fetched ahead or not."""

from __future__ import annotations

from functools import cache

import pytest

from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.walk import walk
from tests.walk.kernels import equal, text, walked


def scaled(ahead: int, shift: int = 2, first: int = 0, skip: int = 0) -> str:
    """out[t] = sum over i < n of a[32 * i + t] * b[32 * (i >> shift) + t], b fetched `ahead`.

    first: of what is fetched before the loop; skip: added to the index of what is fetched in it.
    """
    def fetch(to: int, index: str) -> str:
        return f"""
    shr.s32 %r20, {index}, {shift};
    mad.lo.s32 %r21, %r20, 32, %r2;
    mul.wide.s32 %rd10, %r21, 4;
    add.s64 %rd11, %rd2, %rd10;
    ld.global.f32 %f{to}, [%rd11];"""

    before = "".join(f"mov.u32 %r12, {first + j};{fetch(10 + j, '%r12')}" for j in range(ahead))
    shifts = "".join(f"mov.f32 %f{10 + j}, %f{11 + j};\n" for j in range(ahead))
    return text(f"""
    mov.f32 %f2, 0f00000000;
    mov.u32 %r11, 0;
    {before}
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    mad.lo.s32 %r13, %r11, 32, %r2;
    mul.wide.s32 %rd12, %r13, 4;
    add.s64 %rd13, %rd1, %rd12;
    ld.global.f32 %f1, [%rd13];
    add.s32 %r14, %r11, {ahead + skip};
    {fetch(10 + ahead, '%r14')}
    fma.rn.f32 %f2, %f1, %f10, %f2;
    {shifts}
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd14, %rd3, %rd10;
    st.global.f32 [%rd14], %f2;""", threads=32)


@pytest.mark.parametrize("shift", [0, 1, 2, 6])
@pytest.mark.parametrize("ahead", [1, 2])
def test_what_is_fetched_ahead(ahead: int, shift: int) -> None:
    """In the first iterations the divided counter is a literal, the same in several of them."""
    assert equal(scaled(0, shift), scaled(ahead, shift))


@pytest.mark.parametrize("twin", [
    scaled(1, shift=3),  # other groups
    scaled(1, skip=1),  # a scale too early
    scaled(1, skip=-1),
    scaled(1, first=4),  # another one before the loop
    scaled(2, first=4),
    scaled(0, shift=1),
])
def test_another_scale(twin: str) -> None:
    assert not equal(scaled(0), twin) if walked(twin).modelled else walked(twin).findings


def _blocks(width: int, shift: int = 2, each: bool = True, more: int = 0) -> str:
    """out[t] = sum over i < n of a[32 * i + t] * b[n * (i >> shift) + t], `width` an iteration.

    each: whether each step has its own i, not the iteration's first. more: added to it.
    """
    steps = "".join(f"""
    add.s32 %r12, %r11, {j};
    mad.lo.s32 %r13, %r12, 32, %r2;
    mul.wide.s32 %rd12, %r13, 4;
    add.s64 %rd13, %rd1, %rd12;
    ld.global.f32 %f1, [%rd13];
    add.s32 %r14, %r11, {more + j * each};
    shr.s32 %r15, %r14, {shift};
    mad.lo.s32 %r16, %r15, %r1, %r2;
    mul.wide.s32 %rd10, %r16, 4;
    add.s64 %rd11, %rd2, %rd10;
    ld.global.f32 %f3, [%rd11];
    mul.rn.f32 %f4, %f1, %f3;
    add.rn.f32 %f2, %f2, %f4;""" for j in range(width))
    return text(f"""
    mov.f32 %f2, 0f00000000;
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
{steps}
    add.s32 %r11, %r11, {width};
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd14, %rd3, %rd10;
    st.global.f32 [%rd14], %f2;""", threads=16)


@cache
def _multiples(source: str) -> WalkResult:
    """Walk a kernel in a second look: n is taken for a multiple of 16."""
    found = walk(lower(parse(source, isa="ptx")), divisible=("arg3",))
    assert found.modelled
    return found


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_a_block_of_k_against_groups(width: int, shift: int) -> None:
    """An iteration of 2 steps is half of a group of 4, one of 8 is two of them."""
    assert same(_multiples(_blocks(1, shift)), _multiples(_blocks(width, shift)))[0]


@pytest.mark.parametrize("twin", [
    _blocks(8, shift=1),
    _blocks(8, shift=3),
    _blocks(8, each=False),  # one scale for eight steps
    _blocks(8, more=1),
    _blocks(8, more=4),  # the next group
    _blocks(2, more=1),
    _blocks(2, shift=3),
])
def test_other_groups(twin: str) -> None:
    assert not same(_multiples(_blocks(1)), _multiples(twin))[0]


def test_a_scale_for_each_iteration_is_one_for_its_group() -> None:
    """Two steps are a half of a group of four: the first i of them is in the same group."""
    assert same(_multiples(_blocks(1)), _multiples(_blocks(2, each=False)))[0]
    assert same(_multiples(_blocks(1)), _multiples(_blocks(4, each=False)))[0]
    assert not same(_multiples(_blocks(1, more=1)), _multiples(_blocks(2, each=False, more=1)))[0]
