"""The first difference between a kernel as it was and as it is.

In: a drifted result, and where its old text may be: given assembly (`--before`), or the answer
cache, which keeps the text of every kernel that the gate signed on this machine. Out: `Difference`:
reasons of `checker.api.compare` with lines on both sides, and the first lines of the two trees that
differ. Without the old text there is the old summary only, and it says so.
"""

from __future__ import annotations

import base64
import difflib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from checker.cache import Cache, defects
from checker.errors import SamebitsError
from checker.gate.check import Current, Result, Signed
from checker.gate.lockfile import Entry
from checker.results import KernelInput, Reason

__all__ = ["Before", "Difference", "difference", "recall", "remember"]

CONTEXT = 2  # lines of the trees before the first difference
SHOWN = 4  # lines of each side from the first difference on
_KIND = "text-by-signature"
_LINE = re.compile(r"\s*; line \d+.*$")


@dataclass(frozen=True, slots=True)
class Before:
    """The old text of a kernel, and where it came from."""

    text: str
    isa: str | None
    kernel: str | None
    file: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed: reasons (a: before, b: now), and the trees around their first difference."""

    file_before: str
    file_now: str
    reasons: tuple[Reason, ...] = ()
    tree: tuple[str, ...] = ()
    note: str = ""


def _question(signature: str) -> str:
    # the text outlives the code that signed it: no fingerprint in this key
    return f"{_KIND}:{signature}"


def remember(cache: Cache, kernels: Iterable[Signed]) -> None:
    """Keep the texts of signed kernels, so that a later drift can be shown."""
    for signed in kernels:
        key = _question(signed.entry.signature)
        if cache.get(key) is None:
            one = signed.source.input
            packed = base64.b85encode(zlib.compress(one.text.encode("utf-8", "replace"), 6))
            data = {"text": packed.decode(), "isa": one.isa, "kernel": one.kernel}
            cache.put(key, _KIND, {**data, "file": signed.source.file})


def recall(cache: Cache, entry: Entry) -> Before | None:
    """The text that a baseline entry was signed from, if this machine has it."""
    data: Any = cache.get(_question(entry.signature))
    if not isinstance(data, dict):
        return None
    try:
        text = zlib.decompress(base64.b85decode(data["text"])).decode()
        return Before(text, data["isa"], data["kernel"], f"{data['file']} (as it was)")
    except (KeyError, ValueError, zlib.error):
        return None


def _given(before: Current, entry: Entry) -> Before | None:
    """The old text among assembly that the caller named; by signature, else by key."""
    same = [s for s in before.kernels if s.entry.signature == entry.signature]
    same += [s for s in before.kernels if s.entry.key == entry.key]
    if not same:
        return None
    one: KernelInput = same[0].source.input
    return Before(one.text, one.isa, one.kernel, same[0].source.file)


def difference(result: Result, cache: Cache, before: Current | None = None) -> Difference | None:
    """Find the first difference of a drifted kernel; None where there are not two sides."""
    if result.before is None or result.now is None or result.kind == "same":
        return None
    source = result.now.source
    old = _given(before, result.before) if before is not None else None
    old = old or recall(cache, result.before)
    if old is None:
        note = "the old text is not at hand: give it with --before to see where the trees differ"
        return Difference("", source.file, note=note)
    try:
        with defects():
            return _compare(old, source.input, source.file)
    except SamebitsError as error:
        return Difference(old.file, source.file, note=str(error))


def _compare(old: Before, now: KernelInput, file: str) -> Difference:
    from checker import api

    verdict = api.compare(
        old.text, now.text, isa_a=old.isa, isa_b=now.isa, kernel_a=old.kernel, kernel_b=now.kernel
    )
    note = "both are equal by today's checker" if verdict.equal else ""
    tree: tuple[str, ...] = ()
    try:
        with defects():
            before = api.tree_text(old.text, isa=old.isa, kernel=old.kernel)
            after = api.tree_text(now.text, isa=now.isa, kernel=now.kernel)
            tree = tuple(first_lines(before, after))
    except SamebitsError as error:  # the reasons stand without the trees
        note = note or str(error)
    return Difference(old.file, file, verdict.reasons, tree, note)


def first_lines(old: str, new: str) -> Iterator[str]:
    """The trees around their first difference, as `  `, `- ` and `+ ` lines.

    Headings and the numbers of assembly lines are shown, and do not count as differences.
    """
    a, b = (_tree_lines(text) for text in (old, new))
    plain_a, plain_b = ([_LINE.sub("", line) for line in lines] for lines in (a, b))
    blocks = difflib.SequenceMatcher(None, plain_a, plain_b, autojunk=False).get_opcodes() \
        if len(a) * len(b) <= 4_000_000 else _plain_blocks(plain_a, plain_b)
    for kind, a0, a1, b0, b1 in blocks:
        if kind == "equal":
            continue
        yield from (f"  {line}" for line in a[max(0, a0 - CONTEXT) : a0])
        yield from (f"- {line}" for line in a[a0:a1][:SHOWN])
        yield from (f"+ {line}" for line in b[b0:b1][:SHOWN])
        return


def _tree_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("kernel ")]


def _plain_blocks(a: list[str], b: list[str]) -> list[tuple[str, int, int, int, int]]:
    """The first line that differs, for trees too large to align."""
    pairs = enumerate(zip(a, b, strict=False))
    at = next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))
    return [("replace", at, len(a), at, len(b))] if at < max(len(a), len(b)) else []
