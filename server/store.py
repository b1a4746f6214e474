"""The store: texts by content, memoised answers, claims, baselines; SQLite or PostgreSQL.

In: a SQLAlchemy URL. Out: `Store`, whose methods are plain blocking calls, each one transaction;
the service runs them on threads. The schema is brought up to date when the store is opened.
Jobs are in `server.jobstore`, on the same engine.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.dialects.postgresql import insert as pg_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from server.engine import Outcome
from server.schema import ANSWERS, BASELINES, CLAIMS, TEXTS

__all__ = ["DAY_S", "Answer", "Store", "StoredText", "answer_key", "digest_of", "pack", "unpack"]

DAY_S = 86_400.0  # the use of a text or an answer is noted once a day

_SCHEMA_LOCK = 0x5B17
_CHUNK = 400
_MIGRATING = threading.Lock()


def digest_of(text: str) -> str:
    """SHA-256 of the text's UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def answer_key(kind: str, digest: str, version: str, options: Mapping[str, Any]) -> str:
    """Key of a memoised call, the same on every machine."""
    text = json.dumps([kind, digest, version, options], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def pack(data: Any) -> bytes:
    """Compress plain data."""
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 5)


def unpack(blob: bytes) -> Any:
    """Inverse of `pack`."""
    return json.loads(zlib.decompress(blob))


