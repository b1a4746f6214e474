"""The typed client against a server: same records, same errors as the checker itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import toy_service_api as toy
from service_helpers import Running

from checker.client import Client, ServerError
from checker.errors import InputError, UsageError
from checker.results import KernelInput


@pytest.fixture
def client(shared: Running) -> Iterator[Client]:
    with Client(shared.url) as client:
        yield client


def test_same_records(client: Client) -> None:
    a, b = "x = a\n!opaque thing\n", "x = b\n"
    assert client.sign(a) == toy.sign(a)
    assert client.compare(a, b) == toy.compare(a, b)
    assert client.compare(b, b).equal
    assert client.outline(b) == toy.outline(b)
    text = ".entry one\n.entry two\nx = 1\n"
    assert client.kernels_in(text) == toy.kernels_in(text)


def test_same_errors(client: Client) -> None:
    text = "x = a\n!error 3 2\n"
    with pytest.raises(InputError) as here:
        toy.sign(text, file="k.ptx")
    with pytest.raises(InputError) as there:
        client.sign(text, file="k.ptx")
    assert there.value.diagnostics[0].span == here.value.diagnostics[0].span
    assert str(there.value).startswith("k.ptx:2:3: no such thing")
    with pytest.raises(UsageError, match="one"):
        client.sign(".entry one\nx = a\n", kernel="two")
    with pytest.raises(ServerError, match="time limit"):
        client.sign("!spin 9\nx = 1\n")


def test_partition(client: Client) -> None:
    kernels = [KernelInput(f"k{n}", f"x = client {n % 3}\n", config={"n": n}) for n in range(9)]
    seen: list[tuple[int, int]] = []
    result = client.partition(kernels, progress=lambda done, total: seen.append((done, total)))
    assert result == toy.classify([(k, toy.examine(k)) for k in kernels])
    assert seen[-1] == (9, 9)
    client.set_baseline("client", kernels)
    assert client.check_baseline("client", kernels)["ok"]


def test_texts_are_sent_once(client: Client) -> None:
    kernels = [KernelInput(f"k{n}", f"x = once {n}\n") for n in range(3)]
    client.partition(kernels[:2])
    sent: list[bytes] = []
    client._http.event_hooks["request"].append(lambda request: sent.append(request.read()))
    assert len(client.partition(kernels).classes) == 3
    asked = [body for body in sent if b"once" in body or b"digest" in body]
    assert [body.count(b"once") for body in asked] == [0, 1]
    client.partition(kernels)
    assert sum(body.count(b"once") for body in sent) == 1


def test_no_server() -> None:
    with Client("http://127.0.0.1:9", retries=0) as client, \
            pytest.raises(ServerError, match="cannot reach"):
        client.sign("x = 1\n")
