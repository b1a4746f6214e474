"""Rows: MFMA and WMMA onto `core.Mma`. Sparse (SMFMAC, SWMMAC), scaled and multi-block forms are
not modelled.

Matrix instructions ignore exec. Source: CDNA3 ISA chapter 7, RDNA3 ISA 7.9, RDNA4 ISA 7.9.
"""

from __future__ import annotations

import re

from checker.core import MatrixOperand, Mma, Source
from checker.gcn.context import Context
from checker.gcn.emitter import TRUE
from checker.gcn.fragments import mfma_a, mfma_b, mfma_c, wmma_a, wmma_b, wmma_c
from checker.gcn.hazards import overlaps_factors
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.words import words
from checker.syntax import Immediate

_MFMA = re.compile(r"v_mfma_(f32|i32|f64)_(\d+)x(\d+)x(\d+)_?(f16|bf16|f32|xf32|f64|i8|"
                   r"(?:fp8|bf8)_(?:fp8|bf8))(_1k)?$")
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "xf32": 32, "f64": 64, "i8": 8, "fp8": 8, "bf8": 8}
_D = {"f32": "f32", "i32": "s32", "f64": "f64"}

_MFMA_NAMES = [
    f"v_mfma_{d}_{shape}{join}{t}" for d, shape, t in (
        *(("f32", s, "f32") for s in ("32x32x2", "16x16x4", "32x32x1", "16x16x1", "4x4x1")),
        *(("f32", s, "f16") for s in ("32x32x8", "16x16x16", "32x32x4", "16x16x4", "4x4x4",
                                      "32x32x16", "16x16x32")),
        *(("f32", s, "bf16") for s in ("32x32x4", "16x16x8", "32x32x2", "16x16x2", "4x4x2",
                                       "32x32x8", "16x16x16", "32x32x16", "16x16x32")),
        *(("f32", s, "bf16_1k") for s in ("32x32x8", "16x16x16", "32x32x4", "16x16x4", "4x4x4")),
        *(("f32", s, "xf32") for s in ("32x32x4", "16x16x8")),
        *(("f64", s, "f64") for s in ("16x16x4", "4x4x4")),
        *(("i32", s, "i8") for s in ("32x32x8", "16x16x16", "32x32x16", "16x16x32", "32x32x4",
                                     "16x16x4", "4x4x4", "32x32x32", "16x16x64")),
        *(("f32", s, f"{a}_{b}") for s in ("32x32x16", "16x16x32") for a in ("fp8", "bf8")
          for b in ("fp8", "bf8")))
    for join in ("", "_")]


def _fp8(c: Context, name: str) -> str:
    plain = {"fp8": "e4m3", "bf8": "e5m2"}[name]
    return plain if c.target.cdna >= 4 or c.target.major >= 12 else plain + "fnuz"


def _types(c: Context, text: str) -> tuple[str, str]:
    parts = text.split("_")
    if parts[0] in ("fp8", "bf8"):
        return _fp8(c, parts[0]), _fp8(c, parts[1])
    name = {"i8": "s8"}.get(parts[0], parts[0])
    return name, name


#: combinations of the table above that no assembler knows
_NO_SUCH = frozenset(words(
    "v_mfma_f32_16x16x16_bf16_1k v_mfma_f32_16x16x1_f32 v_mfma_f32_16x16x2_bf16 "
    "v_mfma_f32_16x16x32bf8_bf8 v_mfma_f32_16x16x32bf8_fp8 v_mfma_f32_16x16x32fp8_bf8 "
    "v_mfma_f32_16x16x32fp8_fp8 v_mfma_f32_16x16x4_bf16_1k v_mfma_f32_16x16x4_f16 "
    "v_mfma_f32_16x16x8_bf16 v_mfma_f32_32x32x16bf8_bf8 v_mfma_f32_32x32x16bf8_fp8 "
    "v_mfma_f32_32x32x16fp8_bf8 v_mfma_f32_32x32x16fp8_fp8 v_mfma_f32_32x32x1_f32 "
    "v_mfma_f32_32x32x2_bf16 v_mfma_f32_32x32x4_bf16 v_mfma_f32_32x32x4_bf16_1k "
    "v_mfma_f32_32x32x4_f16 v_mfma_f32_32x32x8_bf16_1k v_mfma_f32_4x4x1_f32 "
    "v_mfma_f32_4x4x2_bf16 v_mfma_f32_4x4x4_bf16_1k v_mfma_f32_4x4x4_f16 v_mfma_f64_4x4x4_f64 "
    "v_mfma_i32_16x16x16_i8 v_mfma_i32_16x16x4_i8 v_mfma_i32_32x32x4_i8 v_mfma_i32_32x32x8_i8 "
    "v_mfma_i32_4x4x4_i8"))


