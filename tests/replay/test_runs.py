"""Operations done at once are done as if one by one: same maps, same findings at the same lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from checker.cfg import build_cfg
from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, batch, decode, replay
from checker.replay.matrix_runs import matrix_runs
from tests.replay.listing import facts, text
from tests.replay.test_matrix import LOAD, STORE, k8, k16, s8
from tests.replay.test_real import DATA
from tests.replay.test_real import facts as real_facts
from tests.replay.test_real import source as real_source

A, B = k16(), k16("{%r10,%r11,%r12,%r13}", "{%r12,%r13}")
MORE = "{%f5,%f6,%f7,%f8}"
ZERO = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(5, 9))
OTHER = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {MORE}, {{%r10,%r11,%r12,%r13}}, " \
        f"{{%r14,%r15}}, {MORE};\n"
SUM = "".join(f"add.f32 %f{i}, %f{i}, %f{i + 4};\n" for i in range(1, 5))


def _none(*_: Any) -> Iterator[Any]:
    return iter(())


def _both(monkeypatch: pytest.MonkeyPatch, source: str, launch: Any
          ) -> tuple[ReplayResult, ReplayResult]:
    """The replay with runs, and with every operation alone."""
    program = lower(parse(source))
    together = replay(program, launch)
    monkeypatch.setattr(decode, "matrix_runs", _none)
    monkeypatch.setattr(decode, "_memory_runs", _none)
    monkeypatch.setattr(batch, "runs", _none)
    return together, replay(program, launch)


def _equal(a: ReplayResult, b: ReplayResult) -> bool:
    return a.digest == b.digest and a.reasons() == b.reasons() and a.premises == b.premises


def _matrix(body: str) -> tuple[str, dict[str, Any]]:
    launch = facts(elements=384, dtype="f16")
    launch["args"][1]["elements"] = 128
    return text(LOAD + ZERO + body + STORE, 32), launch


def _run_lengths(source: str) -> list[int]:
    program = lower(parse(source))
    found = matrix_runs(program, build_cfg(program).block_of, decode.operands)
    return [len(places) for places, _ in found]


@pytest.mark.parametrize("name", sorted({p.stem for p in DATA.glob("*.json")}))
def test_compiled_kernels_have_the_same_map(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _equal(*_both(monkeypatch, real_source(name), real_facts(name)))


@pytest.mark.parametrize(("body", "lengths"), [
    (A + B + A, [3]),
    (A + OTHER + B + OTHER + SUM, [4]),
    (A + "mov.u32 %r20, 7;\n" + OTHER + SUM, [2]),
    # an operand changes in between
    (A + "mov.u32 %r14, %r10;\n" + A, []),
    (A + "ld.global.u32 %r14, [%rd4+64];\n" + B, []),
    # a result is read, or overwritten, in between
    (A + "mov.f32 %f9, %f1;\n" + A + "mov.f32 %f1, %f9;\n", []),
    (A + "mov.f32 %f1, 0f00000000;\n" + A, []),
    # another accumulator's registers, half of them
    (A + k16(c="{%f1,%f2,%f7,%f8}"), []),
    # a result is an operand
    (A + k16("{%f1,%r11,%r12,%r13}"), []),
    # steps of another kind
    (A + k8("{%r10,%r11}", "{%r14}") + A, []),
    # an accumulator is read after it was overwritten under another name
    (k16(c=MORE) + OTHER + k16(c=MORE), [3]),
    ("setp.lt.s32 %p1, %r2, 3;\n" + A + "@%p1 bra skip;\n" + B + "skip:\n", []),
])
def test_runs_of_matrix_steps(body: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
                              ) -> None:
    source, launch = _matrix(body)
    assert _run_lengths(source) == lengths
    one, other = _both(monkeypatch, source, launch)
    assert one.usable
    assert _equal(one, other)


def _second(step: str) -> str:
    """The same step onto another accumulator."""
    return step.replace("{%r50,%r51,%r52,%r53}", "{%r54,%r55,%r56,%r57}")


@pytest.mark.parametrize(("body", "lengths"), [
    (s8(False) * 3, [3]),
    (s8(True) + _second(s8(True)) + s8(True), [3]),
    (s8(False) + "mov.u32 %r14, %r10;\n" + s8(False), []),
    (s8(False) + s8(True), []),
    # one of two accumulators may leave the range: each has a bound of its own
    ("mov.b32 %r54, 2147483000;\n" + s8(True) + _second(s8(True)) + s8(True), [3]),
])
def test_runs_of_integer_steps(body: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
                               ) -> None:
    before = "".join(f"mov.b32 %r{r}, 0;\n" for r in range(50, 58))
    after = "".join(f"add.s32 %r{r}, %r{r}, %r{r + 4};\nmov.b32 %f{r - 49}, %r{r};\n"
                    for r in range(50, 54))
    source, launch = _matrix(before + body + after)
    assert _run_lengths(source) == lengths
    one, other = _both(monkeypatch, source, launch)
    assert one.usable
    assert _equal(one, other)


@pytest.mark.parametrize("body", [A + B, A + OTHER + SUM, "mov.f32 %f1, %f60;\n" + A + B])
def test_a_run_onto_an_accumulator_that_nobody_wrote(body: str, monkeypatch: pytest.MonkeyPatch
                                                     ) -> None:
    source, launch = _matrix(body)
    source = source.replace("mov.f32 %f2, 0f00000000;", "")
    one, other = _both(monkeypatch, source, launch)
    assert {f.code for f in one.findings} == {"undefined"}
    assert one.reasons() == other.reasons()


FILL = """
    ld.global.u32 %r10, [%rd4];
    st.shared.u32 [%r5], %r10;
    st.shared.u32 [%r5+128], %r10;
    bar.sync 0;
    mul.lo.s32 %r6, %r1, 8;
    shl.b32 %r6, %r6, 1;
    and.b32 %r6, %r6, 127;
    add.s32 %r6, %r4, %r6;
    add.s32 %r7, %r6, 128;
