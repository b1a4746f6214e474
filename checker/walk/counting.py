"""Counters that must meet their end: tests for inequality as tests of order.

In: a loop's counter, what holds before it, the test to go on. Out: the test, in one form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checker.tree.logic import conjuncts
from checker.tree.nodes import Node
from checker.tree.poly import Poly, constant

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["ordered"]


def ordered(engine: Engine, kappa: Node, running: int, path: Node, cond: Node) -> Node:
    """Return a test that a counter has not come to its end as one that it is below it.

    Q(k) falls by one an iteration; with Q(-1) >= 1 known before the loop, and Q(k) != 0 tested
    after each iteration, Q(k) >= 0 holds at every test: there Q(k) != 0 says Q(k) >= 1.
    """
    p = cond.args[0].poly if cond.op == "not" and cond.args[0].op == "eq0" else None
    if p is not None:
        p = _widened(engine, path, p)
    if p is None or any(kappa in m and m != (kappa,) for m in p.terms):
        return cond
    slope = p.terms.get((kappa,), 0)
    if isinstance(slope, np.ndarray) or slope not in (1, -1) or any(
            a.deps & (kappa.deps | running) for m in p.terms for a in m
            if a is not kappa):
        return cond
    q = p.scale(-slope)
    logic = engine.logic
    before = q.add(Poly(p.width, {(kappa,): 1})).add(constant(p.width, 1))  # Q(-1)
    if p.width:
        return _below(engine, kappa, path, cond, before, p.width)
    start = logic.at_least_zero(before.sub(Poly(0, {(): 1})))
    if logic.implies(conjuncts(path), start):
        return logic.at_least_zero(q.sub(Poly(0, {(): 1})))
    bounds = p.range()
    if bounds is not None and bounds[0] > -(1 << 32) and bounds[1] < 1 << 32:
        return _below(engine, kappa, path, cond, before.to_width(32), 32)
    return cond


def _widened(engine: Engine, path: Node, poly: Poly) -> Poly:
    """Return a sum in which a zero-extended word is its number where the path shows it is >= 0."""
    out = poly
    for mono, c in poly.terms.items():
        inner = mono[0].poly if len(mono) == 1 and mono[0].op == "zext" else None
        if inner is None or inner.width != 32:
            continue
        number = engine.values.sext(inner, 32, 0)
        if engine.logic.implies(conjuncts(path), engine.logic.at_least_zero(number)):
            out = out.sub(Poly(poly.width, {mono: c})).add(number.to_width(poly.width).scale(c))
    return out


def _below(engine: Engine, kappa: Node, path: Node, cond: Node, before: Poly, width: int
           ) -> Node:
    """The same for Q modulo 2**width, where a test before the loop says what it stands for.

    F >= 0 is known, F + 1 < 2**width and F + 1 = Q(-1) modulo 2**width: so Q(-1) is F + 1.
    """
    values = engine.values
    for p in conjuncts(path):
        bounds = p.poly.range() if p.op == "ge0" and p.poly is not None else None
        if bounds is None or width > 64 or bounds[1] + 1 >= 1 << width:
            continue
        assert p.poly is not None
        known = values.trunc(p.poly.to_width(64), 64, width)
        if isinstance(known, Poly) and known.add(constant(width, 1)).same(before):
            rest = p.poly.sub(Poly(0, {(kappa,): 1})).sub(Poly(0, {(): 1}))
            return engine.logic.at_least_zero(rest)
    return cond
