"""Commands on single kernels and pairs: sign, compare, tree, describe, coverage.

In: files named on the command line. Out: text or JSON on standard output and an exit status. No
semantics here: each command reads texts, asks `checker.api` and prints the answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from checker import sources
from checker.cache import Cache, open_default
from checker.cli import render
from checker.cli.explain import Asked, explain_lines
from checker.cli.remote import Server, engine_at
from checker.cli.status import (
    EQUAL,
    UNEQUAL,
    UNPROVED,
    UNREADABLE,
    error_json,
    guarded,
)
from checker.errors import Diagnostic, InputError, SamebitsError, Span, UsageError
from checker.results import Signature, Verdict

__all__ = ["compare", "coverage", "describe", "sign", "tree"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kernel = Annotated[
    str | None, typer.Option("--kernel", "-k", help="The entry to take, where a file has several.")
]
Isa = Annotated[str | None, typer.Option("--isa", help="ptx or gcn; guessed where not given.")]
Assume = Annotated[
    list[str] | None,
    typer.Option("--assume", help="A premise: pow2:sa,sw (these arguments hold powers of two), "
                 "block:128 or block:16x16 (the block size, where the text fixes none).")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Sign anew, store nothing.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE...", help="Assembly; `-` reads stdin.")]


@dataclass(frozen=True, slots=True)
class Listing:
    """One text to look at: as named on the command line, and its entries."""

    file: str
    text: str
    isa: str | None
    entries: tuple[str, ...]

    def pick(self, kernel: str | None) -> tuple[str, ...]:
        """The entries asked for; raises UsageError with the names there are."""
        if kernel is None:
            return self.entries
        if kernel not in self.entries:
            raise UsageError(
                f"{self.file} has no kernel `{kernel}`; it has {_names(self.entries)}"
            )
        return (kernel,)


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def _load(file: str, isa: str | None, engine: Any) -> Listing:
    name = "<stdin>" if file == "-" else file
    text = (sources.decoded(sys.stdin.buffer.read(), Path(name)) if file == "-"
            else sources.read_text(Path(file)))
    entries = engine.kernels_in(text, isa=isa, file=name)
    if not entries:
        raise InputError([Diagnostic("the text has no kernel (entry function)", Span(1, 1),
                                     "a library of device functions alone has none", name)])
    return Listing(name, text, isa, tuple(entries))


def _cache(off: bool) -> Cache:
    return Cache(None) if off else open_default()


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


@guarded()
def sign(
    files: Files, kernel: Kernel = None, isa: Isa = None, as_json: Json = False,
    no_cache: NoCache = False, server: Server = "", assume: Assume = None,
) -> None:
    """Print the signature of each kernel.

    Kernels that are modelled and have one signature return the same bits.
    """
    engine = engine_at(server)
    if assume and server:
        raise UsageError("--assume does not go with --server here: a service signs what is given")
    declared: dict[str, Any] = {"assume": tuple(assume)} if assume else {}
    # the cache knows kernels without assumptions
    ask = engine.sign if server or declared else _cache(no_cache).sign
    signed: list[tuple[str, Signature]] = []
    errors: list[tuple[str, SamebitsError]] = []
    for file in files:
        try:
            source = _load(file, isa, engine)
            for entry in source.pick(kernel):
                signature = ask(source.text, isa=isa, kernel=entry, file=source.file, **declared)
                signed.append((source.file, signature))
        except UsageError:
            raise
        except SamebitsError as error:
            errors.append((file, error))
    if as_json:
        kernels = [{"file": file, **signature.to_json()} for file, signature in signed]
        failed = [{"file": file, **error_json(error)} for file, error in errors]
        _print_json({"kernels": kernels, "errors": failed})
    else:
        out = render.Lines()
        for file, signature in signed:
            out.extend(render.signature_lines(signature, file))
        out.print()
    for _, failure in errors:
        print(failure, file=sys.stderr)
    raise typer.Exit(UNREADABLE if errors else EQUAL)


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Entries that belong together, and those without a partner."""

    pairs: tuple[tuple[str, str], ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()


def _pair(a: Listing, b: Listing, kernel_a: str | None, kernel_b: str | None) -> _Pairing:
    """Pair entries: one with one whatever their names, several by name."""
    names_a, names_b = a.pick(kernel_a), b.pick(kernel_b)
    if len(names_a) == len(names_b) == 1:
        return _Pairing(((names_a[0], names_b[0]),))
    if len(names_a) == 1 and kernel_a is not None and names_a[0] not in names_b:
        raise UsageError(f"give --kernel-b: {b.file} has {_names(names_b)}")
    both = tuple(name for name in names_a if name in names_b)
    if not both:
        raise UsageError(
            f"no kernel name is in both files: {a.file} has {_names(names_a)}; "
            f"{b.file} has {_names(names_b)}\n  hint: name a pair with --kernel-a and --kernel-b"
        )
    return _Pairing(
        tuple((name, name) for name in both),
        tuple(name for name in names_a if name not in both),
        tuple(name for name in names_b if name not in both),
    )


@guarded()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="Assembly of the first kernel.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Assembly of the second kernel.")],
    kernel: Kernel = None,
    kernel_a: Annotated[str | None, typer.Option("--kernel-a", help="The entry in A.")] = None,
    kernel_b: Annotated[str | None, typer.Option("--kernel-b", help="The entry in B.")] = None,
    launch: Annotated[
        Path | None, typer.Option("--launch", help="Launch facts (JSON), for both or for A.")
    ] = None,
    launch_b: Annotated[
        Path | None, typer.Option("--launch-b", help="Launch facts of B, if they differ.")
    ] = None,
    isa: Isa = None,
    isa_b: Annotated[str | None, typer.Option("--isa-b", help="The ISA of B.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Prove more: grant none of the optional premises.")
    ] = False,
    as_json: Json = False,
    server: Server = "",
    assume: Assume = None,
) -> None:
    """Decide whether two kernels return the same bits.

    Exit status: 0 equal, 1 unequal, 3 unproved, 2 wrong usage, 4 unreadable input.
    """
    engine = engine_at(server)
    declared = {"assume": tuple(assume)} if assume else {}
    text_a, text_b = _load(a, isa, engine), _load(b, isa_b or isa, engine)
    pairing = _pair(text_a, text_b, kernel_a or kernel, kernel_b or kernel)
    facts_a = sources.load_json(launch) if launch else None
    facts_b = sources.load_json(launch_b) if launch_b else facts_a
    verdicts = [
        engine.compare(
            text_a.text, text_b.text, isa_a=text_a.isa, isa_b=text_b.isa, kernel_a=name_a,
            kernel_b=name_b, launch_a=facts_a, launch_b=facts_b, strict=strict,
            file_a=text_a.file, file_b=text_b.file, **declared,
        )
        for name_a, name_b in pairing.pairs
    ]
    overall = _overall(verdicts, pairing)
    if as_json:
        _print_json(_compare_json(text_a.file, text_b.file, verdicts, pairing, overall))
    else:
        asked = Asked((text_a.text, text_b.text), (text_a.file, text_b.file),
                      (text_a.isa, text_b.isa), (facts_a, facts_b), tuple(assume or ()), not server)
        _print_verdicts(text_a, text_b, verdicts, pairing, overall, asked)
    raise typer.Exit({"equal": EQUAL, "unequal": UNEQUAL}.get(overall, UNPROVED))


