"""Rows: vector integer and bit operations (VOP1, VOP2, VOP3), moves and selects.

Source: CDNA3 ISA chapter 12 (VOP instructions), RDNA3 ISA chapter 16.
"""

from __future__ import annotations

from checker.core import Approx, Const, FloatMode, Source
from checker.gcn import idioms
from checker.gcn.context import Context
from checker.gcn.emitter import FALSE, Emitter, fits
from checker.gcn.machine import VCC, Unmodelled
from checker.gcn.rows.table import row
from checker.syntax import Name

ZERO = Const(0, 32)


def _kind(c: Context) -> tuple[str, int]:
    """Source kind and width from the last word of the opcode."""
    last = c.base.rsplit("_", 1)[-1]
    w = int(last[1:])
    return f"u{w}", w


# --- moves, selects


@row("v_mov_b32 v_mov_b64 v_mov_b16 v_accvgpr_read_b32 v_accvgpr_write_b32 v_accvgpr_mov_b32")
def v_mov(c: Context) -> None:
    """D = S0."""
    kind, w = _kind(c)
    if w == 32 and c.suffix in ("", "e64") and "accvgpr" not in c.base:
        op = c.operand(1)
        if isinstance(op, Name) and (op.neg or op.absolute):
            kind = "f32"
    value = c.src(1, kind)
    c.put(value)


@row("v_swap_b32", dsts=2)
def v_swap(c: Context) -> None:
    """D0, D1 = D1, D0."""
    a, b = c.src(0, "u32"), c.src(1, "u32")
    c.put(b, 0)
    c.put(a, 1)


