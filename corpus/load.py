"""What is committed: compressed sets of compiled kernels, and hardware truth, read back.

A set is ``corpus/data/<name>.jsonl.xz``, one kernel a line; reading needs neither Triton nor a GPU.
Raises ``FileNotFoundError`` with the names that exist for an unknown set.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class CorpusKernel:
    """One compiled kernel: its text, what made it, and the launch facts it was made for.

    ``config`` has ``family``, ``variant``, ``knobs``, ``target`` and ``producer``; the format of
    ``launches`` is in ``corpus.compile``. ``launch`` is the first of them.
    """

    name: str
    isa: str
    text: str
    config: Mapping[str, Any]
    launches: tuple[Mapping[str, Any], ...]

    @property
    def launch(self) -> Mapping[str, Any]:
        """The first launch."""
        return self.launches[0]

    @property
    def family(self) -> str:
        """Family and variant: kernels that share a parameter list and are worth comparing."""
        return str(self.config["family"])


def sets() -> tuple[str, ...]:
    """Names of the committed kernel sets."""
    return tuple(sorted(p.name.removesuffix(".jsonl.xz") for p in DATA.glob("*.jsonl.xz")))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a compressed line file."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def load_set(name: str) -> list[CorpusKernel]:
    """All kernels of a committed set, in the order of the file."""
    path = DATA / f"{name}.jsonl.xz"
    if not path.exists():
        raise FileNotFoundError(f"no set {name!r}; there are {', '.join(sets())}")
    return [
        CorpusKernel(row["name"], row["isa"], row["text"], row["config"], tuple(row["launches"]))
        for row in read_lines(path)
    ]
