"""Where kernels come from: files, folders, globs, manifests and compiler caches.

In: paths as a person types them. Out: `Sources`: one `Source` (a `KernelInput` plus the place it
was read from) for each kernel, and one `Unreadable` for each thing that could not be read. Folders
may hold Triton or Inductor caches at any depth (`checker.sources.caches` reads those). Nothing here
parses a kernel: a text with several entries is split by the `kernels_in` that the caller gives.
"""

from __future__ import annotations

import codecs
import glob
import json
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checker.errors import Diagnostic, InputError, SamebitsError, Span
from checker.results import KernelInput
from checker.sources import caches
from checker.sources.glance import Source, Sources, Unreadable, headline, readable_name

__all__ = ["ASSEMBLY_SUFFIXES", "decoded", "load_json", "read", "read_text", "split_entries"]

MOST_UNPACKED = 1 << 30  # bytes of a compressed manifest
#: suffixes that mark assembly in a folder; a file named outright may have any suffix
ASSEMBLY_SUFFIXES = (".ptx", ".amdgcn", ".gcn", ".s")

_KNOB = re.compile(r"([A-Za-z_]\w*?)=([\w.+-]+)")


@dataclass(slots=True)
class _Found:
    """Collects kernels and errors while paths are walked."""

    kernels: list[Source] = field(default_factory=list)
    errors: list[Unreadable] = field(default_factory=list)

    def fail(self, name: str, error: Exception) -> None:
        self.errors.append(Unreadable(name, str(error)))


def read_text(path: Path) -> str:
    """Return a file's text; raises InputError for a missing, unreadable or binary file."""
    try:
        data = _unpacked(path) if path.suffix == ".xz" else path.read_bytes()
    except OSError as error:
        hint = "`samebits partition FOLDER` sorts what a folder holds" if path.is_dir() else ""
        raise _input_error(
            path, f"cannot read it: {error.strerror or error}", hint=hint) from None
    except (lzma.LZMAError, EOFError) as error:
        raise _input_error(path, f"cannot unpack it: {error}") from None
    return decoded(data, path)


def decoded(data: bytes, path: Path) -> str:
    """Return a file's bytes as text; raises InputError where they are none.

    A byte order mark says how it is encoded, and goes; without one it is UTF-8, else Latin-1.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                break
    data = data.rstrip(b"\0")
    if b"\0" in data[:4096] or data.startswith(b"\x7fELF"):
        raise _input_error(
            path, "this is a binary file",
            hint="give the assembly text: PTX (`cuobjdump -ptx`, Triton's .ptx) or AMDGCN",
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


#: byte order marks, and the encodings that read and drop them; UTF-32's begins with UTF-16's
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)


def _unpacked(path: Path) -> bytes:
    with lzma.open(path) as packed:
        data = packed.read(MOST_UNPACKED + 1)
    if len(data) > MOST_UNPACKED:
        raise _input_error(path, f"it holds more than {MOST_UNPACKED >> 20} MiB")
    return data


def _is_manifest(path: Path) -> bool:
    return path.name.endswith((".jsonl", ".jsonl.xz"))


def _holds_other_data(path: Path) -> bool:
    """Tell whether a compressed file in a folder begins with a line that is no kernel's."""
    if path.suffix != ".xz":
        return False
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            first = json.loads(lines.readline(1 << 26) or "null")
    except (OSError, lzma.LZMAError, EOFError, ValueError):
        return False  # said when it is read
    if not isinstance(first, dict):
        return True
    # One word is the name of a text, as in the corpus's tables: assembly has several.
    return "path" not in first and len(str(first.get("text", "")).split(maxsplit=1)) < 2


def _input_error(path: Path, message: str, line: int = 1, hint: str = "") -> InputError:
    return InputError([Diagnostic(message, Span(line, 1), hint=hint, file=str(path))])


def load_json(path: Path) -> Any:
    """Return a JSON file's data; raises InputError with the place of the mistake."""
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if text else ""
        place = Diagnostic(
            f"this is not JSON: {error.msg}", Span(error.lineno, error.colno), file=str(path),
            source_line=line,
        )
        raise InputError([place]) from None


