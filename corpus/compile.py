"""Case in, assembly text and launch facts out: the Triton back end of the corpus, without a GPU.

Works with Triton 3.6 to 3.9. Launch facts are JSON::

    {"grid": [x, y, z], "block": [x, y, z], "shared": bytes, "args": [...]}

with one entry for each parameter of the compiled entry, in order:

* ``{"buffer": name, "dtype": "f16", "elements": n, "role": "in" | "out" | "inout"}``; ``"values"``
  is index data that every draw shares, ``"init": {"kind": "zeros"}`` a start at zero; ``"draw"``
  holds hints for ``corpus.inputs``; ``"role": "scratch"`` is memory that the kernel uses and nobody
  reads afterwards;
* ``{"i32": 5}``, ``{"i64": 5}``, ``{"i1": 0}``, ``{"f32": 0.5}`` for scalars;
* ``{"tensormap": {"buffer", "dtype", "elements", "role", "shape", "strides", "box", "swizzle",
  "interleave"}}``: a 128-byte TMA descriptor by value; shape, strides (in elements) and box are
  outermost first; swizzle is the width in bytes (0, 32, 64, 128), interleave is 0;
* ``null`` for the scratch pointers that Triton appends.

Parameters that Triton removed (constexprs, integers equal to 1) do not appear.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.spec import DTYPES, Buf, Case, Launch

#: target name -> (backend, architecture, warp size, ISA of the text, file suffix)
TARGETS: Mapping[str, tuple[str, int | str, int, str, str]] = {
    "sm_80": ("cuda", 80, 32, "ptx", "ptx"),
    "sm_89": ("cuda", 89, 32, "ptx", "ptx"),
    "sm_90": ("cuda", 90, 32, "ptx", "ptx"),
    "sm_100": ("cuda", 100, 32, "ptx", "ptx"),
    "sm_120": ("cuda", 120, 32, "ptx", "ptx"),
    "gfx90a": ("hip", "gfx90a", 64, "gcn", "amdgcn"),
    "gfx942": ("hip", "gfx942", 64, "gcn", "amdgcn"),
    "gfx950": ("hip", "gfx950", 64, "gcn", "amdgcn"),
    "gfx1100": ("hip", "gfx1100", 32, "gcn", "amdgcn"),
    "gfx1200": ("hip", "gfx1200", 32, "gcn", "amdgcn"),
}

#: options that only one back end knows; a case may carry both and each target takes its own
NVIDIA_ONLY = frozenset({"maxnreg", "ptx_options", "num_ctas"})
AMD_ONLY = frozenset({"waves_per_eu", "matrix_instr_nonkdim", "kpack"})

#: raised when the form of launch facts or manifest lines changes
FORMAT = 2

_PARAM = re.compile(r"^\s*\.param\s+(.*?)[,\s]*$", re.M)
_ENTRY = re.compile(r"\.entry\s+[\w$]+\s*\((.*?)\)", re.S)


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compiled case: text, ISA, one launch-fact object per launch, and the loadable image."""

    text: str
    isa: str
    launches: tuple[dict[str, Any], ...]
    image: bytes
    entry: str
    producer: str


def triton_version() -> str:
    """The producer string, e.g. ``triton 3.9.0``."""
    import triton

    return f"triton {triton.__version__}"


def _signature(case: Case) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int], Any]]:
    """Triton's signature, constants and attributes, specialised as its own launcher does."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = dict(case.constexprs)
    attrs: dict[tuple[int], Any] = {}
    launch = case.launches[0]
    special = case.specialisation(launch)
    for index, name in enumerate(case.fn.arg_names):
        if name in case.constexprs:
            signature[name] = "constexpr"
            continue
        value = launch.args[name]
        if isinstance(value, Buf):
            spelled = DTYPES[value.dtype][1]
            if value.desc is not None:
                box = ",".join(str(v) for v in value.desc.box)
                signature[name] = f"tensordesc<{spelled}[{box}]>"
                continue
            signature[name] = f"*{spelled}"
            attrs[(index,)] = [["tt.divisibility", 16]]
        elif isinstance(value, float):
            signature[name] = "fp32"
        elif special[name] == "1":
            signature[name] = "constexpr"
            constants[name] = 1
        else:
            signature[name] = "i64" if name in case.i64 else "i32"
            if special[name] == "16":
                attrs[(index,)] = [["tt.divisibility", 16]]
    return signature, constants, attrs


def case_key(case: Case, target: str) -> str:
    """Content address of a manifest line: whatever its text or its facts depend on."""
    signature, constants, attrs = _signature(case)
    parts = (case.fn.cache_key, signature, sorted((k, str(v)) for k, v in constants.items()),
             sorted(attrs.items()), sorted((k, str(v)) for k, v in case.options.items()),
             target, triton_version(), case.name, case.launches, FORMAT)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def compile_case(case: Case, target: str) -> Compiled:
    """Compile one case; raises whatever Triton raises."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    case.check()
    backend, arch, warp, isa, suffix = TARGETS[target]
    triton.knobs.compilation.disable_line_info = True
    signature, constants, attrs = _signature(case)
    if backend == "hip":
        for index, name in enumerate(case.fn.arg_names):
            if signature[name].startswith("*"):
                attrs[(index,)] = [*attrs[(index,)], ["tt.pointer_range", 32]]
    skip = AMD_ONLY if backend == "cuda" else NVIDIA_ONLY
    # Triton's default moved between versions; the corpus says what it wants.
    options = {"enable_fp_fusion": True}
    options |= {k: v for k, v in case.options.items() if k not in skip}
    source = ASTSource(case.fn, signature, constants, attrs)
    compiled = triton.compile(source, target=GPUTarget(backend, arch, warp), options=options)
    text = compiled.asm[suffix]
    image = compiled.asm.get("cubin") or compiled.asm.get("hsaco") or b""
    meta = compiled.metadata
    block = [int(meta.num_warps) * warp, 1, 1]
    # Warp specialisation launches more warps than num_warps says.
    found = re.search(r"^\s*\.reqntid\s+(\d+)", text, re.M)
    if found:
        block[0] = int(found.group(1))
    launches = tuple(launch_facts(case, launch, signature, meta, text, isa, block)
                     for launch in case.launches)
    return Compiled(text, isa, launches, image, str(meta.name), triton_version())


