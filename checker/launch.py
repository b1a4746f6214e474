"""Launch facts: grid, block and arguments of one launch, as JSON and as data.

In: JSON data such as `{"grid": [4, 1, 1], "block": [128, 1, 1], "args": [{"buffer": "x", "dtype":
"f16", "elements": 64, "role": "in"}, {"i32": 5}, null]}`. Out: a frozen `Launch`. Errors are
`LaunchError` and name the parameter. Nothing is guessed but the block size where the text fixes it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xxhash

from checker.core import Program
from checker.errors import LaunchError

__all__ = ["Argument", "Buffer", "DTYPE_BYTES", "Launch", "Scalar", "Scratch", "TensorMapArg"]

DTYPE_BYTES: Mapping[str, int] = {
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1, "f8e4m3": 1, "f8e5m2": 1,
    "e4m3fn": 1, "i1": 1, "u8": 1, "i8": 1, "s8": 1, "u16": 2, "i16": 2, "s16": 2, "u32": 4,
    "i32": 4, "s32": 4, "u64": 8, "i64": 8, "s64": 8, "b8": 1, "b16": 2, "b32": 4, "b64": 8,
}
_ROLES = ("in", "out", "inout", "scratch")
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})  # given as numbers; all others as integers
MOST_VALUES = 1 << 24  # elements of a buffer whose contents are given: what the replay takes
_SCALAR_BYTES: Mapping[str, int] = {
    "i1": 1, "u1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8,
    "u64": 8, "f16": 2, "bf16": 2, "f32": 4, "fp32": 4, "f64": 8, "fp64": 8, "b32": 4, "b64": 8,
}


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer argument: name, element type, length; `values` fixes its contents.

    role: in | out | inout | scratch (memory nobody reads afterwards). alias: the buffer whose
    memory this one shares, `alias_offset` bytes in.
    """

    name: str
    dtype: str
    elements: int
    role: str = "inout"
    values: tuple[int | float, ...] | None = None
    alias: str = ""
    alias_offset: int = 0
    init: str = ""

    @property
    def elem_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole buffer."""
        return self.elements * self.elem_bytes


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar argument by its bits."""

    type: str
    bits: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TensorMapArg:
    """A 128-byte tensor map passed by value over a whole buffer.

    shape, strides (in elements) and box are outermost first; swizzle in bytes (0 32 64 128).
    """

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    interleave: int = 0
    fill_nan: bool = False


@dataclass(frozen=True, slots=True)
class Scratch:
    """A null pointer (Triton's scratch parameters) or an argument without a value."""


Argument = Buffer | Scalar | TensorMapArg | Scratch


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: `grid` in blocks, `block` in threads (None: the text fixes it), arguments."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None
    args: tuple[Argument, ...]
    shared_bytes: int | None = None
    source: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def from_json(cls, data: Any) -> Launch:
        """Read launch facts; raises LaunchError."""
        if isinstance(data, Launch):
            return data
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except ValueError as error:
                raise LaunchError(f"launch facts are not JSON: {error}") from None
        if not isinstance(data, Mapping):
            raise LaunchError("launch facts must be an object with grid, block and args")
        if not isinstance(data.get("args"), Sequence) or isinstance(data.get("args"), str):
            raise LaunchError("launch facts need `args`, one entry for each kernel parameter")
        grid = _dims(data.get("grid"), "grid")
        block = None if data.get("block") is None else _dims(data["block"], "block")
        args = tuple(_argument(a, i) for i, a in enumerate(data["args"]))
        shared = data.get("shared")
        if shared is not None and (not isinstance(shared, int) or not 0 <= shared < 1 << 32):
            raise LaunchError("`shared` must be a number of bytes")
        return cls(grid, block, args, shared, dict(data))

    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer, tensor maps' included, in argument order."""
        out = []
        for arg in self.args:
            if isinstance(arg, Buffer):
                out.append(arg)
            elif isinstance(arg, TensorMapArg):
                out.append(arg.buffer)
        return tuple(out)

    def block_for(self, program: Program) -> tuple[int, int, int]:
        """The block size for this kernel; raises LaunchError where the two disagree."""
        if self.block is None:
            if program.block is None:
                raise LaunchError("launch facts need `block`: the kernel does not fix its block "
                                  "size")
            return program.block
        if program.block is not None and _count(program.block) != _count(self.block):
            raise LaunchError(f"block {list(self.block)} differs from the kernel's required "
                              f"{list(program.block)}")
        if program.max_threads is not None and _count(self.block) > program.max_threads:
            raise LaunchError(f"block {list(self.block)} exceeds the kernel's "
                              f".maxntid {program.max_threads}")
        return self.block

    def validate(self, program: Program) -> None:
        """Check the arguments against the kernel's parameters; raises LaunchError."""
        self.block_for(program)
        if len(self.args) != len(program.params):
            raise LaunchError(f"{program.name} has {len(program.params)} parameters, the launch "
                              f"facts give {len(self.args)} arguments")
        for param, arg in zip(program.params, self.args, strict=True):
            what = f"argument {param.index} ({param.name})"
            if isinstance(arg, Scalar):
                if param.pointer:
                    raise LaunchError(f"{what}: the parameter is a pointer, the launch facts give "
                                      f"a scalar {arg.type}")
                if param.size_bytes < arg.size_bytes:
                    raise LaunchError(f"{what}: the parameter has {param.size_bytes} bytes, "
                                      f"{arg.type} has {arg.size_bytes}")
            elif isinstance(arg, Buffer) and param.size_bytes != 8:
                raise LaunchError(f"{what}: the parameter has {param.size_bytes} bytes, a buffer "
                                  "needs a 64-bit pointer")
            elif isinstance(arg, TensorMapArg) and param.size_bytes not in (8, 128):
                raise LaunchError(f"{what}: a tensor map needs a 128-byte parameter")
        seen: dict[str, Buffer] = {}
        for buffer in self.buffers():
            if buffer.name in seen and seen[buffer.name] != buffer:
                raise LaunchError(f"buffer {buffer.name} is given twice with different facts")
            if buffer.alias and buffer.alias not in seen:
                raise LaunchError(f"buffer {buffer.name}: alias names no buffer before it: "
                                  f"{buffer.alias!r}")
            if buffer.alias and not 0 <= buffer.alias_offset < 1 << 40:
                raise LaunchError(f"buffer {buffer.name}: `alias_offset` must be a number of "
                                  "bytes")
            seen[buffer.name] = buffer

    def to_json(self) -> dict[str, Any]:
        """Return canonical data: what `digest` covers."""
        return {"grid": list(self.grid), "block": None if self.block is None else list(self.block),
                "args": [_to_json(a) for a in self.args]}

    def digest(self) -> str:
        """32 hex digits over what kernels of one launch share: the arguments with a value.

        Grid and block size are knobs of a kernel, null pointers are its compiler's business.
        """
        data = {"args": [a for a in self.to_json()["args"] if a is not None]}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return str(xxhash.xxh3_128_hexdigest(text.encode()))


