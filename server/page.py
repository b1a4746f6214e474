"""The page: a form at /, a result at /r/ID, a sweep at /j/ID, a signature at /s/SIG, API at /docs.

In: forms and links. Out: HTML rendered on the server; scripts only add comfort. Says verdicts in
plain words and takes every fact from the same documents as API v1.
"""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Annotated, Any

import jinja2
from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from checker import premises
from checker.results import CHECKER_VERSION
from server import picture, trees
from server.answers import check_text, compare_document, side_of
from server.intake import items_of_request
from server.jobstore import Item, Job
from server.listing import listing
from server.middleware import COOKIE
from server.models import CompareRequest
from server.problems import KINDS, Problem, validation_problem
from server.routes_jobs import queue_job
from server.routes_kernels import SignatureText, service_of
from server.service import Service
from server.signatures import known_signature
from server.store import Answer

__all__ = ["STATIC", "render_problem_page", "router"]

router = APIRouter(include_in_schema=False)

STATIC = FilePath(__file__).parent / "static"

_ENV = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FilePath(__file__).parent / "templates"), autoescape=True,
    trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
_ENV.globals["version"] = CHECKER_VERSION
_ENV.filters["premise"] = premises.explain
_ENV.filters["knob"] = picture.knob_text

_FIELDS = ("text_a", "text_b", "kernel_a", "kernel_b", "launch_a", "launch_b")
_TEXT_IN_FORM = 400_000

#: (verdict, basis) -> headline, sentence
WORDS: dict[tuple[str, str], tuple[str, str]] = {
    ("equal", "static"): ("Same bits", "Proved, given the premises below: these two kernels "
                          "return the same bits for every input, at every launch."),
    ("equal", "launch"): ("Same bits at this launch", "Proved, given the premises below: these "
                          "two kernels return the same bits for every input, at the launch "
                          "given."),
    ("unequal", "witness"): ("Different bits", "Proved: there is an input on which these two "
                             "kernels return different bits. It is shown below."),
    ("unproved", ""): ("Not proved", "Neither proved nor refuted. They may return the same bits "
                       "or not; the reasons are below."),
}


def _html(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_ENV.get_template(name).render(**values), status)


def render_problem_page(problem: Problem) -> HTMLResponse:
    """A problem for people."""
    return _html("problem.html", problem.status, title=KINDS[problem.kind][1],
                 detail=problem.detail, diagnostics=problem.extra.get("diagnostics", []))


# --- the form ---------------------------------------------------------------------------------


@router.get("/")
async def index() -> Response:
    """The form."""
    return _html("index.html", form=dict.fromkeys(_FIELDS, ""), problem=None)


@router.post("/page/compare")
async def compare(request: Request) -> Response:
    """Compare what the form holds, then show the result under its own link."""
    service = service_of(request)
    limit = service.settings.text_limit_bytes
    form: dict[str, str] = dict.fromkeys(_FIELDS, "")
    try:
        async with request.form(max_files=4, max_fields=20, max_part_size=limit) as sent:
            for name in _FIELDS:
                value = sent.get(name)
                form[name] = _newlines(value) if isinstance(value, str) else ""
            for side in "ab":
                file = sent.get(f"file_{side}")
                if isinstance(file, UploadFile) and file.filename and not form[f"text_{side}"]:
                    data = await file.read(limit + 1)
                    form[f"text_{side}"] = _newlines(data.decode("utf-8", "replace"))
        asked = _request_of(form)
        check_text(asked.a.text, service.settings)
        check_text(asked.b.text, service.settings)
        answer, _ = await service.compare(side_of(asked.a), side_of(asked.b), asked.strict)
        compare_document(answer)
    except Problem as problem:
        shown = {name: text if len(text) <= _TEXT_IN_FORM else "" for name, text in form.items()}
        return _html("index.html", problem.status, form=shown, problem={
            "title": KINDS[problem.kind][1], "detail": problem.detail,
            "diagnostics": problem.extra.get("diagnostics", [])})
    if answer.outcome.lasting:
        return RedirectResponse(f"/r/{answer.key}", 303)
    return await _verdict_page(service, answer)


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _request_of(form: dict[str, str]) -> CompareRequest:
    sides: dict[str, dict[str, Any]] = {}
    for side, which in (("a", "first"), ("b", "second")):
        if not form[f"text_{side}"].strip():
            raise Problem("request", f"the {which} kernel is missing")
        kernel = form[f"kernel_{side}"].strip() or None
        sides[side] = {"text": form[f"text_{side}"], "kernel": kernel}
        facts = form[f"launch_{side}"].strip()
        if facts:
            try:
                sides[side]["launch"] = json.loads(facts)
            except (ValueError, RecursionError) as error:
                text = f"the {which} kernel's launch facts are not JSON: {error}"
                raise Problem("launch", text) from None
    if sides["b"].get("launch") is None and "launch" in sides["a"]:
        sides["b"]["launch"] = sides["a"]["launch"]
    try:
        return CompareRequest.model_validate(sides)
    except ValidationError as error:
        raise validation_problem(list(error.errors(include_input=False))) from None


