"""Figure 4 of the seed paper, and the known false merges that need no matrix unit, both sides."""

from __future__ import annotations

import itertools

import pytest

from checker import compare, sign
from tests.figure4 import listing
from tests.kernels import butterfly, elementwise, ptx


def same(a: str, b: str) -> bool:
    verdict = compare(a, b)
    if verdict.equal:
        assert sign(a).text == sign(b).text
    else:
        assert verdict.kind == "unproved"
        assert verdict.reasons
        assert sign(a).text != sign(b).text
    return verdict.equal


def test_figure_4_two_layouts_have_one_signature() -> None:
    assert same(listing(64), listing(32))
    assert same(listing(64, commute=True), listing(32, name="renamed"))


@pytest.mark.parametrize("twin", [
    {"offsets": (16, 8, 4, 2, 1)}, {"leaf_order": (1, 0, 2, 3, 4, 5, 6, 7), "swap": True},
    {"leaf_order": (0, 2, 1, 3, 4, 5, 6, 7)}, {"second_offset": 1000}, {"leaf": "mul+add"},
    {"offsets": (1, 16, 2, 8, 4)}, {"offsets": (1, 2, 4, 8, 8)}, {"leaf_stride": 32},
], ids=str)
def test_figure_4_twins(twin: dict[str, object]) -> None:
    harmless = twin.pop("swap", False)  # the two leaves of one add exchanged: still that add
    assert same(listing(32), listing(32, **twin)) is bool(harmless)  # type: ignore[arg-type]


def test_figure_4_leaf_rounding() -> None:
    assert not same(listing(32, leaf="mul+add"), listing(32, leaf="fma"))
    assert same(listing(32, leaf="fma"), listing(64, leaf="fma"))


NEIGHBOURS = butterfly("mul.wide.u32 %rd4, %r1, 8;", "add.s64 %rd6, %rd4, 4;")
HALVES = butterfly("mul.wide.u32 %rd4, %r1, 4;", "add.s64 %rd6, %rd4, 128;")


def test_leaf_distance_is_part_of_a_balanced_tree() -> None:
    assert not same(NEIGHBOURS, HALVES)


def test_order_of_butterflies_is_part_of_a_balanced_tree() -> None:
    other = butterfly("mul.wide.u32 %rd4, %r1, 8;", "add.s64 %rd6, %rd4, 4;", (1, 16, 2, 8, 4))
    assert not same(NEIGHBOURS, other)


ELEMENTWISE = {
    "a*b+a": "mul.rn.f32 %f8, %f1, %f2;\nadd.rn.f32 %f9, %f8, %f1;",
    "a+b*a": "mul.rn.f32 %f8, %f2, %f1;\nadd.rn.f32 %f9, %f1, %f8;",
    "a*(b+1)": "add.rn.f32 %f8, %f2, 0f3F800000;\nmul.rn.f32 %f9, %f1, %f8;",
    "fma(a,b,a)": "fma.rn.f32 %f9, %f1, %f2, %f1;",
    "a*b-(-a)": "mul.rn.f32 %f8, %f1, %f2;\nneg.f32 %f7, %f1;\nsub.rn.f32 %f9, %f8, %f7;",
    "a*b-(0-a)": "mul.rn.f32 %f8, %f1, %f2;\nsub.rn.f32 %f7, 0f00000000, %f1;\n"
                 "sub.rn.f32 %f9, %f8, %f7;",
    "(a+b)+a": "add.rn.f32 %f8, %f1, %f2;\nadd.rn.f32 %f9, %f8, %f1;",
    "a+(b+a)": "add.rn.f32 %f8, %f2, %f1;\nadd.rn.f32 %f9, %f1, %f8;",
    "b+(a+a)": "add.rn.f32 %f8, %f1, %f1;\nadd.rn.f32 %f9, %f2, %f8;",
    "a*2+b": "mul.rn.f32 %f8, %f1, 0f40000000;\nadd.rn.f32 %f9, %f8, %f2;",
    "(a+a)+b": "add.rn.f32 %f8, %f1, %f1;\nadd.rn.f32 %f9, %f8, %f2;",
    "fma(a,2,b)": "fma.rn.f32 %f9, %f1, 0f40000000, %f2;",
    "a/b": "div.rn.f32 %f9, %f1, %f2;",
    "a*(1/b)": "rcp.rn.f32 %f8, %f2;\nmul.rn.f32 %f9, %f1, %f8;",
    "a/b full": "div.full.f32 %f9, %f1, %f2;",
    "neighbour": "ld.global.f32 %f3, [%rd6+4];\nmul.rn.f32 %f8, %f1, %f3;\n"
                 "add.rn.f32 %f9, %f8, %f1;",
    "where(a>b,a,b)": "setp.gt.f32 %p1, %f1, %f2;\nselp.f32 %f9, %f1, %f2, %p1;",
    "max(b,a)": "max.f32 %f9, %f2, %f1;",
    "max(a,b)": "max.f32 %f9, %f1, %f2;",
    "max.NaN(a,b)": "max.NaN.f32 %f9, %f1, %f2;",
    "a*b+a ftz": "mul.rn.ftz.f32 %f8, %f1, %f2;\nadd.rn.ftz.f32 %f9, %f8, %f1;",
}
#: the same bits for every input; everything else differs on some input (a test of the replay)
EQUAL_GROUPS = [
    {"a*b+a", "a+b*a", "a*b-(-a)"}, {"(a+b)+a", "a+(b+a)"},
    {"b+(a+a)", "a*2+b", "(a+a)+b"}, {"max(b,a)", "max(a,b)"},
]


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(ELEMENTWISE, 2)))
def test_elementwise_variants_merge_exactly_where_the_bits_are_the_same(one: str, two: str) -> None:
    expected = any({one, two} <= group for group in EQUAL_GROUPS)
    assert same(elementwise(ELEMENTWISE[one]), elementwise(ELEMENTWISE[two])) is expected


