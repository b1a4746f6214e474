"""Floating point arithmetic (PTX ISA 9.7.3 to 9.7.5), half precision and packed forms included.

A plain `add`, `sub` or `mul` (no rounding modifier) may be contracted by the assembler below
PTX: FloatMode.contract marks exactly these.
"""

from __future__ import annotations

from collections.abc import Callable

from checker.core import Approx, FloatMode, Source
from checker.ptx.context import Line, Refuse, row, width_of

ROUNDINGS = ("rn", "rz", "rm", "rp")
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
SCALARS = ("f16", "bf16", "f32", "f64")


def elementwise(x: Line, type_: str, operands: tuple[int, ...],
                emit: Callable[[tuple[Source, ...], str], int]) -> None:
    """Write operand 0 = emit(operands), once, or once for each half of a packed type."""
    width = width_of(type_)
    if type_ not in PACKED:
        x.only(type_, *SCALARS)
        value = emit(tuple(x.source(k, type_) for k in operands), type_)
        name, _, src, attr = x.ops.pop()
        x.fresh.discard(value)
        x.put(name, (x.dest(0, width),), src, attr)
        return
    scalar = PACKED[type_]
    part = width // 2
    sources = [x.source(k, type_) for k in operands]
    results = []
    for low in (0, part):
        pieces = tuple(x.emit("extract", part, (s,), (low, part)) for s in sources)
        results.append(emit(pieces, scalar))
    x.put("pack", (x.dest(0, width),), tuple(results), width)


def _rounding(x: Line, type_: str) -> tuple[str, bool]:
    """Rounding mode and whether the text leaves contraction open."""
    rnd = x.one_of(*ROUNDINGS, default="")
    if rnd not in ("", "rn") and type_ not in ("f32", "f64", "f32x2"):
        raise Refuse(f"rounding .{rnd} for .{type_}")
    return rnd or "rn", rnd == ""


def _denorm(x: Line, type_: str) -> str:
    """`.ftz`: f32 and f16 kinds only; f64 and bf16 have none."""
    if not x.has("ftz"):
        return "keep"
    if type_ in ("f64", "bf16", "bf16x2"):
        raise Refuse(f".ftz for .{type_}")
    return "flush"


def add_sub(x: Line, name: str) -> None:
    """{add,sub}{.rnd}{.ftz}{.sat}.type d, a, b; {add,sub}{.rnd}{.sat}.f32.{f16,bf16} d, a, c."""
    x.count(3)
    type_ = x.type()
    narrow = ""
    if x.mods[-1:] == ["f32"] and type_ in ("f16", "bf16"):
        narrow, type_ = type_, x.type()
    rnd, contract = _rounding(x, type_)
    denorm, saturate = _denorm(x, type_), x.has("sat")
    if saturate and type_ in ("f64", "bf16", "bf16x2", "f32x2"):
        raise Refuse(f".sat for .{type_}")

    def emit(src: tuple[Source, ...], scalar: str) -> int:
        mode = FloatMode(scalar, rnd, denorm, saturate, contract=contract)
        return x.emit(name, width_of(scalar), src, mode)
    if narrow:
        a = _widen(x, 1, narrow)
        mode = FloatMode("f32", rnd, denorm, saturate, contract=contract)
        x.put(name, (x.dest(0, 32),), (a, x.source(2, "f32")), mode)
        return
    elementwise(x, type_, (1, 2), emit)


def _widen(x: Line, operand: int, narrow: str) -> int:
    """A half precision operand of a mixed instruction, exactly as f32."""
    from checker.core import Conv
    return x.emit("fcvt", 32, (x.source(operand, narrow),), Conv(narrow, "f32"))


def mul(x: Line) -> None:
    """mul{.rnd}{.ftz}{.sat}.type d, a, b."""
    x.count(3)
    type_ = x.type()
    rnd, contract = _rounding(x, type_)
    denorm, saturate = _denorm(x, type_), x.has("sat")
    if saturate and type_ in ("f64", "bf16", "bf16x2", "f32x2"):
        raise Refuse(f".sat for .{type_}")

    def emit(src: tuple[Source, ...], scalar: str) -> int:
        mode = FloatMode(scalar, rnd, denorm, saturate, contract=contract)
        return x.emit("fmul", width_of(scalar), src, mode)
    elementwise(x, type_, (1, 2), emit)


