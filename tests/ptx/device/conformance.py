"""Instruction conformance: what a real GPU computes for single instructions, and the comparison.

    python -m tests.ptx.device.conformance build DIR     (needs ptxas; writes cubin, inputs, names)
    python tests/ptx/device/conformance.py run DIR       (needs a GPU driver and numpy only)
    python -m tests.ptx.device.conformance check DIR     (replays every case in the domain bytes)

`check` writes verified.json: the digest of the replayed words of each case that agrees with the
GPU (an H200, driver 580), so that a test can see a changed meaning without a GPU. Known not to
agree, and undefined in the manual: division by zero, 64-bit bit fields with operands over 255.

One kernel per case, 256 threads: every register is loaded from the input, the case runs, every
register that a case may write is stored. Cases are the golden files' instructions and `EXTRA`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

THREADS, IN_WORDS, OUT_WORDS = 256, 96, 40
VERIFIED = Path(__file__).parent / "verified.json"
GOLDEN = Path(__file__).parent.parent / "golden"
SKIP = ("bulk", "tensor", "opaque", "sync", "memory", "control")
# Shared memory helpers: `sm` holds each thread's 32 bytes; %r30 is the thread's own slot.
SLOT = ("mov.u32 %r30, %tid.x; mov.u32 %r31, sm; mad.lo.s32 %r30, %r30, 32, %r31; "
        "st.shared.v4.b32 [%r30], {%r1, %r2, %r3, %r4}; "
        "st.shared.v4.b32 [%r30+16], {%r5, %r6, %r7, %r8}; bar.sync 0; ")
EXTRA = [
    SLOT + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1,%r2,%r3}, [%r30];",
    SLOT + "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r0,%r1,%r2,%r3}, [%r30+16];",
    SLOT + "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0,%r1}, [%r30];",
    SLOT + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r30];",
    SLOT + "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r30], {%r1,%r2,%r3,%r4}; bar.sync 0; "
    "ld.shared.v4.b32 {%r0,%r1,%r2,%r3}, [%r30];",
    SLOT + "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r30+16], {%r1,%r2}; bar.sync 0; "
    "ld.shared.v4.b32 {%r0,%r1,%r2,%r3}, [%r30+16];",
    SLOT + "ld.shared.s8 %r0, [%r30+1]; ld.shared.u16 %r1, [%r30+2]; ld.shared.u8 %rs0, [%r30+3];"
    " ld.shared.s16 %r2, [%r30+6]; ld.shared.v2.u8 {%rs1, %rs2}, [%r30+8];",
    SLOT + "st.shared.b8 [%r30+2], %r9; st.shared.b16 [%r30+4], %r8; st.shared.u8 [%r30], %rs1; "
    "ld.shared.v2.b32 {%r0, %r1}, [%r30];",
    *[SLOT + f"atom.shared.{op} %r0, [%r30], %r9; ld.shared.b32 %r1, [%r30];"
      for op in ("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "exch.b32",
                 "inc.u32", "dec.u32", "min.u32", "max.s32")],
    SLOT + "atom.shared.cas.b32 %r0, [%r30], %r1, %r9; ld.shared.b32 %r1, [%r30];",
    SLOT + "atom.shared.add.u64 %rd0, [%r30+8], %rd1; ld.shared.b64 %rd1, [%r30+8];",
    SLOT + "cvta.shared.u64 %rd4, sm; ld.b32 %r0, [%rd4+20]; isspacep.shared %p0, %rd4; "
    "isspacep.global %p1, %rd4; mov.b64 %rd4, 0; mov.b64 %rd5, 0;",
    "bar.red.popc.u32 %r0, 0, %p1; bar.red.or.pred %p0, 0, %p2; bar.red.and.pred %p1, 0, !%p1;",
    "add.cc.u32 %r0, %r1, %r2; addc.cc.u32 %r1, %r3, %r4; addc.u32 %r2, %r5, %r6;",
    "sub.cc.u32 %r0, %r1, %r2; subc.cc.u32 %r1, %r3, %r4; subc.u32 %r2, %r5, %r6;",
    "mad.lo.cc.u32 %r0, %r1, %r2, %r3; madc.hi.cc.u32 %r1, %r4, %r5, %r6; "
    "madc.hi.u32 %r2, %r7, %r8, %r9;",
    "add.cc.u64 %rd0, %rd1, %rd2; addc.u64 %rd1, %rd3, %rd4;",
    *[f"prmt.b32.{m} %r0, %r1, %r2, %r3;" for m in ("f4e", "b4e", "ecl", "ecr", "rc16")],
    "prmt.b32 %r0, %r1, %r2, %r3;",
    *[f"bfe.{t} %r0, %r1, %r2, %r3;" for t in ("u32", "s32")],
    "bfe.s64 %rd0, %rd1, %r2, %r3;", "bfi.b32 %r0, %r1, %r2, %r3, %r4;",
    "bfi.b64 %rd0, %rd1, %rd2, %r3, %r4;",
    "shl.b16 %rs0, %rs1, %r2;", "shr.s16 %rs0, %rs1, %r2;", "shr.s64 %rd0, %rd1, %r2;",
    "shl.b32 %r0, %r1, %r2;", "shr.u32 %r0, %r1, %r2;",
    *[f"shf.{d}.{m}.b32 %r0, %r1, %r2, %r3;" for d in "lr" for m in ("clamp", "wrap")],
    *[f"szext.{m}.{t} %r0, %r1, %r2;" for m in ("clamp", "wrap") for t in ("u32", "s32")],
    *[f"lop3.b32 %r0, %r1, %r2, %r3, {lut};" for lut in ("0xe8", "0x1b", "0x3a")],
    *[f"bfind{s}.{t} %r0, %r1;" for s in ("", ".shiftamt") for t in ("u32", "s32")],
    "bfind.s64 %r0, %rd1;", "clz.b64 %r0, %rd1;", "brev.b64 %rd0, %rd1;",
    *[f"dp4a.{a}.{b} %r0, %r1, %r2, %r3;" for a in ("u32", "s32") for b in ("u32", "s32")],
    *[f"dp2a.{h}.{a}.{b} %r0, %r1, %r2, %r3;" for h in ("lo", "hi")
      for a, b in (("u32", "u32"), ("s32", "u32"), ("u32", "s32"))],
    "mad24.hi.u32 %r0, %r1, %r2, %r3;", "mul24.lo.s32 %r0, %r1, %r2;",
    "sad.s32 %r0, %r1, %r2, %r3;",
    "mad24.hi.sat.s32 %r0, %r1, %r2, %r3;", "div.u32 %r0, %r1, 7;", "rem.s32 %r0, %r1, 5;",
    "mul.hi.u64 %rd0, %rd1, %rd2;", "mul.wide.s16 %r0, %rs1, %rs2;", "max.s16x2 %r0, %r1, %r2;",
    "mad.wide.s32 %rd0, %r1, %r2, %rd3;", "abs.s16 %rs0, %rs1;",
    *[f"min{m}.f32 %f0, %f1, %f2;" for m in ("", ".NaN", ".ftz", ".ftz.NaN", ".xorsign.abs")],
    *[f"max{m}.f32 %f0, %f1, %f2;" for m in (".NaN.xorsign.abs", ".ftz")],
    *[f"{o}{m}.f16 %rs0, %rs1, %rs2;" for o in ("min", "max") for m in ("", ".NaN", ".ftz")],
    "min.NaN.bf16x2 %r0, %r1, %r2;", "min.f64 %fd0, %fd1, %fd2;",
    *[f"{o}.{r}.f32 %f0, %f1, %f2;" for o in ("add", "sub", "mul")
      for r in ("rz", "rm", "rp", "rn.ftz", "rn.sat", "rn.ftz.sat")],
    *[f"fma.{r}.f32 %f0, %f1, %f2, %f3;" for r in ("rz", "rm", "rp", "rn.sat", "rn.ftz.sat")],
    *[f"{o}.rn{m}.f16 %rs0, %rs1, %rs2;" for o in ("add", "sub", "mul") for m in ("", ".ftz.sat")],
    "fma.rn.ftz.sat.f16 %rs0, %rs1, %rs2, %rs3;", "fma.rn.relu.bf16x2 %r0, %r1, %r2, %r3;",
    "fma.rn.f16x2 %r0, %r1, %r2, %r3;", "add.rn.bf16x2 %r0, %r1, %r2;",
    "sub.rn.f16x2 %r0, %r1, %r2;",
    "abs.ftz.f32 %f0, %f1;", "abs.f16 %rs0, %rs1;", "neg.bf16x2 %r0, %r1;", "neg.f64 %fd0, %fd1;",
    "add.rm.f64 %fd0, %fd1, %fd2;", "fma.rz.f64 %fd0, %fd1, %fd2, %fd3;",
    "div.rz.f32 %f0, %f1, %f2;", "rcp.rm.f32 %f0, %f1;", "sqrt.rp.ftz.f32 %f0, %f1;",
    *[f"testp.{t}.f32 %p0, %f1;" for t in ("finite", "infinite", "number", "normal", "subnormal")],
    "testp.subnormal.f64 %p0, %fd1;", "copysign.f64 %fd0, %fd1, %fd2;",
    *[f"setp.{c}.f32 %p0, %f1, %f2;" for c in ("eq", "ne", "lt", "ge", "equ", "neu", "ltu", "geu",
                                              "num", "nan")],
    "setp.lt.ftz.f32 %p0, %f1, %f2;", "setp.gtu.f16x2 %p0|%p1, %r1, %r2;",
    "setp.le.and.bf16x2 %p0|%p1, %r1, %r2, %p3;", "setp.hs.or.u32 %p0|%p1, %r1, %r2, !%p1;",
    "set.leu.ftz.f32.f32 %f0, %f1, %f2;", "set.nan.u32.f64 %r0, %fd1, %fd2;",
    "set.ne.bf16x2.bf16x2 %r0, %r1, %r2;", "slct.f32.f32 %f0, %f1, %f2, %f3;",
    *[f"cvt.{r}.{t}.f32 %r0, %f1;" for r in ("rni", "rzi", "rmi", "rpi.ftz")
      for t in ("s32", "u32")],
    *[f"cvt.rzi.{t}.f32 %r0, %f1;" for t in ("s8", "u8", "s16", "u16")],
    *[f"cvt.rzi.{t}.f32 %rd0, %f1;" for t in ("s64", "u64")],
    *[f"cvt.rni.{t}.f64 %rd0, %fd1;" for t in ("s64", "u64")], "cvt.rzi.s32.f64 %r0, %fd1;",
    *[f"cvt.rzi.{t}.f16 %r0, %rs1;" for t in ("s32", "u16")], "cvt.rni.s32.bf16 %r0, %rs1;",
    *[f"cvt.{r}.f32.{t} %f0, %r1;" for r in ("rn", "rz", "rm", "rp") for t in ("s32", "u32")],
    "cvt.rn.f32.s64 %f0, %rd1;", "cvt.rn.f64.u64 %fd0, %rd1;", "cvt.rn.f16.s32 %rs0, %r1;",
    "cvt.rn.bf16.s32 %rs0, %r1;", "cvt.rn.bf16.u64 %rs0, %rd1;", "cvt.rn.f16.s64 %rs0, %rd1;",
    *[f"cvt.{r}.{t}.f32 %rs0, %f1;" for r in ("rn", "rz", "rn.relu") for t in ("f16", "bf16")],
    "cvt.rm.f16.f32 %rs0, %f1;", "cvt.rp.sat.f16.f32 %rs0, %f1;", "cvt.rn.f16.f64 %rs0, %fd1;",
    "cvt.rz.f32.f64 %f0, %fd1;", "cvt.rm.f32.f64 %f0, %fd1;", "cvt.rn.sat.f32.f64 %f0, %fd1;",
    "cvt.f64.f16 %fd0, %rs1;", "cvt.f64.bf16 %fd0, %rs1;", "cvt.sat.f32.f16 %f0, %rs1;",
    *[f"cvt.{r}.f32.f32 %f0, %f1;" for r in ("rni", "rmi", "rpi", "rni.ftz", "sat", "rzi.sat")],
    "cvt.rni.f16.f16 %rs0, %rs1;", "cvt.rmi.f64.f64 %fd0, %fd1;",
    "cvt.rna.satfinite.tf32.f32 %r0, %f1;",
    "cvt.rz.relu.tf32.f32 %r0, %f1;", "cvt.rn.relu.f16x2.f32 %r0, %f1, %f2;",
    "cvt.rn.satfinite.relu.e4m3x2.f32 %rs0, %f1, %f2;",
    "cvt.rn.satfinite.e5m2x2.f32 %rs0, %f1, %f2;",
    "cvt.rn.satfinite.e4m3x2.f16x2 %rs0, %r1;", "cvt.rn.relu.f16x2.e5m2x2 %r0, %rs1;",
    *[f"cvt.sat.{a}.{b} %r0, %r1;" for a in ("u8", "s8", "u16", "s16") for b in ("s32", "u32")],
    "cvt.sat.u32.s64 %r0, %rd1;", "cvt.sat.s64.u64 %rd0, %rd1;", "cvt.sat.u32.s32 %r0, %r1;",
    "cvt.s32.s16 %r0, %rs1;", "cvt.u64.s8 %rd0, %r1;", "cvt.s64.u8 %rd0, %r1;",
    *[f"shfl.sync.{m}.b32 %r0|%p0, %r1, %r2, {c}, -1;" for m in ("up", "down", "bfly", "idx")
      for c in ("31", "0", "0x1c1f", "0x1807", "%r3")],
    "{ .reg .pred q; setp.gt.u32 q, %r9, 0x7fffffff; @q activemask.b32 %r0; }",
    "{ .reg .b32 k; and.b32 k, %r1, 3; match.any.sync.b32 %r0, k, -1; }",
    "{ .reg .b32 k; shr.u32 k, %r1, 30; match.all.sync.b32 %r0|%p0, k, -1; }",
    *[f"redux.sync.{op} %r0, %r1, -1;" for op in ("add.u32", "min.u32", "max.s32", "min.s32",
                                                 "and.b32", "xor.b32")],
    "vote.sync.uni.pred %p0, %p2, -1;", "mov.u32 %r0, %lanemask_le; mov.u32 %r1, %lanemask_gt; "
    "mov.u32 %r2, %lanemask_eq; mov.u32 %r3, %laneid;",
    "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6},"
    " {%r7,%r8,%r9,%r10};",
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0,%r1}, {%r4}, {%r6}, {%r7,%r8};",
    "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32 {%r0,%r1,%r2,%r3}, {%r4,%r5,%r6,%r7},"
    " {%r8,%r9}, {%r10,%r11,%r12,%r13};",
    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6},"
    " {%r7,%r8,%r9,%r10};",
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0,%r1}, {%r4,%r5}, {%r6}, {%r7,%r8};",
    "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%fd0,%fd1,%fd2,%fd3},"
    " {%fd0,%fd1,%fd2,%fd3,%fd4,%fd5,%fd0,%fd1}, {%fd2,%fd3,%fd4,%fd5}, {%fd0,%fd1,%fd2,%fd3};",
]

HEADER = """.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dyn[];
.global .align 8 .b8 glob[16];
"""


def prologue(name: str) -> str:
    """Declarations and loads of one kernel."""
    out = [f".visible .entry {name}(.param .u64 .ptr .global .align 16 p0,"
           " .param .u64 .ptr .global .align 16 p1)\n.reqntid 256\n{"]
    out += [".reg .pred %p<16>;", ".reg .b8 %b<8>;", ".reg .b16 %rs<20>;", ".reg .b32 %r<40>;",
            ".reg .f32 %f<20>;", ".reg .b64 %rd<20>;", ".reg .f64 %fd<20>;", ".reg .b128 %rq<4>;",
            ".shared .align 16 .b8 sm[8192];", ".shared .align 8 .b8 buf[64];",
            ".local .align 8 .b8 depot[32];", ".reg .b64 in, to; .reg .b32 t, w;",
            "ld.param.u64 in, [p0]; ld.param.u64 to, [p1]; mov.u32 t, %tid.x;",
            f"mad.wide.u32 in, t, {4 * IN_WORDS}, in; mad.wide.u32 to, t, {4 * OUT_WORDS}, to;"]
    out += [f"ld.global.b32 %r{i}, [in+{4 * i}];" for i in range(16)]
    out += [f"ld.global.f32 %f{i}, [in+{4 * (16 + i)}];" for i in range(10)]
    out += [f"ld.global.b64 %rd{i}, [in+{4 * (32 + 2 * i)}];" for i in range(8)]
    out += [f"ld.global.f64 %fd{i}, [in+{4 * (48 + 2 * i)}];" for i in range(8)]
    out += [f"ld.global.b16 %rs{i}, [in+{4 * (64 + i)}];" for i in range(16)]
    out += [f"ld.global.b32 w, [in+{4 * (80 + i)}]; and.b32 w, w, 1; setp.ne.b32 %p{i}, w, 0;"
            for i in range(4)]
    out += [f"ld.global.b8 %b{i}, [in+{4 * (84 + i)}];" for i in range(4)]
    return "\n".join(out) + "\n"


def epilogue() -> str:
    """Stores of every register that a case may write."""
    out, at = [], 0
    for prefix, count, type_, size in (("%r", 8, "b32", 4), ("%f", 4, "f32", 4),
                                       ("%rd", 6, "b64", 8), ("%fd", 4, "f64", 8)):
        for i in range(count):
            out.append(f"st.global.{type_} [to+{at}], {prefix}{i};")
            at += size
    for i in range(4):
        out.append(f"cvt.u32.u16 w, %rs{i}; st.global.b32 [to+{at}], w;")
        at += 4
    for i in range(2):
        out.append(f"selp.b32 w, 1, 0, %p{i}; st.global.b32 [to+{at}], w;")
        at += 4
    for i in range(2):
        out.append(f"st.global.b8 [to+{at}], %b{i};")
        at += 1
    assert at <= 4 * OUT_WORDS
    return "\n".join(out) + "\nret;\n}\n"


def cases() -> list[str]:
    """Instructions of the golden files that a thread can run alone, and the extra ones."""
    out = []
    for path in sorted(GOLDEN.glob("*.txt")):
        if path.stem in SKIP:
            continue
        for line in path.read_text().splitlines():
            skip = ("wgmma", "%clock", "mov.u64 %rd0", "mov.b64 %rd0, ", "dyn", "cvta", "isspacep",
                    "ldmatrix", "stmatrix", "elect", "m8n8.x", "abs.NaN.f32")
            if line.strip() and line[0] not in " #" and not any(s in line for s in skip):
                mask = line.startswith(("shfl", "vote", "match", "redux"))
                out.append(re.sub(r", %r\d;$", ", -1;", line) if mask else line)
    return out + EXTRA + contractions()


def contractions() -> list[str]:
    """The contraction cases that run in one straight line and keep to registers."""
    from tests.ptx.device.contraction import CASES
    return [body for body in CASES.values() if "[a" not in body and "%p3" not in body]


def inputs() -> np.ndarray:
    """(threads, words): random bits, small integers, float edge values, moderate floats."""
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**32, (THREADS, IN_WORDS), dtype=np.uint32)
    words[32:96] = rng.integers(0, 70, (64, IN_WORDS), dtype=np.uint32)
    words[64:96] *= np.where(rng.random((32, IN_WORDS)) < 0.3, 0xFFFFFFFF, 1).astype(np.uint32)
    f32 = np.array([0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
                    0x7FC00000, 0x3F800000, 0xBF800000, 0x3F000000, 0x4B000001, 0x4F000000,
                    0xCF000001, 0x5F000000, 0x3FC00000, 0x40200000, 0x47800100, 0x477FF000],
                   np.uint32)
    f16 = np.array([0, 0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0xBC00,
                    0x3800, 0x6400, 0x7F80, 0x7F7F, 0x0080, 0x3F80, 0xBF80, 0x7FC0, 0xFF80],
                   np.uint32)
    edge = rng.choice(f32, (64, IN_WORDS))
    half = rng.choice(f16, (64, IN_WORDS)) | rng.choice(f16, (64, IN_WORDS)) << 16
    words[96:160] = edge
    words[96:160, :12] = np.where(rng.random((64, 12)) < 0.5, edge[:, :12], half[:, :12])
    words[96:160, 64:80] = half[:, 64:80]
    normal = rng.normal(0, 4, (96, IN_WORDS)).astype(np.float32)
    words[160:] = normal.view(np.uint32)
    pairs = rng.normal(0, 4, (96, 16, 2)).astype(np.float16).view(np.uint16).astype(np.uint32)
    words[192:, :16] = (pairs[..., 0] | pairs[..., 1] << 16)[32:]
    words[160:, 64:80] = pairs[..., 0]
    doubles = rng.normal(0, 1e6, (96, 8)).view(np.uint64)
    doubles[:20] = rng.choice(np.array([0, 1 << 63, 1, 0x7FF0000000000000, 0xFFF0000000000000,
                                        0x7FF8000000000000, 0x3FF0000000000000, 0x43E0000000000000,
                                        0x000FFFFFFFFFFFFF, 0x36A0000000000000, 0x47EFFFFFE0000001],
                                       np.uint64), (20, 8))
    words[160:, 48:64] = doubles.view(np.uint32).reshape(96, 16)
    return words


def build(folder: Path) -> None:
    """Write module, cubin, inputs and the cases that ptxas accepts."""
    folder.mkdir(exist_ok=True)
    kept = []
    for text in cases():
        source = HEADER + prologue("k") + text + "\n" + epilogue()
        (folder / "one.ptx").write_text(source)
        done = subprocess.run(["ptxas", "-arch=sm_90a", "-o", "/dev/null", folder / "one.ptx"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            print("refused:", text[:100], done.stderr.splitlines()[0][:200])
        else:
            kept.append(text)
    module = HEADER + "".join(prologue(f"k{i}") + text + "\n" + epilogue()
                              for i, text in enumerate(kept))
    (folder / "module.ptx").write_text(module)
    subprocess.run(["ptxas", "-arch=sm_90a", "-o", folder / "module.cubin", folder / "module.ptx"],
                   check=True)
    (folder / "cases.json").write_text(json.dumps(kept, indent=1))
    np.save(folder / "inputs.npy", inputs())
    print(len(kept), "cases")


def run(folder: Path) -> None:
    """Run every case on the GPU (driver API through ctypes); write results.npz."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *args: object) -> None:
        status = getattr(cuda, name)(*args)
        if status:
            raise RuntimeError(f"{name}: {status}")
    names = json.loads((folder / "cases.json").read_text())
    words = np.load(folder / "inputs.npy")
    code = (folder / "module.cubin").read_bytes()
    size = 4 * THREADS * OUT_WORDS
    results = np.zeros((len(names), THREADS, OUT_WORDS), np.uint32)
    failed = []
    call("cuInit", 0)
    device, state = ctypes.c_int(), {}
    call("cuDeviceGet", ctypes.byref(device), 0)

    def start() -> None:
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        source, dest = ctypes.c_uint64(), ctypes.c_uint64()
        call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        call("cuModuleLoadData", ctypes.byref(module), code)
        call("cuMemAlloc_v2", ctypes.byref(source), ctypes.c_size_t(words.nbytes))
        call("cuMemAlloc_v2", ctypes.byref(dest), ctypes.c_size_t(size))
        call("cuMemcpyHtoD_v2", source, ctypes.c_void_p(words.ctypes.data),
             ctypes.c_size_t(words.nbytes))
        state.update(context=context, module=module, source=source, dest=dest)

    start()
    for i in range(len(names)):
        function = ctypes.c_void_p()
        try:
            dest = state["dest"]
            call("cuModuleGetFunction", ctypes.byref(function), state["module"], f"k{i}".encode())
            call("cuMemsetD8_v2", dest, ctypes.c_ubyte(0), ctypes.c_size_t(size))
            args = (ctypes.c_void_p * 2)(ctypes.addressof(state["source"]), ctypes.addressof(dest))
            call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, args, None)
            call("cuCtxSynchronize")
            call("cuMemcpyDtoH_v2", ctypes.c_void_p(results[i].ctypes.data), dest,
                 ctypes.c_size_t(size))
        except RuntimeError as error:  # an illegal mask, say: the context is lost
            print("failed:", names[i][-80:], error)
            failed.append(i)
            cuda.cuCtxDestroy_v2(state["context"])
            start()
    np.savez_compressed(folder / "results.npz", results=results, failed=np.array(failed, int))
    print("ran", len(names), "failed", len(failed))


