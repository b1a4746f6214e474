"""Graphs of blocks: post-dominators, an order of the loop nest, natural loops, by networkx.

In: edges between blocks, 0 being the first and `end` the virtual end. Out: plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

__all__ = ["loops_of", "order_of", "postdominators"]

Edges = Sequence[tuple[int, int]]


def _graph(edges: Edges, end: int) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(end + 1))
    graph.add_edges_from(edges)
    return graph


def postdominators(edges: Edges, end: int) -> tuple[int, ...]:
    """Return immediate post-dominators; blocks that never reach the end get the end."""
    graph = _graph(edges, end)
    reverse = graph.reverse(copy=True)
    reach = nx.descendants(reverse, end)
    for node in graph:
        if node not in reach and node != end and not any(s in reach for s in graph[node]):
            reverse.add_edge(end, node)
    found = nx.immediate_dominators(reverse, end)
    return tuple(found.get(n, end) if n != end else end for n in range(end + 1))


def order_of(edges: Edges, end: int) -> tuple[int, ...]:
    """Return the position of each block.

    Strongly connected parts stand in topological order, and so on inside of them.
    """
    graph = _graph(edges, end)
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


def loops_of(edges: Edges, end: int) -> list[tuple[int, frozenset[int], tuple[int, ...], int]]:
    """Return natural loops, outermost first: header, body, latches, depth."""
    if end == 0:
        return []
    graph = _graph(edges, end)
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
    loops = [(h, b, tuple(sorted(latches[h])), sum(h in other for other in found.values()))
             for h, b in found.items()]
    return sorted(loops, key=lambda loop: (loop[3], loop[0]))


def _dominates(idom: dict[int, int], a: int, b: int) -> bool:
    while b != a:
        up = idom.get(b, b)
        if up == b or up is None:
            return False
        b = up
    return True
