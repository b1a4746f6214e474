"""Random straight-line kernels, in families: one program, its operations written in many ways.

In: a seed. Out: a `Family`: PTX texts of one element-wise kernel. Each operation has several
spellings; some mean the same, some all but the same (a zero's sign, a NaN, a subnormal, one more
rounding, a sign bit that is read as a number). Which are which is not written down here: the bits
decide. Every thread reads one word of `a`, `b` and `c`, as a float, two halves or an integer, and
writes two words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["ELEMENTS", "OPERATIONS", "THREADS", "Family", "family", "inputs", "single"]

THREADS, ELEMENTS = 128, 8192

#: letters of registers: f32, b32, b16, f64, b64, predicate
_KINDS = {"f": ("%f", "f32"), "r": ("%r", "b32"), "h": ("%h", "b16"), "q": ("%q", "f64"),
          "l": ("%l", "b64"), "p": ("%p", "pred")}

_FLOATS = (0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x40000000, 0xC0000000, 0x3F000000,
           0x3E800000, 0x40400000, 0x3DCCCCCD, 0x3FB8AA3B, 0x7F800000, 0xFF800000, 0x7FC00000,
           0x00800000, 0x80800000, 0x00000001, 0x7F7FFFFF, 0x477FE000, 0x33800000, 0x4B000000,
           0x41200000, 0x5F000000, 0x20000000)
_INTEGERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 24, 31, 32, 255, 256, 0xFFFF, 0x8000, 0x7FFFFFFF,
             0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFF8, 0x00800000, 0x0F0F0F0F, 0x3210)
_HALVES = (0x0000, 0x8000, 0x3C00, 0xBC00, 0x4000, 0x3800, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x0001,
           0x7BFF, 0x1400, 0x4900)


def _operations() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Read the table of spellings: by operation its result, its operands and the spellings.

    {d} is the result, {0} and so on are the operands, {k} and {j} literals; {f0} and the like are
    registers of the spelling's own, by kind.
    """
    out: dict[str, tuple[str, str, tuple[str, ...]]] = {}
    name = ""
    for line in (Path(__file__).parent / "spellings.txt").read_text().split("\n"):
        if line.startswith("    "):
            result, takes, spellings = out[name]
            out[name] = result, takes, (*spellings, line.strip())
        elif line and not line.startswith("#"):
            name, kinds = line.split(": ")
            result, takes = kinds.split(" = ")
            out[name] = result, takes.replace(" ", ""), ()
    return out


OPERATIONS = _operations()


@dataclass(frozen=True, slots=True)
class _Step:
    operation: str
    operands: tuple[str, ...]
    literal: str
    result: str


@dataclass(frozen=True, slots=True)
class Family:
    """Texts of one program; `spelled` names what each writes otherwise than the first.

    kinds: of the two words that a thread writes, "f" (f32) or "r".
    """

    texts: tuple[str, ...]
    spelled: tuple[str, ...]
    kinds: str


def family(seed: str, members: int) -> Family:
    """Return one random program in up to `members` spellings; the first is the plain one."""
    rng = random.Random(seed)
    steps, outputs = _program(rng)
    steps = _used(steps, outputs)
    texts: dict[str, str] = {_listing(steps, outputs, {}): ""}
    for _ in range(members - 1):
        changed = rng.sample(range(len(steps)), min(len(steps), rng.choice((1, 1, 1, 2))))
        spelling = {at: rng.randrange(1, len(OPERATIONS[steps[at].operation][2]))
                    for at in changed}
        named = " & ".join(f"{steps[at].operation}: {OPERATIONS[steps[at].operation][2][which]}"
                           for at, which in sorted(spelling.items()))
        texts.setdefault(_listing(steps, outputs, spelling), named)
    return Family(tuple(texts), tuple(texts.values()), _kinds(outputs))


def single(operation: str) -> Family:
    """Return a program of one operation in every spelling."""
    kind, takes, spellings = OPERATIONS[operation]
    first = [f"%{t}{i % 3}" for i, t in enumerate(takes) if t in "frh"]
    literal = "0f3DCCCCCD" if "k" in takes else "8" if "j" in takes else ""
    step = _Step(operation, tuple(first), literal, f"{_KINDS[kind][0]}3")
    outputs = [(step.result, kind)] * 2
    texts = tuple(_listing([step], outputs, {0: i}) for i in range(len(spellings)))
    return Family(texts, spellings, _kinds(outputs))


def _kinds(outputs: Sequence[tuple[str, str]]) -> str:
    return "".join("r" if kind == "r" else "f" for _reg, kind in outputs)


