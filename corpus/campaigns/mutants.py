"""Mutants: one small change in real assembly, of the kind a checker might overlook.

In: the text of a PTX or AMDGCN kernel, a seed. Out: `Mutant`s (kind, line, old, new, text). A
mutant may be harmless or even invalid; the campaign judges it by parsing and replaying it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_REGISTER = re.compile(r"%(?:rs|rd|r|fd|f|h|p|b)\d+\b")
_VGPR = re.compile(r"\b([vsa])(\d+)\b")
_INT = re.compile(r"(?<![\w.%$])(-?(?:0x[0-9a-fA-F]+|\d+))(?![\w.])")
_FLOAT = re.compile(r"\b0[fF]([0-9A-Fa-f]{8})\b")
_ADDRESS = re.compile(r"\[\s*(%\w+|\w+)\s*(?:\+\s*(-?\d+))?\s*\]")
_SKIP = re.compile(r"^\s*(\.|//|;|\$|\}|\{|\)|$|[\w$.]+:)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed line: 1-based `line`, the old and the new line, and the whole new text."""

    kind: str
    line: int
    old: str
    new: str
    text: str


@dataclass(frozen=True, slots=True)
class _Body:
    """The lines of a text, and the indices of those that hold instructions."""

    lines: Sequence[str]
    code: Sequence[int]
    isa: str


Mutator = Callable[[_Body, int, random.Random], str | None]


def mutants(text: str, isa: str, count: int, seed: int) -> Iterator[Mutant]:
    """Yield up to `count` distinct mutants of one kernel text, the same for the same seed."""
    body = _body(text, isa)
    if not body.code:
        return
    rng = random.Random(f"{seed}/{len(text)}")
    kinds = PTX_MUTATORS if isa == "ptx" else GCN_MUTATORS
    names = sorted(kinds)
    seen: set[tuple[int, str]] = set()
    attempts = 0
    while len(seen) < count and attempts < 60 * count:
        attempts += 1
        kind = rng.choice(names)
        at = rng.choice(body.code)
        new = kinds[kind](body, at, rng)
        if new is None or new == body.lines[at] or (at, new) in seen:
            continue
        seen.add((at, new))
        lines = list(body.lines)
        lines[at] = new
        yield Mutant(kind, at + 1, body.lines[at], new, "\n".join(lines) + "\n")


def _body(text: str, isa: str) -> _Body:
    """Find the instruction lines: inside the entry's braces, or up to the kernel descriptor."""
    lines = text.split("\n")
    code: list[int] = []
    depth = 0
    opened = False
    for number, line in enumerate(lines):
        if isa == "ptx":
            bare = line.split("//")[0]
            if not _SKIP.match(bare) and depth > 0 and ";" in bare:
                code.append(number)
            if bare.strip().startswith((".section", ".reg", ".param", "mov.b32", "mov.b64")):
                continue
            depth += bare.count("{") - bare.count("}")
            if opened and depth == 0:
                break
            opened |= depth > 0
        else:
            if line.lstrip().startswith((".section", ".amdhsa_")) and code:
                break
            if line.startswith("\t") and not _SKIP.match(line):
                code.append(number)
    return _Body(lines, code, isa)


def _sub_one(pattern: re.Pattern[str], line: str, rng: random.Random,
             change: Callable[[re.Match[str]], str | None], skip_first: int = 0) -> str | None:
    """Change one random match of `pattern` in the operands of a line."""
    cut = _operands_at(line)
    hits = list(pattern.finditer(line, cut))[skip_first:]
    if not hits:
        return None
    hit = rng.choice(hits)
    new = change(hit)
    return None if new is None else line[: hit.start()] + new + line[hit.end() :]


def _operands_at(line: str) -> int:
    """The column where operands start: after the guard and the opcode."""
    hit = re.match(r"\s*(@!?\S+\s+)?\S+", line)
    return hit.end() if hit else 0


