"""Numbers of blocks: sizes divided, rounded and shifted, compared with counters."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from checker.api import program_of
from checker.tree import same
from checker.tree.logic import Logic
from checker.tree.nodes import Forest, Node
from checker.tree.poly import Poly, constant
from checker.tree.result import WalkResult
from checker.tree.values import Values
from checker.walk.ints import Ints
from checker.walk.run import walk
from corpus.load import load_truth
from tests.walk.kernels import equal, text, walked


def _makers(lanes: int = 1) -> tuple[Forest, Values, Logic, Ints]:
    forest = Forest(lanes)
    values = Values(forest)
    logic = Logic(values)
    return forest, values, logic, Ints(values, logic)


def _exact(poly: Poly, values: dict[Node, int]) -> int:
    total = 0
    for mono, c in poly.terms.items():
        for atom in mono:
            if atom in values:
                c *= values[atom]
            else:
                assert atom.op == "sext"
                assert atom.poly is not None
                c *= _exact(atom.poly, values)
        total += c
    return total


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("literal", [-3, -1, 0, 2])
@pytest.mark.parametrize("slope", [-2, -1, 0, 1])
def test_a_number_of_blocks_against_a_counter(sign: int, literal: int, slope: int) -> None:
    forest, values, logic, ints = _makers()
    size = forest.make("param", "0+0", width=32, low=0, high=(1 << 32) - 1)
    counter = forest.make("kappa", "0", low=0, high=(1 << 31) - 2)
    blocks = ints.op("shr_s", 32, (Poly(32, {(size,): 1}).add(constant(32, 7)),
                                   constant(32, 3)))
    poly = values.exact(blocks, 32, True).scale(sign).add(
        Poly(0, {(counter,): slope})).add(constant(0, literal))
    p = logic.at_least_zero(poly)
    assert p.op == "ge0"
    assert p.poly is not None
    for n in range(-20, 60):
        for k in range(6):
            told = _exact(p.poly, {size: n, counter: k}) >= 0
            assert told == (sign * ((n + 7) >> 3) + slope * k + literal >= 0), (n, k)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("literal", [-3, -1, 0, 2])
@pytest.mark.parametrize("slope", [-1, 0, 1])
def test_a_division_towards_zero(sign: int, literal: int, slope: int) -> None:
    forest, values, logic, ints = _makers()
    size = forest.make("param", "0+0", width=32, low=0, high=(1 << 32) - 1)
    counter = forest.make("kappa", "0", low=0, high=(1 << 31) - 2)
    v = Poly(32, {(size,): 1}).add(constant(32, 7))
    fix = ints.op("shr_u", 32, (ints.op("shr_s", 32, (v, constant(32, 31))), constant(32, 29)))
    blocks = ints.op("shr_s", 32, (ints.op("iadd", 32, (v, fix)), constant(32, 3)))
    p = logic.at_least_zero(values.exact(blocks, 32, True).scale(sign).add(
        Poly(0, {(counter,): slope})).add(constant(0, literal)))
    if p.poly is None or any(a.op == "iop" for m in p.poly.terms for a in m):
        return  # left as it stands
    for n in range(-40, 60):
        for k in range(6):
            told = _exact(p.poly, {size: n, counter: k}) >= 0
            assert told == (sign * int((n + 7) / 8) + slope * k + literal >= 0), (n, k)


def test_what_a_shift_drops_may_be_cut_before() -> None:
    forest, values, _logic, _ints = _makers()
    counter = forest.make("kappa", "0", low=0, high=(1 << 31) - 2)
    inner = Poly(30, {(counter,): 64}).add(constant(30, 128))
    cut = values.zext(inner, 30, 32)
    assert values.whole(cut.scale(4)).same(Poly(32, {(counter,): 256}).add(constant(32, 512)))
    assert values.whole(cut.scale(2)).same(cut.scale(2))  # bit 30 would come back
    assert values.whole(cut.scale(12)).same(Poly(32, {(counter,): 768}).add(constant(32, 1536)))


def test_a_counter_has_no_sign_bit() -> None:
    forest, values, _logic, ints = _makers()
    counter = forest.make("kappa", "0", low=0, high=(1 << 31) - 2)
    assert values.counts(Poly(32, {(counter,): 64}).add(constant(32, 33)))
    assert not values.counts(Poly(32, {(counter,): 64}).sub(constant(32, 33)))
    assert not values.counts(Poly(32, {(counter,): -64}).add(constant(32, 33)))
    below = Poly(32, {(counter,): 64}).sub(constant(32, 1))
    assert ints.op("shr_u", 32, (below, constant(32, 31))).op == "iop"  # type: ignore[union-attr]


def _rounded(step: int, skip: str, exit_test: str = "setp.lt.s32 %p3, %r13, %r12;") -> str:
    """Sums a[k + t] for k = 0, step, ... below n rounded up to a multiple of step."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f2, 0f00000000;
    add.s32 %r10, %r1, {step - 1};
    setp.lt.s32 %p2, %r10, {skip};
    @%p2 bra $done;
    and.b32 %r12, %r10, -{step};
    mov.u32 %r13, 0;
