"""Conversions between float formats: exact widenings are constructors that can be undone.

In: a conversion and (hash, facts). Out: (hash, facts); known lanes are folded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from checker.core import Conv
from checker.replay.facts import (
    HF,
    KEPT,
    MNZ,
    NONNEG,
    NOSUB,
    NULL,
    POISON,
    Facts,
    has_forms,
    known_lanes,
    pop_forms,
    push_form,
)
from checker.replay.folding import fold_lanes
from checker.replay.hashing import combine, key
from checker.replay.operands import FLOAT_BITS, choose, poison

__all__ = ["CONTAINS", "EXACT_PRODUCT", "WHOLE", "convert", "widen"]

CONTAINS: Mapping[str, tuple[str, ...]] = {
    "f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",),
    "e4m3": ("f16", "bf16", "f32", "f64"), "e5m2": ("f16", "bf16", "f32", "f64"),
    "e2m1": ("f16", "bf16", "f32", "e4m3", "e5m2"),
}
INTEGRAL = frozenset({"rni", "rzi", "rmi", "rpi"})
WHOLE = "whole number"  # a form of values that are integers, infinite or NaN
EXACT_PRODUCT = {"f16", "e4m3", "e5m2"}  # products of two are exact and normal or zero in f32


def convert(conv: Conv, x: HF) -> HF:
    """Conversion; exact widenings can be undone; known lanes are folded where possible."""
    h = x[0]
    if conv.src == conv.dst and conv.rnd in ("", "rn", "rz") and not (
            conv.saturate or conv.relu or conv.denorm != "keep"):
        return x
    h_out, f_out = _convert_hash(conv, x)
    out: HF = h_out, f_out
    if conv.dst == "tf32" and conv.src == "f32" and not (
            conv.saturate or conv.relu or conv.satfinite):  # which makes numbers of infinities
        for outer, lanes, _inner in pop_forms(x, "wide "):
            if outer in ("wide f16 f32", "wide bf16 f32"):
                out = choose(lanes, x, out)
    known = known_lanes(x)
    if known is False or not np.any(known):
        return out
    folded = fold_lanes("fcvt", conv, [x], known)
    if folded is None:
        plain = combine(key("fcvt " + _conv_key(conv)), h)
        return choose(known, (plain, MNZ), out)
    return choose(known, folded, out)


def _conv_key(conv: Conv) -> str:
    return (f"{conv.src} {conv.dst} {conv.rnd} {conv.denorm} {int(conv.saturate)}"
            f"{int(conv.satfinite)}{int(conv.relu)}{int(conv.nan_zero)}")


def _convert_hash(conv: Conv, x: HF) -> HF:
    h, f = x
    plain = not (conv.saturate or conv.relu)
    if conv.dst in CONTAINS.get(conv.src, ()) and plain and _no_flush(conv):
        if conv.satfinite and conv.src != "e4m3":
            return combine(key("fcvt " + _conv_key(conv)), h), poison(f) | MNZ
        return widen(conv.src, conv.dst, x)
    number = conv.src[0] in "us" and conv.src[1:].isdigit()
    out: HF = (combine(key("fcvt " + _conv_key(conv)), h),
               poison(f) | (0 if number else _kept(conv, f)))
    if plain and conv.dst in ("f32", "f64") and (
            number or (conv.src == conv.dst and conv.rnd in INTEGRAL)):
        return push_form((out[0], 0), WHOLE, out[1])
    if not plain or conv.denorm != "keep" or not has_forms(f):
        return out
    for outer, lanes, inner in pop_forms(x, "wide "):
        src, dst = outer.split()[1:]
        if dst != conv.src or (conv.satfinite and src != "e4m3"):
            continue
        if conv.dst == src:
            out = choose(lanes, inner, out)
        elif conv.dst in CONTAINS.get(src, ()):
            out = choose(lanes, widen(src, conv.dst, inner), out)
    return out


def _kept(conv: Conv, f: Facts) -> Facts:
    """MNZ, or what a rounding to another float format leaves true of an operand."""
    if conv.dst not in FLOAT_BITS or conv.saturate or conv.relu or conv.nan_zero:
        return MNZ
    kept = f & (NONNEG | NULL)
    return kept | (MNZ ^ ((kept & NONNEG) >> 5))


def _no_flush(conv: Conv) -> bool:
    """Whether flushing cannot matter: f16 and fp8 are never subnormal in f32."""
    return conv.denorm == "keep" or (conv.denorm != "flush_in" and conv.src in EXACT_PRODUCT
                                     and conv.dst == "f32")


def widen(src: str, dst: str, x: HF) -> HF:
    """An exact widening; of a widening: one widening."""
    nosub = NOSUB if src in EXACT_PRODUCT and dst == "f32" else 0
    out = push_form(x, f"wide {src} {dst}", (x[1] & (POISON | MNZ | NONNEG | KEPT)) | nosub)
    for outer, lanes, inner in pop_forms(x, "wide "):
        narrow, middle = outer.split()[1:]
        if middle == src:
            out = choose(lanes, widen(narrow, dst, inner), out)
    return out
