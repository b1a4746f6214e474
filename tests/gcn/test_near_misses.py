"""Kernels that look alike and are not: modifiers, float modes, kinds of NaN, medians of zeros."""

from __future__ import annotations

import numpy as np
import pytest

from checker import api
from checker.replay import replay
from tests.gcn.bench import run, text_of, unmodelled

FACTS = {"grid": [1, 1, 1], "block": [64, 1, 1], "shared": 4096, "args": [
    *({"buffer": n, "dtype": "u32", "elements": 64, "role": "in"} for n in "abc"),
    {"buffer": "out", "dtype": "u32", "elements": 128, "role": "out"}]}

OVERFLOW = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1"
IN_RANGE = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 0"
FP8 = ["v_cvt_pk_fp8_f32 v10, v1, v2"]
QUIET = ["v_max_f32_e32 v4, v1, v1", "v_max_f32_e32 v5, v2, v2"]


def _merged(a: str, b: str) -> list[str]:
    """The engines that call two texts equal."""
    one, other = api.sign(a), api.sign(b)
    maps = [replay(api.program_of(text), FACTS) for text in (a, b)]
    return (["static"] if one.modelled and other.modelled and one.text == other.text else []) + \
        (["launch"] if all(m.usable for m in maps) and maps[0].digest == maps[1].digest else [])


def _through_shared(lines: list[str], value: str) -> list[str]:
    """The maximum of v2 and of what a lane stored in shared memory and reads back."""
    return [*lines, f"ds_write_b32 v0, {value}", "s_waitcnt lgkmcnt(0)", "s_barrier",
            "ds_read_b32 v6, v0", "s_waitcnt lgkmcnt(0)", "v_max_f32_e32 v10, v6, v2"]


def _buffer(second: str, fourth: str = "0x27000") -> list[str]:
    """A load through a descriptor whose second and fourth words are made so."""
    return [second, "s_movk_i32 s10, 0x100", f"s_mov_b32 s11, {fourth}", "s_nop 4",
            "buffer_load_dword v10, v0, s[8:11], 0 offen", "s_waitcnt vmcnt(0)"]