@row(" ".join(n for n in dict.fromkeys(_MFMA_NAMES) if n not in _NO_SUCH))
def v_mfma(c: Context) -> None:
    """D = A * B + C over one wave."""
    match = _MFMA.match(c.base)
    if match is None:
        raise Unmodelled("matrix shape")
    d_type, m, n, k = _D[match[1]], int(match[2]), int(match[3]), int(match[4])
    a_type, b_type = _types(c, match[5])
    bits = _BITS[match[5].split("_")[0]]
    _no_broadcast(c)
    if d_type == "f64":
        _f64(c, m, n, k)
        return
    regs_a = _count(c, 1)
    regs_d = m * n // 64
    if regs_a * 32 * 64 != m * k * bits or _count(c, 2) != regs_a or _count(c, 0) != regs_d:
        raise Unmodelled("matrix instruction with several blocks")
    attr = Mma("mfma", c.target.name, m, n, k,
               MatrixOperand("regs", a_type, mfma_a(m, k, bits), regs_a),
               MatrixOperand("regs", b_type, mfma_b(n, k, bits), regs_a),
               MatrixOperand("regs", d_type, mfma_c(m, n), regs_d), d_type, lanes=64)
    _emit(c, attr, regs_a, regs_a, regs_d)


_F8F6F4 = ("e4m3", "e5m2")


@row("v_mfma_f32_32x32x64_f8f6f4 v_mfma_f32_16x16x128_f8f6f4")
def v_mfma_f8f6f4(c: Context) -> None:
    """As MFMA; cbsz and blgp name the formats of A and B (8-bit ones only here)."""
    m, k = (32, 64) if "32x32x64" in c.base else (16, 128)
    formats = (c.number("cbsz"), c.number("blgp"))
    if any(f not in (0, 1) for f in formats) or c.number("abid"):
        raise Unmodelled("matrix format")
    regs_d = m * m // 64
    attr = Mma("mfma", c.target.name, m, m, k,
               MatrixOperand("regs", _F8F6F4[formats[0]], mfma_a(m, k, 8), 8),
               MatrixOperand("regs", _F8F6F4[formats[1]], mfma_b(m, k, 8), 8),
               MatrixOperand("regs", "f32", mfma_c(m, m), regs_d), "f32", lanes=64)
    _emit(c, attr, 8, 8, regs_d)


def _f64(c: Context, m: int, n: int, k: int) -> None:
    """f64: registers go in pairs. Row 4 element + lane / 16 (AMD lab notes, matrix cores)."""
    if (m, n, k) != (16, 16, 4):
        raise Unmodelled("matrix instruction with several blocks")
    attr = Mma("mfma", c.target.name, m, n, k,
               MatrixOperand("regs", "f64", mfma_a(m, k, 64), 1),
               MatrixOperand("regs", "f64", mfma_b(n, k, 64), 1),
               MatrixOperand("regs", "f64", mfma_c(m, n, 64), 4), "f64", lanes=64)
    e = c.e
    words = [*_all_lanes(c, 1, 2), *_all_lanes(c, 2, 2), *_all_lanes(c, 3, 8)]
    src = tuple(e.pack(words[i], words[i + 1]) for i in range(0, 12, 2))
    dst = tuple(e.registers.temp(64) for _ in range(4))
    for reg in dst:
        e.defs[reg] = ("mma", src, attr)
    e.op("mma", dst, src, attr)
    file, first, found = c.index(0)
    if found != 8:
        raise Unmodelled("matrix result")
    for r, reg in enumerate(dst):
        for half in range(2):
            c.writes.add((file, first + 2 * r + half))
            c.m.write(file, first + 2 * r + half, e.extract(reg, 32 * half, 32), TRUE)


