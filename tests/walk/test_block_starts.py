"""Where a tile starts, widened: a block index times its step is that number in either width."""

from __future__ import annotations

import pytest

from tests.walk.kernels import equal, text, walked


def _starts(rows: int, widen: str = "s", step: int = 32, ahead: int = 0, before: int = 0) -> str:
    """out[h][row] = a[h][row][ahead], 32 elements a row; the start of the tile is widened alone.

    step: how far the start moves for each row of the tile. before: what is taken from it in words.
    """
    return text(f"""
    mov.u32 %r4, %ctaid.y;
    mul.lo.s32 %r10, %r3, {rows};
    add.s32 %r11, %r10, %r2;
    setp.lt.s32 %p1, %r11, %r1;
    mul.lo.s32 %r12, %r4, %r1;
    shl.b32 %r13, %r12, 5;
    mul.wide.s32 %rd10, %r13, 4;
    mul.lo.s32 %r14, %r10, {step};
    sub.s32 %r14, %r14, {before};
    mul.wide.{widen}32 %rd11, %r14, 4;
    mul.wide.u32 %rd12, %r2, 128;
    add.s64 %rd13, %rd1, %rd10;
    add.s64 %rd13, %rd13, %rd11;
    add.s64 %rd13, %rd13, %rd12;
    mov.f32 %f1, 0f00000000;
    @%p1 ld.global.f32 %f1, [%rd13+{4 * (ahead + before)}];
    mul.wide.s32 %rd14, %r12, 4;
    mul.wide.s32 %rd15, %r11, 4;
    add.s64 %rd16, %rd3, %rd14;
    add.s64 %rd16, %rd16, %rd15;
    @%p1 st.global.f32 [%rd16], %f1;""", rows)


def test_tiles_that_start_at_their_rows_leave_no_trace() -> None:
    one = _starts(32)
    assert equal(one, _starts(64))
    assert equal(one, _starts(128, "u"))
    assert "no-index-wrap" in walked(one).premises


@pytest.mark.parametrize("twin", [
    _starts(64, ahead=32),  # the next row
    _starts(64, step=64),  # every other tile
    _starts(64, step=16),
])
def test_other_starts_are_other_rows(twin: str) -> None:
    assert not equal(_starts(32), twin)


def test_what_is_below_zero_in_the_first_block_shows_its_sign() -> None:
    assert not equal(_starts(32, "s", before=32), _starts(32, "u", before=32))


def _stored(wide: str) -> str:
    """out[i] = 64 * block in 64 bits, in tiles of 32."""
    return text(f"""
    {wide}
    mad.lo.s32 %r11, %r3, 32, %r2;
    mul.wide.s32 %rd11, %r11, 8;
    add.s64 %rd12, %rd3, %rd11;
    st.global.b64 [%rd12], %rd10;""", 32)


def test_a_number_that_is_stored_may_wrap() -> None:
    narrow = "shl.b32 %r10, %r3, 6;\n    cvt.s64.s32 %rd10, %r10;"
    assert not equal(_stored(narrow), _stored("mul.wide.s32 %rd10, %r3, 64;"))
