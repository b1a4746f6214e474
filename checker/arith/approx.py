"""Approximate functions (`fapprox`): bit-accurate where their unit was measured.

In: `Approx` and bit patterns. Out: bit patterns, and `accurate_mask`, which says where they are the
hardware's. The assembler builds each function from one step of the special function unit and exact
scalings (disassembly of ptxas 12.8 to 13.0 for sm_90); `mufu` has the steps. Everything else is the
correctly rounded function: a plausible value that must not be a witness.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith import floats, mufu
from checker.arith.formats import FORMATS, Bits, UnsupportedArithmetic, bits_dtype, decode, round_to
from checker.arith.tables import half_table
from checker.core import Approx, FloatMode

__all__ = ["accurate_mask", "approximate"]

_KEEP = FloatMode("f32")
_FLUSH = FloatMode("f32", denorm="flush")
_TINY = np.uint32(0x00800000)  # 2**-126
_HUGE = np.uint32(0x7E800000)  # 2**126


def approximate(attr: Approx, *bits: Bits) -> Bits:
    """Return the bits of an approximate function."""
    fmt = FORMATS[attr.mode.type]
    args = tuple(np.asarray(b).astype(bits_dtype(fmt.width), copy=False) for b in bits)
    model = _model(attr)
    if model is not None and attr.mode.type != "f32":
        return floats.finish(fmt, _tail(attr.mode), model(*args))
    if model is not None:
        return floats.finish(fmt, _tail(attr.mode), model(attr.mode.denorm != "keep", *args))
    return _nearest(attr, *args)


def accurate_mask(attr: Approx, *bits: Bits) -> bool | NDArray[np.bool_]:
    """Return where `approximate` has the hardware's bits: a bool, or a mask over the operands.

    Every function measured so far is known for all inputs.
    """
    return _model(attr) is not None


def _tail(mode: FloatMode) -> FloatMode:
    """What follows the function: only `.sat`; flushing is part of the model."""
    return FloatMode(mode.type, saturate=mode.saturate, relu=mode.relu)


def _model(attr: Approx) -> Callable[..., Bits] | None:
    if not re.fullmatch(r"sm_90a?", attr.unit):
        return None
    fn = attr.fn.removesuffix(".f32").removesuffix(".ftz")
    if attr.mode.type == "f32":
        return _SM90.get(fn)
    name = f"{fn.removesuffix('.approx')}_{attr.mode.type}"
    return (lambda x: half_table(name)[x]) if name in _SM90_HALF else None


# --- sm_90: what the assembler puts around the unit -------------------------------------------


def _mul(x: Bits, factor: float, flush: bool = False) -> Bits:
    other = np.broadcast_to(np.float32(factor).view(np.uint32), x.shape)
    return floats.arithmetic("fmul", _FLUSH if flush else _KEEP, x, other)


def _mag(x: Bits) -> Bits:
    out: Bits = x & np.uint32(0x7FFFFFFF)
    return out


def _scaled(unit: Callable[[Bits], Bits], after: float) -> Callable[..., Bits]:
    """Subnormal arguments are multiplied by 2**24 first, the result by `after`."""
    def run(flush: bool, x: Bits) -> Bits:
        if flush:
            return unit(x)
        tiny = _mag(x) < _TINY
        out = unit(np.where(tiny, _mul(x, 2.0**24), x))
        return np.where(tiny, _mul(out, after), out) if tiny.any() else out
    return run


def _ex2(flush: bool, x: Bits) -> Bits:
    """Below -126 the result is the square of 2**(x/2)."""
    if flush:
        return mufu.ex2(x)
    low = x.view(np.float32) < np.float32(-126)
    out = mufu.ex2(np.where(low, _mul(x, 0.5), x))
    return np.where(low, floats.arithmetic("fmul", _KEEP, out, out), out) if low.any() else out


def _lg2(flush: bool, x: Bits) -> Bits:
    """Subnormal arguments: log2(x * 2**24) - 24."""
    if flush:
        return mufu.lg2(x)
    tiny = _mag(x) < _TINY
    out = mufu.lg2(np.where(tiny, _mul(x, 2.0**24), x))
    if not tiny.any():
        return out
    back = np.full(1, np.float32(-24).view(np.uint32))
    return np.where(tiny, floats.arithmetic("fadd", _KEEP, out, back), out)


def _turns(unit: Callable[[Bits], Bits]) -> Callable[..., Bits]:
    """sin and cos take turns: x times 0.15915494 (0x3e22f983), rounded toward zero."""
    def run(_: bool, x: Bits) -> Bits:
        factor = np.full(1, 0x3E22F983, np.uint32)
        return unit(floats.arithmetic("fmul", FloatMode("f32", "rz"), x, factor))
    return run


def _rcp(flush: bool, x: Bits) -> Bits:
    if flush:
        return mufu.rcp(x)
    return floats.arithmetic("fmul", _KEEP, *_rcp_factors(x))


def _rcp_fma(flush: bool, x: Bits, c: Bits) -> Bits:
    """`rcp.approx` whose last multiply is fused with a sum (no `.ftz`: there is no multiply)."""
    if flush:
        raise UnsupportedArithmetic("rcp.approx.ftz ends in no multiply")
    return floats.arithmetic("ffma", _KEEP, *_rcp_factors(x), c)


def _rcp_factors(x: Bits) -> tuple[Bits, Bits]:
    """The reciprocal of the scaled argument, and the scale."""
    scale = np.where(_mag(x) < _TINY, np.float32(2.0**24), np.float32(1))
    scale = np.where((_mag(x) > _HUGE) & ~np.isnan(x.view(np.float32)), np.float32(0.25), scale)
    factor = scale.view(np.uint32)
    return mufu.rcp(floats.arithmetic("fmul", _KEEP, x, factor)), factor


def _div(full: bool, fused: bool = False) -> Callable[..., Bits]:
    """a * rcp(b), both scaled by 1/4 for |b| > 2**126 (full only), by 2**24 for subnormal b.

    fused: the last multiply and a sum with a third operand are one fma.
    """
    def run(flush: bool, a: Bits, b: Bits, *addend: Bits) -> Bits:
        a, b = np.broadcast_arrays(a, b)
        if full:
            huge = (_mag(b) > _HUGE) & ~np.isnan(b.view(np.float32))
            a, b = np.where(huge, _mul(a, 0.25, flush), a), np.where(huge, _mul(b, 0.25, flush), b)
        if not flush:
            tiny = _mag(b) < _TINY
            a, b = np.where(tiny, _mul(a, 2.0**24), a), np.where(tiny, _mul(b, 2.0**24), b)
        name = "ffma" if fused else "fmul"
        return floats.arithmetic(name, _FLUSH if flush else _KEEP, mufu.rcp(b), a, *addend)
    return run


_SM90: dict[str, Callable[..., Bits]] = {
    "ex2.approx": _ex2,
    "rcp.approx": _rcp,
    "sqrt.approx": _scaled(mufu.sqrt, 2.0**-12),
    "rsqrt.approx": _scaled(mufu.rsqrt, 2.0**12),
    "div.full": _div(full=True),
    "div.approx": _div(full=False),
    "divfma.full": _div(full=True, fused=True),
    "divfma.approx": _div(full=False, fused=True),
    "rcpfma.approx": _rcp_fma,
    "lg2.approx": _lg2,
    "sin.approx": _turns(mufu.sin),
    "cos.approx": _turns(mufu.cos),
    "tanh.approx": lambda _, x: mufu.tanh(x),
}
_SM90_HALF = frozenset({"ex2_f16", "ex2_bf16", "tanh_f16", "tanh_bf16"})


# --- elsewhere: the function itself, correctly rounded (nearly) -------------------------------


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ex2": np.exp2, "lg2": np.log2, "rcp": lambda x: 1.0 / x, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "div": lambda x, y: x / y, "divfma": lambda x, y, c: x / y + c,
    "rcpfma": lambda x, c: 1.0 / x + c,
    "v_exp": np.exp2, "v_log": np.log2, "v_rcp": lambda x: 1.0 / x, "v_sqrt": np.sqrt,
    "v_rsq": lambda x: 1.0 / np.sqrt(x), "v_sin": lambda x: np.sin(2 * np.pi * x),
    "v_cos": lambda x: np.cos(2 * np.pi * x), "v_tanh": np.tanh,
}


def _nearest(attr: Approx, *bits: Bits) -> Bits:
    name = re.match(r"v_[a-z]+|[a-z0-9]+", attr.fn)
    function = _FUNCTIONS.get(name[0]) if name else None
    if function is None:
        raise UnsupportedArithmetic(f"no value for {attr.fn}")
    fmt = FORMATS[attr.mode.type]
    return floats.finish(fmt, attr.mode, round_to(fmt, function(*(decode(fmt, b) for b in bits)),
                                                  "rn"))
