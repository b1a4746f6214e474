"""Inputs that walk towards a boundary where a narrow output rounds the other way.

In: a way to run one kernel on bits, its launch. Out: inputs, each with what that kernel made of
them. Sums in two orders differ in the last places of f32; an f16 or bf16 output shows it only where
the sum lies next to a boundary, which everyday values hit once in some ten thousand. Here two
elements of each row start at zero and are raised by bisection, all rows at once, until the last
step of one flips the row's output: the second moves the sum by less than the first one's last step.
Where it is known which output differs, a whole buffer is raised until that one flips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.draws import FORMATS, Bits, canonical_nans
from checker.launch import Buffer
from checker.replay import ReplayResult
from checker.replay.hashing import TAG

__all__ = ["NARROW", "approach", "raised"]

NARROW = frozenset({"f16", "bf16", "e4m3", "e5m2"})
_RAISED = 2  # elements of a row
_ROWS = 64  # at most, so that a witness stays short


def approach(run: Callable[[Mapping[str, Bits]], ReplayResult], inputs: Mapping[str, Bits],
             buffer: Buffer, axis: tuple[int, int, int], seed: int
             ) -> Iterator[tuple[dict[str, Bits], ReplayResult]]:
    """Yield inputs with what `run` makes of them; nothing where no narrow output is by rows.

    buffer: the input whose elements are raised. axis: (outer, reduced, inner) extents of it; a row
    is what has the same outer and inner place.
    """
    outer, reduced, inner = axis
    if reduced <= _RAISED or outer * reduced * inner != buffer.elements:
        return
    rows = np.arange(min(_ROWS, outer * inner))
    places = [(rows // inner * reduced + (seed + k * (reduced // _RAISED)) % reduced) * inner
              + rows % inner for k in range(_RAISED)]
    now = {**inputs, buffer.name: inputs[buffer.name].copy()}
    one = now[buffer.name].dtype.type
    for place in places:
        now[buffer.name][place] = one(0)
    ebits, mbits, _ = FORMATS[buffer.dtype]
    top = (((1 << ebits) - 1) << mbits) - 1  # the largest finite number, as an integer
    for place in places:
        result = run(now)
        start = _by_rows(result, axis)
        if start is None:
            return
        yield now, result
        low, high = np.zeros(len(rows), np.int64), np.full(len(rows), top, np.int64)
        while (high - low).max() > 1:
            middle = (low + high) // 2
            trial = {**now, buffer.name: now[buffer.name].copy()}
            trial[buffer.name][place] = middle.astype(one)
            result = run(trial)
            found = _by_rows(result, axis)
            if found is None:
                return
            yield trial, result
            same = (found == start).all(axis=1)
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        # Where nothing flips the output, the element stays out of the sum.
        now[buffer.name][place] = np.where(high == top, 0, low).astype(one)


def raised(run: Callable[[Mapping[str, Bits]], ReplayResult], inputs: Mapping[str, Bits],
           buffer: Buffer, output: str, element: int
           ) -> Iterator[tuple[dict[str, Bits], ReplayResult]]:
    """Yield inputs in which all of a buffer is raised, up to twofold, until an output flips.

    Nothing where that output is not narrow.
    """
    ebits, mbits, _ = FORMATS[buffer.dtype]
    drawn = inputs[buffer.name]
    field = drawn >> drawn.dtype.type(mbits) & drawn.dtype.type((1 << ebits) - 1)
    free = (field > 0) & (field < (1 << ebits) - 2)  # twice as much is a normal number, too

    def at(step: int) -> tuple[dict[str, Bits], ReplayResult]:
        moved = np.where(free, drawn + drawn.dtype.type(step), drawn)
        trial = {**inputs, buffer.name: moved}
        return trial, run(trial)

    first, result = at(0)
    out = result.outputs.get(output)
    if out is None or out.dtype not in NARROW:
        return
    yield first, result
    start, low, high = out.words[1][element], 0, 1 << mbits
    while high - low > 1:
        middle = (low + high) // 2
        trial, result = at(middle)
        yield trial, result
        if result.outputs[output].words[1][element] == start:
            low = middle
        else:
            high = middle


def _by_rows(result: ReplayResult, axis: tuple[int, int, int]) -> NDArray[Any] | None:
    """The bits of all narrow outputs that have a part for each row, (rows, ...); None: no such."""
    outer, _, inner = axis
    parts = []
    for out in result.outputs.values():
        if out.dtype not in NARROW or len(out.written) % (outer * inner) or not (
                out.words[0][out.written] == TAG).all():
            continue
        bits = canonical_nans(out.dtype, np.where(out.written, out.words[1], 0).astype(np.uint16))
        by_row = bits.reshape(outer, -1, inner).transpose(0, 2, 1).reshape(outer * inner, -1)
        parts.append(by_row[:_ROWS])
    return np.concatenate(parts, axis=1) if parts and not result.findings else None
