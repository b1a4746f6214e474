"""Readable listing of a core program, for people and golden tests.

In: Program. Out: text, one operation a line: guard, destinations, name, attribute, sources.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from checker.core import Const, Fragment, Op, Program, Source

__all__ = ["format_op", "format_program"]


def format_program(program: Program, sites: bool = True) -> str:
    """Return the listing; `sites` puts each instruction's text before its operations."""
    targets: dict[int, str] = {}
    for op in program.ops:
        if op.name in ("branch", "switch"):
            for index in op.attr if isinstance(op.attr, tuple) else (op.attr,):
                targets.setdefault(index, "")
    for number, index in enumerate(sorted(targets)):
        targets[index] = f"L{number}"
    lines = [f"program {program.name} {program.isa} {program.target} block={program.block}"]
    lines += [f"param {p.name} +{p.offset_bytes} {p.size_bytes}" for p in program.params]
    lines += [f"data {d.name} {d.space} {d.address:#x} {d.size_bytes}" for d in program.data]
    last = -1
    for index, op in enumerate(program.ops):
        if index in targets:
            lines.append(f"{targets[index]}:")
        if sites and op.site != last:
            last = op.site
            lines.append(f"; {program.sites[last].span.line}: {program.sites[last].text}")
        lines.append("    " + format_op(op, program, targets))
    if len(program.ops) in targets:
        lines.append(f"{targets[len(program.ops)]}:")
    return "\n".join(lines) + "\n"


def format_op(op: Op, program: Program, targets: dict[int, str] | None = None) -> str:
    """Return one operation as `@p d = name.attr a, b`."""
    name = _reg_namer(program)
    guard = "" if op.guard is None else f"@{'!' if op.guard.neg else ''}{name(op.guard.reg)} "
    dst = ", ".join(name(d) for d in op.dst)
    attr = _attr(op.attr)
    if targets is not None and op.name == "branch":
        attr = targets[op.attr]
    elif targets is not None and op.name == "switch":
        attr = ", ".join(targets[t] for t in op.attr)
    src = ", ".join(_source(s, name) for s in op.src)
    head = f"{guard}{dst} = {op.name}" if dst else f"{guard}{op.name}"
    return " ".join(part for part in (head, f"<{attr}>" if attr else "", src) if part)


def _reg_namer(program: Program) -> Any:
    def name(reg: int) -> str:
        return program.reg_names[reg]
    return name


def _source(source: Source, name: Any) -> str:
    if isinstance(source, Const):
        small = source.bits < 10
        return f"{source.bits if small else hex(source.bits)}:{source.width_bits}"
    return str(name(source))


def _attr(attr: Any) -> str:
    """Attributes in short: dataclasses show what differs from their defaults."""
    if attr is None:
        return ""
    if isinstance(attr, Fragment):
        return attr.name
    if isinstance(attr, tuple):
        return " ".join(_attr(a) for a in attr)
    if is_dataclass(attr):
        shown = []
        for f in fields(attr):
            value = getattr(attr, f.name)
            if value == f.default or value is None:
                continue
            text = _attr(value)
            shown.append(f.name if value is True else
                         f"{f.name}={text}" if is_dataclass(value) or isinstance(value, int)
                         else text)
        return " ".join(shown)
    return str(attr)
