"""Parse PTX text into a Module: scan once, cut into statements, one plan per statement shape.

In: text. Out: Module with every function. Collects all errors of the file (resuming at the next
`;` or `}`) and raises them as one InputError; never returns part of a file as the whole.
Names of nested scopes become `name@N`. Debug sections are skipped; `.loc` gives source places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checker.errors import Diagnostic, InputError, Span
from checker.ptx.data import TYPE_BITS, Relocation, initial_bytes
from checker.ptx.plans import (
    DeclarationPlan,
    DeclaratorPlan,
    DirectivePlan,
    HeaderPlan,
    InstructionPlan,
    ParameterPlan,
    Plans,
    SpecPlan,
    number,
)
from checker.ptx.source import Scope, Source, short
from checker.shapes import ERROR, ShapeError, ShapeGrammar
from checker.syntax import (
    Directive,
    Function,
    Guard,
    Immediate,
    Instruction,
    Item,
    Label,
    Module,
    Name,
    Operand,
    Parameter,
    SourceLoc,
    Variable,
    Vector,
)

__all__ = ["SHAPES", "parse_ptx"]

SHAPES = ShapeGrammar("ptx.lark", ("module", "directive", "header", "statement"), Plans())

MAX_DIAGNOSTICS = 50
MAX_SCOPES_DEEP = 64
MAX_TOKENS = 20_000_000

_WORD, _LOC, _FILE = SHAPES.kind("WORD"), SHAPES.kind(".loc"), SHAPES.kind(".file")
_INT, _STRING, _PRAGMA = SHAPES.kind("INT"), SHAPES.kind("STRING"), SHAPES.kind(".pragma")
_SECTION = SHAPES.kind("SECTION")
_ENTRY, _FUNC = SHAPES.kind(".entry"), SHAPES.kind(".func")
_LINKAGE = "".join(SHAPES.kind(w) for w in (".visible", ".extern", ".weak", ".common"))
_LABELLED = "".join(SHAPES.kind(w) for w in (".branchtargets", ".calltargets", ".callprototype"))
_REG = SHAPES.kind(".reg")

# Statements without a `;`: where they end, on the kinds string.
_ENDS = {
    SHAPES.kind(".version"): re.compile(".."),
    SHAPES.kind(".address_size"): re.compile(".."),
    SHAPES.kind(".target"): re.compile(f".{_WORD}(?:,{_WORD})*+"),
    _SECTION: re.compile("."),
    _FILE: re.compile(f".{_INT}{_STRING}(?:,{_INT},{_INT})?"),
    _LOC: re.compile(f".{_INT}{{3}}(?:,{_WORD}{_WORD}(?:\\+{_INT})?,{_WORD}{_INT}{{3}})?"),
}
_HEADER_END = re.compile(f"(?:{_PRAGMA}{_STRING}(?:,{_STRING})*+;|[^{{;])*+")
_DIRECTIVES = "".join(SHAPES.kind(w) for w in (".version", ".address_size", ".target", ".alias"))
_DIRECTIVES += _SECTION
# A long flat list of integers as initial value: read apart, so that it makes no shape of its own.
_INT_LIST = re.compile(f"(?<==\\{{){_INT}(?:,{_INT}){{16,}}(?=\\}};\\Z)")


@dataclass(slots=True)
class _Body:
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


def parse_ptx(text: str, file: str = "<text>") -> Module:
    """Return the Module of a PTX text.

    Raises InputError with every diagnostic of the text.
    """
    return _Parser(text, file).run()


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text = text.rstrip("\x00 \t\r\n")
        self.source = Source(SHAPES.scan(self.text), file)
        self.tokens, self.words = self.source.tokens, self.source.tokens.words
        self.scope = Scope(0, None, 0)
        self.globals = self.scope
        self.variables: list[Variable] = []
        self.directives: list[Directive] = []
        self.functions: list[_Body] = []
        self.header: dict[str, tuple[str, ...]] = {}
        self.files: dict[str, str] = {}
        self.numbers: dict[str, Immediate] = {}
        self.locs: dict[tuple[str, str, str], SourceLoc] = {}
        self.current: _Body | None = None

    # --- driver ---

    def run(self) -> Module:
        """Read the whole text."""
        if not self.tokens.kinds:
            hint = "expected PTX: .version, .target, functions"
            raise InputError([Diagnostic("the text is empty", Span(1, 1), hint, self.source.file)])
        self._read_all()
        functions = [self._finish(body) for body in self.functions]
        for name in ("version", "target"):
            if name not in self.header and not self.source.diagnostics:
                self.source.error(0, f"the text has no .{name} directive",
                            "a PTX text starts with .version, .target and .address_size")
        if self.source.diagnostics:
            self.source.diagnostics.sort(key=lambda d: (d.span.line, d.span.col))
            raise InputError(self.source.diagnostics)
        return Module("ptx", self.header["target"][0], self.header["version"][0],
                      tuple(functions), tuple(self.variables), len(self.source.lines),
                      tuple(self.directives))

    def _read_all(self) -> None:
        n = len(self.tokens.kinds)
        i = 0
        while i < n and len(self.source.diagnostics) < MAX_DIAGNOSTICS:
            i = self._statement(i) if self.current else self._top_level(i)
        if len(self.source.diagnostics) >= MAX_DIAGNOSTICS:
            self.source.error(min(i, n - 1), f"more than {MAX_DIAGNOSTICS} errors; stopped here")
        elif self.current:
            self.source.error(n - 1, f"the text ends inside function "
                        f"`{self.words[self.current.base + self.current.header.name]}`",
                        "a closing `}` is missing; is the file truncated?")

    def _top_level(self, i: int) -> int:
        kinds = self.tokens.kinds
        j = i
        while j < len(kinds) and kinds[j] in _LINKAGE:
            j += 1
        if j < len(kinds) and kinds[j] in (_ENTRY, _FUNC):
            return self._function(i)
        if kinds[i] in _DIRECTIVES:
            return self._simple(i, "directive")
        if kinds[i] in "{}":
            self.source.error(i, f"unexpected `{kinds[i]}` outside a function")
            return i + 1
        return self._simple(i, "statement")

    def _statement(self, i: int) -> int:
        """Read one item of a function body; return the index after it."""
        kinds, body = self.tokens.kinds, self.current
        assert body is not None
        kind = kinds[i]
        if kind == _WORD and kinds[i + 1 : i + 2] == ":" and kinds[i + 2 : i + 3] not in _TARGETS:
            self._declare(i, self.words[i])
            body.waiting.append((_LABEL, i, i, self.scope))
            return i + 2
        if kind == "{":
            body.scopes += 1
            if self.scope.depth > MAX_SCOPES_DEEP:
                self.source.error(i, "scopes are nested too deeply")
                return len(kinds)
            self.scope = Scope(body.scopes, self.scope, self.scope.depth + 1)
            return i + 1
        if kind == "}":
            parent = self.scope.parent
            if self.scope is body.root:
                self.current, self.scope = None, self.globals
            elif parent is not None:
                self.scope = parent
            return i + 1
        return self._simple(i, "statement")

    def _simple(self, i: int, start: str) -> int:
        """Read one statement that is no scope, label or function."""
        kinds = self.tokens.kinds
        if self.words[i] == ".section":  # not taken as one token: its braces do not balance
            self.source.error(i, "the section is not closed", "is the file truncated?")
            return len(kinds)
        end = _ENDS.get(kinds[i])
        if end is not None:
            match = end.match(kinds, i)
            j = match.end() if match else min(i + 2, len(kinds))
        else:
            j = kinds.find(";", i) + 1
            if not j:
                self._report(i, start, len(kinds))
                return self._recover(i)
        shape, skipped = kinds[i:j], None
        if len(shape) > 64 and (skipped := _INT_LIST.search(shape)):
            shape = shape[: skipped.start()] + _INT + shape[skipped.end() :]
        try:
            plan = SHAPES.plan(start, shape)
        except ShapeError as error:
            return self._refused(i, error)
        self._accept(plan, i, j, skipped)
        return j

    # --- errors ---

    def _report(self, i: int, start: str, end: int) -> None:
        """Report what is wrong with an unfinished statement at `i`."""
        try:
            SHAPES.plan(start, self.tokens.kinds[i : min(end, i + 2000)])
        except ShapeError as error:
            if not error.at_end:
                self._refused(i, error)
                return
        self.source.error(i, "the statement does not end",
                          "a `;` is missing; is the file truncated?")

    def _refused(self, i: int, error: ShapeError) -> int:
        kinds = self.tokens.kinds
        if error.at_end and i + error.index >= len(kinds):
            self.source.error(i, "the statement does not end", "is the file truncated?")
            return len(kinds)
        at = min(i + error.index, len(kinds) - 1)
        word = self.words[at]
        if kinds[at] == ERROR and self.text.startswith("/*", self.tokens.starts[at]):
            self.source.error(at, "the comment is not closed", "`*/` is missing")
            return len(kinds)
        if kinds[at] == ERROR and word.isdigit():
            number_ = re.match(r"[\w$.]+", self.text[self.tokens.starts[at]:][:64])
            what = f"`{number_.group(0) if number_ else word}` is no number"
        elif kinds[at] == ERROR:
            what = f"character {word!r} has no meaning in PTX"
        else:
            what = f"unexpected `{short(word)}`"
        hint = "expected " + ", ".join(error.expected[:8]) if error.expected else ""
        self.source.error(at, what, hint)
        return self._recover(at)

    def _recover(self, i: int) -> int:
        """Return the index after the next `;` at this depth, or of a `}` that closes more."""
        kinds, depth = self.tokens.kinds, 0
        for j in range(i, len(kinds)):
            if kinds[j] == "{":
                depth += 1
            elif kinds[j] == "}":
                if depth == 0:
                    return j if j > i or self.current else j + 1
                depth -= 1
            elif kinds[j] == ";" and depth == 0:
                return j + 1
        return len(kinds)

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

    # --- statements ---

    def _accept(self, plan: object, i: int, j: int, skipped: re.Match[str] | None) -> None:
        if isinstance(plan, DeclarationPlan):
            self._declaration(plan, i, skipped)
        elif self.current is not None and not (
            isinstance(plan, DirectivePlan) and plan.kind in ("file", "pragma")
        ):
            if isinstance(plan, DirectivePlan) and plan.kind in ("targets", "prototype"):
                self._declare(i, self.words[i])
            self.scope.busy |= isinstance(plan, InstructionPlan)
            self.current.waiting.append((plan, i, j - 1, self.scope))
        elif isinstance(plan, InstructionPlan):
            opcode = short(self.words[i + plan.opcode])
            self.source.error(i, f"instruction `{opcode}` outside a function")
        elif isinstance(plan, DirectivePlan):
            self._directive(plan, i)

    def _directive(self, plan: DirectivePlan, i: int) -> None:
        args = tuple(self.words[i + k] for k in plan.args)
        if plan.kind in ("version", "target", "address_size"):
            self.header.setdefault(plan.kind, args)
            self.directives.append(Directive("." + plan.kind, args, self.source.span(i, i)))
        elif plan.kind == "file":
            self.files[args[0]] = args[1].strip('"')
        elif plan.kind in ("alias", "unknown"):
            self.directives.append(Directive("." + plan.kind, args, self.source.span(i, i)))

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
        variable = Variable(name, space[1:], size, align or element * lanes, init, external, span)
        (self.current.variables if self.current else self.variables).append(variable)

    def _int_list(self, i: int, skipped: re.Match[str]) -> list[int]:
        first, last = i + skipped.start(), i + skipped.end()
        return [self.number(k).value for k in range(first, last, 2)]

    # --- functions ---

    def _function(self, i: int) -> int:
        kinds = self.tokens.kinds
        match = _HEADER_END.match(kinds, i)
        j = match.end() if match else i
        try:
            plan = SHAPES.plan("header", kinds[i:j])
        except ShapeError as error:
            self._refused(i, error)
            return self._skip_function(j)
        if j >= len(kinds):
            self.source.error(i, "the function header does not end", "is the file truncated?")
            return j
        root = Scope(0, self.globals, 1)
        body = _Body(plan, i, root, has_body=kinds[j] == "{")
        self.functions.append(body)
        self.globals.unique.setdefault(self.words[i + plan.name], self.words[i + plan.name])
        self.current, self.scope = body, root
        for item in (*plan.results, *plan.params):
            self._formal(item, i)
        if not body.has_body:
            self.current, self.scope = None, self.globals
        return j + 1

    def _formal(self, plan: ParameterPlan, i: int) -> None:
        """Declare a formal parameter; a `.reg` one is a register."""
        word = self.words[i + plan.name]
        if word == "_":
            return
        self._declare(i + plan.name, word)
        type_ = next((w for w in self._specs(plan.specs, i)[0] if w in TYPE_BITS), "")
        if self.words[i + _first_word(plan) - 1] == ".reg":
            self.scope.types[word] = type_

    def _skip_function(self, j: int) -> int:
        """After a bad header: skip the balanced body, so that its lines make no false errors."""
        kinds, depth = self.tokens.kinds, 0
        for k in range(j, len(kinds)):
            if kinds[k] == "{":
                depth += 1
            elif kinds[k] == "}":
                depth -= 1
                if depth <= 0:
                    return k + 1
            elif kinds[k] == ";" and depth == 0:
                return k + 1
        return len(kinds)

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

    def _finish(self, body: _Body) -> Function:
        """Build a function's items, now that every name of the file is declared."""
        header, i = body.header, body.base
        self.current = body
        items: list[Item] = []
        loc: SourceLoc | None = None
        for plan, first, last, scope in body.waiting:
            self.scope = scope
            if isinstance(plan, InstructionPlan):
                items.append(self._instruction(plan, first, last, loc))
            elif plan is _LABEL:
                items.append(Label(scope.unique[self.words[first]], self.source.span(first, first)))
            elif isinstance(plan, DirectivePlan):
                words = tuple(self.words[first + k] for k in plan.args)
                if plan.kind == "loc":
                    loc = self._loc(words)
                else:
                    items.append(self._body_directive(plan, first, words))
        self.scope = body.root
        params = tuple(self._parameter(p, i) for p in header.params)
        results = tuple(self._parameter(p, i) for p in header.results)
        attributes = self._attributes(body)
        self.current, self.scope = None, self.globals
        return Function(self.words[i + header.name], header.is_entry, params, results,
                        body.registers, body.register_types, tuple(body.variables), attributes,
                        tuple(items), self.source.span(i + header.name, i + header.name))

    def _attributes(self, body: _Body) -> dict[str, tuple[str, ...]]:
        i = body.base
        out: dict[str, tuple[str, ...]] = {}
        for a in body.header.attributes:
            key = ".pragma" if a.name is None else self.words[i + a.name]
            out[key] = tuple(self.words[i + k] for k in a.args)
        for k in body.header.linkage:
            out[self.words[i + k]] = ()
        if not body.has_body:
            out[".prototype"] = ()
        return out

    def _body_directive(self, plan: DirectivePlan, i: int, words: tuple[str, ...]) -> Directive:
        span = self.source.span(i, i)
        if plan.kind == "targets":
            names = [self.name(i + k).name for k in (plan.args[0], *plan.args[2:])]
            return Directive(words[1], tuple(names), span)
        if plan.kind == "prototype":
            return Directive(".callprototype", (self.name(i).name,), span)
        return Directive(f".{plan.kind}", words, span)

    def _loc(self, words: tuple[str, ...]) -> SourceLoc:
        key = (words[0], words[1], words[2])
        found = self.locs.get(key)
        if found is None:
            found = SourceLoc(self._file(words[0]), int(words[1]), int(words[2]))
            self.locs[key] = found
        return found

    def _file(self, number_: str) -> str:
        if number_ not in self.files:  # `.file` often follows the code
            for match in re.finditer(f"{_FILE}{_INT}{_STRING}", self.tokens.kinds):
                k = match.start()
                self.files.setdefault(self.words[k + 1], self.words[k + 2].strip('"'))
            self.files.setdefault(number_, "?")
        return self.files[number_]

    def _instruction(self, plan: InstructionPlan, first: int, last: int,
                     loc: SourceLoc | None) -> Instruction:
        opcode = self.words[first + plan.opcode]
        operands = tuple([p(self, first) for p in plan.operands])
        if not opcode.startswith("call"):
            operands = tuple([_unbracketed(operand) for operand in operands])
        guard = None
        if plan.guard is not None:
            guard = Guard(self.name(first + plan.guard).name, plan.guard_neg)
        text = self.tokens.slice(first, last)
        if "\n" in text or "\t" in text or "  " in text:
            text = " ".join(text.split())
        return Instruction(opcode, operands, guard, self.source.span(first, last), text, loc)


_LABEL = object()
_TARGETS = tuple(_LABELLED)
_OPAQUE_TYPES = ("texref", "samplerref", "surfref")


def _first_word(plan: ParameterPlan) -> int:
    """Index of the first word after `.param`/`.reg`."""
    indices = [k for s in plan.specs for k in (s.word, s.align and s.align - 1) if k]
    return min([*indices, plan.name])


def _unbracketed(operand: Operand) -> Operand:
    """A single literal in brackets is that literal."""
    if isinstance(operand, Vector) and len(operand.items) == 1 and isinstance(
            operand.items[0], Immediate):
        return operand.items[0]
    return operand
