"""Measured tables of the special function unit of sm_90, read from `data/` on first use."""

from __future__ import annotations

import lzma
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

__all__ = ["encode", "half_table", "ulp_table", "value_table"]


def _read(name: str) -> bytes:
    return lzma.decompress((files("checker.arith") / "data" / name).read_bytes())


@cache
def ulp_table(name: str) -> NDArray[np.int8]:
    """Return data/<name>.int8.xz: distance of each result, in units of the last place, from the
    correctly rounded one (see data/README.md for the index)."""
    table: NDArray[np.int8] = np.frombuffer(_read(f"{name}.int8.xz"), np.int8)
    return table


@cache
def value_table(name: str) -> NDArray[np.uint32]:
    """Return data/<name>.delta.xz: f32 patterns, stored as differences in four byte planes."""
    planes = np.frombuffer(_read(f"{name}.delta.xz"), np.uint8).reshape(4, -1)
    steps = np.ascontiguousarray(planes.T).view(np.uint32)[:, 0]
    table: NDArray[np.uint32] = np.cumsum(steps, dtype=np.uint32)
    return table


def encode(values: NDArray[np.uint32]) -> bytes:
    """The inverse of `value_table`."""
    steps = np.diff(values.astype(np.uint32), prepend=np.uint32(0))
    planes = steps.view(np.uint8).reshape(-1, 4).T
    return lzma.compress(np.ascontiguousarray(planes).tobytes(), preset=9)


@cache
def half_table(name: str) -> NDArray[np.uint16]:
    """Return data/<name>.u16.xz: results of a 16-bit function for all 65,536 patterns."""
    planes = np.frombuffer(_read(f"{name}.u16.xz"), np.uint8).reshape(2, -1)
    table: NDArray[np.uint16] = np.ascontiguousarray(planes.T).view(np.uint16)[:, 0]
    return table
