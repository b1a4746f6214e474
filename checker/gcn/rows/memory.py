"""Rows: scalar loads, global, flat and scratch memory.

Source: CDNA3 ISA chapters 8 (scalar) and 9 (vector); RDNA3/RDNA4 ISA for the new names.
"""

from __future__ import annotations

from checker.core import Const, Mem, Source
from checker.gcn.context import Context
from checker.gcn.emitter import TRUE
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.rows.transfer import (
    LOADS,
    NAMES,
    STORES,
    address64,
    deliver,
    load,
    mem_of,
    scalar_offset,
    store,
    stored,
)
from checker.syntax import Name

ZERO = Const(0, 32)


# --- scalar loads


@row(" ".join(f"s_load_{n}" for n in ("dword", "dwordx2", "dwordx4", "dwordx8",
                                      "dwordx16", "b32", "b64", "b96", "b128", "b256", "b512",
                                      "u8", "i8", "u16", "i16")))
def s_load(c: Context) -> None:
    """D = memory at S0 + offset, one value per wave."""
    name = c.base[7:]
    count = int(name[6:] or 1) if name.startswith("dword") else max(1, int(name[1:]) // 32)
    offset, register = scalar_offset(c)
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
        part = Mem("global", width, 1, offset, width // 8, constant=True)
        value = load(c, address, part, TRUE)[0]
        extended = c.e.sext(value, 32) if name[0] == "i" else c.e.zext(value, 32)
        c.e.uniform.add(extended)
        c.put_at("s", d, extended)
        return
    whole = Mem("global", 32, count, offset, 4, constant=True)
    for k, value in enumerate(load(c, address, whole, TRUE)):
        c.e.uniform.add(value)
        c.put_at("s", d + k, value)


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


# --- global, flat, scratch


@row(" ".join(f"{p}_load_{n}" for p in ("global", "flat") for n in LOADS))
def vector_load(c: Context) -> None:
    """D = memory."""
    prefix, _, name = c.base.partition("_load_")
    shape = NAMES[name]
    address, offset = address64(c, 1, 2 if prefix == "global" else 9)
    c.counter = "vmem" if prefix == "global" else "flat"
    values = load(c, address, mem_of(c, "global" if prefix == "global" else "generic", shape,
                                    offset), c.m.exec)
    deliver(c, 0, shape, values)


@row(" ".join(f"{p}_store_{n}" for p in ("global", "flat") for n in STORES), dsts=0)
def vector_store(c: Context) -> None:
    """Memory = S."""
    prefix, _, name = c.base.partition("_store_")
    shape = NAMES[name]
    address, offset = address64(c, 0, 2 if prefix == "global" else 9)
    c.counter = "vmem_store" if prefix == "global" else "flat_store"
    store(c, address, stored(c, 1, shape),
           mem_of(c, "global" if prefix == "global" else "generic", shape, offset), c.m.exec)


def _scratch_address(c: Context, vaddr: int, saddr: int) -> tuple[Source, int]:
    address: Source = ZERO
    for i in (vaddr, saddr):
        op = c.operands[i] if i < len(c.operands) else Name("off")
        if isinstance(op, Name) and op.name in ("off", "null"):
            continue
        address = c.e.add(address, c.raw32(op))
    return address, c.number("offset")


@row(" ".join(f"scratch_load_{n}" for n in LOADS))
def scratch_load(c: Context) -> None:
    """D = this lane's private memory."""
    shape = NAMES[c.base[13:]]
    address, offset = _scratch_address(c, 1, 2)
    c.counter = "vmem"
    deliver(c, 0, shape, load(c, address, mem_of(c, "local", shape, offset), c.m.exec))


@row(" ".join(f"scratch_store_{n}" for n in STORES), dsts=0)
def scratch_store(c: Context) -> None:
    """This lane's private memory = S."""
    shape = NAMES[c.base[14:]]
    address, offset = _scratch_address(c, 0, 2)
    c.counter = "vmem_store"
    store(c, address, stored(c, 1, shape), mem_of(c, "local", shape, offset), c.m.exec)
