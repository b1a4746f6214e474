"""Which engine a command asks: the checker in this process, or a service by `--server URL`.

In: the option's value. Out: something with `sign`, `compare`, `partition` and `kernels_in` as
`checker.api` has them.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

__all__ = ["Server", "engine_at"]

Server = Annotated[
    str,
    typer.Option(
        "--server", metavar="URL", envvar="SAMEBITS_SERVER",
        help="Ask the service at this URL (with the token in $SAMEBITS_TOKEN) instead.",
    ),
]


def engine_at(server: str) -> Any:
    """The client of a service, or, without a URL, `checker.api`."""
    if not server:
        from checker import api

        return api
    from checker.client import Client

    return Client(server, token=os.environ.get("SAMEBITS_TOKEN"))
