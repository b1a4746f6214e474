"""Blocks of k of integer and fp8 products: chains of steps, where steps of zeros change nothing."""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from checker.api import program_of
from checker.tree.chains import keep
from checker.tree.nodes import Forest, Node
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.walk.run import walk
from corpus.load import load_set, load_truth
from tests.walk.kernels import text


@cache
def _texts(family: str) -> dict[str, str]:
    return {r.kernel.name: r.kernel.text for r in load_truth(family.split(".")[0])}


def _text(family: str, name: str) -> str:
    return _texts(family)[f"{family}-{name}-sm_90"]


@cache
def _walked(text: str) -> WalkResult:
    return walk(program_of(text), seconds=600)


INTEGER = "w8a8.row_then_column"
FP8 = "gemm_fp8.e4m3"


@pytest.mark.parametrize(("family", "one", "two"), [
    (INTEGER, "BK32_BM32_BN32_EPILOGUE0_fuse0_s1_w2", "BK64_BM32_BN32_EPILOGUE0_fuse0_s1_w2"),
    (FP8, "BK32_BM64_BN32_IMPRECISE0_s1_w4", "BK64_BM64_BN32_IMPRECISE0_s1_w4"),
])
def test_blocks_of_k(family: str, one: str, two: str) -> None:
    narrow, wide = _walked(_text(family, one)), _walked(_text(family, two))
    assert same(narrow, wide) == (True, ())


def test_steps_of_zeros_make_minus_zero_plus_zero() -> None:
    made = []
    for name in ("BK32_BM64_BN32_IMPRECISE0_s1_w4", "BK64_BM64_BN32_IMPRECISE0_s1_w4"):
        text, count = re.subn(r"(mov\.b32\s+%r\d+, )0f00000000;", r"\g<1>0f80000000;",
                              _text(FP8, name))
        assert count
        made.append(_walked(text))
    assert all(m.modelled for m in made)
    assert not same(*made)[0]


def test_steps_that_cut_their_accumulator_keep_what_came_out_of_them() -> None:
    """They keep 13 fraction bits: beyond the end of k, 1 + 2**-20 would lose its tail."""
    forest = Forest(1)
    zero, other = forest.literal(32, 0), forest.literal(32, 0x3F800001)
    a = forest.make("krow", "2", args=(zero,), table=np.zeros((2, 1, 2), dtype=np.int64))

    def step(acc: Node, kind: str, keeps: bool) -> Node:
        model = SimpleNamespace(keeps_accumulator=keeps)
        return forest.make("mma", f"{kind}|a|b|sum|", args=(acc, a, a), extra=model)

    cut = step(zero, "cut", False)
    assert keep([cut, step(cut, "cut", False)], zero)
    assert not keep([cut, step(cut, "cut", False)], other)
    assert not keep([cut, step(cut, "whole", True)], zero)
    whole = step(zero, "whole", True)
    assert keep([whole, step(whole, "whole", True)], other)


@pytest.mark.parametrize("which", [0, 1])
def test_a_tail_of_integers_that_is_not_masked_is_no_tail(which: int) -> None:
    wide = _text(INTEGER, "BK64_BM32_BN32_EPILOGUE0_fuse0_s1_w2")
    size = re.findall(r"ld\.param\.b32\s+(%r\d+), \[w8a8_param_8\]", wide)
    assert len(size) == 1, size
    bounds = list(re.finditer(rf"setp\.lt\.s32\s+%p\d+, %r\d+, ({size[0]});", wide))
    at = bounds[which]
    unbounded = wide[:at.start(1)] + "1073741824" + wide[at.end(1):]
    found = _walked(unbounded)
    assert not found.modelled or found.digest != _walked(wide).digest


@cache
def _rows() -> str:
    return next(k.text for k in load_set("sm_80") if k.name ==
                "gemm_softmax-BK32_BM32_BN128_PRECISIONieee_SOFTMAX1_s2_w4-sm_80")


def test_factors_of_a_multiply_add_in_a_chain_have_no_order() -> None:
    """A chain is cut into the steps of a finer loop whichever factor comes first."""
    a, b, c = (r"%r473, ", "%r89, %r348", ", %r472;")
    text = _rows()
    assert text.count(f"fma.rn.f32 \t{a}{b}{c}") == 1
    other = text.replace(a + b + c, a + "%r348, %r89" + c)
    assert same(_walked(text), _walked(other)) == (True, ())
    near = text.replace(a + b + c, a + "%r348, %r90" + c)
    assert not same(_walked(text), _walked(near))[0]


