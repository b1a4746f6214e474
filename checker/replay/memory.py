"""Memory of the replay: cells of known bits or tree hashes, with who wrote and read them when.

In: byte offsets per lane and values. Out: values. A memory starts with coarse cells and splits them
when an access or a stored value needs finer ones; splitting can be undone by a later join. Order
is checked against `Order` (a vector clock between warps): findings go to the `report` function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.replay.facts import CONC, EXCH, MNZ, POISON, UNDEF, Mask
from checker.replay.hashing import TAG, UNDEF_TAG, combine, key, mix
from checker.replay.order import Order
from checker.replay.result import Unsupported
from checker.replay.values import Conc, Hash, Pack, V, hash_of, make_pack, ones, split

__all__ = ["Cells", "Report"]

Report = Callable[[str, str], None]
SEVERAL, STRANGER = -1, -(1 << 20)  # writers: several warps of this block; other blocks
Index = NDArray[np.int64]


class Cells:
    """A run of memory, one for each of `blocks`; order is checked after `track`.

    `inside`: only one block can reach a cell, so that a barrier of the block settles everything.
    """

    def __init__(self, name: str, size_bytes: int, granule: int, report: Report,
                 order: Order | None = None, blocks: int = 1) -> None:
        self.name, self.size_bytes, self.g = name, size_bytes, granule
        self.blocks = blocks
        self.inside = blocks > 1 or (order is not None and order.blocks == 1)
        self.stride = -(-size_bytes // granule)  # cells of one block
        n = max(1, self.stride * blocks)
        self.h = np.zeros((2, n), dtype=np.uint64)
        self.h[0] = UNDEF_TAG
        self.f = np.full(n, UNDEF, dtype=np.uint32)
        self.report, self.order = report, order
        self.written: NDArray[np.bool_] | None = None
        self.writer: NDArray[np.int32] | None = None  # warp + 1 over all blocks; 0: nobody
        self.wseq: NDArray[np.int32] | None = None
        self.rseq: NDArray[np.int32] | None = None  # latest read
        self.reader: NDArray[np.int32] | None = None  # its warp + 1; -1: several since then
        self.pending: NDArray[np.bool_] | None = None  # an asynchronous copy is on its way
        self.lines: NDArray[np.int32] | None = None  # the line that wrote each cell last
        self.line = 0
        self.reading: NDArray[np.int32] | None = None  # by which asynchronous step
        self.read_only = ""  # why nobody may write here

    def track(self) -> None:
        """Keep the outputs' coverage and the order of accesses."""
        n = self.h.shape[1]
        self.written = np.zeros(n, dtype=bool)
        if self.order is not None:
            self.writer = np.zeros(n, dtype=np.int32)
            self.wseq = np.zeros(n, dtype=np.int32)
            self.rseq = np.zeros(n, dtype=np.int32)
            self.reader = np.zeros(n, dtype=np.int32)
            self.pending = np.zeros(n, dtype=bool)

    # --- granularity ---------------------------------------------------------------------------

    def refine(self, granule: int) -> None:
        """Split cells so that each has `granule` bytes."""
        if granule >= self.g:
            return
        times = self.g // granule
        whole = Hash(self.h.reshape(2, 1, -1), self.f.reshape(1, -1), 8 * self.g)
        pieces = [hash_of(split(whole, 8 * granule * i, 8 * granule)) for i in range(times)]
        n = self.h.shape[1]
        self.h = np.stack([np.broadcast_to(h, (2, 1, n)) for h, _ in pieces],
                          axis=-1).reshape(2, -1)
        self.f = np.stack([np.broadcast_to(np.asarray(f, dtype=np.uint32), (1, n))
                           for _, f in pieces], axis=-1).reshape(-1)
        for name in ("written", "writer", "wseq", "rseq", "reader", "pending", "lines", "reading"):
            old = getattr(self, name)
            if old is not None:
                setattr(self, name, np.repeat(old, times))
        self.g = granule
        self.stride *= times

    def _fit(self, v_bytes: int) -> None:
        if v_bytes % self.g:
            self.refine(int(np.gcd(v_bytes, self.g)))

    # --- access --------------------------------------------------------------------------------

    def load(self, block: Any, offset: Index, width: int, mask: Mask | None,
             warp: Any, align: int) -> V:
        """`width` bits at each lane's byte offset; lanes that are off get anything."""
        return self.load_many(block, offset, width, 1, mask, warp, align)[0]

    def load_many(self, block: Any, offset: Index, width: int, count: int, mask: Mask | None,
                  warp: Any, align: int) -> list[V]:
        """`count` neighbouring elements of `width` bits."""
        self._fit(int(np.gcd(width // 8, align)))
        base = block * self.stride + offset // self.g
        if mask is not None:
            base = _settle(base, mask)
        each = width // 8 // self.g
        if each * count == 1:
            if self.writer is not None:
                self._check_read(base, mask, warp)
            return [self._cell(self.h.take(base, axis=1), self.f[base])]
        index = base + np.arange(each * count).reshape(-1, *(1,) * base.ndim)
        if self.writer is not None:
            self._check_read(index, mask, warp)
        h, f = self.h.take(index, axis=1), self.f[index]
        uniform = int(f.flat[0])
        cells = [self._cell(h[:, j], f[j]) for j in range(each * count)] if (
            f != uniform).any() else [self._plain(h[:, j], uniform) for j in range(each * count)]
        if each == 1:
            return cells
        return [make_pack(cells[i * each : (i + 1) * each]) for i in range(count)]

    def _cell(self, h: Any, f: Any) -> V:
        first = int(f.flat[0])
        if (f == first).all():
            return self._plain(h, first)
        return Hash(h, f, 8 * self.g)

    def _plain(self, h: Any, fact: int) -> V:
        if fact & CONC and self.g <= 8:
            return Conc(h[1], 8 * self.g)
        return Hash(h, fact, 8 * self.g)

    def store(self, block: Any, offset: Index, v: V, mask: Mask | None, warp: Any,
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
        self._fit(step)
        base = block * self.stride + offset // self.g
        count = size // self.g
        pairs = [hash_of(split(v, 8 * self.g * j, 8 * self.g)) for j in range(count)]
        shape = np.broadcast_shapes(base.shape, np.shape(warp),
                                    () if mask is None else mask.shape,
                                    *(h.shape[1:] for h, _ in pairs))
        on = None if mask is None else np.broadcast_to(mask, shape)
        lanes = int(np.prod(shape)) if on is None else int(np.count_nonzero(on))
        index = np.empty((count, lanes), dtype=np.int64)
        h = np.empty((2, count, lanes), dtype=np.uint64)
        f = np.empty((count, lanes), dtype=np.uint32)
        start = _pick(base, on, shape)
        for j, (hj, fj) in enumerate(pairs):
            index[j] = start + j
            h[0, j], h[1, j] = _pick(hj[0], on, shape), _pick(hj[1], on, shape)
            f[j] = fj if isinstance(fj, int) else _pick(fj, on, shape)
        who = _pick(np.asarray(warp), on, shape)
        flat, many = index.reshape(-1), who if count == 1 else np.tile(who, count)
        if not self.put(flat, h.reshape(2, -1), f.reshape(-1), many):
            lane = _pick(np.arange(shape[-1]).reshape(1, -1), on, shape)
            place = self._pattern(start, who, lane, size)
            places = np.concatenate([combine(key(f"part {j}"), place) for j in range(count)],
                                    axis=-1)
            self._conflict(flat, h.reshape(2, -1), f.reshape(-1), many, places)

    def _pattern(self, start: Index, warp: Any, lane: Any, size: int) -> Any:
        """Each lane's part in its warp's store: number, address, and those of all other lanes."""
        lane = lane.astype(np.uint64) % np.uint64(64)
        byte = start.astype(np.uint64) * np.uint64(self.g)
        warps, of = np.unique(warp, return_inverse=True)
        low = np.full(len(warps), np.iinfo(np.uint64).max)
        np.minimum.at(low, of, byte)
        both = np.stack([lane, byte - low[of] // np.uint64(128) * np.uint64(128)]).reshape(2, 1, -1)
        mine = combine(key(f"lane's place, {size} bytes"), both)
        every = np.zeros((2, 1, len(warps)), dtype=np.uint64)
        for word in range(2):
            np.add.at(every[word, 0], of, mine[word, 0])
        return combine(key("lane in its store"), mine, every[..., of])

    def put(self, index: Index, h: Any, f: Any, warp: Any) -> bool:
        """Write cells (flat arrays), checking order; whether no two lanes disagree."""
        if self.writer is not None:
            self.check_write(index, h, warp)
        self.h[:, index] = h
        self.f[index] = f
        if self.written is not None:
            self.written[index] = True
        if self.lines is not None:
            self.lines[index] = self.line
        return not (index.size > 1 and ((self.h[0].take(index) != h[0]).any()
                                        or (self.h[1].take(index) != h[1]).any()))

    def _conflict(self, index: Index, h: Any, f: Any, warp: Any, place: Any) -> None:
        """Lanes write different trees to one cell.

        A finding, unless all of them are lanes of one warp and every value comes out of an exchange
        between lanes: a reduction that each lane holds in its own order (an arg-max, whose lanes
        agree where there is no NaN). Then the cell holds the hardware's pick, which may depend on
        everything about that store: its width, its lanes, where each of them writes and what.
        """
        bad = (self.h[:, index] != h).any(axis=0)
        cells, group = np.unique(index, return_inverse=True)
        hit = np.zeros(len(cells), dtype=bool)
        hit[group[bad]] = True
        take = hit[group]
        low = np.full(len(cells), np.iinfo(np.int64).max)
        high = np.full(len(cells), -1, dtype=np.int64)
        np.minimum.at(low, group, warp.astype(np.int64))
        np.maximum.at(high, group, warp.astype(np.int64))
        if (low != high)[hit].any() or ((f[take] & EXCH) == 0).any():
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

    def _check_read(self, index: Index, mask: Mask | None, warp: Any) -> None:
        assert self.writer is not None
        assert self.wseq is not None
        assert self.order is not None
        assert self.rseq is not None
        assert self.reader is not None
        assert self.pending is not None
        shape = np.broadcast_shapes(index.shape, np.shape(warp),
                                    () if mask is None else mask.shape)
        full = np.broadcast_to(index, shape)
        who = np.broadcast_to(warp, shape)
        if mask is not None:
            on = np.broadcast_to(mask, shape)
            full, who = full[on], who[on]
        else:
            full, who = full.reshape(-1), who.reshape(-1)
        if not full.size:
            return
        seq = self.wseq[full]
        if not self.order.settled(seq, self.inside):
            bad = ~self.order.knows(who, self.writer[full], seq)
            if bad.any():
                self.report("race-read", f"a value in {self.name} that another warp wrote is read "
                                         "with no barrier in between")
        if self.pending.any() and self.pending[full].any():
            self.report("async-read", f"{self.name} is read where an asynchronous copy has not "
                                      "been waited for")
        now = self.order.now
        old_seq, old = self.rseq[full], self.reader[full]
        same = (old == who + 1) | (old_seq < now)
        self.reader[full] = np.where(same, who + 1, -1)
        if full.size > 1:
            again = self.reader[full]
            mixed = (again != who + 1) & (again >= 0)
            if mixed.any():
                self.reader[full[mixed]] = -1
        # a read in an older, unordered epoch by another warp must not be forgotten
        if not self.order.settled(old_seq, self.inside):
            lost = (old != 0) & (old != who + 1) & ~self.order.knows(who, old, old_seq)
            if lost.any():
                self.reader[full[lost]] = -1
        self.rseq[full] = now

    def check_write(self, index: Index, h: Any, warp: Any) -> None:
        """Report a write that races with what other warps wrote, read or are copying."""
        assert self.writer is not None
        assert self.wseq is not None
        assert self.order is not None
        assert self.rseq is not None
        assert self.reader is not None
        assert self.pending is not None
        seq = self.wseq[index]
        if not self.order.settled(seq, self.inside):
            bad = ~self.order.knows(warp, self.writer[index], seq)
            if bad.any():
                differ = (self.h[:, index] != h).any(axis=0)
                if (bad & differ).any():
                    self.report("race-write", f"two warps write different values to one byte of "
                                              f"{self.name} with no barrier in between")
        rseq = self.rseq[index]
        if not self.order.settled(rseq, self.inside):
            reader = self.reader[index]
            bad = (reader != 0) & ~self.order.knows(warp, reader, rseq)
            if bad.any():
                differ = (self.h[:, index] != h).any(axis=0)
                if (bad & differ).any():
                    self.report("race-overwrite",
                                f"{self.name} is overwritten while another warp may still read "
                                "it (no barrier in between)")
        if self.pending.any() and self.pending[index].any():
            self.report("async-write", f"{self.name} is written where an asynchronous copy is on "
                                       "its way")
        if self.reading is not None and self.reading[index].any():
            self.report("async-overwrite", f"{self.name} is written while a matrix step may still "
                                           "read it")
        self.writer[index] = warp + 1
        self.wseq[index] = self.order.now

    def begin_reading(self, index: Index, number: int) -> None:
        """An asynchronous step starts to read these cells."""
        if self.reading is None:
            self.reading = np.zeros(self.h.shape[1], dtype=np.int32)
        self.reading[index] = number

    def end_reading(self, index: Index, granule: int, number: int) -> None:
        """The step is done (a later step may read them still)."""
        assert self.reading is not None
        times = granule // self.g
        if times > 1:
            index = (index[:, None] * times + np.arange(times)).reshape(-1)
        mine = self.reading[index] == number
        self.reading[index[mine]] = 0

    def begin_atomic(self, index: Index, warp: Any) -> None:
        """Atomics come in any order after what other warps wrote before; nothing else may race."""
        if self.writer is None or self.wseq is None or self.order is None:
            return
        last, seq = self.writer[index], self.wseq[index]
        bad = (last >= 0) & ~self.order.knows(warp, np.maximum(last, 0), seq)
        if bad.any():
            self.report("race-write", f"{self.name} is updated by an atomic while another warp's "
                                      "write is not ordered before it")

    def end_atomic(self, index: Index) -> None:
        """Later accesses must be ordered after every warp's atomic."""
        if self.writer is not None and self.wseq is not None and self.order is not None:
            self.writer[index] = SEVERAL if self.inside else STRANGER
            self.wseq[index] = self.order.now

    def reads_until_now(self, index: Index, granule: int, warps: NDArray[np.int32]) -> None:
        """An asynchronous read ended just now, as far as this warp of each block knows."""
        assert self.rseq is not None
        assert self.reader is not None
        assert self.order is not None
        times = granule // self.g
        if times > 1:
            index = (index[:, None] * times + np.arange(times)).reshape(-1)
        self.rseq[index] = self.order.now
        self.reader[index] = warps[index // self.stride] + 1

    # --- initial contents ----------------------------------------------------------------------

    def fill_bits(self, bits: Any) -> None:
        """Set every cell to known bits."""
        self.h[0] = TAG
        self.h[1] = np.asarray(bits, dtype=np.uint64) & np.uint64(ones(min(64, 8 * self.g)))
        self.f[:] = CONC

    def fill_hashes(self, h: Any) -> None:
        """Set every cell to a leaf."""
        self.h[:] = h
        self.f[:] = MNZ


def _pick(a: NDArray[Any], on: Mask | None, shape: tuple[int, ...]) -> NDArray[Any]:
    """The active lanes of an array, flat."""
    if a.shape != shape:
        a = np.broadcast_to(a, shape)
    return a.reshape(-1) if on is None else a[on]


def _settle(index: Index, mask: Mask) -> Index:
    """Point lanes that are off at a cell that some active lane reads."""
    shape = np.broadcast_shapes(index.shape, mask.shape)
    on = np.broadcast_to(mask, shape)
    full = np.broadcast_to(index, shape)
    at = int(on.reshape(-1).argmax())
    return np.where(on, full, full.reshape(-1)[at])
