"""What a replay may suppose to explain a difference: statements that do not hold for every input.

In: names of `SUPPOSITIONS`. Out: which of them count now. Two maps that differ, and agree under a
supposition, differ in what it says and in nothing else. A replay that supposes something is never
`usable`: it explains, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from checker.replay.facts import forget

__all__ = ["SUPPOSITIONS", "supposed", "supposing"]

#: name -> what is taken for granted
SUPPOSITIONS: Mapping[str, str] = {
    "finite": "a zero times a value is nothing: no infinity and no NaN is multiplied by a zero",
    "unsigned-zero": "no value is -0: adding +0 changes nothing",
    "reciprocal": "x * div(1, y) = div(x, y), for the division that multiplies by a reciprocal",
}

_NOW: set[str] = set()


def supposed(name: str) -> bool:
    """Whether this is supposed in the replay that runs."""
    return name in _NOW


@contextmanager
def supposing(names: Collection[str]) -> Iterator[None]:
    """Suppose these; what was remembered under other suppositions is forgotten.

    Raises KeyError for an unknown name.
    """
    for name in names:
        SUPPOSITIONS[name]
    if not names:
        yield
        return
    forget()
    _NOW.update(names)
    try:
        yield
    finally:
        _NOW.clear()
        forget()
