from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import checker
from tests import toy_engine


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put the toy engine in the place of `checker.api`, with a cache of its own."""
    module = toy_engine.module()
    monkeypatch.setitem(sys.modules, "checker.api", module)
    monkeypatch.setattr("checker.cache.worker.by_replay", toy_engine.examine)
    monkeypatch.setattr(checker, "api", module, raising=False)
    monkeypatch.setenv("SAMEBITS_CACHE", str(tmp_path / "cache.sqlite"))
    monkeypatch.setenv("SAMEBITS_JOBS", "0")  # workers would have the real engine


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the command line: `run("sign", path)`."""
    from checker.cli.app import app

    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file below the test's folder and return its path."""

    def put(name: str, text: str | dict[str, Any]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return put
