"""What gfx11 and gfx12 do not wait for is a finding; what LLVM puts there makes it clean."""

from __future__ import annotations

import pytest

from checker.api import compare
from checker.gcn.lower import lower_gcn
from checker.gcn.parser import parse_gcn
from tests.gcn.bench import program_of, text_of


def findings(lines: list[str], target: str, wave: int = 32) -> list[str]:
    if wave == 32:
        return [message for _, message in program_of(lines, target).findings]
    text = text_of(lines, target).replace("wavefront_size32 1", "wavefront_size32 0")
    return [m for _, m in lower_gcn(parse_gcn(text.replace("_size: 32", "_size: 64"))).findings]


STEP = "v_wmma_f32_16x16x16_f16 v[{}:{}], v[{}:{}], v[{}:{}], v[{}:{}]"


def step(target: str, d: int, a: int, b: int) -> str:
    more = 7 if target == "gfx1100" else 3
    return STEP.format(d, d + 7, a, a + more, b, b + more, d, d + 7)


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_a_matrix_step_multiplies_the_one_before_it(target: str) -> None:
    first, second = step(target, 40, 60, 70), step(target, 80, 40, 60)
    for last in (second, step(target, 80, 60, 44)):
        (message,) = findings([first, last], target)
        assert message.endswith("is a factor of the matrix step after the one that makes it")
        assert findings([first, "s_nop 7", last], target) == [message]  # no vector operation
        for between in ("v_nop", "v_mov_b32_e32 v1, v2", step(target, 90, 60, 70)):
            assert findings([first, between, last], target) == []
    assert findings([first, first], target) == []  # the accumulator is handed on
    assert findings([first, step(target, 80, 60, 70)], target) == []


def test_a_matrix_step_on_one_path_only() -> None:
    first, last = step("gfx1200", 40, 60, 70), step("gfx1200", 80, 40, 60)
    lines = ["s_cmp_lt_i32 s20, 3", "s_cbranch_scc1 .LBB0_1", first, ".LBB0_1:", last]
    assert len(findings(lines, "gfx1200")) == 1
    assert findings([*lines[:3], "v_nop", *lines[3:]], "gfx1200") == []


def test_the_index_of_a_sparse_step_on_gfx12() -> None:
    sparse = "v_swmmac_f32_16x16x32_f16 v[80:87], v[60:63], v[70:77], v{}"
    first = step("gfx1200", 40, 60, 70)
    assert len(findings([first, sparse.format(41)], "gfx1200")) == 1
    assert findings([first, "v_nop", sparse.format(41)], "gfx1200") == []
    assert findings([first, sparse.format(50)], "gfx1200") == []


OTHERS = [f"v_mov_b32_e32 v{30 + i}, v2" for i in range(6)]


def test_a_slow_result_of_gfx11_is_waited_for() -> None:
    """Five vector operations or one slow one may lie between and change nothing."""
    slow, use = "v_rcp_f32_e32 v4, v1", "v_add_f32_e32 v10, v4, v1"
    early = ["v4 is read before the slow operation that makes it ends"]
    assert findings([slow, use], "gfx1100") == early
    assert findings([slow, "s_delay_alu instid0(TRANS32_DEP_1)", use], "gfx1100") == early
    assert findings([slow, "s_nop 15", use], "gfx1100") == early
    assert findings([slow, *OTHERS[:5], use], "gfx1100") == early
    assert findings([slow, *OTHERS, use], "gfx1100") == []
    assert findings([slow, "v_exp_f32_e32 v30, v1", use], "gfx1100") == early
    assert findings([slow, "v_exp_f32_e32 v30, v1", "v_log_f32_e32 v31, v1", use], "gfx1100") == []
    for wait in ("s_waitcnt_depctr 0xfff", "s_waitcnt_depctr depctr_va_vdst(0)",
                 "ds_load_b32 v30, v1"):
        assert findings([slow, wait, use, "s_waitcnt lgkmcnt(0)"], "gfx1100") == []
    assert findings([slow, "s_waitcnt_depctr depctr_va_vdst(1)", use], "gfx1100") == early
    for target in ("gfx1150", "gfx1030", "gfx1200"):  # these wait
        assert findings([slow, use], target) == []
    dual = "v_dual_add_f32 v10, v4, v1 :: v_dual_mov_b32 v11, v3"
    assert findings([slow, dual], "gfx1100") == early


