"""Contraction: the measured rule fires where it is certain, and only there."""

from __future__ import annotations

import pytest

from checker.contract import MEASURED, UNCERTAIN, contract
from checker.core import Program
from checker.dump import format_op
from tests.ptx.lowering import program

BRANCH = "setp.eq.s32 %p9, %r9, 0; @%p9 bra L;"


def done(body: str) -> tuple[list[str], set[str]]:
    """Float operations after the pass, and its premises."""
    p = contract(program(body + " st.global.f32 [%rd1], %f0; st.global.f32 [%rd1+4], %f7;"))
    kept = [format_op(op, p) for op in p.ops
            if op.name in ("fmul", "fadd", "fsub", "ffma", "fneg", "mov")]
    return kept, set(p.premises)


def test_single_use_in_one_block_is_fused() -> None:
    ops, premises = done("mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4;")
    assert ops == ["%f0 = ffma <f32> %f2, %f3, %f4"]
    assert premises == {MEASURED}


def test_product_on_the_right_and_ftz() -> None:
    ops, _ = done("mul.ftz.f32 %f1, %f2, %f3; add.ftz.f32 %f0, %f4, %f1;")
    assert ops == ["%f0 = ffma <f32 flush> %f2, %f3, %f4"]


def test_subtractions_negate_exactly_one_operand() -> None:
    left, _ = done("mul.f32 %f1, %f2, %f3; sub.f32 %f0, %f1, %f4;")
    right, _ = done("mul.f32 %f1, %f2, %f3; sub.f32 %f0, %f4, %f1;")
    const, _ = done("mul.f32 %f1, %f2, %f3; sub.f32 %f0, %f1, 0f3F800000;")
    assert left[0].endswith("= fneg <f32> %f4")
    assert left[1].startswith("%f0 = ffma <f32> %f2, %f3, c")
    assert right[0].endswith("= fneg <f32> %f2")
    assert right[1].startswith("%f0 = ffma <f32> c")
    assert right[1].endswith(", %f3, %f4")
    assert const == ["%f0 = ffma <f32> %f2, %f3, 0xbf800000:32"]


@pytest.mark.parametrize("body", [
    "mul.rn.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; add.rn.f32 %f0, %f1, %f4;",
    "mul.rz.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4;",
], ids=["rn-mul", "rn-add", "rz-mul"])
def test_explicit_rounding_is_never_fused_and_needs_no_premise(body: str) -> None:
    ops, premises = done(body)
    assert not any("ffma" in op for op in ops)
    assert not premises


@pytest.mark.parametrize("body", [
    "mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4; mov.f32 %f7, %f1;",
    "mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4; st.global.f32 [%rd2], %f1;",
    "mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f1;",
    f"mul.f32 %f1, %f2, %f3; {BRANCH} add.f32 %f0, %f1, %f4; L:",
], ids=["second-use", "stored", "twice", "branch"])
def test_measured_not_to_fuse(body: str) -> None:
    ops, premises = done(body)
    assert not any("ffma" in op for op in ops)
    assert premises == {MEASURED}


@pytest.mark.parametrize("body", [
    "mul.f64 %fd1, %fd2, %fd3; add.f64 %fd0, %fd1, %fd4;",
    "mul.f16 %rs1, %rs2, %rs3; add.f16 %rs0, %rs1, %rs4;",
    "mul.bf16x2 %r1, %r2, %r3; add.bf16x2 %r0, %r1, %r4;",
    "mul.f32x2 %rd4, %rd5, %rd6; add.f32x2 %rd7, %rd4, %rd8;",
    "mul.f32 %f1, %f2, %f3; add.ftz.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; add.sat.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; @%p1 add.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; mul.f32 %f4, %f5, %f6; add.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; neg.f32 %f4, %f1; add.f32 %f0, %f4, %f5;",
    "mul.f32 %f1, %f2, %f3; mov.f32 %f4, %f1; add.f32 %f0, %f4, %f5;",
    "mul.f32 %f1, %f2, %f3; bra.uni L; L: add.f32 %f0, %f1, %f4;",
    "L: add.f32 %f0, %f1, %f4; mul.f32 %f1, %f2, %f3; @%p1 bra L;",
], ids=["f64", "f16", "bf16x2", "f32x2", "ftz", "sat", "guard", "two-products", "neg", "mov",
        "jump", "loop"])
def test_unmeasured_pairs_stay_and_are_named(body: str) -> None:
    ops, premises = done(body)
    assert not any("ffma" in op for op in ops)
    assert UNCERTAIN in premises


def test_a_product_without_a_sum_is_nobodys_premise() -> None:
    assert done("mul.f32 %f1, %f2, %f3; max.f32 %f0, %f1, %f4;")[1] == set()


def test_factors_written_in_between_are_saved() -> None:
    ops, _ = done("mul.f32 %f1, %f2, %f3; mov.f32 %f2, 0f00000000; add.f32 %f0, %f1, %f4;")
    saved = ops[0].split(" = ")[0]
    assert ops == [f"{saved} = mov <32> %f2", "%f2 = mov <32> 0:32",
                   f"%f0 = ffma <f32> {saved}, %f3, %f4"]


def test_a_register_that_is_reused_has_separate_values() -> None:
    body = ("mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4;"
            " mul.f32 %f1, %f5, %f6; add.f32 %f7, %f1, %f4; mov.f32 %f1, 0f00000000;")
    ops, premises = done(body)
    assert ops[0] == "%f0 = ffma <f32> %f2, %f3, %f4"
    assert ops[1] == "%f7 = ffma <f32> %f5, %f6, %f4"
    assert premises == {MEASURED}


def test_branch_targets_move_with_their_operations() -> None:
    p = contract(program("mul.f32 %f1, %f2, %f3; sub.f32 %f0, %f1, %f4; L: add.s32 %r0, %r0, 1;"
                         " setp.lt.s32 %p1, %r0, 8; @%p1 bra L; ret;"))
    branch = next(op for op in p.ops if op.name == "branch")
    assert p.ops[branch.attr].name == "iadd"


def test_programs_without_plain_products_come_back_unchanged() -> None:
    p: Program = program("add.f32 %f0, %f1, %f2;")
    assert contract(p) is p
