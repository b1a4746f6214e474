"""Settings: everything about the service that an operator may choose, in one frozen record.

In: command-line options (`checker.cli.serve`) or keyword arguments. Out: `Settings`.
Refuses nothing; values are validated where the command line reads them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

__all__ = ["Settings"]

MIB = 1 << 20


def _workers() -> int:
    return max(1, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Settings:
    """How one server process runs; sizes in bytes, times in seconds, as the names say.

    engine: module that provides `sign`, `compare`, `examine`, `classify`, `outline` (the checker).
    database: SQLAlchemy URL. scheduler: "" for the process pool, or a dask.distributed address.
    tokens: SHA-256 hex digest of a bearer token -> scopes ("read", "write"); empty: open to all.
    """

    engine: str = "checker.api"
    database: str = "sqlite:///samebits.sqlite"
    scheduler: str = ""
    workers: int = field(default_factory=_workers)

    time_limit_s: float = 60.0
    memory_limit_bytes: int = 2048 * MIB
    start_limit_s: float = 120.0
    remember_limits_s: float = 3600.0

    body_limit_bytes: int = 64 * MIB
    upload_limit_bytes: int = 256 * MIB
    text_limit_bytes: int = 16 * MIB
    text_limit_lines: int = 400_000
    kernel_limit: int = 20_000
    unpack_limit_bytes: int = 512 * MIB
    unpack_ratio: int = 200
    body_time_limit_s: float = 60.0
    wait_limit_s: float = 60.0

    running_jobs: int = 2
    queued_jobs: int = 1_000
    lease_s: float = 15.0
    poll_s: float = 1.0
    drain_s: float = 20.0

    tokens: dict[str, frozenset[str]] = field(default_factory=dict)
    rate_per_s: float = 0.0
    rate_burst: int = 50
    cors_origins: tuple[str, ...] = ()
    public_metrics: bool = True
    cache_bytes: int = 16 * MIB