def replayed(text: str, words: np.ndarray) -> np.ndarray | str:
    """What the replay writes for one case, or why it does not run."""
    from checker.contract import contract
    from checker.lower import lower
    from checker.parse import parse
    from checker.replay import replay

    program = lower(parse(HEADER + prologue("k") + text + "\n" + epilogue(), isa="ptx"))
    program = contract(program)
    launch = {"grid": [1, 1, 1], "block": [THREADS, 1, 1], "args": [
        {"buffer": "in", "dtype": "u8", "elements": words.nbytes, "role": "in"},
        {"buffer": "out", "dtype": "u8", "elements": 4 * THREADS * OUT_WORDS, "role": "out"}]}
    result = replay(program, launch, domain="bytes", inputs={"in": words.view(np.uint8).ravel()})
    if result.unsupported or result.opaque:
        return str(result.unsupported or result.opaque[0])
    out = result.outputs["out"]
    tags = out.words[0][out.written]
    if (tags != tags[0]).any() or result.inaccurate:
        return f"not bits: {result.inaccurate}"
    octets = np.where(out.written, out.words[1], np.uint64(0)).astype(np.uint8)
    return octets.view(np.uint32).reshape(THREADS, OUT_WORDS)


def check(folder: Path) -> None:
    """Compare replayed and measured words; NaN results count as equal whatever their payload."""
    names = json.loads((folder / "cases.json").read_text())
    words, measured = np.load(folder / "inputs.npy"), np.load(folder / "results.npz")
    truth, failed, bad = measured["results"], set(measured["failed"].tolist()), 0
    verified: dict[str, str] = {}
    for i, text in enumerate(names):
        if i in failed:
            continue
        try:
            got = replayed(text, words)
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        if isinstance(got, str):
            print("not run:", text[-90:], "|", got[:160])
            continue
        wrong = (got != truth[i]) & ~_both_nan(got, truth[i])
        if not wrong.any():
            verified[text] = digest(got)
        else:
            bad += 1
            t, w = np.argwhere(wrong)[0]
            print(f"WRONG ({wrong.sum()} words): {text[-100:]}\n   thread {t} word {w}:"
                  f" replay {got[t, w]:#x} gpu {truth[i][t, w]:#x}"
                  f" in r1-4 {[hex(v) for v in words[t, 1:5]]}"
                  f" f1-3 {[hex(v) for v in words[t, 17:20]]}")
    VERIFIED.write_text(json.dumps(verified, indent=0) + "\n")
    print(len(names), "cases,", len(verified), "agree,", bad, "do not")


def digest(words: np.ndarray) -> str:
    """Digest of what one case writes."""
    return hashlib.sha256(words.tobytes()).hexdigest()[:16]


def _both_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def nan32(x: np.ndarray) -> np.ndarray:
        return (x & 0x7FFFFFFF) > 0x7F800000

    def nan16(x: np.ndarray) -> np.ndarray:
        return ((x & 0x7FFF) > 0x7C00) | ((x & 0x7FFF) > 0x7F80)
    high, low = np.uint32(16), np.uint32(0xFFFF)
    halves = (((a & low) == (b & low)) | (nan16(a) & nan16(b))) & (
        ((a >> high) == (b >> high)) | (nan16(a >> high) & nan16(b >> high)))
    out: np.ndarray = (nan32(a) & nan32(b)) | halves
    for word in range(24, 32, 2):  # %fd0 to %fd3
        both = [(x[:, word + 1] & 0x7FFFFFFF) > 0x7FF00000 for x in (a, b)]
        out[:, word : word + 2] |= (both[0] & both[1])[:, None]
    return out


if __name__ == "__main__":
    {"build": build, "run": run, "check": check}[sys.argv[1]](Path(sys.argv[2]))
