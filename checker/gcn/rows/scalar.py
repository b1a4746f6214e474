"""Rows: scalar moves, selects and logic (SOP1, SOP2, SOPK), lane masks among them.

Source: CDNA3 ISA chapter 6, RDNA3/4 ISA chapter 6.

Scalar registers hold one value per wave. Operations on lane masks are carried out on predicates as
well, so that a mask that came from a compare is never seen as an unknown number.
"""

from __future__ import annotations

from checker.core import Const, Source
from checker.gcn import idioms
from checker.gcn.context import Context
from checker.gcn.emitter import fits
from checker.gcn.machine import EXEC, Unmodelled
from checker.gcn.rows.table import row
from checker.syntax import Immediate

__all__ = ["literal16", "restore_symbols", "set_nonzero", "source", "symbols_of", "width_of"]

ZERO32, ZERO64 = Const(0, 32), Const(0, 64)


def width_of(c: Context) -> int:
    return 64 if "64" in c.base.rsplit("_", 1)[-1] else 32


def source(c: Context, i: int, w: int) -> Source:
    return c.src(i, "u64" if w == 64 else "u32")


def set_nonzero(c: Context, value: Source, w: int) -> None:
    c.m.write_scc(c.e.icmp("ne", value, ZERO64 if w == 64 else ZERO32, f"u{w}"))


def _masklike(c: Context, *operands: int) -> bool:
    """Is one operand known to be a lane mask, and the others masks, 0, -1 or registers?"""
    known = False
    for i in operands:
        op = c.operand(i)
        if isinstance(op, Immediate):
            if op.kind != "int" or op.value not in (0, -1):
                return False
            continue
        file, n, _ = c.index(i)
        if file != "s":
            return False
        known = known or c.m.is_mask(n)
    return known


# --- moves and selects


