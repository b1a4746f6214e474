"""Missing waits and wait states are findings; the same code with them is clean."""

from __future__ import annotations

import pytest

from tests.gcn.bench import program_of

LOADS = ["global_load_dword v4, v0, s[8:9]", "global_load_dword v5, v0, s[10:11]"]


def findings(lines: list[str], target: str = "gfx942") -> list[str]:
    return [message for _, message in program_of(lines, target).findings]


CASES: list[tuple[str, list[str], list[str], str]] = [
    ("load", [LOADS[0], "s_waitcnt vmcnt(0)", "v_mov_b32_e32 v10, v4"], ["s_waitcnt vmcnt(0)"],
     "v4 is read before the wait on vmcnt"),
    ("lds", ["ds_read_b32 v4, v0", "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v10, v4"],
     ["s_waitcnt lgkmcnt(0)"], "v4 is read before the wait on lgkmcnt"),
    ("wrong counter", ["ds_read_b32 v4, v0", "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v10, v4"],
     ["s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)"], "v4 is read before the wait on lgkmcnt"),
    ("scalar", ["s_load_dword s24, s[8:9], 0x0", "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v10, s24"],
     ["s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(1)"], "s24 is read before the wait on lgkmcnt"),
    ("order", [*LOADS, "s_waitcnt vmcnt(1)", "v_mov_b32_e32 v10, v4"],
     ["s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(2)"], "v4 is read before the wait on vmcnt"),
    ("dpp", ["v_mov_b32_e32 v4, v1", "s_nop 1",
             "v_mov_b32_dpp v10, v4 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"],
     ["s_nop 1", "s_nop 0"], "v4 is read by DPP within 2 wait states of its vector write"),
    ("readlane", ["v_mov_b32_e32 v4, v1", "s_nop 0", "v_readlane_b32 s24, v4, 3"],
     ["s_nop 0", ""], "v4 is read by a lane read within 1 wait states of its vector write"),
]


@pytest.mark.parametrize(("good", "change", "message"), [c[1:] for c in CASES],
                         ids=[c[0] for c in CASES])
def test_missing_wait(good: list[str], change: list[str], message: str) -> None:
    assert findings(good) == []
    new = change[1] if len(change) > 1 else ""
    bad = [new if x == change[0] else x for x in good]
    assert message in findings([x for x in bad if x])


def test_overwriting_a_pending_register_is_a_finding() -> None:
    assert findings([LOADS[0], "v_mov_b32_e32 v4, 0", "s_waitcnt vmcnt(0)"]) == [
        "v4 is overwritten before the wait on vmcnt"]


def test_loads_into_one_register_return_in_turn() -> None:
    """The later one stays; what another counter counts, or a scalar load, comes when it likes."""
    again = LOADS[1].replace("v5", "v4")
    use = ["s_waitcnt vmcnt(0) lgkmcnt(0)", "v_mov_b32_e32 v10, v4"]
    assert findings([LOADS[0], again, *use]) == []
    assert "v4 is read before the wait on vmcnt" in findings(
        [LOADS[0], again, "s_waitcnt vmcnt(1)", *use[1:], use[0]])
    message = "v4 is overwritten before the wait on "
    assert findings([LOADS[0], "ds_read_b32 v4, v0", *use]) == [message + "vmcnt"]
    scalar = ["s_load_dword s24, s[8:9], 0x0", "s_load_dword s24, s[8:9], 0x4", use[0]]
    assert findings(scalar) == ["s24 is overwritten before the wait on lgkmcnt"]
    flat = ["v_mov_b32_e32 v8, 0", "v_mov_b32_e32 v9, 0", *["flat_load_dword v4, v[8:9]"] * 2]
    assert message + "lgkmcnt" in findings([*flat, *use])


def test_split_counters_of_gfx12() -> None:
    load = "global_load_b32 v4, v0, s[8:9]"
    use = "v_mov_b32_e32 v10, v4"
    assert findings([load, "s_wait_loadcnt 0x0", use], "gfx1200") == []
    assert findings([load, "s_wait_loadcnt_dscnt 0x0", use], "gfx1200") == []
    assert findings([load, "s_wait_dscnt 0x0", use], "gfx1200") == [
        "v4 is read before the wait on loadcnt"]


def test_stores_have_their_own_counter_from_gfx10() -> None:
    lines = ["global_load_dword v4, v0, s[8:9]", "global_store_dword v0, v1, s[14:15]",
             "s_waitcnt vmcnt(1)", "v_mov_b32_e32 v10, v4"]
    assert findings(lines, "gfx942") == []
    assert findings(lines, "gfx1030") == ["v4 is read before the wait on vmcnt"]


