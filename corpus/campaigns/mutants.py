"""Mutants: one small change in real assembly, of the kind a checker might overlook.

In: the text of a PTX or AMDGCN kernel, a seed. Out: `Mutant`s (kind, line, old, new, text), the
same for the same seed. A mutant may be harmless or even invalid; the campaign judges it by signing
and replaying it. The kinds of each ISA are in `ptx_mutants` and `gcn_mutants`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from corpus.campaigns import gcn_mutants, ptx_mutants

VENDORS = {"ptx": (ptx_mutants.body, ptx_mutants.MUTATORS),
           "gcn": (gcn_mutants.body, gcn_mutants.MUTATORS)}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: 1-based `line`, that line before and after, and the whole new text."""

    kind: str
    line: int
    old: str
    new: str
    text: str


def mutants(text: str, isa: str, count: int, seed: int, kinds: str = "") -> Iterator[Mutant]:
    """Yield up to `count` distinct mutants of one kernel text, the same for the same seed.

    kinds: a pattern on their kinds.
    """
    find, mutators = VENDORS[isa]
    body = find(text)
    rng = random.Random(f"{seed}/{len(text)}")
    names = [name for name in sorted(mutators) if re.search(kinds, name)]
    if not body.code or not names:
        return
    seen: set[str] = {text}
    attempts = 0
    while len(seen) <= count and attempts < 60 * count:
        attempts += 1
        kind = rng.choice(names)
        change = mutators[kind](body, rng)
        if change is None:
            continue
        at, lines = change
        new = "\n".join(lines)
        if new in seen:
            continue
        seen.add(new)
        yield Mutant(kind, at + 1, body.lines[at], lines[at], new)
