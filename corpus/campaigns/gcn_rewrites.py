"""Rewrites of AMDGCN that keep its meaning: other registers, order, labels, encodings, waits.

In: the text of a kernel, a random source. Out: a new text; where nothing can be changed, the text
as it was. Registers that a launch fills (arguments, block and thread index) keep their numbers,
ranges stay ranges, and a range moves only to where its alignment and its bank are the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

_ONE = re.compile(r"(?<![\w.$:])([vsa])(\d+)(?![\w:])")
_RANGE = re.compile(r"(?<![\w.$])([vsa])\[(\d+):(\d+)\]")
_INDEXED = re.compile(r"movrel|gpr_idx|_swap_pc|s_swappc|s_call|src_vccz")
_LABEL = re.compile(r"^(\.LBB\w+|\.Ltmp\w+):", re.M)

#: vector operations whose lanes, results and flags are their own: they may change places
_PURE = re.compile(
    r"^\tv_(?:add|sub|mul|max|min|fma|and|or|xor|lshlrev|lshrrev|ashrrev|lshl_add|lshl_or|add_lshl|"
    r"cvt|mov|bfe|bfi|perm|add3|or3|and_or|mad|mul_lo|med3)_(?![ui]64_[ui]32)\w+ v[\d\[:\]]+, ")
_DELICATE = re.compile(
    r"dpp|row_|quad_perm|lane|div_|vcc|exec|scc|_co_|mfma|wmma|accvgpr|sdwa|_sel:|s_delay|dual|"
    r"\bm0\b|s_nop|op_sel|\b[vs]\d+\.[lh]")

#: vector units of gfx9 need states between a write and a lane operation: none within so many lines
_HAZARD_LINES = 4


def body_range(lines: Sequence[str]) -> tuple[int, int]:
    """The lines of the kernel's code: from its label to its end label."""
    start = next((i for i, line in enumerate(lines) if re.match(r"^[\w$.]+:\s", line + " ")
                  and not line.startswith(".L")), 0)
    end = next((i for i in range(start, len(lines)) if lines[i].startswith(".Lfunc_end")),
               len(lines))
    return start, end


def _bare(line: str) -> str:
    return line.split(";")[0].split("//")[0]


def _instruction(line: str) -> bool:
    return bool(re.match(r"^\s+[a-z]\w+", _bare(line)))


def _preloaded(text: str) -> dict[str, int]:
    """How many registers of each class the launch fills."""
    def field(name: str) -> int:
        hit = re.search(rf"\.amdhsa_{name}\s+(\d+)", text)
        return int(hit.group(1)) if hit else 0

    groups = sum(field(f"system_sgpr_workgroup_{what}")
                 for what in ("id_x", "id_y", "id_z", "info"))
    scratch = field("enable_private_segment") + field("uses_dynamic_stack")
    return {"s": field("user_sgpr_count") + groups + scratch,
            "v": 1 + field("system_vgpr_workitem_id"), "a": 0}


