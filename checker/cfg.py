"""Control flow of a `Program`: blocks, order, immediate post-dominators, natural loops.

In: a lowered program. Out: `Cfg`. Block `len(blocks)` stands for the end. `order` is a topological
order of the loop nest (every loop contiguous, exits after it), which is what a scheduler of
divergent lanes needs to reconverge. All traversals are iterative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from checker.core import Op, Program

__all__ = ["Block", "Cfg", "Loop", "build_cfg"]


@dataclass(frozen=True, slots=True)
class Block:
    """Operations [start, end) and the blocks that may follow."""

    index: int
    start: int
    end: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: header block, blocks of the body (header included), latches, depth from 1."""

    header: int
    body: frozenset[int]
    latches: tuple[int, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Cfg:
    """Blocks; `block_of[op]`; `postdom[block]`; `order[block]`; loops, outermost first."""

    blocks: tuple[Block, ...]
    block_of: tuple[int, ...]
    postdom: tuple[int, ...]
    order: tuple[int, ...]
    loops: tuple[Loop, ...]

    @property
    def end(self) -> int:
        """The number of the virtual end block."""
        return len(self.blocks)


def _targets(op: Op) -> tuple[int, ...]:
    if op.name == "branch":
        return (int(op.attr),)
    if op.name == "switch":
        return tuple(int(t) for t in op.attr)
    return ()


def _falls_through(op: Op) -> bool:
    return op.guard is not None or op.name not in ("branch", "switch", "exit", "trap")


def build_cfg(program: Program) -> Cfg:
    """Analyse a program."""
    ops = program.ops
    leaders = {0}
    for i, op in enumerate(ops):
        if op.name in ("branch", "switch", "exit", "trap"):
            leaders.add(i + 1)
            leaders.update(_targets(op))
    starts = sorted(s for s in leaders if s < len(ops))
    index = {s: n for n, s in enumerate(starts)}
    end = len(starts)
    index[len(ops)] = end
    blocks, block_of = [], []
    for n, start in enumerate(starts):
        stop = starts[n + 1] if n + 1 < len(starts) else len(ops)
        last = ops[stop - 1]
        after: list[int] = [index[t] for t in _targets(last)]
        if _falls_through(last):
            after.append(index[stop])
        if last.name in ("exit", "trap"):
            after.append(end)
        blocks.append(Block(n, start, stop, tuple(dict.fromkeys(after))))
        block_of += [n] * (stop - start)
    return Cfg(tuple(blocks), tuple(block_of), *_shape(tuple(b.successors for b in blocks)))


@lru_cache(maxsize=1024)
def _shape(successors: tuple[tuple[int, ...], ...]
           ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Loop, ...]]:
    """Post-dominators, order and loops, which depend on nothing else: many kernels share them."""
    # the graph library takes longer to load than most kernels to sign, and many need none of this
    from checker.graphs import loops_of, order_of, postdominators
    end = len(successors)
    edges = [(b, s) for b, after in enumerate(successors) for s in after]
    found = [Loop(*loop) for loop in loops_of(edges, end)]
    return postdominators(edges, end), order_of(edges, end), tuple(found)
