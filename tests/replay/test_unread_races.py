"""What is read in a race is no defect where it reaches nothing, and the finding where it does.

Two warps work on 32 elements in place: the second one is idle, but loads what the first one has.
"""

from __future__ import annotations

import numpy as np
import pytest

from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, replay
from tests.replay.listing import codes, facts, text

LOAD = ("and.b32 %r6, %r3, 124;\ncvt.u64.u32 %rd6, %r6;\nadd.s64 %rd7, %rd2, %rd6;\n"
        "ld.global.f32 %f1, [%rd7];\nmov.b32 %r10, %f1;\n")
STORE = ("setp.lt.u32 %p1, %r1, 32;\nadd.rn.f32 %f2, %f1, %f1;\n"
         "@%p1 st.global.f32 [%rd7], %f2;\n")
# the idle warp, if it is not idle
PUT = "st.global.u32 [%rd5+512], %r20;\n"
KEEP = "@!%p1 " + PUT
AGAIN = LOAD.replace("%f1", "%f10").replace("%r10", "%r11")
POSITIVE = "setp.gt.f32 %p2, %f1, 0f00000000;\n"
MATRIX = ("mov.b32 %r30, 0;\nmov.f32 %f20, 0f00000000;\n"
          "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f20, %f21, %f22, %f23}, "
          "{%r10, %r10, %r10, %r10}, {%r30, %r30}, {%f20, %f20, %f20, %f20};\n"
          "mov.b32 %r20, %f20;\n")
SHOWS = {
    "the-value": "mov.b32 %r20, %r10;\n" + KEEP,
    "a-product-with-zero": "mul.rn.f32 %f3, %f1, 0f00000000;\nmov.b32 %r20, %f3;\n" + KEEP,
    "a-difference": "sub.rn.f32 %f3, %f1, %f1;\nmov.b32 %r20, %f3;\n" + KEEP,
    "a-maximum": "max.f32 %f3, %f1, 0f00000000;\nmov.b32 %r20, %f3;\n" + KEEP,
    "a-bit": "bfe.u32 %r20, %r10, 3, 1;\n" + KEEP,
    "a-sign": "shr.s32 %r20, %r10, 31;\n" + KEEP,
    "a-half": "cvt.rn.f16.f32 %h1, %f1;\ncvt.u32.u16 %r20, %h1;\n" + KEEP,
    "a-masked-part": "and.b32 %r20, %r10, 255;\n" + KEEP,
    "a-quotient": "div.u32 %r20, %r10, 7;\n" + KEEP,
    "a-count": "popc.b32 %r20, %r10;\n" + KEEP,
    "a-difference-of-two": AGAIN + "sub.u32 %r20, %r10, %r11;\n" + KEEP,
    "an-xor-of-two": AGAIN + "xor.b32 %r20, %r10, %r11;\n" + KEEP,
    "a-comparison-of-two": AGAIN + "setp.eq.u32 %p2, %r10, %r11;\nselp.b32 %r20, 1, 2, %p2;\n"
    + KEEP,
    "a-minimum-of-two": AGAIN + "min.u32 %r20, %r10, %r11;\n" + KEEP,
    "a-choice-by-it": POSITIVE + "selp.b32 %r20, 1, 2, %p2;\n" + KEEP,
    "a-choice-of-it": "ld.global.f32 %f3, [%rd4];\nsetp.gt.f32 %p2, %f3, 0f00000000;\n"
    "selp.b32 %r20, %r10, 0, %p2;\n" + KEEP,
    "a-branch-around-a-value": POSITIVE + "mov.u32 %r20, 1;\n@%p2 bra L1;\nmov.u32 %r20, 2;\nL1:\n"
    + KEEP,
    "a-branch-around-a-store": POSITIVE + "mov.u32 %r20, 1;\n@%p1 bra L1;\n@%p2 bra L1;\n" + PUT
    + "L1:\n",
    "a-guard-of-a-store": POSITIVE + "not.pred %p3, %p1;\nand.pred %p3, %p3, %p2;\n"
    "mov.u32 %r20, 1;\n@%p3 " + PUT,
    "an-exit": POSITIVE + "mov.u32 %r20, 1;\n@%p1 bra L1;\n@%p2 ret;\n" + PUT + "L1:\n",
    "the-turns-of-a-loop": "mov.u32 %r20, 0;\nshr.u32 %r10, %r10, 20;\n@%p1 bra L2;\nL1:\n"
    "add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p2, %r20, %r10;\n@%p2 bra L1;\nL2:\n" + KEEP,
    "an-address": "and.b32 %r12, %r10, 124;\ncvt.u64.u32 %rd8, %r12;\nadd.s64 %rd9, %rd1, %rd8;\n"
    "ld.global.u32 %r20, [%rd9];\n" + KEEP,
    "an-address-of-a-store": "and.b32 %r12, %r10, 124;\ncvt.u64.u32 %rd8, %r12;\n"
    "add.s64 %rd9, %rd2, %rd8;\n@!%p1 st.global.u32 [%rd9+512], 1;\n",
    "a-shuffle": "shfl.sync.bfly.b32 %r20, %r10, 1, 31, -1;\n" + KEEP,
    "a-shuffle-by-it": "and.b32 %r12, %r10, 31;\nshfl.sync.idx.b32 %r20, %r1, %r12, 31, -1;\n"
    + KEEP,
    "a-vote": POSITIVE + "vote.sync.ballot.b32 %r20, %p2, -1;\n" + KEEP,
    "a-reduction-of-a-warp": "redux.sync.and.b32 %r20, %r10, -1;\n" + KEEP,
    "shared-memory": "st.shared.u32 [%r5], %r10;\n" + STORE + "bar.sync 0;\n"
    "xor.b32 %r12, %r3, 128;\nadd.s32 %r12, %r4, %r12;\nld.shared.u32 %r20, [%r12];\n" + PUT,
    "a-copy-to-shared-memory": "cp.async.ca.shared.global [%r5], [%rd7], 4;\n"
    "cp.async.wait_all;\nld.shared.u32 %r20, [%r5];\n" + KEEP,
    "a-matrix-step": MATRIX + KEEP,
    "an-atomic": "@!%p1 red.global.add.u32 [%rd2+512], %r10;\n",
    "a-guard-of-an-atomic": POSITIVE + "@%p1 bra L1;\n@%p2 red.global.add.u32 [%rd2+512], 1;\n"
    "L1:\n",
    "a-barrier's-number": STORE + "shr.u32 %r12, %r10, 30;\nbar.sync %r12;\n",
    "a-barrier's-count": STORE + "shr.u32 %r12, %r10, 30;\nadd.u32 %r12, %r12, 64;\n"
    "bar.sync 1, %r12;\n",
    "a-vote-of-a-barrier": STORE + POSITIVE + "bar.red.popc.u32 %r20, 0, %p2;\n" + KEEP,
    "a-member-mask": "or.b32 %r12, %r10, 1;\nbar.warp.sync %r12;\n",
}
HIDES = {
    "nothing": "",
    "a-sum": "add.u32 %r20, %r10, 1;\n",
    "an-and-with-zero": "and.b32 %r20, %r10, 0;\n" + KEEP,
    "a-product-of-integers-with-zero": "mul.lo.u32 %r20, %r10, 0;\n" + KEEP,
    "all-its-bits-shifted-out": "shl.b32 %r20, %r10, 32;\n" + KEEP,
    "a-mask-of-other-bits": "and.b32 %r20, %r10, 255;\nshr.u32 %r20, %r20, 8;\n" + KEEP,
    "a-choice-of-the-other": "setp.eq.u32 %p2, %r1, 64;\nselp.b32 %r20, %r10, 1, %p2;\n" + KEEP,
    "a-choice-between-equals": POSITIVE + "selp.b32 %r20, 1, 1, %p2;\n" + KEEP,
    "a-false-and": POSITIVE + "and.pred %p3, %p2, %p1;\nmov.u32 %r20, 1;\n@%p3 bra L1;\nL1:\n"
    + KEEP,
    "a-register-that-is-overwritten": "mov.b32 %r20, %r10;\nmov.u32 %r20, 1;\n" + KEEP,
    "a-choice-that-nobody-sees": POSITIVE + "selp.b32 %r20, 1, 2, %p2;\n",
    "a-branch-around-what-nobody-sees": POSITIVE + "@%p2 bra L1;\nmov.u32 %r20, 2;\nL1:\n",
    "shared-memory-that-nobody-reads": "st.shared.u32 [%r5], %r10;\nbar.sync 0;\n"
    "@%p1 ld.shared.u32 %r20, [%r5];\n@%p1 " + PUT,
    "a-shuffle-that-nobody-sees": "shfl.sync.bfly.b32 %r20, %r10, 1, 31, -1;\n",
    "a-matrix-step-that-nobody-sees": MATRIX,
}
LINE = "@%p1 st.global.f32 [%rd7]"
BITS = np.arange(1, 257, dtype=np.uint64) * np.uint64(0x10001)


