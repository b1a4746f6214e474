"""What a caller declares: `pow2:sa,sw` of arguments, `block:128` of a launch; what launches say.

In: declarations as text, a program, launch facts. Out: the program under these assumptions, with
the premise that lists them; why launch facts contradict a premise, declared or not. An argument is
named by its parameter's name, by its buffer's name in the launch facts, or by its position (`arg3`,
from 0). A block size is declared of kernels whose text fixes none. Raises UsageError otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from checker.core import Program
from checker.errors import UsageError
from checker.launch import Argument, Buffer, Launch, Scalar, TensorMapArg, float_bits
from checker.results import Reason

__all__ = [
    "assumed", "block_code", "block_premises", "broken_premises", "contradicted", "multiple",
    "other_premises", "positions", "sized",
]

Block = tuple[int, int, int]

_DIVISIBLE = re.compile(r"divisible:arg(\d+(?:,\d+)*)%(\d+)")
_FORM = re.compile(r"pow2:([\w.$]+(?:,[\w.$]+)*)")
_BLOCK = re.compile(r"block:([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?(?:x([1-9]\d{0,3}))?")


def assumed(program: Program, declared: Sequence[str]) -> Program:
    """Return the program under what is declared of its arguments and of its block."""
    blocks = {block for text in declared if (block := _block(text)) is not None}
    if len(blocks) > 1:
        raise UsageError("cannot assume several block sizes at once\n  hint: write one block:X, "
                         "block:XxY or block:XxYxZ")
    for block in blocks:
        program = _declared(program, block)
    found = frozenset(_position(program, name) for text in declared if _block(text) is None
                      for name in _names(text))
    if not found:
        return program
    code = "pow2:" + ",".join(f"arg{i}" for i in sorted(found))
    return replace(program, powers_of_two=found, premises=program.premises | {code})


def positions(declared: Iterable[str], launch: Launch | None) -> tuple[str, ...]:
    """Return the declarations with the buffer names of launch facts replaced by positions."""
    table = {} if launch is None else {
        arg.name: f"arg{i}" for i, arg in enumerate(launch.args) if isinstance(arg, Buffer)}
    return tuple(text if _block(text) is not None else
                 "pow2:" + ",".join(table.get(name, name) for name in _names(text))
                 for text in declared)


def sized(program: Program, block: Block | None) -> Program | None:
    """Return the program at a block size that its text does not fix; None: none is known.

    block: what the launch facts give. Without them a text that asks for no more than some block
    (`.maxntid`) and never reads its size is taken to be launched with that one.
    """
    if program.block is not None:
        return None
    if block is not None:
        return _at(program, block)
    reads = any(op.name == "special" and str(op.attr).startswith("ntid") for op in program.ops)
    if program.max_block is None or reads:
        return None
    return _at(program, program.max_block)


def contradicted(code: str, launch: Launch) -> str:
    """Why a launch's facts contradict a premise, empty where they do not."""
    block = _block(code)
    if block is not None and launch.block not in (None, block):
        return f"the block is {block_code(launch.block or block).removeprefix('block:')}"
    if code.startswith("pow2:"):
        return _no_power_of_two(code, launch)
    if code == "no-alias":
        return _overlapping(launch)
    if code == "tensor-map":
        nan = any(isinstance(arg, TensorMapArg) and arg.fill_nan for arg in launch.args)
        return "a tensor map fills with NaN" if nan else ""
    for form, why in _CHECKS:
        hit = form.fullmatch(code)
        if hit is not None:
            return why(hit, launch.args)
    return ""


def broken_premises(premises: Iterable[str], *launches: Launch | None) -> list[Reason]:
    """Premises that the launch facts contradict, each launch or two of them (`same-grid`)."""
    broken = []
    codes = sorted(premises)
    known = [launch for launch in launches if launch is not None]
    for code, shapes in (("same-grid", {x.grid for x in known}),
                         ("same-block", {x.block for x in known})):
        if code in codes and len(shapes) > 1:
            broken.append(Reason("premise", f"the launch facts contradict {code}"))
    for launch in known:
        for code in codes:
            why = contradicted(code, launch)
            if why:
                broken.append(Reason("premise", f"the launch facts contradict {code}: {why}"))
    return broken


def block_premises(premises: Iterable[str]) -> set[str]:
    """The block sizes that a kernel was walked at, as premises."""
    return {code for code in premises if code.startswith("block:")}


