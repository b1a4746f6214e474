"""Rows: conversions between number formats. Source: CDNA3 ISA chapter 12, V_CVT_*.

Float to integer truncates, clamps, and gives 0 for a NaN. On gfx94x the 8-bit formats are the
FNUZ ones, which the core does not have: those conversions are fixed functions of the unit.
"""

from __future__ import annotations

from checker.core import Const, Conv, Source
from checker.gcn.context import Context
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.float import approx, give
from checker.gcn.rows.table import row
from checker.gcn.words import words

_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i32": 32, "u32": 32, "i16": 16, "u16": 16}
_INT = {"i32": "s32", "u32": "u32", "i16": "s16", "u16": "u16"}

_PAIRS = words(
    "f32_f16 f16_f32 f32_f64 f64_f32 f32_i32 f32_u32 i32_f32 u32_f32 f64_i32 f64_u32 i32_f64 "
    "u32_f64 f16_i16 f16_u16 i16_f16 u16_f16 f32_bf16")


@row(" ".join(f"v_cvt_{p}" for p in _PAIRS))
def v_cvt(c: Context) -> None:
    """D = S0 in another format."""
    _, _, dst, src = c.base.split("_")
    convert(c, src, dst)


def convert(c: Context, src: str, dst: str) -> None:
    """Convert between two formats named as in the opcodes."""
    kind = src if src[0] in "fb" else f"u{_BITS[src]}"
    value = c.src(1, kind)
    if dst[0] == "f":
        wide = dst if _BITS[dst] <= _BITS.get(src, 0) or src[0] not in "fb" else src
        mode = c.result_mode("f32" if wide == "bf16" else wide)
        exact = src[0] in "fb" and _BITS[dst] > _BITS[src]
        rnd = "" if exact else c.result_mode(dst).rnd
        # "flush" speaks of f32 operands; the result of a half is never subnormal
        denorm = "flush_in" if (src, mode.denorm) == ("f16", "flush") else mode.denorm
        conv = Conv(_INT.get(src, src), dst, rnd, denorm, saturate=mode.saturate)
        give(c, c.e.pure("fcvt", _BITS[dst], (value,), conv))
        return
    if c.flag("clamp"):
        raise Unmodelled("clamp on a conversion to integer")
    conv = Conv(src, _INT[dst], "rzi", c.mode(src).denorm, nan_zero=src == "f64")
    c.put(c.e.pure("fcvt", _BITS[dst], (value,), conv), keep_high=c.target.major >= 10)


@row("v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3")
def v_cvt_ubyte(c: Context) -> None:
    """D = byte N of S0 as f32 (exact)."""
    byte = c.e.extract(c.src(1, "u32"), 8 * int(c.base[-1]), 8)
    value, mode = c.e.zext(byte, 32), c.result_mode("f32")
    give(c, c.e.pure("fcvt", 32, (value,), Conv("u32", "f32", mode.rnd, saturate=mode.saturate)))


@row("v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32")
def v_cvt_pkrtz(c: Context) -> None:
    """D = {f16(S1), f16(S0)}, rounded toward zero."""
    mode = c.result_mode("f16")
    conv = Conv("f32", "f16", "rz", mode.denorm, saturate=mode.saturate)
    c.put(c.e.pack(*(c.e.pure("fcvt", 16, (c.src(i, "f32"),), conv) for i in (1, 2))))


@row("v_cvt_pk_f16_f32 v_cvt_pk_bf16_f32")
def v_cvt_pk(c: Context) -> None:
    """D = {half(S1), half(S0)} in the current rounding mode."""
    dst = c.base.split("_")[3]
    mode = c.result_mode("f16")
    conv = Conv("f32", dst, mode.rnd, mode.denorm, saturate=mode.saturate)
    c.put(c.e.pack(*(c.e.pure("fcvt", 16, (c.src(i, "f32"),), conv) for i in (1, 2))))


