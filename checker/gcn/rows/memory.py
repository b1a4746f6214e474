"""Rows: scalar loads, LDS, global, flat, scratch and buffer memory, atomics.

Offsets stay in `Mem.offset_bytes`. A buffer access out of its descriptor's range loads 0 and stores
nothing. Loads write under exec; the wait checker sees which counter tracks them.
Source: CDNA3 ISA chapters 8 (scalar), 9 (vector), 11 (LDS); RDNA3/RDNA4 ISA for the new names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from checker.core import Atomic, Const, Mem, Source
from checker.gcn.context import Context
from checker.gcn.emitter import TRUE, fits
from checker.gcn.machine import M0, Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.words import words
from checker.syntax import Immediate, Name

ZERO = Const(0, 32)


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


_NAMES: dict[str, Shape] = {
    "dword": Shape(32), "dwordx2": Shape(32, 2), "dwordx3": Shape(32, 3), "dwordx4": Shape(32, 4),
    "b32": Shape(32), "b64": Shape(32, 2), "b96": Shape(32, 3), "b128": Shape(32, 4),
    "ubyte": Shape(8), "u8": Shape(8), "sbyte": Shape(8, signed=True), "i8": Shape(8, signed=True),
    "ushort": Shape(16), "u16": Shape(16), "sshort": Shape(16, signed=True),
    "i16": Shape(16, signed=True), "byte": Shape(8), "b8": Shape(8), "short": Shape(16),
    "b16": Shape(16),
}
for _half in ("lo", "hi"):
    _tail = "" if _half == "lo" else "_hi"
    _NAMES |= {
        f"ubyte_d16{_tail}": Shape(8, half=_half), f"sbyte_d16{_tail}": Shape(8, 1, True, _half),
        f"short_d16{_tail}": Shape(16, half=_half), f"byte_d16{_tail}": Shape(8, half=_half),
        f"d16{_tail}_u8": Shape(8, half=_half), f"d16{_tail}_i8": Shape(8, 1, True, _half),
        f"d16{_tail}_b16": Shape(16, half=_half), f"d16{_tail}_b8": Shape(8, half=_half),
        f"u8_d16{_tail}": Shape(8, half=_half), f"i8_d16{_tail}": Shape(8, 1, True, _half),
        f"u16_d16{_tail}": Shape(16, half=_half), f"b16_d16{_tail}": Shape(16, half=_half),
        f"b8_d16{_tail}": Shape(8, half=_half),
    }

_LOADS = words(
    "dword dwordx2 dwordx3 dwordx4 b32 b64 b96 b128 ubyte u8 sbyte i8 ushort u16 sshort i16 "
    "ubyte_d16 ubyte_d16_hi sbyte_d16 sbyte_d16_hi short_d16 short_d16_hi d16_u8 d16_hi_u8 "
    "d16_i8 d16_hi_i8 d16_b16 d16_hi_b16")
_STORES = words(
    "dword dwordx2 dwordx3 dwordx4 b32 b64 b96 b128 byte b8 short b16 byte_d16_hi "
    "short_d16_hi d16_hi_b8 d16_hi_b16")


def _mem(c: Context, space: str, shape: Shape, offset: int) -> Mem:
    return Mem(space, shape.width, shape.count, offset, shape.width // 8)


def _load(c: Context, address: Source, mem: Mem, under: Source) -> list[Source]:
    """Emit a load; the results are defined in the lanes of `under`."""
    if mem.space == "shared":
        c.m.order_lds("load")
    dst = tuple(c.e.registers.temp(mem.width_bits) for _ in range(mem.count))
    for reg in dst:
        c.e.defs[reg] = ("load", (address,), mem)
    c.e.op("load", dst, (address,), mem, c.m.guard(under))
    return list(dst)


def _deliver(c: Context, i: int, shape: Shape, values: list[Source]) -> None:
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
    file, n, _ = c.index(i)
    old = c.m.read(file, n, c.under)
    c.reads.add((file, n))
    wide = extend(value, 16)
    return e.pack(wide, e.extract(old, 16, 16)) if half == "lo" else \
        e.pack(e.extract(old, 0, 16), wide)


def _stored(c: Context, i: int, shape: Shape) -> list[Source]:
    """The values that operand i stores."""
    if shape.width == 32:
        return c.registers(i, shape.count)
    op = c.operand(i)
    value = c.raw32(op)
    high = shape.half == "hi" or (isinstance(op, Name) and op.sub == "h")
    return [c.e.extract(value, 16 if high else 0, shape.width)]


def _store(c: Context, address: Source, values: list[Source], mem: Mem, under: Source) -> None:
    if mem.space == "shared":
        c.m.order_lds("store")
    c.e.op("store", (), (address, *values), mem, c.m.guard(under))


# --- scalar loads


@row(" ".join(f"s_load_{n}" for n in ("dword", "dwordx2", "dwordx4", "dwordx8",
                                      "dwordx16", "b32", "b64", "b96", "b128", "b256", "b512",
                                      "u8", "i8", "u16", "i16")))
def s_load(c: Context) -> None:
    """D = memory at S0 + offset, one value per wave."""
    name = c.base[7:]
    count = int(name[6:] or 1) if name.startswith("dword") else max(1, int(name[1:]) // 32)
    offset, register = _scalar_offset(c)
    file, n, _ = c.index(1)
    _, d, found = c.index(0)
    if found != count:
        raise Unmodelled(f"{count} registers expected, {found} given")
    c.counter = "smem"
    c.reads |= {(file, n), (file, n + 1)}
    symbol = c.m.symbols.get((file, n))
    if isinstance(symbol, tuple) and symbol[0] == "low" and register is None and \
            name[0] not in "ui" and symbol[1] in ("kernarg", "dispatch"):
        words = _segment(c, symbol[1], symbol[2] + offset, count)
        for k, word in enumerate(words):
            c.e.uniform.add(word)
            c.put_at("s", d + k, word)
        return
    address = c.pair(c.operand(1))
    if register is not None:
        address = c.e.add(address, c.e.zext(register, 64), 64)
    if name[0] in "ui":
        width = int(name[1:])
        value = _load(c, address, Mem("global", width, 1, offset, width // 8), TRUE)[0]
        extended = c.e.sext(value, 32) if name[0] == "i" else c.e.zext(value, 32)
        c.e.uniform.add(extended)
        c.put_at("s", d, extended)
        return
    for k, value in enumerate(_load(c, address, Mem("global", 32, count, offset, 4), TRUE)):
        c.e.uniform.add(value)
        c.put_at("s", d + k, value)


def _scalar_offset(c: Context) -> tuple[int, Source | None]:
    offset = c.number("offset")
    if len(c.operands) < 3:
        return offset, None
    op = c.operand(2)
    if isinstance(op, Immediate):
        return offset + op.value, None
    return offset, c.src(2, "u32")


def _segment(c: Context, which: str, offset: int, count: int) -> list[Source]:
    words: list[Source] = []
    for k in range(count):
        at = offset + 4 * k
        word = c.m.kernel.word(c.e, at) if which == "kernarg" else \
            c.m.kernel.dispatch_word(c.e, at)
        if word is None:
            word = c.e.pure("opaque", 32, (), f"dispatch packet byte {at}")
        words.append(word)
    return words


@row(" ".join(f"s_buffer_load_{n}" for n in ("dword", "dwordx2", "dwordx4", "dwordx8", "b32", "b64",
                                             "b128", "b256")))
def s_buffer_load(c: Context) -> None:
    """D = memory of a buffer, one value per wave; out of range gives 0."""
    name = c.base[14:]
    count = int(name[6:] or 1) if name.startswith("dword") else int(name[1:]) // 32
    offset, register = _scalar_offset(c)
    _, d, _ = c.index(0)
    c.counter = "smem"
    words = c.registers(1, 4)
    at = c.e.add(register if register is not None else ZERO, fits(offset, 32))
    for k in range(count):
        here = c.e.add(at, Const(4 * k, 32))
        value = _buffer_load(c, words, here, Shape(32), TRUE, 1)[0]
        c.e.uniform.add(value)
        c.put_at("s", d + k, value)


# --- global, flat, scratch


def _address64(c: Context, vaddr: int, saddr: int) -> tuple[Source, int]:
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


@row(" ".join(f"{p}_load_{n}" for p in ("global", "flat") for n in _LOADS))
def vector_load(c: Context) -> None:
    """D = memory."""
    prefix, _, name = c.base.partition("_load_")
    shape = _NAMES[name]
    address, offset = _address64(c, 1, 2 if prefix == "global" else 9)
    c.counter = "vmem" if prefix == "global" else "flat"
    values = _load(c, address, _mem(c, "global" if prefix == "global" else "generic", shape,
                                    offset), c.m.exec)
    _deliver(c, 0, shape, values)


@row(" ".join(f"{p}_store_{n}" for p in ("global", "flat") for n in _STORES), dsts=0)
def vector_store(c: Context) -> None:
    """Memory = S."""
    prefix, _, name = c.base.partition("_store_")
    shape = _NAMES[name]
    address, offset = _address64(c, 0, 2 if prefix == "global" else 9)
    c.counter = "vmem_store" if prefix == "global" else "flat_store"
    _store(c, address, _stored(c, 1, shape),
           _mem(c, "global" if prefix == "global" else "generic", shape, offset), c.m.exec)


def _scratch_address(c: Context, vaddr: int, saddr: int) -> tuple[Source, int]:
    address: Source = ZERO
    for i in (vaddr, saddr):
        op = c.operands[i] if i < len(c.operands) else Name("off")
        if isinstance(op, Name) and op.name in ("off", "null"):
            continue
        address = c.e.add(address, c.raw32(op))
    return address, c.number("offset")


@row(" ".join(f"scratch_load_{n}" for n in _LOADS))
def scratch_load(c: Context) -> None:
    """D = this lane's private memory."""
    shape = _NAMES[c.base[13:]]
    address, offset = _scratch_address(c, 1, 2)
    c.counter = "vmem"
    _deliver(c, 0, shape, _load(c, address, _mem(c, "local", shape, offset), c.m.exec))


