"""The public calls: sign, compare, partition, and what the command line and service show.

In: texts and launch facts. Out: the records of `checker.results`. This is the whole pipeline in one
place: parse -> lower -> contract -> (walk | replay) -> compare. The cheaper engine answers first.
Raises InputError, UsageError or LaunchError; nothing else for bad input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any

import xxhash

from checker import knobs
from checker.assume import Block, assumed, contradicted, positions, sized
from checker.collector import collector_paused
from checker.contract import contract
from checker.core import Program
from checker.errors import LaunchError, SamebitsError, Span
from checker.launch import Launch
from checker.lower import kernel_names, lower
from checker.parse import parse
from checker.replay import Difference, ReplayResult, first_difference, replay
from checker.results import (
    EqualClass,
    KernelInput,
    Opaque,
    Partition,
    Reason,
    Signature,
    Verdict,
)
from checker.syntax import SourceLoc
from checker.tree import pretty
from checker.tree.result import WalkResult
from checker.tree.signature import same, signature
from checker.tree.text import normalised_text
from checker.walk import walk
from checker.witness import find_witness

__all__ = [
    "Examined", "by_replay", "classify", "compare", "compare_at", "coverage", "examine",
    "kernels_in", "look_again", "outline", "partition", "program_of", "replay_first",
    "replay_kernel", "sign", "to_sign", "tree_text",
    "walked",
]

# Codes of findings that say "the walk could not", not "the kernel is wrong".
LIMITS = frozenset({"fuel", "internal", "unmodelled", "irreducible", "local", "parameter",
                    "shared-address", "switch", "premise"})

# What is assumed where two texts are equal as they are one program, whatever it does.
_SAME_PROGRAM = frozenset({"same-program", "same-grid", "same-block"})

LaunchFacts = Launch | Mapping[str, Any]
Progress = Callable[[int, int], None]


# One text may have hundreds of kernels, and is asked about each of them by itself.
_parsed = lru_cache(maxsize=2)(parse)


# --- one kernel -------------------------------------------------------------------------------


def kernels_in(text: str, *, isa: str | None = None, file: str = "<text>") -> tuple[str, ...]:
    """Return the names of the kernels (entries) in a text."""
    return kernel_names(_parsed(text, isa=isa, file=file), file=file)


def program_of(text: str, *, isa: str | None = None, kernel: str | None = None,
               assume: Sequence[str] = (), file: str = "<text>") -> Program:
    """Return the core program of one kernel, as the engines run it; assume: `checker.assume`."""
    program = contract(lower(_parsed(text, isa=isa, file=file), kernel, file=file))
    return assumed(program, assume)


@lru_cache(maxsize=8)
def _walked(text: str, isa: str | None, kernel: str | None, file: str,
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
    """Return the walk of one kernel that `compare` makes under these options."""
    facts = None if launch is None else Launch.from_json(launch)
    return _walked(text, isa, kernel, file, positions(assume, facts), block=_block_of([facts]))


def _block_of(launches: Iterable[LaunchFacts | None]) -> Block | None:
    """The block size that all launches have, if that is one."""
    blocks = {None if facts is None else Launch.from_json(facts).block for facts in launches}
    return blocks.pop() if len(blocks) == 1 else None


def sign(text: str, *, isa: str | None = None, kernel: str | None = None,
         assume: Sequence[str] = (), launches: Sequence[LaunchFacts] = (),
         file: str = "<text>") -> Signature:
    """Return the static signature of one kernel; `kernel` is needed where a text has several.

    assume: what is declared, such as `pow2:arg2,arg3` of arguments or `block:128`. launches: facts
    that give the block size where the text leaves it open and the kernel must know it.
    """
    return signature(_walked(text, isa, kernel, file, tuple(assume), block=_block_of(launches)))


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
    return pretty.render(_walked(text, isa, kernel, file))


def outline(text: str, *, isa: str | None = None, kernel: str | None = None,
            file: str = "<text>") -> list[dict[str, Any]]:
    """Return the trees as nested data: output, label, line, loc, children."""
    return pretty.outline(_walked(text, isa, kernel, file))


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


def _text_digest(program: Program) -> str:
    return xxhash.xxh3_128_hexdigest(normalised_text(program).encode())


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
    declared = positions(assume, None if launch_a is None else Launch.from_json(launch_a))
    sized_a, sized_b = _block_of([launch_a]), _block_of([launch_b or launch_a])
    one = _walked(a, isa_a, kernel_a, file_a, declared, block=sized_a)
    two = _walked(b, isa_b, kernel_b, file_b, declared, block=sized_b)
    sig_a, sig_b = signature(one), signature(two)
    premises = set(sig_a.premises) | set(sig_b.premises)
    reasons = _refusals(sig_a, "first") + _refusals(sig_b, "second")
    reasons += _parameter_reasons(one.program, two.program)
    if strict and "contraction" in premises:
        reasons.append(Reason("contraction", "a contractable pair may be fused by the assembler"))
    if reasons:
        return _verdict("unproved", "", premises, reasons, sig_a, sig_b)
    broken = [*_broken_premises(_without_block(premises), launch_a, launch_b),
              *_broken_premises(_blocks(sig_a.premises), launch_a),
              *_broken_premises(_blocks(sig_b.premises), launch_b or launch_a)]
    if broken and declared:
        return _verdict("unproved", "", premises, broken, sig_a, sig_b)
    whole = premises | (set() if sig_a.modelled else _SAME_PROGRAM)
    if not broken and normalised_text(one.program) == normalised_text(two.program) \
            and _blocks(sig_a.premises) == _blocks(sig_b.premises) \
            and not _broken_premises(_without_block(whole), launch_a, launch_b):
        return _verdict("equal", "static", whole, [], sig_a, sig_b)
    proved, differences = same(one, two)
    if proved and not broken:
        return _verdict("equal", "static", premises, [], sig_a, sig_b)
    sizes = tuple(sorted({*one.shows, *two.shows}))
    if (sizes or "same-block" in premises) and not proved and one.modelled and two.modelled:
        again = (_walked(a, isa_a, kernel_a, file_a, declared, sizes, sized_a, True),
                 _walked(b, isa_b, kernel_b, file_b, declared, sizes, sized_b, True))
        assumed_too = premises.union(*(w.premises for w in again))
        if same(*again)[0] and not _broken_premises(
                _without_block(assumed_too), launch_a, launch_b):
            return _verdict("equal", "static", assumed_too, [], sig_a, sig_b)
    if launch_a is None:
        return _verdict("unproved", "", premises, differences, sig_a, sig_b)
    differences = (*differences, *broken)
    facts_a = Launch.from_json(launch_a)
    facts_b = (_as_launch_of(two.program, facts_a) if launch_b is None
               else Launch.from_json(launch_b))
    return _compare_launch(one, two, facts_a, facts_b, premises, differences)


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


def _refusals(signature: Signature, which: str) -> list[Reason]:
    """Why a kernel can be equal to nothing, itself included."""
    reasons = [replace(f, message=f"{which} kernel: {f.message}") for f in signature.findings
               if f.code not in LIMITS]
    if signature.nondeterministic:
        reasons.append(Reason("nondeterministic", f"the {which} kernel has no fixed bits"))
    return reasons


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


def _blocks(premises: Iterable[str]) -> set[str]:
    """The block sizes that a kernel was walked at, as premises."""
    return {code for code in premises if code.startswith("block:")}


def _without_block(premises: Iterable[str]) -> set[str]:
    """The premises that both launches must keep: each kernel has a block size of its own."""
    return set(premises) - _blocks(premises)


def _broken_premises(premises: Iterable[str], *launches: LaunchFacts | None) -> list[Reason]:
    """Premises that the launch facts contradict, each launch or two of them (`same-grid`)."""
    broken = []
    known = [Launch.from_json(launch) for launch in launches if launch is not None]
    for code, shapes in (("same-grid", {x.grid for x in known}),
                         ("same-block", {x.block for x in known})):
        if code in premises and len(shapes) > 1:
            broken.append(Reason("premise", f"the launch facts contradict {code}"))
    for launch in known:
        for code in sorted(premises):
            why = contradicted(code, launch)
            if why:
                broken.append(Reason("premise", f"the launch facts contradict {code}: {why}"))
    return broken


def _compare_launch(one: WalkResult, two: WalkResult, launch_a: Launch, launch_b: Launch,
                    premises: set[str], static: Sequence[Reason]) -> Verdict:
    """The exact second opinion at the given launches, then the search for a witness."""
    run_a, run_b = replay(one.program, launch_a), replay(two.program, launch_b)
    sig_a, sig_b = signature(one), signature(two)
    premises = premises | set(run_a.premises) | set(run_b.premises)
    reasons = _run_reasons(run_a, "first") + _run_reasons(run_b, "second")
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


def _run_reasons(run: ReplayResult, which: str) -> list[Reason]:
    reasons = [replace(r, message=f"{which} kernel: {r.message}") for r in run.reasons()]
    if which == "second":
        reasons = [replace(r, line_a=None, line_b=r.line_a, loc_a=None, loc_b=r.loc_a)
                   for r in reasons]
    if run.nondeterministic:
        reasons.append(Reason("nondeterministic", f"the {which} kernel has no fixed bits"))
    return reasons


def _verdict(kind: str, basis: str, premises: Iterable[str], reasons: Sequence[Reason],
             a: Signature, b: Signature) -> Verdict:
    return Verdict(kind, basis, tuple(sorted(set(premises))), tuple(reasons), a, b)


# --- many kernels -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Examined:
    """What is known of one kernel of a sweep, computed from that kernel alone; plain data inside.

    parameters: sizes and kinds, so that only kernels of one parameter list share a class.
    shapes: grid and block of each launch, where the static tree depends on them.
    digests: one replay digest for each launch, None where the replay could not answer.
    program: digest of the normalised program, by which kernels that are not modelled may merge.
    shows: sizes (argN) that the kernel relies on to be multiples of 16 or less (`look_again`).
    refused: a replay found a defect, or no fixed bits, in a kernel of which all is modelled: it is
        equal to nothing.
    """

    name: str
    signature: Signature
    parameters: tuple[tuple[int, bool], ...]
    shapes: tuple[str, ...] = ()
    digests: tuple[str | None, ...] = ()
    program: str = ""
    premises: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    refused: bool = False
    shows: tuple[str, ...] = ()

    @property
    def launch_signature(self) -> str | None:
        """`sb1l-...` over the output maps at all launches; None unless each of them is known."""
        if not self.digests or None in self.digests:
            return None
        joint = "|".join(str(d) for d in self.digests)
        return "sb1l-" + xxhash.xxh3_128_hexdigest(joint.encode())

    def to_json(self) -> dict[str, Any]:
        """Return plain data; `from_json` is its inverse."""
        return {**asdict(self), "launch_signature": self.launch_signature}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Examined:
        """Rebuild from `to_json`'s data."""
        return Examined(
            data["name"], _signature_from(data["signature"]),
            tuple((int(s), bool(p)) for s, p in data["parameters"]),
            tuple(data["shapes"]), tuple(data["digests"]), data["program"], tuple(data["premises"]),
            tuple(_reason_from(r) for r in data["reasons"]), bool(data.get("refused", False)),
            tuple(data.get("shows", ())))


