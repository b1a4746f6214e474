"""Rows: exchange between lanes. Lanes that are off read as 0 where the manual says so.

Source: CDNA3 ISA 6.8 (DPP), 11.3 (ds_swizzle, ds_bpermute), RDNA3 ISA 16 (permlane).
"""

from __future__ import annotations

import re

from checker.core import Const, Source
from checker.gcn.context import Context
from checker.gcn.emitter import fits
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.table import row

ZERO = Const(0, 32)


@row("v_readfirstlane_b32")
def v_readfirstlane(c: Context) -> None:
    """D (scalar) = S0 of the lowest active lane (lane 0 if there is none)."""
    e = c.e
    if not c.is_register(1):
        c.put(c.src(1, "u32"))
        return
    file, n, _ = c.index(1)
    if file == "s":
        c.put(c.src(1, "u32"))
        return
    value = c.fetch(file, n, across=True)
    if c.m.full:
        result = value if e.is_uniform(value) else e.pure("first", 32, (value,), 32)
    else:
        mask = c.m.read_mask(126)
        w = c.wave
        lowest = e.pure("clz", 32, (e.pure("brev", w, (mask,), w),), w)
        lane = e.select(e.any(c.m.exec, w), lowest, ZERO, 32)
        result = e.gather(value, lane)
    e.uniform.add(result)
    c.put(result)


@row("v_readlane_b32")
def v_readlane(c: Context) -> None:
    """D (scalar) = S0 of lane S1, whatever exec says."""
    file, n, _ = c.index(1)
    lane = c.e.and_(c.src(2, "u32"), Const(c.wave - 1, 32))
    if isinstance(lane, Const) and file == "v":
        kept = c.m.read_lane(n, lane.bits)
        if kept is not None:
            c.reads.add((file, n))
            symbol = c.m.symbols.get(("lane", n, lane.bits))
            c.put(kept)
            if symbol is not None:
                c.m.symbols["s", c.index(0)[1]] = symbol
            return
    value = c.fetch(file, n, across=True)
    result = value if c.e.is_uniform(value) else c.e.gather(value, lane)
    c.e.uniform.add(result)
    c.put(result)


@row("v_writelane_b32")
def v_writelane(c: Context) -> None:
    """D of lane S1 = S0, whatever exec says."""
    file, n, _ = c.index(0)
    value = c.src(1, "u32")
    lane = c.e.and_(c.src(2, "u32"), Const(c.wave - 1, 32))
    chosen = c.e.icmp("eq", c.e.laneid(), lane, "u32")
    c.reads.add((file, n))
    c.writes.add((file, n))
    if isinstance(lane, Const) and file == "v":
        source = c.index(1) if c.is_register(1) else None
        symbol = c.m.symbols.get(source[:2]) if source is not None else None
        c.m.write_lane(n, lane.bits, value, chosen)
        c.m.symbols.pop(("lane", n, lane.bits), None)
        if symbol is not None:
            c.m.symbols["lane", n, lane.bits] = symbol
        return
    c.m.write(file, n, value, chosen)


def _from(c: Context, value: Source, lane: Source) -> Source:
    """Another lane's value; 0 if that lane is off."""
    moved = c.e.gather(value, lane)
    if c.m.full:
        return moved
    return c.e.select(c.e.gather(c.m.exec, lane), moved, Const(0, c.e.width(value)),
                      c.e.width(value))


@row("ds_bpermute_b32")
def ds_bpermute(c: Context) -> None:
    """D = S1 of lane (S0 + offset) / 4."""
    e = c.e
    if c.wave > 32 and not c.target.wide_permute:
        raise Unmodelled("ds_bpermute in halves of a wave")
    at = e.add(c.src(1, "u32"), Const(c.number("offset"), 32))
    lane = e.and_(e.int2("shr_u", at, Const(2, 32), 32), Const(c.wave - 1, 32))
    file, n, _ = c.index(2)
    c.counter = "lds"
    c.put(_from(c, c.fetch(file, n, across=True), lane))


@row("ds_swizzle_b32")
def ds_swizzle(c: Context) -> None:
    """D = S0 of a lane given by a pattern in the offset."""
    e = c.e
    file, n, _ = c.index(1)
    value = c.fetch(file, n, across=True)
    pattern = _swizzle(c)
    lane = e.laneid()
    if pattern & 0x8000:
        if pattern & 0x7F00:
            raise Unmodelled("swizzle by rotation or FFT")
        inside = e.and_(lane, Const(3, 32))
        twice = e.int2("shl", inside, Const(1, 32), 32)
        chosen = e.and_(e.int2("shr_u", Const(pattern & 255, 32), twice, 32), Const(3, 32))
        source = e.or_(e.and_(lane, fits(-4, 32)), chosen)
    else:
        keep, force, flip = pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31
        inside = e.or_(e.and_(lane, Const(keep, 32)), Const(force, 32))
        source = e.or_(e.and_(lane, fits(-32, 32)), e.xor(inside, Const(flip, 32)))
        if force == 0 and keep == 31:
            source = e.xor(lane, Const(flip, 32))
    c.counter = "lds"
    c.put(_from(c, value, source))


