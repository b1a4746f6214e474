"""`samebits describe`: the reduction order in words; one descriptor, one signature."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from checker import api
from checker.cli.app import app
from checker.describe import descriptor, lines
from corpus.load import load_set
from tests.figure4 import listing
from tests.kernels import butterfly, elementwise, ptx

EXAMPLES = Path(__file__).parents[1] / "corpus" / "examples"
FIRST, SECOND = "mul.wide.u32 %rd4, %r1, 4;", "add.s64 %rd6, %rd4, 128;"


def reductions(data: dict[str, Any], output: int = 0) -> list[dict[str, Any]]:
    """The reductions of the first kind of element of an output."""
    found: list[dict[str, Any]] = data["outputs"][output]["orders"][0]["reductions"]
    return found


def committed(name: str) -> dict[str, Any]:
    """The descriptor of a committed kernel."""
    kernel = next(k for k in load_set("sm_90") if k.name == name)
    return descriptor(kernel.text)


def test_two_layouts_of_one_sum_have_one_descriptor() -> None:
    a, b = descriptor(listing(64)), descriptor(listing(32))
    assert a["descriptor"] == b["descriptor"]
    assert a["signature"] == b["signature"]
    (total,) = reductions(a)
    assert (total["kind"], total["leaves"]) == ("sum", 256)
    assert [cut["distance"] for cut in total["cuts"]] == [128, 64, 32, 16, 8, 4, 2, 1]


def test_another_order_of_one_sum_has_another_descriptor() -> None:
    up = descriptor(butterfly(FIRST, SECOND))
    down = descriptor(butterfly(FIRST, SECOND, (16, 8, 4, 2, 1)))
    assert up["descriptor"] != down["descriptor"]
    assert [c["distance"] for c in reductions(up)[0]["cuts"]] == [16, 8, 4, 2, 1, 32]
    assert [c["distance"] for c in reductions(down)[0]["cuts"]] == [1, 2, 4, 8, 16, 32]


def test_descriptors_and_signatures_make_the_same_classes() -> None:
    texts = [path.read_text() for path in sorted((EXAMPLES / "row_sum").glob("*.ptx"))]
    texts += [(EXAMPLES / f"{n}.ptx").read_text() for n in (
        "scale_after", "scale_before", "double", "twice_plus", "tree_1_warp", "tree_4_warps",
        "scales_first", "scales_in_turn", "gemm_k16", "gemm_k64", "figure4_a", "figure4_b")]
    classes = defaultdict(set)
    for text in texts:
        found = descriptor(text)
        assert found["signature"] == api.sign(text).text
        classes[found["signature"]].add(found["descriptor"])
    assert all(len(names) == 1 for names in classes.values())
    assert len({name for names in classes.values() for name in names}) == len(classes)


def test_what_has_no_words_is_in_the_trees_digest() -> None:
    here = descriptor(elementwise("add.rn.f32 %f9, %f1, %f2;"))
    there = descriptor(elementwise("ld.global.f32 %f3, [%rd5+4];\nadd.rn.f32 %f9, %f3, %f2;"))
    assert here["outputs"][0]["orders"] == there["outputs"][0]["orders"]
    assert here["outputs"][0]["tree"] != there["outputs"][0]["tree"]
    assert here["descriptor"] != there["descriptor"]


def test_the_kernels_own_names_do_not_matter() -> None:
    body = "add.rn.f32 %f9, %f1, %f2;"
    one, two = descriptor(elementwise(body, name="one")), descriptor(elementwise(body, name="two"))
    assert (one["kernel"], two["kernel"]) == ("one", "two")
    assert one["descriptor"] == two["descriptor"]


def test_matrix_product() -> None:
    found = descriptor((EXAMPLES / "gemm_k16.ptx").read_text())
    steps, loop = reductions(found)
    assert steps["instruction_k"] == 16
    assert steps["inputs"] == ["f16", "f16"]
    assert steps["accumulator"] == "f32"
    assert steps["k"] == [[0, 15]]
    assert loop["gemm"] == {"instruction_k": 16, "k_cuts": [], "k_loop_step": 16,
                            "accumulator": "carried through the loop"}
    assert "fcvt f32>f16.rn.keep" in found["outputs"][0]["orders"][0]["epilogue"]


def test_k_groups_close_their_accumulators() -> None:
    found = committed("gemm_kgroup-BK32_BM64_BN64_GK2_GM4_s3_w4-sm_90")
    loop = next(r for r in reductions(found) if r["kind"] == "loop")
    assert loop["gemm"]["instruction_k"] == 16
    assert loop["gemm"]["k_cuts"] == [{"span": 64, "layout": "contiguous"}]
    assert loop["gemm"]["accumulator"].startswith("closed")
    assert loop["gemm"]["partial_dtype"] == "f32"
    assert loop["gemm"]["merge_dtype"].startswith("fadd f32.rn")


def test_lanes_that_take_every_nth_element_and_then_a_tree() -> None:
    found = committed("inductor_sum_loop-RB64_XB1_w4-sm_90")
    loop, total = reductions(found)
    assert loop["k_loop_step"] == 64
    assert loop["gemm"]["instruction_k"] == 1
    assert total["leaves"] == 64
    assert total["terms"] == [loop["name"]]


def test_online_softmax_rescales_its_sum() -> None:
    found = committed("softmax.softmax_online-BM1_BN64_s2_w4-sm_90")
    loops = [r for r in reductions(found) if "attention" in r]
    assert len(loops) == 1
    words = loops[0]["attention"]
    by_name = {r["name"]: r for r in reductions(found)}
    assert by_name[words["row_sum"]]["leaves"] == 64
    assert "ex2.approx" in words["rescale"]


def test_flash_attention() -> None:
    found = committed("flash_attention.full-BM64_BN32_CAUSAL0_D64_s2_w4-sm_90")
    loop = next(r for r in reductions(found) if "attention" in r)
    words = loop["attention"]
    by_name = {r["name"]: r for r in reductions(found)}
    assert words["key_block"] == 32
    assert words["probabilities"] == ["fcvt f32>f16.rn.keep"]
    assert words["rescale"].startswith("fmul")
    assert by_name[words["scores"][0]]["steps"] == 4
    assert by_name[words["values"]]["steps"] == 2
    assert found["outputs"][0]["orders"][0]["of"].startswith("fapprox div.full")


def test_chains() -> None:
    loads = "\n".join(f"ld.global.f32 %f{4 + i}, [%rd1+{4 * i}];" for i in range(5))
    adds = "\n".join(f"add.rn.f32 %f20, %f20, %f{5 + i};" for i in range(4))
    text = ptx(f"{loads}\nmov.f32 %f20, %f4;\n{adds}\nst.global.f32 [%rd2], %f20;", threads=1)
    (total,) = reductions(descriptor(text))
    assert (total["kind"], total["chain"]) == ("sum", 4)
    fused = "\n".join(f"fma.rn.f32 %f20, %f{4 + i}, %f{4 + i}, %f20;" for i in range(5))
    text = ptx(f"{loads}\nmov.f32 %f20, 0f00000000;\n{fused}\nst.global.f32 [%rd2], %f20;",
               threads=1)
    (total,) = reductions(descriptor(text))
    assert (total["kind"], total["steps"]) == ("fused multiply-adds", 5)
    assert total["k"] == [[i, i] for i in range(5)]


def test_a_kernel_without_words_is_said_to_have_none() -> None:
    text = ptx("""
        mov.u32 %r5, 0;
        mov.u64 %rd3, %rd1;
        LOOP:
        ld.global.f32 %f1, [%rd3];
        ld.global.u64 %rd3, [%rd3+8];
        add.rn.f32 %f2, %f2, %f1;
        setp.ne.s64 %p1, %rd3, 0;
        @%p1 bra LOOP;
        st.global.f32 [%rd2], %f2;
        """)
    found = descriptor(text)
    shown = lines(found)
    assert not found["modelled"]
    assert "not modelled: equal to no other kernel, whatever the words say" in shown
    assert any(line.strip() == f"tree {found['tree']}" for line in shown)
    assert any("no words: " in line for line in shown)


@pytest.mark.parametrize("as_json", [False, True])
def test_command(as_json: bool) -> None:
    file = EXAMPLES / "figure4_a.ptx"
    result = CliRunner().invoke(app, ["describe", str(file), *(["--json"] if as_json else [])])
    assert result.exit_code == 0
    if as_json:
        (found,) = json.loads(result.output)["kernels"]
        assert found == {"file": str(file), **descriptor(file.read_text())}
    else:
        assert "halves, 128, 64, 32, 16, 8, 4, 2, 1 apart" in result.output


def test_an_unreadable_file_exits_4(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ptx"
    bad.write_text(".version 8.0\n.target sm_90\n.visible .entry k( {")
    assert CliRunner().invoke(app, ["describe", str(bad)]).exit_code == 4


def test_the_layout_leaves_no_trace_in_an_epilogue() -> None:
    one, four = (committed(f"pool-B128_K2_MAX0_w{w}-sm_90") for w in (1, 4))
    assert one["descriptor"] == four["descriptor"]
    assert one["outputs"][0]["orders"][0]["epilogue"] == ["fmul f32.rn.keep.num(., 0x3e800000)"]
