"""A causal loop ends at its row block's diagonal, in the middle of a key block or behind it."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from checker.api import program_of
from checker.tree.logic import Logic
from checker.tree.nodes import Forest
from checker.tree.poly import Poly, constant
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.tree.values import Values
from checker.walk.ints import floor_shift
from checker.walk.run import walk
from corpus.load import load_truth


@cache
def _walked(name: str) -> WalkResult:
    text, = {r.kernel.text for r in load_truth("flash_attention")
             if r.kernel.name == f"flash_attention.causal-{name}-sm_90"}
    return walk(program_of(text), seconds=600)


@pytest.mark.parametrize(("one", "two"), [
    # the diagonal block is cut by fewer queries than it has keys
    ("BM16_BN32_CAUSAL1_D32_s2_w2", "BM16_BN32_CAUSAL1_D32_s3_w2"),
    # in a ring of one place and of two
    ("BM16_BN64_CAUSAL1_D32_s1_w8", "BM16_BN64_CAUSAL1_D32_s2_w8"),
])
def test_blocks_of_fewer_queries_than_keys(one: str, two: str) -> None:
    assert same(_walked(one), _walked(two)) == (True, ())


@pytest.mark.parametrize(("one", "two"), [
    ("BM16_BN32_CAUSAL1_D32_s2_w2", "BM16_BN32_CAUSAL1_D32_s3_w4"),  # sums of other warps
    ("BM16_BN32_CAUSAL1_D32_s2_w2", "BM16_BN16_CAUSAL1_D32_s2_w2"),  # other blocks of keys
])
def test_other_orders_stay_apart(one: str, two: str) -> None:
    assert not same(_walked(one), _walked(two))[0]


def test_flags_packed_into_one_word_are_in_it_where_a_loop_is_pipelined() -> None:
    assert _walked("BM128_BN32_CAUSAL1_D32_s3_w2").modelled


def test_a_start_is_compared_with_a_counter_as_with_the_literal_that_it_becomes() -> None:
    forest = Forest(32)
    values = Values(forest)
    logic = Logic(values)
    block = forest.make("sreg", "ctaid.x", width=32, low=0, high=(1 << 31) - 2)
    kappa = forest.make("kappa", "0", width=32, low=0, high=(1 << 31) - 2)
    row = Poly(32, {(block,): 16, (): np.arange(32) // 4})

    def past(counter: Poly) -> object:
        return logic.compare("ge", True, 32, row, counter.add(constant(32, np.arange(32) % 4)))

    literal, counted = past(constant(32, 64)), past(Poly(32, {(kappa,): 32}))
    assert literal.poly is not None
    assert counted.poly is not None
    assert literal.poly.terms[(block,)] == counted.poly.terms[(block,)] == 1
    assert counted.poly.terms[(kappa,)] == -2
    assert "no-index-wrap" in forest.premises


def _holds(forest: Forest, poly: Poly, flags: dict[object, int]) -> int:
    total = 0
    for mono, c in poly.terms.items():
        for atom in mono:
            c = c * flags[atom]
        total += int(c)
    return total


@pytest.mark.parametrize(("coefficients", "shift", "known"), [
    ((520, 1040, 16640, 1), 14, True),  # each flag twice, no two of them at one place
    ((520, 1040, 16640, 1), 4, True),
    ((3, 1), 1, False),  # the two meet below: 3 + 1 carries
    ((3, 2), 1, True),  # they meet above, where they are added
    ((-1, 8), 2, True),
    ((-3, 1), 1, False),
])
def test_bits_of_packed_flags(coefficients: tuple[int, ...], shift: int, known: bool) -> None:
    forest = Forest(1)
    values = Values(forest)
    bits = [next(iter(values.bit(forest.make("param", f"{i}+0", width=1))))[0]
            for i in range(len(coefficients))]
    poly = Poly(0, {(b,): c for b, c in zip(bits, coefficients, strict=True)})
    found = floor_shift(poly, shift, 32)
    assert (found is not None) == known
    for flags in itertools.product((0, 1), repeat=len(bits)):
        given = dict(zip(bits, flags, strict=True))
        if found is not None:
            assert _holds(forest, found, given) == _holds(forest, poly, given) >> shift


@pytest.mark.parametrize(("one", "two"), [
    # compiled with the mask as two selections, and as one of both conditions
    ("BM64_BN16_CAUSAL1_D32_s1_w4", "BM64_BN16_CAUSAL1_D32_s3_w2"),
    ("BM128_BN32_CAUSAL1_D32_s1_w8", "BM128_BN32_CAUSAL1_D32_s3_w2"),
])
def test_masks_of_two_conditions(one: str, two: str) -> None:
    assert same(_walked(one), _walked(two)) == (True, ())
