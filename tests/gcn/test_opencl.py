"""OpenCL kernels through two clangs for six targets: one map each, whatever the wave and the ISA.

Divergent loops, a switch, a shared-memory tree, a tiled product (`data/opencl.cl`). The division
kernel is exact division in clang 14 and an approximation of the unit in clang 19.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from checker.lower import kernel_names, lower
from checker.parse import parse
from checker.replay.result import ReplayResult
from checker.replay.run import replay

TEXTS: dict[str, str] = json.loads(gzip.decompress(
    (Path(__file__).parent / "data" / "opencl.json.gz").read_bytes()))

#: the source has no fence at the first barrier of `rowsum`; from clang 19 that leaves out the wait
UNFENCED = re.compile(r"(\tds_write_b32 .*\n)(\ts_barrier\n)")
#: clang 19 does not know that gfx12 has to wait for scalars written again; later ones wait
UNWAITED = "clang19-gfx1200"
RACES = ("clang19-gfx1030", "clang19-gfx90a", "clang19-gfx942")


def _buffer(name: str, dtype: str, elements: int, role: str = "in", **more: Any) -> dict[str, Any]:
    return {"buffer": name, "dtype": dtype, "elements": elements, "role": role, **more}


LAUNCHES: dict[str, dict[str, Any]] = {
    "saxpy": {"grid": [3, 1, 1], "block": [64, 1, 1], "shared": 0, "args": [
        _buffer("x", "f32", 150), _buffer("y", "f32", 150), _buffer("o", "f32", 150, "out"),
        {"f32": 2.5}, {"i32": 150}]},
    "rowsum": {"grid": [3, 1, 1], "block": [256, 1, 1], "shared": 1024, "args": [
        _buffer("x", "f32", 2100), _buffer("o", "f32", 3, "out"), {"i32": 700}]},
    "mm": {"grid": [2, 2, 1], "block": [16, 16, 1], "shared": 2048, "args": [
        _buffer("a", "f32", 1024), _buffer("b", "f32", 1024), _buffer("c", "f32", 1024, "out"),
        {"i32": 32}]},
    "divk": {"grid": [3, 1, 1], "block": [64, 1, 1], "shared": 0, "args": [
        _buffer("x", "f32", 192), _buffer("y", "f32", 192), _buffer("o", "f32", 192, "out"),
        _buffer("u", "f64", 192), _buffer("v", "f64", 192, "out"), {"i32": 7}]},
    "sw": {"grid": [3, 1, 1], "block": [64, 1, 1], "shared": 0, "args": [
        _buffer("x", "i32", 192, values=list(range(-90, 102))), _buffer("o", "i32", 192, "out"),
        {"i32": 192}]},
}


@cache
def _map(name: str, kernel: str) -> ReplayResult:
    fenced = UNFENCED.sub(r"\1\ts_waitcnt lgkmcnt(0)\n\2", _waited(name))
    return replay(lower(parse(fenced), kernel), LAUNCHES[kernel])


def _waited(name: str) -> str:
    """The text, with all waits of gfx12 that it lacks and many more."""
    return re.sub(r"(?m)^(?=\t[sv]_)", "\ts_wait_alu 0x0\n", TEXTS[name]) \
        if name == UNWAITED else TEXTS[name]


@pytest.mark.parametrize("kernel", ["saxpy", "rowsum", "mm", "sw"])
def test_one_map_for_all_targets(kernel: str) -> None:
    maps = {name: _map(name, kernel) for name in TEXTS}
    assert {name: m.reasons() for name, m in maps.items() if not m.usable} == {}
    assert len({m.digest for m in maps.values()}) == 1


def test_a_barrier_without_a_fence_orders_what_the_compiler_waits_for() -> None:
    found = {name: {r.code for r in replay(lower(parse(_waited(name)), "rowsum"),
                                           LAUNCHES["rowsum"]).reasons()} for name in TEXTS}
    assert found == {name: {"race-read"} if name in RACES else set() for name in TEXTS}


def test_switch_computes_what_the_source_says() -> None:
    result = _map("clang19-gfx942", "sw")
    words = result.outputs["o"].words[1]
    got = [int(w) & 0xFFFFFFFF for w in words]
    assert got == [_switch(v) & 0xFFFFFFFF for v in range(-90, 102)]


def _switch(v: int) -> int:
    if v & 7 == 5:
        r = abs(v) // 9 * (1 if v > 0 else -1)
    else:
        r = {0: v * 3, 1: v + 7, 2: v ^ 5}.get(v & 7, -v)
    for k in range(v & 15):
        r = r * 31 + k
    return r


def test_approximate_division_belongs_to_its_unit() -> None:
    exact = {_map(name, "divk").digest for name in TEXTS if name.startswith("clang14")}
    approximate = [_map(name, "divk").digest for name in TEXTS if name.startswith("clang19")]
    assert len(exact) == 1
    assert len(set(approximate)) == len(approximate)
    assert not exact & set(approximate)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_kernel_is_modelled_and_waited_for(name: str) -> None:
    module = parse(_waited(name))
    for kernel in kernel_names(module):
        program = lower(module, kernel)
        assert program.findings == ()
        assert program.block is not None


def test_clang_19_leaves_out_the_scalar_waits_of_gfx12() -> None:
    module = parse(TEXTS[UNWAITED])
    for kernel in kernel_names(module):
        messages = {message for _, message in lower(module, kernel).findings}
        assert all(re.search(r"before a wait on (sa_sdst|va_sdst|va_vcc) for", m) for m in messages)
        assert messages or kernel == "saxpy"
