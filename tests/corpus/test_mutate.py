"""How the mutation campaign judges: premises apart from survivors, short findings, resuming."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from checker import api
from corpus.campaigns import mutate
from corpus.campaigns.common import Options, kernels
from corpus.campaigns.minimise import minimised
from corpus.campaigns.mutants import VENDORS, mutants
from corpus.load import CorpusKernel

RELU = r"^activation\.relu-B256_KIND3_fuse1_w4"
ADD_MUL = r"^elementwise\.add_mul-B128_OP1_fuse1_w1"


@cache
def _kernel(isa: str = "ptx") -> CorpusKernel:
    found = kernels(isa, ("sm_90",) if isa == "ptx" else (), r"^elementwise\.max-B128_.*w4")
    return found[0]


def _fate(old: str, new: str, name: str = "") -> str:
    kernel = kernels("ptx", ("sm_80",), name)[0] if name else _kernel()
    text = re.sub(old, new, kernel.text, count=1)
    assert text != kernel.text
    launches = tuple(dict(x) for x in kernel.launches)
    job = mutate.Job(kernel.name, kernel.text, kernel.isa, launches, 1, 1)
    return mutate.judge_one(text, job, mutate._base(job.text, job.isa, json.dumps(launches)))[0]


@pytest.mark.parametrize(("old", "new", "fate"), [
    (r"@%p1 ld\.global", "ld.global", "readable"),
    (r"%ctaid\.x", "%ctaid.y", "grid-covers"),
    (r"@%p1 st\.global", "st.global", "caught"),
    (r"@%p1 st\.global", "@!%p1 st.global", "caught"),
    (r"%ctaid\.x", "%tid.x", "caught"),
    (r"\n(\t// begin inline asm)", r"\n// note\n\1", "harmless"),
    (r"max\.", "nothing.known.", "caught"),
    (r"\bret;", "ret,,;", "refused"),
])
def test_the_fate_of_a_change(old: str, new: str, fate: str) -> None:
    assert _fate(old, new) == fate


def test_blocks_that_race_for_a_tile_at_one_grid_alone() -> None:
    """In place: at this grid all blocks read and write the first tile."""
    assert _fate(r"%ctaid\.x", "%ctaid.y", "^adamw-B128_fuse1_w4") == "grid-covers"
    assert _fate(r"%ctaid\.x", "%tid.y", "^adamw-B128_fuse1_w4") == "caught"


@pytest.mark.parametrize(("name", "old", "new", "premise", "kept"), [
    # Element r7 is stored where r7 + 1 is inside: the same where the size is even.
    (RELU, "@%p1 st.global.b16 [ %rd3 + 0 ]", "@%p2 st.global.b16 [ %rd3 + 0 ]",
     "divisible:arg3%2", True),
    (RELU, "@%p1 st.global.b16 [ %rd3 + 0 ]", "@%p2 st.global.b16 [ %rd3 + 0 ]", "readable", False),
    (RELU, "@%p1 st.global.b16 [ %rd3 + 0 ]", "@%p2 st.global.b16 [ %rd3 + 2 ]",
     "divisible:arg3%2", False),
    # The last of four is stored where the first is inside: outside the buffer at other sizes.
    (ADD_MUL, "@%p4 st.global.b32 [ %rd3 + 12 ]", "@%p1 st.global.b32 [ %rd3 + 12 ]",
     "divisible:arg3%4", True),
    (ADD_MUL, "@%p4 st.global.b32 [ %rd3 + 12 ]", "@%p1 st.global.b32 [ %rd3 + 12 ]",
     "divisible:arg3%2", False),
])
def test_a_size_that_must_be_a_multiple(name: str, old: str, new: str, premise: str,
                                        kept: bool) -> None:
    kernel = kernels("ptx", ("sm_90",), name)[0]
    assert old in kernel.text
    one, two = (api.program_of(t) for t in (kernel.text, kernel.text.replace(old, new)))
    assert mutate._needs_multiple(one, two, dict(kernel.launch), (premise,)) == kept


@pytest.mark.parametrize("isa", ["ptx", "gcn"])
def test_mutants_are_distinct_and_the_same_for_one_seed(isa: str) -> None:
    text = _kernel(isa).text
    first, again = (list(mutants(text, isa, 60, 5)) for _ in range(2))
    assert first == again
    assert len({m.text for m in first}) == len(first) == 60
    assert all(m.text != text and m.old != m.new for m in first)
    assert len({m.kind for m in first}) > len(VENDORS[isa][1]) // 2
    assert [m.text for m in mutants(text, isa, 60, 6)] != [m.text for m in first]


def test_a_pair_is_minimised_to_the_lines_that_matter() -> None:
    old = "\n".join(f"line {n}" for n in range(100))
    new = old.replace("line 40\n", "line forty\n")
    a, b = minimised(old, new, lambda a, b: "line 7\n" in a and "line 40" in a and a != b)
    assert a.split("\n") == ["line 7", "line 40"]
    assert b.split("\n") == ["line 7", "line forty"]


def test_a_campaign_goes_on_where_it_stopped(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mutants.jsonl"
    options = Options(count=6, per_kernel=3, only=r"^elementwise\.(max|add)-B128", jobs=1, out=out)
    assert mutate.campaign(options) == 0
    first = capsys.readouterr()
    done = out.read_text()
    assert mutate.campaign(options) == 0
    again = capsys.readouterr()
    assert out.read_text() == done
    assert again.out == first.out
    assert "jobs are done already" in again.err


def test_one_set_and_some_kinds_of_mutants() -> None:
    options = Options("ptx", 12, sets=("sm_100",), kinds="barrier", only="^gemm-BK16", budget=5.0)
    jobs = mutate.plan(kernels(options.isa, options.sets, options.only), options)
    assert jobs
    assert all("sm_100" in job.name and job.kinds == "barrier" and job.budget == 5.0
               for job in jobs)
    made = [m for job in jobs for m in mutants(job.text, job.isa, job.count, job.seed, job.kinds)]
    assert made
    assert {m.kind for m in made} == {"barrier"}
    assert not list(mutants(jobs[0].text, "ptx", 5, 1, "no such kind"))


def test_what_orders_tensor_memory_is_judged() -> None:
    """Dropped, moved and conditional waits, commits and barriers: none is overlooked."""
    kernel = kernels("ptx", ("sm_100",), "^gemm-BK16_BM64_BN32_.*_s1_w4")[0]
    launches = tuple(dict(x) for x in kernel.launches)
    job = mutate.Job(kernel.name, kernel.text, kernel.isa, launches, 5, 3, "barrier")
    program = api.program_of(kernel.text)
    base = mutate.Base(program, api.sign(kernel.text).text,
                       tuple(mutate.replay(program, mutate.Launch.from_json(x)) for x in launches))
    fates = [mutate.judge_one(m.text, job, base)[0]
             for m in mutants(job.text, job.isa, job.count, job.seed, job.kinds)]
    assert "caught" in fates
    assert not set(fates) & set(mutate.FINDINGS)
