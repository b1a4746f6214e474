"""Skipped regions that stand out of line: what follows them is repeated there, or is jumped to."""

from __future__ import annotations

import numpy as np
import pytest

from checker.core import Op
from checker.gcn.lower import lower_gcn
from checker.gcn.parser import parse_gcn
from checker.gcn.straight import straighten
from checker.walk import walk
from corpus.bench.classes import PARTITION, read_parts
from tests.gcn.bench import program_of, run, split, text_of

L = np.arange(64, dtype=np.uint32)

#: v10 += v2 where v1 < 20, then v11 = v10 + 1 where v1 > 10, the regions behind the end
OUT_OF_LINE = split("""v_mov_b32_e32 v10, 1
v_cmp_gt_u32_e32 vcc, 20, v1
s_and_saveexec_b64 s[24:25], vcc
s_cbranch_execnz .LBB0_2
.LBB0_1:
s_or_b64 exec, exec, s[24:25]
v_cmp_lt_u32_e32 vcc, 10, v1
s_and_saveexec_b64 s[24:25], vcc
s_cbranch_execnz .LBB0_3
s_branch .LBB0_4
.LBB0_2:
v_add_u32_e32 v10, v10, v2
s_or_b64 exec, exec, s[24:25]
v_cmp_lt_u32_e32 vcc, 10, v1
s_and_saveexec_b64 s[24:25], vcc
s_cbranch_execz .LBB0_4
.LBB0_3:
v_add_u32_e32 v11, 1, v10
.LBB0_4:
s_or_b64 exec, exec, s[24:25]""")


def _choices(lines: list[str]) -> list[Op]:
    """The branches that depend on something."""
    return [op for op in program_of(lines).ops if op.name == "branch" and op.guard is not None]


def test_a_region_out_of_line_runs_in_its_place() -> None:
    v10 = np.where(L < 20, 1 + L * 3, 1)
    got = run(OUT_OF_LINE, L, L * 3)
    assert got[0].tolist() == v10.tolist()
    assert got[1].tolist() == np.where(L > 10, v10 + 1, 0).tolist()
    assert not _choices(OUT_OF_LINE)


def test_a_region_that_jumps_back_runs_in_its_place() -> None:
    lines = split("""v_cmp_gt_u32_e32 vcc, 20, v1
        s_and_saveexec_b64 s[24:25], vcc
        s_cbranch_execnz .LBB0_2
        .LBB0_1:
        s_or_b64 exec, exec, s[24:25]
        v_add_u32_e32 v11, 1, v10
        s_branch .LBB0_3
        .LBB0_2:
        v_add_u32_e32 v10, v10, v2
        s_branch .LBB0_1
        .LBB0_3:""")
    got = run(lines, L, L * 3)
    assert got[0].tolist() == np.where(L < 20, L * 3, 0).tolist()
    assert got[1].tolist() == np.where(L < 20, L * 3 + 1, 1).tolist()
    assert not _choices(lines)


@pytest.mark.parametrize(("old", "new"), [
    ("v_cmp_lt_u32_e32 vcc, 10, v1", "v_cmp_lt_u32_e32 vcc, 11, v1"),  # the copy tests more
    ("s_and_saveexec_b64 s[24:25], vcc", "s_or_saveexec_b64 s[24:25], vcc"),
    ("s_or_b64 exec, exec, s[24:25]", "s_nop 0"),  # the copy gives no lane back
    ("s_cbranch_execz .LBB0_4", "s_cbranch_execz .LBB0_1"),  # it goes elsewhere
    ("v_add_u32_e32 v10, v10, v2", "s_getpc_b64 s[26:27]"),  # where it stands shows
])
def test_what_follows_must_be_repeated_as_it_is(old: str, new: str) -> None:
    head, tail = OUT_OF_LINE[:10], "\n".join(OUT_OF_LINE[10:])
    assert old in tail
    changed = [*head, *tail.replace(old, new, 1).split("\n")]
    module = parse_gcn(text_of(changed))
    items = module.functions[0].items
    assert not any("@after0" in str(i) for i in straighten(items))


def test_a_changed_copy_shows_in_the_answer() -> None:
    changed = "\n".join(OUT_OF_LINE).replace("vcc, 10, v1", "vcc, 11, v1")
    at = changed.index("vcc, 11, v1")
    one_only = changed[:at] + "vcc, 10, v1" + changed[at + len("vcc, 11, v1"):]
    got = run(one_only.split("\n"), L, L * 3)
    v10 = np.where(L < 20, 1 + L * 3, 1)
    assert got[1].tolist() == np.where(L > 11, v10 + 1, 0).tolist()


def test_a_wait_that_is_missing_out_of_line_is_found() -> None:
    late = "global_load_dword v4, v0, s[8:9]"
    lines = ["s_nop 0", *OUT_OF_LINE]
    at = lines.index("v_add_u32_e32 v10, v10, v2")
    assert not program_of(lines).findings
    lines[at:at + 1] = [late, "v_add_u32_e32 v10, v10, v4"]
    assert any("wait" in message for _site, message in program_of(lines).findings)


def test_stores_of_a_descriptor_product_are_modelled() -> None:
    """64 guarded stores, each but the first behind the end: once 32 votes of unknown lanes."""
    texts = [t["asm"] for t in read_parts("texts", PARTITION) if t["row"] == "gemm_tma_store"
             and t["target"] == "gfx942" and "s_cbranch_execnz" in t["asm"]]
    shortest = min(texts, key=len)
    assert walk(lower_gcn(parse_gcn(shortest))).modelled
