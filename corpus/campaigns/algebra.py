"""Algebra: kernels that are called equal return the same bits, for random programs.

In: families of random programs, each written in many ways (`expressions`). Every pair of one family
that has one static signature, or one map of trees, must have one set of bytes on thousands of
edge values. Out: a table of spellings: told apart, proved equal, or equal in all bytes and not
proved; any pair that is equal by an engine and differs in bytes makes the exit status 1.

Run by `python -m corpus.campaigns algebra`, or by `measure` where only the checker's own
dependencies are installed. `on_device` runs the texts on an NVIDIA GPU and compares what they
write with the domain `bytes`; with `out` it keeps the digests, which a test replays without a GPU.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from checker import api
from checker.core import Program
from checker.draws import canonical_nans
from checker.launch import Launch
from checker.replay import replay
from corpus.campaigns.common import Options, each, keep, say
from corpus.campaigns.dialects import DIALECTS, ELEMENTS
from corpus.campaigns.expressions import Family, family, inputs
from corpus.pool import Lost

#: what becomes of a pair: other bits and told apart by both engines; the same bits and proved by
#: both, by one or by none; bits that no model gives; other bits and called equal all the same
FATES = ("apart", "proved", "static only", "launch only", "not proved", "no bytes", "MERGED")

FACTS: Mapping[str, Mapping[str, Any]] = {isa: {
    "grid": [ELEMENTS // dialect.threads, 1, 1], "block": [dialect.threads, 1, 1],
    "args": [*({"buffer": name, "dtype": "u32", "elements": ELEMENTS, "role": "in"}
               for name in "abc"),
             {"buffer": "out", "dtype": "u32", "elements": 2 * ELEMENTS, "role": "out"}]}
    for isa, dialect in DIALECTS.items()}
LAUNCH = {isa: Launch.from_json(facts) for isa, facts in FACTS.items()}

#: seed of the inputs
WORDS = "one"


@dataclass(frozen=True, slots=True)
class Job:
    """One family."""

    seed: str
    members: int
    isa: str = "ptx"


@dataclass(frozen=True, slots=True)
class Pair:
    """The plain text and one of the others: what became of them, and where bits differ."""

    spelled: str
    fate: str
    texts: tuple[str, str] = ("", "")
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """What the two engines and the bits say of one text; None: no answer."""

    signature: str | None
    map: str | None
    words: NDArray[np.uint32] | None


@lru_cache(maxsize=4)
def _inputs(seed: str) -> dict[str, NDArray[np.uint32]]:
    return inputs(seed)


def written(program: Program, kinds: str) -> NDArray[np.uint32] | None:
    """Return the words that a text writes, from the domain `bytes`: one NaN, if bit-accurate."""
    run = replay(program, LAUNCH[program.isa], domain="bytes", inputs=_inputs(WORDS))
    if not run.usable or run.inaccurate:
        return None
    return _plain(run.outputs["out"].words[1].astype(np.uint32), kinds)


def _plain(words: NDArray[np.uint32], kinds: str) -> NDArray[np.uint32]:
    """Return words [elements][2] with one NaN for all, where they are floats."""
    words = words.reshape(-1, 2).copy()
    for column, kind in enumerate(kinds):
        if kind == "f":
            words[:, column] = canonical_nans("f32", words[:, column])
        if kind == "x":
            halves = np.ascontiguousarray(words[:, column]).view(np.uint16)
            words[:, column] = canonical_nans("f16", halves).view(np.uint32)
    return words


def _made(text: str, kinds: str) -> Made:
    """Ask both engines, and the domain `bytes` for what is written."""
    program = api.program_of(text)
    signed, trees = api.sign(text), replay(program, LAUNCH[program.isa])
    return Made(signed.text if signed.modelled else None, trees.digest if trees.usable else None,
                written(program, kinds))


def judge(job: Job) -> list[Pair]:
    """Compare the texts of one family."""
    return pairs(family(job.seed, job.members, job.isa))


def pairs(texts: Family) -> list[Pair]:
    """Compare the texts of a family with the first one, and all that an engine calls equal."""
    out: list[Pair] = []
    found = [_made(text, texts.kinds) for text in texts.texts]
    for at, other in enumerate(found):
        for before, one in enumerate(found[:at]):
            static = one.signature is not None and one.signature == other.signature
            launch = one.map is not None and one.map == other.map
            if before and not (static or launch):
                continue
            both = (texts.texts[before], texts.texts[at])
            spelled = texts.spelled[at] if not before else \
                f"{texts.spelled[before]} | {texts.spelled[at]}"
            if one.words is None or other.words is None:
                out.append(Pair(spelled, "no bytes"))
                continue
            differ = np.argwhere(one.words != other.words)
            if len(differ):
                fate = "MERGED" if static or launch else "apart"
                by = "static" if static else "launch"
                out.append(Pair(spelled, fate, both, _shown(by, one, other, differ)
                                if fate == "MERGED" else ""))
                continue
            fate = "proved" if static and launch else "static only" if static else \
                "launch only" if launch else "not proved"
            out.append(Pair(spelled, fate, both))
    return out


def _shown(by: str, one: Made, other: Made, differ: NDArray[Any]) -> str:
    assert one.words is not None
    assert other.words is not None
    row, column = differ[0]
    given = ", ".join(f"{name} {int(bits[row]):08x}" for name, bits in _inputs(WORDS).items())
    return (f"{by}: {len(differ)} words, first word {column} of {given}: "
            f"{int(one.words[row, column]):08x}, {int(other.words[row, column]):08x}")


def campaign(options: Options) -> int:
    """Run the campaign; return the exit status."""
    jobs = _jobs(options)
    total: Counter[str] = Counter()
    open_pairs: Counter[str] = Counter()
    merged = 0
    for job, answer in each("algebra", judge, jobs, options):
        if isinstance(answer, Lost):
            say(f"lost: {job.seed}: {answer.reason}")
            total["lost"] += 1
            continue
        for pair in answer:
            total[pair.fate] += 1
            if pair.fate in ("not proved", "launch only", "static only"):
                open_pairs[f"{pair.fate}: {pair.spelled}"] += not {"&", "|"} & set(pair.spelled)
            if pair.fate == "MERGED":
                merged += 1
                path = keep("algebra", f"{job.seed}-{merged}", {
                    "seed": job.seed, "spelled": pair.spelled, "shown": pair.shown,
                    "old": pair.texts[0], "new": pair.texts[1]})
                print(f"MERGED {job.seed} {pair.spelled}: {pair.shown}  ({path.name})")
    for name, count in open_pairs.most_common(12):
        print(f"{count:>6}  {name}")
    count = sum(total[fate] for fate in FATES)
    print(f"algebra seed {options.seed}: {count} pairs of {len(jobs)} programs, "
          + ", ".join(f"{total[fate]} {fate}" for fate in (*FATES, "lost")))
    return 1 if merged or not total["proved"] else 0


def _jobs(options: Options) -> list[Job]:
    members = max(2, min(options.per_kernel, 12))
    return [Job(f"{options.seed}/{number}", members, options.isa)
            for number in range(-(-options.count // members))]


def measure(count: int = 2000, seed: int = 1, jobs: int | None = None, seconds: float = 1e9,
            per_kernel: int = 8, isa: str = "ptx") -> int:
    """The campaign for callers without a command line; returns the exit status."""
    return campaign(Options(isa, count, seed, "", jobs, per_kernel, seconds))


# --- against hardware -------------------------------------------------------------------------


class _Worker:
    """What a process keeps: one context on the device."""

    device: Any = None


def ran(job: Job) -> list[tuple[str, str, str]]:
    """Run a family on the device: for each text how it is spelled, its digest, what is wrong."""
    from corpus.device import Device, DeviceError

    if _Worker.device is None:
        _Worker.device = Device().open()
    texts, out = family(job.seed, job.members), []
    for text, spelled in zip(texts.texts, texts.spelled, strict=True):
        try:
            module, function = _Worker.device.load(text.encode(), "expression", 0)
            words = _plain(_Worker.device.launch(function, FACTS["ptx"], _inputs(WORDS))["out"],
                           texts.kinds)
            _Worker.device.unload(module)
        except DeviceError as error:
            out.append((spelled, "", str(error)))
            continue
        model = written(api.program_of(text), texts.kinds)
        wrong = ""
        if model is None:
            wrong = "no bytes"
        elif (model != words).any():
            row, column = np.argwhere(model != words)[0]
            given = ", ".join(f"{int(bits[row]):08x}" for bits in _inputs(WORDS).values())
            wrong = (f"{int((model != words).sum())} words, word {column} of {given}: "
                     f"device {int(words[row, column]):08x}, model {int(model[row, column]):08x}")
        out.append((spelled, digest_of(words), wrong))
    return out


def digest_of(words: NDArray[np.uint32]) -> str:
    """Return the digest of what a text writes."""
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(words).tobytes())


def on_device(count: int = 2000, seed: int = 1, jobs: int | None = None, seconds: float = 1e9,
              per_kernel: int = 4, out: str | None = None) -> int:
    """Compare the domain `bytes` with an NVIDIA GPU; returns the exit status."""
    options = Options("ptx", count, seed, "", jobs, per_kernel, seconds)
    total: Counter[str] = Counter()
    right: dict[str, list[str]] = {}
    for job, answer in each("algebra on the device", ran, _jobs(options), options):
        if isinstance(answer, Lost):
            say(f"lost: {job.seed}: {answer.reason}")
            total["lost"] += 1
            continue
        for at, (spelled, _digest, wrong) in enumerate(answer):
            total[wrong if wrong == "no bytes" else "WRONG" if wrong else "right"] += 1
            if wrong and wrong != "no bytes":
                print(f"WRONG {job.seed}, text {at}, {spelled}: {wrong}")
        if not any(wrong for _spelled, _digest, wrong in answer):
            right[f"{job.seed}/{job.members}"] = [digest for _spelled, digest, _wrong in answer]
    if out:
        Path(out).write_text(json.dumps(dict(sorted(right.items())), indent=0) + "\n")
    print(f"algebra on the device, seed {seed}: " + ", ".join(
        f"{total[fate]} {fate}" for fate in ("right", "no bytes", "WRONG", "lost")))
    return 1 if total["WRONG"] or not total["right"] else 0
