"""What docs/identities.md says of pairs that no identity proves, tried on every input."""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.arith.ops import apply
from checker.core import Approx, Conv, FloatMode
from checker.draws import canonical_nans

F32 = FloatMode("f32")
BF16 = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)


def _f32(value: float) -> Any:
    return np.full(1, np.float32(value).view(np.uint32))


def _same(one: Any, two: Any, dtype: str) -> Any:
    return canonical_nans(dtype, one) == canonical_nans(dtype, two)


def _silu(by_reciprocal: bool) -> Any:
    """x * sigmoid(x) of every bf16 x in f32, as Triton writes it for sm_90."""
    power = apply("fmul", F32, apply("fsub", F32, _f32(0), BF16), _f32(1.4426950408889634))
    power = apply("fapprox", Approx("ex2.approx", "sm_90a", F32), power)
    below, divide = apply("fadd", F32, power, _f32(1)), Approx("div.full", "sm_90a", F32)
    if by_reciprocal:
        one = np.broadcast_to(_f32(1), BF16.shape)
        return apply("fmul", F32, BF16, apply("fapprox", divide, one, below))
    return apply("fapprox", divide, BF16, below)


def test_two_ways_to_silu_differ_at_one_value_and_no_gate_shows_it() -> None:
    one, two = _silu(True), _silu(False)
    (at,) = np.flatnonzero(~_same(one, two, "f32"))
    assert BF16[at : at + 1].view(np.float32)[0] == np.float32(-88.5)
    gated = [apply("fcvt", Conv("f32", "bf16", "rn"),
                   apply("fmul", F32, np.full_like(BF16, value), BF16))
             for value in (one[at], two[at])]
    assert _same(*gated, "bf16").all()
