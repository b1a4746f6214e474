"""A worker process: examines kernels that it is handed as JSON lines, until its input ends.

    python -m checker.cache.worker

In: one line a kernel: name, text, isa, kernel, launches, replay_only, divisible. Out: one line
each: `{"ok": ...}` with the data of `checker.api.Examined`, or `{"error": message}`. Nothing is
shared with the parent, so a kernel that runs out of time or memory takes nothing else along.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from checker.errors import LaunchError, SamebitsError
from checker.results import KernelInput

__all__ = ["answer", "by_replay", "examiner", "main"]

KEPT = 64  # replays shared between kernels with one signature


def answer(kernel: KernelInput, examine: Callable[..., Any], known: dict[Any, Any]) -> Any:
    """Examine one kernel; returns the line's data."""
    from checker.cache.defects import defects

    if len(known) > KEPT:
        known.clear()
    try:
        with defects():
            return {"ok": examine(kernel, known=known).to_json()}
    except LaunchError as error:
        return {"error": f"launch facts: {error}"}
    except SamebitsError as error:
        return {"error": str(error)}


def by_replay(kernel: KernelInput, *, known: Any = None) -> Any:
    """Examine a kernel at its launches only: no walk, so no static signature."""
    from checker import api

    return api.by_replay(kernel, known=known)


def examiner(replay_only: bool, divisible: Sequence[str]) -> Callable[..., Any]:
    """How to examine: at the launches only, or by signing; divisible: sizes of a second look."""
    from checker import api

    if replay_only:
        return by_replay
    return partial(api.examine, divisible=tuple(divisible)) if divisible else api.examine


def main() -> None:
    """Answer lines until the input ends."""
    known: dict[Any, Any] = {}
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write into the answers
    for line in sys.stdin:
        data = json.loads(line)
        kernel = KernelInput(
            data["name"], data["text"], isa=data["isa"], kernel=data["kernel"],
            launches=tuple(data["launches"]),
        )
        examine = examiner(data["replay_only"], data["divisible"])
        out.write(json.dumps(answer(kernel, examine, known)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