def test_results_on_two_sides_of_a_change_of_exec() -> None:
    before, after = "v_mov_b32_e32 v4, v1", "v_mov_b32_e32 v5, v2"
    change, use = "s_mov_b64 exec, s[20:21]", "v_add_f32_e32 v10, v4, v5"
    one = "v_mov_b32_e32 v30, v2"
    lines = [before, change, after, use]
    assert len(findings(lines, "gfx1100", 64)) == 1
    assert len(findings([before, one, change, one, after, *[one] * 4, use], "gfx1100", 64)) == 1
    assert findings([before, one, change, one, one, after, use], "gfx1100", 64) == []
    assert findings([before, change, after, *[one] * 5, use], "gfx1100", 64) == []
    assert findings([*lines[:3], "s_waitcnt_depctr depctr_va_vdst(0)", use], "gfx1100", 64) == []
    assert findings([change, before, after, use], "gfx1100", 64) == []
    assert findings([before, "s_mov_b32 exec_lo, s20", after, use], "gfx1100") == []


def test_a_mask_written_again_on_gfx11() -> None:
    """A wave of 64 lanes reads masks in halves: LLVM waits behind each write of such a mask."""
    mask, write = "v_cndmask_b32_e64 v4, v1, v2, s[24:25]", "s_mov_b64 s[24:25], s[20:21]"
    use = "s_and_b64 s[26:27], s[24:25], s[20:21]"
    wait = "s_waitcnt_depctr depctr_sa_sdst(0)"
    (message,) = findings([mask, write, use], "gfx1100", 64)
    assert message == "s24 is read before a wait on sa_sdst for what was written"
    assert findings([mask, write, wait, use], "gfx1100", 64) == []
    assert len(findings([mask, write, "v_mov_b32_e32 v10, s24"], "gfx1100", 64)) == 1
    compare = "v_cmp_eq_u32_e64 s[24:25], v1, v2"
    assert len(findings([mask, compare, mask], "gfx1100", 64)) == 1
    assert findings([mask, compare, "s_waitcnt_depctr depctr_va_sdst(0)", mask],
                    "gfx1100", 64) == []
    assert findings([mask, compare, use], "gfx1100", 64) == []  # a scalar reader waits
    assert findings(["v_mov_b32_e32 v4, s24", write, use], "gfx1100", 64) == []
    masked = [x.replace("s[24:25]", "vcc") for x in (mask, compare, mask)]
    assert findings(masked, "gfx1100", 64)[0].endswith("wait on va_vcc for what was written")


def test_a_scalar_written_again_on_gfx12() -> None:
    read, write = "v_mov_b32_e32 v4, s24", "s_mov_b32 s24, s20"
    early = ["s24 is read before a wait on sa_sdst for what was written"]
    wait = "s_wait_alu depctr_sa_sdst(0)"
    for use in ("v_mov_b32_e32 v10, s24", "s_add_co_i32 s26, s24, s20"):
        assert findings([read, write, use], "gfx1200") == early
        for enough in (wait, "s_wait_alu 0xfffe", "s_load_b32 s40, s[8:9], 0x0"):
            end = ["s_wait_kmcnt 0x0"]
            assert findings([read, write, enough, use, *end], "gfx1200") == []
        assert findings([read, write, "s_wait_alu depctr_va_sdst(0)", use], "gfx1200") == early
        assert findings([write, use], "gfx1200") == []  # nothing has read it before
        assert findings([read.replace("s24", "s25"), write, use], "gfx1200") == early  # its pair
        assert findings([read, write, use], "gfx1201") == early
        assert findings([read, write, use], "gfx1100") == []


def test_a_mask_compared_again_on_gfx12() -> None:
    mask = "v_cndmask_b32_e64 v10, v1, v2, {}"
    for reg, wait in (("s24", "va_sdst"), ("vcc_lo", "va_vcc")):
        compare, use = f"v_cmp_eq_u32_e64 {reg}, v1, v2", mask.format(reg)
        (message,) = findings([use, compare, use], "gfx1200")
        assert message == f"{reg} is read before a wait on {wait} for what was written"
        assert findings([use, compare, f"s_wait_alu depctr_{wait}(0)", use], "gfx1200") == []
        scalar = f"s_and_b32 s26, {reg}, s20"  # waits, and what follows has not to
        assert findings([use, compare, scalar, use], "gfx1200") == []


