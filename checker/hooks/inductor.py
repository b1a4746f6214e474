"""Bitwise-safe autotuning in torch.compile: the same predicate over Inductor's Triton configs.

In: Inductor's `CachingAutotuner`, once it has compiled its configurations. Out: the same, with the
configurations gone that are not proved equal to the first. Inductor has no extension point here, so
two methods are wrapped while the hook is installed; coordinate descent is held back, since it
compiles configurations of its own. Choices that Inductor finds in its cache were made before: give
it a cache folder of its own (`TORCHINDUCTOR_CACHE_DIR`). Written for PyTorch 2.7 to 2.11.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from checker.cache import Cache
from checker.hooks.calls import broken_premise, overlapping
from checker.hooks.keep import Kept, announce, keep_equal
from checker.results import KernelInput

__all__ = ["bitwise_inductor", "install"]


def install(
    *, store: Cache | None = None, log: bool = True, reports: list[tuple[str, Kept]] | None = None
) -> Callable[[], None]:
    """Install the hook; returns the function that takes it out again.

    reports: a list that gets one (kernel name, what was kept) for each tuned kernel.
    """
    from torch._inductor.runtime import triton_heuristics

    tuner = triton_heuristics.CachingAutotuner
    benchmark, descend = tuner.benchmark_all_configs, tuner.coordinate_descent_tuning

    def record(label: str, kept: Kept) -> None:
        if reports is not None:
            reports.append((label, kept))
        if log:
            announce(kept.line(label))

    @functools.wraps(benchmark)
    def filtered(self: Any, *args: Any, **kwargs: Any) -> Any:
        label = str(getattr(self.fn, "__name__", "kernel"))
        try:
            kept = _filter(self, args, kwargs, store)
        except Exception as error:
            first = self.launchers[:1]
            kept = Kept(("",), "the first", len(self.launchers),
                        failed=f"the hook failed ({type(error).__name__}: {error})")
            self.launchers = first
        record(label, kept)
        return benchmark(self, *args, **kwargs)

    @functools.wraps(descend)
    def held(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
        return launcher

    tuner.benchmark_all_configs, tuner.coordinate_descent_tuning = filtered, held

    def uninstall() -> None:
        tuner.benchmark_all_configs, tuner.coordinate_descent_tuning = benchmark, descend

    return uninstall


@contextmanager
def bitwise_inductor(
    *, store: Cache | None = None, log: bool = True
) -> Iterator[list[tuple[str, Kept]]]:
    """Keep Inductor's tuning bitwise inside a block; yields the reports as they come."""
    reports: list[tuple[str, Kept]] = []
    uninstall = install(store=store, log=log, reports=reports)
    try:
        yield reports
    finally:
        uninstall()


def _filter(tuner: Any, args: Any, kwargs: Any, store: Cache | None) -> Kept:
    """Cut `tuner.launchers` to the class of the first; returns what was kept."""
    launchers = list(tuner.launchers)
    inputs = []
    for number, launcher in enumerate(launchers):
        text, isa = _assembly(tuner, launcher)
        config = {**launcher.config.kwargs, "num_warps": launcher.config.num_warps,
                  "num_stages": launcher.config.num_stages}
        name = ", ".join(f"{key}={value}" for key, value in config.items())
        inputs.append(KernelInput(f"{number}: {name}", text, isa, config=config))
    arguments = {**dict(zip(tuner.fn.arg_names, args, strict=False)), **kwargs}
    shared = overlapping(arguments)
    if shared:
        kept = Kept((inputs[0].name,), inputs[0].name, len(inputs),
                    failed=f"the arguments {shared} overlap")
    else:
        kept = keep_equal(inputs, 0, launch="never", store=store)
        broken = broken_premise(kept.premises, tuner.triton_meta["signature"], (), arguments)
        if broken:
            kept = replace(kept, names=(inputs[0].name,), failed=broken)
    names = set(kept.names)
    tuner.launchers = [
        launcher for launcher, one in zip(launchers, inputs, strict=True) if one.name in names
    ]
    return kept


def _assembly(tuner: Any, launcher: Any) -> tuple[str, str]:
    """A launcher's assembly: from its compiled kernel, or from Triton's cache by its hash."""
    kernels = [r.kernel for r in tuner.compile_results if r.config is launcher.config]
    kernels += [r.kernel for r in tuner.compile_results if r.config == launcher.config]
    for stage, isa in (("ptx", "ptx"), ("amdgcn", "gcn")):
        for kernel in kernels:
            text = getattr(kernel, "asm", {}).get(stage)
            if text:
                return (text.decode() if isinstance(text, bytes) else text), isa
        folder = os.environ.get("TRITON_CACHE_DIR")
        key = getattr(launcher, "cache_hash", None)
        if folder and key:
            for path in sorted((Path(folder) / str(key)).glob(f"*.{stage}")):
                return path.read_text(), isa
    raise LookupError(f"no assembly for {launcher.config}")
