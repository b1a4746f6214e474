"""The plain predicate: references of each sort, launches, failures; on the toy engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checker.hooks import Baseline, keep_equal
from checker.hooks.keep import announce
from checker.results import KernelInput

pytestmark = pytest.mark.usefixtures("toy")
FACTS = ({"grid": [1, 1, 1]},)


def kernel(name: str, body: str, **more: Any) -> KernelInput:
    return KernelInput(name, f".target sm_90\n.entry gemm\n{body}\n", **more)


@pytest.fixture
def sweep() -> list[KernelInput]:
    return [
        kernel(f"k{k}w{w}", f"fold {k}", config={"BLOCK_K": k, "num_warps": w})
        for k in (16, 32) for w in (4, 8)
    ]


def test_the_first_is_the_reference(sweep: list[KernelInput]) -> None:
    kept = keep_equal(sweep)
    assert kept.names == ("k16w4", "k16w8")
    assert (kept.reference, kept.basis, kept.classes, kept.failed) == ("k16w4", "static", 2, "")
    assert kept.separating == "BLOCK_K alone separates the classes"
    line = kept.line("gemm", 10.0)
    assert line.startswith("samebits: gemm: kept 2 of 4, bitwise equal to k16w4, class sb1-")
    assert "% of compiling" in line


def test_references_of_each_sort(
    sweep: list[KernelInput], run: Callable[..., Any], write: Callable[..., Path], tmp_path: Path
) -> None:
    want = ("k32w4", "k32w8")
    assert keep_equal(sweep, 2).names == want
    assert keep_equal(sweep, -1).names == want
    assert keep_equal(sweep, "k32w8").names == want
    outside = kernel("other", "fold 32 // compiled elsewhere")
    kept = keep_equal(sweep, outside)
    assert (kept.names, kept.reference) == (want, "<reference>")
    signature = keep_equal(sweep, 2).signature
    assert keep_equal(sweep, signature).names == want
    write("b/gemm.ptx", ".target sm_90\n.entry gemm\nfold 32\n")
    lock = tmp_path / "samebits.lock"
    assert run("gate", "update", tmp_path / "b", "--baseline", lock).exit_code == 0
    assert keep_equal(sweep, Baseline(lock, "gemm")).names == want


@pytest.mark.parametrize(("reference", "why"), [
    ("nope", "no kernel is named 'nope'"),
    (9, "IndexError"),
    ("sb1-0000", "no kernel here has the signature sb1-0000"),
    (Baseline("missing.lock", "gemm"), "FileNotFoundError"),
    (kernel("other", "fold 99"), "no kernel here is proved equal"),
])
def test_a_failed_check_keeps_the_first_and_says_why(
    sweep: list[KernelInput], reference: Any, why: str
) -> None:
    kept = keep_equal(sweep, reference)
    assert kept.names == ("k16w4",)
    assert why in kept.failed
    assert why in kept.line()


def test_a_defect_of_the_engine_keeps_the_reference(
    sweep: list[KernelInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    import checker

    def boom(*args: Any, **kwargs: Any) -> None:
        raise RecursionError("deep")

    monkeypatch.setattr(checker.api, "examine", boom)  # type: ignore[attr-defined]
    kept = keep_equal(sweep, "k32w4")
    assert kept.names == ("k32w4",)
    assert "RecursionError: deep" in kept.failed


def test_what_is_not_modelled_or_unreadable_goes(sweep: list[KernelInput]) -> None:
    kept = keep_equal([*sweep, kernel("odd", "opaque foo"), kernel("bad", "?!")])
    assert kept.names == ("k16w4", "k16w8")
    assert kept.unproved[0] == ("odd", "an opaque construct")
    assert kept.unproved[1][0] == "bad"
    assert keep_equal([kernel("bad", "?!"), *sweep]).failed.startswith("the reference cannot be")


def test_an_unmodelled_reference_is_kept_alone(sweep: list[KernelInput]) -> None:
    kept = keep_equal([kernel("odd", "opaque foo"), kernel("odder", "opaque foo"), *sweep])
    assert kept.names == ("odd",)
    assert "not modelled" in kept.line()


def test_launch_facts_decide_more_only_when_asked_or_needed() -> None:
    sweep = [
        kernel("a", "fold 1\n$launch 1", launches=FACTS),
        kernel("b", "fold 1\n$launch 2", launches=FACTS),
    ]
    assert keep_equal(sweep).names == ("a",)
    assert keep_equal(sweep, launch="never").names == ("a",)
    kept = keep_equal(sweep, launch="always")
    assert (kept.names, kept.basis) == (("a", "b"), "launch")
    assert keep_equal(sweep, launch="perhaps").failed


def test_the_replay_may_come_first_or_alone() -> None:
    sweep = [
        kernel("a", "fold 1\n$launch 1", launches=FACTS),
        kernel("b", "fold 1\n$launch 2", launches=FACTS),
        kernel("c", "fold 1\n$launch 1"),
        kernel("d", "fold 2", launches=FACTS),
    ]
    kept = keep_equal(sweep, launch="first")
    assert (kept.names, kept.basis) == (("a", "b", "c"), "launch")
    kept = keep_equal(sweep, launch="only")
    assert (kept.names, kept.basis) == (("a", "b"), "launch")
    assert keep_equal(sweep, "c", launch="only").failed


def test_kernels_that_read_their_grid_are_equal_at_one_grid_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import checker
    from tests import toy_engine

    def classify(items: Any, errors: Any = ()) -> Any:
        answer = toy_engine.classify(items, errors)
        made = tuple(replace(c, premises=("same-grid",)) for c in answer.classes)
        return replace(answer, classes=made)

    monkeypatch.setattr(checker.api, "classify", classify)  # type: ignore[attr-defined]
    sweep = [kernel(name, "fold 1") for name in "abc"]
    assert keep_equal(sweep).names == ("a",)  # nothing is known of their grids
    shapes = {"a": ((4, 1, 1), 128), "b": ((8, 1, 1), 128), "c": ((4, 1, 1), 64)}
    assert keep_equal(sweep, geometry=shapes).names == ("a", "c")


def test_names_need_not_be_unique_and_nothing_is_no_error() -> None:
    same = [kernel("k", "fold 1"), kernel("k", "fold 2"), kernel("k", "fold 1")]
    assert keep_equal(same).names == ("k", "k#3")
    assert keep_equal([]).names == ()
    assert keep_equal([]).failed


def test_a_second_call_is_answered_from_the_cache(sweep: list[KernelInput]) -> None:
    assert not keep_equal(sweep).from_cache
    kept = keep_equal(sweep)
    assert kept.from_cache
    assert kept.line().endswith(", cached")


def test_the_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "samebits.autotune"):
        announce("samebits: kept 1 of 2")
    assert caplog.messages == ["samebits: kept 1 of 2"]
