"""Shared memory of the walk: what was written on a path, and what orders it, each with a twin."""

from __future__ import annotations

import numpy as np
import pytest

from checker import compare, sign
from checker.tree.nodes import Forest
from checker.tree.values import Values
from checker.walk.shared import Shared
from tests.kernels import ptx


def _kernel(body: str, neighbour: int = 1) -> str:
    """%r22 is a lane's own shared word, %r24 that of the lane it differs from by `neighbour`."""
    return ptx(f"""
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        add.s64 %rd6, %rd2, %rd4;
        ld.global.f32 %f1, [%rd5];
        mov.u32 %r20, smem;
        shl.b32 %r21, %r1, 2;
        add.s32 %r22, %r20, %r21;
        xor.b32 %r23, %r1, {neighbour};
        shl.b32 %r23, %r23, 2;
        add.s32 %r24, %r20, %r23;
        setp.lt.s32 %p1, %r1, %r10;
        setp.gt.s32 %p9, %r10, 5;
        mov.f32 %f4, 0f00000000;
        {body}
        """, "u64 u64 u32", shared=1024)


def _found(text: str) -> set[str]:
    assert not compare(text, text).equal
    return {f.code for f in sign(text).findings}


def _stored(store: str, read: str = "@!%p1 bra $end;", end: str = "$end:") -> str:
    return _kernel(f"""
        st.shared.f32 [%r22], 0f3F800000;
        bar.sync 0;
        {store}
        bar.sync 0;
        {read}
        ld.shared.f32 %f2, [%r24];
        st.global.f32 [%rd6], %f2;
        {end}
        """)


def test_what_another_lane_writes_on_a_path_is_there_where_that_lane_took_it() -> None:
    """Lane n - 1 reads what lane n, which stores nothing, left there."""
    everywhere = _stored("st.shared.f32 [%r22], %f1;")
    branch = _stored("@!%p1 bra $past;\nst.shared.f32 [%r22], %f1;\n$past:")
    assert compare(everywhere, everywhere).equal
    assert not compare(branch, everywhere).equal
    own = branch.replace("[%r24]", "[%r22]")
    assert compare(own, everywhere.replace("[%r24]", "[%r22]")).equal  # each lane reads its own
    uniform = branch.replace("setp.lt.s32 %p1, %r1", "setp.lt.s32 %p1, 7")
    assert compare(uniform, everywhere.replace("setp.lt.s32 %p1, %r1", "setp.lt.s32 %p1, 7")).equal


def _read_twice(between: str) -> str:
    return _kernel(f"""
        st.shared.f32 [%r22], %f1;
        bar.sync 0;
        ld.shared.f32 %f2, [%r24];
        {between}
        st.shared.f32 [%r22], %f2;
        bar.sync 0;
        ld.shared.f32 %f3, [%r24];
        add.rn.f32 %f3, %f3, %f4;
        st.global.f32 [%rd6], %f3;
        """)


@pytest.mark.parametrize("between", [
    "@!%p9 bra $past;\nbar.sync 0;\nld.shared.f32 %f4, [%r22];\n$past:",
    "@%p9 bar.sync 0;\n@%p9 ld.shared.f32 %f4, [%r22];"], ids=["path", "guard"])
def test_a_read_is_not_forgotten_for_one_that_a_barrier_orders_on_some_path(between: str) -> None:
    assert "race" in _found(_read_twice(between))
    always = between.replace("@!%p9 bra $past;\n", "").replace("@%p9 bar", "bar")
    assert compare(_read_twice(always), _read_twice(always)).equal


def test_a_write_is_not_forgotten_for_one_that_a_barrier_orders_on_some_path() -> None:
    text = _kernel("""
        st.shared.f32 [%r24], %f1;
        @%p9 bar.sync 0;
        @%p9 st.shared.f32 [%r22], 0f3F800000;
        ld.shared.f32 %f3, [%r22];
        st.global.f32 [%rd6], %f3;
        """)
    assert "race" in _found(text)
    always = text.replace("@%p9 bar", "bar")
    assert compare(always, always).equal
    later = text.replace("ld.shared", "bar.sync 0;\nld.shared")
    assert compare(later, later).equal


