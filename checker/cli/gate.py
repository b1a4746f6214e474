"""`samebits gate`: check, update, diff and explain against a committed baseline.

In: paths to compiled kernels and the baseline. Out: a report in one or several formats and an exit
status: 0 same, 1 drift, 2 wrong usage, 3 unreadable input, 4 baseline missing, incompatible, or no
kernel checked.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from checker import premises, sources
from checker.cache import Cache, Examiner, open_default
from checker.cli import render
from checker.cli.status import USAGE, fail, guarded, writable
from checker.cli.sweep import LIMIT_SECONDS, Jobs, Limit, jobs_for
from checker.errors import UsageError
from checker.gate import formats, lockfile, suppress, trees
from checker.gate.check import Current, Report, Result, check, sign_all
from checker.gate.lockfile import Lock, LockError
from checker.gate.trees import Difference
from checker.sources import Unreadable

__all__ = ["app"]

UNREADABLE_INPUT, NO_BASELINE = 3, 4
SHOWN = 40  # drifts shown in full as text; the other formats have all

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Check compiled kernels against a baseline.",
)

Paths = Annotated[
    list[str] | None,  # none at all is what a shell makes of an empty glob
    typer.Argument(metavar="PATH...", help="Files, folders, caches, manifests, globs."),
]
Baseline = Annotated[Path, typer.Option("--baseline", "-b", help="The baseline file.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Sign anew, store nothing.")]
Before = Annotated[
    list[str] | None,
    typer.Option("--before", help="Old assembly, to show where the trees differ."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
DEFAULT = Path("samebits.lock")


@dataclass(frozen=True, slots=True)
class Signing:
    """How the kernels of one call are signed."""

    cache: Cache
    jobs: int | None
    limit: float


def signing(no_cache: NoCache = False, jobs: Jobs = None, limit: Limit = LIMIT_SECONDS) -> Signing:
    """The options that every gate command has."""
    return Signing(Cache(None) if no_cache else open_default(), jobs, limit)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a gate command: its parameter `how` becomes the options of `signing`.

    It has the gate's own exit statuses.
    """
    common = inspect.signature(signing, eval_str=True).parameters
    shown = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def run(**options: Any) -> None:
        how = signing(**{name: options.pop(name) for name in common})
        try:
            function(how=how, **options)
        except LockError as error:
            fail(error, NO_BASELINE, bool(options.get("as_json")))

    own = [p for name, p in shown.parameters.items() if name != "how"]
    vars(run)["__signature__"] = shown.replace(parameters=[*own, *common.values()])
    wrapped = guarded(unreadable=UNREADABLE_INPUT)(run)
    app.command(function.__name__.removesuffix("_kernels"))(wrapped)
    return wrapped


def _load(baseline: Path) -> Lock:
    if not baseline.is_file():
        raise LockError(
            f"{baseline} is missing\n  hint: `samebits gate update --baseline {baseline} PATH...` "
            "writes it; commit it then"
        )
    return lockfile.load(_text_of(baseline), name=str(baseline))


def _text_of(baseline: Path) -> str:
    try:
        return baseline.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"{baseline} cannot be read: {error}") from None


def _sign(paths: list[str] | None, how: Signing) -> Current:
    from checker import api

    paths = paths or []
    found = sources.read(paths, kernels_in=api.kernels_in)
    with (
        _bar(len(found.kernels)) as progress,
        Examiner(
            how.cache, jobs=jobs_for(how.jobs, len(found.kernels)), limit_seconds=how.limit
        ) as examiner,
    ):
        current = sign_all(found, examiner, progress=progress)
    if not current.kernels and not current.errors:
        where = f"nothing found under {', '.join(paths)}" if paths else "no path was given"
        raise LockError(f"no kernel was checked: {where}")
    return current


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error, on terminals only."""
    if not sys.stderr.isatty() or total < 8:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("signing", total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)


@command
def check_kernels(
    how: Signing,
    paths: Paths = None,
    baseline: Baseline = DEFAULT,
    format_: Annotated[
        str, typer.Option("--format", "-f", help=f"One of {', '.join(formats.FORMATS)}.")
    ] = "text",
    report: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="FORMAT=FILE", help="Also write a report; repeatable."),
    ] = None,
    allow_new: Annotated[
        bool, typer.Option("--allow-new", help="New kernels are no drift.")
    ] = False,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Vanished kernels are no drift.")
    ] = False,
    suppressions: Annotated[
        Path | None,
        typer.Option(
            "--suppressions", help="TOML file [default: samebits.suppress.toml by the baseline]."
        ),
    ] = None,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Compare kernels with the baseline.

    Exit status: 0 same, 1 drift, 2 wrong usage, 3 unreadable input, 4 baseline missing or
    incompatible, or no kernel checked.
    """
    wanted = _formats("json" if as_json else format_, report or [])
    writable(*(file for _, file in wanted))
    lock = _load(baseline)
    excused = suppress.load(suppressions or baseline.with_name("samebits.suppress.toml"))
    current = _sign(paths, how)
    result = check(
        lock, current, suppressions=excused, allow_new=allow_new, allow_missing=allow_missing
    )
    old = _sign(before, how) if before else None
    differences = _differences(result, how.cache, old)
    trees.remember(how.cache, current.kernels)
    for name, file in wanted:
        _write(name, file, result, differences, baseline)
    raise typer.Exit(result.status)


