"""Exchange between lanes: DPP, swizzles, permutes, lane reads; under full and partial exec."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.gcn.bench import run, unmodelled

L = np.arange(64, dtype=np.uint32)
V = L * 7 + 1000


def _shift(lanes: np.ndarray, valid: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda v: np.where(valid, v[lanes % 64], 0)


ROW = L // 16 * 16
DPP: list[tuple[str, np.ndarray, np.ndarray]] = [
    ("row_shr:1", np.maximum(L, 1) - 1, L % 16 >= 1),
    ("row_shr:8", np.maximum(L, 8) - 8, L % 16 >= 8),
    ("row_shl:3", np.minimum(L + 3, 63), L % 16 < 13),
    ("row_ror:5", ROW + (L + 11) % 16, L >= 0),
    ("row_mirror", L ^ 15, L >= 0),
    ("row_half_mirror", L ^ 7, L >= 0),
    ("quad_perm:[2,3,0,1]", L ^ 2, L >= 0),
    ("quad_perm:[3,3,1,0]", L // 4 * 4 + np.array([3, 3, 1, 0], dtype=np.uint32)[L % 4], L >= 0),
    ("row_bcast:15", np.maximum(ROW, 1) - 1, L >= 16),
    ("row_bcast:31", 31 + 0 * L, L >= 32),
    ("row_newbcast:6", ROW + 6, L >= 0),
    ("wave_shr:1", np.maximum(L, 1) - 1, L >= 1),
    ("wave_ror:1", (L + 63) % 64, L >= 0),
]


@pytest.mark.parametrize(("control", "lane", "valid"), DPP, ids=[d[0] for d in DPP])
def test_dpp_zeroes_missing_sources(control: str, lane: np.ndarray, valid: np.ndarray) -> None:
    text = f"v_mov_b32_dpp v10, v1 {control} row_mask:0xf bank_mask:0xf bound_ctrl:1"
    got, _ = run(["s_nop 1", text], V)
    assert got.tolist() == np.where(valid, V[lane], 0).tolist()


@pytest.mark.parametrize(("control", "lane", "valid"), DPP, ids=[d[0] for d in DPP])
def test_dpp_keeps_the_old_value_without_bound_ctrl(control: str, lane: np.ndarray,
                                                    valid: np.ndarray) -> None:
    text = f"v_mov_b32_dpp v10, v1 {control} row_mask:0xf bank_mask:0xf"
    got, _ = run(["v_mov_b32_e32 v10, v2", "s_nop 1", text], V, L + 5)
    assert got.tolist() == np.where(valid, V[lane], L + 5).tolist()


def test_dpp_row_and_bank_masks_select_lanes() -> None:
    text = "v_add_u32_dpp v10, v1, v2 quad_perm:[1,0,3,2] row_mask:0xa bank_mask:0x3 bound_ctrl:1"
    got, _ = run(["v_mov_b32_e32 v10, 7", "s_nop 1", text], V, L)
    written = ((0xA >> (L // 16)) & 1 == 1) & ((0x3 >> (L % 16 // 4)) & 1 == 1)
    assert got.tolist() == np.where(written, V[L ^ 1] + L, 7).tolist()


def test_bound_ctrl_zero_means_zero_before_gfx11_and_keep_from_gfx11() -> None:
    text = "v_mov_b32_dpp v10, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0"
    old, _ = run(["v_mov_b32_e32 v10, 9", "s_nop 1", text], V)
    new, _ = run(["v_mov_b32_e32 v10, 9", text], V[:32], target="gfx1100")
    assert (old[16], new[16]) == (0, 9)


def test_dpp_source_lane_that_is_off_counts_as_missing() -> None:
    lines = ["s_mov_b64 s[24:25], 0x55555555", "s_mov_b64 s[26:27], exec",
             "s_and_b64 exec, exec, s[24:25]", "s_nop 4",
             "v_mov_b32_dpp v10, v1 quad_perm:[1,1,2,2] row_mask:0xf bank_mask:0xf bound_ctrl:1",
             "s_mov_b64 exec, s[26:27]"]
    got, _ = run(["v_mov_b32_e32 v10, 5", *lines], V)
    # lanes 0 and 2 of each quad are on; lane 1, the first one's source, is off
    want = [0 if i % 4 == 0 and i < 32 else V[i] if i % 4 == 2 and i < 32 else 5 for i in range(64)]
    assert got.tolist() == want


SWIZZLES = [("swizzle(SWAP,1)", L ^ 1), ("swizzle(SWAP,16)", L ^ 16), ("swizzle(REVERSE,8)", L ^ 7),
            ("swizzle(BROADCAST,8,3)", L // 8 * 8 + 3),
            ("swizzle(QUAD_PERM,1,0,3,2)", L ^ 1), ('swizzle(BITMASK_PERM,"i0p1p")', None),
            ("0x401f", L ^ 16)]


@pytest.mark.parametrize(("pattern", "lane"), SWIZZLES, ids=[s[0] for s in SWIZZLES])
def test_swizzle(pattern: str, lane: np.ndarray | None) -> None:
    got, _ = run([f"ds_swizzle_b32 v10, v1 offset:{pattern}", "s_waitcnt lgkmcnt(0)"], V)
    if lane is None:  # i0p1p: bit 4 flipped, bit 3 cleared, bit 2 kept, bit 1 set, bit 0 kept
        lane = L // 32 * 32 + ((L % 32 ^ 16) & ~np.uint32(8) | 2)
    assert got.tolist() == V[lane].tolist()


def test_bpermute_and_lane_access() -> None:
    lines = ["v_lshlrev_b32_e32 v4, 2, v2", "ds_bpermute_b32 v10, v4, v1", "s_waitcnt lgkmcnt(0)",
             "v_readlane_b32 s24, v1, 17", "s_nop 1", "v_mov_b32_e32 v11, s24",
             "v_writelane_b32 v11, s20, 5"]
    got, other = run(lines, V, 63 - L)
    assert got.tolist() == V[63 - L].tolist()
    want = [V[17]] * 64
    want[5] = V[0]
    assert other.tolist() == want


def test_readfirstlane_takes_the_lowest_active_lane() -> None:
    lines = ["s_mov_b64 s[24:25], exec", "v_cmp_lt_u32_e32 vcc, 20, v2",
             "s_and_b64 exec, exec, vcc",
             "v_readfirstlane_b32 s26, v1", "s_mov_b64 exec, s[24:25]", "s_nop 0",
             "v_mov_b32_e32 v10, s26"]
    got, _ = run(lines, V, L)
    assert got[0] == V[21]


def test_permlane16_and_swaps() -> None:
    lines = ["s_mov_b32 s24, 0x76543210", "s_mov_b32 s25, 0xfedcba98",
             "v_permlanex16_b32 v10, v1, s24, s25", "v_permlane16_b32 v11, v1, s25, s24"]
    got, other = run(lines, V[:32], target="gfx1100")
    assert got.tolist() == V[:32][L[:32] ^ 16].tolist()
    assert other.tolist() == V[:32][L[:32] ^ 8].tolist()
    lines = ["v_mov_b32_e32 v10, v1", "v_mov_b32_e32 v11, v2", "s_nop 1",
             "v_permlane32_swap_b32_e32 v10, v11"]
    x, y = run(lines, V, L + 500, target="gfx950")
    assert x.tolist() == np.where(L < 32, V, (L + 500)[L ^ 32]).tolist()
    assert y.tolist() == np.where(L < 32, V[L ^ 32], L + 500).tolist()


def test_mbcnt_counts_lanes_below() -> None:
    lines = ["v_mbcnt_lo_u32_b32 v10, -1, 0", "v_mbcnt_hi_u32_b32 v10, -1, v10",
             "s_mov_b32 s24, 0x0f0f", "v_mbcnt_lo_u32_b32 v11, s24, 3"]
    lane, below = run(lines)
    assert lane.tolist() == L.tolist()
    assert below.tolist() == [3 + (0x0F0F & ((1 << min(i, 32)) - 1)).bit_count() for i in range(64)]


def test_spilled_scalars_come_back() -> None:
    lines = ["v_writelane_b32 v40, s20, 3", "v_writelane_b32 v40, s21, 4", "s_mov_b32 s20, 0",
             "v_readlane_b32 s30, v40, 3", "v_readlane_b32 s31, v40, 4", "s_nop 1",
             "v_mov_b32_e32 v10, s30", "v_mov_b32_e32 v11, s31"]
    got, other = run(lines, 123, 456)
    assert (got[9], other[9]) == (123, 456)


def test_unknown_dpp_control_is_refused() -> None:
    text = "v_mov_b32_dpp v10, v1 row_bcast:7 row_mask:0xf bank_mask:0xf"
    assert unmodelled(["s_nop 1", text]) == ["DPP control row_bcast:7"]
