"""Kinds of mutants of PTX: guards, stores, tiles, program order, loop branches, arithmetic.

In: a kernel's text. Out: `body` (its instruction lines, grouped) and `MUTATORS` by kind, each the
change of one line or the move of one; see `mutators`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from corpus.campaigns.mutators import (
    Body,
    Mutator,
    either,
    immediate,
    moved,
    nearby,
    on,
    operands_at,
    replaced,
    sub_one,
)

_REGISTER = re.compile(r"%(?:rs|rd|r|fd|f|h|p|b)\d+\b")
_PREDICATE = re.compile(r"%p\d+\b")
_FLOAT = re.compile(r"\b0[fF]([0-9A-Fa-f]{8})\b")
_ADDRESS = re.compile(r"\[\s*(%\w+|\w+)\s*(?:\+\s*(-?\d+))?\s*\]")
_SKIP = re.compile(r"^\s*(\.|//|;|\$|\}|\{|\)|$|[\w$.]+:)")
_GUARD = re.compile(r"(\s*)@(!?)(%\w+)\s+")
_LABEL = re.compile(r"^([\w$]+):", re.M)
_STORE = re.compile(r"\b(st\.|stmatrix|red\.|atom\.|cp\.async\.bulk\S*\.global\.shared)")
_ORDER = re.compile(r"\b(bar|barrier|fence|mbarrier|membar)\b|wait|commit")

#: how many steps from the block index still count as the tile's offset
_TILE_STEPS = 3


def body(text: str) -> Body:
    """The instruction lines inside the entry's braces, and their groups."""
    lines = text.split("\n")
    code: list[int] = []
    depth, opened = 0, False
    for number, line in enumerate(lines):
        bare = line.split("//")[0]
        if not _SKIP.match(bare) and depth > 0 and ";" in bare:
            code.append(number)
        if bare.strip().startswith((".section", ".reg", ".param", "mov.b32", "mov.b64")):
            continue
        depth += bare.count("{") - bare.count("}")
        if opened and depth == 0:
            break
        opened |= depth > 0
    return Body(lines, code, _groups(lines, code))


