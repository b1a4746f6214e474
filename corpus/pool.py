"""A process pool that survives its workers: a compiler that aborts loses one task, not the run.

Tasks in, (task, outcome) pairs out, in order of completion. A worker that dies or exceeds its time
is replaced, and the task's outcome is ``Lost`` with the reason, as it is when the function raises.
Workers start fresh (spawn), so that no CUDA context or compiler state is inherited.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Lost:
    """A task whose worker died or ran out of time."""

    reason: str


@dataclass(slots=True)
class _Worker(Generic[T]):
    process: Any
    pipe: Connection
    task: T
    since: float


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """A worker's life: take a task, answer, until told to stop."""
    while True:
        task = pipe.recv()
        if task is None:
            return
        try:
            pipe.send((True, function(task)))
        except Exception as error:  # the task's outcome, not the worker's end
            trace = traceback.format_exc(limit=-2)
            pipe.send((False, Lost(f"{type(error).__name__}: {error}; {trace}"[:1500])))


def run_all(
    function: Callable[[T], R], tasks: Sequence[T], jobs: int, seconds: float
) -> Iterator[tuple[T, R | Lost]]:
    """Run ``function`` on every task in ``jobs`` processes, at most ``seconds`` each."""
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(tasks))
    workers: list[_Worker[T]] = []

    def start(task: T) -> _Worker[T]:
        near, far = context.Pipe()
        process = context.Process(target=_serve, args=(function, far), daemon=True)
        process.start()
        far.close()
        near.send(task)
        return _Worker(process, near, task, time.monotonic())

    while waiting and len(workers) < jobs:
        workers.append(start(waiting.pop()))
    try:
        while workers:
            ready = wait([w.pipe for w in workers], timeout=1.0)
            for worker in list(workers):
                task = worker.task
                if worker.pipe in ready:
                    try:
                        outcome: R | Lost = worker.pipe.recv()[1]
                        alive = True
                    except EOFError:
                        worker.process.join()
                        alive = False
                        outcome = Lost(f"worker ended with status {worker.process.exitcode}")
                elif time.monotonic() - worker.since > seconds:
                    alive = False
                    outcome = Lost(f"no answer in {seconds:g} s")
                    worker.process.kill()
                else:
                    continue
                if alive and waiting:
                    worker.task, worker.since = waiting.pop(), time.monotonic()
                    worker.pipe.send(worker.task)
                else:
                    workers.remove(worker)
                    if alive:
                        worker.pipe.send(None)
                    worker.pipe.close()
                    if waiting:
                        workers.append(start(waiting.pop()))
                yield task, outcome
    finally:  # whoever stops early leaves no worker behind
        for worker in workers:
            worker.process.kill()
