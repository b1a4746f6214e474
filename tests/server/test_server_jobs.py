"""Partition jobs: states, events, cancelling, waiting, uploads, baselines."""

from __future__ import annotations

import io
import json
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from service_helpers import Running

from server.plans import paired_launches
from server.store import digest_of


def kernels(count: int, classes: int, mark: str = "") -> list[dict[str, Any]]:
    return [{"name": f"k{n}", "text": f"// {n} {mark}\nx = {n % classes} {mark}\n",
             "config": {"num_warps": n % classes, "BLOCK": n}} for n in range(count)]


def finish(running: Running, job_id: str, seconds: float = 30) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while True:
        body: dict[str, Any] = running.client.get(f"/v1/jobs/{job_id}").json()
        if body["state"] in ("done", "failed", "cancelled"):
            return body
        assert time.monotonic() < until, body
        time.sleep(0.05)


def events(running: Running, job_id: str) -> list[tuple[str, Any]]:
    found = []
    with running.client.stream("GET", f"/v1/jobs/{job_id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                found.append((name, json.loads(line[6:])))
    return found


def test_job_with_events(shared: Running) -> None:
    answer = shared.client.post("/v1/partition", json={"kernels": kernels(40, 4, "ev")})
    assert answer.status_code == 202
    body = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{body['id']}"
    seen = events(shared, body["id"])
    assert seen[-1][0] == "end"
    assert {name for name, _ in seen} == {"progress", "class", "end"}
    done = [data["done"] for name, data in seen if name == "progress"]
    assert done == sorted(done)
    assert done[-1] == 40
    result = seen[-1][1]["result"]
    assert sorted(len(c["members"]) for c in result["classes"]) == [10] * 4
    assert finish(shared, body["id"])["result"] == result


def test_wait_answers_at_once(shared: Running) -> None:
    answer = shared.client.post("/v1/partition", json={"kernels": kernels(6, 2, "wait")},
                                headers={"Prefer": "wait=20"})
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait"
    assert len(answer.json()["result"]["classes"]) == 2


def test_bad_kernels_are_reported_and_the_rest_goes_on(shared: Running) -> None:
    body = [*kernels(6, 2, "rest"), {"name": "bad", "text": "x = 1\n!error 3 4\n"},
            {"name": "slow", "text": "!spin 60\nx = 1\n"},
            {"name": "large", "text": "!memory\nx = 1\n"},
            {"name": "dies", "text": "!die\nx = 1\n"}]
    answer = shared.client.post(
        "/v1/partition", json={"kernels": body}, headers={"Prefer": "wait=30"})
    result = answer.json()["result"]
    assert sorted(len(c["members"]) for c in result["classes"]) == [3, 3]
    errors = dict(result["errors"])
    assert errors.keys() == {"bad", "slow", "large", "dies"}
    assert ":2:3:" in errors["bad"]
    assert "2 s" in errors["slow"]


def test_cancel(shared: Running) -> None:
    slow = [{"name": f"s{n}", "text": f"!sleep 0.5\nx = cancel {n}\n"} for n in range(60)]
    job_id = shared.client.post("/v1/partition", json={"kernels": slow}).json()["id"]
    time.sleep(0.3)
    assert shared.client.delete(f"/v1/jobs/{job_id}").json()["state"] == "cancelled"
    assert events(shared, job_id)[-1][1]["state"] == "cancelled"
    began = time.monotonic()
    assert shared.client.post("/v1/sign", json={"text": "x = free again\n"}).status_code == 200
    assert time.monotonic() - began < 3, "cancelled kernels still hold the workers"


def test_a_server_does_not_run_its_own_job_twice(
    start: Callable[..., Running], toy_count: Path,
) -> None:
    running = start(lease_s=0.001, poll_s=0.01)
    sweep = [{"name": f"o{n}", "text": f"!sleep 0.05\nx = own {n}\n"} for n in range(20)]
    job = running.client.post("/v1/partition", json={"kernels": sweep}).json()["id"]
    body = finish(running, job)
    if body["state"] == "done":
        assert body["done"] == 20
    else:  # so short a lease may be given up, but only as such
        assert "given up" in body["error"]["message"]
    examined = toy_count.read_text().splitlines()
    for kernel in sweep:
        assert examined.count(f"examine {digest_of(kernel['text'])}") <= 1


def test_texts_by_digest(shared: Running) -> None:
    digest = shared.client.post("/v1/sign", json={"text": "x = kept\n"}).json()["digest"]
    body = {"kernels": [{"name": "a", "digest": digest}, {"name": "b", "text": "y = kept\n"}]}
    answer = shared.client.post("/v1/partition", json=body, headers={"Prefer": "wait=20"})
    assert answer.status_code == 200
    body["kernels"][0]["digest"] = "0" * 64
    answer = shared.client.post("/v1/partition", json=body)
    assert answer.status_code == 404
    assert answer.json()["missing"] == ["0" * 64]


def archive_zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def archive_tar(files: dict[str, str], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


SWEEP = {
    "sweep/a.ptx": "x = 1\n", "sweep/a.json": '{"config": {"num_warps": 1}}',
    "sweep/b.ptx": "// b\nx = 1\n", "sweep/b.json": '{"config": {"num_warps": 2}}',
    "sweep/c.ptx": "x = 2\n", "notes/readme.txt": "ignored",
}


def post_files(running: Running, files: list[tuple[str, bytes]], **fields: str) -> Any:
    parts = [("files", (name, data)) for name, data in files]
    return running.client.post("/v1/partition", files=parts, data=fields,
                               headers={"Prefer": "wait=20"})


@pytest.mark.parametrize("name", ["zip", "tar", "files", "manifest", "body"])
def test_uploads(shared: Running, name: str) -> None:
    if name == "zip":
        answer = post_files(shared, [("sweep.zip", archive_zip(SWEEP))])
    elif name == "tar":
        answer = post_files(shared, [("sweep.tar.gz", archive_tar(SWEEP))])
    elif name == "files":
        answer = post_files(shared, [(n, t.encode()) for n, t in SWEEP.items() if "txt" not in n])
    elif name == "body":
        answer = shared.client.post(
            "/v1/partition", content=archive_zip(SWEEP),
            headers={"Content-Type": "application/zip", "Prefer": "wait=20"})
    else:
        lines = [{"name": "a", "text": "x = 1\n", "config": {"num_warps": 1}},
                 {"name": "b", "path": "b.ptx"}, {"name": "c", "text": "x = 2\n"}]
        manifest = "\n".join(json.dumps(line) for line in lines)
        answer = post_files(shared, [("m.zip", archive_zip({
            "m/m.jsonl": manifest, "m/b.ptx": "// b\nx = 1\n"}))])
    assert answer.status_code == 200, answer.text
    classes = answer.json()["result"]["classes"]
    assert sorted(len(c["members"]) for c in classes)[-1] >= 2
    if name != "manifest":
        assert any(c["knobs"].get("num_warps") == 1 for c in classes)


def symlink_tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("a.ptx")
        info.type = tarfile.SYMTYPE
        info.linkname = "/etc/passwd"
        archive.addfile(info)
    return out.getvalue()


def symlink_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("a.ptx")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


@pytest.mark.parametrize(("name", "data"), [
    ("up.zip", archive_zip({"../a.ptx": "x = 1\n"})),
    ("up.tar", archive_tar({"../a.ptx": "x = 1\n"}, "w")),
    ("abs.tar", archive_tar({"/tmp/a.ptx": "x = 1\n"}, "w")),
    ("drive.zip", archive_zip({"C:\\a.ptx": "x = 1\n"})),
    ("back.zip", archive_zip({"a\\..\\..\\b.ptx": "x = 1\n"})),
    ("link.tar", symlink_tar()),
    ("link.zip", symlink_zip()),
    ("manifest.zip", archive_zip({"m.jsonl": '{"name": "a", "path": "/etc/passwd"}'})),
    ("manifest2.zip", archive_zip({"m.jsonl": '{"name": "a", "path": "../../etc/passwd"}'})),
    ("hidden.zip", archive_zip({"m.jsonl": '{\u2028{"name": "a", "path": "/etc/passwd"}'})),
    ("hidden2.zip", archive_zip({"m.jsonl": 'x\x0b{"name": "a", "path": "../../../etc/passwd"}'})),
    ("bomb.zip", archive_zip({"a.ptx": "x = 1\n" * 4_000_000})),
    ("bomb.tar.gz", archive_tar({"a.ptx": "x = 1\n" * 4_000_000})),
    ("hidden.tar.gz", archive_tar({"skipped.bin": "x" * 40_000_000, "a.ptx": "x = 1\n"})),
    ("torn.zip", archive_zip(SWEEP)[:200]),
    ("torn.tar.gz", archive_tar(SWEEP)[:100]),
    ("empty.zip", archive_zip({})),
    ("nothing.zip", b""),
    ("../../a.ptx", b"x = 1\n"),
    ("strange.exe", b"x = 1\n"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_tricks_are_refused(shared: Running, name: str, data: bytes) -> None:
    answer = post_files(shared, [(name, data)])
    assert answer.status_code in (413, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "root:" not in answer.text


def test_two_entries_make_two_kernels(shared: Running) -> None:
    text = ".visible .entry one(\n.visible .entry two(\nx = 1\n"
    answer = post_files(shared, [("both.ptx", text.encode())])
    assert answer.status_code == 200
    members = [m for c in answer.json()["result"]["classes"] for m in c["members"]]
    assert len(members) + len(answer.json()["result"]["errors"]) == 2


def test_baseline(shared: Running) -> None:
    base = kernels(4, 4, "base")
    assert shared.client.put("/v1/baselines/main", json={"kernels": base}).status_code == 201
    assert shared.client.put("/v1/baselines/main", json={"kernels": base}).status_code == 200
    assert len(shared.client.get("/v1/baselines/main").json()["entries"]) == 4
    assert "main" in shared.client.get("/v1/baselines").json()["names"]
    same = shared.client.post("/v1/baselines/main/check", json={"kernels": base}).json()
    assert same["state"] == "done"
    assert same["result"]["ok"] is True
    assert len(same["result"]["equal"]) == 4
    drifted = [{**base[0], "text": "x = another\n"}, *base[1:3],
               {"name": "fresh", "text": "x = 9\n"}]
    result = shared.client.post(
        "/v1/baselines/main/check", json={"kernels": drifted}).json()["result"]
    assert result["ok"] is False
    assert [d["name"] for d in result["drifted"]] == ["k0"]
    assert result["drifted"][0]["verdict"] == "unproved"
    assert result["removed"] == ["k3"]
    assert result["added"] == ["fresh"]
    assert shared.client.delete("/v1/baselines/main").status_code == 204
    assert shared.client.get("/v1/baselines/main").status_code == 404


def test_lookups(shared: Running) -> None:
    signed = shared.client.post("/v1/sign", json={"text": "x = look up\n"}).json()
    known = shared.client.get(f"/v1/signatures/{signed['text']}").json()
    assert [k["digest"] for k in known["kernels"]] == [signed["digest"]]
    assert known["premises"] == ["assembler", "no-alias"]
    assert known["outline"][0]["label"] == "fadd"
    kernel = shared.client.get(f"/v1/kernels/{signed['digest']}").json()
    assert kernel["signatures"][0]["text"] == signed["text"]
    text = shared.client.get(f"/v1/kernels/{signed['digest']}/text").text
    assert text == "x = look up\n"
    assert shared.client.get("/v1/signatures/sb1-nothing").status_code == 404
    assert shared.client.get(f"/v1/kernels/{'0' * 64}").status_code == 404


def test_a_signature_at_launches_can_be_looked_up(shared: Running) -> None:
    body = {"kernels": [{"name": "a", "text": "x = at launch\n"},
                        {"name": "b", "text": "x = launch at\n"},
                        {"name": "c", "text": "x = elsewhere\n"}], "launches": [{"grid": [3]}]}
    job = shared.client.post("/v1/partition", json=body, headers={"Prefer": "wait=20"}).json()
    one = next(c for c in job["result"]["classes"] if c["members"] == ["a", "b"])
    assert one["signature"].startswith("sb1l-")
    known = shared.client.get(f"/v1/signatures/{one['signature']}").json()
    assert (known["basis"], known["launches"]) == ("launch", [{"grid": [3]}])
    assert {k["digest"] for k in known["kernels"]} == {
        digest_of(k["text"]) for k in body["kernels"][:2]}
    assert known["premises"] == ["launch"]
    assert one["signature"] in {e["key"] for name, e in events(shared, job["id"])
                                if name == "class"}
    page = shared.client.get(f"/s/{one['signature']}")
    assert page.status_code == 200
    assert "The same output maps at this launch" in page.text


def test_a_check_takes_all_launches_jointly(shared: Running) -> None:
    launches = [{"grid": [1], "args": [1]}, {"grid": [2], "args": [2]}]
    base = {"name": "k", "text": "x = joint\n", "launches": launches}
    now = {"name": "k", "text": "x = joint @2:more\n", "launches": launches[:1]}
    shared.client.put("/v1/baselines/joint", json={"kernels": [base]})

    def check(kernel: dict[str, Any]) -> dict[str, Any]:
        answer = shared.client.post("/v1/baselines/joint/check", json={"kernels": [kernel]})
        result: dict[str, Any] = answer.json()["result"]
        return result

    assert check(now)["equal"] == ["k"]
    found = check({**now, "launches": launches})
    assert (found["ok"], found["equal"]) == (False, [])
    assert check({**now, "launches": []})["equal"] == [], "the baseline's launches count"


def test_launches_are_paired_by_their_arguments() -> None:
    """A baseline's launch that is left out would let a drift there pass as equal."""
    a, b, c = ({"grid": [g], "args": [n]} for g, n in ((1, 1), (2, 1), (3, 2)))
    x, y, z = ({**facts, "grid": [9, g]} for g, facts in enumerate((a, b, c)))
    assert paired_launches([a, b, c], [z, x, y]) == [[c, z], [a, x], [b, y]]
    assert paired_launches([a, b], [b, a]) == [[b, b], [a, a]]
    assert paired_launches([a], [x, y, z]) == [[a, x], [y, y], [z, z]]
    assert paired_launches([a, c], []) == [[a, a], [c, c]]
    assert paired_launches([], [a]) == [[a, a]]
    assert paired_launches([], []) == [[None, None]]


def test_the_second_time_comes_from_the_store(start: Callable[..., Running]) -> None:
    body = {"kernels": [{"name": f"c{n}", "text": f"!sleep 0.05\nx = {n}\n"} for n in range(40)]}
    first = start()
    began = time.monotonic()
    cold = first.client.post("/v1/partition", json=body, headers={"Prefer": "wait=30"})
    cold_s = time.monotonic() - began
    began = time.monotonic()
    warm = first.client.post("/v1/partition", json=body, headers={"Prefer": "wait=30"})
    warm_s = time.monotonic() - began
    assert cold.json()["result"] == warm.json()["result"]
    assert warm_s < cold_s / 3
