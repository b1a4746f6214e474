"""The service with the checker itself: same answers as the library gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_helpers import Running, settings_for

import checker
from checker.client import Client
from checker.errors import InputError
from checker.results import KernelInput

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