@row(" ".join(f"scratch_store_{n}" for n in _STORES), dsts=0)
def scratch_store(c: Context) -> None:
    """This lane's private memory = S."""
    shape = _NAMES[c.base[14:]]
    address, offset = _scratch_address(c, 0, 2)
    c.counter = "vmem_store"
    _store(c, address, _stored(c, 1, shape), _mem(c, "local", shape, offset), c.m.exec)


# --- buffers


def _buffer_offset(c: Context, vaddr: int, soffset: int) -> Source:
    """The byte offset into the buffer; structured and swizzled buffers are refused."""
    if c.flag("idxen") or c.flag("addr64") or c.flag("tfe") or c.flag("lwe"):
        raise Unmodelled("structured buffer access")
    offset: Source = fits(c.number("offset"), 32)
    if c.flag("offen"):
        offset = c.e.add(c.raw32(c.operand(vaddr)), offset)
    op = c.operand(soffset)
    if isinstance(op, Name) and op.name == "null":
        return offset
    return c.e.add(offset, c.raw32(op))


def _buffer_base(c: Context, words: list[Source], i: int) -> Source:
    """The 48-bit base address in operand i; the stride field must be 0 or unused."""
    e = c.e
    high = words[1]
    _plain_descriptor(c, words[3])
    if e.is_pointer_high(high) or (e.is_short(high) and not isinstance(high, Const)):
        file, n, _ = c.index(i)
        return c.m.read64(file, n, c.m.exec)
    found = e.definition(high)
    if isinstance(high, Const):
        if high.bits >> 16 & 0x3FFF and high.bits >> 30:
            raise Unmodelled("swizzled buffer")
        return e.pack(words[0], Const(high.bits & 0xFFFF, 32))
    if found is not None and found[0] == "ior":
        for x, y in (found[1], found[1][::-1]):
            if isinstance(y, Const) and y.bits & 0xFFFF == 0 and y.bits >> 30 in (0, 1):
                return e.pack(words[0], x if e.is_short(x) else e.and_(x, Const(0xFFFF, 32)))
    return e.pack(words[0], e.and_(high, Const(0xFFFF, 32)))


