"""What one matrix instruction does to bits: which products share one rounding step, and how.

In: `core.Mma`. Out: a `StepModel`, or None where the arithmetic is not known (never merged).
The table is FACTS section 1: MMA-Sim (arXiv 2511.10909, checked by its authors on hardware) and our
own measurements and disassembly on sm_90. `checker.arith.matrix` computes the bits of a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from checker.core import Mma

__all__ = ["StepModel", "step_model"]


@dataclass(frozen=True, slots=True)
class StepModel:
    """The rounding steps of one matrix instruction, for one output element.

    id: names the arithmetic of one step. Two steps with the same id, the same products and the same
        accumulator return the same bits; ids of different arithmetic differ.
    kind: fused (NVIDIA: align, truncate, add), fma (one product a step: `ffma` of acc_type,
        rn, denormals kept), int (exact, wraps), int_sat, exact (CDNA1: exact sum, one rounding),
        pairs (CDNA2: rounded sums of pairs), tr (CDNA3), gtr (CDNA3 fp8: even and odd sub-sums).
    steps: the k indices of each step's products, in the order of the steps.
    symmetric: a step's products may be permuted (False: their places within the step count).
    order_free: whole chains of steps may be permuted and split (exact integers that wrap).
    chain: "carry": the accumulator enters the first step, each result the next step;
        "add": the steps start from +0 and the last result is added to the accumulator by an `fadd`
        of acc_type (rn, denormals kept); "carry" otherwise.
    a_type, b_type: operand types, before `compute`: the type the unit computes with
        (fp8 run as f16; tf32 drops the low 13 bits of each operand register).
    fraction_bits: F, fraction bits kept below the largest exponent (fused, tr, gtr); 0 if exact.
    result_bits: fraction bits of a step's result (23; 13 for fp8; 10 for f16). rounding: rz | rn.
    """

    id: str
    kind: str
    steps: tuple[tuple[int, ...], ...]
    a_type: str
    b_type: str
    acc_type: str
    compute: str
    symmetric: bool = True
    order_free: bool = False
    chain: str = "carry"
    fraction_bits: int = 0
    result_bits: int = 23
    rounding: str = "rz"
    source: str = ""

    @property
    def products(self) -> int:
        """Products of one (full) step."""
        return len(self.steps[0])

    @property
    def keeps_accumulator(self) -> bool:
        """A step whose products are all zero returns its accumulator, whatever it is (-0 aside).

        False for fp8 steps that cut the accumulator to 13 fraction bits: there it holds only for
        an accumulator that is a literal zero or came out of such a step; and for CDNA2, which
        flushes subnormal accumulators.
        """
        if self.kind == "fused":
            return self.result_bits == (10 if self.acc_type == "f16" else 23)
        return self.kind != "pairs"

    @property
    def never_makes_minus_zero(self) -> bool:
        """A step returns -0 at most where its accumulator is -0: other zero results are +0."""
        return self.kind in ("fused", "tr", "gtr")


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table: on `targets`, `unit` with operand types `types`."""

    targets: str
    unit: str
    types: str
    k: str
    products: int
    fraction_bits: int
    result_bits: int
    source: str


_SIM = "MMA-Sim, arXiv 2511.10909; FACTS 1"
_SEEN = "MMA-Sim, arXiv 2511.10909; measured on an H200"
_FP8 = "e4m3 e5m2"
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"

