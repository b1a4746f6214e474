"""Errors as `application/problem+json` (RFC 9457), with positions where a text is at fault.

In: an engine outcome's error, an exception, or a status. Out: a `Problem` to raise, and the
handlers that turn it and FastAPI's own errors into responses.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from server.service import Busy

__all__ = [
    "KINDS", "MEDIA_TYPE", "Problem", "add_handlers", "found", "problem_body", "problem_of",
    "render_problem", "validation_problem",
]

T = TypeVar("T")

MEDIA_TYPE = "application/problem+json"

#: error kind -> (status, title)
KINDS: dict[str, tuple[int, str]] = {
    "input": (422, "The assembly text cannot be read"),
    "usage": (422, "The request does not fit the text"),
    "launch": (422, "The launch facts do not fit the kernel"),
    "time-limit": (422, "The kernel is over the time limit"),
    "memory-limit": (422, "The kernel is over the memory limit"),
    "worker-died": (500, "The worker process died"),
    "internal": (500, "The checker failed"),
    "request": (422, "The request is not valid"),
    "upload": (422, "The upload is refused"),
    "too-large": (413, "The request is too large"),
    "too-many": (429, "Too many requests"),
    "busy": (503, "The server has too much work waiting"),
    "slow": (408, "The request body came too slowly"),
    "unauthorized": (401, "A bearer token is needed"),
    "forbidden": (403, "The token or origin does not allow this"),
    "not-found": (404, "There is no such thing"),
    "conflict": (409, "The request does not fit the present state"),
    "method": (405, "The method is not allowed here"),
    "media-type": (415, "The content type is not supported"),
    "http": (400, "The request failed"),
}


class Problem(HTTPException):
    """An answer other than success; kind is a key of `KINDS`.

    An HTTPException, because FastAPI lets only those pass while it reads a body.
    """

    def __init__(self, kind: str, detail: str, **extra: Any) -> None:
        super().__init__(KINDS[kind][0], detail)
        self.kind, self.extra = kind, extra

    @property
    def status(self) -> int:
        """HTTP status."""
        return KINDS[self.kind][0]


def found(value: T | None, detail: str) -> T:
    """The value; raises the problem that there is no such thing where it is None."""
    if value is None:
        raise Problem("not-found", detail)
    return value


def problem_of(error: dict[str, Any], side: str = "") -> Problem:
    """The problem for an outcome's error."""
    extra: dict[str, Any] = {"diagnostics": error["diagnostics"]}
    if side:
        extra["side"] = side
    return Problem(error["kind"], error["message"], **extra)


def problem_body(problem: Problem, request_id: str) -> dict[str, Any]:
    """The JSON document."""
    status, title = KINDS[problem.kind]
    return {"type": f"urn:samebits:problem:{problem.kind}", "title": title, "status": status,
            "detail": problem.detail, "request_id": request_id, **problem.extra}


def _respond(request: Request, problem: Problem, status: int | None = None) -> JSONResponse:
    body = problem_body(problem, request.scope.get("samebits_id", ""))
    if status is not None:
        body["status"] = status
    headers = {}
    if problem.kind in ("too-many", "busy"):
        headers["Retry-After"] = str(problem.extra.get("retry_after_s", 1))
    if problem.kind == "unauthorized":
        headers["WWW-Authenticate"] = 'Bearer realm="samebits"'
    return JSONResponse(body, status or problem.status, headers, media_type=MEDIA_TYPE)


def validation_problem(errors: list[Any]) -> Problem:
    """The problem for a body, path or query that does not fit its model; echoes no input."""
    told = []
    for error in errors[:50]:
        place = ".".join(str(part) for part in error.get("loc", ()))
        told.append({"place": _plain(place), "message": _plain(str(error.get("msg", ""))),
                     "code": str(error.get("type", ""))})
    first = f"{told[0]['place']}: {told[0]['message']}" if told else "not valid"
    return Problem("request", first, errors=told)


def _plain(text: str) -> str:
    """Text that any JSON encoder can write."""
    return text.encode("utf-8", "replace").decode()[:500]


def add_handlers(app: FastAPI) -> None:
    """Make every error answer a problem document."""

    @app.exception_handler(Problem)
    async def on_problem(request: Request, error: Problem) -> JSONResponse:
        return _respond(request, error)

    @app.exception_handler(RequestValidationError)
    async def on_validation(request: Request, error: RequestValidationError) -> JSONResponse:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and not kind.endswith("json"):
            return _respond(request, Problem(
                "media-type", "send JSON, with the header `Content-Type: application/json`"))
        return _respond(request, validation_problem(list(error.errors())))

    @app.exception_handler(Busy)
    async def on_busy(request: Request, error: Busy) -> JSONResponse:
        return _respond(request, Problem("busy", "too many calls are waiting", retry_after_s=2))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        kind = {401: "unauthorized", 403: "forbidden", 404: "not-found", 405: "method",
                413: "too-large", 415: "media-type", 422: "request"}.get(error.status_code, "http")
        response = _respond(request, Problem(kind, _plain(str(error.detail))), error.status_code)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        return response


def render_problem(problem: Problem, request_id: str) -> bytes:
    """The document as bytes, for answers made below FastAPI."""
    return json.dumps(problem_body(problem, request_id)).encode()