def _replace(line: str, pairs: Sequence[tuple[str, str]], rng: random.Random) -> str | None:
    """Apply one of the textual replacements that match the opcode."""
    cut = _operands_at(line)
    head, tail = line[:cut], line[cut:]
    usable = [(a, b) for a, b in pairs if re.search(a, head)]
    if not usable:
        return None
    a, b = rng.choice(usable)
    return re.sub(a, b, head, count=1) + tail


# --- PTX --------------------------------------------------------------------------------------


def _offset(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another byte offset in an address."""
    step = rng.choice((-32, -16, -8, -4, -2, 2, 4, 8, 16, 32, 64, 256))

    def change(hit: re.Match[str]) -> str:
        return f"[{hit.group(1)}+{int(hit.group(2) or 0) + step}]"

    return _sub_one(_ADDRESS, body.lines[at], rng, change)


def _number(hit: re.Match[str], rng: random.Random) -> str:
    value = int(hit.group(1), 0)
    new = rng.choice((value + 1, value - 1, value ^ (1 << rng.randrange(7)), value * 2, 0))
    return str(new)


def _immediate(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another integer literal."""
    return _sub_one(_INT, body.lines[at], rng, lambda hit: _number(hit, rng))


def _float_literal(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another float literal: one bit flipped."""

    def change(hit: re.Match[str]) -> str:
        return f"0f{int(hit.group(1), 16) ^ (1 << rng.randrange(32)):08X}"

    return _sub_one(_FLOAT, body.lines[at], rng, change)


_ROUNDINGS = (
    (r"\.rn\b", ".rz"), (r"\.rn\b", ".rp"), (r"\.rn\b", ".rm"), (r"\.rz\b", ".rn"),
    (r"\b(add|sub|mul)\.f32", r"\1.rz.f32"), (r"\b(add|sub|mul)\.f32", r"\1.ftz.f32"),
    (r"\bfma\.rn\.f32", "fma.rn.ftz.f32"), (r"\.approx\.f32", ".approx.ftz.f32"),
    (r"\.approx\.ftz", ".approx"), (r"\bdiv\.full", "div.approx"), (r"\bdiv\.rn", "div.full"),
    (r"cvt\.rn\.", "cvt.rz."), (r"\badd\.rn\.f32", "add.rn.ftz.f32"),
    (r"\badd\.f32", "add.sat.f32"), (r"\bmax\.f32", "max.NaN.f32"), (r"\bmax\.NaN", "max"),
)
_OPCODES = (
    (r"\badd\.", "sub."), (r"\bsub\.", "add."), (r"\bmax\.", "min."), (r"\bmin\.", "max."),
    (r"\band\.b", "or.b"), (r"\bor\.b", "xor.b"), (r"\bshl\.", "shr."), (r"\bshr\.u", "shr.s"),
    (r"\bshr\.s", "shr.u"), (r"\.lt\.", ".le."), (r"\.le\.", ".lt."), (r"\.gt\.", ".ge."),
    (r"\.ge\.", ".gt."), (r"\.eq\.", ".ne."), (r"\.ne\.", ".eq."), (r"\.lt\.s", ".lt.u"),
    (r"\band\.pred", "or.pred"), (r"\bor\.pred", "and.pred"), (r"\.bfly\.", ".up."),
    (r"\.bfly\.", ".down."), (r"\bmul\.wide\.u32", "mul.wide.s32"),
    (r"\bmad\.wide\.s32", "mad.wide.u32"), (r"cvt\.s64\.s32", "cvt.u64.u32"),
    (r"\.trans\b", ""), (r"\.x4\.shared", ".x4.trans.shared"), (r"\bbfe\.u32", "bfe.s32"),
    (r"\.f32\.f16\b", ".f32.bf16"), (r"\.f16\.f32\b", ".bf16.f32"), (r"\bneg\.", "abs."),
    (r"\bld\.global\.b16", "ld.global.b8"), (r"f32\.f16\.f16\.f32", "f32.bf16.bf16.f32"),
    (r"\bmul\.f32", "add.f32"), (r"\badd\.f32", "mul.f32"), (r"\bselp\.", "selp."),
)


def _rounding(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another rounding, denormal, saturation or approximation mode."""
    return _replace(body.lines[at], _ROUNDINGS, rng)


def _opcode(body: _Body, at: int, rng: random.Random) -> str | None:
    """A neighbouring operation."""
    return _replace(body.lines[at], _OPCODES, rng)


def _shuffle(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another shuffle distance or clamp."""
    if "shfl.sync" not in body.lines[at]:
        return None
    return _sub_one(_INT, body.lines[at], rng, lambda h: str(rng.choice((1, 2, 4, 8, 16, 3, 31))))


def _guard(body: _Body, at: int, rng: random.Random) -> str | None:
    """A guard negated, removed, added, or replaced."""
    line = body.lines[at]
    hit = re.match(r"(\s*)@(!?)(%p\d+)\s+", line)
    near = _nearby(body, at, re.compile(r"%p\d+\b"))
    if not hit:
        if "bra" in line or not near or rng.random() < 0.8:
            return None
        return re.sub(r"^(\s*)", rf"\1@{rng.choice(near)} ", line, count=1)
    way = rng.randrange(3)
    if way == 0:
        return line[: hit.start(2)] + ("" if hit.group(2) else "!") + line[hit.end(2) :]
    if way == 1 and "bra" not in line:
        return hit.group(1) + line[hit.end() :]
    return line[: hit.start(3)] + rng.choice(near) + line[hit.end(3) :] if near else None


def _nearby(body: _Body, at: int, pattern: re.Pattern[str]) -> list[str]:
    """Registers named in the 40 instruction lines before this one."""
    names = {m for n in range(max(0, at - 40), at) for m in pattern.findall(body.lines[n])}
    return sorted(names)


def _operand(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another register of the same class as a source."""

    def change(hit: re.Match[str]) -> str | None:
        prefix = re.sub(r"\d+$", "", hit.group(0))
        same = [r for r in _nearby(body, at, _REGISTER) if re.sub(r"\d+$", "", r) == prefix]
        return rng.choice(same) if same else None

    return _sub_one(_REGISTER, body.lines[at], rng, change, skip_first=1)


def _exchange(body: _Body, at: int, rng: random.Random) -> str | None:
    """Two sources of one instruction exchanged."""
    line = body.lines[at]
    hits = list(_REGISTER.finditer(line, _operands_at(line)))[1:]
    if len(hits) < 2:
        return None
    first, second = sorted(rng.sample(hits, 2), key=lambda h: h.start())
    return (line[: first.start()] + second.group(0) + line[first.end() : second.start()]
            + first.group(0) + line[second.end() :])


def _delete(body: _Body, at: int, rng: random.Random) -> str | None:
    """A store, barrier, wait or other instruction deleted (commented out)."""
    line = body.lines[at]
    weighty = re.search(r"\b(st|bar|barrier|cp|wgmma|mma|shfl|fence|mbarrier)\b", line)
    if not weighty and rng.random() < 0.7:
        return None
    if re.match(r"\s*(@\S+\s+)?(ret|exit)\b", line):
        return None
    return "    // " + line.strip().replace("{", "(").replace("}", ")") + " (deleted)"


def _previous_pair(body: _Body, at: int, rng: random.Random) -> str | None:
    """The operands of the instruction of the same opcode before this one (order of two steps)."""
    line = body.lines[at]
    opcode = line.strip().split()[0] if line.strip() else ""
    if not opcode.startswith(("mma", "wgmma", "add", "fma", "st.", "ld.")):
        return None
    for other in range(at - 1, max(0, at - 60), -1):
        text = body.lines[other]
        if text.strip().startswith(opcode):
            mine, theirs = line.split(","), text.split(",")
            if len(mine) != len(theirs) or len(mine) < 2:
                return None
            slot = rng.randrange(1, len(mine))
            mine[slot] = theirs[slot]
            new = ",".join(mine)
            return new if new.count(";") == line.count(";") else None
    return None


PTX_MUTATORS: dict[str, Mutator] = {
    "offset": _offset, "immediate": _immediate, "float": _float_literal, "rounding": _rounding,
    "opcode": _opcode, "shuffle": _shuffle, "guard": _guard, "operand": _operand,
    "exchange": _exchange, "delete": _delete, "step": _previous_pair,
}

# --- AMDGCN -----------------------------------------------------------------------------------

_GCN_OPCODES = (
    (r"\bv_add_f32", "v_sub_f32"), (r"\bv_sub_f32", "v_add_f32"), (r"\bv_max_f32", "v_min_f32"),
    (r"\bv_min_f32", "v_max_f32"), (r"\bv_mul_f32", "v_add_f32"), (r"\bv_and_b32", "v_or_b32"),
    (r"\bv_or_b32", "v_xor_b32"), (r"\bs_and_b64", "s_or_b64"), (r"\bs_or_b64", "s_and_b64"),
    (r"_lt_", "_le_"), (r"_gt_", "_ge_"), (r"_eq_", "_ne_"), (r"_lt_i32", "_lt_u32"),
    (r"\bv_lshrrev_b32", "v_ashrrev_i32"), (r"\bv_lshlrev_b32", "v_lshrrev_b32"),
    (r"\bv_fma_f32", "v_mad_f32"), (r"_f32_f16", "_f32_bf16"), (r"\bs_cbranch_execz", "s_branch"),
    (r"\bs_cbranch_scc0", "s_cbranch_scc1"), (r"\bs_cbranch_scc1", "s_cbranch_scc0"),
    (r"\bs_and_saveexec_b64", "s_or_saveexec_b64"), (r"\bv_add_u32", "v_sub_u32"),
    (r"\bv_pk_add_f32", "v_pk_mul_f32"), (r"\bv_add_f16", "v_mul_f16"),
    (r"\bglobal_load_ushort", "global_load_ubyte"), (r"\bds_read_b32", "ds_read_u16"),
)


def _gcn_opcode(body: _Body, at: int, rng: random.Random) -> str | None:
    """A neighbouring operation."""
    return _replace(body.lines[at], _GCN_OPCODES, rng)


def _gcn_register(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another register number as a source."""
    return _sub_one(_VGPR, body.lines[at], rng,
                    lambda h: f"{h.group(1)}{max(0, int(h.group(2)) + rng.choice((-1, 1, 2)))}",
                    skip_first=1)


def _gcn_modifier(body: _Body, at: int, rng: random.Random) -> str | None:
    """Another offset, DPP pattern, or sign modifier."""
    line = body.lines[at]
    ways = [(r"offset:(\d+)", lambda h: f"offset:{int(h.group(1)) + rng.choice((4, 8, 64))}"),
            (r"row_shr:(\d+)", lambda h: f"row_shr:{rng.choice((1, 2, 4, 8))}"),
            (r"row_bcast:(\d+)", lambda h: f"row_bcast:{46 - int(h.group(1))}"),
            (r"row_mask:0x\w+", lambda h: f"row_mask:0x{rng.randrange(16):x}"),
            (r" bound_ctrl:\d", lambda h: ""),
            (r"op_sel_hi:\[(\d),", lambda h: f"op_sel_hi:[{1 - int(h.group(1))},"),
            (r"-(v\d+)", lambda h: h.group(1)),
            (r"\|(v\d+)\|", lambda h: h.group(1)),
            (r"quad_perm:\[[^\]]*\]", lambda h: "quad_perm:[1,0,3,2]")]
    usable = [(p, f) for p, f in ways if re.search(p, line)]
    if not usable:
        return None
    pattern, change = rng.choice(usable)
    return re.sub(pattern, change, line, count=1)


def _gcn_delete(body: _Body, at: int, rng: random.Random) -> str | None:
    """A wait, barrier, store or other instruction deleted."""
    line = body.lines[at]
    if "s_endpgm" in line or (not re.search(r"waitcnt|barrier|store|write|nop", line)
                              and rng.random() < 0.7):
        return None
    return "\t; " + line.strip()


GCN_MUTATORS: dict[str, Mutator] = {
    "opcode": _gcn_opcode, "register": _gcn_register, "modifier": _gcn_modifier,
    "immediate": _immediate, "delete": _gcn_delete,
}
