"""Partitions against bytes, counted: what a truth campaign found, family by family.

Jobs and what samebits said of them in (``corpus.campaigns.truth``), one ``Tally`` a family out. A
kernel without a proof is a class of its own; pairs are counted inside one argument list, over all
launches and draws together.
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
    static_classes: int = 0
    launch_classes: int = 0
    equal_pairs: int = 0
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
                         for how in found.moved_below if "contraction" not in found.premises]
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
    true = [job.digests for job, _ in members]
    # A kernel without a proof is a class of its own.
    static = [f.signature if f.modelled else f"alone {i}" for i, (_, f) in enumerate(members)]
    launch = [_launch_key(f, i) for i, (_, f) in enumerate(members)]
    row.bytes_classes += len(set(true))
    row.static_classes += len(set(static))
    row.launch_classes += len(_joined(static, launch))
    pairs = Counter(true)
    row.equal_pairs += sum(n * (n - 1) // 2 for n in pairs.values())
    row.static_proved += _pairs(zip(true, static, strict=True))
    joined = {key: number for number, keys in enumerate(_joined(static, launch)) for key in keys}
    row.launch_proved += _pairs(zip(true, (joined[k] for k in static), strict=True))
    row.false_static += _merged(row, "static", members, static, true)
    for at in range(len(true[0])):
        maps = [f.maps[at] or f"alone {i}" for i, (_, f) in enumerate(members)]
        row.false_launch += _merged(row, f"launch {at}", members, maps, [t[at] for t in true])


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


def _pairs(labels: Iterable[Any]) -> int:
    """Pairs equal in both of two labels."""
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


HEADER = ("family", "configs", "bytes", "static", "launch", "false", "static %", "launch %",
          "opaque", "no map", "bytes ok", "ms static", "ms launch")


def cells(row: Tally) -> tuple[str, ...]:
    """One row of the table, as text."""
    pairs = max(row.equal_pairs, 1)
    share = [f"{100 * n / pairs:.1f}" if row.equal_pairs else "-"
             for n in (row.static_proved, row.launch_proved)]
    right = f"{row.bytes_right}/{row.bytes_right + row.bytes_wrong}"
    return (row.family, str(row.configs), str(row.bytes_classes), str(row.static_classes),
            str(row.launch_classes), str(row.false_static + row.false_launch), *share,
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
