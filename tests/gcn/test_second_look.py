"""Products of groups of k on gfx942: lanes that hold one row, or several, place it alike."""

from __future__ import annotations

from checker.lower import lower
from checker.parse import parse
from checker.tree import same
from checker.walk import walk
from corpus.bench.classes import PARTITION, read_parts

NAMES = ("gemm_kgroup-BK32_BM32_BN128_GK4_GM4_kpack2_matrixinstrnonkdim32_s3_w2_wavespereu0",
         "gemm_kgroup-BK16_BM16_BN128_GK8_GM4_kpack2_matrixinstrnonkdim32_s1_w4_wavespereu2")


def test_a_row_per_register_and_rows_by_lane_are_one_kernel() -> None:
    """Where the sizes are multiples of 16, as the first of the two shows."""
    texts = {t["name"]: str(t["asm"]) for t in read_parts("texts", PARTITION)
             if t["target"] == "gfx942" and t["name"] in NAMES}
    one, two = (walk(lower(parse(texts[n], isa="gcn")), divisible=("arg4", "arg5"))
                for n in NAMES)
    assert one.modelled, one.findings
    assert same(one, two) == (True, ())
    assert "divisible:arg4%16" in {*one.premises, *two.premises}
