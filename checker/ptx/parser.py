"""Parse PTX text into a Module: scan once, cut into statements, one plan per statement shape.

In: text. Out: Module with every function. Collects all errors of the file (resuming at the next
`;` or `}`) and raises them as one InputError; never returns part of a file as the whole.
Names of nested scopes become `name@N`. Debug sections are skipped; `.loc` gives source places.
"""

from __future__ import annotations

import re

from checker.errors import Diagnostic, InputError, Span
from checker.ptx.declare import Body, Declarations
from checker.ptx.plans import (
    DeclarationPlan,
    DirectivePlan,
    InstructionPlan,
    Plans,
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
    Operand,
    SourceLoc,
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


def parse_ptx(text: str, file: str = "<text>") -> Module:
    """Return the Module of a PTX text.

    Raises InputError with every diagnostic of the text.
    """
    text = text.rstrip("\x00 \t\r\n")
    return _Parser(Source(SHAPES.scan(text), file)).run()


class _Parser(Declarations):
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
        body = Body(plan, i, root, has_body=kinds[j] == "{")
        self.functions.append(body)
        self.globals.unique.setdefault(self.words[i + plan.name], self.words[i + plan.name])
        self.current, self.scope = body, root
        for item in (*plan.results, *plan.params):
            self._formal(item, i)
        if not body.has_body:
            self.current, self.scope = None, self.globals
        return j + 1

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

    def _finish(self, body: Body) -> Function:
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

    def _attributes(self, body: Body) -> dict[str, tuple[str, ...]]:
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


def _unbracketed(operand: Operand) -> Operand:
    """A single literal in brackets is that literal."""
    if isinstance(operand, Vector) and len(operand.items) == 1 and isinstance(
            operand.items[0], Immediate):
        return operand.items[0]
    return operand