def read(
    paths: Iterable[str | Path],
    *,
    kernels_in: Callable[..., tuple[str, ...]] | None = None,
) -> Sources:
    """Read all kernels under the given paths.

    A path is an assembly file, a manifest (`.jsonl`, `.jsonl.xz`), a folder (walked to the bottom,
    compiler caches included) or a glob. `kernels_in` splits a text with several entries into one
    kernel each. Errors are collected, not raised; a glob that matches nothing adds nothing.
    """
    found = _Found()
    for path in paths:
        for item in _expand(str(path)):
            if item.is_dir():
                _read_folder(item, found)
            elif _is_manifest(item):
                _read_manifest(item, found)
            else:
                _read_file(item, item.stem, found)
    kernels = found.kernels
    if kernels_in is not None:
        kernels = [part for source in kernels for part in split_entries(source, kernels_in, found)]
    return Sources(_unique(kernels), tuple(found.errors))


def _expand(path: str) -> Iterator[Path]:
    if glob.has_magic(path) and not Path(path).exists():
        yield from (Path(match) for match in sorted(glob.glob(path, recursive=True)))
    else:
        yield Path(path)


def _read_file(path: Path, name: str, found: _Found) -> None:
    try:
        text = read_text(path)
        beside = _sidecar(path)
    except SamebitsError as error:
        found.fail(str(path), error)
        return
    seen = headline(text)
    knobs, label = _knobs_of_name(name)
    config = {**knobs, **beside.config}
    kernel = KernelInput(
        name, text, isa=beside.isa, kernel=beside.kernel, config=config, launches=beside.launches
    )
    entry = kernel.kernel or (seen.entries[0] if len(seen.entries) == 1 else "")
    compiler = beside.compiler or seen.compiler
    found.kernels.append(Source(kernel, str(path), entry, seen.target, compiler, label, config))


def _knobs_of_name(name: str) -> tuple[dict[str, Any], str]:
    """Knobs written into a file name, `gemm__BLOCK_K=32__num_warps=4`, and the name without."""
    knobs: dict[str, Any] = {}
    rest = []
    for piece in re.split(r"(__|[,;/ ])", name):
        if match := _KNOB.fullmatch(piece.strip("_")):
            knobs[match[1]] = _scalar(match[2])
        else:
            rest.append(piece)
    return knobs, re.sub(r"(__|[,;/ ])+$", "", "".join(rest)) or name


