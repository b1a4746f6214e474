"""Pairs that differ and that checkers of this kind have merged: loops, parts, several outputs."""

from __future__ import annotations

import pytest

from checker import compare, sign
from tests.kernels import ptx


def same(a: str, b: str) -> bool:
    for text in (a, b):
        assert sign(text).modelled, sign(text).findings
    verdict = compare(a, b)
    assert verdict.equal == (sign(a).text == sign(b).text)
    assert verdict.equal or verdict.kind == "unproved"
    return verdict.equal


def _part(span: int = 64, start: int | None = None, outer: str = "1", init: str = "0f00000000",
          step: int = 32) -> str:
    """out[block, lane] = sum of a[k + lane], k from start * block to min(n, span (block + 1))."""
    first = span if start is None else start
    return ptx(f"""
        mul.lo.s32 %r3, %r2, {first};
        mul.lo.s32 %r4, %r2, {span};
        add.s32 %r4, %r4, {span};
        min.s32 %r4, %r10, %r4;
        mul.wide.u32 %rd4, %r1, 4;
        mov.f32 %f1, {init};
        mov.u32 %r6, 0;
        $outer:
        mov.u32 %r5, %r3;
        setp.ge.s32 %p1, %r5, %r4;
        @%p1 bra $done;
        $loop:
        mul.wide.s32 %rd5, %r5, 4;
        add.s64 %rd6, %rd1, %rd5;
        add.s64 %rd6, %rd6, %rd4;
        ld.global.f32 %f2, [%rd6];
        add.rn.f32 %f1, %f1, %f2;
        add.s32 %r5, %r5, {step};
        setp.lt.s32 %p2, %r5, %r4;
        @%p2 bra $loop;
        $done:
        add.s32 %r6, %r6, 1;
        setp.lt.s32 %p3, %r6, {outer};
        @%p3 bra $outer;
        mad.lo.s32 %r7, %r2, 32, %r1;
        mul.wide.s32 %rd7, %r7, 4;
        add.s64 %rd8, %rd2, %rd7;
        st.global.f32 [%rd8], %f1;
        """, "u64 u64 u32")


@pytest.mark.parametrize("other", [
    _part(128), _part(32),  # partial sums of another split
    _part(start=0),  # a causal bound: it depends on the block index, the start does not
    _part(start=32), _part(init="0f3F800000"), _part(step=64), _part(outer="2"), _part(outer="3"),
])
def test_partial_sums_of_other_spans(other: str) -> None:
    assert same(_part(), _part())
    assert not same(_part(), other)


def test_bounds_that_depend_on_the_block() -> None:
    """Causal loops of two block sizes: the bound is a multiple of another block."""
    assert not same(_part(64, start=0), _part(128, start=0))
    assert not same(_part(outer="2"), _part(outer="3"))


def _two(first: str = "%f3", second: str = "%f4", more: str = "") -> str:
    """out[i] and out[i + 1024]: two trees with a common part."""
    return ptx(f"""
        mad.lo.s32 %r3, %r2, 32, %r1;
        mul.wide.u32 %rd4, %r3, 4;
        add.s64 %rd5, %rd1, %rd4;
        add.s64 %rd6, %rd2, %rd4;
        ld.global.f32 %f1, [%rd5];
        ld.global.f32 %f2, [%rd5+4096];
        mul.rn.f32 %f3, %f1, %f2;
        add.rn.f32 %f4, %f3, %f2;
        {more}
        st.global.f32 [%rd6], {first};
        st.global.f32 [%rd6+262144], {second};
        """)


def test_each_output_has_a_tree_of_its_own() -> None:
    """A common part that was seen under one output is seen under the next one, too."""
    assert same(_two(), _two())
    for other in (_two("%f4", "%f3"), _two("%f3", "%f3"), _two("%f4", "%f4"),
                  _two(more="add.rn.f32 %f3, %f2, %f1;"), _two(second="%f2")):
        assert not same(_two(), other)


