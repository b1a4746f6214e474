"""Scalar kernels: what compilers write in several ways, and what only looks like it."""

from __future__ import annotations

from functools import cache

import pytest

from checker.api import program_of
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.walk.run import walk
from corpus.load import load_set
from tests.walk.kernels import equal, text, walked


def _guarded(test: str, threads: int = 64) -> str:
    """out[i] = %p2 ? a[i] : 1, i = %r12; the block's first element is %r10."""
    return text(f"""
    mul.lo.s32 %r10, %r3, {threads};
    add.s32 %r12, %r10, %r2;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    {test}
    mov.f32 %f1, 0f3F800000;
    @%p2 ld.global.f32 %f1, [%rd11];
    st.global.f32 [%rd12], %f1;""", threads)


TRUE = "setp.eq.s32 %p2, 0, 0;"


@pytest.mark.parametrize("test", [
    "setp.gt.s32 %p2, %r10, -1;", "setp.ge.s32 %p2, %r12, 0;",
    "add.s32 %r14, %r10, 7;\n    setp.gt.s32 %p2, %r14, -1;"])
def test_where_a_block_starts_is_not_negative(test: str) -> None:
    """The sign of an output's index (or of its block's first) needs no test: `no-index-wrap`."""
    assert equal(_guarded(test), _guarded(TRUE))
    assert equal(_guarded(test), _guarded(test, 128))
    assert "no-index-wrap" in walked(_guarded(test)).premises


@pytest.mark.parametrize("test", [
    "setp.gt.s32 %p2, %r10, 0;",  # not the first block
    "setp.gt.s32 %p2, %r12, 0;",  # not the first element
    "add.s32 %r14, %r10, -1;\n    setp.gt.s32 %p2, %r14, -1;",
    "mul.lo.s32 %r14, %r3, 33554432;\n    setp.gt.s32 %p2, %r14, -1;",  # no index of an output
    "sub.s32 %r14, %r10, %r1;\n    setp.gt.s32 %p2, %r14, -1;",
])
def test_other_tests_of_a_start_count(test: str) -> None:
    assert not equal(_guarded(test), _guarded(TRUE))


# --- products of two words ---------------------------------------------------------------------


def _hashed(steps: str, threads: int = 64) -> str:
    """out[i] = a word made from %r13 (a[i]), %r16 (b[i]) and %r12 (i), in %r20."""
    return text(f"""
    mad.lo.s32 %r12, %r3, {threads}, %r2;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.u32 %r13, [%rd11];
    add.s64 %rd15, %rd2, %rd10;
    ld.global.u32 %r16, [%rd15];
    {steps}
    st.global.u32 [%rd12], %r20;""", threads)


HIGH = "mul.hi.u32 %r14, %r13, -766435501;\n    xor.b32 %r20, %r14, %r16;"
WIDE = "mul.wide.u32 %rd13, %r13, -766435501;\n"
XOR = "    xor.b32 %r20, %r14, %r16;"


@pytest.mark.parametrize("steps", [
    WIDE + "    mov.b64 {_, %r14}, %rd13;\n" + XOR,
    WIDE + "    shr.u64 %rd13, %rd13, 32;\n    cvt.u32.u64 %r14, %rd13;\n" + XOR,
    "cvt.u64.u32 %rd13, %r13;\n    mul.lo.s64 %rd13, %rd13, 3528531795;\n"
    "    shr.u64 %rd13, %rd13, 32;\n    cvt.u64.u32 %rd14, %r16;\n"
    "    xor.b64 %rd13, %rd13, %rd14;\n    cvt.u32.u64 %r20, %rd13;",
])
def test_a_high_word_is_one_however_it_is_taken(steps: str) -> None:
    assert equal(_hashed(HIGH), _hashed(steps))


@pytest.mark.parametrize("steps", [
    WIDE + "    shr.u64 %rd13, %rd13, 31;\n    cvt.u32.u64 %r14, %rd13;\n" + XOR,
    WIDE + "    cvt.u32.u64 %r14, %rd13;\n" + XOR,  # the low word
    "mul.wide.s32 %rd13, %r13, -766435501;\n    mov.b64 {_, %r14}, %rd13;\n" + XOR,
    "mul.hi.s32 %r14, %r13, -766435501;\n" + XOR,
    "cvt.s64.s32 %rd13, %r13;\n    mul.lo.s64 %rd13, %rd13, 3528531795;\n"
    "    mov.b64 {_, %r14}, %rd13;\n" + XOR,
    WIDE + "    add.s64 %rd13, %rd13, 1;\n    mov.b64 {_, %r14}, %rd13;\n" + XOR,
    "mul.hi.u32 %r14, %r13, -766435500;\n" + XOR,
])
def test_other_words_of_a_product(steps: str) -> None:
    assert not equal(_hashed(HIGH), _hashed(steps))


