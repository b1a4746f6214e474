"""Request and response models of API v1; the requests check shape and size, never meaning.

In: JSON. Out: pydantic models, which also make the OpenAPI document. Response models describe the
records of `checker.results`; the service answers with those records' own JSON.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

__all__ = [
    "BaselineCheck", "BaselineOut", "CompareOut", "CompareRequest", "EntriesOut",
    "Health", "JobOut", "KernelItem", "KernelOut", "KernelText", "PartitionOut", "PartitionRequest",
    "ProblemOut", "SignOut", "SignRequest", "SignatureInfo",
]

Text = Annotated[str, Field(min_length=1, max_length=64 << 20, description="assembly text")]
Isa = Annotated[str | None, Field(
    default=None, pattern=r"^[a-z][a-z0-9_]{0,15}$", examples=["ptx"],
    description="`ptx` or `gcn`; guessed if absent")]
Entry = Annotated[str | None, Field(
    default=None, min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$",
    description="entry name, needed when the text has several")]
Name = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the text")]
Assumption = Annotated[str, Field(
    max_length=1024, pattern=r"^(?:pow2|block):[^\x00-\x1f\x7f]+$",
    description="`block:128`, `block:16x16`, or `pow2:arg2,arg3`")]
Facts = dict[str, JsonValue]

_PTX = (
    ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry twice(.param .u64 p)\n{\n"
    "  .reg .b64 %rd<2>;\n  .reg .f32 %f<3>;\n  ld.param.u64 %rd1, [p];\n"
    "  ld.global.f32 %f1, [%rd1];\n  add.rn.f32 %f2, %f1, %f1;\n  st.global.f32 [%rd1], %f2;\n"
    "  ret;\n}\n"
)
_PTX_MUL = _PTX.replace("add.rn.f32 %f2, %f1, %f1", "mul.rn.f32 %f2, %f1, 0f40000000")


def _plain_json(value: Any) -> Any:
    """Refuse what JSON proper cannot carry: NaN, infinities, lone surrogates."""
    if value is not None:
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not plain JSON: {type(error).__name__}") from None
    return value


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KernelText(_In):
    """One side of a comparison."""

    text: Text
    isa: Isa = None
    kernel: Entry = None
    launch: Facts | None = Field(
        default=None, description="launch facts: grid, block, arguments", examples=[
            {"grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0,
             "args": [{"buffer": "p", "dtype": "f32", "elements": 32, "role": "inout"}]}])

    _plain = field_validator("launch")(_plain_json)


class SignRequest(_In):
    """Ask for the signature of one kernel."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"text": _PTX, "isa": "ptx"}]})
    text: Text
    isa: Isa = None
    kernel: Entry = None


class CompareRequest(_In):
    """Ask whether two kernels return the same bits."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={
        "examples": [{"a": {"text": _PTX}, "b": {"text": _PTX_MUL, "isa": "ptx"}}]})
    a: KernelText
    b: KernelText
    strict: bool = Field(default=False, description="accept no premise that can be avoided")
    assume: list[Assumption] = Field(
        default_factory=list, max_length=16, description="what is declared of both kernels",
        examples=[["block:128"]])


class KernelItem(_In):
    """One kernel of a sweep: its text, or the digest of a text that the service has."""

    name: Name
    text: Text | None = None
    digest: Digest | None = None
    isa: Isa = None
    kernel: Entry = None
    config: Facts = Field(default_factory=dict, description="knobs", examples=[{"num_warps": 4}])
    launches: list[Facts] = Field(default_factory=list, max_length=64)

    _plain = field_validator("config", "launches")(_plain_json)

    @model_validator(mode="after")
    def _one_source(self) -> KernelItem:
        if (self.text is None) == (self.digest is None):
            raise ValueError("give exactly one of text and digest")
        return self


class PartitionRequest(_In):
    """Ask for the bitwise-equality classes of a sweep."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [{
        "kernels": [{"name": "warps1", "text": _PTX, "config": {"num_warps": 1}},
                    {"name": "warps2", "text": _PTX_MUL, "config": {"num_warps": 2}}]}]})
    kernels: list[KernelItem] = Field(min_length=1, max_length=100_000)
    launches: list[Facts] = Field(
        default_factory=list, max_length=64,
        description="launch facts for every kernel that has none of its own")

    _plain = field_validator("launches")(_plain_json)

    @model_validator(mode="after")
    def _names(self) -> PartitionRequest:
        if len({k.name for k in self.kernels}) != len(self.kernels):
            raise ValueError("kernel names must differ")
        return self


