"""Statement text -> operands: the lexer and tree reader of `grammars/gcn.lark`.

In: one statement without comments. Out: opcode and `syntax` operands. One Lark parse is made for
each sequence of token types (a shape); later statements of that shape only fill its tree.
Refuses: text that the grammar does not accept (`StatementError`, with the column).
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from checker.syntax import Address, Immediate, Modifier, Name, Operand, Range, Vector

__all__ = ["StatementError", "evaluate", "read_expression", "read_instruction"]

MAX_NESTING = 64


class StatementError(Exception):
    """A statement that the grammar refuses: message and 0-based column."""

    def __init__(self, message: str, column: int, length: int = 1) -> None:
        super().__init__(message)
        self.message, self.column, self.length = message, column, length


@lru_cache(maxsize=1)
def _lark() -> Lark:
    return Lark.open_from_package("grammars", "gcn.lark", search_paths=("",), parser="lalr",
                                  lexer="basic", start=["instruction", "expression"],
                                  maybe_placeholders=False)


@lru_cache(maxsize=1)
def _scanner() -> re.Pattern[str]:
    """One pattern with a named group for each terminal of the grammar, by priority."""
    terminals = sorted((t for t in _lark().terminals if not t.name.startswith("__IGNORE")),
                       key=lambda t: (-t.priority, -len(t.pattern.value)))
    return re.compile(r"[ \t]*(?:" + "|".join(
        f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in terminals) + ")")


def _tokens(text: str, column: int) -> tuple[tuple[str, ...], list[tuple[str, int]]]:
    kinds: list[str] = []
    values: list[tuple[str, int]] = []
    match = _scanner().match
    at, end, depth = 0, len(text.rstrip()), 0
    while at < end:
        found = match(text, at)
        if found is None or found.end() == at:
            skip = len(text[at:]) - len(text[at:].lstrip())
            raise StatementError(f"unexpected character {text[at + skip]!r}", column + at + skip)
        kind = found.lastgroup or ""
        if kind in ("_LPAR", "_LSQB"):
            depth += 1
            if depth > MAX_NESTING:
                raise StatementError("brackets nested too deeply", column + found.start(kind))
        elif kind in ("_RPAR", "_RSQB"):
            depth -= 1
        elif kind in ("MINUS", "PLUS", "_TILDE") and kinds[-MAX_NESTING:] == [kind] * MAX_NESTING:
            raise StatementError("too many signs", column + found.start(kind))
        kinds.append(kind)
        values.append((found.group(kind), found.start(kind)))
        at = found.end()
    return tuple(kinds), values


_SHAPES: dict[tuple[str, tuple[str, ...]], Tree[int]] = {}
_MAX_SHAPES = 20_000


def _tree(start: str, kinds: tuple[str, ...], values: list[tuple[str, int]], column: int,
          text: str) -> Tree[int]:
    tree = _SHAPES.get((start, kinds))
    if tree is not None:
        return tree
    parser = _lark().parse_interactive(start=start)
    last = 0
    try:
        for last, kind in enumerate(kinds):
            parser.feed_token(Token(kind, str(last)))
        last = len(kinds)
        found: Any = parser.feed_eof(Token("$END", str(len(kinds))))  # type: ignore[no-untyped-call]
    except UnexpectedInput:
        if last < len(values):
            word, at = values[last]
            raise StatementError(f"unexpected {word!r}", column + at, len(word)) from None
        raise StatementError("statement ends too early", column + len(text.rstrip())) from None
    if len(_SHAPES) < _MAX_SHAPES:
        _SHAPES[start, kinds] = found
    return found  # type: ignore[no-any-return]


class _Reader:
    """Fills a shape's tree with the tokens of one statement."""

    def __init__(self, text: str, values: list[tuple[str, int]], column: int) -> None:
        self.text, self.values, self.column = text, values, column

    def word(self, token: Any) -> str:
        return self.values[int(token)][0]

    def fail(self, message: str, node: Any) -> StatementError:
        first = next(iter(node.scan_values(lambda _: True)), None) if isinstance(node, Tree) \
            else node
        at = self.values[int(first)][1] if first is not None else 0
        return StatementError(message, self.column + at)

    def operand(self, node: Any) -> Operand:
        reader = getattr(self, "_" + node.data)
        return reader(node)  # type: ignore[no-any-return]

    def _register(self, node: Any) -> Operand:
        name, _, sub = self.word(node.children[0]).partition(".")
        return Name(name.replace("acc", "a"), sub)

    def _range(self, node: Any) -> Operand:
        file = self.word(node.children[0]).replace("acc", "a")
        bounds = [self.integer(child) for child in node.children[1:]]
        if bounds[-1] < bounds[0]:
            raise self.fail(f"register range {bounds[0]}:{bounds[-1]} runs backwards", node)
        if bounds[0] < 0 or bounds[-1] > 1023:
            raise self.fail(f"register range {bounds[0]}:{bounds[-1]} does not exist", node)
        if len(bounds) == 1:
            return Name(f"{file}{bounds[0]}")
        return Range(file, bounds[0], bounds[1])

    def _keyed_range(self, node: Any) -> Operand:
        raise self.fail("symbolic register ranges are not read", node)

    def _list(self, node: Any) -> Operand:
        items = tuple(self.operand(child) for child in node.children)
        names = [i.name for i in items if isinstance(i, Name)]
        file = names[0].rstrip("0123456789") if names else ""
        if names and len(names) == len(items) and file in ("v", "s", "a", "ttmp"):
            first = int(names[0][len(file):] or -1)
            if names == [f"{file}{first + i}" for i in range(len(names))]:
                return Range(file, first, first + len(names) - 1)
        return Vector(items)

    def _keyed(self, node: Any) -> Operand:
        key, value = node.children
        return Modifier(self.word(key)[:-1], self.plain(value))

    def _bars(self, node: Any) -> Operand:
        inner = self.operand(node.children[0])
        if isinstance(inner, Name):
            return Name(inner.name, inner.sub, False, True)
        if isinstance(inner, Range):
            return Range(inner.file, inner.first, inner.last, False, True)
        return Vector((Name("abs"), inner))

    def _minus(self, node: Any) -> Operand:
        inner = self.operand(node.children[-1])
        if isinstance(inner, Name):
            return Name(inner.name, inner.sub, not inner.neg, inner.absolute)
        if isinstance(inner, Range):
            return Range(inner.file, inner.first, inner.last, not inner.neg, inner.absolute)
        if isinstance(inner, Immediate) and inner.kind == "int":
            return Immediate("int", -inner.value, "-" + inner.text)
        if isinstance(inner, Immediate) and inner.kind == "f64":
            return Immediate("f64", inner.value ^ (1 << 63), "-" + inner.text)
        return Vector((Name("neg"), inner))

    def _plus(self, node: Any) -> Operand:
        return self.operand(node.children[-1])

    def _complement(self, node: Any) -> Operand:
        return self.computed(node)

    def _group(self, node: Any) -> Operand:
        return self.operand(node.children[0])

    def _integer(self, node: Any) -> Operand:
        text = self.word(node.children[0])
        return Immediate("int", int(text, 0) if text.lower()[:2] in ("0x", "0b") else int(text),
                         text)

    def _decimal(self, node: Any) -> Operand:
        text = self.word(node.children[0])
        return Immediate("f64", struct.unpack("<Q", struct.pack("<d", float(text)))[0], text)

    def _word(self, node: Any) -> Operand:
        return Name(self.word(node.children[0]))

    def _string(self, node: Any) -> Operand:
        return Immediate("str", 0, self.word(node.children[0]))

    def _call(self, node: Any) -> Operand:
        name = self.word(node.children[0])
        args = node.children[1:]
        if name in ("neg", "abs", "sext") and len(args) == 1:
            inner = self.operand(args[0])
            if isinstance(inner, Name) and name == "neg":
                return Name(inner.name, inner.sub, not inner.neg, inner.absolute)
            if isinstance(inner, Name) and name == "abs":
                return Name(inner.name, inner.sub, False, True)
            if isinstance(inner, Range) and name == "neg":
                return Range(inner.file, inner.first, inner.last, not inner.neg, inner.absolute)
            if isinstance(inner, Range) and name == "abs":
                return Range(inner.file, inner.first, inner.last, False, True)
            return Vector((Name(name), inner))
        if name in ("lit", "lit64") and len(args) == 1:
            return self.operand(args[0])
        return Modifier(name, ",".join(self.plain(arg) for arg in args))

    def _calls(self, node: Any) -> Operand:
        return Vector(tuple(self.operand(child) for child in node.children))

    def _chain(self, node: Any) -> Operand:
        if len(node.children) == 1:
            return self.operand(node.children[0])
        return self.computed(node)

    def computed(self, node: Any) -> Operand:
        """An expression: an integer, `symbol + offset`, or calls joined by `&`."""
        parts = [c for c in node.children if isinstance(c, Tree)]
        if len(parts) > 1 and all(p.data == "call" for p in parts):
            return Vector(tuple(self.operand(p) for p in parts))
        value = evaluate(self.plain(node), {})
        if value is not None:
            return Immediate("int", value, self.plain(node))
        if node.data == "chain" and parts[0].data == "word" and len(parts) == 2:
            offset = evaluate(self.plain(parts[1]), {})
            sign = {"+": 1, "-": -1}.get(self.word(node.children[1]))
            if offset is not None and sign is not None:
                return Address(Name(self.word(parts[0].children[0])), sign * offset)
        return Address(Name(self.plain(node)))

    def plain(self, node: Any) -> str:
        """The text of a subtree, spaces removed."""
        if not isinstance(node, Tree):
            return self.word(node)
        inner = [self.plain(child) for child in node.children]
        if node.data == "list":
            return "[" + ",".join(inner) + "]"
        if node.data == "call":
            return f"{inner[0]}({','.join(inner[1:])})"
        if node.data == "group":
            return f"({inner[0]})"
        if node.data == "bars":
            return f"|{inner[0]}|"
        if node.data == "complement":
            return "~" + "".join(inner)
        if node.data == "range":
            return f"{inner[0]}[{':'.join(inner[1:])}]"
        return "".join(inner)

    def integer(self, node: Any) -> int:
        value = evaluate(self.plain(node), {})
        if value is None:
            raise self.fail("expected a constant", node)
        return value


