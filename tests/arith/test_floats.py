"""Float operations against exact fractions, in every type, mode and denormal mode."""

from __future__ import annotations

import numpy as np
import pytest

from checker.arith.formats import FORMATS, flush_subnormal
from checker.arith.ops import UnsupportedArithmetic, apply
from checker.core import Compare, Conv, FloatMode
from checker.draws import canonical_nans

from . import reference
from .values import edges, random_bits, tuples

TYPES = ["f16", "bf16", "f32", "f64"]
MODES = ["rn", "rz", "rm", "rp"]
ARITY = {"fadd": 2, "fsub": 2, "fmul": 2, "ffma": 3, "fdiv": 2, "frcp": 1, "fsqrt": 1}


def expect(name: str, kind: str, rnd: str, columns: list[np.ndarray]) -> list[int]:
    out = []
    for row in zip(*(c.tolist() for c in columns), strict=True):
        exact = reference.operation(name, rnd, *(reference.value(kind, b) for b in row))
        out.append(reference.round_bits(kind, exact, rnd))
    return out


@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", sorted(ARITY))
def test_rounds_the_exact_result_once(name: str, kind: str, rnd: str) -> None:
    count = 1200 if ARITY[name] > 1 else 600
    columns = tuples(kind, ARITY[name], count, seed=len(name) * 7 + len(kind))
    got = apply(name, FloatMode(kind, rnd), *columns)
    want = expect(name, kind, rnd, columns)
    wrong = [i for i, bits in enumerate(want) if int(got[i]) != bits]
    assert not wrong, [(hex(int(c[wrong[0]])) for c in columns), hex(int(got[wrong[0]])),
                       hex(want[wrong[0]])]


@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize("kind", TYPES)
def test_fma_that_cancels(kind: str, rnd: str) -> None:
    """c = -(a * b) rounded in some mode: the result is the product's own rounding error."""
    a, b = tuples(kind, 2, 600, seed=5)
    c = apply("fmul", FloatMode(kind, "rz"), a, b) ^ a.dtype.type(FORMATS[kind].sign)
    got = apply("ffma", FloatMode(kind, rnd), a, b, c)
    assert got.tolist() == expect("ffma", kind, rnd, [a, b, c])


def test_fma_whose_product_alone_would_overflow() -> None:
    big, inf = np.array([0x7FE0 << 48], np.uint64), np.array([0xFFF0 << 48], np.uint64)
    assert apply("ffma", FloatMode("f64"), big, big, inf).tolist() == inf.tolist()
    assert apply("ffma", FloatMode("f64"), big, big, big | np.uint64(1 << 63)).tolist() == [
        0x7FF0 << 48]


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_fma_near_midpoints(kind: str) -> None:
    """A tiny product decides a tie: double rounding would get it wrong."""
    fmt = FORMATS[kind]
    half = np.arange(1 << 6, dtype=np.uint64) + (fmt.bias << fmt.man_bits)
    big = half.astype(apply("fneg", FloatMode(kind), edges(kind)).dtype)
    ulp = big.dtype.type((fmt.bias - fmt.man_bits - 1) << fmt.man_bits)  # half a unit
    for mag in (0, 1, 1 << fmt.man_bits, fmt.sign | 1, fmt.sign | 1 << fmt.man_bits):
        tiny = np.full_like(big, mag)
        one_plus = np.full_like(big, (fmt.bias << fmt.man_bits) + 1)
        for factor in (tiny, np.full_like(big, ulp), np.full_like(big, ulp + 1)):
            columns = [factor, one_plus, big]
            got = apply("ffma", FloatMode(kind), *columns)
            assert got.tolist() == expect("ffma", kind, "rn", columns)


def test_single_precision_fast_path_agrees_with_the_machine() -> None:
    x, y = random_bits("f32", 100_000, 1), random_bits("f32", 100_000, 2)
    for name, function in (("fadd", np.add), ("fmul", np.multiply), ("fdiv", np.divide)):
        with np.errstate(all="ignore"):
            want = function(x.view(np.float32), y.view(np.float32))
        got = apply(name, FloatMode("f32"), x, y).view(np.float32)
        np.testing.assert_array_equal(got, want)


def test_half_precision_agrees_with_numpy_on_all_pairs_of_a_sample() -> None:
    x = np.arange(0, 1 << 16, 17, dtype=np.uint16)[:, None]
    y = np.arange(5, 1 << 16, 263, dtype=np.uint16)[None, :]
    for name, function in (("fadd", np.add), ("fmul", np.multiply), ("fdiv", np.divide)):
        with np.errstate(all="ignore"):
            want = function(x.view(np.float16), y.view(np.float16))
        got = apply(name, FloatMode("f16"), x, y)
        np.testing.assert_array_equal(got.view(np.float16), want)


