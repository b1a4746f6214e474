"""Compile families over their knobs, for any target, without a GPU: ``python -m corpus.build``.

Cases in; out comes a content-addressed store: ``<store>/objects/<hash>.ptx`` (or ``.amdgcn``) and
``<store>/<target>.jsonl`` with one line a kernel: ``name``, ``isa``, ``path``, ``config`` (family,
variant, knobs, target, producer), ``launch`` (the first) and ``launches`` (all). The same sources,
knobs and compiler give the same store, whatever the order or number of workers; what failed is
listed with the reason in ``<store>/<target>.failed.jsonl`` and the exit status is then 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from corpus.compile import TARGETS, Compiled, case_key, compile_case, group_of
from corpus.families import families
from corpus.pool import Lost, run_all
from corpus.spec import Case

STORE = Path(__file__).parent / "store"


@dataclass(frozen=True, slots=True)
class Task:
    """One compilation, named so that any process can find its case again."""

    family: str
    index: int
    full: bool
    target: str


@dataclass(frozen=True, slots=True)
class Built:
    """What a worker hands back: a manifest line, or why there is none."""

    task: Task
    name: str
    line: dict[str, Any] | None
    error: str | None


@cache
def cases_of(family: str, full: bool) -> tuple[Case, ...]:
    """The cases of a family, enumerated once a process."""
    return tuple(families()[family].cases(full))


def manifest_line(case: Case, compiled: Compiled, target: str, path: str) -> dict[str, Any]:
    """The manifest line of a compiled case."""
    config: dict[str, Any] = {"family": case.family, "variant": case.variant, "knobs": case.knobs,
              "target": target, "producer": compiled.producer,
              "group": group_of(case.family, compiled.launches)}
    if case.nondeterministic:
        config["nondeterministic"] = True
    return {"name": f"{case.name}-{target}", "isa": compiled.isa, "path": path, "config": config,
            "launch": compiled.launches[0], "launches": list(compiled.launches)}


def build_one(task: Task, store: Path) -> Built:
    """Compile a task into the store, or take it from there when nothing has changed."""
    warnings.simplefilter("ignore")
    case = cases_of(task.family, task.full)[task.index]
    key = case_key(case, task.target)
    remembered = store / "keys" / f"{key}.json"
    try:
        if remembered.exists():
            line = json.loads(remembered.read_text())
            if (store / line["path"]).exists() and line["name"] == f"{case.name}-{task.target}":
                return Built(task, case.name, line, None)
        compiled = compile_case(case, task.target)
    except Exception as error:  # a compiler may raise anything; the reason is the result
        reason = f"{type(error).__name__}: {error}".strip()
        return Built(task, case.name, None, reason[-2000:])
    digest = hashlib.sha256(compiled.text.encode()).hexdigest()[:32]
    path = f"objects/{digest}.{TARGETS[task.target][4]}"
    write_text(store / path, compiled.text)
    line = manifest_line(case, compiled, task.target, path)
    write_text(remembered, json.dumps(line, sort_keys=True))
    return Built(task, case.name, line, None)


def write_text(path: Path, text: str) -> None:
    """Write through a temporary name, so that a killed run leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def plan(names: Iterable[str], targets: Iterable[str], full: bool,
         every: int = 1) -> list[Task]:
    """All tasks of some families for some targets; ``every`` keeps each n-th case."""
    known = families()
    tasks = []
    for target in targets:
        for name in names:
            if known[name].targets(target):
                isa = TARGETS[target][3]
                tasks += [Task(name, i, full, target)
                          for i, case in enumerate(cases_of(name, full))
                          if i % every == 0 and case.isa in ("", isa)]
    return tasks


def build(tasks: list[Task], store: Path, jobs: int, console: Console) -> tuple[int, list[Built]]:
    """Run the tasks, write the manifests, return how many were built and the failures."""
    for folder in ("objects", "keys"):
        (store / folder).mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TRITON_CACHE_DIR", str(store / "triton"))
    done: dict[Task, Built] = {}
    columns = (TextColumn("compile"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[failed]} failed"))
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task("", total=len(tasks), failed=0)
        for task, outcome in run_all(partial(build_one, store=store), tasks, jobs, seconds=600):
            if isinstance(outcome, Lost):
                name = cases_of(task.family, task.full)[task.index].name
                outcome = Built(task, name, None, outcome.reason)
            done[task] = outcome
            failed = sum(b.line is None for b in done.values())
            bar.update(shown, advance=1, failed=failed)
    failures = [done[t] for t in tasks if done[t].line is None]
    for target in dict.fromkeys(t.target for t in tasks):
        mine = [done[t] for t in tasks if t.target == target]
        write_manifest(store / f"{target}.jsonl", [b.line for b in mine if b.line is not None])
        write_manifest(store / f"{target}.failed.jsonl",
               [{"name": b.name, "error": b.error} for b in mine if b.line is None])
    shutil.rmtree(store / "triton", ignore_errors=True)
    return len(tasks) - len(failures), failures


def write_manifest(path: Path, rows: list[Any]) -> None:
    """Write a manifest: one JSON object a line."""
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


def main(
    family: Annotated[list[str] | None, typer.Option(help="only this family (repeatable)")] = None,
    target: Annotated[list[str] | None, typer.Option(help="sm_90, gfx942, ...")] = None,
    full: Annotated[bool, typer.Option(help="the whole knob space")] = False,
    every: Annotated[int, typer.Option(min=1, help="keep each n-th case")] = 1,
    store: Annotated[Path, typer.Option(help="where the store lies")] = STORE,
    jobs: Annotated[int, typer.Option(min=1, help="worker processes")] = os.cpu_count() or 1,
    list_only: Annotated[bool, typer.Option("--list", help="list families and counts")] = False,
) -> None:
    """Compile the corpus to assembly text."""
    console = Console(stderr=True)
    known = families()
    unknown = [n for n in family or [] if n not in known]
    unknown += [t for t in target or [] if t not in TARGETS]
    if unknown:
        console.print(f"unknown: {', '.join(unknown)}")
        raise typer.Exit(2)
    names = family or list(known)
    if list_only:
        for name in names:
            print(f"{name:24} {len(cases_of(name, full)):6}  {known[name].about}")
        return
    tasks = plan(names, target or ["sm_90"], full, every)
    count, failures = build(tasks, store, jobs, console)
    console.print(f"{count} kernels in {store}")
    for failure in failures:
        reason = ["", *(failure.error or "").strip().splitlines()][-1]
        console.print(f"failed: {failure.task.target} {failure.name}: {reason}", markup=False)
    if failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
