"""Why two kernels are not proved equal, for a person: their orders in words, and what to do next.

In: a verdict and what it was asked with. Out: lines. Nothing here decides anything, and nothing
that fails here takes the verdict along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from checker.cache import defects
from checker.cli.render import Lines
from checker.errors import SamebitsError
from checker.results import Verdict

__all__ = ["Asked", "explain_lines"]

SHOWN = 4  # facts that differ; `samebits describe` has all
WIDTH = 240  # characters of one fact


@dataclass(frozen=True, slots=True)
class Asked:
    """A pair as it was asked about: texts, files, instruction sets and launches, each by side."""

    texts: tuple[str, str]
    files: tuple[str, str]
    isas: tuple[str | None, str | None]
    launches: tuple[Any, Any]
    assume: tuple[str, ...] = ()
    local: bool = True


def explain_lines(verdict: Verdict, asked: Asked) -> list[Text]:
    """What follows the reasons of a pair that is not proved equal."""
    out = Lines()
    if verdict.equal:
        return out.lines
    codes = {reason.code for reason in verdict.reasons}
    if "tree-differs" in codes and asked.local:
        out.extend(_orders(verdict, asked))
    steps = list(_next(verdict, asked, codes))
    if steps:
        out.add(("next", "bold"))
        for step in steps:
            out.add(f"  {step}")
    return out.lines


def _orders(verdict: Verdict, asked: Asked) -> list[Text]:
    """The facts of the two descriptors that differ."""
    out = Lines()
    try:
        with defects():
            from checker.describe import descriptor, differences

            found = [
                descriptor(text, isa=isa, kernel=signature.kernel, assume=asked.assume,
                           launch=launch, file=file)
                for text, isa, signature, launch, file in zip(
                    asked.texts, asked.isas, (verdict.signature_a, verdict.signature_b),
                    asked.launches, asked.files, strict=True)]
            rows = differences(*found)
    except SamebitsError:
        return out.lines
    out.add(("in words", "bold"), ("  (samebits describe)", "dim"))
    for row in rows[:SHOWN]:
        out.add(f"  {row.place}")
        for side, words in (("a", row.a), ("b", row.b)):
            out.add(f"    {side}  ", (_short(words), "dim"))
    if len(rows) > SHOWN:
        out.add((f"  … and {len(rows) - SHOWN} more", "dim"))
    if not rows:
        out.add("  the same order in words: an address, a condition or a number in it differs")
    return out.lines


def _short(words: str) -> str:
    return words if len(words) <= WIDTH else words[:WIDTH] + " …"


def _next(verdict: Verdict, asked: Asked, codes: set[str]) -> Iterator[str]:
    """What would decide it, or show more."""
    signatures = (verdict.signature_a, verdict.signature_b)
    if verdict.kind == "unproved":
        decidable = not any(s.nondeterministic for s in signatures) and \
            "parameters-differ" not in codes
        if any(opaque.reaches_output for s in signatures for opaque in s.opaque):
            yield "samebits sign FILE lists what is not modelled, samebits coverage FILE counts it"
        if asked.launches[0] is None and decidable:
            yield ("give launch facts, --launch FACTS.json (docs/launch.md): the replay decides at "
                   "that launch, or finds an input that shows the difference")
        elif "tree-differs" in codes and decidable:
            yield ("no input was found that shows the difference; another launch (sizes, values) "
                   "may have one")
    if "tree-differs" in codes:
        yield "samebits tree FILE prints every rounding, with its line"