# targets; unit; operand types; k; products a step; F; fraction bits of an f32 result; source
_FUSED = tuple(_Row(*row) for row in (
    ("70", "mma.sync", "f16", "4", 4, 23, 23, _SIM),
    ("75", "mma.sync", "f16", "8", 8, 24, 23, _SIM),
    ("80 86 89", "mma.sync", "f16 bf16", "8 16", 8, 24, 23, _SIM),
    ("80 86 89", "mma.sync", "tf32", "4 8", 4, 24, 23, _SIM),
    ("89", "mma.sync", _FP8, "16 32", 16, 13, 13, _SIM),
    ("90", "mma.sync wgmma", "f16 bf16", "8 16", 16, 25, 23, _SEEN),
    ("90", "mma.sync wgmma", "tf32", "4 8", 8, 25, 23, _SEEN),
    ("90", "wgmma", _FP8, "32", 32, 13, 13, _SEEN),
    ("100 103 120", "mma.sync", "f16 bf16", "8 16", 16, 25, 23, _SIM),
    ("100 103 120", "mma.sync", "tf32", "4 8", 8, 25, 23, _SIM),
    ("90 100 103 120", "wmma", "f16 bf16", "16", 16, 25, 23,
     "as mma.sync k16: the assembler turns it into the same HMMA.16816"),
    ("100 103", "tcgen05", "f16 bf16", "16", 16, 25, 23, _SIM),
    ("100 103", "tcgen05", "tf32", "8", 8, 25, 23, _SIM),
    ("100 103", "tcgen05", _NARROW, "32", 32, 25, 23, _SIM),
    ("120", "mma.sync", _FP8, "16 32", 32, 25, 23, _SIM),
))

# Matrix operands that only say where data lies; any other extra operand makes a model unknown.
_HARMLESS_EXTRA = frozenset({"idesc"})


def step_model(mma: Mma) -> StepModel | None:
    """Return the rounding steps of `mma`, or None where they are not known."""
    if set(mma.extra) - _HARMLESS_EXTRA:
        return None
    if mma.d_type in {"s32", "u32"}:
        return _integer(mma)
    if mma.d_type != mma.c.type or mma.satfinite:
        return None
    nvidia = re.fullmatch(r"sm_(\d+)[af]?", mma.target)
    if nvidia:
        return _nvidia(mma, nvidia[1])
    if mma.unit == "mfma":
        return _cdna(mma)
    return None


def _integer(mma: Mma) -> StepModel | None:
    """Integer steps: exact and order free; `.satfinite` clamps once, at the end of a step."""
    a, b = mma.a.type, mma.b.type
    if not {a, b} <= {"s8", "u8", "s4", "u4"}:
        return None
    whole = (tuple(range(mma.k)),)
    if mma.satfinite:
        # The unit clamps the exact sum of products and accumulator; one instruction, one step. Not
        # known to be the same clamp on every target: the target is part of the id.
        return StepModel(f"int_sat.{a}.{b}.k{mma.k}.{mma.unit}.{mma.target}", "int_sat", whole, a,
                         b, mma.d_type, "int", source="PTX ISA, mma .satfinite")
    return StepModel(f"int.{a}.{b}", "int", whole, a, b, mma.d_type, "int", order_free=True,
                     source="exact modulo 2**32")


def _nvidia(mma: Mma, number: str) -> StepModel | None:
    a, b, acc = mma.a.type, mma.b.type, mma.d_type
    if a == b == acc == "f64" and mma.unit == "mma.sync" and int(number) >= 80:
        return _fma(mma, _SIM)
    if acc not in {"f32", "f16"}:
        return None
    if number in {"90", "100", "103"} and mma.unit == "mma.sync" and _in(a, _FP8) and _in(b, _FP8):
        return _fp8_on_f16(mma)
    for row in _FUSED:
        if number in row.targets.split() and mma.unit in row.unit.split() \
                and _in(a, row.types) and _in(b, row.types) and str(mma.k) in row.k.split():
            return _fused(mma, row)
    return None


def _in(name: str, names: str) -> bool:
    return name in names.split()


def _fused(mma: Mma, row: _Row) -> StepModel | None:
    a, b, acc = mma.a.type, mma.b.type, mma.d_type
    if a != b and not (_in(a, _NARROW) and _in(b, _NARROW)):
        return None
    if acc == "f16" and a in {"bf16", "tf32"}:
        return None
    size = min(row.products, mma.k)
    bits, rounding = (10, "rn") if acc == "f16" else (row.result_bits, "rz")
    return StepModel(
        f"fused.{a}.{b}.{acc}.s{size}.F{row.fraction_bits}.{rounding}{bits}", "fused",
        _blocks(mma.k, size), a, b, acc, a, fraction_bits=row.fraction_bits, result_bits=bits,
        rounding=rounding, source=row.source)


