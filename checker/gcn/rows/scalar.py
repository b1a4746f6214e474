"""Rows: scalar ALU (SOP1, SOP2, SOPC, SOPK). Source: CDNA3 ISA chapter 6, RDNA3/4 ISA chapter 6.

Scalar registers hold one value per wave. Operations on lane masks are carried out on predicates as
well, so that a mask that came from a compare is never seen as an unknown number.
"""

from __future__ import annotations

from checker.core import Const, Conv, Source
from checker.gcn import idioms
from checker.gcn.context import Context
from checker.gcn.emitter import FALSE, fits
from checker.gcn.machine import EXEC, Unmodelled
from checker.gcn.rows.table import row
from checker.syntax import Immediate

ZERO32, ZERO64 = Const(0, 32), Const(0, 64)


def _width(c: Context) -> int:
    return 64 if "64" in c.base.rsplit("_", 1)[-1] else 32


def _in(c: Context, i: int, w: int) -> Source:
    return c.src(i, "u64" if w == 64 else "u32")


def _nonzero(c: Context, value: Source, w: int) -> None:
    c.m.write_scc(c.e.icmp("ne", value, ZERO64 if w == 64 else ZERO32, f"u{w}"))


def _masklike(c: Context, *operands: int) -> bool:
    """Is one operand known to be a lane mask, and the others masks, 0, -1 or registers?"""
    known = False
    for i in operands:
        op = c.operand(i)
        if isinstance(op, Immediate):
            if op.kind != "int" or op.value not in (0, -1):
                return False
            continue
        file, n, _ = c.index(i)
        if file != "s":
            return False
        known = known or c.m.is_mask(n)
    return known


# --- moves and selects


