"""Contraction: the measured rule fires where it is certain, and only there."""

from __future__ import annotations

import pytest

from checker.contract import MEASURED, UNCERTAIN, contract
from checker.core import Program
from checker.dump import format_op
from checker.lower import lower
from checker.parse import parse
from tests.ptx.lowering import HEADER, program

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


LITERAL = "mul.f32 %f1, %f2, 0f3ACA4588; "


def test_a_literal_factor_is_fused_behind_a_branch() -> None:
    ops, premises = done(f"{LITERAL}{BRANCH} add.f32 %f0, %f1, %f4; L:")
    assert ops == ["%f0 = ffma <f32> %f2, 0x3aca4588:32, %f4"]
    assert premises == {MEASURED}


def test_a_factor_overwritten_in_the_loop_is_saved() -> None:
    ops, premises = done(f"{LITERAL} L: add.f32 %f0, %f0, %f1; ld.global.f32 %f2, [%rd1];"
                         " setp.lt.f32 %p9, %f2, %f0; @%p9 bra L;")
    assert len(ops) == 2
    saved = ops[0].split(" = ")[0]
    assert ops[0] == f"{saved} = mov <32> %f2"
    assert ops[1] == f"%f0 = ffma <f32> {saved}, 0x3aca4588:32, %f0"
    assert premises == {MEASURED}


@pytest.mark.parametrize("body", [
    # a factor that is a literal on one path only
    f"mov.f32 %f3, 0f3ACA4588; @%p1 mov.f32 %f3, %f5; mul.f32 %f1, %f2, %f3; {BRANCH}"
    " add.f32 %f0, %f1, %f4; L:",
    # the last product of a loop, read behind it
    "M: ld.global.f32 %f2, [%rd1]; mul.f32 %f1, %f2, 0f3ACA4588; setp.lt.f32 %p9, %f2, %f4;"
    " @%p9 bra M; add.f32 %f0, %f1, %f4;",
    # two products of that kind, or one of them and a near one
    f"{LITERAL} mul.f32 %f3, %f5, 0f3ACA4589; {BRANCH} add.f32 %f0, %f1, %f3; L:",
    f"{LITERAL} {BRANCH} mul.f32 %f3, %f5, %f6; add.f32 %f0, %f1, %f3; L:",
    # read in the loop's next round, behind a branch
    f"M: {BRANCH} add.f32 %f0, %f0, %f1; L: ld.global.f32 %f2, [%rd1];"
    " mul.f32 %f1, %f2, 0f3ACA4588; setp.lt.f32 %p8, %f2, %f4; @%p8 bra M;",
])
def test_what_is_not_certain_behind_a_branch_is_said(body: str) -> None:
    ops, premises = done(body)
    assert not any("ffma" in op for op in ops)
    assert UNCERTAIN in premises


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
def test_known_not_to_fuse(body: str) -> None:
    ops, premises = done(body)
    assert not any("ffma" in op for op in ops)
    assert premises == {MEASURED}


def test_every_sum_of_a_product_is_fused_or_none() -> None:
    both, _ = done("mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4; sub.f32 %f7, %f5, %f1;")
    assert [op.split(" = ")[1].split(" ")[0] for op in both] == ["ffma", "fneg", "ffma"]
    none, premises = done("mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4; add.rn.f32 %f7, %f5, %f1;")
    assert not any("ffma" in op for op in none)
    assert premises == {MEASURED}


def test_the_first_of_two_products_is_fused() -> None:
    ops, premises = done("mul.f32 %f1, %f2, %f3; mul.f32 %f4, %f5, %f6; add.f32 %f0, %f4, %f1;")
    assert ops == ["%f1 = fmul <f32 contract> %f2, %f3", "%f0 = ffma <f32> %f5, %f6, %f1"]
    assert premises == {MEASURED}


def test_packed_halves_are_fused_together() -> None:
    p = contract(program("mul.bf16x2 %r1, %r2, %r3; add.bf16x2 %r0, %r1, %r4;"
                         " st.global.b32 [%rd1], %r0;"))
    fused = [op for op in p.ops if op.name == "ffma"]
    assert len(fused) == 2
    assert not any(op.name == "fadd" for op in p.ops)
    assert p.premises == {MEASURED}


