"""CC.CF is the machine's carry: what an addition finds after a subtraction is no borrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checker import api
from checker.launch import Launch
from checker.replay import replay

KERNEL = """.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 out)
.reqntid 32, 1, 1
{
    .reg .b32 %r<9>;
    .reg .b64 %l<6>;
    .reg .pred %p<2>;
    ld.param.u64 %l1, [a];
    ld.param.u64 %l2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %l3, %r1, 4;
    add.s64 %l4, %l1, %l3;
    add.s64 %l5, %l2, %l3;
    ld.global.u32 %r2, [%l4];
    ld.global.u32 %r3, [%l4+128];
    BODY
    st.global.u32 [%l5], %r4;
    ret;
}
"""
LAUNCH = {"grid": [1, 1, 1], "block": [32, 1, 1], "args": [
    {"buffer": "a", "dtype": "u32", "elements": 64, "role": "in"},
    {"buffer": "out", "dtype": "u32", "elements": 32, "role": "out"}]}
SUB, ADD = "sub.cc.u32 %r5, %r2, %r3;", "add.cc.u32 %r5, %r2, %r3;"
LESS = SUB + "setp.lt.u32 %p1, %r2, %r3; selp.b32 %r4, 1, 0, %p1;"
EDGES = np.array([0, 1, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], dtype=np.uint32)


def _written(body: str) -> list[int]:
    """Return what a body makes of all pairs of edge values, as signed words."""
    a, b = (m.ravel()[:32] for m in np.meshgrid(EDGES, EDGES))
    run = replay(api.program_of(KERNEL.replace("BODY", body)), Launch.from_json(LAUNCH),
                 domain="bytes", inputs={"a": np.concatenate((a, b))})
    return [int(w) for w in run.outputs["out"].words[1].astype(np.uint32).view(np.int32)]


@pytest.mark.parametrize(("chain", "carried", "value"), [
    (SUB + "subc.u32 %r4, 0, 0;", lambda a, b: a >= b, lambda c: c - 1),
    (SUB + "addc.u32 %r4, 0, 0;", lambda a, b: a >= b, lambda c: c),
    (ADD + "subc.u32 %r4, 0, 0;", lambda a, b: a + b >= 1 << 32, lambda c: c - 1),
    (ADD + "addc.u32 %r4, 0, 0;", lambda a, b: a + b >= 1 << 32, lambda c: c),
])
def test_a_carry_is_no_borrow(chain: str, carried: Any, value: Any) -> None:
    """Read off the machine code: SEL and IMAD.X take the carry of IADD3 as it is."""
    pairs = [(int(a), int(b)) for b in EDGES for a in EDGES][:32]
    assert _written(chain) == [value(int(carried(a, b))) for a, b in pairs]


def test_a_carry_after_a_subtraction_is_not_whether_it_borrows() -> None:
    chain, less = (KERNEL.replace("BODY", b) for b in (SUB + "addc.u32 %r4, 0, 0;", LESS))
    assert not api.compare(chain, less, launch_a=LAUNCH).equal
    assert api.compare(chain, less.replace("setp.lt", "setp.ge"), launch_a=LAUNCH).equal
