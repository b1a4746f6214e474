"""Domains: what float operations do to values. `trees` hashes, `bytes` computes.

In: core float operations over `V` values. Out: `V`. Both domains share everything else of the
machine; a domain folds operations on known bits and decides what to do with the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from checker.core import Approx, Compare, Conv, FloatMode
from checker.replay import identities as ids
from checker.replay.facts import (
    CONC,
    MNZ,
    NOSUB,
    POISON,
    Mask,
    facts_where,
    known_lanes,
    memo,
    settled,
)
from checker.replay.folding import fold_bits, fold_lanes
from checker.replay.scales import Scales
from checker.replay.values import Conc, Hash, V, bits_of, const, hash_of

__all__ = ["Domain", "Trees", "operand_widths"]


class Domain:
    """What the machine asks of a float domain."""

    name = "abstract"

    def __init__(self) -> None:
        self.inaccurate: set[str] = set()  # functions that were computed, not bit for bit

    def leaf_bits(self) -> bool:
        """Whether input elements are known bits."""
        return False

    def float_op(self, name: str, attr: Any, values: list[V], mask: Mask | None, width: int) -> V:
        """The result of a float operation, conversion or comparison."""
        raise NotImplementedError


class Trees(Domain):
    """Values are hashes of canonical dependence trees."""

    name = "trees"

    def __init__(self, scales: Scales | None = None) -> None:
        super().__init__()
        self.scales = scales

    def float_op(self, name: str, attr: Any, values: list[V], mask: Mask | None, width: int) -> V:
        """Fold where everything is known, else hash with the identities."""
        bits = [bits_of(v, mask) for v in values]
        if all(b is not None for b in bits):
            out = fold_bits(name, attr, [b for b in bits if b is not None])
            if out is not None:
                return Conc(out if width > 1 else out.astype(bool), width)
        operands = [(h, settled(f)) for h, f in map(hash_of, values)]
        known = _all_known(operands)
        folded = None if known is False or name == "fcvt" else fold_lanes(
            name, attr, operands, known)
        if folded is not None:
            operands = _unfolded(operands, known)
        if self.scales is not None and name in ("fmul", "ffma"):
            product = self.scales.multiply if name == "fmul" else self.scales.fma
            h, f = product(attr, *operands)
        else:
            h, f = _hash_op(name, attr, operands)
        if folded is not None:
            h = np.where(known, folded[0], h)
            f = facts_where(known, CONC, f)
        # many questions about facts are answered at once where they are uniform
        return Hash(h, settled(f), width)


def _all_known(operands: list[ids.HF]) -> Any:
    """Lanes where the bits of every operand are known: False or a mask."""
    known: Any = True
    for one in map(known_lanes, operands):
        if one is False:
            return False
        known = one if known is True else known if one is True else known & one
    return known if np.any(known) else False


def _unfolded(operands: list[ids.HF], known: Any) -> list[ids.HF]:
    """Operands of the lanes that are not folded; the others repeat one of those.

    Their facts are often uniform then: lanes behind the end of a row hold zeros everywhere.
    """
    if np.all(known):
        return operands
    row, lane = np.unravel_index(int(np.argmin(known)), known.shape)

    def one(x: ids.HF) -> ids.HF:
        h, f = x
        if isinstance(f, int) and h.shape[1:] == (1, 1):
            return x
        there = h[:, row % h.shape[1], lane % h.shape[2]].reshape(2, 1, 1)
        if not isinstance(f, int):
            f = settled(np.where(known, f[row % f.shape[0], lane % f.shape[1]], f))
        return np.where(known, there, h), f

    name = "unfolded " + known.tobytes().hex()
    return [memo(name, x, one) for x in operands]


def operand_widths(name: str, attr: Any) -> int:
    """Width in bits of a float operation's operands."""
    if isinstance(attr, Approx):
        return ids.FLOAT_BITS[attr.mode.type]
    return ids.FLOAT_BITS[attr.type]


def _hash_op(name: str, attr: Any, x: list[ids.HF]) -> ids.HF:
    """One operation over hashes."""
    if isinstance(attr, Conv | FloatMode) and attr.saturate:
        kind = attr.dst if isinstance(attr, Conv) else attr.type
        if kind in ids.FLOAT_BITS:
            whole = _hash_op(name, replace(attr, saturate=False), x)
            zero = hash_of(const(0, ids.FLOAT_BITS[kind]))
            low = ids.minmax("fmax", FloatMode(kind), whole, zero)
            return ids.minmax("fmin", FloatMode(kind), low, hash_of(ids.one(kind)))
    if name == "fcvt":
        return ids.convert(attr, x[0])
    if name == "fcmp":
        return ids.compare(attr, x[0], x[1], integer=False)
    if name == "fclass":
        return ids.generic(f"fclass {attr[0]} {attr[1]}", x, 0)
    if isinstance(attr, Approx):
        return ids.approximate(attr, x)
    assert isinstance(attr, FloatMode)
    width = ids.FLOAT_BITS[attr.type]
    if name == "fadd":
        return ids.add(attr, x[0], x[1])
    if name == "fsub":
        return ids.add(attr, x[0], ids.negate(x[1], width))
    if name == "fmul":
        return ids.multiply(attr, x[0], x[1])
    if name == "ffma":
        return ids.fma(attr, x[0], x[1], x[2])
    if name in ("fmin", "fmax"):
        return ids.minmax(name, attr, x[0], x[1])
    if name in ("fmin3", "fmax3"):
        return ids.minmax(name[:-1], attr, ids.minmax(name[:-1], attr, x[0], x[1]), x[2])
    if name in ("fneg", "fabs"):
        if attr.denorm not in ("keep",) and not ids.never_subnormal(x[0], width):
            return ids.generic(f"{name} {ids.mode_key(attr)}", x, MNZ | NOSUB)
        return ids.negate(x[0], width) if name == "fneg" else ids.magnitude(x[0], width)
    if name == "fcopysign":
        return ids.copysign(x[0], x[1], width)
    if name == "fdiv":
        return ids.divide(attr, x[0], x[1])
    if name == "frcp":
        one = hash_of(ids.one(attr.type))
        return ids.divide(attr, one, x[0])
    return ids.generic(f"{name} {ids.mode_key(attr)}", x)


def poison_of(v: V) -> Any:
    """The poison facts of a value."""
    return hash_of(v)[1] & POISON


def compare_ints(cmp: Compare, a: V, b: V) -> V:
    """Integer comparison of values that are not known everywhere."""
    h, f = ids.compare(cmp, hash_of(a), hash_of(b), integer=True)
    return Hash(h, f, 1)