def test_a_product_that_wraps_is_of_what_is_multiplied() -> None:
    """A hash of the element's index is one function of it, whatever the tile."""
    low = "mul.lo.s32 %r14, %r12, -766435501;\n" + XOR
    assert equal(_hashed(low), _hashed(low, 128))
    assert equal(_hashed(low), _hashed("mul.lo.s32 %r14, -766435501, %r12;\n" + XOR, 32))
    assert not equal(_hashed(low), _hashed(low.replace("501", "500")))
    assert not equal(_hashed(low), _hashed(low.replace("%r12, -", "%r13, -")))
    # the same modulo what the block index is multiplied by: another number for most elements
    assert not equal(_hashed(low), _hashed(low.replace("-766435501", str(-766435501 + (1 << 26)))))


def test_a_choice_is_converted_on_both_sides() -> None:
    """convert(c ? x : 0) is c ? convert(x) : 0, and no other choice."""
    def narrow(steps: str) -> str:
        return text(f"""
    mad.lo.s32 %r12, %r3, 64, %r2;
    mul.wide.s32 %rd10, %r12, 4;
    mul.wide.s32 %rd13, %r12, 2;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd13;
    ld.global.f32 %f1, [%rd11];
    setp.gt.f32 %p2, %f1, 0f3F000000;
    {steps}
    st.global.b16 [%rd12], %h1;""")

    before = narrow("selp.f32 %f2, %f1, 0f40000000, %p2;\n    cvt.rn.f16.f32 %h1, %f2;")
    after = "cvt.rn.f16.f32 %h2, %f1;\n    mov.b16 %h3, 0x4000;\n    selp.b16 %h1, %h2, %h3, %p2;"
    assert equal(before, narrow(after))
    assert not equal(before, narrow(after.replace("0x4000", "0x4200")))
    assert not equal(before, narrow(after.replace("%h2, %h3, %p2", "%h3, %h2, %p2")))
    assert not equal(before, narrow(after.replace("cvt.rn", "cvt.rz")))


def _element(index: str, offset: int = 0, store: str = "st.global.f32 [%rd12+{0}], %f1;",
             load: str = "ld.global.f32 %f1, [%rd11+{0}];") -> str:
    """out[n * block + lane + e] = a[the same], e in the 32-bit index or in the address."""
    return text(f"""
    mad.lo.s32 %r12, %r3, %r1, %r2;
    {index}
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    {load.format(offset)}
    {store.format(offset)}""")


def test_an_element_is_counted_inside_or_outside_of_the_widening() -> None:
    inside = _element("add.s32 %r12, %r12, 5;")
    assert equal(inside, _element("", 20))
    assert "no-index-wrap" in walked(inside).premises
    assert equal(inside, _element("add.s32 %r12, %r12, 3;", 8))


@pytest.mark.parametrize("other", [
    _element("", 16), _element("add.s32 %r12, %r12, 4;"), _element("add.s32 %r12, %r12, 5;", 4),
    _element("", 20, load="ld.global.f32 %f1, [%rd11+16];"),
    _element("", 20, store="st.global.f32 [%rd12+16], %f1;"),
    _element("add.s32 %r12, %r12, 5;").replace(
        "mul.wide.s32 %rd10, %r12, 4;", "shl.b32 %r12, %r12, 2;\n    cvt.s64.s32 %rd10, %r12;"),
    _element("add.s32 %r12, %r12, 5;").replace("mul.wide.s32", "mul.wide.u32"),
    _element("add.s32 %r12, %r12, 5;").replace("mul.wide.s32 %rd10, %r12, 4",
                                               "mul.wide.s32 %rd10, %r12, 8"),
    _element("sub.s32 %r12, %r12, 5;"), _element("", -20),
])
def test_other_elements_and_other_widenings(other: str) -> None:
    assert not equal(_element("add.s32 %r12, %r12, 5;"), other)


def _row_store(less: int, more: int) -> str:
    """out[block * n + thread] = a[thread], the index less a literal before it is widened."""
    return text(f"""
    mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4; ld.global.f32 %f1, [%rd5];
    mad.lo.s32 %r12, %r3, %r1, %r2; add.s32 %r12, %r12, {-less};
    setp.lt.s32 %p1, %r2, %r1; mul.wide.s32 %rd10, %r12, 4; add.s64 %rd12, %rd3, %rd10;
    @%p1 st.global.f32 [%rd12+{4 * more}], %f1;""")


