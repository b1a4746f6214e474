"""Files and databases that are named and cannot be used: one line, status 2, no work before it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Write = Callable[..., Path]

KERNEL = ".entry one\nload x\nadd x y\nstore z\n"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("command", [
    ["partition", "KERNEL", "-o", "PLACE"],
    ["gate", "update", "KERNEL", "--baseline", "PLACE"],
    ["gate", "check", "KERNEL", "--baseline", "LOCK", "--report", "junit=PLACE"],
], ids=lambda words: words[-2])
@pytest.mark.parametrize("missing", [True, False])
def test_what_cannot_be_written_is_said_first(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str],
    missing: bool,
) -> None:
    place = tmp_path / "no" / "where.x" if missing else tmp_path / "folder"
    if not missing:
        place.mkdir()
    kernel, lock = write("k.ptx", KERNEL), tmp_path / "samebits.lock"
    assert run("gate", "update", kernel, "--baseline", lock).exit_code == 0
    monkeypatch.setattr("checker.cache.Examiner.submit", None)  # nothing may be examined
    names = {"KERNEL": str(kernel), "PLACE": str(place), "LOCK": str(lock)}
    words = [names.get(word, word.replace("PLACE", str(place))) for word in command]
    result = run(*words)
    folder_as_baseline = "update" in command and not missing
    assert result.exit_code == (4 if folder_as_baseline else 2), result.output
    assert str(place) in result.stderr
    assert "defect" not in result.stderr


@pytest.mark.usefixtures("toy")
def test_a_baseline_that_is_no_text(run: Run, write: Write, tmp_path: Path) -> None:
    lock = tmp_path / "samebits.lock"
    lock.write_bytes(bytes(range(128, 256)))
    kernel = write("k.ptx", KERNEL)
    for command in ("check", "update", "diff", "explain"):
        words = ["one", kernel] if command == "explain" else [kernel]
        result = run("gate", command, *words, "--baseline", lock)
        assert result.exit_code == 4, result.output
        assert "cannot be read" in result.stderr
    assert lock.read_bytes() == bytes(range(128, 256))


@pytest.mark.parametrize("options", [
    ["--database", "nonsense"], ["--database", "sqlite:////no/where/x.sqlite"],
    ["--tokens", "/no/where"], ["--port", "99999"], ["--time-limit", "soon"],
    ["--body-limit", "much"],
], ids=lambda words: words[-1])
def test_a_service_that_cannot_start_says_why(run: Run, options: list[str]) -> None:
    result = run("serve", *options)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert 0 < len(result.stderr.splitlines()) < 8
