"""Matrix steps of a warp group: what they write and read is theirs until a wait on every path."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked
from tests.walk.products import COMMIT, STEP, WAIT, looped, product

HALF = "setp.lt.u32 %p9, %r2, 64;"
SKIPPED = "@%p7 bra $over;\n    {0}\n$over:"
WRITE_A = "st.shared.b32 [%r32], %r11;"  # over the tile that the step reads
WRITE_B = "st.shared.b16 [%r34+2048], %h1;"
AGAIN = f"{STEP}\n    {COMMIT}"
OTHER = STEP.replace("%f10, %f11, %f12, %f13", "%f20, %f21, %f22, %f23")
ONE_LEFT = WAIT.replace("0;", "1;")


def _races(source: str, twin: str) -> None:
    found = walked(source)
    assert not found.modelled
    assert any(f.code == "race" for f in found.findings), (found.findings, found.gave_up)
    assert not same(found, walked(twin))[0]


@pytest.mark.parametrize("after", [
    COMMIT,  # nobody waits
    WAIT,  # in no group
    WAIT + COMMIT,  # waited for too early
    COMMIT + ONE_LEFT,
    # a wait that is skipped on a path
    COMMIT + SKIPPED.format(WAIT),
    COMMIT + f"@%p7 {WAIT}",
    COMMIT + f"@!%p7 {WAIT}",
    COMMIT + f"@%p7 {WAIT}\n@%p8 {WAIT}",
    # a commit that is skipped on a path
    SKIPPED.format(COMMIT) + WAIT,
    f"@%p7 {COMMIT}\n{WAIT}",
    f"@!%p7 {COMMIT}\n@%p7 {WAIT}",
    # a group more on a path only: elsewhere the step's own is the last one
    f"{COMMIT}\n@%p7 {COMMIT}\n{ONE_LEFT}",
    COMMIT + SKIPPED.format(COMMIT) + ONE_LEFT,
    # read where it is under way, though another path has waited
    f"{COMMIT}\n@%p7 {WAIT}\n@!%p7 add.f32 %f10, %f10, %f10;\n{WAIT}",
    # written by somebody else meanwhile
    f"{COMMIT}\nmov.f32 %f11, 0f3F800000;\n{WAIT}",
    f"{COMMIT}\n@%p7 {WAIT}\n@!%p7 mov.f32 %f11, 0f3F800000;\n{WAIT}",
    # what it reads is overwritten
    f"{COMMIT}\n{WRITE_A}\n{WAIT}",
    f"{COMMIT}\n{WRITE_B}\n{WAIT}",
    f"{COMMIT}\n@%p7 {WAIT}\n{WRITE_A}\n{WAIT}",
    f"{COMMIT}\n@%p7 {WAIT}\n@!%p7 {WRITE_A}\n{WAIT}",
    f"@%p7 {COMMIT}\n{WAIT}\n{WRITE_A}\n{COMMIT}\n{WAIT}",
    # a second step is under way in the same registers
    f"{COMMIT}\n{AGAIN}\n{ONE_LEFT}",
    # and one that reads the first one's for an operand
    COMMIT + OTHER.replace("%rd20", "{%f10, %f11, %f12, %f13}").replace(
        "1, 1, 0, 0", "1, 1, 0") + COMMIT + WAIT,
])
def test_what_is_under_way_on_some_path(after: str) -> None:
    _races(product(after), product())


@pytest.mark.parametrize("after", [
    f"{COMMIT}\n@%p7 {WAIT}\n@!%p7 {WAIT}",
    f"{COMMIT}\n@%p7 bra $else;\n{WAIT}\nbra $over;\n$else:\n{WAIT}\n$over:",
    f"{COMMIT}\n@%p8 {WAIT}\n@!%p8 mov.f32 %f20, %f1;\n{WAIT}",
    f"{COMMIT}\n{COMMIT}\n{ONE_LEFT}",
    f"{COMMIT}\n@%p7 {WAIT}\n@%p7 mov.f32 %f20, %f11;\n{WAIT}",
    f"{COMMIT}\n@%p7 {WAIT}\n@%p8 mov.f32 %f20, %f11;\n{WAIT}",  # n > 9: it was waited for
    f"{COMMIT}\n{WAIT}\nbar.sync 0;\n{WRITE_A}",
    f"{COMMIT}\n{OTHER}\n{COMMIT}\n{ONE_LEFT}",  # the other one's registers are not read
])
def test_what_is_over_on_every_path(after: str) -> None:
    assert equal(product(after), product())


@pytest.mark.parametrize("step", [f"@%p7 {STEP}", SKIPPED.format(STEP)])
def test_a_step_on_a_path_is_under_way_there_only(step: str) -> None:
    whole = product(step=step)
    assert walked(whole).modelled
    double = "add.f32 %f11, %f11, %f11;"
    apart = product(f"{COMMIT}\n@!%p7 {double}\n{WAIT}", step=f"@%p7 {STEP}")
    assert walked(apart).modelled
    _races(product(f"{COMMIT}\n@%p8 {double}\n{WAIT}", step=f"@%p7 {STEP}"), whole)
    assert equal(product(f"@%p7 {COMMIT}\n@%p7 {WAIT}", step=f"@%p7 {STEP}"),
                 product(step=f"@%p7 {STEP}"))


@pytest.mark.parametrize("after", [f"{HALF}\n@%p9 {COMMIT}\n{WAIT}",
                                   f"{COMMIT}\n{HALF}\n@%p9 {WAIT}"])
def test_a_part_of_the_threads(after: str) -> None:
    found = walked(product(after))
    assert not found.modelled
    assert not same(found, walked(product()))[0]


# --- loops ---------------------------------------------------------------------------------------

LEFT = looped(wait=ONE_LEFT, last=WAIT)


@pytest.mark.parametrize("kernel", [
    looped(wait=""),
    looped(wait=f"@%p7 {WAIT}"),
    looped(wait=SKIPPED.format(WAIT)),
    looped(commit=f"@%p7 {COMMIT}"),
    looped(wait="setp.lt.s32 %p5, %r11, 5;\n" + f"@%p5 {WAIT}"),  # in some of the rounds
    looped(wait=ONE_LEFT),  # the last step is under way behind the loop
    looped(wait="", last=WAIT),  # the next tile is written over the one that is read
    LEFT,
    looped(wait=WAIT.replace("0;", "2;"), last=WAIT),
    looped(last=f"{STEP}\n{COMMIT}"),
    looped(last=f"{STEP}\n@%p7 {COMMIT}\n{WAIT}"),
])
def test_steps_under_way_in_and_behind_a_loop(kernel: str) -> None:
    found = walked(kernel)
    assert not found.modelled
    assert not same(found, walked(looped()))[0]


@pytest.mark.parametrize("kernel", [
    looped(wait=f"@%p7 {WAIT}\n@!%p7 {WAIT}"),
    looped(last=WAIT),
    looped(last=f"@%p7 {WAIT}"),
])
def test_steps_that_are_over_in_a_loop(kernel: str) -> None:
    assert equal(kernel, looped())


@pytest.mark.parametrize("last", ["", f"@%p1 {WAIT}\n"])
def test_a_step_from_before_a_loop_that_only_the_loop_waits_for(last: str) -> None:
    """Where the loop is not entered the step is under way behind it."""
    before = OTHER.replace("%p15", "0") + COMMIT
    use = "add.f32 %f10, %f10, %f20;"
    kernel = product(f"{COMMIT}\n{WAIT}", end=_after(before, last, use))
    good = product(f"{COMMIT}\n{WAIT}", end=_after(before, WAIT, use))
    assert walked(good).modelled
    _races(kernel, good)


def _after(before: str, last: str, use: str) -> str:
    return f"""
    setp.gt.s32 %p1, %r1, 0;
    {before}
    @!%p1 bra $done;
