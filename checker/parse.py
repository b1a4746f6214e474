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


# What people paste instead, and what to do about it: searched in a text that is no assembly.
_FOREIGN: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), what, hint) for pattern, what, hint in (
        (r"^\s*/\*[0-9a-f]{4,5}\*/\s", "this is SASS, the machine code's listing",
         "give the PTX it was made of: `cuobjdump -ptx FILE`, or Triton's .ptx"),
        (r"^(?:target triple|source_filename|define |; ModuleID)", "this is LLVM IR",
         "compile it to assembly: `llc -mcpu=sm_90` or `llc -mcpu=gfx942`"),
        (r"^\s*(?:tt\.func|module\b.*\{|#\w+ = #(?:ttg|triton_gpu)|llvm\.func)",
         "this is MLIR, an earlier stage of the compiler",
         "give its last stage: Triton's .ptx or .amdgcn beside it"),
        (r"\b__global__\b|^\s*#include\b", "this is CUDA or HIP source",
         "compile it to assembly: `nvcc -ptx -arch=sm_90` or `hipcc -S --offload-device-only`"),
        (r"^\s*(?:__kernel|kernel) void\b", "this is OpenCL source", "compile it to assembly"),
        (r"\A\s*\{\s*\"", "this is JSON", "manifests (.jsonl) and launch facts have places of "
         "their own: `samebits partition FILE.jsonl`, `samebits compare A B --launch FILE.json`"),
    ))


def _unknown(text: str, file: str) -> Diagnostic:
    """Why a text is not read: empty, or what it seems to be instead of assembly."""
    what, hint = ("this is neither PTX nor AMDGCN assembly",
                  "PTX starts with .version and .target, AMDGCN with .amdgcn_target")
    if not text.strip("\x00 \t\r\n"):
        what = "the text is empty"
    else:
        head = text[:1 << 16]
        what, hint = next(((w, h) for form, w, h in _FOREIGN if form.search(head)), (what, hint))
    return Diagnostic(what, Span(1, 1), hint, file, text[:200].split("\n")[0].strip())


def parse(text: str, *, isa: str | None = None, file: str = "<text>") -> Module:
    """Return the Module of an assembly text.

    Raises InputError for a text that cannot be read, UsageError for an unknown `isa`.
    """
    if isa is not None and _ALIASES.get(isa, isa) not in ISAS:
        raise UsageError(f"unknown instruction set {isa!r}; known: {', '.join(ISAS)}")
    text = text.removeprefix("\ufeff")  # a byte order mark that came along
    chosen = _ALIASES.get(isa, isa) if isa is not None else guess_isa(text)
    if chosen is None:
        raise InputError([_unknown(text, file)])
    if chosen == "ptx":
        from checker.ptx.parser import parse_ptx
        return parse_ptx(text, file)
    from checker.gcn.parser import parse_gcn
    return parse_gcn(text, file)
