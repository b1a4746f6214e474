"""Fixtures: servers for the tests, on 127.0.0.1, each with a store of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import postgres
import pytest
from service_helpers import Running, settings_for


@pytest.fixture(scope="session")
def toy_count(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("toy") / "count"
    path.touch()
    os.environ["TOY_COUNT"] = str(path)
    return path


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory, toy_count: Path,
) -> Iterator[Running]:
    """One server for all tests that leave nothing behind that another could trip over."""
    running = Running(settings_for(tmp_path_factory.mktemp("shared")))
    yield running
    running.stop()


@pytest.fixture
def start(tmp_path: Path, toy_count: Path) -> Iterator[Callable[..., Running]]:
    """Starts servers with settings of their own."""
    with contextlib.ExitStack() as stack:
        def begin(**changes: Any) -> Running:
            running = Running(settings_for(tmp_path, **changes))
            stack.callback(running.stop)
            return running
        yield begin


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL of this test run; `.ci/run` installs Debian's package."""
    if postgres.binaries() is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="no psycopg here: pip install samebits[postgres]")
    with postgres.running(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/own.sqlite"
    url: str = request.getfixturevalue("postgres_database")
    return url


@pytest.fixture
def postgres_database(postgres_url: str) -> str:
    """URL of an empty PostgreSQL database."""
    name = f"t{secrets.token_hex(6)}"
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f"create database {name}")
    return postgres_url.rpartition("/")[0] + f"/{name}"
