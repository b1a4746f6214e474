"""What the walk carries: registers, effects, shared cells; and what it found.

In: nothing (data). Out: the records that the engine fills and the canonical form reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checker.tree.nodes import Node
from checker.tree.poly import Poly
from checker.tree.values import Value

__all__ = ["Found", "GiveUp", "State", "StoreEvent"]


class GiveUp(Exception):
    """The kernel as a whole cannot be walked; it signs its text."""

    def __init__(self, code: str, message: str, site: int = -1) -> None:
        super().__init__(message)
        self.code, self.message, self.site = code, message, site


@dataclass(slots=True)
class State:
    """Registers and the condition under which a lane is here."""

    regs: list[Value | None]
    path: Node
    private: dict[int, Any] = field(default_factory=dict)  # local bytes: address -> (value, byte)
    tensor: int = 0  # the version of the columns of tensor memory, see `walk.tensor`

    def copy(self) -> State:
        """Return an independent copy."""
        return State(list(self.regs), self.path, dict(self.private), self.tensor)


@dataclass(slots=True)
class StoreEvent:
    """One element written to memory that outlives the kernel.

    kind: store | atomic; `value` has `width` bits; `loops`: counters of the loops around it;
    `turns`: how many barriers of the whole block came before it, and of that or of all warps.
    """

    kind: str
    attr: str
    address: Poly
    value: Node
    width: int
    guard: Node
    site: int
    order: int
    base: Node | None
    loops: tuple[Any, ...] = ()
    first: int = 0  # bytes before it in the same instruction
    own: Node | None = None  # the guard without the path
    turns: tuple[float, float] = (0, 0)


@dataclass(slots=True)
class Found:
    """Everything besides values: stores in program order, opaque constructs, findings."""

    stores: list[StoreEvent] = field(default_factory=list)
    opaque: dict[int, str] = field(default_factory=dict)  # site -> reason
    findings: list[tuple[int, str, str]] = field(default_factory=list)  # site, code, message
    premises: set[str] = field(default_factory=set)
    nondeterministic: bool = False
    loaded: dict[Node, list[int]] = field(default_factory=dict)  # base -> sites of loads
    unmodelled: list[tuple[int, str]] = field(default_factory=list)
