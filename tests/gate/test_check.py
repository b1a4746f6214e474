"""What drifted, and how it is told apart from what is merely different."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from checker.cache import Cache, Examiner
from checker.errors import UsageError
from checker.gate import suppress
from checker.gate.check import Current, Report, check, sign_all, text_digest
from checker.gate.lockfile import Entry, Lock
from checker.results import CHECKER_VERSION, KernelInput
from checker.sources import Source, Sources

pytestmark = pytest.mark.usefixtures("toy")
TODAY = datetime.date(2026, 6, 1)


def source(name: str, body: str, compiler: str = "triton 3.6.0", **knobs: int) -> Source:
    text = f".target sm_90\n.entry {name}\n{body}\n"
    one = KernelInput(name, text, config=knobs)
    return Source(one, f"{name}.ptx", name, "sm_90", compiler, name, knobs)


def signed(*sources: Source) -> Current:
    return sign_all(Sources(sources), Examiner(Cache(None), jobs=0))


def lock(*sources: Source, checker: str = CHECKER_VERSION) -> Lock:
    return Lock(checker, tuple(s.entry for s in signed(*sources).kernels))


def report(before: Lock, *now: Source, **options: object) -> Report:
    return check(before, signed(*now), today=TODAY, **options)  # type: ignore[arg-type]


def kinds(found: Report) -> list[str]:
    return [r.kind for r in found.results]


def test_comments_names_and_a_compiler_bump_are_no_drift() -> None:
    before = lock(source("k", "fold 32", "triton 3.6.0"))
    found = report(before, source("k", "fold 32 // a comment", "triton 3.9.0"))
    assert (kinds(found), found.status) == (["same"], 0)
    assert "triton 3.6.0 to triton 3.9.0" in found.results[0].message


def test_a_changed_tree_is_signature_drift() -> None:
    found = report(lock(source("k", "fold 32")), source("k", "fold 64"))
    assert (kinds(found), found.status) == (["signature"], 1)


def test_something_newly_opaque_is_coverage_drift() -> None:
    found = report(lock(source("k", "fold 32")), source("k", "fold 32\nopaque tcgen05.mma"))
    assert (kinds(found), found.status) == (["coverage"], 1)
    assert "tcgen05.mma" in found.results[0].message


def test_a_new_race_is_a_finding() -> None:
    assert kinds(report(lock(source("k", "fold 32")), source("k", "fold 32\nrace"))) == ["finding"]


def test_a_further_premise_is_drift_although_the_signature_is_the_same() -> None:
    before = lock(source("k", "fold 32"))
    (entry,) = before.entries
    weaker = replace(entry, premises="grid-covers", text="another text")
    found = report(Lock(CHECKER_VERSION, (replace(
        weaker, signature=entry.signature),)), source("k", "fold 32"))
    fresh = sorted(set(entry.premises.split()) - {"grid-covers"})
    assert fresh
    assert (kinds(found), found.status) == (["signature"], 1)
    assert fresh[0] in found.results[0].message


def test_what_was_opaque_before_is_signature_drift_when_the_text_changes() -> None:
    before = lock(source("k", "fold 32\nopaque foo"))
    found = report(before, source("k", "fold 64\nopaque foo"))
    assert kinds(found) == ["signature"]
    assert "not modelled in full" in found.results[0].message


def test_a_kernel_that_is_not_modelled_is_compared_at_its_launches() -> None:
    def at_launch(body: str) -> Source:
        one = source("k", body)
        return replace(one, input=replace(one.input, launches=({"grid": [1, 1, 1]},)))

    before = lock(at_launch("opaque foo\n$launch 1"))
    assert before.entries[0].replay.startswith("sb1l-")
    found = report(before, at_launch("opaque foo\n$launch 2"))
    assert (kinds(found), found.status) == (["same"], 0)
    assert "the same output maps" in found.results[0].message
    found = report(before, at_launch("opaque foo\nfold 2"))
    assert kinds(found) == ["signature"]
    assert "output maps at the recorded launches changed" in found.results[0].message
    assert kinds(report(before, source("k", "opaque foo\n$launch 2"))) == ["signature"]


def test_same_text_other_signature_is_the_checker() -> None:
    before = lock(source("k", "fold 32"))
    older = Lock("0.0.9", tuple(replace(e, signature="sb1-old") for e in before.entries))
    found = report(older, source("k", "fold 32"))
    assert (kinds(found), found.status) == (["checker"], 1)
    assert "the checker changed" in found.results[0].message
    assert any("0.0.9" in note for note in found.notes)


def test_a_limit_that_was_reached_in_one_run_is_no_drift() -> None:
    before = lock(source("k", "fold 32"))
    entries = [replace(e, signature="sb1-t", coverage="finding fuel") for e in before.entries]
    found = report(Lock(CHECKER_VERSION, tuple(entries)), source("k", "fold 32"))
    assert (kinds(found), found.status) == (["same"], 0)


def test_both_changed_says_that_it_cannot_tell() -> None:
    before = lock(source("k", "fold 32"), checker="0.0.9")
    found = report(before, source("k", "fold 64"))
    assert kinds(found) == ["checker"]
    assert "both the kernel and the checker" in found.results[0].message


def test_new_and_vanished_kernels_and_their_switches() -> None:
    before = lock(source("a", "fold 1"), source("b", "fold 2"))
    found = report(before, source("a", "fold 1"), source("c", "fold 2"))
    assert (kinds(found), found.status) == (["same", "missing", "new"], 1)
    assert "renamed?" in found.results[2].details[0]
    found = report(before, source("a", "fold 1"), source("c", "fold 3"), allow_new=True,
                   allow_missing=True)
    assert found.status == 0
    assert found.count("new") == found.count("missing") == 0


def test_several_kernels_of_one_name_match_by_signature_first() -> None:
    before = lock(*(source("k", f"fold {n}") for n in (1, 2, 3)))
    found = report(before, *(source("k", f"fold {n}") for n in (3, 9, 1)))
    assert sorted(kinds(found)) == ["same", "same", "signature"]


def test_nothing_checked_is_no_success() -> None:
    assert report(Lock(CHECKER_VERSION, ())).status == 4
    assert report(lock(source("k", "fold 1"))).status == 4


def test_unreadable_input_weighs_more_than_drift() -> None:
    found = report(lock(source("k", "fold 1")), source("k", "fold 2"), source("bad", "?!"))
    assert found.status == 3
    assert "bad.ptx:3:1" in found.errors[0].message


def suppression(**more: object) -> suppress.Suppression:
    base = {"kernel": "k*", "reason": "known", "expires": datetime.date(2026, 7, 1)}
    return suppress.Suppression(**{**base, **more})  # type: ignore[arg-type]


def test_a_suppression_excuses_what_it_names_until_it_ends() -> None:
    before, now = lock(source("k1", "fold 1", b=1)), source("k1", "fold 2", b=1)
    excused = report(before, now, suppressions=[suppression()])
    assert (excused.status, kinds(excused)) == (0, ["signature"])
    last = suppression(expires=TODAY)
    assert report(before, now, suppressions=[last]).status == 0
    over = suppression(expires=TODAY - datetime.timedelta(days=1))
    found = report(before, now, suppressions=[over])
    assert found.status == 1
    assert "expired" in found.results[0].details[-1]
    assert report(before, now, suppressions=[suppression(kinds=("new",))]).status == 1
    assert report(before, now, suppressions=[suppression(kernel="k1 b=1 *")]).status == 0
    assert report(before, now, suppressions=[suppression(kernel="k1 b=2 *")]).status == 1
    assert report(before, now, suppressions=[suppression(signature="sb1-x")]).status == 1


def test_a_needless_suppression_is_noted() -> None:
    found = report(lock(source("k", "fold 1")), source("k", "fold 1"),
                   suppressions=[suppression(place="s.toml: suppression 1")])
    assert "suppresses nothing" in found.notes[0]


@pytest.mark.parametrize(("text", "message"), [
    ('[[suppress]]\nkernel = "k"\nexpires = 2030-01-01\n', "`reason` is missing"),
    ('[[suppress]]\nkernel = "k"\nreason = " "\nexpires = 2030-01-01\n', "`reason` is missing"),
    ('[[suppress]]\nkernel = "k"\nreason = "r"\n', "`expires` must be a date"),
    ('[[suppress]]\nkernel = "k"\nreason = "r"\nexpires = "soon"\n', "`expires` must be a date"),
    ('[[suppress]]\nkernel = "k"\nreason = "r"\nexpires = 2030-01-01\nkinds = ["unreadable"]\n',
     "`kinds`"),
    ('[[suppress]]\nkernel = "k"\nreason = "r"\nexpires = 2030-01-01\nuntil = 1\n', "`until`"),
    ("[[suppress\n", "toml"),
])
def test_a_wrong_suppression_file_is_wrong_usage(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        suppress.load(path)
    assert message in str(error.value)


def test_the_text_digest_ignores_what_carries_no_meaning() -> None:
    a = ".version 8.7\n// made today\nadd.f32 %f1, %f2, %f3;\n.loc 1 2 3\n"
    b = ".version 8.7\n.file 1 \"x.py\"\n  add.f32  %f1, %f2, %f3;  // y\n\n"
    assert text_digest(a) == text_digest(b)
    assert text_digest(a) != text_digest(b.replace("%f2", "%f4"))


def test_the_text_digest_keeps_what_stands_behind_a_debug_line() -> None:
    lines = ".version 8.0\n", ".loc 1 2 3", " add.f32 %f1, %f1, %f1;\n"
    assert text_digest("".join(lines)) != text_digest("".join(lines[:2]))
    assert text_digest("".join(lines)) != text_digest("".join(lines).replace("add", "sub"))
    assert text_digest("".join(lines[:2])) == text_digest(lines[0])
    amd = "s_nop 0\n.loc 1 2 3  ; a.py:{}:3\n"
    assert text_digest(amd.format(2)) == text_digest(amd.format(7)) == text_digest("s_nop 0\n")


def test_entries_hold_no_path() -> None:
    entry: Entry = signed(source("k", "fold 1")).kernels[0].entry
    assert "ptx" not in str(entry)
