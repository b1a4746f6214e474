"""A pipelined loop whose last step is waited for behind it, somewhere in a ring.

Triton's gemm_tma_store for sm_100, out of `corpus/data/partition`: tiles in two or three stages,
each with an mbarrier, and others for the steps on tensor memory; the first step stands before the
loop, the wait for the last one behind it. Which mbarrier that is the number of iterations decides.
"""

from __future__ import annotations

from functools import cache

import pytest

from checker.api import walk_kernel
from checker.tree import WalkResult
from corpus.bench.classes import PARTITION, read_parts

TWO = "gemm_tma_store-BK32_BM64_BN128_s2_w4"
THREE = "gemm_tma_store-BK32_BM64_BN128_s3_w4"


@cache
def _texts() -> dict[str, str]:
    return {line["name"]: line["asm"] for line in read_parts("texts", PARTITION)
            if line["target"] == "sm_100" and line["name"] in (TWO, THREE)}


@cache
def _walked(name: str, old: str = "", new: str = "") -> WalkResult:
    text = _texts()[name]
    if old:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return walk_kernel(text, None, None, name, ())


@pytest.mark.parametrize("name", [TWO, THREE])
def test_rings_of_every_length_are_one_sum(name: str) -> None:
    result = _walked(name)
    assert result.modelled, (result.gave_up, result.findings)
    assert result.digest == _walked(TWO).digest


@pytest.mark.parametrize(("old", "new"), [
    ("try_wait.parity.shared::cta.b64 complete, [%r284], %r285;",
     "try_wait.parity.shared::cta.b64 complete, [%r278], %r277;"),  # for the step before the last
    ("xor.b32 \t%r282, %r285, %r71;", "mov.b32 \t%r282, %r285;"),  # always for the same phase
    ("add.s32 \t%r68, %r283, 64;", "add.s32 \t%r68, %r283, 96;"),
    ("shl.b32 \t%r54, %r280, 12;", "mov.b32 \t%r54, 0;"),
    ("setp.lt.s32 \t%p49, %r283, %r6;", "setp.lt.s32 \t%p49, %r283, %r7;"),  # a step too few
    ("setp.gt.s32 \t%p31, %r8, 32;", "setp.gt.s32 \t%p31, %r8, 64;"),
    ("st.shared.v4.b32 \t[%r274], {%r239, %r242, %r245, %r248};", ""),  # what the ring held
    ("add.s32 \t%r39, %r34, 16777344;", "add.s32 \t%r39, %r34, 16777216;"),  # in the first step
])
def test_what_a_ring_s_end_hangs_on(old: str, new: str) -> None:
    other = _walked(TWO, old, new)
    assert not (other.modelled and other.digest == _walked(TWO).digest)
