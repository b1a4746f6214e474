"""What a verdict assumes: one row per premise code, with the sentence shown to people.

In: a short code out of `Signature.premises` or `Verdict.premises`. Out: one sentence. A code may
carry a detail after a colon (`matrix-model:sm_90`), which the sentence is followed by. A code
without a row is shown as it stands; nothing that was assumed is ever left out.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PREMISES", "explain"]

PREMISES: Mapping[str, str] = {
    "48-bit-pointers": "a pointer's upper 16 bits are zero",
    "approx-unit": "an approximate function returns the same bits on every chip with the same "
    "unit",
    "block": "a kernel whose text fixes no block size is launched with blocks of this one: as "
    "declared, as the launch facts have it, or else as large as its launch bounds allow",
    "buffer-range-whole": "a buffer's record count is a multiple of each wide access to it",
    "buffer-reach": "a buffer whose descriptor spans 2 GiB is smaller than that, as the compiler "
    "was told: what a mask lets through is within range",
    "commit-address": "a tcgen05.commit whose address names no space arrives at the mbarrier at "
    "its low 32 bits in shared memory",
    "contraction": "the assembler below PTX fuses a contractable multiply and add by its measured "
    "rule",
    "debug-target": "the text asks for debugging; its assembler is taken to fuse nothing more than "
    "otherwise",
    "distinct-outputs": "stores of different shape in one buffer write different elements",
    "divisible": "launches keep a parameter divisible, as the compiler was told",
    "elect-lowest": "elect.sync elects the lowest lane that its member mask names",
    "factors-first": "a matrix step that adds a constant has read its factors before it writes its "
    "result over them, as in the code of compilers that let both overlap",
    "finite": "no infinity and no NaN occurs where a masked value is multiplied away",
    "full-block": "the block has the size that the kernel's metadata gives as its maximum",
    "grid-covers": "both launches write the same elements: each grid is large enough for its "
    "kernel",
    "launch": "the verdict holds for the given launch only",
    "lds-copy-waits": "a copy from global memory straight to shared memory has landed where the "
    "text waits for it",
    "matrix-model": "matrix steps add in the order measured for this target",
    "module-data": "nobody else writes the variables that the text itself declares",
    "nan-payload": "two NaNs count as the same value whatever their payload, also where their "
    "bits are computed with",
    "no-alias": "buffers passed as different pointer arguments do not overlap",
    "no-global-offset": "the launch starts at global offset zero",
    "no-index-wrap": "index arithmetic does not wrap around its width",
    "no-trap": "no thread reaches a trap",
    "lane-pick": "where lanes of one warp write different values to one address in one "
    "instruction, which one stays depends on that store only: its width, lanes, addresses and "
    "values",
    "pow2": "these arguments hold powers of two, finite and normal, in single precision, and no "
    "product with one of them or with a product of them overflows or underflows",
    "race-free": "no two threads of different blocks touch the same bytes, one of them writing",
    "rcp-iflag": "the integer division sequence divides exactly, as its compiler takes for granted",
    "readable": "whatever a kernel reads is there to be read: no access leaves its buffer",
    "same-block": "both launches have the same block size, which neither text fixes",
    "same-grid": "both launches have the same grid, as a kernel reads its size or updates memory "
    "by atomics",
    "same-program": "both texts are one program, instruction by instruction; what is not modelled "
    "in it gives the same bits each time it runs",
    "tensor-ends": "a tensor that a loop reads through a descriptor, untested, is no longer than "
    "the loop: beyond its end the tiles are what they are filled with",
    "tensor-fill": "a tensor that is passed with a flag, to fill tiles beyond its ends with zeros "
    "or with NaN, is filled with zeros",
    "proxy-fences": "what threads store to shared memory is there for matrix steps and bulk copies "
    "that read it, as if a fence.proxy.async stood between the two",
    "tmem-fences": "a barrier that threads meet at, or wait for, orders what they do with tensor "
    "memory, whether or not a tcgen05.fence stands next to it",
    "tmem-waits": "where a text uses a register that a load of tensor memory writes before the "
    "wait for that load, the assembler waits",
    "tensor-map": "a tensor map describes the tensor that its parameter names, with the element "
    "type, box and swizzle that the kernel reads and writes its tiles by, and fills them with "
    "zeros beyond its ends",
    "unknown-target": "the text names no target; it is read as its instructions suggest",
    "wgmma-fences": "registers that an asynchronous matrix step takes over hold what the text "
    "wrote there between the last wgmma.fence and the step",
    "wgmma-serialized": "where a launch uses a register of an asynchronous matrix step before the "
    "wait for it, the assembler waits",
    "warp-order": "where a lane reads an element of a buffer that another lane of its warp stores "
    "to further on in the text, with no barrier in between, the read comes first",
    "whole-waves": "every wave of a block is full",
    "whole-groups": "every work group of the launch is full",
}


def explain(code: str) -> str:
    """Return the sentence for a premise code; an unknown code gives an empty sentence."""
    name, _, detail = code.partition(":")
    sentence = PREMISES.get(code) or PREMISES.get(name, "")
    return f"{sentence} ({detail})" if sentence and detail and code not in PREMISES else sentence
