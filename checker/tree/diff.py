"""The first place where two kernels' canonical forms differ, with lines on both sides.

In: two `WalkResult`s with different digests. Out: one `Reason`.
"""

from __future__ import annotations

from checker.core import Program
from checker.results import Reason
from checker.tree.confirm import View
from checker.tree.nodes import GROUPED, SYMMETRIC, Node
from checker.tree.result import Element, WalkResult

__all__ = ["first_difference"]


def first_difference(a: WalkResult, b: WalkResult) -> Reason:
    """Return where the canonical forms of two kernels part."""
    left = {(g.base.attr if g.base else "?", g.kind): g for g in a.groups}
    right = {(g.base.attr if g.base else "?", g.kind): g for g in b.groups}
    for where in sorted({*left, *right}):
        if where not in left or where not in right:
            side = "first" if where in left else "second"
            group = left.get(where) or right[where]
            line = _line((a if where in left else b).program, group.elements[0].slot.event.site)
            return Reason("coverage-differs", f"only the {side} kernel writes argument "
                          f"{where[0].split('+')[0]}", line if side == "first" else None,
                          line if side == "second" else None)
        ones = {e.digest: e for e in left[where].elements}
        twos = {e.digest: e for e in right[where].elements}
        only_a = [e for d, e in ones.items() if d not in twos]
        only_b = [e for d, e in twos.items() if d not in ones]
        if only_a and only_b:
            return _tree_difference(a, b, only_a[0], only_b[0])
        if only_a or only_b:
            e = (only_a or only_b)[0]
            line = _line((a if only_a else b).program, e.slot.event.site)
            return Reason("coverage-differs", "one kernel writes elements that the other does not",
                          line if only_a else None, line if only_b else None)
        for digest, e in ones.items():
            twin = twos[digest]
            if e.coverage != twin.coverage:
                return Reason("coverage-differs", "the same trees cover other elements",
                              _line(a.program, e.slot.event.site),
                              _line(b.program, twin.slot.event.site))
    return Reason("tree-differs", "the canonical forms differ")


def _line(program: Program, site: int) -> int | None:
    return program.sites[site].span.line if 0 <= site < len(program.sites) else None


def _tree_difference(a: WalkResult, b: WalkResult, one: Element, two: Element) -> Reason:
    x = View(one.slot.value, one.scope)
    y = View(two.slot.value, two.scope)
    if x.digest == y.digest:
        what = "the same trees are written at other addresses or under another guard"
        code = "coverage-differs"
        sites = (one.slot.event.site, two.slot.event.site)
    else:
        x, y, what = _descend(x, y)
        code = "tree-differs"
        sites = (x.node.site, y.node.site)
    pa, pb = a.program, b.program
    return Reason(code, what, _line(pa, sites[0]), _line(pb, sites[1]),
                  pa.sites[sites[0]].loc if 0 <= sites[0] < len(pa.sites) else None,
                  pb.sites[sites[1]].loc if 0 <= sites[1] < len(pb.sites) else None)


def _descend(x: View, y: View) -> tuple[View, View, str]:
    """Follow the first children that differ while the operators agree."""
    for _ in range(100_000):
        a, b = x.node, y.node
        if (a.op, a.attr, a.width) != (b.op, b.attr, b.width):
            return x, y, f"{_name(a)} against {_name(b)}"
        left, right = (v.node.extra.views(v) if v.node.op == "fold" else v.kids() for v in (x, y))
        if a.op in SYMMETRIC or a.op in GROUPED or a.op == "ffma":
            n = 2 if a.op == "ffma" else len(left)
            left[:n] = sorted(left[:n], key=lambda v: v.digest)
            right[:n] = sorted(right[:n], key=lambda v: v.digest)
            if n == 2 and a.op != "ffma":
                common = {v.digest for v in left} & {v.digest for v in right}
                left = [v for v in left if v.digest not in common] or left
                right = [v for v in right if v.digest not in common] or right
        if len(left) != len(right):
            return x, y, f"{_name(a)} of {len(left)} operands against {len(right)}"
        # a running value differs because of its step: the difference lies elsewhere
        step = next(((p, q) for p, q in zip(left, right, strict=True) if p.digest != q.digest
                     and not p.node.op == q.node.op == "phi"), None)
        if step is None:
            if a.op == "load":
                return x, y, "the elements loaded differ"
            return x, y, f"{_name(a)}: different index or literal"
        x, y = step
    return x, y, "the trees differ"


def _name(node: Node) -> str:
    attr = node.attr.split("|")[0]
    return f"{node.op} {attr}".strip()
