"""The FastAPI application: routes, middleware, start and end of the service.

In: `Settings`. Out: `make_app`, an ASGI application; `serve` runs it under uvicorn.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles

from checker.results import CHECKER_VERSION
from server import models, page, routes_baselines, routes_jobs, routes_kernels, routes_ops
from server.jobs import JobRunner
from server.logs import set_up_logs
from server.metrics import Metrics
from server.middleware import Access, BodyLimit, Envelope
from server.problems import add_handlers
from server.service import Service
from server.settings import Settings

__all__ = ["bind", "make_app", "serve"]

log = logging.getLogger("samebits.server")

_ABOUT = (
    "Decides from assembly text (PTX, AMDGCN) whether two compiled GPU kernels return the same "
    "bits. `equal` is never answered on a guess; every verdict lists its premises."
)


def make_app(settings: Settings) -> FastAPI:
    """Build the application; nothing is opened before its lifespan starts."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = await asyncio.to_thread(Service, settings, metrics)
        runner = JobRunner(service)
        app.state.service, app.state.runner = service, runner
        runner.start()
        keeper = asyncio.create_task(service.keep_claims())
        try:
            yield
        finally:
            keeper.cancel()
            service.closing.set()
            await runner.stop()
            await service.close()

    app = FastAPI(
        title="samebits", version=CHECKER_VERSION, description=_ABOUT, lifespan=lifespan,
        docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    for module in (routes_kernels, routes_jobs, routes_baselines, routes_ops, page):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=page.STATIC), name="static")
    add_handlers(app)
    app.add_middleware(BodyLimit, settings=settings)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Prefer"])
    app.add_middleware(Access, settings=settings)
    app.add_middleware(Envelope, metrics=metrics)
    _document(app, settings)
    return app


def _document(app: FastAPI, settings: Settings) -> None:
    """Add to OpenAPI what FastAPI cannot see: bodies read by hand, problems, tokens."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=app.version, description=app.description,
                routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for model in (models.ProblemOut, models.PartitionRequest):
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas.update(schema.pop("$defs", {}))
                schemas[model.__name__] = schema
            if settings.tokens:
                document["components"]["securitySchemes"] = {
                    "token": {"type": "http", "scheme": "bearer"}}
                document["security"] = [{"token": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


class _Server(uvicorn.Server):
    """Tells the service that the end is near before connections are waited for."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Signal handler: end event streams, then do as uvicorn does."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.closing.set()
        super().handle_exit(sig, frame)


def bind(host: str, port: int) -> socket.socket:
    """A listening address; port 0 takes a free one.

    The protocol is named because asyncio sets TCP_NODELAY only then; without it, every answer
    waits 40 ms for the client's delayed acknowledgement.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def serve(
    settings: Settings, host: str = "127.0.0.1", port: int = 8080, *, log_level: str = "info",
) -> None:
    """Run the service until it is told to end; an unfinished job is handed back."""
    set_up_logs(log_level)
    app = make_app(settings)
    config = uvicorn.Config(
        app, host=host, port=port, log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=int(settings.drain_s) + 1, timeout_keep_alive=20, lifespan="on")
    server = _Server(config, app)
    with bind(host, port) as bound:
        address = bound.getsockname()
        log.info("listening", extra={"fields": {"host": address[0], "port": address[1]}})
        server.run(sockets=[bound])
