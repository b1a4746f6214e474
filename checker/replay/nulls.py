"""Values that are a zero or a NaN, and what adding them does: NaN where they are, nothing else.

In: (hash, facts) operands of a sum. Out: (hash, facts). With such a z, `(x + z) + z = x + z` and
`(x + z) + y = (x + y) + z`: what a masked element adds (0 * y, ex2(-inf - m)) floats to the top of
a sum and counts once.
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
    form_id,
    form_name,
    forms_in,
    has_forms,
    seen,
)
from checker.replay.hashing import U64, combine, key
from checker.replay.ledger import Ledger
from checker.replay.suppose import supposed

__all__ = ["forget_nulls", "is_null", "open_null", "with_null"]

_WITH = "with null"
_SUMS = Ledger(5)  # of x + z: the hash of x, its facts, the hash of z


def is_null(x: HF) -> Any:
    """Lanes that hold a zero or a NaN of unknown bits: False or a mask."""
    f = x[1]
    return np.asarray((f & NULL) != 0).reshape(np.shape(f) or (1, 1)) if seen(f) & NULL else False


def with_null(x: HF, z: HF, lanes: NDArray[np.bool_] | bool) -> HF:
    """x + z in a form that can be opened; only these lanes of the answer count."""
    if supposed("finite"):
        return x
    (h, f), (zh, zf) = x, z
    out = combine(key(_WITH), h, zh)
    _SUMS.record(out, [h[0], h[1], f, zh[0], zh[1]], lanes)
    known = f & CONC if not seen(f) & CONC else np.where(h[1] == 0, np.uint32(0), f & CONC)
    zero = (f | known << 1) & zf & MNZ  # both may be -0
    facts = f & (POISON | NOSUB | NONNEG) | zero | zf & POISON
    return out, facts | form_id(_WITH) << FORM_SHIFT


def open_null(x: HF) -> tuple[NDArray[np.bool_], HF, U64] | None:
    """Lanes that are such a sum x + z, x there, and the hash of z."""
    h, f = x
    if not has_forms(f) or not any(form_name(n) == _WITH for n in forms_in(f)):
        return None
    marked = np.asarray(f >> FORM_SHIFT == form_id(_WITH))
    found = _SUMS.find(h, marked)
    if found is None:
        return None
    lanes, rows = found
    return lanes & marked, (rows[0:2], rows[2].astype(np.uint32)), rows[3:5]


def forget_nulls() -> None:
    """Start a replay with nothing remembered."""
    _SUMS.clear()
