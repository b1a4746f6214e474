"""What is known of a value by its hash: rows of words, found again wherever the hash turns up.

In: hashes of any lane shape with words of payload. Out: which of some hashes are known, and their
payload. A hash stands for one value, so what was true of it once is true of it in any lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import some
from checker.replay.hashing import U64

__all__ = ["Ledger"]

_MOST = 1 << 21  # rows remembered in one replay
_SOME = 1 << 18  # rows after which repetitions are looked for


class Ledger:
    """Payloads by hash; `clear` starts a replay, so that its answer depends on nothing before."""

    def __init__(self, payload: int) -> None:
        self.payload = payload
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.rows = np.zeros((2 + self.payload, 0), dtype=np.uint64)
        self.fresh: list[NDArray[np.uint64]] = []
        self.count = 0

    def record(self, h: U64, payload: list[Any], lanes: Any) -> None:
        """Remember the payload of these lanes' hashes."""
        words = np.broadcast_arrays(h[0], h[1], *payload, np.asarray(lanes, dtype=bool))
        rows = np.empty((len(words) - 1, words[0].size if lanes is True else int(
            np.count_nonzero(words[-1]))), dtype=np.uint64)
        for row, w in zip(rows, words[:-1], strict=True):
            row[:] = w.reshape(-1) if lanes is True else w[words[-1]]
        if rows.shape[1] and self.count + rows.shape[1] <= _MOST:
            self.fresh.append(rows)
            self.count += rows.shape[1]
            if self.count - self.rows.shape[1] > _SOME:
                self._settle()

    def _settle(self) -> None:
        rows = np.concatenate([self.rows, *self.fresh], axis=1)
        _, first = np.unique(rows[0], return_index=True)
        self.rows, self.fresh, self.count = rows[:, first], [], len(first)

    def find(self, h: U64, where: NDArray[np.bool_] | None = None
             ) -> tuple[NDArray[np.bool_], NDArray[np.uint64]] | None:
        """Which of these hashes are known, and their payloads (payload, *lanes).

        where: lanes that matter; the others count as unknown.
        """
        if not self.count:
            return None
        if self.fresh:
            self._settle()
        if where is not None and where.shape == h.shape[1:]:
            there = self.find(np.ascontiguousarray(h[:, where]))
            if there is None:
                return None
            known, payload = np.zeros(where.shape, dtype=bool), np.zeros(
                (self.payload, *where.shape), dtype=np.uint64)
            known[where], payload[:, where] = there
            return known, payload
        at = np.minimum(np.searchsorted(self.rows[0], h[0]), self.rows.shape[1] - 1)
        found = self.rows[:, at]
        known = (found[0] == h[0]) & (found[1] == h[1])
        return (known, found[2:]) if some(known) else None
