"""Memory rows: LDS, buffers with range checks, widths, halves, scratch, arguments, atomics."""

from __future__ import annotations

import numpy as np
import pytest

from checker.gcn.lower import lower_gcn
from checker.gcn.parser import parse_gcn
from checker.replay import replay
from tests.gcn.bench import program_of, run, text_of, unmodelled

L = np.arange(64, dtype=np.uint32)
V = L * 0x01010101 + 0x80


def test_lds_write_and_read_through_a_barrier() -> None:
    lines = ["ds_write_b32 v0, v1", "s_waitcnt lgkmcnt(0)", "s_barrier",
             "v_xor_b32_e32 v4, 0xfc, v0",
             "ds_read_b32 v10, v4", "ds_read_u8 v11, v0 offset:1", "s_waitcnt lgkmcnt(0)"]
    got, byte = run(lines, V)
    assert got.tolist() == V[63 - L].tolist()
    assert byte.tolist() == ((V >> 8) & 255).tolist()


def test_lanes_may_exchange_between_the_halves_of_a_barrier() -> None:
    lines = ["ds_store_b32 v0, v1", "s_wait_dscnt 0x0", "s_barrier_signal -1",
             "ds_bpermute_b32 v10, v0, v2", "s_wait_dscnt 0x0", "s_barrier_wait -1",
             "ds_load_b32 v11, v0", "s_wait_dscnt 0x0"]
    assert unmodelled(lines, "gfx1200") == []
    got = run(lines, 7, L[:32] * 3, target="gfx1200")
    assert got[0].tolist() == (L[:32] * 3).tolist()
    assert got[1].tolist() == [7] * 32
    for access in ("ds_load_b32 v10, v0", "ds_store_b32 v0, v2",
                   "global_load_b32 v10, v0, s[8:9]"):
        assert unmodelled([access if "bpermute" in x else x for x in lines], "gfx1200")


def test_lds_pairs_and_strides() -> None:
    lines = ["ds_write2st64_b32 v0, v1, v2 offset0:1 offset1:2", "s_waitcnt lgkmcnt(0)",
             "s_barrier",
             "ds_read2st64_b32 v[10:11], v0 offset0:2 offset1:1", "s_waitcnt lgkmcnt(0)"]
    got, other = run(lines, V, L)
    assert (got.tolist(), other.tolist()) == (L.tolist(), V.tolist())


def test_halves_are_loaded_and_stored_in_place() -> None:
    lines = ["ds_write_b16_d16_hi v0, v1", "ds_write_b16 v0, v1 offset:2", "s_waitcnt lgkmcnt(0)",
             "v_mov_b32_e32 v10, v2", "ds_read_u16_d16_hi v10, v0", "v_mov_b32_e32 v11, v2",
             "ds_read_u16_d16 v11, v0", "s_waitcnt lgkmcnt(0)"]
    got, other = run(lines, V[:32], L[:32], target="gfx1030")
    assert got.tolist() == (V & 0xFFFF0000 | L & 0xFFFF)[:32].tolist()
    assert other.tolist() == (V >> 16 | L & 0xFFFF0000)[:32].tolist()


def test_signed_small_loads_extend() -> None:
    lines = ["global_load_sbyte v10, v0, s[8:9]", "global_load_ushort v11, v0, s[8:9] offset:2",
             "s_waitcnt vmcnt(0)"]
    got, other = run(lines, V)
    assert got.tolist() == [(int(x) & 255) - 2 * (int(x) & 128) & 0xFFFFFFFF for x in V]
    assert other.tolist() == (V >> 16).tolist()


DESCRIPTOR = ["s_mov_b64 s[24:25], s[8:9]", "s_and_b32 s25, s25, 0xffff", "s_mov_b32 s27, 0x27000"]


def test_buffer_load_out_of_range_is_zero() -> None:
    lines = [*DESCRIPTOR, "s_movk_i32 s26, 0x80", "v_mov_b32_e32 v10, 9",
             "buffer_load_dword v10, v0, s[24:27], 0 offen", "s_waitcnt vmcnt(0)"]
    got, _ = run(lines, V)
    assert got.tolist() == np.where(L < 32, V, 0).tolist()


