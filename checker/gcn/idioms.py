"""Exact idioms of LLVM's AMDGPU back end, found in the definitions of one block.

In: a value that completes an idiom. Out: the core value it equals for every input, or None.
f32 to bf16 in integers (LLVM expands it where the target has no conversion): the bias and the
carry round to nearest even, the select replaces a NaN. Unsigned 32-bit division (LLVM
AMDGPUCodeGenPrepare, expandDivRem32): the estimate from `v_rcp_iflag_f32`, one Newton step and two
corrections are exact because the reciprocal is within 1 ulp: the premise `rcp-iflag`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.core import Const, Conv, Source

if TYPE_CHECKING:
    from checker.gcn.emitter import Emitter

__all__ = ["bf16_high_half", "bf16_select", "division_select", "reciprocal"]

MAGIC = 0x4F7FFFFE  # just below 2**32, as f32


def reciprocal(e: Emitter, value: Source) -> Source | None:
    """The divisor y if the value is the refined integer reciprocal of y."""
    if value in e.reciprocals:
        return e.reciprocals[value]
    found = e.definition(value)
    if found is None or found[0] != "iadd":
        return None
    for r, step in (found[1], found[1][::-1]):
        product = e.definition(step)
        if product is None or product[0] != "imulhi_u" or r not in product[1]:
            continue
        error = product[1][1] if product[1][0] == r else product[1][0]
        y = _estimate(e, r)
        if y is not None and _is_negated_product(e, error, r, y):
            return y
    return None


def _estimate(e: Emitter, r: Source) -> Source | None:
    """y if r = cvt_u32(rcp_iflag(cvt_f32_u32(y)) * MAGIC)."""
    converted = e.definition(r)
    if converted is None or converted[0] != "fcvt" or converted[2].dst != "u32":
        return None
    scaled = e.definition(converted[1][0])
    if scaled is None or scaled[0] != "fmul" or scaled[2].rnd != "rn":
        return None
    for constant, other in (scaled[1], scaled[1][::-1]):
        if constant != Const(MAGIC, 32):
            continue
        inverse = e.definition(other)
        if inverse is None or inverse[0] != "fapprox" or \
                inverse[2].fn not in ("v_rcp_iflag_f32", "v_s_rcp_f32", "v_rcp_f32"):
            continue
        source = e.definition(inverse[1][0])
        if source is not None and source[0] == "fcvt" and source[2].src == "u32":
            return source[1][0]
    return None


def _is_negated_product(e: Emitter, value: Source, r: Source, y: Source) -> bool:
    """value = (0 - y) * r."""
    found = e.definition(value)
    if found is None or found[0] != "imul":
        return False
    for a, b in (found[1], found[1][::-1]):
        if a != r:
            continue
        minus = e.definition(b)
        if minus is not None and minus[0] == "isub" and minus[1][0] == Const(0, 32) and \
                minus[1][1] == y:
            return True
        if minus is not None and minus[0] == "ineg" and minus[1][0] == y:
            return True
        if isinstance(b, Const) and isinstance(y, Const) and (b.bits + y.bits) % (1 << 32) == 0:
            return True
    return False


def _estimated(e: Emitter, q: Source) -> tuple[Source, Source] | None:
    """(x, y) if q = mulhi(x, reciprocal(y))."""
    found = e.definition(q)
    if found is None or found[0] != "imulhi_u":
        return None
    for x, r in (found[1], found[1][::-1]):
        y = reciprocal(e, r)
        if y is not None:
            return x, y
    return None


def _remainder(e: Emitter, value: Source) -> tuple[Source, Source, Source] | None:
    """(x, y, q) if value = x - q * y with q an estimate of x / y."""
    found = e.definition(value)
    if found is None or found[0] != "isub":
        return None
    x, product = found[1]
    factors = e.definition(product)
    if factors is None or factors[0] != "imul":
        return None
    for q, y in (factors[1], factors[1][::-1]):
        pair = _estimated(e, q)
        if pair is not None and pair[0] == x and pair[1] == y:
            return x, y, q
    return None


def division_select(e: Emitter, c: Source, a: Source, b: Source) -> Source | None:
    """c ? a : b where it is the second correction of x / y or x % y; else None."""
    second = _ordered(e, c, a, b)
    if second is None:
        return None
    r1, y, a, b = second
    first = _first(e, r1)
    if first is None or first[1] != y:
        return None
    x, _, q0, c1 = first
    name = ""
    if b == r1 and _is_minus(e, a, r1, y):
        name = "irem_u"
    elif _is_plus_one(e, a, b) and _first_quotient(e, b, q0, c1):
        name = "idiv_u"
    if not name:
        return None
    e.premises.add("rcp-iflag")
    return e.pure(name, 32, (x, y), 32)


def _ordered(e: Emitter, c: Source, a: Source, b: Source
             ) -> tuple[Source, Source, Source, Source] | None:
    """(r, y, value if r >= y, value otherwise) of a select on an unsigned compare."""
    test = e.definition(c)
    if test is not None and test[0] == "pnot":
        test, a, b = e.definition(test[1][0]), b, a
    if test is None or test[0] != "icmp" or test[2].type != "u32":
        return None
    p, q = test[1]
    return {"ge": (p, q, a, b), "le": (q, p, a, b), "lt": (p, q, b, a),
            "gt": (q, p, b, a)}.get(test[2].cond)


def _first(e: Emitter, r1: Source) -> tuple[Source, Source, Source, Source] | None:
    """(x, y, q0, condition) if r1 = r0 >= y ? r0 - y : r0."""
    chosen = e.definition(r1)
    if chosen is None or chosen[0] != "select":
        return None
    ordered = _ordered(e, *chosen[1])
    base = _remainder(e, ordered[0]) if ordered is not None else None
    if ordered is None or base is None or ordered[1] != base[1] or ordered[3] != ordered[0]:
        return None
    x, y, q0 = base
    return (x, y, q0, chosen[1][0]) if _is_minus(e, ordered[2], ordered[0], y) else None


def _first_quotient(e: Emitter, q1: Source, q0: Source, c1: Source) -> bool:
    """q1 = r0 >= y ? q0 + 1 : q0, under the same condition as the remainder."""
    found = e.definition(q1)
    if found is None or found[0] != "select":
        return False
    ours, theirs = _ordered(e, *found[1]), _ordered(e, c1, Const(1, 1), Const(0, 1))
    return ours is not None and theirs is not None and ours[:2] == theirs[:2] and \
        ours[3] == q0 and _is_plus_one(e, ours[2], q0)


def _is_minus(e: Emitter, value: Source, r: Source, y: Source) -> bool:
    """value = r - y, or r + (-y)."""
    found = e.definition(value)
    if found is None:
        return False
    if found[0] == "isub":
        return found[1][0] == r and found[1][1] == y
    if found[0] == "iadd":
        for a, b in (found[1], found[1][::-1]):
            minus = e.definition(b)
            if a == r and minus is not None and minus[0] == "isub" and \
                    minus[1][0] == Const(0, 32) and minus[1][1] == y:
                return True
    return False


def _is_plus_one(e: Emitter, value: Source, q: Source) -> bool:
    found = e.definition(value)
    return found is not None and found[0] == "iadd" and set(found[1]) == {q, Const(1, 32)}


def bf16_select(e: Emitter, c: Source, a: Source, b: Source) -> Source | None:
    """c ? a : b where it is f32 -> bf16: as 16 bits, zero-extended, or in the high half."""
    test = e.definition(c)
    if test is not None and test[0] == "pnot":
        test, a, b = e.definition(test[1][0]), b, a
    if test is None or test[0] != "fcmp" or test[2].type != "f32" or test[1][0] != test[1][1] or \
            test[2].cond not in ("num", "nan"):
        return None
    x = test[1][0]
    rounded, nan = (a, b) if test[2].cond == "num" else (b, a)
    w = e.width(a)
    conv = Conv("f32", "bf16", "rn")
    if w == 16:
        ok = _is_nan16(nan) and _is_biased(e, x, _upper(e, rounded))
        return e.pure("fcvt", 16, (x,), conv) if ok else None
    wide = e.definition(rounded)
    shifted = wide is not None and wide[0] == "shr_u" and wide[1][1] == Const(16, 32)
    if wide is not None and (shifted or (wide[0] == "zext" and wide[2] == (16, 32))):
        source = wide[1][0] if shifted else _upper(e, wide[1][0])
        ok = _is_nan16(nan) and _is_biased(e, x, source)
        return e.zext(e.pure("fcvt", 16, (x,), conv), 32) if ok else None
    if w == 32 and _is_biased(e, x, rounded) and _is_nan32(e, nan, x):
        low = e.extract(e.select(c, a, b, 32), 0, 16) if test is e.definition(c) else \
            e.extract(e.select(c, b, a, 32), 0, 16)
        return e.pack(low, e.pure("fcvt", 16, (x,), conv))
    return None


def _upper(e: Emitter, half: Source) -> Source | None:
    found = e.definition(half)
    return found[1][0] if found is not None and found[0] == "extract" and found[2] == (16, 16) \
        else None


def _is_nan16(value: Source) -> bool:
    return isinstance(value, Const) and value.bits & 0x7F80 == 0x7F80 and value.bits & 0x7F != 0 \
        and value.bits < 0x10000


def _is_nan32(e: Emitter, value: Source, x: Source) -> bool:
    if isinstance(value, Const):
        return _is_nan16(Const(value.bits >> 16, 16))
    found = e.definition(value)
    return found is not None and found[0] == "ior" and \
        set(found[1]) == {x, Const(0x400000, 32)}


def bf16_high_half(e: Emitter, value: Source) -> Source | None:
    """Bits 16..31 of x + bit 16 of x + 0x7fff, for an x that is never a NaN: bf16(x)."""
    found = e.definition(value)
    if found is None or found[0] != "iadd" or Const(0x7FFF, 32) not in found[1]:
        return None
    for x in _addends(e, value):
        if isinstance(x, int) and never_nan(e, x) and _is_biased(e, x, value):
            return e.pure("fcvt", 16, (x,), Conv("f32", "bf16", "rn"))
    return None


def never_nan(e: Emitter, value: Source, depth: int = 8) -> bool:
    """True for values that cannot be a NaN: min/max with a number, converted integers."""
    if isinstance(value, Const):
        return value.bits & 0x7FFFFFFF <= 0x7F800000
    found = e.definition(value)
    if found is None or depth == 0:
        return False
    name, src, attr = found
    if name in ("fmax", "fmin") and attr.type == "f32" and attr.nan != "nan":
        return any(never_nan(e, s, depth - 1) for s in src)
    if name == "fcvt":
        return attr.src[0] in "us" and attr.dst == "f32"
    if name in ("fabs", "fneg"):
        return never_nan(e, src[0], depth - 1)
    return name == "select" and all(never_nan(e, s, depth - 1) for s in src[1:])


def _addends(e: Emitter, value: Source) -> list[Source]:
    """The (at most three) terms of a sum whose inner sums are made for it."""
    found = e.definition(value)
    if found is None:
        return []
    out: list[Source] = []
    for term in found[1]:
        inner = e.definition(term)
        out += list(inner[1]) if inner is not None and inner[0] == "iadd" else [term]
    return out


def _is_biased(e: Emitter, x: Source, value: Source | None) -> bool:
    """value = x + ((x >> 16) & 1) + 0x7fff."""
    if value is None:
        return False
    terms: list[Source] = []
    work: list[Source] = [value]
    while work and len(terms) < 4:
        term = work.pop()
        found = e.definition(term)
        if found is not None and found[0] == "iadd" and term != x:
            work += found[1]
        else:
            terms.append(term)
    if len(terms) != 3 or x not in terms or Const(0x7FFF, 32) not in terms:
        return False
    terms.remove(x)
    terms.remove(Const(0x7FFF, 32))
    bit = e.definition(terms[0])
    if bit is None:
        return False
    if bit[0] == "zext" and bit[2] == (1, 32):
        inner = e.definition(bit[1][0])
        return inner is not None and inner[0] == "extract" and inner[1] == (x,) and \
            inner[2] == (16, 1)
    if bit[0] == "iand" and Const(1, 32) in bit[1]:
        other = bit[1][0] if bit[1][1] == Const(1, 32) else bit[1][1]
        inner = e.definition(other)
        if inner is not None and inner[0] == "zext":
            return _upper(e, inner[1][0]) == x
        return inner is not None and inner[0] == "shr_u" and inner[1] == (x, Const(16, 32))
    return False
