"""The autotuner hook on a GPU: what it keeps, whether that holds in bytes, and what it costs.

    python -m corpus.bench.autotune_demo [--json FILE] [--small] [--launch first] [--inductor]

Needs PyTorch, Triton and a GPU. Two kernels are tuned with the hook over a fresh Triton cache: a
GEMM (tile sizes, pipeline depth, warps, and CHUNKS partial accumulators) and a row-wise layer norm
(chunk width, rows a program, warps). Afterwards every configuration, kept or dropped, runs on ten
draws and its output bytes are compared with the reference's. Exit status 0 if all kept ones agree
on every draw, at least one dropped one does not, and the check cost at most a tenth of compiling.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

DRAWS = 10
LAUNCH = ["first"]  # how the hook uses launch facts; set by --launch
BUDGET = 0.10  # of the compile time of the sweep


@dataclass(slots=True)
class Outcome:
    """What one tuned kernel showed."""

    kernel: str
    configurations: int
    kept: int
    classes: int
    unproved: int
    separating: str
    failed: str
    compile_seconds: float
    check_seconds: float
    worker_seconds: float
    kept_differ: list[str] = field(default_factory=list)
    dropped_differ: list[str] = field(default_factory=list)
    dropped_agree: int = 0
    best_kept_us: float = 0.0
    best_all_us: float = 0.0

    @property
    def share(self) -> float:
        """The check's time as a share of compiling."""
        return self.check_seconds / max(self.compile_seconds, 1e-9)

    @property
    def good(self) -> bool:
        """True if it showed what it is meant to show."""
        sound = not self.kept_differ and not self.failed
        return sound and bool(self.dropped_differ) and self.share <= BUDGET


def _kernels() -> tuple[Any, Any]:
    """The two Triton functions (made here, so that the module imports without Triton)."""
    from corpus.bench import autotune_kernels

    return autotune_kernels.gemm, autotune_kernels.layernorm


def gemm_configs(small: bool) -> list[Any]:
    """The GEMM's sweep."""
    import triton

    tiles = [(64, 64), (128, 64)] if small else [(64, 64), (128, 64), (64, 128), (128, 128)]
    depth = [(32, 3), (64, 3)] if small else [(32, 3), (32, 4), (64, 3), (64, 4)]
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "CHUNKS": chunks},
                      num_warps=warps, num_stages=stages)
        for (m, n), (k, stages), chunks, warps in itertools.product(tiles, depth, (1, 2), (4, 8))
    ]


def norm_configs(small: bool) -> list[Any]:
    """The layer norm's sweep."""
    import triton

    chunks = (512, 1024) if small else (256, 512, 1024, 2048)
    return [
        triton.Config({"CHUNK": chunk, "ROWS": rows}, num_warps=warps)
        for chunk, rows, warps in itertools.product(chunks, (1, 2), (2, 4, 8))
    ]


