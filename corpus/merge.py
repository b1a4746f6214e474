"""Join the parts of truth runs into the committed truth: ``python -m corpus.merge FOLDER...``.

Folders of ``corpus.truth`` in; out come ``corpus/data/truth/<k>.jsonl.xz`` (records sorted by group
and name, so that like texts are neighbours; errors dropped and counted), ``bytes.jsonl.xz`` (digest
to first bytes) and ``about.json``. Kept bytes that no record refers to are dropped.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Annotated, Any

import typer

from corpus.load import TRUTH, read_lines
from corpus.pack import write_lines


def merge(folders: list[Path], out: Path, shard: int) -> tuple[int, int, int]:
    """Merge run folders; returns (records, failures, bytes on disk)."""
    records: dict[tuple[str, str, str], dict[str, Any]] = {}
    kept: dict[str, str] = {}
    failures, about = 0, {}
    for folder in folders:
        about = json.loads((folder / "about.json").read_text())
        for path in sorted(folder.glob("part-*.jsonl.xz")):
            for row in read_lines(path):
                if "error" in row:
                    failures += 1
                    continue
                config = row["config"]
                key = (config["group"], row["name"], json.dumps(row["below"], sort_keys=True)
                       + config["producer"])
                records[key] = row
        for row in read_lines(folder / "bytes.jsonl.xz"):
            kept[row["digest"]] = row["bytes"]
    rows = [records[key] for key in sorted(records)]
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.jsonl.xz"):
        old.unlink()
    size = 0
    for index, start in enumerate(range(0, len(rows), shard)):
        size += write_lines(out / f"{index:02}.jsonl.xz", rows[start : start + shard],
                            9 | lzma.PRESET_EXTREME)
    used = {d for row in rows for launch in row["digests"] for found in launch
            for d in found.split("+")}
    size += write_lines(out / "bytes.jsonl.xz",
                        [{"digest": d, "bytes": kept[d]} for d in sorted(used & kept.keys())], 9)
    (out / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    return len(rows), failures, size


def main(
    folders: Annotated[list[Path], typer.Argument(help="output folders of corpus.truth")],
    out: Annotated[Path, typer.Option(help="where the truth lies")] = TRUTH,
    shard: Annotated[int, typer.Option(min=1, help="records a file")] = 2500,
) -> None:
    """Merge truth runs."""
    count, failures, size = merge(folders, out, shard)
    print(f"{count} records, {failures} failures dropped, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    typer.run(main)
