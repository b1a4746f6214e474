"""Tensor memory (tcgen05): refused for now, with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checker.core import Op, Program
from checker.replay.machine import Machine, Step
from checker.replay.values import V

__all__ = ["commit", "mma", "step"]


def step(program: Program, op: Op, read: Callable[[Machine], list[V]]) -> Step:
    """Refuse."""

    def run(m: Machine) -> None:
        raise m.unsupported("tensor-memory", "tensor memory is not modelled")

    return run


commit = step


def mma(m: Machine, op: Op, values: list[V], on: Any, model: Any) -> None:
    """Refuse."""
    raise m.unsupported("tensor-memory", "tensor memory is not modelled")