@router.post("/page/partition")
async def partition(request: Request) -> Response:
    """Queue a sweep, then show it under its own link."""
    try:
        items = await items_of_request(request, service_of(request))
    except Problem as problem:
        return render_problem_page(problem)
    job = await queue_job(request, items)
    return RedirectResponse(f"/j/{job.id}", 303)


# --- a verdict --------------------------------------------------------------------------------


@router.get("/r/{key}")
async def verdict(
    request: Request, key: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
) -> Response:
    """The verdict with this id."""
    service = service_of(request)
    answer = await service.on_thread(service.store.answer, key)
    if answer is None or answer.kind != "compare" or answer.outcome.error is not None:
        return render_problem_page(Problem("not-found", "No verdict has this link."))
    return await _verdict_page(service, answer)


async def _verdict_page(service: Service, answer: Answer) -> Response:
    document = compare_document(answer)
    headline, sentence = WORDS.get(
        (document["verdict"], document["basis"]), (document["verdict"], document["basis"]))
    sides = [await _side(service, answer, document, side) for side in "ab"]
    marked: tuple[trees.Path | None, trees.Path | None] = (None, None)
    if not document["equal"]:
        names = document["signature_a"]["kernel"], document["signature_b"]["kernel"]
        marked = trees.first_difference(sides[0]["outline"], sides[1]["outline"], names)
    for side, mark in zip(sides, marked, strict=True):
        side["tree"] = trees.render(side["outline"], side["name"], mark)
        side["marked"] = mark is not None
    return _html("verdict.html", doc=document, headline=headline, sentence=sentence, sides=sides)


async def _side(
    service: Service, answer: Answer, document: dict[str, Any], name: str,
) -> dict[str, Any]:
    digest = document[f"digest_{name}"]
    options = answer.options
    text = await service.on_thread(service.store.text, digest) or ""
    found = await service.outline(digest, options[f"isa_{name}"], options[f"kernel_{name}"])
    outline: list[Any] = []
    if found is not None and found.outcome.error is None:
        outline = found.outcome.value
    wanted = [r[f"line_{name}"] for r in document["reasons"] if r[f"line_{name}"] is not None]
    signature = document[f"signature_{name}"]
    wanted += [o["span"]["line"] for o in signature["opaque"]]
    wanted += _lines(outline, 400)
    return {"name": name, "title": "First kernel" if name == "a" else "Second kernel",
            "signature": signature, "digest": digest, "outline": outline, "wanted": set(wanted),
            "runs": listing(text, wanted)}


def _lines(outline: list[Any], limit: int) -> list[int]:
    lines: list[int] = []
    queue = list(outline)
    while queue and len(lines) < limit:
        node = queue.pop(0)
        if node.get("line") is not None:
            lines.append(node["line"])
        queue += node["children"]
    return lines


# --- a sweep ----------------------------------------------------------------------------------


