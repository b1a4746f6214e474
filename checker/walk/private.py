"""Private memory of a lane: a register for each piece of it, or bytes.

In: loads and stores of local memory. Out: values. `with_cells` gives a program a register for each
piece of private memory that its accesses use as a whole, where all their addresses are literal: so
what was spilled goes through loops and joins as registers do. Elsewhere (an address in a register)
bytes are kept by address, and what a loop wrote is unknown after it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from checker.core import Atomic, Const, Mem, Op, Program
from checker.tree.poly import Poly
from checker.tree.values import Value
from checker.walk.state import GiveUp, State

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Cells", "PrivateOps", "kept", "with_cells"]

SPACES = frozenset({"local", "scratch"})
Cells = dict[int, int]  # byte address -> register that holds it


def with_cells(program: Program) -> tuple[Program, Cells]:
    """Return the program with registers for its private memory, and where each byte is."""
    spaces = [(op, op.attr.space) for op in program.ops if isinstance(op.attr, Mem | Atomic)]
    ours = [op for op, space in spaces if space in SPACES]
    if any(space == "generic" for _, space in spaces) or not all(
            isinstance(op.attr, Mem) and isinstance(op.src[0], Const) for op in ours):
        return program, {}
    edges = {e for op in ours for e in _edges(op)}
    used = {at for op in ours for at in range(_edges(op)[0], _edges(op)[-1])}
    pieces = [(a, b) for a, b in pairwise(sorted(edges)) if a in used]
    if any(b - a not in (1, 2, 4, 8, 16) for a, b in pieces):
        return program, {}
    first = len(program.reg_widths)
    cells = {at: first + i for i, (a, b) in enumerate(pieces) for at in range(a, b)}
    widths = tuple(8 * (b - a) for a, b in pieces)
    names = tuple(f"private{a}" for a, _b in pieces)
    ops = tuple(_with(op, cells) if isinstance(op.attr, Mem) and op.attr.space in SPACES else op
                for op in program.ops)
    return replace(program, ops=ops, reg_widths=(*program.reg_widths, *widths),
                   reg_names=(*program.reg_names, *names)), cells


def _edges(op: Op) -> list[int]:
    """Return where the elements of an access at a literal address begin and end."""
    step, count = op.attr.width_bits // 8, len(op.dst) if op.name == "load" else len(op.src) - 1
    assert isinstance(op.src[0], Const)
    start = op.src[0].bits + op.attr.offset_bytes
    return [start + i * step for i in range(count + 1)]


def _with(op: Op, cells: Cells) -> Op:
    edges = _edges(op)
    registers = _registers(cells, edges[0], edges[-1])
    if op.name == "load":
        return replace(op, src=(*op.src, *registers))
    return replace(op, dst=(*op.dst, *registers))


def _registers(cells: Cells, start: int, end: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(cells[at] for at in range(start, end)))


class PrivateOps:
    """Loads and stores of private memory for one engine."""

    def __init__(self, engine: Engine, cells: Cells) -> None:
        self.engine = engine
        self.cells = cells

    def load(self, at: Poly, width: int) -> Value:
        """Return bits at an address."""
        engine, start, end = self.engine, self._literal(at), self._literal(at) + width // 8
        if self.cells:
            return engine.values.pack([engine.source(r)
                                       for r in _registers(self.cells, start, end)])
        parts: list[Value] = []
        for byte in range(start, end):
            cell = engine.state.private.get(byte)
            parts.append(engine.values.undefined(8) if cell is None
                         else engine.values.extract(cell[0], 8 * cell[1], 8))
        return engine.values.pack(parts)

    def store(self, at: Poly, value: Value) -> None:
        """Write a value at an address, where the present guard holds."""
        engine, start = self.engine, self._literal(at)
        if self.cells:
            low = 0
            for r in _registers(self.cells, start, start + value.width // 8):
                size = engine.program.reg_widths[r]
                engine.put(r, engine.values.extract(value, low, size))
                low += size
            return
        if engine.guard is not engine.forest.true:
            value = engine.choose(engine.guard, value, self.load(at, value.width), value.width)
        for i in range(value.width // 8):
            engine.state.private[start + i] = (value, i)

    def _literal(self, at: Poly) -> int:
        if not at.is_const or isinstance(at.const, np.ndarray):
            raise GiveUp("local", "local memory at an address that differs by lane",
                         self.engine.site)
        return int(at.const)


def kept(entry: State, after: list[State]) -> dict[int, tuple[Value, int] | None]:
    """Return private bytes after a loop: those that no iteration changed."""
    out: dict[int, tuple[Value, int] | None] = {}
    for at in {at for state in (entry, *after) for at in state.private}:
        first = entry.private.get(at)
        out[at] = first if first is not None and all(
            (c := state.private.get(at)) is not None and c[1] == first[1] and (
                c[0] is first[0] or (isinstance(c[0], Poly) and isinstance(first[0], Poly)
                                     and c[0].same(first[0]))) for state in after) else None
    return out
