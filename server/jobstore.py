"""Jobs in the database: claimed by one server at a time, resumed when that server is gone.

In: a `Store`. Out: `JobStore`: create, claim, heartbeat, item results, finish, cancel, hand back.
A running job belongs to its owner until its lease runs out; every write of a runner is fenced by
the owner's name, so a server that lost its lease can no longer change the job.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from server.schema import ITEMS, JOBS
from server.store import Store, pack, unpack

__all__ = ["FINAL", "Item", "ItemResult", "Job", "JobStore"]

FINAL = frozenset({"done", "failed", "cancelled"})
MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Item:
    """One kernel of a job; details: isa, kernel, config, launches."""

    number: int
    name: str
    digest: str
    details: dict[str, Any]
    state: str = "waiting"
    answer: str | None = None
    class_key: str | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of an item: the key of its answer, or the error."""

    number: int
    answer: str | None
    class_key: str | None
    error: dict[str, Any] | None

    @property
    def state(self) -> str:
        """The item's state from now on."""
        return "failed" if self.error else "done"


@dataclass(frozen=True, slots=True)
class Job:
    """A job without its kernels and its result."""

    id: str
    kind: str
    subject: str | None
    state: str
    total: int
    done: int
    attempts: int
    owner: str | None
    created: float
    finished: float | None
    error: dict[str, Any] | None

    @property
    def final(self) -> bool:
        """True when nothing will change any more."""
        return self.state in FINAL


_JOB_COLUMNS = (JOBS.c.id, JOBS.c.kind, JOBS.c.subject, JOBS.c.state, JOBS.c.total,
                JOBS.c.done, JOBS.c.attempts, JOBS.c.owner, JOBS.c.created, JOBS.c.finished,
                JOBS.c.error)


