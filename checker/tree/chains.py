"""Loops that take several like steps an iteration, as loops of one step.

In: a fold with one accumulator. Out: the same fold with `ratio` iterations for one where
  * its step is a chain of n = ratio * m operations, each on the result of the one before;
  * the j-th m of them at counter k are the first m at counter k + j / ratio, as trees: then with
    c = ratio * k + j they are one step of c;
  * the loop goes on while P - s * k >= 0, so that the finer loop goes on while P - (s / ratio) * c
    >= 0; and what the coarse loop does beyond that (in its last iteration) changes nothing, because
    all it adds is masked to zero there (or it never gets there, P being one less than a multiple).
So the width of a block of k leaves the tree, and a masked tail with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain as chained
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import every, is_number, some
from checker.core import FloatMode
from checker.tree.hashing import Hash
from checker.tree.logic import Logic
from checker.tree.nodes import Node, parameter_name
from checker.tree.poly import Mono, Poly, constant
from checker.tree.values import DIVISIBLE_BITS, divisible

if TYPE_CHECKING:
    from checker.tree.folds import Fold
    from checker.tree.rewrite import Rewriter, Scope

__all__ = ["keep", "one_step", "one_steps"]

MAX_CHAIN = 256
_HAVE_ZERO = frozenset({"f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2"})  # no bit set: +0

#: integers up to here are numbers in a type (f32 has room for all of 32 bits)
_LARGEST = {"f16": 65504, "bf16": 1 << 31, "f32": 1 << 31}


def one_step(rewriter: Rewriter, fold: Fold, signless: bool = False) -> Fold:
    """Return the fold with one step an iteration, or the fold as it is.

    signless: a value that differs from it in the sign of a zero will do.
    """
    return one_steps(rewriter, [fold], signless)[0]


def one_steps(rewriter: Rewriter, folds: list[Fold], signless: bool = False) -> list[Fold]:
    """Return the folds of one loop with one step an iteration, or as they are.

    The operands of all that may have one are hashed in one pass.
    """
    tries = [_tries(rewriter, fold, signless) for fold in folds]
    firsts = [next(more, None) for more in tries]
    for fold, first in zip(folds, firsts, strict=True):
        if first is not None:
            _ask(rewriter, fold, *first)
    rewriter.run()
    out = []
    for fold, first, more in zip(folds, firsts, tries, strict=True):
        made = fold
        for chain, m, ratio in chained([] if first is None else [first], more):
            if _alike(rewriter, fold, chain, m, ratio):
                made = replace(fold, steps=(chain[m - 1],), ratio=ratio)
                break
        out.append(made)
    return out


def _tries(rewriter: Rewriter, fold: Fold, signless: bool
           ) -> Iterator[tuple[list[Node], int, int]]:
    """Yield the chain, m and the ratio for each m that leaves only the operands to compare."""
    if len(fold.phis) != 1 or fold.out is not fold.phis[0] or fold.ratio > 1 \
            or (fold.inits[0].may_neg_zero and not signless):
        return
    chain = _chain(fold, signless)
    speed = _speed(fold)
    if chain is None or len(chain) < 2 or speed is None or not keep(chain, fold.inits[0]):
        return
    kinds = [(node.op, node.attr) for node in chain]
    for m in range(1, len(chain) // 2 + 1):
        ratio = len(chain) // m
        if len(chain) % m or speed % ratio or kinds[m:] != kinds[:-m]:
            continue
        beyond = _beyond(rewriter, fold, speed // ratio)
        if all((fold.form == "while" and beyond.within(i // m))
               or beyond.adds_nothing(node, fold.phis[0], i // m)
               for i, node in enumerate(chain) if i >= m):
            rewriter.forest.premises |= beyond.ends
            yield chain, m, ratio


def _chain(fold: Fold, signless: bool) -> list[Node] | None:
    """Return the operations from the accumulator to its next value."""
    phi = fold.phis[0]
    chain: list[Node] = []
    node = fold.steps[0]
    while node is not phi:
        if len(chain) >= MAX_CHAIN or not _carries(node, signless):
            return None
        inner = [a for a in node.args if a.deps & phi.deps]
        if len(inner) != 1:
            return None
        if (node.op == "mma" and inner[0] is not node.args[0]) or (
                node.op == "ffma" and inner[0] is not node.args[2]):
            return None
        chain.append(node)
        node = inner[0]
    if fold.cond.deps & phi.deps:
        return None
    return chain[::-1]


def _carries(node: Node, signless: bool) -> bool:
    """Tell whether x -> op(x, ...) keeps an x that is not -0 so, and x where it adds zeros.

    A multiply-add may make a -0, where a product underflows: it keeps x but for the sign of zero.
    """
    if node.op == "mma":
        return _never_minus_zero(node)
    mode = node.extra
    ops = ("fadd", "ffma") if signless else ("fadd",)
    return node.op in ops and isinstance(mode, FloatMode) and mode.denorm == "keep" \
        and mode.rnd in ("rn", "rz") \
        and not (mode.saturate or mode.relu or mode.xorsign_abs)


def _never_minus_zero(node: Node) -> bool:
    """Tell whether a matrix step of zeros on zero gives zero, and no other step gives -0."""
    return bool(node.extra.never_makes_minus_zero) or node.extra.kind in ("int", "int_sat")


def _either_sign(node: Node) -> bool:
    """Tell whether zeros of either sign are nothing to a matrix step: their products are zeros."""
    return node.op == "mma" and bool(node.extra.never_makes_minus_zero)


def _finite(node: Node) -> bool:
    """Tell whether a value is a number for certain: a small integer as one."""
    if node.op != "fcvt" or node.extra.dst not in _LARGEST:
        return False
    number = node.args[0].poly if node.args[0].op == "int" else None
    bounds = number.range() if number is not None else None
    return node.extra.src == "s32" and bounds is not None \
        and max(-bounds[0], bounds[1]) <= _LARGEST[node.extra.dst]


def keep(chain: list[Node], init: Node) -> bool:
    """Tell whether steps of zeros keep the accumulators that a chain's steps have.

    Some cut the accumulator first: that changes none which is 0 or came out of such a step.
    """
    if all(n.op != "mma" or n.extra.keeps_accumulator for n in chain):
        return True
    zero = init.op == "int" and init.poly is not None and not init.poly.terms
    return zero and all(n.op == "mma" and n.attr == chain[0].attr for n in chain)


def _speed(fold: Fold) -> int | None:
    """Return s where the loop goes on while P - s * k >= 0."""
    p = fold.cond
    if p.op != "ge0" or p.poly is None:
        return None
    c = p.poly.terms.get((fold.counter,))
    others = [m for m in p.poly.terms if m != (fold.counter,)]
    if c is None or isinstance(c, np.ndarray) or c >= 0 \
            or any(a.deps & fold.counter.deps for m in others for a in m):
        return None
    return int(-c)


def _beyond(rewriter: Rewriter, fold: Fold, speed: int) -> _Beyond:
    """Return what holds beyond the end, once for all accumulators of a loop."""
    name = ("beyond", fold.counter, fold.cond, speed)
    if name not in rewriter.plans:
        rewriter.plans[name] = _Beyond(rewriter.logic, fold.cond, speed, fold.counter)
    made: _Beyond = rewriter.plans[name]
    return made


def _scopes(rewriter: Rewriter, fold: Fold, ratio: int) -> list[Scope]:
    """Return all lanes at counter (c - j) / ratio for each j, once for all folds of a loop."""
    cond = fold.throughout()
    name = "finer", fold.counter, fold.level, ratio, cond
    if name not in rewriter.plans:
        rewriter.plans[name] = [rewriter.inside(fold.counter, fold.level, ratio, j, cond)
                                for j in range(ratio)]
    made: list[Scope] = rewriter.plans[name]
    return made


def _operands(fold: Fold, chain: list[Node]) -> list[list[Node]]:
    phi = fold.phis[0]
    return [[a for a in node.args if not a.deps & phi.deps] for node in chain]


def _ask(rewriter: Rewriter, fold: Fold, chain: list[Node], m: int, ratio: int) -> None:
    """Ask for what `_alike` compares."""
    scopes = _scopes(rewriter, fold, ratio)
    for i, operands in enumerate(_operands(fold, chain)):
        for a in operands:
            scopes[i // m].need(a)


def _alike(rewriter: Rewriter, fold: Fold, chain: list[Node], m: int, ratio: int) -> bool:
    """Tell whether the j-th m operations at counter (c - j) / ratio are the same for all j."""
    scopes, operands = _scopes(rewriter, fold, ratio), _operands(fold, chain)

    def alike(i: int, first: list[Node]) -> bool:
        return all(_same(scopes[i // m].of(a), scopes[0].of(b))
                   for a, b in zip(operands[i], first, strict=True))

    return all(alike(i, operands[i % m]) or (  # a product's factors, the other way round
        chain[i].op == "ffma" and alike(i, operands[i % m][::-1])) for i in range(m, len(chain)))


def _same(one: Hash, two: Hash) -> bool:
    return one is two or every(one == two)


class _Beyond:
    """What holds in the coarse loop's last iteration beyond the finer loop's end."""

    def __init__(self, logic: Logic, cond: Node, speed: int, counter: Node) -> None:
        self.logic = logic
        self.speed, self.counter = speed, counter
        self.known: dict[tuple[Node, int, bool, bytes], bool] = {}
        self.gaps: dict[tuple[Node, int], Any] = {}
        self.ends: set[str] = set()  # premises that what is outside of tensors rests on
        assert cond.poly is not None
        self.bound: Poly = cond.poly
        self.size = self._size()

    def _size(self) -> tuple[str, int]:
        """Return the size that the loop ends by and of what the loop's steps leave a multiple.

        n - t * k + c >= 0: where n, t and c + 1 are multiples of g, n - t * k + c < i says so of
        the multiple of g below i. Used only for an n of which the kernel shows that it relies on
        it (`Forest.shared`); g is 1 elsewhere.
        """
        sizes = [m for m in self.bound.terms if m and m != (self.counter,)]
        name = parameter_name(sizes[0][0]) if len(sizes) == 1 and len(sizes[0]) == 1 else None
        if name not in self.logic.forest.shared or not is_number(self.bound.terms[sizes[0]], 1) \
                or isinstance(self.bound.const, np.ndarray):
            return "", 1
        assert name is not None
        return name, math.gcd(1 << DIVISIBLE_BITS, self.bound.terms[(self.counter,)],
                              self.bound.const + 1)

    def within(self, j: int) -> bool:
        """Tell whether P - s * (ratio * k + j) >= 0 wherever the loop runs: P - s * ratio * k >= 0.

        What is no less than 0 is no less than g - 1 where it is one less than a multiple of g.
        """
        name, step = self.size
        if j * self.speed >= step:
            return False
        self.ends |= divisible({name})
        return True

    def adds_nothing(self, node: Node, phi: Node, j: int) -> bool:
        """Tell whether a chain's operation adds zeros where P - s * (ratio * k + j) < 0."""
        rest = [a for a in node.args if not a.deps & phi.deps]
        every = np.arange(self.logic.forest.lanes)
        either = _either_sign(node)
        return bool(rest) and all(self._zero(a, j, every, either) for a in rest)

    def _zero(self, node: Node, j: int, lanes: Any, either: bool = False) -> bool:
        """Tell whether a value is +0 (a row: all its elements) there, in these lanes.

        either: or -0.
        """
        if not len(lanes):
            return True
        memo = (node, j, either, lanes.tobytes())
        if memo not in self.known:
            self.known[memo] = False
            self.known[memo] = self._is_zero(node, j, lanes, either)
        return self.known[memo]

    def _is_zero(self, node: Node, j: int, lanes: Any, either: bool) -> bool:
        table = node.table
        if node.op == "int" and node.poly is not None:
            return self._sums_to_zero(node.poly, j, lanes)
        if node.op == "bit":
            return self._fails(node.args[0], j, lanes)
        if node.op == "gather" and table is not None:
            return self._zero(node.args[0], j, np.unique(table[lanes]), either)
        if node.op == "mux" and table is not None:
            return all(self._zero(a, j, lanes[table[lanes] == i], either)
                       for i, a in enumerate(node.args))
        if node.op == "krow" and table is not None:
            looked = table[:, lanes].reshape(-1, 2)
            return all(self._zero(a, j, np.unique(looked[looked[:, 0] == i, 1]), either)
                       for i, a in enumerate(node.args))
        if node.op in ("pack", "extract"):
            return all(self._zero(a, j, lanes) for a in node.args)
        if node.op == "fcvt" and node.extra.src in _HAVE_ZERO and node.extra.dst in _HAVE_ZERO:
            return self._zero(node.args[0], j, lanes, either)
        if node.op == "mma":  # zeros times zeros on zero
            products = _either_sign(node)
            return _never_minus_zero(node) and all(
                self._zero(a, j, lanes, products and a is not node.args[0]) for a in node.args)
        if node.op == "fmul" and either:
            return any(_finite(x) and self._zero(y, j, lanes, True)
                       for x, y in (node.args, node.args[::-1]))
        if node.op == "select":
            p, a, b = node.args
            return (self._zero(b, j, lanes, either) and self._fails(p, j, lanes)) or (
                self._zero(a, j, lanes, either) and self._fails(self.logic.negate(p), j, lanes))
        return False

    def _sums_to_zero(self, poly: Poly, j: int, lanes: Any) -> bool:
        """Tell whether an integer is 0 there: what its 0/1 atoms choose is."""
        here = np.zeros(self.logic.forest.lanes, dtype=np.int64)
        here[lanes] = 1
        left = Poly(poly.width, {})
        for mono, c in poly.terms.items():
            asked = lanes[c[lanes] != 0] if isinstance(c, np.ndarray) else lanes
            if any(self._zero(a, j, asked) for a in mono):
                continue
            chosen = tuple(a for a in mono if not self._one(a, j, asked))
            left = left.add(Poly(poly.width, {chosen: c}).scale(here))
        return not left.terms

    def _one(self, atom: Node, j: int, lanes: Any) -> bool:
        """Tell whether a 0/1 atom is 1 there."""
        while atom.op == "gather":
            assert atom.table is not None
            lanes = np.unique(atom.table[lanes])
            atom = atom.args[0]
        return atom.op == "bit" and self._fails(self.logic.negate(atom.args[0]), j, lanes)

    def _fails(self, p: Node, j: int, lanes: Any) -> bool:
        """Tell whether a condition cannot hold there: P - s * (...) is at least what it tests."""
        if not len(lanes):
            return True
        if p.op == "and":
            return any(self._fails(q, j, lanes) for q in p.args)
        if p.op == "or":
            return all(self._fails(q, j, lanes) for q in p.args)
        if p.op == "lanes" and p.table is not None:
            return not some(p.table[lanes])
        told = self._told(p)
        if told is not None:
            return not some(told[lanes] if isinstance(told, np.ndarray) else told)
        if p.op != "ge0" or p.poly is None:
            return False
        if (p, j) not in self.gaps:
            gap = self.bound.sub(constant(0, j * self.speed)).sub(p.poly)
            self.gaps[(p, j)] = gap.const if gap.is_const or self._ends(gap) else None
        gap = self.gaps[(p, j)]
        if gap is None:
            return False
        least = int(gap[lanes].min()) if isinstance(gap, np.ndarray) else int(gap)
        name, step = self.size
        back = j * self.speed % step
        if -back <= least < 0:
            self.ends |= divisible({name})
        return least + back >= 0

    def _told(self, p: Node) -> Any:
        """Return whether a test of a tensor's fill flag holds, None for any other condition.

        The flag says that what lies beyond the tensor is filled with NaN. Where a tile beyond the
        loop's end reaches there, it is taken to be zero (premise tensor-fill): the shorter steps
        do not sum what the longer ones sum there.
        """
        if p.op == "not":
            told = self._told(p.args[0])
            return None if told is None else ~told
        if p.op not in ("eq0", "ge0") or p.poly is None:
            return None
        flags = {self._flag(mono) for mono in p.poly.terms if mono}
        if None in flags:
            return None
        self.ends |= {f"tensor-fill:{name}=0" for name in flags}
        c = np.asarray(p.poly.const)
        return c == 0 if p.op == "eq0" else c >= 0

    def _flag(self, mono: Mono) -> str | None:
        """Return a fill flag that a product holds, by name."""
        for atom in mono:
            name = parameter_name(atom.args[0] if atom.op == "extract" else atom)
            if name in self.logic.forest.fills:
                return name
        return None

    def _ends(self, gap: Poly) -> bool:
        """Tell whether a gap is a parameter less a tensor's size, plus a literal.

        A tile that a loop fetches beyond its end, untested, is zero where the tensor ends with the
        loop (premise tensor-ends): the kernel would sum what lies behind it otherwise.
        """
        names = {c: [m for m, d in gap.terms.items() if m and not isinstance(d, np.ndarray)
                     and d == c] for c in (1, -1)}
        if any(len(m) != 1 or len(m[0]) != 1 for m in names.values()) or len(
                gap.terms) - (() in gap.terms) != 2:
            return False
        bound, size = (parameter_name(names[c][0][0]) for c in (1, -1))
        sizes = self.logic.forest.sizes
        if bound is None or size is None or "." in bound or not (
                ".size" in size or size in sizes):
            return False
        self.ends.add(f"tensor-ends:{size}<={bound}")
        return True
