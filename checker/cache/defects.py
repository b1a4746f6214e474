"""Our own bugs as errors that name themselves: one kernel's failure is not the sweep's.

In: any exception out of the engine. Out: `Defect`, an error of the usual tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from checker.errors import SamebitsError

__all__ = ["Defect", "Reported", "defects"]


class Defect(SamebitsError):
    """An exception that only a defect of the checker can cause; one kernel's, not the sweep's."""

    def __init__(self, error: Exception) -> None:
        lines = str(error).strip().splitlines()
        first = lines[0][:300] if lines else ""
        super().__init__(
            f"defect in samebits: {type(error).__name__}: {first}\n"
            "  hint: please report it with the input; SAMEBITS_DEBUG=1 shows where it happened"
        )


class Reported(SamebitsError):
    """An error that happened in a worker, by its text."""


@contextmanager
def defects() -> Iterator[None]:
    """Turn an exception that is none of ours into a Defect."""
    try:
        yield
    except SamebitsError:
        raise
    except Exception as error:
        if os.environ.get("SAMEBITS_DEBUG"):
            raise
        raise Defect(error) from error
