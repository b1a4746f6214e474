"""What the walk does once and not again and again: calls are counted, never seconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checker import api
from checker.api import program_of
from checker.tree import contexts, evaluate, nodes
from checker.tree.contexts import each_once
from checker.tree.logic import Logic
from checker.tree.nodes import Forest
from checker.tree.poly import Poly
from checker.tree.result import WalkResult
from checker.tree.rewrite import Rewriter
from checker.tree.values import Values
from checker.walk import loops, strides
from checker.walk.carried import carried, cyclic, unasked
from checker.walk.engine import Engine
from checker.walk.loops import Runner
from checker.walk.matrix import MatrixOps
from checker.walk.memory import MemoryOps
from checker.walk.run import walk
from checker.walk.shared import Shared
from corpus.load import load_set, load_truth
from tests.walk.kernels import walked
from tests.walk.test_divided import scaled


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Counter[str]]:
    """Count the calls of functions and methods: (owner, name), ..."""
    def counted(*places: tuple[Any, str]) -> Counter[str]:
        calls: Counter[str] = Counter()
        for owner, name in places:
            def around(*args: Any, made: Any = getattr(owner, name), name: str = name,
                       **more: Any) -> Any:
                calls[name] += 1
                return made(*args, **more)
            monkeypatch.setattr(owner, name, around)
        return calls
    return counted


def _walked(name: str, kernels: str = "sm_90") -> WalkResult:
    kernel, = (k for k in load_set(kernels) if k.name.startswith(name))
    return walk(program_of(kernel.text, isa=kernel.isa))


GEMM = "gemm-BK64_BM64_BN32_GM4_PRECISIONtf32_TRANS0_s3_w4"  # a ring of three, four steps each


def test_what_a_loops_values_share_is_worked_out_once(count: Callable[..., Counter[str]]) -> None:
    calls = count((evaluate, "_decided"), (evaluate, "hash_select"), (Rewriter, "run"),
                  (loops, "_classes"))
    found = _walked(GEMM)
    assert found.modelled
    values = sum(n.op == "fold" for n in found.forest.nodes)
    assert values == 16
    assert calls["run"] < values  # all values of the loop in one pass
    assert calls["hash_select"] > 100
    assert calls["_decided"] < calls["hash_select"] / 2  # the elements of one access share a test
    assert calls["_classes"] == 0  # lanes of a matrix step's sums are not looked at: all are parted


def test_no_iteration_is_run_again_for_the_lanes_of_matrix_sums(
        count: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[set[int], list[int]]] = []

    def kept(self: Runner, *args: Any, made: Any = Runner.__init__, **more: Any) -> None:
        made(self, *args, **more)
        found.append((self.summed, list(self.accumulators)))
    monkeypatch.setattr(Runner, "__init__", kept)
    calls = count((Runner, "_iterate"), (Runner, "_prove"))
    _walked(GEMM)
    (parted, running), = found
    assert len(running) == 16
    assert set(running) <= parted
    # two until it is settled how groups are closed, a ring of three, the ring in general
    assert calls == {"_prove": 1, "_iterate": 8}
    found.clear()
    _walked("flash_attention.full-BM64_BN32")  # sums are scaled before more is added to them
    (parted, running), = found
    assert running
    assert parted.isdisjoint(running)


def test_a_loop_that_no_template_gives_ends_early(count: Callable[..., Counter[str]]) -> None:
    """What is fetched ahead for groups of two changes with the third iteration."""
    calls = count((Runner, "_induction"), (Runner, "_iterate"), (Runner, "_first_templates"))
    halves = re.sub(r"shr\.s32 (%r20, %r\d+), 2;", r"mul.hi.u32 \1, 2147483649;", scaled(1))
    assert not walked(halves).modelled
    assert calls["_first_templates"] == 1
    assert calls["_iterate"] <= 14  # of 20 if each lead and period is tried


def test_a_widened_sum_is_made_once_for_all_that_ask(count: Callable[..., Counter[str]]) -> None:
    calls = count((evaluate._Substitution, "_wide"), (evaluate._Casts, "sext"))
    _walked("gemm-BK64_BM64_BN64_GM4_PRECISIONtf32_TRANS0_s1_w4")
    assert calls["_wide"] > 100
    assert calls["sext"] < calls["_wide"] / 3


def test_a_copy_is_one_leaf() -> None:
    """16 bytes are one leaf until their halves are read, not four words that nobody reads."""
    found = _walked(GEMM)
    loads = Counter(n.width for n in found.forest.nodes if n.op == "load")
    assert set(loads) == {16, 128}
    assert loads[16] > loads[128] > 0


def test_opposites_of_conditions_are_made_where_one_may_be_there() -> None:
    forest = Forest(4)
    logic = Logic(Values(forest))
    n, m = (forest.make("param", f"{i}+0", width=32, low=0, high=99) for i in (0, 1))
    one, two = (forest.make("ge0", width=1, poly=Poly(0, {(a,): 1, (): -7})) for a in (n, m))
    before = len(forest.nodes)
    both = logic.conjunction([one, two])
    assert len(forest.nodes) == before + 1
    assert set(both.args) == {one, two}
    opposite = forest.make("ge0", width=1, poly=Poly(0, {(n,): -1, (): 6}))
    assert logic.conjunction([one, two, opposite]) is forest.false
    assert logic.disjunction([one, two, opposite]) is forest.true
    near = forest.make("ge0", width=1, poly=Poly(0, {(n,): -1, (): 7}))
    assert logic.conjunction([one, near]).op == "and"


def test_steps_of_iterations_are_not_hashed() -> None:
    found = _walked(GEMM)
    late = [n for n in found.forest.nodes if n.op in ("mma", "krow")]
    hashed = [n for n in late if n._h is not None]
    assert len(late) > 500
    assert len(hashed) < len(late) / 4
    for node in [n for n in late if n.op == "mma" and n not in hashed][:40]:  # as at once
        assert bool((node.h == nodes.collapse(nodes._hash_made(node)[0])).all())


def test_a_template_that_missed_an_iteration_is_not_tried_again(
        count: Callable[..., Counter[str]]) -> None:
    """The steps of stream-k's loop change between its first iterations, whatever the lead."""
    calls = count((loops.Runner, "_iterate"), (loops.Runner, "_common"))
    _walked("gemm_streamk")
    assert calls["_common"] == 2  # read off two iterations, then off all that were run
    assert calls["_iterate"] < 20