def _reason_from(data: Mapping[str, Any]) -> Reason:
    locs = {k: SourceLoc(**data[k]) if data.get(k) else None for k in ("loc_a", "loc_b")}
    return Reason(data["code"], data["message"], data["line_a"], data["line_b"], **locs)


def _signature_from(data: Mapping[str, Any]) -> Signature:
    opaque = tuple(
        Opaque(o["opcode"], o["text"], Span(**o["span"]),
               SourceLoc(**o["loc"]) if o.get("loc") else None, o["reaches_output"])
        for o in data["opaque"])
    return Signature(
        data["text"], data["kernel"], data["isa"], data["target"], data["modelled"], opaque,
        tuple(data["premises"]), tuple(_reason_from(f) for f in data["findings"]),
        data["nondeterministic"], data["summary"])


def examine(kernel: KernelInput, *, known: dict[tuple[str, ...], ReplayResult] | None = None,
            divisible: Sequence[str] = (), static: bool = False) -> Examined:
    """Sign one kernel and, where it has launch facts, replay it at each launch.

    known: replays to share, by static signature (else by program) and launch. divisible: sizes to
    take for multiples of 16 (`look_again`); the signature is one under that premise, and nothing
    is replayed. static: nothing is replayed, the launches say how large the blocks are.
    """
    walked = _walked(kernel.text, kernel.isa, kernel.kernel, kernel.name,
                     divisible=tuple(divisible), block=_block_of(kernel.launches))
    signed = signature(walked)
    parameters = tuple((p.size_bytes, p.pointer) for p in walked.program.params)
    broken = [r for launch in kernel.launches
              for r in _broken_premises(signed.premises, launch)]
    if broken:
        signed = replace(signed, modelled=False, findings=(*signed.findings, *broken))
    premises = set(signed.premises)
    shapes = _shapes(kernel, premises if signed.modelled else _SAME_PROGRAM)
    reasons = _refusals(signed, "this")
    found = Examined(kernel.name, signed, parameters, shapes, (), _text_digest(walked.program),
                     tuple(sorted(premises)), tuple(reasons), shows=walked.shows)
    if reasons or divisible or static:
        return found
    name = (signed.text, *shapes) if signed.modelled else (_text_digest(walked.program),)
    runs = _runs(walked.program, kernel.launches, name, known)
    return _with_runs(found, runs, walked.program)


