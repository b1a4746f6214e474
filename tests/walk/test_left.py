"""What registers hold behind a loop: what its last iteration left, not what they held before it."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import text, walked


def _kernel(body: str, result: str = "%f2") -> str:
    """out[t] = the result of a body on x = a[t] (%f0) and y = b[t] (%f1)."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd2, %rd10;
    add.s64 %rd13, %rd3, %rd10;
    ld.global.f32 %f0, [%rd11];
    ld.global.f32 %f1, [%rd12];
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f1;
    mov.u32 %r10, 0;
{body}
    st.global.b32 [%rd13], {result};""")


def _loop(steps: str, result: str = "%f2") -> str:
    return _kernel(f"""
$loop:
    setp.ge.s32 %p1, %r10, %r1;
    @%p1 bra $done;
{steps}
    add.s32 %r10, %r10, 1;
    bra $loop;
$done:""", result)


X = _kernel("")
TAKEN = _loop("    mov.f32 %f2, %f1;")
SWAPPED = _loop("    mov.f32 %f4, %f2;\n    mov.f32 %f2, %f3;\n    mov.f32 %f3, %f4;")


@pytest.mark.parametrize(("one", "other"), [(X, TAKEN), (X, SWAPPED), (TAKEN, SWAPPED)])
def test_a_value_that_a_loop_moves(one: str, other: str) -> None:
    """x for n < 1, else y; x or y by turns: before the first iteration each of them is x."""
    assert not same(walked(one), walked(other))[0]
