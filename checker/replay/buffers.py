"""Global memory of a launch: every buffer at its own far-apart address, module data, parameters.

In: launch facts and inputs. Out: cells by address, and the output map at the end. Input elements
are leaves named by (buffer, byte offset, element bytes), or known bits where values are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arrays import some
from checker.core import MODULE_BASE, Program
from checker.launch import Buffer, Launch, Scalar, Scratch, TensorMapArg, float_bits
from checker.replay.facts import CONC, OPQ, PENDING, UNDEF
from checker.replay.hashing import TAG, leaf_table
from checker.replay.memory import Cells
from checker.replay.order import Codes, Order
from checker.replay.result import Output, Unsupported
from checker.replay.values import Hash, V, const, hash_of, make_pack, split
from checker.results import Reason

__all__ = ["REGION_SHIFT", "REGION_START", "Globals", "element_bits"]

REGION_SHIFT = 40
#: where a buffer starts in its region: bits above the low word, and a carry out of it after 4 KiB,
#: so that an address put together wrongly leaves the buffer
REGION_START = 0x5A_FFFF_F000
_INTS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def element_bits(buffer: Buffer) -> NDArray[np.uint64]:
    """The bits of a buffer whose values the launch facts give."""
    assert buffer.values is not None
    mask = (1 << 8 * buffer.elem_bytes) - 1
    if buffer.dtype in ("f16", "bf16", "f32", "f64"):
        bits = [float_bits(buffer.dtype, float(v)) for v in buffer.values]
    else:
        bits = [int(v) & mask for v in buffer.values]
    return np.array(bits, dtype=np.uint64)


class Relay:
    """Hands a memory's findings on to the machine that runs, and keeps neither of them alive."""

    def __init__(self) -> None:
        self.machine: Callable[[], Any] = lambda: None

    def __call__(self, code: str, message: str) -> None:
        """Report at the machine's current operation."""
        self.machine().report(code, message)


