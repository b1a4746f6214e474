"""Tensors passed in parts: what lies beyond their ends is a premise that launch facts can break."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from checker import api
from checker.core import Param
from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.walk import walk
from checker.walk.arguments import tensors_of
from corpus.bench.classes import PARTITION, read_parts

PREMISES = {"tensor-ends:arg2<=arg30", "tensor-ends:arg11<=arg30", "tensor-fill:arg5=0",
            "tensor-fill:arg15=0"}
FILL = "v_cndmask_b32_e64 v29, 0, v3, s[18:19]"


@cache
def _text(tile: str) -> str:
    name = f"gemm_tma_store-{tile}_kpack1_matrixinstrnonkdim32_s2_w8"
    return next(str(t["asm"]) for t in read_parts("texts", PARTITION)
                if t["target"] == "gfx942" and t["name"].startswith(name))


@cache
def _walked(text: str) -> WalkResult:
    return walk(lower(parse(text)))


def _facts(k: int, length: int, nan: int) -> dict[str, Any]:
    """Launch facts of a 16 x 16 product over k; `length`: what the tensors have along k."""
    args: list[Any] = []
    for name, (rows, cols), role in (("a", (16, length), "in"), ("b", (length, 16), "in"),
                                     ("c", (16, 16), "out")):
        args += [{"buffer": name, "dtype": "f16", "elements": rows * cols, "role": role},
                 {"i64": rows}, {"i64": cols}, {"i64": cols}, {"i64": 1}, {"i1": nan},
                 {"i32": rows}, {"i32": cols}, {"i64": cols}, {"i64": 1}]
    return {"grid": [1, 1, 1], "block": [512, 1, 1], "shared": 32768,
            "args": [*args, {"i32": k}, None, None]}


LONG, SHORT = "BK64_BM128_BN64", "BK32_BM128_BN64"


def test_a_block_of_k_leaves_no_trace() -> None:
    one, two = _walked(_text(LONG)), _walked(_text(SHORT))
    assert one.modelled, (one.gave_up, one.findings)
    assert same(one, two) == (True, ())
    assert set(one.premises) >= PREMISES
    assert set(two.premises) >= PREMISES


@pytest.mark.parametrize(("k", "length", "nan", "verdict", "basis"), [
    (96, 96, 0, "equal", "static"),
    (80, 96, 0, "equal", "launch"),  # a longer tensor: three steps of 32 end where it does
    (80, 128, 0, "unequal", "witness"),  # and here only two of 64
    (96, 96, 1, "unequal", "witness"),  # the second step of 64 reaches into the fill
])
def test_launch_facts_decide(k: int, length: int, nan: int, verdict: str, basis: str) -> None:
    found = api.compare(_text(LONG), _text(SHORT), launch_a=_facts(k, length, nan))
    assert (found.kind, found.basis) == (verdict, basis), found.reasons


def test_a_fill_of_its_own_is_no_zero() -> None:
    """The flag read the other way round: NaN where it is off."""
    assert FILL in _text(SHORT)
    twin = _text(SHORT).replace(FILL, "v_cndmask_b32_e64 v29, v3, 0, s[18:19]")
    assert not same(_walked(_text(SHORT)), _walked(twin))[0]
    assert not same(_walked(_text(LONG)), _walked(twin))[0]
    assert not PREMISES & set(_walked(twin).premises)


def _params(sizes: str) -> tuple[Param, ...]:
    return tuple(Param(i, f"arg{i}", 8 * i, 8 if s == "p" else int(s), s == "p")
                 for i, s in enumerate(sizes))


def test_the_form_of_a_tensor_in_parts() -> None:
    assert tensors_of(_params("p8888144884")) == ({"arg1", "arg2"}, {"arg5"})
    assert tensors_of(_params("4p8811484p88")) == ({"arg2"}, {"arg4"})  # two flags: NaN first
    assert tensors_of(_params("p88148p88148")) == ({"arg1", "arg7"}, {"arg3", "arg9"})


@pytest.mark.parametrize("sizes", [
    "p88881448", "p881848", "88888144884", "p888144884", "p8888444884", "p8888184884",
    "p88881448p4"])
def test_anything_else_is_none(sizes: str) -> None:
    assert tensors_of(_params(sizes)) == (set(), set())
