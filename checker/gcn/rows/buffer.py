"""Rows: buffers (resource descriptors) and loads straight to LDS.

An access out of its descriptor's range loads 0 and stores nothing. Source: CDNA3 ISA 9.1.
"""

from __future__ import annotations

from checker.core import Compare, Const, Mem, Source
from checker.gcn.context import Context
from checker.gcn.emitter import FALSE, TRUE, fits
from checker.gcn.machine import M0, Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.rows.transfer import (
    LOADS,
    NAMES,
    STORES,
    Shape,
    address64,
    deliver,
    load,
    mem_of,
    scalar_offset,
    store,
    stored,
)
from checker.syntax import Immediate, Name

__all__ = ["buffer_address", "buffer_offset", "in_range"]

ZERO = Const(0, 32)
REACH = 0x7FFFFFF0  # record counts that stand for "as far as 31 bits reach"


# --- buffers


def buffer_offset(c: Context, vaddr: int, soffset: int) -> Source:
    """The byte offset into the buffer; structured and swizzled buffers are refused."""
    if c.flag("idxen") or c.flag("addr64") or c.flag("tfe") or c.flag("lwe"):
        raise Unmodelled("structured buffer access")
    offset: Source = fits(c.number("offset"), 32)
    if c.flag("offen"):
        if offset != ZERO:  # a unit that adds more bits than 32 finds what wraps out of range
            c.e.premises.add("no-index-wrap")
        offset = c.e.add(c.raw32(c.operand(vaddr)), offset)
    op = c.operand(soffset)
    if isinstance(op, Name) and op.name == "null":
        return offset
    return c.e.add(offset, c.raw32(op))


def buffer_base(c: Context, words: list[Source], i: int) -> Source:
    """The 48-bit base address in operand i; swizzled buffers are refused."""
    e = c.e
    high, swizzles = words[1], _swizzles(c)
    if e.is_pointer_high(high) or (e.is_short(high) and not isinstance(high, Const)):
        file, n, _ = c.index(i)
        return c.m.read64(file, n, c.m.exec)
    found = e.definition(high)
    flags = high if isinstance(high, Const) else next((
        x for x in found[1] if isinstance(x, Const)), ZERO) if found and found[0] == "ior" else ZERO
    assert isinstance(flags, Const)
    if flags.bits & swizzles:
        raise Unmodelled("swizzled buffer")
    if isinstance(high, Const):
        return e.pack(words[0], Const(high.bits & 0xFFFF, 32))
    if found is not None and found[0] == "ior":
        for x, y in (found[1], found[1][::-1]):
            if isinstance(y, Const) and y.bits & 0xFFFF == 0:
                return e.pack(words[0], x if e.is_short(x) else e.and_(x, Const(0xFFFF, 32)))
    return e.pack(words[0], e.and_(high, Const(0xFFFF, 32)))


def _swizzles(c: Context) -> int:
    """The bits of the second word that say in what order elements lie; one is the cache's own."""
    return 0xC0000000 if c.target.major >= 11 else 0x80000000


def _may_swizzle(c: Context, high: Source) -> bool:
    """Whether nothing shows that the second word holds a plain base address and flags."""
    found = c.e.definition(high)
    parts = found[1] if found is not None and found[0] == "ior" else (high,)
    return not all(isinstance(x, Const) or c.e.is_pointer_high(x) or c.e.is_short(x)
                   for x in parts)


def buffer_address(c: Context, words: list[Source], i: int, offset: Source) -> Source:
    """Base plus offset; a value that is never written where the descriptor's flags are not plain.

    The second word must say: not swizzled; the fourth: a buffer that is there, no thread id added,
    raw range check.
    """
    e = c.e
    address = e.add(buffer_base(c, words, i), e.zext(offset, 64), 64)
    mask, wanted = (0xF0800000, 0x30000000) if c.target.major >= 10 else (0xC0800000, 0)
    plain = e.icmp("eq", e.and_(words[3], Const(mask, 32)), Const(wanted, 32), "u32")
    form = Const(0x78000 if c.target.major < 10 else 0x3F000, 32)  # of an element; 0: no buffer
    plain = e.pand(plain, e.icmp("ne", e.and_(words[3], form), ZERO, "u32"))
    if _may_swizzle(c, words[1]):
        plain = e.pand(plain, e.icmp("eq", e.and_(words[1], Const(_swizzles(c), 32)), ZERO, "u32"))
    if plain == FALSE:
        raise Unmodelled("buffer descriptor flags")
    if plain == TRUE:
        return address
    return e.select(plain, address, e.registers.temp(64), 64)  # else no address at all


