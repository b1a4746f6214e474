"""The walk on AMD kernels: buffers addressed by 32-bit offsets, tiles of every width."""

from __future__ import annotations

from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.walk import walk

_ARGS = (("global_buffer", 8), ("global_buffer", 8), ("by_value", 4))


def _text(lines: list[str], waves: int = 1) -> str:
    """The kernel `k(a, out, n)`: a in s[8:9], out in s[10:11], n in s12, block in s2, lane v0."""
    body = ["s_load_dwordx4 s[8:11], s[0:1], 0x0", "s_load_dword s12, s[0:1], 0x10",
            "s_waitcnt lgkmcnt(0)", "v_and_b32_e32 v0, 0x3ff, v0",
            "s_mov_b64 s[24:25], s[8:9]", "s_and_b32 s25, s25, 0xffff",
            "s_mov_b32 s26, 0x7ffffffe", "s_mov_b32 s27, 0x27000",
            "s_mov_b64 s[28:29], s[10:11]", "s_and_b32 s29, s29, 0xffff",
            "s_mov_b32 s30, 0x7ffffffe", "s_mov_b32 s31, 0x27000", *lines, "s_endpgm"]
    offset, args = 0, ""
    for kind, size in _ARGS:
        space = "        .address_space: global\n" if size == 8 else ""
        args += (f"      - .offset: {offset}\n{space}        .size: {size}\n"
                 f"        .value_kind: {kind}\n")
        offset += size
    return ('\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n\t.amdhsa_code_object_version 5\n'
            "\t.text\n\t.globl k\n\t.p2align 8\n\t.type k,@function\nk:\n"
            + "".join(f"\t{x}\n" for x in body)
            + ".Lfunc_end0:\n\t.size k, .Lfunc_end0-k\n\t.section .rodata\n\t.amdhsa_kernel k\n"
            "\t.amdhsa_group_segment_fixed_size 4096\n\t.amdhsa_kernarg_size 24\n"
            "\t.amdhsa_user_sgpr_count 2\n\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n"
            "\t.amdhsa_next_free_vgpr 64\n\t.amdhsa_next_free_sgpr 64\n"
            "\t.amdhsa_float_denorm_mode_32 3\n\t.amdhsa_float_denorm_mode_16_64 3\n"
            "\t.amdhsa_dx10_clamp 1\n\t.amdhsa_ieee_mode 1\n\t.amdhsa_accum_offset 64\n"
            "\t.end_amdhsa_kernel\n\t.text\n\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - .args:\n"
            f"{args}    .kernarg_segment_align: 8\n    .kernarg_segment_size: 24\n"
            "    .group_segment_fixed_size: 4096\n    .private_segment_fixed_size: 0\n"
            f"    .max_flat_workgroup_size: {64 * waves}\n    .name: k\n    .sgpr_count: 64\n"
            "    .symbol: k.kd\n    .uniform_work_group_size: 1\n    .vgpr_count: 64\n"
            "    .wavefront_size: 64\namdhsa.target: amdgcn-amd-amdhsa--gfx942\n"
            "amdhsa.version:\n  - 1\n  - 2\n...\n\t.end_amdgpu_metadata\n")


def _walked(text: str) -> WalkResult:
    return walk(lower(parse(text)))


def _equal(a: str, b: str) -> bool:
    one, two = _walked(a), _walked(b)
    assert one.modelled, (one.gave_up, one.findings, one.opaque)
    assert two.modelled, (two.gave_up, two.findings, two.opaque)
    proved, _reasons = same(one, two)
    assert proved == (one.digest == two.digest)
    return proved


# --- tiles of a buffer ------------------------------------------------------------------------


def _doubled(width: int, waves: int = 1, *, load: int = 0, store: int = 0, cond: str = "gt",
             tile: int = 0) -> str:
    """out[i] = 2 a[i + load] for i < n, `width` floats a lane; one test a lane."""
    name = {1: "dword", 2: "dwordx2", 4: "dwordx4"}[width]
    regs = "v4" if width == 1 else f"v[4:{3 + width}]"
    lines = [f"s_mul_i32 s3, s2, {tile or 64 * waves * width}",
             f"v_mul_u32_u24_e32 v1, {width}, v0", "v_add_u32_e32 v1, s3, v1",
             f"v_cmp_{cond}_i32_e32 vcc, s12, v1", "v_lshlrev_b32_e32 v2, 2, v1",
             "v_bfrev_b32_e32 v3, 1",
             f"v_add_u32_e32 v8, {4 * load}, v2", "v_cndmask_b32_e32 v8, v3, v8, vcc",
             f"v_add_u32_e32 v9, {4 * store}, v2", "v_cndmask_b32_e32 v9, v3, v9, vcc",
             f"buffer_load_{name} {regs}, v8, s[24:27], 0 offen", "s_waitcnt vmcnt(0)",
             *(f"v_add_f32_e32 v{r}, v{r}, v{r}" for r in range(4, 4 + width)),
             f"buffer_store_{name} {regs}, v9, s[28:31], 0 offen"]
    return _text(lines, waves)


def test_the_width_of_a_buffer_access_vanishes() -> None:
    assert _equal(_doubled(2), _doubled(4))
    assert _equal(_doubled(4), _doubled(4, 2))
    assert _equal(_doubled(4), _doubled(2, 4))


