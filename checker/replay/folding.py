"""Constant folding: operations on known bits through bit-exact arithmetic, where there is one.

In: operation, attribute, bit arrays. Out: result bits, or None where no exact arithmetic is known
(then the operation stays a hash of its constants).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.core import Conv
from checker.replay.facts import CONC, HF, consts_of
from checker.replay.hashing import const_hash

try:
    from checker.arith import ops as _arith
except ImportError:  # the arithmetic package is optional here: without it nothing is folded
    _arith = None  # type: ignore[assignment]

__all__ = ["fold_bits", "fold_lanes", "fold_scalar"]

_NUMPY = {"f16": (np.float16, np.uint16), "f32": (np.float32, np.uint32),
          "f64": (np.float64, np.uint64)}


def fold_bits(name: str, attr: Any, bits: list[NDArray[Any]]) -> NDArray[Any] | None:
    """Result bits (uint64, or bool for predicates) of an operation on known bits."""
    if name == "fcvt":
        widened = _widen(attr, bits[0])
        if widened is not None:
            return widened
    if _arith is None:
        return None
    shape = np.broadcast_shapes(*(b.shape for b in bits)) if bits else (1, 1)
    args = [np.broadcast_to(b.astype(np.uint64), shape) for b in bits]
    try:
        if name == "fapprox" and not np.all(_arith.accurate(name, attr, *args)):
            return None
        out = np.asarray(_arith.apply(name, attr, *args))
    except _arith.UnsupportedArithmetic:
        return None
    return out if out.dtype == np.bool_ else out.astype(np.uint64)


def _widen(conv: Conv, bits: NDArray[Any]) -> NDArray[Any] | None:
    """Exact widenings by numpy itself."""
    if conv.denorm != "keep" or conv.saturate or conv.relu:
        return None
    if conv.src == "bf16" and conv.dst == "f32":
        return bits.astype(np.uint64) << np.uint64(16)
    if (conv.src, conv.dst) not in (("f16", "f32"), ("f16", "f64"), ("f32", "f64")):
        return None
    (src, src_bits), (dst, dst_bits) = _NUMPY[conv.src], _NUMPY[conv.dst]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = bits.astype(src_bits).view(src).astype(dst)
    return np.asarray(wide.view(dst_bits).astype(np.uint64))


_SCALARS: dict[tuple[Any, ...], int | None] = {}


def fold_scalar(name: str, attr: Any, bits: tuple[int, ...]) -> int | None:
    """One result from one tuple of known operands, remembered."""
    known = (name, attr, bits)
    if known not in _SCALARS:
        if len(_SCALARS) > 4096:
            _SCALARS.clear()
        out = fold_bits(name, attr, [np.array([b], dtype=np.uint64) for b in bits])
        _SCALARS[known] = None if out is None else int(out[0])
    return _SCALARS[known]


def fold_lanes(name: str, attr: Any, operands: list[HF], lanes: Any) -> HF | None:
    """Fold in the lanes where every operand is known; other lanes of the answer are arbitrary."""
    sets = [consts_of(x) for x in operands]
    if all(s is not None and len(s) == 1 for s in sets):
        bits = fold_scalar(name, attr, tuple(s[0] for s in sets if s is not None))
        if bits is None:
            return None
        return const_hash(np.array([[bits]], dtype=np.uint64)), CONC
    words = [np.asarray(h[1]) for h, _ in operands]
    shape = np.broadcast_shapes(*(w.shape for w in words), np.shape(lanes))
    where = np.broadcast_to(np.asarray(lanes), shape)
    out = fold_bits(name, attr, [np.broadcast_to(w, shape)[where] for w in words])
    if out is None:
        return None
    full = np.zeros(shape, dtype=np.uint64)
    full[where] = out
    return const_hash(full), CONC
