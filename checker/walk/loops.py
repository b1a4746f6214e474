"""Loops: proved by induction on the abstract state, never sampled.

In: the engine at a loop header. Out: the states on the loop's exits. Accumulators become symbols;
iterations run on the abstract state; state q and state q + P are generalised over a counter, and P
iterations from the general state must give the general state again. Each iteration's step must be
one template of the iteration number. Anything else makes the loop's results unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arrays import greatest
from checker.tree.folds import Fold, fold_of, make_folds
from checker.tree.hashing import hash_ints, key, kinds
from checker.tree.logic import conjuncts
from checker.tree.nodes import LOW_BITS, Node
from checker.tree.poly import Poly, TooLarge
from checker.tree.rewrite import Pivot, Rewriter
from checker.tree.values import Value
from checker.walk.below import all_below
from checker.walk.carried import body, carried, cyclic, idle, summed, unasked
from checker.walk.counting import ordered
from checker.walk.flight import Flight
from checker.walk.flow import Loop
from checker.walk.general import (
    Divider,
    Generaliser,
    Given,
    Refiner,
    Replacer,
    Uneven,
    dependent,
)
from checker.walk.period import schedule
from checker.walk.private import kept
from checker.walk.state import GiveUp, State, StoreEvent
from checker.walk.strides import one_tile_each
from checker.walk.tiles import TileState, only_waits, wait

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["Iteration", "Runner", "Summary", "run_loop"]

TOLD = 2  # first iterations from which a template of the iteration number is read
MAX_REFINED = 4  # runs of a general state that hold more than its first states show
#: operations that lanes do together
_TOGETHER = frozenset({"members", "gather", "ballot", "redux", "match_any", "match_all", "elect",
                       "activemask", "barrier", "mma", "ldmatrix", "stmatrix", "movmatrix"})
_DIVIDES = frozenset({"shr_s", "shr_u", "idiv_s", "idiv_u", "irem_s", "irem_u"})


@dataclass(slots=True)
class Iteration:
    """One iteration: the state it starts from, the one on its back edge, its exits, its effects."""

    start: State
    back: State | None
    cond: Node
    exits: list[tuple[int, State]]
    world: Any  # the memory after it
    stores: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Summary:
    """What holds in iteration k: values on the exit edge, accumulator steps, the condition."""

    steps: dict[int, Node]
    cond: Node
    exit_target: int
    exit_regs: dict[int, Value | None]
    header_exit: bool


def run_loop(engine: Engine, loop: Loop, state: State) -> list[tuple[int, State]]:
    """Return the states on the loop's exit edges."""
    if only_waits(engine, loop):
        return wait(engine, loop, state)
    return Runner(engine, loop, state).run()


