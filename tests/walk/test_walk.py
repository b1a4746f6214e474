"""The walk end to end on small kernels: every equal pair has an unequal twin."""

from __future__ import annotations

import sys

import pytest

from checker.tree import nodes, same
from checker.tree.nodes import Node
from checker.tree.rewrite import Scope
from checker.walk import run
from tests.figure4 import listing
from tests.walk.kernels import elementwise, equal, text, walked

ADD = "add.rn.f32 %f3, %f1, %f2;"


# --- figure 4 ---------------------------------------------------------------------------------


def test_figure4_layouts_are_one() -> None:
    assert equal(listing(64), listing(32))
    assert equal(listing(64), listing(64, commute=True))
    assert equal(listing(64, leaf="fma"), listing(32, leaf="fma"))


@pytest.mark.parametrize("twin", [
    listing(32, offsets=(16, 8, 4, 2, 1)),
    listing(32, offsets=(1, 16, 2, 8, 4)),
    listing(32, leaf_order=[1, 2, 0, 3, 4, 5, 6, 7]),
    listing(32, second_offset=1000),
    listing(32, leaf_stride=32),
    listing(32, leaf="mul+add"),
    listing(32, leaf="fma"),
])
def test_figure4_twins_differ(twin: str) -> None:
    assert not equal(listing(64), twin)


def test_figure4_swapped_neighbours_commute() -> None:
    assert equal(listing(64), listing(32, leaf_order=[1, 0, 2, 3, 4, 5, 6, 7]))


# --- coordinates and coverage -----------------------------------------------------------------


@pytest.mark.parametrize("other", [
    elementwise(ADD, 32), elementwise(ADD, 64, 4), elementwise(ADD, 64, 4, order="near"),
    elementwise("add.rn.f32 %f3, %f2, %f1;", 128, 2),
])
def test_tile_shapes_vanish(other: str) -> None:
    assert equal(elementwise(ADD), other)


@pytest.mark.parametrize("other", [
    elementwise(ADD, guard="le"),
    elementwise(ADD, 64, 4, skip=2),
    elementwise(ADD, 64, 4, order="near", skip=0),
    elementwise(ADD, 64, 2, shift=1),
    elementwise("sub.rn.f32 %f3, %f1, %f2;", 64, 4),
    elementwise("fma.rn.f32 %f3, %f1, %f2, %f2;"),
    elementwise("add.rz.f32 %f3, %f1, %f2;"),
    elementwise("add.rn.ftz.f32 %f3, %f1, %f2;"),
])
def test_other_elements_or_operations_differ(other: str) -> None:
    assert not equal(elementwise(ADD), other)


def test_neighbours_survive_tiles() -> None:
    assert equal(elementwise(ADD, 64, 2, shift=1), elementwise(ADD, 32, 4, shift=1))


def _scaled(index: str) -> str:
    """out[i] = a[i] + a[i] for an index that %rd10 (thread) and %rd11 (block) give in %rd12."""
    return text(f"""
    cvt.u64.u32 %rd10, %r2;
    cvt.u64.u32 %rd11, %r3;
    {index}
    shl.b64 %rd13, %rd12, 2;
    add.s64 %rd14, %rd1, %rd13;
    ld.global.f32 %f1, [%rd14];
    add.rn.f32 %f3, %f1, %f1;
    add.s64 %rd15, %rd3, %rd13;
    st.global.f32 [%rd15], %f3;""")


@pytest.mark.parametrize(("index", "other"), [
    ("mad.lo.u64 %rd12, %rd11, 64, %rd10;", "mad.lo.u64 %rd12, %rd10, 64, %rd11;"),
    ("mov.u64 %rd12, %rd11;", "mad.lo.u64 %rd12, %rd10, 64, %rd11;"),
    ("mov.u64 %rd12, %rd11;", "add.s64 %rd12, %rd11, 5;"),
])
def test_a_block_of_one_element_that_lies_elsewhere_covers_others(index: str, other: str) -> None:
    """No grid is large enough for the first elements, or only one of 64 blocks is."""
    assert equal(_scaled(index), _scaled(index))
    assert not equal(_scaled(index), _scaled(other))