@collector_paused()
def by_replay(kernel: KernelInput, *, known: dict[tuple[str, ...], ReplayResult] | None = None
              ) -> Examined:
    """What is known of a kernel from its launches alone: no walk, so no static signature.

    Its signature says `text-...`, which only the same program has. known: replays to share.
    """
    program = program_of(kernel.text, isa=kernel.isa, kernel=kernel.kernel, file=kernel.name)
    digest = _text_digest(program)
    signed = Signature(f"text-{digest}", program.name, program.isa, program.target, False)
    runs = _runs(program, kernel.launches, (digest,), known)
    return _with_runs(
        Examined(kernel.name, signed, tuple((p.size_bytes, p.pointer) for p in program.params),
                 _shapes(kernel, _SAME_PROGRAM), program=digest), runs, program)


def _runs(program: Program, launches: Sequence[LaunchFacts], name: tuple[str, ...],
          known: dict[tuple[str, ...], ReplayResult] | None) -> list[ReplayResult]:
    """A kernel's replays; `known` ones by its name are shared."""
    out = []
    for facts in launches:
        launch = Launch.from_json(facts)
        key = (*name, launch.digest(), str(launch.block))
        run = None if known is None else known.get(key)
        if run is None:
            run = replay(program, launch)
            if known is not None:
                known[key] = run
        out.append(run)
    return out


