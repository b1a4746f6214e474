"""gate check, update, diff, explain as commands: statuses and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("toy")
Run = Callable[..., Any]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def kernel(name: str, body: str) -> str:
    return f".target sm_90\n.entry {name}\n{body}\n"


def test_update_then_check(run: Run, write: Write) -> None:
    write("k/a__BLOCK=32.ptx", kernel("a", "load x"))
    result = run("gate", "update", "k")
    assert result.exit_code == 0
    assert result.output == "samebits.lock written: 1 kernels (1 new)\n"
    assert run("gate", "update", "k").output.startswith("samebits.lock unchanged")
    assert "config    BLOCK=32" in Path("samebits.lock").read_text()
    result = run("gate", "check", "k")
    assert result.exit_code == 0
    assert result.output == "same  1 unchanged  (samebits.lock)\n"


def test_missing_or_foreign_baseline_and_nothing_to_check_are_4(run: Run, write: Write) -> None:
    write("k/a.ptx", kernel("a", "load x"))
    result = run("gate", "check", "k")
    assert result.exit_code == 4
    assert "gate update --baseline samebits.lock" in result.stderr
    assert run("gate", "update", "k").exit_code == 0
    for paths in (["k/*.nothing"], [], ["empty"]):
        Path("empty").mkdir(exist_ok=True)
        result = run("gate", "check", *paths)
        assert result.exit_code == 4, paths
        assert "no kernel was checked" in result.stderr
        assert run("gate", "update", *paths).exit_code == 4
    write("samebits.lock", "schema 2\n")
    assert run("gate", "check", "k").exit_code == 4
    assert json.loads(run("gate", "check", "k", "--json").stdout)["error"]["type"] == "LockError"


def test_unreadable_input_is_3_and_updates_nothing(run: Run, write: Write) -> None:
    write("k/a.ptx", kernel("a", "load x"))
    write("k/b.ptx", kernel("b", "?!"))
    result = run("gate", "update", "k")
    assert result.exit_code == 3
    assert not Path("samebits.lock").exists()
    assert "k/b.ptx:3:1" in result.stderr
    Path("k/b.ptx").unlink()
    run("gate", "update", "k")
    assert run("gate", "check", "k/a.ptx", "missing.ptx").exit_code == 3


def test_wrong_usage_is_2(run: Run, write: Write) -> None:
    write("k/a.ptx", kernel("a", "load x"))
    run("gate", "update", "k")
    assert run("gate", "check", "k", "--format", "pdf").exit_code == 2
    assert run("gate", "check", "k", "--nope").exit_code == 2
    write("samebits.suppress.toml", "[[suppress]]\nkernel = 'a'\n")
    assert run("gate", "check", "k").exit_code == 2


def test_edits_that_matter_and_edits_that_do_not(run: Run, write: Write) -> None:
    write("k/a.ptx", kernel("a", "load x\nfma y\nstore z"))
    run("gate", "update", "k")
    write("k/a.ptx", kernel("a", "load x // renamed\n\nfma   y\nstore z"))
    assert run("gate", "check", "k").exit_code == 0
    write("k/a.ptx", kernel("a", "load x\nmul y\nadd y\nstore z"))
    result = run("gate", "check", "k")
    assert result.exit_code == 1
    assert result.output.startswith("drift  0 unchanged, 1 drift")


def test_a_subset_of_the_baseline(run: Run, write: Write) -> None:
    a = write("k/a.ptx", kernel("a", "load x"))
    write("k/b.ptx", kernel("b", "load y"))
    run("gate", "update", "k")
    assert run("gate", "check", a).exit_code == 1
    assert run("gate", "check", a, "--allow-missing").exit_code == 0
    a.write_text(kernel("a", "load z"))
    assert run("gate", "update", a, "--merge").output.endswith("2 kernels (1 drift)\n")
    assert run("gate", "check", "k").exit_code == 0


def test_diff_finds_the_old_text_on_this_machine_or_where_it_is_given(
    run: Run, write: Write
) -> None:
    write("old/a.ptx", kernel("a", "load x\nfold 32"))
    write("k/a.ptx", kernel("a", "load x\nfold 64"))
    run("gate", "update", "old", "--no-cache")
    result = run("gate", "diff", "k")
    assert result.exit_code == 1
    assert "--before" in result.output
    result = run("gate", "diff", "k", "--before", "old")
    assert "- fold 32  @4" in result.output
    assert "before old/a.ptx:4" in result.output
    assert "now    k/a.ptx:4" in result.output
    run("gate", "update", "old")
    assert "- fold 32  @4" in run("gate", "diff", "k").output
    data = json.loads(run("gate", "diff", "k", "--json").output)
    assert data["results"][0]["difference"]["reasons"][0]["line_b"] == 4
    assert run("gate", "diff", "old").output == "no difference\n"


def test_explain(run: Run, write: Write) -> None:
    write("k/a.ptx", kernel("a", "load x"))
    write("k/b.ptx", kernel("b", "load y"))
    run("gate", "update", "k")
    result = run("gate", "explain", "a")
    assert result.exit_code == 0
    assert "1 of 2 entries" in result.output
    assert "samebits.lock:6" in result.output
    assert "contraction  the assembler" in result.output
    write("k/a.ptx", kernel("a", "load z"))
    assert "+ load z" in run("gate", "explain", "a", "k").output
    assert run("gate", "explain", "zzz").exit_code == 2
    assert json.loads(run("gate", "explain", "a", "--json").output)["results"][0]["kernel"] == "a"
