"""Integer arithmetic (PTX ISA 9.7.1), extended precision (9.7.2) and video forms of it.

`add`, `sub`, `mul`, `fma`, `mad`, `min`, `max`, `abs`, `neg`, `div` are one mnemonic for integers
and floats: the row looks at the type and hands floats to rows/floating.py.
"""

from __future__ import annotations

import checker.ptx.rows.floating as floating
from checker.core import Const, Source
from checker.ptx.context import Line, Refuse, row, width_of

FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
PACKED = ("u16x2", "s16x2")


def is_float(x: Line) -> bool:
    """Whether the instruction's type (or, in mixed forms, its first type) is a float."""
    return any(mod in FLOATS for mod in x.mods)


def binary(x: Line, name: str, type_: str) -> int:
    """Emit an integer operation of two sources into a fresh register."""
    width = width_of(type_)
    return x.emit(name, width, (x.source(1, type_), x.source(2, type_)), width)


def halves(x: Line, value: Source) -> tuple[int, int]:
    """Split a 32-bit source into its low and high half."""
    return x.emit("extract", 16, (value,), (0, 16)), x.emit("extract", 16, (value,), (16, 16))


@row("add")
def add(x: Line) -> None:
    """add{.sat}.type d, a, b (.sat: s32 only; packed u16x2, s16x2)."""
    if is_float(x):
        return floating.add_sub(x, "fadd")
    _add_sub(x, "iadd")


@row("sub")
def sub(x: Line) -> None:
    """sub{.sat}.type d, a, b."""
    if is_float(x):
        return floating.add_sub(x, "fsub")
    _add_sub(x, "isub")


def _add_sub(x: Line, name: str) -> None:
    x.count(3)
    if x.mods[:1] == ["cc"]:
        return _carry_out(x, name)
    type_ = x.type()
    if type_ in PACKED:
        return packed(x, name)
    x.only(type_, *INTEGERS)
    width = width_of(type_)
    src = (x.source(1, type_), x.source(2, type_))
    if x.has("sat"):
        x.only(type_, "s32")
        x.put(name + "_sat", (x.dest(0, width),), src, type_)
    else:
        x.put(name, (x.dest(0, width),), src, width)


def packed(x: Line, name: str) -> None:
    """Two 16-bit operations side by side in a 32-bit register."""
    a, b = halves(x, x.source(1, "b32")), halves(x, x.source(2, "b32"))
    parts = tuple(x.emit(name, 16, (a[k], b[k]), 16) for k in (0, 1))
    x.put("pack", (x.dest(0, 32),), parts, 32)


# --- extended precision (9.7.2): CC.CF is one hidden predicate register. The machine has a carry
# only, that of a + ~b + 1 where it subtracts: a borrow is no carry (docs/contraction.md) ---


def _cc_type(x: Line) -> tuple[str, int]:
    type_ = x.type()
    x.only(type_, "u32", "s32", "u64", "s64", "b32", "b64")
    return type_, width_of(type_)


def _carry_out(x: Line, name: str) -> None:
    """add.cc / sub.cc: also write the carry (borrow) out."""
    x.has("cc")
    type_, width = _cc_type(x)
    a, b = x.source(1, type_), x.source(2, type_)
    _with_carry(x, name, a, b, None, True, width)


def _with_carry(x: Line, name: str, a: Source, b: Source, carry_in: Source | None,
                carry_out: bool, width: int) -> None:
    """d = a op b (op carry in); CC.CF = carry or borrow out."""
    cc = x.builder.carry_register()
    value = x.emit(name, width, (a, b), width)
    if carry_in is not None and name == "isub":
        carry_in = x.emit("pnot", 1, (carry_in,), None)
    if carry_in is not None:
        wide = x.emit("zext", width, (carry_in,), (1, width))
        value = x.emit(name, width, (value, wide), width)
    if carry_out:
        kind = "carry" if name == "iadd" else "borrow"
        out = x.emit(kind, 1, (a, b, Const(0, 1) if carry_in is None else carry_in), width)
        if kind == "borrow":
            out = x.emit("pnot", 1, (out,), None)
        x.put("mov", (cc,), (out,), 1)
    x.put("mov", (x.dest(0, width),), (value,), width)


@row("addc")
def addc(x: Line) -> None:
    """addc{.cc}.type d, a, b: a + b + CC.CF."""
    _carry_in(x, "iadd")


@row("subc")
def subc(x: Line) -> None:
    """subc{.cc}.type d, a, b: a - (b + CC.CF)."""
    _carry_in(x, "isub")


def _carry_in(x: Line, name: str) -> None:
    x.count(3)
    out = x.has("cc")
    type_, width = _cc_type(x)
    cc = x.builder.carry_register()
    _with_carry(x, name, x.source(1, type_), x.source(2, type_), cc, out, width)