def test_a_negative_literal_inside_needs_as_much_outside() -> None:
    plain = _row_store(0, 0)
    assert equal(plain, _row_store(3, 3))
    assert "no-index-wrap" in walked(_row_store(3, 3)).premises
    assert not equal(plain, _row_store(3, 2))
    assert not equal(plain, _row_store(3, 4))
    assert not equal(_row_store(3, 2), _row_store(0, 1))


def test_a_number_that_is_stored_is_no_index() -> None:
    """i + 1 widened and i widened, plus 1: other numbers where i + 1 wraps."""
    def number(steps: str) -> str:
        return text(f"""
    mad.lo.s32 %r12, %r3, %r1, %r2;
    mad.lo.s32 %r13, %r3, 64, %r2;
    mul.wide.s32 %rd10, %r13, 8;
    add.s64 %rd12, %rd3, %rd10;
    {steps}
    st.global.u64 [%rd12], %rd13;""")
    assert not equal(number("add.s32 %r12, %r12, 1;\n    cvt.s64.s32 %rd13, %r12;"),
                     number("cvt.s64.s32 %rd13, %r12;\n    add.s64 %rd13, %rd13, 1;"))


def test_a_lane_that_is_not_loaded_holds_anything() -> None:
    """A masked load without another value, stored where the mask does not hold: no fixed bits."""
    body = """
    mad.lo.s32 %r12, %r3, 64, %r2;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    setp.lt.s32 %p1, %r12, %r1;
    @%p1 ld.global.f32 %f1, [%rd11];
    {} st.global.f32 [%rd12], %f1;"""
    assert walked(text(body.format("@%p1"))).modelled
    assert walked(text(body.format(""))).nondeterministic


# --- real kernels ------------------------------------------------------------------------------


@cache
def _texts(family: str) -> dict[str, str]:
    return {k.name: k.text for k in load_set("sm_90") if k.family == family}


@cache
def _under(source: str, *sizes: str) -> WalkResult:
    return walk(program_of(source), divisible=sizes)


def _classes(family: str, part: str, *sizes: str) -> int:
    found = [_under(t, *sizes) for n, t in _texts(family).items() if part in n]
    assert all(r.modelled for r in found)
    return len({r.digest for r in found})


@pytest.mark.parametrize(("family", "part", "count"), [
    ("dropout", "", 1),  # blocks of 128 to 1024, words multiplied in two ways
    ("softmax_backward", "_w1", 1),  # products of halves, fused and not
    ("conv1d", "B64_K3", 2), ("conv1d", "B128_K3", 2),  # fused and not
])
def test_knobs_that_leave_no_trace(family: str, part: str, count: int) -> None:
    assert _classes(family, part) == count


def test_boundaries_of_blocks_leave_no_trace() -> None:
    one, two = (_under(_texts("conv1d")[f"conv1d-B{b}_K3_fuse0_w4-sm_90"]) for b in (64, 128))
    assert same(one, two) == (True, ())


ROPE = "BR{}_INTERLEAVED{}_fuse0_w{}-sm_90"


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rows_in_blocks_of_any_size(interleaved: int) -> None:
    """One, two or four elements an access, one or four rows a block: one class for n % 16 == 0."""
    part = f"INTERLEAVED{interleaved}_fuse0"
    assert _classes("rope", part, "arg5") == 1
    assert _classes("rope", part) > 1  # for another n they may differ
    premises = {p for n, t in _texts("rope").items() if part in n
                for p in _under(t, "arg5").premises}
    assert "divisible:arg5%16" in premises


@pytest.mark.parametrize(("old", "new"), [
    ("[ %rd6 + 0 ], { %rs5 }", "[ %rd6 + 2 ], { %rs5 }"),  # another element
    ("[ %rd4 + 0 ];", "[ %rd4 + 2 ];"),  # another element loaded
    ("setp.lt.s32 	%p4, %r7, %r8;", "setp.le.s32 	%p4, %r7, %r8;"),  # one element more
    ("setp.lt.s32 	%p3, %r4, %r5;", "setp.le.s32 	%p3, %r4, %r5;"),  # one row more
    ("shl.b32 	%r10, %r9, 1;", "shl.b32 	%r10, %r9, 2;"),  # rows further apart
    ("add.s32 	%r11, %r10, %r7;", "add.s32 	%r11, %r10, 32;"),
    ("and.b32 	%r7, %r6, 63;", "and.b32 	%r7, %r6, 31;"),  # half of the columns
])
def test_what_counts_in_rope(old: str, new: str) -> None:
    name = "rope-BH64_" + ROPE.format(1, 0, 4)
    source = _texts("rope")[name]
    assert old in source
    twin = _under(source.replace(old, new), "arg5")
    for other in (1, 4):
        kernel = _under(_texts("rope")["rope-BH64_" + ROPE.format(other, 0, 1)], "arg5")
        assert not same(twin, kernel)[0]
