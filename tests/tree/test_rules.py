"""Exact identities: each fires where it may, holds on edge values, and avoids near misses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from checker.arith.ops import apply
from checker.core import Compare, Conv, FloatMode
from checker.tree.logic import Logic
from checker.tree.nodes import Forest, Node
from checker.tree.poly import Poly, constant
from checker.tree.rules import ONE, RULES, Floats
from checker.tree.values import Values

F32 = FloatMode("f32")
FTZ = FloatMode("f32", denorm="flush")
EDGES = np.array(
    [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x40490FDB, 0xC0490FDB, 0x7F7FFFFF, 0xFF7FFFFF,
     0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F800000, 0xFF800000, 0x7FC00000,
     0x7F000000, 0x34000000], dtype=np.uint32).view(np.float32)


class Kit:
    """A forest with its makers and three unknown floats."""

    def __init__(self) -> None:
        self.forest = Forest(4)
        self.values = Values(self.forest)
        self.floats = Floats(self.values)
        self.logic = Logic(self.values)

    def leaf(self, name: str, width: int = 32) -> Node:
        return self.forest.make("param", name, width=width, low=0, high=(1 << width) - 1)

    def lit(self, value: float) -> Node:
        bits = int(np.float32(value).view(np.uint32))
        return self.forest.literal(32, bits)

    def op(self, name: str, *args: Node, mode: FloatMode = F32) -> Node:
        return self.floats.op(name, mode, args)


@pytest.fixture
def kit() -> Kit:
    return Kit()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Bitwise equal, all NaNs alike."""
    nan = np.isnan(a) & np.isnan(b)
    return bool((nan | (a.view(np.uint32) == b.view(np.uint32))).all())


def pairs() -> tuple[np.ndarray, np.ndarray]:
    grid = np.array(list(itertools.product(EDGES, EDGES)), dtype=np.float32)
    return grid[:, 0].copy(), grid[:, 1].copy()


def test_the_table_says_why() -> None:
    for rule in RULES.values():
        assert rule.identity
        assert rule.guard
        assert rule.reason


def test_commute(kit: Kit) -> None:
    a, b, c = (kit.leaf(n) for n in "abc")
    assert kit.op("fadd", a, b) is kit.op("fadd", b, a)
    assert kit.op("ffma", a, b, c) is kit.op("ffma", b, a, c)
    assert kit.op("ffma", a, b, c) is not kit.op("ffma", a, c, b)
    assert kit.op("fdiv", a, b) is not kit.op("fdiv", b, a)
    assert kit.op("fadd", a, kit.op("fadd", b, c)) is not kit.op("fadd", kit.op("fadd", a, b), c)


def test_modes_are_part_of_the_operation(kit: Kit) -> None:
    a, b = kit.leaf("a"), kit.leaf("b")
    modes = [F32, FTZ, FloatMode("f32", rnd="rz"), FloatMode("f32", saturate=True),
             FloatMode("f32", relu=True), FloatMode("f16")]
    made = {kit.floats.raw("fadd", m, (a, b)).serial for m in modes}
    assert len(made) == len(modes)
    assert kit.op("fadd", a, b, mode=FloatMode("f32", contract=True)) is kit.op("fadd", a, b)


def test_zeros(kit: Kit) -> None:
    a = kit.leaf("a")
    never = kit.op("fabs", a)
    minus, plus = kit.lit(-0.0), kit.lit(0.0)
    assert kit.op("fadd", a, minus) is a
    assert kit.op("fadd", a, plus) is not a  # a may be -0
    assert kit.op("fadd", never, plus) is never
    assert kit.op("fadd", a, minus, mode=FTZ) is not a  # flushes a subnormal
    assert kit.op("fadd", a, minus, mode=FloatMode("f32", rnd="rm")) is not a
    x = EDGES.copy()
    assert same_bits(x + np.float32(-0.0), x)
    assert not same_bits(x + np.float32(0.0), x)


