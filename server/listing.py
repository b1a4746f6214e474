"""An assembly listing for the page: all of a short text, windows around the lines that matter else.

In: a text and line numbers. Out: runs of (number, line), a gap between two runs.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["listing"]

MAX_WHOLE = 4_000
_AROUND = 15
_LINE_CHARS = 400


def listing(text: str, wanted: Iterable[int]) -> list[list[tuple[int, str]]]:
    """Runs of numbered lines, each line cut to a readable length."""
    lines = text.splitlines()
    if len(lines) <= MAX_WHOLE:
        keep = range(1, len(lines) + 1)
        return [[(n, lines[n - 1][:_LINE_CHARS]) for n in keep]]
    chosen: set[int] = set(range(1, 40))
    for number in sorted(set(wanted)):
        chosen.update(range(number - _AROUND, number + _AROUND + 1))
        if len(chosen) > MAX_WHOLE:
            break
    runs: list[list[tuple[int, str]]] = []
    for number in sorted(n for n in chosen if 1 <= n <= len(lines)):
        if not runs or runs[-1][-1][0] != number - 1:
            runs.append([])
        runs[-1].append((number, lines[number - 1][:_LINE_CHARS]))
    return runs
