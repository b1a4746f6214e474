"""exec, masks, branches, loops: what divergent code leaves in each lane."""

from __future__ import annotations

import numpy as np

from checker.gcn.lower import Lowering
from checker.gcn.parser import parse_gcn
from tests.gcn.bench import program_of, run, split, text_of, unmodelled

L = np.arange(64, dtype=np.uint32)

IF = split("""v_cmp_gt_u32_e32 vcc, 20, v1
v_mov_b32_e32 v10, 1
s_and_saveexec_b64 s[24:25], vcc
s_cbranch_execz .LBB0_1
v_add_u32_e32 v10, v10, v2
.LBB0_1:
s_or_b64 exec, exec, s[24:25]
v_add_u32_e32 v10, 100, v10""")

IF_ELSE = split("""v_cmp_gt_u32_e32 vcc, 20, v1
s_and_saveexec_b64 s[24:25], vcc
s_xor_b64 s[24:25], exec, s[24:25]
s_cbranch_execz .LBB0_1
v_add_u32_e32 v10, 5, v2
.LBB0_1:
s_andn2_saveexec_b64 s[24:25], s[24:25]
s_cbranch_execz .LBB0_2
v_sub_u32_e32 v10, v2, v1
.LBB0_2:
s_or_b64 exec, exec, s[24:25]
v_mov_b32_e32 v11, v10""")

LOOP = split("""s_mov_b64 s[24:25], 0
v_mov_b32_e32 v4, 0
.LBB0_1:
v_add_u32_e32 v4, 1, v4
v_add_u32_e32 v10, v10, v4
v_cmp_ge_u32_e32 vcc, v4, v1
s_or_b64 s[24:25], vcc, s[24:25]
s_andn2_b64 exec, exec, s[24:25]
s_cbranch_execnz .LBB0_1
s_or_b64 exec, exec, s[24:25]
v_mov_b32_e32 v11, 7""")


def _lowering(lines: list[str]) -> Lowering:
    module = parse_gcn(text_of(lines))
    lowering = Lowering(module, module.functions[0], "<text>")
    lowering.program()
    return lowering


def test_if_runs_in_its_lanes_and_needs_no_branch() -> None:
    got, _ = run(IF, L, L * 3)
    assert got.tolist() == np.where(L < 20, 1 + L * 3, 1).__add__(100).tolist()
    assert len(_lowering(IF).elided) == 1
    assert "branch" not in [op.name for op in program_of(IF).ops]


def test_skipped_scalar_write_keeps_the_branch() -> None:
    lines = [*IF[:4], "s_mov_b32 s30, 5", *IF[4:], "v_mov_b32_e32 v11, s30"]
    lines = ["s_mov_b32 s30, 3", *lines]
    assert len(_lowering(lines).elided) == 0
    _, other = run(lines, L + 50, L)
    assert set(other.tolist()) == {3}
    _, some = run(lines, L, L)
    assert set(some.tolist()) == {5}


def test_if_else_joins_both_values() -> None:
    got, other = run(IF_ELSE, L, L * 3)
    want = np.where(L < 20, 5 + L * 3, L * 3 - L).tolist()
    assert got.tolist() == want
    assert other.tolist() == want