def _with_runs(found: Examined, runs: Sequence[ReplayResult], program: Program) -> Examined:
    """Add what the replays said."""
    opaque = any(op.name == "opaque" for op in program.ops)  # may have written what seems undefined
    problems = [_run_reasons(run, "this") for run in runs]
    premises = set(found.premises).union(*(run.premises for run in runs),
                                         {"launch"} if runs else ())
    return replace(
        found, digests=tuple(None if why else run.digest
                             for why, run in zip(problems, runs, strict=True)),
        premises=tuple(sorted(premises)),
        reasons=(*found.reasons, *(r for why in problems for r in why)),
        refused=not opaque and any(run.findings or run.nondeterministic for run in runs))


def _shapes(kernel: KernelInput, premises: Iterable[str]) -> tuple[str, ...]:
    """Launch shapes that a static class must share: those its trees depend on.

    Of a kernel that is not modelled all of them, since it is equal to its own program only.
    """
    launches = [Launch.from_json(facts) for facts in kernel.launches]
    out = [f"grid {x.grid}" for x in launches if "same-grid" in premises]
    return (*out, *(f"block {x.block}" for x in launches if "same-block" in premises))


def classify(items: Sequence[tuple[KernelInput, Examined]],
             errors: Sequence[tuple[str, str]] = (),
             again: Mapping[int, Examined] | None = None) -> Partition:
    """Form the classes: equal static signatures, or equal digests at every launch given.

    again: what a second look (`look_again`) said of some of the items, by index.
    """
    again = again or {}
    static = _Groups(len(items))
    unproved = []
    for number, (kernel, found) in enumerate(items):
        keys = _class_keys(found)
        second = again.get(number)
        if keys and second is not None:
            keys += _second_keys(kernel, second)
        static.join(number, [k for k in keys if k[0] != "launch"])
        if found.refused or (
                not found.signature.modelled and found.launch_signature is None):
            unproved.append((found.name, found.reasons or _not_modelled(found.signature)))
    whole = static.copy()
    for number, (_, found) in enumerate(items):
        whole.join(number, [k for k in _class_keys(found) if k[0] == "launch"])
    classes: dict[int, list[int]] = {}
    for number, (_, found) in enumerate(items):
        if _class_keys(found):
            classes.setdefault(whole.find(number), []).append(number)
    made = []
    for members in classes.values():
        one = len({static.find(n) for n in members}) == 1
        premises = set().union(*(again[n].premises for n in members if n in again)) if one else ()
        made.append(_equal_class([items[n] for n in members], one, premises))
    made.sort(key=lambda c: (-len(c.members), c.members))
    labels = {name: n for n, c in enumerate(made) for name in c.members}
    rows = [(k.config, labels.get(k.name, -1 - n)) for n, (k, _) in enumerate(items)]
    separation = knobs.separate(rows)
    return Partition(tuple(made), tuple(unproved), tuple(errors), tuple(separation.knobs))


