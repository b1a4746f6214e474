"""Rows: packed math (VOP3P), mixed-precision fma, dual-issue pairs are in `control`.

op_sel chooses the half for the low result, op_sel_hi for the high one (default 1), neg_lo and
neg_hi negate. Source: CDNA3 ISA 6.6 (packed math), RDNA3 ISA 7.
"""

from __future__ import annotations

from checker.core import Const, Conv, Source
from checker.gcn.context import Context
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.float import extremum, fma
from checker.gcn.rows.table import row
from checker.syntax import Immediate, Name, Range, Vector

_FLOAT16 = {"add": "fadd", "mul": "fmul"}


def _count(c: Context) -> int:
    return len(c.operands) - 1


def _neg(c: Context, value: Source, flag: int, kind: str, w: int) -> Source:
    return c.e.fneg(value, kind, w) if flag else value


# --- packed 32-bit floats


def _halves32(c: Context, i: int, lo: int, hi: int) -> tuple[Source, Source]:
    """The two 32-bit values that the two results read from operand i."""
    op = c.operand(i)
    if isinstance(op, Immediate):
        value = c.literal(op, "f32")
        if value.bits and (lo or hi):
            raise Unmodelled("the high half of a packed constant")
        return value, value
    if isinstance(op, (Name, Range)) and (op.neg or op.absolute):
        raise Unmodelled("sign modifier on a packed operand")
    file, n, count = c.located(op)
    if count == 1 and file == "s" and not lo and not hi:
        value2 = c.fetch(file, n)
        return value2, value2
    if count != 2:
        raise Unmodelled("a packed operand needs two registers")
    return c.fetch(file, n + lo), c.fetch(file, n + hi)


def _packed32(c: Context) -> list[list[Source]]:
    n = _count(c)
    lo, hi = c.bits("op_sel", n), c.bits("op_sel_hi", n, 1)
    neg_lo, neg_hi = c.bits("neg_lo", n), c.bits("neg_hi", n)
    columns: list[list[Source]] = [[], []]
    for k in range(n):
        pair = _halves32(c, k + 1, lo[k], hi[k])
        columns[0].append(_neg(c, pair[0], neg_lo[k], "f32", 32))
        columns[1].append(_neg(c, pair[1], neg_hi[k], "f32", 32))
    return columns


@row("v_pk_add_f32 v_pk_mul_f32 v_pk_fma_f32")
def v_pk_f32(c: Context) -> None:
    """Two independent f32 operations."""
    mode = c.result_mode("f32")
    name = c.base.split("_")[2]
    results = [fma(c.e, args[0], args[1], args[2], mode) if name == "fma" else
               c.e.pure(_FLOAT16[name], 32, tuple(args), mode) for args in _packed32(c)]
    c.e.quiet |= set(results)
    _put_pair(c, results)


def _put_pair(c: Context, results: list[Source]) -> None:
    """Write two 32-bit results that have nothing to do with each other."""
    file, n, count = c.index(0)
    if count != 2:
        raise Unmodelled("a packed result needs two registers")
    for k, value in enumerate(results):
        c.put_at(file, n + k, value)


@row("v_pk_mov_b32")
def v_pk_mov(c: Context) -> None:
    """D.lo = S0[op_sel 0], D.hi = S1[op_sel 1]."""
    select = c.bits("op_sel", 2)
    c.bits("op_sel_hi", 2)
    values: list[Source] = []
    for k in range(2):
        op = c.operand(k + 1)
        if isinstance(op, Immediate):
            if select[k]:
                raise Unmodelled("the high half of a packed constant")
            values.append(c.literal(op, "u32"))
            continue
        file, n, count = c.located(op)
        if count != 2:
            raise Unmodelled("a packed operand needs two registers")
        values.append(c.fetch(file, n + select[k]))
    _put_pair(c, values)


# --- packed 16-bit values


def _halves16(c: Context, i: int, kind: str) -> tuple[Source, Source]:
    """Low and high half of a 32-bit operand."""
    op = c.operand(i)
    if isinstance(op, Immediate):
        if op.kind == "f64":
            return c.literal(op, kind), Const(0, 16)
        value: Source = c.literal(op, "u32")
    elif isinstance(op, Vector) or (isinstance(op, Name) and (op.neg or op.absolute)):
        raise Unmodelled("sign modifier on a packed operand")
    else:
        value = c.raw32(op)
    return c.e.extract(value, 0, 16), c.e.extract(value, 16, 16)


def _packed16(c: Context, kind: str) -> list[list[Source]]:
    n = _count(c)
    lo, hi = c.bits("op_sel", n), c.bits("op_sel_hi", n, 1)
    neg_lo, neg_hi = c.bits("neg_lo", n), c.bits("neg_hi", n)
    if kind[0] == "u" and any(neg_lo + neg_hi):
        raise Unmodelled("sign modifier on an integer operand")
    columns: list[list[Source]] = [[], []]
    for k in range(n):
        halves = _halves16(c, k + 1, kind)
        columns[0].append(_neg(c, halves[lo[k]], neg_lo[k], kind, 16))
        columns[1].append(_neg(c, halves[hi[k]], neg_hi[k], kind, 16))
    return columns


@row("v_pk_add_f16 v_pk_mul_f16 v_pk_fma_f16 v_pk_min_f16 v_pk_max_f16 v_pk_min_num_f16 "
     "v_pk_max_num_f16 v_pk_minimum_f16 v_pk_maximum_f16")
