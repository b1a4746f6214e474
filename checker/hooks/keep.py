"""The predicate that every tuner adapter shares: which kernels are bitwise equal to a reference.

In: compiled kernels (`KernelInput`: text, configuration, optionally launch facts) and a reference.
Out: `Kept`: the names to keep, why, and what separates the rest. Equality is proved or the kernel
goes; nothing raises: a check that fails keeps the reference alone and says why.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checker import knobs
from checker.assume import block_code
from checker.cache import Cache, Examiner, open_default, partition
from checker.errors import SamebitsError, UsageError
from checker.results import EqualClass, KernelInput, Partition, Reason

__all__ = ["Baseline", "Kept", "Reference", "announce", "keep_equal"]

REFERENCE = "<reference>"
Geometry = Mapping[str, tuple[Any, Any]]
LAUNCH = ("auto", "first", "only", "always", "never")
log = logging.getLogger("samebits.autotune")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A reference out of a committed baseline: the file, and a part of the entry's name."""

    path: Path | str
    entry: str


#: an index or name in the list, a kernel of its own, a signature (`sb1-...`), a baseline entry
Reference = int | str | KernelInput | Baseline


@dataclass(frozen=True, slots=True)
class Kept:
    """What to keep, and why.

    names: in the order given. basis: static (at every launch) or launch (at this one only: then
    `premises` has `launch`). separating: one line on the knobs. failed: why there is no verdict
    (only the reference is kept then); empty otherwise. seconds: of the check, without compiling.
    """

    names: tuple[str, ...]
    reference: str
    total: int
    signature: str = ""
    basis: str = ""
    premises: tuple[str, ...] = ()
    classes: int = 0
    unproved: tuple[tuple[str, str], ...] = ()
    separating: str = ""
    failed: str = ""
    seconds: float = 0.0
    from_cache: bool = False

    def line(self, label: str = "", compile_seconds: float | None = None) -> str:
        """The log line."""
        head = f"samebits: {label}: " if label else "samebits: "
        if self.failed:
            return f"{head}kept only {self.reference} of {self.total}: {self.failed}"
        where = f"{self.signature} ({self.basis})" if self.signature else "not modelled"
        said = f"{head}kept {len(self.names)} of {self.total}, bitwise equal to {self.reference}"
        said += f", class {where}; {self.classes} classes"
        if self.unproved:
            said += f", {len(self.unproved)} unproved"
        if self.separating:
            said += f"; {self.separating}"
        said += f"; check {self.seconds:.2f} s"
        if compile_seconds:
            said += f" ({100 * self.seconds / compile_seconds:.1f} % of compiling)"
        return said + (", cached" if self.from_cache else "")


def announce(line: str) -> None:
    """Log a line; where nobody set logging up, print it to standard error."""
    log.info(line)
    if not log.hasHandlers():
        print(line, file=sys.stderr)


def keep_equal(
    kernels: Sequence[KernelInput],
    reference: Reference = 0,
    *,
    launch: str = "auto",
    geometry: Geometry | None = None,
    store: Cache | None = None,
    examiner: Examiner | None = None,
) -> Kept:
    """Name the kernels that are proved bitwise equal to a reference.

    launch: what the kernels' launch facts are used for. "never": not at all. "auto": to decide what
    the static engine leaves open. "first": the other way round, the static engine decides what the
    replay leaves open. "only": the static engine is not asked. "always": both for all of them.
    With the last three, kernels that agree at this launch only are kept too. The reference itself
    is always kept if it is in the list.
    geometry: grid and block of each kernel by name, where the launch facts do not say: kernels
    that read their grid's size are equal only at the same grid. store: where answers are kept;
    examiner: one that was handed the kernels already.
    """
    start = time.perf_counter()
    kernels = _unique(kernels)
    own = examiner is None
    asks = Examiner(store or open_default()) if examiner is None else examiner
    try:
        kept = _keep(kernels, reference, launch, {**_geometry(kernels), **(geometry or {})}, asks)
    except Exception as error:
        kept = _only_reference(kernels, reference, _why(error))
    finally:
        if own:
            asks.close()
    kept = replace(kept, from_cache=asks.asked > 0 and asks.asked == asks.cached)
    return replace(kept, seconds=time.perf_counter() - start)


