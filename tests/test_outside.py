"""What a text names and does not say: variables from elsewhere, textures, registers of the chip."""

from __future__ import annotations

import pytest

from checker import api

KERNEL = """.version 8.5
.target {target}
.address_size 64
{declared}
.visible .entry k(.param .u64 a, .param .u64 out)
.reqntid 128, 1, 1
{{
    .reg .f32 %f<9>;
    .reg .f64 %d<9>;
    .reg .b32 %r<9>;
    .reg .b64 %l<9>;
    ld.param.u64 %l1, [a];
    ld.param.u64 %l2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %l3, %r1, 4;
    add.s64 %l4, %l1, %l3;
    add.s64 %l5, %l2, %l3;
    ld.global.f32 %f1, [%l4];
    mov.b32 %r2, 0;
    {body}
    st.global.b32 [%l5], %r2;
    ret;
}}
"""
LAUNCH = {"grid": [1, 1, 1], "block": [128, 1, 1], "args": [
    {"buffer": "a", "dtype": "f32", "elements": 128, "role": "in"},
    {"buffer": "out", "dtype": "f32", "elements": 128, "role": "out"}]}


def _kernel(body: str, declared: str = "", target: str = "sm_90") -> str:
    return KERNEL.format(body=body, declared=declared, target=target)


def _equal(a: str, b: str) -> bool:
    return api.compare(a, b, launch_a=LAUNCH).equal


def _read(space: str, name: str, linkage: str = ".extern ") -> str:
    return _kernel(f"mov.u64 %l6, {name}; ld.{space}.b32 %r2, [%l6];",
                   f"{linkage}.{space} .align 4 .b32 {name}[4];")


ZERO = _kernel("mov.b32 %r2, 0;")


@pytest.mark.parametrize("space", ["global", "const"])
def test_a_variable_of_another_module_is_its_name(space: str) -> None:
    assert _equal(_read(space, "x"), _read(space, "x"))
    assert not _equal(_read(space, "x"), _read(space, "y"))
    assert not _equal(_read(space, "x"), ZERO)
    assert _equal(_read(space, "x", linkage=""), ZERO)  # nobody writes it: premise module-data


def test_a_table_of_functions_is_no_zeros() -> None:
    table = ".func f() { ret; }\n.global .align 8 .u64 x[1] = {f};"
    assert not _equal(_kernel("mov.u64 %l6, x; ld.global.b32 %r2, [%l6];", table), ZERO)


def _texture(name: str, *declared: str) -> str:
    return _kernel(f"mov.b32 {{%r3, %r4}}, %l4; tex.1d.v4.s32.s32 {{%r2, %r3, %r4, %r5}}, "
                   f"[{name}, {{%r1}}];".replace("mov.b32", "mov.b64")
                   .replace("tex", "mov.b32 %r5, 0; tex"),
                   "\n".join(f".global .texref {d};" for d in declared))


def test_textures_are_bound_by_name() -> None:
    assert _equal(_texture("t", "t"), _texture("t", "t"))
    assert not _equal(_texture("t", "t"), _texture("u", "u"))
    assert not _equal(_texture("t", "t", "u"), _texture("u", "u", "t"))


def test_registers_without_a_row_have_names() -> None:
    begin, end = (_kernel(f"mov.u32 %r2, %reserved_smem_offset_{x};") for x in ("begin", "end"))
    assert _equal(begin, begin)
    assert not _equal(begin, end)


@pytest.mark.parametrize(("register", "other"), [
    ("%warpid", "shr.u32 %r2, %r1, 5;"),  # a place on the multiprocessor, which blocks share
    ("%nwarpid", "mov.u32 %r2, 4;"),  # places there, not the warps of a block
])
def test_warps_are_numbered_by_the_multiprocessor(register: str, other: str) -> None:
    read = _kernel(f"mov.u32 %r2, {register};")
    assert _equal(read, read)
    assert not _equal(read, _kernel(other))


SUM = "add.rn.f32 %f2, %f1, %f1; mov.b32 %r2, %f2;"
WIDE = ("cvt.f64.f32 %d1, %f1; mul.rn.f64 %d2, %d1, %d1; cvt.rn.f32.f64 %f2, %d2; "
        "mov.b32 %r2, %f2;")


@pytest.mark.parametrize(("body", "target"), [(SUM, "sm_13"), (WIDE, "sm_20, map_f64_to_f32")])
def test_targets_that_compute_otherwise(body: str, target: str) -> None:
    """sm_1x flushes f32, and map_f64_to_f32 means f32 where it says f64."""
    assert _equal(_kernel(body, target=target), _kernel(body, target=target))
    assert not _equal(_kernel(body, target=target), _kernel(body))
    assert _equal(_kernel(body, target="sm_90a, texmode_independent"), _kernel(body))


@pytest.mark.parametrize("register", ["%total_smem_size", "%aggr_smem_size"])
def test_how_much_shared_memory_there_is_belongs_to_a_program(register: str) -> None:
    def reading(words: int) -> str:
        return _kernel(f"mov.u32 %r4, s; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.b32 [%r4], 1; "
                       f"mov.u32 %r2, {register};", f".shared .b32 s[{words}];").replace(
                           ".reg .b32", ".reg .pred %p<2>;\n    .reg .b32")
    assert _equal(reading(32), reading(32))
    assert not _equal(reading(32), reading(1024))


FUNCTION = """.func (.param .b32 r) f(.param .b32 x) {{
    .reg .b32 %a<3>;
    ld.param.b32 %a1, [x];
    {op} %a2, %a1, %a1;
    st.param.b32 [r], %a2;
    ret;
}}
.global .align 8 .u64 table[1] = {{f}};"""
CALL = """mov.u64 %l6, 0;
    {load}
    {{
    .param .b32 given;
    .param .b32 result;
    st.param.b32 [given], %r1;
    st.param.b32 [result], %r1;
    form: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (result), %l6, (given), form;
    ld.param.b32 %r2, [result];
    }}"""


@pytest.mark.parametrize("load", [
    "mov.u64 %l6, f;", "mov.u64 %l7, table; ld.global.u64 %l6, [%l7];"])
def test_what_an_indirect_call_may_run_belongs_to_a_program(load: str) -> None:
    adds, multiplies = (_kernel(CALL.format(load=load), FUNCTION.format(op=op))
                        for op in ("add.s32", "mul.lo.s32"))
    assert _equal(adds, adds)
    assert not _equal(adds, multiplies)