def _no_broadcast(c: Context) -> None:
    for name in ("cbsz", "abid", "blgp"):
        if c.number(name):
            raise Unmodelled(f"modifier {name}")


def _count(c: Context, i: int) -> int:
    return c.index(i)[2]


def _all_lanes(c: Context, i: int, count: int) -> list[Source]:
    """Registers of a matrix operand: all lanes are read, whatever exec says."""
    op = c.operand(i)
    if isinstance(op, Immediate):
        return [c.literal(op, "f32")] * count
    file, n, found = c.index(i)
    if found != count:
        raise Unmodelled(f"operand {i} has {found} registers, {count} expected")
    return [c.fetch(file, n + r, across=True) for r in range(count)]


def _emit(c: Context, attr: Mma, regs_a: int, regs_b: int, regs_d: int) -> None:
    src = (*_all_lanes(c, 1, regs_a), *_all_lanes(c, 2, regs_b), *_all_lanes(c, 3, regs_d))
    dst = tuple(c.e.registers.temp(32) for _ in range(regs_d))
    for reg in dst:
        c.e.defs[reg] = ("mma", src, attr)
        c.e.quiet.add(reg)
    c.e.op("mma", dst, src, attr)
    if overlaps_factors(c.inst):
        c.e.premises.add("factors-first")
    file, n, found = c.index(0)
    if found != regs_d:
        raise Unmodelled("matrix result")
    for k, reg in enumerate(dst):
        c.writes.add((file, n + k))
        c.m.write(file, n + k, reg, TRUE)


_WMMA = re.compile(r"v_wmma_(f32|i32)_16x16x16_(f16|bf16|iu8|iu4|(?:fp8|bf8)_(?:fp8|bf8))$")


@row("v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16 v_wmma_i32_16x16x16_iu8 "
     "v_wmma_i32_16x16x16_iu4 v_wmma_f32_16x16x16_fp8_fp8 v_wmma_f32_16x16x16_fp8_bf8 "
     "v_wmma_f32_16x16x16_bf8_fp8 v_wmma_f32_16x16x16_bf8_bf8")
def v_wmma(c: Context) -> None:
    """D = A * B + C over one wave of 32 lanes."""
    match = _WMMA.match(c.base)
    if match is None or c.wave != 32:
        raise Unmodelled("matrix shape")
    neg = c.bits("neg_lo", 3)
    neg_hi = c.bits("neg_hi", 3)
    if c.flag("clamp"):
        raise Unmodelled("clamp on a matrix step")
    generation = 12 if c.target.major >= 12 else 11
    d_type = _D[match[1]]
    if match[2] in ("iu8", "iu4"):
        bits = 8 if match[2] == "iu8" else 4
        a_type, b_type = (f"{'s' if s else 'u'}{bits}" for s in neg[:2])
        if any(neg_hi) or neg[2]:
            raise Unmodelled("sign modifier on a matrix operand")
    else:
        if any(neg) or any(neg_hi):
            raise Unmodelled("sign modifier on a matrix operand")
        a_type, b_type = _types(c, match[2])
        bits = _BITS[match[2].split("_")[0]]
    fragment = wmma_a(16, bits, generation)
    regs = fragment.row.shape[1] * bits // 32
    if generation == 11 and match[2][:3] in ("fp8", "bf8"):
        raise Unmodelled("matrix type")
    attr = Mma("wmma", c.target.name, 16, 16, 16,
               MatrixOperand("regs", a_type, fragment, regs),
               MatrixOperand("regs", b_type, wmma_b(16, bits, generation), regs),
               MatrixOperand("regs", d_type, wmma_c(generation), 8), d_type, lanes=32)
    _emit(c, attr, regs, regs, 8)


