"""What happened before what: one clock per warp, joined by barriers and phases of mbarriers.

In: synchronisation events. Out: whether a warp is entitled to see an event of another one. Events
carry the number `now` of the interval they fall in; `knows` compares it with the vector clocks.
Threads of one warp are taken to run in program order; different blocks are never ordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Order"]


class Order:
    """Vector clocks of `blocks` x `warps`; warps are numbered block * warps + warp."""

    def __init__(self, blocks: int, warps: int, first_block: int = 0, now: int = 1) -> None:
        self.blocks, self.warps, self.first = blocks, warps, first_block
        self.now = now
        self.clock = np.zeros((blocks, warps, warps), dtype=np.int32)
        self.floor = 0  # everything up to here is ordered inside every block
        # called before some warps, not all, learn; those who ask look at these clocks themselves
        self.before_learning: list[WeakMethod[Callable[[], None]]] = []

    def settled(self, seq: Any, inside: bool) -> bool:
        """Whether all these events are from before a barrier of all warps (`inside` one block)."""
        if inside:
            return self.warps == 1 or bool((seq <= self.floor).all())
        return not seq.any()

    def knows(self, warp: Any, other: NDArray[np.int32], seq: Any) -> NDArray[np.bool_]:
        """Whether `warp` may rely on events `seq` of warp `other - 1` (0: nobody, -1: several)."""
        mine = np.asarray(warp)
        who = other - 1
        block, theirs = mine // self.warps - self.first, who // self.warps - self.first
        known = self.clock[block, mine % self.warps, who % self.warps] >= seq
        out = (other == 0) | (who == mine) | ((block == theirs) & known)
        several = other == -1
        if several.any():
            slowest = self.clock[block, mine % self.warps].min(axis=-1)
            out = np.where(several, slowest >= seq, out)
        return np.asarray(out)

    def barrier(self, members: NDArray[np.bool_] | None) -> None:
        """Join the warps of each block that meet (members (blocks, warps); None: all)."""
        seq = self.now
        self.now += 1
        if members is None or members.all():
            self.clock[:] = seq
            self.floor = seq
            return
        self._learn()
        for block in np.nonzero(members.any(axis=1))[0]:
            at = np.nonzero(members[block])[0]
            rows = self.clock[block, at].max(axis=0)
            rows[at] = seq
            self.clock[block, at] = rows

    def release(self, block: int, warp: int) -> NDArray[np.int32]:
        """What a warp publishes when it arrives somewhere; later events are not part of it."""
        row = self.clock[block, warp].copy()
        row[warp] = self.now
        self.now += 1
        return np.asarray(row)

    def acquire(self, block: int, warp: int, row: NDArray[np.int32]) -> None:
        """Learn what was published."""
        self._learn()
        np.maximum(self.clock[block, warp], row, out=self.clock[block, warp])

    def _learn(self) -> None:
        for method in self.before_learning:
            call = method()
            if call is not None:
                call()
