"""How answers look in a terminal: the verdict first, then why, one fact a line.

In: result records. Out: `rich` text on standard output. Lines are never wrapped, so places stay
clickable and output can be piped; colour appears on terminals only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from checker import premises
from checker.errors import Span
from checker.results import Opaque, Reason, Signature, Verdict, Witness
from checker.syntax import SourceLoc

__all__ = ["COLOURS", "Lines", "place", "signature_lines", "verdict_lines"]

COLOURS = {"equal": "bold green", "unequal": "bold red", "unproved": "bold yellow"}
_MEANING = {
    ("equal", "static"): "the same bits for every input, at every launch",
    ("equal", "launch"): "the same bits for every input, at this launch",
    ("equal", "text"): "the same text but for names, comments and debug lines",
    ("unequal", "witness"): "here is an input on which the bytes differ",
    ("unproved", ""): "neither equality nor a difference is proved",
}
PLACES = 2  # places shown of one reason, on each side
CODE = 120  # characters shown of a line of code
SOURCES = frozenset({".py", ".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp", ".hip", ".cl"})
SHOWN = 6  # reasons or opaque constructs shown in full; `--json` has all of them


class Lines:
    """Collects lines of styled text and prints them unwrapped."""

    def __init__(self) -> None:
        self.lines: list[Text] = []

    def add(self, *parts: str | tuple[str, str]) -> None:
        """Add one line made of plain strings and (text, style) pairs."""
        self.lines.append(Text.assemble(*parts))

    def extend(self, lines: Iterable[Text]) -> None:
        """Add lines made elsewhere."""
        self.lines.extend(lines)

    def print(self) -> None:
        """Print everything."""
        console = Console(highlight=False)
        for line in self.lines:
            console.print(line, soft_wrap=True)


def place(file: str, line: int | None, loc: SourceLoc | None) -> str:
    """`file:line`, and the place in the kernel's own source where it is known."""
    where = f"{file}:{line}" if line else file
    return f"{where} ({loc.file}:{loc.line}:{loc.col})" if loc else where


def verdict_lines(
    verdict: Verdict, file_a: str, file_b: str, texts: tuple[str, str] = ("", ""),
    more: Iterable[Text] = (),
) -> list[Text]:
    """The whole answer for a pair.

    texts: of both files, for the lines that reasons point at. more: what follows the reasons.
    """
    out = Lines()
    meaning = _MEANING.get((verdict.kind, verdict.basis), "")
    basis = f" ({verdict.basis})" if verdict.basis else ""
    said = (f"  {meaning}" if meaning else "", "dim")
    out.add((verdict.kind, COLOURS[verdict.kind]), basis, said)
    width = max(len(verdict.signature_a.kernel), len(verdict.signature_b.kernel))
    for side, signature, file in (
        ("a", verdict.signature_a, file_a), ("b", verdict.signature_b, file_b),
    ):
        out.add(
            f"  {side}  {signature.kernel:<{width}}  ", (signature.text, "cyan"),
            f"  {signature.target}  ", (file, "dim"),
        )
    if verdict.witness is not None:
        out.add(("witness", "bold"))
        out.add("  " + _witness(verdict.witness))
    if verdict.reasons:
        out.add(("reasons", "bold"))
        out.extend(_reasons(verdict.reasons, file_a, file_b, texts))
    out.extend(more)
    if verdict.premises:
        out.add(("premises", "bold"))
        out.extend(_premises(verdict.premises))
    return out.lines


def _witness(witness: Witness) -> str:
    moved = sum(map(len, witness.inputs.values()))
    digits = max(len(f"{witness.bits_a:x}"), len(f"{witness.bits_b:x}"))
    return (
        f"{witness.buffer}[{witness.element}] as {witness.dtype}: "
        f"0x{witness.bits_a:0{digits}x} against 0x{witness.bits_b:0{digits}x}"
        f"  (seed {witness.seed}, {witness.kind} inputs"
        + (f" but for {moved} elements)" if moved else ")")
    )


def _reasons(
    reasons: Sequence[Reason], file_a: str, file_b: str, texts: tuple[str, str],
) -> list[Text]:
    """Each message once, with the first places where it holds on either side."""
    grouped: dict[tuple[str, str], list[Reason]] = {}
    for reason in reasons:
        grouped.setdefault((reason.code, reason.message), []).append(reason)
    out = Lines()
    for (code, message), same in list(grouped.items())[:SHOWN]:
        more = f"  ({len(same)} places)" if len(same) > 1 else ""
        out.add("  ", (code, "yellow"), f"  {message}", (more, "dim"))
        for side, file, text, places in (
            ("a", file_a, texts[0], [(r.line_a, r.loc_a) for r in same]),
            ("b", file_b, texts[1], [(r.line_b, r.loc_b) for r in same]),
        ):
            known = [(line, loc) for line, loc in places if line is not None or loc is not None]
            for line, loc in known[:PLACES]:
                out.add(f"    {side}  ", (place(file, line, loc), "dim"))
                for code in _code(text, line, loc):
                    out.add(f"         {code}")
    _more(out, len(grouped))
    return out.lines


def _code(text: str, line: int | None, loc: SourceLoc | None) -> Iterable[str]:
    """The line of assembly, and the line of the kernel's source if it lies where `.loc` says."""
    lines = text.splitlines() if line else []
    if line and line <= len(lines) and lines[line - 1].strip():
        yield lines[line - 1].strip()[:CODE]
    path = Path(loc.file) if loc else Path()
    if loc is None or path.suffix not in SOURCES:
        return
    try:
        source = path.read_text(errors="replace").splitlines()
    except (OSError, ValueError):
        return
    if 0 < loc.line <= len(source) and source[loc.line - 1].strip():
        yield f"{path.name}:{loc.line}  {source[loc.line - 1].strip()[:CODE]}"


def _premises(codes: Sequence[str]) -> list[Text]:
    out = Lines()
    width = max(len(code) for code in codes)
    for code in codes:
        out.add("  ", (f"{code:<{width}}", "magenta"), f"  {premises.explain(code)}".rstrip())
    return out.lines


def _more(out: Lines, count: int) -> None:
    if count > SHOWN:
        out.add((f"  … and {count - SHOWN} more (--json lists all)", "dim"))


def signature_lines(signature: Signature, file: str) -> list[Text]:
    """A signature, and what stands against it."""
    out = Lines()
    state, colour = ("modelled", "green") if signature.modelled else ("not modelled", "yellow")
    out.add(
        (signature.text, "cyan"), "  ", (f"{state:<12}", colour), f"  {signature.kernel}"
        f"  {signature.target}  ", (file, "dim"),
    )
    if signature.summary:
        out.add((f"  {signature.summary}", "dim"))
    if signature.nondeterministic:
        out.add("  ", ("nondeterministic", "red"), "  two runs on one input may differ")
    for finding in signature.findings[:SHOWN]:
        where = place(file, finding.line_a, finding.loc_a)
        out.add("  ", (finding.code, "red"), f"  {finding.message}  ", (where, "dim"))
    reaching = [opaque for opaque in signature.opaque if opaque.reaches_output]
    for opaque in reaching[:SHOWN]:
        where = _at(opaque, file)
        out.add("  ", ("opaque", "yellow"), f"  {opaque.text.strip()}  ", (where, "dim"))
    _more(out, len(reaching))
    return out.lines


def _at(opaque: Opaque, file: str) -> str:
    span: Span = opaque.span
    return place(f"{file}:{span.line}", span.col, opaque.loc)
