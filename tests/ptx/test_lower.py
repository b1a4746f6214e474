"""Lowering of whole kernels: layout, control flow, calls, data, opaque instructions."""

from __future__ import annotations

import pytest

from checker.core import GENERIC_LOCAL, MODULE_BASE, Program
from checker.errors import InputError, UsageError
from checker.lower import kernel_names, lower
from checker.parse import parse
from tests.ptx.lowering import HEADER, listing, program

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def lowered(text: str, kernel: str | None = None) -> Program:
    """Parse and lower a whole text."""
    return lower(parse(text, isa="ptx"), kernel)


def names(p: Program) -> list[str]:
    """Names of a program's operations."""
    return [op.name for op in p.ops]


def test_header_facts() -> None:
    p = program("ret;")
    assert (p.isa, p.target, p.warp_size, p.block) == ("ptx", "sm_90", 32, (128, 1, 1))
    assert [(q.name, q.offset_bytes, q.size_bytes) for q in p.params] == [("p0", 0, 8),
                                                                         ("p1", 8, 4)]


def test_maxntid_is_no_block_size() -> None:
    p = lowered(HEAD + ".entry k()\n.maxntid 256, 2, 1\n{ ret; }\n")
    assert (p.block, p.max_threads) == (None, 512)


def test_parameters_are_aligned_by_their_own_type() -> None:
    p = lowered(HEAD + ".entry k(.param .u8 a, .param .u64 .ptr .global .align 1 b, .param .u16 c,"
                       " .param .align 4 .b8 d[5], .param .u64 e) { ret; }\n")
    assert [q.offset_bytes for q in p.params] == [0, 8, 16, 20, 32]
    assert [q.pointer for q in p.params] == [False, True, False, False, False]


def test_shared_layout_keeps_dynamic_memory_behind_static() -> None:
    p = program("mov.u32 %r0, dyn; mov.u32 %r1, buf;")
    assert (p.static_shared_bytes, p.dynamic_shared_base) == (64, 64)
    assert listing("mov.u32 %r0, dyn;") == ["%r0 = mov <32> 0x40:32"]


def test_unused_module_variables_take_no_room() -> None:
    text = HEAD + ".shared .align 4 .b8 a[100];\n.shared .align 4 .b8 b[8];\n"
    text += ".entry k() { .reg .b32 %r<2>; mov.u32 %r1, b; ret; }\n"
    assert lowered(text).static_shared_bytes == 8


def test_data_blocks_hold_addresses_of_other_blocks() -> None:
    text = HEAD + (".global .align 4 .b32 x[2] = {7, 8};\n"
                   ".global .align 8 .u64 p[2] = {generic(x)+4, 0};\n"
                   ".entry k() { .reg .b64 %rd<3>; mov.u64 %rd1, p;"
                   " ld.global.u64 %rd2, [p]; ret; }")
    p = lowered(text)
    blocks = {d.name: d for d in p.data}
    assert set(blocks) == {"x", "p"}
    assert blocks["p"].init is not None
    assert int.from_bytes(blocks["p"].init[:8], "little") == blocks["x"].address + 4
    assert all(d.address >= MODULE_BASE for d in p.data)
    assert "module-data" in p.premises


def test_function_pointers_leave_a_table_unknown() -> None:
    text = HEAD + (".func f() { ret; }\n.global .align 8 .u64 t[1] = {f};\n"
                   ".entry k() { .reg .b64 %rd<3>; ld.global.u64 %rd2, [t]; ret; }")
    assert lowered(text).data[0].init is None


def test_local_depot() -> None:
    p = program("mov.b64 %rd1, depot; cvta.local.u64 %rd2, %rd1; st.b32 [%rd2+4], %r1;")
    assert p.local_bytes == 32
    assert [op.src[-1].bits for op in p.ops[1:2]] == [GENERIC_LOCAL]


def test_branches_point_at_operations() -> None:
    p = program("bra.uni B; A: ret; B: add.s32 %r0, %r0, 1; @%p1 bra A; bra B;")
    branches = [op.attr for op in p.ops if op.name == "branch"]
    assert names(p) == ["branch", "exit", "iadd", "branch", "branch"]
    assert branches == [2, 1, 2]


def test_a_missing_label_is_an_error_of_the_text() -> None:
    with pytest.raises(InputError, match="does not exist"):
        program("bra.uni nowhere;")


def test_an_undeclared_guard_is_an_error_of_the_text() -> None:
    with pytest.raises(InputError, match="no declared predicate"):
        program("@%q add.s32 %r0, %r1, %r2;")


def test_kernel_choice() -> None:
    text = HEAD + ".entry a() { ret; }\n.entry b() { trap; }\n.func c() { ret; }\n"
    assert kernel_names(parse(text)) == ("a", "b")
    assert names(lowered(text, "b")) == ["trap"]
    with pytest.raises(UsageError, match="2 kernels"):
        lowered(text)
    with pytest.raises(UsageError, match="no kernel 'c'"):
        lowered(text, "c")

