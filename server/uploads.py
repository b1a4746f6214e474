"""Kernels out of uploaded files and archives, refusing bombs and path tricks.

In: (name, file) pairs: assembly, sidecar JSON, JSONL manifests, zip or tar archives of any of these
(a Triton cache, say). Out: `KernelInput`s, read by `checker.sources` from a private folder that the
files were unpacked to. Nothing is unpacked outside it; nothing but plain files is unpacked.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from checker import sources
from checker.errors import InputError
from checker.results import KernelInput
from server.problems import Problem
from server.settings import Settings

__all__ = ["Upload", "read_upload"]

_WANTED = frozenset({
    ".ptx", ".amdgcn", ".gcn", ".s", ".json", ".jsonl", ".best_config", ".ttir", ".source"})
_STEP = 1 << 20
_COMPRESSED: dict[str, Any] = {".gz": gzip, ".tgz": gzip, ".bz2": bz2, ".xz": lzma}
_NUL_OR_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class _Unpacker:
    """Writes members below one folder and keeps account of what they add up to."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root = root
        self._bytes_left = settings.unpack_limit_bytes
        self._members_left = settings.kernel_limit * 8
        self._text_limit = settings.text_limit_bytes
        self._ratio = settings.unpack_ratio

    def member(self, what: str) -> None:
        """Account for one more member of an archive."""
        self._members_left -= 1
        if self._members_left < 0:
            raise Problem("upload", f"too many files, at {what[:200]}")

    def account(self, size: int) -> None:
        """Account for unpacked bytes, wanted or not."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise Problem("upload", "the files unpack to more than the service takes")

    def place(self, name: str) -> Path | None:
        """Where a member goes; None for one that is not wanted; refuses tricks."""
        path = PurePosixPath(name.replace("\\", "/"))
        shown = name[:200].encode("utf-8", "replace").decode()
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
            raise Problem("upload", f"a path that leaves its folder: {shown!r}")
        if _NUL_OR_CONTROL.search(name) or len(name) > 1024 or len(path.parts) > 32:
            raise Problem("upload", f"not a path for a file: {shown!r}")
        if not path.parts or path.suffix.lower() not in _WANTED:
            return None
        if any(len(part.encode("utf-8", "replace")) > 255 for part in path.parts):
            raise Problem("upload", f"not a path for a file: {shown!r}")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise Problem("upload", f"a name that is not UTF-8: {shown!r}") from None
        return self._root.joinpath(*path.parts)

    def write(self, name: str, source: IO[bytes], packed_size: int | None = None) -> None:
        """Copy one member, counting as it comes; declared sizes are not trusted."""
        target = self.place(name)
        if target is None:
            return
        if target.exists():
            raise Problem("upload", f"two files of one name: {name[:200]!r}")
        target.parent.mkdir(parents=True, exist_ok=True)
        size = 0
        with target.open("xb") as out:
            while block := source.read(_STEP):
                size += len(block)
                self.account(len(block))
                if size > self._text_limit * 4:
                    raise Problem("upload", f"a file that is too large: {name[:200]!r}")
                if packed_size is not None and size > _STEP + packed_size * self._ratio:
                    raise Problem("upload", f"packed too densely to be text: {name[:200]!r}")
                out.write(block)


class _Counting:
    """A reader that counts every decompressed byte, so that skipped members count too."""

    def __init__(self, source: IO[bytes], packed_size: int, settings: Settings) -> None:
        self._source = source
        self._limit = min(_STEP * 4 + packed_size * settings.unpack_ratio,
                          settings.unpack_limit_bytes)
        self._size = 0

    def read(self, size: int = -1) -> bytes:
        """Read as a file does."""
        block = self._source.read(min(size, _STEP) if size >= 0 else _STEP)
        self._size += len(block)
        if self._size > self._limit:
            raise Problem("upload", "packed too densely, or too large when unpacked")
        return block


def _unzip(file: IO[bytes], unpacker: _Unpacker) -> None:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            unpacker.member(info.filename)
            kind = info.external_attr >> 28
            if info.is_dir():
                continue
            if kind not in (0, 0o10):
                raise Problem("upload", f"not a plain file: {info.filename[:200]!r}")
            if info.flag_bits & 1:
                raise Problem("upload", "an archive with a password")
            if unpacker.place(info.filename) is None:
                continue
            with archive.open(info) as member:
                unpacker.write(info.filename, member, info.compress_size)


def _untar(file: IO[bytes], name: str, unpacker: _Unpacker, settings: Settings) -> None:
    opener = _COMPRESSED.get(PurePosixPath(name).suffix.lower())
    packed_size = file.seek(0, 2)
    file.seek(0)
    plain: Any = opener.open(file, "rb") if opener is not None else file
    counting: Any = _Counting(plain, packed_size, settings)
    with tarfile.open(fileobj=counting, mode="r|") as archive:
        for info in archive:
            unpacker.member(info.name)
            if info.isdir():
                continue
            if not info.isreg() or info.issparse():
                raise Problem("upload", f"not a plain file: {info.name[:200]!r}")
            if unpacker.place(info.name) is None:
                continue
            member = archive.extractfile(info)
            if member is not None:
                unpacker.write(info.name, member)


def _is_archive(name: str) -> str:
    low = name.lower()
    if low.endswith(".zip"):
        return "zip"
    if low.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        return "tar"
    return ""


@dataclass(frozen=True, slots=True)
class Upload:
    """What an upload held: kernels, and (name, message) of what should have been one."""

    kernels: tuple[KernelInput, ...]
    errors: tuple[tuple[str, str], ...]


def read_upload(raw: list[tuple[str, str]], folder: str, settings: Settings) -> Upload:
    """Kernels of the files (name as sent, path) by way of an empty folder.

    Runs in a worker process under limits, since the files may be hostile; raises `Problem` for
    anything that is refused.
    """
    root = Path(folder)
    with contextlib.ExitStack() as stack:
        _unpack(((name, stack.enter_context(open(path, "rb"))) for name, path in raw), root,
                settings)
    _check_manifests(root)
    return _read(root, settings.kernel_limit)


def _unpack(files: Iterable[tuple[str, IO[bytes]]], root: Path, settings: Settings) -> None:
    unpacker = _Unpacker(root, settings)
    for name, file in files:
        try:
            kind = _is_archive(name)
            if kind == "zip":
                _unzip(file, unpacker)
            elif kind == "tar":
                _untar(file, name, unpacker, settings)
            elif unpacker.place(name) is None:
                raise Problem("upload", f"not assembly, JSON or an archive: {name[:200]!r}")
            else:
                unpacker.member(name)
                unpacker.write(name, file)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError,
                NotImplementedError, OSError, ValueError, KeyError, RuntimeError) as error:
            raise Problem("upload", f"cannot unpack {name[:200]!r}: "
                          f"{type(error).__name__}") from None


def _check_manifests(root: Path) -> None:
    """Manifests may point at files of the same upload only."""
    for manifest in root.rglob("*.jsonl"):
        try:
            lines = sources.read_text(manifest).splitlines()  # as the reader splits them
        except InputError:
            continue
        for line in lines:
            try:
                data = json.loads(line)
            except (ValueError, RecursionError):
                continue  # the reader reports it with its place
            named = data.get("path") if isinstance(data, dict) else None
            if not isinstance(named, str):
                continue
            path = PurePosixPath(named)
            if "\0" in named or not (manifest.parent / path).resolve().is_relative_to(
                    root.resolve()):
                raise Problem("upload", f"a path that leaves its folder: {named[:200]!r}")


def _entries(text: str, **_: Any) -> tuple[str, ...]:
    return sources.headline(text).entries


def _read(root: Path, kernel_limit: int) -> Upload:
    try:
        found = sources.read([root], kernels_in=_entries)
    except (RecursionError, ValueError) as error:
        return Upload((), ((".", f"cannot read the files: {type(error).__name__}"),))
    inside = f"{root}/"
    errors = tuple((e.name.replace(inside, ""), e.message.replace(inside, ""))
                   for e in found.errors)
    return Upload(found.inputs[: kernel_limit + 1], errors)