def _scalar(text: str) -> Any:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, (bool, int, float)) else text


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a manifest line or the files beside a text say about it."""

    isa: str | None = None
    kernel: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    launches: tuple[dict[str, Any], ...] = ()
    compiler: str = ""


def _facts(data: dict[str, Any], path: Path, line: int = 1) -> _Facts:
    """Read `isa`, `kernel`, `config`, `launch`, `compiler` out of an object.

    Knobs may be nested in `config.knobs`; where a kernel came from is no knob.
    """
    config = dict(_dict_at(data, "config", path))
    compiler = config.pop("producer", "") or data.get("compiler") or data.get("producer") or ""
    if isinstance(config.get("knobs"), dict):
        config.update(config.pop("knobs"))
        config.pop("target", None)
    return _Facts(
        _maybe_str(data, "isa"), _maybe_str(data, "kernel"), config, _launches(data, path, line),
        str(compiler),
    )


def _sidecar(path: Path) -> _Facts:
    """Facts in `NAME.json`, `NAME.config.json`, `NAME.launch.json` beside a text."""
    out = _Facts()
    for suffix in (".json", ".config.json", ".launch.json"):
        beside = path.with_suffix(suffix)
        if not beside.is_file():
            continue
        data = load_json(beside)
        if isinstance(data, list):
            data = {"launches": data}
        if not isinstance(data, dict):
            raise _input_error(beside, "an object is expected here")
        if "grid" in data:
            data = {"launch": data}
        elif suffix == ".config.json":
            data = {"config": data}
        more = _facts(data, beside)
        out = _Facts(
            more.isa or out.isa, more.kernel or out.kernel, {**out.config, **more.config},
            more.launches or out.launches, more.compiler or out.compiler,
        )
    return out


def _dict_at(data: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = data.get(key) or {}
    if not isinstance(value, dict):
        raise _input_error(path, f"`{key}` must be an object")
    return value


def _launches(data: dict[str, Any], path: Path, line: int = 1) -> tuple[dict[str, Any], ...]:
    value = data.get("launches", data.get("launch")) or ()
    many = [value] if isinstance(value, dict) else value
    if not isinstance(many, (list, tuple)) or not all(isinstance(item, dict) for item in many):
        raise _input_error(path, "`launch` must be an object or a list of objects", line)
    return tuple(many)


def _read_manifest(path: Path, found: _Found) -> None:
    """A manifest holds one JSON object a line: name, text or path, isa, kernel, config, launch."""
    try:
        lines = read_text(path).splitlines()
    except SamebitsError as error:
        found.fail(str(path), error)
        return
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        try:
            found.kernels.append(_manifest_line(path, number, line))
        except SamebitsError as error:
            found.fail(f"{path}:{number}", error)


def _manifest_line(path: Path, number: int, line: str) -> Source:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        place = Span(number, error.colno)
        raise InputError(
            [Diagnostic(f"this is not JSON: {error.msg}", place, "", str(path), line)]
        ) from None
    if not isinstance(data, dict):
        raise _input_error(path, "each line is one JSON object", number)
    has = [key for key in ("text", "path") if isinstance(data.get(key), str)]
    if len(has) != 1:
        raise _input_error(path, "give either `text` or `path`", number)
    where = str(path)
    if has == ["path"]:
        file = path.parent / data["path"]
        text, where = read_text(file), str(file)
    else:
        text = data["text"]
    name = str(data.get("name") or (Path(where).stem if has == ["path"] else f"line {number}"))
    facts = _facts(data, path, number)
    kernel = KernelInput(
        name, text, isa=facts.isa, kernel=facts.kernel, config=facts.config,
        launches=facts.launches,
    )
    seen = headline(text)
    entry = kernel.kernel or (seen.entries[0] if len(seen.entries) == 1 else "")
    compiler = facts.compiler or seen.compiler
    return Source(kernel, where, entry, seen.target, compiler, name, kernel.config)


def _maybe_str(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    return str(value) if value else None


def _read_folder(folder: Path, found: _Found) -> None:
    claimed: set[Path] = set()
    for entry in caches.entries(folder):
        claimed |= entry.files
        if entry.error:
            found.errors.append(Unreadable(entry.name, entry.error))
        else:
            found.kernels.append(_cached(entry))
    for path in sorted(folder.rglob("*")):
        if path in claimed or not path.is_file():
            continue
        if path.suffix in ASSEMBLY_SUFFIXES:
            _read_file(path, path.relative_to(folder).with_suffix("").as_posix(), found)
        elif _is_manifest(path) and not _holds_other_data(path):
            _read_manifest(path, found)


def _cached(entry: caches.CacheEntry) -> Source:
    seen = headline(entry.text)
    kernel = KernelInput(entry.name, entry.text, kernel=entry.entry, config=entry.config)
    compiler = entry.compiler or seen.compiler
    knobs = {k: v for k, v in entry.config.items() if k not in caches.MOVED_BY_VERSIONS}
    return Source(
        kernel, str(entry.path), entry.entry, seen.target, compiler, entry.entry, knobs
    )


def split_entries(
    source: Source, kernels_in: Callable[..., tuple[str, ...]], found: _Found | None = None
) -> list[Source]:
    """Split a source whose text has several entries into one source each, named `name:entry`."""
    kernel = source.input
    if kernel.kernel is not None or len(headline(kernel.text).entries) <= 1:
        return [source]
    try:
        names = kernels_in(kernel.text, isa=kernel.isa, file=source.file)
    except SamebitsError as error:
        if found is None:
            raise
        found.fail(source.file, error)
        return []
    if len(names) <= 1:
        return [source]
    parts = [(name, replace(kernel, name=f"{kernel.name}:{name}", kernel=name)) for name in names]
    return [
        replace(source, input=part, entry=name, label=f"{source.label}:{readable_name(name)}")
        for name, part in parts
    ]


def _unique(kernels: Sequence[Source]) -> tuple[Source, ...]:
    """Make names unique: `x` for another target becomes `x@target`, any further one `x#2`."""
    owner: dict[str, str] = {}
    counts: dict[str, int] = {}
    out = []
    for source in kernels:
        name = source.input.name
        if owner.setdefault(name, source.target) != source.target:
            name = f"{name}@{source.target}"
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1:
            name = f"{name}#{counts[name]}"
        out.append(replace(source, input=replace(source.input, name=name)))
    return tuple(out)
