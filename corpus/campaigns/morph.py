"""Metamorphosis: rewrites that keep a kernel's meaning must leave its signature alone.

In: committed kernels. Out: how many rewrites moved a signature, each one shown; any makes the exit
status 1.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from checker import api
from checker.errors import SamebitsError
from corpus.campaigns.common import console, keep, kernels, run, spread
from corpus.campaigns.rewrites import REWRITES


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to rewrite `count` times."""

    name: str
    text: str
    isa: str
    count: int
    seed: int


def judge(job: Job) -> list[tuple[str, str, str]]:
    """Return (rewrite, fate, text where it moved) for each rewrite of one kernel."""
    base = api.sign(job.text, isa=job.isa)
    rng = random.Random(f"{job.seed}/{job.name}")
    table = REWRITES[job.isa]
    out = []
    for number in range(job.count):
        name = sorted(table)[number % len(table)]
        text = table[name](job.text, rng)
        if number >= len(table):  # later rounds stack two rewrites
            second = rng.choice(sorted(table))
            text, name = table[second](text, rng), f"{name}+{second}"
        try:
            now = api.sign(text, isa=job.isa)
        except SamebitsError as error:
            out.append((name, "refused", f"{error}\n{text}"))
            continue
        kept = now.text == base.text and now.modelled == base.modelled
        out.append((name, "kept" if kept else "MOVED", "" if kept else text))
    return out


def main(isa: str, count: int, seed: int, only: str, workers: int | None, per_kernel: int) -> int:
    """Run the campaign; return the exit status."""
    chosen = spread(kernels(isa, only=only), max(1, -(-count // per_kernel)))
    each = -(-count // max(1, len(chosen)))
    jobs = [Job(k.name, k.text, k.isa, each, seed) for k in chosen]
    counts: Counter[tuple[str, str]] = Counter()
    bad = 0
    for job, results in zip(jobs, run("morph", judge, jobs, workers), strict=True):
        for name, fate, text in results:
            counts[name.split("+")[0], fate] += 1
            if fate != "kept":
                bad += 1
                path = keep("morph", f"{job.name}-{name}-{bad}",
                            {"kernel": job.name, "rewrite": name, "fate": fate,
                             "old": job.text, "new": text})
                console.print(f"{fate} {job.name} by {name} ({path.name})", markup=False)
    console.print(f"{len(jobs)} kernels, {sum(counts.values())} rewrites, seed {seed}")
    for (name, fate), number in sorted(counts.items()):
        console.print(f"  {name:20s} {fate:8s} {number}")
    console.print(f"moved or refused: {bad}")
    return 1 if bad or not counts else 0
