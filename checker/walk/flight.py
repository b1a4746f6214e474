"""Matrix steps and moves of tensor memory under way: what they write and read, on which paths.

In: issues, commits and waits. Out: findings where a register, a column of tensor memory (a register
here) or a shared byte is used that a step may still write or read. A step is over where a wait was
for it, or for its group; a commit on a path closes a group there only. Groups that a part of the
threads closes or waits for are not modelled. A register that a load of tensor memory still writes
rests on the premise `tmem-waits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, greatest
from checker.core import Op
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node

if TYPE_CHECKING:
    from checker.walk.engine import Engine
    from checker.walk.tiles import TileState

__all__ = ["Flight", "Flights", "Issued", "alike"]


@dataclass(frozen=True, slots=True)
class Issued:
    """A step: registers that it writes and reads, shared bytes that it reads.

    path: where it was issued. over: where it was waited for. lane: that issued it, where it is one.
    """

    writes: tuple[int, ...]
    reads: tuple[int, ...]
    index: tuple[Any, ...]
    path: Node
    over: Node
    lane: int = -1

    def like(self, other: Issued) -> bool:
        """Tell whether another step is the same but for what it computes."""
        return (self.writes, self.reads, self.lane, len(self.index)) == (
            other.writes, other.reads, other.lane, len(other.index)) and self.path is other.path \
            and self.over is other.over and all(
                np.array_equal(a, b) for a, b in zip(self.index, other.index, strict=True))


@dataclass(slots=True)
class Flight:
    """The steps under way: in groups (of each group: where it was closed), or in none yet.

    waited: those of closed groups that were waited for on some paths only. lost: steps on tensor
    memory that nobody can wait for any more on some paths. loads, stores: moves of tensor memory.
    """

    open: list[Issued] = field(default_factory=list)
    groups: list[list[Issued]] = field(default_factory=list)
    commits: list[Node] = field(default_factory=list)
    waited: list[Issued] = field(default_factory=list)
    lost: list[Issued] = field(default_factory=list)
    loads: list[Issued] = field(default_factory=list)
    stores: list[Issued] = field(default_factory=list)

    def loose(self) -> tuple[list[Issued], ...]:
        """Return the parts that are no groups."""
        return self.open, self.waited, self.lost, self.loads, self.stores

    def copy(self) -> Flight:
        """Return an independent copy."""
        return Flight(list(self.open), [list(g) for g in self.groups], list(self.commits),
                      *(list(part) for part in self.loose()[1:]))

    def steps(self) -> Iterator[Issued]:
        """Yield all steps."""
        for part in (*self.groups, *self.loose()):
            yield from part

    def like(self, other: Flight) -> bool:
        """Tell whether the same steps are under way, in the same groups on the same paths."""
        mine, theirs = ((*f.groups, *f.loose()) for f in (self, other))
        return len(mine) == len(theirs) and len(self.commits) == len(other.commits) and all(
            a is b for a, b in zip(self.commits, other.commits, strict=True)) and all(
            alike(a, b) for a, b in zip(mine, theirs, strict=True))


def alike(one: Sequence[Issued], two: Sequence[Issued]) -> bool:
    """Tell whether two lists hold the same steps."""
    return len(one) == len(two) and all(x.like(y) for x, y in zip(one, two, strict=True))


class Flights:
    """Keeps the steps under way for one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state = Flight()
        self.registers: frozenset[int] = frozenset()  # that steps under way write or read

    def restore(self, state: Flight) -> None:
        """Go back to a copy of an earlier state."""
        self.state = state.copy()
        self._noted()

    def _noted(self) -> None:
        first = self.engine.tensor.first  # columns are looked at one by one
        self.registers = frozenset(r for s in self.state.steps() for r in (*s.writes, *s.reads)
                                   if r < first)

    def where(self) -> Node:
        """Return when the present operation acts, among all that share the present memory."""
        engine = self.engine
        return engine.logic.given(engine.memory.active()[1], conjuncts(engine.case_path))

    # -- issue, commit, wait
    def issue(self, into: list[Issued], writes: Iterable[Any], reads: Iterable[Any],
              index: Sequence[Any] = (), lane: int = -1) -> None:
        """A step was issued: it is under way in one of the lists."""
        named = [tuple(r for r in part if isinstance(r, int)) for part in (writes, reads)]
        into.append(Issued(named[0], named[1], tuple(index), self.where(),
                           self.engine.forest.false, lane))
        self._noted()

    def _everyone(self) -> bool:
        lanes, cond = self.engine.memory.active()
        if every(lanes) and cond.uniform:
            return True
        self.engine.unmodelled("matrix steps that a part of the threads groups or waits for")
        return False

    def commit(self, op: Op) -> None:
        """Close a group; steps that it may not hold stay open."""
        if not self._everyone():
            return
        cond, state = self.where(), self.state
        sure = [self.engine.logic.implies(conjuncts(s.path), cond) for s in state.open]
        state.groups.append([s for s, yes in zip(state.open, sure, strict=True) if yes])
        state.commits.append(cond)
        state.open = [s for s, yes in zip(state.open, sure, strict=True) if not yes]

    def wait(self, op: Op) -> None:
        """All but the last `keep` groups are over on the present path."""
        if not self._everyone():
            return
        keep, cond, state = int(op.attr[1]), self.where(), self.state
        shared = self.engine.memory.shared
        done = [] if keep else state.waited
        state.waited = state.waited if keep else []
        for number, group in enumerate(state.groups):
            ready = [self._closed_since(s, number) >= keep for s in group]
            done += [s for s, yes in zip(group, ready, strict=True) if yes]
            state.groups[number] = [s for s, yes in zip(group, ready, strict=True) if not yes]
        while state.groups and not state.groups[0] and len(state.groups) > keep:
            del state.groups[0], state.commits[0]
        for step in done:
            for index in step.index:
                shared.read[0, index], shared.read[1, index] = shared.epoch
                shared.reader[index] = -2
        state.waited += self.ended(done, cond)
        self._noted()

    def _closed_since(self, step: Issued, number: int) -> int:
        """Return how many groups were closed for certain after a step's own."""
        known = (*conjuncts(self.engine.state.path), *conjuncts(step.path))
        return sum(self.engine.logic.implies(known, c) for c in self.state.commits[number + 1:])

    def ended(self, steps: Iterable[Issued], cond: Node) -> list[Issued]:
        """Steps are over where `cond` holds; returns those that may be under way elsewhere."""
        logic, left = self.engine.logic, []
        for step in steps:
            over = logic.disjunction([step.over, cond])
            if not logic.implies(conjuncts(step.path), over):
                left.append(replace(step, over=over))
                continue
            for index in step.index:
                self.engine.memory.shared.busy[index] -= 1
        return left

    def moved(self, steps: list[Issued]) -> None:
        """Each thread waits for its own moves of tensor memory, of one kind."""
        lanes, cond = self.engine.memory.active()
        if not every(lanes) or not cond.uniform:
            return  # a part of the threads: the others' moves are under way
        shared = self.engine.memory.shared
        first = self.engine.tensor.first
        for step in steps:
            for row, part in enumerate((step.writes, step.reads)):
                shared.moved[row, [r - first for r in part if r >= first]] = shared.epoch[0]
        steps[:] = self.ended(steps, self.where())
        self._noted()

    def _all(self) -> list[Issued]:
        tiles = self.engine.tiles.state
        return [*self.state.steps(), *tiles.committed(), *(s for p in tiles.loose() for s in p)]

    # -- what may not be touched
    def _may_run(self, step: Issued, known: Sequence[Node]) -> bool:
        logic = self.engine.logic
        return not logic.implies(known, step.over) \
            and not logic.implies(known, logic.negate(step.path))

    def check(self, op: Op) -> None:
        """Report registers of an operation that steps under way still write, or still read.

        Steps of a warp group that write the same registers keep their order.
        """
        first = self.engine.tensor.first
        reads = {s for s in op.reads if s < first}
        writes = {d for d in op.dst if d < first}
        chain = tuple(op.dst) if op.name == "mma" and op.attr.unit == "wgmma" else None
        operands = {s for s in op.src[:op.attr.a.regs] if isinstance(s, int)} if chain else reads
        self._touched(reads, writes, self.state.steps(), chain, operands)

    def columns(self, reads: Iterable[int], writes: Iterable[int], steps: Iterable[Issued]) -> None:
        """Report columns of tensor memory that steps under way still write, or still read."""
        self._touched(set(reads), set(writes), steps, memory=True)

    def _touched(self, reads: set[int], writes: set[int], steps: Iterable[Issued],
                 chain: tuple[int, ...] | None = None, operands: set[int] | None = None,
                 memory: bool = False) -> None:
        engine = self.engine
        known = conjuncts(engine.memory.active()[1])
        for step in steps:
            same = chain is not None and step.writes == chain
            early = not (operands or set() if same else reads).isdisjoint(step.writes)
            late = (not same and not writes.isdisjoint(step.writes)) \
                or not writes.isdisjoint(step.reads)
            if not (early or late) or not self._may_run(step, known):
                continue
            if memory:
                what = "a matrix step" if step.index else "another move"
                engine.problem("race", f"tensor memory is used while {what} may still use it")
            elif not step.index:  # a load of tensor memory: the assembler waits for its registers
                engine.found.premises.add("tmem-waits")
            elif early:
                engine.problem("race", "a register is read while a matrix step may still write it")
            else:
                engine.problem("race", "a register is overwritten while a matrix step may still "
                                       "use it")

    def over(self) -> list[Any]:
        """Return the shared bytes of steps that are over on the present path, or are not on it."""
        known = conjuncts(self.engine.memory.active()[1])
        return [index for step in self._all() if step.index and not self._may_run(step, known)
                for index in step.index]

    # -- loops
    def depends(self, mask: int) -> bool:
        """Tell whether a step is under way where some symbols decide."""
        nodes = [*self.state.commits, *(n for s in self._all() for n in (s.path, s.over))]
        return any(n.deps & mask & ~LOW_BITS for n in nodes)

    def after_loop(self, ends: Sequence[tuple[Flight, TileState]], mask: int) -> None:
        """A loop is over: what is under way at any of its ends is, whichever was the last.

        Mbarriers are forgotten there, and with them who waits for what they stand for. mask: the
        loop's symbols, of which nothing is known behind it.
        """
        forest, logic, mask = self.engine.forest, self.engine.logic, mask & ~LOW_BITS
        tiles, before = self.engine.tiles.state, self._all()

        def behind(step: Issued) -> Issued:
            path = logic.conjunction([p for p in conjuncts(step.path) if not p.deps & mask])
            return replace(step, path=path,
                           over=forest.false if step.over.deps & mask else step.over)

        depth = max(len(end.groups) for end, _tiles in ends)
        out = Flight(groups=[[] for _ in range(depth)])
        loose: tuple[list[Issued], ...] = ([], [], [])
        for end, state in ends:
            parts = ((*out.groups[depth - len(end.groups):], *out.loose(), *loose, out.lost),
                     (*end.groups, *end.loose(), *state.loose(), state.committed()))
            for into, part in zip(*parts, strict=True):
                for step in map(behind, part):
                    if not any(step.like(other) for other in into):
                        into.append(step)
        for number in range(-depth, 0):  # counted from the last one
            conds = {end.commits[number] if len(end.groups) >= -number else forest.false
                     for end, _tiles in ends}
            cond = conds.pop()
            out.commits.append(forest.false if conds or cond.deps & mask else cond)
        self._reading(before, -1)
        self._reading([*out.steps(), *(s for part in loose for s in part)], 1)
        tiles.issued, tiles.stores, tiles.closed = loose
        self.restore(out)

    def _reading(self, steps: Iterable[Issued], times: int) -> None:
        shared = self.engine.memory.shared
        for step in steps:
            for index in step.index:
                shared._grow(greatest(index) + 1)
                shared.busy[index] += times
