"""Small PTX kernels for the replay: a body inside a fixed frame, and its launch facts."""

from __future__ import annotations

from typing import Any

from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, replay

FRAME = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2)
.reqntid {threads}
{{
    .reg .pred %p<20>;
    .reg .b16 %h<40>;
    .reg .b32 %r<80>;
    .reg .f32 %f<80>;
    .reg .b64 %rd<40>;
    .reg .f64 %fd<20>;
    .shared .align 128 .b8 sm[8192];
    ld.param.u64 %rd1, [k_param_0];
    ld.param.u64 %rd2, [k_param_1];
    ld.param.u32 %r2, [k_param_2];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    shl.b32 %r3, %r1, 2;
    mov.u32 %r4, sm;
    add.s32 %r5, %r4, %r3;
{body}
    ret;
}}
"""


def text(body: str, threads: int = 64) -> str:
    """The whole listing: %rd4 = &x[tid], %rd5 = &y[tid], %r5 = &sm[4 tid], %r2 = n."""
    return FRAME.format(threads=threads, body=body)


def facts(elements: int = 256, dtype: str = "f32", grid: int = 1, n: int = 5,
          out: str = "f32", **more: Any) -> dict[str, Any]:
    """Launch facts for the frame: x in, y out, n."""
    return {"grid": [grid, 1, 1],
            "args": [{"buffer": "x", "dtype": dtype, "elements": elements, "role": "in", **more},
                     {"buffer": "y", "dtype": out, "elements": elements, "role": "out"},
                     {"i32": n}]}


def run(body: str, threads: int = 64, domain: str = "trees", inputs: Any = None,
        **launch: Any) -> ReplayResult:
    """Parse, lower and replay a body."""
    program = lower(parse(text(body, threads)))
    return replay(program, facts(**launch), domain=domain, inputs=inputs)


def codes(result: ReplayResult) -> set[str]:
    """The findings' codes."""
    return {f.code for f in result.findings}
