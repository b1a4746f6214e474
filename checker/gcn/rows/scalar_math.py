"""Rows: scalar arithmetic, shifts, fields, compares and floats (SOP1, SOP2, SOPC, SOPK).

Source: CDNA3 ISA chapter 6, RDNA3/4 ISA chapter 6.
"""

from __future__ import annotations

from checker.core import Const, Conv, Source
from checker.gcn.context import Context
from checker.gcn.emitter import FALSE, fits
from checker.gcn.rows.scalar import (
    literal16,
    restore_symbols,
    set_nonzero,
    source,
    symbols_of,
    width_of,
)
from checker.gcn.rows.table import row
from checker.syntax import Immediate

ZERO32 = Const(0, 32)


# --- arithmetic


@row("s_add_u32 s_add_co_u32")
def s_add_u32(c: Context) -> None:
    """D = S0 + S1; SCC = carry."""
    e = c.e
    a, b = c.src(1, "u32"), c.src(2, "u32")
    total = e.add(a, b)
    symbol = _moved(c, total)
    c.put(total)
    restore_symbols(c, symbol)
    c.m.write_scc(_carry(c, a, b, FALSE))
    c.m.carry = ("add", a, b, total, c.m.scc)


def _carry(c: Context, a: Source, b: Source, cin: Source) -> Source:
    if isinstance(a, Const) and isinstance(b, Const) and isinstance(cin, Const):
        return Const((a.bits + b.bits + cin.bits) >> 32, 1)
    if cin == FALSE and any(isinstance(x, Const) and x.bits == 0 for x in (a, b)):
        return FALSE
    return c.e.pure("carry", 1, (a, b, cin), 32)


def _moved(c: Context, total: Source) -> list[tuple[int, object]]:
    """Offsets to the kernel-argument pointer stay known."""
    for i, other in ((1, 2), (2, 1)):
        op = c.operand(other)
        found = symbols_of(c, i, 1)
        if found and isinstance(op, Immediate) and op.kind == "int":
            symbol = found[0][1]
            assert isinstance(symbol, tuple)
            if symbol[0] == "low":
                return [(0, ("low", symbol[1], symbol[2] + op.value))]
            if symbol[0] == "high" and op.value == 0:
                return [(0, symbol)]
    return []


@row("s_addc_u32 s_add_co_ci_u32")
def s_addc_u32(c: Context) -> None:
    """D = S0 + S1 + SCC; SCC = carry."""
    e = c.e
    a, b, cin = c.src(1, "u32"), c.src(2, "u32"), c.m.read_scc()
    origin = c.m.carry
    if origin is not None and origin[0] == "add" and origin[4] == c.m.scc:
        wide = e.add(*e.addends((origin[1], origin[2]), (a, b)), 64)
        total = e.extract(wide, 32, 32)
        e.pairs.setdefault((origin[3], total), wide)
    else:
        total = e.add(e.add(a, b), e.zext(cin, 32))
    symbol = _moved(c, total)
    c.put(total)
    restore_symbols(c, symbol)
    c.m.write_scc(_carry(c, a, b, cin))
    c.m.carry = None


@row("s_sub_u32 s_sub_co_u32")
def s_sub_u32(c: Context) -> None:
    """D = S0 - S1; SCC = borrow."""
    e = c.e
    a, b = c.src(1, "u32"), c.src(2, "u32")
    total = e.sub(a, b)
    c.put(total)
    c.m.write_scc(e.pure("borrow", 1, (a, b, FALSE), 32))
    c.m.carry = ("sub", a, b, total, c.m.scc)


@row("s_subb_u32 s_sub_co_ci_u32")
def s_subb_u32(c: Context) -> None:
    """D = S0 - S1 - SCC; SCC = borrow."""
    e = c.e
    a, b, cin = c.src(1, "u32"), c.src(2, "u32"), c.m.read_scc()
    origin = c.m.carry
    if origin is not None and origin[0] == "sub" and origin[4] == c.m.scc:
        wide = e.sub(e.pack(origin[1], a), e.pack(origin[2], b), 64)
        total = e.extract(wide, 32, 32)
        e.pairs.setdefault((origin[3], total), wide)
    else:
        total = e.sub(e.sub(a, b), e.zext(cin, 32))
    c.put(total)
    c.m.write_scc(e.pure("borrow", 1, (a, b, cin), 32))
    c.m.carry = None


