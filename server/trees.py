"""Dependence trees as collapsible outlines in HTML, with the first difference of two marked.

In: nested outlines (label, line, loc, children). Out: markup made of `details` elements, built
without recursion, bounded in nodes and depth. Compares labels only to choose what to highlight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from markupsafe import Markup, escape

__all__ = ["Path", "first_difference", "render"]

Node = Mapping[str, Any]
Path = tuple[int, ...]

MAX_NODES = 4_000
MAX_DEPTH = 80
_OPEN_DEPTH = 3


def first_difference(
    a: Sequence[Node], b: Sequence[Node], names: tuple[str, str] = ("", ""),
) -> tuple[Path | None, Path | None]:
    """Paths of the first nodes, in reading order, whose labels or numbers of children differ.

    names: the kernels' names, which compilers put before those of parameters; they count for
    nothing.
    """
    stack: list[tuple[Path, Node | None, Node | None]] = _pairs((), a, b)
    budget = 200_000
    while stack and budget:
        path, left, right = stack.pop()
        budget -= 1
        if left is None or right is None:
            parent = path[:-1] or None
            return (parent if left is None else path), (parent if right is None else path)
        if _label(left, names[0]) != _label(right, names[1]):
            return path, path
        stack += _pairs(path, left["children"], right["children"])
    return None, None


def _pairs(
    path: Path, a: Sequence[Node], b: Sequence[Node],
) -> list[tuple[Path, Node | None, Node | None]]:
    """Children by position, last first, None where one side has fewer."""
    pairs = zip_longest(a, b)
    return [((*path, n), left, right) for n, (left, right) in enumerate(pairs)][::-1]


def _label(node: Node, name: str) -> str:
    text = f"{node.get('output') or ''} {node['label']}"
    return text.replace(f"{name}_param", "param") if name else text


def render(outline: Sequence[Node], side: str, marked: Path | None = None) -> Markup:
    """Markup of an outline; `side` prefixes the ids, `marked` is the node that is highlighted."""
    out: list[str] = ['<ul class="tree">']
    stack: list[tuple[Sequence[Node], Path, int]] = [(outline, (), 0)]
    count = 0
    while stack:
        nodes, path, index = stack.pop()
        if index >= len(nodes):
            out.append("</ul>")
            if path:
                out.append("</details></li>")
            continue
        stack.append((nodes, path, index + 1))
        node, here = nodes[index], (*path, index)
        count += 1
        if count > MAX_NODES:
            out.append("<li><em>further nodes are not shown</em></li>")
            stack[-1] = (nodes, path, len(nodes))
            continue
        children = node["children"]
        text = _text(node, side, here == marked)
        ids = f' id="diff-{side}" class="diff"' if here == marked else ""
        if not children:
            out.append(f"<li{ids}>{text}</li>")
        elif len(here) > MAX_DEPTH:
            out.append(f"<li{ids}>{text} <em>deeper levels are not shown</em></li>")
        else:
            leads = marked is not None and marked[: len(here)] == here
            is_open = " open" if leads or (len(here) < _OPEN_DEPTH and marked is None) else ""
            out.append(f"<li{ids}><details{is_open}><summary>{text}</summary><ul>")
            stack.append((children, here, 0))
    return Markup("".join(out))


def _text(node: Node, side: str, is_marked: bool) -> str:
    parts = []
    if node.get("output"):
        parts.append(f'<span class="output">{escape(node["output"])}</span> ')
    parts.append(f"<code>{escape(node['label'])}</code>")
    if is_marked:
        parts.append(' <strong class="mark">first difference</strong>')
    line = node.get("line")
    if line is not None:
        parts.append(f' <a class="place" href="#{side}-L{int(line)}">line {int(line)}</a>')
    loc = node.get("loc")
    if loc:
        place = f"{loc['file'].rpartition('/')[2]}:{loc['line']}"
        parts.append(f' <span class="place">{escape(place)}</span>')
    return "".join(parts)
