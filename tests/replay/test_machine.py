"""The machine: divergence, sub-word values, atomics, waits, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from checker.errors import LaunchError
from checker.lower import lower
from checker.parse import parse
from checker.replay import ReplayResult, first_difference, replay
from tests.replay.listing import codes, facts, run, text

A, OUT = "ld.global.f32 %f1, [%rd4];\n", "st.global.f32 [%rd5], %f9;\n"
B = "ld.global.f32 %f2, [%rd4+256];\n"


def same(a: str, b: str, **how: object) -> bool:
    one, two = run(a, **how), run(b, **how)  # type: ignore[arg-type]
    assert one.usable, one.reasons()
    assert two.usable, two.reasons()
    return first_difference(one, two) is None


def values(body: str, **how: object) -> list[int]:
    """What 32-bit integer bodies store."""
    zeros = np.zeros(256, dtype=np.uint64)
    inputs = {"x": np.arange(256, dtype=np.uint64), "y": zeros}
    result = run(body + "st.global.u32 [%rd5], %r9;\n", domain="bytes", dtype="i32", out="i32",
                 inputs=inputs, **how)  # type: ignore[arg-type]
    assert result.usable, result.reasons()
    return [int(v) for v in result.outputs["y"].words[1][:64]]


def test_if_and_else_reconverge_before_a_shuffle() -> None:
    body = ("setp.lt.u32 %p1, %r1, 16;\n@%p1 bra L1;\nmov.u32 %r8, 1;\nbra L2;\n"
            "L1:\nmov.u32 %r8, 2;\nL2:\nshfl.sync.idx.b32 %r9, %r8, 0, 31, -1;\n")
    assert values(body) == [2] * 32 + [1] * 32


def test_else_behind_the_end_reconverges_too() -> None:
    body = ("setp.lt.u32 %p1, %r1, 16;\n@%p1 bra FAR;\nmov.u32 %r8, 1;\n"
            "BACK:\nshfl.sync.bfly.b32 %r9, %r8, 16, 31, -1;\nst.global.u32 [%rd5], %r9;\nret;\n"
            "FAR:\nmov.u32 %r8, 2;\nbra BACK;\n")
    result = run(body, domain="bytes", dtype="i32", out="i32", inputs={
        "x": np.zeros(256, dtype=np.uint64), "y": np.zeros(256, dtype=np.uint64)})
    assert result.usable
    got = [int(v) for v in result.outputs["y"].words[1][:64]]
    assert got == [1] * 16 + [2] * 16 + [1] * 32


def test_loops_of_different_length() -> None:
    body = ("and.b32 %r8, %r1, 7;\nmov.u32 %r9, 0;\nL1:\nadd.u32 %r9, %r9, %r8;\n"
            "sub.s32 %r8, %r8, 1;\nsetp.gt.s32 %p1, %r8, 0;\n@%p1 bra L1;\n")
    assert values(body) == [sum(range(t % 8 + 1)) for t in range(64)]


def test_indexed_branch() -> None:
    body = ("and.b32 %r8, %r1, 1;\nT: .branchtargets L0, L1;\nbrx.idx %r8, T;\n"
            "L0:\nmov.u32 %r9, 10;\nbra L2;\nL1:\nmov.u32 %r9, 11;\nL2:\n")
    assert values(body) == [10 + t % 2 for t in range(64)]


@pytest.mark.parametrize(("code", "expected"), [
    ("bfe.u32 %r9, %r1, 2, 3;", lambda t: t >> 2 & 7),
    ("bfi.b32 %r9, %r1, 0xff00, 4, 4;", lambda t: 0xFF00 & ~0xF0 | (t & 15) << 4),
    ("shf.l.wrap.b32 %r9, %r1, %r1, 8;", lambda t: (t << 8 | t >> 24) & 0xFFFFFFFF),
    ("prmt.b32 %r9, %r1, 0x55667788, 0x4410;", lambda t: (t & 0xFFFF) | 0x88880000),
    ("mul.hi.u32 %r9, %r1, 0x80000000;", lambda t: t >> 1),
    ("sub.s32 %r8, 0, %r1;\nshr.s32 %r9, %r8, 1;", lambda t: (-t >> 1) & 0xFFFFFFFF),
    ("rem.u32 %r9, %r1, 7;", lambda t: t % 7),
    ("popc.b32 %r9, %r1;", lambda t: bin(t).count("1")),
    ("vote.sync.ballot.b32 %r9, 1, -1;", lambda t: 0xFFFFFFFF),
    ("activemask.b32 %r9;", lambda t: 0xFFFFFFFF),
    ("redux.sync.add.u32 %r9, %r1, -1;", lambda t: sum(range(t // 32 * 32, t // 32 * 32 + 32))),
])
def test_integer_operations(code: str, expected: object) -> None:
    assert callable(expected)
    assert values(code + "\n") == [expected(t) for t in range(64)]


def test_halves_through_registers_and_memory() -> None:
    load = "ld.global.u32 %r9, [%rd4];\nmov.b32 {%h1, %h2}, %r9;\n"
    swap = load + "mov.b32 %r10, {%h2, %h1};\n"
    a = swap + "st.global.u32 [%rd5], %r10;\n"
    b = swap + ("st.shared.u32 [%r5], %r10;\nld.shared.b16 %h5, [%r5];\n"
                "ld.shared.b16 %h6, [%r5+2];\nst.global.v2.b16 [%rd5], {%h5, %h6};\n")
    c = load + "prmt.b32 %r10, %r9, 0, 0x1032;\nst.global.u32 [%rd5], %r10;\n"
    assert same(a, b, dtype="f16", out="f16")
    assert same(a, c, dtype="f16", out="f16")
    assert same(a, c, dtype="f32", out="f32")
    assert not same(a, load + "st.global.u32 [%rd5], %r9;\n", dtype="f16", out="f16")


def test_a_word_taken_apart_comes_together_again() -> None:
    parts = "".join(f"shr.u32 %r{20 + i}, %r9, {8 * i};\nand.b32 %r{20 + i}, %r{20 + i}, 255;\n"
                    f"shl.b32 %r{30 + i}, %r{20 + i}, {8 * i};\n" for i in range(4))
    join = "or.b32 %r40, %r30, %r31;\nadd.u32 %r41, %r32, %r33;\nor.b32 %r42, %r40, %r41;\n"
    assert same("ld.global.u32 %r9, [%rd4];\n" + parts + join + "st.global.u32 [%rd5], %r42;\n",
                "ld.global.u32 %r9, [%rd4];\nst.global.u32 [%rd5], %r9;\n")


def test_integer_sums_are_order_free_and_float_sums_are_not() -> None:
    load = "ld.global.u32 %r9, [%rd4];\nld.global.u32 %r10, [%rd4+256];\n" \
           "ld.global.u32 %r11, [%rd4+512];\n"
    one = load + "add.u32 %r12, %r9, %r10;\nadd.u32 %r13, %r12, %r11;\n"
    two = load + "sub.u32 %r12, %r11, 5;\nadd.u32 %r14, %r12, %r10;\nadd.u32 %r15, %r14, %r9;\n" \
                 "add.u32 %r13, %r15, 5;\n"
    out = "st.global.u32 [%rd5], %r13;\n"
    assert same(one + out, two + out, dtype="i32", out="i32")
    assert not same(one + out, load + "add.u32 %r13, %r9, %r10;\n" + out, dtype="i32", out="i32")


def test_integer_atomics_are_a_sum() -> None:
    atomic = "ld.global.u32 %r9, [%rd4];\nred.global.add.u32 [%rd2], %r9;\n"
    other = "ld.global.u32 %r9, [%rd4];\nxor.b32 %r8, %r1, 0;\nred.global.add.u32 [%rd2], %r9;\n"
    assert same(atomic, other, dtype="i32", out="i32", grid=1)
    returned = run("ld.global.u32 %r9, [%rd4];\natom.global.add.u32 %r8, [%rd2], %r9;\n"
                   "st.global.u32 [%rd5+128], %r8;\n", dtype="i32", out="i32")
    assert returned.unsupported is not None


def test_branch_on_data_becomes_a_select() -> None:
    branch = (A + "mov.f32 %f9, %f1;\nsetp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 bra L1;\n"
              "add.rn.f32 %f9, %f1, %f1;\nL1:\n" + OUT)
    select = (A + "setp.gt.f32 %p1, %f1, 0f00000000;\nadd.rn.f32 %f2, %f1, %f1;\n"
              "selp.f32 %f9, %f1, %f2, %p1;\n" + OUT)
    assert same(branch, select)
    for guard, alike in (("@!%p1 ", True), ("@%p1 ", False)):  # a path knows its own predicate
        guarded = branch.replace("add.rn", guard + "add.rn")
        assert same(branch, guarded) is alike
    stores = A + ("setp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 bra L1;\n"
                  "st.global.f32 [%rd5], %f1;\nL1:\n")
    refused = run(stores)
    assert refused.unsupported is not None
    assert refused.unsupported.code == "data-dependent"


def test_a_branch_hands_its_predicate_on() -> None:
    """On both paths it is known; behind them it is what it was, or what a path made of it."""
    tested = A + B + "setp.gt.f32 %p1, %f1, 0f00000000;\nmov.f32 %f9, %f1;\n@%p1 bra L1;\n"
    use = "selp.f32 %f9, %f2, %f1, %p1;\n" + OUT
    kept = tested + "mov.f32 %f9, %f2;\nL1:\n" + use
    changed = tested + "setp.gt.f32 %p1, %f2, 0f00000000;\nL1:\n" + use
    assert same(kept, A + B + "setp.gt.f32 %p1, %f1, 0f00000000;\n" + use)
    assert not same(changed, kept)
    assert same(changed, changed.replace("setp.gt.f32 %p1, %f2", "@!%p1 setp.gt.f32 %p1, %f2"))
    undefined = (A + "@%p2 bra L1;\n@!%p2 mov.f32 %f9, %f1;\nL1:\n"
                 "@%p2 mov.f32 %f9, %f1;\n" + OUT)
    assert not run(undefined).usable


def test_named_barriers_order_their_members_only() -> None:
    to = A + "st.shared.f32 [%r5], %f1;\n"
    other = "xor.b32 %r6, %r3, 128;\nadd.s32 %r7, %r4, %r6;\nld.shared.f32 %f9, [%r7];\n"
    assert run(to + "bar.sync 3, 64;\n" + other + OUT).usable
    assert run(to + "bar.arrive 3, 128;\nbar.sync 4, 64;\n" + other + OUT).usable
    wrong = to + "bar.sync %r30, 32;\n" + other + OUT
    assert "race-read" in codes(run("shr.u32 %r30, %r1, 5;\nadd.u32 %r30, %r30, 1;\n" + wrong))


MBAR = """
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [sm+4096], {count};
    bar.sync 0;
    ld.global.f32 %f1, [%rd4];
    st.shared.f32 [%r5], %f1;
    {arrive}
