"""A toy stand-in for `checker.api`: shapes of answers, no semantics.

Each text is lines; `.entry NAME` starts a kernel, `//` a comment, `opaque ...` an opaque
construct, `race` a finding; `sum NAME n` is the arithmetic. Two kernels are equal if their lines
agree; `$launch K` lines are ignored when launch facts are given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from checker.cache import signature_from_json
from checker.errors import Diagnostic, InputError, LaunchError, Span, UsageError
from checker.results import (
    EqualClass,
    KernelInput,
    Opaque,
    Partition,
    Reason,
    Signature,
    Verdict,
    Witness,
)


def _parse(text: str, file: str) -> dict[str, list[tuple[int, str]]]:
    kernels: dict[str, list[tuple[int, str]]] = {}
    bad = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//")[0].strip()
        if code.startswith(".entry"):
            kernels[code.split()[1]] = current = []
        elif code == "?!":
            bad.append(Diagnostic("unexpected `?!`", Span(number, 1, 2), "", file, line))
        elif code and not code.startswith("."):
            current.append((number, " ".join(code.split())))
    if bad or not kernels:
        raise InputError(bad or [Diagnostic("no kernel in this text", Span(1, 1), file=file)])
    return kernels


def _body(text: str, kernel: str | None, file: str = "<text>") -> tuple[str, list[tuple[int, str]]]:
    kernels = _parse(text, file)
    if kernel is None:
        if len(kernels) > 1:
            raise UsageError(f"name one of {', '.join(kernels)}")
        kernel = next(iter(kernels))
    if kernel not in kernels:
        raise UsageError(f"no kernel {kernel}")
    return kernel, kernels[kernel]


def kernels_in(text: str, *, isa: str | None = None, file: str = "<text>") -> tuple[str, ...]:
    return tuple(_parse(text, file))


def sign(
    text: str, *, isa: str | None = None, kernel: str | None = None, file: str = "<text>"
) -> Signature:
    name, body = _body(text, kernel, file)
    digest = hashlib.md5("\n".join(code for _, code in body).encode()).hexdigest()
    opaque = tuple(
        Opaque(code.split()[1], code, Span(number, 1)) for number, code in body
        if code.startswith("opaque")
    )
    findings = tuple(
        Reason("finding", "two unordered writers", line_a=number) for number, code in body
        if code == "race"
    )
    return Signature(
        f"sb1-{digest}", name, "ptx", "sm_90", not opaque and not findings, opaque,
        ("contraction",), findings, summary=f"{len(body)} steps",
    )


def compare(
    a: str, b: str, *, isa_a: str | None = None, isa_b: str | None = None,
    kernel_a: str | None = None, kernel_b: str | None = None, launch_a: Any = None,
    launch_b: Any = None, strict: bool = False, assume: Sequence[str] = (), file_a: str = "",
    file_b: str = "",
) -> Verdict:
    one, two = sign(a, kernel=kernel_a), sign(b, kernel=kernel_b)
    if launch_a is not None and "grid" not in launch_a:
        raise LaunchError("launch facts lack `grid`")
    body_a, body_b = _body(a, kernel_a)[1], _body(b, kernel_b)[1]
    if one.text == two.text and one.modelled and two.modelled:
        return Verdict("equal", "static", ("contraction", "coverage"), (), one, two)
    plain = [[code for _, code in body if code[0] != "$"] for body in (body_a, body_b)]
    if launch_a is not None and plain[0] == plain[1]:
        return Verdict("equal", "launch", ("launch",), (), one, two)
    line_a, line_b = next(
        ((x[0], y[0]) for x, y in zip(body_a, body_b, strict=False) if x[1] != y[1]), (1, 1)
    )
    reason = Reason("tree-differs", "the trees differ at the root", line_a, line_b)
    if launch_a is not None:
        witness = Witness(5, "cancelling", "out", 17, 0x3C01, 0x3C02, "f16")
        return Verdict("unequal", "witness", (), (reason,), one, two, witness)
    return Verdict("unproved", "", ("contraction",), (reason,), one, two)


@dataclass(frozen=True)
class Examined:
    """What the toy knows of one kernel: its class, or none."""

    name: str
    key: str
    basis: str
    signature: Signature | None = None
    digests: tuple[str, ...] = ()

    @property
    def launch_signature(self) -> str | None:
        joint = "|".join(self.digests).encode()
        return f"sb1l-{hashlib.md5(joint).hexdigest()}" if self.digests else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Examined:
        signed = data["signature"] and signature_from_json(data["signature"])
        return Examined(data["name"], data["key"], data["basis"], signed, tuple(data["digests"]))


def examine(kernel: KernelInput, *, known: Any = None) -> Examined:
    signature = sign(kernel.text, kernel=kernel.kernel, file=kernel.name)
    body = [c for _, c in _body(kernel.text, kernel.kernel)[1] if c[0] != "$"]
    if not signature.modelled:
        maps = ("map-" + "|".join(body),) if kernel.launches else ()
        return Examined(kernel.name, "", "", signature, maps)
    if kernel.launches:
        digest = hashlib.md5("\n".join(body).encode()).hexdigest()
        return Examined(kernel.name, f"sb1l-{digest}", "launch", signature)
    return Examined(kernel.name, signature.text, "static", signature)


def rounds(
    kernels: Iterable[KernelInput], ask: Any, *, ahead: Any = None, replay_only: bool = False,
    static: bool = False, progress: Any = None,
) -> Partition:
    """One round: the toy engine has one way to examine."""
    from checker import api

    inputs = list(kernels)
    for kernel in inputs:
        ahead(kernel, replay_only, ())
    found = []
    for number, kernel in enumerate(inputs, 1):
        found.append((kernel, ask(kernel, replay_only, ())))
        if progress is not None:
            progress(number, len(inputs))
    return api.classify([(k, e) for k, e in found if not isinstance(e, str)],
                        [(k.name, e) for k, e in found if isinstance(e, str)])


def classify(
    items: Sequence[tuple[KernelInput, Examined]], errors: Sequence[tuple[str, str]] = ()
) -> Partition:
    groups: dict[tuple[str, str], list[str]] = {}
    for _, found in items:
        if found.key:
            groups.setdefault((found.key, found.basis), []).append(found.name)
    classes = tuple(
        EqualClass(key, basis, tuple(members), {}, ("contraction",))
        for (key, basis), members in groups.items()
    )
    why = (Reason("opaque", "an opaque construct"),)
    unproved = tuple((found.name, why) for _, found in items if not found.key)
    return Partition(classes, unproved, tuple(errors), ())


def tree_text(
    text: str, *, isa: str | None = None, kernel: str | None = None, file: str = "<text>"
) -> str:
    return "\n".join(f"{code}  @{number}" for number, code in _body(text, kernel)[1])


def coverage(
    text: str, *, isa: str | None = None, kernel: str | None = None, file: str = "<text>"
) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for _, code in _body(text, kernel)[1]:
        words = code.split()
        is_opaque = words[0] == "opaque"
        name = words[1] if is_opaque else words[0]
        good, bad = out.get(name, (0, 0))
        out[name] = (good + (not is_opaque), bad + is_opaque)
    return out


def module() -> ModuleType:
    """The toy as a module object that can stand in for `checker.api`."""
    toy = ModuleType("checker.api")
    toy.LIMITS = frozenset({"fuel", "unmodelled"})  # type: ignore[attr-defined]
    for function in (kernels_in, sign, compare, Examined, examine, classify, tree_text, coverage,
                     rounds):
        setattr(toy, function.__name__, function)
    return toy
