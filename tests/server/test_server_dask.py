"""dask.distributed in place of the process pool: same results, same limits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import free_port
from service_helpers import Running

pytest.importorskip("distributed", reason="no dask here: pip install samebits[dask]")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def scheduler(toy_count: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler and two worker processes."""
    folder = tmp_path_factory.mktemp("dask")
    address = f"tcp://127.0.0.1:{free_port()}"
    path = os.pathsep.join([str(HERE), str(HERE.parent.parent)])
    env = {**os.environ, "PYTHONPATH": path, "DASK_TEMPORARY_DIRECTORY": str(folder)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": (folder / "log").open("wb"), "env": env}
    python = [sys.executable, "-m"]
    begun = [subprocess.Popen([
        *python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port",
        address.rpartition(":")[2], "--no-dashboard"], **quiet)]  # type: ignore[call-overload]
    for _ in range(2):
        begun.append(subprocess.Popen([
            *python, "distributed.cli.dask_worker", address, "--nthreads", "1", "--host",
            "127.0.0.1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)],
            **quiet))  # type: ignore[call-overload]
    import distributed
    with distributed.Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
    yield address
    for one in reversed(begun):
        one.kill()
        one.wait()


def partition(running: Running, kernels: list[dict[str, Any]]) -> Any:
    answer = running.client.post(
        "/v1/partition", json={"kernels": kernels}, headers={"Prefer": "wait=50"})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def test_same_partition_as_the_pool(
    scheduler: str, start: Callable[..., Running], shared: Running, tmp_path: Path,
) -> None:
    on_dask = start(scheduler=scheduler, database=f"sqlite:///{tmp_path}/dask.sqlite")
    kernels = [{"name": f"k{n}", "text": f"x = dask {n % 4}\n// {n}\n", "config": {"n": n}}
               for n in range(24)]
    kernels += [{"name": "bad", "text": "!error 1 1\n"},
                {"name": "slow", "text": "!spin 30\nx = 1\n"},
                {"name": "large", "text": "!memory\nx = 1\n"}]
    began = time.monotonic()
    assert partition(on_dask, kernels) == partition(shared, kernels)
    assert time.monotonic() - began < 40
    answer = on_dask.client.post("/v1/sign", json={"text": "!die\nx = 1\n"})
    assert answer.json()["type"] == "urn:samebits:problem:worker-died"
    assert on_dask.client.post("/v1/sign", json={"text": "x = after\n"}).status_code == 200
    assert on_dask.client.get("/readyz").status_code == 200
