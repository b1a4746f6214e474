"""kill -9 of a worker and of a server in the middle of a job loses nothing and repeats nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_helpers import Running

from server.store import digest_of

HERE = Path(__file__).parent


class Process:
    """A server in a process of its own."""

    def __init__(self, database: str, *words: str) -> None:
        # a pipe would fill up and block the server
        self.file = tempfile.TemporaryFile("w+b")  # noqa: SIM115
        path = os.pathsep.join([str(HERE), str(HERE.parent.parent)])
        self.child = subprocess.Popen(
            [sys.executable, str(HERE / "serve_toy.py"), database, *words],
            stderr=self.file, env={**os.environ, "PYTHONPATH": path})
        until = time.monotonic() + 30
        while not (told := [x for x in self.log() if x["message"] == "listening"]):
            assert self.child.poll() is None, os.pread(self.file.fileno(), 1 << 20, 0).decode()
            assert time.monotonic() < until
            time.sleep(0.05)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{told[0]['port']}", timeout=30)
        while True:
            try:
                if self.client.get("/readyz").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert time.monotonic() < until
            time.sleep(0.05)

    def end(self, number: int) -> int:
        self.child.send_signal(number)
        code = self.child.wait(40)
        self.client.close()
        return code

    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.child.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def log(self) -> list[dict[str, Any]]:
        text = os.pread(self.file.fileno(), 1 << 24, 0).decode()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def is_worker(pid: int) -> bool:
    try:
        return b"server.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def process(toy_count: Path) -> Iterator[Callable[..., Process]]:
    begun: list[Process] = []

    def begin(*words: str) -> Process:
        begun.append(Process(*words))
        return begun[-1]

    yield begin
    for one in begun:
        if one.child.poll() is None:
            one.child.kill()
            one.child.wait()


def texts(mark: str, count: int) -> list[str]:
    return [f"!sleep 0.08\nx = {mark} {n % 5}\n// {n}\n" for n in range(count)]


def body_of(sweep: list[str]) -> dict[str, Any]:
    return {"kernels": [{"name": f"k{n}", "text": text} for n, text in enumerate(sweep)]}


def examined(toy_count: Path, sweep: list[str]) -> list[int]:
    counted = Counter(toy_count.read_text().splitlines())
    return [counted[f"examine {digest_of(text)}"] for text in sweep]


def progress(client: httpx.Client, job_id: str, at_least: int) -> dict[str, Any]:
    until = time.monotonic() + 40
    while True:
        job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
        if job["done"] >= at_least or job["state"] == "done":
            return job
        assert time.monotonic() < until, job
        time.sleep(0.03)


def final(client: httpx.Client, job_id: str) -> dict[str, Any]:
    until = time.monotonic() + 40
    while True:
        job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
        if job["state"] in ("done", "failed", "cancelled"):
            return job
        assert time.monotonic() < until, job
        time.sleep(0.05)


def is_whole(job: dict[str, Any], count: int) -> None:
    assert job["state"] == "done", job
    assert job["done"] == job["total"] == count
    members = [m for c in job["result"]["classes"] for m in c["members"]]
    assert sorted(members) == sorted(f"k{n}" for n in range(count))
    assert len(job["result"]["classes"]) == 5
    assert job["result"]["errors"] == []


def test_killed_worker(
    start: Callable[..., Running], database: str, toy_count: Path,
) -> None:
    running = start(database=database)
    sweep = texts(f"worker {database[:4]}", 40)
    job_id = running.client.post("/v1/partition", json=body_of(sweep)).json()["id"]
    progress(running.client, job_id, 5)
    for pid in running.service.worker_pids():
        os.kill(pid, signal.SIGKILL)
    is_whole(final(running.client, job_id), 40)
    assert max(examined(toy_count, sweep)) <= 2
    assert sum(examined(toy_count, sweep)) <= 42
    assert "samebits_worker_restarts_total{why=\"died\"} 2.0" in running.client.get("/metrics").text


def test_killed_server(process: Callable[..., Process], database: str, toy_count: Path) -> None:
    first = process(database, "lease_s=1.0")
    sweep = texts(f"server {database[:4]}", 60)
    job_id = first.client.post("/v1/partition", json=body_of(sweep)).json()["id"]
    before = progress(first.client, job_id, 20)
    orphans = first.children()
    assert orphans, "no worker found"
    first.end(signal.SIGKILL)
    second = process(database, "lease_s=1.0")
    job = second.client.get(f"/v1/jobs/{job_id}").json()
    assert job["done"] >= before["done"], "progress was lost"
    is_whole(final(second.client, job_id), 60)
    # what was under way when the server died, and unflushed results, may be asked once more
    assert sum(examined(toy_count, sweep)) <= 60 + 8
    until = time.monotonic() + 10
    while any(is_worker(pid) for pid in orphans):
        assert time.monotonic() < until, "workers outlive their server"
        time.sleep(0.1)
    second.end(signal.SIGTERM)


def test_graceful_end_hands_back(
    process: Callable[..., Process], database: str, toy_count: Path,
) -> None:
    first = process(database)
    sweep = texts(f"graceful {database[:4]}", 60)
    job_id = first.client.post("/v1/partition", json=body_of(sweep)).json()["id"]
    progress(first.client, job_id, 10)
    with first.client.stream("GET", f"/v1/jobs/{job_id}/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        began = time.monotonic()
        assert first.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert time.monotonic() - began < 15
    assert any(line["message"] == "handed back" for line in first.log())
    second = process(database)
    is_whole(final(second.client, job_id), 60)
    assert set(examined(toy_count, sweep)) == {1}, "a graceful end must lose no work"
    second.end(signal.SIGTERM)


def test_two_servers_share_one_database(
    process: Callable[..., Process], postgres_database: str, toy_count: Path,
) -> None:
    one, two = (process(postgres_database, "lease_s=20.0") for _ in range(2))
    sweep = texts("both", 30)
    jobs = [c.client.post("/v1/partition", json=body_of(sweep)).json()["id"] for c in (one, two)]
    results = [final(two.client, jobs[0]), final(one.client, jobs[1])]
    for job in results:
        is_whole(job, 30)
    assert results[0]["result"] == results[1]["result"]
    assert set(examined(toy_count, sweep)) == {1}, "the servers did each other's work again"
    for server in (one, two):
        server.end(signal.SIGTERM)
