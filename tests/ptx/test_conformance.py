"""Instructions replayed bit for bit as a real GPU ran them (digests from tests/ptx/device)."""

from __future__ import annotations

import json

import pytest

from tests.ptx.device.conformance import VERIFIED, digest, inputs, replayed

CASES: dict[str, str] = json.loads(VERIFIED.read_text())
WORDS = inputs()


@pytest.mark.parametrize("text", list(CASES)[::5], ids=lambda t: t[-70:])
def test_replay_writes_what_the_gpu_wrote(text: str) -> None:
    words = replayed(text, WORDS)
    assert not isinstance(words, str), words
    assert digest(words) == CASES[text]