def inputs(seed: str) -> dict[str, NDArray[np.uint32]]:
    """Return the words of a, b and c: edge values met by edge values, halves, and anything."""
    rng = np.random.default_rng([ord(c) for c in seed])
    halves = np.array(_HALVES, dtype=np.uint32)
    out = {}
    for name in "abc":
        words = rng.integers(0, 1 << 32, ELEMENTS, dtype=np.uint64).astype(np.uint32)
        kind = rng.integers(0, 8, ELEMENTS)
        edge = rng.choice(np.array([*_FLOATS, *_INTEGERS], dtype=np.uint32), ELEMENTS)
        pair = rng.choice(halves, ELEMENTS) | rng.choice(halves, ELEMENTS) << np.uint32(16)
        everyday = rng.standard_normal(ELEMENTS).astype(np.float32)
        small = rng.integers(-300, 300, ELEMENTS).astype(np.int32).view(np.uint32)
        words = np.where(kind < 3, edge, np.where(kind == 3, pair, words))
        words = np.where(kind == 4, everyday.view(np.uint32), words)
        words = np.where(kind == 5, (everyday * 100).view(np.uint32), words)
        out[name] = np.where(kind == 6, small, words)
    return out


def _program(rng: random.Random) -> tuple[list[_Step], list[tuple[str, str]]]:
    """Return steps and the values stored: a few operations, each on what is there already."""
    there = {"f": ["%f0", "%f1", "%f2"], "r": ["%r0", "%r1", "%r2"], "h": ["%h0", "%h1", "%h2"]}
    names = sorted(OPERATIONS)
    if rng.random() < 0.7:  # most programs keep to floats, or to integers and what becomes of them
        whole = rng.random() < 0.3
        names = [n for n in names if (OPERATIONS[n][1].count("r") > 0) == whole]
    steps: list[_Step] = []
    for number in range(3, 3 + rng.choice((2, 3, 3, 4, 5, 6))):
        name = rng.choice(names)
        kind, takes, _spellings = OPERATIONS[name]
        operands = tuple(rng.choice(there[t][-3:] if rng.random() < 0.8 else there[t])
                         for t in takes if t in there)
        literal = f"0f{rng.choice(_FLOATS):08X}" if "k" in takes else \
            str(rng.choice((0, 1, 3, 5, 8, 16, 24, 31, 32, 33))) if "j" in takes else ""
        steps.append(_Step(name, operands, literal, f"{_KINDS[kind][0]}{number}"))
        there[kind].append(steps[-1].result)
    last = steps[-1].result
    other = rng.choice([s.result for s in steps])
    return steps, [(reg, reg[1]) for reg in (last, other)]


def _used(steps: Sequence[_Step], outputs: Sequence[tuple[str, str]]) -> list[_Step]:
    """Return the steps that an output depends on."""
    wanted = {reg for reg, _kind in outputs}
    out: list[_Step] = []
    for step in reversed(steps):
        if step.result in wanted:
            wanted.update(step.operands)
            out.append(step)
    return out[::-1]


def _listing(steps: Sequence[_Step], outputs: Sequence[tuple[str, str]],
             spelling: dict[int, int]) -> str:
    count = dict.fromkeys(_KINDS, 100)
    lines = []
    for at, step in enumerate(steps):
        text = OPERATIONS[step.operation][2][spelling.get(at, 0)]
        local: dict[str, str] = {"d": step.result, "k": step.literal, "j": step.literal}
        for temporary in sorted(set(re.findall(r"{([frhqlp]\d)}", text))):
            count[temporary[0]] += 1
            local[temporary] = f"{_KINDS[temporary[0]][0]}{count[temporary[0]]}"
        lines += [f"{line.strip()};" for line in text.format(*step.operands, **local).split(";")
                  if line.strip()]
    for number, (reg, kind) in enumerate(outputs):
        if kind == "h":
            lines += [f"cvt.f32.f16 %f{98 + number}, {reg};"]
            reg, kind = f"%f{98 + number}", "f"
        lines.append(f"st.global.b32 [%l4+{4 * number}], {reg};")
    body = "\n".join(f"    {line}" for line in lines)
    declared = "\n".join(f"    .reg .{kind} {name}<{200 if kind != 'pred' else 180}>;"
                         for name, kind in _KINDS.values())
    return f"""//
.version 8.5
.target sm_90
.address_size 64
.visible .entry expression(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
.reqntid {THREADS}, 1, 1
{{
{declared}
    ld.param.u64 %l1, [a];
    ld.param.u64 %l2, [b];
    ld.param.u64 %l3, [c];
    ld.param.u64 %l4, [out];
    mov.u32 %r190, %tid.x;
    mov.u32 %r191, %ctaid.x;
    mad.lo.s32 %r192, %r191, {THREADS}, %r190;
    mul.wide.s32 %l5, %r192, 4;
    mul.wide.s32 %l6, %r192, 8;
    add.s64 %l1, %l1, %l5;
    add.s64 %l2, %l2, %l5;
    add.s64 %l3, %l3, %l5;
    add.s64 %l4, %l4, %l6;
    ld.global.b32 %r0, [%l1];
    ld.global.b32 %r1, [%l2];
    ld.global.b32 %r2, [%l3];
    mov.b32 %f0, %r0;
    mov.b32 %f1, %r1;
    mov.b32 %f2, %r2;
    mov.b32 {{%h0, %h1}}, %r0;
    cvt.u16.u32 %h2, %r1;
{body}
    ret;
}}
"""
