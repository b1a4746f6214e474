"""A PostgreSQL server for tests, on 127.0.0.1, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


def binaries() -> Path | None:
    """Folder of initdb and postgres, or None."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start a server with its data below the folder; yields an SQLAlchemy URL."""
    place = binaries()
    assert place is not None
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    data = folder / "data"
    data.mkdir()
    shutil.chown(data, user)
    for parent in [folder, *folder.parents]:
        if os.getuid() == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    switch = {"user": user} if os.getuid() == 0 else {}
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [place / "initdb", "-D", data, "-U", "samebits", "-A", "trust", "-E", "UTF8", "-N"],
        check=True, stdout=subprocess.DEVNULL, env=env, **switch)
    port = free_port()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [place / "postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1",
             "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB"],
            stdout=log, stderr=log, env=env, **switch)
    url = f"postgresql://samebits@127.0.0.1:{port}/postgres"
    try:
        _await(url, server)
        yield url
    finally:
        server.send_signal(2)
        server.wait(30)


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    until = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            assert server.poll() is None, "PostgreSQL ended"
            assert time.monotonic() < until
            time.sleep(0.1)
