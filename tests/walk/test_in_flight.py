"""Asynchronous copies: what is still under way, or still read, may not be touched."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checker.api import program_of
from checker.tree.result import WalkResult
from checker.tree.signature import same
from checker.walk.run import walk
from corpus.load import load_set
from tests.walk.kernels import equal, text, walked

NEXT = """
    add.s32 %r{0}, %r{0}, 1;
    setp.eq.s32 %p6, %r{0}, 3;
    selp.b32 %r{0}, 0, %r{0}, %p6;"""


def _copy(stage: str, source: str, size: str) -> str:
    """Fetch a lane's element to a stage of the ring, or zeros."""
    return f"""
    mad.lo.s32 %r40, {stage}, 128, %r31;
    cp.async.ca.shared.global [%r40], [{source}], 4, {size};
    cp.async.commit_group;"""


def _ring(wait: int = 1, after: str = "", ahead: int = 2) -> str:
    """out[block, tid] = sum over k < n of a[32 k + tid]; a ring of three stages, two ahead."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    mov.u32 %r30, tile;
    shl.b32 %r32, %r2, 2;
    add.s32 %r31, %r30, %r32;
    mov.f32 %f2, 0f00000000;
    setp.gt.s32 %p1, %r1, 0;
    selp.b32 %r41, 4, 0, %p1;
    setp.gt.s32 %p2, %r1, 1;
    selp.b32 %r42, 4, 0, %p2;
{_copy("0", "%rd11", "%r41")}
    add.s64 %rd12, %rd11, 128;
{_copy("1", "%rd12", "%r42")}
    add.s64 %rd12, %rd12, 128;
    mov.u32 %r11, 0;
    mov.u32 %r20, 0;
    mov.u32 %r21, {ahead};
    @!%p1 bra $done;
$loop:
    cp.async.wait_group {wait};
    bar.sync 0;
    mad.lo.s32 %r43, %r20, 128, %r31;
    ld.shared.f32 %f1, [%r43];
    add.rn.f32 %f2, %f2, %f1;
    bar.sync 0;
    add.s32 %r44, %r11, 2;
    setp.lt.s32 %p3, %r44, %r1;
    selp.b32 %r45, 4, 0, %p3;
{_copy("%r21", "%rd12", "%r45")}
    add.s64 %rd12, %rd12, 128;
{NEXT.format(20)}
{NEXT.format(21)}
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p4, %r11, %r1;
    @%p4 bra $loop;
$done:
{after}
    mul.wide.u32 %rd14, %r3, 128;
    add.s64 %rd15, %rd3, %rd14;
    add.s64 %rd16, %rd15, %rd10;
    st.global.f32 [%rd16], %f2;""", 32)


PLAIN = text("""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r11, 0;
    setp.lt.s32 %p1, %r1, 1;
    @%p1 bra $done;
$loop:
    ld.global.f32 %f1, [%rd11];
    add.rn.f32 %f2, %f2, %f1;
    add.s64 %rd11, %rd11, 128;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p4, %r11, %r1;
    @%p4 bra $loop;
$done:
    mul.wide.u32 %rd14, %r3, 128;
    add.s64 %rd15, %rd3, %rd14;
    add.s64 %rd16, %rd15, %rd10;
    st.global.f32 [%rd16], %f2;""", 32)


def _nth(source: str, pattern: str, number: int, by: str) -> str:
    hits = list(re.finditer(pattern, source))
    at = hits[number]
    return source[:at.start()] + by + source[at.end():]


def _race(source: str) -> None:
    found = walked(source)
    assert not found.modelled
    assert any(f.code == "race" for f in found.findings), (found.findings, found.gave_up)
    assert not same(found, walked(_ring()))[0]


def test_a_ring_of_copies_is_the_plain_loop() -> None:
    assert equal(_ring(), PLAIN)


def _through(stage: int, wait: str = "") -> str:
    """After the loop a lane's sum goes through the cells of a stage."""
    return f"""
    {wait}
    st.shared.f32 [%r31+{128 * stage}], %f2;
    ld.shared.f32 %f2, [%r31+{128 * stage}];"""


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_copies_left_under_way_may_be_at_any_stage(stage: int) -> None:
    """Which stages they write depends on n; whichever is used meanwhile, that is a race."""
    _race(_ring(after=_through(stage)))
    _race(_ring(after=_through(stage, "cp.async.wait_group 1;")))
    assert equal(_ring(after=_through(stage, "cp.async.wait_all;")), PLAIN)
    assert equal(_ring(after=_through(stage, "cp.async.wait_group 0;")), PLAIN)


def test_cells_beyond_the_ring_are_free() -> None:
    assert equal(_ring(after=_through(3)), PLAIN)


