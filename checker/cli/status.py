"""Exit statuses, and the one place where an error becomes a message and a status.

In: a command that may raise. Out: the process status; never a traceback (set SAMEBITS_DEBUG=1 to
see one). With `--json`, errors are JSON on standard output as well.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, ParamSpec

import typer

from checker.cache import Defect
from checker.errors import InputError, SamebitsError, UsageError

__all__ = [
    "DEFECT", "EQUAL", "UNEQUAL", "UNPROVED", "UNREADABLE", "USAGE", "error_json", "fail",
    "guarded", "writable",
]

EQUAL = 0
UNEQUAL = 1
USAGE = 2
UNPROVED = 3
UNREADABLE = 4
DEFECT = 70  # a defect in samebits itself

P = ParamSpec("P")


def guarded(*, unreadable: int = UNREADABLE) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Wrap a command: its errors become messages and exit statuses.

    unreadable: the status for text that cannot be read (the gate has its own).
    """

    def wrap(command: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            as_json = bool(kwargs.get("as_json"))
            try:
                command(*args, **kwargs)
            except Defect as error:
                fail(error, DEFECT, as_json)
            except InputError as error:
                fail(error, unreadable, as_json)
            except SamebitsError as error:
                fail(error, USAGE, as_json)
            except (typer.Exit, typer.Abort, KeyboardInterrupt, BrokenPipeError):
                raise
            except OSError as error:
                if os.environ.get("SAMEBITS_DEBUG"):
                    raise
                place = f"{error.filename}: " if error.filename else ""
                fail(UsageError(f"{place}{error.strerror or error}"), USAGE, as_json)
            except Exception as error:
                if os.environ.get("SAMEBITS_DEBUG") or type(error).__module__.startswith("click"):
                    raise
                fail(Defect(error), DEFECT, as_json)

        return run

    return wrap


def writable(*files: Path | None) -> None:
    """Raise UsageError for a file that cannot be written, before anything is worked out for it."""
    for file in files:
        if file is None:
            continue
        if file.is_dir() or not file.parent.is_dir():
            what = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
            raise UsageError(f"cannot write {file}: {what}")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise UsageError(f"cannot write {file}: permission denied")


def error_json(error: SamebitsError) -> dict[str, Any]:
    """An error as JSON data: the message, and the diagnostics with their places."""
    out: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, InputError):
        out["diagnostics"] = [
            {
                "file": d.file, "line": d.span.line, "col": d.span.col, "length": d.span.length,
                "message": d.message, "hint": d.hint,
            }
            for d in error.diagnostics
        ]
    return out


def fail(error: SamebitsError, status: int, as_json: bool) -> NoReturn:
    """Print an error and exit with a status."""
    if as_json:
        print(json.dumps({"error": error_json(error)}, indent=2))
    prefix = "" if isinstance(error, InputError) else "samebits: "
    print(f"{prefix}{error}", file=sys.stderr)
    raise typer.Exit(status)
