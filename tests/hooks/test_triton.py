"""The Triton adapter over real offline compilation; classes by a stand-in for the engine.

Runs with each Triton that is installed; `python -m tests.hooks.versions` makes an environment for
each supported one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests import toy_engine

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

import checker  # noqa: E402
from checker.errors import UsageError  # noqa: E402
from checker.hooks.triton import Bitwise, bitwise  # noqa: E402
from checker.results import KernelInput  # noqa: E402
from tests.hooks import fakegpu  # noqa: E402
from tests.hooks.fakegpu import Tensor  # noqa: E402

EXAMINED: list[KernelInput] = []


def by_block(kernel: KernelInput, *, known: Any = None) -> toy_engine.Examined:
    """A stand-in for the engine: BLOCK decides the class, BLOCK 512 is not modelled."""
    EXAMINED.append(kernel)
    blocks = {"64": 64, "128": 128, "512": 512}
    block = next(
        (b for b in blocks.values() if kernel.config.get("BLOCK") == b),
        128 if kernel.name == "<reference>" else 0,
    )
    if block == 512 and not kernel.launches:
        return toy_engine.Examined(kernel.name, "", "")
    basis = "launch" if kernel.launches else "static"
    return toy_engine.Examined(kernel.name, f"sb1-{64 if block == 512 else block}", basis)


@pytest.fixture(autouse=True)
def _engine(toy: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    EXAMINED.clear()
    monkeypatch.setattr(checker.api, "examine", by_block)  # type: ignore[attr-defined]
    with fakegpu.install():
        yield


@triton.jit
def rowsum(x, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + c, mask=c < n, other=0.0).to(tl.float32)
    tl.store(o + r, tl.sum(v, 0).to(tl.float16))


@triton.jit
def fussy(x, o, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 64, "BLOCK 64 is not for us")
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(o + r, tl.sum(tl.load(x + r * n + c, mask=c < n, other=0.0), 0))


def configs(*blocks: int) -> list[Any]:
    return [triton.Config({"BLOCK": b}, num_warps=w) for b in blocks or (64, 128) for w in (1, 2)]


def tuned(hook: Any, some: list[Any] | None = None, fn: Any = rowsum, **more: Any) -> Any:
    return hook(triton.autotune(configs=some or configs(), key=["n"], **more)(fn))


@pytest.fixture(autouse=True)
def _replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checker.cache.worker.by_replay", by_block)


def call(kernel: Any, n: int = 60) -> Any:
    kernel[(4,)](Tensor("fp16", 4, n), Tensor("fp16", 4), n)
    return kernel.best_config.kwargs["BLOCK"]


def timed(kernel: Any) -> set[str]:
    return {str(config.kwargs["BLOCK"]) for config in kernel.configs_timings}


def test_the_decorator_cuts_the_search_to_the_class_of_the_first() -> None:
    hook = bitwise()
    kernel = tuned(hook)
    assert call(kernel) == 64
    assert timed(kernel) == {"64"}
    assert hook.report is not None
    assert len(hook.report.names) == 2
    assert hook.report.separating == "BLOCK alone separates the classes"
    assert hook.compile_seconds > 0
    assert fakegpu.LAUNCHED == ["rowsum"] * 3  # two timed, one call; the dropped never run


def test_as_early_config_prune_it_finds_its_tuner() -> None:
    hook = bitwise({"BLOCK": 128})
    kernel = triton.autotune(
        configs=configs(), key=["n"], prune_configs_by={"early_config_prune": hook}
    )(rowsum)
    assert call(kernel) == 128
    assert timed(kernel) == {"128"}


@pytest.mark.parametrize("reference", [
    2, {"BLOCK": 128, "num_warps": 2}, triton.Config({"BLOCK": 128}, num_warps=1), "sb1-128",
])
def test_references(reference: Any) -> None:
    assert call(tuned(bitwise(reference))) == 128


def test_a_compiled_kernel_as_reference() -> None:
    compiled = rowsum.warmup(
        Tensor("fp16", 4, 60), Tensor("fp16", 4), 60, BLOCK=128, num_warps=4, grid=(1,)
    )
    assert call(tuned(bitwise(compiled))) == 128


def test_the_users_own_pruning_comes_first_and_its_reference_survives() -> None:
    def prune(some: list[Any], named_args: Any, **kwargs: Any) -> list[Any]:
        return [c for c in some if c.num_warps == 2]

    hook = bitwise({"BLOCK": 128, "num_warps": 1})
    kernel = tuned(hook, prune_configs_by={"early_config_prune": prune})
    assert call(kernel) == 128
    assert hook.report is not None
    assert hook.report.reference == "<reference>"
    assert len(hook.report.names) == 1


def test_configurations_that_do_not_compile_are_dropped_and_the_next_is_first() -> None:
    assert call(tuned(bitwise(), fn=fussy)) == 128


def test_a_reference_that_is_nowhere_keeps_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    hook = bitwise({"BLOCK": 4096})
    assert call(tuned(hook)) == 64
    assert hook.report is not None
    assert "no configuration that compiles" in hook.report.failed


def test_a_broken_engine_does_not_break_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker.api, "examine", None)  # type: ignore[attr-defined]
    hook = bitwise(launch="never")
    assert call(tuned(hook)) == 64
    assert hook.report is not None
    assert "defect in samebits: TypeError" in hook.report.failed


def test_a_broken_hook_does_not_break_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checker.hooks.triton.overlapping", None)
    hook = bitwise()
    assert call(tuned(hook)) == 64
    assert hook.report is not None
    assert "the hook failed" in hook.report.failed


def test_launch_facts_of_the_call() -> None:
    kernel = tuned(bitwise(launch="always"))
    call(kernel)
    facts = json.loads(json.dumps(next(k.launches[0] for k in EXAMINED if k.launches)))
    assert (facts["grid"], facts["block"]) == ([4, 1, 1], [32, 1, 1])
    assert facts["args"][:3] == [
        {"buffer": "x", "dtype": "f16", "elements": 240},
        {"buffer": "o", "dtype": "f16", "elements": 4}, {"i32": 60},
    ]
    assert set(facts["args"][3:]) == {None}  # one scratch pointer in Triton 3.4, later two


def test_the_launch_decides_what_the_walk_leaves_open() -> None:
    hook = bitwise()
    kernel = tuned(hook, configs(64, 512))
    call(kernel)
    assert timed(kernel) == {"64", "512"}
    assert hook.report is not None
    assert hook.report.basis == "launch"
    hook = bitwise(launch="never")
    kernel = tuned(hook, configs(64, 512))
    call(kernel)
    assert timed(kernel) == {"64"}


def test_launch_facts_need_every_scalar_in_the_tuning_key() -> None:
    hook = bitwise()
    kernel = hook(triton.autotune(configs=configs(64, 512), key=[])(rowsum))
    call(kernel)
    assert timed(kernel) == {"64"}


def test_overlapping_arguments_get_no_static_verdict() -> None:
    hook = bitwise(launch="auto")
    kernel = tuned(hook)
    x = Tensor("fp16", 4, 60)
    kernel[(4,)](x, Tensor("fp16", 4, address=x.address + 8), 60)
    assert hook.report is not None
    assert "x and o overlap" in hook.report.failed


@pytest.mark.parametrize("launch", ["always", "first", "only"])
def test_overlapping_arguments_are_left_to_the_replay(launch: str) -> None:
    hook = bitwise(launch=launch)
    x = Tensor("fp16", 4, 60)
    kernel = tuned(hook, configs(64, 512))
    kernel[(4,)](x, Tensor("fp16", 4, address=x.address + 8), 60)
    assert all(k.launches for k in EXAMINED if k.name in hook.report.names)
    assert timed(kernel) == {"64", "512"}
    assert EXAMINED[-1].launches[0]["args"][1]["alias"] == "x"


@pytest.mark.parametrize(("premise", "key", "failed"), [
    ("divisible:arg2%4", ["n"], ""),
    ("divisible:arg2%8", ["n"], "this call breaks the premise divisible:arg2%8 (n)"),
    ("divisible:arg2%4", [], "the premise divisible:arg2%4 needs n in the tuning key"),
    ("divisible:arg0%16", [], ""),
])
def test_premises_on_arguments_are_checked(
    premise: str, key: list[str], failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def classify(items: Any, errors: Any = ()) -> Any:
        answer = toy_engine.classify(items, errors)
        return replace(answer, classes=tuple(
            replace(one, premises=(premise,)) for one in answer.classes))

    monkeypatch.setattr(checker.api, "classify", classify)  # type: ignore[attr-defined]
    hook = bitwise(launch="never")
    kernel = hook(triton.autotune(configs=configs(), key=key)(rowsum))
    call(kernel, 60)
    assert hook.report is not None
    assert hook.report.failed == failed
    assert len(hook.report.names) == (1 if failed else 2)


def test_grid_functions_and_heuristics() -> None:
    hook = bitwise(launch="always")
    fn = triton.heuristics({"BLOCK": lambda args: 128 if args["n"] > 64 else 64})(rowsum)
    kernel = hook(triton.autotune(
        configs=[triton.Config({}, num_warps=w) for w in (1, 2)], key=["n"])(fn))
    kernel[lambda meta: (meta["BLOCK"] // 16,)](Tensor("fp16", 4, 60), Tensor("fp16", 4), 60)
    assert next(k.launches[0] for k in EXAMINED if k.launches)["grid"] == [4, 1, 1]


def test_each_tuning_key_has_a_report_of_its_own() -> None:
    hook = bitwise()
    kernel = tuned(hook)
    call(kernel, 60)
    call(kernel, 60)
    call(kernel, 50)
    assert [label for label, _ in hook.reports] == ["rowsum", "rowsum"]


def test_amd() -> None:
    with fakegpu.install("hip", "gfx942", 64):
        hook = bitwise()
        try:
            assert call(tuned(hook)) == 64
        except RuntimeError as error:
            pytest.skip(f"this Triton compiles no AMDGCN here: {error}")
        assert hook.report is not None
        assert not hook.report.failed


def test_wrong_use_is_said_at_once() -> None:
    with pytest.raises(TypeError, match="goes above"):
        bitwise()(rowsum)
    hook = Bitwise(log=False)
    assert hook([1], {}) == [1]  # called by no tuner: the first stays, nothing is raised
    assert hook.report is not None
    assert UsageError.__name__ in hook.report.failed
