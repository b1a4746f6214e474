"""Measured tables of the special function unit of sm_90, read from `data/` on first use."""

from __future__ import annotations

import lzma
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

__all__ = ["ulp_table"]


@cache
def ulp_table(name: str) -> NDArray[np.int8]:
    """Return data/<name>.int8.xz: distance of each result, in units of the last place, from the
    correctly rounded one (see data/README.md for the index)."""
    raw = (files("checker.arith") / "data" / f"{name}.int8.xz").read_bytes()
    table: NDArray[np.int8] = np.frombuffer(lzma.decompress(raw), np.int8)
    return table
