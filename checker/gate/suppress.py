"""Suppressions: drifts that someone accepted, with a reason and an end.

In: a TOML file of `[[suppress]]` tables: `kernel` (a glob over `kernel config target`), `reason`,
`expires` (a date), and optionally `kinds` and `signature` (the new one that is accepted). Out:
`Suppression` records. An entry without reason or end is refused; one past its end does nothing.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from checker.errors import UsageError
from checker.gate.lockfile import Key

__all__ = ["KINDS", "Suppression", "load"]

#: drifts that can be suppressed; unreadable input and an empty run cannot
KINDS = ("signature", "coverage", "finding", "checker", "new", "missing")
_KNOWN = {"kernel", "reason", "expires", "kinds", "signature"}


@dataclass(frozen=True, slots=True)
class Suppression:
    """One accepted drift."""

    kernel: str
    reason: str
    expires: datetime.date
    kinds: tuple[str, ...] = KINDS
    signature: str = ""
    place: str = ""

    def active(self, today: datetime.date) -> bool:
        """True up to and including the day it expires."""
        return today <= self.expires

    def covers(self, kind: str, key: Key, signature: str) -> bool:
        """True if it is about this drift."""
        named = fnmatchcase(key.kernel, self.kernel) or fnmatchcase(str(key), self.kernel)
        return named and kind in self.kinds and self.signature in ("", signature)


def load(path: Path) -> tuple[Suppression, ...]:
    """Read a suppression file; a missing file holds none. Raises UsageError for a wrong one."""
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    rows = data.pop("suppress", [])
    if data or not isinstance(rows, list):
        raise UsageError(f"{path}: only `[[suppress]]` tables are expected here")
    return tuple(_one(row, f"{path}: suppression {n}") for n, row in enumerate(rows, 1))


def _one(row: object, place: str) -> Suppression:
    if not isinstance(row, dict):
        raise UsageError(f"{place}: a table is expected")
    if unknown := row.keys() - _KNOWN:
        raise UsageError(f"{place}: unknown key `{min(unknown)}`")
    for key in ("kernel", "reason"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise UsageError(f"{place}: `{key}` is missing or empty")
    expires = row.get("expires")
    if isinstance(expires, datetime.datetime):
        expires = expires.date()
    if isinstance(expires, str):
        try:
            expires = datetime.date.fromisoformat(expires)
        except ValueError:
            expires = None
    if not isinstance(expires, datetime.date):
        raise UsageError(f"{place}: `expires` must be a date, such as 2030-01-31")
    kinds = row.get("kinds", list(KINDS))
    if not isinstance(kinds, Sequence) or isinstance(kinds, str) or not set(kinds) <= set(KINDS):
        raise UsageError(f"{place}: `kinds` is a list out of {', '.join(KINDS)}")
    return Suppression(
        row["kernel"], row["reason"].strip(), expires, tuple(kinds), str(row.get("signature", "")),
        place,
    )
