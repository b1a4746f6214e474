"""Compiler caches on disk: Triton's cache folder and Inductor's output folder.

In: a folder. Out: one `CacheEntry` per compiled kernel: name, assembly, knobs and compiler. Triton
writes `HASH/__grp__NAME.json`, `HASH/NAME.json` (metadata) and the stages of compilation beside
it; Inductor keeps such a folder inside its own and adds `*.best_config` files, whose
`triton_cache_hash` names the entry that a configuration was compiled to. Block sizes are not in
the metadata; they are read off the first stage (`NAME.source`/`NAME.ttir`) as derived knobs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["MOVED_BY_VERSIONS", "CacheEntry", "entries"]

#: compile options that a person sets; everything else in the metadata is a result or plumbing
OPTIONS = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "enable_fp_fusion",
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "default_dot_input_precision", "ptx_options",
    "allow_flush_denorm", "max_num_imprecise_acc_default", "launch_pdl", "schedule_hint",
)
#: options left out of a configuration while they have the value that nobody asked for
DEFAULTS: dict[str, tuple[Any, ...]] = {
    "num_ctas": (1,), "cluster_dims": ([1, 1, 1],), "enable_fp_fusion": (True,),
    "waves_per_eu": (0, 1), "matrix_instr_nonkdim": (0,), "kpack": (1,), "launch_pdl": (False,),
    "default_dot_input_precision": ("tf32", "ieee"), "allow_flush_denorm": (False,),
    "schedule_hint": ("none", ""), "max_num_imprecise_acc_default": (0, 2**30),
}
#: options whose default moves with the compiler's version: no part of a baseline entry's name
MOVED_BY_VERSIONS = frozenset({
    "enable_fp_fusion", "default_dot_input_precision", "allow_flush_denorm", "schedule_hint",
    "max_num_imprecise_acc_default", "ptx_options", "launch_pdl", "cluster_dims",
})
#: keys of a best_config file that say how it was found, not what was compiled
_NOT_KNOBS = {"configs_hash", "found_by_coordesc", "time_taken_ms", "triton_cache_hash"}
_FUNC = re.compile(r"tt\.func public @([\w$.]+)\((.*?)\)\s*(?:attributes|->|\{)", re.S)
_ARG_TYPE = re.compile(r"%[\w.]+: (!tt\.ptr<[^>]*>|!tt\.tensordesc<[^>]*>|[\w<>.!]+)")
_RANGE = re.compile(r"tt\.make_range \{end = (\d+) : i32, start = (\d+) : i32\}")
_DOT = re.compile(r"tt\.dot[^\n]*?: tensor<(\d+)x(\d+)x\w+[^>]*> \* tensor<(\d+)x(\d+)x\w+")


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One compiled kernel out of a cache; `files` are all files of the entry, `error` why none."""

    name: str
    path: Path
    entry: str = ""
    text: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    compiler: str = ""
    files: frozenset[Path] = frozenset()
    error: str = ""


def entries(folder: Path) -> Iterator[CacheEntry]:
    """Yield every cache entry below a folder, ordered by kernel name and knobs."""
    tuned = _best_configs(folder)
    found = [_entry(group, tuned) for group in folder.rglob("__grp__*.json")]
    yield from sorted(found, key=lambda e: (e.name, str(e.path)))


def _best_configs(folder: Path) -> dict[str, dict[str, Any]]:
    """Knobs by Triton cache hash, from Inductor's best_config files."""
    out: dict[str, dict[str, Any]] = {}
    for path in folder.rglob("*.best_config"):
        data = _json(path)
        key = str(data.get("triton_cache_hash", ""))
        if key:
            out[key] = {k: v for k, v in data.items() if k not in _NOT_KNOBS}
    return out


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _entry(group: Path, tuned: dict[str, dict[str, Any]]) -> CacheEntry:
    folder, kernel = group.parent, group.name.removeprefix("__grp__").removesuffix(".json")
    files = frozenset(path for path in folder.iterdir() if path.is_file())
    # paths inside the group file are absolute and may be another machine's: look beside it
    text_path = next(
        (p for s in (".ptx", ".amdgcn") if (p := folder / f"{kernel}{s}") in files), None
    )
    label = f"{kernel}@{folder.name[:8]}"
    if text_path is None:
        return CacheEntry(label, folder, files=files, error=f"{folder}: no assembly in this entry")
    metadata = _json(folder / f"{kernel}.json")
    config = {
        key: metadata[key] for key in OPTIONS
        if metadata.get(key) is not None and metadata[key] not in DEFAULTS.get(key, ())
    }
    config.update(_derived(folder, kernel))
    config.update(tuned.get(folder.name, {}))
    version = metadata.get("triton_version")
    try:
        text = text_path.read_text()
    except (OSError, ValueError) as error:
        return CacheEntry(label, folder, files=files, error=f"{text_path}: {error}")
    return CacheEntry(
        _name(kernel, config), text_path, str(metadata.get("name") or kernel), text, config,
        f"triton {version}" if version else "", files,
    )


def _derived(folder: Path, kernel: str) -> dict[str, Any]:
    """Knobs read off the first stage: argument types, ranges (block sizes) and matrix shapes."""
    path = next((p for s in ("source", "ttir") if (p := folder / f"{kernel}.{s}").is_file()), None)
    if path is None:
        return {}
    try:
        text = path.read_text()
    except (OSError, ValueError):
        return {}
    out: dict[str, Any] = {}
    if func := _FUNC.search(text):
        types = [
            t.replace("!tt.ptr<", "*").replace("!tt.", "").rstrip(",>")
            for t in _ARG_TYPE.findall(func[2])
        ]
        out["types"] = ",".join(types)
    ranges = sorted({int(end) - int(start) for end, start in _RANGE.findall(text)})
    if ranges:
        out["ranges"] = ranges[0] if len(ranges) == 1 else ",".join(map(str, ranges))
    dots = sorted({(int(m), int(n), int(k)) for m, k, _, n in _DOT.findall(text)})
    if dots:
        out["dot"] = ",".join("x".join(map(str, dot)) for dot in dots)
    return out


def _name(kernel: str, config: dict[str, Any]) -> str:
    shown = [f"{key}={_plain(value)}" for key, value in config.items() if key != "types"]
    return "/".join([kernel, ",".join(shown)]).rstrip("/")


def _plain(value: Any) -> str:
    return str(value).replace(",", "+").replace(" ", "")
