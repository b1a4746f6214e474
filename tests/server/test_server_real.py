"""The service with the checker itself: same answers as the library gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_helpers import Running, settings_for

import checker
from checker.api import compare_at
from checker.client import Client, ServerError
from checker.errors import InputError, UsageError
from checker.results import KernelInput
from corpus.load import load_set

SCALE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry scaled(.param .u64 x, .param .u64 w, .param .u64 y, .param .f32 s)
.reqntid 32
{
    .reg .b32 %r<4>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [w];
    ld.param.u64 %rd3, [y];
    ld.param.f32 %f1, [s];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f2, [%rd5];
    ld.global.f32 %f3, [%rd6];
    mul.rn.f32 %f4, %f2, %f3;
    mul.rn.f32 %f5, %f4, %f1;
    st.global.f32 [%rd7], %f5;
    ret;
}
"""
EXAMPLES = Path(checker.__file__).parent.parent / "corpus" / "examples"
A, B = ((EXAMPLES / f"figure4_{name}.ptx").read_text() for name in "ab")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    running = Running(settings_for(
        tmp_path_factory.mktemp("real"), engine="checker.api", time_limit_s=60.0,
        memory_limit_bytes=2 << 30))
    with Client(running.url) as client:
        yield client
    running.stop()


def test_what_is_declared_goes_along(client: Client) -> None:
    """Blocks of another size are another answer, and no word of the caller's goes unread."""
    down, butterfly = ((EXAMPLES / f"layer_norm_{name}.ptx").read_text()
                       for name in ("down", "butterfly"))
    assert not client.compare(down, butterfly).equal
    verdict = client.compare(down, butterfly, assume=["block:256"])
    assert verdict == checker.compare(down, butterfly, assume=["block:256"])
    assert verdict.equal
    assert "block:256x1x1" in verdict.premises
    assert not client.compare(down, butterfly).equal  # the answers are kept apart
    with pytest.raises(UsageError, match="several block sizes"):
        client.compare(down, butterfly, assume=["block:256", "block:128"])
    with pytest.raises(ServerError, match="assume"):
        client.compare(down, butterfly, assume=["anything"])


def test_json_without_its_header_is_told_so(client: Client) -> None:
    answer = client._http.post("/v1/compare", content=b'{"a": 1}')
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["detail"]


def test_a_byte_order_mark_is_no_difference(client: Client) -> None:
    assert client.sign("\ufeff" + A).text == client.sign(A).text


def test_compare_and_its_twin(client: Client) -> None:
    verdict = client.compare(A, B)
    assert (verdict.equal, verdict.basis) == (True, "static")
    assert verdict == checker.compare(A, B)
    twin = B.replace("add.rn.f32", "sub.rn.f32", 1)
    assert twin != B
    assert client.compare(A, twin) == checker.compare(A, twin)
    assert not client.compare(A, twin).equal


def test_sign_entries_and_outline(client: Client) -> None:
    assert client.sign(A) == checker.sign(A)
    assert client.sign(A).text == client.sign(B).text
    assert client.kernels_in(A) == checker.kernels_in(A)
    outline = client.outline(A)
    assert outline
    assert {"output", "label", "line", "loc", "children"} <= outline[0].keys()


def test_mistakes_have_the_same_places(client: Client) -> None:
    torn = A[: len(A) * 2 // 3]
    with pytest.raises(InputError) as here:
        checker.sign(torn, file="a.ptx")
    with pytest.raises(InputError) as there:
        client.sign(torn, file="a.ptx")
    assert str(there.value) == str(here.value)
    assert there.value.diagnostics == here.value.diagnostics


def test_partition(client: Client) -> None:
    kernels = [KernelInput("a", A, config={"warps": 2}), KernelInput("b", B, config={"warps": 1}),
               KernelInput("torn", A[:500]),
               KernelInput("c", B.replace("add.rn.f32", "sub.rn.f32", 1), config={"warps": 1})]
    over_http, here = client.partition(kernels), checker.partition(kernels)
    assert over_http == here
    assert ("a", "b") in {one.members for one in over_http.classes}


def test_a_partition_takes_a_second_look(client: Client) -> None:
    """One kernel shows that a size is a multiple, the other is equal to it under that."""
    kernels = [KernelInput(k.name, k.text, config=k.config) for k in load_set("sm_90")
               if k.name.startswith("rope-BH64_") and "INTERLEAVED0_fuse0" in k.name]
    over_http = client.partition(kernels)
    assert over_http == checker.partition(kernels)
    assert [len(one.members) for one in over_http.classes] == [len(kernels)]
    assert "divisible:arg5%16" in over_http.classes[0].premises


def at(scale: float) -> dict[str, Any]:
    """Launch facts of SCALE with this scale."""
    buffers = [{"buffer": name, "dtype": "f32", "elements": 32, "role": role}
               for name, role in (("x", "in"), ("w", "in"), ("y", "out"))]
    return {"grid": [1, 1, 1], "args": [*buffers, {"f32": scale}]}


def test_a_check_holds_at_every_launch(client: Client) -> None:
    """Scaling by one is the same before and after; scaling by a tenth is not."""
    before = SCALE.replace("%f4, %f2, %f3", "%f4, %f2, %f1").replace(
        "%f5, %f4, %f1", "%f5, %f4, %f3")
    one, tenth = at(1.0), at(0.1)
    client.set_baseline("scale", [KernelInput("k", SCALE, launches=(one, tenth))])

    def check(*launches: dict[str, Any]) -> dict[str, Any]:
        return client.check_baseline("scale", [KernelInput("k", before, launches=launches)])

    assert check(one)["equal"] == ["k"]
    for launches in ((one, tenth), (tenth, one), ()):
        found = check(*launches)
        assert not found["ok"]
        drift = found["drifted"][0]
        assert drift["verdict"] == "unequal"
        assert " of 2: at this launch" in drift["reasons"][0]["message"]


def test_one_verdict_over_several_launches() -> None:
    before = SCALE.replace("%f4, %f2, %f3", "%f4, %f2, %f1").replace(
        "%f5, %f4, %f1", "%f5, %f4, %f3")
    one, two, tenth = ((at(scale), at(scale)) for scale in (1.0, 1.0, 0.1))
    assert compare_at(A, B, [(None, None)]) == checker.compare(A, B)
    joint = compare_at(SCALE, before, [one, two])
    assert (joint.kind, joint.basis, joint.reasons) == ("equal", "launch", ())
    assert "launch" in joint.premises
    assert compare_at(SCALE, before, [one, (None, None)]).kind == "unproved"
    last = compare_at(SCALE, before, [(None, None), one, tenth])
    assert (last.kind, last.witness is not None) == ("unequal", True)
    assert last.reasons[0].message.startswith("launch 3 of 3: ")
    assert compare_at(SCALE, SCALE, [one, tenth]).basis == "static"