def other_premises(premises: Iterable[str]) -> set[str]:
    """The premises that both launches must keep: each kernel has a block size of its own."""
    return set(premises) - block_premises(premises)


def multiple(code: str) -> tuple[tuple[int, ...], int] | None:
    """The arguments that a premise `divisible` names, and what divides them; None: another one."""
    hit = _DIVISIBLE.fullmatch(code)
    return (tuple(map(int, hit[1].split(","))), int(hit[2])) if hit else None


def _overlapping(launch: Launch) -> str:
    """Which two buffer arguments share bytes, one of them written; empty where none do."""
    starts: dict[str, tuple[str, int]] = {}
    before: list[tuple[str, int, Buffer]] = []
    for arg in launch.buffers():
        memory, start = starts.get(arg.alias, (arg.name, 0))
        memory, start = starts.setdefault(arg.name, (memory, start + arg.alias_offset))
        for other_memory, other_start, other in before:
            if memory == other_memory and {arg.role, other.role} != {"in"} \
                    and start < other_start + other.size_bytes \
                    and other_start < start + arg.size_bytes:
                return f"{other.name} and {arg.name} overlap"
        before.append((memory, start, arg))
    return ""


def _no_power_of_two(code: str, launch: Launch) -> str:
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


def _no_multiple(hit: re.Match[str], args: Sequence[Argument]) -> str:
    for index in map(int, hit[1].split(",")):
        value = _number(args, index)
        if value is not None and value % int(hit[2]):
            return f"arg{index} is {value}"
    return ""


def _too_long(hit: re.Match[str], args: Sequence[Argument]) -> str:
    size, end = _number(args, int(hit[1])), _number(args, int(hit[3]))
    held = args[int(hit[1])] if int(hit[1]) < len(args) else None
    if hit[2]:
        ends = held.shape[::-1] if isinstance(held, TensorMapArg) else ()
        size = ends[int(hit[2])] if int(hit[2]) < len(ends) else None
    return "" if size is None or end is None or size <= end else f"{size} is more than {end}"


def _filled(hit: re.Match[str], args: Sequence[Argument]) -> str:
    return "the flag is set" if _number(args, int(hit[1])) else ""


def _number(args: Sequence[Argument], index: int) -> int | None:
    """The signed number that an argument is, None where it is none."""
    arg = args[index] if index < len(args) else None
    if not isinstance(arg, Scalar):
        return None
    half = 1 << 8 * arg.size_bytes - 1
    return (arg.bits ^ half) - half


_CHECKS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Sequence[Argument]], str]], ...] = (
    (_DIVISIBLE, _no_multiple),
    (re.compile(r"tensor-ends:arg(\d+)(?:\.size(\d+))?<=arg(\d+)"), _too_long),
    (re.compile(r"tensor-fill:arg(\d+)=0"), _filled),
)


def _block(text: str) -> Block | None:
    """The block size that `block:X`, `block:XxY` or `block:XxYxZ` declares, else None."""
    hit = _BLOCK.fullmatch(text.replace(" ", ""))
    return None if hit is None else (int(hit[1]), int(hit[2] or 1), int(hit[3] or 1))


def block_code(block: Sequence[int]) -> str:
    """The premise that names a block size."""
    return "block:" + "x".join(map(str, block))


def _at(program: Program, block: Block) -> Program:
    return replace(program, block=block, premises=program.premises | {block_code(block)})


def _declared(program: Program, block: Block) -> Program:
    """The program at a declared block size, where its text leaves the size open."""
    said = block_code(block)
    most = program.max_threads
    if program.block not in (None, block):
        raise UsageError(f"cannot assume {said}: the text of {program.name} fixes "
                         f"{block_code(program.block or block)}")
    if most is not None and block[0] * block[1] * block[2] > most:
        raise UsageError(f"cannot assume {said}: {program.name} takes {most} threads at most")
    return program if program.block else _at(program, block)


def _names(text: str) -> list[str]:
    hit = _FORM.fullmatch(text.replace(" ", ""))
    if hit is None:
        raise UsageError(f"cannot assume `{text}`\n  hint: write pow2:ARGUMENT[,ARGUMENT...], "
                         "as in pow2:sa,sw, or a block size, as in block:128 or block:16x16")
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
