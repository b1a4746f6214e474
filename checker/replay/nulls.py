"""Values that are a zero or a NaN, and what adding them does: NaN where they are, nothing else.

In: (hash, facts) operands of a sum. Out: (hash, facts). With such a z, `(x + z) + z = x + z` and
`(x + z) + y = (x + y) + z`: what a masked element adds (0 * y, ex2(-inf - m)) floats to the top of
a sum and counts once. The ledger remembers what such a sum was made of, by its hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.replay.facts import (
    CONC,
    FORM_SHIFT,
    HF,
    MNZ,
    NONNEG,
    NOSUB,
    NULL,
    POISON,
    QUIET,
    Facts,
    form_id,
    form_name,
    forms_in,
    has_forms,
)
from checker.replay.hashing import U64, combine, key

__all__ = ["forget_nulls", "is_null", "open_null", "with_null"]

_WITH = "with null"
_MOST = 1 << 21  # sums remembered in one replay


class _Ledger:
    """Sums x + z by the first word of their hash: that of x, its facts, that of z."""

    def __init__(self) -> None:
        self.rows = np.zeros((7, 0), dtype=np.uint64)
        self.fresh: list[NDArray[np.uint64]] = []
        self.count = 0

    def record(self, h: U64, x: U64, f: Facts, z: U64, lanes: NDArray[np.bool_]) -> None:
        """Remember h = x + z in these lanes."""
        words = np.broadcast_arrays(h[0], h[1], x[0], x[1], np.asarray(f).astype(np.uint64), z[0],
                                    z[1], lanes)
        rows = np.stack([w[words[-1]] for w in words[:-1]])
        if self.count + rows.shape[1] <= _MOST:
            self.fresh.append(rows)
            self.count += rows.shape[1]

    def find(self, h: U64) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which of these hashes are known, and their rows."""
        if self.fresh:
            rows = np.concatenate([self.rows, *self.fresh], axis=1)
            _, first = np.unique(rows[0], return_index=True)
            self.rows, self.fresh = rows[:, first], []
        if not self.rows.shape[1]:
            return np.zeros(h.shape[1:], dtype=bool), np.zeros((7, *h.shape[1:]), dtype=np.uint64)
        at = np.minimum(np.searchsorted(self.rows[0], h[0]), self.rows.shape[1] - 1)
        found = self.rows[:, at]
        return (found[0] == h[0]) & (found[1] == h[1]), found


_LEDGER = _Ledger()


def forget_nulls() -> None:
    """Start a replay with nothing remembered, so that its answer depends on nothing else."""
    global _LEDGER
    _LEDGER = _Ledger()


def is_null(x: HF) -> Any:
    """Lanes that hold a zero or a NaN of unknown bits: False or a mask."""
    f = x[1]
    if isinstance(f, int):
        return np.ones((1, 1), dtype=bool) if f & NULL else False
    lanes = (f & NULL) != 0
    return lanes if lanes.any() else False


def with_null(x: HF, z: HF, lanes: NDArray[np.bool_]) -> HF:
    """x + z in a form that can be opened; only these lanes of the answer count."""
    (h, f), (zh, zf) = x, z
    out = combine(key(_WITH), h, zh)
    _LEDGER.record(out, h, f, zh, lanes)
    zero = (f | (f & CONC) << 1) & zf & MNZ  # both may be -0
    facts = f & (POISON | NOSUB | NONNEG) | zero | QUIET | zf & POISON
    return out, facts | form_id(_WITH) << FORM_SHIFT


def open_null(x: HF) -> tuple[NDArray[np.bool_], HF, U64] | None:
    """Lanes that are such a sum x + z, x there, and the hash of z."""
    h, f = x
    if not has_forms(f) or not any(form_name(n) == _WITH for n in forms_in(f)):
        return None
    marked = np.asarray(f >> FORM_SHIFT == form_id(_WITH))
    found, rows = _LEDGER.find(h)
    lanes = np.asarray(found & marked)
    if not lanes.any():
        return None
    return lanes, (rows[2:4], rows[4].astype(np.uint32)), rows[5:7]
