"""The gate on real kernels with the real engine: a compiler bump, and edits of one kernel.

The texts in `bump/` are Triton's, by 3.6 and by 3.9, for sm_80 (`compile_bump.py` wrote them).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
BUMP = Path(__file__).parent / "bump"
ADD = "add__BLOCK=256__num_warps=4.ptx"
LOOP = "rowsum_loop__BLOCK=256__num_warps=4.ptx"
OTHER_LOOP = "rowsum_loop__BLOCK=512__num_warps=4.ptx"


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE", str(tmp_path / "cache.sqlite"))
    monkeypatch.setenv("SAMEBITS_JOBS", "0")


def test_a_compiler_bump(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "samebits.lock"
    old = [BUMP / "triton-3.6" / f"{name}*" for name in ("add", "rowsum", "softmax")]
    new = [BUMP / "triton-3.9" / f"{name}*" for name in ("add", "rowsum", "softmax")]
    assert run("gate", "update", *old, "-b", lock).exit_code == 0
    result = run("gate", "check", *new, "-b", lock)
    assert result.exit_code == 1, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("drift  4 unchanged, 3 drift")
    # 3.9 sums the elements of one thread (four and more) as a balanced tree, 3.6 as a chain
    drifted = [" ".join(line.split()[1:3]) for line in lines if line.startswith("drift  ")][1:]
    assert drifted == ["rowsum BLOCK=1024", "rowsum_loop BLOCK=512", "softmax BLOCK=512"]
    assert any(re.search(r"now\s+\S*rowsum__BLOCK=1024\S*:\d+", line) for line in lines)


@pytest.fixture
def kernels(run: Run, tmp_path: Path) -> Path:
    """Two kernels with their baseline, as the edits below find them."""
    folder = tmp_path / "k"
    folder.mkdir()
    for name in (ADD, LOOP):
        shutil.copy(BUMP / "triton-3.9" / name, folder)
    assert run("gate", "update", folder, "-b", tmp_path / "lock").exit_code == 0
    return folder


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    after = change(before)
    assert after != before
    path.write_text(after)


def split_fma(text: str) -> str:
    return re.sub(
        r"fma\.rn\.f32 \t(%r\d+), (%r\d+), (%r\d+), (%r\d+);",
        r"mul.rn.f32 \1, \2, \3;\n\tadd.rn.f32 \1, \1, \4;", text, count=1,
    )


def reorder_loads(text: str) -> str:
    """Move the first load behind the second."""
    lines = text.splitlines()
    first, second = (i for i, line in enumerate(lines) if "ld.global" in line)
    moved = lines.pop(first)
    lines.insert(second, moved)
    return "\n".join(lines) + "\n"


def rename_registers(text: str) -> str:
    return re.sub(r"%(r|rd)(\d+)", lambda m: f"%{m[1]}{int(m[2]) + 500}", text).replace(
        ".b32 \t%r<", ".b32 \t%r<9"
    ).replace(".b64 \t%rd<", ".b64 \t%rd<99")


@pytest.mark.parametrize("change", [
    lambda text: "// another comment\n" + text.replace("ret;", "ret;  // done"),
    rename_registers,
    reorder_loads,
], ids=["comment", "rename", "reorder"])
def test_edits_that_change_nothing_pass(
    run: Run, kernels: Path, tmp_path: Path, change: Callable[[str], str]
) -> None:
    edit(kernels / ADD, change)
    result = run("gate", "check", kernels, "-b", tmp_path / "lock")
    assert result.exit_code == 0, result.output


def test_a_split_fma_fails(run: Run, kernels: Path, tmp_path: Path) -> None:
    edit(kernels / ADD, split_fma)
    result = run("gate", "check", kernels, "-b", tmp_path / "lock")
    assert result.exit_code == 1
    assert result.output.startswith("drift  1 unchanged, 1 drift")
    assert "drift  add BLOCK=256 num_warps=4 sm_80" in result.output


def test_a_rechunked_loop_fails(run: Run, kernels: Path, tmp_path: Path) -> None:
    edit(kernels / LOOP, lambda _: (BUMP / "triton-3.9" / OTHER_LOOP).read_text())
    result = run("gate", "check", kernels, "-b", tmp_path / "lock")
    assert result.exit_code == 1
    assert "drift  rowsum_loop BLOCK=256 num_warps=4 sm_80" in result.output


def test_the_triton_cache_of_a_sweep_is_read(run: Run, tmp_path: Path) -> None:
    """A cache folder as Triton 3.9 writes it: knobs off the metadata and the first stage."""
    text = (BUMP / "triton-3.9" / ADD).read_text()
    entry = tmp_path / "cache" / "HASH"
    entry.mkdir(parents=True)
    (entry / "__grp__add.json").write_text('{"child_paths": {"add.ptx": "/elsewhere/add.ptx"}}')
    (entry / "add.ptx").write_text(text)
    (entry / "add.json").write_text(
        '{"name": "add", "num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": null,'
        ' "triton_version": "3.9.0", "shared": 0, "hash": "00"}'
    )
    (entry / "add.source").write_text(
        'tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"), %n: i32 '
        'loc("n")) attributes {noinline = false} {\n'
        "%0 = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>\n"
    )
    result = run("gate", "update", tmp_path / "cache", "-b", tmp_path / "lock")
    assert result.exit_code == 0
    lock = (tmp_path / "lock").read_text()
    assert "config    num_stages=3 num_warps=4 ranges=256 types=" in lock
    assert "compiler  triton 3.9.0" in lock
    assert "HASH" not in lock