def _plain_descriptor(c: Context, flags: Source) -> None:
    """The fourth word must say: a buffer, no thread id added, raw range check."""
    if not isinstance(flags, Const):
        raise Unmodelled("buffer descriptor whose flags are not known")
    if flags.bits & 0xC0800000 or (c.target.major >= 10 and flags.bits >> 28 & 3 != 3):
        raise Unmodelled(f"buffer descriptor flags {flags.bits:#x}")


def _conditional(c: Context, offset: Source) -> tuple[Source, Source, Source] | None:
    """(condition, offset, far offset) if the offset is `condition ? offset : 0x80000000`."""
    found = c.e.definition(offset)
    if found is None or found[0] != "select":
        return None
    cond, a, b = found[1]
    if isinstance(b, Const):
        return cond, a, b
    return (c.e.pnot(cond), b, a) if isinstance(a, Const) else None


def _in_range(c: Context, words: list[Source], offset: Source, size: int
              ) -> tuple[Source, Source]:
    """(predicate, offset to use): the whole access must end below num_records."""
    e = c.e
    records = words[2]
    if size > 1:
        e.premises.add("buffer-range-whole")
    split = _conditional(c, offset)
    far = c.m.constant(split[2]) if split is not None else None
    if split is not None and isinstance(records, Const) and far is not None and \
            far + size > records.bits:
        cond, near = split[0], split[1]
        inside, _ = _in_range(c, words, near, size)
        return e.pand(cond, inside), near
    if isinstance(records, Const):
        if records.bits >= 0xFFFFFFFF:
            return TRUE, offset
        if records.bits < size:
            return Const(0, 1), offset
        return e.icmp("le", offset, Const(records.bits - size, 32), "u32"), offset
    end = e.add(e.zext(offset, 64), Const(size, 64), 64)
    return e.icmp("le", end, e.zext(records, 64), "u64"), offset


