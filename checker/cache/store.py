"""Answers kept on disk: signing is a pure function of the text, so each text is signed once.

In: a kind of question and everything that its answer depends on. Out: the stored answer, or
nothing. SQLite file, safe for concurrent processes; keyed by a digest of the question's parts and
of the checker's own code, so an answer never outlives the code that gave it. A cache that cannot
be opened or written is no cache; it is never an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checker.build import build
from checker.cache.defects import defects
from checker.results import Signature

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "Cache", "default_path", "hurried", "open_default", "signature_from_json",
]

MAX_BYTES = 512 * 2**20  # of stored answers; the least recently written go first
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, written INTEGER NOT NULL
) WITHOUT ROWID
"""


def default_path() -> Path | None:
    """Where the cache lives: `$SAMEBITS_CACHE`, or the user's cache folder; None if it is `off`."""
    named = os.environ.get("SAMEBITS_CACHE", "")
    if named.lower() in ("off", "0", "none"):
        return None
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "samebits" / "answers.sqlite"


@dataclass(slots=True)
class _Counters:
    hits: int = 0
    misses: int = 0


class Cache:
    """A store of answers; one object may be used from several threads."""

    def __init__(self, path: Path | None, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.counters = _Counters()
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._pid = 0

    def _connect(self) -> sqlite3.Connection | None:
        """The connection of this process (a fork must not use its parent's), or None."""
        if self.path is None:
            return None
        if self._db is None or self._pid != os.getpid():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                db = sqlite3.connect(
                    self.path, timeout=10, isolation_level=None, check_same_thread=False
                )
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=NORMAL")
                db.execute(_SCHEMA)
            except (OSError, sqlite3.Error):
                self.path = None
                return None
            self._db, self._pid = db, os.getpid()
        return self._db

    @staticmethod
    def key(kind: str, *parts: Any) -> str:
        """The digest of a question: its kind, its parts (JSON data) and the checker's code."""
        digest = hashlib.blake2b(digest_size=20)
        for part in (build(), kind, *parts):
            data = json.dumps(part, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    def get(self, key: str) -> Any | None:
        """Return the stored answer, or None."""
        with self._lock:
            db = self._connect()
            row = None
            if db is not None:
                try:
                    row = db.execute("SELECT value FROM answers WHERE key = ?", (key,)).fetchone()
                except sqlite3.Error:
                    row = None
            try:
                value = None if row is None else json.loads(row[0])
            except ValueError:
                value = None
            if value is None:
                self.counters.misses += 1
            else:
                self.counters.hits += 1
            return value

    def put(self, key: str, kind: str, value: Any) -> None:
        """Store an answer (JSON data); losing it is no error."""
        with self._lock:
            db = self._connect()
            if db is None:
                return
            try:
                db.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, unixepoch())",
                    (key, kind, json.dumps(value, separators=(",", ":"))),
                )
            except (sqlite3.Error, TypeError, ValueError):
                return

    def ask(self, kind: str, parts: tuple[Any, ...], answer: Callable[[], Any]) -> Any:
        """Return the stored answer to a question, or find it by `answer` and store it."""
        key = self.key(kind, *parts)
        value = self.get(key)
        if value is None:
            value = answer()
            self.put(key, kind, value)
        return value

    def sign(
        self, text: str, *, isa: str | None = None, kernel: str | None = None, file: str = "<text>",
        sign: Callable[..., Signature] | None = None,
    ) -> Signature:
        """`checker.api.sign` behind the cache; errors are raised and never stored."""
        if sign is None:
            from checker import api

            sign = api.sign
        found: list[Signature] = []

        def answer() -> dict[str, Any]:
            with defects():
                found.append(sign(text, isa=isa, kernel=kernel, file=file))
            return found[0].to_json()

        key = self.key("sign", text, isa, kernel)
        data = self.get(key)
        if data is not None:
            return signature_from_json(data)
        data = answer()
        if not hurried(data):
            self.put(key, "sign", data)
        return found[0]

    def trim(self) -> int:
        """Drop the oldest answers until the store is within its size; returns how many went."""
        with self._lock:
            db = self._connect()
            if db is None:
                return 0
            try:
                total = db.execute("SELECT coalesce(sum(length(value)), 0) FROM answers").fetchone()
                if total[0] <= self.max_bytes:
                    return 0
                gone = db.execute(
                    "DELETE FROM answers WHERE key IN (SELECT key FROM (SELECT key, sum(length("
                    "value)) OVER (ORDER BY written DESC, key) AS upto FROM answers) "
                    "WHERE upto > ?)",
                    (self.max_bytes,),
                ).rowcount
            except sqlite3.Error:
                return 0
            return int(gone)

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        with self._lock:
            if self._db is not None and self._pid == os.getpid():
                self._db.close()
            self._db = None


def open_default() -> Cache:
    """The cache at its default place."""
    return Cache(default_path())


def hurried(signature: dict[str, Any] | None) -> bool:
    """True for a signature that a limit of time cut short: another run may do better."""
    findings = signature["findings"] if signature else ()
    return any(f["code"] == "fuel" and "time" in f["message"] for f in findings)


def signature_from_json(data: dict[str, Any]) -> Signature:
    """Rebuild what `Signature.to_json` wrote; raises ValueError if it is something else."""
    return _adapter().validate_python(data)


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Signature]:
    from pydantic import TypeAdapter

    return TypeAdapter(Signature)
