"""The files for CI systems, run as far as a machine without those systems can."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
SHIM = """#!{python}
import sys
sys.path.insert(0, {root!r})
import checker
from tests import toy_engine
sys.modules["checker.api"] = checker.api = toy_engine.module()
from checker.cli import main
main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one kernel, its baseline and, on the path, `samebits` on the toy engine."""
    command = tmp_path / "bin" / "samebits"
    command.parent.mkdir()
    command.write_text(SHIM.format(python=sys.executable, root=str(ROOT)))
    command.chmod(0o755)
    put(tmp_path, "fold 32")
    assert run(tmp_path, "samebits gate update kernels").returncode == 0
    return tmp_path


def put(project: Path, body: str) -> None:
    (project / "kernels").mkdir(exist_ok=True)
    (project / "kernels" / "gemm.ptx").write_text(f".target sm_90\n.entry gemm\n{body}\n")


def run(project: Path, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    base = {**os.environ, "PATH": path, "SAMEBITS_CACHE": str(project / "cache.sqlite"),
            "SAMEBITS_JOBS": "0"}
    base.pop("GITHUB_STEP_SUMMARY", None)
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=project, env={**base, **env},
        capture_output=True, text=True, check=False,
    )


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def run_action(project: Path, **inputs: str) -> tuple[int, str, str]:
    """Run the composite action's steps as a runner would: inputs, outputs, summary."""
    action = load("action.yml")
    values = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()}
    unknown = inputs.keys() - values.keys()
    assert not unknown
    values.update(inputs)
    summary, output = project / "summary.md", project / "output"
    status, printed = 0, ""
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        if step.get("if") == "inputs.install != 'false'" and values["install"] == "false":
            continue
        env = {
            key: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: values[m[1]], text)
            for key, text in step.get("env", {}).items()
        }
        assert not any("${{" in text for text in [*env.values(), step["run"]])
        done = run(project, step["run"], GITHUB_STEP_SUMMARY=str(summary),
                   GITHUB_OUTPUT=str(output), GITHUB_ACTION_PATH=str(ROOT), **env)
        status, printed = done.returncode, printed + done.stdout + done.stderr
        if status:
            break
    assert output.read_text().splitlines()[-1] == f"status={status}"
    return status, printed, summary.read_text()


def test_the_action_passes_and_fails_with_annotations(project: Path) -> None:
    status, printed, summary = run_action(project, paths="kernels", install="false")
    assert (status, printed) == (0, "")
    assert "### samebits: no drift" in summary
    put(project, "fold 64")
    status, printed, summary = run_action(
        project, paths="kernels\n", install="false", sarif="out.sarif", junit="out.xml",
        options="--allow-new\n--allow-missing",
    )
    assert status == 1
    assert printed.startswith("::error file=kernels/gemm.ptx,line=3,title=signature%3A gemm sm_90")
    assert "### samebits: drift" in summary
    assert (project / "out.sarif").is_file()
    assert (project / "out.xml").is_file()


def test_the_action_takes_no_commands_from_its_inputs(project: Path) -> None:
    status, _, _ = run_action(
        project, paths='kernels\n$(touch pwned)\n"; touch pwned; "', install="false"
    )
    assert status == 3
    assert not (project / "pwned").exists()


def test_every_input_and_output_of_the_action_is_described() -> None:
    action = load("action.yml")
    assert all(spec["description"] for spec in action["inputs"].values())
    assert action["outputs"]["status"]["value"] == "${{ steps.gate.outputs.status }}"
    assert [step.get("id") for step in action["runs"]["steps"]] == [None, "gate"]


def test_the_example_workflow_uses_the_action_as_it_is() -> None:
    steps = load("docs/ci/github-workflow.yml")["jobs"]["drift"]["steps"]
    (gate,) = [step for step in steps if "samebits@" in step.get("uses", "")]
    assert gate["with"].keys() <= load("action.yml")["inputs"].keys()
    assert gate["id"] == "gate"


def test_the_pre_commit_hook(project: Path) -> None:
    (hook,) = load(".pre-commit-hooks.yaml")
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert re.search(hook["files"], "kernels/gemm.ptx")
    assert re.search(hook["files"], "samebits.lock")
    (repo,) = load("docs/ci/pre-commit-config.yaml")["repos"]
    assert repo["hooks"][0]["id"] == hook["id"]
    command = shlex.join([*shlex.split(hook["entry"]), *repo["hooks"][0]["args"]])
    assert run(project, command).returncode == 0
    put(project, "fold 64")
    assert run(project, command).returncode == 1


def test_the_gitlab_job(project: Path) -> None:
    job = load("docs/ci/gitlab-ci.yml")["samebits"]
    script = [line for line in job["script"] if line.startswith("samebits")]
    put(project, "fold 64")
    assert run(project, "\n".join(script)).returncode == 1
    assert (project / job["artifacts"]["reports"]["junit"]).is_file()
