"""The bits of a matrix step: D = A B + C by a `StepModel`, vectorised over elements and batches.

In: bit patterns a[..., m, k], b[..., k, n], c[..., m, n] of the model's types (leading axes
broadcast). Out: d[..., m, n] as bit patterns of the accumulator type. Everything is integer
arithmetic on aligned significands, so no result depends on the machine's own floats.
Sources: MMA-Sim (arXiv 2511.10909) for the models, an H200 for sm_90 (tests/arith/data).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith.convert import convert
from checker.arith.floats import arithmetic
from checker.arith.formats import (
    FORMATS,
    Bits,
    Doubles,
    Format,
    UnsupportedArithmetic,
    bits_dtype,
    decode,
    flush_subnormal,
    round_to,
)
from checker.arith.steps import StepModel
from checker.core import Conv, FloatMode

__all__ = ["mma"]

Ints = NDArray[np.int64]
_CHUNK = 1 << 16  # products held at once: arrays that stay in the cache

# What a step's result is rounded to, by (accumulator type, fraction bits).
_RESULTS = {
    ("f32", 23): FORMATS["f32"],
    ("f32", 13): Format("e8m13", 22, 8, 13, 127, (1 << 21) - 1, 0xFF << 13, (0xFF << 13) - 1),
    ("f16", 10): FORMATS["f16"],
}


def mma(model: StepModel, a: Bits, b: Bits, c: Bits, *, neg_a: bool = False, neg_b: bool = False
        ) -> Bits:
    """Return the bits of one matrix instruction; `neg_*` multiplies an operand by -1."""
    if model.kind in {"int", "int_sat"}:
        return _integer(model, a, b, c)
    a, b = _operand(model.a_type, a, neg_a), _operand(model.b_type, b, neg_b)
    c = np.asarray(c).astype(bits_dtype(FORMATS[model.acc_type].width), copy=False)
    with np.errstate(all="ignore"):
        if model.kind == "fma":
            return _sequential(model, a, b, c)
        if model.compute != model.a_type:
            a = convert(Conv(model.a_type, model.compute), a)
            b = convert(Conv(model.b_type, model.compute), b)
        total = c if model.chain == "carry" else np.zeros_like(c)
        for step in model.steps:
            ks = list(step)
            total = _STEPS[model.kind](model, a[..., ks], b[..., ks, :], total)
        if model.chain == "add":
            total = arithmetic("fadd", FloatMode(model.acc_type), c, total)
        return total


def _operand(kind: str, bits: Bits, negative: bool) -> Bits:
    """The operand in its own width; tf32 keeps its f32 pattern."""
    width = 32 if kind in {"tf32", "xf32"} else FORMATS[kind].width
    bits = np.asarray(bits).astype(bits_dtype(width), copy=False)
    return bits ^ bits.dtype.type(1 << width - 1) if negative else bits


# --- integers and sequential fma --------------------------------------------------------------


def _integer(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    product = _whole(model.a_type, a).astype(np.float64) @ _whole(model.b_type, b)
    signed = model.acc_type == "s32"
    bits = np.asarray(c).astype(np.uint32, copy=False)
    total = product.astype(np.int64) + (bits.view(np.int32) if signed else bits)
    if model.kind == "int_sat":
        total = np.clip(total, -(1 << 31), (1 << 31) - 1) if signed else np.clip(
            total, 0, (1 << 32) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _whole(kind: str, bits: Bits) -> Ints:
    width = int(kind[1:])
    low = np.asarray(bits).astype(np.int64) & ((1 << width) - 1)
    return np.where(low >> width - 1 == 1, low - (1 << width), low) if kind[0] == "s" else low


def _sequential(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    mode = FloatMode(model.acc_type)
    for (k,) in model.steps:
        c = arithmetic("ffma", mode, a[..., k, None], b[..., None, k, :], c)
    return c


# --- aligned integer significands -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parts:
    """value = sig * 2**(exp - man); subnormals keep the lowest exponent; `probe` is set where an
    operand is not finite: sign, infinity or NaN of every element."""

    sig: Ints
    exp: Ints
    man: int
    probe: Doubles | None


def _parts(kind: str, bits: Bits) -> _Parts:
    narrow = kind in {"tf32", "xf32"}
    fmt = FORMATS["f32" if narrow else kind]
    man = 10 if narrow else fmt.man_bits
    if narrow:
        bits = bits & np.uint32(0xFFFFE000)
    raw = bits.astype(np.int64)
    mag = raw & (fmt.sign - 1)
    field = mag >> fmt.man_bits
    sig = (mag & ((1 << fmt.man_bits) - 1)) | ((field > 0).astype(np.int64) << fmt.man_bits)
    sig = sig >> (fmt.man_bits - man)
    sig = np.where(raw & fmt.sign, -sig, sig)
    exp = np.maximum(field, 1) - fmt.bias
    value = decode(fmt, bits)
    finite = np.isfinite(value)
    if finite.all():
        return _Parts(sig, exp, man, None)
    return _Parts(np.where(finite, sig, 0), exp, man, np.where(finite, np.sign(sig), value))


def _products(a: _Parts, b: _Parts) -> tuple[Ints, Ints, int]:
    """Significands and exponents of all products [..., m, n, k], fraction bits."""
    sig = a.sig[..., :, None, :] * np.swapaxes(b.sig, -1, -2)[..., None, :, :]
    exp = a.exp[..., :, None, :] + np.swapaxes(b.exp, -1, -2)[..., None, :, :]
    return sig, exp, a.man + b.man


def _probe(a: _Parts, b: _Parts, c: _Parts) -> Doubles | None:
    """Sum of signs and special values: not finite exactly where the step's result is special."""
    if a.probe is None and b.probe is None and c.probe is None:
        return None
    pa, pb, pc = (np.sign(p.sig) * 1.0 if p.probe is None else p.probe for p in (a, b, c))
    terms = pa[..., :, None, :] * np.swapaxes(pb, -1, -2)[..., None, :, :]
    total: Doubles = terms.sum(axis=-1) + pc
    return total