W: mbarrier.try_wait.parity.shared.b64 %p2, [sm+4096], 0;
    @!%p2 bra W;
    xor.b32 %r6, %r3, 128;
    add.s32 %r7, %r4, %r6;
    ld.shared.f32 %f9, [%r7];
    st.global.f32 [%rd5], %f9;
"""


def test_mbarrier_orders_what_arrived_before() -> None:
    arrive = "mbarrier.arrive.shared.b64 %rd20, [sm+4096];"
    assert run(MBAR.format(count=64, arrive=arrive)).usable
    one_warp = "setp.lt.u32 %p3, %r1, 32;\n@%p3 " + arrive
    assert "race-read" in codes(run(MBAR.format(count=32, arrive=one_warp)))
    assert "deadlock" in codes(run(MBAR.format(count=65, arrive=arrive)))


def test_a_kernel_may_not_write_what_is_declared_input() -> None:
    result = run("st.global.u32 [%rd4], %r1;\n")
    assert result.unsupported is not None
    assert result.unsupported.code == "role"


def test_chosen_blocks_write_their_part() -> None:
    from checker.lower import lower
    from checker.parse import parse
    from checker.replay import replay
    from tests.replay.listing import facts, text
    body = ("mov.u32 %r20, %ctaid.x;\nmad.lo.s32 %r21, %r20, 64, %r1;\n"
            "mul.wide.u32 %rd6, %r21, 4;\nadd.s64 %rd7, %rd1, %rd6;\n"
            "add.s64 %rd8, %rd2, %rd6;\nld.global.f32 %f1, [%rd7];\n"
            "st.global.f32 [%rd8], %f1;\n")
    program = lower(parse(text(body)))
    whole = replay(program, facts(grid=4))
    part = replay(program, facts(grid=4), blocks=[(2, 0, 0)])
    written = part.outputs["y"].written
    assert written.sum() == 64
    assert (part.outputs["y"].words[:, written] == whole.outputs["y"].words[:, written]).all()
    difference = first_difference(whole, part)
    assert difference is not None
    assert difference.kind == "coverage-differs"


def test_local_memory_and_calls() -> None:
    body = (".local .align 4 .b8 loc[64];\nmov.u64 %rd9, loc;\nst.local.f32 [%rd9+4], %f1;\n"
            "ld.local.f32 %f9, [%rd9+4];\n")
    assert same(A + body + OUT, A + "mov.f32 %f9, %f1;\n" + OUT)


ONE_BLOCK = (".reqntid 64", ".reqntid 64\n.explicitcluster\n.reqnctapercluster 1, 1, 1")
PUT = "ld.global.f32 %f1, [%rd4];\nst.shared.f32 [%r5], %f1;\n"
GET = "ld.shared::cluster.f32 %f2, [%r9];\nst.global.f32 [%rd5], %f2;\n"
MEET = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"


def _clustered(body: str, before: str = ONE_BLOCK[1]) -> ReplayResult:
    return replay(lower(parse(text(body, 64).replace(ONE_BLOCK[0], before))), facts())


def test_a_cluster_of_one_block_is_a_block() -> None:
    mine = "mapa.shared::cluster.u32 %r9, %r6, %r10;\n"
    other = "xor.b32 %r6, %r3, 128;\nadd.s32 %r6, %r4, %r6;\nmov.u32 %r10, %cluster_ctarank;\n"
    plain = _clustered(PUT + other + "mov.u32 %r9, %r6;\nbar.sync 0;\n" + GET)
    assert plain.usable
    assert _clustered(PUT + other + mine + MEET + GET).digest == plain.digest
    assert _clustered(PUT + other + mine + MEET + GET, ".reqntid 64").digest == plain.digest
    # no barrier, another block's memory, a cluster that may have one
    assert "race-read" in codes(_clustered(PUT + other + mine + GET))
    far = mine.replace("%r10;", "1;")
    assert "out-of-bounds" in codes(_clustered(PUT + other + far + MEET + GET))
    larger = _clustered(PUT + other + mine + MEET + GET, ".reqntid 64\n.reqnctapercluster 2")
    assert not larger.usable


def test_buffers_that_share_memory_do() -> None:
    start = "ld.global.f32 %f1, [%rd4];\nadd.rn.f32 %f2, %f1, %f1;\nst.global.f32 [%rd5], %f2;\n"
    again = start + "ld.global.f32 %f3, [%rd4];\nst.global.f32 [%rd5+256], %f3;\n"
    kept = start + "st.global.f32 [%rd5+256], %f2;\n"
    first = start + "st.global.f32 [%rd5+256], %f1;\n"

    def maps(**alias: object) -> list[str]:
        launch = facts(elements=256)
        launch["args"][0]["role"] = "inout"
        launch["args"][1] |= alias
        results = [replay(lower(parse(text(body))), launch) for body in (again, kept, first)]
        assert all(r.usable for r in results), [r.reasons() for r in results]
        return [r.digest for r in results]

    apart = maps()
    assert apart[0] == apart[2] != apart[1]
    shared = maps(alias="x")
    assert shared[0] == shared[1] != shared[2]
    with pytest.raises(LaunchError, match="buffer y: alias names no buffer"):
        maps(alias="nobody")


def test_index_data_by_rule() -> None:
    gather = """
    ld.global.s32 %r9, [%rd4];
    mul.wide.s32 %rd6, %r9, 4;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.u32 %r10, [%rd7];
    st.global.u32 [%rd5], %r10;
    """
    rules = {"arange": [0, 1], "fill": 3, "modulo": [5, 1, 7]}
    digests = {}
    for rule, value in rules.items():
        result = run(gather, dtype="i32", out="i32", init={rule: value})
        assert result.usable
        digests[rule] = result.digest
    values = [(5 * i + 1) % 7 for i in range(256)]
    assert run(gather, dtype="i32", out="i32", values=values).outputs["y"].words.tolist() == run(
        gather, dtype="i32", out="i32", init={"modulo": [5, 1, 7]}).outputs["y"].words.tolist()
    assert len(set(digests.values())) == 3
    assert run(gather, dtype="i32", out="i32").unsupported is not None
    with pytest.raises(LaunchError, match=r"buffer x.*unknown init"):
        run(gather, dtype="i32", out="i32", init={"random": 1})
