"""Routes about sweeps: partition jobs, their progress as events, cancelling."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from server.answers import job_document
from server.intake import CONTENT, items_of_request
from server.jobs import JobRunner
from server.jobstore import Item, Job
from server.models import JobOut
from server.problems import found
from server.routes_kernels import PROBLEMS, service_of
from server.service import Busy, Service

__all__ = ["PREFER", "document_of", "queue_job", "reply_job", "router", "wait_for"]

router = APIRouter(prefix="/v1", tags=["jobs"])

JobId = Annotated[str, Path(pattern=r"^[0-9a-f]{24}$")]
_WAIT = re.compile(r"(?:^|[,;\s])wait(?:\s*=\s*\"?(\d{1,5}))?")
_KEEP_ALIVE_S = 15.0
_NONE = "no job has this id"


def runner_of(request: Request) -> JobRunner:
    """The application's job runner."""
    runner: JobRunner = request.app.state.runner
    return runner


async def queue_job(
    request: Request, items: list[Item], kind: str = "partition", subject: str | None = None,
) -> Job:
    """Queue a job for these items and let the runner look."""
    service = service_of(request)
    waiting = await service.on_thread(service.jobs.count, "queued")
    if waiting >= service.settings.queued_jobs:
        raise Busy
    return await runner_of(request).queue(items, kind, subject)


async def wait_for(request: Request, job_id: str, seconds: float) -> Job:
    """The job once it is final, or as it is when the time is over."""
    service, runner = service_of(request), runner_of(request)
    until = time.monotonic() + seconds
    while True:
        job = found(await service.on_thread(service.jobs.get, job_id), _NONE)
        left = until - time.monotonic()
        if job.final or left <= 0 or service.closing.is_set():
            return job
        await runner.changed(min(left, 0.25))


async def document_of(service: Service, job: Job) -> dict[str, Any]:
    """The job's document, with the result once it is done."""
    result = await service.on_thread(service.jobs.result, job.id) if job.state == "done" else None
    return job_document(job, result)


async def reply_job(request: Request, job: Job, wait_s: float = 0.0) -> Response:
    """Answer with a job: 200 if it is final by the time the client prefers, else 202."""
    service = service_of(request)
    headers = {"Location": f"/v1/jobs/{job.id}"}
    wait = _WAIT.search(request.headers.get("prefer", ""))
    if wait is not None:
        wait_s = float(wait[1] or 10)
        headers["Preference-Applied"] = "wait"
    if wait_s > 0:
        job = await wait_for(request, job.id, min(wait_s, service.settings.wait_limit_s))
    return JSONResponse(
        await document_of(service, job), 200 if job.final else 202, headers=headers)


PREFER = {
    "name": "Prefer", "in": "header", "required": False, "schema": {"type": "string"},
    "description": "`wait=SECONDS`: answer 200 with the result if it is there by then",
    "example": "wait=10"}


@router.post("/partition", status_code=202, response_model=JobOut, summary="Partition a sweep",
             openapi_extra={"requestBody": CONTENT, "parameters": [PREFER]},
             responses={200: {"model": JobOut, "description": "Done in time"}, **PROBLEMS})
async def partition(request: Request) -> Response:
    """Queue a job that brings kernels into bitwise-equality classes."""
    items = await items_of_request(request, service_of(request))
    return await reply_job(request, await queue_job(request, items))


async def _job(request: Request, job_id: str) -> Job:
    service = service_of(request)
    return found(await service.on_thread(service.jobs.get, job_id), _NONE)


@router.get("/jobs/{job_id}", response_model=JobOut, responses=PROBLEMS, summary="A job")
async def job_info(request: Request, job_id: JobId) -> Response:
    """State, progress and, once done, the result."""
    job = await _job(request, job_id)
    return JSONResponse(await document_of(service_of(request), job))


@router.delete("/jobs/{job_id}", response_model=JobOut, responses=PROBLEMS, summary="Cancel a job")
async def cancel_job(request: Request, job_id: JobId) -> Response:
    """Cancel a job that is not final; answers with the job as it is then."""
    service = service_of(request)
    job = found(await service.on_thread(service.jobs.cancel, job_id), _NONE)
    runner_of(request).cancelled(job_id)
    return JSONResponse(await document_of(service, job))


@router.get("/jobs/{job_id}/events", responses={
    200: {"description": "Server-sent events: `progress`, `class`, then `end`",
          "content": {"text/event-stream": {"schema": {"type": "string"}}}}, **PROBLEMS},
    response_class=StreamingResponse, summary="A job's events")
async def job_events(request: Request, job_id: JobId) -> Response:
    """Progress, and classes as they form, until the job is final."""
    await _job(request, job_id)
    return StreamingResponse(
        _events(request, job_id), media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def _event(name: str, data: dict[str, Any], number: int) -> str:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n"


async def _events(request: Request, job_id: str) -> AsyncIterator[str]:
    service, runner = service_of(request), runner_of(request)
    told: tuple[str, int] | None = None
    sizes: dict[str, int] = {}
    quiet_since = time.monotonic()
    number = 0
    while not service.closing.is_set():
        job = await service.on_thread(service.jobs.get, job_id)
        if job is None:
            return
        if (job.state, job.done) != told:
            told = (job.state, job.done)
            now = await service.on_thread(service.jobs.class_sizes, job_id)
            grown = {key: size for key, size in now.items() if sizes.get(key) != size}
            sizes = now
            told_now = [("progress", {"state": job.state, "done": job.done, "total": job.total,
                                      "classes": len(sizes)})]
            told_now += [("class", {"key": k, "size": n}) for k, n in sorted(grown.items())]
            yield "".join(_event(*e, number + at) for at, e in enumerate(told_now, 1))
            number += len(told_now)
            quiet_since = time.monotonic()
        if job.final:
            yield _event("end", await document_of(service, job), number + 1)
            return
        if time.monotonic() - quiet_since > _KEEP_ALIVE_S:
            quiet_since = time.monotonic()
            yield ": still there\n\n"
        await runner.changed(0.5)
        await asyncio.sleep(0.02)
