"""`--assume pow2:...`: what merges under it, what must not, and what it says and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checker import api
from checker.errors import UsageError
from checker.premises import explain

DECLARED = ("pow2:s,t",)

#: y = f(x, s, t, b): single-precision registers %f1 to %f4, the result in %f9
ORDER = "mul.rn.f32 %f5, %f1, %f2; mul.rn.f32 %f9, %f5, %f3;"
OTHER_ORDER = "mul.rn.f32 %f5, %f1, %f3; mul.rn.f32 %f9, %f2, %f5;"
GROUPED = "mul.rn.f32 %f5, %f3, %f2; mul.rn.f32 %f9, %f1, %f5;"
SUM = "mul.rn.f32 %f5, %f1, %f2; fma.rn.f32 %f9, %f5, %f3, %f4;"
OTHER_SUM = "mul.rn.f32 %f5, %f1, %f3; fma.rn.f32 %f9, %f2, %f5, %f4;"
GROUPED_SUM = "mul.rn.f32 %f5, %f3, %f2; fma.rn.f32 %f9, %f1, %f5, %f4;"

MERGED = {
    "order": (ORDER, OTHER_ORDER),
    "grouping": (ORDER, GROUPED),
    "order of a bias": (SUM, OTHER_SUM),
    "grouping of a bias": (SUM, GROUPED_SUM),
    "sign": ("neg.f32 %f6, %f1;" + ORDER.replace("%f1,", "%f6,"),
             GROUPED.replace("%f9", "%f7") + "neg.f32 %f9, %f7;"),
    "three": ("mul.rn.f32 %f5, %f1, %f2; mul.rn.f32 %f6, %f5, %f3; mul.rn.f32 %f9, %f6, %f2;",
              "mul.rn.f32 %f5, %f2, %f2; mul.rn.f32 %f6, %f3, %f1; mul.rn.f32 %f9, %f6, %f5;"),
}

ROUNDED = ("cvt.rn.bf16.f32 %h1, %f5; cvt.f32.bf16 %f6, %h1; mul.rn.f32 %f9, %f6, %f3;")

APART = {
    "another factor": (ORDER, ORDER.replace("%f3", "%f2")),
    "a factor more": (ORDER, ORDER.replace("%f9", "%f6") + "mul.rn.f32 %f9, %f6, %f2;"),
    "a factor less": (ORDER, "mul.rn.f32 %f9, %f1, %f2;"),
    "sum of scales": (GROUPED, GROUPED.replace("mul.rn.f32 %f5", "add.rn.f32 %f5")),
    "distribution": ("add.rn.f32 %f5, %f1, %f4; mul.rn.f32 %f9, %f5, %f2;",
                     "mul.rn.f32 %f5, %f4, %f2; fma.rn.f32 %f9, %f1, %f2, %f5;"),
    "fused or not": (SUM, ORDER.replace("%f9", "%f6") + "add.rn.f32 %f9, %f6, %f4;"),
    "rounded between": ("mul.rn.f32 %f5, %f1, %f2;" + ROUNDED,
                        "mul.rn.f32 %f5, %f1, %f3;" + ROUNDED.replace("%f3", "%f2")),
    "rounded scale": (GROUPED, "cvt.rn.bf16.f32 %h1, %f2; cvt.f32.bf16 %f6, %h1;"
                      + GROUPED.replace("%f2", "%f6")),
    "flushed": (ORDER, GROUPED.replace(".rn.f32", ".rn.ftz.f32")),
    "saturated": (ORDER, OTHER_ORDER.replace(".rn.f32", ".rn.sat.f32")),
    "no scale": (ORDER.replace("%f2", "%f4"), OTHER_ORDER.replace("%f2", "%f4")),
    "another bias": (SUM, SUM.replace("%f4", "%f1")),
    "quotient": ("div.rn.f32 %f5, %f1, %f2; mul.rn.f32 %f9, %f5, %f3;",
                 "mul.rn.f32 %f5, %f1, %f3; div.rn.f32 %f9, %f5, %f2;"),
}

HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry scaled(.param .u64 .ptr .global .align 4 scaled_param_0,
  .param .u64 .ptr .global .align 4 scaled_param_1,
  .param .u64 .ptr .global .align 4 scaled_param_2,
  .param .u64 .ptr .global .align 4 scaled_param_3,
  .param .u64 .ptr .global .align 4 scaled_param_4, .param .u32 scaled_param_5)
.reqntid 32
{ .reg .pred %p1; .reg .b32 %r<9>; .reg .b64 %rd<20>; .reg .f32 %f<10>; .reg .b16 %h1;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 32, %r2;
  ld.param.u32 %r4, [scaled_param_5]; setp.lt.s32 %p1, %r3, %r4;
"""


def kernel(body: str, before: str = "") -> str:
    """One element a thread: x, s, t, b under the mask of a tile, then `body`, then a store."""
    loads = "".join(
        f"  ld.param.u64 %rd{i}, [scaled_param_{i}]; mad.wide.s32 %rd{i + 10}, %r3, 4, %rd{i};\n"
        for i in range(5))
    loads += before
    loads += "".join(f"  mov.b32 %f{i + 1}, 0f00000000; @%p1 ld.global.f32 %f{i + 1}, "
                     f"[%rd{i + 10}];\n" for i in range(4))
    return f"{HEAD}{loads}  {body}\n  @%p1 st.global.f32 [%rd14], %f9;\n  ret;\n}}\n"


