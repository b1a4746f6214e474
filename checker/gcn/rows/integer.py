"""Rows: vector integer and bit operations (VOP1, VOP2, VOP3), moves and selects.

Source: CDNA3 ISA chapter 12 (VOP instructions), RDNA3 ISA chapter 16.
"""

from __future__ import annotations

from checker.core import Approx, Const, FloatMode, Source
from checker.gcn import idioms
from checker.gcn.context import Context
from checker.gcn.emitter import Emitter, fits
from checker.gcn.machine import VCC
from checker.gcn.rows.table import row
from checker.syntax import Name

__all__ = ["align", "keeps_high"]

ZERO = Const(0, 32)


def _kind(c: Context) -> tuple[str, int]:
    """Source kind and width from the last word of the opcode."""
    last = c.base.rsplit("_", 1)[-1]
    w = int(last[1:])
    return f"u{w}", w


def keeps_high(c: Context) -> bool:
    """Do 16-bit results keep the other half of the register? (zeroed up to gfx9)."""
    return c.target.major >= 10


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
    c.put(c.e.shift(name, c.src(2, kind), c.e.zext(amount, 32), w), keep_high=keeps_high(c))


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
