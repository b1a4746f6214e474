"""One test for a group of elements of a load: each element's own, under `divisible`."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checker.api import compare, program_of
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.walk.run import walk
from corpus.load import load_set, load_truth
from tests.walk.kernels import equal, text, walked


def _rows(shift: tuple[int, ...] = (0, 4, 8, 12), wide: bool = True, step: int = 16,
          row: tuple[int, ...] = (0, 4, 8, 12), start: int = 0) -> str:
    """Sums b[k + t / 8 + row] for k = 0, step, ..., each tested at k + t / 8 + shift.

    wide: a vector of a is tested for its first element, so that n is a multiple of something.
    start: k begins at so many times n times the block's number.
    """
    load = "ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%rd12];" if wide else \
        "ld.global.f32 %f4, [%rd12];"
    lines = []
    for at, tested in zip(row, shift, strict=True):
        lines.append(f"""
    add.s32 %r20, %r12, {at};
    mad.lo.s32 %r21, %r20, %r1, %r2;
    mul.wide.s32 %rd13, %r21, 4;
    add.s64 %rd14, %rd2, %rd13;
    add.s32 %r22, %r12, {tested};
    setp.lt.s32 %p3, %r22, %r1;
    mov.f32 %f1, 0f00000000;
    @%p3 ld.global.f32 %f1, [%rd14];
    add.rn.f32 %f2, %f2, %f1;""")
    return text(f"""
    shr.u32 %r10, %r2, 3;
    and.b32 %r11, %r2, 3;
    shl.b32 %r11, %r11, 2;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r13, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    add.s32 %r12, %r13, %r10;
    mul.lo.s32 %r23, %r3, {start};
    mad.lo.s32 %r12, %r23, %r1, %r12;
    add.s32 %r14, %r13, %r11;
    setp.lt.s32 %p4, %r14, %r1;
    mul.wide.s32 %rd10, %r14, 4;
    add.s64 %rd12, %rd1, %rd10;
    mov.f32 %f4, 0f00000000;
    mov.f32 %f5, 0f00000000;
    mov.f32 %f6, 0f00000000;
    mov.f32 %f7, 0f00000000;
    @%p4 {load}
    add.rn.f32 %f2, %f2, %f4;
{"".join(lines)}
    add.s32 %r13, %r13, {step};
    setp.lt.s32 %p5, %r13, %r1;
    @%p5 bra $loop;
