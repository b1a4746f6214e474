"""Words both halves of the pass share: which operations are products and sums; premises."""

from __future__ import annotations

from checker.core import Approx, FloatMode, Op, Program

__all__ = ["DEBUG", "EFFECT_FREE", "FUSED", "MEASURED", "TARGETS", "UNCERTAIN", "is_call",
           "is_product", "is_sum", "mode_of"]

TARGETS = frozenset(("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"))
MEASURED, UNCERTAIN = "contraction:measured", "contraction"
EFFECT_FREE = frozenset(("int", "pred", "float", "cvt", "move"))  # kinds of operations
DEBUG = "debug-target"  # `.target ..., debug`: the assembler may not optimise at all
# What an approximation that ends in a multiply becomes when the sum behind it is fused in.
FUSED = {"div.full": "divfma.full", "div.approx": "divfma.approx", "rcp.approx": "rcpfma.approx"}


def is_product(op: Op) -> bool:
    """Whether the machine code of an operation ends in a multiply that may be fused."""
    if op.name == "fmul":
        return isinstance(op.attr, FloatMode) and op.attr.contract
    return (op.name == "fapprox" and isinstance(op.attr, Approx) and op.attr.fn in FUSED
            and op.attr.mode.type == "f32"
            and not (op.attr.fn == "rcp.approx" and op.attr.mode.denorm != "keep"))


def is_sum(op: Op) -> bool:
    """Whether an operation is a plain add or sub."""
    return op.name in ("fadd", "fsub") and isinstance(op.attr, FloatMode) and op.attr.contract


def mode_of(op: Op) -> FloatMode:
    """The float mode of a product or sum."""
    mode = op.attr.mode if isinstance(op.attr, Approx) else op.attr
    assert isinstance(mode, FloatMode)
    return mode


def is_call(program: Program, op: Op) -> bool:
    """Whether an operation belongs to an inlined call itself (passing, returning)."""
    text = program.sites[op.site].text
    if "call" not in text:
        return False
    words = text.split(None, 2)
    opcode = words[1] if len(words) > 1 and words[0].startswith("@") else words[0] if words else ""
    return opcode.rstrip(";") in ("call", "call.uni")
