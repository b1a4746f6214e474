"""The pipeline of one replay: validate, decode, run the blocks in chunks, read the outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.cfg import build_cfg
from checker.core import Program
from checker.launch import Launch
from checker.replay.bitwise import XORS
from checker.replay.buffers import Globals
from checker.replay.bulk import arrived
from checker.replay.bytes import Bytes
from checker.replay.choices import forget_choices
from checker.replay.decode import decode
from checker.replay.machine import Machine, finding
from checker.replay.nulls import forget_nulls
from checker.replay.order import Codes
from checker.replay.result import ReplayResult, Unsupported, map_digest
from checker.replay.scales import Scales
from checker.replay.suppose import supposing
from checker.replay.sync import WAITS, WAKES
from checker.replay.trees import Domain, Trees
from checker.replay.values import WHOLES
from checker.results import Opaque, Reason

__all__ = ["DEFAULT_FUEL", "replay"]

DEFAULT_FUEL = 400_000
_CHUNK_LANES = 8192
_MOST_ELEMENTS, _MOST_THREADS = 1 << 24, 1 << 23
_RACES = {"race-read", "race-overwrite"}


def replay(program: Program, launch: Launch | Mapping[str, Any], *, domain: str = "trees",
           blocks: Sequence[tuple[int, int, int]] | None = None,
           inputs: Mapping[str, NDArray[Any]] | None = None,
           fuel: int = DEFAULT_FUEL, suppose: Collection[str] = ()) -> ReplayResult:
    """Run a kernel at a launch.

    inputs (domain `bytes`): the bits of every input buffer, one unsigned integer an element.
    suppose: names of `SUPPOSITIONS`; such a result explains a difference and is not usable.
    Raises LaunchError where the facts do not fit the kernel; everything else is in the result.
    """
    launch = Launch.from_json(launch)
    launch.validate(program)
    if sum(b.elements for b in launch.buffers()) > _MOST_ELEMENTS:
        large = _too_large(launch, 0, 0) + ": give a smaller launch"
        return ReplayResult(program.name, domain, map_digest(launch.digest(), {}), {},
                            unsupported=Reason("too-large", large))

    def once(races: Mapping[str, Codes]) -> tuple[ReplayResult, Mapping[str, Codes]]:
        memory = Globals(program, launch, inputs)
        memory.doubt(races)
        return _replay(program, launch, domain, memory, blocks, fuel, suppose), memory.races()

    result, races = once({})
    if races and result.unsupported is None and {f.code for f in result.findings} <= _RACES:
        again, _ = once(races)
        if again.unsupported is None and not again.findings and not again.nondeterministic:
            return again  # what was read in a race reaches nothing
    return result


def _replay(program: Program, launch: Launch, domain: str, memory: Globals,
            blocks: Sequence[tuple[int, int, int]] | None, fuel: int, suppose: Collection[str]
            ) -> ReplayResult:
    """Run over fresh memory."""
    scales = Scales(program, launch) if program.powers_of_two else None
    floats: Domain = Trees(scales) if domain == "trees" else Bytes()
    unsupported: Reason | None = None
    steps = 0
    forget_nulls()
    forget_choices()
    WHOLES.clear()
    XORS.clear()
    for site, message in program.findings:
        memory.report_at("text", message, site)
    with supposing(suppose):
        try:
            steps = _run_chunks(program, launch, floats, memory, blocks, fuel)
        except Unsupported as error:
            unsupported = finding(error.code, error.message, program, error.site)
        except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError,
                TypeError, ValueError) as error:  # our own defect: never an answer, never a crash
            unsupported = Reason("internal", f"the replay failed: {type(error).__name__}: {error}")
    outputs = memory.outputs() if unsupported is None else {}
    opaque = tuple(
        Opaque(program.sites[s].text.split()[0] if program.sites[s].text else "?",
               program.sites[s].text, program.sites[s].span, program.sites[s].loc)
        for s in sorted(memory.opaque_sites)) if memory.opaque_reached else ()
    return ReplayResult(
        program.name, domain, map_digest(launch.digest(), outputs), outputs,
        tuple(memory.findings.values()), memory.nondeterministic, unsupported, opaque,
        tuple(sorted(program.premises | memory.premises | _assumed(program, launch))),
        tuple(sorted(floats.inaccurate)), steps, supposed=tuple(sorted(suppose)))


def _assumed(program: Program, launch: Launch) -> set[str]:
    """Premises that every replay of this kernel rests on."""
    out = {"nan-payload"}
    if len(launch.buffers()) > 1:
        out.add("no-alias")
    for op in program.ops:
        if op.name == "fapprox":
            out.add("approx-unit")
        elif op.name == "mma" and op.attr.d_type not in ("s32", "f64"):
            out.add("matrix-model")
    return out


def _too_large(launch: Launch, threads: int, blocks: int) -> str:
    """Why a launch does not fit, empty if it does."""
    elements = sum(b.elements for b in launch.buffers())
    if elements > _MOST_ELEMENTS:
        return f"the buffers have {elements} elements, at most {_MOST_ELEMENTS} are replayed"
    if threads * blocks > _MOST_THREADS:
        return f"the launch has {threads * blocks} threads, at most {_MOST_THREADS} are replayed"
    return ""


def _run_chunks(program: Program, launch: Launch, domain: Domain, memory: Globals,
                blocks: Sequence[tuple[int, int, int]] | None, fuel: int) -> int:
    cfg = build_cfg(program)
    code = decode(program, cfg.block_of)
    if blocks is None:
        gx, gy, gz = launch.grid
        index = np.arange(gx * gy * gz, dtype=np.int64)
        chosen = np.stack([index % gx, index // gx % gy, index // (gx * gy)], axis=1)
    else:
        chosen = np.array(list(blocks), dtype=np.int64).reshape(-1, 3)
    memory.total_blocks = len(chosen)
    threads = int(np.prod(launch.block_for(program)))
    large = _too_large(launch, threads, len(chosen))
    if large:
        raise Unsupported("too-large", large + ": give a smaller launch")
    size = max(1, _CHUNK_LANES // max(1, threads))
    steps = 0
    for start in range(0, len(chosen), size):
        m = Machine(program, cfg, code, launch, domain, memory, chosen[start : start + size], start,
                    fuel)
        m.extra.update(waits=WAITS, wakes=WAKES, barriers={}, mbars={}, arrived=arrived)
        memory.attach(m.outer_order)
        m.run()
        steps += m.steps
    return steps
