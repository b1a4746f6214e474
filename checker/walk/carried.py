"""Which registers a loop carries: through its body, through floats, through idle lanes.

In: a loop of a program. Out: sets of registers. Nothing here is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from checker.core import OPS, Op
from checker.walk.flow import Loop

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["body", "carried", "cyclic", "idle", "sources", "summed", "unasked"]

#: kinds of operations that do nothing but write registers
_PURE = frozenset({"int", "pred", "float", "cvt", "move", "lane"})


def body(engine: Engine, loop: Loop) -> Iterator[Op]:
    """Return a loop's operations, in the order of the program's blocks."""
    for b in engine.flow.order:
        if b in loop.blocks:
            block = engine.flow.blocks[b]
            yield from engine.program.ops[block.start:block.end]


def carried(engine: Engine, loop: Loop) -> list[int]:
    """Return the registers that an iteration hands to the next."""
    live = engine.flow.blocks[loop.header].live_in
    written = {d for op in body(engine, loop) for d in op.dst}
    return sorted(r for r in written if live >> r & 1)


def idle(engine: Engine, loop: Loop, registers: list[int]) -> set[int]:
    """Return those that reach the next iteration in lanes which a guarded load leaves out."""
    read = engine.flow.blocks[loop.header].read_in
    writers: dict[int, list[Op]] = {}
    for op in body(engine, loop):
        for d in op.dst:
            writers.setdefault(d, []).append(op)
    return {r for r in registers if not read >> r & 1
            and all(op.name == "load" and op.guard is not None for op in writers[r])}


def cyclic(engine: Engine, loop: Loop) -> set[int]:
    """Return the registers in a cyclic dependence with a float or matrix operation in it."""
    ops = list(body(engine, loop))
    after = _after(ops)
    found: set[int] = set()
    for op in ops:
        kind = OPS[op.name].kind
        if kind not in ("float", "matrix", "cvt"):
            continue
        for r in {*op.reads} - found:
            if any(after[d] >> r & 1 for d in op.dst if d in after and (kind != "cvt" or d != r)):
                found.update(x for x, bits in after.items() if after[r] >> x & 1 and bits >> r & 1)
    return found


def _after(ops: list[Op]) -> dict[int, int]:
    """Return which registers depend on each register that operations read, as bit sets."""
    after: dict[int, int] = {}
    grown = True
    while grown:
        grown = False
        for op in reversed(ops):
            given = 0
            for d in op.dst:
                given |= 1 << d | after.get(d, 0)
            for r in op.reads:
                old = after.get(r, 0)
                if old | given != old or r not in after:
                    after[r] = old | given
                    grown = True
    return after


def summed(engine: Engine, loop: Loop) -> set[int]:
    """Return the registers that a loop's body reads for matrix steps to add to alone.

    What such a step gives is read for no other purpose there either. In which lanes the running
    values are alike decides nothing then, and mostly they are so in none.
    """
    ops = list(body(engine, loop))
    sums = {r for op in ops if op.name == "mma" and op.attr.c.source == "regs"
            for r in _added_to(op)}
    others = {op.guard.reg for op in ops if op.guard is not None}
    moves: list[tuple[int, tuple[int, ...]]] = []
    for op in ops:
        reads = [s for s in op.src if isinstance(s, int)]
        if op.name == "mma":
            added = _added_to(op) if op.attr.c.source == "regs" else []
            for r in added:
                reads.remove(r)
                moves += [(r, op.dst)]
        elif op.name == "mov" and len(op.dst) == len(reads) == 1:
            moves.append((reads[0], op.dst))
            continue
        others.update(reads)
    grown = True
    while grown:  # what goes on into something else is read for that
        more = {r for r, dst in moves if not others.isdisjoint(dst)} - others
        others |= more
        grown = bool(more)
    return sums - others


def unasked(engine: Engine, loop: Loop, handed: Iterable[int]) -> frozenset[int]:
    """Return the operations of a loop, by place, that only running values are made of.

    What they give decides neither where an effect happens nor what is written or copied, nor any
    of the registers `handed` to the next iteration: the state that an iteration leaves, running
    values aside, is known without it. Of reads of shared memory only that they happen counts.
    """
    blocks = engine.flow.blocks
    ops = {i: engine.program.ops[i] for b in loop.blocks
           for i in range(blocks[b].start, blocks[b].end)}
    needed, left = set(handed), dict(ops)
    for i, op in ops.items():
        reads = _effects(op)
        if reads is None:
            reads = op.reads
            del left[i]
        needed.update(reads)
    needed = sources(left.values(), needed)
    return frozenset(i for i, op in left.items() if needed.isdisjoint(op.dst))


def sources(ops: Collection[Op], registers: Iterable[int]) -> set[int]:
    """Return registers with all that they depend on, in this iteration or in an earlier one."""
    found, count = set(registers), -1
    while count < len(found):
        count = len(found)
        for op in reversed([*ops]):
            if not found.isdisjoint(op.dst):
                found.update(op.reads)
    return found


def _effects(op: Op) -> list[int] | None:
    """Return the registers on which an operation's effects hang but for what it writes to others.

    None: an operation that has effects beside reading shared memory.
    """
    if OPS[op.name].kind in _PURE:
        return []
    guard = [] if op.guard is None else [op.guard.reg]
    if op.name == "ldmatrix" or (op.name == "load" and op.attr.space == "shared"):
        places = op.src[:1]
    elif op.name == "mma" and op.attr.unit != "tcgen05" and op.attr.c.source == "regs":
        a, b = op.attr.a, op.attr.b
        places = op.src[:0 if a.source == "regs" else 1]
        if b.source != "regs":
            at = a.regs if a.source == "regs" else 1
            places = (*places, op.src[at])
    else:
        return None
    return [*guard, *(s for s in places if isinstance(s, int))]


def _added_to(op: Op) -> list[int]:
    """Return the registers that a matrix step adds to."""
    before = sum(x.regs if x.source == "regs" else 1 for x in (op.attr.a, op.attr.b))
    return [s for s in op.src[before:before + op.attr.c.regs] if isinstance(s, int)]
