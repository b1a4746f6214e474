"""Skipped regions that stand out of line, put back where they are skipped.

In: a function's items. Out: items that execute the same instructions in the same order on every
path. A compiler may move what a skip leaves out to the end of the text and repeat there what
follows (`s_cbranch_execnz B; H` with `B: body; H`); written `s_cbranch_execz H; body; H` it is the
form that the lowering runs straight through. Nothing changes where the two copies of H differ, and
nothing at all in a function that reads its own address.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from checker.syntax import Instruction, Item, Label, Name

__all__ = ["ends", "straighten"]

#: control that the labels do not tell, or that depends on where an instruction stands
_BY_ADDRESS = ("s_getpc", "s_setpc", "s_swappc", "s_call", "s_rfe", "s_cbranch_g", "s_cbranch_j",
               "s_cbranch_i", "s_subvector")


def ends(inst: Instruction) -> bool:
    """Tell whether an instruction is the last one of its block."""
    return inst.opcode.startswith(("s_branch", "s_cbranch", "s_endpgm", "s_setpc", "s_swappc",
                                   "s_call", "s_trap", "s_rfe"))


@dataclass(slots=True)
class _Block:
    """Items up to the next label or branch; `last` is the branch or end, if there is one."""

    labels: list[Label] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    last: Instruction | None = None


def straighten(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the items with regions that `s_cbranch_execnz` jumps to in the place of the jump."""
    if any(isinstance(i, Instruction) and i.opcode.startswith(_BY_ADDRESS) for i in items):
        return items
    blocks = _cut(items)
    at = {label.name: n for n, block in enumerate(blocks) for label in block.labels}
    if any(_target(b.last) not in at for b in blocks if _target(b.last)):
        return items
    bodies: dict[int, list[Item]] = {}
    for n, block in enumerate(blocks[:-1]):
        if block.last is not None and block.last.opcode.startswith("s_cbranch_execnz"):
            body = _body(blocks, at, at[_target(block.last)], n + 1)
            if body is not None:
                bodies[n] = body
    return _joined(blocks, at, bodies) if bodies else items


def _cut(items: tuple[Item, ...]) -> list[_Block]:
    blocks = [_Block()]
    for item in items:
        if blocks[-1].last is not None or (isinstance(item, Label) and blocks[-1].items):
            blocks.append(_Block())
        if isinstance(item, Label):
            blocks[-1].labels.append(item)
        elif isinstance(item, Instruction) and ends(item):
            blocks[-1].last = item
        else:
            blocks[-1].items.append(item)
    return blocks


def _target(last: Instruction | None) -> str:
    """The label that a branch names; "" where there is no branch."""
    if last is None or not last.opcode.startswith(("s_branch", "s_cbranch")):
        return ""
    return next((op.name for op in last.operands if isinstance(op, Name)), "")


def _leaves(blocks: list[_Block], at: dict[str, int], n: int) -> tuple[object, ...]:
    """How control leaves a block and where it may go, whichever way round branches are written."""
    last = blocks[n].last
    if last is None:
        return "go", n + 1
    if last.opcode.startswith("s_endpgm"):
        return ("end",)
    if not _target(last):
        return last.opcode, last.operands, n + 1
    there = at[_target(last)]
    if last.opcode.startswith("s_branch"):
        return "go", there
    if last.opcode.startswith("s_cbranch_execz"):
        return "any lane", n + 1, there
    if last.opcode.startswith("s_cbranch_execnz"):
        return "any lane", there, n + 1
    return last.opcode, there, n + 1


def _through(blocks: list[_Block], at: dict[str, int], n: int) -> int:
    """The block that is entered with block n: past branches that stand alone."""
    for _ in blocks:
        if n == len(blocks) or blocks[n].items or _leaves(blocks, at, n)[0] != "go":
            break
        last = blocks[n].last
        n = n + 1 if last is None else at[_target(last)]
    return n


def _body(blocks: list[_Block], at: dict[str, int], n: int, after: int) -> list[Item] | None:
    """What block n does before it does as block `after`, or before it goes there."""
    def onward(block: int) -> list[object]:
        return [_through(blocks, at, x) if isinstance(x, int) else x
                for x in _leaves(blocks, at, block)]

    after = _through(blocks, at, after)
    leaves, items = onward(n), blocks[n].items
    if leaves == ["go", after]:
        return items
    if after == len(blocks) or leaves != onward(after):
        return None
    repeated = [_said(i) for i in blocks[after].items]
    cut = len(items) - len(repeated)
    return items[:cut] if cut > 0 and [_said(i) for i in items[cut:]] == repeated else None


def _said(item: Item) -> object:
    """An item without its place in the text."""
    if isinstance(item, Instruction):
        return item.opcode, item.operands, item.guard
    return item


def _joined(blocks: list[_Block], at: dict[str, int],
            bodies: dict[int, list[Item]]) -> tuple[Item, ...]:
    """Write the blocks with bodies in place, less those that nothing reaches any more."""
    reached, work = {0}, [0]
    while work:
        n = work.pop()
        for s in ("go", n + 1) if n in bodies else _leaves(blocks, at, n):
            if isinstance(s, int) and s < len(blocks) and s not in reached:
                reached.add(s)
                work.append(s)
    out: list[Item] = []
    for n, block in enumerate(blocks):
        if n not in reached:
            continue
        out += [*block.labels, *block.items]
        if n in bodies:
            assert block.last is not None
            skip = f"@after{n}"
            out.append(replace(block.last, opcode="s_cbranch_execz", operands=(Name(skip),)))
            out += [*bodies[n], Label(skip, block.last.span)]
        elif block.last is not None:
            out.append(block.last)
    return tuple(out)
