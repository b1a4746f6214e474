"""Parse assembly text of either vendor: text -> Module.

In: a text, optionally its instruction set. Out: `Module`. Refuses (InputError, with every
diagnostic of the text) what is not readable as a whole. Front ends are loaded when first needed.
"""

from __future__ import annotations

import re

from checker.errors import Diagnostic, InputError, Span, UsageError
from checker.syntax import Module

__all__ = ["ISAS", "guess_isa", "parse"]

ISAS = ("ptx", "gcn")
_ALIASES = {"amdgcn": "gcn", "amd": "gcn", "nvidia": "ptx", "nvptx": "ptx"}
_PTX = re.compile(r"^[ \t]*\.(?:version[ \t]+\d|address_size[ \t]|target[ \t]+sm_|visible[ \t]|"
                  r"entry[ \t])", re.MULTILINE)
_GCN = re.compile(r"^[ \t]*(?:\.amdgcn_target|\.amdhsa_|\.amdgpu_|\.amdgcn|s_endpgm\b|s_waitcnt\b|"
                  r"\.hsa_code_object|\.set[ \t])", re.MULTILINE)


def guess_isa(text: str) -> str | None:
    """Return "ptx" or "gcn" from the first directive that only one of them has, else None."""
    ptx, gcn = _PTX.search(text), _GCN.search(text)
    if ptx and gcn:
        return "ptx" if ptx.start() < gcn.start() else "gcn"
    return "ptx" if ptx else "gcn" if gcn else None


def parse(text: str, *, isa: str | None = None, file: str = "<text>") -> Module:
    """Return the Module of an assembly text.

    Raises InputError for a text that cannot be read, UsageError for an unknown `isa`.
    """
    if isa is not None and _ALIASES.get(isa, isa) not in ISAS:
        raise UsageError(f"unknown instruction set {isa!r}; known: {', '.join(ISAS)}")
    chosen = _ALIASES.get(isa, isa) if isa is not None else guess_isa(text)
    if chosen is None:
        empty = not text.strip("\x00 \t\r\n")
        what = "the text is empty" if empty else "this is neither PTX nor AMDGCN assembly"
        hint = "PTX starts with .version and .target, AMDGCN with .amdgcn_target"
        raise InputError([Diagnostic(what, Span(1, 1), hint, file, text[:200].split("\n")[0])])
    if chosen == "ptx":
        from checker.ptx.parser import parse_ptx
        return parse_ptx(text, file)
    from checker.gcn.parser import parse_gcn
    return parse_gcn(text, file)
