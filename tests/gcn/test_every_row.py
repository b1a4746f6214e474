"""Each row has an instruction text in `data/rows.txt`; it lowers, and LLVM's assembler knows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import checker.gcn.rows  # noqa: F401  (registers the rows)
from checker.gcn.rows.table import ROWS, find
from tests.gcn.assembler import refused
from tests.gcn.bench import unmodelled

LINES = [line.split("\t") for line in
         (Path(__file__).parent / "data" / "rows.txt").read_text().splitlines()]

#: rows that refuse their instruction by design, with the reason they give
REFUSED = {
    "ds_read_b64_tr_b4": "transposed LDS read of this form", "s_getreg_b32": "hardware register",
    "s_call_b64": "call", "s_rfe_b64": "call", "s_setpc_b64": "call", "s_swappc_b64": "call",
    "s_wqm_b32": "whole-quad", "s_wqm_b64": "whole-quad", "s_sendmsghalt": "message",
    "s_barrier_wait": "split barrier", "s_barrier_signal": "its own wait",
    "s_barrier_init": "named barrier", **dict.fromkeys(
        ("s_barrier_signal_isfirst", "s_barrier_leave", "s_get_barrier_state", "s_wakeup_barrier"),
        "order in which waves arrive"),
    "v_fma_mix_f32_bf16": "mixed bf16",
    "v_fma_mixhi_bf16": "mixed bf16", "v_fma_mixlo_bf16": "mixed bf16",
    "v_mad_mix_f32": "rounds twice", "v_mad_mixhi_f16": "rounds twice",
    "v_mad_mixlo_f16": "rounds twice", "v_mfma_f64_4x4x4f64": "several blocks",
    **{f"s_{n}_{k}_b64": "exec" if k == "saveexec" else "mask" for n in (
        "and_not0", "and_not1", "or_not0", "or_not1") for k in ("saveexec", "wrexec")},
    **{f"v_mfma_f32_{s}": "several blocks" for s in (
        "16x16x1f32", "16x16x2bf16", "16x16x4bf16_1k", "16x16x4f16", "32x32x1f32", "32x32x2bf16",
        "32x32x4bf16_1k", "32x32x4f16", "4x4x1f32", "4x4x2bf16", "4x4x4bf16_1k", "4x4x4f16")},
    "v_mfma_i32_16x16x4i8": "several blocks", "v_mfma_i32_32x32x4i8": "several blocks",
    "v_mfma_i32_4x4x4i8": "several blocks",
}


def test_every_row_has_a_text() -> None:
    named = {find(text.split()[0])[1] for _, text in LINES}
    assert set(ROWS) - named == set()


@pytest.mark.parametrize(("target", "text"), LINES, ids=[text.split()[0] for _, text in LINES])
def test_row_lowers(target: str, text: str) -> None:
    # buffer rows read the descriptor in s[8:11], whose flags must be known
    lines = ["s_mov_b32 s11, 0x31027000", text] if "buffer_" in text else [text]
    base = find(text.split()[0])[1]
    if re.match(r"v_(pk_)?(min|max|med).*_f(16|32)$", base):  # NaNs of operands must be known
        lines = [*(f"v_mov_b32_e32 v{n}, v1" for n in range(2, 18)), text]
    if re.match(r"v_(min|max)_f64$", base):
        lines = [*(f"v_add_f64 v[{n}:{n + 1}], v[2:3], v[2:3]" for n in range(2, 18, 2)), text]
    reasons = unmodelled(lines, target)
    if base in REFUSED:
        assert any(REFUSED[base] in r for r in reasons), reasons
    else:
        assert reasons == []


@pytest.mark.parametrize("target", sorted({t for t, _ in LINES}))
def test_texts_assemble(target: str) -> None:
    """Names of halves (`v1.l`) came with LLVM 20: an older one alone refuses these targets."""
    texts = "".join(f"\t{text}\n" for t, text in LINES if t == target)
    assert refused(f"\t.text\n.Lfunc_end0:\n{texts}", target) == ""


def test_an_assembler_refuses_what_it_does_not_know() -> None:
    assert refused("\t.text\n\tv_mov_b32_e32 v1, v2\n", "gfx90a") == ""
    assert refused("\t.text\n\tv_mov_b33_e32 v1, v2\n", "gfx90a")
