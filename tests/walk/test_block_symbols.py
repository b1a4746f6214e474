"""Indices computed from block indices: told of the elements, or bound to the tiles they name."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked
from tests.walk.test_order import COLUMNS, GROUPS, PLANE, REST, ROWS, _tiles

INDICES = [
    "shr.u32 %r5, %r3, 1;", "shr.s32 %r5, %r3, 1;", "rem.s32 %r5, %r3, 3;", "div.s32 %r5, %r3, 3;",
    "rem.u32 %r5, %r3, %r1;", "min.s32 %r5, %r3, %r1;", "max.s32 %r5, %r3, %r1;",
    "and.b32 %r5, %r3, 6;", "and.b32 %r5, %r3, 7;", "xor.b32 %r5, %r3, 5;",
    "mul.hi.s32 %r5, %r3, 715827883;", "add.s32 %r5, %r3, 1;", "mov.u32 %r5, %r3;",
    "div.s32 %r5, %r3, 3;\n rem.s32 %r5, %r5, 5;",
    "rem.s32 %r5, %r3, 3;\n sub.s32 %r5, %r3, %r5;",
]


def _picked(tile: int, index: str, first: int = 0) -> str:
    """out[y] = a[index of the block], in tiles; first: where tiles begin."""
    return text(f"""
    {index}
    mul.wide.s32 %rd10, %r5, 4;
    add.s64 %rd10, %rd1, %rd10;
    ld.global.f32 %f1, [%rd10];
    mad.lo.s32 %r8, %r3, {tile}, %r2;
    mul.wide.s32 %rd11, %r8, 4;
    add.s64 %rd12, %rd3, %rd11;
    st.global.f32 [%rd12+{4 * first}], %f1;
    """, threads=tile)


@pytest.mark.parametrize("index", INDICES)
def test_blocks_of_other_tiles_are_other_blocks(index: str) -> None:
    small, large = walked(_picked(32, index)), walked(_picked(64, index))
    assert small.modelled
    assert small.digest != large.digest
    assert not same(small, large)[0]
    assert walked(_picked(32, index, first=32)).digest != small.digest  # another block's
    assert equal(_picked(32, index), _picked(32, index).replace("%r8", "%r9"))


def _told(order: str, index: str, rows: int = 8, columns: int = 8) -> str:
    """out[r, c] = a[r, c] + b[index of the block] in tiles."""
    return _tiles(order, rows, columns).replace("    @%p3 st.global", f"""    {index}
    mul.wide.s32 %rd20, %r31, 4;
    add.s64 %rd20, %rd2, %rd20;
    ld.global.f32 %f2, [%rd20];
    add.rn.f32 %f1, %f1, %f2;
    @%p3 st.global""")


@pytest.mark.parametrize("index", [
    "mov.u32 %r31, %r3;", "and.b32 %r31, %r3, 1;", "shr.u32 %r31, %r3, 2;",
    "rem.s32 %r31, %r3, 3;", "mov.u32 %r31, %r13;", "mov.u32 %r31, %r14;",
    "rem.s32 %r31, %r13, 3;", "min.s32 %r31, %r14, %r1;",
])
@pytest.mark.parametrize("order", [ROWS, COLUMNS, PLANE, REST, GROUPS])
def test_tiles_in_order_keep_what_else_their_blocks_say(order: str, index: str) -> None:
    one = walked(_told(order, index))
    assert one.modelled
    for rows, columns in ((4, 16), (16, 4), (16, 32)):
        other = walked(_told(order, index, rows, columns))
        assert one.digest != other.digest or same(one, other)[0]
    assert one.digest != walked(_told(order, index, 16, 32)).digest
    assert equal(_told(order, index), _told(order, index).replace("%r17", "%r27"))


def test_a_block_is_no_other_orders_block() -> None:
    index = "mov.u32 %r31, %r3;"
    digests = {walked(_told(order, index)).digest for order in (ROWS, COLUMNS, PLANE, GROUPS)}
    assert len(digests) == 4


HALF, WHOLE = "shr.s32 %r5, %r3, 1;", "mov.u32 %r5, %r3;"


def test_a_divided_block_index_is_that_of_a_group() -> None:
    assert equal(_picked(32, HALF), _picked(64, WHOLE))
    assert equal(_picked(32, "shr.s32 %r5, %r3, 2;"), _picked(64, HALF))
    assert equal(_picked(32, HALF), _picked(32, "shl.b32 %r5, %r3, 2;\n shr.s32 %r5, %r5, 3;"))


@pytest.mark.parametrize("twin", [
    _picked(32, WHOLE), _picked(32, "shr.s32 %r5, %r3, 2;"), _picked(64, HALF),
    _picked(32, "add.s32 %r5, %r3, 1;\n shr.s32 %r5, %r5, 1;"),  # other pairs of blocks
    _picked(32, HALF, first=32), _picked(64, WHOLE, first=32), _picked(64, WHOLE, first=64),
    _picked(32, "add.s32 %r5, %r3, 2;\n shr.s32 %r5, %r5, 1;"),  # the next pair's
])
def test_other_groups_of_blocks_are_others(twin: str) -> None:
    assert walked(twin).modelled
    assert not equal(_picked(32, HALF), twin)


def _part(rows: int, chunk: int = 3) -> str:
    """out[r] = a[(r & 7) * chunk + (r >> 3) * n] for the rows r of a block."""
    return text(f"""
    mul.lo.s32 %r4, %r3, {rows};
    add.s32 %r4, %r4, %r2;
    shr.s32 %r5, %r4, 3;
    and.b32 %r6, %r4, 7;
    mul.lo.s32 %r6, %r6, {chunk};
    mad.lo.s32 %r6, %r5, %r1, %r6;
    mul.wide.s32 %rd10, %r6, 4;
    add.s64 %rd10, %rd1, %rd10;
    ld.global.f32 %f1, [%rd10];
    mul.wide.s32 %rd11, %r4, 4;
    add.s64 %rd12, %rd3, %rd11;
    st.global.f32 [%rd12], %f1;
    """, threads=rows)


def test_parts_of_rows_leave_no_trace_of_how_many_a_block_takes() -> None:
    for rows in (2, 4, 8, 32):
        assert equal(_part(16), _part(rows))
        assert not equal(_part(16), _part(rows, chunk=5))
