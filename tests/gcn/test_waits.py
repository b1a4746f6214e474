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
     ["s_nop 0", ""], "v4 is read by a lane read right after its vector write"),
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
         ("gfx942", "16x16x32_fp8_fp8", 43, 7), ("gfx950", "32x32x8_bf16", 55, 11),
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
    overwritten = [*lines[:3], "v_mov_b32_e32 v40, 0", *lines[3:]]
    assert findings(overwritten) == []