def test_a_block_of_one_element_or_of_many_covers_all() -> None:
    assert equal(_scaled("mad.lo.u64 %rd12, %rd11, 64, %rd10;"), _scaled("mov.u64 %rd12, %rd11;"))


def _exchange(distance: int, threads: int = 64) -> str:
    """out[i] = a[i ^ distance within the tile], moved by a shuffle."""
    return text(f"""
    mul.lo.s32 %r10, %r3, {threads};
    add.s32 %r12, %r10, %r2;
    setp.lt.s32 %p1, %r12, %r1;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    shfl.sync.bfly.b32 %f3, %f1, {distance}, 31, -1;
    add.s64 %rd12, %rd3, %rd10;
    @%p1 st.global.f32 [%rd12], %f3;""", threads)


def _copy(threads: int = 64) -> str:
    return _exchange(0, threads)


def test_an_exchange_between_lanes_is_not_a_copy() -> None:
    assert not equal(_exchange(1), _copy())
    assert not equal(_exchange(1), _exchange(2))
    assert equal(_copy(64), _copy(32))
    assert equal(_exchange(1), _exchange(1))


def test_a_guard_says_nothing_of_another_lane() -> None:
    """A masked load behind an exchange keeps its mask: the reader's guard is not the owner's."""
    plain = _exchange(1)
    masked = plain.replace("    ld.global.f32 %f1", "    mov.f32 %f1, 0f00000000;\n"
                           "    @%p1 ld.global.f32 %f1")
    assert not equal(plain, masked)
    alone = _copy().replace("    ld.global.f32 %f1", "    mov.f32 %f1, 0f00000000;\n"
                            "    @%p1 ld.global.f32 %f1")
    assert equal(_copy(), alone)  # its own guard it may use


def _through_shared(xor: int, barrier: bool = True, back: int = 0) -> str:
    """out[i] = a[i], stored to shared memory at a swizzled place and read back by another lane."""
    sync = "bar.sync 0;" if barrier else ""
    return text(f"""
    mul.lo.s32 %r10, %r3, 64;
    add.s32 %r12, %r10, %r2;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    mov.u32 %r20, tile;
    xor.b32 %r21, %r2, {xor};
    shl.b32 %r21, %r21, 2;
    add.s32 %r22, %r20, %r21;
    st.shared.f32 [%r22], %f1;
    {sync}
    xor.b32 %r23, %r2, {back};
    shl.b32 %r23, %r23, 2;
    add.s32 %r24, %r20, %r23;
    ld.shared.f32 %f3, [%r24];
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f3;""")


def test_shared_memory_moves_values() -> None:
    plain = _through_shared(0)
    assert equal(plain, _through_shared(37, back=37))
    assert equal(_through_shared(3, back=1), _exchange(2).replace("@%p1 st", "st"))
    assert not equal(plain, _through_shared(37, back=36))


def test_a_missing_barrier_is_a_finding() -> None:
    result = walked(_through_shared(37, barrier=False, back=1))
    assert not result.modelled
    assert any(f.code == "race" for f in result.findings)
    assert walked(_through_shared(37, barrier=True, back=1)).modelled


def test_results_are_compared_long_after_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = walked(listing(64)), walked(listing(32))
    now = nodes.time.process_time()
    monkeypatch.setattr(nodes.time, "process_time", lambda: now + 10_000)
    assert same(one, two) == (True, ())


def test_hashes_that_would_fill_the_memory_end_the_walk() -> None:
    forest = nodes.Forest(32)
    forest.keep(forest.max_kept)
    with pytest.raises(nodes.Fuel, match="memory"):
        forest.keep(1)