def group_of(family: str, launches: Iterable[Mapping[str, Any]]) -> str:
    """Kernels of one group have one parameter list and the same arguments: they can be compared.

    Scratch and the boxes of tensor maps are the compiler's choice and do not count.
    """
    args = [[_plain(a) for a in launch["args"] if a is not None and a.get("role") != "scratch"]
            for launch in launches]
    return f"{family}/{hashlib.sha256(json.dumps(args, sort_keys=True).encode()).hexdigest()[:8]}"


def _plain(arg: Mapping[str, Any]) -> Any:
    """An argument without what the compiler chose about it."""
    body = arg.get("tensormap")
    if body is None:
        return arg
    return {k: v for k, v in body.items() if k not in ("box", "swizzle", "interleave")}


def parameter_count(text: str, isa: str) -> int:
    """How many explicit parameters the (only) entry of a text declares."""
    if isa == "ptx":
        found = _ENTRY.search(text)
        if found is None:
            raise ValueError("no .entry in the text")
        return len(_PARAM.findall(found.group(1)))
    kinds = re.findall(r"\.value_kind:\s+(\w+)", text)
    return sum(not kind.startswith("hidden") for kind in kinds)


def launch_facts(
    case: Case,
    launch: Launch,
    signature: Mapping[str, str],
    meta: Any,
    text: str,
    isa: str,
    block: list[int],
) -> dict[str, Any]:
    """The launch facts of one launch of a compiled case (format: module docstring)."""
    args: list[Any] = []
    maps = iter(getattr(meta, "tensordesc_meta", None) or ())
    for name in case.fn.arg_names:
        kind = signature[name]
        if kind == "constexpr":
            continue
        value = launch.args[name]
        if isinstance(value, Buf):
            if value.desc is not None:
                args += _tensor_map(name, value, next(maps, None))
            else:
                args.append(buffer_facts(name, value))
        elif isinstance(value, float):
            args.append({"f32": value})
        else:
            args.append({kind: value})
    missing = parameter_count(text, isa) - len(args)
    if missing < 0:
        raise ValueError(f"{case.name}: {len(args)} arguments for {len(args) + missing} parameters")
    scratch = int(getattr(meta, "global_scratch_size", 0) or 0)
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    for index in range(missing):
        if index == 0 and scratch:
            args.append({"buffer": "global_scratch", "dtype": "u8", "elements": scratch * blocks,
                         "role": "scratch"})
        else:
            args.append(None)
    return {"grid": list(launch.grid), "block": block, "shared": int(meta.shared), "args": args}


def buffer_facts(name: str, value: Buf) -> dict[str, Any]:
    """The JSON of one buffer argument."""
    facts: dict[str, Any] = {"buffer": name.removesuffix("_ptr"), "dtype": value.dtype,
                             "elements": value.elements, "role": value.role}
    if value.values is not None:
        facts["values"] = list(value.values)
    if value.zero:
        facts["init"] = {"kind": "zeros"}
    draw: dict[str, Any] = {}
    if value.axis is not None:
        draw["axis"] = list(value.axis)
        draw["mirror"] = value.mirror
    if value.positive:
        draw["positive"] = True
    if draw:
        facts["draw"] = draw
    return facts


def _tensor_map(name: str, value: Buf, meta: Any) -> list[Any]:
    """A host TMA descriptor: the 128-byte map, then its shape and strides as Triton passes them."""
    assert value.desc is not None
    shape = list(value.desc.shape)
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    tail = [*({"i32": v} for v in shape), *({"i64": v} for v in strides)]
    if meta is None:
        # The pointer form: padding, and from 3.7 on rounding to tf32.
        flags = 1 if triton_version().startswith("triton 3.6") else 2
        base = [buffer_facts(name, value), *({"i64": v} for v in shape),
                *({"i64": v} for v in strides), *({"i1": 0} for _ in range(flags))]
        return [*base, *tail]
    facts = buffer_facts(name, value)
    facts |= {"shape": shape, "strides": strides, "box": list(meta["block_size"]),
              "swizzle": (0, 32, 64, 128)[int(meta["swizzle"])], "interleave": 0}
    return [{"tensormap": facts}, *tail]
