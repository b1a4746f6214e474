"""Operands for the matrix kernels of `matrix.cu`, and what the step models say of them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from checker.arith.formats import FORMATS
from checker.arith.matrix import mma
from checker.arith.steps import StepModel, step_model
from checker.core import MatrixOperand, Mma

from ..values import below, stream, with_exponents


@dataclass(frozen=True)
class Kernel:
    """One entry of matrix.cu: rows x 8 outputs a tile, K elements of `kind`."""

    name: str
    unit: str
    kind: str
    k: int
    acc: str = "f32"
    rows: int = 16
    satfinite: bool = False

    def model(self) -> StepModel:
        operand = MatrixOperand("regs", self.kind)
        found = step_model(Mma(self.unit, "sm_90", self.rows, 8, self.k, operand, operand,
                               MatrixOperand("regs", self.acc), self.acc,
                               satfinite=self.satfinite))
        assert found is not None, self
        return found


KERNELS = [
    Kernel("mma_f16_k16", "mma.sync", "f16", 16), Kernel("mma_f16_k8", "mma.sync", "f16", 8),
    Kernel("mma_f16_k16_f16", "mma.sync", "f16", 16, "f16"),
    Kernel("mma_f16_k8_f16", "mma.sync", "f16", 8, "f16"),
    Kernel("mma_bf16_k16", "mma.sync", "bf16", 16), Kernel("mma_bf16_k8", "mma.sync", "bf16", 8),
    Kernel("mma_tf32_k8", "mma.sync", "tf32", 8), Kernel("mma_tf32_k4", "mma.sync", "tf32", 4),
    Kernel("mma_e4m3_k32", "mma.sync", "e4m3", 32), Kernel("mma_e4m3_k16", "mma.sync", "e4m3", 16),
    Kernel("mma_e5m2_k32", "mma.sync", "e5m2", 32), Kernel("mma_e5m2_k16", "mma.sync", "e5m2", 16),
    Kernel("mma_e5m2_k32_f16", "mma.sync", "e5m2", 32, "f16"),
    Kernel("mma_e4m3_k16_f16", "mma.sync", "e4m3", 16, "f16"),
    Kernel("mma_s8_k32", "mma.sync", "s8", 32, "s32"),
    Kernel("mma_s8_k32_sat", "mma.sync", "s8", 32, "s32", satfinite=True),
    Kernel("mma_u8_k16_sat", "mma.sync", "u8", 16, "s32", satfinite=True),
    Kernel("mma_f64_k4", "mma.sync", "f64", 4, "f64", 8),
    Kernel("mma_f64_k16", "mma.sync", "f64", 16, "f64"),
    Kernel("wgmma_f16_k16", "wgmma", "f16", 16, rows=64),
    Kernel("wgmma_bf16_k16", "wgmma", "bf16", 16, rows=64),
    Kernel("wgmma_tf32_k8", "wgmma", "tf32", 8, rows=64),
    Kernel("wgmma_e4m3_k32", "wgmma", "e4m3", 32, rows=64),
    Kernel("wgmma_e5m2_k32", "wgmma", "e5m2", 32, rows=64),
    Kernel("wgmma_f16_k16_f16", "wgmma", "f16", 16, "f16", 64),
    Kernel("wgmma_e4m3_k32_f16", "wgmma", "e4m3", 32, "f16", 64),
    Kernel("wgmma_s8_k32", "wgmma", "s8", 32, "s32", 64),
    Kernel("wgmma_s8_k32_sat", "wgmma", "s8", 32, "s32", 64, True),
]

CATEGORIES = ("normal", "wide", "tiny", "zeros", "overflow", "special", "stairs", "cancel", "faint",
              "gates")


def operands(kernel: Kernel, tiles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A [tile, row, k], B [tile, column, k] (K-major), C [tile, row, column]: bit patterns."""
    seed = zlib.crc32(kernel.name.encode()) % 100_000 * 1000
    shapes = ((kernel.rows, kernel.k), (8, kernel.k), (kernel.rows, 8))
    if kernel.acc == "s32":
        a, b, c = (stream(seed + i, tiles * s[0] * s[1]).reshape(tiles, *s)
                   for i, s in enumerate(shapes))
        c = (c >> np.uint64(32)).astype(np.uint32)
        edge = c | np.uint32(0x7FFFC000)
        kinds = np.arange(tiles)[:, None, None] % 4
        c = np.where(kinds == 0, edge, np.where(kinds == 1, edge ^ np.uint32(0xFFFFC000), c))
        same = kinds % 2 == 0  # large sums of one sign
        a, b = (np.where(same, x | np.uint64(0x60), x).astype(np.uint8) for x in (a, b))
        return a, b, c
    parts = [_category(kernel, CATEGORIES[t % len(CATEGORIES)], seed + 10 * t, shapes)
             for t in range(tiles)]
    a, b, c = (np.stack(column) for column in zip(*parts, strict=True))
    return a, b, c