def test_a_comparison_that_takes_too_long_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(one: object, two: object, seen: object) -> str:
        raise nodes.Fuel("work")

    monkeypatch.setattr(sys.modules[same.__module__], "confirm", spent)
    proved, reasons = same(walked(listing(64)), walked(listing(32)))
    assert not proved
    assert reasons[0].code == "fuel"


# --- undefined and nondeterministic -----------------------------------------------------------


def test_a_register_never_written_is_not_an_output() -> None:
    result = walked(text("    st.global.f32 [%rd3], %f9;"))
    assert not result.modelled
    assert any(f.code == "undefined" for f in result.findings)


@pytest.mark.parametrize("test", ["", "setp.lt.f32 %p2, %f1, 0f3F800000;"])
def test_the_condition_of_a_choice_reaches_the_output(test: str) -> None:
    """A predicate that nobody wrote decides between two values: no fixed bits."""
    found = walked(text("    mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4;\n"
                        "    add.s64 %rd6, %rd3, %rd4; ld.global.f32 %f1, [%rd5];\n"
                        f"    add.f32 %f2, %f1, %f1; {test}\n"
                        "    selp.f32 %f3, %f1, %f2, %p2; st.global.f32 [%rd6], %f3;"))
    assert found.modelled == bool(test)
    assert [f.code for f in found.findings] == ([] if test else ["undefined"])


@pytest.mark.parametrize(("setp", "guard", "address", "sound"), [
    ("setp.lt.u32 %p2, %r3, 6;", "%p2", "", True),
    ("@%p1 setp.lt.u32 %p2, %r3, 6;", "%p2", "", False),
    ("setp.lt.u32 %p2, %r3, 6;", "%p2", "@%p1", True),
    ("setp.lt.u32 %p2, %r3, 16;", "%p2", "@%p1", False),
    ("", "%p2", "", False),
])
def test_what_nobody_wrote_decides_no_load(setp: str, guard: str, address: str, sound: bool
                                           ) -> None:
    """Even where nothing that is stored depends on it: the load happens or not, somewhere."""
    found = walked(text(
        "    mul.wide.u32 %rd4, %r3, 4; add.s64 %rd8, %rd3, %rd4; setp.lt.u32 %p1, %r3, 12;\n"
        f"    {address} add.s64 %rd5, %rd1, %rd4; {setp} mov.f32 %f1, 0f00000000;\n"
        f"    @{guard} ld.global.f32 %f1, [%rd5];\n    @%p1 st.global.f32 [%rd8], %f1;"))
    assert sound == all("decides" not in f.message for f in found.findings)
    assert sound or not found.modelled


@pytest.mark.parametrize("before", ["mov.u16 %h1, 0;", ""])
@pytest.mark.parametrize("guard", ["%p1", "!%p1"])
def test_a_narrow_load_under_a_guard_is_written_where_it_is_read(before: str, guard: str) -> None:
    """A narrow load is two operations, the load and its widening, under one guard."""
    found = walked(text(
        "    cvt.u64.u32 %rd4, %r2; add.s64 %rd5, %rd1, %rd4; mul.wide.u32 %rd6, %r2, 4;\n"
        "    add.s64 %rd7, %rd2, %rd6; add.s64 %rd8, %rd3, %rd6; setp.lt.u32 %p1, %r3, 12;\n"
        f"    {before} @{guard} ld.global.b8 %h1, [%rd5]; and.b16 %h2, %h1, 255;\n"
        "    ld.global.f32 %f1, [%rd7]; setp.eq.b16 %p2, %h2, 0;\n"
        "    selp.f32 %f2, %f1, 0f00000000, %p2; st.global.f32 [%rd8], %f2;"))
    assert found.modelled == bool(before)
    assert [f.code for f in found.findings] == ([] if before else ["undefined"])


