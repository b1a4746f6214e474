"""What a loop leaves in private memory is what it wrote there last."""

from __future__ import annotations

import pytest

from checker.tree import same
from checker.walk.private import kept
from checker.walk.state import State
from tests.walk.kernels import equal, text, walked

BODY = """
    .local .align 16 .b8 spill[16];
    mul.wide.s32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    ld.global.f32 %f1, [%rd11];
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f2, 0f00000000;
    mov.u64 %rd20, spill;
    add.s64 %rd20, %rd20, 0;
    {before}
    mov.u32 %r5, 0;
    setp.le.s32 %p1, %r1, 0;
    @%p1 bra END;
TOP:
    ld.global.f32 %f3, [%rd11];
    add.rn.f32 %f2, %f2, %f3;
    {step}
    add.s64 %rd11, %rd11, 256;
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p2, %r5, %r1;
    @%p2 bra TOP;
END:
    {after}
    st.global.f32 [%rd12], %f2;
    st.global.f32 [%rd12+1024], %f4;
"""


def _kernel(before: str, step: str, after: str) -> str:
    return text(BODY.format(before=before, step=step, after=after))


IN_REGISTERS = _kernel("mov.f32 %f4, %f1;", "mov.f32 %f4, %f3;", "")
NOT_WRITTEN = _kernel("mov.f32 %f4, %f1;", "", "")
SPILLED = _kernel("st.local.f32 [spill], %f1;", "st.local.f32 [spill], %f3;",
                  "ld.local.f32 %f4, [spill];")


def test_a_spilled_value_goes_through_a_loop_as_a_register() -> None:
    assert equal(SPILLED, IN_REGISTERS)
    assert not equal(SPILLED, NOT_WRITTEN)
    assert equal(_kernel("st.local.f32 [spill], %f1;", "", "ld.local.f32 %f4, [spill];"),
                 NOT_WRITTEN)


def test_a_running_sum_in_private_memory_is_one() -> None:
    add = "ld.local.f32 %f5, [spill+4];\n add.rn.f32 %f5, %f5, %f3;\n st.local.f32 [spill+4], %f5;"
    summed = _kernel("st.local.f32 [spill+4], %f2;", add, "ld.local.f32 %f4, [spill+4];")
    assert equal(summed, _kernel("mov.f32 %f4, %f2;", "add.rn.f32 %f4, %f4, %f3;", ""))
    assert not equal(summed, _kernel("mov.f32 %f4, %f2;", "add.rn.f32 %f4, %f3, %f3;", ""))


def test_pieces_of_a_word_are_told_apart() -> None:
    """The upper half is written in the loop, the lower one before it."""
    halves = "mov.b32 {%h1, %h2}, %f3;"
    upper, lower = (_kernel("st.local.f32 [spill], %f1;",
                            f"{halves} st.local.b16 [spill+{at}], %h2;",
                            "ld.local.f32 %f4, [spill];") for at in (2, 0))
    plain = _kernel("mov.b32 {%h3, %h4}, %f1; mov.b16 %h2, %h4;", halves,
                    "mov.b32 %f4, {%h3, %h2};")
    assert equal(upper, plain)
    assert not equal(upper, lower)


@pytest.mark.parametrize("step", ["st.local.f32 [%rd20], %f3;", "st.local.f32 [%rd20+8], %f3;"])
def test_at_an_address_in_a_register_what_a_loop_wrote_is_unknown(step: str) -> None:
    """Bytes by address: those that the loop changed are undefined after it, others stay."""
    found = walked(_kernel("st.local.f32 [%rd20], %f1;", step, "ld.local.f32 %f4, [%rd20];"))
    assert found.modelled == ("+8" in step)
    assert same(found, walked(NOT_WRITTEN))[0] == ("+8" in step)


def test_bytes_that_differ_after_an_iteration_are_not_kept() -> None:
    one = walked(NOT_WRITTEN)
    assert one.forest is not None
    a, b = one.forest.literal(32, 1), one.forest.literal(32, 2)
    entry = State([], one.forest.true, {0: (a, 0), 4: (a, 0), 8: (a, 1)})
    after = State([], one.forest.true, {0: (a, 0), 4: (b, 0), 8: (a, 2), 12: (a, 0)})
    assert kept(entry, [entry, after]) == {0: (a, 0), 4: None, 8: None, 12: None}


@pytest.mark.parametrize("way", [
    "@%p5 bra $there;\nSTORE\nbra.uni $end;\n$there:\nOTHER\n$end:",
    "@%p5 bra $there;\nOTHER\nbra.uni $end;\n$there:\nSTORE\n$end:"])
def test_bytes_that_one_path_alone_writes_are_not_there_on_the_other(way: str) -> None:
    """At an address in a register; whichever path comes first in the text."""
    way = way.replace("STORE", "st.local.f32 [%rd20], %f1;").replace(
        "OTHER", "add.rn.f32 %f5, %f1, %f1;")
    found = walked(_kernel(f"setp.lt.s32 %p5, %r2, %r1;\n{way}", "", "ld.local.f32 %f4, [%rd20];"))
    assert "undefined" in {f.code for f in found.findings}
