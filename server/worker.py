"""Worker process: runs one engine call at a time for `server.pool`, under a memory limit.

In: (function, arguments) pickled over an inherited socket. Out: ("value", result),
("error", exception) or ("progress", numbers) messages. Ends itself when the server is gone.
Started as `python -m server.worker FD MEMORY_BYTES PARENT_PID [MODULE...]`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["main", "report_progress"]

_report: Callable[[int, int], None] | None = None


def report_progress(done: int, total: int) -> None:
    """Tell the server how far the running call has come; does nothing outside a worker."""
    if _report is not None:
        _report(done, total)


def _limit_memory(limit_bytes: int) -> None:
    """Cap the address space at what the imports took plus the limit for one call."""
    if limit_bytes <= 0:
        return
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + limit_bytes, hard))


def _watch_parent(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(1.0)
    os._exit(3)


def _serve(conn: Connection) -> None:
    global _report

    def progress(done: int, total: int) -> None:
        conn.send(("progress", (done, total)))

    _report = progress
    conn.send(("ready", os.getpid()))
    while True:
        try:
            function, args = conn.recv()
        except (EOFError, OSError):
            return
        try:
            message: tuple[str, Any] = ("value", function(*args))
        except MemoryError:
            message = ("memory", None)
        except BaseException as error:
            message = ("error", error)
        try:
            conn.send(message)
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:
            conn.send(("error", RuntimeError(f"{type(error).__name__} while answering: {error}")))
        if message[0] == "memory":
            return
        del message
        gc.collect(0)


def main() -> None:
    """Import the modules named on the command line, then answer calls until the socket closes."""
    fd, limit_bytes, parent_pid = (int(word) for word in sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_watch_parent, args=(parent_pid,), daemon=True).start()
    conn = Connection(fd)
    for name in sys.argv[4:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _limit_memory(limit_bytes)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(conn)


if __name__ == "__main__":
    # the module that pickled functions refer to must be this one, not a second copy
    importlib.import_module("server.worker").main()
