"""Reductions in words: matrix steps, fused multiply-adds, sums, selections.

In: the view of a reduction's last step. Out: what GEMMDesc says of it.
"""

from __future__ import annotations

import numpy as np
import xxhash

from checker.describe.loops import loop
from checker.describe.places import along, columns, distance, places
from checker.describe.words import Data, Env, Words, operation
from checker.tree.confirm import View
from checker.tree.nodes import GROUPED

__all__ = ["reduction"]

_KINDS = {"fadd": "sum", "fmul": "product"}


def reduction(words: Words, v: View, env: Env) -> Data | None:
    """The words of a reduction whose last step is this node, None where it is none."""
    op = v.node.op
    if op == "fold":
        return loop(words, v, env)
    if op == "mma":
        return _matrix(words, v, env)
    if op == "ffma" and (v.kids()[2].node.op == "ffma" or v.kids()[2].node in env.names):
        return _fused(words, v, env)
    if op in _KINDS:
        return _sum(words, v, env)
    if op in GROUPED and len(v.members()) > 3:
        return _selection(words, v, env)
    return None


def _chain(v: View, op: str, at: int) -> tuple[list[View], View]:
    """The steps of a chain, the first first, and the value that it starts from."""
    steps = []
    while v.node.op == op:
        steps.append(v)
        v = v.kids()[at]
    return steps[::-1], v


def _matrix(words: Words, v: View, env: Env) -> Data:
    """Matrix steps one after the other on one accumulator."""
    steps, start = _chain(v, "mma", 0)
    models = [step.node.attr.split("|") for step in steps]
    kinds = sorted({m[0] for m in models})
    out: Data = {"kind": "matrix steps", "start": words.text(start, env), "steps": len(steps)}
    if len(kinds) > 1:
        return out | {"models": kinds}
    rows = [step.node.args[1:] for step in steps]
    numbers = [part[1:] for part in kinds[0].split(".") if part[:1] == "s" and part[1:].isdigit()]
    texts = {" x ".join(sorted(_ends(words, View(r, steps[i].scope), env) for r in rows[i]))
             for i in (0, -1)}
    at = [[[places(r.args[p], s, 1) for p, s in columns(r, step.lane)] for r in row]
          for row, step in zip(rows, steps, strict=True)]
    return out | {"instruction_k": int(numbers[0]) if numbers else len(at[0][0]),
                  "inputs": sorted(models[0][1:3]), "accumulator": f"f{v.node.width}",
                  "model": kinds[0], "operands": sorted(texts), "use_fast_accum": True,
                  "k": along(at)}


def _ends(words: Words, row: View, env: Env) -> str:
    """What the first and the last element of an operand are."""
    over_k = columns(row.node, row.lane)
    ends = [View(row.node.args[p], row.scope.shift(np.array([s]), slice(None)))
            for p, s in (over_k[0], over_k[-1])]
    found = sorted({words.text(k, env) for k in ends})
    return found[0] if len(found) == 1 else f"({' | '.join(found)})"


def _fused(words: Words, v: View, env: Env) -> Data:
    """Fused multiply-adds one after the other on one accumulator."""
    steps, start = _chain(v, "ffma", 2)
    texts = {" x ".join(sorted(words.text(k, env) for k in s.kids()[:2]))
             for s in (steps[0], steps[-1])}
    out: Data = {"kind": "fused multiply-adds", "instruction_k": 1, "steps": len(steps),
                 "start": words.text(start, env), "accumulator": v.node.attr,
                 "operands": sorted(texts)}
    out["k"] = along([[[places(k, s.lane, 1)] for k in s.node.args[:2]] for s in steps])
    return out


