"""Lists of opcodes and names, written as text. In: words separated by blanks. Out: a list."""

from __future__ import annotations

__all__ = ["words"]


def words(text: str) -> list[str]:
    """Split a text at blanks."""
    return text.split()