def _conditional(c: Context, offset: Source) -> tuple[Source, Source, Source] | None:
    """(condition, offset, far offset) if the offset is `condition ? offset : 0x80000000`."""
    found = c.e.definition(offset)
    if found is None or found[0] != "select":
        return None
    cond, a, b = found[1]
    if isinstance(b, Const):
        return cond, a, b
    return (c.e.pnot(cond), b, a) if isinstance(a, Const) else None


def in_range(c: Context, words: list[Source], offset: Source, size: int
              ) -> tuple[Source, Source]:
    """(predicate, offset to use): the whole access must end below num_records.

    Where a mask pushes an offset out of a descriptor of 2 GiB, the compiler was told that the
    buffer is smaller: what the mask lets through is in range (premise buffer-reach).
    """
    e = c.e
    records = words[2]
    split = _conditional(c, offset)
    far = c.m.constant(split[2]) if split is not None else None
    if split is not None and isinstance(records, Const) and far is not None and \
            far + size > records.bits:
        cond, near = split[0], split[1]
        if records.bits >= REACH and far >= records.bits and _conditional(c, near) is None:
            e.premises.add("buffer-reach")
            return cond, near
        inside, near = in_range(c, words, near, size)
        return e.pand(cond, inside), near
    if size > 1:
        e.premises.add("buffer-range-whole")
    if isinstance(records, Const):
        if records.bits >= 0xFFFFFFFF:
            return TRUE, offset
        if records.bits < size:
            return Const(0, 1), offset
        last = Const(records.bits - size, 32)
        if records.bits >= REACH and not isinstance(offset, Const):  # the mask may lie further back
            return e.pure("icmp", 1, (offset, last), Compare("le", "u32", reach=True)), offset
        return e.icmp("le", offset, last, "u32"), offset
    end = e.add(e.zext(offset, 64), Const(size, 64), 64)
    test = Compare("le", "u64", reach=True)  # where the records turn out to span 2 GiB
    return e.pure("icmp", 1, (end, e.zext(records, 64)), test), offset