def _overall(verdicts: Sequence[Verdict], pairing: _Pairing) -> str:
    """One word for all pairs: equal only if each is, and no kernel is left over."""
    kinds = {verdict.kind for verdict in verdicts}
    if "unequal" in kinds:
        return "unequal"
    left = pairing.only_a or pairing.only_b
    return "equal" if kinds == {"equal"} and not left else "unproved"


def _compare_json(
    file_a: str, file_b: str, verdicts: Sequence[Verdict], pairing: _Pairing, overall: str
) -> dict[str, Any]:
    if len(verdicts) == 1 and overall == verdicts[0].kind:
        return {**verdicts[0].to_json(), "file_a": file_a, "file_b": file_b}
    return {
        "equal": overall == "equal", "verdict": overall, "file_a": file_a, "file_b": file_b,
        "pairs": [verdict.to_json() for verdict in verdicts],
        "only_a": list(pairing.only_a), "only_b": list(pairing.only_b),
    }


def _print_verdicts(
    a: Listing, b: Listing, verdicts: Sequence[Verdict], pairing: _Pairing, overall: str,
    asked: Asked,
) -> None:
    out = render.Lines()
    if len(verdicts) > 1 or pairing.only_a or pairing.only_b:
        left = [f"only in {a.file}: {_names(pairing.only_a)}"] if pairing.only_a else []
        left += [f"only in {b.file}: {_names(pairing.only_b)}"] if pairing.only_b else []
        note = "; ".join([f"{len(verdicts)} pairs by name", *left])
        out.add((overall, render.COLOURS[overall]), (f"  {note}", "dim"))
        out.add("")
    elif len(a.entries) > 1 or len(b.entries) > 1:
        found = f"{a.file} has {_names(a.entries)}; {b.file} has {_names(b.entries)}"
        out.add((found, "dim"))
    for index, verdict in enumerate(verdicts):
        if index:
            out.add("")
        out.extend(render.verdict_lines(
            verdict, a.file, b.file, asked.texts, explain_lines(verdict, asked)))
    out.print()


