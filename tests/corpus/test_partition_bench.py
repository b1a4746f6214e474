"""The partition bench: what it counts, what it must not hide, and that it goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.api import Examined
from checker.results import Signature
from corpus.bench import partition
from corpus.bench.classes import (
    build,
    digest_of,
    pack,
    read_parts,
    replayed,
    tasks_of,
    write_lines,
)
from corpus.bench.confirm import Seen, look, tally
from corpus.bench.partition import Job, Key, Signed, cells, figures, measure, second_looks, show
from corpus.bench.rows import ROWS, order, rows_of
from corpus.load import load_set

ROW = next(r for r in ROWS if r.family == "softmax")


def line(name: str, text: str, *classes: str, **more: Any) -> dict[str, Any]:
    """One configuration as a build stores it."""
    made = {"target": "sm_90", "row": "softmax", "name": name, "group": "softmax/1", "text": text,
            "grid": [[4, 1, 1]], "block": [128, 1, 1], "producer": "triton 3.6.0"}
    return made | ({"classes": list(classes)} if classes else {}) | more


def examined(text: str, modelled: bool = True, premises: tuple[str, ...] = (),
             shows: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the checker says of a kernel with this signature, as JSON."""
    signature = Signature(text, "k", "ptx", "sm_90", modelled, premises=premises)
    return Examined("", signature, ((8, True),), program=f"program of {text}",
                    premises=premises, shows=shows).to_json()


def signed(**keys: str) -> dict[Key, Signed]:
    """Modelled signatures by text."""
    return {("sm_90", text, ()): Signed(examined(key), 5.0) for text, key in keys.items()}


def test_classes_and_pairs_are_counted() -> None:
    lines = [line("a", "t1", "x", "y"), line("b", "t2", "x", "y"), line("c", "t3", "x", "y"),
             line("d", "t3", "x", "y"), line("e", "t4", "x", "z")]
    found = figures(ROW, "sm_90", lines, signed(t1="s", t2="s", t3="r", t4="q"))
    assert (found.configurations, found.texts) == (5, 4)
    assert (found.exist, found.static) == (2, 3)
    assert found.ratio == 1.5
    assert (found.pairs, found.proved) == (6, 2)
    assert found.false == 0
    assert found.split == [("a", "c")]
    assert cells(found)[7:9] == ("1.50!", "1.3")


def test_a_false_merge_is_found_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line("a", "t1", "x", "y"), line("b", "t2", "x", "z"), line("c", "t2", "x", "z")]
    found = figures(ROW, "sm_90", lines, signed(t1="s", t2="s"))
    assert found.false == 2
    assert show([found]) == 1
    assert "false merge  sm_90 softmax: a and b" in capsys.readouterr().out


def test_classes_of_other_arguments_are_not_compared() -> None:
    lines = [line("a", "t1", "x"), line("b", "t2", "z", group="softmax/2")]
    found = figures(ROW, "sm_90", lines, signed(t1="s", t2="s"))
    assert (found.exist, found.static, found.false) == (2, 2, 0)


def test_nothing_unfinished_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line("a", "t1", "x"), line("b", "t2", "x"), line("c", "t3", "x"),
             line("d", "t4", "x"), line("e", "t5", why="finding: a race"),
             {"target": "sm_90", "row": "softmax", "name": "f", "error": "too large"},
             line("g", "t6", "x")]
    answers = signed(t1="s") | {
        ("sm_90", "t2", ()): Signed(examined("own", False), 7.0, "opaque: foo"),
        ("sm_90", "t3", ()): Signed(why="lost: no answer in 60 s"),
        ("sm_90", "t4", ()): Signed(why="no text: made elsewhere", missing=True)}
    found = figures(ROW, "sm_90", lines, answers)
    assert (found.opaque, found.unsigned, found.no_text) == (1, 1, 1)
    assert (found.no_class, found.failed, found.left) == (1, 1, 1)
    assert found.static == 3
    assert show([found], why=True) == 0
    shown = capsys.readouterr().out
    for reason in ("opaque: foo", "lost: no answer", "made elsewhere", "a race", "too large"):
        assert reason in shown


def test_a_signature_that_rests_on_a_grid_merges_within_it_only() -> None:
    lines = [line("a", "t1", "x"), line("b", "t2", "x", grid=[[8, 1, 1]])]
    free = signed(t1="s", t2="s")
    bound = {key: Signed(examined("s", premises=("same-grid",)), 5.0) for key in free}
    assert figures(ROW, "sm_90", lines, free).static == 1
    assert figures(ROW, "sm_90", lines, bound).static == 2


def test_a_second_look_is_what_the_checker_would_take() -> None:
    """One kernel shows that argument 3 is a multiple, the others do not."""
    lines = [line("a", "t1", "x"), line("b", "t2", "x"), line("c", "t3", "y")]
    answers = {("sm_90", "t1", ()): Signed(examined("s1", shows=("arg3",)), 5.0),
               ("sm_90", "t2", ()): Signed(examined("s2"), 5.0),
               ("sm_90", "t3", ()): Signed(examined("s3"), 5.0)}
    jobs = [Job("sm_90", "softmax", f"t{n}", "", "") for n in (1, 2, 3)]
    again = second_looks(lines, jobs, answers)
    assert [(j.text, j.divisible) for j in again] == [(f"t{n}", ("arg3",)) for n in (1, 2, 3)]
    before = figures(ROW, "sm_90", lines, answers)
    assert (before.signed, before.static) == (3, 3)
    for job, text in zip(again, ("d1", "d1", "d3"), strict=True):
        answers[job.key] = Signed(examined(text, premises=("divisible:arg3%16",)), 5.0)
    found = figures(ROW, "sm_90", lines, answers)
    assert (found.signed, found.static, found.false) == (3, 2, 0)
    answers[again[2].key] = Signed(examined("d1"), 5.0)
    assert figures(ROW, "sm_90", lines, answers).false == 2  # a false merge there counts, too


