"""The predicate that every tuner adapter shares: which kernels are bitwise equal to a reference.

In: compiled kernels (`KernelInput`: text, configuration, optionally launch facts) and a reference.
Out: `Kept`: the names to keep, why, and what separates the rest. Equality is proved or the kernel
goes; nothing raises: a check that fails keeps the reference alone and says why.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from checker import knobs
from checker.cache import Cache, Examiner, open_default, partition
from checker.errors import SamebitsError, UsageError
from checker.results import EqualClass, KernelInput, Partition, Reason

__all__ = ["Baseline", "Kept", "Reference", "announce", "keep_equal"]

REFERENCE = "<reference>"
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
    store: Cache | None = None,
    examiner: Examiner | None = None,
) -> Kept:
    """Name the kernels that are proved bitwise equal to a reference.

    launch: what the kernels' launch facts are used for. "never": not at all. "auto": to decide what
    the static engine leaves open. "always": for all of them, so that kernels which agree at this
    launch only are kept too. The reference itself is always kept if it is in the list.
    store: where answers are kept; examiner: one that was handed the kernels already.
    """
    start = time.perf_counter()
    kernels = _unique(kernels)
    own = examiner is None
    asks = Examiner(store or open_default()) if examiner is None else examiner
    try:
        kept = _keep(kernels, reference, launch, asks)
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


def _keep(
    kernels: Sequence[KernelInput], reference: Reference, launch: str, asks: Examiner
) -> Kept:
    if launch not in ("auto", "always", "never"):
        raise UsageError(f"launch is auto, always or never, not {launch!r}")
    if not kernels:
        raise UsageError("there is no kernel to choose from")
    name, extra, signature = _resolve(kernels, reference)
    pool = [*kernels, *extra]
    if name:  # nothing else matters if the reference cannot be read
        _need(next(k for k in pool if k.name == name), asks)
    first = partition([replace(k, launches=()) for k in pool], asks)
    if signature:
        name = _by_signature(kernels, first, signature, asks)
    classes = [set(one.members) for one in first.classes]
    chosen = _class_of(first, name)
    equal = set(chosen.members) if chosen else {name}
    basis = chosen
    facts = [kernel for kernel in pool if kernel.launches]
    undecided = {n for n, _ in first.unproved} & {k.name for k in facts}
    if launch == "always" or (launch == "auto" and undecided):
        wanted = facts if launch == "always" or name in undecided else [
            k for k in facts if k.name in undecided or k.name == name
        ]
        if any(k.name == name for k in wanted) and len(wanted) > 1:
            second = partition(wanted, asks)
            joint = _class_of(second, name)
            if joint is not None:
                equal |= set(joint.members)
                basis = joint if set(joint.members) - set(chosen.members if chosen else ()) \
                    else chosen
            classes += [set(one.members) for one in second.classes]
            first = _without(first, {m for one in second.classes for m in one.members})
    return _kept(kernels, name, equal, basis, classes, first)


def _need(reference: KernelInput, asks: Examiner) -> None:
    try:
        asks.result(replace(reference, launches=()))
    except SamebitsError as error:
        raise UsageError(f"the reference cannot be read: {error}") from None


def _kept(
    kernels: Sequence[KernelInput], name: str, equal: set[str], basis: EqualClass | None,
    classes: Sequence[set[str]], answer: Partition,
) -> Kept:
    joined = _join(classes)
    label = {member: number for number, one in enumerate(joined) for member in one}
    apart = knobs.separate((k.config, label[k.name]) for k in kernels if k.name in label)
    names = {kernel.name for kernel in kernels}
    unproved = [(n, _reason(reasons)) for n, reasons in answer.unproved if n in names]
    unproved += [(n, message.splitlines()[0]) for n, message in answer.errors if n in names]
    return Kept(
        tuple(k.name for k in kernels if k.name in equal), name, len(kernels),
        basis.signature if basis else "", basis.basis if basis else "",
        basis.premises if basis else (), len(joined), tuple(unproved),
        apart.sentence() if len(joined) > 1 else "",
    )


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


def _without(answer: Partition, names: set[str]) -> Partition:
    return replace(answer, unproved=tuple(row for row in answer.unproved if row[0] not in names))


def _class_of(answer: Partition, name: str) -> EqualClass | None:
    return next((one for one in answer.classes if name in one.members), None)


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
