"""samebits: whether two compiled GPU kernels return the same bits, from their assembly alone."""

from checker.api import compare, kernels_in, partition, sign
from checker.errors import Diagnostic, InputError, LaunchError, SamebitsError, Span, UsageError
from checker.launch import Launch
from checker.results import (
    CHECKER_VERSION,
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
