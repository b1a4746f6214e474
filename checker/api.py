"""The public calls: sign, compare, partition, and what the command line and service show.

In: texts and launch facts. Out: the records of `checker.results`. This is the whole pipeline in one
place: parse -> lower -> contract -> (walk | replay) -> compare. The cheaper engine answers first.
Raises InputError, UsageError or LaunchError; nothing else for bad input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from checker.assume import block_premises, broken_premises, other_premises, positions
from checker.collector import collector_paused
from checker.core import Program
from checker.kernel import (
    LIMITS,
    SAME_PROGRAM,
    LaunchFacts,
    block_of,
    kernels_in,
    launch_of,
    program_of,
    refusals,
    run_reasons,
    walk_kernel,
    walked,
)
from checker.launch import Launch
from checker.replay import Difference, ReplayResult, first_difference, replay
from checker.results import Reason, Signature, Verdict
from checker.sweep import (
    Examined,
    by_replay,
    classify,
    examine,
    look_again,
    partition,
    replay_first,
    rounds,
    to_sign,
)
from checker.tree import pretty
from checker.tree.result import WalkResult
from checker.tree.signature import same, signature
from checker.tree.text import normalised_text
from checker.witness import find_witness

__all__ = [
    "LIMITS", "Examined", "LaunchFacts", "by_replay", "classify", "compare", "compare_at",
    "coverage", "examine", "kernels_in", "look_again", "outline", "partition", "program_of",
    "replay_first", "replay_kernel", "rounds", "sign", "to_sign", "tree_text", "walked",
]

# --- one kernel -------------------------------------------------------------------------------


def sign(text: str, *, isa: str | None = None, kernel: str | None = None,
         assume: Sequence[str] = (), launches: Sequence[LaunchFacts] = (),
         file: str = "<text>") -> Signature:
    """Return the static signature of one kernel; `kernel` is needed where a text has several.

    assume: what is declared, such as `pow2:arg2,arg3` of arguments or `block:128`. launches: facts
    that give the block size where the text leaves it open and the kernel must know it.
    """
    block = block_of(map(launch_of, launches))
    return signature(walk_kernel(text, isa, kernel, file, tuple(assume), block=block))


@collector_paused()
def replay_kernel(text: str, launch: LaunchFacts, *, isa: str | None = None,
                  kernel: str | None = None, domain: str = "trees",
                  assume: Sequence[str] = (), file: str = "<text>") -> ReplayResult:
    """Run one kernel at one launch on the CPU; domain `trees` or `bytes`."""
    facts = Launch.from_json(launch)
    program = program_of(text, isa=isa, kernel=kernel, assume=positions(assume, facts), file=file)
    return replay(program, facts, domain=domain)


def tree_text(text: str, *, isa: str | None = None, kernel: str | None = None,
              file: str = "<text>") -> str:
    """Return the dependence tree of each output, readable, with source lines."""
    return pretty.render(walk_kernel(text, isa, kernel, file))


def outline(text: str, *, isa: str | None = None, kernel: str | None = None,
            file: str = "<text>") -> list[dict[str, Any]]:
    """Return the trees as nested data: output, label, line, loc, children."""
    return pretty.outline(walk_kernel(text, isa, kernel, file))


def coverage(text: str, *, isa: str | None = None, kernel: str | None = None,
             file: str = "<text>") -> dict[str, tuple[int, int]]:
    """Count a kernel's instructions by opcode: (modelled, opaque)."""
    program = program_of(text, isa=isa, kernel=kernel, file=file)
    opaque = {op.site for op in program.ops if op.name == "opaque"}
    counts: dict[str, tuple[int, int]] = {}
    for number, site in enumerate(program.sites):
        words = [w for w in site.text.split() if not w.startswith("@")]
        opcode = words[0].rstrip(";") if words else ""
        modelled, unknown = counts.get(opcode, (0, 0))
        counts[opcode] = (modelled + (number not in opaque), unknown + (number in opaque))
    return counts