def _buffer_load(c: Context, words: list[Source], offset: Source, shape: Shape, under: Source,
                 at: int) -> list[Source]:
    e = c.e
    inside, near = in_range(c, words, offset, shape.count * shape.width // 8)
    address = buffer_address(c, words, at, near)
    dst = tuple(e.registers.temp(shape.width) for _ in range(shape.count))
    guard = e.pand(inside, under)
    if guard != under or guard == Const(0, 1):
        for reg in dst:
            e.op("mov", (reg,), (Const(0, shape.width),), shape.width)
    if guard != Const(0, 1):
        e.op("load", dst, (address,), mem_of(c, "global", shape, 0), c.m.guard(guard))
    e.raw |= set(dst)
    return list(dst)


@row(" ".join(f"buffer_load_{n}" for n in LOADS))
def buffer_load(c: Context) -> None:
    """D = memory of a buffer; out of range gives 0. With `lds`: to LDS at m0 + offset + lane."""
    shape = NAMES[c.base[12:]]
    c.counter = "vmem"
    to_lds = c.flag("lds")
    at = 0 if to_lds else 1
    words = c.registers(at + 1, 4)
    local = _is_scratch(c, at + 1)
    if local and not to_lds:
        deliver(c, 0, shape, load(c, _private(c, at, at + 2), mem_of(c, "local", shape, 0),
                                    c.m.exec))
        return
    offset = buffer_offset(c, at, at + 2)
    values = _buffer_load(c, words, offset, shape, c.m.exec, at + 1)
    if to_lds:
        _to_lds(c, shape, values)
    else:
        deliver(c, 0, shape, values)


@row(" ".join(f"buffer_store_{n}" for n in STORES), dsts=0)
def buffer_store(c: Context) -> None:
    """Memory of a buffer = S; out of range stores nothing."""
    shape = NAMES[c.base[13:]]
    c.counter = "vmem_store"
    values = stored(c, 0, shape)
    words = c.registers(2, 4)
    if _is_scratch(c, 2):
        store(c, _private(c, 1, 3), values, mem_of(c, "local", shape, 0), c.m.exec)
        return
    offset = buffer_offset(c, 1, 3)
    inside, near = in_range(c, words, offset, shape.count * shape.width // 8)
    address = buffer_address(c, words, 2, near)
    store(c, address, values, mem_of(c, "global", shape, 0), c.e.pand(inside, c.m.exec))


def _is_scratch(c: Context, i: int) -> bool:
    """True if the descriptor is the one of the private segment."""
    file, n, _ = c.index(i)
    symbol = c.m.symbols.get((file, n))
    return isinstance(symbol, tuple) and symbol[1] == "private"


def _private(c: Context, vaddr: int, soffset: int) -> Source:
    """Address in private memory: the scalar part counts the whole wave's bytes."""
    e = c.e
    op = c.operand(soffset)
    base: Source = ZERO if isinstance(op, Immediate) and op.value == 0 else \
        e.int2("shr_u", c.raw32(op), Const(6 if c.wave == 64 else 5, 32), 32)
    if c.flag("offen"):
        base = e.add(base, c.raw32(c.operand(vaddr)))
    return e.add(base, fits(c.number("offset"), 32))


def _to_lds(c: Context, shape: Shape, values: list[Source], offset: int = 0) -> None:
    """LDS[m0 + offset + lane * size] = values; the compiler orders it by the vector counter."""
    e = c.e
    size = max(4, shape.count * shape.width // 8)
    c.reads.add(("s", M0))
    start = e.and_(c.m.read("s", M0), Const(0xFFFF, 32))
    c.used.add("offset")
    start = e.add(start, fits(c.number("offset"), 32))
    lane = e.laneid()
    at = e.add(start, e.pure("imul", 32, (lane, Const(size, 32)), 32))
    if shape.width < 32:
        values = [e.sext(values[0], 32) if shape.signed else e.zext(values[0], 32)]
    c.counter = "vmem_lds"
    e.premises.add("lds-copy-waits")
    store(c, at, values, Mem("shared", 32, shape.count, 0, 4), c.m.exec)


@row("global_load_lds_dword global_load_lds_dwordx3 global_load_lds_dwordx4 global_load_lds_ubyte "
     "global_load_lds_sbyte global_load_lds_ushort global_load_lds_sshort", dsts=0)
def global_load_lds(c: Context) -> None:
    """LDS = memory, at m0 + offset + lane."""
    shape = NAMES[c.base[16:]]
    address, offset = address64(c, 0, 1)
    values = load(c, address, mem_of(c, "global", shape, offset), c.m.exec)
    _to_lds(c, shape, values, offset)


# --- scalar loads from buffers


@row(" ".join(f"s_buffer_load_{n}" for n in ("dword", "dwordx2", "dwordx4", "dwordx8", "b32", "b64",
                                             "b128", "b256")))
def s_buffer_load(c: Context) -> None:
    """D = memory of a buffer, one value per wave; out of range gives 0."""
    name = c.base[14:]
    count = int(name[6:] or 1) if name.startswith("dword") else int(name[1:]) // 32
    offset, register = scalar_offset(c)
    _, d, _ = c.index(0)
    c.counter = "smem"
    words = c.registers(1, 4)
    at = c.e.add(register if register is not None else ZERO, fits(offset, 32))
    for k in range(count):
        here = c.e.add(at, Const(4 * k, 32))
        value = _buffer_load(c, words, here, Shape(32), TRUE, 1)[0]
        c.e.uniform.add(value)
        c.put_at("s", d + k, value)
