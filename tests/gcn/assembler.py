"""LLVM's assembler for AMD targets: Triton's own, which knows all, or an `llvm-mc` that does."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from typing import Any

import pytest

__all__ = ["refused"]


def refused(text: str, target: str, whole: bool = False) -> str:
    """What an assembler has against a text; empty if nothing. Skips where none knows the target.

    whole: halves are named by their registers (`v1`, not `v1.l`), as LLVM does up to version 19.
    """
    triton = _triton()
    if triton is not None:
        try:
            triton.assemble_amdgcn(text, target, "-real-true16" if whole else "")
        except RuntimeError as error:  # which line: on standard error
            return str(error)
        return ""
    known = [p for p in ("llvm-mc", "llvm-mc-19", "llvm-mc-16") if _knows(p, target, whole)]
    if not known:
        pytest.skip(f"not assembled: neither Triton nor an llvm-mc that knows {target} is here")
    done = subprocess.run([known[0], "-triple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-o",
                           "/dev/null"], input=text, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def _triton() -> Any:
    """Triton's compiler for AMD, if it has an assembler."""
    try:
        compiler = importlib.import_module("triton.backends.amd.compiler")
    except ImportError:
        return None
    return compiler if hasattr(compiler, "assemble_amdgcn") else None


def _knows(program: str, target: str, whole: bool) -> bool:
    """Whether an assembler is here, lists a target and, where asked, the names of halves."""
    if shutil.which(program) is None:
        return False
    known = subprocess.run([program, "-triple=amdgcn", "-mcpu=help"], input="",
                           capture_output=True, text=True).stderr
    named = whole or not target.startswith(("gfx11", "gfx12")) or "gfx1250" in known  # as old
    return target in known and named
