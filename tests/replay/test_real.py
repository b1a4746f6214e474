"""Compiled kernels: one GEMM by four matrix units, what is equal across them, planted defects."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from checker.draws import draw
from checker.launch import Launch
from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, first_difference, replay
from checker.replay.hashing import TAG

DATA = Path(__file__).parent / "data"


def source(name: str) -> str:
    """A stored text."""
    (path,) = (p for p in DATA.glob(name + ".*") if p.suffix != ".json")
    return path.read_text()


def facts(name: str) -> dict[str, object]:
    """Its launch facts."""
    data = json.loads((DATA / f"{name}.json").read_text())
    assert isinstance(data, dict)
    return data


@cache
def stored(name: str) -> ReplayResult:
    """The replay of a stored text, in `trees`."""
    result = replay(lower(parse(source(name))), facts(name))
    assert result.usable, result.reasons()
    return result


def test_block_k_and_pipeline_do_not_matter() -> None:
    assert stored("wgmma_bk16").digest == stored("wgmma_bk64").digest


def test_wgmma_and_tcgen05_share_their_steps() -> None:
    assert first_difference(stored("wgmma_bk64"), stored("tcgen05_bk64")) is None


@pytest.mark.parametrize("other", ["mma_sm80_bk64", "mfma_bk64"])
def test_other_step_sizes_are_other_maps(other: str) -> None:
    found = first_difference(stored("wgmma_bk64"), stored(other))
    assert found is not None
    assert found.kind == "tree-differs"
    assert found.line_a


def test_tma_store_by_both_units() -> None:
    assert first_difference(stored("tma_sm90"), stored("tma_sm100")) is None


@pytest.mark.parametrize(("name", "pattern", "which", "codes"), [
    ("wgmma_bk64", r"wgmma\.wait_group\.sync\.aligned \d;", None, {"async-overwrite"}),
    ("wgmma_bk64", r"bar\.sync \t0;", 0, {"race-read"}),
    ("wgmma_bk64", r"bar\.sync \t0;", 1, {"race-overwrite"}),
    ("wgmma_bk64", r"cp\.async\.wait_group \t\d;", None, {"async-read"}),
    ("tma_sm90", r"(?s)waitLoop:.*?bra\.uni waitLoop;", None, {"async-read"}),
    ("tma_sm100", r"(?s)waitLoop:.*?bra\.uni waitLoop;", None, {"async-read"}),
    ("mma_sm80_bk64", r"bar\.sync \t0;", 0, {"race-read"}),
])
def test_a_missing_wait_or_barrier_is_found(name: str, pattern: str, which: int | None,
                                            codes: set[str]) -> None:
    text = source(name)
    hits = list(re.finditer(pattern, text))
    assert hits
    keep = "waitLoop:\n" if "waitLoop" in pattern else ""
    for hit in reversed(hits if which is None else [hits[which]]):
        text = text[: hit.start()] + keep + text[hit.end() :]
    result = replay(lower(parse(text)), facts(name))
    assert codes <= {f.code for f in result.findings}
    assert not result.usable


@pytest.mark.parametrize("name", ["wgmma_bk64", "tcgen05_bk64", "mma_sm80_bk64", "mfma_bk64"])
def test_bytes_are_close_to_the_exact_product(name: str) -> None:
    """The domain `bytes` computes a matrix product (layouts and masks are right)."""
    launch = Launch.from_json(facts(name))
    inputs = {b.name: draw("normal", 1, {"buffer": b.name, "dtype": b.dtype,
                                         "elements": b.elements}) for b in launch.buffers()}
    run = replay(lower(parse(source(name))), launch, domain="bytes", inputs=inputs)
    assert run.usable, run.reasons()
    m, n, k = (int(a.bits) for a in launch.args[3:6])  # type: ignore[union-attr]
    a, b = (inputs[x].astype(np.uint16).view(np.float16).astype(np.float64) for x in ("a", "b"))
    want = a.reshape(m, k) @ b.reshape(k, n)
    out = run.outputs["c"]
    assert (out.words[0] == TAG).all()
    got = out.words[1].astype(np.uint16).view(np.float16).astype(np.float64).reshape(m, n)
    assert np.abs(got - want).max() < 0.05 * np.abs(want).max() / 10
