"""Reports for machines: JSON, JUnit XML, SARIF 2.1.0, GitHub annotations and step summary.

In: a `Report`, and what was found about each drift. Out: text. Every format carries every result
that is not `same`, its place where one is known, and suppressions with their reasons.
"""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checker.gate.check import Report, Result
from checker.gate.trees import Difference
from checker.results import CHECKER_VERSION

__all__ = ["FORMATS", "Place", "github", "junit", "place_of", "sarif", "step_summary", "to_json"]

FORMATS = ("text", "json", "junit", "sarif", "github")
#: kind -> (rule name, severity, what it means)
RULES: Mapping[str, tuple[str, str, str]] = {
    "signature": ("SignatureDrift", "error", "A kernel rounds in another way than the baseline."),
    "coverage": ("CoverageDrift", "error", "Something in a kernel is newly not modelled."),
    "finding": ("NewFinding", "error", "A kernel newly has a race or is nondeterministic."),
    "checker": ("CheckerDrift", "warning", "The checker changed, so signatures do not compare."),
    "new": ("NewKernel", "error", "A kernel is not in the baseline."),
    "missing": ("MissingKernel", "error", "A kernel of the baseline is gone."),
    "unreadable": ("Unreadable", "error", "An input could not be read."),
}
Differences = Mapping[int, Difference]  # by the result's index in the report


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: a file as the caller named it, and a line."""

    file: str
    line: int


def place_of(result: Result, difference: Difference | None, baseline: str) -> Place:
    """Where a result points: the first difference, the kernel's entry, or the baseline's block."""
    if result.now is None:
        return Place(baseline, max(1, result.before.line if result.before else 1))
    source = result.now.source
    if difference is not None:
        for reason in difference.reasons:
            if reason.line_b:
                return Place(source.file, reason.line_b)
    if result.kind in ("coverage", "finding"):
        spans = [o.span.line for o in result.now.signature.opaque if o.reaches_output]
        lines = [f.line_a for f in result.now.signature.findings if f.line_a]
        found = lines if result.kind == "finding" else spans
        if found:
            return Place(source.file, found[0])
    return Place(source.file, source.line)


def _rows(
    report: Report, differences: Differences, baseline: str
) -> Iterator[tuple[Result, Difference | None, Place]]:
    """Each result with its first difference and its place."""
    for index, result in enumerate(report.results):
        difference = differences.get(index)
        yield result, difference, place_of(result, difference, baseline)


def to_json(report: Report, differences: Differences, baseline: str) -> dict[str, Any]:
    """The whole report as plain data (schema: docs/gate-report.schema.json)."""
    rows = []
    for result, difference, place in _rows(report, differences, baseline):
        rows.append({
            "kind": result.kind, "drifted": result.drifted, "kernel": result.key.kernel,
            "config": result.key.config, "target": result.key.target, "message": result.message,
            "details": list(result.details), "file": place.file, "line": place.line,
            "signature_before": result.before.signature if result.before else None,
            "signature_now": result.now.entry.signature if result.now else None,
            "suppressed": _suppressed(result),
            "difference": asdict(difference) if difference else None,
        })
    return {
        "schema": 1, "status": report.status, "checker": CHECKER_VERSION, "baseline": baseline,
        "baseline_checker": report.baseline_checker,
        "counts": {kind: sum(r.kind == kind for r in report.results) for kind in _kinds()},
        "results": rows, "errors": [asdict(error) for error in report.errors],
        "notes": list(report.notes),
    }


def _kinds() -> list[str]:
    return ["same", *(kind for kind in RULES if kind != "unreadable")]


def _suppressed(result: Result) -> dict[str, str] | None:
    one = result.suppressed
    return None if one is None else {"reason": one.reason, "expires": one.expires.isoformat()}


def _text(result: Result, difference: Difference | None) -> str:
    """Message, details and the first difference of the trees, as plain lines."""
    lines = [result.message, *result.details]
    if difference is not None:
        for reason in difference.reasons[:3]:
            sides = [
                f"{side} {file}:{line}" for side, file, line in (
                    ("before", difference.file_before, reason.line_a),
                    ("now", difference.file_now, reason.line_b),
                ) if line
            ]
            lines.append(f"{reason.code}: {reason.message}" + "".join(f"; {s}" for s in sides))
        lines += difference.tree
        if difference.note:
            lines.append(difference.note)
    return "\n".join(lines)


def junit(report: Report, differences: Differences, baseline: str) -> str:
    """JUnit XML: one test case a kernel and configuration, one error an unreadable input."""
    cases, failures, skipped = [], 0, 0
    for result, difference, place in _rows(report, differences, baseline):
        name = " ".join(part for part in (result.key.config, result.key.target) if part)
        case = ET.Element("testcase", {
            "classname": _xml(result.key.kernel), "name": _xml(name or result.key.kernel),
            "file": _xml(place.file), "line": str(place.line), "time": "0",
        })
        body = _xml(_text(result, difference))
        if result.drifted:
            failures += 1
            failure = ET.SubElement(case, "failure", {
                "message": _xml(result.message), "type": RULES[result.kind][0],
            })
            failure.text = body
        elif result.suppressed is not None:
            skipped += 1
            reason = f"{result.suppressed.reason} (until {result.suppressed.expires})"
            ET.SubElement(case, "skipped", {"message": _xml(reason)})
        cases.append(case)
    for error in report.errors:
        case = ET.Element("testcase", {
            "classname": "input", "name": _xml(error.name), "file": _xml(error.name), "line": "1",
            "time": "0",
        })
        first = error.message.splitlines()[0] if error.message else "unreadable"
        node = ET.SubElement(case, "error", {"message": _xml(first), "type": "Unreadable"})
        node.text = _xml(error.message)
        cases.append(case)
    counts = {
        "tests": str(len(cases)), "failures": str(failures), "errors": str(len(report.errors)),
        "skipped": str(skipped), "time": "0",
    }
    root = ET.Element("testsuites", {"name": "samebits gate", **counts})
    ET.SubElement(root, "testsuite", {"name": "samebits gate", **counts}).extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Drop the characters that XML 1.0 cannot hold."""
    return "".join(c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff"
                                                     and c not in "\ufffe\uffff"))