$loop:
    {WAIT}
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p4, %r11, %r1;
    @%p4 bra $loop;
$done:
    {last}
    {use}"""


def _copied(commit: str, before: str = "") -> str:
    """A copy from before a loop; behind the loop its cells are used for something else."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    mov.u32 %r30, tile;
    shl.b32 %r32, %r2, 2;
    add.s32 %r31, %r30, %r32;
    ld.global.f32 %f2, [%rd11];
    cp.async.ca.shared.global [%r31], [%rd11], 4;
    {before}
    mov.u32 %r11, 0;
    setp.gt.s32 %p1, %r1, 0;
    @!%p1 bra $done;
$loop:
    {commit}
    cp.async.wait_group 0;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p4, %r11, %r1;
    @%p4 bra $loop;
$done:
    cp.async.wait_group 0;
    st.shared.f32 [%r31], %f2;
    ld.shared.f32 %f1, [%r31];
    add.s64 %rd12, %rd3, %rd10;
    st.global.f32 [%rd12], %f1;""", 32)


def test_a_group_of_copies_that_only_a_loop_closes() -> None:
    """Where the loop is not entered the copy is in no group that anybody waits for."""
    commit = "cp.async.commit_group;"
    good, bad = (walked(_copied(*c)) for c in (("", commit), (commit,)))
    assert good.modelled
    assert not bad.modelled
    assert not same(good, bad)[0]