def test_float_atomics_equal_nothing_not_even_themselves() -> None:
    text = ptx("""
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        ld.global.f32 %f1, [%rd5];
        red.global.add.f32 [%rd2], %f1;
        """)
    verdict = compare(text, text)
    assert not verdict.equal
    assert any(r.code == "nondeterministic" for r in verdict.reasons)
    assert sign(text).nondeterministic


@pytest.mark.parametrize(("one", "two"), [
    ("bfe.u32 %r4, %r10, 4, 8;", "bfe.s32 %r4, %r10, 4, 8;"),
    ("shr.u32 %r4, %r10, 3;", "shr.s32 %r4, %r10, 3;"),
    ("mul.lo.s32 %r4, %r10, 3;", "mul.lo.s32 %r4, %r10, 5;"),
    ("max.s32 %r4, %r10, 3;", "max.u32 %r4, %r10, 3;"),
    ("add.s32 %r4, %r10, %r2;", "add.s32 %r4, %r10, %r1;"),
    ("and.b32 %r4, %r10, 15;", "and.b32 %r4, %r10, 7;"),
])
def test_integer_twins(one: str, two: str) -> None:
    texts = [ptx(f"""
        {line}
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        st.global.u32 [%rd5], %r4;
        """, "u64 u32") for line in (one, two)]
    assert same(texts[0], texts[0])
    assert not same(*texts)


def test_index_that_overflows_before_it_is_widened_is_another_index() -> None:
    wide = ptx("""
        mul.wide.s32 %rd4, %r10, 4;
        mul.wide.u32 %rd5, %r1, 4;
        add.s64 %rd6, %rd4, %rd5;
        add.s64 %rd7, %rd1, %rd6;
        ld.global.f32 %f1, [%rd7];
        add.s64 %rd8, %rd2, %rd5;
        st.global.f32 [%rd8], %f1;
        """, "u64 u64 u32")
    narrow = wide.replace("mul.wide.s32 %rd4, %r10, 4;",
                          "shl.b32 %r5, %r10, 2;\n    cvt.s64.s32 %rd4, %r5;")
    assert same(wide, wide)
    assert not same(wide, narrow)


EXCHANGE = """
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.f32 %f1, [%rd5];
    shl.b32 %r3, %r1, 2;
    mov.u32 %r4, smem;
    add.s32 %r5, %r4, %r3;
    st.shared.f32 [%r5], %f1;
    bar.sync 0;
    xor.b32 %r6, %r3, {xor};
    add.s32 %r7, %r4, %r6;
    ld.shared.f32 %f2, [%r7];
    add.rn.f32 %f3, %f1, %f2;
    add.s64 %rd6, %rd2, %rd4;
    st.global.f32 [%rd6], %f3;
"""


