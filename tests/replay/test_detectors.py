"""Each detector: a planted defect is found, its clean twin is not."""

from __future__ import annotations

import pytest

from checker import compare
from checker.lower import lower
from checker.parse import parse
from checker.replay import replay
from tests.replay.listing import codes, facts, run, text

LOAD, STORE = "ld.global.f32 %f1, [%rd4];\n", "st.global.f32 [%rd5], %f2;\n"
TO_SHARED = "st.shared.f32 [%r5], %f1;\n"
# the value of the thread 32 away: another warp's
OTHER = "xor.b32 %r6, %r3, 128;\nadd.s32 %r7, %r4, %r6;\nld.shared.f32 %f2, [%r7];\n"
NEAR = "xor.b32 %r6, %r3, 4;\nadd.s32 %r7, %r4, %r6;\nld.shared.f32 %f2, [%r7];\n"
BAR = "bar.sync 0;\n"
WARP = "bar.warp.sync -1;\n"
AGAIN = "add.rn.f32 %f2, %f2, %f2;\n"
FIRST = "setp.eq.u32 %p1, %r1, 0;\n"
# the lanes of each half of a warp meet
HALVES_MEET = ("and.b32 %r8, %r1, 16;\nsetp.eq.u32 %p1, %r8, 0;\n"
               "selp.b32 %r8, 0x0000FFFF, 0xFFFF0000, %p1;\nbar.warp.sync %r8;\n")
FAR = "xor.b32 %r6, %r3, 64;\nadd.s32 %r7, %r4, %r6;\nld.shared.f32 %f2, [%r7];\n"
# warp 0 stores and one of its lanes arrives, warp 1 waits and reads
ONE_ARRIVES = (LOAD + FIRST + "@%p1 mbarrier.init.shared.b64 [sm+4096], 1;\n" + BAR
               + "setp.ge.u32 %p2, %r1, 32;\n@%p2 bra WAIT;\n" + TO_SHARED
               + "{}@%p1 mbarrier.arrive.shared.b64 %rd20, [sm+4096];\nbra END;\nWAIT:\n"
               "mbarrier.try_wait.parity.shared.b64 %p3, [sm+4096], 0;\n@!%p3 bra WAIT;\n"
               + OTHER + STORE + "END:\n")
# and the other way round: one lane waits for the others
ONE_WAITS = ONE_ARRIVES.replace(
    "WAIT:\n", "WAIT:\nsetp.ne.u32 %p4, %r1, 32;\n@%p4 bra READ;\nSPIN:\n").replace(
    "@!%p3 bra WAIT;\n", "@!%p3 bra SPIN;\nREAD:\n{}").replace("{}", WARP, 1)

HALVES = ("setp.lt.u32 %p1, %r1, 32;\nmov.f32 %f2, %f1;\n@!%p1 bra ON;\n" + TO_SHARED + "{}"
          "bra END;\nON:\n{}" + OTHER + "END:\n" + STORE)
