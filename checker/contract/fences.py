"""Missing `wgmma.fence`: registers that matrix steps take over before their writes are ordered.

In: a lowered program. Out: the program with findings and premises. An asynchronous matrix step uses
its accumulator, and A where that is registers, in its own time; PTX (9.7.15.7.1) asks for a fence
before the first step, and between any other access to these registers and the step. A step that
some path reaches without any fence is a finding. One whose registers are used between the last
fence and the step rests on the premise `wgmma-fences`: Triton prints zeros for the accumulator
there, and the assembler sees the registers and orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    steps = [op for op in ops if _is_step(op)]
    if not steps:
        return program
    taken = {r for op in steps for r in _taken(op)}
    touched = [0 if _is_step(op) else _bits(taken.intersection(_registers(op))) for op in ops]
    blocks = build_cfg(program).blocks
    made = [_open(ops[b.start:b.end], touched[b.start:b.end]) for b in blocks]
    before = [0] * (len(blocks) + 1)
    before[0] = _NEVER
    work, reached = [0], {0}
    while work:
        at = work.pop()
        if at == len(blocks):
            continue
        left, fenced = made[at]
        after = left if fenced else before[at] | left
        for target in blocks[at].successors:
            if after & ~before[target] or target not in reached:
                before[target] |= after
                reached.add(target)
                work.append(target)
    found: list[tuple[int, str]] = []
    premises: set[str] = set()
    for block, start in zip(blocks, before, strict=False):
        state = start
        for op, used in zip(ops[block.start:block.end], touched[block.start:block.end],
                            strict=True):
            if _is_step(op) and state & _NEVER:
                found.append((op.site, _MESSAGE))
            elif _is_step(op) and state & _bits(_taken(op)):
                premises.add(PREMISE)
            state = 0 if _fences(op) else state | used
    return replace(program, findings=(*program.findings, *dict.fromkeys(found)),
                   premises=program.premises | premises)


def _open(ops: Sequence[Op], touched: Sequence[int]) -> tuple[int, bool]:
    """Return what a block leaves open, and whether it has a fence."""
    state, fenced = 0, False
    for op, used in zip(ops, touched, strict=True):
        state, fenced = (0, True) if _fences(op) else (state | used, fenced)
    return state, fenced


def _is_step(op: Op) -> bool:
    return op.name == "mma" and op.attr.unit == "wgmma"


def _fences(op: Op) -> bool:
    return op.name == "mma_fence" and op.guard is None


def _bits(registers: Iterable[int]) -> int:
    out = 0
    for r in registers:
        out |= 2 << r
    return out


def _taken(op: Op) -> list[int]:
    """The registers that a step uses in its own time."""
    return [r for r in (*op.dst, *op.src[:op.attr.a.regs]) if isinstance(r, int)]


def _registers(op: Op) -> list[int]:
    return [r for r in (*op.src, *op.dst) if isinstance(r, int)]