def test_shared_memory_partner_is_in_the_tree() -> None:
    near, far = (ptx(EXCHANGE.format(xor=x), threads=64, shared=256) for x in (4, 128))
    assert same(near, near)
    assert not same(near, far)
    shuffled = ptx("""
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        ld.global.f32 %f1, [%rd5];
        shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1;
        add.rn.f32 %f3, %f2, %f1;
        add.s64 %rd6, %rd2, %rd4;
        st.global.f32 [%rd6], %f3;
        """, threads=64)
    assert same(near, shuffled)


def test_missing_barrier_is_never_equal() -> None:
    text = ptx(EXCHANGE.format(xor=128).replace("bar.sync 0;", ""), threads=64, shared=256)
    assert not compare(text, text).equal


GUARDED = """
    mad.lo.s32 %r3, %r2, 32, %r1;
    mul.wide.u32 %rd4, %r3, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    setp.lt.s32 %p1, %r3, {limit};
    @%p1 ld.global.f32 %f1, [%rd5];
    @%p1 st.global.f32 [%rd6], %f1;
"""


def test_store_guard_is_in_the_signature() -> None:
    texts = [ptx(GUARDED.format(limit=limit), "u64 u64 u32") for limit in ("%r10", "100", "101")]
    for a, b in itertools.combinations(texts, 2):
        assert not same(a, b)
    deleted = texts[0].replace("@%p1 st.global.f32 [%rd6], %f1;", "")
    assert not same(texts[0], deleted)


def test_half_butterfly_through_packed_registers() -> None:
    def kernel(distance: int) -> str:
        return ptx(f"""
            mul.wide.u32 %rd4, %r1, 2;
            add.s64 %rd5, %rd1, %rd4;
            ld.global.b16 %h1, [%rd5];
            cvt.u32.u16 %r3, %h1;
            shfl.sync.bfly.b32 %r4, %r3, {distance}, 31, -1;
            cvt.u16.u32 %h2, %r4;
            add.rn.f16 %h3, %h1, %h2;
            add.s64 %rd6, %rd2, %rd4;
            st.global.b16 [%rd6], %h3;
            """)
    assert same(kernel(4), kernel(4))
    assert not same(kernel(4), kernel(8))


def test_vector_store_is_seen_element_by_element() -> None:
    def kernel(order: str) -> str:
        return ptx(f"""
            mul.wide.u32 %rd4, %r1, 16;
            add.s64 %rd5, %rd1, %rd4;
            ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd5];
            shl.b32 %r3, %r1, 4;
            mov.u32 %r4, smem;
            add.s32 %r5, %r4, %r3;
            st.shared.v4.f32 [%r5], {order};
            bar.sync 0;
            ld.shared.f32 %f5, [%r5+4];
            mul.wide.u32 %rd6, %r1, 4;
            add.s64 %rd7, %rd2, %rd6;
            st.global.f32 [%rd7], %f5;
            """, shared=512)
    assert same(kernel("{%f1, %f2, %f3, %f4}"), kernel("{%f3, %f2, %f1, %f4}"))
    assert not same(kernel("{%f1, %f2, %f3, %f4}"), kernel("{%f2, %f1, %f3, %f4}"))


def test_masked_load_merges_two_definitions() -> None:
    def kernel(other: str, guard: str = "@%p1") -> str:
        return ptx(f"""
            mul.wide.u32 %rd4, %r1, 4;
            add.s64 %rd5, %rd1, %rd4;
            add.s64 %rd6, %rd2, %rd4;
            setp.lt.s32 %p1, %r1, %r10;
            mov.b32 %f1, {other};
            {guard} ld.global.f32 %f1, [%rd5];
            st.global.f32 [%rd6], %f1;
            """, "u64 u64 u32")
    assert not same(kernel("0f00000000"), kernel("0fFF800000"))
    assert not same(kernel("0f00000000"), kernel("0f00000000", "@!%p1"))
