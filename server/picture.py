"""The picture of a partition: knob values against classes, as an SVG of circles.

In: classes with their members, and each member's knobs. Out: markup, bounded in size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

__all__ = ["picture"]

MAX_CLASSES = 40
MAX_VALUES = 60
_CELL = 26
_TOP = 30


def knob_text(value: Any) -> str:
    """A knob's value as people write it."""
    return value if isinstance(value, str) else json.dumps(value)


def _sort_key(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text


def picture(
    classes: Sequence[Mapping[str, Any]], configs: Mapping[str, Mapping[str, Any]],
    separating: Sequence[str],
) -> Markup:
    """Rows are values of knobs (separating knobs first), columns are classes, area is number."""
    shown = list(classes[:MAX_CLASSES])
    counts: dict[tuple[str, str], dict[int, int]] = {}
    for column, one in enumerate(shown):
        for member in one["members"]:
            for knob, value in configs.get(member, {}).items():
                cell = counts.setdefault((knob, knob_text(value)), {})
                cell[column] = cell.get(column, 0) + 1
    values: dict[str, list[str]] = {}
    for knob, text in counts:
        values.setdefault(knob, []).append(text)
    knobs = [k for k in values if len(values[k]) > 1]
    knobs.sort(key=lambda k: (k not in separating, k))
    rows = [(k, v) for k in knobs for v in sorted(values[k], key=_sort_key)][:MAX_VALUES]
    if not rows or not shown:
        return Markup("")
    return _draw(rows, counts, len(shown), len(classes))


def _draw(
    rows: Sequence[tuple[str, str]], counts: Mapping[tuple[str, str], Mapping[int, int]],
    columns: int, total: int,
) -> Markup:
    left = 16 + 7 * max(len(f"{knob} = {text}"[:40]) for knob, text in rows)
    width, height = left + columns * _CELL + 10, _TOP + len(rows) * _CELL + 10
    largest = max(n for row in rows for n in counts[row].values())
    note = f"Knob values against classes: {len(rows)} values, {columns} of {total} classes"
    out = [f'<svg class="picture" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
           f' role="img" aria-label="{escape(note)}"><title>{escape(note)}</title>']
    for column in range(columns):
        x = left + column * _CELL + _CELL // 2
        out.append(f'<text class="head" x="{x}" y="18" text-anchor="middle">{column + 1}</text>')
    before = ""
    for number, row in enumerate(rows):
        y = _TOP + number * _CELL + _CELL // 2
        if row[0] != before:
            before = row[0]
            out.append(f'<line x1="4" x2="{width - 4}" y1="{y - _CELL // 2}"'
                       f' y2="{y - _CELL // 2}"/>')
        label = f"{row[0]} = {row[1]}"[:40]
        out.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>')
        for column, count in sorted(counts[row].items()):
            radius = 2 + (_CELL / 2 - 3) * math.sqrt(count / largest)
            x = left + column * _CELL + _CELL // 2
            tip = f"{label}: {count} in class {column + 1}"
            out.append(f'<circle cx="{x}" cy="{y}" r="{radius:.1f}">'
                       f"<title>{escape(tip)}</title></circle>")
    out.append("</svg>")
    return Markup("".join(out))
