"""`walk`: a program to its outputs' canonical trees, or to its normalised text where that fails.

In: `core.Program`. Out: `WalkResult`. Never raises on account of the kernel: fuel, time and
constructs without a sound abstraction end in a result that equals nothing but its own text.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import xxhash

from checker.arrays import places
from checker.collector import collector_paused
from checker.core import Program
from checker.results import Opaque, Reason
from checker.tree.contexts import each_once
from checker.tree.evaluate import decided, options, parts
from checker.tree.nodes import LOW_BITS, Forest, Fuel, Node
from checker.tree.poly import TooLarge
from checker.tree.result import OutputGroup, Slot, WalkResult
from checker.tree.rewrite import Scope
from checker.tree.text import normalised_text
from checker.walk.cases import pipelined, run_by_cases
from checker.walk.engine import Engine
from checker.walk.inplace import mixed_updates, read_and_written
from checker.walk.outputs import group_outputs
from checker.walk.state import GiveUp

__all__ = ["walk"]

_RACES = ("race", "undefined", "unmodelled", "member-mask")


@collector_paused()
def walk(program: Program, *, seconds: float = 60.0, max_nodes: int = 320_000,
         divisible: Iterable[str] = ()) -> WalkResult:
    """Return the canonical outputs of a kernel, for every launch.

    divisible: scalar parameters (argN) to take for multiples of 16, as a compiler was told; the
    result lists the premise for those it made use of.
    """
    started = time.process_time()
    engine: Engine | None = None
    try:
        engine = Engine(program, seconds, max_nodes, divisible)
        if pipelined(program, engine.flow):
            found = _by_cases(program, engine, seconds, max_nodes, divisible)
            if found is not None:
                found.millis = 1000 * (time.process_time() - started)
                return found
            engine = Engine(program, seconds, max_nodes, divisible)
        engine.run()
        groups = group_outputs(engine)
        result = _result(engine, groups)
    except GiveUp as err:
        result = _text_result(program, engine, err.code, err.message, err.site)
    except Fuel as err:
        result = _text_result(program, engine, "fuel", f"limit reached: {err}", -1)
    except TooLarge:
        result = _text_result(program, engine, "fuel", "an index expression is too large", -1)
    except RecursionError:
        result = _text_result(program, engine, "fuel", "nesting too deep", -1)
    except Exception as err:  # our own defect: the kernel still gets a sound answer
        result = _text_result(program, engine, "internal",
                              f"the walk failed: {type(err).__name__}: {err}", -1)
    if engine is not None:
        engine.forest.rest()
    result.millis = 1000 * (time.process_time() - started)
    return result


def _by_cases(program: Program, engine: Engine, seconds: float, max_nodes: int,
              divisible: Iterable[str]) -> WalkResult | None:
    """Walk a program with a pipelined loop path by path; None where that does not go through.

    engine: a fresh one. The first tiles may be fetched before the text shows which sizes one test
    serves a group of elements for: then it is walked once more, knowing that from the start.
    """
    shared: set[str] = set()
    for again in (False, True):
        if again:
            engine = Engine(program, seconds, max_nodes, divisible)
        before = set(engine.forest.shared)
        engine.forest.shared |= shared
        try:
            run_by_cases(engine)
            result = _result(engine, group_outputs(engine))
        except (GiveUp, Fuel, TooLarge):
            shared = engine.forest.shared - before
            if again or not shared:
                return None
            continue
        return result if result.modelled else None
    return None


# --- a walked kernel --------------------------------------------------------------------------


def _result(engine: Engine, groups: list[OutputGroup]) -> WalkResult:
    found = engine.found
    reached, undefined = _reach(engine, groups)
    findings = [_reason(engine.program, code, message, site)
                for site, code, message in found.findings]
    if undefined:
        findings.append(Reason("undefined", "a value that was never written reaches an output"))
    findings += [_reason(engine.program, "finding", message, site)
                 for site, message in engine.program.findings]
    in_place = [*read_and_written(engine), *mixed_updates(engine)]
    for site, reason in [*found.unmodelled, *in_place]:
        findings.append(_reason(engine.program, "unmodelled", reason, site))
    opaque = tuple(_opaque(engine.program, site, reason, site in reached)
                   for site, reason in sorted(found.opaque.items()))
    premises = _premises(engine)
    modelled = not (reached or undefined or found.unmodelled or in_place or found.nondeterministic
                    or any(code in _RACES for _s, code, _m in found.findings)
                    or engine.program.findings)
    elements = sum(e.count for g in groups for e in g.elements)
    digest = _digest(groups) if modelled else _text_digest(engine.program)
    return WalkResult(engine.program, digest, modelled, groups, opaque, premises, tuple(findings),
                      found.nondeterministic or undefined, "", engine.forest,
                      f"{len(groups)} buffers, {elements} elements a block, "
                      f"{len(engine.forest.nodes)} nodes")


def _premises(engine: Engine) -> tuple[str, ...]:
    out = set(engine.found.premises) | set(engine.program.premises) | engine.forest.premises
    out |= {"grid-covers", "no-alias", "race-free", "nan-payload", "readable"}
    names = {n.attr for n in engine.forest.nodes if n.op == "sreg"}
    if any(n.startswith("nctaid") for n in names):
        out.add("same-grid")
    if not engine.known_block:
        out.add("same-block")
    if any(n.op == "mma" for n in engine.forest.nodes):
        out.add(f"matrix-model:{engine.program.target}")
    if any(n.op == "fapprox" for n in engine.forest.nodes):
        out.add("approx-unit")
    return tuple(sorted(_widest(out)))


def _widest(premises: set[str]) -> set[str]:
    """Of `divisible:argN%e` keep the largest power of two for each parameter."""
    largest: dict[str, int] = {}
    for p in premises:
        name, mark, size = p.partition("%")
        if mark:
            largest[name] = max(largest.get(name, 0), int(size))
    return {p for p in premises if "%" not in p} | {f"{n}%{e}" for n, e in largest.items()}


def _text_digest(program: Program) -> str:
    return xxhash.xxh3_128_hexdigest(normalised_text(program).encode())


def _digest(groups: list[OutputGroup]) -> str:
    lines = ["sb1"]
    for group in groups:
        base = group.base.attr if group.base is not None else "?"
        for e in group.elements:
            lines.append(f"{base}|{group.kind}|{e.digest}|{e.coverage}")
    return xxhash.xxh3_128_hexdigest("\n".join([lines[0], *sorted(lines[1:])]).encode())


def _reach(engine: Engine, groups: list[OutputGroup]) -> tuple[set[int], bool]:
    """Return the sites of opaque nodes that outputs depend on; whether undefined bits reach one."""
    sites: set[int] = set()
    undefined = False
    seen: dict[Node, Any] = {}
    done: set[int] = set()
    for group in groups:
        for element in group.elements:
            slot = element.slot
            if id(slot) not in done:
                done.add(id(slot))
                undefined |= _reach_slot(slot, sites, {} if slot.scope.rewriter.facts else seen)
    for event in engine.found.stores:
        for node in (event.value, event.guard):
            if node.tainted and node.op == "opaque":
                sites.add(node.site)
    return sites, undefined


def _reach_slot(slot: Slot, sites: set[int], seen: dict[Node, Any]) -> bool:
    """Collect what is opaque below a slot; whether a value that was never written reaches it.

    Inside a loop a condition that speaks of its counter or running values is never known to hold.
    """
    start, lanes = slot.scope, slot.scope.rewriter.lanes
    pending: dict[tuple[Node, int], list[Any]] = {}
    # Parents before their parts, so that a value is looked at once for all that ask for it.
    order: list[tuple[int, int, int, Node]] = []
    turn = count()

    def ask(node: Node, scope: Scope, bound: int) -> None:
        if node.tainted:
            waiting = pending.setdefault((node, bound), [])
            if not waiting:
                heappush(order, (-node.serial, bound, next(turn), node))
            waiting.append(scope.number * lanes + scope.lane)

    for root in (slot.value, slot.guard, *(a for m in slot.address.terms for a in m)):
        ask(root, start, 0)
    undefined = False
    while order:
        _, bound, _, node = heappop(order)
        keys = each_once(*pending.pop((node, bound)))
        if node in seen:
            keys = np.setdiff1d(keys, seen[node], assume_unique=True)
            if not len(keys):
                continue
            seen[node] = np.union1d(seen[node], keys)
        else:
            seen[node] = keys
        scope = start.over(keys % lanes, keys // lanes)
        if node.op == "undef":
            undefined = True
        elif node.op == "opaque":
            sites.add(node.site)
        if node.op == "fold":
            for symbol in (node.extra.counter, *node.extra.phis):
                bound |= symbol.deps & ~LOW_BITS
        for kid, inner in _reach_kids(node, scope, bound):
            ask(kid, inner, bound)
    return undefined


def _reach_kids(node: Node, scope: Scope, bound: int) -> list[tuple[Node, Scope]]:
    if node.op == "gather" and node.table is not None:
        return [(node.args[0], scope.shift(node.table[scope.lane], slice(None)))]
    if node.op == "mux":
        return [(node.args[i], inner) for i, _at, inner in options(node, scope)]
    if node.op == "krow":
        return [(node.args[i], inner) for i, _k, _j, inner in parts(node, scope)]
    if node.op == "select" and not node.args[0].deps & bound:
        p, a, b = node.args
        side = np.broadcast_to(decided(p, scope), (len(scope.lane),))
        out = []
        for kid, where in ((p, side == 0), (a, side != 2), (b, side != 1)):
            at = places(where)
            if len(at):
                out.append((kid, scope.shift(scope.lane[at], at)))
        return out
    kids = list(node.kids)
    if node.op == "fold":
        kids += node.extra.parts()
    return [(k, scope) for k in kids]


def _opaque(program: Program, site: int, reason: str, reaches: bool) -> Opaque:
    where = program.sites[site]
    return Opaque(where.text.split()[0] if where.text.split() else reason,
                  f"{where.text}  ({reason})", where.span, where.loc, reaches)


def _reason(program: Program, code: str, message: str, site: int) -> Reason:
    if site < 0:
        return Reason(code, message)
    where = program.sites[site]
    return Reason(code, message, where.span.line, None, where.loc, None)


# --- a kernel that signs its text -------------------------------------------------------------


def _text_result(program: Program, engine: Engine | None, code: str, message: str, site: int
                 ) -> WalkResult:
    if code not in ("fuel", "internal", "irreducible", "local", "parameter", "shared-address",
                    "switch"):
        code = "unmodelled"  # a limit of the walk, not a defect of the kernel
    forest: Forest | None = engine.forest if engine is not None else None
    nondeterministic = engine.found.nondeterministic if engine is not None else False
    nondeterministic |= any(
        op.name == "atomic" and op.attr.op == "add" and op.attr.type[0] in "fb"
        and op.attr.type not in ("b32", "b64") for op in program.ops)
    opaque: tuple[Opaque, ...] = ()
    if site >= 0:
        opaque = (_opaque(program, site, message, True),)
    return WalkResult(program, _text_digest(program), False, [], opaque,
                      tuple(sorted({*program.premises, "grid-covers"})),
                      (_reason(program, code, message, site),), nondeterministic,
                      f"{code}: {message}", forest, f"signs its text ({message})")
