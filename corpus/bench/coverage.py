"""How much of the committed kernels is modelled: ``python -m corpus.bench.coverage [--isa gcn]``.

Lowers every committed kernel of an ISA (``corpus/data``, and with ``--partition`` the texts of the
partition table) and prints one line a target: kernels, instructions, the share that has a row which
models it, and the names of the rest. The exit status is 1 where a target is below ``--least``.
Neither Triton nor a GPU is needed. ``measure`` is a plain function.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from corpus.bench.classes import PARTITION, read_parts
from corpus.load import load_set, sets

LEAST = 99.5


@dataclass(slots=True)
class Share:
    """Instructions of one target: modelled and not, the latter by opcode; texts not read."""

    kernels: int = 0
    modelled: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Share of the instructions that are modelled."""
        total = self.modelled + self.opaque.total()
        return 100 * self.modelled / total if total else 100.0


def texts(isa: str, partition: bool, only: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    """Yield target, name and text of every committed kernel of an ISA."""
    for name in sets():
        for kernel in load_set(name):
            target = str(kernel.config.get("target", name))
            if kernel.isa == isa and (not only or target in only):
                yield target, kernel.name, kernel.text
    for line in read_parts("texts", PARTITION) if partition else ():
        if line["isa"] == isa and (not only or line["target"] in only):
            yield line["target"], line["text"], line["asm"]


def measure(isa: str, partition: bool = False, only: Sequence[str] = ()) -> dict[str, Share]:
    """Count the instructions of all texts by target; equal texts count once."""
    from checker import api
    from checker.errors import SamebitsError

    out: dict[str, Share] = {}
    seen: set[str] = set()
    for target, name, text in texts(isa, partition, only):
        if text in seen:
            continue
        seen.add(text)
        share = out.setdefault(target, Share())
        share.kernels += 1
        try:
            counts = api.coverage(text, isa=isa, file=name)
        except SamebitsError as error:
            share.errors.append(f"{name}: {error}")
            continue
        for opcode, (good, bad) in counts.items():
            share.modelled += good
            if bad:
                share.opaque[opcode] += bad
    return out


def show(found: dict[str, Share], least: float = LEAST) -> int:
    """Print the shares; the exit status."""
    low = 0
    for target, share in sorted(found.items()):
        rest = ", ".join(f"{name} {count}" for name, count in share.opaque.most_common())
        total = share.modelled + share.opaque.total()
        low += share.percent < least or bool(share.errors)
        print(f"{target:8} {share.kernels:5} kernels {total:9} instructions "
              f"{share.percent:7.3f} % modelled; not: {rest or 'none'}")
        for error in share.errors:
            print(f"{target:8} not read: {error.splitlines()[0]}")
    return 1 if low else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="corpus.bench.coverage", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--isa", choices=("gcn", "ptx"), default="gcn")
    add("--target", action="append", default=[], help="only this target (may be repeated)")
    add("--partition", action="store_true", help="the texts of the partition table, too")
    add("--least", type=float, default=LEAST, help="percent that must be modelled")
    given = parser.parse_args(arguments)
    return show(measure(given.isa, given.partition, given.target), given.least)


if __name__ == "__main__":
    sys.exit(main())
