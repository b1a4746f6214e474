"""Many kernels: what is known of each by itself, and the classes that this makes.

In: kernels. Out: `Examined` for each, then a `Partition`. `rounds` is the order in which kernels
are asked about, whoever answers (this process, workers behind a cache): the cheaper engine first,
signatures where a replay could not answer, a second look where sizes may make kernels equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol

import xxhash

from checker import knobs
from checker.assume import broken_premises
from checker.collector import collector_paused
from checker.core import Program
from checker.errors import LaunchError, SamebitsError, Span
from checker.kernel import (
    SAME_PROGRAM,
    block_of,
    program_of,
    refusals,
    run_reasons,
    text_digest,
    walk_kernel,
)
from checker.launch import Launch
from checker.replay import ReplayResult, replay
from checker.results import EqualClass, KernelInput, Opaque, Partition, Reason, Signature
from checker.syntax import SourceLoc
from checker.tree.signature import signature

__all__ = [
    "Examined", "by_replay", "classify", "examine", "look_again", "partition", "replay_first",
    "rounds", "to_sign",
]

Progress = Callable[[int, int], None]
Known = dict[tuple[str, ...], ReplayResult]
Question = tuple[KernelInput, bool, tuple[str, ...]]


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


def examine(kernel: KernelInput, *, known: Known | None = None,
            divisible: Sequence[str] = (), static: bool = False) -> Examined:
    """Sign one kernel and, where it has launch facts, replay it at each launch.

    known: replays to share, by static signature (else by program) and launch. divisible: sizes to
    take for multiples of 16 (`look_again`); the signature is one under that premise, and nothing
    is replayed. static: nothing is replayed, the launches say how large the blocks are.
    """
    launches = _launches(kernel)
    walked = walk_kernel(kernel.text, kernel.isa, kernel.kernel, kernel.name,
                         divisible=tuple(divisible), block=block_of(launches))
    signed = signature(walked)
    broken = [r for launch in launches for r in broken_premises(signed.premises, launch)]
    if broken:
        signed = replace(signed, modelled=False, findings=(*signed.findings, *broken))
    premises = set(signed.premises)
    shapes = _shapes(launches, premises if signed.modelled else SAME_PROGRAM)
    reasons = refusals(signed, "this")
    digest = text_digest(walked.program)
    found = Examined(kernel.name, signed, _parameters(walked.program), shapes, (), digest,
                     tuple(sorted(premises)), tuple(reasons), shows=walked.shows)
    if reasons or divisible or static:
        return found
    name = (signed.text if signed.modelled else digest, *shapes)
    return _with_runs(found, _runs(walked.program, launches, name, known), walked.program)


@collector_paused()
def by_replay(kernel: KernelInput, *, known: Known | None = None) -> Examined:
    """What is known of a kernel from its launches alone: no walk, so no static signature.

    Its signature says `text-...`, which only the same program has. known: replays to share.
    """
    program = program_of(kernel.text, isa=kernel.isa, kernel=kernel.kernel, file=kernel.name)
    digest = text_digest(program)
    signed = Signature(f"text-{digest}", program.name, program.isa, program.target, False)
    launches = _launches(kernel)
    shapes = _shapes(launches, SAME_PROGRAM)
    found = Examined(kernel.name, signed, _parameters(program), shapes, program=digest)
    return _with_runs(found, _runs(program, launches, (digest, *shapes), known), program)


def _launches(kernel: KernelInput) -> tuple[Launch, ...]:
    return tuple(map(Launch.from_json, kernel.launches))


def _parameters(program: Program) -> tuple[tuple[int, bool], ...]:
    return tuple((p.size_bytes, p.pointer) for p in program.params)


def _runs(program: Program, launches: Sequence[Launch], name: tuple[str, ...],
          known: Known | None) -> list[ReplayResult]:
    """A kernel's replays; `known` ones by its name are shared.

    The name holds the shapes that the map depends on: of a kernel that is not signed, its grid.
    """
    out = []
    for launch in launches:
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
    problems = [run_reasons(run, "this") for run in runs]
    premises = set(found.premises).union(*(run.premises for run in runs),
                                         {"launch"} if runs else ())
    return replace(
        found, digests=tuple(None if why else run.digest
                             for why, run in zip(problems, runs, strict=True)),
        premises=tuple(sorted(premises)),
        reasons=(*found.reasons, *(r for why in problems for r in why)),
        refused=not opaque and any(run.findings or run.nondeterministic for run in runs))


def _shapes(launches: Sequence[Launch], premises: Iterable[str]) -> tuple[str, ...]:
    """Launch shapes that a static class must share: those its trees depend on.

    Of a kernel that is not modelled all of them, since it is equal to its own program only.
    """
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
    if found.refused or refusals(found.signature, "this"):
        return []
    static = found.signature.text if found.signature.modelled else found.program
    keys: list[tuple[Any, ...]] = [("static", found.parameters, static, found.shapes)]
    if found.launch_signature is not None:
        keys.append(("launch", found.parameters, found.digests))
    return keys


def _second_keys(kernel: KernelInput, second: Examined) -> list[tuple[Any, ...]]:
    """What a kernel may be merged by after a second look, unless its launches contradict that."""
    if not second.signature.modelled or broken_premises(
            second.premises, *_launches(kernel)):
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
        premises |= SAME_PROGRAM
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
    """Return each knob with the values it takes in a class: numbers by size, then other values."""
    names = sorted({name for c in configs for name in c})
    values = {n: {repr(c[n]): c[n] for c in configs if n in c} for n in names}
    return {n: [found[text] for text in sorted(found, key=lambda t: _rank(t, found[t]))]
            for n, found in values.items()}


def _rank(text: str, value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float) and value == value
    return not number, value if number else 0.0, text


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


class Ask(Protocol):
    """Answers what `examine` or `by_replay` says of a kernel; a str is what is wrong with it."""

    def __call__(
        self, kernel: KernelInput, replay_only: bool, divisible: tuple[str, ...],
    ) -> Examined | str:
        """Ask about one kernel: at its launches only, or signed (a second look: `divisible`)."""
        ...


def rounds(
    kernels: Iterable[KernelInput], ask: Ask, *, ahead: Callable[..., None] | None = None,
    replay_only: bool = False, static: bool = False, progress: Progress | None = None,
) -> Partition:
    """Ask about each kernel, some of them again, and form the classes.

    ahead: is told, with the arguments of `ask`, what will be asked. replay_only: nothing is signed.
    static: everything is, so that a class can stand for every launch.
    """
    inputs = list(kernels)
    only = [replay_only or (replay_first(k) and not static) for k in inputs]

    def answers(
        asked: Mapping[int, Question], told: Progress | None = None,
    ) -> dict[int, Examined | str]:
        if ahead is not None:
            for question in asked.values():
                ahead(*question)
        out = {}
        for number, question in asked.items():
            out[number] = ask(*question)
            if told is not None:
                told(len(out), len(asked))
        return out

    found = answers({n: (k, only[n], ()) for n, k in enumerate(inputs)}, progress)
    if not replay_only:
        found |= answers({n: (inputs[n], False, ()) for n in to_sign(list(found.values()))})
    items = [(k, e) for k, e in zip(inputs, found.values(), strict=True) if not isinstance(e, str)]
    errors = [(k.name, e) for k, e in zip(inputs, found.values(), strict=True)
              if isinstance(e, str)]
    looks = look_again([e for _, e in items], static)
    seconds = answers({n: (items[n][0], False, sizes) for n, sizes in looks.items()})
    return classify(items, errors, {n: e for n, e in seconds.items() if not isinstance(e, str)})


def partition(kernels: Iterable[KernelInput], *, progress: Progress | None = None,
              static: bool = False) -> Partition:
    """Sort kernels into classes that are proved bitwise equal.

    Without launch facts the classes are static; with them a class is joint over all launches.
    The cheaper engine answers first: at small launches the replay, and nothing is signed where it
    answers. static: sign all the same, so that a class can stand for every launch.
    A kernel that cannot be read is listed under `errors`; the rest goes on.
    """
    known: Known = {}
    by_text: dict[tuple[Any, ...], Examined | str] = {}

    def ask(kernel: KernelInput, replay_only: bool, divisible: tuple[str, ...]) -> Examined | str:
        key = (replay_only, divisible, kernel.text, kernel.isa, kernel.kernel,
               repr(kernel.launches))
        if key not in by_text:
            how = by_replay if replay_only else partial(examine, divisible=divisible)
            by_text[key] = _or_error(how, kernel, known)
        found = by_text[key]
        return found if isinstance(found, str) else replace(found, name=kernel.name)

    return rounds(kernels, ask, static=static, progress=progress)


def _or_error(how: Callable[..., Examined], kernel: KernelInput, known: Known) -> Examined | str:
    """What is found of a kernel, or what is wrong with it."""
    try:
        return how(kernel, known=known)
    except LaunchError as error:
        return f"launch facts: {error}"
    except SamebitsError as error:
        return str(error)
