"""Load on the service, from this machine on loopback: requests per second and percentiles.

    python -m corpus.bench.load                          # starts a server of its own
    python -m corpus.bench.load --url http://127.0.0.1:8080 --clients 1 8 64 --seconds 10
    python -m corpus.bench.load --memory 50000           # memory of the server over cached requests
    python -m corpus.bench.load --sweep 1000             # a partition of real kernels, twice
    python -m corpus.bench.load --url http://127.0.0.1:8080 --sweep 1000   # the same, any server

Cached requests repeat a few pairs; uncached ones carry a comment that no request had before. Every
stage is bounded in time; any status but 200 is an error and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

_SERVE = (
    "import sys; from server.app import serve; "
    "from server.settings import Settings; "
    "serve(Settings(database=sys.argv[1], workers=int(sys.argv[3]), "
    "time_limit_s=float(sys.argv[4])), port=int(sys.argv[2]), "
    "log_level='warning')"
)


@dataclass(slots=True)
class Stage:
    """Times of one stage's requests, in seconds."""

    name: str
    clients: int
    times: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    def row(self) -> str:
        """One line of the table."""
        ordered = sorted(self.times) or [0.0]
        points = [ordered[min(len(ordered) - 1, int(len(ordered) * p))] * 1000
                  for p in (0.5, 0.9, 0.99)]
        rate = len(self.times) / self.wall_s if self.wall_s else 0.0
        shown = "".join(f"{p:10.2f}" for p in (*points, ordered[-1] * 1000))
        return (f"{self.name:<9}{self.clients:>8}{len(self.times):>10}{rate:>10.1f}{shown}"
                f"{len(self.errors):>8}")


