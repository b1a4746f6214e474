"""Matrix steps: properties of the models, measured shares, CDNA against slow fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from checker.arith.formats import FORMATS, bits_dtype, decode
from checker.arith.matrix import mma
from checker.arith.ops import apply
from checker.arith.steps import StepModel
from checker.core import Conv, FloatMode

from . import reference
from .test_steps import model
from .values import below, stream, with_exponents


def normal(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Normally distributed values, rounded to `kind`."""
    size = math.prod(shape)
    unit = (stream(seed, 12 * size) >> np.uint64(11)).astype(float).reshape(12, size) * 2.0**-53
    single = (unit.sum(axis=0) - 6.0).astype(np.float32).view(np.uint32)
    if kind == "f32":
        return single.reshape(shape)
    return apply("fcvt", Conv("f32", kind, "rn"), single).reshape(shape)


def chain(step: StepModel, k: int, a: np.ndarray, b: np.ndarray, order: list[int] | None = None
          ) -> np.ndarray:
    total = np.zeros((len(a), b.shape[1]), bits_dtype(FORMATS[step.acc_type].width))
    for at in order or range(0, a.shape[1], k):
        total = mma(step, a[:, at:at + k], b[at:at + k], total)
    return total


# FACTS section 1, measured on an H200: share of outputs that differ, by K
SHARES = [
    ("f16", 16, 8, "f32", {16: 0.290, 64: 0.646, 256: 0.933}),
    ("bf16", 16, 8, "f32", {16: 0.022, 64: 0.137, 256: 0.449}),
    ("tf32", 8, 4, "f32", {8: 0.181, 32: 0.558, 128: 0.916}),
    ("f16", 16, 8, "f16", {16: 0.263, 64: 0.482, 256: 0.734}),
]


@pytest.mark.parametrize(("kind", "large", "small", "acc", "shares"), SHARES)
def test_step_size_shows_in_the_measured_share(kind: str, large: int, small: int, acc: str,
                                               shares: dict[int, float]) -> None:
    one, two = (model("mma.sync", "sm_90", kind, k, acc) for k in (large, small))
    for total, share in shares.items():
        a = normal("f32" if kind == "tf32" else kind, (96, total), total)
        b = normal("f32" if kind == "tf32" else kind, (total, 96), total + 1)
        got = (chain(one, large, a, b) != chain(two, small, a, b)).mean()
        assert abs(got - share) < 0.04, (total, got)


def test_swapping_two_small_steps_shows_too() -> None:
    step = model("mma.sync", "sm_90", "f16", 8)
    for total, share in ((16, 0.408), (64, 0.605)):
        a, b = normal("f16", (96, total), 5), normal("f16", (total, 96), 6)
        order = [at ^ 8 for at in range(0, total, 8)]
        got = (chain(step, 8, a, b) != chain(step, 8, a, b, order)).mean()
        assert abs(got - share) < 0.04


@pytest.mark.parametrize("what", [("mma.sync", "sm_90", "f16", 16), ("wgmma", "sm_90a", "e4m3", 32),
                                  ("mfma", "gfx942", "bf16", 8), ("mfma", "gfx908", "f16", 4)])
def test_products_of_a_symmetric_step_may_be_permuted(what: tuple) -> None:
    step = model(*what)
    assert step.symmetric
    fmt = FORMATS[step.a_type]
    exps = fmt.bias - 3 + below(1, 24 * step.products, 7)
    a = with_exponents(fmt, 2, exps).reshape(24, -1)
    b = with_exponents(fmt, 3, exps).reshape(-1, 24)
    c = normal("f32", (24, 24), 4)
    order = np.argsort(stream(9, step.products))
    assert (mma(step, a, b, c) == mma(step, a[:, order], b[order], c)).all()


@pytest.mark.parametrize("what", [
    ("mma.sync", "sm_90", "f16", 16), ("mma.sync", "sm_80", "bf16", 16),
    ("tcgen05", "sm_100", "e5m2", 32), ("wgmma", "sm_90", "e4m3", 32),
    ("mma.sync", "sm_90", "e4m3", 32), ("mma.sync", "sm_89", "e4m3", 16),
    ("mfma", "gfx942", "f16", 8), ("mfma", "gfx942", "e4m3fnuz", 16),
    ("mfma", "gfx90a", "f16", 16), ("mfma", "gfx908", "f16", 4), ("mfma", "gfx942", "f32", 4),
])
def test_zero_products_and_the_accumulator(what: tuple) -> None:
    step = model(*what)
    c = stream(1, 400).astype(np.uint32).reshape(20, 20)
    c[:4] &= np.uint32(0x807FFFFF)  # subnormals
    c[np.isnan(c.view(np.float32)) | (c == 0x80000000)] = 0
    zero = np.zeros((20, sum(map(len, step.steps))), bits_dtype(FORMATS[step.a_type].width))
    got = mma(step, zero, zero.T, c)
    assert (got == c).all() == step.keeps_accumulator
    if not step.keeps_accumulator:  # after one step it does hold
        assert (mma(step, zero, zero.T, got) == got).all()
    minus = np.full((20, 20), 0x80000000, np.uint32)
    assert (mma(step, zero, zero.T, minus) == 0).all()