def launch(**held: Any) -> dict[str, Any]:
    """Fifty elements of each of x, s, t, b; `held` fixes what a buffer or its type is."""
    args = [{"buffer": name, "dtype": "f32", "elements": 50, "role": "in", **held.get(name, {})}
            for name in "xstb"]
    return {"grid": [2, 1, 1], "args": [*args, {"buffer": "y", "dtype": "f32", "elements": 50,
                                                "role": "out"}, {"i32": 50}]}


def _maps(a: str, b: str, assume: tuple[str, ...] = DECLARED) -> list[Any]:
    return [api.replay_kernel(text, launch(), assume=assume) for text in (a, b)]


@pytest.mark.parametrize("name", MERGED)
def test_order_and_grouping_of_scales_merge(name: str) -> None:
    a, b = (kernel(body) for body in MERGED[name])
    static = api.compare(a, b, assume=("pow2:arg1,arg2",))
    assert (static.kind, static.basis) == ("equal", "static")
    assert "pow2:arg1,arg2" in static.premises
    one, two = _maps(a, b)
    assert one.usable
    assert two.usable
    assert one.digest == two.digest
    assert "pow2:arg1,arg2" in one.premises


@pytest.mark.parametrize("name", MERGED)
def test_without_the_declaration_they_do_not(name: str) -> None:
    a, b = (kernel(body) for body in MERGED[name])
    assert not api.compare(a, b).equal
    one, two = _maps(a, b, ())
    assert one.digest != two.digest
    assert not api.compare(a, b, assume=("pow2:arg0,arg3",)).equal
    one, two = _maps(a, b, ("pow2:x,b",))
    assert one.digest != two.digest


@pytest.mark.parametrize("name", APART)
def test_near_misses_stay_apart(name: str) -> None:
    a, b = (kernel(body) for body in APART[name])
    assert api.compare(a, b, assume=("pow2:arg1,arg2",)).kind == "unproved"
    one, two = _maps(a, b)
    assert one.usable
    assert two.usable
    assert one.digest != two.digest


def test_a_scale_that_the_kernel_wrote_itself_is_none() -> None:
    before = "  mov.b32 %f8, 0f40400000; @%p1 st.global.f32 [%rd11], %f8;\n"
    a, b = kernel(ORDER, before), kernel(GROUPED, before)
    assert not api.compare(a, b, assume=("pow2:arg1,arg2",)).equal


def test_a_declaration_is_part_of_the_signature() -> None:
    text = kernel(ORDER)
    assert api.sign(text).text != api.sign(text, assume=("pow2:arg1,arg2",)).text
    assert api.sign(text, assume=("pow2:arg1",)).text != api.sign(
        text, assume=("pow2:arg1,arg2",)).text
    assert "overflow" in explain("pow2:arg1,arg2")


def test_no_witness_is_looked_for() -> None:
    a, b = kernel(ORDER), kernel(APART["a factor more"][1])
    assert api.compare(a, b, launch_a=launch()).kind == "unequal"
    assert api.compare(a, b, launch_a=launch(), assume=DECLARED).kind == "unproved"


@pytest.mark.parametrize(("held", "what"), [
    ({"s": {"values": [0.5] * 49 + [3.0]}}, "powers of two"),
    ({"s": {"values": [0.5] * 49 + [0.0]}}, "powers of two"),
    ({"s": {"values": [0.5] * 49 + [-2.0]}}, "powers of two"),
    ({"t": {"dtype": "i32"}}, "i32"),
])
def test_launch_facts_that_contradict_it_are_said(held: dict[str, Any], what: str) -> None:
    verdict = api.compare(kernel(ORDER), kernel(GROUPED), launch_a=launch(**held),
                          assume=DECLARED)
    assert verdict.kind == "unproved"
    assert what in verdict.reasons[0].message


def test_launch_facts_that_agree_are_fine() -> None:
    held = launch(s={"values": [2.0 ** (i - 25) for i in range(50)]})
    assert api.compare(kernel(ORDER), kernel(GROUPED), launch_a=held, assume=DECLARED).equal


@pytest.mark.parametrize("declared", ["pow2:nobody", "pow3:s", "pow2:", "s", "pow2:arg9"])
def test_a_wrong_declaration_is_refused(declared: str) -> None:
    with pytest.raises(UsageError) as error:
        api.compare(kernel(ORDER), kernel(GROUPED), assume=(declared,))
    assert "hint" in str(error.value)


def test_the_claim_holds_on_numbers_and_needs_its_premise() -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)])
    s, t = (np.ldexp(np.float32(1), rng.integers(-30, 30, x.size)).astype(np.float32)
            for _ in range(2))
    with np.errstate(all="ignore"):
        first, other, grouped = (x * s) * t, (x * t) * s, x * (s * t)
        steps = [np.abs(v) for v in (x, x * s, x * t, s * t, first)]
    tiny = np.finfo(np.float32).tiny
    kept = (x == 0) | ~np.isfinite(x) | np.all([np.isfinite(v) & (v >= tiny) for v in steps], 0)
    assert kept.mean() > 0.5
    for other_bits in (other, grouped):
        same = first.view(np.uint32) == other_bits.view(np.uint32)
        assert (same | np.isnan(first) & np.isnan(other_bits))[kept].all()
        assert not (same | np.isnan(first)).all()  # where a product leaves the range
