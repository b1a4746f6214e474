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
