"""Tensor memory: products by tcgen05 are the ones by mma.sync; what counts shows."""

from __future__ import annotations

import re
from functools import cache

import pytest

from checker.api import program_of
from checker.arith.tensor import resolve
from checker.core import Op
from checker.launch import Launch
from checker.replay import first_difference, replay
from checker.tree import same
from checker.tree.result import WalkResult
from checker.walk import walk
from checker.walk.tensor import with_columns
from corpus.bench.classes import PARTITION, read_parts
from corpus.load import CorpusKernel, load_set


@cache
def _kernels() -> dict[str, CorpusKernel]:
    return {k.name: k for k in load_set("sm_100") if k.name.startswith("gemm-BK")}


def _kernel(shape: str) -> CorpusKernel:
    return _kernels()[f"gemm-{shape}-sm_100"]


@cache
def _walked(text: str) -> WalkResult:
    return walk(program_of(text, isa="ptx"))


ONE_STAGE = "BK16_BM64_BN32_GM4_PRECISIONtf32_TRANS0_s1_w4"
THREE_STAGES = "BK16_BM64_BN32_GM4_PRECISIONtf32_TRANS0_s3_w4"
FOUR_STEPS = "BK64_BM64_BN32_GM4_PRECISIONtf32_TRANS0_s1_w4"
BY_WARPS = "BK16_BM16_BN32_GM4_PRECISIONtf32_TRANS0_s1_w1"


@pytest.mark.parametrize("other", [ONE_STAGE, THREE_STAGES, FOUR_STEPS])
def test_the_unit_leaves_no_trace(other: str) -> None:
    """Of one chain of steps: products of 16 on either unit."""
    one, two = _kernel(BY_WARPS), _kernel(other)
    assert "tcgen05.mma" in two.text
    assert "tcgen05.mma" not in one.text
    assert _walked(two.text).modelled, _walked(two.text).findings
    assert same(_walked(one.text), _walked(two.text))[0]
    runs = [replay(program_of(k.text), Launch.from_json(k.launch)) for k in (one, two)]
    assert first_difference(*runs) is None


def _changed(pattern: str, by: str, which: int = 0) -> str:
    text = _kernel(ONE_STAGE).text
    found = list(re.finditer(pattern, text))
    assert len(found) > which, pattern
    at = found[which]
    return text[:at.start()] + at.expand(by) + text[at.end():]


MMA = r"(tcgen05\.mma\S+ \[ %r67 \+) 0 \], (%rd8), (%rd9), (%r\d+), (%p\d+);"


@pytest.mark.parametrize(("pattern", "by", "which"), [
    (r"(tcgen05\.ld.*\+ 0\]), 16;", r"\1, 8;", 0),  # other columns for half of the lanes
    (r"(tcgen05\.ld.*\+) 0\], 16;", r"\1 1], 15;", 0),
    (MMA, r"\1 1 ], \2, \3, \4, \5;", 1),  # another place for the sum
    (MMA, r"\1 0 ], \3, \2, \4, \5;", 1),  # the operands change places
    (MMA, r"\1 0 ], \2, \3, \4, %p14;", 1),  # each step starts anew
    (r"@%p\d+ " + MMA, "", 0),
    (r"@%p\d+ " + MMA, "", 1),
    (r"67698704", "67699856", 1),  # bf16 operands
    (r"67698704", "67698720", 1),  # another type of the sum
    (r"(tcgen05\.st.*16, \{)%r51", r"\1%r60", 0),  # what is there where K is 0
    (r"@%p15 (tcgen05\.commit)", r"@!%p15 \1", 0),  # 31 lanes commit
    (r"@%p\d+ tcgen05\.commit\S+ \[%r70\];", "", 1),
    (r"(?s)\{\s*\.reg \.pred complete;.*?\}", "", 0),  # no wait
    (r"(?s)\{\s*\.reg \.pred complete;.*?\}", "", 1),
    (r"(mbarrier\.init.*\n\s*// end inline asm\n\s*)bar\.sync\s+0;", r"\1", 0),  # a race
])
def test_what_counts_shows(pattern: str, by: str, which: int) -> None:
    found = _walked(_changed(pattern, by, which))
    assert not same(_walked(_kernel(ONE_STAGE).text), found)[0]


def test_a_first_step_on_zeros_is_a_first_step() -> None:
    """The columns were filled with zeros: whether they are read or not is the same."""
    found = _walked(_changed(r"mov\.pred\s+%p14, 0;", "mov.pred %p14, -1;"))
    assert found.modelled
    assert same(_walked(_kernel(ONE_STAGE).text), found)[0]


def test_a_wait_for_another_phase_is_none() -> None:
    text = _kernel(ONE_STAGE).text
    assert "mov.b32 \t%r71, 0;" in text
    found = _walked(text.replace("mov.b32 \t%r71, 0;", "mov.b32 \t%r71, 1;"))
    assert not same(_walked(text), found)[0]


