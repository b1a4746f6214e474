"""The reduction order behind each output, in words: `samebits describe`.

In: a walked kernel. Out: plain data (`describe`) or text (`lines`), in the words of the paper's
GEMMDesc (instruction_k, k_cuts with span and layout, how an accumulator closes, the types of parts
and merges, the roundings of the epilogue) and of its attention descriptor. The words are read off
the canonical tree; what they leave out (addresses, guards, coverage, which operand is which) is in
the digest that stands beside them, so that one descriptor means one signature. What has no words is
`tree <digest>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import xxhash

from checker import api
from checker.describe.differ import Row, differences
from checker.describe.places import argument
from checker.describe.reductions import reduction
from checker.describe.text import lines
from checker.describe.words import Data, Words
from checker.tree.confirm import View
from checker.tree.result import Element, OutputGroup, WalkResult

__all__ = ["Row", "describe", "descriptor", "differences", "lines"]

KINDS = 2  # kinds of element of one output that get words


def descriptor(text: str, *, isa: str | None = None, kernel: str | None = None,
               assume: Sequence[str] = (), launch: api.LaunchFacts | None = None,
               file: str = "<text>") -> Data:
    """Return the descriptor of one kernel as plain data; `kernel` where a text has several.

    assume, launch: as `checker.api.compare` takes them.
    """
    return describe(api.walked(text, isa=isa, kernel=kernel, assume=assume, launch=launch,
                               file=file))


def describe(result: WalkResult) -> Data:
    """Return the descriptor of a kernel as plain data; `descriptor` names all of it but the head.

    Equal names: the same words and the same trees, hence one signature.
    """
    program = result.program
    head: Data = {"kernel": program.name, "isa": program.isa, "target": program.target,
                  "signature": f"sb1-{result.digest}", "modelled": result.modelled,
                  "nondeterministic": result.nondeterministic}
    body: Data = {"outputs": [_output(group) for group in result.groups]}
    if result.gave_up:
        body = {"outputs": [], "tree": result.digest, "why": result.gave_up}
    return {**head, "descriptor": f"d1-{_joined([json.dumps(body, sort_keys=True)])}", **body}


def _output(group: OutputGroup) -> Data:
    """One buffer: the orders of its elements, and the digest of all of them."""
    base = group.base.attr if group.base is not None else "?"
    elements = sorted(group.elements, key=lambda e: (e.digest, e.coverage))
    orders: dict[str, Data] = {}
    for element in elements[:KINDS]:
        order = _order(element)
        words = json.dumps(order, sort_keys=True)
        mine = orders.setdefault(words, {**order, "kinds": 0})
        mine["kinds"] += 1
    out: Data = {"output": argument(base), "kind": group.kind.strip("|"), "kinds": len(elements),
                 "orders": sorted(orders.values(), key=lambda o: json.dumps(o, sort_keys=True)),
                 "tree": _joined(f"{e.digest}|{e.coverage}" for e in elements)}
    if len(elements) > KINDS:
        out["without_words"] = len(elements) - KINDS
    return out


def _joined(parts: Iterable[str]) -> str:
    return str(xxhash.xxh3_128_hexdigest("\n".join(parts).encode()))


def _order(element: Element) -> Data:
    """The words for one kind of element."""
    words = Words(reduction)
    value = View(element.slot.value, element.scope)
    words.text(value)
    of, epilogue = words.epilogue(value)
    return {"of": of, "epilogue": epilogue, "reductions": words.named()}