def _formats(shown: str, extra: list[str]) -> list[tuple[str, Path | None]]:
    out: list[tuple[str, Path | None]] = [(shown, None)]
    for item in extra:
        name, equals, file = item.partition("=")
        if not equals or not file:
            raise UsageError(f"--report takes FORMAT=FILE, not `{item}`")
        out.append((name, Path(file)))
    for name, _ in out:
        if name not in formats.FORMATS:
            raise UsageError(f"unknown format `{name}`: one of {', '.join(formats.FORMATS)}")
    return out


def _differences(report: Report, cache: Cache, before: Current | None) -> dict[int, Difference]:
    out = {}
    for index, result in enumerate(report.results):
        found = trees.difference(result, cache, before)
        if found is not None:
            out[index] = found
    return out


def _write(
    name: str, file: Path | None, report: Report, differences: dict[int, Difference], base: Path
) -> None:
    if name == "text":
        lines = _text(report, differences, base)
        if file is None:
            out = render.Lines()
            out.extend(lines)
            out.print()
            _print_errors(report.errors)
            return
        text = "".join(line.plain + "\n" for line in lines)
    elif name == "json":
        text = json.dumps(formats.to_json(report, differences, str(base)), indent=2) + "\n"
    else:
        make = {"junit": formats.junit, "sarif": formats.sarif, "github": formats.github}[name]
        text = make(report, differences, str(base))
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if name == "github" and summary:
            with Path(summary).open("a") as out_file:
                out_file.write(formats.step_summary(report, differences, str(base)))
    if file is None:
        sys.stdout.write(text)
    else:
        file.write_text(text)


def _print_errors(errors: Iterable[Unreadable]) -> None:
    for error in errors:
        known = error.message.startswith(error.name)
        print(error.message if known else f"{error.name}: {error.message}", file=sys.stderr)


_WORDS = {
    "signature": ("drift", "bold red"), "coverage": ("coverage drift", "bold red"),
    "finding": ("finding", "bold red"), "checker": ("checker drift", "bold yellow"),
    "new": ("new", "bold yellow"), "missing": ("vanished", "bold yellow"),
}


def _text(report: Report, differences: dict[int, Difference], baseline: Path) -> list[Text]:
    out = render.Lines()
    same = sum(r.kind == "same" for r in report.results)
    drifted = [(i, r) for i, r in enumerate(report.results) if r.drifted]
    excused = [r for r in report.results if r.suppressed is not None]
    head = {0: ("same", "bold green"), 1: ("drift", "bold red")}.get(
        report.status, ("unreadable input", "bold red")
    )
    counts = [f"{same} unchanged"]
    for kind, (word, _) in _WORDS.items():
        number = report.count(kind)
        counts += [f"{number} {word}"] if number else []
    counts += [f"{len(excused)} suppressed"] if excused else []
    counts += [f"{len(report.errors)} unreadable"] if report.errors else []
    out.add(head, (f"  {', '.join(counts)}  ({baseline})", "dim"))
    for index, result in drifted[:SHOWN]:
        out.extend(_drift(result, differences.get(index), str(baseline)))
    if len(drifted) > SHOWN:
        out.add((f"… and {len(drifted) - SHOWN} more (--json lists all)", "dim"))
    for result in excused:
        one = result.suppressed
        assert one is not None
        until = "" if one.place.startswith("--") else f", until {one.expires}"
        out.add(("suppressed", "dim"), f"  {result.key}  ", (f"{one.reason}{until}", "dim"))
    for note in report.notes:
        out.add(("note", "dim"), f"  {note}")
    return out.lines


def _drift(result: Result, difference: Difference | None, baseline: str) -> list[Text]:
    out = render.Lines()
    place = formats.place_of(result, difference, baseline)
    out.add(_WORDS[result.kind], f"  {result.key}  ", (f"{place.file}:{place.line}", "dim"))
    out.add(f"  {result.message}")
    for detail in result.details:
        out.add((f"  {detail}", "dim"))
    if difference is not None:
        for reason in difference.reasons[:3]:
            out.add("  ", (reason.code, "yellow"), f"  {reason.message}")
            for side, file, line, loc in (
                ("before", difference.file_before, reason.line_a, reason.loc_a),
                ("now   ", difference.file_now, reason.line_b, reason.loc_b),
            ):
                if line is not None:
                    out.add((f"    {side} {render.place(file, line, loc)}", "dim"))
        for row in difference.tree:
            style = {"-": "red", "+": "green"}.get(row[:1], "dim")
            out.add((f"    {row}", style))
        if difference.note:
            out.add((f"  {difference.note}", "dim"))
    return out.lines


