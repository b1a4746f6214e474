"""Bulk and tensor copies."""

from __future__ import annotations

from collections.abc import Callable

from checker.core import Op
from checker.replay.machine import Machine
from checker.replay.values import Mask, V

__all__ = ["BODIES"]


def _refuse(m: Machine, op: Op, values: list[V], on: Mask | None) -> None:
    raise m.unsupported("bulk-copy", f"{op.name} is not modelled")


BODIES: dict[str, Callable[..., None]] = {
    "bulk": _refuse, "bulk_commit": _refuse, "bulk_wait": _refuse, "tensormap_set": _refuse,
}