def test_a_wait_on_one_path_only_is_a_finding() -> None:
    lines = [LOADS[0], "s_cmp_eq_u32 s20, 0", "s_cbranch_scc1 .LBB0_1", "s_waitcnt vmcnt(0)",
             ".LBB0_1:", "v_mov_b32_e32 v10, v4"]
    assert findings(lines) == ["v4 is read before the wait on vmcnt"]


def test_loop_carried_loads_are_followed() -> None:
    loop = ["s_mov_b32 s24, 0", "global_load_dword v4, v0, s[8:9]", ".LBB0_1:", "{wait}",
            "v_add_u32_e32 v10, v10, v4", "global_load_dword v4, v0, s[8:9]",
            "s_add_i32 s24, s24, 1", "s_cmp_lt_i32 s24, 4", "s_cbranch_scc1 .LBB0_1",
            "s_waitcnt vmcnt(0)"]
    assert findings([x.replace("{wait}", "s_waitcnt vmcnt(0)") for x in loop]) == []
    bad = findings([x.replace("{wait}", "s_waitcnt vmcnt(1)") for x in loop])
    assert "v4 is read before the wait on vmcnt" in bad


def test_what_selects_a_lane_waits_longer_than_what_is_written_there() -> None:
    """As LLVM leaves them: four wait states for the selector, two for the data (from gfx940)."""
    compare = "v_cmp_eq_u32_e64 s[24:25], v0, v1"
    selects = "s24 selects a lane within 4 wait states of its vector write"
    read = "is read within 2 wait states of its vector write"
    for use in ("v_readlane_b32 s26, v4, s24", "v_writelane_b32 v4, s20, s24"):
        assert findings([compare, "s_nop 3", use]) == []
        assert findings([compare, "s_nop 2", use]) == [selects]
    for use in ("v_writelane_b32 v4, s24, 3", "v_cndmask_b32_e64 v4, v0, v1, s[24:25]"):
        assert findings([compare, "s_nop 1", use]) == []
        assert findings([compare, "s_nop 0", use])[0].endswith(read)
        assert findings([compare, use], "gfx90a") == []
    assert findings([compare, "s_mov_b64 s[24:25], 0", "v_writelane_b32 v4, s24, 3"]) == []


@pytest.mark.parametrize(("target", "more"), [("gfx942", "global_load_dword v5, v0, s[10:11]"),
                                              ("gfx1200", "global_load_b32 v5, v0, s[10:11]")])
def test_no_more_loads_are_under_way_than_their_counter_counts(target: str, more: str) -> None:
    """The counter has six bits: the 64th load is not issued before the first has returned."""
    first, use = more.replace("v5", "v4").replace("s[10:11]", "s[8:9]"), "v_mov_b32_e32 v10, v4"
    later = [more.replace("v5", f"v{i}") for i in range(12, 75)]
    wait = "s_waitcnt vmcnt(0)" if target == "gfx942" else "s_wait_loadcnt 0x0"
    assert findings([first, *later[:63], use, wait], target) == []
    (message,) = findings([first, *later[:62], use, wait], target)
    assert message.startswith("v4 is read before the wait on")


def test_scalar_loads_return_in_any_order() -> None:
    loads = [f"s_load_dword s{i}, s[8:9], 0x{4 * i:x}" for i in range(24, 94)]
    assert "s24 is read before the wait on lgkmcnt" in findings([*loads, "v_mov_b32_e32 v10, s24"])


MFMA = "v_mfma_f32_{} v[40:{}], v[32:33], v[34:35], v[40:{}]"
STEPS = [("gfx942", "32x32x8_f16", 55, 11), ("gfx942", "16x16x16_f16", 43, 7),
         ("gfx942", "16x16x32_fp8_fp8", 43, 7), ("gfx950", "32x32x8_bf16", 55, 12),
         ("gfx950", "16x16x16_f16", 43, 8),
         ("gfx90a", "32x32x8f16", 55, 19), ("gfx90a", "16x16x16f16", 43, 11)]


@pytest.mark.parametrize(("target", "step", "last", "states"), STEPS)
def test_a_matrix_result_is_read_after_its_passes(target: str, step: str, last: int, states: int
                                                  ) -> None:
    """As many wait states as LLVM leaves; one less, and it is a finding."""
    step = MFMA.format(step, last, last)
    for use in ("v_mov_b32_e32 v10, v40", "global_store_dword v0, v43, s[14:15]",
                "v_accvgpr_write_b32 a0, v40"):
        enough = [f"s_nop {min(n, 16) - 1}" for n in (states, states - 16) if n > 0]
        assert findings([step, *enough, use], target) == []
        less = [f"s_nop {min(n, 16) - 1}" for n in (states - 1, states - 17) if n > 0]
        (message,) = findings([step, *less, use], target)
        assert "wait states before its matrix step ends" in message
    assert findings([step, step], target) == []  # the accumulator is handed on


