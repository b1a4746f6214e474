"""Integer division written with magnitudes and a sign: x / y and x % y where it is exactly that."""

from __future__ import annotations

import pytest

from checker.tree.logic import Logic
from checker.tree.nodes import Forest
from checker.tree.poly import Poly, constant
from checker.tree.values import Value, Values
from checker.walk.ints import Ints


@pytest.fixture
def ints() -> Ints:
    values = Values(Forest(1))
    return Ints(values, Logic(values))


def _symbol(ints: Ints, name: str, low: int = 0) -> Poly:
    node = ints.forest.make("param", name, width=32, low=low, high=(1 << 32) - 1)
    return Poly(32, {(node,): 1})


def _sign(ints: Ints, v: Value) -> Value:
    return ints.op("shr_s", 32, (v, constant(32, 31)))


def _magnitudes(ints: Ints, name: str, x: Poly, y: Poly) -> Value:
    return ints.op(name, 32, (ints.op("iabs", 32, (x,)), ints.op("iabs", 32, (y,))))


def _signed(ints: Ints, q: Value, s: Value) -> Poly:
    return ints.values.poly(ints.op("isub", 32, (ints.op("ixor", 32, (q, s)), s)), 32)


def test_a_sign_on_a_quotient_is_a_signed_division(ints: Ints) -> None:
    x, y = _symbol(ints, "1+0"), _symbol(ints, "2+0")
    q = _magnitudes(ints, "idiv_u", x, y)
    made = _signed(ints, q, _sign(ints, ints.op("ixor", 32, (x, y))))
    assert made.same(ints.values.poly(ints.op("idiv_s", 32, (x, y)), 32))
    r = _magnitudes(ints, "irem_u", x, y)
    made = _signed(ints, r, _sign(ints, x))
    assert made.same(ints.values.poly(ints.op("irem_s", 32, (x, y)), 32))


def test_a_shifted_divisor_keeps_its_sign_where_no_bit_is_lost(ints: Ints) -> None:
    x, n = _symbol(ints, "1+0"), _symbol(ints, "2+0")
    for count, shift, kept in ((5, 2, True), (2, 2, True), (1, 2, False)):
        w = ints.op("shr_s", 32, (n, constant(32, count)))
        y = ints.values.poly(ints.op("shl", 32, (w, constant(32, shift))), 32)
        q = _magnitudes(ints, "idiv_u", x, y)
        made = _signed(ints, q, _sign(ints, ints.op("ixor", 32, (x, w))))
        wanted = ints.values.poly(ints.op("idiv_s", 32, (x, y)), 32)
        assert made.same(wanted) == kept


def test_other_signs_are_no_division(ints: Ints) -> None:
    x, y, z = (_symbol(ints, f"{i}+0") for i in (1, 2, 3))
    q, r = (_magnitudes(ints, name, x, y) for name in ("idiv_u", "irem_u"))
    quotient, rest = (ints.values.poly(ints.op(name, 32, (x, y)), 32)
                      for name in ("idiv_s", "irem_s"))
    both = ints.op("ixor", 32, (x, y))
    for s in (_sign(ints, x), _sign(ints, y), _sign(ints, ints.op("ixor", 32, (x, z))),
              ints.op("shr_s", 32, (both, constant(32, 30))),
              ints.op("shr_u", 32, (both, constant(32, 31)))):
        assert not _signed(ints, q, s).same(quotient)
    for s in (_sign(ints, y), _sign(ints, both)):
        assert not _signed(ints, r, s).same(rest)
    bare = ints.op("idiv_u", 32, (x, ints.op("iabs", 32, (y,))))
    assert not _signed(ints, bare, _sign(ints, both)).same(quotient)


def test_the_identity_holds_for_all_small_numbers() -> None:
    """8 bits stand for 32: every pair, the smallest number and its magnitude included."""
    def wrap(v: int) -> int:
        return (v + 128) % 256 - 128

    for x in range(-128, 128):
        for y in range(-128, 128):
            if y:
                q, r = abs(x) % 256 // (abs(y) % 256), abs(x) % 256 % (abs(y) % 256)
                s, t = (-1 if (x ^ y) < 0 else 0), (-1 if x < 0 else 0)
                quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
                assert wrap((q ^ s) - s) == wrap(quotient)
                assert wrap((r ^ t) - t) == wrap(x - quotient * y)


@pytest.mark.parametrize(("x", "y"), [(-(1 << 63), 3), (-(1 << 63), -7), (1 << 62, -(1 << 63)),
                                      (-(1 << 63), -(1 << 63)), (-7, 2), (7, -2), (-1, 1 << 62)])
def test_literals_divide_as_numbers_do(ints: Ints, x: int, y: int) -> None:
    q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    args = (constant(64, x), constant(64, y))
    for name, right in (("idiv_s", q), ("irem_s", x - q * y)):
        found = ints.op(name, 64, args)
        assert isinstance(found, Poly)
        assert found.const == right