def _sum(words: Words, v: View, env: Env) -> Data | None:
    """Additions (or products): cut into halves level by level, then chains; None for a few."""
    kind = v.node.op, v.node.attr
    levels: list[Data] = []
    front = [v]
    while all(_is_step(x, kind) for x in front):
        pairs = [x.kids() for x in front]
        if len({_shape(words, k, kind) for pair in pairs for k in pair}) != 1:
            break
        if not levels and not _is_step(pairs[0][0], kind) and (
                v.node.op == "fmul" or len({words.text(k, env) for k in pairs[0]}) > 1):
            return None
        apart = distance([[_first(words, k, kind) for k in pair] for pair in pairs])
        levels.append({"parts": 2, "layout": "tree", "distance": apart})
        front = [k for pair in pairs for k in pair]
    out: Data = {"kind": _KINDS[v.node.op], "merge": v.node.attr}
    if levels:
        out["cuts"] = levels
    if not all(_is_step(x, kind) for x in front):
        return out | {"leaves": len(front), "terms": words.some(front, env)}
    chains = [c for c in (_running(x, kind) for x in front) if c is not None]
    lengths = {len(terms) for terms, _ in chains}
    if len(chains) == len(front) and len(lengths) == 1 and (levels or max(lengths) > 2):
        return out | {"chain": lengths.pop(), "start": words.some((s for _, s in chains), env),
                      "terms": words.some((t for terms, _ in chains for t in terms), env)}
    if not levels and _size(words, v, kind) < 4:
        return None
    return out | {"parts": f"tree {_joined(*sorted(x.digest for x in front))}"}


def _size(words: Words, v: View, kind: tuple[str, str]) -> int:
    """How many leaves a sum has, counted up to four."""
    work, count = [v], 0
    while work and count < 4:
        v = work.pop()
        if _is_step(v, kind):
            work += v.kids()
        else:
            count += 1
    return count


def _is_step(v: View, kind: tuple[str, str]) -> bool:
    return (v.node.op, v.node.attr) == kind


def _shape(words: Words, v: View, kind: tuple[str, str]) -> str:
    """The shape of a sum (a chain: how many additions); two sums of one shape are cut alike."""
    work = [v]
    known = words.shapes
    while work:
        at = work[-1]
        kids = at.kids() if _is_step(at, kind) else []
        missing = [k for k in kids if k.digest not in known]
        if missing:
            work += missing
            continue
        work.pop()
        if not kids:
            known[at.digest] = "."
            continue
        a, b = sorted(known[k.digest] for k in kids)
        chain = (a + b).replace(".", "") if "." in (a, b) else "no"
        if chain.isdigit() or not chain:
            known[at.digest] = str(int(chain or 0) + 1)
        else:
            known[at.digest] = _joined(a, b)
    return known[v.digest]


def _running(v: View, kind: tuple[str, str]) -> tuple[list[View], View] | None:
    """A chain of additions: its terms, the first first, and the value it starts from."""
    terms = []
    while _is_step(v, kind):
        a, b = v.kids()
        if _is_step(a, kind) and _is_step(b, kind):
            return None
        if not _is_step(a, kind) and (_is_step(b, kind) or _starts(b)):
            a, b = b, a
        terms.append(b)
        v = a
    return terms[::-1], v


def _starts(v: View) -> bool:
    """Whether a value looks like what a chain starts from."""
    return v.node.op in ("phi", "int")


def _first(words: Words, v: View, kind: tuple[str, str]) -> tuple[int, ...]:
    """The smallest places of the leaves of a sum."""
    mark = v.digest
    if mark not in words.places:
        kids = [_first(words, k, kind) for k in v.kids()] if _is_step(v, kind) else []
        words.places[mark] = min(kids) if kids else places(v.node, v.lane)
    return words.places[mark]


def _selection(words: Words, v: View, env: Env) -> Data:
    """An exact selection or an integer sum: the order is free."""
    members = v.members()
    return {"kind": "order free", "operation": operation(v.node), "members": len(members),
            "of": words.some(members, env)}


def _joined(*parts: str) -> str:
    return str(xxhash.xxh3_128_hexdigest("\n".join(parts).encode()))
