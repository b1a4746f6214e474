"""Small forms of the campaigns, and that a blinded checker does not pass them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from checker import api
from corpus.campaigns import cross, morph, mutate
from corpus.campaigns.common import kernels, spread
from corpus.load import CorpusKernel

SMALL = r"^(elementwise|activation|rope|embedding-|reductions\.row_sum_(f32|tree))"


def _small(count: int, isa: str = "ptx") -> list[CorpusKernel]:
    found = kernels(isa, ("sm_90",) if isa == "ptx" else (), SMALL)
    return spread(sorted(found, key=lambda k: len(k.text)), count)


BOTH = [*_small(5), *_small(5, "gcn")]


def _mutation(kernel: CorpusKernel, count: int) -> mutate.Job:
    return mutate.Job(kernel.name, kernel.text, kernel.isa, (dict(kernel.launch),), count, 7)


@pytest.mark.parametrize("kernel", BOTH, ids=lambda k: k.name)
def test_no_mutant_survives(kernel: CorpusKernel) -> None:
    outcome = mutate.judge(_mutation(kernel, 8))
    fates = Counter(fate for (_, fate), n in outcome.counts.items() for _ in range(n))
    assert not outcome.findings
    assert fates["caught"] > 0


def test_a_blind_checker_lets_mutants_live(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _small(1)[0]
    blind = replace(api.sign(kernel.text), text="sb1-blind", modelled=True)
    mutate._base.cache_clear()
    monkeypatch.setattr(api, "sign", lambda *a, **k: blind)
    found = mutate.judge(_mutation(kernel, 20)).findings
    mutate._base.cache_clear()
    assert found


@pytest.mark.parametrize("kernel", BOTH, ids=lambda k: k.name)
def test_rewrites_move_no_signature(kernel: CorpusKernel) -> None:
    fates = morph.judge(morph.Job(kernel.name, kernel.text, kernel.isa, 12, 3))
    assert fates
    assert [(f.rewrite, f.why) for f in fates if f.fate != "kept"] == []


def test_equal_signatures_replay_to_equal_maps() -> None:
    seen: dict[tuple[str, str], set[str]] = {}
    for kernel in kernels("ptx", ("sm_90",), r"^(rope|reductions\.row_sum_tree)"):
        job = cross.Job(kernel.name, kernel.text, kernel.isa, (dict(kernel.launch),))
        text, modelled, maps = cross.judge(job)
        assert modelled
        for launch, digest in maps.items():
            assert not digest.startswith("finding")
            seen.setdefault((text, launch), set()).add(digest)
    assert seen
    assert all(len(digests) == 1 for digests in seen.values())
