"""What a call of a Triton kernel says: grid, block, arguments, launch facts, shared memory.

In: a compiled configuration and the arguments of the call that is being tuned for. Out: launch
facts as `checker.launch` reads them, and the checks that a verdict's premises hold for that call.
Works on Triton's objects by their attributes; imports neither Triton nor PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checker.assume import multiple

__all__ = [
    "Compiled", "broken_premise", "grid_of", "launch_facts", "overlapping", "threads_of",
]

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


def launch_facts(
    tuner: Any, one: Compiled, named: Mapping[str, Any], kwargs: Mapping[str, Any],
    *, everything: bool = False,
) -> dict[str, Any] | None:
    """The launch facts of a call (see `checker.launch`), or None where they cannot be had.

    None as well, unless `everything`: for launches too large to replay, and where a scalar
    argument is not part of the tuning key.
    """
    bound = _bound(tuner, one, named, kwargs)
    grid = grid_of(tuner, one, named, kwargs)
    if grid is None:
        return None
    shape, threads = list(grid), threads_of(one.kernel)
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
        indices, by = multiple(code) or ((), 1)
        for index in indices:
            name = names[index]
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


def grid_of(
    tuner: Any, one: Compiled, named: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> tuple[int, int, int] | None:
    """The grid that the call would launch; None where there is none."""
    grid = kwargs.get("grid")
    grid = grid(_bound(tuner, one, named, kwargs)) if callable(grid) else grid
    if grid is None:
        return None
    x, y, z = [int(n) for n in grid] + [1] * (3 - len(grid))
    return x, y, z


def threads_of(kernel: Any) -> int:
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