def _swizzle(c: Context) -> int:
    """The 16-bit pattern of `offset:swizzle(...)`."""
    c.used.add("offset")
    text = c.mods.get("offset", "0")
    match = re.fullmatch(r"swizzle\((\w+),(.*)\)", text)
    if match is None:
        try:
            return int(text, 0)
        except ValueError:
            raise Unmodelled(f"modifier offset:{text}") from None
    mode, args = match[1], match[2].split(",")
    if mode == "BITMASK_PERM":
        return _bitmask(args[0].strip('"'))
    numbers = [int(a, 0) for a in args]
    if mode == "SWAP":
        return 31 | numbers[0] << 10
    if mode == "REVERSE":
        return 31 | (numbers[0] - 1) << 10
    if mode == "BROADCAST":
        return (32 - numbers[0]) | numbers[1] << 5
    if mode == "QUAD_PERM":
        return 0x8000 | sum(n << (2 * i) for i, n in enumerate(numbers))
    raise Unmodelled(f"swizzle mode {mode}")


def _bitmask(text: str) -> int:
    keep = force = flip = 0
    for i, letter in enumerate(reversed(text)):
        keep |= int(letter in "pi") << i
        force |= int(letter == "1") << i
        flip |= int(letter == "i") << i
    return keep | force << 5 | flip << 10


@row("v_permlane16_b32 v_permlanex16_b32")
def v_permlane16(c: Context) -> None:
    """D = S0 of a lane of this row (the other row of the pair); {S2, S1} has 4 bits a lane."""
    e = c.e
    file, n, _ = c.index(1)
    value = c.fetch(file, n, across=True)
    table = e.pack(c.src(2, "u32"), c.src(3, "u32"))
    lane = e.laneid()
    amount = e.int2("shl", e.and_(lane, Const(15, 32)), Const(2, 32), 32)
    chosen = e.and_(e.extract(e.int2("shr_u", table, amount, 64), 0, 32), Const(15, 32))
    base = e.and_(lane, fits(-16, 32))
    if "permlanex16" in c.base:
        base = e.xor(base, Const(16, 32))
    source = e.or_(base, chosen)
    fetch_inactive, bound = c.bits("op_sel", 2)
    moved = e.gather(value, source)
    under = c.under
    if not c.m.full and not fetch_inactive:
        on = e.gather(c.m.exec, source)
        if bound:
            moved = e.select(on, moved, ZERO, 32)
        else:
            under = e.pand(under, on)
    dst_file, dst, _ = c.index(0)
    c.writes.add((dst_file, dst))
    c.m.write(dst_file, dst, moved, under)


@row("v_permlane64_b32")
def v_permlane64(c: Context) -> None:
    """D = S0 of the lane 32 away."""
    if c.wave == 32:
        c.put(c.src(1, "u32"))
        return
    file, n, _ = c.index(1)
    value = c.fetch(file, n, across=True)
    if not c.m.full:
        raise Unmodelled("permlane under a partial exec mask")
    c.put(c.e.gather(value, c.e.xor(c.e.laneid(), Const(32, 32))))


@row("v_permlane32_swap_b32 v_permlane16_swap_b32", dsts=2)
def v_permlane_swap(c: Context) -> None:
    """Swap the upper (odd) rows of D0 with the lower (even) rows of D1."""
    e, step = c.e, 32 if "32_swap" in c.base else 16
    if not c.m.full:
        raise Unmodelled("permlane under a partial exec mask")
    (fa, a, _), (fb, b, _) = c.index(0), c.index(1)
    x, y = c.fetch(fa, a, across=True), c.fetch(fb, b, across=True)
    other = e.xor(e.laneid(), Const(step, 32))
    low = e.icmp("eq", e.and_(e.laneid(), Const(step, 32)), ZERO, "u32")
    first = e.select(low, x, e.gather(y, other), 32)
    second = e.select(low, e.gather(x, other), y, 32)
    if x == y:
        e.swapped[frozenset((first, second))] = (x, e.gather(x, other))
    c.put(first, 0)
    c.put(second, 1)


@row("v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32")
def v_mbcnt(c: Context) -> None:
    """D = number of bits of S0 for lanes below this one (low or high 32) + S1."""
    e, high = c.e, "_hi_" in c.base
    mask, addend = c.src(1, "u32"), c.src(2, "u32")
    lane = e.laneid()
    if high and c.wave == 32:
        c.put(addend)
        return
    if mask == fits(-1, 32):
        low = lane if c.wave == 32 else e.pure("imin_u", 32, (lane, Const(32, 32)), 32)
        if not high:
            c.put(e.add(low, addend))
        elif addend == low:
            c.put(lane)
        else:
            c.put(e.add(e.sub(lane, low), addend))
        return
    below = e.sub(e.int2("shl", Const(1, 64), lane, 64), Const(1, 64), 64)
    part = e.and_(mask, e.extract(below, 32 if high else 0, 32))
    c.put(e.add(e.pure("popc", 32, (part,), 32), addend))


