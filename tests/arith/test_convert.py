"""Conversions against exact fractions: every pair of types, every rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from checker.arith.formats import FORMATS
from checker.arith.ops import apply
from checker.core import Conv

from . import reference
from .values import edges, random_bits

WIDE = ["f16", "bf16", "f32", "f64"]
SMALL = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]
MODES = ["rn", "rna", "rz", "rm", "rp"]


def sample(kind: str) -> np.ndarray:
    if kind in SMALL:
        return np.arange(1 << FORMATS[kind].width, dtype=np.uint8)
    return np.concatenate([edges(kind), random_bits(kind, 500, 12)])


def near_ties(dst: str, src: str) -> np.ndarray:
    """Patterns of `src` around the values and midpoints of `dst`."""
    wide = FORMATS[dst]
    codes = np.arange(1 << wide.width) if wide.width <= 8 else edges(dst).astype(np.int64)
    if wide.width > 8:
        codes = codes[: 120]
    out = []
    for code in codes.tolist():
        v = reference.value(dst, code)
        w = reference.value(dst, (code + 1) & ((1 << wide.width) - 1))
        if isinstance(v, float) or isinstance(w, float):
            continue
        for exact in (v, (v + w) / 2):
            bits = reference.round_bits(src, exact, "rz")
            out += [bits, bits + 1, max(bits - 1, 0)]
    return np.array(out, edges(src).dtype)


PAIRS = [(src, dst) for src in WIDE for dst in [*WIDE, *SMALL, "tf32"]
         if src != "f64" or dst in WIDE]


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_float_to_float(src: str, dst: str, rnd: str, satfinite: bool) -> None:
    bits = np.concatenate([sample(src), near_ties(dst, src)])
    got = apply("fcvt", Conv(src, dst, rnd, satfinite=satfinite), bits)
    for b, out in zip(bits.tolist(), got.tolist(), strict=True):
        v = reference.value(src, b)
        if dst == "tf32":
            want = 0x7FFFE000 if v != v else reference.round_bits(dst, v, rnd, satfinite) << 13
            if v != v and rnd == "rna" and src == "f32":
                want = b & 0xFFFFE000
        else:
            want = reference.round_bits(dst, v, rnd, satfinite)
        assert out == want, (hex(b), hex(out), hex(want))


@pytest.mark.parametrize("dst", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("src", SMALL)
def test_small_to_wide_is_exact(src: str, dst: str) -> None:
    bits = sample(src)
    got = apply("fcvt", Conv(src, dst), bits)
    for b, out in zip(bits.tolist(), got.tolist(), strict=True):
        assert out == reference.round_bits(dst, reference.value(src, b), "rn")


def test_every_half_survives_a_round_trip() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    for kind in ("f16", "bf16"):
        back = apply("fcvt", Conv("f32", kind, "rn"), apply("fcvt", Conv(kind, "f32"), bits))
        nan = np.isnan(apply("fcvt", Conv(kind, "f32"), bits).view(np.float32))
        assert (back == np.where(nan, np.uint16(0x7FFF), bits)).all()


def test_bf16_fast_path_agrees_with_the_general_one() -> None:
    bits = np.concatenate([edges("f32"), random_bits("f32", 50_000, 3)])
    fast = apply("fcvt", Conv("f32", "bf16", "rn"), bits)
    general = apply("fcvt", Conv("f64", "bf16", "rn"), apply("fcvt", Conv("f32", "f64"), bits))
    assert (fast == general).all()


ROUND = {"rni": lambda v: round(v), "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("rnd", sorted(ROUND))
@pytest.mark.parametrize("dst", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("src", WIDE)
def test_float_to_integer(src: str, dst: str, rnd: str) -> None:
    width = int(dst[1:])
    low = -(1 << width - 1) if dst[0] == "s" else 0
    high = low + (1 << width) - 1
    borders = [reference.round_bits(src, Fraction(2 * edge + d, 2), "rz")
               for edge in (low, high + 1) for d in (-3, -2, -1, 0, 1, 2) if edge or d]
    bits = np.concatenate([sample(src), np.array(borders, edges(src).dtype)])
    got = apply("fcvt", Conv(src, dst, rnd), bits)
    for b, out in zip(bits.tolist(), got.tolist(), strict=True):
        v = reference.value(src, b)
        if v != v:
            want = 1 << width - 1 if src == "f64" or width == 64 else 0
        elif math.isinf(v) if isinstance(v, float) else False:
            want = high if v > 0 else low
        else:
            want = max(low, min(high, ROUND[rnd](Fraction(v))))
        assert out == want % (1 << width), (hex(b), hex(out), want)


@pytest.mark.parametrize("rnd", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("dst", WIDE)
@pytest.mark.parametrize("src", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_to_float(src: str, dst: str, rnd: str) -> None:
    width = int(src[1:])
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << width, 500, dtype=np.uint64)
    bits >>= rng.integers(0, width, 500, dtype=np.uint64)
    special = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1, (1 << width) - 2,
               (1 << width - 1) + 1]
    ties = [((1 << p) + 1 << max(0, width - p - 3)) % (1 << width) for p in (8, 11, 24, 53)]
    wide = [b ^ d for b in ties for d in (0, 1)]
    bits = np.concatenate([bits, np.array(special + wide, np.uint64)])
    got = apply("fcvt", Conv(src, dst, rnd), bits)
    for b, out in zip(bits.tolist(), got.tolist(), strict=True):
        number = b - (1 << width) if src[0] == "s" and b >> width - 1 else b
        assert out == reference.round_bits(dst, Fraction(number), rnd), (b, hex(out))


@pytest.mark.parametrize("rnd", sorted(ROUND))
@pytest.mark.parametrize("kind", WIDE)
def test_rounding_to_integral_floats_keeps_the_sign(kind: str, rnd: str) -> None:
    bits = sample(kind)
    got = apply("fcvt", Conv(kind, kind, rnd), bits)
    for b, out in zip(bits.tolist(), got.tolist(), strict=True):
        v = reference.value(kind, b)
        if isinstance(v, float):
            want = reference.special(kind, v)
        else:
            whole = Fraction(ROUND[rnd](v))
            want = reference.special(kind, -0.0) if whole == 0 and v < 0 \
                else reference.round_bits(kind, whole, "rn")
        assert out == want


def test_ftz_concerns_f32_alone() -> None:
    tiny32, tiny16 = np.array([0x80000001], np.uint32), np.array([0x8001], np.uint16)
    assert apply("fcvt", Conv("f32", "f64", "", "flush"), tiny32).tolist() == [1 << 63]
    assert apply("fcvt", Conv("f16", "f32", "", "flush"), tiny16).tolist() != [0x80000000]
    small = apply("fcvt", Conv("f32", "f16", "rn", "flush"), np.array([0x33800000], np.uint32))
    assert small.tolist() == [1]  # 2**-24 stays: the result's type is not f32
    assert apply("fcvt", Conv("f32", "f16", "rn", "flush_out"),
                 np.array([0x33800000], np.uint32)).tolist() == [0]


def test_saturate_and_relu() -> None:
    x = np.array([0xBF800000, 0x3F000000, 0x40000000, 0x7FC00000, 0x80000000], np.uint32)
    assert apply("fcvt", Conv("f32", "f16", "rn", saturate=True), x).tolist() == [
        0, 0x3800, 0x3C00, 0, 0]
    assert apply("fcvt", Conv("f32", "bf16", "rn", relu=True), x).tolist() == [
        0, 0x3F00, 0x4000, 0x7FFF, 0]
    assert apply("fcvt", Conv("f32", "e4m3", "rn", satfinite=True, relu=True), x).tolist() == [
        0, 0x30, 0x40, 0x7F, 0]


def test_powers_of_two() -> None:
    codes = np.arange(256, dtype=np.uint8)
    wide = apply("fcvt", Conv("ue8m0", "f32"), codes)
    assert wide[127] == 0x3F800000
    assert wide[0] == 0x00400000
    assert wide[255] == 0x7FFFFFFF
    for rnd in ("rz", "rp"):
        back = apply("fcvt", Conv("f32", "ue8m0", rnd, satfinite=True), wide)
        assert (back == codes).all()
    x = np.array([0x3FC00000, 0x7F800000, 0, 1], np.uint32)
    assert apply("fcvt", Conv("f32", "ue8m0", "rz", satfinite=True), x).tolist() == [127, 254, 0, 0]
    assert apply("fcvt", Conv("f32", "ue8m0", "rp", satfinite=True), x).tolist() == [128, 254, 0, 0]
    with pytest.raises(ValueError):
        apply("fcvt", Conv("f32", "ue8m0", "rn"), x)


@pytest.mark.parametrize("dst", ["e4m3", "e5m2", "e2m1"])
def test_every_half_to_small_types(dst: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    got = apply("fcvt", Conv("f16", dst, "rn", satfinite=True), bits)
    for b in range(0, 1 << 16, 3):
        assert got[b] == reference.round_bits(dst, reference.value("f16", b), "rn", True)


def test_a_nan_cut_to_tf32_may_become_infinite() -> None:
    bits = np.array([0x7F800001, 0x7FBFFFFF], np.uint32)
    assert apply("fcvt", Conv("f32", "tf32", "rna"), bits).tolist() == [0x7F800000, 0x7FBFE000]
    assert apply("fcvt", Conv("f32", "tf32", "rn"), bits).tolist() == [0x7FFFE000, 0x7FFFE000]


def test_a_nan_becomes_the_vendor_s_integer() -> None:
    nan = np.array([0x7FF8000000000000], dtype=np.uint64)
    assert apply("fcvt", Conv("f64", "s32", "rzi"), nan)[0] == 0x80000000
    assert apply("fcvt", Conv("f64", "s32", "rzi", nan_zero=True), nan)[0] == 0
