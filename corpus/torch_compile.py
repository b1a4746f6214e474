"""Kernels that torch.compile writes for small models: ``python -m corpus.torch_compile --out F``.

Compiles a few models (forward and backward) with Inductor under several of its settings and keeps
every Triton kernel that it makes, **all** configurations of an autotuned one, with the launch facts
of the calls it makes of them: grid, block, shared memory, sizes, and the values of index buffers.
Needs PyTorch (2.7 to 2.11) and an NVIDIA GPU, since Inductor tunes by running. Out: one compressed
set in the form of ``corpus.load``; ``corpus.truth --kernel-set`` then runs it.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from corpus.campaigns.rewrites import strip_debug
from corpus.compile import group_of, parameter_count
from corpus.pack import write_lines

#: torch dtype -> name in the launch facts
DTYPES: Mapping[str, str] = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "u8",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}

#: settings of Inductor to compile each model under
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "tuned": {"max_autotune": True, "max_autotune_gemm_backends": "TRITON",
              "coordinate_descent_tuning": False},
    "loops": {"triton.persistent_reductions": False, "max_autotune_pointwise": True},
}

#: most launches kept for one kernel, most elements of one buffer
LAUNCHES, ELEMENTS = 3, 1 << 18


@dataclass(slots=True)
class Caught:
    """One compiled configuration and the launches seen of it."""

    name: str
    text: str
    knobs: dict[str, Any]
    launches: list[dict[str, Any]] = field(default_factory=list)


class Catcher:
    """Collects kernels while Inductor compiles and runs; ``reasons`` says what was left out."""

    def __init__(self) -> None:
        self.found: dict[str, Caught] = {}
        self.reasons: dict[str, str] = {}
        self.model, self.setting = "", ""

    def see(self, tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Record every configuration of a tuner, as it would be launched with these arguments."""
        for launcher in tuner.launchers:
            kernel = next((r.kernel for r in tuner.compile_results
                           if r.config is launcher.config), None)
            name = f"{self.model}-{self.setting}.{tuner.fn.__name__}"
            try:
                if kernel is None:
                    raise LookupError("the launcher's kernel is not among the compiled ones")
                self._keep(name, tuner, launcher, kernel, args, kwargs)
            except (LookupError, ValueError, TypeError) as error:
                self.reasons[name] = str(error)

    def _keep(self, name: str, tuner: Any, launcher: Any, kernel: Any, args: Sequence[Any],
              kwargs: Mapping[str, Any]) -> None:
        text, knobs = without_lines(kernel.asm["ptx"]), knobs_of(tuner, launcher)
        key = f"{name}/{digest(text)}/{sorted(knobs.items())}"
        facts = launch_facts(tuner, launcher, kernel, args, kwargs)
        kept = self.found.setdefault(key, Caught(name, text, knobs))
        if facts not in kept.launches and len(kept.launches) < LAUNCHES:
            kept.launches.append(facts)

    def rows(self, producer: str) -> Iterator[dict[str, Any]]:
        """The kernels in the form of ``corpus.load``."""
        for kept in self.found.values():
            knobs = "_".join(f"{short(k)}{v}" for k, v in sorted(kept.knobs.items()))
            target = re.search(r"^\.target\s+(sm_\d+)", kept.text, re.M)
            if target is None:
                continue
            group = group_of("torch_compile", kept.launches)
            own = digest(kept.text + group)
            yield {"name": f"torch_compile.{kept.name}-{knobs}-{own}-{target[1]}",
                   "isa": "ptx", "text": kept.text,
                   "config": {"family": "torch_compile", "variant": kept.name,
                              "knobs": kept.knobs, "target": target[1], "producer": producer,
                              "group": group},
                   "launches": kept.launches}


def without_lines(text: str) -> str:
    """A text without line information, which names folders of the machine."""
    return strip_debug(text, random.Random(0))


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def knobs_of(tuner: Any, launcher: Any) -> dict[str, Any]:
    """A configuration's knobs: its arguments, its options, and the literals of a template."""
    source = str(tuner.fn.src)
    known = dict(re.findall(r"^\s+(\w+)\s*:\s*tl\.constexpr\s*=\s*([\w.]+)\s*$", source, re.M))
    known.pop("ACC_TYPE", None)
    config = launcher.config
    return {**known, **config.kwargs, "num_stages": config.num_stages,
            "num_warps": config.num_warps}


def short(knob: str) -> str:
    """A knob's name as the corpus writes it in names of kernels."""
    return {"num_warps": "w", "num_stages": "s"}.get(knob, knob.replace("BLOCK", "B"))


