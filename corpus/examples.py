"""The example kernels of the README, taken from the committed sets: ``python -m corpus.examples``.

Writes ``corpus/examples/<name>.ptx`` or ``.amdgcn`` with ``<name>.json`` (launch facts) beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from corpus.load import load_set

FOLDER = Path(__file__).parent / "examples"

#: file name -> (set, kernel)
EXAMPLES: Mapping[str, tuple[str, str]] = {
    # A tree written out by reshape and split: no layout can change it.
    "tree_1_warp.ptx": ("sm_90", "reductions.row_sum_tree_f32-BM1_BN256_w1-sm_90"),
    "tree_4_warps.ptx": ("sm_90", "reductions.row_sum_tree_f32-BM8_BN256_w4-sm_90"),
    # a*2 + b and (a+a) + b: one rounding apart only where a+a overflows.
    "double.ptx": ("sm_90", "elementwise.double-B128_OP7_fuse1_w1-sm_90"),
    "twice_plus.ptx": ("sm_90", "elementwise.twice_plus-B128_OP8_fuse1_w1-sm_90"),
    # One product, two tilings of K.
    "gemm_k16.ptx": ("sm_90", "gemm-BK16_BM16_BN32_GM4_PRECISIONtf32_TRANS0_s1_w1-sm_90"),
    "gemm_k64.ptx": ("sm_90", "gemm-BK64_BM16_BN32_GM4_PRECISIONtf32_TRANS0_s1_w1-sm_90"),
    # Two epilogues of one int8 product.
    "scales_in_turn.ptx": (
        "sm_90", "w8a8.row_then_column-BK64_BM32_BN64_EPILOGUE0_fuse0_s2_w4-sm_90"),
    "scales_first.ptx": (
        "sm_90", "w8a8.product_of_scales-BK64_BM32_BN64_EPILOGUE1_fuse0_s2_w4-sm_90"),
    # Two vendors, one function.
    "fma_nvidia.ptx": ("sm_90", "elementwise.fma-B128_OP3_fuse1_w1-sm_90"),
    "fma_amd.amdgcn": ("gfx942", "elementwise.fma-B128_OP3_fuse1_w1-gfx942"),
    # Split-K through float atomics: no fixed bits.
    "atomics.ptx": (
        "sm_90", "gemm_splitk_atomic.split2-ATOMIC1_BK32_BM64_BN64_SPLIT2_s2_w4-sm_90"),
}


def contents() -> dict[str, str]:
    """File name to text, for every example and its launch facts."""
    kernels = {name: {k.name: k for k in load_set(name)} for name in {s for s, _ in
                                                                      EXAMPLES.values()}}
    files = {}
    for file, (set_name, kernel) in EXAMPLES.items():
        found = kernels[set_name][kernel]
        files[file] = found.text
        files[Path(file).stem + ".json"] = json.dumps(found.launch) + "\n"
    return files


def main() -> None:
    """Write the examples."""
    for name, text in contents().items():
        (FOLDER / name).write_text(text)
    print(f"{len(EXAMPLES)} kernels in {FOLDER.name}")


if __name__ == "__main__":
    main()
