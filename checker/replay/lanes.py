"""Exchange between lanes of a warp: gather, votes, matches, reductions, matrix transpose.

In: values and the active mask. Out: steps. A value that comes from a lane that is off is undefined;
it is a finding only if it reaches an output, an address or a branch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.core import FloatMode, Op, Program
from checker.replay.facts import EXCH, Mask
from checker.replay.integers import int_op
from checker.replay.machine import EMPTY, Machine, Step
from checker.replay.values import (
    Conc,
    V,
    const,
    make_pack,
    map_lanes,
    mark,
    merge,
    pred_bits,
    split,
)

__all__ = ["gather_lanes", "step"]

Read = Callable[[Machine], list[V]]


def step(program: Program, op: Op, read: Read) -> Step:
    """The step of a lane operation."""
    compute = _COMPUTE[op.name]

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            raise m.unsupported("data-dependent", f"whether {op.name} runs depends on data the "
                                                  "launch facts do not give")
        results = compute(m, read(m), on, op)
        for d, v in zip(op.dst, results, strict=False):
            if v.w != m.program.reg_widths[d]:
                w = m.program.reg_widths[d]
                if v.w > w:
                    v = split(v, 0, w)
                elif isinstance(v, Conc):
                    v = Conc(v.bits.astype(np.uint64), w, v.defined)
            m.put(d, v, on, op.guard is not None)

    return run


def gather_lanes(v: V, index: NDArray[np.int64], T: int) -> V:
    """The value at thread `index` (b, T) of the block, for every lane."""
    def move(a: NDArray[Any]) -> NDArray[Any]:
        if a.shape[-1] == 1:
            return a
        if index.shape[0] == 1:
            return np.asarray(a[..., index[0]])
        shape = (*a.shape[:-2], index.shape[0], T)
        wide = np.broadcast_to(a, shape)
        at = np.broadcast_to(index, shape)
        return np.take_along_axis(wide, at, axis=-1)

    return map_lanes(v, move)


def _gather(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    v, lane, *mask = values
    bits = m.known(lane, on, "a shuffle's source lane").astype(np.int64)
    inside = bits < m.width
    index = np.where(inside, bits, 0) + m.warp_base
    out = gather_lanes(v, index, m.T)
    ok: Any = inside
    if on is not None:
        full = m.full(on)
        ok = inside & np.take_along_axis(full, np.broadcast_to(index, full.shape), axis=1)
    if mask:
        named = m.known(mask[0], on, "a member mask")
        ok = ok & (named >> np.where(inside, bits, 0).astype(np.uint64) & np.uint64(1) != 0)
    if not np.all(ok):
        out = merge(np.broadcast_to(np.asarray(ok), (m.B, m.T)), out, None)
    return [mark(out, EXCH)]


def _first(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    if on is None:
        return [gather_lanes(values[0], m.warp_base, m.T)]
    full = m.full(on).reshape(m.B, m.warps, m.width)
    lowest = full.argmax(axis=2)
    index = np.repeat(lowest, m.width, axis=1) + m.warp_base
    return [gather_lanes(values[0], index, m.T)]


def _vote(m: Machine, p: Mask, on: Mask | None) -> NDArray[np.uint64]:
    """Bits of a predicate over each warp, (B|1, T|1)."""
    if on is not None:
        p = p & on
    wide = np.broadcast_to(p, (p.shape[0], m.T)) & (m.lane_index < m.threads)
    cut = wide.reshape(p.shape[0], m.warps, m.width).astype(np.uint64)
    weights = np.uint64(1) << np.arange(m.width, dtype=np.uint64)
    return np.repeat((cut * weights).sum(axis=2, dtype=np.uint64), m.width, axis=1)


def _ballot(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    p = pred_bits(values[0], on)
    if p is None:
        return [_bits(m, values[0], on)]
    return [Conc(_vote(m, p, on), int(op.attr))]


def _bits(m: Machine, p: V, on: Mask | None) -> V:
    """A vote on data: a word whose bits are the lanes' predicates, 0 where a lane is off."""
    if on is not None:
        p = merge(on, p, const(0, 1))
    parts: list[V] = []
    for i in range(m.width):
        lane = m.warp_base + i
        part = mark(gather_lanes(p, np.minimum(lane, m.T - 1), m.T), EXCH)
        parts.append(part if m.threads % m.width == 0 else merge(lane < m.threads, part,
                                                                 const(0, 1)))
    return make_pack(parts)


