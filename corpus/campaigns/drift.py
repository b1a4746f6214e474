"""Drift: signatures of the committed kernels are the committed signatures.

In: ``corpus/data/signatures.json`` and the sets. Out: every kernel whose signature moved; any makes
the exit status 1. ``python -m corpus.campaigns.drift --write`` commits to what is signed now: do so
only with a new signature version, since users keep signatures.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated

import typer

from checker import api
from checker.errors import SamebitsError
from corpus.campaigns.common import SETS, Options, each, keep, say
from corpus.load import DATA, CorpusKernel, load_set
from corpus.pool import Lost

SIGNATURES = DATA / "signatures.json"

#: longest text that is held to its signature, in characters
LONGEST = 9_000


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to sign."""

    name: str
    isa: str
    text: str


def chosen(isa: str) -> list[CorpusKernel]:
    """The kernels that drift watches: every short one of the sets of an ISA."""
    return [k for name in SETS[isa] for k in load_set(name) if len(k.text) < LONGEST]


def sign(job: Job) -> tuple[str, str]:
    """Name and signature; an error is a signature of its own."""
    try:
        return job.name, api.sign(job.text, isa=job.isa).text
    except SamebitsError as error:
        return job.name, f"error: {type(error).__name__}"


def signatures(options: Options) -> dict[str, str]:
    """Sign everything that is watched."""
    jobs = [Job(k.name, k.isa, k.text) for k in chosen(options.isa)
            if re.search(options.only, k.name)]
    return {job.name: f"lost: {answer.reason}" if isinstance(answer, Lost) else answer[1]
            for job, answer in each("drift", sign, jobs, options)}


def campaign(options: Options) -> int:
    """Run the campaign; return the exit status."""
    if not SIGNATURES.exists():
        say(f"{SIGNATURES} is missing: commit to signatures first, "
            "with `python -m corpus.campaigns.drift --write`")
        return 2
    committed: dict[str, str] = json.loads(SIGNATURES.read_text()).get(options.isa, {})
    now = signatures(options)
    moved = sorted(n for n, s in now.items() if committed.get(n) != s)
    for name in moved:
        keep("drift", name, {"kernel": name, "was": committed.get(name), "is": now[name]})
        print(f"{name}: {committed.get(name)} -> {now[name]}")
    print(f"{len(now)} kernels, {len(moved)} signatures moved")
    return 1 if moved or not now else 0


def command(
    write: Annotated[bool, typer.Option("--write", help="commit to what is signed now")] = False,
    jobs: Annotated[int | None, typer.Option(help="processes; default: all cores")] = None,
) -> None:
    """Compare signatures with the committed ones, or commit to new ones."""
    if not write:
        raise typer.Exit(max(campaign(Options(isa, jobs=jobs)) for isa in SETS))
    found = {isa: dict(sorted(signatures(Options(isa, jobs=jobs)).items()))
             for isa in sorted(SETS)}
    SIGNATURES.write_text(json.dumps(found, indent=0) + "\n")
    print(f"{sum(map(len, found.values()))} signatures written")


if __name__ == "__main__":
    typer.run(command)