@row("v_cvt_pk_u16_u32 v_cvt_pk_i16_i32")
def v_cvt_pk_int(c: Context) -> None:
    """D = {S1, S0} clamped to 16 bits."""
    e, signed = c.e, c.base.endswith("i32")
    parts: list[Source] = []
    for i in (1, 2):
        value = c.src(i, "u32")
        if signed:
            value = e.pure("imax_s", 32, (value, Const(0xFFFF8000, 32)), 32)
            value = e.pure("imin_s", 32, (value, Const(0x7FFF, 32)), 32)
        else:
            value = e.pure("imin_u", 32, (value, Const(0xFFFF, 32)), 32)
        parts.append(e.extract(value, 0, 16))
    c.put(e.pack(*parts))


@row("v_pack_b32_f16")
def v_pack(c: Context) -> None:
    """D = {S1.f16, S0.f16}: moves halves, rounds nothing (signalling NaNs aside)."""
    c.put(c.e.pack(c.src(1, "f16"), c.src(2, "f16")))


@row("v_cvt_u32_u16 v_cvt_i32_i16")
def v_cvt_wide(c: Context) -> None:
    """D = S0.u16 (i16) extended."""
    half = c.src(1, "u16")
    c.put(c.e.sext(half, 32) if c.base.endswith("i16") else c.e.zext(half, 32))


@row("v_sat_pk_u8_i16")
def v_sat_pk(c: Context) -> None:
    """D = {S0.i16[1], S0.i16[0]} clamped to bytes."""
    e = c.e
    value = c.src(1, "u32")
    parts: list[Source] = []
    for lo in (0, 16):
        half = e.sext(e.extract(value, lo, 16), 32)
        half = e.pure("imin_s", 32, (e.pure("imax_s", 32, (half, Const(0, 32)), 32),
                                     Const(255, 32)), 32)
        parts.append(e.extract(half, 0, 8))
    c.put(e.pack(*parts, Const(0, 16)))


# --- 8-bit floats


def _fp8(c: Context) -> str:
    return "e4m3" if "fp8" in c.base else "e5m2"


def _ocp(c: Context) -> bool:
    """gfx950 and gfx12 have the OCP formats, gfx94x the FNUZ ones."""
    return c.target.cdna >= 4 or c.target.major >= 12


@row("v_cvt_pk_fp8_f32 v_cvt_pk_bf8_f32")
def v_cvt_to_fp8(c: Context) -> None:
    """One half of D = {fp8(S1), fp8(S0)}; op_sel[2] chooses the half, the other is kept."""
    e = c.e
    high = bool(c.bits("op_sel", 3)[2])
    a, b = c.src(1, "f32"), c.src(2, "f32")
    mode, overflow = c.mode("f32"), c.m.modes.get("fp16_ovfl")
    if overflow is None:
        raise Unmodelled("the mode register is not known here")
    name = c.base.replace("_pk", "") + (".ovfl" if overflow else "")
    parts = tuple(approx(c, name, 8, (v,), mode) for v in (a, b))
    file, n, _ = c.index(0)
    old = c.m.read(file, n, c.under)
    c.reads.add((file, n))
    halves = [e.extract(old, 0, 16), e.extract(old, 16, 16)]
    halves[int(high)] = e.pack(*parts)
    c.writes.add((file, n))
    c.m.write(file, n, e.pack(*halves), c.under)


@row("v_cvt_f32_fp8 v_cvt_f32_bf8 v_cvt_pk_f32_fp8 v_cvt_pk_f32_bf8")
def v_cvt_from_fp8(c: Context) -> None:
    """D = f32 of one byte (two bytes for pk)."""
    e = c.e
    packed = "_pk_" in c.base
    value = c.src(1, "u32")
    at = 0
    if "op_sel" in c.mods:
        select = c.bits("op_sel", 4)
        at = 16 * select[0] if packed else 8 * (2 * select[0] + select[1])  # bits are reversed
    if "byte_sel" in c.mods:
        at = 8 * c.number("byte_sel")
    parts: list[Source] = []
    for k in range(2 if packed else 1):
        byte = e.extract(value, at + 8 * k, 8)
        if _ocp(c):
            parts.append(e.pure("fcvt", 32, (byte,), Conv(_fp8(c), "f32")))
        else:
            parts.append(approx(c, "v_cvt_f32_" + c.base[-3:], 32, (byte,), c.mode("f32")))
        e.quiet.add(parts[-1])
    c.put(e.pack(*parts))
