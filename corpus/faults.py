"""Which checks see a fault in a W8A8 linear layer: ``python -m corpus.faults``.

The committed kernels of ``corpus.kernels.faulty`` in; out, fault by fault and under native and
power-of-two scales: how many outputs moved and how far, which of the seven tolerance-based checks
(a NumPy reference of the pipeline) fire, and what samebits says of the pair, for power-of-two
scales also with these declared. The pipeline's outputs are the bytes that the replay of the real
kernels writes. Exit status 1 when a fault is called equal to the reference, the null fault is told
apart, or the declaration merges anything but the order of scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from checker import api
from checker.launch import Launch
from checker.replay import replay
from checker.replay.hashing import TAG
from corpus.inputs import Bits, draw, round_to
from corpus.load import CorpusKernel, load_set

SET = "faults_sm_90"
REGIMES = ("native", "pow2")
SEVERITIES = ("one", "percent", "all")
DECLARED = ("pow2:sa,sw",)
#: what is no fault where scales are declared to be powers of two
HARMLESS = ("null", "multiplication_order")
CHECKS = ("operands", "scales", "bound", "accumulator", "pow2-identity", "one-spacing", "token")

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's operands: int8 activations and weights, fp32 scales."""

    q: Ints
    w: Ints
    sa: Floats
    sw: Floats


@dataclass(frozen=True, slots=True)
class Run:
    """What the pipeline can show of one kernel: operands used, accumulator, output bits (bf16)."""

    q: Ints
    sa: Floats
    sw: Floats
    acc: Ints
    y: Bits


def layer(kernel: CorpusKernel, regime: str, seed: int) -> tuple[Layer, dict[str, Bits]]:
    """Draw the operands of a kernel's launch; pow2 moves every scale to a power of two."""
    inputs = {a["buffer"]: draw("normal", seed, a) for a in kernel.launch["args"]
              if a and a.get("role") == "in"}
    if regime == "pow2":
        for name in ("sa", "sw"):
            # The exponent field alone: mantissa zero, rounded down.
            inputs[name] = inputs[name] & np.uint32(0xFF800000)
    m, n, k = _shape(kernel)
    q = inputs["q"].view(np.int8).astype(np.int64).reshape(m, k)
    w = inputs["w"].view(np.int8).astype(np.int64).reshape(n, k)
    sa, sw = inputs["sa"].view(np.float32), inputs["sw"].view(np.float32)
    return Layer(q, w, sa, sw), inputs


def _shape(kernel: CorpusKernel) -> tuple[int, int, int]:
    m, n, k = (a["i32"] for a in kernel.launch["args"] if a and "i32" in a)
    return m, n, k


