"""What torch.compile wrote: the committed set against its truth, and the capture's pure parts."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from types import SimpleNamespace

import checker
from corpus.load import load_set, load_truth
from corpus.torch_compile import grid_of, knobs_of

SMALL = ("adam", "rotary", "embedding")


def test_the_set_is_what_inductor_made_of_many_models() -> None:
    kernels = load_set("torch_sm_90")
    models = {str(k.config["variant"]).split("-")[0] for k in kernels}
    assert len(kernels) >= 300
    assert len(models) >= 15
    # An autotuned kernel is there in all of its configurations.
    tuned = defaultdict(set)
    for k in kernels:
        if "mm_" in str(k.config["variant"]):
            tuned[k.config["group"]].add(tuple(sorted(k.config["knobs"].items())))
    assert max(map(len, tuned.values())) >= 10


def test_no_two_of_its_kernels_are_merged_against_their_bytes() -> None:
    digests = {r.kernel.name: r.digests for r in load_truth("torch_compile")}
    groups = defaultdict(list)
    for k in load_set("torch_sm_90"):
        if k.name.split(".")[1].split("-")[0] in SMALL and k.text.count("\n") < 700:
            groups[k.config["group"]].append(k)
    merged = 0
    for members in groups.values():
        signed = {k.name: checker.sign(k.text) for k in members}
        for a, b in combinations(signed, 2):
            if signed[a].modelled and signed[b].modelled and signed[a].text == signed[b].text:
                assert digests[a] == digests[b]
                merged += 1
    assert merged >= 3


def test_the_grid_is_what_the_launcher_computes() -> None:
    names: dict[str, object] = {"runner": None}
    exec("def launcher(x, n, stream):\n    runner((n + 63) // 64, 2, 1, stream, x)", names)
    launcher = names["launcher"]
    assert grid_of(launcher, (object(),), {"n": 130}) == [3, 2, 1]
    assert names["runner"] is None


def test_a_template_s_literals_are_knobs() -> None:
    source = ("@jit\ndef f(x):\n    BLOCK_M : tl.constexpr = 64\n"
              "    EVEN_K : tl.constexpr = False\n"
              "    ACC_TYPE : tl.constexpr = tl.float32\n    m = 3\n")
    config = SimpleNamespace(kwargs={"XBLOCK": 8}, num_warps=4, num_stages=2)
    tuner = SimpleNamespace(fn=SimpleNamespace(src=source))
    found = knobs_of(tuner, SimpleNamespace(config=config))
    assert found == {"BLOCK_M": "64", "EVEN_K": "False", "XBLOCK": 8, "num_warps": 4,
                     "num_stages": 2}
