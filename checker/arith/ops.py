"""One entry to the bits of every float operation of `core.OPS`.

In: an operation's name, its attribute, and bit patterns as unsigned arrays (any dtype wide enough;
broadcasting allowed). Out: bit patterns in the smallest unsigned dtype of the result's width, or
booleans for predicates. `UnsupportedArithmetic` where the bits are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith import floats
from checker.arith.approx import accurate_mask, approximate
from checker.arith.convert import convert
from checker.arith.formats import FORMATS, Bits, UnsupportedArithmetic, bits_dtype
from checker.core import OPS, FloatMode

__all__ = ["UnsupportedArithmetic", "accurate", "apply"]


_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "ffma", "fdiv", "frcp", "fsqrt"})
_EXTREMES = frozenset({"fmin", "fmax", "fmin3", "fmax3"})
_OTHERS: dict[str, Callable[..., Bits]] = {
    "fneg": floats.negate, "fabs": floats.absolute, "fcopysign": floats.copysign,
}
_TYPES = frozenset({"f16", "bf16", "f32", "f64"})


def apply(name: str, attr: Any, *bits: Bits) -> Bits:
    """Return the bits of operation `name` with attribute `attr` on `bits`."""
    arrays = tuple(np.asarray(b) for b in bits)
    if all(a.ndim == 0 for a in arrays):
        return apply(name, attr, *(a.reshape(1) for a in arrays)).reshape(())
    with np.errstate(all="ignore"):
        if name == "fcvt":
            return convert(attr, arrays[0])
        if name == "fcmp":
            return floats.compare(attr, *_patterns(attr.type, arrays))
        if name == "fclass":
            return floats.classify(attr[0], attr[1], *_patterns(attr[1], arrays))
        if name == "fapprox":
            return approximate(attr, *arrays)
        if name not in OPS or OPS[name].kind != "float":
            raise UnsupportedArithmetic(f"{name} is no float operation")
        return _float(name, attr, arrays)


def _float(name: str, mode: FloatMode, bits: tuple[Bits, ...]) -> Bits:
    if mode.type not in _TYPES:
        raise UnsupportedArithmetic(f"{name} on {mode.type}")
    if name == "fldexp":
        (value,) = _patterns(mode.type, bits[:1])
        return floats.ldexp(mode, value, np.asarray(bits[1]))
    patterns = _patterns(mode.type, bits)
    if name in _ARITHMETIC:
        return floats.arithmetic(name, mode, *patterns)
    if name in _EXTREMES:
        return floats.extreme(name, mode, *patterns)
    return _OTHERS[name](mode, *patterns)


def _patterns(kind: str, bits: tuple[Bits, ...]) -> tuple[Bits, ...]:
    dtype = bits_dtype(FORMATS[kind].width)
    return tuple(np.asarray(b).astype(dtype, copy=False) for b in bits)


def accurate(name: str, attr: Any, *bits: Bits) -> bool | NDArray[np.bool_]:
    """Return whether `apply` is bit-accurate: True, False, or a mask over the elements.

    Everything but `fapprox` is; approximate functions are where their unit was measured. Without
    operands the answer is about all inputs.
    """
    if name != "fapprox":
        return True
    return accurate_mask(attr, *bits)