@pytest.mark.parametrize("kind", [".entry", ".func"])
def test_a_name_with_two_bodies_is_an_error_of_the_text(kind: str) -> None:
    """Otherwise one of the two would be looked at, and another text be `equal` to half of this."""
    twice = f"{kind} a() {{ ret; }}\n{kind} a() {{ trap; }}\n"
    with pytest.raises(InputError, match="defined twice"):
        lowered(HEAD + ".entry k() { ret; }\n" + twice, "k")
    with pytest.raises(InputError, match=r":6:.*`a` is defined twice"):
        kernel_names(parse(HEAD + ".entry k() { ret; }\n" + twice))
    announced = f"{kind} a();\n{kind} a() {{ ret; }}\n"
    assert "k" in kernel_names(parse(HEAD + ".entry k() { ret; }\n" + announced))


def test_a_text_without_a_kernel_is_an_error_of_the_text() -> None:
    with pytest.raises(InputError, match="no kernel"):
        lowered(HEAD + ".func c() { ret; }\n")


# --- calls ---

SCALE = """.func (.param .b32 r) scale(.param .b32 a, .param .b32 n)
{ .reg .f32 %f<3>; .reg .pred %p<2>; .reg .b32 %r<2>;
  ld.param.f32 %f1, [a]; ld.param.b32 %r1, [n]; setp.eq.s32 %p1, %r1, 0; @%p1 bra Z;
  mul.rn.f32 %f1, %f1, %f1; Z: st.param.f32 [r], %f1; ret; }
"""
CALL = """{ .param .b32 p0x; .param .b32 p1x; .param .b32 rx; st.param.f32 [p0x], %f1;
  st.param.b32 [p1x+0], %r1; call.uni (rx), scale, (p0x, p1x); ld.param.f32 %f0, [rx]; }
"""


def test_calls_are_inlined_through_registers() -> None:
    p = lowered(HEADER.replace(".extern", SCALE + ".extern", 1) + CALL + "}\n")
    assert names(p) == ["mov", "mov", "nop", "mov", "mov", "mov", "mov", "icmp", "branch", "fmul",
                        "mov", "branch", "mov", "mov"]
    assert p.ops[8].attr == 10
    assert p.ops[11].attr == 12


def test_two_calls_have_their_own_labels_and_registers() -> None:
    p = lowered(HEADER.replace(".extern", SCALE + ".extern", 1) + CALL + CALL + "}\n")
    assert [op.attr for op in p.ops if op.name == "branch"] == [10, 12, 24, 26]
    products = [op.dst for op in p.ops if op.name == "fmul"]
    assert products[0] != products[1]


def test_struct_arguments_travel_through_local_memory() -> None:
    text = HEAD + (".func take(.param .align 4 .b8 s[12]) { .reg .b32 %r<2>;"
                   " ld.param.b32 %r1, [s+8]; ret; }\n"
                   ".entry k() { .reg .b32 %r<2>; .param .align 4 .b8 a[12];"
                   " st.param.b32 [a+8], %r1; call take, (a); ret; }\n")
    p = lowered(text)
    assert names(p) == ["store", "nop", *["load", "store"] * 3, "load", "branch", "exit"]
    assert p.local_bytes == 24


@pytest.mark.parametrize("text", [
    ".func f() { call f; ret; }\n.entry k() { call f; ret; }\n",
    ".extern .func f();\n.entry k() { call f; ret; }\n",
    ".entry k() { .reg .b64 %rd<2>; call %rd1, (), proto; proto: .callprototype _ (); ret; }\n",
], ids=["recursion", "no-body", "indirect"])
def test_calls_that_cannot_be_inlined_are_opaque(text: str) -> None:
    assert "opaque" in names(lowered(HEAD + text))


def test_an_unknown_call_hides_its_result() -> None:
    text = (".extern .func (.param .b32 r) ext(.param .b32 a);\n"
            ".entry k() { .reg .b32 %r<3>; .param .b32 a; .param .b32 r; st.param.b32 [a], %r1;"
            " call (r), ext, (a); ld.param.b32 %r2, [r]; ret; }\n")
    p = lowered(HEAD + text)
    opaque = next(op for op in p.ops if op.name == "opaque")
    assert "[effects]" in opaque.attr
    result = next(op for op in reversed(p.ops) if op.name == "mov")
    assert result.src[0] in opaque.dst


def test_a_guarded_call_is_jumped_over() -> None:
    text = HEAD + ".func f() { ret; }\n.entry k() { .reg .pred %p; @%p call f; ret; }\n"
    p = lowered(text)
    assert names(p) == ["branch", "nop", "branch", "exit"]
    assert p.ops[0].guard is not None
    assert p.ops[0].guard.neg
    assert p.ops[0].attr == 3


# --- opaque ---


