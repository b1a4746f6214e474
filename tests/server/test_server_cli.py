"""`--server URL`: the same output and exit status as without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_helpers import Running, settings_for
from typer.testing import CliRunner

import checker
from checker.cli.app import app

EXAMPLES = Path(checker.__file__).parent.parent / "corpus" / "examples"
A, B, OTHER = (str(EXAMPLES / f"{name}.ptx") for name in ("figure4_a", "figure4_b", "twice_plus"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = Running(settings_for(
        tmp_path_factory.mktemp("cli"), engine="checker.api", time_limit_s=60.0,
        memory_limit_bytes=2 << 30))
    yield running.url
    running.stop()


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE", "off")


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    return result.exit_code, result.stdout


@pytest.mark.parametrize("words", [
    ["compare", A, B], ["compare", A, OTHER], ["sign", A, OTHER], ["partition", A, B, OTHER]])
def test_same_with_a_server(url: str, words: list[str]) -> None:
    status, here = run(*words, "--json")
    assert (status, here) == run(*words, "--json", "--server", url)
    assert json.loads(here)


def test_unreadable_and_unreachable(url: str, tmp_path: Path) -> None:
    torn = tmp_path / "torn.ptx"
    torn.write_text(Path(A).read_text()[:700])
    told: list[Any] = [run("compare", str(torn), B, "--json", *more)
                       for more in ([], ["--server", url])]
    assert told[0][0] == 4
    assert told[0] == told[1]
    status, _ = run("compare", A, B, "--server", "http://127.0.0.1:9")
    assert status == 2
