"""Every error that a user can cause, as one tree.

SamebitsError
├── UsageError            wrong call: unknown option value, a kernel name that is not in the file
├── InputError            text that cannot be read; carries all diagnostics of the file
└── LaunchError           launch facts that do not fit the kernel

A `Diagnostic` is one message with its place; `render` prints `file:line:col: message`, the
source line and a caret.
"""

from __future__ import annotations

from collections.abc import Sequence

from checker.record import record

__all__ = ["Diagnostic", "InputError", "LaunchError", "SamebitsError", "Span", "UsageError"]


@record
class Span:
    """A place in a text: 1-based line and column, length in characters (at least 1)."""

    line: int
    col: int
    length: int = 1


@record
class Diagnostic:
    """One message about one place: what was found and what to do next."""

    message: str
    span: Span
    hint: str = ""
    file: str = "<text>"
    source_line: str = ""

    def render(self) -> str:
        """Return `file:line:col: message`, then the source line with a caret, then the hint."""
        out = [f"{self.file}:{self.span.line}:{self.span.col}: {self.message}"]
        if self.source_line:
            shown, start = _window(self.source_line, self.span.col)
            width = max(1, min(self.span.length, len(shown) - start))
            out += ["  " + shown, "  " + " " * start + "^" + "~" * (width - 1)]
        if self.hint:
            out.append(f"  hint: {self.hint}")
        return "\n".join(out)


def _window(line: str, col: int, width: int = 96) -> tuple[str, int]:
    """Cut a long line to a window around the column; tabs become single spaces."""
    line = line.replace("\t", " ")
    start = max(0, col - 1 - width // 2) if len(line) > width else 0
    return line[start : start + width], max(0, col - 1 - start)


class SamebitsError(Exception):
    """Base of all errors that a user can cause; never shown as a traceback."""


class UsageError(SamebitsError):
    """The call itself is wrong."""


class InputError(SamebitsError):
    """A text that cannot be read as a whole; `diagnostics` holds every error found in it."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class LaunchError(SamebitsError):
    """Launch facts that do not fit the kernel; the message names the parameter."""