def test_bf16_product_may_be_rounded_through_single_precision() -> None:
    """Each bf16 with a spread of others, subnormal products and overflow included."""
    a = np.arange(1 << 16, dtype=np.uint64)
    single, widen, narrow = FloatMode("f32"), Conv("bf16", "f32"), Conv("f32", "bf16", "rn")
    for other in (0x0000, 0x8001, 0x0080, 0x007F, 0x1F81, 0x2000, 0x20FF, 0x3F00, 0x3F81, 0x4000,
                  0x5F7F, 0x7F7F, 0x7F80, 0x7FC0):
        b = np.full_like(a, other)
        wide = apply("fmul", single, apply("fcvt", widen, a), apply("fcvt", widen, b))
        twice = canonical_nans("bf16", apply("fcvt", narrow, wide).astype(np.uint16))
        direct = apply("fmul", FloatMode("bf16"), a, b).astype(np.uint16)
        assert (canonical_nans("bf16", direct) == twice).all()


@pytest.mark.parametrize("kind", TYPES)
def test_flushing_keeps_the_sign(kind: str) -> None:
    fmt = FORMATS[kind]
    x, y = tuples(kind, 2, 2000, seed=9)
    for mode, before, after in (("flush", True, True), ("flush_in", True, False),
                                ("flush_out", False, True)):
        got = apply("fadd", FloatMode(kind, denorm=mode), x, y)
        a, b = (flush_subnormal(fmt, x), flush_subnormal(fmt, y)) if before else (x, y)
        want = apply("fadd", FloatMode(kind), a, b)
        want = flush_subnormal(fmt, want) if after else want  # a sum never rounds up to normal
        assert got.tolist() == want.tolist()
    half = np.array([(fmt.bias - 1) << fmt.man_bits], x.dtype)
    below_two = np.array([(2 << fmt.man_bits) - 1], x.dtype)  # times a half: rounds up to normal
    assert apply("fmul", FloatMode(kind), half, below_two).tolist() == [1 << fmt.man_bits]
    if kind != "f64":
        assert apply("fmul", FloatMode(kind, denorm="flush"), half, below_two).tolist() == [0]
    tiny = np.array([1, fmt.sign | 1], x.dtype)
    assert flush_subnormal(fmt, tiny).tolist() == [0, fmt.sign]


@pytest.mark.parametrize("kind", TYPES)
def test_saturate_and_relu(kind: str) -> None:
    fmt = FORMATS[kind]
    x = edges(kind)
    zero = np.full_like(x, fmt.sign)  # x + -0 is x
    plain = apply("fadd", FloatMode(kind), x, zero)
    clamped = apply("fadd", FloatMode(kind, saturate=True), x, zero)
    kept = apply("fadd", FloatMode(kind, relu=True), x, zero)
    one = fmt.bias << fmt.man_bits
    for bits, low, up in zip(plain.tolist(), clamped.tolist(), kept.tolist(), strict=True):
        nan = bits == fmt.nan
        negative = bits >= fmt.sign
        assert low == (0 if nan or negative else min(bits, one))
        assert up == (fmt.nan if nan else 0 if negative else bits)


@pytest.mark.parametrize("kind", TYPES)
def test_min_and_max(kind: str) -> None:
    fmt = FORMATS[kind]
    x, y = tuples(kind, 2, 3000, seed=4)
    low = apply("fmin", FloatMode(kind), x, y)
    high = apply("fmax", FloatMode(kind, nan="nan"), x, y)
    for a, b, small, large in zip(*(c.tolist() for c in (x, y, low, high)), strict=True):
        va, vb = reference.value(kind, a), reference.value(kind, b)
        nan_a, nan_b = va != va, vb != vb
        key = [(-1 if v == 0 and reference.negative(v) else 0) for v in (va, vb)]
        if nan_a or nan_b:
            assert large == fmt.nan
            assert small == (fmt.nan if nan_a and nan_b else b if nan_a else a)
        else:
            first = (va, key[0]) <= (vb, key[1])
            assert small == (a if first else b)
            assert large == (b if first else a)


def test_xorsign_abs() -> None:
    a = np.array([0x3F800000, 0xBF800000, 0xC0000000], np.uint32)
    b = np.array([0xC0000000, 0xC0000000, 0x40400000], np.uint32)
    got = apply("fmin", FloatMode("f32", xorsign_abs=True), a, b)
    assert got.tolist() == [0xBF800000, 0x3F800000, 0xC0000000]


