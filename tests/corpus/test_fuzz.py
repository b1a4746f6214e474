"""The fuzz campaign finds what is planted, and a first sample of it finds nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checker import api
from checker.results import Reason
from corpus.campaigns.fuzz import Job, damaged, judge
from corpus.load import load_set

SHORT = sorted((k for k in load_set("sm_90") if len(k.text) < 3000), key=lambda k: k.name)[:12]


def test_one_seed_gives_one_campaign() -> None:
    assert damaged(SHORT, 30, 5) == damaged(SHORT, 30, 5)
    assert damaged(SHORT, 30, 5) != damaged(SHORT, 30, 6)


def test_every_damage_damages() -> None:
    jobs = damaged(SHORT, 120, 1)
    assert len({j.damage for j in jobs}) >= 8
    assert sum(j.text != j.whole for j in jobs) > 110


def test_a_sample_is_refused_or_judged() -> None:
    for job in damaged(SHORT, 40, 3):
        found = judge(job)
        assert found.outcome in ("refused", "judged"), (job.damage, job.name, found)


def test_a_crash_and_a_false_equal_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {k.config["variant"]: k for k in load_set("sm_90") if k.family == "elementwise"}
    one, other = named["double"], named["div"]
    job = Job(one.name, "swap", "ptx", one.text, other.text, dict(one.launch))
    assert judge(job).outcome == "judged"

    real = api.compare(one.text, other.text)
    monkeypatch.setattr(api, "compare", lambda *a, **k: replace(real, kind="equal"))
    assert judge(job).outcome == "false equal"

    ours = (Reason("internal", "the walk failed: ValueError: x"),)
    caught = replace(real, signature_b=replace(real.signature_b, findings=ours))
    monkeypatch.setattr(api, "compare", lambda *a, **k: caught)
    assert judge(job).outcome == "crash"

    def crash(*a: object, **k: object) -> None:
        raise RecursionError("deep")

    monkeypatch.setattr(api, "compare", crash)
    assert judge(job).outcome == "crash"
