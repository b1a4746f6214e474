"""samebits: whether two compiled GPU kernels return the same bits, from their assembly alone.

Public names are imported when they are first used, so that `import checker` costs nothing and parts
of the package (`checker.draws`) work where not every dependency is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from checker.results import CHECKER_VERSION

if TYPE_CHECKING:
    from checker.api import compare, kernels_in, partition, sign
    from checker.errors import Diagnostic, InputError, LaunchError, SamebitsError, Span, UsageError
    from checker.launch import Launch
    from checker.results import (
        EqualClass,
        KernelInput,
        Opaque,
        Partition,
        Reason,
        Signature,
        Verdict,
        Witness,
    )

__version__ = CHECKER_VERSION

__all__ = [
    "CHECKER_VERSION", "Diagnostic", "EqualClass", "InputError", "KernelInput", "Launch",
    "LaunchError", "Opaque", "Partition", "Reason", "SamebitsError", "Signature", "Span",
    "UsageError", "Verdict", "Witness", "compare", "kernels_in", "partition", "sign",
]

_HOMES = {
    "checker.api": ("compare", "kernels_in", "partition", "sign"),
    "checker.errors": ("Diagnostic", "InputError", "LaunchError", "SamebitsError", "Span",
                       "UsageError"),
    "checker.launch": ("Launch",),
    "checker.results": ("EqualClass", "KernelInput", "Opaque", "Partition", "Reason", "Signature",
                        "Verdict", "Witness"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module 'checker' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