def test_a_value_is_looked_at_once_for_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load under a condition, then a butterfly: its tree is shared, and so is the look at it."""
    seen: list[object] = []
    look = run._reach_kids

    def counted(node: Node, scope: Scope, bound: int) -> list[tuple[Node, Scope]]:
        seen.append(node)
        return look(node, scope, bound)

    monkeypatch.setattr(run, "_reach_kids", counted)
    steps = "\n".join(
        f"    shfl.sync.bfly.b32 %f2, %f1, {d}, 31, -1; add.f32 %f1, %f1, %f2;\n"
        f"    mul.f32 %f2, %f1, %f1; add.f32 %f1, %f1, %f2;" for d in (16, 8, 4, 2, 1))
    found = walked(text(
        "    mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd3, %rd4;\n"
        "    and.b32 %r4, %r2, 7; setp.lt.u32 %p1, %r4, 5; @%p1 ld.global.f32 %f1, [%rd5];\n"
        f"    selp.f32 %f1, %f1, 0f3F800000, %p1;\n{steps}\n"
        "    setp.eq.u32 %p2, %r2, 0; @%p2 st.global.f32 [%rd3], %f1;"))
    assert found.modelled
    assert len(seen) == len(set(seen)) > 20


def _asserting(failed: str, test: str = "lt", jump: str = "@!%p1 bra FAILED;") -> str:
    """out[tid] = a[index[tid]] behind an assertion that the index is below n, and a barrier."""
    check = f"setp.{test}.u32 %p1, %r4, %r1; {jump}" if failed else ""
    return text(
        "    mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd2, %rd4; ld.global.u32 %r4, [%rd5];\n"
        f"    add.s64 %rd7, %rd3, %rd4; {check}\nNEXT: bar.sync 0; mul.wide.u32 %rd6, %r4, 4;\n"
        "    add.s64 %rd6, %rd1, %rd6; ld.global.f32 %f1, [%rd6]; st.global.f32 [%rd7], %f1;\n"
        f"    ret;\nFAILED: {failed}")


CALL = ("{ .param .b64 param0; st.param.b64 [param0], 0; call.uni __assertfail, (param0); }"
        " trap;")


def test_what_asserts_is_what_does_not_under_a_premise() -> None:
    plain = _asserting("")
    for failed in ("trap;", CALL, "bra.uni MORE; MORE: trap;"):
        assert equal(plain, _asserting(failed))
        assert "no-trap" in walked(_asserting(failed)).premises
    assert equal(plain, _asserting("trap;", jump="@%p1 bra NEXT; bra.uni FAILED;"))
    assert equal(plain, _asserting("trap;", test="le"))
    assert "no-trap" not in walked(plain).premises


@pytest.mark.parametrize("failed", [
    "st.global.f32 [%rd7], 0f3F800000; trap;", "bra.uni NEXT;", "ret;",
    "red.global.add.u32 [%rd7], 1; trap;",
])
def test_a_failed_check_that_writes_or_goes_on_is_no_assertion(failed: str) -> None:
    one, two = walked(_asserting("")), walked(_asserting(failed))
    if failed == "bra.uni NEXT;":
        assert same(one, two)[0]
        assert "no-trap" not in two.premises
    else:
        assert not same(one, two)[0]


def test_float_atomics_have_no_fixed_bits() -> None:
    body = "    ld.global.f32 %f1, [%rd1];\n    red.global.add.f32 [%rd3], %f1;"
    assert walked(text(body)).nondeterministic
    assert not walked(text("    red.global.add.u32 [%rd3], %r2;")).nondeterministic


# --- loops ------------------------------------------------------------------------------------


def _row_loop(op: str = "add.rn.f32 %f2, %f2, %f1;", step: int = 32, init: str = "0f00000000",
              guard: str = "lt", threads: int = 32, bound: str = "%r1") -> str:
    """out[block] = sum over k of a[block * n + k + tid], then a butterfly."""
    butterfly = "\n".join(
        f"    shfl.sync.bfly.b32 %f3, %f2, {d}, 31, -1;\n    add.rn.f32 %f2, %f2, %f3;"
        for d in (16, 8, 4, 2, 1))
    return text(f"""
    mul.lo.s32 %r10, %r3, %r1;
    mul.wide.s32 %rd10, %r10, 4;
    add.s64 %rd11, %rd1, %rd10;
    mov.f32 %f2, {init};
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    add.s32 %r12, %r11, %r2;
    setp.{guard}.s32 %p1, %r12, %r1;
    mul.wide.s32 %rd12, %r12, 4;
    add.s64 %rd13, %rd11, %rd12;
    mov.f32 %f1, 0f00000000;
    @%p1 ld.global.f32 %f1, [%rd13];
    {op}
    add.s32 %r11, %r11, {step};
    setp.lt.s32 %p3, %r11, {bound};
    @%p3 bra $loop;
