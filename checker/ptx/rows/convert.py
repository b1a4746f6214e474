"""Conversions (PTX ISA 9.7.9, `cvt`), all type pairs; packed results put operand a on top."""

from __future__ import annotations

from checker.core import Const, Conv, Source
from checker.ptx.context import Line, Refuse, row, width_of

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "bf16", "f32", "f64")
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32, "e4m3": 8, "e5m2": 8,
         "ue8m0": 8, "e2m1": 4, "e2m3": 8, "e3m2": 8}
# Number of values each narrow format represents exactly inside a wider one: widening is exact.
_WIDER = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",), "f64": ()}
_INTEGRAL = ("rni", "rzi", "rmi", "rpi")
_ROUND = ("rn", "rz", "rm", "rp", "rna")
_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2",
           "ue8m0x2": "ue8m0", "e2m1x2": "e2m1", "e2m3x2": "e2m3", "e3m2x2": "e3m2"}


@row("cvt")
def cvt(x: Line) -> None:
    """cvt{.rnd}{.ftz}{.sat}{.relu}{.satfinite}.dtype.atype d, a{, b}.

    Refused: stochastic rounding (.rs), four-element forms, .scaled forms.
    """
    if len(x.mods) < 2:
        raise Refuse("cvt needs two types")
    stype, dtype = x.mods.pop(), x.mods.pop()
    if dtype in _PACKED or stype in _PACKED:
        return _packed(x, dtype, stype)
    x.count(2)
    if dtype in INTEGERS and stype in INTEGERS:
        return _integers(x, dtype, stype)
    conv = _scalar(x, dtype, stype)
    src_bits = "f32" if stype == "tf32" else stype
    source = x.source(1, src_bits, wider=stype in INTEGERS)
    if conv is None:
        x.put("mov", (x.dest(0, width_of(dtype)),), (source,), width_of(dtype))
        return
    _write(x, x.emit("fcvt", _width(dtype), (source,), conv), dtype)


def _width(type_: str) -> int:
    return _BITS.get(type_) or width_of(type_)


def _write(x: Line, value: int, dtype: str) -> None:
    """Write a result; a wider integer destination is extended by the type's sign."""
    width = _width(dtype)
    own = x.dest_width(0)
    if own in (0, width):
        name, made, src, attr = x.ops[-1]
        if made == (value,):
            x.ops[-1] = (name, (x.dest(0, width),), src, attr)
        else:
            x.put("mov", (x.dest(0, width),), (value,), width)
    elif own > width and dtype in INTEGERS:
        x.put("sext" if dtype[0] == "s" else "zext", (x.dest(0, own),), (value,), (width, own))
    else:
        raise Refuse("destination width")


def _integers(x: Line, dtype: str, stype: str) -> None:
    """cvt{.sat}.int.int: the source's low bits, extended or cut; .sat clamps to dtype's range."""
    from_, to = width_of(stype), width_of(dtype)
    value: Source = x.source(1, stype, wider=True)
    signed = stype[0] == "s"
    if x.has("sat"):
        value = _clamp(x, value, dtype, stype)
        from_ = x.width(value)
    if to > from_:
        value = x.emit("sext" if signed else "zext", to, (value,), (from_, to))
    elif to < from_:
        value = x.emit("extract", to, (value,), (0, to))
    else:
        value = x.emit("mov", to, (value,), to)
    _write(x, value, dtype)


def _clamp(x: Line, value: Source, dtype: str, stype: str) -> Source:
    """Clamp to dtype's range in a width that holds both ranges."""
    from_, to = width_of(stype), width_of(dtype)
    signed = stype[0] == "s"
    wide = max(from_, to)
    if wide > from_:
        value = x.emit("sext" if signed else "zext", wide, (value,), (from_, wide))
    high = (1 << (to - 1 if dtype[0] == "s" else to)) - 1
    low = -(1 << (to - 1)) if dtype[0] == "s" else 0
    source_high = (1 << (from_ - 1 if signed else from_)) - 1
    suffix = "s" if signed else "u"
    if source_high > high:
        value = x.emit(f"imin_{suffix}", wide, (value, Const(high, wide)), wide)
    if signed and -(1 << (from_ - 1)) < low:
        value = x.emit("imax_s", wide, (value, Const(low & ((1 << wide) - 1), wide)), wide)
    return value


