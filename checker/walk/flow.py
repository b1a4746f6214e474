"""Blocks, loops and live registers of a program, as the walk needs them.

In: `core.Program`. Out: `Flow`: basic blocks in reverse post-order, natural loops (nested), the
registers live into each block. An irreducible loop raises `GiveUp`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checker.core import OPS, Mem, Op, Program
from checker.walk.state import GiveUp

__all__ = ["Block", "Flow", "Loop", "analyse"]


@dataclass(slots=True)
class Block:
    """Operations [start, end) and the blocks that may follow."""

    index: int
    start: int
    end: int
    succs: list[int] = field(default_factory=list)
    preds: list[int] = field(default_factory=list)
    live_in: int = 0  # bit set of registers
    read_in: int = 0  # of these, those that are read before any write, a guarded one included


@dataclass(slots=True)
class Loop:
    """A natural loop: header, member blocks, the loop around it."""

    header: int
    blocks: set[int]
    parent: Loop | None = None


@dataclass(slots=True)
class Flow:
    """The control flow of one program; `order` is a reverse post-order of reachable blocks.

    doomed: blocks that do nothing and end in a trap; no edge leads there.
    """

    blocks: list[Block]
    order: list[int]
    loops: dict[int, Loop]  # by header
    inner: dict[int, Loop | None]  # innermost loop of a block
    doomed: set[int] = field(default_factory=set)


def analyse(program: Program) -> Flow:
    """Return the control flow of a program."""
    blocks = _blocks(program)
    doomed = _doomed(program, blocks)
    for block in blocks:
        block.succs = [b for b in block.succs if b not in doomed]
        block.preds = [b for b in block.preds if b not in doomed]
    order = _order(blocks)
    live, read = (_live(program, blocks, order, guarded) for guarded in (False, True))
    for block in blocks:
        block.live_in, block.read_in = live[block.index], read[block.index]
    loops = _loops(blocks, order)
    inner: dict[int, Loop | None] = dict.fromkeys(order)
    ranked = sorted(loops.values(), key=lambda lp: -len(lp.blocks))
    for loop in ranked:
        loop.parent = inner[loop.header]
        for b in loop.blocks:
            inner[b] = loop
    return Flow(blocks, order, loops, inner, doomed)


def _doomed(program: Program, blocks: list[Block]) -> set[int]:
    """Blocks from which a trap is all that can come: failed assertions, say."""
    found: set[int] = set()
    grown = True
    while grown:
        before = len(found)
        for block in blocks:
            ops = program.ops[block.start:block.end]
            if not ops or block.index in found or not all(_idle(op) for op in ops):
                continue
            traps = ops[-1].name == "trap" and ops[-1].guard is None
            if traps or (block.succs and found.issuperset(block.succs)):
                found.add(block.index)
        grown = len(found) > before
    return set() if 0 in found else found


def _idle(op: Op) -> bool:
    """Tell whether an operation leaves nothing behind that anybody else could see."""
    if OPS[op.name].kind in ("memory", "sync", "matrix", "opaque"):
        return isinstance(op.attr, Mem) and op.attr.space in ("local", "param")
    return op.name != "exit"


def _targets(op_name: str, attr: object) -> tuple[int, ...]:
    if op_name == "branch":
        assert isinstance(attr, int)
        return (attr,)
    if op_name == "switch":
        assert isinstance(attr, tuple)
        return attr
    return ()


def _blocks(program: Program) -> list[Block]:
    ops = program.ops
    starts = {0, len(ops)}
    for i, op in enumerate(ops):
        if op.name in ("branch", "switch", "exit", "trap"):
            starts.add(i + 1)
            starts.update(_targets(op.name, op.attr))
    edges = sorted(s for s in starts if s <= len(ops))
    at = {s: n for n, s in enumerate(edges)}
    blocks = [Block(n, s, edges[n + 1] if n + 1 < len(edges) else s)
              for n, s in enumerate(edges)]
    for block in blocks:
        if block.end <= block.start:
            continue
        last = ops[block.end - 1]
        block.succs = [at[t] for t in _targets(last.name, last.attr)]
        falls = last.name not in ("branch", "switch", "exit", "trap") or last.guard is not None
        if falls and at[block.end] not in block.succs:
            block.succs.append(at[block.end])
    for block in blocks:
        for s in block.succs:
            blocks[s].preds.append(block.index)
    return blocks


def _order(blocks: list[Block]) -> list[int]:
    seen: set[int] = {0}
    post: list[int] = []
    stack = [(0, iter(blocks[0].succs))]
    while stack:
        node, succs = stack[-1]
        for s in succs:
            if s not in seen:
                seen.add(s)
                stack.append((s, iter(blocks[s].succs)))
                break
        else:
            post.append(node)
            stack.pop()
    return post[::-1]


def _live(program: Program, blocks: list[Block], order: list[int], guarded: bool) -> list[int]:
    """Backward data flow over bit sets of registers; `guarded`: a write under a guard is one."""
    live_in = [0] * len(blocks)
    use: dict[int, int] = {}
    kill: dict[int, int] = {}
    for b in order:
        used = killed = 0
        for op in program.ops[blocks[b].start:blocks[b].end]:
            reads = op.reads
            if op.guard is not None and not guarded:
                reads += op.dst  # the lanes that are off keep the old value
            for r in reads:
                if not killed >> r & 1:
                    used |= 1 << r
            if op.guard is None or guarded:
                for d in op.dst:
                    killed |= 1 << d
        use[b], kill[b] = used, killed
    changed = True
    while changed:
        changed = False
        for b in reversed(order):
            out = 0
            for s in blocks[b].succs:
                out |= live_in[s]
            live = use[b] | (out & ~kill[b])
            if live != live_in[b]:
                live_in[b] = live
                changed = True
    return live_in


def _dominators(blocks: list[Block], order: list[int]) -> dict[int, int]:
    rank = {b: i for i, b in enumerate(order)}
    idom = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            new = -1
            for p in blocks[b].preds:
                if p not in idom:
                    continue
                if new < 0:
                    new = p
                    continue
                x, y = p, new
                while x != y:
                    while rank[x] > rank[y]:
                        x = idom[x]
                    while rank[y] > rank[x]:
                        y = idom[y]
                new = x
            if idom.get(b) != new:
                idom[b] = new
                changed = True
    return idom


def _loops(blocks: list[Block], order: list[int]) -> dict[int, Loop]:
    rank = {b: i for i, b in enumerate(order)}
    idom = _dominators(blocks, order)
    loops: dict[int, Loop] = {}
    for b in order:
        for head in blocks[b].succs:
            if head not in rank or rank[head] > rank[b]:
                continue
            x = b
            while x != head and x != idom[x]:
                x = idom[x]
            if x != head:
                raise GiveUp("irreducible", "a loop with two entries",
                             -1)
            loop = loops.setdefault(head, Loop(head, {head}))
            stack = [b]
            while stack:
                node = stack.pop()
                if node in loop.blocks:
                    continue
                loop.blocks.add(node)
                stack.extend(p for p in blocks[node].preds if p in rank)
    return loops