class Runner:
    """The proof for one loop."""

    def __init__(self, engine: Engine, loop: Loop, state: State) -> None:
        self.engine = engine
        self.loop = loop
        self.entry = state
        self.path = state.path
        self.depth = len(engine.loop_stack)
        forest = engine.forest
        self.kappa = forest.make("kappa", str(self.depth), width=32, low=0, high=(1 << 31) - 2,
                                 fresh_bit=True)
        self.carried = carried(engine, loop)
        self.written = {d for op in body(engine, loop) for d in op.dst}
        running = cyclic(engine, loop)
        self.lost = idle(engine, loop, self.carried)  # what only lanes that are off keep: unknown
        self.accumulators = [r for r in self.carried if r in running and r not in self.lost]
        self.summed = summed(engine, loop)
        self.schedule = schedule(engine, loop, state, [r for r in self.carried
                                                       if r not in self.accumulators])
        self.divides = any(op.name in _DIVIDES for op in body(engine, loop))
        self.phis: dict[int, Node] = {}
        self.labels: dict[int, Any] = {}
        self.iterations: list[Iteration] = []
        self.whole = 0  # how many of them were run as a whole
        self.world: Any = None
        self.start: Node | None = None
        self.after = state  # what is not in registers, after the loop
        self.unlike: set[int] = set()  # i where no template gives iterations i and i + 1
        self.unfit: dict[int, int] = {}  # i -> a first iteration that such a template does not give
        self.ends: list[TileState] = []  # tiles and mbarriers after each iteration of a period
        self.flights: list[tuple[Flight, TileState]] = []  # matrix steps, after each iteration

    # -- running
    def run(self) -> list[tuple[int, State]]:
        engine = self.engine
        snapshot = self._snapshot()
        self.world = snapshot[0]
        if self.schedule.literal is not False:
            exact = self._run_exactly()
            if exact is not None:
                return exact
            self._restore(snapshot)
        for _ in range(24):
            again = self._prove()
            if again is not None:
                return again
            self._restore(snapshot)  # more accumulators were found
        raise GiveUp("loop", "a loop whose state does not settle", engine.site)

    def _run_exactly(self) -> list[tuple[int, State]] | None:
        """Unroll a loop whose trip count is a small literal (no symbol decides)."""
        engine = self.engine
        first = self._iterate(self.entry.copy(), keep=True)
        if first.cond not in (engine.forest.true, engine.forest.false):
            return None
        edges = list(first.exits)
        current, count = first, 1
        budget = 64
        while current.cond is engine.forest.true and current.back is not None:
            if count >= budget or len(engine.forest.nodes) > engine.forest.max_nodes // 2:
                return None
            current = self._iterate(current.back.copy(), keep=True)
            if current.cond not in (engine.forest.true, engine.forest.false):
                return None
            edges += current.exits
            count += 1
        return edges

    def _iterate(self, start: State, keep: bool = False,
                 unasked: frozenset[int] = frozenset()) -> Iteration:
        """Run the body once; the path inside is relative to the loop's entry.

        unasked: operations that are not asked what they give.
        """
        engine = self.engine
        begin = len(engine.found.stores)
        kept = start.copy()
        start.path = self.path
        known = conjuncts(self.path)
        engine.loop_stack.append(self.kappa)
        around, engine.loop_path = engine.loop_path, self.path
        engine.unasked = unasked
        try:
            leaving = engine.region(self.loop.blocks, self.loop, self.loop.header, start)
        finally:
            engine.unasked = frozenset()
            engine.loop_stack.pop()
            engine.loop_path = around
        backs = leaving.pop(self.loop.header, [])
        back = engine.merge(backs, engine.flow.blocks[self.loop.header].live_in) if backs else None
        cond = engine.logic.given(back.path, known) if back is not None else engine.forest.false
        exits = [(t, s) for t, states in leaving.items() for s in states]
        if engine.memory.hangs_on(self._phi_mask() & ~LOW_BITS):
            raise GiveUp("loop", "what a loop leaves under way hangs on a running value",
                         engine.site)
        stores = engine.found.stores[begin:]
        if not keep:
            del engine.found.stores[begin:]
        return Iteration(kept, back, cond, exits, engine.memory.snapshot(), stores)

    def _snapshot(self) -> Any:
        found = self.engine.found
        return (self.engine.memory.snapshot(), len(found.stores), list(found.findings),
                dict(self.engine.memory.versions), list(found.unmodelled))

    def _restore(self, snapshot: Any) -> None:
        world, stores, findings, versions, unmodelled = snapshot
        self.engine.memory.restore(world)
        del self.engine.found.stores[stores:]
        self.engine.found.findings = list(findings)
        self.engine.found.unmodelled = list(unmodelled)
        self.engine.memory.versions = dict(versions)

    def _phi(self, r: int) -> Node:
        node = self.phis.get(r)
        if node is None:
            width = self.engine.program.reg_widths[r]
            # lanes of one label start alike and, as the proof checks, stay alike
            own = hash_ints(key(f"phi {self.depth}.{r}"), self._label(r))
            node = self.phis[r] = self.engine.forest.make(
                "phi", f"{self.depth}.{r}", width=width, low=0 if width > 1 else None,
                high=(1 << width) - 1 if width > 1 else None, fresh_bit=True, h=own)
        return node

    def _label(self, r: int) -> Any:
        if r not in self.labels:
            every = np.arange(self.engine.lanes)
            self.labels[r] = every if r in self.summed else _classes(
                self._initial(r).h, self.engine.lanes)
        return self.labels[r]

    def _split_labels(self, it: Iteration) -> bool:
        """Lanes of one label whose step differs get labels of their own; true: start again."""
        assert it.back is not None
        split = False
        for r in self.accumulators:
            v = it.back.regs[r]
            if v is None:
                continue
            label = self._label(r)
            if greatest(label) + 1 == self.engine.lanes:
                continue  # all lanes have labels of their own
            step = _classes(self.engine.values.node(v).h, self.engine.lanes)
            both = label * self.engine.lanes + step
            if len(np.unique(both)) > len(np.unique(label)):
                self.labels[r] = np.unique(both, return_inverse=True)[1].astype(np.int64)
                split = True
        if split:
            self.phis = {}
        return split

    def _with_phis(self, state: State) -> State:
        out = state.copy()
        for r in self.accumulators:
            out.regs[r] = self._phi(r)
        for r in self.lost:
            out.regs[r] = None
        return out

    # -- the proof
    def _prove(self) -> list[tuple[int, State]] | None:
        engine = self.engine
        if any(op.name == "exit" for op in body(engine, self.loop)):
            raise GiveUp("loop", "threads that end inside of a loop", engine.site)
        self.iterations, self.whole = [], 0
        self.unlike, self.unfit = set(), {}
        state = self._with_phis(self.entry)
        worlds = [engine.memory.snapshot()]
        starts = [state]
        unasked = self._unasked()
        for attempt, (lead, period) in enumerate(self.schedule.tries(engine.tiles.stages())):
            engine.memory.restore(worlds[-1])
            while len(starts) <= lead + period:
                first = not unasked or len(starts) <= TOLD
                it = self._iterate(starts[-1].copy(), unasked=frozenset() if first else unasked)
                self.iterations.append(it)
                self.whole += first
                if it.back is None:
                    raise GiveUp("loop", "a loop without a way back", engine.site)
                if self._grow_accumulators(it) or self._split_labels(it):
                    return None
                starts.append(self._with_phis(it.back))
                worlds.append(it.world)
            lost = len(self.lost)
            proved = self._induction(starts, worlds, lead, period)
            if proved is not None or len(self.lost) > lost:
                return proved
            if attempt or self.whole == len(self.iterations):
                self._compare_first(starts, worlds)
            # the first iterations are the same whatever the lead
            if self.unlike >= {0, 1} and not self.divides:
                break
        raise GiveUp("loop", "no period of the loop's state was found", engine.site)

    def _unasked(self) -> frozenset[int]:
        """Return the operations that need not be asked what they give (`unasked`)."""
        inner = [x for x in self.engine.flow.loops.values() if x.blocks < self.loop.blocks]
        if any(not only_waits(self.engine, x) for x in inner):
            return frozenset()
        return unasked(self.engine, self.loop, [
            r for r in self.carried if r not in self.accumulators and r not in self.lost])

    def _make_whole(self, starts: list[State], worlds: list[Any], count: int) -> None:
        """Run the first iterations again of which not everything was asked.

        They start as they did: what was not asked does not decide how an iteration leaves things.
        """
        findings, kept = list(self.engine.found.findings), self.engine.memory.snapshot()
        for i in range(self.whole, min(count, len(self.iterations))):
            self.engine.memory.restore(worlds[i])
            self.iterations[i] = self._iterate(starts[i].copy())
            self.whole = i + 1
        self.engine.memory.restore(kept)
        self.engine.found.findings = findings

    def _grow_accumulators(self, it: Iteration) -> bool:
        """A carried value that depends on an accumulator is one itself."""
        mask = 0
        for p in self.phis.values():
            mask |= p.deps
        assert it.back is not None
        more = [r for r in self.carried if r not in self.accumulators and r not in self.lost
                and it.back.regs[r] is not None and dependent(it.back.regs[r], mask)]
        self.accumulators += more
        return bool(more)

    def _induction(self, starts: list[State], worlds: list[Any], lead: int, period: int
                   ) -> list[tuple[int, State]] | None:
        """Generalise start[lead] and start[lead + period], run `period` iterations, compare."""
        engine = self.engine
        g = Generaliser(engine, self.kappa)
        general = starts[lead].copy()
        for r in self.carried:
            if r in self.accumulators or r in self.lost:
                continue
            made = g.value(starts[lead].regs[r], starts[lead + period].regs[r])
            if made is None:
                if not engine.flow.blocks[self.loop.header].read_in >> r & 1:
                    self.lost.add(r)
                return None
            general.regs[r] = made
        private = g.private(starts[lead].private, starts[lead + period].private)
        if private is None:
            return None
        general.private = private
        findings = list(engine.found.findings)
        world = engine.memory.generalise(worlds[lead], worlds[lead + period], g)
        if world is None:
            return None
        if self._refuted(lead + period) and not self.divides:
            return None
        for _ in range(MAX_REFINED if self.divides else 1):
            found = self._run_general(general, world, period, g)
            if found is None:
                return None
            runs, state, after = found
            if state is None:
                break
            if engine.memory.hangs_on(self.kappa.deps & ~LOW_BITS):
                return None  # under way on a path that the counter decides
            refine = Refiner(engine, self.kappa)
            general = general.copy()
            for r in self.carried:
                if r not in self.accumulators and r not in self.lost:
                    general.regs[r] = refine.value(general.regs[r], state.regs[r])
            world = engine.memory.generalise(world, after, refine)
            if world is None:
                return None
        else:
            return None
        # A general state is the first one at counter 0, but for the paths of copies under way:
        # what its iterations give at counter 0 is what the first ones give.
        alike = engine.memory.alike_paths(worlds[lead], world)
        self._make_whole(starts, worlds, lead if alike else lead + period)
        summary = self._summarise(runs, lead, period)
        if summary is None and self.whole < lead + period:  # more of the first may tell one
            self._make_whole(starts, worlds, lead + period)
            self.unlike, self.unfit = set(), {}
            summary = self._summarise(runs, lead, period)
        if summary is None:
            self._drop(runs)
            engine.found.findings = findings
            return None
        if any(it.stores for it in runs):
            self._place_stores(runs, lead, period, summary)
        self.after = self._other_state(runs)
        self.ends = [it.world[4] for it in runs]
        self.flights = [it.world[3:5] for it in (*self.iterations[:lead], *runs)]
        drained = all(not engine.tiles.in_flight(it.world[4], it.cond) for it in runs)
        return self._leave(summary, drained)

    def _run_general(self, general: State, world: Any, period: int, g: Generaliser
                     ) -> tuple[list[Iteration], State | None, Any] | None:
        """Run `period` iterations from a general state; None where that does not go through.

        Returns them and None where they give the general state at counter + 1, else what they give.
        """
        engine = self.engine
        engine.memory.restore(world)
        findings = list(engine.found.findings)
        state = general
        runs: list[Iteration] = []
        try:
            for _ in range(period):
                it = self._iterate(state.copy(), keep=True)
                if it.back is None:
                    raise GiveUp("loop", "no way back", engine.site)
                runs.append(it)
                state = self._with_phis(it.back)
        except GiveUp:  # a ring that was taken for a line: not this lead and period
            self._drop(runs)
            engine.found.findings = findings
            return None
        after = engine.memory.snapshot()
        if self._again(general, world, state, after, g):
            return runs, None, after
        self._drop(runs)
        engine.found.findings = findings
        return runs, state, after

    def _compare_first(self, starts: list[State], worlds: list[Any]) -> None:
        """Look, once there are three, whether one template gives the first iterations.

        It is what takes least to show that no lead and no period will do (`_refuted`). In a ring
        of tiles what needs no template may be tried last.
        """
        if len(self.iterations) < 3 or self.unlike or self.unfit or self.engine.tiles.stages() \
                or any(len(it.exits) != 1 for it in self.iterations):
            return
        self._make_whole(starts, worlds, 3)
        first = self.iterations[:self.whole]
        try:
            made = self._first_templates(first, self._header_exit(first[0]))
            if made is not None:
                self._fitting(made[1])
        except (GiveUp, TooLarge):  # nothing is shown
            self.unlike, self.unfit = set(), {}

    def _refuted(self, count: int) -> bool:
        """Tell whether no template gives the first iterations, as an earlier attempt found."""
        return all(i in self.unlike or self.unfit.get(i, count) < count for i in (0, 1))

    def _drop(self, runs: list[Iteration]) -> None:
        for it in runs:
            for event in it.stores:
                if event in self.engine.found.stores:
                    self.engine.found.stores.remove(event)

    def _again(self, general: State, world: Any, state: State, after: Any, g: Generaliser) -> bool:
        """Tell whether the state after is the general state at counter + 1."""
        other = self.engine.forest.make("kappa", "next", low=0, high=(1 << 31) - 2)
        shift = Rewriter(self.engine.logic, [Pivot(self.kappa, other, 1, -1)])
        stay = Rewriter(self.engine.logic, [Pivot(self.kappa, other, 1, 0)])
        nodewise = Replacer(self.engine, {self.kappa: Poly(32, {(self.kappa,): 1, (): 1})})
        same = g.comparer(shift, stay, nodewise)
        for r in self.carried:
            if r in self.accumulators or r in self.lost:
                continue
            if not same(general.regs[r], state.regs[r]):
                return False
        for k, v in general.private.items():
            w = state.private.get(k)
            if v is not None and (w is None or v[1] != w[1] or not same(v[0], w[0])):
                return False
        return bool(self.engine.memory.matches(world, after, same))

    # -- templates of the iteration number
    def _summarise(self, runs: list[Iteration], lead: int, period: int) -> Summary | None:
        """Return one template of k that gives iteration k for all k."""
        everything = [*self.iterations[:lead], *runs]
        for it in everything:
            if len(it.exits) != 1:
                raise GiveUp("loop", "a loop with several exits", self.engine.site)
        if period == 1 and not lead:
            header = self._header_exit(runs[0])
            cond = self._ordered(runs[0].cond)
            made: Summary | None = self._template(runs[0], self._executed(cond, header), header)
        else:
            made = self._common(runs, lead, period)
        if made is not None:
            made.cond = self._ordered(made.cond)
        return made

    def _ordered(self, cond: Node) -> Node:
        """Return a test that a counter has not come to its end as one that it is below it."""
        return ordered(self.engine, self.kappa, self._phi_mask(), self.path, cond)

    def _executed(self, cond: Node, header: bool) -> list[Node]:
        """Return what holds in every iteration that runs: the test that let it run."""
        if header:
            return [cond] if not cond.deps & self._phi_mask() else []
        before = self._at(cond, Poly(32, {(self.kappa,): 1, (): -1}))
        start = self._at(before, Poly(32, {}))
        if self._closed(start) and self.engine.logic.implies(conjuncts(self.path), start) \
                and not before.deps & self._phi_mask():
            return [before]
        return []

    def _facts(self, test: Node, header: bool, at: Poly, first: int) -> list[Node]:
        """Return what holds in iteration `at`, which is no earlier than the first of its kind."""
        facts = [self._at(f, at) for f in self._executed(test, header)]
        if not facts and not header and first:
            facts = [f for f in (self._at(test, at.sub(Poly(32, {(): 1}))),)
                     if not f.deps & self._phi_mask()]
        return facts

    def _at(self, node: Node, counter: Poly) -> Node:
        """Return a node at another value of the counter."""
        return Replacer(self.engine, {self.kappa: counter}).node(node)

    def _header_exit(self, it: Iteration) -> bool:
        """Tell whether a loop tests before it steps: running values leave as they came."""
        target, out = it.exits[0]
        live = self.engine.flow.blocks[target].live_in
        seen = [out.regs[r] is self.phis[r] for r in self.accumulators if live >> r & 1]
        return all(seen) and bool(self._leaving(it))

    def _leaving(self, it: Iteration) -> dict[int, Value | None]:
        target, out = it.exits[0]
        live = self.engine.flow.blocks[target].live_in
        return {r: out.regs[r] for r in sorted(self.written) if live >> r & 1}

    def _template(self, it: Iteration, facts: list[Node], header: bool) -> Summary:
        """Return one iteration as it is where `facts` hold."""
        values = self.engine.values
        assert it.back is not None
        given = Given(self.engine, [self.path, *facts])
        steps: dict[int, Node] = {}
        for r in self.accumulators:
            v = it.back.regs[r]
            steps[r] = values.undefined(self.engine.program.reg_widths[r]) if v is None \
                else given.node(v if isinstance(v, Node) else values.node(v))
        regs = self._leaving(it)
        if not header:
            regs = {r: given.value(v) for r, v in regs.items()}
        return Summary(steps, it.cond, it.exits[0][0], regs, header)

    def _common(self, runs: list[Iteration], lead: int, period: int) -> Summary | None:
        """Unify the iterations into one template; check it against every one of them."""
        k = Poly(32, {(self.kappa,): 1})
        header = self._header_exit(runs[0])
        made = self._first_templates(self.iterations[:min(self.whole, lead + period)], header)
        if made is None:
            return None
        test, wanted = made
        for i, it in enumerate(runs):
            at = k.scale(period).add(Poly(32, {(): lead + i} if lead + i else {}))
            wanted.append((at, self._template(it, self._facts(test, header, at, lead + i), header)))
        return self._fitting(wanted) or (
            self._finer(wanted, lead, period) if self.divides else None)

    def _finer(self, wanted: list[tuple[Poly, Summary]], lead: int, period: int
               ) -> Summary | None:
        """Return the first general iteration, told of the iteration number, if all are like it.

        The first iterations do not show what a counter that is divided becomes.
        """
        first = next(t for at, t in wanted if not at.is_const)
        made = Divider(self.engine, self.kappa, period, lead)
        try:
            finer = Summary(
                {r: made.node(s) for r, s in first.steps.items()}, made.node(first.cond),
                first.exit_target,
                {r: made.node(v) if isinstance(v, Node) else None if v is None else made.poly(v)
                 for r, v in first.exit_regs.items()}, first.header_exit)
        except Uneven:
            return None
        return finer if all(self._instance(finer, at, t) for at, t in wanted) else None

    def _first_templates(self, first: list[Iteration], header: bool
                         ) -> tuple[Node, list[tuple[Poly, Summary]]] | None:
        """Return the test as a template, and the first iterations, each as it is where it runs."""
        cond = Generaliser(self.engine, self.kappa).node(first[0].cond, first[1].cond)
        if cond is None:
            self.unlike = {0, 1}
            return None
        test = self._ordered(cond)
        wanted: list[tuple[Poly, Summary]] = []
        for i, it in enumerate(first):  # the tests before an iteration let it run
            facts = [x.cond for x in first[:i + header] if not x.cond.deps & self._phi_mask()]
            if test is not cond:
                facts = [self._at(test, Poly(32, {(): j} if j else {}))
                         for j in range(i + header)]
            wanted.append((Poly(32, {(): i} if i else {}), self._template(it, facts, header)))
        return test, wanted

    def _fitting(self, wanted: list[tuple[Poly, Summary]]) -> Summary | None:
        """Return one template that gives all iterations."""
        for start in (0, 1):  # what iteration 0 has is at times not told from a literal 0
            unified = self._fitted(wanted, start)
            if unified is not None:
                return unified
        return None

    def _fitted(self, wanted: list[tuple[Poly, Summary]], start: int) -> Summary | None:
        """Return the template of which iterations start and start + 1 are instances, if all are."""
        if any(not at.is_const for at, _t in wanted[start:start + 2]):
            return None
        g = Generaliser(self.engine, self.kappa)
        unified = self._unify(g, wanted[start][1], wanted[start + 1][1])
        if unified is None:
            self.unlike.add(start)
            return None
        if start:
            back = Replacer(self.engine, {self.kappa: Poly(32, {(self.kappa,): 1, (): -start})})
            unified = Summary(
                {r: back.node(s) for r, s in unified.steps.items()}, back.node(unified.cond),
                unified.exit_target,
                {r: back.node(v) if isinstance(v, Node) else None if v is None else back.poly(v)
                 for r, v in unified.exit_regs.items()}, unified.header_exit)
        for i, (at, t) in enumerate(wanted):
            if not self._instance(unified, at, t):
                if at.is_const:
                    self.unfit[start] = i
                return None
        return unified

    def _unify(self, g: Generaliser, a: Summary, b: Summary) -> Summary | None:
        steps: dict[int, Node] = {}
        for r, s in a.steps.items():
            made = g.value(s, b.steps[r])
            if not isinstance(made, Node):
                return None
            steps[r] = made
        cond = g.value(a.cond, b.cond)
        if not isinstance(cond, Node):
            return None
        regs: dict[int, Value | None] = {}
        for r, v in a.exit_regs.items():
            regs[r] = g.value(v, b.exit_regs.get(r))  # None: unknown afterwards
        return Summary(steps, cond, a.exit_target, regs, a.header_exit)

    def _instance(self, general: Summary, at: Poly, t: Summary) -> bool:
        """Tell whether a template at counter value `at` is the given one.

        In iteration 0 the running values are those before the loop: a first matrix step that takes
        zeros for its sum is one onto that sum where it is zero.
        """
        replace = Replacer(self.engine, {self.kappa: at})
        first = cache(partial(self._with_initial, replace))

        def equal(x: Value | None, y: Value | None) -> bool:
            if x is None or y is None:
                return x is None
            return replace.equal(x, y) or (
                not at.terms and first().equal(x, first().node(self.engine.values.node(y))))

        if not all(equal(s, t.steps[r]) for r, s in general.steps.items()):
            return False
        if not equal(general.cond, t.cond):
            return False
        for r, v in list(general.exit_regs.items()):
            if v is not None and not equal(v, t.exit_regs.get(r)):
                general.exit_regs[r] = None
        return True

    def _with_initial(self, replace: Replacer) -> Replacer:
        """Return a replacer that puts for the running values, too, what they are at first."""
        values = self.engine.values
        phis = {p: self._initial(r) for r, p in self.phis.items()}
        made = Replacer(self.engine, {**replace.table, **{
            p: values.poly(v, p.width) for p, v in phis.items()}})
        made.memo.update(phis)
        return made

    # -- afterwards
    def _leave(self, summary: Summary, drained: bool) -> list[tuple[int, State]]:
        engine = self.engine
        forest = engine.forest
        replace = Replacer(engine, {self.kappa: Poly(32, {(self.kappa,): 1, (): -1})})
        before = replace.node(summary.cond)  # the condition at counter - 1
        start = Replacer(engine, {self.kappa: Poly(32, {})}).node(before)
        known = conjuncts(self.path)
        form, cond = ("while", summary.cond) if summary.header_exit else ("do", summary.cond)
        if form == "do" and self._closed(start) and engine.logic.implies(known, start):
            form, cond = "while", before
        self.start = None
        if form == "while":
            self.start = Replacer(engine, {self.kappa: Poly(32, {})}).node(cond)
            engine.skips.setdefault(self.start, {})
        self._check_lanes(summary)
        order = list(summary.steps)
        phis = [self.phis[r] for r in order]
        inits = [self._initial(r) for r in order]
        steps = [summary.steps[r] for r in order]
        out = self.after.copy()
        folds: dict[int, Fold] = {}
        levels: dict[Node, int] = {}
        for r, v in summary.exit_regs.items():
            made = self._after(v, r, form, cond, phis, inits, steps, summary, levels)
            if isinstance(made, Fold):
                folds[r] = made
            else:
                out.regs[r] = made
        for r, node in zip(folds, make_folds(forest, engine.plain, list(folds.values())),
                           strict=True):
            out.regs[r] = node
        engine.matrix.flights.after_loop(self.flights, self._phi_mask() | self.kappa.deps)
        engine.memory.after_loop(self.world, drained)
        engine.tiles.leave(self.ends, self.path)
        return [(summary.exit_target, out)]

    def _other_state(self, runs: list[Iteration]) -> State:
        """Return the state before the loop, but for the private bytes and columns it writes."""
        states = [s for it in runs for s in (it.back, *(e for _, e in it.exits)) if s is not None]
        return State(list(self.entry.regs), self.path, kept(self.entry, states),
                     max(s.tensor for s in states))

    def _closed(self, p: Node) -> bool:
        mask = self.kappa.deps
        for phi in self.phis.values():
            mask |= phi.deps
        return not p.deps & mask

    def _initial(self, r: int) -> Node:
        v = self.entry.regs[r]
        if v is None:
            return self.engine.values.undefined(self.engine.program.reg_widths[r])
        return self.engine.values.node(v)

    def _after(self, v: Value | None, r: int, form: str, cond: Node, phis: list[Node],
               inits: list[Node], steps: list[Node], summary: Summary,
               levels: dict[Node, int]) -> Value | Fold:
        engine = self.engine
        width = engine.program.reg_widths[r]
        if v is None:
            engine.found.opaque.setdefault(engine.site, "what a loop leaves in a register")
            return engine.forest.make("opaque", f"after a loop|{r}", width=width)
        node = v if isinstance(v, Node) else engine.values.node(v)
        if self._closed(node):
            return v
        if form == "while" and not summary.header_exit:
            # the value on the exit edge follows the last step: read it from the phis after it
            back = dict(zip(steps, phis, strict=True))
            if node in back:
                node = back[node]
            else:
                form, cond = "do", summary.cond
        return fold_of(form, self.kappa, phis, inits, steps, cond, node,
                       self.start if form == "while" else None, levels)

    def _check_lanes(self, summary: Summary) -> None:
        """Lanes that leave a loop at different times must not look at each other."""
        mask = 0
        for p in self.phis.values():
            mask |= p.deps
        uniform = summary.cond.uniform
        if not uniform and any(op.name in _TOGETHER for op in body(self.engine, self.loop)):
            raise GiveUp("loop", "lanes that leave a loop at different times meet in it",
                         self.engine.site)
        for node in all_below([*summary.steps.values(), summary.cond, *(
                v for v in summary.exit_regs.values() if isinstance(v, Node))]):
            if node.op == "gather" and not uniform and node.deps & (mask | self.kappa.deps):
                raise GiveUp("loop", "lanes that leave a loop at different times exchange values",
                             self.engine.site)

    def _place_stores(self, runs: list[Iteration], lead: int, period: int, summary: Summary
                      ) -> None:
        """Stores inside a loop are elements of every iteration, under its condition."""
        if lead or period > 1:
            raise GiveUp("loop", "stores inside a pipelined loop", self.engine.site)
        if summary.cond.deps & ~self.kappa.deps & self._phi_mask():
            raise GiveUp("loop", "stores in a loop that data decide", self.engine.site)
        stores = [(event, it) for it in runs for event in it.stores]
        reached = [self._reached(event, it, summary) for event, it in stores]
        if not self.depth and len(set(reached)) == 1 and reached[0][0] == "while" \
                and self._tile_by_tile(runs, reached[0][1]):
            return
        for (event, _it), (form, cond) in zip(stores, reached, strict=True):
            if any(n.deps & self._phi_mask() for n in (
                    event.guard, *(a for m in event.address.terms for a in m))):
                raise GiveUp("loop", "running values decide where a loop stores", event.site)
            tag = self.engine.forest.make("reached", form, width=1, args=(cond,))
            event.loops = (*event.loops[:self.depth], tag, *event.loops[self.depth + 1:])
            event.value = self._stored(event.value, summary)

    def _reached(self, event: StoreEvent, it: Iteration, summary: Summary) -> tuple[str, Node]:
        """Return how the test of a loop decides whether iteration k comes to a store.

        Behind the test it is that of iteration k. Before it, of the iteration before; there is none
        before the first one, unless that is known to hold (`while`).
        """
        engine = self.engine
        if engine.logic.implies(conjuncts(event.guard), it.cond):
            return "while", summary.cond
        before = self._at(summary.cond, Poly(32, {(self.kappa,): 1, (): -1}))
        start = self._at(before, Poly(32, {}))
        if self._closed(start) and engine.logic.implies(conjuncts(self.path), start):
            return "while", before
        return "do", summary.cond

    def _tile_by_tile(self, runs: list[Iteration], reached: Node) -> bool:
        """Take a loop over tiles for a grid with a block for each of them, if it is one."""
        stores = [event for it in runs for event in it.stores]
        if any(n.deps & self._phi_mask() for e in stores for n in (e.guard, e.value)):
            return False
        told = one_tile_each(self.engine, self.kappa, self.path, reached, stores)
        if told is None:
            return False
        for event, new in zip(stores, told, strict=True):
            event.address, event.value, event.guard = new.address, new.value, new.guard
            event.loops = (*event.loops[:self.depth], *event.loops[self.depth + 1:])
        return True

    def _stored(self, value: Node, summary: Summary) -> Node:
        """Return a value stored in iteration k: the running value after k steps, told by k."""
        if not value.deps & self._phi_mask():
            return value
        engine = self.engine
        order = list(summary.steps)
        running, = make_folds(engine.forest, engine.plain, [fold_of(
            "at", self.kappa, [self.phis[r] for r in order], [self._initial(r) for r in order],
            [summary.steps[r] for r in order], engine.forest.true, value)])
        return engine.forest.make("at", width=value.width, args=(running,),
                                  poly=Poly(32, {(self.kappa,): 1}))

    def _phi_mask(self) -> int:
        mask = 0
        for p in self.phis.values():
            mask |= p.deps
        return mask


def _classes(h: Any, lanes: int) -> Any:
    """Number the different hashes of a value's lanes."""
    if h.shape[1] == 1:
        return np.zeros(lanes, dtype=np.int64)
    return kinds(h)[1].astype(np.int64)