def test_signs(kit: Kit) -> None:
    a, b, c = (kit.leaf(n) for n in "abc")
    neg = kit.floats.negate
    assert neg(neg(a, "f32"), "f32") is a
    assert kit.op("fsub", a, b) is kit.op("fadd", a, neg(b, "f32"))
    assert kit.op("fmul", neg(a, "f32"), b) is neg(kit.op("fmul", a, b), "f32")
    assert kit.op("fmul", a, kit.lit(-1.0)) is neg(a, "f32")
    assert kit.op("ffma", neg(a, "f32"), b, c) is kit.op("ffma", a, neg(b, "f32"), c)
    assert kit.op("fsub", kit.lit(0.0), a) is not neg(a, "f32")  # 0 - 0 is +0
    assert neg(kit.op("fadd", a, b), "f32") is not kit.op("fadd", neg(a, "f32"), neg(b, "f32"))
    rp = FloatMode("f32", rnd="rp")
    assert kit.op("fmul", neg(a, "f32"), b, mode=rp) is not neg(kit.op("fmul", a, b, mode=rp),
                                                                "f32")
    with np.errstate(all="ignore"):
        x, y = pairs()
        assert same_bits(-x * y, -(x * y))
        assert not same_bits((-x) + (-y), -(x + y))
        assert not same_bits(np.float32(0) - x, -x)


def test_doubles_and_powers_of_two(kit: Kit) -> None:
    a, b = kit.leaf("a"), kit.leaf("b")
    two = kit.lit(2.0)
    assert kit.op("fadd", a, a) is kit.op("fmul", a, two)
    assert kit.op("fdiv", a, kit.lit(8.0)) is kit.op("fmul", a, kit.lit(0.125))
    assert kit.op("fdiv", a, kit.lit(3.0)) is not kit.op("fmul", a, kit.lit(1.0 / 3.0))
    huge = kit.forest.literal(32, 0x7F000000)  # 2**127: its inverse is subnormal
    inverse = kit.forest.literal(32, 0x00400000)
    assert kit.op("fdiv", a, huge) is not kit.op("fmul", a, inverse)
    assert kit.op("ffma", a, two, b) is not kit.op("fadd", kit.op("fadd", a, a), b)
    assert kit.op("frcp", a) is kit.op("fdiv", kit.lit(1.0), a)
    with np.errstate(all="ignore"):
        assert same_bits(EDGES + EDGES, EDGES * np.float32(2))
        assert same_bits(EDGES / np.float32(8), EDGES * np.float32(0.125))
        some = np.arange(1, 100, dtype=np.float32)
        assert not same_bits(some / np.float32(3), some * (np.float32(1) / np.float32(3)))


def test_products_of_halves_are_exact(kit: Kit) -> None:
    a, b = kit.leaf("a", 16), kit.leaf("b", 16)
    c, d = kit.leaf("c"), kit.leaf("d")

    def wide(x: Node, kind: str = "f16") -> Node:
        return kit.values.node(kit.floats.convert(Conv(kind, "f32"), x))

    def two_steps(x: Node, y: Node) -> Node:
        return kit.op("fadd", kit.op("fmul", x, y), c)

    x, y = wide(a), wide(b)
    assert kit.op("ffma", x, y, c) is two_steps(x, y)
    assert kit.op("ffma", kit.op("fneg", x), y, c) is two_steps(kit.op("fneg", x), y)
    assert kit.op("ffma", x, kit.lit(0.5), c) is two_steps(x, kit.lit(0.5))
    masked = kit.values.node(kit.values.select(kit.forest.make("p", width=1), x, kit.lit(0), 32))
    assert kit.op("ffma", masked, y, c) is two_steps(masked, y)
    # near misses: bf16 underflows, 0.1 and a single have more bits, a widened sum is rounded
    assert kit.op("ffma", wide(a, "bf16"), wide(b, "bf16"), c) is not two_steps(
        wide(a, "bf16"), wide(b, "bf16"))
    for other in (d, kit.lit(0.1), kit.lit(2.0 ** 30), kit.op("fadd", y, y)):
        assert kit.op("ffma", x, other, c) is not two_steps(x, other)
    rounded = kit.values.node(kit.floats.convert(Conv("f32", "f16", rnd="rn"), d))
    assert kit.op("ffma", x, wide(rounded), c) is two_steps(x, wide(rounded))


def test_an_exact_product_is_one_on_edge_values() -> None:
    halves = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x3C01, 0x7BFF,
                       0xFBFF, 0x7C00, 0xFC00, 0x7E00], dtype=np.uint16).view(np.float16)
    x, y = (g.ravel() for g in np.meshgrid(halves.astype(np.float32), halves.astype(np.float32)))
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64) * y.astype(np.float64)
        assert same_bits(exact.astype(np.float32), x * y)
        finite = np.isfinite(exact)
        assert bool((exact[finite] == (x * y)[finite].astype(np.float64)).all())