def test_a_matrix_result_on_one_path_only() -> None:
    step = MFMA.format("16x16x16_f16", 43, 43)
    lines = ["s_cmp_lt_i32 s20, 3", "s_cbranch_scc1 .LBB0_1", step, ".LBB0_1:",
             "v_mov_b32_e32 v10, v40"]
    assert any("matrix step" in m for m in findings(lines))
    assert findings([*lines[:3], "s_nop 6", *lines[3:]]) == []
    overwritten = [*lines[:3], "s_nop 6", "v_mov_b32_e32 v40, 0", *lines[3:]]
    assert findings(overwritten) == []


def test_a_flat_access_returns_in_any_order_up_to_gfx9() -> None:
    lines = ["ds_read_b32 v4, v0", "flat_load_dword v5, v[8:9]", "s_waitcnt lgkmcnt(1)",
             "v_mov_b32_e32 v10, v4", "s_waitcnt vmcnt(0) lgkmcnt(0)"]
    assert findings(lines) == ["v4 is read before the wait on lgkmcnt"]
    assert findings(lines, "gfx1030") == []


HALF = "v_mfma_f32_16x16x16_f16"
FULL = f"{HALF} v[40:43], v[32:33], v[34:35], v[40:43]"
LANE = "v_readlane_b32 s26, v4, 3"
DWORDS = "global_store_dwordx4 v0, v[4:7], s[14:15]"
TO_LDS = ["s_mov_b32 s11, 0x31027000", "s_nop 4", "{}",
          "buffer_load_dword v4, s[8:11], 0 offen lds"]

