"""Runs of like operations that may be done at once, although other operations lie between them.

In: a program and its basic blocks. Out: places of the operations of each run. An operation moves
past others only inside one stretch of straight-line code, where registers (and memory, as `crosses`
says) do not tell the difference: to the last one of its run (`runs`) or to the first (`early`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from checker.core import Op, Program

__all__ = ["Kind", "control", "early", "runs"]

_CONTROL = frozenset({"branch", "switch", "exit", "trap", "barrier", "mbar_test"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What is collected.

    key: operations with equal keys share a run; None: not one of these. crosses: whether one of
    these may be delayed past another operation, registers aside. chained: whether operations of a
    run may touch each other's registers; who does the run then sees to their order.
    """

    key: Callable[[Op], Hashable | None]
    crosses: Callable[[Op], bool]
    chained: bool = False


@dataclass(slots=True)
class _Open:
    """A run that is still being collected, and what it reads and writes."""

    key: Hashable
    places: list[int] = field(default_factory=list)
    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


def control(op: Op) -> bool:
    """Whether an operation may change which lanes are active."""
    return op.name in _CONTROL


def runs(program: Program, block_of: Sequence[int], kind: Kind) -> Iterator[list[int]]:
    """The runs of at least two operations, in order."""
    now: _Open | None = None
    keys = _frequent([kind.key(op) for op in program.ops], 2)
    for at, op in enumerate(program.ops if keys else ()):
        key = keys[at]
        if now is None and key is None:
            continue
        read, written = _registers(op)
        if now is not None and (
                control(op) or block_of[at] != block_of[now.places[0]]
                or (key != now.key and not kind.crosses(op))
                or (not (key == now.key and kind.chained) and _conflict(now, read, written))):
            if len(now.places) > 1:
                yield now.places
            now = None
        if key is None or (now is not None and key != now.key):
            continue
        now = now or _Open(key)
        now.places.append(at)
        now.read.update(read)
        now.written.update(written)
    if now is not None and len(now.places) > 1:
        yield now.places


def early(program: Program, block_of: Sequence[int], key: Callable[[Op], Hashable | None],
          delayed: Sequence[Sequence[int]] = (), least: int = 2) -> Iterator[list[int]]:
    """Runs of operations on registers only, all of which may happen where the first one stands.

    delayed: runs that happen where their last operation stands. least: operations of a run.
    """
    keys = _frequent([key(op) for op in program.ops], least)
    late = {places[-1]: places for places in delayed}
    opened: dict[Hashable, list[int]] = {}
    read_at: dict[int, int] = {}  # where a register was read last, since a run was opened
    written_at: dict[int, int] = {}
    block = -1
    for at, op in enumerate(program.ops if keys else ()):
        if control(op) or block_of[at] != block:
            yield from (run for run in opened.values() if len(run) >= least)
            opened, block = {}, block_of[at]
        name = keys[at]
        if name is None and not opened:
            continue
        read, written = _registers(op)
        for earlier in late.get(at, ()):
            more = _registers(program.ops[earlier])
            read, written = [*read, *more[0]], [*written, *more[1]]
        if name is not None:
            mine = opened.get(name)
            if mine is not None and (
                    any(written_at.get(r, -1) >= mine[0] for r in read)
                    or any(max(read_at.get(r, -1), written_at.get(r, -1)) >= mine[0]
                           for r in written)):
                if len(mine) >= least:
                    yield mine
                mine = None
            if mine is None:
                mine = opened[name] = []
            mine.append(at)
        for r in read:
            read_at[r] = at
        for r in written:
            written_at[r] = at
    yield from (run for run in opened.values() if len(run) >= least)


def _frequent(keys: list[Hashable | None], least: int) -> list[Hashable | None]:
    """The keys, None for those that are there less often than that; empty if all are."""
    count = Counter(keys)
    rare = {name for name, times in count.items() if times < least}
    if len(rare | {None}) == len(count.keys() | {None}):
        return []
    return [None if name in rare else name for name in keys] if rare else keys


def _conflict(run: _Open, read: Sequence[int], written: Sequence[int]) -> bool:
    """Whether doing the run after an operation, not before it, would be another program."""
    return not (run.written.isdisjoint(read) and run.written.isdisjoint(written)
                and run.read.isdisjoint(written))


def _registers(op: Op) -> tuple[Sequence[int], Sequence[int]]:
    """What an operation reads and writes; under a guard what it writes is read, too."""
    return op.reads if op.guard is None else [*op.reads, *op.dst], op.dst