class _Out(BaseModel):
    model_config = ConfigDict(extra="allow")


class SpanOut(_Out):
    line: int
    col: int
    length: int = 1


class LocOut(_Out):
    file: str
    line: int
    col: int


class OpaqueOut(_Out):
    opcode: str
    text: str
    span: SpanOut
    loc: LocOut | None = None
    reaches_output: bool = True


class ReasonOut(_Out):
    code: str
    message: str
    line_a: int | None = None
    line_b: int | None = None
    loc_a: LocOut | None = None
    loc_b: LocOut | None = None


class SignatureOut(_Out):
    """A static signature, as `checker.results.Signature`."""

    text: str
    kernel: str
    isa: str
    target: str
    modelled: bool
    opaque: list[OpaqueOut] = []
    premises: list[str] = []
    findings: list[ReasonOut] = []
    nondeterministic: bool = False
    summary: str = ""


class _Versioned(_Out):
    checker_version: str = Field(examples=["0.1.0"])
    signature_version: str = Field(examples=["sb1"])


class SignOut(SignatureOut, _Versioned):
    """A signature, with the digest of its text."""

    id: str = Field(description="key of this answer")
    digest: str


class EntriesOut(_Versioned):
    """The kernels of a text."""

    kernels: list[str]
    digest: str


class WitnessOut(_Out):
    seed: int
    kind: str
    buffer: str
    element: int
    bits_a: int
    bits_b: int
    dtype: str
    inputs: dict[str, Any] = {}


class CompareOut(_Versioned):
    """A verdict. `equal` is true for a proved `equal` only."""

    id: str = Field(description="key of this answer; the page shows it at /r/{id}")
    equal: bool
    verdict: str = Field(description="equal, unequal or unproved", examples=["equal"])
    basis: str = Field(description="static, launch, witness or empty", examples=["static"])
    premises: list[str]
    reasons: list[ReasonOut]
    signature_a: SignatureOut
    signature_b: SignatureOut
    witness: WitnessOut | None = None
    digest_a: str
    digest_b: str


class EqualClassOut(_Out):
    signature: str
    basis: str
    members: list[str]
    knobs: dict[str, Any]
    premises: list[str] = []


class PartitionOut(_Out):
    """A partition, as `checker.results.Partition`."""

    classes: list[EqualClassOut]
    unproved: list[tuple[str, list[ReasonOut]]]
    errors: list[tuple[str, str]]
    separating_knobs: list[str]


class CheckedKernel(_Out):
    """One kernel of a check: its verdict against the baseline's text."""

    name: str
    verdict: str
    basis: str
    premises: list[str]
    reasons: list[ReasonOut]
    id: str = Field(description="key of the verdict")


class BaselineCheck(_Out):
    """A check against a baseline.

    `ok`: every kernel of the baseline is there and proved equal to what it was.
    """

    baseline: str
    ok: bool
    equal: list[str]
    drifted: list[CheckedKernel]
    added: list[str]
    removed: list[str]
    errors: list[tuple[str, str]]


class JobOut(_Versioned):
    """A partition job; `result` is there once `state` is done."""

    id: str
    kind: str = Field(description="partition or check")
    state: str = Field(description="queued, running, done, failed or cancelled")
    done: int
    total: int
    created: float
    finished: float | None = None
    error: dict[str, Any] | None = None
    result: PartitionOut | BaselineCheck | None = None
    links: dict[str, str] = {}


class SeenKernel(_Out):
    digest: str
    kernel: str
    isa: str
    target: str


class SignatureInfo(_Versioned):
    """What is known of a class: kernels seen with it, premises, the first kernel's trees."""

    signature: str
    basis: str = Field(description="static, or launch: it holds at `launches` only")
    launches: list[dict[str, Any]] = []
    summary: str = ""
    modelled: bool
    premises: list[str]
    kernels: list[SeenKernel]
    outline: list[dict[str, Any]] | None = None


class KernelOut(_Versioned):
    """What is known of a text."""

    digest: str
    size_bytes: int
    lines: int
    created: float
    signatures: list[SignOut]


class BaselineOut(_Out):
    """A stored baseline."""

    name: str
    created: float
    updated: float
    checker_version: str
    entries: list[dict[str, Any]]


class Health(_Out):
    """The process is up."""

    status: str
    checker_version: str


class ProblemOut(_Out):
    """RFC 9457 problem document; diagnostics carry positions in the text at fault."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    diagnostics: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
