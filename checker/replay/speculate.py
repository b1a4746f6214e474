"""Branches on data: run both paths of a small pure region and choose register by register.

In: a branch whose predicate is a tree. Out: the machine at the reconvergence point, each register
a `select` of its two values. Refused where the region writes memory, waits, exchanges lanes or
loops: then control flow really depends on data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import some
from checker.core import OPS, Op
from checker.replay.facts import POISON
from checker.replay.integers import select
from checker.replay.result import Unsupported
from checker.replay.values import Conc, V, hash_of, merge, undefined

if TYPE_CHECKING:
    from checker.replay.machine import Machine

__all__ = ["always", "both_paths", "maybe", "possible"]

_PURE = frozenset({"int", "pred", "float", "cvt", "move"})
_LIMIT = 4096  # operations in a region


def _pure(op: Op, loads: bool) -> bool:
    return OPS[op.name].kind in _PURE or op.name in ("branch", "special", "nop", "prefetch") or (
        loads and op.name == "load")


def _check(m: Machine, start: int, stop: int, loads: bool = True) -> None:
    """All blocks between a branch and its post-dominator are pure and acyclic."""
    cfg, ops = m.cfg, m.program.ops
    end = cfg.block_of[stop] if stop < len(ops) else cfg.end
    state: dict[int, int] = {}
    work = [(s, False) for s in cfg.blocks[cfg.block_of[start]].successors if s != end]
    total = 0
    while work:
        block, leaving = work.pop()
        if leaving:
            state[block] = 2
            continue
        if state.get(block) == 2:
            continue
        if block == cfg.end or state.get(block) == 1:
            raise m.unsupported("data-dependent", "a loop or an exit depends on data the launch "
                                                  "facts do not give")
        state[block] = 1
        work.append((block, True))
        b = cfg.blocks[block]
        total += b.end - b.start
        if total > _LIMIT or not all(
                _pure(op, loads) for op in ops[b.start : b.end]):
            raise m.unsupported("data-dependent", "what a kernel writes depends on data the "
                                                  "launch facts do not give")
        for after in b.successors:
            if after != end:
                if state.get(after) == 1:
                    raise m.unsupported("data-dependent", "a loop depends on data the launch "
                                                          "facts do not give")
                work.append((after, False))


def possible(m: Machine, pc: int) -> bool:
    """Whether all that a branch decides is what registers hold where its paths meet.

    A path that loads is none of these: where a predicate is undefined, it may read anything.
    """
    try:
        _check(m, pc, _meeting(m, pc), loads=False)
    except Unsupported:
        return False
    return True


def always() -> bool:
    """`possible` of an operation that only writes registers."""
    return True


def both_paths(m: Machine, op: Op, pc: int) -> int:
    """Run a branch's two paths up to where they meet; returns that operation."""
    stop = _meeting(m, pc)
    _check(m, pc, stop)
    was, m.speculative = m.speculative, True
    try:
        _fork(m, op, pc, stop)
    finally:
        m.speculative = was
    return stop


def _meeting(m: Machine, pc: int) -> int:
    block = m.cfg.postdom[m.cfg.block_of[pc]]
    return len(m.program.ops) if block == m.cfg.end else m.cfg.blocks[block].start


def _fork(m: Machine, op: Op, pc: int, stop: int) -> None:
    assert op.guard is not None
    reg = op.guard.reg
    p = m.read(reg)
    holds = _decided(p)
    before = list(m.regs)
    m.regs[reg] = holds[not op.guard.neg]
    _straight(m, int(op.attr), stop)
    taken, m.regs = m.regs, before
    m.regs[reg] = holds[op.guard.neg]
    _straight(m, pc + 1, stop)
    fallen = m.regs
    if op.guard.neg:
        taken, fallen = fallen, taken
    widths = m.program.reg_widths
    out: list[V | None] = []
    for i, (a, b) in enumerate(zip(taken, fallen, strict=True)):
        if a is b:
            out.append(a)
        else:
            out.append(select(p, undefined(widths[i]) if a is None else a,
                              undefined(widths[i]) if b is None else b, m.mask))
    if taken[reg] is holds[True] and fallen[reg] is holds[False]:
        out[reg] = p  # neither path wrote it
    elif m.mask is not None and (made := out[reg]) is not None:
        out[reg] = merge(m.mask, made, p)
    m.regs = out


def _decided(p: V) -> dict[bool, V]:
    """A branch's predicate on the path where it holds, and on the other.

    One that nobody wrote, or that is still under way, may be another at each use: it stays a tree.
    """
    _, f = hash_of(p)
    if some(np.asarray(f) & POISON):
        return {True: p, False: p}
    return {truth: Conc(np.array([[truth]], dtype=np.uint64), 1) for truth in (True, False)}


def _straight(m: Machine, pc: int, stop: int) -> None:
    while pc != stop:
        m.pc = pc
        step = m.code[pc]
        if step is not None:
            step(m)
            pc += 1
            continue
        op = m.program.ops[pc]
        on: Any = m.mask if op.guard is None else m.guard(op.guard, always)
        if on is m.mask:
            pc = int(op.attr)
        elif not (isinstance(on, np.ndarray) or hasattr(on, "w")):
            pc += 1
        else:
            meet = _meeting(m, pc)
            _fork(m, op, pc, meet)
            pc = meet


def maybe(m: Machine, op: Op, p: V, act: Callable[[], None]) -> None:
    """Run an operation under an unknown guard: both outcomes, then a choice."""
    assert op.guard is not None
    before = {d: m.read(d) for d in op.dst}
    was, m.speculative = m.speculative, True
    try:
        act()
    finally:
        m.speculative = was
    for d, old in before.items():
        new = m.read(d)
        m.regs[d] = select(p, old, new, m.mask) if op.guard.neg else select(p, new, old, m.mask)
