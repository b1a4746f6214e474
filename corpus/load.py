"""What is committed: compressed sets of compiled kernels, and hardware truth, read back.

A set is ``corpus/data/<name>.jsonl.xz``, one kernel a line; reading needs neither Triton nor a GPU.
Raises ``FileNotFoundError`` with the names that exist for an unknown set.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
TRUTH = DATA / "truth"


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


@dataclass(frozen=True, slots=True)
class TruthRecord:
    """What one configuration wrote on the hardware.

    ``digests[launch][draw]`` joins with ``+`` one digest for each written buffer, in parameter
    order; ``draws`` of ``truth_about`` names the draws. ``below`` says how the text became machine
    code (empty: the compiler's own way). ``repeats`` is False when one draw, run twice, wrote two
    different things.
    """

    kernel: CorpusKernel
    below: Mapping[str, str]
    digests: tuple[tuple[str, ...], ...]
    repeats: bool

    @property
    def group(self) -> str:
        """Records of one group ran on the same arguments and can be compared."""
        return str(self.kernel.config["group"])

    @property
    def deterministic(self) -> bool:
        """False for kernels whose bytes depend on the order of arrival."""
        return self.repeats and not self.kernel.config.get("nondeterministic", False)


def truth_about(folder: Path = TRUTH) -> dict[str, Any]:
    """Device, driver, producer, draws and poison of the committed truth."""
    about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    return about


def load_truth(family: str | None = None, folder: Path = TRUTH) -> Iterator[TruthRecord]:
    """The committed truth, all of it or one family's, in the order of group and name."""
    for path in sorted(folder.glob("[0-9]*.jsonl.xz")):
        for row in read_lines(path):
            if family is not None and row["config"]["family"] != family:
                continue
            kernel = CorpusKernel(row["name"], row["isa"], row["text"], row["config"],
                                  tuple(row["launches"]))
            yield TruthRecord(kernel, row["below"], tuple(tuple(d) for d in row["digests"]),
                              bool(row["repeats"]))


def truth_bytes(folder: Path = TRUTH) -> dict[str, bytes]:
    """The first bytes of outputs by digest, for the outputs of which bytes were kept."""
    return {row["digest"]: base64.b64decode(row["bytes"])
            for row in read_lines(folder / "bytes.jsonl.xz")}
