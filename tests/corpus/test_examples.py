"""The example kernels are the committed sets' own, and each pair shows what it is there for."""

from __future__ import annotations

import json

import pytest

from checker import api
from corpus.examples import FOLDER, contents


def test_the_files_are_what_the_sets_say() -> None:
    for name, text in contents().items():
        assert (FOLDER / name).read_text() == text, name


@pytest.mark.parametrize(("a", "b", "equal"), [
    ("tree_1_warp.ptx", "tree_4_warps.ptx", True),
    ("double.ptx", "twice_plus.ptx", False),
    ("fma_nvidia.ptx", "fma_amd.amdgcn", True),
    ("gemm_k16.ptx", "gemm_k64.ptx", True),
    ("scales_in_turn.ptx", "scales_first.ptx", False),
])
def test_a_pair_replays_to_one_map_exactly_where_its_bits_agree(a: str, b: str,
                                                                 equal: bool) -> None:
    maps = []
    for name in (a, b):
        facts = json.loads((FOLDER / name).with_suffix(".json").read_text())
        result = api.replay_kernel((FOLDER / name).read_text(), facts)
        assert result.usable, result.reasons()
        maps.append(result.outputs)
    same = all((maps[0][n].words == maps[1][n].words).all() for n in maps[0])
    assert same is equal


def test_float_atomics_are_reported() -> None:
    facts = json.loads((FOLDER / "atomics.json").read_text())
    assert api.replay_kernel((FOLDER / "atomics.ptx").read_text(), facts).nondeterministic
