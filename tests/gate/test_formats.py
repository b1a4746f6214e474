"""Each report against its schema, with every kind of result in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.gate.schemas import SARIF, check_junit

Run = Callable[..., Any]
Write = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("toy")


def kernel(name: str, body: str) -> str:
    return f".target sm_90\n.entry {name}\n{body}\n"


@pytest.fixture
def everything(run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose state against its baseline holds each kind of result."""
    monkeypatch.chdir(tmp_path)
    for name in ("same", "drift", "opaque", "race", "gone", "excused"):
        write(f"k/{name}.ptx", kernel(name, "load x\nfold 32\nstore y"))
    assert run("gate", "update", "k").exit_code == 0
    write("k/drift.ptx", kernel("drift", "load x\nfold 64 % <&>\nstore y"))
    write("k/opaque.ptx", kernel("opaque", "load x\nopaque tcgen05.mma,x"))
    write("k/race.ptx", kernel("race", "load x\nfold 32\nrace"))
    write("k/excused.ptx", kernel("excused", "load x\nfold 8"))
    write("k/fresh.ptx", kernel("fresh", "load x"))
    write("k/bad name, 100%.ptx", kernel("bad", "?!"))
    (tmp_path / "k/gone.ptx").unlink()
    write("samebits.suppress.toml", '[[suppress]]\nkernel = "excused"\nreason = "agreed | #7"\n'
          "expires = 2999-01-01\n")
    return tmp_path


def test_text(run: Run, everything: Path) -> None:
    result = run("gate", "check", "k")
    assert result.exit_code == 3
    head = result.stdout.splitlines()[0]
    assert head.startswith("unreadable input  1 unchanged, 1 drift, 1 coverage drift, 1 finding, ")
    assert "drift  drift sm_90  k/drift.ptx:4" in result.stdout
    assert "- fold 32  @4" in result.stdout
    assert "+ fold 64 % <&>  @4" in result.stdout
    assert "suppressed  excused sm_90  agreed | #7, until 2999-01-01" in result.stdout
    assert "vanished  gone sm_90  samebits.lock:" in result.stdout
    assert "k/bad name, 100%.ptx:3:1: unexpected `?!`" in result.stderr


def test_json(run: Run, everything: Path) -> None:
    data = json.loads(run("gate", "check", "k", "--json").stdout)
    schema = json.loads((ROOT / "docs" / "gate-report.schema.json").read_text())
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(data)
    assert data["counts"] == {
        "same": 1, "signature": 2, "coverage": 1, "finding": 1, "checker": 0, "new": 1,
        "missing": 1,
    }
    by_name = {row["kernel"]: row for row in data["results"]}
    assert by_name["drift"]["difference"]["tree"] == [
        "  load x  @3", "- fold 32  @4", "+ fold 64 % <&>  @4",
    ]
    assert by_name["excused"]["drifted"] is False


def test_sarif(run: Run, everything: Path) -> None:
    data = json.loads(run("gate", "check", "k", "--format", "sarif").stdout)
    jsonschema_rs.validator_for(SARIF, validate_formats=True).validate(data)
    results = data["runs"][0]["results"]
    rules = [rule["id"] for rule in data["runs"][0]["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in results)
    places = {
        r["ruleId"]: r["locations"][0]["physicalLocation"] for r in results
        if "suppressions" not in r
    }
    assert places["samebits/signature"] == {
        "artifactLocation": {"uri": "k/drift.ptx", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 4},
    }
    unreadable = places["samebits/unreadable"]["artifactLocation"]["uri"]
    assert unreadable == "k/bad%20name%2C%20100%25.ptx"
    assert places["samebits/missing"]["artifactLocation"]["uri"] == "samebits.lock"
    assert [r["suppressions"][0]["justification"] for r in results if "suppressions" in r] == [
        "agreed | #7 (until 2999-01-01)"
    ]
    broken = {**data, "extra": 1}
    assert not jsonschema_rs.validator_for(SARIF).is_valid(broken)


def test_junit(run: Run, everything: Path) -> None:
    root = check_junit(run("gate", "check", "k", "--format", "junit").stdout)
    assert root.attrib["failures"] == "5"
    assert root.attrib["errors"] == "1"
    assert root.attrib["skipped"] == "1"
    failure = root.find(".//testcase[@classname='drift']/failure")
    assert failure is not None
    assert failure.text is not None
    assert "+ fold 64 % <&>" in failure.text


def test_github_annotations_and_step_summary(
    run: Run, everything: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = everything / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    lines = run("gate", "check", "k", "--format", "github").stdout.splitlines()
    command = re.compile(r"^::(error|warning|notice) (\w+=[^,:\n]*)(,\w+=[^,:\n]*)*::[^\n]*$")
    assert len(lines) == 7
    assert all(command.match(line) for line in lines)
    drift = next(line for line in lines if "k/drift.ptx" in line)
    assert drift.startswith("::error file=k/drift.ptx,line=4,title=signature%3A drift sm_90::")
    assert "fold 64 %25 <&>" in drift
    assert "%0A" in drift
    text = summary.read_text()
    assert text.startswith("### samebits: unreadable input")
    assert "| signature | drift |" in text
    assert "```diff" in text


def test_reports_in_files_beside_the_text(run: Run, everything: Path) -> None:
    result = run("gate", "check", "k", "--report", "junit=out.xml", "--report", "sarif=out.sarif")
    assert result.exit_code == 3
    check_junit((everything / "out.xml").read_text())
    json.loads((everything / "out.sarif").read_text())
    assert run("gate", "check", "k", "--report", "pdf=x").exit_code == 2
    assert run("gate", "check", "k", "--report", "junit").exit_code == 2
