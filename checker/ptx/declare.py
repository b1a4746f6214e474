"""Names and declarations of a PTX text: registers, variables with their data, parameters.

In: plans of declarations, token indices. Out: scopes filled, `Variable`s and `Parameter`s; names
of operands resolved to unique ones. The parser (checker.ptx.parser) drives it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checker.ptx.data import TYPE_BITS, Relocation, initial_bytes
from checker.ptx.plans import (
    DeclarationPlan,
    DeclaratorPlan,
    HeaderPlan,
    ParameterPlan,
    SpecPlan,
    number,
)
from checker.ptx.source import Scope, Source, short
from checker.syntax import Directive, Immediate, Name, Parameter, SourceLoc, Variable

__all__ = ["Body", "Declarations"]

_OPAQUE_TYPES = ("texref", "samplerref", "surfref")


@dataclass(slots=True)
class Body:
    """A function while it is read: statements wait until all labels of the file are known."""

    header: HeaderPlan
    base: int
    root: Scope
    waiting: list[tuple[object, int, int, Scope]] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)
    register_types: dict[str, str] = field(default_factory=dict)
    scopes: int = 0
    has_body: bool = False


class Declarations:
    """The declaring half of the parser (see plans.Reader for what operand plans ask of it)."""

    def __init__(self, source: Source) -> None:
        self.source, self.text = source, source.tokens.text
        self.tokens, self.words = self.source.tokens, self.source.tokens.words
        self.scope = Scope(0, None, 0)
        self.globals = self.scope
        self.variables: list[Variable] = []
        self.directives: list[Directive] = []
        self.functions: list[Body] = []
        self.header: dict[str, tuple[str, ...]] = {}
        self.files: dict[str, str] = {}
        self.numbers: dict[str, Immediate] = {}
        self.locs: dict[tuple[str, str, str], SourceLoc] = {}
        self.current: Body | None = None

    # --- names ---

    def _declare(self, i: int, word: str) -> str:
        """Declare a word in the current scope; return its unique name."""
        scope = self.scope
        unique = scope.unique_name(word)
        # Module variables may be declared again (`.extern`, then the definition).
        if word in scope.unique and word != "_" and scope.depth:
            self.source.error(i, f"`{short(word)}` is declared twice in one scope")
        scope.unique[word] = unique
        return unique

    def name(self, index: int, neg: bool = False) -> Name:
        """Return the operand of a word in the current scope (see plans.Reader)."""
        word = self.words[index]
        key = "!" + word if neg else word
        found = self.scope.names.get(key)
        if found is None:
            found = self._resolve(word, neg)
            self.scope.names[key] = found
        return found

    def _resolve(self, word: str, neg: bool) -> Name:
        sub = ""
        if "." in word:
            word, _, sub = word.partition(".")
            sub = "." + sub
        found = self.scope.find(word)
        if found is None:
            return Name(word, sub, neg)
        unique, type_, vector = found
        self._use(unique, type_, vector, sub)
        return Name(unique, sub, neg)

    def _use(self, unique: str, type_: str | None, vector: int | None, sub: str) -> None:
        if type_ is not None and self.current is not None:
            name = unique + (sub if vector else "")
            self.current.registers[name] = TYPE_BITS.get(type_, 32)
            self.current.register_types[name] = type_

    def number(self, index: int) -> Immediate:
        """Return the literal of a word (see plans.Reader)."""
        word = self.words[index]
        found = self.numbers.get(word)
        if found is None:
            try:
                found = number(word)
            except ValueError:
                self.source.error(index, f"`{short(word)}` is no valid number",
                            "a leading 0 means octal; integers have at most 128 bits")
                found = Immediate("int", 0, word)
            self.numbers[word] = found
        return found

    def _count(self, index: int, limit: int = 1 << 40) -> int:
        value = self.number(index).value
        if value > limit:
            self.source.error(index, f"`{short(self.words[index])}` is too large")
            return 0
        return value

    def _declaration(self, plan: DeclarationPlan, i: int, skipped: re.Match[str] | None) -> None:
        space = self.words[i + plan.space]
        words, align, lanes = self._specs(plan.specs, i)
        type_ = next((w for w in words if w in TYPE_BITS), "")
        linkage = [self.words[i + k] for k in plan.linkage]
        if space == ".reg":
            for item in plan.declarators:
                self._registers(item, i, type_, lanes)
            return
        if not type_ and not any(w in _OPAQUE_TYPES for w in words):
            name = short(self.words[i + plan.declarators[0].name])
            self.source.error(i, f"the type of `{name}` is missing")
        for item in plan.declarators:
            self._variable(item, i, space, type_, lanes, align, ".extern" in linkage, skipped)

    def _specs(self, specs: tuple[SpecPlan, ...], i: int) -> tuple[list[str], int, int]:
        """Type words, alignment (0: not given) and vector length of a declaration."""
        words = [self.words[i + s.word] for s in specs if s.word is not None]
        align = next((self._count(i + s.align) for s in specs if s.align is not None), 0)
        lanes = next((int(w[2:]) for w in words if w in (".v2", ".v4", ".v8")), 1)
        return [w.lstrip(".") for w in words], align, lanes

    def _registers(self, item: DeclaratorPlan, i: int, type_: str, lanes: int) -> None:
        at = i + item.name
        word = self.words[at]
        if not type_:
            self.source.error(at, f"the type of register `{short(word)}` is missing")
        hidden = self.scope.parent and self.scope.parent.find(word if item.count is None
                                                              else word + "0")
        if self.scope.busy and self.scope.depth > 1 and hidden:
            self.source.error(at, f"`{short(word)}` hides an outer name in the middle of a scope",
                              "declare registers at the start of a scope")
        if item.count is None:
            self._declare(at, word)
            self.scope.types[word] = type_
        elif word in self.scope.ranges:
            self.source.error(at, f"registers `{short(word)}` are declared twice in one scope")
        else:
            self.scope.ranges[word] = (self._count(i + item.count, 1 << 31), type_)
        if lanes > 1:
            self.scope.vectors[word] = lanes

    def _variable(self, item: DeclaratorPlan, i: int, space: str, type_: str, lanes: int,
                  align: int, external: bool, skipped: re.Match[str] | None) -> None:
        at = i + item.name
        name = self._declare(at, self.words[at])
        element = max(1, TYPE_BITS.get(type_, 64) // 8)
        size = element * lanes
        unsized = False
        for dim in item.dims:
            if dim is None:
                unsized = True
            else:
                size *= self._count(i + dim)
        init: bytes | None = None
        relocations: tuple[Relocation, ...] = ()
        if item.initial is not None:
            values = self._int_list(i, skipped) if skipped else None
            try:
                init, relocations = initial_bytes(self, i, item.initial, type_, values)
            except ValueError as error:
                self.source.error(at, f"initial value of `{short(self.words[at])}`: {error}")
                init = b""
        if unsized and init is not None:
            size = len(init)
        elif unsized:
            size = 0
        if init is not None:
            if len(init) > size:
                self.source.error(at, f"`{short(name)}` has more initial values than elements")
            init = init + bytes(max(0, min(size, 1 << 28) - len(init)))
        span = self.source.span(at, at)
        for r in relocations:
            self.directives.append(Directive(".init_address", (name, *r.words()), span))
        variable = Variable(name, space[1:], size, align or element * lanes, init,
                            external or not type_, span)
        (self.current.variables if self.current else self.variables).append(variable)

    def _int_list(self, i: int, skipped: re.Match[str]) -> list[int]:
        first, last = i + skipped.start(), i + skipped.end()
        return [self.number(k).value for k in range(first, last, 2)]

    def _formal(self, plan: ParameterPlan, i: int) -> None:
        """Declare a formal parameter; a `.reg` one is a register."""
        word = self.words[i + plan.name]
        if word == "_":
            return
        self._declare(i + plan.name, word)
        type_ = next((w for w in self._specs(plan.specs, i)[0] if w in TYPE_BITS), "")
        if self.words[i + _first_word(plan) - 1] == ".reg":
            self.scope.types[word] = type_

    def _parameter(self, plan: ParameterPlan, i: int) -> Parameter:
        words, align, lanes = self._specs(plan.specs, i)
        type_ = next((w for w in words if w in TYPE_BITS), "")
        size = max(1, TYPE_BITS.get(type_, 64) // 8) * lanes
        natural = size
        for dim in plan.dims:
            size *= self._count(i + dim) if dim is not None else 1
        # `.ptr .align N` describes what the pointer points to, not the parameter.
        own_align = align if align and "ptr" not in words else natural
        at = i + plan.name
        return Parameter(self.words[at], type_, size, own_align, "ptr" in words,
                         self.source.span(at, at))


def _first_word(plan: ParameterPlan) -> int:
    """Index of the first word after `.param`/`.reg`."""
    indices = [k for s in plan.specs for k in (s.word, s.align and s.align - 1) if k]
    return min([*indices, plan.name])
