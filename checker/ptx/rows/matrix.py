"""Matrix instructions of a warp and of a warp group (PTX ISA 9.7.14, 9.7.15)."""

from __future__ import annotations

import re

from checker.core import Const, LdMatrix, MatrixOperand, Mma, Source
from checker.ptx.context import Line, Refuse, row
from checker.ptx.fragments import (
    a_fragment,
    b_fragment,
    c_fragment,
    element_bits,
    wgmma_a,
    wgmma_d,
)
from checker.syntax import Immediate, Vector

# Shapes with the layout of fragments.py: (m, n, k) by operand type.
_HALF = {(16, 8, 16), (16, 8, 8)}
_BYTE = {(16, 8, 32), (16, 8, 16), (8, 8, 16)}
SHAPES: dict[str, set[tuple[int, int, int]]] = {
    "f16": _HALF, "bf16": _HALF, "tf32": {(16, 8, 8), (16, 8, 4)},
    "e4m3": _BYTE - {(8, 8, 16)}, "e5m2": _BYTE - {(8, 8, 16)}, "s8": _BYTE, "u8": _BYTE,
    "s4": {(16, 8, 64), (16, 8, 32), (8, 8, 32)}, "u4": {(16, 8, 64), (16, 8, 32), (8, 8, 32)},
    "f64": {(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)},
}
# What may accumulate what.
ACCUMULATORS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"),
    "e5m2": ("f16", "f32"), "s8": ("s32",), "u8": ("s32",), "s4": ("s32",), "u4": ("s32",),
    "f64": ("f64",),
}


def _shape(x: Line) -> tuple[int, int, int]:
    for mod in x.mods:
        match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", mod)
        if match:
            x.mods.remove(mod)
            return int(match[1]), int(match[2]), int(match[3])
    raise Refuse("no shape")


def _matrix_type(x: Line) -> str:
    if not x.mods or x.mods[-1] not in (*ACCUMULATORS, "f32", "s32"):
        raise Refuse("matrix type")
    return x.mods.pop()


def _registers(x: Line, operand: int, count: int, width: int) -> tuple[Source, ...]:
    items = x.vector(operand)
    if len(items) != count:
        raise Refuse("register count")
    return tuple(x.source(i, f"b{width}") for i in items)


@row("mma")
def mma(x: Line) -> None:
    """mma.sync.aligned.shape.row.col{.satfinite}{.kind::f8f6f4}.d.a.b.c d, a, b, c.

    Refused: sparse (mma.sp), block-scaled, one-bit forms, m8n8k4 f16.
    """
    x.count(4)
    if not x.has("sync"):
        raise Refuse("mma form")
    x.ignore("aligned")
    shape = _shape(x)
    if not (x.has("row") and x.has("col")):
        raise Refuse("mma layout")
    satfinite = x.has("satfinite")
    c_type, b_type, a_type, d_type = (_matrix_type(x) for _ in range(4))
    if x.has("kind::f8f6f4") and a_type not in ("e4m3", "e5m2"):
        raise Refuse("kind")
    _check_types(shape, a_type, b_type, c_type, d_type, satfinite)
    m, n, k = shape
    a, b = element_bits(a_type), element_bits(b_type)
    c, d = element_bits(c_type), element_bits(d_type)
    wide = 64 if a_type == "f64" else 32
    counts = [rows * cols * bits // 32 // wide
              for rows, cols, bits in ((m, k, a), (k, n, b), (m, n, c), (m, n, d))]
    src = (*_registers(x, 1, counts[0], wide), *_registers(x, 2, counts[1], wide),
           *_registers(x, 3, counts[2], wide))
    items = x.vector(0)
    if len(items) != counts[3]:
        raise Refuse("register count")
    dst = tuple(x.dest(i, wide) for i in items)
    x.put("mma", dst, src, Mma(
        "mma.sync", x.builder.target, m, n, k,
        MatrixOperand("regs", a_type, a_fragment(m, k, a), counts[0]),
        MatrixOperand("regs", b_type, b_fragment(n, k, b), counts[1]),
        MatrixOperand("regs", c_type, c_fragment(m, n, c), counts[2]),
        d_type, satfinite=satfinite))


def _check_types(shape: tuple[int, int, int], a: str, b: str, c: str, d: str,
                 satfinite: bool) -> None:
    families = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})
    if a != b and not any({a, b} <= family for family in families):
        raise Refuse("mixed matrix types")
    if shape not in SHAPES[a] or c not in ACCUMULATORS[a] or d not in ACCUMULATORS[a]:
        raise Refuse("matrix shape")
    if satfinite and a not in ("s8", "u8", "s4", "u4"):
        raise Refuse("satfinite")


# --- moving matrices ---


_NUMBERS = {"x1": 1, "x2": 2, "x4": 4}


@row("ldmatrix")
def ldmatrix(x: Line) -> None:
    """ldmatrix.sync.aligned.{m8n8.xN{.trans}.b16, m16n16.xN.trans.b8}{.shared} {r..}, [a]."""
    x.count(2)
    attr, registers, space = _matrix_access(x, "m16n16", 16, 2)
    items = x.vector(0)
    if len(items) != registers:
        raise Refuse("register count")
    x.put("ldmatrix", tuple(x.dest(i, 32) for i in items), (x.flat(1, space),), attr)


