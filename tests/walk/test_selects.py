"""Choices of which one side is chosen again: one choice by both conditions, and nothing more."""

from __future__ import annotations

import itertools

import pytest

from tests.walk.kernels import equal, text

START = """
    mad.lo.s32 %r4, %r3, 64, %r2;
    mul.wide.u32 %rd4, %r4, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    setp.gt.f32 %p1, %f1, 0f3F800000;
    setp.lt.f32 %p2, %f2, 0f40000000;
"""
END = """
    st.global.f32 [%rd7], %f9;
"""

#: of x, y, z = %f1, %f2, 0 by conditions p, q = %p1, %p2; one group, one function
SAME = [
    [  # p and q ? x : y
        "selp.f32 %f8, %f1, %f2, %p2;\n    selp.f32 %f9, %f8, %f2, %p1;",
        "selp.f32 %f8, %f1, %f2, %p1;\n    selp.f32 %f9, %f8, %f2, %p2;",
        "and.pred %p3, %p1, %p2;\n    selp.f32 %f9, %f1, %f2, %p3;",
        "not.pred %p3, %p2;\n    selp.f32 %f8, %f2, %f1, %p3;\n    selp.f32 %f9, %f8, %f2, %p1;",
        "mov.f32 %f9, %f2;\n    @%p1 selp.f32 %f9, %f1, %f2, %p2;",
    ],
    [  # p or q ? x : y
        "selp.f32 %f8, %f1, %f2, %p2;\n    selp.f32 %f9, %f1, %f8, %p1;",
        "selp.f32 %f8, %f1, %f2, %p1;\n    selp.f32 %f9, %f1, %f8, %p2;",
        "or.pred %p3, %p1, %p2;\n    selp.f32 %f9, %f1, %f2, %p3;",
    ],
    [  # p and not q ? x : y
        "selp.f32 %f8, %f2, %f1, %p2;\n    selp.f32 %f9, %f8, %f2, %p1;",
        "not.pred %p4, %p2;\n    and.pred %p3, %p1, %p4;\n    selp.f32 %f9, %f1, %f2, %p3;",
    ],
    ["selp.f32 %f8, %f2, %f1, %p2;\n    selp.f32 %f9, %f1, %f8, %p1;"],  # p or not q ? x : y
    # p ? (q ? x : y) : 0 has three sides
    ["selp.f32 %f8, %f1, %f2, %p2;\n    selp.f32 %f9, %f8, 0f00000000, %p1;"],
    ["selp.f32 %f8, %f1, %f2, %p2;\n    selp.f32 %f9, 0f00000000, %f8, %p1;"],
    # 0 and -0 are two sides
    ["selp.f32 %f8, %f1, 0f80000000, %p2;\n    selp.f32 %f9, %f8, 0f00000000, %p1;"],
    ["selp.f32 %f8, %f1, 0f00000000, %p2;\n    selp.f32 %f9, %f8, 0f00000000, %p1;"],
]


def _kernel(body: str) -> str:
    return text(START + "    " + body + END)


@pytest.mark.parametrize("group", SAME[:3])
def test_one_choice_in_other_words(group: list[str]) -> None:
    for other in group[1:]:
        assert equal(_kernel(group[0]), _kernel(other))


def test_other_choices_stay_apart() -> None:
    for one, two in itertools.combinations(SAME, 2):
        assert not equal(_kernel(one[0]), _kernel(two[0]))
