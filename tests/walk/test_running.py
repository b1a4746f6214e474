"""Values that a loop stores while they run: prefix sums and recurrences."""

from __future__ import annotations

import pytest

from checker.tree import same
from tests.walk.kernels import equal, text, walked

_ADD = "add.rn.f32 %f2, %f2, %f1;"


def _prefix(body: str, init: str = "0f00000000", out: int = 0, threads: int = 32) -> str:
    """out[k * threads + tid + out] = the running value after row k of a."""
    return text(f"""
    mul.wide.u32 %rd10, %r2, 4;
    add.s64 %rd11, %rd1, %rd10;
    add.s64 %rd12, %rd3, %rd10;
    mov.f32 %f2, {init};
    mov.u32 %r11, 0;
    setp.lt.s32 %p2, %r1, 1;
    @%p2 bra $done;
$loop:
    ld.global.f32 %f1, [%rd11];
{body}
    add.s64 %rd11, %rd11, {4 * threads};
    add.s64 %rd12, %rd12, {4 * threads};
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p3, %r11, %r1;
    @%p3 bra $loop;
$done:""".replace("STORE", f"st.global.f32 [%rd12+{4 * out}], %f2;"), threads)


SUM = _prefix(f"    {_ADD}\n    STORE")


def test_running_sums_commute() -> None:
    assert equal(SUM, _prefix("    add.rn.f32 %f2, %f1, %f2;\n    STORE"))
    assert equal(SUM, _prefix("    mov.f32 %f3, %f1;\n    add.rn.f32 %f2, %f3, %f2;\n    STORE"))


@pytest.mark.parametrize("twin", [
    _prefix(f"    STORE\n    {_ADD}"),  # before the step: the exclusive sum
    _prefix(f"    {_ADD}\n    STORE", out=32),  # one row on
    _prefix(f"    {_ADD}\n    STORE", out=1),
    _prefix(f"    {_ADD}\n    STORE", init="0f80000000"),
    _prefix("    sub.rn.f32 %f2, %f2, %f1;\n    STORE"),
    _prefix(f"    {_ADD}\n    mul.rn.f32 %f2, %f2, %f1;\n    STORE"),
    _prefix(f"    {_ADD}\n    STORE\n    {_ADD}"),
])
def test_other_running_values_differ(twin: str) -> None:
    assert walked(SUM).modelled
    assert walked(twin).modelled
    assert not same(walked(SUM), walked(twin))[0]


def test_a_running_value_that_decides_the_store_is_refused() -> None:
    guarded = SUM.replace("    st.global", "    setp.gt.f32 %p6, %f2, 0f00000000;\n"
                          "    @%p6 st.global")
    assert not walked(guarded).modelled
