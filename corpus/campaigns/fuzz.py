"""Fuzz: damaged text must be refused or judged rightly, in bounded time, without a crash.

In: committed kernels, damaged by seed (cut short, bytes changed, tokens dropped, doubled or moved,
lines of another kernel spliced in, deep nesting, a line without end). Out: every exception that is
not an input error, every text that takes too long, and every damaged kernel called equal to the
whole one though their replays differ; any makes the exit status 1.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from checker import api
from checker.errors import SamebitsError
from corpus.campaigns.common import Options, keep, kernels, spread
from corpus.load import CorpusKernel
from corpus.pool import Lost, run_all

#: longest text that is damaged, in characters: time goes into damage, not into long kernels
LONGEST = 12_000
SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Job:
    """One damaged text beside the whole one."""

    name: str
    damage: str
    isa: str
    whole: str
    text: str
    launch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """``outcome`` is refused, judged or a finding."""

    outcome: str
    detail: str = ""


def cut(text: str, other: str, rng: random.Random) -> str:
    """The text up to a random place."""
    return text[: rng.randrange(len(text))]


def flip(text: str, other: str, rng: random.Random) -> str:
    """A few characters replaced by arbitrary ones."""
    out = list(text)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] = chr(rng.choice((rng.randrange(128), rng.randrange(0x2FFF))))
    return "".join(out)


def drop(text: str, other: str, rng: random.Random) -> str:
    """A few tokens gone."""
    tokens = re.findall(r"\s+|[\w.$%]+|.", text)
    for _ in range(rng.randint(1, 6)):
        del tokens[rng.randrange(len(tokens))]
    return "".join(tokens)


def double(text: str, other: str, rng: random.Random) -> str:
    """A token repeated, or moved to another place."""
    tokens = re.findall(r"\s+|[\w.$%]+|.", text)
    taken = tokens[rng.randrange(len(tokens))]
    tokens.insert(rng.randrange(len(tokens)), taken * rng.choice((1, 2, 500)))
    return "".join(tokens)


def splice(text: str, other: str, rng: random.Random) -> str:
    """Lines of another kernel in the middle of this one."""
    lines, theirs = text.splitlines(), other.splitlines()
    at, start = rng.randrange(len(lines)), rng.randrange(len(theirs))
    return "\n".join(lines[:at] + theirs[start : start + rng.randint(1, 30)] + lines[at:])


def swap(text: str, other: str, rng: random.Random) -> str:
    """Two lines exchanged."""
    lines = text.splitlines()
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines)


def nest(text: str, other: str, rng: random.Random) -> str:
    """Thousands of brackets at a random place."""
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("({[") * rng.choice((10, 1000, 20000)) + text[at:]


def endless(text: str, other: str, rng: random.Random) -> str:
    """One line of a megabyte."""
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(("a", "9", " ", "%r1, ", "/*")) * 200_000 + text[at:]


DAMAGES = (cut, flip, flip, drop, drop, double, splice, swap, swap, nest, endless)


def damaged(pool: list[CorpusKernel], count: int, seed: int) -> list[Job]:
    """``count`` damaged texts, the same ones for one seed."""
    rng = random.Random(seed)
    jobs = []
    for number in range(count):
        kernel, other = pool[number % len(pool)], rng.choice(pool)
        damage = rng.choice(DAMAGES)
        jobs.append(Job(kernel.name, damage.__name__, kernel.isa, kernel.text,
                        damage(kernel.text, other.text, rng), dict(kernel.launch)))
    return jobs


def judge(job: Job) -> Judged:
    """Sign the damaged text; where it is called equal to the whole one, replay both."""
    try:
        verdict = api.compare(job.whole, job.text, isa_a=job.isa, isa_b=job.isa)
    except SamebitsError:
        return Judged("refused")
    except Exception as error:
        return Judged("crash", f"{type(error).__name__}: {error}"[:300])
    ours = [f.message for f in verdict.signature_b.findings if f.code == "internal"]
    if ours:  # an engine's own exception, caught for the user
        return Judged("crash", ours[0][:300])
    if not verdict.equal:
        return Judged("judged")
    try:
        maps = [api.replay_kernel(text, job.launch, isa=job.isa)
                for text in (job.whole, job.text)]
    except SamebitsError as error:
        return Judged("equal, but not replayed", str(error)[:300])
    if all(m.usable for m in maps) and maps[0].digest != maps[1].digest:
        return Judged("false equal", "replays differ")
    return Judged("judged", "equal")


def campaign(options: Options) -> int:
    """Run the campaign; return the exit status."""
    short = [k for k in kernels(options.isa, only=options.only) if len(k.text) < LONGEST]
    jobs = damaged(spread(short, 120), options.count, options.seed)
    start = time.monotonic()
    outcomes: Counter[str] = Counter()
    bad = 0
    for job, found in run_all(judge, jobs, options.jobs or os.cpu_count() or 1, SECONDS):
        judged = Judged("hang or death", found.reason) if isinstance(found, Lost) else found
        outcomes[judged.outcome + (" (equal)" if judged.detail == "equal" else "")] += 1
        if judged.outcome not in ("refused", "judged"):
            bad += 1
            keep("fuzz", f"{job.damage}-{job.name}", {
                "damage": job.damage, "kernel": job.name, "outcome": judged.outcome,
                "detail": judged.detail, "text": job.text[:400_000]})
            print(f"{job.damage} {job.name}: {judged.outcome}: {judged.detail}")
        if time.monotonic() - start > options.seconds:
            break
    print(f"{sum(outcomes.values())} damaged texts: "
          + ", ".join(f"{n} {o}" for o, n in sorted(outcomes.items())))
    return 1 if bad or not jobs else 0
