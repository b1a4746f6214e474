"""Rewrites: changes to real assembly that keep its meaning, so that no signature may move.

In: the text of a kernel, a seed. Out: a new text. Each function is one kind of rewrite; REWRITES
lists them by ISA. Refuses nothing: where nothing can be changed the text comes back as it was.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from corpus.campaigns import gcn_rewrites

_PTX_REGISTER = re.compile(r"%(rs|rd|r|fd|f|h|p|b|rq)(\d+)\b")
_PTX_COMMUTE = re.compile(
    r"^(\s*(?:@!?%p\d+\s+)?(?:add|mul|mul\.lo|mul\.hi|mul\.wide|max|min|and|or|xor|fma|mad|"
    r"mad\.lo|mad\.wide|add\.cc)\.[\w.]+\s+[^,{]+,\s*)([^,;{]+),\s*([^,;{]+)([,;].*)$")
_PTX_PURE = re.compile(
    r"^\s*(?:add|sub|mul|mad|fma|and|or|xor|not|shl|shr|cvt|mov|selp|setp|max|min|neg|abs|bfe|prmt)"
    r"\.(?!cc)[\w.]+\s+%\w+\s*,[^{}]*;\s*(?://.*)?$")


def rename_registers(text: str, rng: random.Random) -> str:
    """Permute the numbers of every register class."""
    top: dict[str, int] = {}
    for kind, number in _PTX_REGISTER.findall(text):
        top[kind] = max(top.get(kind, 0), int(number))
    maps = {}
    for kind in sorted(top):
        numbers = list(range(top[kind] + 1))
        rng.shuffle(numbers)
        maps[kind] = numbers
    text = re.sub(r"%(\w+)<(\d+)>", lambda h: f"%{h.group(1)}<{int(h.group(2)) + 1}>", text)
    return _PTX_REGISTER.sub(
        lambda h: f"%{h.group(1)}{maps[h.group(1)][int(h.group(2))]}", text)


def rename_kernel(text: str, rng: random.Random) -> str:
    """Another kernel name, and with it other parameter names and labels."""
    hit = re.search(r"\.entry\s+([\w$]+)", text)
    if not hit:
        return text
    name = hit.group(1)
    return re.sub(rf"(?<![\w$.]){re.escape(name)}(?=\b|_param)", f"other_{rng.randrange(999)}",
                  text)


def strip_debug(text: str, rng: random.Random) -> str:
    """No line information and no comments."""
    out = []
    for line in text.split("\n"):
        if line.lstrip().startswith((".loc", ".file", "//")):
            continue
        out.append(line)
    body = "\n".join(out)
    return re.sub(r"\n\s*\.section\s+\.debug_\w+\s*\{.*?\n\s*\}", "", body, flags=re.DOTALL)


def add_debug(text: str, rng: random.Random) -> str:
    """Comments and white space in new places."""
    out = []
    for line in text.split("\n"):
        if rng.random() < 0.1 and line.startswith("\t") and ";" in line:
            out.append(f"// note {rng.randrange(1000)}")
        out.append(line.replace("\t", "    ") if rng.random() < 0.3 else line)
    return "\n".join(out)


def commute(text: str, rng: random.Random) -> str:
    """Operands of commutative operations exchanged."""
    out = []
    for line in text.split("\n"):
        hit = _PTX_COMMUTE.match(line)
        # `add.f32.f16 d, a, c` takes a half and a single: their places are not alike.
        mixed = re.search(r"wide\.s16|\.f32\.b?f16\b", line)
        if hit and rng.random() < 0.5 and not mixed:
            line = f"{hit.group(1)}{hit.group(3).strip()}, {hit.group(2).strip()}{hit.group(4)}"
        out.append(line)
    return "\n".join(out)


def reorder(text: str, rng: random.Random) -> str:
    """Adjacent independent pure instructions exchanged."""
    lines = text.split("\n")
    for at in range(len(lines) - 1):
        first, second = lines[at], lines[at + 1]
        if not (_PTX_PURE.match(first) and _PTX_PURE.match(second)) or rng.random() < 0.5:
            continue
        one, two = _named(first), _named(second)
        if one[0] not in two and two[0] not in one:
            lines[at], lines[at + 1] = second, first
    return "\n".join(lines)


def _named(line: str) -> list[str]:
    """Registers of a line, the written one first."""
    return re.findall(r"%[\w.]+", line.split("//")[0])


REWRITES: dict[str, dict[str, Callable[[str, random.Random], str]]] = {
    "ptx": {"rename-registers": rename_registers, "rename-kernel": rename_kernel,
            "strip-debug": strip_debug, "add-debug": add_debug, "commute": commute,
            "reorder": reorder},
    "gcn": gcn_rewrites.REWRITES,
}