def _overflow(c: Context, a: Source, b: Source, total: Source, subtract: bool) -> Source:
    """Signed overflow of a + b or a - b."""
    e = c.e
    first = e.xor(a, total)
    second = e.xor(a, b) if subtract else e.xor(b, total)
    return e.icmp("lt", e.and_(first, second), ZERO32, "s32")


@row("s_add_i32 s_add_co_i32 s_sub_i32 s_sub_co_i32")
def s_add_i32(c: Context) -> None:
    """D = S0 +- S1; SCC = signed overflow."""
    a, b = c.src(1, "u32"), c.src(2, "u32")
    subtract = c.base.startswith("s_sub")
    total = c.e.sub(a, b) if subtract else c.e.add(a, b)
    c.put(total)
    c.m.write_scc(_overflow(c, a, b, total, subtract))


@row("s_addk_i32 s_addk_co_i32")
def s_addk(c: Context) -> None:
    """D = D + sign-extended literal; SCC = signed overflow."""
    a, b = c.src(0, "u32"), literal16(c, 1)
    total = c.e.add(a, b)
    c.put(total)
    c.m.write_scc(_overflow(c, a, b, total, False))


@row("s_mulk_i32")
def s_mulk(c: Context) -> None:
    """D = D * sign-extended literal."""
    c.put(c.e.int2("imul", c.src(0, "u32"), literal16(c, 1), 32))


@row("s_mul_i32 s_mul_u64")
def s_mul(c: Context) -> None:
    """D = S0 * S1, low bits."""
    w = width_of(c)
    c.put(c.e.int2("imul", source(c, 1, w), source(c, 2, w), w))


@row("s_mul_hi_u32 s_mul_hi_i32")
def s_mul_hi(c: Context) -> None:
    """D = high half of S0 * S1."""
    a, b = c.src(1, "u32"), c.src(2, "u32")
    value = c.e.int2("imulhi_" + ("u" if "u32" in c.base else "s"), a, b, 32)
    c.put(value)


@row("s_add_nc_u64 s_sub_nc_u64 s_add_u64 s_sub_u64")
def s_add_u64(c: Context) -> None:
    """D = S0 +- S1, 64 bits; SCC untouched."""
    name = "isub" if "sub" in c.base else "iadd"
    c.put(c.e.int2(name, c.src(1, "u64"), c.src(2, "u64"), 64))


@row("s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32")
def s_lshl_add(c: Context) -> None:
    """D = (S0 << n) + S1; SCC = carry out of the 64-bit sum."""
    n, e = int(c.base[6]), c.e
    a, b = c.src(1, "u32"), c.src(2, "u32")
    c.put(e.add(e.shift("shl", a, Const(n, 32), 32), b))
    wide = e.add(e.int2("shl", e.zext(a, 64), Const(n, 32), 64), e.zext(b, 64), 64)
    c.m.write_scc(e.icmp("ne", e.extract(wide, 32, 32), ZERO32, "u32"))


@row("s_abs_i32")
def s_abs(c: Context) -> None:
    """D = |S0|; SCC = D != 0."""
    value = c.e.pure("iabs", 32, (c.src(1, "u32"),), 32)
    c.put(value)
    set_nonzero(c, value, 32)


@row("s_absdiff_i32")
def s_absdiff(c: Context) -> None:
    """D = |S0 - S1|; SCC = D != 0."""
    value = c.e.pure("iabs", 32, (c.e.sub(c.src(1, "u32"), c.src(2, "u32")),), 32)
    c.put(value)
    set_nonzero(c, value, 32)


@row("s_min_i32 s_min_u32 s_max_i32 s_max_u32")
def s_minmax(c: Context) -> None:
    """D = min or max; SCC = the first operand was chosen."""
    a, b = c.src(1, "u32"), c.src(2, "u32")
    sign = "s" if c.base.endswith("i32") else "u"
    low = "min" in c.base
    cond = c.e.icmp("lt" if low else "ge", a, b, f"{sign}32")
    c.put(c.e.pure(f"i{'min' if low else 'max'}_{sign}", 32, (a, b), 32))
    c.m.write_scc(cond)


# --- shifts and fields


@row("s_lshl_b32 s_lshl_b64 s_lshr_b32 s_lshr_b64 s_ashr_i32 s_ashr_i64")
def s_shift(c: Context) -> None:
    """D = S0 shifted by S1; SCC = D != 0."""
    w = width_of(c)
    name = {"lshl": "shl", "lshr": "shr_u", "ashr": "shr_s"}[c.base[2:6]]
    value = c.e.shift(name, source(c, 1, w), c.src(2, "u32"), w)
    c.put(value)
    set_nonzero(c, value, w)


