"""sign, compare, healthz: answers, errors with positions, limits of one call."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from service_helpers import Running

from server.prune import prune
from server.schema import ANSWERS, JOBS, TEXTS
from server.store import DAY_S, digest_of

A = "x = a b\ny = c\n"
A2 = "// moved\ny = c\nx = a b\n"
B = "x = b a\ny = c\n"


def compare(running: Running, a: str, b: str, **more: Any) -> Any:
    return running.client.post("/v1/compare", json={"a": {"text": a}, "b": {"text": b}, **more})


def test_health(shared: Running) -> None:
    answer = shared.client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    until = time.monotonic() + 60
    while shared.client.get("/readyz").status_code != 200:
        assert time.monotonic() < until, "no worker came up"
        time.sleep(0.05)


def test_sign(shared: Running) -> None:
    body = shared.client.post("/v1/sign", json={"text": A}).json()
    assert body["text"].startswith("sb1-")
    assert body["modelled"] is True
    assert body["premises"] == ["assembler", "no-alias"]
    assert body["checker_version"]
    assert body["signature_version"] == "sb1"


def test_compare_equal_and_its_twin(shared: Running) -> None:
    body = compare(shared, A, A2).json()
    assert (body["equal"], body["verdict"], body["basis"]) == (True, "equal", "static")
    assert body["signature_a"]["text"] == body["signature_b"]["text"]
    body = compare(shared, A, B).json()
    assert (body["equal"], body["verdict"], body["basis"]) == (False, "unproved", "")
    assert body["reasons"][0]["line_b"] == 2


def test_unreadable_text_has_positions(shared: Running) -> None:
    answer = compare(shared, A, "x = 1\n!error 2 4\n")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["type"] == "urn:samebits:problem:input"
    place = body["diagnostics"][0]
    assert (place["span"]["line"], place["span"]["col"]) == (2, 2)
    assert place["rendered"].splitlines()[0] == "<text>:2:2: no such thing"
    assert "^" in place["rendered"]
    assert body["request_id"] == answer.headers["x-request-id"]


def test_usage_error_names_the_entries(shared: Running) -> None:
    answer = shared.client.post(
        "/v1/sign", json={"text": ".entry one\nx = a\n", "kernel": "two"})
    assert answer.status_code == 422
    assert "one" in answer.json()["detail"]


def test_bad_bodies_are_problems(shared: Running) -> None:
    for content, status in [
        (b"", 422), (b"{", 422), (b"[]", 422), (b'{"text": 1}', 422), (b'{"text": ""}', 422),
        (b'{"text": "\\ud800"}', 422), (b'{"text": "x", "more": 1}', 422), (b"\xff\xfe", 422),
        (b'{"text":' + b"[" * 100_000, 422), (b'{"text": "x", "isa": "\\u0000"}', 422),
    ]:
        answer = shared.client.post(
            "/v1/sign", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (status, 400), (content[:40], answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code


def test_launch_must_be_plain_json(shared: Running) -> None:
    body = b'{"a": {"text": "x = a", "launch": {"n": NaN}}, "b": {"text": "x = a"}}'
    answer = shared.client.post(
        "/v1/compare", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)


def test_a_slow_kernel_is_ended_and_the_others_go_on(start: Callable[..., Running]) -> None:
    running = start(time_limit_s=6.0)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        began = time.monotonic()
        slow = threads.submit(compare, running, A, "!spin 60\nx = slow\n")
        quick = [threads.submit(compare, running, A, f"x = quick {n}\n") for n in range(10)]
        assert all(f.result().status_code == 200 for f in quick)
        assert not slow.done(), "the slow kernel held up the others"
        answer = slow.result()
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:samebits:problem:time-limit"
    assert time.monotonic() - began < 20


def test_a_large_kernel_is_ended(shared: Running) -> None:
    answer = shared.client.post("/v1/sign", json={"text": "!memory\nx = a\n"})
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:samebits:problem:memory-limit"
    assert shared.client.post("/v1/sign", json={"text": "x = after\n"}).status_code == 200


def test_a_kernel_that_kills_its_worker_is_reported(shared: Running) -> None:
    answer = shared.client.post("/v1/sign", json={"text": "!die\nx = a\n"})
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:samebits:problem:worker-died"


def test_a_bug_is_a_500_with_a_problem(shared: Running) -> None:
    answer = shared.client.post("/v1/sign", json={"text": "!bug\nx = a\n"})
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:samebits:problem:internal"
    assert "Traceback" not in answer.text


def test_identical_texts_at_the_same_time_are_signed_once(
    shared: Running, toy_count: Path,
) -> None:
    text = "!sleep 0.5\nx = once\n"
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        calls = [threads.submit(shared.client.post, "/v1/sign", json={"text": text})
                 for _ in range(16)]
        answers = [call.result() for call in calls]
    assert {a.status_code for a in answers} == {200}
    assert len({a.text for a in answers}) == 1
    assert toy_count.read_text().count(f"sign {digest_of(text)}") == 1
    assert {a.headers["x-samebits-cache"] for a in answers} <= {"worker", "shared", "memory"}


def test_a_limit_is_remembered_until_the_limits_grow(
    start: Callable[..., Running], toy_count: Path,
) -> None:
    text = "!spin 2\nx = over\n"
    first = start(workers=1, time_limit_s=0.5)
    for _ in range(2):
        answer = first.client.post("/v1/sign", json={"text": text})
        assert answer.json()["type"] == "urn:samebits:problem:time-limit"
    assert answer.headers.get("x-samebits-cache") is None
    assert toy_count.read_text().count(f"sign {digest_of(text)}") == 1
    second = start(workers=1, time_limit_s=20.0)
    for _ in range(2):
        assert second.client.post("/v1/sign", json={"text": text}).status_code == 200
    assert toy_count.read_text().count(f"sign {digest_of(text)}") == 2


def test_memory_cache_is_bounded_in_bytes(start: Callable[..., Running]) -> None:
    running = start(workers=1, cache_bytes=10_000)
    for n in range(60):
        assert running.client.post("/v1/sign", json={"text": f"x = bound {n}\n"}).is_success
    service = running.service
    assert 0 < service._memory_bytes <= 10_000
    assert service._memory_bytes == sum(held.size for held in service._memory.values())
    assert len(service._memory) < 60, "230 bytes each"
    again = running.client.post("/v1/sign", json={"text": "x = bound 0\n"})
    assert again.headers["x-samebits-cache"] == "store"


def test_what_was_pruned_is_not_answered_from_memory(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job's result is made of stored answers: one that is in memory only would fail it."""
    running = start(workers=1)
    body = {"kernels": [{"name": "a", "text": "x = pruned\n"}]}

    def ask() -> Any:
        return running.client.post(
            "/v1/partition", json=body, headers={"Prefer": "wait=20"}).json()

    first = ask()
    store = running.service.store
    with store.begin() as conn:
        conn.execute(sa.update(JOBS).values(finished=0.0))
        for table in (TEXTS, ANSWERS):
            conn.execute(sa.update(table).values(seen=0.0))
    assert prune(store, 2).answers >= 1
    later = time.time() + 1.5 * DAY_S
    monkeypatch.setattr("server.service.time.time", lambda: later)
    again = ask()
    assert (again["state"], again["result"]) == ("done", first["result"])