def _widen(bits: Bits) -> Floats:
    """bf16 bits as fp32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _bf16(x: Floats) -> Bits:
    return round_to("bf16", x.astype(np.float64))


def pipeline(layer: Layer, fault: str, every: int, block_k: int) -> Run:
    """The layer in NumPy with one fault injected, step by step as the kernel does it."""
    exact = layer.q @ layer.w.T
    q, sa, sw, acc = layer.q, layer.sa[:, None], layer.sw[None, :], exact
    x = exact.astype(np.float32)
    right = (x * sa) * sw
    y = _bf16(right)
    tiles = [slice(at, at + block_k) for at in range(0, q.shape[1], block_k)]
    match fault:
        case "none" | "null":
            wrong = y
        case "scale_precision":
            wrong = _bf16((x * _widen(_bf16(sa))) * _widen(_bf16(sw)))
        case "double_rounding":
            half = round_to("f16", right.astype(np.float64)).view(np.float16)
            wrong = _bf16(half.astype(np.float32))
        case "multiplication_order":
            wrong = _bf16(x * (sa * sw))
        case "output_truncation":
            wrong = (right.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        case "fused_ordering":
            total = np.zeros_like(right)
            for tile in tiles:
                part = (q[:, tile] @ layer.w[:, tile].T).astype(np.float32)
                total = total + (part * sa) * sw
            wrong = _bf16(total)
        case "inexact_accumulator" | "narrow_accumulator":
            acc = np.zeros_like(exact)
            for tile in tiles:
                acc = acc + q[:, tile] @ layer.w[:, tile].T
                if fault == "narrow_accumulator":
                    acc = acc.astype(np.int16).astype(np.int64)
                else:
                    acc = _widen(_bf16(acc.astype(np.float32))).astype(np.int64)
            wrong = _bf16((acc.astype(np.float32) * sa) * sw)
        case "operand_sharing":
            q = q.copy()
            q[:, 0] = (q[:, 0] + 1).astype(np.int8)
            acc = q @ layer.w.T
            wrong = _bf16((acc.astype(np.float32) * sa) * sw)
        case _:
            raise ValueError(f"no fault {fault!r}")
    flat = np.arange(y.size).reshape(y.shape)
    hit = flat == 0 if every == 0 else flat % every == 0
    return Run(q, layer.sa, layer.sw, np.where(hit, acc, exact), np.where(hit, wrong, y))


def spacings(a: Bits, b: Bits) -> Ints:
    """Distance of bf16 values, counted in representable steps."""
    def ordered(bits: Bits) -> Ints:
        wide = bits.astype(np.int64)
        return np.where(wide & 0x8000, 0x8000 - wide, wide)

    distance: Ints = np.abs(ordered(a) - ordered(b))
    return distance


def checks(layer: Layer, reference: Run, run: Run, regime: str) -> dict[str, str]:
    """The seven checks: ``fires``, ``silent``, or ``n/a`` where one cannot be applied."""
    def says(fired: bool) -> str:
        return "fires" if fired else "silent"

    exact = run.q @ layer.w.T
    reach = int(np.abs(run.acc).max(initial=0))
    bound = layer.q.shape[1] * 128 * 128
    distance = spacings(reference.y, run.y)
    return {
        # Do both implementations read the same quantised operands?
        "operands": says(not np.array_equal(run.q, layer.q)),
        "scales": says(not (np.array_equal(run.sa, layer.sa) and np.array_equal(run.sw, layer.sw))),
        # Exactness: the accumulator is within what the operands allow, and an int32 holds it.
        "bound": says(reach > min(bound, 2**31 - 1)),
        "accumulator": says(not np.array_equal(run.acc, exact)),
        # With power-of-two scales every legal order of scaling returns the same bits.
        "pow2-identity": says(bool(distance.any())) if regime == "pow2" else "n/a",
        "one-spacing": says(bool((distance > 1).any())),
        # Needs the margins of a language model's logits, which one layer does not have.
        "token": "n/a",
    }


@dataclass(frozen=True, slots=True)
class Row:
    """One fault, severity and regime."""

    fault: str
    severity: str
    regime: str
    moved: int
    farthest: int
    checks: Mapping[str, str]
    verdict: str
    basis: str
    replay_agrees: bool
    declared: str = ""


def examine(draws: int = 64, severities: tuple[str, ...] = SEVERITIES) -> list[Row]:
    """Run every committed fault kernel against the reference.

    The pipeline and its checks see ``draws`` seeds, since the fp32 differences of a scaling order
    reach a bf16 output about once in thirty thousand; the replay confirms the first.
    """
    kernels = {k.config["variant"]: k for k in load_set(SET)}
    reference = kernels.pop("none")
    rows = []
    for variant, kernel in kernels.items():
        fault, _, severity = variant.rpartition("_") if variant != "null" else ("null", "", "all")
        if severity not in severities:
            continue
        verdict = api.compare(reference.text, kernel.text, launch_a=dict(reference.launch),
                              launch_b=dict(kernel.launch))
        declared = api.compare(reference.text, kernel.text, launch_a=dict(reference.launch),
                               launch_b=dict(kernel.launch), assume=DECLARED)
        for regime in REGIMES:
            row = _row(reference, kernel, fault, severity, regime, verdict, draws)
            rows.append(replace(row, declared=declared.kind if regime == "pow2" else ""))
    return rows


def _row(reference: CorpusKernel, kernel: CorpusKernel, fault: str, severity: str, regime: str,
         verdict: Any, draws: int) -> Row:
    knobs, moved, farthest, agrees = kernel.config["knobs"], 0, 0, True
    said: dict[str, str] = {}
    for seed in range(1, draws + 1):
        operands, inputs = layer(kernel, regime, seed)
        good = pipeline(operands, "none", 1, knobs["BLOCK_K"])
        bad = pipeline(operands, fault, knobs["EVERY"], knobs["BLOCK_K"])
        distance = spacings(good.y, bad.y)
        moved += int((distance > 0).sum())
        farthest = max(farthest, int(distance.max()))
        for name, says in checks(operands, good, bad, regime).items():
            said[name] = "fires" if said.get(name) == "fires" else says
        if seed == 1:
            agrees = all(np.array_equal(replayed(k, inputs), run.y)
                         for k, run in ((reference, good), (kernel, bad)))
    return Row(fault, severity, regime, moved, farthest, said, verdict.kind, verdict.basis, agrees)


def replayed(kernel: CorpusKernel, inputs: Mapping[str, Bits]) -> Bits:
    """The bf16 bits that the kernel's own assembly writes, by CPU replay."""
    program = api.program_of(kernel.text, isa=kernel.isa)
    result = replay(program, Launch.from_json(dict(kernel.launch)), domain="bytes",
                    inputs=dict(inputs))
    m, n, _ = _shape(kernel)
    assert (result.outputs["y"].words[0] == TAG).all(), "bits that the replay does not know"
    bits: Bits = result.outputs["y"].words[1].astype(np.uint16).reshape(m, n)
    return bits


