"""Kernels whose text fixes no block size: declared, out of launch facts, or their launch bounds."""

from __future__ import annotations

import importlib
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from checker import KernelInput, api
from checker.errors import UsageError
from checker.premises import explain
from corpus.load import load_set
from tests.kernels import ptx

EXAMPLES = Path(__file__).parents[1] / "corpus/examples"
confirm = importlib.import_module("checker.tree.confirm")

#: one partial sum a warp through shared memory, of elements that lie a block's width apart
SUM = """
    .shared .align 4 .b8 part[128];
    mov.f32 %f1, 0f00000000;
    mov.u32 %r3, %r1;
    STEP
    $loop:
    mul.wide.u32 %rd4, %r3, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.f32 %f2, [%rd5];
    add.rn.f32 %f1, %f1, %f2;
    add.s32 %r3, %r3, %r4;
    setp.lt.u32 %p1, %r3, 512;
    @%p1 bra $loop;
    shl.b32 %r5, %r1, 2;
    mov.u32 %r6, part;
    and.b32 %r7, %r1, 31;
    setp.lt.u32 %p2, %r1, 32;
    add.s32 %r5, %r6, %r5;
    @%p2 st.shared.f32 [%r5], %f1;
    bar.sync 0;
    @!%p2 bra $done;
    ld.shared.f32 %f3, [%r5];
    mul.wide.u32 %rd6, %r1, 4;
    add.s64 %rd7, %rd2, %rd6;
    st.global.f32 [%rd7], %f3;
    $done:
"""
LITERAL = SUM.replace("STEP", "mov.u32 %r4, 128;")
READ = SUM.replace("STEP", "mov.u32 %r4, %ntid.x;")


def kernel(body: str, bounds: str = ".maxntid 128, 1, 1") -> str:
    return ptx(body, "u64 u64", threads=128).replace(".reqntid 128", bounds)


def launch(threads: int) -> dict[str, Any]:
    return {"grid": [1, 1, 1], "block": [threads, 1, 1], "args": [
        {"buffer": "x", "dtype": "f32", "elements": 1024, "role": "in"},
        {"buffer": "y", "dtype": "f32", "elements": 32, "role": "out"}]}


def test_launch_bounds_are_a_listed_premise() -> None:
    bounded, fixed = api.sign(kernel(LITERAL)), api.sign(kernel(LITERAL, ".reqntid 128"))
    assert bounded.modelled
    assert bounded.text == fixed.text
    assert "block:128x1x1" in bounded.premises
    assert not any(code.startswith("block:") for code in fixed.premises)
    assert "launch bounds" in explain("block:128x1x1")


def test_a_text_that_reads_its_block_size_is_not_taken_to_have_the_largest() -> None:
    read = api.sign(kernel(READ))
    assert not read.modelled
    assert "--assume block:128" in read.opaque[0].text + "".join(f.message for f in read.findings)
    assert api.compare(kernel(READ), kernel(LITERAL)).kind == "unproved"


def test_no_bounds_and_no_declaration_is_not_modelled() -> None:
    assert not api.sign(kernel(LITERAL, "")).modelled
    assert api.sign(kernel(LITERAL, ""), assume=("block:128",)).modelled


def test_the_pair_that_is_equal_at_one_block_size_only() -> None:
    at_128 = api.compare(kernel(READ), kernel(LITERAL), launch_a=launch(128))
    assert (at_128.kind, at_128.basis) == ("equal", "static")
    assert "block:128x1x1" in at_128.premises
    at_64 = api.compare(kernel(READ), kernel(LITERAL), launch_a=launch(64))
    assert at_64.kind == "unequal"
    assert api.compare(kernel(READ), kernel(LITERAL), assume=("block:128",)).equal
    assert not api.compare(kernel(READ), kernel(LITERAL), assume=("block:64",)).equal


def test_each_kernel_has_the_block_size_of_its_own_launch() -> None:
    narrow = LITERAL.replace("128;", "64;").replace("$loop", "$loop64").replace("$done", "$done64")
    verdict = api.compare(kernel(LITERAL), kernel(narrow), launch_a=launch(128),
                          launch_b=launch(64))
    assert verdict.kind == "unequal"  # another order, and no complaint about either size
    same = api.compare(kernel(LITERAL), kernel(LITERAL, ".maxntid 512"), launch_a=launch(128))
    assert same.equal


@pytest.mark.parametrize("body", [READ, READ.replace("add.rn", "add.rz.sat"),
                                  READ.replace("bar.sync 0;", "bar.sync 0, 64;")])
def test_one_text_at_two_block_sizes_is_two_kernels(body: str) -> None:
    """The text alone does not say how many threads share its work, modelled or not."""
    text = kernel(body)
    facts = launch(64), launch(128)
    assert not api.compare(text, text, launch_a=facts[0], launch_b=facts[1]).equal
    assert api.compare(text, text, launch_a=facts[0]).equal
    pair = [KernelInput(f"at {f['block'][0]}", text, launches=(f,)) for f in facts]
    for static in (False, True):
        assert not any(len(c.members) > 1 for c in api.partition(pair, static=static).classes)
    twins = [pair[0], KernelInput("again", text, launches=(facts[0],))]
    assert [c.members for c in api.partition(twins).classes] == [("at 64", "again")]


