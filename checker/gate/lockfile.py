"""The baseline: a sorted, readable text with one block per kernel and configuration.

In: the text of `samebits.lock`, or entries. Out: `Lock`, or that text. The text holds no time, no
path and no mangled name, so it changes exactly when a kernel, its target or its compiler does.
Refuses, as LockError: another schema, a damaged block, merge markers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from checker.errors import SamebitsError
from checker.results import CHECKER_VERSION

__all__ = ["SCHEMA", "Entry", "Key", "Lock", "LockError", "config_text", "dump", "load"]

SCHEMA = 1
_HEADER = (
    "# samebits baseline: what each kernel computes, by signature. Written by\n"
    "# `samebits gate update`; `samebits gate check` compares. Commit it.\n"
)
_BARE = re.compile(r"[\w*+-][\w.*+:<>/,-]*")


class LockError(SamebitsError):
    """A baseline that is missing, damaged or made for another schema."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What names an entry: kernel, target, configuration."""

    kernel: str
    target: str
    config: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.kernel, self.config, self.target) if part)


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel in one configuration, as the baseline keeps it.

    coverage: `modelled`, or what stands against it: `opaque OPCODE...`, `finding CODE...`,
    `limit CODE...`, `nondeterministic`. text: digest of the assembly without comments, debug lines
    and blanks; it tells a changed checker from a changed kernel. replay: for a kernel that is not
    modelled and has launch facts, the digest of its output maps there. line: of the entry in the
    baseline (0: none).
    """

    kernel: str
    config: str
    target: str
    compiler: str
    signature: str
    coverage: str
    premises: str
    summary: str
    text: str
    replay: str = ""
    line: int = field(default=0, compare=False)

    @property
    def key(self) -> Key:
        """What names it."""
        return Key(self.kernel, self.target, self.config)

    @property
    def modelled(self) -> bool:
        """True if nothing stood against an equality when it was signed."""
        return self.coverage == "modelled"


@dataclass(frozen=True, slots=True)
class Lock:
    """A baseline: the checker that wrote it, and its entries, sorted."""

    checker: str
    entries: tuple[Entry, ...]


_FIELDS = tuple(f.name for f in fields(Entry) if f.name != "line")
_OPTIONAL = {"config", "target", "compiler", "premises", "summary", "text", "replay"}


def config_text(config: Mapping[str, Any]) -> str:
    """A configuration in one line, sorted by knob: `BLOCK_K=32 num_warps=4`."""
    return " ".join(f"{name}={_value(config[name])}" for name in sorted(config))


def _value(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value):
        try:
            json.loads(value)
        except ValueError:
            if value not in ("NaN", "Infinity", "-Infinity"):
                return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def dump(entries: Iterable[Entry], *, checker: str = CHECKER_VERSION) -> str:
    """Write a baseline: the same entries give the same text, whatever their order."""
    blocks = [f"{_HEADER}schema {SCHEMA}\nchecker {checker}\n"]
    for entry in sorted(entries, key=lambda e: (e.key, e.signature, e.text)):
        rows = ((name, _one_line(getattr(entry, name))) for name in _FIELDS)
        blocks.append("".join(f"{name:<9} {value}\n" for name, value in rows if value))
    return "\n".join(blocks)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def load(text: str, *, name: str = "samebits.lock") -> Lock:
    """Read a baseline; raises LockError with the line for anything that is not one."""
    header: dict[str, str] = {}
    entries: list[Entry] = []
    block: dict[str, str] = {}
    start = 0
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        line = raw.rstrip()
        if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
            raise LockError(f"{name}:{number}: an unfinished merge: resolve it, then update")
        if line.startswith("#"):
            continue
        if not line:
            if block:
                _close(block, header, entries, name, start)
            block = {}
            continue
        word, _, value = line.partition(" ")
        if not block:
            start = number
        if word in block:
            raise LockError(f"{name}:{number}: `{word}` stands twice in one block")
        block[word] = value.strip()
    if header.get("schema") is None:
        raise LockError(f"{name}: this is no samebits baseline: it has no `schema` line")
    return Lock(header.get("checker", ""), tuple(entries))


def _close(
    block: dict[str, str], header: dict[str, str], entries: list[Entry], name: str, start: int
) -> None:
    """End of a block: the header first, then entries."""
    if not header:
        if block.get("schema") != str(SCHEMA):
            found = block.get("schema", "none")
            raise LockError(
                f"{name}:{start}: schema {found} cannot be read by samebits {CHECKER_VERSION}, "
                f"which reads schema {SCHEMA}: run `samebits gate update` with one version for both"
            )
        header.update(block)
        return
    unknown = block.keys() - set(_FIELDS)
    missing = set(_FIELDS) - _OPTIONAL - block.keys()
    if unknown or missing:
        wrong = [f"unknown `{word}`" for word in sorted(unknown)]
        wrong += [f"`{word}` is missing" for word in sorted(missing)]
        raise LockError(f"{name}:{start}: not an entry: {', '.join(wrong)}")
    entries.append(Entry(**{word: block.get(word, "") for word in _FIELDS}, line=start))
