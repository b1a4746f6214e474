"""Figure 4 of the seed paper as runnable kernels: one 256-element sum in two layouts, and twins."""

from __future__ import annotations

from collections.abc import Sequence

HEADER = """.version 8.0
.target sm_90
.address_size 64

.visible .entry {name}(
    .param .u64 .ptr .global .align 16 {name}_param_0,
    .param .u64 .ptr .global .align 16 {name}_param_1
)
.reqntid {threads}
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .f32 %f<96>;
    .reg .b64 %rd<8>;
    .shared .align 4 .b8 partial[8];
    ld.param.u64 %rd1, [{name}_param_0];
    ld.param.u64 %rd4, [{name}_param_1];
    mov.u32 %r1, %tid.x;
"""


def listing(
    threads: int = 64,
    *,
    name: str = "fig4",
    offsets: Sequence[int] = (1, 2, 4, 8, 16),
    leaf_order: Sequence[int] | None = None,
    leaf_stride: int | None = None,
    second_offset: int | None = None,
    leaf: str = "x",
    commute: bool = False,
) -> str:
    """Return the sum of 256 floats over `threads` (64: two warps, 32: one) as PTX text.

    leaf_order permutes a thread's own elements; leaf_stride is the distance in elements between
    them (1: contiguous); second_offset replaces element 1's distance; leaf is "x", "mul+add" or
    "fma" (each leaf pair is x*x + x, once rounded or twice); commute swaps operands of adds.
    """
    per = 256 // threads
    order = list(leaf_order or range(per))
    stride = leaf_stride or 1
    base = 4 * (per if stride == 1 else 1)
    out = [HEADER.format(name=name, threads=threads)]
    out.append(f"    mul.wide.u32 %rd2, %r1, {base};\n    add.s64 %rd3, %rd1, %rd2;\n")
    reg = 0
    level = []
    for position in order:
        distance = 4 * stride * position
        if second_offset is not None and position == 1:
            distance = 4 * second_offset
        reg += 1
        out.append(f"    ld.global.f32 %f{reg}, [%rd3+{distance}];\n")
        value = reg
        if leaf == "mul+add":
            out.append(f"    mul.rn.f32 %f{reg + 1}, %f{value}, %f{value};\n")
            out.append(f"    add.rn.f32 %f{reg + 2}, %f{reg + 1}, %f{value};\n")
            reg += 2
        elif leaf == "fma":
            out.append(f"    fma.rn.f32 %f{reg + 1}, %f{value}, %f{value}, %f{value};\n")
            reg += 1
        level.append(reg)

    def add(a: int, b: int) -> int:
        nonlocal reg
        reg += 1
        first, second = (b, a) if commute else (a, b)
        out.append(f"    add.rn.f32 %f{reg}, %f{first}, %f{second};\n")
        return reg

    while len(level) > 1:
        level = [add(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    value = level[0]
    for offset in offsets:
        reg += 1
        out.append(f"    shfl.sync.bfly.b32 %f{reg}, %f{value}, {offset}, 31, -1;\n")
        value = add(value, reg)
    if threads == 64:
        value = _across_warps(out, value, reg, add)
    out.append("    setp.eq.s32 %p1, %r1, 0;\n")
    out.append(f"    @%p1 st.global.f32 [%rd4], %f{value};\n    ret;\n}}\n")
    return "".join(out)


def _across_warps(out: list[str], value: int, reg: int, add: object) -> int:
    """Each warp leaves its sum in shared memory and reads the other warp's."""
    assert callable(add)
    out.append(
        "    shr.u32 %r2, %r1, 5;\n"
        "    shl.b32 %r3, %r2, 2;\n"
        "    mov.u32 %r4, partial;\n"
        "    add.s32 %r5, %r4, %r3;\n"
        "    xor.b32 %r6, %r3, 4;\n"
        "    add.s32 %r7, %r4, %r6;\n"
        f"    st.shared.f32 [%r5], %f{value};\n"
        "    bar.sync 0;\n"
        "    ld.shared.f32 %f95, [%r7];\n"
    )
    result = add(value, 95)
    assert isinstance(result, int)
    return result
