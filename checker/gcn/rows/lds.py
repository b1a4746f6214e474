"""Rows: LDS (ds_read, ds_write and their gfx11 names), pairs, strides, transposed reads.

Source: CDNA3 ISA chapter 11; CDNA4 ISA for the transposed reads.
"""

from __future__ import annotations

from checker.core import Const, Mem, Source
from checker.gcn.context import Context
from checker.gcn.emitter import TRUE, fits
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.rows.transfer import NAMES, Shape, deliver, load, mem_of, store, stored

__all__ = ["no_gds"]

ZERO = Const(0, 32)


# --- LDS

_DS_LOADS = "b32 b64 b96 b128 u8 i8 u16 i16 u8_d16 u8_d16_hi i8_d16 i8_d16_hi u16_d16 u16_d16_hi"
_DS_STORES = "b32 b64 b96 b128 b8 b16 b8_d16_hi b16_d16_hi"


@row(" ".join(f"ds_{p}_{n}" for p in ("read", "load") for n in _DS_LOADS.split()))
def ds_load(c: Context) -> None:
    """D = LDS at S0 + offset."""
    shape = NAMES[c.base.split("_", 2)[2]]
    no_gds(c)
    c.counter = "lds"
    mem = mem_of(c, "shared", shape, c.number("offset"))
    deliver(c, 0, shape, load(c, c.src(1, "u32"), mem, c.m.exec))


@row(" ".join(f"ds_{p}_{n}" for p in ("write", "store") for n in _DS_STORES.split()), dsts=0)
def ds_store(c: Context) -> None:
    """LDS at S0 + offset = S1."""
    shape = NAMES[c.base.split("_", 2)[2]]
    no_gds(c)
    c.counter = "lds_store"
    mem = mem_of(c, "shared", shape, c.number("offset"))
    store(c, c.src(0, "u32"), stored(c, 1, shape), mem, c.m.exec)


def no_gds(c: Context) -> None:
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
    no_gds(c)
    words, first, second = _two(c)
    c.counter = "lds"
    address = c.src(1, "u32")
    values: list[Source] = []
    for offset in (first, second):
        values += load(c, address, Mem("shared", 32, words, offset, 4 * words), c.m.exec)
    deliver(c, 0, Shape(32, 2 * words), values)


@row("ds_write2_b32 ds_write2_b64 ds_write2st64_b32 ds_write2st64_b64 ds_store_2addr_b32 "
     "ds_store_2addr_b64 ds_store_2addr_stride64_b32 ds_store_2addr_stride64_b64", dsts=0)
def ds_store2(c: Context) -> None:
    """Two elements of LDS = S1, S2."""
    no_gds(c)
    words, first, second = _two(c)
    c.counter = "lds_store"
    address = c.src(0, "u32")
    stored = [(c.registers(i, words), offset) for i, offset in ((1, first), (2, second))]
    for values, offset in stored:
        store(c, address, values, Mem("shared", 32, words, offset, 4 * words), c.m.exec)


@row("ds_read_b64_tr_b16 ds_read_b64_tr_b8 ds_read_b64_tr_b4")
def ds_load_transposed(c: Context) -> None:
    """64 bits a lane, transposed among each 16 lanes: rows in memory become registers.

    With E elements in 64 bits, lane l reads row l // (16 / E), columns E * (l % (16 / E)) and
    on; it gets column l of the E rows.
    """
    e, bits = c.e, int(c.base.rsplit("b", 1)[-1])
    if not c.m.full or bits == 4:
        raise Unmodelled("transposed LDS read of this form")
    no_gds(c)
    each = 64 // bits
    mem = Mem("shared", 32, 2, c.number("offset"), 8)
    c.counter = "lds"
    words = load(c, c.src(1, "u32"), mem, TRUE)
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