def test_exec_of_a_vector_compare_reaches_a_permute() -> None:
    compare, permute = "v_cmpx_eq_u32_e32 v1, v2", "v_permlanex16_b32 v10, v3, s20, s21"
    assert len(findings([compare, permute], "gfx1100")) == 1
    assert len(findings([compare, "v_nop", permute], "gfx1100")) == 1
    assert findings([compare, "v_mov_b32_e32 v4, v1", permute], "gfx1100") == []
    assert findings([compare, permute], "gfx1200") == []


def test_a_mode_is_not_changed_under_a_float_atomic_of_gfx10() -> None:
    atomic = "global_atomic_fmin v0, v1, s[14:15]"
    message = "the denormal mode changes within 3 wait states of a float atomic"
    for between in ("s_nop 0", "s_nop 1"):
        assert message in findings([atomic, between, "s_denorm_mode 0"], "gfx1030")
    for between in ("s_nop 2", "v_nop", "s_waitcnt_vscnt null, 0x0"):
        assert message not in findings([atomic, between, "s_denorm_mode 0"], "gfx1030")


@pytest.mark.parametrize(("target", "line"), [
    ("gfx1100", "v_mad_u64_u32 v[4:5], null, v4, v6, v[8:9]"),
    ("gfx1100", "v_mad_u64_u32 v[4:5], null, v6, v5, 0"),
    ("gfx1100", "v_mad_u64_u32 v[4:5], null, v6, v7, v[4:5]"),
    ("gfx1100", "v_wmma_f32_16x16x16_f16 v[40:47], v[40:47], v[60:67], v[40:47]"),
    ("gfx1200", "v_wmma_f32_16x16x16_f16 v[40:47], v[60:63], v[46:49], v[40:47]"),
    ("gfx1200", "v_wmma_f32_16x16x16_f16 v[40:47], v[60:63], v[70:73], v[44:51]"),
    ("gfx942", "v_mfma_f32_32x32x8_f16 v[40:55], v[40:41], v[60:61], v[40:55]"),
    ("gfx942", "v_mfma_f32_32x32x8_f16 v[40:55], v[60:61], v[62:63], v[44:59]")])
def test_an_operation_of_several_cycles_reads_what_it_overwrites(target: str, line: str) -> None:
    assert any(m.endswith("is overwritten by the operation that reads it")
               for m in findings([line], target))


def test_a_constant_addend_lets_a_compiler_overwrite_factors() -> None:
    """LLVM 20 and 21 do, where the first step of a product adds 0: a premise, and named."""
    for line in ("v_mfma_f32_32x32x8_f16 v[40:55], v[42:43], v[40:41], 0",
                 "v_mfma_i32_32x32x16_i8 v[40:55], v[60:61], v[54:55], 0"):
        assert findings([line], "gfx942") == []
        assert "factors-first" in program_of([line], "gfx942").premises
    for line in ("v_mfma_f32_32x32x8_f16 v[40:55], v[60:61], v[62:63], 0",
                 "v_mfma_f32_16x16x16_f16 v[40:43], v[40:41], v[62:63], 0"):
        assert findings([line], "gfx942") == []
        assert "factors-first" not in program_of([line], "gfx942").premises
    assert findings(["v_mfma_f64_16x16x4_f64 v[40:47], v[40:41], v[60:61], 0"], "gfx942")


def test_a_high_addend_of_gfx11_that_is_overwritten_is_unknown() -> None:
    """Compilers leave such registers where the high half is not wanted: it is nobody's bits."""
    line = "v_mad_u64_u32 v[4:5], null, v1, v2, v[3:4]"
    assert findings([line], "gfx1100") == []
    for half, known in (("v4", True), ("v5", False)):
        lines = [line, f"v_mov_b32_e32 v10, {half}"]
        assert ("unknown" in program_of(lines, "gfx1100").reg_names) is not known
        assert "unknown" not in program_of(lines, "gfx1200").reg_names
        text = text_of(lines, "gfx1100")
        assert compare(text, text.replace("s_nop 4", "s_nop 5")).equal is known


@pytest.mark.parametrize("target", ["gfx1250"])
def test_a_target_whose_wait_states_are_not_known(target: str) -> None:
    assert findings([], target) == [f"the wait states of {target} are not modelled"]