def draw(shape: Sequence[int], seed: int, dtype: Any) -> Any:
    """Random data of ten sorts in turn: plain, wide exponents, cancelling halves."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(1000 + seed)
    x = torch.randn(tuple(shape), device="cuda", generator=generator)
    if seed % 3 == 1:
        powers = torch.randint(-6, 7, tuple(shape), device="cuda", generator=generator)
        x = x * torch.exp2(powers.float())
    if seed % 3 == 2:
        half = shape[-1] // 2
        order = torch.randperm(half, device="cuda", generator=generator)
        noise = 1e-3 * torch.randn_like(x[..., :half])
        x[..., half : 2 * half] = -x[..., :half][..., order] + noise
    return x.to(dtype)


def measure(
    name: str, fn: Any, configs: list[Any], key: list[str],
    arguments: Callable[[int], tuple[list[Any], Any]], grid: Callable[[dict[str, Any]], Any],
) -> Outcome:
    """Tune with the hook, then run every configuration on every draw.

    arguments(seed) gives the call's arguments and, among them, the output tensor.
    """
    import torch
    import triton

    from checker.cache import Cache
    from checker.hooks.triton import bitwise

    hook = bitwise(reference="first", cache=Cache(None), launch=LAUNCH[0])
    tuned = hook(triton.autotune(configs=configs, key=key)(fn))
    args, _ = arguments(0)
    tuned[grid](*args)
    kept = hook.report
    assert kept is not None
    outcome = Outcome(
        name, len(configs), len(kept.names), kept.classes, len(kept.unproved), kept.separating,
        kept.failed, hook.compile_seconds, kept.seconds, hook.worker_seconds,
    )
    names = {config: _name(config) for config in configs}
    times: dict[str, float] = {}
    wrong: dict[str, int] = {}
    for seed in range(DRAWS):
        args, out = arguments(seed)
        reference = None
        for config in configs:
            out.zero_()
            try:
                fn[grid](*args, **config.all_kwargs())
                torch.cuda.synchronize()
            except triton.runtime.errors.OutOfResources:
                continue
            found = out.view(torch.uint8).clone()
            reference = found if reference is None else reference
            same = bool(torch.equal(found, reference))
            wrong[names[config]] = wrong.get(names[config], 0) + (not same)
            if seed == 0:
                times[names[config]] = 1e3 * triton.testing.do_bench(
                    lambda a=args, c=config: fn[grid](*a, **c.all_kwargs()), warmup=5, rep=20
                )
    for label, count in wrong.items():
        if label in kept.names:
            outcome.kept_differ += [label] if count else []
        elif count:
            outcome.dropped_differ.append(label)
        else:
            outcome.dropped_agree += 1
    outcome.best_all_us = min(times.values())
    outcome.best_kept_us = min((t for n, t in times.items() if n in kept.names), default=0.0)
    return outcome


def _name(config: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in config.all_kwargs().items())


def run_gemm(small: bool) -> Outcome:
    """The GEMM: fp16 in, fp32 out."""
    import torch
    import triton

    m, n, k = (128, 128, 256) if small else (256, 256, 512)

    def arguments(seed: int) -> tuple[list[Any], Any]:
        a, b = draw((m, k), seed, torch.float16), draw((n, k), seed + 100, torch.float16)
        out = torch.empty((m, n), device="cuda", dtype=torch.float32)
        return [a, b, out, m, n, k], out

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"])

    return measure("gemm", _kernels()[0], gemm_configs(small), ["m", "n", "k"], arguments, grid)


def run_norm(small: bool) -> Outcome:
    """The layer norm: rows of 4,000 fp16 elements."""
    import torch
    import triton

    rows, n = (16, 1000) if small else (64, 4000)

    def arguments(seed: int) -> tuple[list[Any], Any]:
        x = draw((rows, n), seed, torch.float16)
        w, b = draw((n,), seed + 100, torch.float16), draw((n,), seed + 200, torch.float16)
        out = torch.empty((rows, n), device="cuda", dtype=torch.float32)
        return [x, w, b, out, rows, n, 1e-5], out

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(rows, meta["ROWS"]),)

    key = ["rows", "n", "eps"]
    return measure("layernorm", _kernels()[1], norm_configs(small), key, arguments, grid)


def run_inductor() -> list[dict[str, Any]]:
    """torch.compile of a layer norm and a softmax with the Inductor hook; its reports."""
    import torch
    import torch._inductor.config as inductor

    from checker.cache import Cache
    from checker.hooks.inductor import bitwise_inductor

    inductor.max_autotune = True
    inductor.force_disable_caches = True

    def model(x: Any) -> Any:
        y = torch.nn.functional.layer_norm(x, x.shape[-1:])
        return torch.softmax(y, -1) + y.sum(-1, keepdim=True)

    x = torch.randn(512, 4096, device="cuda", dtype=torch.float16)
    with bitwise_inductor(store=Cache(None)) as reports:
        torch.compile(model)(x)
        torch.cuda.synchronize()
    return [{"kernel": label, "kept": len(kept.names), "total": kept.total, "failed": kept.failed,
             "classes": kept.classes, "seconds": kept.seconds} for label, kept in reports]


def show(outcome: Outcome) -> None:
    """Print one outcome."""
    print(
        f"{outcome.kernel}: {outcome.configurations} configurations, {outcome.classes} classes, "
        f"{outcome.unproved} unproved; kept {outcome.kept}. {outcome.separating}\n"
        f"  kept that differ in bytes: {len(outcome.kept_differ)}; dropped that differ: "
        f"{len(outcome.dropped_differ)}; dropped that agree on all {DRAWS} draws: "
        f"{outcome.dropped_agree}\n"
        f"  check {outcome.check_seconds:.2f} s after compiling's {outcome.compile_seconds:.2f} s: "
        f"{100 * outcome.share:.1f} % (workers were busy for {outcome.worker_seconds:.2f} s)\n"
        f"  fastest kept {outcome.best_kept_us:.1f} us, fastest of all {outcome.best_all_us:.1f} us"
        f"\n  {'as it should be' if outcome.good else 'NOT as it should be'}"
    )
    if outcome.failed:
        print(f"  failed: {outcome.failed}")
    for label in outcome.kept_differ:
        print(f"  WRONG, kept and differs: {label}")


def main() -> int:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", help="write the outcomes there")
    parser.add_argument("--small", action="store_true", help="fewer configurations, small shapes")
    parser.add_argument("--inductor", action="store_true", help="try the Inductor hook as well")
    parser.add_argument("--launch", default="first", help="auto, first, only, always or never")
    options = parser.parse_args()
    LAUNCH[0] = options.launch
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()  # compiling must not be answered from disk
    start = time.perf_counter()
    outcomes = [run_gemm(options.small), run_norm(options.small)]
    for outcome in outcomes:
        show(outcome)
    inductor = run_inductor() if options.inductor else []
    for row in inductor:
        print(f"inductor: {row}")
    print(f"{time.perf_counter() - start:.0f} s in all")
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"outcomes": [{**asdict(o), "share": o.share, "good": o.good}
                                    for o in outcomes], "inductor": inductor}, out, indent=2)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