@row("stmatrix")
def stmatrix(x: Line) -> None:
    """stmatrix.sync.aligned.{m8n8.xN{.trans}.b16, m16n8.xN.trans.b8}{.shared} [a], {r..}."""
    x.count(2)
    attr, registers, space = _matrix_access(x, "m16n8", 8, 1)
    address = x.flat(0, space)
    x.put("stmatrix", (), (address, *_registers(x, 1, registers, 32)), attr)


def _matrix_access(x: Line, byte_shape: str, byte_cols: int,
                   byte_registers: int) -> tuple[LdMatrix, int, str]:
    if not x.has("sync"):
        raise Refuse("matrix access form")
    x.ignore("aligned")
    num = _NUMBERS[x.one_of(*_NUMBERS)]
    trans = x.has("trans")
    space = x.one_of("shared", "shared::cta", default="").split("::")[0]
    if x.has("m8n8"):
        x.only(x.type(), "b16")
        return LdMatrix(num, trans), num, space
    if not x.has(byte_shape) or not trans:
        raise Refuse("matrix shape")
    x.only(x.type(), "b8")
    return LdMatrix(num, True, 16, byte_cols, 8), num * byte_registers, space


@row("movmatrix")
def movmatrix(x: Line) -> None:
    """movmatrix.sync.aligned.m8n8.trans.b16 d, a."""
    x.count(2)
    if not (x.has("sync") and x.has("m8n8") and x.has("trans")):
        raise Refuse("movmatrix form")
    x.ignore("aligned")
    x.only(x.type(), "b16")
    x.put("movmatrix", (x.dest(0, 32),), (x.source(1, "b32"),), None)


# --- wgmma (9.7.15) ---


@row("wgmma.fence")
def wgmma_fence(x: Line) -> None:
    """wgmma.fence.sync.aligned."""
    x.count(0)
    x.ignore("sync", "aligned")
    x.put("mma_fence", (), (), "wgmma")


@row("wgmma.commit_group")
def wgmma_commit(x: Line) -> None:
    """wgmma.commit_group.sync.aligned."""
    x.count(0)
    x.ignore("sync", "aligned")
    x.put("mma_commit", (), (), "wgmma")


@row("wgmma.wait_group")
def wgmma_wait(x: Line) -> None:
    """wgmma.wait_group.sync.aligned N."""
    x.count(1)
    x.ignore("sync", "aligned")
    x.put("mma_wait", (), (), ("wgmma", x.literal(0)))


_WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


@row("wgmma.mma_async")
def wgmma(x: Line) -> None:
    """wgmma.mma_async.sync.aligned.m64nNkK{.satfinite}.d.a.b d, a, b, scale-d{, scales, trans}.

    After scale-d: imm-scale-a and -b (floats), imm-trans-a (f16/bf16 with A in shared memory)
    and imm-trans-b (f16/bf16). Integer forms have none of them. Refused: sparse.
    """
    if not x.has("sync"):
        raise Refuse("wgmma form")
    x.ignore("aligned")
    m, n, k = _shape(x)
    satfinite = x.has("satfinite")
    b_type, a_type, d_type = (_matrix_type(x) for _ in range(3))
    if (m != 64 or n % 8 or not 8 <= n <= 256 or _WGMMA_K.get(a_type) != k
            or d_type not in ACCUMULATORS[a_type]):
        raise Refuse("wgmma shape")
    integer = a_type in ("s8", "u8")
    if a_type != b_type and not {a_type, b_type} <= {"e4m3", "e5m2"} and not (
            integer and b_type in ("s8", "u8")):
        raise Refuse("mixed matrix types")
    if satfinite and not integer:
        raise Refuse("satfinite")
    from_registers = isinstance(x.operands[1], Vector)
    half = a_type in ("f16", "bf16")
    x.count(4 + (0 if integer else 2) + ((1 if from_registers else 2) if half else 0))
    scales = [1, 1] if integer else [x.literal(4), x.literal(5)]
    trans = [x.literal(i) for i in range(6, len(x.operands))]
    if any(s not in (1, -1) for s in scales) or any(t not in (0, 1) for t in trans):
        raise Refuse("wgmma immediate")
    trans_b = bool(trans and trans[-1])
    trans_a = bool(len(trans) == 2 and trans[0])
    bits = element_bits(a_type)
    if from_registers:
        a = MatrixOperand("regs", a_type, wgmma_a(k, bits), 4, neg=scales[0] < 0)
        a_src = _registers(x, 1, 4, 32)
    else:
        a = MatrixOperand("smem", a_type, transposed=trans_a, neg=scales[0] < 0)
        a_src = (x.source(1, "b64"),)
    b = MatrixOperand("smem", b_type, transposed=trans_b, neg=scales[1] < 0)
    d_bits = element_bits(d_type)
    count = n * d_bits // 64
    c_src = _registers(x, 0, count, 32)
    dst = tuple(x.dest(i, 32) for i in x.vector(0))
    src = (*a_src, x.source(2, "b64"), *c_src, _scale_d(x))
    x.put("mma", dst, src, Mma(
        "wgmma", x.builder.target, m, n, k, a, b,
        MatrixOperand("regs", d_type, wgmma_d(n, d_bits), count), d_type,
        has_scale_d=True, satfinite=satfinite, lanes=128))


def _scale_d(x: Line) -> Source:
    """scale-d: a predicate, or an immediate that is 0 or not."""
    item = x.operands[3]
    if isinstance(item, Immediate):
        return Const(int(item.value != 0), 1)
    return x.predicate(3)
