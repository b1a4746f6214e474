"""What mutators of both ISAs share: the lines of a kernel, and ways to change or move one.

In: a text's instruction lines, grouped. Out: `Mutator`s, each of which makes one change or none;
`ptx_mutants` and `gcn_mutants` are tables of them by kind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_INT = re.compile(r"(?<![\w.%$])(-?(?:0x[0-9a-fA-F]+|\d+))(?![\w.])")

#: how far a moved instruction may go, in instruction lines
_FARTHEST = 8


@dataclass(frozen=True, slots=True)
class Body:
    """The lines of a text, the indices of those that hold instructions, and groups of these.

    groups: indices by what they are about (guards, branches, stores ...), found once a kernel.
    """

    lines: Sequence[str]
    code: Sequence[int]
    groups: Mapping[str, Sequence[int]]


#: where a change was made, and all lines after it; None: this try changes nothing
Change = tuple[int, list[str]] | None
Mutator = Callable[[Body, random.Random], Change]
LineMutator = Callable[[Body, int, random.Random], str | None]


# --- what changes ------------------------------------------------------------------------------


def on(group: str, *ways: LineMutator) -> Mutator:
    """One of the ways, tried on a random line of a group ("code": any instruction)."""

    def change(body: Body, rng: random.Random) -> Change:
        lines = body.code if group == "code" else body.groups[group]
        if not lines:
            return None
        at = rng.choice(lines)
        new = rng.choice(ways)(body, at, rng)
        if new is None or new == body.lines[at]:
            return None
        out = list(body.lines)
        out[at] = new
        return at, out

    return change


def moved(group: str) -> Mutator:
    """A line of a group moved past a few of its neighbours, labels included."""

    def change(body: Body, rng: random.Random) -> Change:
        lines = body.code if group == "code" else body.groups[group]
        if not lines:
            return None
        at = rng.choice(lines)
        place = body.code.index(at) + rng.choice((-1, 1)) * rng.randint(1, _FARTHEST)
        if not 0 <= place < len(body.code):
            return None
        to = body.code[place]
        out = list(body.lines)
        line = out.pop(at)
        out.insert(to, line)
        # The first line that reads otherwise than before.
        return min(at, to), out

    return change


def either(*ways: Mutator) -> Mutator:
    """One of several mutators."""
    return lambda body, rng: rng.choice(ways)(body, rng)


# --- helpers for one line ----------------------------------------------------------------------


def operands_at(line: str) -> int:
    """The column where operands start: after the guard and the opcode."""
    hit = re.match(r"\s*(@!?\S+\s+)?\S+", line)
    return hit.end() if hit else 0


def sub_one(pattern: re.Pattern[str], line: str, rng: random.Random,
            change: Callable[[re.Match[str]], str | None], skip_first: int = 0) -> str | None:
    """Change one random match of `pattern` in the operands of a line."""
    hits = list(pattern.finditer(line, operands_at(line)))[skip_first:]
    if not hits:
        return None
    hit = rng.choice(hits)
    new = change(hit)
    return None if new is None else line[: hit.start()] + new + line[hit.end() :]


def replaced(pairs: Sequence[tuple[str, str]]) -> LineMutator:
    """One of the textual replacements that match the opcode."""

    def change(body: Body, at: int, rng: random.Random) -> str | None:
        line = body.lines[at]
        cut = operands_at(line)
        head, tail = line[:cut], line[cut:]
        usable = [(a, b) for a, b in pairs if re.search(a, head)]
        if not usable:
            return None
        a, b = rng.choice(usable)
        return re.sub(a, b, head, count=1) + tail

    return change


def immediate(body: Body, at: int, rng: random.Random) -> str | None:
    """Another integer literal."""

    def change(hit: re.Match[str]) -> str:
        value = int(hit.group(1), 0)
        return str(rng.choice((value + 1, value - 1, value ^ (1 << rng.randrange(7)), value * 2,
                               0)))

    return sub_one(_INT, body.lines[at], rng, change)


def nearby(body: Body, at: int, pattern: re.Pattern[str]) -> list[str]:
    """What `pattern` finds in the 40 lines before this one."""
    return sorted({m for n in range(max(0, at - 40), at) for m in pattern.findall(body.lines[n])})