@cache
def _of_the_rows() -> dict[str, str]:
    return {t["name"]: t["asm"] for t in read_parts("texts", PARTITION)
            if t["target"] == "sm_100" and t["row"] == "gemm_bias_relu"}


def _carried() -> str:
    """A loop that carries whether its first step takes the sum: Triton 3.6, one stage."""
    found = _of_the_rows()["gemm_bias_relu-BK64_BM128_BN32_GM4_fuse1_s1_w4"]
    assert re.search(r"mov\.pred\s+%p41, 0;", found)
    return found


def _from_one(found: str) -> str:
    """What stands in the columns before the loop is 1."""
    at = found.index("@%p2 tcgen05.st")
    end = found.index(";", at)
    moved = found[at:end].replace("%r321", "%one")
    assert moved != found[at:end]
    return f"{found[:at]}{{.reg .b32 %one; mov.b32 %one, 0x3F800000; {moved};}}{found[end + 1:]}"


def test_a_first_step_that_takes_zeros_is_one_onto_zeros() -> None:
    """In iteration 0 of a loop, whose template is the step onto a running sum."""
    plain = _walked(_of_the_rows()["gemm_bias_relu-BK32_BM32_BN32_GM4_fuse1_s1_w4"])
    found = _walked(_carried())
    assert found.modelled, found.findings
    assert same(plain, found)[0]
    onto = re.sub(r"mov\.pred\s+%p41, 0;", "mov.pred %p41, -1;", _carried())
    assert same(plain, _walked(onto))[0]
    for text in (_from_one(_carried()), _from_one(onto)):  # where K is 0, and everywhere
        assert not same(found, _walked(text))[0]
    assert not same(_walked(_from_one(_carried())), _walked(_from_one(onto)))[0]


def _generic(widened: str) -> str:
    """The kernel with commits that name no space, as Triton 3.6 prints them."""
    text, count = re.subn(
        r"(@%p\d+) (tcgen05\.commit\S+)\.shared::cluster\.b64 \[%r70\];",
        rf"{{.reg .b64 %wide; {widened} \1 \2.b64 [%wide];}}", _kernel(ONE_STAGE).text)
    assert count == 2
    return text


@pytest.mark.parametrize("widened", [
    "cvt.u64.u32 %wide, %r70;",
    "cvt.u64.u32 %wide, %r70; cvta.shared.u64 %wide, %wide;",
])
def test_a_commit_that_names_no_space(widened: str) -> None:
    text = _generic(widened)
    found = _walked(text)
    assert found.modelled
    assert "commit-address" in found.premises
    assert same(_walked(_kernel(ONE_STAGE).text), found)[0]
    runs = [replay(program_of(t), Launch.from_json(_kernel(ONE_STAGE).launch))
            for t in (_kernel(ONE_STAGE).text, text)]
    assert first_difference(*runs) is None


@pytest.mark.parametrize("widened", [
    "cvt.u64.u32 %wide, %r70; add.s64 %wide, %wide, 0x40000000;",
    "cvt.u64.u32 %wide, %r70; sub.s64 %wide, %wide, 0x10000000;",
    "cvt.u64.u32 %wide, %r70; add.s64 %wide, %wide, 8;",
])
def test_a_commit_to_what_is_no_mbarrier(widened: str) -> None:
    """Outside of shared memory, or beside the mbarrier: a finding, not a crash."""
    text = _generic(widened)
    found = _walked(text)
    assert not found.modelled
    assert "internal" not in {f.code for f in found.findings}
    assert not replay(program_of(text), Launch.from_json(_kernel(ONE_STAGE).launch)).usable


def test_columns_are_registers() -> None:
    program = program_of(_kernel(ONE_STAGE).text)
    more = with_columns(program)
    assert len(more.reg_widths) == len(program.reg_widths) + 32
    columns = tuple(range(len(program.reg_widths), len(more.reg_widths)))

    def named(name: str, action: str = "") -> list[Op]:
        return [op for op in more.ops if op.name == name and getattr(
            op.attr, "action", "") == action]

    assert all(op.dst == columns and op.src[-32:] == columns
               for op in (*named("mma"), *named("tmem", "st")))
    load, = named("tmem", "ld")
    assert len(load.dst) == 16
    assert load.src[-32:] == columns
    plain = program_of(_kernel(BY_WARPS).text)
    assert with_columns(plain) is plain


def test_two_allocations_are_not_modelled() -> None:
    text = _kernel(ONE_STAGE).text
    alloc = re.search(r"@%p1 tcgen05\.alloc.*;", text)
    assert alloc is not None
    twice = text.replace(alloc[0], f"{alloc[0]}\n{alloc[0]}")
    program = program_of(twice)
    assert with_columns(program) is program
    assert not _walked(twice).modelled


@pytest.mark.parametrize(("bits", "known"), [
    (67698704, True), (67698704 | 4, False), (67698704 | 8, False), (67698704 & ~(3 << 4), False)])
