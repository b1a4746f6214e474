"""Calls between PTX functions: who is called, what is passed, who can be reached.

In: functions. Out: facts about their calls; checker.ptx.lower inlines by them.
"""

from __future__ import annotations

from checker.ptx.data import TYPE_BITS
from checker.syntax import Address, Function, Instruction, Name, Operand, Pair, Vector

__all__ = ["call_parts", "is_scalar", "reachable", "used_names"]


def call_parts(operands: tuple[Operand, ...]) -> tuple[tuple[Operand, ...], str,
                                                        tuple[Operand, ...]]:
    """Split `(results), callee, (arguments), prototype`."""
    items = list(operands)
    results: tuple[Operand, ...] = ()
    if items and isinstance(items[0], Vector):
        results = items.pop(0).items  # type: ignore[union-attr]
    callee = items.pop(0) if items else None
    arguments: tuple[Operand, ...] = ()
    if items and isinstance(items[0], Vector):
        arguments = items.pop(0).items  # type: ignore[union-attr]
    if items or not isinstance(callee, Name) or callee.name.startswith("%"):
        return results, "", arguments
    return results, callee.name, arguments


def is_scalar(function: Function, name: str, size: int) -> bool:
    """Whether every access to a `.param` variable is to all of it, so that a register will do."""
    if size not in (1, 2, 4, 8):
        return False
    for item in function.items:
        if not isinstance(item, Instruction):
            continue
        for operand in item.operands:
            if isinstance(operand, Name) and operand.name == name:
                return False  # its address is taken
            if isinstance(operand, Address) and isinstance(operand.base, Name) and (
                    operand.base.name == name):
                words = item.opcode.split(".")
                whole = TYPE_BITS.get(words[-1], 0) == 8 * size and operand.offset == 0
                if not whole or any(w in ("v2", "v4", "v8") for w in words) or item.guard:
                    return False
    return True


def reachable(kernel: Function, functions: dict[str, Function]) -> list[Function]:
    """The kernel and every function it may call, in order of first call."""
    out, seen, pending = [], {kernel.name}, [kernel]
    while pending:
        function = pending.pop(0)
        out.append(function)
        for item in function.items:
            if isinstance(item, Instruction) and item.opcode.startswith("call"):
                callee = call_parts(item.operands)[1]
                if callee in functions and callee not in seen:
                    seen.add(callee)
                    pending.append(functions[callee])
    return out


def used_names(functions: list[Function]) -> set[str]:
    """Every word that stands as an operand, or inside one."""
    used: set[str] = set()
    for function in functions:
        for item in function.items:
            if isinstance(item, Instruction):
                pending = list(item.operands)
                while pending:
                    operand = pending.pop()
                    if isinstance(operand, Name):
                        used.add(operand.name)
                    elif isinstance(operand, Address):
                        pending += [operand.base, *operand.rest]
                    elif isinstance(operand, Vector):
                        pending += operand.items
                    elif isinstance(operand, Pair):
                        pending += [operand.first, operand.second]
    return used
