"""A comparison of the larger of two indices is one of both: LLVM writes two masks so."""

from __future__ import annotations

import pytest

from checker import api
from corpus.load import load_truth
from tests.walk.kernels import equal, text, walked


def _kernel(test: str) -> str:
    """out[i] = a[i] where %p1 says so; i = 64 b + t, j = 3 b' + 2 t."""
    return text(f"""
    mad.lo.s32 %r10, %r3, 64, %r2;
    mov.u32 %r11, %ctaid.y;
    mul.lo.s32 %r11, %r11, 3;
    mad.lo.s32 %r11, %r2, 2, %r11;
    {test}
    mul.wide.s32 %rd10, %r10, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    @%p1 st.global.f32 [%rd12], %f1;""")


def _both(how: str, cond: str) -> str:
    return (f"setp.{cond}.s32 %p2, %r10, %r1;\nsetp.{cond}.s32 %p3, %r11, %r1;\n"
            f"{how}.pred %p1, %p2, %p3;")


def _one(of: str, cond: str, kind: str = "s32") -> str:
    return f"{of}.{kind} %r12, %r10, %r11;\nsetp.{cond}.{kind} %p1, %r12, %r1;"


@pytest.mark.parametrize(("of", "cond", "how"), [
    ("max", "lt", "and"), ("max", "le", "and"), ("max", "gt", "or"), ("max", "ge", "or"),
    ("min", "lt", "or"), ("min", "le", "or"), ("min", "gt", "and"), ("min", "ge", "and"),
])
def test_one_comparison_for_two(of: str, cond: str, how: str) -> None:
    assert equal(_kernel(_one(of, cond)), _kernel(_both(how, cond)))


@pytest.mark.parametrize("other", [
    _one("min", "lt"), _one("max", "le"), _one("max", "lt", "u32"), _one("max", "gt"),
    _both("or", "lt"), "setp.lt.s32 %p1, %r10, %r1;", "setp.lt.s32 %p1, %r11, %r1;",
    _one("max", "lt").replace("%r10, %r11", "%r10, %r2"),
])
def test_other_comparisons_are_others(other: str) -> None:
    assert not api.compare(_kernel(_one("max", "lt")), _kernel(other)).equal


@pytest.mark.parametrize("bound", ["lt", "gt"])
def test_the_sum_of_a_maximum_is_no_maximum_of_sums_that_wrap(bound: str) -> None:
    """max(i, j) + 2**31 - 5 is negative for most; i + 2**31 - 5 and j + 2**31 - 5 are compared."""
    shifted = f"""
    max.s32 %r12, %r10, %r11;
    add.s32 %r12, %r12, 2147483643;
    setp.{bound}.s32 %p1, %r12, %r1;"""
    apart = f"""
    add.s32 %r13, %r10, 2147483643;
    add.s32 %r14, %r11, 2147483643;
    max.s32 %r12, %r13, %r14;
    setp.{bound}.s32 %p1, %r12, %r1;"""
    one, two = walked(_kernel(shifted)), walked(_kernel(apart))
    assert one.digest != two.digest


def test_a_mask_by_the_larger_index_in_a_loop_that_fetches_ahead() -> None:
    """Gradients of attention's keys and values: `max(key, row) < n`, in one and two stages."""
    names = [f"attention_backward.dkv-BM16_BN32_CAUSAL0_D64_s{s}_w4-sm_90" for s in (1, 2)]
    kernels = (record.kernel for record in load_truth("attention_backward"))
    texts = {k.name: k.text for k in kernels if k.name in names}
    one, two = (walked(texts[name]) for name in names)
    assert one.modelled
    assert one.digest == two.digest