#: what is written, what uses it, the states that LLVM leaves between; targets with and without
WRITTEN = {
    "a scalar that memory reads": (
        "v_readfirstlane_b32 s14, v1", "global_store_dword v0, v1, s[14:15]", 5, "gfx90a", ""),
    "exec before DPP": (
        "v_cmpx_gt_i32_e32 0, v1", "v_mov_b32_dpp v10, v2 row_shr:1 row_mask:0xf bank_mask:0xf", 5,
        "gfx90a", ""),
    "exec before a lane read": ("v_cmpx_gt_i32_e32 0, v1", LANE, 4, "gfx942", "gfx90a"),
    "exec before a matrix step": ("v_cmpx_gt_i32_e32 0, v1", FULL, 4, "gfx942", "gfx908"),
    "a factor": ("v_mov_b32_e32 v32, v1", FULL, 2, "gfx942", "gfx908"),
    "an addend": ("v_mov_b32_e32 v41, v1", FULL, 2, "gfx942", "gfx908"),
    "a dot product": ("v_dot4_i32_i8 v4, v1, v2, v3", "v_mov_b32_e32 v10, v4", 3, "gfx90a",
                      "gfx908"),
    "a dot product's factor": ("v_dot4_i32_i8 v4, v1, v2, v3", "v_dot4_i32_i8 v5, v4, v2, v3", 3,
                               "gfx90a", "gfx908"),
    "a slow operation": ("v_exp_f32_e32 v4, v1", "v_add_f32_e32 v10, v4, v1", 1, "gfx942",
                         "gfx90a"),
    "a half": ("v_mov_b32_sdwa v4, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
               "v_mov_b32_e32 v10, v4", 1, "gfx942", "gfx90a"),
    "a half of a VOP3": ("v_add_f16_e64 v4, v1, v2 op_sel:[0,0,1]", "v_mov_b32_e32 v10, v4", 1,
                         "gfx942", "gfx90a"),
    "a half over a half": ("v_cvt_pk_fp8_f32 v4, v1, v2 op_sel:[0,0,1]",
                           "v_cvt_pk_fp8_f32 v4, v1, v2", 1, "gfx942", ""),
    "stored data": (DWORDS, "v_mov_b32_e32 v5, 0", 2, "gfx942", ""),
    "stored data before CDNA3": (DWORDS, "v_mov_b32_e32 v5, 0", 1, "gfx90a", ""),
    "swapped halves": ("v_mov_b32_e32 v5, v1", "v_permlane32_swap_b32 v4, v5", 2, "gfx950", ""),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_wait_states_after_a_write(name: str) -> None:
    write, use, states, target, free = WRITTEN[name]
    used = [use, "s_nop 7", "s_nop 7"]
    before = ["v_mov_b32_e32 v4, 0", "v_mov_b32_e32 v5, 0", "s_nop 7"]
    assert findings([*before, write, f"s_nop {states - 1}", *used], target) == []
    less = [f"s_nop {states - 2}"] if states > 1 else []
    (message,) = findings([*before, write, *less, *used], target)
    assert f"within {states} wait states of its" in message
    assert not free or findings([*before, write, *less, *used], free) == []


def test_what_a_slow_operation_or_a_dot_product_hands_on() -> None:
    assert findings(["v_exp_f32_e32 v4, v1", "v_rcp_f32_e32 v10, v4"]) == []
    dot = "v_dot4_i32_i8 v4, v1, v2, {}"
    assert findings([dot.format("v3"), dot.format("v4")]) == []


def test_the_offset_of_a_copy_to_lds() -> None:
    lines = [line.format("s_mov_b32 m0, s20") for line in TO_LDS]
    (message,) = findings(lines)
    assert message == "m0 is read by a copy to LDS within 1 wait states of its write"
    assert findings([*lines[:3], "s_nop 0", lines[3]]) == []


#: a step on what another one gives: states that LLVM leaves between, on CDNA3 and CDNA2
STEPPED = [(f"{HALF} v[44:47], v[40:41], v[34:35], v[44:47]", 7),  # its factor
           (f"{HALF} v[44:47], v[34:35], v[42:43], v[44:47]", 7),
           (f"{HALF} v[44:47], v[32:33], v[34:35], v[42:45]", 5)]  # a part of its addend


@pytest.mark.parametrize(("other", "states"), STEPPED)
def test_a_matrix_result_in_the_next_step(other: str, states: int) -> None:
    more = {7: 11, 5: 8}[states]
    for target, count in (("gfx942", states), ("gfx90a", more)):
        old = target == "gfx90a"
        first, second = (x.replace("16_f16", "16f16") if old else x for x in (FULL, other))
        assert findings([first, f"s_nop {count - 1}", second], target) == []
        (message,) = findings([first, f"s_nop {count - 2}", second], target)
        assert "1 wait states before another one ends" in message
    whole = f"{HALF} v[44:47], v[32:33], v[34:35], v[40:43]"
    assert findings([FULL, whole]) == []


def test_what_a_matrix_step_writes_or_adds_to_is_not_overwritten() -> None:
    over = ["v_mov_b32_e32 v40, 0", "global_load_dword v40, v0, s[8:9]"]
    for line in over:
        assert findings([FULL, "s_nop 6", line, "s_waitcnt vmcnt(0)"]) == []
        assert findings([FULL, "s_nop 5", line, "s_waitcnt vmcnt(0)"]) == [
            "v40 is overwritten 1 wait states before its matrix step ends"]
    other = f"{HALF} v[44:47], v[32:33], v[34:35], v[40:43]"
    assert findings([other, "s_nop 2", over[0]]) == []
    assert findings([other, "s_nop 1", over[0]]) == [
        "v40 is overwritten 1 wait states before a matrix step has added to it"]


def test_the_worse_of_two_paths_counts() -> None:
    """A result is handed on whole only where every path made it whole."""
    part = f"{HALF} v[42:45], v[32:33], v[34:35], v[42:45]"
    lines = ["s_cmp_lt_i32 s20, 3", "s_cbranch_scc1 .LBB0_1", FULL, "s_branch .LBB0_2",
             ".LBB0_1:", part, ".LBB0_2:", f"{HALF} v[44:47], v[32:33], v[34:35], v[40:43]"]
    assert any("another one ends" in m for m in findings(lines))
    assert findings([x.replace("v[42:45]", "v[40:43]") for x in lines]) == []


@pytest.mark.parametrize("shift", ["v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64"])
def test_the_last_register_of_gfx90a_shifts_no_64_bits(shift: str) -> None:
    line = f"{shift} v[10:11], v{{}}, v[2:3]"
    (message,) = findings([line.format(15)], "gfx90a")
    assert message == "v15 is the last register, and 64 bits are shifted by it"
    assert findings([line.format(15), "v_mov_b32_e32 v16, v1"], "gfx90a") == []
    assert findings([line.format(14)], "gfx90a") == []
    assert findings([line.format(15)], "gfx942") == []


def test_a_half_of_a_source_is_no_half_of_a_result() -> None:
    for line in ("v_add_f16_e64 v4, v1, v2 op_sel:[1,1,0]",
                 "v_pk_add_f16 v4, v1, v2 op_sel:[0,1] op_sel_hi:[1,1]"):
        assert findings([line, "v_mov_b32_e32 v10, v4"]) == []
