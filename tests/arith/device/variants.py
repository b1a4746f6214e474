"""PTX spellings of the scalar operations, each with the core operation that it must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from checker.core import Approx, Compare, Conv, FloatMode

WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32, "e4m3": 16, "e5m2": 16,
         "u8": 16, "s8": 16, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64}


@dataclass(frozen=True)
class Variant:
    """`text` with {d} {a} {b} {c}; sources are patterns of `sources`, the result of `target`."""

    text: str
    name: str
    attr: Any
    sources: tuple[str, ...]
    target: str


def _modes(rnds: str, ftz: str = "", sat: str = "") -> Iterator[tuple[str, str, bool]]:
    for rnd in rnds.split():
        for flush in ["", *ftz.split()]:
            for clamp in ["", *sat.split()]:
                yield rnd, flush, bool(clamp)


def arithmetic() -> Iterator[Variant]:
    arity = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}
    for op, count in arity.items():
        args = ", ".join(("{a}", "{b}", "{c}")[:count])
        for kind in ("f32", "f64"):
            sat = ".sat" if kind == "f32" and op in ("add", "sub", "mul", "fma") else ""
            for rnd, ftz, clamp in _modes("rn rz rm rp", ".ftz" if kind == "f32" else "", sat):
                mode = FloatMode(kind, rnd, "flush" if ftz else "keep", clamp)
                yield Variant(f"{op}.{rnd}{ftz}{'.sat' if clamp else ''}.{kind} {{d}}, {args};",
                              "f" + op, mode, (kind,) * count, kind)
    for kind in ("f16", "bf16"):
        for op in ("add", "sub", "mul", "fma"):
            count = arity[op]
            args = ", ".join(("{a}", "{b}", "{c}")[:count])
            half = kind == "f16"
            for rnd, ftz, clamp in _modes("rn", ".ftz" if half else "", ".sat" if half else ""):
                mode = FloatMode(kind, rnd, "flush" if ftz else "keep", clamp)
                yield Variant(f"{op}.rn{ftz}{'.sat' if clamp else ''}.{kind} {{d}}, {args};",
                              "f" + op, mode, (kind,) * count, kind)
        yield Variant(f"fma.rn.relu.{kind} {{d}}, {{a}}, {{b}}, {{c}};", "ffma",
                      FloatMode(kind, relu=True), (kind,) * 3, kind)


def extremes() -> Iterator[Variant]:
    for op in ("min", "max"):
        for kind in ("f16", "bf16", "f32", "f64"):
            for ftz in ("", ".ftz") if kind in ("f16", "f32") else ("",):
                for nan in ("", ".NaN") if kind != "f64" else ("",):
                    for sign in ("", ".xorsign.abs") if kind != "f64" else ("",):
                        mode = FloatMode(kind, denorm="flush" if ftz else "keep",
                                         nan="nan" if nan else "num", xorsign_abs=bool(sign))
                        yield Variant(f"{op}{ftz}{nan}{sign}.{kind} {{d}}, {{a}}, {{b}};",
                                      "f" + op, mode, (kind, kind), kind)
    for op in ("neg", "abs"):
        for kind in ("f16", "bf16", "f32", "f64"):
            for ftz in ("", ".ftz") if kind in ("f16", "f32") else ("",):
                yield Variant(f"{op}{ftz}.{kind} {{d}}, {{a}};", "f" + op,
                              FloatMode(kind, denorm="flush" if ftz else "keep"), (kind,), kind)


def conversions() -> Iterator[Variant]:
    def conv(text: str, src: str, dst: str, *args: Any, **more: Any) -> Variant:
        return Variant(text, "fcvt", Conv(src, dst, *args, **more), (src,), dst)

    for src, dst in (("f32", "f16"), ("f64", "f32"), ("f64", "f16")):
        for rnd in ("rn", "rz", "rm", "rp"):
            for ftz in ("", ".ftz") if "f32" in (src, dst) else ("",):
                for sat in ("", ".sat"):
                    yield conv(f"cvt.{rnd}{ftz}{sat}.{dst}.{src} {{d}}, {{a}};", src, dst, rnd,
                               "flush" if ftz else "keep", bool(sat))
    for src, dst in (("f16", "f32"), ("f32", "f64"), ("f16", "f64"), ("bf16", "f32")):
        for ftz in ("", ".ftz") if src != "bf16" and "f32" in (src, dst) else ("",):
            yield conv(f"cvt{ftz}.{dst}.{src} {{d}}, {{a}};", src, dst, "",
                       "flush" if ftz else "keep")
    for dst in ("f16", "bf16"):
        for rnd in ("rn", "rz"):
            for relu in ("", ".relu"):
                if relu or dst == "bf16":
                    line = f"cvt.{rnd}{relu}.{dst}.f32 {{d}}, {{a}};"
                    yield conv(line, "f32", dst, rnd, relu=bool(relu))
    yield conv("cvt.rna.tf32.f32 {d}, {a};", "f32", "tf32", "rna")
    for rnd in ("rn", "rz"):
        for relu in ("", ".relu"):
            yield conv(f"cvt.{rnd}{relu}.tf32.f32 {{d}}, {{a}};", "f32", "tf32", rnd,
                       relu=bool(relu))
    for dst in ("e4m3", "e5m2"):
        for relu in ("", ".relu"):
            yield conv(f"cvt.rn.satfinite{relu}.{dst}x2.f32 {{d}}, {{a}}, {{a}};", "f32", dst, "rn",
                       satfinite=True, relu=bool(relu))
            yield conv(".reg .b32 t; .reg .b16 u; mov.b32 t, {{ {a}, {a} }}; "
                       f"cvt.rn.satfinite{relu}.{dst}x2.f16x2 {{d}}, t;",
                       "f16", dst, "rn", satfinite=True, relu=bool(relu))
            yield conv(f".reg .b32 t; cvt.rn{relu}.f16x2.{dst}x2 t, {{a}}; "
                       "mov.b32 {{ {d}, _ }}, t;", dst, "f16", "", relu=bool(relu))
    for kind in ("f16", "f32", "f64"):
        for rnd in ("rni", "rzi", "rmi", "rpi"):
            for ftz in ("", ".ftz") if kind == "f32" else ("",):
                yield conv(f"cvt.{rnd}{ftz}.{kind}.{kind} {{d}}, {{a}};", kind, kind, rnd,
                           "flush" if ftz else "keep")
            for whole in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
                yield conv(f"cvt.{rnd}.{whole}.{kind} {{d}}, {{a}};", kind, whole, rnd)
        for rnd in ("rn", "rz", "rm", "rp"):
            for whole in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
                yield conv(f"cvt.{rnd}.{kind}.{whole} {{d}}, {{a}};", whole, kind, rnd)


def approximations() -> Iterator[Variant]:
    for fn in ("ex2", "rcp", "sqrt", "rsqrt", "lg2", "sin", "cos"):
        for ftz in ("", ".ftz"):
            mode = FloatMode("f32", denorm="flush" if ftz else "keep")
            yield Variant(f"{fn}.approx{ftz}.f32 {{d}}, {{a}};", "fapprox",
                          Approx(f"{fn}.approx", "sm_90", mode), ("f32",), "f32")
    for fn in ("div.full", "div.approx"):
        for ftz in ("", ".ftz"):
            mode = FloatMode("f32", denorm="flush" if ftz else "keep")
            yield Variant(f"{fn}{ftz}.f32 {{d}}, {{a}}, {{b}};", "fapprox",
                          Approx(fn, "sm_90", mode), ("f32", "f32"), "f32")
    yield Variant("tanh.approx.f32 {d}, {a};", "fapprox",
                  Approx("tanh.approx", "sm_90", FloatMode("f32")), ("f32",), "f32")
    for kind, text in (("f16", "ex2.approx.f16"),
                       ("bf16", "ex2.approx.ftz.bf16"), ("f16", "tanh.approx.f16"),
                       ("bf16", "tanh.approx.bf16")):
        fn = text.split(".", 1)[0] + ".approx"
        mode = FloatMode(kind, denorm="flush" if "ftz" in text else "keep")
        yield Variant(f"{text} {{d}}, {{a}};", "fapprox", Approx(fn, "sm_90", mode), (kind,), kind)


def comparisons() -> Iterator[Variant]:
    conds = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
             "nan")
    for kind in ("f16", "bf16", "f32", "f64"):
        for ftz in ("", ".ftz") if kind in ("f16", "f32") else ("",):
            for cond in conds:
                yield Variant(f".reg .pred q; setp.{cond}{ftz}.{kind} q, {{a}}, {{b}}; "
                              "selp.b32 {d}, 1, 0, q;", "fcmp",
                              Compare(cond, kind, "flush" if ftz else "keep"), (kind, kind), "u32")
    for rnd in ("rni", "rzi", "rmi", "rpi"):
        yield Variant(f"cvt.{rnd}.ftz.s32.f32 {{d}}, {{a}};", "fcvt",
                      Conv("f32", "s32", rnd, "flush"), ("f32",), "s32")


def all_variants() -> list[Variant]:
    return [*arithmetic(), *extremes(), *conversions(), *approximations(), *comparisons()]


def module(variants: list[Variant], target: str = "sm_90", version: str = "8.6") -> str:
    """One entry per variant: k0, k1, ...; parameters: out, a, b, c (64-bit), n (32-bit)."""
    out = [f".version {version}\n.target {target}\n.address_size 64"]
    for index, variant in enumerate(variants):
        out.append(_entry(index, variant))
    return "\n".join(out)


def _entry(index: int, variant: Variant) -> str:
    names = "abc"
    lines = [f".visible .entry k{index}(.param .u64 po, .param .u64 pa, .param .u64 pb, "
             ".param .u64 pc, .param .u32 pn)\n{",
             ".reg .pred p; .reg .b32 i, j, k, n; .reg .b64 x, y;",
             "ld.param.u32 n, [pn]; mov.u32 i, %ctaid.x; mov.u32 j, %ntid.x; mov.u32 k, %tid.x;",
             "mad.lo.u32 i, i, j, k; setp.ge.u32 p, i, n; @p ret;"]
    registers = {}
    for name, kind in zip(names, variant.sources, strict=False):
        width = WIDTH[kind]
        registers[name] = f"r{name}"
        lines.append(f".reg .b{width} r{name}; ld.param.u64 x, [p{name}]; "
                     f"mad.wide.u32 x, i, {width // 8}, x; ld.global.b{width} r{name}, [x];")
    width = WIDTH[variant.target]
    lines.append(f".reg .b{width} rd; " + variant.text.format(d="rd", **registers))
    lines.append(f"ld.param.u64 y, [po]; mad.wide.u32 y, i, {width // 8}, y; "
                 f"st.global.b{width} [y], rd; ret;\n}}")
    return "\n".join(lines)
