"""A text with thousands of kernels costs each of them what it costs alone."""

from __future__ import annotations

import sys
from collections import Counter
from functools import lru_cache
from types import FrameType
from typing import Any

import pytest

from checker import kernel as kernels
from checker.errors import InputError
from checker.lower import lower
from checker.parse import parse
from checker.results import KernelInput
from checker.sweep import examine
from tests.ptx.lowering import HEADER

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def many(count: int) -> str:
    """A text with so many kernels."""
    return HEAD + "".join(f".entry k{i}() {{ ret; }}\n" for i in range(count))


def events(run: Any) -> int:
    """Count the calls of Python functions, generator steps included."""
    calls: Counter[str] = Counter()

    def note(_frame: FrameType, event: str, _what: Any) -> None:
        calls[event] += 1

    run()  # whatever is loaded or remembered at first
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls["call"]


def test_lowering_one_kernel_looks_at_no_other() -> None:
    few, lots = parse(many(3)), parse(many(300))
    assert events(lambda: lower(lots, "k1")) == events(lambda: lower(few, "k1"))


def test_a_text_is_read_once_for_all_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def read(text: str, **options: Any) -> Any:
        reads.append(text)
        return parse(text, **options)

    monkeypatch.setattr(kernels, "_parse", lru_cache(maxsize=2)(read))
    text = many(5)
    for i in range(5):
        examine(KernelInput(f"file:k{i}", text, kernel=f"k{i}"))
    assert len(reads) == 1


def test_errors_name_the_file_that_was_asked_about() -> None:
    wrong = HEADER + "x: x: ret;\n}\n"
    for file in ("one.ptx", "two.ptx"):
        with pytest.raises(InputError, match=rf"{file}:\d+:\d+: `x` is declared twice"):
            kernels.program_of(wrong, file=file)
