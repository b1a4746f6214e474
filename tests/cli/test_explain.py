"""What `compare` says of a pair that is not equal: code, orders in words, what to do next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.describe import descriptor, differences
from tests.figure4 import listing

Run = Callable[..., Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "corpus" / "examples"
AFTER, BEFORE = EXAMPLES / "scale_after.ptx", EXAMPLES / "scale_before.ptx"
LAUNCH = EXAMPLES / "scale.launch.json"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE", "off")


def test_reasons_show_the_code_and_the_orders(run: Run) -> None:
    out = run("compare", AFTER, BEFORE).output
    assert f"{AFTER}:30\n         mul.rn.f32 %f8, %f1, %f2;" in out
    words = out[out.index("in words"):out.index("next")]
    assert "store to arg2, epilogue" in words
    assert "a  fmul f32.rn.keep.num(0x3dcccccd, fmul" in words
    assert "b  fmul f32.rn.keep.num(fmul f32.rn.keep.num(0x3dcccccd" in words
    assert "give launch facts, --launch" in out


def test_with_launch_facts_none_are_asked_for(run: Run) -> None:
    out = run("compare", AFTER, BEFORE, "--launch", LAUNCH).output
    assert out.startswith("unequal")
    assert "give launch facts" not in out
    assert "in words" in out


def test_equal_kernels_need_no_explanation(run: Run) -> None:
    out = run("compare", AFTER, AFTER).output
    assert "in words" not in out
    assert "next" not in out


def test_kernels_that_equal_nothing_are_not_sent_on(run: Run) -> None:
    atomics = EXAMPLES / "atomics.ptx"
    out = run("compare", atomics, atomics).output
    assert "nondeterministic" in out
    assert "next" not in out


def test_the_line_of_the_source_is_shown_where_it_lies(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "k.py"
    source.write_text("first\nscaled = x * w\n")
    debug = f'.file 1 "{source}"\n'
    files = []
    for path in (AFTER, BEFORE):
        text = path.read_text().replace("    mul.rn.f32 %f8", "    .loc 1 2 9\n    mul.rn.f32 %f8")
        files.append(tmp_path / path.name)
        files[-1].write_text(text + debug)
    assert "k.py:2  scaled = x * w" in run("compare", *files).output
    source.unlink()
    assert "scaled" not in run("compare", *files).output.replace("scaled  sb1", "")


def test_words_that_differ_are_named_by_place() -> None:
    a, b = listing(64), listing(64).replace("add.rn.f32", "add.rz.f32")
    rows = differences(descriptor(a), descriptor(b))
    assert [(row.place, row.a, row.b) for row in rows] == [
        ("store to arg1, R1 sum: merge", "f32.rn.keep.num", "f32.rz.keep.num")]
    assert differences(descriptor(a), descriptor(listing(32))) == []
