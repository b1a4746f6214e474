"""Conditions: of those that differ in a literal the strongest stays."""

from __future__ import annotations

import numpy as np

from checker.tree.logic import Logic
from checker.tree.nodes import Forest
from checker.tree.poly import Poly
from checker.tree.values import Values


def test_the_strongest_of_conditions_that_differ_in_a_literal() -> None:
    forest = Forest(4)
    logic = Logic(Values(forest))
    n, m = (forest.make("param", f"{i}+0", width=32, low=0, high=99) for i in (0, 1))

    def at_least(atom: object, c: object) -> object:
        return forest.make("ge0", width=1, poly=Poly(0, {(atom,): 1, (): c}))

    weak, strong, strongest = (at_least(n, -c) for c in (1, 2, 64))
    other = at_least(m, -1)
    lanes = at_least(n, np.arange(4) - 99)  # a literal for each lane: neither weaker nor stronger
    both = forest.make("or", width=1, args=(weak, other))
    assert logic.strongest([weak, strongest, other, strong, lanes, both, weak]) == [
        strongest, other, lanes, both]
    assert logic.strongest([]) == []


def test_what_follows_from_the_others_adds_nothing_and_nothing_else_is_dropped() -> None:
    forest = Forest(4)
    logic = Logic(Values(forest))
    n, m = (forest.make("param", f"{i}+0", width=32, low=0, high=99) for i in (0, 1))
    weak, strong, other = (forest.make("ge0", width=1, poly=Poly(0, {(atom,): 1, (): c}))
                           for atom, c in ((n, -1), (n, -8), (m, -1)))
    assert logic.disjunction([weak, logic.conjunction([strong, other])]) is weak
    assert logic.conjunction([strong, logic.disjunction([weak, other])]) is strong
    kept = logic.disjunction([strong, logic.conjunction([weak, other])])
    assert kept is not strong
    assert kept is not weak
    assert logic.conjunction([weak, logic.disjunction([strong, other])]) is not weak


def test_a_bit_that_counts_for_some_lanes_only_is_compared_lane_by_lane() -> None:
    forest = Forest(4)
    values = Values(forest)
    logic = Logic(values)
    condition = forest.make("param", "0+0", width=1)
    (((bit,), _),) = values.bit(condition).items()

    def positive(coefficient: object) -> object:
        return logic.at_least_zero(Poly(0, {(bit,): coefficient, (): -1}))

    assert positive(1) is condition  # [c] - 1 >= 0
    some = positive(np.array([1, 0, 1, 0]))  # in lanes 1 and 3 it is -1 >= 0
    assert some not in (condition, forest.true, forest.false)