"""
READ = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r20, %r21}, [%r6];\n"
AGAIN = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r22, %r23}, [%r7];\n"
OUT = """
    st.global.u32 [%rd5], %r20;
    st.global.u32 [%rd5+128], %r21;
    st.global.u32 [%rd5+256], %r22;
    st.global.u32 [%rd5+384], %r23;
"""


@pytest.mark.parametrize("body", [
    READ + AGAIN,
    READ + "add.s32 %r7, %r7, 0;\n" + AGAIN,
    # the address changes, a result is read, memory changes in between
    READ + "mov.u32 %r6, %r7;\n" + AGAIN,
    READ + "add.s32 %r7, %r7, 0;\nmov.u32 %r24, %r20;\nmov.u32 %r20, %r24;\n" + AGAIN,
    READ + "st.shared.u32 [%r5+128], %r1;\nbar.sync 0;\n" + AGAIN,
    READ + "st.shared.u32 [%r5], %r1;\nbar.sync 0;\n" + AGAIN,
    # the second one leaves shared memory: the finding is at its line
    READ + "add.s32 %r7, %r7, 16384;\n" + AGAIN,
    READ + "add.s32 %r7, %r7, 2;\n" + AGAIN,
])
def test_runs_of_matrix_loads(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = facts(elements=256, dtype="f16", out="u32")
    one, other = _both(monkeypatch, text(FILL + body + OUT, 32), launch)
    assert _equal(one, other)


ONE, TWO = "ld.global.u32 %r10, [%rd4];\n", "ld.global.u32 %r11, [%rd4+128];\n"
BELOW = "setp.lt.u32 %p1, %r1, 7;\nsetp.gt.u32 %p2, %r1, 4;\nmov.u32 %r10, 1;\nmov.u32 %r11, 2;\n"
KEPT = "st.global.u32 [%rd5], %r10;\nst.global.u32 [%rd5+128], %r11;\n"


@pytest.mark.parametrize(("body", "lengths"), [
    (ONE + TWO, [2]),
    (ONE + "add.s32 %r12, %r1, 1;\n" + TWO, [2]),
    (ONE + "ld.global.u32 %r11, [%rd5+64];\n", [2]),
    (ONE + "ld.global.v2.u16 {%h1, %h2}, [%rd4+256];\nld.global.v2.u16 {%h3, %h4}, [%rd4+64];\n"
     "mov.b32 %r11, {%h2, %h3};\n", [2]),
    ("st.shared.u32 [%r5], %r1;\nld.shared.u32 %r10, [%r5];\nld.shared.u32 %r11, [%r5];\n", [2]),
    # each under a guard of its own; of no lane; in a part of the lanes
    (BELOW + "@%p1 " + ONE + "@%p2 " + TWO, [2]),
    (BELOW + "@%p1 " + ONE + "@!%p1 " + TWO, [2]),
    (BELOW + ONE + "@%p2 " + TWO, [2]),
    (BELOW + "setp.gt.u32 %p3, %r1, 99;\n@%p3 " + ONE + "@%p2 " + TWO, [2]),
    (BELOW + "@%p1 bra skip;\n" + ONE + TWO + "skip:\n", [2]),
    # the address, or what was loaded, changes in between; so does memory
    ("mov.u64 %rd6, %rd4;\nld.global.u32 %r10, [%rd6];\nadd.s64 %rd6, %rd6, 4;\n"
     "ld.global.u32 %r11, [%rd6];\n", []),
    (ONE + "mov.u32 %r10, %r1;\n" + TWO, []),
    (ONE + "st.global.u32 [%rd5], %r10;\nld.global.u32 %r11, [%rd5];\n", []),
    ("st.shared.u32 [%r5], %r1;\nld.shared.u32 %r10, [%r5];\nst.shared.u32 [%r5], %r3;\n"
     "ld.shared.u32 %r11, [%r5];\n", []),
    (ONE + "ld.volatile.global.u32 %r11, [%rd4+128];\n", []),
    # whether the second one happens depends on data
    ("ld.global.u32 %r12, [%rd4];\nsetp.lt.u32 %p3, %r12, 7;\nmov.u32 %r11, 2;\n" + ONE
     + "@%p3 " + TWO, [2]),
])
def test_runs_of_loads(body: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    source = text(body + KEPT, 32)
    program = lower(parse(source))
    assert [len(places) for places, _ in decode._memory_runs(
        program, build_cfg(program).block_of)] == lengths
    one, other = _both(monkeypatch, source, facts(dtype="u32", out="u32"))
    assert one.usable
    assert _equal(one, other)


@pytest.mark.parametrize("body", [
    ONE + "ld.global.u32 %r11, [%rd4+4096];\n",  # outside
    "ld.global.u32 %r10, [%rd4+4096];\n" + TWO,
    ONE + "ld.global.u32 %r11, [%rd4+2];\n",  # misaligned
    "ld.shared.u32 %r10, [%r5];\nld.shared.u32 %r11, [%r5+128];\n",  # nobody wrote there
    "st.shared.u32 [%r5], %r1;\nxor.b32 %r6, %r5, 4;\nld.shared.u32 %r10, [%r5];\n"
    "ld.shared.u32 %r11, [%r6];\n",  # another lane's, without a barrier
    ONE + "@%p5 " + TWO,  # a guard that nobody wrote
])
def test_runs_of_loads_with_findings(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = _both(monkeypatch, text(body + KEPT, 32), facts(dtype="u32", out="u32"))
    assert not one.usable
    assert _equal(one, other)


COPY = """
    mul.lo.s32 %r6, %r1, 4;
    add.s32 %r7, %r5, 512;
    add.s64 %rd6, %rd4, 128;
    {first}
    {between}
    cp.async.ca.shared.global [%r7], [%rd6], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    ld.shared.u32 %r20, [%r5];
    ld.shared.u32 %r21, [%r5+512];
    st.global.u32 [%rd5], %r20;
    st.global.u32 [%rd5+128], %r21;
