"""Loops with a peeled end or beginning: the program path by path, then all paths as one loop.

In: an engine before its run, for a program with matrix steps around a loop of matrix steps.
Out: its stores, as if the whole had been one loop; `GiveUp` where that is not shown, and nothing of
the engine may be used then. Paths are not joined, so that a place in a ring of buffers stays
literal: where a loop's state repeats after P iterations, it ends on P paths, one for each remainder
of its last iteration. On the path of a loop the steps before and after it are recognised as further
iterations of its template; on every other path that loop, unrolled under what the path knows, must
give the very tree that was found there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from checker.core import Program
from checker.tree.folds import fold_of, make_folds
from checker.tree.hashing import hash_ints, key
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node, parameter_name
from checker.tree.poly import Poly
from checker.tree.values import Value
from checker.walk.flow import Flow, Loop
from checker.walk.general import Divider, Given, Replacer, Uneven
from checker.walk.loops import Iteration, Runner, Summary
from checker.walk.order import rounded_up
from checker.walk.state import GiveUp, State, StoreEvent
from checker.walk.tiles import Unsized, only_waits, wait

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["pipelined", "run_by_cases"]

MAX_PATHS = 64
MAX_STEPS = 24  # iterations of a loop unrolled on a path that does not come through it
MAX_STAGES = 8  # steps that may have been taken out of a loop on either side


def pipelined(program: Program, flow: Flow) -> bool:
    """Tell whether there are matrix steps outside all loops and a loop of matrix steps."""
    def steps(blocks: Any) -> bool:
        return any(op.name == "mma" for b in blocks for op in program.ops[
            flow.blocks[b].start:flow.blocks[b].end])

    return any(lp.parent is None and steps(lp.blocks) for lp in flow.loops.values()) \
        and steps(b for b in flow.order if flow.inner[b] is None)


@dataclass(slots=True)
class _Ended:
    """A loop that ended in iteration `last`: `running` are its values where that began."""

    summary: Summary
    kappa: Node
    phis: dict[int, Node]
    inits: dict[int, Node]
    last: Poly
    running: dict[int, Node]
    runner: Runner


@dataclass(slots=True)
class _Path:
    """A path to the end: its stores, the loop on it whose end is not known."""

    path: Node
    stores: list[StoreEvent]
    ended: _Ended | None


@dataclass(slots=True, eq=False)
class _Point:
    """Where a path has come to."""

    block: int
    state: State
    world: Any
    versions: dict[Any, int]
    stores: list[StoreEvent] = field(default_factory=list)
    ended: _Ended | None = None
    late: bool = False  # it waits for what other paths show


def run_by_cases(engine: Engine) -> None:
    """Run a program path by path; its stores are those of all paths in one."""
    engine.by_cases = True
    paths = _paths(engine)
    engine.by_cases, engine.case_path = False, engine.forest.true
    engine.found.stores = _joined(engine, paths)


def _paths(engine: Engine) -> list[_Path]:
    flow, memory, found = engine.flow, engine.memory, engine.found
    first = _Point(flow.order[0], engine.state, memory.snapshot(), dict(memory.versions))
    stack, out = [first], []
    rank = {block: i for i, block in enumerate(flow.order)}
    while stack:
        at = min(stack, key=lambda p: (p.late, rank[p.block]))
        stack.remove(at)
        at = _met(engine, at, stack)
        memory.restore(at.world)
        memory.versions = dict(at.versions)
        found.stores = []
        path = engine.case_path = at.state.path
        engine.tiles.only_on(path)
        loop = flow.loops.get(at.block)
        edges: list[tuple[int, State, Any, _Ended | None]]
        if loop is not None and only_waits(engine, loop):
            made = wait(engine, loop, at.state)
            world = memory.snapshot()
            edges = [(t, s, world, at.ended) for t, s in made]
        elif loop is not None:
            if at.ended is not None:
                raise GiveUp("loop", "a second loop on one path", engine.site)
            edges = _loop(engine, loop, at.state)
        else:
            block = flow.blocks[at.block]
            engine.counted = _Counts(engine, at).number
            try:
                made = engine.block(block, at.state.copy())
            except Unsized:
                engine.counted = None
                if at.late:
                    raise
                stack.insert(0, replace(at, late=True))
                continue
            engine.counted = None
            world = memory.snapshot()
            edges = [(t, s, world, at.ended) for t, s in made]
            if not all(_never(engine, s.path) or _uniform(s.path, path) for _t, s in made):
                edges, before = [], len(found.stores)
                for side in _sides(engine, [s.path for _t, s in made], path):
                    memory.restore(world)
                    target, state = _parted(engine, at.block, made, side)
                    edges.append((target, state, memory.snapshot(), at.ended))
                if len(found.stores) > before:
                    raise GiveUp("loop", "lanes of a block part where they store", engine.site)
            last = engine.program.ops[block.end - 1]
            if last.name in ("exit", "trap") and last.guard is not None:
                raise GiveUp("loop", "a program that ends in some lanes", engine.site)
        stores = [*at.stores, *found.stores]
        for target, state, world, ended in edges:
            if _never(engine, state.path):
                continue
            if not _uniform(state.path, path):
                raise GiveUp("loop", "lanes of a block part after a loop")
            stack.append(_Point(target, state, world, dict(memory.versions), stores, ended))
        if not edges:
            out.append(_Path(path, stores, at.ended))
        if len(out) + len(stack) > MAX_PATHS:
            raise GiveUp("loop", "too many paths", engine.site)
    return out


def _met(engine: Engine, at: _Point, stack: list[_Point]) -> _Point:
    """Return a point with all that come there alike in what is read from there on."""
    for other in list(stack):
        if (other.block, other.late) != (at.block, at.late) or other.ended is not at.ended \
                or other.state.path is not at.state.path or other.versions != at.versions \
                or other.state.private != at.state.private \
                or [id(e) for e in other.stores] != [id(e) for e in at.stores]:
            continue
        live = engine.flow.blocks[at.block].live_in
        alike = all(_same(a, b) for r, (a, b) in enumerate(zip(
            at.state.regs, other.state.regs, strict=True))
            if r >= engine.tensor.first or live >> r & 1)
        world = engine.memory.met(at.world, other.world, _same) if alike else None
        if world is not None:
            stack.remove(other)
            at = replace(at, world=world)
    return at


def _same(a: Value | None, b: Value | None) -> bool:
    """Tell whether two values are one."""
    return a is b or (isinstance(a, Poly) and isinstance(b, Poly) and a.same(b))


def _uniform(path: Node, before: Node) -> bool:
    """Tell whether all lanes take a path together that comes out of another."""
    known = conjuncts(before)
    return all(p.uniform and p.op != "lanes" for p in conjuncts(path) if p not in known)


def _sides(engine: Engine, paths: list[Node], before: Node) -> list[Node]:
    """Return a path with and without the condition that stands beside lanes where it parts."""
    known = conjuncts(before)
    for path in paths:
        more = [p for p in conjuncts(path) if p not in known]
        for p in more:
            if len(more) > 1 and p.uniform and p.op != "lanes":
                return [engine.logic.conjunction([before, q])
                        for q in (p, engine.logic.negate(p))]
    return [before]


def _parted(engine: Engine, block: int, edges: list[tuple[int, State]], side: Node
            ) -> tuple[int, State]:
    """Run what follows a block where lanes part up to where they are together again.

    side: what holds in all lanes besides.
    """
    import networkx as nx
    flow, logic = engine.flow, engine.logic
    graph = nx.DiGraph((s, b) for b in flow.order for s in flow.blocks[b].succs or (-1,))
    together = nx.immediate_dominators(graph, -1)[block]
    arriving: dict[int, list[State]] = {}
    for target, state in edges:
        path = logic.conjunction([side, logic.given(state.path, conjuncts(side))])
        if not _never(engine, path):
            arriving.setdefault(target, []).append(replace(state.copy(), path=path))
    for b in flow.order:
        if b == together or b not in arriving:
            continue
        if b in flow.loops:
            raise GiveUp("loop", "lanes of a block part after a loop")
        state = engine.merge(arriving.pop(b), flow.blocks[b].live_in)
        for target, out in engine.block(flow.blocks[b], state):
            if out.path is not engine.forest.false:
                arriving.setdefault(target, []).append(out)
    if set(arriving) != {together}:
        raise GiveUp("loop", "lanes of a block part after a loop")
    return together, engine.merge(arriving[together], flow.blocks[together].live_in)


def _never(engine: Engine, path: Node) -> bool:
    """Tell whether a path contradicts itself."""
    parts = conjuncts(path)
    return path is engine.forest.false or any(
        engine.logic.implies([q for q in parts if q is not p], engine.logic.negate(p))
        for p in parts)


class _Counts:
    """What the present path knows of ceil(size / step): a number, or where its loop ended.

    A loop that goes on while size + c - step * k >= 0, and for which that holds at k = -1, ends in
    iteration X = floor((size + c) / step) + 1; so ceil(size / step) is X plus a literal where step
    divides step - 1 - c (premise no-index-wrap: sizes are no less than 0 and far below 2**31).
    """

    def __init__(self, engine: Engine, at: _Point) -> None:
        self.engine, self.ended, self.known = engine, at.ended, conjuncts(at.state.path)

    def number(self, node: Node) -> Poly | None:
        """Return a number of tiles, or the larger of one and a literal, as the path knows it."""
        least = None
        if node.op == "imax_s":
            literals = [a.poly.const for a in node.args if a.poly is not None and a.poly.is_const]
            counts = [a for a in node.args if a.poly is None]
            if len(literals) != 1 or len(counts) != 1 or not isinstance(literals[0], int):
                return None
            node, least = counts[0], literals[0]
        found = self._tiles(node) if node.op == "iop" else None
        if found is None:
            return None
        if least is not None:
            size, step = found
            if not self._holds(_exact(step * least).sub(size)):
                return None
            self.engine.found.premises.add("no-index-wrap")
            return _number(least)
        size, step = found
        made = self._by_loop(size, step) if self.ended is not None else None
        for t in range(MAX_STEPS if made is None else 0):
            above, below = size.add(_exact(-step * (t - 1) - 1)), _exact(step * t).sub(size)
            if self._holds(above) and self._holds(below):
                made = _number(t)
        if made is not None:
            self.engine.found.premises.add("no-index-wrap")
        return made

    def _holds(self, at_least_zero: Poly) -> bool:
        logic = self.engine.logic
        return logic.implies(self.known, logic.at_least_zero(at_least_zero))

    def _tiles(self, node: Node) -> tuple[Poly, int] | None:
        """Return size and step where a node is ceil(size / step) for a parameter."""
        if len(node.args) != 2 or node.args[0].poly is None or node.args[1].poly is None:
            return None
        count = node.args[1].poly.const
        atoms = [m[0] for m in node.args[0].poly.terms if len(m) == 1]
        for atom in atoms:
            name = parameter_name(atom)
            step = count if node.attr.startswith("idiv") else 1 << (count & 31)
            if name is not None and rounded_up(node, step, name):
                wide = self.engine.values.sext(Poly(32, {(atom,): 1}), 32, 0)
                return wide, step
        return None

    def _by_loop(self, size: Poly, step: int) -> Poly | None:
        assert self.ended is not None
        cond, kappa = self.ended.summary.cond, self.ended.kappa
        if cond.op != "ge0" or cond.poly is None:
            return None
        c = cond.poly.add(Poly(0, {(kappa,): step})).sub(size)
        if not c.is_const or not isinstance(c.const, int) or (step - 1 - c.const) % step \
                or not self._holds(size.add(_exact(c.const + step))):
            return None
        return self.ended.last.add(_number((step - 1 - c.const) // step - 1))


# --- a loop -----------------------------------------------------------------------------------


class _Cases(Runner):
    """The proof for a loop that ends on a path for each remainder of its last iteration."""

    def __init__(self, engine: Engine, loop: Loop, state: State) -> None:
        super().__init__(engine, loop, state)
        self.proved: tuple[list[Iteration], int, int] = ([], 0, 1)
        self.told = False  # iterations are taken where the test let them run
        self.paths: list[tuple[int, State, Any, _Ended | None]] = []

    def _summarise(self, runs: list[Iteration], lead: int, period: int) -> Summary | None:
        self.proved, self.told = (runs, lead, period), False
        made = super()._summarise(runs, lead, period)
        if made is None and lead:  # the first iterations know of masks what the others are told
            self.told = True
            made = super()._summarise(runs, lead, period)
        return made

    def _template(self, it: Iteration, facts: list[Node], header: bool) -> Summary:
        """Return one iteration as it stands: the last ones are masked as they are written."""
        if self.told:
            return replace(super()._template(it, facts, header), exit_regs={})
        assert it.back is not None
        steps = {}
        for r in self.accumulators:
            v = it.back.regs[r]
            if v is None:
                raise GiveUp("loop", "a running value that is lost", self.engine.site)
            steps[r] = self.engine.values.node(v)
        return Summary(steps, it.cond, it.exits[0][0], {}, header)

    def _place_stores(self, runs: list[Iteration], lead: int, period: int, summary: Summary
                      ) -> None:
        raise GiveUp("loop", "stores inside a loop with a peeled end", self.engine.site)

    def _leave(self, summary: Summary, drained: bool) -> list[tuple[int, State]]:
        engine = self.engine
        runs, lead, period = self.proved
        name = f"end {self.depth}.{len(engine.forest.nodes)}"
        count = engine.forest.make("kappa", name, width=32, low=0, high=(1 << 31) - 2,
                                   fresh_bit=True)
        last = Poly(32, {(count,): 1})
        running = {r: engine.forest.make(
            "phi", f"{name}.{r}", width=p.width, low=p.low, high=p.high, fresh_bit=True,
            h=hash_ints(key(f"phi {name}.{r}"), self._label(r)))
            for r, p in self.phis.items()}
        put = _instance(engine, self.kappa, last, self.phis, running)
        ended = _Ended(summary, self.kappa, dict(self.phis),
                       {r: self._initial(r) for r in self.phis}, last, running, self)
        stepped = {r: put.node(s) for r, s in summary.steps.items()}
        for j, it in enumerate(runs, lead):
            if any(it.world[3].steps()) or engine.tiles.in_flight(it.world[4], it.cond):
                raise GiveUp("loop", "a loop that leaves copies under way", engine.site)
            assert it.back is not None
            target, state = it.exits[0]
            out = state.copy()
            out.path, out.private = self.path, dict(self.after.private)
            try:
                end = _End(engine, Divider(engine, self.kappa, period, j), put,
                           self._told(summary, period, j))
                out.regs = [stepped[r] if r in stepped and v is it.back.regs[r] else end.value(v)
                            for r, v in enumerate(state.regs)]
                self.paths.append((target, out, end.world(it.world), ended))
            except Uneven:
                raise GiveUp("loop", "a loop that ends with more than the number of its last "
                                     "iteration tells", engine.site) from None
        return []

    def _told(self, summary: Summary, period: int, number: int) -> list[Node]:
        """Return what holds in a general iteration, if that was made use of."""
        if not self.told:
            return []
        at = Poly(32, {(self.kappa,): period}).add(_number(number))
        return [self.path, *self._facts(summary.cond, summary.header_exit, at, number)]


class _End:
    """Tells what is said of the general iteration by the number of the last one."""

    def __init__(self, engine: Engine, divide: Divider, put: Replacer, known: list[Node]) -> None:
        self.divide, self.put = divide, put
        self.given = Given(engine, known)
        self.mask = put.mask | divide.mask

    def value(self, v: Value | None) -> Value | None:
        """Return a value at the end of the loop."""
        if v is None or (isinstance(v, Node) and not v.deps & self.mask):
            return v
        return self.node(v) if isinstance(v, Node) else self.put.poly(self.divide.poly(v))

    def node(self, n: Node) -> Node:
        """The same for nodes."""
        return self.put.node(self.divide.node(self.given.node(n)))

    def world(self, world: Any) -> Any:
        """Return the memory at the end of the loop."""
        shared = world[0].copy()
        for i in shared.held():
            cond = shared.conds[i]
            shared.entries[i] = self.value(shared.entries[i])
            shared.conds[i] = None if cond is None else self.node(cond)
        groups, opened = ([[(at, self.value(v), m, None if p is None else self.node(p))
                            for at, v, m, p in group] for group in copies]
                          for copies in (world[1], [world[2]]))
        commits = [(lanes, self.node(p)) for lanes, p in world[5]]
        return (shared, groups, opened[0], world[3], world[4].ended(shared, self.node), commits)


def _instance(engine: Engine, kappa: Node, at: Poly, phis: dict[int, Node],
              running: dict[int, Node]) -> Replacer:
    """Return what puts a number for the counter and values for the running values."""
    made = Replacer(engine, {kappa: at})
    for r, p in phis.items():
        made.mask |= p.deps & ~LOW_BITS
        made.memo[p] = running[r]
    return made


def _loop(engine: Engine, loop: Loop, state: State
          ) -> list[tuple[int, State, Any, _Ended | None]]:
    """Return the ends of a loop, each with the memory that it leaves."""
    _check_end(engine, loop)
    runner = _Cases(engine, loop, state)
    snapshot = runner._snapshot()
    if runner.schedule.literal is not False:
        exact = runner._run_exactly()
        if exact is not None:
            if len(exact) != 1:
                raise GiveUp("loop", "a loop with several ends", engine.site)
            return [(t, s, engine.memory.snapshot(), None) for t, s in exact]
        runner._restore(snapshot)
    for _ in range(32):
        runner.world = engine.memory.snapshot()
        runner.paths = []
        if runner._prove() is not None:
            return _first_ends(runner, snapshot) + runner.paths
        runner._restore(snapshot)  # more running values were found
    raise GiveUp("loop", "a loop whose state does not settle", engine.site)


def _first_ends(runner: _Cases, snapshot: Any) -> list[tuple[int, State, Any, _Ended | None]]:
    """Return where a loop ends before its state repeats: paths that know after how many steps."""
    engine, state = runner.engine, runner.entry
    out: list[tuple[int, State, Any, _Ended | None]] = []
    versions = engine.memory.versions
    engine.memory.restore(snapshot[0])
    for _ in range(runner.proved[1]):
        engine.case_path = state.path
        it = _Cases(engine, runner.loop, state)._iterate(state.copy(), keep=True)
        if it.back is None or it.stores:
            raise GiveUp("loop", "an iteration that cannot be taken out", engine.site)
        out += [(t, s, it.world, None) for t, s in it.exits]
        state = it.back
    engine.memory.versions = versions
    return out


def _check_end(engine: Engine, loop: Loop) -> None:
    """All of an iteration must be over where the loop is left."""
    blocks = engine.flow.blocks
    leaving = [b for b in loop.blocks if any(s not in loop.blocks for s in blocks[b].succs)]
    if len(leaving) != 1 or loop.header not in blocks[leaving[0]].succs or any(
            op.name == "exit" for b in loop.blocks
            for op in engine.program.ops[blocks[b].start:blocks[b].end]):
        raise GiveUp("loop", "a loop that is left before the end of an iteration", engine.site)


# --- all paths as one -------------------------------------------------------------------------


def _joined(engine: Engine, paths: list[_Path]) -> list[StoreEvent]:
    """Return the stores of all paths as one, which must be the same everywhere."""
    mains = [p for p in paths if p.ended is not None]
    if not mains or len({_places(p) for p in paths}) != 1:
        raise GiveUp("loop", "paths that store different elements")
    alike = {(p.path, id(p.ended), *(e.value for e in p.stores)): p for p in reversed(mains)}
    first, *others = (_Whole(engine, p) for p in reversed(alike.values()))
    values = first.values()
    for other in others:
        if any(a is not b for a, b in zip(values, other.values(), strict=True)):
            raise GiveUp("loop", "paths that end a loop differently")
    for p in paths:
        if p.ended is None:
            given = Given(engine, [p.path])
            if any(given.node(e.value) is not given.node(v)
                   for e, v in zip(p.stores, first.unrolled(p.path), strict=True)):
                raise GiveUp("loop", "a path that is not its loop unrolled")
    out = []
    for i, (event, value) in enumerate(zip(mains[0].stores, values, strict=True)):
        assert event.own is not None
        out.append(replace(event, value=value, guard=event.own, order=i))
    return out


def _places(path: _Path) -> tuple[Any, ...]:
    return tuple((e.kind, e.attr, e.site, e.width, e.first, e.base, e.address.key(), e.own)
                 for e in path.stores)


class _Whole:
    """The loop of a path with the steps before and after it."""

    def __init__(self, engine: Engine, path: _Path) -> None:
        assert path.ended is not None
        self.engine, self.path, self.ended = engine, path, path.ended
        self.order = sorted(self.ended.phis)
        self.mask = 0
        symbols = [*self.ended.running.values(), *(a for m in self.ended.last.terms for a in m)]
        for p in symbols:
            self.mask |= p.deps & ~LOW_BITS
        for e in path.stores:
            if any(n.deps & self.mask for n in (
                    e.guard, *(a for m in e.address.terms for a in m))):
                raise GiveUp("loop", "what a loop ends with decides where is stored", e.site)
        self.after, self.final = self._after()
        self.before, self.inits = self._before()

    def _step(self, at: Poly, running: dict[int, Node]) -> dict[int, Node]:
        """Return the running values after one more step, at a value of the counter."""
        end = self.ended
        put = _instance(self.engine, end.kappa, at, end.phis, running)
        return {r: put.node(s) for r, s in end.summary.steps.items()}

    def _after(self) -> tuple[int, dict[int, Node]]:
        """Return how many steps the path takes from the last iteration on, and their results."""
        reached = _below([e.value for e in self.path.stores], self.mask)
        made, best = dict(self.ended.running), (0, dict(self.ended.running))
        for n in range(1, MAX_STAGES + 1):
            made = self._step(self.ended.last.add(_number(n - 1)), made)
            if all(v not in reached for v in made.values()):
                break  # a further step would stand on this one
            best = n, dict(made)
        return best

    def _before(self) -> tuple[int, dict[int, Node]]:
        """Return how many steps the path takes before the loop, and where they start."""
        inits, count = dict(self.ended.inits), 0
        while count < MAX_STAGES:
            found = {r: _start(s, self.ended.phis[r], inits[r])
                     for r, s in self.ended.summary.steps.items()}
            earlier = {r: v for r, v in found.items() if v is not None}
            if len(earlier) < len(found) or any(
                    v is not inits[r]
                    for r, v in self._step(_number(-1 - count), earlier).items()):
                break
            inits, count = earlier, count + 1
        return count, inits

    def _condition(self) -> Node:
        """Return what allows step k of the whole, counted from its first one."""
        shift = Poly(32, {(self.ended.kappa,): 1}).add(_number(-self.before - self.after))
        return Replacer(self.engine, {self.ended.kappa: shift}).node(self.ended.summary.cond)

    def _at(self, node: Node, k: int) -> Node:
        return Replacer(self.engine, {self.ended.kappa: _number(k)}).node(node)

    def values(self) -> list[Node]:
        """Return the stored values with the whole loop in them."""
        engine, end = self.engine, self.ended
        cond = self._condition()
        known = conjuncts(self.path.path)
        if cond.op != "ge0" or cond.deps & self._running() or not all(
                engine.logic.implies(known, self._at(cond, k))
                for k in range(self.before + self.after)):
            raise GiveUp("loop", "steps around a loop that its test does not allow")
        shift = Poly(32, {(end.kappa,): 1}).add(_number(-self.before))
        steps = self._step(shift, end.phis)
        given = Given(engine, [cond])
        phis = [end.phis[r] for r in self.order]
        inits = [self.inits[r] for r in self.order]
        bodies = [given.node(steps[r]) for r in self.order]
        summary = replace(end.summary, cond=cond, steps=dict(zip(self.order, bodies, strict=True)))
        end.runner._check_lanes(summary)
        start = self._at(cond, 0)
        made = make_folds(engine.forest, engine.plain, [
            fold_of("while", end.kappa, phis, inits, bodies, cond, end.phis[r], start)
            for r in self.order])
        return self._put(dict(zip(self.order, made, strict=True)))

    def unrolled(self, path: Node) -> list[Node]:
        """Return the stored values on a path that knows when the loop ends."""
        cond, known = self._condition(), conjuncts(path)
        logic, made = self.engine.logic, dict(self.inits)
        for k in range(MAX_STEPS):
            test = self._at(cond, k)
            if logic.implies(known, logic.negate(test)):
                return self._put(made)
            if not logic.implies(known, test):
                break
            made = self._step(_number(k - self.before), made)
        raise GiveUp("loop", "a path that does not know when its loop ends")

    def _put(self, running: dict[int, Node]) -> list[Node]:
        """Return the stored values with other values for what the loop and its end give."""
        put = Replacer(self.engine, {})
        put.mask = self.mask
        for r, v in self.final.items():
            put.memo[v] = running[r]
        out = [put.node(e.value) for e in self.path.stores]
        if any(v.deps & self.mask for v in out):
            raise GiveUp("loop", "what follows a loop is no further iteration of it")
        return out

    def _running(self) -> int:
        mask = 0
        for p in self.ended.phis.values():
            mask |= p.deps & ~LOW_BITS
        return mask


def _number(k: int) -> Poly:
    return Poly(32, {(): k} if k else {})


def _exact(k: int) -> Poly:
    return Poly(0, {(): k} if k else {})


def _start(step: Node, phi: Node, made: Node) -> Node | None:
    """Return x where made = step(x), as far as chains of one running operand each tell."""
    bits = phi.deps & ~LOW_BITS
    while step is not phi:
        inner = [i for i, a in enumerate(step.args) if a.deps & bits]
        if len(inner) != 1 or (made.op, len(made.args)) != (step.op, len(step.args)):
            return None
        i = inner[0]
        others = [a for a in step.args if a is not step.args[i] and a in made.args]
        if step.op in ("fmul", "fadd") and len(others) == 1:  # in either order
            i = 1 - made.args.index(others[0])
        step, made = step.args[inner[0]], made.args[i]
    return made


def _below(roots: list[Node], mask: int) -> set[Node]:
    """Return everything under some nodes that depends on given symbols."""
    seen: set[Node] = set()
    work = [n for n in roots if n.deps & mask]
    while work:
        node = work.pop()
        if node not in seen:
            seen.add(node)
            work += [k for k in node.kids if k.deps & mask]
    return seen
