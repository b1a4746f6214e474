"""Bitwise-safe autotuning in Triton: keep the configurations that return the reference's bits.

In: an autotuned kernel and a call of it. Out: the configurations that Triton may time. All are
compiled (the ones kept stay in Triton's own cache), none of the others is run. Two public ways in:

    @bitwise(reference="first")                      # above @triton.autotune
    prune_configs_by={"early_config_prune": bitwise(reference="first")}

Written for Triton 3.4 to 3.9. Nothing here raises into the tuner.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from checker.cache import Cache, Examiner, open_default
from checker.errors import UsageError
from checker.hooks.calls import (
    Compiled,
    broken_premise,
    grid_of,
    launch_facts,
    overlapping,
    threads_of,
)
from checker.hooks.keep import Baseline, Kept, announce, keep_equal
from checker.results import KernelInput

__all__ = ["Bitwise", "bitwise"]

LIMIT_SECONDS = 60.0
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
        call = _Call(self._tuner or _calling_tuner(self), named, kwargs, self.launch)
        label = getattr(getattr(call.tuner, "base_fn", None), "__name__", "kernel")
        asked = self.reference
        if isinstance(asked, int):  # of the configurations as they were written down
            asked = before[asked]
        start = time.perf_counter()
        compiled = call.compile([*configs, *_outside(asked, configs, before)], asks)
        self.compile_seconds = time.perf_counter() - start
        good = [one for one in compiled[: len(configs)] if not one.error]
        if not good:
            why = compiled[0].error if compiled else "there is no configuration"
            kept = Kept(("",), str(configs[0]), len(configs), failed=f"nothing compiles: {why}")
            self._record(label, kept)
            return configs[:1]
        answer = call.decide(good, _reference(asked, good, compiled[len(configs):]), asks)
        self.worker_seconds = asks.busy_seconds
        self._record(label, answer)
        return [one.config for one in good if one.name in answer.names] or [good[0].config]

    def _record(self, label: str, kept: Kept) -> None:
        self.report = kept
        self.reports.append((label, kept))
        if self.log:
            announce(kept.line(label, self.compile_seconds))


class _Call:
    """One call of the tuned kernel: what it would launch, and the check at it."""

    def __init__(
        self, tuner: Any, named: dict[str, Any], kwargs: dict[str, Any], launch: str
    ) -> None:
        self.tuner, self.named, self.kwargs = tuner, named, kwargs
        self.arguments = {**named, **kwargs}
        self.shared = overlapping(self.arguments)
        self.launch = launch
        if self.shared and launch in ("always", "first"):
            self.launch = "only"  # the static engine takes arguments for disjoint
        self.inputs: dict[str, KernelInput] = {}

    def compile(self, configs: Sequence[Any], asks: Examiner) -> list[Compiled]:
        """Compile all; each is examined by a worker while the next one is compiled."""
        out: list[Compiled] = []
        for config in configs:
            one = _compile(self.tuner, config, self.named, self.kwargs)
            if any(one.name == other.name for other in out):
                one = replace(one, name=f"{one.name} #{len(out)}")
            out.append(one)
            if one.text:
                kernel = _input(self.tuner, one, self.named, self.kwargs, self.launch)
                self.inputs[one.name] = kernel
                replays = self.launch in ("first", "only") and bool(kernel.launches)
                asks.submit(kernel if replays else replace(kernel, launches=()), replays)
        return out

    def decide(self, good: Sequence[Compiled], reference: Any, asks: Examiner) -> Kept:
        """Say which of the compiled configurations are equal to the reference."""
        names = [one.name for one in good]
        if self.shared and self.launch != "only":
            why = f"the arguments {self.shared} overlap: give launch=\"only\" to decide that"
            first = names[reference if isinstance(reference, int) else 0]
            return Kept((first,), first, len(names), failed=why)
        shapes = {
            one.name: (
                grid_of(self.tuner, one, self.named, self.kwargs), threads_of(one.kernel)
            )
            for one in good
        }
        answer = keep_equal(
            [self.inputs[name] for name in names], reference, launch=self.launch,
            geometry=shapes, examiner=asks,
        )
        keys = getattr(self.tuner, "keys", ())
        broken = broken_premise(
            answer.premises, good[0].kernel.src.signature, keys, self.arguments
        )
        if broken:
            first = answer.reference if answer.reference in answer.names else answer.names[0]
            answer = replace(answer, names=(first,), failed=broken)
        return answer


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
