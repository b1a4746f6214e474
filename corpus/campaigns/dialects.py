"""Two assembly languages for random programs: registers, what stands around the lines, spellings.

In: lines of a straight-line program and where its two results are. Out: the text of the kernel
`expression(a, b, c, out)`, in which every thread has read a word of `a`, `b` and `c`. A `Dialect`
also holds the table of spellings of its operations (`spellings_*.txt`). A *setting* is what a text
says besides its lines: the target and the float modes (PTX has one setting).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

__all__ = ["DIALECTS", "ELEMENTS", "TARGETS", "Dialect", "Operation", "Setting"]

ELEMENTS = 8192


class Pair(str):
    """A pair of registers; `lo` and `hi` are its halves."""

    lo: str
    hi: str


@dataclass(frozen=True, slots=True)
class Setting:
    """Target, float modes (rounding and denormals of f32, then of f16 and f64), IEEE, DX10 clamp.

    late: the modes are set by an instruction, not by the kernel's descriptor.
    """

    target: str
    modes: int = 0xF0
    ieee: int = 1
    dx10: int = 1
    late: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: kind of its result, kinds of its operands, spellings with what they ask for."""

    result: str
    takes: str
    spellings: tuple[tuple[frozenset[str], str], ...]

    def of(self, words: frozenset[str]) -> tuple[str, ...]:
        """Return the spellings of a target that these words describe."""
        return tuple(text for asked, text in self.spellings if asked <= words)


class Dialect:
    """What differs between the assembly languages."""

    isa: ClassVar[str]
    threads: ClassVar[int]
    #: registers that hold inputs from the start, by kind
    given: ClassVar[Mapping[str, tuple[str, ...]]]
    #: kinds of a spelling's own registers; those of each string share one counter
    own: ClassVar[tuple[str, ...]]
    plain: ClassVar[Setting]
    table: ClassVar[str]
    #: words that a thread stores of each of its two results
    result_words: ClassVar[int] = 1
    #: values of the kernel's scalar argument; None: it has none
    sizes: ClassVar[tuple[int | None, ...]] = (None,)

    def operations(self) -> dict[str, Operation]:
        """The table of spellings, by name."""
        return _read(self.table)

    def words(self, setting: Setting) -> frozenset[str]:
        """What a target is, as the table of spellings asks for it."""
        return frozenset()

    def names(self, setting: Setting) -> dict[str, str]:
        """What spellings name otherwise on this target."""
        return {}

    def register(self, kind: str, number: int, setting: Setting) -> str:
        """A register by kind and number."""
        raise NotImplementedError

    def literal(self, kind: str, bits: int) -> str:
        """A literal: kind k a float's bits, j an integer."""
        raise NotImplementedError

    def beside(self, result: str) -> str:
        """A register that one instruction may write together with a result."""
        return ""

    def text(self, lines: Sequence[str], outputs: Sequence[tuple[str, str]], setting: Setting
             ) -> str:
        """The whole kernel; outputs: register and kind of the two words that are stored."""
        raise NotImplementedError

    def other(self, rng: random.Random, setting: Setting) -> tuple[str, Setting]:
        """Another setting, and how it is named; the same one where the language has only one."""
        return "", setting


@cache
def _read(table: str) -> dict[str, Operation]:
    """Read the table of spellings.

    {d} is the result, {0} and so on are the operands, {k} and {j} literals; {f0} and the like are
    registers of the spelling's own, by kind.
    """
    out: dict[str, Operation] = {}
    name = ""
    for line in (Path(__file__).parent / f"spellings_{table}.txt").read_text().split("\n"):
        if line.startswith("    "):
            asked, text = frozenset[str](), line.strip()
            if text.startswith("["):
                words, text = text[1:].split("] ", 1)
                asked = frozenset(words.split())
            old = out[name]
            out[name] = replace(old, spellings=(*old.spellings, (asked, text)))
        elif line and not line.startswith("#"):
            name, kinds = line.split(": ")
            result, takes = kinds.split(" = ")
            out[name] = Operation(result, takes.replace(" ", ""), ())
    return out


# --- PTX --------------------------------------------------------------------------------------


