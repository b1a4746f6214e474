"""Operation: metrics, headers, request ids, logs, tokens, rate, size, time, CORS."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from service_helpers import Running

from server.logs import set_up_logs


def test_metrics(start: Callable[..., Running]) -> None:
    running = start(workers=1)
    pair = {"a": {"text": "x = 1\n!opaque thing\n"}, "b": {"text": "x = 2\n"}}
    for _ in range(3):
        running.client.post("/v1/compare", json=pair)
    running.client.post("/v1/sign", json={"text": pair["a"]["text"]})
    running.client.post("/v1/sign", json={"text": "!spin 9\nx = 1\n"})
    text = running.client.get("/metrics").text
    for line in [
        'samebits_requests_total{method="POST",route="/v1/compare",status="200"} 3.0',
        'samebits_cache_total{kind="compare",source="memory"} 2.0',
        'samebits_cache_total{kind="compare",source="worker"} 1.0',
        'samebits_verdicts_total{kind="unproved"} 1.0',
        'samebits_opaque_opcodes_total{opcode="wild"} 1.0',
        'samebits_worker_restarts_total{why="time-limit"} 1.0',
        'samebits_call_failures_total{kind="sign",why="time-limit"} 1.0',
        "samebits_queue_depth 0.0",
    ]:
        assert line in text, line
    assert 'samebits_request_seconds_count{route="/v1/compare"} 3.0' in text


def test_headers_and_request_ids(shared: Running) -> None:
    for path in ("/", "/healthz", "/v1/jobs/nothing", "/nowhere"):
        answer = shared.client.get(path, headers={"X-Request-Id": "mine-42"})
        assert answer.headers["x-request-id"] == "mine-42"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
    answer = shared.client.get("/healthz", headers={"X-Request-Id": "bad id\t<>"})
    assert answer.headers["x-request-id"] != "bad id\t<>"
    assert shared.client.get("/nowhere").json()["type"] == "urn:samebits:problem:not-found"
    assert shared.client.put("/v1/sign").status_code == 405


def test_no_cors_by_default(shared: Running) -> None:
    origin = {"Origin": "http://elsewhere.example", "Access-Control-Request-Method": "POST"}
    answer = shared.client.options("/v1/sign", headers=origin)
    assert "access-control-allow-origin" not in answer.headers
    answer = shared.client.post("/v1/sign", json={"text": "x = 1\n"},
                                headers={"Sec-Fetch-Site": "cross-site", **origin})
    assert answer.status_code == 403


def test_cors_for_a_named_origin(start: Callable[..., Running]) -> None:
    running = start(workers=1, cors_origins=("http://board.example",))
    headers = {"Origin": "http://board.example", "Sec-Fetch-Site": "cross-site"}
    answer = running.client.post("/v1/sign", json={"text": "x = 1\n"}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "http://board.example"


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def test_tokens(start: Callable[..., Running]) -> None:
    running = start(workers=1, tokens={digest("reader"): frozenset({"read"}),
                                       digest("writer"): frozenset({"read", "write"})})
    ask = running.client.post
    body = {"text": "x = 1\n"}
    assert ask("/v1/sign", json=body).status_code == 401
    assert ask("/v1/sign", json=body).headers["www-authenticate"].startswith("Bearer")

    def bearer(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    assert ask("/v1/sign", json=body, headers=bearer("wrong")).status_code == 401
    assert ask("/v1/sign", json=body, headers=bearer("reader")).status_code == 403
    signed = ask("/v1/sign", json=body, headers=bearer("writer"))
    assert signed.status_code == 200
    place = f"/v1/signatures/{signed.json()['text']}"
    assert running.client.get(place).status_code == 401
    assert running.client.get(place, headers=bearer("reader")).status_code == 200
    assert running.client.get("/healthz").status_code == 200
    assert "security" in running.client.get("/openapi.json").json()


def test_rate_limit(start: Callable[..., Running]) -> None:
    running = start(workers=1, rate_per_s=0.5, rate_burst=5)
    answers = [running.client.get("/openapi.json") for _ in range(12)]
    refused = [a for a in answers if a.status_code == 429]
    assert len(refused) >= 5
    assert int(refused[0].headers["retry-after"]) >= 1
    assert running.client.get("/healthz").status_code == 200
    time.sleep(2.1)
    assert running.client.get("/openapi.json").status_code == 200


def test_size_limits(start: Callable[..., Running]) -> None:
    running = start(workers=1, body_limit_bytes=10_000, upload_limit_bytes=20_000,
                    text_limit_bytes=5_000, text_limit_lines=100, kernel_limit=3)
    ask = running.client.post
    assert ask("/v1/sign", json={"text": "x" * 20_000}).status_code == 413
    assert ask("/v1/sign", json={"text": "x = " + "y" * 6_000}).status_code == 413
    assert ask("/v1/sign", json={"text": "x = 1\n" * 100}).status_code == 413

    def chunks() -> Any:
        for _ in range(100):
            yield b"x" * 1_000

    answer = ask("/v1/sign", content=chunks(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413, "a body without a declared length"
    assert answer.headers["content-type"] == "application/problem+json"
    many = [{"name": str(n), "text": "x = 1\n"} for n in range(4)]
    assert ask("/v1/partition", json={"kernels": many}).status_code == 413
    assert ask("/v1/sign", json={"text": "x = 1\n"}).status_code == 200


def test_slow_body(start: Callable[..., Running]) -> None:
    running = start(workers=1, body_time_limit_s=0.5)
    host, port = running.socket.getsockname()
    with socket.create_connection((host, port), timeout=10) as conn:
        conn.sendall(b"POST /v1/sign HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 1000\r\n\r\n{")
        assert b" 408 " in conn.recv(4096).split(b"\r\n")[0]


def test_logs_are_json_and_hold_no_secret(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    before = {n: logging.getLogger(n).handlers for n in ("samebits", "uvicorn")}
    set_up_logs()
    try:
        running = start(workers=1, tokens={digest("hush-hush"): frozenset({"read", "write"})})
        running.client.post("/v1/sign", json={"text": "x = private\n"}, headers={
            "Authorization": "Bearer hush-hush", "X-Request-Id": "log-1"})
        until = time.monotonic() + 10  # the line is written after the answer was sent
        while "log-1" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        for name, handlers in before.items():
            logging.getLogger(name).handlers = handlers
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    [line] = [x for x in lines if x.get("request_id") == "log-1"]
    assert line["status"] == 200
    assert line["path"] == "/v1/sign"
    assert line["ms"] > 0
    assert line["caller"] == digest("hush-hush")[:8]
    assert "hush-hush" not in stream.getvalue()
    assert "private" not in stream.getvalue()


def test_a_full_queue_says_so(start: Callable[..., Running]) -> None:
    running = start(queued_jobs=2)
    jobs = [httpx.post(f"{running.url}/v1/partition", json={"kernels": [
        {"name": "s", "text": f"!sleep 1.5\nx = queue {n}\n"}]}) for n in range(6)]
    statuses = [a.status_code for a in jobs]
    assert statuses.count(202) >= 3
    assert statuses[-1] == 503
    assert jobs[-1].headers["retry-after"]
