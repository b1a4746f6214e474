"""A scanned PTX text with places and diagnostics, and the scopes of its names.

In: tokens, file name. Out: spans and diagnostics by token index; scopes that the parser fills.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from checker.errors import Diagnostic, Span
from checker.shapes import Tokens
from checker.syntax import Name

__all__ = ["Scope", "Source", "short"]


class Source:
    """Tokens, where they stand in the text, and what was found wrong with them."""

    __slots__ = ("diagnostics", "file", "lines", "shown", "tokens")

    def __init__(self, tokens: Tokens, file: str) -> None:
        self.tokens, self.file = tokens, file
        self.lines = [0, *[m.end() for m in re.finditer("\n", tokens.text)]]
        self.diagnostics: list[Diagnostic] = []
        self.shown: dict[int, str] = {}

    def span(self, first: int, last: int) -> Span:
        """Place of the tokens first..last (inclusive)."""
        start = self.tokens.starts[first]
        line = bisect_right(self.lines, start)
        stop = self.tokens.starts[last] + len(self.tokens.words[last])
        return Span(line, start - self.lines[line - 1] + 1, max(1, stop - start))

    def error(self, index: int, message: str, hint: str = "") -> None:
        """Record a diagnostic at a token."""
        span = self.span(index, index)
        self.diagnostics.append(Diagnostic(message, span, hint, self.file, self._line(span.line)))

    def _line(self, line: int) -> str:
        """The text of a line; cut once, however many diagnostics show it."""
        if line not in self.shown:
            text, start = self.tokens.text, self.lines[line - 1]
            end = text.find("\n", start)
            self.shown[line] = text[start : end if end >= 0 else len(text)]
        return self.shown[line]


@dataclass(slots=True)
class Scope:
    """Names of one `{}`: `unique` maps a declared word to its final name."""

    number: int
    parent: Scope | None
    depth: int
    unique: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)
    names: dict[str, Name] = field(default_factory=dict)
    busy: bool = False

    def unique_name(self, word: str) -> str:
        """The final name of a word declared here: as it is at the top of a function."""
        return word if self.depth <= 1 else f"{word}@{self.number}"

    def find(self, word: str) -> tuple[str, str | None, int | None] | None:
        """Final name, type (registers only) and vector length (or None) of a visible word."""
        scope: Scope | None = self
        stem = word.rstrip("0123456789")
        digits = word[len(stem) :]
        while scope is not None:
            if word in scope.unique:
                return scope.unique[word], scope.types.get(word), scope.vectors.get(word)
            if stem in scope.ranges and digits and (digits == "0" or digits[0] != "0"):
                count, type_ = scope.ranges[stem]
                if len(digits) < 10 and int(digits) < count:
                    return scope.unique_name(word), type_, scope.vectors.get(stem)
            scope = scope.parent
        return None


def short(word: str, limit: int = 40) -> str:
    """A word, cut for a message."""
    return word if len(word) <= limit else word[: limit - 3] + "..."