def _truncate(sig: Ints, shift: Ints) -> Ints:
    """sig / 2**shift toward zero."""
    out: Ints = (np.sign(sig) * (np.abs(sig) >> np.minimum(shift, 62))).astype(np.int64)
    return out


def _scaled(total: Ints, exp: Ints) -> Doubles:
    """total * 2**exp as float64: exact, sums have fewer than 53 bits."""
    return np.ldexp(total.astype(np.float64), exp)


def _finish(fmt: Format, value: Doubles, rnd: str, probe: Doubles | None) -> Bits:
    """Round, overflow to infinity in every mode, special values last."""
    if probe is not None:
        value = np.where(np.isfinite(probe), value, probe)
    if fmt.name == "f32" and rnd == "rz":
        return _truncated_single(value)
    out = round_to(fmt, value, rnd)
    kind = out.dtype.type
    out = np.where((out & kind(fmt.sign - 1)) == 0, kind(0), out)  # zero results are +0 (sm_90)
    if rnd == "rz":
        over = np.isfinite(value) & (np.abs(value) >= 2.0 ** (fmt.bias + 1))
        inf = fmt.inf or 0
        out = np.where(over, np.where(value < 0, inf | fmt.sign, inf), out).astype(out.dtype)
    return out


def _truncated_single(value: Doubles) -> Bits:
    """Toward zero to f32, from 2**128 on to infinity; zero results are +0, NaN canonical."""
    single = value.astype(np.float32)
    size = np.abs(value)
    bits = single.view(np.uint32)
    bits = bits - ((np.abs(single) > size) & (size < 2.0**128))
    bits = np.where(bits & np.uint32(0x7FFFFFFF), bits, np.uint32(0)).astype(np.uint32)
    nan = np.isnan(value)
    return np.where(nan, np.uint32(FORMATS["f32"].nan), bits) if nan.any() else bits


# --- NVIDIA: align to the largest exponent, truncate, add, round ------------------------------

_FLOOR = -133  # zeros align nothing, but nothing is aligned below this exponent (sm_90)