def test_fp8_by_mma_sync_adds_the_accumulator_last() -> None:
    step = model("mma.sync", "sm_90", "e4m3", 32)
    bits = with_exponents(FORMATS["e4m3"], 1, 5 + below(2, 16 * 32, 5)).reshape(16, 32)
    c = normal("f32", (16, 16), 3)
    alone = mma(step, bits, bits.T, np.zeros_like(c))
    assert (mma(step, bits, bits.T, c) == apply("fadd", FloatMode("f32"), c, alone)).all()
    native = model("wgmma", "sm_90a", "e4m3", 32)
    assert (mma(native, bits, bits.T, c) != mma(step, bits, bits.T, c)).any()


def test_batches_and_negation() -> None:
    step = model("wgmma", "sm_90a", "f16", 16)
    a, b = normal("f16", (3, 5, 16), 1), normal("f16", (3, 16, 7), 2)
    c = normal("f32", (3, 5, 7), 3)
    got = mma(step, a, b, c, neg_a=True)
    for i in range(3):
        assert (got[i] == mma(step, a[i] ^ np.uint16(0x8000), b[i], c[i])).all()
    assert (mma(step, a, b, c, neg_a=True, neg_b=True) == mma(step, a, b, c)).all()


def test_integers_wrap_and_saturate() -> None:
    a = np.full((1, 32), 0x7F, np.uint8)
    c = np.full((1, 1), 0x7FFFFFFF, np.uint32)
    plain = model("mma.sync", "sm_90", "s8", 32, "s32")
    clamp = model("mma.sync", "sm_90", "s8", 32, "s32", satfinite=True)
    assert mma(plain, a, a.T, c).tolist() == [[0x7FFFFFFF + 32 * 127 * 127]]
    assert mma(clamp, a, a.T, c).tolist() == [[0x7FFFFFFF]]
    mixed = model("mma.sync", "sm_90", "u8*s8", 32, "s32")
    high = np.full((1, 32), 0xFF, np.uint8)
    assert mma(mixed, high, high.T, np.zeros_like(c)).tolist() == [[(1 << 32) - 32 * 255]]
    nibbles = model("mma.sync", "sm_90", "s4", 64, "s32")
    low = np.full((1, 64), 0xF8, np.uint8)
    assert mma(nibbles, low, low.T, np.zeros_like(c)).tolist() == [[64 * 64]]


# --- CDNA: the paper's formulas in fractions ---------------------------------------------------


def scaled(kind: str, bits: int) -> tuple[Fraction, int]:
    """Significand in [1, 2) (below 1 if subnormal) and exponent."""
    fmt = FORMATS[kind]
    value = Fraction(float(decode(fmt, np.array([bits], bits_dtype(fmt.width)))[0]))
    exp = max((bits >> fmt.man_bits) & ((1 << fmt.exp_bits) - 1), 1) - fmt.bias
    return value / Fraction(2) ** exp, exp


def cut(value: Fraction, bits: int, down: bool) -> Fraction:
    whole = value * 2**bits
    return Fraction(math.floor(whole) if down else math.trunc(whole), 2**bits)


def products(kind: str, a: list[int], b: list[int]) -> list[tuple[Fraction, int]]:
    out = []
    for x, y in zip(a, b, strict=True):
        (sx, ex), (sy, ey) = scaled(kind, x), scaled(kind, y)
        out.append((sx * sy, ex + ey if sx * sy else -126))
    return out


def block(terms: list[tuple[Fraction, int]]) -> tuple[Fraction, int]:
    top = max(e for _, e in terms)
    return sum(cut(s * Fraction(2) ** (e - top), 24, False) for s, e in terms), top


def merged(total: Fraction, top: int, c: int, trim: bool) -> int:
    sc, ec = scaled("f32", c)
    high = max(top, ec)
    total = cut(total * Fraction(2) ** (top - high), 31, True)
    rest = cut(sc * Fraction(2) ** (ec - high), 24, True)
    if trim and ec < high - 25:
        rest = Fraction(0)
    return reference.round_bits("f32", (total + rest) * Fraction(2) ** high, "rn")


