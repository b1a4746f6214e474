"""Programs of a one-dimensional grid, row by row: every tile once, or another kernel."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked


def _tiles(order: str, rows: int = 8, columns: int = 8, skip: int = 0) -> str:
    """out[r, c] = a[r, c] for r < m (%r5), c < n (%r1), in tiles.

    `order` makes the tile's numbers %r13 (of rows) and %r14 (of columns) from %r3.
    """
    body = f"""
    ld.param.u32 %r5, [k_param_4];
    {order.format(C=columns, C1=columns - 1, R=rows, R1=rows - 1)}
    shr.u32 %r15, %r2, {columns.bit_length() - 1};
    and.b32 %r16, %r2, {columns - 1};
    mad.lo.s32 %r17, %r13, {rows}, %r15;
    mad.lo.s32 %r18, %r14, {columns}, %r16;
    setp.lt.s32 %p1, %r17, %r5;
    setp.lt.s32 %p2, %r18, %r1;
    and.pred %p3, %p1, %p2;
    mul.lo.s32 %r19, %r17, %r1;
    mul.wide.s32 %rd10, %r19, 4;
    mul.wide.s32 %rd11, %r18, 4;
    add.s64 %rd12, %rd10, %rd11;
    add.s64 %rd13, %rd1, %rd12;
    add.s64 %rd14, %rd3, %rd12;
    @%p3 ld.global.f32 %f1, [%rd13+{skip}];
    @%p3 st.global.f32 [%rd14], %f1;"""
    return text(body, rows * columns).replace(
        ".param .u32 k_param_3\n", ".param .u32 k_param_3,\n    .param .u32 k_param_4\n", 1)


COUNT = "add.s32 %r10, %r1, {C1};\n    div.s32 %r11, %r10, {C};"
SPLIT = "\n    div.s32 %r13, %r3, %r11;\n    mul.lo.s32 %r12, %r13, %r11;" \
    "\n    sub.s32 %r14, %r3, %r12;"
ROWS = COUNT + SPLIT
REST = COUNT + "\n    div.s32 %r13, %r3, %r11;\n    rem.s32 %r14, %r3, %r11;"
COLUMNS = "add.s32 %r10, %r5, {R1};\n    div.s32 %r11, %r10, {R};" \
    "\n    div.s32 %r14, %r3, %r11;\n    mul.lo.s32 %r12, %r14, %r11;\n    sub.s32 %r13, %r3, %r12;"
PLANE = "mov.u32 %r13, %ctaid.y;\n    mov.u32 %r14, %r3;"


def test_row_by_row_is_a_plane() -> None:
    assert walked(_tiles(PLANE)).modelled
    assert equal(_tiles(PLANE), _tiles(ROWS))
    assert equal(_tiles(PLANE), _tiles(COLUMNS))
    assert equal(_tiles(ROWS), _tiles(ROWS, 4, 16))  # tiles of another shape
    assert equal(_tiles(ROWS), _tiles(ROWS, 16, 32))
    assert equal(_tiles(PLANE, 2, 32), _tiles(ROWS, 8, 4))


@pytest.mark.parametrize("order", [
    ROWS.replace("{C1}", "6"),  # one off: the last column of tiles is missing for some n
    ROWS.replace("{C1}", "0"),  # rounded down
    ROWS.replace("{C1}", "{C}"),  # one tile too many for some n: others are skipped
    ROWS.replace("div.s32 %r11, %r10, {C};", "div.s32 %r11, %r10, 16;"),  # every other tile
    ROWS.replace("%r1, {C1}", "%r5, {C1}"),  # counts the other bound
    ROWS.replace("mul.lo.s32 %r12, %r13, %r11;",
                 "add.s32 %r9, %r11, 1;\n    mul.lo.s32 %r12, %r13, %r9;"),
    ROWS.replace("div.s32 %r13, %r3, %r11;",
                 "add.s32 %r9, %r11, 1;\n    div.s32 %r13, %r3, %r9;"),
    ROWS.replace("sub.s32 %r14, %r3, %r12;", "sub.s32 %r14, %r3, %r12;\n"
                 "    add.s32 %r14, %r14, 1;"),  # the first column of tiles is missing
    ROWS.replace("div.s32 %r13, %r3, %r11;", "div.s32 %r13, %r3, %r11;\n"
                 "    shl.b32 %r13, %r13, 1;"),  # every other row of tiles
    "shl.b32 %r9, %r3, 1;\n    " + ROWS.replace("%r3", "%r9"),  # every other program
    "add.s32 %r9, %r3, 1;\n    " + ROWS.replace("%r3", "%r9"),  # all but the first
    COLUMNS.replace("{R1}", "6"),
    COLUMNS.replace("%r5, {R1}", "%r1, {R1}"),
])
def test_orders_that_leave_tiles_out(order: str) -> None:
    for whole in (PLANE, ROWS, COLUMNS):
        assert not same(walked(_tiles(whole)), walked(_tiles(order)))[0]


def test_what_a_tile_does_counts_in_every_order() -> None:
    for order in (ROWS, COLUMNS):
        assert not equal(_tiles(PLANE), _tiles(order, skip=4))
        assert not equal(_tiles(order), _tiles(order, skip=4))


def test_a_rest_is_the_rest() -> None:
    """pid % D in place of pid - D * (pid / D): the same tiles, or said to be unproved."""
    found = walked(_tiles(REST))
    assert found.modelled
    wrong = walked(_tiles(REST.replace("rem.s32 %r14, %r3, %r11;",
                                       "add.s32 %r9, %r11, 1;\n    rem.s32 %r14, %r3, %r9;")))
    assert not same(found, wrong)[0]
