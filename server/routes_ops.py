"""Routes for operators: health, readiness, metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from checker.results import CHECKER_VERSION
from server.models import Health
from server.routes_kernels import PROBLEMS, service_of

__all__ = ["router"]

router = APIRouter(tags=["operation"])


@router.get("/healthz", response_model=Health, summary="Is the process up")
async def healthz() -> Response:
    """Answers as long as the process answers at all."""
    return JSONResponse({"status": "ok", "checker_version": CHECKER_VERSION})


@router.get("/readyz", response_model=Health, summary="Can it take work",
            responses={503: {"model": Health, "description": "Not now"}})
async def readyz(request: Request) -> Response:
    """503 while the database cannot be reached, no worker lives, or the server shuts down."""
    service = service_of(request)
    why = ""
    if service.closing.is_set():
        why = "shutting down"
    elif not service.settings.scheduler and not service.worker_pids():
        why = "no worker yet"
    else:
        try:
            await asyncio.wait_for(service.on_thread(service.store.ping), 5)
        except Exception:
            why = "the database cannot be reached"
    body = {"status": why or "ready", "checker_version": CHECKER_VERSION}
    return JSONResponse(body, 503 if why else 200)


@router.get("/metrics", response_class=PlainTextResponse, summary="Prometheus metrics",
            responses={401: PROBLEMS[401], 403: PROBLEMS[403]})
async def metrics(request: Request) -> Response:
    """Requests, latency, cache, verdicts, opaque opcodes, queue depth, worker restarts."""
    service = service_of(request)
    text = await service.on_thread(service.metrics.render)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