@row("s_mov_b32 s_mov_b64")
def s_mov(c: Context) -> None:
    """D = S0."""
    w = width_of(c)
    if w == c.wave and (c.index(0)[1] == EXEC or _masklike(c, 1)):
        c.put_mask(0, c.mask_source(1))
        return
    symbols = symbols_of(c, 1, w // 32)
    c.put(source(c, 1, w))
    restore_symbols(c, symbols)


def symbols_of(c: Context, i: int, count: int) -> list[tuple[int, object]]:
    try:
        file, n, _ = c.index(i)
    except Unmodelled:
        return []
    return [(k, c.m.symbols[file, n + k]) for k in range(count) if (file, n + k) in c.m.symbols]


def restore_symbols(c: Context, symbols: list[tuple[int, object]]) -> None:
    file, n, _ = c.index(0)
    for k, symbol in symbols:
        c.m.symbols[file, n + k] = symbol


@row("s_movk_i32")
def s_movk(c: Context) -> None:
    """D = sign-extended 16-bit literal."""
    c.put(literal16(c, 1))


def literal16(c: Context, i: int, signed: bool = True) -> Const:
    op = c.operand(i)
    if not isinstance(op, Immediate) or op.kind != "int":
        raise Unmodelled("a 16-bit literal is expected")
    low = op.value & 0xFFFF
    return fits(low - 0x10000 if signed and low & 0x8000 else low, 32)


@row("s_cmov_b32 s_cmov_b64")
def s_cmov(c: Context) -> None:
    """D = SCC ? S0 : D."""
    w = width_of(c)
    c.put(c.e.select(c.m.read_scc(), source(c, 1, w), source(c, 0, w), w))


@row("s_cselect_b32 s_cselect_b64")
def s_cselect(c: Context) -> None:
    """D = SCC ? S0 : S1."""
    w = width_of(c)
    scc = c.m.read_scc()
    constants = all(isinstance(op, Immediate) and op.value in (0, -1)
                    for op in (c.operand(1), c.operand(2)))
    if w == c.wave and (constants or _masklike(c, 1, 2)):
        p, q = c.mask_source(1), c.mask_source(2)
        chosen = c.e.select(scc, p, q, 1)
        if p in c.e.uniform and q in c.e.uniform:
            c.e.uniform.add(chosen)
        number = c.e.select(scc, source(c, 1, w), source(c, 2, w), w)
        n = c.mask_at(0)
        c.put_mask(0, chosen)
        if constants:
            c.m.write_mask(n, chosen, number)
        return
    a, b = source(c, 1, w), source(c, 2, w)
    c.put(idioms.division_select(c.e, scc, a, b) or c.e.select(scc, a, b, w))


# --- logic


def _logic(c: Context, name: str, invert_b: bool, invert_result: bool) -> None:
    w = width_of(c)
    if w == c.wave and _masklike(c, 1, 2):
        _mask_logic(c, name, invert_b, invert_result)
        return
    e = c.e
    a, b = source(c, 1, w), source(c, 2, w)
    if isinstance(a, Const) and not invert_b:
        a, b = b, a
    value = e.int2(name, a, e.not_(b, w) if invert_b else b, w)
    if c.base == "s_and_b32" and b == Const(0xFFFF, 32) and e.is_pointer_high(a):
        e.premises.add("48-bit-pointers")  # a buffer descriptor takes the low 48 bits
        e.pointers.add(value)
    if invert_result:
        value = e.not_(value, w)
    _address_logic(c, value, name, w)
    set_nonzero(c, value, w)


def _address_logic(c: Context, value: Source, name: str, w: int) -> None:
    symbols: list[tuple[int, object]] = []
    if w == 32 and name == "iand":
        symbols = symbols_of(c, 1, 1)
    c.put(value)
    if symbols and symbols[0][1] is not None and isinstance(symbols[0][1], tuple) and \
            symbols[0][1][0] == "high":
        restore_symbols(c, symbols)


def _mask_logic(c: Context, name: str, invert_b: bool, invert_result: bool) -> None:
    e = c.e
    p, q = c.mask_source(1), c.mask_source(2)
    if invert_b:
        result = e.pandnot(p, q) if name == "iand" else e.por(p, e.pnot(q))
    elif name == "iand":
        result = e.pand(p, q)
    else:
        result = e.por(p, q) if name == "ior" else e.pxor(p, q)
    if invert_result:
        result = e.pnot(result)
    c.put_mask(0, result)
    c.m.write_scc(e.any(result, c.wave))


_LOGIC = {"and": ("iand", False, False), "or": ("ior", False, False), "xor": ("ixor", False, False),
          "nand": ("iand", False, True), "nor": ("ior", False, True), "xnor": ("ixor", False, True),
          "andn2": ("iand", True, False), "orn2": ("ior", True, False),
          "and_not1": ("iand", True, False), "or_not1": ("ior", True, False)}


@row(" ".join(f"s_{n}_b{w}" for n in _LOGIC for w in (32, 64)))
def s_logic(c: Context) -> None:
    """D = S0 op S1; SCC = D != 0."""
    _logic(c, *_LOGIC[c.base[2:].rsplit("_", 1)[0]])


@row("s_not_b32 s_not_b64")
def s_not(c: Context) -> None:
    """D = ~S0; SCC = D != 0."""
    w = width_of(c)
    if w == c.wave and _masklike(c, 1) and not isinstance(c.operand(1), Immediate):
        result = c.e.pnot(c.mask_source(1))
        c.put_mask(0, result)
        c.m.write_scc(c.e.any(result, c.wave))
        return
    value = c.e.not_(source(c, 1, w), w)
    c.put(value)
    set_nonzero(c, value, w)


@row(" ".join(f"s_{n}_saveexec_b{w}" for n in (
    "and", "or", "xor", "andn1", "andn2", "orn1", "orn2", "nand", "nor", "xnor", "and_not0",
    "and_not1", "or_not0", "or_not1") for w in (32, 64)))
def s_saveexec(c: Context) -> None:
    """D = EXEC; EXEC = S0 op EXEC; SCC = EXEC != 0."""
    if width_of(c) != c.wave:
        raise Unmodelled("half of exec written alone")
    e = c.e
    s, old = c.mask_source(1), c.m.exec
    name = c.base[2:].rsplit("_saveexec", 1)[0]
    table = {
        "and": lambda: e.pand(old, s), "or": lambda: e.por(s, old), "xor": lambda: e.pxor(s, old),
        "andn1": lambda: e.pandnot(old, s), "and_not0": lambda: e.pandnot(old, s),
        "andn2": lambda: e.pandnot(s, old), "and_not1": lambda: e.pandnot(s, old),
        "orn1": lambda: e.por(e.pnot(s), old), "or_not0": lambda: e.por(e.pnot(s), old),
        "orn2": lambda: e.por(s, e.pnot(old)), "or_not1": lambda: e.por(s, e.pnot(old)),
        "nand": lambda: e.pnot(e.pand(s, old)), "nor": lambda: e.pnot(e.por(s, old)),
        "xnor": lambda: e.pnot(e.pxor(s, old)),
    }
    new = table[name]()
    c.put_mask(0, old)
    c.m.write_mask(EXEC, new)
    c.m.write_scc(e.any(new, c.wave))


@row("s_andn1_wrexec_b64 s_andn2_wrexec_b64 s_and_not0_wrexec_b32 s_and_not1_wrexec_b32 "
     "s_and_not0_wrexec_b64 s_and_not1_wrexec_b64")
def s_wrexec(c: Context) -> None:
    """EXEC = D = S0 & ~EXEC (n2, not1) or ~S0 & EXEC; SCC = D != 0."""
    e = c.e
    s, old = c.mask_source(1), c.m.exec
    new = e.pandnot(s, old) if c.base.startswith(("s_andn2", "s_and_not1")) else e.pandnot(old, s)
    c.m.write_mask(EXEC, new)
    c.put_mask(0, new)
    c.m.write_scc(e.any(new, c.wave))


@row("s_wqm_b32 s_wqm_b64")
def s_wqm(c: Context) -> None:
    """Whole-quad mask: compute kernels do not use it."""
    raise Unmodelled("whole-quad mode")