def _product(x: Line, half: str, type_: str) -> int:
    """The low or high half of a * b."""
    width = width_of(type_)
    name = "imul" if half == "lo" else f"imulhi_{type_[0]}"
    return x.emit(name, width, (x.source(1, type_), x.source(2, type_)), width)


@row("madc")
def madc(x: Line) -> None:
    """madc.{hi,lo}{.cc}.type d, a, b, c: half(a * b) + c + CC.CF."""
    x.count(4)
    half, out = x.one_of("lo", "hi"), x.has("cc")
    type_ = x.type()
    x.only(type_, "u32", "s32", "u64", "s64")
    cc = x.builder.carry_register()
    product = _product(x, half, type_)
    _with_carry(x, "iadd", product, x.source(3, type_), cc, out, width_of(type_))


# --- products ---


@row("mul")
def mul(x: Line) -> None:
    """mul.{hi,lo,wide}.type d, a, b."""
    if is_float(x):
        return floating.mul(x)
    x.count(3)
    half = x.one_of("lo", "hi", "wide")
    type_ = x.type()
    x.only(type_, *INTEGERS)
    width = width_of(type_)
    src = (x.source(1, type_), x.source(2, type_))
    if half == "wide":
        x.only(type_, "u16", "s16", "u32", "s32")
        x.put(f"imulwide_{type_[0]}", (x.dest(0, 2 * width),), src, width)
    else:
        name = "imul" if half == "lo" else f"imulhi_{type_[0]}"
        x.put(name, (x.dest(0, width),), src, width)


@row("mad")
def mad(x: Line) -> None:
    """mad.{hi,lo,wide}{.sat}.type d, a, b, c; mad.lo/hi.cc also write CC.CF."""
    if is_float(x):
        return floating.fma(x)
    x.count(4)
    half = x.one_of("lo", "hi", "wide")
    carry_out, saturate = x.has("cc"), x.has("sat")
    type_ = x.type()
    x.only(type_, *INTEGERS)
    width = width_of(type_)
    if half == "wide":
        x.only(type_, "u16", "s16", "u32", "s32")
        product = x.emit(f"imulwide_{type_[0]}", 2 * width,
                         (x.source(1, type_), x.source(2, type_)), width)
        addend = x.source(3, f"{type_[0]}{2 * width}")
        x.put("iadd", (x.dest(0, 2 * width),), (product, addend), 2 * width)
        return
    product = _product(x, half, type_)
    addend = x.source(3, type_)
    if carry_out:
        _with_carry(x, "iadd", product, addend, None, True, width)
    elif saturate:
        if half != "hi" or type_ != "s32":
            raise Refuse("mad.sat")
        x.put("iadd_sat", (x.dest(0, width),), (product, addend), type_)
    else:
        x.put("iadd", (x.dest(0, width),), (product, addend), width)


def _low24(x: Line, operand: int, type_: str) -> int:
    """The low 24 bits of an operand, extended to 32 by its sign."""
    name = f"bfe_{type_[0]}"
    return x.emit(name, 32, (x.source(operand, type_), Const(0, 32), Const(24, 32)), 32)


def _mul24(x: Line) -> tuple[int, str]:
    """48-bit product of 24-bit operands: `lo` is bits 0..31, `hi` bits 16..47."""
    half, type_ = x.one_of("lo", "hi"), x.mods[-1]
    x.only(type_, "u32", "s32")
    a, b = _low24(x, 1, type_), _low24(x, 2, type_)
    if half == "lo":
        return x.emit("imul", 32, (a, b), 32), type_
    wide = x.emit(f"imulwide_{type_[0]}", 64, (a, b), 32)
    return x.emit("extract", 32, (wide,), (16, 32)), type_


@row("mul24")
def mul24(x: Line) -> None:
    """mul24.{hi,lo}.type d, a, b."""
    x.count(3)
    value, _ = _mul24(x)
    x.type()
    x.put("mov", (x.dest(0, 32),), (value,), 32)


@row("mad24")
def mad24(x: Line) -> None:
    """mad24.{hi,lo}{.sat}.type d, a, b, c (.sat: hi.s32)."""
    x.count(4)
    value, type_ = _mul24(x)
    x.type()
    saturate = x.has("sat")
    src = (value, x.source(3, type_))
    if saturate:
        x.only(type_, "s32")
        x.put("iadd_sat", (x.dest(0, 32),), src, "s32")
    else:
        x.put("iadd", (x.dest(0, 32),), src, 32)


@row("sad")
def sad(x: Line) -> None:
    """sad.type d, a, b, c: c + |a - b|."""
    x.count(4)
    type_ = x.type()
    x.only(type_, *INTEGERS)
    width = width_of(type_)
    src = tuple(x.source(k, type_) for k in (1, 2, 3))
    x.put(f"isad_{type_[0]}", (x.dest(0, width),), src, width)


# --- the rest ---


@row("div")
def div(x: Line) -> None:
    """div.type d, a, b."""
    if is_float(x):
        return floating.div(x)
    _divide(x, "idiv")


