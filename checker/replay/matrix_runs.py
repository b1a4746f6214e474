"""Runs of matrix steps over registers, done wave by wave: the warps of all steps of a wave at once.

In: `mma` operations of one kind that follow each other. Out: one step. A wave holds steps whose
accumulators are ready; the products of all waves are summed beforehand, since the other operands do
not change inside a run. Where a step is unusual (part of the lanes, known bits) each is done alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from checker.arith.steps import StepModel, step_model
from checker.arrays import some
from checker.core import Fragment, Mma, Op, Program, Source
from checker.replay.facts import POISON, Facts, seen
from checker.replay.hashing import U64
from checker.replay.machine import Machine
from checker.replay.matrix import (
    UNKNOWN,
    Prepared,
    StepSum,
    integer_step,
    integer_words,
    keep_result,
    last_result,
    operand_poison,
    step_sums,
    tiles,
    to_fragment,
    write,
)
from checker.replay.rounding import (
    Opened,
    Tile,
    elements,
    minus_zero,
    opened_step,
    unmoved_by_zeros,
    where_null,
)
from checker.replay.schedule import Kind, runs
from checker.replay.values import V

__all__ = ["matrix_runs"]

_ELEMENTS = 1 << 19  # accumulator elements of the waves that are prepared together, about
_Last = tuple[list["_Member"], Tile, "Opened | None"] | None
Read = Callable[[Machine], list[V]]
Whole = Callable[[Machine], bool]


@dataclass(frozen=True, slots=True)
class _Member:
    """One step: its place, operand registers, and the earlier one that made its accumulator."""

    at: int
    a: tuple[Source, ...]
    b: tuple[Source, ...]
    before: int  # the place of that step, -1: none of this run
    wave: int


def matrix_runs(program: Program, block_of: Sequence[int], read: Callable[[Op], Read]
                ) -> Iterator[tuple[list[int], Whole]]:
    """Places of each run's operations, and what does them all (False: not this time)."""
    kind = Kind(_key, lambda op: op.name != "mma", chained=True)
    for places in runs(program, block_of, kind):
        for part in _parts(program, places):
            if len(part) > 1:
                yield part, _whole(program, part, read)


def _key(op: Op) -> Hashable | None:
    """Equal for steps that share a run: multisets of products onto an accumulator in registers."""
    if op.name != "mma" or op.guard is not None or not isinstance(op.attr, Mma):
        return None
    x: Mma = op.attr
    if (x.unit == "wgmma" or x.has_scale_d or x.blocks != 1 or x.a.neg or x.b.neg
            or {x.a.source, x.b.source, x.c.source} != {"regs"}
            or len(op.src) != x.a.regs + x.b.regs + x.c.regs):
        return None
    model = step_model(x)
    if model is None or model.kind == "fma" or model.chain == "add":
        return None
    return (model.id, x.unit, x.m, x.n, x.k, x.a.type, x.b.type, x.d_type, id(x.a.fragment),
            id(x.b.fragment), id(x.c.fragment))


def _parts(program: Program, places: list[int]) -> Iterator[list[int]]:
    """Cut where operand A or B is a result of the run, or an accumulator not one whole result."""
    part: list[int] = []
    owner: dict[int, int] = {}
    factors: set[Any] = set()
    for at in places:
        op = program.ops[at]
        split = op.attr.a.regs + op.attr.b.regs
        ab, c = set(op.src[:split]), op.src[split:]
        made = {owner.get(r, -1) if isinstance(r, int) else -1 for r in c}
        whole = made == {-1} or (len(made) == 1 and program.ops[made.copy().pop()].dst == c)
        if ab & owner.keys() or factors & set(op.dst) or not whole:
            yield part
            part, owner, factors = [], {}, set()
        part.append(at)
        owner.update(dict.fromkeys(op.dst, at))
        factors |= {r for r in ab if isinstance(r, int)}
    yield part


def _members(program: Program, places: list[int]) -> list[_Member]:
    """The steps by waves; inside a wave in the order of the text."""
    owner: dict[Source, int] = {}
    waves: dict[int, int] = {}
    out = []
    for at in places:
        op = program.ops[at]
        na, nb = op.attr.a.regs, op.attr.b.regs
        before = owner.get(op.src[na + nb], -1)
        waves[at] = waves[before] + 1 if before >= 0 else 0
        out.append(_Member(at, op.src[:na], op.src[na : na + nb], before, waves[at]))
        owner.update(dict.fromkeys(op.dst, at))
    return sorted(out, key=lambda x: x.wave)


