"""Loops that divide their counter: groups of k that share a scale, fetched ahead or not."""

from __future__ import annotations

import pytest

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
