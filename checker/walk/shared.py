"""Shared memory of one block: every byte knows which lane of which value it came from.

In: literal addresses for each lane, values, barriers. Out: the value that each lane reads, as lane
gathers of what was stored. A read that no barrier orders after another lane's write is reported,
so is a write over bytes that another lane read since the last barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from checker.arrays import every, greatest, places, some
from checker.tree.contexts import each_once
from checker.tree.hashing import key
from checker.tree.logic import Logic
from checker.tree.nodes import Node
from checker.tree.poly import constant
from checker.tree.values import Value, Values
from checker.walk.state import GiveUp

__all__ = ["Shared"]

Table = npt.NDArray[Any]  # of integers
_NOBODY = -1
_SEVERAL = -2
_OF_WARP = -16  # less the number of a warp: several lanes of it
_SPAN = 1 << 20  # more than the bytes of shared memory, of one entry too
_GONE = -4  # written by a lane that is known, with a value that is not
_LOST = -3  # written in both states that a loop's general state stands for, but not alike


class Shared:
    """The shared bytes of a block; `report(code, message)` is told of missing barriers."""

    def __init__(self, values: Values, warp: int, report: Callable[[str, str], None],
                 alone: bool = False) -> None:
        """Start with nothing written; alone: the block has one warp."""
        self.values = values
        self.warp = warp
        # who stands for all lanes
        self.anyone: Any = np.int32(_OF_WARP if alone else _SEVERAL)
        self.report = report
        self.entries: list[Value] = []
        self.conds: list[Node | None] = []  # the path on which an entry was written
        self.seen_as: Callable[[Node, Value, bool], Value] = lambda _cond, value, _here: value
        self.unfold: Callable[[int, int, int], None] = lambda *_: None
        self.size = 0
        self.writer = np.zeros(0, dtype=np.int32)
        self.lane = np.zeros(0, dtype=np.int32)
        self.off = np.zeros(0, dtype=np.int32)
        self.wrote = np.zeros((2, 0), dtype=np.int32)  # epoch of the last write: block, warp
        self.read = np.zeros((2, 0), dtype=np.int32)  # epoch of the last read
        self.reader = np.zeros(0, dtype=np.int32)
        # epochs of what is followed by the last write (or read), and ordered on some path only
        self.early_write = np.zeros((2, 0), dtype=np.int32)
        self.early_read = np.zeros((2, 0), dtype=np.int32)
        self.busy = np.zeros(0, dtype=np.int32)  # matrix steps under way that read
        self.pending = np.zeros(0, dtype=np.int32)  # asynchronous copies under way
        self.moved = np.zeros((2, 512), dtype=np.int32)  # tensor memory: last store, load's epoch
        self.epoch = [1, 1]
        self.sure = [1, 1]  # what lies before is ordered on every path
        self.perhaps: list[tuple[Node, list[int]]] = []  # barriers on a path, and the epoch after
        self.lingering: dict[Node, npt.NDArray[np.bool_]] = {}  # copies waited for on a path only
        self.touched: set[Node] = set()  # the paths of accesses since the last sure barrier
        self.holds: Callable[..., bool] = lambda _cond, _path=None: False
        self.here: Callable[[], Node | None] = lambda: None
        self.over: Callable[[], list[Table]] = list  # matrix steps that do not read here

    def copy(self) -> Shared:
        """Return an independent copy (entries are shared, they never change)."""
        other = Shared(self.values, self.warp, self.report, self.anyone == _OF_WARP)
        other.entries = list(self.entries)
        other.conds = list(self.conds)
        other.seen_as, other.unfold = self.seen_as, self.unfold
        other.size = self.size
        for name in ("writer", "lane", "off", "wrote", "read", "reader", "early_write",
                     "early_read", "pending", "busy", "moved"):
            setattr(other, name, getattr(self, name).copy())
        other.epoch, other.sure = list(self.epoch), list(self.sure)
        other.perhaps, other.touched = list(self.perhaps), set(self.touched)
        other.holds, other.here, other.over = self.holds, self.here, self.over
        other.lingering = {c: b.copy() for c, b in self.lingering.items()}
        return other

    def _grow(self, size: int) -> None:
        if size <= self.size:
            return
        if size > _SPAN:
            raise GiveUp("shared", "an address outside of shared memory", -1)
        more = max(size, self.size + self.size // 4, 4096) - self.size  # states are copied often
        pad = np.zeros(more, dtype=np.int32)
        self.writer = np.concatenate((self.writer, pad + _NOBODY))
        self.lane = np.concatenate((self.lane, pad))
        self.off = np.concatenate((self.off, pad))
        self.reader = np.concatenate((self.reader, pad + _NOBODY))
        self.pending = np.concatenate((self.pending, pad))
        self.busy = np.concatenate((self.busy, pad))
        two = np.zeros((2, more), dtype=np.int32)
        self.wrote = np.concatenate((self.wrote, two), axis=1)
        self.early_write = np.concatenate((self.early_write, two), axis=1)
        self.early_read = np.concatenate((self.early_read, two), axis=1)
        self.read = np.concatenate((self.read, two), axis=1)
        self.size += more

    # -- order
    def barrier(self, warp_only: bool, cond: Node | None = None) -> None:
        """All lanes (of a warp) have come so far, if `cond` holds (None: always).

        Where all that it is to order ran on paths on which `cond` holds, it orders for sure. One
        that some lanes of a path come to, and others do not, orders nothing.
        """
        if cond is not None and not cond.uniform:
            return
        if cond is not None and all(self.holds(cond, path) for path in self.touched):
            cond = None
        for level in (1,) if warp_only else (0, 1):
            self.epoch[level] += 1
        after = [self.sure[0] if warp_only else self.epoch[0], self.epoch[1]]
        if cond is not None:
            self.perhaps.append((cond, after))
        else:
            self.sure = after
            if not warp_only:
                self.perhaps, self.touched = [], set()

    def ordered(self) -> list[int]:
        """Return the epochs before which all is ordered on the present path: block, warp."""
        out = list(self.sure)
        for cond, after in self.perhaps:
            if self.holds(cond):
                out = [max(a, b) for a, b in zip(out, after, strict=True)]
        return out

    def touch(self) -> None:
        """Something that barriers order happens on the present path."""
        path = self.here()
        if path is not None:
            self.touched.add(path)

    def unordered_writes(self, index: Table, me: Table) -> Any:
        """Which of some bytes others may write at the same time as `me` accesses them."""
        return self._any_unordered(self.wrote, self._writers, self.early_write, index, me)

    def unordered_reads(self, index: Table, me: Table) -> Any:
        """Which of some bytes others may read at the same time as `me` writes them."""
        return self._any_unordered(self.read, self.reader.take, self.early_read, index, me)

    def _any_unordered(self, epochs: Table, who: Callable[[Table], Table], early: Table,
                       index: Table, me: Table) -> Any:
        """Which of some bytes `who` of them may access at the same time as `me`."""
        self.touch()
        late = self._unordered(epochs, who, index, me)
        if self.perhaps:
            late = late | self._unordered(early, lambda _index: self.anyone, index, me)
        return late

    def _writers(self, index: Table) -> Table:
        return np.where(self.writer[index] != _NOBODY, self.lane[index], _NOBODY)

    def _followed(self, early: Table, epochs: Table, who: Table, index: Table, me: Table) -> None:
        """`me` follows earlier accesses: they count where no barrier orders them on every path."""
        if not self.perhaps:
            return
        old = epochs.take(index, axis=1)
        kept = (who != _NOBODY) & (who != me) & (old[0] >= self.sure[0])
        for level in (0, 1):
            np.maximum.at(early[level], index[kept], old[level][kept])

    def write_by(self, index: Table, me: Table) -> None:
        """`me` writes bytes now."""
        self._followed(self.early_write, self.wrote, self._writers(index), index, me)
        self.lane[index] = np.broadcast_to(me, index.shape)
        self.wrote[0][index], self.wrote[1][index] = self.epoch

    def read_by(self, index: Table, me: Table) -> None:
        """`me` reads bytes now."""
        self._followed(self.early_read, self.read, self.reader[index], index, me)
        me = np.broadcast_to(me, index.shape)
        old, warp = self.reader[index], me // self.warp
        again = (self.read[0, index] >= self.ordered()[0]) & (old != me)
        apart = again & (self._warp_of(old) != warp)
        self.reader[index] = warp  # the last of those that read a byte now
        apart |= self.reader[index] != warp
        self.reader[index] = me
        again |= self.reader[index] != me
        self.reader[index[again]] = _OF_WARP - warp[again]
        self.reader[index[apart]] = _SEVERAL
        self.read[0][index], self.read[1][index] = self.epoch

    def _warp_of(self, who: Any) -> Any:
        """Return the warp of a lane, or of several; negative: of none, or of more than one."""
        return np.where(who > _OF_WARP, who // self.warp, _OF_WARP - who)

    def _unordered(self, epochs: Table, who: Callable[[Table], Table], index: Table, me: Table
                   ) -> Any:
        """Which accesses at these epochs may run at the same time as one by `me`."""
        block, warp = self.ordered()
        of_block, of_warp = epochs[0].take(index) >= block, epochs[1].take(index) >= warp
        if not some(of_block) and not some(of_warp):
            return of_block  # all are ordered, whoever made them
        them = who(index)
        late = np.where(self._warp_of(them) == me // self.warp, of_warp, of_block)
        return late & (them != me) & (them != _NOBODY)

    def copying(self, index: Table, more: int) -> None:
        """So many copies more are under way to some bytes."""
        if len(each_once(index)) == index.size:
            self.pending[index] += more
        else:
            np.add.at(self.pending, index, more)  # lanes copy to one byte

    def linger(self, cond: Node, index: Table) -> None:
        """Copies to these bytes are done where `cond` holds; elsewhere they are under way."""
        marks = self.lingering.get(cond, np.zeros(0, dtype=bool))
        if len(marks) < self.size:
            marks = np.concatenate((marks, np.zeros(self.size - len(marks), dtype=bool)))
        marks[index] = True
        self.lingering[cond] = marks

    def waited(self, cond: Node, logic: Logic) -> None:
        """Where `cond` holds, everything was waited for: copies linger where nothing else does."""
        before, self.lingering = self.lingering, {}
        for done, marks in before.items():
            either = logic.disjunction([done, cond])
            if either is not self.values.forest.true:
                self.linger(either, places(marks))

    def under_way(self, index: Table) -> bool:
        """Tell whether an asynchronous copy may still write some of these bytes."""
        if some(self.pending[index]):
            return True
        for cond, marks in self.lingering.items():  # who waited need not be who looks
            inside = index[index < len(marks)]
            if some(marks[inside]) and not (cond.uniform and self.holds(cond)):
                return True
        return False

    def still_read(self, index: Table) -> bool:
        """Tell whether a matrix step (or a copy out of shared memory) may still read some bytes."""
        if not some(self.busy[index]):
            return False
        busy = self.busy.copy()
        for done in self.over():
            busy[done] -= 1
        return some(busy[index])

    # -- access
    def _bytes(self, address: Table, count: int, active: npt.NDArray[np.bool_]) -> Table:
        lanes = places(active)
        if len(lanes):
            self._grow(greatest(address[lanes]) + count)
        return address[lanes, None] + np.arange(count)

    def look(self, index: Table, lanes: Table) -> bool:
        """These lanes read bytes [1, width]; tells whether others may still write them."""
        self._grow(greatest(index) + 1)
        index = np.broadcast_to(index, (len(lanes), index.shape[1]))
        late = self.unordered_writes(index, lanes[:, None])
        self.read_by(index, lanes[:, None])
        return some(late)

    def store(self, address: Table, value: Value, active: npt.NDArray[np.bool_],
              cond: Node | None = None, part: str = "") -> None:
        """Write a value's bytes at each active lane's address.

        cond: the path it is on. part: which part of which kind of instruction it is.
        """
        count = value.width // 8
        index = self._bytes(address, count, active)
        if not index.size:
            return
        me = places(active)[:, None]
        if some(self.unordered_reads(index, me)):
            self.report("race", "shared bytes are overwritten while another lane may read them")
        if self.still_read(index):
            self.report("race", "shared bytes are overwritten while a matrix step reads them")
        if self.under_way(index):
            self.report("race", "shared bytes are overwritten while a copy may still write them")
        if some(self.unordered_writes(index, me)):
            self.report("race", "two lanes write one shared address with no barrier between")
        if len(each_once(index)) != index.size:
            value = self._agreed(index, value, active, part)
            self.read_by(index, me)  # whoever writes there next has to wait for each of them
        entry = len(self.entries)
        self.entries.append(value)
        self.conds.append(cond)
        self.write_by(index, me)
        self.writer[index] = entry
        self.off[index] = np.broadcast_to(np.arange(count), index.shape)

    def _agreed(self, index: Table, value: Value, active: npt.NDArray[np.bool_], part: str
                ) -> Value:
        """Return what stays where lanes of one store write one place.

        Lanes of one warp that hold one reduction, each in its own order, leave the hardware's pick
        (premise lane-pick): a function of the store's width, places, lanes and values, and of the
        part of it that this is.
        """
        node = self.values.node(value)
        lanes = places(active)
        row = np.broadcast_to(node.h, (2, len(active)))[:, lanes]
        groups: dict[int, list[int]] = {}
        for i, start in enumerate(index[:, 0].tolist()):
            groups.setdefault(start, []).append(i)
        if index.shape[1] > 1 and len(np.unique(index)) != len(groups) * index.shape[1]:
            self.report("race", "two lanes write shared bytes that overlap in part")
        torn = [lanes[g] for g in groups.values() if some(row[:, g] != row[:, g[:1]])]
        if not torn:
            return value
        size = len(torn[0])
        if not _exchanged(node) or any(
                len(g) != size or len(np.unique(g // self.warp)) > 1 for g in torn):
            self.report("unmodelled", "two lanes write one shared address, trees differ")
            return value
        where = np.zeros(len(active), dtype=np.int64)
        table = np.tile(np.arange(len(active), dtype=np.int64), (size, 1))
        for g in torn:
            warp = lanes // self.warp == g[0] // self.warp
            store = np.stack((lanes[warp] % self.warp, index[warp, 0])).astype("<i8").tobytes()
            name = f"{g[0] % self.warp}|{part}|{store.hex()}"
            where[g] = int(key(name)[0, 0].view(np.int64))
            table[:, g] = g[:, None]
        forest = self.values.forest
        parts = [forest.gather(node, t) for t in table]
        pick = forest.make("pick", str(size), width=value.width,
                           args=(forest.number(constant(64, where)), *parts))
        self.report("lane-pick", "")
        torn_lanes = np.isin(np.arange(len(active)), np.concatenate(torn))
        return self.values.mux(np.where(torn_lanes, 0, 1).astype(np.int64), [pick, value])

    def load(self, address: Table, width: int, active: npt.NDArray[np.bool_],
             peek: bool = False) -> Value:
        """Return `width` bits at each active lane's address; a peek leaves no trace."""
        count = width // 8
        index = self._bytes(address, count, active)
        if not index.size:
            return self.values.undefined(width)
        if not peek:
            self._look(index, active)
        return self._pieces(self.writer[index], self.lane[index], self.off[index], count, active)

    def look_at(self, address: Table, width: int, active: npt.NDArray[np.bool_]) -> None:
        """Read `width` bits at each active lane's address, whatever they are."""
        index = self._bytes(address, width // 8, active)
        if index.size:
            self._look(index, active)

    def _look(self, index: Table, active: npt.NDArray[np.bool_]) -> None:
        """Each active lane reads its bytes [active lanes, width]."""
        me = places(active)[:, None]
        if some(self.unordered_writes(index, me)):
            self.report("race", "a shared read that no barrier orders after another lane's write")
        if self.under_way(index):
            self.report("race", "a shared read while an asynchronous copy may still write there")
        self.read_by(index, me)

    def _pieces(self, writer: Table, lane: Table, off: Table, count: int,
                active: npt.NDArray[np.bool_]) -> Value:
        if some(writer == _LOST):
            raise GiveUp("loop", "shared bytes that no general iteration describes")
        grain = _grain(writer, lane, off, count)
        parts = [self._chunk(writer[:, i], lane[:, i], off[:, i], grain, active)
                 for i in range(0, count, grain)]
        return parts[0] if len(parts) == 1 else self.values.pack(parts)

    def _chunk(self, writer: Table, lane: Table, off: Table, grain: int,
               active: npt.NDArray[np.bool_]) -> Value:
        """Return `grain` bytes that lie together in one stored value of one lane."""
        values = self.values
        total = len(active)
        lanes = places(active)
        sources, which = _each_once(_codes(writer, off))
        table = np.zeros(total, dtype=np.int64)
        table[lanes] = lane
        options: list[Value] = []
        for source in sources.tolist():
            if source < 0:
                options.append(values.undefined(8 * grain))
                continue
            whole = self.entries[source // _SPAN]
            if isinstance(whole, Node) and whole.op == "tile":
                raise GiveUp("tensor-copy", "a tile is read by other than a matrix step")
            chosen = lanes[which == len(options)]
            part = self._seen(source, 8 * grain, every(table[chosen] == chosen))
            mine = table.copy()
            keep = np.zeros(total, dtype=bool)
            keep[chosen] = True
            mine[~keep] = table[chosen[0]]
            options.append(values.gather(part, mine))
        if len(options) == 1:
            return options[0]
        pick = np.zeros(total, dtype=np.int64)
        pick[lanes] = which
        return values.mux(pick, options)

    def _seen(self, source: int, width: int, own: bool) -> Value:
        """Return bits of an entry as they are read here; own: by the lanes that wrote them.

        What another lane wrote on a path that lanes part is there where that lane took it.
        """
        entry, first = divmod(source, _SPAN)
        part = self.values.extract(self.entries[entry], 8 * first, width)
        cond = self.conds[entry]
        if cond is None:
            return part
        return self.seen_as(cond, part, own or cond.uniform)

    def elements(self, at: Table, size: int, readers: Table, span: int = 0,
                 issuer: int | None = None) -> tuple[list[Value], Table] | None:
        """Return where elements [k][n] come from: stored parts, and [k][n][part, lane].

        readers: which n each lane reads, [times][lane]. span: bytes of a row under the swizzle by
        which they are read (0: none). issuer: the lane that reads for all others, up to a time that
        all wait for (`busy`).
        """
        self.unfold_at(at, size, span)
        index = at[..., None] + np.arange(size)
        writer, lane, off = (x.take(index) for x in (self.writer, self.lane, self.off))
        together = (writer == writer[..., :1]) & (lane == lane[..., :1]) & (
            off == off[..., :1] + np.arange(size))
        if some(writer == _LOST):
            raise GiveUp("loop", "shared bytes that no general iteration describes")
        if not every(together) or some(writer < 0):
            return None
        self.look_at_elements(index, readers, issuer)
        code, which = np.unique(_codes(writer[..., 0], off[..., 0]), return_inverse=True)
        parts: list[Value] = []
        for c in code.tolist():
            whole = self.entries[c // _SPAN]
            if isinstance(whole, Node) and whole.op == "tile":
                raise GiveUp("tensor-copy", "a tile that is read without a swizzle")
            parts.append(self._seen(c, 8 * size, own=False))
        return parts, np.stack((which.reshape(at.shape), lane[..., 0]), axis=-1)

    def unfold_at(self, at: Table, size: int, span: int) -> None:
        """Give the bytes of elements [k][n] under a swizzle to the elements of their tiles."""
        self._grow(greatest(at) + size)
        for entry in each_once(self.writer[at].astype(np.int64) + 1).tolist() if span else ():
            tile = self.entries[entry - 1] if entry else None
            if isinstance(tile, Node) and tile.op == "tile":
                self.unfold(entry - 1, size, span)

    def look_at_elements(self, index: Table, readers: Table, issuer: int | None) -> None:
        """Matrix steps read elements [k][n][byte] (`elements`)."""
        if self._read_early(index, readers, issuer):
            self.report("race", "a matrix step reads bytes that no barrier orders")
        if self.under_way(index):
            self.report("race", "a matrix step reads while a copy may still write there")
        if issuer is None:
            self.reader[index] = _SEVERAL
            self.read[0][index], self.read[1][index] = self.epoch

    def _read_early(self, index: Table, readers: Table, issuer: int | None) -> bool:
        """Tell whether bytes [k][n][byte] may still be written while lanes read some of them."""
        self.touch()
        block, warp = self.ordered()
        writes = [self.wrote.take(index, axis=1)]
        writes += [self.early_write.take(index, axis=1)] if self.perhaps else []
        if not any(some(w[0] >= block) or some(w[1] >= warp) for w in writes):
            return False  # whoever reads
        return any(some(self.unordered_writes(index[:, n], (
            np.arange(len(n)) if issuer is None else np.full(len(n), issuer))[None, :, None]))
            for n in readers)

    def known(self, address: Table, width: int, active: npt.NDArray[np.bool_]) -> bool:
        """Tell whether all those bytes were written."""
        index = self._bytes(address, width // 8, active)
        return every(self.writer[index] >= 0)

    def held(self) -> list[int]:
        """Return the numbers of the entries of which bytes are there."""
        held: list[int] = each_once(self.writer[self.writer >= 0].astype(np.int64)).tolist()
        return held

    # -- loops
    def generalise(self, other: Shared, value: Callable[[Value, Value], Value | None]) -> Shared:
        """Return the bytes of two states as one, by `value`; what does not agree is unknown."""
        self._grow(other.size)
        out = other.copy()
        out._grow(self.size)
        size = self.size
        mine, theirs = self.writer[:size], out.writer[:size]
        alike = (mine >= 0) & (theirs >= 0) & (self.lane[:size] == out.lane[:size]) & (
            self.off[:size] == out.off[:size])
        writer = np.where((mine == _GONE) | (theirs == _GONE), np.int32(_GONE), np.int32(_NOBODY))
        writer = np.where((mine >= 0) | (theirs >= 0), np.int32(_LOST), writer)
        for x, y in _pairs(mine[alike], theirs[alike]):
            made = value(self.entries[x], other.entries[y])
            cond, late = self.conds[x], other.conds[y]
            if made is None or (cond is None) != (late is None):
                continue
            if cond is not None and late is not None:
                both = value(cond, late)
                if not isinstance(both, Node):
                    continue
                cond = both
            where = alike & (mine == x) & (theirs == y)
            if made is other.entries[y] and cond is late:
                writer[where] = y
                continue
            writer[where] = len(out.entries)
            out.entries.append(made)
            out.conds.append(cond)
        out.writer[:size] = writer
        out.writer[size:][out.writer[size:] >= 0] = _GONE
        return out

    def met(self, other: Shared, same: Callable[[Value, Value], bool]) -> Shared | None:
        """Return what both of two states are, whichever it is; None where that is not shown.

        Only reads may have happened since the last barrier.
        """
        since = [[a - b for a, b in zip(s.epoch, s.sure, strict=True)] for s in (self, other)]
        if since[0] != since[1] or self._under_way() or other._under_way():
            return None
        out = self.generalise(other, lambda x, y: x if same(x, y) else None)
        size = self.size
        mine, theirs = (_late(s.read[:, :size], s.sure) for s in (self, out))
        reads = self.read + np.subtract(out.epoch, self.epoch).astype(np.int32)[:, None]
        both = mine & theirs & (self.reader != out.reader[:size])
        out.reader[:size][both] = _SEVERAL
        out.reader[:size][mine & ~theirs] = self.reader[mine & ~theirs]
        out.read[:, :size] = np.where(mine, np.maximum(reads, out.read[:, :size]),
                                      out.read[:, :size])
        out.touched |= self.touched
        return out

    def _under_way(self) -> bool:
        """Tell whether anything but a read may run at the same time as what follows."""
        return bool(self.perhaps or self.lingering) or some(_late(self.wrote, self.sure)) \
            or any(map(some, (self.early_write, self.early_read, self.busy, self.pending,
                              self.moved >= self.sure[0])))

    def forget(self, before: Shared) -> None:
        """Drop what a loop wrote: nobody knows which iteration was the last."""
        self._grow(before.size)
        changed = self.writer[:before.size] != before.writer
        changed = np.concatenate((changed, self.writer[before.size:] != _NOBODY))
        self.writer[changed] = _GONE

    def land(self, index: Table, lanes: Table) -> None:
        """A copy of unknown values is done: bytes [lanes, width] hold what nobody knows."""
        self.touch()
        self.write_by(index, lanes[:, None])
        self.writer[index] = _GONE

    def matches(self, after: Shared, same: Callable[[Value, Value], bool]) -> bool:
        """Tell whether another state holds all that this one knows."""
        known = places(self.writer >= 0)
        if not len(known):
            return True
        if int(known[-1]) >= after.size:
            return False
        w = after.writer[known]
        if some(w < 0) or some(after.lane[known] != self.lane[known]) \
                or some(after.off[known] != self.off[known]):
            return False
        for x, y in _pairs(self.writer[known], w):
            one, two = self.conds[x], after.conds[y]
            if not same(self.entries[x], after.entries[y]) or (one is None) != (two is None) \
                    or (one is not None and two is not None and not same(one, two)):
                return False
        return True


def _late(epochs: Table, sure: list[int]) -> Table:
    """Return where accesses are not ordered before what follows."""
    late: Table = (epochs[0] >= sure[0]) | (epochs[1] >= sure[1])
    return late


def _codes(writer: Table, off: Table) -> Table:
    """Return numbers for the places in entries that bytes come from."""
    codes: Table = writer.astype(np.int64) * _SPAN + off
    return codes


def _each_once(codes: Table) -> tuple[Table, Table]:
    """Return numbers, each once, and which of these stands where; mostly there is just one."""
    if every(codes == codes[0]):
        return codes[:1], np.zeros(len(codes), dtype=np.int64)
    return np.unique(codes, return_inverse=True)


def _pairs(one: Table, two: Table) -> list[tuple[int, int]]:
    """Return the pairs of entries (not negative) that stand side by side, each once, in order."""
    codes = one.astype(np.int64) << 32 | two
    return [divmod(code, 1 << 32) for code in each_once(codes).tolist()]


def _exchanged(node: Node) -> bool:
    """Tell whether a value comes out of an exchange between lanes."""
    seen: set[int] = set()
    work = [node]
    while work:
        node = work.pop()
        if node.op == "gather":
            return True
        if node.serial not in seen:
            seen.add(node.serial)
            work.extend(node.args)
    return False


def _grain(writer: Table, lane: Table, off: Table, count: int) -> int:
    """Return the largest power-of-two chunk that lies together in every lane."""
    grain = count
    while grain > 1:
        if count % grain == 0:
            w = writer.reshape(len(writer), -1, grain)
            ln = lane.reshape(w.shape)
            o = off.reshape(w.shape)
            together = (w == w[:, :, :1]) & (ln == ln[:, :, :1]) & (
                o == o[:, :, :1] + np.arange(grain))
            if every(together | ((w < 0) & (w[:, :, :1] < 0))):
                return grain
        grain //= 2
    return 1

