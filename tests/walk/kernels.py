"""Small PTX kernels for the walk's tests, written out of a body and a few knobs."""

from __future__ import annotations

from checker.lower import lower
from checker.parse import parse
from checker.tree import WalkResult, same
from checker.walk import walk

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(
    .param .u64 .ptr .global .align 16 k_param_0,
    .param .u64 .ptr .global .align 16 k_param_1,
    .param .u64 .ptr .global .align 16 k_param_2,
    .param .u32 k_param_3
)
.reqntid {threads}
{{
    .reg .pred %p<16>;
    .reg .b16 %h<32>;
    .reg .b32 %r<64>;
    .reg .f32 %f<64>;
    .reg .b64 %rd<32>;
    .shared .align 16 .b8 tile[4096];
    ld.param.u64 %rd1, [k_param_0];
    ld.param.u64 %rd2, [k_param_1];
    ld.param.u64 %rd3, [k_param_2];
    ld.param.u32 %r1, [k_param_3];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
"""


def text(body: str, threads: int = 64) -> str:
    """Return a whole kernel: a -> %rd1, b -> %rd2, out -> %rd3, n -> %r1, tid %r2, block %r3."""
    return HEAD.format(threads=threads) + body + "\n    ret;\n}\n"


def walked(source: str) -> WalkResult:
    """Return the walk of a PTX text with one kernel."""
    return walk(lower(parse(source, isa="ptx")))


def equal(a: str, b: str) -> bool:
    """Tell whether two PTX texts are proved equal; both must be modelled whole."""
    one, two = walked(a), walked(b)
    assert one.modelled, (one.gave_up, one.findings, one.opaque)
    assert two.modelled, (two.gave_up, two.findings, two.opaque)
    proved, reasons = same(one, two)
    assert proved == (not reasons)
    assert proved == (one.digest == two.digest), reasons
    return proved


def elementwise(op: str, threads: int = 64, each: int = 1, guard: str = "lt",
                order: str = "strided", skip: int = -1, shift: int = 0) -> str:
    """out[i] = op(a[i + shift], b[i]); `each` elements a thread, strided or next to each other."""
    tile = threads * each
    lines = []
    for j in range(each):
        lines.append(f"    mul.lo.s32 %r10, %r3, {tile};")
        if order == "strided":
            lines.append(f"    add.s32 %r11, %r2, {threads * j};")
        else:
            lines.append(f"    mul.lo.s32 %r11, %r2, {each};\n    add.s32 %r11, %r11, {j};")
        lines.append("    add.s32 %r12, %r10, %r11;")
        lines.append(f"    setp.{guard}.s32 %p1, %r12, %r1;")
        lines.append("    mul.wide.s32 %rd10, %r12, 4;")
        for n, base in enumerate(("%rd1", "%rd2"), 1):
            lines.append(f"    add.s64 %rd11, {base}, %rd10;")
            lines.append(f"    mov.f32 %f{n}, 0f00000000;")
            lines.append(f"    @%p1 ld.global.f32 %f{n}, [%rd11+{4 * shift if n == 1 else 0}];")
        lines.append(f"    {op}")
        if j != skip:
            lines.append("    add.s64 %rd12, %rd3, %rd10;")
            lines.append("    @%p1 st.global.f32 [%rd12], %f3;")
    return text("\n".join(lines), threads)
