"""Plans: what one PTX statement shape means, as token indices; built by Lark callbacks.

In: a shape (through checker.shapes). Out: plan objects that read the words of any statement of
that shape. An operand plan is a function (reader, base) -> Operand, base being the index of the
statement's first token.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lark import Token, Transformer

from checker.syntax import Address, Immediate, Name, Operand, Pair, Vector

__all__ = [
    "AttributePlan", "DeclarationPlan", "DeclaratorPlan", "DirectivePlan", "HeaderPlan",
    "InstructionPlan", "OperandPlan", "ParameterPlan", "Plans", "Reader", "SpecPlan",
    "integer", "number",
]


class Reader(Protocol):
    """What an operand plan asks of the parser: words by token index, names by scope."""

    words: list[str]

    def name(self, index: int, neg: bool = False) -> Name:
        """Return the operand for the word at `index`, resolved in the current scope."""

    def number(self, index: int) -> Immediate:
        """Return the literal at `index`."""


OperandPlan = Callable[[Reader, int], Operand]
Children = list[Any]


@dataclass(frozen=True, slots=True)
class InstructionPlan:
    """Indices of guard and opcode, and the plans of the operands."""

    guard: int | None
    guard_neg: bool
    opcode: int
    operands: tuple[OperandPlan, ...]


@dataclass(frozen=True, slots=True)
class SpecPlan:
    """One type word of a declaration: `.b32`, `.v4`, `.global`; or `.align N` (`align` set)."""

    word: int | None = None
    align: int | None = None


@dataclass(frozen=True, slots=True)
class DeclaratorPlan:
    """A declared name: `%r<54>` (count), `x[3][]` (dims: index or None), `= {...}` (initial)."""

    name: int
    count: int | None
    dims: tuple[int | None, ...]
    initial: Any


@dataclass(frozen=True, slots=True)
class DeclarationPlan:
    """A declaration of registers or variables of one state space."""

    linkage: tuple[int, ...]
    space: int
    specs: tuple[SpecPlan, ...]
    declarators: tuple[DeclaratorPlan, ...]


@dataclass(frozen=True, slots=True)
class ParameterPlan:
    """One formal parameter."""

    specs: tuple[SpecPlan, ...]
    name: int
    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class AttributePlan:
    """A directive of a function header: name and argument indices."""

    name: int | None
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeaderPlan:
    """An `.entry` or `.func` header."""

    is_entry: bool
    linkage: tuple[int, ...]
    name: int
    results: tuple[ParameterPlan, ...]
    params: tuple[ParameterPlan, ...]
    attributes: tuple[AttributePlan, ...]


@dataclass(frozen=True, slots=True)
class DirectivePlan:
    """Any other statement: its kind and the indices of its words."""

    kind: str
    args: tuple[int, ...]


def integer(word: str) -> int:
    """Read a PTX integer: hex, binary, octal (leading 0), decimal, optional U.

    Raises ValueError for digits that do not fit the base (`08`).
    """
    body = word.rstrip("U")
    prefix = body[:2].lower()
    if prefix == "0x":
        return int(body, 16)
    if prefix == "0b":
        return int(body[2:], 2)
    if len(body) > 1 and body[0] == "0":
        return int(body, 8)
    return int(body[:40], 10) if len(body) <= 40 else 1 << 130


def number(word: str) -> Immediate:
    """Read a literal: an integer, `0f`/`0d` bits, or a decimal float (kept as f64 bits).

    Raises ValueError for an integer beyond 128 bits or with digits outside its base.
    """
    prefix = word[:2].lower()
    if prefix == "0f" and len(word) == 10:
        return Immediate("f32", int(word[2:], 16), word)
    if prefix == "0d" and len(word) == 18:
        return Immediate("f64", int(word[2:], 16), word)
    if prefix != "0x" and any(c in word for c in ".eE"):
        return Immediate("f64", int.from_bytes(struct.pack("<d", float(word)), "little"), word)
    value = integer(word)
    if value >> 128:
        raise ValueError("the integer does not fit 128 bits")
    return Immediate("int", value, word)


def _minus(literal: Immediate) -> Immediate:
    if literal.kind == "int":
        return Immediate("int", -literal.value, "-" + literal.text)
    sign = 1 << (31 if literal.kind == "f32" else 63)
    return Immediate(literal.kind, literal.value ^ sign, "-" + literal.text)


def _at(token: Any) -> int:
    return int(token.start_pos)


def _indices(children: Children) -> tuple[int, ...]:
    return tuple(_at(c) for c in children if isinstance(c, Token))


class Plans(Transformer[Any, Any]):
    """Lark callbacks; each token's `start_pos` is its index inside the statement."""

    # operands
    def plain_name(self, c: Children) -> OperandPlan:
        k = _at(c[0])
        return lambda reader, base: reader.name(base + k)

    def negated_name(self, c: Children) -> OperandPlan:
        k = _at(c[0])
        return lambda reader, base: reader.name(base + k, True)

    def name_plus(self, c: Children) -> OperandPlan:
        k, sign, (index, minus) = _at(c[0]), _at(c[1]), c[2]

        def build(reader: Reader, base: int) -> Operand:
            value = reader.number(base + index).value
            negative = minus != (reader.words[base + sign] == "-")
            return Address(reader.name(base + k), -value if negative else value)
        return build

    def sign(self, c: Children) -> Any:
        return c[0]

    def offset(self, c: Children) -> tuple[int, bool]:
        return _at(c[0]), False

    def minus_offset(self, c: Children) -> tuple[int, bool]:
        return _at(c[0]), True

    def number(self, c: Children) -> OperandPlan:
        k = _at(c[0])
        return lambda reader, base: reader.number(base + k)

    def minus_number(self, c: Children) -> OperandPlan:
        k = _at(c[0])
        return lambda reader, base: _minus(reader.number(base + k))

    def inverted_number(self, c: Children) -> OperandPlan:
        k = _at(c[0])

        def build(reader: Reader, base: int) -> Operand:
            literal = reader.number(base + k)
            return Immediate("int", ~literal.value, "~" + literal.text)
        return build

    def not_number(self, c: Children) -> OperandPlan:
        k = _at(c[0])

        def build(reader: Reader, base: int) -> Operand:
            literal = reader.number(base + k)
            return Immediate("int", int(literal.value == 0), "!" + literal.text)
        return build

    def vector(self, c: Children) -> OperandPlan:
        plans = tuple(p for p in c if p is not None)
        return lambda reader, base: Vector(tuple([p(reader, base) for p in plans]))

    def bracketed(self, c: Children) -> OperandPlan:
        return self.vector(c)

    def address(self, c: Children) -> OperandPlan:
        first, rest = c[0], tuple(c[1:])

        def build(reader: Reader, base: int) -> Operand:
            operand = first(reader, base)
            others = tuple([p(reader, base) for p in rest])
            if isinstance(operand, Address):
                return Address(operand.base, operand.offset, others)
            return Address(operand, 0, others)
        return build

    def operand(self, c: Children) -> OperandPlan:
        plan: OperandPlan = c[0]
        return plan

    def pair(self, c: Children) -> OperandPlan:
        first, second = c
        return lambda reader, base: Pair(first(reader, base), second(reader, base))

    def operands(self, c: Children) -> tuple[OperandPlan, ...]:
        return tuple(c)

    def guard(self, c: Children) -> tuple[int, bool]:
        return _at(c[0]), False

    def guard_not(self, c: Children) -> tuple[int, bool]:
        return _at(c[0]), True

    def instruction(self, c: Children) -> InstructionPlan:
        guard, neg = c[0] if c[0] is not None else (None, False)
        return InstructionPlan(guard, neg, _at(c[1]), c[2] or ())

    # declarations
    def linkage(self, c: Children) -> Any:
        return ("linkage", _at(c[0]))

    def space(self, c: Children) -> Any:
        return ("space", _at(c[0]))

    def spec(self, c: Children) -> SpecPlan:
        return SpecPlan(word=_at(c[0]))

    def align(self, c: Children) -> SpecPlan:
        return SpecPlan(align=_at(c[0]))

    def ignored_spec(self, c: Children) -> SpecPlan:
        return SpecPlan()

    def dimension(self, c: Children) -> Any:
        return ("dimension", None if c[0] is None else _at(c[0]))

    def declarator(self, c: Children) -> DeclaratorPlan:
        dims = tuple(d[1] for d in c[2:-1])
        return DeclaratorPlan(_at(c[0]), None if c[1] is None else _at(c[1]), dims, c[-1])

    def declaration(self, c: Children) -> DeclarationPlan:
        tagged = [x for x in c if isinstance(x, tuple)]
        return DeclarationPlan(
            tuple(k for tag, k in tagged if tag == "linkage"),
            next(k for tag, k in tagged if tag == "space"),
            tuple(x for x in c if isinstance(x, SpecPlan)),
            tuple(x for x in c if isinstance(x, DeclaratorPlan)),
        )

    # initial values: ("number", plan) | ("symbol", words, sign, addend) | ("list", items)
    def initial_one(self, c: Children) -> Any:
        return c[0]

    def initial_list(self, c: Children) -> Any:
        return ("list", tuple(x for x in c if x is not None))

    def constant(self, c: Children) -> Any:
        return ("number", c[0])

    def symbol(self, c: Children) -> Any:
        return ("symbol", *_symbol(c))

    def generic_symbol(self, c: Children) -> Any:
        return ("symbol", *_symbol(c))

    def masked_symbol(self, c: Children) -> Any:
        return ("masked", *_symbol(c))

    # functions
    def parameter(self, c: Children) -> ParameterPlan:
        specs = tuple(x for x in c if isinstance(x, SpecPlan))
        dims = tuple(x[1] for x in c if isinstance(x, tuple))
        return ParameterPlan(specs, next(_at(x) for x in c if isinstance(x, Token)), dims)

    def parameters(self, c: Children) -> Any:
        return ("parameters", tuple(x for x in c if x is not None))

    def results(self, c: Children) -> Any:
        return ("results", c[0][1])

    def attribute(self, c: Children) -> AttributePlan:
        return AttributePlan(_at(c[0]), _indices(c[1:]))

    def attribute_call(self, c: Children) -> AttributePlan:
        return AttributePlan(_at(c[0]), _indices(c[1:]))

    def attribute_pragma(self, c: Children) -> AttributePlan:
        return AttributePlan(None, _indices(c))

    def entry(self, c: Children) -> HeaderPlan:
        return _header(c, True)

    def func(self, c: Children) -> HeaderPlan:
        return _header(c, False)

    # the rest
    def version(self, c: Children) -> DirectivePlan:
        return DirectivePlan("version", _indices(c))

    def target(self, c: Children) -> DirectivePlan:
        return DirectivePlan("target", _indices(c))

    def address_size(self, c: Children) -> DirectivePlan:
        return DirectivePlan("address_size", _indices(c))

    def section(self, c: Children) -> DirectivePlan:
        return DirectivePlan("section", ())

    def alias(self, c: Children) -> DirectivePlan:
        return DirectivePlan("alias", _indices(c))

    def label(self, c: Children) -> DirectivePlan:
        return DirectivePlan("label", _indices(c))

    def location(self, c: Children) -> DirectivePlan:
        return DirectivePlan("loc", _indices(c))

    def file(self, c: Children) -> DirectivePlan:
        return DirectivePlan("file", _indices(c))

    def pragma(self, c: Children) -> DirectivePlan:
        return DirectivePlan("pragma", _indices(c))

    def targets(self, c: Children) -> DirectivePlan:
        return DirectivePlan("targets", _indices(c))

    def prototype(self, c: Children) -> DirectivePlan:
        return DirectivePlan("prototype", _indices(c))

    def unknown_directive(self, c: Children) -> DirectivePlan:
        return DirectivePlan("unknown", _indices(c))

    def directive(self, c: Children) -> Any:
        return c[0]

    def statement(self, c: Children) -> Any:
        return c[0]


def _symbol(children: Children) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Words of a symbol constant, and its (sign, addend) index pairs."""
    tokens = [c for c in children if c is not None]
    words: list[int] = []
    addends: list[tuple[int, int]] = []
    for position, token in enumerate(tokens):
        if token.type in ("PLUS", "MINUS"):
            addends.append((_at(token), _at(tokens[position + 1])))
        elif not (position and tokens[position - 1].type in ("PLUS", "MINUS")):
            words.append(_at(token))
    return tuple(words), tuple(addends)


def _header(children: Children, is_entry: bool) -> HeaderPlan:
    tagged = [x for x in children if isinstance(x, tuple)]
    return HeaderPlan(
        is_entry,
        tuple(k for tag, k in tagged if tag == "linkage"),
        next(_at(x) for x in children if isinstance(x, Token)),
        next((k for tag, k in tagged if tag == "results"), ()),
        next((k for tag, k in tagged if tag == "parameters"), ()),
        tuple(x for x in children if isinstance(x, AttributePlan)),
    )