class _Ptx(Dialect):
    isa, table, threads = "ptx", "ptx", 128
    given: ClassVar = {kind: tuple(f"%{kind}{n}" for n in range(3)) for kind in "frh"}
    own: ClassVar[tuple[str, ...]] = ("f", "r", "h", "q", "l", "p")
    plain = Setting("sm_90")
    types: ClassVar = {"f": "f32", "r": "b32", "h": "b16", "q": "f64", "l": "b64", "p": "pred"}

    def register(self, kind: str, number: int, setting: Setting) -> str:
        return f"%{kind}{number}"

    def literal(self, kind: str, bits: int) -> str:
        return f"0f{bits:08X}" if kind == "k" else str(bits)

    def text(self, lines: Sequence[str], outputs: Sequence[tuple[str, str]], setting: Setting
             ) -> str:
        lines = [f"{line};" for line in lines]
        for number, (reg, kind) in enumerate(outputs):
            if kind == "h":
                lines.append(f"cvt.f32.f16 %f{98 + number}, {reg};")
                reg = f"%f{98 + number}"
            lines.append(f"st.global.b32 [%l4+{4 * number}], {reg};")
        body = "\n".join(f"    {line}" for line in lines)
        declared = "\n".join(f"    .reg .{of} %{kind}<{200 if of != 'pred' else 180}>;"
                             for kind, of in self.types.items())
        return f"""//
.version 8.5
.target sm_90
.address_size 64
.visible .entry expression(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
.reqntid {self.threads}, 1, 1
{{
{declared}
    ld.param.u64 %l1, [a];
    ld.param.u64 %l2, [b];
    ld.param.u64 %l3, [c];
    ld.param.u64 %l4, [out];
    mov.u32 %r190, %tid.x;
    mov.u32 %r191, %ctaid.x;
    mad.lo.s32 %r192, %r191, {self.threads}, %r190;
    mul.wide.s32 %l5, %r192, 4;
    mul.wide.s32 %l6, %r192, 8;
    add.s64 %l1, %l1, %l5;
    add.s64 %l2, %l2, %l5;
    add.s64 %l3, %l3, %l5;
    add.s64 %l4, %l4, %l6;
    ld.global.b32 %r0, [%l1];
    ld.global.b32 %r1, [%l2];
    ld.global.b32 %r2, [%l3];
    mov.b32 %f0, %r0;
    mov.b32 %f1, %r1;
    mov.b32 %f2, %r2;
    mov.b32 {{%h0, %h1}}, %r0;
    cvt.u16.u32 %h2, %r1;
{body}
    ret;
}}
"""


class _More(_Ptx):
    """Words of 64 bits, halves in pairs, shared memory, loops of n turns: a table of its own."""

    table = "ptx_more"
    given: ClassVar = {**{kind: tuple(f"%{kind}{n}" for n in range(3)) for kind in "frhq"},
                       "l": ("%l20", "%l21", "%l22"),
                       **dict.fromkeys("xy", ("%r0", "%r1", "%r2"))}
    own = ("f", "r", "h", "q", "l", "p", "b")
    result_words = 2
    sizes = (0, 1, 2, 3, 5, 8, -1)

    def names(self, setting: Setting) -> dict[str, str]:
        return {"tid": "%r190", "n": "%r193", "pa": "%l7"}

    def register(self, kind: str, number: int, setting: Setting) -> str:
        if kind == "b":
            return f"$L{number}"
        if kind == "l" and number < 100:
            return f"%l{20 + number}"
        return f"%{'r' if kind in 'xy' else kind}{number}"

    def text(self, lines: Sequence[str], outputs: Sequence[tuple[str, str]], setting: Setting
             ) -> str:
        lines = [f"{line};" for line in lines]
        for number, (reg, kind) in enumerate(outputs):
            if kind == "h":
                lines.append(f"cvt.u32.u16 %r{198 + number}, {reg};")
                reg = f"%r{198 + number}"
            lines.append(f"st.global.b{64 if kind in 'lq' else 32} [%l4+{8 * number}], {reg};")
        body = "\n".join(f"    {line}" for line in lines)
        declared = "\n".join(f"    .reg .{of} %{kind}<200>;" for kind, of in self.types.items())
        loads = "\n".join(f"""    ld.param.u64 %l{1 + n}, [{name}];
    mad.wide.s32 %l8, %r192, 8, %l{1 + n};
    ld.global.b64 %l{20 + n}, [%l8];
    mov.b64 %q{n}, %l{20 + n};
    mov.b64 {{%r{n}, %r{180 + n}}}, %l{20 + n};
    mov.b32 %f{n}, %r{n};""" for n, name in enumerate("abc"))
        return f"""//
.version 8.5
.target sm_90
.address_size 64
.visible .entry expression(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out,
    .param .u32 n)
.reqntid {self.threads}, 1, 1
{{
{declared}
    .shared .align 16 .b8 buf[4096];
    ld.param.u64 %l4, [out];
    ld.param.u32 %r193, [n];
    mov.u32 %r190, %tid.x;
    mov.u32 %r191, %ctaid.x;
    mad.lo.s32 %r192, %r191, {self.threads}, %r190;
    mad.wide.s32 %l4, %r192, 16, %l4;
{loads}
    mov.b64 %l7, %l1;
    mov.b32 {{%h0, %h1}}, %r0;
    cvt.u16.u32 %h2, %r1;
{body}
    ret;
}}
"""