def read_instruction(text: str, column: int = 0) -> tuple[str, tuple[Operand, ...]]:
    """Read one instruction; `a :: b` gives opcode "a::b" and one Vector of operands for each.

    Raises StatementError with a 0-based column (counted from `column`).
    """
    kinds, values = _tokens(text, column)
    tree = _tree("instruction", kinds, values, column, text)
    reader = _Reader(text, values, column)
    parts: list[tuple[str, tuple[Operand, ...]]] = []
    for part in tree.children:
        assert isinstance(part, Tree)
        operands = tuple(reader.operand(child) for child in part.children[1:])
        parts.append((reader.word(part.children[0]), operands))
    if len(parts) == 1:
        return parts[0]
    return "::".join(p[0] for p in parts), tuple(Vector(p[1]) for p in parts)


def read_expression(text: str, column: int = 0) -> str:
    """Check that a directive's argument is an expression; return its text without spaces."""
    kinds, values = _tokens(text, column)
    tree = _tree("expression", kinds, values, column, text)
    return _Reader(text, values, column).plain(tree)


_PIECES = re.compile(r"0[xX][0-9a-fA-F]+|0[bB][01]+|\d+|[A-Za-z_.$?][\w.$@?]*|>>|<<|[=!<>]=|&&|"
                     r"[-+*/%&^<>~(),|!]")
