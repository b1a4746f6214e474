"""Examining in workers: answers, the time limit, workers that die, questions asked twice."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from checker.cache import Cache, Examiner, Reported, examine, partition
from checker.results import KernelInput

FAKE = """
import json, os, sys, time
sys.path.insert(0, {root!r})
from tests import toy_engine
from checker.cache import worker
from checker.results import KernelInput
for line in sys.stdin:
    data = json.loads(line)
    if "sleep" in data["text"]:
        time.sleep(60)
    if "die" in data["text"]:
        os._exit(7)
    kernel = KernelInput(data["name"], data["text"], launches=tuple(data["launches"]))
    print(json.dumps(worker.answer(kernel, toy_engine.examine, {{}})), flush=True)
"""
STARTED: list[int] = []


@pytest.fixture(autouse=True)
def _workers(toy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that have the toy engine."""
    STARTED.clear()
    code = FAKE.format(root=str(Path(__file__).resolve().parents[2]))

    def start() -> subprocess.Popen[bytes]:
        STARTED.append(1)
        return subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    monkeypatch.setattr(examine, "_start", start)


def kernel(name: str, body: str) -> KernelInput:
    return KernelInput(name, f".entry k\n{body}\n")


def test_answers_come_from_workers_and_then_from_the_cache(tmp_path: Path) -> None:
    sweep = [kernel(f"k{i}", f"fold {i % 2}") for i in range(6)]
    with Examiner(Cache(tmp_path / "c.sqlite"), jobs=2) as asks:
        answer = partition(sweep, asks)
        assert (asks.asked, asks.cached) == (2, 0)
    assert [one.members for one in answer.classes] == [("k0", "k2", "k4"), ("k1", "k3", "k5")]
    started = len(STARTED)
    with Examiner(Cache(tmp_path / "c.sqlite"), jobs=2) as asks:
        assert partition(sweep, asks) == answer
        assert (asks.asked, asks.cached) == (2, 2)
    assert len(STARTED) == started


def test_a_kernel_that_takes_too_long_is_an_error_of_its_own() -> None:
    with Examiner(Cache(None), jobs=1, limit_seconds=3) as asks:
        start = time.monotonic()
        answer = partition([kernel("slow", "sleep"), kernel("good", "fold 1")], asks)
        assert time.monotonic() - start < 30
    assert answer.errors == (("slow", "no answer within 3 s"),)
    assert answer.classes[0].members == ("good",)


def test_closing_ends_busy_workers_at_once() -> None:
    start = time.monotonic()
    with Examiner(Cache(None), jobs=1) as asks:
        for number in range(3):
            asks.submit(kernel(f"slow{number}", f"sleep {number}"))
        time.sleep(0.5)
    assert time.monotonic() - start < 30
    with pytest.raises(Reported):
        asks.result(kernel("slow2", "sleep 2"))


def test_a_worker_that_dies_is_replaced() -> None:
    with Examiner(Cache(None), jobs=1) as asks:
        answer = partition([kernel("bad", "die"), kernel("good", "fold 1")], asks)
    assert answer.errors == (("bad", "the worker ended with status 7"),)
    assert answer.classes[0].members == ("good",)
    assert len(STARTED) == 2


def test_a_worker_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> subprocess.Popen[bytes]:
        raise OSError("no such program")

    monkeypatch.setattr(examine, "_start", start)
    with Examiner(Cache(None), jobs=1) as asks, pytest.raises(Reported, match="no such program"):
        asks.result(kernel("a", "fold 1"))


def test_errors_keep_their_places_and_are_not_stored(tmp_path: Path) -> None:
    for _ in range(2):
        with Examiner(Cache(tmp_path / "c.sqlite"), jobs=1) as asks:
            with pytest.raises(Reported, match=r"a\.ptx:2:1: unexpected"):
                asks.result(kernel("a.ptx", "?!"))
            assert asks.cached == 0


def test_the_real_worker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    root = Path(__file__).resolve().parents[2]
    text = (root / "corpus" / "examples" / "figure4_a.ptx").read_text()
    with Examiner(Cache(None), jobs=1) as asks:
        assert asks.result(KernelInput("figure4", text)).signature.modelled