def _count(dims: tuple[int, int, int]) -> int:
    return dims[0] * dims[1] * dims[2]


def _dims(data: Any, what: str) -> tuple[int, int, int]:
    if isinstance(data, int) and not isinstance(data, bool):
        data = [data]
    if not isinstance(data, Sequence) or isinstance(data, str) or not 1 <= len(data) <= 3:
        raise LaunchError(f"`{what}` must be a list of one to three sizes")
    full = [*data, 1, 1][:3]
    if not all(isinstance(v, int) and not isinstance(v, bool) and 0 < v < 1 << 31 for v in full):
        raise LaunchError(f"`{what}` must hold positive integers below 2^31")
    return (full[0], full[1], full[2])


def _argument(data: Any, index: int) -> Argument:
    what = f"argument {index}"
    if data is None:
        return Scratch()
    if not isinstance(data, Mapping):
        raise LaunchError(f"{what}: expected an object or null")
    if "buffer" in data:
        return _buffer(data, what)
    if "tensormap" in data:
        return _tensor_map(data["tensormap"], what)
    kinds = [k for k in data if k in _SCALAR_BYTES]
    if len(kinds) != 1:
        raise LaunchError(f"{what}: expected one of buffer, tensormap, "
                          f"{', '.join(sorted(_SCALAR_BYTES))}; found {sorted(data)}")
    return _scalar(kinds[0], data[kinds[0]], what)


def _integer(data: Mapping[str, Any], key: str, default: int, what: str) -> int:
    value = data.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
        raise LaunchError(f"{what}: `{key}` must be an integer")
    return value


def _integers(data: Mapping[str, Any], key: str, what: str) -> tuple[int, ...]:
    value = data.get(key)
    if not isinstance(value, list | tuple) or not all(
            isinstance(v, int) and not isinstance(v, bool) and abs(v) < 1 << 63 for v in value):
        raise LaunchError(f"{what}: `{key}` must be a list of integers")
    return tuple(value)


def _buffer(data: Mapping[str, Any], what: str) -> Buffer:
    name = data.get("buffer")
    if not isinstance(name, str) or not name:
        raise LaunchError(f"{what}: `buffer` must be a name")
    what = f"{what} (buffer {name})"
    dtype = data.get("dtype")
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise LaunchError(f"{what}: unknown dtype {dtype!r}; one of {', '.join(DTYPE_BYTES)}")
    elements = _integer(data, "elements", -1, what)
    if elements < 0:
        raise LaunchError(f"{what}: `elements` must be a count")
    role = data.get("role", "inout")
    if role not in _ROLES:
        raise LaunchError(f"{what}: unknown role {role!r}; one of {', '.join(_ROLES)}")
    values = data.get("values")
    if values is None and isinstance(data.get("init"), Mapping):
        values = _generate(data["init"], elements, what)
    alias = data.get("alias") or ""
    if not isinstance(alias, str):
        raise LaunchError(f"{what}: `alias` must name a buffer")
    return Buffer(name, dtype, elements, role,
                  None if values is None else _values(values, dtype, elements, what), alias,
                  _integer(data, "alias_offset", 0, what))


