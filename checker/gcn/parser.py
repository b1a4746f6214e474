"""AMDGCN text -> `Module`: everything LLVM's AMDGPU back end prints, Triton's output included.

In: text. Out: `syntax.Module` with every function, its items, descriptor and metadata values as
attributes, and data objects as variables. All errors of a text are collected in one `InputError`.
Refuses: statements whose shape the grammar does not know; unknown opcodes and modifiers pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checker.errors import Diagnostic, InputError, Span
from checker.gcn.metadata import KernelMetadata, read_metadata
from checker.gcn.operands import StatementError, evaluate, read_expression, read_instruction
from checker.gcn.words import words
from checker.syntax import (
    Directive,
    Function,
    Instruction,
    Item,
    Label,
    Module,
    Parameter,
    SourceLoc,
    Variable,
)

__all__ = ["is_gcn", "parse_gcn"]

MAX_ERRORS = 100

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|;|//')
_LABEL = re.compile(r"\s*([A-Za-z_.$?][\w.$@?]*|\"[^\"]*\"|\d+):(?!:)")
_DIRECTIVE = re.compile(r"\s*(\.[A-Za-z_][\w.]*)(?:\s+(.*))?$")
_ASSIGN = re.compile(r"\s*([A-Za-z_.$][\w.$]*)\s*=(?!=)\s*(.*)$")
_TYPE = re.compile(r"^\s*\.type\s+(\"[^\"]*\"|[^,\s]+)\s*,\s*[@%]?(\w+)", re.M)
_KERNEL = re.compile(r"^\s*\.amdhsa_kernel\s+(\S+)", re.M)
_TARGET = re.compile(r"(gfx[0-9a-f-]+(?:-generic)?(?::\w+[+-])*)")
_LOC = re.compile(r"(\d+)\s+(\d+)(?:\s+(\d+))?")
_FILE = re.compile(r'(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')

#: directives that say nothing about a kernel's values: layout, linkage, debugging, unwinding
_IGNORED = frozenset(
    words(
        ".globl .global .local .weak .hidden .protected .internal .p2align .p2alignl "
        ".p2alignw .align .balign .ident .addrsig .addrsig_sym .cfi_sections .cfi_startproc "
        ".cfi_endproc .cfi_escape .cfi_undefined .cfi_personality .cfi_lsda .cfi_def_cfa "
        ".cfi_offset .amdhsa_code_object_version .amdgcn_target .end_amdhsa_kernel .size "
        ".type .loc .file .section .text .data .bss .popsection .previous .pushsection .set "
        ".equ .equiv .amdgpu_hsa_kernel .no_dead_strip .hsa_code_object_version "
        ".hsa_code_object_isa .version .symver .rodata .subsection"))

_DATA_WIDTH = {".byte": 1, ".short": 2, ".hword": 2, ".2byte": 2, ".long": 4, ".int": 4,
               ".word": 4, ".4byte": 4, ".quad": 8, ".8byte": 8}


def is_gcn(text: str) -> bool:
    """Tell AMDGCN text by its target directive or its instructions."""
    if ".amdgcn_target" in text or ".amdhsa_kernel" in text:
        return True
    return re.search(r"^\s*(s_endpgm|s_waitcnt|v_mov_b32(_e32)?)\b", text, re.M) is not None


@dataclass(slots=True)
class _Object:
    """A data object under construction."""

    name: str
    space: str
    span: Span
    data: bytearray | None = field(default_factory=bytearray)
    align: int = 1


@dataclass(slots=True)
class _Body:
    """A function under construction."""

    name: str
    span: Span
    items: list[Item] = field(default_factory=list)


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.replace("\x00", "").split("\n")
        self.types = {n.strip('"'): kind for n, kind in _TYPE.findall(text)}
        self.kernels = set(_KERNEL.findall(text))
        self.errors: list[Diagnostic] = []
        self.bodies: list[_Body] = []
        self.body: _Body | None = None
        self.object: _Object | None = None
        self.objects: list[_Object] = []
        self.shared: list[Variable] = []
        self.section = ".text"
        self.symbols: dict[str, int] = {}
        self.descriptor: dict[str, tuple[str, ...]] | None = None
        self.descriptors: dict[str, dict[str, tuple[str, ...]]] = {}
        self.metadata: list[KernelMetadata] = []
        self.target = ""
        self.files: dict[str, str] = {}
        self.loc: SourceLoc | None = None
        self.version = ""
        self.directives: list[Directive] = []
        self.number = 0
        self.raw = ""

    # -- errors

    def error(self, message: str, column: int, length: int = 1, hint: str = "") -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(Diagnostic(message, Span(self.number, column + 1, length), hint,
                                          self.file, self.raw.rstrip("\r")))

    # -- the line loop

    def run(self) -> None:
        index, count = 0, len(self.lines)
        while index < count:
            self.number, self.raw = index + 1, self.lines[index]
            index += 1
            line = self.strip(self.raw)
            if not line or line.isspace():
                continue
            if line.lstrip().startswith(".amdgpu_metadata"):
                index = self.read_metadata(index)
                continue
            if self.section.startswith(".debug"):
                if line.lstrip().startswith((".section", ".text", ".data", ".bss", ".popsection",
                                             ".previous")):
                    self.line(line)
                continue
            self.line(line)

    def strip(self, line: str) -> str:
        """Cut the comment; quoted text keeps its `;`."""
        if "/*" in line:
            line = re.sub(r"/\*.*?\*/", lambda m: " " * len(m.group()), line)
        if ";" not in line and "//" not in line:
            return "" if line.lstrip().startswith("#") else line
        for match in _COMMENT.finditer(line):
            if not match.group().startswith('"'):
                return line[: match.start()]
        return line

    def read_metadata(self, index: int) -> int:
        start = index
        while index < len(self.lines) and \
                not self.lines[index].lstrip().startswith(".end_amdgpu_metadata"):
            index += 1
        if index == len(self.lines):
            self.error("`.amdgpu_metadata` is not closed", 0, 1,
                       "the text ends before `.end_amdgpu_metadata`; is the file complete?")
        self.metadata += read_metadata(self.lines[start:index])
        return index + 1

    def line(self, line: str) -> None:
        match = _LABEL.match(line)
        at = 0
        while match is not None:
            self.label(match[1].strip('"'), match.start(1))
            at = match.end()
            match = _LABEL.match(line, at)
        rest = line[at:]
        if not rest.strip():
            return
        directive = _DIRECTIVE.match(rest)
        if directive is not None:
            self.directive(directive[1], (directive[2] or "").strip(),
                           at + directive.start(1), at + directive.start(2))
            return
        assign = _ASSIGN.match(rest)
        if assign is not None:
            self.assign(assign[1], assign[2], at + assign.start(2))
            return
        self.instruction(rest.strip(), at + len(rest) - len(rest.lstrip()))

    def label(self, name: str, column: int) -> None:
        span = Span(self.number, column + 1, len(name))
        kind = self.types.get(name, "")
        if kind == "function" or name in self.kernels:
            self.body, self.object = _Body(name, span), None
            self.bodies.append(self.body)
            self.loc = None
        elif kind == "object":
            space = "const" if self.section.startswith((".rodata", ".const")) else "global"
            self.object = _Object(name, space, span)
            self.objects.append(self.object)
        elif name.startswith(".Lfunc_end"):
            self.body = None
        elif self.body is not None and self.in_text():
            self.body.items.append(Label(name, span))

    def in_text(self) -> bool:
        return self.section.startswith(".text")

    def instruction(self, text: str, column: int) -> None:
        try:
            opcode, operands = read_instruction(text, column)
        except StatementError as bad:
            self.error(bad.message, bad.column, bad.length,
                       "the statement does not have the shape of an instruction")
            return
        if self.body is None:
            if opcode not in ("s_code_end", "s_nop"):
                self.error(f"instruction `{opcode}` outside of any function", column, len(opcode),
                           "declare the function with `.type name,@function` or `.amdhsa_kernel`")
            return
        self.body.items.append(Instruction(opcode, operands, None, Span(
            self.number, column + 1, len(text)), text, self.loc))

    # -- directives

    def directive(self, name: str, args: str, column: int, args_column: int) -> None:
        if name == ".loc":
            self.set_loc(args)
        elif name == ".file":
            match = _FILE.match(args)
            if match is not None:
                self.files[match[1]] = match[3] if match[3] is not None else match[2]
        elif name in (".text", ".data", ".bss", ".rodata"):
            self.section = name
        elif name in (".section", ".pushsection"):
            self.section = args.split(",")[0].strip().strip('"')
        elif name in (".popsection", ".previous"):
            self.section = ".text"
        elif name == ".amdgcn_target":
            match = _TARGET.search(args)
            self.target = match[1] if match else args.strip('"')
        elif name == ".amdhsa_code_object_version":
            self.version = args
        elif name in (".set", ".equ", ".equiv"):
            symbol, _, value = args.partition(",")
            self.assign(symbol.strip(), value.strip(), args_column + len(symbol) + 1)
        elif name == ".amdhsa_kernel":
            self.descriptor = self.descriptors.setdefault(args, {})
            if not args:
                self.error("`.amdhsa_kernel` needs a kernel name", column, len(name))
        elif name == ".end_amdhsa_kernel":
            self.descriptor = None
        elif name.startswith(".amdhsa_"):
            self.descriptor_value(name, args, column, args_column)
        elif name == ".size":
            if self.body is not None and args.split(",")[0].strip().strip('"') == self.body.name:
                self.body = None
            self.object = None
        elif name == ".amdgpu_lds" or name == ".lds":
            self.lds(args, column)
        elif name in _DATA_WIDTH or name in (".ascii", ".asciz", ".string", ".zero", ".fill",
                                             ".skip", ".space"):
            self.data(name, args)
        elif name not in _IGNORED:
            self.directives.append(Directive(name, (args,) if args else (), Span(
                self.number, column + 1, len(name))))

    def set_loc(self, args: str) -> None:
        match = _LOC.match(args)
        if match is not None:
            line = int(match[2])
            self.loc = SourceLoc(self.files.get(match[1], ""), line, int(match[3] or 0)) \
                if line else self.loc

    def assign(self, symbol: str, value: str, column: int) -> None:
        try:
            text = read_expression(value, column)
        except StatementError as bad:
            if "|" in value:  # a binary or, which the operand grammar leaves to `|v0|`
                text = value.replace(" ", "")
            else:
                self.error(bad.message, bad.column, bad.length,
                           "expected `.set symbol, expression`")
                return
        found = evaluate(text, self.symbols)
        if found is not None:
            self.symbols[symbol] = found

    def descriptor_value(self, name: str, args: str, column: int, args_column: int) -> None:
        if self.descriptor is None:
            self.error(f"`{name}` outside of `.amdhsa_kernel`", column, len(name))
            return
        if not args:
            self.error(f"`{name}` needs a value", column, len(name))
            return
        self.descriptor[name] = (args.replace(" ", ""),)

    def lds(self, args: str, column: int) -> None:
        parts = [p.strip() for p in args.split(",")]
        size = evaluate(parts[1], self.symbols) if len(parts) > 1 else None
        if size is None or size < 0:
            self.error("expected `.amdgpu_lds name, size, align`", column)
            return
        align = (evaluate(parts[2], self.symbols) if len(parts) > 2 else 4) or 4
        self.shared.append(Variable(parts[0], "shared", size, align, None, size == 0,
                                    Span(self.number, column + 1)))

    def data(self, name: str, args: str) -> None:
        if self.object is None or self.object.data is None:
            return
        width = _DATA_WIDTH.get(name)
        if width is not None:
            for piece in args.split(","):
                value = evaluate(piece.strip(), self.symbols)
                if value is None:
                    self.object.data = None
                    return
                self.object.data += (value % (1 << (8 * width))).to_bytes(width, "little")
            return
        if name in (".ascii", ".asciz", ".string"):
            self.object.data += _string(args) + (b"" if name == ".ascii" else b"\0")
            return
        numbers = [evaluate(p.strip(), self.symbols) for p in args.split(",")]
        if any(n is None for n in numbers) or not 0 <= (numbers[0] or 0) <= 1 << 24:
            self.object.data = None
            return
        known = [n or 0 for n in numbers]
        if name == ".fill":
            size = known[1] if len(known) > 1 else 1
            value = known[2] if len(known) > 2 else 0
            if not 0 < size <= 8 or known[0] * size > 1 << 24:
                self.object.data = None
                return
            self.object.data += (value % (1 << (8 * size))).to_bytes(size, "little") * known[0]
        else:
            self.object.data += bytes([known[1] % 256 if len(known) > 1 else 0]) * known[0]

    # -- the result

    def module(self) -> Module:
        metadata = {m.name: m for m in self.metadata}
        functions = [self.function(b, metadata.get(b.name)) for b in self.bodies]
        found = {b.name for b in self.bodies}
        for name in sorted(self.kernels - found):
            self.number, self.raw = 1, self.lines[0] if self.lines else ""
            self.error(f"kernel `{name}` has a descriptor but no code", 0, 1,
                       "the text is cut, or the label is missing")
        variables = [Variable(o.name, o.space, len(o.data or b""), o.align,
                              bytes(o.data) if o.data is not None else None, o.data is None, o.span)
                     for o in self.objects]
        return Module("gcn", self.target, self.version, tuple(functions),
                      tuple(variables + self.shared), len(self.lines), tuple(self.directives))

    def function(self, body: _Body, meta: KernelMetadata | None) -> Function:
        attributes: dict[str, tuple[str, ...]] = {}
        for name, values in self.descriptors.get(body.name, {}).items():
            number = evaluate(values[0], self.symbols)
            attributes[name] = (str(number),) if number is not None else values
        params: list[Parameter] = []
        if meta is not None:
            for key, value in meta.values.items():
                attributes[key] = (value,)
            hidden = [f"{a.offset}:{a.size}:{a.kind}" for a in meta.args if a.hidden]
            attributes[".hidden_args"] = tuple(hidden)
            shown = [a for a in meta.args if not a.hidden]
            attributes[".arg_offsets"] = tuple(str(a.offset) for a in shown)
            params = [Parameter(a.name or f"arg{i}", a.kind, a.size, _align(a.offset, a.size),
                                a.kind in ("global_buffer", "dynamic_shared_pointer"), body.span)
                      for i, a in enumerate(shown)]
        return Function(body.name, body.name in self.kernels, tuple(params), (), {}, {}, (),
                        attributes, tuple(body.items), body.span)


def _align(offset: int, size: int) -> int:
    return next(a for a in (16, 8, 4, 2, 1) if offset % a == 0 and a <= max(size, 1))


def _string(args: str) -> bytes:
    text = args.strip()[1:-1]
    out = bytearray()
    at = 0
    simple = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12, "\\": 92, '"': 34}
    while at < len(text):
        if text[at] != "\\" or at + 1 >= len(text):
            out += text[at].encode("utf-8", "replace")
            at += 1
            continue
        octal = re.match(r"[0-7]{1,3}", text[at + 1:])
        if octal is not None:
            out.append(int(octal.group(), 8) & 255)
            at += 1 + octal.end()
        else:
            out.append(simple.get(text[at + 1], ord(text[at + 1]) & 255))
            at += 2
    return bytes(out)


def parse_gcn(text: str, file: str = "<text>") -> Module:
    """Parse AMDGCN assembly.

    Raises InputError with every diagnostic of the text.
    """
    parser = _Parser(text, file)
    parser.run()
    module = parser.module()
    if not parser.errors and not module.functions:
        parser.number, parser.raw = 1, parser.lines[0]
        parser.error("no function found in this text", 0, 1,
                     "AMDGCN text declares kernels with `.amdhsa_kernel`")
    if parser.errors:
        raise InputError(parser.errors)
    return module