class JobStore:
    """Job and item rows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self, items: Sequence[Item], kind: str = "partition", subject: str | None = None,
    ) -> Job:
        """Queue a job for these kernels; each is waiting, its text kept, or done or failed.

        kind: partition, or check, whose subject is the name of a baseline.
        """
        job_id = secrets.token_hex(12)
        rows = [{"job": job_id, "number": i.number, "name": i.name, "digest": i.digest,
                 "details": json.dumps(i.details, sort_keys=True), "state": i.state,
                 "answer": i.answer, "class_key": i.class_key,
                 "error": None if i.error is None else json.dumps(i.error)} for i in items]
        with self._store.begin() as conn:
            conn.execute(sa.insert(JOBS).values(
                id=job_id, kind=kind, subject=subject, state="queued", total=len(rows), attempts=0,
                done=sum(i.state != "waiting" for i in items),
                created=time.time()))
            if rows:
                conn.execute(sa.insert(ITEMS), rows)
        job = self.get(job_id)
        assert job is not None
        return job

    def get(self, job_id: str) -> Job | None:
        """The job's row."""
        with self._store.db.connect() as conn:
            row = conn.execute(sa.select(*_JOB_COLUMNS).where(JOBS.c.id == job_id)).first()
        return None if row is None else _job(row)

    def count(self, *states: str) -> int:
        """Number of jobs in these states."""
        query = sa.select(sa.func.count()).select_from(JOBS).where(JOBS.c.state.in_(states))
        with self._store.db.connect() as conn:
            return int(conn.execute(query).scalar_one())

    def result(self, job_id: str) -> Any:
        """The partition of a finished job."""
        with self._store.db.connect() as conn:
            blob = conn.execute(sa.select(JOBS.c.result).where(JOBS.c.id == job_id)).scalar()
        return None if blob is None else unpack(blob)

    def items(self, job_id: str) -> list[Item]:
        """All kernels of a job, in the order given."""
        query = sa.select(ITEMS).where(ITEMS.c.job == job_id).order_by(ITEMS.c.number)
        with self._store.db.connect() as conn:
            return [_item(row) for row in conn.execute(query)]

    def class_sizes(self, job_id: str) -> dict[str, int]:
        """Kernels in each provisional class so far."""
        query = (sa.select(ITEMS.c.class_key, sa.func.count())
                 .where(ITEMS.c.job == job_id, ITEMS.c.class_key.is_not(None))
                 .group_by(ITEMS.c.class_key))
        with self._store.db.connect() as conn:
            return {key: int(size) for key, size in conn.execute(query)}

    def cancel(self, job_id: str) -> Job | None:
        """Cancel unless final; return the job as it is now."""
        with self._store.begin() as conn:
            live = sa.and_(JOBS.c.id == job_id, JOBS.c.state.in_(("queued", "running")))
            conn.execute(sa.update(JOBS).where(live).values(
                state="cancelled", finished=time.time(), owner=None, lease=None))
        return self.get(job_id)

    # the runner's side

    def claim(self, owner: str, lease_s: float) -> Job | None:
        """Take the oldest job that is queued or whose owner's lease has run out."""
        now = time.time()
        free = sa.or_(JOBS.c.state == "queued",
                      sa.and_(JOBS.c.state == "running", JOBS.c.lease < now))
        query = sa.select(JOBS.c.id).where(free).order_by(JOBS.c.created).limit(5)
        with self._store.db.connect() as conn:
            candidates = list(conn.execute(query).scalars())
        for job_id in candidates:
            with self._store.begin() as conn:
                taken = conn.execute(
                    sa.update(JOBS).where(JOBS.c.id == job_id, free).values(
                        state="running", owner=owner, lease=now + lease_s,
                        attempts=JOBS.c.attempts + 1))
            if taken.rowcount != 1:
                continue
            job = self.get(job_id)
            if job is not None and job.attempts > MAX_ATTEMPTS:
                text = f"given up: {MAX_ATTEMPTS} servers were lost while running it"
                self.finish(job_id, owner, error={"kind": "internal", "message": text})
                continue
            return job
        return None

    def heartbeat(self, job_id: str, owner: str, lease_s: float) -> bool:
        """Extend the lease; False when the job is no longer this owner's (or was cancelled)."""
        with self._store.begin() as conn:
            kept = conn.execute(sa.update(JOBS).where(*_mine(job_id, owner)).values(
                lease=time.time() + lease_s))
            return int(kept.rowcount) == 1

    def record(
        self, job_id: str, owner: str, lease_s: float, results: Iterable[ItemResult],
    ) -> bool:
        """Write item results, the count and the lease; False when the job is not this owner's."""
        rows = [{"n": r.number, "state_": r.state, "answer_": r.answer,
                 "class_": r.class_key, "error_": json.dumps(r.error) if r.error else None}
                for r in results]
        query = (sa.update(ITEMS)
                 .where(ITEMS.c.job == job_id, ITEMS.c.number == sa.bindparam("n"))
                 .values(state=sa.bindparam("state_"), answer=sa.bindparam("answer_"),
                         class_key=sa.bindparam("class_"), error=sa.bindparam("error_")))
        finished = (sa.select(sa.func.count()).select_from(ITEMS)
                    .where(ITEMS.c.job == job_id, ITEMS.c.state != "waiting").scalar_subquery())
        with self._store.begin() as conn:
            owned = conn.execute(
                sa.update(JOBS).where(*_mine(job_id, owner)).values(
                    lease=time.time() + lease_s)).rowcount
            if not owned:
                return False
            if rows:
                conn.execute(query, rows)
            conn.execute(sa.update(JOBS).where(JOBS.c.id == job_id).values(done=finished))
        return True

    def finish(
        self, job_id: str, owner: str, *, result: Any = None, error: dict[str, Any] | None = None,
    ) -> bool:
        """Set the final state; False when the job is not this owner's."""
        with self._store.begin() as conn:
            done = conn.execute(sa.update(JOBS).where(*_mine(job_id, owner)).values(
                state="failed" if error else "done", finished=time.time(), owner=None, lease=None,
                error=json.dumps(error) if error else None,
                result=None if error else pack(result)))
            return int(done.rowcount) == 1

    def hand_back(self, owner: str) -> int:
        """Queue every job of this owner again, without counting the attempt."""
        with self._store.begin() as conn:
            given = conn.execute(
                sa.update(JOBS).where(JOBS.c.owner == owner, JOBS.c.state == "running").values(
                    state="queued", owner=None, lease=None, attempts=JOBS.c.attempts - 1))
            return int(given.rowcount)


def _mine(job_id: str, owner: str) -> tuple[Any, ...]:
    return JOBS.c.id == job_id, JOBS.c.owner == owner, JOBS.c.state == "running"


def _job(row: Any) -> Job:
    error = None if row.error is None else json.loads(row.error)
    return Job(row.id, row.kind, row.subject, row.state, row.total, row.done, row.attempts,
               row.owner, row.created, row.finished, error)


def _item(row: Any) -> Item:
    error = None if row.error is None else json.loads(row.error)
    return Item(row.number, row.name, row.digest, json.loads(row.details), row.state, row.answer,
                row.class_key, error)