def _category(kernel: Kernel, name: str, seed: int, shapes: tuple[tuple[int, int], ...]
              ) -> list[np.ndarray]:
    kinds = ["f32" if kernel.kind == "tf32" else kernel.kind] * 2 + [kernel.acc]
    out = []
    for place, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)):
        fmt = FORMATS[kind]
        size, top = shape[0] * shape[1], (1 << fmt.exp_bits) - 1
        if fmt.inf is None:
            top += 1
        if name in {"normal", "cancel"}:
            exps = fmt.bias - 2 + below(seed + place, size, 4)
        elif name == "wide":
            exps = below(seed + place, size, top)
        elif name == "tiny":
            exps = below(seed + place, size, 3) if place < 2 else below(seed + place, size, 30)
        elif name == "overflow":
            span = max(2, top // 8)
            exps = top - 1 - below(seed + place, size, span)
            if kind in {"bf16", "f32"} and place < 2:
                exps = fmt.bias + 58 + below(seed + place, size, 7)
        elif name == "stairs":
            span = min(40, top - 2)
            exps = np.clip(fmt.bias - span // 2 + below(seed + place, size, span), 0, top - 1)
        elif name == "faint":  # products and accumulator around the smallest subnormal result
            if place == 2:
                exps = below(seed + place, size, 2) * below(seed + 3, size, 3)
            else:
                low = {"f16": 5, "bf16": 127 - 75, "f32": 127 - 75, "f64": 1023 - 520}.get(
                    kind, 1)
                exps = np.clip(low - 5 + below(seed + place, size, 9), 0, top - 1)
        elif name == "gates":  # zeros against large partners, ties and what may break them
            ks = np.tile(np.arange(shape[1]), shape[0])
            large = top - 1 - below(seed + place, size, 3)
            middle = np.maximum(fmt.bias - 13 + below(seed + 20 + place, size, 3), 0)
            small = np.maximum(fmt.bias - 24 + below(seed + 30 + place, size, 12), 0)
            exps = np.where(ks % 2 == 0, large, np.where(ks % 4 == 3, small, middle))
            if place == 2:
                exps = below(seed + place, size, 2) * 0
        else:  # zeros, special
            exps = np.clip(fmt.bias - 6 + below(seed + place, size, 12), 0, top - 1)
        bits = with_exponents(fmt, seed + 7 + place, exps)
        pick = below(seed + 5 + place, size, 16)
        if name == "zeros":
            bits = np.where(pick < 10, bits & bits.dtype.type(fmt.sign), bits)
        if name == "gates":
            short = bits & bits.dtype.type(~((1 << fmt.man_bits - 1) - 1) & (2 * fmt.sign - 1))
            zero = bits & bits.dtype.type(fmt.sign)
            zeros = (ks % 2 == 0) & (place == 0) if place < 2 else pick < 12
            bits = np.where(zeros, zero, np.where(pick % 4 > 0, short, bits))
        if name == "faint":
            bits = np.where(pick < 4, bits & bits.dtype.type(fmt.sign), bits)
        if name == "special":
            odd = np.array([fmt.nan, fmt.inf if fmt.inf is not None else fmt.nan,
                            (fmt.inf or 0) | fmt.sign, fmt.sign], bits.dtype)
            bits = np.where(pick == 0, odd[below(seed + 9, size, 4)], bits)
        out.append(bits.reshape(shape))
    if name == "cancel":  # the second half of k is the negated first half, one bit off
        half = kernel.k // 2
        a, b = out[0], out[1]
        a[:, half:] = a[:, :half] ^ a.dtype.type(FORMATS[kinds[0]].sign)
        b[:, half:] = b[:, :half] ^ (below(seed + 11, b[:, :half].size, 2) << (
            13 if kernel.kind == "tf32" else 0)).reshape(8, half).astype(b.dtype)
        out[2] = np.where(below(seed + 12, out[2].size, 2).reshape(out[2].shape) == 0, out[2],
                          out[2] & out[2].dtype.type(FORMATS[kernel.acc].sign))
    return out


def expected(kernel: Kernel, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What the model returns for these operands."""
    return mma(kernel.model(), a, np.swapaxes(b, -1, -2), c)
