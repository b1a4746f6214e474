"""The Inductor adapter over a stand-in with the shape of its autotuner (PyTorch is not needed)."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from checker.hooks.inductor import bitwise_inductor
from tests.hooks.fakegpu import Tensor

pytestmark = pytest.mark.usefixtures("toy")


class CachingAutotuner:
    """The parts of Inductor's autotuner that the hook touches."""

    def __init__(self, *bodies: str, asm: bool = True) -> None:
        self.fn = SimpleNamespace(__name__="triton_red_fused_sum_0", arg_names=["x", "y"])
        self.triton_meta = {"signature": {"x": "*fp16", "y": "*fp16", "R0_BLOCK": "constexpr"}}
        self.compile_results = []
        self.launchers = []
        for number, body in enumerate(bodies):
            config = SimpleNamespace(kwargs={"R0_BLOCK": number}, num_warps=4, num_stages=1)
            text = f".target sm_90\n.entry k\n{body}\n"
            kernel = SimpleNamespace(asm={"ptx": text}) if asm else SimpleNamespace()
            self.compile_results.append(SimpleNamespace(config=config, kernel=kernel))
            self.launchers.append(SimpleNamespace(config=config, cache_hash=f"H{number}"))

    def benchmark_all_configs(self, *args: Any, **kwargs: Any) -> list[int]:
        return [launcher.config.kwargs["R0_BLOCK"] for launcher in self.launchers]

    def coordinate_descent_tuning(self, launcher: Any, *args: Any) -> str:
        return "another configuration"


@pytest.fixture(autouse=True)
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("torch", "torch._inductor", "torch._inductor.runtime",
             "torch._inductor.runtime.triton_heuristics")
    modules = [ModuleType(name) for name in names]
    for parent, child in pairwise(modules):
        setattr(parent, child.__name__.rpartition(".")[2], child)
    monkeypatch.setattr(modules[-1], "CachingAutotuner", CachingAutotuner, raising=False)
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_only_the_class_of_the_first_is_timed() -> None:
    tuner = CachingAutotuner("fold 1", "fold 2", "fold 1")
    with bitwise_inductor() as reports:
        assert tuner.benchmark_all_configs() == [0, 2]
        assert tuner.coordinate_descent_tuning("kept") == "kept"
    assert reports[0][0] == "triton_red_fused_sum_0"
    assert reports[0][1].separating == "R0_BLOCK alone separates the classes"
    again = CachingAutotuner("fold 1", "fold 2")
    assert again.benchmark_all_configs() == [0, 1]
    assert again.coordinate_descent_tuning("kept") == "another configuration"


def test_a_launcher_that_did_not_load_does_not_shift_the_others() -> None:
    tuner = CachingAutotuner("fold 1", "fold 2", "fold 1")
    del tuner.launchers[1]
    with bitwise_inductor():
        assert tuner.benchmark_all_configs() == [0, 2]


def test_assembly_out_of_tritons_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for number, body in enumerate(("fold 1", "fold 1", "fold 2")):
        (tmp_path / f"H{number}").mkdir()
        (tmp_path / f"H{number}" / "k.ptx").write_text(f".target sm_90\n.entry k\n{body}\n")
    tuner = CachingAutotuner("", "", "", asm=False)
    with bitwise_inductor():
        assert tuner.benchmark_all_configs() == [0, 1]


def test_no_assembly_or_shared_memory_keeps_the_first() -> None:
    tuner = CachingAutotuner("fold 1", "fold 1", asm=False)
    with bitwise_inductor() as reports:
        assert tuner.benchmark_all_configs() == [0]
        assert "no assembly" in reports[0][1].failed
        x = Tensor("fp16", 64)
        tuner = CachingAutotuner("fold 1", "fold 1")
        assert tuner.benchmark_all_configs(x, x) == [0]
        assert "x and y overlap" in reports[1][1].failed
