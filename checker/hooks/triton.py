"""Bitwise-safe autotuning in Triton: keep the configurations that return the reference's bits.

In: an autotuned kernel and a call of it. Out: the configurations that Triton may time. All are
compiled (the ones kept stay in Triton's own cache), none of the others is run. Two public ways in:

    @bitwise(reference="first")                      # above @triton.autotune
    prune_configs_by={"early_config_prune": bitwise(reference="first")}

Written for Triton 3.4 to 3.9. Nothing here raises into the tuner.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checker.cache import Cache, Examiner, open_default
from checker.errors import UsageError
from checker.hooks.keep import Baseline, Kept, announce, keep_equal
from checker.results import KernelInput

__all__ = [
    "Bitwise", "Compiled", "bitwise", "broken_premise", "launch_facts", "overlapping",
]

LIMIT_SECONDS = 60.0
MAX_LANES = 2**18  # threads of a launch that is still replayed
MAX_ELEMENTS = 2**24  # elements of all its buffers
MAX_VALUES = 2**14  # elements of an integer buffer whose contents go into the launch facts
_PTX_HEADER = re.compile(r"\.entry\s+[\w$]+\s*\((.*?)\n\s*\)", re.S)
_PTX_PARAM = re.compile(r"^\s*\.param\b", re.M)
_SCALARS = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64"}
_POINTEES = {
    "fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64", "fp8e4nv": "e4m3",
    "fp8e5": "e5m2", "i1": "u8", "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32",
    "u32": "u32", "i64": "i64", "u64": "u64",
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """One configuration: its assembly, or why there is none."""

    config: Any
    name: str
    text: str = ""
    isa: str = ""
    kernel: Any = None
    error: str = ""


class Bitwise:
    """A pruning function for `early_config_prune`, and a decorator for an autotuned kernel.

    report: what was kept at the last call; reports: at every call, by kernel name and tuning key.
    """

    def __init__(
        self, reference: Any = "first", *, launch: str = "first", cache: Cache | None = None,
        log: bool = True, limit: float = LIMIT_SECONDS,
    ) -> None:
        self.limit = limit
        self.reference = reference
        self.launch = launch
        self.cache = cache
        self.log = log
        self.report: Kept | None = None
        self.compile_seconds = 0.0
        self.worker_seconds = 0.0  # spent by workers, mostly while compiling went on
        self.reports: list[tuple[str, Kept]] = []
        self._tuner: Any = None
        self._then: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As a decorator: `bitwise()(autotuned)`. As a pruner: `(configs, named_args, **kw)`."""
        if len(args) == 1 and not kwargs and hasattr(args[0], "early_config_prune"):
            return self._attach(args[0])
        if len(args) != 2:
            raise TypeError(
                "bitwise() goes above @triton.autotune, or into prune_configs_by as "
                "early_config_prune"
            )
        return self._prune(args[0], args[1], kwargs)

    def _attach(self, tuner: Any) -> Any:
        self._tuner = tuner
        self._then = tuner.early_config_prune
        tuner.early_config_prune = self
        return tuner

    def _prune(self, configs: Sequence[Any], named_args: Mapping[str, Any], kwargs: Any) -> Any:
        configs = list(configs)
        before = configs
        if self._then is not None:  # the user's own pruning comes first, and its errors are theirs
            configs = list(self._then(configs, named_args, **kwargs))
        try:
            with Examiner(self.cache or open_default(), limit_seconds=self.limit) as asks:
                return self._choose(configs, before, dict(named_args or {}), dict(kwargs), asks)
        except Exception as error:
            kept = configs[:1]
            said = f"the hook failed ({type(error).__name__}: {error})"
            self._record("", Kept(("",), str(kept[0]) if kept else "nothing", len(configs),
                                  failed=said))
            return kept

    def _choose(
        self, configs: list[Any], before: list[Any], named: dict[str, Any], kwargs: dict[str, Any],
        asks: Examiner,
    ) -> list[Any]:
        tuner = self._tuner or _calling_tuner(self)
        label = getattr(getattr(tuner, "base_fn", None), "__name__", "kernel")
        shared, launch = overlapping({**named, **kwargs}), self.launch
        if shared and launch in ("always", "first"):
            launch = "only"  # the static engine takes arguments for disjoint
        start = time.perf_counter()
        asked = self.reference
        if isinstance(asked, int):  # of the configurations as they were written down
            asked = before[asked]
        outside = _outside(asked, configs, before)
        compiled: list[Compiled] = []
        inputs: list[KernelInput] = []
        for config in [*configs, *outside]:
            one = _compile(tuner, config, named, kwargs)
            if any(one.name == other.name for other in compiled):
                one = replace(one, name=f"{one.name} #{len(compiled)}")
            compiled.append(one)
            if one.text:  # examined by a worker while the next one is compiled
                kernel = _input(tuner, one, named, kwargs, launch)
                inputs.append(kernel)
                replays = launch in ("first", "only") and bool(kernel.launches)
                asks.submit(kernel if replays else replace(kernel, launches=()), replays)
        self.compile_seconds = time.perf_counter() - start
        good = [one for one in compiled[: len(configs)] if not one.error]
        if not good:
            why = compiled[0].error if compiled else "there is no configuration"
            kept = Kept(("",), str(configs[0]), len(configs), failed=f"nothing compiles: {why}")
            self._record(label, kept)
            return configs[:1]
        inputs = inputs[: len(good)]
        reference = _reference(asked, good, compiled[len(configs):])
        if shared and launch != "only":
            why = f"the arguments {shared} overlap: give launch=\"only\" to decide that"
            first = inputs[reference].name if isinstance(reference, int) else inputs[0].name
            answer = Kept((first,), first, len(inputs), failed=why)
        else:
            shapes = {
                kernel.name: (_grid(tuner, one, named, kwargs), _threads(one.kernel))
                for kernel, one in zip(inputs, good, strict=True)
            }
            answer = keep_equal(
                inputs, reference, launch=launch, geometry=shapes, examiner=asks
            )
            broken = broken_premise(
                answer.premises, good[0].kernel.src.signature, getattr(tuner, "keys", ()),
                {**named, **kwargs},
            )
            if broken:
                first = answer.reference if answer.reference in answer.names else answer.names[0]
                answer = replace(answer, names=(first,), failed=broken)
        self.worker_seconds = asks.busy_seconds
        self._record(label, answer)
        kept_names = set(answer.names)
        kept_configs = [
            one.config for one, kernel in zip(good, inputs, strict=True)
            if kernel.name in kept_names
        ]
        return kept_configs or [good[0].config]

    def _record(self, label: str, kept: Kept) -> None:
        self.report = kept
        self.reports.append((label, kept))
        if self.log:
            announce(kept.line(label, self.compile_seconds))


