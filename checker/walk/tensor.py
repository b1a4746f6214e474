"""Tensor memory and its matrix steps (tcgen05): each column is a register, a lane holds its row.

In: `tmem` and `mma` operations of that unit. Out: registers. `with_columns` gives a program one
register more for each column that it allocates, read and written by every such operation, so that
the proof of loops carries accumulators as it does anywhere else. Engine lane L holds row L % 128 of
every column. One lane acts for the whole block: paths of other lanes see what it wrote. Modelled:
one allocation, 32x32b and 16x32bx2 moves, M = 64 and 128 of one block, operands in shared memory.
Source: the ISA manual, 9.7.16 (data path layouts D and F).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from checker.arith.steps import step_model
from checker.arith.tensor import resolve
from checker.arrays import every, greatest, least, places, some
from checker.core import Const, Mma, Op, Program, TensorMemory
from checker.tree.logic import conjuncts
from checker.tree.nodes import Node
from checker.walk.state import GiveUp, State

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["TensorOps", "with_columns"]

ROWS, COLUMNS = 128, 512


def _ours(op: Op) -> bool:
    return op.name == "tmem" or (op.name == "mma" and op.attr.unit == "tcgen05")


def with_columns(program: Program) -> Program:
    """Return the program with a register for each column of tensor memory that it allocates."""
    allocations = [op for op in program.ops if op.name == "tmem" and op.attr.action == "alloc"]
    counts = [op.src[1] for op in allocations]
    if len(counts) != 1 or not isinstance(counts[0], Const) or not 0 < counts[0].bits <= COLUMNS:
        return program
    first = len(program.reg_widths)
    columns = tuple(range(first, first + counts[0].bits))
    ops = []
    for op in program.ops:
        if _ours(op) and (op.name == "mma" or op.attr.action in ("ld", "st")):
            writes = op.name == "mma" or op.attr.action == "st"
            op = replace(op, src=(*op.src, *columns), dst=columns if writes else op.dst)
        ops.append(op)
    return replace(program, ops=tuple(ops),
                   reg_widths=(*program.reg_widths, *[32] * len(columns)))


class TensorOps:
    """Handlers of tensor memory for one engine."""

    def __init__(self, engine: Engine, first: int) -> None:
        self.engine = engine
        self.first = first  # the register of column 0
        self.half: set[int] = set()  # columns of which rows 16 to 31 of each 32 are not followed
        self.ancestors: list[int] = [1]  # of each version of the columns, as bits
        self.lane = np.arange(engine.lanes, dtype=np.int64)
        self.row = self.lane % ROWS
        self.address = engine.forest.make("opaque", "the address of tensor memory", width=32,
                                          low=0, high=(1 << 32) - 1)

    @property
    def present(self) -> bool:
        """Whether columns are registers here."""
        return len(self.engine.program.reg_widths) > self.first \
            and self.engine.known_block and self.engine.lanes % ROWS == 0

    def handlers(self) -> dict[str, Callable[[Op], None]]:
        """Return the table rows this module serves."""
        return {"tmem": self._move, "mma_commit_mbar": self._commit}

    def _move(self, op: Op) -> None:
        attr: TensorMemory = op.attr
        act = {"alloc": self._alloc, "dealloc": self._nothing, "relinquish": self._nothing,
               "ld": self._load, "st": self._store, "wait_ld": self._wait,
               "wait_st": self._wait}.get(attr.action)
        if act is None or attr.ctas > 1 or attr.pack or not self.present:
            self.engine.opaque(op, "a move of tensor memory that is not modelled")
            return
        act(op)

    def _nothing(self, op: Op) -> None:
        pass

    def _wait(self, op: Op) -> None:
        """Each thread waits for its own loads, or stores."""
        state = self.engine.matrix.flights.state
        self.engine.matrix.flights.moved(
            state.loads if op.attr.action == "wait_ld" else state.stores)

    def _alloc(self, op: Op) -> None:
        """One lane's store of an address that nobody knows."""
        engine = self.engine
        mask, rest = engine.memory.active()
        at = engine.values.poly(engine.source(op.src[0]), 64)
        if not some(mask) or not rest.uniform or not at.is_const:
            raise GiveUp("tensor-memory", "an allocation that is not modelled", op.site)
        one = np.zeros(engine.lanes, dtype=bool)
        one[places(mask)[0]] = True
        where = np.broadcast_to(at.unsigned_const(engine.lanes), (engine.lanes,))
        engine.memory.shared.store(where.astype(np.int64), self.address, one,
                                   None if rest is engine.forest.true else rest)

    # -- columns
    def _place(self, operand: Any, op: Op) -> tuple[Any, Any]:
        """Return the row and the column of an address, for each lane."""
        engine = self.engine
        poly = engine.values.poly(engine.source(operand), 32)
        if poly.terms.get((self.address,)) != 1 or any(
                m not in ((), (self.address,)) for m in poly.terms):
            raise GiveUp("tensor-memory", "an address in tensor memory that is not known", op.site)
        at = np.broadcast_to(np.asarray(poly.const, dtype=np.int64), (engine.lanes,))
        if some(at < 0):
            raise GiveUp("tensor-memory", "an address in tensor memory that is not known", op.site)
        return at >> 16, at & 0xFFFF

    def _moved(self, op: Op) -> tuple[Any, Any]:
        """Return each lane's row and first column."""
        engine = self.engine
        attr: TensorMemory = op.attr
        mask, rest = engine.memory.active()
        row, column = self._place(op.src[0], op)
        in_warp = self.lane % 32
        if attr.shape == "32x32b":
            row = row + in_warp
        elif attr.shape == "16x32bx2" and isinstance(op.src[1], Const):
            row, column = row + in_warp % 16, column + in_warp // 16 * op.src[1].bits
        else:
            raise GiveUp("tensor-memory", "a move of tensor memory that is not modelled", op.site)
        count = len(engine.program.reg_widths) - self.first
        if not every(mask) or not rest.uniform or some(row // 32 != self.row // 32) \
                or some(column + attr.num > count):
            raise GiveUp("tensor-memory", "a move of tensor memory that is not modelled", op.site)
        used = range(self.first + least(column), self.first + greatest(column) + attr.num)
        flights = engine.matrix.flights
        steps = (*engine.tiles.steps_under_way(), *flights.state.steps())
        if attr.action == "ld":
            flights.columns(used, (), steps)
            flights.issue(flights.state.loads, op.dst, used)
        else:
            flights.columns((), used, steps)
            flights.issue(flights.state.stores, used, ())
        if self.lane.size > ROWS:  # otherwise each warp has rows of its own
            self._ordered(used, attr.action == "st")
        return row, column

    def _ordered(self, columns: range, writes: bool) -> None:
        """Report columns that other threads stored (or read), if no barrier stands between."""
        shared = self.engine.memory.shared
        shared.touch()
        last = shared.moved[:1 + writes, columns.start - self.first:columns.stop - self.first]
        if some(last >= shared.ordered()[0]):
            self.engine.problem("race", "tensor memory that no barrier orders after another "
                                        "thread's move")

    def _column(self, c: int) -> Node:
        value = self.engine.state.regs[self.first + c]
        return self.engine.values.undefined(32) if value is None else \
            self.engine.values.node(value)

    def _load(self, op: Op) -> None:
        engine, values = self.engine, self.engine.values
        row, column = self._moved(op)
        source = row + self.lane // ROWS * ROWS
        for j, dst in enumerate(op.dst):
            numbers, choice = np.unique(column + j, return_inverse=True)
            for c in numbers.tolist():
                if c in self.half and some(row[column + j == c] % 32 >= 16):
                    raise GiveUp("tensor-memory", "rows of tensor memory that are not followed",
                                 op.site)
            parts = [values.gather(self._column(c), source) for c in numbers.tolist()]
            engine.put(dst, parts[0] if len(parts) == 1 else values.mux(
                choice.ravel().astype(np.int64), parts))

    def _store(self, op: Op) -> None:
        engine, values = self.engine, self.engine.values
        attr: TensorMemory = op.attr
        row, column = self._moved(op)
        taken = 2 if attr.shape == "16x32bx2" else 1
        halves = attr.shape == "16x32bx2" and every(row % 32 < 16)
        new: dict[int, Node] = {}
        for j in range(attr.num):
            value = engine.source(op.src[taken + j])
            for c in np.unique(column + j).tolist():
                mine = places(column + j == c)
                writer = np.full(ROWS, -1, dtype=np.int64)
                writer[row[mine]] = mine
                if halves:  # nobody looks at the other rows: they may hold anything
                    self.half.add(c)
                    writer = writer[np.arange(ROWS) // 32 * 32 + np.arange(ROWS) % 16]
                table = writer[self.row]
                put = values.gather(value, np.where(table >= 0, table, int(mine[0])))
                old = new.get(c, self._column(c))
                new[c] = values.node(values.mux((table < 0).astype(np.int64), [put, old]))
        self._write(new)

    def _write(self, new: dict[int, Node]) -> None:
        """Write columns: in all lanes, whichever lane asked for it."""
        engine = self.engine
        cond = engine.logic.conjunction(p for p in conjuncts(engine.guard) if p.op != "lanes")
        if not cond.uniform:
            raise GiveUp("tensor-memory", "a write to tensor memory that lanes disagree on",
                         engine.site)
        for c, value in new.items():
            r = self.first + c
            engine.state.regs[r] = engine.choose(cond, value, engine.state.regs[r], 32)
        self.ancestors.append(self.ancestors[engine.state.tensor] | 1 << len(self.ancestors))
        engine.state.tensor = len(self.ancestors) - 1

    # -- paths
    def join(self, out: State, one: State, two: State, p: Node, known: list[Node], live: int
             ) -> None:
        """Join the columns of two paths; p: what tells the first from the second.

        Where it is lanes that parted, what one of them wrote is there for all.
        """
        engine = self.engine
        differ = [r for r in range(self.first, len(out.regs)) if live >> r & 1
                  and one.regs[r] is not two.regs[r]]
        newer = one if one.tensor > two.tensor else two
        older = two if newer is one else one
        if differ and not p.uniform:
            if newer.tensor == older.tensor \
                    or not self.ancestors[newer.tensor] >> older.tensor & 1:
                raise GiveUp("tensor-memory", "two paths write tensor memory", engine.site)
            own = conjuncts(engine.logic.given(newer.path, known))
            p = engine.logic.conjunction(q for q in own if q.op != "lanes")
            if not p.uniform:
                raise GiveUp("tensor-memory", "a write to tensor memory that lanes disagree on",
                             engine.site)
            one, two = newer, older
        for r in differ:
            out.regs[r] = engine.choose(p, one.regs[r], two.regs[r], 32)
        self.ancestors.append(self.ancestors[one.tensor] | self.ancestors[two.tensor]
                              | 1 << len(self.ancestors))
        out.tensor = len(self.ancestors) - 1

    # -- matrix steps
    def step(self, op: Op) -> None:
        """One matrix step, issued by one lane for the block."""
        engine = self.engine
        mask, rest = engine.memory.active()
        lanes = places(mask)
        words = [engine.values.poly(engine.source(s), w)
                 for s, w in ((op.src[0], 64), (op.src[1], 64), (op.src[4], 32))]
        if not self.present or len(lanes) != 1 or not rest.uniform \
                or not all(w.is_const for w in words) or op.attr.a.source != "smem":
            engine.opaque(op, "a matrix step that is not modelled")
            engine.unmodelled("a matrix step on tensor memory that is not modelled")
            return
        lane = int(lanes[0])
        bits = [int(np.broadcast_to(w.unsigned_const(engine.lanes), (engine.lanes,))[lane])
                for w in words]
        attr = resolve(op.attr, bits[2])
        model = step_model(attr) if attr is not None else None
        row, column = (int(table[lane]) for table in self._place(op.src[2], op))
        count = len(engine.program.reg_widths) - self.first
        if attr is None or model is None or row or column + attr.n > count:
            raise GiveUp("tensor-memory", "a matrix step that is not modelled", op.site)
        self._steps(op, attr, model, bits, lane, column)

    def _steps(self, op: Op, attr: Mma, model: Any, bits: list[int], lane: int, column: int
               ) -> None:
        engine, matrix = self.engine, self.engine.matrix
        end = column + attr.n
        flights, used = engine.matrix.flights, range(self.first + column, self.first + end)
        flights.columns((), used, (s for s in (
            *engine.tiles.steps_under_way(), *flights.state.steps()) if not s.index or s.writes
            != tuple(used)))  # only steps of one shape keep their order
        self._ordered(used, True)
        rows = self.row if attr.m == ROWS else self.row // 32 * 16 + self.row % 16
        numbers = [np.full(engine.lanes, n, dtype=np.int64) for n in range(attr.n)]
        found = []
        for operand, desc, wanted in ((attr.a, bits[0], [rows]), (attr.b, bits[1], numbers)):
            made = matrix.from_shared(
                operand, attr.k, np.full(engine.lanes, desc, dtype=np.uint64),
                {w.tobytes(): w for w in wanted}, "tcgen05", lane)
            if made is None:
                raise GiveUp("tensor-memory", "a matrix operand that is not modelled", op.site)
            found.append(made)
        (rows_a, read_a), (rows_b, read_b) = found
        enable = self._of_lane(engine.predicate(op.src[3]), lane, op)
        zero = engine.forest.literal(32, 0)
        new = {}
        for n, number in enumerate(numbers):
            old = engine.values.node(engine.values.select(enable, self._column(column + n), zero,
                                                          32))
            a, b = rows_a[rows.tobytes()], rows_b[number.tobytes()]
            if model.a_type != model.b_type:
                a = matrix.typed(model.a_type, a)
            new[column + n] = matrix.steps(attr, model, old, a, b)
            if attr.m < ROWS:
                self.half.add(column + n)
        self._write(new)
        flights.issue(engine.tiles.state.issued, used, (), (read_a, read_b), lane)

    def _of_lane(self, p: Node, lane: int, op: Op) -> Node:
        """Return a condition as one lane has it."""
        forest = self.engine.forest
        if p.op == "lanes" and p.table is not None:
            return forest.true if bool(p.table[lane]) else forest.false
        if not p.uniform:
            raise GiveUp("tensor-memory", "a condition that lanes disagree on", op.site)
        return p

    def _commit(self, op: Op) -> None:
        engine = self.engine
        mask, rest = engine.memory.active()
        lanes = places(mask)
        if len(lanes) != 1 or not rest.uniform or op.attr[0] != "tcgen05":
            raise GiveUp("mbarrier", "a commit that is not modelled", op.site)
        engine.tiles.commit(op, int(lanes[0]))
