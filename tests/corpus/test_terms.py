"""Random terms: what one name is given to has one set of bits, in both engines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checker.core import FloatMode
from checker.tree.nodes import Node
from checker.tree.rules import Floats
from corpus.campaigns.common import Options
from corpus.campaigns.terms import Job, campaign, judge, recipe


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Callable[[int], int]:
    """The campaign in this process, findings in a folder of its own."""
    monkeypatch.setattr("corpus.campaigns.common.FINDINGS", tmp_path)
    monkeypatch.setattr("corpus.campaigns.terms.each", lambda _label, work, jobs, _options: (
        (job, work(job)) for job in jobs))
    return lambda count: campaign(Options(count=count, seed=3))


def test_terms_of_one_name_have_one_set_of_bits(run: Callable[[int], int]) -> None:
    assert run(600) == 0


def test_terms_are_the_same_every_time() -> None:
    assert recipe("1/2") == recipe("1/2")
    assert recipe("1/2") != recipe("1/3")
    assert judge(Job("1", 20)) == judge(Job("1", 20))


def test_a_false_identity_is_found(run: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
                                   ) -> None:
    """x + 0 = x, which -0 is not."""
    before = Floats._fadd

    def fadd(self: Floats, mode: FloatMode, args: list[Node], plain: bool) -> Node | None:
        zero = [self.literal(a) == 0 for a in args]
        return args[zero[0]] if any(zero) else before(self, mode, args, plain)

    monkeypatch.setattr(Floats, "_fadd", fadd)
    assert run(1000) == 1