@row("rem")
def rem(x: Line) -> None:
    """rem.type d, a, b: a - b * (a / b)."""
    _divide(x, "irem")


def _divide(x: Line, name: str) -> None:
    x.count(3)
    type_ = x.type()
    x.only(type_, *INTEGERS)
    width = width_of(type_)
    src = (x.source(1, type_), x.source(2, type_))
    x.put(f"{name}_{type_[0]}", (x.dest(0, width),), src, width)


@row("abs")
def abs_(x: Line) -> None:
    """abs.type d, a."""
    if is_float(x):
        return floating.sign(x, "fabs")
    _unary(x, "iabs", "s16", "s32", "s64")


@row("neg")
def neg(x: Line) -> None:
    """neg.type d, a."""
    if is_float(x):
        return floating.sign(x, "fneg")
    _unary(x, "ineg", "s16", "s32", "s64")


def _unary(x: Line, name: str, *types: str) -> None:
    x.count(2)
    type_ = x.type()
    x.only(type_, *types)
    width = width_of(type_)
    x.put(name, (x.dest(0, width),), (x.source(1, type_),), width)


@row("min")
def min_(x: Line) -> None:
    """min{.relu}.type d, a, b (.relu: s32, s16x2)."""
    if is_float(x):
        return floating.min_max(x, "min")
    _min_max(x, "imin")


@row("max")
def max_(x: Line) -> None:
    """max{.relu}.type d, a, b (.relu: s32, s16x2)."""
    if is_float(x):
        return floating.min_max(x, "max")
    _min_max(x, "imax")


def _min_max(x: Line, name: str) -> None:
    x.count(3)
    relu = x.has("relu")
    type_ = x.type()
    if relu:
        x.only(type_, "s32", "s16x2")
    name = f"{name}_{type_[0]}"
    if type_ in PACKED:
        a, b = halves(x, x.source(1, "b32")), halves(x, x.source(2, "b32"))
        parts = [x.emit(name, 16, (a[k], b[k]), 16) for k in (0, 1)]
        if relu:
            parts = [x.emit("imax_s", 16, (p, Const(0, 16)), 16) for p in parts]
        x.put("pack", (x.dest(0, 32),), tuple(parts), 32)
        return
    x.only(type_, *INTEGERS)
    width = width_of(type_)
    src = (x.source(1, type_), x.source(2, type_))
    if relu:
        value = x.emit(name, width, src, width)
        x.put("imax_s", (x.dest(0, width),), (value, Const(0, width)), width)
    else:
        x.put(name, (x.dest(0, width),), src, width)


def _counting(x: Line, name: str) -> None:
    x.count(2)
    type_ = x.type()
    x.only(type_, "b32", "b64")
    x.put(name, (x.dest(0, 32),), (x.source(1, type_),), width_of(type_))


@row("popc")
def popc(x: Line) -> None:
    """popc.type d, a (d: 32 bits)."""
    _counting(x, "popc")


@row("clz")
def clz(x: Line) -> None:
    """clz.type d, a (d: 32 bits)."""
    _counting(x, "clz")


@row("bfind")
def bfind(x: Line) -> None:
    """bfind{.shiftamt}.type d, a: highest non-sign bit, or the shift that brings it to the top."""
    x.count(2)
    shift = x.has("shiftamt")
    type_ = x.type()
    x.only(type_, "u32", "s32", "u64", "s64")
    width = width_of(type_)
    src = (x.source(1, type_),)
    if not shift:
        x.put(f"bfind_{type_[0]}", (x.dest(0, 32),), src, width)
        return
    found = x.emit(f"bfind_{type_[0]}", 32, src, width)
    # not found is -1 in both forms
    from checker.core import Compare
    none = x.emit("icmp", 1, (found, Const(0xFFFFFFFF, 32)), Compare("eq", "b32"))
    amount = x.emit("isub", 32, (Const(width - 1, 32), found), 32)
    x.put("select", (x.dest(0, 32),), (none, found, amount), 32)


@row("brev")
def brev(x: Line) -> None:
    """brev.type d, a: reverse the bits."""
    _unary(x, "brev", "b32", "b64")


@row("dp4a")
def dp4a(x: Line) -> None:
    """dp4a.atype.btype d, a, b, c: four byte products added to c."""
    _dot(x, "dp4a", None)


@row("dp2a")
def dp2a(x: Line) -> None:
    """dp2a.{lo,hi}.atype.btype d, a, b, c: two 16-bit by byte products added to c."""
    _dot(x, "dp2a", x.one_of("lo", "hi"))


def _dot(x: Line, name: str, half: str | None) -> None:
    x.count(4)
    b_type, a_type = x.type(), x.type()
    x.only(a_type, "u32", "s32")
    x.only(b_type, "u32", "s32")
    src = (x.source(1, a_type), x.source(2, b_type), x.source(3, "b32"))
    x.put(name, (x.dest(0, 32),), src, (a_type, b_type, half == "hi"))
