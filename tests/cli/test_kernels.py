"""sign, compare, tree, coverage: statuses, pairing, messages; on the toy engine."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("toy")
Run = Callable[..., Any]
Write = Callable[..., Path]

ONE = ".entry one\nload x\nadd x y\nstore z\n"
TWO = ".entry one\nload x\nfma x y\nstore z\n"


def test_equal_exits_0_and_names_basis_and_premises(run: Run, write: Write) -> None:
    a, b = write("a.ptx", ONE), write("b.ptx", ONE.replace("load x", "load x // same"))
    result = run("compare", a, b)
    assert result.exit_code == 0
    first, *rest = result.output.splitlines()
    assert first.startswith("equal (static)")
    assert any("contraction" in line and "assembler" in line for line in rest)
    data = json.loads(run("compare", a, b, "--json").output)
    assert data["equal"] is True
    assert data["verdict"] == "equal"
    assert data["premises"] == ["contraction", "coverage"]


def test_unproved_exits_3_with_places_on_both_sides(run: Run, write: Write) -> None:
    a, b = write("a.ptx", ONE), write("b.ptx", TWO)
    result = run("compare", a, b)
    assert result.exit_code == 3
    assert result.output.startswith("unproved")
    assert "tree-differs" in result.output
    assert f"{a}:3" in result.output
    assert f"{b}:3" in result.output
    assert json.loads(run("compare", a, b, "--json").output)["equal"] is False


def test_unequal_exits_1_and_shows_the_witness(run: Run, write: Write) -> None:
    a, b = write("a.ptx", ONE), write("b.ptx", TWO)
    result = run("compare", a, b, "--launch", write("l.json", {"grid": [1, 1, 1]}))
    assert result.exit_code == 1
    assert "out[17] as f16: 0x3c01 against 0x3c02" in result.output


def test_launch_facts_can_prove_what_the_walk_cannot(run: Run, write: Write) -> None:
    a, b = write("a.ptx", ONE + "$launch 1\n"), write("b.ptx", ONE + "$launch 2\n")
    assert run("compare", a, b).exit_code == 3
    result = run("compare", a, b, "--launch", write("l.json", {"grid": [1, 1, 1]}))
    assert result.exit_code == 0
    assert result.output.startswith("equal (launch)")


def test_launch_facts_that_do_not_fit_are_wrong_usage(run: Run, write: Write) -> None:
    a = write("a.ptx", ONE)
    result = run("compare", a, a, "--launch", write("l.json", {}))
    assert result.exit_code == 2
    assert "launch facts lack `grid`" in result.stderr


def test_broken_launch_json_is_unreadable_and_shows_the_place(run: Run, write: Write) -> None:
    a = write("a.ptx", ONE)
    result = run("compare", a, a, "--launch", write("l.json", '{"grid": [1,\n 1 1]}'))
    assert result.exit_code == 4
    assert "l.json:2:4: this is not JSON" in result.stderr


def test_several_entries_pair_by_name_and_leftovers_are_never_equal(run: Run, write: Write) -> None:
    both = ONE + ".entry two\nload q\n"
    a, b = write("a.ptx", both), write("b.ptx", ".entry two\nload q\n" + ONE)
    result = run("compare", a, b)
    assert result.exit_code == 0
    assert "2 pairs by name" in result.output
    extra = write("c.ptx", both + ".entry three\nload r\n")
    result = run("compare", a, extra)
    assert result.exit_code == 3
    assert f"only in {extra}: three" in result.output
    data = json.loads(run("compare", a, extra, "--json").output)
    assert data["equal"] is False
    assert data["only_b"] == ["three"]
    assert [pair["equal"] for pair in data["pairs"]] == [True, True]


def test_kernel_option_takes_one_and_says_what_it_found(run: Run, write: Write) -> None:
    both = ONE + ".entry two\nload q\n"
    a, b = write("a.ptx", both), write("b.ptx", both)
    result = run("compare", a, b, "--kernel", "two")
    assert result.exit_code == 0
    assert f"{a} has one, two" in result.output
    assert run("compare", a, b, "--kernel-a", "one", "--kernel-b", "two").exit_code == 3
    result = run("compare", a, b, "--kernel", "zwei")
    assert result.exit_code == 2
    assert "it has one, two" in result.stderr


def test_no_common_name_is_wrong_usage_with_a_hint(run: Run, write: Write) -> None:
    a = write("a.ptx", ".entry p\nload x\n.entry q\nload y\n")
    b = write("b.ptx", ".entry r\nload x\n.entry s\nload y\n")
    result = run("compare", a, b)
    assert result.exit_code == 2
    assert "--kernel-a" in result.stderr


def test_unreadable_input_exits_4_with_every_place(run: Run, write: Write) -> None:
    a, bad = write("a.ptx", ONE), write("bad.ptx", ".entry x\n?!\nadd\n?!\n")
    result = run("compare", a, bad)
    assert result.exit_code == 4
    assert f"{bad}:2:1: unexpected" in result.stderr
    assert f"{bad}:4:1: unexpected" in result.stderr
    data = json.loads(run("compare", a, bad, "--json").stdout)
    assert [d["line"] for d in data["error"]["diagnostics"]] == [2, 4]
    assert run("compare", a, "missing.ptx").exit_code == 4
    assert "No such file" in run("compare", a, "missing.ptx").stderr


def test_binary_input_says_what_to_give(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(b"\x7fELF\x02\0\0\0")
    result = run("sign", path)
    assert result.exit_code == 4
    assert "binary" in result.stderr
    assert "hint" in result.stderr


def test_wrong_options_exit_2(run: Run, write: Write) -> None:
    assert run("compare", write("a.ptx", ONE)).exit_code == 2
    assert run("compare", "--nonsense").exit_code == 2


def test_a_defect_is_no_traceback_and_no_verdict(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    import checker

    def boom(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("inner state")

    monkeypatch.setattr(checker.api, "compare", boom)  # type: ignore[attr-defined]
    a = write("a.ptx", ONE)
    result = run("compare", a, a)
    assert result.exit_code == 70
    assert "defect in samebits: AssertionError: inner state" in result.stderr
    assert "Traceback" not in result.output + result.stderr


def test_sign_goes_on_after_a_bad_file(run: Run, write: Write) -> None:
    good, bad = write("a.ptx", ONE), write("bad.ptx", "?!\n")
    result = run("sign", bad, good)
    assert result.exit_code == 4
    assert "sb1-" in result.stdout
    data = json.loads(run("sign", bad, good, "--json").stdout)
    assert [k["kernel"] for k in data["kernels"]] == ["one"]
    assert data["errors"][0]["file"] == str(bad)


def test_sign_shows_what_is_opaque_and_where(run: Run, write: Write) -> None:
    path = write("a.ptx", ".entry k\nload x\nopaque tcgen05.mma d\nrace\n")
    result = run("sign", path)
    assert result.exit_code == 0
    assert "not modelled" in result.output
    assert f"opaque tcgen05.mma d  {path}:3:1" in result.output
    assert f"two unordered writers  {path}:4" in result.output


def test_sign_answers_from_the_cache(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    import checker

    path = write("a.ptx", ".entry k\nload x\nopaque foo\n")
    first = run("sign", path, "--json").output
    monkeypatch.setattr(checker.api, "sign", None)  # type: ignore[attr-defined]
    assert run("sign", path, "--json").output == first
    result = run("sign", path, "--no-cache")
    assert result.exit_code == 4
    assert "defect in samebits: TypeError" in result.stderr


def test_tree_prints_each_kernel(run: Run, write: Write) -> None:
    path = write("a.ptx", ONE + ".entry two\nload q\n")
    out = run("tree", path).output
    assert "add x y  @3" in out
    assert "two" in out
    data = json.loads(run("tree", path, "--kernel", "two", "--json").output)
    assert data["kernels"] == [{"file": str(path), "kernel": "two", "tree": "load q  @6"}]


def test_coverage_counts_over_a_folder(run: Run, write: Write) -> None:
    path = write("d/a.ptx", ".entry k\nload x\nload y\nopaque foo\n")
    write("d/sub/b.amdgcn", ".entry k\nload z\n")
    result = run("coverage", path.parent)
    assert result.exit_code == 0
    assert result.output.startswith("75.00 % modelled")
    data = json.loads(run("coverage", path.parent, "--json").output)
    assert data["opcodes"] == {
        "foo": {"modelled": 0, "opaque": 1}, "load": {"modelled": 3, "opaque": 0},
    }
    assert run("coverage", path.parent / "*.none").exit_code == 2


def test_coverage_of_a_long_opcode_keeps_its_counts(run: Run, write: Write) -> None:
    long = "load." + "x" * 200
    path = write("d/a.ptx", ".entry k\n" + f"{long} q\n" * 1234)
    lines = run("coverage", path).output.splitlines()
    assert any(line.rstrip().endswith("1234       0") for line in lines), lines


def test_compressed_manifests_are_read(run: Run, write: Write) -> None:
    path = write("d/a.ptx", ".entry k\nload x\n")
    row = json.dumps({"name": "k", "text": ".entry k\nload y\nload z\n"})
    with lzma.open(path.parent / "more.jsonl.xz", "wt") as out:
        out.write(row + "\n")
    with lzma.open(path.parent / "other.jsonl.xz", "wt") as out:
        out.write('{"digest": "00"}\n')
    with lzma.open(path.parent / "table.jsonl.xz", "wt") as out:
        out.write('{"text": "3a7f76f3e77912c2", "classes": []}\n')
    data = json.loads(run("coverage", path.parent, "--json").output)
    assert (data["kernels"], data["modelled"], data["errors"]) == (2, 3, [])
    (path.parent / "broken.jsonl.xz").write_bytes(b"no archive")
    assert run("coverage", path.parent).exit_code == 4


def test_a_reader_that_leaves_is_no_verdict() -> None:
    """`samebits ... | head`: 1 would say `unequal`."""
    example = Path(__file__).parents[2] / "corpus/examples/gemm_k64.ptx"
    process = subprocess.Popen(
        [sys.executable, "-c", "from checker.cli import main; main()", "tree", str(example)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=example.parents[2])
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=120) == 141


def test_version(run: Run) -> None:
    assert run("--version").output.startswith("samebits ")
