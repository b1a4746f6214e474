"""Kernels of a request, in whatever form it brings them, as items whose texts are in the store.

In: a request with JSON, JSONL, multipart or an archive as its body. Out: `Item`s for a job.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile

from checker.results import KernelInput
from server.answers import check_text
from server.jobstore import Item
from server.models import PartitionRequest
from server.pool import LimitError
from server.problems import Problem, validation_problem
from server.service import Service
from server.store import digest_of
from server.uploads import Upload, read_upload

__all__ = ["CONTENT", "items_of_request"]

M = TypeVar("M", bound=BaseModel)

_RAW = {"application/zip": "upload.zip", "application/x-tar": "upload.tar",
        "application/gzip": "upload.tar.gz", "application/x-gtar": "upload.tar",
        "application/x-ndjson": "upload.jsonl", "application/jsonl": "upload.jsonl"}

#: request body of a partition, for OpenAPI
CONTENT: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/PartitionRequest"}},
        "multipart/form-data": {"schema": {
            "type": "object", "required": ["files"], "properties": {
                "files": {"type": "array", "items": {"type": "string", "format": "binary"},
                          "description": "assembly, sidecar JSON, JSONL manifests, zip or tar"},
                "launches": {"type": "string", "description": "JSON list of launch facts"}}}},
        **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in _RAW},
    },
}


async def items_of_request(request: Request, service: Service) -> list[Item]:
    """Read the kernels of a request and keep their texts."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("application/json", ""):
        return await _from_json(await request.body(), service)
    if kind in _RAW:
        files: list[tuple[str, IO[bytes]]] = [(_RAW[kind], io.BytesIO(await request.body()))]
        upload = await _read_upload(files, service)
        return await _keep(upload, (), service)
    if kind == "multipart/form-data":
        return await _from_form(request, service)
    raise Problem("media-type", f"{kind[:100]!r} is none of JSON, JSONL, multipart, zip and tar")


async def _read_upload(files: Sequence[tuple[str, IO[bytes]]], service: Service) -> Upload:
    limit = service.settings.kernel_limit
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        raw = await asyncio.to_thread(_spool, files, Path(folder))
        inside = Path(folder) / "files"
        inside.mkdir()
        try:
            upload: Upload = await asyncio.wrap_future(
                service.reader.submit(read_upload, raw, str(inside), service.settings))
        except LimitError as error:
            raise Problem("upload", f"reading the files: {error}") from None
    if len(upload.kernels) + len(upload.errors) > limit:
        raise Problem("upload", f"more than {limit} kernels")
    if not upload.kernels:
        first = ": ".join(upload.errors[0]) if upload.errors else "no kernel among the files"
        told = [{"name": name, "message": message} for name, message in upload.errors[:100]]
        raise Problem("upload", first, errors=told)
    return upload


def _spool(files: Sequence[tuple[str, IO[bytes]]], folder: Path) -> list[tuple[str, str]]:
    """Write what was sent to numbered files, for another process to read."""
    raw = []
    for number, (name, file) in enumerate(files):
        path = folder / f"raw{number}"
        with path.open("xb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
        raw.append((name, str(path)))
    return raw


async def _from_json(body: bytes, service: Service) -> list[Item]:
    asked = await service.on_thread(_parse, PartitionRequest, body)
    limit = service.settings.kernel_limit
    if len(asked.kernels) > limit:
        raise Problem("too-large", f"a partition may have {limit} kernels")
    for kernel in asked.kernels:
        if kernel.text is not None:
            check_text(kernel.text, service.settings)
    return await service.on_thread(_items_of_model, asked, service)


def _parse(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem([{**e, "loc": ("body", *e["loc"])} for e in error.errors(
            include_input=False, include_context=False, include_url=False)]) from None


def _items_of_model(asked: PartitionRequest, service: Service) -> list[Item]:
    texts: dict[str, str] = {}
    items: list[Item] = []
    named: set[str] = set()
    for number, kernel in enumerate(asked.kernels):
        if kernel.text is not None:
            digest = digest_of(kernel.text)
            texts[digest] = kernel.text
        else:
            digest = str(kernel.digest)
            named.add(digest)
        details = {"isa": kernel.isa, "kernel": kernel.kernel, "config": kernel.config,
                   "launches": kernel.launches or asked.launches}
        items.append(Item(number, kernel.name, digest, details))
    missing = sorted(named - texts.keys() - service.store.known_texts(named))
    if missing:
        raise Problem("not-found", f"{len(missing)} texts are not known here", missing=missing)
    service.store.put_texts(texts)
    return items


async def _from_form(request: Request, service: Service) -> list[Item]:
    settings = service.settings
    async with request.form(
        max_files=settings.kernel_limit * 3, max_fields=20, max_part_size=1 << 20,
    ) as form:
        files = [(value.filename or "", value.file) for _, value in form.multi_items()
                 if isinstance(value, UploadFile) and value.filename]
        if not files:
            raise Problem("upload", "no file in the form")
        launches = _launches(form.get("launches"))
        upload = await _read_upload(files, service)
    return await _keep(upload, launches, service)


def _launches(field: Any) -> Sequence[dict[str, Any]]:
    if not isinstance(field, str) or not field.strip():
        return ()
    text = field.strip()
    if text.startswith("{"):
        text = f"[{text}]"
    body = f'{{"kernels": [{{"name": "-", "text": "-"}}], "launches": {text}}}'
    return _parse(PartitionRequest, body.encode("utf-8", "replace")).launches


async def _keep(
    upload: Upload, launches: Sequence[dict[str, Any]], service: Service,
) -> list[Item]:
    return await service.on_thread(_keep_now, upload, launches, service)


def _keep_now(
    upload: Upload, launches: Sequence[dict[str, Any]], service: Service,
) -> list[Item]:
    texts: dict[str, str] = {}
    items: list[Item] = []
    for kernel in upload.kernels:
        item, text = _item(len(items), kernel, launches, service)
        texts[item.digest] = text
        items.append(item)
    blank: dict[str, Any] = {"isa": None, "kernel": None, "config": {}, "launches": []}
    for name, message in upload.errors:
        error = {"kind": "input", "message": message}
        items.append(Item(len(items), name, "", blank, "failed", error=error))
    service.store.put_texts(texts)
    return items


def _item(
    number: int, kernel: KernelInput, launches: Iterable[dict[str, Any]], service: Service,
) -> tuple[Item, str]:
    text = kernel.text.encode("utf-8", "replace").decode()
    check_text(text, service.settings)
    details = {"isa": kernel.isa, "kernel": kernel.kernel, "config": kernel.config,
               "launches": list(kernel.launches) or list(launches)}
    return Item(number, kernel.name, digest_of(text), details), text
