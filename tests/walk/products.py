"""A product by a warp group, in shared memory, written out of a few knobs."""

from __future__ import annotations

from tests.walk.kernels import text

__all__ = ["COMMIT", "FENCE", "STEP", "WAIT", "looped", "product"]

STEP = ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f10, %f11, %f12, %f13}, "
        "%rd20, %rd21, %p15, 1, 1, 0, 0;")
FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"

_PLACES = """
    mov.u32 %r30, tile;
    shl.b32 %r31, %r2, 4;
    add.s32 %r32, %r30, %r31;
    shl.b32 %r33, %r2, 1;
    add.s32 %r34, %r30, %r33;
    mul.wide.u32 %rd10, %r2, 16;
    add.s64 %rd11, %rd1, %rd10;
    mul.wide.u32 %rd12, %r2, 2;
    add.s64 %rd13, %rd2, %rd12;
    bfe.u32 %r35, %r30, 4, 14;
    cvt.u64.u32 %rd22, %r35;
    or.b64 %rd20, %rd22, 68720001024;
    add.s64 %rd21, %rd20, 128;
    setp.eq.s32 %p15, 0, 0;
    mov.f32 %f10, 0f00000000;
    mov.f32 %f11, %f10;
    mov.f32 %f12, %f10;
    mov.f32 %f13, %f10;
    mov.u32 %r11, 0;"""

_FETCH = """
    ld.global.b32 %r20, [%rd11];
    ld.global.b32 %r21, [%rd11+4];
    ld.global.b32 %r22, [%rd11+8];
    ld.global.b32 %r23, [%rd11+12];
    ld.global.b16 %h1, [%rd13];
    st.shared.v4.b32 [%r32], {%r20, %r21, %r22, %r23};
    st.shared.b16 [%r34+2048], %h1;
    fence.proxy.async.shared::cta;
    bar.sync 0;"""

_OUT = """
    mul.wide.u32 %rd14, %r3, 2048;
    add.s64 %rd15, %rd3, %rd14;
    add.s64 %rd16, %rd15, %rd10;
    st.global.v4.f32 [%rd16], {%f10, %f11, %f12, %f13};"""


def product(after: str = f"{COMMIT}\n{WAIT}", step: str = STEP, before: str = "",
            end: str = "") -> str:
    """out[block] = a b, 64 x 16 by 16 x 8; `after`: what follows the step, then `end`."""
    return text(f"""{_PLACES}
    setp.gt.s32 %p7, %r1, 7;
    setp.gt.s32 %p8, %r1, 9;
    {before}{_FETCH}
    {FENCE}
    {step}
    {after}
    {end}{_OUT}""", 128)


def looped(commit: str = COMMIT, wait: str = WAIT, last: str = "", test: str = "@!%p1 bra $done;",
           step: str = STEP) -> str:
    """The sum of n such products; `last`: what stands behind the loop."""
    return text(f"""{_PLACES}
    setp.gt.s32 %p1, %r1, 0;
    setp.gt.s32 %p7, %r1, 7;
    {test}
$loop:
    bar.sync 0;{_FETCH}
    {FENCE}
    {step}
    {commit}
    {wait}
    add.s64 %rd11, %rd11, 2048;
    add.s64 %rd13, %rd13, 256;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p4, %r11, %r1;
    @%p4 bra $loop;
$done:
    {last}{_OUT}""", 128)
