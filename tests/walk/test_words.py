"""Numbers of 64 bits that were computed in words of 32: products, sums, indices."""

from __future__ import annotations

import itertools

import pytest

from checker.tree.nodes import Forest
from checker.tree.poly import Poly, constant
from checker.tree.values import Values
from tests.walk.kernels import equal, text

#: out[i] = a[stride * i], stride a number of 64 bits, i = 64 * block + lane
START = """
    mad.lo.s32 %r4, %r3, 64, %r2;
    mov.b64 {%r5, %r6}, %rd2;
"""
END = """
    shl.b64 %rd10, %rd10, 2;
    add.s64 %rd10, %rd1, %rd10;
    ld.global.f32 %f1, [%rd10];
    mul.wide.u32 %rd11, %r4, 4;
    add.s64 %rd11, %rd3, %rd11;
    st.global.f32 [%rd11], %f1;
"""
WORDS = """
    mul.lo.u32 %r10, %r5, %r4;
    mul.hi.u32 %r11, %r5, %r4;
    mad.lo.u32 %r11, %r6, %r4, %r11;
    mov.b64 %rd10, {%r10, %r11};
"""
WHOLE = """
    cvt.u64.u32 %rd12, %r4;
    mul.lo.s64 %rd10, %rd2, %rd12;
"""
WIDE = """
    mul.wide.u32 %rd12, %r5, %r4;
    mul.lo.u32 %r12, %r6, %r4;
    mov.b64 {%r10, %r11}, %rd12;
    add.u32 %r11, %r11, %r12;
    mov.b64 %rd10, {%r10, %r11};
"""


def _kernel(product: str) -> str:
    return text(START + product + END).replace(
        ".param .u64 .ptr .global .align 16 k_param_1", ".param .u64 k_param_1")


def test_a_product_in_words_is_the_product() -> None:
    assert equal(_kernel(WORDS), _kernel(WIDE))
    assert equal(_kernel(WORDS), _kernel(WHOLE))


@pytest.mark.parametrize(("old", "new"), [
    ("mul.hi.u32 %r11, %r5, %r4", "mul.hi.u32 %r11, %r6, %r4"),  # high part of another factor
    ("mul.hi.u32 %r11, %r5, %r4", "mul.hi.u32 %r11, %r5, %r2"),
    ("mul.hi.u32 %r11, %r5, %r4", "mul.hi.s32 %r11, %r5, %r4"),  # another sign
    ("mad.lo.u32 %r11, %r6, %r4, %r11", "mad.lo.u32 %r11, %r6, %r2, %r11"),
    ("mad.lo.u32 %r11, %r6, %r4, %r11;", ""),  # the upper word of the stride is dropped
    ("mul.hi.u32 %r11, %r5, %r4", "mov.u32 %r11, 0"),  # what the lower words carry is
    ("mov.b64 %rd10, {%r10, %r11}", "mov.b64 %rd10, {%r11, %r10}"),
])
def test_words_of_something_else_stay_apart(old: str, new: str) -> None:
    assert old in WORDS
    assert not equal(_kernel(WORDS), _kernel(WORDS.replace(old, new)))


SUM = """
    mov.b64 {%r7, %r8}, %rd2;
    mul.wide.u32 %rd12, %r4, %r1;
    mov.b64 {%r10, %r11}, %rd12;
    add.cc.u32 %r12, %r7, %r10;
    addc.u32 %r13, %r8, %r11;
    mov.b64 %rd10, {%r12, %r13};
"""


def test_a_carry_that_is_dropped_shows() -> None:
    whole = "mul.wide.u32 %rd12, %r4, %r1;\n add.s64 %rd10, %rd12, %rd2;"
    dropped = _kernel(SUM.replace("addc", "add").replace(".cc", ""))
    assert not equal(dropped, _kernel(whole))
    assert not equal(dropped, _kernel(SUM))


def test_upper_parts_in_their_place_hold_for_every_number() -> None:
    """2**k (q >> k) = q - q mod 2**k, on all numbers of 6 bits and sums of two of them."""
    for (x, y), k, c in itertools.product(
            itertools.product(range(0, 64, 7), range(64)), (2, 3), (1, 3, -1)):
        forest = Forest(1)
        values = Values(forest)
        atoms = [forest.make("arg", str(i), width=6, low=0, high=63) for i in (1, 2)]
        number = Poly(6, {(atoms[0],): 1, (atoms[1],): 3})
        upper = forest.make("extract", str(k), width=6 - k, args=(forest.number(number),), low=0,
                            high=(1 << 6 - k) - 1)
        said = Poly(6, {(upper,): c << k, (atoms[0],): 1}).add(constant(6, 5))
        made = values.whole(said)
        assert all(upper not in mono for mono in made.terms)
        given = {atoms[0]: x, atoms[1]: y}
        expected = (c << k) * (((x + 3 * y) & 63) >> k) + x + 5
        assert (_at(made, given) - expected) % 64 == 0


def _at(poly: Poly, given: dict[object, int]) -> int:
    total = 0
    for mono, c in poly.terms.items():
        for atom in mono:
            c *= given[atom] if atom in given else _at(atom.poly, given) % (1 << atom.width)
        total += c
    return total


def test_an_upper_part_out_of_its_place_stays() -> None:
    forest = Forest(1)
    values = Values(forest)
    number = forest.make("arg", "1", width=64, low=0, high=(1 << 64) - 1)
    upper = forest.make("extract", "32", width=32, args=(number,), low=0, high=(1 << 32) - 1)
    middle = forest.make("extract", "16", width=16, args=(number,), low=0, high=(1 << 16) - 1)
    for atom, factor in ((upper, 1 << 31), (upper, 3 << 30), (middle, 1 << 16)):
        said = Poly(64, {(atom,): factor})
        assert values.whole(said) is said
