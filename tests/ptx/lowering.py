"""Shared by the PTX tests: lower a few instructions and list the core operations.

A golden file holds blocks: an instruction on a line of its own, then its core operations,
indented. Temporaries are numbered by first appearance inside a block.
"""

from __future__ import annotations

import re
from pathlib import Path

from checker.core import Program
from checker.dump import format_op
from checker.lower import lower
from checker.parse import parse

GOLDEN = Path(__file__).parent / "golden"

HEADER = """.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dyn[];
.global .align 8 .b8 glob[16];
.visible .entry k(.param .u64 p0, .param .u32 p1)
.reqntid 128
{
.reg .pred %p<16>;
.reg .b8 %b<4>;
.reg .b16 %rs<16>;
.reg .b32 %r<300>;
.reg .f32 %f<300>;
.reg .b64 %rd<16>;
.reg .f64 %fd<20>;
.reg .b128 %rq<4>;
.shared .align 8 .b8 buf[64];
.local .align 8 .b8 depot[32];
"""


def program(body: str) -> Program:
    """Lower a kernel with this body."""
    return lower(parse(HEADER + body + "\n}\n", isa="ptx"))


def listing(body: str) -> list[str]:
    """Core operations of a body, one a line."""
    p = program(body)
    lines = [format_op(op, p) for op in p.ops]
    seen: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return seen.setdefault(match.group(0), f"t{len(seen)}")
    return [re.sub(r"\bt\d+\b", number, line) for line in lines]


def blocks(path: Path) -> list[tuple[str, list[str]]]:
    """Read a golden file: (instruction, expected operations)."""
    out: list[tuple[str, list[str]]] = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("    "):
            out[-1][1].append(line.strip())
        else:
            out.append((line, []))
    return out
