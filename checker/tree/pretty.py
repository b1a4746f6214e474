"""Trees for people: each output's tree with source lines, shared sub-trees named once.

In: `WalkResult`. Out: text (`render`) or nested data (`outline`). Long runs of operands that differ
in an address only are folded; depth and size are bounded.
"""

from __future__ import annotations

from typing import Any

from checker.core import Program
from checker.tree.confirm import View, lane_terms
from checker.tree.evaluate import Terms
from checker.tree.nodes import GROUPED, Node
from checker.tree.poly import Poly
from checker.tree.result import Element, WalkResult
from checker.tree.rewrite import Scope

__all__ = ["outline", "render"]

MAX_LINES = 400
MAX_DEPTH = 40
MAX_ELEMENTS = 8


def render(result: WalkResult) -> str:
    """Return the trees of all outputs as text."""
    program = result.program
    out = [f"kernel {program.name} ({program.isa}, {program.target})  sb1-{result.digest}"]
    if result.gave_up:
        return "\n".join([*out, f"signs its text: {result.gave_up}"])
    for group in result.groups:
        where = _buffer(program, group.base)
        out.append("")
        out.append(f"{group.kind.strip('|').replace('|', ' ')} to {where}: "
                   f"{len(group.elements)} kind(s) of element")
        for e in group.elements[:MAX_ELEMENTS]:
            out += _element(program, e)
        if len(group.elements) > MAX_ELEMENTS:
            out.append(f"  ... and {len(group.elements) - MAX_ELEMENTS} more")
    return "\n".join(out)


def _buffer(program: Program, base: Node | None) -> str:
    if base is None:
        return "an address without a pointer argument"
    index = int(base.attr.split("+")[0])
    name = next((p.name for p in program.params if p.index == index), "?")
    return f"argument {index} ({name})"


def _element(program: Program, e: Element) -> list[str]:
    covered = "every element" if e.coverage.startswith("all:") else e.coverage.split(":")[0]
    out = [f"  [{_poly(program, e.slot.address, e.scope, 'load')}]  "
           f"({covered}, {e.count} a block){_line(program, e.slot.event.site)}"]
    guard = View(e.slot.guard, e.scope)
    if guard.node.op != "lanes":
        out.append(f"    if {_label(program, guard)}")
    names: dict[str, int] = {}
    _tree(program, View(e.slot.value, e.scope), "    ", names, out, 0)
    return out


def _tree(program: Program, v: View, indent: str, names: dict[str, int], out: list[str],
          depth: int) -> None:
    """Append one tree; a sub-tree seen before is named, not repeated."""
    if len(out) >= MAX_LINES or depth > MAX_DEPTH:
        if out[-1] != indent + "...":
            out.append(indent + "...")
        return
    digest = v.digest
    if digest in names:
        out.append(f"{indent}= #{names[digest]}")
        return
    kids = _kids(v)
    mark = ""
    if kids:
        names[digest] = len(names) + 1
        mark = f"#{names[digest]} "
    out.append(f"{indent}{mark}{_label(program, v)}{_line(program, v.node.site)}")
    shown = kids
    if len(kids) > 6 and len({(k.node.op, k.node.attr) for k in kids}) == 1:
        shown = kids[:2]
    for kid in shown:
        _tree(program, kid, indent + "  ", names, out, depth + 1)
    if len(shown) < len(kids):
        out.append(f"{indent}  ... {len(kids) - len(shown)} more of the same shape")


def _kids(v: View) -> list[View]:
    op = v.node.op
    if op == "fold":
        kids: list[View] = v.node.extra.views(v)
        return kids
    if op in GROUPED:
        return v.members()
    if op in ("load", "ge0", "eq0", "int", "param", "phi", "fcmp", "fcmp_sym"):
        return []
    return v.kids()


