"""Examining by replay alone: real kernels, real engine; merged only where the maps agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checker.cache import Cache, Examiner, partition
from checker.results import KernelInput

EXAMPLES = Path(__file__).resolve().parents[2] / "corpus" / "examples"


@pytest.fixture
def sweep() -> list[KernelInput]:
    a = (EXAMPLES / "figure4_a.ptx").read_text()
    b = (EXAMPLES / "figure4_b.ptx").read_text()
    assert "add.rn.f32" in b
    facts = {"grid": [1, 1, 1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": 4096},
        {"buffer": "o", "dtype": "f32", "elements": 64},
    ]}
    other = b.replace("add.rn.f32", "sub.rn.f32", 1)
    return [
        KernelInput("a", a, launches=(facts,)), KernelInput("b", b, launches=(facts,)),
        KernelInput("other", other, launches=(facts,)),
    ]


def test_equal_maps_merge_and_others_do_not(sweep: list[KernelInput]) -> None:
    answer = partition(sweep, Examiner(Cache(None), jobs=0), replay_only=True)
    assert not answer.errors
    assert not answer.unproved
    assert [one.members for one in answer.classes] == [("a", "b"), ("other",)]
    assert answer.classes[0].basis == "launch"
    assert "launch" in answer.classes[0].premises


def test_without_a_map_only_the_same_text_is_equal(sweep: list[KernelInput]) -> None:
    bare = [replace(kernel, launches=()) for kernel in sweep]
    answer = partition(bare, Examiner(Cache(None), jobs=0), replay_only=True)
    assert all(len(one.members) == 1 for one in answer.classes)