def tr(kind: str, a: list[int], b: list[int], c: int) -> int:
    return merged(*block(products(kind, a, b)), c, False)


def gtr(kind: str, a: list[int], b: list[int], c: int) -> int:
    terms = products(kind, a, b)
    (even, et), (odd, ot) = block(terms[::2]), block(terms[1::2])
    top = max(et, ot)
    total = cut(even * Fraction(2) ** (et - top), 24, True) + cut(
        odd * Fraction(2) ** (ot - top), 24, True)
    return merged(total, top, c, True)


def exact(kind: str, a: list[int], b: list[int], c: int) -> int:
    total = sum(s * Fraction(2) ** e for s, e in products(kind, a, b))
    sc, ec = scaled("f32", c)
    return reference.round_bits("f32", total + sc * Fraction(2) ** ec, "rn")


@pytest.mark.parametrize(("slow", "what", "kind"), [
    (tr, ("mfma", "gfx942", "f16", 8), "f16"), (tr, ("mfma", "gfx942", "bf16", 4), "bf16"),
    (gtr, ("mfma", "gfx942", "e4m3fnuz", 16), "e4m3fnuz"),
    (gtr, ("mfma", "gfx940", "e5m2fnuz", 16), "e5m2fnuz"),
    (exact, ("mfma", "gfx908", "f16", 4), "f16"), (exact, ("mfma", "gfx908", "bf16", 2), "bf16"),
])
def test_cdna_steps(slow: object, what: tuple, kind: str) -> None:
    step, fmt = model(*what), FORMATS[kind]
    assert callable(slow)
    span = min(30, (1 << fmt.exp_bits) - 2)
    for seed in range(3):
        shape = (12, step.products)
        exps = np.clip(fmt.bias - span // 2 + below(seed, 12 * step.products, span), 1, None)
        a = with_exponents(fmt, seed + 1, exps).reshape(shape)
        b = with_exponents(fmt, seed + 2, exps[::-1]).reshape(shape).T
        c = with_exponents(FORMATS["f32"], seed + 3, 127 - 20 + below(seed + 4, 144, 40))
        c = c.reshape(12, 12)
        if seed == 2:
            a[:, 0] = 0
            c[:, 0] = 0
        got = mma(step, a, b, c)
        for i in range(12):
            for j in range(12):
                want = slow(kind, a[i].tolist(), b[:, j].tolist(), int(c[i, j]))
                assert int(got[i, j]) == want, (seed, i, j)


def test_cdna2_flushes_and_adds_pairs() -> None:
    step = model("mfma", "gfx90a", "f16", 16)
    a, b = normal("f16", (8, 16), 1), normal("f16", (16, 8), 2)
    c = normal("f32", (8, 8), 3)
    total = c.view(np.float32)
    wide = [x.view(np.float16).astype(np.float32) for x in (a, b)]
    for at in range(0, 16, 4):
        p = [wide[0][:, at + i, None] * wide[1][None, at + i] for i in range(4)]
        total = total + ((p[0] + p[1]) + (p[2] + p[3]))
    assert (mma(step, a, b, c) == total.view(np.uint32)).all()
    tiny = np.full((8, 16), 0x8001, np.uint16)
    minus = np.full((8, 8), 0x80000001, np.uint32)
    assert (mma(step, tiny, b, minus) == 0).all()


def test_special_values() -> None:
    step = model("mma.sync", "sm_90", "f16", 16)
    one, inf, nan = 0x3C00, 0x7C00, 0x7E00
    a = np.full((6, 16), one, np.uint16)
    a[1, 0], a[2, 3], a[3, :2], a[4, 5], a[5, 0] = inf, nan, (inf, 0xFC00), 0xFC00, 0
    b = np.full((16, 1), one, np.uint16)
    c = np.zeros((6, 1), np.uint32)
    got = mma(step, a, b, c)[:, 0].tolist()
    assert got == [0x41800000, 0x7F800000, 0x7FFFFFFF, 0x7FFFFFFF, 0xFF800000, 0x41700000]
    b[0] = inf
    assert mma(step, a, b, c)[5, 0] == 0x7FFFFFFF  # 0 * inf
    large = np.full((1, 1), 0x7F7FFFFF, np.uint32)
    big = np.full((1, 16), 0x7B00, np.uint16)
    assert mma(step, big, big.T, large).tolist() == [[0x7F7FFFFF]]  # truncation, not rounding
    bf = model("mma.sync", "sm_90", "bf16", 16)
    big = np.full((1, 16), 0x7F00, np.uint16)
    assert mma(bf, big, big.T, large).tolist() == [[0x7F800000]]
