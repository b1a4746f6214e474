"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
import sys
sys.path.insert(0, {root!r})
import checker
from tests import toy_engine
module = toy_engine.module()
sys.modules["checker.api"] = checker.api = module
"""

KERNELS = """
    from pathlib import Path
    from types import SimpleNamespace

    def text(body):
        return f".target sm_90\\n.entry gemm\\n{body}\\n"

    def test_text(samebits_gate):
        samebits_gate(text("fold 32"), config={"BLOCK": 32})

    def test_compiled(samebits_gate):
        metadata = SimpleNamespace(name="gemm", num_warps=4, triton_version="3.9.0")
        kernel = SimpleNamespace(asm={"ptx": text("fold 64")}, metadata=metadata)
        samebits_gate(kernel)

    def test_path(samebits_gate, tmp_path):
        path = tmp_path / "x.ptx"
        path.write_text(text("fold 1"))
        samebits_gate(path, name="from-path")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(root=str(ROOT)))
    (tmp_path / "test_kernels.py").write_text(textwrap.dedent(KERNELS))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    plugin = ["-p", "checker.hooks.pytest_plugin", *(["-p", "xdist"] if "-n" in args else [])]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *args]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
           "SAMEBITS_CACHE": str(project / "cache.sqlite"),
           "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, check=False
    )


def test_update_then_check_then_drift(project: Path) -> None:
    result = run(project)
    assert result.returncode == 1
    assert "samebits.lock is missing: run pytest --samebits-update" in result.stdout
    result = run(project, "--samebits-update")
    assert result.returncode == 0
    assert "samebits: samebits.lock written, 3 kernels of this run" in result.stdout
    lock = (project / "samebits.lock").read_text()
    assert "config    BLOCK=32" in lock
    assert "compiler  triton 3.9.0" in lock
    assert "kernel    from-path" in lock
    assert run(project).returncode == 0
    kernels = project / "test_kernels.py"
    kernels.write_text(kernels.read_text().replace("fold 32", "fold 8"))
    result = run(project)
    assert result.returncode == 1
    assert "samebits: signature: gemm BLOCK=32 sm_90" in result.stdout
    assert "if this is meant: pytest --samebits-update" in result.stdout
    assert "2 passed" in result.stdout


def test_workers_hand_their_entries_to_the_controller(project: Path) -> None:
    result = run(project, "--samebits-update", "-n", "2")
    assert result.returncode == 0, result.stdout
    assert "3 kernels of this run" in result.stdout
    assert (project / "samebits.lock").read_text().count("\nkernel ") == 3


def test_an_update_keeps_other_entries_and_writes_nothing_after_a_failure(project: Path) -> None:
    run(project, "--samebits-update")
    lock = project / "samebits.lock"
    before = lock.read_text()
    run(project, "--samebits-update", "-k", "test_text")
    assert lock.read_text() == before
    kernels = project / "test_kernels.py"
    kernels.write_text(kernels.read_text().replace("fold 1", "?!").replace("fold 32", "fold 8"))
    result = run(project, "--samebits-update")
    assert result.returncode == 1
    assert "the baseline was not written" in result.stdout
    assert lock.read_text() == before