@row("s_bfe_u32 s_bfe_i32 s_bfe_u64 s_bfe_i64")
def s_bfe(c: Context) -> None:
    """D = field of S0: offset S1[4:0] ([5:0]), width S1[22:16]; SCC = D != 0."""
    w, e = width_of(c), c.e
    a, control = source(c, 1, w), c.src(2, "u32")
    offset = e.and_(control, Const(w - 1, 32))
    size = e.and_(e.int2("shr_u", control, Const(16, 32), 32), Const(127, 32))
    signed = "i" in c.base.rsplit("_", 1)[-1]
    if isinstance(offset, Const) and isinstance(size, Const):
        value = _field(c, a, offset.bits, size.bits, w, signed)
    else:
        value = e.pure("bfe_s" if signed else "bfe_u", w, (a, offset, size), w)
    c.put(value)
    set_nonzero(c, value, w)


def _field(c: Context, a: Source, offset: int, size: int, w: int, signed: bool) -> Source:
    if size == 0:
        return Const(0, w)
    part = c.e.extract(a, offset, min(size, w - offset))
    if signed and offset + size <= w:
        return c.e.sext(part, w)
    if signed:
        return c.e.shift("shr_s", a, Const(offset, 32), w)
    return c.e.zext(part, w)


@row("s_bfm_b32 s_bfm_b64")
def s_bfm(c: Context) -> None:
    """D = ((1 << S0) - 1) << S1."""
    w, e = width_of(c), c.e
    size, at = c.src(1, "u32"), c.src(2, "u32")
    ones = e.sub(e.shift("shl", Const(1, w), size, w), Const(1, w), w)
    c.put(e.shift("shl", ones, at, w))


@row("s_bitcmp0_b32 s_bitcmp1_b32 s_bitcmp0_b64 s_bitcmp1_b64", dsts=0)
def s_bitcmp(c: Context) -> None:
    """SCC = bit S1 of S0 is 0 (1)."""
    w, e = width_of(c), c.e
    bit = e.and_(e.shift("shr_u", source(c, 0, w), c.src(1, "u32"), w), Const(1, w), w)
    c.m.write_scc(e.icmp("ne" if "cmp1" in c.base else "eq", bit, Const(0, w), f"u{w}"))


@row("s_bitset0_b32 s_bitset1_b32 s_bitset0_b64 s_bitset1_b64")
def s_bitset(c: Context) -> None:
    """Clear or set bit S0 of D."""
    w, e = width_of(c), c.e
    bit = e.shift("shl", Const(1, w), c.src(1, "u32"), w)
    old = source(c, 0, w)
    c.put(e.or_(old, bit, w) if "set1" in c.base else e.and_(old, e.not_(bit, w), w))


@row("s_brev_b32 s_brev_b64")
def s_brev(c: Context) -> None:
    """D = bits of S0 reversed."""
    w = width_of(c)
    value = source(c, 1, w)
    if isinstance(value, Const):
        c.put(Const(int(f"{value.bits:0{w}b}"[::-1], 2), w))
    else:
        c.put(c.e.pure("brev", w, (value,), w))


@row("s_bcnt1_i32_b32 s_bcnt1_i32_b64 s_bcnt0_i32_b32 s_bcnt0_i32_b64")
def s_bcnt(c: Context) -> None:
    """D = number of one (zero) bits; SCC = D != 0."""
    w = width_of(c)
    value = c.e.pure("popc", 32, (source(c, 1, w),), w)
    if "bcnt0" in c.base:
        value = c.e.sub(Const(w, 32), value)
    c.put(value)
    set_nonzero(c, value, 32)


@row("s_ff1_i32_b32 s_ff1_i32_b64 s_ctz_i32_b32 s_ctz_i32_b64 s_flbit_i32_b32 s_flbit_i32_b64 "
     "s_clz_i32_u32 s_clz_i32_u64")
def s_find(c: Context) -> None:
    """D = position of the first one bit from below (above); -1 if there is none."""
    w, e = (64 if c.base.endswith("64") else 32), c.e
    value = source(c, 1, w)
    turned = e.pure("brev", w, (value,), w) if c.base.startswith(("s_ff1", "s_ctz")) else value
    found = e.pure("clz", 32, (turned,), w)
    none = e.icmp("eq", value, Const(0, w), f"u{w}")
    c.put(e.select(none, fits(-1, 32), found, 32))


