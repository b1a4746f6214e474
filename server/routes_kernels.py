"""Routes about single kernels and pairs: sign, compare, what is known of a text or signature."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from server.answers import (
    check_text,
    compare_document,
    side_of,
    sign_document,
    value_of,
    versions,
)
from server.models import (
    CompareOut,
    CompareRequest,
    EntriesOut,
    KernelOut,
    KernelText,
    SignatureInfo,
    SignOut,
    SignRequest,
)
from server.problems import MEDIA_TYPE, Problem, found
from server.service import Service
from server.signatures import known_signature
from server.store import digest_of

__all__ = ["PROBLEMS", "SignatureText", "router", "service_of"]

router = APIRouter(prefix="/v1", tags=["kernels"])

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {MEDIA_TYPE: {
        "schema": {"$ref": "#/components/schemas/ProblemOut"}}}}
    for status, text in {
        400: "The body cannot be read", 401: "No valid token", 403: "Not allowed",
        404: "There is no such thing", 408: "The body came too slowly", 409: "Conflict",
        413: "Too large", 415: "Content type not supported",
        422: "The text or the request is at fault; `diagnostics` has positions",
        429: "Too many requests", 503: "Too much work waiting",
    }.items()
}

SignatureText = Annotated[str, Path(min_length=4, max_length=128, pattern=r"^[a-z0-9-]+$")]
_NO_TEXT = "no text with this digest has been seen"
Sha = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256, hex")]


def service_of(request: Request) -> Service:
    """The application's service."""
    service: Service = request.app.state.service
    return service


def reply(document: dict[str, Any], source: str) -> JSONResponse:
    """A document with the header that says where it came from."""
    return JSONResponse(document, headers={"X-Samebits-Cache": source})


@router.post("/sign", response_model=SignOut, responses=PROBLEMS, summary="Sign a kernel")
async def sign(request: Request, body: SignRequest) -> Response:
    """Signature of one kernel: equal signatures of modelled kernels mean equal bits."""
    service = service_of(request)
    check_text(body.text, service.settings)
    answer, source = await service.sign(body.text, body.isa, body.kernel)
    return reply(sign_document(answer), source)


@router.post("/compare", response_model=CompareOut, responses=PROBLEMS,
             summary="Compare two kernels")
async def compare(request: Request, body: CompareRequest) -> Response:
    """Verdict for a pair: equal, unequal or unproved, with basis, premises and reasons."""
    service = service_of(request)
    check_text(body.a.text, service.settings)
    check_text(body.b.text, service.settings)
    answer, source = await service.compare(
        side_of(body.a), side_of(body.b), body.strict, body.assume)
    return reply(compare_document(answer), source)


@router.get("/verdicts/{key}", response_model=CompareOut, responses=PROBLEMS,
            summary="A verdict given before")
async def verdict(request: Request, key: Sha) -> Response:
    """The verdict with this id."""
    service = service_of(request)
    answer = await service.on_thread(service.store.answer, key)
    if answer is None or answer.kind != "compare":
        raise Problem("not-found", "no verdict has this id")
    return reply(compare_document(answer), "store")


@router.get("/signatures/{signature}", response_model=SignatureInfo, responses=PROBLEMS,
            summary="What is known of a signature")
async def signature_info(
    request: Request,
    signature: SignatureText,
) -> Response:
    """Kernels seen with this signature, its premises, and the dependence trees of the first.

    `sb1-...` is static; `sb1l-...` is that of a class at the launches that the answer has.
    """
    known = found(await known_signature(service_of(request), signature),
                  "no kernel with this signature has been seen")
    return reply({**known, **versions()}, "store")


@router.get("/kernels/{digest}", response_model=KernelOut, responses=PROBLEMS,
            summary="What is known of a text")
async def kernel_info(request: Request, digest: Sha) -> Response:
    """Size, and the signatures given for this text."""
    service = service_of(request)
    info = found(await service.on_thread(service.store.text_info, digest), _NO_TEXT)
    answers = await service.on_thread(service.store.answers_of_text, digest, "sign")
    signed = [sign_document(a) for a in answers if a.outcome.error is None]
    return reply({
        "digest": info.digest, "size_bytes": info.size_bytes, "lines": info.lines,
        "created": info.created, "signatures": signed, **versions()}, "store")


@router.get("/kernels/{digest}/text", response_class=PlainTextResponse, responses=PROBLEMS,
            summary="The text itself")
async def kernel_text(request: Request, digest: Sha) -> Response:
    """The assembly text with this digest."""
    service = service_of(request)
    return PlainTextResponse(
        found(await service.on_thread(service.store.text, digest), _NO_TEXT))


@router.post("/outline", responses=PROBLEMS, summary="Dependence trees of a kernel")
async def outline(request: Request, body: KernelText) -> Response:
    """The tree of roundings behind each output, as nested outlines."""
    service = service_of(request)
    check_text(body.text, service.settings)
    signed, source = await service.sign(body.text, body.isa, body.kernel)
    value_of(signed)
    trees = await service.outline(signed.text_digest, body.isa, body.kernel)
    assert trees is not None
    return reply({"digest": signed.text_digest, "outline": value_of(trees), **versions()}, source)


@router.post("/entries", response_model=EntriesOut, responses=PROBLEMS,
             summary="Names of the kernels in a text")
async def entries(request: Request, body: SignRequest) -> Response:
    """The entries of a text, in its order."""
    service = service_of(request)
    check_text(body.text, service.settings)
    digest, payload = digest_of(body.text), {"text": body.text, "isa": body.isa}
    answer, source = await service.answer(
        "kernels", digest, {"isa": body.isa}, payload, {digest: body.text})
    return reply({"kernels": value_of(answer), "digest": digest, **versions()}, source)
