"""Lanes of one warp that write different values to one address: whose value stays.

An H200 keeps another lane's value for a store of two words than for a store of one: the truth set's
`welford_loop-BM2_BN32_*_w2` and `-BM4_BN32_*_w2` hold the same values in the same lanes, and their
bytes differ.
"""

from __future__ import annotations

from checker.replay import ReplayResult, first_difference
from tests.replay.listing import run

#: each lane of a pair combines both values in its own order
VALUES = """ld.global.f32 %f1, [%rd4];
mov.b32 %r7, %f1;
shfl.sync.bfly.b32 %r8, %r7, 1, 31, -1;
mov.b32 %f2, %r8;
fma.rn.f32 %f3, %f1, 0f40400000, %f2;
"""
#: the pair's address: of 4 bytes, then of 8
PAIR = "shr.b32 %r9, %r1, 1;\nshl.b32 %r9, %r9, {};\nadd.s32 %r9, %r4, %r9;\n"
BACK = """bar.sync 0;
ld.shared.f32 %f5, [%r9];
st.global.f32 [%rd5], %f5;
"""


def _scalar(before: str = "") -> ReplayResult:
    return run(VALUES + PAIR.format(3) + before + "st.shared.f32 [%r9], %f3;\n" + BACK, threads=32)


def test_the_same_store_keeps_the_same_lane() -> None:
    first, again = _scalar(), _scalar("mov.u32 %r20, 7;\n")
    assert first.usable
    assert "lane-pick" in first.premises
    assert first_difference(first, again) is None


def test_a_lane_whose_partner_holds_a_literal_knows_what_it_got() -> None:
    mixed = VALUES.replace("mov.b32 %r7, %f1;\n",
                           "and.b32 %r10, %r1, 1;\nsetp.eq.u32 %p2, %r10, 1;\n"
                           "selp.f32 %f1, 0f40000000, %f1, %p2;\nmov.b32 %r7, %f1;\n")
    store = PAIR.format(3) + "st.shared.f32 [%r9], %f3;\n" + BACK
    found = run(mixed + store, threads=32)
    assert found.usable
    assert "lane-pick" in found.premises
    alone = run(mixed.replace("fma.rn.f32 %f3, %f1, 0f40400000, %f2", "mov.f32 %f3, %f1") + store,
                threads=32)
    assert {f.code for f in alone.findings} == {"write-conflict"}


def test_another_width_may_keep_another_lane() -> None:
    wide = run(VALUES + PAIR.format(3) + "st.shared.v2.f32 [%r9], {%f3, %f3};\n" + BACK, threads=32)
    assert wide.usable
    assert first_difference(_scalar(), wide) is not None


def test_other_addresses_may_keep_another_lane() -> None:
    near = run(VALUES + PAIR.format(2) + "st.shared.f32 [%r9], %f3;\n" + BACK, threads=32)
    assert near.usable
    assert first_difference(_scalar(), near) is not None


def test_a_lane_less_may_keep_another_lane() -> None:
    fewer = run(VALUES + PAIR.format(3) + "setp.ne.u32 %p1, %r1, 30;\n@%p1 st.shared.f32 [%r9], "
                "%f3;\n" + BACK, threads=32)
    assert fewer.usable
    assert first_difference(_scalar(), fewer) is not None
