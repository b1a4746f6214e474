"""Tensor copies on real kernels: tile shapes leave no trace, whatever the copies do does."""

from __future__ import annotations

from functools import cache

import numpy as np

from checker.assume import broken_premises
from checker.launch import Launch
from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.tree.chains import _Beyond
from checker.tree.logic import Logic
from checker.tree.nodes import Forest, Node
from checker.tree.poly import Poly
from checker.tree.pretty import render
from checker.tree.values import Values
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


def test_a_block_of_k_rests_on_where_tensors_end() -> None:
    """Tiles beyond the loop's end are zero only if the tensor ends there: a premise, listed."""
    kernel = next(k for k in load_set("sm_90")
                  if k.name.startswith("gemm_tma_store-BK64_BM64_BN64_s3_w4"))
    ends = ("tensor-ends:arg0.size0<=arg15", "tensor-ends:arg5.size1<=arg15")
    assert set(ends) <= set(_walked(kernel.text).premises)
    assert not broken_premises(ends, Launch.from_json(kernel.launch))
    shorter = [{"i32": a["i32"] - 1} if i == 15 else a
               for i, a in enumerate(kernel.launch["args"])]
    broken = broken_premises(ends, Launch.from_json({**kernel.launch, "args": shorter}))
    assert len(broken) == 2


def test_a_loop_that_ends_before_another_bound_is_not_flattened() -> None:
    """One tensor's tiles are tested by nothing: a longer step would add what lies behind."""
    logic = Logic(Values(Forest(1)))
    forest = logic.forest
    bound, size, other = (forest.make("param", f"{n}+0", width=32, low=0, high=(1 << 31) - 1)
                          for n in ("3", "0.size0", "4"))
    k = forest.make("kappa", "0", width=32, low=0, high=(1 << 31) - 2)

    def below(end: Node, literal: int) -> Node:
        return logic.at_least_zero(Poly(0, {(end,): 1, (k,): -64, (): literal}))

    beyond = _Beyond(logic, below(bound, -1), 16, k)
    lanes = np.zeros(1, dtype=np.int64)
    assert beyond._fails(below(size, -17), 1, lanes)  # the second step of 16
    assert beyond.ends == {"tensor-ends:arg0.size0<=arg3"}
    beyond = _Beyond(logic, below(bound, -1), 16, k)
    assert not beyond._fails(below(size, -16), 1, lanes)  # one element before it
    assert not beyond._fails(below(other, -17), 1, lanes)  # another size is no tensor's
    assert not _Beyond(logic, below(size, -1), 16, k)._fails(below(bound, -17), 1, lanes)


TAIL = ("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group \t0;\n\tbar.sync \t0;\n\tret;")
CLOSE, WAIT, MEET = TAIL.split("\n\t")[:3]
REUSE = "st.shared.b32 \t[%r90], %r64;\n\tret;"


def _ended(*statements: str) -> WalkResult:
    """The tile that is stored is written over afterwards."""
    few = ".reg .pred %pz;\n\t.reg .b32 %rz;\n\tld.param.b32 %rz, [gemm_tma_param_15];\n\t" \
        "setp.gt.s32 %pz, %rz, 7;"
    return _walked(_changed(TAIL, "\n\t".join((few, *statements, REUSE))))


def test_a_tile_is_read_until_its_store_is_waited_for() -> None:
    good = _ended(CLOSE, WAIT, MEET)
    assert good.modelled, (good.gave_up, good.findings)
    assert same(good, _walked(_text("BM64_BN64")))[0]
    assert _ended(CLOSE, f"@%pz {WAIT}", f"@!%pz {WAIT}", MEET).modelled
    for statements in ((CLOSE, MEET), (WAIT, CLOSE, MEET), (WAIT, MEET), (CLOSE, WAIT),
                       (CLOSE, f"@%pz {WAIT}", MEET), (f"@%pz {CLOSE}", WAIT, MEET)):
        found = _ended(*statements)
        assert not found.modelled, statements
        assert any(f.code == "race" for f in found.findings), statements


def test_a_tile_is_not_fetched_over_bytes_that_others_may_still_write() -> None:
    elect = "elect.sync \t%r21|%p17, -1;"
    store = "st.shared.b32 \t[%r8], %r56;\n\t"
    late = _walked(_changed(elect, store + elect))
    assert {f.code for f in late.findings} == {"race"}  # lanes also write one place together
    assert _walked(_changed(elect, store + "bar.sync \t0;\n\t" + elect)).modelled