def _whole(program: Program, places: list[int], read: Callable[[Op], Read]) -> Whole:
    attr: Mma = program.ops[places[0]].attr
    model, fragment = step_model(attr), attr.c.fragment
    assert model is not None
    assert fragment is not None
    members = _members(program, places)
    final = {d: at for at in places for d in program.ops[at].dst}
    kept = [at for at in places if any(final[d] == at for d in program.ops[at].dst)]
    reads = {at: read(program.ops[at]) for at in places}

    def run(m: Machine) -> bool:
        if not _usual(m, fragment.row.shape[0]):
            return False
        values = {at: reads[at](m) for at in places}
        out: dict[int, Tile] = {}
        last: _Last = None
        for group in _groups(members, fragment.row.shape[1] * m.B * m.T):
            last = _group(m, attr, model, group, values, out)
        done = {} if last is None else _dealt(m, last[0], last[1], fragment)
        for at in kept:
            write(m, program.ops[at], done.get(at) or _lanes(out[at], fragment), fragment, m.mask)
        if last is not None and all(x.at in kept for x in last[0]):
            keep_result(m, "matrices", [program.ops[x.at] for x in last[0]], *last[1:])
        return True

    return run


def _dealt(m: Machine, members: list[_Member], tile: Tile, fragment: Fragment) -> dict[int, Tile]:
    """The results of a wave as lane elements, by the place of their step."""
    h, f = _lanes(tile, fragment)
    cut = [slice(i * m.B, (i + 1) * m.B) for i in range(len(members))]
    return {x.at: (h[:, :, mine], f if isinstance(f, int) else f[:, mine])
            for x, mine in zip(members, cut, strict=True)}


def _lanes(tile: Tile, fragment: Fragment) -> Tile:
    """Matrices (2, rows, G, m, n) as lane elements (2, E, rows, T)."""
    h, f = tile
    return to_fragment(h, fragment), f if isinstance(f, int) else to_fragment(
        np.broadcast_to(f, h.shape[1:]), fragment)


