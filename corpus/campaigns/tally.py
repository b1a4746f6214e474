"""Partitions against bytes, counted: what a truth campaign found, family by family.

Jobs and what samebits said of them in (``corpus.campaigns.truth``), one ``Tally`` a family out. A
kernel without a proof is a class of its own; pairs are counted inside one argument list, over all
launches and draws together. A pair whose bytes agreed on every draw and that a witness tells apart
is no equal pair (``told_apart``); a kernel with a defect, a race say, is equal to nothing and in no
class (``defective``; ``defect_pairs``: pairs of equal bytes that have one).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corpus.campaigns.truth import Found, Job


@dataclass(slots=True)
class Tally:
    """One family's row. Pairs are counted inside groups, over all launches and draws together."""

    family: str
    configs: int = 0
    bytes_classes: int = 0
    refined: int = 0
    static_classes: int = 0
    launch_classes: int = 0
    equal_pairs: int = 0
    told_apart: int = 0
    defective: int = 0
    defect_pairs: int = 0
    static_proved: int = 0
    launch_proved: int = 0
    false_static: int = 0
    false_launch: int = 0
    nondeterministic: int = 0
    not_modelled: int = 0
    no_map: int = 0
    bytes_right: int = 0
    bytes_wrong: int = 0
    bytes_refused: int = 0
    static_ms: float = 0.0
    launch_ms: float = 0.0
    moved_below: int = 0
    findings: list[str] = field(default_factory=list)


def tally(jobs: Sequence[Job], results: Sequence[Found]) -> list[Tally]:
    """Compare partitions with bytes, family by family."""
    rows: dict[str, Tally] = {}
    groups: dict[str, list[tuple[Job, Found]]] = defaultdict(list)
    for job, found in zip(jobs, results, strict=True):
        row = rows.setdefault(job.family, Tally(job.family))
        row.configs += 1
        row.not_modelled += not found.modelled
        row.no_map += not all(found.maps)
        row.bytes_right += found.bytes_right
        row.bytes_wrong += len(found.bytes_wrong)
        row.bytes_refused += bool(found.bytes_refused)
        row.moved_below += len(found.moved_below)
        row.static_ms += found.static_ms
        row.launch_ms += found.launch_ms
        row.findings += [f"wrong bytes: {found.name}: {w}" for w in found.bytes_wrong]
        row.findings += [f"moved below the text without a premise: {found.name}: {how}"
                         for how in found.moved_below
                         if not any(p.startswith("contraction") for p in found.premises)]
        row.findings += [f"defect in samebits: {found.name}: {why}" for why in found.reasons
                         if why.startswith("internal")]
        if not job.deterministic:
            row.nondeterministic += 1
            if found.modelled or all(found.maps):
                row.findings.append(f"nondeterministic but answered: {found.name}")
        else:
            groups[job.group].append((job, found))
    for members in groups.values():
        _tally_group(rows[members[0][0].family], members)
    for row in rows.values():
        row.static_ms /= row.configs
        row.launch_ms /= row.configs
    return sorted(rows.values(), key=lambda r: r.family)


def _tally_group(row: Tally, members: Sequence[tuple[Job, Found]]) -> None:
    """Classes and pairs of one group of comparable kernels."""
    every = _equal([job.digests for job, _ in members])
    sound = [(job, f) for job, f in members if not f.defect]
    row.defective += len(members) - len(sound)
    row.defect_pairs += every - _equal([job.digests for job, _ in sound])
    drawn = [job.digests for job, _ in sound]
    true = [(job.digests, f.part) for job, f in sound]
    # A kernel without a proof is a class of its own.
    static = [_static_key(f, i) for i, (_, f) in enumerate(sound)]
    launch = [_launch_key(f, i) for i, (_, f) in enumerate(sound)]
    row.bytes_classes += len(set(drawn))
    row.refined += len(set(true))
    row.static_classes += len(set(static))
    row.launch_classes += len(_joined(static, launch))
    row.equal_pairs += _equal(true)
    row.told_apart += _equal(drawn) - _equal(true)
    row.static_proved += _equal(list(zip(true, static, strict=True)))
    joined = {key: number for number, keys in enumerate(_joined(static, launch)) for key in keys}
    row.launch_proved += _equal([(t, joined[k]) for t, k in zip(true, static, strict=True)])
    _false_merges(row, members)