_LEVELS = (("&&",), ("==", "!=", "<", ">", "<=", ">="), ("|", "^", "&"), ("<<", ">>"),
           ("+", "-"), ("*", "/", "%"))


def evaluate(text: str, symbols: dict[str, int]) -> int | None:
    """Evaluate an assembler expression; None if a symbol or function is unknown."""
    pieces = _PIECES.findall(text)
    if not pieces or len(pieces) > 500 or "".join(pieces) != text.replace(" ", "") or \
            _too_deep(pieces):
        return None
    try:
        value, rest = _level(pieces, 0, symbols, 0)
    except (ValueError, IndexError, ZeroDivisionError, OverflowError):
        return None
    return value if rest == len(pieces) else None


def _too_deep(pieces: list[str]) -> bool:
    """More than 40 open brackets and signs in a row: no assembler prints that."""
    depth = 0
    for piece in pieces:
        if piece in "(-+~!":
            depth += 1
        elif piece == ")":
            depth -= 1
        if depth > 40:
            return True
    return False


def _level(p: list[str], at: int, symbols: dict[str, int], level: int) -> tuple[int, int]:
    if level == len(_LEVELS):
        return _unary(p, at, symbols)
    value, at = _level(p, at, symbols, level + 1)
    while at < len(p) and p[at] in _LEVELS[level]:
        operator = p[at]
        right, at = _level(p, at + 1, symbols, level + 1)
        value = _apply(operator, value, right)
    return value, at


def _apply(operator: str, a: int, b: int) -> int:
    if operator in ("<<", ">>") and not 0 <= b < 64:
        raise ValueError(operator)
    table = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a // b,
             "%": lambda: a % b, "<<": lambda: a << b, ">>": lambda: a >> b, "&": lambda: a & b,
             "|": lambda: a | b, "^": lambda: a ^ b, "==": lambda: -int(a == b),
             "!=": lambda: -int(a != b), "<": lambda: -int(a < b), ">": lambda: -int(a > b),
             "<=": lambda: -int(a <= b), ">=": lambda: -int(a >= b),
             "&&": lambda: int(bool(a and b))}
    return table[operator]()


def _unary(p: list[str], at: int, symbols: dict[str, int]) -> tuple[int, int]:
    piece = p[at]
    if piece in "-+~!":
        value, at = _unary(p, at + 1, symbols)
        return {"-": -value, "+": value, "~": ~value, "!": int(not value)}[piece], at
    if piece == "(":
        value, at = _level(p, at + 1, symbols, 0)
        if p[at] != ")":
            raise ValueError("bracket")
        return value, at + 1
    if piece[0].isdigit():
        return int(piece, 0) if piece[:2].lower() in ("0x", "0b") else int(piece), at + 1
    if at + 1 < len(p) and p[at + 1] == "(":
        return _function(piece, p, at + 2, symbols)
    if piece not in symbols:
        raise ValueError(piece)
    return symbols[piece], at + 1


def _function(name: str, p: list[str], at: int, symbols: dict[str, int]) -> tuple[int, int]:
    args: list[int] = []
    while p[at] != ")":
        value, at = _level(p, at, symbols, 0)
        args.append(value)
        if p[at] == ",":
            at += 1
    if name == "max":
        return max(args), at + 1
    if name == "or":
        result = 0
        for value in args:
            result |= value
        return result, at + 1
    if name == "alignto" and len(args) == 2:
        return -(-args[0] // args[1]) * args[1], at + 1
    raise ValueError(name)