$done:
{butterfly}
    mul.wide.s32 %rd14, %r3, 4;
    add.s64 %rd15, %rd3, %rd14;
    setp.eq.s32 %p4, %r2, 0;
    @%p4 st.global.f32 [%rd15], %f2;""", threads)


@pytest.mark.parametrize("other", [
    _row_loop("sub.rn.f32 %f2, %f2, %f1;"), _row_loop(step=64), _row_loop(init="0f3F800000"),
    _row_loop(guard="le"), _row_loop("fma.rn.f32 %f2, %f1, %f1, %f2;"),
    _row_loop(init="0f80000000"),
])
def test_loops_differ_in_step_start_and_guard(other: str) -> None:
    assert not equal(_row_loop(), other)


def test_loops_commute() -> None:
    assert equal(_row_loop(), _row_loop("add.rn.f32 %f2, %f1, %f2;"))
    assert equal(_row_loop("sub.rn.f32 %f2, %f2, %f1;"),
                 _row_loop("neg.f32 %f4, %f1;\n    add.rn.f32 %f2, %f4, %f2;"))


# --- vectors ----------------------------------------------------------------------------------


def _vector(threads: int = 32, guard: str = "%r12") -> str:
    """out[i] = a[i], four elements an access; `guard` is the index that is tested."""
    return text(f"""
    mul.lo.s32 %r10, %r3, {4 * threads};
    shl.b32 %r11, %r2, 2;
    add.s32 %r12, %r10, %r11;
    add.s32 %r13, %r12, 1;
    setp.lt.s32 %p1, {guard}, %r1;
    mul.wide.s32 %rd10, %r12, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    @%p1 ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd11];
    @%p1 st.global.v4.f32 [%rd12], {{%f1, %f2, %f3, %f4}};""", threads)


def test_a_vector_tests_its_first_element_under_a_premise() -> None:
    assert equal(_vector(32), _vector(64))
    assert "divisible:arg3%4" in walked(_vector()).premises
    assert equal(_vector(), _vector(guard="%r13"))  # any element of the four says the same
    beyond = _vector(guard="%r14").replace("add.s32 %r13, %r12, 1;", "add.s32 %r14, %r12, 4;")
    assert not equal(_vector(), beyond)


def test_a_scalar_access_tests_itself() -> None:
    """The same sharing of a guard by separate stores is a mistake, not a vector."""
    near = elementwise("add.rn.f32 %f3, %f1, %f2;", 64, 2, order="near")
    parts = near.split("setp.lt.s32 %p1, %r12, %r1;")
    shared = parts[0] + "setp.lt.s32 %p1, %r12, %r1;" + parts[1] + \
        "sub.s32 %r13, %r12, 1;\n    setp.lt.s32 %p1, %r13, %r1;" + parts[2]
    assert not equal(near, shared)


def _every(step: int, first: int, threads: int) -> str:
    """out[i] = a[i] for i = first modulo `step`, a power of two."""
    return text(f"""
    mad.lo.s32 %r10, %r3, {threads}, %r2;
    mul.wide.s32 %rd10, %r10, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    and.b32 %r11, %r2, {step - 1};
    setp.eq.s32 %p1, %r11, {first};
    @%p1 ld.global.f32 %f1, [%rd11];
    @%p1 st.global.f32 [%rd12], %f1;""", threads)


def test_coverage_along_the_grid_is_its_period() -> None:
    assert equal(_every(2, 0, 32), _every(2, 0, 64))
    assert not equal(_every(2, 0, 32), _every(2, 1, 32))
    assert not equal(_every(2, 0, 64), _every(4, 0, 64))


def test_a_barrier_on_a_path_orders_that_path_only() -> None:
    sure = _through_shared(1, back=3)
    guarded = sure.replace("    bar.sync 0;", "    setp.lt.s32 %p2, %r3, %r1;\n"
                           "    @%p2 bar.sync 0;")
    assert walked(sure).modelled
    found = walked(guarded)
    assert not found.modelled
    assert any(f.code == "race" for f in found.findings)
    assert found.digest != walked(sure).digest


def test_literal_loops_are_straight_line() -> None:
    """A loop with a literal trip count is what its unrolling is; another count is not."""
    def body(count: int) -> str:
        return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r11, 0;
$again:
    ld.global.f32 %f1, [%rd11];
    add.rn.f32 %f2, %f2, %f1;
    add.s64 %rd11, %rd11, 256;
    add.s32 %r11, %r11, 1;
    setp.lt.u32 %p1, %r11, {count};
    @%p1 bra $again;
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f2;""")

    unrolled = text("\n".join(
        ["    mul.wide.u32 %rd10, %r2, 4;\n    add.s64 %rd11, %rd1, %rd10;",
         "    mov.f32 %f2, 0f00000000;"]
        + [f"    ld.global.f32 %f1, [%rd11+{256 * i}];\n    add.rn.f32 %f2, %f1, %f2;"
           for i in range(3)]
        + ["    add.s64 %rd12, %rd3, %rd10;\n    st.global.f32 [%rd12], %f2;"]))
    assert equal(body(3), unrolled)
    assert not equal(body(4), unrolled)


