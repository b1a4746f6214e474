"""Signatures of walked kernels, and the structural confirmation behind an `equal`.

In: `WalkResult`s. Out: `results.Signature`; `same` says whether two kernels have one canonical
form, and confirms every hash it used by the nodes behind it, so that a collision cannot pass.
"""

from __future__ import annotations

from typing import Any

from checker.results import Reason, Signature
from checker.tree.confirm import Seen, confirm
from checker.tree.diff import first_difference
from checker.tree.nodes import Fuel
from checker.tree.result import Element, OutputGroup, WalkResult
from checker.tree.text import normalised_text

__all__ = ["same", "signature"]


def signature(result: WalkResult) -> Signature:
    """Return the static signature of a walked kernel."""
    program = result.program
    return Signature(
        text=f"sb1-{result.digest}", kernel=program.name, isa=program.isa, target=program.target,
        modelled=result.modelled, opaque=result.opaque, premises=result.premises,
        findings=result.findings, nondeterministic=result.nondeterministic,
        summary=result.summary)


def _elements(result: WalkResult) -> dict[tuple[str, str], list[Element]]:
    out: dict[tuple[str, str], list[Element]] = {}
    for g in result.groups:
        out.setdefault(_group_key(g), []).extend(g.elements)
    return out


def _group_key(group: OutputGroup) -> tuple[str, str]:
    return (group.base.attr if group.base is not None else "?", group.kind)


def same(a: WalkResult, b: WalkResult) -> tuple[bool, tuple[Reason, ...]]:
    """Return whether two kernels are proved to return the same bits, and why not."""
    reasons = list(_blockers(a, b))
    if a.gave_up or b.gave_up:
        if not (a.nondeterministic or b.nondeterministic) and a.gave_up and b.gave_up \
                and a.digest == b.digest \
                and normalised_text(a.program) == normalised_text(b.program):
            return True, ()
        return False, tuple(reasons)
    if a.digest != b.digest:
        reasons.append(first_difference(a, b))
    if reasons:
        return False, tuple(reasons)
    try:
        problem = _confirm_all(a, b)
    except Fuel as err:
        return False, (Reason("fuel", f"limit reached while the trees are compared: {err}"),)
    if problem:
        return False, (Reason("tree-differs", problem),)
    return True, ()


def _blockers(a: WalkResult, b: WalkResult) -> Any:
    for side, r in (("a", a), ("b", b)):
        if r.nondeterministic:
            yield Reason("nondeterministic", f"kernel {side} has no fixed bits", None, None)
        for f in r.findings:
            code = f.code if f.code in ("fuel", "undefined", "race") else "opaque"
            line_a, line_b = (f.line_a, None) if side == "a" else (None, f.line_a)
            loc_a, loc_b = (f.loc_a, None) if side == "a" else (None, f.loc_a)
            yield Reason(code, f"kernel {side}: {f.message}", line_a, line_b, loc_a, loc_b)
        for o in r.opaque:
            if o.reaches_output and not r.gave_up:
                line_a, line_b = (o.span.line, None) if side == "a" else (None, o.span.line)
                yield Reason("opaque", f"kernel {side}: not modelled: {o.text}", line_a, line_b)
        if not (r.modelled or r.gave_up):  # whatever the reason
            yield Reason("opaque", f"kernel {side} is not modelled whole")


def _confirm_all(a: WalkResult, b: WalkResult) -> str:
    """Confirm that elements with one digest have one structure."""
    left, right = _elements(a), _elements(b)
    seen: Seen = set()  # elements share most of their trees
    if sorted(left) != sorted(right):
        return "different buffers are written"
    for where, elements in left.items():
        others = {(e.digest, e.coverage): e for e in right[where]}
        if len(others) != len({(e.digest, e.coverage) for e in elements}):
            return "different elements are written"
        for e in elements[:64]:
            twin = others.get((e.digest, e.coverage))
            if twin is None:
                return "different elements are written"
            problem = confirm(e, twin, seen)
            if problem:
                return problem
    return ""
