"""Comparison and selection (PTX ISA 9.7.6, 9.7.7)."""

from __future__ import annotations

from checker.core import Compare, Const, Source
from checker.ptx.context import Line, Refuse, row, width_of
from checker.ptx.rows.floating import PACKED

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_INTEGER = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
FLOATS = ("f16", "bf16", "f32", "f64")


def _compare(x: Line, a: Source, b: Source, cond: str, type_: str, denorm: str) -> int:
    """One comparison of two sources."""
    if type_ in FLOATS:
        if cond not in _INTEGER + _UNORDERED:
            raise Refuse(f".{cond} for .{type_}")
        return x.emit("fcmp", 1, (a, b), Compare(cond, type_, denorm))
    if denorm != "keep":
        raise Refuse(f".ftz for .{type_}")
    if cond in _UNSIGNED:
        x.only(type_[0], "u")
        cond = _UNSIGNED[cond]
    if cond not in _INTEGER or (type_[0] == "b" and cond not in ("eq", "ne")):
        raise Refuse(f".{cond} for .{type_}")
    if cond in ("eq", "ne"):  # the sign plays no part
        type_ = f"b{width_of(type_)}"
    return x.emit("icmp", 1, (a, b), Compare(cond, type_))


def _condition(x: Line) -> tuple[str, str]:
    """Consume comparison and boolean operator: `setp.lt.and` -> (lt, and)."""
    if not x.mods:
        raise Refuse("no comparison")
    cond = x.mods.pop(0)
    boolean = ""
    if x.mods and x.mods[0] in ("and", "or", "xor"):
        boolean = x.mods.pop(0)
    return cond, boolean


def _combine(x: Line, value: Source, boolean: str, operand: int) -> Source:
    if not boolean:
        return value
    return x.emit("p" + boolean, 1, (value, x.predicate(operand)), None)


def _denorm(x: Line) -> str:
    return "flush" if x.has("ftz") else "keep"


@row("setp")
def setp(x: Line) -> None:
    """setp.cmp{.bool}{.ftz}.type p{|q}, a, b{, {!}c}: p = cmp bool c, q = !cmp bool c.

    Packed types compare the low halves into p and the high halves into q.
    """
    cond, boolean = _condition(x)
    type_ = x.type()
    denorm = _denorm(x)
    x.count(4 if boolean else 3)
    first, second = x.pair(0)
    if type_ in ("f16x2", "bf16x2"):
        _packed_setp(x, first, second, cond, boolean, type_, denorm)
        return
    value = _compare(x, x.source(1, type_), x.source(2, type_), cond, type_, denorm)
    result = _combine(x, value, boolean, 3)
    if second is None:
        x.put("mov", (x.dest(first, 1),), (result,), 1)
        _fold_move(x)
        return
    inverse = _combine(x, x.emit("pnot", 1, (value,), None), boolean, 3)
    x.put("mov", (x.dest(first, 1),), (result,), 1)
    x.put("mov", (x.dest(second, 1),), (inverse,), 1)


def _packed_setp(x: Line, first: object, second: object, cond: str, boolean: str, type_: str,
                 denorm: str) -> None:
    scalar = PACKED[type_]
    a, b = x.source(1, type_), x.source(2, type_)
    results = []
    for low in (0, 16):
        parts = [x.emit("extract", 16, (s,), (low, 16)) for s in (a, b)]
        value = _compare(x, parts[0], parts[1], cond, scalar, denorm)
        results.append(_combine(x, value, boolean, 3))
    if second is None:
        raise Refuse("a packed setp has two results")
    x.put("mov", (x.dest(first, 1),), (results[0],), 1)  # type: ignore[arg-type]
    x.put("mov", (x.dest(second, 1),), (results[1],), 1)  # type: ignore[arg-type]


def _fold_move(x: Line) -> None:
    """Let the operation before a final move write the move's destination itself."""
    _, dst, (source,), _ = x.ops[-1]
    name, made, src, attr = x.ops[-2]
    if made == (source,):
        x.ops[-2:] = [(name, dst, src, attr)]


@row("set")
def set_(x: Line) -> None:
    """set.cmp{.bool}{.ftz}.dtype.stype d, a, b{, {!}c}: all ones (integers) or 1.0 (floats).

    Packed sources give one result for each half: 1.0 for a packed dtype, 0xffff for u32, s32.
    """
    cond, boolean = _condition(x)
    stype, dtype = x.type(), x.type()
    denorm = _denorm(x)
    x.count(4 if boolean else 3)
    true = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "u16": 0xFFFF, "s16": 0xFFFF, "f32": 0x3F800000,
            "f16": 0x3C00, "bf16": 0x3F80}
    if stype in ("f16x2", "bf16x2"):
        return _packed_set(x, cond, boolean, stype, dtype, denorm)
    if stype in PACKED or dtype not in true:
        raise Refuse("set form")
    width = width_of(dtype)
    value = _compare(x, x.source(1, stype), x.source(2, stype), cond, stype, denorm)
    value = _combine(x, value, boolean, 3)  # type: ignore[assignment]
    src = (value, Const(true[dtype], width), Const(0, width))
    x.put("select", (x.dest(0, width),), src, width)


def _packed_set(x: Line, cond: str, boolean: str, stype: str, dtype: str, denorm: str) -> None:
    x.only(dtype, stype, "u32", "s32")
    true = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(dtype, 0xFFFF)
    a, b = x.source(1, stype), x.source(2, stype)
    halves = []
    for low in (0, 16):
        parts = [x.emit("extract", 16, (s,), (low, 16)) for s in (a, b)]
        value = _compare(x, parts[0], parts[1], cond, PACKED[stype], denorm)
        test = _combine(x, value, boolean, 3)
        halves.append(x.emit("select", 16, (test, Const(true, 16), Const(0, 16)), 16))
    x.put("pack", (x.dest(0, 32),), tuple(halves), 32)


@row("selp")
def selp(x: Line) -> None:
    """selp.type d, a, b, c: c ? a : b."""
    x.count(4)
    type_ = x.type()
    width = width_of(type_)
    src = (x.predicate(3), x.source(1, type_), x.source(2, type_))
    x.put("select", (x.dest(0, width),), src, width)


@row("slct")
def slct(x: Line) -> None:
    """slct{.ftz}.dtype.{s32,f32} d, a, b, c: c >= 0 ? a : b (a NaN selects b)."""
    x.count(4)
    stype, dtype = x.type(), x.type()
    x.only(stype, "s32", "f32")
    denorm = _denorm(x)
    width = width_of(dtype)
    test = _compare(x, x.source(3, stype), Const(0, 32), "ge", stype, denorm)
    src = (test, x.source(1, dtype), x.source(2, dtype))
    x.put("select", (x.dest(0, width),), src, width)
