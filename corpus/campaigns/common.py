"""What campaigns share: kernels to work on, a pool with a progress bar, findings on disk.

In: a list of jobs (plain data) and a worker function. Out: results in the order of the jobs. A
finding is written as one JSON file, so that it can become a test.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from corpus.load import CorpusKernel, load_set

FINDINGS = Path(__file__).parents[1] / "out" / "findings"
SETS = {"ptx": ("sm_90", "sm_80", "sm_100"), "gcn": ("gfx942",)}
console = Console(stderr=True)

Job = TypeVar("Job")
Result = TypeVar("Result")


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


def run(label: str, work: Callable[[Job], Result], jobs: Sequence[Job],
        workers: int | None = None) -> list[Result]:
    """Run `work` over the jobs on all cores, with a progress bar on the terminal."""
    workers = workers or os.cpu_count() or 1
    results: list[Result] = []
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console,
                  disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=len(jobs))
        for result in _map(work, jobs, workers):
            results.append(result)
            bar.advance(task)
    return results


def _map(work: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterable[Result]:
    if workers == 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(work, jobs)


def keep(campaign: str, name: str, finding: dict[str, Any]) -> Path:
    """Write one finding where a test can be made from it."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    path = FINDINGS / f"{campaign}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[:120]}.json"
    path.write_text(json.dumps(finding, indent=1, sort_keys=True) + "\n")
    return path
