"""Matrix steps: which products share a rounding step, zeros, accumulators; figure 4's layouts."""

from __future__ import annotations

import pytest

from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, first_difference, replay
from tests.figure4 import listing
from tests.replay.listing import facts, text

LOAD = """
    ld.global.u32 %r10, [%rd4];
    ld.global.u32 %r11, [%rd4+128];
    ld.global.u32 %r12, [%rd4+256];
    ld.global.u32 %r13, [%rd4+384];
    ld.global.u32 %r14, [%rd4+512];
    ld.global.u32 %r15, [%rd4+640];
    mov.f32 %f1, 0f00000000;
    mov.f32 %f2, 0f00000000;
    mov.f32 %f3, 0f00000000;
    mov.f32 %f4, 0f00000000;
"""
STORE = """
    st.global.f32 [%rd5], %f1;
    st.global.f32 [%rd5+128], %f2;
    st.global.f32 [%rd5+256], %f3;
    st.global.f32 [%rd5+384], %f4;
"""
C = "{%f1,%f2,%f3,%f4}"


def k16(a: str = "{%r10,%r11,%r12,%r13}", b: str = "{%r14,%r15}", c: str = C,
        kind: str = "f16") -> str:
    return f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {C}, {a}, {b}, {c};\n"


def k8(a: str, b: str) -> str:
    return f"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {C}, {a}, {b}, {C};\n"


LOW, HIGH = k8("{%r10,%r11}", "{%r14}"), k8("{%r12,%r13}", "{%r15}")


def run(body: str, target: str = "sm_90", before: str = "") -> ReplayResult:
    source = text(LOAD + before + body + STORE, 32).replace("sm_90", target)
    launch = facts(elements=384, dtype="f16")
    launch["args"][1]["elements"] = 128
    result = replay(lower(parse(source)), launch)
    assert result.usable
    return result


def same(a: str, b: str, target: str = "sm_90", before: str = "") -> bool:
    return first_difference(run(a, target, before), run(b, target, before)) is None


@pytest.mark.parametrize(("target", "equal"), [("sm_80", True), ("sm_89", True), ("sm_90", False),
                                               ("sm_100", False)])
def test_one_k16_against_two_k8(target: str, equal: bool) -> None:
    assert same(k16(), LOW + HIGH, target) is equal


def test_the_order_of_steps_matters() -> None:
    assert not same(LOW + HIGH, HIGH + LOW, "sm_80")


def test_the_order_of_products_inside_a_step_does_not() -> None:
    """Swap k = 2t and 2t + 1 in both operands: the same products, elsewhere in the step."""
    swap = "".join(f"prmt.b32 %r{r + 20}, %r{r}, 0, 0x1032;\n" for r in range(10, 16))
    swapped = swap + k16("{%r30,%r31,%r32,%r33}", "{%r34,%r35}")
    assert same(k16(), swapped)
    only_a = swap + k16("{%r30,%r31,%r32,%r33}", "{%r14,%r15}")
    assert not same(k16(), only_a)


ZERO = "mov.b32 %r40, 0;\n"


def test_zero_products_leave_the_accumulator_alone() -> None:
    both = k16() + k16("{%r40,%r40,%r40,%r40}", "{%r40,%r40}")
    assert same(both, k16(), before=ZERO)
    one_side = k16() + k16("{%r40,%r40,%r40,%r40}", "{%r14,%r15}")
    assert not same(one_side, k16(), before=ZERO)  # 0 * inf


def test_a_step_of_zeros_and_nans_counts_once_and_comes_last() -> None:
    null = k16("{%r40,%r40,%r40,%r40}", "{%r14,%r15}")
    assert same(k16() + null + null, k16() + null, before=ZERO)
    assert same(null + k16(), k16() + null, before=ZERO)
    nothing = k16("{%r40,%r40,%r40,%r40}", "{%r40,%r40}")
    assert same(null + nothing + k16(), null + k16(), before=ZERO)
    other = k16("{%r40,%r40,%r40,%r40}", "{%r10,%r11}")
    assert not same(k16() + null, k16() + other, before=ZERO)
    assert not same(k16() + k16(), k16(), before=ZERO)


def test_a_second_null_in_a_row_counts_once_too() -> None:
    null = k16("{%r40,%r40,%r40,%r40}", "{%r14,%r15}")
    other = k16("{%r40,%r40,%r40,%r40}", "{%r10,%r11}")
    assert same(null + k16() + other + other, null + k16() + other, before=ZERO)
    assert same(null + k16() + other * 4, null + k16() + other, before=ZERO)
    assert not same(null + k16() + other, null + k16(), before=ZERO)  # it may be the only NaN
    assert not same(null + k16() + other, k16() + other, before=ZERO)
    between = k16("{%r40,%r10,%r40,%r11}", "{%r14,%r15}")  # no null: it may be there twice
    assert not same(null + between + between, null + between, before=ZERO)


