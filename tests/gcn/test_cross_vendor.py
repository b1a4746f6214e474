"""The same kernel for PTX and for five AMD targets: equal maps of `trees` where they must be.

Texts are Triton 3.9's, in `data/cross.json.gz`. Kernels here keep the order of their roundings on
every target: element-wise, IEEE division, conversions, sorts, fixed trees, integer products. Matrix
fragments are checked by the int8 GEMM (order free) and, for halves, by giving every target's steps
one and the same model.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checker.core import Program
from checker.draws import draw
from checker.lower import lower
from checker.parse import parse
from checker.replay.result import ReplayResult, first_difference
from checker.replay.run import replay

DATA: dict[str, dict[str, Any]] = json.loads(gzip.decompress(
    (Path(__file__).parent / "data" / "cross.json.gz").read_bytes()))


def _program(group: str, target: str) -> Program:
    return lower(parse(DATA[group][target]["text"]))


@cache
def _map(group: str, target: str) -> ReplayResult:
    return replay(_program(group, target), DATA[group][target]["launch"])


PAIRS = [(group, target) for group, kernels in DATA.items() if "sm_90" in kernels
         for target in kernels if target != "sm_90"]


@pytest.mark.parametrize(("group", "target"), PAIRS, ids=[f"{g}-{t}" for g, t in PAIRS])
def test_equal_to_ptx(group: str, target: str) -> None:
    ours, theirs = _map(group, target), _map(group, "sm_90")
    assert ours.usable, ours.reasons()
    assert theirs.usable, theirs.reasons()
    assert first_difference(theirs, ours) is None


def _bits(group: str, target: str, kind: str) -> dict[str, list[int]]:
    """The bits of every output of a replay in `bytes`, inputs drawn by buffer name."""
    launch = DATA[group][target]["launch"]
    inputs = {a["buffer"]: draw(kind, 1, a).astype(np.uint64) for a in launch["args"]
              if a and "buffer" in a and a["role"] != "out"}
    result = replay(_program(group, target), launch, domain="bytes", inputs=inputs)
    assert result.reasons() == ()
    return {name: out.words[1].tolist() for name, out in result.outputs.items()}


@pytest.mark.parametrize(("group", "target"), PAIRS, ids=[f"{g}-{t}" for g, t in PAIRS])
def test_bits_are_those_of_ptx(group: str, target: str) -> None:
    assert _bits(group, target, "normal") == _bits(group, "sm_90", "normal")
    assert _bits(group, target, "cancel") == _bits(group, "sm_90", "cancel")


def test_other_kernels_are_not_equal() -> None:
    """The comparison can fail: a changed constant, an exchanged operand, a missing step."""
    text = DATA["elementwise"]["gfx942"]["text"]
    launch = DATA["elementwise"]["gfx942"]["launch"]
    good = _map("elementwise", "sm_90")
    line = next(x for x in text.split("\n") if "v_fma" in x or "v_fmac" in x or "v_pk_fma" in x)
    for old, new in ((line, ""), (line, line.replace("fma", "mul").replace("mulc", "mul"))):
        try:
            changed = replay(lower(parse(text.replace(old, new, 1))), launch)
        except Exception:  # the changed text may not even lower
            continue
        assert not changed.usable or first_difference(good, changed) is not None


def _with_model_of_gfx942(program: Program) -> Program:
    ops = tuple(replace(op, attr=replace(op.attr, unit="mfma", target="gfx942"))
                if op.name == "mma" else op for op in program.ops)
    return replace(program, ops=ops)


@pytest.mark.parametrize("target", ["gfx90a", "gfx950", "gfx1100", "gfx1200"])
def test_half_fragments_agree_under_one_model(target: str) -> None:
    first = replay(_with_model_of_gfx942(_program("gemm", "gfx942")),
                   DATA["gemm"]["gfx942"]["launch"])
    second = replay(_with_model_of_gfx942(_program("gemm", target)),
                    DATA["gemm"][target]["launch"])
    assert first.usable, first.reasons()
    assert second.usable, second.reasons()
    assert first_difference(first, second) is None


@pytest.mark.parametrize("target", ["gfx90a", "gfx950", "gfx1100", "gfx1200"])
def test_matrix_steps_of_different_targets_never_merge(target: str) -> None:
    assert first_difference(_map("gemm", "gfx942"), _map("gemm", target)) is not None


@pytest.mark.parametrize(("group", "target"), [(g, t) for g, k in DATA.items() for t in k
                                               if t != "sm_90"])
def test_everything_is_modelled_and_waited_for(group: str, target: str) -> None:
    program = _program(group, target)
    assert program.findings == ()
    assert not [op.attr for op in program.ops if op.name == "opaque" and
                "initial value" not in op.attr and "dispatch index" not in op.attr]
