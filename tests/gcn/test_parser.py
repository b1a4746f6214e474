"""AMDGCN parsing: forms in the field, positions of errors, garbage."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from checker.errors import InputError
from checker.gcn.operands import StatementError, evaluate, read_instruction
from checker.gcn.parser import is_gcn, parse_gcn
from checker.syntax import Address, Immediate, Instruction, Label, Modifier, Name, Range, Vector
from tests.gcn.bench import text_of

FORMS: list[tuple[str, int]] = [
    ("s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_1) | instid1(VALU_DEP_2)", 1),
    ("v_fma_mix_f32 v3, v2, v0, neg(0) op_sel_hi:[1,0,0]", 5),
    ("v_cndmask_b16 v8.l, 0x7fff, v2.l, s1", 4),
    ("s_mov_b64 s[10:11], s[8:9]", 2),
    ("v_accvgpr_write_b32 a0, v2", 2),
    ("s_mov_b64 s[22:23], src_private_base", 2),
    ("v_fma_f32 v11, -v8, |v9|, -|v1|", 4),
    ("v_pk_mov_b32 v[10:11], v[8:9], v[8:9] op_sel:[0,1]", 4),
    ("v_sub_u32_e64 v5, v4, 1 clamp", 4),
    ("v_add_f32_dpp v1, v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", 7),
    ("v_mov_b32_dpp v1, v1 dpp8:[7,6,5,4,3,2,1,0]", 3),
    ("v_mul_f16_sdwa v7, v7, v11 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 "
     "src1_sel:WORD_1", 7),
    ("v_dual_cndmask_b32 v3, v3, v6 :: v_dual_cndmask_b32 v2, v2, v5", 2),
    ("buffer_store_dword v5, off, s[0:3], s33 offset:124", 5),
    ("ds_read2st64_b64 v[2:5], v1 offset1:2", 3),
    ("global_atomic_cmpswap v0, v2, v[0:1], s[2:3] glc", 5),
    ("global_wb scope:SCOPE_SE", 1),
    ("ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,1)", 3),
    ('ds_swizzle_b32 v2, v1 offset:swizzle(BITMASK_PERM,"00p11")', 3),
    ("v_permlanex16_b32 v2, v1, s0, 0xfedcba98", 4),
    ("s_waitcnt vmcnt(1) lgkmcnt(2)", 2),
    ("s_waitcnt vmcnt(1) & lgkmcnt(2)", 1),
    ("s_waitcnt_vscnt null, 0x0", 2),
    ("s_waitcnt_depctr 0xfff", 1),
    ("s_cbranch_execz .LBB5_3", 1),
    ("s_add_u32 s16, s16, _Z7breduceILi256EEvPKfPfi@rel32@lo+4", 3),
    ("s_add_u32 s0, s1, (.Ltmp1-.Ltmp0)>>32", 3),
    ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 3", 2),
    ("s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)", 1),
    ("v_div_scale_f32 v8, null, v6, v6, v7", 5),
    ("s_lshl_b32 s2, ttmp9, 8", 3),
    ("scratch_store_b32 off, v1, s33 offset:36", 4),
    ("s_barrier_signal -1", 1),
    ("v_mov_b32 v0, [s1,s2,s3]", 2),
    ("buffer_load_format_x v0, v1, s[0:3], 0 format:[BUF_FMT_32_FLOAT] offen", 6),
    ("v_wmma_i32_16x16x16_iu8 v[0:7], v[8:11], v[12:15], v[0:7] neg_lo:[1,1,0]", 5),
    ("v_future_op_b512 v[0:15], a[3:4], ttmp[0:3] shiny:[1,-2] newflag", 5),
    ("v_mul_f32_e32 v1, 0.15915494, v2", 3),
    ("v_mul_f32_e32 v1, -4.0, v2", 3),
    ("s_getreg_b32 s0, hwreg(HW_REG_XCC_ID)", 2),
]


@pytest.mark.parametrize(("text", "operands"), FORMS, ids=[t for t, _ in FORMS])
def test_forms_of_the_field(text: str, operands: int) -> None:
    opcode, found = read_instruction(text)
    assert opcode.split("::")[0].strip() == text.split()[0]
    assert len(found) == operands


def test_operands_mean_what_they_say() -> None:
    _, ops = read_instruction("v_x -v[2:3], |v4|, -|v5|, s[0:1], 0x10, -16, 1.5, v8.h, off:-4")
    assert ops[0] == Range("v", 2, 3, neg=True)
    assert ops[1] == Name("v4", absolute=True)
    assert ops[2] == Name("v5", neg=True, absolute=True)
    assert ops[3] == Range("s", 0, 1)
    assert ops[4] == Immediate("int", 16, "0x10")
    assert ops[5] == Immediate("int", -16, "-16")
    assert isinstance(ops[6], Immediate)
    assert ops[6].value == 0x3FF8000000000000
    assert ops[7] == Name("v8", "h")
    assert ops[8] == Modifier("off", "-4")
    _, ops = read_instruction("v_y |-v1|, neg(0), sym@rel32@lo+4")
    assert ops[0] == Name("v1", absolute=True)
    assert ops[1] == Vector((Name("neg"), Immediate("int", 0, "0")))
    assert ops[2] == Address(Name("sym@rel32@lo"), 4)


BROKEN = [("v_add_f32 v1,, v2", 13), ("v_mov_b32 v[3:1], v2", 10), ("v_a v1, v[", 10),
          ("v_a v1 `", 7), ("v_a v[0:2000]", 4), ("v_a (1", 6), ("v_a |v1", 7)]


@pytest.mark.parametrize(("text", "column"), BROKEN)
def test_broken_statements_have_a_column(text: str, column: int) -> None:
    with pytest.raises(StatementError) as caught:
        read_instruction(text)
    assert caught.value.column == column


def test_all_errors_of_a_text_are_collected_with_lines() -> None:
    text = text_of(["v_add_f32 v1,, v2", "v_mov_b32_e32 v10, v1", "v_mov_b32 v[3:1], v2"])
    with pytest.raises(InputError) as caught:
        parse_gcn(text, "k.s")
    lines = text.split("\n")
    found = caught.value.diagnostics
    assert [lines[d.span.line - 1].strip() for d in found] == [
        "v_add_f32 v1,, v2", "v_mov_b32 v[3:1], v2"]
    assert "k.s:" in str(caught.value)
    assert "^" in str(caught.value)


def test_expressions() -> None:
    assert evaluate("max(3,(1<<4)-2)*2", {}) == 28
    assert evaluate("alignto(a,8)+or(1,2,4)", {"a": 9}) == 23
    assert evaluate("((0x10>>2)&6)|1", {}) == 5
    assert evaluate("-(~3)", {}) == 4
    assert evaluate("unknown+1", {}) is None
    assert evaluate("1/0", {}) is None
    assert evaluate("(" * 400, {}) is None


def test_module_has_descriptor_metadata_and_items() -> None:
    module = parse_gcn(text_of(["v_mov_b32_e32 v10, v1"]))
    assert (module.isa, module.target) == ("gcn", "gfx942")
    kernel = module.functions[0]
    assert kernel.is_entry
    assert [p.size_bytes for p in kernel.params] == [8, 8, 8, 8]
    assert all(p.pointer for p in kernel.params)
    assert kernel.attributes[".amdhsa_float_denorm_mode_32"] == ("3",)
    assert kernel.attributes[".max_flat_workgroup_size"] == ("64",)
    assert isinstance(kernel.items[-1], Instruction)
    assert kernel.items[-1].opcode == "s_endpgm"


def test_comments_labels_locations_and_symbols() -> None:
    text = text_of([".file 1 \"/src\" \"a.cl\"", ".loc 1 7 3 prologue_end ; a.cl:7:3",
                    ".Ltmp0: .LBB0_1: v_mov_b32_e32 v10, v1 ; comment with ; and \"quotes\"",
                    "; whole line", "s_branch .LBB0_1 // other comment"])
    text = text.replace("\t.amdhsa_next_free_vgpr 128", "\t.amdhsa_next_free_vgpr max(.Lk.v, 5)")
    text = "\t.set .Lk.v, 1+2\n" + text
    kernel = parse_gcn(text).functions[0]
    labels = [i.name for i in kernel.items if isinstance(i, Label)]
    assert labels[-2:] == [".Ltmp0", ".LBB0_1"]
    moves = [i for i in kernel.items if isinstance(i, Instruction) and i.opcode == "v_mov_b32_e32"]
    assert moves[-1].loc is not None
    assert (moves[-1].loc.file, moves[-1].loc.line) == ("a.cl", 7)
    assert kernel.attributes[".amdhsa_next_free_vgpr"] == ("5",)


def test_data_objects_become_variables() -> None:
    text = text_of(["s_endpgm"]) + (
        "\t.type table,@object\n\t.section .rodata,\"a\",@progbits\ntable:\n\t.long 1\n"
        "\t.short 2, 3\n"
        "\t.ascii \"a\\001\"\n\t.zero 2\n\t.size table, 12\n")
    variable = parse_gcn(text).variables[0]
    assert (variable.name, variable.space) == ("table", "const")
    assert variable.init == b"\x01\0\0\0\x02\0\x03\0a\x01\0\0"


def test_unclosed_metadata_and_missing_code_are_errors() -> None:
    cut = text_of(["s_endpgm"]).split("...\n")[0]
    with pytest.raises(InputError, match="not closed"):
        parse_gcn(cut)
    with pytest.raises(InputError, match="no code"):
        parse_gcn("\t.amdhsa_kernel k\n\t.end_amdhsa_kernel\n")
    with pytest.raises(InputError, match="no function"):
        parse_gcn("\n")
    with pytest.raises(InputError, match="outside of any function"):
        parse_gcn("v_mov_b32 v0, v1\n")


def test_is_gcn() -> None:
    assert is_gcn(text_of([]))
    assert not is_gcn(".version 8.0\n.target sm_90\n")


def test_garbage_neither_crashes_nor_hangs() -> None:
    rng = random.Random(3)
    base = text_of(["v_fma_f32 v11, -v8, |v9|, 1.0", "ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,1)",
                    "v_dual_mov_b32 v4, v5 :: v_dual_mov_b32 v5, v4"])
    alphabet = "()[]{}|,:;-+~!@#$%^&*<>=\"'\\/.0123456789abcxvs_ \t\n"
    for _ in range(300):
        text = list(base)
        for _ in range(rng.randint(1, 12)):
            at = rng.randrange(len(text))
            kind = rng.random()
            if kind < 0.4:
                text[at] = rng.choice(alphabet)
            elif kind < 0.7:
                text.insert(at, rng.choice(alphabet) * rng.choice((1, 1, 1, 70)))
            else:
                del text[at:at + rng.randint(1, 20)]
        with suppress(InputError):
            parse_gcn("".join(text))
    for text in ("v_x " + "(" * 5000, "v_x " + "-" * 5000 + "1", "v_x " + "|v1" * 3000,
                 "v_x " + "1+" * 3000 + "1", "v_x " + "neg(" * 60 + "0" + ")" * 60):
        try:
            read_instruction(text)
        except StatementError:
            continue