def test_divergent_loop_and_full_exec_after_it() -> None:
    trips = L % 5 + 1
    got, other = run(LOOP, trips)
    assert got.tolist() == (trips * (trips + 1) // 2).tolist()
    assert set(other.tolist()) == {7}
    last = [op for op in program_of(LOOP).ops if op.name == "store"][-1]
    assert last.guard is None  # exec is known to be full again


def test_cmp_writes_zero_for_lanes_that_are_off() -> None:
    lines = ["s_mov_b64 s[30:31], exec", "v_cmp_gt_u32_e32 vcc, 8, v1", "s_and_b64 exec, exec, vcc",
             "v_cmp_lt_u32_e64 s[24:25], 3, v1", "s_mov_b64 exec, s[30:31]",
             "s_nop 0", "v_mov_b32_e32 v10, s24", "v_mov_b32_e32 v11, s25"]
    got, other = run(lines, L)
    assert (got[0], other[0]) == (0xF0, 0)


def test_cmpx_narrows_exec() -> None:
    lines = ["s_mov_b64 s[30:31], exec", "v_cmpx_gt_u32_e32 vcc, 8, v1", "v_mov_b32_e32 v10, 5",
             "s_mov_b64 exec, s[30:31]", "v_cndmask_b32_e64 v11, 0, 1, vcc"]
    got, other = run(lines, L)
    assert got.tolist() == [5] * 8 + [0] * 56
    assert other.tolist() == [1] * 8 + [0] * 56
    new = ["s_mov_b32 s30, exec_lo", "v_cmpx_gt_u32_e32 8, v1", "v_mov_b32_e32 v10, 5",
           "s_mov_b32 exec_lo, s30"]
    assert run(new, L[:32], target="gfx1100")[0].tolist() == [5] * 8 + [0] * 24


def test_masks_are_numbers_too() -> None:
    lines = ["v_cmp_gt_u32_e32 vcc, 20, v1", "s_bcnt1_i32_b64 s24, vcc", "v_mov_b32_e32 v10, s24",
             "s_mov_b64 s[26:27], 0xf0", "v_cndmask_b32_e64 v11, 1, 2, s[26:27]"]
    got, other = run(lines, L)
    assert got[0] == 20
    assert other.tolist() == [2 if 4 <= i < 8 else 1 for i in range(64)]


def test_uniform_branch_on_vcc() -> None:
    lines = ["s_cmp_eq_u32 s20, 5", "s_cselect_b64 s[24:25], -1, 0",
             "s_and_b64 vcc, exec, s[24:25]", "v_mov_b32_e32 v10, 1",
             "s_cbranch_vccz .LBB0_1", "v_mov_b32_e32 v10, 2", ".LBB0_1:",
             "v_mov_b32_e32 v11, 3"]
    assert run(lines, 5)[0][0] == 2
    assert run(lines, 6)[0][0] == 1


def test_dual_instructions_read_before_they_write() -> None:
    lines = ["v_mov_b32_e32 v4, v1", "v_mov_b32_e32 v5, v2",
             "v_dual_mov_b32 v4, v5 :: v_dual_mov_b32 v5, v4", "v_mov_b32_e32 v10, v4",
             "v_mov_b32_e32 v11, v5"]
    got, other = run(lines, 1, 2, target="gfx1100")
    assert (got[0], other[0]) == (2, 1)


def test_wave32_masks_are_single_registers() -> None:
    lines = ["v_cmp_gt_u32_e32 vcc_lo, 20, v1", "s_and_saveexec_b32 s24, vcc_lo",
             "v_mov_b32_e32 v10, 4", "s_or_b32 exec_lo, exec_lo, s24",
             "v_cndmask_b32_e32 v11, 1, v1, vcc_lo"]
    got, other = run(lines, L[:32], target="gfx1200")
    assert got.tolist() == [4] * 20 + [0] * 12
    assert other.tolist() == [*range(20), *[1] * 12]


def test_unknown_instruction_is_opaque_with_its_text() -> None:
    lines = ["v_frobnicate_f32 v10, v1, v2"]
    assert unmodelled(lines) == ["no row for `v_frobnicate_f32`"]
    opaque = [op for op in program_of(lines).ops if op.name == "opaque"]
    assert opaque[0].attr == lines[0]


def test_leftover_modifier_is_opaque() -> None:
    assert unmodelled(["v_add_u32_e32 v10, v1, v2 row_surprise:3"]) == ["modifier row_surprise"]
    assert unmodelled(["v_add_u32_e64 v10, -v1, v2"]) == ["sign modifier on an integer operand"]
    assert unmodelled(["v_lshl_add_u64 v10, 1, v[2:3]"]) != []


def test_division_by_reciprocal_becomes_a_division() -> None:
    lines = split("""v_cvt_f32_u32_e32 v4, s21
s_sub_i32 s24, 0, s21
v_rcp_iflag_f32_e32 v4, v4
s_nop 0
v_mul_f32_e32 v4, 0x4f7ffffe, v4
v_cvt_u32_f32_e32 v4, v4
s_nop 1
v_readfirstlane_b32 s25, v4
s_mul_i32 s24, s24, s25
s_mul_hi_u32 s24, s25, s24
s_add_i32 s25, s25, s24
s_mul_hi_u32 s24, s20, s25
s_mul_i32 s26, s24, s21
s_sub_i32 s26, s20, s26
s_add_i32 s27, s24, 1
s_sub_i32 s28, s26, s21
s_cmp_ge_u32 s26, s21
s_cselect_b32 s24, s27, s24
s_cselect_b32 s26, s28, s26
s_add_i32 s27, s24, 1
s_sub_i32 s28, s26, s21
s_cmp_ge_u32 s26, s21
s_cselect_b32 s30, s27, s24
s_cselect_b32 s31, s28, s26
v_mov_b32_e32 v10, s30
v_mov_b32_e32 v11, s31""")
    program = program_of(lines)
    names = [op.name for op in program.ops]
    assert "idiv_u" in names
    assert "irem_u" in names
    assert "fapprox" not in names
    assert "rcp-iflag" in program.premises
    got, rest = run(lines, 1000003, 77)
    assert (got[0], rest[0]) == divmod(1000003, 77)
    changed = [x.replace("0x4f7ffffe", "0x4f800000") for x in lines]
    assert "idiv_u" not in [op.name for op in program_of(changed).ops]
