"""Lower a Module's kernel to the core program both engines run.

In: Module, kernel name. Out: Program. Front ends are loaded when first needed. What no row
understands becomes `opaque`; a kernel name that is not in the module is a UsageError.
"""

from __future__ import annotations

from checker.core import Program
from checker.errors import UsageError
from checker.syntax import Module

__all__ = ["kernel_names", "lower"]


def kernel_names(module: Module) -> tuple[str, ...]:
    """Return the names of the module's entry functions, in text order."""
    return tuple(f.name for f in module.functions
                 if f.is_entry and ".prototype" not in f.attributes)


def lower(module: Module, kernel: str | None = None, *, file: str = "<text>") -> Program:
    """Return the Program of one kernel; `kernel` may be left out when there is only one.

    Raises UsageError for a missing or unknown kernel name, InputError for text that no assembler
    would accept (an undefined label, say).
    """
    names = kernel_names(module)
    if not names:
        raise UsageError(f"{file}: the text has no kernel (entry function)")
    if kernel is None:
        if len(names) > 1:
            raise UsageError(f"{file}: the text has {len(names)} kernels, name one: "
                             + ", ".join(names[:20]))
        kernel = names[0]
    elif kernel not in names:
        raise UsageError(f"{file}: no kernel {kernel!r}; the text has: {', '.join(names[:20])}")
    if module.isa == "ptx":
        from checker.ptx.lower import lower_ptx
        return lower_ptx(module, kernel, file=file)
    from checker.gcn.lower import lower_gcn
    return lower_gcn(module, kernel, file=file)
