"""Mutation: no change that moves the replayed map may leave the signature alone.

In: committed kernels with launch facts. For each mutant: a changed or unmodelled signature is
`caught`; an unchanged one is replayed at the kernel's launches, and a changed map (or a finding)
is a survivor. Out: counts by kind; survivors are stored and make the exit status 1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from checker import api
from checker.errors import SamebitsError
from corpus.campaigns.common import console, keep, kernels, run, spread
from corpus.campaigns.mutants import Mutant, mutants


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to mutate."""

    name: str
    text: str
    isa: str
    launches: tuple[dict[str, Any], ...]
    count: int
    seed: int


@dataclass(slots=True)
class Outcome:
    """Counts of (kind, fate), and the survivors as plain data."""

    name: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    survivors: list[dict[str, Any]] = field(default_factory=list)


def _maps(text: str, job: Job) -> tuple[str, ...] | None:
    """Digests of the replayed maps; None where the replay cannot answer; "finding" for findings."""
    out = []
    for facts in job.launches:
        run_ = api.replay_kernel(text, facts, isa=job.isa)
        if run_.unsupported:
            return None
        out.append("finding" if run_.findings or run_.nondeterministic else run_.digest)
    return tuple(out)


def judge(job: Job) -> Outcome:
    """Mutate one kernel and say what became of each mutant."""
    outcome = Outcome(job.name)
    base = api.sign(job.text, isa=job.isa)
    if not base.modelled:
        outcome.counts["(kernel)", "not modelled"] += 1
        return outcome
    base_maps = _maps(job.text, job)
    if base_maps is None:
        outcome.counts["(kernel)", "not replayed"] += 1
        return outcome
    for mutant in mutants(job.text, job.isa, job.count, job.seed):
        fate = _fate(mutant, job, base.text, base_maps)
        outcome.counts[mutant.kind, fate] += 1
        if fate == "SURVIVED":
            outcome.survivors.append({"kernel": job.name, "kind": mutant.kind,
                                      "line": mutant.line, "old": mutant.old, "new": mutant.new,
                                      "launches": job.launches, "text": mutant.text})
    return outcome


def _fate(mutant: Mutant, job: Job, base: str, base_maps: tuple[str, ...]) -> str:
    try:
        signature = api.sign(mutant.text, isa=job.isa)
    except SamebitsError:
        return "refused"
    if signature.text != base or not signature.modelled:
        return "caught"
    try:
        maps = _maps(mutant.text, job)
    except SamebitsError:
        return "refused"
    if maps is None:
        return "not judged"
    return "harmless" if maps == base_maps else "SURVIVED"


def main(isa: str, count: int, seed: int, only: str, workers: int | None, per_kernel: int) -> int:
    """Run the campaign; return the exit status."""
    chosen = spread(kernels(isa, only=only), max(1, -(-count // per_kernel)))
    each = -(-count // max(1, len(chosen)))
    jobs = [Job(k.name, k.text, k.isa, tuple(dict(x) for x in k.launches[:1]), each, seed)
            for k in chosen]
    total: Counter[tuple[str, str]] = Counter()
    survivors = []
    for outcome in run("mutate", judge, jobs, workers):
        total += outcome.counts
        survivors += outcome.survivors
    fates = Counter[str]()
    for (kind, fate), number in total.items():
        if kind != "(kernel)":
            fates[fate] += number
    console.print(f"{len(jobs)} kernels, {sum(fates.values())} mutants, seed {seed}")
    for (kind, fate), number in sorted(total.items()):
        console.print(f"  {kind:12s} {fate:14s} {number}")
    for number, found in enumerate(survivors):
        path = keep("mutate", f"{found['kernel']}-{found['line']}-{number}", found)
        console.print(f"SURVIVED {found['kernel']} line {found['line']}: {found['old'].strip()}"
                      f" -> {found['new'].strip()}  ({path.name})", markup=False)
    console.print(f"survivors: {len(survivors)}")
    return 1 if survivors or not sum(fates.values()) else 0
