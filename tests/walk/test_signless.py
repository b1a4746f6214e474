"""A power of two does not look at the sign of a zero: masked tails of multiply-adds before it."""

from __future__ import annotations

import pytest

from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.walk import walk
from tests.walk.kernels import equal, text, walked

POWER = "ex2.approx.f32 %f2, %f2;"


def _products(width: int, after: str = POWER, masked: bool = True, init: str = "0f00000000",
              step: str = "fma.rn.f32 %f2, %f1, %f3, %f2;", other: str = "0f00000000",
              group: int = 1, start: int = 0) -> str:
    """f(sum over k of a[k + t] * b[k + t]), `width` steps an iteration, masked beyond n.

    group: elements that the test of the first of them serves.
    """
    lines = []
    for j in range(width):
        guard = "@%p4 " if masked or not j else ""
        lines.append(f"""
    add.s32 %r12, %r11, {j - j % group};
    setp.lt.s32 %p4, %r12, %r1;
    add.s32 %r12, %r11, {j};
    mad.lo.s32 %r13, %r12, 32, %r2;
    mul.wide.s32 %rd10, %r13, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd2, %rd10;
    mov.f32 %f1, {other};
    mov.f32 %f3, 0f00000000;
    {guard}ld.global.f32 %f1, [%rd11];
    {guard}ld.global.f32 %f3, [%rd12];
    {step}""")
    return text(f"""
    mov.f32 %f2, {init};
    mov.u32 %r11, {start};
    setp.lt.s32 %p2, %r1, {start + 1};
    @%p2 bra $done;
$loop:
{"".join(lines)}
    add.s32 %r11, %r11, {width};
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:
    {after}
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd13, %rd3, %rd10;
    st.global.f32 [%rd13], %f2;""", threads=32)


def test_a_masked_tail_before_a_power_of_two() -> None:
    assert equal(_products(1), _products(2))
    assert equal(_products(1), _products(4))
    scaled = "mul.rn.f32 %f2, %f2, 0f3FB8AA3B;\n    max.f32 %f2, %f2, %f3;\n    " + POWER
    scaled = scaled.replace("%f3", "0f41000000")
    assert equal(_products(1, scaled), _products(2, scaled))


@pytest.mark.parametrize("after", [
    "",  # -0 stays -0 without a tail
    "rcp.rn.f32 %f2, %f2;\n    " + POWER,  # 2**(1 / -0) is 0
    "rcp.rn.f32 %f2, %f2;",
    "lg2.approx.f32 %f2, %f2;\n    rcp.rn.f32 %f2, %f2;",
])
def test_a_masked_tail_shows_elsewhere(after: str) -> None:
    assert walked(_products(2, after)).modelled
    assert not same(walked(_products(1, after)), walked(_products(2, after)))[0]


@pytest.mark.parametrize("twin", [
    _products(2, masked=False),
    _products(2, init="0f3F800000"),
    _products(2, step="fma.rn.f32 %f2, %f1, %f2, %f3;"),
    _products(2, other="0f7F800000"),  # an infinity times zero
])
def test_other_tails_stay(twin: str) -> None:
    assert not same(walked(_products(1)), walked(twin))[0]


def test_a_running_power_keeps_its_steps() -> None:
    """In the loop the power is part of the step."""
    inside = "fma.rn.f32 %f2, %f1, %f3, %f2;\n    " + POWER
    assert not same(walked(_products(1, "", step=inside)),
                    walked(_products(2, "", step=inside)))[0]


def _multiples(source: str) -> WalkResult:
    """Walk a kernel in a second look: n is taken for a multiple of 16."""
    return walk(lower(parse(source, isa="ptx")), divisible=("arg3",))


@pytest.mark.parametrize("group", [1, 4, 16])
def test_a_tail_that_is_tested_group_by_group(group: int) -> None:
    """n is a multiple of 16: where the loop's 32 steps reach beyond it, whole groups do."""
    one, two = _multiples(_products(1)), _multiples(_products(32, group=group))
    assert one.modelled
    assert two.modelled
    assert "divisible:arg3%16" in two.premises or group == 1
    assert same(one, two)[0]


@pytest.mark.parametrize("twin", [
    _products(32, group=32),  # one test for 32 steps, 16 of which may lie beyond n
    _products(32, group=16, start=8),  # 8 elements before n and 8 beyond it have one test
    _products(32, group=16, start=1),
    _products(32, group=16, masked=False),
])
def test_a_group_that_an_end_parts_stays(twin: str) -> None:
    found = _multiples(twin)
    assert found.modelled
    start = 8 if "mov.u32 %r11, 8" in twin else 1 if "mov.u32 %r11, 1" in twin else 0
    assert not same(_multiples(_products(1, start=start)), found)[0]


def test_groups_stay_where_no_size_is_a_multiple() -> None:
    assert not same(walked(_products(1)), walked(_products(32, group=16)))[0]


ZERO = "sub.rn.f32 %f2, 0f00000000, %f2;"


def test_a_zero_less_a_value_is_its_negative_before_a_power_of_two() -> None:
    after = "mul.rn.f32 %f2, %f2, 0f3FB8AA3B;\n    "
    less, negative = f"{ZERO}\n    {after}", f"neg.f32 %f2, %f2;\n    {after}"
    assert equal(_products(1, less + POWER), _products(1, negative + POWER))
    for other in ("", "rcp.rn.f32 %f2, %f2;\n    " + POWER):
        assert not same(walked(_products(1, less + other)),
                        walked(_products(1, negative + other)))[0]
    for near in (ZERO.replace("0f0", "0f3"), ZERO.replace("rn", "rn.ftz"),
                 ZERO.replace("rn", "rn.sat")):
        assert not same(walked(_products(1, f"{near}\n    {after}{POWER}")),
                        walked(_products(1, negative + POWER)))[0]
