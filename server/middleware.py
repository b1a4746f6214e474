"""What happens to every request before a route sees it and after it answered.

`Envelope`: request id, structured log line, metrics, security headers, last-resort 500.
`Access`: bearer tokens with scopes, cross-site refusal, rate limit. `BodyLimit`: size and time.
Plain ASGI, so that streams (server-sent events, uploads) pass through unbuffered.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.metrics import Metrics
from server.problems import MEDIA_TYPE, Problem, render_problem
from server.settings import Settings

__all__ = ["COOKIE", "Access", "BodyLimit", "Envelope"]

log = logging.getLogger("samebits.server")

COOKIE = "samebits_token"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN_PATHS = frozenset(
    {"/", "/healthz", "/readyz", "/docs", "/openapi.json", "/login", "/favicon.ico"})
_UPLOAD_PATHS = ("/v1/partition", "/v1/baselines", "/page/partition")

_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
}


async def _refuse(scope: Scope, send: Send, problem: Problem) -> None:
    body = render_problem(problem, scope.get("samebits_id", ""))
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body))]
    if problem.kind in ("too-many", "busy"):
        headers.append((b"retry-after", str(problem.extra.get("retry_after_s", 1)).encode()))
    if problem.kind == "unauthorized":
        headers.append((b"www-authenticate", b'Bearer realm="samebits"'))
    if problem.kind in ("too-large", "slow"):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _route_of(scope: Scope) -> str:
    route = scope.get("route")
    return str(getattr(route, "path", "other"))


class Envelope:
    """Outermost layer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _ID.match(given) else secrets.token_hex(8)
        scope["samebits_id"] = request_id
        started = time.perf_counter()
        status = 0

        async def wrapped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in _SECURITY.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, wrapped)
        except Exception:
            log.exception("unhandled", extra={"fields": {"request_id": request_id}})
            if status == 0:
                await _refuse(scope, wrapped, Problem("internal", "see the server's log"))
        finally:
            self._record(scope, status, time.perf_counter() - started, request_id)

    def _record(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = _route_of(scope)
        self.metrics.requests.labels(scope["method"], route, str(status)).inc()
        self.metrics.latency.labels(route).observe(seconds)
        client = scope.get("client")
        log.info("request", extra={"fields": {
            "request_id": request_id, "method": scope["method"], "path": scope["path"][:200],
            "status": status, "ms": round(seconds * 1000, 2),
            "client": client[0] if client else "",
            "caller": scope.get("samebits_caller", ""),
        }})


class Access:
    """Who may do what, and how often."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] == "http":
            problem = self._check(scope)
            if problem is not None:
                await self._answer(scope, send, problem)
                return
        await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, send: Send, problem: Problem) -> None:
        """Refuse; a person with a browser is shown where to give the token."""
        wants_html = "text/html" in Headers(scope=scope).get("accept", "")
        if problem.kind == "unauthorized" and wants_html and not scope["path"].startswith("/v1/"):
            headers = [(b"location", b"/login"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 303, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await _refuse(scope, send, problem)

    def _check(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        if method not in _SAFE and self._cross_site(headers):
            return Problem("forbidden", "cross-site requests are refused")
        digest = _token_digest(headers)
        scopes = self._scopes(digest)
        scope["samebits_caller"] = digest[:8] if scopes is not None else ""
        if self.settings.tokens and not self._is_open(path):
            if scopes is None:
                return Problem("unauthorized", "send `Authorization: Bearer TOKEN`")
            needed = "read" if method in _SAFE else "write"
            if needed not in scopes:
                return Problem("forbidden", f"this token has no {needed} scope")
        client = scope.get("client")
        who = digest if scopes is not None else (client[0] if client else "")
        return self._rate(who) if not path.startswith(("/healthz", "/readyz")) else None

    def _is_open(self, path: str) -> bool:
        if path == "/metrics":
            return self.settings.public_metrics
        return path in _OPEN_PATHS or path.startswith("/static/")

    def _cross_site(self, headers: Headers) -> bool:
        site = headers.get("sec-fetch-site", "none")
        if site in ("same-origin", "none"):
            return False
        return headers.get("origin", "") not in self.settings.cors_origins

    def _scopes(self, digest: str) -> frozenset[str] | None:
        if not digest:
            return None
        found = None
        for known, scopes in self.settings.tokens.items():
            if hmac.compare_digest(known, digest):
                found = scopes
        return found

    def _rate(self, who: str) -> Problem | None:
        rate = self.settings.rate_per_s
        if rate <= 0:
            return None
        now = time.monotonic()
        tokens, last = self._buckets.pop(who, (float(self.settings.rate_burst), now))
        tokens = min(float(self.settings.rate_burst), tokens + (now - last) * rate)
        self._buckets[who] = (tokens - 1 if tokens >= 1 else tokens, now)
        while len(self._buckets) > 10_000:
            self._buckets.popitem(last=False)
        if tokens >= 1:
            return None
        wait = max(1, round((1 - tokens) / rate))
        return Problem("too-many", f"at most {rate:g} requests a second", retry_after_s=wait)


def _token_digest(headers: Headers) -> str:
    """SHA-256 of the bearer token or of the page's cookie, "" without either."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        token = ""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
            token = morsel.value if morsel is not None else ""
        except CookieError:
            token = ""
    token = token.strip()
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest() if token else ""


class BodyLimit:
    """Refuses bodies that are too large or too slow, declared or not."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self.app(scope, receive, send)
            return
        upload = scope["path"].startswith(_UPLOAD_PATHS)
        limit = self.settings.upload_limit_bytes if upload else self.settings.body_limit_bytes
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > limit:
            await _refuse(scope, send, _too_large(limit))
            return
        state: dict[str, Any] = {"seen": 0, "done": False, "answered": False}
        deadline = time.monotonic() + self.settings.body_time_limit_s

        async def counted() -> Message:
            if state["done"]:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline - time.monotonic())
            except TimeoutError:
                raise Problem("slow", "the body did not arrive in time") from None
            if message["type"] == "http.request":
                state["seen"] += len(message.get("body", b""))
                state["done"] = not message.get("more_body", False)
                if state["seen"] > limit:
                    raise _too_large(limit)
            return message

        async def watched(message: Message) -> None:
            state["answered"] = True
            await send(message)

        try:
            await self.app(scope, counted, watched)
        except Problem as problem:
            if state["answered"]:
                raise
            await _refuse(scope, send, problem)


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"a request may have {limit} bytes at most", limit_bytes=limit)