class Globals:
    """Buffers, module variables and the parameter block of one launch."""

    def __init__(self, program: Program, launch: Launch,
                 inputs: Mapping[str, NDArray[Any]] | None) -> None:
        self.program, self.launch = program, launch
        self.findings: dict[tuple[str, int], Reason] = {}
        self.nondeterministic = False
        self.premises: set[str] = set()
        self.opaque_sites: set[int] = set()
        self.now = 1
        self.report = Relay()
        self.regions: list[Cells] = []
        self.owner: list[Buffer | None] = []
        self.bases: dict[str, int] = {}
        self.lines: dict[str, NDArray[np.int32]] = {}
        self.maps: dict[int, TensorMapArg] = {}  # by parameter offset
        for buffer in launch.buffers():
            self._add(buffer, inputs)
        self.params = self._params()
        self.data = self._data()

    # --- set up --------------------------------------------------------------------------------

    def _add(self, buffer: Buffer, inputs: Mapping[str, NDArray[Any]] | None) -> None:
        if buffer.name in self.bases:
            return
        if buffer.alias:
            self.bases[buffer.name] = self.bases[buffer.alias] + buffer.alias_offset
            return
        cells = Cells(f"buffer {buffer.name}", buffer.size_bytes, buffer.elem_bytes, self.report)
        if inputs is not None and buffer.name in inputs:
            cells.fill_bits(np.asarray(inputs[buffer.name]))
        elif buffer.values is not None:
            cells.fill_bits(element_bits(buffer))
        elif buffer.role != "scratch" and buffer.elements:
            cells.fill_hashes(leaf_table(buffer.name, buffer.elements, buffer.elem_bytes))
        if buffer.role == "in":
            cells.read_only = (f"buffer {buffer.name} is declared as input in the launch facts, "
                               "the kernel writes to it")
        self.bases[buffer.name] = (len(self.regions) + 1 << REGION_SHIFT) + REGION_START
        self.regions.append(cells)
        self.owner.append(buffer)

    def _params(self) -> list[tuple[int, V]]:
        out: list[tuple[int, V]] = []
        for param, arg in zip(self.program.params, self.launch.args, strict=True):
            if isinstance(arg, Buffer):
                v: V = const(self.bases[arg.name], 64)
            elif isinstance(arg, Scalar):
                v = const(arg.bits, 8 * min(arg.size_bytes, 8))
                if param.size_bytes > arg.size_bytes:
                    v = make_pack([v, const(0, 8 * (param.size_bytes - arg.size_bytes))])
            elif isinstance(arg, Scratch):
                v = const(0, 64)
            else:
                self.maps[param.offset_bytes] = arg
                continue
            out.append((param.offset_bytes, v))
        return out

    def _data(self) -> Cells | None:
        if not self.program.data:
            return None
        size = max(d.address + d.size_bytes for d in self.program.data) - MODULE_BASE
        cells = Cells("module data", size, 1, self.report)
        cells.read_only = ("the kernel writes to a variable of the module, which is there for "
                           "whoever comes next")
        for d in self.program.data:
            if d.outside:  # nobody says what it holds
                continue
            at = d.address - MODULE_BASE
            init = (d.init or b"").ljust(d.size_bytes, b"\0")
            cells.h[0, at : at + d.size_bytes] = TAG
            cells.h[1, at : at + d.size_bytes] = np.frombuffer(init, dtype=np.uint8)
            cells.f[at : at + d.size_bytes] = CONC
        return cells

    def attach(self, order: Order) -> None:
        """Check order in every buffer that may be written, under this chunk's clocks."""
        for cells, buffer in zip(self.regions, self.owner, strict=True):
            if buffer is None or buffer.role != "in":
                cells.track(order, self.total_blocks == 1)
                cells.in_turn = True
            if cells.written is None:
                cells.cover()

    def races(self) -> dict[str, Codes]:
        """By buffer: who wrote each byte with somebody's read unordered."""
        return {buffer.name: np.repeat(cells.watch.racing, cells.g)
                for cells, buffer in zip(self.regions, self.owner, strict=True)
                if buffer is not None and cells.watch is not None
                and cells.watch.racing is not None}

    def doubt(self, races: Mapping[str, Codes]) -> None:
        """Take what others than these read there for unknown."""
        for cells, buffer in zip(self.regions, self.owner, strict=True):
            if buffer is not None:
                cells.doubtful = races.get(buffer.name)

    total_blocks = 1

    # --- messages ------------------------------------------------------------------------------

    def report_at(self, code: str, message: str, site: int) -> None:
        """Record one finding for each (code, place)."""
        if (code, site) not in self.findings:
            where = self.program.sites[site]
            self.findings[code, site] = Reason(code, message, where.span.line, None, where.loc)

    # --- access --------------------------------------------------------------------------------

    def param(self, offset: int, width: int) -> V:
        """`width` bits of the parameter block."""
        parts: list[V] = []
        at, end = offset, offset + width // 8
        while at < end:
            for start, v in self.params:
                if start <= at < start + v.w // 8:
                    size = min(end, start + v.w // 8) - at
                    parts.append(split(v, 8 * (at - start), 8 * size))
                    at += size
                    break
            else:
                raise Unsupported("parameter", f"no argument covers parameter byte {at}")
        return make_pack(parts)

    # --- output --------------------------------------------------------------------------------

    def outputs(self) -> dict[str, Output]:
        """The output map at element granularity; undefined bytes that were written are findings."""
        found: dict[str, Output] = {}
        for cells, buffer in zip(self.regions, self.owner, strict=True):
            if buffer is None or cells.written is None or not some(cells.written):
                continue
            lines = np.zeros(0, dtype=np.int32) if cells.lines is None else cells.lines
            if buffer.role == "scratch":
                continue
            self._undefined(cells, lines, buffer)
            found[buffer.name] = _output(cells, buffer, lines)
        return found

    def _undefined(self, cells: Cells, lines: NDArray[np.int32], buffer: Buffer) -> None:
        assert cells.written is not None
        bad = cells.written & ((cells.f & UNDEF) != 0)
        if some(bad):
            line = int(lines[int(bad.argmax())])
            self.findings["undefined", -line] = Reason(
                "undefined", f"a value that was never written reaches buffer {buffer.name}",
                line or None)
            self.nondeterministic = True
        early = cells.written & ((cells.f & PENDING) != 0)
        if some(early):
            self.premises.add("wgmma-serialized")
        opaque = cells.written & ((cells.f & OPQ) != 0)
        if some(opaque):
            self.opaque_reached = True

    opaque_reached = False


def _output(cells: Cells, buffer: Buffer, lines: NDArray[np.int32]) -> Output:
    """Join cells back to elements."""
    assert cells.written is not None
    n, times = buffer.elements, buffer.elem_bytes // cells.g
    written, h, f = cells.written[: n * times], cells.h[:, : n * times], cells.f[: n * times]
    lines = lines[: n * times]
    if times == 1:
        return Output(buffer.name, buffer.dtype, buffer.elem_bytes, written.copy(), h.copy(),
                      lines.copy())
    parts: list[V] = [Hash(h[:, i::times].reshape(2, 1, n), f[i::times].reshape(1, n), 8 * cells.g)
                      for i in range(times)]
    h, f = hash_of(make_pack(parts))
    return Output(buffer.name, buffer.dtype, buffer.elem_bytes,
                  np.asarray(written.reshape(n, times).any(axis=1)),
                  np.ascontiguousarray(np.broadcast_to(h, (2, 1, n)).reshape(2, n)),
                  lines.reshape(n, times).max(axis=1))
