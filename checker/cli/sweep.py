"""`samebits partition`: the classes of a sweep, and the knobs that tell them apart.

In: files, folders, manifests or compiler caches. Out: classes over all kernels; shown by kernel and
target, since knobs compare only there. `--keep-equal-to` writes the configurations to keep,
`--batch-invariant` checks that each kernel is one class over its shape buckets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checker import cache, knobs, sources
from checker.cache import Cache, Examiner, open_default
from checker.cli import render
from checker.cli.remote import Server, engine_at
from checker.cli.status import EQUAL, UNPROVED, UNREADABLE, guarded, writable
from checker.errors import UsageError
from checker.results import Partition
from checker.sources import Source

if TYPE_CHECKING:
    from checker.knobs import Separation

__all__ = ["Group", "Jobs", "Limit", "group_sources", "jobs_for", "partition"]

LIMIT_SECONDS = 300.0
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Worker processes [default: half the cores]; 0: none."),
]
Limit = Annotated[float, typer.Option("--limit", help="Seconds that one kernel may take.")]
FEW = 2  # kernels that are not worth a worker's start


def jobs_for(jobs: int | None, kernels: int) -> int | None:
    """Workers for a number of kernels: none for a few, unless they were asked for."""
    return 0 if jobs is None and kernels <= FEW else jobs


@dataclass(frozen=True, slots=True)
class Group:
    """The configurations of one kernel on one target, with the class of each (None: unproved)."""

    kernel: str
    target: str
    sources: tuple[Source, ...]
    labels: tuple[int | None, ...]

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes that occur, by number of members, the largest first."""
        found = [label for label in self.labels if label is not None]
        return tuple(sorted(set(found), key=lambda label: (-found.count(label), label)))

    def separation(self) -> Separation:
        """The knobs that tell the proved classes apart."""
        return knobs.separate(
            (source.input.config, label)
            for source, label in zip(self.sources, self.labels, strict=True)
            if label is not None
        )

    def members(self, label: int) -> list[Source]:
        """The configurations of one class."""
        pairs = zip(self.sources, self.labels, strict=True)
        return [source for source, other in pairs if other == label]


def group_sources(found: Sequence[Source], answer: Partition) -> list[Group]:
    """Group kernels by name, target and argument types, in the order they were read."""
    label_of = {
        name: number for number, one in enumerate(answer.classes) for name in one.members
    }
    groups: dict[tuple[str, str, str], list[Source]] = {}
    for source in found:
        kernel = source.entry or source.input.name
        types = str(source.input.config.get("types", ""))
        groups.setdefault((kernel, source.target, types), []).append(source)
    return [
        Group(key[0], key[1], tuple(some), tuple(label_of.get(s.input.name) for s in some))
        for key, some in groups.items()
    ]


