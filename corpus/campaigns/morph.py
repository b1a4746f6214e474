"""Metamorphosis: rewrites that keep a kernel's meaning must leave its signature alone.

In: committed kernels. Out: how many rewrites of each kind kept or moved a signature, each moved
one stored with the reason samebits gives; any that moved makes the exit status 1. A rewrite that
changes nothing is not counted.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass

from checker import api
from checker.errors import SamebitsError
from corpus.campaigns.common import Options, each, keep, kernels, say, spread
from corpus.campaigns.mutate import LONGEST, SLOWEST
from corpus.campaigns.rewrites import REWRITES
from corpus.pool import Lost

#: rewrites of one kernel in one job
CHUNK = 12


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to rewrite `count` times, from number `start` on."""

    name: str
    text: str
    isa: str
    count: int
    seed: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Fate:
    """One rewrite: `kept`, `MOVED` or `REFUSED`; where it was not kept, why and the new text."""

    rewrite: str
    fate: str
    why: str = ""
    text: str = ""


def judge(job: Job) -> list[Fate]:
    """Rewrite one kernel and say what became of its signature."""
    start = time.process_time()
    base = api.sign(job.text, isa=job.isa)
    if time.process_time() - start > SLOWEST:
        return [Fate("(kernel)", "slow")]
    if not base.modelled:  # such a kernel equals the same text only
        return [Fate("(kernel)", "not modelled")]
    table = REWRITES[job.isa]
    names = sorted(table)
    out = []
    for number in range(job.start, job.start + job.count):
        rng = random.Random(f"{job.seed}/{job.name}/{number}")
        name = names[number % len(table)]
        text = table[name](job.text, rng)
        if number >= len(table):  # later rounds stack two rewrites
            second = rng.choice(names)
            text, name = table[second](text, rng), f"{name}+{second}"
        if text == job.text:
            continue
        try:
            now = api.sign(text, isa=job.isa)
        except SamebitsError as error:
            out.append(Fate(name, "REFUSED", str(error), text))
            continue
        if now.text == base.text and now.modelled:
            out.append(Fate(name, "kept"))
            continue
        verdict = api.compare(job.text, text, isa_a=job.isa, isa_b=job.isa)
        why = "; ".join(f"{r.code}: {r.message}" for r in verdict.reasons[:3])
        out.append(Fate(name, "MOVED", why, text))
    return out


def campaign(options: Options) -> int:
    """Run the campaign; return the exit status."""
    found = kernels(options.isa, only=options.only)
    short = sorted((k for k in found if k.text.count("\n") <= LONGEST), key=lambda k: len(k.text))
    chosen = spread(short, max(1, -(-options.count // options.per_kernel)))
    share = -(-options.count // max(1, len(chosen)))
    jobs = [Job(k.name, k.text, k.isa, min(CHUNK, share - start), options.seed, start)
            for start in range(0, share, CHUNK) for k in chosen]
    random.Random(options.seed).shuffle(jobs)
    counts: Counter[tuple[str, str]] = Counter()
    moved: list[tuple[Job, Fate]] = []
    for job, fates in each(f"morph {options.isa}", judge, jobs, options):
        if isinstance(fates, Lost):
            say(f"lost: {job.name}: {fates.reason}")
            fates = [Fate("(kernel)", "lost")]
        for fate in fates:
            # A rewrite counts under each kind that it stacks.
            counts.update((name, fate.fate) for name in set(fate.rewrite.split("+")))
            counts["total", fate.fate] += fate.rewrite != "(kernel)"
        moved += [(job, f) for f in fates if f.fate in ("MOVED", "REFUSED")]
    fates_seen = ("kept", "MOVED", "REFUSED")
    print(f"{'rewrite':20}" + "".join(f"{fate:>10}" for fate in fates_seen))
    for name in sorted({name for name, _ in counts if name not in ("total", "(kernel)")}):
        print(f"{name:20}" + "".join(f"{counts[name, fate]:>10}" for fate in fates_seen))
    for number, (job, fate) in enumerate(moved):
        path = keep("morph", f"{job.name}-{fate.rewrite}-{number}", {
            "kernel": job.name, "rewrite": fate.rewrite, "fate": fate.fate, "why": fate.why,
            "old": job.text, "new": fate.text})
        print(f"{fate.fate} {job.name} by {fate.rewrite}: {fate.why[:200]}  ({path.name})")
    total = sum(counts["total", fate] for fate in fates_seen)
    print(f"morph {options.isa} seed {options.seed}: {total} rewrites of {len(chosen)} kernels, "
          + ", ".join(f"{counts['total', fate]} {fate}" for fate in fates_seen)
          + "; jobs left out: "
          + ", ".join(f"{counts['(kernel)', why]} {why}"
                      for why in ("slow", "not modelled", "lost")))
    return 1 if moved or not counts["total", "kept"] else 0


def measure(isa: str = "ptx", count: int = 1000, seed: int = 1, jobs: int | None = None,
            seconds: float = 1e9, only: str = "", per_kernel: int = 12) -> int:
    """The campaign for callers without a command line; returns the exit status."""
    return campaign(Options(isa, count, seed, only, jobs, per_kernel, seconds))