def _values(values: Any, dtype: str, elements: int, what: str) -> tuple[int | float, ...]:
    """Contents as numbers of the buffer's type."""
    if not isinstance(values, list | tuple) or len(values) != elements:
        raise LaunchError(f"{what}: `values` must have {elements} entries")
    if not all(isinstance(v, int | float) for v in values):
        raise LaunchError(f"{what}: `values` must be numbers")
    if dtype not in _FLOATS:
        if not all(isinstance(v, int) for v in values):
            raise LaunchError(f"{what}: `values` of {dtype} must be integers")
        bits = 8 * DTYPE_BYTES[dtype]
        low, high = min(values, default=0), max(values, default=0)
        if low < -(1 << bits - 1) or high >= 1 << bits:
            raise LaunchError(f"{what}: {low if low < 0 else high} does not fit {dtype}")
    else:
        largest = max(values, key=_size, default=0)
        try:
            float_bits(dtype, float(largest))
        except OverflowError:
            raise LaunchError(f"{what}: {largest} does not fit {dtype}") from None
    return tuple(values)


def _size(value: float) -> float:
    """Numbers by size; infinities and NaN, which fit everywhere, are none."""
    return abs(value) if isinstance(value, int) or math.isfinite(value) else 0


def _generate(init: Mapping[str, Any], elements: int, what: str) -> Sequence[int]:
    """Index data by rule: arange [start, step], fill v, modulo [a, b, n], or kind "zeros"."""
    if elements > MOST_VALUES:
        raise LaunchError(f"{what}: `init` fills {MOST_VALUES} elements at most")
    if init.get("kind") == "zeros":
        return [0] * elements
    if "fill" in init:
        return [init["fill"]] * elements
    if "arange" in init:
        numbers = _integers(init, "arange", what)
        if len(numbers) == 2:
            start, step = numbers
            return [start + step * i for i in range(elements)]
    elif "modulo" in init:
        numbers = _integers(init, "modulo", what)
        if len(numbers) == 3 and numbers[2] > 0:
            a, b, n = numbers
            return [(a * i + b) % n for i in range(elements)]
    raise LaunchError(f"{what}: unknown init {dict(init)}; use fill V, arange [START, STEP], "
                      "modulo [A, B, N] or kind zeros")


def _tensor_map(data: Any, what: str) -> TensorMapArg:
    if not isinstance(data, Mapping):
        raise LaunchError(f"{what}: `tensormap` must be an object")
    buffer = _buffer(data, what)
    shape, strides, box = (_integers(data, name, what) for name in ("shape", "strides", "box"))
    if not len(shape) == len(strides) == len(box) or not 1 <= len(shape) <= 5:
        raise LaunchError(f"{what}: shape, strides and box must have one length from 1 to 5")
    swizzle = _integer(data, "swizzle", 0, what)
    if swizzle not in (0, 32, 64, 128):
        raise LaunchError(f"{what}: swizzle is 0, 32, 64 or 128 bytes")
    return TensorMapArg(buffer, shape, strides, box, swizzle,
                        _integer(data, "interleave", 0, what), bool(data.get("fill_nan", False)))


def _scalar(kind: str, value: Any, what: str) -> Scalar:
    size = _SCALAR_BYTES[kind]
    if isinstance(value, bool):
        value = int(value)
    if kind[0] in "iub" and kind != "bf16":
        if not isinstance(value, int):
            raise LaunchError(f"{what}: {kind} needs an integer")
        bits = 1 if kind in ("i1", "u1") else 8 * size
        if not -(1 << max(bits - 1, 1)) <= value < 1 << bits:
            raise LaunchError(f"{what}: {value} does not fit {kind}")
        return Scalar(kind, value & ((1 << 8 * size) - 1), size)
    if not isinstance(value, int | float):
        raise LaunchError(f"{what}: {kind} needs a number")
    try:
        return Scalar(kind, float_bits(kind, float(value)), size)
    except OverflowError:
        raise LaunchError(f"{what}: {value} does not fit {kind}") from None


def float_bits(kind: str, value: float) -> int:
    """Bits of a number in a float type (bf16: rounded to nearest even)."""
    if kind in ("f64", "fp64"):
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    if kind == "f16":
        return int(struct.unpack("<H", struct.pack("<e", value))[0])
    bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    if kind == "bf16":
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if value == value else bits >> 16 | 0x40
    return bits


def _to_json(arg: Argument) -> Any:
    if isinstance(arg, Scratch):
        return None
    if isinstance(arg, Scalar):
        return {"bits": f"{arg.bits:x}", "bytes": arg.size_bytes}
    if isinstance(arg, TensorMapArg):
        return {"tensormap": _to_json(arg.buffer), "shape": list(arg.shape),
                "strides": list(arg.strides)}
    out: dict[str, Any] = {"buffer": arg.name, "dtype": arg.dtype, "elements": arg.elements}
    if arg.role == "scratch":
        out["role"] = "scratch"
    if arg.values is not None:
        out["values"] = list(arg.values)
    if arg.alias:
        out["alias"] = [arg.alias, arg.alias_offset]
    return out
