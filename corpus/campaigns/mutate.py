"""Mutation: no change that moves the replayed map may leave the signature alone.

In: committed kernels with launch facts. A mutant whose signature changed (or that is no longer
modelled) is caught; any other is replayed at the kernel's launches. Out: counts by kind and fate
(`FATES`); survivors are stored, minimised, and make the exit status 1.

Run by `python -m corpus.campaigns mutate` or, where only the checker's own dependencies are
installed, by `python3 -c "from corpus.campaigns.mutate import measure; measure('ptx', count=30000,
jobs=16, seconds=540, out='mutants.jsonl')"`; with the same file it goes on where it stopped.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

from checker import api
from checker.core import OPS, Program
from checker.errors import SamebitsError
from checker.launch import Launch
from checker.replay import ReplayResult, first_difference, replay
from checker.results import Reason
from checker.witness import find_witness
from corpus.campaigns.common import BUDGET, Options, each, keep, kernels, say, spread
from corpus.campaigns.minimise import minimised
from corpus.campaigns.mutants import Mutant, mutants
from corpus.load import CorpusKernel
from corpus.pool import Lost

#: what becomes of a mutant: no text of a kernel; another signature or none; the same map; the same
#: map but a load reaches outside its buffer, which the premise `readable` rules out; the same map
#: at another grid, which `grid-covers` asks for; the same map where a size is the multiple that
#: `divisible` says; no map; maps that differ though no input shows it (an identity of one engine
#: alone); other bits, overlooked
FATES = ("refused", "caught", "harmless", "readable", "grid-covers", "divisible", "not judged",
         "DISAGREE", "SURVIVED")
FINDINGS = ("DISAGREE", "SURVIVED")

#: longest text, in lines, and longest time to sign one, in seconds of CPU, that is mutated
LONGEST = 1000
SLOWEST = 3.0

#: dynamic shared memory, in bytes, for a mutant that reaches outside of what the launch gives
MOST_SHARED = 48 << 10

#: operations that read global memory
_READS = frozenset({"load", "acopy"})


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to mutate, at most `count` times and for `budget` seconds of CPU."""

    name: str
    text: str
    isa: str
    launches: tuple[dict[str, Any], ...]
    count: int
    seed: int
    kinds: str = ""
    budget: float = BUDGET

    @property
    def key(self) -> str:
        """Names this job in a file of results."""
        return f"{self.isa}/{self.seed}/{self.name}/{self.count}" + (
            f"/{self.kinds}" if self.kinds else "")