def _stale(store: str) -> str:
    """A cell is written by a scalar store, then by `store`, then read by the lane next to it."""
    return ptx(f"""
        mul.wide.u32 %rd4, %r1, 8;
        add.s64 %rd5, %rd1, %rd4;
        ld.global.v2.f32 {{%f1, %f2}}, [%rd5];
        shl.b32 %r3, %r1, 3;
        mov.u32 %r4, smem;
        add.s32 %r5, %r4, %r3;
        st.shared.f32 [%r5+4], 0f40400000;
        {store}
        bar.sync 0;
        xor.b32 %r6, %r3, 8;
        add.s32 %r7, %r4, %r6;
        ld.shared.f32 %f3, [%r7+4];
        mul.wide.u32 %rd6, %r1, 4;
        add.s64 %rd7, %rd2, %rd6;
        st.global.f32 [%rd7], %f3;
        """, shared=512)


def test_a_vector_store_covers_an_older_scalar_one() -> None:
    vector = _stale("st.shared.v2.f32 [%r5], {%f1, %f2};")
    assert same(vector, _stale("st.shared.f32 [%r5+4], %f2;"))
    assert not same(vector, _stale(""))
    assert not same(vector, _stale("st.shared.v2.f32 [%r5], {%f2, %f1};"))
    assert not same(vector, _stale("st.shared.f32 [%r5], %f1;"))


def _epilogue(scale: str) -> str:
    """int32 accumulator times two scales to f16: what follows a product counts."""
    return ptx(f"""
        mad.lo.s32 %r3, %r2, 32, %r1;
        mul.wide.u32 %rd4, %r3, 4;
        mul.wide.u32 %rd5, %r3, 2;
        add.s64 %rd6, %rd1, %rd4;
        add.s64 %rd7, %rd2, %rd4;
        add.s64 %rd8, %rd3, %rd5;
        ld.global.s32 %r4, [%rd6];
        cvt.rn.f32.s32 %f1, %r4;
        ld.global.f32 %f2, [%rd7];
        ld.global.f32 %f3, [%rd7+4096];
        {scale}
        st.global.b16 [%rd8], %h1;
        """, "u64 u64 u64")


EPILOGUES = {
    "in turn": "mul.rn.f32 %f4, %f1, %f2;\nmul.rn.f32 %f5, %f4, %f3;\ncvt.rn.f16.f32 %h1, %f5;",
    "scales first": "mul.rn.f32 %f4, %f2, %f3;\nmul.rn.f32 %f5, %f1, %f4;\n"
                    "cvt.rn.f16.f32 %h1, %f5;",
    "other first": "mul.rn.f32 %f4, %f1, %f3;\nmul.rn.f32 %f5, %f4, %f2;\n"
                   "cvt.rn.f16.f32 %h1, %f5;",
    "bf16 scale": "cvt.rn.bf16.f32 %h2, %f2;\ncvt.f32.bf16 %f6, %h2;\nmul.rn.f32 %f4, %f1, %f6;\n"
                  "mul.rn.f32 %f5, %f4, %f3;\ncvt.rn.f16.f32 %h1, %f5;",
    "rounded twice": "mul.rn.f32 %f4, %f1, %f2;\ncvt.rn.f16.f32 %h2, %f4;\ncvt.f32.f16 %f6, %h2;\n"
                     "mul.rn.f32 %f5, %f6, %f3;\ncvt.rn.f16.f32 %h1, %f5;",
    "truncated": "mul.rn.f32 %f4, %f1, %f2;\nmul.rn.f32 %f5, %f4, %f3;\ncvt.rz.f16.f32 %h1, %f5;",
    "bias fused": "mul.rn.f32 %f4, %f1, %f2;\nfma.rn.f32 %f5, %f4, %f3, %f2;\n"
                  "cvt.rn.f16.f32 %h1, %f5;",
    "bias added": "mul.rn.f32 %f4, %f1, %f2;\nmul.rn.f32 %f6, %f4, %f3;\n"
                  "add.rn.f32 %f5, %f6, %f2;\ncvt.rn.f16.f32 %h1, %f5;",
}


def test_eight_epilogues_are_eight() -> None:
    signatures = {name: sign(_epilogue(body)) for name, body in EPILOGUES.items()}
    assert all(s.modelled for s in signatures.values())
    assert len({s.text for s in signatures.values()}) == len(EPILOGUES)
