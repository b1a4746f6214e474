"""Logic and shift (PTX ISA 9.7.8), bit fields (9.7.1) and byte permute (9.7.9)."""

from __future__ import annotations

from checker.core import Compare, Const
from checker.ptx.context import Line, Refuse, row, width_of

BITS = ("b16", "b32", "b64")


@row("and")
def and_(x: Line) -> None:
    """and.type d, a, b."""
    _binary(x, "and")


@row("or")
def or_(x: Line) -> None:
    """or.type d, a, b."""
    _binary(x, "or")


@row("xor")
def xor(x: Line) -> None:
    """xor.type d, a, b."""
    _binary(x, "xor")


def _binary(x: Line, name: str) -> None:
    x.count(3)
    type_ = x.type()
    if type_ == "pred":
        x.put("p" + name, (x.dest(0, 1),), (x.predicate(1), x.predicate(2)), None)
        return
    x.only(type_, *BITS)
    width = width_of(type_)
    x.put("i" + name, (x.dest(0, width),), (x.source(1, type_), x.source(2, type_)), width)


@row("not")
def not_(x: Line) -> None:
    """not.type d, a."""
    x.count(2)
    type_ = x.type()
    if type_ == "pred":
        x.put("pnot", (x.dest(0, 1),), (x.predicate(1),), None)
        return
    x.only(type_, *BITS)
    width = width_of(type_)
    x.put("inot", (x.dest(0, width),), (x.source(1, type_),), width)


@row("cnot")
def cnot(x: Line) -> None:
    """cnot.type d, a: a == 0 ? 1 : 0."""
    x.count(2)
    type_ = x.type()
    x.only(type_, *BITS)
    width = width_of(type_)
    zero = x.emit("icmp", 1, (x.source(1, type_), Const(0, width)), Compare("eq", f"b{width}"))
    x.put("select", (x.dest(0, width),), (zero, Const(1, width), Const(0, width)), width)


@row("lop3")
def lop3(x: Line) -> None:
    """lop3.b32 d, a, b, c, lut; lop3.{or,and}.b32 d|p, a, b, c, lut, q: p = (d != 0) op q."""
    combine = x.one_of("or", "and", default="")
    x.only(x.type(), "b32")
    src = tuple(x.source(k, "b32") for k in (1, 2, 3))
    lut = x.literal(4)
    if not 0 <= lut <= 255:
        raise Refuse("lop3 table")
    if not combine:
        x.count(5)
        x.put("lop3", (x.dest(0, 32),), src, lut)
        return
    x.count(6)
    first, second = x.pair(0)
    if second is None:
        raise Refuse("lop3 without predicate")
    value = x.emit("lop3", 32, src, lut)
    some = x.emit("icmp", 1, (value, Const(0, 32)), Compare("ne", "b32"))
    pred = x.emit("p" + combine, 1, (some, x.predicate(5)), None)
    x.put("mov", (x.dest(first, 32),), (value,), 32)
    x.put("mov", (x.dest(second, 1),), (pred,), 1)


@row("shl")
def shl(x: Line) -> None:
    """shl.type d, a, b: amounts at or over the width give 0."""
    x.count(3)
    type_ = x.type()
    x.only(type_, *BITS)
    width = width_of(type_)
    x.put("shl", (x.dest(0, width),), (x.source(1, type_), x.source(2, "u32")), width)


@row("shr")
def shr(x: Line) -> None:
    """shr.type d, a, b: amounts at or over the width give 0, signed types the sign."""
    x.count(3)
    type_ = x.type()
    x.only(type_, *BITS, "u16", "u32", "u64", "s16", "s32", "s64")
    width = width_of(type_)
    name = "shr_s" if type_[0] == "s" else "shr_u"
    x.put(name, (x.dest(0, width),), (x.source(1, type_), x.source(2, "u32")), width)


@row("shf")
def shf(x: Line) -> None:
    """shf.{l,r}.{clamp,wrap}.b32 d, a, b, c: funnel shift of {b,a} (a is the low word)."""
    x.count(4)
    direction, mode = x.one_of("l", "r"), x.one_of("clamp", "wrap")
    x.only(x.type(), "b32")
    src = tuple(x.source(k, "b32") for k in (1, 2, 3))
    x.put("fsh" + direction, (x.dest(0, 32),), src, mode)


@row("bfe")
def bfe(x: Line) -> None:
    """bfe.type d, a, pos, len: signed types extend the field's sign."""
    x.count(4)
    type_ = x.type()
    x.only(type_, "u32", "s32", "u64", "s64")
    width = width_of(type_)
    src = (x.source(1, type_), x.source(2, "u32"), x.source(3, "u32"))
    x.put(f"bfe_{type_[0]}", (x.dest(0, width),), src, width)


@row("bfi")
def bfi(x: Line) -> None:
    """bfi.type f, a, b, pos, len: insert a's low bits into b."""
    x.count(5)
    type_ = x.type()
    x.only(type_, "b32", "b64")
    width = width_of(type_)
    src = (x.source(1, type_), x.source(2, type_), x.source(3, "u32"), x.source(4, "u32"))
    x.put("bfi", (x.dest(0, width),), src, width)


@row("szext")
def szext(x: Line) -> None:
    """szext.{clamp,wrap}.{u32,s32} d, a, n: keep n low bits, extended.

    clamp: n over 32 counts as 32. wrap: n modulo 32. n == 0 gives 0 (bfe of length 0).
    """
    x.count(3)
    mode, type_ = x.one_of("clamp", "wrap"), x.type()
    x.only(type_, "u32", "s32")
    amount = x.source(2, "u32")
    if mode == "wrap":
        amount = x.emit("iand", 32, (amount, Const(31, 32)), 32)
    else:
        amount = x.emit("imin_u", 32, (amount, Const(32, 32)), 32)
    src = (x.source(1, type_), Const(0, 32), amount)
    x.put(f"bfe_{type_[0]}", (x.dest(0, 32),), src, 32)


@row("bmsk")
def bmsk(x: Line) -> None:
    """bmsk.{clamp,wrap}.b32 d, a, b: b ones from bit a up.

    clamp: a and b are clamped to 32 (shl does that); wrap: both modulo 32.
    """
    x.count(3)
    mode = x.one_of("clamp", "wrap")
    x.only(x.type(), "b32")
    start, length = x.source(1, "b32"), x.source(2, "b32")
    if mode == "wrap":
        start = x.emit("iand", 32, (start, Const(31, 32)), 32)
        length = x.emit("iand", 32, (length, Const(31, 32)), 32)
    top = x.emit("shl", 32, (Const(1, 32), length), 32)
    ones = x.emit("isub", 32, (top, Const(1, 32)), 32)
    x.put("shl", (x.dest(0, 32),), (ones, start), 32)


@row("prmt")
def prmt(x: Line) -> None:
    """prmt.b32{.mode} d, a, b, c: byte permute of {b,a}."""
    x.count(4)
    mode = x.one_of("f4e", "b4e", "rc8", "ecl", "ecr", "rc16", default="")
    x.only(x.type(), "b32")
    src = tuple(x.source(k, "b32") for k in (1, 2, 3))
    x.put("prmt", (x.dest(0, 32),), src, mode)
