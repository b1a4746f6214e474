"""Module: what the grammars produce and the front ends lower; shape only, no meaning.

In: nothing (data only). Out: `Module`, one per text, with every function in it. Opcodes are plain
text here; a word that no row knows is still an instruction. Registers, labels and symbols that are
declared in a nested scope are made unique by the parser (`name@N`), so names are global per
function afterwards.
"""

from __future__ import annotations

from dataclasses import field

from checker.errors import Span
from checker.record import record

__all__ = [
    "Address", "Directive", "Function", "Guard", "Immediate", "Instruction", "Item", "Label",
    "Modifier", "Module", "Name", "Operand", "Pair", "Parameter", "Range", "SourceLoc", "Variable",
    "Vector",
]


@record
class SourceLoc:
    """The kernel author's source line, from `.loc`: file name, line, column."""

    file: str
    line: int
    col: int


@record
class Name:
    """A register, symbol, label or special register, by its (unique) name; `sub` is a suffix.

    `sub` holds `.x` of `%tid.x`, `.l`/`.h` of a half register; `neg` is a leading `!` or `-`,
    `absolute` a pair of bars.
    """

    name: str
    sub: str = ""
    neg: bool = False
    absolute: bool = False


@record
class Immediate:
    """A literal: `kind` is "int", "f32" (0f...), "f64" (0d..., or a decimal float) or "str".

    `value` is the integer, or the bits of the float as an unsigned integer.
    """

    kind: str
    value: int
    text: str


@record
class Range:
    """A run of 32-bit registers of one file, AMDGCN: `v[4:7]` is Range("v", 4, 7)."""

    file: str
    first: int
    last: int
    neg: bool = False
    absolute: bool = False


@record
class Vector:
    """Braced operands `{a, b}`; an element `_` is Name("_")."""

    items: tuple[Operand, ...]


@record
class Address:
    """Bracketed operand: `[base + offset]`, and for tensor copies `[base, {coordinates}]`."""

    base: Operand
    offset: int = 0
    rest: tuple[Operand, ...] = ()


@record
class Modifier:
    """A trailing AMDGCN modifier: `offset:16`, `row_shr:1`, `op_sel:[0,1]`, `glc`."""

    name: str
    value: str = ""


@record
class Pair:
    """Two results written `a|b`."""

    first: Operand
    second: Operand


Operand = Name | Immediate | Range | Vector | Address | Modifier | Pair


@record
class Guard:
    """`@%p1` or `@!%p1`."""

    name: str
    neg: bool


@record
class Instruction:
    """One instruction: dotted opcode, operands, guard, place, full text and source line."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    span: Span
    text: str
    loc: SourceLoc | None = None


@record
class Label:
    """A place to branch to."""

    name: str
    span: Span


@record
class Directive:
    """A directive inside or outside a function that carries meaning: name, arguments as text."""

    name: str
    args: tuple[str, ...]
    span: Span


Item = Instruction | Label | Directive


@record
class Variable:
    """A declared variable: `space` is global, const, shared, local or param.

    `init` holds initial bytes (None: not given); `external` marks `.extern` (dynamic shared) and
    what the host binds by name (textures, surfaces, samplers).
    """

    name: str
    space: str
    size_bytes: int
    align: int
    init: bytes | None
    external: bool
    span: Span


@record
class Parameter:
    """One kernel or function parameter: byte size, alignment, and whether it is a pointer."""

    name: str
    type: str
    size_bytes: int
    align: int
    pointer: bool
    span: Span


@record
class Function:
    """An entry or device function: `registers` maps each declared name to its width in bits.

    `attributes` holds performance and launch directives (`.reqntid` -> ("128",), or AMDGCN's
    `.amdhsa_*` values).
    """

    name: str
    is_entry: bool
    params: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    registers: dict[str, int]
    register_types: dict[str, str]
    variables: tuple[Variable, ...]
    attributes: dict[str, tuple[str, ...]]
    items: tuple[Item, ...]
    span: Span


@record
class Module:
    """A whole text: target, functions, module-level variables, number of lines.

    bodies: the functions that have one, by name, in text order; twice: those whose name was taken.
    Found once: a text may have thousands of kernels, each of which is lowered by itself.
    """

    isa: str
    target: str
    version: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    lines: int
    directives: tuple[Directive, ...] = field(default=())
    bodies: dict[str, Function] = field(init=False, repr=False, compare=False)
    twice: tuple[Function, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        defined = [f for f in self.functions if ".prototype" not in f.attributes]
        bodies = {f.name: f for f in reversed(defined)}
        twice = tuple(f for f in defined if bodies[f.name] is not f)
        object.__setattr__(self, "bodies", {f.name: f for f in defined if bodies[f.name] is f})
        object.__setattr__(self, "twice", twice)
