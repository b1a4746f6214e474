"""Every opcode spelling seen in the field is modelled (counts: project notes on field assembly)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.ptx.lowering import program

LINES = [line for line in (Path(__file__).parent / "field.txt").read_text().splitlines()
         if line and not line.startswith("#")]


def opcode(line: str) -> str:
    """The opcode of a line of field.txt (behind a label or a declaration)."""
    return line.split("; ")[-1].removeprefix("LL: ").split()[0].rstrip(";")


@pytest.mark.parametrize("line", LINES, ids=opcode)
def test_field_opcode_is_modelled(line: str) -> None:
    assert not [op.attr for op in program(line).ops if op.name == "opaque"]


def test_the_most_used_bases_are_all_here() -> None:
    used = Counter(opcode(line).split(".")[0] for line in LINES)
    bases = ("add mov mul cvt ld fma setp selp st shl and or bra shfl sub ex2 shr mad bar div max"
             " xor cvta neg min abs ret bfe elect not atom rcp prmt vote griddepcontrol redux rem"
             " fence dp4a sqrt rsqrt lg2 tanh copysign clz popc bfi barrier membar trap bmsk sin"
             " nanosleep cos madc brev addc shf subc match createpolicy red prefetch setmaxnreg"
             " exit activemask")
    assert len(bases.split()) > 60
    assert not [base for base in bases.split() if base not in used]
