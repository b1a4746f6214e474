"""Approximate functions: exact places, symmetries, claims; the card's own results: test_card."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from checker.arith.ops import UnsupportedArithmetic, accurate, apply
from checker.core import Approx, FloatMode

from .values import stream

KEEP, FLUSH = FloatMode("f32"), FloatMode("f32", denorm="flush")


def run(fn: str, *values: float, mode: FloatMode = KEEP, unit: str = "sm_90") -> list[float]:
    args = [np.array([v], np.float32).view(np.uint32) for v in values]
    return apply("fapprox", Approx(fn, unit, mode), *args).view(np.float32).tolist()


def test_whole_powers_are_exact() -> None:
    for n in [*range(-148, -126, 2), *range(-126, 128)]:
        assert run("ex2.approx", float(n)) == [2.0**n]
    assert run("ex2.approx", -127.0) != [2.0**-127]  # the square of 2**-63.5
    assert run("ex2.approx", -127.0, mode=FLUSH) == [0.0]
    assert run("ex2.approx", 128.0) == [np.inf]
    assert run("ex2.approx", -(2.0**-24)) == [1.0]


def test_lg2_of_a_small_power_is_off_by_one_unit() -> None:
    """Seen on the card: log2(1/8) is -2.9999998, log2(8) is 3."""
    assert run("lg2.approx", 8.0) == [3.0]
    assert run("lg2.approx", 1.0) == [0.0]
    assert run("lg2.approx", 0.125) == [float(np.nextafter(np.float32(-3), np.float32(0)))]
    assert run("lg2.approx", 0.0) == [-np.inf]
    assert np.isnan(run("lg2.approx", -1.0)).all()


def test_quarter_turns_and_symmetry() -> None:
    x = (stream(3, 4000) >> np.uint64(32)).astype(np.uint32)
    minus = x ^ np.uint32(1 << 31)
    sin, cos = (Approx(f"{f}.approx", "sm_90", KEEP) for f in ("sin", "cos"))
    nan = np.isnan(x.view(np.float32)) | np.isinf(x.view(np.float32))
    up, down = apply("fapprox", sin, x)[~nan], apply("fapprox", sin, minus)[~nan]
    assert (up ^ down == np.uint32(1 << 31)).all()
    assert (apply("fapprox", cos, x) == apply("fapprox", cos, minus)).all()
    assert run("sin.approx", 0.0) == [0.0]
    assert run("cos.approx", 0.0) == [1.0]
    assert np.isnan(run("cos.approx", np.inf)).all()


def test_tanh_is_the_identity_below_and_one_above() -> None:
    assert run("tanh.approx", 2.0**-10 * 1.25) == [2.0**-10 * 1.25]
    assert run("tanh.approx", 8.0) == [1.0]
    assert run("tanh.approx", -np.inf) == [-1.0]


def test_division_scales_large_and_small_divisors() -> None:
    assert run("div.full", 2.0**120, 2.0**127) == [2.0**-7]
    assert run("div.approx", 2.0**120, 2.0**127) == [0.0]  # the reciprocal is flushed
    assert run("div.full", 2.0**-130, 2.0**-140) == [2.0**10]
    assert run("div.full", 2.0**-130, 2.0**-130, mode=FLUSH) != [1.0]


def test_fused_division_rounds_once() -> None:
    a, b, c = (stream(i, 3000).astype(np.uint32) & np.uint32(0xBFFFFFFF) for i in range(3))
    for mode in (KEEP, FLUSH):
        two = apply("fapprox", Approx("div.full", "sm_90", mode), a, b)
        fused = apply("fapprox", Approx("divfma.full", "sm_90", mode), a, b, c)
        assert (apply("fadd", mode, two, c) != fused).any()
        zero = np.full_like(c, 0x80000000)
        same = apply("fapprox", Approx("divfma.full", "sm_90", mode), a, b, zero)
        assert (same == two).all()
    x = np.full_like(c, 0x40400000)  # 3
    r = apply("fapprox", Approx("rcpfma.approx", "sm_90", KEEP), x, c)
    one = apply("fapprox", Approx("rcp.approx", "sm_90", KEEP), x)
    assert (r == apply("fadd", KEEP, one, c)).all()
    assert not accurate("fapprox", Approx("ex2.approx@literal", "sm_90", KEEP))
    assert run("ex2.approx@literal", 3.0) == [8.0]


def test_reciprocal_of_a_variable_is_not_that_of_a_literal() -> None:
    """The assembler folds `rcp` and `div.full` of literals to the nearest quotient; the unit may
    differ in the last place (docs/contraction.md)."""
    x = np.array([0x3F800F1E], np.uint32)
    unit = apply("fapprox", Approx("rcp.approx", "sm_90", KEEP), x)
    exact = apply("frcp", KEEP, x)
    assert unit.tolist() == [0x3F7FE1C7]
    assert exact.tolist() == [0x3F7FE1C8]


@pytest.mark.parametrize("fn", ["ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos"])
def test_close_to_the_function(fn: str) -> None:
    x = np.linspace(0.05, 20.0, 5000, dtype=np.float32)
    got = apply("fapprox", Approx(f"{fn}.approx", "sm_90", KEEP), x.view(np.uint32))
    exact = {"ex2": np.exp2, "lg2": np.log2, "rcp": np.reciprocal, "sqrt": np.sqrt,
             "rsqrt": lambda v: 1 / np.sqrt(v), "sin": np.sin, "cos": np.cos}[fn](x.astype(float))
    np.testing.assert_allclose(got.view(np.float32), exact, rtol=2e-6, atol=3e-6)


def test_claims() -> None:
    x = np.array([0x3F800000], np.uint32)
    assert accurate("fadd", KEEP, x, x)
    for fn in ("ex2.approx", "div.full", "tanh.approx", "sin.approx.ftz.f32"):
        assert accurate("fapprox", Approx(fn, "sm_90a", KEEP))
        for unit in ("sm_80", "sm_100", "gfx942", "sm_90b"):
            assert not accurate("fapprox", Approx(fn, unit, KEEP))
    assert not accurate("fapprox", Approx("v_exp_f32", "gfx942", KEEP))
    assert accurate("fapprox", Approx("tanh.approx", "sm_90", FloatMode("bf16")))
    assert not accurate("fapprox", Approx("sin.approx", "sm_90", FloatMode("f16")))


def test_other_units_get_the_nearest_value_and_unknown_functions_are_refused() -> None:
    assert run("v_exp_f32", 3.0, unit="gfx942") == [8.0]
    assert run("rcp.approx", 4.0, unit="sm_80") == [0.25]
    with pytest.raises(UnsupportedArithmetic):
        run("mystery.approx", 1.0)


def test_the_documentation_names_what_is_claimed() -> None:
    text = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()
    rows = [row.split("|")[1:3] for row in text.splitlines()
            if row.startswith("| `") and "approx`" in row]
    documented = {(fn, kind) for names, kinds in rows for fn in re.findall(r"`([\w.]+)`", names)
                  for kind in kinds.split()}
    functions = [f"{f}.approx" for f in ("ex2", "rcp", "sqrt", "rsqrt", "lg2", "sin", "cos", "tanh",
                                         "div", "divfma", "rcpfma")] + ["div.full", "divfma.full"]
    claimed = {(fn + why, kind) for fn in functions for kind in ("f16", "bf16", "f32", "f64")
               for why in ("", "@literal", "@reciprocal", "@folded")
               if accurate("fapprox", Approx(fn + why, "sm_90", FloatMode(kind)))}
    assert documented == claimed
    for unit in ("sm_80", "sm_89", "sm_100", "sm_120", "gfx942"):
        assert not any(accurate("fapprox", Approx(fn, unit, FloatMode("f32"))) for fn in functions)
