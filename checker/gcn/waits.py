"""Wait checker (placeholder until the rows are complete)."""

from __future__ import annotations

from typing import Any

__all__ = ["check_waits"]


def check_waits(lowering: Any) -> list[tuple[int, str]]:
    """Return (site, message) of missing waits."""
    return []
