"""Random programs in many spellings: what an engine calls equal returns the same bits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from checker import api
from corpus.campaigns import algebra
from corpus.campaigns.algebra import Job, digest_of, judge, pairs, written
from corpus.campaigns.dialects import DIALECTS, TARGETS, Setting
from corpus.campaigns.expressions import family, single
from corpus.load import DATA
from tests.gcn.assembler import refused

OPERATIONS = [(isa, name) for isa, each in (("ptx", 1), ("gcn", 1), ("ptx-more", 5))
              for name in sorted(DIALECTS[isa].operations())[::each]]

#: the approximations of a unit have no bits: all that is divided here, one way to multiply
NO_BYTES = {("gcn", "div"), ("gcn", "mul"), ("gcn", "through_fp8")}


@pytest.mark.parametrize(("isa", "operation"), OPERATIONS)
def test_spellings_of_one_operation(isa: str, operation: str) -> None:
    """Each table holds spellings that are proved equal or differ; none is merged wrongly."""
    settings = (Setting("gfx942"), Setting("gfx1100")) if isa == "gcn" else ()
    found = Counter(pair.fate for pair in pairs(single(operation, isa, settings), isa))
    assert not found["MERGED"]
    assert found["proved"] + found["apart"] + found["launch only"] + found["no bytes"]
    if isa != "ptx-more":  # which refuses some
        assert bool(found["no bytes"]) == ((isa, operation) in NO_BYTES)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_spellings_assemble(target: str) -> None:
    operations = DIALECTS["gcn"].operations()
    texts = [text for name in sorted(operations) if operations[name].of(TARGETS[target])
             for text in single(name, "gcn", (Setting(target),)).texts]
    assert len(texts) > 500
    assert [text for text in texts if refused(text, target, whole=True)] == []


@pytest.mark.parametrize("isa", ["ptx", "ptx-more", "gcn"])
def test_random_programs(isa: str) -> None:
    found = Counter(pair.fate for number in range(12)
                    for pair in judge(Job(f"7/{number}", 6, isa)))
    assert not found["MERGED"]
    assert found["proved"] >= (8 if isa == "ptx-more" else 20)
    assert found["apart"] >= 10


@pytest.mark.parametrize("isa", ["ptx", "gcn"])
def test_no_program_computes_with_the_bits_of_a_float(isa: str) -> None:
    """Those of a NaN are anybody's: a difference in them would be no finding."""
    assert [name for name, found in DIALECTS[isa].operations().items()
            if found.result in {"r", "s"} and {"f", "h"} & set(found.takes)] == []


@pytest.mark.parametrize("isa", ["ptx", "gcn"])
def test_programs_are_the_same_every_time(isa: str) -> None:
    assert family("1/2", 6, isa) == family("1/2", 6, isa)
    assert family("1/2", 6, isa).texts != family("1/3", 6, isa).texts


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