def _label(program: Program, v: View) -> str:
    node = v.node
    if node.op == "load" and node.poly is not None:
        return f"load b{node.width} [{_poly(program, node.poly, v.scope, node.op)}]"
    if node.op in ("ge0", "eq0") and node.poly is not None:
        sign = ">=" if node.op == "ge0" else "=="
        return f"{_poly(program, node.poly, v.scope, node.op)} {sign} 0"
    if node.op == "int" and node.poly is not None:
        return _poly(program, node.poly, v.scope)
    if node.op in ("and", "or"):
        return f" {node.op} ".join(f"({_label(program, k)})" for k in v.kids())
    if node.op in ("fcmp", "fcmp_sym"):
        return f"{node.attr.split('.')[0]}({', '.join(_label(program, k) for k in v.kids())})"
    if node.op == "lanes" and node.table is not None:
        return str(bool(node.table[v.lane])).lower()
    if node.op == "param":
        return _buffer(program, node)
    if node.op == "fold":
        return f"fold ({node.attr}): initial values, steps, condition, result"
    return f"{node.op} {node.attr.split('|')[0]}".rstrip()


def _poly(program: Program, poly: Poly, scope: Scope, op: str = "",
          made: Terms | None = None) -> str:
    """Return an index expression in the words of the kernel's arguments and coordinates."""
    parts = []
    for _name, ((c, den), atoms) in sorted(
            lane_terms(poly, scope, op, made).items()):
        factors = [_atom(program, a) for a in atoms]
        number = f"{c}/{den}" if den != 1 else str(c)
        if not factors:
            parts.append(number)
        elif c == 1 and den == 1:
            parts.append("*".join(factors))
        else:
            parts.append("*".join([number, *factors]))
    return " + ".join(parts).replace("+ -", "- ") or "0"


def _atom(program: Program, v: View) -> str:
    node = v.node
    if node.op == "y":
        inside = node.attr.split("|")[1]
        return f"i[{inside}]" if inside else "i"
    if node.op in ("sext", "zext") and node.poly is not None:
        name = "s" if node.op == "sext" else "u"
        made = node.extra if node.serial < 0 else None
        return f"{name}{node.attr}({_poly(program, node.poly, v.scope, made=made)})"
    if node.op == "param":
        number, _, part = node.attr.split("+")[0].partition(".")  # 10.stride1: of a tensor map
        name = next((p.name for p in program.params if p.index == int(number)), f"arg{number}")
        return f"{name}.{part}" if part else name
    if node.op == "kappa":
        return f"k{node.attr}"
    if node.op == "sreg":
        return node.attr
    return f"({_label(program, v)})"


def _line(program: Program, site: int) -> str:
    if not 0 <= site < len(program.sites):
        return ""
    where = program.sites[site]
    loc = f", {where.loc.file.rsplit('/', 1)[-1]}:{where.loc.line}" if where.loc else ""
    return f"   ; line {where.span.line}{loc}"


def outline(result: WalkResult) -> list[dict[str, Any]]:
    """Return the trees as nested data: output, label, line, loc, children."""
    out: list[dict[str, Any]] = []
    program = result.program
    for group in result.groups:
        for e in group.elements[:MAX_ELEMENTS]:
            budget = [MAX_LINES]
            root = _data(program, View(e.slot.value, e.scope), budget, 0)
            out.append({"output": _buffer(program, group.base), "coverage": e.coverage,
                        "address": _poly(program, e.slot.address, e.scope, "load"), **root})
    return out


def _data(program: Program, v: View, budget: list[int], depth: int) -> dict[str, Any]:
    budget[0] -= 1
    site = v.node.site
    known = 0 <= site < len(program.sites)
    where = program.sites[site] if known else None
    node: dict[str, Any] = {
        "label": _label(program, v), "line": where.span.line if where else None,
        "loc": f"{where.loc.file}:{where.loc.line}" if where and where.loc else None,
        "children": []}
    if depth < MAX_DEPTH and budget[0] > 0:
        for kid in _kids(v):
            if budget[0] <= 0:
                break
            node["children"].append(_data(program, kid, budget, depth + 1))
    return node