def _fused(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    """One fused step."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    a, b, c = (np.broadcast_to(x, lead + x.shape[-2:]).reshape(-1, *x.shape[-2:])
               for x in (a, b, c))
    converted = model.compute != model.a_type
    pa, pb, pc = (_parts(kind, x) for kind, x in (
        (model.compute, a), (model.compute if converted else model.b_type, b),
        (model.acc_type, c)))
    bits = model.fraction_bits
    left, right = _Terms.of(pa, bits - pa.man - pb.man), _Terms.of(pb, 0)
    top = np.where(pc.sig == 0, _FLOOR, pc.exp)
    total, top = (_many if len(c) >= c.shape[-1] else _few)(left, right, top)
    shift = max(0, bits - pc.man)
    total = total + _truncate(pc.sig << np.int64(shift), top - pc.exp + (pc.man + shift - bits))
    fmt = _RESULTS[model.acc_type, model.result_bits]
    out = _finish(fmt, _scaled(total, top - bits), model.rounding, _probe(pa, pb, pc))
    if fmt.name == "e8m13":
        nan = out == out.dtype.type(fmt.nan)
        wide = out.astype(np.uint32) << np.uint32(10)
        out = np.where(nan, np.uint32(FORMATS["f32"].nan), wide)
    return out.reshape(lead + out.shape[1:])


@dataclass(frozen=True, slots=True)
class _Terms:
    """An operand as int32 arrays: magnitudes, exponents (far down for zeros), signs (0 or -1)."""

    mag: Any
    exp: Any
    sign: Any

    @staticmethod
    def of(parts: _Parts, lead: int) -> _Terms:
        """`lead` zero bits are appended to the magnitudes."""
        exp = np.where(parts.sig == 0, -100_000, parts.exp)
        return _Terms(*(x.astype(np.int32) for x in (
            np.abs(parts.sig) << lead, exp, parts.sig >> 63)))

    def view(self, *axes: int) -> _Terms:
        """Axes in the given order, in new memory."""
        return _Terms(*(np.ascontiguousarray(x.transpose(axes))
                        for x in (self.mag, self.exp, self.sign)))

    def at(self, index: Any) -> _Terms:
        """A part of every array."""
        return _Terms(self.mag[index], self.exp[index], self.sign[index])


def _many(left: _Terms, right: _Terms, top: Ints) -> tuple[Ints, Ints]:
    """Many small products: the batch is the innermost axis. top: exponents of the accumulators."""
    left, right = left.view(2, 1, 0), right.view(1, 2, 0)  # [k, m, batch], [k, n, batch]
    size, rows, batch = left.mag.shape
    total, high = np.empty(top.shape, np.int64), np.empty(top.shape, np.int64)
    wide = max(1, min(batch, _CHUNK // (size * right.mag.shape[1])))
    for low in range(0, batch, wide):
        some = slice(low, low + wide)
        x, y = left.at((..., some)), right.at((slice(None), None, slice(None), some))
        step = max(1, _CHUNK // (size * right.mag.shape[1] * wide))
        for row in range(0, rows, step):
            here = slice(row, row + step)
            part = _sum(x.at((slice(None), here, None)), y, top[some, here].transpose(1, 2, 0))
            total[some, here], high[some, here] = (z.transpose(2, 0, 1) for z in part)
    return total, high


def _few(left: _Terms, right: _Terms, top: Ints) -> tuple[Ints, Ints]:
    """Few large products: one at a time, the columns innermost."""
    left, right = left.view(0, 2, 1), right  # [batch, k, m], [batch, k, n]
    total, high = np.empty(top.shape, np.int64), np.empty(top.shape, np.int64)
    step = max(1, _CHUNK // (left.mag.shape[1] * right.mag.shape[2]))
    for at in range(len(top)):
        y = right.at((at, slice(None), None))
        for row in range(0, top.shape[1], step):
            here = slice(row, row + step)
            x = left.at((at, slice(None), here, None))
            total[at, here], high[at, here] = _sum(x, y, top[at, here])
    return total, high


def _sum(left: _Terms, right: _Terms, top: Ints) -> tuple[Ints, Ints]:
    """Sum over axis 0 of the products, each cut below the largest exponent (`top` included)."""
    exp = left.exp + right.exp
    top = np.maximum(exp.max(axis=0), top)
    term = left.mag * right.mag  # below 2**27
    np.subtract(top.astype(np.int32), exp, out=exp)
    np.right_shift(term, np.minimum(exp, 31, out=exp), out=term)
    sign = left.sign ^ right.sign
    np.subtract(np.bitwise_xor(term, sign, out=term), sign, out=term)
    return term.sum(axis=0, dtype=np.int64), top


# --- CDNA ------------------------------------------------------------------------------------


def _block(sig: Ints, exp: Ints, man: int, bits: int) -> tuple[Ints, Ints]:
    """Sum of products truncated to `bits` below the largest exponent; zeros count as 2**-126."""
    exp = np.where(sig == 0, -126, exp)
    top = exp.max(axis=-1)
    return _truncate(sig << np.int64(bits - man), top[..., None] - exp).sum(axis=-1), top


_DEEP = 31  # fraction bits in which the products' sum meets the accumulator


def _with_accumulator(total: Ints, top: Ints, c: _Parts, bits: int, cut: bool, probe: Doubles | None
                      ) -> Bits:
    """Add the accumulator, both rounded down below the larger exponent; round to nearest."""
    high = np.maximum(top, c.exp)
    total = (total << np.int64(_DEEP - bits)) >> np.minimum(high - top, 62)
    other = (c.sig << np.int64(bits - c.man)) >> np.minimum(high - c.exp, 62)
    if cut:
        other = np.where(c.exp < high - bits - 1, 0, other)
    total = total + (other << np.int64(_DEEP - bits))
    return _finish(FORMATS["f32"], _scaled(total, high - _DEEP), "rn", probe)


def _tr(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    """CDNA3 f16, bf16, xf32 (MMA-Sim, TR-FDPA)."""
    pa, pb, pc = _parts(model.compute, a), _parts(model.compute, b), _parts("f32", c)
    sig, exp, man = _products(pa, pb)
    probe = _probe(pa, pb, pc)
    big = (np.abs(sig) >= 2 << man) + exp >= 128  # the product itself overflows f32
    if (big & (sig != 0)).any():
        inf = np.where(big & (sig != 0), np.sign(sig) * np.inf, 0.0).sum(axis=-1)
        probe = inf if probe is None else probe + inf
    total, top = _block(sig, exp, man, model.fraction_bits)
    return _with_accumulator(total, top, pc, model.fraction_bits, False, probe)


def _gtr(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    """CDNA3 fp8: even and odd products apart (MMA-Sim, GTR-FDPA)."""
    pa, pb, pc = _parts(model.a_type, a), _parts(model.b_type, b), _parts("f32", c)
    sig, exp, man = _products(pa, pb)
    bits = model.fraction_bits
    even, even_top = _block(sig[..., ::2], exp[..., ::2], man, bits)
    odd, odd_top = _block(sig[..., 1::2], exp[..., 1::2], man, bits)
    top = np.maximum(even_top, odd_top)
    total = (even >> np.minimum(top - even_top, 62)) + (odd >> np.minimum(top - odd_top, 62))
    return _with_accumulator(total, top, pc, bits, True, _probe(pa, pb, pc))


def _pairs(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    """CDNA2: f32 products and sums of pairs, subnormals flushed (MMA-Sim, FTZ-MUL-ADD)."""
    fmt, single = FORMATS[model.a_type], FORMATS["f32"]
    out = FloatMode("f32", denorm="flush_out")

    def positive(kind: Format, bits: Bits) -> Bits:  # subnormals and -0 give +0
        flushed = flush_subnormal(kind, bits)
        return np.where(flushed == flushed.dtype.type(kind.sign), flushed.dtype.type(0), flushed)

    def wide(bits: Bits) -> Bits:
        return convert(Conv(fmt.name, "f32"), bits)

    x, y = wide(positive(fmt, a)), wide(positive(fmt, b))
    terms = [arithmetic("fmul", out, x[..., k, None], y[..., None, k, :])
             for k in range(a.shape[-1])]
    while len(terms) > 1:
        terms = [arithmetic("fadd", out, terms[i], terms[i + 1]) for i in range(0, len(terms), 2)]
    return arithmetic("fadd", out, positive(single, c), terms[0])


def _exact(model: StepModel, a: Bits, b: Bits, c: Bits) -> Bits:
    """CDNA1: the exact sum, rounded once (MMA-Sim, E-FDPA); element by element."""
    pa, pb, pc = _parts(model.a_type, a), _parts(model.b_type, b), _parts("f32", c)
    sig, exp, man = _products(pa, pb)
    sig = np.concatenate([sig, pc.sig[..., None]], axis=-1)
    exp = np.concatenate([exp - man, pc.exp[..., None] - pc.man], axis=-1)
    low = exp.min(axis=-1)
    flat = zip(sig.reshape(-1, sig.shape[-1]).tolist(),
               (exp - low[..., None]).reshape(-1, sig.shape[-1]).tolist(), strict=True)
    value = np.array([_sticky(sum(s << e for s, e in zip(*row, strict=True))) for row in flat])
    scaled = np.ldexp(value.reshape(low.shape), low)
    return _finish(FORMATS["f32"], scaled, "rn", _probe(pa, pb, pc))


def _sticky(total: int) -> float:
    """An integer cut to 53 bits, the last one sticky."""
    drop = abs(total).bit_length() - 53
    if drop <= 0:
        return float(total)
    kept = abs(total) >> drop | (abs(total) & (1 << drop) - 1 != 0)
    return math.copysign(math.ldexp(kept, drop), total)


def _unknown(model: StepModel, *_: Any) -> Bits:
    raise UnsupportedArithmetic(f"matrix steps of kind {model.kind}")


_STEPS = {"fused": _fused, "tr": _tr, "gtr": _gtr, "pairs": _pairs, "exact": _exact}