def test_registers_in_opaque_texts_are_numbered_not_named() -> None:
    one, two = (program(f"foo.b32 %r{a}, %r{b}, %r{a};") for a, b in ((1, 2), (7, 5)))
    assert one.ops[0].attr == two.ops[0].attr == "foo.b32 $0, $1, $0 [effects]"


def test_undeclared_names_are_opaque_not_special() -> None:
    assert names(program("mov.b32 %r0, %nosuch;")) == ["opaque"]


def test_a_guard_that_the_line_overwrites_is_read_first() -> None:
    ops = listing("@%p0 setp.lt.s32 %p0|%p1, %r1, %r2;")
    assert ops[0] == "t0 = mov <1> %p0"
    assert ops[-2:] == ["@t0 %p0 = mov <1> t1", "@t0 %p1 = mov <1> t2"]


@pytest.mark.parametrize("text", [
    ".newthing a, b;\n.entry k() { ret; }\n",
    ".entry k()\n.newattribute 3\n{ ret; }\n",
    ".entry k() { .newthing a; ret; }\n",
], ids=["module", "header", "body"])
def test_unknown_directives_are_opaque(text: str) -> None:
    assert names(lowered(HEAD + text)) == ["opaque", "exit"]


def test_known_header_directives_are_not() -> None:
    text = (".entry k()\n.reqntid 0x80, 2\n.minnctapersm 1\n.maxnreg 64\n.explicitcluster\n"
            ".reqnctapercluster 2, 1, 1\n{ .pragma \"nounroll\"; ret; }\n")
    p = lowered(HEAD + text)
    assert names(p) == ["exit"]
    assert p.block == (128, 2, 1)


@pytest.mark.parametrize(("attribute", "modelled"), [
    ("", True), (".explicitcluster\n.reqnctapercluster 1, 1, 1", True),
    (".explicitcluster\n.reqnctapercluster 2, 1, 1", False), (".explicitcluster", False),
])
def test_the_place_in_a_larger_cluster_is_opaque(attribute: str, modelled: bool) -> None:
    p = lowered(HEAD + f".entry k()\n{attribute}\n{{ .reg .b32 %r<2>;"
                       " mov.u32 %r1, %cluster_ctarank; ret; }\n")
    assert names(p) == ["special" if modelled else "opaque", "exit"]


@pytest.mark.parametrize(("attribute", "modelled"), [
    ("", True), (".explicitcluster\n.reqnctapercluster 1, 1, 1", True), (".maxclusterrank 1", True),
    (".reqnctapercluster 2", False), (".explicitcluster", False),
])
@pytest.mark.parametrize("code", [
    "mapa.shared::cluster.u32 %r1, %r2, 0;", "mapa.shared::cluster.u32 %r1, %r2, %r3;",
    "mapa.u64 %rd1, %rd2, %r3;", "getctarank.shared::cluster.u32 %r1, %r2;",
    "getctarank.u64 %r1, %rd2;",
])
def test_addresses_in_a_larger_cluster_are_opaque(attribute: str, modelled: bool, code: str
                                                  ) -> None:
    p = lowered(HEAD + f".entry k()\n{attribute}\n{{ .reg .b32 %r<4>; .reg .b64 %rd<3>; "
                       f"{code} ret; }}\n")
    assert ("opaque" not in names(p)) == modelled


def test_only_the_text_says_that_a_block_is_alone() -> None:
    code = "{ .reg .b32 %r<3>; getctarank.shared::cluster.u32 %r1, %r2; ret; }\n"
    assert names(lowered(HEAD + ".entry k()\n" + code)) == ["special", "mov", "exit"]
    alone = lowered(HEAD + ".entry k()\n.reqnctapercluster 1\n" + code)
    assert names(alone) == ["mov", "exit"]


def test_cache_policies_vanish_unless_their_value_is_used() -> None:
    make = "createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0; mov.b64 %rd2, %rd1; "
    hint = "ld.global.L2::cache_hint.b32 %r1, [%rd3], %rd2;"
    assert names(program(make + hint)) == ["nop", "nop", "load"]
    used = names(program(make + hint + " st.global.b64 [%rd3], %rd2;"))
    assert used == ["special", "mov", "load", "store"]
    # Triton sets the policy's register to zero first.
    assert names(program("mov.u64 %rd1, 0x0; " + make + hint)) == ["nop", "nop", "nop", "load"]
    sums = names(program("add.u64 %rd1, %rd3, 1; " + make + hint))
    assert sums == ["iadd", "special", "mov", "load"]


def test_calls_that_multiply_end_as_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checker.ptx.lower.MAX_OPS", 3000)
    functions = "".join(f".func f{i}() {{ call f{i + 1}; call f{i + 1}; ret; }}\n"
                        for i in range(30))
    p = lowered(HEAD + functions + ".func f30() { ret; }\n.entry k() { call f0; ret; }\n")
    assert "opaque" in names(p)
    assert len(p.ops) < 4000
