"""The row table: base opcode -> function; `row` registers, `find` strips encodings.

A row is a function of a `Context`. `dsts` is the number of result operands in front of the
sources (op_sel, SDWA and DPP count sources from there).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from checker.gcn.context import Context

__all__ = ["ROWS", "Row", "find", "row"]

RowFunction = Callable[[Context], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One opcode's meaning."""

    function: RowFunction
    dsts: int


ROWS: dict[str, Row] = {}

_SUFFIX = re.compile(r"_(e32|e64_dpp8|e64_dpp|e64|dpp8|dpp|sdwa)$")


def row(names: str, dsts: int = 1) -> Callable[[RowFunction], RowFunction]:
    """Register a function for the opcodes named, separated by blanks."""
    def add(function: RowFunction) -> RowFunction:
        for name in names.split():
            assert name not in ROWS, name
            ROWS[name] = Row(function, dsts)
        return function
    return add


def split(opcode: str) -> tuple[str, str]:
    """`v_add_f32_e64_dpp` -> ("v_add_f32", "dpp")."""
    match = _SUFFIX.search(opcode)
    if match is None:
        return opcode, ""
    suffix = match[1]
    return opcode[: match.start()], suffix.replace("e64_", "")


def find(opcode: str) -> tuple[Row | None, str, str]:
    """Return the row, the base opcode and the encoding suffix (`e32 e64 dpp sdwa`)."""
    if opcode in ROWS:
        return ROWS[opcode], opcode, ""
    base, suffix = split(opcode)
    return ROWS.get(base), base, suffix
