"""Persistent kernels: blocks that take every P-th tile, as a grid with a block for each tile."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checker.api import program_of
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.walk.run import walk
from corpus.load import load_truth
from tests.walk.kernels import equal, text, walked


@cache
def _texts() -> dict[str, str]:
    return {r.kernel.name: r.kernel.text for r in load_truth("gemm_persistent")}


@cache
def _walked(text: str) -> WalkResult:
    return walk(program_of(text), seconds=600)


SMALL = "BK16_BM32_BN32_PROGRAMS3_s1_w4"


def _text(name: str) -> str:
    return _texts()[f"gemm_persistent-{name}-sm_90"]


@pytest.mark.parametrize("other", [
    "BK16_BM32_BN64_PROGRAMS1_s1_w4",  # other tiles, one program
    "BK64_BM32_BN32_PROGRAMS3_s3_w4",  # blocks of k, stages
])
def test_programs_and_tiles_drop_out(other: str) -> None:
    assert same(_walked(_text(SMALL)), _walked(_text(other))) == (True, ())


def _changed(pattern: str, by: str, count: int = 1) -> str:
    out, found = re.subn(pattern, by, _text(SMALL), count=count)
    assert found == count, pattern
    return out


@pytest.mark.parametrize(("pattern", "by"), [
    (r"(mov\.u32\s+(%r\d+), %ctaid\.x;)", r"\1\n\tadd.s32 \2, \2, 1;"),  # no first tile
    (r"(add\.s32\s+%r\d+, %r\d+, )3;(\s+setp\.lt\.s32\s+%p\d+, %r\d+, )(%r\d+);",
     r"\g<1>3;\g<2>5;"),  # five tiles
    (r"(div\.s32\s+%r\d+, %r\d+, )%r\d+;", r"\g<1>3;"),  # three tiles a row
    (r"(shl\.b32\s+%r\d+, %r\d+, )5;", r"\g<1>6;"),  # tiles further apart
])
def test_what_tiles_are_visited_shows(pattern: str, by: str) -> None:
    assert _walked(_changed(pattern, by)).digest != _walked(_text(SMALL)).digest


def _strided(stride: int = 2, start: int = 0, value: str = "%r11", bound: str = "%r1",
             address: str = "%r11", step: str = "setp.lt.s32") -> str:
    """out[64 * t + tid] = a[64 * v + tid] for the tiles t = block, block + stride, ... < n."""
    return text(f"""
    add.s32 %r11, %r3, {start};
    setp.ge.s32 %p2, %r11, {bound};
    @%p2 bra $done;
    mov.u32 %r12, 0;
$loop:
    shl.b32 %r13, {value}, 6;
    add.s32 %r13, %r13, %r2;
    mul.wide.s32 %rd10, %r13, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    shl.b32 %r14, {address}, 6;
    add.s32 %r14, %r14, %r2;
    mul.wide.s32 %rd10, %r14, 4;
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f1;
    add.s32 %r11, %r11, {stride};
    add.s32 %r12, %r12, 1;
    {step} %p3, %r11, {bound};
    @%p3 bra $loop;
$done:""")


def test_strides_drop_out() -> None:
    assert equal(_strided(), _strided(3))
    assert equal(_strided(), text("""
    setp.ge.s32 %p2, %r3, %r1;
    @%p2 bra $done;
    shl.b32 %r13, %r3, 6;
    add.s32 %r13, %r13, %r2;
    mul.wide.s32 %rd10, %r13, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f1;
$done:"""))


@pytest.mark.parametrize("twin", [
    _strided(start=1),
    _strided(value="%r12"),  # the counter alone
    _strided(value="%r3"),  # the block alone: all its tiles hold the same
    _strided(address="%r3"),  # the block alone: its last tile wins
    _strided(bound="5"),
    _strided(step="setp.le.s32"),
    _strided(3, value="%r12"),
])
def test_what_depends_on_more_than_the_tile_stays(twin: str) -> None:
    assert walked(_strided()).modelled
    assert not same(walked(_strided()), walked(twin))[0]