HEADER = (f"{'compare':<9}{'clients':>8}{'requests':>10}{'req/s':>10}{'p50 ms':>10}{'p90 ms':>10}"
          f"{'p99 ms':>10}{'max ms':>10}{'errors':>8}")


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes,
) -> tuple[int, bytes]:
    """One request on a kept connection; a client this small does not hide the server's speed."""
    writer.write(b"POST /v1/compare HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                 b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
    writer.write(body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


async def _client(
    address: tuple[str, int], bodies: Iterator[bytes], stage: Stage, until: float, left: list[int],
) -> None:
    reader, writer = await asyncio.open_connection(*address, limit=1 << 24)
    try:
        while time.monotonic() < until and left[0] > 0:
            left[0] -= 1
            body = next(bodies)
            began = time.perf_counter()
            status, answer = await _post(reader, writer, body)
            stage.times.append(time.perf_counter() - began)
            if status != 200:
                stage.errors.append(f"{status}: {answer[:200]!r}")
    except (OSError, asyncio.IncompleteReadError) as error:
        stage.errors.append(f"{type(error).__name__}: {error}")
    finally:
        writer.close()


async def run_stage(
    address: tuple[str, int], name: str, clients: int, bodies: Iterator[bytes], seconds: float,
    requests: int = 10**9,
) -> Stage:
    """Run `clients` connections for at most this long and this many requests."""
    stage, left = Stage(name, clients), [requests]
    began = time.monotonic()
    await asyncio.gather(*(
        _client(address, bodies, stage, began + seconds, left) for _ in range(clients)))
    stage.wall_s = time.monotonic() - began
    return stage


def pairs() -> list[tuple[str, str]]:
    """Pairs of real kernels, neighbours of one family in the committed sets, shortest first."""
    from corpus.load import load_set, sets

    found: list[tuple[str, str]] = []
    for name in sets():
        kernels = sorted(load_set(name), key=lambda k: len(k.text))
        for one, two in itertools.pairwise(kernels):
            if one.family == two.family and len(two.text) < 20_000:
                found.append((one.text, two.text))
    return sorted(found, key=lambda p: len(p[0]) + len(p[1]))


def cached_bodies(some: list[tuple[str, str]]) -> Iterator[bytes]:
    """The same few requests over and over."""
    made = [json.dumps({"a": {"text": a}, "b": {"text": b}}).encode() for a, b in some[:16]]
    return itertools.cycle(made)


def fresh_bodies(some: list[tuple[str, str]]) -> Iterator[bytes]:
    """Requests that were never made before."""
    mark = f"{os.getpid()}-{time.time_ns()}"
    for number, (a, b) in enumerate(itertools.cycle(some)):
        note = f"// {mark}-{number}\n"
        yield json.dumps({"a": {"text": note + a}, "b": {"text": note + b}}).encode()


@contextmanager
def own_server(workers: int, time_limit_s: float) -> Iterator[tuple[str, int]]:
    """A server on a free port with an empty store; yields its URL and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen([
            sys.executable, "-c", _SERVE, f"sqlite:///{folder}/load.sqlite", str(port),
            str(workers), str(time_limit_s)])
        url = f"http://127.0.0.1:{port}"
        try:
            _await(url, child)
            yield url, child.pid
        finally:
            child.terminate()
            child.wait(60)


def _await(url: str, child: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if child.poll() is not None:
            raise SystemExit("the server did not start")
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server is not ready")


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def _memory(address: tuple[str, int], pid: int, count: int) -> bool:
    """Print the server's memory over `count` cached requests; True when it stays flat."""
    bodies = cached_bodies(pairs())
    readings: list[float] = []
    for part in range(10):
        stage = await run_stage(address, "cached", 8, bodies, 600, count // 10)
        readings.append(resident_mib(pid))
        print(f"{(part + 1) * count // 10:>8} requests: {readings[-1]:7.1f} MiB, "
              f"{len(stage.times) / stage.wall_s:.0f} req/s, {len(stage.errors)} errors")
        if stage.errors:
            return False
    grown = readings[-1] - readings[1]
    print(f"growth after the first fifth: {grown:+.1f} MiB")
    return grown < 16


async def _stages(address: tuple[str, int], clients: list[int], seconds: float) -> bool:
    some = pairs()
    if not some:
        raise SystemExit("no kernel sets in corpus/data")
    fresh, repeated = fresh_bodies(some), cached_bodies(some)
    await run_stage(address, "warm", 1, repeated, 120, 16)
    print(f"{len(some)} pairs of kernels\n{HEADER}")
    good = True
    for name, bodies in (("cached", repeated), ("uncached", fresh)):
        for count in clients:
            stage = await run_stage(address, name, count, bodies, seconds)
            print(stage.row(), flush=True)
            good &= not stage.errors
            for text in stage.errors[:3]:
                print(f"  {text}")
    return good


def _sweep(url: str, count: int) -> bool:
    """Partition the shortest real kernels twice, following events; True at 50 times the speed.

    A server that has answers already needs an empty store for the first turn to mean anything.
    """
    from checker.client import Client
    from checker.results import KernelInput
    from corpus.load import load_set, sets

    kernels = [
        KernelInput(f"{name}/{k.name}", k.text, isa=k.isa, config=dict(k.config["knobs"]))
        for name in sets() for k in load_set(name)]
    kernels = sorted(kernels, key=lambda k: len(k.text))[:count]
    seconds: list[float] = []
    results = []
    with Client(url, timeout_s=600) as client:
        for turn in ("first", "again"):
            seen = {"progress": 0, "class": 0, "end": 0}
            began = time.monotonic()
            job = client.submit(kernels)
            for event, data in client.events(job.id):
                seen[event] += 1
                if event == "end":
                    results.append(data["result"])
            seconds.append(time.monotonic() - began)
            classes = len(results[-1]["classes"]) if results[-1] else 0
            print(f"{turn}: {len(kernels)} kernels in {seconds[-1]:.2f} s, {classes} classes, "
                  f"{len(results[-1]['errors'])} errors, {seen['progress']} progress and "
                  f"{seen['class']} class events", flush=True)
    ratio = seconds[0] / seconds[1]
    print(f"from the cache: {ratio:.0f} times faster; same result: {results[0] == results[1]}")
    return ratio >= 50 and results[0] == results[1]


def main() -> int:
    """Run the stages; exit status 1 when there was an error."""
    parser = argparse.ArgumentParser(prog="corpus.bench.load", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a running server on this machine; default: an own one")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each stage")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", type=int, metavar="REQUESTS",
                        help="watch the own server's memory over this many cached requests")
    parser.add_argument("--sweep", type=int, metavar="KERNELS",
                        help="partition this many real kernels, twice")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a kernel")
    asked = parser.parse_args()
    if asked.url:
        parts = urlsplit(asked.url)
        if parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            parser.error("load goes to this machine only")
        if asked.memory:
            parser.error("--memory watches a server of its own; leave out --url")
        if asked.sweep:
            return 0 if _sweep(asked.url, asked.sweep) else 1
        address = (str(parts.hostname), int(parts.port or 80))
        return 0 if asyncio.run(_stages(address, asked.clients, asked.seconds)) else 1
    with own_server(asked.workers, asked.time_limit) as (url, pid):
        address = ("127.0.0.1", int(urlsplit(url).port or 0))
        if asked.sweep:
            return 0 if _sweep(url, asked.sweep) else 1
        if asked.memory:
            return 0 if asyncio.run(_memory(address, pid, asked.memory)) else 1
        return 0 if asyncio.run(_stages(address, asked.clients, asked.seconds)) else 1


if __name__ == "__main__":
    sys.exit(main())
