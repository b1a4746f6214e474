"""Exhaustive sweeps, too slow for the test run (an hour on one core):

    python -m tests.arith.sweep            every f16 pair through add, mul, div; every f32 to f16
    python -m tests.arith.sweep add        one of them: add mul div narrow integers

The reference is the machine's own IEEE arithmetic through numpy. The card's functions are swept by
`python -m tests.arith.device.measure OUT sweep:ex2,lg2,sin_,...` where there is one.
"""

from __future__ import annotations

import sys

import numpy as np

from checker.arith.ops import apply
from checker.core import Conv, FloatMode

ALL = np.arange(1 << 16, dtype=np.uint16)
PAIRS = {"add": ("fadd", np.add), "mul": ("fmul", np.multiply), "div": ("fdiv", np.divide)}


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, or both NaN."""
    ok = (got.view(want.dtype) == want) | (np.isnan(got.view(want.dtype)) & np.isnan(want))
    sign = np.signbit(got.view(want.dtype)) == np.signbit(want)
    assert (ok & (sign | np.isnan(want))).all()


def pairs(name: str) -> None:
    """All 2**32 pairs of f16 patterns, in f32 and rounded once more (innocuous for f16)."""
    op, function = PAIRS[name]
    wide = ALL.view(np.float16).astype(np.float32)
    for start in range(0, 1 << 16, 64):
        some = slice(start, start + 64)
        with np.errstate(all="ignore"):
            want = function(wide[some, None], wide[None, :]).astype(np.float16)
        same(apply(op, FloatMode("f16"), ALL[some, None], ALL[None, :]), want)
        progress(name, start / (1 << 16))


def narrow() -> None:
    """All f32 patterns to f16 and to bf16 (by adding half a unit)."""
    for start in range(0, 1 << 32, 1 << 22):
        bits = np.arange(start, start + (1 << 22), dtype=np.uint64).astype(np.uint32)
        with np.errstate(all="ignore"):
            want = bits.view(np.float32).astype(np.float16)
        same(apply("fcvt", Conv("f32", "f16", "rn"), bits), want)
        direct = apply("fcvt", Conv("f32", "bf16", "rn"), bits)
        general = apply("fcvt", Conv("f64", "bf16", "rn"), apply("fcvt", Conv("f32", "f64"), bits))
        assert (direct == general).all()
        progress("narrow", start / (1 << 32))


def integers() -> None:
    """All f32 patterns to s32 and u32 toward zero; all s32 to f32."""
    for start in range(0, 1 << 32, 1 << 22):
        bits = np.arange(start, start + (1 << 22), dtype=np.uint64).astype(np.uint32)
        value = np.nan_to_num(bits.view(np.float32).astype(np.float64), nan=0.0)
        for kind, low, high in (("s32", -(2.0**31), 2.0**31 - 1), ("u32", 0.0, 2.0**32 - 1)):
            want = np.trunc(np.clip(value, low, high)).astype(np.int64).astype(np.uint32)
            assert (apply("fcvt", Conv("f32", kind, "rzi"), bits) == want).all()
        single = bits.view(np.int32).astype(np.float32)
        same(apply("fcvt", Conv("s32", "f32", "rn"), bits), single)
        progress("integers", start / (1 << 32))


def progress(name: str, part: float) -> None:
    print(f"\r{name} {100 * part:5.1f} %", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    for what in sys.argv[1:] or [*PAIRS, "narrow", "integers"]:
        if what in PAIRS:
            pairs(what)
        else:
            {"narrow": narrow, "integers": integers}[what]()
        print(f"\r{what}: no difference")
