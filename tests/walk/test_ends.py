"""A pipelined loop whose last step is waited for behind it, somewhere in a ring.

Triton's gemm_tma_store for sm_100, out of `corpus/data/partition`: tiles in two or three stages,
each with an mbarrier, and others for the steps on tensor memory; the first step stands before the
loop, the wait for the last one behind it. Which mbarrier that is the number of iterations decides.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from checker.api import walk_kernel
from checker.tree import WalkResult
from checker.tree.nodes import Forest
from checker.tree.poly import Poly, constant
from checker.tree.values import Values
from checker.walk.shared import Shared
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
    ("complete, [%r263], %r264;", "complete, [%r257], %r256;"),  # for the step before
    ("xor.b32 \t%r261, %r264, %r55;", "mov.b32 \t%r261, %r264;"),  # always for the same phase
    ("add.s32 \t%r52, %r262, 64;", "add.s32 \t%r52, %r262, 96;"),
    ("shl.b32 \t%r42, %r259, 12;", "mov.b32 \t%r42, 0;"),
    ("setp.lt.s32 \t%p39, %r262, %r5;", "setp.lt.s32 \t%p39, %r262, %r6;"),  # a step too few
    ("setp.gt.s32 \t%p21, %r7, 32;", "setp.gt.s32 \t%p21, %r7, 64;"),
    ("st.shared.v4.b32 \t[%r254], {%r219, %r222, %r225, %r228};", ""),  # what the ring held
    ("%rd9, %rd12, 4611756662066249856;", "%rd9, %rd12, 4611756662066249728;"),  # the first step
])
def test_what_a_ring_s_end_hangs_on(old: str, new: str) -> None:
    other = _walked(TWO, old, new)
    assert not (other.modelled and other.digest == _walked(TWO).digest)


# --- where paths meet again ---------------------------------------------------------------------


LANES, EVERY = np.arange(64), np.ones(64, dtype=bool)


def _shared(value: int, turns: int, found: list[str]) -> Shared:
    """Two rows of words, one of sevens and one of `value`, after some barriers."""
    made = Shared(Values(Forest(64)), 32, lambda _code, message: found.append(message))
    made.store(4 * LANES, constant(32, 7), EVERY)
    made.store(256 + 4 * LANES, constant(32, value), EVERY)
    for _ in range(turns):
        made.barrier(False)
    return made


def _alike(a: object, b: object) -> bool:
    return isinstance(a, Poly) and isinstance(b, Poly) and a.same(b)


def test_bytes_in_which_paths_differ_are_unknown_where_they_meet() -> None:
    met = _shared(1, 1, []).met(_shared(2, 4, []), _alike)
    assert met is not None
    assert met.known(4 * LANES, 32, EVERY)
    assert not met.known(256 + 4 * LANES, 32, EVERY)
    same = _shared(1, 1, []).met(_shared(1, 4, []), _alike)
    assert same is not None
    assert same.known(256 + 4 * LANES, 32, EVERY)


@pytest.mark.parametrize("late", [0, 1])
def test_a_write_that_no_barrier_orders_keeps_paths_apart(late: int) -> None:
    states = [_shared(1, 1, []), _shared(1, 2, [])]
    states[late].store(512 + 4 * LANES, constant(32, 3), EVERY)
    assert states[0].met(states[1], _alike) is None


@pytest.mark.parametrize("late", [(), (0,), (1,), (0, 1)])
def test_a_read_on_one_path_may_run_late_where_they_meet(late: tuple[int, ...]) -> None:
    found: list[str] = []
    states = [_shared(1, 1, found), _shared(1, 2, found)]
    for i in late:
        states[i].load(4 * ((LANES + 32 * i + 1) % 64), 32, EVERY)
    assert not found
    met = states[0].met(states[1], _alike)
    assert met is not None
    met.store(4 * LANES, constant(32, 3), EVERY)
    assert bool(found) is bool(late)
