"""Integer, bit and scalar rows against independent models on edge values, every lane a case."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.gcn.bench import run

EDGES = [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
         0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x12345678, 0xDEADBEEF, 0x00FF00FF]
_RNG = np.random.default_rng(7)


def _values(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    picked = rng.choice(np.array(EDGES, dtype=np.uint64), 40)
    return np.concatenate([picked, rng.integers(0, 1 << 32, 24, dtype=np.uint64)])


A, B, C = _values(1), _values(2), _values(3)


def s32(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


def s16(x: int) -> int:
    x &= 0xFFFF
    return x - (1 << 16) if x >> 15 else x


def s24(x: int) -> int:
    x &= 0xFFFFFF
    return x - (1 << 24) if x >> 23 else x


def clz(x: int) -> int:
    return 32 - x.bit_length() if x else 0xFFFFFFFF


def ctz(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else 0xFFFFFFFF


def perm(hi: int, lo: int, sel: int) -> int:
    data = lo | hi << 32
    out = 0
    for i in range(4):
        code = sel >> (8 * i) & 255
        if code < 8:
            byte = data >> (8 * code) & 255
        elif code < 12:
            byte = 255 * (data >> (15 + 16 * (code - 8)) & 1)
        else:
            byte = 0 if code == 12 else 255
        out |= byte << (8 * i)
    return out


def signed_field(x: int, at: int, n: int) -> int:
    if n == 0:
        return 0
    if at + n >= 32:
        return s32(x) >> at
    value = x >> at & ((1 << n) - 1)
    return value - (1 << n) if value >> (n - 1) else value


Model = Callable[[int, int, int], int]
M = 0xFFFFFFFF
VECTOR: list[tuple[str, Model]] = [
    ("v_mov_b32_e32 v10, v1", lambda a, b, c: a),
    ("v_not_b32_e32 v10, v1", lambda a, b, c: ~a),
    ("v_and_b32_e32 v10, v1, v2", lambda a, b, c: a & b),
    ("v_or_b32_e32 v10, v1, v2", lambda a, b, c: a | b),
    ("v_xor_b32_e32 v10, v1, v2", lambda a, b, c: a ^ b),
    ("v_xnor_b32_e32 v10, v1, v2", lambda a, b, c: ~(a ^ b)),
    ("v_and_or_b32 v10, v1, v2, v3", lambda a, b, c: a & b | c),
    ("v_or3_b32 v10, v1, v2, v3", lambda a, b, c: a | b | c),
    ("v_xad_u32 v10, v1, v2, v3", lambda a, b, c: (a ^ b) + c),
    ("v_add3_u32 v10, v1, v2, v3", lambda a, b, c: a + b + c),
    ("v_lshl_add_u32 v10, v1, v2, v3", lambda a, b, c: (a << (b & 31)) + c),
    ("v_add_lshl_u32 v10, v1, v2, v3", lambda a, b, c: ((a + b) & M) << (c & 31)),
    ("v_lshl_or_b32 v10, v1, v2, v3", lambda a, b, c: a << (b & 31) & M | c),
    ("v_bfi_b32 v10, v1, v2, v3", lambda a, b, c: a & b | ~a & c),
    ("v_bfe_u32 v10, v1, v2, v3", lambda a, b, c: (a >> (b & 31)) & ((1 << (c & 31)) - 1)),
    ("v_bfe_i32 v10, v1, v2, v3", lambda a, b, c: signed_field(a, b & 31, c & 31)),
    ("v_bfm_b32 v10, v1, v2", lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31)),
    ("v_bfrev_b32_e32 v10, v1", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    ("v_bcnt_u32_b32 v10, v1, v2", lambda a, b, c: a.bit_count() + b),
    ("v_ffbh_u32_e32 v10, v1", lambda a, b, c: clz(a)),
    ("v_ffbl_b32_e32 v10, v1", lambda a, b, c: ctz(a)),
    ("v_ffbh_i32_e32 v10, v1", lambda a, b, c: clz(a ^ M if a >> 31 else a)),
    ("v_lshlrev_b32_e32 v10, v1, v2", lambda a, b, c: b << (a & 31)),
    ("v_lshrrev_b32_e32 v10, v1, v2", lambda a, b, c: b >> (a & 31)),
    ("v_ashrrev_i32_e32 v10, v1, v2", lambda a, b, c: s32(b) >> (a & 31)),
    ("v_alignbit_b32 v10, v1, v2, v3", lambda a, b, c: (a << 32 | b) >> (c & 31)),
    ("v_alignbit_b32 v10, v1, v2, 16", lambda a, b, c: (a << 32 | b) >> 16),
    ("v_alignbyte_b32 v10, v1, v2, v3", lambda a, b, c: (a << 32 | b) >> (8 * (c & 3))),
    ("v_add_u32_e32 v10, v1, v2", lambda a, b, c: a + b),
    ("v_sub_u32_e32 v10, v1, v2", lambda a, b, c: a - b),
    ("v_subrev_u32_e32 v10, v1, v2", lambda a, b, c: b - a),
    ("v_add_u32_e64 v10, v1, v2 clamp", lambda a, b, c: min(a + b, M)),
    ("v_sub_u32_e64 v10, v1, v2 clamp", lambda a, b, c: max(a - b, 0)),
    ("v_mul_lo_u32 v10, v1, v2", lambda a, b, c: a * b),
    ("v_mul_hi_u32 v10, v1, v2", lambda a, b, c: a * b >> 32),
    ("v_mul_hi_i32 v10, v1, v2", lambda a, b, c: s32(a) * s32(b) >> 32),
    ("v_mul_u32_u24_e32 v10, v1, v2", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    ("v_mul_i32_i24_e32 v10, v1, v2", lambda a, b, c: s24(a) * s24(b)),
    ("v_mul_hi_u32_u24_e32 v10, v1, v2", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    ("v_mad_u32_u24 v10, v1, v2, v3", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    ("v_mad_i32_i24 v10, v1, v2, v3", lambda a, b, c: s24(a) * s24(b) + c),
    ("v_mad_u32_u16 v10, v1, v2, v3", lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c),
    ("v_min_u32_e32 v10, v1, v2", lambda a, b, c: min(a, b)),
    ("v_max_u32_e32 v10, v1, v2", lambda a, b, c: max(a, b)),
    ("v_min_i32_e32 v10, v1, v2", lambda a, b, c: min(s32(a), s32(b))),
    ("v_max_i32_e32 v10, v1, v2", lambda a, b, c: max(s32(a), s32(b))),
    ("v_min3_u32 v10, v1, v2, v3", lambda a, b, c: min(a, b, c)),
    ("v_max3_i32 v10, v1, v2, v3", lambda a, b, c: max(s32(a), s32(b), s32(c))),
    ("v_med3_u32 v10, v1, v2, v3", lambda a, b, c: sorted((a, b, c))[1]),
    ("v_med3_i32 v10, v1, v2, v3", lambda a, b, c: sorted(map(s32, (a, b, c)))[1]),
    ("v_sad_u32 v10, v1, v2, v3", lambda a, b, c: abs(a - b) + c),
    ("v_cvt_pk_u16_u32 v10, v1, v2", lambda a, b, c: min(a, 65535) | min(b, 65535) << 16),
    ("v_perm_b32 v10, v1, v2, s23", lambda a, b, c: perm(a, b, 0x07050100)),
    ("v_add_u16_e32 v10, v1, v2", lambda a, b, c: (a + b) & 0xFFFF),
    ("v_mul_lo_u16_e32 v10, v1, v2", lambda a, b, c: (a * b) & 0xFFFF),
    ("v_lshrrev_b16_e32 v10, v1, v2", lambda a, b, c: (b & 0xFFFF) >> (a & 15)),
    ("v_ashrrev_i16_e32 v10, v1, v2", lambda a, b, c: s16(b) >> (a & 15) & 0xFFFF),
    ("v_max_i16_e32 v10, v1, v2", lambda a, b, c: max(s16(a), s16(b)) & 0xFFFF),
    ("v_pk_add_u16 v10, v1, v2",
     lambda a, b, c: (a + b) & 0xFFFF | ((a >> 16) + (b >> 16) & 0xFFFF) << 16),
    ("v_pk_lshlrev_b16 v10, v1, v2",
     lambda a, b, c: b << (a & 15) & 0xFFFF | ((b >> 16) << (a >> 16 & 15) & 0xFFFF) << 16),
    ("v_pk_mul_lo_u16 v10, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]",
     lambda a, b, c: (a >> 16) * b & 0xFFFF | (a * (b >> 16) & 0xFFFF) << 16),
    ("v_dot4_u32_u8 v10, v1, v2, v3", lambda a, b, c: sum(
        (a >> 8 * i & 255) * (b >> 8 * i & 255) for i in range(4)) + c),
    ("v_and_b32_sdwa v10, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 "
     "src1_sel:BYTE_2", lambda a, b, c: (a >> 16) & (b >> 16 & 255)),
    ("v_add_u32_sdwa v10, v1, sext(v2) dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD "
     "src1_sel:BYTE_0", lambda a, b, c: ((a + (b & 255) - 2 * (b & 128)) & 255) << 8),
    ("v_cvt_f32_ubyte2_e32 v10, v1",
     lambda a, b, c: int(np.float32(a >> 16 & 255).view(np.uint32))),
]


@pytest.mark.parametrize(("text", "model"), VECTOR, ids=[t.split()[0] for t, _ in VECTOR])
def test_vector(text: str, model: Model) -> None:
    got, _ = run(["s_mov_b32 s23, 0x7050100", text], A, B, C)
    want = [model(int(a), int(b), int(c)) & M for a, b, c in zip(A, B, C, strict=True)]
    assert got.tolist() == want


PAIRS: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("v_add_co_u32_e32 v10, vcc, v1, v2\ns_nop 1\nv_addc_co_u32_e32 v11, vcc, v3, v1, vcc",
     lambda a, b, c: (a | c << 32) + (b | a << 32)),
    ("v_mov_b32_e32 v4, v1\nv_mov_b32_e32 v5, v2\nv_lshlrev_b64 v[4:5], 1, v[4:5]\n"
     "v_add_co_u32_e32 v10, vcc, v3, v4\ns_nop 1\nv_addc_co_u32_e32 v11, vcc, v5, v1, vcc",
     lambda a, b, c: ((a | b << 32) << 1) + (c | a << 32)),
    ("v_sub_co_u32_e32 v10, vcc, v1, v2\ns_nop 1\nv_subb_co_u32_e32 v11, vcc, v3, v1, vcc",
     lambda a, b, c: (a | c << 32) - (b | a << 32)),
    ("v_mov_b32_e32 v4, v1\nv_mov_b32_e32 v5, v2\nv_lshl_add_u64 v[10:11], v[4:5], 3, v[4:5]",
     lambda a, b, c: 9 * (a | b << 32)),
    ("v_mov_b32_e32 v4, v3\nv_mov_b32_e32 v5, v2\nv_mad_u64_u32 v[10:11], s[30:31], v1, v2, v[4:5]",
     lambda a, b, c: a * b + (c | b << 32)),
    ("v_mov_b32_e32 v4, v3\nv_mov_b32_e32 v5, v2\nv_mad_i64_i32 v[10:11], s[30:31], v1, v2, v[4:5]",
     lambda a, b, c: s32(a) * s32(b) + (c | b << 32)),
    ("v_mov_b32_e32 v4, v2\nv_mov_b32_e32 v5, v3\nv_lshlrev_b64 v[10:11], v1, v[4:5]",
     lambda a, b, c: (b | c << 32) << (a & 63)),
    ("v_mov_b32_e32 v4, v2\nv_mov_b32_e32 v5, v3\nv_ashrrev_i64 v[10:11], v1, v[4:5]",
     lambda a, b, c: ((b | c << 32) - ((c >> 31) << 64)) >> (a & 63)),
    ("v_pk_mov_b32 v[10:11], v[2:3], v[2:3] op_sel:[1,0]", lambda a, b, c: c | b << 32),
]


@pytest.mark.parametrize(("text", "model"), PAIRS, ids=[t.split("\n")[-1].split()[0]
                                                        for t, _ in PAIRS])
def test_pairs(text: str, model: Model) -> None:
    low, high = run(text.split("\n"), A, B, C)
    got = [int(x) | int(y) << 32 for x, y in zip(low, high, strict=True)]
    want = [model(int(a), int(b), int(c)) % (1 << 64) for a, b, c in zip(A, B, C, strict=True)]
    assert got == want


SCALAR: list[tuple[str, Model, Model | None]] = [
    ("s_add_u32 s30, s20, s21", lambda a, b, c: a + b, lambda a, b, c: a + b > M),
    ("s_sub_u32 s30, s20, s21", lambda a, b, c: a - b, lambda a, b, c: a < b),
    ("s_add_i32 s30, s20, s21", lambda a, b, c: a + b,
     lambda a, b, c: not -2**31 <= s32(a) + s32(b) < 2**31),
    ("s_sub_i32 s30, s20, s21", lambda a, b, c: a - b,
     lambda a, b, c: not -2**31 <= s32(a) - s32(b) < 2**31),
    ("s_mul_i32 s30, s20, s21", lambda a, b, c: a * b, None),
    ("s_mul_hi_u32 s30, s20, s21", lambda a, b, c: a * b >> 32, None),
    ("s_mul_hi_i32 s30, s20, s21", lambda a, b, c: s32(a) * s32(b) >> 32, None),
    ("s_and_b32 s30, s20, s21", lambda a, b, c: a & b, lambda a, b, c: a & b != 0),
    ("s_andn2_b32 s30, s20, s21", lambda a, b, c: a & ~b, lambda a, b, c: a & ~b != 0),
    ("s_nor_b32 s30, s20, s21", lambda a, b, c: ~(a | b), lambda a, b, c: (a | b) != M),
    ("s_lshl_b32 s30, s20, s21", lambda a, b, c: a << (b & 31),
     lambda a, b, c: a << (b & 31) & M != 0),
    ("s_ashr_i32 s30, s20, s21", lambda a, b, c: s32(a) >> (b & 31),
     lambda a, b, c: s32(a) >> (b & 31) != 0),
    ("s_lshl2_add_u32 s30, s20, s21", lambda a, b, c: (a << 2) + b,
     lambda a, b, c: (a << 2) + b > M),
    ("s_bfe_u32 s30, s20, 0x80004", lambda a, b, c: a >> 4 & 255, lambda a, b, c: a >> 4 & 255),
    ("s_bfe_i32 s30, s20, 0x80004", lambda a, b, c: signed_field(a, 4, 8),
     lambda a, b, c: a >> 4 & 255),
    ("s_abs_i32 s30, s20", lambda a, b, c: abs(s32(a)), lambda a, b, c: a != 0),
    ("s_min_i32 s30, s20, s21", lambda a, b, c: min(s32(a), s32(b)),
     lambda a, b, c: s32(a) < s32(b)),
    ("s_max_u32 s30, s20, s21", lambda a, b, c: max(a, b), lambda a, b, c: a >= b),
    ("s_movk_i32 s30, 0xffc0", lambda a, b, c: -64, None),
    ("s_brev_b32 s30, s20", lambda a, b, c: int(f"{a:032b}"[::-1], 2), None),
    ("s_bcnt1_i32_b32 s30, s20", lambda a, b, c: a.bit_count(), lambda a, b, c: a != 0),
    ("s_ff1_i32_b32 s30, s20", lambda a, b, c: ctz(a), None),
    ("s_flbit_i32_b32 s30, s20", lambda a, b, c: clz(a), None),
    ("s_sext_i32_i16 s30, s20", lambda a, b, c: s16(a), None),
    ("s_pack_lh_b32_b16 s30, s20, s21", lambda a, b, c: a & 0xFFFF | b >> 16 << 16, None),
    ("s_cmp_lt_i32 s20, s21\ns_cselect_b32 s30, s20, s22",
     lambda a, b, c: a if s32(a) < s32(b) else c, lambda a, b, c: s32(a) < s32(b)),
    ("s_cmpk_gt_i32 s20, 0xfff0\ns_cselect_b32 s30, 1, 2",
     lambda a, b, c: 1 if s32(a) > -16 else 2, None),
    ("s_cmpk_gt_u32 s20, 0xfff0\ns_cselect_b32 s30, 1, 2",
     lambda a, b, c: 1 if a > 0xFFF0 else 2, None),
    ("s_bitcmp1_b32 s20, s21\ns_cselect_b32 s30, 1, 2",
     lambda a, b, c: 1 if a >> (b & 31) & 1 else 2, None),
    ("s_bitset1_b32 s20, 5\ns_mov_b32 s30, s20", lambda a, b, c: a | 32, None),
    ("s_addk_i32 s20, 0xfffe\ns_mov_b32 s30, s20", lambda a, b, c: a - 2, None),
]


@pytest.mark.parametrize(("text", "model", "scc"), SCALAR, ids=[t.split()[0]
                                                                for t, _, _ in SCALAR])
def test_scalar(text: str, model: Model, scc: Model | None) -> None:
    flag_text = "s_mov_b32 s31, 0" if scc is None else "s_cselect_b32 s31, 1, 0"
    lines = [*text.split("\n"), flag_text, "v_mov_b32_e32 v10, s30", "v_mov_b32_e32 v11, s31"]
    for a, b, c in zip(A[::4], B[::4], C[::4], strict=True):
        got, flag = run(lines, a, b, c)
        assert int(got[0]) == model(int(a), int(b), int(c)) & M, (hex(a), hex(b))
        if scc is not None:
            assert bool(flag[0]) == bool(scc(int(a), int(b), int(c))), (hex(a), hex(b))
