"""What a replay answers with: the output map, findings and everything it rests on.

In: the machine's memories at the end. Out: `ReplayResult`, its digest `sb1l-...`, and the first
difference of two results. A result is `usable` for `equal` only when nothing was unsupported,
found, nondeterministic or not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from checker.results import Opaque, Reason

__all__ = ["Difference", "Output", "ReplayResult", "Unsupported", "first_difference"]


class Unsupported(Exception):
    """The replay cannot run this kernel at this launch; never a guess."""

    def __init__(self, code: str, message: str, site: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.site = code, message, site


@dataclass(frozen=True, slots=True)
class Output:
    """One buffer that was written: element cells (index of the element, not bytes).

    written: which elements were touched. words: (2, elements) tree hashes, or in the domain
    `bytes` and for known bits (tag, bits). sites: the assembly line that last wrote each.
    """

    buffer: str
    dtype: str
    elem_bytes: int
    written: NDArray[np.bool_]
    words: NDArray[np.uint64]
    lines: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The answer of one replay; `outputs` by buffer name, `digest` over the whole map."""

    kernel: str
    domain: str
    digest: str
    outputs: dict[str, Output]
    findings: tuple[Reason, ...] = ()
    nondeterministic: bool = False
    unsupported: Reason | None = None
    opaque: tuple[Opaque, ...] = ()
    premises: tuple[str, ...] = ()
    inaccurate: tuple[str, ...] = ()
    steps: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    supposed: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether this map may prove `equal`."""
        return (self.unsupported is None and not self.findings and not self.nondeterministic
                and not self.opaque and not self.supposed)

    def reasons(self) -> tuple[Reason, ...]:
        """Why the map may not prove `equal`."""
        out = [] if self.unsupported is None else [self.unsupported]
        out += self.findings
        out += [Reason("opaque", f"not modelled: {o.text}", o.span.line, None, o.loc)
                for o in self.opaque]
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two maps first differ: buffer, element, why, and the lines that wrote it."""

    buffer: str
    element: int
    kind: str
    line_a: int | None = None
    line_b: int | None = None
    count: int = 1


def first_difference(a: ReplayResult, b: ReplayResult) -> Difference | None:
    """The first element at which two results differ, None where the maps agree."""
    for name in [*a.outputs, *(n for n in b.outputs if n not in a.outputs)]:
        x, y = a.outputs.get(name), b.outputs.get(name)
        if x is None or y is None:
            some = x or y
            assert some is not None
            if some.written.any():
                return Difference(name, int(some.written.argmax()), "coverage-differs", None, None,
                                  int(some.written.sum()))
            continue
        if x.elem_bytes != y.elem_bytes or x.written.shape != y.written.shape:
            return Difference(name, 0, "buffer-differs")
        cover = x.written != y.written
        if cover.any():
            at = int(cover.argmax())
            return Difference(name, at, "coverage-differs", _line(x, at), _line(y, at),
                              int(cover.sum()))
        differ = (x.words != y.words).any(axis=0) & x.written
        if differ.any():
            at = int(differ.argmax())
            return Difference(name, at, "tree-differs", _line(x, at), _line(y, at),
                              int(differ.sum()))
    return None


def _line(output: Output, element: int) -> int | None:
    if output.lines is None or not output.written[element]:
        return None
    return int(output.lines[element]) or None


def map_digest(launch_digest: str, outputs: dict[str, Output]) -> str:
    """`sb1l-` and 32 hex digits over the launch and the output map."""
    state = xxhash.xxh3_128()
    state.update(b"sb1l 1 " + launch_digest.encode())
    for name in sorted(outputs):
        out = outputs[name]
        if not out.written.any():
            continue
        index = np.nonzero(out.written)[0].astype("<u8")
        state.update(f"|{name} {out.elem_bytes} {len(index)}|".encode())
        state.update(index.tobytes())
        state.update(np.ascontiguousarray(out.words[:, out.written]).astype("<u8").tobytes())
    return "sb1l-" + str(state.hexdigest())
