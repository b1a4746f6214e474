"""JSON documents of answers, as the routes and the page give them.

In: `Answer`s of the service. Out: plain dicts in the shape of `server.models`, or a `Problem`.
"""

from __future__ import annotations

from typing import Any

from checker.results import CHECKER_VERSION
from server.jobstore import Job
from server.models import KernelText
from server.problems import Problem, problem_of
from server.settings import Settings
from server.store import Answer

__all__ = [
    "SIGNATURE_VERSION", "check_text", "compare_document", "job_document", "sign_document",
    "versions",
]

SIGNATURE_VERSION = "sb1"


def versions() -> dict[str, str]:
    """What every document carries."""
    return {"checker_version": CHECKER_VERSION, "signature_version": SIGNATURE_VERSION}


def check_text(text: str, settings: Settings) -> None:
    """Refuse a text over the configured size."""
    if len(text) > settings.text_limit_bytes:
        raise Problem("too-large", f"a text may have {settings.text_limit_bytes} characters")
    if text.count("\n") >= settings.text_limit_lines:
        raise Problem("too-large", f"a text may have {settings.text_limit_lines} lines")


def side_of(kernel: KernelText) -> dict[str, Any]:
    """One side of a comparison as an engine payload."""
    return {"text": kernel.text, "isa": kernel.isa, "kernel": kernel.kernel,
            "launch": kernel.launch}


def value_of(answer: Answer) -> Any:
    """The answer's value; raises the problem when it is an error."""
    if answer.outcome.error is not None:
        raise problem_of(answer.outcome.error)
    return answer.outcome.value


def sign_document(answer: Answer) -> dict[str, Any]:
    """Document of a signature."""
    return {**value_of(answer), "id": answer.key, "digest": answer.text_digest, **versions()}


def compare_document(answer: Answer) -> dict[str, Any]:
    """Document of a verdict."""
    return {**value_of(answer), "id": answer.key, "digest_a": answer.text_digest,
            "digest_b": answer.options["b"], **versions()}


def job_document(job: Job, result: Any = None) -> dict[str, Any]:
    """Document of a job."""
    base = f"/v1/jobs/{job.id}"
    return {
        "id": job.id, "kind": job.kind, "state": job.state, "done": job.done, "total": job.total,
        "created": job.created, "finished": job.finished, "error": job.error, "result": result,
        "links": {"self": base, "events": f"{base}/events", "page": f"/j/{job.id}"}, **versions(),
    }