@router.get("/j/{job_id}")
async def job_page(
    request: Request, job_id: Annotated[str, Path(pattern=r"^[0-9a-f]{24}$")],
) -> Response:
    """A sweep: its progress, then its classes."""
    service = service_of(request)
    job = await service.on_thread(service.jobs.get, job_id)
    if job is None:
        return render_problem_page(Problem("not-found", "No sweep has this link."))
    if job.state != "done":
        return _html("job.html", job=job)
    result = await service.on_thread(service.jobs.result, job_id)
    if job.kind == "check":
        return _html("check.html", job=job, result=result)
    items = await service.on_thread(service.jobs.items, job_id)
    return await _sweep_page(service, job, result, items)


async def _sweep_page(service: Service, job: Job, result: Any, items: list[Item]) -> Response:
    configs = {item.name: item.details["config"] for item in items}
    knobs = sorted({k for one in result["classes"] for k in one["knobs"]},
                   key=lambda k: (k not in result["separating_knobs"], k))
    rows = []
    for number, one in enumerate(result["classes"], 1):
        values = {knob: _values(one["members"], configs, knob) for knob in knobs}
        rows.append({**one, "number": number, "values": values})
    opaque = await service.on_thread(_opaque, service, items)
    return _html(
        "sweep.html", job=job, result=result, rows=rows, knobs=knobs, opaque=opaque,
        picture=picture.picture(result["classes"], configs, result["separating_knobs"]))


def _values(members: list[str], configs: dict[str, Any], knob: str) -> str:
    found = {picture.knob_text(configs[m][knob]) for m in members if knob in configs.get(m, {})}
    ordered = sorted(found, key=lambda t: (not t.lstrip("-").isdigit(), len(t), t))
    return ", ".join(ordered[:12]) + (" …" if len(ordered) > 12 else "")


def _opaque(service: Service, items: list[Item]) -> list[tuple[str, int, str]]:
    """Opaque opcodes of a sweep: opcode, kernels, one example."""
    answers = service.store.answers(i.answer for i in items if i.answer is not None)
    kernels: dict[str, int] = {}
    example: dict[str, str] = {}
    for item in items:
        if item.answer is None:
            continue
        signature = answers[item.answer].outcome.value["signature"]
        for opcode in {o["opcode"] for o in signature["opaque"]}:
            kernels[opcode] = kernels.get(opcode, 0) + 1
        for construct in signature["opaque"]:
            example.setdefault(construct["opcode"], construct["text"])
    return [(o, n, example[o]) for o, n in sorted(kernels.items(), key=lambda p: (-p[1], p[0]))]


# --- a signature ------------------------------------------------------------------------------


@router.get("/s/{signature}")
async def signature_page(
    request: Request, signature: SignatureText,
) -> Response:
    """What is known of a signature."""
    service = service_of(request)
    known = await known_signature(service, signature)
    if known is None:
        return render_problem_page(Problem("not-found", "No kernel with this signature was seen."))
    outline = known["outline"] or []
    text = await service.on_thread(service.store.text, known["kernels"][0]["digest"]) or ""
    return _html("signature.html", known=known, tree=trees.render(outline, "a"),
                 runs=listing(text, _lines(outline, 400)), launches=_dumps(known["launches"]))


# --- the API's documentation, and tokens ------------------------------------------------------


@router.get("/docs")
async def docs(request: Request) -> Response:
    """API v1 as a page, out of the OpenAPI document."""
    return _html("docs.html", api=request.app.openapi(), dumps=_dumps)


def _dumps(value: Any) -> str:
    text = json.dumps(value, indent=2)
    return text if len(text) < 6_000 else text[:6_000] + "\n…"


@router.get("/login")
async def login_form() -> Response:
    """A form for a token."""
    return _html("login.html")


@router.post("/login")
async def login(request: Request) -> Response:
    """Keep a token in a cookie that scripts and other sites cannot use."""
    async with request.form(max_files=0, max_fields=4, max_part_size=4096) as sent:
        token = sent.get("token")
    response = RedirectResponse("/", 303)
    if isinstance(token, str) and token.strip().isascii() and token.strip().isprintable():
        response.set_cookie(COOKIE, token.strip(), httponly=True, samesite="strict",
                            secure=request.url.scheme == "https")
    return response
