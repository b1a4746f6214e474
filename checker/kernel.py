"""One kernel before the engines: text to program, program to walk, and what forbids an equality.

In: a text, its options, launch facts. Out: `Program`, `WalkResult`, and reasons why a kernel can be
equal to nothing. The pipeline's first half: parse -> lower -> contract -> walk. Raises InputError,
UsageError or LaunchError; nothing else for bad input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import xxhash

from checker.assume import Block, assumed, positions, sized
from checker.contract import contract
from checker.core import Program
from checker.errors import InputError
from checker.launch import Launch
from checker.lower import kernel_names, lower
from checker.parse import parse
from checker.replay import ReplayResult
from checker.results import Reason, Signature
from checker.syntax import Module
from checker.tree.result import WalkResult
from checker.tree.text import normalised_text
from checker.walk import walk

__all__ = [
    "LIMITS", "SAME_PROGRAM", "LaunchFacts", "block_of", "kernels_in", "launch_of", "program_of",
    "refusals", "run_reasons", "text_digest", "walk_kernel", "walked",
]

# Codes of findings that say "the walk could not", not "the kernel is wrong".
LIMITS = frozenset({"fuel", "internal", "unmodelled", "irreducible", "local", "parameter",
                    "shared-address", "switch", "premise"})

# What is assumed where two texts are equal as they are one program, whatever it does.
SAME_PROGRAM = frozenset({"same-program", "same-grid", "same-block"})

LaunchFacts = Launch | Mapping[str, Any]

# One text may have thousands of kernels, and is asked about each of them by itself.
_parse = lru_cache(maxsize=2)(parse)


def _parsed(text: str, isa: str | None, file: str) -> Module:
    """Return the Module of a text, read once under whichever names its kernels are asked about."""
    try:
        return _parse(text, isa=isa)
    except InputError as error:
        raise InputError([replace(d, file=file) for d in error.diagnostics]) from None


def launch_of(facts: LaunchFacts | None) -> Launch | None:
    """Launch facts as data, where there are any; raises LaunchError."""
    return None if facts is None else Launch.from_json(facts)


def kernels_in(text: str, *, isa: str | None = None, file: str = "<text>") -> tuple[str, ...]:
    """Return the names of the kernels (entries) in a text."""
    return kernel_names(_parsed(text, isa, file), file=file)


def program_of(text: str, *, isa: str | None = None, kernel: str | None = None,
               assume: Sequence[str] = (), file: str = "<text>") -> Program:
    """Return the core program of one kernel, as the engines run it; assume: `checker.assume`."""
    program = contract(lower(_parsed(text, isa, file), kernel, file=file))
    return assumed(program, assume)


@lru_cache(maxsize=8)
def walk_kernel(text: str, isa: str | None, kernel: str | None, file: str,
                assume: tuple[str, ...] = (), divisible: tuple[str, ...] = (),
                block: Block | None = None, at_block: bool = False) -> WalkResult:
    """Walk a kernel; at one block size (of its launches, `block`) where it must know one.

    at_block: also where it need not, so that it compares with a kernel that must.
    """
    program = program_of(text, isa=isa, kernel=kernel, assume=assume, file=file)
    at_size = sized(program, block)
    if at_size is None or not at_block:
        result = walk(program, divisible=divisible)
        if at_size is None or result.modelled:
            return result
    return replace(walk(at_size, divisible=divisible), program=program)


def walked(text: str, *, isa: str | None = None, kernel: str | None = None,
           assume: Sequence[str] = (), launch: LaunchFacts | None = None,
           file: str = "<text>") -> WalkResult:
    """Return the walk of one kernel that `checker.api.compare` makes under these options."""
    facts = launch_of(launch)
    return walk_kernel(text, isa, kernel, file, positions(assume, facts), block=block_of([facts]))


def block_of(launches: Iterable[Launch | None]) -> Block | None:
    """The block size that all launches have, if that is one."""
    blocks = {None if launch is None else launch.block for launch in launches}
    return blocks.pop() if len(blocks) == 1 else None


def text_digest(program: Program) -> str:
    return xxhash.xxh3_128_hexdigest(normalised_text(program).encode())


def refusals(signature: Signature, which: str) -> list[Reason]:
    """Why a kernel can be equal to nothing, itself included."""
    reasons = [replace(f, message=f"{which} kernel: {f.message}") for f in signature.findings
               if f.code not in LIMITS]
    if signature.nondeterministic:
        reasons.append(Reason("nondeterministic", f"the {which} kernel has no fixed bits"))
    return reasons


def run_reasons(run: ReplayResult, which: str) -> list[Reason]:
    reasons = [replace(r, message=f"{which} kernel: {r.message}") for r in run.reasons()]
    if which == "second":
        reasons = [replace(r, line_a=None, line_b=r.line_a, loc_a=None, loc_b=r.loc_a)
                   for r in reasons]
    if run.nondeterministic:
        reasons.append(Reason("nondeterministic", f"the {which} kernel has no fixed bits"))
    return reasons
