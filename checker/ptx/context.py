"""What a row works with: one instruction (`Line`) inside the program under construction.

In: a parsed instruction. Out: core operations, buffered until the row has consumed every modifier
and operand; otherwise (`Refuse`) the whole instruction becomes one `opaque` operation.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Protocol

from checker.core import OPS, Const, Guard, Op, Source
from checker.ptx.data import TYPE_BITS
from checker.syntax import Address, Immediate, Instruction, Name, Operand, Pair, Vector

__all__ = ["ROWS", "Builder", "Line", "Refuse", "find_row", "row", "width_of"]

Row = Callable[["Line"], None]
ROWS: dict[str, Row] = {}
_PURE = {"int", "pred", "float", "cvt", "move"}


class Refuse(Exception):
    """The row does not model this form; the instruction becomes opaque."""


def row(*names: str) -> Callable[[Row], Row]:
    """Register a row for opcodes that start with one of the (dotted) names."""
    def register(function: Row) -> Row:
        for name in names:
            if name in ROWS:
                raise AssertionError(f"two rows for {name}")
            ROWS[name] = function
        return function
    return register


def find_row(words: list[str]) -> tuple[Row | None, int]:
    """Return the row with the longest matching name, and how many words the name has."""
    for count in range(min(4, len(words)), 0, -1):
        found = ROWS.get(".".join(words[:count]))
        if found is not None:
            return found, count
    return None, 1


def width_of(type_: str) -> int:
    """Width in bits of a PTX type; raises Refuse for an unknown one."""
    try:
        return TYPE_BITS[type_]
    except KeyError:
        raise Refuse(f"type .{type_}") from None


class Builder(Protocol):
    """What a line asks of the program under construction (checker.ptx.lower)."""

    target: str
    block: tuple[int, int, int] | None
    clustered: bool
    alone: bool

    def register(self, name: str) -> int | None:
        """Index of a declared register, or None."""

    def width(self, reg: int) -> int:
        """Width of a register in bits."""

    def temporary(self, width_bits: int) -> int:
        """A fresh register."""

    def symbol(self, name: str) -> tuple[str, int] | None:
        """State space and address of a variable or parameter, or None."""

    def parameter_slot(self, name: str) -> int | None:
        """Register that stands for a device function's scalar parameter, or None."""

    def carry_register(self) -> int:
        """The condition code register CC.CF."""

    def in_kernel_without_calls(self) -> bool:
        """Whether `.param` can only mean the kernel's own parameters here."""

    def label(self, name: str) -> Any:
        """A branch target to be resolved later."""

    def targets(self, name: str) -> tuple[Any, ...] | None:
        """The labels of a `.branchtargets` list."""


