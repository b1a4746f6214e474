"""What is committed can be read, is complete, and says nothing of the machine that made it."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from functools import cache

import pytest

from corpus.compile import group_of, parameter_count
from corpus.inputs import DRAWS, RAW
from corpus.load import (
    CorpusKernel,
    TruthRecord,
    load_set,
    load_truth,
    sets,
    truth_about,
    truth_bytes,
)
from corpus.truth import digest, written

_PLACES = re.compile(r"/(home|root|tmp|usr|opt|work)/|site-packages|\.py\"")


@cache
def truth() -> tuple[TruthRecord, ...]:
    return tuple(load_truth())


@cache
def kernels(name: str) -> tuple[CorpusKernel, ...]:
    return tuple(load_set(name))


def test_an_unknown_set_names_those_that_exist() -> None:
    with pytest.raises(FileNotFoundError, match="sm_90"):
        load_set("sm_0")


@pytest.mark.parametrize("name", sets())
def test_a_set_is_named_once_and_its_launches_fit_its_parameters(name: str) -> None:
    found = kernels(name)
    assert len(found) > 20
    assert max(Counter(k.name for k in found).values()) == 1
    for kernel in found:
        assert kernel.isa == ("ptx" if "sm_" in name else "gcn")
        parameters = parameter_count(kernel.text, kernel.isa)
        for launch in kernel.launches:
            assert len(launch["args"]) == parameters, kernel.name
            assert all(n > 0 for n in (*launch["grid"], *launch["block"])), kernel.name
            assert written(launch), kernel.name


@pytest.mark.parametrize("name", sets())
def test_no_text_names_a_place(name: str) -> None:
    assert not [k.name for k in kernels(name) if _PLACES.search(k.text)]


def test_the_truth_is_as_large_as_it_must_be() -> None:
    records = truth()
    assert len(records) >= 1500
    assert len({r.kernel.family for r in records}) >= 35
    assert len({r.kernel.config["producer"].split()[0] for r in records}) >= 2
    assert sum(bool(r.below) for r in records) >= 500


def test_every_record_has_a_digest_for_each_launch_draw_and_buffer() -> None:
    draws = truth_about()["draws"]
    assert [tuple(d) for d in draws] == list(DRAWS[: len(draws)])
    for record in truth():
        assert len(record.digests) == len(record.kernel.launches)
        for launch, row in zip(record.kernel.launches, record.digests, strict=True):
            assert len(row) == len(draws) >= 20
            buffers = len(written(launch))
            assert all(len(d) == 17 * buffers - 1 for d in row), record.kernel.name


def test_a_group_has_one_argument_list() -> None:
    for record in truth()[::37]:
        assert record.group == group_of(record.kernel.family, record.kernel.launches)


def test_float_atomics_and_nothing_else_are_nondeterministic() -> None:
    loose = {r.kernel.family for r in truth() if not r.deterministic}
    assert loose == {"gemm_splitk_atomic"}
    seen = [r for r in truth() if r.kernel.family == "gemm_splitk_atomic"]
    assert any(not r.repeats for r in seen)


def test_truth_tells_orders_apart_and_joins_what_is_one_order() -> None:
    """Sanity of the instrument: a fp16 product is one class, a split-K one is not another's."""
    classes: dict[str, set[object]] = defaultdict(set)
    for record in truth():
        classes[record.kernel.family].add((record.group, record.digests))
    groups = {r.group for r in truth() if r.kernel.family == "gemm_bias_relu"}
    assert len(classes["gemm_bias_relu"]) == len(groups) == 1
    assert len(classes["w8a8"]) >= 8
    assert len(classes["elementwise"]) >= 13


def test_kept_bytes_belong_to_their_digests() -> None:
    """Outputs that were kept whole have the digest they are filed under."""
    kept = truth_bytes()
    about = truth_about()
    whole = {d: data for d, data in kept.items() if len(data) < about["kept_bytes"]}
    assert len(whole) >= 300
    checked = 0
    for record in truth():
        dtypes = list(written(record.kernel.launches[0]).values())
        for joined in record.digests[0]:
            for dtype, key in zip(dtypes, joined.split("+"), strict=True):
                if key in whole:
                    bits = memoryview(whole.pop(key)).cast("B")
                    assert digest(dtype, _bits(bits, dtype)) == key
                    checked += 1
    assert checked >= 300
    families = {r.kernel.family for r in truth()
                if any(d in kept for d in r.digests[0][0].split("+"))}
    assert len(families) >= 20


def _bits(data: memoryview, dtype: str):  # type: ignore[no-untyped-def]
    import numpy as np

    return np.frombuffer(data, RAW[dtype])


def test_launch_facts_are_plain_json() -> None:
    for kernel in kernels("sm_90")[::25]:
        assert json.loads(json.dumps(list(kernel.launches))) == list(kernel.launches)
