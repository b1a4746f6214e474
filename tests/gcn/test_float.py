"""Float, conversion and compare rows against NumPy on edge values, in several float modes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from checker.replay import replay
from tests.gcn.bench import program_of, run, split, unmodelled

F32 = np.array([0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x40490FDB, 0x7F800000, 0xFF800000,
                0x7FC00000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x33800000, 0x4B000001,
                0xCF000000, 0x4F000000], dtype=np.uint32)
_RNG = np.random.default_rng(11)


def _floats(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    normal = rng.normal(0, 100, 32).astype(np.float32).view(np.uint32)
    return np.concatenate([rng.choice(F32, 32), normal])


A, B, C = _floats(1), _floats(2), _floats(3)
FACTS = {"grid": [1, 1, 1], "block": [64, 1, 1], "shared": 4096, "args": [
    *({"buffer": n, "dtype": "u32", "elements": 64, "role": "in"} for n in "abc"),
    {"buffer": "out", "dtype": "u32", "elements": 128, "role": "out"}]}
Model = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def f(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint32).view(np.float32)


def bits(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, dtype=np.float32).view(np.uint32)


def same(got: np.ndarray, want: np.ndarray, kind: str = "f4") -> bool:
    """Equal bits, NaN payloads aside."""
    x, y = got.view(kind), want.view(kind)
    return bool(np.all((got == want) | (np.isnan(x) & np.isnan(y))))


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        exact = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
        return exact.astype(np.float32)


VECTOR: list[tuple[str, Model]] = [
    ("v_add_f32_e32 v10, v1, v2", lambda a, b, c: a + b),
    ("v_sub_f32_e32 v10, v1, v2", lambda a, b, c: a - b),
    ("v_subrev_f32_e32 v10, v1, v2", lambda a, b, c: b - a),
    ("v_mul_f32_e32 v10, v1, v2", lambda a, b, c: a * b),
    ("v_mul_f32_e64 v10, -v1, |v2|", lambda a, b, c: -a * abs(b)),
    ("v_add_f32_e64 v10, -|v1|, v2", lambda a, b, c: -abs(a) + b),
    ("v_add_f32_e64 v10, v1, v2 clamp",
     lambda a, b, c: np.where(np.isnan(a + b), 0, np.clip(a + b, 0, 1))),
    ("v_max_f32_e32 v10, v1, v2", lambda a, b, c: np.fmax(a, b)),
    ("v_min_f32_e32 v10, v1, v2", lambda a, b, c: np.fmin(a, b)),
    ("v_max3_f32 v10, v1, v2, v3", lambda a, b, c: np.fmax(np.fmax(a, b), c)),
    ("v_trunc_f32_e32 v10, v1", lambda a, b, c: np.trunc(a)),
    ("v_floor_f32_e32 v10, v1", lambda a, b, c: np.floor(a)),
    ("v_ceil_f32_e32 v10, v1", lambda a, b, c: np.ceil(a)),
    ("v_rndne_f32_e32 v10, v1", lambda a, b, c: np.rint(a)),
    ("v_add_f32_e32 v10, 0.5, v1", lambda a, b, c: np.float32(0.5) + a),
    ("v_mul_f32_e32 v10, 0.15915494, v1",
     lambda a, b, c: np.uint32(0x3E22F983).view(np.float32) * a),
    ("v_cndmask_b32_e64 v10, -v1, v2, s[24:25]", lambda a, b, c: np.where(a < b, b, -a)),
]


@pytest.mark.parametrize(("text", "model"), VECTOR, ids=[t for t, _ in VECTOR])
def test_vector(text: str, model: Model) -> None:
    got, _ = run(["v_cmp_lt_f32_e64 s[24:25], v1, v2", "s_nop 4", text], A, B, C)
    with np.errstate(all="ignore"):
        want = bits(model(f(A), f(B), f(C)))
    zero = (got & 0x7FFFFFFF == 0) & (want & 0x7FFFFFFF == 0)
    if text.startswith(("v_max", "v_min")):  # NumPy leaves the sign of max(+0, -0) open
        got = np.where(zero, want, got)
    assert same(got, want)


FMAS: list[tuple[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]]] = [
    ("v_fma_f32 v10, v1, v2, v3", fma32),
    ("v_fma_f32 v10, -v1, v2, v3", lambda a, b, c: fma32(-a, b, c)),
    ("v_mov_b32_e32 v10, v3\nv_fmac_f32_e32 v10, v1, v2", fma32),
    ("v_fmaak_f32 v10, v1, v2, 0x40400000", lambda a, b, c: fma32(a, b, np.float32(3) + 0 * b)),
    ("v_fmamk_f32 v10, v1, 0x40400000, v3", lambda a, b, c: fma32(a, np.float32(3) + 0 * a, c)),
]


@pytest.mark.parametrize(("text", "model"), FMAS, ids=[t.split("\n")[-1] for t, _ in FMAS])
def test_fma(text: str, model: Model) -> None:
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(-4096, 4096, 64).astype(np.float32) / 64 for _ in range(3))
    target = "gfx942" if "fmaak" not in text and "fmamk" not in text else "gfx1100"
    n = 64 if target == "gfx942" else 32
    got, _ = run(text.split("\n"), bits(a)[:n], bits(b)[:n], bits(c)[:n], target=target)
    assert same(got, bits(model(a[:n], b[:n], c[:n])))


def test_fma_rounds_once_and_mad_twice() -> None:
    a = bits(np.full(64, 1 + 2**-12, dtype=np.float32))
    c = bits(np.full(64, -1 - 2**-11, dtype=np.float32))
    once, _ = run(["v_fma_f32 v10, v1, v1, v3"], a, a, c)
    twice, _ = run(["v_mad_f32 v10, v1, v1, v3"], a, a, c, target="gfx900")
    assert f(once)[0] == 2**-24
    assert f(twice)[0] == 0


def test_flush_mode_flushes_and_keep_mode_keeps() -> None:
    tiny = np.full(64, 0x00000100, dtype=np.uint32)
    text = ["v_add_f32_e32 v10, v1, v1"]
    assert run(text, tiny, mode=240)[0][0] == 0x200
    assert run(text, tiny, mode=192)[0][0] == 0
    changed = ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0", *text]
    assert run(changed, tiny, mode=240)[0][0] == 0


@pytest.mark.parametrize("keeps", [0, 1, 2])
def test_a_half_that_is_flushed_is_not_widened_as_it_is(keeps: int) -> None:
    text = ["v_cvt_f32_f16_e32 v10, v1"]
    flushes = keeps in (0, 2)  # 1 flushes results, which widened halves never are
    tiny = np.full(64, 0x00000100, dtype=np.uint32)
    mode = 48 | keeps << 6
    assert (run(text, tiny, mode=mode)[0][0] == 0) == flushes
    maps = [replay(program_of(text, mode=m), FACTS).digest for m in (mode, 240)]
    assert (maps[0] != maps[1]) == flushes


def test_rounding_mode_comes_from_the_mode_register() -> None:
    a, b = bits(np.full(64, 1, np.float32)), bits(np.full(64, 2**-30, np.float32))
    text = ["v_add_f32_e32 v10, v1, v2"]
    assert run(text, a, b)[0][0] == 0x3F800000
    assert run(text, a, b, mode=241)[0][0] == 0x3F800001
    up = ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5", *text]
    assert run(up, a, b)[0][0] == 0x3F800001
    assert run(["s_round_mode 0x1", *text], a[:32], b[:32], target="gfx1100")[0][0] == 0x3F800001


def test_unknown_mode_makes_floats_opaque() -> None:
    lines = ["s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s20", "v_add_f32_e32 v10, v1, v2"]
    assert unmodelled(lines) == ["the mode register is not known here"]


def test_output_modifier_is_refused_outside_ieee_mode() -> None:
    text = ["v_add_f32_e64 v10, v1, v2 mul:2"]
    one = bits(np.full(64, 1, np.float32))
    assert run(text, one, one)[0][0] == 0x40000000  # ignored in IEEE mode: 1 + 1
    assert unmodelled(text, ieee=0) == ["output modifier mul"]


CONVERSIONS: list[tuple[str, Model]] = [
    ("v_cvt_f32_i32_e32 v10, v1", lambda a, b, c: a.view(np.int32).astype(np.float32).view("u4")),
    ("v_cvt_f32_u32_e32 v10, v1", lambda a, b, c: a.astype(np.float32).view("u4")),
    ("v_cvt_f16_f32_e32 v10, v1", lambda a, b, c: f(a).astype(np.float16).view("u2").astype("u4")),
    ("v_cvt_f32_f16_e32 v10, v1",
     lambda a, b, c: (a & 0xFFFF).astype("u2").view(np.float16).astype(np.float32).view("u4")),
    ("v_cvt_f32_f16_sdwa v10, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
     lambda a, b, c: (a >> 16).astype("u2").view(np.float16).astype(np.float32).view("u4")),
    ("v_pack_b32_f16 v10, v1, v2 op_sel:[0,1,0]", lambda a, b, c: a & 0xFFFF | b & 0xFFFF0000),
    ("v_cvt_pkrtz_f16_f32 v10, v1, v1", lambda a, b, c: _rtz(a) * np.uint32(0x10001)),
]


def _rtz(a: np.ndarray) -> np.ndarray:
    """f32 -> f16 toward zero."""
    nearest = f(a).astype(np.float16)
    over = np.abs(nearest.astype(np.float32)) > np.abs(f(a))
    lower = np.where(over, nearest.view("u2") - 1, nearest.view("u2"))
    return lower.astype(np.uint32)


@pytest.mark.parametrize(("text", "model"), CONVERSIONS, ids=[t.split()[0] + str(i) for i, (t, _)
                                                              in enumerate(CONVERSIONS)])
def test_conversions(text: str, model: Model) -> None:
    with np.errstate(all="ignore"):
        want = model(A, B, C).astype(np.uint32)
    got, _ = run([text], A, B, C)
    nan = np.isnan(f(A)) | np.isnan(f(got)) & np.isnan(f(want))
    if "f16" in text.split()[0]:  # NaN payloads of halves
        nan |= ((A & 0x7C00) == 0x7C00) | (((A >> 16) & 0x7C00) == 0x7C00)
    assert np.array_equal(got[~nan], want[~nan])


def test_float_to_int_truncates_clamps_and_zeroes_nan() -> None:
    values = np.array([1.9, -1.9, 3e9, -3e9, np.nan, np.inf, -np.inf, 0.5], dtype=np.float32)
    a = bits(np.resize(values, 64))
    signed, _ = run(["v_cvt_i32_f32_e32 v10, v1"], a)
    unsigned, _ = run(["v_cvt_u32_f32_e32 v10, v1"], a)
    assert signed[:8].view(np.int32).tolist() == [1, -1, 2**31 - 1, -2**31, 0, 2**31 - 1, -2**31, 0]
    assert unsigned[:8].tolist() == [1, 0, 3000000000, 0, 0, 2**32 - 1, 0, 0]


COMPARES = {"lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
            "gt": lambda a, b: a > b, "lg": lambda a, b: (a < b) | (a > b),
            "ge": lambda a, b: a >= b, "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
            "u": lambda a, b: np.isnan(a) | np.isnan(b), "nge": lambda a, b: ~(a >= b),
            "nlg": lambda a, b: ~((a < b) | (a > b)), "ngt": lambda a, b: ~(a > b),
            "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: ~(a == b),
            "nlt": lambda a, b: ~(a < b)}


@pytest.mark.parametrize("cond", COMPARES)
def test_float_compares(cond: str) -> None:
    text = [f"v_cmp_{cond}_f32_e32 vcc, v1, v2", "s_nop 1", "v_cndmask_b32_e64 v10, 0, 1, vcc"]
    got, _ = run(text, A, B)
    assert got.astype(bool).tolist() == COMPARES[cond](f(A), f(B)).tolist()


@pytest.mark.parametrize(("mask", "test"), [
    (3, np.isnan), (0x204, np.isinf), (0x1F8, np.isfinite),
    (0x260, lambda x: (x == 0) | (x == np.inf)), (0x90, lambda x: (x != 0) & (abs(x) < 2**-126))])
def test_classes(mask: int, test: Callable[[np.ndarray], np.ndarray]) -> None:
    text = [f"s_movk_i32 s24, {mask:#x}", "v_cmp_class_f32_e64 s[26:27], v1, s24", "s_nop 4",
            "v_cndmask_b32_e64 v10, 0, 1, s[26:27]"]
    got, _ = run(text, A)
    assert got.astype(bool).tolist() == test(f(A)).tolist()


def test_packed_floats_use_op_sel_and_neg() -> None:
    a, b, c = (np.arange(64, dtype=np.float32) + k for k in (1, 100, 1000))
    lines = ["v_mov_b32_e32 v4, v1", "v_mov_b32_e32 v5, v2",
             "v_pk_mul_f32 v[10:11], v[4:5], v[2:3] op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]"]
    low, high = run(lines, bits(a), bits(b), bits(c))
    assert np.array_equal(f(low), -b * b)
    assert np.array_equal(f(high), a * c)


def test_fma_mix_reads_halves_and_keeps_the_other() -> None:
    half = np.full(64, 0x3C00_4000, dtype=np.uint32)  # low 2.0, high 1.0
    lines = ["v_fma_mix_f32 v10, v1, v1, v2 op_sel:[0,1,0] op_sel_hi:[1,1,0]",
             "v_mov_b32_e32 v11, 0x77770000",
             "v_fma_mixlo_f16 v11, v1, v1, neg(0) op_sel_hi:[1,1,0]"]
    low, high = run(lines, half, bits(np.full(64, 0.5, np.float32)))
    assert f(low)[0] == 2.5
    assert high[0] == 0x77774400


def test_16_bit_results_zero_the_high_half_up_to_gfx9_only() -> None:
    ones = np.full(64, 0x3C003C00, dtype=np.uint32)
    old, _ = run(["v_mov_b32_e32 v10, -1", "v_add_f16_e32 v10, v1, v1"], ones)
    fma, _ = run(["v_mov_b32_e32 v10, -1", "v_fma_f16 v10, v1, v1, v1"], ones)
    new, _ = run(["v_mov_b32_e32 v10, -1", "v_add_f16_e32 v10, v1, v1"], ones[:32],
                 target="gfx1030")
    assert (old[0], fma[0], new[0]) == (0x4000, 0xFFFF4000, 0xFFFF4000)


DIVISION = split("""v_div_scale_f32 v4, s[24:25], v2, v2, v1
v_rcp_f32_e32 v5, v4
v_div_scale_f32 v6, vcc, v1, v2, v1
v_fma_f32 v7, -v4, v5, 1.0
v_fmac_f32_e32 v5, v7, v5
v_mul_f32_e32 v7, v6, v5
v_fma_f32 v8, -v4, v7, v6
v_fmac_f32_e32 v7, v8, v5
v_fma_f32 v4, -v4, v7, v6
v_div_fmas_f32 v4, v4, v5, v7
v_div_fixup_f32 v10, v4, v2, v1""")


def test_exact_division_is_recognised() -> None:
    names = [op.name for op in program_of(DIVISION).ops]
    assert "fdiv" in names
    assert "fapprox" not in names
    got, _ = run(DIVISION, A, B)
    with np.errstate(all="ignore"):
        assert same(got, bits(f(A) / f(B)))


@pytest.mark.parametrize(("at", "text"), [
    (3, "v_fma_f32 v7, v4, v5, 1.0"), (4, "v_fmac_f32_e32 v5, v7, v7"),
    (5, "v_mul_f32_e32 v7, v4, v5"), (6, "v_fma_f32 v8, -v4, v7, v4"),
    (8, "v_fma_f32 v4, -v4, v5, v6"), (9, "v_div_fmas_f32 v4, v4, v7, v7"),
    (10, "v_div_fixup_f32 v10, v4, v1, v2"), (2, "v_div_scale_f32 v6, vcc, v2, v1, v1"),
    (1, "v_rcp_f32_e32 v5, v2")])
def test_a_changed_step_is_no_division(at: int, text: str) -> None:
    lines = [*DIVISION[:at], text, *DIVISION[at + 1:]]
    assert "fdiv" not in [op.name for op in program_of(lines).ops]


def test_division_in_another_mode_is_no_division() -> None:
    assert "fdiv" not in [op.name for op in program_of(DIVISION, mode=192).ops]
    assert "fdiv" not in [op.name for op in program_of(DIVISION, mode=241).ops]


ROUNDING = split("""v_bfe_u32 v4, v1, 16, 1
s_movk_i32 s24, 0x7fff
v_add3_u32 v4, v1, v4, s24
v_cmp_o_f32_e32 vcc, v1, v1
v_mov_b32_e32 v5, 0x7fff
s_nop 1
v_cndmask_b32_sdwa v10, v5, v4, vcc src0_sel:DWORD src1_sel:WORD_1
""")


def test_bf16_rounding_is_recognised_and_right() -> None:
    names = [op.name for op in program_of(ROUNDING).ops]
    assert "fcvt" in names
    assert "fcmp" not in names
    got, _ = run(ROUNDING, A)
    wide = A.astype(np.uint64)
    want = np.where(np.isnan(f(A)), 0x7FFF, (wide + (wide >> 16 & 1) + 0x7FFF) >> 16)
    nan = np.isnan(f(A))
    assert np.array_equal(got[~nan], want[~nan].astype(np.uint32))
    assert bool(np.all(np.isnan(f(got[nan] << 16))))


@pytest.mark.parametrize(("at", "text"), [
    (0, "v_bfe_u32 v4, v1, 15, 1"), (1, "s_movk_i32 s24, 0x7ffe"),
    (3, "v_cmp_o_f32_e32 vcc, v2, v2"),
    (2, "v_add3_u32 v4, v2, v4, s24"), (4, "v_mov_b32_e32 v5, 0x3f80")])
def test_a_changed_step_is_no_rounding(at: int, text: str) -> None:
    lines = [*ROUNDING[:at], text, *ROUNDING[at + 1:]]
    assert "fcvt" not in [op.name for op in program_of(lines).ops]


def test_a_maximum_is_the_same_in_every_rounding_mode() -> None:
    for text, alike in (("v_max_f32_e32 v10, v1, v2", True), ("v_min_f32_e32 v10, v1, v2", True),
                        ("v_max_f32_e64 v10, v1, v2 clamp", True),
                        ("v_add_f32_e32 v10, v1, v2", False)):
        maps = {replay(program_of([text], mode=0xF0 | rounding), FACTS).digest
                for rounding in range(4)}
        assert (len(maps) == 1) == alike, text


def test_two_8_bit_floats_go_to_the_half_that_op_sel_names() -> None:
    """op_sel has a place for each source and then one for the result."""
    for half, kept, word in (("", "v_lshrrev_b32_e32 v10, 16, v10", 0x1122),
                             (" op_sel:[0,0,1]", "v_and_b32_e32 v10, 0xffff, v10", 0x3344)):
        lines = ["v_mov_b32_e32 v10, 0x11223344", f"v_cvt_pk_fp8_f32 v10, v1, v2{half}", "s_nop 0"]
        assert set(run([*lines, kept], 0x3F800000, 0x40000000)[0]) == {word}
