"""Draws are the same everywhere: rounding against exact rationals, and pinned digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from corpus.inputs import DRAWS, FORMATS, KINDS, RAW, canonical_nans, draw, indices, round_to, words


def exact(dtype: str, raw: int) -> Fraction | None:
    """The value of a float's bits; None for infinities and NaNs."""
    ebits, mbits, bias = FORMATS[dtype]
    sign = -1 if raw >> (ebits + mbits) else 1
    exponent = raw >> mbits & (1 << ebits) - 1
    mantissa = raw & (1 << mbits) - 1
    if dtype == "e4m3":
        if exponent == 15 and mantissa == 7:
            return None
    elif exponent == (1 << ebits) - 1:
        return None
    if exponent == 0:
        return sign * Fraction(mantissa) * Fraction(2) ** (1 - bias - mbits)
    return sign * Fraction(mantissa + (1 << mbits)) * Fraction(2) ** (exponent - bias - mbits)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "e4m3", "e5m2"])
def test_every_value_and_every_midpoint_rounds_to_nearest_even(dtype: str) -> None:
    ebits, mbits, _ = FORMATS[dtype]
    finite = [r for r in range(1 << (ebits + mbits)) if exact(dtype, r) is not None]
    values = np.array([float(exact(dtype, r) or 0) for r in finite])
    assert (round_to(dtype, values) == np.array(finite, RAW[dtype])).all()
    # Float64 holds every midpoint of these formats exactly.
    middle = (values[:-1] + values[1:]) / 2
    even = np.where(np.array(finite[:-1]) % 2 == 0, finite[:-1], finite[1:])
    assert (round_to(dtype, middle) == even.astype(RAW[dtype])).all()
    above = np.nextafter(middle, np.inf)
    assert (round_to(dtype, above) == np.array(finite[1:], RAW[dtype])).all()
    sign = 1 << (ebits + mbits)
    assert (round_to(dtype, -above) == np.array(finite[1:], RAW[dtype]) + RAW[dtype](sign)).all()


def test_f32_and_f16_round_as_numpy_does() -> None:
    bits = words("numbers", 20000)
    x = (bits.astype(np.int64).astype(np.float64)) * 2.0 ** -62
    x *= np.exp2((words("scales", 20000) % np.uint64(60)).astype(np.float64) - 40)
    assert (round_to("f32", x) == x.astype(np.float32).view(np.uint32)).all()
    with np.errstate(over="ignore"):
        assert (round_to("f16", x) == x.astype(np.float16).view(np.uint16)).all()


def test_draws_are_pinned() -> None:
    """These bits are what the committed truth was run on: they must never change."""
    assert _pin(DRAWS[:20]) == "1d4dcc172d68ffb6"


def test_the_draws_of_the_next_truth_are_pinned_too() -> None:
    assert _pin(DRAWS) == "d54fa1bcd06bd152"


def _pin(draws: Sequence[tuple[str, int]]) -> str:
    whole = hashlib.sha256()
    for kind, seed in draws:
        for dtype in sorted(RAW):
            axis = {"axis": [3, 8, 2], "mirror": -1}
            facts = {"buffer": "x", "dtype": dtype, "elements": 48, "draw": axis}
            whole.update(draw(kind, seed, facts, 1).astype("<u8").tobytes())
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("kind", ["normal", "wide", "edge", "span", "tiny"])
def test_what_ought_to_be_positive_is(kind: str) -> None:
    facts = {"buffer": "s", "dtype": "f32", "elements": 256, "draw": {"positive": True}}
    x = draw(kind, 1, facts).view(np.float32)
    assert (x > 0).all() if kind != "span" else (x >= 0).all()
    reach = x.max() > 2.0**100
    assert reach == (kind in ("edge", "span"))


def test_streams_differ_by_buffer_launch_seed_and_kind() -> None:
    def bits(kind: str, seed: int, name: str, launch: int) -> bytes:
        facts = {"buffer": name, "dtype": "f32", "elements": 64}
        return draw(kind, seed, facts, launch).tobytes()

    drawn = [bits("normal", 1, "x", 0), bits("normal", 2, "x", 0), bits("normal", 1, "y", 0),
             bits("normal", 1, "x", 1), bits("wide", 1, "x", 0)]
    assert len(set(drawn)) == len(drawn)


def test_a_cancelling_draw_cancels_and_keeps_its_partner_in_step() -> None:
    a = {"buffer": "a", "dtype": "f32", "elements": 5 * 64,
         "draw": {"axis": [5, 64, 1], "mirror": -1}}
    b = {"buffer": "b", "dtype": "f32", "elements": 64 * 3,
         "draw": {"axis": [1, 64, 3], "mirror": 1}}
    x = draw("cancel", 1, a).view(np.float32).reshape(5, 64).astype(np.float64)
    y = draw("cancel", 1, b).view(np.float32).reshape(64, 3).astype(np.float64)
    assert (np.abs(x.sum(1)) < 1e-4 * np.abs(x).sum(1)).all()
    assert (np.abs(x @ y) < 1e-4 * (np.abs(x) @ np.abs(y))).all()
    plain = draw("normal", 1, a).view(np.float32).reshape(5, 64).astype(np.float64)
    assert (np.abs(plain.sum(1)) > 1e-3).all()


@pytest.mark.parametrize("dtype", sorted(FORMATS))
def test_each_kind_has_what_it_is_drawn_for(dtype: str) -> None:
    facts = {"buffer": "x", "dtype": dtype, "elements": 4096}
    drawn = {kind: draw(kind, 1, facts) for kind in KINDS}
    ebits, mbits, _ = FORMATS[dtype]
    sign = drawn["tiny"].dtype.type(1 << (ebits + mbits))
    assert (drawn["tiny"] == 0).any()
    assert (drawn["tiny"] == sign).any()
    exponent = (drawn["tiny"].astype(np.uint64) >> np.uint64(mbits)) & np.uint64((1 << ebits) - 1)
    assert ((exponent == 0) & ((drawn["tiny"] & ~sign) != 0)).any()
    assert 0.8 < (drawn["sparse"] == 0).mean() < 0.95
    top = (drawn["special"].astype(np.uint64) >> np.uint64(mbits)) & np.uint64((1 << ebits) - 1)
    assert 2 <= (top == (1 << ebits) - 1).sum() <= 40
    spread = (drawn["wide"].astype(np.uint64) >> np.uint64(mbits)) & np.uint64((1 << ebits) - 1)
    assert len(np.unique(spread)) >= 10


def test_nans_become_one_and_nothing_else_moves() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    canonical = canonical_nans("f16", bits)
    nan = np.isnan(bits.view(np.float16))
    assert (canonical[nan] == 0x7E00).all()
    assert (canonical[~nan] == bits[~nan]).all()
    same = canonical_nans("i16", bits)
    assert (same == bits).all()


def test_indices_are_in_range_and_spread() -> None:
    found = indices("gather", 1000, 50)
    assert min(found) == 0
    assert max(found) == 49
