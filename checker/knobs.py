"""Which knobs separate the classes of a sweep: the smallest set whose values fix the class.

In: one (knobs, class label) pair per configuration. Out: `Separation`: every smallest set of knobs
such that two configurations with the same values there are in the same class, and the knobs that
never move the class on their own. "No knob" and "no single knob" are answers, not failures.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

__all__ = ["Separation", "separate"]

MAX_SETS = 20_000  # subsets tried before the search turns greedy; 14 varying knobs stay exact


@dataclass(frozen=True, slots=True)
class Separation:
    """What tells the classes apart.

    sets: all smallest separating sets, each sorted as the knobs were given; empty when the classes
    are one, or when no set of knobs separates them (`clash` names two configurations that agree on
    every knob and are in different classes). inert: knobs that vary, and that never change the
    class where nothing else changes. exact: False if the search was greedy.
    """

    classes: int
    sets: tuple[tuple[str, ...], ...] = ()
    inert: tuple[str, ...] = ()
    clash: tuple[int, int] | None = None
    exact: bool = True

    @property
    def knobs(self) -> tuple[str, ...]:
        """The first smallest set, or nothing."""
        return self.sets[0] if self.sets else ()

    def sentence(self) -> str:
        """Say it in one line."""
        if self.classes <= 1:
            return "no knob changes the bits"
        if self.clash is not None:
            return "no set of knobs separates the classes: something that is not a knob does"
        if not self.sets:
            return "no knobs are known for these kernels"
        shown = " or ".join(_join(names) for names in self.sets[:3])
        if len(self.knobs) == 1:
            return f"{shown} alone separates the classes"
        return f"no single knob separates the classes: {shown} together do"


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def separate(rows: Iterable[tuple[Mapping[str, Any], Hashable]]) -> Separation:
    """Find the smallest sets of knobs whose values determine the class label.

    A knob that a configuration lacks counts as a value of its own.
    """
    table = [(dict(knobs), label) for knobs, label in rows]
    labels = [label for _, label in table]
    classes = len(set(labels))
    names = list(dict.fromkeys(name for knobs, _ in table for name in knobs))
    columns = {name: [_freeze(knobs.get(name, _MISSING)) for knobs, _ in table] for name in names}
    varying = [name for name in names if len(set(columns[name])) > 1]
    if classes <= 1:
        return Separation(classes, inert=tuple(varying))
    clash = _clash([columns[name] for name in varying], labels)
    if clash is not None:
        return Separation(classes, clash=clash if varying else None)
    inert = tuple(name for name in varying if _is_inert(name, varying, columns, labels))
    sets, exact = _smallest(varying, columns, labels)
    return Separation(classes, sets, inert, None, exact)


_MISSING = object()


def _freeze(value: Any) -> str:
    if value is _MISSING:
        return ""
    return json.dumps(value, sort_keys=True, default=str)


def _clash(columns: Sequence[Sequence[str]], labels: Sequence[Hashable]) -> tuple[int, int] | None:
    """Two rows with the same values and different labels, if there are any."""
    seen: dict[tuple[str, ...], int] = {}
    for row, label in enumerate(labels):
        first = seen.setdefault(tuple(column[row] for column in columns), row)
        if labels[first] != label:
            return first, row
    return None


def _smallest(
    names: Sequence[str], columns: Mapping[str, list[str]], labels: Sequence[Hashable]
) -> tuple[tuple[tuple[str, ...], ...], bool]:
    tried = 0
    for size in range(1, len(names) + 1):
        found = []
        for chosen in combinations(names, size):
            tried += 1
            if tried > MAX_SETS:
                return (_greedy(names, columns, labels),), False
            if _clash([columns[name] for name in chosen], labels) is None:
                found.append(chosen)
        if found:
            return tuple(found), True
    return (), True


def _greedy(
    names: Sequence[str], columns: Mapping[str, list[str]], labels: Sequence[Hashable]
) -> tuple[str, ...]:
    """Drop knobs one at a time while the rest still separates: minimal, perhaps not smallest."""
    kept = list(names)
    for name in names:
        rest = [other for other in kept if other != name]
        if _clash([columns[other] for other in rest], labels) is None:
            kept = rest
    return tuple(kept)


def _is_inert(
    name: str, varying: Sequence[str], columns: Mapping[str, list[str]], labels: Sequence[Hashable]
) -> bool:
    """True if the knob is varied with all others fixed at least once, and never moves the class."""
    groups: dict[tuple[str, ...], dict[str, set[Hashable]]] = {}
    for row, label in enumerate(labels):
        key = tuple(columns[other][row] for other in varying if other != name)
        groups.setdefault(key, {}).setdefault(columns[name][row], set()).add(label)
    compared = [group for group in groups.values() if len(group) > 1]
    return bool(compared) and all(
        len(set().union(*group.values())) == 1 for group in compared
    )