def test_other_offsets_or_guards_of_a_buffer_differ() -> None:
    for other in (_doubled(2, load=1), _doubled(2, store=4), _doubled(2, cond="ge"),
                  _doubled(2, tile=64), _doubled(2, cond="lt")):
        assert not _equal(_doubled(4), other)


def test_a_mask_that_is_no_far_offset_keeps_its_range_check() -> None:
    """An offset computed without a mask may leave the descriptor: it is tested as before."""
    masked = _doubled(1)
    bare = masked.replace("v_cndmask_b32_e32 v8, v3, v8, vcc", "s_nop 0")
    small = masked.replace("s_mov_b32 s26, 0x7ffffffe", "s_mov_b32 s26, 0x1000")
    assert not _equal(masked, bare)
    assert not _equal(masked, small)
    assert "buffer-reach" in _walked(masked).premises
    near = masked.replace("v_bfrev_b32_e32 v3, 1", "v_mov_b32_e32 v3, 0x7ffffff8")
    assert not _equal(masked, near) if _walked(near).modelled else True


# --- lane masks and quiet values --------------------------------------------------------------


def _masked(first: str, second: str) -> str:
    """out[i] = a[i] in the lanes of one of two masks, by the sign of n."""
    lines = ["s_mul_i32 s3, s2, 64", "v_add_u32_e32 v1, s3, v0", "v_lshlrev_b32_e32 v2, 2, v1",
             "v_mov_b32_e32 v4, 0", f"s_mov_b64 s[14:15], {first}", "s_cmp_gt_i32 s12, 0",
             "s_cbranch_scc1 .LBB0_1", f"s_mov_b64 s[14:15], {second}", ".LBB0_1:",
             "s_and_saveexec_b64 s[16:17], s[14:15]",
             "buffer_load_dword v4, v2, s[24:27], 0 offen", "s_waitcnt vmcnt(0)",
             "s_mov_b64 exec, s[16:17]", "buffer_store_dword v4, v2, s[28:31], 0 offen"]
    return _text(lines).replace("\t.LBB0_1:", ".LBB0_1:")


def test_a_mask_chosen_by_a_condition_is_known_by_lanes() -> None:
    assert _equal(_masked("-1", "0"), _masked("-1", "0"))
    assert not _equal(_masked("-1", "0"), _masked("0", "-1"))
    assert not _equal(_masked("-1", "0"), _masked("-1", "1"))


def _largest(start: str, before: str = "s_nop 0") -> str:
    """out[i] = the largest of a[i], a[i + 64], ... below n, by max of the canonicalised."""
    lines = ["v_lshlrev_b32_e32 v2, 2, v0", f"v_mov_b32_e32 v4, {start}", "s_mov_b32 s3, 0",
             "s_cmp_lt_i32 s12, 1", "s_cbranch_scc1 .LBB0_2", ".LBB0_1:",
             "v_add_u32_e32 v6, s3, v2", "buffer_load_dword v5, v6, s[24:27], 0 offen",
             "s_waitcnt vmcnt(0)", "v_add_f32_e32 v5, v5, v5", before,
             "v_max_f32_e32 v4, v4, v5", "s_add_i32 s3, s3, 256", "s_cmp_lt_i32 s3, s12",
             "s_cbranch_scc1 .LBB0_1", ".LBB0_2:",
             "v_lshl_add_u32 v7, s2, 8, v2", "buffer_store_dword v4, v7, s[28:31], 0 offen"]
    return _text(lines).replace("\t.LBB0_", ".LBB0_")


def test_a_running_maximum_is_no_signalling_nan() -> None:
    """Quieting what is quiet changes nothing; a start that signals is refused."""
    quieted = "v_max_f32_e32 v4, v4, v4"
    assert _equal(_largest("0xff800000"), _largest("0xff800000", quieted))
    assert not _equal(_largest("0xff800000"), _largest("0"))
    assert not _walked(_largest("0xffa00000")).modelled


# --- masks further back, pointers in two parts ------------------------------------------------


def _far_back(mask: str = "gt", far: str = "0x80000000") -> str:
    """out[i] = 2 a[i] for i < n; the mask moves the offset in a block before the access."""
    lines = ["s_mul_i32 s3, s2, 64", "v_add_u32_e32 v1, s3, v0",
             f"v_cmp_{mask}_i32_e32 vcc, s12, v1", "v_lshlrev_b32_e32 v2, 2, v1",
             f"v_mov_b32_e32 v3, {far}", "v_cndmask_b32_e32 v8, v3, v2, vcc",
             "s_cmp_eq_u32 s12, 7", "s_cbranch_scc1 .LBB0_1", "s_nop 0", ".LBB0_1:",
             "buffer_load_dword v4, v8, s[24:27], 0 offen", "s_waitcnt vmcnt(0)",
             "v_add_f32_e32 v4, v4, v4", "buffer_store_dword v4, v8, s[28:31], 0 offen"]
    return _text(lines).replace("\t.LBB0_1:", ".LBB0_1:")


def test_a_mask_in_an_earlier_block_is_the_mask() -> None:
    assert _equal(_far_back(), _doubled(1))
    assert not _equal(_far_back("ge"), _doubled(1))
    near = _walked(_far_back(far="0x1000"))  # in range: those lanes load, and store
    assert near.digest != _walked(_doubled(1)).digest
