"""Exact identities of float operations: each holds for every input, a NaN's payload aside.

In: an operator, its mode and operand nodes. Out: the canonical node. `RULES` names every identity
with its guard and its reason; `Floats` applies them while nodes are made. What is not here is not
assumed: no reassociation, no distribution, nothing that holds only for finite values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from checker.arith.formats import FORMATS
from checker.arith.ops import apply
from checker.core import Approx, Compare, Conv, FloatMode
from checker.tree.nodes import Forest, Node
from checker.tree.scales import Scales
from checker.tree.values import Value, Values

__all__ = ["RULES", "Floats", "Rule", "mode_text"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One identity: what becomes what, when it may be used, why it is exact."""

    name: str
    identity: str
    guard: str
    reason: str


RULES: dict[str, Rule] = {r.name: r for r in (
    Rule("commute", "a + b = b + a; a * b = b * a; fma(a, b, c) = fma(b, a, c)", "any mode",
         "IEEE 754 sums and products are symmetric"),
    Rule("subtract", "a - b = a + (-b)", "any mode", "defined so; NaN signs aside"),
    Rule("saturate", "sat(x) = min(max(x, 0), 1)", "any mode",
         "the extrema take no NaN for a number: sat(NaN) = +0; +0 is above -0"),
    Rule("add-minus-zero", "x + (-0) = x", "denormals kept",
         "-0 is the identity of IEEE addition: (+0) + (-0) = +0, (-0) + (-0) = -0 (not rm)"),
    Rule("add-plus-zero", "x + (+0) = x", "denormals kept, not rm, x is never -0",
         "only -0 + (+0) = +0 differs from x"),
    Rule("double", "x + x = x * 2", "no saturation", "one real value rounded once on both sides"),
    Rule("multiply-one", "x * 1 = x", "denormals kept, no saturation", "exact"),
    Rule("multiply-minus-one", "x * -1 = -x", "denormals kept, no saturation",
         "exact; only the sign bit changes"),
    Rule("negate-twice", "-(-x) = x", "denormals kept", "the sign bit flips twice"),
    Rule("negate-literal", "-(c) = the literal with its sign bit flipped", "denormals kept",
         "bits"),
    Rule("sign-of-product", "(-a) * b = -(a * b); fma(-a, b, c) = fma(a, -b, c)",
         "rn or rz, no saturation",
         "the product's magnitude does not depend on the sign and both roundings are symmetric"),
    Rule("fma-exact-product", "fma(a, b, c) = a * b + c for a, b in f32 widened from f16 or fp8",
         "f32, denormals kept, rn or rz, no saturation",
         "11 and 11 bits, no exponent below -48 or above 32: the product is exact"),
    Rule("divide-power-of-two", "x / 2**k = x * 2**-k", "2**-k a normal number, no saturation",
         "both round the same real number once"),
    Rule("reciprocal", "rcp(x) = 1 / x", "both correctly rounded, one mode",
         "both round the same real number once"),
    Rule("round-widened", "round(widen(h)) = h", "widen exact, same type, denormals kept, no clamp",
         "h is representable"),
    Rule("half-through-single", "round(widen(a) + widen(b)) = a + b; round(widen(a) * widen(b)) = "
         "a * b for a, b in f16 or bf16", "f32 sum or product and rounding to nearest, one type, "
         "denormals kept, no clamp",
         "24 >= 2 * 11 + 2 bits, and no exponent leaves f32's range but for products of two bf16: "
         "these have 16 bits, exact down to half of the smallest bf16, and round to 0 below"),
    Rule("convert-choice", "convert(c ? x : literal) = c ? convert(x) : convert(literal)", "any",
         "a conversion is a function of its operand"),
    Rule("widen-bf16", "widen(bf16 h) = h << 16", "denormals kept", "bf16 is the top of f32"),
    Rule("extremum-set", "max and min are sets", "one mode, no flush, no xorsign, no relu",
         "associative, commutative and idempotent with stated NaN and zero order (+0 > -0)"),
    Rule("widen-extremum", "widen(max(a, b)) = max(widen(a), widen(b))",
         "exact widening, one NaN mode, no flush",
         "widening keeps order, the order of zeros and which operands are NaN"),
    Rule("nan-test", "isnan(-x) = isnan(|x|) = isnan(x); isnan(x, c) = isnan(x, x)",
         "c a literal that is no NaN", "only the sign bit differs, and c is no NaN"),
    Rule("beyond-infinity", "x < -inf = x > inf = false; x >= -inf = x <= inf = not isnan(x)",
         "any mode", "no number is beyond an infinity"),
    Rule("literal", "an operation on literals is its result", "no NaN results",
         "computed with the same arithmetic as the replay"),
    Rule("sign-bit", "x ^ sign = -x; x & ~sign = |x|", "any", "bits"),
)}