# --- two kernels ------------------------------------------------------------------------------


def compare(a: str, b: str, *, isa_a: str | None = None, isa_b: str | None = None,
            kernel_a: str | None = None, kernel_b: str | None = None,
            launch_a: LaunchFacts | None = None, launch_b: LaunchFacts | None = None,
            strict: bool = False, assume: Sequence[str] = (), file_a: str = "<a>",
            file_b: str = "<b>") -> Verdict:
    """Decide whether two kernels return the same bits.

    launch_b defaults to launch_a. Where the canonical forms differ, they are compared once more
    under what either kernel shows of sizes (premise `divisible`) and at the block sizes of the
    launches or launch bounds (premise `block`). strict: an ambiguous contraction is not taken as a
    premise. assume: what is declared, such as `pow2:sa,sw` of arguments (no witness is looked for
    then) or `block:128`.
    """
    at_a, at_b = launch_of(launch_a), launch_of(launch_b)
    declared = positions(assume, at_a)
    sized_a, sized_b = block_of([at_a]), block_of([at_b or at_a])
    one = walk_kernel(a, isa_a, kernel_a, file_a, declared, block=sized_a)
    two = walk_kernel(b, isa_b, kernel_b, file_b, declared, block=sized_b)
    sig_a, sig_b = signature(one), signature(two)
    premises = set(sig_a.premises) | set(sig_b.premises)
    reasons = refusals(sig_a, "first") + refusals(sig_b, "second")
    reasons += _parameter_reasons(one.program, two.program)
    if strict and "contraction" in premises:
        reasons.append(Reason("contraction", "a contractable pair may be fused by the assembler"))
    if reasons:
        return _verdict("unproved", "", premises, reasons, sig_a, sig_b)
    broken = [*broken_premises(other_premises(premises), at_a, at_b),
              *broken_premises(block_premises(sig_a.premises), at_a),
              *broken_premises(block_premises(sig_b.premises), at_b or at_a)]
    overlaps = broken_premises({"no-alias"}, at_a, at_b)
    if broken and declared:
        return _verdict("unproved", "", premises, broken, sig_a, sig_b)
    whole = premises | (set() if sig_a.modelled else SAME_PROGRAM)
    whole -= {"no-alias"} if overlaps else set()  # a program is itself whatever it works on
    if len(broken) == len(overlaps) \
            and normalised_text(one.program) == normalised_text(two.program) \
            and block_premises(sig_a.premises) == block_premises(sig_b.premises) \
            and not broken_premises(other_premises(whole), at_a, at_b):
        return _verdict("equal", "static", whole, [], sig_a, sig_b)
    proved, differences = same(one, two)
    if proved and not broken:
        return _verdict("equal", "static", premises, [], sig_a, sig_b)
    sizes = tuple(sorted({*one.shows, *two.shows}))
    if (sizes or "same-block" in premises) and not proved and one.modelled and two.modelled:
        again = (walk_kernel(a, isa_a, kernel_a, file_a, declared, sizes, sized_a, True),
                 walk_kernel(b, isa_b, kernel_b, file_b, declared, sizes, sized_b, True))
        assumed_too = premises.union(*(w.premises for w in again))
        if same(*again)[0] and not broken_premises(other_premises(assumed_too), at_a, at_b):
            return _verdict("equal", "static", assumed_too, [], sig_a, sig_b)
    if at_a is None:
        return _verdict("unproved", "", premises, differences, sig_a, sig_b)
    return _compare_launch(one, two, at_a, at_b or _as_launch_of(two.program, at_a), premises,
                           (*differences, *broken))


