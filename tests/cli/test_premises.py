"""Every premise that the checker can name has a sentence."""

from __future__ import annotations

import re
from pathlib import Path

from checker.premises import PREMISES, explain

CHECKER = Path(__file__).resolve().parents[2] / "checker"
USED = re.compile(r"premises\.add\(\s*f?\"([a-z][a-z-]*)|premises \|=[^\n]*\{\"([a-z-]+)\"\}")


def test_every_premise_in_the_code_is_explained() -> None:
    used = {
        name for path in CHECKER.rglob("*.py") for pair in USED.findall(path.read_text())
        for name in pair if name
    }
    assert len(used) > 5
    assert not used - PREMISES.keys()


def test_details_follow_the_sentence() -> None:
    assert explain("divisible:n%16").endswith("as the compiler was told (n%16)")
    assert explain("nonsense") == ""
    assert explain("no-alias") == PREMISES["no-alias"]