def test_multiply_by_one(kit: Kit) -> None:
    a, b = kit.leaf("a"), kit.leaf("b")
    one = kit.forest.literal(32, ONE["f32"])
    assert kit.op("fmul", a, one) is a
    assert kit.op("fmul", a, one, mode=FTZ) is not a
    assert kit.op("fmul", a, one, mode=FloatMode("f32", saturate=True)) is not a
    assert kit.op("ffma", a, one, b) is kit.op("fadd", a, b)


def test_extrema_are_sets(kit: Kit) -> None:
    a, b, c = (kit.leaf(n) for n in "abc")
    left = kit.op("fmax", kit.op("fmax", a, b), c)
    assert left is kit.op("fmax", a, kit.op("fmax", c, b))
    assert kit.op("fmax", a, a) is a
    assert kit.op("fmax3", a, b, c) is left
    assert left is not kit.op("fmin", kit.op("fmin", a, b), c)
    propagates = FloatMode("f32", nan="nan")
    assert kit.op("fmax", a, b) is not kit.op("fmax", a, b, mode=propagates)
    assert kit.op("fmax", a, a, mode=FTZ) is not a
    low = kit.lit(-np.inf)
    assert kit.op("fmax", a, low) is not a  # a NaN would win over nothing


def test_what_flushes_stays_below_what_does_not(kit: Kit) -> None:
    a = kit.leaf("a")
    for outer, inner in itertools.product(("fabs", "fneg"), repeat=2):
        made = kit.op(outer, kit.op(inner, a, mode=FTZ))
        assert made is not kit.op(outer, a)
        assert made is not kit.op(outer, kit.op(inner, a))
        assert made is not a


def test_where_is_no_max(kit: Kit) -> None:
    a, b = kit.leaf("a"), kit.leaf("b")
    p = kit.floats.compare(Compare("gt", "f32"), a, b)
    assert kit.values.select(p, a, b, 32) is not kit.op("fmax", a, b)


def test_comparisons(kit: Kit) -> None:
    a, b = kit.leaf("a"), kit.leaf("b")
    cmp = kit.floats.compare
    assert cmp(Compare("gt", "f32"), a, b) is cmp(Compare("lt", "f32"), b, a)
    assert cmp(Compare("leu", "f32"), a, b) is kit.logic.negate(cmp(Compare("gt", "f32"), a, b))
    assert cmp(Compare("le", "f32"), a, b) is not kit.logic.negate(cmp(Compare("gt", "f32"), a, b))
    assert cmp(Compare("eq", "f32"), a, b) is cmp(Compare("eq", "f32"), b, a)
    assert cmp(Compare("neu", "f32"), a, b) is kit.logic.negate(cmp(Compare("eq", "f32"), a, b))
    assert cmp(Compare("ne", "f32"), a, b) is not kit.logic.negate(cmp(Compare("eq", "f32"), a, b))


@pytest.mark.parametrize("cond", ["nan", "num"])
def test_tests_for_nan(kit: Kit, cond: str) -> None:
    a, b = kit.leaf("a"), kit.leaf("b")

    def test(x: Node, y: Node, kind: str = "f32") -> Node:
        return kit.floats.compare(Compare(cond, kind), x, y)

    minus, size = kit.op("fneg", a), kit.op("fabs", a)
    assert test(minus, minus) is test(size, size) is test(a, a)
    assert test(size, b) is test(b, minus)
    assert test(a, kit.lit(1.0)) is test(kit.lit(np.inf), size) is test(a, a)
    other = kit.op("fsub", a, b)
    for x, y in ((a, b), (a, kit.lit(np.nan)), (other, other)):
        assert test(x, y) is not test(a, a)
    assert test(kit.op("fabs", a, mode=FTZ), a) is not test(a, a)  # kept as it is written
    less = kit.floats.compare(Compare("lt", "f32"), size, b)
    assert less is not kit.floats.compare(Compare("lt", "f32"), a, b)


def test_nothing_is_beyond_an_infinity(kit: Kit) -> None:
    a, top, low = kit.leaf("a"), kit.lit(np.inf), kit.lit(-np.inf)

    def test(cond: str, x: Node, y: Node) -> Node:
        return kit.floats.compare(Compare(cond, "f32"), x, y)

    for x, y in ((a, low), (top, a)):
        assert test("lt", x, y) is test("gt", y, x) is kit.forest.false
        assert test("geu", x, y) is kit.forest.true
        assert test("ge", x, y) is test("num", a, a)
        assert test("ltu", x, y) is test("nan", a, a)
    for near in (test("le", a, low), test("lt", low, a), test("lt", a, top), test("gt", a, low),
                 test("lt", a, kit.lit(float(np.finfo(np.float32).min)))):
        assert near not in (kit.forest.false, kit.forest.true, test("num", a, a))
    half = kit.forest.literal(32, 0x7C00)  # an infinity of f16 only
    assert test("lt", half, a) is not kit.forest.false