def _unique(kernels: Sequence[KernelInput]) -> list[KernelInput]:
    seen: dict[str, int] = {}
    out = []
    for kernel in kernels:
        count = seen[kernel.name] = seen.get(kernel.name, 0) + 1
        out.append(replace(kernel, name=f"{kernel.name}#{count}") if count > 1 else kernel)
    return out


def _why(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    known = isinstance(error, SamebitsError)
    return lines[0] if known else f"the check failed ({type(error).__name__}: {lines[0]})"


def _only_reference(kernels: Sequence[KernelInput], reference: Reference, why: str) -> Kept:
    if not kernels:
        return Kept((), "nothing", 0, failed=why)
    names = [kernel.name for kernel in kernels]
    chosen = names[0]  # a reference that is not in the list cannot be kept: the first stands in
    if isinstance(reference, str) and reference in names:
        chosen = reference
    elif isinstance(reference, int) and -len(names) <= reference < len(names):
        chosen = names[reference]
    return Kept((chosen,), chosen, len(kernels), failed=why)


def _geometry(kernels: Sequence[KernelInput]) -> dict[str, tuple[Any, Any]]:
    """Grid and block of each kernel that has launch facts."""
    return {
        kernel.name: (
            str([facts.get("grid") for facts in kernel.launches]),
            str([facts.get("block") for facts in kernel.launches]),
        )
        for kernel in kernels if kernel.launches
    }


def _block_codes(block: Any) -> set[str]:
    """The premises that name the block sizes of a kernel's launches."""
    sizes = [int(n) for n in re.findall(r"\d+", str(block))]
    return {block_code(sizes[i:i + 3]) for i in range(0, len(sizes), 3)}


def _split(answer: Partition, geometry: Geometry) -> Partition:
    """Cut static classes whose premises need one grid or one block where those differ.

    A class that was walked at some block size holds for kernels that are launched with it.
    """
    classes: list[EqualClass] = []
    for one in answer.classes:
        grid, block = "same-grid" in one.premises, "same-block" in one.premises
        whole = "same-program" in one.premises
        sizes = {code for code in one.premises if code.startswith("block:")}
        if one.basis != "static" or not (grid or block or whole or sizes):
            classes.append(one)
            continue
        groups: dict[Any, list[str]] = {}
        for name in one.members:
            known = geometry.get(name)
            key: Any = "unknown" if whole else name
            if known is not None and (not sizes or sizes == _block_codes(known[1])):
                key = (grid or whole) and known[0], (block or whole) and known[1]
            groups.setdefault(key, []).append(name)
        classes += [replace(one, members=tuple(names)) for names in groups.values()]
    return replace(answer, classes=tuple(classes))


def _keep(
    kernels: Sequence[KernelInput], reference: Reference, launch: str, geometry: Geometry,
    asks: Examiner,
) -> Kept:
    if launch not in LAUNCH:
        raise UsageError(f"launch is one of {', '.join(LAUNCH)}, not {launch!r}")
    if not kernels:
        raise UsageError("there is no kernel to choose from")
    name, extra, signature = _resolve(kernels, reference)
    pool = [*kernels, *extra]
    answers: list[Partition] = []
    facts = {k.name for k in pool if k.launches} if launch != "never" else set()
    if launch in ("first", "only") and name in facts:
        answers.append(partition([k for k in pool if k.name in facts], asks, replay_only=True))
        left = _open(answers[0])
        pool = [k for k in pool if k.name == name or k.name not in facts or k.name in left]
    if launch == "only":
        if not answers:
            raise UsageError("there are no launch facts for the reference")
    elif not answers or len(pool) > 1:
        static = [replace(k, launches=()) for k in pool]
        if name and not answers:  # nothing else matters if the reference cannot be read
            _need(next(k for k in static if k.name == name), asks)
        answers.append(_split(partition(static, asks), geometry))
        if signature:
            name = _by_signature(kernels, answers[-1], signature, asks)
    open_ = _open(answers[-1]) & facts
    if launch == "always" or (launch == "auto" and open_):
        every = launch == "always" or name in open_
        wanted = [k for k in pool if k.name in facts and (every or k.name in open_ | {name})]
        if any(k.name == name for k in wanted) and len(wanted) > 1:
            answers.append(partition(wanted, asks, replay_only=True))
    return _kept(kernels, name, answers)


def _open(answer: Partition) -> set[str]:
    """The names that an answer leaves without a class."""
    return {name for name, _ in answer.unproved} | {name for name, _ in answer.errors}


def _need(reference: KernelInput, asks: Examiner) -> None:
    try:
        asks.result(replace(reference, launches=()))
    except SamebitsError as error:
        raise UsageError(f"the reference cannot be read: {error}") from None


def _kept(kernels: Sequence[KernelInput], name: str, answers: Sequence[Partition]) -> Kept:
    """Put the answers together: equality is transitive, at the weaker of their bases."""
    joined = _join([set(one.members) for answer in answers for one in answer.classes])
    label = {member: number for number, one in enumerate(joined) for member in one}
    equal = next((one for one in joined if name in one), {name})
    mine = [one for answer in answers for one in answer.classes if name in one.members]
    static = next((one for one in mine if one.basis == "static"), None)
    enough = static is not None and equal <= set(static.members) | (equal - _names(kernels))
    basis = static if enough else next((one for one in mine if one.basis != "static"), static)
    apart = knobs.separate((k.config, label[k.name]) for k in kernels if k.name in label)
    why = {n: _reason(reasons) for answer in answers for n, reasons in answer.unproved}
    why |= {n: text.splitlines()[0] for answer in answers for n, text in answer.errors}
    unproved = [(k.name, why[k.name]) for k in kernels if k.name in why and k.name not in label]
    if not mine and any(name == n for n, _ in answers[-1].errors):
        raise UsageError(f"the reference cannot be read: {why[name]}")
    kept = tuple(k.name for k in kernels if k.name in equal)
    if not kept:
        raise UsageError("no kernel here is proved equal to the reference")
    return Kept(
        kept, name, len(kernels),
        basis.signature if basis else "", basis.basis if basis else "",
        _premises(answers, equal), len(joined), tuple(unproved),
        apart.sentence() if len(joined) > 1 else "",
    )


def _premises(answers: Sequence[Partition], equal: set[str]) -> tuple[str, ...]:
    """Everything that was assumed on the way from the reference to what is kept."""
    used = [one for answer in answers for one in answer.classes if equal & set(one.members)]
    return tuple(sorted({code for one in used for code in one.premises}))


def _names(kernels: Sequence[KernelInput]) -> set[str]:
    return {kernel.name for kernel in kernels}


def _join(classes: Sequence[set[str]]) -> list[set[str]]:
    """Unite classes that share a member: equality is transitive."""
    out: list[set[str]] = []
    for one in classes:
        touching = [other for other in out if other & one]
        out = [other for other in out if not other & one]
        out.append(set(one).union(*touching))
    return out


def _reason(reasons: Sequence[Reason]) -> str:
    return reasons[0].message if reasons else "not modelled"


def _resolve(
    kernels: Sequence[KernelInput], reference: Reference
) -> tuple[str, list[KernelInput], str]:
    """The reference as a name in the list, a kernel beside it, or a signature."""
    names = [kernel.name for kernel in kernels]
    if isinstance(reference, KernelInput):
        return REFERENCE, [replace(reference, name=REFERENCE)], ""
    if isinstance(reference, Baseline):
        return "", [], _baseline_signature(reference)
    if isinstance(reference, int):
        return names[reference], [], ""
    if reference in names:
        return reference, [], ""
    if reference.startswith("sb1"):
        return "", [], reference
    raise UsageError(f"no kernel is named {reference!r}")


def _baseline_signature(reference: Baseline) -> str:
    from checker.gate import lockfile

    path = Path(reference.path)
    lock = lockfile.load(path.read_text(), name=str(path))
    found = [e for e in lock.entries if reference.entry in str(e.key)]
    signatures = {entry.signature for entry in found}
    if len(signatures) != 1:
        many = "several signatures" if signatures else "no entry"
        raise UsageError(f"{path} has {many} for {reference.entry!r}")
    if not found[0].modelled:
        raise UsageError(f"{found[0].key} in {path} is not modelled: nothing equals it")
    return found[0].signature


def _by_signature(
    kernels: Sequence[KernelInput], answer: Partition, signature: str, asks: Examiner
) -> str:
    """The first kernel with a given signature that is modelled."""
    for one in answer.classes:
        if one.signature == signature:
            member = next((k.name for k in kernels if k.name in one.members), None)
            if member is not None:
                return member
    for kernel in kernels:
        try:
            signed = asks.result(replace(kernel, launches=())).signature
        except SamebitsError:
            continue
        if signed.text == signature and signed.modelled:
            return kernel.name
    raise UsageError(f"no kernel here has the signature {signature}")
