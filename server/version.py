"""Which checker gave an answer: its version and a digest of its code, equal on every machine.

Out: `BUILD`, such as `0.1.0+1f2e3d4c5b6a`. A stored answer is used only by the build that gave it.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import checker
import grammars
from checker.results import CHECKER_VERSION

__all__ = ["build"]

_SUFFIXES = frozenset({".py", ".lark", ".json", ".npz", ".xz", ".csv", ".txt", ".bin"})
_NOT_SIGNING = ("cli", "gate", "hooks", "sources")


@functools.cache
def build() -> str:
    """The version with a digest over the relative names and contents of the checker's files."""
    digest = hashlib.sha256()
    for package in (checker, grammars):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*")):
            inner = path.relative_to(root)
            if path.suffix in _SUFFIXES and inner.parts[0] not in _NOT_SIGNING:
                digest.update(f"{package.__name__}/{inner.as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{CHECKER_VERSION}+{digest.hexdigest()[:12]}"
