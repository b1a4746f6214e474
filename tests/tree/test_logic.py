"""Conditions: of those that differ in a literal the strongest stays."""

from __future__ import annotations

import numpy as np

from checker.tree.logic import Logic
from checker.tree.nodes import Forest
from checker.tree.poly import Poly, constant
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


def test_of_alternatives_that_imply_each_other_one_stays() -> None:
    """x and x + z are one number where z is 0 throughout, as a thread index of a block of one."""
    forest = Forest(4)
    logic = Logic(Values(forest))
    x, y, w = (forest.make("param", f"{i}+0", width=32, low=0, high=99) for i in range(3))
    z = forest.make("sreg", "tid.x", width=32, low=0, high=0)
    one, two, other, third = (logic.at_least_zero(Poly(0, {**{(a,): 1 for a in atoms}, (): -5}))
                              for atoms in ((x,), (x, z), (y,), (w,)))
    first, second = logic.conjunction([one, other]), logic.conjunction([two, other])
    assert logic.disjunction([first, second]) in (first, second)
    assert logic.disjunction([first, second, third]) in [
        logic.disjunction([p, third]) for p in (first, second)]


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


def test_a_start_is_compared_alike_with_a_counter_and_with_a_number() -> None:
    forest = Forest(4)
    logic = Logic(Values(forest))
    block = forest.make("sreg", "ctaid.x", width=32, low=0, high=(1 << 31) - 1, fresh_bit=True)
    forest.grid_bits |= block.deps
    counter = forest.make("kappa", "0", width=32, low=0, high=(1 << 31) - 2, fresh_bit=True)
    start, places = Poly(32, {(block,): 16}), constant(32, np.arange(4))

    def reaches(place: Poly) -> Poly:
        found = logic.compare("ge", True, 32, start, place)
        assert found.poly is not None
        return found.poly

    general = reaches(Poly(32, {(counter,): 64}).add(places))
    first, second = reaches(places), reaches(places.add(constant(32, 64)))
    assert first.same(general.add(Poly(0, {(counter,): 64})))
    assert second.same(first.sub(constant(0, 64)))
    # which lane asks is not lost, where lanes ask for different things; it is, where they do not
    assert not first.same(reaches(constant(32, np.array([0, 1, 2, 4]))))
    assert reaches(constant(32, 97)).same(reaches(constant(32, 112)))
    assert not reaches(constant(32, 97)).same(reaches(constant(32, 113)))
