"""What a caller declares about arguments: `pow2:sa,sw`, and which kernels and launches it fits.

In: declarations as text, a program, launch facts. Out: the program under these assumptions, with
the premise that lists them. An argument is named by its parameter's name, by its buffer's name in
the launch facts, or by its position (`arg3`, from 0). Raises UsageError for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from checker.core import Program
from checker.errors import UsageError
from checker.launch import Buffer, Launch, Scalar, float_bits

__all__ = ["assumed", "contradicted", "positions"]

_FORM = re.compile(r"pow2:([\w.$]+(?:,[\w.$]+)*)")


def assumed(program: Program, declared: Sequence[str]) -> Program:
    """Return the program under what is declared of its arguments."""
    found = frozenset(_position(program, name) for text in declared for name in _names(text))
    if not found:
        return program
    code = "pow2:" + ",".join(f"arg{i}" for i in sorted(found))
    return replace(program, powers_of_two=found, premises=program.premises | {code})


def positions(declared: Iterable[str], launch: Launch | None) -> tuple[str, ...]:
    """Return the declarations with the buffer names of launch facts replaced by positions."""
    table = {} if launch is None else {
        arg.name: f"arg{i}" for i, arg in enumerate(launch.args) if isinstance(arg, Buffer)}
    return tuple("pow2:" + ",".join(table.get(name, name) for name in _names(text))
                 for text in declared)


def contradicted(code: str, launch: Launch) -> str:
    """Why launch facts contradict a premise `pow2:argN,...`, empty where they do not."""
    if not code.startswith("pow2:"):
        return ""
    for name in _names(code):
        index = int(name.removeprefix("arg"))
        arg = launch.args[index] if index < len(launch.args) else None
        if isinstance(arg, Scalar):
            held = [arg.bits] if arg.type in ("f32", "fp32") else [0]
        elif isinstance(arg, Buffer):
            if arg.dtype not in ("f32", "fp32"):
                return f"{name} has elements of {arg.dtype}, not f32"
            held = [float_bits("f32", float(v)) for v in arg.values or ()]
        else:
            return f"{name} is no buffer and no scalar"
        if any(bits & 0x7FFFFF or not 0 < bits < 0x7F800000 for bits in held):
            return f"{name} holds something other than powers of two"
    return ""


def _names(text: str) -> list[str]:
    hit = _FORM.fullmatch(text.replace(" ", ""))
    if hit is None:
        raise UsageError(f"cannot assume `{text}`\n  hint: write pow2:ARGUMENT[,ARGUMENT...], "
                         "as in pow2:sa,sw")
    return hit[1].split(",")


def _position(program: Program, name: str) -> int:
    """The position of the parameter that a name means."""
    for param in program.params:
        if name in (param.name, f"arg{param.index}"):
            if param.size_bytes not in (4, 8):
                raise UsageError(f"cannot assume pow2 of `{name}`: it is neither a pointer nor a "
                                 "32-bit number")
            return param.index
    known = ", ".join(p.name or f"arg{p.index}" for p in program.params)
    raise UsageError(
        f"cannot assume pow2 of `{name}`: kernel {program.name} has the parameters {known}\n"
        "  hint: give a position (arg0 is the first), or launch facts that name the buffers")
