"""What a test module keeps of the kernels it walked is given back when the module is done."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def forget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Clear a module's caches behind its last test: a walked kernel can take 100 MB."""
    yield
    for value in vars(request.module).values():
        clear = getattr(value, "cache_clear", None)
        if callable(clear):
            clear()
    gc.collect()