def _class_keys(found: Examined) -> list[tuple[Any, ...]]:
    """What a kernel may be merged by; none: it is equal to nothing, itself included."""
    if found.refused or _refusals(found.signature, "this"):
        return []
    static = found.signature.text if found.signature.modelled else found.program
    keys: list[tuple[Any, ...]] = [("static", found.parameters, static, found.shapes)]
    if found.launch_signature is not None:
        keys.append(("launch", found.parameters, found.digests))
    return keys


def _second_keys(kernel: KernelInput, second: Examined) -> list[tuple[Any, ...]]:
    """What a kernel may be merged by after a second look, unless its launches contradict that."""
    if not second.signature.modelled or _broken_premises(second.premises, *kernel.launches):
        return []
    return [("second", second.parameters, second.signature.text, second.shapes)]


def look_again(found: Sequence[Examined], static: bool = False) -> dict[int, tuple[str, ...]]:
    """Which kernels are worth a second static look, and with which sizes as multiples of 16.

    Of kernels with one parameter list some may show that a size is a multiple (a vector access
    tests one of its elements) and some not; under what any of them shows, they may be equal. One
    kernel of each signature is looked at. static: those that launches decide, too.
    """
    groups: dict[Any, dict[str, int]] = {}
    sizes: dict[Any, set[str]] = {}
    for number, e in enumerate(found):
        if _class_keys(e) and e.signature.modelled and (static or e.launch_signature is None):
            name = (e.parameters, e.shapes)
            groups.setdefault(name, {}).setdefault(e.signature.text, number)
            sizes.setdefault(name, set()).update(e.shows)
    return {number: tuple(sorted(sizes[name])) for name, members in groups.items()
            if sizes[name] and len(members) > 1 for number in members.values()}


def _not_modelled(signature: Signature) -> tuple[Reason, ...]:
    """Why a kernel can merge with nothing but the same program."""
    opaque = tuple(Reason("opaque", f"not modelled: {o.text}", o.span.line, None, o.loc)
                   for o in signature.opaque if o.reaches_output)
    return signature.findings + opaque


def _equal_class(members: Sequence[tuple[KernelInput, Examined]], static: bool,
                 more: Iterable[str]) -> EqualClass:
    """Make a class; static: its members are joined without launches; more: its premises then.

    Its signature is that of its members, the first in order where they have several.
    """
    found = [e for _, e in members]
    premises = set().union(*(e.premises for e in found))
    modelled = sorted(e.signature.text for e in found if e.signature.modelled)
    if static and len(modelled) == len(found):
        basis, signature = "static", modelled[0]
        premises |= set(more) if len(set(modelled)) > 1 else set()
    elif static and len({e.program for e in found}) == 1 and (
            len(found) > 1 or found[0].launch_signature is None):
        basis, signature = "static", found[0].signature.text
        premises |= _SAME_PROGRAM
    else:
        basis = "launch"
        signature = next(e.launch_signature for e in found if e.launch_signature is not None)
    if basis == "static":
        premises -= {"launch"}
    return EqualClass(signature, basis, tuple(k.name for k, _ in members),
                      _common_knobs([k.config for k, _ in members]), tuple(sorted(premises)))


