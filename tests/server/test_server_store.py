"""The store and its jobs on SQLite and PostgreSQL: memo, claims, leases, fences, migrations."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from server.engine import Outcome
from server.jobstore import MAX_ATTEMPTS, Item, ItemResult, JobStore
from server.schema import METADATA
from server.store import Answer, Store, answer_key, digest_of

ODD = "x = é\u2028 \x00 𝄞\r\n"


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    store = Store(database)
    yield store
    store.close()


def answer(key: str, value: object = None, **error: object) -> Answer:
    return Answer(key, "sign", "d" * 64, "1", {"isa": None}, "sb1-x" if value else None,
                  Outcome(value, dict(error) or None), time.time())


def items(count: int) -> list[Item]:
    blank = {"isa": None, "kernel": None, "config": {"w": 1}, "launches": []}
    return [Item(n, f"k{n} é", "d" * 64, blank) for n in range(count)]


def test_texts(store: Store) -> None:
    texts = {digest_of(t): t for t in [ODD, "y = 1\n" * 1_000, ""]}
    store.put_texts(texts)
    store.put_texts(texts)
    for digest, text in texts.items():
        assert store.text(digest) == text
    info = store.text_info(digest_of(ODD))
    assert info is not None
    assert info.size_bytes == len(ODD.encode())
    assert store.known_texts([*texts, "0" * 64]) == set(texts)
    assert store.text("0" * 64) is None


def test_keys_depend_on_everything() -> None:
    base = ("sign", "d", "1", {"isa": None})
    keys = {answer_key(*base)}
    for changed in [("compare", *base[1:]), ("sign", "e", *base[2:]), (*base[:2], "2", base[3]),
                    (*base[:3], {"isa": "ptx"})]:
        keys.add(answer_key(*changed))
    assert len(keys) == 5
    one, two = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert answer_key("k", "d", "1", one) == answer_key("k", "d", "1", two)


def test_answers(store: Store) -> None:
    value = {"text": "sb1-x", "odd": ODD}
    store.put_answer(answer("1", value))
    store.put_answer(answer("2", kind="time-limit", message="slow", limits=[1, 2]))
    found = store.answers(["1", "2", "3"])
    assert found["1"].outcome == Outcome(value)
    assert found["2"].outcome.error is not None
    assert not found["2"].outcome.lasting
    assert "3" not in found
    store.put_answer(answer("2", {"text": "sb1-x"}))
    assert store.answers(["2"])["2"].outcome.value == {"text": "sb1-x"}
    assert {a.key for a in store.answers_with_signature("sb1-x")} == {"1", "2"}


def test_one_claim_at_a_time(store: Store) -> None:
    assert store.claim("key", "one", 30)
    assert not store.claim("key", "two", 30)
    store.release("key", "two")
    assert not store.claim("key", "two", 30), "only the owner can release"
    store.release("key", "one")
    assert store.claim("key", "two", 0.05)
    time.sleep(0.1)
    assert store.claim("key", "one", 0.05), "a void claim can be taken"
    store.extend_claims("one", 30)
    time.sleep(0.1)
    assert not store.claim("key", "two", 30)


def test_claims_race(store: Store) -> None:
    won: list[int] = []

    def take(n: int) -> None:
        if store.claim("raced", f"owner {n}", 30):
            won.append(n)

    threads = [threading.Thread(target=take, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_job_life(store: Store) -> None:
    jobs = JobStore(store)
    job = jobs.create(items(3), "check", "main")
    assert (job.state, job.total, job.done, job.kind, job.subject) == (
        "queued", 3, 0, "check", "main")
    taken = jobs.claim("one", 30)
    assert taken is not None
    assert (taken.id, taken.state, taken.attempts) == (job.id, "running", 1)
    assert jobs.claim("two", 30) is None
    results = [ItemResult(0, "key", "c1", None), ItemResult(1, None, None, {"message": "bad"})]
    assert jobs.record(job.id, "one", 30, results)
    assert not jobs.record(job.id, "two", 30, [ItemResult(2, "key", "c9", None)])
    assert [i.state for i in jobs.items(job.id)] == ["done", "failed", "waiting"]
    assert jobs.class_sizes(job.id) == {"c1": 1}
    assert not jobs.finish(job.id, "two", result={})
    assert jobs.finish(job.id, "one", result={"odd": ODD})
    final = jobs.get(job.id)
    assert final is not None
    assert (final.state, final.done, final.final) == ("done", 2, True)
    assert jobs.result(job.id) == {"odd": ODD}
    cancelled = jobs.cancel(job.id)
    assert cancelled is not None
    assert cancelled.state == "done", "a final job stays as it is"


def test_a_lost_lease_fences_the_old_owner(store: Store) -> None:
    jobs = JobStore(store)
    job = jobs.create(items(2))
    assert jobs.claim("old", 0.05) is not None
    assert jobs.heartbeat(job.id, "old", 0.05)
    time.sleep(0.1)
    again = jobs.claim("new", 30)
    assert again is not None
    assert again.attempts == 2
    assert not jobs.heartbeat(job.id, "old", 30)
    assert not jobs.record(job.id, "old", 30, [ItemResult(0, "k", "c", None)])
    assert not jobs.finish(job.id, "old", result={})
    assert jobs.hand_back("old") == 0
    assert jobs.hand_back("new") == 1
    back = jobs.get(job.id)
    assert back is not None
    assert (back.state, back.attempts) == ("queued", 1)


def test_a_job_that_kills_servers_is_given_up(store: Store) -> None:
    jobs = JobStore(store)
    job = jobs.create(items(1))
    for _ in range(MAX_ATTEMPTS):
        assert jobs.claim("doomed", -1) is not None
    assert jobs.claim("next", 30) is None
    given_up = jobs.get(job.id)
    assert given_up is not None
    assert given_up.state == "failed"
    assert given_up.error is not None
    assert "given up" in given_up.error["message"]


def test_cancelled_jobs_are_not_taken(store: Store) -> None:
    jobs = JobStore(store)
    job = jobs.create(items(1))
    assert jobs.cancel(job.id) is not None
    assert jobs.claim("one", 30) is None
    assert jobs.cancel("0" * 24) is None


def test_baselines(store: Store) -> None:
    assert store.put_baseline("main", [{"name": ODD}], "1")
    assert not store.put_baseline("main", [{"name": "k"}], "2")
    found = store.baseline("main")
    assert found is not None
    assert (found["entries"], found["checker_version"]) == ([{"name": "k"}], "2")
    assert store.baseline_names() == ["main"]
    assert store.drop_baseline("main")
    assert not store.drop_baseline("main")
    assert store.baseline("main") is None


def test_migrations_give_the_schema_of_the_code(store: Store, database: str) -> None:
    with store.db.connect() as conn:
        assert compare_metadata(MigrationContext.configure(conn), METADATA) == []
    Store(database).close()


def test_servers_that_start_together_migrate_once(database: str) -> None:
    errors: list[Exception] = []

    def begin() -> None:
        try:
            Store(database).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=begin) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