@row("fma")
def fma(x: Line) -> None:
    """fma.rnd{.ftz}{.sat}{.relu}.type d, a, b, c; fma.rnd{.sat}.f32.{f16,bf16} d, a, b, c."""
    x.count(4)
    type_ = x.type()
    narrow = ""
    if x.mods[-1:] == ["f32"] and type_ in ("f16", "bf16"):
        narrow, type_ = type_, x.type()
    rnd = x.one_of(*ROUNDINGS)
    if rnd != "rn" and type_ not in ("f32", "f64", "f32x2"):
        raise Refuse(f"rounding .{rnd} for .{type_}")
    denorm, saturate, relu = _denorm(x, type_), x.has("sat"), x.has("relu")
    if relu and type_ in ("f32", "f64", "f32x2"):
        raise Refuse(f".relu for .{type_}")
    if saturate and type_ in ("f64", "bf16", "bf16x2", "f32x2"):
        raise Refuse(f".sat for .{type_}")

    def emit(src: tuple[Source, ...], scalar: str) -> int:
        mode = FloatMode(scalar, rnd, denorm, saturate, relu)
        return x.emit("ffma", width_of(scalar), src, mode)
    if narrow:
        src = (_widen(x, 1, narrow), _widen(x, 2, narrow), x.source(3, "f32"))
        x.put("ffma", (x.dest(0, 32),), src, FloatMode("f32", rnd, denorm, saturate))
        return
    elementwise(x, type_, (1, 2, 3), emit)


def sign(x: Line, name: str) -> None:
    """{neg,abs}{.ftz}.type d, a."""
    x.count(2)
    type_ = x.type()
    denorm = _denorm(x, type_)

    def emit(src: tuple[Source, ...], scalar: str) -> int:
        return x.emit(name, width_of(scalar), src, FloatMode(scalar, denorm=denorm))
    elementwise(x, type_, (1,), emit)


def min_max(x: Line, name: str) -> None:
    """{min,max}{.ftz}{.NaN}{.xorsign.abs}{.abs}.type d, a, b{, c}; +0 > -0.

    Without .NaN the other operand wins over a NaN; .abs (three operands, PTX 8.8) is refused.
    """
    count = x.count(3, 4)
    type_ = x.type()
    denorm = _denorm(x, type_)
    nan = "nan" if x.has("NaN") else "num"
    xorsign = x.has("xorsign")
    if xorsign and not x.has("abs"):
        raise Refuse(".xorsign without .abs")
    if (xorsign or nan == "nan") and type_ == "f64":
        raise Refuse("modifier for .f64")
    if count == 4:
        x.only(type_, "f32")
        if xorsign:
            raise Refuse(".xorsign of three")
        name += "3"

    def emit(src: tuple[Source, ...], scalar: str) -> int:
        mode = FloatMode(scalar, denorm=denorm, nan=nan, xorsign_abs=xorsign)
        return x.emit("f" + name, width_of(scalar), src, mode)
    elementwise(x, type_, tuple(range(1, count)), emit)


def div(x: Line) -> None:
    """div.{approx,full}{.ftz}.f32 (fixed per unit), div.rnd{.ftz}.f32, div.rnd.f64."""
    x.count(3)
    type_ = x.type()
    x.only(type_, "f32", "f64")
    how = x.one_of("approx", "full", *ROUNDINGS)
    denorm = _denorm(x, type_)
    src = (x.source(1, type_), x.source(2, type_))
    width = width_of(type_)
    if how in ROUNDINGS:
        x.put("fdiv", (x.dest(0, width),), src, FloatMode(type_, how, denorm))
    else:
        x.only(type_, "f32")
        approx = Approx(f"div.{how}", x.builder.target, FloatMode(type_, denorm=denorm))
        x.put("fapprox", (x.dest(0, width),), src, approx)


