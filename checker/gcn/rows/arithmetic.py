"""Rows: vector integer sums, products, minima and dot products (VOP2, VOP3).

Source: CDNA3 ISA chapter 12 (VOP instructions), RDNA3 ISA chapter 16.
"""

from __future__ import annotations

from checker.core import Const, Source
from checker.gcn.context import Context
from checker.gcn.emitter import FALSE
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.integer import keeps_high
from checker.gcn.rows.table import row
from checker.syntax import Operand, Range

# --- sums


@row("v_add_u32 v_add_nc_u32 v_add_nc_i32 v_add_i32 v_sub_u32 v_sub_nc_u32 v_sub_nc_i32 v_sub_i32 "
     "v_subrev_u32 v_subrev_nc_u32")
def v_add(c: Context) -> None:
    """D = S0 + S1, S0 - S1 or S1 - S0."""
    if len(c.operands) == 4:
        raise Unmodelled("carry form under a plain name")
    a, b = c.src(1, "u32"), c.src(2, "u32")
    if "subrev" in c.base:
        a, b = b, a
    subtract = "sub" in c.base
    if c.flag("clamp"):
        type = "s32" if c.base.endswith("i32") else "u32"
        c.put(c.e.pure("isub_sat" if subtract else "iadd_sat", 32, (a, b), type))
        return
    c.put(c.e.sub(a, b) if subtract else c.e.add(a, b))


@row("v_add_u16 v_add_nc_u16 v_add_nc_i16 v_add_i16 v_sub_u16 v_sub_nc_u16 v_sub_nc_i16 v_sub_i16 "
     "v_subrev_u16 v_mul_lo_u16 v_max_u16 v_max_i16 v_min_u16 v_min_i16")
def v_int16(c: Context) -> None:
    """16-bit integer operations."""
    a, b = c.src(1, "u16"), c.src(2, "u16")
    name = c.base.split("_")[1]
    if c.flag("clamp"):
        raise Unmodelled("16-bit clamp")
    if name in ("max", "min"):
        value = c.e.pure(f"i{name}_{'s' if c.base.endswith('i16') else 'u'}", 16, (a, b), 16)
    else:
        core = {"add": "iadd", "sub": "isub", "subrev": "isub", "mul": "imul"}[name]
        value = c.e.int2(core, *((b, a) if name == "subrev" else (a, b)), 16)
    c.put(value, keep_high=keeps_high(c))


@row("v_mad_u16 v_mad_i16")
def v_mad16(c: Context) -> None:
    """D = S0 * S1 + S2, 16 bits."""
    a, b, d = (c.src(i, "u16") for i in (1, 2, 3))
    c.put(c.e.int2("iadd", c.e.int2("imul", a, b, 16), d, 16), keep_high=c.target.major >= 9)


@row("v_add_co_u32 v_sub_co_u32 v_subrev_co_u32", dsts=2)
def v_add_co(c: Context) -> None:
    """D, carry = S0 + S1 (S0 - S1, S1 - S0)."""
    e = c.e
    a, b = c.src(2, "u32"), c.src(3, "u32")
    if "subrev" in c.base:
        a, b = b, a
    subtract = "sub" in c.base
    total = e.sub(a, b) if subtract else e.add(a, b)
    carry = e.pure("borrow" if subtract else "carry", 1, (a, b, FALSE), 32)
    e.carries[carry] = ("sub" if subtract else "add", a, b, total)
    c.put(total)
    c.put_mask(1, e.pand(carry, c.m.exec))


@row("v_addc_co_u32 v_add_co_ci_u32 v_subb_co_u32 v_sub_co_ci_u32 v_subbrev_co_u32 "
     "v_subrev_co_ci_u32", dsts=2)
