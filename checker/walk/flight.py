"""Matrix steps of a warp group under way: what they still write and read, and on which paths.

In: issues, commits and waits. Out: findings where a register or a shared byte is used that a step
may still write or read. A step is over where a wait was for its group; a commit on a path closes a
group there only. Groups that a part of the threads closes or waits for are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.core import Op
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Flight", "Flights", "Issued"]


@dataclass(frozen=True, slots=True)
class Issued:
    """A step: registers that it writes and reads, shared bytes that it reads.

    path: where it was issued. over: where it was waited for.
    """

    writes: tuple[int, ...]
    reads: tuple[int, ...]
    index: tuple[Any, ...]
    path: Node
    over: Node

    def like(self, other: Issued) -> bool:
        """Tell whether another step is the same but for what it computes."""
        return (self.writes, self.reads, len(self.index)) == (
            other.writes, other.reads, len(other.index)) and self.path is other.path \
            and self.over is other.over and all(
                np.array_equal(a, b) for a, b in zip(self.index, other.index, strict=True))


@dataclass(slots=True)
class Flight:
    """The steps under way: in groups (of each group: where it was closed), or in none yet.

    waited: those of closed groups that were waited for on some paths only.
    """

    open: list[Issued] = field(default_factory=list)
    groups: list[list[Issued]] = field(default_factory=list)
    commits: list[Node] = field(default_factory=list)
    waited: list[Issued] = field(default_factory=list)

    def copy(self) -> Flight:
        """Return an independent copy."""
        return Flight(list(self.open), [list(g) for g in self.groups], list(self.commits),
                      list(self.waited))

    def steps(self) -> Iterator[Issued]:
        """Yield all steps."""
        for part in (*self.groups, self.open, self.waited):
            yield from part

    def like(self, other: Flight) -> bool:
        """Tell whether the same steps are under way, in the same groups on the same paths."""
        mine, theirs = ((*f.groups, f.open, f.waited) for f in (self, other))
        return len(mine) == len(theirs) and len(self.commits) == len(other.commits) and all(
            a is b for a, b in zip(self.commits, other.commits, strict=True)) and all(
            len(a) == len(b) and all(x.like(y) for x, y in zip(a, b, strict=True))
            for a, b in zip(mine, theirs, strict=True))


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
        self.registers = frozenset(r for s in self.state.steps() for r in (*s.writes, *s.reads))

    def _where(self) -> Node:
        """Return the condition under which the present operation acts."""
        if self.engine.by_cases:  # each path has its own memory
            return self.engine.forest.true
        return self.engine.memory.active()[1]

    # -- issue, commit, wait
    def issue(self, writes: Iterable[Any], reads: Iterable[Any], index: Sequence[Any]) -> None:
        """A step was issued."""
        named = [tuple(r for r in part if isinstance(r, int)) for part in (writes, reads)]
        self.state.open.append(Issued(named[0], named[1], tuple(index), self._where(),
                                      self.engine.forest.false))
        self._noted()

    def _everyone(self) -> bool:
        lanes, cond = self.engine.memory.active()
        if bool(lanes.all()) and cond.uniform:
            return True
        self.engine.unmodelled("matrix steps that a part of the threads groups or waits for")
        return False

    def commit(self, op: Op) -> None:
        """Close a group; steps that it may not hold stay open."""
        if not self._everyone():
            return
        cond, state = self._where(), self.state
        sure = [self.engine.logic.implies(conjuncts(s.path), cond) for s in state.open]
        state.groups.append([s for s, yes in zip(state.open, sure, strict=True) if yes])
        state.commits.append(cond)
        state.open = [s for s, yes in zip(state.open, sure, strict=True) if not yes]

    def wait(self, op: Op) -> None:
        """All but the last `keep` groups are over on the present path."""
        if not self._everyone():
            return
        keep, cond, state = int(op.attr[1]), self._where(), self.state
        done = [] if keep else state.waited
        state.waited = state.waited if keep else []
        for number, group in enumerate(state.groups):
            ready = [self._closed_since(s, number) >= keep for s in group]
            done += [s for s, yes in zip(group, ready, strict=True) if yes]
            state.groups[number] = [s for s, yes in zip(group, ready, strict=True) if not yes]
        while state.groups and not state.groups[0] and len(state.groups) > keep:
            del state.groups[0], state.commits[0]
        for step in done:
            self._ended(step, cond)
        self._noted()

    def _closed_since(self, step: Issued, number: int) -> int:
        """Return how many groups were closed for certain after a step's own."""
        known = (*conjuncts(self.engine.state.path), *conjuncts(step.path))
        return sum(self.engine.logic.implies(known, c) for c in self.state.commits[number + 1:])

    def _ended(self, step: Issued, cond: Node) -> None:
        logic, shared = self.engine.logic, self.engine.memory.shared
        over = logic.disjunction([step.over, cond])
        for index in step.index:
            shared.read[0, index], shared.read[1, index] = shared.epoch
            shared.reader[index] = -2
        if not logic.implies(conjuncts(step.path), over):
            self.state.waited.append(replace(step, over=over))
            return
        for index in step.index:
            shared.busy[index] -= 1

    # -- what may not be touched
    def _may_run(self, step: Issued, known: Sequence[Node]) -> bool:
        logic = self.engine.logic
        return not logic.implies(known, step.over) \
            and not logic.implies(known, logic.negate(step.path))

    def check(self, op: Op) -> None:
        """Report registers of an operation that steps under way still write, or still read.

        Steps that write the same registers keep their order.
        """
        engine = self.engine
        reads = {s for s in op.src if isinstance(s, int)}
        if op.guard is not None:
            reads.add(op.guard.reg)
        writes = set(op.dst)
        known = conjuncts(engine.memory.active()[1])
        wgmma = op.name == "mma" and op.attr.unit == "wgmma"
        operands = {s for s in op.src[:op.attr.a.regs] if isinstance(s, int)} if wgmma else reads
        for step in self.state.steps():
            chain = wgmma and step.writes == tuple(op.dst)
            read = operands if chain else reads
            if read.isdisjoint(step.writes) and (chain or writes.isdisjoint(step.writes)) \
                    and writes.isdisjoint(step.reads):
                continue
            if not self._may_run(step, known):
                continue
            if not read.isdisjoint(step.writes):
                engine.problem("race", "a register is read while a matrix step may still write it")
            else:
                engine.problem("race", "a register is overwritten while a matrix step may still "
                                       "use it")

    def over(self) -> list[Any]:
        """Return the shared bytes of steps that are over on the present path, or are not on it."""
        known = conjuncts(self.engine.memory.active()[1])
        return [index for step in self.state.steps() if not self._may_run(step, known)
                for index in step.index]

    # -- loops
    def depends(self, mask: int) -> bool:
        """Tell whether a step is under way where some symbols decide."""
        nodes = [*self.state.commits, *(n for s in self.state.steps() for n in (s.path, s.over))]
        return any(n.deps & mask & ~LOW_BITS for n in nodes)

    def after_loop(self, ends: Sequence[Flight], mask: int) -> None:
        """A loop is over: what is under way at any of its ends is, whichever was the last.

        mask: the loop's symbols, of which nothing is known behind it.
        """
        forest, logic, mask = self.engine.forest, self.engine.logic, mask & ~LOW_BITS

        def behind(step: Issued) -> Issued:
            path = logic.conjunction([p for p in conjuncts(step.path) if not p.deps & mask])
            return replace(step, path=path,
                           over=forest.false if step.over.deps & mask else step.over)

        depth = max(len(end.groups) for end in ends)
        out = Flight(groups=[[] for _ in range(depth)])
        for end in ends:
            parts = [*out.groups[depth - len(end.groups):], out.open, out.waited]
            for into, part in zip(parts, (*end.groups, end.open, end.waited), strict=True):
                for step in map(behind, part):
                    if not any(step.like(other) for other in into):
                        into.append(step)
        for number in range(-depth, 0):  # counted from the last one
            conds = {end.commits[number] if len(end.groups) >= -number else forest.false
                     for end in ends}
            cond = conds.pop()
            out.commits.append(forest.false if conds or cond.deps & mask else cond)
        self._reading(self.state, -1)
        self._reading(out, 1)
        self.restore(out)

    def _reading(self, state: Flight, times: int) -> None:
        shared = self.engine.memory.shared
        for step in state.steps():
            for index in step.index:
                shared._grow(int(index.max()) + 1)
                shared.busy[index] += times