def run(body: str, domain: str, bar: str = "") -> tuple[ReplayResult, str]:
    """Replay the update in place: the body stands behind the load and, without one, the store."""
    whole = text(LOAD + "setp.lt.u32 %p1, %r1, 32;\n" + body + bar
                 + ("" if STORE in body else STORE))
    launch = facts()
    launch["args"][1]["role"] = "inout"
    inputs = {"x": BITS, "y": BITS} if domain == "bytes" else None
    return replay(lower(parse(whole)), launch, domain=domain, inputs=inputs), whole


@pytest.mark.parametrize("domain", ["trees", "bytes"])
@pytest.mark.parametrize("name", SHOWS)
def test_what_is_read_in_a_race_shows(name: str, domain: str) -> None:
    found, whole = run(SHOWS[name], domain)
    assert not found.usable
    assert "race-overwrite" in codes(found) or (domain == "trees" and found.unsupported is not None)
    for one in found.findings:
        if one.code == "race-overwrite":
            assert one.message == ("buffer y is overwritten while another thread may still read "
                                   "it (no barrier in between)")
            assert one.line_a is not None
            assert whole.split("\n")[one.line_a - 1].startswith(LINE)


@pytest.mark.parametrize("domain", ["trees", "bytes"])
@pytest.mark.parametrize("name", HIDES)
def test_what_is_read_in_a_race_reaches_nothing(name: str, domain: str) -> None:
    free, _ = run(HIDES[name], domain)
    assert free.usable, free.reasons()
    ordered, _ = run(HIDES[name], domain, bar="bar.sync 0;\n")
    assert ordered.usable
    assert free.digest == ordered.digest