def test_conversions(kit: Kit) -> None:
    h, a = kit.leaf("h", 16), kit.leaf("a")
    up, down = Conv("f16", "f32"), Conv("f32", "f16", "rn")
    assert kit.floats.convert(down, kit.floats.convert(up, h)) is h
    assert kit.floats.convert(up, kit.floats.convert(down, a)) is not a
    wide = kit.floats.convert(Conv("bf16", "f32"), h)
    assert kit.floats.convert(Conv("f32", "bf16", "rn"), wide) is h
    assert kit.floats.convert(down, wide) is not h  # bf16 through f32 to f16 rounds
    clamp = Conv("f32", "f16", "rn", saturate=True)
    assert kit.floats.convert(clamp, kit.floats.convert(up, h)) is not h
    g = kit.leaf("g", 16)
    half = FloatMode("f16")
    inside = kit.floats.convert(up, kit.op("fmax", h, g, mode=half))
    outside = kit.op("fmax", kit.floats.convert(up, h), kit.floats.convert(up, g))
    assert inside is outside
    added = kit.floats.convert(up, kit.op("fadd", h, g, mode=half))
    assert added is not kit.op("fadd", kit.floats.convert(up, h), kit.floats.convert(up, g))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["fadd", "fmul"])
def test_halves_are_added_and_multiplied_through_singles(kit: Kit, kind: str, name: str) -> None:
    down, half = Conv("f32", kind, "rn"), FloatMode(kind)
    h, g = kit.leaf("h", 16), kit.leaf("g", 16)

    def wide(x: Node, of: str = kind) -> Node:
        return kit.values.node(kit.floats.convert(Conv(of, "f32"), x))

    def rounded(conv: Conv, *args: Node, mode: FloatMode = F32) -> Node:
        return kit.values.node(kit.floats.convert(conv, kit.op(name, *args, mode=mode)))

    x, y = wide(h), wide(g)
    here = kit.op(name, h, g, mode=half)
    assert rounded(down, x, y) is here
    assert rounded(down, kit.op("fneg", x), y) is kit.op(
        name, kit.op("fneg", h, mode=half), g, mode=half)
    assert rounded(down, kit.op("fmax", x, kit.lit(0)), y) is kit.op(
        name, kit.op("fmax", h, kit.forest.literal(16, 0), mode=half), g, mode=half)
    p = kit.forest.make("p", width=1)
    masked = kit.values.node(kit.values.select(p, x, kit.lit(1.5), 32))
    literal = kit.values.node(kit.floats.convert(down, kit.lit(1.5)))
    assert rounded(down, masked, y) is kit.op(
        name, kit.values.node(kit.values.select(p, h, literal, 16)), g, mode=half)
    # near misses: another type, operand, rounding, clamp or mode, a value between, three operands
    other = "bf16" if kind == "f16" else "f16"
    single = kit.leaf("a")
    assert rounded(down, wide(h, other), wide(g, other)) is not here
    assert rounded(Conv("f32", other, "rn"), x, y).op == "fcvt"
    for apart in (single, kit.lit(0.1), kit.lit(1e30 if kind == "f16" else 1.0039062),
                  kit.op("fmax", x, single), kit.op("fadd", x, y), kit.op("fabs", x, mode=FTZ),
                  kit.op("fneg", x, mode=FTZ)):
        assert rounded(down, x, apart).op == "fcvt"
    for conv in (Conv("f32", kind, "rz"), Conv("f32", kind, "rn", satfinite=True),
                 Conv("f32", kind, "rn", relu=True), Conv("f32", kind, "rn", denorm="flush")):
        assert rounded(conv, x, y).op == "fcvt"
    for mode in (FTZ, FloatMode("f32", rnd="rz"), FloatMode("f32", saturate=True)):
        assert rounded(down, x, y, mode=mode).op == "fcvt"
    fused = kit.values.node(kit.floats.convert(down, kit.op("ffma", x, y, x)))
    assert fused is not kit.op("ffma", h, g, h, mode=half)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["fadd", "fmul"])
