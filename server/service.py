"""The service behind the routes: memoised engine calls, each run once however often it is asked.

In: plain requests. Out: `Answer`s. An answer comes from memory, from a call that is under way, from
the store, from another server that shares the store, or from a worker, tried in that order.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from checker.build import build
from server.engine import Outcome
from server.jobstore import JobStore
from server.metrics import Metrics
from server.pool import LimitError, WorkerPool
from server.schedule import LocalScheduler, Scheduler, limit_outcome, make_scheduler
from server.settings import Settings
from server.store import DAY_S, Answer, Store, answer_key, digest_of

__all__ = ["Busy", "Service", "compare_options"]

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("samebits.service")

SINGLE = 3  # priority of a request that a person or a build waits for
BULK = 6  # priority of a job's kernels


def compare_options(
    digest_b: str, a: Mapping[str, Any], b: Mapping[str, Any], launches: Sequence[Any],
    strict: bool = False, assume: Sequence[str] = (),
) -> dict[str, Any]:
    """What a comparison of the text that the answer stands under depends on, besides it.

    launches: pairs of launch facts, of which the verdict holds jointly.
    """
    return {"strict": strict, "assume": list(assume), "b": digest_b, "isa_a": a["isa"],
            "isa_b": b["isa"], "kernel_a": a["kernel"], "kernel_b": b["kernel"],
            "launches": launches}


class Busy(Exception):
    """Too much work is waiting; the client should come back later."""


@dataclass(frozen=True, slots=True)
class _Held:
    """An answer in memory; past `until` the store is asked again, which may have been pruned."""

    answer: Answer
    size: int
    until: float


class Service:
    """State of one server process: store, scheduler, memory cache, calls under way."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.owner = secrets.token_hex(8)
        self.metrics = metrics
        self.store = Store(settings.database)
        self.jobs = JobStore(self.store)
        self.closing = asyncio.Event()
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="store")
        self._memory: OrderedDict[str, _Held] = OrderedDict()
        self._memory_bytes = 0
        self._under_way: dict[str, asyncio.Task[tuple[Answer, str]]] = {}
        self.scheduler: Scheduler = make_scheduler(
            settings, lambda why: self.metrics.restarts.labels(why).inc())
        self.metrics.watch("queue_depth", "Engine calls that wait", self.scheduler.depth)
        self.metrics.watch("calls_under_way", "Engine calls", lambda: len(self._under_way))
        self.metrics.watch(
            "jobs_waiting", "Jobs queued", lambda: self.jobs.count("queued"))

    @functools.cached_property
    def reader(self) -> WorkerPool:
        """One local process that reads uploaded files, started with the first upload."""
        return WorkerPool(1, time_limit_s=self.settings.time_limit_s,
                          memory_limit_bytes=self.settings.memory_limit_bytes,
                          modules=("server.uploads",))

    def worker_pids(self) -> list[int]:
        """Process ids of the local workers."""
        if isinstance(self.scheduler, LocalScheduler):
            return self.scheduler.pool.pids()
        return []

    async def on_thread(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs,
    ) -> T:
        """Run a blocking call (the store's) off the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, functools.partial(function, *args, **kwargs))

    async def keep_claims(self) -> None:
        """Extend this server's claims for as long as it lives; runs until cancelled."""
        while not self.store.is_sqlite:
            await asyncio.sleep(self.settings.lease_s / 4)
            if self._under_way:
                try:
                    await self.on_thread(
                        self.store.extend_claims, self.owner, self.settings.lease_s)
                except Exception:
                    log.exception("cannot extend claims")

    async def close(self) -> None:
        """End workers and database connections."""
        for task in list(self._under_way.values()):
            task.cancel()
        await asyncio.to_thread(self.scheduler.close, cancel=True)
        if "reader" in self.__dict__:
            await asyncio.to_thread(self.reader.shutdown, cancel_futures=True)
        self._threads.shutdown(wait=True)
        self.store.close()

    # the calls

    async def sign(self, text: str, isa: str | None, kernel: str | None) -> tuple[Answer, str]:
        """Signature of one kernel; also returns where it came from."""
        digest = digest_of(text)
        payload = {"text": text, "isa": isa, "kernel": kernel, "file": "<text>"}
        options = {"isa": isa, "kernel": kernel}
        return await self.answer("sign", digest, options, payload, {digest: text})

    async def compare(
        self, a: Mapping[str, Any], b: Mapping[str, Any], strict: bool,
        assume: Sequence[str] = (),
    ) -> tuple[Answer, str]:
        """Verdict for a pair; a and b have text, isa, kernel, launch."""
        digests = digest_of(a["text"]), digest_of(b["text"])
        options = compare_options(digests[1], a, b, [[a["launch"], b["launch"]]], strict,
                                  assume)
        texts = {digests[0]: a["text"], digests[1]: b["text"]}
        payload = {**options, "a": dict(a), "b": dict(b)}
        return await self.answer("compare", digests[0], options, payload, texts)

    async def outline(self, digest: str, isa: str | None, kernel: str | None) -> Answer | None:
        """Dependence trees of a kept text, or None when it is not kept."""
        text = await self.on_thread(self.store.text, digest)
        if text is None:
            return None
        payload = {"text": text, "isa": isa, "kernel": kernel}
        options = {"isa": isa, "kernel": kernel}
        return (await self.answer("outline", digest, options, payload, {}))[0]

    async def answer(
        self, kind: str, digest: str, options: Mapping[str, Any], payload: Mapping[str, Any],
        texts: Mapping[str, str], priority: int = SINGLE,
    ) -> tuple[Answer, str]:
        """The answer to one engine call, and its source: memory, store, shared or worker."""
        key = answer_key(kind, digest, build(), options)
        held = self._memory.get(key)
        if held is not None and held.until > time.time() and self._holds(held.answer):
            self._memory.move_to_end(key)
            self.metrics.cache.labels(kind, "memory").inc()
            return held.answer, "memory"
        task = self._under_way.get(key)
        if task is None:
            if len(self._under_way) >= self.settings.queued_jobs and priority <= SINGLE:
                raise Busy
            blank = Answer(key, kind, digest, build(), dict(options), None,
                           Outcome(), time.time())
            task = asyncio.create_task(self._find(blank, payload, texts, priority))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
            answer, source = await asyncio.shield(task)
        else:
            answer, source = (await asyncio.shield(task))[0], "shared"
        self.metrics.cache.labels(kind, source).inc()
        return answer, source

    async def _find(
        self, blank: Answer, payload: Mapping[str, Any], texts: Mapping[str, str], priority: int,
    ) -> tuple[Answer, str]:
        """Look in the store, wait for another server, or compute."""
        found = await self._stored(blank.key)
        if found is None and not self.store.is_sqlite:
            found = await self._claim(blank.key)
        if found is not None:
            self._remember(found)
            return found, "store"
        try:
            answer = await self._compute(blank, payload, texts, priority)
        finally:
            if not self.store.is_sqlite:
                await self.on_thread(self.store.release, blank.key, self.owner)
        return answer, "worker"

    async def _claim(self, key: str) -> Answer | None:
        """Return None once this server holds the claim, or the answer another server gave."""
        pause = 0.02
        while not await self.on_thread(
                self.store.claim, key, self.owner, self.settings.lease_s):
            await asyncio.sleep(pause)
            pause = min(0.5, pause * 1.5)
            found = await self._stored(key)
            if found is not None:
                return found
        return await self._stored(key)

    async def _stored(self, key: str) -> Answer | None:
        return (await self.known([key])).get(key)

    async def known(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Stored answers among these keys, without those that no longer hold."""
        found = await self.on_thread(self.store.answers, keys)
        return {key: answer for key, answer in found.items() if self._holds(answer)}

    def _holds(self, answer: Answer) -> bool:
        """A call that a limit ended is remembered for a while, and under no larger limits."""
        if answer.outcome.lasting:
            return True
        error = answer.outcome.error or {}
        time_s, memory = error.get("limits", (0, 0))
        s = self.settings
        return (time.time() - answer.created < s.remember_limits_s
                and time_s >= s.time_limit_s and memory >= s.memory_limit_bytes)

    async def _compute(
        self, blank: Answer, payload: Mapping[str, Any], texts: Mapping[str, str], priority: int,
    ) -> Answer:
        started = time.perf_counter()
        outcome = await self.run(blank.kind, payload, priority=priority)
        self.metrics.calls.labels(blank.kind).observe(time.perf_counter() - started)
        answer = self._filled(blank, outcome)
        if outcome.lasting or "limits" in (outcome.error or {}):
            await self.on_thread(self._keep, answer, texts)
            self._remember(answer)
        return answer

    async def run(
        self, name: str, payload: Mapping[str, Any], *, priority: int = SINGLE,
        time_limit_s: float | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> Outcome:
        """One engine call on a worker; limits become errors of the outcome."""
        future = self.scheduler.submit(
            name, payload, priority=priority, time_limit_s=time_limit_s, progress=progress)
        try:
            outcome = await asyncio.wrap_future(future)
        except LimitError as error:
            limits = self.settings
            outcome = limit_outcome(
                error, time_limit_s or limits.time_limit_s, limits.memory_limit_bytes)
        if outcome.error is not None:
            self.metrics.failures.labels(name, outcome.error["kind"]).inc()
        return outcome

    def _filled(self, blank: Answer, outcome: Outcome) -> Answer:
        signature = launch_signature = None
        value = outcome.value
        if value is not None:
            if blank.kind == "sign":
                signature = value["text"]
                self.metrics.signature(value)
            elif blank.kind == "examine":
                signature = value["signature"]["text"]
                launch_signature = value["launch_signature"]
                self.metrics.signature(value["signature"])
            elif blank.kind == "compare":
                self.metrics.verdicts.labels(value["verdict"]).inc()
        return Answer(blank.key, blank.kind, blank.text_digest, blank.checker_version,
                      blank.options, signature, outcome, blank.created, launch_signature)

    def _keep(self, answer: Answer, texts: Mapping[str, str]) -> None:
        self.store.put_texts(texts)
        self.store.put_answer(answer)

    def _remember(self, answer: Answer) -> None:
        size = len(json.dumps(answer.outcome.value))
        if size > self.settings.cache_bytes // 16:
            return
        self._forget(answer.key)
        self._memory[answer.key] = _Held(answer, size, time.time() + DAY_S)
        self._memory_bytes += size
        while self._memory_bytes > self.settings.cache_bytes:
            self._forget(next(iter(self._memory)))

    def _forget(self, key: str) -> None:
        held = self._memory.pop(key, None)
        if held is not None:
            self._memory_bytes -= held.size
