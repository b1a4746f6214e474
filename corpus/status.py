"""The state of samebits, measured: ``python -m corpus.status`` writes ``docs/STATUS.md``.

Runs the truth campaign over a fixed spread of configurations (or reads what a run left,
``--found``) and writes tables by family, totals, what was not modelled and why, versions, and two
plots. Two runs give the same page, milliseconds aside. Exit status 1 on any finding, which the page
then lists.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape

import typer

from checker import CHECKER_VERSION
from corpus.campaigns.tally import Tally, tally, total
from corpus.campaigns.truth import OUT, Found, measure, recall
from corpus.load import truth_about

DOCS = Path(__file__).parents[1] / "docs"

COLUMNS = ("family", "configurations", "classes of bytes", "with witnesses", "static classes",
           "launch classes", "false merges", "equal pairs", "told apart by a witness",
           "with a defect", "proved static", "proved with launch", "not modelled",
           "no map", "bytes reproduced", "ms to sign", "ms a launch")


def cells(row: Tally) -> list[str]:
    """One row of the page's table."""
    share = [f"{100 * n / row.equal_pairs:.1f} %" if row.equal_pairs else "–"
             for n in (row.static_proved, row.launch_proved)]
    tried = row.bytes_right + row.bytes_wrong
    return [row.family, str(row.configs), str(row.bytes_classes), str(row.refined),
            str(row.static_classes), str(row.launch_classes),
            str(row.false_static + row.false_launch), str(row.equal_pairs), str(row.told_apart),
            str(row.defective), *share, str(row.not_modelled), str(row.no_map),
            f"{row.bytes_right} of {tried}" if tried else "–", f"{row.static_ms:.0f}",
            f"{row.launch_ms:.0f}"]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column left, the rest right."""
    line = "| " + " | ".join(header) + " |\n|---|" + "---:|" * (len(header) - 1) + "\n"
    return line + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def kind_of(reason: str) -> str:
    """A reason without its operands: the code, and for an opaque construct its opcode."""
    code, _, rest = reason.partition(": ")
    if code == "opaque":
        words = [word for word in rest.split() if not word.startswith("@")]  # not its guard
        said = re.search(r"\((.+)\)$", rest)
        rest = f"{words[0].split('.')[0].rstrip(';') if words else '?'}" \
            + (f" ({said[1]})" if said else "")
    return re.sub(r"\d+", "N", f"{code}: {rest}" if rest else code)[:110].replace("|", "/")


def why(found: Sequence[Found]) -> list[tuple[str, str, str, str]]:
    """The most frequent reasons for no static signature or no map, with an example."""
    count: Counter[str] = Counter()
    example: dict[str, str] = {}
    families: dict[str, set[str]] = {}
    for f in sorted(found, key=lambda f: f.name):  # workers end in any order
        if f.modelled and all(f.maps):
            continue
        for reason in dict.fromkeys(kind_of(r) for r in f.reasons[:1] or ("unknown",)):
            count[reason] += 1
            example.setdefault(reason, f.name)
            families.setdefault(reason, set()).add(f.family)
    return [(reason, str(n), str(len(families[reason])), example[reason])
            for reason, n in sorted(count.items(), key=lambda item: (-item[1], item[0]))[:25]]


def bars(rows: Sequence[Tally]) -> str:
    """An SVG of classes over classes of bytes, family by family."""
    shown = [r for r in rows if r.bytes_classes]
    height, left, wide = 14, 170, 460
    most = max((r.static_classes / r.bytes_classes for r in shown), default=1.0)
    unit = wide / max(1.0, min(most, 8.0))
    parts = []
    for i, r in enumerate(shown):
        y = 30 + i * height
        parts.append(f'<text x="{left - 6}" y="{y + 9}" text-anchor="end">'
                     f'{escape(r.family)}</text>')
        for value, colour, dy in ((r.static_classes, "#9ab", 0), (r.launch_classes, "#246", 5)):
            ratio = value / r.bytes_classes
            parts.append(f'<rect x="{left}" y="{y + dy}" width="{min(ratio, 8) * unit:.1f}" '
                         f'height="5" fill="{colour}"/>')
    x = left + unit
    bottom = 34 + len(shown) * height
    parts.append(f'<line x1="{x:.1f}" y1="26" x2="{x:.1f}" y2="{bottom}" stroke="#c33"/>')
    title = "classes over classes of bytes (light: static, dark: with launch; red line: exact)"
    return _svg(left + wide + 20, bottom + 10, title, parts)


def scatter(found: Sequence[Found]) -> str:
    """An SVG of milliseconds against lines of assembly, both logarithmic."""
    import math

    left, top, wide, tall = 60, 30, 560, 320
    points = [(f.lines, ms, colour) for f in found
              for ms, colour in ((f.static_ms, "#9ab"), (f.launch_ms, "#246"))
              if f.lines > 0 and ms > 0]
    if not points:
        return _svg(left + wide, top + tall, "no points", [])

    def place(lines: float, ms: float) -> tuple[float, float]:
        return (left + wide * (math.log10(lines) - 1.5) / 3.0,
                top + tall - tall * math.log10(max(ms, 1.0)) / 5.0)

    parts = []
    for decade in (100, 1000, 10000):
        x, _ = place(decade, 1)
        parts.append(f'<text x="{x:.0f}" y="{top + tall + 14}" text-anchor="middle">'
                     f'{decade}</text>')
        parts.append(f'<line x1="{x:.0f}" y1="{top}" x2="{x:.0f}" y2="{top + tall}" '
                     'stroke="#ddd"/>')
    for power in range(6):
        _, y = place(100, 10**power)
        parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{10**power}</text>')
        parts.append(f'<line x1="{left}" y1="{y:.0f}" x2="{left + wide}" y2="{y:.0f}" '
                     'stroke="#ddd"/>')
    for lines, ms, colour in points:
        x, y = place(lines, ms)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>')
    title = "milliseconds against lines of assembly (light: to sign, dark: to replay a launch)"
    return _svg(left + wide + 20, top + tall + 24, title, parts)


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            'font-family="sans-serif" font-size="10">\n<rect width="100%" height="100%" '
            f'fill="white"/>\n<text x="8" y="16" font-size="12">{escape(title)}</text>\n')
    return head + "\n".join(parts) + "\n</svg>\n"


def page(rows: Sequence[Tally], found: Sequence[Found]) -> str:
    """The Markdown page."""
    about, everything = truth_about(), total(rows)
    device = about["device"]
    findings = [f for row in rows for f in row.findings]
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "lark", "xxhash"))
    parts = [
        "# Status\n\nWritten by `python -m corpus.status`; never edited by hand.\n",
        f"samebits {CHECKER_VERSION}, Python {platform.python_version()}, {versions}. Truth: "
        f"{device['name']} (compute capability {device['capability']}, CUDA {device['cuda']} "
        f"driver), {about['triton']} among the producers, {len(about['draws'])} draws at each of "
        "up to three launches. A class of bytes joins all launches and draws; a pair is counted "
        "inside one argument list. *With witnesses*: what `corpus.campaigns.excess` found on "
        "inputs that the draws did not have takes classes apart; a pair that was equal on the "
        "draws and that a witness *told apart* is no equal pair. A kernel *with a defect*, a race "
        "in its text, is equal to nothing and counts in no class.\n",
        "## Totals\n\n" + table(COLUMNS[1:], [cells(everything)[1:]]),
        f"Kernels with no fixed bits (float atomics): {everything.nondeterministic}; answered all "
        f"the same: {sum('nondeterministic but answered' in f for f in findings)}. Texts whose "
        f"bytes moved with the assembler below: {everything.moved_below}.\n",
        "## By family\n\n" + table(COLUMNS, [cells(r) for r in rows]),
        "![over-split by family](status-classes.svg)\n\n![cost against lines](status-cost.svg)\n",
        "## Why not\n\nThe first reason of each configuration without a static signature or "
        "without a map.\n\n" + table(("reason", "configurations", "families", "example"),
                                     why(found)),
        "## Findings\n\n" + ("".join(f"- {f}\n" for f in findings) or "None.\n"),
    ]
    return "\n".join(parts)


def main(
    count: Annotated[int, typer.Option(help="configurations, spread over the families")] = 600,
    workers: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
    found_in: Annotated[Path | None, typer.Option("--found", help="read a run's results")] = None,
    docs: Annotated[Path, typer.Option(help="where the page goes")] = DOCS,
) -> None:
    """Measure and write docs/STATUS.md."""
    if found_in is None:
        measure(count, "", workers, 2, bytes_every=4, out=OUT)
        found_in = OUT
    jobs, found = recall(found_in)
    rows = tally(jobs, found)
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "STATUS.md").write_text(page(rows, found))
    (docs / "status-classes.svg").write_text(bars(rows))
    (docs / "status-cost.svg").write_text(scatter(found))
    findings = sum(len(r.findings) for r in rows)
    print(f"{len(found)} configurations of {len(rows)} families, {findings} findings")
    raise typer.Exit(1 if findings else 0)


if __name__ == "__main__":
    typer.run(main)
