"""Who wrote and read the cells of a memory when, as far as that may still matter.

In: rows of cells, codes of who reaches them, the clocks of `Order`. Out: which cells an access is
not ordered with.
Accesses are logged; they reach the arrays only when an access comes that a barrier of all warps
does not separate from them. What a barrier has settled is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from checker.arrays import some
from checker.replay.order import STRANGERS, Codes, Order

__all__ = ["Index", "Rows", "Watch"]

_LONGEST = 64  # accesses in a log
Index = NDArray[np.int64]


@dataclass(slots=True)
class Rows:
    """Aligned rows of `size` bytes, by their numbers `at` (of any shape)."""

    at: Index
    size: int

    def flat(self) -> Rows:
        """The same rows, one after the other."""
        return Rows(self.at.reshape(-1), self.size)

    def some(self, which: Any) -> Rows:
        """Some of the rows."""
        return Rows(self.at[which], self.size)

    def of(self, cells: NDArray[Any], granule: int) -> NDArray[Any]:
        """An array over cells as one over (all rows, cells of a row)."""
        return cells.reshape(*cells.shape[:-1], -1, self.size // granule)

    def taken(self, cells: NDArray[Any], granule: int) -> NDArray[Any]:
        """The cells of these rows, of an array over cells: (*at, cells of a row)."""
        return self.of(cells, granule).take(self.at, axis=0)


@dataclass(slots=True)
class _Access:
    """Rows and who reached each; no row is there twice if `distinct`.

    only: nobody else's access counts any longer.
    """

    rows: Rows
    who: Codes
    seq: int
    only: bool = False
    distinct: bool = False
    span: tuple[int, int] | None = None


class Watch:
    """Order of accesses to `count` cells; `inside`: only one block can reach a cell."""

    def __init__(self, order: Order, inside: bool, count: int, granule: int, block_bytes: int
                 ) -> None:
        self.g, self.block_bytes = granule, block_bytes
        self.writer = np.zeros(count, dtype=np.int32)  # the latest, as a code of `Order`
        self.wseq = np.zeros(count, dtype=np.int32)
        self.reader = np.zeros(count, dtype=np.int32)  # all that `writer` may have to wait for
        self.rseq = np.zeros(count, dtype=np.int32)
        self.pending = np.zeros(count, dtype=bool)  # an asynchronous copy is on its way
        self.copying = False  # whether there ever was one
        self.reading: NDArray[np.int32] | None = None  # by which asynchronous step
        self.atomic: NDArray[np.int32] | None = None  # the kind of the last update by an atomic
        self.racing: NDArray[np.int32] | None = None  # who wrote with somebody's read unordered
        self.writes: list[_Access] = []
        self.reads: list[_Access] = []
        self.last_write = self.last_read = 0  # the newest in the arrays
        self.attach(order, inside)

    def attach(self, order: Order, inside: bool) -> None:
        """Go on under the clocks of another chunk of blocks."""
        self._flush_writes()
        self.order, self.inside = order, inside
        order.before_learning.append(WeakMethod(self._flush_reads))

    def refine(self, times: int) -> None:
        """Every cell becomes `times` cells."""
        for name in ("writer", "wseq", "reader", "rseq", "pending", "reading", "atomic",
                     "racing"):
            old = getattr(self, name)
            if old is not None:
                setattr(self, name, np.repeat(old, times))
        self.g //= times

    # --- what is not ordered -------------------------------------------------------------------

    def unordered_writes(self, rows: Rows, who: Codes) -> NDArray[np.bool_] | None:
        """Cells whose last write these (one a row) may not rely on: (rows, cells)."""
        if self._settled(self.last_write) and not self._meets(self.writes, rows):
            return None
        self._flush_writes()
        return self._unordered(rows, who, self.writer, self.wseq)

    def unordered_reads(self, rows: Rows, who: Codes) -> NDArray[np.bool_] | None:
        """Cells that somebody else may still be reading, as far as these know."""
        if self._settled(self.last_read) and not self._meets(self.reads, rows):
            return None
        self._flush_reads()
        return self._unordered(rows, who, self.reader, self.rseq)

    def read_in_warp(self, rows: Rows, who: Codes) -> NDArray[np.bool_]:
        """Cells that nobody but lanes of these warps may still be reading."""
        return np.asarray(self.order.warp(rows.taken(self.reader, self.g))
                          == self.order.warp(who)[:, None])

    def race(self, rows: Rows, cells: NDArray[np.bool_], writers: Codes) -> None:
        """Note who writes (rows, cells) that somebody reads without order, as `cells` says."""
        if self.racing is None:
            self.racing = np.zeros(self.writer.shape, dtype=np.int32)
        row, cell = np.nonzero(cells)
        self._add(rows.of(self.racing, self.g), rows.at[row], cell,
                  np.broadcast_to(writers, cells.shape)[row, cell])

    def _unordered(self, rows: Rows, who: Codes, others: Codes, seqs: NDArray[np.int32]
                   ) -> NDArray[np.bool_] | None:
        seq = rows.taken(seqs, self.g)
        if self.order.settled(seq, self.inside):
            return None
        bad = ~self.order.knows(who[:, None], rows.taken(others, self.g), seq)
        return bad if some(bad) else None

    def on_its_way(self, rows: Rows) -> bool:
        """Whether an asynchronous copy to one of these cells has not been waited for."""
        return self.copying and some(rows.taken(self.pending, self.g))

    def being_read(self, rows: Rows) -> bool:
        """Whether an asynchronous step may still read one of these cells."""
        return self.reading is not None and some(rows.taken(self.reading, self.g))

    # --- what happens --------------------------------------------------------------------------

    def wrote(self, rows: Rows, who: Codes, apart: NDArray[np.bool_] | None = None,
              distinct: bool = False) -> None:
        """These write a row each; apart: cells whose writers before them they are not ordered with.

        distinct: no row is there twice.
        """
        access = _Access(rows, who, self.order.now, False, distinct)
        if apart is None:
            self._log(self.writes, self._flush_writes, access)
            return
        row, cell = np.nonzero(apart)
        old = rows.taken(self.writer, self.g)[row, cell]
        self.writes.append(access)
        self._flush_writes()
        self._add(rows.of(self.writer, self.g), rows.at[row], cell, old)

    def read(self, rows: Rows, who: Codes) -> None:
        """These read a row each."""
        self._log(self.reads, self._flush_reads, _Access(rows, who, self.order.now))

    def read_until_now(self, rows: Rows, who: Codes) -> None:
        """An asynchronous read ended just now, as far as `who` of each block knows."""
        mine = who[self.blocks(rows)]
        self._log(self.reads, self._flush_reads, _Access(rows, mine, self.order.now, True))

    def mark(self, rows: Rows, pending: bool) -> None:
        """A copy to these cells starts, or has been waited for."""
        rows.of(self.pending, self.g)[rows.at] = pending
        self.copying |= pending

    def begin_reading(self, rows: Rows, number: int) -> None:
        """An asynchronous step starts to read these cells."""
        if self.reading is None:
            self.reading = np.zeros(self.writer.shape, dtype=np.int32)
        rows.of(self.reading, self.g)[rows.at] = number

    def end_reading(self, rows: Rows, number: int) -> None:
        """The step is done (a later step may read them still)."""
        assert self.reading is not None
        view = rows.of(self.reading, self.g)
        now = view[rows.at]
        view[rows.at] = np.where(now == number, 0, now)

    def before_atomic(self, rows: Rows, who: Codes, kind: int) -> NDArray[np.bool_]:
        """Cells that these may not update: written, or updated in another way, by somebody else.

        Atomics of one kind come in any order.
        """
        self._flush_writes()
        alike = self.atomic is not None and rows.taken(self.atomic, self.g) == kind
        return np.asarray(~(alike | self.order.knows(
            who[:, None], rows.taken(self.writer, self.g), rows.taken(self.wseq, self.g))))

    def after_atomic(self, rows: Rows, kind: int) -> None:
        """Later accesses must be ordered after every thread's atomic."""
        self._flush_writes()
        if self.atomic is None:
            self.atomic = np.zeros(self.writer.shape, dtype=np.int32)
        rows.of(self.atomic, self.g)[rows.at] = kind
        rows.of(self.writer, self.g)[rows.at] = self.order.whole_block(
            self.blocks(rows))[:, None] if self.inside else STRANGERS
        rows.of(self.wseq, self.g)[rows.at] = self.last_write = self.order.now

    def blocks(self, rows: Rows) -> Index:
        """The block that each row belongs to."""
        return rows.at // (self.block_bytes // rows.size)

    # --- the logs ------------------------------------------------------------------------------

    def _settled(self, seq: int) -> bool:
        """Whether nothing up to then can matter any longer."""
        return seq == 0 or (self.inside and (self.order.strands == 1 or seq <= self.order.floor))

    def _log(self, log: list[_Access], flush: Any, access: _Access) -> None:
        if self._settled(access.seq):
            return
        log.append(access)
        if not self.inside or len(log) > _LONGEST:
            flush()

    def _meets(self, log: list[_Access], rows: Rows) -> bool:
        """Whether an access of the log that is not settled may touch these rows."""
        while log and self._settled(log[0].seq):
            del log[0]
        if not log:
            return False
        low, high = self._span(rows)
        for one in log:
            if one.span is None:
                one.span = self._span(one.rows)
            if one.span[0] < high and low < one.span[1]:
                return True
        return False

    def _span(self, rows: Rows) -> tuple[int, int]:
        """First byte and end inside a block."""
        if not rows.at.size:
            return 0, 0
        at = rows.at % (self.block_bytes // rows.size)
        return int(at.min()) * rows.size, int(at.max()) * rows.size + rows.size

    def _flush_writes(self) -> None:
        for one in self.writes:
            if not self._settled(one.seq):
                self.last_write = one.seq
                self._reach(one, self.writer, self.wseq, None)
                if self.atomic is not None:
                    one.rows.of(self.atomic, self.g)[one.rows.at] = 0
        self.writes.clear()

    def _flush_reads(self) -> None:
        for one in self.reads:
            if not self._settled(one.seq):
                self.last_read = one.seq
                others = None if one.only else one.rows.taken(self.reader, self.g)
                self._reach(one, self.reader, self.rseq, others)
        self.reads.clear()

    def _reach(self, one: _Access, codes: Codes, seqs: NDArray[np.int32],
               old: NDArray[Any] | None) -> None:
        """Bring an access into the arrays.

        It stands for those before it that it is ordered after; with others (old) it is joined.
        """
        at, who = one.rows.at, one.who[:, None]
        latest, now = one.rows.of(seqs, self.g), one.rows.of(codes, self.g)
        lost = None
        if old is not None:
            seq = latest[at]
            if not self.order.settled(seq, self.inside):
                lost = ~self.order.knows(who, old, seq)
        latest[at], now[at] = one.seq, who
        if old is not None and lost is not None and some(lost):
            row, cell = np.nonzero(lost)
            self._add(now, at[row], cell, old[row, cell])
        if one.only or one.distinct:
            return
        again = now[at] != who  # several of this access reach one cell
        if some(again):
            row, cell = np.nonzero(again)
            self._add(now, at[row], cell, np.broadcast_to(who, again.shape)[row, cell])

    def _add(self, codes: Any, at: Index, cell: Index, who: Codes) -> None:
        """Join codes to those of cells, which may be there several times."""
        while len(at):
            joined = self.order.join(codes[at, cell], who)
            codes[at, cell] = joined
            left = self.order.join(codes[at, cell], who) != codes[at, cell]
            at, cell, who = at[left], cell[left], who[left]
