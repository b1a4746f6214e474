"""Questions to small arrays, asked of numpy in its quickest way.

Most arrays have one entry for each lane, so that what a question costs is the call. Methods such
as `x.all()` and `x.min()`, and most functions of numpy, go through several functions of Python
before they look at anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["every", "greatest", "is_number", "least", "places", "some"]

_BOOL = np.dtype(bool)


def every(x: Any) -> bool:
    """Tell whether all entries of an array are true."""
    if x.dtype is _BOOL:
        return 0 not in x.tobytes()
    return bool(np.count_nonzero(x) == x.size)


def some(x: Any) -> bool:
    """Tell whether an entry of an array is true."""
    if x.dtype is _BOOL:
        return 1 in x.tobytes()
    return bool(np.count_nonzero(x))


def least(x: Any) -> int:
    """Return the least entry of an array of integers."""
    return int(x.item(x.argmin()))


def greatest(x: Any) -> int:
    """Return the greatest entry of an array of integers."""
    return int(x.item(x.argmax()))


def places(x: Any) -> Any:
    """Return where the entries of a row are true."""
    return x.nonzero()[0]


def is_number(c: Any, value: int) -> bool:
    """Tell whether a coefficient is this number in all lanes: one that differs by lane is none."""
    return not isinstance(c, np.ndarray) and bool(c == value)
