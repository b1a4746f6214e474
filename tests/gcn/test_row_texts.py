"""Kernels of the gfx942 rows that were findings once by a rule too strict; each is modelled.

Triton's texts, out of `corpus/data/partition`. What each has: one wave that loads ahead in two and
in three stages, with no barrier but its own order; 32 rows of 16 in one wave, with factors that
lanes share; a descriptor whose pointer comes from two blocks, one of which does not mask it; a
matrix step that writes over its own factors.
"""

from __future__ import annotations

from functools import cache

import pytest

from checker import api
from corpus.bench.classes import PARTITION, read_parts

_NAME = "gemm-BK{}_PRECISIONtf32_{}_wavespereu{}"
NAMES = [
    _NAME.format("32_BM16_BN32_GM4", "TRANS0_kpack1_matrixinstrnonkdim32_s2_w1", 0),
    _NAME.format("16_BM16_BN64_GM4", "TRANS1_kpack2_matrixinstrnonkdim16_s3_w1", 0),
    _NAME.format("64_BM32_BN128_GM1", "TRANS1_kpack1_matrixinstrnonkdim32_s2_w1", 0),
    _NAME.format("16_BM16_BN128_GM4", "TRANS1_kpack2_matrixinstrnonkdim32_s4_w4", 2),
    _NAME.format("32_BM64_BN32_GM1", "TRANS0_kpack1_matrixinstrnonkdim0_s2_w8", 2),
]


@cache
def _texts() -> dict[str, str]:
    return {line["name"]: line["asm"] for line in read_parts("texts", PARTITION)
            if line["target"] == "gfx942" and line["name"] in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_row_s_kernel_is_modelled(name: str) -> None:
    signature = api.sign(_texts()[name], isa="gcn")
    assert signature.modelled, signature
    assert not signature.findings
