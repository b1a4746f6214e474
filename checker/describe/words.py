"""Expressions in words: operations over reductions, running values and loads.

In: views of the canonical tree. Out: text. A reduction is named by what is said of it (`R1`), so
that two that differ in their addresses only have one name; an expression that is too long, too deep
or over the budget is `tree <digest>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from checker.describe.places import argument, base
from checker.tree.confirm import View, lane_terms
from checker.tree.folds import Body
from checker.tree.hashing import hex_of, key
from checker.tree.nodes import GROUPED, SYMMETRIC, Node
from checker.tree.poly import Poly
from checker.tree.rewrite import Scope

__all__ = ["Data", "Env", "Words", "operation"]

Data = dict[str, Any]

BUDGET = 20_000  # nodes looked at for one element
SAMPLE = 24  # values of one sum or set that get words
DEPTH = 60  # nested operations of one expression
LONGEST = 400  # characters of one expression
_NAME = re.compile(r"\bR\d+\b")
_COUNTER = re.compile(r"\bk'*(?![\w'])")
_TRUE = hex_of(key("true"))


@dataclass(slots=True)
class Env:
    """Inside loops: names of running values and counters, and what was said already."""

    names: dict[Node, str] = field(default_factory=dict)
    said: dict[tuple[str, bool], str] = field(default_factory=dict)
    level: int = 0


class Words:
    """The words for one element. Reductions get names by what is said of them."""

    def __init__(self, reduction: Callable[[Words, View, Env], Data | None]) -> None:
        self.reduction = reduction
        self.reductions: dict[str, Data] = {}
        self.budget, self.depth = BUDGET, 0
        self.top = Env()
        self.inner: dict[tuple[Node, int], Scope] = {}  # by loop and lane
        self.shapes: dict[str, str] = {}
        self.places: dict[str, tuple[int, ...]] = {}

    def some(self, views: Iterable[View], env: Env) -> list[str]:
        """What a number of values are: a sample, the same for every kernel with these trees."""
        chosen = sorted(views, key=lambda v: v.digest)[:SAMPLE]
        return sorted({self.text(v, env) for v in chosen})[:4]

    def named(self) -> list[Data]:
        """The reductions by name, in the order in which they were met."""
        return [{"name": f"R{i}", **data} for i, data in enumerate(self.reductions.values(), 1)]

    def name(self, data: Data) -> str:
        """The name of a reduction; equal words have one name."""
        words = json.dumps(data, sort_keys=True)
        if words not in self.reductions:
            self.reductions[words] = data
        return f"R{list(self.reductions).index(words) + 1}"

    def text(self, v: View, env: Env | None = None, vague: bool = False) -> str:
        """An expression over reductions, running values and loads; a vague one has no constants."""
        env = env or self.top
        mark = (v.digest, vague)
        if mark not in env.said:
            self.budget -= 1
            self.depth += 1
            deep = self.budget <= 0 or self.depth > DEPTH
            made = "" if deep else self._text(v, env, vague)
            self.depth -= 1
            env.said[mark] = f"tree {v.digest}" if deep or len(made) > LONGEST else made
        return env.said[mark]

    def epilogue(self, v: View) -> tuple[str, list[str]]:
        """What is done to the last reduction before it is stored, the first thing first."""
        steps: list[str] = []
        while _NAME.fullmatch(self.text(v)) is None:
            kids, free = _operands(v)
            inner = [k for k in kids if _NAME.search(self.text(k))]
            if len(inner) != 1 or v.node.op in ("load", "and", "or"):
                break
            shown = ["." if k is inner[0] else self.text(k) for k in kids]
            shown[:free] = sorted(shown[:free])
            steps.append(f"{operation(v.node)}({', '.join(shown)})" if len(kids) > 1
                         else operation(v.node))
            v = inner[0]
        return self.text(v), steps[::-1]

    def body(self, v: View) -> Scope:
        """The inside of a loop, as one lane sees it."""
        mark = (v.node, v.lane)
        if mark not in self.inner:
            body = Body(v.node.extra, v.scope)
            body.run()
            self.inner[mark] = body.scope(v.scope.lane, v.scope.number)
        return self.inner[mark]

    def _text(self, v: View, env: Env, vague: bool) -> str:
        node = v.node
        if node in env.names:
            return env.names[node]
        if node.poly is not None and node.op in ("int", "ge0", "eq0", "load"):
            return self._indexed(v, env, vague)
        if node.op in ("and", "or"):
            return self._logic(v, env, vague)
        if node.op == "param":
            return argument(node.attr)
        reduction = self.reduction(self, v, env)
        if reduction is not None:
            return self.name(reduction)
        if node.op == "select":
            condition, yes, no = v.kids()
            if yes.node.op == "load":  # a mask at a load is in the digest
                return f"masked({self.text(yes, env)}, {self.text(no, env)})"
            shown = [self.text(condition, env, True), self.text(yes, env), self.text(no, env)]
            return f"select({', '.join(shown)})"
        if node.op == "phi":
            return "running"
        kids, free = _operands(v)
        shown = [self.text(k, env) for k in kids]
        shown[:free] = sorted(shown[:free])
        if not shown:
            return f"tree {v.digest}"
        return f"{operation(node)}({', '.join(shown)})"

    def _indexed(self, v: View, env: Env, vague: bool) -> str:
        node = v.node
        assert node.poly is not None
        if node.op == "load":
            return f"load b{node.width} {base(v)}"
        if node.op == "int":
            return _literal(self.poly(node.poly, v.scope, env), node.width)
        text = self.poly(node.poly, v.scope, env, vague)
        return f"{text} {'>=' if node.op == 'ge0' else '=='} {'c' if vague else '0'}"

    def _logic(self, v: View, env: Env, vague: bool) -> str:
        """A condition: what always holds here is no part of it.

        Inside a loop a vague one has only what changes from turn to turn: guards of the elements
        are implied by the store's, and dropped there.
        """
        kids = {k.digest: k for k in v.kids() if v.node.op == "or" or k.digest != _TRUE}
        shown = sorted({self.text(k, env, vague) for k in kids.values()})
        if vague and env.level and v.node.op == "and":
            shown = [text for text in shown if _COUNTER.search(text)] or ["guard"]
        return f" {v.node.op} ".join(shown) if shown else "true"

    def poly(self, poly: Poly, scope: Scope, env: Env, vague: bool = False) -> str:
        """An index expression over arguments, coordinates and counters."""
        parts = []
        for (c, den), atoms in lane_terms(poly, scope).values():
            if vague and not atoms:
                continue
            factors = sorted(self._atom(a, env) for a in atoms)
            number = f"{c}/{den}" if den != 1 else str(c)
            if factors and number == "1":
                parts.append("*".join(factors))
            else:
                parts.append("*".join([number, *factors]))
        parts.sort(key=lambda p: (p.lstrip("-")[:1].isdigit() and "*" not in p, p))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    def _atom(self, v: View, env: Env) -> str:
        node = v.node
        if node in env.names:
            return env.names[node]
        if node.op == "y":
            inside = node.attr.split("|")[1]
            return f"i[{argument(inside.removeprefix('param:'))}]" if inside else "i"
        if node.op in ("sext", "zext") and node.poly is not None:
            inner = self.poly(node.poly, v.scope, env)
            plain = inner.replace("[", "").replace("]", "").isalnum()
            return inner if plain else f"({inner})"
        if node.op == "param":
            return argument(node.attr)
        if node.op == "sreg":
            return node.attr
        return f"({self.text(v, env)})"


def _operands(v: View) -> tuple[list[View], int]:
    """The operands; the first so many may change places, and stand in the order of digests."""
    op = v.node.op
    kids = v.members() if op in GROUPED else v.kids()
    free = len(kids) if op in SYMMETRIC | GROUPED else 2 if op == "ffma" else 0
    kids[:free] = sorted(kids[:free], key=lambda k: k.digest)
    return kids, free


def operation(node: Node) -> str:
    """An operation with its types and modes."""
    return f"{node.op} {node.attr.split('|')[0]}".rstrip()


def _literal(text: str, width: int) -> str:
    """A literal as bits; zero as it is."""
    if text.lstrip("-").isdigit() and text != "0":
        return f"0x{int(text) & ((1 << width) - 1):0{width // 4}x}"
    return text
