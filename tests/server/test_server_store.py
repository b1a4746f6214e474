"""The store and its jobs on SQLite and PostgreSQL: memo, claims, leases, fences, migrations."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from typer.testing import CliRunner

from checker.cli.app import app
from server.engine import Outcome
from server.jobstore import MAX_ATTEMPTS, Item, ItemResult, JobStore
from server.prune import Pruned, prune
from server.schema import ANSWERS, JOBS, METADATA, TEXTS
from server.store import DAY_S, Answer, Store, answer_key, digest_of

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


def test_a_first_store_is_brought_up_to_date(database: str) -> None:
    config = Config()
    config.set_main_option("script_location", "server:migrations")
    config.set_main_option("path_separator", "os")
    db = sa.create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with db.begin() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "0001")
        conn.execute(sa.text("insert into texts values ('d', 1, 1, :data, 7.5)"), {"data": b"x"})
    db.dispose()
    store = Store(database)
    with store.db.connect() as conn:
        row = conn.execute(sa.select(TEXTS)).one()
        assert (row.digest, row.data, row.created, row.seen) == ("d", b"x", 7.5, 7.5)
    store.close()


def aged(store: Store, days: float) -> None:
    """Make everything in the store this much older."""
    with store.begin() as conn:
        for table, column in ((TEXTS, TEXTS.c.seen), (ANSWERS, ANSWERS.c.seen),
                              (JOBS, JOBS.c.finished)):
            conn.execute(sa.update(table).values({column: column - days * DAY_S}))


def kept(store: Store, *texts: str) -> list[bool]:
    with store.db.connect() as conn:
        found = set(conn.execute(sa.select(TEXTS.c.digest)).scalars())
    return [digest_of(text) in found for text in texts]


def about(key: str, text: str, kind: str = "sign", **options: object) -> Answer:
    return Answer(key, kind, digest_of(text), "1", options, None, Outcome({}), time.time())


def test_what_nobody_uses_is_pruned(store: Store) -> None:
    names = ["signed", "pair", "second", "base", "waiting", "finished", "plain"]
    store.put_texts({digest_of(name): name for name in names})
    store.put_answer(about("1", "signed"))
    store.put_answer(about("2", "pair", "compare", b=digest_of("second")))
    store.put_baseline("main", [{"name": "k", "digest": digest_of("base")}], "1")
    jobs = JobStore(store)
    details = {"isa": None, "kernel": None, "config": {}, "launches": []}
    waiting = jobs.create([Item(0, "w", digest_of("waiting"), details)])
    done = jobs.create([Item(0, "f", digest_of("finished"), details)])
    assert jobs.cancel(done.id) is not None

    assert prune(store, 10) == Pruned(0, 0, 0, 0)
    aged(store, 11)
    looked = prune(store, 10, dry_run=True)
    assert (looked.jobs, looked.answers, looked.texts) == (1, 2, 5)
    assert all(kept(store, *names))
    assert store.answers(["2"]), "looking it up is a use"
    assert store.known_texts([digest_of("plain")])
    found = prune(store, 10)
    assert (found.jobs, found.answers, found.texts) == (1, 1, 2)
    assert found.text_bytes > 0
    assert kept(store, *names) == [False, True, True, True, True, False, True]
    assert (jobs.get(done.id), store.answer("1")) == (None, None)
    assert jobs.items(waiting.id)
    with pytest.raises(ValueError, match="two days"):
        prune(store, 1)


def test_what_is_pruned_while_it_is_looked_up_is_not_there(store: Store) -> None:
    store.put_texts({digest_of("t"): "t"})
    aged(store, 3)
    seen = {digest_of("t"): 0.0, "pruned meanwhile": 0.0}
    assert store._lost(TEXTS.c.digest, seen) == {"pruned meanwhile"}
    assert prune(store, 2).texts == 0


def test_a_check_keeps_the_text_of_a_baseline_that_was_replaced(store: Store) -> None:
    store.put_texts({digest_of(t): t for t in ("old base", "now")})
    details = {"isa": None, "base": {"digest": digest_of("old base")}}
    jobs = JobStore(store)
    jobs.create([Item(0, "k", digest_of("now"), details), Item(1, "new", "", {"base": None})],
                "check", "main")
    aged(store, 30)
    assert prune(store, 3).texts == 0


def test_answers_of_an_unfinished_job_stay(store: Store) -> None:
    store.put_answer(about("1", "t"))
    blank = {"isa": None}
    JobStore(store).create([Item(0, "k", digest_of("t"), blank, "done", "1")])
    aged(store, 30)
    assert prune(store, 3).answers == 0


def test_prune_on_the_command_line(store: Store, database: str) -> None:
    store.put_texts({digest_of("t"): "t"})
    aged(store, 30)
    words = ["store", "prune", "--database", database, "--older-than"]
    run = CliRunner().invoke
    told = run(app, [*words, "20", "--dry-run"])
    assert (told.exit_code, told.stdout.split(",")[0]) == (0, "would delete 0 jobs")
    told = run(app, [*words, "40", "--json"])
    assert '"texts": 0' in told.stdout
    told = run(app, [*words, "20"])
    assert re.match(r"deleted 0 jobs, 0 answers, 1 texts \(0.0 MiB\)", told.stdout)
    assert kept(store, "t") == [False]
    assert run(app, [*words, "1"]).exit_code == 2
    words[3] = f"{database}-none"
    assert run(app, [*words, "20"]).exit_code == 2


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
