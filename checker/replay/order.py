"""What happened before what: a clock for each strand, joined by barriers and by mbarriers' phases.

A strand is what runs in program order by itself: a thread, or a whole warp where its lanes go in
lockstep. In: synchronisation events. Out: whether somebody is entitled to see another one's event.
Events carry the number `now` of the interval they fall in and the code of whoever caused them: one
strand, several of a warp, several of a block, or strangers. Blocks are never ordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some

__all__ = ["NOBODY", "STRANGERS", "Codes", "Order"]

NOBODY, STRANGERS = 0, -1  # strand s: s + 1; warp w: -2 w - 2; block b: -2 b - 3
Codes = NDArray[np.int32]


class Order:
    """Clocks of `blocks` x `strands`, `group` of them a warp; numbered block * width + strand.

    Behind its strands a block has one more warp, of which one strand, the engine, stands for what
    copies by itself: nobody knows of its events but who waited for them, and who learns from those.
    What a strand knows of the others is a row of `rows`; strands that know the same share one.
    Up to its floor everything is ordered inside a block, up to its warp floor inside each warp;
    `floor`: the lowest.
    """

    def __init__(self, blocks: int, strands: int, group: int, first_block: int = 0, now: int = 1
                 ) -> None:
        self.blocks, self.strands, self.group, self.first = blocks, strands, group, first_block
        self.width = strands + group
        self.now = now
        self.floor = 0
        self.floors, self.warp_floors = np.zeros((2, blocks), dtype=np.int32)
        self.row_of = np.zeros((blocks, strands), dtype=np.int64)
        self._keep(np.zeros((1, self.width), dtype=np.int32))
        # called before some strands, not all, learn; those who ask look at these clocks themselves
        self.before_learning: list[WeakMethod[Callable[[], None]]] = []

    def _keep(self, rows: NDArray[np.int32]) -> None:
        self.rows = rows
        self.in_warps = rows.reshape(len(rows), -1, self.group).min(axis=2)
        self.in_block = self.in_warps[:, :-1].min(axis=1)

    # --- codes ---------------------------------------------------------------------------------

    def codes(self) -> Codes:
        """Each strand's code."""
        at = np.arange(self.blocks * self.width, dtype=np.int32).reshape(self.blocks, -1)
        return np.asarray(at[:, : self.strands] + self.first * self.width + 1, dtype=np.int32)

    def engine(self, block: int) -> int:
        """The code of what copies by itself in a block of these clocks."""
        return (block + self.first) * self.width + self.strands + 1

    def whole_warp(self, codes: Codes) -> Codes:
        """The codes of the warps that strands belong to."""
        if self.group == 1:
            return codes
        return np.asarray(-2 * self.warp(codes) - 2, dtype=np.int32)

    def whole_block(self, blocks: NDArray[np.int64]) -> Codes:
        """The codes of blocks of these clocks."""
        return np.asarray(-2 * (blocks + self.first) - 3, dtype=np.int32)

    def warp(self, codes: Codes) -> Codes:
        """The warp's number, -1 for what is none."""
        even = np.where(codes % 2 == 0, -codes // 2 - 1, -1)
        return np.asarray(np.where(codes > 0, (codes - 1) // self.group, even))

    def block(self, codes: Codes) -> Codes:
        """The block's number, -1 for what is in none."""
        warp = self.warp(codes)
        odd = np.where(codes < STRANGERS, (-codes - 3) // 2, -1)
        return np.asarray(np.where(warp >= 0, warp // (self.width // self.group), odd))

    def join(self, one: Codes, two: Codes) -> Codes:
        """The code for both."""
        warps, blocks = (self.warp(one), self.warp(two)), (self.block(one), self.block(two))
        out = np.where(blocks[0] == blocks[1], -2 * blocks[0] - 3, STRANGERS)
        out = np.where((warps[0] == warps[1]) & (warps[0] >= 0), -2 * warps[0] - 2, out)
        out = np.where((one == NOBODY) | (one == two), two, np.where(two == NOBODY, one, out))
        return np.asarray(out, dtype=np.int32)

    # --- what is known -------------------------------------------------------------------------

    def settled(self, seq: Any, inside: bool) -> bool:
        """Whether all these events are from before a barrier of all warps (`inside` one block)."""
        if inside:
            return self.strands == 1 or every(seq <= self.floor)
        return not some(seq)

    def knows(self, me: Codes, other: Codes, seq: Any) -> NDArray[np.bool_]:
        """Whether strands or whole warps `me` may rely on events `seq` of `other`."""
        block = self.block(me)
        inside, at = self.block(other) == block, block - self.first
        out = (other == NOBODY) | ((other == me) & (me > 0)) | (inside & (seq <= self.floors[at]))
        out |= (self.warp(other) == self.warp(me)) & (seq <= self.warp_floors[at])
        if len(self.rows) > 1 and not every(out):
            left = np.nonzero(~out & inside)
            out[left] = self._by_rows(*(np.broadcast_to(x, out.shape)[left]
                                        for x in (me, other, seq)))
        return np.asarray(out)

    def _by_rows(self, me: Codes, other: Codes, seq: Any) -> NDArray[np.bool_]:
        block = self.block(me) - self.first
        alone, warps = me > 0, self.warp(me) % self.in_warps.shape[1]
        own = np.where(alone, (me - 1) % self.width, warps * self.group)
        out = self._shows(self.row_of[block, own], other) >= seq
        rest = np.flatnonzero(~alone)
        for lane in range(1, self.group) if rest.size else ():  # a warp knows what all lanes know
            row = self.row_of[block[rest], own[rest] + lane]
            out[rest] &= self._shows(row, other[rest]) >= seq[rest]
        return np.asarray(out)

    def _shows(self, row: Any, other: Codes) -> Codes:
        """Up to when rows know of `other`."""
        warp = self.warp(other)
        by_warp = self.in_warps[row, warp % self.in_warps.shape[1]]
        several = np.where(warp >= 0, by_warp, self.in_block[row])
        single = self.rows[row, (other - 1) % self.width]
        return np.asarray(np.where(other > 0, single, several))

    # --- events --------------------------------------------------------------------------------

    def barrier(self, members: NDArray[np.bool_] | None) -> None:
        """Join the strands of each block that meet (members (blocks, strands); None: all)."""
        whole = np.asarray(members.all(axis=1) if members is not None else [True] * self.blocks)
        if some(whole):
            if not every(whole):
                self._learn()
            self.floors[whole] = self.warp_floors[whole] = self.now
            self.row_of[whole], self.floor = 0, int(self.floors.min())
            self.now += 1
        if members is not None:
            self.meet(np.where(members & ~whole[:, None], np.arange(self.blocks)[:, None], -1))

    def meet_in_warps(self) -> None:
        """Join all strands of each warp."""
        if self.group == 1:
            return
        if self.strands == self.group:
            self.barrier(None)
            return
        cut = self.row_of.reshape(self.blocks, -1, self.group)
        if some(cut != cut[..., :1]):
            warp = np.arange(self.strands) // self.group
            self.meet(np.arange(self.blocks).reshape(-1, 1) * self.strands + warp)
            return
        self._learn()
        self.warp_floors[:] = self.now
        self.now += 1

    def meet(self, label: NDArray[np.int64]) -> None:
        """Join strands of equal label (blocks, strands), all of one block; -1: does not meet."""
        block, strand = np.nonzero(label >= 0)
        if not block.size:
            return
        self._learn()
        _, group = np.unique(label[block, strand], return_inverse=True)
        new = self._joined(block, strand, group)
        new[group, strand] = self.now
        self.now += 1
        self._learned(block, strand, group, new)

    def release(self, block: int, strands: Any) -> NDArray[np.int32]:
        """What strands publish when they arrive somewhere; later events are not part of it."""
        at = np.asarray(strands, dtype=np.int64).reshape(-1)
        row = self._joined(np.full(len(at), block), at, np.zeros(len(at), dtype=np.int64))[0]
        row[at] = self.now
        self.now += 1
        return np.asarray(row)

    def by_engine(self, row: NDArray[np.int32]) -> int:
        """What the engine did just now is part of what was published; later events are not."""
        row[self.strands] = seq = self.now
        self.now += 1
        return seq

    def acquire(self, block: int, strands: Any, row: NDArray[np.int32]) -> None:
        """These strands learn what was published."""
        self._learn()
        at = np.unique(np.asarray(strands, dtype=np.int64))
        old, group = np.unique(self.row_of[block, at], return_inverse=True)
        self._learned(np.full(len(at), block), at, group, np.maximum(self.rows[old], row))

    def _joined(self, block: Any, strand: Any, group: Any) -> NDArray[np.int32]:
        """All that the strands of each group know together."""
        new = np.zeros((int(group.max()) + 1, self.width), dtype=np.int32)
        new[group] = self.floors[block, None]
        pairs = np.unique(np.stack([group, self.row_of[block, strand]]), axis=1)
        np.maximum.at(new, pairs[0], self.rows[pairs[1]])
        by_warp = new.reshape(len(new), -1, self.group)
        warp = strand // self.group
        by_warp[group, warp] = np.maximum(by_warp[group, warp], self.warp_floors[block, None])
        return new

    def _learned(self, block: Any, strand: Any, group: Any, new: NDArray[np.int32]) -> None:
        self.row_of[block, strand] = len(self.rows) + group
        rows = np.concatenate([self.rows, new])
        if len(rows) > 64 + 2 * self.row_of.size // self.group:
            used, at = np.unique(np.append(self.row_of, 0), return_inverse=True)
            rows, self.row_of = rows[used], at[:-1].reshape(self.row_of.shape)
        self._keep(rows)

    def _learn(self) -> None:
        for method in self.before_learning:
            call = method()
            if call is not None:
                call()
