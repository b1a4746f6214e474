"""Control flow of a `Program`: blocks, order, immediate post-dominators, natural loops.

In: a lowered program. Out: `Cfg`. Block `len(blocks)` stands for the end. `order` is a topological
order of the loop nest (every loop contiguous, exits after it), which is what a scheduler of
divergent lanes needs to reconverge. All traversals are iterative.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import networkx as nx

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
    end = len(successors)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(end + 1))
    graph.add_edges_from((b, s) for b, after in enumerate(successors) for s in after)
    return _postdom(graph, end), _order(graph, end), _loops(graph, end)


def _postdom(graph: nx.DiGraph, end: int) -> tuple[int, ...]:
    """Immediate post-dominators; blocks that never reach the end get the end."""
    reverse = graph.reverse(copy=True)
    reach = nx.descendants(reverse, end)
    for node in graph:
        if node not in reach and node != end and not any(s in reach for s in graph[node]):
            reverse.add_edge(end, node)
    found = nx.immediate_dominators(reverse, end)
    return tuple(found.get(n, end) if n != end else end for n in range(end + 1))


def _order(graph: nx.DiGraph, end: int) -> tuple[int, ...]:
    """Position of each block: strongly connected parts in topological order, then inside them."""
    position = [0] * (end + 1)
    counter = 0
    work: list[tuple[list[int], int | None]] = [(list(graph), None)]
    while work:
        nodes, header = work.pop()
        sub = nx.DiGraph(graph.subgraph(nodes))
        if header is not None:
            position[header] = counter
            counter += 1
            sub.remove_node(header)
        parts = nx.condensation(sub) if len(sub) else nx.DiGraph()
        todo: list[tuple[list[int], int | None]] = []
        for part in nx.lexicographical_topological_sort(
                parts, key=lambda c: min(parts.nodes[c]["members"])):
            members = sorted(parts.nodes[part]["members"])
            if len(members) == 1 and not sub.has_edge(members[0], members[0]):
                todo.append((members, members[0]))
            else:
                todo.append((members, _entry(graph, members)))
        work += reversed(todo)
    return tuple(position)


def _entry(graph: nx.DiGraph, members: Iterable[int]) -> int:
    inside = set(members)
    for node in sorted(inside):
        if any(p not in inside for p in graph.predecessors(node)):
            return node
    return min(inside)


def _loops(graph: nx.DiGraph, end: int) -> tuple[Loop, ...]:
    if 0 not in graph or end == 0:
        return ()
    reachable = graph.subgraph({0} | nx.descendants(graph, 0))
    idom = nx.immediate_dominators(reachable, 0)
    latches: dict[int, list[int]] = {}
    for tail, head in reachable.edges:
        if _dominates(idom, head, tail):
            latches.setdefault(head, []).append(tail)
    found = {}
    for head, tails in latches.items():
        body, work = {head}, list(tails)
        while work:
            node = work.pop()
            if node not in body:
                body.add(node)
                work += reachable.predecessors(node)
        found[head] = frozenset(body)
    loops = [Loop(h, b, tuple(sorted(latches[h])), sum(h in other for other in found.values()))
             for h, b in found.items()]
    return tuple(sorted(loops, key=lambda loop: (loop.depth, loop.header)))


def _dominates(idom: dict[int, int], a: int, b: int) -> bool:
    while b != a:
        up = idom.get(b, b)
        if up == b or up is None:
            return False
        b = up
    return True
