"""Memory of the replay: cells of known bits or tree hashes, with who wrote and read them when.

In: byte offsets per lane and values. Out: values. A memory starts with coarse cells and splits them
when an access or a stored value needs finer ones; splitting can be undone by a later join. Cells
move in aligned rows of up to 16 bytes. Order is checked by `Watch`: findings go to `report`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.replay.facts import CONC, EXCH, MNZ, POISON, UNDEF, Mask, seen
from checker.replay.hashing import TAG, U64, UNDEF_TAG, combine, key, mix
from checker.replay.order import NOBODY, Codes, Order
from checker.replay.result import Unsupported
from checker.replay.values import Conc, Hash, Pack, V, hash_of, make_pack, ones, split, undefined
from checker.replay.watch import Index, Rows, Watch

__all__ = ["Cells", "Report", "Rows", "finer"]

Report = Callable[[str, str], None]
_ROW = 16  # bytes of the longest row


class Cells:
    """A run of memory, one for each of `blocks`; what happens to it is noted after `track`."""

    def __init__(self, name: str, size_bytes: int, granule: int, report: Report,
                 blocks: int = 1) -> None:
        self.name, self.size_bytes, self.g = name, size_bytes, granule
        self.blocks = blocks
        self.block_bytes = -(-max(1, size_bytes) // _ROW) * _ROW
        self._empty()
        self.report = report
        self.watch: Watch | None = None
        self.unwatched = False  # for now: the access is checked by itself
        self.written: NDArray[np.bool_] | None = None
        self.lines: NDArray[np.int32] | None = None  # the line that wrote each cell last
        self.line = 0
        self.read_only = ""  # why nobody may write here
        self.in_turn = False  # lanes read before others of their warp, later in the text, write
        self._last: NDArray[np.int32] | None = None
        self.doubtful: Codes | None = None  # who races for each byte: others do not know it

    def _empty(self) -> None:
        n = self.block_bytes // self.g * self.blocks
        self.h = np.zeros((2, n), dtype=np.uint64)
        self.h[0] = UNDEF_TAG
        self.f = np.full(n, UNDEF, dtype=np.uint32)

    def track(self, order: Order, inside: bool) -> None:
        """Check the order of accesses; inside: only one block can reach a cell."""
        if self.watch is None:
            self.watch = Watch(order, inside, self.h.shape[1], self.g, self.block_bytes)
        else:
            self.watch.attach(order, inside)

    def cover(self) -> None:
        """Keep which cells are written, and by which line."""
        self.written = np.zeros(self.h.shape[1], dtype=bool)
        self.lines = np.zeros(self.h.shape[1], dtype=np.int32)

    def was_written(self, block: Any, offset: Index, size: int, mask: Mask | None) -> bool:
        """Whether active lanes' bytes hold what was written since the start."""
        if self.written is None or not some(self.written):
            return False
        start = block * self.block_bytes + offset
        at = self._rows(start if mask is None else _settle(start, mask), size)
        hit = at.of(self.written, self.g).take(at.at, axis=0).any(axis=(0, -1))
        return some(hit if mask is None else hit & mask)

    # --- granularity ---------------------------------------------------------------------------

    def refine(self, granule: int) -> None:
        """Split cells so that each has `granule` bytes."""
        if granule >= self.g:
            return
        times, empty = self.g // granule, every(self.f == UNDEF)
        if not empty:
            self.h, self.f = finer(self.h, self.f, self.g, times)
        for name in ("written", "lines"):
            old = getattr(self, name)
            if old is not None:
                setattr(self, name, np.repeat(old, times))
        if self.watch is not None:
            self.watch.refine(times)
        self.g, self._last = granule, None
        if empty:
            self._empty()

    def joined(self, h: Any, f: Any, size: int) -> tuple[Any, Any]:
        """Contents and facts of elements of `size` bytes, from those of cells."""
        times = size // self.g
        parts = [self.value(h[..., i::times].reshape(2, 1, -1), f[..., i::times].reshape(1, -1))
                 for i in range(times)]
        shape = (*f.shape[:-1], f.shape[-1] // times)
        whole, facts = hash_of(make_pack(parts))
        n = int(np.prod(shape))
        return (np.broadcast_to(whole, (2, 1, n)).reshape(2, *shape),
                np.broadcast_to(np.asarray(facts, dtype=np.uint32), (1, n)).reshape(shape))

    def fit(self, v_bytes: int) -> None:
        """Make `v_bytes` bytes whole cells."""
        if v_bytes % self.g:
            self.refine(int(np.gcd(v_bytes, self.g)))

    # --- rows ----------------------------------------------------------------------------------

    def rows(self, block: Any, offset: Index, size: int) -> Rows:
        """The rows that accesses of `size` bytes reach: numbers (rows of one access, *lanes)."""
        return self._rows(block * self.block_bytes + offset, size)

    def _rows(self, start: Index, size: int) -> Rows:
        piece = size
        if size > self.g:
            low = int(np.bitwise_or.reduce(start, axis=None)) | size | _ROW
            piece = max(low & -low, self.g)
        at = (start // piece)[None]
        if piece < size:
            at = at + np.arange(size // piece).reshape(-1, *(1,) * start.ndim)
        return Rows(at, piece)

    def take(self, rows: Rows) -> tuple[Any, Any]:
        """Contents (2, *rows, cells) and facts (*rows, cells)."""
        if rows.size == self.g:
            return self.h.take(rows.at, axis=1)[..., None], self.f.take(rows.at)[..., None]
        return (rows.of(self.h, self.g).take(rows.at, axis=1),
                rows.of(self.f, self.g).take(rows.at, axis=0))

    def twice(self, rows: Rows) -> bool:
        """Whether some row is there more than once."""
        if rows.at.size < 2:
            return False
        if self._last is None:
            self._last = np.empty(self.h.shape[1], dtype=np.int32)
        number = np.arange(rows.at.size, dtype=np.int32)
        self._last[rows.at] = number  # only what was just written is read
        return some(self._last.take(rows.at) != number)

    def put(self, rows: Rows, h: Any, f: Any, who: Any, checked: bool = False) -> bool:
        """Write rows (n), contents (2, n, cells), checking order; whether no two disagree.

        checked: that was done when the write was issued, and nobody came in between.
        """
        twice = self.twice(rows)
        if self.watch is not None and not self.unwatched:
            apart = None if checked else self.check_write(rows, h, who)
            self.watch.wrote(rows, who, apart, not twice)
        view = rows.of(self.h, self.g)
        for word, new in zip(view, h, strict=True):  # by far faster than both at once
            if word.shape[-1] == 1:
                word[:, 0][rows.at] = new[:, 0]
            else:
                word[rows.at] = new
        rows.of(self.f, self.g)[rows.at] = f
        if self.written is not None:
            rows.of(self.written, self.g)[rows.at] = True
        if self.lines is not None:
            rows.of(self.lines, self.g)[rows.at] = self.line
        return not (twice and some(view.take(rows.at, axis=1) != h))

    # --- access --------------------------------------------------------------------------------

    def load(self, block: Any, offset: Index, width: int, mask: Mask | None,
             who: Any, align: int) -> V:
        """`width` bits at each lane's byte offset; lanes that are off get anything."""
        return self.load_many(block, offset, width, 1, mask, who, align)[0]

    def load_many(self, block: Any, offset: Index, width: int, count: int, mask: Mask | None,
                  who: Any, align: int) -> list[V]:
        """`count` neighbouring elements of `width` bits."""
        self.fit(int(np.gcd(width // 8, align)))
        start = block * self.block_bytes + offset
        if mask is not None:
            start = _settle(start, mask)
        h, f = self._read(self._rows(start, width // 8 * count), mask, who)
        each = width // 8 // self.g
        first = int(f.flat[0])
        cells: list[V]
        h = _columns(h, 1)
        if f.size == 1 or every(f == first):
            cells = [self.uniform(h[:, j], first) for j in range(each * count)]
        else:
            f = _columns(f, 0)
            cells = [self.value(h[:, j], f[j]) for j in range(each * count)]
        if each == 1:
            return cells
        return [make_pack(cells[i * each : (i + 1) * each]) for i in range(count)]

    def load_cells(self, block: Any, offset: Index, size: int, mask: Mask | None, who: Any
                   ) -> tuple[U64, NDArray[np.uint32]]:
        """The cells of `size` bytes at each lane's offset: (2, *lanes, cells), (*lanes, cells)."""
        start = block * self.block_bytes + offset
        if mask is not None:
            start = _settle(start, mask)
        h, f = self._read(self._rows(start, size), mask, who)
        lanes = f.shape[1:-1]
        return (np.moveaxis(h, 1, -2).reshape(2, *lanes, -1),
                np.moveaxis(f, 0, -2).reshape(*lanes, -1))

    def _read(self, rows: Rows, mask: Mask | None, who: Any) -> tuple[Any, Any]:
        """What `take` gives, in order; nobody knows what a race may have changed."""
        if self.doubtful is None:
            if self.watch is not None and not self.unwatched:
                self.check_read(rows, mask, who)
            return self.take(rows)
        writer, me = rows.taken(self.doubtful, 1), np.asarray(who)[..., None]
        lost = ((writer != NOBODY) & ((writer != me) | (me < 0))).any(axis=-1)
        if self.watch is not None and not self.unwatched:
            self.check_read(rows, ~lost if mask is None else mask & ~lost, who)
        h, f = self.take(rows)
        lost = lost[..., None]
        return (np.stack([np.where(lost, UNDEF_TAG, h[0]), np.where(lost, np.uint64(0), h[1])]),
                np.where(lost, np.uint32(UNDEF), f))

    def value(self, h: U64, f: NDArray[np.uint32]) -> V:
        """One cell of every lane as a value."""
        first = int(f.flat[0])
        if every(f == first):
            return self.uniform(h, first)
        return Hash(h, f, 8 * self.g)

    def uniform(self, h: Any, fact: int) -> V:
        """One cell of every lane, whose facts are the same in all of them, as a value."""
        if fact & CONC and self.g <= 8:
            return Conc(h[1], 8 * self.g)
        return Hash(h, fact, 8 * self.g)

    def store(self, block: Any, offset: Index, v: V, mask: Mask | None, who: Any,
              align: int) -> None:
        """Write each active lane's value."""
        if self.read_only:
            raise Unsupported("role", self.read_only)
        size = v.w // 8
        step = int(np.gcd(size, align))
        if isinstance(v, Pack) and not all(isinstance(p, Conc) for p in v.parts):
            at = 0
            for part in v.parts[:-1]:
                at += part.w
                if at % 8 == 0:
                    step = int(np.gcd(step, at // 8))
        self.fit(step)
        base = block * self.block_bytes + offset
        pairs = [hash_of(split(v, 8 * self.g * j, 8 * self.g)) for j in range(size // self.g)]
        shape = np.broadcast_shapes(base.shape, np.shape(who),
                                    () if mask is None else mask.shape,
                                    *(h.shape[1:] for h, _ in pairs))
        on = None if mask is None else np.broadcast_to(mask, shape)
        active = None if on is None else np.flatnonzero(on)
        start = _pick(base, on, shape)
        whose = _pick(np.asarray(who), on, shape)
        rows = self._rows(start, size)
        inner = rows.size // self.g
        h: Any = np.empty((2, len(pairs) // inner, len(start), inner), dtype=np.uint64)
        facts = {f if isinstance(f, int) else -1 for _, f in pairs}
        f: Any = facts.pop() if len(facts) == 1 and -1 not in facts else np.empty(
            h.shape[1:], dtype=np.uint32)
        for j, (hj, fj) in enumerate(pairs):
            i, k = divmod(j, inner)
            if hj.shape[1:] != shape and active is not None:
                hj = np.broadcast_to(hj, (2, *shape))
            if active is None:
                h[:, i, :, k].reshape(2, *shape)[...] = hj
            else:
                h[:, i, :, k] = hj.reshape(2, -1).take(active, axis=1)
            if not isinstance(f, int):
                f[i, :, k] = fj if isinstance(fj, int) else _pick(fj, on, shape)
        if seen(f) & UNDEF:  # to be told from whatever has its hash
            h = np.where(f & np.uint32(UNDEF), undefined(8).h.reshape(2, 1, 1, 1), h)
        rows, many = rows.flat(), whose if len(rows.at) == 1 else np.tile(whose, len(rows.at))
        h = h.reshape(2, -1, inner)
        if not isinstance(f, int):
            f = f.reshape(-1, inner)
        if not self.put(rows, h, f, many):
            lane = _pick(np.arange(shape[-1]).reshape(1, -1), on, shape)
            place = self._pattern(start, self._warps(whose), lane, size)
            parts = np.stack([combine(key(f"part {j}"), place) for j in range(len(pairs))])
            places = parts.reshape(-1, inner, 2, len(start)).transpose(2, 0, 3, 1)
            self._conflict(rows, h, np.broadcast_to(np.asarray(f, dtype=np.uint32), h.shape[1:]),
                           self._warps(many), places)

    def _warps(self, codes: Codes) -> Codes:
        """The warps of threads that write here."""
        assert self.watch is not None
        return self.watch.order.warp(codes)

    def _pattern(self, start: Index, warp: Any, lane: Any, size: int) -> Any:
        """Each lane's part in its warp's store: number, address, and those of all other lanes."""
        lane = lane.astype(np.uint64) % np.uint64(64)
        byte = (start % self.block_bytes).astype(np.uint64)
        warps, of = np.unique(warp, return_inverse=True)
        low = np.full(len(warps), np.iinfo(np.uint64).max)
        np.minimum.at(low, of, byte)
        both = np.stack([lane, byte - low[of] // np.uint64(128) * np.uint64(128)]).reshape(2, 1, -1)
        mine = combine(key(f"lane's place, {size} bytes"), both)
        total = np.zeros((2, 1, len(warps)), dtype=np.uint64)
        for word in range(2):
            np.add.at(total[word, 0], of, mine[word, 0])
        return combine(key("lane in its store"), mine, total[..., of])

    def _conflict(self, rows: Rows, h: Any, f: Any, warp: Any, place: Any) -> None:
        """Lanes write different trees to one cell.

        A finding, unless all of them are lanes of one warp and a value comes out of an exchange
        between lanes: a reduction that each lane holds in its own order (an arg-max, whose lanes
        agree where there is no NaN). Then the cell holds the hardware's pick, which may depend on
        everything about that store: its width, its lanes, where each of them writes and what. (One
        exchanged value is enough: a lane whose partners hold literals knows what it got.)
        """
        count = h.shape[2]
        index = (rows.at[:, None] * count + np.arange(count)).reshape(-1)
        h, f, warp = h.reshape(2, -1), f.reshape(-1), np.repeat(warp, count)
        bad = (self.h[:, index] != h).any(axis=0)
        cells, group = np.unique(index, return_inverse=True)
        hit = np.zeros(len(cells), dtype=bool)
        hit[group[bad]] = True
        take = hit[group]
        low = np.full(len(cells), np.iinfo(np.int64).max)
        high = np.full(len(cells), -1, dtype=np.int64)
        np.minimum.at(low, group, warp.astype(np.int64))
        np.maximum.at(high, group, warp.astype(np.int64))
        exchanged = np.zeros(len(cells), dtype=bool)
        exchanged[group[(f & EXCH) != 0]] = True
        if some((low != high)[hit]) or not every(exchanged[hit]):
            self.report("write-conflict", f"threads write different values to one byte of "
                                          f"{self.name} in one instruction: which one stays is "
                                          "undefined")
            return
        each = combine(key("lane pick"), h[:, take].reshape(2, 1, -1),
                       place.reshape(2, 1, -1)[..., take])
        total = np.zeros((2, len(cells)), dtype=np.uint64)
        for word in range(2):
            np.add.at(total[word], group[take], each[word, 0])
        facts = np.zeros(len(cells), dtype=np.uint32)
        np.bitwise_or.at(facts, group[take], f[take] & np.uint32(POISON))
        self.h[:, cells[hit]] = mix(total[:, hit].reshape(2, 1, -1)).reshape(2, -1)
        self.f[cells[hit]] = facts[hit] | MNZ
        self.report("lane-pick", "")

    # --- order ---------------------------------------------------------------------------------

    def check_read(self, rows: Rows, mask: Mask | None, who: Any) -> None:
        """Report a read of what others wrote or copies will write, without their order."""
        assert self.watch is not None
        shape = np.broadcast_shapes(rows.at.shape, np.shape(who),
                                    () if mask is None else mask.shape)
        on = None if mask is None else np.broadcast_to(mask, shape)
        rows, whose = Rows(_pick(rows.at, on, shape), rows.size), _pick(np.asarray(who), on, shape)
        if not rows.at.size:
            return
        apart = self.watch.unordered_writes(rows, whose)
        if apart is not None:
            self.watch.race(rows, apart, rows.taken(self.watch.writer, self.g))
            self.report("race-read", f"a value in {self.name} that another thread wrote is "
                                     "read with no barrier in between")
        if self.watch.on_its_way(rows):
            self.report("async-read", f"{self.name} is read where an asynchronous copy has not "
                                      "been waited for")
        self.watch.read(rows, whose)

    def check_write(self, rows: Rows, h: Any, who: Any) -> NDArray[np.bool_] | None:
        """Report a write that races with what others wrote, read or are copying.

        Returns the cells whose writers it is not ordered after.
        """
        assert self.watch is not None
        apart = self.watch.unordered_writes(rows, who)
        if apart is not None and some(apart & self._differs(rows, h)):
            self.report("race-write", f"two threads write different values to one byte of "
                                      f"{self.name} with no barrier in between")
        bad = self.watch.unordered_reads(rows, who)
        if bad is not None:
            bad &= self._differs(rows, h)
            if self.in_turn and some(bad):
                near = self.watch.read_in_warp(rows, who)
                if some(bad & near):
                    self.report("warp-order", "")
                bad &= ~near
            if some(bad):
                self.watch.race(rows, bad, who[:, None])
                self.report("race-overwrite",
                            f"{self.name} is overwritten while another thread may still "
                            "read it (no barrier in between)")
        self._check_in_flight(rows)
        return apart

    def _check_in_flight(self, rows: Rows) -> None:
        assert self.watch is not None
        if self.watch.on_its_way(rows):
            self.report("async-write", f"{self.name} is written where an asynchronous copy is on "
                                       "its way")
        if self.watch.being_read(rows):
            self.report("async-overwrite", f"{self.name} is written while a matrix step or a bulk "
                                           "store may still read it")

    def _differs(self, rows: Rows, h: Any) -> NDArray[np.bool_]:
        return np.asarray((rows.of(self.h, self.g)[:, rows.at] != h).any(axis=0))

    def begin_atomic(self, rows: Rows, who: Any, kind: int) -> None:
        """Atomics of a kind come in any order after what others wrote; nothing may race."""
        if self.watch is None:
            return
        if some(self.watch.before_atomic(rows, who, kind)):
            self.report("race-write", f"{self.name} is updated by an atomic while another thread's "
                                      "write, or atomic of another kind, is not ordered before it")
        if self.watch.unordered_reads(rows, who) is not None:
            self.report("race-overwrite", f"{self.name} is updated by an atomic while another "
                                          "thread may still read it")
        self._check_in_flight(rows)

    def end_atomic(self, rows: Rows, kind: int) -> None:
        """Later accesses must be ordered after every thread's atomic."""
        if self.watch is not None:
            self.watch.after_atomic(rows, kind)

    # --- initial contents ----------------------------------------------------------------------

    def fill_bits(self, bits: Any) -> None:
        """Set the first cells to known bits."""
        bits = np.asarray(bits, dtype=np.uint64) & np.uint64(ones(min(64, 8 * self.g)))
        self.h[0, : len(bits)] = TAG
        self.h[1, : len(bits)] = bits
        self.f[: len(bits)] = CONC

    def fill_hashes(self, h: Any) -> None:
        """Set the first cells to leaves."""
        self.h[:, : h.shape[1]] = h
        self.f[: h.shape[1]] = MNZ


def finer(h: Any, f: Any, granule: int, times: int) -> tuple[Any, Any]:
    """Contents (2, ..., cells) and facts (..., cells) of cells cut in `times` parts each."""
    whole = Hash(h.reshape(2, 1, -1), f.reshape(1, -1), 8 * granule)
    width = 8 * granule // times
    pieces = [hash_of(split(whole, width * i, width)) for i in range(times)]
    n = f.size
    shape = (*f.shape[:-1], f.shape[-1] * times)
    return (np.stack([np.broadcast_to(x, (2, 1, n)) for x, _ in pieces],
                     axis=-1).reshape(2, *shape),
            np.stack([np.broadcast_to(np.asarray(x, dtype=np.uint32), (1, n))
                      for _, x in pieces], axis=-1).reshape(shape))


def _columns(a: NDArray[Any], lead: int) -> NDArray[Any]:
    """Cells of an access, in order, before its lanes: from (lead.., rows, *lanes, cells)."""
    if a.shape[-1] == 1:
        return a[..., 0]
    first = a.transpose(*range(lead + 1), a.ndim - 1, *range(lead + 1, a.ndim - 1))
    return first.reshape(*a.shape[:lead], -1, *a.shape[lead + 1 : -1])


def _pick(a: NDArray[Any], on: Mask | None, shape: tuple[int, ...]) -> NDArray[Any]:
    """The active lanes of an array, flat."""
    if a.shape != shape:
        a = np.broadcast_to(a, shape)
    return a.reshape(-1) if on is None else a[on]


def _settle(index: Index, mask: Mask) -> Index:
    """Point lanes that are off at a cell that some active lane reads."""
    on, full = (mask, index) if mask.shape == index.shape else np.broadcast_arrays(mask, index)
    at = int(on.reshape(-1).argmax())
    return np.where(on, full, full.reshape(-1)[at])
