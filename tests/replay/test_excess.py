"""Excess: a class of bytes is taken apart by inputs that the truth's draws did not have."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import pytest

from checker.launch import Launch
from checker.lower import lower
from checker.parse import parse
from checker.replay import replay
from checker.replay.suppose import SUPPOSITIONS
from checker.witness import find_witness
from corpus.campaigns.excess import classes_of, separate, tabulate, with_parts
from corpus.campaigns.truth import Found, Job
from tests.replay.listing import facts, text

LOAD = "".join(f"ld.global.f32 %f{i}, [%rd4+{256 * i}];\n" for i in range(1, 4))
STORE = "st.global.f32 [%rd5], %f9;\n"
LEFT = LOAD + "add.rn.f32 %f4, %f1, %f2;\nadd.rn.f32 %f9, %f4, %f3;\n" + STORE
RIGHT = LOAD + "add.rn.f32 %f4, %f2, %f3;\nadd.rn.f32 %f9, %f1, %f4;\n" + STORE
#: x * div(1, y) and div(x, y), for y a power of two: equal, and no identity says so
TWICE = LOAD + "and.b32 %r9, %r1, 3;\ncvt.rn.f32.u32 %f4, %r9;\nex2.approx.f32 %f5, %f4;\n"
ONE = TWICE + "div.full.f32 %f6, 0f3F800000, %f5;\nmul.rn.f32 %f9, %f1, %f6;\n" + STORE
TWO = TWICE + "div.full.f32 %f9, %f1, %f5;\n" + STORE


def _job(name: str, body: str) -> Job:
    launch: dict[str, Any] = facts(elements=512)
    return Job(name, "sums", "g", "p", text(body), "ptx", (launch,), (("same",),), (), True, 0)


def _found(job: Job, digest: str) -> Found:
    return Found(job.name, "p", job.family, job.group, "", False, (digest,))


def test_a_witness_takes_a_class_of_bytes_apart() -> None:
    jobs = [_job("left", LEFT), _job("right", RIGHT), _job("again", LEFT), _job("no map", LEFT)]
    found = [_found(j, m) for j, m in zip(jobs, ("a", "b", "a", ""), strict=True)]
    (cls,) = classes_of(jobs, found, 8)
    assert (cls.counts, cls.refused) == ((2, 1), 1)
    answer = separate(cls)
    assert answer.parts == ((0,), (1,))
    assert answer.notes[0].startswith("witness")
    (row,) = tabulate([cls], [answer])
    assert (row.bytes_classes, row.refined, row.launch_classes) == (1, 2, 3)
    assert (row.equal_pairs, row.proved) == (3, 1)  # the refused one counts with the larger part


def test_a_class_whose_time_is_up_stays_whole_and_says_so() -> None:
    jobs = [_job("left", LEFT), _job("right", RIGHT)]
    (cls,) = classes_of(jobs, [_found(jobs[0], "a"), _found(jobs[1], "b")], 8, seconds=-1.0)
    answer = separate(cls)
    assert answer.parts == ((0, 1),)
    assert answer.notes[0].startswith("out of time")


def test_what_nothing_separates_is_left_with_its_place_and_what_is_missing() -> None:
    jobs = [_job("one", ONE), _job("two", TWO)]
    (cls,) = classes_of(jobs, [_found(jobs[0], "a"), _found(jobs[1], "b")], 4)
    answer = separate(cls)
    assert answer.parts == ((0, 1),)
    assert answer.left == ((0, 1, "reciprocal"),)
    assert answer.notes[0].startswith("reciprocal")
    (row,) = tabulate([cls], [answer])
    assert (row.refined, row.equal_pairs, row.proved) == (1, 1, 0)
    assert dict(row.left) == {"reciprocal": 1}


NULL = LOAD + "mul.rn.f32 %f4, %f2, 0f00000000;\nadd.rn.f32 %f9, %f1, %f4;\n" + STORE
PLUS = LOAD + "add.rn.f32 %f9, %f1, 0f00000000;\n" + STORE
PLAIN = LOAD + "mov.f32 %f9, %f1;\n" + STORE
OTHER = LOAD + "mov.f32 %f9, %f2;\n" + STORE


@pytest.mark.parametrize(("one", "two", "under"), [
    (NULL, PLAIN, {"finite"}), (PLUS, PLAIN, {"unsigned-zero"}),
    (NULL, PLUS, {"finite", "unsigned-zero"}), (ONE, TWO, {"reciprocal"}),
    (PLAIN, OTHER, None), (LEFT, RIGHT, None)])
def test_maps_agree_under_what_is_supposed_and_only_then(one: str, two: str, under: Any) -> None:
    programs, launch = [lower(parse(text(b))) for b in (one, two)], facts(elements=512)
    for count in range(len(SUPPOSITIONS) + 1):
        for names in combinations(SUPPOSITIONS, count):
            maps = [replay(p, launch, suppose=names) for p in programs]
            assert all(m.usable is not bool(names) for m in maps)  # it explains, no more
            assert (maps[0].digest == maps[1].digest) is (under is not None and under <= {*names})
    with pytest.raises(KeyError):
        replay(programs[0], launch, suppose=("anything",))
    assert replay(programs[0], launch).usable


def test_signs_of_zeros_and_lone_infinities_are_among_the_inputs() -> None:
    plain = LOAD + "mov.f32 %f9, %f1;\n" + STORE
    seeded = LOAD + "add.rn.f32 %f9, %f1, 0f00000000;\n" + STORE
    null = LOAD + "mul.rn.f32 %f4, %f2, 0f00000000;\nsub.rn.f32 %f9, %f1, %f4;\n" + STORE
    programs = [lower(parse(text(body))) for body in (plain, seeded, null)]
    launch = Launch.from_json(facts(elements=512))
    for other, kind in ((1, "zeros"), (2, "planted")):
        draws = tuple((kind, seed) for seed in range(1, 13))
        found = find_witness(programs[0], programs[other], launch, launch, draws=draws)
        assert found is not None
        assert found.kind == kind


def test_parts_go_back_into_what_was_found() -> None:
    jobs = [_job("left", LEFT), _job("right", RIGHT), _job("again", LEFT), _job("no map", LEFT),
            _job("racy", LEFT)]
    found = [_found(j, m) for j, m in zip(jobs, ("a", "b", "a", "", ""), strict=True)]
    found[-1] = dataclasses.replace(found[-1], defect=True)
    classes = classes_of(jobs, found, 8)
    parts = with_parts(jobs, found, classes, [separate(c) for c in classes])
    assert [f.part for f in parts] == [0, 1, 0, 0, 0]
