"""Generic addresses, of one space or of several, and barriers, of one number or of several."""

from __future__ import annotations

import pytest

from tests.walk.kernels import equal, text, walked

TILE = """    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd2, %rd10;
    add.s64 %rd13, %rd3, %rd10;
    ld.global.b32 %r5, [%rd11];
    mul.lo.s32 %r6, %r5, {factor};
    mov.u32 %r7, tile;
    shl.b32 %r8, %r2, 2;
    add.s32 %r9, %r7, %r8;
    st.shared.b32 [%r9], %r6;
    bar.sync 0;
    cvt.u64.u32 %rd14, %r9;
    cvta.shared.u64 %rd15, %rd14;
"""
OUT = "ld.b32 %r10, [%rd16];\nst.global.b32 [%rd13], %r10;\n"
CHOICES = {
    "the first lane reads global memory": "setp.eq.s32 %p1, %r2, 0;\n"
                                          "selp.b64 %rd16, %rd12, %rd15, %p1;\n",
    "the first lane reads shared memory": "setp.ne.s32 %p1, %r2, 0;\n"
                                          "selp.b64 %rd16, %rd12, %rd15, %p1;\n",
    "an argument decides": "setp.ge.s32 %p1, %r1, 50;\nselp.b64 %rd16, %rd12, %rd15, %p1;\n",
    "an argument decides otherwise": "setp.ge.s32 %p1, %r1, 50;\n"
                                     "selp.b64 %rd16, %rd15, %rd12, %p1;\n",
}


def _kernel(choice: str, factor: int) -> str:
    return text(TILE.format(factor=factor) + choice + OUT)


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_of_spaces_is_not_followed(name: str) -> None:
    """Followed into the space of the first lane, it lost what the others read."""
    found = walked(_kernel(CHOICES[name], 2))
    assert not found.modelled
    assert found.digest != walked(_kernel(CHOICES[name], 3)).digest


def test_a_generic_address_of_one_space_is() -> None:
    shared, plain = "mov.b64 %rd16, %rd15;\n", TILE + OUT.replace("ld.b32 %r10, [%rd16]",
                                                                 "ld.shared.b32 %r10, [%r9]")
    assert equal(_kernel(shared, 2), text(plain.format(factor=2)))
    assert not equal(_kernel(shared, 2), _kernel(shared, 3))


@pytest.mark.parametrize(("number", "one"), [
    ("bar.sync 0;", True), ("bar.sync %r1;", True),
    ("shr.u32 %r11, %r2, 5;\nbar.sync %r11;", False),
    ("and.b32 %r11, %r5, 1;\nbar.sync %r11;", False)])
def test_threads_meet_at_one_barrier(number: str, one: bool) -> None:
    """Not where each warp, or each element, has a barrier of its own."""
    shared = "mov.b64 %rd16, %rd15;\n"
    found = walked(_kernel(shared, 2).replace("bar.sync 0;", number))
    assert found.modelled == one
    assert (found.digest == walked(_kernel(shared, 2)).digest) == one
