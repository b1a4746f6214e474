"""Run a few AMDGCN instructions on known bits: a tiny kernel around them, replayed in `bytes`.

`run(lines, ...)` loads v1, v2, v3 (and s20, s21, s22: their first lane's values) from buffers, runs
the lines, and returns v10 (and v11) of all lanes of one wave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from checker.core import Program
from checker.gcn.lower import Lowering, lower_gcn
from checker.gcn.parser import parse_gcn
from checker.replay.run import replay

U32 = NDArray[np.uint32]

_LOAD = {9: ("s_load_dwordx8", "s_waitcnt lgkmcnt(0)", "global_load_dword", "s_waitcnt vmcnt(0)",
             "global_store_dword"),
         11: ("s_load_b256", "s_waitcnt lgkmcnt(0)", "global_load_b32", "s_waitcnt vmcnt(0)",
              "global_store_b32"),
         12: ("s_load_b256", "s_wait_kmcnt 0x0", "global_load_b32", "s_wait_loadcnt 0x0",
              "global_store_b32")}
_LOAD[10] = _LOAD[9]
_GENERATION = {"gfx900": 9, "gfx908": 9, "gfx90a": 9, "gfx942": 9, "gfx950": 9, "gfx1030": 10,
               "gfx1100": 11, "gfx1150": 11, "gfx1200": 12, "gfx1201": 12, "gfx1250": 12}


def split(text: str) -> list[str]:
    """The lines of a text."""
    return text.strip().split("\n")


def wave_of(target: str) -> int:
    """Lanes of a wave."""
    return 64 if target.startswith("gfx9") else 32


def text_of(lines: Sequence[str], target: str = "gfx942", mode: int = 240, ieee: int = 1) -> str:
    """The kernel `k(a, b, c, out)` around some lines; `mode` is the float mode byte."""
    load, wait, vload, vwait, store = _LOAD[_GENERATION[target]]
    shift = "v_lshlrev_b32_e32 v0, 2, v0"
    body = [f"{load} s[8:15], s[0:1], 0x0", "v_and_b32_e32 v0, 0x3ff, v0", shift, wait,
            f"{vload} v1, v0, s[8:9]", f"{vload} v2, v0, s[10:11]", f"{vload} v3, v0, s[12:13]",
            vwait, "v_readfirstlane_b32 s20, v1", "v_readfirstlane_b32 s21, v2",
            "v_readfirstlane_b32 s22, v3", "v_mov_b32_e32 v10, 0", "v_mov_b32_e32 v11, 0",
            "s_nop 4", *lines, "s_nop 4", f"{store} v0, v10, s[14:15]",
            f"{store} v0, v11, s[14:15] offset:256", "s_endpgm"]
    args = "".join(f"      - .address_space: global\n        .offset: {8 * i}\n        .size: 8\n"
                   "        .value_kind: global_buffer\n" for i in range(4))
    gfx9 = f"\t.amdhsa_dx10_clamp 1\n\t.amdhsa_ieee_mode {ieee}\n" if target[:5] != "gfx12" else ""
    wave32 = "\t.amdhsa_wavefront_size32 1\n" if wave_of(target) == 32 else ""
    accum = "\t.amdhsa_accum_offset 64\n" if target in ("gfx90a", "gfx942", "gfx950") else ""
    return (f'\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"\n\t.amdhsa_code_object_version 5\n'
            "\t.text\n\t.globl k\n\t.p2align 8\n\t.type k,@function\nk:\n"
            + "".join(f"\t{x}\n" for x in body)
            + ".Lfunc_end0:\n\t.size k, .Lfunc_end0-k\n\t.section .rodata\n\t.amdhsa_kernel k\n"
            "\t.amdhsa_group_segment_fixed_size 4096\n\t.amdhsa_kernarg_size 32\n"
            "\t.amdhsa_private_segment_fixed_size 64\n"
            "\t.amdhsa_user_sgpr_count 2\n\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n"
            "\t.amdhsa_next_free_vgpr 128\n\t.amdhsa_next_free_sgpr 96\n"
            f"\t.amdhsa_float_round_mode_32 {mode & 3}\n"
            f"\t.amdhsa_float_round_mode_16_64 {mode >> 2 & 3}\n"
            f"\t.amdhsa_float_denorm_mode_32 {mode >> 4 & 3}\n"
            f"\t.amdhsa_float_denorm_mode_16_64 {mode >> 6 & 3}\n{gfx9}{wave32}{accum}"
            "\t.end_amdhsa_kernel\n\t.text\n\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - .args:\n"
            f"{args}    .kernarg_segment_align: 8\n    .kernarg_segment_size: 32\n"
            "    .group_segment_fixed_size: 4096\n    .private_segment_fixed_size: 0\n"
            f"    .max_flat_workgroup_size: {wave_of(target)}\n    .name: k\n    .sgpr_count: 40\n"
            f"    .symbol: k.kd\n    .uniform_work_group_size: 1\n    .vgpr_count: 32\n"
            f"    .wavefront_size: {wave_of(target)}\namdhsa.target: amdgcn-amd-amdhsa--{target}\n"
            "amdhsa.version:\n  - 1\n  - 2\n...\n\t.end_amdgpu_metadata\n")


def program_of(lines: Sequence[str], target: str = "gfx942", **kwargs: int) -> Program:
    """Lower the kernel around some lines."""
    return lower_gcn(parse_gcn(text_of(lines, target, **kwargs)))


def unmodelled(lines: Sequence[str], target: str = "gfx942", **kwargs: int) -> list[str]:
    """Reasons why lines became opaque."""
    module = parse_gcn(text_of(lines, target, **kwargs))
    lowering = Lowering(module, module.functions[0], "<text>")
    lowering.program()
    return list(lowering.opaque.values())


def run(lines: Sequence[str], a: object = 0, b: object = 0, c: object = 0,
        target: str = "gfx942", **kwargs: int) -> tuple[U32, U32]:
    """v10 and v11 of every lane after the lines."""
    lanes = wave_of(target)
    names = "abc"
    buffers = [{"buffer": n, "dtype": "u32", "elements": lanes, "role": "in"} for n in names]
    facts = {"grid": [1, 1, 1], "block": [lanes, 1, 1], "shared": 4096, "args": [
        *buffers, {"buffer": "out", "dtype": "u32", "elements": 128, "role": "out"}]}
    inputs = {n: np.broadcast_to(np.asarray(v, dtype=np.uint32), (lanes,)).astype(np.uint64)
              for n, v in zip(names, (a, b, c), strict=True)}
    result = replay(program_of(lines, target, **kwargs), facts, domain="bytes", inputs=inputs)
    assert result.reasons() == ()
    words = result.outputs["out"].words[1].astype(np.uint32)
    return words[:lanes], words[64:64 + lanes]
