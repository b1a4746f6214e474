"""Calls between PTX functions: who is called, what is passed, who can be reached.

In: functions. Out: facts about their calls; checker.ptx.lower inlines by them.
"""

from __future__ import annotations

from checker.ptx.data import TYPE_BITS
from checker.syntax import Address, Function, Instruction, Name, Operand, Pair, Vector

__all__ = ["call_parts", "reachable", "used_names", "whole_accesses"]


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


def whole_accesses(function: Function) -> dict[str, int]:
    """Size in bytes in which each name is accessed, 0 where it is not always the same whole.

    A `.param` variable that is only accessed whole may live in a register.
    """
    out: dict[str, int] = {}

    def saw(name: str, size: int) -> None:
        out[name] = size if out.get(name, size) == size else 0
    for item in function.items:
        if not isinstance(item, Instruction):
            continue
        for operand in item.operands:
            if isinstance(operand, Name):
                saw(operand.name, 0)  # its address is taken
            elif isinstance(operand, Address) and isinstance(operand.base, Name):
                words = item.opcode.split(".")
                plain = operand.offset == 0 and item.guard is None and not (
                    {"v2", "v4", "v8"} & set(words))
                saw(operand.base.name, TYPE_BITS.get(words[-1], 0) // 8 if plain else 0)
    return out


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
    pending: list[Operand] = [operand for function in functions for item in function.items
                              if isinstance(item, Instruction) for operand in item.operands]
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
