"""Compare kernels with a baseline: what drifted, how, and what is merely different.

In: sources and a `Lock`. Out: `Report`: one `Result` per kernel and configuration, what could not
be read, and the exit status (0 same, 1 drift, 3 unreadable input, 4 no kernel checked; 2 and a
missing baseline are the caller's). Kinds of drift are told apart: the arithmetic (`signature`),
what is modelled of it (`coverage`, `finding`), the checker itself (`checker`), `new`, `missing`.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from checker.cache import Examiner
from checker.errors import SamebitsError
from checker.gate.lockfile import Entry, Key, Lock, config_text
from checker.gate.suppress import Suppression
from checker.results import CHECKER_VERSION, Reason, Signature
from checker.sources import Source, Sources, Unreadable, readable_name

__all__ = [
    "Current", "Report", "Result", "Signed", "check", "entry_of", "sign_all", "text_digest",
]

SAME, DRIFT, UNREADABLE, NOTHING = 0, 1, 3, 4

_PTX = re.compile(r"^\s*\.version\b", re.M)
_QUOTED = re.compile(r'"[^"]*"')
_DEBUG = re.compile(r"\.(loc|file|section)\b[^;{}:]*\{?")  # alone on its line


@dataclass(frozen=True, slots=True)
class Signed:
    """A kernel as it is now: its baseline entry, signature and source."""

    entry: Entry
    signature: Signature
    source: Source


@dataclass(frozen=True, slots=True)
class Current:
    """Everything that was found and signed, and what could not be."""

    kernels: tuple[Signed, ...]
    errors: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one kernel and configuration.

    kind: same | signature | coverage | finding | checker | new | missing. message: one sentence.
    details: further lines. suppressed: who accepted it, if somebody did.
    """

    kind: str
    key: Key
    message: str
    before: Entry | None = None
    now: Signed | None = None
    details: tuple[str, ...] = ()
    suppressed: Suppression | None = None

    @property
    def drifted(self) -> bool:
        """True if it counts against the run."""
        return self.kind != "same" and self.suppressed is None


@dataclass(frozen=True, slots=True)
class Report:
    """All results, in the baseline's order, and the status they give."""

    results: tuple[Result, ...]
    errors: tuple[Unreadable, ...]
    notes: tuple[str, ...]
    baseline_checker: str

    @property
    def status(self) -> int:
        """The exit status; unreadable input weighs more than drift."""
        if self.errors:
            return UNREADABLE
        if not any(result.now for result in self.results):
            return NOTHING
        return DRIFT if any(result.drifted for result in self.results) else SAME

    def count(self, kind: str) -> int:
        """How many results are of a kind and not suppressed."""
        return sum(r.kind == kind and r.suppressed is None for r in self.results)


