"""GEMM: tile shapes, warps, stages and blocks of k leave no trace; what counts does."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checker.api import program_of
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.walk.run import walk
from corpus.load import load_set


@cache
def _texts() -> dict[str, str]:
    return {k.name: k.text for k in load_set("sm_90") if k.name.startswith("gemm-BK")}


def _text(shape: str) -> str:
    return _texts()[f"gemm-{shape}-sm_90"]


@cache
def _walked(text: str) -> WalkResult:
    return walk(program_of(text))


SMALL = "BK16_BM16_BN32_GM4_PRECISIONtf32_TRANS0_s1_w1"


@pytest.mark.parametrize("other", [
    "BK16_BM16_BN64_GM4_PRECISIONtf32_TRANS0_s3_w4",  # tile, warps, stages
    "BK16_BM64_BN32_GM4_PRECISIONtf32_TRANS0_s1_w4",  # a warp group's instruction
    "BK64_BM16_BN64_GM4_PRECISIONtf32_TRANS0_s1_w4",  # four steps an iteration
])
def test_shapes_of_tiles_drop_out(other: str) -> None:
    one, two = _walked(_text(SMALL)), _walked(_text(other))
    assert one.modelled
    assert two.modelled
    assert same(one, two) == (True, ())


def _changed(text: str, pattern: str, by: str) -> str:
    out, count = re.subn(pattern, by, text, count=1)
    assert count == 1, pattern
    return out


@pytest.mark.parametrize(("pattern", "by"), [
    (r"(min\.s32\s+%r\d+, %r\d+, )4;", r"\g<1>3;"),  # the order of programs skips tiles
    (r"(add\.s32\s+%r\d+, %r\d+, )15;", r"\g<1>14;"),  # one row of tiles too few
    (r"(shl\.b32\s+%r\d+, %r\d+, )4;", r"\g<1>5;"),  # tiles of rows further apart
])
def test_what_counts_shows(pattern: str, by: str) -> None:
    assert _walked(_changed(_text(SMALL), pattern, by)).digest != _walked(_text(SMALL)).digest


WIDE = "BK64_BM16_BN64_GM4_PRECISIONtf32_TRANS0_s1_w4"


@pytest.mark.parametrize("which", [1, 2, 3, 4, 5])
def test_a_tail_that_is_not_masked_is_no_tail(which: int) -> None:
    """Steps beyond the bound drop out where both operands are zero there, nowhere else."""
    wide = _text(WIDE)
    size = re.search(r"ld\.param\.b32\s+(%r\d+), \[gemm_param_5\]", wide)
    assert size is not None
    bounds = list(re.finditer(rf"setp\.lt\.s32\s+%p\d+, %r\d+, ({size.group(1)});", wide))
    at = bounds[which - 1]
    unbounded = wide[:at.start(1)] + "1073741824" + wide[at.end(1):]
    found = _walked(unbounded)
    assert not found.modelled or found.digest != _walked(wide).digest
