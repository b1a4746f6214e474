"""How long a loop's state takes to repeat: read off its integer registers, before the proof.

In: a loop, the state at its header, the carried registers that no float runs through. Out: the
leads and periods worth trying, and whether the trip count can be literal. A wrong guess costs a
failed proof, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from checker.core import OPS, Op
from checker.tree.nodes import Node
from checker.tree.poly import Poly, TooLarge
from checker.tree.values import Value
from checker.walk.carried import body, sources
from checker.walk.flow import Loop
from checker.walk.state import GiveUp, State

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Schedule", "schedule"]

MAX_PERIOD = 12
MAX_LEAD = 4  # iterations beyond those that the registers show: what memory holds settles later
STEPS = 30
EARLY = 15  # steps after which what went round four times, any ring once, is taken to go on so


@dataclass(frozen=True, slots=True)
class Schedule:
    """literal: False where a symbol decides the first test, None where that is not known."""

    lead: int
    period: int
    literal: bool | None

    def tries(self, stages: int = 0) -> Iterator[tuple[int, int]]:
        """Return (lead, period) in the order of what they cost.

        stages: of a ring of tiles, which holds those from before the loop until it went round.
        """
        leads = [self.lead + more for more in range(MAX_LEAD + 1)]
        leads.sort(key=lambda lead: lead != stages)
        for period in (self.period, 2 * self.period):
            for lead in leads:
                yield lead, period


def schedule(engine: Engine, loop: Loop, state: State, carried: list[int]) -> Schedule:
    """Return how the integer registers of a loop repeat."""
    ops, pure = _slice(engine, loop)
    watched = [r for r in carried if r in pure]
    tests = [op.guard.reg for op in _exits(engine, loop) if op.guard is not None]
    wanted = sources(ops, [*watched, *tests])
    ops = [op for op in ops if not wanted.isdisjoint(op.dst)]
    literal: bool | None = None
    history: list[list[Value | None]] = []
    kept = engine.state, engine.guard, engine.site
    engine.state = state.copy()
    engine.state.path = engine.forest.true
    try:
        for step in range(STEPS if watched else 1):
            history.append([engine.state.regs[r] for r in watched])
            found = _repeats(history) if step + 1 == EARLY else None
            if found is not None and found[0] + max(4 * found[1], MAX_PERIOD + 1) <= EARLY:
                break
            for op in ops:
                engine.step(op)
            if not step and tests and all(r in pure for r in tests):
                literal = all(_literal(engine.predicate(r)) for r in tests)
    except (GiveUp, TooLarge):
        pass
    finally:
        engine.state, engine.guard, engine.site = kept
    lead, period = _repeats(history) or (0, 1)
    return Schedule(lead, period, literal)


def _literal(p: Node) -> bool:
    return p.op == "lanes"


def _exits(engine: Engine, loop: Loop) -> list[Op]:
    """Return the branches that may leave the loop."""
    out = []
    for b in loop.blocks:
        block = engine.flow.blocks[b]
        if block.end > block.start and any(s not in loop.blocks for s in block.succs):
            out.append(engine.program.ops[block.end - 1])
    return out


def _slice(engine: Engine, loop: Loop) -> tuple[list[Op], set[int]]:
    """Return the operations on integers alone, and the registers that only they write."""
    ops = list(body(engine, loop))
    written = {d for op in ops for d in op.dst}
    impure: set[int] = set()
    grown = True
    while grown:
        grown = False
        for op in ops:
            bad = OPS[op.name].kind not in ("int", "pred", "move", "control") \
                or not impure.isdisjoint(op.reads)
            new = set(op.dst) - impure if bad else set()
            if new:
                impure |= new
                grown = True
    kept = [op for op in ops if op.dst and impure.isdisjoint(op.dst)]
    return kept, written - impure


def _repeats(history: list[list[Value | None]]) -> tuple[int, int] | None:
    """Return after how many iterations the smallest period sets in, and that period."""
    count = len(history)
    lines = [list(line) for line in zip(*history, strict=True)]
    for period in range(1, MAX_PERIOD + 1):
        for lead in range(MAX_PERIOD + 1):
            if lead + 2 * period >= count:
                break
            odd = next((i for i, line in enumerate(lines) if not _steady(line[lead:], period)),
                       None)
            if odd is None:
                return lead, period
            lines.insert(0, lines.pop(odd))  # most likely odd again
    return None


def _steady(values: list[Value | None], period: int) -> bool:
    """Tell whether a register grows by one difference every `period` iterations."""
    for phase in range(period):
        line = values[phase::period]
        gaps = []
        for a, b in pairwise(line):
            if a is None or b is None or isinstance(a, Node) or isinstance(b, Node):
                if isinstance(a, Node) and isinstance(b, Node) and a.op == b.op == "lanes" \
                        and a is not b:
                    return False
                continue
            gaps.append(b.sub(a))
        if any(not _same(x, gaps[0]) for x in gaps[1:]):
            return False
    return True


def _same(a: Poly, b: Poly) -> bool:
    return a.width == b.width and a.same(b)
