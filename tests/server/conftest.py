"""Fixtures: servers for the tests, on 127.0.0.1, each with a store of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
