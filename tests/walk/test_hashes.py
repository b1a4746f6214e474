"""Products that wrap, of an index and a large literal: hashes, as random numbers are made of."""

from __future__ import annotations

import pytest

from tests.walk.kernels import equal, text, walked

FACTOR = 0xD2511F53  # Philox
WORD = 1 << 32


def _hashes(second: str, factor: int = FACTOR) -> str:
    """out[i] = mul.hi(i * factor, seed), two elements a thread; second: the product of the odd one.

    i in %r10, i + 1 in %r11, i * factor in %r12.
    """
    return text(f"""
    mad.lo.s32 %r10, %r3, 64, %r2;
    shl.b32 %r10, %r10, 1;
    add.s32 %r11, %r10, 1;
    mul.lo.s32 %r12, %r10, {factor};
    {second}
    mul.hi.u32 %r14, %r12, %r1;
    mul.hi.u32 %r15, %r13, %r1;
    mul.wide.s32 %rd10, %r10, 4;
    add.s64 %rd11, %rd3, %rd10;
    st.global.b32 [%rd11], %r14;
    st.global.b32 [%rd11+4], %r15;""")


PLAIN = f"mul.lo.s32 %r13, %r11, {FACTOR};"


@pytest.mark.parametrize("second", [
    f"add.s32 %r13, %r12, {FACTOR};",
    f"sub.s32 %r13, %r12, {WORD - FACTOR};",
    f"add.s32 %r11, %r10, 3; mul.lo.s32 %r13, %r11, {FACTOR}; "
    f"sub.s32 %r13, %r13, {2 * FACTOR % WORD};",
])
def test_a_step_from_one_product_to_the_next(second: str) -> None:
    assert equal(_hashes(PLAIN), _hashes(second))


@pytest.mark.parametrize("second", [
    f"add.s32 %r13, %r12, {FACTOR + 2};",
    f"add.s32 %r13, %r12, {2 * FACTOR % WORD};",
    f"sub.s32 %r13, %r12, {FACTOR};",
    "add.s32 %r13, %r12, 1;",  # some multiple of the factor, far outside of the tile
    f"xor.b32 %r13, %r12, {FACTOR};",
    f"add.s32 %r13, %r11, {FACTOR};",
])
def test_another_step(second: str) -> None:
    assert walked(_hashes(second)).modelled
    assert not equal(_hashes(PLAIN), _hashes(second))


def test_a_step_of_another_product() -> None:
    other = 0xCD9E8D57
    assert not equal(_hashes(PLAIN), _hashes(f"add.s32 %r13, %r12, {FACTOR};", other))
    assert not equal(_hashes(f"mul.lo.s32 %r13, %r11, {other};", other),
                     _hashes(f"add.s32 %r13, %r12, {FACTOR};", other))


def test_an_even_factor_may_keep_its_steps() -> None:
    """2**31 * m is no literal of one m alone; what is written is what is signed."""
    even = FACTOR - 1
    stepped = _hashes(f"add.s32 %r13, %r12, {even};", even)
    assert walked(stepped).modelled
    assert not equal(stepped, _hashes(f"add.s32 %r13, %r12, {2 * even % WORD};", even))
