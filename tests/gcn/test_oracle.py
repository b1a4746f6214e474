"""Single instructions, every modifier and mode, against `oracle`: on edge values in all lanes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from checker import api
from checker.replay import replay
from corpus.campaigns.algebra import LAUNCHES
from corpus.campaigns.dialects import DIALECTS, Setting
from corpus.campaigns.expressions import inputs
from tests.gcn import oracle as o
from tests.gcn.oracle import Bits, Modes, Number

COUNT = 768
WORDS = inputs("oracle")
Model = Callable[[Modes, int, int, int], Bits]

NEAR, FLUSH, UP, DOWN, ZERO, OTHER = 0xF0, 0xC0, 0xF5, 0xFA, 0xFF, 0x61


def f32(function: Callable[..., Number], count: int) -> Model:
    """A model of an f32 operation on `count` operands."""
    return lambda m, *x: o.of("f32", lambda *y: function(m, *y), m, *x[:count])


def f16(function: Callable[..., Number], count: int, high: str = "zero") -> Model:
    """A model of an f16 operation on low halves; the upper half of the result is 0."""
    return lambda m, *x: o.of("f16", lambda *y: function(m, *y), m,
                              *(v & 0xFFFF for v in x[:count]))


def packed(function: Callable[..., Number], low: str, high: str) -> Model:
    """Two f16 results; for each operand which half, with a sign: "l", "h", "-l", "-h"."""
    def model(m: Modes, *x: int) -> Bits:
        out = []
        for chosen in (low, high):
            parts = [(v >> (16 if c[-1] == "h" else 0) & 0xFFFF) ^ (0x8000 if c[0] == "-" else 0)
                     for v, c in zip(x, chosen.split(), strict=False)]
            out.append(o.of("f16", lambda *y: function(m, *y), m, *parts))
        if o.NAN in out or None in out:
            return None  # looked at one by one elsewhere
        return int(out[0] or 0) | int(out[1] or 0) << 16
    return model


def add(m: Modes, a: Number, b: Number, fmt: str = "f32") -> Number:
    return o.added(a, b, m.rounding(fmt))


def fma(m: Modes, a: Number, b: Number, c: Number, fmt: str = "f32") -> Number:
    return o.added(o.multiplied(a, b), c, m.rounding(fmt))


def clamp(model: Model, fmt: str = "f32") -> Model:
    return lambda m, a, b, c: o.clamp_bits(model(m, a, b, c), fmt)


def narrowed(bits: int, m: Modes, rounding: int | None = None) -> Bits:
    """f32 to f16."""
    x = o.number(bits, "f32")
    if x.size is None:
        return o.put(x, "f16", m)
    return o.rounded(x.sign, x.size, "f16", m.rounding("f16") if rounding is None else rounding,
                     m.keeps_out("f16"))


def widened(bits: int, m: Modes) -> Bits:
    """f16 to f32."""
    return o.put(o.number(bits & 0xFFFF, "f16", m.keeps_in("f16")), "f32", Modes())


def two(low: Bits, high: Bits) -> Bits:
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    return low | high << 16


def integer(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def from_integer(m: Modes, value: int, fmt: str = "f32") -> Bits:
    return o.rounded(int(value < 0), Fraction(abs(value)), fmt, m.rounding(fmt), True)


def scaled(m: Modes, x: Number, n: int) -> Number:
    return x if x.size is None else Number(x.sign, x.size * Fraction(2) ** max(-400, min(400, n)))


MINIMUM: dict[str, Any] = {
    "v_min{num}_f32_e32 {d}, v1, v2": f32(lambda m, a, b: o.lesser(a, b, m), 2),
    "v_max{num}_f32_e32 {d}, v1, v2": f32(lambda m, a, b: o.greater(a, b, m), 2),
    "v_max{num}_f32_e64 {d}, -v1, |v2|":
        f32(lambda m, a, b: o.greater(a.negated(), b.absolute(), m), 2),
    "v_min3{num}_f32 {d}, v1, v2, v3":
        f32(lambda m, a, b, c: o.lesser(o.lesser(a, b, m), c, m), 3),
    "v_max3{num}_f32 {d}, v1, -v2, v3":
        f32(lambda m, a, b, c: o.greater(o.greater(a, b.negated(), m), c, m), 3),
    "v_med3{num}_f32 {d}, v1, v2, v3": f32(lambda m, a, b, c: o.median(a, b, c, m), 3),
    "v_med3{num}_f32 {d}, v1, -v2, |v3|":
        f32(lambda m, a, b, c: o.median(a, b.negated(), c.absolute(), m), 3),
    "v_med3{num}_f32 {d}, v1, -1.0, 0":
        f32(lambda m, a: o.median(a, Number(1, Fraction(1)), Number(0, Fraction(0)), m), 1),
    "v_med3{num}_f32 {d}, 0, v1, 1.0":
        f32(lambda m, a: o.median(Number(0, Fraction(0)), a, Number(0, Fraction(1)), m), 1),
    "v_med3{num}_f32 {d}, v1, 0, 1.0":
        f32(lambda m, a: o.median(a, Number(0, Fraction(0)), Number(0, Fraction(1)), m), 1),
    "v_min{num}_f16_e32 {d}, v1, v2": f16(lambda m, a, b: o.lesser(a, b, m), 2),
    "v_med3{num}_f16 {d}, v1, v2, v3": f16(lambda m, a, b, c: o.median(a, b, c, m), 3),
    "v_max3{num}_f16 {d}, v1, v2, v3":
        f16(lambda m, a, b, c: o.greater(o.greater(a, b, m), c, m), 3),
    "v_pk_max{num}_f16 {d}, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_hi:[0,1]":
        packed(lambda m, a, b: o.greater(a, b, m), "h l", "l -h"),
}

FLOATS: dict[str, Any] = {
    "v_add_f32_e32 {d}, v1, v2": f32(add, 2),
    "v_sub_f32_e64 {d}, |v1|, v2": f32(lambda m, a, b: add(m, a.absolute(), b.negated()), 2),
    "v_subrev_f32_e32 {d}, v1, v2": f32(lambda m, a, b: add(m, b, a.negated()), 2),
    "v_add_f32_e64 {d}, v1, v2 clamp": clamp(f32(add, 2)),
    "v_mul_f32_e32 {d}, v1, v2": f32(lambda m, a, b: o.multiplied(a, b), 2),
    "v_mul_f32_e64 {d}, -v1, v2 clamp":
        clamp(f32(lambda m, a, b: o.multiplied(a.negated(), b), 2)),
    "v_fma_f32 {d}, v1, v2, v3": f32(fma, 3),
    "v_fma_f32 {d}, -v1, |v2|, -v3":
        f32(lambda m, a, b, c: fma(m, a.negated(), b.absolute(), c.negated()), 3),
    "v_fma_f32 {d}, v1, v2, neg(0)":
        f32(lambda m, a, b: fma(m, a, b, Number(1, Fraction(0))), 2),
    "v_fma_f32 {d}, v1, v2, 0": f32(lambda m, a, b: fma(m, a, b, Number(0, Fraction(0))), 2),
    "v_ldexp_f32 {d}, v1, v2":
        lambda m, a, b, c: o.of("f32", lambda x: scaled(m, x, integer(b)), m, a),
    "v_add_f16_e32 {d}, v1, v2": f16(lambda m, a, b: add(m, a, b, "f16"), 2),
    "v_mul_f16_e64 {d}, v1, -v2 clamp":
        clamp(f16(lambda m, a, b: o.multiplied(a, b.negated()), 2), "f16"),
    "v_fma_f16 {d}, v1, v2, v3": f16(lambda m, a, b, c: fma(m, a, b, c, "f16"), 3),
    "v_ldexp_f16_e64 {d}, v1, -3": f16(lambda m, a: scaled(m, a, -3), 1),
    "v_pk_add_f16 {d}, v1, v2 op_sel:[0,1] op_sel_hi:[0,0] neg_lo:[1,0]":
        packed(lambda m, a, b: add(m, a, b, "f16"), "-l h", "l l"),
    "v_pk_fma_f16 {d}, v1, v2, v3 op_sel_hi:[1,0,1] neg_lo:[0,0,1] neg_hi:[0,1,0]":
        packed(lambda m, a, b, c: fma(m, a, b, c, "f16"), "l l -l", "h -l h"),
    "v_pk_mul_f16 {d}, v1, v2": packed(lambda m, a, b: o.multiplied(a, b), "l l", "h h"),
    "v_trunc_f32_e32 {d}, v1": f32(lambda m, a: o.whole(a, 3), 1),
    "v_rndne_f32_e64 {d}, -v1": f32(lambda m, a: o.whole(a.negated(), 0), 1),
    "v_floor_f32_e32 {d}, v1": f32(lambda m, a: o.whole(a, 2), 1),
    "v_ceil_f16_e32 {d}, v1": f16(lambda m, a: o.whole(a, 1), 1),
}

CONVERSIONS: dict[str, Any] = {
    "v_cvt_f16_f32_e32 {d}, v1": lambda m, a, b, c: narrowed(a, m),
    "v_cvt_f16_f32_e64 {d}, -v1 clamp":
        lambda m, a, b, c: o.clamp_bits(narrowed(a ^ 1 << 31, m), "f16"),
    "v_cvt_{rtz}_f16_f32 {d}, v1, v2":
        lambda m, a, b, c: two(narrowed(a, m, 3), narrowed(b, m, 3)),
    "v_cvt_{rtz}_f16_f32_e64 {d}, v1, -v2 clamp": lambda m, a, b, c: two(
        o.clamp_bits(narrowed(a, m, 3), "f16"), o.clamp_bits(narrowed(b ^ 1 << 31, m, 3), "f16")),
    "v_cvt_f32_f16_e32 {d}, v1": lambda m, a, b, c: widened(a, m),
    "v_cvt_f32_i32_e32 {d}, v1": lambda m, a, b, c: from_integer(m, integer(a)),
    "v_cvt_f32_u32_e32 {d}, v1": lambda m, a, b, c: from_integer(m, a),
    "v_cvt_f32_i32_e64 {d}, v1 clamp":
        lambda m, a, b, c: o.clamp_bits(from_integer(m, integer(a)), "f32"),
    "v_cvt_f32_ubyte2_e32 {d}, v1": lambda m, a, b, c: from_integer(m, a >> 16 & 255),
    "v_cvt_f32_ubyte1_e64 {d}, v1 clamp":
        lambda m, a, b, c: o.clamp_bits(from_integer(m, a >> 8 & 255), "f32"),
    "v_cvt_f16_i16_e32 {d}, v1": lambda m, a, b, c: from_integer(
        m, (a & 0xFFFF) - (a >> 15 & 1) * 65536, "f16"),
    "v_cvt_i32_f32_e32 {d}, v1": lambda m, a, b, c: o.to_integer(
        o.number(a, "f32"), -2**31, 2**31 - 1) & 0xFFFFFFFF,
    "v_cvt_u32_f32_e64 {d}, -v1":
        lambda m, a, b, c: o.to_integer(o.number(a ^ 1 << 31, "f32"), 0, 2**32 - 1),
    "v_cvt_u16_f16_e32 {d}, v1":
        lambda m, a, b, c: o.to_integer(o.number(a & 0xFFFF, "f16"), 0, 65535),
    "v_fma_mixlo_f16 {d}, v1, v2, v3 op_sel:[0,1,0] op_sel_hi:[0,1,0]":
        lambda m, a, b, c: _mixed(m, a, b >> 16, c),
}


def _mixed(m: Modes, a: int, half: int, c: int) -> Bits:
    """f32 * f16 + f32, rounded to f32 and then to f16."""
    x, z = (o.number(v, "f32", m.keeps_in("f32")) for v in (a, c))
    total = o.put(fma(m, x, o.number(half, "f16", m.keeps_in("f16")), z), "f32", m)
    return narrowed(total, m) if isinstance(total, int) else total


def check(line: str, model: Model, setting: Setting, kind: str = "f32") -> None:
    """Compare an instruction in the domain `bytes` with its model; kind: of the word written."""
    dialect = DIALECTS["gcn"]
    lines = ["v_mov_b32_e32 v20, 0", *(
        x.strip() for x in line.format(d="v20", **dialect.names(setting)).split(";"))]
    program = api.program_of(dialect.text(lines, [("v20", "r")] * 2, setting))
    run = replay(program, LAUNCHES["gcn"][0], domain="bytes", inputs=WORDS)
    assert run.reasons() == ()
    assert not run.inaccurate
    got = run.outputs["out"].words[1].astype(np.uint32)[::2]
    modes = Modes(setting.modes, 0 if setting.target == "gfx1200" else setting.ieee)
    looked_at = 0
    for lane in range(COUNT):
        given = [int(WORDS[name][lane]) for name in "abc"]
        want = model(modes, *given)
        if want is None:
            continue
        word = int(got[lane])
        if kind == "f16":
            word &= 0xFFFF
        shown: Bits = o.NAN if kind in o.FORMATS and o.number(word, kind).nan else word
        assert shown == want, (line, setting, [f"{x:08x}" for x in given], shown, want)
        looked_at += 1
    assert looked_at > COUNT // 2


def _kind(line: str) -> str:
    name = line.split("; ")[-1].split()[0]
    if name.startswith(("v_pk", "v_cvt_{rtz}", "v_cvt_i", "v_cvt_u")):
        return "bits"
    return "f16" if "f16" in name and not name.startswith("v_cvt_f32") else "f32"


@pytest.mark.parametrize("target", ["gfx942", "gfx1100", "gfx1200"])
@pytest.mark.parametrize("line", MINIMUM)
def test_extrema(line: str, target: str) -> None:
    for modes, ieee in ((NEAR, 1), (NEAR, 0), (FLUSH, 1)):
        if ieee or target != "gfx1200":
            check(line, MINIMUM[line], Setting(target, modes, ieee), _kind(line))


@pytest.mark.parametrize("line", FLOATS)
def test_arithmetic(line: str) -> None:
    for target, modes in (("gfx942", NEAR), ("gfx942", FLUSH), ("gfx1100", UP), ("gfx942", DOWN),
                          ("gfx1100", ZERO), ("gfx942", OTHER)):
        check(line, FLOATS[line], Setting(target, modes), _kind(line))


@pytest.mark.parametrize("line", CONVERSIONS)
def test_conversions(line: str) -> None:
    for target, modes in (("gfx942", NEAR), ("gfx942", FLUSH), ("gfx1100", UP), ("gfx1200", DOWN),
                          ("gfx942", ZERO)):
        check(line, CONVERSIONS[line], Setting(target, modes), _kind(line))