def bitwise(
    reference: Any = "first", *, launch: str = "first", cache: Cache | None = None,
    log: bool = True, limit: float = LIMIT_SECONDS,
) -> Bitwise:
    """Make a pruner that keeps configurations bitwise equal to a reference.

    reference: "first" (that compiles), an index, a `triton.Config`, a mapping of knobs, a compiled
    kernel, assembly text, a signature `sb1-...`, or a `Baseline`. launch: see `keep_equal`; with
    "first" and "auto", launch facts are used where every scalar argument is part of the tuning key,
    as the tuner reuses its choice for every call with that key. limit: seconds that the check of
    one kernel may take; a kernel that takes longer is dropped.
    """
    return Bitwise(reference, launch=launch, cache=cache, log=log, limit=limit)


def _outside(asked: Any, configs: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """A named reference that the user's own pruning dropped: compiled, never kept."""
    if not isinstance(asked, (Mapping, str)) and not hasattr(asked, "all_kwargs"):
        return []
    if _is_first(asked) or _find(configs, asked) is not None:
        return []
    found = _find(before, asked)
    if found is not None:
        return [before[found]]
    return [asked] if hasattr(asked, "all_kwargs") else []


def _reference(asked: Any, good: Sequence[Compiled], outside: Sequence[Compiled]) -> Any:
    """The reference as `keep_equal` takes it."""
    if _is_first(asked):
        return 0
    if isinstance(asked, (Baseline, KernelInput)):
        return asked
    if hasattr(asked, "asm"):
        return KernelInput("reference", *_assembly(asked))
    if outside:
        if outside[0].error:
            raise UsageError(f"the reference does not compile: {outside[0].error}")
        return KernelInput("reference", outside[0].text, outside[0].isa)
    if isinstance(asked, str) and (asked.startswith("sb1") or "\n" in asked):
        return asked if asked.startswith("sb1") else KernelInput("reference", asked)
    found = _find([one.config for one in good], asked)
    if found is None:
        raise UsageError(f"no configuration that compiles is {asked!r}")
    return found


def _is_first(asked: Any) -> bool:
    return isinstance(asked, str) and asked == "first"  # a Config cannot be compared with a text


def _find(configs: Sequence[Any], asked: Any) -> int | None:
    """The first configuration that is, prints as, or has the knobs of what was asked for."""
    for index, config in enumerate(configs):
        if config is asked or str(config) == str(asked):
            return index
        if isinstance(asked, Mapping):
            values = config.all_kwargs()
            if all(values.get(key, object()) == value for key, value in asked.items()):
                return index
    return None


def _calling_tuner(hook: Bitwise) -> Any:
    """The tuner that is calling: `prune_configs_by` hands its functions no kernel to compile."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if owner is not hook and getattr(owner, "early_config_prune", None) is hook:
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    raise UsageError("called by no Triton autotuner: use checker.hooks.keep_equal instead")


def _compile(
    tuner: Any, config: Any, named: dict[str, Any], kwargs: dict[str, Any]
) -> Compiled:
    """Compile one configuration as the tuner's own run would, without launching it."""
    name = ", ".join(f"{key}={value}" for key, value in config.all_kwargs().items())
    try:
        if config.pre_hook:
            config.pre_hook({**named, **kwargs, **config.all_kwargs()})
        rest = {key: value for key, value in kwargs.items() if key != "warmup"}
        rest.setdefault("grid", (1,))
        kernel = tuner.fn.run(*named.values(), warmup=True, **rest, **config.all_kwargs())
        kernel = kernel.result() if hasattr(kernel, "result") else kernel
        text, isa = _assembly(kernel)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return Compiled(config, name, error=f"{type(error).__name__}: {lines[0]}")
    return Compiled(config, name, text, isa, kernel)


def _assembly(kernel: Any) -> tuple[str, str]:
    """The assembly text of a compiled kernel and its ISA."""
    for stage, isa in (("ptx", "ptx"), ("amdgcn", "gcn")):
        text = kernel.asm.get(stage) if hasattr(kernel.asm, "get") else None
        if isinstance(text, bytes):
            text = text.decode()
        if text:
            return text, isa
    raise UsageError("the compiled kernel has neither PTX nor AMDGCN")


def _input(
    tuner: Any, one: Compiled, named: dict[str, Any], kwargs: dict[str, Any], launch: str
) -> KernelInput:
    facts: dict[str, Any] | None = None
    if launch != "never":
        try:
            facts = launch_facts(tuner, one, named, kwargs, everything=launch in ("always", "only"))
        except Exception:  # no facts, no replay: the static engine decides alone
            facts = None
    return KernelInput(
        one.name, one.text, one.isa, config=one.config.all_kwargs(),
        launches=(facts,) if facts else (),
    )


def launch_facts(
    tuner: Any, one: Compiled, named: Mapping[str, Any], kwargs: Mapping[str, Any],
    *, everything: bool = False,
) -> dict[str, Any] | None:
    """The launch facts of a call (see `checker.launch`), or None where they cannot be had.

    None as well, unless `everything`: for launches too large to replay, and where a scalar
    argument is not part of the tuning key.
    """
    bound = _bound(tuner, one, named, kwargs)
    grid = _grid(tuner, one, named, kwargs)
    if grid is None:
        return None
    shape, threads = list(grid), _threads(one.kernel)
    if threads * shape[0] * shape[1] * shape[2] > MAX_LANES and not everything:
        return None
    args: list[Any] = []
    seen: list[tuple[int, int, str]] = []
    for name, kind in one.kernel.src.signature.items():
        if kind == "constexpr":
            continue
        if not isinstance(kind, str):
            return None
        if not kind.startswith("*") and name not in getattr(tuner, "keys", ()) and not everything:
            return None
        argument = _argument(name, kind, bound[name], seen)
        if argument is None:
            return None
        args.append(argument)
    if sum(a.get("elements", 0) for a in args) > MAX_ELEMENTS and not everything:
        return None
    args += [None] * (_parameters(one) - len(args))
    return {"grid": shape, "block": [threads, 1, 1], "args": args}


def broken_premise(
    premises: Sequence[str], kinds: Mapping[str, Any], keys: Sequence[str],
    arguments: Mapping[str, Any],
) -> str:
    """Return a premise on an argument that this call, or another with its key, may not keep.

    kinds: Triton's signature, name to type; keys: arguments that the tuning key holds.
    """
    names = [name for name, kind in kinds.items() if kind != "constexpr"]
    for code in premises:
        hit = re.fullmatch(r"divisible:arg(\d+(?:,\d+)*)%(\d+)", code)
        for index in (int(i) for i in hit[1].split(",")) if hit else ():
            name, by = names[index], int(hit[2]) if hit else 1
            value: Any = arguments.get(name)
            value = value.data_ptr() if hasattr(value, "data_ptr") else value
            if not isinstance(value, int) or value % by:
                return f"this call breaks the premise {code} ({name})"
            # Triton compiles anew for an argument that is not divisible by 16
            if (value % 16 or 16 % by) and name not in keys:
                return f"the premise {code} needs {name} in the tuning key"
    return ""


def _bound(
    tuner: Any, one: Compiled, named: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Every argument of the call by name: knobs, heuristics and defaults included."""
    bound = {**named, **kwargs, **one.config.all_kwargs()}
    fn = tuner.fn
    while not hasattr(fn, "params") and hasattr(fn, "fn"):
        for name, rule in getattr(fn, "values", {}).items():  # @triton.heuristics
            bound[name] = rule(bound)
        fn = fn.fn
    for param in getattr(fn, "params", ()):
        if param.name not in bound and param.has_default:
            bound[param.name] = param.default
    return bound


def _grid(
    tuner: Any, one: Compiled, named: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> tuple[int, int, int] | None:
    """The grid that the call would launch; None where there is none."""
    grid = kwargs.get("grid")
    grid = grid(_bound(tuner, one, named, kwargs)) if callable(grid) else grid
    if grid is None:
        return None
    x, y, z = [int(n) for n in grid] + [1] * (3 - len(grid))
    return x, y, z


def _threads(kernel: Any) -> int:
    """Threads in a block of a compiled kernel."""
    target = getattr(kernel.metadata, "target", None)
    warp = int(getattr(target, "warp_size", 0) or getattr(kernel.metadata, "warp_size", 32))
    return int(kernel.metadata.num_warps) * warp


def _parameters(one: Compiled) -> int:
    """How many parameters the entry has: Triton appends scratch pointers of its own."""
    if header := _PTX_HEADER.search(one.text):
        return len(_PTX_PARAM.findall(header[1]))
    from checker.lower import lower
    from checker.parse import parse

    return len(lower(parse(one.text, isa=one.isa)).params)


def _argument(
    name: str, kind: str, value: Any, seen: list[tuple[int, int, str]]
) -> dict[str, Any] | None:
    if not kind.startswith("*"):
        if kind == "i1":
            return {"i1": int(value)}
        return {_SCALARS.get(kind, kind): value} if isinstance(value, (int, float)) else None
    dtype = _POINTEES.get(kind.lstrip("*").removeprefix("k"))
    if dtype is None or not hasattr(value, "data_ptr"):
        return None
    count = _elements(value)
    buffer: dict[str, Any] = {"buffer": name, "dtype": dtype, "elements": count}
    start = int(value.data_ptr())
    end = start + count * _itemsize(value)
    for other_start, other_end, other in seen:
        if start < other_end and other_start < end:
            if start < other_start:
                return None
            buffer["alias"], buffer["alias_offset"] = other, start - other_start
            break
    seen.append((start, end, name))
    if dtype[0] in "iu" and count <= MAX_VALUES and hasattr(value, "tolist"):
        flat = value.flatten().tolist() if hasattr(value, "flatten") else value.tolist()
        if len(flat) == count:  # not of a view with gaps
            buffer["values"] = [int(v) for v in flat]
    return buffer


def _elements(value: Any) -> int:
    """Elements from the pointer to the end of what the view reaches."""
    shape, strides = tuple(value.shape), value.stride()
    if not shape:
        return 1
    return 1 + sum((int(n) - 1) * int(s) for n, s in zip(shape, strides, strict=True))


def _itemsize(value: Any) -> int:
    size = value.element_size() if hasattr(value, "element_size") else 8
    return int(size)


def overlapping(arguments: Mapping[str, Any]) -> str:
    """Return the names of two tensor arguments that share memory, or nothing."""
    ranges: list[tuple[int, int, str]] = []
    for name, value in arguments.items():
        if hasattr(value, "data_ptr") and hasattr(value, "stride"):
            try:
                start, count = int(value.data_ptr()), _elements(value)
                end = start + count * _itemsize(value)
            except Exception:
                continue
            if start == 0:
                continue
            for other_start, other_end, other in ranges:
                if start < other_end and other_start < end:
                    return f"{other} and {name}"
            ranges.append((start, end, name))
    return ""