def _groups(lines: Sequence[str], code: Sequence[int]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {name: [] for name in (
        "guarded", "compares", "stores", "order", "branches", "trips", "tile", "program")}
    branched = {hit[3] for at in code if (hit := _GUARD.match(lines[at])) and "bra" in lines[at]}
    counted: set[str] = set()
    tile: dict[str, int] = {}
    for at in code:
        line = lines[at]
        named = _REGISTER.findall(line)
        if _GUARD.match(line):
            groups["guarded"].append(at)
        if "setp." in line:
            groups["compares"].append(at)
            if branched & set(named[:2]):
                groups["trips"].append(at)
                counted |= set(named[1:])
        if _STORE.search(line):
            groups["stores"].append(at)
        if _ORDER.search(line):
            groups["order"].append(at)
        if re.search(r"\bbra\b", line):
            groups["branches"].append(at)
        step = 0 if "%ctaid" in line else 1 + min((tile[r] for r in named[1:] if r in tile),
                                                  default=_TILE_STEPS)
        if step <= _TILE_STEPS and named:
            tile.setdefault(named[0], step)
            groups["tile"].append(at)
            if "%ctaid" in line or re.search(r"\b(div|rem|min|max|sub|mul|mad)\.", line):
                groups["program"].append(at)
    groups["trips"] += [at for at in code if re.match(r"\s*add\.s(32|64)", lines[at])
                        and set(_REGISTER.findall(lines[at])[:1]) & counted]
    return groups


# --- one line ----------------------------------------------------------------------------------


def _offset(body: Body, at: int, rng: random.Random) -> str | None:
    """Another byte offset in an address."""
    step = rng.choice((-32, -16, -8, -4, -2, 2, 4, 8, 16, 32, 64, 256))
    return sub_one(_ADDRESS, body.lines[at], rng,
                   lambda h: f"[{h.group(1)}+{int(h.group(2) or 0) + step}]")


def _float_literal(body: Body, at: int, rng: random.Random) -> str | None:
    """Another float literal: one bit flipped."""
    return sub_one(_FLOAT, body.lines[at], rng,
                   lambda h: f"0f{int(h.group(1), 16) ^ (1 << rng.randrange(32)):08X}")


_ROUNDINGS = (
    (r"\.rn\b", ".rz"), (r"\.rn\b", ".rp"), (r"\.rn\b", ".rm"), (r"\.rz\b", ".rn"),
    (r"\b(add|sub|mul)\.f32", r"\1.rz.f32"), (r"\b(add|sub|mul)\.f32", r"\1.ftz.f32"),
    (r"\bfma\.rn\.f32", "fma.rn.ftz.f32"), (r"\.approx\.f32", ".approx.ftz.f32"),
    (r"\.approx\.ftz", ".approx"), (r"\bdiv\.full", "div.approx"), (r"\bdiv\.rn", "div.full"),
    (r"cvt\.rn\.", "cvt.rz."), (r"\badd\.rn\.f32", "add.rn.ftz.f32"),
    (r"\badd\.f32", "add.sat.f32"), (r"\bmax\.f32", "max.NaN.f32"), (r"\bmax\.NaN", "max"),
)
_COMPARES = (
    (r"\.lt\.", ".le."), (r"\.le\.", ".lt."), (r"\.gt\.", ".ge."), (r"\.ge\.", ".gt."),
    (r"\.eq\.", ".ne."), (r"\.ne\.", ".eq."), (r"\.(lt|gt|le|ge)\.s", r".\1.u"),
    (r"\.lt\.", ".gt."), (r"\.(lt|le|gt|ge)\.f", r".\1u.f"), (r"\.and\.", ".or."),
)
_OPCODES = (
    (r"\badd\.", "sub."), (r"\bsub\.", "add."), (r"\bmax\.", "min."), (r"\bmin\.", "max."),
    (r"\band\.b", "or.b"), (r"\bor\.b", "xor.b"), (r"\bshl\.", "shr."), (r"\bshr\.u", "shr.s"),
    (r"\bshr\.s", "shr.u"), *_COMPARES,
    (r"\band\.pred", "or.pred"), (r"\bor\.pred", "and.pred"), (r"\bmul\.wide\.u32", "mul.wide.s32"),
    (r"\bmad\.wide\.s32", "mad.wide.u32"), (r"cvt\.s64\.s32", "cvt.u64.u32"),
    (r"\.trans\b", ""), (r"\.x4\.shared", ".x4.trans.shared"), (r"\bbfe\.u32", "bfe.s32"),
    (r"\.f32\.f16\b", ".f32.bf16"), (r"\.f16\.f32\b", ".bf16.f32"), (r"\bneg\.", "abs."),
    (r"\bld\.global\.b16", "ld.global.b8"), (r"f32\.f16\.f16\.f32", "f32.bf16.bf16.f32"),
    (r"\bmul\.f32", "add.f32"), (r"\badd\.f32", "mul.f32"), (r"\bmul\.lo", "mul.hi"),
    (r"\bdiv\.", "rem."), (r"\brem\.", "div."), (r"\bfma\.rn\.f32", "fma.rz.f32"),
)


def _shuffle(body: Body, at: int, rng: random.Random) -> str | None:
    """Another shuffle distance, clamp or mode."""
    line = body.lines[at]
    if "shfl.sync" not in line:
        return None
    if rng.random() < 0.2:
        return re.sub(r"\.(bfly|up|down|idx)\.", f".{rng.choice(('bfly', 'up', 'down', 'idx'))}.",
                      line)
    return sub_one(re.compile(r"(?<=, )\d+"), line, rng,
                   lambda h: str(rng.choice((1, 2, 4, 8, 16, 3, 31))))


def _guard(body: Body, at: int, rng: random.Random) -> str | None:
    """A guard negated, removed, or replaced by another predicate."""
    line = body.lines[at]
    hit = _GUARD.match(line)
    if not hit:
        return None
    way = rng.randrange(3)
    if way == 0:
        return line[: hit.start(2)] + ("" if hit.group(2) else "!") + line[hit.end(2) :]
    if way == 1:
        return hit.group(1) + line[hit.end() :]
    near = nearby(body, at, _PREDICATE)
    return line[: hit.start(3)] + rng.choice(near) + line[hit.end(3) :] if near else None


def _add_guard(body: Body, at: int, rng: random.Random) -> str | None:
    """A guard where there was none."""
    near = nearby(body, at, _PREDICATE)
    if not near or _GUARD.match(body.lines[at]):
        return None
    sign = rng.choice(("", "!"))
    return re.sub(r"^(\s*)", rf"\1@{sign}{rng.choice(near)} ", body.lines[at], count=1)


def _operand(body: Body, at: int, rng: random.Random) -> str | None:
    """Another register of the same class as a source."""

    def change(hit: re.Match[str]) -> str | None:
        prefix = re.sub(r"\d+$", "", hit.group(0))
        same = [r for r in nearby(body, at, _REGISTER) if re.sub(r"\d+$", "", r) == prefix]
        return rng.choice(same) if same else None

    return sub_one(_REGISTER, body.lines[at], rng, change, skip_first=1)


def _value(body: Body, at: int, rng: random.Random) -> str | None:
    """Another register in a store: what it writes, or where."""

    def change(hit: re.Match[str]) -> str | None:
        prefix = re.sub(r"\d+$", "", hit.group(0))
        same = [r for r in nearby(body, at, _REGISTER) if re.sub(r"\d+$", "", r) == prefix]
        return rng.choice(same) if same else None

    return sub_one(_REGISTER, body.lines[at], rng, change)


def _exchange(body: Body, at: int, rng: random.Random) -> str | None:
    """Two sources of one instruction exchanged."""
    line = body.lines[at]
    hits = list(_REGISTER.finditer(line, operands_at(line)))[1:]
    if len(hits) < 2:
        return None
    first, second = sorted(rng.sample(hits, 2), key=lambda h: h.start())
    return (line[: first.start()] + second.group(0) + line[first.end() : second.start()]
            + first.group(0) + line[second.end() :])


def _delete(body: Body, at: int, rng: random.Random) -> str | None:
    """An instruction deleted (commented out)."""
    line = body.lines[at]
    if re.match(r"\s*(@\S+\s+)?(ret|exit)\b", line):
        return None
    return "    // " + line.strip().replace("{", "(").replace("}", ")") + " (deleted)"


def _previous_pair(body: Body, at: int, rng: random.Random) -> str | None:
    """An operand of the instruction of the same opcode before this one (order of two steps)."""
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


def _other_label(body: Body, at: int, rng: random.Random) -> str | None:
    """A branch to another label."""
    labels: list[str] = _LABEL.findall("\n".join(body.lines))
    hit = re.search(r"([\w$]+)(\s*;)", body.lines[at])
    if not labels or not hit:
        return None
    line = body.lines[at]
    return line[: hit.start(1)] + rng.choice(labels) + line[hit.end(1) :]


def _other_block(body: Body, at: int, rng: random.Random) -> str | None:
    """Another coordinate of the block index, or the thread's in its place."""
    return sub_one(re.compile(r"%ctaid\.[xyz]"), body.lines[at], rng,
                   lambda h: rng.choice(("%ctaid.x", "%ctaid.y", "%ctaid.z", "%tid.x")))


MUTATORS: dict[str, Mutator] = {
    "offset": on("code", _offset),
    "immediate": on("code", immediate),
    "float": on("code", _float_literal),
    "rounding": on("code", replaced(_ROUNDINGS)),
    "opcode": on("code", replaced(_OPCODES)),
    "shuffle": on("code", _shuffle),
    "operand": on("code", _operand),
    "exchange": on("code", _exchange),
    "delete": on("code", _delete),
    "move": moved("code"),
    "step": on("code", _previous_pair),
    "guard": either(on("guarded", _guard), on("code", _add_guard),
                    on("compares", replaced(_COMPARES), immediate, _operand, _exchange)),
    "store": either(on("stores", _delete, _offset, _value, _guard, _add_guard), moved("stores")),
    "tile": on("tile", immediate, _operand, replaced(_OPCODES)),
    "program": on("program", _other_block, _exchange, replaced(_OPCODES), _operand),
    "branch": either(on("branches", _guard, _delete, _other_label),
                     on("trips", replaced(_COMPARES), immediate, _operand, _exchange)),
    "barrier": either(on("order", _delete, immediate, _guard, _add_guard), moved("order")),
}
