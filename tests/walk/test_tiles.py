"""Tensor copies on real kernels: tile shapes leave no trace, whatever the copies do does."""

from __future__ import annotations

from functools import cache

from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.tree.pretty import render
from checker.walk import walk
from corpus.load import load_set

STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd24, {%r55, %r56}], [%r8];"


@cache
def _text(tile: str) -> str:
    return next(k.text for k in load_set("sm_90")
                if k.name.startswith(f"gemm_tma_store-BK64_{tile}_s3_w4"))


@cache
def _walked(text: str) -> WalkResult:
    return walk(lower(parse(text, isa="ptx")))


def _changed(old: str, new: str) -> str:
    text = _text("BM64_BN64")
    assert old in text, old
    return text.replace(old, new)


def test_tiles_of_two_shapes_are_one_kernel() -> None:
    one, two = _walked(_text("BM64_BN64")), _walked(_text("BM128_BN64"))
    assert one.modelled, (one.gave_up, one.findings)
    assert two.modelled, (two.gave_up, two.findings)
    assert "tensor-map" in one.premises
    assert same(one, two) == (True, ())


def test_another_place_is_another_kernel() -> None:
    twin = _changed(STORE, STORE.replace("{%r55, %r56}", "{%r56, %r55}"))
    assert not same(_walked(_text("BM64_BN64")), _walked(twin))[0]


def test_tiles_longer_than_what_is_waited_for_are_not_modelled() -> None:
    assert not _walked(_changed("_, [%r5], 16384;", "_, [%r5], 8192;")).modelled


def test_the_tree_names_what_a_tensor_map_holds() -> None:
    shown = render(_walked(_text("BM64_BN64")))
    assert ".stride1" in shown
    assert ".size0" in shown
