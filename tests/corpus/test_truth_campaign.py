"""The instrument itself: a planted false merge, a wrong byte and an over-split must be counted."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from checker import Launch, api
from checker.api import program_of
from checker.replay import replay
from checker.results import KernelInput
from corpus.campaigns.tally import tally, total
from corpus.campaigns.truth import (
    Found,
    Job,
    Judged,
    _worst_first,
    by_one_basis,
    jobs_of,
    judge,
    recall,
    spread,
    static_classes,
)
from corpus.load import load_truth
from corpus.pack import write_lines
from corpus.status import bars, page, scatter
from tests.test_second_look import SCALAR, VECTOR


def job(name: str, *digests: tuple[str, ...], deterministic: bool = True) -> Job:
    return Job(name, "f", "f/1", "p 1", "", "ptx", ({"args": []},) * len(digests), digests, (),
               deterministic, 0)


def found(name: str, signature: str, *maps: str) -> Found:
    return Found(name, "p 1", "f", "f/1", signature, bool(signature), maps)


def test_exact_partition_has_no_finding() -> None:
    jobs = [job("a", ("1", "2")), job("b", ("1", "2")), job("c", ("1", "3"))]
    results = [found("a", "s", "m"), found("b", "s", "m"), found("c", "t", "n")]
    (row,) = tally(jobs, results)
    assert (row.bytes_classes, row.static_classes, row.launch_classes) == (2, 2, 2)
    assert (row.equal_pairs, row.static_proved, row.launch_proved) == (1, 1, 1)
    assert (row.false_static, row.false_launch, row.findings) == (0, 0, [])


def test_a_false_merge_is_counted_by_basis() -> None:
    jobs = [job("a", ("1",)), job("b", ("2",)), job("c", ("2",))]
    (row,) = tally(jobs, [found("a", "s", "m"), found("b", "s", "n"), found("c", "s", "n")])
    assert (row.false_static, row.false_launch) == (2, 0)
    (row,) = tally(jobs, [found("a", "", "m"), found("b", "", "m"), found("c", "", "m")])
    assert (row.false_static, row.false_launch) == (0, 2)
    assert any("false merge" in f for f in row.findings)


def test_one_launch_apart_is_no_false_merge_of_the_other() -> None:
    jobs = [job("a", ("1",), ("1",)), job("b", ("1",), ("2",))]
    (row,) = tally(jobs, [found("a", "", "m", "n"), found("b", "", "m", "o")])
    assert (row.false_launch, row.launch_classes) == (0, 2)


def test_an_over_split_lowers_the_share_and_a_launch_map_heals_it() -> None:
    jobs = [job("a", ("1",)), job("b", ("1",)), job("c", ("1",))]
    (row,) = tally(jobs, [found("a", "s", "m"), found("b", "t", "m"), found("c", "t", "")])
    assert (row.static_classes, row.launch_classes) == (2, 1)
    assert (row.equal_pairs, row.static_proved, row.launch_proved) == (3, 1, 3)


def test_what_was_refused_merges_with_nothing() -> None:
    jobs = [job("a", ("1",)), job("b", ("1",))]
    (row,) = tally(jobs, [found("a", "", ""), found("b", "", "")])
    assert (row.static_classes, row.launch_classes, row.launch_proved) == (2, 2, 0)


def test_an_answer_for_a_kernel_without_fixed_bits_is_a_finding() -> None:
    loose = job("a", ("1",), deterministic=False)
    (row,) = tally([loose], [found("a", "s", "m")])
    assert any("nondeterministic" in f for f in row.findings)
    (row,) = tally([loose], [found("a", "", "")])
    assert row.findings == []


def test_an_exception_of_ours_is_a_finding_and_no_reason_among_others() -> None:
    limits = ("opaque: a", "opaque: b", "opaque: c", "opaque: d", "fuel: e")
    (row,) = tally([job("a", ("1",))], [replace(found("a", "", "m"), reasons=limits)])
    assert row.findings == []
    ours = _worst_first([*limits, "internal: the walk failed: ValueError: x"])
    (row,) = tally([job("a", ("1",))], [replace(found("a", "", "m"), reasons=ours)])
    assert row.findings == ["defect in samebits: a: internal: the walk failed: ValueError: x"]


def test_bytes_that_move_below_the_text_need_the_premise() -> None:
    moved = replace(found("a", "s", "m"), moved_below=("ptxas -O0",))
    (row,) = tally([job("a", ("1",))], [moved])
    assert len(row.findings) == 1
    for premise in ("contraction", "contraction:measured"):
        (row,) = tally([job("a", ("1",))], [replace(moved, premises=(premise,))])
        assert row.findings == []
    (row,) = tally([job("a", ("1",))], [replace(moved, premises=("no-alias",))])
    assert len(row.findings) == 1


def test_a_real_record_is_judged_and_its_bytes_reproduced(tmp_path: Path) -> None:
    jobs = spread(jobs_of(load_truth("splitk_reduce"), 3), 2)
    results = [judge(j).found for j in jobs]
    assert all(r.bytes_right == 3 and not r.bytes_wrong for r in results)
    wrong = replace(jobs[0], digests=tuple(("0" * 16,) * 20 for _ in jobs[0].digests))
    assert len(judge(wrong).found.bytes_wrong) == 3
    write_lines(tmp_path / "found.jsonl.xz", [asdict(r) for r in results], 1)
    again, same = recall(tmp_path / "found.jsonl.xz")
    assert same == results
    assert [j.name for j in again] == [j.name for j in jobs]
    rows = tally(again, same)
    text = page(rows, same)
    assert "splitk_reduce" in text
    assert total(rows).configs == 2
    assert bars(rows).startswith("<svg")
    assert scatter(same).count("<circle") == 4


def test_a_pair_that_a_witness_tells_apart_is_no_equal_pair() -> None:
    jobs = [job(n, ("1",)) for n in "abc"]
    results = [found("a", "s", "m"), found("b", "t", "n"), replace(found("c", "u", "o"), part=1)]
    (row,) = tally(jobs, results)
    assert (row.bytes_classes, row.refined, row.equal_pairs, row.told_apart) == (1, 2, 1, 2)
    merged = [results[0], results[1], replace(found("c", "s", "m"), part=1)]
    (row,) = tally(jobs, merged)
    assert row.false_static == 1  # a witness speaks against a signature as the bytes do


def test_a_kernel_with_a_defect_is_in_no_class_but_may_be_merged_wrongly() -> None:
    jobs = [job("a", ("1",)), job("b", ("1",)), job("racy", ("1",)), job("other", ("2",))]
    racy = replace(found("racy", "s", ""), defect=True)
    results = [found("a", "s", "m"), found("b", "s", "m"), racy, found("other", "s", "")]
    (row,) = tally(jobs, results)
    assert (row.bytes_classes, row.equal_pairs, row.launch_proved) == (2, 1, 1)
    assert (row.defective, row.defect_pairs) == (1, 2)
    assert row.false_static == 3


def test_static_classes_are_those_of_a_partition_without_launches() -> None:
    """A second look joins; a signature alone would keep apart, and so does another group."""
    jobs = [replace(job(name, ("1",)), text=text, launches=(), group=group)
            for name, text, group in (("a", VECTOR, "f/1"), ("b", SCALAR, "f/1"),
                                      ("c", SCALAR, "f/2"))]
    judged = []
    for one in jobs:
        examined = api.examine(KernelInput(one.name, one.text), static=True)
        judged.append(Judged(found(one.name, examined.signature.text, "m"), examined))
    results = static_classes(jobs, judged, 1)
    assert results[0].signature != results[1].signature == results[2].signature
    assert results[0].static_class == results[1].static_class != results[2].static_class
    (row,) = tally(jobs[:2], results[:2])
    assert (row.static_classes, row.static_proved) == (1, 1)
    (row,) = tally([jobs[0], replace(jobs[1], digests=(("2",),))], results[:2])
    assert row.false_static == 1


def test_integers_of_the_draws_are_the_launch_facts_of_what_depends_on_data() -> None:
    jobs = [replace(j, static=False) for j in jobs_of(load_truth("histogram"), 0)
            if not replay(program_of(j.text), Launch.from_json(j.launches[1])).usable][:2]
    assert len({j.text for j in jobs}) == 2
    results = [judge(replace(j, launches=j.launches[1:2], digests=j.digests[1:2])).found
               for j in jobs]
    assert results[0].maps[0]
    assert results[0].maps == results[1].maps


def test_a_map_without_values_is_compared_by_values_where_another_kernel_needs_them() -> None:
    jobs = [replace(j, static=False, launches=j.launches[1:2],
                    digests=tuple(d[:1] for d in j.digests[1:2]))
            for j in jobs_of(load_truth("histogram"), 0)]
    usable = [replay(program_of(j.text), Launch.from_json(j.launches[0])).usable for j in jobs]
    chosen = [jobs[usable.index(True)], jobs[usable.index(False)]]
    votes, atomics = judged = [judge(j) for j in chosen]
    assert (votes.found.by_values, atomics.found.by_values) == (False, True)
    assert votes.found.maps != atomics.found.maps
    again = by_one_basis(chosen, judged, 1)
    assert again[0].found.by_values
    assert again[0].found.maps == again[1].found.maps == atomics.found.maps
    assert by_one_basis(chosen[:1], judged[:1], 1) == judged[:1]


def test_the_page_is_the_same_whatever_order_workers_end_in() -> None:
    jobs = [job(name, ("1",)) for name in "abcdef"]
    said = ["opaque: @%p2 bra $L;  (no period)", "race: two",
            "opaque: @%p7 bra $L;  (no period)", "fuel: 1", "race: two", "opaque: call.uni f;"]
    results = [replace(found(j.name, "", "m"), reasons=(why,))
               for j, why in zip(jobs, said, strict=True)]
    pages = {page(tally(jobs, list(order)), list(order)) for order in (results, results[::-1])}
    text, = pages
    assert "| opaque: bra (no period) | 2 | 1 | a |" in text  # whichever its guard is
    assert text.index("opaque: bra (") < text.index("race: two") < text.index("fuel: N")
