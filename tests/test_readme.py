"""Every console example in README.md and docs/ runs and prints what the text shows.

A fenced block `console` holds lines `$ command`; the lines after it must appear in the output in
that order. `...` on a line of its own skips; inside a line it stands for anything. `$ echo $?`
checks the exit status of the command before it. Commands run in the repository's root.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _blocks() -> list[tuple[str, str]]:
    out = []
    for path in DOCUMENTS:
        for number, hit in enumerate(_BLOCK.finditer(path.read_text()), 1):
            out.append((f"{path.relative_to(ROOT)}#{number}", hit.group(1)))
    return out


def _steps(block: str) -> list[tuple[str, list[str]]]:
    steps: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif line.strip():
            steps[-1][1].append(line)
    return steps


def _environment(tmp: Path) -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"], "COLUMNS": "100",
            "NO_COLOR": "1", "TERM": "dumb", "XDG_CACHE_HOME": str(tmp / "cache"),
            "TMPDIR": str(tmp)}


def _pattern(line: str) -> re.Pattern[str]:
    words = [r"\s+".join(re.escape(w) for w in part.split()) for part in line.split("...")]
    return re.compile(r".*?".join(words))


@pytest.mark.parametrize(("where", "block"), _blocks(), ids=[w for w, _ in _blocks()])
def test_console_example(where: str, block: str, tmp_path: Path) -> None:
    status = 0
    for command, expected in _steps(block):
        if command == "echo $?":
            assert expected == [str(status)], where
            continue
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True,
                              env=_environment(tmp_path), timeout=120, check=False)
        status = done.returncode
        output = done.stdout + done.stderr
        at = 0
        for line in expected:
            if line.strip() == "...":
                continue
            hit = _pattern(line.strip()).search(output, at)
            assert hit, f"{where}: {shlex.quote(command)} does not print {line!r}:\n{output}"
            at = hit.end()


def test_readme_has_the_commands_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text()
    for marker in ("main-job", "tests"):
        assert re.search(rf"<!-- {marker} -->\n```sh\n\S.*\n```", text), marker
