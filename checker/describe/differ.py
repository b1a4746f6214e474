"""Where the words of two kernels differ: what `samebits compare` says about two orders.

In: two descriptors. Out: one row for each fact that is not the same: its place, and what either
side says. No row: the words are the same, and what differs is in the digests beside them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from checker.describe.text import facts
from checker.describe.words import Data

__all__ = ["Row", "differences"]

NOTHING = "(none)"


@dataclass(frozen=True, slots=True)
class Row:
    """One fact: where it stands, and what each of two kernels has there."""

    place: str
    a: str
    b: str


def differences(a: Data, b: Data) -> list[Row]:
    """The facts of two descriptors that differ, in the order of the text."""
    if "why" in a or "why" in b:
        return []
    outputs_a, outputs_b = ({o["output"]: o for o in d["outputs"]} for d in (a, b))
    rows = []
    for name in dict.fromkeys((*outputs_a, *outputs_b)):
        one, two = outputs_a.get(name), outputs_b.get(name)
        place = f"{(one or two or {})['kind']} to {name}"
        if one is None or two is None:
            rows.append(Row(place, *(NOTHING if o is None else "written" for o in (one, two))))
        else:
            left, right = _unlike(one["orders"], two["orders"]), _unlike(two["orders"],
                                                                        one["orders"])
            for x, y in zip(left, right, strict=False):
                rows += _order(place, x, y)
    return list(dict.fromkeys(rows))


def _unlike(orders: Sequence[Data], others: Sequence[Data]) -> list[Data]:
    """The orders that the other side does not have."""
    known = {_words(order) for order in others}
    return [order for order in orders if _words(order) not in known]


def _words(order: Data) -> str:
    """All that is said of an order; how many kinds of element have it is no part of it."""
    return json.dumps({k: v for k, v in order.items() if k != "kinds"}, sort_keys=True)


def _order(place: str, a: Data, b: Data) -> list[Row]:
    """What two orders of one output say differently."""
    left, right = facts(a), facts(b)
    return [Row(f"{place}, {name}", left.get(name, NOTHING), right.get(name, NOTHING))
            for name in dict.fromkeys((*left, *right)) if left.get(name) != right.get(name)]
