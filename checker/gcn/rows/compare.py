"""Rows: vector compares. A lane that exec has switched off gets 0 in the mask.

Source: CDNA3 ISA chapter 12 (VOPC). `v_cmpx` writes exec, up to gfx9 the mask operand too.
"""

from __future__ import annotations

from checker.core import Approx, Compare, Const, Source
from checker.gcn.context import Context
from checker.gcn.emitter import FALSE, TRUE
from checker.gcn.machine import EXEC, VCC, Unmodelled
from checker.gcn.rows.table import row

_INTEGER = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
_FLOAT = {"lt": "lt", "eq": "eq", "le": "le", "gt": "gt", "lg": "ne", "ge": "ge", "o": "num",
          "u": "nan", "nge": "ltu", "nlg": "equ", "ngt": "leu", "nle": "gtu", "neq": "neu",
          "nlt": "geu"}
_ALWAYS = {"f": FALSE, "t": TRUE, "tru": TRUE}


def _names(prefix: str) -> str:
    floats = [f"{prefix}_{n}_{t}" for n in (*_FLOAT, "f", "tru", "t")
              for t in ("f16", "f32", "f64")]
    ints = [f"{prefix}_{n}_{t}" for n in (*_INTEGER, "f", "t")
            for t in ("i16", "u16", "i32", "u32", "i64", "u64")]
    return " ".join(floats + ints)


@row(_names("v_cmp"))
def v_cmp(c: Context) -> None:
    """mask = S0 cond S1, under exec."""
    result = _compare(c, 1)
    c.put_mask(0, c.e.pand(result, c.m.exec))


@row(_names("v_cmpx"), dsts=0)
def v_cmpx(c: Context) -> None:
    """EXEC = S0 cond S1, under exec."""
    first = len(c.operands) - 2
    c.dsts = first
    _cmpx(c, first, _compare(c, first) if first in (0, 1) else FALSE)


def _cmpx(c: Context, first: int, cond: Source) -> None:
    """Write exec; up to gfx9 the mask operand too (vcc where it is not written out)."""
    if first not in (0, 1) or (c.target.major >= 10 and first == 1):
        raise Unmodelled("operands of v_cmpx")
    if c.disables_lanes:
        raise Unmodelled("exec from lanes of which DPP disables some")
    result = c.e.pand(cond, c.m.exec)
    if first:
        c.put_mask(0, result)
    elif c.target.major < 10:
        c.m.write_mask(VCC, result)
        c.writes |= {("s", VCC), ("s", VCC + 1)}
    c.writes |= {("s", EXEC), ("s", EXEC + 1)}
    c.m.write_mask(EXEC, result)


def _compare(c: Context, first: int) -> Source:
    _, _, cond, type = c.base.split("_")
    if c.flag("clamp"):
        raise Unmodelled("signalling compare")
    if type[0] == "f":
        return float_compare(c, cond, type, first)
    w = int(type[1:])
    a, b = c.src(first, f"u{w}"), c.src(first + 1, f"u{w}")
    if cond in _ALWAYS:
        return _ALWAYS[cond]
    return c.e.icmp(_INTEGER[cond], a, b, f"{'s' if type[0] == 'i' else 'u'}{w}")


def float_compare(c: Context, cond: str, type: str, first: int) -> Source:
    """A float compare by its word in the opcode; operand `first` and the next."""
    a, b = c.src(first, type), c.src(first + 1, type)
    if cond in _ALWAYS:
        return _ALWAYS[cond]
    denorm = "flush" if c.mode(type).denorm in ("flush", "flush_in") else "keep"
    name = _FLOAT[cond]
    if a == b and name in ("num", "equ", "geu", "leu", "nan"):
        if name in ("num", "nan"):
            return c.e.pure("fcmp", 1, (a, b), Compare(name, type, denorm))
        return TRUE
    return c.e.pure("fcmp", 1, (a, b), Compare(name, type, denorm))


# --- classes

_CLASSES = {0x003: "notanumber", 0x204: "infinite", 0x1F8: "finite", 0x090: "subnormal",
            0x108: "normal", 0x3FC: "number"}


@row("v_cmp_class_f32 v_cmp_class_f16 v_cmp_class_f64")
def v_cmp_class(c: Context) -> None:
    """mask = S0 is in one of the classes that S1 names."""
    c.put_mask(0, c.e.pand(_class(c, 1), c.m.exec))


@row("v_cmpx_class_f32 v_cmpx_class_f16 v_cmpx_class_f64", dsts=0)
def v_cmpx_class(c: Context) -> None:
    """EXEC = S0 is in one of the classes that S1 names."""
    first = len(c.operands) - 2
    c.dsts = first
    _cmpx(c, first, _class(c, first) if first in (0, 1) else FALSE)


def _class(c: Context, first: int) -> Source:
    type = c.base.rsplit("_", 1)[-1]
    value, mask = c.src(first, type), c.src(first + 1, "u32")
    if not isinstance(mask, Const):
        raise Unmodelled("class test with an unknown mask")
    bits = mask.bits & 0x3FF
    if bits & 3 in (1, 2):  # signalling NaNs and quiet ones are told apart
        if c.e.is_quiet(value):
            bits = bits | 3 if bits & 2 else bits & ~3
        elif not c.e.is_raw(value):
            raise Unmodelled("class test of what may be a signalling NaN, or was made quiet")
    if bits == 0:
        return FALSE
    if bits in _CLASSES:
        return c.e.pure("fclass", 1, (value,), (_CLASSES[bits], type))
    if 0x3FF ^ bits in _CLASSES:
        test = _CLASSES[0x3FF ^ bits]
        return c.e.pnot(c.e.pure("fclass", 1, (value,), (test, type)))
    if type == "f32":
        return _f32_class(c, value, bits)
    attr = Approx(f"class:{bits:#x}", "exact", c.mode(type))
    return c.e.pure("fapprox", 1, (value,), attr)


def _f32_class(c: Context, value: Source, bits: int) -> Source:
    """Any set of classes as integer tests on the bit pattern."""
    e = c.e
    ranges = {0: (0xFF800001, 0xFFBFFFFF), 1: (0xFFC00000, 0xFFFFFFFF), 2: (0xFF800000, 0xFF800000),
              3: (0x80800000, 0xFF7FFFFF), 4: (0x80000001, 0x807FFFFF), 5: (0x80000000, 0x80000000),
              6: (0, 0), 7: (1, 0x7FFFFF), 8: (0x800000, 0x7F7FFFFF), 9: (0x7F800000, 0x7F800000)}
    positive_nans = {0: (0x7F800001, 0x7FBFFFFF), 1: (0x7FC00000, 0x7FFFFFFF)}
    result: Source = FALSE
    for bit in range(10):
        if not bits >> bit & 1:
            continue
        for lo, hi in (ranges[bit], *([positive_nans[bit]] if bit in positive_nans else [])):
            inside = e.icmp("eq", value, Const(lo, 32), "u32") if lo == hi else e.icmp(
                "le", e.sub(value, Const(lo, 32)), Const(hi - lo, 32), "u32")
            result = e.por(result, inside)
    return result