def s8(saturate: bool, c: str = "{%r50,%r51,%r52,%r53}") -> str:
    mode = ".satfinite" if saturate else ""
    return (f"mma.sync.aligned.m16n8k32.row.col{mode}.s32.s8.s8.s32 {{%r50,%r51,%r52,%r53}}, "
            f"{{%r10,%r11,%r12,%r13}}, {{%r14,%r15}}, {c};\n")


def _integers(body: str, start: str) -> ReplayResult:
    before = "".join(f"mov.b32 %r{r}, {start};\n" for r in range(50, 54))
    after = "".join(f"cvt.rn.f32.s32 %f{i}, %r{i + 49};\n" for i in range(1, 5))
    return run(before + body + after)


@pytest.mark.parametrize(("start", "equal"), [("0", True), ("2146000000", True),
                                              ("2147483647", False), ("-2147483648", False)])
def test_saturation_counts_only_where_the_sum_may_leave_the_range(start: str, equal: bool) -> None:
    wraps, clamps = _integers(s8(False), start), _integers(s8(True), start)
    assert (first_difference(wraps, clamps) is None) is equal


def test_saturation_counts_once_enough_products_are_summed() -> None:
    start = str(2**31 - 2**24)  # room for 31 steps of 32 products of up to 2^14
    for steps, equal in ((31, True), (32, False)):
        wraps, clamps = (_integers(s8(kind) * steps, start) for kind in (False, True))
        assert (first_difference(wraps, clamps) is None) is equal


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_products_with_minus_zero_are_zero_products(target: str) -> None:
    minus = "mov.b32 %r41, 0x80008000;\n"
    both = k16() + k16("{%r40,%r40,%r40,%r40}", "{%r41,%r41}")
    assert same(both, k16(), target, ZERO + minus)
    assert not same(k16() + k16("{%r41,%r41,%r41,%r41}", "{%r14,%r15}"), k16(), target,
                    ZERO + minus)


def test_the_sign_of_a_zero_counts_where_the_accumulator_may_be_minus_zero() -> None:
    seed = "mov.b32 %r41, 0x80008000;\n" + "".join(
        f"ld.global.f32 %f{i}, [%rd4+{128 * i}];\n" for i in range(1, 5))
    plus = k16("{%r40,%r40,%r40,%r40}", "{%r14,%r15}")
    minus = k16("{%r41,%r41,%r41,%r41}", "{%r14,%r15}")
    assert not same(plus, minus, before=ZERO + seed)


def test_half_of_a_step_may_be_zero() -> None:
    tail = k16("{%r10,%r11,%r40,%r40}", "{%r14,%r40}")
    assert same(tail, LOW, "sm_80", ZERO)
    assert not same(tail, k16("{%r10,%r11,%r40,%r40}", "{%r14,%r15}"), "sm_90", ZERO)


def test_accumulator_of_minus_zero_is_not_left_alone() -> None:
    minus = "".join(f"mov.f32 %f{i}, 0f80000000;\n" for i in range(1, 5))
    zeros = k16("{%r40,%r40,%r40,%r40}", "{%r40,%r40}")
    assert not same(zeros, "", before=ZERO + minus)


def test_carried_accumulator_is_not_a_later_add() -> None:
    seed = "".join(f"ld.global.f32 %f{i + 10}, [%rd4+{128 * i}];\n" for i in range(1, 5))
    carried = seed + k16(c="{%f11,%f12,%f13,%f14}")
    add = "".join(f"add.rn.f32 %f{i}, %f{i}, %f{i + 10};\n" for i in range(1, 5))
    assert not same(carried, seed + k16() + add)
    back = "".join(f"add.rn.f32 %f{i}, %f{i + 10}, %f{i};\n" for i in range(1, 5))
    assert same(seed + k16() + back, seed + k16() + add)


def test_types_and_targets_are_kept_apart() -> None:
    assert not same(k16(), k16(kind="bf16"))
    assert first_difference(run(k16()), run(k16(), "sm_80")) is not None


def _figure4(**how: object) -> ReplayResult:
    launch = {"grid": [1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": 512, "role": "in"},
        {"buffer": "y", "dtype": "f32", "elements": 1, "role": "out"}]}
    result = replay(lower(parse(listing(**how))), launch)  # type: ignore[arg-type]
    assert result.usable
    return result


def test_figure_4_two_layouts_are_one_map() -> None:
    assert _figure4(threads=64).digest == _figure4(threads=32).digest
    assert _figure4(threads=64, commute=True).digest == _figure4(threads=64).digest


@pytest.mark.parametrize("how", [
    {"offsets": (16, 8, 4, 2, 1)}, {"offsets": (1, 16, 2, 8, 4)}, {"leaf_order": (1, 0, 3, 2)},
    {"leaf_stride": 64}, {"second_offset": 7}, {"leaf": "mul+add"}, {"leaf": "fma"},
])
def test_figure_4_twins_differ(how: dict[str, object]) -> None:
    if how == {"leaf_order": (1, 0, 3, 2)}:
        assert _figure4(threads=64, **how).digest == _figure4(threads=64).digest  # x + y = y + x
    else:
        assert _figure4(threads=64, **how).digest != _figure4(threads=64).digest
