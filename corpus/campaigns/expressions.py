"""Random straight-line kernels, in families: one program, its operations written in many ways.

In: a seed and an assembly language (`dialects`). Out: a `Family`: texts of one element-wise kernel.
Each operation has several spellings; some mean the same, some all but the same (a zero's sign, a
NaN, a subnormal, one more rounding, a modifier, a sign bit that is read as a number). Which are
which is not written down: the bits decide. Every thread reads one word of `a`, `b` and `c`, as a
float, two halves or an integer, and writes two words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpus.campaigns.dialects import DIALECTS, ELEMENTS, Dialect, Setting

__all__ = ["Family", "family", "inputs", "single"]

_FLOATS = (0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x40000000, 0xC0000000, 0x3F000000,
           0x3E800000, 0x40400000, 0x3DCCCCCD, 0x3FB8AA3B, 0x7F800000, 0xFF800000, 0x7FC00000,
           0x00800000, 0x80800000, 0x00000001, 0x7F7FFFFF, 0x477FE000, 0x33800000, 0x4B000000,
           0x41200000, 0x5F000000, 0x20000000)
_INTEGERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 24, 31, 32, 255, 256, 0xFFFF, 0x8000, 0x7FFFFFFF,
             0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFF8, 0x00800000, 0x0F0F0F0F, 0x3210)
_DOUBLES = (0, 1 << 63, 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FE0000000000000,
            0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x0010000000000000,
            0x7FEFFFFFFFFFFFFF, 0x47EFFFFFF0000000, 0x3810000000000000, 0x36A0000000000000,
            0x41DFFFFFFFC00000, 0x41EFFFFFFFE00000, 0x43E0000000000000, 0xC3E0000000000000,
            0x4340000000000001, 0x3CA0000000000000)
_HALVES = (0x0000, 0x8000, 0x3C00, 0xBC00, 0x4000, 0x3800, 0x7C00, 0xFC00, 0x7E00, 0x0400, 0x0001,
           0x7BFF, 0x1400, 0x4900)


@dataclass(frozen=True, slots=True)
class _Step:
    operation: str
    operands: tuple[str, ...]
    literal: str
    result: str
    kind: str


@dataclass(frozen=True, slots=True)
class Family:
    """Texts of one program; `spelled` names what each writes otherwise than the first.

    kinds: of the two results that a thread writes, "f" (f32), "x" (two halves), "y" (two bf16), "q"
    (f64) or "r".
    """

    texts: tuple[str, ...]
    spelled: tuple[str, ...]
    kinds: str


def family(seed: str, members: int, isa: str = "ptx") -> Family:
    """Return one random program in up to `members` spellings; the first is the plain one."""
    rng = random.Random(seed)
    dialect = DIALECTS[isa]
    setting = dialect.plain
    for _ in range(rng.choice((0, 1, 2)) if isa == "gcn" else 0):
        setting = dialect.other(rng, setting)[1]
    steps, outputs = _program(rng, dialect, setting)
    steps = _used(steps, outputs)
    texts: dict[str, str] = {_listing(dialect, steps, outputs, {}, setting): ""}
    for _ in range(members - 1):
        name, own = "", setting
        if isa == "gcn" and rng.random() < 0.25:
            name, own = dialect.other(rng, setting)
        lists = [dialect.operations()[step.operation].of(dialect.words(own)) for step in steps]
        if not all(lists):
            continue  # the target has no such instruction
        many = [at for at, spellings in enumerate(lists) if len(spellings) > 1]
        count = 0 if name and rng.random() < 0.5 else rng.choice((1, 1, 1, 2))
        changed = rng.sample(many, min(len(many), count))
        spelling = {at: rng.randrange(1, len(lists[at])) for at in changed}
        named = " & ".join([*([name] if name else []), *(
            f"{steps[at].operation}: {lists[at][which]}"
            for at, which in sorted(spelling.items()))])
        texts.setdefault(_listing(dialect, steps, outputs, spelling, own), named)
    return Family(tuple(texts), tuple(texts.values()), _kinds(outputs))


def single(operation: str, isa: str = "ptx", settings: Sequence[Setting] = ()) -> Family:
    """Return a program of one operation in every spelling, in some settings."""
    dialect = DIALECTS[isa]
    found = dialect.operations()[operation]
    first = [dialect.given[t][i % 3] for i, t in enumerate(found.takes) if t in dialect.given]
    literal = dialect.literal("k", 0x3DCCCCCD) if "k" in found.takes else \
        dialect.literal("j", 8) if "j" in found.takes else ""
    texts: dict[str, str] = {}
    for setting in settings or (dialect.plain,):
        step = _Step(operation, tuple(first), literal,
                     dialect.register(found.result, 3, setting), found.result)
        outputs = [(step.result, step.kind)] * 2
        for i, spelling in enumerate(found.of(dialect.words(setting))):
            named = spelling if setting == dialect.plain else f"{setting} {spelling}"
            texts.setdefault(_listing(dialect, [step], outputs, {0: i}, setting), named)
    return Family(tuple(texts), tuple(texts.values()), _kinds(outputs))


def _kinds(outputs: Sequence[tuple[str, str]]) -> str:
    return "".join(kind if kind in "rxyq" else "r" if kind in "sl" else "f"
                   for _reg, kind in outputs)


def inputs(seed: str, doubles: bool = False) -> dict[str, NDArray[np.uint32]]:
    """Return the words of a, b and c: edge values met by edge values, halves, and anything.

    doubles: a third of the pairs of words are edge values of f64, or numbers of everyday size.
    """
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
    for name in out if doubles else ():
        pairs = out[name].view(np.uint64)
        kind = rng.integers(0, 6, len(pairs))
        edge = rng.choice(np.array(_DOUBLES, dtype=np.uint64), len(pairs))
        number = (rng.standard_normal(len(pairs)) * 1e9).view(np.uint64)
        out[name] = np.where(kind == 0, edge, np.where(kind == 1, number, pairs)).view(np.uint32)
    return out


def _program(rng: random.Random, dialect: Dialect, setting: Setting
             ) -> tuple[list[_Step], list[tuple[str, str]]]:
    """Return steps and the values stored: a few operations, each on what is there already."""
    there = {kind: list(registers) for kind, registers in dialect.given.items()}
    operations, words = dialect.operations(), dialect.words(setting)
    names = sorted(n for n, found in operations.items() if found.of(words))
    if rng.random() < 0.7:  # most programs keep to floats, or to integers and what becomes of them
        whole = rng.random() < 0.3
        names = [n for n in names if bool({"r", "s"} & set(operations[n].takes)) == whole]
    steps: list[_Step] = []
    for number in range(3, 3 + rng.choice((2, 3, 3, 4, 5, 6))):
        name = rng.choice(names)
        found = operations[name]
        operands = tuple(rng.choice(there[t][-3:] if rng.random() < 0.8 else there[t])
                         for t in found.takes if t in there)
        literal = dialect.literal("k", rng.choice(_FLOATS)) if "k" in found.takes else \
            dialect.literal("j", rng.choice((0, 1, 3, 5, 8, 16, 24, 31, 32, 33))) \
            if "j" in found.takes else ""
        steps.append(_Step(name, operands, literal,
                           dialect.register(found.result, number, setting), found.result))
        there.setdefault(found.result, []).append(steps[-1].result)
    last = steps[-1]
    other = rng.choice(steps)
    return steps, [(step.result, step.kind) for step in (last, other)]


def _used(steps: Sequence[_Step], outputs: Sequence[tuple[str, str]]) -> list[_Step]:
    """Return the steps that an output depends on."""
    wanted = {reg for reg, _kind in outputs}
    out: list[_Step] = []
    for step in reversed(steps):
        if step.result in wanted:
            wanted.update(step.operands)
            out.append(step)
    return out[::-1]


def _listing(dialect: Dialect, steps: Sequence[_Step], outputs: Sequence[tuple[str, str]],
             spelling: dict[int, int], setting: Setting) -> str:
    count = dict.fromkeys(dialect.own, 100)
    counter = {kind: kinds for kinds in dialect.own for kind in kinds}
    operations, words = dialect.operations(), dialect.words(setting)
    lines: list[str] = []
    for at, step in enumerate(steps):
        text = operations[step.operation].of(words)[spelling.get(at, 0)]
        local: dict[str, str] = {"d": step.result, "w": dialect.beside(step.result),
                                 "k": step.literal, "j": step.literal, **dialect.names(setting)}
        for temporary in sorted(set(re.findall(r"{([a-z]\d)[.}]", text))):
            kinds = counter[temporary[0]]
            count[kinds] += 1
            local[temporary] = dialect.register(temporary[0], count[kinds], setting)
        lines += [line.strip() for line in text.format(*step.operands, **local).split(";")
                  if line.strip()]
    return dialect.text(lines, outputs, setting)
