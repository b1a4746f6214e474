"""The classes that exist, once more by bits: ``python -m corpus.bench.confirm [--isa gcn]``.

Compiles an even sample of each row of the partition table, replays the family's smallest launch in
the domain ``trees`` and, with inputs that cancel along the reduced axis, in the domain ``bytes``.
Prints a line a row: ``trees`` and ``bytes`` classes; ``broken``: pairs of one tree class whose
bytes differ (there must be none); ``unseen``: pairs of different trees whose bytes always agree;
``refused``: replays that are not bit-accurate (approximate functions without a table) or failed.
Exit status 1 on a broken pair. Needs Triton.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from typing import Annotated, Any

import typer

from corpus.bench.classes import Task, cases_of, tasks_of, text_only
from corpus.bench.partition import TARGETS
from corpus.bench.rows import rows_of
from corpus.pool import Lost, run_all

#: draws by kind and seed: halves that cancel, values that spread, plain ones
DRAWS = (("cancel", 1), ("cancel", 2), ("wide", 1), ("normal", 1))


@dataclass(frozen=True, slots=True)
class Seen:
    """One configuration: its domain, its tree class and its bytes; ``why`` there are none."""

    name: str
    group: str = ""
    trees: str = ""
    bytes: str = ""
    why: str = ""


def look(task: Task, draws: int) -> Seen:
    """Compile one configuration and replay its smallest launch in both domains."""
    from checker import api
    from checker.launch import Launch
    from checker.replay import replay as run_at
    from corpus.campaigns.truth import reproduced
    from corpus.compile import compile_case, group_of
    from corpus.families import families
    from corpus.truth import draw_inputs

    text_only()
    case = next(c for c in cases_of(task.row, task.target) if c.name == task.name)
    launches = next((c.launches for c in families()[task.row].cases(True)
                     if c.fn is case.fn and c.constexprs == case.constexprs), case.launches)
    at = min(range(len(launches)), key=lambda i: _size(launches[i]))
    compiled = compile_case(replace(case, launches=launches), task.target)
    facts, program = compiled.launches[at], api.program_of(compiled.text, isa=compiled.isa)
    group = group_of(task.row, [facts])
    trees = run_at(program, Launch.from_json(facts))
    if not trees.usable:
        return Seen(task.name, group, why="; ".join(r.code for r in trees.reasons()))
    found = []
    for kind, seed in DRAWS[:draws]:
        inputs = draw_inputs(facts, at, kind, seed)
        run = run_at(program, Launch.from_json(facts), domain="bytes", inputs=inputs)
        if not run.usable or run.inaccurate:
            reasons = [*(r.code for r in run.reasons()), *run.inaccurate]
            return Seen(task.name, group, trees.digest, why=", ".join(reasons))
        found.append(reproduced(run, facts, inputs))
    return Seen(task.name, group, trees.digest, "|".join(found))


def _size(launch: Any) -> int:
    return sum(getattr(value, "elements", 0) for value in launch.args.values())


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    configurations: int
    trees: int
    bytes: int
    broken: int
    unseen: int
    refused: Counter[str]


def tally(name: str, seen: Sequence[Seen]) -> Row:
    """Count classes, and pairs on which the two domains disagree."""
    good = [s for s in seen if not s.why]
    trees = Counter((s.group, s.trees) for s in good)
    both = Counter((s.group, s.trees, s.bytes) for s in good)
    bits = Counter((s.group, s.bytes) for s in good)
    pairs = [sum(comb(n, 2) for n in c.values()) for c in (trees, both, bits)]
    return Row(name, len(seen), len(trees), len(bits), pairs[0] - pairs[1], pairs[2] - pairs[1],
               Counter(s.why for s in seen if s.why))


def main(
    isa: Annotated[str, typer.Option(help="ptx (sm_90) or gcn (gfx942)")] = "gcn",
    family: Annotated[list[str] | None, typer.Option(help="only these rows")] = None,
    count: Annotated[int, typer.Option(min=1, help="configurations of each row")] = 12,
    draws: Annotated[int, typer.Option(min=1, help="inputs of each")] = len(DRAWS),
    jobs: Annotated[int, typer.Option(min=1, help="worker processes")] = os.cpu_count() or 1,
) -> None:
    """Confirm the classes of trees by bits."""
    target = TARGETS[isa][0]
    tasks = [t for t in tasks_of(rows_of(target, family or ()), target) if t.index < count]
    seen: dict[str, list[Seen]] = defaultdict(list)
    for task, outcome in run_all(partial(look, draws=draws), tasks, jobs, seconds=300):
        found = Seen(task.name, why=outcome.reason[:100]) if isinstance(outcome, Lost) else outcome
        seen[task.row].append(found)
    rows = [tally(name, found) for name, found in sorted(seen.items())]
    print(f"{'row':22} configs  trees  bytes  broken  unseen  refused")
    for row in rows:
        print(f"{row.name:22} {row.configurations:7} {row.trees:6} {row.bytes:6} {row.broken:7} "
              f"{row.unseen:7} {sum(row.refused.values()):8}")
        for why, times in row.refused.most_common(3):
            print(f"    {times} refused: {why}")
    raise typer.Exit(1 if any(row.broken for row in rows) or not rows else 0)


if __name__ == "__main__":
    typer.run(main)