# --- AMDGCN -----------------------------------------------------------------------------------

_GFX9 = "9 sdwa mix fma16 dot"

#: what each target is: generation, and what it has
TARGETS = {
    "gfx906": frozenset(f"{_GFX9} mad".split()),
    "gfx90a": frozenset(f"{_GFX9} cdna".split()),
    "gfx942": frozenset(f"{_GFX9} cdna cdna3 fp8 add64".split()),
    "gfx950": frozenset(f"{_GFX9} cdna cdna4 fp8 add64".split()),
    "gfx1030": frozenset(["10+", "sdwa", "mix", "fma16", "fmaak", "dot"]),
    "gfx1100": frozenset(["10+", "11+", "mix", "fma16", "fmaak", "vopd", "dot"]),
    "gfx1200": frozenset(["10+", "11+", "12", "mix", "fma16", "fmaak", "vopd", "dot", "fp8"]),
}

#: 0: f32 as f16 and f64; rounding near, up, down, to zero; denormals of f32 flushed, or of all
_MODES = (0xF0, 0xF0, 0xC0, 0x00, 0x30, 0xF5, 0xFA, 0xFF, 0xF1, 0xF4, 0xD0, 0xE0)


class _Gcn(Dialect):
    isa, table, threads = "gcn", "gcn", 64
    given: ClassVar = {"f": ("v1", "v2", "v3"), "r": ("v1", "v2", "v3"), "h": ("v1", "v7", "v2"),
             "s": ("s20", "s21", "s22")}
    own = ("frh", "q", "p", "s")
    plain = Setting("gfx942")

    def words(self, setting: Setting) -> frozenset[str]:
        return TARGETS[setting.target]

    def names(self, setting: Setting) -> dict[str, str]:
        words, wide = self.words(setting), self._wave(setting) == 64
        new = "11+" in words
        return {
            "num": "_num" if "12" in words else "", "nc": "nc_" if "10+" in words else "",
            "rtz": "pk_rtz" if new else "pkrtz", "clz": "clz_i32_u32" if new else "ffbh_u32",
            "ctz": "ctz_i32_b32" if new else "ffbl_b32", "b": "64" if wide else "32",
            "vcc": "vcc" if wide else "vcc_lo", "exec": "exec" if wide else "exec_lo",
            "wait": "s_wait_dscnt 0x0" if "12" in words else "s_waitcnt lgkmcnt(0)",
            "addc": "add_co_ci" if "10+" in words else "addc_co",
            "subc": "sub_co_ci" if "10+" in words else "subb_co",
            "store": "ds_store_b32" if new else "ds_write_b32",
            "load": "ds_load_b32" if new else "ds_read_b32",
            "meet": "s_barrier_signal -1; s_barrier_wait -1" if "12" in words else "s_barrier",
            "dot": "v_dot4_i32_iu8" if new else "v_dot4_i32_i8",
            "signs": " neg_lo:[1,1,0]" if new else ""}

    def register(self, kind: str, number: int, setting: Setting) -> str:
        if kind == "s":
            return f"s{number - 100 + 73 if number > 100 else 20 + number}"
        if kind == "p":
            at = 32 + 2 * (number - 101)
            return f"s[{at}:{at + 1}]" if self._wave(setting) == 64 else f"s{at}"
        if kind == "q":
            at = 160 + 2 * (number - 101)
            pair = Pair(f"v[{at}:{at + 1}]")
            pair.lo, pair.hi = f"v{at}", f"v{at + 1}"
            return pair
        return f"v{number if number > 100 else 10 + number}"

    def literal(self, kind: str, bits: int) -> str:
        return f"{bits:#x}" if kind == "k" else str(bits)

    def beside(self, result: str) -> str:
        return f"v{98 + (int(result[1:]) + 1) % 2}" if result[1:].isdigit() else ""

    def other(self, rng: random.Random, setting: Setting) -> tuple[str, Setting]:
        what = rng.choice(("target", "modes", "modes", "late", "ieee", "dx10"))
        changed = {
            "target": lambda: replace(setting, target=rng.choice(sorted(TARGETS))),
            "modes": lambda: replace(setting, modes=rng.choice(_MODES)),
            "late": lambda: replace(setting, late=not setting.late),
            "ieee": lambda: replace(setting, ieee=1 - setting.ieee),
            "dx10": lambda: replace(setting, dx10=1 - setting.dx10)}[what]()
        return f"{what} of {setting} -> {changed}".replace("Setting", ""), changed

    @staticmethod
    def _wave(setting: Setting) -> int:
        return 64 if setting.target.startswith("gfx9") else 32

    def text(self, lines: Sequence[str], outputs: Sequence[tuple[str, str]], setting: Setting
             ) -> str:
        words = self.words(setting)
        old, newest, wave = "10+" not in words, "12" in words, self._wave(setting)
        named, vload = ("dword", "dword") if "11+" not in words else ("b", "b32")
        waits = ("s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0") if newest else \
            ("s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)")
        wide = "s_load_b256" if named == "b" else "s_load_dwordx8"
        rest = "s_nop 4"  # what an instruction wrote, any other may read
        set_modes = (
            [f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), {setting.modes:#x}", rest]
            if setting.late and not newest else
            [f"s_round_mode {setting.modes & 15:#x}", f"s_denorm_mode {setting.modes >> 4:#x}"]
            if setting.late else [])
        body = [
            f"{wide} s[8:15], s[0:1], 0x0", "v_and_b32_e32 v0, 0x3ff, v0",
            f"v_lshl_add_u32 v8, {'ttmp9' if newest else 's2'}, 6, v0",
            "v_lshlrev_b32_e32 v4, 2, v8", "v_lshlrev_b32_e32 v5, 3, v8", waits[0],
            *(f"global_load_{vload} v{n + 1}, v4, s[{8 + 2 * n}:{9 + 2 * n}]" for n in range(3)),
            waits[1], "v_lshrrev_b32_e32 v7, 16, v1",
            *(f"v_readfirstlane_b32 s{20 + n}, v{n + 1}" for n in range(3)),
            "s_mov_b32 s71, 0x0c0c0302", "s_brev_b32 s72, 1",
            f"s_mov_b{wave} {'vcc' if wave == 64 else 'vcc_lo'}, 5", rest, *set_modes]
        for line in lines:
            body += [line, rest] if old or "dpp" in line or "lane" in line else [line]
        for number, (reg, kind) in enumerate(outputs):
            if kind in "hs":
                move = "v_cvt_f32_f16_e32" if kind == "h" else "v_mov_b32_e32"
                body += [f"{move} v{90 + number}, {reg}", rest]
                reg = f"v{90 + number}"
            body.append(f"global_store_{vload} v5, {reg}, s[14:15] offset:{4 * number}")
        return _object([*body, "s_endpgm"], setting, wave)


def _object(body: Sequence[str], setting: Setting, wave: int) -> str:
    """The kernel's text: code, descriptor, metadata."""
    words, target = TARGETS[setting.target], setting.target
    modes = 0xF0 if setting.late else setting.modes
    flags = {
        "group_segment_fixed_size": 256, "kernarg_size": 32, "private_segment_fixed_size": 0,
        "user_sgpr_count": 2, "user_sgpr_kernarg_segment_ptr": 1, "next_free_vgpr": 256,
        "next_free_sgpr": 96, "float_round_mode_32": modes & 3,
        "float_round_mode_16_64": modes >> 2 & 3, "float_denorm_mode_32": modes >> 4 & 3,
        "float_denorm_mode_16_64": modes >> 6 & 3}
    if "12" not in words:
        flags |= {"dx10_clamp": setting.dx10, "ieee_mode": setting.ieee}
    if wave == 32:
        flags["wavefront_size32"] = 1
    if "cdna" in words:
        flags["accum_offset"] = 256
    code = "".join(f"\t{line}\n" for line in body)
    described = "".join(f"\t.amdhsa_{name} {value}\n" for name, value in flags.items())
    args = "".join(f"      - .address_space: global\n        .offset: {8 * i}\n        .size: 8\n"
                   "        .value_kind: global_buffer\n" for i in range(4))
    return (f'\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"\n\t.amdhsa_code_object_version 5\n'
            "\t.text\n\t.globl expression\n\t.p2align 8\n\t.type expression,@function\n"
            f"expression:\n{code}.Lfunc_end0:\n\t.size expression, .Lfunc_end0-expression\n"
            f"\t.section .rodata\n\t.amdhsa_kernel expression\n{described}"
            "\t.end_amdhsa_kernel\n\t.text\n\t.amdgpu_metadata\n---\namdhsa.kernels:\n  - .args:\n"
            f"{args}    .kernarg_segment_align: 8\n    .kernarg_segment_size: 32\n"
            "    .group_segment_fixed_size: 256\n    .private_segment_fixed_size: 0\n"
            "    .max_flat_workgroup_size: 64\n    .name: expression\n    .sgpr_count: 96\n"
            "    .symbol: expression.kd\n    .uniform_work_group_size: 1\n    .vgpr_count: 256\n"
            f"    .wavefront_size: {wave}\namdhsa.target: amdgcn-amd-amdhsa--{target}\n"
            "amdhsa.version:\n  - 1\n  - 2\n...\n\t.end_amdgpu_metadata\n")


DIALECTS: Mapping[str, Dialect] = {"ptx": _Ptx(), "ptx-more": _More(), "gcn": _Gcn()}
