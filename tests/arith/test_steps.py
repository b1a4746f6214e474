"""Which matrix steps may merge: every claim of the table with its unequal twin."""

from __future__ import annotations

import pytest

from checker.arith.steps import StepModel, step_model
from checker.core import MatrixOperand, Mma


def mma(unit: str, target: str, types: str, k: int, acc: str = "f32", **more: object) -> Mma:
    a, b = types.split("*") if "*" in types else (types, types)
    shape = {"m": 16, "n": 8} | {key: more.pop(key) for key in ("m", "n") if key in more}
    return Mma(unit, target, shape["m"], shape["n"], k, MatrixOperand("regs", a),
               MatrixOperand("regs", b), MatrixOperand("regs", acc), acc, **more)


def model(*args: object, **more: object) -> StepModel:
    found = step_model(mma(*args, **more))
    assert found is not None
    return found


SAME = [
    (("mma.sync", "sm_80", "f16", 16), ("mma.sync", "sm_89", "f16", 8)),
    (("mma.sync", "sm_80", "bf16", 16), ("mma.sync", "sm_80", "bf16", 8)),
    (("mma.sync", "sm_80", "tf32", 8), ("mma.sync", "sm_80", "tf32", 4)),
    (("mma.sync", "sm_90", "f16", 16), ("wgmma", "sm_90a", "f16", 16)),
    (("mma.sync", "sm_90", "tf32", 8), ("wgmma", "sm_90a", "tf32", 8)),
    (("mma.sync", "sm_100", "f16", 16), ("tcgen05", "sm_100a", "f16", 16)),
    (("mfma", "gfx942", "f16", 16), ("mfma", "gfx942", "f16", 8)),
    (("mma.sync", "sm_90", "s8", 32, "s32"), ("mfma", "gfx942", "s8", 16, "s32")),
]
DIFFERENT = [
    (("mma.sync", "sm_90", "f16", 16), ("mma.sync", "sm_90", "f16", 8)),
    (("mma.sync", "sm_90", "f16", 16), ("mma.sync", "sm_80", "f16", 16)),
    (("mma.sync", "sm_90", "f16", 16), ("mma.sync", "sm_90", "bf16", 16)),
    (("mma.sync", "sm_90", "f16", 16), ("mma.sync", "sm_90", "f16", 16, "f16")),
    (("mma.sync", "sm_90", "e4m3", 32), ("wgmma", "sm_90a", "e4m3", 32)),
    (("mma.sync", "sm_100", "e4m3", 32), ("tcgen05", "sm_100a", "e4m3", 32)),
    (("mma.sync", "sm_90", "e4m3", 32), ("mma.sync", "sm_90", "f16", 16)),
    (("mma.sync", "sm_90", "e4m3", 32), ("mma.sync", "sm_90", "e4m3*e5m2", 32)),
    (("mma.sync", "sm_70", "f16", 4), ("mma.sync", "sm_75", "f16", 8)),
    (("mfma", "gfx942", "f16", 16), ("mma.sync", "sm_90", "f16", 16)),
    (("mma.sync", "sm_90", "s8", 32, "s32"), ("mma.sync", "sm_90", "u8", 32, "s32")),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_arithmetic_has_one_id(one: tuple, other: tuple) -> None:
    assert model(*one).id == model(*other).id


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_arithmetic_has_two_ids(one: tuple, other: tuple) -> None:
    assert model(*one).id != model(*other).id


UNKNOWN = [
    ("mma.sync", "sm_90", "e2m1", 32),
    ("mma.sync", "sm_80", "e4m3", 32),
    ("mma.sync", "sm_87", "f16", 16),
    ("mma.sync", "sm_80", "f16", 4),
    ("mma.sync", "sm_75", "f16", 16),
    ("mma.sync", "sm_90", "f16*bf16", 16),
    ("mma.sync", "sm_90", "bf16", 16, "bf16"),
    ("wgmma", "sm_100", "f16", 16),
    ("mfma", "gfx950", "f16", 16),
    ("wmma", "gfx1100", "f16", 16),
    ("wmma", "sm_80", "f16", 16),
    ("mma.sync", "sm_90", "b1", 128, "s32"),
]


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_in_the_table_is_unknown(what: tuple) -> None:
    assert step_model(mma(*what)) is None


def test_extra_operands_make_a_step_unknown() -> None:
    assert step_model(mma("tcgen05", "sm_100a", "f16", 16, extra=("scale_a",))) is None
    assert step_model(mma("tcgen05", "sm_100a", "f16", 16, extra=("idesc",))) is not None


def test_order_of_the_steps() -> None:
    assert model("mma.sync", "sm_80", "f16", 16).steps == (tuple(range(8)), tuple(range(8, 16)))
    assert model("mma.sync", "sm_90", "f16", 16).steps == (tuple(range(16)),)
    assert model("mma.sync", "sm_90", "f64", 4, "f64").steps == ((0,), (1,), (2,), (3,))
    assert model("mfma", "gfx942", "f32", 2).id == "fma.f32"
    assert model("mfma", "gfx90a", "bf16", 4, m=32).products == 2
    assert model("mfma", "gfx90a", "bf16", 4, m=32, blocks=2).products == 4
    fp8 = model("mma.sync", "sm_90", "e4m3", 32)
    assert fp8.chain == "add"
    assert fp8.steps[0][:4] == (0, 1, 4, 5)


def test_integers_are_order_free_unless_they_saturate() -> None:
    assert model("mma.sync", "sm_90", "s8", 32, "s32").order_free
    clamped = model("mma.sync", "sm_90", "s8", 32, "s32", satfinite=True)
    assert not clamped.order_free
    assert clamped.id != model("mma.sync", "sm_90", "s8", 16, "s32", satfinite=True).id
