"""Types and initial values of PTX variables.

In: initial-value plans (checker.ptx.plans) and the parser's words. Out: bytes, and relocations
where the value is an address that only the module's layout can give.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checker.ptx.plans import Reader, integer
from checker.syntax import Immediate

__all__ = ["TYPE_BITS", "Relocation", "initial_bytes"]

TYPE_BITS: dict[str, int] = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64, "b128": 128,
    "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16, "u16x2": 32, "s16x2": 32,
}


_FLOATS = ("f16", "f32", "f64", "bf16", "f16x2", "bf16x2")


@dataclass(frozen=True, slots=True)
class Relocation:
    """`width_bytes` bytes at `offset_bytes` hold (address of `symbol` + addend) >> shift."""

    offset_bytes: int
    width_bytes: int
    symbol: str
    addend: int
    generic: bool
    shift: int = 0

    def words(self) -> tuple[str, ...]:
        """Return the relocation as the arguments of a `.init_address` directive."""
        return (str(self.offset_bytes), str(self.width_bytes), self.symbol, str(self.addend),
                "generic" if self.generic else "", str(self.shift))


def initial_bytes(reader: Reader, base: int, initial: Any, type_: str,
                  values: Sequence[int] | None) -> tuple[bytes, tuple[Relocation, ...]]:
    """Return a variable's initial bytes and the addresses among them.

    `values` replaces the list of a long integer initialiser. Raises ValueError.
    """
    element_bytes = max(1, TYPE_BITS.get(type_, 64) // 8)
    if values is not None and type_ in _FLOATS:
        raise ValueError("integers as floats")
    if values is not None:
        mask = (1 << 8 * element_bytes) - 1
        return b"".join([(v & mask).to_bytes(element_bytes, "little") for v in values]), ()
    out = bytearray()
    relocations: list[Relocation] = []
    pending = [initial]
    while pending:
        item = pending.pop()
        if item[0] == "list":
            pending.extend(reversed(item[1]))
        elif item[0] == "number":
            literal = item[1](reader, base)
            if type_ in _FLOATS and literal.kind == "int" and literal.value:
                raise ValueError("an integer as a float")
            out += _literal(literal, element_bytes)
        else:
            relocations.append(_relocation(reader, base, item, len(out), element_bytes))
            out += bytes(element_bytes)
    return bytes(out), tuple(relocations)


def _literal(literal: Any, element_bytes: int) -> bytes:
    assert isinstance(literal, Immediate)
    bits = literal.value
    if literal.kind == "f64" and element_bytes == 4:
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        bits = int.from_bytes(struct.pack("<f", value), "little")
    elif literal.kind == "f32" and element_bytes == 8:
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
        bits = int.from_bytes(struct.pack("<d", value), "little")
    elif literal.kind != "int" and element_bytes not in (4, 8):
        raise ValueError(f"`{literal.text}` in elements of {element_bytes} bytes")
    return (bits & ((1 << 8 * element_bytes) - 1)).to_bytes(element_bytes, "little")


def _relocation(reader: Reader, base: int, item: Any, offset: int, width: int) -> Relocation:
    """Read `sym+4`, `generic(sym)+4` or `0xff00(generic(sym))`."""
    words = [reader.words[base + k] for k in item[1]]
    addend = 0
    for sign, index in item[2]:
        value = integer(reader.words[base + index])
        addend += -value if reader.words[base + sign] == "-" else value
    shift = 0
    if item[0] == "masked":
        mask = integer(words.pop(0))
        while mask and not mask & 0xFF:
            mask >>= 8
            shift += 8
    if len(words) == 2 and words[0] != "generic":
        raise ValueError(f"`{words[0]}(...)` has no meaning here")
    return Relocation(offset, width, words[-1], addend, len(words) == 2, shift)