SIGN = {"f16": 0x8000, "bf16": 0x8000, "f32": 0x8000_0000, "f64": 0x8000_0000_0000_0000}
WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F80_0000, "f64": 0x3FF0_0000_0000_0000}
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_BIAS = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}
_INFINITY = {kind: (2 * _BIAS[kind] + 1) << _MANTISSA[kind] for kind in _BIAS}
_FOLDED = frozenset({"fadd", "fmul", "ffma", "fdiv", "fsqrt", "fcvt"})
_SHORT = frozenset({"f16", "e4m3", "e5m2"})  # products of two are exact in f32
_WIDER = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}


def mode_text(mode: FloatMode) -> str:
    """Return everything of a mode that the result depends on; `contract` is a mere permission."""
    flags = "".join((".sat" if mode.saturate else "", ".relu" if mode.relu else "",
                     ".xs" if mode.xorsign_abs else ""))
    return f"{mode.type}.{mode.rnd}.{mode.denorm}.{mode.nan}{flags}"


def power_of_two(bits: int, kind: str) -> int | None:
    """Return k where the literal is +2**k, a normal number."""
    m = _MANTISSA[kind]
    exponent = bits >> m
    if bits & ((1 << m) - 1) or not 0 < exponent < 2 * _BIAS[kind] + 1:
        return None
    return exponent - _BIAS[kind]