def failures(rows: list[Row]) -> list[str]:
    """What must not happen: a fault called equal, the null fault told apart, a wrong pipeline."""
    found = []
    for row in rows:
        where = f"{row.fault} ({row.severity}, {row.regime})"
        if row.fault != "null" and row.verdict == "equal":
            found.append(f"{where}: called equal")
        if row.fault == "null" and row.verdict != "equal":
            found.append(f"{where}: told apart ({row.verdict})")
        if row.declared and (row.declared == "equal") != (row.fault in HARMLESS):
            found.append(f"{where}: {row.declared} where powers of two are declared")
        if not row.replay_agrees:
            found.append(f"{where}: the replay's bytes are not the pipeline's")
    return found


def main(
    draws: Annotated[int, typer.Option(min=1, help="draws of the operands")] = 64,
    severity: Annotated[list[str] | None, typer.Option(help="one, percent, all")] = None,
) -> None:
    """Print the table of faults, checks and verdicts."""
    rows = examine(draws, tuple(severity or SEVERITIES))
    table = Table("fault", "where", "scales", "moved", "spacings", *CHECKS, "samebits",
                  "declared pow2")
    for row in rows:
        marks = [{"fires": "FIRES", "silent": "-"}.get(row.checks[c], row.checks[c])
                 for c in CHECKS]
        table.add_row(row.fault, row.severity, row.regime, str(row.moved), str(row.farthest),
                      *marks, row.verdict + (f" ({row.basis})" if row.basis else ""),
                      row.declared or "-")
    Console(width=190).print(table)
    unseen = [r for r in rows if r.moved and "fires" not in r.checks.values()]
    print(f"{len(unseen)} of {sum(r.moved > 0 for r in rows)} faults that move outputs are seen by "
          f"no check; samebits separates {sum(r.verdict != 'equal' for r in rows)} of "
          f"{sum(r.fault != 'null' for r in rows)} and proves "
          f"{sum(r.verdict == 'unequal' for r in rows)} of them unequal by a witness")
    found = failures(rows)
    for text in found:
        print(text)
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