def _usual(m: Machine, lanes: int) -> bool:
    """Whether all lanes that are left take part, in whole warps, in the domain of trees."""
    if m.T % lanes or m.domain.leaf_bits() or not (m.mask is None or m.solo):
        return False
    if m.mask is None:
        return True
    cut = m.full(m.mask).reshape(m.B, m.T // lanes, lanes)
    return not some(cut.any(axis=2) & ~cut.all(axis=2))


def _groups(members: list[_Member], size: int) -> Iterator[list[_Member]]:
    """Whole waves, as many as fit; `size`: elements of one step."""
    group: list[_Member] = []
    for _, wave in groupby(members, key=lambda x: x.wave):
        more = list(wave)
        if group and (len(group) + len(more)) * size > _ELEMENTS:
            yield group
            group = []
        group += more
    yield group


def _group(m: Machine, attr: Mma, model: StepModel, group: list[_Member],
           values: dict[int, list[V]], out: dict[int, Tile]) -> _Last:
    """Do these waves; `out` gains each step's result by its place. Returns the last wave's."""
    na, nb, fragment = attr.a.regs, attr.b.regs, attr.c.fragment
    assert fragment is not None
    a = _Operand(m, attr.a.fragment, [values[x.at][:na] for x in group], [x.a for x in group],
                 (attr.m, attr.k))
    b = _Operand(m, attr.b.fragment, [values[x.at][na : na + nb] for x in group],
                 [x.b for x in group], (attr.k, attr.n))
    poison = operand_poison(a.tile(), b.tile()) if (
        seen(a.unique[1]) | seen(b.unique[1])) & POISON else 0
    if model.kind in ("int", "int_sat"):
        _integers(m, attr, model, group, values, out, np.matmul(
            a.words(model.a_type), b.words(model.b_type)), poison)
        return None
    sums: dict[bool, list[StepSum]] = {}
    previous: list[_Member] = []
    acc: Tile | None = None
    opened: Opened | None = None
    start = 0
    for _, wave in groupby(group, key=lambda x: x.wave):
        now = list(wave)
        rows = slice(start * m.B, (start + len(now)) * m.B)
        if acc is None or [x.before for x in now] != [x.at for x in previous]:
            found = last_result(m, "matrices", [values[x.at][na + nb :] for x in now]) if all(
                x.before < 0 for x in now) else None
            acc, opened = found or (_accumulators(m, attr, now, values, out), UNKNOWN)
            if opened is UNKNOWN:
                opened = where_null(acc)
        signless = _signless(model, acc, len(now))
        pieces = []
        for flag in dict.fromkeys(signless):
            if flag not in sums:
                sums[flag] = step_sums(model, a.prepared(model, model.a_type, flag),
                                       b.prepared(model, model.b_type, flag))
            done, known = acc, opened
            for one in sums[flag]:
                if one.zero and unmoved_by_zeros(model, done):
                    continue
                none, null = (None if x is None else x[rows] for x in (one.none, one.null))
                done, known = opened_step(model, done, known, one.total[:, rows], none, null)
            pieces.append(done)
        more = poison if isinstance(poison, int) else poison[rows]
        if seen(acc[1]) & POISON:
            more = more | acc[1] & POISON
        if not isinstance(more, int) or more:
            pieces = [(h, f | more) for h, f in pieces]
        for i, x in enumerate(now):
            h, f = pieces[0] if signless[i] == signless[0] else pieces[1]
            mine = slice(i * m.B, (i + 1) * m.B)
            out[x.at] = (h[:, mine], f if isinstance(f, int) else f[mine])
        acc = None
        if len(pieces) == 1:
            acc, opened = pieces[0], known
        previous, start = now, start + len(now)
    return None if acc is None else (previous, acc, opened)


def _integers(m: Machine, attr: Mma, model: StepModel, group: list[_Member],
              values: dict[int, list[V]], out: dict[int, Tile], totals: U64, poison: Facts) -> None:
    """Exact sums, of which each step has a bound of its own; `totals`: the products' of all."""
    for i, x in enumerate(group):
        mine = slice(i * m.B, (i + 1) * m.B)
        out[x.at] = integer_step(model, _accumulators(m, attr, [x], values, out), totals[:, mine],
                                 attr.k, poison if isinstance(poison, int) else poison[mine])


class _Operand:
    """Operand A or B of several steps: equal registers are put together once."""

    def __init__(self, m: Machine, fragment: Fragment | None, values: list[list[V]],
                 names: list[tuple[Source, ...]], shape: tuple[int, int]) -> None:
        assert fragment is not None
        self.m, self.fragment = m, fragment
        slots = {name: i for i, name in enumerate(dict.fromkeys(names))}
        self.which = np.array([slots[name] for name in names])
        self.in_turn = len(slots) == len(names)
        first = dict(zip(names, values, strict=True))
        self.unique = tiles(m, [first[name] for name in slots], fragment, *shape)

    def _spread(self, x: Any, lead: int) -> Any:
        """From unique operands to those of every step, along the axis after `lead` others."""
        if x is None or isinstance(x, int) or self.in_turn:
            return x
        cut = x.reshape(*x.shape[:lead], -1, self.m.B, *x.shape[lead + 1 :])
        out = cut.take(self.which, axis=lead)
        return out.reshape(*x.shape[:lead], -1, *x.shape[lead + 1 :])

    def tile(self) -> Tile:
        """The operands of every step; hashes only for their shape."""
        h, f = self.unique
        shape = (2, len(self.which) * self.m.B, *h.shape[2:])
        return np.broadcast_to(h[:, :1], shape), self._spread(f, 0)

    def prepared(self, model: StepModel, type_name: str, signless: bool) -> Prepared:
        """Element hashes, zeros and nulls of every step's operand."""
        e, zero, null = elements(model, self.unique, type_name, signless)
        return self._spread(e, 1), self._spread(zero, 0), self._spread(null, 0)

    def words(self, type_name: str) -> U64:
        """What stands for the integers of every step's operand in products."""
        words: U64 = self._spread(integer_words(self.unique, type_name), 1)
        return words


def _accumulators(m: Machine, attr: Mma, now: list[_Member], values: dict[int, list[V]],
                  out: dict[int, Tile]) -> Tile:
    """The accumulators of a wave as matrices, from registers and from earlier steps."""
    fragment = attr.c.fragment
    assert fragment is not None
    split = attr.a.regs + attr.b.regs
    if all(x.before < 0 for x in now):
        return tiles(m, [values[x.at][split:] for x in now], fragment, attr.m, attr.n)
    found = [out[x.before] if x.before >= 0 else tiles(
        m, [values[x.at][split:]], fragment, attr.m, attr.n) for x in now]
    h = np.concatenate([h for h, _ in found], axis=1)
    facts = [f for _, f in found]
    if all(isinstance(f, int) and f == facts[0] for f in facts):
        return h, facts[0]
    return h, np.concatenate([np.broadcast_to(np.asarray(f, dtype=np.uint32), one.shape[1:])
                              for one, f in found])


def _signless(model: StepModel, acc: Tile, steps: int) -> list[bool]:
    """For each step, whether no sign of a zero product shows in it."""
    if model.kind != "fused":
        return [False] * steps
    may = minus_zero(model, acc)
    if isinstance(may, int):
        return [not may] * steps
    signed = np.any(np.broadcast_to(may != 0, acc[0].shape[1:]).reshape(steps, -1), axis=1)
    return [not x for x in np.asarray(signed).tolist()]