def text_digest(text: str) -> str:
    """Digest of an assembly text without comments, debug lines, blanks and names of files.

    A debug line is nothing but that: in PTX a statement or a brace may stand behind it.
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    ends = bool(_PTX.search(text))  # whether `;` ends a statement; a comment starts there elsewhere
    kept = []
    for line in text.splitlines():
        words = " ".join(line.split())
        bare = _QUOTED.sub("", words if ends else words.partition(";")[0]).strip()
        if bare and not _DEBUG.fullmatch(bare):
            kept.append(words)
    return hashlib.blake2b("\n".join(kept).encode("utf-8", "replace"), digest_size=8).hexdigest()


def coverage_text(signature: Signature) -> str:
    """What stands against an equality, in one line; `modelled` if nothing does."""
    out = []
    opaque = {o.opcode for o in signature.opaque if o.reaches_output}
    if opaque:
        out.append("opaque " + " ".join(sorted(opaque)))
    for word, found in zip(("finding", "limit"), _findings(signature), strict=True):
        if found:
            out.append(word + " " + " ".join(sorted({f.code for f in found})))
    if signature.nondeterministic:
        out.append("nondeterministic")
    if not out:
        return "modelled" if signature.modelled else "not modelled"
    return "; ".join(out)


def _findings(signature: Signature) -> tuple[list[Reason], list[Reason]]:
    """What is wrong with a kernel, and what the static engine could not do."""
    from checker.api import LIMITS

    limits = [f for f in signature.findings if f.code in LIMITS]
    return [f for f in signature.findings if f.code not in LIMITS], limits


def entry_of(source: Source, signature: Signature, replay: str = "") -> Entry:
    """The baseline entry of a signed kernel."""
    return Entry(
        kernel=source.label or readable_name(signature.kernel),
        config=config_text(source.knobs), target=signature.target or source.target,
        compiler=source.compiler, signature=signature.text, coverage=coverage_text(signature),
        premises=" ".join(signature.premises), summary=signature.summary,
        text=text_digest(source.input.text), replay=replay,
    )


def sign_all(
    found: Sources, examiner: Examiner, *, progress: Callable[[int, int], None] | None = None
) -> Current:
    """Sign every source; a kernel that cannot be read is an error, not a stop."""
    kernels, errors = [], list(found.errors)
    plain = [replace(source.input, name=source.file, launches=()) for source in found.kernels]
    for one in plain:
        examiner.submit(one)
    for number, (source, one) in enumerate(zip(found.kernels, plain, strict=True), 1):
        try:
            signature: Signature = examiner.result(one).signature
        except SamebitsError as error:
            errors.append(Unreadable(source.file, str(error)))
        else:
            maps = "" if signature.modelled else _maps(source, examiner)
            kernels.append(Signed(entry_of(source, signature, maps), signature, source))
        if progress:
            progress(number, len(found.kernels))
    kernels.sort(key=lambda k: (k.entry.key, k.entry.signature, k.entry.text))
    return Current(tuple(kernels), tuple(errors))


def _maps(source: Source, examiner: Examiner) -> str:
    """Digest of a kernel's output maps at its launches, if it has any and all are known."""
    if not source.input.launches:
        return ""
    try:
        return examiner.result(source.input, replay_only=True).launch_signature or ""
    except SamebitsError:
        return ""


def check(
    lock: Lock, current: Current, *, suppressions: Sequence[Suppression] = (),
    allow_new: bool = False, allow_missing: bool = False, today: datetime.date | None = None,
) -> Report:
    """Compare what is with what was.

    Entries are matched by kernel, target and configuration; where several share those, equal
    signatures are matched first, so that one change is one drift.
    """
    results = []
    for key, before, now in _match(lock, current):
        results.append(_judge(key, before, now, lock.checker))
    results = _hint_renames(results)
    if allow_new:
        results = [_allow(r) if r.kind == "new" else r for r in results]
    if allow_missing:
        results = [_allow(r) if r.kind == "missing" else r for r in results]
    results, notes = _suppress(results, suppressions, today or datetime.date.today())
    if lock.checker != CHECKER_VERSION:
        notes.append(
            f"the baseline was written by samebits {lock.checker}, this is {CHECKER_VERSION}"
        )
    return Report(tuple(results), current.errors, tuple(notes), lock.checker)


def _match(
    lock: Lock, current: Current
) -> Iterable[tuple[Key, Entry | None, Signed | None]]:
    before: dict[Key, list[Entry]] = {}
    now: dict[Key, list[Signed]] = {}
    for entry in lock.entries:
        before.setdefault(entry.key, []).append(entry)
    for signed in current.kernels:
        now.setdefault(signed.entry.key, []).append(signed)
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key, []), now.get(key, [])
        for entry in list(old):
            twin = next((s for s in new if s.entry.signature == entry.signature), None)
            if twin is not None:
                old.remove(entry)
                new.remove(twin)
                yield key, entry, twin
        while old or new:
            yield key, old.pop(0) if old else None, new.pop(0) if new else None