def v_pk_f16(c: Context) -> None:
    """Two independent f16 operations."""
    mode = c.result_mode("f16")
    name = c.base.split("_")[2]
    results: list[Source] = []
    for args in _packed16(c, "f16"):
        if name == "fma":
            results.append(fma(c.e, args[0], args[1], args[2], mode))
        elif name in _FLOAT16:
            results.append(c.e.pure(_FLOAT16[name], 16, tuple(args), mode))
        else:
            results.append(extremum(c, name, args[0], args[1], mode, 16))
    c.e.quiet |= set(results)
    c.put(c.e.pack(*results))


_INT16 = {"add": "iadd", "sub": "isub", "mul": "imul", "lshlrev": "shl", "lshrrev": "shr_u",
          "ashrrev": "shr_s"}


@row("v_pk_add_u16 v_pk_add_i16 v_pk_sub_u16 v_pk_sub_i16 v_pk_mul_lo_u16 v_pk_lshlrev_b16 "
     "v_pk_lshrrev_b16 v_pk_ashrrev_i16 v_pk_min_u16 v_pk_min_i16 v_pk_max_u16 v_pk_max_i16 "
     "v_pk_mad_u16 v_pk_mad_i16")
def v_pk_int(c: Context) -> None:
    """Two independent 16-bit integer operations."""
    if c.flag("clamp"):
        raise Unmodelled("integer clamp")
    e, name = c.e, c.base.split("_")[2]
    results: list[Source] = []
    for args in _packed16(c, "u16"):
        if name == "mad":
            value = e.int2("iadd", e.int2("imul", args[0], args[1], 16), args[2], 16)
        elif name in ("min", "max"):
            sign = "s" if c.base.endswith("i16") else "u"
            value = e.pure(f"i{name}_{sign}", 16, (args[0], args[1]), 16)
        elif name.endswith("rev"):
            value = e.shift(_INT16[name], args[1], e.zext(args[0], 32), 16)
        else:
            value = e.int2(_INT16[name], args[0], args[1], 16)
        results.append(value)
    c.put(e.pack(*results))


# --- mixed precision


@row("v_fma_mix_f32 v_fma_mixlo_f16 v_fma_mixhi_f16 v_mad_mix_f32 v_mad_mixlo_f16 "
     "v_mad_mixhi_f16 v_fma_mix_f32_bf16 v_fma_mixlo_bf16 v_fma_mixhi_bf16")
def v_fma_mix(c: Context) -> None:
    """D = S0 * S1 + S2 in f32; op_sel_hi: the source is the half that op_sel chooses.

    mixlo/mixhi round the f32 result once more, to the half they write.
    """
    if c.base.startswith("v_mad"):
        raise Unmodelled("v_mad_mix rounds twice on some units")
    if "bf16" in c.base:
        raise Unmodelled("mixed bf16")
    e = c.e
    half, which = c.bits("op_sel_hi", 3), c.bits("op_sel", 3)
    args = [_mixed(c, k, half[k], which[k]) for k in range(3)]
    if c.base.endswith("f32"):
        value = fma(e, args[0], args[1], args[2], c.result_mode("f32"))
        e.quiet.add(value)
        c.put(value)
        return
    value = fma(e, args[0], args[1], args[2], c.mode("f32"))
    mode = c.result_mode("f16")
    rounded = e.pure("fcvt", 16, (value,), Conv("f32", "f16", mode.rnd, mode.denorm,
                                                saturate=mode.saturate))
    e.quiet.add(rounded)
    file, n, _ = c.index(0)
    old = c.m.read(file, n, c.under)
    c.reads.add((file, n))
    c.put_at(file, n, e.pack(rounded, e.extract(old, 16, 16)) if "mixlo" in c.base else
             e.pack(e.extract(old, 0, 16), rounded))


def _mixed(c: Context, k: int, half: int, which: int) -> Source:
    e, op = c.e, c.operand(k + 1)
    if not half:
        return c.typed(op, "f32", 3 + k)  # position past op_sel: a whole register
    negative = isinstance(op, Name) and op.neg
    absolute = isinstance(op, Name) and op.absolute
    if isinstance(op, Immediate):
        if which:
            raise Unmodelled("the high half of a constant")
        part: Source = c.literal(op, "f16")
    elif isinstance(op, Name):
        part = e.extract(c.raw32(Name(op.name, op.sub)), 16 * which, 16)
    else:
        raise Unmodelled("operand of a mixed fma")
    wide = e.pure("fcvt", 32, (part,), Conv("f16", "f32", "", c.mode("f16").denorm))
    e.quiet.add(wide)
    if absolute:
        wide = e.fabs(wide, "f32", 32)
    return e.fneg(wide, "f32", 32) if negative else wide


@row("v_dot2_f32_f16 v_dot2c_f32_f16 v_dot2_f16_f16 v_dot2_f32_bf16 v_dot2_bf16_bf16 "
     "v_dot2c_f32_bf16 v_dot2acc_f32_f16")
def v_dot2(c: Context) -> None:
    """Two products and a sum whose inner rounding is not documented: fixed per unit."""
    from checker.gcn.rows.float import approx
    acc = 0 if "2c" in c.base or "acc" in c.base else 3
    if c.mods or any(isinstance(op, Immediate) and op.kind == "f64" for op in c.operands):
        raise Unmodelled("modifier or float literal on a dot product")
    a, b = c.raw32(c.operand(1)), c.raw32(c.operand(2))
    addend = c.raw32(c.operand(acc))
    mode = c.mode("f16" if c.base == "v_dot2_f16_f16" else "f32")
    c.put(approx(c, c.base.replace("dot2c", "dot2"), 32, (a, b, addend), mode))
