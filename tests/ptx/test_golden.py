"""Every row against its golden listing: PTX text in, core operations out."""

from __future__ import annotations

import pytest

from checker.ptx.context import ROWS
from checker.ptx.rows import register_all
from tests.ptx.lowering import GOLDEN, blocks, listing

CASES = [(path.stem, text, expected) for path in sorted(GOLDEN.glob("*.txt"))
         for text, expected in blocks(path)]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in CASES],
                         ids=[f"{c[0]}:{c[1][:60]}" for c in CASES])
def test_golden(text: str, expected: list[str]) -> None:
    assert listing(text) == expected


def test_every_row_has_a_golden_case() -> None:
    register_all()
    opcodes = [word.rstrip(";") for _, text, _ in CASES for word in text.split()]
    missing = [name for name in ROWS
               if not any(o == name or o.startswith(name + ".") for o in opcodes)]
    assert not missing


def test_golden_opaque_is_only_in_the_opaque_file() -> None:
    for stem, text, expected in CASES:
        opaque = any(" opaque " in f" {line} " for line in expected)
        assert opaque == (stem == "opaque"), text
