"""A tiny checker for tests of the service: same calls as `checker.api`, almost no meaning.

A text is lines `out = words`; its signature is a digest of the words, order of lines apart. Words
that begin with `!` misbehave: `!sleep 3`, `!memory`, `!die`, `!bug`, `!error 2 4`, `!opaque`.
Every examination and signature is counted in the file that $TOY_COUNT names, one line each.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from checker.errors import Diagnostic, InputError, LaunchError, Span, UsageError
from checker.results import (
    EqualClass,
    KernelInput,
    Opaque,
    Partition,
    Reason,
    Signature,
    Verdict,
)


def _count(word: str, text: str) -> None:
    path = os.environ.get("TOY_COUNT")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{word} {hashlib.sha256(text.encode()).hexdigest()}\n")


def _misbehave(text: str) -> None:
    for line_number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or not words[0].startswith("!"):
            continue
        if words[0] == "!sleep":
            time.sleep(float(words[1]))
        elif words[0] == "!spin":
            until = time.monotonic() + float(words[1])
            while time.monotonic() < until:
                pass
        elif words[0] == "!memory":
            hold = []
            while True:
                hold.append(bytearray(16 << 20))
        elif words[0] == "!die":
            os._exit(9)
        elif words[0] == "!bug":
            raise ZeroDivisionError("a bug")
        elif words[0] == "!error":
            span = Span(line_number, int(words[1]), 3)
            raise InputError([Diagnostic("no such thing", span, source_line=line)])


def kernels_in(text: str, *, isa: str | None = None, file: str = "<text>") -> tuple[str, ...]:
    return tuple(line.split()[1] for line in text.splitlines() if line.startswith(".entry "))


def sign(
    text: str, *, isa: str | None = None, kernel: str | None = None, file: str = "<text>",
) -> Signature:
    _count("sign", text)
    _misbehave(text)
    lines = sorted(x for x in text.splitlines() if "=" in x)
    if not lines:
        raise InputError([Diagnostic("no assignment", Span(1, 1), file=file, hint="add one")])
    names = kernels_in(text)
    if kernel is not None and names and kernel not in names:
        raise UsageError(f"no entry {kernel!r}; the text has {', '.join(names)}")
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
    opaque = tuple(Opaque("wild", line, Span(n, 1)) for n, line in enumerate(text.splitlines(), 1)
                   if line.startswith("!opaque"))
    return Signature(f"sb1-{digest}", kernel or (names[0] if names else "toy"), isa or "ptx",
                     "sm_90", not opaque, opaque, ("assembler", "no-alias"), summary="toy")


def compare(
    a: str, b: str, *, isa_a: str | None = None, isa_b: str | None = None,
    kernel_a: str | None = None, kernel_b: str | None = None, launch_a: Any = None,
    launch_b: Any = None, strict: bool = False, assume: Sequence[str] = (),
) -> Verdict:
    _count("compare", a + b)
    first = sign(a, isa=isa_a, kernel=kernel_a)
    second = sign(b, isa=isa_b, kernel=kernel_b)
    if first.text == second.text and first.modelled:
        return Verdict("equal", "static", ("no-alias",), (), first, second)
    if launch_a is not None and _map(a, launch_a) == _map(b, launch_b or launch_a):
        return Verdict("equal", "launch", ("launch", "no-alias"), (), first, second)
    reason = Reason("tree-differs", "the trees differ at the root", 1, 2)
    return Verdict("unproved", "", ("no-alias",), (reason,), first, second)


def compare_at(a: str, b: str, launches: Iterable[Any], **options: Any) -> Verdict:
    found = [compare(a, b, launch_a=x, launch_b=y, **options) for x, y in launches]
    return next((v for v in found if not v.equal), found[0])


def _map(text: str, launch: Any) -> str:
    """What a text comes to at a launch: a word `@2:w` is there at a grid of 2 only."""
    facts = launch.get("grid") if isinstance(launch, dict) else None
    if not isinstance(facts, list) or not facts or not isinstance(facts[0], int):
        raise LaunchError("launch facts need a grid")
    words = []
    for word in sorted(w for line in text.splitlines() if "=" in line for w in line.split()):
        grid, _, only = word.removeprefix("@").partition(":")
        if not word.startswith("@"):
            words.append(word)
        elif grid == str(facts[0]):
            words.append(only)
    return f"{facts[0]} " + " ".join(words)


@dataclass(frozen=True)
class Examined:
    name: str
    signature: Signature
    digests: tuple[str | None, ...] = ()
    premises: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()

    @property
    def launch_signature(self) -> str | None:
        joint = "|".join(map(str, self.digests)).encode()
        return f"sb1l-{hashlib.md5(joint).hexdigest()}" if self.digests else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "launch_signature": self.launch_signature}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Examined:
        plain = dict(data["signature"])
        plain["opaque"] = tuple(Opaque(o["opcode"], o["text"], Span(**o["span"]))
                                for o in plain["opaque"])
        plain["premises"] = tuple(plain["premises"])
        plain["findings"] = ()
        return Examined(data["name"], Signature(**plain), tuple(data["digests"]))


def examine(kernel: KernelInput) -> Examined:
    _count("examine", kernel.text)
    signature = sign(kernel.text, isa=kernel.isa, kernel=kernel.kernel)
    return Examined(kernel.name, signature, tuple(_map(kernel.text, x) for x in kernel.launches),
                    ("launch",) if kernel.launches else ())


def classify(
    items: Iterable[tuple[KernelInput, Examined]], errors: Iterable[tuple[str, str]] = (),
    again: object = None,
) -> Partition:
    groups: dict[str, list[KernelInput]] = {}
    for kernel, examined in items:
        key = examined.launch_signature or examined.signature.text
        groups.setdefault(key, []).append(kernel)
    classes = tuple(
        EqualClass(key, "launch" if key.startswith("sb1l-") else "static",
                   tuple(k.name for k in members), dict(members[0].config))
        for key, members in sorted(groups.items()))
    return Partition(classes, (), tuple((a, b) for a, b in errors), ("num_warps",))


def outline(text: str, *, isa: str | None = None, kernel: str | None = None) -> list[Any]:
    _count("outline", text)
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        if "=" in line:
            name, _, words = line.partition("=")
            out.append({"output": name.strip(), "label": "fadd", "line": number,
                        "loc": {"file": "k.py", "line": 7, "col": 3},
                        "children": [{"label": w, "line": number, "loc": None, "children": []}
                                     for w in words.split()]})
    return out