@guarded()
def partition(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Manifests (.jsonl, .jsonl.xz), folders, Triton or Inductor caches, globs.",
        ),
    ],
    keep_equal_to: Annotated[
        str | None,
        typer.Option(
            "--keep-equal-to", metavar="X",
            help="A kernel's name, `knob=value,...` or a signature: print what to keep as JSON.",
        ),
    ] = None,
    batch_invariant: Annotated[
        bool,
        typer.Option("--batch-invariant", help="Exit with 0 only if each kernel is one class."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the JSON there.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", "-k", help="Only kernels whose name contains this.")
    ] = None,
    static: Annotated[
        bool,
        typer.Option("--static/--no-static", help="With --no-static kernels with small launches "
                                                  "are replayed only (not with --server): much "
                                                  "cheaper, classes stand for these launches."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Decide anew.")] = False,
    jobs: Jobs = None,
    limit: Limit = LIMIT_SECONDS,
    server: Server = "",
) -> None:
    """Sort compiled kernels into classes of the same bits.

    Exit status: 0 (with --batch-invariant: 3 where it is not proved), 2 wrong usage, 4 unreadable
    input.
    """
    writable(output)
    engine = engine_at(server)
    found = sources.read(paths, kernels_in=engine.kernels_in)
    chosen = [s for s in found.kernels if kernel is None or kernel in s.input.name]
    if not chosen and not found.errors:
        raise UsageError(f"no kernel found under {', '.join(paths)}")
    inputs = [s.input for s in chosen]
    with _progress(len(chosen)) as progress:
        if server:
            answer = engine.partition(inputs, progress=progress)
        else:
            store = Cache(None) if no_cache else open_default()
            workers = jobs_for(jobs, len(chosen))
            with Examiner(store, jobs=workers, limit_seconds=limit) as examiner:
                answer = cache.partition(inputs, examiner, static=static, progress=progress)
    groups = group_sources(chosen, answer)
    files = {source.input.name: source.file for source in chosen}
    errors = [*((e.name, e.message) for e in found.errors),
              *((name, _in_file(message, name, files[name])) for name, message in answer.errors)]
    invariant = _invariance(groups, answer) if batch_invariant else None
    if keep_equal_to is not None:
        _emit(_keep(keep_equal_to, groups, answer), output)
    elif as_json or output is not None:
        _emit(_json(groups, answer, errors, invariant), output)
    else:
        _show(groups, answer, invariant)
    for name, message in errors:
        print(message if name in message else f"{name}: {message}", file=sys.stderr)
    if errors:
        raise typer.Exit(UNREADABLE)
    proved = invariant is None or all(row["invariant"] for row in invariant)
    raise typer.Exit(EQUAL if proved else UNPROVED)


def _in_file(message: str, name: str, file: str) -> str:
    """A kernel's message with the file in the place of the kernel's name, as an editor takes it."""
    return "\n".join(file + line[len(name):] if line.startswith(f"{name}:") else line
                     for line in message.splitlines())


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, on terminals only, for sweeps that take a while."""
    if not sys.stderr.isatty() or total < 8:
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("partition", total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _emit(data: Any, output: Path | None) -> None:
    text = json.dumps(data, indent=2, default=str)
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n")


def _reference(asked: str, groups: Sequence[Group], answer: Partition) -> tuple[Group, int]:
    """The group and the index in it that `--keep-equal-to` names; raises UsageError."""
    found = []
    wanted = dict(part.partition("=")[::2] for part in asked.split(",")) if "=" in asked else None
    for group in groups:
        for index, source in enumerate(group.sources):
            label = group.labels[index]
            config = source.input.config
            exact = source.input.name == asked
            by_knobs = wanted is not None and all(
                str(config.get(key)) == value for key, value in wanted.items()
            )
            by_class = label is not None and answer.classes[label].signature == asked
            if exact:
                return group, index
            if by_knobs or by_class:
                found.append((group, index))
    if not found:
        names = [source.input.name for group in groups for source in group.sources]
        raise UsageError(f"nothing is named `{asked}`; there are {', '.join(names[:6])}, ...")
    labels = {(id(group), group.labels[index]) for group, index in found}
    if len(labels) > 1 or (len(found) > 1 and found[0][0].labels[found[0][1]] is None):
        names = [group.sources[index].input.name for group, index in found]
        raise UsageError(f"`{asked}` names several classes: {', '.join(names[:6])}")
    return found[0]


def _keep(asked: str, groups: Sequence[Group], answer: Partition) -> dict[str, Any]:
    group, index = _reference(asked, groups, answer)
    label, reference = group.labels[index], group.sources[index]
    kept = [reference] if label is None else group.members(label)
    names = {source.input.name for source in kept}
    why = dict(answer.unproved)
    one = answer.classes[label] if label is not None else None
    return {
        "kernel": group.kernel, "target": group.target, "reference": reference.input.name,
        "signature": one.signature if one else None, "basis": one.basis if one else None,
        "premises": list(one.premises) if one else [],
        "note": "" if one else "the reference is not modelled: only itself is kept",
        "keep": [_named(source) for source in kept],
        "drop": [
            {**_named(source), "reason": _why(why, source.input.name)}
            for source in group.sources if source.input.name not in names
        ],
    }


def _why(unproved: dict[str, Any], name: str) -> str:
    reasons = unproved.get(name)
    return "; ".join(r.message for r in reasons[:2]) if reasons else "another class"


def _named(source: Source) -> dict[str, Any]:
    return {"name": source.input.name, "config": source.input.config}


def _invariance(groups: Sequence[Group], answer: Partition) -> list[dict[str, Any]]:
    """Per kernel: is it one proved class over all its shape buckets?"""
    rows = []
    for group in groups:
        open_ = [
            s.input.name for s, label in zip(group.sources, group.labels, strict=True)
            if label is None
        ]
        classes = len(group.classes)
        # a kernel that reads its grid's size computes something else in another bucket
        grid = any("same-grid" in answer.classes[label].premises for label in group.classes)
        rows.append({
            "kernel": group.kernel, "target": group.target, "buckets": len(group.sources),
            "invariant": classes == 1 and not open_ and not grid, "classes": classes,
            "unproved": open_, "reads_grid_size": grid,
            "separating": group.separation().sentence(),
        })
    return rows


def _json(
    groups: Sequence[Group], answer: Partition, errors: Sequence[tuple[str, str]],
    invariant: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    """The partition's own JSON, classes with all knobs by member, and the groups."""
    config = {s.input.name: s.input.config for g in groups for s in g.sources}
    data = answer.to_json()
    for one in data["classes"]:
        one["configs"] = {name: config.get(name, {}) for name in one["members"]}
    data["unproved"] = [
        {"name": name, "reasons": [asdict(reason) for reason in reasons]}
        for name, reasons in answer.unproved
    ]
    data["errors"] = [{"name": name, "message": message} for name, message in errors]
    data["groups"] = [_group_json(group, answer) for group in groups]
    if invariant is not None:
        data["batch_invariant"] = all(row["invariant"] for row in invariant)
        data["invariance"] = invariant
    return data


def _group_json(group: Group, answer: Partition) -> dict[str, Any]:
    apart = group.separation()
    return {
        "kernel": group.kernel, "target": group.target, "configurations": len(group.sources),
        "classes": [answer.classes[label].signature for label in group.classes],
        "separating_knobs": list(apart.knobs),
        "alternatives": [list(names) for names in apart.sets[1:]],
        "inert_knobs": list(apart.inert), "sentence": apart.sentence(),
    }


def _show(
    groups: Sequence[Group], answer: Partition, invariant: list[dict[str, Any]] | None
) -> None:
    out = render.Lines()
    for index, group in enumerate(groups):
        if index:
            out.add("")
        _show_group(out, group, answer, invariant[index] if invariant else None)
    if len(groups) > 1:
        out.add("")
        total = sum(len(group.sources) for group in groups)
        out.add((f"{total} configurations of {len(groups)} kernels, "
                 f"{_count(len(answer.classes), 'class')}", "bold"))
    out.print()


def _show_group(
    out: render.Lines, group: Group, answer: Partition, row: dict[str, Any] | None
) -> None:
    apart = group.separation()
    open_ = group.labels.count(None)
    counted = ", ".join([
        _count(len(group.sources), "configuration"), _count(len(group.classes), "class"),
        *([f"{open_} unproved"] if open_ else [])])
    head: list[str | tuple[str, str]] = [
        (f"{group.kernel} ", "bold"), (f"{group.target}  ", "dim"), counted,
    ]
    if row is not None:
        good = row["invariant"]
        words = "batch-invariant  " if good else "not proved batch-invariant  "
        head.insert(0, (words, render.COLOURS["equal" if good else "unproved"]))
    out.add(*head)
    for number, label in enumerate(group.classes, 1):
        one, members = answer.classes[label], group.members(label)
        total = len(group.sources)
        values = _values(apart.knobs, members, total)
        out.add(f"  class {number}  ", (one.signature, "cyan"),
                f"  {one.basis}  {len(members)} of {total}",
                (f"  {values}" if values else "", "green"))
    if len(group.classes) > 1:
        out.add("  " + apart.sentence())
    if row is not None and row["reads_grid_size"]:
        out.add("  the kernel reads the size of its grid, which differs between buckets")
    assumed = sorted({code for label in group.classes for code in answer.classes[label].premises})
    if assumed:
        out.add(("  premises: " + " ".join(assumed), "dim"))
    why = dict(answer.unproved)
    missing = [s for s, label in zip(group.sources, group.labels, strict=True) if label is None]
    for source in missing[:render.SHOWN]:
        name = source.input.name
        out.add("  ", ("unproved", "yellow"), f"  {name}  ", (_reason(why, name), "dim"))
    if len(missing) > render.SHOWN:
        out.add((f"  … and {len(missing) - render.SHOWN} more", "dim"))


def _reason(unproved: dict[str, Any], name: str) -> str:
    reasons = unproved.get(name) or ()
    return reasons[0].message if reasons else "could not be read"


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


def _values(names: Sequence[str], members: Sequence[Source], total: int) -> str:
    """The values of the separating knobs in one class, or the members' names; "" for all there are.

    A configuration that is alone is named.
    """
    if not names:
        if len(members) == total > 1:
            return ""
        shown = [source.input.name for source in members[:3]]
        return ", ".join(shown) + (", …" if len(members) > 3 else "")
    seen = dict.fromkeys(
        " ".join(f"{name}={source.input.config.get(name, '-')}" for name in names)
        for source in members
    )
    shown = list(seen)[:4]
    return " | ".join(shown) + (" | …" if len(seen) > 4 else "")