def v_addc_co(c: Context) -> None:
    """D, carry = S0 + S1 + carry in (or the two differences)."""
    e = c.e
    a, b = c.src(2, "u32"), c.src(3, "u32")
    if "rev" in c.base:
        a, b = b, a
    subtract = "sub" in c.base
    cin = e.within(c.mask_source(4), c.m.exec)
    origin = e.carries.get(cin)
    if origin is not None and origin[0] == ("sub" if subtract else "add"):
        wide = (e.sub(e.pack(origin[1], a), e.pack(origin[2], b), 64) if subtract
                else e.add(*e.addends((origin[1], origin[2]), (a, b)), 64))
        total = e.extract(wide, 32, 32)
        e.pairs.setdefault((origin[3], total), wide)
    elif subtract:
        total = e.sub(e.sub(a, b), e.zext(cin, 32))
    else:
        total = e.add(e.add(a, b), e.zext(cin, 32))
    carry = e.pure("borrow" if subtract else "carry", 1, (a, b, cin), 32)
    c.put(total)
    c.put_mask(1, e.pand(carry, c.m.exec))


@row("v_lshl_add_u64")
def v_lshl_add_u64(c: Context) -> None:
    """D = (S0 << S1) + S2, 64 bits."""
    e = c.e
    amount = e.and_(c.src(2, "u32"), Const(7, 32))
    c.put(e.add(e.int2("shl", c.src(1, "u64"), amount, 64), c.src(3, "u64"), 64))


@row("v_add_nc_u64 v_sub_nc_u64")
def v_add_u64(c: Context) -> None:
    """D = S0 +- S1, 64 bits."""
    name = "isub" if "sub" in c.base else "iadd"
    c.put(c.e.int2(name, c.src(1, "u64"), c.src(2, "u64"), 64))


# --- products


@row("v_mul_lo_u32 v_mul_lo_i32")
def v_mul_lo(c: Context) -> None:
    """D = low half of S0 * S1."""
    c.put(c.e.int2("imul", c.src(1, "u32"), c.src(2, "u32"), 32))


@row("v_mul_hi_u32 v_mul_hi_i32")
def v_mul_hi(c: Context) -> None:
    """D = high half of S0 * S1."""
    name = "imulhi_" + ("u" if c.base.endswith("u32") else "s")
    c.put(c.e.int2(name, c.src(1, "u32"), c.src(2, "u32"), 32))


def _low24(c: Context, i: int, signed: bool) -> Source:
    part = c.e.extract(c.src(i, "u32"), 0, 24)
    return c.e.sext(part, 32) if signed else c.e.zext(part, 32)


@row("v_mul_u32_u24 v_mul_i32_i24 v_mul_hi_u32_u24 v_mul_hi_i32_i24")
def v_mul24(c: Context) -> None:
    """D = product of the low 24 bits."""
    signed = c.base.endswith("i24")
    a, b = _low24(c, 1, signed), _low24(c, 2, signed)
    name = ("imulhi_s" if signed else "imulhi_u") if "_hi_" in c.base else "imul"
    c.put(c.e.int2(name, a, b, 32))


@row("v_mad_u32_u24 v_mad_i32_i24")
def v_mad24(c: Context) -> None:
    """D = product of the low 24 bits + S2."""
    if c.flag("clamp"):
        raise Unmodelled("integer clamp")
    signed = c.base.endswith("i24")
    product = c.e.int2("imul", _low24(c, 1, signed), _low24(c, 2, signed), 32)
    c.put(c.e.add(product, c.src(3, "u32")))


@row("v_mad_u32_u16 v_mad_i32_i16")
def v_mad_wide16(c: Context) -> None:
    """D = 16-bit S0 * 16-bit S1 + S2."""
    e = c.e
    extend = e.sext if c.base.endswith("i16") else e.zext
    product = e.int2("imul", extend(c.src(1, "u16"), 32), extend(c.src(2, "u16"), 32), 32)
    c.put(e.add(product, c.src(3, "u32")))


def _follows(addend: Operand, result: Operand) -> bool:
    """Whether gfx11 writes the low result over the high addend, which it reads later."""
    return isinstance(addend, Range) and isinstance(result, Range) and \
        (addend.file, addend.last) == (result.file, result.first)