def _fp8_on_f16(mma: Mma) -> StepModel | None:
    """fp8 `mma.sync` where the unit has none (sm_90, sm_100, sm_103): the assembler unpacks to f16.

    ptxas 12.8 to 13.0: the low two bytes of every operand register (k = 0, 1 modulo 4) make the
    first f16 step, which starts from zero, the high two bytes the second; an FADD (HADD2 for an f16
    accumulator) then adds the accumulator.
    """
    a, b, acc = mma.a.type, mma.b.type, mma.d_type
    if mma.k not in {16, 32}:
        return None
    low = tuple(k for k in range(mma.k) if k % 4 < 2)
    high = tuple(k for k in range(mma.k) if k % 4 >= 2)
    bits, rounding = (10, "rn") if acc == "f16" else (23, "rz")
    return StepModel(
        f"fused_f16.{a}.{b}.{acc}.s{len(low)}.F25.{rounding}{bits}", "fused", (low, high), a, b,
        acc, "f16", chain="add", fraction_bits=25, result_bits=bits, rounding=rounding,
        source="disassembly of ptxas 12.8, 12.9, 13.0; measured on an H200")


def _fma(mma: Mma, source: str) -> StepModel:
    kind = mma.d_type
    return StepModel(f"fma.{kind}", "fma", tuple((k,) for k in range(mma.k)), kind, kind, kind,
                     kind, result_bits=52 if kind == "f64" else 23, rounding="rn", source=source)


def _blocks(k: int, size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(low, min(low + size, k))) for low in range(0, k, size))


def _cdna(mma: Mma) -> StepModel | None:
    """CDNA matrix cores: gfx908, gfx90a, gfx940-942 (MMA-Sim, `amd/sim.py`)."""
    a, b, acc = mma.a.type, mma.b.type, mma.d_type
    generation = {"gfx908": 1, "gfx90a": 2, "gfx940": 3, "gfx941": 3, "gfx942": 3}.get(mma.target)
    if generation is None or mma.denorm != "keep":
        return None
    if a == b == acc and acc in {"f32", "f64"}:
        return _fma(mma, _SIM)
    if acc != "f32":
        return None
    fp8 = {"e4m3fnuz", "e5m2fnuz"}
    if generation == 3 and {a, b} <= fp8:
        return _cdna_step(mma, "gtr", min(16, mma.k), 24, symmetric=False)
    if a != b:
        return None
    if generation == 3 and a in {"f16", "bf16", "xf32"}:
        return _cdna_step(mma, "tr", min(4 if a == "xf32" else 8, mma.k), 24)
    if generation == 2 and a in {"f16", "bf16"}:
        size = 2 if a == "bf16" and not _is_1k(mma) else 4
        return _cdna_step(mma, "pairs", size, 0, symmetric=False)
    if generation == 1 and a in {"f16", "bf16"}:
        return _cdna_step(mma, "exact", 4 if a == "f16" else 2, 0)
    return None


def _is_1k(mma: Mma) -> bool:
    """True for the `_1k` forms of CDNA2's bf16 MFMA (4 k a block), known by their shapes."""
    return (mma.m, mma.k, mma.blocks) in {
        (32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1)}


def _cdna_step(mma: Mma, kind: str, size: int, fraction: int, symmetric: bool = True
               ) -> StepModel | None:
    if mma.k % size:
        return None
    a, b = mma.a.type, mma.b.type
    return StepModel(f"{kind}.{a}.{b}.s{size}", kind, _blocks(mma.k, size), a, b, "f32", a,
                     symmetric=symmetric, fraction_bits=fraction, rounding="rn", source=_SIM)
