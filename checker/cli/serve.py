"""`samebits serve`: the HTTP service and its page.

In: options. Out: nothing until the server is told to end. Imports the service only when it runs.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["DATABASE", "Database", "serve"]

Database = Annotated[str, typer.Option(
    envvar="SAMEBITS_DATABASE", help="SQLAlchemy URL: sqlite:///FILE or postgresql://...")]
DATABASE = "sqlite:///samebits.sqlite"

_SIZE = re.compile(r"(\d+)\s*([KMG]?)(?:i?B)?\Z", re.IGNORECASE)


def _bytes(text: str) -> int:
    match = _SIZE.match(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size; write 64M or 2G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


def read_tokens(path: Path) -> dict[str, frozenset[str]]:
    """Tokens of a file: lines `SCOPES TOKEN`, scopes `read`, `write` or `read,write`.

    TOKEN may be given as `sha256:HEX` instead, so that the file holds no secret.
    """
    tokens: dict[str, frozenset[str]] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        scopes = frozenset(words[0].split(","))
        if len(words) != 2 or not scopes <= {"read", "write"}:
            raise typer.BadParameter(f"{path}:{number}: write `read,write TOKEN`")
        digest = words[1].removeprefix("sha256:")
        if digest == words[1]:
            digest = hashlib.sha256(words[1].encode()).hexdigest()
        tokens[digest] = scopes
    if not tokens:
        raise typer.BadParameter(f"{path} has no token")
    return tokens


def _try_database(database: str) -> None:
    """Open the database once, so that what is wrong with it is said in one line."""
    from sqlalchemy.exc import SQLAlchemyError

    from server.store import Store

    try:
        Store(database).close()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        typer.echo(f"samebits: cannot use the database: {lines[0]}", err=True)
        raise typer.Exit(2) from None


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(
        min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    database: Database = DATABASE,
    workers: Annotated[int, typer.Option(help="Worker processes; 0: one for each core.")] = 0,
    scheduler: Annotated[str, typer.Option(
        help="dask.distributed scheduler (tcp://HOST:PORT) in place of worker processes.")] = "",
    time_limit: Annotated[float, typer.Option(help="Seconds a kernel may take.")] = 60.0,
    memory_limit: Annotated[str, typer.Option(help="Memory a kernel may take.")] = "2G",
    body_limit: Annotated[str, typer.Option(help="Size of a request.")] = "64M",
    upload_limit: Annotated[str, typer.Option(help="Size of a sweep's request.")] = "256M",
    text_limit: Annotated[str, typer.Option(help="Size of one text.")] = "16M",
    line_limit: Annotated[int, typer.Option(help="Lines of one text.")] = 400_000,
    kernel_limit: Annotated[int, typer.Option(help="Kernels in a sweep.")] = 20_000,
    tokens: Annotated[Path | None, typer.Option(
        envvar="SAMEBITS_TOKENS", help="File of bearer tokens: lines `read,write TOKEN`.")] = None,
    rate: Annotated[float, typer.Option(help="Requests a second for each caller; 0: any.")] = 0.0,
    cors: Annotated[list[str] | None, typer.Option(
        help="Origin that may call from a browser; repeatable.")] = None,
    private_metrics: Annotated[bool, typer.Option(
        help="Let /metrics need a token, too.")] = False,
    drain: Annotated[float, typer.Option(help="Seconds to finish work when told to end.")] = 20.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve sign, compare and partition over HTTP, and the page at /."""
    from server.app import serve as run
    from server.settings import Settings

    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"no such log level: {log_level}")
    settings = Settings(
        database=database, workers=workers or os.cpu_count() or 1, scheduler=scheduler,
        time_limit_s=time_limit, memory_limit_bytes=_bytes(memory_limit),
        body_limit_bytes=_bytes(body_limit), upload_limit_bytes=_bytes(upload_limit),
        text_limit_bytes=_bytes(text_limit), text_limit_lines=line_limit,
        kernel_limit=kernel_limit, tokens=read_tokens(tokens) if tokens else {},
        rate_per_s=rate, cors_origins=tuple(cors or ()), public_metrics=not private_metrics,
        drain_s=drain)
    _try_database(database)
    try:
        run(settings, host, port, log_level=log_level)
    except OSError as error:
        typer.echo(f"samebits: cannot listen on {host}:{port}: {error.strerror}", err=True)
        raise typer.Exit(2) from None