@row("s_sext_i32_i8 s_sext_i32_i16")
def s_sext(c: Context) -> None:
    """D = sign-extended low part."""
    c.put(c.e.sext(c.e.extract(c.src(1, "u32"), 0, 8 if c.base.endswith("i8") else 16), 32))


@row("s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hh_b32_b16 s_pack_hl_b32_b16")
def s_pack(c: Context) -> None:
    """D = {half of S1, half of S0}."""
    a, b = c.src(1, "u32"), c.src(2, "u32")
    kinds = c.base[7:9]
    c.put(c.e.pack(c.e.extract(a, 16 if kinds[0] == "h" else 0, 16),
                   c.e.extract(b, 16 if kinds[1] == "h" else 0, 16)))


# --- compares

_CONDITIONS = {"eq": "eq", "lg": "ne", "ne": "ne", "gt": "gt", "ge": "ge", "lt": "lt", "le": "le"}


@row(" ".join(f"s_cmp_{n}_{t}" for n in ("eq", "lg", "gt", "ge", "lt", "le")
              for t in ("i32", "u32")) + " s_cmp_eq_u64 s_cmp_lg_u64", dsts=0)
def s_cmp(c: Context) -> None:
    """SCC = S0 cond S1."""
    _, _, cond, type = c.base.split("_")
    w = int(type[1:])
    sign = "s" if type[0] == "i" else "u"
    c.m.write_scc(c.e.icmp(_CONDITIONS[cond], source(c, 0, w), source(c, 1, w), f"{sign}{w}"))


@row(" ".join(f"s_cmpk_{n}_{t}" for n in ("eq", "lg", "gt", "ge", "lt", "le")
              for t in ("i32", "u32")), dsts=0)
def s_cmpk(c: Context) -> None:
    """SCC = S0 cond literal (sign-extended for i32, zero-extended for u32)."""
    _, _, cond, type = c.base.split("_")
    signed = type[0] == "i"
    c.m.write_scc(c.e.icmp(_CONDITIONS[cond], c.src(0, "u32"), literal16(c, 1, signed),
                           f"{'s' if signed else 'u'}32"))


@row(" ".join(f"s_cmp_{n}_{t}" for n in ("lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg",
                                         "ngt", "nle", "neq", "nlt") for t in ("f32", "f16")),
     dsts=0)
def s_cmp_float(c: Context) -> None:
    """SCC = S0 cond S1, floats."""
    from checker.gcn.rows.compare import float_compare
    _, _, cond, type = c.base.split("_")
    c.m.write_scc(float_compare(c, cond, type, 0))


# --- scalar floats (gfx11.5 and later)


@row("s_add_f32 s_sub_f32 s_mul_f32 s_min_num_f32 s_max_num_f32 s_min_f32 s_max_f32")
def s_float(c: Context) -> None:
    """D = S0 op S1, as the vector instruction of that name."""
    from checker.gcn.rows.float import binary
    binary(c, c.base.split("_")[1], "f32")


@row("s_fmac_f32 s_fmamk_f32 s_fmaak_f32")
def s_fma(c: Context) -> None:
    """As the vector instruction of that name."""
    from checker.gcn.rows.float import fused
    fused(c, c.base.split("_")[1])


@row("s_cvt_f32_i32 s_cvt_f32_u32 s_cvt_i32_f32 s_cvt_u32_f32 s_cvt_f16_f32 s_cvt_f32_f16 "
     "s_cvt_hi_f32_f16")
def s_cvt(c: Context) -> None:
    """As the vector instruction of that name."""
    from checker.gcn.rows.convert import convert
    if c.base == "s_cvt_hi_f32_f16":
        high = c.e.extract(c.src(1, "u32"), 16, 16)
        c.put(c.e.pure("fcvt", 32, (high,), Conv("f16", "f32", "", c.mode("f16").denorm)))
        return
    convert(c, c.base.split("_")[3], c.base.split("_")[2])


@row("s_trunc_f32 s_floor_f32 s_ceil_f32 s_rndne_f32")
def s_integral(c: Context) -> None:
    """Round to an integral float."""
    from checker.gcn.rows.float import integral
    integral(c, c.base.split("_")[1], "f32")


# --- SOPK and SOP1 leftovers that read or move program state


@row("s_getpc_b64")
def s_getpc(c: Context) -> None:
    """D = address of the next instruction: only symbols relative to it have a meaning."""
    n = c.index(0)[1]
    value = c.e.value("opaque", 64, (), c.inst.text)
    c.put(value)
    c.m.symbols["s", n] = ("low", "pc", 0)
    c.m.symbols["s", n + 1] = ("high", "pc", 0)