def test_iterations_that_only_settle_the_state_take_no_matrix_steps(
        count: Callable[..., Counter[str]]) -> None:
    calls = count((Runner, "_iterate"), (MatrixOps, "_mma"), (MatrixOps, "look"))
    assert _walked(GEMM).modelled
    # four steps in each of eight iterations: two tell the template, three are the general ones
    assert calls == {"_iterate": 8, "_mma": 4 * 5, "look": 4 * 3}


def test_all_first_iterations_run_in_full_where_copies_are_on_other_paths(
        count: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the general state is not the first one at counter 0 for certain."""
    usual = _walked(GEMM)
    monkeypatch.setattr(MemoryOps, "alike_paths", lambda *_: False)
    calls = count((MatrixOps, "_mma"), (MatrixOps, "look"))
    assert _walked(GEMM).digest == usual.digest
    assert calls == {"_mma": 4 * (2 + 3 + 3), "look": 4 * 3}  # the three were run once more


def test_what_a_loop_leaves_is_not_hashed_without_coordinates(
        count: Callable[..., Counter[str]]) -> None:
    """Nor what the epilogue makes of it; asked for, it is what it was."""
    made = _walked("gemm_bias_relu-BK32_BM64_BN64_GM4_fuse1").forest.nodes
    folds = [n for n in made if n.op == "fold"]
    assert len(folds) == 32
    assert all(n._h is None for n in folds)
    late = [n for n in made if n._h is None and n.op in nodes.HASHED_WITH]
    assert {"fadd", "fmax", "fcvt", "pack", "gather"} <= {n.op for n in late}
    calls = count((Rewriter, "fold_hashes"))
    for node in late[-40:]:
        assert bool((node.h == nodes.collapse(nodes._hash_made(node)[0])).all())
    assert calls["fold_hashes"] == 1  # the values of one loop in one pass


@pytest.mark.parametrize("name", [GEMM, "flash_attention.causal-BM64_BN32", "w8a8.row_then",
                                  "gemm_softmax-BK32_BM32_BN128_PRECISIONieee"])
def test_lanes_that_part_by_structure_part_by_hashes(name: str) -> None:
    late = [n for n in _walked(name).forest.nodes if n._h is None and n.op != "krow"]
    assert any(nodes._varies(n) for n in late)
    assert not [n for n in late if nodes._varies(n) and n.h.shape[1] == 1]


def test_tiles_of_a_persistent_loop_are_compared_without_hashes(
        count: Callable[..., Counter[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count((Rewriter, "h"))
    asked: list[int] = []

    def around(*args: Any, made: Any = strides.one_tile_each) -> Any:
        before = calls["h"]
        out = made(*args)
        assert out is not None
        asked.append(calls["h"] - before)
        return out
    monkeypatch.setattr(loops, "one_tile_each", around)
    assert _walked("gemm_persistent").modelled
    assert asked == [0]


def test_loads_of_iterations_are_not_hashed() -> None:
    loads = [n for n in _walked(GEMM).forest.nodes if n.op == "load"]
    assert len([n for n in loads if n._h is None]) > len(loads) / 2


def test_what_decides_where_bytes_go_is_asked_in_every_iteration() -> None:
    """Of a pipelined loop only conversions and matrix steps may go unasked, and their reads."""
    kernel = next(k for k in load_set("sm_90") if k.name.startswith("gemm_fp8.e4m3-BK64_BM64"))
    engine = Engine(program_of(kernel.text, isa=kernel.isa))
    loop, = engine.flow.loops.values()
    registers = carried(engine, loop)
    ops = [engine.program.ops[i] for i in unasked(engine, loop, [
        r for r in registers if r not in cyclic(engine, loop)])]
    assert {op.name for op in ops} <= {"ldmatrix", "mma", "extract", "fcvt", "pack", "mov"}
    assert {"ldmatrix", "mma", "fcvt"} <= {op.name for op in ops}
    assert not any(op.name == "mma" for op in (engine.program.ops[i] for i in unasked(
        engine, loop, registers)))  # their sums are handed on


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Rewriter]:
    """All rewriters that are made."""
    out: list[Rewriter] = []

    def kept(self: Rewriter, *args: Any, init: Any = Rewriter.__init__, **more: Any) -> None:
        init(self, *args, **more)
        out.append(self)
    monkeypatch.setattr(Rewriter, "__init__", kept)
    return out


def test_a_wide_row_holds_its_pairs_once(made: list[Rewriter]) -> None:
    """Each of 5,000 elements looks at a whole row: most nodes are asked for the same pairs.

    The walk ends at its bound on hashes; until then a set of pairs is held once, not per node.
    """
    found = _walked("torch_compile.layer_norm_wide-default.triton_red_fused_native_layer_norm_0"
                    "-R0_B2048", "torch_sm_90")
    assert found.forest.kept <= found.forest.max_kept + 10_000_000
    held = sum(array.size for r in made for pairs in r.unpacked.values() for array in pairs)
    assert held < found.forest.kept / 4


def test_a_wide_row_drops_hashes_that_nobody_needs_any_more(made: list[Rewriter]) -> None:
    found = _walked("torch_compile.softmax-loops.triton_red_fused__softmax_backward_data_0"
                    "-R0_B64_RBR0_BLOCK_XB2", "torch_sm_90")
    assert found.modelled
    assert found.forest.kept > 10_000_000
    held = sum(t.h.shape[-1] for r in made for t in r.root.tables.values())
    assert held < found.forest.kept / 10
    slot = found.groups[0].elements[0].slot
    tables = slot.scope.rewriter.root.tables
    below = next(n for n in found.forest.nodes if n.op == "load" and n not in tables)
    one = slot.scope.shift(slot.scope.lane[:1], slice(0, 1))
    assert one.of(below).shape == (2, 1)  # worked out again


def test_numbers_that_lie_close_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [np.arange(50_000)[::-1], np.arange(0, 60_000, 3)]
    spread = [np.array([1 << 40, 5, 1 << 50, 5])]
    assert each_once(*lists).tolist() == sorted({*lists[0].tolist(), *lists[1].tolist()})
    assert each_once(*spread).tolist() == [5, 1 << 40, 1 << 50]
    assert each_once().tolist() == []

    def never(*_args: Any) -> Any:
        raise AssertionError("sorted")
    monkeypatch.setattr(contexts.np, "sort", never)
    each_once(*lists)
    with pytest.raises(AssertionError, match="sorted"):
        each_once(*spread)


def test_ordered_bytes_are_not_looked_at_reader_by_reader(
        count: Callable[..., Counter[str]]) -> None:
    """A matrix step reads 16 columns by 32 readers: each is looked at only before a barrier."""
    forest = Forest(32)
    found: list[str] = []
    shared = Shared(Values(forest), 32, lambda code, _text: found.append(code))
    every = np.ones(32, dtype=bool)
    at = np.arange(32, dtype=np.int64) * 4
    shared.store(at, forest.make("param", "0+0", width=32), every)
    places = np.repeat(at[None, :], 2, axis=0)
    readers = np.tile(np.arange(32)[::-1], (16, 1))
    calls = count((Shared, "_unordered"))
    assert shared.elements(places, 4, readers) is not None
    assert calls["_unordered"] == 1  # the first already runs at the same time
    assert found == ["race"]
    calls.clear()
    shared.barrier(warp_only=False)
    assert shared.elements(places, 4, readers) is not None
    assert not calls
    assert found == ["race"]


def test_who_accessed_bytes_is_looked_at_where_no_barrier_came_since(
        count: Callable[..., Counter[str]]) -> None:
    forest = Forest(64)
    found: list[str] = []
    shared = Shared(Values(forest), 32, lambda code, _text: found.append(code))
    calls = count((Shared, "_warp_of"))
    every, at = np.ones(64, dtype=bool), np.arange(64, dtype=np.int64) * 4
    value = forest.make("param", "0+0", width=32)
    shared.store(at, value, every)
    for warp_only, other, race in ((False, 63, False), (True, 0, True), (False, 31, False),
                                   (True, 0, False)):
        shared.barrier(warp_only)
        calls.clear()
        found.clear()
        shared.store(at[np.arange(64) ^ other], value, every)
        assert found == (["race"] if race else [])
        assert bool(calls) is warp_only


@pytest.mark.parametrize("lanes_at_one", [1, 2])
def test_copies_under_way_are_counted(lanes_at_one: int) -> None:
    """Also where several lanes copy to one byte: all of them are to land."""
    forest = Forest(4)
    shared = Shared(Values(forest), 32, lambda _code, _text: None)
    shared._grow(64)
    index = (np.arange(4) // lanes_at_one * 4)[:, None] + np.arange(4)
    for more, left in ((1, lanes_at_one), (1, 2 * lanes_at_one), (-1, lanes_at_one), (-1, 0)):
        shared.copying(index, more)
        assert (shared.pending[index] == left).all()
        assert shared.under_way(index) is bool(left)


def test_members_of_a_group_are_there_when_a_group_above_asks_for_them() -> None:
    """A maximum over lanes of a maximum of many pairs: the inner one's hashes are not dropped."""
    name = "flash_attention.causal-BM32_BN16_CAUSAL1_D64_s3_w2-sm_90"
    kernel = next(r.kernel for r in load_truth("flash_attention") if r.kernel.name == name)
    assert api.sign(kernel.text).modelled


def test_a_bit_that_counts_for_some_lanes_only_is_compared() -> None:
    name = "torch_compile.topk-loops.triton_red_fused_argmax_0-R0_B1024_RBR0_BLOCK_XB1_s1_w8"
    kernel = next(k for k in load_set("torch_sm_90") if k.name.startswith(name))
    assert api.sign(kernel.text).modelled
