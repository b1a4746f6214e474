"""Bits that nobody wrote or that are not modelled do not cancel: they are not those of another."""

from __future__ import annotations

import pytest

from checker import api
from checker.tree import same
from tests.walk.kernels import equal, text, walked


def _kernel(body: str) -> str:
    """out[t] = what a body leaves in %r10; %rd11 is where a[t] is, %p1 tells t > 5."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    setp.gt.u32 %p1, %r2, 5;
{body}
    st.global.b32 [%rd12], %r10;""")


ZERO = _kernel("mov.b32 %r10, 0;")
PLACE = "mov.u32 %r15, tile;\nshl.b32 %r16, %r2, 2;\nadd.s32 %r17, %r15, %r16;\n"
CLOCK = "mov.u32 %r20, %clock;\nmov.u32 %r21, %r20;\nmov.u32 %r20, %clock;\n"


@pytest.mark.parametrize("body", [
    "sub.s32 %r10, %r20, %r21;",
    "xor.b32 %r10, %r20, %r21;",
    "add.s32 %r20, %r20, 1;\nadd.s32 %r21, %r21, 1;\nsub.s32 %r10, %r20, %r21;",
    "setp.eq.s32 %p2, %r20, %r21;\nselp.b32 %r10, 0, 1, %p2;",
    "@%p1 ld.global.b32 %r20, [%rd11];\n@%p1 ld.global.b32 %r21, [%rd11];\n"
    "sub.s32 %r10, %r20, %r21;",
    "shfl.sync.bfly.b32 %r21, %r20, 1, 31, -1;\nxor.b32 %r10, %r20, %r21;",
    "mov.u32 %r15, tile;\nld.shared.b32 %r20, [%r15];\nld.shared.b32 %r21, [%r15+4];\n"
    "sub.s32 %r10, %r20, %r21;",
    CLOCK + "sub.s32 %r10, %r20, %r21;",
    CLOCK + "setp.ne.s32 %p2, %r20, %r21;\nselp.b32 %r10, 1, 0, %p2;",
    "mov.u32 %r20, %clock;\nshfl.sync.bfly.b32 %r21, %r20, 1, 31, -1;\nsub.s32 %r10, %r20, %r21;",
    PLACE + "mov.u32 %r20, %smid;\nst.shared.b32 [%r17], %r20;\nbar.sync 0;\n"
    "xor.b32 %r16, %r16, 128;\nadd.s32 %r17, %r15, %r16;\nld.shared.b32 %r21, [%r17];\n"
    "sub.s32 %r10, %r20, %r21;"])
def test_unfounded_bits_do_not_cancel(body: str) -> None:
    assert not walked(_kernel(body)).modelled
    assert not api.compare(_kernel(body), ZERO).equal


def test_what_does_not_look_at_them_is_modelled() -> None:
    assert equal(_kernel("and.b32 %r10, %r20, 0;"), ZERO)
    both = "@%p1 ld.global.b32 %r20, [%rd11];\n@%p1 ld.global.b32 %r21, [%rd11+256];\n"
    assert equal(_kernel(both + "sub.s32 %r10, %r20, %r21;\n@!%p1 bra $end;")
                 .replace("    ret;", "$end:\n    ret;"),
                 _kernel("@!%p1 bra $end;\nld.global.b32 %r20, [%rd11];\n"
                         "ld.global.b32 %r21, [%rd11+256];\nsub.s32 %r10, %r20, %r21;")
                 .replace("    ret;", "$end:\n    ret;"))


def _loop(number: int, value: str) -> str:
    """%f2 = value in the last of n iterations: what it is before the first is no template of it."""
    return (f"mov.f32 %f2, %f0;\nmov.u32 %r11, 0;\n$loop{number}:\nsetp.ge.s32 %p3, %r11, %r1;\n"
            f"@%p3 bra $done{number};\nmov.f32 %f2, {value};\nadd.s32 %r11, %r11, 1;\n"
            f"bra $loop{number};\n$done{number}:\n")


LOADED = "ld.global.f32 %f0, [%rd11];\nld.global.f32 %f1, [%rd11+256];\n"
LEFT = _kernel(LOADED + _loop(1, "%f1") + "mov.b32 %r10, %f2;")


