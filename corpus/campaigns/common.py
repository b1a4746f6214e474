"""What campaigns share: options, kernels to work on, processes with a time limit, findings on disk.

In: jobs (plain data) and a worker function. Out: (job, result) pairs in order of completion. A
finding is written as one JSON file, so that it can become a test. Needs the standard library only,
so that a campaign also runs where nothing but the checker's own dependencies are installed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from corpus.load import CorpusKernel, load_set
from corpus.pool import Lost, run_all

FINDINGS = Path(__file__).parents[1] / "out" / "findings"
SETS = {"ptx": ("sm_90", "sm_80", "sm_100"),
        "gcn": ("gfx942", "gfx90a", "gfx950", "gfx1100", "gfx1200")}

#: a job that takes longer is lost: its process is replaced
JOB_SECONDS = 240.0

#: seconds of CPU for the mutants of one kernel: many kernels say more than many mutants of one
BUDGET = 20.0

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Options:
    """What every campaign takes; each uses what it has a use for.

    count: mutants, rewrites or kernels. only: pattern on kernel names. jobs: processes, None for
    all cores. per_kernel: changes a kernel. seconds: start nothing new after so long. out: a file
    of results; jobs that it already holds are not run again. sets: names of committed sets, none
    for those of the ISA. kinds: pattern on the kinds of mutants. budget: seconds of CPU for the
    mutants of one kernel.
    """

    isa: str = "ptx"
    count: int = 1000
    seed: int = 1
    only: str = ""
    jobs: int | None = None
    per_kernel: int = 40
    seconds: float = 1e9
    out: Path | None = None
    sets: tuple[str, ...] = ()
    kinds: str = ""
    budget: float = BUDGET


def kernels(isa: str, sets: Sequence[str] = (), only: str = "") -> list[CorpusKernel]:
    """Return the committed kernels of an ISA; `only` is a pattern on names."""
    found = [k for name in sets or SETS[isa] for k in load_set(name)]
    return [k for k in found if k.isa == isa and re.search(only, k.name)]


def spread(items: Sequence[CorpusKernel], count: int) -> list[CorpusKernel]:
    """Take `count` kernels evenly over the families, the same ones every time."""
    families: dict[str, list[CorpusKernel]] = {}
    for item in items:
        families.setdefault(f"{item.family}.{item.config.get('variant', '')}", []).append(item)
    queues = [list(families[name]) for name in sorted(families)]
    taken: list[CorpusKernel] = []
    while len(taken) < count and any(queues):
        for queue in queues:
            if queue and len(taken) < count:
                taken.append(queue.pop(0))
    return taken


def each(label: str, work: Callable[[Job], Result], jobs: Sequence[Job], options: Options
         ) -> Iterator[tuple[Job, Result | Lost]]:
    """Run `work` over the jobs, saying on the terminal how far it is, until the time is up."""
    start = shown = time.monotonic()
    interval = 0.5 if sys.stderr.isatty() else 30.0
    end = "\r" if sys.stderr.isatty() else "\n"
    workers = options.jobs or os.cpu_count() or 1
    for number, (job, result) in enumerate(run_all(work, jobs, workers, JOB_SECONDS), 1):
        yield job, result
        now = time.monotonic()
        if now - shown > interval:
            shown = now
            print(f"{label}: {number} of {len(jobs)} jobs, {now - start:.0f} s", file=sys.stderr,
                  end=end, flush=True)
        if now - start > options.seconds:
            say(f"{label}: {options.seconds:g} s are over after {number} of {len(jobs)} jobs")
            return


def say(text: str) -> None:
    """One line for the reader, on the standard error."""
    print(text, file=sys.stderr, flush=True)


def keep(campaign: str, name: str, finding: dict[str, Any]) -> Path:
    """Write one finding where a test can be made from it."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    path = FINDINGS / f"{campaign}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:120]}.json"
    path.write_text(json.dumps(finding, indent=1, sort_keys=True) + "\n")
    return path
