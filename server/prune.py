"""Maintenance of the store: forget what nobody has used for a number of days.

In: a `Store` and an age. Out: `Pruned`, how many rows went. Baselines and the texts that they name
stay, and so does all that an unfinished job, or a finished one that stays, refers to. Servers may
run meanwhile: what they rely on is noted as used when they look it up (`Store.answers`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from server.jobstore import FINAL
from server.schema import ANSWERS, BASELINES, CLAIMS, ITEMS, JOBS, TEXTS
from server.store import DAY_S, Store, unpack

__all__ = ["Pruned", "prune"]

_CHUNK = 400


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows that went, or would go; text_bytes is their compressed size."""

    jobs: int
    answers: int
    texts: int
    text_bytes: int


class _Undo(Exception):
    """Ends a transaction that was only to be looked at."""


def prune(store: Store, older_than_days: float, *, dry_run: bool = False) -> Pruned:
    """Delete finished jobs, answers and texts unused for so long, at least two days.

    A use is noted to within a day, and servers rely on what they looked up for another one.
    """
    if older_than_days < 2:
        raise ValueError("what was used within two days stays")
    before = time.time() - older_than_days * DAY_S
    try:
        with store.begin() as conn:
            found = _prune(conn, before)
            if dry_run:
                raise _Undo
    except _Undo:
        return found
    if store.is_sqlite:  # PostgreSQL hands the room back by itself
        with store.db.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(sa.text("vacuum"))
    return found


def _prune(conn: sa.Connection, before: float) -> Pruned:
    conn.execute(sa.delete(CLAIMS).where(CLAIMS.c.until < before))
    old_jobs = sa.and_(JOBS.c.state.in_(sorted(FINAL)), JOBS.c.finished < before)
    jobs = conn.execute(sa.delete(JOBS).where(old_jobs)).rowcount  # its items go with it
    used = sa.select(ITEMS.c.answer).where(ITEMS.c.answer.is_not(None))
    answers = conn.execute(sa.delete(ANSWERS).where(
        ANSWERS.c.seen < before, ANSWERS.c.key.not_in(used))).rowcount
    query = sa.select(TEXTS.c.digest, sa.func.length(TEXTS.c.data).label("size")).where(
        TEXTS.c.seen < before,
        TEXTS.c.digest.not_in(sa.select(ANSWERS.c.text_digest)),
        TEXTS.c.digest.not_in(sa.select(ITEMS.c.digest)))
    old = {row.digest: int(row.size) for row in conn.execute(query)}
    for digest in _named(conn) if old else ():
        old.pop(digest, None)
    gone: set[str] = set()
    digests = sorted(old)
    for start in range(0, len(digests), _CHUNK):
        chunk = digests[start : start + _CHUNK]
        gone |= set(conn.execute(  # a server may have noted a use since they were listed
            sa.delete(TEXTS).where(TEXTS.c.digest.in_(chunk), TEXTS.c.seen < before)
            .returning(TEXTS.c.digest)).scalars())
    return Pruned(int(jobs), int(answers), len(gone), sum(old[d] for d in gone))


def _named(conn: sa.Connection) -> Iterable[str]:
    """Digests that stand inside documents: of baselines, of second kernels, of checks."""
    for blob in conn.execute(sa.select(BASELINES.c.entries)).scalars():
        yield from (entry["digest"] for entry in unpack(blob))
    compared = sa.select(ANSWERS.c.options).where(ANSWERS.c.kind == "compare")
    for options in conn.execute(compared).scalars():
        yield json.loads(options)["b"]
    checked = sa.select(ITEMS.c.details).join(JOBS, JOBS.c.id == ITEMS.c.job).where(
        JOBS.c.kind == "check")
    for details in conn.execute(checked).scalars():
        base: dict[str, Any] | None = json.loads(details)["base"]
        if base is not None:
            yield base["digest"]
