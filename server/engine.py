"""The one seam to the checker: what a worker process runs, as plain data in and plain data out.

In: the engine's module name, the name of a call below, a JSON-like payload. Out: an `Outcome`:
the answer, or the user's error with its diagnostics, both plain data, so that they can cross
process borders and be stored. Knows nothing about what the answers mean.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import ModuleType
from typing import Any

from checker.errors import InputError, LaunchError, SamebitsError, UsageError
from checker.results import KernelInput
from server.worker import report_progress

__all__ = ["CALLS", "Outcome", "call", "provisional_class"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: `value`, or `error` = {kind, message, diagnostics}; lasting: cacheable.

    error kinds: input, usage, launch (the user's), internal (ours); `server.schedule` adds those
    of the pool: time-limit, memory-limit, worker-died, with the `limits` they hold for.
    """

    value: Any = None
    error: dict[str, Any] | None = None

    @property
    def lasting(self) -> bool:
        """True when the same call would come to the same outcome again, whatever the limits."""
        return self.error is None or self.error["kind"] in ("input", "usage", "launch")


def call(engine: str, name: str, payload: Mapping[str, Any]) -> Outcome:
    """Run one of `CALLS` against the engine module; never raises but for memory."""
    try:
        return Outcome(value=CALLS[name](importlib.import_module(engine), payload))
    except InputError as error:
        places = [{**asdict(d), "rendered": d.render()} for d in error.diagnostics]
        return Outcome(error=_error("input", str(error), places))
    except LaunchError as error:
        return Outcome(error=_error("launch", str(error)))
    except (UsageError, SamebitsError) as error:
        return Outcome(error=_error("usage", str(error)))
    except MemoryError:
        raise
    except Exception as error:
        return Outcome(error=_error("internal", f"{type(error).__name__}: {error}"))


def _error(kind: str, message: str, places: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"kind": kind, "message": message, "diagnostics": places or []}


def _sign(api: ModuleType, p: Mapping[str, Any]) -> Any:
    return api.sign(p["text"], isa=p["isa"], kernel=p["kernel"], file=p["file"]).to_json()


def _compare(api: ModuleType, p: Mapping[str, Any]) -> Any:
    a, b = p["a"], p["b"]
    declared = {"assume": tuple(p["assume"])} if p["assume"] else {}
    verdict = api.compare_at(
        a["text"], b["text"], p["launches"], isa_a=a["isa"], isa_b=b["isa"],
        kernel_a=a["kernel"], kernel_b=b["kernel"], strict=p["strict"],
        **declared)
    return verdict.to_json()


def _kernel(p: Mapping[str, Any]) -> KernelInput:
    return KernelInput(
        p["name"], p["text"], p["isa"], p["kernel"], dict(p["config"]), tuple(p["launches"]))


def _examine(api: ModuleType, p: Mapping[str, Any]) -> Any:
    return api.examine(_kernel(p)).to_json()


def _looks(api: ModuleType, p: Mapping[str, Any]) -> Any:
    found = [api.Examined.from_json(examined) for examined in p["found"]]
    return list(api.look_again(found).items())


def _look(api: ModuleType, p: Mapping[str, Any]) -> Any:
    return api.examine(_kernel(p), divisible=tuple(p["divisible"])).to_json()


def provisional_class(examined: Mapping[str, Any]) -> str:
    """A label that kernels of one class mostly share, for progress events only."""
    return str(examined["launch_signature"] or examined["signature"]["text"])


def _classify(api: ModuleType, p: Mapping[str, Any]) -> Any:
    items = []
    for number, (kernel, examined) in enumerate(p["items"]):
        found = api.Examined.from_json(examined)
        items.append((_kernel(kernel), replace(found, name=kernel["name"])))
        if number % 64 == 0:
            report_progress(number, len(p["items"]))
    errors = [tuple(error) for error in p["errors"]]
    again = {int(n): api.Examined.from_json(second) for n, second in p["again"].items()}
    return api.classify(items, errors, again).to_json()


def _outline(api: ModuleType, p: Mapping[str, Any]) -> Any:
    return api.outline(p["text"], isa=p["isa"], kernel=p["kernel"])


def _kernels(api: ModuleType, p: Mapping[str, Any]) -> Any:
    return list(api.kernels_in(p["text"], isa=p["isa"]))


#: name -> function(engine module, payload); payload keys as in `server.models`
CALLS: dict[str, Callable[[ModuleType, Mapping[str, Any]], Any]] = {
    "sign": _sign,
    "compare": _compare,
    "examine": _examine,
    "looks": _looks,
    "look": _look,
    "classify": _classify,
    "outline": _outline,
    "kernels": _kernels,
}
