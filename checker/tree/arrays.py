"""Questions to small arrays, asked of numpy in its quickest way.

Most arrays have one entry for each lane, so that what a question costs is the call. `x.all()` and
`x.any()` go through several functions before they look at anything; a count does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["every", "is_number", "some"]


def every(x: Any) -> bool:
    """Tell whether all entries of an array are true."""
    return bool(np.count_nonzero(x) == x.size)


def some(x: Any) -> bool:
    """Tell whether an entry of an array is true."""
    return bool(np.count_nonzero(x))


def is_number(c: Any, value: int) -> bool:
    """Tell whether a coefficient is this number in all lanes: one that differs by lane is none."""
    return not isinstance(c, np.ndarray) and bool(c == value)
