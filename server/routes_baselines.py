"""Routes about baselines: the kernels that a build is held against."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response

from checker.build import build
from server.intake import CONTENT, items_of_request
from server.models import BaselineOut, JobOut
from server.problems import Problem, found
from server.routes_jobs import PREFER, queue_job, reply_job
from server.routes_kernels import PROBLEMS, service_of

__all__ = ["router"]

router = APIRouter(prefix="/v1/baselines", tags=["baselines"])

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]

_CHECK_WAIT_S = 20.0
_NONE = "no baseline has this name"


@router.get("", response_model=dict[str, list[str]], responses=PROBLEMS, summary="Names")
async def names(request: Request) -> Response:
    """The names of all baselines."""
    service = service_of(request)
    return JSONResponse({"names": await service.on_thread(service.store.baseline_names)})


@router.put("/{name}", response_model=BaselineOut, openapi_extra={"requestBody": CONTENT},
            responses={201: {"model": BaselineOut, "description": "Created"}, **PROBLEMS},
            summary="Set a baseline")
async def put(request: Request, name: Name) -> Response:
    """Keep these kernels under a name, in place of what stood there."""
    service = service_of(request)
    items = await items_of_request(request, service)
    failed = next((item for item in items if item.error is not None), None)
    if failed is not None and failed.error is not None:
        raise Problem("upload", f"{failed.name}: {failed.error['message']}")
    entries = [{"name": item.name, "digest": item.digest, **item.details} for item in items]
    new = await service.on_thread(service.store.put_baseline, name, entries, build())
    return JSONResponse(await service.on_thread(service.store.baseline, name), 201 if new else 200)


@router.get("/{name}", response_model=BaselineOut, responses=PROBLEMS, summary="A baseline")
async def get(request: Request, name: Name) -> Response:
    """The baseline's kernels."""
    return JSONResponse(await _baseline(request, name))


@router.delete("/{name}", status_code=204, responses=PROBLEMS, summary="Remove a baseline")
async def delete(request: Request, name: Name) -> Response:
    """Forget a baseline; texts and answers stay."""
    service = service_of(request)
    if not await service.on_thread(service.store.drop_baseline, name):
        raise Problem("not-found", _NONE)
    return Response(status_code=204)


@router.post("/{name}/check", response_model=JobOut,
             openapi_extra={"requestBody": CONTENT, "parameters": [PREFER]},
             responses={202: {"model": JobOut, "description": "Not done yet"}, **PROBLEMS},
             summary="Check kernels against a baseline")
async def check(request: Request, name: Name) -> Response:
    """Compare each kernel with the baseline's of the same name; a job, like a partition.

    Where there are launch facts, a kernel is equal if it is at every launch.
    """
    baseline = await _baseline(request, name)
    entries = {entry["name"]: entry for entry in baseline["entries"]}
    items = []
    for item in await items_of_request(request, service_of(request)):
        items.append(replace(item, details={**item.details, "base": entries.get(item.name)}))
    return await reply_job(request, await queue_job(request, items, "check", name), _CHECK_WAIT_S)


async def _baseline(request: Request, name: str) -> dict[str, Any]:
    service = service_of(request)
    return found(await service.on_thread(service.store.baseline, name), _NONE)