def sarif(report: Report, differences: Differences, baseline: str) -> str:
    """SARIF 2.1.0: one result a drift, with its place and a fingerprint that lines do not move."""
    rows = []
    for result, difference, place in _rows(report, differences, baseline):
        if result.kind == "same":
            continue
        message = f"{result.key}: {_text(result, difference)}"
        row = _sarif_result(result.kind, message, place, str(result.key))
        if result.suppressed is not None:
            row["suppressions"] = [{
                "kind": "external", "status": "accepted",
                "justification": f"{result.suppressed.reason} (until {result.suppressed.expires})",
            }]
        rows.append(row)
    for error in report.errors:
        place = Place(error.name, 1)
        rows.append(_sarif_result("unreadable", error.message, place, error.name))
    rules = [
        {
            "id": f"samebits/{kind}", "name": name, "shortDescription": {"text": meaning},
            "defaultConfiguration": {"level": level},
        }
        for kind, (name, level, meaning) in RULES.items()
    ]
    run = {
        "tool": {"driver": {
            "name": "samebits", "version": CHECKER_VERSION, "semanticVersion": CHECKER_VERSION,
            "rules": rules,
        }},
        "columnKind": "unicodeCodePoints",
        "invocations": [{
            "executionSuccessful": not report.errors, "exitCode": report.status,
        }],
        "results": rows,
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_result(kind: str, message: str, place: Place, identity: str) -> dict[str, Any]:
    digest = hashlib.blake2b(f"{kind} {identity}".encode(), digest_size=16).hexdigest()
    return {
        "ruleId": f"samebits/{kind}", "ruleIndex": list(RULES).index(kind),
        "level": RULES[kind][1], "message": {"text": message},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": _artifact(place.file), "region": {"startLine": place.line},
            }
        }],
        "partialFingerprints": {"samebitsKernel/v1": digest},
    }


def _artifact(file: str) -> dict[str, str]:
    """A URI: relative to the working folder where it is below it, as CI systems want it."""
    from urllib.parse import quote

    path = Path(file.split(":")[0] if file.split(":")[-1].isdigit() else file)
    if path.is_absolute():
        try:
            path = path.relative_to(Path.cwd())
        except ValueError:
            return {"uri": "file://" + quote(path.as_posix())}
    return {"uri": quote(path.as_posix()), "uriBaseId": "%SRCROOT%"}


def github(report: Report, differences: Differences, baseline: str) -> str:
    """GitHub workflow commands: one annotation a drift."""
    out = []
    for result, difference, place in _rows(report, differences, baseline):
        if result.kind == "same":
            continue
        level = RULES[result.kind][1] if result.suppressed is None else "notice"
        text = _text(result, difference)
        if result.suppressed is not None:
            text = f"suppressed: {result.suppressed.reason}\n{text}"
        out.append(_annotation(level, place, f"{result.kind}: {result.key}", text))
    for error in report.errors:
        out.append(_annotation("error", Place(error.name, 1), "unreadable", error.message))
    out += [f"::notice title=samebits::{_data(note)}" for note in report.notes]
    return "\n".join(out) + ("\n" if out else "")


def _annotation(level: str, place: Place, title: str, text: str) -> str:
    uri = _artifact(place.file)
    file = Path(place.file).as_posix() if "uriBaseId" not in uri else uri["uri"]
    where = f"file={_property(file)},line={place.line},title={_property(title)}"
    return f"::{level} {where}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def step_summary(report: Report, differences: Differences, baseline: str) -> str:
    """Markdown for GitHub's step summary: the counts, then one row a drift."""
    drifted = [(i, r) for i, r in enumerate(report.results) if r.drifted]
    same = sum(r.kind == "same" for r in report.results)
    verdict = {0: "no drift", 1: "drift", 3: "unreadable input", 4: "no kernel checked"}
    lines = [
        f"### samebits: {verdict.get(report.status, 'failed')}", "",
        f"{same} unchanged, {len(drifted)} drifted, {len(report.errors)} unreadable, "
        f"{sum(r.suppressed is not None for r in report.results)} suppressed, "
        f"against `{baseline}`.", "",
    ]
    if drifted:
        lines += ["| kind | kernel | configuration | target | what |", "|---|---|---|---|---|"]
    for _, r in drifted:
        cells = (r.kind, r.key.kernel, r.key.config, r.key.target, r.message)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    for index, result in drifted:
        difference = differences.get(index)
        if difference is not None and difference.tree:
            lines += ["", f"<details><summary>{_cell(str(result.key))}</summary>", "", "```diff",
                      *difference.tree, "```", "</details>"]
    for error in report.errors:
        lines += ["", f"Unreadable: `{error.name}`", "", "```", error.message, "```"]
    lines += ["", *(f"- {note}" for note in report.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