@command
def update(
    how: Signing,
    paths: Paths = None,
    baseline: Baseline = DEFAULT,
    merge: Annotated[
        bool, typer.Option("--merge", help="Keep entries that the given paths do not have.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the baseline from the given kernels; nothing is written if one cannot be read."""
    old = _load(baseline) if baseline.exists() else None
    writable(baseline)
    current = _sign(paths, how)
    if current.errors:
        _print_errors(current.errors)
        print(f"{baseline} was not written", file=sys.stderr)
        raise typer.Exit(UNREADABLE_INPUT)
    entries = [signed.entry for signed in current.kernels]
    if merge and old is not None:
        keys = {entry.key for entry in entries}
        entries += [entry for entry in old.entries if entry.key not in keys]
    text = lockfile.dump(entries)
    changed = not baseline.is_file() or _text_of(baseline) != text
    if changed:
        baseline.write_text(text, encoding="utf-8")
    trees.remember(how.cache, current.kernels)
    how.cache.trim()
    report = check(old or Lock("", ()), current)
    kinds = {kind: sum(r.kind == kind for r in report.results) for kind in ("same", *_WORDS)}
    if merge:
        kinds["missing"] = 0
    if as_json:
        done = {"baseline": str(baseline), "changed": changed, "counts": kinds}
        print(json.dumps(done, indent=2))
        return
    said = ", ".join(
        f"{number} {_WORDS[kind][0] if kind in _WORDS else 'unchanged'}"
        for kind, number in kinds.items() if number
    )
    print(f"{baseline} {'written' if changed else 'unchanged'}: {len(entries)} kernels ({said})")


@command
def diff(
    how: Signing,
    paths: Paths = None,
    baseline: Baseline = DEFAULT,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Show where the trees of drifted kernels first differ, in both versions."""
    lock = _load(baseline)
    current = _sign(paths, how)
    report = check(lock, current)
    old = _sign(before, how) if before else None
    differences = _differences(report, how.cache, old)
    if as_json:
        print(json.dumps(formats.to_json(report, differences, str(baseline)), indent=2))
    else:
        out = render.Lines()
        for index, result in enumerate(report.results):
            if result.kind != "same":
                out.extend(_drift(result, differences.get(index), str(baseline)))
        out.print()
        _print_errors(report.errors)
        if not any(r.kind != "same" for r in report.results):
            print("no difference")
    raise typer.Exit(report.status)


@command
def explain(
    how: Signing,
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="A name, or a part of one.")],
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH...]", help="Kernels as they are now.")
    ] = None,
    baseline: Baseline = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Explain a baseline entry: what was signed, what it assumes, and what it is now."""
    lock = _load(baseline)
    chosen = [entry for entry in lock.entries if kernel in str(entry.key)]
    if not chosen:
        names = sorted({entry.kernel for entry in lock.entries})
        fail(UsageError(f"no entry is named `{kernel}`; there are {', '.join(names[:8])}"),
             USAGE, as_json)
    current = _sign(paths, how) if paths else Current(())
    report = check(Lock(lock.checker, tuple(chosen)), current, allow_new=True)
    rows = [r for r in report.results if r.before is not None]
    differences = {i: d for i, r in enumerate(rows) if (d := trees.difference(r, how.cache))}
    if as_json:
        narrowed = Report(tuple(rows), report.errors, report.notes, report.baseline_checker)
        print(json.dumps(formats.to_json(narrowed, differences, str(baseline)), indent=2))
        return
    out = render.Lines()
    for index, result in enumerate(rows):
        out.add("" if index else (f"{len(rows)} of {len(lock.entries)} entries", "dim"))
        _explain(out, result, differences.get(index), bool(paths), str(baseline))
    out.print()


def _explain(
    out: render.Lines, result: Result, difference: Difference | None, looked: bool, baseline: str
) -> None:
    entry = result.before
    assert entry is not None
    out.add((str(result.key), "bold"), (f"  {baseline}:{entry.line}", "dim"))
    for name, value in (
        ("signature", entry.signature), ("summary", entry.summary), ("compiler", entry.compiler),
        ("coverage", entry.coverage),
    ):
        out.add(f"  {name:<9}  {value or '-'}")
    for code in entry.premises.split():
        out.add("  premise    ", (code, "magenta"), f"  {premises.explain(code)}".rstrip())
    if not looked:
        return
    if result.kind == "same":
        out.add("  now        ", ("same", "green"))
    elif result.kind == "missing":
        out.add("  now        ", ("not among the given kernels", "yellow"))
    else:
        out.extend(_drift(result, difference, baseline))