$done:
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd3, %rd10;
    st.global.f32 [%rd11], %f2;""", threads=32)


def test_rows_that_share_a_test() -> None:
    assert equal(_rows(), _rows(shift=(0, 0, 0, 0)))
    assert "divisible:arg3%16" in walked(_rows(shift=(0, 0, 0, 0))).premises


@pytest.mark.parametrize("twin", [
    _rows(shift=(0, 4, 8, 16)),  # the next group
    _rows(shift=(0, 4, 24, 12)),
    _rows(shift=(0, 0, 0, 0), row=(0, 4, 8, 16)),
    _rows(row=(0, 4, 12, 8)),
])
def test_a_test_of_another_group_stays(twin: str) -> None:
    assert walked(twin).modelled
    assert not same(walked(_rows()), walked(twin))[0]


def test_groups_that_the_counter_does_not_keep_apart() -> None:
    own, shared = _rows(step=20), _rows(step=20, shift=(0, 0, 8, 8))
    assert not same(walked(own), walked(shared))[0]


def test_groups_of_a_block_that_begins_at_a_multiple() -> None:
    own = _rows(start=48)
    assert equal(own, _rows(start=48, shift=(0, 0, 0, 0)))
    assert "divisible:arg3%16" in walked(own).premises
    assert equal(_rows(start=8), _rows(start=8, shift=(0, 0, 8, 8)))
    for start, shift in ((48, (0, 0, 0, 16)), (40, (0, 0, 0, 0)), (1, (0, 0, 8, 8)),
                         (0, (0, 4, 8, 12))):
        found = walked(_rows(start=start, shift=shift))
        assert found.modelled
        assert not same(walked(own), found)[0]
        if start:
            assert not same(walked(_rows(start=start)), found)[0]


@pytest.mark.parametrize("shift", [(0, 0, 0, 0), (0, 0, 8, 8)])
def test_one_test_for_two_rows_of_a_group_shows_it(shift: tuple[int, ...]) -> None:
    own, shared = _rows(wide=False), _rows(wide=False, shift=shift)
    assert not equal(own, shared)  # nothing is assumed of a kernel that does not show it
    verdict = compare(own, shared)
    assert (verdict.kind, verdict.basis) == ("equal", "static")
    assert "divisible:arg3%16" in verdict.premises


@pytest.mark.parametrize(("twin", "step"), [
    (_rows(wide=False, shift=(4, 0, 8, 12)), 16),  # no test serves its own row and another one
    (_rows(wide=False, shift=(0, 4, 8, 16)), 16),
    (_rows(wide=False, shift=(0, 0, 16, 12)), 16),  # two rows of a group, one of the next
    (_rows(wide=False, shift=(0, 0, 0, 0), row=(0, 4, 8, 16)), 16),
    (_rows(wide=False, shift=(0, 0, 0, 0), step=20), 20),  # groups that the counter parts
])
def test_a_mistake_in_a_test_shows_nothing(twin: str, step: int) -> None:
    assert walked(twin).modelled
    assert not compare(_rows(wide=False, step=step), twin).equal


def _flat(tested: tuple[int, ...] = (0, 8)) -> str:
    """Rows of 8 elements that follow each other, 16 a block: t / 8 and t / 8 + 8, each tested at
    t / 8 + tested; what is stored is summed as in a matrix product.
    """
    lines = []
    for row, test in zip((0, 8), tested, strict=True):
        products = "".join(f"""
    and.b32 %r14, %r2, 24;
    add.s32 %r14, %r14, {k};
    shfl.sync.idx.b32 %f2, %f1, %r14, 31, -1;
    fma.rn.f32 %f3, %f2, %f2, %f3;""" for k in range(4))
        lines.append(f"""
    add.s32 %r12, %r10, {test};
    setp.lt.s32 %p1, %r12, %r1;
    mad.lo.s32 %r13, %r3, 128, %r2;
    add.s32 %r13, %r13, {8 * row};
    mul.wide.s32 %rd10, %r13, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f1, 0f00000000;
    @%p1 ld.global.f32 %f1, [%rd11];
    mov.f32 %f3, 0f00000000;{products}
    @%p1 st.global.f32 [%rd12], %f3;""")
    return text(f"""
    shr.u32 %r10, %r2, 3;
    mad.lo.s32 %r10, %r3, 16, %r10;
{"".join(lines)}""")


@pytest.mark.parametrize("tested", [(0, 0), (8, 8)])
def test_rows_that_follow_each_other_are_one_coordinate(tested: tuple[int, ...]) -> None:
    verdict = compare(_flat(), _flat(tested))
    assert (verdict.kind, verdict.basis) == ("equal", "static")
    assert "divisible:arg3%16" in verdict.premises


@pytest.mark.parametrize("tested", [(0, 16), (0, 24), (-8, 8)])
def test_a_row_of_the_next_group_is_another_one(tested: tuple[int, ...]) -> None:
    assert walked(_flat(tested)).modelled
    assert not compare(_flat(), _flat(tested)).equal


@cache
def _walked(name: str) -> WalkResult:
    found = next(k.text for k in load_set("sm_90") if k.name == f"gemm_f32-{name}-sm_90")
    return walk(program_of(found), seconds=600)


def test_blocks_of_k_of_single_precision() -> None:
    """The wider block tests one row of b for several."""
    narrow = _walked("BK16_BM32_BN64_GM4_PRECISIONtf32_TRANS0_s3_w4")
    wide = _walked("BK32_BM32_BN64_GM4_PRECISIONtf32_TRANS0_s3_w4")
    assert same(narrow, wide) == (True, ())


@cache
def _truth(name: str) -> str:
    return next(r.kernel.text for r in load_truth("gemm_f32")
                if r.kernel.name == f"gemm_f32-{name}-sm_90")


SMALL = "BK16_BM32_BN32_GM4_PRECISIONieee_TRANS0_s1_w4"


def test_rows_of_a_product_without_matrix_instructions() -> None:
    one = walk(program_of(_truth(SMALL)), seconds=600)
    two = walk(program_of(_truth("BK16_BM32_BN64_GM4_PRECISIONieee_TRANS0_s1_w4")), seconds=600)
    assert same(one, two) == (True, ())
    source = _truth(SMALL)
    size = re.search(r"ld\.param\.b32\s+(%r\d+), \[gemm_param_3\]", source)
    assert size is not None
    tests = list(re.finditer(rf"setp\.lt\.s32\s+(%p\d+), (%r\d+), {size.group(1)};", source))
    for at in tests[-1:]:  # the rows that are stored: those of the next group instead
        moved = (source[:at.start()] + f"add.s32 %r9999, {at.group(2)}, 16;\n"
                 + at.group(0).replace(at.group(2), "%r9999") + source[at.end():])
        moved = moved.replace("{\n", "{\n\t.reg .b32 %r9999;\n", 1)
        found = walk(program_of(moved), seconds=600)
        assert found.modelled
        assert found.digest != one.digest