@row("s_mov_b32 s_mov_b64")
def s_mov(c: Context) -> None:
    """D = S0."""
    w = _width(c)
    if w == c.wave and (c.index(0)[1] == EXEC or _masklike(c, 1)):
        c.put_mask(0, c.mask_source(1))
        return
    symbols = _symbols(c, 1, w // 32)
    c.put(_in(c, 1, w))
    _restore(c, symbols)


def _symbols(c: Context, i: int, count: int) -> list[tuple[int, object]]:
    try:
        file, n, _ = c.index(i)
    except Unmodelled:
        return []
    return [(k, c.m.symbols[file, n + k]) for k in range(count) if (file, n + k) in c.m.symbols]


def _restore(c: Context, symbols: list[tuple[int, object]]) -> None:
    file, n, _ = c.index(0)
    for k, symbol in symbols:
        c.m.symbols[file, n + k] = symbol


@row("s_movk_i32")
def s_movk(c: Context) -> None:
    """D = sign-extended 16-bit literal."""
    c.put(_literal16(c, 1))


def _literal16(c: Context, i: int, signed: bool = True) -> Const:
    op = c.operand(i)
    if not isinstance(op, Immediate) or op.kind != "int":
        raise Unmodelled("a 16-bit literal is expected")
    low = op.value & 0xFFFF
    return fits(low - 0x10000 if signed and low & 0x8000 else low, 32)


@row("s_cmov_b32 s_cmov_b64")
def s_cmov(c: Context) -> None:
    """D = SCC ? S0 : D."""
    w = _width(c)
    c.put(c.e.select(c.m.read_scc(), _in(c, 1, w), _in(c, 0, w), w))


@row("s_cselect_b32 s_cselect_b64")
def s_cselect(c: Context) -> None:
    """D = SCC ? S0 : S1."""
    w = _width(c)
    scc = c.m.read_scc()
    constants = all(isinstance(op, Immediate) and op.value in (0, -1)
                    for op in (c.operand(1), c.operand(2)))
    if w == c.wave and (constants or _masklike(c, 1, 2)):
        p, q = c.mask_source(1), c.mask_source(2)
        chosen = c.e.select(scc, p, q, 1)
        if p in c.e.uniform and q in c.e.uniform:
            c.e.uniform.add(chosen)
        number = c.e.select(scc, _in(c, 1, w), _in(c, 2, w), w)
        n = c.mask_at(0)
        c.put_mask(0, chosen)
        if constants:
            c.m.write_mask(n, chosen, number)
        return
    a, b = _in(c, 1, w), _in(c, 2, w)
    c.put(idioms.division_select(c.e, scc, a, b) or c.e.select(scc, a, b, w))


# --- logic


def _logic(c: Context, name: str, invert_b: bool, invert_result: bool) -> None:
    w = _width(c)
    if w == c.wave and _masklike(c, 1, 2):
        _mask_logic(c, name, invert_b, invert_result)
        return
    e = c.e
    a, b = _in(c, 1, w), _in(c, 2, w)
    if c.base == "s_and_b32" and b == Const(0xFFFF, 32) and e.is_pointer_high(a):
        e.premises.add("48-bit-pointers")  # a buffer descriptor takes the low 48 bits
        b = fits(-1, 32)
    value = e.int2(name, a, e.not_(b, w) if invert_b else b, w)
    if invert_result:
        value = e.not_(value, w)
    _address_logic(c, value, name, w)
    _nonzero(c, value, w)


def _address_logic(c: Context, value: Source, name: str, w: int) -> None:
    symbols: list[tuple[int, object]] = []
    if w == 32 and name == "iand":
        symbols = _symbols(c, 1, 1)
    c.put(value)
    if symbols and symbols[0][1] is not None and isinstance(symbols[0][1], tuple) and \
            symbols[0][1][0] == "high":
        _restore(c, symbols)


def _mask_logic(c: Context, name: str, invert_b: bool, invert_result: bool) -> None:
    e = c.e
    p, q = c.mask_source(1), c.mask_source(2)
    if invert_b:
        result = e.pandnot(p, q) if name == "iand" else e.por(p, e.pnot(q))
    elif name == "iand":
        result = e.pand(p, q)
    else:
        result = e.por(p, q) if name == "ior" else e.pxor(p, q)
    if invert_result:
        result = e.pnot(result)
    c.put_mask(0, result)
    c.m.write_scc(e.any(result, c.wave))


_LOGIC = {"and": ("iand", False, False), "or": ("ior", False, False), "xor": ("ixor", False, False),
          "nand": ("iand", False, True), "nor": ("ior", False, True), "xnor": ("ixor", False, True),
          "andn2": ("iand", True, False), "orn2": ("ior", True, False),
          "and_not1": ("iand", True, False), "or_not1": ("ior", True, False)}


@row(" ".join(f"s_{n}_b{w}" for n in _LOGIC for w in (32, 64)))
def s_logic(c: Context) -> None:
    """D = S0 op S1; SCC = D != 0."""
    _logic(c, *_LOGIC[c.base[2:].rsplit("_", 1)[0]])


@row("s_not_b32 s_not_b64")
def s_not(c: Context) -> None:
    """D = ~S0; SCC = D != 0."""
    w = _width(c)
    if w == c.wave and _masklike(c, 1) and not isinstance(c.operand(1), Immediate):
        result = c.e.pnot(c.mask_source(1))
        c.put_mask(0, result)
        c.m.write_scc(c.e.any(result, c.wave))
        return
    value = c.e.not_(_in(c, 1, w), w)
    c.put(value)
    _nonzero(c, value, w)


@row(" ".join(f"s_{n}_saveexec_b{w}" for n in (
    "and", "or", "xor", "andn1", "andn2", "orn1", "orn2", "nand", "nor", "xnor", "and_not0",
    "and_not1", "or_not0", "or_not1") for w in (32, 64)))
def s_saveexec(c: Context) -> None:
    """D = EXEC; EXEC = S0 op EXEC; SCC = EXEC != 0."""
    if _width(c) != c.wave:
        raise Unmodelled("half of exec written alone")
    e = c.e
    s, old = c.mask_source(1), c.m.exec
    name = c.base[2:].rsplit("_saveexec", 1)[0]
    table = {
        "and": lambda: e.pand(old, s), "or": lambda: e.por(s, old), "xor": lambda: e.pxor(s, old),
        "andn1": lambda: e.pandnot(old, s), "and_not0": lambda: e.pandnot(old, s),
        "andn2": lambda: e.pandnot(s, old), "and_not1": lambda: e.pandnot(s, old),
        "orn1": lambda: e.por(e.pnot(s), old), "or_not0": lambda: e.por(e.pnot(s), old),
        "orn2": lambda: e.por(s, e.pnot(old)), "or_not1": lambda: e.por(s, e.pnot(old)),
        "nand": lambda: e.pnot(e.pand(s, old)), "nor": lambda: e.pnot(e.por(s, old)),
        "xnor": lambda: e.pnot(e.pxor(s, old)),
    }
    new = table[name]()
    c.put_mask(0, old)
    c.m.write_mask(EXEC, new)
    c.m.write_scc(e.any(new, c.wave))


@row("s_andn1_wrexec_b64 s_andn2_wrexec_b64 s_and_not0_wrexec_b32 s_and_not1_wrexec_b32 "
     "s_and_not0_wrexec_b64 s_and_not1_wrexec_b64")
def s_wrexec(c: Context) -> None:
    """EXEC = D = S0 & ~EXEC (n2, not1) or ~S0 & EXEC; SCC = D != 0."""
    e = c.e
    s, old = c.mask_source(1), c.m.exec
    new = e.pandnot(s, old) if c.base.startswith(("s_andn2", "s_and_not1")) else e.pandnot(old, s)
    c.m.write_mask(EXEC, new)
    c.put_mask(0, new)
    c.m.write_scc(e.any(new, c.wave))


@row("s_wqm_b32 s_wqm_b64")
def s_wqm(c: Context) -> None:
    """Whole-quad mask: compute kernels do not use it."""
    raise Unmodelled("whole-quad mode")


# --- arithmetic


@row("s_add_u32 s_add_co_u32")
def s_add_u32(c: Context) -> None:
    """D = S0 + S1; SCC = carry."""
    e = c.e
    a, b = c.src(1, "u32"), c.src(2, "u32")
    total = e.add(a, b)
    symbol = _moved(c, total)
    c.put(total)
    _restore(c, symbol)
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
        found = _symbols(c, i, 1)
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
        wide = e.add(e.pack(origin[1], a), e.pack(origin[2], b), 64)
        total = e.extract(wide, 32, 32)
        e.pairs.setdefault((origin[3], total), wide)
    else:
        total = e.add(e.add(a, b), e.zext(cin, 32))
    symbol = _moved(c, total)
    c.put(total)
    _restore(c, symbol)
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
    a, b = c.src(0, "u32"), _literal16(c, 1)
    total = c.e.add(a, b)
    c.put(total)
    c.m.write_scc(_overflow(c, a, b, total, False))


@row("s_mulk_i32")
def s_mulk(c: Context) -> None:
    """D = D * sign-extended literal."""
    c.put(c.e.int2("imul", c.src(0, "u32"), _literal16(c, 1), 32))


@row("s_mul_i32 s_mul_u64")
def s_mul(c: Context) -> None:
    """D = S0 * S1, low bits."""
    w = _width(c)
    c.put(c.e.int2("imul", _in(c, 1, w), _in(c, 2, w), w))


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
    _nonzero(c, value, 32)


@row("s_absdiff_i32")
def s_absdiff(c: Context) -> None:
    """D = |S0 - S1|; SCC = D != 0."""
    value = c.e.pure("iabs", 32, (c.e.sub(c.src(1, "u32"), c.src(2, "u32")),), 32)
    c.put(value)
    _nonzero(c, value, 32)


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
    w = _width(c)
    name = {"lshl": "shl", "lshr": "shr_u", "ashr": "shr_s"}[c.base[2:6]]
    value = c.e.shift(name, _in(c, 1, w), c.src(2, "u32"), w)
    c.put(value)
    _nonzero(c, value, w)


@row("s_bfe_u32 s_bfe_i32 s_bfe_u64 s_bfe_i64")
def s_bfe(c: Context) -> None:
    """D = field of S0: offset S1[4:0] ([5:0]), width S1[22:16]; SCC = D != 0."""
    w, e = _width(c), c.e
    a, control = _in(c, 1, w), c.src(2, "u32")
    offset = e.and_(control, Const(w - 1, 32))
    size = e.and_(e.int2("shr_u", control, Const(16, 32), 32), Const(127, 32))
    signed = "i" in c.base.rsplit("_", 1)[-1]
    if isinstance(offset, Const) and isinstance(size, Const):
        value = _field(c, a, offset.bits, size.bits, w, signed)
    else:
        value = e.pure("bfe_s" if signed else "bfe_u", w, (a, offset, size), w)
    c.put(value)
    _nonzero(c, value, w)


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
    w, e = _width(c), c.e
    size, at = c.src(1, "u32"), c.src(2, "u32")
    ones = e.sub(e.shift("shl", Const(1, w), size, w), Const(1, w), w)
    c.put(e.shift("shl", ones, at, w))


@row("s_bitcmp0_b32 s_bitcmp1_b32 s_bitcmp0_b64 s_bitcmp1_b64", dsts=0)
def s_bitcmp(c: Context) -> None:
    """SCC = bit S1 of S0 is 0 (1)."""
    w, e = _width(c), c.e
    bit = e.and_(e.shift("shr_u", _in(c, 0, w), c.src(1, "u32"), w), Const(1, w), w)
    c.m.write_scc(e.icmp("ne" if "cmp1" in c.base else "eq", bit, Const(0, w), f"u{w}"))


@row("s_bitset0_b32 s_bitset1_b32 s_bitset0_b64 s_bitset1_b64")
def s_bitset(c: Context) -> None:
    """Clear or set bit S0 of D."""
    w, e = _width(c), c.e
    bit = e.shift("shl", Const(1, w), c.src(1, "u32"), w)
    old = _in(c, 0, w)
    c.put(e.or_(old, bit, w) if "set1" in c.base else e.and_(old, e.not_(bit, w), w))


@row("s_brev_b32 s_brev_b64")
def s_brev(c: Context) -> None:
    """D = bits of S0 reversed."""
    w = _width(c)
    value = _in(c, 1, w)
    if isinstance(value, Const):
        c.put(Const(int(f"{value.bits:0{w}b}"[::-1], 2), w))
    else:
        c.put(c.e.pure("brev", w, (value,), w))


@row("s_bcnt1_i32_b32 s_bcnt1_i32_b64 s_bcnt0_i32_b32 s_bcnt0_i32_b64")
def s_bcnt(c: Context) -> None:
    """D = number of one (zero) bits; SCC = D != 0."""
    w = _width(c)
    value = c.e.pure("popc", 32, (_in(c, 1, w),), w)
    if "bcnt0" in c.base:
        value = c.e.sub(Const(w, 32), value)
    c.put(value)
    _nonzero(c, value, 32)


@row("s_ff1_i32_b32 s_ff1_i32_b64 s_ctz_i32_b32 s_ctz_i32_b64 s_flbit_i32_b32 s_flbit_i32_b64 "
     "s_clz_i32_u32 s_clz_i32_u64")
def s_find(c: Context) -> None:
    """D = position of the first one bit from below (above); -1 if there is none."""
    w, e = (64 if c.base.endswith("64") else 32), c.e
    value = _in(c, 1, w)
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
    c.m.write_scc(c.e.icmp(_CONDITIONS[cond], _in(c, 0, w), _in(c, 1, w), f"{sign}{w}"))


@row(" ".join(f"s_cmpk_{n}_{t}" for n in ("eq", "lg", "gt", "ge", "lt", "le")
              for t in ("i32", "u32")), dsts=0)
def s_cmpk(c: Context) -> None:
    """SCC = S0 cond literal (sign-extended for i32, zero-extended for u32)."""
    _, _, cond, type = c.base.split("_")
    signed = type[0] == "i"
    c.m.write_scc(c.e.icmp(_CONDITIONS[cond], c.src(0, "u32"), _literal16(c, 1, signed),
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