def stored(folder: Path) -> Path:
    """A folder as a build leaves it: four row sums, two classes."""
    kernels = [k for k in load_set("sm_90") if k.name.startswith("reductions.row_sum_f32")]
    lines, texts = [], []
    for kernel in kernels:
        launches = kernel.launches[:1]
        text = digest_of(kernel.text)
        answer = replayed(kernel.text, kernel.isa, launches)
        lines.append({"target": "sm_90", "row": "reductions", "name": kernel.name,
                      "group": kernel.config["group"], "text": text, "producer": "triton 0.0",
                      "grid": [x["grid"] for x in launches], "block": launches[0]["block"],
                      **answer})
        texts.append({"target": "sm_90", "row": "reductions", "text": text, "name": kernel.name,
                      "isa": kernel.isa, "asm": kernel.text})
    folder.mkdir()
    write_lines(folder / "rows-0.jsonl.xz", lines[:3])
    write_lines(folder / "rows-1.jsonl.xz", lines[3:])
    write_lines(folder / "texts-0.jsonl.xz", texts)
    return folder


def test_stored_kernels_are_measured(tmp_path: Path) -> None:
    folder = stored(tmp_path / "made")
    save = tmp_path / "signed.jsonl"
    (found,) = measure(["sm_90"], ["reductions"], folders=[folder], save=save)
    assert (found.configurations, found.exist, found.static, found.false) == (4, 2, 2, 0)
    assert found.proved == found.pairs > 0
    before = save.read_text()
    (again,) = measure(["sm_90"], ["reductions"], folders=[folder], save=save)
    assert save.read_text() == before
    assert (again.exist, again.static) == (2, 2)
    assert partition.recall(save, "another engine") == {}
    (sample,) = measure(["sm_90"], ["reductions"], 2, folders=[folder], save=save)
    assert sample.configurations == 2


def test_a_pack_keeps_every_row_and_an_even_sample_of_texts(tmp_path: Path) -> None:
    folder, out = stored(tmp_path / "made"), tmp_path / "packed"
    pack([folder], 3, out)
    pack([folder], 3, out)
    names = [r["name"] for r in read_parts("rows", out)]
    kept = {t["name"] for t in read_parts("texts", out)}
    assert len(names) == 4
    assert kept == set(sorted(names, key=order)[:3])
    (found,) = measure(["sm_90"], ["reductions"], folders=[out])
    assert (found.configurations, found.no_text) == (4, 1)


def test_maps_of_two_versions_are_not_packed_together(tmp_path: Path) -> None:
    """A map's digest is one version's: what was equal would be two classes that exist."""
    folder = stored(tmp_path / "made")
    lines = list(read_parts("rows", folder))
    write_lines(folder / "rows-0.jsonl.xz", [lines[0] | {"checker": "0.0.1"}])
    write_lines(folder / "rows-1.jsonl.xz", lines[1:])
    with pytest.raises(ValueError, match="several versions"):
        pack([folder], 3, tmp_path / "packed")


def test_every_row_has_the_configurations_that_were_asked_for() -> None:
    for target in ("sm_90", "sm_80", "sm_100", "gfx942"):
        for row in rows_of(target):
            cases = row.cases(target)
            assert len(cases) >= row.least[target], (target, row.family)
            assert len({c.name for c in cases}) == len(cases)
            for case in cases:
                case.check()
                assert len(case.launches) >= 3


def test_a_build_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus.bench.classes.PARTITION", tmp_path / "none")
    counts = build(["sm_90"], out=tmp_path, rows=["inductor_sum_loop"], count=2)
    assert (counts["made"], counts["left"]) == (2, 0)
    again = build(["sm_90"], out=tmp_path, rows=["inductor_sum_loop"], count=3)
    assert (again["there"], again["made"]) == (2, 1)
    (found,) = measure(["sm_90"], ["inductor_sum_loop"], folders=[tmp_path])
    assert (found.configurations, found.false, found.no_text) == (3, 0, 0)
    monkeypatch.setattr("checker.results.CHECKER_VERSION", "another")
    other = build(["sm_90"], out=tmp_path, rows=["inductor_sum_loop"], count=3)
    assert (other["there"], other["made"]) == (0, 3)


def test_the_command_names_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        partition.main(["--family", "gem"])
    assert caught.value.code == 2
    assert "gem" in capsys.readouterr().err


def test_tree_classes_are_confirmed_by_bits() -> None:
    task = next(t for t in tasks_of(rows_of("gfx942", ["reductions"]), "gfx942"))
    seen = look(task, 2)
    assert not seen.why
    assert seen.trees.startswith("sb1l-")
    assert len(seen.bytes.split("|")) == 2
    others = [Seen("b", seen.group, seen.trees, "other bytes"),
              Seen("c", seen.group, "other trees", seen.bytes), Seen("d", why="v_exp_f32")]
    row = tally("reductions", [seen, *others])
    assert (row.trees, row.bytes, row.broken, row.unseen) == (2, 2, 1, 1)
    assert row.refused == {"v_exp_f32": 1}
