"""Examine kernels behind the answer cache: here, or in worker processes with a time limit.

In: kernels. Out: what `checker.api.examine` says of each, or the error that it met. `Examiner`
takes kernels as they come (a tuner can compile the next one meanwhile); `partition` is
`checker.api.partition` on top of it. A kernel that takes longer than the limit is an error of its
own: its worker is ended and another one started.
"""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from checker.cache import worker
from checker.cache.defects import Reported
from checker.cache.store import Cache, hurried
from checker.results import KernelInput, Partition

__all__ = ["Examiner", "default_jobs", "partition"]

LIMIT_SECONDS = 120.0  # for one kernel, in a worker
Answer = dict[str, Any]
_Job = tuple[str, KernelInput, bool, tuple[str, ...]]
_CLOSED: Answer = {"error": "nobody waits for the answer any more"}


def default_jobs() -> int:
    """How many workers to use: `$SAMEBITS_JOBS`, or half the cores, at most 8; 0: none."""
    named = os.environ.get("SAMEBITS_JOBS", "")
    if named.isdigit():
        return int(named)
    return max(1, min(8, (os.cpu_count() or 2) // 2))


class Examiner:
    """Examines kernels as they are submitted; equal questions are asked once.

    jobs: worker processes, started as they are needed; 0 examines in this process, where there is
    no time limit. busy_seconds: time that workers spent; asked, cached: questions, and those that
    the cache answered.
    """

    def __init__(
        self, cache: Cache, *, jobs: int | None = None, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self.cache = cache
        self.jobs = default_jobs() if jobs is None else jobs
        self.limit_seconds = limit_seconds
        self.asked = self.cached = 0
        self.busy_seconds = 0.0
        self._answers: dict[str, Future[Answer]] = {}
        self._todo: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._known: dict[Any, Any] = {}

    def __enter__(self) -> Examiner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def submit(self, kernel: KernelInput, replay_only: bool = False,
               divisible: tuple[str, ...] = ()) -> None:
        """Ask about a kernel; `result` waits for the answer.

        replay_only: at its launches, without the static engine. divisible: sizes of a second look.
        """
        key = self._key(kernel, replay_only, divisible)
        if key in self._answers:
            return
        future: Future[Answer] = Future()
        self._answers[key] = future
        self.asked += 1
        found = self.cache.get(key)
        if found is not None:
            self.cached += 1
            future.set_result({"ok": found})
        elif self.jobs == 0:
            examine = worker.examiner(replay_only, divisible)
            self._done(key, worker.answer(kernel, examine, self._known))
        else:
            self._todo.put((key, kernel, replay_only, divisible))
            if len(self._threads) < self.jobs:
                thread = threading.Thread(target=self._serve, daemon=True)
                self._threads.append(thread)
                thread.start()

    def result(self, kernel: KernelInput, replay_only: bool = False,
               divisible: tuple[str, ...] = ()) -> Any:
        """Return the `Examined` of a kernel under its own name; raises Reported."""
        from checker import api

        self.submit(kernel, replay_only, divisible)
        answer = self._answers[self._key(kernel, replay_only, divisible)].result()
        if "error" in answer:
            raise Reported(answer["error"])
        return replace(api.Examined.from_json(answer["ok"]), name=kernel.name)

    def close(self) -> None:
        """End the workers, busy ones too; questions that nobody answered yet become errors."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            _end(process)
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._closed = False

    @staticmethod
    def _key(kernel: KernelInput, replay_only: bool, divisible: tuple[str, ...] = ()) -> str:
        kind = "replay" if replay_only else "|".join(("examine", *divisible))
        return Cache.key(kind, kernel.text, kernel.isa, kernel.kernel, kernel.launches)

    def _done(self, key: str, answer: Answer) -> None:
        if "ok" in answer and not hurried(answer["ok"].get("signature")):
            self.cache.put(key, "examine", answer["ok"])
        self._answers[key].set_result(answer)

    def _serve(self) -> None:
        """One thread: hands kernels to its worker process, and replaces it where it must."""
        process: subprocess.Popen[bytes] | None = None
        while (item := self._todo.get()) is not None:
            key, kernel, replay_only, divisible = item
            start = time.perf_counter()
            try:
                process = process or self._launch()
                answer = _CLOSED.copy()
                if process is not None:
                    answer = _ask(process, kernel, replay_only, divisible, self.limit_seconds)
            except (OSError, ValueError) as error:
                answer = {"error": f"the worker failed: {error}"}
            if answer.pop("ended", False) or (process is not None and process.poll() is not None):
                self._end(process)
                process = None
            with self._lock:
                self.busy_seconds += time.perf_counter() - start
            self._done(key, answer)
        self._end(process)

    def _launch(self) -> subprocess.Popen[bytes] | None:
        """Start a worker, unless the examiner was closed."""
        with self._lock:
            if self._closed:
                return None
            process = _start()
            self._running.add(process)
            return process

    def _end(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            _end(process)
            with self._lock:
                self._running.discard(process)


def _start() -> subprocess.Popen[bytes]:
    """Start a worker that imports the same checker as this process."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return subprocess.Popen(
        [sys.executable, "-m", "checker.cache.worker"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
    )


def _ask(
    process: subprocess.Popen[bytes], kernel: KernelInput, replay_only: bool,
    divisible: tuple[str, ...], limit: float,
) -> Answer:
    """Hand over a kernel and wait for its line; `ended` marks a worker that must go."""
    assert process.stdin is not None
    assert process.stdout is not None
    line = json.dumps({
        "name": kernel.name, "text": kernel.text, "isa": kernel.isa, "kernel": kernel.kernel,
        "launches": kernel.launches, "replay_only": replay_only, "divisible": divisible,
    })
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()
    deadline = time.monotonic() + limit
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            return {"error": f"no answer within {limit:g} s", "ended": True}
        piece = os.read(process.stdout.fileno(), 1 << 20)
        if not piece:
            status = process.wait()
            return {"error": f"the worker ended with status {status}", "ended": True}
        data += piece
    answer: Answer = json.loads(data)
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def partition(
    kernels: Iterable[KernelInput], examiner: Examiner, *, replay_only: bool = False,
    static: bool = False, progress: Callable[[int, int], None] | None = None,
) -> Partition:
    """`checker.api.partition` over an examiner; replay_only: at the launches, without the walk."""
    from checker import api

    return api.rounds(
        kernels, partial(_answer, examiner), ahead=examiner.submit, replay_only=replay_only,
        static=static, progress=progress)


def _answer(examiner: Examiner, kernel: KernelInput, replay_only: bool,
            divisible: tuple[str, ...] = ()) -> Any:
    """The `Examined` of a kernel, or what is wrong with it."""
    try:
        return examiner.result(kernel, replay_only, divisible)
    except Reported as error:
        return str(error)