def compare_at(a: str, b: str,
               launches: Sequence[tuple[LaunchFacts | None, LaunchFacts | None]],
               **options: Any) -> Verdict:
    """`compare` at several launches jointly: equal where all are, unequal where one is.

    launches: facts of the first and of the second kernel, at least one pair. Of an answer that is
    not equal the reasons name the launch.
    """
    found = []
    for number, (facts_a, facts_b) in enumerate(launches, 1):
        verdict = compare(a, b, launch_a=facts_a, launch_b=facts_b, **options)
        if len(launches) > 1:
            at = f"launch {number} of {len(launches)}: "
            reasons = tuple(replace(r, message=at + r.message) for r in verdict.reasons)
            verdict = replace(verdict, reasons=reasons)
        found.append(verdict)
        if verdict.kind == "unequal":
            break
    worst = max(found, key=lambda v: ("equal", "unproved", "unequal").index(v.kind))
    if not worst.equal:
        return worst
    basis = "launch" if any(v.basis == "launch" for v in found) else "static"
    premises = set().union(*(v.premises for v in found))
    return replace(worst, basis=basis, premises=tuple(sorted(premises)))


def _parameter_reasons(a: Program, b: Program) -> list[Reason]:
    """Parameters are matched by position: sizes and kinds must agree."""
    shape_a = [(p.size_bytes, p.pointer) for p in a.params]
    shape_b = [(p.size_bytes, p.pointer) for p in b.params]
    shared = min(len(shape_a), len(shape_b))
    if shape_a[:shared] != shape_b[:shared]:
        at = next(i for i in range(shared) if shape_a[i] != shape_b[i])
        return [Reason("parameters-differ", f"parameter {at} differs: {shape_a[at][0]} bytes"
                       f"{' (pointer)' if shape_a[at][1] else ''} against {shape_b[at][0]} bytes"
                       f"{' (pointer)' if shape_b[at][1] else ''}")]
    if a.isa == b.isa and len(shape_a) != len(shape_b):
        return [Reason("parameters-differ",
                       f"{len(shape_a)} parameters against {len(shape_b)}")]
    return []


def _compare_launch(one: WalkResult, two: WalkResult, launch_a: Launch, launch_b: Launch,
                    premises: set[str], static: Sequence[Reason]) -> Verdict:
    """The exact second opinion at the given launches, then the search for a witness."""
    run_a, run_b = replay(one.program, launch_a), replay(two.program, launch_b)
    sig_a, sig_b = signature(one), signature(two)
    premises = premises | set(run_a.premises) | set(run_b.premises)
    reasons = run_reasons(run_a, "first") + run_reasons(run_b, "second")
    if reasons:
        return _verdict("unproved", "", premises, [*reasons, *static], sig_a, sig_b)
    difference = first_difference(run_a, run_b)
    if difference is None:
        return _verdict("equal", "launch", premises | {"launch"}, [], sig_a, sig_b)
    reasons = [_map_reason(difference), *static]
    if one.program.powers_of_two:  # whether an input keeps to the assumption is not checked
        return _verdict("unproved", "", premises, reasons, sig_a, sig_b)
    witness = find_witness(one.program, two.program, launch_a, launch_b)
    if witness is None:
        return _verdict("unproved", "", premises, reasons, sig_a, sig_b)
    verdict = _verdict("unequal", "witness", premises | {"launch"}, reasons, sig_a, sig_b)
    return replace(verdict, witness=witness)


def _as_launch_of(program: Program, launch: Launch) -> Launch:
    """One kernel's launch for another: block and shared memory are facts of the text."""
    return replace(launch, shared_bytes=None, block=None if program.block else launch.block)


def _map_reason(found: Difference) -> Reason:
    return Reason(found.kind, f"at this launch {found.count} elements of {found.buffer!r} differ, "
                  f"the first is element {found.element}", found.line_a, found.line_b)


def _verdict(kind: str, basis: str, premises: Iterable[str], reasons: Sequence[Reason],
             a: Signature, b: Signature) -> Verdict:
    return Verdict(kind, basis, tuple(sorted(set(premises))), tuple(reasons), a, b)
