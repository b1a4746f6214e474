"""Shapes: parse a statement's token kinds once per process, re-use the result for every twin.

In: a Lark grammar of `grammars/`, a text. Out: tokens, and per statement a *plan* built from the
statement's shape alone (the string of its token kinds). Refuses, with a position, what the
grammar refuses. Vendor-neutral: both front ends use it.

How to use it (checker/ptx/parser.py is the example):

    class Plans(Transformer): ...        # Lark callbacks; a token arrives as a Lark Token whose
                                         # `start_pos` is its INDEX inside the statement
    SHAPES = ShapeGrammar("gcn.lark", ("module", "statement"), Plans())
    tokens = SHAPES.scan(text)           # kinds "wi,w\n...", starts, words: parallel, by token
    first = tokens.kinds.find(SHAPES.kind("NEWLINE"), i)     # cut statements on the kinds string
    plan = SHAPES.plan("statement", tokens.kinds[i:first+1]) # cached; ShapeError if refused
    item = plan(tokens, i)               # the plan reads tokens.words[i + index]

Every terminal of the grammar has a one-character kind: `kind("WORD")`, `kind(".reg")`, and
one-character literals are their own kind. A text that no terminal matches yields `ERROR` tokens.
Terminals are regular expressions without capturing groups. Plans hold token indices, never words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken
from lark.lexer import Lexer, PatternStr, TerminalDef

__all__ = ["ERROR", "ShapeError", "ShapeGrammar", "Tokens"]

ERROR = "\uffff"
MAX_NESTING = 12
_SHAPES_KEPT = 20_000


class ShapeError(Exception):
    """A shape the grammar refuses: index of the first bad token, and what could stand there."""

    def __init__(self, index: int, expected: tuple[str, ...], at_end: bool = False) -> None:
        self.index, self.expected, self.at_end = index, expected, at_end
        super().__init__(f"token {index}: expected {', '.join(expected)}")


@dataclass(slots=True)
class Tokens:
    """A scanned text: `kinds[i]`, `starts[i]` (offset) and `words[i]` belong to token i."""

    text: str
    kinds: str
    starts: list[int]
    words: list[str]

    def slice(self, first: int, last: int) -> str:
        """Return the source text of tokens first..last (inclusive)."""
        return self.text[self.starts[first] : self.starts[last] + len(self.words[last])]


class _ShapeLexer(Lexer):
    """Feeds Lark the terminals named by a shape; token positions are indices."""

    def __init__(self, lexer_conf: Any) -> None:
        self.names = {kind: name for name, kind in _kinds(lexer_conf.terminals).items()}

    def lex(self, data: Any, parser_state: Any = None) -> Iterator[Token]:
        names = self.names
        for index, kind in enumerate(str(data)):
            yield Token(names.get(kind, "ERROR"), "", start_pos=index, line=1, column=index + 1)


def _kinds(terminals: Collection[TerminalDef]) -> dict[str, str]:
    """Give each terminal one character: single literals their own, others from U+0100 up."""
    out: dict[str, str] = {}
    for number, terminal in enumerate(sorted(terminals, key=lambda t: t.name)):
        literal = terminal.pattern.value if isinstance(terminal.pattern, PatternStr) else ""
        out[terminal.name] = literal if len(literal) == 1 else chr(0x100 + number)
    return out


class ShapeGrammar:
    """A grammar compiled for statement-wise parsing with one plan per shape."""

    def __init__(self, grammar: str, starts: Sequence[str], plans: Transformer[Any, Any]) -> None:
        self.source = files("grammars").joinpath(grammar).read_text(encoding="utf-8")
        self._lark = Lark(self.source, parser="lalr", lexer=_ShapeLexer, start=list(starts),
                          transformer=plans, maybe_placeholders=True)
        self._plans: dict[tuple[str, str], Any] = {}
        terminals = self._lark.terminals
        self._kind_of = _kinds(terminals)
        self._shown = {t.name: _shown(t) for t in terminals}
        for terminal in terminals:
            if isinstance(terminal.pattern, PatternStr):
                self._kind_of[terminal.pattern.value] = self._kind_of[terminal.name]
        self._compile_scanner(terminals, set(self._lark.ignore_tokens))

    def kind(self, terminal: str) -> str:
        """Return the kind of a terminal, by its name or by its literal text."""
        return self._kind_of[terminal]

    def _compile_scanner(self, terminals: Collection[TerminalDef], ignored: set[str]) -> None:
        """One master pattern in Lark's own order; literals inside a pattern become keywords."""
        order = sorted(terminals, key=lambda t: (-t.priority, -t.pattern.max_width,
                                                 -len(t.pattern.value), t.name))
        regexps = [t for t in order if not isinstance(t.pattern, PatternStr)]
        literals = [t for t in order if isinstance(t.pattern, PatternStr)]
        skip = "|".join(t.pattern.to_regexp() for t in regexps if t.name in ignored)
        groups: list[str] = []
        table: list[tuple[str, dict[str, str]] | None] = [None]
        for terminal in regexps:
            pattern = terminal.pattern.to_regexp()
            words = {t.pattern.value: self._kind_of[t.name] for t in literals
                     if re.fullmatch(pattern, t.pattern.value)}
            literals = [t for t in literals if t.pattern.value not in words]
            groups.append(f"({pattern})")
            kind = "" if terminal.name in ignored else self._kind_of[terminal.name]
            table.append((kind, words) if kind else None)
        rest = {t.pattern.value: self._kind_of[t.name] for t in literals}
        longest_first = sorted(rest, key=lambda value: (-len(value), value))
        groups.append("(" + "|".join(re.escape(value) for value in longest_first) + ")")
        table.append(("", rest))
        groups.append("([\\s\\S])")
        table.append((ERROR, {}))
        trailing = f"(?:{skip})*+" if skip else ""
        self._master = re.compile(f"(?:{'|'.join(groups)}){trailing}")
        self._table = table

    def scan(self, text: str, start: int = 0, end: int | None = None) -> Tokens:
        """Cut a text (or a part of it) into tokens; never fails (see `ERROR`)."""
        kinds: list[str] = []
        starts: list[int] = []
        words: list[str] = []
        table = self._table
        for match in self._master.finditer(text, start, len(text) if end is None else end):
            group = match.lastindex or 0
            entry = table[group]
            if entry is None:
                continue
            word = match[group]
            kinds.append(entry[1].get(word, entry[0]))
            starts.append(match.start(group))
            words.append(word)
        return Tokens(text, "".join(kinds), starts, words)

    def plan(self, start: str, shape: str) -> Any:
        """Return the plan of a shape, parsing it at its first appearance only.

        Raises ShapeError for a shape that the grammar refuses or that nests too deeply.
        """
        key = (start, shape)
        plan = self._plans.get(key)
        if plan is None:
            _check_nesting(shape)
            plan = self._parse(start, shape)
            if len(self._plans) >= _SHAPES_KEPT:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _parse(self, start: str, shape: str) -> Any:
        try:
            return self._lark.parse(shape, start=start)
        except UnexpectedToken as error:
            at_end = error.token.type == "$END"
            index = len(shape) if at_end else int(error.token.start_pos or 0)
            raise ShapeError(index, self._expected(error), at_end) from None
        except UnexpectedInput:
            raise ShapeError(0, ()) from None

    def _expected(self, error: UnexpectedToken) -> tuple[str, ...]:
        return tuple(sorted({self._shown.get(name, name) for name in error.expected}))


def _shown(terminal: TerminalDef) -> str:
    """How a terminal is named in a message: literals quoted, others by name in lower case."""
    if isinstance(terminal.pattern, PatternStr):
        return f"`{terminal.pattern.value}`"
    return terminal.name.lower()


def _check_nesting(shape: str) -> None:
    depth = 0
    for index, kind in enumerate(shape):
        if kind in "([{":
            depth += 1
            if depth > MAX_NESTING:
                raise ShapeError(index, ("less nesting",))
        elif kind in ")]}":
            depth -= 1
