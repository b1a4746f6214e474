"""The hook with the real engine: a GEMM and a layer norm, compiled offline, cut to one class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from checker.cache import Cache
from checker.hooks import Kept
from checker.hooks.triton import bitwise
from tests.hooks import fakegpu
from tests.hooks.fakegpu import Tensor

triton = pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("SAMEBITS_JOBS", "0")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with fakegpu.install():
        yield


def tune(
    fn: Any, configs: list[Any], key: list[str], args: list[Any], grid: Callable[..., Any]
) -> tuple[Kept, list[Any]]:
    """Tune with the hook; returns what it kept, and what Triton timed."""
    hook = bitwise(cache=Cache(None))
    tuned = hook(triton.autotune(configs=configs, key=key)(fn))
    tuned[grid](*args)
    assert hook.report is not None
    return hook.report, list(tuned.configs_timings)


def test_a_gemm_is_cut_to_one_accumulator() -> None:
    from corpus.bench.autotune_kernels import gemm

    configs = [
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": k, "CHUNKS": c}, num_warps=4)
        for k, c in product((32, 64), (1, 2))
    ]
    args = [Tensor("fp16", 64, 256), Tensor("fp16", 64, 256), Tensor("fp32", 64, 64), 64, 64, 256]
    kept, timed = tune(gemm, configs, ["m", "n", "k"], args, lambda meta: (1, 1))
    assert not kept.failed
    assert kept.unproved == ()
    assert {c.kwargs["CHUNKS"] for c in timed} == {1}
    assert len(timed) == 2  # BLOCK_K moves no bit: the matrix unit adds k in steps of its own
    assert kept.separating == "CHUNKS alone separates the classes"


def test_a_layer_norm_is_cut_to_one_order_of_summation() -> None:
    from corpus.bench.autotune_kernels import layernorm

    configs = [
        triton.Config({"CHUNK": 256, "ROWS": rows}, num_warps=warps)
        for rows, warps in product((1, 2), (2, 4))
    ]
    n = 500
    args = [Tensor("fp16", 4, n), Tensor("fp16", n), Tensor("fp16", n), Tensor("fp32", 4, n),
            4, n, 1e-5]
    kept, timed = tune(layernorm, configs, ["rows", "n", "eps"], args,
                       lambda meta: (triton.cdiv(4, meta["ROWS"]),))
    assert not kept.failed
    assert kept.unproved == ()
    assert {c.num_warps for c in timed} == {2}
    assert {c.kwargs["ROWS"] for c in timed} == {1, 2}
    assert kept.separating == "num_warps alone separates the classes"
