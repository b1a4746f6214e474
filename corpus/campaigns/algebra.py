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
from collections.abc import Mapping, Sequence
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

#: of each dialect its launches, one for each size; results of several words have fewer elements
FACTS: Mapping[str, Sequence[Mapping[str, Any]]] = {isa: [{
    "grid": [ELEMENTS // dialect.threads // dialect.result_words ** 3, 1, 1],
    "block": [dialect.threads, 1, 1],
    "args": [*({"buffer": name, "dtype": "u32", "elements": ELEMENTS, "role": "in"}
               for name in "abc"),
             {"buffer": "out", "dtype": "u32", "role": "out",
              "elements": 2 * ELEMENTS // dialect.result_words ** 2},
             *([] if size is None else [{"i32": size}])]}
    for size in dialect.sizes] for isa, dialect in DIALECTS.items()}
LAUNCHES = {isa: [Launch.from_json(f) for f in facts] for isa, facts in FACTS.items()}

#: how floats lie in results, by kind
FLOATS = {"f": ("f32", np.uint32), "x": ("f16", np.uint16), "y": ("bf16", np.uint16),
          "q": ("f64", np.uint64)}

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
    """What the engines and the bits say of one text, some launch by launch; None: no answer."""

    signature: str | None
    maps: list[str | None]
    words: list[NDArray[np.uint32] | None]


@lru_cache(maxsize=4)
def _inputs(isa: str) -> dict[str, NDArray[np.uint32]]:
    return inputs(WORDS, DIALECTS[isa].result_words == 2)


def written(program: Program, kinds: str, isa: str = "", number: int = 0
            ) -> NDArray[np.uint32] | None:
    """Return the words that a text writes, from the domain `bytes`: one NaN, if bit-accurate."""
    isa = isa or program.isa
    run = replay(program, LAUNCHES[isa][number], domain="bytes", inputs=_inputs(isa))
    if not run.usable or run.inaccurate:
        return None
    return _plain(run.outputs["out"].words[1].astype(np.uint32), kinds)


def _plain(words: NDArray[np.uint32], kinds: str) -> NDArray[np.uint32]:
    """Return words [elements][2 results], or [2 results of two words], with one NaN for all."""
    each = 1 if len(words) == 2 * ELEMENTS else 2
    words = words.reshape(-1, 2, each).copy()
    for number, kind in enumerate(kinds):
        if kind in FLOATS:
            dtype, held = FLOATS[kind]
            own = words[:, number, :2 if kind == "q" else 1]
            bits = np.ascontiguousarray(own).view(held)
            own[:] = canonical_nans(dtype, bits).astype(held).view(np.uint32)
    return words.reshape(-1, 2 * each)


def _made(text: str, kinds: str, isa: str, launches: int) -> Made:
    """Ask both engines, and the domain `bytes` for what is written."""
    program, signed = api.program_of(text), api.sign(text)
    runs = [replay(program, launch) for launch in LAUNCHES[isa][:launches]]
    return Made(signed.text if signed.modelled else None,
                [run.digest if run.usable else None for run in runs],
                [written(program, kinds, isa, number) for number in range(launches)])


def judge(job: Job) -> list[Pair]:
    """Compare the texts of one family."""
    return pairs(family(job.seed, job.members, job.isa), job.isa)


def pairs(texts: Family, isa: str = "ptx") -> list[Pair]:
    """Compare the texts of a family with the first one, and all that an engine calls equal."""
    out: list[Pair] = []
    size = DIALECTS[isa].names(DIALECTS[isa].plain).get("n", "")
    sized = size and any(text.count(size) > 1 for text in texts.texts)
    launches = len(LAUNCHES[isa]) if sized else 1
    found = [_made(text, texts.kinds, isa, launches) for text in texts.texts]
    for at, other in enumerate(found):
        for before, one in enumerate(found[:at]):
            static = one.signature is not None and one.signature == other.signature
            launch = [m is not None and m == n for m, n in zip(one.maps, other.maps, strict=True)]
            if before and not (static or any(launch)):
                continue
            both = (texts.texts[before], texts.texts[at])
            spelled = texts.spelled[at] if not before else \
                f"{texts.spelled[before]} | {texts.spelled[at]}"
            fate, shown = _fate(static, launch, one, other)
            out.append(Pair(spelled, fate, both if fate != "no bytes" else ("", ""), shown))
    return out


def _fate(static: bool, launch: Sequence[bool], one: Made, other: Made) -> tuple[str, str]:
    """Return what became of a pair, and where what is called equal differs."""
    apart = False
    for number, (x, y) in enumerate(zip(one.words, other.words, strict=True)):
        if x is None or y is None:
            continue
        differ = np.argwhere(x != y)
        if len(differ) and (static or launch[number]):
            return "MERGED", _shown("static" if static else "launch", number, x, y, differ)
        apart |= len(differ) > 0
    if apart:
        return "apart", ""
    if any(w is None for w in (*one.words, *other.words)):
        return "no bytes", ""
    return ("proved" if static and all(launch) else "static only" if static else
            "launch only" if all(launch) else "not proved"), ""


def _shown(by: str, number: int, one: NDArray[np.uint32], other: NDArray[np.uint32],
           differ: NDArray[Any]) -> str:
    row, column = differ[0]
    each = one.shape[1] // 2
    given = ", ".join(
        f"{name} {' '.join(f'{int(b):08x}' for b in bits[each * row:each * (row + 1)])}"
        for name, bits in _inputs("ptx" if each == 1 else "ptx-more").items())
    return (f"{by}: {len(differ)} words at launch {number}, first word {column} of {given}: "
            f"{int(one[row, column]):08x}, {int(other[row, column]):08x}")


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
            words = _plain(_Worker.device.launch(function, FACTS["ptx"][0], _inputs("ptx"))["out"],
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
            given = ", ".join(f"{int(bits[row]):08x}" for bits in _inputs("ptx").values())
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