def _whole(step: int, bound: str = "", skip: str = "setp.lt.s32 %p2, %r1, 1;\n    @%p2 bra $done;",
           load: str = "ld.global.f32 %f1, [%rd11];", start: str = "0f00000000") -> str:
    """out[t] = start + a[0] + a[1] + ..., so many elements an iteration, none of them tested."""
    adds = "\n    ".join(f"{load.replace(']', f' + {4 * i}]')}\n    add.rn.f32 %f2, %f2, %f1;"
                         for i in range(step))
    return text(f"""
    mov.f32 %f2, {start};
    mov.u32 %r11, 0;
    mov.u64 %rd11, %rd1;
    mov.u32 %r12, %r1;
    {bound}
    {skip}
$loop:
    {adds}
    add.s64 %rd11, %rd11, {4 * step};
    add.s32 %r11, %r11, {step};
    setp.lt.s32 %p3, %r11, %r12;
    @%p3 bra $loop;
$done:
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f2;""", threads=32)


def _told(kernel: str, *divisible: str) -> WalkResult:
    found = walk(program_of(kernel), divisible=divisible)
    assert found.modelled
    return found


def test_a_loop_that_ends_by_a_multiple_of_its_step_has_no_tail() -> None:
    one = _told(_whole(1), "arg3")
    for step in (2, 4, 16):
        found = _told(_whole(step), "arg3")
        assert same(one, found) == (True, ())
        assert "divisible:arg3%16" in found.premises
        assert not same(_told(_whole(1)), _told(_whole(step)))[0]  # nothing is known of n
        # a first iteration whatever n is
        assert not same(*(_told(_whole(s, skip=""), "arg3") for s in (1, step)))[0]


@pytest.mark.parametrize("twin", [
    _whole(32),  # n is a multiple of 16 only
    _whole(3),
    _whole(4, bound="sub.s32 %r12, %r12, 1;"),  # another end
    _whole(4, bound="add.s32 %r12, %r12, 1;"),
    _whole(4, bound="mul.lo.s32 %r12, %r12, %r2;"),
    _whole(4, skip=""),  # four at least, whatever n is
    _whole(4, start="0f80000000"),
    _whole(4, load="ld.global.f32 %f1, [%rd1];"),  # not the next ones
])
def test_a_loop_with_another_end_or_step_shows(twin: str) -> None:
    assert not same(_told(_whole(1), "arg3"), _told(twin, "arg3"))[0]


INT4 = "gemm_int4.f16_scale"


def _groups(name: str, old: str = "", new: str = "") -> WalkResult:
    source, count = re.subn(old, new, _text(INT4, name)) if old else (_text(INT4, name), 1)
    assert count
    return _walked(source)


NARROW, WIDE = (f"BK{k}_BM16_BN32_G64_SCALEFIRST1_s1_w4" for k in (32, 64))
CENTRE = r"add\.s32 (\s*%r\d+, %r\d+), -8;"


def test_zeros_of_either_sign_are_nothing_to_a_matrix_step() -> None:
    """Beyond k a weight is 0 - 8, its scale +0: their product is -0, that with a's +0 a zero."""
    assert same(_groups(NARROW), _groups(WIDE)) == (True, ())
    assert same(_groups(NARROW, CENTRE, r"mad.lo.s32 \1, 1000, -8;"),
                _groups(WIDE, CENTRE, r"mad.lo.s32 \1, 1000, -8;")) == (True, ())


@pytest.mark.parametrize("new", [
    r"mad.lo.s32 \1, 10000, -8;",  # beyond the largest half: an infinity times 0
    r"mad.lo.s32 \1, 1000, -65505;",
])
def test_a_weight_that_may_be_infinite(new: str) -> None:
    narrow, wide = _groups(NARROW, CENTRE, new), _groups(WIDE, CENTRE, new)
    assert narrow.modelled
    assert wide.modelled
    assert not same(narrow, wide)[0]


def test_other_groups_of_scales() -> None:
    """One scale for 32 of k, not for 64."""
    shift = r"shr\.s32 (\s*%r\d+, %r\d+), 6;"
    changed = _groups(NARROW, shift, r"shr.s32 \1, 5;")
    assert changed.modelled
    assert not same(changed, _groups(WIDE))[0]