class _Groups:
    """Sets of numbers below a count, joined where they share a key."""

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))
        self.first: dict[tuple[Any, ...], int] = {}

    def find(self, i: int) -> int:
        """Return the number that stands for a set."""
        while self.parent[i] != i:
            self.parent[i] = self.parent[self.parent[i]]
            i = self.parent[i]
        return i

    def join(self, number: int, keys: Iterable[tuple[Any, ...]]) -> None:
        """Join a number with all that have one of its keys."""
        for key in keys:
            self.parent[self.find(number)] = self.find(self.first.setdefault(key, number))

    def copy(self) -> _Groups:
        """Return the same sets."""
        out = _Groups(0)
        out.parent, out.first = list(self.parent), dict(self.first)
        return out


def _common_knobs(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return each knob with the sorted values it takes in a class."""
    names = sorted({name for c in configs for name in c})
    return {n: sorted({repr(c[n]) for c in configs if n in c}) for n in names}


SMALL_THREADS = 1 << 17  # of all launches together: their replay costs less than signing


def replay_first(kernel: KernelInput) -> bool:
    """Whether the launches given are so small that replaying is cheaper than signing."""
    threads = 0
    for facts in kernel.launches:
        try:
            launch = Launch.from_json(facts)
        except LaunchError:  # said when it is replayed
            return True
        x, y, z = launch.block or (256, 1, 1)
        threads += launch.grid[0] * launch.grid[1] * launch.grid[2] * x * y * z
    return 0 < threads <= SMALL_THREADS


def to_sign(found: Sequence[Examined | str]) -> list[int]:
    """Which kernels need a static signature after all, as indices (a str: not examined).

    Where a replay could not answer, equal signatures still may: of that kernel, and of those that
    have its parameters.
    """
    known = [(i, e) for i, e in enumerate(found) if isinstance(e, Examined) and not e.refused]
    open_ = {e.parameters for _, e in known if e.launch_signature is None}
    return [i for i, e in known if e.parameters in open_ and e.signature.text.startswith("text-")]


def partition(kernels: Iterable[KernelInput], *, progress: Progress | None = None,
              static: bool = False) -> Partition:
    """Sort kernels into classes that are proved bitwise equal.

    Without launch facts the classes are static; with them a class is joint over all launches.
    The cheaper engine answers first: at small launches the replay, and nothing is signed where it
    answers. static: sign all the same, so that a class can stand for every launch.
    A kernel that cannot be read is listed under `errors`; the rest goes on.
    """
    inputs = list(kernels)
    known: dict[tuple[str, ...], ReplayResult] = {}
    by_text: dict[tuple[Any, ...], Examined | str] = {}
    counted = 0

    def ask(number: int, how: Callable[..., Examined]) -> Examined | str:
        nonlocal counted
        kernel = inputs[number]
        key = (how.__name__, kernel.text, kernel.isa, kernel.kernel, repr(kernel.launches))
        if key not in by_text:
            by_text[key] = _or_error(how, kernel, known)
        counted += 1
        if progress is not None:
            progress(min(counted, len(inputs)), len(inputs))
        found = by_text[key]
        return found if isinstance(found, str) else replace(found, name=kernel.name)

    found: list[Examined | str] = []
    for number, kernel in enumerate(inputs):
        found.append(ask(number, by_replay if replay_first(kernel) and not static else examine))
    for number in to_sign(found):
        found[number] = ask(number, examine)
    items = [(k, e) for k, e in zip(inputs, found, strict=True) if isinstance(e, Examined)]
    errors = [(k.name, e) for k, e in zip(inputs, found, strict=True) if isinstance(e, str)]
    seconds = {n: _or_error(partial(examine, divisible=sizes), items[n][0], None)
               for n, sizes in look_again([e for _, e in items], static).items()}
    return classify(items, errors, {n: e for n, e in seconds.items() if isinstance(e, Examined)})


def _or_error(how: Callable[..., Any], kernel: KernelInput, known: Any) -> Any:
    """What is found of a kernel, or what is wrong with it."""
    try:
        return how(kernel, known=known)
    except LaunchError as error:
        return f"launch facts: {error}"
    except SamebitsError as error:
        return str(error)