def _across(barrier: str) -> str:
    return _kernel(f"""
        setp.lt.u32 %p3, %r1, 16;
        st.shared.f32 [%r24], %f1;
        {barrier}
        ld.shared.f32 %f3, [%r22];
        st.global.f32 [%rd6], %f3;
        """, neighbour=16)


@pytest.mark.parametrize("mask", ["selp.b32 %r30, 65535, -65536, %p3;\nbar.warp.sync %r30;",
                                  "@%p1 bar.warp.sync -1;"], ids=["halves", "path"])
def test_a_barrier_of_a_part_of_a_warp_does_not_order_the_warp(mask: str) -> None:
    assert "race" in _found(_across(mask))
    assert compare(_across("bar.warp.sync -1;"), _across("bar.warp.sync -1;")).equal


def _copied(before: str, wait: str, read: str = "") -> str:
    return _kernel(f"""
        {before}
        cp.async.ca.shared.global [%r22], [%rd5], 4;
        bar.sync 0;
        {wait}
        bar.sync 0;
        {read} ld.shared.f32 %f4, [%r24];
        {read} st.global.f32 [%rd6], %f4;
        """)


def test_a_copy_starts_where_it_is_issued() -> None:
    """What others store there with no barrier before may come after it."""
    store = "st.shared.f32 [%r24], 0f3F800000;"
    assert "race" in _found(_copied(store, "cp.async.wait_all;"))
    ordered = _copied(store + "\nbar.sync 0;", "cp.async.wait_all;")
    assert compare(ordered, ordered).equal


@pytest.mark.parametrize("wait", ["@%p1 cp.async.wait_all;",
                                  "@!%p1 bra $past;\ncp.async.wait_all;\n$past:"])
def test_who_waits_for_copies_waits_for_its_own(wait: str) -> None:
    assert "race" in _found(_copied("", wait, "@%p1"))
    all_of_them = _copied("", "cp.async.wait_all;", "@%p1")
    assert compare(all_of_them, all_of_them).equal


def test_all_lanes_that_read_one_word_together_are_remembered() -> None:
    """Lane 31 stores to the word that every lane reads."""
    text = _kernel("""
        st.shared.f32 [%r22], %f1;
        bar.sync 0;
        ld.shared.f32 %f2, [%r20];
        setp.eq.s32 %p2, %r1, 31;
        BETWEEN
        @%p2 st.shared.f32 [%r20], 0f3F800000;
        st.global.f32 [%rd6], %f2;
        """)
    assert "race" in _found(text.replace("BETWEEN", ""))
    ordered = text.replace("BETWEEN", "bar.sync 0;")
    assert compare(ordered, ordered).equal


def test_lanes_of_one_warp_that_read_one_word_are_ordered_by_its_barrier() -> None:
    text = _kernel("""
        st.shared.f32 [%r22], %f1;
        bar.sync 0;
        ld.shared.f32 %f2, [%r20];
        setp.eq.s32 %p2, %r1, 31;
        bar.warp.sync -1;
        @%p2 st.shared.f32 [%r20], 0f3F800000;
        st.global.f32 [%rd6], %f2;
        """)
    assert compare(text, text).equal
    assert "race" in _found(text.replace(".reqntid 32", ".reqntid 64"))


@pytest.mark.parametrize("alone", [True, False])
def test_one_warp_needs_no_other_order_than_its_own(alone: bool) -> None:
    """A warp's barriers on a path order all lanes of a block that is no more than that warp."""
    found: list[str] = []
    forest = Forest(32)
    shared = Shared(Values(forest), 32, lambda code, _text: found.append(code), alone)
    at, lanes = 4 * np.arange(32), np.ones(32, dtype=bool)
    value = forest.make("param", "p", 32)
    shared.here = lambda: value
    shared.holds = lambda _cond, path=None: path is None  # here, and not on every path
    for turn in range(1, 4):  # each lane writes a word, and another one reads it
        shared.store(at, value, lanes)
        shared.barrier(warp_only=True, cond=forest.make("ge0", "p", 1, (value,)))
        shared.look((np.roll(at, turn)[:, None] + np.arange(4)), np.arange(32))
        shared.barrier(warp_only=True, cond=forest.make("ge0", "p", 1, (value,)))
    assert bool(found) is not alone
