"""A worker that dies, hangs or raises loses one task; the others are answered."""

from __future__ import annotations

import os
import time

from corpus.pool import Lost, run_all


def work(task: int) -> int:
    if task == 3:
        os._exit(7)
    if task == 5:
        time.sleep(60)
    if task == 6:
        raise ValueError("six")
    return task * task


def test_every_task_has_an_outcome() -> None:
    found = dict(run_all(work, range(8), jobs=2, seconds=4))
    assert {t: o for t, o in found.items() if t not in (3, 5, 6)} == {
        0: 0, 1: 1, 2: 4, 4: 16, 7: 49}
    for task, reason in ((3, "status 7"), (5, "no answer"), (6, "ValueError: six")):
        outcome = found[task]
        assert isinstance(outcome, Lost)
        assert reason in outcome.reason
