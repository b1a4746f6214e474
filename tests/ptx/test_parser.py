"""The PTX parser: forms of real files, names, places, data, every error of a file at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark, Token, Tree

from checker.errors import InputError, SamebitsError
from checker.lower import kernel_names, lower
from checker.parse import parse
from checker.ptx.parser import SHAPES, parse_ptx
from checker.syntax import Address, Function, Immediate, Instruction, Label, Name, Pair, Vector
from tests.ptx.lowering import HEADER

FORMS = Path(__file__).parent / "forms.ptx"
HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def kernel(body: str) -> Function:
    """Parse one kernel with the usual registers."""
    return parse_ptx(HEADER + body + "\n}\n").functions[-1]


def instructions(body: str) -> list[Instruction]:
    """Instructions of a body."""
    return [i for i in kernel(body).items if isinstance(i, Instruction)]


def errors(text: str) -> list[str]:
    """Messages with places of a text that must not parse."""
    with pytest.raises(InputError) as caught:
        parse_ptx(text, "f.ptx")
    return [f"{d.span.line}:{d.span.col} {d.message}" for d in caught.value.diagnostics]


# --- the grammar against the fast path ---


def plain_instructions(text: str) -> list[tuple[str, int]]:
    """Opcode and operand count of every instruction, by plain Lark on the whole text."""
    lark = Lark(SHAPES.source, parser="lalr", lexer="contextual", start="module")
    out = []
    for tree in lark.parse(text).iter_subtrees_topdown():
        if tree.data == "instruction":
            opcode = next(c for c in tree.children if isinstance(c, Token))
            operands = tree.children[-1]
            count = len(operands.children) if isinstance(operands, Tree) and (
                operands.data == "operands") else 0
            out.append((str(opcode), count))
    return out


@pytest.mark.parametrize("text", [FORMS.read_text(), HEADER + "add.s32 %r0, %r1, -1;\nret;\n}\n"],
                         ids=["forms", "small"])
def test_plain_lark_and_fast_path_agree(text: str) -> None:
    fast = [(i.opcode, len(i.operands)) for f in parse_ptx(text).functions for i in f.items
            if isinstance(i, Instruction)]
    assert fast == plain_instructions(text)
    assert len(fast) > 1 or "add" in text


def test_whole_file_is_one_shape_of_the_grammar() -> None:
    SHAPES.plan("module", SHAPES.scan(FORMS.read_text()).kinds)


# --- operands ---


def test_vectors_sinks_pairs_and_addresses() -> None:
    ins = instructions("mov.b64 {_, %r1}, %rd2; elect.sync %r1|%p1, -1;"
                       " ld.global.b32 %r0, [%rd1+-8];"
                       " cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
                       " [%rd2, {%r1, %r2}], [%r3];")
    assert ins[0].operands[0] == Vector((Name("_"), Name("%r1")))
    assert ins[1].operands == (Pair(Name("%r1"), Name("%p1")), Immediate("int", -1, "-1"))
    assert ins[2].operands[1] == Address(Name("%rd1"), -8)
    assert ins[3].operands[0] == Address(Name("%rd2"), 0, (Vector((Name("%r1"), Name("%r2"))),))


@pytest.mark.parametrize(("word", "value"), [
    ("020", 16), ("0x1F", 31), ("0XfF", 255), ("0b101", 5), ("7U", 7), ("0xffffffffU", 2**32 - 1),
    ("-8", -8), ("~0", -1), ("!5", 0), ("0", 0), ("(12)", 12),
])
def test_integer_literals(word: str, value: int) -> None:
    operand = instructions(f"mov.b32 %r0, {word};")[0].operands[1]
    assert isinstance(operand, Immediate)
    assert (operand.kind, operand.value) == ("int", value)


@pytest.mark.parametrize(("word", "kind", "bits"), [
    ("0f3F800000", "f32", 0x3F800000), ("0Fbf800000", "f32", 0xBF800000),
    ("-0f3F800000", "f32", 0xBF800000), ("0d3FF0000000000000", "f64", 0x3FF0000000000000),
    ("1.5", "f64", 0x3FF8000000000000), ("1e3", "f64", 0x408F400000000000),
])
def test_float_literals(word: str, kind: str, bits: int) -> None:
    operand = instructions(f"mov.f32 %f0, {word};")[0].operands[1]
    assert isinstance(operand, Immediate)
    assert (operand.kind, operand.value) == (kind, bits)


def test_unknown_opcodes_parse() -> None:
    assert instructions("brand.new::one.b32 %r0, {%r1, !%p1}, [buf+4];")[0].opcode == (
        "brand.new::one.b32")


# --- scopes, labels, places ---


def test_names_of_sibling_scopes_are_unique() -> None:
    body = ("{ .reg .pred done; loop: @!done bra loop; }\n"
            "{ .reg .pred done; loop: @!done bra.uni loop; }")
    items = kernel(body).items
    assert [i.name for i in items if isinstance(i, Label)] == ["loop@1", "loop@2"]
    branches = [i for i in items if isinstance(i, Instruction)]
    assert [i.guard.name for i in branches if i.guard] == ["done@1", "done@2"]
    assert [i.operands for i in branches] == [(Name("loop@1"),), (Name("loop@2"),)]


def test_inner_register_hides_outer_range() -> None:
    body = "mov.b32 %r1, 0; { .reg .b64 %r1; mov.b64 %r1, 1; } mov.b32 %r1, 2;"
    f = kernel(body)
    assert (f.registers["%r1"], f.registers["%r1@1"]) == (32, 64)


def test_forward_label_out_of_a_scope() -> None:
    branch = instructions("{ bra done; } done: ret;")[0]
    assert branch.operands == (Name("done"),)


def test_source_places_follow_loc_even_when_file_comes_last() -> None:
    text = HEADER + '.loc 1 5 7\nret;\n.loc 2 9 1, function_name $L, inlined_at 1 3 4\nret;\n}\n'
    text += '.file 1 "kernel.py"\n.file 2 "lib.py"\n'
    one, two = (i for i in parse_ptx(text).functions[0].items if isinstance(i, Instruction))
    assert one.loc is not None
    assert two.loc is not None
    assert (one.loc.file, one.loc.line, one.loc.col) == ("kernel.py", 5, 7)
    assert (two.loc.file, two.loc.line) == ("lib.py", 9)


def test_span_is_the_instruction() -> None:
    ins = parse_ptx(HEADER + "  add.s32 %r0,\n %r1, 1;\n}\n").functions[0].items[0]
    assert isinstance(ins, Instruction)
    line = HEADER.count("\n") + 1
    assert (ins.span.line, ins.span.col, ins.text) == (line, 3, "add.s32 %r0, %r1, 1;")


# --- declarations ---


def test_data_of_all_kinds() -> None:
    text = HEAD + ('.global .align 1 .b8 s[4] = {65, 0x42, 0};\n'
                   '.const .align 4 .f32 t[2] = {0f3F800000, -2.0};\n'
                   '.global .align 8 .u64 p[2] = {generic(s)+1, s};\n'
                   '.global .b32 big[2][2] = {{1, 2}, {3, 4}};\n'
                   '.extern .shared .align 16 .b8 dyn[];\n')
    m = parse_ptx(text)
    by_name = {v.name: v for v in m.variables}
    assert by_name["s"].init == b"AB\0\0"
    assert by_name["t"].init == bytes.fromhex("0000803f000000c0")
    assert by_name["big"].init == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])
    assert by_name["dyn"].external
    assert by_name["dyn"].size_bytes == 0
    assert [d.args for d in m.directives if d.name == ".init_address"] == [
        ("p", "0", "8", "s", "1", "generic", "0"), ("p", "8", "8", "s", "0", "", "0")]


def test_long_integer_data_makes_no_shape_of_its_own() -> None:
    values = list(range(1000))
    m = parse_ptx(HEAD + f".global .u16 v[1000] = {{{','.join(map(str, values))}}};\n")
    assert m.variables[0].init == b"".join(v.to_bytes(2, "little") for v in values)


def test_parameters() -> None:
    text = HEAD + (".entry k(.param .align 4 .b8 a[36], .param .u64 .ptr .global .align 1 b,"
                   " .param .f32 c)\n.maxntid 256, 1, 1\n.minnctapersm 2\n{ ret; }\n")
    f = parse_ptx(text).functions[0]
    assert [(p.name, p.size_bytes, p.align, p.pointer) for p in f.params] == [
        ("a", 36, 4, False), ("b", 8, 8, True), ("c", 4, 4, False)]
    assert f.attributes == {".maxntid": ("256", "1", "1"), ".minnctapersm": ("2",)}


def test_debug_sections_are_skipped_and_a_nul_at_the_end_is_allowed() -> None:
    section = ".section\t.debug_str\n{\n.b8 95 // it's a { brace\n$L__x:\n.b32 $L__x+4\n}\n\x00"
    assert kernel_names(parse_ptx(HEADER + "ret;\n}\n" + section)) == ("k",)


# --- errors ---


def test_all_errors_of_a_file_are_collected() -> None:
    text = HEADER + "add.s32 %r0 %r1;\nret;\nmov.b32 [, 3;\n.reg .b32;\n}\n"
    line = HEADER.count("\n") + 1
    assert errors(text) == [f"{line}:13 unexpected `%r1`", f"{line + 2}:10 unexpected `,`",
                            f"{line + 3}:10 unexpected `;`"]


def test_a_diagnostic_shows_the_place() -> None:
    with pytest.raises(InputError) as caught:
        parse_ptx(HEAD + ".entry k()\n{\n  add.s32 %r0 %r1;\n}\n", "f.ptx")
    shown = str(caught.value).splitlines()
    assert shown[0] == "f.ptx:6:15: unexpected `%r1`"
    assert shown[2].index("^") - 2 == 14
    assert shown[3].startswith("  hint: expected ")


@pytest.mark.parametrize(("text", "message"), [
    ("", "1:1 the text is empty"),
    ("\x00\x00", "1:1 the text is empty"),
    (HEADER + "ret;", "ends inside function `k`"),
    (HEADER + "add.s32 %r0, %r1", "the statement does not end"),
    (HEADER + "{ ret; }", "ends inside function"),
    (HEAD + ".visible .entry k(.param .u64 p", "the statement does not end"),
    (HEADER + "ret;\n}\n}\n", "unexpected `}` outside a function"),
    (HEADER + "ret;\n}\n/* never closed", "the comment is not closed"),
    (HEADER + "ret;\n}\n.section .debug_x {\n.b8 1\n", "the section is not closed"),
    (HEADER + "mov.b32 %r0, 09;\n}\n", "`09` is no valid number"),
    (HEADER + "mov.b32 %r0, 0xZZ;\n}\n", "`0xZZ` is no number"),
    (HEADER + "x: x: ret;\n}\n", "`x` is declared twice in one scope"),
    (HEAD + "add.s32 %r0, %r1, %r2;\n", "instruction `add.s32` outside a function"),
    (".entry k() { ret; }\n", "the text has no .version directive"),
    (HEADER + "ret;\n}\n\x01\x02\x03", "has no meaning in PTX"),
])
def test_broken_texts_name_what_is_wrong(text: str, message: str) -> None:
    assert any(message in found for found in errors(text))


@pytest.mark.parametrize("text", [
    HEADER + "{" * 100_000,
    HEADER + "mov.b32 %r0, " + "{" * 100_000 + ";\n}\n",
    HEADER + "}" * 100_000,
    HEADER + "mov.b32 %r0, " + "(" * 50_000 + "1" + ")" * 50_000 + ";\n}\n",
    HEADER + "add " * 500_000,
    HEADER + "a } " * 100_000,
    HEADER + "a ; " * 100_000 + "/*" * 100_000,
    HEADER + '"' * 100_001,
    "\xff" * 100_000,
    HEADER + "mov.b32 %r0, " + "9" * 200_000 + ";\n}\n",
    HEADER + ".reg .b32 %q<99999999999999999999>;\n}\n",
    HEAD + ".global .b8 x[99999999999999];\n" + ".global .b8 y[4294967295] = {1};\n",
], ids=range(12))
def test_hostile_texts_end_quickly(text: str) -> None:
    start = time.process_time()
    found: list[str] = []
    try:
        parse_ptx(text)
    except InputError as error:
        found = [d.render() for d in error.diagnostics]
    assert len(found) <= 60
    assert sum(map(len, found)) < 60_000
    assert time.process_time() - start < 5


PIECES = [*'{}[](),;:@!|%.-"\n/*x0', "\x00", "0x", ".reg", "ret;"]
MUTATION = st.tuples(st.floats(0, 1), st.sampled_from(["cut", "drop", "swap", "insert", "double"]),
                     st.sampled_from(PIECES))


@given(st.lists(MUTATION, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_mutated_files_give_input_errors_only(mutations: list[tuple[float, str, str]]) -> None:
    text = FORMS.read_text()
    for where, how, piece in mutations:
        at = int(where * len(text))
        if how == "cut":
            text = text[:at]
        elif how == "drop":
            text = text[:at] + text[at + 1 :]
        elif how == "swap":
            text = text[:at] + piece + text[at + 1 :]
        elif how == "insert":
            text = text[:at] + piece + text[at:]
        else:
            text = text[:at] + text[max(0, at - 40) : at] + text[at:]
    try:
        module = parse(text, isa="ptx")
        for name in kernel_names(module):
            lower(module, name)
    except SamebitsError:
        pass