def _buffer_load(c: Context, words: list[Source], offset: Source, shape: Shape, under: Source,
                 at: int) -> list[Source]:
    e = c.e
    inside, near = _in_range(c, words, offset, shape.count * shape.width // 8)
    address = e.add(_buffer_base(c, words, at), e.zext(near, 64), 64)
    dst = tuple(e.registers.temp(shape.width) for _ in range(shape.count))
    guard = e.pand(inside, under)
    if guard != under or guard == Const(0, 1):
        for reg in dst:
            e.op("mov", (reg,), (Const(0, shape.width),), shape.width)
    if guard != Const(0, 1):
        e.op("load", dst, (address,), _mem(c, "global", shape, 0), c.m.guard(guard))
    return list(dst)


@row(" ".join(f"buffer_load_{n}" for n in _LOADS))
def buffer_load(c: Context) -> None:
    """D = memory of a buffer; out of range gives 0. With `lds`: to LDS at m0 + offset + lane."""
    shape = _NAMES[c.base[12:]]
    c.counter = "vmem"
    to_lds = c.flag("lds")
    at = 0 if to_lds else 1
    words = c.registers(at + 1, 4)
    local = _is_scratch(c, at + 1)
    if local and not to_lds:
        _deliver(c, 0, shape, _load(c, _private(c, at, at + 2), _mem(c, "local", shape, 0),
                                    c.m.exec))
        return
    offset = _buffer_offset(c, at, at + 2)
    values = _buffer_load(c, words, offset, shape, c.m.exec, at + 1)
    if to_lds:
        _to_lds(c, shape, values)
    else:
        _deliver(c, 0, shape, values)


@row(" ".join(f"buffer_store_{n}" for n in _STORES), dsts=0)
def buffer_store(c: Context) -> None:
    """Memory of a buffer = S; out of range stores nothing."""
    shape = _NAMES[c.base[13:]]
    c.counter = "vmem_store"
    values = _stored(c, 0, shape)
    words = c.registers(2, 4)
    if _is_scratch(c, 2):
        _store(c, _private(c, 1, 3), values, _mem(c, "local", shape, 0), c.m.exec)
        return
    offset = _buffer_offset(c, 1, 3)
    inside, near = _in_range(c, words, offset, shape.count * shape.width // 8)
    address = c.e.add(_buffer_base(c, words, 2), c.e.zext(near, 64), 64)
    _store(c, address, values, _mem(c, "global", shape, 0), c.e.pand(inside, c.m.exec))


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
    _store(c, at, values, Mem("shared", 32, shape.count, 0, 4), c.m.exec)


@row("global_load_lds_dword global_load_lds_dwordx3 global_load_lds_dwordx4 global_load_lds_ubyte "
     "global_load_lds_sbyte global_load_lds_ushort global_load_lds_sshort", dsts=0)
def global_load_lds(c: Context) -> None:
    """LDS = memory, at m0 + offset + lane."""
    shape = _NAMES[c.base[16:]]
    address, offset = _address64(c, 0, 1)
    values = _load(c, address, _mem(c, "global", shape, offset), c.m.exec)
    _to_lds(c, shape, values, offset)


# --- LDS

_DS_LOADS = "b32 b64 b96 b128 u8 i8 u16 i16 u8_d16 u8_d16_hi i8_d16 i8_d16_hi u16_d16 u16_d16_hi"
_DS_STORES = "b32 b64 b96 b128 b8 b16 b8_d16_hi b16_d16_hi"


@row(" ".join(f"ds_{p}_{n}" for p in ("read", "load") for n in _DS_LOADS.split()))
def ds_load(c: Context) -> None:
    """D = LDS at S0 + offset."""
    shape = _NAMES[c.base.split("_", 2)[2]]
    _no_gds(c)
    c.counter = "lds"
    mem = _mem(c, "shared", shape, c.number("offset"))
    _deliver(c, 0, shape, _load(c, c.src(1, "u32"), mem, c.m.exec))


@row(" ".join(f"ds_{p}_{n}" for p in ("write", "store") for n in _DS_STORES.split()), dsts=0)
def ds_store(c: Context) -> None:
    """LDS at S0 + offset = S1."""
    shape = _NAMES[c.base.split("_", 2)[2]]
    _no_gds(c)
    c.counter = "lds_store"
    mem = _mem(c, "shared", shape, c.number("offset"))
    _store(c, c.src(0, "u32"), _stored(c, 1, shape), mem, c.m.exec)


def _no_gds(c: Context) -> None:
    if c.flag("gds"):
        raise Unmodelled("global data share")


def _two(c: Context) -> tuple[int, int, int]:
    """(registers per element, first offset, second offset) in bytes."""
    words = 2 if c.base.endswith("b64") else 1
    stride = 64 if "st64" in c.base or "stride64" in c.base else 1
    return words, c.number("offset0") * words * 4 * stride, \
        c.number("offset1") * words * 4 * stride


@row("ds_read2_b32 ds_read2_b64 ds_read2st64_b32 ds_read2st64_b64 ds_load_2addr_b32 "
     "ds_load_2addr_b64 ds_load_2addr_stride64_b32 ds_load_2addr_stride64_b64")
def ds_load2(c: Context) -> None:
    """D = two elements of LDS."""
    _no_gds(c)
    words, first, second = _two(c)
    c.counter = "lds"
    address = c.src(1, "u32")
    values: list[Source] = []
    for offset in (first, second):
        values += _load(c, address, Mem("shared", 32, words, offset, 4 * words), c.m.exec)
    _deliver(c, 0, Shape(32, 2 * words), values)


@row("ds_write2_b32 ds_write2_b64 ds_write2st64_b32 ds_write2st64_b64 ds_store_2addr_b32 "
     "ds_store_2addr_b64 ds_store_2addr_stride64_b32 ds_store_2addr_stride64_b64", dsts=0)
def ds_store2(c: Context) -> None:
    """Two elements of LDS = S1, S2."""
    _no_gds(c)
    words, first, second = _two(c)
    c.counter = "lds_store"
    address = c.src(0, "u32")
    stored = [(c.registers(i, words), offset) for i, offset in ((1, first), (2, second))]
    for values, offset in stored:
        _store(c, address, values, Mem("shared", 32, words, offset, 4 * words), c.m.exec)


@row("ds_read_b64_tr_b16 ds_read_b64_tr_b8 ds_read_b64_tr_b4")
def ds_load_transposed(c: Context) -> None:
    """64 bits a lane, transposed among each 16 lanes: rows in memory become registers.

    With E elements in 64 bits, lane l reads row l // (16 / E), columns E * (l % (16 / E)) and
    on; it gets column l of the E rows.
    """
    e, bits = c.e, int(c.base.rsplit("b", 1)[-1])
    if not c.m.full or bits == 4:
        raise Unmodelled("transposed LDS read of this form")
    _no_gds(c)
    each = 64 // bits
    mem = Mem("shared", 32, 2, c.number("offset"), 8)
    c.counter = "lds"
    words = _load(c, c.src(1, "u32"), mem, TRUE)
    lane, inside = e.laneid(), e.and_(e.laneid(), Const(15, 32))
    row_start = e.or_(e.and_(lane, fits(-16, 32)),
                      e.int2("shr_u", inside, Const(each.bit_length() - 1, 32), 32))
    parts: list[Source] = []
    for k in range(each):
        source = e.add(row_start, Const(16 // each * k, 32))
        moved = [e.gather(word, source) for word in words]
        pieces = [e.extract(moved[at // 32], at % 32, bits) for at in range(0, 64, bits)]
        parts.append(_pick(c, pieces, inside))
    file, n, count = c.index(0)
    if count != 2:
        raise Unmodelled("2 registers expected")
    c.put_at(file, n, e.pack(*parts[: each // 2]))
    c.put_at(file, n + 1, e.pack(*parts[each // 2:]))


def _pick(c: Context, pieces: list[Source], index: Source) -> Source:
    """pieces[index modulo their number] as a tree of selects."""
    e, bit = c.e, 1
    while len(pieces) > 1:
        odd = e.icmp("ne", e.and_(index, Const(bit, 32)), ZERO, "u32")
        pieces = [e.select(odd, pieces[i + 1], pieces[i], e.width(pieces[i]))
                  for i in range(0, len(pieces), 2)]
        bit *= 2
    return pieces[0]


# --- atomics

_OPS = {"add": "add", "sub": "sub", "smin": "min", "min": "min", "umin": "min", "smax": "max",
        "max": "max", "umax": "max", "and": "and", "or": "or", "xor": "xor", "inc": "inc",
        "dec": "dec", "swap": "exch", "wrxchg": "exch", "storexchg": "exch", "cmpswap": "cas",
        "cmpst": "cas", "cmpstore": "cas", "fadd": "add", "fmin": "min", "fmax": "max",
        "min_num": "min", "max_num": "max"}
_TYPES = {"u32": "u32", "i32": "s32", "b32": "b32", "u64": "u64", "i64": "s64", "b64": "b64",
          "f32": "f32", "f64": "f64", "x2": "u64", "f16": "f16x2", "bf16": "bf16x2"}


def _atomic(text: str) -> tuple[str, str]:
    """(operation, type) of the part of the opcode after `atomic_` or `ds_`."""
    text = text.replace("_rtn", "").replace("clamp_", "")
    packed = text.startswith("pk_")
    words = text.removeprefix("pk_").split("_")
    type = _TYPES.get(words[-1], "") if len(words) > 1 else ""
    name = "_".join(words[:-1]) if type else "_".join(words)
    if name not in _OPS:
        raise Unmodelled(f"atomic {text}")
    op = _OPS[name]
    if words[-1] == "x2":
        type = "u64"
    if not type:
        type = "f32" if name.startswith("f") else "u32"
    if name in ("smin", "smax"):
        type = "s" + type[1:]
    if op in ("and", "or", "xor", "exch", "cas"):
        type = "b" + re.sub(r"\D", "", type)
    if packed and type not in ("f16x2", "bf16x2"):
        raise Unmodelled(f"atomic {text}")
    return op, type


def _atomic_values(c: Context, i: int, op: str, type: str) -> tuple[Source, ...]:
    """The values in the order of the core operation (compare first for cas)."""
    words = 2 if type.endswith("64") else 1
    if op == "cas":
        both = c.registers(i, 2 * words)
        new, compare = c.e.pack(*both[:words]), c.e.pack(*both[words:])
        return compare, new
    value = c.e.pack(*c.registers(i, words))
    return (value,)


def _emit_atomic(c: Context, space: str, address: Source, values: tuple[Source, ...], op: str,
                 type: str, offset: int, result: int | None, under: Source) -> None:
    e = c.e
    if space == "shared":
        c.m.order_lds("atomic")
    width = 64 if type.endswith("64") else 32
    if op == "sub":
        op, values = "add", (e.pure("ineg", width, values, width),)
    attr = Atomic(space, op, type, offset, 1,
                  c.mode("f32" if type == "f32" else "f64").denorm if "f" in type else "keep")
    dst: tuple[int, ...] = ()
    if result is not None:
        dst = (e.registers.temp(width),)
        e.defs[dst[0]] = ("atomic", (address, *values), attr)
    e.op("atomic", dst, (address, *values), attr, c.m.guard(under))
    if result is not None:
        c.put(dst[0], result)


_GLOBAL_ATOMICS = words(
    "add sub smin umin smax umax and or xor inc dec swap cmpswap add_x2 sub_x2 smin_x2 "
    "umin_x2 smax_x2 umax_x2 and_x2 or_x2 xor_x2 inc_x2 dec_x2 swap_x2 cmpswap_x2 add_f32 "
    "add_f64 min_f64 max_f64 pk_add_f16 pk_add_bf16 add_u32 sub_u32 min_i32 min_u32 max_i32 "
    "max_u32 and_b32 or_b32 xor_b32 inc_u32 dec_u32 swap_b32 cmpswap_b32 add_u64 sub_u64 "
    "min_i64 min_u64 max_i64 max_u64 and_b64 or_b64 xor_b64 swap_b64 cmpswap_b64 min_f32 "
    "max_f32 min_num_f32 max_num_f32")


@row(" ".join(f"{p}_atomic_{n}" for p in ("global", "flat") for n in _GLOBAL_ATOMICS), dsts=0)
def vector_atomic(c: Context) -> None:
    """Memory op= S; with glc (sc0, th:TH_ATOMIC_RETURN) D = the old value."""
    prefix, _, name = c.base.partition("_atomic_")
    op, type = _atomic(name)
    returns = c.flag("glc") or c.flag("sc0") or "RETURN" in c.mods.get("th", "")
    first = 1 if returns else 0
    address, offset = _address64(c, first, first + 2 if prefix == "global" else 9)
    c.counter = ("vmem" if returns else "vmem_store") if prefix == "global" else "flat"
    _emit_atomic(c, "global" if prefix == "global" else "generic", address,
                 _atomic_values(c, first + 1, op, type), op, type, offset,
                 0 if returns else None, c.m.exec)


@row(" ".join(f"buffer_atomic_{n}" for n in _GLOBAL_ATOMICS), dsts=0)
def buffer_atomic(c: Context) -> None:
    """Memory of a buffer op= S; with glc (sc0) D = S's register = the old value."""
    op, type = _atomic(c.base[14:])
    returns = c.flag("glc") or c.flag("sc0") or "RETURN" in c.mods.get("th", "")
    if returns and op == "cas":
        raise Unmodelled("buffer compare-and-swap with a result")
    values = _atomic_values(c, 0, op, type)
    words = c.registers(2, 4)
    offset = _buffer_offset(c, 1, 3)
    inside, near = _in_range(c, words, offset, 8 if type.endswith("64") else 4)
    address = c.e.add(_buffer_base(c, words, 2), c.e.zext(near, 64), 64)
    c.counter = "vmem" if returns else "vmem_store"
    _emit_atomic(c, "global", address, values, op, type, 0, 0 if returns else None,
                 c.e.pand(inside, c.m.exec))


_DS_ATOMICS = words(
    "add_u32 sub_u32 inc_u32 dec_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32 xor_b32 "
    "add_f32 min_f32 max_f32 add_u64 min_i64 max_i64 min_u64 max_u64 and_b64 or_b64 xor_b64 "
    "add_f64")


@row(" ".join(f"ds_{n}" for n in _DS_ATOMICS), dsts=0)
def ds_atomic(c: Context) -> None:
    """LDS op= S."""
    _no_gds(c)
    op, type = _atomic(c.base[3:])
    c.counter = "lds_store"
    _emit_atomic(c, "shared", c.src(0, "u32"), _atomic_values(c, 1, op, type), op, type,
                 c.number("offset"), None, c.m.exec)


@row(" ".join(f"ds_{n.replace('_', '_rtn_')}" for n in _DS_ATOMICS) + " ds_wrxchg_rtn_b32 "
     "ds_wrxchg_rtn_b64 ds_storexchg_rtn_b32 ds_storexchg_rtn_b64")
def ds_atomic_return(c: Context) -> None:
    """D = LDS; LDS op= S."""
    _no_gds(c)
    op, type = _atomic(c.base[3:])
    c.counter = "lds"
    _emit_atomic(c, "shared", c.src(1, "u32"), _atomic_values(c, 2, op, type), op, type,
                 c.number("offset"), 0, c.m.exec)


@row("ds_cmpst_rtn_b32 ds_cmpstore_rtn_b32 ds_cmpst_b32 ds_cmpstore_b32", dsts=0)
def ds_cas(c: Context) -> None:
    """D = LDS; LDS = new if LDS == compare (cmpst: compare, new; cmpstore: new, compare)."""
    _no_gds(c)
    returns = "rtn" in c.base
    first = 1 if returns else 0
    a, b = c.registers(first + 1, 1)[0], c.registers(first + 2, 1)[0]
    values = (a, b) if "cmpst_" in c.base else (b, a)
    c.counter = "lds" if returns else "lds_store"
    _emit_atomic(c, "shared", c.src(first, "u32"), values, "cas", "b32", c.number("offset"),
                 0 if returns else None, c.m.exec)
