"""Run the Triton adapter's tests with each supported version of Triton.

    python -m tests.hooks.versions [VERSION...]

Makes one virtual environment a version below `.triton-versions/` (about 700 MB each), installs the
project there, runs `tests/hooks/test_triton.py` and prints one line a version.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

VERSIONS = ("3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pytest", "hypothesis", "jsonschema-rs", "setuptools")


def check(version: str) -> bool:
    """Return True if the adapter's tests pass with this version."""
    folder = ROOT / ".triton-versions" / version
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, f"triton=={version}", *PACKAGES, "-e", str(ROOT)], check=True)
    tests = [str(python), "-m", "pytest", "-q", "tests/hooks/test_triton.py"]
    done = subprocess.run(tests, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]]
    print(f"triton {version}: {'passed' if done.returncode == 0 else 'FAILED'}  {lines[-1]}")
    return done.returncode == 0


def main() -> int:
    """Check the versions named on the command line, or all."""
    results = [check(version) for version in sys.argv[1:] or VERSIONS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
