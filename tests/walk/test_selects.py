"""Choices of which one side is chosen again: one choice by both conditions, and nothing more."""

from __future__ import annotations

import itertools

import pytest

from tests.walk.kernels import elementwise, equal

CONDITIONS = "setp.gt.f32 %p5, %f1, 0f3F800000;\n    setp.lt.f32 %p6, %f2, 0f40000000;"

#: of x, y, z = %f1, %f2, 0 by conditions p, q = %p5, %p6; one group, one function
SAME = [
    [  # p and q ? x : y
        "selp.f32 %f8, %f1, %f2, %p6;\n    selp.f32 %f3, %f8, %f2, %p5;",
        "selp.f32 %f8, %f1, %f2, %p5;\n    selp.f32 %f3, %f8, %f2, %p6;",
        "and.pred %p3, %p5, %p6;\n    selp.f32 %f3, %f1, %f2, %p3;",
        "not.pred %p3, %p6;\n    selp.f32 %f8, %f2, %f1, %p3;\n    selp.f32 %f3, %f8, %f2, %p5;",
        "mov.f32 %f3, %f2;\n    @%p5 selp.f32 %f3, %f1, %f2, %p6;",
    ],
    [  # p or q ? x : y
        "selp.f32 %f8, %f1, %f2, %p6;\n    selp.f32 %f3, %f1, %f8, %p5;",
        "selp.f32 %f8, %f1, %f2, %p5;\n    selp.f32 %f3, %f1, %f8, %p6;",
        "or.pred %p3, %p5, %p6;\n    selp.f32 %f3, %f1, %f2, %p3;",
    ],
    [  # p and not q ? x : y
        "selp.f32 %f8, %f2, %f1, %p6;\n    selp.f32 %f3, %f8, %f2, %p5;",
        "not.pred %p4, %p6;\n    and.pred %p3, %p5, %p4;\n    selp.f32 %f3, %f1, %f2, %p3;",
    ],
    ["selp.f32 %f8, %f2, %f1, %p6;\n    selp.f32 %f3, %f1, %f8, %p5;"],  # p or not q ? x : y
    # p ? (q ? x : y) : 0 has three sides
    ["selp.f32 %f8, %f1, %f2, %p6;\n    selp.f32 %f3, %f8, 0f00000000, %p5;"],
    ["selp.f32 %f8, %f1, %f2, %p6;\n    selp.f32 %f3, 0f00000000, %f8, %p5;"],
    # 0 and -0 are two sides
    ["selp.f32 %f8, %f1, 0f80000000, %p6;\n    selp.f32 %f3, %f8, 0f00000000, %p5;"],
    ["selp.f32 %f8, %f1, 0f00000000, %p6;\n    selp.f32 %f3, %f8, 0f00000000, %p5;"],
]


def _kernel(body: str) -> str:
    return elementwise(f"{CONDITIONS}\n    {body}")


@pytest.mark.parametrize("group", SAME[:3])
def test_one_choice_in_other_words(group: list[str]) -> None:
    for other in group[1:]:
        assert equal(_kernel(group[0]), _kernel(other))


def test_other_choices_stay_apart() -> None:
    for one, two in itertools.combinations(SAME, 2):
        assert not equal(_kernel(one[0]), _kernel(two[0]))
