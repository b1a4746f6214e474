"""The exact division sequence of LLVM's AMDGPU back end, recognised as a whole.

In: the operands of `v_div_fixup`. Out: `fdiv` if every step of the sequence is there with the
right operands, round-to-nearest and denormals kept throughout; else None (kept as written).
Source: LLVM SITargetLowering::LowerFDIV32 / LowerFDIV64; CDNA3 ISA, V_DIV_FIXUP.
"""

from __future__ import annotations

from dataclasses import replace

from checker.core import Approx, Const, FloatMode, Source
from checker.gcn.emitter import Emitter

__all__ = ["exact_division"]

_ONE = {"f32": Const(0x3F800000, 32), "f64": Const(0x3FF0000000000000, 64)}
_BITS = {"f32": 32, "f64": 64}


def exact_division(e: Emitter, q: Source, d: Source, n: Source, mode: FloatMode) -> Source | None:
    """n / d, correctly rounded, if q is the quotient the sequence computes; else None."""
    if mode.type not in _ONE or not _ieee(mode) or mode.saturate:
        return None
    fmas = _approx(e, q, f"v_div_fmas_{mode.type}", mode)
    if fmas is None:
        return None
    error, y, q1, flag = fmas
    unit, w = e.defs[q][2].unit, _BITS[mode.type]  # type: ignore[index]
    scale = Approx(f"v_div_scale_{mode.type}", unit, mode)
    scaled_d = _approx_call(e, scale, w, (d, d, n))
    scaled_n = _approx_call(e, scale, w, (n, d, n))
    wanted = _approx_call(e, replace(scale, fn=scale.fn + ".flag"), 1, (n, d, n))
    if scaled_d is None or scaled_n is None or wanted is None or flag != wanted:
        return None
    steps = _f32_steps if mode.type == "f32" else _f64_steps
    if not steps(e, mode, error, y, q1, scaled_d, scaled_n):
        return None
    return e.pure("fdiv", _BITS[mode.type], (n, d), mode)


def _ieee(mode: FloatMode) -> bool:
    return mode.rnd == "rn" and mode.denorm == "keep"


def _approx(e: Emitter, value: Source, fn: str, mode: FloatMode) -> tuple[Source, ...] | None:
    found = e.definition(value)
    if found is None or found[0] != "fapprox" or found[2].fn != fn or found[2].mode != mode:
        return None
    return found[1]


def _approx_call(e: Emitter, attr: Approx, width: int, args: tuple[Source, ...]) -> Source | None:
    """The value of an earlier call with these arguments."""
    return e.memo.get(("fapprox", width, args, attr))


def _is_fma(e: Emitter, value: Source, mode: FloatMode, a: Source, b: Source, c: Source) -> bool:
    found = e.definition(value)
    return found is not None and found[0] == "ffma" and found[2] == mode and \
        set(found[1][:2]) == {a, b} and found[1][2] == c


def _is_mul(e: Emitter, value: Source, mode: FloatMode, a: Source, b: Source) -> bool:
    found = e.definition(value)
    return found is not None and found[0] == "fmul" and found[2] == mode and set(found[1]) == {a, b}


def _addend(e: Emitter, value: Source) -> Source | None:
    found = e.definition(value)
    return found[1][2] if found is not None and found[0] == "ffma" else None


def _negated(e: Emitter, value: Source, mode: FloatMode) -> Source:
    return e.fneg(value, mode.type, _BITS[mode.type])


def _newton(e: Emitter, mode: FloatMode, y: Source, minus_d: Source) -> Source | None:
    """y0 if y = fma(fma(-d, y0, 1), y0, y0)."""
    y0 = _addend(e, y)
    found = e.definition(y)
    if y0 is None or found is None:
        return None
    for error in found[1][:2]:
        if _is_fma(e, y, mode, error, y0, y0) and \
                _is_fma(e, error, mode, minus_d, y0, _ONE[mode.type]):
            return y0
    return None


def _is_rcp(e: Emitter, value: Source, d: Source, mode: FloatMode) -> bool:
    return _approx(e, value, f"v_rcp_{mode.type}", mode) == (d,)


def _f32_steps(e: Emitter, mode: FloatMode, error: Source, y: Source, q1: Source, d: Source,
               n: Source) -> bool:
    """y = one Newton step; q0 = n y; q1 = fma(n - d q0, y, q0); error = n - d q1."""
    minus_d = _negated(e, d, mode)
    y0 = _newton(e, mode, y, minus_d)
    q0 = _addend(e, q1)
    found = e.definition(q1)
    if y0 is None or q0 is None or found is None or not _is_rcp(e, y0, d, mode):
        return False
    if not _is_mul(e, q0, mode, n, y) or not _is_fma(e, error, mode, minus_d, q1, n):
        return False
    return any(_is_fma(e, q1, mode, r, y, q0) and _is_fma(e, r, mode, minus_d, q0, n)
               for r in found[1][:2])


def _f64_steps(e: Emitter, mode: FloatMode, error: Source, y: Source, q1: Source, d: Source,
               n: Source) -> bool:
    """y = two Newton steps; q1 = n y; error = n - d q1."""
    minus_d = _negated(e, d, mode)
    y1 = _newton(e, mode, y, minus_d)
    y0 = _newton(e, mode, y1, minus_d) if y1 is not None else None
    if y0 is None or not _is_rcp(e, y0, d, mode):
        return False
    return _is_mul(e, q1, mode, n, y) and _is_fma(e, error, mode, minus_d, q1, n)