class Line:
    """One instruction on its way into core operations."""

    __slots__ = ("builder", "fresh", "ins", "mods", "operands", "ops")

    def __init__(self, builder: Builder, ins: Instruction, mods: list[str]) -> None:
        self.builder, self.ins, self.mods = builder, ins, mods
        self.operands: tuple[Operand, ...] = ins.operands
        self.ops: list[tuple[str, tuple[int, ...], tuple[Source, ...], Any]] = []
        self.fresh: set[int] = set()

    # --- modifiers ---

    def has(self, word: str) -> bool:
        """Consume a modifier if it is there."""
        if word in self.mods:
            self.mods.remove(word)
            return True
        return False

    def one_of(self, *words: str, default: str | None = None) -> str:
        """Consume the one of `words` that is there; Refuse when none is and no default."""
        for word in words:
            if word in self.mods:
                self.mods.remove(word)
                return word
        if default is None:
            raise Refuse(f"none of .{' .'.join(words)}")
        return default

    def ignore(self, *words: str) -> None:
        """Consume modifiers that cannot change a value (the row says why)."""
        for word in words:
            if word in self.mods:
                self.mods.remove(word)

    def type(self) -> str:
        """Consume the last modifier, which must be a type."""
        if not self.mods:
            raise Refuse("no type")
        width_of(self.mods[-1])
        return self.mods.pop()

    def only(self, types: str, *allowed: str) -> None:
        """Refuse a type outside `allowed`."""
        if types not in allowed:
            raise Refuse(f"type .{types}")

    # --- operands ---

    def count(self, *allowed: int) -> int:
        """Refuse an operand count outside `allowed`."""
        if len(self.operands) not in allowed:
            raise Refuse(f"{len(self.operands)} operands")
        return len(self.operands)

    def source(self, operand: int | Operand, type_: str, wider: bool = False) -> Source:
        """Return an operand as a source of the type's width.

        `wider`: a wider register is allowed, its low bits count (ld, st, cvt).
        """
        item = self.operands[operand] if isinstance(operand, int) else operand
        width = width_of(type_)
        if isinstance(item, Name):
            reg = self.builder.register(item.name + item.sub)
            if reg is not None:
                return self._register(item, reg, type_, width, wider)
            return self._named(item, width)
        if isinstance(item, Immediate):
            return Const(literal_bits(item, type_), width)
        if isinstance(item, Address) and isinstance(item.base, Name) and not item.rest:
            return self._symbol(item.base, item.offset, width)
        raise Refuse("operand form")

    def _register(self, item: Name, reg: int, type_: str, width: int, wider: bool) -> Source:
        own = self.builder.width(reg)
        if own != width:
            if not wider or own < width:
                raise Refuse(f"register {item.name} has {own} bits, .{type_} needs {width}")
            return self.emit("extract", width, (reg,), (0, width))
        if item.neg:
            if width != 1:
                raise Refuse("negated operand")
            return self.emit("pnot", 1, (reg,), None)
        return reg

    def _named(self, item: Name, width: int) -> Source:
        if item.neg:
            raise Refuse("negated operand")
        if item.name == "WARP_SZ":
            return Const(32, width)
        if item.name.startswith("%"):
            value, own = self.special(item.name[1:] + item.sub)
            if own == width:
                return value
            if own < width:
                return self.emit("zext", width, (value,), (own, width))
            return self.emit("extract", width, (value,), (0, width))
        return self._symbol(item, 0, width)

    def _symbol(self, item: Name, offset: int, width: int) -> Source:
        found = self.builder.symbol(item.name)
        if found is None or item.sub or item.neg or self.builder.register(item.name) is not None:
            raise Refuse(f"operand {item.name}")
        return Const((found[1] + offset) & ((1 << width) - 1), width)

    def special(self, name: str) -> tuple[Source, int]:
        """Read a special register: its value and width (PTX ISA chapter 10)."""
        if "cluster" in name and self.builder.clustered:
            raise Refuse("place in a cluster of several blocks")
        if name.startswith("lanemask_"):
            return self._lanemask(name[9:]), 32
        if name in ("warpid", "nwarpid"):  # of the multiprocessor, not of the block
            return self.emit("special", 32, (), f"slot_{name}"), 32
        if re.fullmatch(r"(tid|ntid|ctaid|nctaid|cluster_ctaid|cluster_nctaid|clusterid|nclusterid)"
                        r"\.[xyz]|laneid|smid|nsmid|cluster_ctarank|cluster_nctarank|"
                        r"clock|clock_hi|dynamic_smem_size|total_smem_size|aggr_smem_size|"
                        r"globaltimer_lo|globaltimer_hi|envreg\d+|pm\d", name):
            width = 32
        elif re.fullmatch(r"clock64|gridid|globaltimer|pm\d_64|current_graph_exec", name):
            width = 64
        else:
            raise Refuse(f"special register %{name}")
        return self.emit("special", width, (), name), width

    def _lanemask(self, which: str) -> Source:
        """lanemask_eq = 1 << laneid; lt = eq - 1; le = 2 eq - 1; ge = ~lt; gt = ~le."""
        lane = self.special("laneid")[0]
        one = self.emit("shl", 32, (Const(1, 32), lane), 32)
        if which == "eq":
            return one
        if which in ("le", "gt"):
            one = self.emit("shl", 32, (one, Const(1, 32)), 32)
        elif which not in ("lt", "ge"):
            raise Refuse(f"special register %lanemask_{which}")
        low = self.emit("isub", 32, (one, Const(1, 32)), 32)
        return low if which in ("lt", "le") else self.emit("inot", 32, (low,), 32)

    def predicate(self, operand: int | Operand) -> Source:
        """Return an operand as a predicate (width 1); an integer is true when not 0."""
        item = self.operands[operand] if isinstance(operand, int) else operand
        if isinstance(item, Immediate):
            return Const(int(item.value != 0), 1)
        return self.source(item, "pred")

    def dest(self, operand: int | Operand, width: int) -> int:
        """Return the register written by an operand; `_` gives a register nobody reads."""
        item = self.operands[operand] if isinstance(operand, int) else operand
        if not isinstance(item, Name) or item.neg:
            raise Refuse("destination form")
        if item.name == "_":
            return self.builder.temporary(width)
        reg = self.builder.register(item.name + item.sub)
        if reg is None:
            raise Refuse(f"destination {item.name}")
        if self.builder.width(reg) != width:
            raise Refuse(f"register {item.name} has {self.builder.width(reg)} bits, not {width}")
        return reg

    def dest_width(self, operand: int | Operand) -> int:
        """Width of the register that an operand names (0 for `_`)."""
        item = self.operands[operand] if isinstance(operand, int) else operand
        if isinstance(item, Name):
            if item.name == "_":
                return 0
            reg = self.builder.register(item.name + item.sub)
            if reg is not None:
                return self.builder.width(reg)
        raise Refuse("destination form")

    def pair(self, operand: int) -> tuple[Operand, Operand | None]:
        """Split `a|b` into its parts; the second is None for a plain operand."""
        item = self.operands[operand]
        if isinstance(item, Pair):
            return item.first, item.second
        return item, None

    def vector(self, operand: int) -> tuple[Operand, ...]:
        """Return the elements of a braced operand; a plain operand is one element."""
        item = self.operands[operand]
        return item.items if isinstance(item, Vector) else (item,)

    def literal(self, operand: int | Operand) -> int:
        """Return an immediate integer operand's value."""
        item = self.operands[operand] if isinstance(operand, int) else operand
        if not isinstance(item, Immediate) or item.kind != "int":
            raise Refuse("an immediate is needed")
        return item.value

    def address(self, operand: int | Operand) -> tuple[Source, int, str]:
        """Return base, byte offset and the symbol's space ("" for a register) of `[a+8]`."""
        item = self.operands[operand] if isinstance(operand, int) else operand
        if not isinstance(item, Address):
            raise Refuse("an address is needed")
        base = item.base
        if isinstance(base, Immediate):
            return Const(base.value & (2**64 - 1), 64), item.offset, ""
        if not isinstance(base, Name) or base.neg:
            raise Refuse("address form")
        reg = self.builder.register(base.name + base.sub)
        if reg is not None:
            if self.builder.width(reg) not in (32, 64):
                raise Refuse("address width")
            return reg, item.offset, ""
        found = self.builder.symbol(base.name)
        if found is None:
            raise Refuse(f"address of {base.name}")
        return Const(found[1], 64), item.offset, found[0]

    def flat(self, operand: int | Operand, space: str) -> Source:
        """Return `[a+8]` as one source: the address inside `space` (offset added).

        Without a space in the opcode (`space` "") a shared address is taken out of the generic
        window: instructions that work on shared memory only accept generic addresses too.
        """
        base, offset, own = self.address(operand)
        if space == "" and own == "":
            return self._from_window(base, offset)
        if own not in ("", space) and not (space == "" and own == "shared"):
            raise Refuse(f"{own} symbol where a {space} address is needed")
        return self.plus(base, offset)

    def _from_window(self, base: Source, offset: int) -> Source:
        from checker.core import GENERIC_SHARED
        if isinstance(base, int) and self.builder.width(base) != 64:
            raise Refuse("a generic address has 64 bits")
        return self.plus(base, offset - GENERIC_SHARED)

    def plus(self, base: Source, offset: int) -> Source:
        """Return base + offset, folded where it is known."""
        if offset == 0:
            return base
        if isinstance(base, Const):
            return Const((base.bits + offset) & ((1 << base.width_bits) - 1), base.width_bits)
        width = self.builder.width(base)
        return self.emit("iadd", width, (base, Const(offset & ((1 << width) - 1), width)), width)

    # --- emission ---

    def emit(self, name: str, width: int, src: tuple[Source, ...], attr: Any) -> int:
        """Add an operation with a fresh destination; return that register."""
        reg = self.builder.temporary(width)
        self.fresh.add(reg)
        self.ops.append((name, (reg,), src, attr))
        return reg

    def put(self, name: str, dst: tuple[int, ...], src: tuple[Source, ...], attr: Any) -> None:
        """Add an operation with the given destinations."""
        self.ops.append((name, dst, src, attr))

    def width(self, source: Source) -> int:
        """Width of a source in bits."""
        return source.width_bits if isinstance(source, Const) else self.builder.width(source)

    def finish(self, guard: Guard | None, site: int) -> list[Op]:
        """Return the buffered operations under the instruction's guard.

        Pure operations into fresh registers need no guard. A guard that the line itself
        overwrites before its last operation is copied first.
        """
        out: list[Op] = []
        if guard is not None and any(guard.reg in dst for _, dst, _, _ in self.ops[:-1]):
            copy = self.builder.temporary(1)
            out.append(Op("mov", (copy,), (guard.reg,), 1, None, site))
            guard = Guard(copy, guard.neg)
        for name, dst, src, attr in self.ops:
            free = guard is None or (OPS[name].kind in _PURE and self.fresh.issuperset(dst))
            out.append(Op(name, dst, src, attr, None if free else guard, site))
        return out


def literal_bits(item: Immediate, type_: str) -> int:
    """Return an immediate as the bits of a value of `type_`; Refuse what PTX does not define."""
    width = width_of(type_)
    if item.kind == "int":
        if type_ in ("f32", "f64", "f16", "bf16") and item.value != 0:
            raise Refuse("an integer literal as a float")
        if not -(1 << max(width - 1, 0)) <= item.value < 1 << width:
            if type_ != "pred":
                raise Refuse(f"literal {item.text} does not fit .{type_}")
            return 1
        return item.value & ((1 << width) - 1)
    own = 32 if item.kind == "f32" else 64
    if own == width and type_ not in ("f16x2", "bf16x2"):
        return item.value
    if type_ == "f32" and own == 64:  # a decimal literal in a .f32 instruction
        value = struct.unpack("<d", struct.pack("<Q", item.value))[0]
        try:
            return int.from_bytes(struct.pack("<f", value), "little")
        except OverflowError:
            raise Refuse(f"literal {item.text} overflows .f32") from None
    if type_ == "f64" and own == 32:
        value = struct.unpack("<f", struct.pack("<I", item.value))[0]
        return int.from_bytes(struct.pack("<d", value), "little")
    raise Refuse(f"literal {item.text} as .{type_}")
