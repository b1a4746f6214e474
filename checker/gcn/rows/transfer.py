"""What memory rows share: element shapes, loads and stores under exec, addresses.

Offsets stay in `Mem.offset_bytes`. Loads write under exec; LDS accesses of a wave keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from checker.core import Mem, Source
from checker.gcn.context import Context
from checker.gcn.machine import Unmodelled
from checker.gcn.words import words
from checker.syntax import Immediate, Name

__all__ = ["LOADS", "NAMES", "STORES", "Shape", "address64", "deliver", "load", "mem_of",
           "scalar_offset", "store", "stored"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What one element transfer looks like: `half` is "lo" or "hi" for d16 forms."""

    width: int
    count: int = 1
    signed: bool = False
    half: str = ""

    @property
    def registers(self) -> int:
        """How many 32-bit registers it fills."""
        return self.count


NAMES: dict[str, Shape] = {
    "dword": Shape(32), "dwordx2": Shape(32, 2), "dwordx3": Shape(32, 3), "dwordx4": Shape(32, 4),
    "b32": Shape(32), "b64": Shape(32, 2), "b96": Shape(32, 3), "b128": Shape(32, 4),
    "ubyte": Shape(8), "u8": Shape(8), "sbyte": Shape(8, signed=True), "i8": Shape(8, signed=True),
    "ushort": Shape(16), "u16": Shape(16), "sshort": Shape(16, signed=True),
    "i16": Shape(16, signed=True), "byte": Shape(8), "b8": Shape(8), "short": Shape(16),
    "b16": Shape(16),
}
for _half in ("lo", "hi"):
    _tail = "" if _half == "lo" else "_hi"
    NAMES |= {
        f"ubyte_d16{_tail}": Shape(8, half=_half), f"sbyte_d16{_tail}": Shape(8, 1, True, _half),
        f"short_d16{_tail}": Shape(16, half=_half), f"byte_d16{_tail}": Shape(8, half=_half),
        f"d16{_tail}_u8": Shape(8, half=_half), f"d16{_tail}_i8": Shape(8, 1, True, _half),
        f"d16{_tail}_b16": Shape(16, half=_half), f"d16{_tail}_b8": Shape(8, half=_half),
        f"u8_d16{_tail}": Shape(8, half=_half), f"i8_d16{_tail}": Shape(8, 1, True, _half),
        f"u16_d16{_tail}": Shape(16, half=_half), f"b16_d16{_tail}": Shape(16, half=_half),
        f"b8_d16{_tail}": Shape(8, half=_half),
    }

LOADS = words(
    "dword dwordx2 dwordx3 dwordx4 b32 b64 b96 b128 ubyte u8 sbyte i8 ushort u16 sshort i16 "
    "ubyte_d16 ubyte_d16_hi sbyte_d16 sbyte_d16_hi short_d16 short_d16_hi d16_u8 d16_hi_u8 "
    "d16_i8 d16_hi_i8 d16_b16 d16_hi_b16")
STORES = words(
    "dword dwordx2 dwordx3 dwordx4 b32 b64 b96 b128 byte b8 short b16 byte_d16_hi "
    "short_d16_hi d16_hi_b8 d16_hi_b16")


def mem_of(c: Context, space: str, shape: Shape, offset: int) -> Mem:
    return Mem(space, shape.width, shape.count, offset, shape.width // 8)


def load(c: Context, address: Source, mem: Mem, under: Source) -> list[Source]:
    """Emit a load; the results are defined in the lanes of `under`."""
    if mem.space == "shared":
        c.m.order_lds("load")
    dst = tuple(c.e.registers.temp(mem.width_bits) for _ in range(mem.count))
    for reg in dst:
        c.e.defs[reg] = ("load", (address,), mem)
    if mem.space == "global":  # shared memory may hold what arithmetic made quiet
        c.e.raw |= set(dst)
    elif mem.space == "shared" and mem.width_bits == 32 and c.m.kernel.quiet_shared:
        c.e.quiet |= set(dst)
    c.e.op("load", dst, (address,), mem, c.m.guard(under))
    return list(dst)


def deliver(c: Context, i: int, shape: Shape, values: list[Source]) -> None:
    """Write loaded elements to operand i."""
    e = c.e
    file, n, count = c.index(i)
    if shape.half or shape.width < 32:
        if count != 1:
            raise Unmodelled("a loaded value needs one register")
        c.put_at(file, n, _small(c, i, shape, values[0]))
        return
    if count != shape.count:
        raise Unmodelled(f"{shape.count} registers expected, {count} given")
    for k, value in enumerate(values):
        c.put_at(file, n + k, value)
    for k in range(0, shape.count - 1, 2):
        e.pairs.setdefault((values[k], values[k + 1]), e.pack(values[k], values[k + 1]))


def _small(c: Context, i: int, shape: Shape, value: Source) -> Source:
    e = c.e
    op = c.operands[i]
    half = shape.half or ({"l": "lo", "h": "hi"}.get(op.sub, "") if isinstance(op, Name) else "")
    extend = e.sext if shape.signed else e.zext
    if not half:
        return extend(value, 32)
    if c.target.ecc:
        raise Unmodelled("half of a register is loaded, the other lost with corrected memory")
    file, n, _ = c.index(i)
    old = c.m.read(file, n, c.under)
    c.reads.add((file, n))
    wide = extend(value, 16)
    return e.pack(wide, e.extract(old, 16, 16)) if half == "lo" else \
        e.pack(e.extract(old, 0, 16), wide)


def stored(c: Context, i: int, shape: Shape) -> list[Source]:
    """The values that operand i stores."""
    if shape.width == 32:
        return c.registers(i, shape.count)
    op = c.operand(i)
    value = c.raw32(op)
    high = shape.half == "hi" or (isinstance(op, Name) and op.sub == "h")
    return [c.e.extract(value, 16 if high else 0, shape.width)]


def store(c: Context, address: Source, values: list[Source], mem: Mem, under: Source) -> None:
    if mem.space == "shared":
        c.m.order_lds("store")
    if mem.space != "global" and not (mem.width_bits == 32 and all(map(c.e.is_quiet, values))):
        c.m.kernel.quiet_shared = False
    c.e.op("store", (), (address, *values), mem, c.m.guard(under))


# --- addresses


def scalar_offset(c: Context) -> tuple[int, Source | None]:
    offset = c.number("offset")
    if len(c.operands) < 3:
        return offset, None
    op = c.operand(2)
    if isinstance(op, Immediate):
        return offset + op.value, None
    return offset, c.src(2, "u32")


def address64(c: Context, vaddr: int, saddr: int) -> tuple[Source, int]:
    """Address of a global access: 64-bit vaddr, or 64-bit saddr + 32-bit vaddr."""
    offset = c.number("offset")
    op = c.operands[saddr] if saddr < len(c.operands) else Name("off")
    if isinstance(op, Name) and op.name in ("off", "null"):
        return c.pair(c.operand(vaddr)), offset
    base = c.pair(op)
    first = c.operand(vaddr)
    if isinstance(first, Name) and first.name == "off":
        return base, offset
    return c.e.add(base, c.e.zext(c.raw32(first), 64), 64), offset
