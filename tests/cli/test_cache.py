"""The answer store: hits, keys, damage, concurrency, size."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from checker.cache import Cache, default_path, signature_from_json
from checker.errors import InputError
from checker.results import Reason
from tests import toy_engine

TEXT = ".entry k\nload x\nopaque foo bar\nrace\n"


def test_a_signature_survives_the_round_trip(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    first = cache.sign(TEXT, sign=toy_engine.sign)
    again = cache.sign(TEXT, sign=None.__class__)  # type: ignore[arg-type]
    assert again == first
    assert signature_from_json(first.to_json()) == first
    assert (cache.counters.hits, cache.counters.misses) == (1, 1)


def test_every_part_of_the_question_is_in_the_key() -> None:
    keys = {
        Cache.key("sign", "text", None, None), Cache.key("sign", "text", "ptx", None),
        Cache.key("sign", "text", None, "ptx"), Cache.key("tree", "text", None, None),
        Cache.key("sign", "text ", None, None), Cache.key("sign", "text", None),
    }
    assert len(keys) == 6


def test_the_key_changes_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from checker.cache import store

    before = Cache.key("sign", "text")
    monkeypatch.setattr(store, "build", lambda: "other code")
    assert Cache.key("sign", "text") != before


def test_a_build_is_its_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of the code, its size and time as before, makes another build."""
    from checker import build as module

    root = tmp_path / "checker"
    root.mkdir()
    monkeypatch.setattr(module, "__file__", str(root / "build.py"))
    found = []
    for code in ("x = 1", "x = 2", "x = 1"):
        (root / "tree.py").write_text(code)
        os.utime(root / "tree.py", (1, 1))
        found.append(module.build.__wrapped__())
    assert found[0] == found[2] != found[1]


def test_a_signature_cut_short_by_time_is_not_stored(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    late = Reason("fuel", "limit reached: time")
    for _ in range(2):
        cache.sign(TEXT, sign=lambda *a, **k: replace(toy_engine.sign(TEXT), findings=(late,)))
    assert cache.counters.hits == 0


def test_errors_are_not_stored(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite")
    for _ in range(2):
        with pytest.raises(InputError):
            cache.sign("?!", sign=toy_engine.sign)
    assert cache.counters.hits == 0


@pytest.mark.parametrize("damage", [b"", b"not a database at all", b"SQLite format 3\0garbage"])
def test_a_damaged_or_unwritable_store_is_no_store(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(damage)
    cache = Cache(path)
    assert cache.sign(TEXT, sign=toy_engine.sign) == toy_engine.sign(TEXT)
    blocked = Cache(tmp_path / "c.sqlite" / "below-a-file")
    assert blocked.sign(TEXT, sign=toy_engine.sign) == toy_engine.sign(TEXT)
    assert blocked.trim() == 0


def test_off_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE", "off")
    assert default_path() is None


def test_concurrent_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checker.cache import store

    monkeypatch.setattr(store, "build", lambda: "fixed")  # the code may be edited meanwhile
    code = (
        "import sys; from pathlib import Path; from checker.cache import store as cache\n"
        "cache.build = lambda: 'fixed'\n"
        "c = cache.Cache(Path(sys.argv[1]))\n"
        "for i in range(60):\n"
        "    assert c.ask('n', (i,), lambda: {'i': i}) == {'i': i}\n"
        "assert c.path is not None\n"
    )
    path = tmp_path / "deep" / "c.sqlite"
    many = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    assert [process.wait(timeout=90) for process in many] == [0] * 3
    cache = Cache(path)
    assert cache.get(Cache.key("n", 59)) == {"i": 59}


def test_the_store_keeps_to_its_size(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "c.sqlite", max_bytes=1000)
    for i in range(50):
        cache.put(Cache.key("n", i), "n", "x" * 98)
    assert cache.trim() == 40
    assert cache.trim() == 0
