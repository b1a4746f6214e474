"""Random programs in many spellings: what an engine calls equal returns the same bits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from checker import api
from corpus.campaigns import algebra
from corpus.campaigns.algebra import Job, digest_of, judge, pairs, written
from corpus.campaigns.expressions import OPERATIONS, family, single
from corpus.load import DATA


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_spellings_of_one_operation(operation: str) -> None:
    """Each table holds spellings that are proved equal or differ; none is merged wrongly."""
    found = Counter(pair.fate for pair in pairs(single(operation)))
    assert not found["MERGED"]
    assert found["proved"] + found["apart"] + found["launch only"]
    assert not found["no bytes"]


def test_random_programs() -> None:
    found = Counter(pair.fate for number in range(12) for pair in judge(Job(f"7/{number}", 6)))
    assert not found["MERGED"]
    assert found["proved"] >= 20
    assert found["apart"] >= 10


def test_programs_are_the_same_every_time() -> None:
    assert family("1/2", 6) == family("1/2", 6)
    assert family("1/2", 6).texts != family("1/3", 6).texts


def test_a_false_identity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were all signatures one, the pairs that differ would be named, with an input."""
    sign = api.sign
    monkeypatch.setattr(algebra.api, "sign", lambda text: replace(sign(text), text="sb1-same"))
    merged = [p for p in pairs(single("neg")) if p.fate == "MERGED"]
    assert any("sub.rn.f32 {d}, 0f00000000" in p.spelled for p in merged)
    assert all(p.shown.startswith("static: ") and " of a " in p.shown for p in merged)


def test_a_gpu_wrote_the_same_words() -> None:
    """Digests of what an H200 wrote (`on_device`): the domain `bytes` writes the same."""
    stored = json.loads((DATA / "expressions_sm_90.json").read_text())
    assert len(stored) >= 300
    for name in sorted(stored)[::8]:
        seed, members = name.rsplit("/", 1)
        texts = family(seed, int(members))
        words = [written(api.program_of(text), texts.kinds) for text in texts.texts]
        assert [w is not None and digest_of(w) for w in words] == stored[name], name
