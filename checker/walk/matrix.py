"""Matrix steps: one node for each output element and rounding step, operands as rows over k.

In: `mma` operations whose operands lie in registers or, for a warp group, in shared memory by
descriptor. Out: accumulator registers. A row over k names, for each k and lane, the value and the
lane that hold the element; no product is taken apart. Steps merge where `step_model` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from checker.arith.steps import StepModel, step_model
from checker.arrays import every, greatest, some
from checker.core import FloatMode, Fragment, MatrixOperand, Mma, Op
from checker.tree.contexts import each_once
from checker.tree.nodes import Node
from checker.tree.values import Value
from checker.walk.flight import Flights

if TYPE_CHECKING:
    from checker.walk.engine import Engine

__all__ = ["MatrixOps"]

Table = npt.NDArray[np.int64]
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}
_TCGEN05 = {0: 0, 2: 128, 4: 64, 6: 32}


class MatrixOps:
    """Handlers of matrix operations for one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.inverse: dict[Fragment, tuple[Table, Table]] = {}
        self.tables: dict[Any, Table] = {}  # of operands in registers
        self.flights = Flights(engine)  # steps of warp groups
        self.placed: dict[Any, tuple[Table, Table, int] | None] = {}  # where operands lie

    def handlers(self) -> dict[str, Callable[[Op], None]]:
        """Return the table rows this module serves."""
        return {"mma": self._mma, "mma_fence": self._nothing,
                "mma_commit": self.flights.commit, "mma_wait": self.flights.wait}

    def _nothing(self, op: Op) -> None:
        pass

    # -- one instruction
    def _mma(self, op: Op) -> None:
        engine = self.engine
        attr: Mma = op.attr
        if attr.unit == "tcgen05":
            engine.tensor.step(op)
            return
        model = step_model(attr)
        if not engine.known_block:
            engine.opaque(op, f"a matrix step: {engine.unknown}")
            return
        if model is None or not self._everyone(attr) or attr.a.source == "tmem":
            engine.opaque(op, "a matrix step that is not modelled")
            return
        sources = list(op.src)
        count = attr.a.regs if attr.a.source == "regs" else 1
        a_src, sources = sources[:count], sources[count:]
        count = attr.b.regs if attr.b.source == "regs" else 1
        b_src, sources = sources[:count], sources[count:]
        c_src, sources = sources[:attr.c.regs], sources[attr.c.regs:]
        fresh = None
        if attr.has_scale_d:
            fresh = engine.predicate(sources[0])
        frag = attr.c.fragment
        assert frag is not None
        row, col = self._lanes(frag.row, attr.lanes), self._lanes(frag.col, attr.lanes)
        index: list[Table] = []  # of the shared bytes that it reads
        rows_a = self._rows(attr, a_src, True, row, index)
        rows_b = self._rows(attr, b_src, False, col, index)
        if rows_a is None or rows_b is None:
            engine.opaque(op, "a matrix operand that is not modelled")
            return
        accumulators = self._accumulators(attr, c_src, fresh)
        if model.a_type != model.b_type:  # a product of unlike types is no unordered pair
            rows_a = {k: self.typed(model.a_type, row) for k, row in rows_a.items()}
        made = [self.steps(attr, model, accumulators[e], rows_a[row[:, e].tobytes()],
                            rows_b[col[:, e].tobytes()]) for e in range(row.shape[1])]
        self._write(op, attr, made)
        if attr.unit == "wgmma":
            self.flights.issue(self.flights.state.open, op.dst,
                               a_src if attr.a.source == "regs" else (), index)

    def look(self, op: Op) -> None:
        """Run a matrix step but for what it gives: its operands in shared memory are read."""
        attr: Mma = op.attr
        model = step_model(attr)
        if model is None or not self._everyone(attr) or attr.a.source == "tmem":
            self._mma(op)
            return
        frag = attr.c.fragment
        assert frag is not None
        count = attr.a.regs if attr.a.source == "regs" else 1
        index: list[Table] = []
        for operand, src, table in ((attr.a, op.src[0], frag.row), (attr.b, op.src[count],
                                                                   frag.col)):
            if operand.source != "regs":
                number = self._lanes(table, attr.lanes)
                distinct = {number[:, e].tobytes(): number[:, e] for e in range(number.shape[1])}
                poly = self.engine.values.poly(self.engine.source(src), 64)
                placed = self._places(operand, attr.k, poly.unsigned_const(self.engine.lanes),
                                      distinct, "wgmma") if poly.is_const else None
                if placed is None:
                    self._mma(op)
                    return
                index.append(self._read(operand, *placed, None))
        if attr.unit == "wgmma":
            self.flights.issue(self.flights.state.open, op.dst,
                               op.src[:count] if attr.a.source == "regs" else (), index)

    def _everyone(self, attr: Mma) -> bool:
        """Tell whether all lanes take a step together, in whole groups."""
        engine = self.engine
        if not engine.known_block:
            return False
        mask, rest = engine.memory.active()
        return engine.lanes % attr.lanes == 0 and every(mask) and rest.uniform \
            and attr.c.source == "regs" and attr.blocks == 1 and attr.c.fragment is not None

    def _read(self, operand: MatrixOperand, at: Table, readers: Table, span: int,
              issuer: int | None) -> Table:
        """Read elements of shared memory, whatever they are; returns the bytes, each once."""
        shared, size = self.engine.memory.shared, _BYTES[operand.type]
        index = at[..., None] + np.arange(size)
        shared.unfold_at(at, size, span)
        shared.look_at_elements(index, readers, issuer)
        index = each_once(index)
        shared.busy[index] += 1
        return index

    def typed(self, name: str, row: Node) -> Node:
        """Return a row whose elements' type is part of them."""
        parts = [self.engine.forest.make("typed", name, width=a.width, args=(a,))
                 for a in row.args]
        assert row.table is not None
        return krow(self.engine, parts, row.table)

    def _lanes(self, table: Any, lanes: int) -> Table:
        """Repeat a fragment's table for all warps (or warp groups) of the block."""
        times = self.engine.lanes // lanes
        return np.ascontiguousarray(np.tile(np.asarray(table, dtype=np.int64), (times, 1)))

    def _accumulators(self, attr: Mma, c_src: list[Any], fresh: Node | None) -> list[Node]:
        engine, values = self.engine, self.engine.values
        frag = attr.c.fragment
        assert frag is not None
        per = frag.reg_bits // frag.elem_bits
        zero = engine.forest.literal(frag.elem_bits, 0)
        out = []
        for e in range(frag.row.shape[1]):
            reg = engine.source(c_src[e // per])
            part = values.node(values.extract(reg, frag.elem_bits * (e % per), frag.elem_bits))
            if fresh is not None:  # scale-d clear: the accumulator is ignored
                part = values.node(values.select(fresh, part, zero, frag.elem_bits))
            out.append(part)
        return out

    def _write(self, op: Op, attr: Mma, made: list[Node]) -> None:
        frag = attr.c.fragment
        assert frag is not None
        per = frag.reg_bits // frag.elem_bits
        for i, dst in enumerate(op.dst):
            parts: list[Value] = list(made[i * per:(i + 1) * per])
            self.engine.put(dst, parts[0] if per == 1 else self.engine.values.pack(parts))

    def steps(self, attr: Mma, model: StepModel, acc: Node, row_a: Node, row_b: Node) -> Node:
        """Chain the rounding steps of one output element."""
        engine = self.engine
        start = acc
        if model.chain == "add":
            acc = engine.forest.literal(acc.width, 0)
        sign = "-" if attr.a.neg != attr.b.neg else ""
        for step in model.steps:
            acc = self._one_step(attr, model, acc, row_a, row_b, step, sign)
        if model.chain == "add":
            mode = FloatMode(model.acc_type)
            acc = engine.floats.op("fadd", mode, (start, acc))
        return acc

    def _one_step(self, attr: Mma, model: StepModel, acc: Node, row_a: Node, row_b: Node,
                  step: tuple[int, ...], sign: str) -> Node:
        forest = self.engine.forest
        a, b = self._part(row_a, step), self._part(row_b, step)
        zero = forest.literal(row_a.width, 0)
        if _all(a, zero) and _all(b, zero) and self._keeps(model, acc):
            return acc
        symmetric = "sum" if model.symmetric else "list"
        text = f"{model.id}|{model.a_type}|{model.b_type}|{sign}{symmetric}|{attr.denorm}"
        negative = acc.may_neg_zero or not model.never_makes_minus_zero
        return forest.make("mma", text, width=acc.width, args=(acc, a, b), extra=model,
                           may_neg_zero=negative)

    def _keeps(self, model: StepModel, acc: Node) -> bool:
        """Tell whether a step whose products are all zero leaves its accumulator as it is."""
        if model.kind in ("int", "int_sat"):
            return True
        kept = model.keeps_accumulator or self.engine.floats.literal(acc) == 0
        return kept and not acc.may_neg_zero and model.never_makes_minus_zero

    def _part(self, row: Node, step: tuple[int, ...]) -> Node:
        """Return the elements of one rounding step."""
        assert row.table is not None
        if len(step) == row.table.shape[0]:
            return row
        table = np.ascontiguousarray(row.table[list(step)])
        return krow(self.engine, list(row.args), table)

    # -- operands
    def _rows(self, attr: Mma, src: list[Any], is_a: bool, number: Table, index: list[Table]
              ) -> dict[bytes, Node] | None:
        """Return, for each table of row (or column) numbers, the operand's elements over k.

        index: takes the shared bytes that are read.
        """
        operand = attr.a if is_a else attr.b
        distinct = {number[:, e].tobytes(): number[:, e] for e in range(number.shape[1])}
        if operand.source == "regs":
            frag = operand.fragment
            assert frag is not None
            parts = self._register_parts(frag, src)
            return {k: self._from_registers(attr, frag, parts, is_a, lanes)
                    for k, lanes in distinct.items()}
        poly = self.engine.values.poly(self.engine.source(src[0]), 64)
        found = self.from_shared(operand, attr.k, poly.unsigned_const(self.engine.lanes),
                                 distinct) if poly.is_const else None
        if found is None:
            return None
        index.append(found[1])
        return found[0]

    def _register_parts(self, frag: Fragment, src: list[Any]) -> list[Node]:
        values = self.engine.values
        per = frag.reg_bits // frag.elem_bits
        out = []
        for e in range(frag.row.shape[1]):
            reg = self.engine.source(src[e // per])
            out.append(values.node(values.extract(reg, frag.elem_bits * (e % per),
                                                  frag.elem_bits)))
        return out

    def _from_registers(self, attr: Mma, frag: Fragment, parts: list[Node], is_a: bool,
                        number: Table) -> Node:
        name = (frag, number.tobytes(), is_a, attr.k, attr.lanes)
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = self._elements_of(attr, frag, is_a, number)
        return krow(self.engine, parts, table)

    def _elements_of(self, attr: Mma, frag: Fragment, is_a: bool, number: Table) -> Table:
        """Return which part of which lane holds each element, [k][lane][part, lane]."""
        inverse = self.inverse.get(frag)
        if inverse is None:
            shape = (greatest(frag.row) + 1, greatest(frag.col) + 1)
            lane_of, elem_of = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
            lane, elem = np.indices(frag.row.shape)
            lane_of[frag.row, frag.col], elem_of[frag.row, frag.col] = lane, elem
            inverse = self.inverse[frag] = (lane_of, elem_of)
        lane_of, elem_of = inverse
        k = np.arange(attr.k)[:, None]
        where = (number[None, :], k) if is_a else (k, number[None, :])
        first = np.arange(self.engine.lanes) // attr.lanes * attr.lanes
        return np.stack((elem_of[where], lane_of[where] + first[None, :]), axis=-1)

    def from_shared(self, operand: MatrixOperand, depth: int, desc: Any,
                    distinct: dict[bytes, Table], unit: str = "wgmma", issuer: int | None = None
                    ) -> tuple[dict[bytes, Node], Any] | None:
        """Return an operand's rows over k < depth by descriptor, and the bytes read.

        desc: one for each lane. issuer: the lane that reads for all; None: each for itself.
        """
        engine = self.engine
        placed = self._places(operand, depth, desc, distinct, unit)
        if placed is None:
            return None
        at, which, span = placed
        size, shared = _BYTES[operand.type], engine.memory.shared
        found = shared.elements(at, size, which, span, issuer)
        if found is None:
            return None
        sources, table = found
        parts = [engine.values.node(s) for s in sources]
        index = each_once(at[..., None] + np.arange(size))
        shared.busy[index] += 1
        return {name: krow(engine, parts, table.take(row, axis=1))
                for name, row in zip(distinct, which, strict=True)}, index

    def _places(self, operand: MatrixOperand, depth: int, desc: Any, distinct: dict[bytes, Table],
                unit: str) -> tuple[Table, Table, int] | None:
        """Return where elements [k][n] lie by descriptor, which n lanes read, bytes of a row."""
        name = operand, depth, desc.tobytes(), tuple(distinct), unit
        if name not in self.placed:
            self.placed[name] = self._placed(operand, depth, desc, distinct, unit)
        return self.placed[name]

    def _placed(self, operand: MatrixOperand, depth: int, desc: Any, distinct: dict[bytes, Table],
                unit: str) -> tuple[Table, Table, int] | None:
        engine = self.engine
        size = _BYTES.get(operand.type)
        if size is None:
            return None
        k = np.arange(depth, dtype=np.int64)[:, None]
        span = _span(desc, unit)
        numbers = np.stack(list(distinct.values()))
        # each row of each descriptor is looked up once, whichever lanes read it
        of_desc = np.unique(desc, return_inverse=True)[1].ravel()
        count = greatest(numbers) + 1
        _codes, first, which = np.unique((of_desc * count + numbers).ravel(), return_index=True,
                                         return_inverse=True)
        at = None if span is None else _descriptor_addresses(
            desc[first % engine.lanes], numbers.ravel()[first][None, :], k, size,
            operand.transposed, span)
        return None if at is None else (at, which.reshape(numbers.shape), span or 0)


def _all(row: Node, zero: Node) -> bool:
    return len(row.args) == 1 and row.args[0] is zero


def krow(engine: Engine, parts: list[Node], table: Table) -> Node:
    """Return elements over k: table [k][lane][part, lane]; parts that are not used drop."""
    flat = table[..., 0].ravel()
    first = np.full(len(parts), flat.size)
    first[flat[::-1]] = np.arange(flat.size - 1, -1, -1)  # of several the last one assigned stays
    places: dict[Node, int] = {}
    renumber = np.zeros(len(parts), dtype=np.int64)
    for i in first.argsort().tolist():  # in the order in which a row looks at them
        if first[i] == flat.size:
            break
        renumber[i] = places.setdefault(parts[i], len(places))
    used = list(places)
    table = table.copy()
    table[..., 0] = renumber.take(table[..., 0])
    return engine.forest.make("krow", str(table.shape[0]), width=used[0].width, args=used,
                              table=table)


def _span(desc: Any, unit: str) -> int | None:
    """Return the bytes of a row that descriptors permute (0: none), None: not modelled."""
    shift, table = (61, _TCGEN05) if unit == "tcgen05" else (62, _SWIZZLE)
    modes = np.unique(desc >> np.uint64(shift))
    if len(modes) != 1 or some((desc >> np.uint64(49)) & np.uint64(7)):
        return None
    return table.get(int(modes[0]))


def _descriptor_addresses(desc: Any, number: Table, k: Table, size: int, transposed: bool,
                          width: int) -> Table:
    """Byte address of element (number, k) under a matrix descriptor whose rows are `width` bytes.

    Without a swizzle (width 0) the two byte offsets swap their roles in MN-major operands.
    """
    start = ((desc & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)[None, :]
    leading = (((desc >> np.uint64(16)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    stride = (((desc >> np.uint64(32)) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    leading, stride = leading[None, :], stride[None, :]
    if transposed:
        at = number * size
        if width:
            out = start + at // width * leading + k // 8 * stride + k % 8 * width + at % width
        else:
            out = start + at // 16 * stride + k // 8 * leading + k % 8 * 16 + at % 16
    else:
        at = k * size
        if width:
            out = (start + number // 8 * stride + number % 8 * width + at // width * leading
                   + at % width)
        else:
            out = start + number // 8 * stride + at // 16 * leading + number % 8 * 16 + at % 16
    if width:
        bits = {128: 7, 64: 3, 32: 1}[width]
        out = out ^ (((out >> 7) & bits) << 4)
    return np.asarray(out, dtype=np.int64)

