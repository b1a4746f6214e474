"""Two texts that differ in a few lines, made shorter while what they show stays.

In: the texts and a predicate on them. Out: the shortest pair that was found by dropping runs of
lines that both have. The predicate may refuse a pair in any way that it refuses bad input.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from difflib import SequenceMatcher

from checker.errors import SamebitsError

#: a finding is worth this long, in seconds
PATIENCE = 60.0

#: a line of either text: (line of the old, line of the new); None where only the other has it
_Row = tuple[str | None, str | None]


def minimised(old: str, new: str, still: Callable[[str, str], bool]) -> tuple[str, str]:
    """Return the pair without the lines that `still` holds without."""
    rows = _aligned(old.split("\n"), new.split("\n"))
    limit = time.monotonic() + PATIENCE
    size = len(rows) // 2
    while size and time.monotonic() < limit:
        at = 0
        while at < len(rows) and time.monotonic() < limit:
            shorter = rows[:at] + [r for r in rows[at : at + size] if r[0] != r[1]] \
                + rows[at + size :]
            if len(shorter) < len(rows) and _holds(shorter, still):
                rows = shorter
            else:
                at += size
        size //= 2
    return _texts(rows)


def _aligned(old: list[str], new: list[str]) -> list[_Row]:
    rows: list[_Row] = []
    for _, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[a:b] == new[c:d]:
            rows += [(line, line) for line in old[a:b]]
        else:
            rows += [(line, None) for line in old[a:b]]
            rows += [(None, line) for line in new[c:d]]
    return rows


def _texts(rows: list[_Row]) -> tuple[str, str]:
    old, new = ("\n".join(line for row in rows if (line := row[i]) is not None) for i in (0, 1))
    return old, new


def _holds(rows: list[_Row], still: Callable[[str, str], bool]) -> bool:
    try:
        return still(*_texts(rows))
    except SamebitsError:
        return False