def _blocks(lines: Sequence[str], first: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """(class, first, last) of register runs that no range in the text crosses."""
    joined: dict[str, set[int]] = {"v": set(), "s": set(), "a": set()}
    used: dict[str, set[int]] = {"v": set(), "s": set(), "a": set()}
    for line in lines:
        bare = _bare(line)
        for kind, low, high in _RANGE.findall(bare):
            used[kind].update(range(int(low), int(high) + 1))
            joined[kind].update(range(int(low), int(high)))
        for kind, number in _ONE.findall(bare):
            used[kind].add(int(number))
    for kind, numbers in used.items():
        run: list[int] = []
        for number in sorted(numbers):
            if run and number - 1 in joined[kind]:
                run.append(number)
                continue
            if run and run[0] >= first[kind]:
                yield kind, run[0], run[-1]
            run = [number]
        if run and run[0] >= first[kind]:
            yield kind, run[0], run[-1]


def rename_registers(text: str, rng: random.Random) -> str:
    """Register runs of one length and one alignment exchange their places."""
    lines = text.split("\n")
    start, end = body_range(lines)
    code = lines[start:end]
    if any(_INDEXED.search(line) for line in code):
        return text
    places: dict[tuple[str, int, int], list[int]] = {}
    for kind, low, high in _blocks(code, _preloaded(text)):
        places.setdefault((kind, high - low, low % 4), []).append(low)
    moved: dict[tuple[str, int], int] = {}
    for (kind, length, _), lows in places.items():
        others = list(lows)
        rng.shuffle(others)
        for low, other in zip(lows, others, strict=True):
            moved |= {(kind, low + i): other + i for i in range(length + 1)}

    def one(hit: re.Match[str]) -> str:
        return f"{hit[1]}{moved.get((hit[1], int(hit[2])), int(hit[2]))}"

    def many(hit: re.Match[str]) -> str:
        low, high = int(hit[2]), int(hit[3])
        to = moved.get((hit[1], low), low)
        return f"{hit[1]}[{to}:{to + high - low}]"

    out = [_RANGE.sub(many, _ONE.sub(one, _bare(line))) if _instruction(line) else line
           for line in code]
    return "\n".join([*lines[:start], *out, *lines[end:]])


def _on_code(change: Callable[[list[str], random.Random], list[str]]
             ) -> Callable[[str, random.Random], str]:
    """A rewrite of the kernel's code lines only."""

    def rewrite(text: str, rng: random.Random) -> str:
        lines = text.split("\n")
        start, end = body_range(lines)
        return "\n".join([*lines[:start], *change(lines[start:end], rng), *lines[end:]])

    return rewrite


def _registers(line: str) -> set[str]:
    """Every register that a line names, one by one."""
    bare = _bare(line)
    found = {f"{kind}{number}" for kind, number in _ONE.findall(bare)}
    for kind, low, high in _RANGE.findall(bare):
        found |= {f"{kind}{n}" for n in range(int(low), int(high) + 1)}
    return found


def _reorder(lines: list[str], rng: random.Random) -> list[str]:
    """Neighbouring vector operations that share no register they write exchanged."""
    out = list(lines)
    for at in range(len(out) - 1):
        first, second = out[at], out[at + 1]
        near = out[max(0, at - 1) : at + 2 + _HAZARD_LINES]
        if (not _PURE.match(first) or not _PURE.match(second) or rng.random() < 0.3
                or any(_DELICATE.search(_bare(line)) for line in near)):
            continue
        one, two = (_registers(_bare(x).split(",")[0]) for x in (first, second))
        if not (one & _registers(second) or two & _registers(first)):
            out[at], out[at + 1] = second, first
    return out


def _pauses(lines: list[str], rng: random.Random) -> list[str]:
    """`s_nop` between instructions, not inside what must stay together."""
    out: list[str] = []
    for at, line in enumerate(lines):
        before = " ".join(map(_bare, lines[max(0, at - 12) : at]))
        if (_instruction(line) and rng.random() < 0.1
                and not re.search(r"s_clause|s_delay_alu|s_getpc", before)):
            out.append(f"\ts_nop {rng.randrange(4)}")
        out.append(line)
    return out


def _wait_more(lines: list[str], rng: random.Random) -> list[str]:
    """Waits that let fewer operations fly."""
    def lower(hit: re.Match[str]) -> str:
        return f"{hit[1]}({rng.randint(0, int(hit[2]))})"

    return [re.sub(r"\b(vmcnt|lgkmcnt|expcnt)\((\d+)\)", lower, line)
            if line.startswith("\ts_waitcnt ") else
            re.sub(r"^(\ts_wait_(?:load|ds|km|store)cnt) (0x[0-9a-f]+)",
                   lambda h: f"{h[1]} {rng.randint(0, int(h[2], 16)):#x}", line)
            for line in lines]


_COMMUTE = re.compile(
    r"^(\tv_(?:add|mul|max|min|and|or|xor)_(?:f32|f16|f64|u32|u16|b32|i32)_e64\s+[\w\[\]:]+, )"
    r"([-|\w\[\]:]+), ([-|\w\[\]:]+)$")
_COMMUTE_SHORT = re.compile(
    r"^(\tv_(?:add|mul|max|min|and|or|xor)_(?:f32|f16|u32|u16|b32|i32)_e32\s+v\d+, )"
    r"(v\d+), (v\d+)$")
_COMMUTE_SCALAR = re.compile(r"^(\ts_(?:add|mul|and|or|xor)_(?:i32|u32|b32|b64)\s+[\w\[\]:]+, )"
                             r"([\w\[\]:]+), ([\w\[\]:]+)$")


def _commute(lines: list[str], rng: random.Random) -> list[str]:
    """Operands of commutative operations exchanged, where the encoding lets both be anything."""
    out = []
    for line in lines:
        bare = _bare(line).rstrip()
        hit = next((h for p in (_COMMUTE, _COMMUTE_SHORT, _COMMUTE_SCALAR) if (h := p.match(bare))),
                   None)
        out.append(f"{hit[1]}{hit[3]}, {hit[2]}" if hit and rng.random() < 0.5 else line)
    return out


_SHORT = re.compile(r"^(\tv_(?:add|sub|mul|max|min|and|or|xor|fmac)_(?:f32|f16|b32|u32))_e32"
                    r"(\s+v\d+, v\d+, v\d+)$")


def _encoding(lines: list[str], rng: random.Random) -> list[str]:
    """The long encoding of an operation in place of the short one."""
    return [_SHORT.sub(r"\1_e64\2", _bare(line).rstrip())
            if rng.random() < 0.5 and _SHORT.match(_bare(line).rstrip()) else line
            for line in lines]


def rename_labels(text: str, rng: random.Random) -> str:
    """Other names of labels inside the kernel."""
    names = _LABEL.findall(text)
    others = [f".Lat{n}" for n in rng.sample(range(10 * len(names) + 1), len(names))]
    table = dict(zip(names, others, strict=True))
    return re.sub(r"\.(?:LBB|Ltmp)\w+", lambda h: table.get(h[0], h[0]), text)


def rename_kernel(text: str, rng: random.Random) -> str:
    """Another kernel name."""
    hit = re.search(r"\.amdhsa_kernel\s+([\w$]+)", text)
    if not hit:
        return text
    return re.sub(rf"(?<![\w$]){re.escape(hit.group(1))}(?=\b|\.kd)",
                  f"other_{rng.randrange(999)}", text)


def strip_debug(text: str, rng: random.Random) -> str:
    """No line information and no comments."""
    kept = [line.split(";")[0] if line.startswith("\t") and '"' not in line else line
            for line in text.split("\n")
            if not line.lstrip().startswith((".loc", ".file", ";"))]
    return "\n".join(kept)


def _notes(lines: list[str], rng: random.Random) -> list[str]:
    """Comments and white space in new places."""
    out = []
    for line in lines:
        if _instruction(line) and rng.random() < 0.1:
            out.append(f"; note {rng.randrange(1000)}")
        if _instruction(line) and rng.random() < 0.3:
            line = line.replace("\t", "    ").replace(", ", ",  ")
        out.append(line)
    return out


REWRITES: dict[str, Callable[[str, random.Random], str]] = {
    "rename-registers": rename_registers,
    "rename-labels": rename_labels,
    "rename-kernel": rename_kernel,
    "strip-debug": strip_debug,
    "add-notes": _on_code(_notes),
    "commute": _on_code(_commute),
    "reorder": _on_code(_reorder),
    "encoding": _on_code(_encoding),
    "pause": _on_code(_pauses),
    "wait-more": _on_code(_wait_more),
}
