"""Programs of a one-dimensional grid, row by row: every tile once, or another kernel."""

from __future__ import annotations

import pytest

from checker.api import replay_kernel
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
    """pid % D in place of pid - D * (pid / D): the same tiles."""
    assert equal(_tiles(PLANE), _tiles(REST))
    wrong = walked(_tiles(REST.replace("rem.s32 %r14, %r3, %r11;",
                                       "add.s32 %r9, %r11, 1;\n    rem.s32 %r14, %r3, %r9;")))
    assert not same(walked(_tiles(PLANE)), wrong)[0]


#: groups of two rows of tiles: %r13 = 2 * g + pid % size, %r14 = (pid % (2 * D)) / size
GROUPS = """add.s32 %r10, %r1, {C1};
    div.s32 %r11, %r10, {C};
    add.s32 %r9, %r5, {R1};
    div.s32 %r9, %r9, {R};
    shl.b32 %r20, %r11, 1;
    div.s32 %r21, %r3, %r20;
    shl.b32 %r22, %r21, 1;
    sub.s32 %r23, %r9, %r22;
    min.s32 %r24, %r23, 2;
    rem.s32 %r25, %r3, %r24;
    add.s32 %r13, %r22, %r25;
    rem.s32 %r26, %r3, %r20;
    div.s32 %r14, %r26, %r24;"""
WITHOUT_REST = GROUPS.replace(
    "rem.s32 %r26, %r3, %r20;", "mul.lo.s32 %r27, %r21, %r20;\n    sub.s32 %r26, %r3, %r27;")
WITHIN = GROUPS.replace("    rem.s32 %r25, %r3, %r24;\n    add.s32 %r13, %r22, %r25;\n", "") \
    + "\n    rem.s32 %r25, %r26, %r24;\n    add.s32 %r13, %r22, %r25;"


def test_groups_of_rows_are_a_plane() -> None:
    for order in (GROUPS, WITHOUT_REST, WITHIN):
        assert equal(_tiles(PLANE), _tiles(order))
        assert equal(_tiles(order), _tiles(order, 4, 16))
        assert not equal(_tiles(PLANE), _tiles(order, skip=4))


@pytest.mark.parametrize("order", [
    GROUPS.replace("min.s32 %r24, %r23, 2;", "min.s32 %r24, %r23, 3;"),  # rows twice, columns not
    GROUPS.replace("shl.b32 %r22, %r21, 1;", "shl.b32 %r22, %r21, 2;"),  # every other group
    GROUPS.replace("shl.b32 %r20, %r11, 1;", "shl.b32 %r20, %r11, 2;"),  # half a group each
    GROUPS.replace("rem.s32 %r26, %r3, %r20;",
                   "add.s32 %r27, %r20, 1;\n    rem.s32 %r26, %r3, %r27;"),
    GROUPS.replace("rem.s32 %r26, %r3, %r20;", "rem.s32 %r26, %r3, %r11;"),
    GROUPS.replace("rem.s32 %r25, %r3, %r24;", "rem.s32 %r25, %r3, %r20;"),
    GROUPS.replace("rem.s32 %r25, %r3, %r24;", "rem.s32 %r25, %r26, %r11;"),
    GROUPS.replace("div.s32 %r14, %r26, %r24;", "rem.s32 %r14, %r26, %r24;"),
    GROUPS.replace("add.s32 %r9, %r5, {R1};", "add.s32 %r9, %r1, {R1};"),  # the other bound
    GROUPS.replace("add.s32 %r9, %r5, {R1};", "add.s32 %r9, %r5, 0;"),  # rounded down
    GROUPS.replace("add.s32 %r10, %r1, {C1};", "add.s32 %r10, %r1, 0;"),
    GROUPS.replace("%r3", "%r28").replace("add.s32 %r10",
                                          "shl.b32 %r28, %r3, 1;\n    add.s32 %r10"),
])
def test_groups_that_leave_tiles_out(order: str) -> None:
    assert not same(walked(_tiles(PLANE)), walked(_tiles(order)))[0]
    assert not same(walked(_tiles(GROUPS)), walked(_tiles(order)))[0]


def _written(order: str, m: int, n: int) -> str:
    """Replay an order over all tiles of 8 by 8: the digest of what is written where."""
    across, down = -(-n // 8), -(-m // 8)
    grid = [across, down, 1] if order == PLANE else [across * down, 1, 1]
    plane = order.replace("%r13, %ctaid.y", "%r14, %ctaid.x").replace("%r14, %r3", "%r13, %ctaid.y")
    found = replay_kernel(_tiles(plane if order == PLANE else order), {
        "grid": grid, "block": [64, 1, 1], "args": [
            {"buffer": "a", "dtype": "f32", "elements": m * n, "role": "in"}, None,
            {"buffer": "out", "dtype": "f32", "elements": m * n, "role": "out"},
            {"i32": n}, {"i32": m}]})
    assert found.usable, found.reasons()
    return found.digest


@pytest.mark.parametrize("order", [ROWS, REST, COLUMNS, GROUPS, WITHOUT_REST, WITHIN])
def test_orders_that_are_recognised_visit_every_tile(order: str) -> None:
    """All numbers of tiles up to five by four, with whole and with cut tiles at the ends."""
    for m in (1, 8, 13, 24, 29, 40):
        for n in (3, 8, 16, 21, 32):
            assert _written(order, m, n) == _written(PLANE, m, n), (m, n)