@guarded()
def tree(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Assembly; `-` reads stdin.")],
    kernel: Kernel = None, isa: Isa = None, as_json: Json = False,
) -> None:
    """Print the tree of roundings of each output."""
    from checker import api

    source = _load(file, isa, api)
    trees = [
        (name, api.tree_text(source.text, isa=isa, kernel=name, file=source.file))
        for name in source.pick(kernel)
    ]
    if as_json:
        rows = [{"file": source.file, "kernel": name, "tree": text} for name, text in trees]
        _print_json({"kernels": rows})
        return
    for index, (name, text) in enumerate(trees):
        if len(trees) > 1:
            out = render.Lines()
            out.add("\n" if index else "", (name, "bold"))
            out.print()
        print(text.rstrip("\n"))


@guarded()
def describe(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Assembly; `-` reads stdin.")],
    kernel: Kernel = None, isa: Isa = None, as_json: Json = False,
) -> None:
    """Print in which order each output is summed, in words.

    One descriptor, one signature.
    """
    from checker import api
    from checker.describe import descriptor, lines

    source = _load(file, isa, api)
    found = [descriptor(source.text, isa=isa, kernel=name, file=source.file)
             for name in source.pick(kernel)]
    if as_json:
        _print_json({"kernels": [{"file": source.file, **one} for one in found]})
        return
    print("\n\n".join("\n".join(lines(one)) for one in found))


@guarded()
def coverage(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, folders, manifests, globs.")
    ],
    kernel: Kernel = None, isa: Isa = None, as_json: Json = False,
) -> None:
    """Count modelled and opaque instructions by opcode."""
    from checker import api

    read = sources.read(paths, kernels_in=api.kernels_in)
    errors = [(error.name, error.message) for error in read.errors]
    total: dict[str, list[int]] = {}
    kernels = 0
    for source in read.kernels:
        one = source.input
        if kernel is not None and kernel not in (one.kernel, source.entry):
            continue
        try:
            counts = api.coverage(
                one.text, isa=one.isa or isa, kernel=one.kernel, file=source.file
            )
        except SamebitsError as error:
            errors.append((source.file, str(error)))
            continue
        kernels += 1
        for opcode, (modelled, opaque) in counts.items():
            row = total.setdefault(opcode, [0, 0])
            row[0] += modelled
            row[1] += opaque
    if not kernels and not errors:
        raise UsageError(f"no kernel found under {', '.join(paths)}")
    rows = sorted(total.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    if as_json:
        _print_json({
            "kernels": kernels,
            "modelled": sum(row[0] for row in total.values()),
            "opaque": sum(row[1] for row in total.values()),
            "opcodes": {name: {"modelled": row[0], "opaque": row[1]} for name, row in rows},
            "errors": [{"file": name, "message": message} for name, message in errors],
        })
    elif kernels:
        _print_coverage(rows, kernels)
    for _, message in errors:
        print(message, file=sys.stderr)
    raise typer.Exit(UNREADABLE if errors else EQUAL)


def _print_coverage(rows: Sequence[tuple[str, list[int]]], kernels: int) -> None:
    from rich.console import Console

    modelled = sum(row[0] for _, row in rows)
    opaque = sum(row[1] for _, row in rows)
    console = Console(highlight=False)
    share = 100 * modelled / max(1, modelled + opaque)
    kinds = sum(1 for _, row in rows if row[1])
    note = f"  {modelled} of {modelled + opaque} instructions in {kernels} kernels"
    left = f"; opaque opcodes: {kinds}" if kinds else "; nothing is opaque"
    console.print(Text.assemble((f"{share:.2f} % modelled", "bold"), (note + left, "dim")))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("opcode", overflow="fold")
    table.add_column("modelled", justify="right", no_wrap=True, min_width=len("modelled"))
    table.add_column("opaque", justify="right", no_wrap=True, min_width=len("opaque"))
    for name, (good, bad) in rows:
        table.add_row(Text(name), str(good), Text(str(bad), "yellow" if bad else "dim"))
    console.print(table)
