"""Lower a Module's kernel to the core program both engines run.

In: Module, kernel name. Out: Program. Front ends are loaded when first needed. What no row
understands becomes `opaque`; a kernel name that is not in the module is a UsageError.
"""

from __future__ import annotations

from checker.core import Program
from checker.errors import Diagnostic, InputError, Span, UsageError
from checker.syntax import Module

__all__ = ["kernel_names", "lower"]

_NO_KERNEL = {"ptx": "a kernel begins with .entry; a library of device functions has none",
              "gcn": "a kernel has an .amdhsa_kernel block"}


def kernel_names(module: Module, *, file: str = "<text>") -> tuple[str, ...]:
    """Return the names of the module's entry functions, in text order.

    Raises InputError where a name has two bodies: no assembler takes that, and which of them a
    question is about would be a guess.
    """
    _refuse_twice(module, file)
    return tuple(f.name for f in module.bodies.values() if f.is_entry)


def _refuse_twice(module: Module, file: str) -> None:
    if module.twice:
        raise InputError([
            Diagnostic(f"`{f.name}` is defined twice in this text", f.span,
                       "cut the text where the second copy begins", file) for f in module.twice])


def lower(module: Module, kernel: str | None = None, *, file: str = "<text>") -> Program:
    """Return the Program of one kernel; `kernel` may be left out when there is only one.

    Raises UsageError for a missing or unknown kernel name, InputError for text without a kernel and
    for text that no assembler would accept (an undefined label, say).
    """
    found = None if kernel is None or module.twice else module.bodies.get(kernel)
    name = found.name if found is not None and found.is_entry else _chosen(module, kernel, file)
    if module.isa == "ptx":
        from checker.ptx.lower import lower_ptx
        return lower_ptx(module, name, file=file)
    from checker.gcn.lower import lower_gcn
    return lower_gcn(module, name, file=file)


def _chosen(module: Module, kernel: str | None, file: str) -> str:
    """Return the name of the only kernel where none is named; refuse any other choice."""
    names = kernel_names(module, file=file)
    if not names:
        raise InputError([Diagnostic("the text has no kernel (entry function)", Span(1, 1),
                                     _NO_KERNEL[module.isa], file)])
    if kernel is not None:
        raise UsageError(f"{file}: no kernel {kernel!r}; the text has: {', '.join(names[:20])}")
    if len(names) > 1:
        raise UsageError(f"{file}: the text has {len(names)} kernels, name one: "
                         + ", ".join(names[:20]))
    return names[0]
