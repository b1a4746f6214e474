"""The walk: runs a core program once, abstractly, for all lanes of one block side by side.

In: `core.Program`, no launch facts. Out: `Found` (stores with their trees, what is opaque, what is
wrong) over a `Forest`. Lanes are the threads of a block where the text fixes its size; elsewhere
one symbolic thread. What has no sound abstraction is refused (`GiveUp`): the kernel signs its text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from checker.arrays import some
from checker.core import OPS, Const, Op, Program
from checker.tree.logic import Logic, conjuncts, size_of
from checker.tree.nodes import UNFOUNDED_BIT, Forest, Node
from checker.tree.poly import Poly, TooLarge, constant
from checker.tree.rewrite import Rewriter
from checker.tree.rules import Floats
from checker.tree.values import Value, Values
from checker.walk.arguments import tensors_of
from checker.walk.below import all_below, below
from checker.walk.flow import Block, Flow, Loop, analyse
from checker.walk.general import Renamed, conditions, dependent, settled, without_loops
from checker.walk.ints import Ints
from checker.walk.lanes import LaneOps
from checker.walk.matrix import MatrixOps
from checker.walk.memory import MemoryOps
from checker.walk.private import PrivateOps, with_cells
from checker.walk.signless import Signless
from checker.walk.state import Found, GiveUp, State
from checker.walk.tensor import TensorOps, with_columns
from checker.walk.tiles import TileOps

__all__ = ["Engine"]

MAX_LANES = 1024
_REACH = 0x7FFFFFE0  # the last place in a buffer that spans 2 GiB, or a few bytes before it
MAX_CELLS = 40_000_000  # hashes of 16 bytes: nodes times lanes


#: why a kernel whose text leaves its block size open cannot be followed any further
UNSIZED = ("the text fixes no block size: declare it, as in `--assume block:128`, or give launch "
           "facts")


#: operations that do nothing but write registers, by kind
_REGISTERS = frozenset({"int", "pred", "float", "cvt", "move"})

#: operations that read global memory, whatever becomes of what they read
_READS = frozenset({"load", "acopy"})


class Engine:
    """One walk over one program."""

    def __init__(self, program: Program, seconds: float = 60.0, max_nodes: int = 320_000,
                 divisible: Iterable[str] = ()) -> None:
        program, cells = with_cells(program)
        first_column = len(program.reg_widths)
        self.program = program = with_columns(program)
        block = program.block
        total = block[0] * block[1] * block[2] if block else 1
        self.known_block = block is not None and total <= MAX_LANES
        self.unknown = UNSIZED if block is None else "the block has too many threads"
        self.lanes = total if self.known_block else 1
        self.forest = Forest(self.lanes, min(max_nodes, max(60_000, MAX_CELLS // self.lanes)),
                             divisible)
        self.forest.sizes, self.forest.fills = tensors_of(program.params)
        self.forest.deadline = time.process_time() + seconds
        self.values = Values(self.forest)
        self.logic = Logic(self.values)
        self.ints = Ints(self.values, self.logic)
        self.floats = Floats(self.values)
        self.found = Found()
        self.memory = MemoryOps(self)
        self.private = PrivateOps(self, cells)
        self.lane_ops = LaneOps(self)
        self.matrix = MatrixOps(self)
        self.tiles = TileOps(self)
        self.tensor = TensorOps(self, first_column)
        self.signless = Signless(self)
        #: by the condition to enter a loop: what values around such loops are where it fails
        self.skips: dict[Node, dict[Node, Node]] = {}
        self.flow: Flow = analyse(program)
        self.handlers = self._handlers()
        self.state = State([None] * len(program.reg_widths), self.forest.true)
        self.guard = self.forest.true
        self.opaque_guards: dict[Node, bool] = {}
        self.exits: dict[Node, Any] = {}  # where lanes exit: which, if a condition holds
        self.site = -1
        self.hashes: tuple[frozenset[str], Rewriter] | None = None
        self.loop_stack: list[Any] = []
        self.loop_path = self.forest.true  # what holds throughout the innermost loop
        self.counted: Callable[[Node], Poly | None] | None = None  # what a path knows of a count
        self.by_cases = False  # paths are not joined: what a path knows decides guards and choices
        self.case_path = self.forest.true  # what holds wherever the present memory is looked at
        self.unasked: frozenset[int] = frozenset()  # operations of which nobody asks what they give

    def plain(self) -> Rewriter:
        """Return hashes without pivots, as they are with the sizes that are shared by now."""
        shared = frozenset(self.forest.shared)
        if self.hashes is None or self.hashes[0] != shared or self.hashes[1].busy:
            self.hashes = (shared, Rewriter(self.logic))
        return self.hashes[1]

    # -- running
    def run(self) -> None:
        """Run the whole program."""
        self.region(set(self.flow.order), None, 0, self.state)
        self.tiles.finish()

    def region(self, members: set[int], loop: Loop | None, start: int,
               entry: State) -> dict[int, list[State]]:
        """Run the blocks of an acyclic region (inner loops as single steps).

        Returns the states on edges that leave it, by target; the target `start` holds the states
        on back edges. `loop` is the loop whose body this is.
        """
        arriving: dict[int, list[State]] = {start: [entry]}
        leaving: dict[int, list[State]] = {}
        done: set[int] = set()
        for b in self.flow.order:
            if b not in members or b in done or b not in arriving:
                continue
            state = self.merge(arriving.pop(b), self.flow.blocks[b].live_in)
            inner = self.flow.loops.get(b)
            if inner is not None and inner is not loop:
                from checker.walk.loops import run_loop
                done |= inner.blocks
                edges = run_loop(self, inner, state)
            else:
                edges = self.block(self.flow.blocks[b], state)
            for target, out in edges:
                if out.path is self.forest.false:
                    continue
                if target not in members or target == start:
                    leaving.setdefault(target, []).append(out)
                else:
                    arriving.setdefault(target, []).append(out)
        return leaving

    def merge(self, states: list[State], live: int) -> State:
        """Join the states of the edges into a block; only live registers are joined."""
        merged = states[0]
        for other in states[1:]:
            merged = self._merge_two(merged, other, live)
        return merged

    def _merge_two(self, one: State, two: State, live: int) -> State:
        path = self.logic.disjunction([one.path, two.path])
        known = [p for p in conjuncts(path) if p is not self.forest.true]
        p = self.logic.given(one.path, known)
        if p.op == "and":  # the shorter side reads better
            q = self.logic.given(two.path, known)
            if q.op != "and":
                p = self.logic.negate(q)
        out = State(list(one.regs), path, dict(one.private))
        for r in range(self.tensor.first):
            a, b = one.regs[r], two.regs[r]
            if a is not b and live >> r & 1:
                out.regs[r] = self.choose(p, a, b, self.program.reg_widths[r])
        if self.tensor.present:
            self.tensor.join(out, one, two, p, known, live)
        for k in {*one.private, *two.private}:
            if one.private.get(k) != two.private.get(k):
                out.private[k] = None
        return out

    def choose(self, p: Node, a: Value | None, b: Value | None, width: int) -> Value:
        """Return p ? a : b where either may never have been written."""
        a = self.values.undefined(width) if a is None else a
        b = self.values.undefined(width) if b is None else b
        if width == 1:
            return self.choose_predicate(p, self.as_predicate(a), self.as_predicate(b))
        if isinstance(a, Poly) and isinstance(b, Poly) and a.same(b):
            return a
        a, b = (self.values.as_float(v) for v in (a, b))
        kinds = self.logic.by_lanes(p)
        if kinds:  # each lane has a condition of its own, and chooses by that
            table = np.zeros(self.lanes, dtype=np.int64)
            for number, (where, _q) in enumerate(kinds):
                table[where] = number
            return self.values.mux(table, [self.choose(q, a, b, width) for _where, q in kinds])
        if p.op != "lanes" and (isinstance(a, Node) or isinstance(b, Node)):
            p, a, b = self._joined(p, a, b)
            sides = ((p, a, b), (self.logic.negate(p), b, a)) if self.skips else ()
            for q, x, y in sides:
                if not isinstance(x, Node):
                    continue
                other, parts = self.values.node(y), conjuncts(q)
                # c and rest ? x : y is rest ? x : y where x is y unless c holds
                rest = [c for c in parts if self.skipped(c, x) is not other]
                if not rest:
                    return x
                if len(rest) < len(parts):
                    return self.values.select(self.logic.conjunction(rest), x, y, width)
        return self.values.select(p, a, b, width)

    def _joined(self, p: Node, a: Value, b: Value) -> tuple[Node, Value, Value]:
        """Return a choice one of whose sides chooses the other side too as one choice.

        p ? (q ? x : y) : y is (p and q) ? x : y. A condition that may be undefined counts where it
        is looked at only, and stays by itself.
        """
        logic, joined = self.logic, True
        while joined:
            joined = False
            for turned in (False, True):
                x, y = (b, a) if turned else (a, b)
                if not isinstance(x, Node) or x.op != "select" or x.args[0].tainted:
                    continue
                q, other = x.args[0], self.values.node(y)
                if x.args[2] is other:
                    x = x.args[1]
                elif x.args[1] is other:
                    q, x = logic.negate(q), x.args[2]
                else:
                    continue
                p = logic.disjunction([p, logic.negate(q)]) if turned \
                    else logic.conjunction([p, q])
                a, b = (y, x) if turned else (x, y)
                joined = True
        return p, a, b

    def skipped(self, p: Node, x: Node) -> Node | None:
        """Return what x is where p fails, if p is the condition to enter loops in x."""
        memo = self.skips.get(p)
        made = x if memo is None else without_loops(self, p, x, memo)
        return None if made is x else made

    def choose_predicate(self, p: Node, a: Node, b: Node) -> Node:
        """Return (p and a) or (not p and b)."""
        if a is b:
            return a
        logic = self.logic
        return logic.disjunction([logic.conjunction([p, a]),
                                  logic.conjunction([logic.negate(p), b])])

    def block(self, block: Block, state: State) -> list[tuple[int, State]]:
        """Run one basic block; returns its outgoing edges."""
        self.state = state
        logic = self.logic
        targets: list[tuple[int, State]] = []
        for i in range(block.start, block.end):
            op = self.program.ops[i]
            self.forest.spend()
            self.site = self.forest.site = op.site
            if OPS[op.name].kind == "control":
                guard = self.guard = self._founded(self.guard_of(op))
                self._written(op)
                fails = op.name == "trap" or (
                    op.name == "branch" and self._block_at(op.attr) in self.flow.doomed)
                doomed = op.guard is not None and block.index + 1 in self.flow.doomed
                if fails or doomed:
                    self.found.premises.add("no-trap")
                if fails and op.guard is not None:
                    continue
                if doomed:
                    guard = self.forest.true
                taken = logic.conjunction([state.path, guard])
                rest = logic.conjunction([state.path, logic.negate(guard)])
                if op.name == "exit" and self.known_block:
                    lanes, cond = self.memory.split(taken)
                    self.exits[cond] = self.exits.get(cond, False) | lanes
                if op.name == "branch":
                    targets.append((self._block_at(op.attr), self._edge(state, taken)))
                elif op.name == "switch":
                    raise GiveUp("switch", "an indexed branch", op.site)
                state.path = rest
                continue
            if i in self.unasked:
                self.pass_over(op)
            else:
                self.step(op)
        if block.end > block.start and state.path is not self.forest.false:
            falls = [s for s in block.succs if s == block.index + 1]
            last = self.program.ops[block.end - 1]
            if falls and (last.name not in ("branch", "switch", "exit", "trap")
                          or last.guard is not None):
                targets.append((falls[0], self._edge(state, state.path)))
        return targets

    def _edge(self, state: State, path: Node) -> State:
        out = state.copy()
        out.path = path
        return out

    def _block_at(self, op_index: int) -> int:
        for block in self.flow.blocks:
            if block.start == op_index:
                return block.index
        raise AssertionError("a branch into the middle of a block")

    # -- one operation
    def guard_of(self, op: Op) -> Node:
        """Return the operation's own guard."""
        if op.guard is None:
            return self.forest.true
        p = self.predicate(op.guard.reg)
        return self._decided(self.logic.negate(p) if op.guard.neg else p)

    def _decided(self, p: Node) -> Node:
        """Return a condition without what the present path knows, if paths are not joined.

        Not in a loop: its first iterations may know more than the others.
        """
        if not self.by_cases or self.loop_stack:
            return p
        return self.logic.given(p, conjuncts(self.state.path))

    def _founded(self, guard: Node) -> Node:
        """Return a guard; where something decides it that is not modelled, note that.

        Lanes, and turns of a loop, need not agree on it, though there is one node for all of them.
        """
        if guard.tainted and guard not in self.opaque_guards:
            self.opaque_guards[guard] = any(
                n.op == "opaque" for n in all_below([guard], folds=True))
        if self.opaque_guards.get(guard):
            self.unmodelled("what is not modelled decides whether an operation takes effect")
        return guard

    def step(self, op: Op) -> None:
        """Run one operation that is not a branch."""
        self.guard = self._founded(self.guard_of(op))
        if self.guard is self.forest.false:
            return
        if OPS[op.name].kind not in _REGISTERS:
            self._written(op)
        flights = self.matrix.flights
        if flights.registers and not flights.registers.isdisjoint((*op.src, *op.dst)):
            flights.check(op)
        handler = self.handlers.get(op.name)
        if handler is None:
            self.opaque(op, "no model")
            return
        unfounded = self._unfounded(op) if OPS[op.name].kind in _REGISTERS else []
        if len(unfounded) < 2:
            handler(op)
            return
        before = [self.state.regs[d] for d in op.dst]
        handler(op)
        if not any(dependent(self.state.regs[d], UNFOUNDED_BIT) for d in op.dst):
            self._again_apart(op, handler, unfounded, before)

    def _unfounded(self, op: Op) -> list[int]:
        """Return the registers that an operation reads in which bits are anybody's.

        Under a guard it reads that, and what it writes as well.
        """
        regs = self.state.regs
        read = {r for r in op.src if isinstance(r, int)}
        if op.guard is not None and isinstance(op.guard.reg, int):
            read |= {op.guard.reg, *op.dst}
        return sorted(r for r in read if regs[r] is None or dependent(regs[r], UNFOUNDED_BIT)) \
            if len(read) > 1 else []

    def _again_apart(self, op: Op, handler: Callable[[Op], None], unfounded: list[int],
                     before: list[Value | None]) -> None:
        """Run an operation again with its operands' unfounded bits told apart.

        They must not cancel each other: what nobody wrote is one node, whichever register it is in.
        """
        regs = self.state.regs
        held = {r: regs[r] for r in unfounded}
        for d, v in zip(op.dst, before, strict=True):
            regs[d] = v
        for number, r in enumerate(unfounded):
            regs[r] = Renamed(self, "'" * number).value(self.source(r))
        self.guard = self.guard_of(op)
        handler(op)
        for r, v in held.items():
            if r not in op.dst:
                regs[r] = v

    def pass_over(self, op: Op) -> None:
        """Run an operation but for what it gives: only that it reads shared memory counts."""
        reads = {"load": self.memory.look, "ldmatrix": self.memory.look_at_matrices,
                 "mma": self.matrix.look}.get(op.name)
        if reads is None:
            return
        self.guard = self.guard_of(op)
        if self.guard is self.forest.false:
            return
        self._written(op)
        flights = self.matrix.flights
        if flights.registers and not flights.registers.isdisjoint((*op.src, *op.dst)):
            flights.check(op)
        reads(op)

    def _written(self, op: Op) -> None:
        """Look that what was never written decides neither whether an effect happens nor where."""
        guard = (*conjuncts(self.state.path), *conjuncts(self.guard))
        known = tuple(p for p in guard if not p.tainted)
        for values, facts in ((guard, known),
                              (self.sources(op) if op.name in _READS else (), guard)):
            if any(self._unwritten(v, facts) for v in values):
                self.problem("undefined", "a value that was never written decides whether or "
                                          "where an operation takes effect")

    def _unwritten(self, value: Value, known: tuple[Node, ...]) -> bool:
        """Tell whether bits that were never written may lie below a value where `known` holds."""
        atoms = [a for m in value.terms for a in m] if isinstance(value, Poly) else [value]
        atoms = [a for a in atoms if a.tainted]
        if not atoms:
            return False
        here = np.ones(self.lanes, dtype=bool)
        for p in known:
            here = here & p.table if p.op == "lanes" and p.table is not None else here
        work = [(a, here) for a in atoms]
        seen: dict[Node, Any] = {}
        while work:
            node, lanes = work.pop()
            before = seen.get(node)
            if not some(lanes) or (before is not None and not some(lanes & ~before)):
                continue
            seen[node] = lanes if before is None else lanes | before
            if node.op == "undef":
                return True
            made = below(node, lanes)
            if node.op == "select":
                p, a, b = node.args
                if p.op == "lanes" and p.table is not None:
                    made = [(a, lanes & p.table), (b, lanes & ~p.table)]
                elif self.logic.implies(known, p):
                    made = [(a, lanes)]
                elif self.logic.implies(known, self.logic.negate(p)):
                    made = [(b, lanes)]
            elif node.op in ("and", "or") and node.width == 1:
                possible = [k for k, _lanes in made
                            if not self.logic.implies(known, self.logic.negate(k))]
                lost = node.op == "and" and len(possible) < len(made)
                made = [] if lost else [(k, lanes) for k in possible]
                for k in possible:
                    if node.op == "and" and k.op == "lanes" and k.table is not None:
                        made = [(n, m & k.table) for n, m in made]
            work += [(k, where) for k, where in made if k.tainted]
        return False

    def source(self, operand: int | Const) -> Value:
        """Return an operand's value."""
        if isinstance(operand, Const):
            if operand.width_bits == 1:
                return self.forest.true if operand.bits else self.forest.false
            return constant(operand.width_bits, operand.bits)
        value = self.state.regs[operand]
        if value is None:
            value = self.values.undefined(self.program.reg_widths[operand])
        return value

    def sources(self, op: Op) -> list[Value]:
        """Return all operands."""
        return [self.source(s) for s in op.src]

    def width(self, operand: int | Const) -> int:
        """Return an operand's width in bits."""
        if isinstance(operand, Const):
            return operand.width_bits
        return self.program.reg_widths[operand]

    def as_predicate(self, value: Value) -> Node:
        """Return a one-bit value as a predicate node."""
        if isinstance(value, Poly):
            if value.is_const:
                return self.forest.lanes_node(value.unsigned_const(self.lanes) != 0)
            return self.logic.negate(self.logic.equal(value, constant(1, 0), 1))
        return value

    def predicate(self, reg: int | Const) -> Node:
        """Return a predicate operand."""
        return self.as_predicate(self.source(reg))

    def put(self, reg: int, value: Value) -> None:
        """Write a register in the lanes where the guard holds."""
        width = self.program.reg_widths[reg]
        if value.width != width:
            value = self._fit(value, width)
        if self.guard is not self.forest.true:
            value = self.choose(self.guard, value, self.state.regs[reg], width)
        self.state.regs[reg] = value

    def _fit(self, value: Value, width: int) -> Value:
        if width == 1:
            return self.as_predicate(value)
        if value.width == 1 and isinstance(value, Node):
            return Poly(width, self.values.bit(value))
        if value.width > width:
            return self.values.extract(value, 0, width)
        poly = self.values.poly(value, value.width)
        return self.values.zext(poly, value.width, width)

    def opaque(self, op: Op, reason: str) -> None:
        """Keep an operation that is not modelled as a node with its text and operands."""
        site = self.program.sites[op.site]
        self.found.opaque[op.site] = reason
        args = [self.values.node(v) for v in self.sources(op)]
        effect = OPS[op.name].kind in ("memory", "sync", "matrix", "opaque")
        for i, dst in enumerate(op.dst):
            self.put(dst, self.forest.make("opaque", f"{site.text}|{op.site}|{op.name}|{i}",
                                           width=self.program.reg_widths[dst], args=args))
        if effect and op.name in ("opaque", "store", "atomic", "bulk", "stmatrix", "acopy", "tmem",
                                  "tensormap_set"):
            self.found.unmodelled.append((op.site, reason))

    def problem(self, code: str, message: str) -> None:
        """Record a defect of the kernel (a missing barrier, say)."""
        if code == "lane-pick":
            self.found.premises.add(code)
            return
        entry = (self.site, code, message)
        if entry not in self.found.findings:
            self.found.findings.append(entry)

    def unmodelled(self, reason: str) -> None:
        """Record that an effect is not modelled: the kernel can equal nothing but its own text."""
        if (self.site, reason) not in self.found.unmodelled:
            self.found.unmodelled.append((self.site, reason))

    # -- handlers
    def _handlers(self) -> dict[str, Callable[[Op], None]]:
        table: dict[str, Callable[[Op], None]] = {}
        for name, info in OPS.items():
            if info.kind == "int":
                table[name] = self._int
            elif info.kind == "float":
                table[name] = self._float
        own = {
            "mov": self._mov, "pack": self._pack, "extract": self._extract, "zext": self._widen,
            "sext": self._widen, "trunc": self._trunc, "select": self._select, "prmt": self._prmt,
            "icmp": self._icmp, "pand": self._logic, "por": self._logic, "pxor": self._logic,
            "pnot": self._pnot, "fcmp": self._fcmp, "fcvt": self._fcvt, "fapprox": self._fapprox,
            "fclass": self._fclass, "lop3": self._lop3, "fshl": self._funnel,
            "fshr": self._funnel, "fence": self._nothing, "nop": self._nothing,
            "prefetch": self._nothing, "carry": self._carry, "borrow": self._carry,
        }
        table.update(own)
        table.update(self.memory.handlers())
        table.update(self.lane_ops.handlers())
        table.update(self.matrix.handlers())
        table.update(self.tiles.handlers())
        table.update(self.tensor.handlers())
        for name in ("iadd_sat", "isub_sat", "dp4a", "dp2a"):
            table[name] = self._keyed_int
        return table

    def _nothing(self, op: Op) -> None:
        pass

    def _mov(self, op: Op) -> None:
        self.put(op.dst[0], self.source(op.src[0]))

    def _pack(self, op: Op) -> None:
        parts = [self._wide(s) for s in op.src]
        self.put(op.dst[0], self.values.pack(parts))

    def _wide(self, operand: int | Const) -> Value:
        """A one-bit operand inside an integer operation."""
        value = self.source(operand)
        if value.width == 1 and isinstance(value, Node):
            return Poly(1, self.values.bit(value))
        return value

    def _extract(self, op: Op) -> None:
        low, width = op.attr
        value = self._wide(op.src[0])
        word = self.ints.high_word(value) if (low, width) == (32, 32) else None
        self.put(op.dst[0], self.values.extract(value, low, width) if word is None else word)

    def _widen(self, op: Op) -> None:
        source, width = op.attr
        value = self._wide(op.src[0])
        if value.width > source:
            value = self.values.extract(value, 0, source)
        poly = self.values.poly(self._guarded(value), source)
        widen = self.values.sext if op.name == "sext" or (
            width > source >= 32 and self.nonnegative(poly)) else self.values.zext
        self.put(op.dst[0], widen(poly, source, width))

    def _guarded(self, value: Value) -> Value:
        """Return what a value is where the guard holds: a narrow load is two guarded operations."""
        node = value.atom() if isinstance(value, Poly) else value
        if node is not None and node.op == "select":
            p, a, b = node.args
            if p is self.guard:
                return a
            if p is self.logic.negate(self.guard):
                return b
        return value

    def _trunc(self, op: Op) -> None:
        source, width = op.attr
        self.put(op.dst[0], self.values.trunc(self.source(op.src[0]), source, width))

    def _select(self, op: Op) -> None:
        p = self._decided(self.predicate(op.src[0]))
        width = self.program.reg_widths[op.dst[0]]
        a, b = self.source(op.src[1]), self.source(op.src[2])
        self.put(op.dst[0], self.choose(p, a, b, width))

    def _prmt(self, op: Op) -> None:
        a, b, sel = self.sources(op)
        poly = sel if isinstance(sel, Poly) else None
        if op.attr or poly is None or not poly.is_const or isinstance(poly.const, np.ndarray):
            self._iop(op, f"prmt.{op.attr}")
            return
        bits = poly.const & 0xFFFF
        parts: list[Value] = []
        for i in range(4):
            nibble = bits >> (4 * i) & 15
            part = self.values.extract(a if nibble & 7 < 4 else b, 8 * (nibble & 3), 8)
            if nibble & 8:
                sign = self.values.poly(self.values.extract(part, 7, 1), 1)
                part = self.values.sext(sign, 1, 8)
            parts.append(part)
        self.put(op.dst[0], self.values.pack(parts))

    def _iop(self, op: Op, text: str) -> None:
        """An exact integer operation that stays an atom: modelled, but not taken apart."""
        args = [self.values.node(v) for v in self.sources(op)]
        width = self.program.reg_widths[op.dst[0]]
        self.put(op.dst[0], self.forest.make("iop", text, width=width, args=args, low=0,
                                             high=(1 << width) - 1))

    def _keyed_int(self, op: Op) -> None:
        self._iop(op, f"{op.name}.{op.attr}")

    def _int(self, op: Op) -> None:
        args = [self._wide(s) for s in op.src]
        name = op.name
        if name == "shr_u" and op.attr == 32 and self._counted(self.values.poly(args[0], 32)):
            name = "shr_s"
        elif name == "imulwide_u" and op.attr == 32:
            polys = [self.values.poly(a, 32) for a in args]
            divided = any(a.op == "iop" and a.attr == "shr_s.32" for p in polys for m in p.terms
                          for a in m)
            if divided and all(self.nonnegative(p) for p in polys):
                name = "imulwide_s"
        made = self.ints.op(name, op.attr, args)
        if self.counted is not None and isinstance(made, Node) and made.op in ("iop", "imax_s"):
            made = self.counted(made) or made
        self.put(op.dst[0], made)

    def _counted(self, poly: Poly) -> bool:
        """Tell whether this path shows that a size plus a literal is not negative."""
        if size_of(poly) is None:
            return False
        exact = self.logic.unwrapped(self.values.sext(poly, 32, 0))
        return self.logic.implies(conjuncts(self.state.path), self.logic.at_least_zero(exact))

    def _lop3(self, op: Op) -> None:
        a, b, c = self.sources(op)
        self.put(op.dst[0], self.ints.lop3(a, b, c, op.attr))

    def _funnel(self, op: Op) -> None:
        low, high, n = self.sources(op)
        count = n if isinstance(n, Poly) else None
        if count is None or not count.is_const or isinstance(count.const, np.ndarray):
            self._iop(op, f"{op.name}.{op.attr}")
            return
        k = count.const & 0xFFFFFFFF
        k = k & 31 if op.attr == "wrap" else min(k, 32)
        whole = self.values.pack([low, high])
        start = k if op.name == "fshr" else 32 - k
        self.put(op.dst[0], self.values.extract(whole, start, 32))

    def _carry(self, op: Op) -> None:
        a, b = (self.values.poly(self._wide(s), op.attr) for s in op.src[:2])
        cin = self.values.poly(self._wide(op.src[2]), 1)
        exact = [self.values.zext(x, x.width, 0) for x in (a, b, cin)]
        if op.name == "carry":
            total = exact[0].add(exact[1]).add(exact[2]).sub(constant(0, 1 << op.attr))
            self.put(op.dst[0], self.logic.at_least_zero(total))
        else:
            total = exact[0].sub(exact[1]).sub(exact[2])
            self.put(op.dst[0], self.logic.negate(self.logic.at_least_zero(total)))

    def _icmp(self, op: Op) -> None:
        cond, kind = op.attr.cond, op.attr.type
        width = int("".join(ch for ch in kind if ch.isdigit()))
        a, b = self._wide(op.src[0]), self._wide(op.src[1])
        a, b = self.values.extract(a, 0, width), self.values.extract(b, 0, width)
        if op.attr.reach:
            inside = self._within(self.values.poly(a, width), self.values.poly(b, width))
            if inside is not None:
                self.put(op.dst[0], inside)
                return
        signed = kind[0] == "s" or (width >= 32 and cond not in ("eq", "ne") and all(
            self.nonnegative(self.values.poly(v, width)) for v in (a, b)))
        self.put(op.dst[0], self.logic.compare(cond, signed, width, a, b))

    def _within(self, offset: Poly, last: Poly) -> Node | None:
        """Return the mask of an offset that is out of range where the mask fails, if it is one."""
        if not conditions(offset) or not last.is_const or isinstance(last.const, np.ndarray) \
                or last.const % (1 << last.width) < _REACH:
            return None
        cases = list(settled(self, offset))
        tests = [self.logic.compare("le", False, offset.width, p, last) for _known, p in cases]
        if all(t is not self.forest.false for t in tests) or any(conditions(p) for _k, p in cases):
            return None
        self.found.premises.add("buffer-reach")
        found = [self.logic.conjunction([q if holds else self.logic.negate(q)
                                         for q, holds in known.items()])
                 for (known, _p), t in zip(cases, tests, strict=True)
                 if t is not self.forest.false]
        return self.logic.disjunction(found)

    def nonnegative(self, poly: Poly) -> bool:
        """Tell whether a signed number is at least zero wherever this path leads."""
        half = 1 << (poly.width - 1)
        bounds = poly.range()
        if bounds is not None and bounds[0] >= 0 and bounds[1] < half:
            return True
        path = conjuncts(self.state.path)
        if not any(p.op == "ge0" for p in path) or poly.is_const:
            return False
        try:
            wide = self.values.sext(poly, poly.width, 0)
            if self.logic.implies(path, self.logic.at_least_zero(wide)):
                return True
            premises = set(self.forest.premises)
            if self.logic.implies(path, self.logic.at_least_zero(self.logic.unwrapped(wide))):
                return True
            self.forest.premises = premises
            return False
        except TooLarge:
            return False

    def _logic(self, op: Op) -> None:
        a, b = self.predicate(op.src[0]), self.predicate(op.src[1])
        logic = self.logic
        if op.name == "pand":
            made = logic.conjunction([a, b])
        elif op.name == "por":
            made = logic.disjunction([a, b])
        else:
            made = self.choose_predicate(a, logic.negate(b), b)
        self.put(op.dst[0], made)

    def _pnot(self, op: Op) -> None:
        self.put(op.dst[0], self.logic.negate(self.predicate(op.src[0])))

    def _float(self, op: Op) -> None:
        if op.name == "fldexp":
            self._iop(op, f"fldexp.{op.attr}")
            return
        nodes = [self.values.node(v) for v in self.sources(op)]
        self.put(op.dst[0], self.floats.op(op.name, op.attr, nodes))

    def _fcmp(self, op: Op) -> None:
        a, b = (self.values.node(v) for v in self.sources(op))
        self.put(op.dst[0], self.floats.compare(op.attr, a, b))

    def _fclass(self, op: Op) -> None:
        args = [self.values.node(self.source(op.src[0]))]
        self.put(op.dst[0], self.forest.make("fclass", repr(op.attr), width=1, args=args))

    def _fcvt(self, op: Op) -> None:
        self.put(op.dst[0], self.floats.convert(op.attr, self.source(op.src[0])))

    def _fapprox(self, op: Op) -> None:
        nodes = [self.values.node(v) for v in self.sources(op)]
        if op.attr.fn.startswith("ex2"):
            nodes = [self.signless.node(n) for n in nodes]
        self.put(op.dst[0], self.floats.approx(op.attr, nodes))
