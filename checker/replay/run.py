"""The pipeline of one replay: validate, decode, run the blocks in chunks, read the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.cfg import build_cfg
from checker.core import Program
from checker.launch import Launch
from checker.replay.buffers import Globals
from checker.replay.bulk import arrived
from checker.replay.bytes import Bytes
from checker.replay.decode import decode
from checker.replay.machine import Machine, finding
from checker.replay.result import ReplayResult, Unsupported, map_digest
from checker.replay.sync import WAITS, WAKES
from checker.replay.trees import Domain, Trees
from checker.results import Opaque, Reason

__all__ = ["DEFAULT_FUEL", "replay"]

DEFAULT_FUEL = 400_000
_CHUNK_LANES = 8192


def replay(program: Program, launch: Launch | Mapping[str, Any], *, domain: str = "trees",
           blocks: Sequence[tuple[int, int, int]] | None = None,
           inputs: Mapping[str, NDArray[Any]] | None = None,
           fuel: int = DEFAULT_FUEL) -> ReplayResult:
    """Run a kernel at a launch.

    inputs (domain `bytes`): the bits of every input buffer, one unsigned integer an element.
    Raises LaunchError where the facts do not fit the kernel; everything else is in the result.
    """
    launch = Launch.from_json(launch)
    launch.validate(program)
    floats: Domain = Trees() if domain == "trees" else Bytes()
    memory = Globals(program, launch, inputs)
    unsupported: Reason | None = None
    steps = 0
    for site, message in program.findings:
        memory.report_at("text", message, site)
    try:
        steps = _run_chunks(program, launch, floats, memory, blocks, fuel)
    except Unsupported as error:
        unsupported = finding(error.code, error.message, program, error.site)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError,
            ValueError) as error:  # our own defect: never an answer, never a crash
        unsupported = Reason("internal", f"the replay failed: {type(error).__name__}: {error}")
    outputs = memory.outputs() if unsupported is None else {}
    opaque = tuple(
        Opaque(program.sites[s].text.split()[0] if program.sites[s].text else "?",
               program.sites[s].text, program.sites[s].span, program.sites[s].loc)
        for s in sorted(memory.opaque_sites)) if memory.opaque_reached else ()
    return ReplayResult(
        program.name, domain, map_digest(launch.digest(), outputs), outputs,
        tuple(memory.findings.values()), memory.nondeterministic, unsupported, opaque,
        tuple(sorted(program.premises | memory.premises)), tuple(sorted(floats.inaccurate)), steps)


def _run_chunks(program: Program, launch: Launch, domain: Domain, memory: Globals,
                blocks: Sequence[tuple[int, int, int]] | None, fuel: int) -> int:
    cfg, code = build_cfg(program), decode(program)
    if blocks is None:
        gx, gy, gz = launch.grid
        index = np.arange(gx * gy * gz, dtype=np.int64)
        chosen = np.stack([index % gx, index // gx % gy, index // (gx * gy)], axis=1)
    else:
        chosen = np.array(list(blocks), dtype=np.int64).reshape(-1, 3)
    memory.total_blocks = len(chosen)
    threads = int(np.prod(launch.block_for(program)))
    size = max(1, _CHUNK_LANES // max(1, threads))
    steps = 0
    for start in range(0, len(chosen), size):
        m = Machine(program, cfg, code, launch, domain, memory, chosen[start : start + size], start,
                    fuel)
        m.extra.update(waits=WAITS, wakes=WAKES, barriers={}, mbars={}, arrived=arrived)
        memory.attach(m.order)
        m.run()
        steps += m.steps
    return steps