def test_triton_mask_by_a_far_offset_becomes_a_guard() -> None:
    lines = [*DESCRIPTOR, "s_mov_b32 s26, 0x7ffffffe", "v_bfrev_b32_e32 v4, 1",
             "v_cmp_gt_u32_e32 vcc, 40, v2", "s_nop 1", "v_cndmask_b32_e32 v4, v4, v0, vcc",
             "buffer_load_dword v10, v4, s[24:27], 0 offen offset:4", "s_waitcnt vmcnt(0)"]
    lines[-2] = lines[-2].replace(" offset:4", "")
    got, _ = run(lines, V, L)
    assert got.tolist() == np.where(L < 40, V, 0).tolist()
    load = [op for op in program_of(lines).ops if op.name == "load"][-1]
    assert load.guard is not None


def test_buffer_store_out_of_range_is_dropped() -> None:
    lines = ["s_mov_b64 s[24:25], s[14:15]", "s_and_b32 s25, s25, 0xffff", "s_movk_i32 s26, 0x120",
             "s_mov_b32 s27, 0x27000", "v_mov_b32_e32 v11, 3",
             "global_store_dword v0, v11, s[14:15] offset:256", "s_waitcnt vmcnt(0)",
             "v_mov_b32_e32 v4, 8",
             "buffer_store_dword v4, v0, s[24:27], 0 offen offset:256", "s_waitcnt vmcnt(0)",
             "global_load_dword v11, v0, s[14:15] offset:256", "s_waitcnt vmcnt(0)"]
    _, other = run(lines, V)
    assert other.tolist() == [8] * 8 + [3] * 56


def test_descriptor_flags_must_be_plain() -> None:
    lines = [*DESCRIPTOR[:2], "s_movk_i32 s26, 0x80", "s_mov_b32 s27, 0x827000",
             "buffer_load_dword v10, v0, s[24:27], 0 offen", "s_waitcnt vmcnt(0)"]
    assert unmodelled(lines) == ["buffer descriptor flags"]  # adds the thread id
    lines[3] = "s_mov_b32 s27, s21"
    got, _ = run(lines, V, 0x27000)
    assert got.tolist() == np.where(L < 32, V, 0).tolist()
    with pytest.raises(AssertionError):
        run(lines, V, 0x827000)


def test_structured_buffers_are_refused() -> None:
    lines = [*DESCRIPTOR, "s_movk_i32 s26, 0x80", "buffer_load_dword v10, v0, s[24:27], 0 idxen"]
    assert unmodelled(lines) == ["structured buffer access"]


def test_scratch_is_private_to_the_lane() -> None:
    lines = ["v_mov_b32_e32 v4, 0", "scratch_store_dword v4, v1, off offset:8",
             "scratch_load_dword v10, v4, off offset:8", "s_waitcnt vmcnt(0)"]
    assert run(lines, V)[0].tolist() == V.tolist()


def test_integer_atomics_in_lds() -> None:
    lines = ["v_mov_b32_e32 v4, 0", "v_mov_b32_e32 v5, 0", "ds_write_b32 v4, v5",
             "s_waitcnt lgkmcnt(0)", "s_barrier", "ds_add_u32 v4, v1", "s_waitcnt lgkmcnt(0)",
             "s_barrier", "ds_read_b32 v10, v4", "s_waitcnt lgkmcnt(0)"]
    assert run(lines, L)[0][3] == 64 * 63 // 2


def test_scalar_load_of_arguments_is_by_offset() -> None:
    program = program_of(["s_load_dwordx2 s[24:25], s[0:1], 0x8", "s_waitcnt lgkmcnt(0)",
                          "v_mov_b32_e32 v10, s24"])
    loads = [op.attr for op in program.ops if op.name == "load" and op.attr.space == "param"]
    assert {(m.offset_bytes, m.width_bits) for m in loads} >= {(8, 64)}
    assert [p.offset_bytes for p in program.params] == [0, 8, 16, 24]


def test_moved_argument_pointer_is_followed() -> None:
    lines = ["s_add_u32 s24, s0, 8", "s_addc_u32 s25, s1, 0", "s_load_dword s26, s[24:25], 0x4",
             "s_waitcnt lgkmcnt(0)", "v_mov_b32_e32 v10, s26"]
    program = program_of(lines)
    assert not [op for op in program.ops if op.name == "load" and op.attr.space == "global"
                and not isinstance(op.src[0], int)]
    assert "opaque" not in [op.name for op in program.ops]


def _sums(low: str, high: str) -> list[str]:
    """What an address made of s[4:5] and a shifted index is put together from."""
    program = program_of(["s_load_dwordx2 s[4:5], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)",
                          "s_ashr_i32 s19, s2, 31", "s_mov_b32 s18, s2",
                          "s_lshl_b64 s[18:19], s[18:19], 2", low, high,
                          "s_load_dword s26, s[18:19], 0x0", "s_waitcnt lgkmcnt(0)",
                          "v_mov_b32_e32 v10, s26"])
    return sorted(op.name for op in program.ops if op.name in ("iadd", "pack", "extract"))


