"""Tables of the store, as SQLAlchemy Core metadata; `server.migrations` brings a database to it.

In: nothing. Out: `METADATA` and the tables. JSON is kept as text or compressed bytes, never as a
database type, so that SQLite and PostgreSQL hold the same and no character can be refused.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

__all__ = ["ANSWERS", "BASELINES", "CLAIMS", "ITEMS", "JOBS", "METADATA", "TEXTS"]

METADATA = MetaData()

#: assembly texts by SHA-256 of their UTF-8 bytes, zlib-compressed; seen: the day of the last use
TEXTS = Table(
    "texts", METADATA,
    Column("digest", String(64), primary_key=True),
    Column("size_bytes", Integer, nullable=False),
    Column("lines", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
    Column("seen", Float, nullable=False),
)

#: memo of engine calls; key = SHA-256 over (kind, text digest, checker version, options)
ANSWERS = Table(
    "answers", METADATA,
    Column("key", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("text_digest", String(64), nullable=False),
    Column("checker_version", String(64), nullable=False),
    Column("options", Text, nullable=False),
    Column("signature", String(128)),
    Column("launch_signature", String(128)),
    Column("outcome", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
    Column("seen", Float, nullable=False),
    Index("answers_signature", "signature"),
    Index("answers_launch_signature", "launch_signature"),
    Index("answers_text", "text_digest", "kind"),
)

#: calls that some server is running now; a claim past `until` is void
CLAIMS = Table(
    "claims", METADATA,
    Column("key", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("until", Float, nullable=False),
)

#: state: queued, running, done, failed, cancelled; a running job past `lease` may be taken over
JOBS = Table(
    "jobs", METADATA,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("subject", String(200)),
    Column("state", String(16), nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", String(64)),
    Column("lease", Float),
    Column("created", Float, nullable=False),
    Column("finished", Float),
    Column("error", Text),
    Column("result", LargeBinary),
    Index("jobs_state", "state", "created"),
)

#: the kernels of a job; state: waiting, done, failed
ITEMS = Table(
    "items", METADATA,
    Column("job", String(32), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("details", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("answer", String(64)),
    Column("class_key", String(128)),
    Column("error", Text),
    Index("items_digest", "digest"),
)

BASELINES = Table(
    "baselines", METADATA,
    Column("name", String(200), primary_key=True),
    Column("entries", LargeBinary, nullable=False),
    Column("checker_version", String(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
)
