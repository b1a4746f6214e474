"""Kinds of mutants of AMDGCN: exec masks, waits, stores, lane controls, modifiers, modes, branches.

In: a kernel's text. Out: `body` (its instruction lines, grouped) and `MUTATORS` by kind, each the
change of one line or the move of one; see `mutators`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from corpus.campaigns.mutators import (
    Body,
    Mutator,
    either,
    immediate,
    moved,
    on,
    operands_at,
    replaced,
    sub_one,
)

_NUMBERED = re.compile(r"(?<![\w.])([vsa])(\d+)\b")
_VECTOR = re.compile(r"(?<=, )(-?\|?)(v\d+)(\|?)")
_SKIP = re.compile(r"^\s*(\.|;|$|[\w$.]+:)")
_LABEL = re.compile(r"^(\.LBB\w+):", re.M)
_LANES = re.compile(r"row_|quad_perm|dpp8|wave_|row_mask|swizzle|permlane|readlane|bpermute")
_SHAPES = r"s_lshl_b32|s_mul_i32|v_lshl_or|v_lshl_add|v_add_lshl|s_add_i32|v_lshlrev|s_lshr"

_GROUPS: dict[str, re.Pattern[str]] = {
    "stores": re.compile(r"_store|_atomic|ds_write"),
    "loads": re.compile(r"_load|ds_read"),
    "waits": re.compile(r"s_wait|s_barrier"),
    "hazards": re.compile(r"s_nop|s_delay"),
    "masks": re.compile(r"\bexec(_lo|_hi)?\b|saveexec|v_cmpx?_|v_cndmask"),
    "branches": re.compile(r"s_c?branch"),
    "trips": re.compile(r"s_cmpk?_|s_add_i32|s_addk_i32|s_bitcmp"),
    "tile": re.compile(_SHAPES),
    "lanes": _LANES,
    "signed": re.compile(r"\bv_\w*(f16|f32|f64|bf16)"),
}
_MODES = re.compile(r"^\t\t\.amdhsa_(float_(round|denorm)_mode_\w+|ieee_mode|dx10_clamp) (\d)",
                    re.M)


def body(text: str) -> Body:
    """The instruction lines up to the kernel descriptor, and their groups."""
    lines = text.split("\n")
    code: list[int] = []
    for number, line in enumerate(lines):
        if line.lstrip().startswith((".section", ".amdhsa_")) and code:
            break
        if line.startswith("\t") and not _SKIP.match(line):
            code.append(number)
    groups = {name: [at for at in code if pattern.search(lines[at])]
              for name, pattern in _GROUPS.items()}
    groups["modes"] = [at for at, line in enumerate(lines) if _MODES.match(line)]
    return Body(lines, code, groups)


_COMPARES = (
    (r"_lt_", "_le_"), (r"_gt_", "_ge_"), (r"_le_", "_lt_"), (r"_ge_", "_gt_"),
    (r"_eq_", "_ne_"), (r"_ne_", "_eq_"), (r"_lg_", "_eq_"), (r"_(lt|gt|le|ge)_i32", r"_\1_u32"),
    (r"_lt_", "_gt_"), (r"_(lt|gt)_f32", r"_n\1_f32"),
)
_OPCODES = (
    (r"\bv_add_f32", "v_sub_f32"), (r"\bv_sub_f32", "v_add_f32"), (r"\bv_max_f32", "v_min_f32"),
    (r"\bv_min_f32", "v_max_f32"), (r"\bv_mul_f32", "v_add_f32"), (r"\bv_and_b32", "v_or_b32"),
    (r"\bv_or_b32", "v_xor_b32"), (r"\bs_and_b(64|32)", r"s_or_b\1"),
    (r"\bs_or_b(64|32)", r"s_and_b\1"), *_COMPARES,
    (r"\bv_lshrrev_b32", "v_ashrrev_i32"), (r"\bv_lshlrev_b32", "v_lshrrev_b32"),
    (r"\bv_ashrrev_i32", "v_lshrrev_b32"), (r"\bv_bfe_u32", "v_bfe_i32"),
    (r"\bv_fma_f32", "v_mad_f32"), (r"\bv_fmac_f32", "v_mac_f32"), (r"_f32_f16", "_f32_bf16"),
    (r"\bv_add_u32", "v_sub_u32"), (r"\bv_pk_add_f32", "v_pk_mul_f32"),
    (r"\bv_add_f16", "v_mul_f16"), (r"\bv_pk_add_f16", "v_pk_mul_f16"),
    (r"_load_ushort", "_load_ubyte"), (r"_load_ushort", "_load_sshort"),
    (r"\bds_read_b32", "ds_read_u16"), (r"\bv_cvt_i32_f32", "v_cvt_u32_f32"),
    (r"\bv_rndne_f32", "v_floor_f32"), (r"\bv_exp_f32", "v_log_f32"),
    (r"\bv_rcp_f32", "v_rsq_f32"),
    (r"\bs_ashr_i32", "s_lshr_b32"), (r"\bs_min_i32", "s_max_i32"),
    (r"\bs_mul_i32", "s_mul_hi_u32"),
    (r"_f32_16x16x16_f16", "_f32_16x16x16_bf16"), (r"_i32_i24", "_u32_u24"),
    (r"\bv_med3_f32", "v_max3_f32"), (r"\bv_max3_f32", "v_min3_f32"),
    (r"\bv_perm_b32", "v_bfi_b32"),
)


def _register(body: Body, at: int, rng: random.Random) -> str | None:
    """A neighbouring register as a source."""
    return sub_one(_NUMBERED, body.lines[at], rng,
                   lambda h: f"{h.group(1)}{max(0, int(h.group(2)) + rng.choice((-1, 1, 2)))}",
                   skip_first=1)


def _exchange(body: Body, at: int, rng: random.Random) -> str | None:
    """Two vector sources exchanged."""
    line = body.lines[at]
    hits = list(re.finditer(r"(?<=, )v\d+\b", line))
    if len(hits) < 2:
        return None
    first, second = sorted(rng.sample(hits, 2), key=lambda h: h.start())
    return (line[: first.start()] + second.group(0) + line[first.end() : second.start()]
            + first.group(0) + line[second.end() :])


def _delete(body: Body, at: int, rng: random.Random) -> str | None:
    """An instruction deleted (commented out)."""
    line = body.lines[at]
    return None if "s_endpgm" in line else "\t; " + line.strip()


_Pattern = tuple[str, Callable[[re.Match[str], random.Random], str]]


def _one_of(patterns: Sequence[_Pattern], line: str, rng: random.Random) -> str | None:
    """Change what one of the patterns that occur matches first."""
    usable = [(p, f) for p, f in patterns if re.search(p, line)]
    if not usable:
        return None
    pattern, change = rng.choice(usable)
    return re.sub(pattern, lambda h: change(h, rng), line, count=1)


_OFFSETS: tuple[_Pattern, ...] = (
    (r"offset:(\d+)", lambda h, r: f"offset:{int(h[1]) + r.choice((2, 4, 8, 64))}"),
    (r"offset1:(\d+)", lambda h, r: f"offset1:{(int(h[1]) + r.choice((1, 2, 4))) % 256}"),
    (r"offset0:(\d+)", lambda h, r: f"offset0:{(int(h[1]) + r.choice((1, 2, 4))) % 256}"),
    (r" offset:\d+", lambda h, r: ""),
    (r" offen", lambda h, r: " offen offset:4"),
    (r"offset1:(\d+)", lambda h, r: ""),
)
_DPP: tuple[_Pattern, ...] = (
    (r"row_shr:\d+", lambda h, r: f"row_shr:{r.randint(1, 15)}"),
    (r"row_ror:\d+", lambda h, r: f"row_ror:{r.randint(1, 15)}"),
    (r"row_(shr|ror|shl):", lambda h, r: f"row_{r.choice(('shr', 'shl', 'ror'))}:"),
    (r"row_bcast:(\d+)", lambda h, r: f"row_bcast:{46 - int(h[1])}"),
    (r"row_half_mirror", lambda h, r: "row_mirror"),
    (r"row_mirror", lambda h, r: "row_half_mirror"),
    (r"quad_perm:\[[^\]]*\]",
     lambda h, r: "quad_perm:[" + ",".join(str(r.randrange(4)) for _ in range(4)) + "]"),
    (r"(row|bank)_mask:0x\w+", lambda h, r: f"{h[1]}_mask:0x{r.randrange(16):x}"),
    (r" bound_ctrl:\d", lambda h, r: ""),
    (r"swizzle\(.*?\)", lambda h, r: f"swizzle(SWAP,{r.choice((1, 2, 4, 8, 16))})"),
)
_MODIFIERS: tuple[_Pattern, ...] = (
    (r"op_sel_hi:\[(\d),", lambda h, r: f"op_sel_hi:[{1 - int(h[1])},"),
    (r"op_sel:\[(\d),", lambda h, r: f"op_sel:[{1 - int(h[1])},"),
    (r"op_sel:\[[\d,]*\]", lambda h, r: ""),
    (r"neg_(lo|hi):\[(\d),", lambda h, r: f"neg_{h[1]}:[{1 - int(h[2])},"),
    (r"neg_(lo|hi):\[[\d,]*\]", lambda h, r: ""),
    (r"-(v\d+)", lambda h, r: h[1]),
    (r"\|(v\d+)\|", lambda h, r: h[1]),
    (r" clamp", lambda h, r: ""),
    (r"(mul:|div:)\d", lambda h, r: f"{h[1]}4"),
    (r"(src[01]|dst)_sel:\w+", lambda h, r: f"{h[1]}_sel:{r.choice(('BYTE_0', 'WORD_1'))}"),
    (r"cbsz:(\d)", lambda h, r: f"cbsz:{1 - int(h[1])}"),
)


def _offset(body: Body, at: int, rng: random.Random) -> str | None:
    """Another byte offset."""
    return _one_of(_OFFSETS, body.lines[at], rng)


def _dpp(body: Body, at: int, rng: random.Random) -> str | None:
    """Another lane pattern, or another set of lanes that take part."""
    return _one_of(_DPP, body.lines[at], rng)


def _modifier(body: Body, at: int, rng: random.Random) -> str | None:
    """A modifier gone or another one."""
    return _one_of(_MODIFIERS, body.lines[at], rng)


def _sign(body: Body, at: int, rng: random.Random) -> str | None:
    """A source negated, or its absolute value taken; clamping or scaling of the result."""
    line = body.lines[at]
    if rng.random() < 0.2:
        return _with_tail(line, rng.choice((" clamp", " mul:2", " div:2")))
    return sub_one(_VECTOR, line.replace("_e32", "_e64", 1), rng,
                   lambda h: rng.choice((f"-{h[2]}", f"|{h[2]}|", f"-|{h[2]}|")))


def _with_tail(line: str, tail: str) -> str:
    """A modifier at the end of the operands, in the encoding that has it."""
    bare, mark, comment = line.replace("_e32", "_e64", 1).partition(";")
    return bare.rstrip() + tail + (f" {mark}{comment}" if mark else "")


def _raise_wait(body: Body, at: int, rng: random.Random) -> str | None:
    """A wait that lets one more operation fly, or that waits for one counter fewer."""
    line = body.lines[at]
    if rng.random() < 0.3:
        return re.sub(r"(vmcnt|lgkmcnt)\(\d+\)\s*", "", line, count=1)
    return sub_one(re.compile(r"(?<=\()\d+(?=\))|0x[0-9a-f]+"), line, rng,
                   lambda h: str(int(h[0], 0) + rng.choice((1, 2))))


def _mask(body: Body, at: int, rng: random.Random) -> str | None:
    """Another operation on a mask, or the mask replaced by all lanes."""
    line = body.lines[at]
    if rng.random() < 0.3:
        cut = operands_at(line)
        return line[:cut] + re.sub(r", (vcc|s\[\d+:\d+\])", ", -1", line[cut:], count=1)
    pairs = ((r"s_and_(\w*b\d\d)", r"s_or_\1"), (r"s_or_(\w*b\d\d)", r"s_and_\1"),
             (r"s_xor_(\w*b\d\d)", r"s_or_\1"), (r"s_and_saveexec", "s_or_saveexec"),
             (r"s_and_(b\d\d)", r"s_andn2_\1"), *_COMPARES)
    return replaced(pairs)(body, at, rng)


def _other_label(body: Body, at: int, rng: random.Random) -> str | None:
    """A branch to another label."""
    labels = _LABEL.findall("\n".join(body.lines))
    return sub_one(re.compile(r"\.LBB\w+"), body.lines[at], rng,
                   lambda h: rng.choice(labels) if labels else None)


_BRANCHES = (
    (r"_scc0", "_scc1"), (r"_scc1", "_scc0"), (r"_vccz", "_vccnz"), (r"_vccnz", "_vccz"),
    (r"_execz", "_execnz"), (r"s_cbranch_\w+", "s_branch"),
)


def _mode(body: Body, at: int, rng: random.Random) -> str | None:
    """Another float mode in the kernel's descriptor."""
    line = body.lines[at]
    wide = "mode_" in line and "ieee" not in line
    return re.sub(r"\d$", str(rng.randrange(4 if wide else 2)), line)


MUTATORS: dict[str, Mutator] = {
    "opcode": on("code", replaced(_OPCODES)),
    "register": on("code", _register),
    "exchange": on("code", _exchange),
    "immediate": on("code", immediate),
    "delete": on("code", _delete),
    "move": moved("code"),
    "modifier": on("code", _modifier, _sign),
    "sign": on("signed", _sign),
    "offset": either(on("stores", _offset), on("loads", _offset)),
    "lanes": on("lanes", _dpp, immediate, _register),
    "mask": on("masks", _mask, _delete, _register, immediate),
    "store": either(on("stores", _delete, _offset, _register), moved("stores")),
    "tile": on("tile", immediate, _register, replaced(_OPCODES)),
    "branch": either(on("branches", replaced(_BRANCHES), _delete, _other_label),
                     on("trips", replaced(_COMPARES), immediate, _register)),
    "wait": either(on("waits", _delete, _raise_wait), on("hazards", _delete, immediate),
                   moved("waits")),
    "mode": on("modes", _mode),
}
