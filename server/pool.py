"""Process pool in which one bad call cannot hurt another: limits, replacement, priorities.

In: picklable function and arguments. Out: `concurrent.futures.Future`. A worker over its time or
memory limit is ended and replaced and its call fails with `TimeLimit` or `MemoryLimit`; a worker
that dies for another reason (kill -9) is replaced and its call is run once more, then `WorkerDied`.
`ProcessPoolExecutor` cannot serve here: one dead worker breaks every call it holds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["LimitError", "MemoryLimit", "TimeLimit", "WorkerDied", "WorkerPool"]


class LimitError(Exception):
    """A call was ended from outside; `code` is the short word for it."""

    code = "limit"


class TimeLimit(LimitError):
    """The call ran past its time limit and its worker was ended."""

    code = "time-limit"


class MemoryLimit(LimitError):
    """The call asked for more memory than a worker may hold."""

    code = "memory-limit"


class WorkerDied(LimitError):
    """The worker process died twice under this call."""

    code = "worker-died"


@dataclass(order=True, slots=True)
class _Task:
    priority: int
    number: int
    function: Callable[..., Any] = field(compare=False)
    args: tuple[Any, ...] = field(compare=False)
    time_limit_s: float = field(compare=False)
    future: Future[Any] = field(compare=False)
    progress: Callable[[int, int], None] | None = field(compare=False, default=None)
    deaths: int = field(compare=False, default=0)


class _Worker:
    """One child process and the socket to it."""

    def __init__(self, memory_limit_bytes: int, modules: tuple[str, ...], start_limit_s: float):
        ours, theirs = socket.socketpair()
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "server.worker", str(theirs.fileno()),
                 str(memory_limit_bytes), str(os.getpid()), *modules],
                pass_fds=[theirs.fileno()], env=env, stdin=subprocess.DEVNULL,
            )
        self.conn = Connection(ours.detach())
        if not self.conn.poll(start_limit_s):
            self.end()
            raise TimeoutError("a worker process did not start in time")
        self.conn.recv()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.process.kill()
        self.conn.close()
        self.process.wait()


class WorkerPool(Executor):
    """A `concurrent.futures` executor of `size` worker processes with limits for each call."""

    def __init__(
        self, size: int, *, time_limit_s: float = 60.0, memory_limit_bytes: int = 2 << 30,
        modules: tuple[str, ...] = (), start_limit_s: float = 120.0,
        on_restart: Callable[[str], None] | None = None,
    ) -> None:
        self._time_limit_s = time_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._modules = modules
        self._start_limit_s = start_limit_s
        self._on_restart = on_restart or (lambda reason: None)
        self._queue: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._workers: dict[int, _Worker] = {}
        self.restarts = 0
        self._threads = [
            threading.Thread(target=self._run, args=(slot,), name=f"pool-{slot}", daemon=True)
            for slot in range(size)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def size(self) -> int:
        """Number of worker processes the pool keeps."""
        return len(self._threads)

    def depth(self) -> int:
        """Number of calls that wait for a worker."""
        return self._queue.qsize()

    def pids(self) -> list[int]:
        """Process ids of the living workers."""
        with self._lock:
            return [w.process.pid for w in self._workers.values() if w.process.poll() is None]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call with the pool's own limits and middle priority."""
        if kwargs:
            raise TypeError("keyword arguments are not passed on; bind them beforehand")
        return self.submit_call(fn, args)

    def submit_call(
        self, function: Callable[..., Any], args: tuple[Any, ...], *,
        time_limit_s: float | None = None, priority: int = 5,
        progress: Callable[[int, int], None] | None = None,
    ) -> Future[Any]:
        """Queue a call; lower `priority` runs first; `progress` is called from a pool thread."""
        if self._closing.is_set():
            raise RuntimeError("the pool is shut down")
        future: Future[Any] = Future()
        limit = self._time_limit_s if time_limit_s is None else time_limit_s
        self._queue.put(
            _Task(priority, next(self._numbers), function, args, limit, future, progress))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop taking calls; with `cancel_futures` drop the queue and end running calls."""
        self._closing.set()
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._queue.get_nowait().future.cancel()
            with self._lock:
                for worker in self._workers.values():
                    with contextlib.suppress(OSError):
                        worker.process.kill()
        if wait:
            for thread in self._threads:
                thread.join()

    # one thread for each slot owns that slot's process

    def _run(self, slot: int) -> None:
        worker: _Worker | None = None
        try:
            while True:
                if worker is None:
                    worker = self._start(slot)
                task = self._next()
                if task is None:
                    return
                if task.deaths == 0 and not task.future.set_running_or_notify_cancel():
                    continue
                if worker is None:
                    task.future.set_exception(WorkerDied("no worker process could be started"))
                elif not self._answer(worker, task):
                    self._drop(slot, worker)
                    worker = None
        finally:
            if worker is not None:
                self._drop(slot, worker)

    def _next(self) -> _Task | None:
        while True:
            try:
                return self._queue.get(timeout=0.2)
            except queue.Empty:
                if self._closing.is_set():
                    return None

    def _start(self, slot: int) -> _Worker | None:
        if self._closing.is_set():
            return None
        try:
            worker = _Worker(self._memory_limit_bytes, self._modules, self._start_limit_s)
        except (OSError, EOFError):
            time.sleep(0.2)
            return None
        with self._lock:
            self._workers[slot] = worker
        return worker

    def _drop(self, slot: int, worker: _Worker) -> None:
        with self._lock:
            self._workers.pop(slot, None)
        worker.end()

    def _restarted(self, reason: str) -> bool:
        self.restarts += 1
        self._on_restart(reason)
        return False

    def _answer(self, worker: _Worker, task: _Task) -> bool:
        """Run one call on one worker; return whether the worker may be used again."""
        try:
            worker.conn.send((task.function, task.args))
        except (OSError, ValueError):
            return self._died(task)
        except Exception as error:  # the call itself cannot be pickled
            task.future.set_exception(error)
            return True
        deadline = time.monotonic() + task.time_limit_s
        while True:
            try:
                if not worker.conn.poll(max(0.0, deadline - time.monotonic())):
                    text = f"ended after {task.time_limit_s:g} s, the limit for one call"
                    task.future.set_exception(TimeLimit(text))
                    return self._restarted("time-limit")
                kind, value = worker.conn.recv()
            except (EOFError, OSError):
                return self._died(task)
            except Exception as error:  # an answer that cannot be unpickled here
                task.future.set_exception(error)
                return True
            if kind == "progress":
                if task.progress is not None:
                    task.progress(*value)
            elif kind == "memory":
                mib = self._memory_limit_bytes >> 20
                task.future.set_exception(MemoryLimit(f"needs more than {mib} MiB of memory"))
                return self._restarted("memory-limit")
            else:
                if kind == "value":
                    task.future.set_result(value)
                else:
                    task.future.set_exception(value)
                return True

    def _died(self, task: _Task) -> bool:
        task.deaths += 1
        if task.deaths > 1 or self._closing.is_set():
            task.future.set_exception(WorkerDied("the worker process died under this call"))
        else:
            self._queue.put(task)
        return self._restarted("died")