def _scalar(x: Line, dtype: str, stype: str) -> Conv | None:
    """The conversion with at least one float; None for a plain copy."""
    rnd = x.one_of(*_INTEGRAL, *_ROUND, default="")
    ftz, sat = x.has("ftz"), x.has("sat")
    relu, satfinite = x.has("relu"), x.has("satfinite")
    if ftz and "f32" not in (dtype, stype):
        raise Refuse(".ftz without .f32")
    denorm = ("keep" if not ftz else "flush" if dtype == stype else
              "flush_in" if stype == "f32" else "flush_out")
    if dtype in INTEGERS and stype in FLOATS:
        if rnd not in _INTEGRAL or relu or satfinite:
            raise Refuse("float to integer form")
        return Conv(stype, dtype, rnd, "keep" if denorm == "flush_out" else denorm)
    if dtype in FLOATS and stype in INTEGERS:
        if rnd not in _ROUND[:4] or relu or satfinite:
            raise Refuse("integer to float form")
        return Conv(stype, dtype, rnd, "keep", sat)
    if dtype == "tf32" and stype == "f32":
        if rnd not in ("rna", "rn", "rz") or sat or ftz:
            raise Refuse("tf32 form")
        return Conv(stype, dtype, rnd, satfinite=satfinite, relu=relu)
    if dtype not in FLOATS or stype not in FLOATS:
        raise Refuse("type pair")
    return _floats(dtype, stype, rnd, denorm, sat, relu, satfinite)


def _floats(dtype: str, stype: str, rnd: str, denorm: str, sat: bool, relu: bool,
            satfinite: bool) -> Conv | None:
    if dtype == stype:
        if rnd not in (*_INTEGRAL, "") or relu or satfinite:
            raise Refuse("same-type form")
        plain = not rnd and denorm == "keep" and not sat
        return None if plain else Conv(stype, dtype, rnd, denorm, sat)
    if dtype in _WIDER[stype]:
        if rnd or relu or satfinite:
            raise Refuse("widening with rounding")
        return Conv(stype, dtype, "", denorm, sat)
    if rnd not in _ROUND[:4]:
        raise Refuse("narrowing needs a rounding mode")
    return Conv(stype, dtype, rnd, denorm, sat, satfinite, relu)


def _packed(x: Line, dtype: str, stype: str) -> None:
    """Two results in one register: `d, a, b` puts a in the upper half; `d, a` keeps the order."""
    rnd = x.one_of("rn", "rz", "rp", "rna", default="")
    relu, satfinite = x.has("relu"), x.has("satfinite")
    if x.mods or dtype not in _PACKED:
        raise Refuse("packed form")
    to = _PACKED[dtype]
    if stype == "f32":
        if not rnd:
            raise Refuse("packed conversion without rounding")
        x.count(3)
        parts: list[Source] = [x.source(2, "f32"), x.source(1, "f32")]
        from_ = "f32"
    elif stype in _PACKED:
        x.count(2)
        from_ = _PACKED[stype]
        bits = _BITS[from_]
        whole = x.source(1, f"b{max(8, 2 * bits)}")
        parts = [x.emit("extract", bits, (whole,), (low, bits)) for low in (0, bits)]
    else:
        raise Refuse("packed source")
    if {from_, to} & {"e2m3", "e3m2"}:
        raise Refuse("six-bit formats")
    # fp8 and fp4 values are all exact in f16, ue8m0 (powers of two) in bf16: nothing rounds.
    if to in ("f16", "bf16") and from_ in ("e4m3", "e5m2", "e2m1", "ue8m0"):
        rnd = ""
    conv = Conv(from_, to, rnd, satfinite=satfinite, relu=relu)
    width = _BITS[to]
    done = tuple(x.emit("fcvt", width, (p,), conv) for p in parts)
    x.put("pack", (x.dest(0, 2 * width),), done, 2 * width)
