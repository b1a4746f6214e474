"""Every premise that the checker can name has a sentence."""

from __future__ import annotations

import re
from pathlib import Path

from checker.premises import PREMISES, explain

CHECKER = Path(__file__).resolve().parents[2] / "checker"
ADDED = re.compile(r"(?:premises|\bout)\.add\(\s*f?\"([a-z]+-[a-z-]*|launch|readable|contraction)")
JOINED = re.compile(r"\|= \{((?:\"[a-z-]+\"(?:, )?)+)\}|premises \| \{(\"[a-z-]+\")\}")


def test_every_premise_in_the_code_is_explained() -> None:
    texts = [path.read_text() for path in CHECKER.rglob("*.py")]
    used = {name for text in texts for name in ADDED.findall(text)}
    for text in texts:
        for many in JOINED.findall(text):
            used |= set(re.findall(r"[a-z-]+", " ".join(many)))
    assert {"launch", "no-alias"} <= used
    assert not used - PREMISES.keys()


def test_details_follow_the_sentence() -> None:
    assert explain("divisible:n%16").endswith("as the compiler was told (n%16)")
    assert explain("nonsense") == ""
    assert explain("no-alias") == PREMISES["no-alias"]


def test_the_document_has_the_sentences_of_the_code() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "verdicts.md").read_text()
    for code, sentence in PREMISES.items():
        assert f"| `{code}` | {sentence} |" in text