def test_one_text_at_two_grids_is_two_kernels_unless_it_is_modelled() -> None:
    text = kernel(READ.replace("bar.sync 0;", "bar.sync 0, 64;"))
    wide = {**launch(128), "grid": [2, 1, 1]}
    verdict = api.compare(text, text, launch_a=launch(128), launch_b=wide)
    assert verdict.basis != "static"
    assert {"same-grid", "same-block"} <= set(api.compare(text, text).premises)


def test_launch_facts_that_contradict_a_declaration_are_said() -> None:
    verdict = api.compare(kernel(READ), kernel(LITERAL), assume=("block:128",), launch_a=launch(64))
    assert verdict.kind == "unproved"
    assert any("block is 64x1x1" in reason.message for reason in verdict.reasons)


def test_a_partition_signs_at_the_block_size_of_the_launches() -> None:
    found = api.partition([KernelInput(name, text, launches=(launch(128),)) for name, text in
                           (("read", kernel(READ)), ("literal", kernel(LITERAL, "")))],
                          static=True)
    assert [c.members for c in found.classes] == [("read", "literal")]
    assert found.classes[0].basis == "static"
    two = api.partition([KernelInput(name, text, launches=(launch(64),)) for name, text in
                         (("read", kernel(READ)), ("literal", kernel(LITERAL)))], static=True)
    assert len(two.classes) == 2


def test_launches_of_several_sizes_leave_the_bounds_no_say() -> None:
    examined = api.examine(KernelInput("k", kernel(LITERAL), launches=(launch(128), launch(64))))
    assert not examined.signature.modelled
    assert examined.launch_signature is not None


@pytest.mark.parametrize(("text", "declared", "said"), [
    (kernel(LITERAL, ".reqntid 128"), ("block:64",), "fixes block:128x1x1"),
    (kernel(LITERAL), ("block:16x16",), "128 threads at most"),
    (kernel(LITERAL), ("block:64", "block:128"), "several block sizes"),
    (kernel(LITERAL), ("block:0",), "cannot assume `block:0`"),
    (kernel(LITERAL), ("block:4x4x4x4",), "cannot assume `block:4x4x4x4`"),
])
def test_what_cannot_be_declared_is_said(text: str, declared: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        api.sign(text, assume=declared)


@pytest.mark.parametrize("bounds", [".maxntid 0", ".reqntid 0, 1, 1", ".maxntid 4096"])
def test_sizes_that_no_block_has_are_no_sizes(bounds: str) -> None:
    assert not api.sign(kernel(LITERAL, bounds)).modelled


def test_lanes_that_a_partial_warp_lacks_hold_nothing() -> None:
    body = """
        mul.wide.u32 %rd4, %r1, 4;
        add.s64 %rd5, %rd1, %rd4;
        ld.global.f32 %f1, [%rd5];
        shfl.sync.bfly.b32 %f2, %f1, 16, 31, -1;
        add.rn.f32 %f1, %f1, %f2;
        add.s64 %rd6, %rd2, %rd4;
        st.global.f32 [%rd6], %f1;
    """
    whole = api.sign(ptx(body, threads=64))
    part = api.sign(ptx(body, threads=48))
    assert whole.modelled
    assert not part.modelled
    assert any("never written" in f.message for f in part.findings)


def test_kernels_of_nvcc_are_signed_and_their_merges_replay_to_one_map() -> None:
    kernels = [k for k in load_set("nvcc_sm_90")
               if k.family in ("nvcc_reduce", "nvcc_tree", "nvcc_transpose", "nvcc_norms",
                               "nvcc_matmul")]
    signed = {k.name: api.examine(KernelInput(k.name, k.text, launches=k.launches[:1])).signature
              for k in kernels}
    assert all(s.modelled for s in signed.values())
    merged = [(a, b) for a, b in combinations(kernels, 2)
              if signed[a.name].text == signed[b.name].text and a.launches == b.launches]
    assert len(merged) > 20
    for a, b in merged:
        maps = [api.replay_kernel(k.text, k.launches[0]).digest for k in (a, b)]
        assert maps[0] == maps[1], (a.name, b.name)
    apart = {k.launches[0]["block"][0]: signed[k.name].text for k in kernels
             if k.name.startswith("nvcc_reduce-ORDER0")}
    assert len(set(apart.values())) == 3  # the width is part of the order


def test_what_elements_share_is_confirmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 elements of a row hold the row's mean and variance, 256 loops each."""
    counted: list[str] = []
    compare = confirm._compare
    monkeypatch.setattr(confirm, "_compare", lambda x, y, pairs: (
        counted.append(x.node.op), compare(x, y, pairs))[1])
    texts = [(EXAMPLES / f"layer_norm_{how}.ptx").read_text() for how in ("down", "butterfly")]
    assert api.compare(*texts, assume=("block:256",)).equal
    assert 500 < counted.count("fold") < 1500
