"""The W8A8 pipeline is the kernels' arithmetic, and each check fires on what it is for."""

from __future__ import annotations

import numpy as np
import pytest

from checker import api
from checker.replay import first_difference
from corpus.faults import (
    DECLARED,
    REGIMES,
    Row,
    checks,
    failures,
    layer,
    pipeline,
    replayed,
    spacings,
)
from corpus.load import CorpusKernel, load_set

KERNELS: dict[str, CorpusKernel] = {k.config["variant"]: k for k in load_set("faults_sm_90")}


@pytest.mark.parametrize("variant", ["none", "double_rounding_percent", "narrow_accumulator_all",
                                     "fused_ordering_all", "output_truncation_one"])
@pytest.mark.parametrize("regime", REGIMES)
def test_the_pipeline_writes_what_the_assembly_writes(variant: str, regime: str) -> None:
    kernel = KERNELS[variant]
    operands, inputs = layer(kernel, regime, 3)
    knobs = kernel.config["knobs"]
    fault = variant if variant == "none" else variant.rpartition("_")[0]
    run = pipeline(operands, fault, knobs["EVERY"], knobs["BLOCK_K"])
    assert np.array_equal(replayed(kernel, inputs), run.y)


def fired(fault: str, regime: str, draws: int = 4) -> set[str]:
    found = set()
    for seed in range(1, draws + 1):
        operands, _ = layer(KERNELS["none"], regime, seed)
        good = pipeline(operands, "none", 1, 32)
        bad = pipeline(operands, fault, 1, 32)
        found |= {c for c, says in checks(operands, good, bad, regime).items() if says == "fires"}
    return found


@pytest.mark.parametrize("regime", REGIMES)
def test_the_reference_and_the_null_fault_fire_nothing(regime: str) -> None:
    assert fired("none", regime) == set()
    assert fired("null", regime) == set()


def test_precondition_and_operand_faults_are_caught_under_both_regimes() -> None:
    for regime in REGIMES:
        assert "accumulator" in fired("inexact_accumulator", regime)
        assert "accumulator" in fired("narrow_accumulator", regime)
        assert "operands" in fired("operand_sharing", regime)


def test_truncation_is_seen_by_the_identity_check_alone() -> None:
    assert fired("output_truncation", "native") == set()
    assert fired("output_truncation", "pow2") == {"pow2-identity"}


def test_power_of_two_scales_make_the_scaling_faults_vanish() -> None:
    for fault in ("scale_precision", "multiplication_order", "fused_ordering"):
        assert fired(fault, "pow2", draws=16) == set()


def test_scaling_order_moves_some_output_under_native_scales() -> None:
    moved = {"multiplication_order": 0, "fused_ordering": 0}
    for fault in moved:
        for seed in range(1, 65):
            operands, _ = layer(KERNELS["none"], "native", seed)
            distance = spacings(pipeline(operands, "none", 1, 32).y,
                                pipeline(operands, fault, 1, 32).y)
            moved[fault] += int((distance > 0).sum())
            # The scales' order stays within one spacing; sums in fp32 do not where terms cancel.
            assert fault == "fused_ordering" or distance.max() <= 1
    assert all(moved.values()), moved


def test_spacings_count_steps_across_zero() -> None:
    bits = np.array([0x0001, 0x8001, 0x0000, 0x8000, 0x3F80], np.uint16)
    other = np.array([0x8001, 0x8003, 0x8000, 0x0001, 0x3F7E], np.uint16)
    assert spacings(bits, other).tolist() == [2, 2, 0, 1, 2]


def test_failures_name_a_merged_fault_and_a_separated_null() -> None:
    def row(fault: str, verdict: str, agrees: bool = True, declared: str = "") -> Row:
        return Row(fault, "all", "native", 1, 1, {}, verdict, "", agrees, declared)

    assert failures([row("null", "equal"), row("double_rounding", "unproved")]) == []
    assert len(failures([row("null", "unproved"), row("double_rounding", "equal"),
                         row("fused_ordering", "unequal", agrees=False)])) == 3
    assert failures([row("null", "equal", declared="equal"),
                     row("multiplication_order", "unequal", declared="equal"),
                     row("scale_precision", "unequal", declared="unproved")]) == []
    assert len(failures([row("multiplication_order", "unequal", declared="unproved"),
                         row("scale_precision", "unequal", declared="equal")])) == 2


@pytest.mark.parametrize(("variant", "equal"), [
    ("multiplication_order_all", True), ("multiplication_order_percent", True), ("null", True),
    ("scale_precision_all", False), ("fused_ordering_all", False), ("double_rounding_one", False),
    ("output_truncation_all", False), ("operand_sharing_all", False)])
def test_declared_powers_of_two_merge_the_order_of_scales_alone(variant: str, equal: bool) -> None:
    reference, kernel = KERNELS["none"], KERNELS[variant]
    maps = [api.replay_kernel(k.text, dict(k.launch), assume=DECLARED)
            for k in (reference, kernel)]
    assert all(m.usable for m in maps)
    assert (first_difference(*maps) is None) == equal