@row("v_cndmask_b32 v_cndmask_b16")
def v_cndmask(c: Context) -> None:
    """D = mask ? S1 : S0."""
    kind = "f32" if c.base.endswith("32") else "f16"
    a, b = c.src(1, kind), c.src(2, kind)
    mask = c.mask_source(3) if len(c.operands) > 3 else c.m.mask(VCC)
    if len(c.operands) <= 3:
        c.reads |= {("s", VCC + i) for i in range(c.wave // 32)}
    cond = c.e.within(mask, c.m.exec)
    w = c.e.width(a)
    found = idioms.division_select(c.e, cond, b, a) or idioms.bf16_select(c.e, cond, b, a)
    c.put(found or c.e.select(cond, b, a, w))


# --- logic

_LOGIC = {"and": "iand", "or": "ior", "xor": "ixor"}


@row("v_and_b32 v_or_b32 v_xor_b32 v_and_b16 v_or_b16 v_xor_b16")
def v_logic(c: Context) -> None:
    """D = S0 op S1."""
    kind, w = _kind(c)
    a, b = c.src(1, kind), c.src(2, kind)
    if c.base == "v_xor_b32":
        c.put(c.e.xor(a, b))
        return
    if c.base == "v_and_b32":
        c.put(c.e.and_(a, b))
        return
    c.put(c.e.int2(_LOGIC[c.base.split("_")[1]], a, b, w))


@row("v_xnor_b32")
def v_xnor(c: Context) -> None:
    """D = ~(S0 ^ S1)."""
    c.put(c.e.not_(c.e.xor(c.src(1, "u32"), c.src(2, "u32"))))


@row("v_not_b32 v_not_b16")
def v_not(c: Context) -> None:
    """D = ~S0."""
    kind, w = _kind(c)
    c.put(c.e.not_(c.src(1, kind), w))


@row("v_and_or_b32 v_or3_b32 v_xor3_b32 v_xad_u32 v_add3_u32 v_lshl_add_u32 v_add_lshl_u32 "
     "v_lshl_or_b32")
def v_three(c: Context) -> None:
    """Two integer operations in one instruction."""
    e = c.e
    x, y, z = (c.src(i, "u32") for i in (1, 2, 3))
    results = {
        "v_and_or_b32": lambda: e.or_(e.and_(x, y), z), "v_or3_b32": lambda: e.or_(e.or_(x, y), z),
        "v_xor3_b32": lambda: e.xor(e.xor(x, y), z), "v_xad_u32": lambda: e.add(e.xor(x, y), z),
        "v_add3_u32": lambda: e.add(e.add(x, y), z),
        "v_lshl_add_u32": lambda: e.add(e.shift("shl", x, y, 32), z),
        "v_add_lshl_u32": lambda: e.shift("shl", e.add(x, y), z, 32),
        "v_lshl_or_b32": lambda: e.or_(e.shift("shl", x, y, 32), z),
    }
    c.put(results[c.base]())


@row("v_bitop3_b32 v_bitop3_b16")
def v_bitop3(c: Context) -> None:
    """D = bitwise function of three operands; bit 4a+2b+c of the table is the result."""
    kind, w = _kind(c)
    table = c.number("bitop3")
    x, y, z = (c.src(i, kind) for i in (1, 2, 3))
    if w == 16:
        x, y, z = (c.e.zext(v, 32) for v in (x, y, z))
    value = c.e.pure("lop3", 32, (x, y, z), table)
    c.put(c.e.extract(value, 0, 16) if w == 16 else value)


@row("v_bfi_b32")
def v_bfi(c: Context) -> None:
    """D = (S0 & S1) | (~S0 & S2)."""
    e = c.e
    mask = c.src(1, "u32")
    x, y = c.src(2, "f32"), c.src(3, "f32")
    if isinstance(mask, Const) and mask.bits == 0x7FFFFFFF:
        c.put(e.pure("fcopysign", 32, (y, x), FloatMode("f32")))
    elif isinstance(mask, Const) and mask.bits in (0xFFFF, 0xFF, 0xFFFFFF):
        n = mask.bits.bit_length()
        c.put(e.pack(e.extract(x, 0, n), e.extract(y, n, 32 - n)))
    elif isinstance(mask, Const) and mask.bits == 0xFFFF0000:
        c.put(e.pack(e.extract(y, 0, 16), e.extract(x, 16, 16)))
    else:
        c.put(e.or_(e.and_(mask, x), e.and_(e.not_(mask), y)))


@row("v_bfe_u32 v_bfe_i32")
def v_bfe(c: Context) -> None:
    """D = field of S0 at S1[4:0], width S2[4:0]."""
    e = c.e
    value, at, size = c.src(1, "u32"), c.src(2, "u32"), c.src(3, "u32")
    signed = c.base.endswith("i32")
    at, size = e.and_(at, Const(31, 32)), e.and_(size, Const(31, 32))
    if isinstance(at, Const) and isinstance(size, Const) and size.bits:
        n = min(size.bits, 32 - at.bits)
        part = e.extract(value, at.bits, n)
        c.put(e.sext(part, 32) if signed else e.zext(part, 32))
    elif isinstance(size, Const):
        c.put(ZERO)
    else:
        c.put(e.pure("bfe_s" if signed else "bfe_u", 32, (value, at, size), 32))


@row("v_bfm_b32")
def v_bfm(c: Context) -> None:
    """D = ((1 << S0) - 1) << S1."""
    e = c.e
    ones = e.sub(e.shift("shl", Const(1, 32), c.src(1, "u32"), 32), Const(1, 32))
    c.put(e.shift("shl", ones, c.src(2, "u32"), 32))


@row("v_bfrev_b32")
def v_bfrev(c: Context) -> None:
    """D = bits of S0 reversed."""
    value = c.src(1, "u32")
    if isinstance(value, Const):
        c.put(Const(int(f"{value.bits:032b}"[::-1], 2), 32))
    else:
        c.put(c.e.pure("brev", 32, (value,), 32))


@row("v_bcnt_u32_b32")
def v_bcnt(c: Context) -> None:
    """D = popcount(S0) + S1."""
    c.put(c.e.add(c.e.pure("popc", 32, (c.src(1, "u32"),), 32), c.src(2, "u32")))


@row("v_ffbh_u32 v_ffbl_b32 v_clz_i32_u32 v_ctz_i32_b32")
def v_find(c: Context) -> None:
    """D = position of the first one bit from above (below); -1 if there is none."""
    e, value = c.e, c.src(1, "u32")
    turned = e.pure("brev", 32, (value,), 32) if c.base[2:5] in ("ffb", "ctz") and \
        c.base not in ("v_ffbh_u32",) else value
    none = e.icmp("eq", value, ZERO, "u32")
    c.put(e.select(none, fits(-1, 32), e.pure("clz", 32, (turned,), 32), 32))


@row("v_ffbh_i32 v_cls_i32")
def v_ffbh_i32(c: Context) -> None:
    """D = number of leading bits equal to the sign; -1 if all are."""
    e, value = c.e, c.src(1, "u32")
    folded = e.xor(value, e.int2("shr_s", value, Const(31, 32), 32))
    none = e.icmp("eq", folded, ZERO, "u32")
    c.put(e.select(none, fits(-1, 32), e.pure("clz", 32, (folded,), 32), 32))


# --- shifts


@row("v_lshlrev_b32 v_lshrrev_b32 v_ashrrev_i32 v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64 "
     "v_lshlrev_b16 v_lshrrev_b16 v_ashrrev_i16")
def v_shift(c: Context) -> None:
    """D = S1 shifted by S0."""
    kind, w = _kind(c)
    name = {"v_lshl": "shl", "v_lshr": "shr_u", "v_ashr": "shr_s"}[c.base[:6]]
    amount = c.src(1, "u16" if w == 16 else "u32")
    c.put(c.e.shift(name, c.src(2, kind), c.e.zext(amount, 32), w), keep_high=_keeps(c))


@row("v_alignbit_b32 v_alignbyte_b32")
def v_align(c: Context) -> None:
    """D = low 32 bits of {S0, S1} >> S2 (bits or bytes)."""
    e = c.e
    hi, lo, n = c.src(1, "u32"), c.src(2, "u32"), c.src(3, "u32")
    n = e.and_(n, Const(31 if "bit" in c.base else 3, 32))
    if "byte" in c.base:
        n = e.int2("shl", n, Const(3, 32), 32)
    c.put(align(e, hi, lo, n))


def align(e: Emitter, hi: Source, lo: Source, n: Source) -> Source:
    """Funnel shift right by n < 32."""
    if isinstance(n, Const):
        if n.bits == 0:
            return lo
        return e.pack(e.extract(lo, n.bits, 32 - n.bits), e.extract(hi, 0, n.bits))
    return e.pure("fshr", 32, (lo, hi, n), "wrap")


@row("v_perm_b32")
def v_perm(c: Context) -> None:
    """D = four bytes of {S0, S1}; selector 0-3: S1, 4-7: S0, 8-11: signs, 12: 0, above: 0xff."""
    e = c.e
    hi, lo, selector = c.src(1, "u32"), c.src(2, "u32"), c.src(3, "u32")
    if not isinstance(selector, Const):
        c.put(_perm_variable(c, hi, lo, selector))
        return
    codes = [(selector.bits >> (8 * i)) & 255 for i in range(4)]
    parts: list[Source] = []
    i = 0
    while i < 4:
        code = codes[i]
        if code < 8:
            n = 1
            while i + n < 4 and codes[i + n] == code + n and (code + n) // 4 == code // 4:
                n += 1
            parts.append(e.extract(hi if code >= 4 else lo, 8 * (code % 4), 8 * n))
            i += n
            continue
        if code < 12:
            source, at = ((lo, 15), (lo, 31), (hi, 15), (hi, 31))[code - 8]
            parts.append(e.sext(e.extract(source, at, 1), 8))
        else:
            parts.append(Const(0 if code == 12 else 255, 8))
        i += 1
    c.put(e.pack(*parts))


def _perm_variable(c: Context, hi: Source, lo: Source, selector: Source) -> Source:
    """Selectors below 8 in all four bytes are a plain byte permutation; others a fixed function."""
    e = c.e
    plain = e.icmp("eq", e.and_(selector, Const(0xF8F8F8F8, 32)), ZERO, "u32")
    nibbles = e.and_(selector, Const(7, 32))
    for i in range(1, 4):
        part = e.and_(e.int2("shr_u", selector, Const(4 * i, 32), 32), Const(7 << (4 * i), 32))
        nibbles = e.or_(nibbles, part)
    moved = e.pure("prmt", 32, (lo, hi, nibbles), "")
    other = e.pure("fapprox", 32, (hi, lo, selector), Approx("v_perm_b32", "exact",
                                                              FloatMode("f32")))
    return e.select(plain, moved, other, 32)


# --- sums


def _keeps(c: Context) -> bool:
    """Do 16-bit results keep the other half of the register? (zeroed up to gfx9)."""
    return c.target.major >= 10


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
    c.put(value, keep_high=_keeps(c))


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
        x, y = e.pack(origin[1], a), e.pack(origin[2], b)
        wide = e.sub(x, y, 64) if subtract else e.add(x, y, 64)
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