def _lanebit(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    mask = m.known(values[0], on, "a lane mask")
    lane = (m.lane_index % m.width).astype(np.uint64)
    return [Conc(((mask >> lane) & np.uint64(1)) != 0, 1)]


def _activemask(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    return [Conc(_vote(m, np.ones((m.B, 1), dtype=bool), on), int(op.attr))]


def _members(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    """Report lanes that a member mask leaves out, or names although they run something else.

    Several groups of lanes may run one instruction, each with its own mask.
    """
    mask = m.known(values[0], on, "a member mask")
    if (on is None or m.solo) and every(mask == np.uint64((1 << m.width) - 1)):
        return []
    here = m.full(on) & m.live
    lane = (m.lane_index % m.width).astype(np.uint64)
    mask = np.broadcast_to(mask, here.shape)
    here_word, alive = (_vote(m, x, None) for x in (here, m.live))
    bad = (mask >> lane & np.uint64(1) == 0) | (mask & alive & ~here_word != 0)
    for i in range(m.width):  # those that are named name the same
        other = np.minimum(m.warp_base + i, m.T - 1)
        theirs = np.take_along_axis(mask, np.broadcast_to(other, mask.shape), axis=1)
        bad = bad | ((mask & alive) >> np.uint64(i) & np.uint64(1) != 0) & (theirs != mask)
    if some(bad & here):
        m.report("member-mask", "the lanes that run this are not those that its member mask names")
    return []


def _match(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    bits = m.known(values[0], on, "a match")
    wide = np.broadcast_to(bits, (m.B, m.T)).reshape(m.B, m.warps, m.width)
    equal = wide[:, :, :, None] == wide[:, :, None, :]
    act = m.full(on).reshape(m.B, m.warps, 1, m.width)
    weights = np.uint64(1) << np.arange(m.width, dtype=np.uint64)
    same = ((equal & act).astype(np.uint64) * weights).sum(axis=3, dtype=np.uint64)
    members = np.broadcast_to(m.known(values[1], on, "a member mask"), (m.B, m.T))
    out = same.reshape(m.B, m.T) & members
    if op.name == "match_any":
        return [Conc(out, 32)]
    active = _vote(m, np.ones((m.B, 1), dtype=bool), on) & members
    every = out == active
    return [Conc(np.where(every, out, np.uint64(0)), 32), Conc(every, 1)]


def _redux(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    kind, type_name = op.attr
    v = values[0]
    members = m.known(values[1], on, "a member mask")
    cut = m.full(on).reshape(m.B, m.warps, m.width)
    if some(cut.any(axis=2) & ~cut.all(axis=2)) or some(
            members != np.uint64((1 << m.width) - 1)):
        raise m.unsupported("redux", "a warp reduction over part of a warp is not modelled")
    kind, *mods = kind.split(".")
    if "abs" in mods:
        raise m.unsupported("redux", "a warp reduction of magnitudes is not modelled")
    name = {"add": "iadd", "and": "iand", "or": "ior", "xor": "ixor", "min": "imin_",
            "max": "imax_"}[kind]
    if name.endswith("_"):
        name += type_name[0]
    distance = 1
    while distance < m.width:
        other = gather_lanes(v, m.lane_index ^ distance, m.T)
        if type_name.startswith("f"):
            mode = FloatMode("f32", nan="nan" if "NaN" in mods else "num")
            v = m.domain.float_op("f" + kind, mode, [v, other], on, 32)
        else:
            v = int_op(name, 32, [v, other], on, 32)
        distance *= 2
    return [v]


def _elect(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    mask = m.known(values[0], on, "an election")
    act = _vote(m, np.ones((m.B, 1), dtype=bool), on) & mask
    low = act & (np.uint64(0) - act)
    leader = np.bitwise_count(low - np.uint64(1)).astype(np.uint64)
    lane = (m.lane_index % m.width).astype(np.uint64)
    return [Conc(leader, 32), Conc(leader == lane, 1)]


def _movmatrix(m: Machine, values: list[V], on: Mask | None, op: Op) -> list[V]:
    """8x8 b16: lane l holds row l // 4, columns 2 (l % 4) and the next."""
    low, high = split(values[0], 0, 16), split(values[0], 16, 16)
    lane = m.lane_index % m.width
    halves: list[V] = []
    for k in range(2):
        row, col = 2 * (lane % 4) + k, lane // 4
        source = row * 4 + col // 2 + m.warp_base
        a, b = gather_lanes(low, source, m.T), gather_lanes(high, source, m.T)
        halves.append(merge(np.asarray(col % 2 == 0), a, b))
    return [make_pack(halves)]


_COMPUTE: dict[str, Callable[..., list[V]]] = {
    "gather": _gather, "first": _first, "ballot": _ballot, "lanebit": _lanebit,
    "activemask": _activemask, "match_any": _match, "match_all": _match, "redux": _redux,
    "elect": _elect, "movmatrix": _movmatrix, "members": _members,
}