def test_branches_are_selects() -> None:
    """An if/else with a data condition is the select of both sides, in this order only."""
    head = """
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    setp.gt.f32 %p1, %f1, 0f00000000;
"""
    tail = """
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f3;"""
    branch = text(head + """    @%p1 bra $yes;
    neg.f32 %f3, %f1;
    bra.uni $join;
$yes:
    mov.f32 %f3, %f1;
$join:""" + tail)
    select = "    neg.f32 %f2, %f1;\n    selp.f32 %f3, {}, %p1;"
    assert equal(branch, text(head + select.format("%f1, %f2") + tail))
    assert not equal(branch, text(head + select.format("%f2, %f1") + tail))


def test_variables_of_the_module_are_no_arguments() -> None:
    """Two tables at one address are two tables: a read of one is not modelled, never merged."""
    def table(first: int) -> str:
        body = """
    mov.u64 %rd9, lut;
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd9, %rd10;
    ld.global.f32 %f1, [%rd11];
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f1;"""
        data = f".global .align 4 .b32 lut[2] = {{{first}, 7}};\n.visible"
        return text(body, 2).replace(".visible", data, 1)

    assert not walked(table(1)).modelled
    proved, _reasons = same(walked(table(1)), walked(table(2)))
    assert not proved


def test_lanes_that_nobody_looks_at_decide_nothing() -> None:
    """Half a warp reads what it hands to all: the other half never wrote its registers."""
    found = walked(text(
        "    mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd8, %rd3, %rd4;\n"
        "    and.b32 %r9, %r2, 31; setp.lt.u32 %p1, %r9, 16; @%p1 ld.global.b32 %r10, [%rd5];\n"
        "    shfl.sync.idx.b32 %r11, %r10, 0, 31, -1; mov.b32 %f2, %r11; mov.f32 %f1, 0f00000000;\n"
        "    setp.gt.f32 %p2, %f2, 0f3F800000; @%p2 ld.global.f32 %f1, [%rd5];\n"
        "    st.global.f32 [%rd8], %f1;"))
    assert found.modelled, found.findings
