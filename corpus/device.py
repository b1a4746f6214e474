"""The CUDA driver through ctypes: load a cubin or PTX text, launch by launch facts, read back.

Launch facts and raw input bits in, raw output bits out. Nothing of Triton's launcher is involved,
so the facts are checked by the very act. Raises ``DeviceError`` with the driver's own words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpus.inputs import RAW, Bits

#: every byte of an output buffer before the launch
POISON = 0xA5

_TENSOR_TYPES = {"u8": 0, "i8": 0, "e4m3": 0, "e5m2": 0, "i16": 1, "u32": 2, "i32": 3, "i64": 5,
                 "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size


class DeviceError(RuntimeError):
    """The driver refused; ``code`` is its CUresult."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _TensorMap(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 16)]


@dataclass(slots=True)
class Device:
    """One CUDA context, with the memory of the buffers that the last launches used."""

    cuda: Any = None
    context: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)

    def open(self) -> Device:
        """Create a context on device 0."""
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self._do("cuInit", 0)
        device = ctypes.c_int()
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        # The primary context exists in every driver; cuCtxCreate's signature moved in CUDA 13.
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self._do("cuCtxSetCurrent", self.context)
        return self

    def describe(self) -> dict[str, Any]:
        """Name, compute capability and driver version of the device."""
        name = ctypes.create_string_buffer(128)
        self._do("cuDeviceGetName", name, 128, 0)
        numbers = []
        for attribute in (75, 76):
            value = ctypes.c_int()
            self._do("cuDeviceGetAttribute", ctypes.byref(value), attribute, 0)
            numbers.append(value.value)
        driver = ctypes.c_int()
        self._do("cuDriverGetVersion", ctypes.byref(driver))
        return {"name": name.value.decode(), "capability": f"{numbers[0]}.{numbers[1]}",
                "cuda": f"{driver.value // 1000}.{driver.value % 1000 // 10}"}

    def _do(self, call: str, *args: Any) -> None:
        code = getattr(self.cuda, call)(*args)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(code, ctypes.byref(text))
            raise DeviceError(code, f"{call}: {(text.value or b'?').decode()}")

    def load(self, image: bytes, entry: str, shared: int) -> tuple[Any, Any]:
        """Load a cubin, or PTX text for the driver to assemble; returns (module, function)."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(8192))
        try:
            self._do("cuModuleLoadDataEx", ctypes.byref(module), image + b"\0", 2, options, values)
        except DeviceError as error:
            raise DeviceError(error.code, f"{error}: {log.value.decode()[:400]}") from error
        self._do("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared > 48 * 1024:
            self._do("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        return module, function

    def unload(self, module: Any) -> None:
        """Drop a loaded module."""
        self._do("cuModuleUnload", module)

    def buffer(self, name: str, size: int) -> int:
        """The address of a named buffer of at least ``size`` bytes, kept between launches."""
        address, room = self.memory.get(name, (0, 0))
        if room < size:
            if address:
                self._do("cuMemFree_v2", ctypes.c_uint64(address))
            room = max(4096, 1 << (size - 1).bit_length())
            pointer = ctypes.c_uint64()
            self._do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(room))
            address = pointer.value
            self.memory[name] = (address, room)
        return address

    def launch(
        self, function: Any, facts: Mapping[str, Any], inputs: Mapping[str, Bits]
    ) -> dict[str, Bits]:
        """Run one launch on given input bits; returns the whole of every written buffer."""
        arguments: list[Any] = []
        outputs: list[tuple[str, str, int, int]] = []
        for arg in facts["args"]:
            if arg is None:
                arguments.append(ctypes.c_uint64(0))
            elif "buffer" in arg or "tensormap" in arg:
                body = arg.get("tensormap", arg)
                name, raw = body["buffer"], np.dtype(RAW[body["dtype"]])
                size = int(body["elements"]) * raw.itemsize
                address = self.buffer(name, size)
                self._fill(address, size, body["role"], inputs.get(name))
                if body["role"] in ("out", "inout"):
                    outputs.append((name, body["dtype"], address, int(body["elements"])))
                arguments.append(self._map(body, address) if "tensormap" in arg
                                 else ctypes.c_uint64(address))
            else:
                ((kind, value),) = arg.items()
                ctype = {"i1": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
                         "f32": ctypes.c_float, "f64": ctypes.c_double}[kind]
                arguments.append(ctype(value))
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(a), ctypes.c_void_p) for a in arguments))
        self._do("cuLaunchKernel", function, *facts["grid"], *facts["block"],
                 facts.get("shared", 0), None, pointers, None)
        self._do("cuCtxSynchronize")
        found = {}
        for name, dtype, address, elements in outputs:
            bits = np.empty(elements, RAW[dtype])
            self._do("cuMemcpyDtoH_v2", bits.ctypes.data_as(ctypes.c_void_p),
                     ctypes.c_uint64(address), ctypes.c_size_t(bits.nbytes))
            found[name] = bits
        return found

    def _fill(self, address: int, size: int, role: str, bits: Bits | None) -> None:
        if role in ("in", "inout"):
            assert bits is not None
            bits = np.ascontiguousarray(bits)
            self._do("cuMemcpyHtoD_v2", ctypes.c_uint64(address),
                     bits.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(bits.nbytes))
        else:
            self._do("cuMemsetD8_v2", ctypes.c_uint64(address),
                     ctypes.c_ubyte(POISON if role == "out" else 0), ctypes.c_size_t(size))

    def _map(self, body: Mapping[str, Any], address: int) -> Any:
        """Encode a tiled tensor map; the driver wants dimensions innermost first."""
        rank = len(body["shape"])
        width = np.dtype(RAW[body["dtype"]]).itemsize
        dims = (ctypes.c_uint64 * rank)(*reversed(body["shape"]))
        strides = (ctypes.c_uint64 * max(rank - 1, 1))(
            *[s * width for s in reversed(body["strides"][:-1])])
        box = (ctypes.c_uint32 * rank)(*reversed(body["box"]))
        ones = (ctypes.c_uint32 * rank)(*[1] * rank)
        # A tensor map must lie on a 64-byte boundary.
        room = (ctypes.c_uint8 * 192)()
        at = (ctypes.addressof(room) + 63) & ~63
        self._do("cuTensorMapEncodeTiled", ctypes.c_void_p(at), _TENSOR_TYPES[body["dtype"]], rank,
                 ctypes.c_void_p(address), dims, strides, box, ones, body.get("interleave", 0),
                 _SWIZZLES[body["swizzle"]], 2, 0)
        encoded = _TensorMap.from_address(at)
        encoded._keep = room
        return encoded
