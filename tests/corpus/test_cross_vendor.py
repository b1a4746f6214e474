"""One OpenCL source, three architectures of two vendors: one map of trees, and only that one."""

from __future__ import annotations

import pytest

from checker import api
from corpus.load import CorpusKernel, load_set

TARGETS = ("sm_90", "gfx942", "gfx1100")
SETS: dict[str, dict[str, CorpusKernel]] = {
    t: {k.name.rsplit("-", 1)[0]: k for k in load_set(f"opencl_{t}")} for t in TARGETS}


def trees(name: str, target: str) -> bytes:
    """The replayed map of one kernel at its shortest launch, as bytes."""
    kernel = SETS[target][name]
    launch = min(kernel.launches, key=lambda f: sum(a.get("elements", 0) for a in f["args"] if a))
    result = api.replay_kernel(kernel.text, dict(launch), isa=kernel.isa)
    assert result.usable, (name, target, result.reasons())
    return b"".join(o.words.tobytes() + o.written.tobytes() for o in result.outputs.values())


@pytest.mark.parametrize("name", sorted(SETS["sm_90"])[::3])
def test_one_source_is_one_function_on_both_vendors(name: str) -> None:
    assert len({trees(name, target) for target in TARGETS}) == 1


def test_what_differs_on_one_vendor_differs_across_vendors() -> None:
    chains = sorted(n for n in SETS["sm_90"] if "chain" in n and n.endswith("-O3"))
    nvidia = [trees(n, "sm_90") for n in chains]
    amd = [trees(n, "gfx942") for n in chains]
    assert len(set(nvidia)) == len(chains) == 5
    for i, one in enumerate(nvidia):
        assert [one == other for other in amd] == [i == j for j in range(len(amd))]
