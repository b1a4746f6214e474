"""Clean-up of a lowered program: dead operations, copies, register numbers.

In: blocks of operations over architectural and temporary registers. Out: the same function with
fewer operations. Every step is exact: an operation goes only if it is pure and its result is never
read; a copy goes only where source and copy hold the same value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checker.core import OPS, Guard, Op, Source
from checker.gcn.emitter import Registers

__all__ = ["CoreBlock", "clean", "live_in"]

_PURE = {"int", "pred", "float", "cvt", "move", "lane"}


@dataclass(slots=True)
class CoreBlock:
    """Operations of one block and the numbers of its successors."""

    ops: list[Op]
    succs: list[int] = field(default_factory=list)


def _pure(op: Op) -> bool:
    kind = OPS[op.name].kind
    if kind in _PURE:
        return True
    if op.name == "load":
        return True
    return op.name == "opaque" and bool(op.dst) and not op.src


def live_in(blocks: list[CoreBlock], registers: Registers) -> list[set[int]]:
    """Architectural registers whose value at each block's start may be read."""
    gen: list[set[int]] = []
    kill: list[set[int]] = []
    for block in blocks:
        reads: set[int] = set()
        writes: set[int] = set()
        for op in block.ops:
            for reg in op.reads:
                if reg not in writes and registers.names[reg]:
                    reads.add(reg)
            for reg in op.dst:
                if registers.names[reg]:
                    if op.guard is None:
                        writes.add(reg)
                    elif reg not in writes:
                        pass  # a guarded write neither kills nor reads
        gen.append(reads)
        kill.append(writes)
    live: list[set[int]] = [set() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for i in range(len(blocks) - 1, -1, -1):
            out: set[int] = set()
            for s in blocks[i].succs:
                out |= live[s]
            new = gen[i] | (out - kill[i])
            if new != live[i]:
                live[i] = new
                changed = True
    return live


def _dead(blocks: list[CoreBlock], registers: Registers) -> bool:
    """Remove dead operations; True if something went."""
    live = live_in(blocks, registers)
    removed = False
    for block in blocks:
        alive: set[int] = set()
        for s in block.succs:
            alive |= live[s]
        kept: list[Op] = []
        for op in reversed(block.ops):
            if _pure(op) and not any(reg in alive for reg in op.dst):
                removed = True
                continue
            if op.guard is None:
                alive.difference_update(op.dst)
            alive.update(op.reads)
            kept.append(op)
        kept.reverse()
        block.ops = kept
    return removed


def _forward(block: CoreBlock, registers: Registers) -> None:
    """Replace temporaries that copy a register by the register while it keeps its value."""
    source: dict[int, int] = {}
    holders: dict[int, set[int]] = {}
    out: list[Op] = []
    last_use: dict[int, int] = {}
    for i, op in enumerate(block.ops):
        for reg in op.reads:
            last_use[reg] = i
    next_write: dict[int, list[int]] = {}
    for i, op in enumerate(block.ops):
        for reg in op.dst:
            if registers.names[reg]:
                next_write.setdefault(reg, []).append(i)
    for i, op in enumerate(block.ops):
        if op.name == "mov" and op.guard is None and isinstance(op.src[0], int) and \
                not registers.names[op.dst[0]] and registers.names[op.src[0]]:
            arch, temp = op.src[0], op.dst[0]
            writes = next((w for w in next_write.get(arch, ()) if w > i), len(block.ops) + 1)
            if last_use.get(temp, -1) <= writes:
                source[temp] = arch
                holders.setdefault(arch, set()).add(temp)
                continue
        out.append(_renamed(op, source) if source else op)
    block.ops = out


def _renamed(op: Op, names: dict[int, int]) -> Op:
    if not any(isinstance(s, int) and s in names for s in op.src) and (
            op.guard is None or op.guard.reg not in names):
        return op
    src: tuple[Source, ...] = tuple(
        names.get(s, s) if isinstance(s, int) else s for s in op.src)
    guard = op.guard
    if guard is not None and guard.reg in names:
        guard = Guard(names[guard.reg], guard.neg)
    return Op(op.name, op.dst, src, op.attr, guard, op.site)


def _backward(block: CoreBlock, registers: Registers) -> None:
    """Let an operation write the register that its only reader copies it to."""
    uses: dict[int, int] = {}
    defined: dict[int, int] = {}
    for i, op in enumerate(block.ops):
        for reg in op.reads:
            uses[reg] = uses.get(reg, 0) + 1
        for reg in op.dst:
            defined[reg] = i if reg not in defined else -1
    touched: dict[int, list[int]] = {}
    for i, op in enumerate(block.ops):
        for reg in (*op.dst, *op.reads):
            if registers.names[reg]:
                touched.setdefault(reg, []).append(i)
    ops: list[Op | None] = list(block.ops)
    for i, copy in enumerate(block.ops):
        if copy.name != "mov" or not isinstance(copy.src[0], int) or \
                not registers.names[copy.dst[0]]:
            continue
        temp, arch = copy.src[0], copy.dst[0]
        at = defined.get(temp, -1)
        maker = ops[at] if at >= 0 else None
        if registers.names[temp] or uses.get(temp) != 1 or maker is None or at >= i or \
                maker.guard not in (None, copy.guard) or len(maker.dst) != 1:
            continue
        if copy.guard is not None and not _guard_ready(copy.guard.reg, at, defined, registers):
            continue
        if any(at <= t < i for t in touched.get(arch, ())):
            continue
        if OPS[maker.name].kind == "matrix" or (copy.guard is not None and maker.guard is None
                                                and OPS[maker.name].kind in ("lane", "memory")):
            continue
        ops[at] = Op(maker.name, (arch,), maker.src, maker.attr, copy.guard, maker.site)
        ops[i] = None
        touched.setdefault(arch, []).append(at)
    block.ops = [op for op in ops if op is not None]


def _guard_ready(reg: int, at: int, defined: dict[int, int], registers: Registers) -> bool:
    """The copy's guard has its value already where the value is made."""
    if registers.names[reg]:
        return reg not in defined
    return 0 <= defined.get(reg, at) < at or reg not in defined


def clean(blocks: list[CoreBlock], registers: Registers) -> None:
    """Run the clean-up until nothing is dead."""
    _dead(blocks, registers)
    for block in blocks:
        _forward(block, registers)
    while _dead(blocks, registers):
        pass
    for block in blocks:
        _backward(block, registers)
    while _dead(blocks, registers):
        pass
