"""The baseline's text: round trip, order, damage."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checker.gate.lockfile import Entry, LockError, config_text, dump, load


def entry(kernel: str = "gemm", config: str = "BLOCK_K=32", signature: str = "sb1-a", **more: str
          ) -> Entry:
    base = {
        "target": "sm_90a", "compiler": "triton 3.9.0", "coverage": "modelled",
        "premises": "contraction", "summary": "fold of 2", "text": "00ff",
    }
    return Entry(kernel=kernel, config=config, signature=signature, **{**base, **more})


def test_the_text_is_readable_and_reads_back() -> None:
    text = dump([entry()], checker="0.1.0")
    assert text.splitlines()[2:8] == [
        "schema 1", "checker 0.1.0", "", "kernel    gemm", "config    BLOCK_K=32",
        "target    sm_90a",
    ]
    lock = load(text)
    assert lock.entries == (entry(),)
    assert lock.checker == "0.1.0"
    assert lock.entries[0].line == 6


def test_order_does_not_matter() -> None:
    entries = [entry(k, c, s) for k in "ab" for c in ("x=1", "x=2") for s in ("sb1-1", "sb1-2")]
    shuffled = random.Random(7).sample(entries, len(entries))
    assert dump(shuffled) == dump(entries)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"]), min_size=1)
lines = st.lists(words, min_size=1, max_size=4).map(" ".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is slow
@given(kernel=lines, config=lines, summary=st.one_of(st.just(""), lines))
def test_any_text_survives(kernel: str, config: str, summary: str) -> None:
    one = entry(kernel, config, summary=summary)
    assert load(dump([one])).entries == (one,)


@given(st.dictionaries(words, st.one_of(
    st.integers(), st.booleans(), st.none(), words, st.floats(allow_nan=False))))
def test_a_configuration_is_one_sorted_line(config: dict[str, object]) -> None:
    text = config_text(config)
    assert text == config_text(dict(reversed(config.items())))
    assert len(text.splitlines()) <= 1 or not config


def test_values_of_different_types_stay_apart() -> None:
    assert len({config_text({"a": v}) for v in (1, "1", True, "true", None, "null", 1.5, "x")}) == 8


@pytest.mark.parametrize(("text", "message"), [
    ("", "no `schema` line"),
    ("hello\n", "schema none"),
    ("schema 9\n\nkernel x\n", "schema 9 cannot be read"),
    ("schema 1\n\nkernel x\n", ":3: not an entry: `coverage` is missing, `signature` is missing"),
    ("schema 1\n\nkernel x\nkernel y\n", ":4: `kernel` stands twice"),
    (dump([entry()]).replace("summary", "summery"), "unknown `summery`"),
    (dump([entry()]) + "<<<<<<< HEAD\n", "unfinished merge"),
])
def test_damage_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(LockError) as error:
        load(text)
    assert message in str(error.value)