$loop:
    ld.global.f32 %f1, [%rd11];
    add.rn.f32 %f2, %f2, %f1;
    add.s64 %rd11, %rd11, {4 * step};
    add.s32 %r13, %r13, {step};
    {exit_test}
    @%p3 bra $loop;
$done:
    st.global.f32 [%rd12], %f2;""", threads=32)


def test_a_size_rounded_up_ends_a_loop_as_the_size_does() -> None:
    one = _rounded(32, "32")
    assert equal(one, _rounded(32, "32", "setp.lt.s32 %p3, %r13, %r1;"))


@pytest.mark.parametrize("twin", [
    _rounded(32, "32", "setp.le.s32 %p3, %r13, %r1;"),
    _rounded(32, "32", "setp.lt.s32 %p3, %r13, %r10;"),
    _rounded(64, "64"),
    _rounded(32, "0"),  # runs where there is nothing to be done
])
def test_another_end_shows(twin: str) -> None:
    assert not same(walked(_rounded(32, "32")), walked(twin))[0]


@cache
def _truth(family: str, name: str) -> WalkResult:
    return walk(program_of(next(r.kernel.text for r in load_truth(family)
                                if r.kernel.name == f"{name}-sm_90")), seconds=600)


@pytest.mark.parametrize(("family", "one", "two"), [
    ("gemm_batched", "gemm_batched-BK16_BM32_BN32_s1_w4", "gemm_batched-BK64_BM32_BN32_s3_w4"),
    ("gemm_int4", "gemm_int4.f16_scale-BK64_BM32_BN32_G64_SCALEFIRST1_s1_w2",
     "gemm_int4.f16_scale-BK64_BM32_BN32_G64_SCALEFIRST1_s3_w4"),
])
def test_counted_blocks_of_k_leave_no_trace(family: str, one: str, two: str) -> None:
    assert same(_truth(family, one), _truth(family, two)) == (True, ())


def test_where_a_blocks_part_begins_plus_a_literal_does_not_wrap() -> None:
    """start + 1 < n is ext(start) + 1 < n; start: a block index times a third of a size."""
    forest, values, logic, _ints = _makers(4)
    whole = {"width": 32, "low": -(1 << 31), "high": (1 << 31) - 1}
    n = forest.make("param", "0+0", **whole)
    block = forest.make("sreg", "ctaid.z", width=32, low=0, high=65535)
    third = forest.make("imulhi_s", "imulhi_s.32", **whole,
                        args=(n, forest.literal(32, 1431655766)))
    sign = forest.make("extract", "31", width=1, args=(third,), low=0, high=1)
    element = forest.make("load", "", width=32, low=0, high=(1 << 32) - 1,
                          poly=Poly(64, {(n,): 4}))
    ahead = Poly(32, {(): 1})

    def told_apart(start: Poly) -> bool:
        inside = logic.compare("lt", True, 32, start.add(ahead), Poly(32, {(n,): 1}))
        outside = values.sext(Poly(32, {(n,): 1}), 32, 0).sub(
            values.sext(start, 32, 0)).add(Poly(0, {(): -2}))
        return inside is not logic.at_least_zero(outside)

    part = Poly(32, {(block, third): 1, (block, sign): 1})
    assert not told_apart(part)
    assert not told_apart(part.scale(32))
    lanes = np.arange(forest.lanes, dtype=np.int64)
    for other in (Poly(32, {(third,): 1, (sign,): 1}), part.scale((1 << 21) + 1),
                  part.scale(lanes), part.add(Poly(32, {(n,): 1})), Poly(32, {(block, element): 1}),
                  part.add(Poly(32, {(block, element): 1}))):
        assert told_apart(other)


@pytest.mark.parametrize("made", ["max.s32 %r9, %r7, %r8;", "min.s32 %r9, %r7, %r8;",
                                  "max.u32 %r9, %r7, %r8;", "mov.b32 %r9, %r7;"])
def test_data_may_wrap(made: str) -> None:
    """x + 1 > x holds of sizes, under a premise, and of data only below the largest integer."""
    body = ("    mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd3, %rd4;\n"
            f"    ld.global.b32 %r7, [%rd5]; ld.global.b32 %r8, [%rd5+4]; {made}\n"
            "    add.s32 %r10, %r9, 1; setp.gt.s32 %p1, %r10, %r9; selp.b32 %r11, %r9, %r8, %p1;\n"
            "    st.global.b32 [%rd6], %r11;")
    plain = body.replace("selp.b32 %r11, %r9, %r8, %p1", "mov.b32 %r11, %r9")
    assert not equal(text(body), text(plain))
