"""Terms: float expressions that an engine gives one name return the same bits.

In: random terms of a few operations in every mode (rounding, flushing, `.sat`, `.relu`, NaN modes,
all conversions, comparisons and choices, sign bits) over two leaves and literals. Each is made by
the makers of both engines directly, without a kernel around it, and computed on edge values. Out: a
line of totals; two terms of one name (of the static engine, or of the replay) whose bits differ
make the exit status 1. Names meet across all terms of a run, so that a few thousand say a lot.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from checker.arith.ops import apply
from checker.core import Approx, Compare, Conv, FloatMode
from checker.draws import canonical_nans
from checker.replay.choices import forget_choices
from checker.replay.facts import MNZ
from checker.replay.hashing import key
from checker.replay.intbits import BITS
from checker.replay.integers import int_op, select
from checker.replay.nulls import forget_nulls
from checker.replay.trees import Trees
from checker.replay.values import Hash, V, const, hash_of
from checker.tree.logic import Logic
from checker.tree.nodes import Forest
from checker.tree.poly import constant
from checker.tree.rules import Floats
from checker.tree.values import Value, Values
from checker.walk.ints import Ints
from corpus.campaigns.common import Options, each, keep, say
from corpus.pool import Lost

__all__ = ["Job", "Said", "campaign", "judge", "measure", "recipe"]

WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0 << 48}
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_CONVERSIONS = (
    ("f16", "f32", ""), ("bf16", "f32", ""), ("f32", "f64", ""), ("f16", "f64", ""),
    *(("f32", dst, rnd) for dst in ("f16", "bf16") for rnd in ("rn", "rz", "rm", "rp")),
    ("f64", "f32", "rn"), ("f64", "f32", "rz"), ("f64", "f16", "rn"), ("f32", "tf32", "rna"),
    ("f32", "tf32", "rn"), *((t, t, rnd) for t in ("f32", "f16", "f64")
                             for rnd in ("rni", "rzi", "rmi", "rpi")), ("f32", "f32", ""))
_CONDITIONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
               "nan")
_PER_JOB = 200


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal operand of a type."""

    type: str
    bits: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a term; operands are earlier steps or literals."""

    name: str
    attr: Any
    args: tuple[int | Literal, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Job:
    """A run of terms."""

    seed: str
    count: int = _PER_JOB


@dataclass(frozen=True, slots=True)
class Said:
    """A term by number: its names in both engines, its type, the digest of its bits."""

    number: int
    names: tuple[str, str]
    type: str
    bits: str


@dataclass(frozen=True, slots=True)
class Made:
    """One value: in the static engine, in the replay, and its bits."""

    static: Value
    replayed: V
    bits: NDArray[Any]


# --- values -----------------------------------------------------------------------------------


def _edges(kind: str) -> list[int]:
    """Zeros, numbers around one, ends of the normal and subnormal range, infinities, NaN."""
    man, one, sign = _MANTISSA[kind], _ONE[kind], 1 << (WIDTHS[kind] - 1)
    top = (1 << (WIDTHS[kind] - 1)) - (1 << man)
    plain = [0, 1, (1 << man) - 1, 1 << man, (1 << man) + 1, 1 << (man - 1), one, one - 1, one + 1,
             one + (1 << man), one - (1 << man), one + (1 << man) + (1 << (man - 1)), top - 1,
             top - (1 << man), top, one + (one >> 3), one - (one >> 2)]
    return [*plain, *(x | sign for x in plain), top | 1 << (man - 1)]


def _usual(kind: str) -> list[int]:
    """Literals that identities speak of: zeros, ones, two, a half, infinities."""
    man, one, sign = _MANTISSA[kind], _ONE[kind], 1 << (WIDTHS[kind] - 1)
    infinity = sign - (1 << man)
    return [x | s for x in (0, one, infinity) for s in (0, sign)] + [one + (1 << man),
                                                                     one - (1 << man)]


@lru_cache(maxsize=8)
def _leaf_bits(kind: str, number: int) -> NDArray[Any]:
    """Bits of a leaf [elements]: all pairs of edges over two leaves, then anything."""
    edges = _edges(kind)
    rng = np.random.default_rng([WIDTHS[kind], ord(kind[0]), number])
    at = np.arange(len(edges) ** 2)
    pairs = np.array(edges, dtype=np.uint64)[at % len(edges) if number else at // len(edges)]
    anything = rng.integers(0, 1 << 32, 2048, dtype=np.uint64) << np.uint64(32) | rng.integers(
        0, 1 << 32, 2048, dtype=np.uint64)
    whole = np.concatenate([pairs, anything >> np.uint64(64 - WIDTHS[kind])])
    return np.resize(whole, 4096).astype(f"u{WIDTHS[kind] // 8}")


class Maker:
    """Makes terms in both engines at once; remembers nothing between two runs of terms."""

    def __init__(self) -> None:
        self.forest = Forest(1)
        self.values = Values(self.forest)
        self.logic = Logic(self.values)
        self.floats = Floats(self.values)
        self.ints = Ints(self.values, self.logic)
        self.trees = Trees()
        forget_nulls()
        forget_choices()

    def term(self, steps: Sequence[Step]) -> Made:
        """Return what the last step of a term makes."""
        made: list[Made] = []
        for step in steps:
            args = [made[a] if isinstance(a, int) else self._literal(a) for a in step.args]
            made.append(self._step(step, args))
        return made[-1]

    def _literal(self, literal: Literal) -> Made:
        width = WIDTHS[literal.type]
        return Made(self.forest.literal(width, literal.bits), const(literal.bits, width),
                    np.full(4096, literal.bits, dtype=f"u{width // 8}"))

    def _step(self, step: Step, args: list[Made]) -> Made:
        width = WIDTHS[step.type]
        if step.name == "leaf":
            node = self.forest.make("load", f"{step.type}.{step.attr}", width=width, low=0,
                                    high=(1 << width) - 1)
            return Made(node, Hash(key(f"leaf {step.type} {step.attr}"), MNZ, width),
                        _leaf_bits(step.type, step.attr))
        if step.name == "choose":
            p = self._op("fcmp", step.attr, args[:2], 1)
            return self._select(p, args[2], args[3], width)
        if step.name in ("iand", "ixor"):
            return self._bits(step.name, args[0], step.attr, width)
        return self._op(step.name, step.attr, args, width)

    def _op(self, name: str, attr: Any, args: list[Made], width: int) -> Made:
        nodes = [self.values.node(a.static) for a in args]
        if name == "fcvt":
            static = self.floats.convert(attr, nodes[0])
        elif name == "fcmp":
            static = self.floats.compare(attr, *nodes)
        elif name == "fapprox":
            static = self.floats.approx(attr, nodes)
        else:
            static = self.floats.op(name, attr, nodes)
        bits = apply(name, attr, *(a.bits for a in args))
        replayed = self.trees.float_op(name, attr, [a.replayed for a in args], None, width)
        return Made(static, replayed, bits if width == 1 else bits.astype(f"u{width // 8}"))

    def _select(self, p: Made, a: Made, b: Made, width: int) -> Made:
        return Made(self.values.select(self.values.node(p.static), a.static, b.static, width),
                    select(p.replayed, a.replayed, b.replayed, None),
                    np.where(p.bits, a.bits, b.bits))

    def _bits(self, name: str, a: Made, literal: int, width: int) -> Made:
        word = np.full(4096, literal, dtype=np.uint64)
        return Made(self.ints.op(name, width, (a.static, constant(width, literal))),
                    int_op(name, width, [a.replayed, const(literal, width)], None, width),
                    BITS[name](a.bits.astype(np.uint64), word, width).astype(f"u{width // 8}"))


# --- random terms -----------------------------------------------------------------------------


def recipe(seed: str) -> list[Step]:
    """Return one random term, the same for the same seed."""
    rng = random.Random(seed)
    kind = rng.choice(("f32", "f32", "f32", "f16", "bf16", "f64"))
    steps = [Step("leaf", n, (), kind) for n in range(rng.choice((1, 2)))]
    if kind == "f32" and rng.random() < 0.4:
        half = rng.choice(("f16", "bf16"))
        steps += [Step("leaf", 0, (), half),
                  Step("fcvt", Conv(half, "f32"), (len(steps),), "f32")]
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 5))):
        steps.append(_random_step(rng, steps))
    return steps


def _random_step(rng: random.Random, steps: Sequence[Step]) -> Step:
    there: dict[str, list[int]] = {}
    for at, step in enumerate(steps):
        there.setdefault(step.type, []).append(at)
    kind = rng.choice(sorted(there))

    def value() -> int:
        return rng.choice(there[kind][-3:])

    def operand() -> int | Literal:
        if rng.random() < 0.65:
            return value()
        return Literal(kind, rng.choice(_usual(kind) if rng.random() < 0.7 else _edges(kind)[:-1]))

    def flush() -> str:
        return rng.choice(("keep", "keep", "flush")) if kind in ("f32", "f16") else "keep"

    what = rng.random()
    if what < 0.5:
        name = rng.choice(("fadd", "fadd", "fsub", "fmul", "fmul", "fmin", "fmax", "ffma", "fdiv"))
        args = [value(), operand()]
        rng.shuffle(args)
        args += [operand()] if name == "ffma" else []
        return Step(name, _mode(rng, kind, name, flush()), tuple(args), kind)
    if what < 0.65:
        return Step(rng.choice(("fneg", "fabs")), FloatMode(kind, denorm=flush()), (value(),), kind)
    if what < 0.8:
        conv = _conversion(rng, there)
        return Step("fcvt", conv, (rng.choice(there[conv.src][-3:]),),
                    "f32" if conv.dst == "tf32" else conv.dst)
    if what < 0.92:
        a, b = value(), operand()
        sides = (a, b) if rng.random() < 0.6 else (operand(), value())
        compare = Compare(rng.choice(_CONDITIONS), kind, flush())
        return Step("choose", compare, (a, b, *sides), kind)
    sign = 1 << (WIDTHS[kind] - 1)
    if what < 0.97 or kind != "f32":
        name = rng.choice(("ixor", "iand"))
        return Step(name, sign if name == "ixor" else sign - 1, (value(),), kind)
    fn = rng.choice(("ex2.approx", "lg2.approx", "rcp.approx"))
    return Step("fapprox", Approx(fn, "sm_90", FloatMode(kind, denorm=flush())), (value(),), kind)


def _mode(rng: random.Random, kind: str, name: str, denorm: str) -> FloatMode:
    if name in ("fmin", "fmax"):
        return FloatMode(kind, denorm=denorm, nan="num" if kind == "f64" else rng.choice(
            ("num", "nan")))
    rnd = rng.choice(("rn", "rn", "rn", "rz", "rm", "rp")) if kind in ("f32", "f64") else "rn"
    clamps = rng.random() < 0.15
    return FloatMode(kind, rnd, denorm, saturate=clamps and kind in ("f32", "f16"),
                     relu=clamps and kind == "bf16" and name == "ffma")


def _conversion(rng: random.Random, there: Mapping[str, list[int]]) -> Conv:
    src, dst, rnd = rng.choice([c for c in _CONVERSIONS if c[0] in there])
    denorm, tail = "keep", rng.random()
    if "f32" in (src, dst) and dst != "tf32" and rng.random() < 0.25:
        denorm = "flush" if src == dst else "flush_in" if src == "f32" else "flush_out"
    narrows = src == "f32" and dst in ("f16", "bf16")
    return Conv(src, dst, rnd, denorm, saturate=tail < 0.1 and dst != "tf32",
                satfinite=tail < 0.3 and dst == "tf32", relu=0.1 < tail < 0.25 and narrows)


# --- the campaign -----------------------------------------------------------------------------


def judge(job: Job) -> list[Said]:
    """Make the terms of a job."""
    maker, out = Maker(), []
    for number in range(job.count):
        steps = recipe(f"{job.seed}/{number}")
        made = maker.term(steps)
        kind = steps[-1].type
        name = maker.values.node(made.static).h.tobytes().hex()
        h, _facts = hash_of(made.replayed)
        bits = canonical_nans(kind, made.bits)
        out.append(Said(number, (name, h.reshape(-1)[:2].tobytes().hex()), kind,
                        xxhash.xxh3_64_hexdigest(np.ascontiguousarray(bits).tobytes())))
    return out


def campaign(options: Options) -> int:
    """Run the campaign; return the exit status."""
    jobs = [Job(f"{options.seed}/{n}") for n in range(-(-options.count // _PER_JOB))]
    known: dict[tuple[str, str, str], tuple[str, str]] = {}
    terms = met = merged = lost = 0
    for job, answer in each("terms", judge, jobs, options):
        if isinstance(answer, Lost):
            say(f"lost: {job.seed}: {answer.reason}")
            lost += 1
            continue
        for said in answer:
            terms += 1
            for engine, name in zip(("static", "launch"), said.names, strict=True):
                place = f"{job.seed}/{said.number}"
                bits, first = known.setdefault((engine, said.type, name), (said.bits, place))
                met += first != place
                if bits != said.bits:
                    merged += 1
                    old, new = (shown(recipe(p)) for p in (first, place))
                    keep("terms", f"{place}-{engine}", {"engine": engine, "old": old, "new": new})
                    print(f"MERGED {engine}\n    {old}\n    {new}")
    print(f"terms seed {options.seed}: {terms} terms, {met} met another of their name, "
          f"{merged} MERGED, {lost} lost")
    return 1 if merged or not met else 0


def shown(steps: Sequence[Step]) -> str:
    """Return a term on one line."""
    return "; ".join(f"{at} = {s.name} {s.attr} {s.args} {s.type}" for at, s in enumerate(steps))


def measure(count: int = 20000, seed: int = 1, jobs: int | None = None, seconds: float = 1e9
            ) -> int:
    """The campaign for callers without a command line; returns the exit status."""
    return campaign(Options("ptx", count, seed, "", jobs, 40, seconds))
