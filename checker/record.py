"""Records: frozen, slotted data of which a kernel makes thousands.

`record` is `dataclass(frozen=True, slots=True)` to the type checker, which refuses every assignment
to a field. At run time nothing stands guard: a guarded `__init__` takes three times as long, and
making instructions, places and operations was a fifteenth of a replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["record"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """Make a class a slotted dataclass, compared and hashed by its fields; never assign to them."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