@row("rcp")
def rcp(x: Line) -> None:
    """rcp.approx{.ftz}.f32, rcp.approx.ftz.f64, rcp.rnd{.ftz}.f32, rcp.rnd.f64."""
    _root_like(x, "rcp")


@row("sqrt")
def sqrt(x: Line) -> None:
    """sqrt.approx{.ftz}.f32, sqrt.rnd{.ftz}.f32, sqrt.rnd.f64."""
    _root_like(x, "sqrt")


def _root_like(x: Line, name: str) -> None:
    x.count(2)
    type_ = x.type()
    x.only(type_, "f32", "f64")
    how = x.one_of("approx", *ROUNDINGS)
    flush = x.has("ftz")
    if flush and type_ == "f64" and how != "approx":
        raise Refuse(".ftz for .f64")
    denorm = "flush" if flush else "keep"
    width = width_of(type_)
    src = (x.source(1, type_),)
    if how == "approx":
        approx = Approx(f"{name}.approx", x.builder.target, FloatMode(type_, denorm=denorm))
        x.put("fapprox", (x.dest(0, width),), src, approx)
    else:
        x.put(f"f{name}", (x.dest(0, width),), src, FloatMode(type_, how, denorm))


def _approx(x: Line, fn: str, *types: str) -> None:
    """An approximate function of one operand, elementwise; flush is part of it."""
    x.count(2)
    type_ = x.type()
    x.only(type_, *types)
    if not x.has("approx"):
        raise Refuse(f"{fn} without .approx")
    denorm = "flush" if x.has("ftz") else "keep"

    def emit(src: tuple[Source, ...], scalar: str) -> int:
        mode = FloatMode(scalar, denorm=denorm)
        return x.emit("fapprox", width_of(scalar), src, Approx(fn, x.builder.target, mode))
    elementwise(x, type_, (1,), emit)


@row("rsqrt")
def rsqrt(x: Line) -> None:
    """rsqrt.approx{.ftz}.f32, rsqrt.approx{.ftz}.f64."""
    _approx(x, "rsqrt.approx", "f32", "f64")


@row("sin")
def sin(x: Line) -> None:
    """sin.approx{.ftz}.f32."""
    _approx(x, "sin.approx", "f32")


@row("cos")
def cos(x: Line) -> None:
    """cos.approx{.ftz}.f32."""
    _approx(x, "cos.approx", "f32")


@row("lg2")
def lg2(x: Line) -> None:
    """lg2.approx{.ftz}.f32."""
    _approx(x, "lg2.approx", "f32")


@row("ex2")
def ex2(x: Line) -> None:
    """ex2.approx{.ftz}.{f32,f16,f16x2,bf16,bf16x2}."""
    _approx(x, "ex2.approx", "f32", "f16", "f16x2", "bf16", "bf16x2")


@row("tanh")
def tanh(x: Line) -> None:
    """tanh.approx.{f32,f16,f16x2,bf16,bf16x2}."""
    _approx(x, "tanh.approx", "f32", "f16", "f16x2", "bf16", "bf16x2")


@row("testp")
def testp(x: Line) -> None:
    """testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64} p, a.

    Zeros count as normal (seen on an H200 too): finite and not subnormal.
    """
    x.count(2)
    type_ = x.type()
    x.only(type_, "f32", "f64")
    test = x.one_of("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    if test == "normal":
        source = x.source(1, type_)
        finite = x.emit("fclass", 1, (source,), ("finite", type_))
        tiny = x.emit("fclass", 1, (source,), ("subnormal", type_))
        x.put("pand", (x.dest(0, 1),), (finite, x.emit("pnot", 1, (tiny,), None)), None)
        return
    x.put("fclass", (x.dest(0, 1),), (x.source(1, type_),), (test, type_))


@row("copysign")
def copysign(x: Line) -> None:
    """copysign.{f32,f64} d, a, b: sign of a, magnitude of b."""
    x.count(3)
    type_ = x.type()
    x.only(type_, "f32", "f64")
    src = (x.source(1, type_), x.source(2, type_))
    x.put("fcopysign", (x.dest(0, width_of(type_)),), src, FloatMode(type_))
