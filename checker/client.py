"""Client of the service: the same calls as `checker.api`, answered by a server.

In: texts. Out: the records of `checker.results`. Errors that the text or the call is to blame for
are raised as `checker.errors` has them, with all positions; anything else is a `ServerError`.
Knows how to ask, not what the answers mean.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import httpx
from pydantic import TypeAdapter

from checker.errors import (
    Diagnostic,
    InputError,
    LaunchError,
    SamebitsError,
    Span,
    UsageError,
)
from checker.results import KernelInput, Partition, Signature, Verdict

__all__ = ["Client", "Job", "ServerError"]

T = TypeVar("T")
_NO_FILES: Mapping[str, str] = {}


class ServerError(SamebitsError):
    """The server did not answer, or refused for a reason that is not the kernel's."""

    def __init__(
        self, message: str, status: int = 0, problem: str = "", missing: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.status, self.problem, self.missing = status, problem, frozenset(missing)


@dataclass(frozen=True, slots=True)
class Job:
    """A partition or check under way: state is queued, running, done, failed or cancelled."""

    id: str
    kind: str
    state: str
    done: int
    total: int
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    @property
    def final(self) -> bool:
        """True when nothing will change any more."""
        return self.state in ("done", "failed", "cancelled")


class Client:
    """A connection to one service; usable as a context manager and from several threads."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout_s: float = 120.0, retries: int = 3,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._retries = retries
        self._http = httpx.Client(
            base_url=url.rstrip("/"), headers=headers, timeout=timeout_s, transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # single kernels and pairs: the signatures of `checker.api`

    def sign(
        self, text: str, *, isa: str | None = None, kernel: str | None = None,
        file: str = "<text>",
    ) -> Signature:
        """Sign one kernel; raises InputError, UsageError, ServerError."""
        body = {"text": text, "isa": isa, "kernel": kernel}
        return _record(Signature, self._ask("POST", "/v1/sign", body, {"<text>": file}))

    def compare(
        self, a: str, b: str, *, isa_a: str | None = None, isa_b: str | None = None,
        kernel_a: str | None = None, kernel_b: str | None = None, launch_a: Any = None,
        launch_b: Any = None, strict: bool = False, assume: Sequence[str] = (),
        file_a: str = "<a>", file_b: str = "<b>",
    ) -> Verdict:
        """Compare two kernels; raises InputError, UsageError, LaunchError, ServerError."""
        body: dict[str, Any] = {
            "a": {"text": a, "isa": isa_a, "kernel": kernel_a, "launch": launch_a},
            "b": {"text": b, "isa": isa_b, "kernel": kernel_b, "launch": launch_b},
            "strict": strict,
        }
        if assume:
            body["assume"] = list(assume)
        data = self._ask("POST", "/v1/compare", body, {"<a>": file_a, "<b>": file_b})
        return _record(Verdict, {**data, "kind": data["verdict"]})

    def kernels_in(
        self, text: str, *, isa: str | None = None, file: str = "<text>",
    ) -> tuple[str, ...]:
        """Names of the kernels in a text; raises InputError, ServerError."""
        found = self._ask("POST", "/v1/entries", {"text": text, "isa": isa}, {"<text>": file})
        return tuple(found["kernels"])

    def outline(
        self, text: str, *, isa: str | None = None, kernel: str | None = None,
    ) -> list[dict[str, Any]]:
        """Dependence trees as nested outlines."""
        body = {"text": text, "isa": isa, "kernel": kernel}
        trees: list[dict[str, Any]] = self._ask("POST", "/v1/outline", body)["outline"]
        return trees

    # sweeps

    def partition(
        self, kernels: Iterable[KernelInput], *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Partition:
        """Partition a sweep and wait for the result."""
        job = self.wait(self.submit(kernels).id, progress=progress)
        if job.state != "done" or job.result is None:
            told = (job.error or {}).get("message", "")
            raise ServerError(f"the partition ended as {job.state}: {told}")
        return _record(Partition, job.result)

    def submit(self, kernels: Iterable[KernelInput]) -> Job:
        """Queue a partition job."""
        return _job(self._send("POST", "/v1/partition", kernels))

    def job(self, job_id: str) -> Job:
        """A job as it is now."""
        return _job(self._ask("GET", f"/v1/jobs/{job_id}"))

    def cancel(self, job_id: str) -> Job:
        """Cancel a job that is not final."""
        return _job(self._ask("DELETE", f"/v1/jobs/{job_id}"))

    def wait(self, job_id: str, *, progress: Callable[[int, int], None] | None = None) -> Job:
        """Follow a job to its end, over lost connections and restarts of the server."""
        failures = 0
        while True:
            try:
                for name, data in self.events(job_id):
                    failures = 0
                    if name == "end":
                        return _job(data)
                    if name == "progress" and progress is not None:
                        progress(int(data["done"]), int(data["total"]))
            except ServerError as error:
                failures += 1
                if error.status not in (0, 429, 502, 503, 504) or failures > self._retries * 4:
                    raise
            time.sleep(min(2.0, 0.1 * 2**failures))

    def events(self, job_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Server-sent events of a job as (name, data); ends when the connection does."""
        try:
            with self._http.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
                if answer.status_code != 200:
                    answer.read()
                    _fail(answer, {})
                name = ""
                for line in answer.iter_lines():
                    if line.startswith("event: "):
                        name = line[7:]
                    elif line.startswith("data: "):
                        yield name, json.loads(line[6:])
        except httpx.HTTPError as error:
            raise ServerError(f"cannot reach the server: {error}") from None

    # what the service knows

    def signature(self, signature: str) -> dict[str, Any]:
        """Kernels seen with a signature, premises, trees."""
        return self._ask("GET", f"/v1/signatures/{signature}")

    def kernel(self, digest: str) -> dict[str, Any]:
        """What is known of a text."""
        return self._ask("GET", f"/v1/kernels/{digest}")

    def set_baseline(self, name: str, kernels: Iterable[KernelInput]) -> dict[str, Any]:
        """Keep kernels as a baseline."""
        return self._send("PUT", f"/v1/baselines/{name}", kernels)

    def baseline(self, name: str) -> dict[str, Any]:
        """A baseline's kernels."""
        return self._ask("GET", f"/v1/baselines/{name}")

    def check_baseline(self, name: str, kernels: Iterable[KernelInput]) -> dict[str, Any]:
        """Compare kernels with a baseline: ok, equal, drifted, added, removed, errors."""
        job = _job(self._send("POST", f"/v1/baselines/{name}/check", kernels))
        job = job if job.final else self.wait(job.id)
        if job.state != "done" or job.result is None:
            raise ServerError(f"the check ended as {job.state}")
        return job.result

    def _send(self, method: str, path: str, kernels: Iterable[KernelInput]) -> dict[str, Any]:
        """Ask about a sweep: by the texts' digests, then with those texts that are not kept."""
        inputs = list(kernels)
        digests = [_digest(k.text) for k in inputs]
        missing: frozenset[str] = frozenset()
        while True:
            body = {"kernels": [_kernel_body(k, d, d in missing)
                                for k, d in zip(inputs, digests, strict=True)]}
            try:
                return self._ask(method, path, body)
            except ServerError as error:
                if not error.missing - missing:
                    raise
                missing |= error.missing

    def _ask(
        self, method: str, path: str, body: Any = None, files: Mapping[str, str] = _NO_FILES,
    ) -> dict[str, Any]:
        for attempt in range(self._retries + 1):
            try:
                answer = self._http.request(method, path, json=body)
            except httpx.ConnectError as error:
                if attempt == self._retries:
                    text = f"cannot reach the server at {self._http.base_url}: {error}"
                    raise ServerError(text) from None
            except httpx.HTTPError as error:
                raise ServerError(f"{type(error).__name__}: {error}") from None
            else:
                if answer.is_success:
                    data: dict[str, Any] = answer.json()
                    return data
                if answer.status_code not in (429, 503) or attempt == self._retries:
                    _fail(answer, files)
            time.sleep(0.25 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")


def _digest(text: str) -> str:
    """The name that the server keeps a text under."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _kernel_body(kernel: KernelInput, digest: str, whole: bool) -> dict[str, Any]:
    source = {"text": kernel.text} if whole else {"digest": digest}
    return {"name": kernel.name, **source, "isa": kernel.isa, "kernel": kernel.kernel,
            "config": kernel.config, "launches": list(kernel.launches)}


def _job(data: Mapping[str, Any]) -> Job:
    return Job(data["id"], data["kind"], data["state"], data["done"], data["total"],
               data.get("result"), data.get("error"))


def _fail(answer: httpx.Response, files: Mapping[str, str]) -> NoReturn:
    """Raise what a problem document stands for."""
    try:
        problem = answer.json()
        kind = str(problem["type"]).rpartition(":")[2]
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        raise ServerError(f"HTTP status {answer.status_code}", answer.status_code) from None
    if kind == "input":
        raise InputError([_diagnostic(place, files) for place in problem["diagnostics"]])
    if kind == "usage":
        raise UsageError(detail)
    if kind == "launch":
        raise LaunchError(detail)
    raise ServerError(f"{problem.get('title', kind)}: {detail}", answer.status_code, kind,
                      problem.get("missing", ()))


def _diagnostic(place: Mapping[str, Any], files: Mapping[str, str]) -> Diagnostic:
    """A diagnostic with the caller's own name of the file."""
    named = files.get(place["file"], place["file"])
    return Diagnostic(place["message"], Span(**place["span"]), place["hint"], named,
                      place["source_line"])


def _record(kind: type[T], data: Any) -> T:
    """A record of `checker.results` out of its own JSON."""
    adapter: TypeAdapter[T] = _ADAPTERS[kind]
    return adapter.validate_python(data)


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Signature, Verdict, Partition)}