def _judge(key: Key, before: Entry | None, now: Signed | None, checker: str) -> Result:
    if now is None:
        return Result("missing", key, "the baseline has this kernel, the input has not", before)
    if before is None:
        return Result("new", key, "the input has this kernel, the baseline has not", None, now)
    entry = now.entry
    compiler = _compilers(before, entry)
    if before.signature == entry.signature:
        fresh = set(entry.premises.split()) - set(before.premises.split())
        if before.premises and before.text != entry.text and fresh:
            message = f"the same signature, but only under {' '.join(sorted(fresh))}"
            details = _details(before, entry)
            return Result("signature", key, message + compiler, before, now, details)
        return Result("same", key, "same signature" + compiler, before, now)
    same_text = before.text == entry.text
    details = _details(before, entry)
    if same_text and "fuel" in f"{before.coverage} {entry.coverage}":
        message = "same text; signing it ran into a limit in one of the two runs"
        return Result("same", key, message, before, now)
    if same_text:
        message = "the text is the same and its signature is not: the checker changed"
        return Result("checker", key, message, before, now, details)
    if before.replay and before.replay == entry.replay:
        message = "not modelled in full; the same output maps at the recorded launches"
        return Result("same", key, message + compiler, before, now)
    worse = _worse(before, now.signature)
    if worse:
        kind = "coverage" if worse[0] != "finding" else "finding"
        return Result(kind, key, worse[1] + compiler, before, now, details)
    if checker != CHECKER_VERSION:
        message = (
            f"both the kernel and the checker changed ({checker} to {CHECKER_VERSION}): update the "
            "baseline at the old revision with the new checker to tell them apart"
        )
        return Result("checker", key, message, before, now, details)
    message = "the kernel's text changed, and it is not modelled in full"
    if now.signature.modelled and before.modelled:
        message = "the kernel computes something else"
    elif before.replay and entry.replay:
        message = "the output maps at the recorded launches changed"
    return Result("signature", key, message + compiler, before, now, details)


def _compilers(before: Entry, now: Entry) -> str:
    if before.compiler == now.compiler or not before.compiler:
        return ""
    return f" ({before.compiler} to {now.compiler or 'another compiler'})"


def _details(before: Entry, now: Entry) -> tuple[str, ...]:
    rows = [f"signature {before.signature} to {now.signature}"]
    for name in ("summary", "coverage", "premises"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            rows.append(f"{name} {old or 'none'} to {new or 'none'}")
    return tuple(rows)


def _words(coverage: str, head: str) -> set[str]:
    """The names after `opaque` or `finding` in a coverage line."""
    for part in coverage.split("; "):
        word, _, rest = part.partition(" ")
        if word == head:
            return set(rest.split())
    return set()


def _worse(before: Entry, now: Signature) -> tuple[str, str] | None:
    """What is newly in the way of an equality: (kind, sentence), or None."""
    wrong, limits = _findings(now)
    known = _words(before.coverage, "finding")
    fresh = [f for f in wrong if f.code not in known]
    if fresh:
        return "finding", f"newly found: {fresh[0].message}"
    if now.nondeterministic and "nondeterministic" not in before.coverage:
        return "finding", "newly nondeterministic: two runs on one input may differ"
    reaching = {o.opcode for o in now.opaque if o.reaches_output}
    opaque = reaching - _words(before.coverage, "opaque")
    if opaque:
        return "coverage", "newly not modelled: " + ", ".join(sorted(opaque))
    if before.modelled and not now.modelled:
        why = f": {limits[0].message}" if limits else ""
        return "coverage", "newly not modelled" + why
    return None


def _hint_renames(results: list[Result]) -> list[Result]:
    """A new kernel with a vanished one's signature was probably renamed or reconfigured."""
    gone: dict[str, list[Key]] = {}
    for result in results:
        if result.kind == "missing" and result.before is not None:
            gone.setdefault(result.before.signature, []).append(result.key)
    out = []
    for result in results:
        if result.kind == "new" and result.now is not None:
            twins = gone.get(result.now.entry.signature)
            if twins:
                hint = f"same signature as the vanished `{twins[0]}`: renamed?"
                result = replace(result, details=(*result.details, hint))
        out.append(result)
    return out


def _allow(result: Result) -> Result:
    note = f"--allow-{result.kind}"
    allowed = Suppression(result.key.kernel, note, datetime.date.max, (result.kind,), "", note)
    return replace(result, suppressed=allowed)


def _suppress(
    results: Iterable[Result], suppressions: Sequence[Suppression], today: datetime.date
) -> tuple[list[Result], list[str]]:
    """Apply suppressions; say which are past their end and which were needed by nothing."""
    out, used, notes = [], set(), []
    for result in results:
        if result.kind != "same" and result.suppressed is None:
            signature = result.now.entry.signature if result.now else ""
            for index, one in enumerate(suppressions):
                if not one.covers(result.kind, result.key, signature):
                    continue
                used.add(index)
                if one.active(today):
                    result = replace(result, suppressed=one)
                    break
                expired = f"the suppression `{one.reason}` expired on {one.expires}"
                result = replace(result, details=(*result.details, expired))
        out.append(result)
    for index, one in enumerate(suppressions):
        if index not in used:
            notes.append(f"{one.place} (`{one.kernel}`) suppresses nothing: remove it")
    return out, notes