@dataclass(slots=True)
class Outcome:
    """Counts of (kind, fate), and the findings as plain data."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Base:
    """A kernel before it is changed; `why` it is not mutated, if it is not."""

    program: Program
    signature: str
    runs: tuple[ReplayResult, ...] = ()
    why: str = ""


@lru_cache(maxsize=4)
def _base(text: str, isa: str, launches: str) -> Base:
    """Sign and replay a kernel."""
    start = time.process_time()
    signature = api.sign(text, isa=isa)
    slow = time.process_time() - start > SLOWEST
    program = api.program_of(text, isa=isa)
    if not signature.modelled or slow:
        return Base(program, signature.text, why="slow" if slow else "not modelled")
    runs = tuple(replay(program, Launch.from_json(facts)) for facts in json.loads(launches))
    if not all(r.usable for r in runs):
        return Base(program, signature.text, why="not replayed")
    return Base(program, signature.text, runs)


def judge(job: Job) -> Outcome:
    """Mutate one kernel and say what became of each mutant."""
    outcome = Outcome()
    base = _base(job.text, job.isa, json.dumps(job.launches))
    if base.why:
        outcome.counts["(kernel)", base.why] += 1
        return outcome
    start = time.process_time()
    for mutant in mutants(job.text, job.isa, job.count, job.seed, job.kinds):
        if time.process_time() - start > job.budget:
            break
        fate, detail = judge_one(mutant.text, job, base)
        outcome.counts[mutant.kind, fate] += 1
        if fate in FINDINGS:
            outcome.findings.append(_finding(mutant, job, fate, detail))
    return outcome


def _finding(mutant: Mutant, job: Job, fate: str, detail: str) -> dict[str, Any]:
    def still(old: str, new: str) -> bool:
        base = _base(old, job.isa, json.dumps(job.launches))
        return not base.why and judge_one(new, job, base)[0] == fate

    old, new = minimised(job.text, mutant.text, still)
    return {"kernel": job.name, "isa": job.isa, "fate": fate, "detail": detail,
            "kind": mutant.kind, "line": mutant.line, "old": mutant.old, "new": mutant.new,
            "launches": job.launches, "a": old, "b": new}


def judge_one(text: str, job: Job, base: Base) -> tuple[str, str]:
    """The fate of one changed text, and why."""
    try:
        signature = api.sign(text, isa=job.isa)
        if signature.text != base.signature or not signature.modelled:
            return "caught", ""
        program = api.program_of(text, isa=job.isa)
        fate = "harmless"
        for facts, before in zip(job.launches, base.runs, strict=True):
            now, more = _replayed(program, facts, before)
            fate = "readable" if more else fate
            if now.unsupported is not None:
                return "not judged", now.unsupported.message
            same = now.digest == before.digest
            if same and now.usable:
                continue
            if same and _reads_outside(program, now) and "readable" in signature.premises:
                fate = "readable"
            elif _needs_multiple(base.program, program, facts, signature.premises):
                fate = "divisible"
            elif _needs_grid(program, facts, before, now, signature.premises):
                fate = "grid-covers"
            elif not same:
                return _different(base.program, program, facts)
            else:
                return "SURVIVED", "; ".join(_says(r) for r in now.reasons()) or "no fixed bits"
    except SamebitsError as error:
        return "refused", str(error)
    return fate, ""


def _replayed(program: Program, facts: dict[str, Any], before: ReplayResult
              ) -> tuple[ReplayResult, bool]:
    """The replay at the kernel's launch, and whether it took more shared memory than that gives.

    Like a grid, the size of dynamic shared memory belongs to the launch of each kernel.
    """
    fuel = 4 * before.steps + 1000
    now = replay(program, Launch.from_json(facts), fuel=fuel)
    if facts.get("shared") and any("shared memory" in f.message for f in now.findings):
        more = {**facts, "shared": max(4 * facts["shared"], MOST_SHARED)}
        again = replay(program, Launch.from_json(more), fuel=fuel)
        if first_difference(before, again) is None and again.usable:
            return replace(again, digest=before.digest), True
    return now, False


def _says(reason: Reason) -> str:
    return f"line {reason.line_a}: {reason.message}"


def _reads_outside(program: Program, run_: ReplayResult) -> bool:
    """Whether all that is wrong with a run are loads that reach outside a buffer in memory."""
    if run_.nondeterministic or run_.opaque or not run_.findings:
        return False
    for finding in run_.findings:
        names = {op.name for op in program.ops if OPS[op.name].kind == "memory"
                 and program.sites[op.site].span.line == finding.line_a}
        if finding.code != "out-of-bounds" or not names or not names <= _READS:
            return False
        if "shared memory" in finding.message:
            return False
    return True


def _needs_grid(program: Program, facts: dict[str, Any], before: ReplayResult, now: ReplayResult,
                premises: Sequence[str]) -> bool:
    """Whether a run only leaves elements out, and leaves none out at some other grid.

    A kernel in place races where several blocks get to one element instead: the premise `race-free`
    rules that out, and at the other grid they do not.
    """
    raced = "race-free" in premises and now.unsupported is None and not now.nondeterministic \
        and all(f.code.startswith("race-") for f in now.findings)
    if "grid-covers" not in premises or not (now.usable or raced) or not _part_of(now, before):
        return False
    grid = facts["grid"]
    wider = [[n * (factor if i == axis else 1) for i, n in enumerate(grid)]
             for factor in (2, 4, 8, 16, 32, 64) for axis in range(3)]
    for other in [*map(list, permutations(grid)), *wider]:
        run_ = replay(program, Launch.from_json({**facts, "grid": other}))
        if run_.usable and first_difference(before, run_) is None:
            return True
    return False


def _needs_multiple(old: Program, new: Program, facts: dict[str, Any], premises: Sequence[str]
                    ) -> bool:
    """Whether the launch breaks a premise `divisible`, and the maps agree where it is kept."""
    args = [dict(arg) if arg else arg for arg in facts["args"]]
    for code in premises:
        hit = re.fullmatch(r"divisible:arg(\d+(?:,\d+)*)%(\d+)", code)
        if hit is None:
            continue
        step = int(hit[2])
        for index in map(int, hit[1].split(",")):
            for kind in {"i32", "i64"} & set(args[index] or ()):
                # An odd multiple: as divisible as the premise says, and no more.
                args[index][kind] = (max(0, args[index][kind] // step - 1) | 1) * step
    if args == facts["args"]:
        return False
    kept = Launch.from_json({**facts, "args": args})
    runs = [replay(program, kept) for program in (old, new)]
    return all(r.usable for r in runs) and first_difference(*runs) is None


def _part_of(part: ReplayResult, whole: ReplayResult) -> bool:
    """Whether a map has nothing that another one lacks: fewer elements, the same trees."""
    for name, out in part.outputs.items():
        other = whole.outputs.get(name)
        if other is None or (out.written & ~other.written).any() or (
                (out.words != other.words).any(axis=0) & out.written).any():
            return False
    return True


def _different(old: Program, new: Program, facts: dict[str, Any]) -> tuple[str, str]:
    """Two maps differ: look for an input that shows it."""
    launch = Launch.from_json(facts)
    witness = find_witness(old, new, launch, launch)
    if witness is None:
        return "DISAGREE", "the replay's trees differ, no input shows it"
    return "SURVIVED", (f"{witness.buffer}[{witness.element}]: {witness.bits_a:#x} against "
                        f"{witness.bits_b:#x}")


# --- many kernels -------------------------------------------------------------------------------


def plan(found: Iterable[CorpusKernel], options: Options) -> list[Job]:
    """The jobs: the shortest kernels of each variant, shuffled, so that a part is a fair one."""
    short = sorted((k for k in found if k.text.count("\n") <= LONGEST), key=lambda k: len(k.text))
    chosen = spread(short, max(1, -(-options.count // options.per_kernel)))
    share = -(-options.count // max(1, len(chosen)))
    jobs = [Job(k.name, k.text, k.isa, tuple(dict(x) for x in k.launches), share, options.seed,
                options.kinds, options.budget) for k in chosen]
    random.Random(options.seed).shuffle(jobs)
    return jobs


def _recalled(out: Path | None) -> dict[str, Outcome]:
    """What earlier runs left in a file of results, by job."""
    found = {}
    if out is not None and out.exists():
        for line in out.read_text().splitlines():
            row = json.loads(line)
            counts = Counter({(kind, fate): n for kind, fate, n in row["counts"]})
            found[row["job"]] = Outcome(counts, row["findings"])
    return found


def _remember(out: Path | None, job: Job, outcome: Outcome) -> None:
    if out is None:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    counts = [[kind, fate, n] for (kind, fate), n in sorted(outcome.counts.items())]
    with out.open("a") as lines:
        lines.write(json.dumps({"job": job.key, "counts": counts,
                                "findings": outcome.findings}) + "\n")


def campaign(options: Options) -> int:
    """Run or go on with a campaign, print what was found; returns the exit status."""
    jobs = plan(kernels(options.isa, options.sets, options.only), options)
    outcomes = _recalled(options.out)
    ahead = [job for job in jobs if job.key not in outcomes]
    outcomes = {job.key: outcomes[job.key] for job in jobs if job.key in outcomes}
    if outcomes:
        say(f"{len(outcomes)} of {len(jobs)} jobs are done already")
    for job, outcome in each(f"mutate {options.isa}", judge, ahead, options):
        if isinstance(outcome, Lost):
            say(f"lost: {job.key}: {outcome.reason}")
            outcome = Outcome(Counter({("(kernel)", "lost"): 1}))
        else:
            _remember(options.out, job, outcome)
        outcomes[job.key] = outcome
    return report(options, list(outcomes.values()))


def report(options: Options, outcomes: Sequence[Outcome]) -> int:
    """The table by kind, every finding, one line of totals; returns the exit status."""
    total: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        total += outcome.counts
    print(f"{'kind':12}" + "".join(f"{fate:>12}" for fate in FATES))
    for kind in sorted({kind for kind, _ in total if kind != "(kernel)"}):
        print(f"{kind:12}" + "".join(f"{total[kind, fate]:>12}" for fate in FATES))
    sums = {fate: sum(n for (kind, f), n in total.items() if f == fate and kind != "(kernel)")
            for fate in FATES}
    left = {fate: n for (kind, fate), n in sorted(total.items()) if kind == "(kernel)"}
    if left:
        print("jobs without a mutant: " + ", ".join(f"{n} {why}" for why, n in left.items()))
    findings = [found for outcome in outcomes for found in outcome.findings]
    for number, found in enumerate(findings):
        path = keep("mutate", f"{found['kernel']}-{found['line']}-{number}", found)
        print(f"{found['fate']} {found['kernel']} line {found['line']}: {found['old'].strip()}"
              f" -> {found['new'].strip()}: {found['detail']}  ({path.name})")
    mutated = sum(any(kind != "(kernel)" for kind, _ in o.counts) for o in outcomes)
    judged = sum(sums[fate] for fate in FATES if fate not in ("refused", "not judged"))
    print(f"mutate {options.isa} seed {options.seed}: {sum(sums.values())} mutants of {mutated} "
          f"kernels, {judged} judged; " + ", ".join(f"{n} {fate}" for fate, n in sums.items()))
    return 1 if findings or not judged else 0


def measure(isa: str = "ptx", count: int = 1000, seed: int = 1, jobs: int | None = None,
            seconds: float = 1e9, out: str | None = None, only: str = "",
            per_kernel: int = 40, sets: Sequence[str] = (), kinds: str = "",
            budget: float = BUDGET) -> int:
    """The campaign for callers without a command line; returns the exit status."""
    return campaign(Options(isa, count, seed, only, jobs, per_kernel, seconds,
                            Path(out) if out else None, tuple(sets), kinds, budget))