@pytest.mark.parametrize("body", [
    "L: add.f32 %f0, %f1, %f4; mul.f32 %f1, %f2, %f3; @%p1 bra L;",
    "mul.f32 %f1, %f2, %f3; mov.f32 %f4, %f5; @%p1 mov.f32 %f4, %f1; add.f32 %f0, %f4, %f6;",
    "mul.f32 %f1, %f2, %f3; @%p1 mov.f32 %f1, %f5; add.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; @%p1 mov.f32 %f1, %f5; add.f32 %f0, %f1, %f4; mov.f32 %f1, %f6;",
    "mul.f32 %f1, %f2, %f3; mul.f32 %f4, %f3, %f2; add.f32 %f0, %f1, %f4;",
    "mul.f32 %f1, %f2, %f3; mul.f32 %f4, %f5, %f6; add.f32 %f0, %f1, %f4; add.f32 %f7, %f4, %f6;",
    "mov.f32 %f9, %f5; L: add.f32 %f0, %f9, %f0; mul.f32 %f1, %f2, %f0; mov.f32 %f9, %f1;"
    " @%p1 bra L;",
], ids=["loop", "guarded-move", "partly-written", "partly-written-then-wholly",
        "equal-products", "shared-products", "loop-carried"])
def test_unmeasured_pairs_stay_and_are_named(body: str) -> None:
    ops, premises = done(body)
    assert not any("ffma" in op for op in ops)
    assert UNCERTAIN in premises


def test_other_targets_follow_the_rule_but_are_named() -> None:
    from dataclasses import replace
    p = program("mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4; st.global.f32 [%rd1], %f0;")
    assert UNCERTAIN in contract(replace(p, target="sm_75")).premises


def test_debug_builds_and_calls_are_not_what_was_measured() -> None:
    fused = "mul.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4; st.global.f32 [%rd1], %f0;"
    debug = lower(parse(HEADER.replace("sm_90a", "sm_90a, debug") + fused + "}"))
    called = lower(parse(HEADER.replace(".extern", ".func f() { ret; }\n.extern", 1)
                         + fused.replace("; add", "; call f; add") + "}"))
    for p in map(contract, (debug, called)):
        assert UNCERTAIN in p.premises
        assert not any(op.name == "ffma" for op in p.ops)


# --- divisions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("divisor", "inverse"), [
    ("0f40400000", "0x3eaaaaab"), ("0f42C80000", "0x3c23d70a"), ("0fC0000000", "0xbf000000"),
    ("0f3F000001", "0x3ffffffe"), ("0f7E800000", "0x800000"),
])
def test_division_by_a_literal_is_a_product(divisor: str, inverse: str) -> None:
    ops, premises = done(f"div.full.f32 %f0, %f2, {divisor};")
    assert ops == [f"%f0 = fmul <f32 contract> %f2, {inverse}:32"]
    assert premises == {MEASURED}


def test_a_moved_literal_counts_and_the_product_fuses() -> None:
    ops, _ = done("mov.f32 %f3, 0f40400000; div.approx.f32 %f1, %f2, %f3; add.f32 %f0, %f1, %f4;")
    assert ops[-1] == "%f0 = ffma <f32> %f2, 0x3eaaaaab:32, %f4"


@pytest.mark.parametrize("divisor", ["0f00000000", "0f7F000000", "0f00400000", "0f7F800000"])
def test_extreme_divisors_stay_divisions(divisor: str) -> None:
    assert not any("fmul" in op for op in done(f"div.full.f32 %f0, %f2, {divisor};")[0])


def approximations(body: str) -> list[str]:
    """Names of the approximations after the pass."""
    p = contract(program(body + " st.global.f32 [%rd1], %f0;"))
    return [op.attr.fn for op in p.ops if op.name == "fapprox"]


def test_a_quotient_fuses_into_a_plain_sum_only() -> None:
    quotient = "div.full.f32 %f1, %f2, %f3; "
    assert approximations(quotient + "add.f32 %f0, %f1, %f4;") == ["divfma.full"]
    assert approximations(quotient + "add.rn.f32 %f0, %f1, %f4;") == ["div.full"]
    assert approximations(quotient + "mul.f32 %f0, %f1, %f4;") == ["div.full"]


