"""The first kernels of the corpus have the same classes with and without launch facts."""

from __future__ import annotations

from collections import defaultdict

import pytest

from checker import KernelInput, api
from corpus.load import CorpusKernel, load_set

ROWS = ("softmax", "layernorm", "rmsnorm")
CASES = [*((target, family, "") for target in ("sm_80", "sm_90", "sm_100") for family in ROWS),
         *(("sm_90", family, "") for family in ("rope", "dropout", "embedding", "elementwise")),
         ("sm_90", "reductions", "row_sum_tree_")]


@pytest.mark.parametrize(("target", "family", "name"), CASES)
def test_static_classes_are_those_of_the_launches(target: str, family: str, name: str) -> None:
    """Warps, tile shapes and stages that leave the tree alone merge; nothing else does."""
    groups: dict[str, list[CorpusKernel]] = defaultdict(list)
    for kernel in load_set(target):
        if kernel.family == family and name in kernel.name:
            groups[str(kernel.config["group"])].append(kernel)
    assert any(len(group) > 1 for group in groups.values())
    for group in groups.values():
        static = api.partition([KernelInput(k.name, k.text) for k in group])
        exact = api.partition([KernelInput(k.name, k.text, launches=k.launches) for k in group])
        assert not static.unproved
        assert not exact.unproved
        assert {frozenset(c.members) for c in static.classes} == {
            frozenset(c.members) for c in exact.classes}