def test_a_wait_on_a_path_is_none_elsewhere() -> None:
    some = "setp.gt.s32 %p7, %r1, 7;\n    @%p7 cp.async.wait_all;"
    _race(_ring(after=_through(0, some)))


@pytest.mark.parametrize("kernel", [_ring(wait=2), _ring(ahead=1), _ring(ahead=0)])
def test_what_is_read_before_it_has_come(kernel: str) -> None:
    """A wait that leaves one group too many; copies into the stage that is read next."""
    found = walked(kernel)
    assert not found.modelled or not same(found, walked(PLAIN))[0]


def _with(number: int, by: str, op: str = "commit_group") -> str:
    """The ring with another statement in place of one of its commits or waits."""
    return _nth(_ring(), rf"cp\.async\.{op}[ 0-9]*;", number, by)


HALF = "setp.lt.u32 %p9, %r2, 16;\n    "


@pytest.mark.parametrize("kernel", [
    _with(0, "@%p2 cp.async.commit_group;"),  # one element: both copies are in the last group
    _with(0, "@!%p2 bra $over;\n    cp.async.commit_group;\n$over:"),
    _with(1, "@%p2 cp.async.commit_group;"),  # one element: the first copy is still the last one
    _with(1, "@!%p2 cp.async.commit_group;"),
    _with(1, "@!%p2 bra $over;\n    cp.async.commit_group;\n$over:"),
    _with(1, HALF + "@%p9 cp.async.commit_group;"),
    _with(2, "@%p3 cp.async.commit_group;"),  # the last two rounds wait for too little
    _with(2, HALF + "@%p9 cp.async.commit_group;"),
    _with(0, "@%p2 cp.async.wait_group 1;", "wait_group"),
    _with(0, HALF + "@%p9 cp.async.wait_group 1;", "wait_group"),
    _with(0, HALF + "@%p9 cp.async.wait_group 0;", "wait_group"),
])
def test_a_part_of_the_threads_or_paths_groups_or_waits(kernel: str) -> None:
    found = walked(kernel)
    assert not found.modelled
    assert not same(found, walked(PLAIN))[0]


@pytest.mark.parametrize("kernel", [
    _with(1, "@!%p2 bra $over;\n$over:\n    cp.async.commit_group;"),
    _with(0, "@%p1 cp.async.wait_group 1;", "wait_group"),  # there is an element in the loop
])
def test_what_all_of_them_group_or_wait_for_has_come(kernel: str) -> None:
    assert equal(kernel, PLAIN)


# --- matrix steps that still read ----------------------------------------------------------------


@cache
def _gemm() -> str:
    return next(k.text for k in load_set("sm_90") if k.family == "gemm" and "wgmma" in k.text
                and "cp.async.cg" in k.text and "_s3_" in k.name)


@cache
def _found(source: str) -> WalkResult:
    return walk(program_of(source))


def test_a_pipelined_product_has_no_defect() -> None:
    found = _found(_gemm())
    assert found.modelled, (found.gave_up, found.findings)


@pytest.mark.parametrize("pattern", [
    r"wgmma\.wait_group\.sync\.aligned\s+\d+", r"cp\.async\.wait_group\s+\d+"])
def test_waits_that_leave_more_behind(pattern: str) -> None:
    """Every wait of a pipeline counts: with one more left under way bytes are still read."""
    source = _gemm()
    waits = re.findall(pattern, source)
    assert waits
    races = 0
    for number, wait in enumerate(waits):
        more = re.sub(r"\d+$", str(int(wait.split()[-1]) + 2), wait)
        twin = _found(_nth(source, pattern, number, more))
        assert not twin.modelled or same(twin, _found(source))[0] is False
        races += any(f.code == "race" for f in twin.findings)
    assert races


def test_a_copy_over_bytes_that_a_matrix_step_still_reads() -> None:
    """The loop's matrix step is waited for before its stage is filled again."""
    source = _gemm()
    pattern = r"wgmma\.wait_group\.sync\.aligned\s+\d+"
    hits = re.findall(pattern, source)
    messages: set[str] = set()
    for number in range(len(hits)):
        twin = _nth(source, pattern, number, "wgmma.wait_group.sync.aligned \t7")
        messages |= {f.message for f in _found(twin).findings}
    assert any("a matrix step" in m for m in messages), messages


@pytest.mark.parametrize("pattern", [r"wgmma\.wait_group\.sync\.aligned\s+\d+;",
                                     r"wgmma\.commit_group\.sync\.aligned;"])
def test_steps_that_are_closed_or_waited_for_on_a_path(pattern: str) -> None:
    source = _gemm()
    for number, statement in enumerate(re.findall(pattern, source)):
        twin = _found(_nth(source, pattern, number, f"@%p1 bra $over;\n{statement}\n$over:"))
        assert not twin.modelled
        assert not same(twin, _found(source))[0]
