"""Turn a built store into a committed set: ``python -m corpus.pack NAME MANIFEST...``.

Manifests in (``corpus.build``), one ``corpus/data/<NAME>.jsonl.xz`` out. Lines are sorted by name,
so that neighbours resemble each other and the file is reproducible.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Annotated, Any

import typer

from corpus.load import DATA


def write_lines(path: Path, rows: list[dict[str, Any]], preset: int = 9) -> int:
    """Write rows as compressed JSON lines; returns the size of the file in bytes.

    The window is wider than most sets, so that like kernels far apart still share their text.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    filters = ({"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 1 << 26},)
    with lzma.open(path, "wt", encoding="utf-8", newline="\n", filters=filters) as out:
        for row in rows:
            out.write(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")
    return path.stat().st_size


def pack(name: str, manifests: list[Path], folder: Path = DATA) -> tuple[int, int]:
    """Pack manifests into a set; returns (kernels, bytes)."""
    rows = []
    for manifest in manifests:
        for line in manifest.read_text().splitlines():
            row = json.loads(line)
            text = (manifest.parent / row["path"]).read_text()
            rows.append({"name": row["name"], "isa": row["isa"], "text": text,
                         "config": row["config"], "launches": row["launches"]})
    rows.sort(key=lambda row: str(row["name"]))
    names = [row["name"] for row in rows]
    if len(set(names)) != len(names):
        raise ValueError("two kernels of a set have one name")
    return len(rows), write_lines(folder / f"{name}.jsonl.xz", rows)


def main(
    name: Annotated[str, typer.Argument(help="name of the set")],
    manifests: Annotated[list[Path], typer.Argument(help="<target>.jsonl files of a store")],
) -> None:
    """Pack built kernels into corpus/data."""
    count, size = pack(name, manifests)
    print(f"{name}: {count} kernels, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    typer.run(main)
