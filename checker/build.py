"""Which checker gave an answer: its version and a digest of its code, equal on every machine.

Out: `build()`, such as `0.1.0+1f2e3d4c5b6a`. An answer that is kept, on disk or by the service, is
used only by the build that gave it. Contents count, not times: packagers set those alike.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import grammars
from checker.results import CHECKER_VERSION

__all__ = ["build"]

_SUFFIXES = frozenset({".py", ".lark", ".json", ".npz", ".xz", ".csv", ".txt", ".bin"})


@functools.cache
def build() -> str:
    """The version with a digest over the relative names and contents of the checker's files."""
    digest = hashlib.sha256()
    for root in (Path(__file__).parent, Path(str(grammars.__file__)).parent):
        for path in sorted(root.rglob("*")):
            if path.suffix in _SUFFIXES:
                name = path.relative_to(root.parent).as_posix()
                digest.update(f"{name}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{CHECKER_VERSION}+{digest.hexdigest()[:12]}"