@dataclass(frozen=True, slots=True)
class StoredText:
    """What is known of a text without loading it."""

    digest: str
    size_bytes: int
    lines: int
    created: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A memoised call with the key it stands under."""

    key: str
    kind: str
    text_digest: str
    checker_version: str
    options: dict[str, Any]
    signature: str | None
    outcome: Outcome
    created: float
    launch_signature: str | None = None


class Store:
    """Database access for one server process; safe to use from many threads."""

    def __init__(self, url: str) -> None:
        parsed = sa.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        if self.is_sqlite:
            self.db = sa.create_engine(parsed, connect_args={"timeout": 60})
            sa.event.listen(self.db, "connect", _sqlite_settings)
        else:
            self.db = sa.create_engine(parsed, pool_size=10, max_overflow=20, pool_pre_ping=True)
        # SQLite has one writer; taking turns here beats waiting on its file lock
        self._turn = threading.RLock() if self.is_sqlite else None
        self._migrate()

    def close(self) -> None:
        """Close every connection."""
        self.db.dispose()

    def begin(self) -> Any:
        """A writing transaction, as a context manager over a connection."""
        return _Turn(self._turn, self.db) if self._turn is not None else self.db.begin()

    def insert(self, table: sa.Table) -> Any:
        """The dialect's insert, which knows `on_conflict_do_nothing`."""
        return sqlite_insert(table) if self.is_sqlite else pg_insert(table)

    def ping(self) -> int:
        """Number of jobs and answers reachable at all; raises when the database is not."""
        with self.db.connect() as conn:
            return int(conn.execute(sa.text("select 1")).scalar_one())

    def _migrate(self) -> None:
        config = Config()
        config.set_main_option("script_location", "server:migrations")
        config.set_main_option("path_separator", "os")
        # one server at a time; and alembic's context is a global of the process
        with _MIGRATING, self.begin() as conn:
            if self.is_sqlite:
                conn.exec_driver_sql("begin immediate")
            else:
                conn.execute(sa.text(f"select pg_advisory_xact_lock({_SCHEMA_LOCK})"))
            config.attributes["connection"] = conn
            command.upgrade(config, "head")

    # texts

    def put_texts(self, texts: Mapping[str, str]) -> None:
        """Keep texts by digest; those already kept are left alone."""
        known = self.known_texts(texts)
        for chunk in _chunks([d for d in texts if d not in known]):
            rows = [_text_row(d, texts[d]) for d in chunk]
            with self.begin() as conn:
                conn.execute(self.insert(TEXTS).on_conflict_do_nothing(), rows)

    def text(self, digest: str) -> str | None:
        """The text with this digest."""
        with self.db.connect() as conn:
            query = sa.select(TEXTS.c.data).where(TEXTS.c.digest == digest)
            blob = conn.execute(query).scalar()
        return None if blob is None else zlib.decompress(blob).decode()

    def text_info(self, digest: str) -> StoredText | None:
        """Size, lines and time of a text."""
        columns = (TEXTS.c.digest, TEXTS.c.size_bytes, TEXTS.c.lines, TEXTS.c.created)
        with self.db.connect() as conn:
            row = conn.execute(sa.select(*columns).where(TEXTS.c.digest == digest)).first()
        return None if row is None else StoredText(*row)

    def known_texts(self, digests: Iterable[str]) -> set[str]:
        """Those of the digests whose texts are kept, and will be for a day at least."""
        known: dict[str, float] = {}
        with self.db.connect() as conn:
            for chunk in _chunks(sorted(set(digests))):
                query = sa.select(TEXTS.c.digest, TEXTS.c.seen).where(TEXTS.c.digest.in_(chunk))
                known.update((row.digest, row.seen) for row in conn.execute(query))
        return known.keys() - self._lost(TEXTS.c.digest, known)

    # answers

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The memoised answers among these keys, which will be kept for a day at least."""
        found: dict[str, Answer] = {}
        seen: dict[str, float] = {}
        with self.db.connect() as conn:
            for chunk in _chunks(sorted(set(keys))):
                for row in conn.execute(sa.select(ANSWERS).where(ANSWERS.c.key.in_(chunk))):
                    found[row.key], seen[row.key] = _answer(row), row.seen
        for key in self._lost(ANSWERS.c.key, seen):
            del found[key]
        return found

    def _lost(self, column: sa.Column[str], seen: Mapping[str, float]) -> set[str]:
        """Note the use of rows that were last used days ago; return those pruned meanwhile."""
        now, lost = time.time(), set[str]()
        for chunk in _chunks([key for key, then in seen.items() if then < now - DAY_S]):
            query = sa.update(column.table).where(column.in_(chunk)).values(seen=now)
            with self.begin() as conn:
                lost |= set(chunk) - set(conn.execute(query.returning(column)).scalars())
        return lost

    def answer(self, key: str) -> Answer | None:
        """The memoised answer under this key."""
        return self.answers([key]).get(key)

    def put_answer(self, answer: Answer) -> None:
        """Memoise one answer, in place of a void one."""
        changing = {"signature": answer.signature, "launch_signature": answer.launch_signature,
                    "created": answer.created, "seen": time.time(),
                    "outcome": pack([answer.outcome.value, answer.outcome.error])}
        query = self.insert(ANSWERS).values(
            key=answer.key, kind=answer.kind, text_digest=answer.text_digest,
            checker_version=answer.checker_version,
            options=json.dumps(answer.options, sort_keys=True), **changing)
        with self.begin() as conn:
            conn.execute(query.on_conflict_do_update(index_elements=["key"], set_=changing))

    def answers_with_signature(self, signature: str, limit: int = 1000) -> list[Answer]:
        """Answers whose signature, static or at their launches, is this one, oldest first."""
        either = sa.or_(
            ANSWERS.c.signature == signature, ANSWERS.c.launch_signature == signature)
        return self._answers(sa.select(ANSWERS).where(either), limit)

    def answers_of_text(self, digest: str, kind: str, limit: int = 1000) -> list[Answer]:
        """Answers of one kind about one text, oldest first."""
        query = sa.select(ANSWERS).where(ANSWERS.c.text_digest == digest, ANSWERS.c.kind == kind)
        return self._answers(query, limit)

    def _answers(self, query: Any, limit: int) -> list[Answer]:
        with self.db.connect() as conn:
            rows = conn.execute(query.order_by(ANSWERS.c.created).limit(limit))
            return [_answer(row) for row in rows]

    # claims: who computes an answer, among servers that share the database

    def claim(self, key: str, owner: str, seconds: float) -> bool:
        """Take the right to compute an answer, unless another server holds it."""
        now = time.time()
        with self.begin() as conn:
            row = {"key": key, "owner": owner, "until": now + seconds}
            query = self.insert(CLAIMS).values(row).on_conflict_do_nothing()
            # an insert's rowcount is -1 on PostgreSQL, so ask for the row itself
            if conn.execute(query.returning(CLAIMS.c.key)).first() is not None:
                return True
            void = sa.and_(CLAIMS.c.key == key, CLAIMS.c.until < now)
            taken = conn.execute(sa.update(CLAIMS).where(void).values(row))
            return int(taken.rowcount) == 1

    def extend_claims(self, owner: str, seconds: float) -> None:
        """Keep all claims of a living server."""
        with self.begin() as conn:
            conn.execute(sa.update(CLAIMS).where(CLAIMS.c.owner == owner).values(
                until=time.time() + seconds))

    def release(self, key: str, owner: str) -> None:
        """Give a claim back."""
        with self.begin() as conn:
            mine = sa.and_(CLAIMS.c.key == key, CLAIMS.c.owner == owner)
            conn.execute(sa.delete(CLAIMS).where(mine))

    # baselines

    def put_baseline(self, name: str, entries: Any, version: str) -> bool:
        """Set a baseline; return whether it is new."""
        now = time.time()
        row = {"entries": pack(entries), "checker_version": version, "updated": now}
        with self.begin() as conn:
            query = sa.update(BASELINES).where(BASELINES.c.name == name).values(row)
            if conn.execute(query).rowcount:
                return False
            conn.execute(sa.insert(BASELINES).values(name=name, created=now, **row))
            return True

    def baseline(self, name: str) -> dict[str, Any] | None:
        """A baseline with its entries."""
        with self.db.connect() as conn:
            row = conn.execute(sa.select(BASELINES).where(BASELINES.c.name == name)).first()
        if row is None:
            return None
        return {"name": row.name, "entries": unpack(row.entries), "created": row.created,
                "updated": row.updated, "checker_version": row.checker_version}

    def baseline_names(self, limit: int = 1000) -> list[str]:
        """Names of the baselines."""
        with self.db.connect() as conn:
            query = sa.select(BASELINES.c.name).order_by(BASELINES.c.name).limit(limit)
            return list(conn.execute(query).scalars())

    def drop_baseline(self, name: str) -> bool:
        """Remove a baseline; return whether there was one."""
        with self.begin() as conn:
            query = sa.delete(BASELINES).where(BASELINES.c.name == name)
            return bool(conn.execute(query).rowcount)


class _Turn:
    """`engine.begin()` under a lock of this process."""

    def __init__(self, lock: Any, db: sa.Engine) -> None:
        self._lock, self._db = lock, db

    def __enter__(self) -> sa.Connection:
        self._lock.acquire()
        try:
            self._manager = self._db.begin()
            return self._manager.__enter__()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *details: Any) -> None:
        try:
            self._manager.__exit__(*details)
        finally:
            self._lock.release()


def _sqlite_settings(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"pragma {pragma}")
    cursor.close()


def _chunks(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[i : i + _CHUNK] for i in range(0, len(items), _CHUNK))


def _text_row(digest: str, text: str) -> dict[str, Any]:
    data, now = text.encode(), time.time()
    return {"digest": digest, "size_bytes": len(data), "lines": text.count("\n") + 1,
            "data": zlib.compress(data, 5), "created": now, "seen": now}


def _answer(row: Any) -> Answer:
    value, error = unpack(row.outcome)
    return Answer(row.key, row.kind, row.text_digest, row.checker_version,
                  json.loads(row.options), row.signature, Outcome(value, error), row.created,
                  row.launch_signature)
