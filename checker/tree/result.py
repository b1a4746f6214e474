"""What a walk leaves behind: outputs as classes of elements, and everything a verdict needs.

In: nothing (data). Out: records that the signature, the comparison, the printed tree and the
first difference read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checker.core import Program
from checker.results import Opaque, Reason
from checker.tree.nodes import Forest, Node
from checker.tree.poly import Poly
from checker.tree.rewrite import Scope

__all__ = ["Element", "OutputGroup", "Slot", "WalkResult"]


@dataclass(slots=True)
class Slot:
    """One stored part: its address, value, guard, and the lanes that write it."""

    event: Any  # checker.walk.state.StoreEvent
    address: Poly
    value: Node
    guard: Node
    lanes: Any
    at: int  # bytes from the start of the instruction's access
    scope: Any = None  # all lanes that write it, under their contexts


@dataclass(slots=True)
class Element:
    """One class of elements of a buffer: a tree, its coverage, and where to look at it."""

    digest: str  # of address, guard and tree
    coverage: str
    count: int
    slot: Slot
    scope: Scope  # one lane that writes such an element, under its context


@dataclass(slots=True)
class OutputGroup:
    """All elements of one buffer (a pointer parameter, or an address without one)."""

    base: Node | None
    kind: str
    elements: list[Element] = field(default_factory=list)
    ordered: bool = False


@dataclass(slots=True)
class WalkResult:
    """One kernel after the walk.

    digest: 32 hex digits of the canonical form, of the normalised text where it is not modelled.
    modelled: nothing opaque, undefined, racing or nondeterministic reaches an output.
    gave_up: why the walk refused the kernel, "" otherwise.
    """

    program: Program
    digest: str
    modelled: bool
    groups: list[OutputGroup]
    opaque: tuple[Opaque, ...]
    premises: tuple[str, ...]
    findings: tuple[Reason, ...]
    nondeterministic: bool
    gave_up: str
    forest: Forest | None = None
    summary: str = ""
    millis: float = 0.0

    @property
    def shows(self) -> tuple[str, ...]:
        """Sizes (argN) of which one test serves a group of elements, as the kernel shows."""
        return tuple(sorted(self.forest.shared)) if self.forest and not self.gave_up else ()
