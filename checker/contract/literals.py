"""Approximations of literals: the assembler computes them, or turns them into products.

In: Program. Out: Program; see the package's docstring for the rules.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from checker.contract.words import DEBUG, EFFECT_FREE, FUSED, MEASURED, UNCERTAIN, is_call
from checker.core import OPS, Approx, Const, Conv, Op, Program, Source

__all__ = ["computed_literals", "known_literals", "resolve_literals"]


def resolve_literals(program: Program) -> Program:
    """Divisions by literals become products; other approximations of literals get their own name.

    A literal is one in the text or a register whose only definition is a move of one.
    """
    if not any(op.name == "fapprox" for op in program.ops):
        return program
    known, folded = known_literals(program), computed_literals(program)
    reciprocals = {r for op in program.ops if _is_reciprocal(op) for r in op.dst}
    out, premises = [], set()
    rule = UNCERTAIN if DEBUG in program.premises else MEASURED
    for op in program.ops:
        if op.name == "fapprox" and isinstance(op.attr, Approx):
            args = [known.get(s, s) if isinstance(s, int) else s for s in op.src]
            new = _approx_of_literals(op, args)
            if new is not op:
                premises.add(rule)
            else:
                # The assembler may drop both reciprocals, or fold what it can compute: this is
                # not the unit's function for certain.
                why = ("@reciprocal" if _is_reciprocal(op) and op.src[0] in reciprocals else
                       "@folded" if op.src[-1] in folded else "")
                if why:
                    new = replace(op, attr=replace(op.attr, fn=op.attr.fn + why))
                    premises.add(UNCERTAIN)
            op = new
        out.append(op)
    if not premises:
        return program
    return replace(program, ops=tuple(out), premises=program.premises | premises)


def _is_reciprocal(op: Op) -> bool:
    return isinstance(op.attr, Approx) and op.attr.fn == "rcp.approx"


def known_literals(program: Program) -> dict[int, Const]:
    """Registers that hold one literal: a single, unguarded `mov` writes them, or an exact `cvt`."""
    writes = _writes(program)
    moves = [op for op in program.ops if op.name in ("mov", "fcvt") and op.guard is None
             and writes[op.dst[0]] == 1 and not is_call(program, op)]
    found: dict[int, Const] = {}
    for _ in range(4):  # moves of moves
        before = len(found)
        for op in moves:
            source = op.src[0]
            value = source if isinstance(source, Const) else found.get(source)
            if value is not None and op.name == "fcvt":
                value = _small_integer(op, value)
            if value is not None:
                found[op.dst[0]] = value
        if len(found) == before:
            break
    return found


def _writes(program: Program) -> Counter[int]:
    """How many operations write each register."""
    return Counter([reg for op in program.ops for reg in op.dst])


def _small_integer(op: Op, value: Const) -> Const | None:
    """An integer below 2**24 as f32, exactly; None for any other conversion."""
    conv = op.attr
    if not isinstance(conv, Conv) or conv.dst != "f32" or conv.src not in ("s32", "u32"):
        return None
    number = value.bits - (1 << 32) * (conv.src == "s32" and value.bits >> 31)
    if abs(number) >= 1 << 24 or conv.saturate:
        return None
    return Const(struct.unpack("<I", struct.pack("<f", float(number)))[0], 32)


def computed_literals(program: Program) -> set[int]:
    """Registers whose value follows from literals alone, by whatever pure operations."""
    writes = _writes(program)
    left = [(op.dst[0], op.reads) for op in program.ops
            if len(op.dst) == 1 and writes[op.dst[0]] == 1 and op.guard is None and op.src
            and OPS[op.name].kind in EFFECT_FREE]
    found: set[int] = set()
    grown = True
    while grown:
        before = len(found)
        for reg, read in left:
            if found.issuperset(read):
                found.add(reg)
        grown = len(found) > before
        left = [one for one in left if one[0] not in found]
    return found


def _approx_of_literals(op: Op, args: list[Source]) -> Op:
    attr = op.attr
    assert isinstance(attr, Approx)
    last = args[-1]
    if attr.mode.type == "f32" and attr.fn in FUSED and isinstance(last, Const):
        inverse = _inverse(last.bits)
        if inverse is not None and len(args) == 1:
            return Op("mov", op.dst, (Const(inverse, 32),), 32, op.guard, op.site)
        if inverse is not None:
            mode = replace(attr.mode, contract=True)
            return Op("fmul", op.dst, (op.src[0], Const(inverse, 32)), mode, op.guard, op.site)
    elif attr.fn == "tanh.approx" or not all(isinstance(a, Const) for a in args):
        return op  # (tanh is left to the unit)
    return replace(op, attr=replace(attr, fn=attr.fn + "@literal"))


def _inverse(bits: int) -> int | None:
    """1/c rounded to nearest, as f32 bits, for |c| from 2**-126 to 2**126; else None."""
    if not 0x00800000 <= bits & 0x7FFFFFFF <= 0x7E800000:
        return None
    value = 1 / Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])
    exponent = -149
    while abs(value) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    scaled = abs(value) / Fraction(2) ** exponent
    whole = round(scaled)  # ties to even
    near = float(Fraction(whole) * Fraction(2) ** exponent)
    packed: int = struct.unpack("<I", struct.pack("<f", near))[0]
    return packed | (bits & 0x80000000)
