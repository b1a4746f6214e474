"""What assemblers make of plain multiplies and adds, and of clamps, read off their machine code.

    python -m tests.ptx.device.contraction PTXAS CUOBJDUMP [ARCH]

Writes machine_code.json beside this file: for each case how many fused, multiply and add
instructions the machine code has, for each clamp how many that saturate, for each product with a
power of two how many that scale. The stored numbers are those of CUDA 13.0 for sm_90; 12.9 and 13.4
for sm_80, 90 and 100 gave the same on all cases they were run on.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STORED = Path(__file__).parent / "machine_code.json"

LOAD = ("".join(f"ld.global.f32 %f{i}, [a+{4 * i}];" for i in range(2, 8))
        + "".join(f"ld.global.f64 %fd{i}, [a+{64 + 8 * i}];" for i in range(2, 7))
        + "".join(f"ld.global.b16 %rs{i}, [a+{128 + 2 * i}];" for i in range(2, 7))
        + "".join(f"ld.global.b32 %r{i}, [a+{160 + 4 * i}];" for i in range(2, 10))
        + "setp.eq.s32 %p1, %r9, 0; ld.global.f32 %f0, [a+300]; ld.global.f32 %f1, [a+304];"
        + "ld.global.f32 %f9, [a+308]; ld.global.f64 %fd0, [a+312]; ld.global.b16 %rs0, [a+320];"
        + "ld.global.b32 %r0, [a+324];")
STORE = ("st.global.f32 [a], %f0; st.global.f32 [a+4], %f1; st.global.f64 [a+64], %fd0;"
         "st.global.b16 [a+128], %rs0; st.global.b32 [a+160], %r0; st.global.f32 [a+8], %f9; ret;")
HEAD = """.version 8.6
.target sm_{arch}
.address_size 64
.visible .entry k(.param .u64 p0)
{{
.reg .pred %p<16>; .reg .b16 %rs<16>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<20>;
.reg .f64 %fd<20>; .reg .b32 t; .reg .b64 a;
ld.param.u64 a, [p0]; mov.u32 t, %tid.x; mad.wide.u32 a, t, 512, a;
"""
LOOP = "add.s32 %r7, %r7, 1; setp.lt.s32 %p3, %r7, %r6; @%p3 bra L;"
ROUND = 'L: .pragma "nounroll"; '
P = "mul.f32 %f10, %f2, %f3; "
LIT = "mul.f32 %f10, %f2, 0f3ACA4588; "
ARG = "ld.param.f32 %f8, [p0+4]; "
Q = "mul.f32 %f11, %f4, %f5; "

CASES = {
    "basic": P + "add.f32 %f0, %f10, %f4;",
    "sub-left": P + "sub.f32 %f0, %f10, %f4;",
    "sub-right": P + "sub.f32 %f0, %f4, %f10;",
    "square": "mul.f32 %f10, %f2, %f2; add.f32 %f0, %f10, %f2;",
    "literal-factor": "mul.f32 %f10, %f2, 0f40400000; add.f32 %f0, %f10, %f4;",
    "literal-addend": P + "add.f32 %f0, %f10, 0f3F800000;",
    "literals": "mul.f32 %f10, 0f40400000, 0f40000000; add.f32 %f0, %f10, %f4;",
    "moved-literal": "mov.f32 %f12, 0f40400000; mul.f32 %f10, %f2, %f12; add.f32 %f0, %f10, %f4;",
    "mul-rn": "mul.rn.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4;",
    "add-rn": P + "add.rn.f32 %f0, %f10, %f4;",
    "chain": P + "add.f32 %f11, %f10, %f4; mul.f32 %f12, %f11, %f5; add.f32 %f0, %f12, %f6;",
    "two-adds": P + "add.f32 %f0, %f10, %f4; add.f32 %f1, %f10, %f5;",
    "four-adds": P + "add.f32 %f0, %f10, %f4; add.f32 %f1, %f10, %f5; add.f32 %f9, %f10, %f6;"
    " add.f32 %f12, %f10, %f7; st.global.f32 [a+12], %f12;",
    "stored-too": P + "add.f32 %f0, %f10, %f4; mov.f32 %f1, %f10;",
    "compared-too": P + "add.f32 %f0, %f10, %f4; setp.gt.f32 %p4, %f10, %f5;"
    " selp.f32 %f1, %f5, %f6, %p4;",
    "dead-compare": P + "add.f32 %f0, %f10, %f4; setp.gt.f32 %p4, %f10, %f5;",
    "dead-add": P + "add.f32 %f0, %f10, %f4; add.f32 %f12, %f10, %f5;",
    "add-and-add-rn": P + "add.f32 %f0, %f10, %f4; add.rn.f32 %f1, %f10, %f5;",
    "add-and-fma": P + "add.f32 %f0, %f10, %f4; fma.rn.f32 %f1, %f5, %f6, %f10;",
    "twice": P + "add.f32 %f0, %f10, %f10;",
    "neg": P + "neg.f32 %f11, %f10; add.f32 %f0, %f11, %f4;",
    "neg-and-plain": P + "neg.f32 %f11, %f10; add.f32 %f0, %f11, %f4; add.f32 %f1, %f10, %f5;",
    "abs": P + "abs.f32 %f11, %f10; add.f32 %f0, %f11, %f4;",
    "mov": P + "mov.f32 %f11, %f10; add.f32 %f0, %f11, %f4;",
    "select": P + "selp.f32 %f11, %f10, %f5, %p1; add.f32 %f0, %f11, %f4;",
    "ftz": "mul.ftz.f32 %f10, %f2, %f3; add.ftz.f32 %f0, %f10, %f4;",
    "ftz-neg": "mul.ftz.f32 %f10, %f2, %f3; neg.ftz.f32 %f11, %f10; add.ftz.f32 %f0, %f11, %f4;",
    "ftz-mul": "mul.ftz.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4;",
    "ftz-add": P + "add.ftz.f32 %f0, %f10, %f4;",
    "ftz-mixed": P + "add.f32 %f0, %f10, %f4; add.ftz.f32 %f1, %f10, %f5;",
    "sat-add": P + "add.sat.f32 %f0, %f10, %f4;",
    "sat-mul": "mul.sat.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4;",
    "guarded-add": P + "@%p1 add.f32 %f0, %f10, %f4;",
    "guarded-adds": P + "@%p1 add.f32 %f0, %f10, %f4; @!%p1 add.f32 %f0, %f10, %f5;",
    "guarded-both": "@%p1 mul.f32 %f10, %f2, %f3; @%p1 add.f32 %f0, %f10, %f4;",
    "branch": P + "@%p1 bra L; add.f32 %f0, %f10, %f4; L:",
    "branch-over": P + "@%p1 bra L; bar.sync 0; st.global.f32 [a+12], %f5; L:"
    " add.f32 %f0, %f10, %f4;",
    "small-branch-over": P + "@%p1 bra L; add.s32 %r0, %r7, 1; L: add.f32 %f0, %f10, %f4;",
    "other-block-too": P + "add.f32 %f0, %f10, %f4; @%p1 bra L; add.f32 %f1, %f10, %f5;"
    " bar.sync 0; L:",
    "both-sides-of-a-branch": P + "@%p1 bra L; add.f32 %f0, %f10, %f4; bra.uni M;"
    " L: add.f32 %f0, %f10, %f5; M:",
    "jump": P + "bra.uni L; L: add.f32 %f0, %f10, %f4;",
    "barrier": P + "bar.sync 0; add.f32 %f0, %f10, %f4;",
    "products-first": P + Q + "add.f32 %f0, %f10, %f11;",
    "products-second": P + Q + "add.f32 %f0, %f11, %f10;",
    "products-sub": P + Q + "sub.f32 %f0, %f10, %f11;",
    "products-first-stored": P + Q + "add.f32 %f0, %f10, %f11; mov.f32 %f1, %f10;",
    "products-second-stored": P + Q + "add.f32 %f0, %f10, %f11; mov.f32 %f1, %f11;",
    "product-written-twice": P + "mul.f32 %f11, %f2, %f3; add.f32 %f0, %f11, %f10;",
    "equal-product-stored": P + "add.f32 %f0, %f10, %f4; mul.f32 %f11, %f2, %f3;"
    " mov.f32 %f1, %f11;",
    "dot-of-two-pairs": P + Q + "mul.f32 %f12, %f6, %f7; mul.f32 %f13, %f2, %f7;"
    " add.f32 %f14, %f10, %f11; add.f32 %f15, %f12, %f13; add.f32 %f0, %f14, %f15;",
    "in-loop": "L: mul.f32 %f10, %f0, %f3; add.f32 %f0, %f10, %f4; bar.sync 0; " + LOOP,
    "invariant-in-loop": "L: mul.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f0; bar.sync 0; " + LOOP,
    "before-loop": P + "L: add.f32 %f0, %f10, %f0; bar.sync 0; " + LOOP,
    "f64": "mul.f64 %fd7, %fd2, %fd3; add.f64 %fd0, %fd7, %fd4;",
    "f64-sub-neg": "mul.f64 %fd7, %fd2, %fd3; neg.f64 %fd8, %fd7; sub.f64 %fd0, %fd4, %fd8;",
    "f64-products": "mul.f64 %fd7, %fd2, %fd3; mul.f64 %fd8, %fd4, %fd5; add.f64 %fd0, %fd7, %fd8;",
    "f64-stored": "mul.f64 %fd7, %fd2, %fd3; add.f64 %fd0, %fd7, %fd4; st.global.f64 [a+72], %fd7;",
    "f16": "mul.f16 %rs7, %rs2, %rs3; add.f16 %rs0, %rs7, %rs4;",
    "f16-sat": "mul.f16 %rs7, %rs2, %rs3; add.sat.f16 %rs0, %rs7, %rs4;",
    "bf16": "mul.bf16 %rs7, %rs2, %rs3; add.bf16 %rs0, %rs7, %rs4;",
    "f16x2": "mul.f16x2 %r10, %r2, %r3; add.f16x2 %r0, %r10, %r4;",
    "bf16x2-sub": "mul.bf16x2 %r10, %r2, %r3; sub.bf16x2 %r0, %r10, %r4;",
    "f16x2-neg": "mul.f16x2 %r10, %r2, %r3; neg.f16x2 %r11, %r10; add.f16x2 %r0, %r11, %r4;",
    "bf16x2-neg": "mul.bf16x2 %r10, %r2, %r3; neg.bf16x2 %r11, %r10; add.bf16x2 %r0, %r11, %r4;",
    "f16x2-rn": "mul.rn.f16x2 %r10, %r2, %r3; add.rn.f16x2 %r0, %r10, %r4;",
    "f16x2-stored": "mul.f16x2 %r10, %r2, %r3; add.f16x2 %r0, %r10, %r4;"
    " st.global.b32 [a+8], %r10;",
    "f16x2-half": "mul.f16x2 %r10, %r2, %r3; mov.b32 {%rs7, %rs8}, %r10; add.f16 %rs0, %rs7, %rs4;",
    "f16x2-repacked": "mul.f16x2 %r10, %r2, %r3; mov.b32 {%rs7, %rs8}, %r10;"
    " mov.b32 %r11, {%rs7, %rs8}; add.f16x2 %r0, %r11, %r4;",
    "f16x2-products": "mul.f16x2 %r10, %r2, %r3; mul.f16x2 %r11, %r4, %r5;"
    " add.f16x2 %r0, %r10, %r11;",
    "div-literal": "div.full.f32 %f0, %f2, 0f42C80000;",
    "div-literal-add": "div.full.f32 %f10, %f2, 0f42C80000; add.f32 %f0, %f10, 0f3727C5AC;",
    "div-add": "div.full.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4;",
    "div-add-rn": "div.full.f32 %f10, %f2, %f3; add.rn.f32 %f0, %f10, %f4;",
    "div-sub": "div.full.f32 %f10, %f2, %f3; sub.f32 %f0, %f4, %f10;",
    "div-two-adds": "div.full.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4; sub.f32 %f1, %f5, %f10;",
    "div-ftz": "div.full.ftz.f32 %f10, %f2, %f3; add.ftz.f32 %f0, %f10, %f4;",
    "div-ftz-add": "div.full.ftz.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4;",
    "div-stored": "div.full.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4; mov.f32 %f1, %f10;",
    "div-first": "div.full.f32 %f10, %f2, %f3; " + Q + "add.f32 %f0, %f10, %f11;",
    "div-second": "div.full.f32 %f10, %f2, %f3; " + Q + "add.f32 %f0, %f11, %f10;",
    "div-mul": "div.full.f32 %f10, %f2, %f3; mul.f32 %f11, %f10, %f4; add.f32 %f0, %f11, %f5;",
    "divapprox-add": "div.approx.f32 %f10, %f2, %f3; add.f32 %f0, %f10, %f4;",
    "rcp-add": "rcp.approx.f32 %f10, %f2; add.f32 %f0, %f10, %f4;",
    "rcp-ftz-add": "rcp.approx.ftz.f32 %f10, %f2; add.f32 %f0, %f10, %f4;",
    "rsqrt-add": "rsqrt.approx.f32 %f10, %f2; add.f32 %f0, %f10, %f4;",
    "ex2-add": "ex2.approx.f32 %f10, %f2; add.f32 %f0, %f10, %f4;",
    "sqrt-add": "sqrt.approx.f32 %f10, %f2; add.f32 %f0, %f10, %f4;",
    "tanh-add": "mul.f32 %f11, %f2, %f3; tanh.approx.f32 %f10, %f11; add.f32 %f0, %f10, %f4;",
    # A factor that costs no register: the product is computed anew where its sums are.
    "far-literal": LIT + "@%p1 bra L; add.f32 %f0, %f10, %f4; L:",
    "far-argument": ARG + "mul.f32 %f10, %f2, %f8; @%p1 bra L; add.f32 %f0, %f10, %f4; L:",
    "far-argument-negated": ARG + "neg.f32 %f11, %f8; mul.f32 %f10, %f2, %f11; @%p1 bra L;"
                            " add.f32 %f0, %f10, %f4; L:",
    "far-argument-doubled": ARG + "add.f32 %f11, %f8, %f8; mul.f32 %f10, %f2, %f11; @%p1 bra L;"
                            " add.f32 %f0, %f10, %f4; L:",
    "far-register": P + "@%p1 bra L; add.f32 %f0, %f10, %f4; L:",
    "far-literal-rounded": "mul.rn.f32 %f10, %f2, 0f3ACA4588; @%p1 bra L;"
                           " add.f32 %f0, %f10, %f4; L:",
    "far-literal-flushed": "mul.ftz.f32 %f10, %f2, 0f3ACA4588; @%p1 bra L;"
                           " add.f32 %f0, %f10, %f4; L:",
    "far-literal-negated": LIT + "neg.f32 %f8, %f10; @%p1 bra L; add.f32 %f0, %f8, %f4; L:",
    "far-literal-join": LIT + "@%p1 bra L; ld.global.f32 %f4, [a+400]; st.global.f32 [a], %f2;"
                        " bar.sync 0; L: add.f32 %f0, %f10, %f4;",
    "far-literal-near-and-far": LIT + "add.f32 %f1, %f10, %f5; @%p1 bra L;"
                                " sub.f32 %f0, %f4, %f10; L:",
    "far-register-near-and-far": P + "add.f32 %f1, %f10, %f5; @%p1 bra L;"
                                 " sub.f32 %f0, %f4, %f10; L:",
    "far-literal-kept": LIT + "mov.f32 %f1, %f10; @%p1 bra L; add.f32 %f0, %f10, %f4; L:",
    "far-literal-maximum": LIT + "@%p1 bra L; max.f32 %f1, %f10, %f5; add.f32 %f0, %f10, %f4; L:",
    "far-literal-addend": LIT + "@%p1 bra L; fma.rn.f32 %f0, %f4, %f5, %f10; L:",
    "far-literal-and-register": LIT + "mul.f32 %f8, %f4, %f5; @%p1 bra L; bar.sync 0;"
                                " add.f32 %f0, %f8, %f10; L:",
    "far-literal-loop": LIT + ROUND + "sub.f32 %f0, %f0, %f10; " + LOOP,
    "far-register-loop": P + ROUND + "sub.f32 %f0, %f0, %f10; " + LOOP,
    "far-literal-loop-overwritten": LIT + ROUND + "add.f32 %f0, %f0, %f10;"
                                    " ld.global.f32 %f2, [a+404]; max.f32 %f1, %f1, %f2; " + LOOP,
    "far-literal-double": "mul.f64 %fd1, %fd2, 0d3FF4CCCCCCCCCCCD; @%p1 bra L;"
                          " add.f64 %fd0, %fd1, %fd3; L:",
    "square-magnitude": "mul.f32 %f10, %f2, %f2; abs.f32 %f11, %f10; add.f32 %f0, %f11, %f4;",
    "product-magnitude": P + "abs.f32 %f11, %f10; add.f32 %f0, %f11, %f4;",
    "far-quotient-literal": "div.full.f32 %f10, %f2, 0f40400000; @%p1 bra L;"
                            " add.f32 %f0, %f10, %f4; L:",
}


ONE, ZERO, MINUS_ZERO = "0f3F800000", "0f00000000", "0f80000000"
HALF = "mov.b16 %rs8, 0x3C00; mov.b16 %rs9, 0; "
HALVES = "mov.b32 %r10, 0x3C003C00; mov.b32 %r11, 0; "
LEAST = f"min.f32 %f10, %f2, {ONE}; "
MOST = f"max.f32 %f0, %f10, {ZERO};"

#: a minimum with 1 and then a maximum with 0, or what looks like it
CLAMPS = {
    "plain": LEAST + MOST,
    "swapped": f"min.f32 %f10, {ONE}, %f2; max.f32 %f0, {ZERO}, %f10;",
    "first-stored": LEAST + MOST + " mov.f32 %f1, %f10;",
    "flushed-first": f"min.ftz.f32 %f10, %f2, {ONE}; " + MOST,
    "flushed-last": LEAST + f"max.ftz.f32 %f0, %f10, {ZERO};",
    "minus-zero": LEAST + f"max.f32 %f0, %f10, {MINUS_ZERO};",
    "minus-zero-first": f"max.f32 %f10, %f2, {MINUS_ZERO}; min.f32 %f0, %f10, {ONE};",
    "of-a-sum": f"add.rn.f32 %f11, %f2, %f3; min.f32 %f10, %f11, {ONE}; " + MOST,
    "of-a-product": f"mul.rn.f32 %f11, %f2, %f3; min.f32 %f10, %f11, {ONE}; " + MOST,
    "of-a-minimum": f"min.f32 %f11, %f2, %f3; min.f32 %f10, %f11, {ONE}; " + MOST,
    "sum-stored": f"add.rn.f32 %f1, %f2, %f3; min.f32 %f10, %f1, {ONE}; " + MOST,
    "moved-literal": f"mov.f32 %f8, {ONE}; min.f32 %f10, %f2, %f8; " + MOST,
    "integer-literal": "mov.u32 %r10, 1; cvt.rn.f32.s32 %f8, %r10; min.f32 %f10, %f2, %f8; " + MOST,
    "moved": LEAST + f"mov.f32 %f11, %f10; max.f32 %f0, %f11, {ZERO};",
    "through-a-word": LEAST + f"mov.b32 %r10, %f10; mov.b32 %f11, %r10; max.f32 %f0, %f11, {ZERO};",
    "two-signs": LEAST + f"neg.f32 %f11, %f10; neg.f32 %f12, %f11; max.f32 %f0, %f12, {ZERO};",
    "one-sign": f"neg.f32 %f8, %f2; max.f32 %f10, %f8, 0fBF800000; neg.f32 %f11, %f10;"
                f" max.f32 %f0, %f11, {ZERO};",
    "magnitude": LEAST + f"abs.f32 %f11, %f10; max.f32 %f0, %f11, {ZERO};",
    "guard-last": LEAST + "mov.f32 %f0, %f10; @%p1 " + MOST,
    "choice-between": LEAST + f"selp.f32 %f11, %f10, %f3, %p1; max.f32 %f0, %f11, {ZERO};",
    "other-block": LEAST + "@%p1 bra L; st.global.f32 [a+404], %f3; bar.sync 0; L: " + MOST,
    "another-minimum": LEAST + f"min.f32 %f11, %f10, %f3; max.f32 %f0, %f11, {ZERO};",
    "another-maximum": LEAST + f"max.f32 %f11, %f10, %f3; max.f32 %f0, %f11, {ZERO};",
    "nan-first": f"min.NaN.f32 %f10, %f2, {ONE}; " + MOST,
    "nan-last": LEAST + f"max.NaN.f32 %f0, %f10, {ZERO};",
    "nan-both": f"min.NaN.f32 %f10, %f2, {ONE}; max.NaN.f32 %f0, %f10, {ZERO};",
    "two": f"min.f32 %f10, %f2, 0f40000000; {MOST}",
    "half": HALF + "min.f16 %rs10, %rs2, %rs8; max.f16 %rs0, %rs10, %rs9;",
    "half-through-a-word": HALF + "min.f16 %rs10, %rs2, %rs8; mov.b32 %r10, {%rs10, %rs10};"
                           " mov.b32 {%rs11, %rs12}, %r10; max.f16 %rs0, %rs11, %rs9;",
    "half-minus-zero": HALF + "mov.b16 %rs11, 0x8000; max.f16 %rs10, %rs2, %rs11;"
                       " min.f16 %rs0, %rs10, %rs8;",
    "bfloat": "mov.b16 %rs8, 0x3F80; mov.b16 %rs9, 0; min.bf16 %rs10, %rs2, %rs8;"
              " max.bf16 %rs0, %rs10, %rs9;",
    "halves": HALVES + "min.f16x2 %r12, %r2, %r10; max.f16x2 %r0, %r12, %r11;",
    "double": "min.f64 %fd1, %fd2, 0d3FF0000000000000; max.f64 %fd0, %fd1, 0d0000000000000000;",
    **{f"choice-{c}-{'x' if x == '%f2' else 'one'}":
       f"setp.{c}.f32 %p3, %f2, {ONE}; selp.f32 %f10, {x}, {y}, %p3; {MOST}"
       for c in ("lt", "le", "ltu", "gt", "ge", "geu", "gtu")
       for x, y in (("%f2", ONE), (ONE, "%f2"))},
    "choice-mirrored": f"setp.gt.f32 %p3, {ONE}, %f2; selp.f32 %f10, %f2, {ONE}, %p3; {MOST}",
    **{f"last-{c}-{'x' if x == '%f10' else 'zero'}":
       f"{LEAST}setp.{c}.f32 %p3, %f10, {ZERO}; selp.f32 %f0, {x}, {y}, %p3;"
       for c in ("gt", "ge", "lt", "gtu", "leu", "ltu")
       for x, y in (("%f10", ZERO), (ZERO, "%f10"))},
}
CLAMPS = {f"clamp-{name}": body for name, body in CLAMPS.items()}


T, Q = "mul.f32 %f10, %f2, %f3; ", "0f3E800000"

#: a product and then one with a power of two
SCALES = {
    **{f"by-{name}": f"{T}mul.f32 %f0, %f10, {bits};" for name, bits in {
        "8": "0f41000000", "4": "0f40800000", "2": "0f40000000", "1/2": "0f3F000000", "1/4": Q,
        "1/8": "0f3E000000", "16": "0f41800000", "1/16": "0f3D800000", "-2": "0fC0000000",
        "3": "0f40400000"}.items()},
    "rounded-last": f"{T}mul.rn.f32 %f0, %f10, {Q};",
    "rounded-first": f"mul.rn.f32 %f10, %f2, %f3; mul.f32 %f0, %f10, {Q};",
    "cut-last": f"{T}mul.rz.f32 %f0, %f10, {Q};",
    "literal-first": f"mul.f32 %f10, %f2, {Q}; mul.f32 %f0, %f10, %f3;",
    "swapped": f"{T}mul.f32 %f0, {Q}, %f10;",
    "moved-literal": f"{T}mov.f32 %f11, {Q}; mul.f32 %f0, %f10, %f11;",
    "moved": f"{T}mov.f32 %f11, %f10; mul.f32 %f0, %f11, {Q};",
    "one-sign": f"{T}neg.f32 %f11, %f10; mul.f32 %f0, %f11, {Q};",
    "stored": f"{T}mul.f32 %f0, %f10, {Q}; mov.f32 %f1, %f10;",
    "two-powers": f"{T}mul.f32 %f0, %f10, {Q}; mul.f32 %f1, %f10, 0f3F000000;",
    "other-block": f"{T}@%p1 bra L; st.global.f32 [a+404], %f3; bar.sync 0;"
                   f" L: mul.f32 %f0, %f10, {Q};",
    "guard-last": f"{T}mov.f32 %f0, %f4; @%p1 mul.f32 %f0, %f10, {Q};",
    "choice": f"{T}selp.f32 %f11, %f10, %f4, %p1; mul.f32 %f0, %f11, {Q};",
    "chain": f"{T}mul.f32 %f11, %f10, {Q}; mul.f32 %f0, %f11, {Q};",
    "saturated": f"{T}mul.sat.f32 %f0, %f10, {Q};",
    "flushed-first": f"mul.ftz.f32 %f10, %f2, %f3; mul.f32 %f0, %f10, {Q};",
    "flushed-last": f"{T}mul.ftz.f32 %f0, %f10, {Q};",
    "quotient-literal": f"{T}div.full.f32 %f0, %f10, 0f40800000;",
    "of-a-literal": f"mul.f32 %f10, %f2, 0f40400000; mul.f32 %f0, %f10, {Q};",
    "square": f"mul.f32 %f10, %f2, %f2; mul.f32 %f0, %f10, {Q};",
    "then-a-sum": f"{T}mul.f32 %f11, %f10, {Q}; add.f32 %f0, %f11, %f4;",
    "then-a-rounded-sum": f"{T}mul.f32 %f11, %f10, {Q}; add.rn.f32 %f0, %f11, %f4;",
    "then-a-sum-of-a-rounded": f"{T}mul.rn.f32 %f11, %f10, {Q}; add.f32 %f0, %f11, %f4;",
    "sum": f"add.f32 %f10, %f2, %f3; mul.f32 %f0, %f10, {Q};",
    "fused": f"fma.rn.f32 %f10, %f2, %f3, %f4; mul.f32 %f0, %f10, {Q};",
    "exponential": f"ex2.approx.f32 %f10, %f2; mul.f32 %f0, %f10, {Q};",
    "reciprocal": f"rcp.approx.f32 %f10, %f2; mul.rn.f32 %f0, %f10, {Q};",
    "reciprocal-flushed": f"rcp.approx.ftz.f32 %f10, %f2; mul.rn.f32 %f0, %f10, {Q};",
    "quotient": f"div.full.f32 %f10, %f2, %f3; mul.rn.f32 %f0, %f10, {Q};",
    "quotient-approximate": f"div.approx.f32 %f10, %f2, %f3; mul.rn.f32 %f0, %f10, {Q};",
    "half": "mov.b16 %rs8, 0x3400; mul.f16 %rs10, %rs2, %rs3; mul.f16 %rs0, %rs10, %rs8;",
    "double": "mul.f64 %fd1, %fd2, %fd3; mul.f64 %fd0, %fd1, 0d3FD0000000000000;",
}
SCALES = {f"scale-{name}": body for name, body in SCALES.items()}


def source(body: str, arch: str = "90") -> str:
    """The kernel of one case."""
    return HEAD.format(arch=arch) + LOAD + "\n" + body + "\n" + STORE + "\n}\n"


def count(listing: str) -> dict[str, int]:
    """Fused, multiply and add instructions of a machine code listing.

    Half precision multiplies are printed as HFMA2 with a zero addend, its constants as HFMA2 with
    two zero factors; scaling steps of approximations (literal factors under a predicate) are left
    out, as are the unrolled copies that differ in their predicate only.
    """
    out = {"fma": 0, "mul": 0, "add": 0}
    for line in listing.splitlines():
        match = re.search(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d\s+)?([FDH])(FMA|MUL|ADD)(2?)\S* (.*?);",
                          line)
        scaling = r"-?RZ\S*, -?RZ|, (0\.25|16777216|4096|0\.5)\b|, 0\.000244"
        if not match or re.search(scaling, line):
            continue
        kind = match[2].lower()
        if match[1] == "H" and kind == "fma" and "-RZ" in match[4]:
            kind = "mul"
        if "@!P" in line and re.search(r"FMUL R\d+, (R\d+), \1\b", line):
            continue
        out[kind] += 1
    return out


def saturating(listing: str) -> int:
    """How many instructions of a machine code listing saturate."""
    return len(re.findall(r"\b(?:[FH](?:ADD|MUL|FMA)2?)(?:\.\w+)*\.SAT\b", listing))


def scaling(listing: str) -> int:
    """How many multiplies of a machine code listing scale their result."""
    return len(re.findall(r"\bFMUL(?:\.\w+)*\.[DM][248]\b", listing))


def main(ptxas: str, cuobjdump: str, arch: str = "90") -> None:
    """Assemble every case and store what its machine code has."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        for name, body in {**CASES, **CLAMPS, **SCALES}.items():
            text.write_text(source(body, arch))
            subprocess.run([ptxas, f"-arch=sm_{arch}", "-o", binary, text], check=True)
            listing = subprocess.run([cuobjdump, "-sass", binary], capture_output=True, text=True,
                                     check=True).stdout
            found[name] = (count(listing) if name in CASES else
                           {"sat": saturating(listing)} if name in CLAMPS else
                           {"scaled": scaling(listing)})
    STORED.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