def grid_of(launcher: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[int]:
    """The grid that a launcher computes for its arguments, without launching.

    Inductor's launchers are functions made from text, whose global ``runner`` is the launch.
    """
    seen: list[tuple[Any, ...]] = []
    where = launcher.__globals__
    real = where["runner"]
    where["runner"] = lambda *given, **_: seen.append(given)
    try:
        launcher(*args, **kwargs, stream=0)
    finally:
        where["runner"] = real
    return [int(v) for v in seen[0][:3]]


def launch_facts(tuner: Any, launcher: Any, kernel: Any, args: Sequence[Any],
                 kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Launch facts of one call; raises ``ValueError`` where the parameters cannot be matched."""
    text = kernel.asm["ptx"]
    signature = tuner.triton_meta["signature"]
    names = [name for name in tuner.fn.arg_names if name not in launcher.config.kwargs]
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    kinds = [(name, kind) for name, kind in signature.items() if kind != "constexpr"]
    extra = parameter_count(text, "ptx") - len(kinds)
    missing = [name for name, _ in kinds if name not in values]
    if missing or not 0 <= extra <= 2:  # Triton appends up to two scratch pointers
        raise ValueError(f"parameters do not match: {missing or extra}")
    written = set(tuner.inductor_meta.get("mutated_arg_names", ()))
    facts: list[Any] = []
    for name, kind in kinds:
        if kind.startswith("*"):
            facts.append(buffer(name, values[name], written))
        elif kind.startswith("fp"):
            facts.append({"f32": float(values[name])})
        else:
            facts.append({kind: int(values[name])})
    threads = re.search(r"^\s*\.reqntid\s+(\d+)", text, re.M)
    block = int(threads[1]) if threads else int(kernel.metadata.num_warps) * 32
    return {"args": [*facts, *[None] * extra], "block": [block, 1, 1],
            "grid": grid_of(launcher, args, kwargs), "shared": int(kernel.metadata.shared)}


def buffer(name: str, tensor: Any, written: set[str]) -> dict[str, Any]:
    """Facts of a buffer: what it spans in memory, its role by Inductor's naming, index values."""
    extent = 1 + sum((size - 1) * abs(step)
                     for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0 or extent > ELEMENTS:
        raise ValueError(f"{name}: {extent} elements")
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in DTYPES:
        raise ValueError(f"{name}: no name for {kind}")
    role = "inout" if name in written or name.startswith("in_out") else (
        "out" if name.startswith("out") else "in")
    facts: dict[str, Any] = {"buffer": name, "dtype": DTYPES[kind], "elements": extent,
                             "role": role}
    if role != "out" and not tensor.is_floating_point():
        flat = tensor.as_strided((extent,), (1,)).cpu()
        facts["values"] = [int(v) for v in flat.tolist()]
    elif role == "in" and tensor.dim() > 1:
        inner = tensor.shape[-1]
        if extent % inner == 0:
            facts["draw"] = {"axis": [extent // inner, inner, 1], "mirror": -1}
    return facts


@contextmanager
def catching(catcher: Catcher) -> Iterator[None]:
    """Wrap Inductor's tuner for a block, so that the catcher sees each kernel before it runs."""
    from torch._inductor.runtime import triton_heuristics

    tuner = triton_heuristics.CachingAutotuner
    run = tuner.run

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.launchers:
            self.precompile()
        passed = {k: v for k, v in kwargs.items() if k not in ("stream", "benchmark_run")}
        catcher.see(self, args, passed)
        return run(self, *args, **kwargs)

    tuner.run = watched
    try:
        yield
    finally:
        tuner.run = run


def models() -> Mapping[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]], bool]]:
    """Name -> (function, its arguments for a seeded generator, whether to run backward)."""
    import torch
    import torch.nn.functional as f

    def rand(shape: tuple[int, ...], dtype: Any) -> Callable[[Any], Any]:
        return lambda g: torch.randn(shape, device="cuda", generator=g).to(dtype)

    def index(shape: tuple[int, ...], high: int) -> Callable[[Any], Any]:
        return lambda g: torch.randint(0, high, shape, device="cuda", generator=g)

    def given(*makers: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
        return lambda g: tuple(make(g) for make in makers)

    half, brain, single = torch.float16, torch.bfloat16, torch.float32

    def rms(x: Any, w: Any) -> Any:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x.float() * scale).to(x.dtype) * w

    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat((-right, left), -1) * sin

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        mask = torch.ones(scores.shape[-2:], device=q.device, dtype=torch.bool).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")).float(), -1).to(q.dtype) @ v

    def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v

    def quantised(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float() / 127.0
        return (x.float() / scale).round().clamp(-127, 127).to(torch.int8), scale

    return {
        "layer_norm": (lambda x, w, b: f.layer_norm(x, x.shape[-1:], w, b),
                       given(rand((24, 768), half), rand((768,), half), rand((768,), half)), True),
        "layer_norm_wide": (lambda x, w, b: f.layer_norm(x, x.shape[-1:], w, b), given(
            rand((6, 5000), single), rand((5000,), single), rand((5000,), single)), False),
        "rms_norm": (rms, given(rand((24, 512), brain), rand((512,), brain)), True),
        "softmax": (lambda x: torch.softmax(x, -1), given(rand((12, 1023), half)), True),
        "cross_entropy": (f.cross_entropy, given(rand((16, 2000), single), index((16,), 2000)),
                          True),
        "swiglu": (lambda x, a, b: f.silu(x @ a) * (x @ b), given(
            rand((32, 128), half), rand((128, 256), half), rand((128, 256), half)), True),
        "mlp": (lambda x, a, b: f.gelu(x @ a) @ b, given(
            rand((48, 128), half), rand((128, 256), half), rand((256, 128), half)), False),
        "rotary": (rotate, given(rand((2, 4, 16, 64), half), rand((16, 64), half),
                                 rand((16, 64), half)), False),
        "attention": (attention, given(*[rand((2, 2, 40, 32), half)] * 3), True),
        "embedding": (lambda i, w, p: w[i] + p, given(
            index((4, 20), 200), rand((200, 96), half), rand((20, 96), half)), False),
        "batch_norm": (lambda x, w, b: f.relu(f.batch_norm(x, None, None, w, b, True)), given(
            rand((8, 12, 9, 9), single), rand((12,), single), rand((12,), single)), True),
        "group_norm": (lambda x, w, b: f.silu(f.group_norm(x, 4, w, b)), given(
            rand((4, 16, 7, 7), half), rand((16,), half), rand((16,), half)), False),
        "adam": (adam, given(*[rand((4097,), single)] * 4), False),
        "quantise": (quantised, given(rand((20, 640), brain)), False),
        "variance": (lambda x: torch.var_mean(x, -1), given(rand((10, 3000), single)), False),
        "sum_all": (lambda x: x.float().sum(), given(rand((130, 1000), half)), False),
        "column_sum": (lambda x: x.float().sum(0), given(rand((500, 96), half)), False),
        "cumsum": (lambda x: torch.cumsum(x, -1), given(rand((9, 700), single)), False),
        "topk": (lambda x: torch.argmax(x, -1), given(rand((9, 700), half)), False),
    }


def capture(seed: int = 0) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Compile and run all models under all settings; returns the rows and what was left out."""
    import torch
    import torch._inductor.config as inductor
    import triton

    catcher = Catcher()
    always = {"compile_threads": 1, "force_disable_caches": True,
              "use_static_cuda_launcher": False}
    with catching(catcher):
        for setting, options in SETTINGS.items():
            for name, (function, given, backward) in models().items():
                torch._dynamo.reset()
                catcher.model, catcher.setting = name, setting
                generator = torch.Generator(device="cuda").manual_seed(seed)
                args = given(generator)
                if backward:
                    args = tuple(a.requires_grad_() if a.is_floating_point() else a for a in args)
                try:
                    with inductor.patch({**always, **options}):
                        out = torch.compile(function)(*args)
                        if backward:
                            out.float().sum().backward()
                    torch.cuda.synchronize()
                except Exception as error:  # a compiler may raise anything; the reason is kept
                    catcher.reasons[f"{name}-{setting}"] = f"{type(error).__name__}: {error}"[:300]
    producer = f"torch {torch.__version__} inductor, triton {triton.__version__}"
    rows: dict[str, dict[str, Any]] = {}
    for row in catcher.rows(producer):
        rows.setdefault(row["text"] + row["config"]["group"], row)
    return sorted(rows.values(), key=lambda r: str(r["name"])), catcher.reasons


def main(
    out: Annotated[Path, typer.Option(help="the set, e.g. corpus/data/torch_sm_90.jsonl.xz")],
    seed: Annotated[int, typer.Option(help="seed of the models' arguments")] = 0,
) -> None:
    """Write the set and say what was left out."""
    rows, reasons = capture(seed)
    size = write_lines(out, rows, 9)
    for name, reason in sorted(reasons.items()):
        print(f"left out: {name}: {reason}")
    groups = {row["config"]["group"] for row in rows}
    print(f"{len(rows)} kernels of {len(groups)} groups, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    typer.run(main)
