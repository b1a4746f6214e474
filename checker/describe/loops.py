"""Loops in words: their running values, and what these add up to.

In: the view of a fold. Out: start and step of each running value; GEMMDesc where there is one
accumulator, the attention descriptor where there is a running maximum with a rescaled sum and
product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from checker.describe.places import stride
from checker.describe.words import Data, Env, Words
from checker.tree.confirm import View, lane_terms
from checker.tree.folds import Fold
from checker.tree.hashing import hex_of
from checker.tree.nodes import Node

__all__ = ["loop"]

_MASK = re.compile(r"select\(([^,]*?), ")


def loop(words: Words, v: View, env: Env) -> Data:
    """A loop: its running values in canonical order, and the words for what they add up to."""
    fold: Fold = v.node.extra
    inner = words.body(v)
    order = sorted(fold.phis, key=lambda p: hex_of(inner.of(p)))
    label = "" if env.level == 0 else "'" * env.level
    inside = Env({**env.names, fold.counter: f"k{label}"}, {}, env.level + 1)
    for i, phi in enumerate(order):
        inside.names[phi] = f"acc{label}" if len(order) == 1 else f"acc{i}{label}"
    index = {phi: i for i, phi in enumerate(fold.phis)}
    running = []
    for phi in order:
        step = View(fold.steps[index[phi]], inner)
        start = View(fold.inits[index[phi]], v.scope)
        running.append({"name": inside.names[phi], "start": words.text(start, env),
                        "step": words.text(step, inside), **_merge(words, step, phi, inside)})
    condition = View(fold.cond, inner)
    out: Data = {"kind": "loop", "while": words.text(condition, inside), "form": fold.form,
                 "running": running, "result": words.text(View(fold.out, inner), inside)}
    turns = _turns(condition, fold)
    if turns is not None:
        out["turns"] = turns
    # A turn of the tree may be a part of a turn of the text.
    strides = sorted({s // fold.ratio for phi in order
                      for s in stride(View(fold.steps[index[phi]], inner), fold.counter)})
    if strides:
        out["k_loop_step"] = strides[0] if len(strides) == 1 else strides
    known = {f"R{i}": data for i, data in enumerate(words.reductions.values(), 1)}
    if len(running) == 1:
        found = _gemm(running[0], known, out)
        return out | ({"gemm": found} if found else {})
    found = _attention(running, known)
    return out | ({"attention": found | {"walk": out["while"]}} if found else {})


def _merge(words: Words, step: View, phi: Node, env: Env) -> Data:
    """What one addition adds to a running value each turn."""
    if step.node.op == "select":  # a turn that does not count
        sides = step.kids()[1:]
        step = sides[0] if sides[1].node is phi else sides[1] if sides[0].node is phi else step
    kids = step.kids()
    if step.node.op == "ffma":  # rescaled by another value, then merged
        scale = [k for k in kids[:2] if k.node is not phi]
        parts = kids[2:] if len(scale) == 1 else []
    elif step.node.op == "fadd":
        scaled = [k for k in kids if k.node.op == "fmul" and phi in [x.node for x in k.kids()]]
        scale = [x for k in scaled[:1] for x in k.kids() if x.node is not phi]
        parts = [k for k in kids if k.node is not phi and k not in scaled]
    else:
        return {}
    if len(parts) != 1:
        return {}
    out = {"merge": f"{step.node.op} {step.node.attr}", "part": words.text(parts[0], env)}
    return out | ({"rescale": words.text(scale[0], env)} if scale else {})


def _turns(condition: View, fold: Fold) -> int | None:
    """How often a loop turns, where nothing but its counter decides."""
    poly = condition.node.poly
    if condition.node.op != "ge0" or poly is None:
        return None
    left, each = 0, 0
    for (c, den), atoms in lane_terms(poly, condition.scope).values():
        if den != 1 or len(atoms) > 1 or (atoms and atoms[0].node is not fold.counter):
            return None
        left, each = (left, c) if atoms else (c, each)
    return left // -each + 1 + (fold.form == "do") if each < 0 <= left else None


def _gemm(acc: Data, known: Mapping[str, Data], loop: Data) -> Data:
    """A single accumulator: carried through the loop, or closed each turn and merged."""
    turn = loop.get("k_loop_step")
    step, part = known.get(acc["step"], {}), known.get(acc.get("part", ""), {})
    if acc["name"] in (step.get("start"), *step.get("start", ())):
        return {"instruction_k": step.get("instruction_k", 1), "k_cuts": [],
                "accumulator": "carried through the loop", "k_loop_step": turn}
    if "part" not in acc:
        return {}
    each = part.get("instruction_k", part.get("gemm", {}).get("instruction_k"))
    if each is None:
        return {"instruction_k": 1, "k_cuts": [], "accumulator": "carried through the loop",
                "merge_dtype": acc["merge"], "k_loop_step": turn}
    cuts = [{"span": _span(part), "layout": _layout(part, loop)}]
    return {"instruction_k": each, "k_cuts": cuts + part.get("gemm", {}).get("k_cuts", []),
            "accumulator": "closed after each span, then merged",
            "partial_dtype": part.get("accumulator", "as merged"), "merge_dtype": acc["merge"],
            "k_loop_step": turn}


def _span(part: Data) -> Any:
    """How many elements one accumulator takes."""
    if "instruction_k" in part:
        return part["instruction_k"] * part["steps"]
    if isinstance(part.get("k_loop_step"), int) and "turns" in part:
        return part["turns"] * part["k_loop_step"]
    return f"while {part['while']}"


def _layout(part: Data, loop: Data) -> str:
    """Contiguous, where the turns take up where the last one stopped."""
    span, stride = _span(part), loop.get("k_loop_step")
    if not isinstance(span, int) or not isinstance(stride, int):
        return "by the loop's condition"
    return "contiguous" if span == stride else f"strided by {stride}"


def _attention(running: Sequence[Data], known: Mapping[str, Data]) -> Data:
    """A running maximum, a rescaled sum and a rescaled product, as flash attention has them."""
    steps = [(a["name"], known.get(a["step"], {})) for a in running]
    values = [d for name, d in steps if d.get("kind") == "matrix steps" and "instruction_k" in d
              and name in d["start"] != name]
    if len(values) != 1:
        sums = [a for a in running if "rescale" in a
                and known.get(a["part"], {}).get("kind") == "sum"]
        return {"row_sum": sums[0]["part"], "merge_dtype": sums[0]["merge"],
                "rescale": sums[0]["rescale"]} if len(sums) == 1 else {}
    product = values[0]
    scores = [name for name, d in known.items()
              if d["kind"] == "matrix steps" and d["start"] == "0"]
    narrowed = {p.split("(")[0] for o in product["operands"] for p in o.split(" x ")
                if p.startswith("fcvt")}
    masks = {m for d in known.values() for o in (*d.get("of", ()), *d.get("terms", ()))
             for m in _MASK.findall(o)}
    return {"key_block": product["instruction_k"] * product["steps"],
            "masking": sorted(masks), "probabilities": sorted(narrowed),
            "rescale": product["start"], "scores": scores,
            "values": next(name for name, d in known.items() if d is product)}