APART = {
    "median with a zero for its top": (
        ["v_med3_f32 v10, v1, -1.0, 0"],
        ["v_max_f32_e32 v4, -1.0, v1", "v_min_f32_e32 v10, 0, v4"]),
    "median of any three": (
        [*QUIET, "v_max_f32_e32 v6, v3, v3", "v_med3_f32 v10, v4, v5, v6"],
        [*QUIET, "v_max_f32_e32 v6, v3, v3", "v_min_f32_e32 v7, v4, v5",
         "v_max_f32_e32 v8, v4, v5", "v_min_f32_e32 v8, v8, v6", "v_max_f32_e32 v10, v7, v8"]),
    "clamp of a packed conversion": (
        ["v_cvt_pkrtz_f16_f32 v10, v1, v2"], ["v_cvt_pkrtz_f16_f32_e64 v10, v1, v2 clamp"]),
    "clamp of a byte": (["v_cvt_f32_ubyte1_e32 v10, v1"], ["v_cvt_f32_ubyte1_e64 v10, v1 clamp"]),
    "halves that overflow to a number": (
        ["v_add_f16_e32 v10, v1, v2"], [OVERFLOW, "v_add_f16_e32 v10, v1, v2"]),
    "bytes that overflow to a number": (FP8, [OVERFLOW, *FP8]),
    "a sign that is flipped, one that is computed": (
        ["v_max_f32_e64 v10, -v1, v2"],
        ["v_mul_f32_e32 v4, -1.0, v1", "v_max_f32_e32 v10, v4, v2"]),
    "one operand made quiet": (
        ["v_max_f32_e32 v10, v1, v2"], ["v_max_f32_e32 v4, v1, v1", "v_max_f32_e32 v10, v4, v2"]),
    "the other operand made quiet": (
        [QUIET[0], "v_max_f32_e32 v10, v4, v2"], [QUIET[1], "v_max_f32_e32 v10, v1, v5"]),
    "made quiet before shared memory": (
        _through_shared([], "v1"), _through_shared(["v_max_f32_e32 v4, v1, v1"], "v4")),
    "a class of signalling NaNs": (
        ["v_cmp_class_f32_e64 s[26:27], v1, 1", "s_nop 4", "v_cndmask_b32_e64 v10, 0, 1, s[26:27]"],
        ["v_max_f32_e32 v4, v1, v1", "v_cmp_class_f32_e64 s[26:27], v4, 1", "s_nop 4",
         "v_cndmask_b32_e64 v10, 0, 1, s[26:27]"]),
    "a half that is loaded where memory is corrected": (
        ["v_mov_b32_e32 v10, v3", "global_load_short_d16 v10, v0, s[8:9]", "s_waitcnt vmcnt(0)"],
        ["v_and_b32_e32 v4, 0xffff0000, v3", "global_load_ushort v5, v0, s[8:9]",
         "s_waitcnt vmcnt(0)", "v_or_b32_e32 v10, v4, v5"]),
    "signs of halves in a dot product": (
        ["v_dot2c_f32_f16 v10, v1, v2"], ["v_dot2c_f32_f16 v10, -v1, v2"]),
    "elements of a buffer in another order": (
        _buffer("s_and_b32 s9, s9, 0xffff"), _buffer("s_or_b32 s9, s9, 0x80000000")),
    "flags of a buffer that the text does not show": (
        _buffer("s_or_b32 s9, s9, s20"), [*_buffer("s_or_b32 s9, s9, s20"), "s_nop 0"]),
    "a buffer that is not there": (
        _buffer("s_and_b32 s9, s9, 0xffff"), _buffer("s_and_b32 s9, s9, 0xffff", "0")),
    "a float as a packed integer": (
        ["v_pk_add_u16 v10, v1, 1.0"], ["v_mov_b32_e32 v4, 0x3c00", "v_pk_add_u16 v10, v1, v4"]),
    "vector instructions that are skipped": (
        ["v_add_f32_e32 v10, v1, v2"],
        ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 1", "v_add_f32_e32 v10, v1, v2"]),
}


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    a, b = (text_of(lines) for lines in APART[name])
    assert api.sign(a).modelled or api.sign(b).modelled or "does not show" in name
    assert _merged(a, b) == []


@pytest.mark.parametrize(("bits", "byte"), [("0,0", 0), ("0,1", 1), ("1,0", 2), ("1,1", 3)])
def test_the_bits_that_select_a_byte_are_reversed(bits: str, byte: int) -> None:
    """LLVM encodes `byte_sel:1` as the second bit of op_sel (RDNA4 ISA, V_CVT_F32_FP8)."""
    values = [run([f"v_cvt_f32_fp8_e64 v10, v1 {how}"], 0x48403830, target="gfx1200")[0][0]
              for how in (f"op_sel:[{bits}]", f"byte_sel:{byte}")]
    assert [int(v) for v in values] == [(0x3F000000, 0x3F800000, 0x40000000, 0x40800000)[byte]] * 2


def test_a_half_that_is_loaded_keeps_the_other_where_memory_is_not_corrected() -> None:
    half, whole = (text_of(lines) for lines in
                   APART["a half that is loaded where memory is corrected"])
    plain = [text.replace("--gfx942", "--gfx942:sramecc-:xnack-") for text in (half, whole)]
    assert _merged(*plain) == ["static", "launch"]
    assert not api.sign(half.replace("--gfx942", "--gfx942:sramecc+:xnack-")).modelled


def test_a_permute_that_reaches_half_a_wave() -> None:
    """Waves of 64 lanes on gfx11: a lane reads within its half."""
    lines = ["v_xor_b32_e32 v4, 0x80, v0", "ds_bpermute_b32 v10, v4, v1", "s_waitcnt lgkmcnt(0)"]
    text = text_of(lines, "gfx1100")
    assert api.sign(text).modelled
    wide = text.replace("wavefront_size32 1", "wavefront_size32 0").replace(
        ".wavefront_size: 32", ".wavefront_size: 64").replace("group_size: 32", "group_size: 64")
    assert not api.sign(wide).modelled


def _doubled(block: int, lane: int) -> str:
    """b[i] = a[i] + a[i], i = block << of the block index + lane << of the lane."""
    return text_of([
        "v_lshrrev_b32_e32 v0, 2, v0", "v_mov_b32_e32 v2, s2", f"v_lshlrev_b32_e32 v2, {block}, v2",
        f"v_lshl_add_u32 v2, v0, {lane}, v2", "v_mov_b32_e32 v3, 0",
        "v_lshlrev_b64 v[2:3], 2, v[2:3]",
        "v_lshl_add_u64 v[4:5], s[8:9], 0, v[2:3]", "v_lshl_add_u64 v[6:7], s[10:11], 0, v[2:3]",
        "global_load_dword v8, v[4:5], off", "s_waitcnt vmcnt(0)", "v_add_f32_e32 v8, v8, v8",
        "global_store_dword v[6:7], v8, off"])


def test_the_lane_and_the_block_exchanged() -> None:
    """Lanes far apart and blocks next to each other are no tile: one grid alone fills the gaps."""
    tile, exchanged = api.sign(_doubled(6, 0)), api.sign(_doubled(0, 6))
    assert tile.modelled
    assert tile.text != exchanged.text


@pytest.mark.parametrize("modes", [0xC0, 0xD0, 0xE0])  # flushed in, out, or both
@pytest.mark.parametrize("line", ["v_max_f32_e64 v10, v1, v1 clamp", "v_min_f32_e64 v10, v1, v1",
                                  "v_max_f32_e64 v10, v1, v2 clamp"])
def test_a_subnormal_that_is_flushed(line: str, modes: int) -> None:
    assert _merged(text_of([line]), text_of([line], mode=modes)) == []
    assert run([line], 9, 9, mode=modes)[0][0] == 0
    assert run([line], 9, 9)[0][0] == 9


def test_overflow_by_the_descriptor() -> None:
    plain = text_of(FP8)
    set_up = plain.replace("\t.amdhsa_ieee_mode", "\t.amdhsa_fp16_overflow 1\n\t.amdhsa_ieee_mode")
    assert set_up != plain
    assert _merged(plain, set_up) == []
    assert _merged(text_of([OVERFLOW, *FP8]), set_up) == ["static", "launch"]


@pytest.mark.parametrize(("a", "b"), [
    ([*QUIET, "v_max_f32_e32 v10, v4, v5"], [*QUIET, "v_max_f32_e32 v10, v5, v4"]),
    (["v_max_f32_e32 v10, v1, v2"], ["v_max_f32_e32 v10, v2, v1"]),
    ([IN_RANGE, "v_add_f16_e32 v10, v1, v2"], ["v_add_f16_e32 v10, v1, v2"]),
    (_through_shared(["v_mul_f32_e32 v4, 1.0, v1", *QUIET[1:], "v_mov_b32_e32 v2, v5"], "v4"),
     _through_shared([*QUIET, "v_mov_b32_e32 v2, v5"], "v4")),
    ([*QUIET, "v_med3_f32 v10, v4, 0, 1.0"], [*QUIET, "v_med3_f32 v10, 0, v4, 1.0"]),
])
def test_alike(a: list[str], b: list[str]) -> None:
    assert "launch" in _merged(text_of(a), text_of(b))


def test_bits_of_what_is_told_apart() -> None:
    """On a signalling NaN, a zero, a large number."""
    loud, zero = np.uint32(0x7FA00000), np.uint32(0x80000000)
    one = np.uint32(0x3F800000)
    assert np.isnan(run(["v_max_f32_e32 v10, v1, v2"], loud, one)[0].view(np.float32)).all()
    kept = run(["v_max_f32_e32 v4, v1, v1", "v_mul_f32_e32 v4, 1.0, v4", "v_max_f32_e32 v5, v2, v2",
                "v_max_f32_e32 v10, v4, v5"], loud, one)
    assert set(kept[0].tolist()) == {int(one)}
    assert set(run(APART["median with a zero for its top"][0], zero)[0].tolist()) == {0}
    assert set(run(APART["median with a zero for its top"][1], zero)[0].tolist()) == {int(zero)}
    assert set(run(["v_cvt_f32_ubyte1_e64 v10, v1 clamp"], 0x700)[0].tolist()) == {int(one)}


@pytest.mark.parametrize("sign", ["-v1", "|v1|"])
def test_signs_of_halves_in_a_dot_product_of_gfx11(sign: str) -> None:
    line = "v_dot2_f16_f16 v10, {}, v2, v3"
    a, b = (text_of([line.format(v)], "gfx1100") for v in ("v1", sign))
    assert api.sign(a).modelled
    assert not api.sign(b).modelled


@pytest.mark.parametrize("dpp", ["row_shr:1 row_mask:0x7 bank_mask:0xf",
                                 "row_shr:1 row_mask:0xf bank_mask:0xf"])
def test_bits_of_a_mask_whose_lanes_dpp_disables(dpp: str) -> None:
    """Nobody says whether they are 0 or kept; where no lane is disabled nothing is open."""
    line, use = "v_cmp_eq_u32_dpp vcc_lo, v1, v2 {}", "v_cndmask_b32_e64 v10, v1, v2, vcc_lo"
    facts = {**FACTS, "block": [32, 1, 1]}
    a, b = (text_of([line.format(dpp), use, *more], "gfx1100") for more in ((), ("s_nop 0",)))
    assert not api.compare(a, b).equal
    assert not replay(api.program_of(a), facts).usable
    whole = "row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"
    a, b = (text_of([line.format(whole), use, *more], "gfx1100") for more in ((), ("s_nop 0",)))
    assert api.compare(a, b).equal
    assert replay(api.program_of(a), facts).usable


def test_a_buffer_offset_that_wraps_is_a_premise() -> None:
    """LLVM leaves no negative offset to the address unit, even where a literal makes up for it."""
    plain = _buffer("s_and_b32 s9, s9, 0xffff")
    load = "buffer_load_dword v10, v4, s[8:11], 0 offen offset:4"
    wraps = [*plain[:4], "v_add_u32_e32 v4, -4, v0", load, plain[-1]]
    a, b = (text_of(lines) for lines in (plain, wraps))
    verdict = api.compare(a, b, launch_a=FACTS)
    assert not verdict.equal or "no-index-wrap" in verdict.premises
    assert "no-index-wrap" in api.program_of(b).premises
    assert "no-index-wrap" not in api.program_of(a).premises


def test_more_selections_than_sources() -> None:
    """`op_sel` of a permute has two; LLVM reads more where they are 0."""
    line = "v_permlane16_b32 v10, v1, s20, s21 op_sel:[{}]"
    assert unmodelled([line.format("1,0,0")], "gfx1100") == []
    assert unmodelled([line.format("1,0,1")], "gfx1100") == ["modifier op_sel:[1,0,1]"]