def test_halves_through_singles_on_many_values(kind: str, name: str) -> None:
    """Against the exact result in f64, rounded once; products of two bf16 near the smallest, too.

    A product has at most 22 bits and an f64 sum of two f16 is exact; a sum of two bf16 far apart
    is rounded to odd, so that the second rounding sees which side it lies on.
    """
    rng = np.random.default_rng(5)
    bits = np.concatenate([rng.integers(0, 1 << 16, 60_000), np.arange(0, 400),
                           np.arange(0x1F00, 0x2100), np.arange(0x9F80, 0xA080)])
    a = bits.astype(np.uint16)
    b = rng.permutation(a)

    def wide(x: np.ndarray) -> np.ndarray:
        if kind == "f16":
            return x.view(np.float16).astype(np.float32)
        return (x.astype(np.uint32) << 16).view(np.float32)

    x, y = wide(a), wide(b)
    with np.errstate(all="ignore"):
        once = x + y if name == "fadd" else x * y
        p, q = x.astype(np.float64), y.astype(np.float64)
        exact = p + q if name == "fadd" else p * q
        lost = (p - (exact - (exact - p))) + (q - (exact - p)) if name == "fadd" else p * 0
    odd = exact.view(np.int64)
    apart = (lost != 0) & np.isfinite(exact) & np.isfinite(lost) & (odd & 1 == 0)
    odd = np.where(apart, odd + np.where((lost > 0) == (exact > 0), 1, -1), odd)
    through = apply("fcvt", Conv("f32", kind, "rn"), once.view(np.uint32))
    direct = apply("fcvt", Conv("f64", kind, "rn"), odd.view(np.uint64))
    number = ~np.isnan(once)
    assert bool((through[number] == direct[number]).all())


def test_widening_keeps_extrema() -> None:
    bits = np.arange(0, 1 << 16, 97, dtype=np.uint16).view(np.float16)
    x, y = bits, bits[::-1]
    narrow = np.fmax(x, y)
    ok = ~np.isnan(narrow) & (narrow != 0)
    wide = np.fmax(x.astype(np.float32), y.astype(np.float32))
    assert bool((narrow.astype(np.float32)[ok] == wide[ok]).all())


# --- integers ---------------------------------------------------------------------------------


def test_wrap_before_widening_is_another_function(kit: Kit) -> None:
    n = Poly(32, {(kit.leaf("n"),): 1})
    first = kit.values.sext(n.add(constant(32, 1)), 32, 64)
    then = kit.values.sext(n, 32, 64).add(constant(64, 1))
    assert not first.same(then)
    block = kit.forest.make("sreg", "ctaid.y", low=0, high=65534)
    tile = Poly(32, {(block,): 64}).add(constant(32, 3))
    assert kit.values.sext(tile, 32, 64).same(tile.to_width(64))  # cannot wrap


def test_literals_leave_a_cast_only_where_nothing_carries(kit: Kit) -> None:
    n = Poly(32, {(kit.leaf("n"),): 8})
    sext = kit.values.sext
    assert sext(n.add(constant(32, 7)), 32, 64).same(sext(n, 32, 64).add(constant(64, 7)))
    assert not sext(n.add(constant(32, 8)), 32, 64).same(sext(n, 32, 64).add(constant(64, 8)))


def test_selects_of_integers_are_sums(kit: Kit) -> None:
    p = kit.logic.compare("lt", True, 32, Poly(32, {(kit.leaf("i"),): 1}), constant(32, 5))
    q = kit.logic.compare("lt", True, 32, Poly(32, {(kit.leaf("j"),): 1}), constant(32, 5))
    size = kit.values.select(p, constant(32, 16), constant(32, 0), 32)
    both = kit.values.select(q, size, constant(32, 0), 32)
    assert kit.logic.equal(both, constant(32, 16), 32) is kit.logic.conjunction([p, q])
    assert kit.logic.equal(both, constant(32, 0), 32) is kit.logic.negate(
        kit.logic.conjunction([p, q]))


def test_conditions(kit: Kit) -> None:
    i = Poly(32, {(kit.leaf("i"),): 1})
    n = Poly(32, {(kit.leaf("n"),): 1})
    less = kit.logic.compare("lt", True, 32, i, n)
    assert kit.logic.compare("gt", True, 32, n, i) is less
    assert kit.logic.negate(kit.logic.compare("ge", True, 32, i, n)) is less
    assert kit.logic.compare("lt", False, 32, i, n) is not less
    assert kit.logic.compare("le", True, 32, i, n) is not less
    assert kit.logic.conjunction([less, kit.logic.negate(less)]) is kit.forest.false
    assert kit.logic.implies([less], kit.logic.compare("le", True, 32, i, n))
    assert not kit.logic.implies([kit.logic.compare("le", True, 32, i, n)], less)