def test_an_approximation_of_a_literal_is_not_the_unit_s() -> None:
    assert approximations("ex2.approx.ftz.f32 %f0, 0f40400000;") == ["ex2.approx@literal"]
    twice = "rcp.approx.ftz.f32 %f1, %f2; rcp.approx.ftz.f32 %f0, %f1;"
    assert approximations(twice) == ["rcp.approx", "rcp.approx@reciprocal"]
    count = "mov.b32 %r1, 12; cvt.rn.f32.s32 %f1, %r1; div.full.f32 %f0, %f2, %f1;"
    assert approximations(count) == []  # a product with 1/12
    folded = "mov.b32 %r1, 12; add.s32 %r2, %r1, 1; cvt.rn.f32.s32 %f1, %r2; "
    assert approximations(folded + "div.full.f32 %f0, %f2, %f1;") == ["div.full@folded"]
    assert approximations("tanh.approx.f32 %f0, 0f3F000000;") == ["tanh.approx"]
    ops, _ = done("rcp.approx.ftz.f32 %f0, 0f40400000;")
    assert ops == ["%f0 = mov <32> 0x3eaaaaab:32"]


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


@pytest.mark.parametrize(("product", "use"), [
    ("mul.f32 %f1, %f2, 0f3ACA4588;", "add.f32 {}, %f1, %f4;"),
    ("mul.f32 %f1, %f2, %f3;", "mul.f32 {}, %f1, 0f3E800000;")])
def test_what_stands_between_two_joined_blocks_reads_what_reaches_it(product: str,
                                                                      use: str) -> None:
    """L stands between the block of the product and M, which continues it, but follows neither."""
    body = ("mov.f32 %f1, %f5; @%p1 bra L; {} bra M; L: {} bra N; M: {} mov.f32 %f1, %f6;"
            " add.rn.f32 %f1, %f1, %f6; st.global.f32 [%rd1+8], %f1; N:")
    ops, _ = done(body.format(product, use.format("%f0"), use.format("%f7")))
    plain, _ = done(body.format("mov.f32 %f1, %f2;", use.format("%f0"), use.format("%f7")))
    mine = [op for op in plain if op.startswith("%f0 ")]
    assert mine == [op for op in ops if op.startswith("%f0 ")]
    assert [op for op in plain if op.startswith("%f7 ")] != [
        op for op in ops if op.startswith("%f7 ")]


def test_branch_targets_move_with_their_operations() -> None:
    p = contract(program("mul.f32 %f1, %f2, %f3; sub.f32 %f0, %f1, %f4; L: add.s32 %r0, %r0, 1;"
                         " setp.lt.s32 %p1, %r0, 8; @%p1 bra L; ret;"))
    branch = next(op for op in p.ops if op.name == "branch")
    assert p.ops[branch.attr].name == "iadd"


def test_programs_without_plain_products_come_back_unchanged() -> None:
    p: Program = program("add.f32 %f0, %f1, %f2;")
    assert contract(p) is p


TESTED = "setp.lt.f32 %p1, %f1, 0f3F800000;"
CLAMP = "selp.f32 %f3, %f1, 0f3F800000, %p1; max.f32 %f0, %f3, 0f00000000;"


@pytest.mark.parametrize(("body", "saturates", "certain"), [
    (f"{TESTED} {CLAMP}", True, True),
    (f"mov.f32 %f1, %f2; {TESTED} {CLAMP}", True, True),
    (f"{TESTED} mov.f32 %f1, %f2; {CLAMP}", False, True),
    (f"{TESTED} @%p2 mov.f32 %f1, %f2; {CLAMP}", False, True),
    (f"{TESTED} @%p2 bra L; mov.f32 %f1, %f2; L: {CLAMP}", False, False),
    (f"{TESTED} mov.f32 %f5, %f6; @%p2 bra L; mov.f32 %f5, %f2; L: {CLAMP}", True, True)])
def test_a_choice_is_an_extremum_of_what_was_tested(body: str, saturates: bool,
                                                    certain: bool) -> None:
    ops, premises = done(body)
    assert any(op.startswith("%f0 = fadd") for op in ops) == saturates
    assert (UNCERTAIN in premises) == (not certain)
