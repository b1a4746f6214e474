"""partition: groups, knobs, what to keep, batch invariance; on the toy engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("toy")
Run = Callable[..., Any]
Write = Callable[..., Path]


def _line(name: str, body: str, config: dict[str, Any], **more: Any) -> str:
    text = f".target sm_90\n.entry gemm\n{body}\n"
    return json.dumps({"name": name, "text": text, "config": config, **more})


@pytest.fixture
def manifest(write: Write) -> Path:
    rows = [
        _line(f"k{k}w{w}", f"fold {k}", {"BLOCK_K": k, "num_warps": w})
        for k in (16, 32) for w in (4, 8)
    ]
    return write("sweep.jsonl", "\n".join(rows) + "\n")


def test_classes_and_the_knob_that_separates_them(run: Run, manifest: Path) -> None:
    result = run("partition", manifest)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "gemm sm_90  4 configurations, 2 classes"
    assert "2 of 4  BLOCK_K=16" in lines[1]
    assert lines[3] == "  BLOCK_K alone separates the classes"


def test_json_has_the_partition_and_the_groups(run: Run, manifest: Path) -> None:
    data = json.loads(run("partition", manifest, "--json").output)
    assert [one["members"] for one in data["classes"]] == [["k16w4", "k16w8"], ["k32w4", "k32w8"]]
    assert data["unproved"] == []
    assert data["errors"] == []
    (group,) = data["groups"]
    assert group["separating_knobs"] == ["BLOCK_K"]
    assert group["inert_knobs"] == ["num_warps"]


@pytest.mark.parametrize("asked", ["k16w8", "BLOCK_K=16", "BLOCK_K=16,num_warps=4"])
def test_keep_equal_to(run: Run, manifest: Path, asked: str) -> None:
    data = json.loads(run("partition", manifest, "--keep-equal-to", asked).output)
    assert [one["name"] for one in data["keep"]] == ["k16w4", "k16w8"]
    assert data["keep"][0]["config"] == {"BLOCK_K": 16, "num_warps": 4}
    assert [one["reason"] for one in data["drop"]] == ["another class"] * 2


def test_keep_equal_to_a_signature_and_to_nothing(run: Run, manifest: Path) -> None:
    classes = json.loads(run("partition", manifest, "--json").output)["classes"]
    data = json.loads(
        run("partition", manifest, "--keep-equal-to", classes[1]["signature"]).output
    )
    assert [one["name"] for one in data["keep"]] == ["k32w4", "k32w8"]
    result = run("partition", manifest, "--keep-equal-to", "num_warps=4")
    assert result.exit_code == 2
    assert "several classes" in result.stderr
    assert run("partition", manifest, "--keep-equal-to", "nope").exit_code == 2


def test_an_unproved_reference_keeps_only_itself(run: Run, write: Write) -> None:
    path = write("s.jsonl", "\n".join([
        _line("a", "opaque foo", {"x": 1}), _line("b", "opaque foo", {"x": 2}),
        _line("c", "fold", {"x": 3}),
    ]))
    data = json.loads(run("partition", path, "--keep-equal-to", "a").output)
    assert [one["name"] for one in data["keep"]] == ["a"]
    assert data["note"]
    assert [one["reason"] for one in data["drop"]] == ["an opaque construct", "another class"]


def test_batch_invariance(run: Run, write: Write) -> None:
    same = [_line(f"m{m}", "fold 32", {"M": m}) for m in (1, 64, 4096)]
    path = write("same.jsonl", "\n".join(same))
    result = run("partition", path, "--batch-invariant")
    assert result.exit_code == 0
    assert result.output.startswith("batch-invariant  gemm")
    path = write("split.jsonl", "\n".join([*same, _line("m1s", "splitk 4", {"M": 2})]))
    result = run("partition", path, "--batch-invariant")
    assert result.exit_code == 3
    assert result.output.startswith("not proved batch-invariant  gemm")
    data = json.loads(run("partition", path, "--batch-invariant", "--json").output)
    assert data["batch_invariant"] is False
    path = write("open.jsonl", "\n".join([*same, _line("o", "opaque x", {"M": 2})]))
    assert run("partition", path, "--batch-invariant").exit_code == 3


def test_unreadable_lines_are_named_and_the_rest_goes_on(run: Run, write: Write) -> None:
    good = _line("a", "fold", {})
    path = write("s.jsonl", f'{good}\n{{"name": "b"}}\nnot json\n{_line("c", "?!", {})}\n')
    result = run("partition", path)
    assert result.exit_code == 4
    assert "1 configurations" in result.output or "2 configurations" in result.output
    assert f"{path}:2:1: give either `text` or `path`" in result.stderr
    assert f"{path}:3:1: this is not JSON" in result.stderr


def test_a_folder_with_knobs_in_names_and_sidecars(run: Run, write: Write) -> None:
    a = write("d/gemm__BLOCK_K=16.ptx", ".target sm_90\n.entry gemm\nfold 16\n")
    write("d/gemm__BLOCK_K=32.ptx", ".target sm_90\n.entry gemm\nfold 32\n")
    write("d/x/third.ptx", ".target sm_90\n.entry gemm\nfold 32\n$launch\n")
    write("d/x/third.json", {"config": {"BLOCK_K": 64}, "launch": {"grid": [1, 1, 1]}})
    data = json.loads(run("partition", a.parent, "--json").output)
    assert data["groups"][0]["separating_knobs"] == ["BLOCK_K"]
    members = [one["members"] for one in data["classes"]]
    assert members == [["gemm__BLOCK_K=16"], ["gemm__BLOCK_K=32"], ["x/third"]]
    assert data["classes"][2]["basis"] == "launch"


def test_several_entries_and_an_empty_glob(run: Run, write: Write) -> None:
    path = write("d/two.ptx", ".entry a\nload x\n.entry b\nload x\n")
    data = json.loads(run("partition", path, "--json").output)
    assert data["classes"][0]["members"] == ["two:a", "two:b"]
    assert run("partition", path.parent / "*.nothing").exit_code == 2


def test_a_class_of_all_names_none_and_one_alone_is_named(run: Run, write: Write) -> None:
    result = run("partition", write("k/one.ptx", ".entry k\nload x\n").parent)
    assert "1 configuration, 1 class" in result.output
    assert result.output.splitlines()[1].endswith("1 of 1  one")
    write("k/two.ptx", ".entry k\nload x\n")
    lines = run("partition", write("k/three.ptx", ".entry k\nload x\n").parent).output.splitlines()
    assert lines[1].endswith("static  3 of 3")
