"""Runs of independent float operations of one kind, done at once: the lanes of all, end to end.

In: a program and its basic blocks. Out: for each run its place and one step. An unrolled product of
two register tiles is hundreds of such operations on few lanes; one at a time, their cost is all
overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial

import numpy as np

from checker.core import OPS, Op, Program
from checker.replay.facts import Mask
from checker.replay.machine import Machine, Step
from checker.replay.schedule import early
from checker.replay.values import Conc, Hash, V, hash_of, resize

__all__ = ["runs", "step"]

Read = Callable[[Machine], list[V]]
_LANES = 1 << 15  # lanes of one batch, about
_LEAST = 4


def runs(program: Program, block_of: Sequence[int], delayed: Sequence[Sequence[int]] = ()
         ) -> Iterator[list[int]]:
    """Places of at least four operations that may all be done where the first one stands."""
    yield from early(program, block_of, partial(_key, program), delayed, _LEAST)


def _key(program: Program, op: Op) -> Hashable | None:
    return (op.name, op.attr, program.reg_widths[op.dst[0]]) if _plain(op) else None


def _plain(op: Op) -> bool:
    return (op.guard is None and len(op.dst) == 1 and op.name in OPS
            and OPS[op.name].kind in ("float", "cvt") and op.name not in ("fcmp", "fclass"))


def step(program: Program, ops: Sequence[Op], reads: Sequence[Read], width: int) -> Step:
    """One step for a whole run; `width` is that of the results."""
    name, attr = ops[0].name, ops[0].attr

    def run(m: Machine) -> None:
        most = max(1, _LANES // (m.B * m.T))
        sources = [read(m) for read in reads]
        out: list[V] = []
        for at in range(0, len(ops), most):
            part = sources[at : at + most]
            mask: Mask | None = None if m.mask is None else np.tile(m.full(m.mask), (len(part), 1))
            values = [_together(m, column) for column in zip(*part, strict=True)]
            out += _apart(m.domain.float_op(name, attr, values, mask, width), len(part), m)
        for op, v in zip(ops, out, strict=True):
            wide = program.reg_widths[op.dst[0]]
            m.put(op.dst[0], v if v.w == wide else resize(v, wide), m.mask, False)

    return run


def _together(m: Machine, values: Sequence[V]) -> V:
    """The lanes of all values as rows of one."""
    shape = (len(values), m.B, m.T)
    flat = (len(values) * m.B, m.T)
    if all(isinstance(v, Conc) and v.defined is None for v in values):
        first = values[0].bits  # type: ignore[union-attr]
        bits = np.empty(shape, dtype=first.dtype)
        for i, v in enumerate(values):
            bits[i] = v.bits  # type: ignore[union-attr]
        return Conc(bits.reshape(flat), values[0].w)
    pairs = [hash_of(v) for v in values]
    h = np.empty((2, *shape), dtype=np.uint64)
    for i, (one, _) in enumerate(pairs):
        h[:, i] = one
    facts = {f if isinstance(f, int) else None for _, f in pairs}
    if len(facts) == 1 and None not in facts:
        return Hash(h.reshape(2, *flat), pairs[0][1], values[0].w)
    f = np.empty(shape, dtype=np.uint32)
    for i, (_, one) in enumerate(pairs):
        f[i] = one
    return Hash(h.reshape(2, *flat), f.reshape(flat), values[0].w)


def _apart(v: V, count: int, m: Machine) -> list[V]:
    """The values of a batch's result."""
    if isinstance(v, Conc):
        rows = np.broadcast_to(v.bits, (count * m.B, m.T)).reshape(count, m.B, m.T)
        return [Conc(row, v.w) for row in rows]
    h, f = hash_of(v)
    h = np.broadcast_to(h, (2, count * m.B, m.T)).reshape(2, count, m.B, m.T)
    if isinstance(f, int):
        return [Hash(h[:, i], f, v.w) for i in range(count)]
    f = np.broadcast_to(f, (count * m.B, m.T)).reshape(count, m.B, m.T)
    return [Hash(h[:, i], f[i], v.w) for i in range(count)]
