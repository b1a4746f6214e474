"""The listing of a program: guards, attributes in short, labels, source lines."""

from __future__ import annotations

from checker.dump import format_program
from tests.ptx.lowering import program


def test_listing() -> None:
    p = program("L: @!%p1 add.rz.ftz.f32 %f0, %f1, 0f3F800000;\nbra.uni L;\n"
                "st.global.v2.b32 [%rd1+8], {%r0, %r1};")
    assert format_program(p).splitlines()[3:] == [
        "L0:",
        "; 19: @!%p1 add.rz.ftz.f32 %f0, %f1, 0f3F800000;",
        "    @!%p1 %f0 = fadd <f32 rz flush> %f1, 0x3f800000:32",
        "; 20: bra.uni L;",
        "    branch <L0>",
        "; 21: st.global.v2.b32 [%rd1+8], {%r0, %r1};",
        "    store <global width_bits=32 count=2 offset_bytes=8 align_bytes=8> %rd1, %r0, %r1",
    ]


def test_sites_may_be_left_out() -> None:
    assert "; " not in format_program(program("ret;"), sites=False)
