"""Where engine calls run: the process pool of this machine, or the workers of dask.distributed.

In: settings. Out: a `Scheduler`, whose `submit` gives a `concurrent.futures.Future[Outcome]`.
On dask, each worker process keeps a `WorkerPool` of its own, so that the limits hold there too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from server import engine
from server.engine import Outcome
from server.pool import LimitError, WorkerPool
from server.settings import Settings

__all__ = ["DaskScheduler", "LocalScheduler", "Scheduler", "limit_outcome", "make_scheduler"]

Progress = Callable[[int, int], None]


class Scheduler(Protocol):
    """What the service asks of an executor."""

    capacity: int

    def submit(
        self, name: str, payload: Mapping[str, Any], *, priority: int = 5,
        time_limit_s: float | None = None, progress: Progress | None = None,
    ) -> Future[Outcome]:
        """Start one engine call; lower priority first."""
        ...

    def depth(self) -> int:
        """Calls that wait."""
        ...

    def close(self, *, cancel: bool) -> None:
        """End the workers, after the running calls or, with `cancel`, at once."""
        ...


class LocalScheduler:
    """The process pool."""

    def __init__(self, settings: Settings, on_restart: Callable[[str], None]) -> None:
        self._engine = settings.engine
        self.capacity = settings.workers
        self.pool = WorkerPool(
            settings.workers, time_limit_s=settings.time_limit_s,
            memory_limit_bytes=settings.memory_limit_bytes,
            modules=("server.engine", settings.engine),
            start_limit_s=settings.start_limit_s, on_restart=on_restart)

    def submit(
        self, name: str, payload: Mapping[str, Any], *, priority: int = 5,
        time_limit_s: float | None = None, progress: Progress | None = None,
    ) -> Future[Outcome]:
        """See `Scheduler.submit`."""
        return self.pool.submit_call(
            engine.call, (self._engine, name, payload), priority=priority,
            time_limit_s=time_limit_s, progress=progress)

    def depth(self) -> int:
        """See `Scheduler.depth`."""
        return self.pool.depth()

    def close(self, *, cancel: bool) -> None:
        """See `Scheduler.close`."""
        self.pool.shutdown(cancel_futures=cancel)


class DaskScheduler:
    """A dask.distributed cluster, through its `concurrent.futures` executor."""

    def __init__(self, settings: Settings) -> None:
        import distributed

        connect: Any = distributed.Client

        self._settings = settings
        self._client = connect(settings.scheduler, name="samebits", set_as_default=False)
        self.capacity = max(1, sum(self._client.nthreads().values()))
        self._executor = self._client.get_executor(pure=False, retries=1)
        self._waiting = 0
        self._lock = threading.Lock()

    def submit(
        self, name: str, payload: Mapping[str, Any], *, priority: int = 5,
        time_limit_s: float | None = None, progress: Progress | None = None,
    ) -> Future[Outcome]:
        """See `Scheduler.submit`; priority and progress do not cross the cluster."""
        s = self._settings
        limits = (time_limit_s or s.time_limit_s, s.memory_limit_bytes)
        with self._lock:
            self._waiting += 1
        future: Future[Outcome] = self._executor.submit(
            run_on_dask, s.engine, name, dict(payload), *limits)
        future.add_done_callback(self._finished)
        return future

    def _finished(self, _future: Any) -> None:
        with self._lock:
            self._waiting -= 1

    def depth(self) -> int:
        """See `Scheduler.depth`."""
        return int(max(0, self._waiting - self.capacity))

    def close(self, *, cancel: bool) -> None:
        """See `Scheduler.close`."""
        self._executor.shutdown(wait=not cancel)
        self._client.close()


_pools: dict[tuple[str, int], WorkerPool] = {}
_pools_lock = threading.Lock()


def run_on_dask(
    engine_name: str, name: str, payload: Mapping[str, Any], time_limit_s: float, memory: int,
) -> Outcome:
    """Runs inside a dask worker: hand the call to that worker's own limited process."""
    with _pools_lock:
        pool = _pools.get((engine_name, memory))
        if pool is None:
            from distributed import get_worker

            threads = get_worker().state.nthreads
            pool = WorkerPool(threads, memory_limit_bytes=memory,
                              modules=("server.engine", engine_name))
            _pools[engine_name, memory] = pool
    call = pool.submit_call(engine.call, (engine_name, name, payload), time_limit_s=time_limit_s)
    try:
        outcome: Outcome = call.result()
    except LimitError as error:  # an error would be retried
        outcome = limit_outcome(error, time_limit_s, memory)
    return outcome


def limit_outcome(error: LimitError, time_limit_s: float, memory_bytes: int) -> Outcome:
    """The outcome of a call that a limit ended."""
    return Outcome(error={"kind": error.code, "message": str(error), "diagnostics": [],
                          "limits": [time_limit_s, memory_bytes]})


def make_scheduler(settings: Settings, on_restart: Callable[[str], None]) -> Scheduler:
    """The scheduler that the settings ask for."""
    if settings.scheduler:
        return DaskScheduler(settings)
    return LocalScheduler(settings, on_restart)