def test_what_a_loop_leaves_is_its_own_where_it_is_not_known() -> None:
    assert not walked(LEFT).modelled
    assert [o.reaches_output for o in walked(LEFT).opaque] == [True]
    other = _kernel(LOADED + _loop(1, "0f00000000") + "mov.b32 %r10, %f2;")
    assert not same(walked(LEFT), walked(other))[0]
    assert api.sign(LEFT).text != api.sign(other).text  # a gate compares nothing else
    renamed = LEFT.replace("%f2", "%f9").replace("%r11", "%r12")
    assert api.sign(LEFT).text == api.sign(renamed).text
    assert not api.compare(LEFT, other).equal
    twice = _kernel(LOADED + _loop(1, "%f1") + "mov.b32 %r20, %f2;\n" + _loop(2, "0f00000000")
                    + "mov.b32 %r21, %f2;\nsub.s32 %r10, %r20, %r21;")
    assert not api.compare(twice, ZERO).equal


# --- guards -------------------------------------------------------------------------------------

_CLOCK = """
    mov.u32 %r10, %clock;
    setp.lt.u32 %p1, %r10, 5;
    selp.b32 %r11, 1, 0, %p1;
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    ld.global.f32 %f2, [%rd11+256];
    mov.u32 %r12, tile;
    shl.b32 %r13, %r2, 2;
    add.s32 %r14, %r12, %r13;
    xor.b32 %r15, %r14, 128;
    st.shared.u32 [%r14], %r11;
    bar.sync 0;
    ld.shared.u32 %r16, [%r15];
    setp.ne.u32 %p2, %r16, 0;
    BODY
    st.global.f32 [%rd12], %f1;"""


@pytest.mark.parametrize("body", [
    "@!%p1 bra $end;\n@%p2 bra $end;\nmov.f32 %f1, %f2;\n$end:",
    "@!%p1 bra $end;\n@!%p2 st.global.f32 [%rd12+512], %f2;\n$end:",
    "mov.f32 %f3, %f1;\nselp.f32 %f4, %f1, %f2, %p2;\n@%p1 mov.f32 %f3, %f4;\nmov.f32 %f1, %f3;",
], ids=["branches", "branch and guard", "guard and choice"])
def test_what_another_warp_sees_of_a_clock_is_not_what_this_one_sees(body: str) -> None:
    plain, other = _CLOCK.replace("BODY", ""), _CLOCK.replace("BODY", body)
    assert not api.compare(text(other, 64), text(plain, 64)).equal


def test_a_guard_that_nobody_wrote_is_apart_from_a_choice_that_nobody_wrote() -> None:
    """Lane t has %p7 and the other lane's: none of them was ever set."""
    body = """
    selp.b32 %r11, 1, 0, %p7;
    shfl.sync.bfly.b32 %r16, %r11, 1, 31, -1;
    setp.ne.u32 %p2, %r16, 0;
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    ld.global.f32 %f1, [%rd11];
    ld.global.f32 %f2, [%rd11+256];
    mov.f32 %f3, %f1;
    selp.f32 %f4, %f1, %f2, %p2;
    @%p7 mov.f32 %f3, %f4;
    st.global.f32 [%rd12], %f3;"""
    assert not api.compare(text(body, 32), text(body.replace("%f3;", "%f1;"), 32)).equal


def test_a_barrier_whose_number_is_not_modelled_is_not_one_of_the_block() -> None:
    body = """
    mov.u32 %r10, %clock;
    and.b32 %r10, %r10, 1;
    mov.u32 %r12, tile;
    shl.b32 %r13, %r2, 2;
    add.s32 %r14, %r12, %r13;
    xor.b32 %r15, %r14, 128;
    st.shared.u32 [%r14], %r2;
    bar.sync %r10;
    ld.shared.u32 %r16, [%r15];
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd12, %rd3, %rd10;
    st.global.u32 [%rd12], %r16;"""
    assert not api.compare(text(body, 64), text(body, 64)).equal
    assert api.compare(*[text(body.replace("%r10;\n    ld", "0;\n    ld"), 64)] * 2).equal
