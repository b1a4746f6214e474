"""Separating knobs: smallest sets, and the answers that are not one knob."""

from __future__ import annotations

from itertools import product

import pytest

from checker import knobs
from checker.knobs import separate


def _grid(**values: list[int]) -> list[dict[str, int]]:
    return [dict(zip(values, row, strict=True)) for row in product(*values.values())]


def test_one_knob() -> None:
    rows = [(k, k["BLOCK_K"]) for k in _grid(BLOCK_K=[16, 32], num_warps=[4, 8], stages=[1, 2])]
    answer = separate(rows)
    assert answer.sets == (("BLOCK_K",),)
    assert answer.inert == ("num_warps", "stages")
    assert answer.sentence() == "BLOCK_K alone separates the classes"


def test_two_knobs_together() -> None:
    rows = [(k, k["a"] * 10 + k["b"]) for k in _grid(a=[1, 2], b=[1, 2], c=[1, 2])]
    answer = separate(rows)
    assert answer.sets == (("a", "b"),)
    assert answer.sentence() == "no single knob separates the classes: a and b together do"


def test_aliases_are_alternatives() -> None:
    rows = [({"a": v, "b": -v, "c": w}, v) for v in (1, 2) for w in (1, 2)]
    assert separate(rows).sets == (("a",), ("b",))
    assert separate(rows).sentence() == "a or b alone separates the classes"


def test_only_the_joint_value_matters_not_the_number_of_values() -> None:
    rows = [(k, k["a"] >= 4 and k["b"] >= 4) for k in _grid(a=[2, 4, 8], b=[2, 4, 8])]
    assert separate(rows).sets == (("a", "b"),)


def test_same_knobs_different_classes() -> None:
    answer = separate([({"a": 1}, "x"), ({"a": 2}, "y"), ({"a": 1}, "z")])
    assert answer.clash == (0, 2)
    assert "something that is not a knob" in answer.sentence()


def test_one_class_and_no_knobs() -> None:
    assert separate([({"a": 1}, "x"), ({"a": 2}, "x")]).sentence() == "no knob changes the bits"
    assert separate([({}, "x"), ({}, "y")]).sentence() == "no knobs are known for these kernels"
    assert separate([]).classes == 0


def test_a_missing_knob_is_a_value() -> None:
    assert separate([({"a": 1}, "x"), ({}, "y")]).sets == (("a",),)


def test_many_knobs_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "MAX_SETS", 200)
    names = [f"k{i}" for i in range(12)]
    rows = [({n: (i >> j) & 1 for j, n in enumerate(names)}, i) for i in range(0, 4096, 7)]
    answer = separate(rows)
    assert answer.sets
    assert not answer.exact
