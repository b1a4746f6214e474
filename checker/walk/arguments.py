"""Tensors that are passed in parts: a pointer, sizes, strides, flags.

In: a kernel's parameters. Out: which of them are sizes of a tensor, and which say what it is filled
with beyond its ends. The form is that of a tensor descriptor where the target has none in hardware:
pointer, r sizes and r strides of 8 bytes, one or two flags of a byte (the first one: fill with NaN,
not with zeros), then r sizes of 4 bytes and r strides of 8 bytes again. Anything else is no tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

from checker.core import Param

__all__ = ["tensors_of"]

MAX_RANK = 5


def tensors_of(params: Sequence[Param]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names (argN) of parameters that are sizes of tensors, and of fill flags."""
    sizes: set[str] = set()
    fills: set[str] = set()
    at = 0
    while at < len(params):
        rank, flags = _tensor(params[at:])
        sizes |= {f"arg{p.index}" for p in params[at + 1:at + 1 + rank]}
        fills |= {f"arg{p.index}" for p in params[at + 1 + 2 * rank:][:min(flags, 1)]}
        at += 1 + 4 * rank + flags
    return frozenset(sizes), frozenset(fills)


def _tensor(params: Sequence[Param]) -> tuple[int, int]:
    """Return the rank and the number of flags of a tensor that begins here, (0, 0) for none."""
    if not params[0].pointer:
        return 0, 0
    parts = [0 if p.pointer else p.size_bytes for p in params[1:]]
    for rank in range(1, MAX_RANK + 1):
        for flags in (1, 2):
            form = [8] * (2 * rank) + [1] * flags + [4] * rank + [8] * rank
            if parts[:len(form)] == form:
                return rank, flags
    return 0, 0