def test_instruction_descriptors(bits: int, known: bool) -> None:
    """Sparse and saturating steps and f16 sums are not modelled."""
    step = next(op.attr for op in program_of(_kernel(ONE_STAGE).text).ops if op.name == "mma")
    found = resolve(step, bits)
    assert (found is not None) == known
    if found is not None:
        assert (found.m, found.n, found.a.type, found.b.type, found.d_type) == (
            64, 32, "f16", "f16", "f32")


LOAD = r"tcgen05\.ld\.sync[^;]*;"
STORED, LOADED = r"tcgen05\.wait::st[^;]*;", r"tcgen05\.wait::ld[^;]*;"
ARRIVED = r"(?s)\{\s*\.reg \.pred complete;.*?\n\}"
COMMIT = r"@%p15 (tcgen05\.commit[^;]*;)"
FEW = """
    .reg .pred %pz;
    .reg .b32 %rz;
    ld.param.b32 %rz, [gemm_param_5];
    setp.lt.s32 %pz, %rz, 40;
    @%pz bra $short;
"""
THREAD = """
    .reg .pred %pz;
    .reg .b32 %rz;
    mov.u32 %rz, %tid.x;
    setp.eq.u32 %pz, %rz, 1;
"""
WHERE_LONG = FEW.replace("\n", "\n") + r"\g<0>" + "\n$short:\n"  # where K is 40 or more
AGAIN = "tcgen05.st.sync.aligned.16x32bx2.x16.b32 [%r103 + 0], 16, {" + ", ".join(
    16 * ["%r18"]) + "};"


@pytest.mark.parametrize(("pattern", "by", "which"), [
    (STORED, "", 0),  # before the first step
    (STORED, WHERE_LONG, 0),
    (STORED, "", 2),  # before the sum is read: where K is 0 nobody else waits
    (ARRIVED, WHERE_LONG, 0),
    (ARRIVED, WHERE_LONG, 1),  # in the loop
    (LOADED, AGAIN + r"\g<0>", 0),  # over columns that are still read
    (COMMIT, THREAD + r"@%pz \1", 0),  # of another thread's steps
    (r"bar\.sync\s+0;", "", 2),  # after the stores of other threads
    (r"bar\.sync\s+0;", "", 4),  # between a wait for an mbarrier and its end
])
def test_what_is_under_way_in_tensor_memory(pattern: str, by: str, which: int) -> None:
    text = _kernel(ONE_STAGE).text
    found = _walked(_changed(pattern, by, which))
    assert not found.modelled
    assert not same(_walked(text), found)[0]


@pytest.mark.parametrize(("pattern", "by", "which"), [
    (STORED, "", 1),  # whoever gets there has waited
    (STORED, r"\g<0>\g<0>", 0),
    (LOADED, r"\g<0>" + AGAIN, 0),
    (LOADED, "", 0),  # its registers are the assembler's business, see the premise
])
def test_what_is_over_in_tensor_memory(pattern: str, by: str, which: int) -> None:
    found = _walked(_changed(pattern, by, which))
    assert found.modelled, found.findings
    assert same(_walked(_kernel(ONE_STAGE).text), found)[0]
    assert "tmem-waits" in found.premises


def test_registers_of_a_load_after_its_wait_rest_on_nothing() -> None:
    text = _changed(LOADED, "")
    found = _walked(re.sub(LOAD, r"\g<0>\ntcgen05.wait::ld.sync.aligned;", text))
    assert found.modelled
    assert "tmem-waits" not in found.premises


@pytest.mark.parametrize(("pattern", "by", "which", "fails"), [
    (STORED, "", 0, True), (STORED, "", 1, False), (LOADED, AGAIN + r"\g<0>", 0, True),
    (LOADED, r"\g<0>" + AGAIN, 0, False), (ARRIVED, WHERE_LONG, 1, False),
    (ARRIVED, WHERE_LONG.replace("setp.lt", "setp.ge"), 1, True),
    (COMMIT, THREAD + r"@%pz \1", 0, True)])
def test_the_replay_looks_for_the_same(pattern: str, by: str, which: int, fails: bool) -> None:
    """At K = 304: the loop is long."""
    run = replay(program_of(_changed(pattern, by, which)),
                 Launch.from_json(_kernel(ONE_STAGE).launch))
    assert run.usable != fails, run.reasons()


def test_fences_of_tensor_memory_are_a_listed_premise() -> None:
    kernel = next(k for k in load_set("sm_100") if "tcgen05.ld" in k.text)
    plain = next(k for k in load_set("sm_100") if "tcgen05" not in k.text)
    assert "tmem-fences" in program_of(kernel.text).premises
    assert "tmem-fences" not in program_of(plain.text).premises


def test_fences_between_stores_and_units_are_a_listed_premise() -> None:
    """Threads fill the tiles that wgmma reads by cp.async; mma.sync reads registers."""
    kernels = load_set("sm_90")
    unit = next(k for k in kernels if "wgmma.mma_async" in k.text and "cp.async" in k.text)
    registers = next(k for k in kernels if "mma.sync" in k.text and "cp.async" in k.text)
    assert "proxy-fences" in program_of(unit.text).premises
    assert "proxy-fences" not in program_of(registers.text).premises
