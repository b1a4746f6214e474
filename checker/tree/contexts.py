"""What the elements of an output know: a table with one row for each, projected on some columns.

In: the table [contexts, columns], an int64 each (a coordinate's offset in the tile, the number of
a condition that holds), and which symbols a column speaks of. Out: for a set of columns, each
context's projected number. A value that a column does not concern is computed once for all
contexts that differ in that column alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from checker.arrays import greatest, places

__all__ = ["Contexts", "each_once"]

Numbers = npt.NDArray[np.int64]


def each_once(*lists: Numbers) -> Numbers:
    """Return the numbers (not negative) of some lists, each once, in order.

    Marks in a row of flags where they lie close enough: far faster than any search for repeats.
    """
    lists = tuple(x.ravel() for x in lists if x.size)
    if not lists:
        return np.zeros(0, dtype=np.int64)
    top = max(greatest(x) for x in lists) + 1
    if top <= 4096 + 16 * sum(len(x) for x in lists):
        flags = np.zeros(top, dtype=bool)
        for x in lists:
            flags[x] = True
        found: Numbers = places(flags)
        return found
    ranked = np.sort(np.concatenate(lists))
    fresh = np.ones(len(ranked), dtype=bool)
    np.not_equal(ranked[1:], ranked[:-1], out=fresh[1:])
    return ranked[fresh]


class Contexts:
    """Contexts and their projections; a set of columns is a bit mask."""

    def __init__(self, table: Numbers) -> None:
        self.table = table
        self.projections: dict[int, tuple[Numbers, Numbers]] = {}
        self.maps: dict[tuple[int, int], Numbers] = {}
        self.columns: dict[tuple[int, int], Any] = {}

    def projection(self, mask: int) -> tuple[Numbers, Numbers]:
        """Return each context's number under a set of columns, and a context of each number."""
        known = self.projections.get(mask)
        if known is None:
            count = len(self.table)
            ids = np.zeros(count, dtype=np.int64)
            for i in range(self.table.shape[1]):
                if mask >> i & 1:
                    values, own = np.unique(self.table[:, i], return_inverse=True)
                    ids = np.unique(ids * len(values) + own.ravel(), return_inverse=True)[1].ravel()
            first = np.unique(ids, return_index=True)[1]
            known = self.projections[mask] = (ids.astype(np.int64), first.astype(np.int64))
        return known

    def narrow(self, wide: int, mask: int, numbers: Numbers) -> Numbers:
        """Return numbers under a set of columns as numbers under a subset of it."""
        if wide == mask:
            return numbers
        table = self.maps.get((wide, mask))
        if table is None:
            first = self.projection(wide)[1]
            table = self.maps[(wide, mask)] = self.projection(mask)[0][first]
        return table[numbers]

    def column(self, mask: int, column: int, numbers: Numbers) -> Any:
        """Return a column's entries for numbers under a set of columns that holds it."""
        values = self.columns.get((mask, column))
        if values is None:
            values = self.table[self.projection(mask)[1], column]
            self.columns[(mask, column)] = values
        return values[numbers]
