"""Missing `wgmma.fence`: registers that matrix steps take over before their writes are ordered.

In: a lowered program. Out: the program with findings and premises. An asynchronous matrix step uses
its accumulator, and A where that is registers, in its own time; PTX (9.7.15.7.1) asks for a fence
before the first step, and between any other access to these registers and the step. A step that
some path reaches without any fence is a finding. One whose registers are used between the last
fence and the step rests on the premise `wgmma-fences`: Triton prints zeros for the accumulator
there, and the assembler sees the registers and orders them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from checker.cfg import build_cfg
from checker.core import Op, Program

__all__ = ["with_fences_checked"]

_NEVER = 1  # the bit that says that no fence was passed at all; register r has bit r + 1
_MESSAGE = "a matrix step that no wgmma.fence precedes"
PREMISE = "wgmma-fences"


def with_fences_checked(program: Program) -> Program:
    """Return a program whose findings name the steps that some path reaches without a fence."""
    ops = program.ops
    if not any(_is_step(op) for op in ops):
        return program
    blocks = build_cfg(program).blocks
    made = [_open(ops[b.start:b.end]) for b in blocks]
    before = [0] * (len(blocks) + 1)
    before[0] = _NEVER
    work, reached = [0], {0}
    while work:
        at = work.pop()
        if at == len(blocks):
            continue
        touched, fenced = made[at]
        after = touched if fenced else before[at] | touched
        for target in blocks[at].successors:
            if after & ~before[target] or target not in reached:
                before[target] |= after
                reached.add(target)
                work.append(target)
    found: list[tuple[int, str]] = []
    premises: set[str] = set()
    for block, start in zip(blocks, before, strict=False):
        state = start
        for op in ops[block.start:block.end]:
            if _is_step(op) and state & _NEVER:
                found.append((op.site, _MESSAGE))
            elif _is_step(op) and state & _taken(op):
                premises.add(PREMISE)
            state = 0 if _fences(op) else state | _touched(op)
    return replace(program, findings=(*program.findings, *dict.fromkeys(found)),
                   premises=program.premises | premises)


def _open(ops: Sequence[Op]) -> tuple[int, bool]:
    """Return what a block leaves open, and whether it has a fence."""
    state, fenced = 0, False
    for op in ops:
        state, fenced = (0, True) if _fences(op) else (state | _touched(op), fenced)
    return state, fenced


def _is_step(op: Op) -> bool:
    return op.name == "mma" and op.attr.unit == "wgmma"


def _fences(op: Op) -> bool:
    return op.name == "mma_fence" and op.guard is None


def _bits(registers: Sequence[object]) -> int:
    out = 0
    for r in registers:
        if isinstance(r, int):
            out |= 2 << r
    return out


def _taken(op: Op) -> int:
    """The registers that a step uses in its own time."""
    return _bits(op.dst) | _bits(op.src[:op.attr.a.regs])


def _touched(op: Op) -> int:
    return 0 if _is_step(op) else _bits((*op.src, *op.dst))
