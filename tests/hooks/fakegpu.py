"""A GPU that is not there: Triton's driver, tensors and timer, for offline compilation.

Works with Triton 3.4 to 3.9: `install()` makes JIT functions compile for a target without a
device, and "launch" into a list.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

LAUNCHED: list[str] = []
_addresses = itertools.count(0x7F00_0000_0000, 0x1000_0000)


class Tensor:
    """What Triton asks of a tensor: dtype, address, shape, strides."""

    def __init__(self, dtype: str, *shape: int, address: int | None = None) -> None:
        self.dtype = dtype
        self.shape = shape
        self.address = next(_addresses) if address is None else address

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        out = [1]
        for size in reversed(self.shape[1:]):
            out.append(out[-1] * size)
        return tuple(reversed(out))

    def element_size(self) -> int:
        return {"fp16": 2, "bf16": 2, "fp32": 4, "i32": 4}[self.dtype]

    def ptr_range(self) -> int:
        return 2**40


class Driver:
    """A driver of one device that never runs anything."""

    def __init__(self, backend: str, arch: Any, warp: int) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget(backend, arch, warp)
        self.binary = 0
        self.utils = SimpleNamespace(
            load_binary=lambda *args: (1, 1, 32, 0, 1024), unload_module=lambda module: None,
            get_device_properties=lambda device: {"max_shared_mem": 232448},
        )

    def launcher_cls(self, src: Any, metadata: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: LAUNCHED.append(metadata.name)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        return self.target

    def get_device_interface(self) -> Any:
        return SimpleNamespace(synchronize=lambda: None)

    def get_active_torch_device(self) -> str:
        return "cuda"

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def bench(call: Callable[[], None], quantiles: Any = None, **kwargs: Any) -> list[float]:
            call()
            return [1.0, 1.0, 1.0]

        return bench

    def get_empty_cache_for_benchmark(self) -> None:
        return None


@contextmanager
def install(backend: str = "cuda", arch: Any = 90, warp: int = 32) -> Iterator[None]:
    """Let Triton's JIT compile for a target that this machine has not."""
    from triton.runtime.driver import driver

    LAUNCHED.clear()
    before = driver.__dict__.copy()
    driver.set_active(Driver(backend, arch, warp))
    try:
        yield
    finally:
        driver.__dict__.clear()
        driver.__dict__.update(before)