class Floats:
    """Makers of float nodes over one forest; `used` collects names of the rules that fired."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.forest: Forest = values.forest
        self.used: set[str] = set()
        self.scales = Scales(values.forest, mode_text)

    def literal(self, node: Node) -> int | None:
        """Return the bits of a literal that all lanes share."""
        if node.op == "int" and node.poly is not None and node.poly.is_const:
            c = node.poly.const
            if isinstance(c, int):
                return c & ((1 << node.width) - 1)
        return None

    def op(self, name: str, mode: FloatMode, args: Sequence[Node]) -> Node:
        """Return the canonical node of one float operation."""
        if mode.saturate and mode.type in SIGN:
            return self._clamped(self.op(name, replace(mode, saturate=False), args), mode.type)
        plain = not (mode.saturate or mode.relu or mode.xorsign_abs)
        handler = getattr(self, f"_{name}", None)
        made: Node | None = self._folded(name, mode, args, mode.type)
        if made is None and handler is not None and mode.type in SIGN:
            made = handler(mode, list(args), plain)
        return self.raw(name, mode, args) if made is None else made

    def _clamped(self, x: Node, kind: str) -> Node:
        """Return what saturates: the maximum with 0, which no NaN is, then the minimum with 1."""
        self.used.add("saturate")
        low = self.op("fmax", FloatMode(kind), (x, self.forest.literal(WIDTH[kind], 0)))
        return self.op("fmin", FloatMode(kind), (low, self.forest.literal(WIDTH[kind], ONE[kind])))

    def _folded(self, name: str, attr: Any, args: Sequence[Node], kind: str) -> Node | None:
        """Return the result of an operation on literals, as a literal."""
        if name not in _FOLDED or kind not in SIGN:
            return None
        literals = []
        for a in args:
            bits = self.literal(a)
            if bits is None:
                return None
            literals.append((a.width, bits))
        out = _result(name, attr, tuple(literals))
        if out & ~SIGN[kind] & ((1 << WIDTH[kind]) - 1) > _INFINITY[kind]:
            return None
        self.used.add("literal")
        return self.forest.literal(WIDTH[kind], out)

    def raw(self, name: str, mode: FloatMode, args: Sequence[Node], tag: str = "") -> Node:
        """Return the node as it stands; an extremum that is no set gets another name."""
        if name in ("fmax", "fmin"):
            name, tag = "fextremum", f".{name}"
        return self.forest.make(name, mode_text(mode) + tag, width=WIDTH.get(mode.type, 32),
                                args=args, extra=mode,
                                may_neg_zero=self._may_neg_zero(name, mode, args))

    @staticmethod
    def _may_neg_zero(name: str, mode: FloatMode, args: Sequence[Node]) -> bool:
        if mode.denorm != "keep" or mode.rnd == "rm":
            return True
        if name == "fadd":
            return all(a.may_neg_zero for a in args)
        return name not in ("fabs",)

    # -- the operations
    def _fadd(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        a, b = args
        sign = SIGN[mode.type]
        if plain and mode.denorm == "keep" and mode.rnd != "rm":
            for x, zero in ((a, b), (b, a)):
                bits = self.literal(zero)
                if bits == sign:
                    self.used.add("add-minus-zero")
                    return x
                if bits == 0 and not x.may_neg_zero:
                    self.used.add("add-plus-zero")
                    return x
        if a is b and plain:
            self.used.add("double")
            two = ONE[mode.type] + (1 << _MANTISSA[mode.type])
            return self.op("fmul", mode, (a, self.forest.literal(WIDTH[mode.type], two)))
        return None

    def _fsub(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        self.used.add("subtract")
        return self.op("fadd", mode, (args[0], self.negate(args[1], mode.type)))

    def negate(self, x: Node, kind: str) -> Node:
        """Return x with its sign bit flipped."""
        bits = self.literal(x)
        if bits is not None:
            self.used.add("negate-literal")
            return self.forest.literal(x.width, bits ^ SIGN[kind])
        if x.op == "fneg" and x.attr == kind:
            self.used.add("negate-twice")
            return x.args[0]
        if x.op in ("gather", "mux") and x.table is not None:
            moved = [self.negate(a, kind) for a in x.args]
            if x.op == "gather":
                return self.forest.gather(moved[0], x.table)
            return self.forest.mux(x.table, moved)
        return self.forest.make("fneg", kind, width=x.width, args=(x,))

    def _fneg(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if plain and mode.denorm == "keep":
            return self.negate(args[0], mode.type)
        return None

    def _fabs(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if not plain or mode.denorm != "keep":
            return None
        x = args[0]
        while x.op in ("fneg", "fabs") and x.attr == mode.type:  # not one that flushes
            x = x.args[0]
        bits = self.literal(x)
        if bits is not None:
            return self.forest.literal(x.width, bits & ~SIGN[mode.type])
        return self.forest.make("fabs", mode.type, width=x.width, args=(x,), may_neg_zero=False)

    def _unsigned(self, x: Node, kind: str) -> tuple[Node, bool]:
        """Split a factor into magnitude part and whether its sign was flipped."""
        if x.op == "fneg" and x.attr == kind:
            return x.args[0], True
        bits = self.literal(x)
        if bits is not None and bits & SIGN[kind]:
            return self.forest.literal(x.width, bits ^ SIGN[kind]), True
        return x, False

    def _fmul(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if not plain or mode.rnd not in ("rn", "rz"):
            return None
        kind = mode.type
        (a, neg_a), (b, neg_b) = self._unsigned(args[0], kind), self._unsigned(args[1], kind)
        if neg_a or neg_b:
            self.used.add("sign-of-product")
        made: Node | None = None
        if mode.denorm == "keep":
            for x, one in ((a, b), (b, a)):
                if self.literal(one) == ONE[kind]:
                    self.used.add("multiply-minus-one" if neg_a or neg_b else "multiply-one")
                    made = x
        if made is None:
            made = self.scales.product(mode, a, b) or self.raw("fmul", mode, (a, b))
        return self.negate(made, kind) if neg_a != neg_b else made

    def _ffma(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if not plain or mode.rnd not in ("rn", "rz"):
            return None
        kind = mode.type
        (a, neg_a), (b, neg_b) = self._unsigned(args[0], kind), self._unsigned(args[1], kind)
        if neg_a or neg_b:
            self.used.add("sign-of-product")
        if mode.denorm == "keep" and ONE[kind] in (self.literal(a), self.literal(b)):
            x = a if self.literal(b) == ONE[kind] else b
            x = self.negate(x, kind) if neg_a != neg_b else x
            return self.op("fadd", mode, (x, args[2]))
        if mode.denorm == "keep" and self.literal(args[2]) == SIGN[kind]:
            return self.op("fmul", mode, args[:2])
        if mode.denorm == "keep" and kind == "f32" and self._short(a) and self._short(b):
            self.used.add("fma-exact-product")
            product = self.op("fmul", mode, (a, b))
            product = self.negate(product, kind) if neg_a != neg_b else product
            return self.op("fadd", mode, (product, args[2]))
        tag = ".np" if neg_a != neg_b else ""
        return (self.scales.fused(mode, a, b, args[2], tag)
                or self.raw("ffma", mode, (a, b, args[2]), tag))

    def _short(self, x: Node, depth: int = 8) -> bool:
        """Tell whether an f32 value is one of f16, whatever it is made from."""
        if x.op == "fcvt":
            return x.extra.src in _SHORT and x.extra.dst == "f32"
        if depth and x.op in ("gather", "mux", "fneg", "select"):
            return all(self._short(a, depth - 1) for a in x.args[x.op == "select":])
        bits = self.literal(x)
        return bits is not None and _fits_half(bits)

    def _fdiv(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if not plain:
            return None
        kind = mode.type
        b, negative = self._unsigned(args[1], kind)
        bits = self.literal(b)
        k = power_of_two(bits, kind) if bits is not None else None
        if k is None or not 0 < _BIAS[kind] - k < 2 * _BIAS[kind] + 1 or mode.rnd not in ("rn",
                                                                                         "rz"):
            return None
        self.used.add("divide-power-of-two")
        inverse = (_BIAS[kind] - k) << _MANTISSA[kind] | (SIGN[kind] if negative else 0)
        return self.op("fmul", mode, (args[0], self.forest.literal(WIDTH[kind], inverse)))

    def _frcp(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        self.used.add("reciprocal")
        one = self.forest.literal(WIDTH[mode.type], ONE[mode.type])
        return self.op("fdiv", mode, (one, args[0]))

    def _extremum(self, name: str, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if not plain or mode.denorm != "keep":
            return None
        self.used.add("extremum-set")
        a, b = args
        if a is b:
            return a
        return self.forest.make(name, f"{mode.type}.{mode.nan}", width=WIDTH[mode.type],
                                args=(a, b), may_neg_zero=a.may_neg_zero or b.may_neg_zero)

    def _fmax(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        return self._extremum("fmax", mode, args, plain)

    def _fmin(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        return self._extremum("fmin", mode, args, plain)

    def _fmax3(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        return self._three("fmax", mode, args, plain)

    def _fmin3(self, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        return self._three("fmin", mode, args, plain)

    def _three(self, name: str, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        if not plain or mode.denorm != "keep":
            return None
        return self.op(name, mode, (self.op(name, mode, args[:2]), args[2]))

    # -- conversions, approximations, comparisons
    def convert(self, conv: Conv, x: Value) -> Value:
        """Return a conversion; exact there and back again is nothing."""
        if conv.saturate and conv.dst in SIGN:
            inner = self.convert(replace(conv, saturate=False), x)
            return self._clamped(self.values.node(inner), conv.dst)
        clamps = conv.saturate or conv.satfinite or conv.relu
        node = self.values.node(x)
        if (conv.src, conv.dst) in _WIDER and not clamps and conv.denorm == "keep" \
                and node.op in ("fmax", "fmin") and node.attr.split(".")[0] == conv.src:
            self.used.add("widen-extremum")
            a, b = (self.values.node(self.convert(conv, k)) for k in node.args)
            mode = FloatMode(conv.dst, nan=node.attr.split(".")[1])
            return self.op(node.op, mode, (a, b))
        chosen = node.args[0] if node.op == "gather" else node
        if node.op == "mux" and node.table is not None and any(map(_with_a_literal, node.args)):
            return self.values.mux(node.table, [self.convert(conv, a) for a in node.args])
        if _with_a_literal(chosen):
            self.used.add("convert-choice")
            p, a, b = chosen.args
            width = WIDTH.get(conv.dst) or _number_width(conv.dst)
            made = self.values.select(p, self.convert(conv, a), self.convert(conv, b), width)
            return made if node.table is None else self.values.gather(made, node.table)
        if (conv.src, conv.dst) == ("bf16", "f32") and not clamps and conv.denorm == "keep":
            self.used.add("widen-bf16")
            return self.values.pack([self.forest.literal(16, 0), node])
        if conv.src in WIDTH and conv.dst in WIDTH and conv.denorm == "keep" and not clamps:
            if conv.src == conv.dst and conv.rnd not in ("rni", "rzi", "rmi", "rpi"):
                return node
            back = self._narrow_again(conv, node)
            if back is not None:
                self.used.add("round-widened")
                return back
            half = self._through_single(conv, node)
            if half is not None:
                self.used.add("half-through-single")
                return half
        if conv.src in SIGN:
            folded = self._folded("fcvt", conv, (node,), conv.dst)
            if folded is not None:
                return folded
        exact = (conv.src, conv.dst) in _WIDER
        text = (f"{conv.src}>{conv.dst}.{'' if exact else conv.rnd}.{conv.denorm}"
                f"{'.sat' if conv.saturate else ''}{'.fin' if conv.satfinite else ''}"
                f"{'.relu' if conv.relu else ''}{'.nz' if conv.nan_zero else ''}")
        width = WIDTH.get(conv.dst) or _number_width(conv.dst)
        integral = conv.dst[0] in "us"
        unsigned_source = conv.src[0] == "u" or conv.src[0] == "s"
        return self.forest.make(
            "fcvt", text, width=width, args=(node,), extra=conv, low=0 if integral else None,
            high=(1 << width) - 1 if integral else None,
            may_neg_zero=not unsigned_source and not (exact and not node.may_neg_zero))

    def _narrow_again(self, conv: Conv, x: Node) -> Node | None:
        if conv.rnd not in ("rn", "rz", "rm", "rp", "rna"):
            return None
        if conv.dst == "bf16" and conv.src == "f32" and x.op == "pack" and len(x.args) == 2 \
                and self.literal(x.args[0]) == 0 and x.args[0].width == 16:
            return x.args[1]
        if x.op == "fcvt" and (conv.dst, conv.src) in _WIDER \
                and x.attr == f"{conv.dst}>{conv.src}..keep":
            return x.args[0]
        if x.op in ("gather", "mux") and x.table is not None:
            moved = [self._narrow_again(conv, a) for a in x.args]
            if all(m is not None for m in moved):
                nodes = [m for m in moved if m is not None]
                return self.forest.gather(nodes[0], x.table) if x.op == "gather" \
                    else self.forest.mux(x.table, nodes)
        return None

    def _through_single(self, conv: Conv, x: Node) -> Node | None:
        """Return a rounded f32 sum or product of two widened halves as that of the halves."""
        if x.op == "fneg" and x.attr == "f32":
            inner = self._through_single(conv, x.args[0])
            return None if inner is None else self.negate(inner, conv.dst)
        if x.op not in ("fadd", "fmul") or x.attr != mode_text(FloatMode("f32")) \
                or conv.src != "f32" or conv.dst not in ("f16", "bf16") or conv.rnd != "rn":
            return None
        halves = [self._as_half(conv, a) for a in x.args]
        if None in halves:
            return None
        return self.op(x.op, FloatMode(conv.dst), [h for h in halves if h is not None])

    def _as_half(self, conv: Conv, x: Node, depth: int = 8) -> Node | None:
        """Return the value of a narrower type that an f32 value is exactly, None where unknown."""
        back = self._narrow_again(conv, x)
        if back is not None or not depth:
            return back
        bits = self.literal(x)
        if bits is not None:
            narrow = self._folded("fcvt", conv, (x,), conv.dst)
            wide = narrow and self._folded("fcvt", Conv(conv.dst, "f32"), (narrow,), "f32")
            return narrow if wide is x else None
        if x.op not in ("fneg", "fabs", "fmax", "fmin", "gather", "mux", "select") \
                or (x.op in ("fneg", "fabs") and x.attr != "f32"):  # one that flushes
            return None
        picks = x.op == "select"
        halves = [self._as_half(conv, a, depth - 1) for a in x.args[picks:]]
        inside = [h for h in halves if h is not None]
        if len(inside) < len(halves):
            return None
        if picks:
            return self.values.node(self.values.select(x.args[0], inside[0], inside[1], 16))
        if x.op == "fneg":
            return self.negate(inside[0], conv.dst)
        if x.table is not None:
            return self.forest.gather(inside[0], x.table) if x.op == "gather" \
                else self.forest.mux(x.table, inside)
        mode = FloatMode(conv.dst, nan="num" if x.op == "fabs" else x.attr.split(".")[1])
        return self.op(x.op, mode, inside)

    def approx(self, attr: Approx, args: Sequence[Node]) -> Node:
        """Return an approximation: equal only to itself on the same unit."""
        positive = attr.fn.startswith(("ex2", "v_exp")) and attr.mode.denorm == "keep"
        return self.forest.make("fapprox", f"{attr.fn}|{attr.unit}|{mode_text(attr.mode)}",
                                width=WIDTH.get(attr.mode.type, 32), args=args,
                                may_neg_zero=not positive)

    def compare(self, attr: Compare, a: Node, b: Node) -> Node:
        """Return a float comparison; `a > b` is `b < a`, and a negated one its complement."""
        cond, kind = attr.cond, attr.type
        if cond in ("nan", "num"):
            a, b = self._unsigned_all(a, kind), self._unsigned_all(b, kind)
            a, b = (b if self._is_number(a, kind) else a), (a if self._is_number(b, kind) else b)
        if cond in ("gt", "ge", "gtu", "geu"):
            cond = {"gt": "lt", "ge": "le", "gtu": "ltu", "geu": "leu"}[cond]
            a, b = b, a
        flipped = {"ltu": ("le", True), "leu": ("lt", True), "neu": ("eq", False),
                   "equ": ("ne", False), "nan": ("num", False)}
        if cond in flipped:
            base, swap = flipped[cond]
            if swap:
                a, b = b, a
            inner = self._comparison(base, attr, a, b)
            if inner is self.forest.false:
                return self.forest.true
            return self.forest.make("not", width=1, args=(inner,))
        return self._comparison(cond, attr, a, b)

    def _unsigned_all(self, x: Node, kind: str) -> Node:
        """Strip what changes the sign alone: `nan-test`."""
        while x.op in ("fneg", "fabs") and x.attr == kind:
            self.used.add("nan-test")
            x = x.args[0]
        return x

    def _is_number(self, x: Node, kind: str) -> bool:
        """Tell whether x is a literal that is no NaN."""
        bits, fmt = self.literal(x), FORMATS.get(kind)
        if bits is None or fmt is None or fmt.inf is None or kind not in SIGN:
            return False
        return bits & (SIGN[kind] - 1) <= fmt.inf

    def _comparison(self, cond: str, attr: Compare, a: Node, b: Node) -> Node:
        kind, sides = attr.type, (("lt", a, b), ("le", b, a))
        for base, high, low in sides if kind in SIGN else ():
            infinity = FORMATS[kind].inf or 0
            if cond == base and (self.literal(high) == infinity
                                 or self.literal(low) == infinity | SIGN[kind]):
                self.used.add("beyond-infinity")
                return self.forest.false if cond == "lt" else self.compare(
                    replace(attr, cond="num"), a, b)
        op = "fcmp_sym" if cond in ("eq", "ne", "num") else "fcmp"
        return self.forest.make(op, f"{cond}.{kind}.{attr.denorm}", width=1, args=(a, b))


@lru_cache(maxsize=4096)
def _result(name: str, attr: Any, literals: tuple[tuple[int, int], ...]) -> int:
    """Return what an operation makes of literals: (width, bits) of each."""
    return int(apply(name, attr, *(np.array(bits, dtype=f"u{width // 8}")
                                   for width, bits in literals)))


@lru_cache(maxsize=4096)
def _fits_half(bits: int) -> bool:
    """Tell whether the bits of an f32 are those of a number that f16 holds."""
    value = np.array(bits, dtype=np.uint32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(value) and value.astype(np.float16).astype(np.float32) == value)


def _number_width(kind: str) -> int:
    digits = "".join(ch for ch in kind if ch.isdigit())
    if kind[0] in "us" and digits:
        return int(digits)
    return 8


def _with_a_literal(node: Node) -> bool:
    """Tell whether a value is one of two by a condition, one of them a literal, in some lane."""
    node = node.args[0] if node.op == "gather" else node
    return node.op == "select" and any(a.op == "int" for a in node.args[1:])