def _false_merges(row: Tally, members: Sequence[tuple[Job, Found]]) -> None:
    """Merged by a key although the bytes of the hardware, or a witness, differ."""
    true = [(job.digests, f.part) for job, f in members]
    static = [_static_key(f, i) for i, (_, f) in enumerate(members)]
    row.false_static += _merged(row, "static", members, static, true)
    for at in range(len(members[0][0].digests)):
        maps = [f.maps[at] or f"alone {i}" for i, (_, f) in enumerate(members)]
        row.false_launch += _merged(row, f"launch {at}", members, maps,
                                    [job.digests[at] for job, _ in members])


def _static_key(found: Found, number: int) -> str:
    return found.static_class or (found.signature if found.modelled else f"alone {number}")


def _launch_key(found: Found, number: int) -> str:
    return "|".join(found.maps) if all(found.maps) else f"alone {number}"


def _joined(static: Sequence[str], launch: Sequence[str]) -> list[set[str]]:
    """Classes joined over both keys, each as the set of its static keys."""
    parent = {s: s for s in static}

    def find(s: str) -> str:
        while parent[s] != s:
            s = parent[s]
        return s

    first: dict[str, str] = {}
    for s, key in zip(static, launch, strict=True):
        parent[find(s)] = find(first.setdefault(key, s))
    classes: dict[str, set[str]] = defaultdict(set)
    for s in static:
        classes[find(s)].add(s)
    return list(classes.values())


def _equal(labels: Iterable[Any]) -> int:
    """Pairs of equal labels."""
    return sum(n * (n - 1) // 2 for n in Counter(labels).values())


def _merged(row: Tally, basis: str, members: Sequence[tuple[Job, Found]], keys: Sequence[str],
            true: Sequence[Any]) -> int:
    """Pairs of one key whose bytes differ; the first of each kind is shown."""
    by_key: dict[str, dict[Any, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (job, _), key, bytes_ in zip(members, keys, true, strict=True):
        by_key[key][bytes_].append(job.name)
    count = 0
    for found in by_key.values():
        sizes = [len(v) for v in found.values()]
        count += (sum(sizes) ** 2 - sum(n * n for n in sizes)) // 2
        if len(found) > 1:
            names = [v[0] for v in found.values()]
            row.findings.append(f"false merge ({basis}): {names[0]} and {names[1]}")
    return count


HEADER = ("family", "configs", "bytes", "witnessed", "static", "launch", "false", "told apart",
          "defects", "static %", "launch %", "opaque", "no map", "bytes ok", "ms static",
          "ms launch")


def cells(row: Tally) -> tuple[str, ...]:
    """One row of the table, as text."""
    pairs = max(row.equal_pairs, 1)
    share = [f"{100 * n / pairs:.1f}" if row.equal_pairs else "-"
             for n in (row.static_proved, row.launch_proved)]
    right = f"{row.bytes_right}/{row.bytes_right + row.bytes_wrong}"
    return (row.family, str(row.configs), str(row.bytes_classes), str(row.refined),
            str(row.static_classes), str(row.launch_classes),
            str(row.false_static + row.false_launch), str(row.told_apart), str(row.defective),
            *share,
            str(row.not_modelled), str(row.no_map), right, f"{row.static_ms:.0f}",
            f"{row.launch_ms:.0f}")


def total(rows: Sequence[Tally]) -> Tally:
    """The sum of the rows; times are means over configurations."""
    out = Tally("all")
    for row in rows:
        for name, value in asdict(row).items():
            if name not in ("family", "findings", "static_ms", "launch_ms"):
                setattr(out, name, getattr(out, name) + value)
        out.static_ms += row.static_ms * row.configs
        out.launch_ms += row.launch_ms * row.configs
        out.findings += row.findings
    out.static_ms /= max(1, out.configs)
    out.launch_ms /= max(1, out.configs)
    return out