"""
FIRST = "cp.async.ca.shared.global [%r5], [%rd4], 4;"


@pytest.mark.parametrize(("between", "usable"), [
    ("", True),
    ("add.s64 %rd6, %rd6, 0;", True),
    ("mov.u32 %r22, 0;", True),
    # the second one overwrites what the first is bringing, or reads outside: both are reported
    ("mov.u32 %r7, %r5;", False),
    ("add.s64 %rd6, %rd6, 65536;", False),
    ("cp.async.commit_group;", True),
    ("st.shared.u32 [%r5], %r1;", False),
])
def test_runs_of_asynchronous_copies(between: str, usable: bool, monkeypatch: pytest.MonkeyPatch
                                     ) -> None:
    source = text(COPY.format(first=FIRST, between=between), 32)
    one, other = _both(monkeypatch, source, facts(elements=64, dtype="u32", out="u32"))
    assert one.usable == usable
    assert _equal(one, other)


MULS = "".join(f"mul.rn.f32 %f{i + 20}, %f{i}, %f{i};\n" for i in range(5, 9))


def _batches(source: str) -> list[int]:
    program = lower(parse(source))
    cfg = build_cfg(program)
    late = [p for p, _ in matrix_runs(program, cfg.block_of, decode.operands)]
    return [len(places) for places in batch.runs(program, cfg.block_of, late)]


@pytest.mark.parametrize(("body", "lengths"), [
    # neighbours, and what lies between them touches none of their registers
    (MULS + SUM, [4, 4]),
    (MULS.replace(";\n", ";\nmov.u32 %r20, %r21;\n") + SUM, [4, 4]),
    (MULS.replace(";\n", ";\nst.global.f32 [%rd5], %f2;\n"), [4]),
    # an operand is written in between, or the result of one is read or written before the next
    (MULS[:-1] + "mov.f32 %f9, %f1;\n" + "mul.rn.f32 %f30, %f9, %f9;\n", [4]),
    ("mul.rn.f32 %f20, %f5, %f5;\nmul.rn.f32 %f21, %f6, %f6;\nadd.rn.f32 %f7, %f1, %f2;\n"
     "mul.rn.f32 %f22, %f7, %f7;\nmul.rn.f32 %f23, %f8, %f8;\nadd.rn.f32 %f1, %f22, %f23;\n", []),
    ("mul.rn.f32 %f20, %f5, %f5;\nmul.rn.f32 %f21, %f6, %f6;\nmov.f32 %f1, %f22;\n"
     "mul.rn.f32 %f22, %f7, %f7;\nmul.rn.f32 %f23, %f8, %f8;\n", []),
    ("mul.rn.f32 %f20, %f5, %f5;\nmul.rn.f32 %f21, %f6, %f6;\nmov.f32 %f23, %f1;\n"
     "mul.rn.f32 %f22, %f7, %f7;\nmul.rn.f32 %f23, %f8, %f8;\nmov.f32 %f1, %f23;\n", []),
    # matrix steps that are delayed past the first product: their results are not ready there, and
    # what they read may not be overwritten before
    (A + MULS + OTHER + "".join(f"mul.rn.f32 %f{i + 30}, %f{i}, %f{i};\n" for i in range(1, 5))
     + "".join(f"mov.f32 %f{i}, %f{i + 30};\n" for i in range(1, 5)), [4, 4]),
    (A + "".join(f"mul.rn.f32 %f{i + 40}, %f2{i}, %f2{i};\n" for i in range(4)) + OTHER
     + "mul.rn.f32 %f5, %f20, %f20;\nmul.rn.f32 %f30, %f1, %f1;\nmov.f32 %f1, %f30;\n", [4]),
])
def test_runs_of_float_operations(body: str, lengths: list[int], monkeypatch: pytest.MonkeyPatch
                                  ) -> None:
    before = "".join(f"mov.f32 %f{i}, 0f3F800000;\n" for i in range(20, 24))
    source, launch = _matrix(before + body)
    assert _batches(source) == lengths
    one, other = _both(monkeypatch, source, launch)
    assert one.usable
    assert _equal(one, other)


def test_a_square_in_a_run_is_a_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never -0, whatever the other products of its run are: adding +0 changes nothing."""
    loads = "".join(f"ld.global.f32 %f{i}, [%rd4+{128 * i}];\n" for i in range(1, 5))
    products = "".join(f"mul.rn.f32 %f{i + 10}, %f{a}, %f{b};\n" for i, (a, b) in enumerate(
        ((1, 2), (1, 1), (3, 4), (2, 2))))
    stores = "".join(f"st.global.f32 [%rd5+{128 * i}], %f{i + 10};\n" for i in range(4))
    plus = "".join(f"add.rn.f32 %f{i}, %f{i}, 0f00000000;\n" for i in (11, 13))
    launch = facts(elements=256, dtype="f32")
    launch["args"][1]["elements"] = 128
    assert _batches(text(loads + products + plus + stores, 32)) == [4]
    one, other = _both(monkeypatch, text(loads + products + plus + stores, 32), launch)
    assert one.usable, one.reasons()
    assert _equal(one, other)
    assert one.digest == replay(lower(parse(text(loads + products + stores, 32))), launch).digest
