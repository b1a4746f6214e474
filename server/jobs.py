"""Runs jobs: takes them from the store, asks about their kernels, writes the result.

In: a `Service`. Out: `JobRunner`, a background task of each server process. Kernels whose answers
are known when a job is queued are done from the start. A kernel that fails or is over a limit is
reported in the result's errors and the rest goes on. Answers are memoised, so a job that is taken
over after a crash goes on where it stood.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from server.jobstore import Item, ItemResult, Job
from server.plans import Plan, plan_of
from server.service import BULK, Service
from server.store import Answer

__all__ = ["JobRunner"]

log = logging.getLogger("samebits.jobs")

_FLUSH_S = 0.25


@dataclass(slots=True)
class _Run:
    """A job that runs here."""

    job: Job
    task: asyncio.Task[None] | None = None
    buffer: list[ItemResult] = field(default_factory=list)
    lost: bool = False


class JobRunner:
    """Claims and runs jobs until the service closes."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = service.settings
        self._jobs = service.jobs
        self._runs: dict[str, _Run] = {}
        self._wake = asyncio.Event()
        self._tick = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for jobs."""
        self._loop_task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        """Finish the kernels under way, then hand unfinished jobs back to the queue."""
        self.wake()
        if self._loop_task is not None:
            await self._loop_task
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._settings.drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        given = await self._service.on_thread(self._jobs.hand_back, self._service.owner)
        if given:
            log.info("handed back", extra={"fields": {"jobs": given}})

    async def queue(
        self, items: Sequence[Item], kind: str = "partition", subject: str | None = None,
    ) -> Job:
        """Queue a job for these items, whose texts are kept, and look for jobs now."""
        filled = await self._answered(plan_of(kind), items)
        job = await self._service.on_thread(self._jobs.create, filled, kind, subject)
        self.wake()
        return job

    async def _answered(self, plan: Plan, items: Sequence[Item]) -> list[Item]:
        """The items, those done whose answers are known or that nothing is to be asked about."""
        filled = list(items)
        groups: dict[str, list[Item]] = {}
        for item in items:
            question = plan.question(item) if item.state == "waiting" else None
            if question is not None:
                groups.setdefault(question.key, []).append(item)
            elif item.state == "waiting":
                filled[item.number] = replace(item, state="done")
        for key, answer in (await self._service.known(groups)).items():
            self._service.metrics.cache.labels(answer.kind, "store").inc()
            for item, found in zip(groups[key], _results(plan, groups[key], answer), strict=True):
                filled[item.number] = replace(
                    item, state=found.state, answer=found.answer, class_key=found.class_key,
                    error=found.error)
        return filled

    def wake(self) -> None:
        """Look for jobs now."""
        self._wake.set()

    def cancelled(self, job_id: str) -> None:
        """Stop a job that was cancelled in the store."""
        run = self._runs.get(job_id)
        if run is not None and run.task is not None:
            run.lost = True
            run.task.cancel()
        self._changed()

    async def changed(self, timeout_s: float) -> None:
        """Wait until some job of this process changed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._tick.wait(), timeout_s)

    def _changed(self) -> None:
        self._tick.set()
        self._tick = asyncio.Event()

    async def _loop(self) -> None:
        service = self._service
        while not service.closing.is_set():
            self._wake.clear()
            try:
                job = None
                if len(self._runs) < self._settings.running_jobs:
                    job = await service.on_thread(
                        self._jobs.claim, service.owner, self._settings.lease_s)
                if job is not None and job.id in self._runs:
                    continue  # our own lease had run out for a moment; it is renewed by now
                if job is not None:
                    run = _Run(job)
                    self._runs[job.id] = run
                    run.task = asyncio.create_task(self._guarded(run))
                    continue
            except Exception:
                log.exception("cannot take jobs")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._settings.poll_s)

    async def _guarded(self, run: _Run) -> None:
        job, service = run.job, self._service
        fields = {"job": job.id, "kernels": job.total, "attempt": job.attempts}
        log.info("job begins", extra={"fields": fields})
        started = time.perf_counter()
        beat = asyncio.create_task(self._beat(run))
        try:
            await self._run(run)
        except asyncio.CancelledError:
            if not run.lost and not service.closing.is_set():
                raise
        except Exception as error:
            log.exception("job failed", extra={"fields": fields})
            problem = {"kind": "internal", "message": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(Exception):
                await service.on_thread(self._jobs.finish, job.id, service.owner, error=problem)
        finally:
            beat.cancel()
            self._runs.pop(job.id, None)
            self._changed()
            self.wake()
        seconds = round(time.perf_counter() - started, 3)
        log.info("job ends", extra={"fields": {**fields, "seconds": seconds}})

    async def _beat(self, run: _Run) -> None:
        """Write results and extend the lease; end the run when the job is no longer ours."""
        service, job = self._service, run.job
        last = time.monotonic()
        while True:
            await asyncio.sleep(_FLUSH_S)
            try:
                kept = True
                if run.buffer:
                    kept = await self._flush(run)
                elif time.monotonic() - last > self._settings.lease_s / 4:
                    last = time.monotonic()
                    kept = await service.on_thread(
                        self._jobs.heartbeat, job.id, service.owner, self._settings.lease_s)
            except Exception:
                log.exception("cannot write job results", extra={"fields": {"job": job.id}})
                continue
            if not kept and run.task is not None:
                run.lost = True
                run.task.cancel()
                return

    async def _flush(self, run: _Run) -> bool:
        rows, run.buffer = run.buffer, []
        try:
            kept = await self._service.on_thread(
                self._jobs.record, run.job.id, self._service.owner, self._settings.lease_s, rows)
        except Exception:
            run.buffer = rows + run.buffer
            raise
        self._changed()
        return kept

    async def _run(self, run: _Run) -> None:
        service, job = self._service, run.job
        plan = plan_of(job.kind)
        items = await service.on_thread(self._jobs.items, job.id)
        groups: dict[str, list[Item]] = {}
        for item in items:
            question = plan.question(item) if item.state == "waiting" else None
            if question is not None:
                groups.setdefault(question.key, []).append(item)
        if groups:
            await self._ask_all(run, plan, list(groups.values()))
            if service.closing.is_set() or not await self._flush(run):
                return
            items = await service.on_thread(self._jobs.items, job.id)
        outcome = await plan.result(service, job, items)
        await service.on_thread(
            self._jobs.finish, job.id, service.owner, result=outcome.value, error=outcome.error)
        service.metrics.jobs.labels("failed" if outcome.error else "done").inc()

    async def _ask_all(self, run: _Run, plan: Plan, groups: Sequence[list[Item]]) -> None:
        """Ask about one kernel of each group, a bounded number at a time."""
        pending = iter(groups)

        async def lane() -> None:
            for group in pending:
                if self._service.closing.is_set():
                    return
                run.buffer += _results(plan, group, await self._ask(plan, group[0]))

        lanes = [asyncio.create_task(lane())
                 for _ in range(min(len(groups), self._service.scheduler.capacity * 2))]
        try:
            await asyncio.gather(*lanes)
        finally:
            for task in lanes:
                task.cancel()

    async def _ask(self, plan: Plan, item: Item) -> Answer:
        service = self._service
        question = plan.question(item)
        assert question is not None
        texts: dict[str, str] = {}
        for digest in question.texts:
            text = await service.on_thread(service.store.text, digest)
            if text is None:
                raise LookupError(f"the text {digest} is gone from the store")
            texts[digest] = text
        answer, _ = await service.answer(
            question.kind, question.digest, question.options, plan.payload(item, texts), {},
            priority=BULK)
        return answer


def _results(plan: Plan, group: Iterable[Item], answer: Answer) -> list[ItemResult]:
    outcome = answer.outcome
    if outcome.error is not None:
        return [ItemResult(i.number, None, None, outcome.error) for i in group]
    class_key = plan.class_key(answer)[:128]
    return [ItemResult(i.number, answer.key, class_key, None) for i in group]