def test_the_low_halves_of_a_sum_may_stand_in_either_order() -> None:
    first = _sums("s_add_u32 s18, s4, s18", "s_addc_u32 s19, s5, s19")
    assert _sums("s_add_u32 s18, s18, s4", "s_addc_u32 s19, s5, s19") == first
    assert _sums("s_add_u32 s18, s18, s4", "s_addc_u32 s19, s19, s5") == first


def test_preloaded_arguments_are_arguments() -> None:
    text = text_of(["v_mov_b32_e32 v10, s4"]).replace(
        ".amdhsa_user_sgpr_count 2", ".amdhsa_user_sgpr_count 6").replace(
        ".amdhsa_user_sgpr_kernarg_segment_ptr 1", ".amdhsa_user_sgpr_kernarg_segment_ptr 1\n"
        "\t.amdhsa_user_sgpr_kernarg_preload_length 4\n"
        "\t.amdhsa_user_sgpr_kernarg_preload_offset 0")
    program = lower_gcn(parse_gcn(text))
    loads = [op.attr.offset_bytes for op in program.ops if op.name == "load"
             and op.attr.space == "param"]
    assert 8 in loads


@pytest.mark.parametrize("text", [
    "global_load_dword v[10:11], v0, s[8:9]", "global_load_dwordx4 v[10:11], v0, s[8:9]",
    "ds_write_b64 v0, v1", "buffer_load_dword v10, v0, s[24:25], 0 offen",
    "global_store_dwordx2 v0, v[1:3], s[14:15]", "s_load_dwordx2 s[24:27], s[0:1], 0x0"])
def test_wrong_register_counts_are_refused(text: str) -> None:
    assert unmodelled([text]) != []


@pytest.mark.parametrize(("threads", "found"), [(64, ()), (128, ("race-overwrite",))])
def test_lanes_of_a_wave_go_in_lockstep(threads: int, found: tuple[str, ...]) -> None:
    """A lane overwrites what its neighbour, or the next wave's lane, has read: out[i ^ far]."""
    far = "0x4" if threads == 64 else "0x100"
    lines = [f"v_xor_b32_e32 v4, {far}, v0", "global_load_dword v10, v4, s[14:15]",
             "s_waitcnt vmcnt(0)", "v_add_u32_e32 v10, v10, v10"]
    text = text_of(lines).replace(".max_flat_workgroup_size: 64",
                                  f".max_flat_workgroup_size: {threads}")
    buffers = [{"buffer": n, "dtype": "u32", "elements": 256, "role": r}
               for n, r in (("a", "in"), ("b", "in"), ("c", "in"), ("out", "inout"))]
    result = replay(lower_gcn(parse_gcn(text.replace(
        "global_store_dword v0, v11, s[14:15] offset:256", ""))),
        {"grid": [1, 1, 1], "block": [threads, 1, 1], "args": buffers})
    assert tuple({x.code for x in result.findings}) == found
    assert result.unsupported is None
    assert "warp-order" not in result.premises


@pytest.mark.parametrize(("stores", "found"), [("0x100", ()), ("0x200", ("race-overwrite",))])
def test_an_idle_wave_may_read_what_another_overwrites(stores: str, found: tuple[str, ...]) -> None:
    """Both waves load out[i & 63]; the second one stores what it makes of it, or nothing."""
    lines = ["v_and_b32_e32 v4, 0xff, v0", "global_load_dword v10, v4, s[14:15]",
             "s_waitcnt vmcnt(0)", "v_add_u32_e32 v10, v10, v10",
             f"v_cmp_gt_u32_e32 vcc, {stores}, v0", "s_and_b64 exec, exec, vcc"]
    text = text_of(lines).replace(".max_flat_workgroup_size: 64", ".max_flat_workgroup_size: 128")
    buffers = [{"buffer": n, "dtype": "u32", "elements": 256, "role": r}
               for n, r in (("a", "in"), ("b", "in"), ("c", "in"), ("out", "inout"))]
    result = replay(lower_gcn(parse_gcn(text.replace(
        "global_store_dword v0, v11, s[14:15] offset:256", ""))),
        {"grid": [1, 1, 1], "block": [128, 1, 1], "args": buffers})
    assert tuple({x.code for x in result.findings}) == found
    assert result.unsupported is None