MEET, PASS = "bar.sync 1, 64;\n", "bar.arrive 1, 64;\n"
CASES = {
    "who-arrives-does-not-wait": (LOAD + TO_SHARED + "bar.arrive 0, 64;\n" + OTHER + STORE,
                                  "race-read", LOAD + TO_SHARED + BAR + OTHER + STORE),
    "the-reader-does-not-wait": (LOAD + HALVES.format(MEET, PASS), "race-read",
                                 LOAD + HALVES.format(PASS, MEET)),
    "written-behind-the-arrival": (
        LOAD + HALVES.replace(TO_SHARED + "{}", "{}" + TO_SHARED).format(PASS, MEET), "race-read",
        LOAD + HALVES.format(MEET, MEET)),
    "a-barrier-for-each-warp": (
        LOAD + TO_SHARED + "shr.u32 %r6, %r1, 5;\nbar.sync %r6;\n" + OTHER + STORE, "deadlock",
        LOAD + TO_SHARED + "shr.u32 %r6, %r1, 6;\nbar.sync %r6;\n" + OTHER + STORE),
    "out-of-bounds-read": ("ld.global.f32 %f2, [%rd4+1000];\n" + STORE, "out-of-bounds",
                           "ld.global.f32 %f2, [%rd4+512];\n" + STORE),
    "out-of-bounds-write": (LOAD + "st.global.f32 [%rd5+900], %f1;\n", "out-of-bounds",
                            LOAD + "st.global.f32 [%rd5+512], %f1;\n"),
    "out-of-bounds-shared": (LOAD + "st.shared.f32 [%r5+8192], %f1;\n", "out-of-bounds",
                             LOAD + "st.shared.f32 [%r5+4096], %f1;\n"),
    "undefined-output": (STORE, "undefined", LOAD + "mov.f32 %f2, %f1;\n" + STORE),
    "undefined-masked-load": (
        "setp.lt.u32 %p1, %r1, 8;\n@%p1 ld.global.f32 %f2, [%rd4];\n" + STORE, "undefined",
        "setp.lt.u32 %p1, %r1, 8;\nmov.f32 %f2, 0f00000000;\n@%p1 ld.global.f32 %f2, [%rd4];\n"
        + STORE),
    "undefined-address": ("ld.shared.f32 %f2, [%r60];\n" + STORE, "undefined",
                          LOAD + TO_SHARED + "ld.shared.f32 %f2, [%r5];\n" + STORE),
    "undefined-branch": (LOAD + "mov.f32 %f2, %f1;\n@%p9 bra L1;\n" + STORE + "L1:\n", "undefined",
                         LOAD + "mov.f32 %f2, %f1;\nsetp.eq.u32 %p9, %r1, 0;\n@%p9 bra L1;\n"
                         + STORE + "L1:\n"),
    "undefined-branch-decides-an-output": (
        LOAD + "mov.f32 %f2, %f1;\n@%p9 bra L1;\nadd.f32 %f2, %f1, %f1;\nL1:\n" + STORE,
        "undefined",
        LOAD + "mov.f32 %f2, %f1;\n@%p9 bra L1;\nadd.f32 %f3, %f1, %f1;\nL1:\n" + STORE),
    "undefined-guard-decides-an-output": (
        LOAD + "mov.f32 %f2, %f1;\n@%p9 add.f32 %f2, %f1, %f1;\n" + STORE, "undefined",
        LOAD + "mov.f32 %f2, %f1;\n@%p9 add.f32 %f3, %f1, %f1;\n" + STORE),
    "undefined-guard-of-a-load": (
        LOAD + "mov.f32 %f2, %f1;\n@%p9 ld.global.f32 %f3, [%rd4+4096];\n" + STORE, "undefined",
        LOAD + "mov.f32 %f2, %f1;\n" + STORE),
    "read-only-cache": (
        LOAD + "st.global.f32 [%rd5], %f1;\nld.global.nc.f32 %f2, [%rd5];\n"
        "add.rn.f32 %f2, %f2, %f2;\n" + STORE, "race-read",
        LOAD + "st.global.f32 [%rd5], %f1;\nld.global.f32 %f2, [%rd5];\n"
        "add.rn.f32 %f2, %f2, %f2;\n" + STORE),
    "unwritten-shared": ("ld.shared.f32 %f2, [%r5];\n" + STORE, "undefined",
                         LOAD + TO_SHARED + "ld.shared.f32 %f2, [%r5];\n" + STORE),
    "missing-barrier": (LOAD + TO_SHARED + OTHER + STORE, "race-read",
                        LOAD + TO_SHARED + BAR + OTHER + STORE),
    "missing-barrier-of-a-warp": (LOAD + TO_SHARED + NEAR + STORE, "race-read",
                                  LOAD + TO_SHARED + WARP + NEAR + STORE),
    "a-warp-is-not-the-block": (LOAD + TO_SHARED + WARP + OTHER + STORE, "race-read",
                                LOAD + TO_SHARED + BAR + NEAR + STORE),
    "an-exchange-is-no-barrier": (
        LOAD + TO_SHARED + "shfl.sync.bfly.b32 %f3, %f1, 4, 31, -1;\n" + NEAR + STORE, "race-read",
        LOAD + TO_SHARED + "shfl.sync.bfly.b32 %f2, %f1, 4, 31, -1;\n" + STORE),
    **{f"who-has-exited-does-not-meet-{size}": (
        LOAD + TO_SHARED + f"setp.eq.u32 %p1, %r1, 63;\n@%p1 ret;\n{meet}" + NEAR + STORE,
        "race-read",
        LOAD + TO_SHARED + f"setp.eq.u32 %p1, %r1, 63;\n{meet}@%p1 ret;\n" + NEAR + STORE)
       for size, meet in (("a-warp", WARP), ("the-block", BAR))},
    "overwrite-inside-a-warp": (
        LOAD + TO_SHARED + WARP + NEAR + AGAIN + "st.shared.f32 [%r5], %f2;\n" + STORE,
        "race-overwrite",
        LOAD + TO_SHARED + WARP + NEAR + WARP + AGAIN + "st.shared.f32 [%r5], %f2;\n" + STORE),
    "a-half-warp-meets": (LOAD + TO_SHARED + HALVES_MEET + FAR + STORE, "race-read",
                          LOAD + TO_SHARED + HALVES_MEET + NEAR + STORE),
    "one-lane-arrives-for-its-warp": (ONE_ARRIVES.format(""), "race-read",
                                      ONE_ARRIVES.format(WARP)),
    "one-lane-waits-for-its-warp": (ONE_WAITS.format(""), "race-read", ONE_WAITS.format(WARP)),
    "one-of-those-that-wrote-a-value-writes-another": (
        LOAD + "st.shared.f32 [%r4], 1.0;\n" + FIRST + "@%p1 st.shared.f32 [%r4], %f1;\n" + BAR
        + "ld.shared.f32 %f2, [%r4];\n" + STORE, "race-write",
        LOAD + "st.shared.f32 [%r4], 1.0;\n" + BAR + FIRST + "@%p1 st.shared.f32 [%r4], %f1;\n"
        + BAR + "ld.shared.f32 %f2, [%r4];\n" + STORE),
    "a-buffer-written-and-read-inside-a-warp": (
        LOAD + "st.global.f32 [%rd5], %f1;\nxor.b32 %r6, %r3, 4;\ncvt.u64.u32 %rd6, %r6;\n"
        "add.s64 %rd7, %rd2, %rd6;\nld.global.f32 %f2, [%rd7];\n" + AGAIN
        + "st.global.f32 [%rd5+512], %f2;\n", "race-read",
        LOAD + "st.global.f32 [%rd5], %f1;\nxor.b32 %r6, %r3, 4;\ncvt.u64.u32 %rd6, %r6;\n"
        "add.s64 %rd7, %rd2, %rd6;\n" + WARP + "ld.global.f32 %f2, [%rd7];\n" + AGAIN
        + "st.global.f32 [%rd5+512], %f2;\n"),
    "an-atomic-over-an-unordered-read": (
        LOAD + TO_SHARED + BAR + OTHER + "red.shared.add.u32 [%r5], 1;\n" + STORE,
        "race-overwrite",
        LOAD + TO_SHARED + BAR + OTHER + BAR + "red.shared.add.u32 [%r5], 1;\n" + STORE),
    "matrices-of-rows-just-written": (
        LOAD + TO_SHARED + "shl.b32 %r6, %r1, 4;\nand.b32 %r6, %r6, 240;\n"
        "add.s32 %r7, %r4, %r6;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r7];\n"
        "mov.b32 %f2, %r8;\n" + STORE, "race-read",
        LOAD + TO_SHARED + BAR + "shl.b32 %r6, %r1, 4;\nand.b32 %r6, %r6, 240;\n"
        "add.s32 %r7, %r4, %r6;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r7];\n"
        "mov.b32 %f2, %r8;\n" + STORE),
    "overwrite-without-barrier": (
        LOAD + TO_SHARED + BAR + OTHER + "st.shared.f32 [%r5], %f2;\n" + STORE, "race-overwrite",
        LOAD + TO_SHARED + BAR + OTHER + BAR + "st.shared.f32 [%r5], %f2;\n" + STORE),
    "two-writers-shared": (
        LOAD + "and.b32 %r6, %r3, 124;\nadd.s32 %r7, %r4, %r6;\nst.shared.f32 [%r7], %f1;\n" + BAR
        + "ld.shared.f32 %f2, [%r7];\n" + STORE, "write-conflict",
        LOAD + TO_SHARED + BAR + "ld.shared.f32 %f2, [%r5];\n" + STORE),
    "two-writers-global": (
        LOAD + "st.global.f32 [%rd2], %f1;\n", "write-conflict",
        LOAD + "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.f32 [%rd2], %f1;\n"),
    "atomics-of-two-kinds": (
        LOAD + "mov.b32 %r6, %f1;\nred.global.add.u32 [%rd2], %r6;\n"
        "red.global.max.u32 [%rd2], %r6;\n", "race-write",
        LOAD + "mov.b32 %r6, %f1;\nred.global.add.u32 [%rd2], %r6;\n"
        "red.global.add.s32 [%rd2], %r6;\n"),
    "a-store-and-an-atomic": (
        LOAD + "mov.b32 %r6, %f1;\nred.global.add.u32 [%rd2], %r6;\n"
        "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.b32 [%rd2], %r6;\n", "race-write",
        LOAD + "mov.b32 %r6, %f1;\nred.global.add.u32 [%rd2], %r6;\n"
        "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.b32 [%rd2+4], %r6;\n"),
    "two-writers-in-turn": (
        LOAD + "setp.lt.u32 %p1, %r1, 32;\n@%p1 st.global.f32 [%rd5], %f1;\n"
        "@!%p1 st.global.f32 [%rd5+-128], %f1;\n", "race-write",
        LOAD + "setp.lt.u32 %p1, %r1, 32;\n@%p1 st.global.f32 [%rd5], %f1;\n"
        "@!%p1 st.global.f32 [%rd5], %f1;\n"),
    "async-without-wait": (
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "ld.shared.f32 %f2, [%r5];\n" + STORE, "async-read",
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 0;\nld.shared.f32 %f2, [%r5];\n" + STORE),
    "async-wait-before-commit": (
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.wait_group 0;\n"
        "cp.async.commit_group;\nld.shared.f32 %f2, [%r5];\n" + STORE, "async-read",
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_all;\nld.shared.f32 %f2, [%r5];\n" + STORE),
    "an-atomic-where-a-copy-is-on-its-way": (
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\nred.shared.add.u32 [%r5], 1;\n"
        "cp.async.wait_all;\nld.shared.f32 %f2, [%r5];\n" + STORE, "async-write",
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.wait_all;\n"
        "red.shared.add.u32 [%r5], 1;\n" + BAR + "ld.shared.f32 %f2, [%r5];\n" + STORE),
    "async-one-group-left": (
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 1;\nld.shared.f32 %f2, [%r5];\n" + STORE, "async-read",
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r5+1024], [%rd4+128], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 1;\nld.shared.f32 %f2, [%r5];\n" + STORE),
    "async-no-barrier": (
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 0;\n" + OTHER + STORE, "race-read",
        "cp.async.ca.shared.global [%r5], [%rd4], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 0;\n" + BAR + OTHER + STORE),
    "async-over-an-unordered-read": (
        LOAD + TO_SHARED + BAR + OTHER + "cp.async.ca.shared.global [%r5], [%rd4+512], 4;\n"
        "cp.async.wait_all;\n" + STORE, "race-overwrite",
        LOAD + TO_SHARED + BAR + OTHER + "cp.async.ca.shared.global [%r5+1024], [%rd4+512], 4;\n"
        "cp.async.wait_all;\n" + STORE),
    "third-warp-misses-one-of-two-readers": (  # it has met warp 1 at barrier 1, but not warp 0
        LOAD + TO_SHARED + BAR + "ld.shared.f32 %f2, [%r4];\nsetp.ge.u32 %p1, %r1, 32;\n"
        "setp.ge.u32 %p2, %r1, 64;\n@%p1 bar.sync 1, 64;\n"
        "add.f32 %f2, %f2, %f2;\n@%p2 st.shared.f32 [%r4], %f2;\n" + STORE, "race-overwrite",
        LOAD + TO_SHARED + BAR + "ld.shared.f32 %f2, [%r4];\n" + BAR + "setp.ge.u32 %p2, %r1, 64;\n"
        "add.f32 %f2, %f2, %f2;\n@%p2 st.shared.f32 [%r4], %f2;\n" + STORE),
    "float-atomic": (LOAD + "red.global.add.f32 [%rd2], %f1;\n", "float-atomic",
                     "ld.global.u32 %r9, [%rd4];\nred.global.add.u32 [%rd2], %r9;\n"),
    "division-by-zero": (  # by the thread's number: thread 0
        "ld.global.u32 %r9, [%rd4];\ndiv.u32 %r10, 7, %r1;\nst.global.u32 [%rd5], %r10;\n",
        "undefined",
        "add.u32 %r9, %r1, 1;\ndiv.u32 %r10, 7, %r9;\nst.global.u32 [%rd5], %r10;\n"),
    "remainder-by-zero": (
        "rem.s32 %r10, %r1, 0;\nst.global.u32 [%rd5], %r10;\n", "undefined",
        "rem.s32 %r10, %r1, 0;\nsetp.eq.u32 %p1, 0, 0;\nselp.b32 %r10, %r1, %r10, %p1;\n"
        "st.global.u32 [%rd5], %r10;\n"),
    "carry-of-an-address-lost": (  # 4096 bytes on is in the next 2^32: 32-bit sums stay behind
        "mov.b64 {%r9, %r10}, %rd1;\nadd.u32 %r9, %r9, 4096;\nmov.b64 %rd6, {%r9, %r10};\n"
        "ld.global.f32 %f2, [%rd6+-4096];\n" + STORE, "out-of-bounds",
        "add.s64 %rd6, %rd1, 4096;\nld.global.f32 %f2, [%rd6+-4096];\n" + STORE),
    "upper-word-of-an-address-lost": (
        "cvt.u32.u64 %r9, %rd4;\ncvt.u64.u32 %rd6, %r9;\nld.global.f32 %f2, [%rd6];\n" + STORE,
        "out-of-bounds",
        "mov.b64 {%r9, %r10}, %rd4;\nmov.b64 %rd6, {%r9, %r10};\nld.global.f32 %f2, [%rd6];\n"
        + STORE),
    "shuffle-from-inactive": (
        LOAD + "setp.lt.u32 %p1, %r1, 8;\n@!%p1 bra L1;\n"
        "shfl.sync.bfly.b32 %f2, %f1, 16, 31, 255;\n" + STORE + "L1:\n", "undefined",
        LOAD + "setp.lt.u32 %p1, %r1, 8;\n@!%p1 bra L1;\n"
        "shfl.sync.bfly.b32 %f2, %f1, 4, 31, 255;\n" + STORE + "L1:\n"),
}
# x[0] in %f3, of lanes 8 and up by nobody, and in %f4: all that an access computes is alike in both
PART = ("setp.lt.u32 %p1, %r1, 8;\n@%p1 ld.global.f32 %f3, [%rd1];\nld.global.f32 %f4, [%rd1];\n"
        "mov.b32 %r10, %f3;\nmov.b32 %r11, %f4;\n" + LOAD + "mov.b32 %r12, %f1;\n")
# a zero made of registers that nobody wrote in %r13, and of one value in %r14
NOTHING = (LOAD + "mov.b32 %r12, %f1;\nsub.s32 %r13, %r50, %r51;\nsub.s32 %r14, %r12, %r12;\n"
           "setp.lt.u32 %p1, %r1, 8;\nselp.b32 %r15, %r13, %r14, %p1;\n")
BY_DATA = "setp.gt.f32 %p2, %f1, 0f00000000;\n"
OF_BOTH = "mov.b32 %f2, %r16;\n" + STORE
CASES |= {f"undefined-beside-{name}": (bad, code, bad.replace("@%p1 ld", "ld").replace(
    "%r50", "%r12").replace("%r51", "%r12")) for name, bad, code in (
    ("its-like", PART + BY_DATA + "selp.f32 %f2, %f4, %f3, %p2;\n" + STORE, "undefined"),
    ("its-like-swapped", PART + BY_DATA + "selp.f32 %f2, %f3, %f4, %p2;\n" + STORE, "undefined"),
    ("its-like-on-a-path", PART + BY_DATA + "mov.f32 %f2, %f4;\n@%p2 bra L1;\n"
     "mov.f32 %f2, %f3;\nL1:\n" + STORE, "undefined"),
    ("its-like-in-a-minimum", PART + "min.f32 %f2, %f4, %f3;\n" + STORE, "undefined"),
    ("its-like-in-an-integer-minimum", PART + "min.u32 %r16, %r11, %r10;\n" + OF_BOTH,
     "undefined"),
    ("its-like-in-an-and", PART + "and.b32 %r16, %r11, %r10;\n" + OF_BOTH, "undefined"),
    ("its-like-in-a-predicate", PART + "setp.gt.f32 %p3, %f3, 0f00000000;\n"
     "setp.gt.f32 %p4, %f4, 0f00000000;\nand.pred %p5, %p4, %p3;\nselp.b32 %r16, 1, 2, %p5;\n"
     + OF_BOTH, "undefined"),
    ("its-like-in-one-store", PART.replace("lt", "ge") + "st.global.f32 [%rd2], %f3;\n",
     "write-conflict"),
    ("its-like-that-is-overwritten", PART.replace("lt.u32 %p1, %r1, 8", "ge.u32 %p1, %r1, 32")
     + "st.shared.f32 [%r5], %f4;\n" + BAR + OTHER + "st.shared.f32 [%r5], %f3;\n" + STORE,
     "race-overwrite"),
    ("another-in-a-sum", NOTHING + "add.s32 %r16, %r13, %r12;\n" + OF_BOTH, "undefined"),
    ("another-in-a-comparison", NOTHING + "sub.s32 %r13, %r50, %r51;\n"
     "setp.eq.u32 %p3, %r13, %r14;\nselp.b32 %r16, 1, 2, %p3;\n" + OF_BOTH, "undefined"),
    ("another-in-two-xors", LOAD + "mov.b32 %r12, %f1;\nxor.b32 %r13, %r50, %r12;\n"
     "xor.b32 %r16, %r51, %r13;\n" + OF_BOTH, "undefined"),
    ("a-zero-in-a-choice", NOTHING + BY_DATA + "selp.b32 %r16, %r14, %r13, %p2;\n" + OF_BOTH,
     "undefined"),
    ("a-zero-in-a-minimum", NOTHING + "min.u32 %r16, %r14, %r13;\n" + OF_BOTH, "undefined"),
    ("a-zero-in-one-store", NOTHING + "st.global.u32 [%rd2], %r15;\n", "write-conflict"),
)}

# lane 0 copies the first 256 bytes of x, and they arrive at an mbarrier
BULK = (FIRST + "@%p1 mbarrier.init.shared.b64 [sm+4096], 1;\n" + BAR + "@!%p1 bra GO;\n"
        "mbarrier.arrive.expect_tx.shared.b64 %rd20, [sm+4096], 256;\nadd.u32 %r21, %r4, 4096;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 256, "
        "[%r21];\nGO:\n")
SPIN = "SPIN:\nmbarrier.try_wait.parity.shared.b64 %p3, [sm+4096], 0;\n@!%p3 bra SPIN;\n"
SECOND = "setp.ge.u32 %p2, %r1, 32;\n@%p2 bra READ;\n"
OWN = "ld.shared.f32 %f2, [%r5];\n" + STORE
ARRIVE, WAIT = "barrier.cluster.arrive{};\n", "barrier.cluster.wait;\n"
CASES |= {
    "a-copy-that-another-warp-waits-for": (
        BULK + BAR + SECOND + SPIN + "READ:\n" + OWN, "race-read", BULK + BAR + SPIN + OWN),
    "a-copy-that-nobody-waits-for": (BULK + BAR + OWN, "async-read",
                                     BULK + SECOND + SPIN + "READ:\n" + BAR + OWN),
    "a-store-between-the-halves-of-a-barrier": (
        LOAD + ARRIVE.format("") + TO_SHARED + WAIT + OTHER + STORE, "race-read",
        LOAD + TO_SHARED + ARRIVE.format("") + WAIT + OTHER + STORE),
    "a-load-between-the-halves-of-a-barrier": (
        LOAD + TO_SHARED + ARRIVE.format("") + OTHER + WAIT + STORE, "race-read",
        LOAD + TO_SHARED + ARRIVE.format(".release") + WAIT + OTHER + STORE),
    "an-arrival-that-orders-nothing": (
        LOAD + TO_SHARED + ARRIVE.format(".relaxed") + WAIT + OTHER + STORE, "race-read",
        LOAD + TO_SHARED + ARRIVE.format(".release.aligned") + WAIT + OTHER + STORE),
    "a-wait-without-an-arrival": (LOAD + TO_SHARED + WAIT + OTHER + STORE, "deadlock",
                                  LOAD + TO_SHARED + BAR + OTHER + STORE),
    # warp 0 has passed barrier 2 without a wait: that does not take it through barrier 1
    "third-warp-waits-for-one-that-waits": (
        LOAD + "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra B;\nbar.arrive 2, 64;\nbar.sync 1, 64;\n"
        + TO_SHARED + "bra END;\nB:\nsetp.ge.u32 %p2, %r1, 64;\n@%p2 bra C;\nbar.sync 2, 64;\n"
        "bar.sync 3, 64;\nbar.sync 1, 64;\n" + OTHER + STORE + "bra END;\nC:\nbar.sync 3, 64;\n"
        "END:\n", "race-overwrite",
        LOAD + "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra B;\nbar.arrive 2, 64;\n" + TO_SHARED
        + "bar.sync 1, 64;\n"
        "bra END;\nB:\nsetp.ge.u32 %p2, %r1, 64;\n@%p2 bra C;\nbar.sync 2, 64;\n"
        "bar.sync 3, 64;\nbar.sync 1, 64;\n" + OTHER + STORE + "bra END;\nC:\nbar.sync 3, 64;\n"
        "END:\n"),
}
# lane 0 stores 256 bytes of shared memory to y
STORED = (LOAD + TO_SHARED + "fence.proxy.async.shared::cta;\n" + BAR + FIRST + "@!%p1 bra GO;\n"
          "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r4], 256;\n"
          "cp.async.bulk.commit_group;\n{}GO:\n")
READ_OVER, OVER = "cp.async.bulk.wait_group.read 0;\n", "cp.async.bulk.wait_group 0;\n"
ANOTHER = ("add.s64 %rd20, %rd2, 512;\n"
           "cp.async.bulk.global.shared::cta.bulk_group [%rd20], [%r4], 256;\n"
           "cp.async.bulk.commit_group;\n")
BACK = ("ld.global.f32 %f2, [%rd2];\nadd.rn.f32 %f2, %f2, %f2;\n"
        "st.global.f32 [%rd2+512], %f2;\n")
CASES |= {f"a-store-under-way-{name}": (STORED.format(bad), code, STORED.format(good))
          for name, bad, code, good in (
    ("is-written-over", "st.shared.f32 [%r4], 1.0;\n" + READ_OVER, "async-overwrite",
     READ_OVER + "st.shared.f32 [%r4], 1.0;\n"),
    ("is-written-over-in-part", "mov.b16 %h1, 5;\nst.shared.b16 [%r4], %h1;\n" + READ_OVER,
     "async-overwrite", READ_OVER + "mov.b16 %h1, 5;\nst.shared.b16 [%r4], %h1;\n"),
    ("is-written-over-for-good", "st.shared.f32 [%r4], 1.0;\n", "async-overwrite",
     "st.shared.f32 [%r4+256], 1.0;\n"),
    ("is-read-back", BACK + OVER, "async-read", OVER + BACK),
    ("is-read-back-too-early", READ_OVER + BACK, "async-read", READ_OVER + OVER + BACK),
    ("is-stored-over", "st.global.f32 [%rd2], 1.0;\n" + OVER, "async-write",
     OVER + "st.global.f32 [%rd2], 1.0;\n"),
    ("is-one-of-two", ANOTHER + READ_OVER.replace("0", "1") + "st.shared.f32 [%r4], 1.0;\n",
     "async-overwrite", ANOTHER + READ_OVER + "st.shared.f32 [%r4], 1.0;\n"))}
CASES |= {
    "a-store-that-another-warp-waits-for": (
        STORED.format("").replace("GO:\n", OVER + "GO:\n") + "xor.b32 %r6, %r3, 128;\n"
        "cvt.u64.u32 %rd6, %r6;\nadd.s64 %rd7, %rd2, %rd6;\nld.global.f32 %f2, [%rd7];\n"
        "add.rn.f32 %f2, %f2, %f2;\nst.global.f32 [%rd5+512], %f2;\n", "race-read",
        STORED.format("").replace("GO:\n", OVER + "GO:\n") + BAR + "xor.b32 %r6, %r3, 128;\n"
        "cvt.u64.u32 %rd6, %r6;\nadd.s64 %rd7, %rd2, %rd6;\nld.global.f32 %f2, [%rd7];\n"
        "add.rn.f32 %f2, %f2, %f2;\nst.global.f32 [%rd5+512], %f2;\n"),
}
TESTED = ONE_ARRIVES[: ONE_ARRIVES.index("WAIT:")].format(WARP) + "WAIT:\n"
TEST = "mbarrier.{}.parity.shared.b64 %p3, [sm+4096], 0;\n"
AT_ONCE = LOAD + "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra A;\n{}bra END;\nA:\n{}END:\n"
REFUSED = {
    "a-test-whose-answer-is-stored": ("mbarrier", TESTED + TEST.format("test_wait")
                                      + "selp.f32 %f2, 1.0, 2.0, %p3;\n" + STORE + "END:\n"),
    "a-test-that-is-not-done-again": ("mbarrier", TESTED + TEST.format("try_wait") + OTHER + STORE
                                      + "END:\n"),
    "a-test-that-counts-its-turns": (
        "mbarrier", TESTED + "mov.u32 %r20, 0;\nSPIN:\nadd.u32 %r20, %r20, 1;\n"
        + TEST.format("test_wait") + "@!%p3 bra SPIN;\nst.global.u32 [%rd5], %r20;\nEND:\n"),
    "a-thread-that-arrives-twice": ("barrier", AT_ONCE.format(
        "bar.arrive 1, 64;\nbar.arrive 1, 64;\n", "bar.sync 1, 64;\n")),
    "an-arrival-that-may-be-early": ("mbarrier", ONE_ARRIVES.format(WARP).replace(
        "bra END", "@%p1 mbarrier.arrive.shared.b64 %rd20, [sm+4096];\nbra END")),
    "three-arrivals-of-whom-one-counts": (
        "mbarrier", ONE_ARRIVES.format(WARP).replace("@%p1 mbarrier.arrive", "mbarrier.arrive")),
    "half-a-warp-at-a-barrier-of-whole-ones": (
        "barrier", LOAD + TO_SHARED + "and.b32 %r6, %r1, 1;\nsetp.eq.u32 %p1, %r6, 0;\n"
        "@%p1 bra A;\n" + BAR + "bra END;\nA:\n" + BAR + "END:\n" + OTHER + STORE),
    "a-matrix-whose-rows-are-not-aligned": (
        "misaligned", LOAD + "mov.b32 %r10, %f1;\nshl.b32 %r6, %r1, 4;\nand.b32 %r6, %r6, 112;\n"
        "add.u32 %r6, %r6, %r4;\nstmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6+4], {%r10};\n"),
    "a-sum-where-others-meet": ("barrier", AT_ONCE.format(
        "bar.sync 0;\n", "bar.red.popc.u32 %r20, 0, %p1;\n")),
    "a-half-that-is-arrived-at-twice": ("barrier", ARRIVE.format("") + ARRIVE.format("") + WAIT),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_a_matter_of_time_is_refused(name: str) -> None:
    code, body = REFUSED[name]
    result = run(body)
    assert [reason.code for reason in result.reasons()] == [code]


def test_half_a_warp_may_come_to_a_barrier_of_threads() -> None:
    _, body = REFUSED["half-a-warp-at-a-barrier-of-whole-ones"]
    assert run(body.replace("bar.sync", "barrier.sync")).usable
    assert not run(body.replace("bar.sync", "barrier.sync.aligned")).usable


@pytest.mark.parametrize("again", [
    "@!%p3 bra SPIN;\n", "@!%p3 bra.uni SPIN;\n", "@%p3 bra ON;\nbra SPIN;\nON:\n",
    "@%p3 bra ON;\nbra NEAR;\nNEAR:\nbra SPIN;\nON:\n"])
@pytest.mark.parametrize("before", ["", "mov.u32 %r22, 0;\nadd.u32 %r23, %r22, %r2;\n"])
def test_a_test_that_is_done_until_it_holds_is_a_wait(again: str, before: str) -> None:
    body = (TESTED + "SPIN:\n" + before + TEST.format("try_wait") + again + OTHER + STORE
            + "END:\n")
    assert run(body).usable


@pytest.mark.parametrize("loads", [1, 2, 3])
@pytest.mark.parametrize(("at", "usable"), [(512, True), (960, False), (4096, False)])
def test_what_lies_beyond_a_buffer_is_undefined_where_data_decides(loads: int, at: int,
                                                                    usable: bool) -> None:
    """One load, or several that are made at once, of known integers on one path of a branch."""
    many = "".join(f"ld.global.u32 %r{20 + i}, [%rd4+{at + 4 * i}];\n" for i in range(loads))
    body = ("ld.global.f32 %f1, [%rd5];\nsetp.gt.f32 %p1, %f1, 0f00000000;\nmov.u32 %r20, 0;\n"
            "@!%p1 bra L;\n" + many + "L:\nst.global.u32 [%rd5], %r20;\n")
    launch = facts(dtype="i32", values=list(range(256)))
    launch["args"][1]["role"] = "inout"
    result = replay(lower(parse(text(body))), launch)
    assert result.usable == usable
    assert usable or codes(result) == {"undefined"}


def test_each_block_has_its_own_votes() -> None:
    """In block 1 the warps come to the barrier one after the other, in block 0 at once."""
    ask = "bar.red.popc.u32 %r{}, 0, %p4;\n"
    body = ("mov.u32 %r9, %ctaid.x;\nsetp.eq.u32 %p1, %r9, 1;\nsetp.ge.u32 %p2, %r1, 32;\n"
            "and.pred %p3, %p1, %p2;\nshl.b32 %r20, %r9, 8;\ncvt.u64.u32 %rd20, %r20;\n"
            "add.s64 %rd5, %rd5, %rd20;\nsetp.lt.u32 %p4, %r1, 3;\nmov.u32 %r10, 70;\n"
            "mov.u32 %r11, 50;\n@%p3 bra B;\n" + ask.format(10) + "bra END;\nB:\n"
            + ask.format(11) + "END:\nadd.u32 %r10, %r10, %r11;\nst.global.u32 [%rd5], %r10;\n")
    words = run(body, grid=2, out="u32").outputs["y"].words[1]
    assert words[:96].tolist() == [53] * 96
    assert words[96:128].tolist() == [73] * 32


def test_a_variable_of_the_module_is_nobodys_secret() -> None:
    """What a kernel leaves there is no output of it, and not to be left out either."""
    whole = text(LOAD + "st.global.f32 [%rd5], %f1;\n{}").replace(
        ".visible .entry", ".visible .global .align 4 .b8 gv[1024];\n.visible .entry")
    plain = whole.replace("{}", "")
    for more in ("st.global.u32 [gv], 7;\n", "red.global.add.u32 [gv], 1;\n"):
        other = whole.replace("{}", more)
        result = replay(lower(parse(other)), facts())
        assert [reason.code for reason in result.reasons()] == ["role"]
        assert not compare(plain, other, launch_a=facts()).equal


def test_lanes_may_hold_more_constants_than_a_word_has_bits() -> None:
    """Each lane takes the maximum of an element, a square and a number of its own."""
    body = LOAD + "mul.rn.f32 %f5, %f1, %f1;\ncvt.rn.f32.u32 %f4, %r1;\n" \
        "add.rn.f32 %f4, %f4, {};\n" + "".join(
            f"shr.u32 %r9, %r1, 2;\nsetp.eq.u32 %p1, %r9, {k};\nselp.f32 %f6, %f4, %f5, %p1;\n"
            "max.f32 %f1, %f1, %f6;\n" for k in range(24)) + "st.global.f32 [%rd5], %f1;\n"
    one, two = (run(body.replace("{}", x), 96).outputs["y"].words for x in ("1.0", "2.0"))
    assert (one[:, :96] != two[:, :96]).any(axis=0).all()


@pytest.mark.parametrize("name", CASES)
def test_planted_defect_is_found_and_its_twin_is_clean(name: str) -> None:
    bad, code, good = CASES[name]
    threads = 96 if "third-warp" in name else 64
    found = run(bad, threads)
    assert code in codes(found)
    assert not found.usable
    clean = run(good, threads)
    assert not clean.findings
    assert clean.usable


def test_a_finding_names_the_line() -> None:
    result = run(LOAD + TO_SHARED + OTHER + STORE)
    (finding,) = result.findings
    lines = text(LOAD + TO_SHARED + OTHER + STORE).split("\n")
    assert finding.line_a is not None
    assert "ld.shared" in lines[finding.line_a - 1]


def test_misaligned_access_is_refused() -> None:
    result = run("ld.global.f32 %f2, [%rd4+2];\n" + STORE)
    assert result.unsupported is not None
    assert result.unsupported.code == "misaligned"


def test_undefined_lanes_that_reach_nothing_are_no_finding() -> None:
    body = ("setp.lt.u32 %p1, %r1, 8;\n@%p1 ld.global.f32 %f2, [%rd4];\n"
            "add.f32 %f3, %f2, %f2;\n@%p1 st.global.f32 [%rd5], %f3;\n")
    assert run(body).usable


@pytest.mark.parametrize("start", ["mov.f32 %f3, 0f00000000;\n", ""])
def test_undefined_lanes_that_branch_leave_the_others_alone(start: str) -> None:
    """Half of the lanes load nothing, branch on it and store nothing."""
    body = ("setp.lt.u32 %p1, %r1, 32;\n" + start + "@%p1 ld.global.f32 %f3, [%rd4];\n"
            "setp.gt.f32 %p2, %f3, 0f3F800000;\nmov.f32 %f2, %f3;\n@%p2 bra L1;\n"
            "mul.f32 %f2, %f3, %f3;\nL1:\n@%p1 " + STORE)
    whole = run(body.replace("@%p1 ld", "ld").replace(start, ""))
    half = run(body)
    assert half.usable
    assert half.outputs["y"].written.sum() == 32
    assert (half.outputs["y"].words[:, :32] == whole.outputs["y"].words[:, :32]).all()


def test_two_threads_may_write_one_value() -> None:
    assert run("ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;\n").usable


def test_blocks_write_one_element_in_unknown_order() -> None:
    body = ("mov.u32 %r9, %ctaid.x;\nmul.wide.u32 %rd6, %r9, 4;\nadd.s64 %rd7, %rd1, %rd6;\n"
            "ld.global.f32 %f1, [%rd7];\nst.global.f32 [%rd2], %f1;\n")
    assert "write-conflict" in codes(run(body, grid=2)) | codes(run(body, grid=2))
    assert run(body, grid=1).usable


def test_a_block_reads_what_an_earlier_chunk_of_blocks_wrote() -> None:
    """The last of 257 one-warp blocks is replayed by itself: block 0 is no less unordered."""
    body = ("mov.u32 %r9, %ctaid.x;\nmul.wide.u32 %rd6, %r9, 4;\nadd.s64 %rd7, %rd1, %rd6;\n"
            "add.s64 %rd8, %rd2, %rd6;\nld.global.f32 %f1, [%rd7];\nst.global.f32 [%rd8], %f1;\n"
            "setp.eq.u32 %p1, %r9, 256;\n@%p1 ld.global.f32 %f1, [{}];\n"
            "st.global.f32 [%rd8+2048], %f1;\n")
    launch = {"threads": 32, "elements": 1024, "grid": 257}
    assert codes(run(body.format("%rd2"), **launch)) == {"race-read"}  # type: ignore[arg-type]
    assert run(body.format("%rd1"), **launch).usable  # type: ignore[arg-type]


def test_readers_of_several_blocks_are_not_ordered_by_a_barrier_of_one() -> None:
    """Block 0 overwrites what block 1 alone, both or none of them may still read."""
    body = ("ld.global.f32 %f1, [%rd2+512];\nbar.sync 0;\nmov.u32 %r9, %ctaid.x;\n"
            "setp.eq.u32 %p1, %r9, 0;\nadd.rn.f32 %f2, %f1, %f1;\nmul.wide.u32 %rd6, %r9, 4;\n"
            "add.s64 %rd8, %rd2, %rd6;\nst.global.f32 [%rd8], %f2;\n"
            "@%p1 st.global.f32 [%rd2+{}], 1.0;\n")
    for grid, at, found in ((2, 512, {"race-overwrite"}), (2, 516, set()), (1, 512, set())):
        program = lower(parse(text(body.format(at))))
        launch = facts(grid=grid)
        launch["args"][1]["role"] = "inout"
        assert codes(replay(program, launch)) == found


IN_PLACE = ("xor.b32 %r6, %r3, {};\ncvt.u64.u32 %rd6, %r6;\nadd.s64 %rd7, %rd2, %rd6;\n"
            "ld.global.f32 %f1, [%rd7];\nadd.rn.f32 %f2, %f1, %f1;\n{}" + STORE)


@pytest.mark.parametrize(("far", "between", "found", "premise"), [
    (0, "", set(), False), (4, "", set(), True), (4, WARP, set(), False), (4, BAR, set(), False),
    (128, "", {"race-overwrite"}, False), (128, WARP, {"race-overwrite"}, False),
    (128, BAR, set(), False)])
def test_a_lane_overwrites_what_another_reads(far: int, between: str, found: set[str],
                                              premise: bool) -> None:
    launch = facts()
    launch["args"][1]["role"] = "inout"
    result = replay(lower(parse(text(IN_PLACE.format(far, between)))), launch)
    assert codes(result) == found
    assert ("warp-order" in result.premises) == premise


def test_a_missing_barrier_of_a_warp_is_not_one_that_is_there() -> None:
    without, with_it = (text(LOAD + TO_SHARED + x + NEAR + STORE) for x in ("", WARP))
    assert compare(with_it, with_it, launch_a=facts()).equal
    assert not compare(without, with_it, launch_a=facts()).equal
    assert not compare(without, without, launch_a=facts()).equal


def test_deadlock_is_reported() -> None:
    body = "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;\n"
    result = run(body)
    assert "deadlock" in codes(result)
    assert run("setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 32;\n").usable
    more = run("bar.sync 1, 32;\n")  # two warps at a barrier for one: who meets whom is not fixed
    assert [reason.code for reason in more.reasons()] == ["barrier"]


def test_data_dependent_control_is_unsupported_not_guessed() -> None:
    body = "ld.global.u32 %r9, [%rd4];\nL1:\nsub.s32 %r9, %r9, 1;\nsetp.gt.s32 %p1, %r9, 0;\n" \
           "@%p1 bra L1;\nst.global.u32 [%rd5], %r9;\n"
    result = run(body)
    assert result.unsupported is not None
    assert result.unsupported.code == "data-dependent"
    known = run(body, dtype="i32", values=[3] * 256)
    assert known.usable


def test_an_opaque_instruction_that_never_runs_is_not_in_the_way() -> None:
    strange = "@%p1 frobnicate.b32 [%rd2], %r1;\n"
    never = run("setp.gt.u32 %p1, %r1, 64;\n" + strange + LOAD + "mov.f32 %f2, %f1;\n" + STORE)
    assert never.usable
    ever = run("setp.gt.u32 %p1, %r1, 62;\n" + strange + LOAD + "mov.f32 %f2, %f1;\n" + STORE)
    assert ever.unsupported is not None
    assert ever.unsupported.code == "opaque"


def test_an_address_out_of_an_opaque_instruction_names_it() -> None:
    result = run("frobnicate.b64 %rd6, %rd4;\nld.global.f32 %f2, [%rd6];\n" + STORE)
    assert result.unsupported is not None
    assert result.unsupported.code == "opaque"
    assert "frobnicate" in result.unsupported.message


def test_loaded_integers_are_indices_where_their_values_are_given() -> None:
    body = ("ld.global.u32 %r9, [%rd4];\nand.b32 %r9, %r9, 63;\nmul.wide.u32 %rd6, %r9, 4;\n"
            "add.s64 %rd6, %rd2, %rd6;\nred.global.add.u32 [%rd6], 1;\n")
    unknown = run(body, dtype="i32")
    assert unknown.unsupported is not None
    assert "values" in unknown.unsupported.message
    counted = run(body, dtype="i32", out="i32", values=[i * i for i in range(256)])
    assert counted.usable
    assert counted.outputs["y"].written[:64].sum() == len({i * i % 64 for i in range(64)})


def test_fuel_runs_out_with_a_reason() -> None:
    result = run("L1:\nbra L1;\n")
    assert result.unsupported is not None
    assert result.unsupported.code == "fuel"


def test_a_spin_lock_is_unsupported() -> None:
    body = "L1:\natom.global.cas.b32 %r9, [%rd2], 0, 1;\nsetp.ne.u32 %p1, %r9, 0;\n@%p1 bra L1;\n"
    result = run(body, threads=32)
    assert result.unsupported is not None