@row("v_mad_u64_u32 v_mad_i64_i32 v_mad_co_u64_u32 v_mad_co_i64_i32", dsts=2)
def v_mad_u64(c: Context) -> None:
    """D, carry = S0 * S1 + S2, 64 bits."""
    e = c.e
    a, b, addend = c.src(2, "u32"), c.src(3, "u32"), c.src(4, "u64")
    signed = c.base.endswith("i32")
    product: Source = e.pure("imulwide_s" if signed else "imulwide_u", 64, (a, b), 32)
    if isinstance(a, Const) and isinstance(b, Const) and not signed:
        product = Const(a.bits * b.bits, 64)
    carry: Source = FALSE if addend == Const(0, 64) else \
        e.pure("carry", 1, (product, addend, FALSE), 64)
    total = e.add(product, addend, 64)
    if isinstance(product, int) and isinstance(addend, int):
        # the low half needs the low halves only: a high half that was never written is harmless
        low = e.add(e.int2("imul", a, b, 32), e.extract(addend, 0, 32))
        high = e.extract(total, 32, 32)
        e.pairs.setdefault((low, high), total)
        e.memo["extract", 32, (total,), (0, 32)] = low
    if c.target.major == 11 and _follows(c.operand(4), c.operand(0)):
        total = e.pack(e.extract(total, 0, 32), c.unknown())
    c.put(total)
    c.put_mask(1, e.pand(carry, c.m.exec))


# --- minima, maxima, sums of differences


@row("v_min_u32 v_min_i32 v_max_u32 v_max_i32")
def v_minmax(c: Context) -> None:
    """D = min or max."""
    name = f"i{c.base[2:5]}_{'s' if c.base.endswith('i32') else 'u'}"
    c.put(c.e.pure(name, 32, (c.src(1, "u32"), c.src(2, "u32")), 32))


@row("v_min3_u32 v_min3_i32 v_max3_u32 v_max3_i32 v_med3_u32 v_med3_i32")
def v_three_way(c: Context) -> None:
    """D = min, max or median of three."""
    e, sign = c.e, "s" if c.base.endswith("i32") else "u"
    x, y, z = (c.src(i, "u32") for i in (1, 2, 3))
    low, high = f"imin_{sign}", f"imax_{sign}"
    if "med3" in c.base:
        between = e.pure(low, 32, (e.pure(high, 32, (x, y), 32), z), 32)
        c.put(e.pure(high, 32, (e.pure(low, 32, (x, y), 32), between), 32))
    else:
        name = low if "min3" in c.base else high
        c.put(e.pure(name, 32, (e.pure(name, 32, (x, y), 32), z), 32))


@row("v_minmax_u32 v_minmax_i32 v_maxmin_u32 v_maxmin_i32")
def v_minmax_pair(c: Context) -> None:
    """D = max(min(S0, S1), S2) or min(max(S0, S1), S2)."""
    e, sign = c.e, "s" if c.base.endswith("i32") else "u"
    x, y, z = (c.src(i, "u32") for i in (1, 2, 3))
    first, second = c.base[2:5], c.base[5:8]
    inner = e.pure(f"i{first}_{sign}", 32, (x, y), 32)
    c.put(e.pure(f"i{second}_{sign}", 32, (inner, z), 32))


@row("v_sad_u32")
def v_sad(c: Context) -> None:
    """D = |S0 - S1| + S2."""
    c.put(c.e.pure("isad_u", 32, tuple(c.src(i, "u32") for i in (1, 2, 3)), 32))


# --- dot products of bytes

_DOT = {"v_dot4_i32_i8": ("s8", "s8"), "v_dot4_u32_u8": ("u8", "u8"),
        "v_dot4c_i32_i8": ("s8", "s8")}


@row("v_dot4_i32_i8 v_dot4_u32_u8 v_dot4c_i32_i8 v_dot4_i32_iu8")
def v_dot4(c: Context) -> None:
    """D = S0 . S1 (four bytes) + S2 (dot4c: + D)."""
    if c.flag("clamp"):
        raise Unmodelled("integer clamp")
    if c.base == "v_dot4_i32_iu8":
        neg = c.bits("neg_lo", 3)
        types = tuple("s8" if n else "u8" for n in neg[:2])
    else:
        types = _DOT[c.base]
    a, b = c.src(1, "u32"), c.src(2, "u32")
    addend = c.src(0, "u32") if "dot4c" in c.base else c.src(3, "u32")
    c.put(c.e.pure("dp4a", 32, (a, b, addend), (types[0], types[1], False)))