def test_three_operands() -> None:
    a, b, c = tuples("f32", 3, 500, seed=8)
    for name in ("fmin", "fmax"):
        for nan in ("num", "nan"):
            mode = FloatMode("f32", nan=nan)
            two = apply(name, mode, apply(name, mode, a, b), c)
            assert apply(name + "3", mode, a, b, c).tolist() == two.tolist()


def test_signs() -> None:
    x, y = tuples("f16", 2, 500, seed=3)
    nan = (x & np.uint16(0x7FFF)) > 0x7C00
    one = np.uint16(0x7FFF)
    assert (apply("fneg", FloatMode("f16"), x) == np.where(nan, one, x ^ np.uint16(0x8000))).all()
    assert (apply("fabs", FloatMode("f16"), x) == np.where(nan, one, x & one)).all()
    got = apply("fcopysign", FloatMode("f16"), x, y)
    assert (got == (x & np.uint16(0x8000)) | (y & np.uint16(0x7FFF))).all()


@pytest.mark.parametrize("rnd", MODES)
@pytest.mark.parametrize("kind", TYPES)
def test_ldexp(kind: str, rnd: str) -> None:
    (x,) = tuples(kind, 1, 300, seed=6)
    rng = np.random.default_rng(1)
    n = np.where(rng.integers(0, 2, 300) == 0, rng.integers(-40, 40, 300),
                 rng.integers(-2200, 2200, 300))
    n[:2] = (-(1 << 31), (1 << 31) - 1)
    got = apply("fldexp", FloatMode(kind, rnd), x, n.astype(np.int32).view(np.uint32))
    for bits, power, out in zip(x.tolist(), n.tolist(), got.tolist(), strict=True):
        v = reference.value(kind, bits)
        power = max(-5000, min(5000, power))
        exact = v if isinstance(v, float) else v * reference.Fraction(2) ** power
        assert out == reference.round_bits(kind, exact, rnd)


CONDITIONS = {"eq": lambda a, b: a == b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
              "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "ne": lambda a, b: a != b}


@pytest.mark.parametrize("kind", TYPES)
def test_compare(kind: str) -> None:
    x, y = tuples(kind, 2, 2000, seed=2)
    y[:300] = x[:300]
    values = [(reference.value(kind, a), reference.value(kind, b))
              for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    for cond, test in CONDITIONS.items():
        ordered = [a == a and b == b and test(a, b) for a, b in values]
        either = [a != a or b != b or test(a, b) for a, b in values]
        assert apply("fcmp", Compare(cond, kind), x, y).tolist() == ordered
        assert apply("fcmp", Compare(cond + "u", kind), x, y).tolist() == either
    number = [a == a and b == b for a, b in values]
    assert apply("fcmp", Compare("num", kind), x, y).tolist() == number
    assert apply("fcmp", Compare("nan", kind), x, y).tolist() == [not n for n in number]


def test_compare_flushes() -> None:
    tiny, zero = np.array([1], np.uint32), np.array([0x80000000], np.uint32)
    assert apply("fcmp", Compare("eq", "f32", "flush"), tiny, zero).tolist() == [True]
    assert apply("fcmp", Compare("eq", "f32"), tiny, zero).tolist() == [False]


def test_classes() -> None:
    x = np.array([0, 1, 0x3F800000, 0x7F800000, 0x7FC00000, 0xFF800000], np.uint32)
    want = {"finite": [1, 1, 1, 0, 0, 0], "infinite": [0, 0, 0, 1, 0, 1],
            "number": [1, 1, 1, 1, 0, 1], "notanumber": [0, 0, 0, 0, 1, 0],
            "normal": [0, 0, 1, 0, 0, 0], "subnormal": [0, 1, 0, 0, 0, 0]}
    for test, flags in want.items():
        assert apply("fclass", (test, "f32"), x).tolist() == [bool(f) for f in flags]


def test_scalars_and_broadcasting() -> None:
    one = np.uint32(0x3F800000)
    assert apply("fadd", FloatMode("f32"), one, one) == 0x40000000
    row = apply("fadd", FloatMode("f32"), np.full((3, 1), one), np.full((1, 4), one))
    assert row.shape == (3, 4)
    wide = np.array([0x3C00], np.uint64)  # wider storage than the type needs
    assert apply("fadd", FloatMode("f16"), wide, wide).tolist() == [0x4000]


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(UnsupportedArithmetic):
        apply("fadd", FloatMode("tf32"), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    with pytest.raises(UnsupportedArithmetic):
        apply("iadd", 32, np.zeros(1, np.uint32), np.zeros(1, np.uint32))
